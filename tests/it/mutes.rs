//! Muting an agent: what it would have to be asked about is denied for a while, and nothing else changes.

use countersign_sys::{
    clock::{Clock as _, SystemClock},
    hooks,
};
use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Members, OperatorClient, Pause, ServerBuilder, TestServer, assert_says, eventually,
};

const MUTE: &str = "/v1/agents/main/mute";
const HOUR_MS: i64 = 3_600_000;

/// So many milliseconds from now.
fn in_ms(millis: i64) -> i64 {
    SystemClock.now().get() + millis
}

async fn put(api: &Api, path: &str, body: Value) -> Answer {
    api.send(api.request(reqwest::Method::PUT, path).json(&body))
        .await
}

async fn mute(api: &Api, reason: &str) -> Value {
    let until = in_ms(HOUR_MS);
    put(api, MUTE, json!({ "untilMs": until, "reason": reason }))
        .await
        .expect(200)
}

async fn reason_of(server: &TestServer, call: Value) -> Value {
    let answer = server.agent().exec(call).await;
    answer.problem(403, "exec-denied")["reason"].clone()
}

/// A token that asks and answers. Written into the ledger behind the server's back, which makes none.
async fn asker_and_approver(server: &TestServer) -> Api {
    let (id, both) = server
        .token_with(json!({ "name": "both", "scopes": ["exec"] }))
        .await;
    let ledger = rusqlite::Connection::open(server.database()).expect("the ledger");
    ledger
        .busy_timeout(std::time::Duration::from_secs(30))
        .expect("a limit");
    let scopes = r#"["exec","approve"]"#;
    let changed = ledger.execute("UPDATE tokens SET scopes = ?1 WHERE id = ?2", (scopes, id));
    assert_eq!(changed, Ok(1));
    both
}

fn server() -> ServerBuilder {
    TestServer::asking().allowlist(&json!([{ "pattern": "/bin/true" }]))
}

#[tokio::test]
async fn what_would_be_asked_is_denied_and_nothing_else_changes() {
    let server = server().start().await;
    let operator = server.operator();
    let (_, ann) = server
        .token_with(json!({ "name": "ann", "scopes": ["approve"] }))
        .await;
    let waits = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let other = server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "other" }))
        .await;
    let muted = mute(&ann, "one thing\nat a time").await;
    assert_has!(muted, { "agentId": "main" });
    assert_says(
        muted.text("reason"),
        "muted by ann: \u{201c}one thing at a time\u{201d}",
    );

    // What waits is denied, of this agent alone.
    let ended = server.agent().finished(waits.text("runId")).await;
    assert_has!(ended, { "status": "denied", "reason": "agent-muted" });
    let approval = operator.approval(waits.text("approvalId")).await;
    assert_has!(approval, { "status": "denied", "terminalReason": "rule" });
    assert_eq!(operator.pending().await.len(), 1);
    assert_has!(operator.approval(other.text("approvalId")).await, { "status": "pending" });

    // So is what comes, and the agent is told until when and why; nobody is asked.
    let until = jiff::Timestamp::from_millisecond(muted["untilMs"].as_i64().unwrap()).unwrap();
    for call in [
        json!({ "argv": ["/bin/date"] }),
        json!({ "command": "date -u; id" }),
        json!({ "argv": ["/bin/date"], "sessionKey": "agent:main:other", "workdir": "/" }),
        json!({ "argv": ["/bin/true"], "ask": "always" }),
        // A fallback that would let it run does not count either: nobody was to be asked.
        json!({ "command": "$UNKNOWN x" }),
    ] {
        let denied = server
            .agent()
            .exec(call.clone())
            .await
            .problem(403, "exec-denied");
        assert_eq!(denied["reason"], "agent-muted", "{call}");
        assert_eq!(denied["hint"], "countersign agents unmute main", "{denied}");
        let message = denied.text("agentMessage");
        assert_says(message, &format!("until {until}"));
        assert_says(message, "\u{201c}one thing at a time\u{201d}");
        let explained = server.agent().explain(call).await;
        assert_has!(explained, { "outcome": "deny", "reason": "agent-muted", "muted/untilMs": muted["untilMs"] });
        let run = server.agent().run(denied.text("runId")).await;
        assert_has!(run, { "reason": "agent-muted", "decidedBy/kind": "policy" });
        assert_says(run.text("agentMessage"), &format!("until {until}"));
    }
    let patch = json!({ "input": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch\n" });
    let patched = server.agent().post("/v1/apply-patch", patch).await;
    assert_eq!(patched.problem(403, "exec-denied")["reason"], "agent-muted");
    assert_eq!(operator.pending().await.len(), 1);

    // The twins: what runs without a question does, what policy denies is denied for its own reason, and another agent asks.
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let explained = server.agent().explain(json!({ "argv": ["/bin/true"] })).await;
    assert_has!(explained, { "outcome": "run" });
    assert_eq!(explained.get("muted"), None, "{explained}");
    assert_eq!(
        reason_of(&server, json!({ "argv": ["no-such-program"] })).await,
        "program-not-found"
    );
    let never = json!({ "pattern": "/bin/uname" });
    operator.made("/v1/agents/main/denylist", never).await;
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/uname"] })).await,
        "denylist"
    );
    server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "third" }))
        .await;

    let listed = operator.read("/v1/mutes").await;
    assert_eq!(listed["items"], json!([muted]));
    let records = operator
        .read("/v1/audit?action=allowlist.changed&order=newest")
        .await;
    let by_ann = records
        .list("items")
        .iter()
        .any(|record| record["actor"]["name"] == "ann" && record["detail"]["entryId"] == muted["id"]);
    assert!(by_ann, "{records}");

    operator.removed(MUTE).await;
    operator.delete(MUTE).await.problem(404, "not-found");
    assert_eq!(operator.read("/v1/mutes").await["items"], json!([]));
    server
        .asked(json!({ "argv": ["/bin/date"], "join": false }))
        .await;
}

