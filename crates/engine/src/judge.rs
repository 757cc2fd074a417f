//! One judgement of one call: the layers combined, the command analysed, the gate asked.
//!
//! `exec`, the launch of an approved run and the fallback of an unanswered one all come through here, so
//! they cannot disagree.

use std::{cmp::Reverse, sync::Arc};

use countersign_config::{
    approvals::{
        binding::{self, BoundScripts},
        document::{DenyRule, Listed, RefusalReason, is_old_name_of_main},
        store::{DocumentStatus, Snapshot},
    },
    settings::{Settings, Tool},
};
use countersign_domain::{
    AgentId, ApprovalCard, ApprovalDecision, Ask, Binding, Bound, Command, CommandInput, EntryId,
    EnvOverrides, Host, Pattern, Quorum, Reason, Security, SessionKey, Why,
};
use countersign_hosts::peer_fs::Blind;
use countersign_ledger::{GrantUse, Health, NodeLaunch, PolicyStamp, launch::LaunchTerms};
use countersign_policy::{
    allowlist::{Analysis, DenyHit, SegmentReport},
    combine::{self, DocumentPolicy, Effective, PolicyLayers, Wishes},
    command::{
        Code, Finding, PathLookup as _, characters::is_escaped_in_display, env_policy, names::may_be_builtin,
        pinning::Pinned, question,
    },
    gate::{self, AskSpec, AskWhy, Coverage, GateInput, Verdict},
    pattern::has_wildcard,
};
use countersign_sys::descriptors::{SPARE_DESCRIPTORS, has_spare_descriptors};

use crate::{
    Engine, analyse,
    bind::Scope,
    call::Call,
    far_policy::FarPolicy,
    hint::hint,
    node::{OnNode, Prepared},
    preflight,
    reply::{ExecError, MachineFault, StorageTrouble},
    script_hold,
    turns::{self, Turn},
};

/// What one look at the policy says about a call.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) effective: Effective,
    pub(super) analysis: Option<Analysis>,
    pub(super) input: GateInput,
    pub(super) verdict: Verdict,
    pub(super) binding: Binding,
    /// How firmly what would be started is what is bound.
    pub(super) pinned: Pinned,
    pub(super) stamp: PolicyStamp,
    pub(super) grants: Vec<GrantUse>,
    /// The overrides that reach the command.
    pub(super) env: EnvOverrides,
    /// What it is launched with on its node.
    pub(super) node: Option<NodeLaunch>,
    /// What the look at its scripts found, in words.
    preflight: Option<String>,
    /// The first program, where a person would be asked about it and it is nowhere on the PATH.
    absent: Option<String>,
    refusal: Option<String>,
    /// Why its node would not run it, in words.
    node_refusal: Option<String>,
    /// The node whose document was judged by, and whether one of its own deny rules matched.
    far: Option<(FarPolicy, bool)>,
}

/// The policy of one moment: the accepted policy, and while a change is pending the files as they are, too.
#[derive(Debug)]
pub(super) struct PolicyNow {
    pub(super) counted: PolicyView,
    edited: Option<PolicyView>,
    stamp: PolicyStamp,
    /// The node that it is the policy of.
    pub(super) node: Option<Arc<OnNode>>,
}

/// Settings and a document that are judged by together.
#[derive(Debug)]
pub(super) struct PolicyView {
    pub(super) settings: Arc<Settings>,
    /// The approvals document of the machine that executes.
    pub(super) document: Arc<Snapshot>,
    /// That of this machine, where another one executes: only its deny rules count then.
    pub(super) local: Option<Arc<Snapshot>>,
}

impl PolicyNow {
    pub(super) fn stamp(&self) -> PolicyStamp {
        self.stamp.clone()
    }

    /// Whether this machine's document could be read, so that what is not permitted is known not to be.
    pub(super) fn expect_readable(&self) -> Result<(), MachineFault> {
        if self.counted.is_unreadable() || self.edited.as_ref().is_some_and(PolicyView::is_unreadable) {
            return Err(MachineFault::Document);
        }
        Ok(())
    }

