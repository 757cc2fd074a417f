//! Whose tokens are whose: what takes two people takes two owners, and nobody becomes two by making a token.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Api, Members, TestServer, eventually, run_program, sha256, write_file_mode};

const ALL: [&str; 3] = ["read", "approve", "admin"];
const ASK: &str = "[approvals]\nwidening = \"ask\"\n";
const TWO_PEOPLE: &str = "[[approvals.rules]]\napprovals_required = 2\n";

/// A token that an admin makes over the API for the same owner.
async fn made_by(by: &Api, name: &str) -> (String, Api) {
    let made = by
        .made("/v1/tokens", json!({ "name": name, "scopes": ALL }))
        .await;
    let text = |member: &str| made[member].as_str().expect(member).to_owned();
    (text("id"), by.with_token(Some(&text("secret"))))
}

async fn owner_of(server: &TestServer, name: &str) -> Value {
    let tokens = server.operator().read("/v1/tokens").await["items"].clone();
    let tokens = tokens.as_array().expect("tokens");
    let token = tokens
        .iter()
        .find(|token| token["name"] == name)
        .expect("the token");
    token["owner"].clone()
}

async fn allow(by: &Api, asked: &Value) -> Value {
    let approval = asked.text("approvalId");
    by.decided(approval, "allow-once").await
}

#[tokio::test]
async fn a_token_belongs_to_the_owner_of_the_one_that_made_it() {
    let server = TestServer::full().start().await;
    made_by(&server.operator(), "second").await;
    let ann = server.token_of("ann", &ALL).await;
    made_by(&ann, "third").await;
    for (name, owner) in [
        ("operator", "operator"),
        ("gateway", "operator"),
        ("second", "operator"),
        ("ann", "ann"),
        ("third", "ann"),
    ] {
        assert_eq!(owner_of(&server, name).await, owner, "{name}");
    }
}

#[tokio::test]
async fn two_tokens_of_one_owner_are_one_vote_and_those_of_two_are_two() {
    let server = TestServer::asking().toml(TWO_PEOPLE).start().await;
    let operator = server.operator();
    let (_, second) = made_by(&operator, "second").await;
    let asked = server.asked(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(allow(&operator, &asked).await["approval"]["status"], "pending");
    let again = allow(&second, &asked).await;
    assert_has!(again, { "applied": false, "approval/status": "pending" });

    let ann = server.token_of("ann", &ALL).await;
    let settled = allow(&ann, &asked).await;
    assert_has!(settled, { "applied": true, "approval/status": "allowed" });
}

#[tokio::test]
async fn a_proposer_accepts_nothing_with_a_second_token() {
    let server = TestServer::allowlist_only()
        .toml(ASK)
        .second_owner()
        .start()
        .await;
    let operator = server.operator();
    let (id, second) = made_by(&operator, "second").await;
    let ann = server.token_of("ann", &ALL).await;

    // It opens nothing until another owner accepts it, and then it is the proposer's still.
    second.get("/v1/tokens").await.problem(401, "unauthorized");
    let accept = format!("/v1/tokens/{id}/accept");
    operator
        .post(&accept, json!({}))
        .await
        .problem(403, "own-request");
    ann.posted(&accept, json!({})).await;
    ann.post(&accept, json!({})).await.problem(404, "not-found");
    second.read("/v1/tokens").await;

    let entry = json!({ "pattern": "/**/id" });
    operator.made("/v1/agents/main/allowlist", entry).await;
    let effective = operator.read("/v1/policy/effective").await;
    let hash = json!({ "hash": effective["document"]["held"]["hash"] });
    let accept = "/v1/policy/document/accept";
    second
        .post(accept, hash.clone())
        .await
        .problem(403, "own-request");
    ann.posted(accept, hash).await;
    server.ran(json!({ "argv": ["id"] })).await;
}

#[tokio::test]
async fn a_token_of_another_owner_waits_for_another_owner() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let wanted = json!({ "name": "bob", "scopes": ["read"], "owner": "bob" });
    let refused = operator.post("/v1/tokens", wanted.clone()).await;
    let hint = refused.problem(403, "forbidden")["hint"].clone();
    assert!(
        hint.as_str().is_some_and(|hint| hint.contains("--owner")),
        "{hint}"
    );
    // The same of one's own is made at once.
    operator
        .made(
            "/v1/tokens",
            json!({ "name": "own", "scopes": ["read"], "owner": "operator" }),
        )
        .await;

    let ann = server.token_of("ann", &ALL).await;
    let made = operator.made("/v1/tokens", wanted).await;
    assert_eq!(made["proposedBy"]["name"], "operator", "{made}");
    let bob = operator.with_token(made["secret"].as_str());
    bob.get("/v1/runs").await.problem(401, "unauthorized");
    let accept = format!("/v1/tokens/{}/accept", made.text("id"));
    operator
        .post(&accept, json!({}))
        .await
        .problem(403, "own-request");
    ann.posted(&accept, json!({})).await;
    bob.read("/v1/runs").await;
}

