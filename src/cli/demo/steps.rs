//! The steps of the demo, each a call like any agent's gateway makes it, with what happened and why.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::sleep;

use countersign_domain::{Secret, UnixMillis};
use countersign_sys::clock::{Ids as _, SystemIds};

use super::server::{ANSWER_WITHIN, BOXED_AGENT, DemoServer, STRICT_AGENT};

use crate::cli::{
    client::{Address, Client},
    console::{Console, Format, Tone},
    context::Context,
    discover::Role,
    duration::clock_face,
    failure::Failure,
    login_link, value,
    value::quoted,
};

const LOOK: Duration = Duration::from_millis(200);

/// Who answers the question of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answerer {
    /// A person, in another terminal.
    Person,
    /// The demo itself, with a token that can only approve.
    SecondToken,
}

/// What the demo showed, for `--json`.
#[derive(Debug)]
pub(super) struct Story<'a> {
    server: &'a DemoServer,
    context: &'a Context,
    gateway: Client,
    operator: Client,
    steps: Vec<Value>,
}

impl<'a> Story<'a> {
    /// A story that begins.
    pub(super) fn new(context: &'a Context, server: &'a DemoServer) -> Result<Self, Failure> {
        Ok(Self {
            gateway: server.client(Role::Gateway)?,
            operator: server.client(Role::Operator)?,
            steps: Vec::new(),
            context,
            server,
        })
    }

    /// The steps so far.
    pub(super) fn into_steps(self) -> Vec<Value> {
        self.steps
    }

