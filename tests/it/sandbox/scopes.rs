//! Who shares a sandbox, what it sees of the workspace, and where commands start.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{BUILTIN, possible, printed, sandboxed};
use crate::support::{Members, TestServer, write_file};

/// What a command in a session of an agent prints.
async fn says(server: &TestServer, agent: &str, session: &str, command: &str) -> String {
    let body =
        json!({ "command": command, "agentId": agent, "sessionKey": format!("agent:{agent}:{session}") });
    let answer = server.ran(body).await;
    assert_eq!(answer["host"], "sandbox", "{answer}");
    answer.text("aggregated").trim_end().to_owned()
}

#[tokio::test]
async fn scopes_share_files_or_do_not() {
    for (scope, same_agent, other_agent) in [
        ("session", false, false),
        ("agent", true, false),
        ("shared", true, true),
    ] {
        let server = sandboxed(&json!({ "scope": scope })).start().await;
        or_skip!(possible(&server).await);
        says(&server, "a", "one", "echo here > note").await;
        let sees =
            async |agent, session| says(&server, agent, session, "cat note 2>/dev/null").await == "here";
        assert!(sees("a", "one").await, "{scope}: what it wrote is there later");
        assert_eq!(sees("a", "two").await, same_agent, "{scope}: another session");
        assert_eq!(sees("b", "one").await, other_agent, "{scope}: another agent");
    }
}

#[tokio::test]
async fn sessions_of_two_agents_are_never_one_even_under_one_name() {
    let server = sandboxed(&json!({ "scope": "session" })).start().await;
    or_skip!(possible(&server).await);
    let call = |agent: &str, command: &str| json!({ "command": command, "agentId": agent, "sessionKey": "telegram:42" });
    server.ran(call("a", "echo secret > note")).await;
    let answer = server.ran(call("b", "ls -A")).await;
    assert_eq!(answer["stdout"], "");
}

