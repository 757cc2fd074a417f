//! Many subscribers of the events, beside a bare broadcast to as many.
//!
//! First at a steady rate: what is lost, how late it comes, what a subscriber costs. Then as fast as it goes.
//! Events of countersign are those of execs that policy denies: each is asked, judged, recorded and told of.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::{
    connection::Connection,
    options::Options,
    servers::{Policy, Server},
    stream::EventStream,
};

/// How long the last subscriber may take to get the last event.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Connections that cause events as fast as they can.
const PUBLISHERS: u32 = 4;
/// Events of the part that goes as fast as it can.
const BURST: u32 = 600;

/// A server, the path to which a request causes events, and how many it causes.
pub(super) type Source = (Server, &'static str, u32);

/// What is measured, by name.
type Named = (&'static str, fn() -> Source);

pub(super) fn bare() -> Source {
    (Server::reference(), "/publish", 1)
}

/// What is denied is asked for and refused: two events.
pub(super) fn countersign() -> Source {
    (Server::countersign(Policy::Deny), "/v1/exec", 2)
}

/// A server with a crowd that listens.
#[derive(Debug)]
pub(super) struct Crowd {
    server: Server,
    /// Makes one request that causes `events_each` events.
    cause: Vec<u8>,
    events_each: u32,
    listeners: JoinSet<ListenerReport>,
    /// The number after which listeners stop, once it is known.
    last: watch::Sender<Option<u64>>,
    received: Arc<Received>,
    connected_kib: u64,
    before_kib: u64,
}

/// How many events all listeners have received.
#[derive(Debug, Default)]
struct Received {
    count: AtomicU64,
    /// The count that is waited for.
    target: AtomicU64,
    reached: Notify,
}

impl Received {
    fn add_one(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.target.load(Ordering::Relaxed) {
            self.reached.notify_one();
        }
    }

    /// Ends when so many more have come. All listeners and this are on one thread.
    fn expect(&self, more: u64) -> impl Future<Output = ()> {
        let now = self.count.load(Ordering::Relaxed);
        self.target.store(now + more, Ordering::Relaxed);
        self.reached.notified()
    }
}

/// What one listener heard.
#[derive(Debug, Default)]
struct ListenerReport {
    newest: u64,
    count: u64,
    /// Whether numbers came twice, or back to front.
    disorder: bool,
}

pub(crate) async fn measure(options: &Options) {
    let Options {
        subscribers,
        rate,
        seconds,
        ..
    } = options;
    println!("\nsse: {subscribers} subscribers");
    let sources: [Named; 2] = [("bare broadcast", bare), ("countersign", countersign)];
    let mut saturated = Vec::new();
    for (name, make) in sources {
        let mut crowd = Crowd::gather(make(), *subscribers).await;
        println!(
            "  {name}: {:.1} KiB RSS for each subscriber",
            kib(crowd.connected_kib.saturating_sub(crowd.before_kib)) / count(*subscribers)
        );
        crowd.steady(*rate, *seconds).await;
        drop(crowd);
        let mut crowd = Crowd::gather(make(), *subscribers).await;
        saturated.push(crowd.burst().await);
        drop(crowd);
    }
    if let [bare, ours] = saturated.as_slice() {
        println!("  saturated, countersign to bare: {:.2}x", ours / bare);
    }
}

impl Crowd {
    pub(super) async fn gather((server, path, events_each): Source, subscribers: usize) -> Self {
        let body = json!({ "argv": ["/bin/true"] });
        let cause = server.agent().request("POST", path, Some(&body));
        // What the first event brings in is not the price of a subscriber.
        cause_one(&mut server.agent().connect().await, &cause).await;
        let before_kib = server.resident_kib();
        let (last, until) = watch::channel(None);
        let received = Arc::new(Received::default());
        let mut listeners = JoinSet::new();
        for _ in 0..subscribers {
            let stream = EventStream::open(&server.operator(), "").await;
            listeners.spawn(listen(stream, until.clone(), Arc::clone(&received)));
        }
        Self {
            connected_kib: server.resident_kib(),
            server,
            cause,
            events_each,
            listeners,
            last,
            received,
            before_kib,
        }
    }

    /// Causes events at a steady rate.
    async fn steady(&mut self, rate: u32, seconds: u32) {
        let requests = rate * seconds / self.events_each;
        let mut tick = interval(Duration::from_secs(1) * self.events_each / rate);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut connection = self.server.agent().connect().await;
        let begun = Instant::now();
        let before = self.newest().await;
        for _ in 0..requests {
            tick.tick().await;
            cause_one(&mut connection, &self.cause).await;
        }
        let caused = begun.elapsed();
        let (events, lost, late) = self.await_all(before).await;
        println!(
            "    {events} events in {caused:.1?}: lost {lost}, the last one with everybody {late:.0?} after it was \
             caused; RSS then {} KiB, at most {} KiB",
            self.server.resident_kib(),
            self.server.peak_kib()
        );
    }

    /// Causes events as fast as they can be caused; returns how many a second were delivered.
    async fn burst(&mut self) -> f64 {
        let before = self.newest().await;
        let begun = Instant::now();
        self.cause(BURST).await;
        let caused = begun.elapsed();
        let (events, lost, _) = self.await_all(before).await;
        let delivered = self.received.count.load(Ordering::Relaxed);
        let rate = kib(delivered) / begun.elapsed().as_secs_f64();
        println!(
            "    saturated: {events} events caused in {caused:.1?}, {rate:.0} deliveries/s, lost {lost}; RSS at most {} KiB",
            self.server.peak_kib()
        );
        rate
    }

    async fn cause(&self, events: u32) {
        let mut publishers = JoinSet::new();
        for _ in 0..PUBLISHERS {
            let (agent, cause) = (self.server.agent(), self.cause.clone());
            let requests = events / PUBLISHERS / self.events_each;
            publishers.spawn(async move {
                let mut connection = agent.connect().await;
                for _ in 0..requests {
                    cause_one(&mut connection, &cause).await;
                }
            });
        }
        publishers.join_all().await;
    }

    /// Causes some events as fast as they can be caused; returns how many a second were delivered. All listeners stay.
    pub(super) async fn deliver(&self, events: u32) -> f64 {
        let listeners = u64::try_from(self.listeners.len()).expect("a number of listeners");
        let expected = listeners * u64::from(events);
        let all_are_there = self.received.expect(expected);
        let begun = Instant::now();
        self.cause(events).await;
        timeout(TIMEOUT, all_are_there)
            .await
            .expect("everybody gets every event");
        kib(expected) / begun.elapsed().as_secs_f64()
    }

    /// Waits until everybody has what there is; returns how many events that were, how many deliveries are missing
    /// and how long it took.
    async fn await_all(&mut self, before: u64) -> (u64, u64, Duration) {
        let begun = Instant::now();
        let (newest, events) = self.after(before).await;
        self.last.send_replace(Some(newest));
        let listeners = std::mem::take(&mut self.listeners);
        let report = timeout(TIMEOUT, listeners.join_all())
            .await
            .expect("everybody gets the last event");
        assert!(
            report.iter().all(|report| !report.disorder),
            "events came twice or back to front"
        );
        let lost = report
            .iter()
            .map(|report| events.saturating_sub(report.count))
            .sum();
        (events, lost, begun.elapsed())
    }

    /// The number of the newest event.
    async fn newest(&self) -> u64 {
        self.after(0).await.0
    }

    /// The number of the newest event, and how many there are after one.
    async fn after(&self, before: u64) -> (u64, u64) {
        let operator = self.server.operator();
        let mut connection = operator.connect().await;
        let (mut newest, mut count) = (before, 0);
        loop {
            let path = format!("/v1/events?limit=500&after={newest}");
            let mut request = operator.request("GET", &path, None);
            request.splice(request.len() - 2.., *b"accept: application/json\r\n\r\n");
            let page = connection.ask(&request).await.json(200);
            let items = page
                .get("items")
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let Some(last) = items.last() else {
                return (newest, count);
            };
            newest = last
                .get("seq")
                .and_then(Value::as_u64)
                .expect("the number of an event");
            count += u64::try_from(items.len()).expect("a number of events");
        }
    }
}

async fn cause_one(connection: &mut Connection, cause: &[u8]) {
    let answer = connection.ask(cause).await;
    assert!([200, 403].contains(&answer.status), "{answer:?}");
}

async fn listen(
    mut stream: EventStream,
    mut until: watch::Receiver<Option<u64>>,
    received: Arc<Received>,
) -> ListenerReport {
    let mut report = ListenerReport::default();
    loop {
        let last = *until.borrow_and_update();
        if last.is_some_and(|last| report.newest >= last) {
            return report;
        }
        tokio::select! {
            goes_on = stream.read(|event| {
                report.disorder |= event.id <= report.newest;
                report.newest = event.id;
                report.count += 1;
                received.add_one();
            }) => assert!(goes_on, "the server ended a stream"),
            changed = until.changed() => changed.expect("the crowd is there"),
        }
    }
}

fn kib(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
