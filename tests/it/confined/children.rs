//! Deny rules with `children`: no program of a run starts or reads what such a rule matches, whatever its text says. The
//! agent `free` has the same rules at the level `same-user`, where only texts are looked at: there each attack succeeds.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use countersign_sys::hooks;

use crate::{
    explain::ask_to_explain,
    support::{Members, Scratch, ServerBuilder, TestServer, assert_says, eventually, write_file},
};

use super::{ACCOUNT, FREE, PROGRAMS, builder, give, possible};

/// A script that is started as a program, so that no text of the call names what it starts.
fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    write_file(&path, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Programs of this test, in a directory that is first on the PATH and belongs to the account.
struct Stage {
    scratch: Scratch,
    bin: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new();
        let bin = scratch.dir("bin");
        let lib = scratch.dir("lib");
        fs::copy("/usr/bin/touch", bin.join("zqtool")).unwrap();
        fs::copy("/usr/bin/touch", lib.join("zqreal")).unwrap();
        symlink("../lib/zqreal", bin.join("zqlink")).unwrap();
        Self { scratch, bin }
    }

    fn builder(&self) -> ServerBuilder {
        let path = format!("{}:{PROGRAMS}", self.bin.display());
        builder().env("PATH", &path)
    }

    /// A fresh directory with one script in it.
    fn work(&self, name: &str, text: &str) -> PathBuf {
        let directory = self.scratch.dir(name);
        script(&directory, "go", text);
        give(&self.scratch.path());
        directory
    }

    /// Runs that script; whether it left its marker, and the run.
    async fn run(&self, server: &TestServer, agent: &str, directory: &Path) -> (bool, Value) {
        let call = json!({
            "command": "./go", "agentId": agent, "workdir": directory, "yieldMs": 120_000, "timeout": 60,
        });
        let run = server.ran(call).await;
        let is_marked = directory.join("marker").exists();
        (is_marked, run)
    }
}

fn rule(pattern: &str) -> Value {
    json!({ "pattern": pattern, "children": true })
}

#[tokio::test]
async fn no_child_starts_or_reads_a_denied_program() {
    or_skip!(possible());
    let stage = Stage::new();
    let document = json!({ "*": { "denylist": [rule("touch"), rule("zqtool"), rule("zqlink")] } });
    let server = stage.builder().agents(&document).start().await;
    let bin = stage.bin.display();
    let attacks = [
        "touch marker".to_owned(),
        "/usr/bin/touch marker".to_owned(),
        "/bin/touch marker".to_owned(),
        "exec env touch marker".to_owned(),
        "find . -maxdepth 0 -exec touch marker \\;".to_owned(),
        "perl -e 'exec \"touch\", \"marker\"'".to_owned(),
        "ln -s /usr/bin/touch other; ./other marker".to_owned(),
        "cp /usr/bin/touch other; chmod 755 other; ./other marker".to_owned(),
        "cat /usr/bin/touch > other; chmod 755 other; ./other marker".to_owned(),
        "for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do $loader /usr/bin/touch marker; done"
            .to_owned(),
        "/proc/self/root/usr/bin/touch marker".to_owned(),
        "cd /usr/bin && ./touch \"$OLDPWD/marker\"".to_owned(),
        // By its link, by the file that this leads to, and by the account's own file.
        "zqlink marker".to_owned(),
        format!("{bin}/../lib/zqreal marker"),
        "zqtool marker".to_owned(),
        format!("mv {bin}/zqtool {bin}/zqother; {bin}/zqother marker; mv {bin}/zqother {bin}/zqtool"),
    ];
    for (at, attack) in attacks.iter().enumerate() {
        let directory = stage.work(&format!("free{at}"), attack);
        let (is_marked, run) = stage.run(&server, FREE, &directory).await;
        assert!(is_marked, "no attack at all: {attack}\n{run:#}");
        let directory = stage.work(&format!("main{at}"), attack);
        let (is_marked, run) = stage.run(&server, "main", &directory).await;
        assert!(!is_marked, "{attack}\n{run:#}");
    }
    // What has no equal at the other level: the cover cannot be taken away.
    for (at, attack) in [
        "umount /usr/bin/touch; touch marker",
        "unshare --user --mount --map-root-user sh -c 'umount /usr/bin/touch; touch marker'",
        "unshare --user --mount --map-root-user sh -c 'umount -l /; touch marker'",
        "nsenter --mount --target $PPID touch marker",
        "/proc/$PPID/root/usr/bin/touch marker",
        "/proc/1/root/usr/bin/touch marker",
        "mount --bind /usr/bin/mkdir /usr/bin/touch; mv /usr/bin/touch ./other; ./other marker",
        "rm -f /usr/bin/touch; touch marker",
    ]
    .iter()
    .enumerate()
    {
        let directory = stage.work(&format!("cover{at}"), attack);
        let (is_marked, run) = stage.run(&server, "main", &directory).await;
        assert!(!is_marked, "{attack}\n{run:#}");
    }
    // Everything else goes on.
    let directory = stage.work(
        "harmless",
        "mkdir made && cat /usr/bin/env > copy && cmp copy /usr/bin/env && : > marker",
    );
    let (is_marked, run) = stage.run(&server, "main", &directory).await;
    assert!(is_marked, "{run:#}");
    assert_eq!(run["exitCode"], 0, "{run:#}");
}