    /// The settings that count for everything but permission.
    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.counted.settings
    }

    /// Everything that has to let a command through.
    pub(super) fn views(&self) -> impl Iterator<Item = &PolicyView> {
        std::iter::once(&self.counted).chain(&self.edited)
    }

    /// The same for calls on a node, whose own document takes the place of this machine's.
    pub(super) fn on_node(mut self, node: Arc<OnNode>) -> Self {
        for view in std::iter::once(&mut self.counted).chain(&mut self.edited) {
            let before = std::mem::replace(&mut view.document, node.document());
            // Seen for the second time, it has one already.
            view.local.get_or_insert(before);
        }
        self.node = Some(node);
        self
    }

    /// The same for calls on a node that is not known.
    pub(super) fn without_document(mut self) -> Self {
        for view in std::iter::once(&mut self.counted).chain(&mut self.edited) {
            let silent = Arc::new(Snapshot::of_accepted(None, String::new()));
            view.local = Some(std::mem::replace(&mut view.document, silent));
        }
        self
    }

    /// Combines every layer for an agent; while an edit is held each value is the stricter one.
    pub(super) fn effective(&self, agent: &AgentId, wishes: impl Into<Wishes>) -> Effective {
        let wishes = wishes.into();
        let counted = self.counted.effective(agent, wishes);
        match &self.edited {
            None => counted,
            Some(edited) => counted.strictest(edited.effective(agent, wishes)),
        }
    }

    /// Whether an agent may not use the tool that a command is for.
    pub(super) fn is_tool_denied(&self, agent: &AgentId, command: &Command) -> bool {
        self.views().any(|view| view.is_tool_denied(agent, command))
    }
}

impl PolicyView {
    /// Combines every layer for an agent.
    pub(super) fn effective(&self, agent: &AgentId, wishes: impl Into<Wishes>) -> Effective {
        let Wishes {
            session,
            elevated,
            call,
        } = wishes.into();
        let policy = &self.settings.policy;
        // Deny rules that cannot be read forbid everything, also elsewhere.
        let is_unreadable = |local: &Arc<Snapshot>| local.document().is_none();
        let document = if self.local.as_ref().is_some_and(is_unreadable) {
            DocumentPolicy::refused()
        } else {
            self.document.policy(agent.as_str())
        };
        combine::combine(PolicyLayers {
            security: &policy.security(agent),
            ask: &policy.ask(agent),
            session,
            elevated,
            call,
            document: &document,
        })
    }

    /// The deny rules that count for an agent, in matching order.
    pub(super) fn deny_rules(&self, agent: &AgentId) -> Vec<Listed<'_, DenyRule>> {
        let documents = std::iter::once(&self.document).chain(&self.local);
        documents
            .flat_map(|document| document.deny_rules(agent.as_str()))
            .collect()
    }

    /// Whether reading this machine's document failed, which says nothing about a command.
    fn is_unreadable(&self) -> bool {
        let document = self.local.as_ref().unwrap_or(&self.document);
        matches!(&document.status, DocumentStatus::Refused(refusal) if refusal.reason == RefusalReason::Io)
    }

    /// Whether a deny rule that matched is one of the machine that executes.
    fn has_in_document(&self, agent: &AgentId, hit: &DenyHit) -> bool {
        let rules = self.document.deny_rules(agent.as_str());
        rules.iter().any(|rule| {
            rule.owner == hit.owner && rule.id.as_str() == hit.id && rule.item.pattern == hit.pattern
        })
    }

    /// Why a document that counts cannot be used, in words.
    fn refusal(&self) -> Option<String> {
        let refusal = |document: &Arc<Snapshot>| match &document.status {
            DocumentStatus::Refused(refusal) => Some(refusal.to_string()),
            DocumentStatus::Missing | DocumentStatus::Ok => None,
        };
        match &self.local {
            None => refusal(&self.document),
            Some(local) => refusal(local).or_else(|| {
                refusal(&self.document).map(|why| format!("of the node's own approvals document: {why}"))
            }),
        }
    }

    pub(super) fn is_tool_denied(&self, agent: &AgentId, command: &Command) -> bool {
        let policy = &self.settings.policy;
        let tool = match command {
            Command::Shell(_) | Command::Argv(_) => Tool::Exec,
            Command::Patch(_) if !policy.exec(agent).apply_patch.enabled => return true,
            Command::Patch(_) => Tool::ApplyPatch,
        };
        policy.tool_policy(agent).denied_by(tool).is_some()
    }
}

impl Engine {
    /// Looks at settings and document again and returns the present policy.
    pub(super) fn policy_now(&self) -> PolicyNow {
        let in_effect = self.refresh_policy();
        let edited = in_effect.edited.as_ref().map(|(settings, document)| PolicyView {
            settings: Arc::clone(settings),
            document: Arc::clone(document),
            local: None,
        });
        PolicyNow {
            counted: PolicyView {
                settings: Arc::clone(&in_effect.settings),
                document: Arc::clone(&in_effect.document),
                local: None,
            },
            edited,
            stamp: in_effect.stamp(),
            node: None,
        }
    }

    /// [`Self::judge`] when it is the caller's turn. Where a caller can choose the command, this is the way.
    pub(super) async fn judge_in_turn(
        &self,
        call: &Call,
        now: &PolicyNow,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        let _turn = self.turn(call, now).await?;
        self.judge(call, now, spent)
    }

