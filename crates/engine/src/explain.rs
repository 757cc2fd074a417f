//! What an exec call would come to at this moment, without anything happening
//! (`docs/spec/http-api.md#post-v1execexplain-answer` answer").
//!
//! Goes the way of [`Engine::exec`] up to the gate and turns round there: nothing is started, stored, counted or
//! created. A call that would be a bad request because of its command or its environment is explained too.

use std::sync::Arc;

use countersign_config::settings::{SandboxScope, Settings, WorkspaceAccess};
use countersign_domain::{
    Backend, Command, CommandInput, EntryId, EnvOverrides, ExecRequest, FileIdentity, Host, HostChoice,
    InvalidRequest, MAX_ARGUMENT_BYTES, Pattern, Principal, Quorum, Reason, Scope, ScriptHold, Security,
    Stop,
};
use countersign_hosts::{path_lookup::SystemLookup, peer_fs::Blind, sandbox::Placement, workdir::Workdir};
use countersign_policy::{
    allowlist::Analysis,
    combine::{Effective, Wanted},
    command::{
        Code, DirectoryTrust, Finding, Inspected, PathLookup, Span, env_policy, parser, paths,
        pinning::Pinned,
    },
    gate::{self, AskWhy, FallbackVerdict, Unanswered, Verdict},
    host::ResolvedHost,
    layers::{Layer, Resolved, Spoken},
    pattern::PatternCache,
};

use crate::{
    Engine,
    analyse::Files,
    call::{Call, Workspace},
    entry_indexes::EntryIndexes,
    judgement::Judgement,
    node::{NodeView, Purpose},
    policy_now::PolicyNow,
    reply::ExecError,
    sandbox_availability::SandboxAvailability,
    sandboxed::{Diversion, Making},
    session::Asked,
    turns,
};

/// The whole decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Where it would run.
    pub host: ResolvedHost,
    /// Where else the call could ask to run.
    pub alternatives: Vec<Host>,
    /// The policy that counts, every value with its layers.
    pub effective: Effective,
    /// What the command is found to be.
    pub analysis: Analysis,
    /// Names of overrides that are never accepted, sorted, upper case.
    pub blocked_env: Vec<String>,
    /// Names of overrides that would reach the command.
    pub passed_env: Vec<String>,
    /// The verdict now; [`Reason::Stopped`] during a stop, unless it is a bad request.
    pub outcome: Outcome,
    /// Whether nobody but a person may allow it.
    pub needs_person: bool,
    /// Whether an approver could be asked now.
    pub approver_reachable: bool,
    /// How many people it would take to allow it, and whose; `None` where nobody would be asked.
    pub quorum: Option<Quorum>,
    /// What `allow-always` could store.
    pub would_persist: Vec<Pattern>,
    /// How firmly the run would be what was judged; `None` where it would not start.
    pub pinned: Option<Pinned>,
    /// Whether its scripts would be read as they were judged; `None` without any.
    pub scripts: Option<ScriptHold>,
    /// What could be written to it once it ran.
    pub input: CommandInput,
    /// The node that it would run on.
    pub node: Option<NodeView>,
    /// The sandbox that it would run in.
    pub sandbox: Option<SandboxView>,
    /// Whether it would run there instead of being asked about (`tools.exec.onMiss`).
    pub diverted: bool,
    /// Why it would be asked about although the settings let a miss run in the sandbox.
    pub not_diverted: Option<String>,
    /// Why nothing starts now, no matter what the rest says.
    pub stopped: Option<Arc<Stop>>,
}

/// The sandbox of a call, as far as its caller may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxView {
    /// What makes it: namespaces or Docker.
    pub backend: Backend,
    /// Who shares it: one session, an agent, or all.
    pub scope: SandboxScope,
    /// The name of its container and of its workspace directory.
    pub name: String,
    /// What it sees of the agent's workspace.
    pub workspace_access: WorkspaceAccess,
    /// Where the command would start, as it is called inside.
    pub cwd: String,
}

impl SandboxView {
    fn of(place: &Placement, settings: &Settings, call: &Call) -> Self {
        let sandbox = settings.policy.sandbox(&call.agent);
        Self {
            backend: place.backend,
            scope: sandbox.scope,
            name: place.enclosure.name.clone(),
            workspace_access: sandbox.workspace_access,
            cwd: call.workdir.path.to_string_lossy().into_owned(),
        }
    }
}

/// What would happen to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It would start without a question, or by the fallback since no approver can be reached.
    Run,
    /// A person would be asked.
    Ask(AskWhy),
    /// It would be refused by decision.
    Deny(Reason),
    /// It would be refused as a bad request, because of its command.
    BadCommand,
    /// It would be refused as a bad request, because of its environment overrides.
    BlockedEnv,
}

