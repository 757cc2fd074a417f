//! Texts that are read in place of the input (G12) are those that `bash`, `dash` and `zsh` make of them, and only programs to
//! which they are data get them.

use serde_json::json;

use super::{
    asked_about, everything_covered,
    lists::{by_plan, by_shell},
    shells,
};
use crate::support::{ServerBuilder, TestServer, write_file_mode};

/// Read by every shell.
const DOCUMENTS: [&str; 24] = [
    "cat <<'EOF'\na $HOME `id` \\\n'b' \"c\"\nEOF",
    "cat <<\"EOF\"\n$(id) ${x}\\$\nEOF\n",
    "cat <<\\EOF\n$HOME\\\nEOF\n",
    "cat << EOF\nplain ~ * {a,b} !x 'y \"z # no comment\nEOF",
    "cat <<EOF\nEOF",
    "cat <<'EOF'\n\n\nEOF\necho after",
    "cat <<-'EOF'\n\t\ta\n\t b\n  \tc\n\tEOF\necho after",
    "cat <<-EOF\n\ta\n\t\n\t\tEOF\n",
    "cat <<'EOF'\nEOF \n EOF\nEOFF\n\tEOF\nxEOF\nEOF",
    "cat - /dev/null <<'EOF' # not 'this\nx\nEOF",
    "cat <<'EOF' | tr a-z A-Z | sort -r\nb\na\nEOF\necho after",
    "cat <<'A'; cat <<'B'\n1\nA\n2\nB\n",
    "cat <<'A' && cat <<-B || echo no\n1\nB\nA\n\t2\n\tB\n",
    "cat <<'EOF' &&\nx\nEOF\necho yes",
    "cat <<'EOF' |\nx\nEOF\nwc -l",
    "grep -c x <<'EOF' || echo none\na\nEOF",
    "grep -f - words <<'EOF'\nb\nEOF",
    "timeout 5 cat <<'EOF'\nx\nEOF",
    "LC_ALL=C sort <<'EOF' 2>&1\nb\na\nEOF",
    "tee copy <<'EOF' >/dev/null; cat copy\nkept\nEOF",
    "sh -c 'cat <<\"EOF\"\na $b\nEOF\necho after' | cat",
    "cat nothing - <<'EOF' 2>&1\nx\nEOF",
    "cat <<'EOF'\nx\nEOF\necho 'a\nb'; cat <<'EOF'\ny\nEOF\n",
    "sh -c \"cat <<'A' |\n1\nA\ngrep '1\nx' && cat <<'B'\n2\nB\n\"",
];

/// `dash` has none of these.
const STRINGS: [&str; 6] = [
    "cat <<<'a $b'",
    "cat <<< word - /dev/null",
    "wc -c <<<\"two words\" | tr -d ' '",
    "cat <<<'two\nlines'; echo after",
    "cat <<<''",
    "cat <<<{a} && cat <<'EOF'\nx\nEOF",
];

fn reading(ask: &str) -> ServerBuilder {
    ServerBuilder::new(&json!({
        "host": "gateway", "security": "allowlist", "ask": ask,
        "reads": { "nullRedirections": true, "hereDocuments": true },
    }))
}

#[tokio::test]
async fn a_text_is_what_shells_make_of_it() {
    let Some(shells) = shells() else { return };
    let server = reading("off").document(&everything_covered()).start().await;
    let directory = server.scratch().dir("texts");
    write_file_mode(&directory.join("words"), "a\nb\nc\n", 0o644);
    // More than a pipe of one page takes.
    let long = format!("wc <<'EOF' | tr -s ' '\n{}EOF", "0123456 \n".repeat(800));
    let documents = DOCUMENTS.into_iter().chain([long.as_str()]);
    let cases = documents
        .map(|text| (text, &shells[..]))
        .chain(STRINGS.map(|text| (text, &["bash", "zsh"][..])));
    for (text, shells) in cases {
        let planned = by_plan(&server, text, &directory).await;
        for shell in shells {
            assert_eq!(planned, by_shell(shell, text, &directory), "{shell}: {text}");
        }
    }
}

