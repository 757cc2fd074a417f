//! The same question is asked once (`docs/waiting-questions.md#the-same-call-again`).

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, task::JoinHandle};

use crate::{
    ipc::support::Asker,
    support::{Answer, Api, Members, OperatorClient, TestServer, eventually, lines, only, soon, write_file},
};

/// As many rounds as make both orders of a race likely.
const RACES: usize = 25;

fn mark(server: &TestServer, word: &str) -> (std::path::PathBuf, Value) {
    let file = server.scratch().join(word);
    let text = format!("echo ran >> {}", file.display());
    (file, json!({ "argv": ["/bin/sh", "-c", text] }))
}

fn with(call: &Value, more: Value) -> Value {
    let mut call = call.clone();
    let Value::Object(more) = more else {
        panic!("no members: {more}");
    };
    call.as_object_mut().expect("members").extend(more);
    call
}

fn waiting(api: &Api, call: &Value) -> JoinHandle<Answer> {
    let (api, call) = (api.clone(), with(call, json!({ "approvalWaitMs": 600_000 })));
    tokio::spawn(async move { api.exec(call).await })
}

async fn joined(server: &TestServer, count: usize) -> Vec<Value> {
    let operator = server.operator();
    let records = || async {
        let page = operator.read("/v1/audit?action=question.joined&limit=500").await;
        page["items"].as_array().expect("records").clone()
    };
    eventually("joined", records, |records| records.len() >= count).await
}

/// Waits until so many questions are open.
async fn asked(operator: &Api, count: usize) {
    eventually("asked", || operator.pending(), |pending| pending.len() == count).await;
}

async fn asked_once(server: &TestServer) -> Value {
    let operator = server.operator();
    let pending = eventually("asked", || operator.pending(), |pending| !pending.is_empty()).await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    pending[0].clone()
}

async fn leave(call: JoinHandle<Answer>) {
    call.abort();
    drop(call.await);
}

#[tokio::test]
async fn the_same_call_joins_the_run_that_waits_and_nothing_runs_twice() {
    let mut server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let (file, call) = mark(&server, "file");
    let first = agent.accepted(call.clone()).await;
    assert!(first.get("joined").is_none(), "{first}");
    let second = agent.accepted(call.clone()).await;
    let members = ["runId", "approvalId", "expiresAtMs"];
    assert_eq!(only(&second, &members), only(&first, &members));
    assert_eq!(second["joined"], true);
    assert_eq!(operator.pending().await.len(), 1);
    let records = joined(&server, 1).await;
    assert_eq!(records.len(), 1);
    assert_has!(records[0], { "outcome": "ok", "detail": { "runId": first["runId"], "callers": 2 } });
    assert_eq!(
        records[0]["target"],
        json!({ "kind": "approval", "id": first["approvalId"] })
    );

    // How long each waits is its own, and so is what it says of that.
    let answer = agent
        .accepted(with(
            &call,
            json!({ "yieldMs": 20, "approvalWaitMs": 1, "join": true }),
        ))
        .await;
    assert_eq!(answer["runId"], first["runId"]);
    // Everything else that tells two calls apart tells them apart here.
    let mut runs = vec![first.text("runId").to_owned()];
    for more in [
        json!({ "background": true }),
        json!({ "pty": true }),
        json!({ "timeout": 5 }),
        json!({ "host": "gateway" }),
        json!({ "sessionKey": "agent:main:other" }),
        json!({ "agentId": "build" }),
        json!({ "env": { "LANG": "C" } }),
        json!({ "env": { "LANG": "C.UTF-8" } }),
        json!({ "workdir": "/" }),
        json!({ "ask": "always" }),
        json!({ "argv": ["/bin/date", "-u"] }),
        json!({ "join": false }),
    ] {
        let answer = agent.accepted(with(&call, more.clone())).await;
        assert!(answer.get("joined").is_none(), "{more}: {answer}");
        runs.push(answer.text("runId").to_owned());
    }
    let keyed = agent.exec_with_key("key", call.clone()).await.expect(202);
    assert!(keyed.get("joined").is_none(), "{keyed}");
    runs.push(keyed.text("runId").to_owned());
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    runs.push(other.accepted(call.clone()).await.text("runId").to_owned());
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 15, "each has a run of its own");
    // Of a question with a key nobody knows whether it is to be shared.
    operator.decided(first.text("approvalId"), "deny").await;
    let anew = agent.accepted(call.clone()).await;
    assert_eq!(anew["joined"], true, "the one that was asked anew waits");
    operator.decided(anew.text("approvalId"), "deny").await;
    let fresh = agent.accepted(call.clone()).await;
    assert!(fresh.get("joined").is_none(), "only the keyed one waits: {fresh}");

    // A server that starts again knows what waits.
    server.crash_and_restart().await;
    let (agent, operator) = (server.agent(), server.operator());
    let again = agent.accepted(call.clone()).await;
    assert_eq!(
        (&again["runId"], &again["joined"]),
        (&fresh["runId"], &json!(true))
    );
    operator.decided(again.text("approvalId"), "allow-once").await;
    assert_eq!(
        operator.finished(again.text("runId")).await["status"],
        "completed"
    );
    assert_eq!(lines(&file), ["ran"]);
    assert_eq!(server.cli(&["audit", "verify"]).await.code, Some(0));
}

