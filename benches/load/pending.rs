//! Many approvals at once that wait for a person.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    connection::Caller,
    options::Options,
    samples::Samples,
    servers::{Policy, Server},
};

/// Agents that ask: of each only so many questions may wait.
const AGENTS: usize = 40;
/// Connections that ask.
const CLIENTS: usize = 8;
/// How often a page is read.
const READS: usize = 200;

pub(crate) async fn measure(options: &Options) {
    println!(
        "\npending: {} approvals, asked for over {CLIENTS} connections",
        options.pending
    );
    let server = Server::countersign(Policy::Ask);
    // The first one brings in what any work brings in.
    admit(&server.agent(), 1).await;
    let before = server.resident_kib();
    let begun = Instant::now();
    let share = options.pending.div_ceil(CLIENTS);
    let tasks: tokio::task::JoinSet<Samples> = (0..CLIENTS)
        .map(|_| {
            let agent = server.agent();
            async move { admit(&agent, share).await }
        })
        .collect();
    let times = Samples(
        tasks
            .join_all()
            .await
            .into_iter()
            .flat_map(|samples| samples.0)
            .collect(),
    );
    println!(
        "  admitted in {:?}: p50 {:?}, p99 {:?} each; RSS growth {} KiB",
        begun.elapsed(),
        times.p50(),
        times.p99(),
        server.resident_kib().saturating_sub(before)
    );
    for limit in [50, 500] {
        let (times, bytes) = list(&server.operator(), limit).await;
        println!(
            "  list of {limit}: p50 {:?}, p99 {:?}, {bytes} bytes; RSS growth {} KiB",
            times.p50(),
            times.p99(),
            server.resident_kib().saturating_sub(before)
        );
    }
    let expected = share * CLIENTS + 1;
    assert_eq!(count(&server.operator()).await, expected, "approvals are missing");
}

pub(super) async fn admit(agent: &Caller, count: usize) -> Samples {
    let requests: Vec<_> = (0..AGENTS)
        .map(|number| {
            let body = json!({ "argv": ["/bin/true"], "agentId": format!("agent-{number}"), "join": false });
            agent.request("POST", "/v1/exec", Some(&body))
        })
        .collect();
    let mut connection = agent.connect().await;
    let mut times = Samples::default();
    for request in requests.iter().cycle().take(count) {
        let begun = Instant::now();
        connection.ask(request).await.expect(202);
        times.add(begun.elapsed());
    }
    times
}

async fn list(operator: &Caller, limit: usize) -> (Samples, usize) {
    let request = operator.request("GET", &format!("/v1/approvals?limit={limit}"), None);
    let mut connection = operator.connect().await;
    let mut times = Samples::default();
    let mut bytes = 0;
    for _ in 0..READS {
        let begun = Instant::now();
        bytes = connection.ask(&request).await.expect(200).len();
        times.add(begun.elapsed());
    }
    (times, bytes)
}

/// Follows the cursors to the end.
async fn count(operator: &Caller) -> usize {
    let mut connection = operator.connect().await;
    let mut query = String::new();
    let mut seen = 0;
    loop {
        let request = operator.request("GET", &format!("/v1/approvals?limit=500{query}"), None);
        let page = connection.ask(&request).await.json(200);
        seen += page.get("items").and_then(Value::as_array).map_or(0, Vec::len);
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) => query = format!("&cursor={cursor}"),
            None => return seen,
        }
    }
}
