use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use super::{LEGACY, OLDER, append_line, call, initialize, texts};
use crate::support::{Api, Invocation, Members, TestServer, eventually, lines, only};

/// `countersign mcp` and both ends of its talk.
struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    messages: mpsc::Receiver<Value>,
}

impl Talk {
    fn start(server: &TestServer) -> Self {
        Self::start_as(&server.invocation(&["mcp"]))
    }

    fn start_as(invocation: &Invocation) -> Self {
        let mut child = invocation.start_interactive();
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines() {
                let line = line.expect("a line");
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            messages,
        }
    }

    fn connected(server: &TestServer, capabilities: &Value) -> Self {
        Self::start(server).greeted(LEGACY, capabilities)
    }

    /// Shakes hands.
    fn greeted(mut self, version: &str, capabilities: &Value) -> Self {
        let talk = &mut self;
        let hello = talk.ask(&initialize(version, capabilities));
        assert_eq!(hello["result"]["serverInfo"]["name"], "countersign", "{hello}");
        talk.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }

    fn say(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("an open input");
        writeln!(input, "{message}").expect("writing a message");
    }

    fn hear(&self) -> Value {
        self.messages
            .recv_timeout(std::time::Duration::from_mins(1))
            .expect("a message")
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        self.hear()
    }

    /// Closes the input and waits for the end.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("the end").code()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn talked<T: Send + 'static>(talk: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(talk).await.expect("the talk")
}

async fn running(api: &Api) -> Vec<Value> {
    let runs = api.read("/v1/runs?status=running").await;
    runs.list("items").clone()
}

