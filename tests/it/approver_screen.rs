//! `countersign approver` on the full screen of a real terminal.

use std::{fs, path::PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    approver::quits,
    support::{Members, Terminal, TestServer, assert_says, eventually, inherited_path, lines, soon},
};

/// The approver in a terminal of this size.
fn of_size(server: &TestServer, (rows, columns): (u16, u16), arguments: &[&str]) -> Terminal {
    let program = env!("CARGO_BIN_EXE_countersign");
    let state = server.state();
    let words = arguments.join(" ");
    let line = format!(
        "stty rows {rows} cols {columns}; exec {program} --state-dir {} approver {words}",
        state.display()
    );
    let invocation = server
        .invocation_of("/bin/sh", &["-c", &line])
        .env("PATH", inherited_path())
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh");
    Terminal::start(invocation)
}

fn approver(server: &TestServer) -> Terminal {
    of_size(server, (24, 80), &[])
}

fn append(text: &str, file: &std::path::Path) -> Value {
    json!({ "command": format!("echo {text} >> {}", file.display()) })
}

/// A command with so many lines.
fn long(count: usize) -> Value {
    let lines: Vec<String> = (1..=count).map(|number| format!("echo line-{number}")).collect();
    json!({ "command": lines.join("\n") })
}

#[tokio::test]
async fn a_person_answers_what_stands_in_the_list_and_gets_the_screen_back() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let first = server.accepted(append("first", &file)).await;
    let second = server.accepted(append("second", &file)).await;
    let mut terminal = approver(&server);
    let shown = terminal.shows("a once").await;
    assert!(terminal.screen(24, 80).is_other);
    for part in [
        "2 questions wait",
        &format!("> {}", &first.text("approvalId")[..8]),
        &second.text("approvalId")[..8],
        "│ echo first >>",
        "main asks on gateway",
        "in ",
        "d deny",
    ] {
        assert_says(&shown, part);
    }
    terminal.answer("a", "allow-once").await;
    assert_has!(server.agent().finished(first.text("runId")).await, { "status": "completed" });
    terminal.shows("│ echo second >>").await;
    terminal.answer("d", "reason (Enter sends").await;
    terminal.press("not today\r");
    let denied = server.agent().finished(second.text("runId")).await;
    assert_eq!(denied["reason"], "user-denied");
    let approval = server.operator().approval(second.text("approvalId")).await;
    assert!(approval.text("reason").ends_with("not today"), "{approval}");
    terminal.shows("What needs approval shows up here.").await;
    assert_eq!(lines(&file), ["first"]);
    quits_and_restores(terminal).await;
}

/// Leaves the list, and looks whether the screen and the cursor are as before.
async fn quits_and_restores(mut terminal: Terminal) {
    terminal.press("q");
    let ended = terminal.ended().await;
    assert_eq!(ended, Some(0), "{}", terminal.text());
    is_restored(&terminal).await;
}

async fn is_restored(terminal: &Terminal) {
    let look = || std::future::ready(terminal.text());
    let text = eventually("the screen is back", look, |text| text.contains("\u{1b}[?1049l")).await;
    assert_eq!(text.matches("\u{1b}[?1049h").count(), 1, "{text:?}");
    assert_eq!(text.matches("\u{1b}[?1049l").count(), 1, "{text:?}");
    let (_, after) = text.rsplit_once("\u{1b}[?25l").expect("it hides the cursor");
    assert!(
        after.contains("\u{1b}[?25h") && after.contains("\u{1b}[?7h"),
        "{text:?}"
    );
}

#[tokio::test]
async fn nothing_is_allowed_that_was_not_all_on_the_screen() {
    let server = TestServer::asking().start().await;
    let pending = server.accepted(long(60)).await;
    let mut terminal = approver(&server);
    let shown = terminal.shows("│ echo line-1").await;
    assert_says(&shown, "not all of it was on the screen");
    assert!(!shown.contains("a once"), "{shown}");
    terminal.answer("a", "space reads on").await;
    // The end alone is not all of it.
    let since = terminal.text().len();
    terminal.press("\u{1b}[F");
    terminal.sees_after(since, "line-60").await;
    terminal.press("A");
    terminal.press("a");
    assert!(!terminal.screen(24, 80).text.contains("a once"));
    terminal.press("\u{1b}[H");
    terminal.shows("rows 1 to").await;
    let mut last = String::new();
    while !terminal.screen(24, 80).text.contains("a once") {
        terminal.press(" ");
        let look = || std::future::ready(terminal.screen(24, 80).text);
        last = eventually("the next rows", look, |shown| *shown != last).await;
    }
    assert_says(&terminal.screen(24, 80).text, "│ echo line-60");
    terminal.answer("a", "allow-once").await;
    assert_has!(server.agent().finished(pending.text("runId")).await, { "exitCode": 0 });
    terminal.shows(": allow-once, exit 0 in ").await;
    quits_and_restores(terminal).await;
}

