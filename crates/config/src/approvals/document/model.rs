//! The document's parts, always normalised (`docs/spec/approvals-store.md#3-fields` and
//! `docs/spec/approvals-store.md#5-normalising`), and the views that deciding needs.

use std::collections::HashMap;

use countersign_domain::{Ask, EntryId, Secret, Security, SessionKey, UnixMillis};
use countersign_policy::{
    allowlist::Typing,
    combine::DocumentPolicy,
    layers::{Layer, Spoken},
};

use super::{
    confined::Confined,
    json::{Json, Number, pointer_step},
};

/// The agent whose part of the document speaks for every agent.
pub(super) const WILDCARD: &str = "*";

/// The agent of a call that names none.
const MAIN: &str = "main";

/// Members that we do not know, in the order in which they stood.
pub type Members = Vec<(String, Json)>;

/// An approvals document of schema version 1. Absent members stay absent when it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Where the approvals UI listens and what it expects.
    pub socket: Option<Socket>,
    /// The policy for every agent.
    pub defaults: Option<Defaults>,
    /// Agents by id, in the order of the file; ids compare exactly, `*` is the wildcard.
    pub agents: Option<Vec<(String, Agent)>>,
    /// Unknown members of the root.
    pub extra: Members,
}

/// The member `socket` of the document, for the approvals socket.
#[derive(Debug, Clone, Default)]
pub struct Socket {
    /// Trimmed, not blank. `~/` is expanded where it is used, never here.
    pub path: Option<String>,
    /// Trimmed, not blank. Leaves this module only into the file.
    pub token: Option<Secret>,
    /// Members of `socket` that we do not know; they are written back.
    pub extra: Members,
}

impl PartialEq for Socket {
    fn eq(&self, other: &Self) -> bool {
        let Self { path, token, extra } = self;
        // Only to notice changes; nobody's guess is compared here, so time does not matter.
        let same_token = match (token, &other.token) {
            (Some(ours), Some(theirs)) => ours.expose() == theirs.expose(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        *path == other.path && same_token && *extra == other.extra
    }
}

impl Eq for Socket {}

/// The member `defaults`: the policy for every agent that says nothing itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// The weakest layer of the document: `*` and then the agent itself come after it.
    pub policy: PolicyFields,
    /// Members of `defaults` that we do not know; they are written back.
    pub extra: Members,
}

/// The four policy members, each of which may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyFields {
    /// The enforcement level; `None` inherits.
    pub security: Option<Security>,
    /// When a person is asked; `None` inherits.
    pub ask: Option<Ask>,
    /// The enforcement level that decides when no answer comes; `None` inherits.
    pub ask_fallback: Option<Security>,
    /// Whether programs of the skill table need no entry (rule K1); `None` inherits.
    pub auto_allow_skills: Option<bool>,
}

/// One member of `agents`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    /// What this member says itself; the rest comes from `*`, then from `defaults`.
    pub policy: PolicyFields,
    /// Entries that every program knows.
    pub allowlist: Option<Vec<Keyed<Entry>>>,
    /// Entries with a limit; only we know them.
    pub grants: Option<Vec<Keyed<Grant>>>,
    /// What never runs; only we know it.
    pub denylist: Option<Vec<Keyed<DenyRule>>>,
    /// Members of the agent that we do not know; they are written back.
    pub extra: Members,
}

impl Agent {
    /// Whether the agent says nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            policy,
            allowlist,
            grants,
            denylist,
            extra,
        } = self;
        *policy == PolicyFields::default()
            && allowlist.as_ref().is_none_or(Vec::is_empty)
            && grants.as_ref().is_none_or(Vec::is_empty)
            && denylist.as_ref().is_none_or(Vec::is_empty)
            && extra.is_empty()
    }
}

/// An item of a list with the id it is edited by. No id stands twice among an agent's entries and grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed<T> {
    /// A UUID when we made it. Ids of other programs are kept as they are.
    pub id: EntryId,
    /// The entry, grant or deny rule without its id.
    pub item: T,
}

