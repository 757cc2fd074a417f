//! Which container there is, and when it goes.

use std::{path::PathBuf, time::Duration};

use countersign_config::settings::BindMount;
use countersign_hosts::sandbox::{
    Unusable,
    docker::{DockerBackend, DockerOptions, PruneLimits},
};

use super::fixture::{DockerFixture, IMAGE, OWNER, backend, shell};
use crate::support::{Scratch, eventually};

#[tokio::test]
async fn there_is_one_container_per_scope_and_it_is_what_the_settings_say() {
    let fixture = or_skip!(DockerFixture::new().await);
    let first = fixture.enclosure("one");
    // Whoever comes first makes it. There is one server for a state directory, whose calls share what they know.
    let others = fixture.backend.clone();
    let (a, b, c) = tokio::join!(
        fixture.backend.prepare(&first),
        fixture.backend.prepare(&first),
        others.prepare(&first)
    );
    assert_eq!((a, b, c), (Ok(()), Ok(()), Ok(())));
    assert_eq!(fixture.containers().await, ["sbx-one"]);
    let id = || {
        fixture
            .engine
            .docker(&["inspect", "--format", "{{.Id}}", "sbx-one"])
    };
    let original = id().await;
    fixture.backend.prepare(&first).await.unwrap();
    assert_eq!(id().await, original);
    // One that stopped is started again.
    fixture.engine.docker(&["kill", "sbx-one"]).await;
    fixture.backend.prepare(&first).await.unwrap();
    assert_eq!(
        (id().await, fixture.printed(&first, "echo x").await),
        (original.clone(), "x\n".to_owned())
    );

    // Other settings make another one, but not while it is used.
    let mut changed = first.clone();
    changed.settings.env.insert("NEW".to_owned(), "yes".to_owned());
    let mut order = shell("echo ready; read line");
    order.stdin_stays_open = true;
    let mut running = fixture.start(&first, order).await;
    running.until_written("ready").await;
    fixture.backend.prepare(&changed).await.unwrap();
    assert_eq!(id().await, original);
    running.supervised.control.close_input();
    running.end().await;
    let prepared = || async {
        // Another server, for which it was not in use a moment ago: still it waits until nobody is about to use it.
        fixture.backend.prepare(&changed).await.unwrap();
        id().await
    };
    eventually("made anew", prepared, |now| *now != original).await;
    assert_eq!(fixture.printed(&changed, "echo $NEW").await, "yes\n");

    // Nobody's container is taken over, or removed.
    fixture
        .engine
        .docker(&[
            "run",
            "-d",
            "--name",
            "sbx-foreign",
            "--network",
            "none",
            IMAGE,
            "sleep",
            "1000",
        ])
        .await;
    let foreign = fixture.enclosure("foreign");
    is_refused(fixture.backend.prepare(&foreign).await, "not this sandbox's");
    let strangers = backend(&fixture.engine, "another server");
    is_refused(strangers.prepare(&changed).await, "not this sandbox's");
    let mut namesake = changed.clone();
    namesake.scope_key = "agent:other".to_owned();
    is_refused(fixture.backend.prepare(&namesake).await, "not this sandbox's");

    // Setting up happens once, and when it fails nothing is left.
    let mut prepared = fixture.enclosure("prepared");
    prepared.settings.setup_command = Some("echo x >> /workspace/setup".to_owned());
    fixture.backend.prepare(&prepared).await.unwrap();
    fixture.backend.prepare(&prepared).await.unwrap();
    assert_eq!(fixture.printed(&prepared, "cat setup").await, "x\n");
    let mut failing = fixture.enclosure("failing");
    failing.settings.setup_command = Some("echo what is wrong; exit 7".to_owned());
    is_refused(
        fixture.backend.prepare(&failing).await,
        "setupCommand ended with code 7: what is wrong",
    );
    assert_eq!(
        fixture.containers().await,
        ["sbx-foreign", "sbx-one", "sbx-prepared"]
    );

    is_pruned(&fixture).await;
    fixture.engine.stop().await;
}

