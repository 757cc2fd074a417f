//! `start_delay_ms` holds back what was allowed, and `POST /v1/approvals/{id}/take-back` denies it as long as it has not
//! started: it runs, or it was taken back, and never both.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    approval_rules::ann_and_bob,
    ipc::support::Asker,
    support::{Answer, Api, Members, TestServer, eventually, lines, only},
};

/// Far longer than a test.
const HELD: &str = "[[approvals.rules]]\nstart_delay_ms = 600000\n";
const BRIEFLY: &str = "[[approvals.rules]]\nstart_delay_ms = 1\n";
const LIST: &str = "/v1/agents/main/allowlist";

fn id(pending: &Value) -> &str {
    pending.text("approvalId")
}

async fn take_back(by: &Api, pending: &Value) -> Answer {
    let path = format!("/v1/approvals/{}/take-back", id(pending));
    by.post(&path, json!({ "reason": "wrong directory" })).await
}

/// A question whose command leaves a line in a file.
async fn asked(server: &TestServer, name: &str) -> (Value, PathBuf) {
    let file = server.scratch().join(name);
    let command = format!("echo ran >> {}", file.display());
    (server.asked(json!({ "command": command })).await, file)
}

async fn held(server: &TestServer, name: &str) -> (Value, PathBuf) {
    let (pending, file) = asked(server, name).await;
    let decided = server.operator().decided(id(&pending), "allow-once").await;
    assert_has!(decided, { "applied": true, "approval/status": "allowed" });
    (pending, file)
}

/// It was taken back by Ann and never ran.
async fn expect_taken_back(server: &TestServer, pending: &Value, file: &Path) {
    let approval = server.operator().approval(id(pending)).await;
    assert_has!(approval, {
        "status": "denied", "decision": "deny", "terminalReason": "taken-back", "reason": "wrong directory",
        "resolvedBy/name": "ann",
    });
    assert_eq!(approval.get("startsAtMs"), None, "{approval}");
    let run = server.agent().finished(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "user-denied" });
    assert_eq!(lines(file), Vec::<String>::new());
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn what_is_held_back_can_be_taken_back_by_another_approver() {
    let server = TestServer::asking_with(HELD).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    let mut events = server
        .operator()
        .events("?types=exec.approval.resolved", None)
        .await;
    let (pending, file) = asked(&server, "file").await;
    let question = server.operator().approval(id(&pending)).await;
    assert_eq!(question["startDelayMs"], 600_000);
    assert_eq!(question.get("startedByAsker"), None);
    assert_eq!(question.get("startsAtMs"), None, "{question}");

    let decided = server.operator().decided(id(&pending), "allow-once").await;
    let approval = &decided["approval"];
    let at = |member: &str| approval[member].as_i64().expect("a time");
    assert_eq!(at("startsAtMs") - at("resolvedAtMs"), 600_000);
    let run = server.agent().run(pending.text("runId")).await;
    assert!(run.get("startedAtMs").is_none(), "{run}");

    let answer = take_back(&ann, &pending).await.expect(200);
    assert_has!(answer, { "applied": true, "approval/status": "denied" });
    expect_taken_back(&server, &pending, &file).await;
    let again = take_back(&ann, &pending).await.expect(200);
    assert_eq!(again["applied"], false, "{again}");
    assert_eq!(events.next().await.data["status"], "allowed");
    let told = events.next().await.data;
    assert_has!(told, { "status": "denied", "terminalReason": "taken-back", "resolvedBy/name": "ann" });
}

#[tokio::test]
async fn what_was_held_back_for_long_enough_runs_and_cannot_be_taken_back() {
    let server = TestServer::asking_with(BRIEFLY).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    let (pending, file) = held(&server, "file").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(lines(&file), ["ran"]);
    let refused = take_back(&ann, &pending).await;
    let problem = refused.problem(409, "approval-already-resolved");
    assert_eq!(problem["approval"]["status"], "allowed");
    assert_eq!(
        problem["hint"],
        format!("countersign runs cancel {}", pending.text("runId"))
    );
    let approval = server.operator().approval(id(&pending)).await;
    assert_has!(approval, { "status": "allowed", "terminalReason": "user" });
}

