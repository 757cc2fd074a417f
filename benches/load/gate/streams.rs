//! What flows: the output of a run, and events to many subscribers.

use serde_json::json;
use tokio::time::Instant;

use super::{
    super::{
        servers::{Policy, Server, time_shell},
        sse::{self, Crowd},
    },
    Report,
    interval::Interval,
    rounds::{compare, compare_rates},
};

const BYTES: u32 = 200_000_000;
const SUBSCRIBERS: usize = 1000;
/// Events of one round of all subscribers.
const EVENTS: u32 = 40;

/// Much output through one run, beside the same through two pipes of a shell.
pub(super) async fn output(report: &mut Report<'_>) {
    let server = Server::countersign(Policy::Full);
    let caller = server.agent();
    let source = format!("head -c {BYTES} /dev/zero");
    let call = json!({ "command": source, "workdir": "/", "yieldMs": 120_000 });
    let request = caller.request("POST", "/v1/exec", Some(&call));
    let mut connection = caller.connect().await;
    let piped = format!("{source} | cat | wc -c");
    let compared = compare(
        report.enough("output/200-mb/time"),
        1,
        async || {
            let begun = Instant::now();
            connection.ask(&request).await.expect_completed();
            begun.elapsed()
        },
        async || time_shell(&piped),
    )
    .await;
    report.add(
        "output/200-mb/time",
        compared.ratio,
        format!(
            "{} ms beside {} ms",
            compared.ours.p50().as_millis(),
            compared.beside.p50().as_millis()
        ),
    );
    // A recording needs more than the output: when each piece came.
    let more = server.largest_output() - u64::from(BYTES);
    let percent = 100.0 * f64::from(u32::try_from(more).expect("few bytes")) / f64::from(BYTES);
    report.add(
        "output/200-mb/recording-percent",
        Interval::exact(percent),
        format!("{more} bytes besides the output"),
    );
}

/// Events to a thousand subscribers as fast as they are caused, beside a bare broadcast.
pub(super) async fn events(report: &mut Report<'_>) {
    let ours = Crowd::gather(sse::countersign(), SUBSCRIBERS).await;
    let beside = Crowd::gather(sse::bare(), SUBSCRIBERS).await;
    ours.deliver(EVENTS).await;
    beside.deliver(EVENTS).await;
    let (ratio, of_ours, of_beside) = compare_rates(
        report.enough("events/1000-subscribers/deliveries"),
        async || ours.deliver(EVENTS).await,
        async || beside.deliver(EVENTS).await,
    )
    .await;
    report.add(
        "events/1000-subscribers/deliveries",
        ratio,
        format!("{of_ours:.0} a second beside {of_beside:.0}"),
    );
}
