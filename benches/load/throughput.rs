//! A gigabyte of output through one run, beside the same through a pipe, in turns; and what the server grew by.

use serde_json::json;
use tokio::time::Instant;

use super::{
    samples::{Samples, ratio},
    servers::{Policy, Server, time_shell},
};

const BYTES: u32 = 1 << 30;
const ROUNDS: usize = 3;

pub(crate) async fn measure() {
    let server = Server::countersign(Policy::Full);
    let caller = server.agent();
    let source = format!("head -c {BYTES} /dev/zero");
    let call = json!({ "command": source, "workdir": "/", "yieldMs": 120_000 });
    let request = caller.request("POST", "/v1/exec", Some(&call));
    let mut connection = caller.connect().await;
    let (mut bare, mut runs) = (Samples::default(), Samples::default());
    let before = server.resident_kib();
    println!("\nthroughput: {BYTES} bytes of output, {ROUNDS} rounds, in turns");
    for _ in 0..ROUNDS {
        bare.add(time_shell(&format!("{source} | cat | wc -c")));
        let begun = Instant::now();
        connection.ask(&request).await.expect_completed();
        runs.add(begun.elapsed());
    }
    let (bare, run) = (bare.p50(), runs.p50());
    let rate = |time: std::time::Duration| f64::from(BYTES) / 1e6 / time.as_secs_f64();
    println!(
        "  | cat | wc -c   {:>7} ms  {:>7.0} MB/s",
        bare.as_millis(),
        rate(bare)
    );
    println!(
        "  one run         {:>7} ms  {:>7.0} MB/s  {:.2}x",
        run.as_millis(),
        rate(run),
        ratio(run, bare)
    );
    println!(
        "  resident: {before} KiB before, {} KiB after, {} KiB at most",
        server.resident_kib(),
        server.peak_kib()
    );
}
