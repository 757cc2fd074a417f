//! A process that stops, dies, or is started the wrong way.

use std::{ffi::OsStr, fs, os::fd::AsFd, os::unix::fs::MetadataExt, path::Path, time::Duration};

use countersign_hosts::{
    peer_fs::{Blind, FileAccessError},
    workdir::{Workdir, WorkdirError},
};
use countersign_policy::command::{DirectoryTrust, PathLookup};
use countersign_sys::{
    process::{Ended, Spawn, monotonic, signal_process, spawn},
    socket,
};
use rustix::process::Signal;

use super::Account;
use crate::support::within;

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_shows_nothing_and_another_one_everything() {
    let account = or_skip!(Account::new());
    account.directory("home/bin", account.uid, 0o755);
    account.file("home/bin/tool", account.uid, 0o755, "");
    let tool = account.text("home/bin/tool");
    let mut broker = account.broker();
    let before = broker.lookup(&[account.path("home/bin")]);
    assert!(before.inspect(&tool).is_some());

    broker.stop();
    let began = monotonic();
    // What it saw before, it still knows; anything new it does not.
    assert!(before.inspect(&tool).is_some());
    assert_eq!(before.real(&account.text("home")), None);
    let took = monotonic().saturating_sub(began);
    assert!(took >= Duration::from_secs(2), "it gave up after {took:?}");
    assert_eq!(before.check(), Err(Blind));
    within("the loss", broker.remote.disconnected()).await;

    // From here on everything fails at once, and never in a way that reads like an answer.
    let files = broker.files();
    assert!(files.is_blind());
    let lookup = broker.lookup(&[account.path("home/bin")]);
    assert_eq!((lookup.search("tool"), lookup.inspect(&tool)), (None, None));
    assert!(lookup.depends_on_process(&tool));
    assert_eq!(lookup.directory_trust("/usr/bin"), DirectoryTrust::Foreign);
    assert!(lookup.open_regular(Path::new(&tool)).is_err());
    assert_eq!(lookup.check(), Err(Blind));
    assert!(matches!(
        Workdir::at(Path::new("/"), &files),
        Err(WorkdirError::Blind(Blind))
    ));
    assert!(matches!(
        files.open_program(Path::new("/bin/sh")),
        Err(FileAccessError::Blind(Blind))
    ));

    // A stopped process that goes on has nobody to tell: its answer belongs to nothing.
    signal_process(broker.pid(), Signal::CONT);
    assert!(files.is_blind());
    broker.again(account.uid, &[]);
    assert!(!files.is_blind());
    let after = broker.lookup(&[account.path("home/bin")]);
    assert_eq!(after.search("tool"), Some(tool));
    assert_eq!(after.check(), Ok(()));
    // Who was blind once stays so: half of what it concluded is from then.
    assert_eq!(lookup.search("tool"), None);
    assert_eq!(lookup.check(), Err(Blind));
}

#[test]
fn a_dead_process_shows_nothing() {
    let account = or_skip!(Account::new());
    let broker = account.broker();
    assert!(broker.lookup(&[]).real("/").is_some());
    signal_process(broker.pid(), Signal::KILL);
    let lookup = broker.lookup(&[]);
    // The kill takes a moment; whatever came before it is no lie.
    while lookup.check().is_ok() {
        lookup.real("/");
        lookup.depends_on_process("/");
    }
    assert!(broker.files().is_blind());
}

#[test]
fn it_ends_when_the_server_hangs_up() {
    let account = or_skip!(Account::new());
    let broker = account.broker();
    let (unused, theirs) = socket::frame_pair().unwrap();
    drop(theirs);
    // Another connection takes the place of its own.
    broker.remote.connect(unused).unwrap();
    assert_eq!(broker.ended(), Ended::Code(0));
}

#[test]
fn it_is_out_of_reach_of_its_own_account() {
    let account = or_skip!(Account::new());
    let broker = account.broker();
    assert!(broker.lookup(&[]).real("/").is_some());
    let process = Path::new("/proc").join(broker.pid().to_string());
    // What can be dumped belongs to its account, the rest to root.
    assert_eq!(fs::metadata(process.join("mem")).unwrap().uid(), 0);
    let status = fs::read_to_string(process.join("status")).unwrap();
    let line = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let uid = account.uid;
    assert_eq!(line("Uid:"), format!("{uid} {uid} {uid} {uid}"));
    assert_eq!(
        (line("Threads:"), line("NoNewPrivs:")),
        ("1".to_owned(), "1".to_owned())
    );
    assert_eq!(line("CapEff:"), "0000000000000000");
}

#[test]
fn it_refuses_to_be_root_and_to_work_without_a_socket() {
    let (ours, theirs) = socket::frame_pair().unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_countersign"));
    for descriptors in [vec![], vec![theirs.as_fd()]] {
        if descriptors.len() == 1 && !crate::support::is_root() {
            continue;
        }
        let process = spawn(&Spawn {
            program: own,
            arguments: &[OsStr::new("countersign-eyes"), OsStr::new("__eyes")],
            environment: &[],
            output: None,
            descriptors: &descriptors,
        });
        assert_eq!(
            process.unwrap().wait().unwrap(),
            Ended::Code(2),
            "{}",
            descriptors.len()
        );
    }
    drop(ours);
}
