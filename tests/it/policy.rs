//! Which policy is in force, and what a change of its files does.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use crate::support::{Answer, Members, TestServer, eventually};

const DATE: &str = "/bin/date";

async fn effective(server: &TestServer) -> Value {
    server
        .operator()
        .read("/v1/policy/effective?agentId=main&host=gateway")
        .await
}

async fn date(server: &TestServer) -> Answer {
    server.agent().exec(json!({ "argv": [DATE] })).await
}

fn values(effective: &Value) -> Value {
    ["security", "ask", "askFallback", "autoAllowSkills"]
        .iter()
        .map(|member| ((*member).to_owned(), effective[*member]["value"].clone()))
        .collect()
}

#[tokio::test]
async fn with_nothing_configured_nothing_runs_on_this_machine_itself() {
    let server = TestServer::full().without_config().start().await;
    let policy = effective(&server).await;
    assert_eq!(
        values(&policy),
        json!({ "security": "deny", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": false })
    );
    assert_eq!(policy["security"]["source"], "default");
    assert_eq!(policy["document"]["status"], "missing");
    let hash = policy["document"].text("hash");
    assert_eq!(
        hash,
        "missing:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    let body = json!({ "argv": [DATE], "host": "gateway" });
    server.agent().exec(body).await.problem(403, "host-not-allowed");
    let answer = date(&server).await;
    match answer.status {
        200 => assert_eq!(answer.json()["host"], "sandbox", "{}", answer.text()),
        _ => drop(answer.problem(503, "sandbox-unavailable")),
    }
}

#[tokio::test]
async fn the_stricter_of_settings_and_document_counts() {
    let document = json!({
        "version": 1,
        "defaults": { "security": "full", "ask": "off", "askFallback": "full" },
        "agents": { "*": { "ask": "on-miss" }, "main": { "security": "allowlist" } },
    });
    let server = TestServer::full().document(&document).start().await;
    let policy = effective(&server).await;
    assert_eq!(
        values(&policy),
        json!({ "security": "allowlist", "ask": "on-miss", "askFallback": "allowlist", "autoAllowSkills": false })
    );
    assert_has!(policy, { "security/source": "exec-approvals.json#/agents/main/security" });
    assert_eq!(policy["ask"]["source"], "exec-approvals.json#/agents/*/ask");
    let layers: Vec<&str> = policy["security"]
        .list("layers")
        .iter()
        .map(|l| l.text("layer"))
        .collect();
    assert_eq!(
        layers,
        ["default", "global", "document-defaults", "document-agent"]
    );
    assert_eq!(policy["document"]["status"], "ok");
}

#[tokio::test]
async fn the_layers_of_the_host_say_auto_where_that_was_said() {
    let exec = json!({ "host": "auto", "security": "full", "ask": "off" });
    let agents = json!({ "defaults": { "sandbox": { "mode": "off" } } });
    let server = TestServer::full()
        .config(&json!({ "tools": { "exec": exec }, "agents": agents }))
        .start()
        .await;
    let layers = json!([{ "layer": "default", "value": "sandbox" },
        { "layer": "global", "source": "tools.exec.host", "value": "auto" }]);
    let policy = server.operator().read("/v1/policy/effective").await;
    let host = json!({ "value": "gateway", "source": "tools.exec.host", "layers": layers });
    assert_eq!(policy["host"], host);
    let explained = server
        .operator()
        .post("/v1/exec/explain", json!({ "command": "ls" }))
        .await;
    assert_eq!(explained.expect(200)["host"]["layers"], layers);
}

#[tokio::test]
async fn an_agent_may_have_its_own_settings_in_either_spelling() {
    let exec = json!({ "host": "gateway", "security": "deny", "ask": "off" });
    let full = json!({ "tools": { "exec": { "security": "full" } } });
    let listed = json!({ "tools": { "exec": exec }, "agents": { "list": [
        { "id": "trusted", "tools": full["tools"] },
    ] } });
    let named = json!({ "tools": { "exec": exec }, "agents": { "entries": { "trusted": full } } });
    for config in [listed, named] {
        let server = TestServer::full().config(&config).start().await;
        let answer = server
            .agent()
            .exec(json!({ "argv": ["/bin/echo", "hi"], "agentId": "trusted" }))
            .await;
        assert_eq!(answer.expect(200)["stdout"], "hi\n");
        assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "security-deny" });
    }
}

#[tokio::test]
async fn a_document_that_cannot_be_read_denies_everything_and_is_left_alone() {
    let broken = "{ \"version\": 1, \"agents\": { \"main\": { \"security\": \"fulll\" } } }";
    let server = TestServer::full().document_text(broken).start().await;
    let before = fs::metadata(server.document_path()).unwrap().modified().unwrap();
    let policy = effective(&server).await;
    assert_has!(values(&policy), { "security": "deny", "askFallback": "deny" });
    assert_eq!(policy["document"]["status"], "refused");
    assert_eq!(policy["document"]["pointer"], "/agents/main/security");
    assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "document-refused" });
    let ready = server.anonymous().read("/readyz").await;
    assert_has!(ready, { "status": "ready", "degraded": true, "checks/document/ok": false });
    let entry = json!({ "pattern": "/bin/date" });
    server
        .operator()
        .post("/v1/agents/main/allowlist", entry)
        .await
        .problem(409, "document-refused");
    assert_eq!(fs::read_to_string(server.document_path()).unwrap(), broken);
    assert_eq!(
        fs::metadata(server.document_path()).unwrap().modified().unwrap(),
        before
    );

    server.edit_document(r#"{ "version": 1, "agents": {} }"#);
    assert_eq!(date(&server).await.status, 200, "repaired, it counts at once");
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["degraded"], false);
}

