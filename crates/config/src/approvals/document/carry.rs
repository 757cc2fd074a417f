//! Replacing a whole document by one that a client sent
//! (`docs/spec/approvals-store.md#9-snapshot-hash-compare-and-swap`).
//!
//! What was sent wins for everything that its sender can know. The rest is carried over, so that a program
//! which reads, changes and sends back a document destroys nothing it never saw.

use std::collections::HashMap;

use countersign_domain::EntryId;

use super::{
    json::{Json, pointer_step},
    model::{Agent, ByName, Defaults, Document, Entry, Keyed, Members, Rule, Socket},
};

/// What the sender of a document can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// Our own API: grants, deny rules and notes that are absent were taken away.
    Ours,
    /// A program of the product, whose schema has no grants, deny rules or notes: they stay.
    Product,
}

impl Document {
    /// Replaces this document. A redacted one can come back unharmed: a socket path or token that is absent
    /// stays what it was.
    pub fn replace(&mut self, new: Self, incoming: Incoming) {
        let old = std::mem::replace(self, new);
        carry_members(&mut self.extra, old.extra);
        if let Some(old) = old.socket {
            let socket = self.socket.get_or_insert_with(Socket::default);
            socket.path = socket.path.take().or(old.path);
            socket.token = socket.token.take().or(old.token);
            carry_members(&mut socket.extra, old.extra);
        }
        if let Some(old) = old.defaults
            && (self.defaults.is_some() || !old.extra.is_empty())
        {
            let defaults = self.defaults.get_or_insert_with(Defaults::default);
            carry_members(&mut defaults.extra, old.extra);
        }
        let sent: HashMap<String, usize> = self
            .agents
            .iter()
            .flatten()
            .enumerate()
            .map(|(at, (name, _agent))| (name.clone(), at))
            .collect();
        for (name, old) in old.agents.into_iter().flatten() {
            let at = sent.get(&name);
            match at.and_then(|at| self.agents.as_mut()?.get_mut(*at)) {
                Some((_name, agent)) => carry_agent(agent, old, incoming),
                None if incoming == Incoming::Product && old.denylist.is_some() => {
                    // A sender that does not know deny rules cannot have meant to drop them.
                    let kept = Agent {
                        denylist: old.denylist,
                        ..Agent::default()
                    };
                    self.agents.get_or_insert_default().push((name, kept));
                }
                None => {}
            }
        }
    }

    /// Pointers of all members that we do not know, for senders whose typing errors must not pass as policy. What
    /// `present` has at the same place with the same value was not typed by the sender, who only sends it back.
    pub fn unknown_members(&self, present: &Self) -> Vec<String> {
        let Self {
            socket,
            defaults,
            agents,
            extra,
        } = self;
        let mut unknown = Vec::new();
        list_members(&mut unknown, "", extra, Some(&present.extra));
        if let Some(socket) = socket {
            let known = present.socket.as_ref().map(|socket| &socket.extra);
            list_members(&mut unknown, "/socket", &socket.extra, known);
        }
        if let Some(defaults) = defaults {
            let known = present.defaults.as_ref().map(|defaults| &defaults.extra);
            list_members(&mut unknown, "/defaults", &defaults.extra, known);
        }
        let present = ByName::of(present);
        for (name, agent) in agents.iter().flatten() {
            let place = format!("/agents/{}", pointer_step(name));
            let known = present.agent(name);
            list_members(
                &mut unknown,
                &place,
                &agent.extra,
                known.map(|agent| &agent.extra),
            );
            let list = |unknown: &mut Vec<String>, name: &str, of: &dyn Fn(&Agent) -> Extras<'_>| {
                let known = known.map(of).unwrap_or_default();
                list_items(unknown, &format!("{place}/{name}"), of(agent), known);
            };
            list(&mut unknown, "allowlist", &|agent| {
                extras(agent.allowlist.as_ref())
            });
            list(&mut unknown, "grants", &|agent| extras(agent.grants.as_ref()));
            list(&mut unknown, "denylist", &|agent| extras(agent.denylist.as_ref()));
        }
        unknown
    }
}

