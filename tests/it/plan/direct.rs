//! Under `full`, where nobody is asked, a text that a shell would only find a program for starts that program without the
//! shell. What runs is the same: tests run texts both ways and compare what a program sees, writes and ends with.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use countersign_sys::hooks;
use serde_json::{Value, json};

use crate::{
    oracles::{Chance, chance, wanted},
    support::{
        Invocation, Members, Scratch, ServerBuilder, TestServer, eventually, only, program, run_program,
        skip, write_file, write_file_mode,
    },
};

/// Shows everything that it got from what started it, and ends as its last argument says.
const PROBE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
static void show(const char *what, const char *text) {
    printf("%s: ", what);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '\\') printf("\\x%02x", byte); else putchar(byte);
    }
    putchar('\n');
}
static int order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static void lines(const char *path, const char *const *wanted) {
    char line[4096];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        for (const char *const *prefix = wanted; *prefix; prefix++)
            if (strncmp(line, *prefix, strlen(*prefix)) == 0) show("is", line);
    }
    if (file) fclose(file);
}
int main(int argc, char **argv) {
    char text[4096];
    for (int i = 0; i < argc; i++) show("argument", argv[i]);
    size_t count = 0;
    while (environ[count]) count++;
    qsort(environ, count, sizeof *environ, order);
    for (size_t i = 0; i < count; i++) show("variable", environ[i]);
    show("directory", getcwd(text, sizeof text) ? text : "?");
    ssize_t length = readlink("/proc/self/exe", text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    show("program", text);
    snprintf(text, sizeof text, "/proc/%d/comm", getppid());
    lines(text, (const char *const[]){"", 0});
    printf("leads: %d %d\n", getsid(0) == getpid(), getpgrp() == getpid());
    for (int i = 0; i < 3; i++) printf("terminal %d: %d %d\n", i, isatty(i), tcgetpgrp(i) == getpid());
    lines("/proc/self/status", (const char *const[]){"SigPnd", "SigBlk", "SigIgn", "SigCgt", "ShdPnd", "NoNewPrivs", "Seccomp", "Cap", "Umask", "Uid",
        "Gid", "Groups", 0});
    int parent_death = 0, reaper = 0;
    prctl(PR_GET_PDEATHSIG, &parent_death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    printf("ends with its parent: %d, reaps: %d, nice: %d\n", parent_death, reaper, getpriority(PRIO_PROCESS, 0));
    for (int i = 0; i < 4096; i++) {
        struct stat stat;
        if (fstat(i, &stat) == 0)
            printf("descriptor %d: type %o, flags %o\n", i, stat.st_mode & S_IFMT, fcntl(i, F_GETFL));
    }
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit(i, &limit) == 0) printf("limit %d: %ld %ld\n", i, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    fflush(stdout);
    const char *end = argc > 1 ? argv[argc - 1] : "";
    if (strncmp(end, "exit=", 5) == 0) return atoi(end + 5);
    if (strncmp(end, "signal=", 7) == 0) raise(atoi(end + 7));
    if (strcmp(end, "read") == 0) { while (read(0, text, sizeof text) > 0) {} puts("end of file"); }
    fprintf(stderr, "done\n");
    return 0;
}
"#;

/// Programs of all kinds, and a directory to run them in.
struct Stage {
    scratch: Scratch,
}

impl Stage {
    /// `None` where there is no C compiler.
    fn set() -> Option<Self> {
        let compiler = program("cc")?;
        let scratch = Scratch::new();
        let source = scratch.join("probe.c");
        write_file(&source, PROBE);
        let (first, bin, work) = (scratch.dir("first"), scratch.dir("bin"), scratch.dir("work"));
        let probe = bin.join("probe");
        let compile = Invocation::new(compiler)
            .args(&["-O1", "-o"])
            .arg(&probe)
            .arg(&source);
        let compiled = run_program(&compile);
        assert_eq!(compiled.code, Some(0), "{compiled:?}");
        fs::copy(&probe, work.join("here")).unwrap();
        fs::create_dir(work.join("sub")).unwrap();
        fs::copy(&probe, work.join("sub/deep")).unwrap();
        symlink(&probe, bin.join("linked")).unwrap();
        // Its name is one that a shell knows by itself.
        fs::copy(&probe, bin.join("printf")).unwrap();
        for (name, mode, content) in [
            ("bin/script", 0o755, "#!/bin/sh\necho \"script $0 $*\"\nexit 5\n"),
            ("bin/headless", 0o755, "echo \"headless $0 $*\"\nexit 6\n"),
            ("bin/lost", 0o755, "#!/no/such/interpreter\n"),
            ("bin/broken", 0o755, "\u{7f}ELF no program\n"),
            ("bin/empty", 0o755, ""),
            ("bin/plain", 0o644, "#!/bin/sh\necho plain\n"),
            // Not executable, and found before one that is.
            ("first/twice", 0o644, "#!/bin/sh\necho first\n"),
            ("bin/twice", 0o755, "#!/bin/sh\necho twice\n"),
        ] {
            write_file_mode(&scratch.join(name), content, mode);
        }
        fs::create_dir(first.join("behind")).unwrap();
        fs::copy(&probe, bin.join("behind")).unwrap();
        symlink("nowhere", first.join("script")).unwrap();
        Some(Self { scratch })
    }

    fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    fn path(&self) -> String {
        let of = |name| self.scratch.join(name).display().to_string();
        format!("{}:{}/:{}", of("none"), of("first"), of("bin"))
    }

    /// A server with this shell.
    fn server(&self, shell: &Path, direct: &str) -> ServerBuilder {
        TestServer::full()
            .env("HOME", self.scratch.path().to_str().unwrap())
            .env("PATH", &self.path())
            .env("COUNTERSIGN_EXEC__SHELL", shell.to_str().unwrap())
            .env("COUNTERSIGN_EXEC__DIRECT", direct)
    }
}

/// bash, by its own name and as `sh`.
fn shells(scratch: &Scratch) -> Option<Vec<PathBuf>> {
    let bash = program("bash")?;
    let as_sh = scratch.dir("as").join("sh");
    symlink(&bash, &as_sh).unwrap();
    Some(vec![bash, as_sh])
}

/// What a caller gets of a run, and how its text was started.
async fn outcome(server: &TestServer, body: &Value) -> (Value, Value) {
    let answer = server.agent().exec(body.clone()).await.json();
    let members = [
        "status",
        "exitCode",
        "exitSignal",
        "timedOut",
        "stdout",
        "stderr",
        "reason",
    ];
    let run = server.agent().finished(answer.text("runId")).await;
    let seen = json!({ "answer": only(&answer, &members), "run": only(&run, &members), "cwd": run["cwd"] });
    (seen, run["start"].clone())
}

/// Runs texts by two servers, which start them with and without the shell, and compares.
struct Pair {
    direct: TestServer,
    by_shell: TestServer,
    directly_started: usize,
}

impl Pair {
    async fn start(stage: &Stage, shell: &Path, env: &[(&str, &str)]) -> Self {
        let of = |direct| {
            let server = stage.server(shell, direct);
            env.iter()
                .fold(server, |server, (name, value)| server.env(name, value))
        };
        Self {
            direct: of("auto").start().await,
            by_shell: of("off").start().await,
            directly_started: 0,
        }
    }

    /// How a text was started, which did not matter.
    async fn same(&mut self, body: &Value) -> Value {
        let (direct, start) = outcome(&self.direct, body).await;
        let (by_shell, always) = outcome(&self.by_shell, body).await;
        assert_eq!(always, "shell", "{body}");
        assert_eq!(direct, by_shell, "{body} started {start}");
        self.directly_started += usize::from(start == "direct");
        start
    }
}

#[tokio::test]
async fn what_starts_without_a_shell_is_what_the_shell_would_have_started() {
    let Some(stage) = Stage::set() else {
        return skip("there is no C compiler");
    };
    let Some(shells) = shells(&stage.scratch) else {
        return skip("there is no bash");
    };
    let deep = stage.work().join("sub/deep");
    let cases = [
        ("probe", "direct"),
        ("probe ''  'a b' \"c\" d\\ e -- --x -y", "direct"),
        (" \tprobe a\t \n", "direct"),
        ("probe 'two\nlines' \"$\"", "direct"),
        ("probe 'two\nlines' '$x' '*' '~'", "direct"),
        ("'probe' exit=7", "direct"),
        ("probe signal=15", "direct"),
        ("probe signal=9", "direct"),
        ("probe signal=13", "direct"),
        ("probe read", "direct"),
        ("./here a", "direct"),
        ("sub/deep b", "direct"),
        ("sub/../here c", "direct"),
        (&format!("{} d", deep.display()), "direct"),
        ("linked", "direct"),
        ("script a b", "direct"),
        // It is found, and cannot be executed: the shell knows what to do or to say.
        ("headless a b", "shell"),
        ("lost", "shell"),
        ("broken", "shell"),
        ("empty", "shell"),
        ("plain", "shell"),
        ("twice", "shell"),
        ("behind", "shell"),
        ("./sub", "shell"),
        ("/", "shell"),
        ("./here/x", "shell"),
        // It is not found.
        ("no-such-program-anywhere a", "shell"),
        ("./no-such-program", "shell"),
        ("..", "shell"),
        // The shell knows it by itself, or has more to do.
        ("printf x", "shell"),
        ("true", "shell"),
        ("/bin/true", "direct"),
        ("[ a = b ]", "shell"),
        ("kill -9 $$", "shell"),
        ("exit 3", "shell"),
        ("cd sub", "shell"),
        ("probe; probe", "shell"),
        ("probe;", "shell"),
        ("probe && probe", "shell"),
        ("probe | cat", "shell"),
        ("probe 2>&1", "shell"),
        ("probe # a", "shell"),
        ("X=1 probe", "shell"),
        ("probe *", "shell"),
        ("probe {a,b}", "shell"),
        ("probe ~", "shell"),
        ("probe $HOME", "shell"),
        ("probe caf\u{e9}", "shell"),
        ("-probe", "shell"),
        ("+x", "shell"),
        ("'probe a'", "shell"),
        ("probe 'a", "shell"),
    ];
    for shell in shells {
        let inherited = [
            ("SHLVL", "4"),
            ("_", "/the/servers/own"),
            ("PWD", "/elsewhere"),
            ("OLDPWD", "/tmp"),
            ("EMPTY", ""),
            ("LANG", "xx_YY.UTF-8"),
            ("PS3", "?"),
        ];
        let mut pair = Pair::start(&stage, &shell, &inherited).await;
        for (text, expected) in cases {
            let body = json!({ "command": text, "workdir": stage.work() });
            let start = pair.same(&body).await;
            assert_eq!(start, expected, "{}: {text:?}", shell.display());
        }
        for (more, expected) in [
            (json!({ "env": { "A": "b c", "EMPTY": "x" } }), "direct"),
            (json!({ "env": { "_": "mine", "SHLVL": "7" } }), "direct"),
            (json!({ "env": { "PWD": "/tmp" } }), "shell"),
            (json!({ "pty": true }), "direct"),
            (json!({ "timeout": 100 }), "direct"),
        ] {
            let mut body = json!({ "command": "probe a", "workdir": stage.work() });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let start = pair.same(&body).await;
            assert_eq!(start, expected, "{}: {body}", shell.display());
        }
    }
}

#[tokio::test]
async fn generated_commands_are_the_same_with_and_without_the_shell() {
    let Some(stage) = Stage::set() else {
        return skip("there is no C compiler");
    };
    let Some(shells) = shells(&stage.scratch) else {
        return skip("there is no bash");
    };
    let mut chance = chance();
    for shell in shells {
        // Without a level of the shell, and without a variable `_`.
        let mut pair = Pair::start(&stage, &shell, &[]).await;
        let count = wanted(40);
        for _ in 0..count {
            let body = json!({ "command": generated(&mut chance), "workdir": stage.work() });
            pair.same(&body).await;
        }
        assert!(
            pair.directly_started > count / 4,
            "{} of {count}",
            pair.directly_started
        );
    }
}

/// One command, mostly simple, with words of all kinds.
fn generated(chance: &mut Chance) -> String {
    let mut text = String::new();
    if chance.one_in(6) {
        text.push(chance.character(" \t"));
    }
    let name = chance.pick(&[
        "probe", "probe", "probe", "./here", "sub/deep", "linked", "script", "headless", "lost", "plain",
        "none", "echo", "printf",
    ]);
    text.push_str(&quoted(chance, name));
    for _ in 0..chance.below(5) {
        let mut word = String::new();
        for _ in 0..chance.below(7) {
            word.push(chance.character("aZ09 -+_=.,:@%^/\n\t\"'\\$`*?[]{}~!#&|;<>()"));
        }
        let blanks = chance.pick(&[" ", "  ", "\t"]);
        write!(text, "{blanks}{}", quoted(chance, &word)).unwrap();
    }
    if chance.one_in(8) {
        text.push_str(chance.pick(&[" ", "\n", ";", " \n", "\n\n", " # x", " &&", " \\\n"]));
    }
    text
}

/// A word as it may be written, mostly so that it means itself.
fn quoted(chance: &mut Chance, word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"./-_".contains(&byte));
    match chance.below(8) {
        0 if !word.contains('\n') => word.chars().fold(String::new(), |mut text, character| {
            text.extend(['\\', character]);
            text
        }),
        1 if !word.contains(['"', '\\', '$', '`', '!']) => format!("\"{word}\""),
        // As it stands, but for files and for what runs beside each other and ends in any order.
        2 if chance.one_in(4) && !word.contains(['>', '<', '&', '|']) => word.to_owned(),
        3..=6 if is_plain => word.to_owned(),
        _ => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[tokio::test]
async fn what_is_explained_is_what_happens() {
    let server = TestServer::full()
        .env("COUNTERSIGN_EXEC__SHELL", "/bin/bash")
        .start()
        .await;
    for (command, start, why) in [
        ("cat /dev/null", "direct", "only find the program"),
        ("cat /dev/null; :", "shell", "one simple command"),
        ("echo a", "shell", "echo"),
        ("cat 'caf\u{e9}'", "shell", "ASCII"),
    ] {
        let explained = server.agent().explain(json!({ "command": command })).await;
        assert_eq!(explained["start"], start, "{explained}");
        explained.says("startDetail", why);
        let run = server.ran(json!({ "command": command })).await;
        let run = server.agent().run(run.text("runId")).await;
        assert_eq!(run["start"], start, "{run}");
        let shown = server.cli(&["runs", "show", run.text("runId")]).await;
        shown.says(format!("{start}\n"));
    }
    // Arguments are never read by a shell.
    let argv = json!({ "argv": ["cat", "/dev/null"] });
    assert_eq!(server.agent().explain(argv.clone()).await.get("start"), None);
    let run = server.ran(argv).await;
    assert_eq!(server.agent().run(run.text("runId")).await.get("start"), None);
    // Nor is what is denied started.
    let denied = json!({ "command": "cat /dev/null", "security": "deny" });
    assert_eq!(server.agent().explain(denied).await.get("start"), None);
}

#[tokio::test]
async fn the_setting_counts_from_now_on() {
    let server = TestServer::full().env("SHELL", "/bin/bash").start().await;
    let start = async || {
        let run = server.ran(json!({ "command": "cat /dev/null" })).await;
        server.agent().run(run.text("runId")).await["start"].clone()
    };
    assert_eq!(start().await, "direct");
    server.edit_toml("[exec]\nlogin_path = false\ndirect = \"off\"\n");
    eventually("the shell starts it", &start, |start| start == "shell").await;
    let explained = server
        .agent()
        .explain(json!({ "command": "cat /dev/null" }))
        .await;
    explained.says("startDetail", "exec.direct is off");
}

#[tokio::test]
async fn a_shell_that_would_read_files_or_is_not_known_starts_every_text() {
    let scratch = Scratch::new();
    let called = |name: &str, target: &str| {
        let link = scratch.join(name);
        symlink(target, &link).unwrap();
        link.display().to_string()
    };
    write_file_mode(
        &scratch.dir("script").join("sh"),
        "#!/bin/sh\nexec /bin/bash \"$@\"\n",
        0o755,
    );
    let script = scratch.join("script/sh").display().to_string();
    for (shell, variable) in [
        (called("rbash", "/bin/bash"), None),
        (called("dash", "/bin/dash"), None),
        (script, None),
        ("/bin/bash".to_owned(), Some(("SSH_CLIENT", "192.0.2.1 1 22"))),
        ("/bin/bash".to_owned(), Some(("LC_ALL", "xx_YY.UTF-8"))),
        ("/bin/bash".to_owned(), Some(("SHLVL", "999"))),
        ("/bin/bash".to_owned(), Some(("not-a-name", "1"))),
        ("/bin/bash".to_owned(), Some(("BASH_COMPAT", "4.2"))),
        ("/bin/bash".to_owned(), Some(("POSIXLY_CORRECT", "1"))),
    ] {
        let mut server = TestServer::full().env("COUNTERSIGN_EXEC__SHELL", &shell);
        if let Some((name, value)) = variable {
            server = server.env(name, value);
        }
        let server = server.start().await;
        let run = server.ran(json!({ "command": "cat /dev/null" })).await;
        let run = server.agent().run(run.text("runId")).await;
        assert_eq!(run["start"], "shell", "{shell} {variable:?}");
    }
}

#[tokio::test]
async fn what_a_person_answered_for_is_started_by_the_shell() {
    let config = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let document = json!({ "version": 1, "defaults": { "security": "full", "ask": "always" } });
    let server = TestServer::asking()
        .exec(&config)
        .document(&document)
        .env("SHELL", "/bin/bash")
        .start()
        .await;
    let explained = server
        .agent()
        .explain(json!({ "command": "cat /dev/null" }))
        .await;
    assert_eq!(explained["start"], "shell", "{explained}");
    explained.says("startDetail", "an answer covers");
    let pending = server.asked(json!({ "command": "cat /dev/null" })).await;
    let run = server.answered(&pending, "allow-once").await;
    assert_has!(run, { "status": "completed", "start": "shell" });
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_program_that_goes_or_comes_before_the_start_is_found_as_the_shell_finds_it() {
    let pauses = Scratch::new();
    let bins = Scratch::new();
    let (first, second) = (bins.dir("first"), bins.dir("second"));
    let server = TestServer::full()
        .env("SHELL", "/bin/bash")
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .env("PATH", &format!("{}:{}", first.display(), second.display()))
        .start()
        .await;
    let (point, reached) = (pauses.join("engine.judged"), pauses.join("engine.judged.reached"));
    let tool = |directory: &Path, says: &str| {
        write_file_mode(
            &directory.join("tool"),
            format!("#!/bin/sh\necho {says}\n"),
            0o755,
        );
    };
    let run = async |change: &dyn Fn()| {
        write_file(&point, "");
        let mut run = std::pin::pin!(server.ran(json!({ "command": "tool" })));
        let stands = eventually(
            "the run stands",
            || async { reached.exists() },
            |reached| *reached,
        );
        tokio::select! {
            () = async { stands.await; } => {}
            ended = &mut run => panic!("it did not stand still: {ended}"),
        }
        change();
        fs::remove_file(&reached).unwrap();
        let answer = run.await;
        let start = server.agent().run(answer.text("runId")).await["start"].clone();
        (answer, start)
    };
    tool(&second, "second");
    let (answer, start) = run(&|| tool(&first, "first")).await;
    assert_eq!((&answer["stdout"], &start), (&json!("first\n"), &json!("direct")));
    let (answer, start) = run(&|| fs::remove_file(first.join("tool")).unwrap()).await;
    assert_eq!(
        (&answer["stdout"], &start),
        (&json!("second\n"), &json!("direct"))
    );
    let (answer, start) = run(&|| fs::remove_file(second.join("tool")).unwrap()).await;
    assert_eq!((&answer["exitCode"], &start), (&json!(127), &json!("shell")));
    answer.says("stderr", "tool: command not found");
}