/// An item of `allowlist`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// As written; trimmed for matching. Never blank.
    pub pattern: String,
    /// Restricts the arguments; [`Entry::form`] says how.
    pub arg_pattern: Option<String>,
    /// `allow-always` marks an entry that a decision made; any other word counts as made by hand.
    pub source: Option<String>,
    /// Ours: the whole digest behind a `=command:` marker.
    pub command_sha256: Option<String>,
    /// Unix milliseconds, with fractions where the macOS app wrote them.
    pub last_used_at: Option<Number>,
    /// Text of the last command that matched.
    pub last_used_command: Option<String>,
    /// Path that the last match resolved to.
    pub last_resolved_path: Option<String>,
    /// Ours: text for people.
    pub note: Option<String>,
    /// Ours: it covers commands to which more can be written once they run.
    pub input: Option<bool>,
    /// Ours: their terminals keep pagers and editors that take commands.
    pub unguarded: Option<bool>,
    /// Ours: what its program may do.
    pub confine: Option<Confined>,
    /// Members of the entry that we do not know; they are written back.
    pub extra: Members,
}

/// An item of `grants`: an entry with at least one limit. Matched like an entry made by hand, after all entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// As for an entry.
    pub pattern: String,
    /// A regular expression over the arguments.
    pub arg_pattern: Option<String>,
    /// Ours: text for people.
    pub note: Option<String>,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: Option<Number>,
    /// Expired at this instant, in Unix milliseconds.
    pub expires_at_ms: Option<Number>,
    /// How often it may be used; 1 or more.
    pub max_uses: Option<u64>,
    /// How often it was; a copy for people, the ledger counts.
    pub uses: Option<Number>,
    /// Content of the real executable, in lower-case hex.
    pub sha256: Option<String>,
    /// It covers calls of this session alone.
    pub session_key: Option<SessionKey>,
    /// It covers programs that start in this directory or below it: an absolute real path.
    pub directory: Option<String>,
    /// As for an entry.
    pub input: Option<bool>,
    /// As for an entry.
    pub unguarded: Option<bool>,
    /// As for an entry.
    pub confine: Option<Confined>,
    /// Members of the grant that we do not know; they are written back.
    pub extra: Members,
}

/// The pattern of a deny rule that mutes an agent. No program is called so.
pub const QUESTIONS: &str = "=questions";

/// An item of `denylist`: a match never runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DenyRule {
    /// As in the allowlist; a name matches wherever the file lies.
    pub pattern: String,
    /// A regular expression over the arguments; absent for any arguments.
    pub arg_pattern: Option<String>,
    /// Text for people: why it must not run.
    pub reason: Option<String>,
    /// Whether no program of a confined run can start a match either. Never beside an argument pattern.
    pub children: Option<bool>,
    /// It is about one exact text, which has this digest in lower-case hex. Then `pattern` is its marker.
    pub command_sha256: Option<String>,
    /// It denies what the agent would have to be asked about, and nothing else. Then `pattern` is [`QUESTIONS`], and it ends.
    pub questions: Option<bool>,
    /// It ends at this instant, in Unix milliseconds; only of an exact text, or of questions.
    pub expires_at_ms: Option<Number>,
    /// Members of the rule that we do not know; they are written back.
    pub extra: Members,
}

impl Entry {
    /// What it includes of an open input.
    pub fn typing(&self) -> Typing {
        typing(self.input, self.unguarded)
    }
}

impl DenyRule {
    /// Whether no program of a confined run can start a match either.
    pub fn keeps_children(&self) -> bool {
        self.children.unwrap_or_default()
    }

    /// Whether it is about one exact text, and not about a program.
    pub const fn is_of_text(&self) -> bool {
        self.command_sha256.is_some()
    }

    /// Whether it mutes the agent: it is about its questions, and not about a command.
    pub fn is_of_questions(&self) -> bool {
        self.questions.unwrap_or_default()
    }

    /// Whether it denies the text with this digest at this time.
    pub fn denies_text(&self, sha256: &str, now: UnixMillis) -> bool {
        self.command_sha256.as_deref() == Some(sha256) && self.lasts(now)
    }

