//! What an exec costs beside the cost of starting the command: `cargo bench --bench load`.
//!
//! Two servers run the same command for the same client: a bare axum server that only starts it, and
//! countersign with policy `full`/`off`, which decides, records, supervises and tells. Short windows of both
//! alternate within one run, so that whatever else the machine does falls on both; what counts are the ratios.
//! Options: `--command PROGRAM` (default `/bin/true`), `--windows N` per server and client count (default 8),
//! `--window-ms MS` (default 1000), `--clients 1,32`.

#![expect(clippy::print_stdout, reason = "a report is what a load harness is for")]

mod client;
mod reference;
mod report;
mod servers;

use std::time::Duration;

use client::Window;
use servers::Server;

/// What to measure.
#[derive(Debug)]
struct Plan {
    program: String,
    windows: u32,
    window: Duration,
    clients: Vec<usize>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == reference::MODE) {
        reference::serve();
        return;
    }
    let mut plan = Plan {
        program: "/bin/true".to_owned(),
        windows: 8,
        window: Duration::from_secs(1),
        clients: vec![1, 32],
    };
    while let Some(option) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .unwrap_or_else(|| panic!("{option} needs a value"))
        };
        match option.as_str() {
            "--command" => plan.program = value(),
            "--windows" => plan.windows = value().parse().expect("a number of windows"),
            "--window-ms" => plan.window = Duration::from_millis(value().parse().expect("milliseconds")),
            "--clients" => {
                let counts = value();
                plan.clients = counts
                    .split(',')
                    .map(|count| count.parse().expect("a number of clients"))
                    .collect();
            }
            // What cargo itself passes to every bench target.
            "--bench" => {}
            _ => panic!("unknown option {option}"),
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(&plan));
}

async fn measure(plan: &Plan) {
    println!(
        "command {}, {} windows of {:?} each, servers alternating",
        plan.program, plan.windows, plan.window
    );
    report::starts(&servers::time_starts(10));
    let reference = Server::reference();
    let countersign = Server::countersign();
    let servers = [&reference, &countersign];
    for server in servers {
        // Connections, caches and supervisors are warm before anything counts.
        client::window(server, plan, 4).await;
    }
    println!("idle RSS after warming up: {}", countersign.memory());
    for &clients in &plan.clients {
        let mut seen: [Window; 2] = Default::default();
        for _ in 0..plan.windows {
            for (server, all) in servers.into_iter().zip(&mut seen) {
                all.add(client::window(server, plan, clients).await);
            }
        }
        report::compare(clients, &seen);
    }
    println!("idle RSS at the end: {}", countersign.memory());
}
