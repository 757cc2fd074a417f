//! Nothing of a run outlives it inside, however it hides.

use std::time::Duration;

use countersign_domain::{KillCause, Leftovers};
use countersign_hosts::sandbox::docker::ClientEnd;

use super::fixture::{DockerFixture, argv, shell};
use crate::support::{eventually, kill_hard};

/// What hides: in a session of its own, without a parent, without its environment, deaf to signals, under a name that
/// reads like the line of another process.
const HIDING: [&str; 5] = [
    "sleep 1001 & true",
    "(setsid sleep 1002 &)",
    "(env -i setsid sleep 1003 &)",
    "(env -i setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1004; done' &)",
    "cp /bin/busybox '/tmp/) S 0 1 1' && ln -sf '/tmp/) S 0 1 1' /tmp/sleep && (env -i setsid /tmp/sleep 1005 &)",
];

#[tokio::test]
async fn nothing_of_a_run_outlives_it() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut sandbox = fixture.enclosure("supervision");
    sandbox.settings.tmpfs = vec!["/tmp:exec".to_owned()];
    fixture.backend.prepare(&sandbox).await.unwrap();

    // A run that ends leaves nothing.
    for hiding in HIDING {
        let ended = fixture.run(&sandbox, shell(&format!("{hiding}; exit 3"))).await;
        assert_eq!(ended.code(), 3, "{hiding}: {ended:?}");
        fixture.assert_nothing_is_left(&sandbox).await;
    }
    // Not even one that kills the shell that watches it.
    let ended = fixture
        .run(
            &sandbox,
            shell("(env -i setsid sleep 1006 &); kill -9 $PPID; sleep 1007"),
        )
        .await;
    assert_eq!(ended.code(), 137, "{ended:?}");
    fixture.assert_nothing_is_left(&sandbox).await;

    // One that is killed takes everything along, at once or after a grace.
    for grace in [Duration::ZERO, Duration::from_millis(300)] {
        let text = format!("trap '' TERM; {}; echo ready; sleep 1008", HIDING.join("; "));
        let mut order = shell(&text);
        order.grace = grace;
        let mut running = fixture.start(&sandbox, order).await;
        running.until_written("ready").await;
        running.kill();
        let ended = running.end().await;
        assert_eq!(ended.exit.killed, Some(KillCause::Cancelled), "{ended:?}");
        assert_eq!(ended.end(), ClientEnd::Killed);
        fixture.assert_nothing_is_left(&sandbox).await;
    }
    // One that listens may still say something.
    let mut order = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done");
    order.grace = Duration::from_mins(1);
    let mut running = fixture.start(&sandbox, order).await;
    running.until_written("ready").await;
    running.kill();
    let ended = running.end().await;
    assert_eq!(ended.stdout, "ready\nbye\n", "{ended:?}");

    // A time limit is a kill.
    let mut order = argv(&["sleep", "1009"]);
    order.timeout = Some(Duration::from_millis(1));
    let ended = fixture.run(&sandbox, order).await;
    assert_eq!(ended.exit.killed, Some(KillCause::Timeout), "{ended:?}");
    fixture.assert_nothing_is_left(&sandbox).await;
    fixture.engine.stop().await;
}

#[tokio::test]
async fn runs_of_one_container_do_not_touch_each_other() {
    let fixture = or_skip!(DockerFixture::new().await);
    let sandbox = fixture.ready("neighbours").await;
    let text = "(setsid sleep 1011 &); (env -i setsid sleep 1012 &); echo ready; read line; echo \"$line\"; sleep 1013";
    let mut order = shell(text);
    order.stdin_stays_open = true;
    let mut neighbour = fixture.start(&sandbox, order).await;
    neighbour.until_written("ready").await;

    // What others leave and how they are killed is not its business.
    fixture.printed(&sandbox, "(env -i setsid sleep 1014 &)").await;
    let mut killed = fixture
        .start(
            &sandbox,
            shell("(env -i setsid sleep 1015 &); echo ready; sleep 1016"),
        )
        .await;
    killed.until_written("ready").await;
    killed.kill();
    assert_eq!(killed.end().await.end(), ClientEnd::Killed);
    let left = fixture.processes(&sandbox).await;
    for (number, lives) in [
        (1011, true),
        (1012, true),
        (1014, false),
        (1015, false),
        (1016, false),
    ] {
        let line = format!("sleep {number}");
        assert_eq!(left.contains(&line), lives, "{line}: {left:#?}");
    }
    neighbour
        .supervised
        .control
        .write_input(b"alive\n")
        .await
        .unwrap();
    neighbour.until_written("alive").await;

    // A client that is killed cannot end anything; whoever finds that out can.
    kill_hard(neighbour.client.unwrap());
    let run_id = neighbour.run_id.clone();
    let ended = neighbour.end().await;
    assert_eq!(ended.end(), ClientEnd::Vanished, "{ended:?}");
    fixture.backend.sweep(&run_id).await;
    let is_swept = |left: &Vec<String>| {
        !left
            .iter()
            .any(|line| line == "sleep 1011" || line == "sleep 1013")
    };
    eventually("swept", || fixture.processes(&sandbox), is_swept).await;

    // What may stay, stays.
    let mut order = shell("setsid sleep 1017 >/dev/null 2>&1 & true");
    order.leftovers = Leftovers::Keep;
    assert_eq!(fixture.run(&sandbox, order).await.code(), 0);
    fixture.printed(&sandbox, "true").await;
    assert!(
        fixture
            .processes(&sandbox)
            .await
            .contains(&"sleep 1017".to_owned())
    );
    fixture.engine.stop().await;
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ends() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut sandbox = fixture.enclosure("bomb");
    sandbox.settings.pids_limit = Some(60);
    fixture.backend.prepare(&sandbox).await.unwrap();
    let text = "bomb() { bomb | bomb & }; (bomb 2>/dev/null &); echo ready; exec sleep 1020";
    let mut running = fixture.start(&sandbox, shell(text)).await;
    running.until_written("ready").await;
    running.kill();
    let ended = running.end().await;
    assert_eq!(ended.end(), ClientEnd::Killed, "{ended:?}");
    // If nothing could be started in it any more, the container was stopped, and is there for the next run.
    fixture.backend.prepare(&sandbox).await.unwrap();
    fixture.assert_nothing_is_left(&sandbox).await;
    fixture.printed(&sandbox, "true").await;
    fixture.engine.stop().await;
}