#[tokio::test]
async fn every_caller_who_waits_has_the_end_of_the_one_run() {
    let server = TestServer::asking().start().await;
    let (file, call) = mark(&server, "file");
    let first = waiting(&server.agent(), &call);
    let pending = asked_once(&server).await;
    let others: Vec<_> = (0..4).map(|_| waiting(&server.agent(), &call)).collect();
    joined(&server, 4).await;
    server.operator().decided(pending.text("id"), "allow-once").await;
    let first = first.await.unwrap().expect(200);
    assert!(first.get("joined").is_none(), "{first}");
    for other in join_all(others).await {
        let other = other.unwrap().expect(200);
        assert_has!(other, { "joined": true, "status": "completed", "runId": first["runId"] });
    }
    assert_eq!(lines(&file), ["ran"]);
    // What comes later is another run, which the answer did not cover.
    let later = server.accepted(call.clone()).await;
    assert!(later.get("joined").is_none(), "{later}");
    assert_ne!(later["runId"], first["runId"]);
    assert_eq!(asked_once(&server).await["id"], later["approvalId"]);
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn joining_counts_against_the_rate_and_prolongs_nothing() {
    let server = TestServer::asking_with(
        "timeout_ms = 3000\nmax_pending_per_agent = 1\nquestions_per_minute_per_token = 1\n\
         question_burst_per_token = 3",
    )
    .start()
    .await;
    let (agent, operator) = (server.agent(), server.operator());
    let (_, call) = mark(&server, "file");
    let first = agent.accepted(call.clone()).await;
    for _ in 0..2 {
        // It takes no place of those that may wait.
        let joined = agent.accepted(call.clone()).await;
        assert_has!(joined, { "joined": true, "expiresAtMs": first["expiresAtMs"] });
    }
    let answer = agent.exec(call.clone()).await;
    answer.problem(429, "too-many-questions");
    assert!(answer.header("retry-after").is_some());
    let run = operator.finished(first.text("runId")).await;
    assert_eq!(run["status"], "denied");
    let approval = operator.approval(first.text("approvalId")).await;
    assert_has!(approval, { "status": "expired", "expiresAtMs": first["expiresAtMs"] });
}

#[tokio::test]
async fn each_caller_leaves_for_itself_and_the_last_one_takes_the_question_along() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let (file, call) = mark(&server, "file");
    // A question of one caller stays, as ever.
    let alone = waiting(&agent, &call);
    let pending = asked_once(&server).await;
    leave(alone).await;
    // It is there for the next one, and from now on several want it.
    let [one, two] = [waiting(&agent, &call), waiting(&agent, &call)];
    joined(&server, 2).await;
    leave(one).await;
    let three = waiting(&agent, &call);
    joined(&server, 3).await;
    leave(two).await;
    let run = operator.run(pending.text("runId")).await;
    assert_eq!(run["status"], "approval-pending", "one of them waits");
    leave(three).await;
    let run = operator.finished(pending.text("runId")).await;
    assert_has!(run, { "status": "cancelled", "reason": "cancelled" });
    assert_eq!(operator.approval(pending.text("id")).await["status"], "cancelled");

    // Who was told that it waits did not go away.
    let one = waiting(&agent, &call);
    let pending = asked_once(&server).await;
    let told = agent.accepted(call.clone()).await;
    assert_eq!(told["joined"], true);
    leave(one).await;
    operator.decided(pending.text("id"), "allow-once").await;
    assert_eq!(operator.finished(told.text("runId")).await["status"], "completed");
    assert_eq!(lines(&file), ["ran"]);

    // A cancellation is for all.
    let both = [waiting(&agent, &call), waiting(&agent, &call)];
    let pending = asked_once(&server).await;
    joined(&server, 5).await;
    agent.cancel(pending.text("runId")).await;
    for call in both {
        let answer = call.await.unwrap().json();
        assert_eq!(
            (&answer["status"], &answer["runId"]),
            (&json!("cancelled"), &pending["runId"])
        );
    }
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn who_leaves_while_it_runs_ends_it_for_nobody_else() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let [started, gate] = ["started", "gate"].map(|name| server.scratch().join(name));
    let text = format!(
        "echo ran >> {}; while [ ! -e {} ]; do sleep 0.02; done; echo through",
        started.display(),
        gate.display()
    );
    let call = json!({ "argv": ["/bin/sh", "-c", text], "yieldMs": 120_000 });
    let [one, two, three] = [(); 3].map(|()| waiting(&agent, &call));
    let pending = asked_once(&server).await;
    joined(&server, 2).await;
    operator.decided(pending.text("id"), "allow-once").await;
    soon("started", || lines(&started), |seen| seen.len() == 1).await;
    leave(one).await;
    leave(three).await;
    write_file(&gate, "");
    let answer = two.await.unwrap().expect(200);
    assert_has!(answer, { "status": "completed", "stdout": "through\n", "runId": pending["runId"] });

    // The last one takes it along.
    std::fs::remove_file(&gate).expect("the gate");
    let calls = [(); 2].map(|()| waiting(&agent, &call));
    let pending = asked_once(&server).await;
    joined(&server, 3).await;
    operator.decided(pending.text("id"), "allow-once").await;
    soon("started", || lines(&started), |seen| seen.len() == 2).await;
    for call in calls {
        leave(call).await;
    }
    let run = || operator.run(pending.text("runId"));
    let run = eventually("ended or kept", run, |run| {
        run["status"] == "cancelled" || run["background"] == true
    })
    .await;
    // Who left in the moment of the start had not heard of it: then it goes on as a session.
    if run["status"] != "cancelled" {
        operator.cancel(pending.text("runId")).await;
        operator.finished(pending.text("runId")).await;
    }
}