/// Those of this owner go, each after its own time; what is in use and what belongs to others stays.
async fn is_pruned(fixture: &DockerFixture) {
    let at_once = PruneLimits {
        idle: Some(Duration::ZERO),
        age: None,
    };
    let short = backend(&fixture.engine, OWNER).with_limits(at_once);
    let strangers = backend(&fixture.engine, "another server").with_limits(at_once);
    let (idle, busy, strange) = (
        fixture.enclosure("idle"),
        fixture.enclosure("busy"),
        fixture.enclosure("strange"),
    );
    short.prepare(&idle).await.unwrap();
    short.prepare(&busy).await.unwrap();
    strangers.prepare(&strange).await.unwrap();
    let mut order = shell("echo ready; read line");
    order.stdin_stays_open = true;
    let mut running = fixture.start(&busy, order).await;
    running.until_written("ready").await;
    fixture.backend.prune().await;
    let stayed = [
        "sbx-busy",
        "sbx-foreign",
        "sbx-one",
        "sbx-prepared",
        "sbx-strange",
    ];
    assert_eq!(fixture.containers().await, stayed);
    running.kill();
    running.end().await;
    // For a moment the engine still takes the killed command for a running one.
    let pruned = || async {
        fixture.backend.prune().await;
        fixture.containers().await
    };
    let left = ["sbx-foreign", "sbx-one", "sbx-prepared", "sbx-strange"];
    eventually("pruned", pruned, |containers| containers == &left).await;

    let old = PruneLimits {
        idle: None,
        age: Some(Duration::ZERO),
    };
    backend(&fixture.engine, OWNER)
        .with_limits(old)
        .prepare(&idle)
        .await
        .unwrap();
    fixture.backend.prune().await;
    assert!(!fixture.containers().await.contains(&"sbx-idle".to_owned()));
}

#[tokio::test]
async fn what_is_missing_is_said_with_what_to_do() {
    let scratch = Scratch::new();
    let at = |socket: PathBuf| {
        DockerBackend::new(DockerOptions {
            socket,
            start_timeout: Duration::from_mins(1),
            owner: OWNER.to_owned(),
        })
    };
    let nobody = at(scratch.join("none.sock"));
    is_refused(
        nobody.probe(IMAGE).await,
        "there is no such socket; install and start Docker",
    );
    let dead = scratch.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    is_refused(at(dead).probe(IMAGE).await, "nobody listens there; start Docker");
    // One that takes connections and says nothing is not waited for.
    let mute = scratch.join("mute.sock");
    let listener = std::os::unix::net::UnixListener::bind(&mute).unwrap();
    is_refused(at(mute).probe(IMAGE).await, "it does not answer");
    drop(listener);

    let fixture = or_skip!(DockerFixture::new().await);
    is_refused(
        fixture.backend.probe("made-here/nothing:1").await,
        "docker pull made-here/nothing:1",
    );
    let mut other = fixture.enclosure("other");
    other.settings.image = "made-here/nothing:1".to_owned();
    is_refused(
        fixture.backend.prepare(&other).await,
        "docker pull made-here/nothing:1",
    );
    for host in [
        fixture.engine.scratch().join("docker.sock"),
        fixture.engine.scratch().path(),
        "/etc".into(),
        "/".into(),
    ] {
        let mut open = fixture.enclosure("open");
        open.settings.binds = vec![BindMount {
            host,
            inside: PathBuf::from("/inside"),
            writable: true,
        }];
        is_refused(fixture.backend.prepare(&open).await, "a sandbox cannot mount");
    }
    assert_eq!(fixture.containers().await, Vec::<String>::new());
    fixture.engine.stop().await;
}

#[track_caller]
fn is_refused(answer: Result<(), Unusable>, words: &str) {
    let refusal = answer.expect_err("it was to be refused").to_string();
    assert!(refusal.contains(words), "{refusal}");
}
