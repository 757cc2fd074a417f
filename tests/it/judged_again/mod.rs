//! Questions that wait are judged again when the policy changes: what it lets run now runs once, what it forbids ends, and
//! everything else waits for a person.

mod nodes;

use std::path::{Path, PathBuf};

use countersign_sys::hooks;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::ipc::support::Asker;
use crate::support::{
    Api, Members, OperatorClient, ServerBuilder, TestServer, eventually, lines, sha256, write_file,
    write_file_mode,
};

const LIST: &str = "/v1/agents/main/allowlist";
const DENY: &str = "/v1/agents/main/denylist";
const RULES: &str = "judged again";

/// A server, and a program that leaves a line each time it runs.
struct World {
    server: TestServer,
    work: PathBuf,
    pauses: PathBuf,
}

impl World {
    async fn new() -> Self {
        Self::of(TestServer::asking()).await
    }

    async fn of(builder: ServerBuilder) -> Self {
        let mut world = Self::prepare(builder);
        world.server.start().await;
        world
    }

    fn prepare(builder: ServerBuilder) -> Self {
        let pauses = tempfile::tempdir().expect("a directory").keep();
        let server = builder
            .env(hooks::PAUSE_VARIABLE, pauses.to_str().expect("text"))
            .prepare();
        let work = server.scratch().dir("work");
        for name in ["mark", "canary", "other"] {
            write_script(&work.join(name), "ran");
        }
        Self { server, work, pauses }
    }

    fn program(&self, name: &str) -> String {
        self.work.join(name).to_str().expect("text").to_owned()
    }

    /// A call of a program that leaves its line in a file.
    fn call(&self, program: &str, file: &str) -> Value {
        // Each has a question of its own.
        json!({ "argv": [self.program(program), self.work.join(file)], "workdir": self.work, "join": false })
    }

    async fn ask(&self, file: &str) -> Value {
        self.server.asked(self.call("mark", file)).await
    }

    fn ran(&self, file: &str) -> usize {
        lines(&self.work.join(file)).len()
    }

    async fn approval(&self, pending: &Value) -> Value {
        let path = format!("/v1/approvals/{}", id(pending));
        self.server.operator().read(&path).await
    }

    async fn waits(&self, pending: &Value) {
        let approval = self.approval(pending).await;
        assert_eq!(approval["status"], "pending", "{approval:#}");
    }

    async fn ended(&self, pending: &Value) -> Value {
        self.server.agent().finished(run(pending)).await
    }

    async fn allow(&self, entry: Value) -> String {
        let entry = self.server.operator().made(LIST, entry).await;
        format!("{LIST}/{}", entry.text("id"))
    }

    async fn allow_mark(&self) -> String {
        self.allow(json!({ "pattern": self.program("mark") })).await
    }

    /// Waits until everything that waited when this was called has been judged under the policy of now: questions are
    /// judged in their order before any of them starts, and this one is the last.
    async fn all_judged(&self) {
        let canary = self.server.asked(self.call("canary", "canary-file")).await;
        let entry = self.allow(json!({ "pattern": self.program("canary") })).await;
        assert_eq!(self.ended(&canary).await["status"], "completed");
        self.server.operator().delete(&entry).await;
    }

    /// Has the next question that the policy lets run stand still once it was judged.
    fn stand_still(&self) {
        write_file(&self.pauses.join(POINT), "");
    }

    async fn stands_still(&self) {
        let reached = self.reached();
        eventually(RULES, || async { reached.exists() }, |is| *is).await;
    }

    fn go_on(&self) {
        std::fs::remove_file(self.reached()).expect("it stands still");
    }

    fn reached(&self) -> PathBuf {
        self.pauses.join(format!("{POINT}.reached"))
    }

