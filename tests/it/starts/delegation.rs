//! What programs start by their own rules (D1): kept by the text alone, by the kernel alone, and by neither.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::table::{WIDTH, copied, lines};
use crate::support::{
    Invocation, Members, ServerBuilder, TestServer, inherited_path, program, run_program, write_file,
    write_file_mode,
};

/// A command of the table.
#[derive(Debug)]
struct Row {
    program: String,
    command: String,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// The text and the kernel each keep it.
    Kept,
    /// The text alone keeps it.
    Open,
    /// The kernel alone keeps it.
    Code,
}

/// The commands, and the programs of which none starts another.
fn table() -> (Vec<Row>, BTreeSet<String>) {
    let mut rows = Vec::new();
    let mut none = BTreeSet::new();
    for line in lines("delegation.txt") {
        let (head, command) = line.split_once(": ").expect("PROGRAM: COMMAND");
        let (kind, program) = head.split_once(' ').unwrap_or(("", head));
        let kind = match kind {
            "" => Kind::Kept,
            "open" => Kind::Open,
            "code" => Kind::Code,
            "none" => {
                for program in program.split(',') {
                    assert!(none.insert(program.to_owned()), "{program} twice");
                }
                continue;
            }
            _ => panic!("{line}"),
        };
        rows.push(Row {
            program: program.to_owned(),
            command: command.to_owned(),
            kind,
        });
    }
    (rows, none)
}

/// What the commands find in their directory.
fn fill(directory: &Path) {
    for below in [
        "hooks",
        "gnupg",
        "compiler",
        "dpkg",
        "apt/etc/apt/apt.conf.d",
        "apt/var/lib/apt/lists/partial",
        "apt/var/cache/apt/archives/partial",
        "src",
        "sub",
    ] {
        fs::create_dir_all(directory.join(below)).unwrap();
    }
    let big: String = (0..20_000).fold(String::new(), |text, at| {
        format!("{text}{}\n", (at * 7919) % 20_011)
    });
    let kube = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "users": [{ "name": "a", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./run", "interactiveMode": "Never",
        } } }],
    });
    for (name, content) in [
        ("file", "TODO: a\n"),
        ("big", &*big),
        ("ssh.conf", "Host *\n  ProxyCommand ./run\n"),
        ("Makefile", "all:\n\t@touch marker\n"),
        ("page.1", ".TH page 1\n.SH NAME\npage \\- a page\n"),
        ("commands.vim", "!touch marker\nqa!\n"),
        ("script.cmake", "execute_process(COMMAND touch marker)\n"),
        ("kube.json", &kube.to_string()),
        ("commands.sql", ".shell touch marker\n"),
        ("params", "%no-protection\nKey-Type: RSA\nName-Real: a\n%commit\n"),
        ("system.roff", ".sy touch marker\n"),
        ("commands.awk", "BEGIN { system(\"touch marker\") }\n"),
        ("commands.sed", "1e touch marker\n"),
        (
            ".gitmodules",
            "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n",
        ),
        ("x.c", "int main(void) { return 0; }\n"),
        ("x.rs", "fn main() {}\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\n"),
        (
            "package.json",
            "{ \"name\": \"a\", \"version\": \"1.0.0\", \"scripts\": { \"mark\": \"touch marker\" } }\n",
        ),
        (
            "setup.py",
            "import os\nos.system('touch ' + os.path.dirname(os.path.abspath(__file__)) + '/marker')\n",
        ),
    ] {
        write_file(&directory.join(name), content);
    }
    write_file_mode(
        &directory.join("run"),
        "#!/bin/sh\ntouch \"${0%/*}/marker\"\nexit 1\n",
        0o755,
    );
    for name in ["git-mark", "hooks/pre-commit", "compiler/as", "compiler/cc1"] {
        write_file_mode(&directory.join(name), HOOK, 0o755);
    }
    for command in [
        "git init --quiet --initial-branch=main .",
        "git config user.name a",
        "git config user.email a@b",
        "git -C sub init --quiet",
        "git -C sub -c user.name=a -c user.email=a@b commit --quiet --allow-empty --message first",
        "git add big",
        "git commit --quiet --message first",
        "git add file .gitmodules sub",
        "git commit --quiet --message second",
        "git submodule --quiet init",
        "tar --create --file archive.tar file",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let done = run_program(&Invocation::new(words[0]).args(&words[1..]).cwd(directory));
        assert_eq!(done.code, Some(0), "{command}: {done:?}");
    }
    write_file_mode(&directory.join(".git/hooks/pre-push"), HOOK, 0o755);
}

/// A script that leaves the marker in the directory where it is started.
const HOOK: &str = "#!/bin/sh\ntouch marker\nexit 1\n";

/// The PATH of the runs: a toolchain stands before the program that chooses one by settings of the account.
fn path() -> String {
    let own = inherited_path();
    let found =
        program("rustup").map(|rustup| run_program(&Invocation::new(rustup).args(&["which", "cargo"])));
    let toolchain = found.filter(|found| found.code == Some(0)).and_then(|found| {
        let cargo = Path::new(found.stdout.trim_end());
        Some(cargo.parent()?.to_str()?.to_owned())
    });
    toolchain.map_or_else(|| own.clone(), |toolchain| format!("{toolchain}:{own}"))
}

