//! Redirections to new files of the temporary directory (G15) do what `bash`, `dash` and `zsh` do with them, and write no file
//! that the command did not make.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown, symlink},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use super::{
    asked_about, everything_covered, is_refused,
    lists::{by_plan, by_shell},
    shells,
};
use crate::support::{Members, Scratch, ServerBuilder, TestServer, skip, write_file, write_file_mode};

/// `@` is a file of the temporary directory that is not there.
const TEXTS: [&str; 17] = [
    "echo a > @; cat @",
    "echo a > @ 2>&1; echo b >> @; cat < @",
    "ls nothing 2> @; wc -l < @",
    "false && echo x > @; echo y > @; cat @",
    "true || echo x > @; echo y >> @ && cat @",
    "cat <<'EOF' > @ && sort @\nb\na\nEOF",
    "cat > @ <<'EOF'; sh -c 'cat @'\nx $y\nEOF",
    "echo a > @; rm @; echo b > @; cat @",
    "echo a | cat > @; echo long long > @; echo s > @; cat @",
    "cat in > @ && tr a-z A-Z < @ | sort",
    "cd /tmp && echo a > @ && cat < @",
    "echo a >@; echo b 1>>@; ls nothing 2>>@; wc -l @ | cat",
    "cat < @ || echo failed",
    "echo x > @ b; cat @",
    "nice cat < in > @ && cat @",
    "ls nothing in > @ 2> @.b; wc -l @ @.b | cat",
    "echo a > @; mv @ @.b; echo b > @; cat @ @.b",
];

/// A name of the temporary directory, of which nothing is left behind.
struct Name(PathBuf);

impl Name {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        Self(PathBuf::from(format!(
            "/tmp/countersign-temporary-{}-{made}",
            process::id()
        )))
    }

    fn text(&self) -> String {
        self.0.display().to_string()
    }

    fn beside(&self) -> PathBuf {
        PathBuf::from(self.text() + ".b")
    }

    fn remove(&self) {
        for path in [self.0.clone(), self.beside()] {
            fs::remove_file(path).unwrap_or(());
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.remove();
    }
}

fn reading(workspace: &Path, ask: &str, files: bool) -> ServerBuilder {
    super::reading(
        workspace,
        ask,
        &json!({ "nullRedirections": true, "hereDocuments": true, "fileRedirections": files, "temporaryFiles": true }),
    )
}

#[tokio::test]
async fn a_new_temporary_file_is_what_shells_make() {
    let Some(shells) = shells() else { return };
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "off", true)
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.path();
    write_file(&directory.join("in"), "b\na\n");
    for text in TEXTS {
        let name = Name::new();
        let text = text.replace('@', &name.text());
        let planned = by_plan(&server, &text, &directory).await;
        let left = fs::read_to_string(&name.0).ok();
        for shell in shells {
            name.remove();
            let mut came = by_shell(shell, &text, &directory);
            // The words are those of each shell.
            if planned.stderr.contains("No such file") {
                came.stderr.clone_from(&planned.stderr);
            }
            assert_eq!(planned, came, "{shell}: {text}");
            assert_eq!(left, fs::read_to_string(&name.0).ok(), "{shell}: {text}");
        }
    }
}

