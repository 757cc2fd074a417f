//! The approval object.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{
    AgentId, AgentNote, Approval, ApprovalCard, ApprovalId, ApprovalState, Binding, Bound, Command,
    GrantLimits, Pattern, Proposal, Quorum, RunId, SessionKey, ShownEnv, UnixMillis, Vote, Why, proposals,
    quoting, stored_words, vocabulary,
};
use countersign_policy::command::{pinning::Pinned, question, redaction};
use countersign_protocol::ByName;

use crate::{
    actor::ActorBody,
    confined::ConfinementBody,
    entry::RuleBody,
    shown::Shown,
    words::{
        ApprovalDecision, ApprovalStatus, Ask, CommandInput, Host, PatternWidth, Pinning, ScriptHold,
        Security, TerminalReason,
    },
};

/// The hash of no environment overrides at all. It is shown where a binding has none, or the digests of those that are
/// stored would change.
pub const NO_ENV_HASH: &str = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

/// A question to a person (`docs/spec/http-api.md#approval-object`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct ApprovalBody {
    pub id: ApprovalId,
    /// The first 8 characters of the id.
    pub slug: String,
    pub run_id: RunId,
    pub status: ApprovalStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command as one line of text, exactly; arguments as a shell would need them.
    pub command: String,
    pub display: Shown,
    pub cwd: String,
    /// Whether that is outside of the workspace that the settings name for the agent. Absent where it is not, where they name
    /// none, and on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_workspace: Option<bool>,
    pub host: Host,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    pub requested_by: ActorBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_path: Option<String>,
    /// The analysed parts of the command, with the secrets masked that `display` masks.
    #[schema(value_type = Vec<Object>)]
    pub segments: serde_json::Value,
    /// Names of the environment overrides that the command gets, sorted; their values are bound by `boundTo.envHash`.
    pub env_names: Vec<String>,
    /// The values that could decide what runs, by name: all but those of variables that are known to be harmless, with
    /// nothing in them hidden, what looks like a secret masked and long ones cut. Only for the scope `approve`, and only while
    /// it waits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub env_values: BTreeMap<String, String>,
    /// So many more overrides are not named; then only `deny` is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_omitted: Option<usize>,
    pub security: Security,
    pub ask: Ask,
    pub ask_fallback: Security,
    pub why: WhyBody,
    /// How many different people have to allow it; one no is enough.
    pub approvals_required: u64,
    /// They must be in one of these groups. Absent for any approver; empty where no group stands in all of the rules
    /// that count, so that nobody may allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub groups: Option<BTreeSet<String>>,
    /// Who said what so far, where it takes more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub votes: Vec<VoteBody>,
    pub allowed_decisions: Vec<ApprovalDecision>,
    pub proposed_patterns: Vec<PatternBody>,
    /// The ways to remember the command, from the narrowest to the widest; `grant.proposal` of an answer names one. Absent
    /// where it cannot be remembered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub proposals: Vec<ProposalBody>,
    /// What its answer remembers; absent where it remembers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub grant: Option<GrantBody>,
    pub created_at_ms: UnixMillis,
    pub expires_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<ActorBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<TerminalReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_at_ms: Option<UnixMillis>,
    /// How long its run is held back once it is allowed, so that the answer can be taken back. Absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_delay_ms: Option<u64>,
    /// The program that asks starts the command itself once it has the answer, which cannot be taken back then. Absent where
    /// this server starts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by_asker: Option<bool>,
    /// It is allowed, and its run is held back until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at_ms: Option<UnixMillis>,
    /// The approval whose place it took, with a command that an approver changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revises: Option<ApprovalId>,
    /// The approval that took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revised_by: Option<ApprovalId>,
    pub bound_to: BindingBody,
    /// Its input stays open: more can be written to it once it runs, into a `pipe` or at its `terminal`. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub input: Option<CommandInput>,
    /// How firmly the run is what the answer covers: `exact` (the arguments, and every program by its identity), `path`
    /// (something is found by its path once more) or `text` (a text and its shell).
    pub binding: Pinning,
    /// Why it is that.
    pub binding_detail: Cow<'static, str>,
    /// Whether the scripts of the command are read as they were judged: `held`, or `not held` with the reason. Absent
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scripts: Option<ScriptHold>,
    /// What the kernel keeps of each program. Absent where it keeps nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<ConfinementBody>,
    /// The same in one line. Absent where no program of the server's machine starts by its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
    /// Why the agent wants it, in its own words; nobody checked them. What looks like a secret is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Where the agent says that there is more to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_url: Option<String>,
}

