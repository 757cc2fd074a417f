//! Supervisors of other accounts than root's.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
};

use countersign_hosts::gateway::GatewayHost;
use countersign_runner::{LaunchedBy, Runner, RunnerOptions, SeparateUser};
use countersign_sys::{account::Identity, process::InheritedLimits};

use super::fixture::{Sandbox, possible};
use crate::support::{countersign, is_root, run_program};

#[tokio::test(flavor = "current_thread")]
async fn a_supervisor_without_any_right_makes_one_too() {
    // Otherwise every other test is this one.
    or_skip!(is_root(), "a supervisor of another account needs root");
    let account = 1_000_000 + 10 * std::process::id();
    let mut sandbox = or_skip!(Sandbox::new());
    let (runs, output) = (sandbox.dirs.file("runs"), sandbox.dirs.file("output"));
    let attach = sandbox.dirs.file("attach");
    fs::create_dir(&attach).unwrap();
    std::os::unix::fs::chown(&attach, Some(account), Some(account)).unwrap();
    let limits = InheritedLimits {
        open_files: Some(1000),
        umask: 0o022,
        nice: 0,
    };
    let options = RunnerOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
        separate_user: Some(SeparateUser {
            launched_by: LaunchedBy::PrivilegedLauncher {
                account: Identity {
                    uid: account,
                    gid: account,
                    groups: Vec::new(),
                },
                server: 0,
            },
            attach: attach.clone(),
        }),
        ..RunnerOptions::of_this_program(runs.clone(), output.clone(), limits, 8)
    };
    let runner = Runner::start(options).unwrap().watch().unwrap();
    sandbox.server.host = GatewayHost::new(runner, runs, output).with_account(account, attach, 1 << 30);

    fs::set_permissions(sandbox.dirs.path(), fs::Permissions::from_mode(0o700)).unwrap();
    // The state directory is closed to the account: it gets the workspace as a descriptor.
    assert_eq!(fs::metadata(sandbox.dirs.path()).unwrap().mode() & 0o077, 0);
    let printed = sandbox
        .printed("id -u; echo made >file; cat file; cat /proc/self/uid_map")
        .await;
    let mut lines = printed.lines();
    assert_eq!((lines.next(), lines.next()), (Some("1000"), Some("made")));
    let map: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(map, ["1000", &account.to_string(), "1"]);
    assert_eq!(
        fs::metadata(sandbox.workspace().join("file")).unwrap().uid(),
        account
    );
    assert!(sandbox.shell("cat /proc/1/environ").await.exit().code != Some(0));
}

#[test]
fn the_probe_says_what_is_missing() {
    or_skip!(possible());
    or_skip!(is_root(), "taking user namespaces away needs root");
    // In a user namespace of its own, where none can be made below.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"";
    let probe = countersign()
        .arg("__sandbox-probe")
        .behind(
            "unshare",
            &[
                "-U",
                "--map-current-user",
                "--keep-caps",
                "sh",
                "-c",
                script,
                "sh",
            ],
        )
        .run_as(1_000_000 + 10 * std::process::id());
    let said = run_program(&probe);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("namespaces"), "{}", said.stdout);
}