impl Explanation {
    /// The same while everything is stopped. What is refused as a bad request is refused as that.
    fn stopped(self, stop: Arc<Stop>) -> Self {
        let is_bad = matches!(self.outcome, Outcome::BadCommand | Outcome::BlockedEnv);
        Self {
            outcome: if is_bad {
                self.outcome
            } else {
                Outcome::Deny(Reason::Stopped)
            },
            quorum: None,
            would_persist: Vec::new(),
            pinned: None,
            stopped: Some(stop),
            ..self
        }
    }
}

impl Engine {
    /// Explains a call. The command of `request` need not be one that could be started.
    ///
    /// # Errors
    /// What [`Engine::exec`] answers to a call that is refused for another reason than policy, its command or its
    /// environment.
    pub async fn explain(&self, caller: &Principal, request: ExecRequest) -> Result<Explanation, ExecError> {
        let explanation = self.explain_policy(caller, request).await?;
        Ok(match self.expect_going() {
            Ok(()) => explanation,
            Err(stop) => explanation.stopped(stop),
        })
    }

    /// The same, as if nothing were stopped.
    async fn explain_policy(
        &self,
        caller: &Principal,
        request: ExecRequest,
    ) -> Result<Explanation, ExecError> {
        if self.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        let now = self.policy_now();
        let asked = self.asked_by_call(caller, &request, &now)?;
        let availability = self.evaluate_sandbox(&request.agent, &asked, &now).await;
        let host = Self::resolve_place_now(caller, &request, &asked, &now, &availability)?;
        let alternatives = alternatives(&request, &asked, host.value, now.settings(), &availability);
        let bad_command = bad_command(&request.command);
        let inside = match (host.value, &availability) {
            (Host::Sandbox, SandboxAvailability::Usable(backend)) => Some(*backend),
            (Host::Sandbox | Host::Gateway | Host::Node, _) => None,
        };
        let checked = match inside {
            Some(_) => env_policy::check_inside_overrides(&request.env),
            None => env_policy::check_overrides(&request.env),
        };
        let (env, blocked_env) = match checked {
            Ok(accepted) => (accepted, Vec::new()),
            Err(blocked) => (EnvOverrides::default(), blocked.names),
        };
        let (workspace, settings): (Workspace, _) = (Workdir::future_workspace, now.settings());
        let call = match inside {
            Some(backend) => {
                self.resolve_in_sandbox_with(caller, request, env, backend, workspace, settings)?
            }
            None if host.value == Host::Node => {
                self.resolve_on_node_with(caller, request, env, &asked, &now)?
            }
            None => self.resolve_on_gateway(caller, request, env, workspace, settings)?,
        };
        let call = Call { asked, ..call };
        let is_judged = bad_command.is_none() && blocked_env.is_empty();
        let (now, call) = if call.node.is_some() && is_judged {
            let evaluated = self.evaluate_on_node(call, now, &[], Purpose::Explanation);
            let (now, call, _judged) = Box::pin(evaluated).await?;
            (now, call)
        } else {
            (now, call)
        };
        let settings = now.settings();
        let approver_reachable = self.is_approver_reachable(now.settings());
        let effective = match &call.sandbox {
            Some(_) => Effective::without_approvals(),
            None => now.effective(&call.agent, call.wishes()),
        };
        let refused = |analysis, outcome, blocked_env| Explanation {
            host: host.clone(),
            alternatives: alternatives.clone(),
            effective: effective.clone(),
            analysis,
            blocked_env,
            passed_env: Vec::new(),
            outcome,
            needs_person: false,
            approver_reachable,
            quorum: None,
            would_persist: Vec::new(),
            pinned: None,
            scripts: None,
            input: call.input(),
            node: call.node.as_deref().map(NodeView::of),
            sandbox: call
                .sandbox
                .as_deref()
                .map(|place| SandboxView::of(place, settings, &call)),
            diverted: false,
            not_diverted: None,
            stopped: None,
        };
        if let Some(finding) = bad_command {
            return Ok(refused(
                Analysis::rejected(finding),
                Outcome::BadCommand,
                blocked_env,
            ));
        }
        if let Some(finding) = blocked_finding(&blocked_env) {
            let analysis = match &call.sandbox {
                Some(_) => Analysis::of_parts(&call.command),
                None => self.shown_analysis(caller, &call, &now, &effective, &[]).await?,
            };
            return Ok(refused(
                analysis.reject(finding),
                Outcome::BlockedEnv,
                blocked_env,
            ));
        }
        if call.sandbox.is_some() {
            let judged = self.judge_in_turn(&call, &now, &[]).await?;
            return Ok(Explanation {
                outcome: outcome(&judged, approver_reachable),
                passed_env: judged.env.names(),
                pinned: (judged.verdict == Verdict::Run).then_some(judged.pinned),
                ..refused(Analysis::of_parts(&call.command), Outcome::Run, blocked_env)
            });
        }
        let (judged, spent) = self.judge_without_spent_grants(&call, &now).await?;
        let analysis = match &judged.analysis {
            Some(analysis) => analysis.clone(),
            None => {
                self.shown_analysis(caller, &call, &now, &effective, &spent)
                    .await?
            }
        };
        let not_diverted = match self.divert(&call, &judged, &now, Making::Nothing).await {
            Diversion::Unwanted => None,
            Diversion::Impossible(why) => Some(why),
            Diversion::Into(inside) => {
                // What the analysis found is why it runs there.
                let judged = self.judge_in_turn(&inside, &now, &[]).await?;
                let mut explanation = refused(analysis, outcome(&judged, approver_reachable), blocked_env);
                let host = Spoken::new(Layer::Clamp, "tools.exec.onMiss", Host::Sandbox);
                explanation.host.put_on_top(host);
                explanation.passed_env = judged.env.names();
                explanation.pinned = Some(judged.pinned);
                explanation.sandbox = inside
                    .sandbox
                    .as_deref()
                    .map(|place| SandboxView::of(place, settings, &inside));
                explanation.diverted = true;
                return Ok(explanation);
            }
        };
        let outcome = outcome(&judged, approver_reachable);
        Ok(Explanation {
            node: call.node.as_deref().map(NodeView::of),
            sandbox: None,
            diverted: false,
            not_diverted,
            stopped: None,
            host,
            alternatives,
            effective,
            analysis,
            blocked_env,
            passed_env: judged.env.names(),
            scripts: judged.binding.held,
            pinned: match outcome {
                Outcome::Run | Outcome::Ask(_) => Some(judged.pinned),
                Outcome::Deny(_) | Outcome::BadCommand | Outcome::BlockedEnv => None,
            },
            outcome,
            input: judged.binding.input,
            needs_person: judged.input.needs_person,
            approver_reachable,
            quorum: matches!(judged.verdict, Verdict::Ask(_))
                .then(|| self.demand_of_call(&judged, settings).quorum),
            would_persist: match judged.verdict {
                Verdict::Ask(spec) => judged.proposed(spec),
                Verdict::Run | Verdict::Deny(_) => Vec::new(),
            },
        })
    }

