//! Where links come from: the command, the terminal of the server, the demo.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::browser::{Browser, code_of};
use crate::support::{
    Api, Invocation, Members, Scratch, TestServer, countersign, kill_hard, program, skip, within,
};

#[tokio::test]
async fn the_command_prints_a_link_and_nothing_else() {
    let server = TestServer::full().start().await;
    let done = server.cli(&["login-link"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let url = done.stdout.strip_suffix('\n').unwrap();
    assert!(!url.contains(char::is_whitespace), "{done:?}");
    assert!(!done.stderr.contains("csl_"), "{done:?}");
    let api = server.anonymous();
    let answer = api.post("/auth/login", json!({ "code": code_of(url) })).await;
    Browser::of(api, &answer).session().await.expect(200);

    let done = server.cli(&["login-link", "--json"]).await;
    let link: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(link.text("url").contains("/login#code=csl_"));
    assert!(link["expiresAtMs"].is_i64());
}

#[tokio::test]
async fn a_command_of_an_agent_gets_no_link() {
    let server = TestServer::full().start().await;
    let inside = server.invocation(&["login-link"]).env("OPENCLAW_SHELL", "exec");
    let done = TestServer::finish(inside).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(77), ""), "{done:?}");
}

#[tokio::test]
async fn a_pipe_gets_no_link_with_the_ready_line() {
    let server = TestServer::full().start().await;
    for text in [server.ready_line(), &server.log()] {
        assert!(!text.contains("login") && !text.contains("csl_"), "{text}");
    }
}

#[tokio::test]
async fn a_terminal_gets_a_link_with_the_ready_line() {
    let Some(script) = program("script") else {
        return skip("script(1) is not here, which makes a terminal");
    };
    for (more, is_drawn) in [("", true), (" --no-qr", false)] {
        a_link_comes(&script, more, is_drawn).await;
    }
}

/// The ready line, the link as a code unless that is not wanted, and the link alone on its line.
async fn a_link_comes(script: &Path, more: &str, is_drawn: bool) {
    let server = TestServer::full().prepare();
    // script(1) runs the command on a terminal of its own and passes what is printed there on.
    let program = env!("CARGO_BIN_EXE_countersign");
    let serve = format!("exec '{program}' serve --listen 127.0.0.1:0{more}");
    let invocation = Invocation::new(script)
        .args(&["--quiet", "--flush", "--command", &serve, "/dev/null"])
        .env("HOME", server.scratch().path())
        .env("SHELL", "/bin/sh")
        .env("OPENCLAW_STATE_DIR", server.state());
    let mut terminal = invocation.start(Stdio::null());
    let mut lines = BufReader::new(terminal.stdout.take().unwrap());
    let ready = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        let (mut is_ready, mut drawn) = (false, 0);
        // Alone on its line, after the line that says that the server is ready.
        while !line.starts_with("http://127.0.0.1:") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no link");
            is_ready |= line.starts_with("countersign ready");
            drawn += usize::from(is_ready && line.contains('\u{2588}'));
        }
        assert!(is_ready, "the link came first");
        assert_eq!(drawn > 10, is_drawn, "{drawn} lines of a code");
        line
    });
    let url = within("the link", ready).await.unwrap().trim().to_owned();
    let api = Api::new(url.split_once("/login#").unwrap().0, None);
    let answer = api.post("/auth/login", json!({ "code": code_of(&url) })).await;
    Browser::of(api, &answer).session().await.expect(200);
    let file = std::fs::read(server.state().join("countersign/server.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    kill_hard(file["pid"].as_i64().and_then(|pid| pid.try_into().ok()).unwrap());
    terminal.wait().unwrap();
}

#[tokio::test]
async fn the_demo_goes_on_when_the_answer_comes_from_a_browser() {
    let scratch = Scratch::new();
    let mut demo = countersign()
        .args(&["demo"])
        .env("HOME", scratch.path())
        .start(Stdio::null());
    let mut lines = BufReader::new(demo.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let (url, lines) = tokio::task::spawn_blocking(move || {
        let url = lines.find(|line| line.contains("/login#code=")).expect("a link");
        (url.trim().to_owned(), lines)
    })
    .await
    .unwrap();
    let api = Api::new(url.split_once("/login#").unwrap().0, None);
    let answer = api.post("/auth/login", json!({ "code": code_of(&url) })).await;
    let browser = Browser::of(api, &answer);
    let pending = browser.get("/v1/approvals").await.expect(200);
    let path = format!("/v1/approvals/{}/decision", pending["items"][0].text("id"));
    browser
        .post(&path, json!({ "decision": "allow-once" }))
        .await
        .expect(200);
    let rest = tokio::task::spawn_blocking(move || {
        let rest: Vec<String> = lines.collect();
        (demo.wait().unwrap().code(), rest.join("\n"))
    });
    let (code, rest) = within("the end of the demo", rest).await.unwrap();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("completed") && rest.contains("audit: "), "{rest}");
}

#[test]
fn a_demo_that_is_ended_leaves_neither_server_nor_files() {
    let scratch = Scratch::new();
    let mut demo = countersign()
        .args(&["demo"])
        .env("HOME", scratch.path())
        .start(Stdio::null());
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let first = lines
        .find(|line| line.contains("state directory"))
        .expect("a place");
    let (_, state) = first.rsplit_once(' ').unwrap();
    lines.find(|line| line.contains("/login#code=")).expect("a link");
    let pid = Pid::from_raw(demo.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert!(!Path::new(state).exists(), "{state}");
}