    /// The turn of a call's caller to have a big command looked through; a small one needs none.
    pub(super) async fn turn(&self, call: &Call, now: &PolicyNow) -> Result<Option<Turn>, ExecError> {
        if !turns::is_big(&call.command) {
            return Ok(None);
        }
        let timeout = now.settings().server.limits.queue_timeout;
        let turn = self.turns.wait(&call.requested_by, timeout).await;
        turn.map(Some).map_err(ExecError::NoTurn)
    }

    /// Judges a call under `now`. `spent` are grants found to have no use left.
    pub(super) fn judge(
        &self,
        call: &Call,
        now: &PolicyNow,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        // Looking at it takes more, but what it lacks only ever makes the verdict stricter.
        self.expect_means(1)?;
        let judged = turns::run_analysis(&call.command, || self.judge_at_once(call, now, spent));
        if !matches!(&judged, Ok(judged) if judged.verdict == Verdict::Run) {
            // What could not be opened is not known.
            self.expect_means(SPARE_DESCRIPTORS)?;
            now.expect_readable()?;
        }
        judged
    }

    /// Whether the machine gives what judging takes. Without it the call gets no verdict: settings that were deleted
    /// with their directory, or a program that could not be opened, say nothing about the command.
    pub(super) fn expect_means(&self, descriptors: usize) -> Result<(), ExecError> {
        if self.ledger.health() == Health::Gone {
            return Err(StorageTrouble::Gone.into());
        }
        if has_spare_descriptors(descriptors) {
            Ok(())
        } else {
            Err(MachineFault::OpenFiles.into())
        }
    }

    fn judge_at_once(&self, call: &Call, now: &PolicyNow, spent: &[EntryId]) -> Result<Judgement, ExecError> {
        if let Some(place) = &call.sandbox {
            return Ok(Self::judge_inside(call, place, now));
        }
        let counted = self.judge_under(call, &now.counted, now.stamp(), spent)?;
        match &now.edited {
            None => Ok(counted),
            Some(edited) => Ok(counted.strictest(self.judge_under(call, edited, now.stamp(), spent)?)),
        }
    }