/// What an agent said, for people.
pub(crate) fn justification(note: &AgentNote) -> Option<String> {
    let said = note.justification.as_ref()?;
    Some(redaction::masked(said.as_str()))
}

pub(crate) fn context_url(note: &AgentNote) -> Option<String> {
    let said = note.context_url.as_ref()?;
    Some(redaction::masked(said.as_str()))
}

vocabulary! {
    /// How much of each approval a list has: all of it, or what a list shows.
    #[derive(Default, ToSchema)]
    #[schema(rename_all = "kebab-case")]
    pub enum ApprovalView("full or brief") {
        #[default]
        Full = "full",
        Brief = "brief",
    }
}

/// What a list shows of a question to a person. All of it: `GET /v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApprovalBrief)]
pub struct ApprovalBriefBody {
    pub id: ApprovalId,
    pub run_id: RunId,
    pub status: ApprovalStatus,
    pub agent_id: AgentId,
    pub session_key: SessionKey,
    pub host: Host,
    /// The command on one line, as `display.text` shows it: at most 200 characters.
    pub line: String,
    /// Whether something of the command is left out of `line`.
    pub truncated: bool,
    pub created_at_ms: UnixMillis,
    pub expires_at_ms: UnixMillis,
    /// How many people have allowed it so far, where it takes more than one.
    pub votes: usize,
    /// How many different people have to allow it.
    pub approvals_required: u64,
    /// What the answer covers: `boundTo.digest`.
    pub binding_digest: String,
}

/// One person's answer to a question that takes several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Vote)]
pub struct VoteBody {
    pub by: ActorBody,
    pub decision: ApprovalDecision,
    pub at_ms: UnixMillis,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AskReason)]
pub struct WhyBody {
    /// Where the rule stands.
    pub layer: String,
    pub rule: String,
    pub detail: String,
    /// Byte offsets of the command that it points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<[u32; 2]>,
}

/// An entry that `allow-always` could store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pattern)]
pub struct PatternBody {
    /// Index of the top-level segment it comes from.
    pub segment: usize,
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg_pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub width: PatternWidth,
    /// Whether a bare `allow-always` stores it.
    pub default: bool,
    /// The form of the arguments in words, of one of the width `arguments`: `git push origin *`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub shape: Option<String>,
    /// What limits it; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub limits: Option<LimitsBody>,
    /// What it does not say by itself: of a script its path and arguments are remembered, not its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'static, str>>,
}

/// What limits an entry that an answer leaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GrantLimits)]
pub struct LimitsBody {
    /// It covers nothing from this instant on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<UnixMillis>,
    /// How many runs it covers in all, the one that was asked about among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// It covers calls of this session alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    /// It covers programs that start in this directory or below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// One way to remember a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Proposal)]
pub struct ProposalBody {
    /// By which an answer names it: `exact`, `arguments` or `program`.
    #[schema(value_type = String)]
    pub id: PatternWidth,
    /// What would be stored, in one line.
    pub words: String,
    /// The entries that would be stored.
    pub stores: Vec<PatternBody>,
    /// How many of the latest questions of the agent it would have covered; only for one question that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub would_have_covered: Option<CoveredBody>,
}

/// So many of so many questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Covered)]
pub struct CoveredBody {
    pub covered: u64,
    pub of: u64,
}

/// What an answer remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Grant)]
pub struct GrantBody {
    /// In one line.
    pub words: String,
    /// The entries.
    pub stores: Vec<PatternBody>,
}

/// Of every entry for a command that has scripts.
const NOT_REMEMBERED: &str =
    "the content of a script is not remembered: any later content runs without a question";

/// What an answer covers; anything else does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Binding)]
pub struct BindingBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Hash of the environment overrides, of the empty list without any.
    pub env_hash: String,
    pub digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_sha256: Option<String>,
}

