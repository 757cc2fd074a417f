//! Calls of the system fail, one after the other, while a server works: at every point of `docs/faults.md`, with every
//! error that fits. What is promised then is the same each time:
//!
//! * a call is answered before its own deadline and five seconds, with a success or with a problem of the closed set;
//! * what ran has a record, what has no record did not run, and nothing ran twice;
//! * once the fault is gone, the server works again without a restart, and no run stays open.

mod at_start;
mod database;
mod files;
mod patches;
mod register;
mod run_files;
mod supervisors;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use countersign_sys::faults::{self, Point};
use serde_json::{Value, json};

use crate::support::{
    Answer, Api, Members, Scratch, ServerBuilder, TestServer, eventually, lines, soon, write_file_mode,
};

/// Most that a call may take beyond what it waits for, no matter what fails.
const BEYOND: Duration = Duration::from_secs(5);

/// What a call here waits for its run.
const YIELD: Duration = Duration::from_secs(2);

/// Codes of the answers to a call that could not be served for want of a working disk.
const TROUBLE: [&str; 2] = ["storage-full", "storage-unavailable"];

/// The faults of one server.
#[derive(Debug)]
struct Faults(Scratch);

impl Faults {
    fn new() -> Self {
        Self(Scratch::new())
    }

    /// The server with these faults.
    fn of(&self, server: ServerBuilder) -> ServerBuilder {
        let directory = self.0.path();
        server.env(faults::VARIABLE, directory.to_str().expect("text"))
    }

    fn arm(&self, point: &str, fault: &str) {
        let met = self.met(point);
        if met.exists() {
            fs::remove_dir(&met).expect("the mark of an earlier fault");
        }
        std::os::unix::fs::symlink(fault, self.0.join(point)).expect("a link");
    }

    /// Everything works again. Whether the point was passed meanwhile.
    fn disarm(&self, point: &str) -> bool {
        // One that fails once took it away itself.
        drop(fs::remove_file(self.0.join(point)));
        self.met(point).exists()
    }

    fn met(&self, point: &str) -> PathBuf {
        self.0.join(&format!("{point}.met"))
    }

    /// Waits until a call has failed there.
    async fn until_met(&self, point: &str) {
        soon(point, || self.met(point).exists(), |met| *met).await;
    }
}

/// A server with faults, and the calls that were made.
#[derive(Debug)]
struct Story {
    server: TestServer,
    faults: Faults,
    directory: PathBuf,
    /// The calls since the last look at what became of them.
    calls: Vec<Called>,
    number: u32,
}

/// A call that asked for a command.
#[derive(Debug)]
struct Called {
    /// What the command writes, and nobody else's does.
    name: String,
    status: u16,
    body: Value,
}

impl Story {
    /// Calls succeed although they pass these points.
    async fn works_despite(&mut self, points: &[Point]) {
        for (point, fault) in each(points) {
            let what = format!("{} {fault}", point.name);
            // More runs than files are kept of.
            self.works().await;
            self.faults.arm(point.name, fault);
            self.works().await;
            self.run_with_key().await;
            assert!(self.faults.disarm(point.name), "{what}");
            self.settle(&what).await;
        }
    }

    /// Calls succeed while the server itself comes to these points.
    async fn works_beside(&mut self, points: &[Point]) {
        for (point, fault) in each(points) {
            self.faults.arm(point.name, fault);
            self.works().await;
            self.faults.until_met(point.name).await;
            self.works().await;
            self.faults.disarm(point.name);
            self.settle(&format!("{} {fault}", point.name)).await;
        }
    }

    async fn begin(server: ServerBuilder) -> Self {
        let faults = Faults::new();
        let server = faults.of(server).prepare();
        let directory = server.scratch().dir("work");
        for program in ["covered", "asked"] {
            let text = "#!/bin/sh\necho \"$1\" >> ran\necho said\n";
            write_file_mode(&directory.join(program), text, 0o755);
        }
        let covered = json!([{ "pattern": directory.join("covered") }]);
        let document = json!({ "version": 1, "agents": { "main": { "allowlist": covered } } });
        write_file_mode(&server.document_path(), document.to_string(), 0o600);
        let mut story = Self {
            server,
            faults,
            directory,
            calls: Vec::new(),
            number: 0,
        };
        story.server.start().await;
        story
    }

