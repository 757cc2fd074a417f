//! The stream of events: nothing lost, nothing twice, no matter what the subscriber does.

use countersign_domain::{OutputStream, Reason};

use super::*;

use crate::{
    Denial, EventOrder, EventWindow, Retention,
    events::{
        Event, EventFilter, EventKind, EventType, OutputChunk, Start, StreamItem, Subject, Subscription,
    },
};

async fn say(ledger: &Ledger, elapsed_ms: i64) {
    let kind = EventKind::ExecRunning {
        elapsed_ms,
        session_id: None,
    };
    ledger
        .record(Event::general(kind), Actor::system())
        .await
        .unwrap();
}

async fn next_seq(subscription: &mut Subscription) -> i64 {
    match subscription.next().await.unwrap().unwrap() {
        StreamItem::Event(event) => event.seq.unwrap(),
        gap @ StreamItem::Gap { .. } => panic!("{gap:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_come_while_events_are_written_miss_none_and_see_none_twice() {
    const EVENTS: i64 = 6004;
    let opened = Opened::new();
    for number in 0..4 {
        say(&opened.ledger, number).await;
    }
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let ledger = opened.ledger.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..(EVENTS - 4) / 4 {
                say(&ledger, number).await;
            }
        }));
    }
    for start in 0..4 {
        let ledger = opened.ledger.clone();
        tasks.push(tokio::spawn(async move {
            let mut subscription = ledger.subscribe(EventFilter::default(), Start::After(start));
            for expected in start + 1..=EVENTS {
                assert_eq!(next_seq(&mut subscription).await, expected);
                if expected % 1000 == 0 {
                    // Reconnects, as a client does with Last-Event-ID.
                    subscription = ledger.subscribe(EventFilter::default(), Start::After(expected));
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_subscriber_that_sleeps_past_the_ring_catches_up_from_the_log() {
    let opened = Opened::new();
    let mut subscription = opened.ledger.subscribe(EventFilter::default(), Start::Now);
    say(&opened.ledger, 0).await;
    assert_eq!(next_seq(&mut subscription).await, 1);
    let mut calls = Vec::new();
    for number in 0..5000 {
        let ledger = opened.ledger.clone();
        calls.push(tokio::spawn(async move { say(&ledger, number).await }));
    }
    for call in calls {
        call.await.unwrap();
    }
    for expected in 2..=5001 {
        assert_eq!(next_seq(&mut subscription).await, expected);
    }
}

#[tokio::test]
async fn a_stream_that_starts_now_tells_nothing_old() {
    let opened = Opened::new();
    say(&opened.ledger, 0).await;
    let mut subscription = opened.ledger.subscribe(EventFilter::default(), Start::Now);
    say(&opened.ledger, 1).await;
    assert_eq!(next_seq(&mut subscription).await, 2);
    let mut future = opened.ledger.subscribe(EventFilter::default(), Start::After(99));
    say(&opened.ledger, 2).await;
    assert_eq!(
        next_seq(&mut future).await,
        3,
        "a number from the future does not silence the stream"
    );
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_told_as_a_gap() {
    let retention = Retention {
        events_count: 10,
        ..Retention::default()
    };
    let opened = Opened::tuned(Tuning {
        retention,
        ..Tuning::default()
    });
    for number in 0..50 {
        say(&opened.ledger, number).await;
    }
    let mut subscription = opened.ledger.subscribe(EventFilter::default(), Start::After(3));
    let Some(StreamItem::Gap { oldest }) = subscription.next().await.unwrap() else {
        panic!("no gap")
    };
    assert!((40..=41).contains(&oldest), "{oldest}");
    assert_eq!(next_seq(&mut subscription).await, oldest);
    let mut subscription = opened
        .ledger
        .subscribe(EventFilter::default(), Start::After(oldest - 1));
    assert_eq!(
        next_seq(&mut subscription).await,
        oldest,
        "nothing is missing from here"
    );
}

#[tokio::test]
async fn filters_hold_for_the_log_and_the_ring() {
    let opened = Opened::new();
    let mut other = opened.run();
    other.requested_by.id = "t-other".to_owned();
    other.agent = AgentId::parse("other").unwrap();
    let deny = |run| Denial {
        run,
        key: None,
        reason: Reason::Denylist,
        detail: None,
        hint: None,
    };
    opened.ledger.admit_denied(deny(other.clone())).await.unwrap();
    opened.ledger.admit_denied(deny(opened.run())).await.unwrap();
    let owner = || EventFilter {
        owner: Some("t-asker".parse().unwrap()),
        ..EventFilter::default()
    };
    let mut from_log = opened.ledger.subscribe(owner(), Start::After(0));
    let mut live = opened
        .ledger
        .subscribe(owner().with_types("exec.denied").unwrap(), Start::Now);
    other.id = opened.run().id;
    opened.ledger.admit_denied(deny(other)).await.unwrap();
    opened.ledger.admit_denied(deny(opened.run())).await.unwrap();
    assert_eq!(
        (next_seq(&mut from_log).await, next_seq(&mut from_log).await),
        (3, 4)
    );
    assert_eq!(
        (next_seq(&mut from_log).await, next_seq(&mut from_log).await),
        (7, 8)
    );
    assert_eq!(next_seq(&mut live).await, 8);

    let page = async |window: EventWindow| {
        let (page, next) = opened.ledger.events(window, owner(), 3).await.unwrap();
        (
            page.iter().filter_map(|event| event.seq).collect::<Vec<_>>(),
            next,
        )
    };
    let (first, next) = page(EventWindow::default()).await;
    assert_eq!(first, [3, 4, 7]);
    let rest = EventWindow {
        after: next.unwrap(),
        ..EventWindow::default()
    };
    assert_eq!(page(rest).await, (vec![8], None));
    // The other way round.
    let newest = EventWindow {
        order: EventOrder::NewestFirst,
        ..EventWindow::default()
    };
    let (first, before) = page(newest).await;
    assert_eq!(first, [8, 7, 4]);
    let rest = EventWindow { before, ..newest };
    assert_eq!(page(rest).await, (vec![3], None));
    let late = EventWindow {
        since: Some(UnixMillis::new(i64::MAX)),
        ..newest
    };
    assert_eq!(page(late).await, (Vec::new(), None));
}

#[tokio::test]
async fn output_reaches_those_who_asked_for_it_and_is_not_kept() {
    let opened = Opened::new();
    let filter = EventFilter {
        output: true,
        ..EventFilter::default()
    };
    let mut loud = opened.ledger.subscribe(filter, Start::Now);
    let mut quiet = opened.ledger.subscribe(EventFilter::default(), Start::Now);
    opened.ledger.publish_output(&OutputChunk {
        subject: Subject::default(),
        ts: UnixMillis::new(START),
        offset: 0,
        stream: OutputStream::Stdout,
        text: "hi".to_owned(),
    });
    let Some(StreamItem::Event(event)) = loud.next().await.unwrap() else {
        panic!("no output")
    };
    assert_eq!((event.event_type, event.seq), (EventType::ExecOutput, None));
    say(&opened.ledger, 0).await;
    assert_eq!(next_seq(&mut quiet).await, 1);
    assert_eq!(next_seq(&mut loud).await, 1);
}
