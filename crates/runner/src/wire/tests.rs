//! Every frame and message is read back whole, or not at all.

use std::ffi::CString;

use proptest::prelude::*;

use countersign_domain::{Exit, KillCause, LaunchId, OutputStream, RunId, StepJoin, TerminalSize};
use countersign_protocol::terminal::CursorKeys;
use countersign_sys::{fs::FileStamp, process::JudgedFile};

use super::{message::message, *};

use crate::{
    cgroup::RunLimits,
    enclose::{Enclosed, HeldWalls, Obstacle, Piece, ProcessLimit, Source},
};

fn order(plan: Option<Vec<u8>>) -> Order {
    Order {
        run_id: RunId::parse("run-1").unwrap(),
        launch_id: LaunchId::parse("launch-1").unwrap(),
        outlives_server: true,
        keeps_leftovers: false,
        stdin_open: true,
        executables: 7,
        rulesets: 2,
        confined: true,
        has_spool: true,
        has_scripts: true,
        timeout_ms: 1 << 40,
        kill_grace_ms: 2000,
        leftovers_grace_ms: 500,
        max_run_bytes: u64::MAX,
        terminal: plan.as_ref().map(|_| TerminalSize::DEFAULT),
        limits: RunLimits {
            memory_bytes: 1 << 30,
            cpu_percent: 150,
            processes: 7,
        },
        records_input: true,
        observes: true,
        plan,
    }
}

fn enclosed() -> Enclosed {
    let text = |text: &str| CString::new(text).unwrap();
    let bind = |source, writable| Piece::Bind {
        source,
        inside: text("/workspace"),
        writable,
        executable: !writable,
    };
    Enclosed {
        host_name: text("sandbox"),
        nobody: (65_534, 7),
        pieces: vec![
            Piece::Mirror(text("/usr")),
            Piece::Shown(text("/etc/passwd")),
            bind(Source::Workspace, true),
            bind(Source::Path(text("/srv")), false),
            bind(Source::Itself(text("/workspace/.git"), (1, u64::MAX)), false),
            Piece::Memory {
                inside: text("/tmp"),
                bytes: u64::MAX,
                files: 1,
                mode: 0o1777,
                executable: true,
            },
            Piece::File {
                inside: text("/etc/passwd"),
                content: b"a\0b".to_vec(),
            },
        ],
        writable_root: true,
        limits: vec![ProcessLimit {
            resource: 4,
            soft: 1,
            hard: u64::MAX,
        }],
        held: Some(HeldWalls {
            executables: vec![(
                text("/usr/bin/x"),
                FileStamp {
                    dev: 1,
                    ino: u64::MAX,
                    size: 3,
                    mtime_ns: -1,
                    ctime_ns: i128::from(i64::MAX) * 7,
                },
            )],
            directory: (u64::MAX, 2),
        }),
    }
}

fn every_answer() -> Vec<FromSupervisor> {
    let exit = Exit {
        code: Some(-1),
        killed: Some(KillCause::Shutdown),
        by_shell: true,
        output_bytes: 7,
        ..Exit::default()
    };
    let mut answers = vec![
        FromSupervisor::Started {
            pid: 7,
            start_time: u64::MAX,
        },
        FromSupervisor::Output(OutputStream::Stderr, b"text".to_vec()),
        FromSupervisor::Skipped(9),
        FromSupervisor::InputTaken(3),
        FromSupervisor::CursorKeys(CursorKeys::Application),
        FromSupervisor::CursorKeys(CursorKeys::Normal),
        FromSupervisor::Attached {
            kept_bytes: 1,
            output_bytes: 2,
        },
        FromSupervisor::Exited {
            exit,
            is_spooled: true,
            leftovers_run: true,
        },
        FromSupervisor::LeftoversEnded,
        FromSupervisor::Observed {
            starts: vec![SeenStart {
                ruleset: 3,
                dev: 1,
                ino: u64::MAX,
                path: "/usr/bin/ssh".to_owned(),
            }],
            more: true,
        },
    ];
    answers.extend(
        [
            NotStarted::FenceLost,
            NotStarted::Held,
            NotStarted::Cancelled,
            NotStarted::System(28),
            NotStarted::NoReport,
            NotStarted::Sandbox(Obstacle::Workspace, 1),
        ]
        .map(FromSupervisor::NotStarted),
    );
    answers.extend([false, true].map(FromSupervisor::Echo));
    answers
}

fn every_command() -> Vec<ToSupervisor> {
    vec![
        ToSupervisor::Kill(KillCause::Cancelled),
        ToSupervisor::Background,
        ToSupervisor::Input(b"in".to_vec()),
        ToSupervisor::EndOfInput,
        ToSupervisor::Resize(TerminalSize::new(1, 1000).unwrap()),
        ToSupervisor::AskEcho,
        ToSupervisor::Stored,
    ]
}

#[test]
fn an_order_is_read_back_whole_or_not_at_all() {
    for plan in [None, Some(b"plan".to_vec())] {
        let order = order(plan.clone());
        let frame = order.encode();
        assert_eq!(Order::decode(&frame), Some(order));
        if plan.is_none() {
            for cut in 0..frame.len() {
                assert_eq!(Order::decode(&frame[..cut]), None, "cut at {cut}");
            }
        }
    }
    let mut foreign = order(None).encode();
    foreign[0] += 1;
    assert_eq!(Order::decode(&foreign), None);
}

