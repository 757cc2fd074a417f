//! The program is killed at every named point of a story, and the story must come out right all the same:
//! nothing ran without a record, nothing ran twice, no answer of a person was lost or used twice, nobody is left
//! running.

use std::path::{Path, PathBuf};

use countersign_sys::hooks;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, TestServer, eventually, lines, within, write_file_mode};

/// Each point is killed at on its first and on a later pass.
const PASSES: [u32; 3] = [1, 2, 4];

/// A test for each kill point, named after it, and the list of these points.
macro_rules! stories {
    ($($name:ident: $point:literal,)+) => {
        /// The tests and the points that they are about.
        const TOLD: &[(&str, &str)] = &[$((stringify!($name), $point)),+];

        mod killed_at {
            $(
                #[tokio::test]
                async fn $name() {
                    super::the_story_comes_out_right($point).await;
                }
            )+
        }
    };
}

stories! {
    engine_before_ask: "engine.before-ask",
    engine_asked: "engine.asked",
    engine_before_decide: "engine.before-decide",
    engine_decided: "engine.decided",
    engine_before_persist: "engine.before-persist",
    engine_persisted: "engine.persisted",
    engine_before_launch_approved: "engine.before-launch-approved",
    engine_approved_launched: "engine.approved-launched",
    engine_before_launch: "engine.before-launch",
    engine_launched: "engine.launched",
    engine_before_start: "engine.before-start",
    engine_frame_sent: "engine.frame-sent",
    engine_exit_received: "engine.exit-received",
    engine_finished: "engine.finished",
    engine_recover: "engine.recover",
    engine_recovered: "engine.recovered",
    runner_started: "runner.started",
    runner_frame_waiting: "runner.frame-waiting",
    runner_forked: "runner.forked",
    sup_order_taken: "sup.order-taken",
    sup_before_lock: "sup.before-lock",
    sup_locked: "sup.locked",
    sup_fence_written: "sup.fence-written",
    sup_child_started: "sup.child-started",
    sup_child_ended: "sup.child-ended",
    sup_before_exit_line: "sup.before-exit-line",
    sup_exit_line_written: "sup.exit-line-written",
    sup_exit_sent: "sup.exit-sent",
    sup_output_spooled: "sup.output-spooled",
}

#[test]
fn every_kill_point_has_a_story() {
    let named: Vec<(String, &str)> = hooks::POINTS
        .iter()
        .map(|point| (point.replace(['.', '-'], "_"), *point))
        .collect();
    let told: Vec<(String, &str)> = TOLD
        .iter()
        .map(|(name, point)| ((*name).to_owned(), *point))
        .collect();
    assert_eq!(told, named);
}

/// Tells the story once for each pass at which the program dies.
async fn the_story_comes_out_right(point: &str) {
    for pass in PASSES {
        let died = tell(&format!("{point}:{pass}")).await;
        let must_die = pass == 1 && in_server(point);
        assert!(died || !must_die, "the story never reached {point}");
    }
}

/// Whether the server itself dies at a point; else its runner or a supervisor does.
fn in_server(point: &str) -> bool {
    !point.starts_with("runner.") && !point.starts_with("sup.")
}

/// What the story knows of one request.
#[derive(Debug)]
struct Request {
    name: &'static str,
    body: Value,
    file: PathBuf,
    key: Option<String>,
    /// The run and the approval, once an answer named them.
    run: Option<String>,
    approval: Option<String>,
    /// The decision that was answered with `applied: true`.
    decided: Option<&'static str>,
    cancelled: bool,
}

#[derive(Debug)]
struct Story {
    server: TestServer,
    kill: String,
    deaths: u32,
}

async fn tell(kill: &str) -> bool {
    let server = TestServer::asking_with("timeout_ms = 60000")
        .toml("[shutdown]\ngrace_ms = 100\n")
        .prepare();
    let directory = server.scratch().dir("work");
    let covered = directory.join("covered");
    let asked = directory.join("asked");
    for program in [&covered, &asked] {
        write_file_mode(program, "#!/bin/sh\necho ran >> \"$1\"\necho said\n", 0o755);
    }
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": covered }] } } });
    write_file_mode(&server.document_path(), document.to_string(), 0o600);
    let mut story = Story {
        server,
        kill: kill.to_owned(),
        deaths: 0,
    };
    // Recovery has something to do only when a server died before.
    let in_recovery = kill.starts_with("engine.recover");
    story.start(!in_recovery).await;

    let request = |name: &'static str, program: &Path, more: Value| {
        let file = directory.join(format!("{name}.lines"));
        let mut body = json!({ "argv": [program, file], "workdir": directory });
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        Request {
            name,
            body,
            file,
            key: None,
            run: None,
            approval: None,
            decided: None,
            cancelled: false,
        }
    };
    let mut requests = vec![
        request("plain", &covered, json!({})),
        Request {
            key: Some("key-1".to_owned()),
            ..request("keyed", &covered, json!({}))
        },
        request("background", &covered, json!({ "background": true })),
        request("once", &asked, json!({ "env": { "TZ": "UTC" } })),
        request("always", &asked, json!({})),
        request("denied", &asked, json!({})),
        request("cancelled", &asked, json!({})),
        Request {
            key: Some("key-2".to_owned()),
            ..request("asked-keyed", &asked, json!({}))
        },
    ];
    for request in &mut requests {
        story.post(request).await;
    }
    if in_recovery {
        story.server.kill();
        story.start(true).await;
    }
    for request in &mut requests {
        match request.name {
            "once" | "asked-keyed" => story.decide(request, "allow-once").await,
            "always" => story.decide(request, "allow-always").await,
            "denied" => story.decide(request, "deny").await,
            "cancelled" => story.cancel(request).await,
            _ => {}
        }
    }
    for request in &mut requests {
        if request.key.is_some() {
            let known = request.run.clone();
            story.post(request).await;
            let same = known.is_none() || request.run.is_none() || known == request.run;
            assert!(
                same,
                "{kill}: the same key is the same run: {known:?} {request:?}"
            );
        }
    }
    story.finish_open(&mut requests).await;
    story.check(&requests).await;
    story.deaths > 0
}