    /// A command in the sandbox, where there is one: nothing has to be allowed, since nothing can be reached.
    pub(super) async fn sandboxed(&mut self) -> Result<(), Failure> {
        self.title("1", "a command in the sandbox, which nobody has to allow")?;
        let command =
            "echo \"in $(pwd)\" && echo kept > note && cat note; touch /usr/x 2>&1; ls \"$STATE\" 2>&1";
        let state_dir = self.server.state_dir().to_string_lossy().into_owned();
        let call = json!({"command": command, "agentId": BOXED_AGENT, "env": {"STATE": state_dir}});
        match self.ask(&call).await {
            Ok(answer) => {
                self.show_output(&answer)?;
                self.say("it has a directory of its own; the system cannot be written, and this server's files are not there")?;
                self.finish("sandboxed", &answer).await
            }
            Err(refused) if refused.code == "sandbox-unavailable" => {
                self.say(&format!("this machine has none, so it did not run: {refused}"))?;
                let skipped = json!({"step": "sandboxed", "skipped": refused.to_string()});
                self.steps.push(skipped);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// A program on the allowlist runs without asking.
    pub(super) async fn allowlisted(&mut self) -> Result<(), Failure> {
        self.title("2", "a command that the allowlist covers")?;
        let pattern = json!({"pattern": "uname", "note": "demo"});
        self.operator
            .post::<IgnoredAny>(&["v1", "agents", "main", "allowlist"], &pattern)
            .await?;
        self.say("the operator allowed `uname` for the agent `main`; the agent asks:")?;
        let answer = self.ask(&json!({"argv": ["uname", "-sm"]})).await?;
        self.show_output(&answer)?;
        self.finish("allowlisted", &answer).await
    }

    /// A program that is not covered, for an agent whose policy asks nobody.
    pub(super) async fn denied(&mut self) -> Result<(), Failure> {
        self.title(
            "3",
            "a command that nothing covers, of an agent for which nobody is asked",
        )?;
        let call = json!({"command": "id && date", "agentId": STRICT_AGENT});
        match self.ask(&call).await {
            Ok(answer) => Err(unexpected("was not denied", &answer)),
            Err(refused) if refused.code == "exec-denied" => {
                self.say(&refused.to_string())?;
                let query = vec![("agentId", STRICT_AGENT.to_owned())];
                let runs = self.operator.list(&["v1", "runs"], &query, 1).await?;
                let run = runs.into_iter().next().unwrap_or(Value::Null);
                self.finish("denied", &run).await
            }
            Err(other) => Err(other),
        }
    }

    /// A command that needs a person.
    pub(super) async fn asked(&mut self, answerer: Answerer) -> Result<(), Failure> {
        self.title("4", "a command that needs a person")?;
        let pending = self
            .ask(&json!({"command": "echo \"on $(uname -n)\" && date -u"}))
            .await?;
        if value::string(&pending, "status") != "approval-pending" {
            return Err(unexpected("asked nobody", &pending));
        }
        let slug = value::string(&pending, "approvalSlug");
        self.say(&format!("nothing has started; approval {slug} waits."))?;
        if answerer == Answerer::Person {
            let link = self.operator.post(&["v1", "login-links"], &json!({})).await?;
            self.say("to answer on the approvals page, open this link, which signs one browser in, once:")?;
            self.say(&format!("  {}", login_link::url(&link)))?;
        }
        self.say("to answer on the command line, in another terminal:")?;
        let state_dir = quoted(&self.server.state_dir().to_string_lossy());
        let program = std::env::current_exe()?;
        let program = quoted(&program.to_string_lossy());
        self.say(&format!(
            "  {program} --state-dir {state_dir} approvals resolve {slug} allow-once"
        ))?;
        if answerer == Answerer::SecondToken {
            self.answer_as_second_token(&pending).await?;
        }
        let run = self.until_ended(&pending).await?;
        if value::string(&run, "status") == "denied" {
            let reason = value::string(&run, "reason");
            self.say(&format!("it did not run: {reason}"))?;
            if reason == "approval-timeout" {
                self.say("nobody answered in time, and the fallback says no; `countersign demo --approve` answers by itself")?;
            }
        }
        self.show_output(&run)?;
        self.finish("asked", &run).await
    }

    /// Everything above is in the record, and the record is whole.
    pub(super) async fn verified(&mut self) -> Result<(), Failure> {
        self.title("5", "the record")?;
        let report: Value = self.operator.get(&["v1", "audit", "verify"], &Vec::new()).await?;
        if report.get("ok") != Some(&Value::Bool(true)) {
            return Err(Failure::new(
                "audit-broken",
                "the audit record of the demo does not verify",
            ));
        }
        let records = value::text(&report, "records");
        self.say(&format!(
            "audit: {records} records, chained and sealed; nothing was edited, removed or reordered"
        ))?;
        self.steps.push(json!({"step": "audit", "report": report}));
        Ok(())
    }

    async fn ask(&self, call: &Value) -> Result<Value, Failure> {
        let shown = value::command(call);
        self.say(&format!("  $ {}", value::visible(&shown)))?;
        self.gateway
            .post_once(&["v1", "exec"], call, &SystemIds.random().to_string())
            .await
    }

    /// The token that asked can never answer, so the demo makes a second one that can only approve.
    async fn answer_as_second_token(&self, pending: &Value) -> Result<(), Failure> {
        let wanted = json!({"name": "demo-approver", "scopes": ["approve", "read"]});
        let token = self.operator.post(&["v1", "tokens"], &wanted).await?;
        let secret = Secret::new(value::string(&token, "secret").to_owned());
        let socket = self.server.state_dir().join("countersign/api.sock");
        let approver = Client::new(&Address::Socket(socket), secret)?;
        let decision = json!({"decision": "allow-once", "reason": "demo --approve"});
        let id = value::string(pending, "approvalId");
        approver
            .post::<IgnoredAny>(&["v1", "approvals", id, "decision"], &decision)
            .await?;
        self.say("--approve: a second token, which may approve but not ask, answered allow-once")?;
        Ok(())
    }

    async fn until_ended(&self, pending: &Value) -> Result<Value, Failure> {
        let run_id = value::string(pending, "runId");
        let end = pending
            .get("expiresAtMs")
            .and_then(Value::as_i64)
            .map(UnixMillis::new);
        let end = end.unwrap_or_else(|| self.context.clock.now() + ANSWER_WITHIN);
        let mut shown = String::new();
        loop {
            let run = self.gateway.get(&["v1", "runs", run_id], &Vec::new()).await?;
            match value::string(&run, "status") {
                "approval-pending" => {
                    let left = clock_face(end.since(self.context.clock.now()));
                    let text = format!("waiting for the answer … {left} left");
                    self.console().progress_if_new(&mut shown, text);
                }
                "queued" | "running" => {}
                _ => {
                    self.console().end_progress();
                    return Ok(run);
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Who decided, by what, and where it is written down.
    async fn finish(&mut self, step: &str, answer: &Value) -> Result<(), Failure> {
        let run_id = value::string(answer, "runId");
        let run: Value = self.operator.get(&["v1", "runs", run_id], &Vec::new()).await?;
        let decision = run.get("decision").unwrap_or(&Value::Null);
        let (verdict, by) = (value::text(decision, "verdict"), value::text(decision, "by"));
        let (security, ask) = (value::string(&run, "security"), value::string(&run, "ask"));
        self.say(&format!(
            "decision: {verdict}, by {by} (security {security}, ask {ask})"
        ))?;
        if let Some(layer) = self.layer(&run).await? {
            self.say(&format!("because of: {layer}"))?;
        }
        let status = value::string(&run, "status");
        let tone = if status == "completed" {
            Tone::Good
        } else {
            Tone::Caution
        };
        let status = self.console().paint(tone, status);
        self.say(&format!(
            "record: run {run_id}, {status}, on host {}",
            value::string(&run, "host")
        ))?;
        self.steps.push(json!({"step": step, "run": run}));
        Ok(())
    }

    /// The keys that set what held for the agent of this run.
    async fn layer(&self, run: &Value) -> Result<Option<String>, Failure> {
        let query = vec![
            ("agentId", value::text(run, "agentId")),
            ("host", value::text(run, "host")),
        ];
        let policy: Value = self.operator.get(&["v1", "policy", "effective"], &query).await?;
        let set_by = |rule: &str| policy.get(rule).map(|rule| value::text(rule, "source"));
        Ok(match (set_by("security"), set_by("ask")) {
            (Some(security), Some(ask)) => Some(format!("security set by {security}, ask set by {ask}")),
            _ => None,
        })
    }

    fn show_output(&self, answer: &Value) -> Result<(), Failure> {
        for line in value::string(answer, "aggregated").lines() {
            self.say(&format!("  | {}", value::visible(line)))?;
        }
        Ok(())
    }

    fn title(&self, number: &str, title: &str) -> Result<(), Failure> {
        self.say("")?;
        self.say(&format!("{number}. {title}"))
    }

    /// The story is data; with `--json` the steps are, and the story is progress.
    fn say(&self, text: &str) -> Result<(), Failure> {
        say(self.console(), text)
    }

    fn console(&self) -> Console {
        self.context.console
    }
}

/// A line of the story.
pub(super) fn say(console: Console, text: &str) -> Result<(), Failure> {
    match console.format() {
        Format::People => console.line(text),
        Format::Json => {
            console.note(text);
            Ok(())
        }
    }
}

fn unexpected(what: &str, answer: &Value) -> Failure {
    Failure::new(
        "demo",
        format!("the command {what}: {}", value::string(answer, "status")),
    )
}