#[tokio::test]
async fn they_do_not_depend_on_landlock() {
    or_skip!(possible());
    let stage = Stage::new();
    let document = json!({ "*": { "denylist": [rule("touch")] } });
    for version in [0, 4] {
        let off = format!("landlock-{version}");
        let server = stage
            .builder()
            .env(hooks::PROTECTION_VARIABLE, &off)
            .agents(&document);
        let server = server.start().await;
        let directory = stage.work(&format!("old{version}"), "touch marker");
        let (is_marked, run) = stage.run(&server, "main", &directory).await;
        assert!(!is_marked, "{run:#}");
        let directory = stage.work(&format!("free{version}"), "touch marker");
        let (is_marked, run) = stage.run(&server, FREE, &directory).await;
        assert!(is_marked, "{run:#}");
    }
}

#[tokio::test]
async fn where_they_are_not_kept_is_said() {
    or_skip!(possible());
    let stage = Stage::new();
    let taken = json!({ "id": FREE, "tools": { "exec": { "isolation": "same-user" } } });
    let boxed = json!({ "id": "boxed", "tools": { "exec": { "host": "sandbox" } } });
    let far = json!({ "id": "far", "tools": { "exec": { "host": "node" } } });
    let server = stage
        .builder()
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
            "agents": { "list": [taken, boxed, far] },
        }))
        .start()
        .await;
    let operator = server.operator();
    let added = async |owner: &str| {
        let added = operator
            .post(&format!("/v1/agents/{owner}/denylist"), rule("zqtool"))
            .await;
        let added = added.expect(201);
        let warnings = added.get("warnings").and_then(Value::as_array);
        let warnings = warnings.into_iter().flatten();
        let ours = warnings.filter(|warning| warning["code"] == "children-not-kept");
        ours.map(|warning| warning.text("message").to_owned())
            .collect::<Vec<_>>()
    };
    for (agent, level) in [(FREE, "same-user"), ("boxed", "sandbox"), ("far", "node")] {
        let said = added(agent).await;
        assert_eq!(said.len(), 1, "{agent}: {said:?}");
        assert_says(&said[0], &format!("{agent} at the level {level}"));
    }
    assert_eq!(added("main").await, Vec::<String>::new());
    // A rule of every agent is one of those.
    let said = added("*").await;
    assert_says(
        &said[0],
        "boxed at the level sandbox, far at the level node, free at the level same-user",
    );

    let explained = async |agent: &str, command: &str| {
        let call = json!({ "command": command, "agentId": agent });
        let explained = ask_to_explain(&server.agent(), &call).await.expect(200);
        explained.get("childrenNotKept").cloned()
    };
    assert_eq!(explained(FREE, "ls").await, Some(json!(["zqtool"])));
    assert_eq!(explained("main", "ls").await, None);
    // What does not start, starts nothing.
    assert_eq!(explained(FREE, "zqtool").await, None);
    let asking = server.invocation(&["policy", "explain", "--agent", FREE, "--", "ls"]);
    let text = TestServer::finish(asking.run_as(ACCOUNT)).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    assert_says(&text.stdout, "it may start what is denied with children: zqtool");
}

