//! `countersign` at a real terminal: whoever sits there is connected to the command of `exec --pty`, and sees colours
//! where they are welcome.

use std::fs;

use rustix::process::Signal;

use crate::support::{
    Invocation, Members, Scratch, Terminal, TestServer, countersign, eventually, is_alive, signal, write_file,
};

/// Somebody types a command line at a shell of their own, which then says what the terminal is like.
fn sit(server: &TestServer, command: &str) -> Terminal {
    let program = env!("CARGO_BIN_EXE_countersign");
    let line = format!("stty -a > before; {program} {command}; echo code=$?; stty -a > after; echo all-over");
    let shell = server.scratch().join("line.sh");
    write_file(
        &shell,
        format!("cd {}\n{line}\n", server.scratch().path().display()),
    );
    let own = Invocation::new("/bin/sh")
        .arg(&shell)
        .env("HOME", server.scratch().path())
        .env("OPENCLAW_STATE_DIR", server.state())
        .env("TERM", "xterm");
    Terminal::start(own)
}

/// Fails unless the terminal is as it was before.
fn assert_restored(server: &TestServer) {
    // The first line is about its size and speed.
    let state = |name: &str| {
        let text = fs::read_to_string(server.scratch().join(name)).unwrap();
        text.split_once('\n').expect("more lines").1.to_owned()
    };
    assert!(state("before").contains(" icanon") && state("before").contains(" echo "));
    assert_eq!(state("before"), state("after"));
}

