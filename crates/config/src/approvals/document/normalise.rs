//! One shape for what several generations wrote (`docs/spec/approvals-store.md#5-normalising`).

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use countersign_domain::EntryId;

use super::{
    json::pointer_step,
    model::{Agent, Defaults, DenyRule, Document, Entry, Grant, Keyed, Members, PolicyFields, Rule, Socket},
    problem::Warning,
    text::trim,
};

/// The name that the first releases gave to what is called `main` now.
const LEGACY_MAIN: &str = "default";
const MAIN: &str = "main";

/// Whether an agent of this name cannot have rules of its own: what stands under it in a document is read as `main`'s.
pub fn is_old_name_of_main(agent: &str) -> bool {
    agent == LEGACY_MAIN
}

/// A document whose agents may still lack ids and carry the legacy name.
pub(super) struct DraftDocument {
    pub(super) socket: Option<Socket>,
    pub(super) defaults: Option<Defaults>,
    pub(super) agents: Option<Vec<(String, DraftAgent)>>,
    pub(super) extra: Members,
}

pub(super) struct DraftAgent {
    pub(super) policy: PolicyFields,
    pub(super) allowlist: Option<Vec<Draft<Entry>>>,
    pub(super) grants: Option<Vec<Draft<Grant>>>,
    pub(super) denylist: Option<Vec<Draft<DenyRule>>>,
    pub(super) extra: Members,
}

/// An item with the id it was written with, if any.
pub(super) struct Draft<T> {
    pub(super) id: Option<String>,
    pub(super) item: T,
}

pub(super) fn normalise(draft: DraftDocument, warnings: &mut Vec<Warning>) -> Document {
    let DraftDocument {
        socket,
        defaults,
        agents,
        extra,
    } = draft;
    let agents = agents.map(|agents| {
        merge_legacy_main(agents)
            .into_iter()
            .map(|(name, agent)| {
                let agent = identify(&name, agent, warnings);
                (name, agent)
            })
            .collect()
    });
    Document {
        socket,
        defaults,
        agents,
        extra,
    }
}

fn merge_legacy_main(mut agents: Vec<(String, DraftAgent)>) -> Vec<(String, DraftAgent)> {
    let Some(at) = agents.iter().position(|(name, _agent)| name == LEGACY_MAIN) else {
        return agents;
    };
    if agents.iter().any(|(name, _agent)| name == MAIN) {
        let (_name, legacy) = agents.remove(at);
        if let Some((_name, main)) = agents.iter_mut().find(|(name, _agent)| name == MAIN) {
            merge_agent(main, legacy);
        }
    } else if let Some((name, _agent)) = agents.get_mut(at) {
        MAIN.clone_into(name);
    }
    agents
}

/// `main` wins member by member; what only the legacy agent has is added.
fn merge_agent(main: &mut DraftAgent, legacy: DraftAgent) {
    let DraftAgent {
        policy,
        allowlist,
        grants,
        denylist,
        extra,
    } = legacy;
    main.policy = PolicyFields {
        security: main.policy.security.or(policy.security),
        ask: main.policy.ask.or(policy.ask),
        ask_fallback: main.policy.ask_fallback.or(policy.ask_fallback),
        auto_allow_skills: main.policy.auto_allow_skills.or(policy.auto_allow_skills),
    };
    merge_list(&mut main.allowlist, allowlist, merge_key);
    merge_list(&mut main.grants, grants, merge_key);
    // What is alike by that key may deny more than what it would give way to.
    merge_list(&mut main.denylist, denylist, |rule| {
        (
            rule.pattern.clone(),
            rule.arg_pattern.clone(),
            rule.keeps_children(),
            rule.is_of_questions(),
            rule.end(),
        )
    });
    let known: HashSet<&str> = main.extra.iter().map(|(name, _value)| name.as_str()).collect();
    let missing: Members = extra
        .into_iter()
        .filter(|(name, _value)| !known.contains(name.as_str()))
        .collect();
    main.extra.extend(missing);
}

fn merge_list<T, K: Eq + Hash>(
    main: &mut Option<Vec<Draft<T>>>,
    legacy: Option<Vec<Draft<T>>>,
    key: impl Fn(&T) -> K,
) {
    let mut merged = main.take().unwrap_or_default();
    let mut keys: HashSet<K> = merged.iter().map(|draft| key(&draft.item)).collect();
    for draft in legacy.into_iter().flatten() {
        if keys.insert(key(&draft.item)) {
            merged.push(draft);
        }
    }
    *main = (!merged.is_empty()).then_some(merged);
}