/// A person's answer.
#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Decision)]
pub struct DecisionBody {
    pub decision: countersign_domain::ApprovalDecision,
    /// Why, in their words.
    #[schema(max_length = 2000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only with `allow-always`: which of the proposed patterns to remember; the default ones unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ChosenPattern>>, min_items = 1)]
    pub patterns: Option<Vec<ByName<ChosenPattern>>>,
    /// Only with `allow-always`, instead of `patterns`: one of the proposals, and what limits it further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GrantChoiceBody>, required = false)]
    pub grant: Option<ByName<GrantChoiceBody>>,
    /// Only with `deny`: the same command of this agent, or everything that it would ask, is denied without a question until
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MuteBody>, required = false)]
    pub mute: Option<ByName<MuteBody>>,
    /// Only with `deny`: the same command of this agent is denied without a question for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub never: bool,
}

/// One of the proposals of a question, narrowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GrantChoice)]
pub struct GrantChoiceBody {
    /// The id of one of `proposals`.
    #[schema(max_length = 64)]
    pub proposal: String,
    /// It ends at this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<UnixMillis>,
    /// It covers so many runs in all, the one that is asked about among them: 2 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 2, maximum = 9_007_199_254_740_991_u64)]
    pub max_uses: Option<u64>,
    /// It covers calls of this session alone: the one that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    /// It covers programs that start in this directory or below it: the one of the question or one above it, as a real path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub directory: Option<String>,
}

/// For how long nobody is asked about the same command again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Mute)]
pub struct MuteBody {
    /// It ends at this instant, at most 30 days from now.
    pub until_ms: UnixMillis,
    /// Everything that this agent would have to be asked about is denied until then, not only the same command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub agent: bool,
}

/// Takes an allowance back.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TakeBack)]
pub struct TakeBackBody {
    /// Why, in their words.
    #[schema(max_length = 2000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One of an approval's proposed patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChosenPattern {
    pub pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg_pattern: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DecisionResult)]
pub struct DecidedBody {
    /// Whether this answer counted; false when the same one was there before. The approval still waits (`pending`) when it
    /// takes the answers of more people (`approvalsRequired`).
    pub applied: bool,
    pub approval: ApprovalBody,
    /// The deny rule that a deny left (`mute`, `never`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub rule: Option<RuleBody>,
    /// Why the deny left no rule although it was to; the deny itself counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub no_rule: Option<String>,
}

/// What the state of an approval adds to it.
#[derive(Default)]
struct Resolved {
    at: Option<UnixMillis>,
    by: Option<ActorBody>,
    reason: Option<String>,
    terminal_reason: Option<TerminalReason>,
    consumed_at: Option<UnixMillis>,
}