/// Waits for a text, wherever its lines end on the screen.
async fn shows_broken(terminal: &Terminal, what: &str) {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let look = || std::future::ready(dense(&terminal.screen(24, 80).text));
    let sought = dense(what);
    eventually(what, look, |shown| shown.contains(&sought)).await;
}

#[tokio::test]
async fn always_says_what_is_stored_before_it_is_stored() {
    let server = TestServer::asking().start().await;
    let call = json!({ "argv": ["/bin/date", "+%s"], "agentId": "build" });
    let earlier = server.accepted(call.clone()).await;
    server
        .operator()
        .decided(earlier.text("approvalId"), "allow-once")
        .await;
    server.agent().finished(earlier.text("runId")).await;
    let pending = server.accepted(call).await;
    let mut terminal = approver(&server);
    terminal.shows("A always").await;
    terminal
        .answer("A", "This is stored for build, in the allowlist")
        .await;
    terminal
        .shows("would have covered 1 of the last 1 question")
        .await;
    // Once a picture had all of it, and not before.
    let shown = terminal.shows("Enter stores it").await;
    for part in [
        "│ /bin/date +%s",
        "> 1  exactly this command",
        "  /usr/bin/date with exactly these arguments: /bin/date +%s, in ",
        "would have covered 1 of the last 1 question",
    ] {
        assert_says(&shown, part);
    }
    // Looking stores nothing.
    let since = terminal.text().len();
    terminal.press("\u{1b}");
    terminal.sees_after(since, "nothing is stored").await;
    let entries = server.operator().read("/v1/agents/build/allowlist").await;
    assert_eq!(entries["items"], json!([]));
    terminal.press("A");
    terminal.shows("This is stored for build, in the allowlist").await;
    terminal
        .shows("would have covered 1 of the last 1 question")
        .await;
    terminal.press("u");
    shows_broken(&terminal, ", 2 runs in all, this one included, for good").await;
    terminal.press("t");
    shows_broken(&terminal, ", 2 runs in all, this one included, for an hour").await;
    terminal.shows("as a grant beside the allowlist").await;
    let since = terminal.text().len();
    terminal.press("\r");
    terminal.sees_after(since, "allow-always").await;
    assert_has!(server.agent().finished(pending.text("runId")).await, { "status": "completed" });
    let approval = server.operator().approval(pending.text("approvalId")).await;
    let stored = &approval["grant"]["stores"][0];
    assert_has!(stored, { "width": "exact" });
    assert_eq!(stored["limits"]["maxUses"], 2, "{approval}");
    let end = stored["limits"]["expiresAtMs"].as_u64().expect("an end");
    let resolved = approval["resolvedAtMs"].as_u64().expect("a time");
    let hour = resolved + 60 * 60 * 1_000;
    assert!((hour - 60_000..=hour).contains(&end), "{approval}");
    quits_and_restores(terminal).await;
}

#[tokio::test]
async fn several_are_chosen_and_answered_at_once() {
    let server = TestServer::asking().start().await;
    let mut asked = Vec::new();
    for text in ["one", "two", "three"] {
        asked.push(server.accepted(json!({ "argv": ["/bin/echo", text] })).await);
    }
    let other = server.accepted(json!({ "argv": ["/bin/date"] })).await;
    let mut terminal = approver(&server);
    terminal.shows("4 questions wait").await;
    terminal.press("X");
    terminal.shows("3 chosen").await;
    // Only the first was on the screen.
    terminal
        .answer("a", "2 of the 3 chosen were not all on the screen")
        .await;
    terminal.press("j");
    terminal.shows("│ /bin/echo two").await;
    terminal.press("j");
    terminal.shows("│ /bin/echo three").await;
    terminal.answer("a", "1 question waits").await;
    for run in &asked {
        assert_has!(server.agent().finished(run.text("runId")).await, { "status": "completed" });
    }
    assert_has!(server.operator().approval(other.text("approvalId")).await, { "status": "pending" });
    quits_and_restores(terminal).await;
}

#[tokio::test]
async fn a_filter_leaves_what_has_its_words() {
    let server = TestServer::asking().start().await;
    for (agent, program) in [
        ("build", "/bin/date"),
        ("main", "/bin/hostname"),
        ("build", "/bin/uname"),
    ] {
        server
            .accepted(json!({ "argv": [program], "agentId": agent }))
            .await;
    }
    let mut terminal = approver(&server);
    terminal.shows("3 questions wait").await;
    terminal.press("/");
    terminal.shows("filter (Enter keeps it").await;
    terminal.press("agent:build uname\r");
    let shown = terminal.shows("1 match").await;
    assert_says(&shown, "│ /bin/uname");
    assert!(
        !shown.contains("/bin/date") && !shown.contains("/bin/hostname"),
        "{shown}"
    );
    // No letter of it answered.
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 3);
    terminal.press("\u{1b}");
    terminal.shows("/bin/hostname").await;
    terminal.press("?");
    terminal.shows("choose what to allow always").await;
    terminal.press("\u{1b}");
    terminal.shows("j k move").await;
    terminal.press("\r");
    assert_says(&terminal.shows("all that is known").await, "if nobody answers");
    terminal.press("\u{1b}");
    terminal.shows("j k move").await;
    quits_and_restores(terminal).await;
}

