//! How a command starts, and what it finds.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use countersign_domain::Exit;
use countersign_hosts::{
    Attempt,
    gateway::{KeptOutput, Mismatch, StartError, SupervisorEvent},
};
use countersign_runner::{
    NotStarted,
    output::spool::Selection,
    run_file::{RunFileState, Voided},
};
use rustix::io::Errno;

use super::harness::{Report, RunnerDirs, identity, program, until};

#[tokio::test]
async fn a_command_reports_its_output_and_its_exit_code() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("echo out; echo err >&2; exit 7");
    let run_id = spec.run_id.clone();
    let launch_id = spec.launch_id.to_string();
    let report = server.run(spec).await;
    assert_eq!(
        (report.out(), report.stderr.as_slice()),
        ("out\n", b"err\n".as_slice())
    );
    let exit = Exit {
        code: Some(7),
        output_bytes: 8,
        kept_bytes: 8,
        ..Exit::default()
    };
    assert_eq!(report.exit(), &exit);
    assert_eq!(report.inline(Selection::Both).len(), 8);
    assert!(report.pid.is_some());
    assert_eq!(
        server.host.inspect(&run_id).unwrap().state,
        RunFileState::Exited(exit, launch_id)
    );
    // What is stored elsewhere leaves no file.
    drop(report);
    until("the supervisor let go", || {
        !server.host.inspect(&run_id).unwrap().is_locked
    })
    .await;
    assert!(!server.host.spool(&run_id).exists());
}

#[tokio::test]
async fn a_command_without_output_is_whole_with_its_exit() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let report = server.run(server.argv(&["/bin/true"])).await;
    assert_eq!(
        report.exit(),
        &Exit {
            code: Some(0),
            ..Exit::default()
        }
    );
    assert_eq!(report.ended().output, KeptOutput::Inline(vec![]));
}

#[tokio::test]
async fn a_signal_is_reported_as_such() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let report = server.run(server.script("kill -USR1 $$")).await;
    assert_eq!(
        report.exit(),
        &Exit {
            signal: Some(10),
            ..Exit::default()
        }
    );
}

#[tokio::test]
async fn what_cannot_be_executed_is_an_end_with_its_errno() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let long = "x".repeat(131_072);
    program(&dirs.file("no-interpreter"), "#!/nowhere/sh\n");
    let script = dirs.file("no-interpreter");
    for (argv, errno) in [
        (vec!["/nowhere/program"], Errno::NOENT),
        (vec!["/etc/passwd"], Errno::ACCESS),
        (vec!["/bin/true", &long], Errno::TOOBIG),
        (vec![script.to_str().unwrap()], Errno::NOENT),
    ] {
        let spec = server.argv(&argv);
        let (run_id, launch_id) = (spec.run_id.clone(), spec.launch_id.to_string());
        let report = server.run(spec).await;
        let exit = Exit {
            spawn_errno: Some(errno.raw_os_error()),
            ..Exit::default()
        };
        assert_eq!(report.exit(), &exit, "{}", argv[0]);
        assert_eq!(
            server.host.inspect(&run_id).unwrap().state,
            RunFileState::Exited(exit, launch_id)
        );
    }
}

#[tokio::test]
async fn a_command_finds_a_clean_process() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let script = "
        ls -l /proc/self/fd | sed -n 's/.* \\([0-9]* -> .*\\)/\\1/p'
        grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status
        echo umask=$(umask) files=$(ulimit -n) nice=$(nice)
        echo session=$(cut -d' ' -f6 /proc/$$/stat) group=$(cut -d' ' -f5 /proc/$$/stat) pid=$$
        env | cut -d= -f1 | sort | tr '\\n' ' '; echo
        pwd
        cat
    ";
    let report = server.run(server.script(script)).await;
    let pid = report.pid.unwrap();
    let lines: Vec<_> = report.out().lines().collect();
    let descriptors: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(" -> ") && !line.contains("/proc/"))
        .copied()
        .collect();
    assert_eq!(descriptors.len(), 3, "{descriptors:?}");
    assert_eq!(descriptors[0], "0 -> /dev/null");
    assert!(lines.contains(&"SigBlk:\t0000000000000000"), "{lines:?}");
    assert!(lines.contains(&"SigIgn:\t0000000000000000"), "{lines:?}");
    assert!(lines.contains(&"umask=0027 files=1000 nice=0"), "{lines:?}");
    assert!(
        lines.contains(&format!("session={pid} group={pid} pid={pid}").as_str()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"MARK PATH PWD ") || lines.contains(&"MARK PATH PWD _ "),
        "{lines:?}"
    );
    assert!(
        lines.contains(&dirs.path().canonicalize().unwrap().to_str().unwrap()),
        "{lines:?}"
    );
    assert_eq!(
        report.exit().code,
        Some(0),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
}

