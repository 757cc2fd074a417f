//! What a change of the document means for what may run (`approvals-store.md` 9, outside edits).

use std::collections::HashSet;

use crate::domain::{Ask, Security};

use super::model::{Document, Entry, Grant, WILDCARD};

/// Which way a change goes. Where that cannot be seen it counts as widening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
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
    pub change: Change,
    /// Agents (`*` included) that had deny rules or grants and have none of them any more, as after a writer that
    /// does not know them.
    pub lost_members: Vec<String>,
}

impl Document {
    /// Compares this document with a later one.
    pub fn difference(&self, later: &Self) -> Difference {
        let mut names: Vec<&str> = vec![WILDCARD, "main"];
        for (name, _agent) in self.agents.iter().flatten().chain(later.agents.iter().flatten()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let mut widens = false;
        let mut narrows = false;
        for name in &names {
            let (before, after) = (Reach::of(self, name), Reach::of(later, name));
            widens |= !after.within(&before);
            narrows |= !before.within(&after);
        }
        let lost_members = names
            .iter()
            .filter(|name| self.lost(later, name))
            .map(|name| (*name).to_owned())
            .collect();
        let change = match (widens, narrows) {
            (true, _) => Change::Widens,
            (false, true) => Change::Narrows,
            (false, false) => Change::Neutral,
        };
        Difference { change, lost_members }
    }

    fn lost(&self, later: &Self, name: &str) -> bool {
        let count = |document: &Self| {
            document.agent(name).map_or((0, 0), |agent| {
                (
                    agent.grants.as_ref().map_or(0, Vec::len),
                    agent.denylist.as_ref().map_or(0, Vec::len),
                )
            })
        };
        let ((grants, rules), (later_grants, later_rules)) = (count(self), count(later));
        (grants > 0 || rules > 0) && later_grants == 0 && later_rules == 0
    }
}

/// Everything in a document that decides for one agent; a member that is absent is as loose as can be, since the
/// configuration then decides alone.
struct Reach<'a> {
    security: Security,
    ask: Ask,
    ask_fallback: Security,
    auto_allow_skills: bool,
    entries: HashSet<EntryReach<'a>>,
    grants: Vec<&'a Grant>,
    deny_rules: HashSet<(&'a str, Option<&'a str>)>,
}

type EntryReach<'a> = (&'a str, Option<&'a str>, bool, Option<&'a str>);

impl<'a> Reach<'a> {
    fn of(document: &'a Document, agent: &str) -> Self {
        let policy = document.policy(agent);
        Self {
            security: policy.security.last().map_or(Security::Full, |said| said.value),
            ask: policy.ask.last().map_or(Ask::Off, |said| said.value),
            ask_fallback: policy
                .ask_fallback
                .last()
                .map_or(Security::Deny, |said| said.value),
            auto_allow_skills: policy.auto_allow_skills.last().is_some_and(|said| said.value),
            entries: document
                .entries(agent)
                .into_iter()
                .map(|listed| entry_reach(listed.item))
                .collect(),
            grants: document
                .grants(agent)
                .into_iter()
                .map(|listed| listed.item)
                .collect(),
            deny_rules: document
                .deny_rules(agent)
                .into_iter()
                .map(|listed| (listed.item.pattern.as_str(), listed.item.arg_pattern.as_deref()))
                .collect(),
        }
    }

    /// Whether nothing goes here that does not go there.
    fn within(&self, other: &Self) -> bool {
        let Self {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
            entries,
            grants,
            deny_rules,
        } = self;
        *security <= other.security
            && *ask >= other.ask
            && *ask_fallback <= other.ask_fallback
            && *auto_allow_skills <= other.auto_allow_skills
            && entries.is_subset(&other.entries)
            && grants
                .iter()
                .all(|grant| other.grants.iter().any(|wider| grant_within(grant, wider)))
            && other.deny_rules.is_subset(deny_rules)
    }
}

fn entry_reach(entry: &Entry) -> EntryReach<'_> {
    (
        &entry.pattern,
        entry.arg_pattern.as_deref(),
        entry.is_generated(),
        entry.command_sha256.as_deref(),
    )
}

fn grant_within(grant: &Grant, wider: &Grant) -> bool {
    let ends = |grant: &Grant| {
        grant
            .expires_at_ms
            .as_ref()
            .map_or(i64::MAX, super::Number::floor)
    };
    grant.pattern == wider.pattern
        && grant.arg_pattern == wider.arg_pattern
        && ends(grant) <= ends(wider)
        && grant.max_uses.unwrap_or(u64::MAX) <= wider.max_uses.unwrap_or(u64::MAX)
        && (wider.sha256.is_none() || grant.sha256 == wider.sha256)
}
