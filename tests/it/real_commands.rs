//! Real programs on real files: what agents ask for all day, in a git checkout.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Members, Scratch, TestServer, eventually, is_alive, joined_lines, only};

/// What must come of a command.
#[derive(Debug, Clone)]
enum Expect {
    /// Exit code and exactly this on standard output.
    Out(i32, String),
    /// Exit code, and this somewhere in standard output.
    Has(i32, &'static str),
    /// Exit code, this exactly on standard output, and this somewhere on standard error.
    Err(i32, &'static str, &'static str),
    /// Killed by its time limit after this on standard output.
    TimedOut(&'static str),
    /// Killed by a signal.
    Signal(&'static str),
}

use Expect::{Err, Has, Out, Signal, TimedOut};

fn out(text: &str) -> Expect {
    Out(0, text.to_owned())
}

fn shell_commands() -> Vec<(&'static str, Expect)> {
    vec![
        // git
        ("git status --short", out("")),
        (
            "git status --porcelain=v2 --branch | grep '^# branch.head'",
            out("# branch.head main\n"),
        ),
        ("git log --oneline --format=%s", out("Second: plum\nFirst\n")),
        (
            "git log -1 --format='%an <%ae> %cI'",
            out("Tester <tester@example.test> 2026-01-02T03:04:05Z\n"),
        ),
        (
            "git rev-parse --is-inside-work-tree --abbrev-ref HEAD",
            out("true\nmain\n"),
        ),
        (
            "git diff HEAD~1 --stat | tail -n 1",
            out(" 1 file changed, 1 insertion(+)\n"),
        ),
        (
            "git diff HEAD~1 -- src/words.txt | grep '^[+-][^+-]'",
            out("+plum\n"),
        ),
        ("git show HEAD:src/words.txt | wc -l", out("5\n")),
        (
            "git ls-files -z | tr '\\0' '\\n' | LC_ALL=C sort",
            out("-dash.txt\nREADME.md\ndocs/grüße an alle.txt\ndocs/名前.txt\nsrc/main.py\nsrc/words.txt\n"),
        ),
        (
            "git grep -n needle -- '*.md'",
            out("README.md:3:needle in the readme\n"),
        ),
        ("git stash list && git branch --show-current", out("main\n")),
        (
            "git blame -s src/words.txt | tail -n 1 | cut -c 10-",
            out("5) plum\n"),
        ),
        ("git no-such-command", Err(1, "", "is not a git command")),
        ("git checkout no-such-branch", Err(1, "", "did not match")),
        // looking around
        ("ls", out("-dash.txt\nREADME.md\ndocs\nsrc\n")),
        ("ls -- -dash.txt", out("-dash.txt\n")),
        ("cat 'docs/grüße an alle.txt'", out("needle: Grüße\n")),
        ("cat docs/名前.txt", out("漢字\n")),
        (
            "find . -name '*.txt' -not -path './.git/*' | LC_ALL=C sort",
            out("./-dash.txt\n./docs/grüße an alle.txt\n./docs/名前.txt\n./src/words.txt\n"),
        ),
        (
            "find docs -type f -print0 | xargs -0 -n1 wc -c | wc -l",
            out("2\n"),
        ),
        (
            "grep -rn needle docs README.md | LC_ALL=C sort",
            out("README.md:3:needle in the readme\ndocs/grüße an alle.txt:1:needle: Grüße\n"),
        ),
        ("grep nothing-like-this README.md", Out(1, String::new())),
        ("grep needle no-such-file", Err(2, "", "No such file")),
        ("sort src/words.txt", out("apple\napple\nfig\npear\nplum\n")),
        (
            "sort src/words.txt | uniq -c | sort -rn | head -n 1",
            out("      2 apple\n"),
        ),
        (
            "sort -u src/words.txt | paste -sd, -",
            out("apple,fig,pear,plum\n"),
        ),
        ("wc -l < src/words.txt", out("5\n")),
        (
            "head -n 1 README.md; tail -n 1 README.md",
            out("# A project\nneedle in the readme\n"),
        ),
        ("sed -n 's/needle/pin/p' README.md", out("pin in the readme\n")),
        ("awk 'END { print NR }' src/words.txt", out("5\n")),
        ("tr a-z A-Z < src/words.txt | head -n 2", out("PEAR\nAPPLE\n")),
        ("printf '%s\\n' 'a  b' \"c'd\" 'e\"f'", out("a  b\nc'd\ne\"f\n")),
        ("diff README.md src/words.txt > /dev/null", Out(1, String::new())),
        ("du -a src | wc -l", out("3\n")),
        ("stat -c %s README.md", out("34\n")),
        (
            "tar cf - docs | tar tf - | LC_ALL=C sort | head -n 1",
            out("docs/\n"),
        ),
        (
            "gzip -c src/words.txt | gzip -dc | cmp - src/words.txt && echo same",
            out("same\n"),
        ),
        ("sha256sum -- -dash.txt | cut -c 1-8", out("f8359416\n")),
        // languages and tools
        ("cargo --version", Has(0, "cargo 1.")),
        (
            "rustc --version --verbose | grep '^release:'",
            Has(0, "release: 1."),
        ),
        ("python3 -c 'print(6 * 7)'", out("42\n")),
        (
            "python3 src/main.py one 'two three'",
            out("args ['one', 'two three']\n"),
        ),
        ("python3 -c 'import sys; sys.exit(9)'", Out(9, String::new())),
        (
            "python3 -c 'raise ValueError(\"odd\")'",
            Err(1, "", "ValueError: odd"),
        ),
        (
            "python3 -c 'import json; print(json.dumps({\"k\": [1, \"ü\"]}, ensure_ascii=False))'",
            out("{\"k\": [1, \"ü\"]}\n"),
        ),
        ("echo 'print(1 + 1)' | python3 -", out("2\n")),
        // shell
        (
            "for f in src/*; do echo \"$f\"; done",
            out("src/main.py\nsrc/words.txt\n"),
        ),
        ("cd src && pwd | sed 's|.*/||'", out("src\n")),
        ("x=5; echo $((x * 2))", out("10\n")),
        ("test -f README.md && echo there || echo gone", out("there\n")),
        ("echo one; false; echo two", out("one\ntwo\n")),
        ("set -e; echo one; false; echo two", Out(1, "one\n".to_owned())),
        (
            "echo visible; echo problem >&2; exit 42",
            Err(42, "visible\n", "problem"),
        ),
        ("cat <<'END'\n$HOME stays\nEND", out("$HOME stays\n")),
        ("(echo sub; exit 7); echo $?", out("sub\n7\n")),
        ("read answer; echo \"got: $answer, $?\"", Has(0, "got: , ")),
        (
            "seq 1 3 | while read n; do echo \"line $n\"; done",
            out("line 1\nline 2\nline 3\n"),
        ),
        ("sh -c 'echo $0 $1' name argument", out("name argument\n")),
        ("yes | head -n 3", out("y\ny\ny\n")),
        ("no-such-tool --help", Err(127, "", "not found")),
        ("./README.md", Err(126, "", "denied")),
        ("echo before; kill -SEGV $$", Signal("SIGSEGV")),
        ("echo started; sleep 300", TimedOut("started\n")),
        (
            "echo listening; cat < /dev/zero > /dev/null",
            TimedOut("listening\n"),
        ),
        (
            "nohup sh -c 'trap \"\" TERM INT; while :; do sleep 300; done' & echo out; sleep 300",
            TimedOut("out\n"),
        ),
    ]
}

fn direct_commands() -> Vec<(Vec<&'static str>, Expect)> {
    vec![
        (vec!["git", "log", "-1", "--format=%s"], out("Second: plum\n")),
        (vec!["cat", "docs/grüße an alle.txt"], out("needle: Grüße\n")),
        (vec!["printf", "%s|", "a b", "", "$x", "*"], out("a b||$x|*|")),
        (vec!["grep", "-c", "needle", "README.md"], out("1\n")),
        (vec!["sh", "-c", "exit 5"], Out(5, String::new())),
        (vec!["python3", "-c", "print('direct')"], out("direct\n")),
        (vec!["sleep", "300"], TimedOut("")),
        (vec!["./src/../README.md"], Err(-1, "", "")),
    ]
}

/// The toolchain that builds the tests, before the rest of PATH: its programs need no settings of the user.
fn path_with_toolchain() -> String {
    let toolchain = Path::new(env!("CARGO"))
        .parent()
        .expect("cargo lies in a directory");
    let rest = crate::support::inherited_path();
    format!("{}:{rest}", toolchain.display())
}

#[tokio::test]
async fn agents_get_from_real_programs_what_a_terminal_gives() {
    let server = TestServer::full()
        .env("PATH", &path_with_toolchain())
        .start()
        .await;
    let checkout = server.scratch().git_checkout();
    let count = try_all(&server, &checkout).await;
    assert!(count >= 40, "{count} commands");
}

/// Tries every command, and returns how many there were.
pub(crate) async fn try_all(server: &TestServer, checkout: &Path) -> usize {
    let commands = shell_commands()
        .into_iter()
        .map(|(text, expect)| (json!({ "command": text }), expect))
        .chain(
            direct_commands()
                .into_iter()
                .map(|(argv, expect)| (json!({ "argv": argv }), expect)),
        );
    let mut count = 0;
    for (mut body, expect) in commands {
        count += 1;
        body["workdir"] = json!(checkout);
        // A limit for every command, so that one that hangs fails here and not at the end of all patience. What runs into
        // it on purpose has to say something before.
        body["timeout"] = json!(if matches!(expect, TimedOut(_)) { 4 } else { 50 });
        body["yieldMs"] = json!(120_000);
        let answer = server.ran(body.clone()).await;
        check(&body, &answer, &expect);
    }
    count
}

#[track_caller]
fn check(body: &Value, answer: &Value, expect: &Expect) {
    let whole = format!("{body}\n{answer:#}");
    let code = |code: i32| match code {
        -1 => Value::Null,
        code => json!(code),
    };
    match expect {
        Out(exit, stdout) => {
            assert_eq!(
                (&answer["stdout"], &answer["exitCode"]),
                (&json!(stdout), &code(*exit)),
                "{whole}"
            );
        }
        Has(exit, part) => {
            assert_eq!(answer["exitCode"], code(*exit), "{whole}");
            assert!(
                answer["stdout"]
                    .as_str()
                    .is_some_and(|stdout| stdout.contains(part)),
                "{whole}"
            );
        }
        Err(exit, stdout, part) => {
            assert_eq!(
                (&answer["stdout"], &answer["exitCode"]),
                (&json!(stdout), &code(*exit)),
                "{whole}"
            );
            assert!(
                answer["stderr"]
                    .as_str()
                    .is_some_and(|stderr| stderr.contains(part)),
                "{whole}"
            );
        }
        TimedOut(stdout) => {
            let seen = only(answer, &["status", "timedOut", "stdout"]);
            assert_eq!(
                seen,
                json!({ "status": "failed", "timedOut": true, "stdout": stdout }),
                "{whole}"
            );
        }
        Signal(name) => {
            let seen = only(answer, &["status", "exitSignal", "exitCode"]);
            assert_eq!(
                seen,
                json!({ "status": "failed", "exitSignal": name, "exitCode": null }),
                "{whole}"
            );
        }
    }
    let completed = answer["exitCode"] == 0;
    assert_eq!(
        answer["status"],
        if completed { "completed" } else { "failed" },
        "{whole}"
    );
}

#[tokio::test]
async fn megabytes_of_output_arrive_whole() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let command =
        "python3 -c 'import sys\nfor n in range(200000): sys.stdout.write(\"%08d: ünïcode line\\n\" % n)'";
    let answer = agent.ran(json!({ "command": command, "yieldMs": 120_000 })).await;
    let whole = joined_lines((0..200_000).map(|n| format!("{n:08}: ünïcode line")));
    assert_has!(answer, { "truncated": true, "outputBytes": whole.len() });
    let kept = answer
        .text("aggregated")
        .strip_suffix("\n… (truncated)")
        .expect("it was cut");
    assert_eq!(kept.chars().count(), 200_000);
    assert!(whole.starts_with(kept));
    let raw = agent
        .get_bytes(&format!("/v1/runs/{}/output", answer.text("runId")), None)
        .await;
    assert!(
        raw.bytes == whole.as_bytes(),
        "{} bytes instead of {}",
        raw.bytes.len(),
        whole.len()
    );
}

#[tokio::test]
async fn a_server_started_in_the_background_runs_until_it_is_cancelled() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let checkout = server.scratch().git_checkout();
    let port_file = server.scratch().join("port");
    let script = server.scratch().join("serve.py");
    crate::support::write_file(
        &script,
        "import http.server, os, sys\n\
         s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
         open(sys.argv[1] + '.new', 'w').write(f'{s.server_port} {os.getpid()}')\n\
         os.rename(sys.argv[1] + '.new', sys.argv[1])\n\
         s.serve_forever()\n",
    );
    let body = json!({ "argv": ["python3", script, port_file], "workdir": checkout, "background": true });
    let started = agent.accepted(body).await;
    let read = || std::future::ready(std::fs::read_to_string(&port_file).unwrap_or_default());
    let told = eventually("listening", read, |told| !told.is_empty()).await;
    let (port, pid) = told.split_once(' ').unwrap();
    countersign_config::tls::install_provider();
    let page = reqwest::get(format!("http://127.0.0.1:{port}/README.md"))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(page.contains("needle"));
    let run_id = started.text("runId");
    agent.cancel(run_id).await;
    assert_eq!(agent.finished(run_id).await["status"], "cancelled");
    assert!(!is_alive(pid.parse().unwrap()), "what was cancelled is gone");
}

#[tokio::test]
async fn the_same_commands_work_through_an_allowlist() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [
        { "pattern": "/**/git" }, { "pattern": "/usr/bin/*" }, { "pattern": "/bin/*" },
    ] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let checkout: PathBuf = Scratch::git_checkout(server.scratch());
    for (command, stdout) in [
        ("git log -1 --format=%s", "Second: plum\n"),
        ("cat 'docs/grüße an alle.txt' | tr a-z A-Z", "NEEDLE: GRüßE\n"),
        ("grep -rn needle docs README.md | wc -l", "2\n"),
        (
            "sort src/words.txt | uniq -c | sort -rn | head -n 1",
            "      2 apple\n",
        ),
        ("cd src && pwd | tail -c 4", "src\n"),
        ("grep -q needle README.md && echo yes || echo no", "yes\n"),
        ("grep -q nonsense README.md && echo yes || echo no", "no\n"),
        (
            "printf '%s\\n' \"it's\" 'a \"b\"' 'c\\d'",
            "it's\na \"b\"\nc\\d\n",
        ),
    ] {
        let answer = server
            .agent()
            .exec(json!({ "command": command, "workdir": checkout }))
            .await;
        assert_eq!(answer.expect(200)["stdout"], stdout, "{command}");
    }
}