/// The command line's own process.
async fn client(terminal: &Terminal) -> i32 {
    let found = || async {
        let mut below = vec![terminal.pid()];
        while let Some(pid) = below.pop() {
            let name = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if name.starts_with(env!("CARGO_BIN_EXE_countersign").as_bytes()) {
                return Some(pid);
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            below.extend(
                children
                    .unwrap_or_default()
                    .split_whitespace()
                    .map(|pid| pid.parse::<i32>().unwrap()),
            );
        }
        None
    };
    eventually("the command line", found, Option::is_some)
        .await
        .unwrap()
}

#[tokio::test]
async fn keys_go_to_the_command_and_its_screen_and_code_come_back() {
    let server = TestServer::full().start().await;
    let text = "stty size; printf \"name? \"; read name; printf \"\\033[1mhello %s\\033[0m\\n\" \"$name\"; \
                trap \"echo caught; exit 7\" INT; echo ready; while :; do sleep 0.05; done";
    let mut terminal = sit(&server, &format!("exec --pty -c '{text}'"));
    terminal.sees("name? ").await;
    terminal.press("w\u{f6}rld\r");
    // What it draws comes as it is.
    terminal.sees("\u{1b}[1mhello w\u{f6}rld\u{1b}[0m").await;
    terminal.sees("ready").await;
    // A key of the terminal is one of the command, not of whoever connects it.
    terminal.press("\u{3}");
    let shown = terminal.sees("all-over").await;
    assert!(shown.contains("caught") && shown.contains("code=7"), "{shown}");
    assert_eq!(terminal.ended().await, Some(0));
    assert_restored(&server);
    let runs = server.agent().read("/v1/runs").await;
    assert_has!(runs["items"][0], { "status": "failed", "exitCode": 7, "pty": true });
}

#[tokio::test]
async fn the_size_is_that_of_the_terminal_and_follows_it() {
    let server = TestServer::full().start().await;
    let text = "trap \"stty size\" WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = sit(&server, &format!("exec --pty -c '{text}'"));
    terminal.sees("ready").await;
    let client = client(&terminal).await;
    for size in [(33, 101), (12, 60)] {
        let (rows, columns) = size;
        let terminal_of = format!("/proc/{client}/fd/0");
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let words = [
            "-F",
            terminal_of.as_str(),
            "rows",
            rows.as_str(),
            "columns",
            columns.as_str(),
        ];
        let resized = TestServer::finish(Invocation::new("stty").args(&words)).await;
        assert_eq!(resized.code, Some(0), "{resized:?}");
        terminal.sees(&format!("{rows} {columns}\r\n")).await;
    }
    terminal.press("\u{3}");
    let shown = terminal.sees("all-over").await;
    assert!(shown.contains("code=130"), "{shown}");
    assert_restored(&server);
}

#[tokio::test]
async fn told_to_end_it_cancels_the_run_and_gives_the_terminal_back() {
    let server = TestServer::full().start().await;
    for kind in [Signal::TERM, Signal::HUP] {
        let mut terminal = sit(&server, "exec --pty -c 'echo pid=$$; sleep 1000'");
        let shown = terminal.sees("pid=").await;
        let client = client(&terminal).await;
        signal(client, kind);
        let shown = format!("{shown}{}", terminal.sees("all-over").await);
        assert!(shown.contains("code=130"), "{shown}");
        assert_eq!(terminal.ended().await, Some(0));
        assert_restored(&server);
        let runs = server.agent().read("/v1/runs").await;
        let run = runs["items"][0].text("runId").to_owned();
        let ended = server.agent().finished(&run).await;
        assert_eq!(ended["status"], "cancelled", "{ended:#}");
        assert!(!is_alive(client));
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for_and_nothing_is_shown_twice() {
    let mut server = TestServer::full().start().await;
    let text = "echo first; read line; echo \"got $line\"; read line; exit 3";
    let mut terminal = sit(&server, &format!("exec --pty -c '{text}'"));
    terminal.sees("first").await;
    server.crash_and_restart().await;
    // Keys that come while it is away are lost, as they would be on a line that is cut.
    terminal.press_until("again\r", "got again").await;
    terminal.press_if_open("\r");
    let shown = terminal.sees("all-over").await;
    assert!(shown.contains("code=3"), "{shown}");
    assert_eq!(shown.matches("first").count(), 1, "{shown}");
    assert_restored(&server);
}

#[tokio::test]
async fn what_is_denied_or_waits_leaves_the_terminal_alone() {
    let server = TestServer::asking().start().await;
    let mut terminal = sit(&server, "exec --pty -c 'echo shown; exit 4'");
    terminal.sees("a person is asked").await;
    let pending = server.operator().read("/v1/approvals").await;
    let approval = pending["items"][0].text("id").to_owned();
    server.operator().decided(&approval, "allow-once").await;
    let shown = terminal.sees("all-over").await;
    assert!(shown.contains("shown") && shown.contains("code=4"), "{shown}");
    assert_eq!(terminal.ended().await, Some(0));
    assert_restored(&server);

    let mut terminal = sit(&server, "exec --pty -c 'echo never'");
    terminal.sees("a person is asked").await;
    let pending = server.operator().read("/v1/approvals").await;
    let approval = pending["items"][0].text("id").to_owned();
    server.operator().decided(&approval, "deny").await;
    let shown = terminal.sees("all-over").await;
    assert!(shown.contains("code=77"), "{shown}");
    assert_eq!(terminal.ended().await, Some(0));
    assert_restored(&server);
}

#[tokio::test]
async fn the_log_has_colours_only_where_they_are_welcome() {
    for (number, (name, value, is_coloured)) in [
        ("COLORTERM", "yes", true),
        ("NO_COLOR", "1", false),
        ("TERM", "dumb", false),
    ]
    .into_iter()
    .enumerate()
    {
        let scratch = Scratch::new();
        let state = scratch.join(&format!("state-{number}"));
        let serve = countersign()
            .args(&["serve", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(&state)
            .env("HOME", scratch.path())
            .env("TERM", "xterm")
            .env(name, value);
        let mut terminal = Terminal::start(serve);
        terminal.sees("countersign ready").await;
        // Something to log of.
        write_file(
            &state.join("countersign/countersign.toml"),
            "[output]\ntail_chars = 1\n",
        );
        let shown = terminal.sees("changed settings that need a restart").await;
        assert_eq!(shown.contains("\u{1b}["), is_coloured, "{name}: {shown}");
        terminal.press("\u{3}");
        // A shell that started it takes the key, too.
        assert!(matches!(terminal.ended().await, Some(0 | 130)), "{name}");
    }
}

/// What a command line prints at a terminal of 24 lines.
async fn printed(server: &TestServer, name: &str, line: &str) -> String {
    let shell = server.scratch().join(name);
    let line = line.replace("countersign ", &format!("{} ", env!("CARGO_BIN_EXE_countersign")));
    write_file(
        &shell,
        format!("stty rows 24 cols 80; {line}; echo code=$?; echo all-over\n"),
    );
    let own = Invocation::new("/bin/sh")
        .arg(&shell)
        .env("HOME", server.scratch().path())
        .env("OPENCLAW_STATE_DIR", server.state())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm");
    let mut terminal = Terminal::start(own);
    let shown = terminal.sees("all-over").await;
    assert_eq!(terminal.ended().await, Some(0));
    shown
}

#[tokio::test]
async fn a_long_list_goes_through_the_pager_that_is_named() {
    let server = TestServer::full().start().await;
    for _ in 0..30 {
        server.ran(serde_json::json!({ "argv": ["/bin/true"] })).await;
    }
    let pager = "COUNTERSIGN_PAGER='sed s/^/paged:/'";
    let shown = printed(&server, "1.sh", &format!("{pager} countersign runs list")).await;
    assert_eq!(shown.matches("paged:").count(), 31, "{shown}");
    assert!(shown.contains("code=0"), "{shown}");
    for (name, line) in [
        // What is short, what is wanted so, and a pager that is none.
        ("2.sh", format!("{pager} countersign runs list --limit 3")),
        ("3.sh", format!("{pager} countersign runs list --no-pager")),
        ("4.sh", "PAGER=cat countersign runs list".to_owned()),
        ("5.sh", "PAGER=no-such-pager countersign runs list".to_owned()),
        // Into a pipe.
        ("6.sh", format!("{pager} countersign runs list | cat")),
    ] {
        let shown = printed(&server, name, &line).await;
        assert!(!shown.contains("paged:"), "{line}: {shown}");
        assert!(
            shown.contains("/bin/true") && shown.contains("code=0"),
            "{line}: {shown}"
        );
    }
    // PAGER is heard where the other is not set.
    let shown = printed(&server, "7.sh", "PAGER='sed s/^/paged:/' countersign runs list").await;
    assert!(shown.contains("paged:"), "{shown}");
}