impl Story {
    async fn start(&mut self, armed: bool) {
        let kill = self.kill.clone();
        let env: Vec<(&str, &str)> = if armed {
            vec![("COUNTERSIGN_TEST_KILL", kill.as_str())]
        } else {
            Vec::new()
        };
        if !self.server.start_until_ready_or_dead(&env).await {
            assert!(
                armed,
                "{kill}: the server does not come up again\n{}",
                self.server.log()
            );
            self.deaths += 1;
            self.server.start().await;
        }
    }

    /// Sends one request; when the server dies over it, starts it again and answers nothing.
    async fn attempt(
        &mut self,
        api: Api,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: &Value,
    ) -> Option<Answer> {
        let mut request = api.request(method, path).json(body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let what = format!("{}: an answer to {path} {body}", self.kill);
        if let Ok(answer) = within(&what, Api::try_send(request)).await {
            return Some(answer);
        }
        self.server.wait_killed().await;
        self.deaths += 1;
        assert_eq!(
            self.deaths,
            1,
            "{}: died again without being told to\n{}",
            self.kill,
            self.server.log()
        );
        self.start(false).await;
        None
    }

    async fn post(&mut self, request: &mut Request) {
        let agent = self.server.agent();
        let key = request.key.clone();
        let Some(answer) = self
            .attempt(agent, Method::POST, "/v1/exec", key.as_deref(), &request.body)
            .await
        else {
            return;
        };
        let body = answer.json();
        assert!(
            [200, 202].contains(&answer.status) || body["runId"].is_string(),
            "{}: {} {}",
            self.kill,
            request.name,
            answer.text()
        );
        request.run = body["runId"]
            .as_str()
            .map(str::to_owned)
            .or_else(|| request.run.take());
        request.approval = body["approvalId"]
            .as_str()
            .map(str::to_owned)
            .or_else(|| request.approval.take());
    }

    async fn decide(&mut self, request: &mut Request, decision: &'static str) {
        let Some(approval) = request.approval.clone() else {
            return;
        };
        let path = format!("/v1/approvals/{approval}/decision");
        let operator = self.server.operator();
        let body = json!({ "decision": decision });
        let first = self.attempt(operator, Method::POST, &path, None, &body).await;
        let (answer, again) = match first {
            Some(answer) => (answer, false),
            // Nobody knows whether it counted: saying the same again must be harmless.
            None => match self
                .attempt(self.server.operator(), Method::POST, &path, None, &body)
                .await
            {
                Some(answer) => (answer, true),
                None => return,
            },
        };
        let body = answer.expect(200);
        assert!(
            again || body["applied"] == true,
            "{}: {} {body}",
            self.kill,
            request.name
        );
        request.decided = Some(decision);
    }

    async fn cancel(&mut self, request: &mut Request) {
        let Some(run) = request.run.clone() else { return };
        let path = format!("/v1/runs/{run}/cancel");
        let agent = self.server.agent();
        if let Some(answer) = self.attempt(agent, Method::POST, &path, None, &json!({})).await {
            assert_eq!(answer.status, 200, "{}: {}", self.kill, answer.text());
            request.cancelled = true;
        }
    }

    /// Ends what is still open: denies questions nobody answered, waits for what runs.
    async fn finish_open(&mut self, requests: &mut [Request]) {
        // The kill may still come while the last runs end; then the server is started again, once.
        let what = format!("{}: settled or dead", self.kill);
        let server = &self.server;
        let look = || async move {
            if server.is_running() {
                deny_pending_and_count_open(server.operator()).await
            } else {
                Some(0)
            }
        };
        eventually(&what, look, |open| *open == Some(0)).await;
        if !self.server.is_running() {
            self.server.wait_killed().await;
            self.deaths += 1;
            assert_eq!(self.deaths, 1, "{}: died again\n{}", self.kill, self.server.log());
            self.start(false).await;
        }
        let open = || async {
            let operator = self.server.operator();
            for approval in operator.pending().await {
                operator.decide(approval.text("id"), "deny").await;
            }
            let runs = self.runs().await;
            runs.into_iter().filter(|run| !is_final(run)).collect::<Vec<_>>()
        };
        eventually("settled", open, Vec::is_empty).await;
        let runs = self.runs().await;
        for request in requests {
            let file = request.file.to_str().expect("a path");
            let of_request: Vec<&Value> = runs
                .iter()
                .filter(|run| {
                    run["argv"]
                        .as_array()
                        .is_some_and(|argv| argv.iter().any(|word| word == file))
                })
                .collect();
            assert!(
                of_request.len() <= 1,
                "{}: {} has more than one run: {of_request:#?}",
                self.kill,
                request.name
            );
            let recorded = of_request.first().map(|run| run.text("runId").to_owned());
            if let Some(run) = &request.run {
                assert_eq!(
                    recorded.as_ref(),
                    Some(run),
                    "{}: {} was answered",
                    self.kill,
                    request.name
                );
            }
            request.run = recorded;
        }
    }

    async fn runs(&self) -> Vec<Value> {
        let list = self.server.operator().read("/v1/runs?limit=100").await;
        list["items"].as_array().cloned().expect("items")
    }

    /// The same must hold now, after another start, and after a third one.
    async fn check(&mut self, requests: &[Request]) {
        let before = self.facts(requests).await;
        for request in requests {
            self.check_request(request).await;
        }
        self.server.crash_and_restart().await;
        eventually("settled again", || self.runs(), |runs| runs.iter().all(is_final)).await;
        let after = self.facts(requests).await;
        assert_eq!(after, before, "{}: another start changes nothing", self.kill);
        let verified = self.server.operator().read("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{}: {verified}", self.kill);
    }

    async fn facts(&self, requests: &[Request]) -> Vec<(String, String, usize)> {
        let runs = self.runs().await;
        requests
            .iter()
            .map(|request| {
                let run = runs
                    .iter()
                    .find(|run| run["runId"].as_str() == request.run.as_deref());
                let status = run
                    .map(|run| format!("{} {}", run["status"], run["reason"]))
                    .unwrap_or_default();
                (request.name.to_owned(), status, lines(&request.file).len())
            })
            .collect()
    }

    async fn check_request(&self, request: &Request) {
        let kill = &self.kill;
        let name = request.name;
        let ran = lines(&request.file).len();
        assert!(ran <= 1, "{kill}: {name} ran {ran} times");
        let Some(run_id) = &request.run else {
            assert_eq!(ran, 0, "{kill}: {name} ran without a record");
            return;
        };
        let run = self.server.operator().run(run_id).await;
        match run.text("status") {
            "completed" => {
                assert_eq!(ran, 1, "{kill}: {name} completed");
                assert_eq!(run["stdout"], "said\n", "{kill}: {name}");
            }
            "denied" => assert_eq!(ran, 0, "{kill}: {name} was denied"),
            "failed" => {
                assert_eq!(run["reason"], "not-started", "{kill}: {name}: {run}");
                assert_eq!(ran, 0, "{kill}: {name} was never started");
            }
            "lost" | "cancelled" => {}
            status => panic!("{kill}: {name} ended {status}"),
        }
        let decided = request.decided;
        if let Some(approval) = run["approvalId"].as_str() {
            let approval = self.server.operator().approval(approval).await;
            let consumed = approval["consumedAtMs"].is_i64();
            let allowed = approval["status"] == "allowed";
            assert!(!consumed || allowed, "{kill}: {name}: {approval}");
            assert!(
                ran == 0 || consumed,
                "{kill}: {name} ran without using its approval up: {approval}"
            );
            if let Some(decision) = decided {
                assert_has!(approval, { "decision": decision }, "{kill}: {name}: the answer counts");
                // With nothing lost on the way, what was allowed has run.
                if decision != "deny" {
                    let ended = run.text("status");
                    assert_ne!(ended, "denied", "{kill}: {name} was allowed: {run}");
                }
            }
            if request.cancelled {
                assert_eq!(approval["status"], "cancelled", "{kill}: {name}");
            }
        }
        if decided == Some("deny") {
            assert_eq!(run["reason"], "user-denied", "{kill}: {name}");
        }
    }
}

/// How many runs are open; `None` when the server did not answer.
async fn deny_pending_and_count_open(operator: Api) -> Option<usize> {
    let get = async |path: &str| {
        Some(
            Api::try_send(operator.request(Method::GET, path))
                .await
                .ok()?
                .json(),
        )
    };
    for approval in get("/v1/approvals").await?["items"].as_array()? {
        let path = format!("/v1/approvals/{}/decision", approval["id"].as_str()?);
        let deny = operator
            .request(Method::POST, &path)
            .json(&json!({ "decision": "deny" }));
        Api::try_send(deny).await.ok()?;
    }
    let runs = get("/v1/runs?limit=100").await?;
    Some(
        runs["items"]
            .as_array()?
            .iter()
            .filter(|run| !is_final(run))
            .count(),
    )
}

fn is_final(run: &Value) -> bool {
    matches!(
        run["status"].as_str(),
        Some("completed" | "failed" | "denied" | "cancelled" | "lost")
    )
}