    fn judge_under(
        &self,
        call: &Call,
        now: &PolicyView,
        stamp: PolicyStamp,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        let effective = now.effective(&call.agent, call.wishes());
        self.expect_in_workspace(call, now)?;
        let tool_denied = now.is_tool_denied(&call.agent, &call.command);
        let analysis = self.analyse_if_it_matters(call, now, &effective, spent)?;
        if let Some(message) = analysis.as_ref().and_then(Analysis::rejection) {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message,
            });
        }
        let input = gate_input(&effective, analysis.as_ref(), tool_denied);
        let verdict = gate::gate(&input);
        // Nothing that a shell reads at its start may come from the request (`docs/spec/command-analysis.md#e3`).
        let env = match &analysis {
            Some(analysis) if analysis.shell_payload => env_policy::harmless_only(&call.env),
            Some(_) | None => call.env.clone(),
        };
        let is_open = matches!(verdict, Verdict::Run | Verdict::Ask(_));
        let call_input = match verdict {
            Verdict::Run => input_by(input.security, call.input(), analysis.as_ref()),
            Verdict::Ask(_) | Verdict::Deny(_) => call.input(),
        };
        let Fastened {
            binding,
            pinned,
            preflight,
        } = if let Some(node) = &call.node {
            Fastened::by_itself(node.bind(call, &env))
        } else {
            let scripts = Scripts {
                scope: Scope::of(call, &effective, verdict),
                are_looked_at: is_open && preflight::applies(&effective),
            };
            let fastened = self.bind(call, now, &effective, (analysis.as_ref(), scripts), &env)?;
            fastened.with_input(call_input)
        };
        let absent = match (verdict, &analysis) {
            (Verdict::Ask(_), Some(analysis)) => self.absent_program(call, now, analysis)?,
            (Verdict::Ask(_) | Verdict::Run | Verdict::Deny(_), _) => None,
        };
        let (verdict, node_refusal) = match call.node.as_ref().map(|node| &node.plan) {
            Some(Prepared::Refused(reason, why))
                if is_open && !needs_no_plan(*reason, verdict, &effective) =>
            {
                (Verdict::Deny(*reason), Some(why.clone()))
            }
            Some(_) | None if preflight.is_some() => (Verdict::Deny(Reason::Preflight), None),
            Some(_) | None if absent.is_some() => (Verdict::Deny(Reason::ProgramNotFound), None),
            Some(_) | None => (verdict, None),
        };
        let far = call.node.as_ref().map(|node| {
            let hit = analysis
                .as_ref()
                .and_then(|analysis| analysis.denylisted.as_ref());
            let is_theirs = hit.is_some_and(|hit| now.has_in_document(&call.agent, hit));
            (node.far_policy(), is_theirs)
        });
        Ok(Judgement {
            grants: analysis.as_ref().map_or_else(Vec::new, |analysis| {
                analyse::grant_uses(analysis, now, call.agent.as_str())
            }),
            stamp,
            env,
            effective,
            analysis,
            input,
            verdict,
            binding,
            pinned,
            node: call.node.as_ref().and_then(|node| node.launch()),
            preflight,
            absent,
            refusal: now.refusal(),
            node_refusal,
            far,
        })
    }

    /// The first program of a command of this host, if its PATH has none of that name and the shell knows none by itself.
    fn absent_program(
        &self,
        call: &Call,
        now: &PolicyView,
        analysis: &Analysis,
    ) -> Result<Option<String>, Blind> {
        let is_here = analysis.ok && call.node.is_none();
        let Some(first) = analysis.segments.first().filter(|_| is_here) else {
            return Ok(None);
        };
        let name = &first.executable;
        let is_first_word = first.wrappers.is_empty() && first.argv.first() == Some(name);
        let may_be_known = match &call.command {
            Command::Argv(_) => false,
            Command::Shell(_) => !self.shell.is_plain() || may_be_builtin(name),
            Command::Patch(_) => true,
        };
        if !is_first_word || may_be_known || name.contains('/') || first.resolved_path.is_some() {
            return Ok(None);
        }
        let lookup = self.path_lookup(&call.agent, &now.settings);
        let is_absent = lookup.search(name).is_none();
        lookup.check()?;
        Ok(is_absent.then(|| name.clone()))
    }

    fn analyse_if_it_matters(
        &self,
        call: &Call,
        now: &PolicyView,
        effective: &Effective,
        spent: &[EntryId],
    ) -> Result<Option<Analysis>, Blind> {
        analysis_matters(call, now, effective)
            .then(|| self.analyse(call, now, spent))
            .transpose()
    }

    /// What would be started, pinned (`docs/spec/command-analysis.md#x1`, `docs/spec/command-analysis.md#x2`,
    /// `docs/spec/command-analysis.md#t1`), with its scripts, and what the look at them found if they are looked at.
    fn bind(
        &self,
        call: &Call,
        now: &PolicyView,
        effective: &Effective,
        (analysis, Scripts { scope, are_looked_at }): (Option<&Analysis>, Scripts),
        env: &EnvOverrides,
    ) -> Result<Fastened, Blind> {
        let from_plan = effective.security.value == Security::Allowlist;
        let planned = analysis
            .filter(|_| from_plan)
            .and_then(|analysis| analyse::bound_of(analysis, &call.workdir, self.gateway.files()));
        let lookup = self.path_lookup(&call.agent, &now.settings);
        let bound = planned.unwrap_or_else(|| match &call.command {
            Command::Shell(text) => Bound::Text {
                shell: self.shell.path().to_string_lossy().into_owned(),
                text: text.clone(),
            },
            Command::Argv(argv) => {
                let name = argv.first().map_or("", String::as_str);
                let path = analyse::program_path(name, &call.workdir.path, &lookup);
                Bound::Exec {
                    identity: lookup.inspect(&path).map(|found| found.identity),
                    path,
                    argv: argv.clone(),
                }
            }
            Command::Patch(text) => self.bound_patch(text, now.keeps_patches_in(&call.agent)),
        });
        let executables = match (&bound, analysis) {
            (_, Some(analysis)) => analysis.executables.clone(),
            (Bound::Exec { identity, .. }, None) => identity.iter().cloned().collect(),
            (
                Bound::Plan { .. }
                | Bound::Text { .. }
                | Bound::Rendered { .. }
                | Bound::Inside { .. }
                | Bound::OnNode { .. }
                | Bound::Patch { .. }
                | Bound::Elsewhere { .. },
                None,
            ) => Vec::new(),
        };
        let for_scripts = match analysis {
            None if call.pins_scripts && !matches!(call.command, Command::Patch(_)) => {
                Some(self.analyse(call, now, &[])?)
            }
            Some(_) | None => None,
        };
        let cwd = &call.workdir.path;
        let BoundScripts {
            mut scripts,
            are_whole,
        } = match scope {
            Scope::Every => self.scripts_of(
                analysis.or(for_scripts.as_ref()),
                &bound,
                &executables,
                cwd,
                &lookup,
            ),
            Scope::LookedAt => BoundScripts::default(),
        };
        if are_whole && let Some(analysis) = analysis {
            script_hold::bind_granted(&mut scripts, analysis, (now, call.agent.as_str()), &lookup);
        }
        let preflight = are_looked_at
            .then(|| Self::preflight(analysis, &bound, cwd, (&mut scripts, scope), &lookup))
            .flatten();
        let held = script_hold::Subject {
            bound: &bound,
            scripts: &scripts,
            are_whole,
            executables: &executables,
            analysis: analysis.or(for_scripts.as_ref()),
            isolation: self.isolation_of(&call.agent, &now.settings),
        }
        .hold(&lookup);
        let starts_unbound_script = scope == Scope::LookedAt && self.starts_script(&bound, &lookup);
        lookup.check()?;
        let binding = Binding {
            host: Host::Gateway,
            node_id: None,
            agent: call.agent.clone(),
            session: call.session.clone(),
            command: call.command.clone(),
            bound,
            cwd: call.workdir.path.to_string_lossy().into_owned(),
            cwd_dev: call.workdir.dev,
            cwd_ino: call.workdir.ino,
            env_hash: binding::env_hash(env),
            executables,
            executable_sha256: None,
            script: binding::sum_of(&scripts),
            scripts,
            held,
            pty: call.pty,
            input: call.input(),
            timeout_ms: call.timeout_ms(),
        };
        Ok(Fastened {
            pinned: if starts_unbound_script {
                Pinned::of_script()
            } else {
                Pinned::of(&binding)
            },
            binding,
            preflight,
        })
    }
}

