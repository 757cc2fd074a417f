//! What is left after a kill: the files, and nothing of the memory.

use countersign_domain::{Reason, TextStart};

use super::*;
use crate::open::lock;

use crate::{
    Denial, Page, RunFilter, Started,
    launch::{Relaunch, RelaunchOutcome},
};

#[tokio::test]
async fn a_pending_approval_survives_a_kill_and_can_be_decided_and_launched() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let opened = opened.after_kill("boot-1");
    assert_eq!(
        opened.ledger.approval(&asked.id).await.unwrap(),
        Some(asked.clone())
    );
    opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    let opened = opened.after_kill("boot-1");
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::Launched(_)
    ));
    let opened = opened.after_kill("boot-1");
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::AlreadyConsumed
    ));
    assert!(opened.is_chain_whole().await);
}

#[tokio::test]
async fn every_unfinished_run_is_found_with_what_recovery_needs() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let permit = opened.launched().await;
    let launched = permit.run_id().clone();
    let keyed = NewRun {
        background: true,
        ..opened.run()
    };
    let keyed = DirectLaunch {
        run: keyed,
        key: Some(key("k", "b")),
        terms: terms(),
    };
    let keyed_id = keyed.run.id.clone();
    opened.ledger.admit_and_launch(keyed).await.unwrap();
    opened.ledger.started(Started {
        run_id: keyed_id.clone(),
        pid: Some(7),
        session_id: None,
        at: UnixMillis::new(START),
    });
    let denial = Denial {
        run: opened.run(),
        key: None,
        reason: Reason::Denylist,
        detail: None,
        hint: None,
    };
    opened.ledger.admit_denied(denial).await.unwrap();

    let opened = opened.after_kill("boot-1");
    let found = opened.ledger.unfinished_runs().await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|found| (&found.run.id, found.run.status, found.keyed))
        .collect();
    assert_eq!(
        seen,
        [
            (&asked.run_id, RunStatus::Asking, false),
            (&launched, RunStatus::Launching, false),
            (&keyed_id, RunStatus::Running, true),
        ]
    );
    let first = found.first().unwrap();
    assert_eq!((&first.launch, first.approval.as_ref()), (&None, Some(&asked)));
    let launch = found[1].launch.clone().unwrap();
    assert_eq!(
        (&launch.launch_id, launch.epoch, launch.boot_id.as_str()),
        (permit.launch_id(), 1, "boot-1")
    );
    assert_eq!(launch.not_after, permit.not_after());
}

#[tokio::test]
async fn what_never_started_is_launched_again_only_as_it_was_and_in_time() {
    let opened = Opened::new();
    let keyed = DirectLaunch {
        run: NewRun {
            start: Some(TextStart::Direct),
            ..opened.run()
        },
        key: Some(key("k", "b")),
        terms: terms(),
    };
    let run_id = keyed.run.id.clone();
    let launched = opened.ledger.admit_and_launch(keyed).await.unwrap();
    let Admission::New(LaunchOutcome::Launched(permit)) = launched else {
        panic!("{launched:?}")
    };
    let relaunch = |binding| Relaunch {
        run_id: run_id.clone(),
        binding,
    };
    let here = opened.ledger.relaunch(relaunch(binding())).await.unwrap();
    assert!(
        matches!(here, RelaunchOutcome::NotPossible),
        "its own server may still start it"
    );

    let opened = opened.after_kill("boot-1");
    let other = Binding {
        cwd: "/elsewhere".to_owned(),
        ..binding()
    };
    let refused = opened.ledger.relaunch(relaunch(other)).await.unwrap();
    assert!(matches!(refused, RelaunchOutcome::NotPossible));
    match opened.ledger.relaunch(relaunch(binding())).await.unwrap() {
        RelaunchOutcome::Launched(again) => {
            assert_eq!(again.launch_id(), permit.launch_id(), "the fence knows it");
            assert_eq!(again.not_after(), permit.not_after());
            let found = opened.ledger.unfinished_runs().await.unwrap();
            assert_eq!(found[0].launch.as_ref().unwrap().epoch, 2);
            assert_eq!(again.into_parts().start, Some(TextStart::Direct));
        }
        RelaunchOutcome::NotPossible => panic!("it never started"),
    }

    let opened = opened.after_kill("boot-1");
    opened.clock.set(UnixMillis::new(START + 60_001));
    let late = opened.ledger.relaunch(relaunch(binding())).await.unwrap();
    assert!(matches!(late, RelaunchOutcome::NotPossible));

    let mut ended = finish(&run_id);
    ended.end.by_shell = true;
    let recorded = opened.ledger.finish(ended).await.unwrap().run.unwrap();
    assert_eq!(
        recorded.start,
        Some(TextStart::Shell),
        "the program could not be started"
    );
}

