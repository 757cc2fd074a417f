//! Variables: those that a call sets, and those that a command inherits. At the real server.

use serde_json::json;

use crate::support::{Members, Scratch, TestServer, lines, write_file, write_file_mode};

/// As overrides all of these are bad requests under any security, in any spelling; a harmless one is passed on.
async fn refused(names: &[&str]) {
    for builder in [TestServer::full(), TestServer::asking()] {
        let document = json!({ "version": 1, "agents": { "main": {
            "allowlist": [{ "pattern": "/usr/bin/env" }, { "pattern": "/usr/bin/printenv" }], "autoAllowSkills": true,
        } } });
        let server = builder.document(&document).start().await;
        let with = |name: String, value: &'static str| {
            let agent = server.agent();
            async move {
                agent
                    .exec(json!({ "argv": ["/usr/bin/printenv", name], "env": { (name.as_str()): value } }))
                    .await
            }
        };
        for name in names {
            for spelling in [(*name).to_owned(), name.to_lowercase()] {
                let problem = with(spelling, "/tmp/x").await.problem(400, "blocked-env");
                assert_eq!(problem["names"], json!([name.to_uppercase()]), "{problem}");
                assert!(
                    !problem.to_string().contains("/tmp/x"),
                    "values are not told: {problem}"
                );
            }
        }
        let twin = with("TZ".to_owned(), "UTC").await.expect(200);
        assert_eq!(twin["stdout"], "UTC\n");
    }
}

/// Of the server's own environment a command does not see these; others it does.
async fn stripped(variables: &[(&str, &str)]) {
    let mut builder = TestServer::full().env("HARMLESS_TWIN", "seen");
    for (name, value) in variables {
        builder = builder.env(name, value);
    }
    let server = builder.start().await;
    let done = server.ran(json!({ "argv": ["/usr/bin/env"] })).await;
    let seen = done.text("stdout");
    assert!(seen.contains("HARMLESS_TWIN=seen\n"), "{seen}");
    for (name, _) in variables {
        let is_there = seen.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert!(!is_there, "{name} in {seen}");
    }
}

#[tokio::test]
async fn cve_2026_32003() {
    refused(&["SHELLOPTS", "PS4", "BASH_ENV"]).await;
}

#[tokio::test]
async fn cve_2026_32056() {
    refused(&["HOME", "ZDOTDIR", "ENV"]).await;
}

#[tokio::test]
async fn ghsa_8fmp_37rc_p5g7() {
    stripped(&[
        ("NODE_OPTIONS", "--require=/tmp/x"),
        ("LD_BIND_NOW", "1"),
        ("DYLD_INSERT_LIBRARIES", "/tmp/x"),
        ("COUNTERSIGN_EXEC__LOGIN_PATH", "false"),
    ])
    .await;
}

#[tokio::test]
async fn ghsa_82g8_464f_2mv7() {
    // Skills are let through for this agent; their variables go the one way that all do.
    refused(&["NODE_OPTIONS", "LD_PRELOAD", "LD_LIBRARY_PATH", "PATH"]).await;
}

#[tokio::test]
async fn cve_2026_22217() {
    let covered =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/usr/bin/printf" }] } } });
    let command = json!({ "command": "printf a && printf b" });
    for is_covered in [true, false] {
        let builder = if is_covered {
            TestServer::allowlist_only().document(&covered)
        } else {
            TestServer::full()
        };
        let scratch = Scratch::new();
        let (shell, marks) = (scratch.join("shell"), scratch.join("marks"));
        let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", marks.display());
        write_file_mode(&shell, script, 0o755);
        let server = builder.env("SHELL", shell.to_str().expect("UTF-8")).start().await;
        let done = server.ran(command.clone()).await;
        if is_covered {
            assert_eq!(done["stdout"], "ab", "what is covered runs from its plan");
            assert_eq!(lines(&marks), Vec::<String>::new());
        } else {
            // Text under `full` does run in the shell of the server's account, so this test can fail.
            assert_eq!(lines(&marks), ["-c printf a && printf b"]);
        }
        server
            .agent()
            .exec(json!({ "command": "printf a", "env": { "SHELL": "/tmp/x" } }))
            .await
            .problem(400, "blocked-env");
    }
}

#[tokio::test]
async fn ghsa_jf5v_pqgw_gm5m() {
    stripped(&[
        ("GIT_EXEC_PATH", "/tmp/x"),
        ("GIT_TEMPLATE_DIR", "/tmp/x"),
        ("GIT_EXTERNAL_DIFF", "/tmp/x"),
    ])
    .await;
    refused(&["GIT_EXEC_PATH"]).await;
}