#[tokio::test]
async fn muting_takes_what_an_answer_takes_and_ending_it_takes_an_admin() {
    let server = server().start().await;
    let operator = server.operator();
    let until = in_ms(HOUR_MS);
    let body = json!({ "untilMs": until });
    let bound = server.bound_token(&["approve"], "other").await;
    // Of an agent that nothing here knows there is nothing to mute, and one that asked is known.
    put(&bound, "/v1/agents/other/mute", body.clone())
        .await
        .problem(404, "not-found");
    assert!(server.document_on_disk()["agents"]["other"].is_null());
    server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "other" }))
        .await;
    let problem = put(&bound, MUTE, body.clone()).await;
    assert_eq!(problem.status, 403, "{}", problem.text());
    put(&server.agent(), MUTE, body.clone())
        .await
        .problem(403, "forbidden");
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read", "exec"] }))
        .await;
    put(&reader, MUTE, body.clone()).await.problem(403, "forbidden");
    // An approver of one agent mutes that one, and sees no other mute.
    put(&bound, "/v1/agents/other/mute", body.clone())
        .await
        .expect(200);
    let (_, approver) = server
        .token_with(json!({ "name": "approver", "scopes": ["approve"] }))
        .await;
    put(&approver, MUTE, body.clone()).await.expect(200);
    let seen = bound.read("/v1/mutes").await;
    assert_eq!(seen.list("items").len(), 1, "{seen}");
    assert_eq!(operator.read("/v1/mutes").await.list("items").len(), 2);
    // A shorter one does not shorten it, and only an admin ends it.
    let shorter = put(&approver, MUTE, json!({ "untilMs": until - 60_000 }))
        .await
        .expect(200);
    assert_has!(shorter, { "untilMs": until });
    approver.delete(MUTE).await.problem(403, "forbidden");
    bound
        .delete("/v1/agents/other/mute")
        .await
        .problem(403, "forbidden");
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
        "agent-muted"
    );
    operator.removed(MUTE).await;

    for (path, body, status, code) in [
        (
            "/v1/agents/*/mute",
            json!({ "untilMs": until }),
            400,
            "invalid-request",
        ),
        (MUTE, json!({ "untilMs": 1 }), 422, "decision-not-allowed"),
        (
            MUTE,
            json!({ "untilMs": until + 31 * 24 * HOUR_MS }),
            422,
            "decision-not-allowed",
        ),
        (MUTE, json!({}), 400, "invalid-request"),
        (
            MUTE,
            json!({ "untilMs": until, "agentId": "other" }),
            400,
            "invalid-request",
        ),
        (
            MUTE,
            json!({ "untilMs": until, "reason": "x".repeat(1001) }),
            400,
            "invalid-request",
        ),
    ] {
        put(&operator, path, body).await.problem(status, code);
    }
    // Who asked does not answer, and so does not mute, while it waits.
    let both = asker_and_approver(&server).await;
    let waits = both.accepted(json!({ "argv": ["/bin/date"] })).await;
    put(&both, MUTE, json!({ "untilMs": until }))
        .await
        .problem(403, "own-request");
    let deny = json!({ "decision": "deny", "mute": { "untilMs": until, "agent": true } });
    let path = format!("/v1/approvals/{}/decision", waits.text("approvalId"));
    both.post(&path, deny.clone()).await.problem(403, "own-request");
    // As an answer another person does it.
    let answered = approver.post(&path, deny).await.expect(200);
    assert_has!(answered["rule"], { "questions": true, "expiresAtMs": until });
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
        "agent-muted"
    );
}