#[tokio::test]
async fn a_document_that_others_may_write_denies() {
    let server = TestServer::full().agents(&json!({})).start().await;
    assert_eq!(date(&server).await.status, 200);
    fs::set_permissions(server.document_path(), fs::Permissions::from_mode(0o666)).unwrap();
    assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "document-refused" });
    fs::set_permissions(server.document_path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(date(&server).await.status, 200);
    let warnings = effective(&server).await["document"]["warnings"].to_string();
    assert!(warnings.contains("loose-mode"), "{warnings}");
}

#[tokio::test]
async fn a_document_behind_a_link_denies() {
    let server = TestServer::full().start().await;
    let elsewhere = server.scratch().join("elsewhere.json");
    crate::support::write_file_mode(&elsewhere, r#"{ "version": 1, "agents": {} }"#, 0o600);
    std::os::unix::fs::symlink(&elsewhere, server.document_path()).unwrap();
    assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "document-refused" });
}

#[tokio::test]
async fn outside_edits_count_from_the_next_command_on() {
    let server = TestServer::full().agents(&json!({})).start().await;
    let operator = server.operator();
    assert_eq!(date(&server).await.status, 200);
    server.edit_document(r#"{ "version": 1, "defaults": { "security": "deny" }, "agents": {} }"#);
    assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "security-deny" });
    server.edit_config(
        r#"{ tools: { exec: { host: "gateway", security: "allowlist", ask: "off", }, }, } // JSON5"#,
    );
    server.edit_document(
        r#"{ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/date" }] } } }"#,
    );
    // What it allows waits, since a command ran (`held.rs`).
    assert_eq!(date(&server).await.status, 403);
    let held = effective(&server).await["document"]["held"]["hash"].clone();
    operator
        .posted("/v1/policy/document/accept", json!({ "hash": held }))
        .await;
    assert_eq!(date(&server).await.status, 200);
    let other = server.agent().exec(json!({ "argv": ["/bin/echo"] })).await;
    assert_eq!(other.problem(403, "exec-denied")["reason"], "allowlist-miss");
}