#[tokio::test]
async fn the_runner_has_nothing_of_the_servers_environment() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let report = server
        .run(server.script("cat /proc/$PPID/environ | wc -c; grep ^PPid: /proc/$PPID/status"))
        .await;
    // The supervisor may not even be looked at by a user that is not root.
    let first = report.out().lines().next().unwrap();
    assert_eq!(first.trim(), "0");
}

#[tokio::test]
async fn scripts_and_links_start_with_the_names_they_were_given() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let script = dirs.file("script");
    program(&script, "#!/bin/sh\necho \"$0\" \"$@\"\n");
    let report = server.run(server.argv(&[script.to_str().unwrap(), "a b"])).await;
    assert_eq!(report.out(), format!("{} a b\n", script.display()));
    let link = dirs.file("link");
    std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
    let report = server
        .run(server.argv(&[link.to_str().unwrap(), "-c", "cat /proc/$$/comm; echo $0"]))
        .await;
    assert_eq!(report.exit().code, Some(0));
    assert!(
        report.out().ends_with(&format!("{}\n", link.display())),
        "{}",
        report.out()
    );
}

#[tokio::test]
async fn a_large_plan_arrives_whole() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let words: Vec<_> = (0..60).map(|_| "y".repeat(10_000)).collect();
    let mut argv = vec!["/usr/bin/printf", "%s"];
    argv.extend(words.iter().map(String::as_str));
    let report = server.run(server.argv(&argv)).await;
    assert_eq!(report.stdout, "y".repeat(600_000).into_bytes());
}

#[tokio::test]
async fn another_directory_of_the_same_name_is_refused() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let path = dirs.file("work");
    fs::create_dir(&path).unwrap();
    let mut spec = server.script("touch here");
    let directory = fs::metadata(&path).unwrap();
    (spec.cwd, spec.cwd_dev, spec.cwd_ino) = (path.clone(), directory.dev(), directory.ino());
    let run_id = spec.run_id.clone();
    fs::rename(&path, dirs.file("moved")).unwrap();
    for replacement in ["nothing", "a directory", "a file"] {
        match replacement {
            "a directory" => fs::create_dir(&path).unwrap(),
            "a file" => {
                fs::remove_dir(&path).unwrap();
                program(&path, "");
            }
            _ => {}
        }
        let mut again = server.script("touch here");
        (again.run_id, again.cwd, again.cwd_dev, again.cwd_ino) =
            (run_id.clone(), path.clone(), spec.cwd_dev, spec.cwd_ino);
        let error = server.host.start(again).await.unwrap_err();
        let StartError::BindingMismatch { what, path: named } = error else {
            panic!("{replacement}: {error:?}")
        };
        assert_eq!((what, &named), (Mismatch::WorkingDirectory, &path));
    }
    assert_eq!(server.host.inspect(&run_id).unwrap().state, RunFileState::Missing);
}