    async fn verified(&self) {
        let verified = self.server.operator().read("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.pauses));
    }
}

const POINT: &str = hooks::RULE_PAUSES[0];

fn write_script(path: &Path, says: &str) {
    write_file_mode(path, format!("#!/bin/sh\necho {says} >> \"$1\"\n"), 0o755);
}

fn id(pending: &Value) -> &str {
    pending.text("approvalId")
}

fn run(pending: &Value) -> &str {
    pending.text("runId")
}

#[tokio::test]
async fn always_covers_the_others_that_wait_and_each_runs_once() {
    let world = World::new().await;
    let first = world.ask("file").await;
    let twins = [world.ask("file").await, world.ask("file").await];
    let other = world.server.asked(world.call("other", "file-of-other")).await;
    let mut events = world
        .server
        .operator()
        .events("?types=exec.approval.resolved", None)
        .await;
    let answer = world.server.operator().decide(id(&first), "allow-always").await;
    answer.expect(200);
    assert_eq!(world.ended(&first).await["status"], "completed");
    for twin in &twins {
        assert_eq!(world.ended(twin).await["status"], "completed");
        let approval = world.approval(twin).await;
        assert_has!(approval, { "status": "allowed", "decision": "allow-once", "terminalReason": "rule" });
        let by = approval["resolvedBy"].text("name");
        assert!(by.contains("mark") && by.contains("operator"), "{approval:#}");
        assert!(approval["consumedAtMs"].is_i64(), "{approval:#}");
        assert!(
            approval["reason"]
                .as_str()
                .is_some_and(|reason| reason.starts_with("allowed by your rule: ")),
            "{approval:#}"
        );
    }
    world.all_judged().await;
    world.waits(&other).await;
    assert_eq!((world.ran("file"), world.ran("file-of-other")), (3, 0));
    let kinds = [events.next().await, events.next().await, events.next().await];
    let by_rule = kinds
        .iter()
        .filter(|event| event.data["terminalReason"] == "rule");
    assert_eq!(by_rule.count(), 2, "{kinds:?}");
    world.verified().await;
}

#[tokio::test]
async fn only_what_the_whole_policy_lets_run_is_settled() {
    let always = json!({ "host": "gateway", "security": "allowlist", "ask": "always" });
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" });
    let world = World::of(TestServer::asking().config(&json!({
        "tools": { "exec": exec },
        "agents": { "list": [
            { "id": "careful", "tools": { "exec": always } }, { "id": "build" },
            { "id": "inline", "tools": { "exec": { "strictInlineEval": true } } },
        ] },
    })))
    .await;
    let with = |more: Value| {
        let mut body = world.call("mark", "file");
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        body
    };
    let ask = async |more: Value| world.server.asked(with(more)).await;
    let waiting = [
        ask(json!({ "ask": "always" })).await,
        ask(json!({ "agentId": "careful" })).await,
        // It has an allowlist of its own.
        ask(json!({ "agentId": "build" })).await,
        // Code in the call needs a person each time.
        world
            .server
            .asked(json!({ "argv": ["python3", "-c", "print(1)"], "agentId": "inline" }))
            .await,
        // Nothing is said about this directory.
        world.server.asked(world.call("other", "file")).await,
    ];
    let covered = ask(json!({})).await;
    world.allow_mark().await;
    world
        .server
        .operator()
        .made(
            "/v1/agents/careful/allowlist",
            json!({ "pattern": world.program("mark") }),
        )
        .await;
    let python = json!({ "pattern": "/**/python3*", "argPattern": "." });
    world
        .server
        .operator()
        .made("/v1/agents/inline/allowlist", python)
        .await;
    assert_eq!(world.ended(&covered).await["status"], "completed");
    world.all_judged().await;
    for pending in &waiting {
        world.waits(pending).await;
    }
    assert_eq!(world.ran("file"), 1);
    // The call's own wish stays; the agent's is lifted with its setting.
    let lifted = json!({
        "tools": { "exec": exec },
        "agents": { "list": [{ "id": "careful" }, { "id": "build" }] },
    });
    world.server.edit_config(&lifted.to_string());
    world.all_judged().await;
    world.waits(&waiting[0]).await;
}

#[tokio::test]
async fn what_takes_several_people_is_settled_by_no_rule() {
    let world = World::of(TestServer::asking_with(
        "[[approvals.rules]]\napprovals_required = 2\nagents = [\"main\"]\n",
    ))
    .await;
    let pending = world.ask("file").await;
    world.allow_mark().await;
    // The canary would take two as well.
    let denied = world.server.asked(world.call("other", "x")).await;
    let rule = json!({ "pattern": world.program("other") });
    world.server.operator().made(DENY, rule).await;
    assert_eq!(world.ended(&denied).await["reason"], "denylist");
    world.waits(&pending).await;
    assert_eq!(world.ran("file"), 0);
}

#[tokio::test]
async fn a_grant_covers_as_many_as_it_has_uses() {
    let world = World::new().await;
    let asked = join_all((0..5).map(|_| world.ask("file"))).await;
    world
        .allow(json!({ "pattern": world.program("mark"), "maxUses": 2 }))
        .await;
    let done = async || {
        let approvals = join_all(asked.iter().map(|pending| world.approval(pending))).await;
        approvals
            .iter()
            .filter(|approval| approval["status"] == "allowed")
            .count()
    };
    eventually("two of them", done, |done| *done >= 2).await;
    world.all_judged().await;
    assert_eq!(done().await, 2);
    for pending in &asked {
        if world.approval(pending).await["status"] == "allowed" {
            assert_eq!(world.ended(pending).await["status"], "completed");
        }
    }
    assert_eq!(world.ran("file"), 2);
    let fresh = world.server.agent().exec(world.call("mark", "file")).await;
    assert_eq!(fresh.status, 202, "it is used up");
}

#[tokio::test]
async fn a_deny_rule_ends_what_it_forbids() {
    let world = World::new().await;
    let forbidden = world.ask("file").await;
    let other = world.server.asked(world.call("other", "file")).await;
    let rule = json!({ "pattern": world.program("mark"), "reason": "not today" });
    world.server.operator().made(DENY, rule).await;
    let ended = world.ended(&forbidden).await;
    assert_has!(ended, { "status": "denied", "reason": "denylist" });
    let approval = world.approval(&forbidden).await;
    assert_has!(approval, { "status": "denied", "decision": "deny", "terminalReason": "rule" });
    let by = approval["resolvedBy"].text("name");
    assert!(
        by.contains("not today") && by.contains("operator"),
        "{approval:#}"
    );
    world.all_judged().await;
    world.waits(&other).await;
    world
        .server
        .operator()
        .decide(id(&forbidden), "allow-once")
        .await
        .problem(409, "approval-already-resolved");
    assert_eq!(world.ran("file"), 0);
    world.verified().await;
}

#[tokio::test]
async fn a_preset_settles_what_waits() {
    let world = World::new().await;
    let pending = world.ask("file").await;
    let preset = async |name: &str| {
        let preset = json!({ "name": name });
        world.server.operator().posted("/v1/policy/preset", preset).await;
    };
    preset("yolo").await;
    assert_eq!(world.ended(&pending).await["status"], "completed");
    assert_eq!(world.ran("file"), 1);
    let by = world.approval(&pending).await["resolvedBy"]["name"].clone();
    assert!(by.as_str().is_some_and(|by| by.contains("security full")), "{by}");
    preset("cautious").await;
    let pending = world.ask("file").await;
    preset("deny-all").await;
    assert_eq!(world.ended(&pending).await["reason"], "security-deny");
}

#[tokio::test]
async fn of_a_person_and_a_rule_exactly_one_counts() {
    let world = World::new().await;
    let operator = world.server.operator();
    let mut allowed = 0;
    for turn in 0..50 {
        let file = format!("file-{turn}");
        let pending = world.ask(&file).await;
        let (entry, answer) = tokio::join!(world.allow_mark(), operator.decide(id(&pending), "deny"));
        let ended = world.ended(&pending).await;
        let approval = world.approval(&pending).await;
        if answer.status == 200 {
            assert_eq!(
                (&approval["status"], &approval["terminalReason"], &ended["reason"]),
                (&json!("denied"), &json!("user"), &json!("user-denied")),
                "{turn}"
            );
            assert_eq!(world.ran(&file), 0, "{turn}");
        } else {
            answer.problem(409, "approval-already-resolved");
            assert_eq!(
                (&approval["status"], &approval["terminalReason"], &ended["status"]),
                (&json!("allowed"), &json!("rule"), &json!("completed")),
                "{turn}"
            );
            assert_eq!(world.ran(&file), 1, "{turn}");
            allowed += 1;
        }
        operator.delete(&entry).await;
    }
    let resolved = operator
        .read("/v1/audit?action=exec.approval.resolved&limit=500")
        .await;
    let resolved = resolved.list("items").clone();
    assert_eq!(resolved.len(), 50);
    let by_rule = resolved.iter().filter(|record| record["actor"]["id"] == "rule");
    assert_eq!(by_rule.count(), allowed);
    world.verified().await;
}

/// What happens between the judgement and the transaction.
#[tokio::test]
async fn nothing_runs_that_something_else_ended_meanwhile() {
    for what in ["person", "entry", "deny rule", "token"] {
        let world = World::new().await;
        let operator = world.server.operator();
        let (token, asker) = world
            .server
            .token_with(json!({ "name": "asker", "scopes": ["exec", "read"] }))
            .await;
        let pending = asker.accepted(world.call("mark", "file")).await;
        world.stand_still();
        let entry = world.allow_mark().await;
        world.stands_still().await;
        let (status, reason) = match what {
            "person" => {
                operator.decided(id(&pending), "deny").await;
                ("denied", "user")
            }
            "entry" => {
                operator.delete(&entry).await;
                ("pending", "")
            }
            "deny rule" => {
                let rule = json!({ "pattern": world.program("mark") });
                operator.made(DENY, rule).await;
                ("denied", "rule")
            }
            _ => {
                operator.delete(&format!("/v1/tokens/{token}")).await;
                ("cancelled", "run-aborted")
            }
        };
        world.go_on();
        let look = || world.approval(&pending);
        let approval = eventually(what, look, |approval| approval["status"] == status).await;
        assert_eq!(
            approval["terminalReason"].as_str().unwrap_or_default(),
            reason,
            "{what}"
        );
        world.all_judged().await;
        assert_eq!(world.approval(&pending).await["status"], status, "{what}");
        assert_eq!(world.ran("file"), 0, "{what}");
        world.verified().await;
    }
}

#[tokio::test]
async fn under_the_stop_no_rule_starts_anything() {
    let world = World::new().await;
    let pending = world.ask("file").await;
    world.stand_still();
    world.allow_mark().await;
    world.stands_still().await;
    let stop = json!({ "reason": "keys leaked" });
    world.server.operator().posted("/v1/stop", stop).await;
    world.go_on();
    assert_eq!(world.ended(&pending).await["reason"], "stopped");
    assert_eq!(world.approval(&pending).await["terminalReason"], "stopped");
    let resume = json!({ "reason": "all clear" });
    world.server.operator().posted("/v1/resume", resume).await;
    world.all_judged().await;
    assert_eq!(world.ran("file"), 0);
    world.verified().await;
}

#[tokio::test]
async fn what_changed_since_it_was_shown_is_left_to_people() {
    let world = World::new().await;
    let pending = world.ask("file").await;
    write_script(&world.work.join("mark"), "changed");
    world.allow_mark().await;
    world.all_judged().await;
    world.waits(&pending).await;
    assert_eq!(world.ran("file"), 0);
}

#[tokio::test]
async fn what_changes_after_it_was_judged_does_not_run() {
    let world = World::new().await;
    let pending = world.ask("file").await;
    world.stand_still();
    world.allow_mark().await;
    world.stands_still().await;
    write_script(&world.work.join("mark"), "changed");
    world.go_on();
    let ended = world.ended(&pending).await;
    assert_ne!(ended["status"], "completed", "{ended}");
    assert_eq!(world.ran("file"), 0);
}

#[tokio::test]
async fn an_entry_covers_what_it_says_and_nothing_beside() {
    let world = World::new().await;
    let pending = world.ask("file").await;
    let mark = world.program("mark");
    for entry in [
        json!({ "pattern": mark, "argPattern": "^other$" }),
        json!({ "pattern": mark, "sha256": "00".repeat(32) }),
        json!({ "pattern": mark, "expiresAtMs": 4_102_444_800_000_u64, "argPattern": "^other$" }),
    ] {
        world.allow(entry).await;
    }
    world.all_judged().await;
    world.waits(&pending).await;
    let content = std::fs::read(&mark).expect("the program");
    world
        .allow(json!({ "pattern": mark, "sha256": sha256(&content) }))
        .await;
    assert_eq!(world.ended(&pending).await["status"], "completed");
    assert_eq!(world.ran("file"), 1);
}

#[tokio::test]
async fn an_edit_that_is_held_settles_nothing_before_it_is_accepted() {
    let world = World::new().await;
    // An edit of after a run may be the run's.
    let before = world.ask("before").await;
    world.server.answered(&before, "allow-once").await;
    let pending = world.ask("file").await;
    let entry = json!({ "pattern": world.program("mark") });
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [entry] } } });
    world.server.edit_document(&document.to_string());
    let effective = || async {
        let effective = world.server.operator().read("/v1/policy/effective").await;
        effective["document"]["held"]["hash"].as_str().map(str::to_owned)
    };
    let held = eventually("held", effective, Option::is_some).await;
    // A setting that changes nothing for it has everything judged again.
    let denied = world.server.asked(world.call("other", "x")).await;
    let rule = json!({ "pattern": world.program("other") });
    let refused = world.server.operator().post(DENY, rule).await;
    if refused.status == 201 {
        assert_eq!(world.ended(&denied).await["reason"], "denylist");
    }
    world.waits(&pending).await;
    assert_eq!(world.ran("file"), 0);
    let held = effective().await.or(held);
    let accept = json!({ "hash": held });
    world
        .server
        .operator()
        .posted("/v1/policy/document/accept", accept)
        .await;
    assert_eq!(world.ended(&pending).await["status"], "completed");
    let by = world.approval(&pending).await["resolvedBy"]["name"].clone();
    assert!(by.as_str().is_some_and(|by| by.contains("operator")), "{by}");
}