#[tokio::test]
async fn a_broken_settings_edit_keeps_the_last_good_ones_and_is_reported() {
    let server = TestServer::allowlist_only()
        .allowlist(&json!([{ "pattern": DATE }]))
        .start()
        .await;
    let mut stream = server.operator().events("?types=config.", None).await;
    for broken in [
        "{ tools: { exec: { security: \"full\", ask: \"sometimes\" } } }",
        "{ tools: { exec: { security: \"full\", secuirty: \"full\" } } }",
        "{ tools: { exec: ",
        "{ tools: { exec: { host: \"gateway\", mode: \"full\", security: \"full\" } } }",
    ] {
        server.edit_config(broken);
        assert_eq!(
            date(&server).await.status,
            200,
            "the last good settings stay: {broken}"
        );
        let other = server.agent().exec(json!({ "argv": ["/bin/echo"] })).await;
        assert_eq!(
            other.problem(403, "exec-denied")["reason"],
            "allowlist-miss",
            "never loosened: {broken}"
        );
        let policy = effective(&server).await;
        assert!(
            policy["configError"]
                .as_str()
                .is_some_and(|error| !error.is_empty()),
            "{policy}"
        );
        let ready = server.anonymous().read("/readyz").await;
        assert_has!(ready, { "status": "ready", "degraded": true, "checks/config/ok": false });
        let rejected = stream.next_of("config.rejected").await;
        assert_eq!(rejected.data["path"], "openclaw.json", "{rejected:?}");
    }
    server.edit_config(r#"{ tools: { exec: { host: "gateway", security: "deny", ask: "off" } } }"#);
    assert_has!(date(&server).await.problem(403, "exec-denied"), { "reason": "security-deny" });
    assert_eq!(effective(&server).await["configError"], Value::Null);
}

#[tokio::test]
async fn deny_rules_win_over_everything() {
    let document = json!({ "version": 1, "agents": {
        "*": { "denylist": [{ "pattern": "touch", "reason": "no touching" }] },
        "main": { "allowlist": [{ "pattern": "/**" }] },
    } });
    let server = TestServer::full().document(&document).start().await;
    let mark = server.scratch().join("mark");
    for body in [
        json!({ "argv": ["/usr/bin/touch", mark] }),
        json!({ "command": format!("true; touch {}", mark.display()) }),
        json!({ "command": format!("env touch {} || touch {0}", mark.display()) }),
    ] {
        let problem = server.agent().exec(body.clone()).await;
        assert_eq!(problem.status, 403, "{body}: {}", problem.text());
        assert_eq!(problem.json()["reason"], "denylist", "{body}");
    }
    assert!(!mark.exists());
    assert_eq!(date(&server).await.status, 200);
}

#[tokio::test]
async fn text_that_cannot_be_analysed_needs_a_person_where_deny_rules_exist() {
    let document = json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {
        "main": { "denylist": [{ "pattern": "touch" }] },
    } });
    let server = TestServer::full().document(&document).start().await;
    let mark = server.scratch().join("mark");
    let hidden = json!({ "command": format!("$(echo tou)ch {}", mark.display()) });
    assert_eq!(server.denied(hidden).await["reason"], "no-approver");
    assert!(!mark.exists());
}

#[tokio::test]
async fn tool_policy_switches_exec_off() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    for (tools, reason) in [
        (
            json!({ "exec": exec, "deny": ["group:runtime"] }),
            Some("tool-denied"),
        ),
        (
            json!({ "exec": exec, "allow": ["read", "write"] }),
            Some("tool-denied"),
        ),
        (
            json!({ "exec": exec, "allow": ["*"], "deny": ["BASH"] }),
            Some("tool-denied"),
        ),
        (json!({ "exec": exec, "allow": ["exec"] }), None),
    ] {
        let server = TestServer::full()
            .config(&json!({ "tools": tools }))
            .start()
            .await;
        let answer = date(&server).await;
        match reason {
            Some(reason) => assert_eq!(answer.json()["reason"], reason, "{tools}: {}", answer.text()),
            None => assert_eq!(answer.status, 200, "{tools}: {}", answer.text()),
        }
    }
}

#[tokio::test]
async fn the_allowlist_covers_whole_commands_only() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [
        { "pattern": "/usr/bin/echo" }, { "pattern": "sort" }, { "pattern": "/**/git", "argPattern": "^status( |$)" },
    ] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let checkout = server.scratch().git_checkout();
    let mark = server.scratch().join("mark");
    let touch = format!("touch {}", mark.display());
    for (command, runs) in [
        ("echo one".to_owned(), true),
        ("/usr/bin/echo 'a;b|c && d'".to_owned(), true),
        ("echo b | sort".to_owned(), true),
        ("echo a && echo b || echo c; echo d".to_owned(), true),
        ("echo b | head -n 1".to_owned(), true), // `head` is a safe bin
        ("git status".to_owned(), true),
        ("git log".to_owned(), false),
        ("true && echo ok".to_owned(), true),
        (format!("echo one; {touch}"), false),
        (format!("echo one | {touch}"), false),
        (format!("echo one || {touch}"), false),
        (format!("echo one\n{touch}"), false),
        (format!("echo $({touch})"), false),
        (format!("echo `{touch}`"), false),
        (format!("echo one > {}", mark.display()), false),
        (format!("echo one & {touch}"), false),
        (format!("echo \"$({touch})\""), false),
        (format!("sh -c '{touch}'"), false),
        (format!("env {touch}"), false),
        (format!("X=1 {touch}"), false),
        ("echo *".to_owned(), false),
        ("echo $HOME".to_owned(), false),
        ("sudo echo".to_owned(), false),
        ("xargs echo".to_owned(), false),
    ] {
        let answer = server
            .agent()
            .exec(json!({ "command": command, "workdir": checkout }))
            .await;
        if runs {
            assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        } else {
            assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{command}");
        }
        assert!(!mark.exists(), "{command}");
    }
}