#[tokio::test]
async fn one_owner_cannot_demand_two() {
    let mut server = TestServer::allowlist_only().toml(ASK).prepare();
    assert_ne!(server.start_fails().await, Some(0));
    assert!(server.log().contains("takes two owners"), "{}", server.log());
    server.edit_toml("");
    server.start().await;
    // Nor in a running server: the edit is rejected, and the settings that are in force stay.
    server.edit_toml(ASK);
    let entry = async |pattern: &str| {
        let operator = server.operator();
        let body = json!({ "pattern": pattern });
        operator.made("/v1/agents/main/allowlist", body).await
    };
    entry("/**/id").await;
    server.ran(json!({ "argv": ["id"] })).await;
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["checks"]["config"]["ok"], false, "{ready}");

    server.token_of("ann", &ALL).await;
    server.edit_toml(&format!("{ASK}\n"));
    entry("/**/uname").await;
    let answer = server.agent().exec(json!({ "argv": ["uname"] })).await;
    answer.problem(403, "exec-denied");
}

#[tokio::test]
async fn an_offer_that_others_could_have_written_makes_no_token() {
    let server = TestServer::full().start().await;
    let offers = server.state().join("countersign/token-offers");
    fs::create_dir_all(&offers).expect("a directory");
    let secret = format!("cst_{}", "A".repeat(43));
    let digest = sha256(secret.as_bytes());
    let offer = json!({ "name": "x", "owner": "x", "scopes": ["read"], "groups": [], "sha256": digest });
    let ours = offers.join("ours.json");
    for (mode, status) in [(0o644, 401), (0o600, 200)] {
        write_file_mode(&ours, offer.to_string(), mode);
        let shown = server.operator().with_token(Some(&secret)).get("/v1/runs").await;
        assert_eq!(shown.status, status, "{mode:o}");
        assert!(!ours.exists(), "it is taken or thrown away");
    }
}

#[tokio::test]
async fn what_a_killed_command_line_left_of_an_offer_goes_when_offers_are_looked_at() {
    let server = TestServer::full().start().await;
    let offers = server.state().join("countersign/token-offers");
    fs::create_dir_all(&offers).expect("a directory");
    let [left, fresh] = [".a.json.1.0.tmp", ".b.json.1.0.tmp"].map(|name| offers.join(name));
    for half in [&left, &fresh] {
        write_file_mode(half, "{\"name\":\"x", 0o600);
    }
    let now = fs::metadata(&fresh).and_then(|metadata| metadata.modified());
    let hour_ago = now.expect("a time") - std::time::Duration::from_hours(1);
    let file = fs::File::options().write(true).open(&left).expect("the file");
    file.set_modified(hour_ago).expect("an older file");
    let unknown = format!("cst_{}", "B".repeat(43));
    let shown = server.operator().with_token(Some(&unknown)).get("/v1/runs").await;
    assert_eq!(shown.status, 401);
    assert!(!left.exists(), "it was written an hour ago");
    assert!(fresh.exists(), "it may still be written");
}

