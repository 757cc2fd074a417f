//! The steps of the demo, each a call like any agent's gateway makes it, with what happened and why.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::sleep;

use countersign_domain::{Reason, RunId, Secret, quoting};
use countersign_sys::clock::{Ids as _, SystemIds};
use countersign_wire::{
    audit::VerificationBody,
    exec::{Answered, Pending, Started},
    policy::EffectiveBody,
    run::{DecisionBody, RunBody, RunDetail},
    token::{LoginLinkBody, NewTokenBody},
};

use super::server::{BOXED_AGENT, DemoServer, STRICT_AGENT};

use crate::cli::{
    client::{Address, Answer, Client},
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
        let command = "echo \"in $(pwd)\" && echo kept > note && cat note; touch /usr/x 2>&1; ls \"$STATE\" 2>&1 || true";
        let state_dir = self.server.state_dir().to_string_lossy().into_owned();
        let call = json!({"command": command, "agentId": BOXED_AGENT, "env": {"STATE": state_dir}});
        match self.ask(&call).await {
            Ok(answer) => {
                self.show_output(output(&answer))?;
                self.say("it has a directory of its own; the system cannot be written, and this server's files are not there")?;
                self.finish("sandboxed", run_id(&answer)).await
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
        self.show_output(output(&answer))?;
        self.finish("allowlisted", run_id(&answer)).await
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
                let runs: Vec<RunBody> = self.operator.list(&["v1", "runs"], &query, 1).await?;
                let run = runs.first().ok_or(refused)?;
                self.finish("denied", &run.run_id).await
            }
            Err(other) => Err(other),
        }
    }

    /// A command that needs a person.
    pub(super) async fn asked(&mut self, answerer: Answerer) -> Result<(), Failure> {
        self.title("4", "a command that needs a person")?;
        let answer = self
            .ask(&json!({"command": "echo \"on $(uname -n)\" && date -u"}))
            .await?;
        let Answered::Started(Started::Pending(pending)) = answer else {
            return Err(unexpected("asked nobody", &answer));
        };
        let slug = &pending.approval_slug;
        self.say(&format!("nothing has started; approval {slug} waits."))?;
        if answerer == Answerer::Person {
            let link: LoginLinkBody = self.operator.post(&["v1", "login-links"], &json!({})).await?;
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
        let RunDetail { run, aggregated, .. } = self.until_ended(&pending).await?;
        if run.status == "denied" {
            let reason = value::shown(run.reason.as_ref());
            self.say(&format!("it did not run: {reason}"))?;
            if run.reason.is_some_and(|reason| reason == Reason::ApprovalTimeout) {
                self.say("nobody answered in time, and the fallback says no; `countersign demo --approve` answers by itself")?;
            }
        }
        self.show_output(&aggregated)?;
        self.finish("asked", &run.run_id).await
    }

    /// Everything above is in the record, and the record is whole.
    pub(super) async fn verified(&mut self) -> Result<(), Failure> {
        self.title("5", "the record")?;
        let report: Answer<VerificationBody> =
            self.operator.get(&["v1", "audit", "verify"], &Vec::new()).await?;
        if !report.ok {
            return Err(Failure::new(
                "audit-broken",
                "the audit record of the demo does not verify",
            ));
        }
        let records = report.records;
        self.say(&format!(
            "audit: {records} records, chained and sealed; nothing was edited, removed or reordered"
        ))?;
        self.steps.push(json!({"step": "audit", "report": report.raw}));
        Ok(())
    }

    async fn ask(&self, call: &Value) -> Result<Answered, Failure> {
        let shown = quoting::line(&value::called(call));
        self.say(&format!("  $ {}", value::visible(&shown)))?;
        self.gateway
            .post_once(&["v1", "exec"], call, &SystemIds.random().to_string())
            .await
    }

    /// The token that asked can never answer, so the demo makes a second one that can only approve.
    async fn answer_as_second_token(&self, pending: &Pending) -> Result<(), Failure> {
        let wanted = json!({"name": "demo-approver", "scopes": ["approve", "read"]});
        let token: NewTokenBody = self.operator.post(&["v1", "tokens"], &wanted).await?;
        let secret = Secret::new(token.secret);
        let socket = self.server.state_dir().join("countersign/api.sock");
        let approver = Client::new(&Address::Socket(socket), secret)?;
        let decision = json!({"decision": "allow-once", "reason": "demo --approve"});
        let id = pending.approval_id.as_str();
        approver
            .post::<IgnoredAny>(&["v1", "approvals", id, "decision"], &decision)
            .await?;
        self.say("--approve: a second token, which may approve but not ask, answered allow-once")?;
        Ok(())
    }

    async fn until_ended(&self, pending: &Pending) -> Result<RunDetail, Failure> {
        let mut shown = String::new();
        loop {
            let path = ["v1", "runs", pending.run_id.as_str()];
            let detail: RunDetail = self.gateway.get(&path, &Vec::new()).await?;
            match &*detail.run.status {
                "approval-pending" => {
                    let left = clock_face(pending.expires_at_ms.since(self.context.clock.now()));
                    let text = format!("waiting for the answer … {left} left");
                    self.console().progress_if_new(&mut shown, text);
                }
                "queued" | "running" => {}
                _ => {
                    self.console().end_progress();
                    return Ok(detail);
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Who decided, by what, and where it is written down.
    async fn finish(&mut self, step: &str, run_id: &RunId) -> Result<(), Failure> {
        let path = ["v1", "runs", run_id.as_str()];
        let run: Answer<RunBody> = self.operator.get(&path, &Vec::new()).await?;
        if let Some(DecisionBody { verdict, by }) = &run.decision {
            let RunBody { security, ask, .. } = &run.body;
            self.say(&format!(
                "decision: {verdict}, by {by} (security {security}, ask {ask})"
            ))?;
        }
        let layer = self.layer(&run).await?;
        self.say(&format!("because of: {layer}"))?;
        let status = &*run.status;
        let tone = if status == "completed" {
            Tone::Good
        } else {
            Tone::Caution
        };
        let status = self.console().paint(tone, status);
        self.say(&format!("record: run {run_id}, {status}, on host {}", run.host))?;
        self.steps.push(json!({"step": step, "run": run.raw}));
        Ok(())
    }

    /// The keys that set what held for the agent of this run.
    async fn layer(&self, run: &RunBody) -> Result<String, Failure> {
        let query = vec![
            ("agentId", run.agent_id.to_string()),
            ("host", run.host.to_string()),
        ];
        let EffectiveBody { security, ask, .. } =
            self.operator.get(&["v1", "policy", "effective"], &query).await?;
        let (security, ask) = (security.source, ask.source);
        Ok(format!("security set by {security}, ask set by {ask}"))
    }

    fn show_output(&self, output: &str) -> Result<(), Failure> {
        for line in output.lines() {
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

fn unexpected(what: &str, answer: &Answered) -> Failure {
    let status = match answer {
        Answered::Started(started) => started.status(),
        Answered::Finished(finished) => &finished.status,
    };
    Failure::new("demo", format!("the command {what}: {status}"))
}

fn run_id(answer: &Answered) -> &RunId {
    match answer {
        Answered::Started(started) => started.run_id(),
        Answered::Finished(finished) => &finished.run_id,
    }
}

fn output(answer: &Answered) -> &str {
    match answer {
        Answered::Started(_) => "",
        Answered::Finished(finished) => &finished.aggregated,
    }
}
