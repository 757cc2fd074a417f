//! What it costs that the kernel keeps what a command starts, beside the same command of an agent that may start anything.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    super::{
        connection::Connection,
        servers::{Policy, Server},
    },
    Report,
    rounds::compare,
};

const PER_ROUND: usize = 24;
const WARM_UP: usize = 30;

pub(super) async fn measure(report: &mut Report<'_>) {
    let server = Server::countersign(Policy::Kept);
    let request = |agent: &str, argv: &Value| {
        let call = json!({ "argv": argv, "workdir": "/", "agentId": agent });
        server.agent().request("POST", "/v1/exec", Some(&call))
    };
    // One that starts nothing, and one whose helpers have to be found.
    for (name, argv) in [
        ("kept/program/p50", json!(["/usr/bin/true"])),
        ("kept/helpers/p50", json!(["/usr/bin/git", "--version"])),
    ] {
        let (limited, open) = (request("main", &argv), request("open", &argv));
        let mut ours = server.agent().connect().await;
        let mut beside = server.agent().connect().await;
        for _ in 0..WARM_UP {
            ask(&mut ours, &limited).await;
            ask(&mut beside, &open).await;
        }
        let compared = compare(
            report.enough(name),
            PER_ROUND,
            async || ask(&mut ours, &limited).await,
            async || ask(&mut beside, &open).await,
        )
        .await;
        let (ours, beside) = (compared.ours.p50().as_micros(), compared.beside.p50().as_micros());
        report.add(name, compared.ratio, format!("{ours} us beside {beside} us"));
    }
}

async fn ask(connection: &mut Connection, request: &[u8]) -> std::time::Duration {
    let begun = Instant::now();
    connection.ask(request).await.expect_completed();
    begun.elapsed()
}