/// What becomes of the scripts of a command.
#[derive(Debug, Clone, Copy)]
struct Scripts {
    scope: Scope,
    are_looked_at: bool,
}

/// What a call is bound to.
#[derive(Debug)]
struct Fastened {
    binding: Binding,
    pinned: Pinned,
    /// What the look at its scripts found, in words.
    preflight: Option<String>,
}

impl Fastened {
    /// The same of a command to which no more than this can be written.
    fn with_input(mut self, input: CommandInput) -> Self {
        self.binding.input = input;
        self
    }

    /// Of a binding that says itself how firm it is.
    fn by_itself(binding: Binding) -> Self {
        Self {
            pinned: Pinned::of(&binding),
            binding,
            preflight: None,
        }
    }
}

/// Under `full` nothing depends on the words of the command, unless deny rules or strict inline
/// evaluation look at them, a person will, a shell inside must not get an override, or it may run a script that is
/// looked at first.
pub(super) fn analysis_matters(call: &Call, now: &PolicyView, effective: &Effective) -> bool {
    if matches!(call.command, Command::Patch(_)) {
        return false;
    }
    let exec = now.settings.policy.exec(&call.agent);
    match effective.security.value {
        Security::Deny => false,
        Security::Allowlist => true,
        Security::Full => {
            effective.ask.value == Ask::Always
                || exec.strict_inline_eval.value
                || !call.env.is_empty()
                || (call.node.is_none()
                    && preflight::applies(effective)
                    && preflight::may_concern(&call.command))
                || !now.deny_rules(&call.agent).is_empty()
        }
    }
}

/// All that the gate decides by. A command that was not analysed is covered by nothing, and no rule matches it.
pub(super) fn gate_input(effective: &Effective, analysis: Option<&Analysis>, tool_denied: bool) -> GateInput {
    let coverage = analysis.map_or(
        Coverage {
            satisfied: false,
            analysis_ok: false,
            durable: false,
        },
        |analysis| Coverage {
            satisfied: analysis.satisfied,
            analysis_ok: analysis.ok,
            durable: analysis.durable,
        },
    );
    GateInput {
        security: effective.security.value,
        ask: effective.ask.value,
        ask_fallback: effective.ask_fallback.value,
        coverage,
        denylisted: analysis.is_some_and(|analysis| analysis.denylisted.is_some()),
        needs_person: analysis.is_some_and(|analysis| analysis.needs_person),
        document_refused: effective.document_refused,
        tool_denied,
    }
}

/// What can be written to a command that runs without an answer. Where only the allowlist lets it run, that is what the
/// allowlist includes of what is wanted.
fn input_by(security: Security, wanted: CommandInput, analysis: Option<&Analysis>) -> CommandInput {
    match (security, analysis) {
        (Security::Allowlist | Security::Deny, Some(analysis)) if wanted.is_open() => analysis.input,
        (Security::Full | Security::Allowlist | Security::Deny, _) => wanted,
    }
}

/// The lesser of what two policies leave of an input that a call wants.
pub(super) const fn lesser_input(one: CommandInput, other: CommandInput) -> CommandInput {
    if !one.is_open() {
        one
    } else if !other.is_open() || matches!(other, CommandInput::GuardedTerminal) {
        other
    } else {
        one
    }
}

/// Whether all of a command was read, and nothing in it may run more than is seen.
fn is_understood(analysis: &Analysis) -> bool {
    fn is_seen(segment: &SegmentReport) -> bool {
        !segment.runs_unseen && segment.segments.iter().all(is_seen)
    }
    // Below the deepest shell that is looked into nothing was read.
    let is_deep = |finding: &Finding| finding.code == Code::ShellDepth;
    analysis.ok && analysis.segments.iter().all(is_seen) && !analysis.findings.iter().any(is_deep)
}