#[tokio::test]
async fn what_the_asker_starts_itself_waits_on() {
    let world = World::new().await;
    let (_, exec) = world
        .server
        .token_with(json!({ "name": "asker", "scopes": ["exec"] }))
        .await;
    let mut asker = OperatorClient::new(exec.token().expect("a token"), &["operator.write"])
        .connect(&world.server)
        .await;
    let mark = world.program("mark");
    let question = json!({
        "id": "e29eb3da-ce18-422e-b8f9-c00c5953c13b", "command": mark, "commandArgv": [mark], "cwd": world.work,
        "host": "gateway", "agentId": "main", "timeoutMs": 60_000, "twoPhase": true,
    });
    asker.send("exec.approval.request", question).await;
    let pending = || world.server.operator();
    let list = || async { pending().pending().await };
    let waiting = eventually("asked", list, |list| !list.is_empty()).await;
    world.allow_mark().await;
    let rule = json!({ "pattern": mark, "reason": "forbidden here" });
    world.server.operator().made(DENY, rule).await;
    world.all_judged().await;
    assert_eq!(list().await[0]["id"], waiting[0]["id"]);
}

#[tokio::test]
async fn what_a_peer_of_the_socket_starts_itself_waits_on() {
    let world = World::of(TestServer::asking().with_socket()).await;
    let asker = Asker::of(&world.server);
    let question = json!({ "command": world.program("mark"), "cwd": world.work, "ask": "on-miss" });
    let asked = tokio::spawn(async move { asker.ask(&question).await });
    let waiting = world.server.operator().waiting().await;
    world.allow_mark().await;
    world.all_judged().await;
    let id = waiting[0].text("id");
    assert_eq!(world.server.operator().pending().await[0]["id"], id);
    world.server.operator().decided(id, "deny").await;
    assert_eq!(asked.await.expect("an answer"), "deny");
}

