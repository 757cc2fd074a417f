//! Commands on a pseudo-terminal: what they find, what is typed, what they ask, and how they end.

use std::{fs, path::Path, time::Duration};

use countersign_domain::{Bound, BoundAction, BoundStep, KillCause, StepJoin, TerminalSize};
use countersign_hosts::gateway::{LaunchSpec, Recovered, SupervisorEvent};
use countersign_runner::output::spool::Selection;
use countersign_sys::process::inspect;

use crate::support::{skip, write_file};

use super::{
    harness::{Report, RunnerDirs, Server, identity, measure, started, until},
    terminal_session::TerminalSession,
};

fn on_terminal(mut spec: LaunchSpec) -> LaunchSpec {
    spec.terms.terminal = Some(TerminalSize::DEFAULT);
    spec.terms.env.push(("TERM".into(), "xterm-256color".into()));
    spec
}

fn script(server: &Server, text: &str) -> LaunchSpec {
    on_terminal(server.script(text))
}

/// A program of the system with its arguments; `None`, said, when it is missing.
fn program(server: &Server, argv: &[&str]) -> Option<LaunchSpec> {
    let path = argv.first()?;
    if !Path::new(path).exists() {
        skip(&format!("{path} is missing"));
        return None;
    }
    let mut spec = on_terminal(server.argv(argv));
    spec.terms.env.push(("HOME".into(), server.path.clone().into()));
    Some(spec)
}

#[tokio::test]
async fn a_command_finds_a_terminal_of_its_own() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text =
        "test -t 0 && test -t 1 && test -t 2 && stty size && tty; echo errors >&2; echo direct > /dev/tty
        set -- $(cat /proc/self/stat); echo $6 $7 $8 $$; exit 7";
    let spec = script(&server, text);
    let id = spec.run_id.clone();
    let report = server.run(spec).await;
    let out = report.out();
    let lines: Vec<_> = out.split("\r\n").collect();
    let [size, name, errors, direct, ids, ""] = lines.as_slice() else {
        panic!("{out:?}")
    };
    assert_eq!((*size, *errors, *direct), ("30 120", "errors", "direct"));
    assert!(name.starts_with("/dev/pts/"), "{name}");
    let ids: Vec<_> = ids.split(' ').collect();
    // It leads the session, and its group is in the foreground of the terminal that the session has.
    assert_eq!((ids[0], ids[2]), (ids[3], ids[3]));
    assert_ne!(ids[1], "0");
    assert!(report.stderr.is_empty());
    assert_eq!(report.exit().code, Some(7));
    assert_eq!(server.spooled(&id, Selection::Both), report.stdout);
}

#[tokio::test]
async fn all_output_arrives_though_nobody_listens_until_the_end() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = script(&server, "seq 1 100000; touch written");
    let run_id = spec.run_id.clone();
    let supervised = server.host.start(spec).await.unwrap();
    until("all is written", || dirs.file("written").exists()).await;
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().code, Some(0));
    let all: Vec<_> = (1..=100_000).map(|number| format!("{number}\r\n")).collect();
    let all = all.concat();
    assert_eq!(report.exit().kept_bytes, all.len() as u64);
    assert!(server.spooled(&run_id, Selection::Both) == all.as_bytes());
    // A program that is gone at once.
    for _ in 0..20 {
        let report = server
            .run(on_terminal(server.argv(&["/usr/bin/seq", "1", "2000"])))
            .await;
        assert!(report.out().ends_with("\r\n2000\r\n"), "{:?}", report.out());
    }
}

#[tokio::test]
async fn a_command_that_closes_its_output_has_not_ended() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text = "echo one; exec <&- >&- 2>&-; while ! [ -e go ]; do sleep 0.01; done; echo two > /dev/tty; touch done";
    let mut supervised = server.host.start(script(&server, text)).await.unwrap();
    started(&mut supervised).await;
    fs::File::create(dirs.file("go")).unwrap();
    until("it went on", || dirs.file("done").exists()).await;
    let report = Report::of(supervised).await;
    assert_eq!(report.out(), "one\r\ntwo\r\n");
    assert_eq!(report.exit().code, Some(0));
}