    /// Whether it denies the questions of the agent at this time.
    pub fn denies_questions(&self, now: UnixMillis) -> bool {
        self.is_of_questions() && self.lasts(now)
    }

    /// When it ends, in Unix milliseconds; the last of all instants where it does not.
    pub fn end(&self) -> i64 {
        self.expires_at_ms.as_ref().map_or(i64::MAX, Number::floor)
    }

    fn lasts(&self, now: UnixMillis) -> bool {
        now.get() < self.end()
    }
}

impl Grant {
    /// Whether anything limits it. Without a limit it would be an entry.
    pub fn is_limited(&self) -> bool {
        self.expires_at_ms.is_some()
            || self.max_uses.is_some()
            || self.sha256.is_some()
            || self.session_key.is_some()
            || self.directory.is_some()
    }

    /// What it includes of an open input.
    pub fn typing(&self) -> Typing {
        typing(self.input, self.unguarded)
    }
}

fn typing(input: Option<bool>, unguarded: Option<bool>) -> Typing {
    Typing::of(input.unwrap_or_default(), unguarded.unwrap_or_default())
}

/// What entries, grants and deny rules have in common.
pub(super) trait Rule {
    fn pattern(&self) -> &str;
    fn arg_pattern(&self) -> Option<&str>;
    /// What it includes of an open input; nothing for a deny rule.
    fn typing(&self) -> Typing;
    /// What it says about what its program may do; nothing for a deny rule.
    fn confine(&self) -> Option<&Confined>;
    fn extra(&self) -> &Members;
    fn extra_mut(&mut self) -> &mut Members;
}

macro_rules! rule {
    ($($name:ident: $typing:expr, $confine:expr);+) => {$(
        impl Rule for $name {
            fn pattern(&self) -> &str {
                &self.pattern
            }
            fn arg_pattern(&self) -> Option<&str> {
                self.arg_pattern.as_deref()
            }
            fn typing(&self) -> Typing {
                let typing: fn(&$name) -> Typing = $typing;
                typing(self)
            }
            fn confine(&self) -> Option<&Confined> {
                let confine: fn(&$name) -> Option<&Confined> = $confine;
                confine(self)
            }
            fn extra(&self) -> &Members {
                &self.extra
            }
            fn extra_mut(&mut self) -> &mut Members {
                &mut self.extra
            }
        }
    )+};
}

rule!(
    Entry: Entry::typing, |entry| entry.confine.as_ref();
    Grant: Grant::typing, |grant| grant.confine.as_ref();
    DenyRule: |_| Typing::Nothing, |_| None
);

/// An item in matching order, with the agent whose list it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<'a, T> {
    /// `*` or the agent's id.
    pub owner: &'a str,
    /// The id it is edited by, within its owner.
    pub id: &'a EntryId,
    /// The entry, grant or deny rule without its id.
    pub item: &'a T,
}

impl Document {
    /// The agent with exactly this id, `*` for the wildcard.
    pub fn agent(&self, id: &str) -> Option<&Agent> {
        let agents = self.agents.as_ref()?;
        agents
            .iter()
            .find(|(name, _agent)| name == id)
            .map(|(_name, agent)| agent)
    }

    /// The ids of all agents that the document names, without the wildcard.
    pub fn agent_ids(&self) -> impl Iterator<Item = &str> {
        let agents = self.agents.iter().flatten();
        agents
            .map(|(name, _agent)| name.as_str())
            .filter(|name| *name != WILDCARD)
    }

    /// What the document says for an agent (blank means `main`): per value `defaults`, then `*`, then the
    /// agent's own, the last of which counts (`docs/spec/approvals-store.md#6-resolving-a-policy`).
    pub fn policy(&self, agent: &str) -> DocumentPolicy {
        self.policy_of(self.speakers(agent))
    }