/// Adds the grants that another view of policy spends; of one that both spend the smaller limit counts.
pub(super) fn add_uses(grants: &mut Vec<GrantUse>, more: Vec<GrantUse>) {
    for used in more {
        let known = grants
            .iter_mut()
            .find(|known| known.owner == used.owner && known.entry_id == used.entry_id);
        match known {
            Some(known) => known.max_uses = known.max_uses.min(used.max_uses),
            None => grants.push(used),
        }
    }
}

/// Whether a node that made no plan of a command may get it without one: nobody is asked, nothing here depends on its words,
/// and the node did not say that it denies it. Its own policy decides then
/// (`docs/spec/bridge.md#95-local-policy-on-the-node`).
fn needs_no_plan(reason: Reason, verdict: Verdict, effective: &Effective) -> bool {
    reason == Reason::NodeRefused
        && matches!(verdict, Verdict::Run)
        && effective.security.value == Security::Full
}

/// The key or command that takes `deny` away where it was said.
fn how_to_loosen(source: &str, session: &SessionKey) -> Option<String> {
    let in_document = source.strip_prefix(DocumentPolicy::FILE).map(|place| {
        place
            .strip_prefix("#/agents/")
            .and_then(|place| place.strip_suffix("/security"))
    });
    match (source, in_document) {
        // What made the call says it, and nothing that is configured.
        ("call" | "elevated", _) => None,
        ("session", _) => Some(hint(&["session", "clear", session.as_str()])),
        (_, Some(Some(agent))) => Some(hint(&[
            "policy",
            "set",
            "--agent",
            agent,
            "--security",
            "allowlist",
        ])),
        ("default", _) | (_, Some(None)) => Some(hint(&["policy", "preset", "cautious"])),
        (key, None) => Some(hint(&["config", "set", key, "allowlist"])),
    }
}

impl Judgement {
    /// A judgement of a command whose words do not matter.
    pub(super) fn without_analysis(
        effective: Effective,
        input: GateInput,
        verdict: Verdict,
        binding: Binding,
        stamp: PolicyStamp,
        env: EnvOverrides,
    ) -> Self {
        Self {
            effective,
            analysis: None,
            input,
            verdict,
            pinned: Pinned::of(&binding),
            binding,
            stamp,
            grants: Vec::new(),
            env,
            node: None,
            refusal: None,
            preflight: None,
            absent: None,
            node_refusal: None,
            far: None,
        }
    }

    /// The same of a command whose script must not run, since this was found in it.
    pub(super) fn refused_by_preflight(self, found: String) -> Self {
        Self {
            verdict: Verdict::Deny(Reason::Preflight),
            preflight: Some(found),
            ..self
        }
    }

    /// Whether the allowlist alone is what would have a person asked.
    pub(super) fn is_miss(&self) -> bool {
        let by_gate = match self.verdict {
            // The gate itself asked about it.
            Verdict::Deny(Reason::ProgramNotFound) => gate::gate(&self.input),
            verdict @ (Verdict::Run | Verdict::Ask(_) | Verdict::Deny(_)) => verdict,
        };
        matches!(by_gate, Verdict::Ask(spec) if spec.why == AskWhy::AllowlistMiss)
    }

    /// The same of a call that must neither run nor be asked about, for this reason and in these words.
    pub(super) fn refused(self, reason: Reason, why: &str) -> Self {
        Self {
            verdict: Verdict::Deny(reason),
            node_refusal: Some(why.to_owned()),
            ..self
        }
    }

    /// One judgement of what two policies say of a call. Nothing runs that would not run under both, with what both
    /// leave of its environment, and it uses up what it uses up under either.
    fn strictest(self, other: Self) -> Self {
        let key = |judged: &Self| {
            (
                judged.verdict.strictness(),
                Reverse(judged.input.security),
                judged.input.ask,
            )
        };
        let (mut judged, lesser) = if key(&other) > key(&self) {
            (other, self)
        } else {
            (self, other)
        };
        judged.input = judged.input.strictest(lesser.input);
        if judged.verdict == Verdict::Run {
            judged.binding.input = lesser_input(judged.binding.input, lesser.binding.input);
        }
        if let (Some(analysis), Some(other)) = (&mut judged.analysis, &lesser.analysis) {
            analysis.input = lesser_input(analysis.input, other.input);
        }
        // One is what a stricter rule left of the other.
        if lesser.env.names().len() < judged.env.names().len() {
            judged.env = lesser.env;
            judged.binding.env_hash = binding::env_hash(&judged.env);
        }
        if let (
            Bound::Patch { workspace_only, .. },
            Bound::Patch {
                workspace_only: other,
                ..
            },
        ) = (&mut judged.binding.bound, &lesser.binding.bound)
        {
            *workspace_only |= other;
        }
        add_uses(&mut judged.grants, lesser.grants);
        judged
    }

