//! Runs whose files are those of another account: what is handed to a supervisor was opened by that account.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use countersign_hosts::{
    gateway::{LaunchSpec, Mismatch, StartError},
    peer_fs::Blind,
};
use rustix::process::Signal;

use super::harness::{Report, RunnerDirs, Server, identity};
use crate::peer_fs::{Account, FileBroker};

fn server(dirs: &RunnerDirs, broker: &FileBroker) -> Server {
    let mut server = dirs.server();
    server.host = server.host.with_files(broker.files());
    server
}

fn spec(server: &Server, directory: &Path, program: &Path) -> LaunchSpec {
    let metadata = fs::metadata(directory).unwrap();
    LaunchSpec {
        cwd: directory.to_owned(),
        cwd_dev: metadata.dev(),
        cwd_ino: metadata.ino(),
        executables: vec![identity(program)],
        ..server.argv(&[program.to_str().unwrap()])
    }
}

#[tokio::test]
async fn a_run_starts_from_what_the_account_opened() {
    let account = or_skip!(Account::new());
    account.file("home/tool", account.uid, 0o700, "#!/bin/sh\npwd\n");
    let broker = account.broker();
    let dirs = RunnerDirs::new();
    let server = server(&dirs, &broker);
    let home = account.path("home");
    let report = server.run(spec(&server, &home, &home.join("tool"))).await;
    assert_eq!(report.out(), format!("{}\n", home.display()));
}

#[tokio::test]
async fn what_the_account_cannot_see_does_not_start() {
    let account = or_skip!(Account::new());
    let (home, closed) = (account.path("home"), account.directory("closed", 0, 0o700));
    account.directory("closed/inner", 0, 0o755);
    account.file("closed/tool", 0, 0o755, "#!/bin/sh\n");
    account.file("home/tool", account.uid, 0o700, "#!/bin/sh\n");
    let broker = account.broker();
    let dirs = RunnerDirs::new();
    let server = server(&dirs, &broker);
    let program = server
        .host
        .start(spec(&server, &home, &closed.join("tool")))
        .await;
    assert!(matches!(
        program,
        Err(StartError::BindingMismatch {
            what: Mismatch::Executable,
            ..
        })
    ));
    let directory = server
        .host
        .start(spec(&server, &closed.join("inner"), &home.join("tool")))
        .await;
    assert!(matches!(directory, Err(StartError::WorkingDirectory { .. })));
}

#[tokio::test]
async fn another_program_or_directory_of_the_name_does_not_start() {
    let account = or_skip!(Account::new());
    let home = account.path("home");
    for name in ["tool", "other", "linked"] {
        account.file(&format!("home/{name}"), account.uid, 0o700, "#!/bin/sh\n");
    }
    account.directory("home/work", account.uid, 0o700);
    account.directory("home/else", account.uid, 0o700);
    let broker = account.broker();
    let dirs = RunnerDirs::new();
    let server = server(&dirs, &broker);
    let replaced = spec(&server, &home, &home.join("tool"));
    let linked = spec(&server, &home, &home.join("linked"));
    let moved = spec(&server, &home.join("work"), &home.join("other"));
    fs::rename(home.join("other"), home.join("tool")).unwrap();
    fs::rename(home.join("linked"), home.join("real")).unwrap();
    std::os::unix::fs::symlink(home.join("real"), home.join("linked")).unwrap();
    fs::remove_dir(home.join("work")).unwrap();
    fs::rename(home.join("else"), home.join("work")).unwrap();
    for (what, spec) in [
        (Mismatch::Executable, replaced),
        (Mismatch::Executable, linked),
        (Mismatch::WorkingDirectory, moved),
    ] {
        match server.host.start(spec).await {
            Err(StartError::BindingMismatch { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{what:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn nothing_starts_unseen() {
    let account = or_skip!(Account::new());
    account.file("home/tool", account.uid, 0o700, "#!/bin/sh\necho seen\n");
    let mut broker = account.broker();
    let dirs = RunnerDirs::new();
    let server = server(&dirs, &broker);
    let home = account.path("home");
    let spec = spec(&server, &home, &home.join("tool"));
    let run_id = spec.run_id.clone();
    countersign_sys::process::signal_process(broker.pid(), Signal::STOP);
    let again = LaunchSpec {
        run_id: run_id.clone(),
        executables: spec.executables.clone(),
        cwd_dev: spec.cwd_dev,
        cwd_ino: spec.cwd_ino,
        cwd: spec.cwd.clone(),
        ..server.argv(&[home.join("tool").to_str().unwrap()])
    };
    assert!(matches!(
        server.host.start(spec).await,
        Err(StartError::Blind(Blind))
    ));
    assert!(!server.host.run_file(&run_id).exists());
    // The same run is still the first attempt.
    broker.again(account.uid, &[]);
    let report = Report::of(server.host.start(again).await.unwrap()).await;
    assert_eq!(report.out(), "seen\n");
    report.control.stored();
}
