//! What a decision costs over HTTP, above the cost of HTTP itself, with few and with many allowlist entries.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    connection::Connection,
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
};

/// Questions of each kind.
const QUESTIONS: usize = 2000;

pub(crate) async fn measure(options: &Options) {
    println!("\nexplain: {QUESTIONS} questions each, servers alternating");
    let echo = Server::reference();
    let body = json!({ "argv": [options.program] });
    let echo_request = echo.agent().request("POST", "/echo", Some(&body));
    let mut above_first = None;
    for &entries in &options.entries {
        let server = Server::countersign(Policy::Allowlist { entries });
        let request = server.agent().request("POST", "/v1/exec/explain", Some(&body));
        let mut connections = [echo.agent().connect().await, server.agent().connect().await];
        let mut times = [Samples::default(), Samples::default()];
        // The first answers read the document.
        for question in 0..QUESTIONS + 50 {
            for ((connection, request), times) in connections
                .iter_mut()
                .zip([&echo_request, &request])
                .zip(&mut times)
            {
                let begun = Instant::now();
                ask(connection, request).await;
                if question >= 50 {
                    times.add(begun.elapsed());
                }
            }
        }
        let [echo, explain] = &times;
        let above = explain.p50().saturating_sub(echo.p50());
        let first = *above_first.get_or_insert(above);
        println!(
            "  {entries:>7} entries: echo p50 {:?}, explain p50 {:?} p99 {:?}; above the echo {above:?} ({:.2}x); \
             start to ready {:?}; RSS {} KiB",
            echo.p50(),
            explain.p50(),
            explain.p99(),
            ratio(above, first),
            server.start_time(),
            server.resident_kib()
        );
    }
}

async fn ask(connection: &mut Connection, request: &[u8]) {
    connection.ask(request).await.expect(200);
}

/// An approvals document with this many entries of all kinds, none of which covers the question.
pub(crate) fn document(entries: usize) -> Value {
    let entry = |number: usize| {
        let pattern = match number % 4 {
            0 => format!("/opt/tools/{number}/bin/tool"),
            1 => format!("/srv/**/tool-{number}"),
            2 => format!("~/bin/tool-{number}-*"),
            _ => format!("tool-{number}"),
        };
        let id = format!("00000000-0000-4000-8000-{number:012}");
        if number.is_multiple_of(8) {
            json!({ "id": id, "pattern": pattern, "argPattern": format!("^--number={number}$") })
        } else {
            json!({ "id": id, "pattern": pattern })
        }
    };
    let allowlist: Vec<Value> = (0..entries).map(entry).collect();
    json!({ "version": 1, "agents": { "main": { "allowlist": allowlist } } })
}