/// How the product compares entries here.
fn merge_key(rule: &impl Rule) -> String {
    let pattern = trim(rule.pattern()).to_lowercase();
    format!("{pattern}\0{}", trim(rule.arg_pattern().unwrap_or_default()))
}

fn identify(name: &str, draft: DraftAgent, warnings: &mut Vec<Warning>) -> Agent {
    let DraftAgent {
        policy,
        allowlist,
        grants,
        denylist,
        extra,
    } = draft;
    // Entries and grants are edited under one address and share their ids; deny rules have their own.
    let mut ids = IdGiver::new(name, allowlist.as_ref(), grants.as_ref(), warnings);
    let allowlist = allowlist.map(|list| ids.give(list, "allowlist"));
    let grants = grants.map(|list| ids.give(list, "grants"));
    let mut ids = IdGiver::new(name, denylist.as_ref(), None::<&Vec<Draft<DenyRule>>>, warnings);
    let denylist = denylist.map(|list| ids.give(list, "denylist"));
    Agent {
        policy,
        allowlist,
        grants,
        denylist,
        extra,
    }
}

/// Gives every item of an agent an id of its own.
///
/// An id that has to be made is a digest of the item and its neighbours. A random one would be another at the
/// next reading: an address from one answer would be unknown to the next request, and the uses of a grant
/// would start anew.
struct IdGiver<'a> {
    agent: &'a str,
    /// Every id that stands in the file, so that a made one cannot take the place of a later one.
    written: HashSet<String>,
    given: HashSet<String>,
    /// The next occurrence of each content that an id was made for, by its digest: a list may hold the same item very
    /// often, and all earlier occurrences are taken.
    next: HashMap<[u8; 32], u64>,
    warnings: &'a mut Vec<Warning>,
}

impl<'a> IdGiver<'a> {
    fn new<A, B>(
        agent: &'a str,
        first: Option<&Vec<Draft<A>>>,
        second: Option<&Vec<Draft<B>>>,
        warnings: &'a mut Vec<Warning>,
    ) -> Self {
        let first = first.into_iter().flatten().filter_map(|draft| draft.id.clone());
        let second = second.into_iter().flatten().filter_map(|draft| draft.id.clone());
        Self {
            agent,
            written: first.chain(second).collect(),
            given: HashSet::new(),
            next: HashMap::new(),
            warnings,
        }
    }

    fn give<T: Rule>(&mut self, list: Vec<Draft<T>>, list_name: &str) -> Vec<Keyed<T>> {
        let mut keyed = Vec::with_capacity(list.len());
        for (index, Draft { id, item }) in list.into_iter().enumerate() {
            let pointer = || format!("/agents/{}/{list_name}/{index}/id", pointer_step(self.agent));
            let written = id.and_then(|id| EntryId::parse(id).ok());
            let id = match written {
                Some(id) if !self.given.contains(id.as_str()) => {
                    if Uuid::parse_str(id.as_str()).is_err() {
                        self.warnings.push(Warning::IdNotUuid { pointer: pointer() });
                    }
                    id
                }
                repeated => {
                    if repeated.is_some() {
                        self.warnings.push(Warning::DuplicateId { pointer: pointer() });
                    }
                    self.made_id(list_name, &item)
                }
            };
            self.given.insert(id.as_str().to_owned());
            keyed.push(Keyed { id, item });
        }
        keyed
    }

    fn made_id(&mut self, list_name: &str, rule: &impl Rule) -> EntryId {
        let mut content = Sha256::new();
        for part in [
            self.agent,
            list_name,
            rule.pattern(),
            rule.arg_pattern().unwrap_or_default(),
        ] {
            content.update(part.len().to_string());
            content.update("\0");
            content.update(part);
        }
        let next = self.next.entry(content.clone().finalize().into()).or_default();
        loop {
            let mut digest = content.clone();
            digest.update(next.to_string());
            *next += 1;
            let mut bytes = [0; 16];
            for (to, from) in bytes.iter_mut().zip(digest.finalize()) {
                *to = from;
            }
            let id = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
            if !self.given.contains(&id) && !self.written.contains(&id) {
                return EntryId::parse(id).expect("a UUID is an id");
            }
        }
    }
}