/// Text that a terminal would obey, or that turns round what is read, is spelled out.
#[tokio::test]
async fn hostile_text_reaches_no_full_screen() {
    let server = TestServer::asking().start().await;
    let command = "echo \u{1b}]0;owned\u{7}\u{1b}[2J \u{202e}cod.exe\u{200b} 日本語日本語 > /dev/null #\r\nin  /safe\u{9b}31m";
    let asked = json!({ "command": command, "sessionKey": "chat:\u{202e}x",
        "justification": "trust me       why  allowed" });
    server.accepted(asked).await;
    let mut terminal = of_size(&server, (24, 40), &["--no-bell"]);
    let shown = eventually(
        "the card",
        || std::future::ready(terminal.screen(24, 40).text),
        |shown| shown.contains("d deny"),
    )
    .await;
    terminal.press("\r");
    terminal.sees("if nobody answers").await;
    let since = terminal.text().len();
    terminal.press("\u{1b}");
    terminal.sees_after(since, "d deny").await;
    let raw = terminal.text();
    for part in [
        "\u{1b}]0;",
        "\u{202e}",
        "\u{200b}",
        "\u{9b}",
        "\u{7}\u{1b}",
        "\u{1b}[1A",
    ] {
        assert!(!raw.contains(part), "{part:?} in {raw:?}");
    }
    let joined = shown.replace(['\n', '│', ' '], "");
    assert_says(&joined, "\\u{1B}]0;owned\\u{7}");
    assert_says(&joined, "\\u{202E}cod.exe");
    // A line of the command cannot pass for a fact: those have no bar before them.
    let own = shown.lines().filter(|line| line.starts_with("in ")).count();
    assert_eq!(own, 1, "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("│ in ")), "{shown}");
    quits_and_restores(terminal).await;
}

/// The terminal of a program, to set its size.
fn terminal_of(pid: i32) -> Option<PathBuf> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_whitespace().next()?;
    let terminal = fs::read_link(format!("/proc/{child}/fd/0")).ok()?;
    terminal.starts_with("/dev/pts").then_some(terminal)
}

#[tokio::test]
async fn another_size_draws_it_anew_and_what_was_read_counts_no_more() {
    let server = TestServer::asking().start().await;
    server.accepted(long(12)).await;
    let mut terminal = approver(&server);
    let shown = terminal.shows("a once").await;
    assert_says(&shown, "│ echo line-12");
    let place = terminal_of(terminal.pid()).expect("a terminal");
    let size = |rows, columns| {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let tty = rustix::fs::open(&place, flags, rustix::fs::Mode::empty()).expect("the terminal");
        let size = rustix::termios::Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(tty, size).expect("a size");
    };
    let since = terminal.text().len();
    size(15, 40);
    let small = terminal.sees_after(since, "space reads on").await;
    assert!(!small.contains("a once"), "{small:?}");
    let drawn = terminal.screen(15, 40).text;
    assert!(drawn.lines().all(|line| line.chars().count() <= 40), "{drawn}");
    // Too small for a question and its list: nothing can be answered.
    let since = terminal.text().len();
    size(6, 40);
    terminal.sees_after(since, "too small").await;
    terminal.press("a");
    let since = terminal.text().len();
    size(24, 80);
    terminal.sees_after(since, "a once").await;
    assert_eq!(server.operator().pending().await.len(), 1);
    quits_and_restores(terminal).await;
}

/// The program itself, below the shells that started it.
fn last_child(pid: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let child = children
        .split_whitespace()
        .next()
        .and_then(|child| child.parse().ok());
    child.map_or(pid, last_child)
}