    /// Why no command of a call's agent could run on the node that it names; `None` when one might, and the node is
    /// asked nothing.
    ///
    /// # Errors
    /// What [`Engine::exec`] answers to such a call with any command.
    pub async fn barred_from_node(
        &self,
        caller: &Principal,
        request: &ExecRequest,
    ) -> Result<Option<Reason>, ExecError> {
        if self.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        let now = self.policy_now();
        let asked = self.asked_by_call(caller, request, &now)?;
        let availability = self.evaluate_sandbox(&request.agent, &asked, &now).await;
        Self::resolve_place_now(caller, request, &asked, &now, &availability)?;
        self.choose_node(&request.agent, asked.node(), request.node.as_deref(), &now)?;
        if now.is_tool_denied(&request.agent, &request.command) {
            return Ok(Some(Reason::ToolDenied));
        }
        let effective = now.effective(&request.agent, asked.wishes(Wanted::default()));
        Ok((effective.security.value == Security::Deny).then_some(Reason::SecurityDeny))
    }

    /// Judges as an exec call does that finds grants used up and leaves them out one by one.
    async fn judge_without_spent_grants(
        &self,
        call: &Call,
        now: &PolicyNow,
    ) -> Result<(Judgement, Vec<EntryId>), ExecError> {
        let mut spent: Vec<EntryId> = Vec::new();
        loop {
            let judged = self.judge_in_turn(call, now, &spent).await?;
            let before = spent.len();
            for grant in &judged.grants {
                let uses = self.ledger.grant_uses(&grant.owner, &grant.entry_id).await?;
                if uses >= grant.max_uses {
                    spent.push(grant.entry_id.clone());
                }
            }
            // Each round leaves out one of the document's grants or is the last.
            if spent.len() == before {
                return Ok((judged, spent));
            }
        }
    }