    /// A call of a program, and the name that the program writes.
    fn call(&mut self, program: &str) -> (String, Value) {
        self.number += 1;
        let name = format!("{program}-{}", self.number);
        let argv = [self.directory.join(program), PathBuf::from(&name)];
        let wait = u64::try_from(YIELD.as_millis()).expect("a short time");
        let body = json!({ "argv": argv, "workdir": self.directory, "yieldMs": wait });
        (name, body)
    }

    fn called(&mut self, name: String, answer: &Answer) {
        self.calls.push(Called {
            name,
            status: answer.status,
            body: answer.json(),
        });
    }

    /// A run that nobody is asked about.
    async fn run(&mut self) -> Answer {
        let (name, body) = self.call("covered");
        let agent = self.server.agent();
        let answer = in_time("a run", agent.exec(body)).await;
        self.called(name, &answer);
        answer
    }

    /// The same call twice, under one key: the second gets what became of the first, or makes up for it.
    async fn run_with_key(&mut self) {
        let (name, body) = self.call("covered");
        let agent = self.server.agent();
        let first = in_time("a run with a key", agent.exec_with_key(&name, body.clone())).await;
        self.called(name.clone(), &first);
        let again = in_time("the same again", agent.exec_with_key(&name, body)).await;
        self.called(name, &again);
        let ids = [&first, &again].map(|answer| answer.json()["runId"].clone());
        if ids.iter().all(Value::is_string) {
            assert_eq!(ids[0], ids[1], "one key, one run");
        }
    }

    /// A question, and its answer.
    async fn ask(&mut self) {
        let (name, body) = self.call("asked");
        let agent = self.server.agent();
        let answer = in_time("a question", agent.exec(body)).await;
        self.called(name, &answer);
        if answer.status == 202 {
            let asked = answer.json();
            let operator = self.server.operator();
            let decided = in_time(
                "an answer",
                operator.decide(asked.text("approvalId"), "allow-once"),
            )
            .await;
            if decided.status != 200 {
                self.expect_trouble("an answer", &decided);
            }
        }
    }

    /// A new entry of the allowlist. Whether the answer says that it is there.
    async fn allow(&mut self) -> (String, bool) {
        self.number += 1;
        let pattern = format!("/opt/program-{}", self.number);
        let path = "/v1/agents/main/allowlist";
        let operator = self.server.operator();
        let body = json!({ "pattern": pattern });
        let answer = in_time("an entry", operator.post(path, body)).await;
        if answer.status != 201 {
            self.expect_trouble("an entry", &answer);
        }
        (pattern, answer.status == 201)
    }

    /// The emergency stop, which a disk cannot prevent, and its end, which it can.
    async fn stop(&mut self) {
        let operator = self.server.operator();
        let body = json!({ "reason": "a test" });
        in_time("a stop", operator.post("/v1/stop", body.clone()))
            .await
            .expect(200);
        let refused = in_time("a run while all is stopped", {
            let (_name, call) = self.call("covered");
            let agent = self.server.agent();
            async move { agent.exec(call).await }
        })
        .await;
        assert_eq!(refused.json()["code"], "stopped", "{}", refused.text());
        let resumed = in_time("its end", operator.post("/v1/resume", body)).await;
        if resumed.status != 200 {
            self.expect_trouble("its end", &resumed);
        }
    }

    async fn resume(&self) {
        let operator = self.server.operator();
        let resumed = || async {
            operator
                .post("/v1/resume", json!({ "reason": "a test" }))
                .await
                .status
        };
        eventually("going on", resumed, |status| *status == 200).await;
    }

    #[track_caller]
    fn expect_trouble(&self, what: &str, answer: &Answer) {
        let problem = answer.json();
        assert!(
            [503, 507].contains(&answer.status) && TROUBLE.contains(&problem.text("code")),
            "{what}: {} {}\n{}",
            answer.status,
            answer.text(),
            self.server.log()
        );
    }