#[tokio::test]
async fn a_replaced_program_is_refused() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let path = dirs.file("tool");
    program(&path, "#!/bin/sh\necho good\n");
    let start = |executables| {
        let mut spec = server.argv(&[path.to_str().unwrap()]);
        spec.executables = executables;
        server.host.start(spec)
    };
    let good = identity(&path);
    let report = Report::of(start(vec![good.clone()]).await.unwrap()).await;
    assert_eq!(report.out(), "good\n");
    fs::rename(&path, dirs.file("old")).unwrap();
    program(&path, "#!/bin/sh\necho evil\n");
    let error = start(vec![good]).await.unwrap_err();
    assert!(
        matches!(
            error,
            StartError::BindingMismatch {
                what: Mismatch::Executable,
                ..
            }
        ),
        "{error:?}"
    );
    // A program that is none of those that were judged does not start either.
    let error = start(vec![identity(&dirs.file("old"))]).await.unwrap_err();
    assert!(
        matches!(
            error,
            StartError::BindingMismatch {
                what: Mismatch::Executable,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_run_starts_once_however_often_it_is_sent() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let first = server.script("echo ran >> ran");
    let (run_id, launch_id) = (first.run_id.clone(), first.launch_id.clone());
    let again = |attempt| {
        let mut spec = server.script("echo ran >> ran");
        (spec.run_id, spec.launch_id, spec.terms.attempt) = (run_id.clone(), launch_id.clone(), attempt);
        server.host.start(spec)
    };
    assert_eq!(server.run(first).await.exit().code, Some(0));
    assert!(matches!(again(Attempt::First).await, Err(StartError::AttemptedBefore(id)) if id == run_id));
    let report = Report::of(again(Attempt::Again).await.unwrap()).await;
    // The first supervisor may not have let go of its lock yet.
    assert!(matches!(
        report.end,
        SupervisorEvent::NotStarted(NotStarted::FenceLost | NotStarted::Held)
    ));
    assert_eq!(fs::read_to_string(dirs.file("ran")).unwrap(), "ran\n");
}

#[tokio::test]
async fn a_run_that_is_held_or_voided_does_not_start() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let holder = server.script("true");
    let path = server.host.run_file(&holder.run_id);
    program(&path, "");
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let start = |run_id: &countersign_domain::RunId| {
        let mut spec = server.script("touch ran");
        (spec.run_id, spec.terms.attempt) = (run_id.clone(), Attempt::Again);
        server.host.start(spec)
    };
    let report = Report::of(start(&holder.run_id).await.unwrap()).await;
    assert_eq!(report.end, SupervisorEvent::NotStarted(NotStarted::Held));
    assert_eq!(server.host.void(&holder.run_id).unwrap(), Voided::Locked);
    drop(held);
    // A process that another test just starts may have a copy of the descriptor for a moment.
    until("the lock is free", || {
        server.host.void(&holder.run_id).unwrap() == Voided::Done
    })
    .await;
    let report = Report::of(start(&holder.run_id).await.unwrap()).await;
    assert_eq!(report.end, SupervisorEvent::NotStarted(NotStarted::FenceLost));
    assert!(!dirs.file("ran").exists());
}

#[tokio::test]
async fn many_runs_at_once_all_end() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let runs = (0..48).map(|number| server.run(server.script(&format!("sleep 0.2; echo {number}"))));
    let reports = futures_util::future::join_all(runs).await;
    for (number, report) in reports.iter().enumerate() {
        assert_eq!(report.out(), format!("{number}\n"));
    }
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn more_runs_than_supervisors_wait_for_one() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    // 64 may run, and a few more supervisors are there for those that wait for something else.
    let runs = (0..200).map(|_| server.run(server.argv(&["/bin/sleep", "0.05"])));
    let reports = futures_util::future::join_all(runs).await;
    assert!(reports.iter().all(|report| report.exit().code == Some(0)));
}

#[tokio::test]
async fn input_reaches_the_command_and_its_end_too() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script("wc -c; echo done");
    spec.terms.stdin_open = true;
    let supervised = server.host.start(spec).await.unwrap();
    let control = supervised.control;
    let mut events = supervised.events;
    let bytes = vec![b'i'; 3_000_000];
    let write = async {
        control.write_input(&bytes).await.unwrap();
        control.close_input();
    };
    let mut out = Vec::new();
    let listen = async {
        while let Some(event) = events.recv().await {
            match event {
                SupervisorEvent::Output { bytes, .. } => out.extend(bytes),
                SupervisorEvent::Exit(_) => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), async { tokio::join!(write, listen) })
        .await
        .unwrap();
    assert_eq!(String::from_utf8(out).unwrap().trim(), "3000000\ndone");
    assert!(control.write_input(b"more").await.is_err());
}
