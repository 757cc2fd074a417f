//! The way of an approval: a request that asks, the event that tells, the decision, the result.
//!
//! Beside it the same four steps on the bare server, once in memory only and once with a synced write where
//! countersign has one: at the decision and before the start.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    connection::Connection,
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
    stream::EventStream,
};

/// The parts of one way.
#[derive(Debug, Default)]
struct Ways {
    /// From the request to the event.
    told: Samples,
    /// From sending the decision to its answer.
    decided: Samples,
    /// From the request to the result.
    whole: Samples,
}

/// An agent that asks, an approver that listens and one that answers.
#[derive(Debug)]
pub(super) struct Pair {
    server: Server,
    ask: Vec<u8>,
    agent: Connection,
    approver: Connection,
    events: EventStream,
    ways: Ways,
}

pub(crate) async fn measure(options: &Options) {
    println!(
        "\napproval: {} ways of {} each, servers alternating",
        options.rounds, options.program
    );
    let mut pairs = [
        ("in memory  ", Pair::new(Server::reference(), options).await),
        (
            "synced     ",
            Pair::new(Server::synced_reference(), options).await,
        ),
        (
            "countersign",
            Pair::new(Server::countersign(Policy::Ask), options).await,
        ),
    ];
    for (_, pair) in &mut pairs {
        for _ in 0..20 {
            pair.go().await;
        }
        pair.ways = Ways::default();
    }
    for _ in 0..options.rounds {
        for (_, pair) in &mut pairs {
            pair.go().await;
        }
    }
    println!("                whole p50 us    p99 us  request to event p50  decision to answer p50");
    for (name, Pair { ways, .. }) in &pairs {
        println!(
            "  {name}  {:>15}  {:>8}  {:>20}  {:>22}",
            ways.whole.p50().as_micros(),
            ways.whole.p99().as_micros(),
            ways.told.p50().as_micros(),
            ways.decided.p50().as_micros()
        );
    }
    let [(_, memory), (_, synced), (_, countersign)] = &pairs;
    for (name, reference) in [("in memory", memory), ("synced   ", synced)] {
        let of = |quantile: fn(&Samples) -> Duration| {
            ratio(quantile(&countersign.ways.whole), quantile(&reference.ways.whole))
        };
        println!(
            "  to {name}  {:>13.2}x  {:>7.2}x",
            of(Samples::p50),
            of(Samples::p99)
        );
    }
}

impl Pair {
    pub(super) async fn new(server: Server, options: &Options) -> Self {
        let body = json!({ "argv": [options.program], "approvalWaitMs": 60_000 });
        Self {
            ask: server.agent().request("POST", "/v1/exec", Some(&body)),
            agent: server.agent().connect().await,
            approver: server.operator().connect().await,
            events: EventStream::open(&server.operator(), "?types=exec.approval.requested").await,
            ways: Ways::default(),
            server,
        }
    }

    /// Goes once; returns the time from the request to the result.
    pub(super) async fn go(&mut self) -> Duration {
        let Self {
            server,
            ask,
            agent,
            approver,
            events,
            ways,
        } = self;
        let begun = Instant::now();
        let answers = async {
            let id = asked(events).await;
            ways.told.add(begun.elapsed());
            let path = format!("/v1/approvals/{id}/decision");
            let decision =
                server
                    .operator()
                    .request("POST", &path, Some(&json!({ "decision": "allow-once" })));
            let sent = Instant::now();
            approver.ask(&decision).await.expect(200);
            ways.decided.add(sent.elapsed());
        };
        let results = async {
            agent.ask(ask).await.expect_completed();
            begun.elapsed()
        };
        let ((), whole) = tokio::join!(answers, results);
        ways.whole.add(whole);
        whole
    }
}

/// Waits for the next request and returns its id.
async fn asked(events: &mut EventStream) -> String {
    let mut id = None;
    while id.is_none() {
        let goes_on = events.read(|event| {
            id = event
                .json()
                .get("approvalId")
                .and_then(Value::as_str)
                .map(str::to_owned);
        });
        assert!(goes_on.await, "the event stream ended");
    }
    id.expect("the loop ends with an id")
}