    /// Waits until the server says that it works, and nothing is open any more; then looks at each call.
    async fn settle(&mut self, what: &str) {
        let anonymous = self.server.anonymous();
        let ready = || async { anonymous.get("/readyz").await.status };
        eventually(&format!("{what}: ready again"), ready, |status| *status == 200).await;
        let runs = self.settled(what).await;
        let ran = lines(&self.directory.join("ran"));
        for call in std::mem::take(&mut self.calls) {
            let Called { name, status, body } = &call;
            let ran = ran.iter().filter(|line| *line == name).count();
            let records: Vec<&Value> = runs.iter().filter(|run| is_of(run, name)).collect();
            assert!(
                ran <= 1 && records.len() <= 1,
                "{what}: {name} ran {ran} times: {records:?}"
            );
            let status_of_record = records.first().map(|run| run.text("status"));
            match status_of_record {
                Some("completed") => assert_eq!(ran, 1, "{what}: {records:?}"),
                Some("lost") => {}
                Some(_) | None => assert_eq!(
                    ran, 0,
                    "{what}: {name} ran without a record: {call:?} {records:?}"
                ),
            }
            match *status {
                200 | 202 => {
                    let id = records.first().map(|run| run.text("runId"));
                    assert_eq!(id, body["runId"].as_str(), "{what}: {call:?}");
                }
                _ => {
                    assert!(
                        [503, 507].contains(status) && TROUBLE.contains(&body.text("code")),
                        "{what}: {call:?}\n{}",
                        self.server.log()
                    );
                }
            }
        }
    }

    /// All runs of late, once none of them is open. Nobody answers any more.
    async fn settled(&self, what: &str) -> Vec<Value> {
        let operator = self.server.operator();
        let look = || async {
            for approval in operator.pending().await {
                operator.decide(approval.text("id"), "deny").await;
            }
            recent(&operator).await
        };
        eventually(&format!("{what}: nothing is open"), look, |runs| {
            runs.iter().all(is_final)
        })
        .await
    }

    /// The server is killed and started again, and nothing changes by that.
    async fn outlives_a_restart(&mut self) {
        let facts = |runs: Vec<Value>| -> Vec<String> {
            let fact = |run: &Value| format!("{} {} {}", run["runId"], run["status"], run["reason"]);
            runs.iter().map(fact).collect()
        };
        let before = facts(self.settled("at the end").await);
        let ran = lines(&self.directory.join("ran"));
        self.server.crash_and_restart().await;
        assert_eq!(facts(self.settled("after a restart").await), before);
        assert_eq!(lines(&self.directory.join("ran")), ran);
        let verified = self.server.operator().read("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
        self.works().await;
    }

    /// Every kind of call succeeds.
    async fn works(&mut self) {
        let answer = self.run().await;
        assert_has!(answer.expect(200), { "status": "completed", "stdout": "said\n" });
        self.ask().await;
        assert_eq!(self.calls.last().map(|call| call.status), Some(202));
        let asked = self.calls.last().map(|call| call.body.text("runId").to_owned());
        let run = self.server.agent().finished(&asked.expect("a run")).await;
        assert_has!(run, { "status": "completed" });
    }
}

async fn recent(operator: &Api) -> Vec<Value> {
    let listed = operator.read("/v1/runs?limit=100").await;
    listed["items"].as_array().cloned().expect("items")
}

fn is_of(run: &Value, name: &str) -> bool {
    let argv = run["argv"].as_array();
    argv.is_some_and(|argv| argv.iter().any(|word| word == name))
}

fn is_final(run: &Value) -> bool {
    matches!(
        run["status"].as_str(),
        Some("completed" | "failed" | "denied" | "cancelled" | "lost")
    )
}

/// The answer to a call, which comes in time.
async fn in_time(what: &str, call: impl Future<Output = Answer>) -> Answer {
    let answer = tokio::time::timeout(YIELD + BEYOND, call).await;
    answer.unwrap_or_else(|_elapsed| panic!("{what}: no answer in time"))
}

/// Each fault of some points, as the link says it.
fn each(points: &[Point]) -> impl Iterator<Item = (Point, &'static str)> {
    points
        .iter()
        .flat_map(|point| point.call.faults().iter().map(|fault| (*point, *fault)))
}

/// The points of these names.
#[track_caller]
fn named(points: &[Point], names: &[&str]) -> Vec<Point> {
    let named: Vec<Point> = points
        .iter()
        .filter(|point| names.contains(&point.name))
        .copied()
        .collect();
    assert_eq!(named.len(), names.len(), "{names:?}");
    named
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