#[tokio::test]
async fn the_owner_of_the_state_directory_makes_an_owner_with_and_without_a_server() {
    let mut server = TestServer::full().prepare();
    let arguments = |owner| {
        [
            "token",
            "create",
            owner,
            "--scope",
            "read,admin",
            "--owner",
            owner,
            "--json",
        ]
    };
    let made = run_program(&server.invocation(&arguments("ann")));
    let ann: Value = serde_json::from_str(&made.stdout).expect("a token");
    assert_has!(ann, { "owner": "ann", "taken": false });
    server.start().await;
    let made = server.cli(&arguments("bob")).await;
    let bob: Value = serde_json::from_str(&made.stdout).expect("a token");
    assert_has!(bob, { "owner": "bob", "taken": true });
    for (name, token) in [("ann", &ann), ("bob", &bob)] {
        let api = server.operator().with_token(token["secret"].as_str());
        api.read("/v1/tokens").await;
        assert_eq!(owner_of(&server, name).await, name);
    }
    // A command that an agent runs makes none.
    let inside = server.invocation(&arguments("eve")).env("OPENCLAW_SHELL", "exec");
    let refused = TestServer::finish(inside).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("operator-refused"), "{refused:?}");
}

#[tokio::test]
async fn tokens_of_an_earlier_version_belong_to_the_operator() {
    let mut server = TestServer::asking().toml(TWO_PEOPLE).start().await;
    let old = server.token_of("old", &ALL).await;
    assert_eq!(owner_of(&server, "old").await, "old");
    server.stop().await;
    // As version 12 of the schema left it.
    let ledger = rusqlite::Connection::open(server.database()).expect("the ledger");
    ledger
        .execute_batch(
            "DROP TABLE unfinished; DELETE FROM meta WHERE key = 'unfinished_from'; \
             CREATE INDEX runs_by_time ON runs (created_ms); CREATE INDEX runs_unfinished ON runs (status); \
             ALTER TABLE runs DROP COLUMN start; ALTER TABLE runs DROP COLUMN confinement; \
             ALTER TABLE runs DROP COLUMN note; ALTER TABLE runs DROP COLUMN observed; DROP TABLE stop; \
             ALTER TABLE login_links DROP COLUMN token_id; \
             DROP INDEX ended_link_tokens; ALTER TABLE tokens DROP COLUMN for_link; \
             ALTER TABLE tokens DROP COLUMN owner; ALTER TABLE tokens DROP COLUMN proposed_json; \
             PRAGMA user_version = 12;",
        )
        .expect("the schema of before");
    drop(ledger);
    server.start().await;
    for name in ["operator", "gateway", "old"] {
        assert_eq!(owner_of(&server, name).await, "operator", "{name}");
    }
    let old = server.operator().with_token(old.token());
    let asked = server.asked(json!({ "argv": ["/bin/true"] })).await;
    assert_has!(allow(&server.operator(), &asked).await, { "approval/status": "pending" });
    assert_eq!(allow(&old, &asked).await["applied"], false);
    // One of another owner is the second.
    let ann = server.token_of("ann", &ALL).await;
    assert_eq!(allow(&ann, &asked).await["approval"]["status"], "allowed");
}

#[tokio::test]
async fn an_admin_of_another_owner_gets_no_link_to_sign_in_as_the_operator() {
    let server = TestServer::full().start().await;
    let ann = server.token_of("ann", &ALL).await;
    let (_, second) = made_by(&server.operator(), "second").await;
    let refused = ann.post("/v1/login-links", json!({})).await;
    let detail = refused.problem(403, "forbidden")["detail"].clone();
    assert!(
        detail
            .as_str()
            .is_some_and(|detail| detail.contains("your own token")),
        "{detail}"
    );
    for own in [server.operator(), second] {
        own.made("/v1/login-links", json!({})).await;
    }
}

#[tokio::test]
async fn what_an_answer_remembers_is_a_proposal_of_the_owner_who_answered() {
    let mut server = TestServer::asking_with("widening = \"ask\"")
        .second_owner()
        .start()
        .await;
    let [ann, bob] = [
        server.token_of("ann", &ALL).await,
        server.token_of("bob", &ALL).await,
    ];
    let (id, second) = made_by(&ann, "second of ann").await;
    bob.posted(&format!("/v1/tokens/{id}/accept"), json!({})).await;
    let asked = server.asked(json!({ "argv": ["uname"] })).await;
    let approval = asked.text("approvalId");
    ann.decided(approval, "allow-always").await;
    let held = async |server: &TestServer| {
        server.operator().read("/v1/policy/effective").await["document"]["held"].clone()
    };
    let waits = eventually(
        "the entry waits",
        || held(&server),
        |edit| edit["hash"].is_string(),
    )
    .await;
    server.agent().finished(asked.text("runId")).await;
    // A server that finds it waiting takes it for nobody's else.
    server.stop().await;
    server.start().await;
    let hash = json!({ "hash": waits["hash"] });
    let [ann, second] = [ann, second].map(|api| server.operator().with_token(api.token()));
    for own in [&ann, &second] {
        let accept = own.post("/v1/policy/document/accept", hash.clone()).await;
        accept.problem(403, "own-request");
    }
    server.operator().posted("/v1/policy/document/accept", hash).await;
    server.ran(json!({ "argv": ["uname"] })).await;
}

