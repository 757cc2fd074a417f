//! Decisions, questions and their lists.

use std::time::Duration;

use serde_json::json;
use tokio::{sync::Mutex, time::Instant};

use super::{
    super::{
        approval::Pair,
        connection::Connection,
        flood::{Flood, Water},
        options::Options,
        pending,
        samples::ratio,
        servers::{Policy, Server},
    },
    Report,
    interval::Interval,
    rounds::{Compared, compare},
};

const FEW: usize = 10;
const MANY: usize = 10_000;
const WAITING: usize = 1000;
const PAGE: usize = 500;
/// Connections of a flood.
const FLOODING: usize = 4;

/// A refusal with its record: beside the bare server that syncs a line, and with many entries beside few.
pub(super) async fn decisions(report: &mut Report<'_>) {
    let call = json!({ "argv": ["/bin/true"], "workdir": "/" });
    let bare = Server::synced_reference();
    let of_bare = bare.agent().request("POST", "/record", Some(&call));
    let mut beside = bare.agent().connect().await;
    let few = Server::countersign(Policy::Covered { entries: FEW });
    let many = Server::countersign(Policy::Covered { entries: MANY });
    let request = few.agent().request("POST", "/v1/exec", Some(&call));
    let request_to_many = many.agent().request("POST", "/v1/exec", Some(&call));
    let mut to_few = few.agent().connect().await;
    let mut to_many = many.agent().connect().await;
    for _ in 0..50 {
        ask(&mut to_few, &request, 403).await;
        ask(&mut to_many, &request_to_many, 403).await;
        ask(&mut beside, &of_bare, 200).await;
    }
    let compared = compare(
        report.enough("decision/10-entries/p50"),
        100,
        async || ask(&mut to_few, &request, 403).await,
        async || ask(&mut beside, &of_bare, 200).await,
    )
    .await;
    report.add("decision/10-entries/p50", compared.ratio, times(&compared));
    let compared = compare(
        report.enough("decision/10000-to-10-entries/p50"),
        100,
        async || ask(&mut to_many, &request_to_many, 403).await,
        async || ask(&mut to_few, &request, 403).await,
    )
    .await;
    report.add(
        "decision/10000-to-10-entries/p50",
        compared.ratio,
        times(&compared),
    );
}

/// A run with an idempotency key, which is synced before it starts, beside the bare server that syncs a line first.
pub(super) async fn keyed(report: &mut Report<'_>) {
    let server = Server::countersign(Policy::Full);
    let bare = Server::synced_reference();
    let call = json!({ "argv": ["/bin/true"], "workdir": "/" });
    let (agent, mut keys) = (server.agent(), 0..);
    let mut next = || agent.keyed(keys.next().expect("a number"), &call);
    let recorded = json!({ "argv": ["/bin/true"], "record": true });
    let of_bare = bare.agent().request("POST", "/v1/exec", Some(&recorded));
    let mut ours = agent.connect().await;
    let mut beside = bare.agent().connect().await;
    for _ in 0..30 {
        ask(&mut ours, &next(), 200).await;
        ask(&mut beside, &of_bare, 200).await;
    }
    let compared = compare(
        report.enough("keyed/p50"),
        20,
        async || ask(&mut ours, &next(), 200).await,
        async || ask(&mut beside, &of_bare, 200).await,
    )
    .await;
    report.add("keyed/p50", compared.ratio, times(&compared));
}

/// Question, event, answer, result, beside the same four steps with two synced lines.
pub(super) async fn approval(report: &mut Report<'_>, options: &Options) {
    let mut ours = Pair::new(Server::countersign(Policy::Ask), options).await;
    let mut beside = Pair::new(Server::synced_reference(), options).await;
    for _ in 0..20 {
        ours.go().await;
        beside.go().await;
    }
    let compared = compare(
        report.enough("approval/p50"),
        20,
        async || ours.go().await,
        async || beside.go().await,
    )
    .await;
    report.add("approval/p50", compared.ratio, times(&compared));
}

/// The same while another token floods the server, beside the same server without that flood.
pub(super) async fn flood(report: &mut Report<'_>, options: &Options) {
    for (water, name) in [(Water::Questions, "questions"), (Water::Analyses, "analyses")] {
        let flood = Mutex::new(Flood::new(water, FLOODING, options).await);
        let row = format!("flood/{name}/p50");
        let compared = compare(
            report.enough(&row),
            20,
            async || flood.lock().await.go(true).await,
            async || flood.lock().await.go(false).await,
        )
        .await;
        report.add(row, compared.ratio, times(&compared));
        let slowest = ratio(compared.ours.p99(), compared.beside.p99());
        report.add(format!("flood/{name}/p99"), Interval::exact(slowest), "");
    }
}

/// A page of waiting questions, whole and brief, beside the bare server that reads and writes the same JSON.
pub(super) async fn list(report: &mut Report<'_>) {
    let server = Server::countersign(Policy::Ask);
    pending::admit(&server.agent(), WAITING).await;
    let bare = Server::reference();
    for (name, view) in [("500-of-1000", ""), ("brief-500-of-1000", "&view=brief")] {
        let path = format!("/v1/approvals?limit={PAGE}{view}");
        let of_ours = server.operator().request("GET", &path, None);
        let mut ours = server.operator().connect().await;
        let page = ours.ask(&of_ours).await.json(200);
        let of_bare = bare.agent().request("POST", "/echo", Some(&page));
        let mut beside = bare.agent().connect().await;
        let time = format!("list/{name}/p50");
        let compared = compare(
            report.enough(&time),
            10,
            async || ask(&mut ours, &of_ours, 200).await,
            async || ask(&mut beside, &of_bare, 200).await,
        )
        .await;
        report.add(time, compared.ratio, times(&compared));
        let bytes = u32::try_from(page.to_string().len()).unwrap_or(u32::MAX);
        report.add(
            format!("list/{name}/bytes"),
            Interval::exact(f64::from(bytes)),
            "",
        );
    }
}

fn times(compared: &Compared) -> String {
    format!(
        "{} us beside {} us; p99 {} us beside {} us",
        compared.ours.p50().as_micros(),
        compared.beside.p50().as_micros(),
        compared.ours.p99().as_micros(),
        compared.beside.p99().as_micros()
    )
}

async fn ask(connection: &mut Connection, request: &[u8], status: u16) -> Duration {
    let begun = Instant::now();
    connection.ask(request).await.expect(status);
    begun.elapsed()
}
