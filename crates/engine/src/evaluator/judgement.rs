//! What one look at the policy says about a call, in values and in words: the verdict, what a run is bound to, the card
//! for a person, and why it is denied.

use std::{cmp::Reverse, sync::Arc};

use countersign_config::{
    approvals::{binding, document::is_old_name_of_main},
    settings::Settings,
};
use countersign_domain::{
    AgentId, AgentNote, ApprovalCard, ApprovalDecision, Binding, Bound, Command, CommandInput, EnvOverrides,
    Host, Pattern, Quorum, Reason, Security, Why,
};
use countersign_ledger::{GrantUse, NodeLaunch, PolicyStamp, launch::LaunchTerms};
use countersign_policy::{
    allowlist::{Analysis, SegmentReport},
    combine::Effective,
    command::{
        Code, Finding, characters::is_escaped_in_display, direct::ChosenStart, pinning::Pinned, question,
    },
    gate::{self, AskSpec, AskWhy, GateInput, Verdict},
};

use crate::{
    far_policy::FarPolicy,
    hint::{HOW_TO_BE_THERE, hint},
    mute::Mute,
    question_terms::{ASKER, AskRequest},
};

/// What one look at the policy says about a call.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) effective: Effective,
    pub(crate) analysis: Option<Analysis>,
    pub(crate) input: GateInput,
    pub(crate) verdict: Verdict,
    pub(crate) binding: Binding,
    /// How firmly what would be started is what is bound.
    pub(crate) pinned: Pinned,
    /// How its text is started; `None` where no host shell of this machine would read one.
    pub(crate) start: Option<ChosenStart>,
    pub(crate) stamp: PolicyStamp,
    pub(crate) grants: Vec<GrantUse>,
    /// The overrides that reach the command.
    pub(crate) env: EnvOverrides,
    /// What it is launched with on its node.
    pub(crate) node: Option<NodeLaunch>,
    /// What the look at its scripts found, in words.
    pub(crate) preflight: Option<String>,
    /// The first program, where a person would be asked about it and it is nowhere on the PATH.
    pub(crate) absent: Option<String>,
    pub(crate) refusal: Option<String>,
    /// Why its node would not run it, in words.
    pub(crate) node_refusal: Option<String>,
    /// The node whose document was judged by, and whether one of its own deny rules matched.
    pub(crate) far: Option<(FarPolicy, bool)>,
    /// Who starts it, where that is not this server.
    pub(crate) asker: Option<Arc<AskRequest>>,
    /// What mutes the agent, where a person would have been asked.
    pub(crate) mute: Option<Mute>,
}

impl Judgement {
    /// A judgement of a command whose words do not matter.
    pub(crate) fn without_analysis(
        effective: Effective,
        input: GateInput,
        binding: Binding,
        stamp: PolicyStamp,
        env: EnvOverrides,
    ) -> Self {
        Self {
            verdict: gate::gate(&input),
            effective,
            analysis: None,
            input,
            pinned: Pinned::of(&binding),
            binding,
            start: None,
            stamp,
            grants: Vec::new(),
            env,
            node: None,
            refusal: None,
            preflight: None,
            absent: None,
            node_refusal: None,
            far: None,
            asker: None,
            mute: None,
        }
    }

    /// The same of a call whose agent is muted: nobody is asked about it.
    pub(crate) fn muted(self, mute: Option<Mute>) -> Self {
        match (self.verdict, mute) {
            (Verdict::Ask(_), Some(mute)) => Self {
                verdict: Verdict::Deny(Reason::AgentMuted),
                mute: Some(mute),
                ..self
            },
            (Verdict::Run | Verdict::Ask(_) | Verdict::Deny(_), _) => self,
        }
    }

    /// The same of a command whose script must not run, since this was found in it.
    pub(crate) fn refused_by_preflight(self, found: String) -> Self {
        Self {
            verdict: Verdict::Deny(Reason::Preflight),
            preflight: Some(found),
            ..self
        }
    }

    /// Whether the allowlist alone is what would have a person asked.
    pub(crate) fn is_miss(&self) -> bool {
        let by_gate = match self.verdict {
            // The gate itself asked about it.
            Verdict::Deny(Reason::ProgramNotFound) => gate::gate(&self.input),
            verdict @ (Verdict::Run | Verdict::Ask(_) | Verdict::Deny(_)) => verdict,
        };
        matches!(by_gate, Verdict::Ask(spec) if spec.why == AskWhy::AllowlistMiss)
    }

