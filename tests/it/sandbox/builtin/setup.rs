//! `setupCommand`: once for a workspace.

use std::fs;

use super::fixture::Sandbox;
use crate::{
    runner::harness::Report,
    support::{assert_says, joined_lines},
};

fn lines_of(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.workspace().join("setups"))
        .unwrap_or_default()
        .lines()
        .count()
}

#[tokio::test]
async fn it_is_run_once_for_a_workspace_and_before_any_command_of_it() {
    let mut sandbox = or_skip!(Sandbox::new());
    sandbox.enclosure.settings.setup_command =
        Some("echo done >>setups; sleep 0.1; echo ready >ready".to_owned());
    let script = sandbox.script("cat ready");
    let (one, other) = tokio::join!(sandbox.run(&script), sandbox.run(&script));
    assert_eq!((one.out(), other.out()), ("ready\n", "ready\n"));
    assert_eq!(lines_of(&sandbox), 1);
    assert_eq!(sandbox.printed("cat ready").await, "ready");
    assert_eq!(lines_of(&sandbox), 1);

    // Another command is another setup.
    sandbox.enclosure.settings.setup_command = Some("echo again >>setups".to_owned());
    sandbox.printed("true").await;
    assert_eq!(lines_of(&sandbox), 2);
    // And so is another directory of the same name.
    let workspace = sandbox.workspace();
    fs::rename(&workspace, sandbox.dirs.file("sandboxes/old")).unwrap();
    fs::create_dir(&workspace).unwrap();
    sandbox.printed("true").await;
    assert_eq!(lines_of(&sandbox), 1);
    // Nothing of it is among the runs.
    let left = fs::read_dir(sandbox.dirs.path().join("runs")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!joined_lines(names).contains("setup"));
}

#[tokio::test]
async fn a_command_is_not_started_after_a_setup_that_failed() {
    let mut sandbox = or_skip!(Sandbox::new());
    sandbox.enclosure.settings.setup_command = Some("echo no such package >&2; [ -e fixed ]".to_owned());
    let refusal = sandbox.refusal(&sandbox.script("touch started")).await;
    assert_says(&refusal, "sandbox.docker.setupCommand");
    assert_says(&refusal, "no such package");
    assert!(!sandbox.workspace().join("started").exists());
    // The next one tries again.
    crate::support::write_file(&sandbox.workspace().join("fixed"), "");
    let report = Report::of(sandbox.start(sandbox.spec(), &sandbox.script("echo now")).await).await;
    assert_eq!(report.out(), "now\n");
    report.control.stored();
}