#[tokio::test]
async fn ghsa_j425_whc4_4jgc() {
    refused(&[
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "PAGER",
        "GIT_PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_EDITOR",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_GLOBAL",
        "NPM_CONFIG_SCRIPT_SHELL",
        "GIT_ASKPASS",
        "LESSOPEN",
    ])
    .await;
}

#[tokio::test]
async fn openclaw_pr_49702() {
    refused(&[
        "MAVEN_OPTS",
        "SBT_OPTS",
        "GRADLE_OPTS",
        "ANT_OPTS",
        "GLIBC_TUNABLES",
        "DOTNET_ADDITIONAL_DEPS",
    ])
    .await;
}

#[tokio::test]
async fn ghsa_6p8r_6m93_557f() {
    refused(&["GIT_TEMPLATE_DIR", "AWS_CONFIG_FILE"]).await;
}

#[tokio::test]
async fn ghsa_w9j9_w4cp_6wgr() {
    stripped(&[
        ("RUSTC_WRAPPER", "/tmp/x"),
        ("PYTHONPATH", "/tmp/x"),
        ("MAKEFLAGS", "--eval=x"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:/tmp/x"),
        ("CC", "/tmp/x"),
        ("PERL5OPT", "-Mx"),
    ])
    .await;
}

#[tokio::test]
async fn cve_2026_43584() {
    refused(&[
        "VIMINIT",
        "EXINIT",
        "GVIMINIT",
        "LUA_INIT",
        "LUA_INIT_5_4",
        "HOSTALIASES",
    ])
    .await;
}

#[tokio::test]
async fn cve_2026_44995() {
    refused(&[
        "NODE_OPTIONS",
        "PYTHONHOME",
        "RUBYOPT",
        "DYLD_INSERT_LIBRARIES",
        "LD_AUDIT",
    ])
    .await;
}

#[tokio::test]
async fn openclaw_pr_91618() {
    refused(&["BASHOPTS", "FPATH", "KSH_ENV", "TCLLIBPATH"]).await;
}

/// A workspace with settings, variables and policy of its own changes neither what is allowed nor what is seen.
async fn workspace_files_are_not_read(work_files: &[(&str, &str)]) {
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/usr/bin/printenv" }] } } });
    let server = TestServer::allowlist_only()
        .document(&document)
        .env("FROM_SERVER", "seen")
        .start()
        .await;
    let work = server.scratch().dir("work");
    for (name, content) in work_files {
        write_file(&work.join(name), content);
    }
    let done = server
        .ran(json!({ "argv": ["/usr/bin/printenv"], "workdir": work }))
        .await;
    let seen = done.text("stdout");
    assert!(seen.contains("FROM_SERVER=seen\n"), "{seen}");
    assert!(!seen.contains("from-workspace"), "{seen}");
    server
        .denied(json!({ "argv": ["/usr/bin/id"], "workdir": work }))
        .await;
}

#[tokio::test]
async fn cve_2026_43531() {
    workspace_files_are_not_read(&[
        (".env", "X=from-workspace\nOPENCLAW_STATE_DIR=/tmp/from-workspace\nCOUNTERSIGN_EXEC__SHELL=/tmp/x\nPATH=/tmp/from-workspace\n"),
        ("openclaw.json", r#"{ "tools": { "exec": { "security": "full", "ask": "off" } } }"#),
        ("exec-approvals.json", r#"{ "version": 1, "defaults": { "security": "full" } }"#),
        ("countersign.toml", "[exec]\nshell = \"/tmp/from-workspace\"\n"),
    ])
    .await;
    refused(&[
        "OPENCLAW_STATE_DIR",
        "OPENCLAW_SHELL",
        "COUNTERSIGN_URL",
        "COUNTERSIGN_TOKEN",
    ])
    .await;
}

#[tokio::test]
async fn cve_2025_61260() {
    workspace_files_are_not_read(&[
        (
            ".env",
            "XDG_CONFIG_HOME=./from-workspace\nHOME=./from-workspace\nCODEX_HOME=./from-workspace\n",
        ),
        (
            ".openclaw/openclaw.json",
            r#"{ "tools": { "exec": { "security": "full", "ask": "off" } } }"#,
        ),
    ])
    .await;
    refused(&["XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME", "CARGO_HOME"]).await;
}
