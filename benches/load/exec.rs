//! What an exec costs beside the cost of starting the command, and what starting the server costs.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Restarts, Server},
};

/// Answers of one window, or of several.
#[derive(Debug, Default)]
pub(super) struct Window {
    latencies: Samples,
    elapsed: Duration,
}

pub(crate) async fn measure(options: &Options) {
    println!(
        "exec: command {}, {} windows of {:?} each, servers alternating",
        options.program, options.windows, options.window
    );
    starts();
    let reference = Server::reference();
    let countersign = Server::countersign(Policy::Full);
    let servers = [&reference, &countersign];
    for server in servers {
        // Connections, caches and supervisors are warm before anything counts.
        window(server, &request(server, options), 4, options.window).await;
    }
    println!("idle RSS after warming up: {}", countersign.memory());
    for &clients in &options.clients {
        let mut seen: [Window; 2] = Default::default();
        for _ in 0..options.windows {
            for (server, all) in servers.into_iter().zip(&mut seen) {
                all.add(window(server, &request(server, options), clients, options.window).await);
            }
        }
        compare(clients, &seen);
    }
    println!("idle RSS at the end: {}", countersign.memory());
}

/// Times from start to ready line: with a fresh state directory, and again with the same one.
fn starts() {
    let (mut first, mut later) = (Samples::default(), Samples::default());
    for _ in 0..10 {
        let state = Restarts::new();
        first.add(state.once());
        later.add(state.once());
    }
    println!(
        "start to ready, p50 of {}: first start {:?}, later start {:?}",
        first.0.len(),
        first.p50(),
        later.p50()
    );
}

fn request(server: &Server, options: &Options) -> Vec<u8> {
    let call = json!({ "argv": [options.program] });
    server.agent().request("POST", "/v1/exec", Some(&call))
}

/// Sends requests from `clients` connections for one window.
pub(super) async fn window(server: &Server, request: &[u8], clients: usize, length: Duration) -> Window {
    let caller = server.agent();
    let begun = Instant::now();
    let until = begun + length;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (caller, request) = (caller.clone(), request.to_vec());
        tasks.spawn(async move {
            let mut connection = caller.connect().await;
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                connection.ask(&request).await.expect_completed();
                latencies.push(begun.elapsed());
            }
            latencies
        });
    }
    let latencies = Samples(tasks.join_all().await.concat());
    let elapsed = begun.elapsed();
    Window { latencies, elapsed }
}

impl Window {
    fn add(&mut self, other: Self) {
        self.latencies.0.extend(other.latencies.0);
        self.elapsed += other.elapsed;
    }

    /// Answers a second.
    pub(super) fn throughput(&self) -> f64 {
        f64::from(u32::try_from(self.latencies.0.len()).unwrap_or(u32::MAX)) / self.elapsed.as_secs_f64()
    }
}

fn compare(clients: usize, [reference, countersign]: &[Window; 2]) {
    println!("\n{clients} client(s)        p50 us    p99 us  answers/s   answers");
    for (name, window) in [("reference  ", reference), ("countersign", countersign)] {
        println!(
            "  {name}  {:>12}  {:>8}  {:>9.0}  {:>8}",
            window.latencies.p50().as_micros(),
            window.latencies.p99().as_micros(),
            window.throughput(),
            window.latencies.0.len()
        );
    }
    println!(
        "  ratio        {:>11.2}x  {:>7.2}x  {:>8.2}x",
        ratio(countersign.latencies.p50(), reference.latencies.p50()),
        ratio(countersign.latencies.p99(), reference.latencies.p99()),
        countersign.throughput() / reference.throughput()
    );
}