#[tokio::test]
async fn an_offered_token_has_a_name_that_any_token_may_have() {
    let server = TestServer::full().start().await;
    let create = async |name: &str| {
        let arguments = [
            "token", "create", name, "--scope", "read", "--owner", "ann", "--json",
        ];
        server.cli(&arguments).await
    };
    for name in ["a\u{7}b", " ", &"n".repeat(101)] {
        let refused = create(name).await;
        assert_eq!(refused.code, Some(64), "{refused:?}");
        refused.complains("name: expected 1 to 100 characters");
    }
    assert_eq!(create("a b").await.code, Some(0));
    // As an editor may write it.
    let offers = server.state().join("countersign/token-offers");
    for name in ["c\u{1b}[2Jd", "c d"] {
        let offer = json!({ "name": name, "owner": "ann", "scopes": ["read"], "groups": [], "sha256": sha256(name.as_bytes()) });
        write_file_mode(&offers.join("hand.json"), offer.to_string(), 0o600);
        let unknown = format!("cst_{}", "A".repeat(43));
        server.operator().with_token(Some(&unknown)).get("/v1/runs").await;
        assert!(!offers.join("hand.json").exists(), "it is taken or thrown away");
    }
    let tokens = server.operator().read("/v1/tokens").await.to_string();
    assert!(tokens.contains("\"c d\"") && !tokens.contains("[2J"), "{tokens}");
}

#[tokio::test]
async fn a_rotated_token_opens_what_it_did_and_its_old_secret_nothing() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let request = json!({ "name": "ci", "scopes": ["exec"], "agents": ["build"], "expiresAtMs": 4_102_444_800_000_i64 });
    let (id, old) = server.token_with(request).await;
    let asked = old
        .accepted(json!({ "argv": ["/bin/true"], "agentId": "build" }))
        .await;

    let rotate = format!("/v1/tokens/{id}/rotate");
    let rotated = operator.made(&rotate, json!({})).await;
    assert_eq!(rotated["replaces"], id.as_str(), "{rotated}");
    for (member, value) in [
        ("name", json!("ci")),
        ("owner", json!("operator")),
        ("scopes", json!(["exec"])),
        ("agents", json!(["build"])),
        ("expiresAtMs", json!(4_102_444_800_000_i64)),
    ] {
        assert_eq!(rotated[member], value, "{member}");
    }
    old.get("/v1/events").await.problem(401, "unauthorized");
    let new = operator.with_token(rotated["secret"].as_str());
    new.accepted(json!({ "argv": ["/bin/true"], "agentId": "build" }))
        .await;
    new.exec(json!({ "argv": ["/bin/true"] }))
        .await
        .problem(403, "forbidden");
    // What the old one asked ended with it.
    let run = operator.finished(asked.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-cancelled" });
    // An old one is replaced once, and the record has both steps.
    operator.post(&rotate, json!({})).await.problem(404, "not-found");
    let records = operator.read("/v1/audit?limit=500").await["items"].clone();
    let of = |action: &str, subject: &Value| {
        records
            .as_array()
            .expect("records")
            .iter()
            .find(|record| record["action"] == action && record["target"]["id"] == *subject)
            .unwrap_or_else(|| panic!("{action} of {subject}"))
            .clone()
    };
    assert_has!(of("token.created", &rotated["id"]), { "detail/replaces": id.as_str() });
    of("token.revoked", &json!(id));
}