    fn is_of_patch(&self) -> bool {
        matches!(self.binding.command, Command::Patch(_))
    }

    /// On which terms the call may start without anybody being asked.
    pub(super) fn terms(&self, settings: &Settings) -> LaunchTerms {
        LaunchTerms {
            binding: self.binding.clone(),
            input: self.input_unanswered(),
            stamp: self.stamp.clone(),
            grants: self.grants.clone(),
            start_by: settings.server.approvals.start_by,
            node: self.node.clone(),
        }
    }

    /// What can be written to it when nobody answers for it: of what the fallback runs by the allowlist, what that
    /// includes.
    fn input_unanswered(&self) -> CommandInput {
        match self.verdict {
            Verdict::Ask(_) => {
                let security = self.input.ask_fallback.min(self.input.security);
                input_by(security, self.binding.input, self.analysis.as_ref())
            }
            Verdict::Run | Verdict::Deny(_) => self.binding.input,
        }
    }

    /// What a person is shown. Any one approver may allow it, unless the settings say otherwise.
    pub(super) fn to_card(&self, spec: AskSpec) -> ApprovalCard {
        let proposed = self.proposed(spec);
        let mut allowed_decisions = vec![ApprovalDecision::AllowOnce];
        if proposed.iter().any(|pattern| pattern.default) {
            allowed_decisions.push(ApprovalDecision::AllowAlways);
        }
        allowed_decisions.push(ApprovalDecision::Deny);
        let env = question::environment(&self.env);
        if !env.is_whole() {
            // Nobody can say yes to what nobody can be shown.
            allowed_decisions = vec![ApprovalDecision::Deny];
        }
        ApprovalCard {
            binding: self.binding.clone(),
            security: self.input.security,
            ask: self.input.ask,
            ask_fallback: self.input.ask_fallback,
            satisfied: self.input.coverage.satisfied,
            needs_person: self.input.needs_person,
            why: self.why(spec),
            allowed_decisions,
            proposed_patterns: proposed,
            resolved_path: self.binding.executables.first().map(|file| file.path.clone()),
            segments: self
                .analysis
                .as_ref()
                .map_or_else(|| serde_json::json!([]), Analysis::segments_json),
            is_understood: self.analysis.as_ref().is_some_and(is_understood),
            env,
            document_hash: self.stamp.document_hash.clone(),
            elevated: false,
            quorum: Quorum::default(),
            wishes: None,
        }
    }

