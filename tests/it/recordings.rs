//! Recordings of runs: what their terminals showed and when, for players, and shown again by the command line.

use serde_json::{Value, json};

use crate::support::{Members, Terminal, TestServer, eventually};

/// It asks for a word, then for one that it does not show, and ends with 3.
const ASKING: &str =
    "stty size; read shown; sleep 0.3; stty -echo; echo ready; read hidden; stty size; exit 3";

/// The lines of a recording: its head, and its events.
async fn recorded(server: &TestServer, run: &str) -> (Value, Vec<Value>) {
    let answer = server.agent().get(&format!("/v1/runs/{run}/recording")).await;
    assert_eq!(answer.header("content-type"), Some("application/x-asciicast"));
    let text = answer.text();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).expect(line));
    (lines.next().expect("a head"), lines.collect())
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for event in events {
        if event[1] == kind {
            found.push(event[2].as_str().expect("text"));
        }
    }
    found
}

/// Seconds from the start to the last event.
fn lasted(events: &[Value]) -> f64 {
    events
        .iter()
        .map(|event| event[0].as_f64().expect("seconds"))
        .sum()
}

/// A run of [`ASKING`] that has ended. The terminal got another size in between, and the server may have been started again.
async fn asked_and_ended(server: &mut TestServer, restart: bool) -> String {
    let started = server
        .accepted(json!({ "command": ASKING, "pty": true, "background": true }))
        .await;
    let (run, session) = (
        started.text("runId").to_owned(),
        started.text("sessionId").to_owned(),
    );
    let shows = async |server: &TestServer, what: &str| {
        let tail = async || server.agent().run(&run).await["tail"].clone();
        eventually(what, tail, |tail| {
            tail.as_str().is_some_and(|tail| tail.contains(what))
        })
        .await;
    };
    let act = async |server: &TestServer, members: Value| {
        let mut body = json!({ "sessionId": session });
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        server.agent().posted("/v1/process", body).await;
    };
    shows(server, "30 120").await;
    // What there is so far.
    let (head, events) = recorded(server, &run).await;
    assert_eq!(head["term"]["rows"], 30);
    assert!(of_kind(&events, "o").concat().contains("30 120") && of_kind(&events, "x").is_empty());
    if restart {
        server.crash_and_restart().await;
    }
    act(server, json!({ "action": "write", "data": "a word\n" })).await;
    shows(server, "ready").await;
    act(server, json!({ "action": "resize", "rows": 10, "cols": 40 })).await;
    act(server, json!({ "action": "write", "data": "a secret\n" })).await;
    server.agent().finished(&run).await;
    run
}

#[tokio::test]
async fn a_terminal_is_recorded_with_its_sizes_its_input_and_its_end() {
    for restart in [false, true] {
        let mut server = TestServer::full()
            .exec_toml("record_input = true\n")
            .start()
            .await;
        let run = asked_and_ended(&mut server, restart).await;
        let (head, events) = recorded(&server, &run).await;
        assert_has!(head, { "version": 3, "term": { "cols": 120, "rows": 30 }, "command": ASKING });
        assert!(head["timestamp"].as_u64().is_some(), "{head}");
        let output = server.agent().get(&format!("/v1/runs/{run}/output")).await.text();
        assert_eq!(of_kind(&events, "o").concat(), output);
        assert!(output.contains("30 120") && output.contains("10 40"), "{output}");
        assert_eq!(of_kind(&events, "r"), ["40x10"]);
        // What the terminal did not show is not kept, whatever the setting says.
        assert_eq!(of_kind(&events, "i"), ["a word\n"]);
        assert!(
            !events.iter().any(|event| event.to_string().contains("secret")),
            "{events:?}"
        );
        assert_eq!(events.last().unwrap()[1], "x");
        assert_eq!(of_kind(&events, "x"), ["3"]);
        assert!(lasted(&events) >= 0.2, "{events:?}");
        // Each thing stands where it happened.
        let at = |kind: &str, what: &str| {
            let is_it = |event: &&Value| event[1] == kind && event[2].as_str().unwrap().contains(what);
            events
                .iter()
                .position(|event| is_it(&event))
                .unwrap_or_else(|| panic!("{what}: {events:?}"))
        };
        let order = [
            at("o", "30 120"),
            at("i", "a word"),
            at("o", "ready"),
            at("r", "40x10"),
            at("o", "10 40"),
        ];
        assert!(order.is_sorted(), "{events:?}");
    }
}

