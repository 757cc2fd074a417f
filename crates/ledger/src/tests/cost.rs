//! What a run costs the ledger. Prints, asserts nothing about time; run it by hand, in a release build:
//! `cargo test --release --lib ledger::tests::cost -- --ignored --nocapture`.

use super::*;
use crate::{EndOutcome, Started};

async fn one_run(opened: &Opened) {
    let permit = opened.launched().await;
    let run_id = permit.run_id().clone();
    opened.ledger.started(Started {
        run_id: run_id.clone(),
        pid: Some(1),
        session_id: None,
        at: UnixMillis::new(START),
    });
    assert_eq!(
        opened.ledger.finish(finish(&run_id)).await.unwrap().outcome,
        EndOutcome::Applied
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, not a check"]
async fn of_launch_start_and_finish() {
    const RUNS: u32 = 4000;
    for callers in [1, 32] {
        let opened = Arc::new(Opened::new());
        let begin = tokio::time::Instant::now();
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let opened = Arc::clone(&opened);
                tokio::spawn(async move {
                    for _ in 0..RUNS / callers {
                        one_run(&opened).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let each = begin.elapsed() / RUNS;
        tracing::info!(callers, ?each, "per run");
        #[expect(clippy::print_stderr, reason = "the measurement is the output")]
        {
            eprintln!("{callers} callers: {each:?} per run");
        }
    }
}