/// Each would make `marker`, were it run. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn what_is_more_than_data_is_asked_about() {
    let programs = [
        "cat", "wc", "sort", "grep", "python3*", "sh", "dash", "bash", "xargs", "sed", "awk", "mawk", "gawk",
    ];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .collect();
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
    let server = reading("off").document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let directory = server.scratch().dir("attacks");
    let marker = directory.join("marker");
    // A program that is called like one that reads data.
    write_file_mode(&directory.join("cat"), "#!/bin/sh\nexec sh\n", 0o755);
    for text in [
        "sh <<'E'\ntouch marker\nE",
        "sh -s <<'E'\ntouch marker\nE",
        "bash <<<'touch marker'",
        "timeout 5 sh <<'E'\ntouch marker\nE",
        "sh -c 'sh <<\"E\"\ntouch marker\nE'",
        "sh -c sh <<'E'\ntouch marker\nE",
        "python3 <<'E'\nopen('marker', 'w')\nE",
        "python3 - <<'E'\nopen('marker', 'w')\nE",
        "python3 /dev/stdin <<<'open(\"marker\", \"w\")'",
        "xargs touch <<<marker",
        "sed -n -f - words <<'E'\nw marker\nE",
        "awk -f - words <<'E'\nBEGIN { print > \"marker\" }\nE",
        "./cat <<'E'\ntouch marker\nE",
        "cat <<'E' | sh\ntouch marker\nE",
        "cat <<E\n$(touch marker)\nE",
        "cat <<E\n`touch marker`\nE",
        "cat <<-E\n\tx\\\n\tE\n$(touch marker)\n\tE",
        "cat <<'E'\nx\nE\ntouch marker",
        "cat <<'E'; touch marker\nx\nE",
        "cat <<'E' \"\nE\n\"; touch marker\nE",
        "cat <<'E' \\\nx\nE\ntouch marker\nE",
        "cat <<'E' >marker\nx\nE",
        "cat <<<\"$(touch marker)\"",
        "cat <<<x <(touch marker)",
        "sort --files0-from=- <<<x",
        "cat 3<<'E'\nx\nE",
        "cat <<'E'\nno end",
    ] {
        let answer = server
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
        assert!(!marker.exists(), "{text}");
    }
    for text in [
        "cat <<'E'\ntouch marker\n$(touch marker)\nE",
        "timeout 5 cat <<'E'\ntouch marker\nE",
        "sh -c 'cat <<\"E\"\ntouch marker\nE'",
        "cat <<<'touch marker'",
        "cat <<'E' | grep -c touch\ntouch marker\nE",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        assert!(!marker.exists(), "{text}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
    }
}

/// Deny rules cannot look at what an interpreter is given, so that a person has to.
#[tokio::test]
async fn deny_rules_are_not_passed_by_a_text() {
    let document = json!({ "version": 1, "agents": { "main": {
        "allowlist": [{ "pattern": "*" }], "denylist": [{ "pattern": "touch" }],
    } } });
    let server = reading("off").document(&document).start().await;
    let directory = server.scratch().dir("denied");
    for text in [
        "sh <<'E'\ntouch marker\nE",
        "python3 - <<'E'\nopen('marker', 'w')\nE",
    ] {
        let answer = server
            .agent()
            .exec(json!({ "command": text, "workdir": directory, "security": "full" }))
            .await;
        answer.problem(403, "exec-denied");
        assert!(!directory.join("marker").exists(), "{text}");
    }
    let harmless = "cat <<'E'\ntouch marker\nE";
    let run = server
        .ran(json!({ "command": harmless, "workdir": directory }))
        .await;
    assert_has!(run, { "exitCode": 0, "stdout": "touch marker\n" });
}

/// What is shown and bound holds the text: another one is another command.
#[tokio::test]
async fn a_question_is_about_its_text_too() {
    let server = reading("on-miss")
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let mut digests = Vec::new();
    for said in ["one", "two"] {
        let text = format!("cat <<'EOF'\n{said}\nEOF");
        let (asked, digest) = asked_about(&server, &text).await;
        digests.push(digest);
        let run = server.answered(&asked, "allow-once").await;
        assert_has!(run, { "status": "completed", "stdout": format!("{said}\n") }, "{text}");
    }
    digests.dedup();
    assert_eq!(digests.len(), 2);
}