#[tokio::test]
async fn input_is_kept_only_where_that_is_set() {
    let mut server = TestServer::full().start().await;
    let run = asked_and_ended(&mut server, false).await;
    let (_, events) = recorded(&server, &run).await;
    assert_eq!(of_kind(&events, "r"), ["40x10"]);
    assert!(of_kind(&events, "i").is_empty(), "{events:?}");
}

#[tokio::test]
async fn a_run_without_a_terminal_and_one_without_output_are_recordings_too() {
    let server = TestServer::full().start().await;
    let ran = server
        .ran(json!({ "command": "sleep 0.3; echo out; echo err >&2; exit 1" }))
        .await;
    let (head, events) = recorded(&server, ran.text("runId")).await;
    assert_eq!(head["term"], json!({ "cols": 120, "rows": 30 }));
    let mut written = of_kind(&events, "o").concat();
    assert!(
        written.ends_with("err\n") || written.ends_with("out\n"),
        "{events:?}"
    );
    written.truncate(8);
    assert_eq!(written.len(), 8);
    assert_eq!(of_kind(&events, "x"), ["1"]);
    assert!(lasted(&events) >= 0.2, "{events:?}");
    let silent = server.ran(json!({ "command": "true" })).await;
    let (head, events) = recorded(&server, silent.text("runId")).await;
    assert_eq!(head["version"], 3);
    assert_eq!(of_kind(&events, "x"), ["0"]);
    let large = server.ran(json!({ "command": "yes line | head -n 50000" })).await;
    let (_, events) = recorded(&server, large.text("runId")).await;
    assert_eq!(of_kind(&events, "o").concat(), "line\n".repeat(50_000));
    let secret = server
        .ran(json!({ "command": "true --password=hunter2hunter2" }))
        .await;
    let (head, _) = recorded(&server, secret.text("runId")).await;
    assert!(!head.to_string().contains("hunter2"), "{head}");
}

/// The terminal of the person gets what stood on the screen, and nothing that the command wanted of it.
#[tokio::test]
async fn a_recording_is_shown_again_without_what_a_terminal_would_obey() {
    let server = TestServer::full().start().await;
    let text = r"printf '\033]0;stolen title\007\033]52;c;c3RvbGVu\007\033[31mred\033[0m \033[3;5Hthere\r\n'; printf '\033[6nlast'; exit 4";
    let ran = server.ran(json!({ "command": text, "pty": true })).await;
    let run = ran.text("runId");
    let mut terminal = Terminal::start(
        server
            .invocation(&["runs", "replay", run, "--speed", "1000"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh"),
    );
    let shown = terminal.sees("(q quits)").await;
    assert!(
        shown.contains("\u{1b}[31mred") && shown.contains("there") && shown.contains("last"),
        "{shown:?}"
    );
    for stolen in ["stolen", "\u{1b}]", "\u{1b}[6n", "c3RvbGVu"] {
        assert!(!shown.contains(stolen), "{stolen:?}: {shown:?}");
    }
    terminal.press_until("q", "exit code 4").await;
    assert_eq!(terminal.ended().await, Some(0));
    // The terminal is as it was: the other screen is left, and the cursor is there again.
    assert!(
        terminal.text().contains("\u{1b}[?25h\u{1b}[?1049l"),
        "{:?}",
        terminal.text()
    );
    // So it is where a signal ends it.
    let mut terminal = Terminal::start(
        server
            .invocation(&["runs", "replay", run])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh"),
    );
    terminal.sees("(q quits)").await;
    terminal.press("\u{3}");
    terminal.sees("\u{1b}[?25h\u{1b}[?1049l").await;
    // The signal is one for the shell around it too.
    terminal.ended().await;
    // In a pipe it is what players read.
    let piped = server.cli(&["runs", "replay", &run[run.len() - 8..]]).await;
    let head: Value = serde_json::from_str(piped.stdout.lines().next().expect("a head")).unwrap();
    assert_eq!((piped.code, &head["version"]), (Some(0), &json!(3)), "{piped:?}");
    let wrong = server.cli(&["runs", "replay", run, "--speed", "0"]).await;
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
}
