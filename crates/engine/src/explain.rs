//! What an exec call would come to at this moment, without anything happening
//! (`docs/spec/http-api.md#post-v1execexplain-answer` answer").
//!
//! Goes the way of [`Calls::exec`](crate::Calls::exec) up to the gate and turns round there: nothing is started,
//! stored, counted or created. A call that would be a bad request because of its command or its environment is
//! explained too.

use std::{collections::BTreeSet, sync::Arc};

use countersign_config::settings::{SandboxScope, Settings, WorkspaceAccess};
use countersign_domain::{
    AgentId, Backend, CommandInput, Confinement, ExecRequest, Host, Pattern, Principal, Quorum, Reason,
    Scope, ScriptHold, Stop,
};
use countersign_hosts::sandbox::Placement;
use countersign_policy::{
    allowlist::{Analysis, MatchKind, SegmentReport},
    combine::Effective,
    command::{direct::ChosenStart, pinning::Pinned},
    gate::{self, FallbackVerdict, Unanswered, Verdict},
    host::ResolvedHost,
    layers::{Layer, Spoken},
};

pub use crate::evaluator::{outcome::Outcome, ways_out::WaysOut};
use crate::{
    approvers::Approvers,
    base::Base,
    evaluator::{Evaluation, Evaluator, Mode, Rejection, call::Call, held_text, judgement::Judgement},
    hint::{HOW_TO_RESUME, hint},
    lifecycle::Lifecycle,
    mute::MutedAgent,
    node::NodeView,
    reply::ExecError,
    stop_switch::StopSwitch,
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
    /// Whose call it is.
    pub agent: AgentId,
    /// What `allow-always` could store, or, of a call that is denied because nothing covers it, what would cover it.
    pub would_persist: Vec<Pattern>,
    /// How firmly the run would be what was judged; `None` where it would not start.
    pub pinned: Option<Pinned>,
    /// How its text would be started, and why; `None` where no host shell of this machine would read one, and where nothing
    /// would start.
    pub start: Option<ChosenStart>,
    /// Whether its scripts would be read as they were judged; `None` without any.
    pub scripts: Option<ScriptHold>,
    /// What the kernel would keep of its programs.
    pub confinement: Confinement,
    /// The same in one line; `None` where no program of this machine would start by its plan.
    pub confined: Option<String>,
    /// The deny rules with `children` that would not bind what it starts, by their patterns.
    pub children_not_kept: Vec<String>,
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
    /// The programs that could be executed, where a text that cannot be taken apart would run held
    /// (`tools.exec.onMiss`), by their real paths.
    pub held: Option<Vec<String>>,
    /// Why it would be asked about although the settings let such a text run held.
    pub not_held: Option<String>,
    /// The agent and what mutes it, where a person would have been asked.
    pub muted: Option<MutedAgent>,
    /// The command that would change a denial; `None` where it would not be denied, and where no command changes it.
    pub hint: Option<String>,
    /// What would let it run unasked, and what would refuse it for good.
    pub ways_out: WaysOut,
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
            start: None,
            hint: (!is_bad).then(|| hint(&HOW_TO_RESUME)),
            ways_out: WaysOut::default(),
            stopped: Some(stop),
            ..self
        }
    }
}