#[tokio::test]
async fn a_time_limit_and_a_kill_leave_nothing_alive() {
    let hiders = "trap '' HUP INT QUIT TERM; (setsid sleep 1000 & sleep 1001) & setsid setsid sleep 1002 &
        touch hidden; while :; do sleep 0.1; done";
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = script(&server, hiders);
    spec.timeout = Some(Duration::from_secs(4));
    let report = server.run(spec).await;
    assert_eq!(report.exit().killed, Some(KillCause::Timeout));
    dirs.assert_nothing_is_alive();

    fs::remove_file(dirs.file("hidden")).unwrap();
    let supervised = server.host.start(script(&server, hiders)).await.unwrap();
    until("they hid", || dirs.file("hidden").exists()).await;
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().killed, Some(KillCause::Cancelled));
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn the_cursor_is_told_without_a_server_too_and_a_new_one_gets_all_output() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text = "echo one; while ! [ -e alone ]; do sleep 0.01; done; stty -icanon -echo
        printf '\\033[?1h\\033[5;7H\\033[6n'; head -c 6 | tr -d '\\033' > told; stty sane
        echo two; read line; echo \"read $line\"";
    let mut spec = script(&server, text);
    spec.terms.keep_when_orphaned = true;
    let run_id = spec.run_id.clone();
    let mut supervised = server.host.start(spec).await.unwrap();
    started(&mut supervised).await;
    drop(supervised);
    until("it is alone", || {
        dirs.file("runs").join(format!("{run_id}.s")).exists()
    })
    .await;
    fs::File::create(dirs.file("alone")).unwrap();
    until("it was told", || {
        fs::read_to_string(dirs.file("told")).is_ok_and(|told| told == "[5;7R")
    })
    .await;
    let Recovered::Attached(supervised) = server.host.recover(&run_id).await.unwrap() else {
        panic!("not attached")
    };
    let mut session = TerminalSession::of(*supervised);
    session.until_text("two").await;
    session.until_application_keys().await;
    session.type_text("line\r").await;
    let report = session.end().await;
    assert_eq!(report.exit().code, Some(0));
    assert!(report.out().ends_with("read line\r\n"), "{:?}", report.out());
    assert_eq!(server.spooled(&run_id, Selection::Both), report.stdout);
}

#[tokio::test]
async fn a_flood_of_questions_that_nobody_reads_costs_nothing() {
    const QUESTIONS: usize = 1_000_000;
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text = format!(
        "stty raw -echo; yes \"$(printf '\\033[6n')\" | tr -d '\\n' | head -c {}; sleep 0.2; echo end",
        4 * QUESTIONS
    );
    let spec = script(&server, &text);
    let run_id = spec.run_id.clone();
    let mut supervised = server.host.start(spec).await.unwrap();
    let supervisor = inspect(started(&mut supervised).await).unwrap().parent;
    let mut peak = 0;
    let end = loop {
        match supervised.events.recv().await.unwrap() {
            SupervisorEvent::Output { .. } | SupervisorEvent::Skipped { .. } => {
                peak = peak.max(super::output::own_kib(supervisor));
            }
            SupervisorEvent::Exit(ended) => break ended,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end.exit.code, Some(0));
    assert_eq!(measure(&server.host.spool(&run_id)), 4 * QUESTIONS as u64 + 4);
    assert!(peak < 12 * 1024, "a supervisor used {peak} KiB");
}

#[tokio::test]
async fn hostile_output_neither_ends_a_run_nor_holds_up_its_time_limit() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    // A title that never ends, random bytes, and the repetition of a character as often as it can be said.
    let text = "printf '\\033]0;'; head -c 2000000 /dev/zero | tr '\\0' x; printf '\\007'
        head -c 300000 /dev/urandom; printf '\\033c\\030x'; while :; do printf '\\033[65535b\\033[2J\\033[65535@\\033[999S'; done";
    let mut spec = script(&server, text);
    // Long enough to come to the last of it.
    spec.timeout = Some(Duration::from_secs(6));
    spec.terms.max_run_bytes = 1000;
    let report = server.run(spec).await;
    assert_eq!(report.exit().killed, Some(KillCause::Timeout));
    assert!(report.exit().output_bytes > 2_300_000);
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn the_end_of_the_input_is_typed() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    for (text, shown) in [
        ("line\n", "line\r\nline\r\n"),
        ("within", "withinwithin"),
        ("", ""),
    ] {
        let session = TerminalSession::of(
            server
                .host
                .start(on_terminal(server.argv(&["/bin/cat"])))
                .await
                .unwrap(),
        );
        session.type_text(text).await;
        session.control.close_input();
        let report = session.end().await;
        assert_eq!((report.out(), report.exit().code), (shown, Some(0)), "{text:?}");
    }
}

