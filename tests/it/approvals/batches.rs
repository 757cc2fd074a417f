//! Several answers in one request: each counts by itself, as an answer to one question does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{append_line, asked, id};
use crate::support::{Answer, Api, Members, TestServer, lines};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// A question about a line that is appended to a file: its ids, and the digest that is shown.
struct Question {
    id: String,
    run: String,
    digest: String,
}

impl Question {
    async fn new(server: &TestServer, agent: &str) -> Self {
        let mut body = append_line(&server.scratch().join("lines"));
        body["agentId"] = json!(agent);
        body["join"] = json!(false);
        let pending = asked(server, body).await;
        let approval = id(&pending, "approvalId");
        let shown = server.operator().approval(&approval).await;
        Self {
            digest: id(&shown["boundTo"], "digest"),
            run: id(&pending, "runId"),
            id: approval,
        }
    }

    fn allow(&self) -> Value {
        json!({ "id": self.id, "decision": "allow-once", "bindingDigest": self.digest })
    }

    fn deny(&self) -> Value {
        json!({ "id": self.id, "decision": "deny" })
    }
}

async fn send(by: &Api, decisions: Value) -> Answer {
    by.post("/v1/approvals/decisions", json!({ "decisions": decisions }))
        .await
}

/// The results of a request that is right as a whole.
async fn results(by: &Api, decisions: Value) -> Vec<Value> {
    send(by, decisions).await.expect(200).list("results").clone()
}

/// What a result says: the status and the code of a refusal.
fn told(result: &Value) -> (u64, &str) {
    let status = result["status"].as_u64().expect("a status");
    assert_ne!(
        result["decided"].is_object(),
        result["problem"].is_object(),
        "{result}"
    );
    assert_eq!(result["decided"].is_object(), status == 200, "{result}");
    (status, result["problem"]["code"].as_str().unwrap_or_default())
}

async fn status(server: &TestServer, question: &Question) -> Value {
    server.operator().approval(&question.id).await["status"].clone()
}

#[tokio::test]
async fn each_answer_counts_by_itself_and_says_what_it_alone_would_have_said() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let new = || Question::new(&server, "main");
    let (allowed, denied, before, cancelled) = (new().await, new().await, new().await, new().await);
    operator.decided(&before.id, "deny").await;
    server.agent().cancel(&cancelled.run).await;

    let mut reason = denied.deny();
    reason["reason"] = json!("not today");
    let decisions = json!([
        { "id": UNKNOWN, "decision": "deny" },
        allowed.allow(),
        before.allow(),
        reason,
        cancelled.allow(),
        { "id": allowed.id[..8], "decision": "deny" },
    ]);
    let results = results(&operator, decisions.clone()).await;
    let ids = |all: &[Value]| all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
    assert_eq!(
        ids(&results),
        ids(decisions.as_array().expect("a list")),
        "in their order"
    );
    assert_eq!(
        results.iter().map(told).collect::<Vec<_>>(),
        [
            (404, "approval-not-found"),
            (200, ""),
            (409, "approval-already-resolved"),
            (200, ""),
            (410, "approval-cancelled"),
            (404, "approval-not-found"),
        ]
    );
    assert_has!(results[1]["decided"], { "applied": true, "approval/status": "allowed", "approval/id": allowed.id });
    assert_has!(results[3]["decided"], { "applied": true, "approval/status": "denied", "approval/reason": "not today" });
    assert_has!(results[2]["problem"], { "approval/decision": "deny", "status": 409 });

    // A single answer is answered the same, word for word.
    for (question, result) in [(&before, &results[2]), (&cancelled, &results[4])] {
        let alone = operator.decide(&question.id, "allow-once").await;
        assert_eq!(alone.json(), result["problem"]);
    }
    let again = results_of_two(&operator, &allowed, &denied).await;
    assert!(
        again.iter().all(|decided| decided["applied"] == false),
        "{again:?}"
    );

    let run = server.agent().finished(&allowed.run).await;
    assert_eq!(run["status"], "completed");
    assert_has!(server.agent().run(&denied.run).await, { "status": "denied", "reason": "user-denied" });
    assert_eq!(lines(&server.scratch().join("lines")), ["ran"]);
}

async fn results_of_two(by: &Api, allowed: &Question, denied: &Question) -> [Value; 2] {
    let results = results(by, json!([allowed.allow(), denied.deny()])).await;
    [results[0]["decided"].clone(), results[1]["decided"].clone()]
}

