//! What a change of the document means for what may run
//! (`docs/spec/approvals-store.md#9-snapshot-hash-compare-and-swap`).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use countersign_domain::{Ask, EntryId, Security, UnixMillis};
use countersign_policy::{
    allowlist::Typing,
    confine::is_within,
    pending_change::{Allowances, quoted},
};

use super::{
    confined::Confined,
    model::{Agent, ByName, Document, Entry, Grant, Keyed, WILDCARD},
};

/// Which way a change goes. Where that cannot be seen it counts as widening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeDirection {
    /// The same commands run, are asked and are denied as before.
    Neutral,
    /// Some command that ran or could be allowed no longer does, and none the other way round.
    Narrows,
    /// Some command may run that did not, or runs without being asked.
    Widens,
}

/// What differs between two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which way it goes as a whole.
    pub change: ChangeDirection,
    /// What may run now that could not before, or without being asked, in words; empty unless it widens.
    pub allows: Vec<String>,
    /// Agents (`*` included) that had deny rules or grants and have none of them any more, as after a writer that
    /// does not know them.
    pub(crate) lost_members: Vec<String>,
}

/// More deny rules of one agent are not remembered once they are lost.
const MAX_LOST: usize = 1_000;

/// Deny rules and grants that a writer dropped which does not know them, as the product's macOS app does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LostRules {
    /// `*` or the agent.
    pub agent: String,
    /// The deny rules: pattern and argument pattern.
    pub deny_rules: Vec<(String, Option<String>)>,
    /// How many grants were lost; 0 for none, or once they are not missed any more.
    pub grants: usize,
    /// Entries, by id and pattern, that named their arguments and cover any now.
    pub unbound: Vec<(String, String)>,
}

impl LostRules {
    /// What of them a document still lacks. Lost grants allow nothing, so that they are not missed any more once all
    /// deny rules or other grants are there.
    #[must_use]
    pub fn still_missing(lost: Vec<Self>, document: &Document) -> Vec<Self> {
        let document = ByName::of(document);
        lost.into_iter()
            .filter_map(|rules| rules.still_missing_in(&document))
            .collect()
    }

    fn still_missing_in(mut self, document: &ByName<'_>) -> Option<Self> {
        let agent = document.agent(&self.agent);
        let present: BTreeSet<RuleKey<'_>> = rules_of(agent).collect();
        let had_rules = !self.deny_rules.is_empty();
        self.deny_rules
            .retain(|(pattern, arg_pattern)| !present.contains(&(pattern.as_str(), arg_pattern.as_deref())));
        let has_grants =
            agent.is_some_and(|agent| agent.grants.as_ref().is_some_and(|list| !list.is_empty()));
        if has_grants || (had_rules && self.deny_rules.is_empty()) {
            self.grants = 0;
        }
        let unbound: HashSet<&str> = unbound_entries(agent).map(|keyed| keyed.id.as_str()).collect();
        self.unbound
            .retain(|(id, _pattern)| unbound.contains(id.as_str()));
        let is_missed = !self.deny_rules.is_empty() || self.grants > 0 || !self.unbound.is_empty();
        is_missed.then_some(self)
    }
}

fn unbound_entries(agent: Option<&Agent>) -> impl Iterator<Item = &Keyed<Entry>> {
    let entries = agent
        .into_iter()
        .flat_map(|agent| agent.allowlist.iter().flatten());
    entries.filter(|keyed| keyed.item.arg_pattern.is_none())
}

impl Document {
    /// Compares this document with a later one, as of this time: a deny rule that has ended denies nothing.
    pub fn difference(&self, later: &Self, now: UnixMillis) -> Difference {
        let mut known = HashSet::from([WILDCARD, "main"]);
        let mut names = vec![WILDCARD, "main"];
        for (name, _agent) in self.agents.iter().flatten().chain(later.agents.iter().flatten()) {
            if known.insert(name) {
                names.push(name);
            }
        }
        let (mut widened, mut narrowed) = (Allowances::default(), Allowances::default());
        // Answers come from the socket: anyone who names another one could be the one who answers.
        if !has_same_socket(self, later) {
            widened.add("approvals are answered over another socket or with another token".to_owned());
        }
        if !has_same_socket(later, self) {
            narrowed.add("the socket is another one".to_owned());
        }
        let (earlier, later) = (ByName::of(self), ByName::of(later));
        let (before, after) = (Everybody::of(&earlier, now), Everybody::of(&later, now));
        for name in &names {
            let (was, is) = (
                AgentPermissions::of(&earlier, name, now),
                AgentPermissions::of(&later, name, now),
            );
            is.allows_beyond(&was, &before, &after, name, &mut widened);
            was.allows_beyond(&is, &after, &before, name, &mut narrowed);
        }
        let lost_members = names
            .iter()
            .filter(|name| is_lost(earlier.agent(name), later.agent(name)))
            .map(|name| (*name).to_owned())
            .collect();
        let allows = widened.into_lines();
        let change = match (allows.is_empty(), narrowed.into_lines().is_empty()) {
            (false, _) => ChangeDirection::Widens,
            (true, false) => ChangeDirection::Narrows,
            (true, true) => ChangeDirection::Neutral,
        };
        Difference {
            change,
            allows,
            lost_members,
        }
    }

