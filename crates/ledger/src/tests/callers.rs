//! Who commits: callers that find the ledger idle, and the thread; together they keep one order.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::{
    Durability, Health, LedgerError,
    error::Fault,
    events::{Event, EventKind, Start, StreamItem},
    job::Change,
    tx::Tx,
};

/// Logs an event, and answers with its number and whether the ledger's own thread did it.
struct Say {
    durability: Durability,
    /// Tells that the work began, and waits for permission to go on.
    gate: Option<Gate>,
}

struct Gate {
    entered: mpsc::Sender<()>,
    leave: Mutex<mpsc::Receiver<()>>,
}

impl Say {
    const fn with(durability: Durability) -> Self {
        Self {
            durability,
            gate: None,
        }
    }
}

impl Change for Say {
    type Answer = (i64, bool);

    fn durability(&self, _tuning: &Tuning) -> Durability {
        self.durability
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(i64, bool), Fault> {
        if let Some(gate) = &self.gate {
            gate.entered.send(()).unwrap();
            gate.leave.lock().unwrap().recv().unwrap();
        }
        let kind = EventKind::ExecRunning {
            elapsed_ms: 1,
            session_id: None,
        };
        tx.log(Event::general(kind), &Actor::system())?;
        let is_thread = std::thread::current().name() == Some("ledger");
        Ok((tx.state.event_head, is_thread))
    }
}

/// Fails in a way that no job should.
struct Panics {
    durability: Durability,
}

impl Change for Panics {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        self.durability
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.execute("INSERT INTO meta (key, value) VALUES ('half', 1)", ())?;
        panic!("as a fault would");
    }
}

#[tokio::test]
async fn an_idle_ledger_is_written_by_the_caller_unless_the_disk_must_be_synced() {
    let opened = Opened::new();
    let say = async |durability| opened.ledger.queue.submit(Say::with(durability)).await.unwrap();
    for _ in 0..3 {
        assert!(say(Durability::Full).await.1, "the thread did it");
        // The thread may still be letting go of the ledger when its answer is there.
        let mut tries = 0;
        while say(Durability::Normal).await.1 {
            tries += 1;
            assert!(tries < 10_000, "the thread always did it");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_and_the_thread_keep_one_order_and_lose_no_answer() {
    const TASKS: i64 = 6;
    const EACH: i64 = 300;
    let opened = Opened::new();
    let mut subscription = opened.ledger.subscribe(EventFilter::default(), Start::Now);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let queue = Arc::clone(&opened.ledger.queue);
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for number in 0..EACH {
                    let durability = if (task + number) % 7 == 0 {
                        Durability::Full
                    } else {
                        Durability::Normal
                    };
                    answers.push(queue.submit(Say::with(durability)).await.unwrap());
                }
                answers
            })
        })
        .collect();
    for expected in 1..=TASKS * EACH {
        match subscription.next().await.unwrap().unwrap() {
            StreamItem::Event(event) => assert_eq!(event.seq, Some(expected)),
            gap @ StreamItem::Gap { .. } => panic!("{gap:?}"),
        }
    }
    let mut all = Vec::new();
    for task in tasks {
        let answers = task.await.unwrap();
        assert!(answers.is_sorted_by(|earlier, later| earlier.0 < later.0));
        all.extend(answers.into_iter().map(|(seq, _)| seq));
    }
    all.sort_unstable();
    assert!(
        all.into_iter().eq(1..=TASKS * EACH),
        "each job has a number of its own"
    );
    assert!(opened.is_chain_whole().await);
}

#[tokio::test]
async fn who_comes_while_the_thread_writes_waits_for_it_and_shares_its_next_commit() {
    let opened = Opened::new();
    let (entered, has_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel();
    let held = Say {
        durability: Durability::Full,
        gate: Some(Gate {
            entered,
            leave: Mutex::new(may_leave),
        }),
    };
    let queue = &opened.ledger.queue;
    let (first, second, launched, ()) = tokio::join!(
        queue.submit(held),
        async {
            has_entered.recv().unwrap();
            queue.submit(Say::with(Durability::Normal)).await
        },
        opened.launch_one(),
        async { leave.send(()).unwrap() },
    );
    assert_eq!(first.unwrap(), (1, true));
    assert_eq!(second.unwrap(), (2, true));
    let () = launched;
    assert_eq!(
        opened.event_types().await,
        ["exec.running", "exec.running", "exec.requested"]
    );
}

#[tokio::test]
async fn a_panic_of_the_thread_over_a_job_closes_the_ledger_and_leaves_nothing_half_done() {
    panic_closes(Durability::Full).await;
}

#[tokio::test]
async fn a_panic_of_a_caller_over_its_job_closes_the_ledger_and_leaves_nothing_half_done() {
    panic_closes(Durability::Normal).await;
}

async fn panic_closes(durability: Durability) {
    let opened = Opened::new();
    let ledger = opened.ledger.clone();
    let panicked = tokio::spawn(async move { ledger.queue.submit(Panics { durability }).await }).await;
    // Over the caller's own commit it panics; over the thread's, the ledger is closed to it.
    assert!(!matches!(panicked, Ok(Ok(()))));
    let next = opened.ledger.queue.submit(Say::with(Durability::Normal)).await;
    assert!(matches!(next, Err(LedgerError::Closed)), "{next:?}");
    // The thread says so when it notices, a moment after the callers do.
    let mut health = opened.ledger.watch_health();
    let gone = async { while health.changed().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    assert_eq!(opened.ledger.health(), Health::Unavailable);
    let reopened = opened.reopen();
    let half: i64 = reopened
        .raw()
        .query_row("SELECT count(*) FROM meta WHERE key = 'half'", (), |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(half, 0);
    reopened.launch_one().await;
}