#[tokio::test]
async fn an_allow_counts_only_for_what_was_shown() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let [one, two] = [
        Question::new(&server, "main").await,
        Question::new(&server, "other").await,
    ];
    assert_ne!(one.digest, two.digest);
    let swapped = json!([
        { "id": one.id, "decision": "allow-once", "bindingDigest": two.digest },
        { "id": two.id, "decision": "deny", "bindingDigest": one.digest },
    ]);
    let refused = results(&operator, swapped.clone()).await;
    for result in &refused {
        assert_eq!(told(result), (422, "decision-not-allowed"));
        assert_eq!(result["problem"]["reason"], "binding-mismatch");
    }
    for question in [&one, &two] {
        assert_eq!(status(&server, question).await, "pending");
    }
    let allowed = results(&operator, json!([one.allow(), two.allow()])).await;
    assert_eq!(
        allowed.iter().map(told).collect::<Vec<_>>(),
        [(200, ""), (200, "")]
    );
    // Nor is an answer that was given confirmed for anything else.
    let again = results(&operator, json!([swapped[0]])).await;
    assert_eq!(told(&again[0]), (422, "decision-not-allowed"));
}

#[tokio::test]
async fn what_is_wrong_with_the_body_answers_nothing() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let question = Question::new(&server, "main").await;
    let with = |member: &str, value: Value| {
        let mut decision = question.allow();
        decision[member] = value;
        json!([question_of_nobody(), decision])
    };
    let many: Vec<Value> = (0..100)
        .map(|number| json!({ "id": format!("00000000-0000-4000-8000-{number:012}"), "decision": "deny" }))
        .chain([question.deny()])
        .collect();
    for (decisions, part) in [
        (
            json!([]),
            "expected 1 to 100 answers, not 0; nothing was answered",
        ),
        (
            json!(many),
            "expected 1 to 100 answers, not 101; nothing was answered",
        ),
        (
            json!([question.deny(), question.allow()]),
            "decisions[1].id: expected each id once; nothing was answered",
        ),
        (
            with("bindingDigest", Value::Null),
            "decisions[1].bindingDigest: expected boundTo.digest",
        ),
        (
            with("bindingDigest", json!("A".repeat(64))),
            "decisions[1].bindingDigest: expected 64",
        ),
        (
            with("decision", json!("allow-always")),
            "decisions[1].grant: expected",
        ),
        (with("decision", json!("always")), "allow-once"),
        (
            with("grant", json!({ "proposal": "exact" })),
            "decisions[1].grant: expected",
        ),
        (with("patterns", json!([])), "patterns"),
        (
            with("reason", json!("x".repeat(2001))),
            "decisions[1].reason: expected at most 2000",
        ),
        (with("id", json!("Not An Id")), "a-z"),
        (json!([[question.id, "deny", null, null]]), ""),
    ] {
        let answer = send(&operator, decisions).await;
        let problem = answer.problem(400, "invalid-request");
        assert!(answer.text().contains(part), "{part}: {problem}");
    }
    let unknown = json!({ "decisions": [question.deny()], "atomic": true });
    let answer = operator.post("/v1/approvals/decisions", unknown).await;
    answer.problem(400, "invalid-request");
    assert_eq!(status(&server, &question).await, "pending");

    let hundred = results(&operator, json!(&many[1..])).await;
    assert_eq!(hundred.len(), 100);
    assert_eq!(told(&hundred[99]), (200, ""));
    assert_eq!(status(&server, &question).await, "denied");
}

fn question_of_nobody() -> Value {
    json!({ "id": UNKNOWN, "decision": "deny" })
}

