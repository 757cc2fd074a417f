//! Which runs have not ended, and which are of a time, without an index of either.

use std::collections::BTreeSet;

use super::*;

use crate::{Page, Retention, RunFilter};

/// More than are looked through at once.
const MANY: usize = 1100;

async fn unfinished(opened: &Opened) -> BTreeSet<RunId> {
    let found = opened.ledger.unfinished_runs().await.unwrap();
    found.into_iter().map(|unfinished| unfinished.run.id).collect()
}

async fn launching(opened: &Opened) -> BTreeSet<RunId> {
    let filter = RunFilter {
        statuses: vec![RunStatus::Launching],
        ..RunFilter::default()
    };
    let runs = opened.ledger.runs(filter, Page::first(2000)).await.unwrap();
    runs.items.into_iter().map(|run| run.id).collect()
}

async fn end(opened: &Opened, run: &RunId) {
    opened.ledger.finish(finish(run)).await.unwrap();
}

#[tokio::test]
async fn what_has_not_ended_is_found_however_many_came_after_it() {
    let opened = Opened::new();
    let mut open = BTreeSet::new();
    for number in 0..MANY {
        let run = opened.launched().await.run_id().clone();
        // Some end at once, some after many others, some never.
        if number % 50 == 7 {
            open.insert(run);
        } else {
            end(&opened, &run).await;
        }
    }
    assert_eq!(unfinished(&opened).await, open);
    let late: Vec<RunId> = open.iter().step_by(3).cloned().collect();
    for run in &late {
        end(&opened, run).await;
        open.remove(run);
    }
    assert_eq!(unfinished(&opened).await, open);
    assert_eq!(launching(&opened).await, open);
    let reopened = opened.reopen();
    assert_eq!(unfinished(&reopened).await, open);
}

#[tokio::test]
async fn a_run_whose_number_is_given_again_is_found_too() {
    let opened = Opened::tuned(Tuning {
        retention: Retention {
            events_count: 100_000,
            events_age: None,
            runs_age: Some(MINUTE),
            audit_age: None,
        },
        ..Tuning::default()
    });
    for _ in 0..600 {
        let run = opened.launched().await.run_id().clone();
        end(&opened, &run).await;
    }
    opened.clock.advance(MINUTE * 2);
    while opened.ledger.prune().await.unwrap().more {}
    let run = opened.launched().await.run_id().clone();
    assert_eq!(unfinished(&opened).await, BTreeSet::from([run]));
}

#[tokio::test]
async fn the_runs_of_a_time_are_those_that_were_admitted_in_it() {
    let opened = Opened::new();
    let mut admitted = Vec::new();
    for number in 0..60 {
        // Several in the same moment, and none in others.
        if number % 4 == 0 {
            opened.clock.advance(Duration::from_millis(number % 7));
        }
        let run = opened.launched().await.run_id().clone();
        admitted.push((opened.ledger.run(&run).await.unwrap().unwrap().created_at, run));
    }
    let moments = |at: i64| (START - 2..START + at).map(UnixMillis::new);
    for since in moments(50).step_by(3) {
        for until in moments(50).step_by(5) {
            let filter = RunFilter {
                since: Some(since),
                until: Some(until),
                ..RunFilter::default()
            };
            let found = opened.ledger.runs(filter, Page::first(100)).await.unwrap().items;
            let found: Vec<RunId> = found.into_iter().rev().map(|run| run.id).collect();
            let wanted = admitted.iter().filter(|(at, _)| (since..until).contains(at));
            let wanted: Vec<RunId> = wanted.map(|(_, run)| run.clone()).collect();
            assert_eq!(found, wanted, "{since:?} to {until:?}");
        }
    }
}

#[test]
fn an_earlier_ledger_keeps_what_has_not_ended() {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    crate::schema::migrate(&mut connection).unwrap();
    let earlier = "DROP TABLE unfinished; DELETE FROM meta WHERE key = 'unfinished_from'; \
         CREATE INDEX runs_by_time ON runs (created_ms); CREATE INDEX runs_unfinished ON runs (status); \
         ALTER TABLE runs DROP COLUMN confinement; ALTER TABLE runs DROP COLUMN note; \
         ALTER TABLE runs DROP COLUMN observed; DROP INDEX ended_link_tokens; \
         ALTER TABLE tokens DROP COLUMN for_link; \
         ALTER TABLE login_links DROP COLUMN token_id; PRAGMA user_version = 15;";
    connection.execute_batch(earlier).unwrap();
    for (number, status) in [(3, "running"), (5, "completed"), (9, "asking")] {
        let insert = "INSERT INTO runs (seq, run_id, status, host, agent_id, session_key, command, cwd, env_names, \
             asked_by_kind, asked_by_id, asked_by_name, security, ask, pty, background, keyed, diverted, isolation, \
             created_ms) VALUES (?1, ?1, ?2, '', '', '', '', '', '', '', '', '', '', '', 0, 0, 0, 0, '', ?1)";
        connection.execute(insert, (number, status)).unwrap();
    }
    crate::schema::migrate(&mut connection).unwrap();
    let numbers = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map((), |row| row.get::<_, i64>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(numbers("SELECT seq FROM unfinished"), [3, 9]);
    assert_eq!(
        numbers("SELECT value FROM meta WHERE key = 'unfinished_from'"),
        [10]
    );
}
