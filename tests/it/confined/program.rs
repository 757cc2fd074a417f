//! The server's own program lies where commands may write: a confined one cannot put another in its place, which the
//! operator would start outside.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{
    Invocation, Members, Scratch, ServerBuilder, TestServer, assert_says, countersign, sha256,
};

use super::{ACCOUNT, FREE, PROGRAMS, give, possible, run};

/// A copy of the program in a tree of the server's account, as a build leaves it.
fn built(scratch: &Scratch) -> PathBuf {
    let program = scratch.dir("project/target/release").join("countersign");
    fs::copy(env!("CARGO_BIN_EXE_countersign"), &program).unwrap();
    give(&scratch.path());
    program
}

/// A server that is started from there.
fn builder(program: &Path) -> ServerBuilder {
    let script = format!("shift; exec {} \"$@\"", program.display());
    TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
            "agents": { "list": [{ "id": FREE, "tools": { "exec": { "isolation": "same-user" } } }] },
        }))
        .env("PATH", PROGRAMS)
        .behind("/bin/sh", &["-c", &script, "sh"])
        .run_as(ACCOUNT)
}

async fn exit_code(server: &TestServer, agent: &str, text: &str) -> Value {
    run(server, agent, text).await["exitCode"].clone()
}

#[tokio::test]
async fn a_confined_command_cannot_replace_the_program_and_may_write_beside_it() {
    or_skip!(possible());
    let scratch = Scratch::new();
    let program = built(&scratch);
    let before = sha256(&fs::read(&program).unwrap());
    let server = builder(&program).start().await;
    assert_says(server.ready_line(), "isolation=confined");
    let (p, root) = (program.display(), scratch.path().display().to_string());
    let moved = |path: &str| format!("mv -T {path} {path}.away && mv -T {path}.away {path}");
    let attacks = [
        moved(&p.to_string()),
        moved(&format!("{root}/project/target/release")),
        moved(&format!("{root}/project/target")),
        moved(&format!("{root}/project")),
        format!("chmod 700 {p} && chmod 755 {p}"),
        format!("touch {p}"),
        format!("cd {root}/project/target/release && mv countersign x && mv x countersign"),
        format!("ln {p} {p}.link && mv -f {p}.link {p}.other && cp {p} {p}.new && mv -f {p}.new {p}"),
        format!("cp {p} {p}.new && rm {p} && mv {p}.new {p}"),
    ];
    let hopeless = [
        format!("rm -f {p}"),
        format!("ln -sf /bin/true {p}"),
        format!("ln -f /bin/true {p}"),
        format!("cp --remove-destination /bin/true {p}"),
        format!("cp /bin/true {p}"),
        format!("echo x >> {p}"),
        format!("truncate -s 0 {p}"),
        format!("rm -rf {root}/project/target && test ! -e {p}"),
        format!("unshare -Urm sh -c 'umount {p}; rm -f {p}'"),
        format!("unshare -Urm sh -c 'umount -l {p}; mv -T {root}/project {root}/away'"),
        format!("unshare -Urm sh -c 'mount -o remount,rw,bind {p}; touch {p}'"),
    ];
    for attack in attacks.iter().chain(&hopeless) {
        let code = exit_code(&server, "main", attack).await;
        assert!(code.as_i64().is_some_and(|code| code != 0), "{attack}: {code}");
        assert_eq!(sha256(&fs::read(&program).unwrap()), before, "{attack}");
    }
    // Everything around it works as ever, and so does the program itself.
    for work in [
        format!("cd {root}/project && mkdir -p src target/debug && echo x > target/release/other"),
        format!("cd {root}/project/target/release && mv other another && echo y >> another && rm another"),
        format!("{p} --version"),
    ] {
        assert_eq!(exit_code(&server, "main", &work).await, 0, "{work}");
    }
    // Not confined, each of them is an attack.
    for attack in &attacks {
        assert_eq!(exit_code(&server, FREE, attack).await, 0, "{attack}");
    }
}

#[tokio::test]
async fn doctor_says_that_the_program_can_be_replaced_and_what_to_do() {
    or_skip!(possible());
    let scratch = Scratch::new();
    let program = built(&scratch);
    let server = builder(&program).start().await;
    let found = async |program: &Invocation, words: &[&str]| -> Vec<Value> {
        let program = program.clone().args(words).run_as(ACCOUNT);
        let answer = TestServer::finish(program).await.stdout;
        let report: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        let findings = report.list("findings").iter();
        findings
            .filter(|finding| finding["id"] == "program-replaceable")
            .cloned()
            .collect()
    };
    let beside = |program: Invocation| program.env("OPENCLAW_STATE_DIR", server.state()).env("HOME", "/");
    let here = beside(Invocation::new(&program));
    for words in [["doctor", "--json"].as_slice(), &["security", "audit", "--json"]] {
        let findings = found(&here, words).await;
        assert_eq!(findings.len(), 1, "{words:?}");
        let finding = &findings[0];
        assert_has!(finding, { "severity": "warning", "key": program });
        let fix = finding.text("fix");
        assert_says(
            fix,
            &format!("install -o root -g root -m 0755 {}", program.display()),
        );
    }
    // The same program where the account may not write.
    let there = beside(countersign());
    assert_eq!(found(&there, &["doctor", "--json"]).await, Vec::<Value>::new());
}