#[tokio::test]
async fn a_file_that_the_command_did_not_make_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("in"), "in\n");
    let document = json!({ "version": 1, "agents": { "main": {
        "allowlist": [{ "pattern": "/**/cat" }, { "pattern": "/**/echo" }],
    } } });
    let server = reading(&directory, "off", false)
        .document(&document)
        .start()
        .await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let there = Name::new();
    write_file(&there.0, "kept\n");
    let program = Name::new();
    write_file_mode(&program.0, "#!/bin/sh\n", 0o755);
    let link = Name::new();
    symlink(&there.0, &link.0).unwrap();
    let nowhere = Name::new();
    symlink(directory.join("new"), &nowhere.0).unwrap();
    let (at, new) = (there.text(), Name::new());
    for text in [
        format!("echo x > {at}"),
        format!("echo x >> {at}"),
        format!("echo x 2> {at}"),
        format!("echo x &> {at}"),
        format!("cd /tmp && echo x > {}", at.trim_start_matches("/tmp/")),
        format!("echo x > /tmp/./{}", at.trim_start_matches("/tmp/")),
        format!("echo x > /tmp//../tmp/{}", at.trim_start_matches("/tmp/")),
        format!("echo x > {}", program.text()),
        format!("echo x > {}", link.text()),
        format!("cat < {}", link.text()),
        format!("echo x > {}/file", new.text()),
        format!("echo x > {}; echo y > {at}", new.text()),
        format!("sh -c 'echo x > {}'", new.text()),
        "echo x > /tmp".to_owned(),
        "echo x > /tmp/".to_owned(),
        "echo x > /tmp/.npmrc".to_owned(),
        "echo x > /var/tmp/countersign-temporary".to_owned(),
        "echo x > in".to_owned(),
    ] {
        is_refused(&server, &directory, &text).await;
        assert_eq!(fs::read_to_string(&there.0).unwrap(), "kept\n", "{text}");
        assert!(!new.0.exists() && !directory.join("new").exists(), "{text}");
    }
    for text in [
        format!("echo x > {}", new.text()),
        format!("cat < {at}"),
        format!("cat < {}", new.text()),
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
    // That a link leads nowhere is seen when the file is made.
    let dangling = json!({ "command": format!("echo x > {}", nowhere.text()), "workdir": directory });
    let run = server.ran(dangling).await;
    assert_eq!(run["exitCode"], 1, "{run}");
    assert!(!directory.join("new").exists(), "{run}");
    // What is there from now on was made by another command.
    let again = json!({ "command": format!("echo y > {}", new.text()), "workdir": directory });
    server.agent().exec(again).await.problem(403, "exec-denied");
    assert_eq!(fs::read_to_string(&new.0).unwrap(), "x\n");
}

/// It may have the inode of one that the command made and removed: that is given away again at once on many file systems.
#[tokio::test]
async fn a_file_in_the_place_of_one_that_the_command_made_is_left_as_it_is() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "off", true)
        .document(&everything_covered())
        .start()
        .await;
    for (between, writes) in [("rm @; touch @", false), ("rm @", true), ("touch @", true)] {
        let name = Name::new();
        let text = format!("echo a > @; {between}; echo b >> @").replace('@', &name.text());
        let run = server
            .ran(json!({ "command": text, "workdir": workspace.path() }))
            .await;
        assert_eq!(run["exitCode"], i32::from(!writes), "{text}: {run}");
        assert_eq!(
            fs::read_to_string(&name.0).unwrap().contains('b'),
            writes,
            "{text}"
        );
    }
}

/// What comes between the answer and the start is not written, and what belongs to another account is not read.
#[tokio::test]
async fn a_file_that_comes_before_the_start_is_left_as_it_is() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("in"), "in\n");
    write_file(&directory.join("target"), "kept\n");
    let server = reading(&directory, "on-miss", false)
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let path = directory.join("in").display().to_string();
    let names = [Name::new(), Name::new()];
    for (at, name) in names.iter().enumerate() {
        let (asked, _) = asked_about(&server, &format!("nl {path} > {}", name.text())).await;
        if at == 0 {
            write_file(&name.0, "kept\n");
        } else {
            symlink(directory.join("target"), &name.0).unwrap();
        }
        let run = server.answered(&asked, "allow-once").await;
        let is_as_judged = run["status"] == "denied" && run["reason"] == "binding-mismatch";
        assert!(is_as_judged || run["exitCode"] == 1, "{run}");
        assert_eq!(fs::read_to_string(&name.0).unwrap(), "kept\n");
    }
    let foreign = Name::new();
    write_file(&foreign.0, "theirs\n");
    if fs::metadata(&foreign.0).unwrap().uid() != 0 || chown(&foreign.0, Some(65_534), None).is_err() {
        return skip("only root can give a file away");
    }
    let (asked, _) = asked_about(&server, &format!("nl < {}", foreign.text())).await;
    let run = server.answered(&asked, "allow-once").await;
    assert_eq!(run["exitCode"], 1, "{run}");
    assert!(!run.text("stdout").contains("theirs"), "{run}");
}
