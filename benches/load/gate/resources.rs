//! What the program holds: memory, its own size; and how long it takes to be ready.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::{
    super::{
        pending,
        servers::{self, Policy, Server},
    },
    Report,
    interval::Interval,
    rounds::compare,
};

const WAITING: usize = 1000;
/// What a start or an answer leaves behind has gone back to the system by then.
const SETTLED: Duration = Duration::from_secs(10);

/// Resident memory of the server: idle, with a thousand questions, and some time after they were answered.
pub(super) async fn memory(report: &mut Report<'_>) {
    let server = Server::countersign(Policy::Ask);
    // The first one brings in what any work brings in.
    pending::admit(&server.agent(), 1).await;
    tokio::time::sleep(SETTLED).await;
    let mut show = |name: &str| {
        report.add(
            format!("memory/{name}/kib"),
            Interval::exact(number(server.resident_kib())),
            "resident",
        );
    };
    show("idle");
    pending::admit(&server.agent(), WAITING).await;
    show("1000-questions");
    answer_all(&server).await;
    tokio::time::sleep(SETTLED).await;
    show("10-s-after");
    let size = fs::metadata(servers::SERVER).expect("the program").len();
    report.add(
        "memory/program/kib",
        Interval::exact(number(size / 1024)),
        "on disk",
    );
}

/// From starting the program to its ready line, beside the bare server.
pub(super) async fn start(report: &mut Report<'_>) {
    let state = servers::Restarts::new();
    // Makes the ledger and the keys.
    state.once();
    let compared = compare(
        report.enough("start/ready"),
        2,
        async || state.once(),
        async || Server::reference().start_time(),
    )
    .await;
    report.add(
        "start/ready",
        compared.ratio,
        format!(
            "{} us beside {} us",
            compared.ours.p50().as_micros(),
            compared.beside.p50().as_micros()
        ),
    );
}

/// Denies everything that waits.
async fn answer_all(server: &Server) {
    let operator = server.operator();
    let mut connection = operator.connect().await;
    let list = operator.request("GET", "/v1/approvals?limit=500", None);
    loop {
        let page = connection.ask(&list).await.json(200);
        let items = page.get("items").and_then(Value::as_array);
        let items = items.filter(|items| !items.is_empty());
        let Some(items) = items else { return };
        for item in items {
            let id = item
                .get("id")
                .and_then(Value::as_str)
                .expect("the id of a question");
            let path = format!("/v1/approvals/{id}/decision");
            let deny = operator.request("POST", &path, Some(&json!({ "decision": "deny" })));
            connection.ask(&deny).await.expect(200);
        }
    }
}

fn number(size: u64) -> f64 {
    f64::from(u32::try_from(size).unwrap_or(u32::MAX))
}