impl From<Approval> for ApprovalBody {
    fn from(approval: Approval) -> Self {
        let starts_at = approval.starts_at();
        let Approval {
            id,
            run_id,
            card,
            waiting_env,
            requested_by,
            state,
            chosen_patterns,
            votes,
            created_at,
            expires_at,
            revises,
            revised_by,
        } = approval;
        let display = Shown::of(&card);
        let masked = display.masks_secrets().then(|| question::parts(&card));
        let ApprovalCard {
            binding,
            security,
            ask,
            ask_fallback,
            satisfied: _,
            needs_person: _,
            why,
            allowed_decisions,
            proposed_patterns,
            resolved_path,
            segments,
            is_understood: _,
            env: ShownEnv { names, omitted },
            document_hash: _,
            elevated: _,
            quorum:
                Quorum {
                    required,
                    groups,
                    start_by_ms: _,
                    start_delay_ms,
                },
            wishes: _,
            outside_workspace,
            note,
        } = card;
        let (status, decision) = (state.status(), state.decision());
        let resolved = Resolved::from(state);
        let digest = binding.digest();
        let is_elsewhere = matches!(binding.bound, Bound::Elsewhere { .. });
        let pinned = Pinned::of(&binding);
        let confined = binding.confined();
        let Binding {
            host,
            node_id,
            agent,
            session,
            command,
            bound,
            cwd,
            env_hash,
            executable_sha256,
            script,
            scripts,
            held,
            confinement,
            input,
            ..
        } = binding;
        Self {
            slug: id.slug().to_owned(),
            id,
            run_id,
            status: status.into(),
            decision: decision.map(Into::into),
            reason: resolved.reason,
            command: quoting::line(&command),
            display,
            cwd: cwd.clone(),
            outside_workspace: outside_workspace.then_some(true),
            host: host.into(),
            node_id,
            agent_id: agent,
            session_key: session,
            requested_by: requested_by.into(),
            resolved_path,
            segments: masked.unwrap_or(segments),
            env_names: names,
            env_values: question::values(&waiting_env),
            env_omitted: Some(omitted).filter(|omitted| *omitted > 0),
            security: security.into(),
            ask: ask.into(),
            ask_fallback: ask_fallback.into(),
            why: why.into(),
            approvals_required: required,
            groups,
            votes: votes.into_iter().map(VoteBody::from).collect(),
            allowed_decisions: allowed_decisions.into_iter().map(Into::into).collect(),
            proposals: proposals(&proposed_patterns)
                .into_iter()
                .map(|proposal| ProposalBody::of(proposal, !scripts.is_empty()))
                .collect(),
            grant: GrantBody::of(chosen_patterns, !scripts.is_empty()),
            proposed_patterns: PatternBody::all(proposed_patterns, !scripts.is_empty()),
            created_at_ms: created_at,
            expires_at_ms: expires_at,
            resolved_at_ms: resolved.at,
            resolved_by: resolved.by,
            terminal_reason: resolved.terminal_reason,
            consumed_at_ms: resolved.consumed_at,
            start_delay_ms,
            started_by_asker: is_elsewhere.then_some(true),
            starts_at_ms: starts_at,
            revises,
            revised_by,
            input: input.noteworthy().map(Into::into),
            binding: pinned.pinning.into(),
            binding_detail: pinned.detail.into(),
            scripts: held.map(Into::into),
            confinement: ConfinementBody::of(&confinement),
            confined,
            justification: justification(&note),
            context_url: context_url(&note),
            bound_to: BindingBody::new(bound, &command, cwd, env_hash, digest)
                .with_hashes(executable_sha256, script.map(|(_path, sha256)| sha256)),
        }
    }
}

impl BindingBody {
    fn new(bound: Bound, command: &Command, cwd: String, env_hash: Option<String>, digest: String) -> Self {
        let (argv, text, shell) = match bound {
            Bound::Exec {
                path: _,
                argv,
                identity: _,
            } => (Some(argv), None, None),
            Bound::Plan { steps: _ } | Bound::Inside { .. } | Bound::OnNode { .. } => match command {
                Command::Argv(argv) => (Some(argv.clone()), None, None),
                Command::Shell(text) | Command::Patch(text) => (None, Some(text.clone()), None),
            },
            // What the person saw is the text that was sent; the rendering is made from it.
            Bound::Rendered { script: _ } => (None, Some(command.to_text()), Some("/bin/sh".to_owned())),
            Bound::Text { shell, text }
            | Bound::Held {
                shell,
                shell_file: _,
                text,
                workspace: _,
                programs: _,
                loaders: _,
            } => (None, Some(text), Some(shell)),
            Bound::Patch {
                text,
                workspace_only: _,
                off_limits: _,
                spared: _,
            } => (None, Some(text), None),
            Bound::Elsewhere { .. } => (None, Some(command.to_text()), None),
        };
        Self {
            argv,
            command: text,
            cwd,
            shell,
            env_hash: env_hash.unwrap_or_else(|| NO_ENV_HASH.to_owned()),
            digest,
            executable_sha256: None,
            script_sha256: None,
        }
    }