/// Says what a call would come to.
#[derive(Debug)]
pub struct Explainer {
    evaluator: Arc<Evaluator>,
    approvers: Arc<Approvers>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl Explainer {
    pub(crate) fn new(base: &Base, approvers: Arc<Approvers>) -> Self {
        Self {
            evaluator: Arc::clone(&base.evaluator),
            approvers,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Explains a call. The command of `request` need not be one that could be started.
    ///
    /// # Errors
    /// What [`Calls::exec`](crate::Calls::exec) answers to a call that is refused for another reason than policy, its
    /// command or its environment.
    #[crate::compiled_once]
    pub async fn explain(&self, caller: &Principal, request: ExecRequest) -> Result<Explanation, ExecError> {
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        let evaluation = Box::pin(self.evaluator.evaluate(caller, request, &Mode::explain())).await?;
        let approver_reachable = self.approvers.are_reachable(evaluation.policy.settings());
        // A caller that runs into a deny rule is not told the command that removes it.
        let names_rules = caller.has(Scope::Read) || caller.has(Scope::Admin);
        let mut explanation = Explanation::of(&evaluation, approver_reachable, names_rules);
        if !names_rules {
            hide_deny_rules(&mut explanation.analysis.segments);
        }
        if let Ok(judged) = &evaluation.judged
            && matches!(judged.verdict, Verdict::Ask(_))
        {
            explanation.quorum = Some(
                self.approvers
                    .demand_of_call(judged, evaluation.policy.settings())
                    .quorum,
            );
        }
        if matches!(explanation.outcome, Outcome::Run | Outcome::Ask(_)) {
            explanation.children_not_kept = self.children_not_kept(&evaluation);
        }
        Ok(match self.switch.expect_going() {
            Ok(()) => explanation,
            Err(stop) => explanation.stopped(stop),
        })
    }

    fn children_not_kept(&self, evaluation: &Evaluation) -> Vec<String> {
        let binder = &self.evaluator.binder;
        let views = evaluation.policy.views();
        let unkept = views.flat_map(|view| binder.children_not_kept(&evaluation.call, view));
        unkept.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Why no command of a call's agent could run on the node that it names; `None` when one might, and the node is
    /// asked nothing.
    ///
    /// # Errors
    /// What [`Calls::exec`](crate::Calls::exec) answers to such a call with any command.
    #[crate::compiled_once]
    pub async fn barred_from_node(
        &self,
        caller: &Principal,
        request: &ExecRequest,
    ) -> Result<Option<Reason>, ExecError> {
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        self.evaluator.barred_from_node(caller, request).await
    }
}

impl Explanation {
    /// What was found, for people.
    fn of(evaluation: &Evaluation, approver_reachable: bool, names_rules: bool) -> Self {
        let Evaluation {
            policy,
            call,
            judged,
            diverted,
            ..
        } = evaluation;
        // What the policy said of the call is why it runs in the sandbox.
        let asked_about = diverted.as_ref().map_or(call, |(call, _judged)| call);
        let mut host = evaluation.host.clone();
        if diverted.is_some() {
            host.put_on_top(Spoken::new(Layer::Clamp, "tools.exec.onMiss", Host::Sandbox));
        }
        let (blocked_env, outcome) = match judged {
            Err(Rejection {
                bad_command: Some(_),
                blocked_env,
            }) => (blocked_env.clone(), Outcome::BadCommand),
            Err(Rejection { blocked_env, .. }) => (blocked_env.clone(), Outcome::BlockedEnv),
            Ok(judged) => (Vec::new(), outcome(judged, approver_reachable)),
        };
        let judged = judged.as_ref().ok();
        let starts = match outcome {
            Outcome::Run | Outcome::Ask(_) => judged,
            Outcome::Deny(_) | Outcome::BadCommand | Outcome::BlockedEnv => None,
        };
        let analysis = evaluation.analysis.clone();
        let analysis = analysis.unwrap_or_else(|| Analysis::of_parts(&call.command));
        Self {
            host,
            alternatives: evaluation.alternatives.clone(),
            effective: match &asked_about.sandbox {
                Some(_) => Effective::without_approvals(),
                None => policy.effective(&asked_about.agent, asked_about.wishes()),
            },
            blocked_env,
            passed_env: judged.map_or_else(Vec::new, |judged| judged.env.names()),
            outcome,
            needs_person: judged.is_some_and(|judged| judged.input.needs_person),
            approver_reachable,
            quorum: None,
            agent: call.agent.clone(),
            would_persist: judged.map_or_else(Vec::new, Judgement::would_persist),
            pinned: starts.map(|judged| judged.pinned),
            start: starts.and_then(|judged| judged.start.clone()),
            scripts: judged.and_then(|judged| judged.binding.held),
            confinement: judged
                .map(|judged| judged.binding.confinement.clone())
                .unwrap_or_default(),
            confined: judged.and_then(|judged| judged.binding.confined()),
            children_not_kept: Vec::new(),
            input: judged.map_or_else(|| call.input(), |judged| judged.binding.input),
            node: call.node.as_deref().map(NodeView::of),
            sandbox: call
                .sandbox
                .as_deref()
                .map(|place| SandboxView::of(place, policy.settings(), call)),
            diverted: diverted.is_some(),
            not_diverted: evaluation.not_diverted.clone(),
            held: starts.and_then(|judged| held_text::programs_of(&judged.binding.bound)),
            not_held: evaluation.not_held.clone(),
            muted: judged
                .and_then(|judged| judged.mute.clone())
                .map(|mute| MutedAgent {
                    agent: call.agent.to_string(),
                    mute,
                }),
            hint: match (outcome, judged) {
                (Outcome::Deny(reason), Some(judged)) => {
                    judged.how_to_change(&call.agent, reason, names_rules)
                }
                (Outcome::Run | Outcome::Ask(_) | Outcome::BadCommand | Outcome::BlockedEnv, _)
                | (Outcome::Deny(_), None) => None,
            },
            ways_out: judged
                .map(|judged| judged.ways_out(&call.agent, outcome, &analysis))
                .unwrap_or_default(),
            analysis,
            stopped: None,
        }
    }
}

fn hide_deny_rules(segments: &mut [SegmentReport]) {
    for segment in segments {
        if segment.matched.kind == MatchKind::Denylist {
            segment.matched.entry_id = None;
        }
        segment.near_deny_rule = None;
        hide_deny_rules(&mut segment.segments);
    }
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