    fn policy_of<'a>(&self, speakers: impl Iterator<Item = (&'a str, &'a Agent)>) -> DocumentPolicy {
        let mut policy = DocumentPolicy::silent();
        if let Some(defaults) = &self.defaults {
            speak(&mut policy, Layer::DocumentDefaults, "defaults", defaults.policy);
        }
        for (owner, part) in speakers {
            let layer = if owner == WILDCARD {
                Layer::DocumentWildcard
            } else {
                Layer::DocumentAgent
            };
            speak(
                &mut policy,
                layer,
                &format!("agents/{}", pointer_step(owner)),
                part.policy,
            );
        }
        policy
    }

    /// The entries for an agent in matching order: those of `*`, then its own.
    pub fn entries(&self, agent: &str) -> Vec<Listed<'_, Entry>> {
        self.listed(agent, |part| part.allowlist.as_deref())
    }

    /// How many entries there are for an agent.
    pub fn entry_count(&self, agent: &str) -> usize {
        let lists = self
            .speakers(agent)
            .filter_map(|(_owner, part)| part.allowlist.as_deref());
        lists.map(<[_]>::len).sum()
    }

    /// The grants for an agent in matching order. All entries come before any of them.
    pub fn grants(&self, agent: &str) -> Vec<Listed<'_, Grant>> {
        self.listed(agent, |part| part.grants.as_deref())
    }

    /// The deny rules for an agent in matching order.
    pub fn deny_rules(&self, agent: &str) -> Vec<Listed<'_, DenyRule>> {
        self.listed(agent, |part| part.denylist.as_deref())
    }

    /// The wildcard and the agent itself, as far as the document names them.
    fn speakers(&self, agent: &str) -> impl Iterator<Item = (&str, &Agent)> {
        speaking_for(agent).filter_map(|wanted| {
            let agents = self.agents.as_ref()?;
            let (name, part) = agents.iter().find(|(name, _agent)| name == wanted)?;
            Some((name.as_str(), part))
        })
    }

    fn listed<T>(
        &self,
        agent: &str,
        list: impl for<'a> Fn(&'a Agent) -> Option<&'a [Keyed<T>]>,
    ) -> Vec<Listed<'_, T>> {
        let mut listed = Vec::new();
        for (owner, part) in self.speakers(agent) {
            for Keyed { id, item } in list(part).unwrap_or_default() {
                listed.push(Listed { owner, id, item });
            }
        }
        listed
    }
}

/// The agents of a document by name, for a caller that asks about many of them.
pub(super) struct ByName<'a> {
    document: &'a Document,
    agents: HashMap<&'a str, &'a Agent>,
}

impl<'a> ByName<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        let agents = document.agents.iter().flatten();
        Self {
            document,
            agents: agents.map(|(name, agent)| (name.as_str(), agent)).collect(),
        }
    }

    /// As [`Document::agent`].
    pub(super) fn agent(&self, id: &str) -> Option<&'a Agent> {
        self.agents.get(id).copied()
    }

    /// As [`Document::policy`].
    pub(super) fn policy(&self, agent: &str) -> DocumentPolicy {
        let speakers = speaking_for(agent).filter_map(|name| Some((name, self.agent(name)?)));
        self.document.policy_of(speakers)
    }
}

/// The names under which the document may speak for an agent (blank means `main`), the strongest last.
fn speaking_for(agent: &str) -> impl Iterator<Item = &str> {
    let agent = if super::text::trim(agent).is_empty() {
        MAIN
    } else {
        agent
    };
    let own = (agent != WILDCARD).then_some(agent);
    [Some(WILDCARD), own].into_iter().flatten()
}

fn speak(policy: &mut DocumentPolicy, layer: Layer, place: &str, fields: PolicyFields) {
    let PolicyFields {
        security,
        ask,
        ask_fallback,
        auto_allow_skills,
    } = fields;
    let source = |name: &str| format!("{}#/{place}/{name}", DocumentPolicy::FILE);
    if let Some(value) = security {
        policy
            .security
            .push(Spoken::new(layer, source("security"), value));
    }
    if let Some(value) = ask {
        policy.ask.push(Spoken::new(layer, source("ask"), value));
    }
    if let Some(value) = ask_fallback {
        policy
            .ask_fallback
            .push(Spoken::new(layer, source("askFallback"), value));
    }
    if let Some(value) = auto_allow_skills {
        policy
            .auto_allow_skills
            .push(Spoken::new(layer, source("autoAllowSkills"), value));
    }
}
