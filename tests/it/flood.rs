//! How many questions may wait and how often a token may ask (`docs/limits.md`).

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, TestServer};

fn question(agent: &str, word: usize) -> Value {
    json!({ "argv": ["/bin/echo", format!("{agent} {word}")], "agentId": agent })
}

/// The refusal, with what says when to come back and what the limit is.
#[track_caller]
fn refused(answer: &Answer, key: &str, policy: &str) -> u64 {
    let problem = answer.problem(429, "too-many-questions");
    assert_has!(problem, { "retryable": true, "title": "Too many questions" });
    assert!(problem.text("detail").contains(key), "{problem}");
    let limit = answer.header("ratelimit").expect("a limit");
    assert!(limit.starts_with(&format!("\"{policy}\";r=0;t=")), "{limit}");
    let seconds = answer.header("retry-after").expect("when to come back");
    let seconds = seconds.parse().expect("seconds");
    assert!(seconds >= 1, "{seconds}");
    seconds
}

async fn other_token(server: &TestServer) -> Api {
    let request = json!({ "name": "other", "scopes": ["exec"] });
    server.token_with(request).await.1
}

async fn counted(server: &TestServer, limit: &str) -> u64 {
    let request = server.operator().request(reqwest::Method::GET, "/metrics");
    let text = server.operator().send(request).await.text();
    let series = format!("countersign_questions_refused_total{{limit=\"{limit}\"}} ");
    text.lines()
        .find_map(|line| line.strip_prefix(&series))
        .map_or(0, |count| count.parse().expect("a number"))
}

async fn on_record(server: &TestServer) -> Vec<Value> {
    let page = server.operator().read("/v1/audit?action=questions.refused").await;
    page["items"].as_array().expect("records").clone()
}

#[tokio::test]
async fn one_agent_of_a_token_has_its_share_and_takes_nobody_elses() {
    let mut server = TestServer::asking_with("max_pending_per_agent = 2").start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let first = agent.accepted(question("main", 1)).await;
    agent.accepted(question("main", 2)).await;
    let runs = operator.read("/v1/runs").await["items"].clone();
    for word in 3..6 {
        let answer = agent.exec(question("main", word)).await;
        refused(&answer, "max_pending_per_agent", "agent-questions");
    }
    let key = agent.exec_with_key("key", question("main", 6)).await;
    refused(&key, "max_pending_per_agent", "agent-questions");
    assert_eq!(operator.pending().await.len(), 2, "nobody was asked");
    assert_eq!(operator.read("/v1/runs").await["items"], runs, "nothing ran");

    // Once on record, and every one is counted.
    let records = on_record(&server).await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_has!(records[0], {
        "action": "questions.refused", "outcome": "denied",
        "detail": { "agentId": "main", "limit": "agent", "most": 2, "refused": 1 },
    });
    assert_eq!(records[0]["target"]["kind"], "token");
    assert_eq!(records[0]["target"]["id"], records[0]["actor"]["id"]);
    assert_eq!(counted(&server, "agent").await, 4);

    // Another agent of the token, and another token with the same agent.
    agent.accepted(question("build", 1)).await;
    other_token(&server).await.accepted(question("main", 1)).await;

    // It is counted again after a start.
    server.crash_and_restart().await;
    let (agent, operator) = (server.agent(), server.operator());
    let answer = agent.exec(question("main", 7)).await;
    refused(&answer, "max_pending_per_agent", "agent-questions");
    // An answer makes room, and a refusal was not kept under its key.
    operator.decided(first.text("approvalId"), "deny").await;
    agent.exec_with_key("key", question("main", 6)).await.expect(202);
    let answer = agent.exec(question("main", 8)).await;
    refused(&answer, "max_pending_per_agent", "agent-questions");
    assert_eq!(server.cli(&["audit", "verify"]).await.code, Some(0));
}

