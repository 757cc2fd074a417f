//! `[approvals] widening = "ask"`: nobody allows more alone, by whatever edge.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, ServerBuilder, TestServer, eventually, write_file_mode};

const ACCEPT: &str = "/v1/policy/document/accept";
const EFFECTIVE: &str = "/v1/policy/effective";
const ENTRIES: &str = "/v1/agents/main/allowlist";

fn two_needed() -> ServerBuilder {
    TestServer::allowlist_only()
        .toml("[approvals]\nwidening = \"ask\"\n")
        .second_owner()
}

/// Another administrator.
async fn admin(server: &TestServer, name: &str) -> Api {
    server.token_of(name, &["admin"]).await
}

/// Adds an entry, which waits.
async fn propose(by: &Api, pattern: &str) -> Value {
    by.made(ENTRIES, json!({ "pattern": pattern })).await
}

async fn accept(by: &Api, hash: &Value) -> Answer {
    by.post(ACCEPT, json!({ "hash": hash })).await
}

async fn held(server: &TestServer, member: &str) -> Value {
    let effective = server.operator().read(EFFECTIVE).await;
    effective.pointer(member).cloned().unwrap_or_default()
}

async fn held_hash(server: &TestServer, member: &str) -> Value {
    let hash = held(server, member).await["hash"].clone();
    assert!(hash.is_string(), "something is held");
    hash
}

async fn is_denied(server: &TestServer, program: &str) {
    let answer = server.agent().exec(json!({ "argv": [program] })).await;
    assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{program}");
}

async fn runs(server: &TestServer, program: &str) {
    server.ran(json!({ "argv": [program] })).await;
}