#[tokio::test]
async fn an_answer_covers_what_joined_before_it_and_nothing_that_came_later() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    for round in 0..RACES {
        let (file, call) = mark(&server, &format!("file-{round}"));
        let first = agent.accepted(call.clone()).await;
        let (decided, second) = tokio::join!(
            operator.decided(first.text("approvalId"), "allow-once"),
            agent.exec(call.clone()),
        );
        assert_eq!(decided["applied"], true);
        assert_eq!(
            operator.finished(first.text("runId")).await["status"],
            "completed"
        );
        let second = second.json();
        if second["joined"] == true {
            assert_eq!(second["runId"], first["runId"]);
            assert_eq!(operator.pending().await, Vec::<Value>::new());
        } else {
            assert_ne!(second["runId"], first["runId"]);
            assert_eq!(second["status"], "approval-pending", "{second}");
            operator.decided(second.text("approvalId"), "deny").await;
        }
        assert_eq!(lines(&file), ["ran"]);
    }
}

#[tokio::test]
async fn who_joins_while_the_last_one_leaves_has_a_question_that_waits() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    for round in 0..RACES {
        let (file, call) = mark(&server, &format!("file-{round}"));
        let [one, two] = [waiting(&agent, &call), waiting(&agent, &call)];
        let pending = asked_once(&server).await;
        let callers = || async {
            let path = "/v1/audit?action=question.joined&limit=500";
            operator.read(path).await["items"]
                .as_array()
                .expect("records")
                .clone()
        };
        let id = pending.text("id").to_owned();
        eventually("both", callers, |records| {
            records.iter().any(|record| record["target"]["id"] == id.as_str())
        })
        .await;
        leave(one).await;
        let ((), third) = tokio::join!(leave(two), agent.exec(call.clone()));
        let third = third.expect(202);
        if third["joined"] == true {
            assert_eq!(third["runId"], pending["runId"]);
        } else {
            let old = operator.finished(pending.text("runId")).await;
            assert_eq!(old["status"], "cancelled");
        }
        let waits = asked_once(&server).await;
        assert_eq!(waits["id"], third["approvalId"]);
        operator.decided(waits.text("id"), "allow-once").await;
        assert_eq!(
            operator.finished(third.text("runId")).await["status"],
            "completed"
        );
        assert_eq!(lines(&file), ["ran"]);
    }
}

/// A peer of the socket or the Bridge runs the command itself, or has an answer of its own to give back.
#[tokio::test]
async fn what_comes_over_the_approvals_socket_or_the_bridge_joins_nothing() {
    let server = TestServer::asking().with_socket().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let call = json!({ "argv": ["/bin/echo", "x"], "workdir": "/tmp" });
    agent.accepted(call.clone()).await;
    agent.accepted(call).await;
    let mut pending = operator.pending().await.len();
    assert_eq!(pending, 1, "the twin: over HTTP they join");

    let socket = Asker::of(&server);
    let mut bridge = OperatorClient::new(&server.gateway_token(), &["operator.write"])
        .connect(&server)
        .await;
    let mut peers = Vec::new();
    for _ in 0..2 {
        for line in [
            socket.exec_line("e", &json!({ "command": ["/bin/echo", "x"], "cwd": "/tmp" })),
            socket.request_line("q", &json!({ "command": "/bin/echo x", "cwd": "/tmp" })),
        ] {
            let mut peer = socket.connect().await;
            peer.write_all(format!("{line}\n").as_bytes())
                .await
                .expect("sent");
            peers.push(peer);
            pending += 1;
            asked(&operator, pending).await;
        }
        let params = json!({ "command": "/bin/echo x", "cwd": "/tmp", "timeoutMs": 60_000 });
        bridge.send("exec.approval.request", params).await;
        pending += 1;
        asked(&operator, pending).await;
    }
    assert_eq!(joined(&server, 1).await.len(), 1, "the twin alone");
}