#[test]
fn a_sweep_is_no_order_and_an_order_no_sweep() {
    let sweep = Sweep {
        pid: 4711,
        start_time: u64::MAX,
    };
    let frame = sweep.encode();
    assert_eq!(Sweep::decode(&frame), Some(sweep));
    assert_eq!(Order::decode(&frame), None);
    assert_eq!(Sweep::decode(&frame[..frame.len() - 1]), None);
    assert_eq!(Sweep::decode(&order(None).encode()), None);
}

#[test]
fn a_plan_is_read_back() {
    let stamp = FileStamp {
        dev: 1,
        ino: u64::MAX,
        size: 3,
        mtime_ns: -4,
        ctime_ns: i128::MAX,
    };
    let file = |sha256| JudgedFile {
        path: c"/bin/x".to_owned(),
        stamp,
        sha256,
    };
    let program = |executable| {
        Action::Program(Program {
            path: c"/bin/x".to_owned(),
            executable,
            stamp: executable.map(|_| stamp),
            file: executable.map(|_| file(None)),
            operands: executable.map(|_| file(Some([1; 32]))).into_iter().collect(),
            arguments: b"x\0\0".to_vec(),
            assignments: b"A=1\0".to_vec(),
            redirections: vec![],
            fills: vec![],
            kept: None,
        })
    };
    let joined = |join, action| Step {
        join: Some(join),
        action,
    };
    let change = |pinned| Action::ChangeDirectory {
        operand: b"./d".to_vec(),
        pinned,
        quiet: true,
    };
    let plan = Plan {
        directory: c"/d".to_owned(),
        masked: vec![c"/usr/bin/ssh".to_owned()],
        environment: vec![],
        files: vec![file(None), file(Some([7; 32]))],
        steps: vec![
            Step {
                join: None,
                action: program(Some(9)),
            },
            joined(StepJoin::Pipe, program(None)),
            joined(StepJoin::And, change(Some((5, 6)))),
            joined(StepJoin::Or, change(None)),
            joined(StepJoin::Sequence, Action::PrintDirectory { physical: true }),
            joined(StepJoin::Sequence, Action::Settle { succeeds: false }),
            joined(
                StepJoin::Sequence,
                Action::ApplyPatch(PatchOrder {
                    text: "*** Begin Patch".to_owned(),
                    workspace_only: true,
                    called: vec![b"/workspace".to_vec()],
                    off_limits: vec![b"/a".to_vec(), b"/b".to_vec()],
                    spared: vec![],
                }),
            ),
        ],
        enclosed: Some(enclosed()),
        held: vec![HeldScript {
            names: vec![c"/d/x.sh".to_owned(), c"/e/x.sh".to_owned()],
            offset: 1 << 33,
            length: 7,
            mode: 0o755,
            identity: (1, 1 << 40),
        }],
        direct: None,
    };
    let bytes = plan.encode();
    assert_eq!(Plan::decode(&bytes), Some(plan));
    for cut in 0..bytes.len() {
        assert_eq!(Plan::decode(&bytes[..cut]), None, "cut at {cut}");
    }
}

#[test]
fn only_one_program_alone_has_something_that_is_tried_before_it() {
    let step = |join| Step {
        join,
        action: Action::Program(Program {
            path: c"/bin/sh".to_owned(),
            executable: Some(0),
            stamp: None,
            file: None,
            operands: vec![],
            arguments: b"/bin/sh\0-c\0git\0".to_vec(),
            assignments: vec![],
            redirections: vec![],
            fills: vec![],
            kept: Some(Kept {
                ruleset: 1,
                starts: true,
                connects: false,
            }),
        }),
    };
    let plan = |steps, arguments: &[u8]| Plan {
        directory: c"/d".to_owned(),
        masked: vec![c"/usr/bin/ssh".to_owned()],
        environment: vec![],
        files: vec![],
        steps,
        enclosed: None,
        held: vec![],
        direct: Some(DirectProgram {
            candidates: b"/bin/git\0/usr/bin/git\0".to_vec(),
            arguments: arguments.to_vec(),
            assignments: b"SHLVL=0\0".to_vec(),
        }),
    };
    let alone = plan(vec![step(None)], b"git\0");
    assert_eq!(Plan::decode(&alone.encode()), Some(alone));
    let nameless = plan(vec![step(None)], b"");
    assert_eq!(Plan::decode(&nameless.encode()), None);
    let several = plan(vec![step(None), step(Some(StepJoin::And))], b"git\0");
    assert_eq!(Plan::decode(&several.encode()), None);
}

#[test]
fn messages_arrive_whole_however_the_stream_is_cut() {
    let mut answers = Vec::new();
    for answer in every_answer() {
        answer.encode(&mut answers);
    }
    // A kind that a later version may add.
    message(&mut answers, &(99_u32, "news"));
    let mut commands = Vec::new();
    for command in every_command() {
        command.encode(&mut commands);
    }
    for size in [1, 2, 7, 4096] {
        let mut inbox = Inbox::default();
        let mut read = Vec::new();
        for piece in answers.chunks(size) {
            inbox.push(piece);
            while let Some(answer) = inbox.next_from_supervisor().unwrap() {
                read.push(answer);
            }
        }
        assert_eq!(read, every_answer());
        let mut inbox = Inbox::default();
        let mut read = Vec::new();
        for piece in commands.chunks(size) {
            inbox.push(piece);
            while let Some(command) = inbox.next_to_supervisor().unwrap() {
                read.push(command);
            }
        }
        assert_eq!(read, every_command());
    }
}

proptest! {
    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        Order::decode(&bytes);
        Sweep::decode(&bytes);
        Plan::decode(&bytes);
        let mut inbox = Inbox::default();
        inbox.push(&bytes);
        while let Ok(Some(_)) = inbox.next_from_supervisor() {}
    }
}