#[tokio::test]
async fn commands_run_by_way_of_the_server_and_the_end_of_input_is_the_end() {
    let server = TestServer::full().start().await;
    let mut talk = Talk::connected(&server, &json!({}));
    let code = talked(move || {
        let tools = talk.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(4));
        let answer = talk.ask(&call(2, "exec", &json!({"command": "echo hi; exit 4"})));
        let result = &answer["result"];
        assert_has!(result["structuredContent"], {"status": "failed", "exitCode": 4, "stdout": "hi\n"});
        assert_eq!(texts(result)[0], "hi\n");
        let refused = talk.ask(&call(3, "exec", &json!({"command": "x", "typo": 1})));
        assert_eq!(refused["result"]["structuredContent"]["code"], "invalid-request");
        talk.end()
    })
    .await;
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn a_question_is_asked_once_and_survives_the_server() {
    let mut server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let command = append_line(&file);
    let mut talk = Talk::connected(&server, &json!({}));
    let message = call(1, "exec", &command);
    let (mut talk, first) = talked(move || {
        let answer = talk.ask(&message);
        (talk, answer)
    })
    .await;
    let id = first["result"]["structuredContent"].text("approvalId").to_owned();
    server.crash_and_restart().await;
    server.operator().decided(&id, "allow-once").await;
    let message = call(
        2,
        "exec",
        &json!({"command": command["command"], "approvalWaitMs": 60_000}),
    );
    let second = talked(move || talk.ask(&message)).await;
    assert_eq!(
        only(&second["result"]["structuredContent"], &["status", "approvalId"]),
        json!({"status": "completed", "approvalId": id}),
        "{second}"
    );
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn the_answer_to_a_shown_link_decides_nothing() {
    let server = TestServer::asking().start().await;
    let mut talk = Talk::connected(&server, &json!({"elicitation": {"url": {}}}));
    talked(move || {
        talk.say(&call(1, "exec", &json!({"argv": ["id"]})));
        let (first, second) = (talk.hear(), talk.hear());
        let (shown, answer) = if first["method"] == "elicitation/create" {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(shown["params"]["mode"], "url", "{shown}");
        talk.say(&json!({"jsonrpc": "2.0", "id": shown["id"], "result": {"action": "accept"}}));
        let pending = &answer["result"]["structuredContent"];
        assert_eq!(pending["status"], "approval-pending");
        talk.say(&call(2, "exec", &json!({"argv": ["id"]})));
        let again = loop {
            let message = talk.hear();
            if message["id"] == 2 && message.get("result").is_some() {
                break message;
            }
        };
        assert_eq!(
            again["result"]["structuredContent"]["approvalId"],
            pending["approvalId"]
        );
    })
    .await;
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_taken_back_or_left_behind_ends_its_run() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for leaves in [false, true] {
        let mut talk = Talk::connected(&server, &json!({}));
        talk.say(&call(9, "exec", &json!({"argv": ["sleep", "1000"]})));
        let run = eventually("running", || running(&operator), |runs| !runs.is_empty()).await;
        if leaves {
            drop(talk);
        } else {
            talk.say(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}),
            );
        }
        let run = server.agent().finished(run[0].text("runId")).await;
        assert_eq!(run["status"], "cancelled", "left: {leaves}");
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_and_made_again_joins_its_question() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let file = server.scratch().join("lines");
    let arguments = json!({"command": append_line(&file)["command"], "approvalWaitMs": 60_000});
    let mut talk = Talk::start(&server).greeted(OLDER, &json!({}));
    talk.say(&call(5, "exec", &arguments));
    let pending = operator.waiting().await;
    let id = pending[0].text("id").to_owned();
    talk.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    talk.say(&call(6, "exec", &append_line(&file)));
    let (talk, again) = talked(move || {
        let again = loop {
            let message = talk.hear();
            if message["id"] == 6 {
                break message;
            }
        };
        (talk, again)
    })
    .await;
    assert_eq!(again["result"]["structuredContent"]["approvalId"], id, "{again}");
    assert_eq!(operator.pending().await.len(), 1);
    operator.decided(&id, "allow-once").await;
    let mut talk = talk;
    let done = talked(move || talk.ask(&call(7, "exec", &arguments))).await;
    assert_has!(done, { "result/structuredContent/status": "completed" });
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn a_call_whose_answer_crossed_its_withdrawal_runs_once_when_it_is_made_again() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("lines");
    let arguments = append_line(&file);
    let mut talk = Talk::start(&server).greeted(OLDER, &json!({}));
    let (first, again) = talked(move || {
        let first = talk.ask(&call(5, "exec", &arguments));
        talk.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
        // By its answer the notification has been heard.
        talk.ask(&call(6, "exec_explain", &arguments));
        (first, talk.ask(&call(7, "exec", &arguments)))
    })
    .await;
    let run = |answer: &Value| answer["result"]["structuredContent"]["runId"].clone();
    assert!(run(&first).is_string(), "{first}");
    assert_eq!(run(&first), run(&again), "{again}");
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn without_a_server_calls_are_refused_and_later_ones_find_it() {
    let mut server = TestServer::full().prepare();
    let mut talk = Talk::connected(&server, &json!({}));
    let (mut talk, answer) = talked(move || {
        let answer = talk.ask(&call(1, "exec", &json!({"argv": ["true"]})));
        (talk, answer)
    })
    .await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    server.start().await;
    let answer = talked(move || talk.ask(&call(2, "exec", &json!({"argv": ["true"]})))).await;
    assert_has!(answer, { "result/structuredContent/status": "completed" });
}

#[tokio::test]
async fn commands_run_in_the_directory_that_it_was_started_in_or_is_told() {
    let server = TestServer::full().start().await;
    let [project, other, gone] = ["project", "other", "gone"].map(|name| server.scratch().dir(name));
    let other_text = other.display().to_string();
    let workspace = server.state().join("workspace");
    let here = server.invocation(&["mcp"]).cwd(&project);
    let told = server.invocation(&["mcp", "--workdir", "../other"]).cwd(&project);
    let nowhere = server.invocation(&["mcp"]).cwd(&gone);
    for (invocation, expected, named) in [
        (here, &project, &project),
        (told, &other, &other),
        (nowhere, &workspace, &gone),
    ] {
        let mut talk = Talk::start_as(&invocation).greeted(LEGACY, &json!({}));
        if *named == gone {
            std::fs::remove_dir(&gone).expect("the directory goes");
        }
        let (tools, ran, elsewhere) = talked({
            let other = other_text.clone();
            move || {
                let tools = talk.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
                let ran = talk.ask(&call(2, "exec", &json!({"command": "pwd"})));
                let elsewhere = talk.ask(&call(3, "exec", &json!({"command": "pwd", "workdir": other})));
                (tools, ran, elsewhere)
            }
        })
        .await;
        let exec = &tools["result"]["tools"][0]["description"];
        let exec = exec.as_str().expect("a description");
        assert!(exec.contains(&named.display().to_string()), "{exec}");
        let stdout = |answer: &Value| answer["result"]["structuredContent"]["stdout"].clone();
        assert_eq!(stdout(&ran), format!("{}\n", expected.display()), "{ran}");
        assert_eq!(stdout(&elsewhere), format!("{other_text}\n"), "{elsewhere}");
    }
    // One that was told, and is not there, is no reason to run elsewhere.
    let wrong = server.invocation(&["mcp", "--workdir", "/no/such/place"]);
    let mut talk = Talk::start_as(&wrong).greeted(LEGACY, &json!({}));
    let refused = talked(move || talk.ask(&call(2, "exec", &json!({"command": "pwd"})))).await;
    assert_has!(refused, { "result/structuredContent/code": "workdir-unavailable" });
}

#[tokio::test]
async fn lines_that_are_no_messages_do_not_end_it() {
    let server = TestServer::full().start().await;
    let mut talk = Talk::connected(&server, &json!({}));
    talked(move || {
        for line in ["", "{", "[]", "null", "\u{1b}[2J"] {
            let input = talk.input.as_mut().expect("an open input");
            writeln!(input, "{line}").expect("writing a line");
        }
        talk.say(&call(3, "exec", &json!({"argv": ["true"]})));
        loop {
            let message = talk.hear();
            if message["id"] == 3 {
                assert_eq!(message["result"]["structuredContent"]["status"], "completed");
                return;
            }
            assert!(message["error"].is_object(), "{message}");
        }
    })
    .await;
}