    /// What agents lost of what other writers do not know: deny rules and grants as a whole
    /// ([`Difference::lost_members`]), and the arguments of entries.
    pub fn lost_rules(&self, later: &Self) -> Vec<LostRules> {
        let later = ByName::of(later);
        let agents = self.agents.iter().flatten();
        let lost = agents.map(|(name, agent)| {
            let is_lost = is_lost(Some(agent), later.agent(name));
            let bound: HashSet<(&str, &str)> = agent
                .allowlist
                .iter()
                .flatten()
                .filter(|keyed| keyed.item.arg_pattern.is_some())
                .map(|keyed| (keyed.id.as_str(), keyed.item.pattern.as_str()))
                .collect();
            let deny_rules = rules_of(Some(agent)).filter(|_| is_lost).take(MAX_LOST);
            LostRules {
                agent: name.clone(),
                deny_rules: deny_rules
                    .map(|(pattern, arg_pattern)| (pattern.to_owned(), arg_pattern.map(str::to_owned)))
                    .collect(),
                grants: agent.grants.as_ref().filter(|_| is_lost).map_or(0, Vec::len),
                unbound: unbound_entries(later.agent(name))
                    .filter(|keyed| bound.contains(&(keyed.id.as_str(), keyed.item.pattern.as_str())))
                    .take(MAX_LOST)
                    .map(|keyed| (keyed.id.as_str().to_owned(), keyed.item.pattern.clone()))
                    .collect(),
            }
        });
        lost.filter_map(|lost| lost.still_missing_in(&later)).collect()
    }
}

/// Whether an agent had grants or deny rules and has none of them later.
fn is_lost(before: Option<&Agent>, later: Option<&Agent>) -> bool {
    let has_any = |agent: &Agent| {
        agent.grants.as_ref().is_some_and(|list| !list.is_empty())
            || agent.denylist.as_ref().is_some_and(|list| !list.is_empty())
    };
    before.is_some_and(has_any) && !later.is_some_and(has_any)
}

/// A socket that is named later where none was, or another one. One that is no longer named is made anew by us.
fn has_same_socket(before: &Document, later: &Document) -> bool {
    let Some(socket) = &later.socket else { return true };
    let was = before.socket.as_ref();
    let same_path = socket.path.is_none() || was.is_some_and(|was| was.path == socket.path);
    // Only to notice changes; nobody's guess is compared here, so time does not matter.
    let same_token = socket.token.as_ref().is_none_or(|token| {
        let known = was.and_then(|was| was.token.as_ref());
        known.is_some_and(|known| known.expose() == token.expose())
    });
    same_path && same_token
}

/// What the wildcard's lists say, for every agent. Where they change, the wildcard itself shows it.
struct Everybody<'a> {
    entries: EntryMap<'a>,
    deny_rules: RuleEnds<'a>,
    masked: BTreeSet<&'a str>,
}

impl<'a> Everybody<'a> {
    fn of(document: &ByName<'a>, now: UnixMillis) -> Self {
        let wildcard = document.agent(WILDCARD);
        Self {
            entries: entries_of(wildcard),
            deny_rules: rule_ends(wildcard, now),
            masked: masked_by(wildcard).collect(),
        }
    }
}

/// What decides for one agent besides the wildcard's lists; a member that is absent is as loose as can be, since the
/// configuration then decides alone.
struct AgentPermissions<'a> {
    security: Security,
    ask: Ask,
    ask_fallback: Security,
    auto_allow_skills: bool,
    entries: EntryMap<'a>,
    grants: BTreeMap<RuleKey<'a>, Vec<(&'a EntryId, &'a Grant)>>,
    deny_rules: RuleEnds<'a>,
    /// Patterns of deny rules with `children`.
    masked: BTreeSet<&'a str>,
}