#[tokio::test]
async fn a_foreground_run_without_a_key_is_not_launched_again() {
    let opened = Opened::new();
    let permit = opened.launched().await;
    let run_id = permit.run_id().clone();
    let opened = opened.after_kill("boot-1");
    let again = opened
        .ledger
        .relaunch(Relaunch {
            run_id,
            binding: binding(),
        })
        .await
        .unwrap();
    assert!(matches!(again, RelaunchOutcome::NotPossible));
}

#[tokio::test]
async fn numbers_of_events_never_come_twice() {
    let opened = Opened::new();
    opened.launch_one().await;
    let head = opened.ledger.feed().head();
    let killed = opened.after_kill("boot-1");
    killed.launch_one().await;
    assert_eq!(killed.ledger.feed().head(), head + 1);
    let rebooted = opened.after_kill("boot-2");
    rebooted.launch_one().await;
    assert!(
        rebooted.ledger.feed().head() > head + 1000,
        "a power loss may have undone numbers that were seen"
    );
}

#[tokio::test]
async fn a_second_server_is_kept_out() {
    let opened = Opened::new();
    let config = config(opened.path());
    let policy = Arc::new(ChosenPolicy(Mutex::default()));
    let second = Ledger::open(
        config,
        Arc::<ManualClock>::clone(&opened.clock),
        Arc::new(SeededIds::default()),
        policy,
    );
    assert!(matches!(second, Err(OpenError::InUse { .. })));
}

/// What a server that was killed was just starting has its lock for a moment longer.
#[test]
fn a_lock_that_a_dead_server_left_is_waited_for() {
    use std::os::unix::fs::FileExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("countersign.db");
    let left = lock(&path).unwrap();
    assert!(
        matches!(lock(&path), Err(OpenError::InUse { .. })),
        "its server lives"
    );
    left.set_len(0).unwrap();
    left.write_all_at(format!("{}\n", i32::MAX).as_bytes(), 0)
        .unwrap();
    let next = std::thread::spawn(move || lock(&path));
    let is_waiting = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = std::fs::read_to_string(entry.unwrap().path().join("comm")).unwrap_or_default();
        name == "lock\n"
    };
    while !next.is_finished() && !std::fs::read_dir("/proc/self/task").unwrap().any(is_waiting) {
        std::thread::yield_now();
    }
    drop(left);
    next.join().unwrap().unwrap();
}

#[tokio::test]
async fn the_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let opened = Opened::new();
    opened.launch_one().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(opened.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{:?}",
            entry.path()
        );
        seen += 1;
    }
    assert!(
        seen >= 5,
        "the database, its log and index, the lock, the key and the head"
    );
}

#[tokio::test]
async fn after_a_stop_everything_queued_is_done_and_nothing_more_is_taken() {
    let opened = Opened::new();
    let ledger = opened.ledger.clone();
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let ledger = opened.ledger.clone();
            let launch = DirectLaunch {
                run: opened.run(),
                key: None,
                terms: terms(),
            };
            tokio::spawn(async move { ledger.admit_and_launch(launch).await.is_ok() })
        })
        .collect();
    let dir = tokio::task::spawn_blocking(move || opened.stop()).await.unwrap();
    let mut done = 0;
    for call in calls {
        done += usize::from(call.await.unwrap());
    }
    let refused = ledger
        .cancel(RunId::parse("r").unwrap(), Reason::Shutdown, Actor::system())
        .await;
    assert!(matches!(refused, Err(crate::LedgerError::Closed)));
    drop(ledger);
    let reopened = Opened::in_dir(dir, Arc::default(), Tuning::default(), "boot-1").unwrap();
    let kept = reopened
        .ledger
        .runs(RunFilter::default(), Page::first(500))
        .await
        .unwrap()
        .items
        .len();
    assert_eq!(kept, done, "what was answered is there, what was refused is not");
}