#[tokio::test]
async fn uses_of_an_entry_are_noted_behind() {
    let entry = json!({ "pattern": DATE, "id": "6b0c1b7a-28b5-4b55-9d2f-4f0f3f9d3a11" });
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [entry], "x-kept": [1.50, null] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let mut events = server.operator().events("?types=allowlist.changed", None).await;
    date(&server).await.expect(200);
    let noted = || std::future::ready(server.document_on_disk()["agents"]["main"].clone());
    let agent = eventually("noted", noted, |agent| {
        agent["allowlist"][0]["lastUsedAt"].is_i64()
    })
    .await;
    assert_has!(agent["allowlist"][0], { "pattern": DATE, "id": entry["id"], "lastUsedCommand": DATE });
    assert_eq!(agent["x-kept"], json!([1.50, null]), "members of others stay");
    let told = events.next_of("allowlist.changed").await;
    assert_has!(told.data, {
        "change": "used", "list": "allowlist", "entryId": entry["id"], "agentId": "main", "by": null,
    });
    let audit = server.operator().get("/v1/audit?action=allowlist.changed").await;
    assert_eq!(audit.expect(200)["items"], json!([]), "a use changes no policy");
}

#[tokio::test]
async fn a_grant_runs_out() {
    let server = TestServer::allowlist_only().start().await;
    let grant = json!({ "pattern": DATE, "maxUses": 2 });
    let created = server.operator().post("/v1/agents/main/allowlist", grant).await;
    let entry = created.expect(201);
    assert_has!(entry, { "kind": "grant", "maxUses": 2, "state": "active" });
    assert!(
        created
            .header("location")
            .is_some_and(|at| at.ends_with(entry.text("id")))
    );
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let agent = server.agent();
            tokio::spawn(async move { agent.exec(json!({ "argv": [DATE] })).await.status })
        })
        .collect();
    let mut ran = 0;
    for call in calls {
        let status = call.await.unwrap();
        assert!([200, 403].contains(&status), "{status}");
        ran += usize::from(status == 200);
    }
    assert_eq!(ran, 2, "used exactly as often as granted");
    let document = server.document_on_disk();
    assert_has!(document, { "agents/main/allowlist": null }, "other readers never see a grant as an entry");
}

#[tokio::test]
async fn any_number_of_used_up_grants_is_a_miss_in_the_end() {
    let grants: Vec<Value> = (0..12)
        .map(|number| json!({ "id": format!("00000000-0000-4000-8000-0000000000{number:02}"), "pattern": DATE, "maxUses": 1 }))
        .collect();
    let server = TestServer::allowlist_only()
        .agents(&json!({ "main": { "grants": grants } }))
        .start()
        .await;
    for _ in 0..12 {
        date(&server).await.expect(200);
    }
    let refused = date(&server).await.problem(403, "exec-denied");
    assert_eq!(refused["reason"], "allowlist-miss");
}

#[tokio::test]
async fn programs_that_start_others_are_looked_at_unless_the_table_of_them_is_switched_off() {
    let entry = json!([{ "id": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "pattern": "sort" },
        { "id": "6f9619ff-8b86-4d01-b42d-00cf4fc964fe", "pattern": "/usr/bin/sort" }]);
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entry } } });
    for (toml, status) in [("", 403), ("[policy]\ndelegation_table = false\n", 200)] {
        let server = TestServer::allowlist_only()
            .document(&document)
            .toml(toml)
            .start()
            .await;
        let sort = async |arguments: &[&str]| {
            let argv: Vec<&str> = std::iter::once("sort").chain(arguments.iter().copied()).collect();
            server.agent().exec(json!({ "argv": argv })).await
        };
        sort(&["/dev/null"]).await.expect(200);
        sort(&["--compress-program=/bin/true", "/dev/null"])
            .await
            .expect(status);
    }
}

#[tokio::test]
async fn a_text_that_nothing_covers_is_remembered_as_it_stands_only_where_that_is_switched_on() {
    let text = json!({ "command": "echo $(/bin/date -u +%Y)" });
    for (toml, is_offered) in [("", false), ("[policy]\nexact_text_grants = true\n", true)] {
        let server = TestServer::asking().toml(toml).start().await;
        let (agent, operator) = (server.agent(), server.operator());
        let asked = agent.accepted(text.clone()).await;
        let approval = asked.text("approvalId");
        let decided = operator.decide(approval, "allow-always").await;
        if !is_offered {
            decided.problem(422, "decision-not-allowed");
            continue;
        }
        decided.expect(200);
        let run = agent.finished(asked.text("runId")).await;
        assert_eq!(run["status"], "completed", "{run}");
        agent.ran(text.clone()).await;
        let other = json!({ "command": "echo $(/bin/date -u +%m)" });
        assert_eq!(agent.accepted(other).await["status"], "approval-pending");
    }
}