#[tokio::test]
async fn programs_are_told_of_another_size() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text = "trap 'stty size; tput cols; exit 3' WINCH; echo ready; while :; do sleep 0.01; done";
    let mut session = TerminalSession::of(server.host.start(script(&server, text)).await.unwrap());
    session.until_text("ready").await;
    session.control.resize(TerminalSize::new(33, 77).unwrap());
    let report = session.end().await;
    assert_eq!(
        (report.out(), report.exit().code),
        ("ready\r\n33 77\r\n77\r\n", Some(3))
    );
}

#[tokio::test]
async fn what_is_typed_to_interrupt_ends_a_list_only_if_it_ends_a_program() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let program = |join, script: &str| BoundStep {
        join,
        action: BoundAction::Program {
            path: "/bin/sh".to_owned(),
            argv: ["sh", "-c", script].map(str::to_owned).into(),
            assignments: vec![],
            identity: identity(&fs::canonicalize("/bin/sh").unwrap()),
            redirections: vec![],
            fills: vec![],
        },
    };
    let patient = "trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.01; done";
    for (first, shown, code, signal) in [
        (patient, "ready\r\n^Ccaught\r\nnext\r\n", Some(0), None),
        ("echo ready; exec sleep 1000", "ready\r\n^C", None, Some(2)),
    ] {
        let steps = vec![program(None, first), program(Some(StepJoin::And), "echo next")];
        let spec = on_terminal(server.spec(Bound::Plan { steps }));
        let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
        session.until_text("ready").await;
        session.press(&["C-c"]).await;
        let report = session.end().await;
        assert_eq!(report.out(), shown);
        assert_eq!(
            (report.exit().code, report.exit().signal),
            (code, signal),
            "{first}"
        );
        dirs.assert_nothing_is_alive();
    }
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let text = "stty -echo; printf 'Password: '; read -r word; stty echo; echo; echo ${#word} characters";
    let mut session = TerminalSession::of(server.host.start(script(&server, text)).await.unwrap());
    session.until_text("Password: ").await;
    session.type_text("correct horse\r").await;
    let report = session.end().await;
    assert_eq!(report.out(), "Password: \r\n13 characters\r\n");
}

