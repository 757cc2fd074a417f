//! For authors of gateways: `serve --mock` plays a script in the forms of a server, and `check-gateway` finds what a
//! gateway does wrong. The gateway is the one of `docs/gateways.md`, as it stands there and with one thing broken.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use reqwest::{Method, header::ACCEPT};
use serde_json::{Value, json};

use crate::support::{
    Api, Finished, Invocation, Members, Scratch, TestServer, countersign, pid_of, program, run_long_program,
    run_program, skip, terminate, write_file,
};

/// The slowest case takes some seconds by the script; a busy machine more.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program that prints where it listens, and ends with this.
struct Listener {
    child: Child,
    first_line: String,
}

impl Listener {
    fn start(invocation: &Invocation) -> Self {
        let mut child = invocation.start(Stdio::null());
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut first_line = String::new();
        BufReader::new(stdout)
            .read_line(&mut first_line)
            .expect("a first line");
        Self {
            child,
            first_line: first_line.trim().to_owned(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        terminate(pid_of(&self.child));
        drop(self.child.wait());
    }
}

/// A mock that plays a script.
struct Mock {
    listener: Listener,
    ready: Value,
    home: Scratch,
}

impl Mock {
    fn playing(script: &Value) -> Self {
        let home = Scratch::new();
        let file = home.join("script.json");
        write_file(&file, script.to_string());
        let file = file.display().to_string();
        let call = countersign()
            .args(&["--json", "serve", "--listen", "127.0.0.1:0", "--mock", &file])
            .env("HOME", home.path());
        let listener = Listener::start(&call);
        let ready = serde_json::from_str(&listener.first_line).expect("a ready line in JSON");
        Self {
            listener,
            ready,
            home,
        }
    }

    fn api(&self) -> Api {
        Api::new(self.ready.text("url"), Some(self.ready.text("token").to_owned()))
    }

    fn cli(&self, arguments: &[&str]) -> Finished {
        let call = countersign()
            .args(&["--state-dir", self.ready.text("stateDir")])
            .args(arguments)
            .env("HOME", self.home.path());
        run_program(&call)
    }
}

/// The names of the members of an object.
fn members(value: &Value) -> Vec<&str> {
    let members = value.as_object().expect("an object").keys();
    let mut names: Vec<&str> = members
        .map(String::as_str)
        .filter(|name| *name != "mock")
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_script_is_played_in_the_forms_of_a_server() {
    let mock = Mock::playing(&json!([
        {"command": "/bin/true"},
        {"command": "/bin/date", "answer": "deny", "afterMs": 0, "reason": "not today"},
        {"command": "sleep", "answer": "allow", "afterMs": 3_600_000},
    ]));
    let api = mock.api();
    assert_has!(api.read("/readyz").await, { "status": "ready", "mock": true });
    let server = TestServer::asking()
        .allowlist(&json!([{ "pattern": "/bin/true" }, { "pattern": "/usr/bin/true" }]))
        .start()
        .await;
    let gateway = server.agent();
    let operator = server.operator();

    // A run that ends at once.
    let body = json!({ "argv": ["/bin/true"] });
    let (real, played) = (gateway.ran(body.clone()).await, api.ran(body).await);
    assert_eq!(members(&played), members(&real));
    assert_has!(played, { "mock": true, "status": "completed", "exitCode": 0 });
    let path = |answer: &Value| format!("/v1/runs/{}", answer.text("runId"));
    let (real, played) = (gateway.read(&path(&real)).await, api.read(&path(&played)).await);
    let only_real: Vec<&str> = members(&real)
        .into_iter()
        .filter(|name| !members(&played).contains(name))
        .collect();
    // No process, and no kernel that keeps anything.
    assert!(
        only_real
            .iter()
            .all(|name| ["pid", "confinement", "confined"].contains(name)),
        "{only_real:?}"
    );

    // A question, its denial, and the problem under the same key.
    let body = json!({ "argv": ["/bin/date"] });
    let real = gateway.exec_with_key("k", body.clone()).await;
    let played = api.exec_with_key("k", body.clone()).await;
    for header in ["location", "retry-after", "link"] {
        assert_eq!(
            played.headers.contains_key(header),
            real.headers.contains_key(header),
            "{header}"
        );
    }
    let (real, played) = (real.expect(202), played.expect(202));
    assert_eq!(members(&played), members(&real));
    // Its links open: the run with a token, and the page of the question without one.
    let place = |link: &str| {
        let link = played.text(link);
        let place = link.strip_prefix(mock.ready.text("url"));
        place.unwrap_or_else(|| panic!("{link} leads away")).to_owned()
    };
    let run = api.read(&place("statusUrl")).await;
    assert_has!(run, { "runId": played.text("runId"), "mock": true });
    let anybody = api.with_token(None);
    let question = anybody.read(&place("approvalUrl")).await;
    assert_has!(question, { "approvalId": played.text("approvalId"), "statusUrl": played.text("statusUrl"), "mock": true });
    let browser = anybody
        .request(Method::GET, &place("approvalUrl"))
        .header(ACCEPT, "text/html");
    let page = anybody.send(browser).await;
    assert_eq!(
        (page.status, page.header("countersign-mock")),
        (200, Some("true"))
    );
    assert!(page.text().contains("This is a mock"), "{}", page.text());
    anybody
        .get("/a/0198aaaa-bbbb")
        .await
        .problem(404, "approval-not-found");
    let events = api.request(Method::GET, "/v1/events?types=exec.approval.requested");
    let events = api
        .send(events.header(ACCEPT, "application/json"))
        .await
        .expect(200);
    for link in ["statusUrl", "approvalUrl"] {
        assert_eq!(events["items"][0][link], played[link], "{events}");
    }
    operator
        .posted(
            &format!("/v1/approvals/{}/decision", real.text("approvalId")),
            json!({ "decision": "deny", "reason": "not today" }),
        )
        .await;
    let ended = api.read(&format!("{}?waitMs=30000", path(&played))).await;
    assert_has!(ended, { "status": "denied", "userReason": "not today", "decidedBy/kind": "person" });
    let real = gateway.exec_with_key("k", body.clone()).await.expect(403);
    let played = api.exec_with_key("k", body).await.expect(403);
    assert_eq!(members(&played), members(&real));
    for member in [
        "code",
        "reason",
        "userReason",
        "agentMessage",
        "title",
        "retryable",
    ] {
        assert_eq!(played[member], real[member], "{member}");
    }

    // The same refusals in the same words.
    for body in [
        json!({}),
        json!({ "command": "x", "secuirty": "deny" }),
        json!({ "argv": "x" }),
    ] {
        let (real, played) = (gateway.exec(body.clone()).await, api.exec(body).await);
        assert_eq!(played.expect(400)["detail"], real.expect(400)["detail"]);
    }
    // A command that the script does not know is refused, and what is no path of a gateway is not there.
    api.denied(json!({ "command": "rm -rf /" }))
        .await
        .says("detail", "no rule");
    assert_has!(api.get("/v1/tokens").await.expect(404), { "code": "not-found", "mock": true });
    let brief = api.get("/v1/runs?view=brief&limit=1").await.expect(200);
    assert!(
        brief["items"][0]["line"].is_string() && brief["items"][0]["cwd"].is_null(),
        "{brief}"
    );
    let stranger = api.with_token(None).get("/v1/runs").await;
    assert_has!(stranger.expect(401), { "code": "unauthorized", "mock": true });

    // Another body under a key, one question for the same call, and one that is called off.
    let mismatch = api.exec_with_key("k", json!({ "argv": ["/bin/true"] })).await;
    assert_has!(mismatch.expect(422), { "code": "idempotency-mismatch" });
    let waits = json!({ "command": "sleep" });
    let first = api.accepted(waits.clone()).await;
    let joined = api.accepted(waits).await;
    assert_has!(joined, { "joined": true, "runId": first.text("runId") });
    assert_has!(api.cancel(first.text("runId")).await, { "status": "cancelled" });

    // Nothing of it ran, and nothing stays.
    let state_dir = mock.ready.text("stateDir").to_owned();
    assert!(Path::new(&state_dir).is_dir());
    drop(mock.listener);
    assert!(!Path::new(&state_dir).exists());
}

#[tokio::test]
async fn events_of_a_mock_resume_and_are_marked() {
    let mock = Mock::playing(&json!([{"answer": "allow", "afterMs": 200, "stdout": "out\n"}]));
    let api = mock.api();
    let mut stream = api.events("?types=exec.", None).await;
    let run = api.accepted(json!({ "command": "x" })).await;
    let mut kinds = Vec::new();
    let mut last = None;
    while kinds.last().is_none_or(|kind| kind != "exec.finished") {
        let event = stream.next().await;
        assert_has!(event.data, { "mock": true, "runId": run.text("runId"), "type": event.kind });
        last = event.id;
        kinds.push(event.kind);
    }
    assert_eq!(
        kinds,
        [
            "exec.requested",
            "exec.approval.requested",
            "exec.approval.resolved",
            "exec.started",
            "exec.finished"
        ]
    );
    let again = api.events("", last.map(|last| last - 1)).await.next().await;
    assert_eq!((again.id, again.kind.as_str()), (last, "exec.finished"));
    let path = format!("/v1/runs/{}/output", run.text("runId"));
    assert_eq!(api.get_bytes(&path, None).await.bytes, "out\n");
    assert_eq!(api.get_bytes(&path, Some("bytes=1-1")).await.bytes, "u");
    assert_eq!(
        api.get_bytes(&format!("{path}?follow=1"), None).await.bytes,
        "out\n"
    );
}

#[test]
fn the_command_line_takes_a_mock_for_a_server() {
    let mock = Mock::playing(&json!([
        {"command": "make", "answer": "allow", "afterMs": 100, "exitCode": 3, "stdout": "out\n", "stderr": "err\n"},
        {"command": "git*", "answer": "deny", "afterMs": 100, "reason": "use staging"},
    ]));
    let made = mock.cli(&["exec", "--", "make"]);
    assert_eq!((made.code, made.stdout.as_str()), (Some(3), "out\n"), "{made:?}");
    made.complains("err\n");
    let denied = mock.cli(&["exec", "--", "git", "push"]);
    assert_eq!(denied.code, Some(77), "{denied:?}");
    denied.complains("use staging");

    // Its lists take what those of a server take.
    let runs = mock.cli(&["runs", "list", "-o", "name", "--since", "1h"]);
    assert_eq!((runs.code, runs.stdout.lines().count()), (Some(0), 2), "{runs:?}");
    let short = runs.stdout.trim().rsplit('\n').next().expect("a run").to_owned();
    let shown = mock.cli(&["runs", "show", &short[short.len() - 8..]]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    shown.says("make");
    for times in [&["--until", "1h"][..], &["--since", "2999-01-01T00:00:00Z"]] {
        for list in [&["runs", "list"][..], &["events"]] {
            let none = mock.cli(&[list, &["-o", "name"], times].concat());
            assert_eq!(
                (none.code, none.stdout.as_str()),
                (Some(0), ""),
                "{list:?}: {none:?}"
            );
        }
    }
    let newest = mock.cli(&["events", "-o", "name", "--limit", "2"]);
    let all = mock.cli(&["events", "-o", "name", "--oldest-first"]);
    let mut last: Vec<&str> = all.stdout.lines().rev().take(2).collect();
    last.sort_unstable();
    let mut first: Vec<&str> = newest.stdout.lines().collect();
    first.sort_unstable();
    assert_eq!(first, last, "{newest:?} {all:?}");
}

#[test]
fn the_status_of_a_mock_is_what_a_mock_has() {
    let mock = Mock::playing(&json!([
        {"command": "git*", "answer": "deny", "afterMs": 0, "reason": "use staging"},
        {"answer": "allow", "afterMs": 3_600_000},
    ]));
    assert_eq!(mock.cli(&["exec", "--", "git", "push"]).code, Some(77));
    assert_eq!(mock.cli(&["exec", "--no-wait", "--", "make"]).code, Some(75));
    let status = mock.cli(&["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    for part in [
        "a mock of countersign ",
        "\nstate        ready\n",
        "nothing runs\n",
        "\nwaiting      1, the oldest for ",
        "main (user-denied): git push\n",
    ] {
        status.says(part);
    }
    let status = mock.cli(&["status", "--json"]);
    let document: Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_has!(document, { "mock": true, "ready": true, "waiting/count": 1 });
    assert_eq!(document.get("isolation"), None);
}

#[test]
fn only_the_flag_makes_a_mock_and_it_stays_on_this_machine() {
    let home = Scratch::new();
    let serve = |arguments: &[&str]| {
        let call = countersign()
            .args(&["serve"])
            .args(arguments)
            .env("HOME", home.path());
        run_program(&call)
    };
    for (arguments, complaint) in [
        (&["--mock", "--listen", "0.0.0.0:0"][..], "loopback only"),
        (&["--mock", "--listen", "[::]:0"], "loopback only"),
        (
            &["--mock", "--listen", "example:1"],
            "expected an address and a port",
        ),
        (&["--mock", "--state-dir", "/tmp"], "leave out --state-dir"),
        (&["--mock", "--run-as", "nobody"], "cannot be used with"),
        (&["--mock", "--config", "x.toml"], "cannot be used with"),
        (&["--mock", "/nowhere/script.yaml"], "/nowhere/script.yaml"),
    ] {
        let refused = serve(arguments);
        assert_eq!(refused.code, Some(64), "{arguments:?}: {refused:?}");
        refused.complains(complaint);
    }
    write_file(&home.join("bad.yaml"), "- command: x\n  answer: perhaps\n");
    let bad = serve(&["--mock", &home.join("bad.yaml").display().to_string()]);
    assert_eq!(bad.code, Some(64), "{bad:?}");
    bad.complains("perhaps");
    assert!(!home.join(".openclaw").exists(), "it used the state directory");
}

/// The gateway of the documentation, with some of its text replaced.
fn gateway(python: &Path, folder: &Scratch, broken: &[(&str, &str)]) -> Listener {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gateways.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, block) = page.split_once("```python\n").expect("the gateway");
    let (code, _) = block.split_once("```").expect("its end");
    let code = broken.iter().fold(code.to_owned(), |code, (from, to)| {
        assert!(code.contains(from), "{from}");
        code.replace(from, to)
    });
    let file = folder.join("gateway.py");
    write_file(&file, code);
    Listener::start(&Invocation::new(python).arg(file))
}

fn check(gateway: &Listener, cases: &[&str]) -> (Finished, Value) {
    let mut call = countersign().args(&["check-gateway", "--json", &gateway.first_line]);
    for case in cases {
        call = call.args(&["--case", case]);
    }
    let done = run_long_program(&call, PATIENCE);
    let report = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    (done, report)
}

#[test]
fn the_gateway_of_the_documentation_passes_every_case() {
    let Some(python) = program("python3") else {
        return skip("python3 is not installed");
    };
    let folder = Scratch::new();
    let gateway = gateway(&python, &folder, &[]);
    let (done, report) = check(&gateway, &[]);
    assert_eq!(done.code, Some(0), "{report:#}");
    assert_eq!(report.list("cases").len(), 8, "{report:#}");
    assert!(
        report.list("cases").iter().all(|case| case["passed"] == true),
        "{report:#}"
    );
}

#[test]
fn a_gateway_with_one_fault_fails_the_case_of_that_fault() {
    let Some(python) = program("python3") else {
        return skip("python3 is not installed");
    };
    for (case, broken, finding) in [
        (
            "pending",
            (
                r#"while answer["status"] in"#,
                r#"while False and answer["status"] in"#,
            ),
            "reported `approval-pending`",
        ),
        (
            "denied",
            (r#""message": answer.get("agentMessage", "")"#, r#""message": """#),
            "does not say what the person said",
        ),
        (
            "expired",
            (r#""message": answer.get("agentMessage", "")"#, r#""message": """#),
            "there is no message",
        ),
        (
            "retried-key",
            (r#"headers["Idempotency-Key"] = key"#, "pass"),
            "no Idempotency-Key",
        ),
        (
            "lost-stream",
            (
                "except (OSError, http.client.HTTPException)",
                "except ZeroDivisionError",
            ),
            "did not answer",
        ),
        (
            "rate-limited",
            (r#"float(error.headers.get("Retry-After", 1))"#, "0.1"),
            "Retry-After said 1 s",
        ),
        (
            "restart",
            (
                "except (OSError, http.client.HTTPException)",
                "except ZeroDivisionError",
            ),
            "did not answer",
        ),
        (
            "large-output",
            (
                r#""truncated": answer.get("truncated", False)"#,
                r#""truncated": False"#,
            ),
            "did not say `truncated`",
        ),
    ] {
        let folder = Scratch::new();
        let gateway = gateway(&python, &folder, &[broken]);
        let (done, report) = check(&gateway, &[case]);
        assert_eq!(done.code, Some(1), "{case}: {report:#}");
        let findings = report["cases"][0]["findings"].to_string();
        assert!(findings.contains(finding), "{case}: {report:#}");
    }
}

#[test]
fn a_url_where_nothing_answers_is_no_gateway() {
    let call = countersign().args(&["check-gateway", "http://127.0.0.1:9/", "--case", "pending"]);
    let done = run_program(&call);
    assert_eq!(done.code, Some(69), "{done:?}");
    done.complains("note: start the gateway");
}
