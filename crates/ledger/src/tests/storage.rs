//! A disk that is full, a job that is wrong, and the way back.

use countersign_domain::Reason;

use super::*;

use crate::{Denial, Durability, Health, LedgerError, Page, RunFilter, error::Fault, job::Change, tx::Tx};

/// Limits the database to so many pages, as a disk would, and fails as on a full one: nothing but the probe may
/// then find out that there is space.
struct PageLimit(u32);

impl Change for PageLimit {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let sql = format!("PRAGMA max_page_count = {}", self.0);
        tx.connection.query_row(&sql, (), |_row| Ok(()))?;
        Err(Fault::Sql(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(13),
            None,
        )))
    }
}

/// Writes something and then fails.
struct Faulty;

impl Change for Faulty {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.execute("INSERT INTO meta (key, value) VALUES ('half', 1)", ())?;
        tx.execute("INSERT INTO meta (key, value) VALUES ('half', 2)", ())?;
        Ok(())
    }
}

#[tokio::test]
async fn a_full_disk_is_told_nothing_is_half_written_and_it_recovers() {
    let opened = Opened::new();
    let before = opened.launched().await;
    let pages: u32 = opened
        .raw()
        .query_row("PRAGMA page_count", (), |row| row.get(0))
        .unwrap();
    let limit = async |pages: u32| {
        let limited = opened.ledger.queue.submit(PageLimit(pages)).await;
        assert!(matches!(limited, Err(LedgerError::StorageFull)));
        assert_eq!(opened.ledger.health(), Health::StorageFull);
    };
    let mut health = opened.ledger.watch_health();
    limit(pages + 8).await;
    let mut admitted = 1;
    let refused = loop {
        let detail = Some("x".repeat(2000));
        let run = opened.run();
        let id = run.id.clone();
        let denial = Denial {
            run,
            key: None,
            reason: Reason::Denylist,
            detail,
            hint: None,
        };
        match opened.ledger.admit_denied(denial).await {
            Ok(_) => admitted += 1,
            Err(error) => {
                assert!(matches!(error, LedgerError::StorageFull), "{error:?}");
                break id;
            }
        }
        assert!(admitted < 1000, "the limit was never reached");
    };
    assert_eq!(opened.ledger.health(), Health::StorageFull);
    assert_eq!(opened.ledger.run(&refused).await.unwrap(), None);
    let kept = opened
        .ledger
        .runs(RunFilter::default(), Page::first(500))
        .await
        .unwrap()
        .items
        .len();
    assert_eq!(kept, admitted);
    assert_eq!(
        opened.status(before.run_id()).await,
        RunStatus::Launching,
        "reading still works"
    );
    assert!(opened.is_chain_whole().await);

    limit(1_000_000).await;
    health.wait_for(|health| *health == Health::Ready).await.unwrap();
    opened.launch_one().await;
    assert!(opened.is_chain_whole().await);
}

#[tokio::test]
async fn a_job_that_fails_halfway_is_undone_alone() {
    let opened = Opened::new();
    let (run_id, launch) = {
        let run = opened.run();
        (
            run.id.clone(),
            DirectLaunch {
                run,
                key: None,
                terms: terms(),
            },
        )
    };
    let (faulty, launched) = tokio::join!(
        opened.ledger.queue.submit(Faulty),
        opened.ledger.admit_and_launch(launch)
    );
    assert!(matches!(faulty, Err(LedgerError::Refused(_))));
    assert!(matches!(launched, Ok(Admission::New(LaunchOutcome::Launched(_)))));
    assert_eq!(opened.status(&run_id).await, RunStatus::Launching);
    let half: i64 = opened
        .raw()
        .query_row("SELECT count(*) FROM meta WHERE key = 'half'", (), |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(half, 0);
    assert_eq!(opened.ledger.health(), Health::Ready, "the storage is fine");
    let events: Vec<_> = opened
        .events()
        .await
        .iter()
        .map(|event| event["seq"].clone())
        .collect();
    assert_eq!(events, [1], "no number was lost to the undone batch");
}

#[tokio::test]
async fn a_run_id_that_exists_is_refused() {
    let opened = Opened::new();
    let run = opened.run();
    let launch = || DirectLaunch {
        run: run.clone(),
        key: None,
        terms: terms(),
    };
    opened.ledger.admit_and_launch(launch()).await.unwrap();
    let again = opened.ledger.admit_and_launch(launch()).await;
    assert!(matches!(again, Err(LedgerError::Refused(_))), "{again:?}");
    assert_eq!(opened.event_types().await, ["exec.requested"]);
}

#[tokio::test]
async fn a_row_that_is_no_value_is_named() {
    let opened = Opened::new();
    let permit = opened.launched().await;
    opened
        .raw()
        .execute("UPDATE runs SET security = 'sometimes'", ())
        .unwrap();
    match opened.ledger.run(permit.run_id()).await {
        Err(LedgerError::Inconsistent(found)) => {
            assert_eq!((found.table, found.column.as_str()), ("runs", "security"));
            assert_eq!(found.row, permit.run_id().to_string());
        }
        other => panic!("{other:?}"),
    }
}