#[tokio::test]
async fn bash_stops_continues_and_interrupts_jobs() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = or_skip!(program(
        &server,
        &["/usr/bin/bash", "--norc", "--noprofile", "-i"]
    ));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text("bash-").await;
    let bash = session.pid();
    let foreground = || {
        let stat = fs::read_to_string(format!("/proc/{bash}/stat")).unwrap();
        stat.rsplit(") ")
            .next()
            .unwrap()
            .split(' ')
            .nth(5)
            .unwrap()
            .parse::<i32>()
            .unwrap()
    };
    // Before it is the program itself, a job still ignores what is pressed.
    let is_asleep = || {
        let name = fs::read_to_string(format!("/proc/{}/comm", foreground()));
        name.is_ok_and(|name| name == "sleep\n")
    };
    session.type_text("sleep 1000\r").await;
    until("the job is in the foreground", is_asleep).await;
    session.press(&["C-z"]).await;
    session.until_text("Stopped").await;
    until("bash is in the foreground", || foreground() == bash).await;
    session.type_text("fg\r").await;
    until("the job is in the foreground again", is_asleep).await;
    session.press(&["C-c"]).await;
    until("bash is in the foreground again", || foreground() == bash).await;
    session.type_text("echo code=$?\r").await;
    // Until it asks for the next line, the terminal itself takes the keys that edit one.
    session.until_text("\ncode=130\nbash-").await;
    // The history by the arrow.
    session.press(&["Up", "BSpace", "BSpace"]).await;
    session.type_text("word\r").await;
    session.until_text("\ncode=word").await;
    session.type_text("exit 5\r").await;
    assert_eq!(session.end().await.exit().code, Some(5));
}

#[tokio::test]
async fn vi_edits_and_saves_a_file() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = or_skip!(program(&server, &["/usr/bin/vi", "-u", "NONE", "-N", "text"]));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text("text\" [New]").await;
    session.type_text("ione\rtwo").await;
    session.until_text("two").await;
    // In the mode of the arrows that it asked for.
    session.until_application_keys().await;
    session.press(&["Up", "End"]).await;
    session.type_text("!").await;
    session.until_text("one!").await;
    session.press(&["Escape"]).await;
    session.type_text(":wq\r").await;
    assert_eq!(session.end().await.exit().code, Some(0));
    assert_eq!(fs::read_to_string(dirs.file("text")).unwrap(), "one!\ntwo\n");
}

#[tokio::test]
async fn nano_edits_and_saves_a_file() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = or_skip!(program(&server, &["/usr/bin/nano", "-I", "text"]));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text("GNU nano").await;
    session.type_text("some words").await;
    session.until_text("some words").await;
    session.press(&["C-o"]).await;
    session.until_text("File Name to Write").await;
    session.press(&["Enter"]).await;
    session.until_text("Wrote 1 line").await;
    session.press(&["C-x"]).await;
    assert_eq!(session.end().await.exit().code, Some(0));
    assert_eq!(fs::read_to_string(dirs.file("text")).unwrap(), "some words\n");
}

#[tokio::test]
async fn top_draws_and_quits() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = or_skip!(program(&server, &["/usr/bin/top"]));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text("load average").await;
    session.until_text("PID").await;
    session.press(&["q"]).await;
    assert_eq!(session.end().await.exit().code, Some(0));
}

#[tokio::test]
async fn python_reads_and_prints() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = or_skip!(program(&server, &["/usr/bin/python3", "-q", "-E", "-s"]));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text(">>> ").await;
    session.type_text("6 * 7\r").await;
    // Until it asks for the next line, the terminal itself takes the end of the input.
    session.until_text("\n42\n>>> ").await;
    session.press(&["C-d"]).await;
    assert_eq!(session.end().await.exit().code, Some(0));
}

#[tokio::test]
async fn less_searches_and_quits() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let lines: Vec<_> = (1..=2000).map(|number| format!("line {number}\n")).collect();
    let lines = lines.concat();
    write_file(&dirs.file("text"), &lines);
    let spec = or_skip!(program(&server, &["/usr/bin/less", "text"]));
    let mut session = TerminalSession::of(server.host.start(spec).await.unwrap());
    session.until_text("line 29").await;
    session.type_text("/line 777\r").await;
    session.until_text("line 805").await;
    session.press(&["End"]).await;
    session.until_text("line 2000").await;
    session.press(&["q"]).await;
    assert_eq!(session.end().await.exit().code, Some(0));
}