#[tokio::test]
async fn who_may_not_answer_one_may_not_answer_it_among_others() {
    let two_for_build = "[[approvals.rules]]\nagents = [\"build\"]\napprovals_required = 2\n";
    let server = TestServer::asking().toml(two_for_build).start().await;
    let operator = server.operator();
    let [main, other, build] = [
        Question::new(&server, "main").await,
        Question::new(&server, "other").await,
        Question::new(&server, "build").await,
    ];
    let all = json!([main.allow(), other.allow(), build.allow()]);

    send(&server.agent(), all.clone()).await.problem(403, "forbidden");
    send(&server.anonymous(), all.clone())
        .await
        .problem(401, "unauthorized");

    // To a token that is bound to agents nothing of another agent is there.
    let bound = server.bound_token(&["approve"], "other").await;
    let of_bound = results(&bound, all.clone()).await;
    let told_bound: Vec<_> = of_bound.iter().map(told).collect();
    assert_eq!(
        told_bound,
        [
            (404, "approval-not-found"),
            (200, ""),
            (404, "approval-not-found")
        ]
    );
    assert_eq!(status(&server, &main).await, "pending");

    // Two tokens of one owner are one person: the second brings nothing that is missing.
    let second = json!({ "name": "second", "scopes": ["read", "approve"] });
    let second = operator.made("/v1/tokens", second).await;
    let second = operator.with_token(second["secret"].as_str());
    let first = results(&operator, json!([build.allow()])).await;
    assert_has!(first[0]["decided"], { "applied": true, "approval/status": "pending" });
    let repeated = results(&second, json!([build.allow()])).await;
    assert_has!(repeated[0]["decided"], { "applied": false, "approval/status": "pending" });
    let ann = server.token_of("ann", &["read", "approve"]).await;
    let settled = results(&ann, json!([build.allow(), main.deny()])).await;
    assert_has!(settled[0]["decided"], { "applied": true, "approval/status": "allowed" });
    assert_has!(settled[1]["decided"], { "applied": true, "approval/status": "denied" });
}

#[tokio::test]
async fn while_everything_is_stopped_each_allow_is_refused() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let question = Question::new(&server, "main").await;
    operator.posted("/v1/stop", json!({ "reason": "a test" })).await;
    let results = results(&operator, json!([question.allow(), question_of_nobody()])).await;
    assert_eq!(
        results.iter().map(told).collect::<Vec<_>>(),
        [(403, "stopped"), (404, "approval-not-found")]
    );
}

#[tokio::test]
async fn two_batches_over_the_same_questions_answer_each_of_them_once() {
    const QUESTIONS: usize = 20;
    let server = TestServer::asking().start().await;
    let mut questions = Vec::new();
    for _ in 0..QUESTIONS {
        questions.push(Question::new(&server, "main").await);
    }
    let yes: Vec<Value> = questions.iter().map(Question::allow).collect();
    let no: Vec<Value> = questions.iter().rev().map(Question::deny).collect();
    let (operator, ann) = (server.operator(), server.token_of("ann", &["approve"]).await);
    let (yes, no) = tokio::join!(results(&operator, json!(yes)), results(&ann, json!(no)));

    let won = |results: &[Value]| {
        let applied = |result: &&Value| result["decided"]["applied"] == true;
        let id = |result: &Value| result.text("id").to_owned();
        results.iter().filter(applied).map(id).collect::<BTreeSet<_>>()
    };
    let (allowed, denied) = (won(&yes), won(&no));
    assert!(allowed.is_disjoint(&denied), "{allowed:?} {denied:?}");
    assert_eq!(allowed.len() + denied.len(), QUESTIONS, "{yes:?} {no:?}");
    for result in yes.iter().chain(&no) {
        let is_lost = result["decided"].is_null();
        assert!(
            !is_lost || told(result) == (409, "approval-already-resolved"),
            "{result}"
        );
    }
    for question in &questions {
        let run = server.agent().finished(&question.run).await;
        let expected = if allowed.contains(&question.id) {
            "completed"
        } else {
            "denied"
        };
        assert_eq!(run["status"], expected);
    }
    assert_eq!(lines(&server.scratch().join("lines")).len(), allowed.len());
}

#[tokio::test]
async fn each_answer_counts_against_the_rate_of_its_token() {
    let limits = "[limits]\nrequests_per_second = 1\nrequest_burst = 20\n";
    let server = TestServer::asking().toml(limits).start().await;
    let ann = server.token_of("ann", &["approve"]).await;
    let nobody = |number: usize| json!({ "id": format!("0000000a-{number:04}"), "decision": "deny" });
    let answer = send(&ann, json!((0..60).map(nobody).collect::<Vec<_>>())).await;
    let results = answer.expect(200).list("results").clone();
    let told: Vec<_> = results.iter().map(told).collect();
    assert!(
        told[..10].iter().all(|one| *one == (404, "approval-not-found")),
        "{told:?}"
    );
    assert_eq!(told[59], (429, "rate-limited"), "{told:?}");
    assert_eq!(results[59]["problem"]["retryable"], true);
    assert!(
        answer
            .header("ratelimit")
            .is_some_and(|rate| rate.contains("r=0")),
        "{answer:?}"
    );
}