#[tokio::test]
async fn what_a_rule_allowed_starts_in_its_time_or_not_at_all() {
    let mut world = World::prepare(TestServer::asking_with("start_by_ms = 1"));
    let kill = [("COUNTERSIGN_TEST_KILL", "engine.launched-by-rule")];
    world.server.start_with(&kill).await;
    let pending = world.ask("file").await;
    let entry = json!({ "pattern": world.program("mark") });
    let request = world.server.operator().request(Method::POST, LIST).json(&entry);
    drop(Api::try_send(request).await);
    world.server.wait_killed().await;
    world.server.start().await;
    assert_has!(world.ended(&pending).await, { "status": "failed", "reason": "not-started" });
    assert_eq!(world.approval(&pending).await["decision"], "allow-once");
    assert_eq!(world.ran("file"), 0);
}

#[tokio::test]
async fn wherever_the_server_dies_what_a_rule_allows_runs_once() {
    for point in hooks::RULE_POINTS {
        for pass in [1, 2] {
            let mut world = World::prepare(TestServer::asking());
            let kill = format!("{point}:{pass}");
            world
                .server
                .start_with(&[("COUNTERSIGN_TEST_KILL", kill.as_str())])
                .await;
            let mut asked = Vec::new();
            for file in ["a", "b", "c"] {
                asked.push((file, world.ask(file).await));
            }
            // The server may die before it answers.
            let entry = json!({ "pattern": world.program("mark") });
            let request = world.server.operator().request(Method::POST, LIST).json(&entry);
            drop(Api::try_send(request).await);
            world.server.wait_killed().await;
            world.server.start().await;
            for (file, pending) in &asked {
                let ended = world.ended(pending).await;
                assert_eq!(ended["status"], "completed", "{kill} {file}: {ended}");
                assert_eq!(world.ran(file), 1, "{kill} {file}");
                let approval = world.approval(pending).await;
                assert_eq!(approval["terminalReason"], "rule", "{kill} {file}");
            }
            world.server.crash_and_restart().await;
            for (file, _pending) in &asked {
                assert_eq!(world.ran(file), 1, "{kill} {file}");
            }
            world.verified().await;
        }
    }
}