#[tokio::test]
async fn nothing_is_remembered_of_an_answer_that_is_taken_back() {
    for (rule, takes_back) in [(HELD, true), (BRIEFLY, false)] {
        let server = TestServer::asking_with(rule).start().await;
        let [ann, _bob] = ann_and_bob(&server).await;
        let stored = async || server.operator().read(LIST).await.list("items").len();
        let pending = server.asked(json!({ "argv": ["/bin/date", "--version"] })).await;
        server.operator().decided(id(&pending), "allow-always").await;
        if takes_back {
            assert_eq!(stored().await, 0, "it can still be taken back");
            take_back(&ann, &pending).await.expect(200);
            server.agent().finished(pending.text("runId")).await;
            let approval = server.operator().approval(id(&pending)).await;
            assert_eq!(approval["status"], "denied");
            assert_eq!(stored().await, 0);
            // Not covered: it is asked about again.
            server.asked(json!({ "argv": ["/bin/date", "--version"] })).await;
        } else {
            let run = server.agent().finished(pending.text("runId")).await;
            assert_eq!(run["status"], "completed");
            assert_eq!(stored().await, 1);
            server.ran(json!({ "argv": ["/bin/date", "--version"] })).await;
        }
    }
}

#[tokio::test]
async fn only_an_allowance_can_be_taken_back_by_who_may_answer() {
    let server = TestServer::asking_with(HELD).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    let (waiting, _file) = asked(&server, "waiting").await;
    take_back(&ann, &waiting)
        .await
        .problem(422, "decision-not-allowed");
    server.operator().decided(id(&waiting), "deny").await;
    let denied = take_back(&ann, &waiting).await.expect(200);
    assert_has!(denied, { "applied": false, "approval/terminalReason": "user" });

    let (own, _file) = held(&server, "own").await;
    let other = server.bound_token(&["read", "approve"], "other").await;
    take_back(&other, &own).await.problem(404, "approval-not-found");
    server
        .agent()
        .post(&format!("/v1/approvals/{}/take-back", id(&own)), json!({}))
        .await
        .problem(403, "forbidden");
    let unknown = json!({ "approvalId": "00000000-0000-4000-8000-000000000000" });
    take_back(&ann, &unknown).await.problem(404, "approval-not-found");
    // A part of its id names it, to those who may see it.
    let part = json!({ "approvalId": &id(&own)[..8] });
    take_back(&other, &part).await.problem(404, "approval-not-found");
    let taken = take_back(&ann, &part).await.expect(200);
    assert_has!(taken, { "applied": true, "approval/id": id(&own) });

    let cancelled = server.asked(json!({ "argv": ["/bin/uname"] })).await;
    let run = format!("/v1/runs/{}/cancel", cancelled.text("runId"));
    server.agent().post(&run, json!({})).await;
    take_back(&ann, &cancelled)
        .await
        .problem(410, "approval-cancelled");
}