#[tokio::test]
async fn a_signal_and_a_panic_give_the_screen_back() {
    let server = TestServer::asking().start().await;
    server.accepted(json!({ "argv": ["/bin/date"] })).await;
    for signal in ["TERM", "HUP", "INT", "QUIT"] {
        let mut terminal = approver(&server);
        terminal.shows("a once").await;
        let child = last_child(terminal.pid());
        let signal = match signal {
            "TERM" => Signal::TERM,
            "HUP" => Signal::HUP,
            "INT" => Signal::INT,
            _ => Signal::QUIT,
        };
        let child = rustix::process::Pid::from_raw(child).expect("a process");
        rustix::process::kill_process(child, signal).expect("it runs");
        terminal.ended().await;
        is_restored(&terminal).await;
    }
    let program = env!("CARGO_BIN_EXE_countersign");
    let line = format!("exec {program} --state-dir {} approver", server.state().display());
    let invocation = server
        .invocation_of("/bin/sh", &["-c", &line])
        .env("PATH", inherited_path())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env(countersign_sys::hooks::PANIC_VARIABLE, "approver.shown:3");
    let mut terminal = Terminal::start(invocation);
    let code = terminal.ended().await;
    assert_eq!(code, Some(101), "{}", terminal.text());
    is_restored(&terminal).await;
    // What it says stands on the screen that a person sees afterwards.
    let text = terminal.text();
    let (_, after) = text.split_once("\u{1b}[?1049l").expect("it is back");
    assert_says(after, "a test wants a panic at approver.shown");
}

#[tokio::test]
async fn a_new_question_rings_unless_that_is_off() {
    let server = TestServer::asking().start().await;
    let mut loud = approver(&server);
    let mut quiet = of_size(&server, (24, 80), &["--no-bell"]);
    for terminal in [&loud, &quiet] {
        terminal.shows("What needs approval").await;
    }
    server.accepted(json!({ "argv": ["/bin/date"] })).await;
    for terminal in [&loud, &quiet] {
        terminal.shows("a once").await;
    }
    let bells = |terminal: &Terminal| terminal.text().matches('\u{7}').count();
    assert_eq!((bells(&loud), bells(&quiet)), (1, 0));
    loud.press("b");
    loud.shows("the bell is off").await;
    quiet.press("b");
    quiet.shows("the bell is on").await;
    server.accepted(json!({ "argv": ["/bin/uname"] })).await;
    for terminal in [&loud, &quiet] {
        terminal.shows("2 questions wait").await;
    }
    soon("rung", || bells(&quiet), |bells| *bells == 1).await;
    assert_eq!(bells(&loud), 1);
    quits(loud).await;
    quits(quiet).await;
}

/// The keyboard is for the question that a person saw: what comes up by itself takes no key of the one before.
#[tokio::test]
async fn what_is_decided_elsewhere_leaves_the_list_and_takes_no_answer_with_it() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let first = server.accepted(append("first", &file)).await;
    let second = server.accepted(append("second", &file)).await;
    let mut terminal = approver(&server);
    terminal.shows("│ echo first >>").await;
    terminal.answer("d", "reason (Enter sends").await;
    terminal.press("no");
    server.operator().decided(first.text("approvalId"), "deny").await;
    terminal.shows("the question that you were denying is over").await;
    terminal.press("taA\r");
    terminal.shows("│ echo second >>").await;
    terminal.shows("a once").await;
    let path = format!("/v1/runs/{}/cancel", second.text("runId"));
    server.agent().posted(&path, json!({})).await;
    terminal.shows("is cancelled").await;
    quits_and_restores(terminal).await;
    assert_eq!(lines(&file), Vec::<String>::new());
}

/// What is typed while the server takes an answer is no answer to what an answer is for then.
#[tokio::test]
async fn a_second_key_while_an_answer_is_sent_answers_nothing() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let first = server.accepted(append("first", &file)).await;
    let second = server.accepted(append("second", &file)).await;
    let mut terminal = approver(&server);
    terminal.shows("│ echo first >>").await;
    terminal.press("x");
    terminal.shows("1 chosen").await;
    terminal.press("j");
    terminal.shows("│ echo second >>").await;
    terminal.shows("a once").await;
    server.send_signal(Signal::STOP);
    terminal.answer("a", "sending the answer").await;
    let place = terminal_of(terminal.pid()).expect("a terminal");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOCTTY;
    let tty = rustix::fs::open(&place, flags, rustix::fs::Mode::empty()).expect("the terminal");
    let queued = || rustix::io::ioctl_fionread(&tty).expect("a terminal");
    assert_eq!(queued(), 0);
    terminal.press("a");
    soon("it waits to be read", queued, |count| *count == 1).await;
    server.send_signal(Signal::CONT);
    terminal.shows("allow-once").await;
    assert_has!(server.agent().finished(first.text("runId")).await, { "status": "completed" });
    // What comes behind it is read, so it was.
    terminal.press("b");
    terminal.shows("the bell is off").await;
    assert_has!(server.operator().approval(second.text("approvalId")).await, { "status": "pending" });
    assert_eq!(lines(&file), ["first"]);
    // A key that is pressed after a look answers it.
    terminal.answer("a", "allow-once").await;
    assert_has!(server.agent().finished(second.text("runId")).await, { "status": "completed" });
    assert_eq!(lines(&file), ["first", "second"]);
    quits_and_restores(terminal).await;
}
