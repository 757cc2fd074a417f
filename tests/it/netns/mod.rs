//! Two hosts: the server in one network namespace, our node in another, and a cable between them that can be pulled.
//!
//! Delays are left out where the kernel has no `netem`; a cable that is pulled in the middle of everything is the harder
//! case.

mod cable;
mod node;

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Api, Members, eventually, is_root, lines, program, skip};
use cable::Cable;
use node::Hosts;

/// `None`, and a line that says so, where there cannot be two hosts.
async fn hosts() -> Option<Hosts> {
    if !is_root() || program("ip").is_none() {
        skip("two hosts need root and iproute2");
        return None;
    }
    let cable = match Cable::lay() {
        Ok(cable) => cable,
        Err(why) => {
            skip(&format!("two hosts cannot be made here: {why}"));
            return None;
        }
    };
    Some(Hosts::start(cable).await)
}

/// Starts a command on the node without waiting for its end; the run.
async fn begin(agent: &Api, text: &str) -> String {
    let body = json!({ "command": text, "host": "node", "background": true });
    let answer = agent.exec(body).await.json();
    answer.text("runId").to_owned()
}

/// Says that it began, waits for a sign, says that it ended.
fn long(log: &Path, sign: &Path) -> String {
    format!(
        "echo begun >> {log}; while [ ! -e {sign} ]; do sleep 0.1; done; echo ended >> {log}",
        log = log.display(),
        sign = sign.display()
    )
}

async fn has(log: &Path, wanted: &[&str]) {
    eventually("in the log", || async { lines(log) }, |found| found == wanted).await;
}

/// Waits until a run has this state.
async fn is(agent: &Api, run: &str, status: &str) -> Value {
    eventually(status, || agent.run(run), |run| run["status"] == status).await
}

fn has_ended(run: &Value) -> bool {
    matches!(
        run["status"].as_str(),
        Some("completed" | "failed" | "lost" | "denied" | "cancelled")
    )
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
async fn a_run_outlives_a_pulled_cable_and_ends_as_it_ended() {
    let hosts = or_skip!(hosts().await);
    let agent = hosts.agent();
    let (log, sign) = (hosts.file("log"), hosts.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;

    hosts.cable.pull();
    hosts.until_gone().await;
    hosts.cable.plug();
    hosts.until_connected().await;
    fs::write(&sign, "").expect("the sign");
    let ended = is(&agent, &run, "completed").await;
    assert_eq!(ended["exitCode"], 0, "{ended}");
    assert_eq!(lines(&log), ["begun", "ended"]);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
async fn an_end_behind_a_pulled_cable_is_told_when_it_is_plugged_in() {
    let hosts = or_skip!(hosts().await);
    let agent = hosts.agent();
    let (log, sign) = (hosts.file("log"), hosts.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;

    hosts.cable.pull();
    fs::write(&sign, "").expect("the sign");
    has(&log, &["begun", "ended"]).await;
    hosts.until_gone().await;
    hosts.cable.plug();
    let ended = is(&agent, &run, "completed").await;
    assert_eq!(ended["exitCode"], 0, "{ended}");
    assert_eq!(lines(&log), ["begun", "ended"], "it ran again");
}

#[tokio::test]
async fn a_call_into_a_pulled_cable_runs_once_or_not_at_all() {
    let hosts = or_skip!(hosts().await);
    let agent = hosts.agent();
    for round in 0..3 {
        let log = hosts.file(&format!("log-{round}"));
        hosts.until_connected().await;
        hosts.cable.pull();
        // The server does not know yet.
        let text = format!("echo ran >> {}", log.display());
        let call = tokio::spawn({
            let agent = agent.clone();
            async move {
                agent
                    .exec(json!({ "command": text, "host": "node", "background": true }))
                    .await
                    .json()
            }
        });
        if round > 0 {
            hosts.until_gone().await;
        }
        hosts.cable.plug();
        let answer = call.await.expect("an answer");
        let run = match answer["runId"].as_str() {
            Some(run) => eventually("settled", || agent.run(run), has_ended).await,
            // It was not begun, and the caller is told so.
            None => answer,
        };
        hosts.until_connected().await;
        // One more call over the same connection: whatever was on its way has arrived before it.
        let after = agent.ran(json!({ "argv": ["true"], "host": "node" })).await;
        assert_eq!(after["status"], "completed", "{after}");
        let times = lines(&log).len();
        match run["status"].as_str() {
            Some("completed") => assert_eq!(times, 1, "{run}"),
            Some("lost") => assert!(times <= 1, "it ran {times} times: {run}"),
            Some("failed" | "denied") => {
                assert_eq!(times, 0, "it ran although the record says otherwise: {run}");
            }
            _ => assert_eq!((&run["code"], times), (&json!("node-unavailable"), 0), "{run}"),
        }
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
async fn a_server_that_dies_while_the_cable_is_out_takes_the_run_up_again() {
    let mut hosts = or_skip!(hosts().await);
    let (log, sign) = (hosts.file("log"), hosts.file("sign"));
    let run = begin(&hosts.agent(), &long(&log, &sign)).await;
    has(&log, &["begun"]).await;

    hosts.cable.pull();
    hosts.server.crash_and_restart().await;
    hosts.cable.plug();
    hosts.until_connected().await;
    fs::write(&sign, "").expect("the sign");
    has(&log, &["begun", "ended"]).await;
    let agent = hosts.agent();
    let ended = eventually(
        "settled",
        || agent.run(&run),
        |run| matches!(run["status"].as_str(), Some("completed" | "lost")),
    )
    .await;
    assert_eq!(lines(&log), ["begun", "ended"], "it ran again: {ended}");
    // Known lost or known completed, and a call afterwards works.
    let after = agent.ran(json!({ "argv": ["echo", "hi"], "host": "node" })).await;
    assert_eq!(after["stdout"], "hi\n", "{after}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
async fn a_node_that_dies_while_the_cable_is_out_leaves_its_run_lost() {
    let mut hosts = or_skip!(hosts().await);
    let agent = hosts.agent();
    let (log, sign) = (hosts.file("log"), hosts.file("sign"));
    let run = begin(&agent, &long(&log, &sign)).await;
    has(&log, &["begun"]).await;

    hosts.cable.pull();
    hosts.node.kill();
    hosts.until_gone().await;
    hosts.cable.plug();
    hosts.node.start();
    hosts.until_connected().await;
    let lost = eventually(
        "settled",
        || agent.run(&run),
        |run| !matches!(run["status"].as_str(), Some("running" | "queued")),
    )
    .await;
    assert!(
        matches!(lost["status"].as_str(), Some("lost" | "cancelled" | "failed")),
        "{lost}"
    );
    fs::write(&sign, "").expect("the sign");
    let after = agent.ran(json!({ "argv": ["true"], "host": "node" })).await;
    assert_eq!(after["status"], "completed", "{after}");
    assert_eq!(
        lines(&log).iter().filter(|line| *line == "begun").count(),
        1,
        "it ran again"
    );
}