    /// The same of a call that must neither run nor be asked about, for this reason and in these words.
    pub(crate) fn refused(self, reason: Reason, why: &str) -> Self {
        Self {
            verdict: Verdict::Deny(reason),
            node_refusal: Some(why.to_owned()),
            ..self
        }
    }

    /// One judgement of what two policies say of a call. Nothing runs that would not run under both, with what both
    /// leave of its environment, and it uses up what it uses up under either.
    pub(crate) fn strictest(self, other: Self) -> Self {
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
        let confinement = std::mem::take(&mut judged.binding.confinement);
        judged.binding.confinement = confinement.strictest(&lesser.binding.confinement);
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
        let denied = &mut judged.binding.denied_children;
        denied.extend(lesser.binding.denied_children);
        denied.sort();
        denied.dedup();
        add_uses(&mut judged.grants, lesser.grants);
        judged
    }

    fn is_of_patch(&self) -> bool {
        matches!(self.binding.command, Command::Patch(_))
    }

    /// On which terms the call may start without anybody being asked.
    pub(crate) fn terms(&self, settings: &Settings) -> LaunchTerms {
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
    pub(crate) fn to_card(&self, spec: AskSpec) -> ApprovalCard {
        let proposed = self.proposed(spec);
        let env = question::environment(&self.env);
        let first_program = self.binding.executables.first();
        let (resolved_path, mut allowed_decisions) = match &self.asker {
            Some(asker) => (
                asker.resolved_path.clone(),
                asker.allowed_decisions(self.input.ask),
            ),
            None => (first_program.map(|file| file.path.clone()), allowed(&proposed)),
        };
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
            resolved_path,
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
            outside_workspace: false,
            note: AgentNote::default(),
        }
    }