#[tokio::test]
async fn a_mute_outlives_the_server_and_an_edit_that_takes_it_away_waits() {
    let mut server = server().start().await;
    mute(&server.operator(), "quiet").await;
    server.crash_and_restart().await;
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
        "agent-muted"
    );
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    // What a command could have written does not end it: not without the rule, not with an earlier end, not with a rule that
    // only looks like it.
    let document = server.document_on_disk();
    let rule = document["agents"]["main"]["denylist"][0].clone();
    assert_has!(rule, { "pattern": "=questions", "questions": true });
    let with = |rules: Value| {
        let mut edited = document.clone();
        edited["agents"]["main"]["denylist"] = rules;
        edited.to_string()
    };
    let earlier = json!({ "pattern": "=questions", "questions": true, "expiresAtMs": 1 });
    for rules in [json!([]), json!([earlier]), json!([{ "pattern": "=questions" }])] {
        server.edit_document(&with(rules.clone()));
        assert_eq!(
            reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
            "agent-muted",
            "{rules}"
        );
        let held = server.operator().read("/v1/policy/effective").await["document"]["held"].clone();
        assert_eq!(
            held["allows"],
            json!(["agent \"main\": it is no longer muted"]),
            "{held}"
        );
    }
    // A mute that says more than that, or does not end, is no document, and denies everything.
    for wrong in [
        json!({ "pattern": "=questions", "questions": true }),
        json!({ "pattern": "rm", "questions": true, "expiresAtMs": 5 }),
        json!({ "pattern": "=questions", "questions": true, "expiresAtMs": 5, "children": true }),
        json!({ "pattern": "=questions", "questions": true, "expiresAtMs": 5, "argPattern": "x" }),
    ] {
        server.edit_document(&with(json!([wrong])));
        assert_eq!(
            reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
            "document-refused",
            "{wrong}"
        );
    }
    server.edit_document(&with(json!([rule])));
    server.operator().removed(MUTE).await;
    server.asked(json!({ "argv": ["/bin/date"] })).await;
}

#[tokio::test]
async fn a_mute_that_is_over_denies_nothing_and_a_new_one_takes_its_place() {
    let over = json!({ "pattern": "=questions", "questions": true, "expiresAtMs": 1, "reason": "over" });
    let server = TestServer::asking()
        .agents(&json!({ "main": { "denylist": [over] } }))
        .start()
        .await;
    assert_eq!(server.operator().read("/v1/mutes").await["items"], json!([]));
    let waits = server.asked(json!({ "argv": ["/bin/date"] })).await;
    mute(&server.operator(), "now").await;
    server.agent().finished(waits.text("runId")).await;
    let rules = server.operator().read("/v1/agents/main/denylist").await;
    assert_eq!(rules.list("items").len(), 1, "{rules}");
    assert_eq!(server.operator().read("/v1/mutes").await.list("items").len(), 1);
}

/// A mute says nothing about commands: a text that cannot be taken apart runs under `full` as it would without it.
#[tokio::test]
async fn under_full_everything_runs_as_before() {
    let server = TestServer::full().start().await;
    mute(&server.operator(), "quiet").await;
    server
        .ran(json!({ "command": "echo $(( 1 + 1 )) | cat; eval true" }))
        .await;
    server.ran(json!({ "argv": ["/bin/date"] })).await;
    // The twin.
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/date"], "ask": "always" })).await,
        "agent-muted"
    );
}