    /// The analysis of a command that the gate decided about without one, or that is not judged.
    ///
    /// Where security is deny a call tells its caller nothing about files, so this must not either: a caller who may
    /// not read sees no more than what a name finds on the run PATH.
    async fn shown_analysis(
        &self,
        caller: &Principal,
        call: &Call,
        now: &PolicyNow,
        effective: &Effective,
        spent: &[EntryId],
    ) -> Result<Analysis, ExecError> {
        let _turn = self.turn(call, now).await?;
        let shown: Result<Analysis, Blind> = turns::run_analysis(&call.command, || {
            if caller.has(Scope::Read) || effective.security.value != Security::Deny {
                return self.analyse(call, &now.counted, spent);
            }
            let lookup = RunPathOnly(self.path_lookup(&call.agent, now.settings()));
            let files = Files {
                lookup: &lookup,
                patterns: &PatternCache::default(),
                indexes: &EntryIndexes::default(),
            };
            let analysis = self.analyse_with(call, &now.counted, spent, files)?;
            lookup.0.check()?;
            Ok(analysis)
        });
        Ok(shown?)
    }
}

/// The other hosts that the call could name instead.
fn alternatives(
    request: &ExecRequest,
    asked: &Asked,
    resolved: Host,
    settings: &Settings,
    availability: &SandboxAvailability,
) -> Vec<Host> {
    let mut hosts = Vec::new();
    let ExecRequest { agent, session, .. } = request;
    for choice in HostChoice::ALL {
        let named = Engine::resolve_host(agent, session, asked, Some(*choice), None, settings, availability);
        if let Ok(Resolved { value, .. }) = named
            && value != resolved
            && !hosts.contains(&value)
        {
            hosts.push(value);
        }
    }
    hosts
}

/// What the gate says, and what follows at once when nobody could be asked.
fn outcome(judged: &Judgement, approver_reachable: bool) -> Outcome {
    match judged.verdict {
        Verdict::Run => Outcome::Run,
        Verdict::Deny(reason) => Outcome::Deny(reason),
        Verdict::Ask(spec) if approver_reachable => Outcome::Ask(spec.why),
        Verdict::Ask(_) => match gate::fallback(&judged.input, Unanswered::NoRoute) {
            FallbackVerdict::Run => Outcome::Run,
            FallbackVerdict::Deny(reason) => Outcome::Deny(reason),
        },
    }
}

/// Why the command can never be started, no matter what policy says.
fn bad_command(command: &Command) -> Option<Finding> {
    let invalid = command.check().err()?;
    let of_text = match command {
        Command::Shell(text) => parser::rejection(text),
        Command::Argv(_) | Command::Patch(_) => None,
    };
    Some(of_text.unwrap_or_else(|| {
        let code = match invalid {
            InvalidRequest::Nul => Code::Nul,
            InvalidRequest::TooLong
            | InvalidRequest::TooManyWords
            | InvalidRequest::TooManyBytes
            | InvalidRequest::PatchTooLong => Code::TooLong,
            InvalidRequest::BlankCommand => Code::EmptySegment,
        };
        let span = Span::new(0, command.to_text().len());
        Finding::new(
            code,
            "G10",
            span,
            format!("{invalid}; keep every argument below {MAX_ARGUMENT_BYTES} bytes"),
        )
    }))
}

fn blocked_finding(names: &[String]) -> Option<Finding> {
    if names.is_empty() {
        return None;
    }
    let all = names.join(", ");
    let (code, detail) = if names.iter().any(|name| env_policy::is_well_formed(name)) {
        (
            Code::EnvBlocked,
            format!("these variables can never be set: {all}"),
        )
    } else {
        (
            Code::EnvInvalid,
            format!("these are no names of variables: {all}"),
        )
    };
    Some(Finding::new(code, "E1", Span::default(), detail))
}

/// Files as far as a name finds them on the run PATH; nothing else seems to be there.
#[derive(Debug)]
struct RunPathOnly(SystemLookup);

impl RunPathOnly {
    fn is_on_path(&self, file: &str) -> bool {
        let directory = paths::directory(file);
        self.0
            .directories()
            .iter()
            .any(|known| known.to_str() == Some(directory))
    }
}

impl PathLookup for RunPathOnly {
    fn search(&self, name: &str) -> Option<String> {
        self.0.search(name)
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        self.is_on_path(path).then(|| self.0.inspect(path)).flatten()
    }

    fn real(&self, path: &str) -> Option<String> {
        self.is_on_path(path).then(|| self.0.real(path)).flatten()
    }

    fn depends_on_process(&self, path: &str) -> bool {
        self.0.depends_on_process(path)
    }

    fn home(&self) -> &str {
        self.0.home()
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        self.0.directory_trust(directory)
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}