    /// What `allow-always` could store: nothing for an agent about which nothing can be written.
    pub(crate) fn proposed(&self, spec: AskSpec) -> Vec<Pattern> {
        match &self.analysis {
            Some(analysis)
                if spec.allow_always_offered && !is_old_name_of_main(self.binding.agent.as_str()) =>
            {
                analysis.proposed_patterns.clone()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What `allow-always` could store. Of a call that is denied because nothing covers it, what would cover it: nothing
    /// where the entry would have to stand in the document of a node, or where only a person may allow the call.
    pub(crate) fn would_persist(&self) -> Vec<Pattern> {
        match self.verdict {
            Verdict::Ask(spec) => self.proposed(spec),
            Verdict::Deny(Reason::AllowlistMiss)
                if !self.input.needs_person && self.binding.host == Host::Gateway && self.far.is_none() =>
            {
                self.proposed(AskSpec {
                    why: AskWhy::AllowlistMiss,
                    allow_always_offered: true,
                })
            }
            Verdict::Run | Verdict::Deny(_) => Vec::new(),
        }
    }

    fn why(&self, spec: AskSpec) -> Why {
        let finding = self
            .analysis
            .as_ref()
            .and_then(|analysis| analysis.verdict.finding());
        let asked_by_asker = || self.asker.as_ref().map(|asker| asker.detail.clone());
        let (layer, detail, span) = match spec.why {
            AskWhy::Asked => (ASKER, asked_by_asker().unwrap_or_default(), None),
            AskWhy::AskAlways => (
                self.effective.ask.source.as_str(),
                "ask is `always`".to_owned(),
                None,
            ),
            AskWhy::Revised => (
                self.effective.ask.source.as_str(),
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
                    self.effective.security.source.as_str(),
                    detail,
                    finding.map(|finding| (finding.span.start, finding.span.end)),
                )
            }
        };
        Why {
            layer: layer.to_owned(),
            rule: spec.why.as_str().to_owned(),
            detail,
            span,
        }
    }

    /// A denial in words, and the command or key that would change it.
    pub(crate) fn explain_denial(&self, agent: &AgentId, reason: Reason) -> (Option<String>, Option<String>) {
        if let Some(why) = &self.node_refusal {
            return (Some(why.clone()), None);
        }
        if let Some(denial) = self.explain_denial_there(reason) {
            return denial;
        }
        match (self.is_of_patch(), reason) {
            (_, Reason::SecurityDeny) => (
                Some(match self.effective.security.source.as_str() {
                    "call" => "the call itself asks for security deny".to_owned(),
                    source => format!("security is deny ({source})"),
                }),
                self.how_to_end_deny(),
            ),
            (_, Reason::DocumentRefused) => (self.refusal.clone(), Some(hint(&["doctor"]))),
            (is_of_patch, Reason::ToolDenied) => (
                Some(if is_of_patch {
                    "tool policy or tools.exec.applyPatch.enabled denies apply_patch".to_owned()
                } else {
                    "tool policy denies exec".to_owned()
                }),
                Some(hint(&["config", "get", "tools"])),
            ),
            (_, Reason::Denylist) => (
                self.analysis
                    .as_ref()
                    .and_then(|analysis| analysis.denylisted.as_ref())
                    .map(|hit| match &hit.reason {
                        Some(reason) => format!("deny rule {} matched: {reason}", hit.pattern),
                        None => format!("deny rule {} matched", hit.pattern),
                    }),
                None,
            ),
            (_, Reason::AgentMuted) => (
                self.mute.as_ref().map(Mute::words),
                // The mute of a node's document is ended there.
                self.mute
                    .as_ref()
                    .filter(|_| self.far.is_none())
                    .map(Mute::how_to_end),
            ),
            (_, Reason::Preflight) => (
                self.preflight.as_ref().map(|found| {
                    format!("{found}; a here-document with a quoted delimiter ('EOF') leaves its text alone")
                }),
                None,
            ),
            (_, Reason::ProgramNotFound) => (
                self.absent
                    .as_ref()
                    .map(|name| format!("no program {name} is on the PATH of this host, so nobody is asked")),
                Some(hint(&[
                    "config",
                    "set",
                    "tools.exec.pathPrepend",
                    "[\"DIRECTORY\"]",
                ])),
            ),
            (true, Reason::AllowlistMiss) => (
                Some("no allowlist covers a patch, and nobody is to be asked".to_owned()),
                Some(hint(&["config", "set", "tools.exec.ask", "on-miss"])),
            ),
            // What the gate says by itself is only the first of these.
            _ => {
                let finding = self
                    .analysis
                    .as_ref()
                    .and_then(|analysis| analysis.verdict.finding());
                (
                    finding.map(|finding| finding.detail.clone()),
                    self.how_to_allow(agent),
                )
            }
        }
    }

    /// The command that would change a denial. A deny rule is named only to those who may read the policy.
    pub(crate) fn how_to_change(&self, agent: &AgentId, reason: Reason, names_rules: bool) -> Option<String> {
        if reason == Reason::NoApprover {
            return Some(hint(&HOW_TO_BE_THERE));
        }
        let (_, how) = self.explain_denial(agent, reason);
        how.or_else(|| {
            let hit = self.analysis.as_ref()?.denylisted.as_ref();
            let hit = hit.filter(|_| names_rules && reason == Reason::Denylist)?;
            let is_plain = ![&hit.id, &hit.owner]
                .into_iter()
                .any(|text| text.chars().any(is_escaped_in_display));
            is_plain.then(|| hint(&["denylist", "remove", &hit.id, "--agent", &hit.owner]))
        })
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
}

/// What can be written to a command that runs without an answer. Where only the allowlist lets it run, that is what the
/// allowlist includes of what is wanted.
pub(crate) fn input_by(
    security: Security,
    wanted: CommandInput,
    analysis: Option<&Analysis>,
) -> CommandInput {
    match (security, analysis) {
        (Security::Allowlist | Security::Deny, Some(analysis)) if wanted.is_open() => analysis.input,
        (Security::Full | Security::Allowlist | Security::Deny, _) => wanted,
    }
}

/// The lesser of what two policies leave of an input that a call wants.
pub(crate) const fn lesser_input(one: CommandInput, other: CommandInput) -> CommandInput {
    if !one.is_open() {
        one
    } else if !other.is_open() || matches!(other, CommandInput::GuardedTerminal) {
        other
    } else {
        one
    }
}

/// The answers to a question of which this could be remembered.
fn allowed(proposed: &[Pattern]) -> Vec<ApprovalDecision> {
    let mut decisions = vec![ApprovalDecision::AllowOnce];
    if proposed.iter().any(|pattern| pattern.default) {
        decisions.push(ApprovalDecision::AllowAlways);
    }
    decisions.push(ApprovalDecision::Deny);
    decisions
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
pub(crate) fn add_uses(grants: &mut Vec<GrantUse>, more: Vec<GrantUse>) {
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