#[tokio::test]
async fn the_kernel_alone_keeps_them_and_a_rule_without_children_does_not() {
    or_skip!(possible());
    let stage = Stage::new();
    let listed = |text: &str| {
        let directory = stage.work(&format!("listed{}", text.len()), text);
        (json!({ "pattern": directory.join("go") }), directory)
    };
    let (entry, directory) = listed("touch marker");
    let document = |rule: Value| {
        json!({
            "*": { "denylist": [rule] },
            "main": { "security": "allowlist", "ask": "off", "allowlist": [entry] },
        })
    };
    let marked = async |builder: ServerBuilder| {
        let server = builder.start().await;
        let (is_marked, run) = stage.run(&server, "main", &directory).await;
        let _nothing = fs::remove_file(directory.join("marker"));
        (is_marked, run)
    };
    // Under an entry that may start anything.
    let (is_marked, run) = marked(stage.builder().agents(&document(rule("touch")))).await;
    assert!(!is_marked, "{run:#}");
    let (is_marked, run) = marked(stage.builder().agents(&document(json!({ "pattern": "touch" })))).await;
    assert!(is_marked, "{run:#}");
    let unmasked = stage
        .builder()
        .agents(&document(rule("touch")))
        .env(hooks::PROTECTION_VARIABLE, "children");
    let (is_marked, run) = marked(unmasked).await;
    assert!(is_marked, "{run:#}");
}

#[tokio::test]
async fn a_program_that_takes_the_place_of_another_is_masked_and_what_cannot_be_masked_does_not_run() {
    or_skip!(possible());
    let stage = Stage::new();
    let pauses = Scratch::new();
    give(&pauses.path());
    let document =
        json!({ "*": { "denylist": [rule("zqtool")] }, "many": { "denylist": [rule("zqmany*")] } });
    let server = stage
        .builder()
        .agents(&document)
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .start()
        .await;
    let tool = stage.bin.join("zqtool");
    // Replaced between two runs.
    let directory = stage.work("before", "zqtool marker; true");
    let (is_marked, run) = stage.run(&server, "main", &directory).await;
    assert!(!is_marked && run["exitCode"] == 0, "{run:#}");
    fs::remove_file(&tool).unwrap();
    fs::copy("/usr/bin/touch", &tool).unwrap();
    let directory = stage.work("after", "zqtool marker; true");
    let (is_marked, run) = stage.run(&server, "main", &directory).await;
    assert!(!is_marked && run["exitCode"] == 0, "{run:#}");

    // Replaced, and taken away, between the last look and the start.
    for (name, is_replaced) in [("replaced", true), ("removed", false)] {
        let directory = stage.work(name, ": > ran; zqtool marker; true");
        let (wanted, reached) = (
            pauses.join("sup.before-fence"),
            pauses.join("sup.before-fence.reached"),
        );
        write_file(&wanted, "");
        give(&pauses.path());
        let mut run = std::pin::pin!(stage.run(&server, "main", &directory));
        let stands = eventually("the pause", || async { reached.exists() }, |reached| *reached);
        tokio::select! {
            () = async { stands.await; } => {}
            (_, run) = &mut run => panic!("it never stood still: {run:#}"),
        }
        fs::remove_file(&tool).unwrap();
        if is_replaced {
            fs::copy("/usr/bin/touch", &tool).unwrap();
        }
        fs::remove_file(&reached).unwrap();
        let (is_marked, run) = run.await;
        assert!(!is_marked, "{run:#}");
        assert_eq!(directory.join("ran").exists(), is_replaced, "{run:#}");
    }

    // More programs than can be masked.
    for number in 0..=256 {
        symlink("/usr/bin/env", stage.bin.join(format!("zqmany-link{number}"))).unwrap();
    }
    let directory = stage.work("one-file", ": > marker");
    let (is_marked, run) = stage.run(&server, "many", &directory).await;
    assert!(is_marked, "links to one file are one program: {run:#}");
    for number in 0..=256 {
        fs::copy("/usr/bin/true", stage.bin.join(format!("zqmany{number}"))).unwrap();
    }
    let directory = stage.work("too-many", ": > marker");
    let (is_marked, run) = stage.run(&server, "many", &directory).await;
    assert!(!is_marked, "{run:#}");
    assert_says(run.text("detail"), "more than 256 programs");
}
