//! Working directories that lead elsewhere: they are entered inside, where there is no elsewhere.

use countersign_hosts::gateway::SupervisorEvent;
use countersign_runner::{NotStarted, Obstacle};

use crate::{runner::harness::Report, sandbox::builtin::fixture::Sandbox, support::write_file};

/// What a command sees that starts there, or why it does not.
async fn listed_at(sandbox: &Sandbox, cwd: &str) -> Result<String, SupervisorEvent> {
    let mut inside = sandbox.script("pwd -P; ls -a");
    inside.cwd = cwd.into();
    let report = Report::of(sandbox.start(sandbox.spec(), &inside).await).await;
    match report.end {
        SupervisorEvent::Exit(_) => {
            report.control.stored();
            Ok(report.out().to_owned())
        }
        other => Err(other),
    }
}

#[tokio::test]
async fn ways_up_and_links_stay_inside() {
    let sandbox = or_skip!(Sandbox::new());
    let host = sandbox.dirs.path().to_owned();
    write_file(&host.join("beside/secret-file"), "");
    std::os::unix::fs::symlink(host.join("beside"), sandbox.workspace().join("out")).unwrap();
    std::os::unix::fs::symlink("../../../../..", sandbox.workspace().join("up")).unwrap();
    std::os::unix::fs::symlink("/etc", sandbox.workspace().join("etc")).unwrap();

    let nowhere = SupervisorEvent::NotStarted(NotStarted::Sandbox(
        Obstacle::Directory,
        rustix::io::Errno::NOENT.raw_os_error(),
    ));
    let hidden = host.join("beside");
    for cwd in [
        "/workspace/out",
        hidden.to_str().unwrap(),
        "/root/x",
        "/workspace/no",
    ] {
        assert_eq!(listed_at(&sandbox, cwd).await, Err(nowhere.clone()), "{cwd}");
    }
    for cwd in ["/workspace/up", "/workspace/../../../..", "/proc/1/../.."] {
        let listed = listed_at(&sandbox, cwd).await.unwrap();
        assert!(
            listed.starts_with("/\n") && listed.contains("workspace"),
            "{cwd}: {listed}"
        );
        assert!(!listed.contains("root"), "{cwd}: {listed}");
    }
    let listed = listed_at(&sandbox, "/workspace/etc").await.unwrap();
    assert!(
        listed.contains("passwd") && !listed.contains("shadow"),
        "{listed}"
    );
}