#[tokio::test]
async fn whoever_comes_first_of_a_launch_and_a_take_back_it_runs_or_is_denied() {
    let server = TestServer::asking_with(BRIEFLY).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    for round in 0..20 {
        let names = (0..4).map(|at| format!("file-{round}-{at}"));
        let questions = names.map(|name| async {
            let name = name;
            asked(&server, &name).await
        });
        let questions = join_all(questions).await;
        let races = questions.iter().map(|(pending, _file)| async {
            let decide = server.operator();
            let (decided, taken) = tokio::join!(decide.decided(id(pending), "allow-once"), async {
                // As soon as the answer is there.
                let answers = || take_back(&ann, pending);
                eventually("an answer", answers, |answer| answer.status != 422).await
            });
            assert_eq!(decided["applied"], true);
            taken
        });
        for ((pending, file), taken) in questions.iter().zip(join_all(races).await) {
            let run = server.agent().finished(pending.text("runId")).await;
            if taken.status == 200 {
                assert_eq!(run["status"], "denied", "{run}");
                assert_eq!(lines(file), Vec::<String>::new());
            } else {
                taken.problem(409, "approval-already-resolved");
                assert_eq!(run["status"], "completed", "{run}");
                assert_eq!(lines(file), ["ran"]);
            }
        }
    }
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn a_server_that_is_killed_still_holds_it_back() {
    let mut server = TestServer::asking_with(HELD).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    let (taken, file) = held(&server, "taken").await;
    let (kept, other) = held(&server, "kept").await;
    let always = server.asked(json!({ "argv": ["/bin/date", "--version"] })).await;
    server.operator().decided(id(&always), "allow-always").await;
    server.crash_and_restart().await;
    assert_eq!(server.operator().read(LIST).await.list("items").len(), 0);
    let ann = server.operator().with_token(ann.token());
    take_back(&ann, &taken).await.expect(200);
    server.crash_and_restart().await;
    expect_taken_back(&server, &taken, &file).await;
    let approval = server.operator().approval(id(&kept)).await;
    assert_has!(approval, { "status": "allowed" });
    assert!(approval.get("startsAtMs").is_some(), "{approval}");
    assert_eq!(lines(&other), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_is_killed_starts_what_was_held_back_once() {
    let mut server = TestServer::asking_with("[[approvals.rules]]\nstart_delay_ms = 3000\n")
        .start()
        .await;
    let (pending, file) = held(&server, "file").await;
    server.crash_and_restart().await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_stop_denies_what_is_held_back() {
    let server = TestServer::asking_with(HELD).start().await;
    let [ann, _bob] = ann_and_bob(&server).await;
    let (pending, file) = held(&server, "file").await;
    server
        .operator()
        .posted("/v1/stop", json!({ "reason": "all of it" }))
        .await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "stopped" });
    take_back(&ann, &pending)
        .await
        .problem(409, "approval-already-resolved");
    server
        .operator()
        .posted("/v1/resume", json!({ "reason": "on" }))
        .await;
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn what_its_asker_starts_is_not_held_back() {
    let server = TestServer::asking_with(HELD).with_socket().start().await;
    let asker = Asker::of(&server);
    let question = json!({ "command": "date", "agentId": "main" });
    let (answer, shown) = tokio::join!(asker.ask(&question), async {
        let shown = server.operator().waiting().await[0].clone();
        server.operator().decided(shown.text("id"), "allow-once").await;
        shown
    });
    assert_eq!(answer, "allow-once");
    assert_eq!(shown.get("startDelayMs"), None, "{shown}");
    assert_eq!(shown["startedByAsker"], true, "{shown}");
    let path = format!("/v1/approvals/{}/take-back", shown.text("id"));
    let [ann, _bob] = ann_and_bob(&server).await;
    ann.post(&path, json!({}))
        .await
        .problem(409, "approval-already-resolved");
}

#[tokio::test]
async fn two_people_and_the_longest_delay_of_the_rules_that_count() {
    let rules = "[[approvals.rules]]\npatterns = [\"date\"]\napprovals_required = 2\nstart_delay_ms = 600000\n\
                 [[approvals.rules]]\nstart_delay_ms = 1\n";
    let server = TestServer::asking_with(rules).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let both = server.asked(json!({ "command": "date && uname" })).await;
    ann.decided(id(&both), "allow-once").await;
    take_back(&ann, &both).await.problem(422, "decision-not-allowed");
    let settled = bob.decided(id(&both), "allow-once").await;
    assert_has!(settled["approval"], { "status": "allowed", "startDelayMs": 600_000 });
    take_back(&ann, &both).await.expect(200);
    let one = server.asked(json!({ "argv": ["/bin/uname"] })).await;
    let settled = ann.decided(id(&one), "allow-once").await;
    assert_eq!(
        only(&settled["approval"], &["startDelayMs"]),
        json!({ "startDelayMs": 1 })
    );
    let run = server.agent().finished(one.text("runId")).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test]
async fn the_command_line_takes_back_and_says_how_long_that_is_possible() {
    let server = TestServer::asking_with(HELD).start().await;
    let (pending, file) = asked(&server, "file").await;
    let slug = &id(&pending)[..8];
    let allowed = server.cli(&["approvals", "resolve", slug, "allow-once"]).await;
    assert_eq!(
        allowed.stdout,
        format!(
            "{slug} is answered: allow-once. It is held back for 10:00; until then you can take it back: \
             countersign approvals take-back {slug}\n"
        )
    );
    let taken = server
        .cli(&["approvals", "take-back", slug, "--reason", "no"])
        .await;
    assert_eq!(
        (taken.code, taken.stdout),
        (Some(0), format!("{slug} is taken back: it does not run\n"))
    );
    assert_eq!(lines(&file), Vec::<String>::new());
    let refused = server.cli(&["approvals", "take-back", "ffffffff"]).await;
    assert_ne!(refused.code, Some(0));
}