/// Where nobody can be reached a fallback may let a command run; of a muted agent it does not.
#[tokio::test]
async fn no_fallback_runs_what_would_have_been_asked() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let server = ServerBuilder::new(&exec)
        .document(&json!({ "version": 1, "defaults": { "askFallback": "full" } }))
        .start()
        .await;
    server.ran(json!({ "argv": ["/bin/date"] })).await;
    mute(&server.operator(), "quiet").await;
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/date"] })).await,
        "agent-muted"
    );
}

#[tokio::test]
async fn questions_about_commands_that_their_asker_starts_are_denied_too() {
    let server = server().toml("[bridge]\nenabled = true\n").start().await;
    let operator = server.operator();
    let mut link = OperatorClient::new(&server.gateway_token(), &["operator.write"])
        .connect(&server)
        .await;
    let params = json!({ "command": "/bin/date -R", "host": "gateway", "timeoutMs": 60_000 });
    let waits = link.send("exec.approval.request", params.clone()).await;
    eventually("a question", || operator.pending(), |pending| pending.len() == 1).await;
    mute(&operator, "quiet").await;
    assert_eq!(link.answer(&waits).await["payload"]["decision"], "deny");
    assert_has!(link.call("exec.approval.request", params).await, { "decision": "deny" });
    assert_eq!(operator.pending().await, Vec::<Value>::new());
    let runs = operator.read("/v1/runs?status=denied").await;
    let reasons: Vec<&str> = runs.list("items").iter().map(|run| run.text("reason")).collect();
    assert_eq!(reasons, ["agent-muted", "agent-muted"], "{runs}");
}

#[tokio::test]
async fn the_command_line_mutes_lists_and_ends_it() {
    let server = server().start().await;
    let muted = server
        .cli(&["agents", "mute", "main", "--for", "30m", "--reason", "one thing"])
        .await;
    assert_says(&muted.stdout, "main is muted until ");
    let listed = server.cli(&["agents", "mutes"]).await;
    assert_says(&listed.stdout, "\u{201c}one thing\u{201d}");
    let explained = server.cli(&["policy", "explain", "--", "date"]).await;
    assert_says(&explained.stdout, "main is muted until ");
    let rules = server.cli(&["denylist", "list", "--agent", "main"]).await;
    assert_says(&rules.stdout, "=questions");
    let ended = server.cli(&["agents", "unmute", "main"]).await;
    assert_says(&ended.stdout, "main may ask again");
    let twice = server.cli(&["agents", "unmute", "main"]).await;
    assert_says(&twice.stderr, "not-found");
    let agents = server.cli(&["agents", "list"]).await;
    assert_says(&agents.stdout, "main");

    let waits = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let denied = server
        .cli(&["deny", waits.text("approvalId"), "--mute-agent", "30m"])
        .await;
    assert_says(&denied.stdout, "Nobody is asked about anything of main until ");
    assert_eq!(
        reason_of(&server, json!({ "argv": ["/bin/id"] })).await,
        "agent-muted"
    );
}

/// Every mute that is in effect is listed, and what ends it is named.
#[tokio::test]
async fn a_mute_that_only_waits_to_end_is_listed_and_said_to_wait() {
    let server = TestServer::asking_with("widening = \"ask\"")
        .second_owner()
        .start()
        .await;
    let muted = mute(&server.operator(), "quiet").await;
    let call = json!({ "argv": ["/bin/date"] });
    let hint = async || {
        let denied = server.agent().exec(call.clone()).await;
        denied.problem(403, "exec-denied")["hint"].clone()
    };
    // The twin: nothing waits yet.
    assert_eq!(hint().await, "countersign agents unmute main");
    for _ in 0..2 {
        let ended = server.cli(&["agents", "unmute", "main"]).await;
        assert_says(&ended.stdout, "main stays muted until ");
        assert_says(&ended.stdout, "countersign policy diff");
        assert_eq!(
            server.operator().read("/v1/mutes").await["items"],
            json!([waits(&muted)])
        );
        assert_eq!(hint().await, "countersign policy diff");
    }
    let held = server.operator().read("/v1/policy/effective").await["document"]["held"].clone();
    let accept = json!({ "hash": held["hash"] });
    let second = server.token_of("second", &["admin"]).await;
    second.posted("/v1/policy/document/accept", accept).await;
    assert_eq!(server.operator().read("/v1/mutes").await["items"], json!([]));
    server.asked(call.clone()).await;
    server.operator().delete(MUTE).await.problem(404, "not-found");
}