/// A server whose agent has a workspace with a file `mine` in `sub`.
async fn with_access(access: &str) -> (TestServer, String) {
    let server = TestServer::full().toml(BUILTIN).prepare();
    let workspace = server.scratch().dir("ws");
    fs::create_dir(workspace.join("sub")).unwrap();
    write_file(&workspace.join("sub/mine"), "of the agent\n");
    let mut server = server;
    server.edit_config(
        &json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "workspace": workspace, "sandbox": { "workspaceAccess": access } } },
        })
        .to_string(),
    );
    server.start().await;
    (server, workspace.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn without_access_the_sandbox_has_a_directory_of_its_own() {
    let (server, workspace) = with_access("none").await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    assert_eq!(
        printed(&agent, "main", "pwd; ls -A; echo x > own; ls -A").await,
        "/workspace\nown\n"
    );
    let found = printed(&agent, "main", &format!("ls -A /agent {workspace} 2>/dev/null")).await;
    assert_eq!(found, "");
    let own: Vec<_> = fs::read_dir(server.state().join("countersign/sandboxes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert!(own[0].join("own").exists());
    for named in [workspace.clone(), format!("{workspace}/sub"), "~/".to_owned()] {
        let refused = agent
            .exec(json!({ "command": "true", "workdir": named }))
            .await
            .problem(400, "workdir-unavailable");
        assert!(refused.text("detail").contains("workspaceAccess"), "{refused}");
    }
}

#[tokio::test]
async fn with_ro_the_workspace_can_be_read_beside_the_own_one() {
    let (server, workspace) = with_access("ro").await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    let text = "pwd; cat /agent/sub/mine; echo x > own && echo wrote; echo x > /agent/sub/mine || echo refused; \
                rm /agent/sub/mine || echo refused; touch /agent/new || echo refused";
    let found = printed(&agent, "main", &format!("{{ {text}; }} 2>/dev/null")).await;
    assert_eq!(
        found,
        "/workspace\nof the agent\nwrote\nrefused\nrefused\nrefused\n"
    );
    let mine = Path::new(&workspace).join("sub/mine");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "of the agent\n");
    let answer = agent
        .ran(json!({ "command": "pwd; cat mine", "workdir": format!("{workspace}/sub") }))
        .await;
    assert_has!(answer, { "stdout": "/agent/sub\nof the agent\n", "cwd": "/agent/sub" });
}

#[tokio::test]
async fn with_rw_the_workspace_is_the_workdir() {
    let (server, workspace) = with_access("rw").await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    let found = printed(
        &agent,
        "main",
        "pwd; echo more >> sub/mine; cat sub/mine; ls /agent 2>/dev/null",
    )
    .await;
    assert_eq!(found, "/workspace\nof the agent\nmore\n");
    let mine = Path::new(&workspace).join("sub/mine");
    assert_eq!(fs::read_to_string(mine).unwrap(), "of the agent\nmore\n");
    for (named, expected) in [
        (format!("{workspace}/sub"), "/workspace/sub"),
        ("/workspace/sub/".to_owned(), "/workspace/sub"),
        ("/tmp".to_owned(), "/tmp"),
        (format!("{workspace}/sub/../.."), "no"),
    ] {
        let body = json!({ "command": "pwd", "workdir": named });
        let answer = agent.ran(body.clone()).await;
        if expected == "no" {
            // It means a directory of that name inside, where there is none.
            assert_has!(answer, { "status": "failed", "reason": "spawn-failed" });
            let cwd = answer.text("cwd");
            answer.says(
                "detail",
                &format!("the working directory cannot be entered: {cwd} on host sandbox"),
            );
        } else {
            assert_eq!(answer["stdout"], format!("{expected}\n"), "{named}");
        }
        let explained = agent.explain(body).await;
        assert_eq!(explained["sandbox"]["cwd"], answer["cwd"], "{named}");
        assert_has!(explained, { "analysis/segments/0/argv": ["pwd"] }, "{named}");
    }
}

#[tokio::test]
async fn a_working_directory_leads_nowhere_but_inside() {
    let (server, workspace) = with_access("rw").await;
    or_skip!(possible(&server).await);
    let outside = server.scratch().dir("outside");
    write_file(&outside.join("secret"), "secret\n");
    std::os::unix::fs::symlink(&outside, Path::new(&workspace).join("link")).unwrap();
    for named in [
        format!("{workspace}/link"),
        "/workspace/link".to_owned(),
        format!("/workspace/../../../..{}", outside.display()),
        outside.display().to_string(),
        "/proc/self/root".to_owned() + &outside.display().to_string(),
    ] {
        let body = json!({ "command": "cat secret", "workdir": named });
        let answer = server.ran(body).await;
        assert_eq!(answer["status"], "failed", "{named}: {answer}");
        assert!(!answer.text("stdout").contains("secret"), "{named}: {answer}");
    }
}

/// What a server with these settings says to a call for its sandbox.
async fn refusal(config: impl FnOnce(&TestServer) -> Value) -> Option<String> {
    let mut server = TestServer::full().toml(BUILTIN).prepare();
    let config = config(&server);
    server.edit_config(&config.to_string());
    server.start().await;
    let answer = server.agent().exec(json!({ "command": "true" })).await;
    let body = answer.json();
    if answer.status == 200 {
        return None;
    }
    assert_eq!(body["code"], "sandbox-unavailable", "{body}");
    Some(body.text("detail").to_owned())
}

#[tokio::test]
async fn no_sandbox_is_shown_the_files_of_the_server_or_the_sandboxes_of_others() {
    or_skip!(possible(&sandboxed(&json!({})).start().await).await);
    let mounts = |sandbox: Value, workspace: &Path| {
        json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "workspace": workspace, "sandbox": sandbox } },
        })
    };
    let rw = json!({ "workspaceAccess": "rw" });
    let ro = json!({ "workspaceAccess": "ro" });
    let bind = |host: &Path| json!({ "docker": { "binds": [format!("{}:/x:ro", host.display())] } });
    let refused = [
        refusal(|server| mounts(rw.clone(), server.state())).await,
        refusal(|server| mounts(ro.clone(), &server.state().join("countersign"))).await,
        refusal(|server| mounts(rw.clone(), &server.scratch().path())).await,
        refusal(|server| mounts(ro.clone(), &server.state().join("countersign/sandboxes"))).await,
        refusal(|server| {
            let link = server.scratch().join("innocent");
            std::os::unix::fs::symlink(server.state(), &link).unwrap();
            mounts(rw.clone(), &link)
        })
        .await,
        refusal(|server| mounts(bind(server.state()), &server.scratch().join("w"))).await,
        refusal(|server| {
            let link = server.scratch().join("innocent");
            std::os::unix::fs::symlink(server.state().join("countersign"), &link).unwrap();
            mounts(bind(&link), &server.scratch().join("w"))
        })
        .await,
    ];
    for (at, detail) in refused.iter().enumerate() {
        let detail = detail.as_ref().unwrap_or_else(|| panic!("case {at} ran"));
        assert!(
            detail.contains("would show") || detail.contains("lie in one another"),
            "case {at}: {detail}"
        );
    }
}