    /// What `allow-always` could store: nothing for an agent about which nothing can be written.
    pub(super) fn proposed(&self, spec: AskSpec) -> Vec<Pattern> {
        match &self.analysis {
            Some(analysis)
                if spec.allow_always_offered && !is_old_name_of_main(self.binding.agent.as_str()) =>
            {
                analysis.proposed_patterns.clone()
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn why(&self, spec: AskSpec) -> Why {
        let finding = self
            .analysis
            .as_ref()
            .and_then(|analysis| analysis.verdict.finding());
        let (layer, detail, span) = match spec.why {
            AskWhy::AskAlways => (&self.effective.ask.source, "ask is `always`".to_owned(), None),
            AskWhy::Revised => (
                &self.effective.ask.source,
                "an approver changed the command; it runs by an answer of its own or not at all".to_owned(),
                None,
            ),
            AskWhy::AllowlistMiss | AskWhy::NeedsPerson => {
                let detail = match finding {
                    Some(finding) => finding.detail.clone(),
                    None if self.is_of_patch() => "no allowlist covers a patch".to_owned(),
                    None => "the allowlist does not cover the command".to_owned(),
                };
                (
                    &self.effective.security.source,
                    detail,
                    finding.map(|finding| (finding.span.start, finding.span.end)),
                )
            }
        };
        Why {
            layer: layer.clone(),
            rule: spec.why.as_str().to_owned(),
            detail,
            span,
        }
    }

    /// A denial in words, and the command or key that would change it.
    pub(super) fn explain_denial(&self, agent: &AgentId, reason: Reason) -> (Option<String>, Option<String>) {
        if let Some(why) = &self.node_refusal {
            return (Some(why.clone()), None);
        }
        if let Some(denial) = self.explain_denial_there(reason) {
            return denial;
        }
        match reason {
            Reason::SecurityDeny => (
                Some(format!("security is deny ({})", self.effective.security.source)),
                how_to_loosen(&self.effective.security.source, &self.binding.session),
            ),
            Reason::DocumentRefused => (self.refusal.clone(), Some(hint(&["doctor"]))),
            Reason::ToolDenied => (
                Some(if self.is_of_patch() {
                    "tool policy or tools.exec.applyPatch.enabled denies apply_patch".to_owned()
                } else {
                    "tool policy denies exec".to_owned()
                }),
                Some(hint(&["config", "get", "tools"])),
            ),
            Reason::Denylist => (
                self.analysis
                    .as_ref()
                    .and_then(|analysis| analysis.denylisted.as_ref())
                    .map(|hit| match &hit.reason {
                        Some(reason) => format!("deny rule {} matched: {reason}", hit.pattern),
                        None => format!("deny rule {} matched", hit.pattern),
                    }),
                None,
            ),
            Reason::Preflight => (
                self.preflight.as_ref().map(|found| {
                    format!("{found}; a here-document with a quoted delimiter ('EOF') leaves its text alone")
                }),
                None,
            ),
            Reason::ProgramNotFound => (
                self.absent
                    .as_ref()
                    .map(|name| format!("no program {name} is on the PATH of this host, so nobody is asked")),
                Some(hint(&["config", "get", "tools.exec.pathPrepend"])),
            ),
            Reason::AllowlistMiss if self.is_of_patch() => (
                Some("no allowlist covers a patch, and nobody is to be asked".to_owned()),
                Some(hint(&["config", "set", "tools.exec.ask", "on-miss"])),
            ),
            // What the gate says by itself is only the first of these.
            Reason::AllowlistMiss
            | Reason::UserDenied
            | Reason::ApprovalTimeout
            | Reason::NoApprover
            | Reason::ApprovalCancelled
            | Reason::ApprovalRequestFailed
            | Reason::BindingMismatch
            | Reason::ApprovalRequired
            | Reason::NodeRefused
            | Reason::RateLimited
            | Reason::SpawnFailed
            | Reason::Timeout
            | Reason::NotStarted
            | Reason::InvokeFailed
            | Reason::NodeDisconnected
            | Reason::ServerRestart
            | Reason::RunnerLost
            | Reason::RunElsewhere
            | Reason::Cancelled
            | Reason::Shutdown
            | Reason::Stopped => {
                let finding = self
                    .analysis
                    .as_ref()
                    .and_then(|analysis| analysis.verdict.finding());
                (
                    finding.map(|finding| finding.detail.clone()),
                    self.hint_to_allow(agent),
                )
            }
        }
    }

    /// The same where the document of a node decided: where that lies. What a person at this machine changes is not it.
    fn explain_denial_there(&self, reason: Reason) -> Option<(Option<String>, Option<String>)> {
        let (far, is_their_rule) = self.far.as_ref()?;
        let place = || far.place_of(&self.effective.security.source);
        let found = || {
            let finding = self.analysis.as_ref()?.verdict.finding()?;
            Some(finding.detail.as_str())
        };
        let detail = if reason == Reason::SecurityDeny {
            format!("security is deny ({})", place()?)
        } else if reason == Reason::AllowlistMiss {
            let detail = found().unwrap_or("the allowlist does not cover the command");
            format!("{detail}; the allowlist counts by {}", place()?)
        } else if reason == Reason::Denylist && *is_their_rule {
            let hit = self.analysis.as_ref()?.denylisted.as_ref()?;
            let why = hit.reason.as_ref().map(|why| format!(": {why}"));
            format!(
                "deny rule {} matched{} ({})",
                hit.pattern,
                why.unwrap_or_default(),
                far.deny_rules_of(&hit.owner)
            )
        } else {
            return None;
        };
        let node = self.binding.node_id.as_deref();
        Some((Some(detail), node.map(|node| hint(&["nodes", "show", node]))))
    }

    /// The command that would add the first executable that nothing covers.
    fn hint_to_allow(&self, agent: &AgentId) -> Option<String> {
        if self.binding.host == Host::Node {
            // The entry belongs into the node's own document.
            return self
                .binding
                .node_id
                .as_deref()
                .map(|node| hint(&["nodes", "show", node]));
        }
        let analysis = self
            .analysis
            .as_ref()
            .filter(|analysis| analysis.an_entry_would_help())?;
        let path = analysis.first_uncovered_path()?;
        // An agent chose the name: the hint is pasted into a shell, and a wildcard in it would cover other programs.
        let is_plain = !has_wildcard(path) && !path.chars().any(is_escaped_in_display);
        is_plain.then(|| {
            let typing: &[&str] = if analysis.lacks_only_input() {
                &["--input"]
            } else {
                &[]
            };
            let for_agent = ["--agent", agent.as_str(), path];
            hint(&[&["allowlist", "add"], typing, &for_agent].concat())
        })
    }
}