#[tokio::test]
async fn nobody_gets_the_secret_of_another_owner_by_rotating() {
    let server = TestServer::full().start().await;
    let ann = server.token_of("ann", &ALL).await;
    let id = server.token_id("ann").await;
    let operator = server.operator();
    operator
        .post(&format!("/v1/tokens/{id}/rotate"), json!({}))
        .await
        .problem(403, "forbidden");
    let refused = server.cli(&["token", "rotate", "ann"]).await;
    assert!(refused.stderr.contains("another owner"), "{refused:?}");
    ann.read("/v1/tokens").await;
    let rotated = ann.made(&format!("/v1/tokens/{id}/rotate"), json!({})).await;
    ann.get("/v1/tokens").await.problem(401, "unauthorized");
    let ann = ann.with_token(rotated["secret"].as_str());
    ann.read("/v1/tokens").await;
}

#[tokio::test]
async fn the_file_of_the_operator_follows_a_rotation() {
    let mut server = TestServer::full().start().await;
    let file = server.state().join("countersign/operator.token");
    let old = fs::read_to_string(file).expect("the token of the operator");
    for name in ["operator", "gateway"] {
        let rotated = server.cli(&["token", "rotate", name]).await;
        assert_eq!(rotated.code, Some(0), "{rotated:?}");
        let file = server.state().join(format!("countersign/{name}.token"));
        assert_eq!(
            fs::read_to_string(&file).expect("the file"),
            rotated.stdout,
            "{name}"
        );
        rotated.complains(file.display().to_string());
    }
    let before = |server: &TestServer| server.anonymous().with_token(Some(old.trim()));
    before(&server)
        .get("/v1/tokens")
        .await
        .problem(401, "unauthorized");
    assert_eq!(server.cli(&["token", "list"]).await.code, Some(0));
    assert_eq!(server.cli(&["login-link"]).await.code, Some(0));
    assert_eq!(server.cli(&["exec", "--", "true"]).await.code, Some(0));
    // The next start takes nothing over that was replaced.
    server.stop().await;
    server.start().await;
    before(&server)
        .get("/v1/tokens")
        .await
        .problem(401, "unauthorized");
    assert_eq!(server.cli(&["token", "list"]).await.code, Some(0));
}

#[tokio::test]
async fn a_name_that_several_tokens_have_is_not_guessed() {
    let server = TestServer::full().start().await;
    made_by(&server.operator(), "twin").await;
    made_by(&server.operator(), "twin").await;
    let refused = server.cli(&["token", "rotate", "twin"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("error[id-ambiguous]: "), "{refused:?}");
    let missing = server.cli(&["token", "rotate", "nobody"]).await;
    assert!(missing.stderr.contains("there is no token nobody"), "{missing:?}");
}

#[tokio::test]
async fn the_owner_of_the_state_directory_is_not_locked_out() {
    let mut server = TestServer::full().start().await;
    let ann = server.token_of("ann", &ALL).await;
    let live = server.cli(&["token", "recover"]).await;
    assert!(live.stderr.contains("is live"), "{live:?}");
    let id = server.token_id("operator").await;
    ann.removed(&format!("/v1/tokens/{id}")).await;

    let locked_out = server.cli(&["runs", "list"]).await;
    locked_out.complains("countersign token recover");
    let recovered = server.cli(&["token", "recover"]).await;
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert_eq!(server.cli(&["runs", "list"]).await.code, Some(0));
    assert_eq!(server.cli(&["login-link"]).await.code, Some(0));
    let tokens = ann.read("/v1/tokens").await;
    let new = tokens
        .list("items")
        .iter()
        .find(|token| token["name"] == "operator" && token["revokedAtMs"].is_null())
        .expect("the new one")
        .clone();
    let made = ann.read("/v1/audit?limit=500").await["items"].clone();
    let made = made.as_array().expect("records").clone();
    let made = made
        .iter()
        .find(|record| record["action"] == "token.created" && record["target"]["id"] == new["id"])
        .expect("the record of the new one");
    assert_eq!(made["actor"]["id"], "state-directory", "{made}");

    // Without a server the next start takes it.
    ann.removed(&format!("/v1/tokens/{}", new.text("id"))).await;
    server.stop().await;
    let recovered = server.cli(&["token", "recover"]).await;
    assert!(recovered.stderr.contains("when it starts"), "{recovered:?}");
    server.start().await;
    assert_eq!(server.cli(&["runs", "list"]).await.code, Some(0));
}