/// An edit from outside that takes a mute away ends nothing, and an admin can end it.
#[tokio::test]
async fn a_mute_that_an_edit_took_away_is_listed_and_ended_by_an_admin() {
    let server = server().start().await;
    let muted = mute(&server.operator(), "quiet").await;
    // From now on an edit may be one of a command.
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let mut edited = server.document_on_disk();
    edited["agents"]["main"]["denylist"] = json!([]);
    server.edit_document(&edited.to_string());
    let denied = server.agent().exec(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(
        denied.problem(403, "exec-denied")["hint"],
        "countersign policy diff"
    );
    assert_eq!(
        server.operator().read("/v1/mutes").await["items"],
        json!([waits(&muted)])
    );
    let ended = server.cli(&["agents", "unmute", "main"]).await;
    assert_says(&ended.stdout, "main may ask again");
    assert_eq!(removals(&server, &muted["id"]).await, 1);
    server.asked(json!({ "argv": ["/bin/date"] })).await;
}

/// The same mute, whose end waits to be accepted.
fn waits(muted: &Value) -> Value {
    assert_eq!(muted["endWaits"], Value::Null, "nothing waits before");
    let mut waits = muted.clone();
    waits["endWaits"] = json!(true);
    waits
}

async fn removals(server: &TestServer, rule: &Value) -> usize {
    let records = server
        .operator()
        .read("/v1/audit?action=allowlist.changed&order=newest")
        .await;
    let records = records.list("items").iter();
    records
        .filter(|record| record["detail"]["entryId"] == *rule && record["detail"]["change"] == "removed")
        .count()
}

async fn changes(server: &TestServer) -> usize {
    let path = "/v1/audit?action=allowlist.changed&order=newest";
    server.operator().read(path).await.list("items").len()
}

#[tokio::test]
async fn a_mute_of_all_agents_is_ended_by_its_own_name() {
    let rule = json!({ "pattern": "=questions", "questions": true, "expiresAtMs": in_ms(HOUR_MS) });
    let server = TestServer::asking()
        .agents(&json!({ "*": { "denylist": [rule] } }))
        .start()
        .await;
    let denied = server.agent().exec(json!({ "argv": ["/bin/date"] })).await;
    let denied = denied.problem(403, "exec-denied");
    assert_eq!(denied["hint"], "countersign agents unmute '*'");
    // The twin: an agent of its own mute.
    let own = mute(&server.operator(), "quiet").await;
    assert_eq!(own["agentId"], "main");
    let ended = server.cli(&["agents", "unmute", "main"]).await;
    assert_says(
        &ended.stdout,
        "as every agent is; countersign agents unmute '*' ends that",
    );
    let ended = server.cli(&["agents", "unmute", "*"]).await;
    assert_says(&ended.stdout, "every agent may ask again");
    server.asked(json!({ "argv": ["/bin/date"] })).await;
}

#[tokio::test]
async fn a_mute_that_has_ended_is_not_ended_again_and_waits_for_nobody() {
    let over = json!({ "pattern": "=questions", "questions": true, "expiresAtMs": 1 });
    let server = TestServer::asking_with("widening = \"ask\"")
        .second_owner()
        .agents(&json!({ "main": { "denylist": [over] } }))
        .start()
        .await;
    let ended = server.cli(&["agents", "unmute", "main"]).await;
    assert_says(&ended.stderr, "not-found");
    let rules = server.operator().read("/v1/agents/main/denylist").await;
    let path = format!("/v1/agents/main/denylist/{}", rules["items"][0].text("id"));
    server.operator().removed(&path).await;
    let document = server.operator().read("/v1/policy/effective").await["document"].clone();
    assert_eq!(document.get("held"), None, "{document}");
}

/// What an answer leaves is recorded once, under an id of its own, in the words of that answer.
#[tokio::test]
async fn an_answer_that_mutes_says_what_it_did() {
    let server = server().start().await;
    let operator = server.operator();
    let (_, ann) = server
        .token_with(json!({ "name": "ann", "scopes": ["approve"] }))
        .await;
    let waits = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let path = format!("/v1/approvals/{}/decision", waits.text("approvalId"));
    let until = in_ms(HOUR_MS);
    let of_command = json!({ "decision": "deny", "reason": "first", "mute": { "untilMs": until } });
    let command = ann.post(&path, of_command).await.expect(200)["rule"].clone();
    let of_agent = |until: i64| json!({ "decision": "deny", "mute": { "untilMs": until, "agent": true } });
    let agent = operator.post(&path, of_agent(until)).await.expect(200)["rule"].clone();
    assert!(
        command["id"].is_string() && command["id"] != agent["id"],
        "{command} {agent}"
    );
    assert!(!agent.text("reason").contains("first"), "{agent}");
    let before = changes(&server).await;
    // It is muted for longer: nothing changes, and nothing is recorded.
    for shorter in [until, until - 60_000] {
        let kept = operator.post(&path, of_agent(shorter)).await.expect(200)["rule"].clone();
        assert_eq!(kept["expiresAtMs"], until);
    }
    assert_eq!(changes(&server).await, before);
    // The twin: a longer one is a change.
    operator.post(&path, of_agent(until + 60_000)).await.expect(200);
    assert_eq!(changes(&server).await, before + 1);
}

#[tokio::test]
async fn who_asked_something_else_of_the_agent_does_not_mute_it_by_an_answer() {
    let server = server().start().await;
    let both = asker_and_approver(&server).await;
    let of_others = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let own = both.accepted(json!({ "argv": ["/bin/id"] })).await;
    let path = format!("/v1/approvals/{}/decision", of_others.text("approvalId"));
    let muting = json!({ "decision": "deny", "mute": { "untilMs": in_ms(HOUR_MS), "agent": true } });
    both.post(&path, muting).await.problem(403, "own-request");
    assert_has!(server.operator().approval(own.text("approvalId")).await, { "status": "pending" });
    // The twin: denying that one alone.
    both.post(&path, json!({ "decision": "deny" })).await.expect(200);
    assert_has!(server.operator().approval(own.text("approvalId")).await, { "status": "pending" });
}

/// Puts a document in place that covers these programs of `main` and has these rules for it.
async fn put_document(server: &TestServer, covered: &[&str], rules: &[Value]) {
    let operator = server.operator();
    let shown = operator.get("/v1/policy/document").await;
    let tag = shown.header("etag").expect("an ETag").to_owned();
    let entries: Vec<Value> = covered
        .iter()
        .map(|program| json!({ "pattern": program }))
        .collect();
    let changed = json!({ "version": 1, "agents": { "main": { "allowlist": entries, "denylist": rules } } });
    let request = operator.request(reqwest::Method::PUT, "/v1/policy/document");
    let request = request.header("If-Match", tag).json(&changed);
    operator.send(request).await.expect(200);
}

fn for_an_hour() -> Value {
    json!({ "pattern": "=questions", "questions": true, "expiresAtMs": in_ms(HOUR_MS) })
}

/// A change that mutes an agent and covers one of its questions runs that one, as it would run a fresh call.
#[tokio::test]
async fn what_an_entry_covers_by_now_runs_before_a_mute_denies_it() {
    let server = server().start().await;
    let covered = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let other = server.asked(json!({ "argv": ["/bin/id"] })).await;
    put_document(&server, &["/bin/true", "/bin/date"], &[for_an_hour()]).await;
    let ran = server.agent().finished(covered.text("runId")).await;
    assert_has!(ran, { "status": "completed" });
    let ended = server.agent().finished(other.text("runId")).await;
    assert_has!(ended, { "status": "denied", "reason": "agent-muted" });
}

/// The same where the change comes while the question is judged for an earlier one.
#[tokio::test]
async fn what_is_covered_and_muted_while_it_is_judged_runs() {
    let pause = Pause::at(hooks::PEOPLE_PAUSES);
    let server = pause.of(server()).start().await;
    let covered = server.asked(json!({ "argv": ["/bin/date"] })).await;
    pause.begin();
    put_document(&server, &["/bin/true", "/bin/echo"], &[]).await;
    pause.reached().await;
    put_document(&server, &["/bin/true", "/bin/date"], &[for_an_hour()]).await;
    pause.end();
    let ran = server.agent().finished(covered.text("runId")).await;
    assert_has!(ran, { "status": "completed" });
}