#[tokio::test]
async fn a_policy_that_changed_while_there_was_no_server_counts_at_its_start() {
    let mut world = World::new().await;
    let pending = world.ask("file").await;
    let other = world.server.asked(world.call("other", "file")).await;
    world.server.kill();
    let rule = json!({ "pattern": world.program("mark") });
    let document = json!({ "version": 1, "agents": { "main": { "denylist": [rule] } } });
    world.server.edit_document(&document.to_string());
    world.server.start().await;
    assert_eq!(world.ended(&pending).await["reason"], "denylist");
    world.waits(&other).await;
}

#[tokio::test]
async fn many_questions_and_many_changes_hold_up_nobody() {
    const MANY: usize = 150;
    let world = World::of(TestServer::asking_with("max_pending_per_agent = 0")).await;
    let operator = world.server.operator();
    let mut asked = Vec::new();
    for chunk in 0..MANY / 10 {
        let ten = (0..10).map(|at| {
            let file = format!("file-{}", chunk * 10 + at);
            let world = &world;
            async move { world.ask(&file).await }
        });
        asked.extend(join_all(ten.map(Box::pin)).await);
    }
    let fresh = json!({ "argv": [world.program("canary"), world.work.join("fresh")], "workdir": world.work });
    world.allow(json!({ "pattern": world.program("canary") })).await;
    let agent = world.server.agent();
    for turn in 0..20 {
        let entry = json!({ "pattern": format!("/nowhere/{turn}") });
        let (added, ran) = tokio::join!(operator.post(DENY, entry), agent.exec(fresh.clone()));
        added.expect(201);
        assert_eq!(ran.expect(200)["status"], "completed");
    }
    for pending in &asked {
        world.waits(pending).await;
    }
    world.allow_mark().await;
    for (at, pending) in asked.iter().enumerate() {
        assert_eq!(world.ended(pending).await["status"], "completed");
        assert_eq!(world.ran(&format!("file-{at}")), 1);
    }
    world.verified().await;
}