/// Runs every command in a copy of the directory, and returns the answers to those that left a marker and to those that
/// did not.
async fn outcomes(server: &TestServer, rows: &[Row]) -> BTreeMap<usize, (Value, bool)> {
    let template = server.scratch().dir("template");
    fill(&template);
    let run = |(at, row): (usize, &Row)| {
        let directory = copied(&template, &server.scratch().join(&format!("row-{at}")));
        let call = json!({ "command": row.command.replace("HERE", directory.to_str().unwrap()), "workdir": directory, "yieldMs": 60_000, "timeout": 50 });
        async move {
            let answer = server.agent().exec(call).await.json();
            (at, (answer, directory.join("marker").exists()))
        }
    };
    let mut found = BTreeMap::new();
    let mut running = stream::iter(rows.iter().enumerate().map(run)).buffer_unordered(WIDTH);
    while let Some((at, outcome)) = running.next().await {
        found.insert(at, outcome);
    }
    assert!(!template.join("marker").exists(), "a command acts elsewhere");
    found
}

/// Entries for the programs of the commands, with this `confine`.
fn builder(rows: &[Row], confine: Option<&Value>) -> ServerBuilder {
    let names: BTreeSet<&str> = rows
        .iter()
        .map(|row| row.program.as_str())
        .chain(["printf"])
        .collect();
    let entries: Vec<Value> = names
        .into_iter()
        .map(|name| match confine {
            None => json!({ "pattern": name }),
            Some(confine) => json!({ "pattern": name, "confine": confine }),
        })
        .collect();
    TestServer::allowlist_only()
        .allowlist(&json!(entries))
        .env("PATH", &path())
}

/// The rows whose program is here.
fn rows_here() -> Vec<Row> {
    let (mut rows, _none) = table();
    rows.retain(|row| program(&row.program).is_some());
    assert!(rows.len() > 20, "{}", rows.len());
    rows
}

const TEXT_OFF: &str = "[policy]\ndelegation_table = false\n";
const KERNEL_OFF: (&str, &str) = ("COUNTERSIGN_TEST_PROTECTION_OFF", "starts");

#[tokio::test]
async fn without_both_every_command_of_the_table_starts_another_program() {
    let rows = rows_here();
    let server = builder(&rows, Some(&json!({ "starts": "judged" })))
        .toml(TEXT_OFF)
        .env(KERNEL_OFF.0, KERNEL_OFF.1)
        .start()
        .await;
    let unmarked: Vec<String> = outcomes(&server, &rows)
        .await
        .into_iter()
        .filter(|(_, (_, is_marked))| !is_marked)
        .map(|(at, (answer, _))| format!("{}\n  {answer}", rows[at].command))
        .collect();
    assert!(unmarked.is_empty(), "broken cases:\n{}", unmarked.join("\n"));
}

#[tokio::test]
async fn the_text_alone_lets_no_command_of_the_table_run() {
    let rows = rows_here();
    let server = builder(&rows, None).env(KERNEL_OFF.0, KERNEL_OFF.1).start().await;
    let wrong: Vec<String> = outcomes(&server, &rows)
        .await
        .into_iter()
        .filter(|(at, (answer, is_marked))| {
            let has_run = answer["reason"] != "allowlist-miss";
            *is_marked != has_run || has_run != (rows[*at].kind == Kind::Code)
        })
        .map(|(at, (answer, _))| format!("{}\n  {answer}", rows[at].command))
        .collect();
    assert!(wrong.is_empty(), "{} ran:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn the_kernel_alone_lets_no_command_of_the_table_start_another_program() {
    let rows = rows_here();
    let server = builder(&rows, Some(&json!({ "starts": "judged" })))
        .toml(TEXT_OFF)
        .start()
        .await;
    let mut wrong = Vec::new();
    for (at, (answer, is_marked)) in outcomes(&server, &rows).await {
        let run = server.operator().run(answer.text("runId")).await;
        let is_kept = run["confined"]
            .as_str()
            .is_some_and(|line| line.contains("may start"));
        if !is_kept || is_marked != (rows[at].kind == Kind::Open) {
            wrong.push(format!("{}\n  {} {answer}", rows[at].command, run["confined"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

/// Names in the lists `programs` of the rules and grammars.
fn programs_of_the_rule() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/policy/src/command/delegation");
    let mut names = BTreeSet::new();
    for file in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for list in text.split("programs: &[").skip(1) {
            let (list, _) = list.split_once(']').unwrap();
            names.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    assert!(names.len() > 80, "{}", names.len());
    names
}

#[test]
fn the_table_has_every_program_of_the_rule_that_is_here() {
    let (rows, mut covered) = table();
    covered.extend(rows.into_iter().map(|row| row.program));
    let missing: Vec<String> = programs_of_the_rule()
        .into_iter()
        .filter(|name| !covered.contains(name) && program(name).is_some())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