#[tokio::test]
async fn every_end_of_a_question_makes_room() {
    let server = TestServer::asking_with("max_pending_per_agent = 1").start().await;
    let (agent, operator) = (server.agent(), server.operator());
    for decision in ["deny", "allow-once", "cancel", "revise"] {
        let asked = agent.accepted(question("main", 1)).await;
        let answer = agent.exec(question("main", 2)).await;
        refused(&answer, "max_pending_per_agent", "agent-questions");
        let id = asked.text("approvalId");
        match decision {
            "cancel" => drop(agent.cancel(asked.text("runId")).await),
            "revise" => {
                // The new question waits in the place of the old one.
                let body = json!({ "argv": ["/bin/echo", "changed"] });
                let changed = operator
                    .post(&format!("/v1/approvals/{id}/revision"), body)
                    .await
                    .json();
                let answer = agent.exec(question("main", 3)).await;
                refused(&answer, "max_pending_per_agent", "agent-questions");
                let pending = operator.pending().await;
                assert_eq!(pending.len(), 1, "{changed}");
                operator.decided(pending[0].text("id"), "deny").await;
            }
            decision => drop(operator.decided(id, decision).await),
        }
        assert_eq!(operator.pending().await, Vec::<Value>::new(), "{decision}");
    }
    agent.accepted(question("main", 4)).await;
}

#[tokio::test]
async fn a_token_over_many_agents_has_its_share_and_others_are_asked_for() {
    let server = TestServer::asking_with("max_pending_per_token = 5").start().await;
    let agent = server.agent();
    let asked = join_all((0..20).map(|number| {
        let (agent, body) = (agent.clone(), question(&format!("agent-{number}"), number));
        async move { agent.exec(body).await }
    }))
    .await;
    let taken = asked.iter().filter(|answer| answer.status == 202).count();
    assert_eq!(taken, 5, "no more at once than one after the other");
    for answer in asked.iter().filter(|answer| answer.status != 202) {
        refused(answer, "max_pending_per_token", "token-questions");
    }
    assert_eq!(counted(&server, "token").await, 15);
    assert_eq!(on_record(&server).await.len(), 1);
    other_token(&server).await.accepted(question("agent-1", 1)).await;
    // What needs no question is not held up.
    let other = server
        .token_with(json!({ "name": "third", "scopes": ["exec"], "agents": ["agent-1"] }))
        .await;
    other.1.accepted(question("agent-1", 2)).await;
    // The setting takes effect at once, for questions that come.
    server.edit_toml(
        "[exec]\nlogin_path = false\n[approvals]\nalways_reachable = true\nmax_pending_per_token = 0\n",
    );
    let again = crate::support::eventually(
        "without the limit",
        || agent.exec(question("agent-0", 99)),
        |answer| answer.status == 202,
    );
    again.await;
}

#[tokio::test]
async fn a_rate_counts_the_questions_that_are_made_alone() {
    let server = TestServer::asking_with("questions_per_minute_per_token = 1\nquestion_burst_per_token = 3")
        .allowlist(&json!([{ "pattern": "/bin/true" }]))
        .start()
        .await;
    let (agent, operator) = (server.agent(), server.operator());
    // Neither what runs without a question nor what is refused or repeated takes from it.
    for _ in 0..10 {
        agent.ran(json!({ "argv": ["/bin/true"] })).await;
        agent.exec(json!({ "argv": [] })).await.expect(400);
    }
    for _ in 0..3 {
        agent.exec_with_key("key", question("main", 1)).await.expect(202);
    }
    agent.accepted(question("main", 2)).await;
    let third = agent.accepted(question("build", 3)).await;
    let answer = agent.exec(question("main", 4)).await;
    let seconds = refused(&answer, "questions_per_minute_per_token", "question-rate");
    assert!((30..=60).contains(&seconds), "{seconds}");
    // An answer does not give it back.
    operator.decided(third.text("approvalId"), "deny").await;
    let answer = agent.exec(question("other", 4)).await;
    refused(&answer, "question_burst_per_token", "question-rate");
    assert_eq!(operator.pending().await.len(), 2);
    assert_eq!(counted(&server, "rate").await, 2);
    other_token(&server).await.accepted(question("main", 1)).await;
}
