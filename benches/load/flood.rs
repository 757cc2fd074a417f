//! What the answers of one token cost while another floods the server.
//!
//! The flood is of questions over 400 agents. Before, it filled what one token may have waiting, so that all of it is refused,
//! each after a moment. Or it is of commands that take long to analyse.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::json;
use tokio::{runtime, sync::Notify, task::JoinSet};

use super::{
    approval::Pair,
    connection::{Caller, Connection},
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
};

/// Agents that the flood asks for.
const AGENTS: usize = 400;
/// Calls of the flood that were refused before it is measured: then as much waits as one token may have.
const REFUSED: usize = 40;

/// What a flood is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Water {
    Questions,
    /// As many words as a command may have, each another thing that git would start.
    Analyses,
}

impl Water {
    const ALL: [Self; 2] = [Self::Questions, Self::Analyses];
    /// The most words of a command.
    const WORDS: usize = 4096;

    fn requests(self, flooder: &Caller) -> Arc<[Vec<u8>]> {
        match self {
            Self::Questions => (0..AGENTS)
                .map(|agent| {
                    let agent = format!("agent-{agent}");
                    let body = json!({ "argv": ["/bin/true"], "agentId": agent, "join": false });
                    flooder.request("POST", "/v1/exec", Some(&body))
                })
                .collect(),
            Self::Analyses => {
                let aliases = (0..Self::WORDS / 2 - 1)
                    .flat_map(|alias| ["-c".to_owned(), format!("alias.a{alias}=!sh -c 'a{alias} $(id)'")]);
                let argv: Vec<String> = ["git".to_owned()].into_iter().chain(aliases).collect();
                let body = json!({ "argv": argv });
                [flooder.request("POST", "/v1/exec/explain", Some(&body))].into()
            }
        }
    }
}

/// A server with a token that floods it when it should, and one that goes the way of an approval.
#[derive(Debug)]
pub(super) struct Flood {
    pair: Pair,
    tap: Arc<Tap>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the flood flows.
#[derive(Debug, Default)]
struct Tap {
    is_open: AtomicBool,
    /// Nothing flows any more.
    is_over: AtomicBool,
    turned: Notify,
    sent: AtomicUsize,
}

pub(crate) async fn measure(options: &Options) {
    println!(
        "\nflood: {} ways of an approval beside what another token sends",
        options.rounds
    );
    for (water, clients) in Water::ALL.into_iter().flat_map(|water| [(water, 1), (water, 4)]) {
        let mut flood = Flood::new(water, clients, options).await;
        let (mut idle, mut flooded) = (Samples::default(), Samples::default());
        for _ in 0..options.rounds {
            idle.add(flood.go(false).await);
            flooded.add(flood.go(true).await);
        }
        println!(
            "  {water:?}, {clients} connections: idle p50 {:?}, p99 {:?}; flooded p50 {:?}, p99 {:?}; {:.2}x, {:.2}x; {} calls of the flood",
            idle.p50(),
            idle.p99(),
            flooded.p50(),
            flooded.p99(),
            ratio(flooded.p50(), idle.p50()),
            ratio(flooded.p99(), idle.p99()),
            flood.tap.sent.load(Ordering::Relaxed),
        );
    }
}

impl Flood {
    /// A flood over so many connections; what fills the server at first was sent.
    pub(super) async fn new(water: Water, clients: usize, options: &Options) -> Self {
        let server = Server::countersign(Policy::Ask);
        let flooder = server.other_gateway().await;
        let requests = water.requests(&flooder);
        if water == Water::Questions {
            let mut connection = flooder.connect().await;
            let mut refused = 0;
            for request in requests.iter().cycle() {
                refused += usize::from(send(&mut connection, request).await == 429);
                if refused == REFUSED {
                    break;
                }
            }
        }
        let mut pair = Pair::new(server, options).await;
        for _ in 0..20 {
            pair.go().await;
        }
        let tap = Arc::new(Tap::default());
        let of_flood = Arc::clone(&tap);
        // On a thread of its own: what the flood costs its client is not what is measured.
        let thread = thread::spawn(move || flow(clients, &flooder, &requests, &of_flood));
        Self {
            pair,
            tap,
            thread: Some(thread),
        }
    }

    /// Goes the way of an approval once, with the flood or without.
    pub(super) async fn go(&mut self, is_flooded: bool) -> Duration {
        self.tap.is_open.store(is_flooded, Ordering::SeqCst);
        self.tap.turned.notify_waiters();
        let time = self.pair.go().await;
        self.tap.is_open.store(false, Ordering::SeqCst);
        time
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.tap.is_over.store(true, Ordering::SeqCst);
        self.tap.turned.notify_waiters();
        if let Some(thread) = self.thread.take() {
            // What went wrong there was said there.
            let _result = thread.join();
        }
    }
}

/// Sends the calls again and again while the tap is open.
fn flow(clients: usize, flooder: &Caller, requests: &Arc<[Vec<u8>]>, tap: &Arc<Tap>) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (tap, requests) = (Arc::clone(tap), Arc::clone(requests));
            let mut connection = flooder.connect().await;
            tasks.spawn(async move {
                for request in requests.iter().cycle() {
                    if !tap.flows().await {
                        return;
                    }
                    send(&mut connection, request).await;
                    tap.sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        tasks.join_all().await;
    });
}

impl Tap {
    /// Waits until it is open; false when it never will be again.
    async fn flows(&self) -> bool {
        loop {
            let turned = self.turned.notified();
            if self.is_over.load(Ordering::SeqCst) || self.is_open.load(Ordering::SeqCst) {
                return !self.is_over.load(Ordering::SeqCst);
            }
            turned.await;
        }
    }
}

/// The status of the answer.
async fn send(connection: &mut Connection, request: &[u8]) -> u16 {
    let status = connection.ask(request).await.status;
    assert!(matches!(status, 200 | 202 | 429), "the flood got {status}");
    status
}