/// Pattern, argument pattern, whether a decision made it, and the digest of a marker.
type EntryKey<'a> = (&'a str, Option<&'a str>, bool, Option<&'a str>);
/// What entries of one key include and let be done.
type EntryMap<'a> = BTreeMap<EntryKey<'a>, Vec<EntryReach<'a>>>;
/// What one of them includes of an open input, and what its program may do.
type EntryReach<'a> = (Typing, Option<&'a Confined>);
/// Until when deny rules last, in Unix milliseconds. A key has the digest of a rule about an exact text, of which the pattern
/// has only the beginning, and whether it is about questions.
type RuleEnds<'a> = BTreeMap<(RuleKey<'a>, Option<&'a str>, bool), i64>;
/// Pattern and argument pattern.
type RuleKey<'a> = (&'a str, Option<&'a str>);

/// How many entries or grants of one pattern are compared with another; beyond it one counts as new.
const MAX_COMPARED: usize = 64;

impl<'a> AgentPermissions<'a> {
    fn of(document: &ByName<'a>, name: &str, now: UnixMillis) -> Self {
        let policy = document.policy(name);
        let agent = document.agent(name);
        let mut grants: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for keyed in agent.into_iter().flat_map(|agent| agent.grants.iter().flatten()) {
            let key = (keyed.item.pattern.as_str(), keyed.item.arg_pattern.as_deref());
            grants.entry(key).or_default().push((&keyed.id, &keyed.item));
        }
        Self {
            security: policy.security.last().map_or(Security::Full, |said| said.value),
            ask: policy.ask.last().map_or(Ask::Off, |said| said.value),
            ask_fallback: policy
                .ask_fallback
                .last()
                .map_or(Security::Deny, |said| said.value),
            auto_allow_skills: policy.auto_allow_skills.last().is_some_and(|said| said.value),
            entries: entries_of(agent),
            grants,
            deny_rules: rule_ends(agent, now),
            masked: masked_by(agent).collect(),
        }
    }

    /// Tells what goes here and not there. `everybody` are the wildcard's lists there, `here` those here.
    fn allows_beyond(
        &self,
        there: &Self,
        everybody: &Everybody<'_>,
        here: &Everybody<'_>,
        name: &str,
        found: &mut Allowances,
    ) {
        let Self {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
            entries,
            grants,
            deny_rules,
            masked,
        } = self;
        let who = match name {
            WILDCARD => "every agent".to_owned(),
            name => format!("agent {}", quoted(name)),
        };
        if *security > there.security {
            found.add(format!(
                "{who}: security goes from {} to {security}",
                there.security
            ));
        }
        if *ask < there.ask {
            found.add(format!("{who}: ask goes from {} to {ask}", there.ask));
        }
        if *ask_fallback > there.ask_fallback {
            let before = there.ask_fallback;
            found.add(format!("{who}: askFallback goes from {before} to {ask_fallback}"));
        }
        if *auto_allow_skills && !there.auto_allow_skills {
            found.add(format!("{who}: skills are allowed by themselves"));
        }
        let reaches = entries
            .iter()
            .flat_map(|(key, reaches)| reaches.iter().map(move |reach| (key, reach)));
        for (key, reach) in reaches {
            if !includes(&there.entries, key, reach) && !includes(&everybody.entries, key, reach) {
                let (pattern, arguments, ..) = *key;
                let (typing, confine) = *reach;
                let with_input = match typing {
                    Typing::Nothing => "",
                    Typing::Guarded => " with open input",
                    Typing::Anything => " with open input and an unguarded terminal",
                };
                let rule = rule_text((pattern, arguments));
                let is_confined_otherwise =
                    there.entries.contains_key(key) || everybody.entries.contains_key(key);
                let confined = match confine {
                    Some(_) => " with this confine",
                    None if is_confined_otherwise => " without its confine",
                    None => "",
                };
                found.add(format!("{who}: {rule} is allowed{with_input}{confined}"));
            }
        }
        for (rule, listed) in grants {
            let known = there.grants.get(rule).map_or(&[][..], Vec::as_slice);
            let is_known = |grant| {
                let compared = known.iter().take(MAX_COMPARED);
                compared.into_iter().any(|wider| grant_within(grant, *wider))
            };
            if !listed.iter().all(|grant| is_known(*grant)) {
                found.add(format!("{who}: {} is allowed, within limits", rule_text(*rule)));
            }
        }
        let lasts = |rules: &RuleEnds<'_>, rule, end| rules.get(rule).is_some_and(|lasts| *lasts >= end);
        for (rule, end) in &there.deny_rules {
            if !lasts(deny_rules, rule, *end) && !lasts(&here.deny_rules, rule, *end) {
                let (key, _digest, is_of_questions) = *rule;
                found.add(if is_of_questions {
                    format!("{who}: it is no longer muted")
                } else {
                    format!("{who}: {} is no longer denied", rule_text(key))
                });
            }
        }
        for pattern in &there.masked {
            if !masked.contains(pattern) && !here.masked.contains(pattern) {
                let rule = quoted(pattern);
                found.add(format!(
                    "{who}: {rule} is no longer denied to the programs of a run"
                ));
            }
        }
    }
}