/// What is said of a change is what became of it.
#[tokio::test]
async fn a_preset_or_a_value_that_waits_is_called_held() {
    let server = two_needed().start().await;
    // What a rule that goes would let run waits, too.
    assert_eq!(server.cli(&["denylist", "add", "shutdown"]).await.code, Some(0));
    let removed = server.cli(&["denylist", "remove", "shutdown"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    removed.says("held: it counts until an admin accepts that");
    for (line, effect) in [
        (&["policy", "preset", "yolo"][..], "changed, held"),
        (
            &["policy", "set", "--agent", "build", "--security", "full"],
            "changed, held",
        ),
        (
            &["policy", "set", "--agent", "build", "--security", "deny"],
            "changed, in force",
        ),
        (&["policy", "preset", "deny-all"], "changed, in force"),
    ] {
        let done = server.cli(line).await;
        assert_eq!(done.code, Some(0), "{line:?}: {done:?}");
        done.says(effect);
        let rejects = done
            .stderr
            .contains("hint: countersign policy reject   (undoes it)");
        assert_eq!(rejects, effect.ends_with("held"), "{line:?}: {done:?}");
    }
    let again = server.cli(&["policy", "preset", "yolo", "--json"]).await;
    let document: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_has!(document, { "applied": true, "effect": "held" });
    let set = server
        .cli(&["config", "set", "tools.exec.security", "full", "--json"])
        .await;
    let document: Value = serde_json::from_str(&set.stdout).expect("JSON");
    assert_has!(document, { "effect": "held" });
    assert_eq!(
        held(&server, "/configHeld").await["proposedBy"][0]["name"],
        "operator"
    );
}

#[tokio::test]
async fn what_widens_waits_for_a_second_person_and_what_narrows_does_not() {
    let server = two_needed().start().await;
    let operator = server.operator();
    let other = admin(&server, "second").await;
    let added = propose(&operator, "/**/id").await;
    let mut warnings = added.list("warnings").iter();
    assert!(warnings.any(|warning| warning["code"] == "held"), "{added}");
    is_denied(&server, "id").await;
    let edit = held(&server, "/document/held").await;
    assert_eq!(edit["allows"], json!(["agent \"main\": \"/**/id\" is allowed"]));
    assert_eq!(edit["proposedBy"][0]["kind"], "token", "{edit}");
    let shown = server.cli(&["policy", "diff"]).await;
    assert!(shown.stdout.contains("and waits for another person"), "{shown:?}");

    let accept = json!({ "hash": edit["hash"] });
    operator
        .post(ACCEPT, accept.clone())
        .await
        .problem(403, "own-request");
    is_denied(&server, "id").await;
    // Nor by the token that the command line uses, which is the same.
    let own = server.cli(&["policy", "accept"]).await;
    assert!(own.stderr.starts_with("error[own-request]"), "{own:?}");
    other.posted(ACCEPT, accept).await;
    runs(&server, "id").await;
    assert_eq!(held(&server, "/document/held").await, Value::Null);

    // What forbids needs nobody else.
    operator
        .made("/v1/agents/main/denylist", json!({ "pattern": "id" }))
        .await;
    let answer = server.agent().exec(json!({ "argv": ["id"] })).await;
    assert_eq!(answer.problem(403, "exec-denied")["reason"], "denylist");
    assert_eq!(held(&server, "/document/held").await, Value::Null);
}

#[tokio::test]
async fn a_proposal_is_taken_back_by_its_owner_and_rejected_by_another() {
    let server = two_needed().start().await;
    let operator = server.operator();
    let other = admin(&server, "second").await;
    for by in [&operator, &other] {
        propose(&operator, "/**/id").await;
        let hash = held_hash(&server, "/document/held").await;
        let body = json!({ "hash": hash });
        by.posted("/v1/policy/document/reject", body.clone()).await;
        assert_eq!(held(&server, "/document/held").await, Value::Null);
        let entries = operator.read(ENTRIES).await;
        assert_eq!(entries.list("items").len(), 0, "{entries}");
        accept(&other, &hash).await.problem(412, "base-hash-mismatch");
        is_denied(&server, "id").await;
    }
    // The next proposal is one of its own, and takes two as before.
    propose(&operator, "/**/id").await;
    let hash = held_hash(&server, "/document/held").await;
    accept(&operator, &hash).await.problem(403, "own-request");
    accept(&other, &hash).await.expect(200);
    runs(&server, "id").await;
}

#[tokio::test]
async fn whoever_takes_a_part_back_proposes_nothing_and_whoever_adds_one_does() {
    let server = two_needed().start().await;
    let operator = server.operator();
    let other = admin(&server, "second").await;
    propose(&operator, "/**/id").await;
    let second_entry = propose(&operator, "/**/uname").await;
    let id = second_entry.text("id");
    other.removed(&format!("{ENTRIES}/{id}")).await;
    let hash = held_hash(&server, "/document/held").await;
    accept(&other, &hash).await.expect(200);
    runs(&server, "id").await;
    is_denied(&server, "uname").await;

    // Both have a part in this one, so it takes a third.
    for (by, pattern) in [(&operator, "/**/uname"), (&other, "/**/nproc")] {
        propose(by, pattern).await;
    }
    let hash = held_hash(&server, "/document/held").await;
    for by in [&operator, &other] {
        accept(by, &hash).await.problem(403, "own-request");
    }
    is_denied(&server, "nproc").await;
    let third = admin(&server, "third").await;
    accept(&third, &hash).await.expect(200);
    runs(&server, "nproc").await;
    runs(&server, "uname").await;

    // Or one of them takes their part back.
    propose(&operator, "/**/whoami").await;
    let own = propose(&other, "/**/tty").await;
    let id = own.text("id");
    other.removed(&format!("{ENTRIES}/{id}")).await;
    let hash = held_hash(&server, "/document/held").await;
    accept(&operator, &hash).await.problem(403, "own-request");
    accept(&other, &hash).await.expect(200);
    runs(&server, "whoami").await;
}

#[tokio::test]
async fn taking_everything_back_leaves_nothing_that_waits() {
    let server = two_needed().start().await;
    let operator = server.operator();
    let added = propose(&operator, "/**/id").await;
    assert_ne!(held(&server, "/document/held").await, Value::Null);
    let id = added.text("id");
    operator.removed(&format!("{ENTRIES}/{id}")).await;
    assert_eq!(held(&server, "/document/held").await, Value::Null);
}

#[tokio::test]
async fn a_document_that_cannot_be_read_for_a_moment_forgets_nobody() {
    let server = two_needed().start().await;
    let operator = server.operator();
    propose(&operator, "/**/id").await;
    let hash = held_hash(&server, "/document/held").await;
    let text = std::fs::read_to_string(server.document_path()).unwrap();
    server.edit_document("{");
    let answer = server.agent().exec(json!({ "argv": ["id"] })).await;
    assert_eq!(answer.problem(403, "exec-denied")["reason"], "document-refused");
    server.edit_document(&text);
    is_denied(&server, "id").await;
    accept(&operator, &hash).await.problem(403, "own-request");
}

#[tokio::test]
async fn what_comes_after_a_document_that_was_never_readable_waits_too() {
    let server = two_needed().document_text("{").start().await;
    let operator = server.operator();
    let sent = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/**/id" }] } } });
    let refused = operator.get("/v1/policy/document").await;
    let hash = refused.problem(409, "document-refused")["currentHash"].clone();
    operator
        .put_matching(
            "/v1/policy/document?force=true",
            &format!("\"{}\"", hash.as_str().unwrap()),
            &sent,
        )
        .await
        .expect(200);
    let answer = server.agent().exec(json!({ "argv": ["id"] })).await;
    assert_eq!(
        answer.problem(403, "exec-denied")["reason"],
        "document-refused",
        "nothing that was accepted allows anything"
    );
    let hash = held_hash(&server, "/document/held").await;
    accept(&operator, &hash).await.problem(403, "own-request");
    let other = admin(&server, "second").await;
    accept(&other, &hash).await.expect(200);
    runs(&server, "id").await;
}

#[tokio::test]
async fn a_token_of_the_socket_is_not_changed_alone_with_the_first_document() {
    let server = two_needed().start().await;
    let operator = server.operator();
    let sent = json!({ "version": 1, "socket": { "token": "known" } });
    operator
        .put_matching("/v1/policy/document", "*", &sent)
        .await
        .expect(200);
    assert_eq!(
        held(&server, "/document/held").await["allows"],
        json!(["approvals are answered over another socket or with another token"])
    );
}

#[tokio::test]
async fn a_whole_document_is_accepted_by_whoever_else_sends_the_same() {
    let server = two_needed().start().await;
    let (operator, other) = (server.operator(), admin(&server, "second").await);
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/**/id" }] } } });
    let put = async |by: &Api| {
        let tag = by
            .get("/v1/policy/document")
            .await
            .header("etag")
            .map(str::to_owned);
        let tag = tag.unwrap_or_default();
        by.put_matching("/v1/policy/document", &tag, &document)
            .await
            .expect(200);
    };
    for _ in 0..2 {
        put(&operator).await;
        is_denied(&server, "id").await;
    }
    put(&other).await;
    runs(&server, "id").await;
}

#[tokio::test]
async fn settings_wait_too_and_a_restart_forgets_nobody() {
    let mut server = two_needed().start().await;
    let operator = server.operator();
    let other = admin(&server, "second").await;
    propose(&operator, "/**/id").await;
    let config = operator.get("/v1/config").await;
    let change = operator
        .request(reqwest::Method::PATCH, "/v1/config")
        .header("If-Match", config.header("etag").unwrap_or_default())
        .json(&json!({ "set": { "tools.exec.security": "full" } }));
    operator.send(change).await.expect(200);
    is_denied(&server, "uname").await;
    server.stop().await;
    server.start().await;
    is_denied(&server, "uname").await;
    is_denied(&server, "id").await;
    let operator = server.operator();
    let other = operator.with_token(other.token());
    for member in ["/document/held", "/configHeld"] {
        let hash = held_hash(&server, member).await;
        accept(&operator, &hash).await.problem(403, "own-request");
        accept(&other, &hash).await.expect(200);
    }
    runs(&server, "uname").await;
}

#[tokio::test]
async fn the_demand_counts_at_once_and_its_end_after_a_restart() {
    let mut server = TestServer::allowlist_only().second_owner().start().await;
    let operator = server.operator();
    propose(&operator, "/**/id").await;
    runs(&server, "id").await;
    server.edit_toml("[approvals]\nwidening = \"ask\"\n");
    // What was accepted before stays so.
    runs(&server, "id").await;
    propose(&operator, "/**/uname").await;
    is_denied(&server, "uname").await;
    for (looser, program) in [("[approvals]\nwidening = \"apply\"\n", "nproc"), ("", "tty")] {
        server.edit_toml(looser);
        let hash = held_hash(&server, "/document/held").await;
        accept(&operator, &hash).await.problem(403, "own-request");
        propose(&operator, &format!("/**/{program}")).await;
        is_denied(&server, program).await;
    }
    let other = admin(&server, "second").await;
    for accepts in [false, true] {
        // A restart accepts nothing by itself.
        server.stop().await;
        server.start().await;
        let operator = server.operator();
        propose(&operator, if accepts { "/**/arch" } else { "/**/logname" }).await;
        is_denied(&server, if accepts { "arch" } else { "logname" }).await;
        let hash = held_hash(&server, "/serverHeld").await;
        accept(&operator, &hash).await.problem(403, "own-request");
        if accepts {
            accept(&operator.with_token(other.token()), &hash)
                .await
                .expect(200);
            assert_eq!(held(&server, "/serverHeld").await, Value::Null);
            // What is accepted waits for the restart alone.
            propose(&operator, "/**/whoami").await;
            is_denied(&server, "whoami").await;
        }
    }
    server.stop().await;
    server.start().await;
    propose(&server.operator(), "/**/groups").await;
    runs(&server, "groups").await;
}

#[tokio::test]
async fn a_rule_that_is_taken_out_of_the_file_is_in_effect_until_another_owner_accepts_it() {
    const RULE: &str = "[[approvals.rules]]\npatterns = [\"**\"]\napprovals_required = 2\n";
    let with_rules = |rules: &str| format!("[approvals]\nwidening = \"ask\"\n{rules}");
    let mut server = TestServer::allowlist_only()
        .toml(&with_rules(RULE))
        .second_owner()
        .start()
        .await;
    let other = admin(&server, "second").await;
    let setting = async |server: &TestServer| {
        let settings = server.operator().read("/v1/settings").await;
        let found = settings
            .list("items")
            .iter()
            .find(|item| item["path"] == "approvals.rules");
        found.cloned().unwrap_or_default()
    };
    server.edit_toml(&with_rules(""));
    assert_has!(setting(&server).await, { "waiting": [], "waitsFor": "acceptance" });
    server.stop().await;
    server.start().await;
    let kept = setting(&server).await;
    assert_has!(kept, { "waiting": [], "waitsFor": "acceptance" });
    assert_eq!(kept["value"][0]["approvals_required"], 2, "{kept}");
    // What tightens is followed at once, and what comes back to what was accepted waits for nobody.
    server.edit_toml(&with_rules(&RULE.replace('2', "3")));
    let tightened = setting(&server).await;
    assert_eq!(
        (
            &tightened["value"][0]["approvals_required"],
            tightened.get("waiting")
        ),
        (&json!(3), None)
    );
    server.edit_toml(&with_rules(RULE));
    assert_has!(setting(&server).await, { "waitsFor": "acceptance" });
    let shown = server.cli(&["policy", "diff"]).await;
    assert!(shown.stdout.contains("countersign.toml"), "{shown:?}");
    assert!(shown.stdout.contains("approvals.rules becomes"), "{shown:?}");

    let hash = held_hash(&server, "/serverHeld").await;
    let other = server.operator().with_token(other.token());
    // It is about this very content.
    server.edit_toml(&with_rules(""));
    accept(&other, &hash).await.problem(412, "base-hash-mismatch");
    let hash = held_hash(&server, "/serverHeld").await;
    accept(&other, &hash).await.expect(200);
    assert_has!(setting(&server).await, { "waiting": [], "waitsFor": "restart" });
    server.stop().await;
    server.start().await;
    let accepted = setting(&server).await;
    assert_eq!((&accepted["value"], accepted.get("waiting")), (&json!([]), None));
}

#[tokio::test]
async fn what_was_rejected_of_the_file_is_never_in_force_and_another_content_waits_again() {
    const REJECT: &str = "/v1/policy/document/reject";
    let mut server = TestServer::allowlist_only()
        .toml("[approvals]\nwidening = \"ask\"\n")
        .second_owner()
        .start()
        .await;
    let other = admin(&server, "second").await;
    let widening = async |server: &TestServer| {
        let settings = server.operator().read("/v1/settings").await;
        let found = settings
            .list("items")
            .iter()
            .find(|item| item["path"] == "approvals.widening");
        found.cloned().unwrap_or_default()
    };
    let looser = "[approvals]\nwidening = \"apply\"\n";
    server.edit_toml(looser);
    let hash = held_hash(&server, "/serverHeld").await;
    // Nobody without the scope, and only what waits; the account that edited the file may take it back.
    server
        .agent()
        .post(REJECT, json!({ "hash": hash }))
        .await
        .problem(403, "forbidden");
    server
        .operator()
        .post(REJECT, json!({ "hash": "00ff" }))
        .await
        .problem(412, "base-hash-mismatch");
    let rejected = server.cli(&["policy", "reject"]).await;
    assert_eq!(rejected.code, Some(0), "{rejected:?}");
    let records = server
        .operator()
        .read("/v1/audit?action=document.held&order=newest&limit=1")
        .await;
    assert_has!(records["items"][0], { "target/id": "config", "detail/rejected": true, "detail/previousHash": hash });
    let said = json!({ "value": "ask", "waiting": "apply", "waitsFor": "change" });
    for restarts in [false, true] {
        if restarts {
            server.stop().await;
            server.start().await;
        }
        let kept = widening(&server).await;
        for member in ["value", "waiting", "waitsFor"] {
            assert_eq!(kept[member], said[member], "{kept}");
        }
        assert_eq!(held(&server, "/serverHeld").await, Value::Null);
        let operator = server.operator();
        let second = operator.with_token(other.token());
        // Nobody can accept it, or reject it again.
        accept(&second, &hash).await.problem(412, "base-hash-mismatch");
        second
            .post(REJECT, json!({ "hash": hash }))
            .await
            .problem(412, "base-hash-mismatch");
        // The guard that was to go still stands.
        let program = if restarts { "arch" } else { "logname" };
        propose(&operator, &format!("/**/{program}")).await;
        is_denied(&server, program).await;
    }
    // Another content is another question, and so is this one once it comes back.
    server.edit_toml(&format!("{looser}max_pending = 7\n"));
    let next = held_hash(&server, "/serverHeld").await;
    assert_ne!(next, hash);
    server.edit_toml(looser);
    assert_eq!(held_hash(&server, "/serverHeld").await, hash);
    accept(&server.operator().with_token(other.token()), &hash)
        .await
        .expect(200);
    server.stop().await;
    server.start().await;
    assert_eq!(widening(&server).await["value"], "apply");
}

#[tokio::test]
async fn without_the_accepted_settings_no_server_starts() {
    let mut server = two_needed().start().await;
    server.stop().await;
    let kept = server
        .document_path()
        .with_file_name("countersign/accepted-guards.json");
    let text = std::fs::read_to_string(&kept).unwrap();
    write_file_mode(&kept, "{}", 0o600);
    assert!(server.start_fails().await.is_some_and(|code| code != 0));
    assert!(server.log().contains("accepted-guards.json"), "{}", server.log());
    write_file_mode(&kept, text, 0o600);
    server.start().await;
}

#[tokio::test]
async fn an_edit_of_the_file_waits_before_any_command_ran() {
    let server = two_needed().start().await;
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/**/id" }] } } });
    is_denied(&server, "id").await;
    server.edit_document(&document.to_string());
    is_denied(&server, "id").await;
    let hash = held_hash(&server, "/document/held").await;
    // Who owns the state directory made it, whatever the editor.
    accept(&server.operator(), &hash)
        .await
        .problem(403, "own-request");
    let other = admin(&server, "second").await;
    accept(&other, &hash).await.expect(200);
    runs(&server, "id").await;
}

#[tokio::test]
async fn what_an_answer_remembers_waits_while_its_own_run_goes_on() {
    let server = TestServer::asking_with("widening = \"ask\"")
        .second_owner()
        .start()
        .await;
    let other = admin(&server, "second").await;
    let command = json!({ "argv": ["uname"], "approvalWaitMs": 0 });
    let asked = server.asked(command.clone()).await;
    let run = server.answered(&asked, "allow-always").await;
    assert_eq!(run["status"], "completed", "{run}");
    let hash = eventually(
        "the entry waits",
        || held(&server, "/document/held"),
        |edit| edit["hash"].is_string(),
    )
    .await["hash"]
        .clone();
    let again = server.asked(command.clone()).await;
    // Once the entry counts, the question is settled by it.
    server.answered(&again, "deny").await;
    accept(&server.operator(), &hash)
        .await
        .problem(403, "own-request");
    accept(&other, &hash).await.expect(200);
    server.ran(command).await;
}

#[tokio::test]
async fn a_token_of_the_socket_that_an_edit_brings_is_not_taken_for_ours() {
    let server = two_needed().start().await;
    is_denied(&server, "id").await;
    server.edit_document(&json!({ "version": 1, "socket": { "token": "known" } }).to_string());
    server
        .operator()
        .made("/v1/agents/main/denylist", json!({ "pattern": "/opt/never" }))
        .await;
    let edit = held(&server, "/document/held").await;
    assert_has!(edit, { "allows": ["approvals are answered over another socket or with another token"] });
    let people = edit["proposedBy"].as_array().map_or(&[][..], Vec::as_slice);
    let kinds: Vec<&Value> = people.iter().map(|person| &person["kind"]).collect();
    assert_eq!(kinds, ["cli"], "the operator's part allows nothing: {edit}");
}