    fn with_hashes(self, executable: Option<String>, script: Option<String>) -> Self {
        Self {
            executable_sha256: executable,
            script_sha256: script,
            ..self
        }
    }
}

impl From<ApprovalState> for Resolved {
    fn from(state: ApprovalState) -> Self {
        match state {
            ApprovalState::Pending => Self::default(),
            ApprovalState::Allowed {
                decision: _,
                by,
                at,
                reason,
                why,
                consumed_at,
                persist: _,
            } => Self {
                at: Some(at),
                by: Some(by.into()),
                reason,
                terminal_reason: Some(why.into()),
                consumed_at,
            },
            ApprovalState::Denied { by, at, reason, why } => Self {
                at: Some(at),
                by: Some(by.into()),
                reason,
                terminal_reason: Some(why.into()),
                consumed_at: None,
            },
            ApprovalState::Expired { at, why } => Self {
                at: Some(at),
                terminal_reason: Some(why.into()),
                ..Self::default()
            },
            ApprovalState::Cancelled { by, at } => Self {
                at: Some(at),
                by: Some(by.into()),
                terminal_reason: Some(countersign_domain::TerminalReason::RunAborted.into()),
                ..Self::default()
            },
        }
    }
}

impl From<Why> for WhyBody {
    fn from(
        Why {
            layer,
            rule,
            detail,
            span,
        }: Why,
    ) -> Self {
        Self {
            layer,
            rule,
            detail,
            span: span.map(|(start, end)| [start, end]),
        }
    }
}

impl From<Vote> for VoteBody {
    fn from(
        Vote {
            by,
            decision,
            at,
            reason,
            patterns: _,
        }: Vote,
    ) -> Self {
        Self {
            by: by.into(),
            decision: decision.into(),
            at_ms: at,
            reason,
        }
    }
}

impl From<GrantLimits> for LimitsBody {
    fn from(
        GrantLimits {
            expires_at,
            max_uses,
            session,
            directory,
        }: GrantLimits,
    ) -> Self {
        Self {
            expires_at_ms: expires_at,
            max_uses,
            session_key: session,
            directory,
        }
    }
}

impl ProposalBody {
    fn of(proposal: Proposal, has_scripts: bool) -> Self {
        Self {
            words: proposal.words(),
            id: proposal.id.into(),
            stores: PatternBody::all(proposal.stores, has_scripts),
            would_have_covered: None,
        }
    }
}

impl GrantBody {
    fn of(stored: Vec<Pattern>, has_scripts: bool) -> Option<Self> {
        (!stored.is_empty()).then(|| Self {
            words: stored_words(&stored),
            stores: PatternBody::all(stored, has_scripts),
        })
    }
}

impl PatternBody {
    /// This one, as a decision names it.
    pub fn chosen(&self) -> ChosenPattern {
        ChosenPattern {
            pattern: self.pattern.clone(),
            arg_pattern: self.arg_pattern.clone(),
        }
    }

    /// Of a command with or without scripts.
    pub fn all(patterns: Vec<Pattern>, has_scripts: bool) -> Vec<Self> {
        let note = has_scripts.then_some(Cow::Borrowed(NOT_REMEMBERED));
        patterns
            .into_iter()
            .map(|pattern| Self {
                note: note.clone(),
                ..Self::from(pattern)
            })
            .collect()
    }
}

impl From<Pattern> for PatternBody {
    fn from(
        Pattern {
            segment,
            pattern,
            arg_pattern,
            source,
            width,
            default,
            shape,
            limits,
        }: Pattern,
    ) -> Self {
        Self {
            segment,
            pattern,
            arg_pattern,
            source,
            width: width.into(),
            default,
            shape,
            limits: (!limits.is_none()).then(|| limits.into()),
            note: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_hash_of_no_overrides_is_that_of_an_empty_list() {
        assert_eq!(countersign_domain::hex(&Sha256::digest("[]")), NO_ENV_HASH);
    }
}