fn rule_text((pattern, arguments): RuleKey<'_>) -> String {
    match arguments {
        None => quoted(pattern),
        Some(arguments) => format!("{} with arguments {}", quoted(pattern), quoted(arguments)),
    }
}

fn entries_of(agent: Option<&Agent>) -> EntryMap<'_> {
    let mut entries = EntryMap::new();
    for keyed in agent
        .into_iter()
        .flat_map(|agent| agent.allowlist.iter().flatten())
    {
        let reach = (keyed.item.typing(), keyed.item.confine.as_ref());
        entries.entry(entry_key(&keyed.item)).or_default().push(reach);
    }
    entries
}

fn rules_of(agent: Option<&Agent>) -> impl Iterator<Item = RuleKey<'_>> {
    agent
        .into_iter()
        .flat_map(|agent| agent.denylist.iter().flatten())
        .map(|keyed| (keyed.item.pattern.as_str(), keyed.item.arg_pattern.as_deref()))
}

/// Until when each of an agent's deny rules lasts that has not ended.
fn rule_ends(agent: Option<&Agent>, now: UnixMillis) -> RuleEnds<'_> {
    let mut ends = RuleEnds::new();
    let rules = agent
        .into_iter()
        .flat_map(|agent| agent.denylist.iter().flatten());
    for Keyed { id: _, item } in rules {
        let end = item.end();
        if end <= now.get() {
            continue;
        }
        let known = ends
            .entry((
                (item.pattern.as_str(), item.arg_pattern.as_deref()),
                item.command_sha256.as_deref(),
                item.is_of_questions(),
            ))
            .or_insert(end);
        *known = end.max(*known);
    }
    ends
}

/// The patterns of an agent's deny rules with `children`.
fn masked_by(agent: Option<&Agent>) -> impl Iterator<Item = &str> {
    agent
        .into_iter()
        .flat_map(|agent| agent.denylist.iter().flatten())
        .filter(|keyed| keyed.item.keeps_children())
        .map(|keyed| keyed.item.pattern.as_str())
}

fn entry_key(entry: &Entry) -> EntryKey<'_> {
    (
        &entry.pattern,
        entry.arg_pattern.as_deref(),
        entry.is_generated(),
        entry.command_sha256.as_deref(),
    )
}

/// Whether entries have this one, or the same one that includes more of an open input and lets more be done.
fn includes(entries: &EntryMap<'_>, key: &EntryKey<'_>, (typing, confine): &EntryReach<'_>) -> bool {
    let known = entries.get(key).map_or(&[][..], Vec::as_slice);
    known
        .iter()
        .take(MAX_COMPARED)
        .any(|(others_typing, others)| typing <= others_typing && confine_within(*confine, *others))
}

fn confine_within(narrow: Option<&Confined>, wide: Option<&Confined>) -> bool {
    is_within(narrow.map(Confined::rule), wide.map(Confined::rule))
}

/// Uses are counted by id, so that a new id would begin to count anew.
fn grant_within((id, grant): (&EntryId, &Grant), (wider_id, wider): (&EntryId, &Grant)) -> bool {
    let ends = |grant: &Grant| {
        grant
            .expires_at_ms
            .as_ref()
            .map_or(i64::MAX, super::Number::floor)
    };
    ends(grant) <= ends(wider)
        && wider
            .max_uses
            .is_none_or(|most| id == wider_id && grant.max_uses.is_some_and(|uses| uses <= most))
        && grant.typing() <= wider.typing()
        && confine_within(grant.confine.as_ref(), wider.confine.as_ref())
        && (wider.sha256.is_none() || grant.sha256 == wider.sha256)
        && (wider.session_key.is_none() || grant.session_key == wider.session_key)
        && wider.directory.as_deref().is_none_or(|limit| {
            let directory = grant.directory.as_deref();
            directory.is_some_and(|directory| countersign_domain::is_within(directory, limit))
        })
}