/// The unknown members of the items of a list that have some, with place and id. Most have none.
type Extras<'a> = Vec<(usize, &'a EntryId, &'a Members)>;

fn extras<T: Rule>(list: Option<&Vec<Keyed<T>>>) -> Extras<'_> {
    let items = list.into_iter().flatten().enumerate();
    items
        .map(|(at, known)| (at, &known.id, known.item.extra()))
        .filter(|(_at, _id, members)| !members.is_empty())
        .collect()
}

fn list_items(unknown: &mut Vec<String>, place: &str, items: Extras<'_>, present: Extras<'_>) {
    let present: HashMap<&str, &Members> = present
        .into_iter()
        .map(|(_at, id, members)| (id.as_str(), members))
        .collect();
    for (at, id, members) in items {
        let known = present.get(id.as_str()).copied();
        list_members(unknown, &format!("{place}/{at}"), members, known);
    }
}

fn list_members(unknown: &mut Vec<String>, place: &str, members: &Members, present: Option<&Members>) {
    if members.is_empty() {
        return;
    }
    let present: HashMap<&str, &Json> = present
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let pointers = members
        .iter()
        .filter(|(name, value)| {
            let known = present.get(name.as_str());
            !known.is_some_and(|known| known.is_same_value(value))
        })
        .map(|(name, _value)| format!("{place}/{}", pointer_step(name)));
    unknown.extend(pointers);
}

fn carry_agent(agent: &mut Agent, old: Agent, incoming: Incoming) {
    let Agent {
        policy: _,
        allowlist,
        grants,
        denylist,
        extra,
    } = old;
    carry_members(&mut agent.extra, extra);
    if incoming == Incoming::Product {
        agent.grants = agent.grants.take().or_else(|| grants.clone());
        agent.denylist = agent.denylist.take().or_else(|| denylist.clone());
        let ours = |old: &Entry| old.note.is_some() || old.command_sha256.is_some() || old.confine.is_some();
        let mut entries = by_id(agent.allowlist.as_mut());
        for Keyed { id, item: old } in allowlist.iter().flatten().filter(|known| ours(&known.item)) {
            if let Some(known) = entries.get_mut(id.as_str()) {
                known.note = known.note.take().or_else(|| old.note.clone());
                // Without it the entry would let more be done.
                known.confine = known.confine.take().or_else(|| old.confine.clone());
                // The digest limits a marker further, and only for as long as it is the same marker.
                if known.pattern == old.pattern && known.command_sha256.is_none() {
                    known.command_sha256.clone_from(&old.command_sha256);
                }
            }
        }
    }
    carry_items(agent.allowlist.as_mut(), allowlist);
    carry_items(agent.grants.as_mut(), grants);
    carry_items(agent.denylist.as_mut(), denylist);
}

fn carry_items<T: Rule>(list: Option<&mut Vec<Keyed<T>>>, old: Option<Vec<Keyed<T>>>) {
    let mut known = by_id(list);
    for Keyed { id, mut item } in old.into_iter().flatten() {
        // Most items have none, and lists may be long.
        if item.extra_mut().is_empty() {
            continue;
        }
        if let Some(known) = known.get_mut(id.as_str()) {
            carry_members(known.extra_mut(), std::mem::take(item.extra_mut()));
        }
    }
}

fn by_id<T>(list: Option<&mut Vec<Keyed<T>>>) -> HashMap<&str, &mut T> {
    let items = list.into_iter().flatten();
    items.map(|Keyed { id, item }| (id.as_str(), item)).collect()
}

/// Adds the members that were not sent. Of one that was sent back the text is what it was: an answer shows no number
/// as it is written.
fn carry_members(members: &mut Members, old: Members) {
    let mut sent: HashMap<&str, &mut Json> = members
        .iter_mut()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let mut missing = Members::new();
    for (name, value) in old {
        match sent.get_mut(name.as_str()) {
            Some(same) if same.is_same_value(&value) => **same = value,
            Some(_changed) => {}
            None => missing.push((name, value)),
        }
    }
    members.extend(missing);
}
