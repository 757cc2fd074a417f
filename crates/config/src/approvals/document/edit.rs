//! Changes of a document that keep everything else as it is.

use countersign_domain::{EntryId, Secret, SessionKey, UnixMillis};
use countersign_policy::preset::{Preset, PresetValues};

use super::{
    confined::Confined,
    json::Number,
    model::{Agent, Defaults, DenyRule, Document, Entry, Grant, Keyed, PolicyFields, Rule, Socket},
    text::trim,
};

/// Deny rules for exact texts that one agent may have.
const MAX_TEXT_RULES: usize = 256;

/// Whose policy it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyTarget<'a> {
    /// The member `defaults`, for every agent that says nothing itself.
    Defaults,
    /// One agent, `*` for the wildcard.
    Agent(&'a str),
}

/// A pattern that a person wants in an allowlist, with what limits it. Not blank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewPattern {
    /// A program path, a path glob or a bare name; it is stored trimmed.
    pub pattern: String,
    /// A regular expression over the arguments.
    pub arg_pattern: Option<String>,
    /// Text for people; it plays no part in matching.
    pub note: Option<String>,
    /// It covers commands to which more can be written once they run.
    pub input: bool,
    /// Their terminals keep pagers and editors that take commands.
    pub unguarded: bool,
    /// What its program may do.
    pub confine: Option<Confined>,
    /// With any limit the pattern becomes a grant, which other programs do not take for unlimited.
    pub limits: Limits,
}

/// What may limit a grant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Expired at this instant.
    pub expires_at: Option<UnixMillis>,
    /// Number of uses; 1 or more.
    pub max_uses: Option<u64>,
    /// Content of the real executable, in lower-case hex.
    pub sha256: Option<String>,
    /// The only session.
    pub session_key: Option<SessionKey>,
    /// The directory, with what lies below it.
    pub directory: Option<String>,
}

impl Limits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Where an added item is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its id, or that of the same item that was there before.
    pub id: EntryId,
    /// Whether it was new.
    pub created: bool,
}

/// What [`Document::remove_pattern`] took out, by the list that held it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// An item of `allowlist`.
    Entry(Entry),
    /// An item of `grants`.
    Grant(Grant),
}

/// Changes of one entry or grant: `None` leaves a member, `Some(None)` takes it away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatternChange {
    /// A new pattern; not blank.
    pub pattern: Option<String>,
    /// A new argument pattern.
    pub arg_pattern: Option<Option<String>>,
    /// Another note for people.
    pub note: Option<Option<String>>,
    /// Whether it covers commands to which more can be written.
    pub input: Option<bool>,
    /// Whether their terminals keep pagers and editors.
    pub unguarded: Option<bool>,
    /// What its program may do.
    pub confine: Option<Option<Confined>>,
    /// Another expiry; from this instant on the grant matches nothing.
    pub expires_at: Option<Option<UnixMillis>>,
    /// A new number of uses.
    pub max_uses: Option<Option<u64>>,
    /// A new content hash.
    pub sha256: Option<Option<String>>,
    /// Another session, or any.
    pub session_key: Option<Option<SessionKey>>,
    /// Another directory, or any.
    pub directory: Option<Option<String>>,
}

/// One use of an entry, for [`Document::record_use`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use<'a> {
    /// When the command was used, for `lastUsedAt`.
    pub at: UnixMillis,
    /// The command text, for `lastUsedCommand`; not written for an entry that a decision made.
    pub command: &'a str,
    /// The path it resolved to.
    pub resolved_path: Option<&'a str>,
}

impl Document {
    /// The policy members that `defaults` or an agent has, as written.
    pub fn policy_fields(&self, target: PolicyTarget<'_>) -> PolicyFields {
        match target {
            PolicyTarget::Defaults => self.defaults.as_ref().map(|defaults| defaults.policy),
            PolicyTarget::Agent(id) => self.agent(id).map(|agent| agent.policy),
        }
        .unwrap_or_default()
    }

    /// Replaces the four policy members of `defaults` or an agent; absent ones inherit. An agent that then says
    /// nothing at all is removed.
    pub fn set_policy(&mut self, target: PolicyTarget<'_>, policy: PolicyFields) {
        if self.policy_fields(target) == policy {
            return;
        }
        match target {
            PolicyTarget::Defaults => self.defaults.get_or_insert_with(Defaults::default).policy = policy,
            PolicyTarget::Agent(id) => {
                self.agent_or_insert(id).policy = policy;
                self.remove_if_empty(id);
            }
        }
    }

    /// Sets what a preset says for `defaults` or one agent; `autoAllowSkills` stays.
    pub fn apply_preset(&mut self, target: PolicyTarget<'_>, preset: Preset) {
        let PresetValues {
            host: _,
            security,
            ask,
            ask_fallback,
        } = preset.values();
        let policy = PolicyFields {
            security: Some(security),
            ask: Some(ask),
            ask_fallback: Some(ask_fallback),
            ..self.policy_fields(target)
        };
        self.set_policy(target, policy);
    }

    /// Takes what a preset sets away from every agent, and from `*`; `autoAllowSkills` stays.
    pub fn remove_own_policy(&mut self) {
        let agents = self.agents.iter().flatten();
        let named: Vec<String> = agents.map(|(name, _agent)| name.clone()).collect();
        for name in named {
            let target = PolicyTarget::Agent(&name);
            let policy = PolicyFields {
                security: None,
                ask: None,
                ask_fallback: None,
                ..self.policy_fields(target)
            };
            self.set_policy(target, policy);
        }
    }

    /// Adds a pattern made by hand: to `allowlist`, or to `grants` when something limits it. The same again
    /// changes nothing.
    pub fn add_pattern(&mut self, agent: &str, id: EntryId, new: NewPattern, now: UnixMillis) -> Added {
        let NewPattern {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine,
            limits,
        } = new;
        let (input, unguarded) = (input.then_some(true), unguarded.then_some(true));
        let pattern = trim(&pattern).to_owned();
        if limits.is_none() {
            let entry = Entry {
                pattern,
                arg_pattern,
                note,
                input,
                unguarded,
                confine,
                last_used_at: Some(now.get().into()),
                ..Entry::default()
            };
            return self.add_entry(agent, id, entry);
        }
        let grant = Grant {
            pattern,
            arg_pattern,
            note,
            created_at_ms: Some(now.get().into()),
            expires_at_ms: limits.expires_at.map(|at| at.get().into()),
            max_uses: limits.max_uses,
            uses: None,
            sha256: limits.sha256,
            session_key: limits.session_key,
            directory: limits.directory,
            input,
            unguarded,
            confine,
            extra: Vec::new(),
        };
        if self.has_pattern(agent, &id) {
            return Added::known(&id);
        }
        let grants = self.agent_or_insert(agent).grants.get_or_insert_default();
        let same = grants.iter().find(|known| {
            same_rule(&known.item, &grant)
                && known.item.max_uses == grant.max_uses
                && known.item.sha256 == grant.sha256
                && known.item.expires_at_ms == grant.expires_at_ms
                && known.item.session_key == grant.session_key
                && known.item.directory == grant.directory
        });
        match same {
            Some(known) => Added::known(&known.id),
            None => push(grants, id, grant),
        }
    }

    /// Adds a grant that an answer left. One with the id stays as it is, so that adding twice is harmless. The same limits
    /// again are another grant: uses are counted by id, and what a person gives now is not spent yet. Grants of the agent
    /// that ended by then go, so that answers for an hour do not fill the document.
    pub fn add_grant(&mut self, agent: &str, id: EntryId, grant: Grant, now: UnixMillis) -> Added {
        if self.has_pattern(agent, &id) {
            return Added::known(&id);
        }
        let grants = self.agent_or_insert(agent).grants.get_or_insert_default();
        let lasts = |end: &Number| end.floor() > now.get();
        grants.retain(|known| known.item.expires_at_ms.as_ref().is_none_or(lasts));
        push(grants, id, grant)
    }

    /// Adds an entry as it is, for instance one that a decision made. An entry with the same pattern, argument
    /// pattern and origin, or with the id, stays as it is, so that adding twice is harmless; an entry that a decision made replaces those that earlier decisions
    /// left unbound for the pattern, since they never match.
    pub fn add_entry(&mut self, agent: &str, id: EntryId, entry: Entry) -> Added {
        if self.has_pattern(agent, &id) {
            return Added::known(&id);
        }
        let entries = self.agent_or_insert(agent).allowlist.get_or_insert_default();
        let same = entries.iter().find(|known| {
            same_rule(&known.item, &entry) && known.item.is_generated() == entry.is_generated()
        });
        if let Some(known) = same {
            return Added::known(&known.id);
        }
        if entry.is_generated() && entry.arg_pattern.is_some() {
            entries.retain(|known| {
                let unbound = known.item.is_generated() && known.item.arg_pattern.is_none();
                !(unbound && trim(&known.item.pattern) == trim(&entry.pattern))
            });
        }
        push(entries, id, entry)
    }

    /// Adds a deny rule for an exact text, or for the questions of the agent, in the place of those that end earlier. One that ends no earlier stays. `None`
    /// where the agent has as many as it may; those that have ended make room.
    pub fn add_text_rule(
        &mut self,
        agent: &str,
        id: EntryId,
        rule: DenyRule,
        now: UnixMillis,
    ) -> Option<Keyed<DenyRule>> {
        let rules = self.agent_or_insert(agent).denylist.get_or_insert_default();
        let is_same = |known: &Keyed<DenyRule>| {
            let is_of_same_text = known.item.is_of_text() && known.item.command_sha256 == rule.command_sha256;
            is_of_same_text || (known.item.is_of_questions() && rule.is_of_questions())
        };
        let lasting = rules
            .iter()
            .filter(|known| is_same(known) && known.item.end() >= rule.end());
        if let Some(known) = lasting.max_by_key(|known| known.item.end()) {
            return Some(known.clone());
        }
        rules.retain(|known| !is_same(known));
        let of_text =
            |rules: &[Keyed<DenyRule>]| rules.iter().filter(|known| known.item.is_of_text()).count();
        // Of rules about questions there is one.
        if rule.is_of_text() && of_text(rules) >= MAX_TEXT_RULES {
            rules.retain(|known| !known.item.is_of_text() || known.item.end() > now.get());
            if of_text(rules) >= MAX_TEXT_RULES {
                return None;
            }
        }
        let rule = Keyed { id, item: rule };
        rules.push(rule.clone());
        Some(rule)
    }

    /// Takes away what mutes an agent at this time, and says which rules that were. One that has ended is none of them.
    pub fn remove_mutes(&mut self, agent: &str, now: UnixMillis) -> Vec<EntryId> {
        let Some(rules) = self.agent_mut(agent).and_then(|agent| agent.denylist.as_mut()) else {
            return Vec::new();
        };
        let removed: Vec<EntryId> = rules
            .extract_if(.., |known| known.item.denies_questions(now))
            .map(|known| known.id)
            .collect();
        if !removed.is_empty() {
            self.remove_if_empty(agent);
        }
        removed
    }

    /// Adds a deny rule. The same pattern and argument pattern again change nothing, unless it has `children` and the one that
    /// is there has not.
    pub fn add_deny_rule(&mut self, agent: &str, id: EntryId, rule: DenyRule) -> Added {
        let rules = self.agent_or_insert(agent).denylist.get_or_insert_default();
        let includes = |known: &DenyRule| known.keeps_children() >= rule.keeps_children();
        let known = rules
            .iter()
            .find(|known| same_rule(&known.item, &rule) && includes(&known.item));
        match known {
            Some(known) => Added::known(&known.id),
            None => push(rules, id, rule),
        }
    }

    /// Changes an entry or grant in place. Given its first limit an entry becomes a grant; a grant that loses its
    /// last one becomes an entry. Another pattern or argument pattern makes it an entry made by hand. `None` when the agent has no such item.
    #[must_use]
    pub fn change_pattern(&mut self, agent: &str, id: &EntryId, change: PatternChange) -> Option<()> {
        let part = self.agent_mut(agent)?;
        let (mut grant, entry) = if let Some(known) = find(part.allowlist.as_ref(), id) {
            (as_grant(&known.item), Some(known.item.clone()))
        } else {
            (find(part.grants.as_ref(), id)?.item.clone(), None)
        };
        let PatternChange {
            pattern,
            arg_pattern,
            note,
            input,
            unguarded,
            confine,
            expires_at,
            max_uses,
            sha256,
            session_key,
            directory,
        } = change;
        if let Some(pattern) = pattern {
            trim(&pattern).clone_into(&mut grant.pattern);
        }
        grant.arg_pattern = arg_pattern.unwrap_or(grant.arg_pattern);
        grant.note = note.unwrap_or(grant.note);
        let said = |change: Option<bool>, before| change.map_or(before, |wanted| wanted.then_some(true));
        grant.input = said(input, grant.input);
        grant.unguarded = said(unguarded, grant.unguarded);
        grant.confine = confine.unwrap_or(grant.confine);
        if let Some(at) = expires_at {
            grant.expires_at_ms = at.map(|at| at.get().into());
        }
        grant.max_uses = max_uses.unwrap_or(grant.max_uses);
        grant.sha256 = sha256.unwrap_or(grant.sha256);
        grant.session_key = session_key.unwrap_or(grant.session_key);
        grant.directory = directory.unwrap_or(grant.directory);
        let is_same_rule = entry.as_ref().is_some_and(|entry| same_rule(entry, &grant));
        let limited = grant.is_limited();
        let was_entry = entry.is_some();
        let mut entry = Entry {
            pattern: grant.pattern.clone(),
            arg_pattern: grant.arg_pattern.clone(),
            note: grant.note.clone(),
            input: grant.input,
            unguarded: grant.unguarded,
            confine: grant.confine.clone(),
            extra: grant.extra.clone(),
            ..entry.unwrap_or_default()
        };
        if !is_same_rule {
            // No decision made what it says now, and nothing matched it yet.
            entry.source = None;
            entry.command_sha256 = None;
            entry.last_used_at = None;
            entry.last_used_command = None;
            entry.last_resolved_path = None;
        }
        match (was_entry, limited) {
            (true, false) => replace(part.allowlist.as_mut(), id, entry),
            (false, true) => replace(part.grants.as_mut(), id, grant),
            (true, true) => {
                take(&mut part.allowlist, id);
                push(part.grants.get_or_insert_default(), id.clone(), grant);
            }
            (false, false) => {
                take(&mut part.grants, id);
                push(part.allowlist.get_or_insert_default(), id.clone(), entry);
            }
        }
        Some(())
    }

    /// Removes an entry or grant. An agent that then says nothing at all is removed with it.
    pub fn remove_pattern(&mut self, agent: &str, id: &EntryId) -> Option<Removed> {
        let part = self.agent_mut(agent)?;
        let removed = match take(&mut part.allowlist, id) {
            Some(entry) => Removed::Entry(entry),
            None => Removed::Grant(take(&mut part.grants, id)?),
        };
        self.remove_if_empty(agent);
        Some(removed)
    }

    /// Removes a deny rule, and an agent that then says nothing at all.
    pub fn remove_deny_rule(&mut self, agent: &str, id: &EntryId) -> Option<DenyRule> {
        let removed = take(&mut self.agent_mut(agent)?.denylist, id)?;
        self.remove_if_empty(agent);
        Some(removed)
    }

    /// Notes that an entry was used. The text of a command behind a digest stays out of the file, as in the
    /// product. False for unknown items, which are ignored: the note is for people and best effort.
    pub fn record_use(&mut self, owner: &str, id: &EntryId, used: Use<'_>) -> bool {
        let list = self.agent_mut(owner).and_then(|part| part.allowlist.as_mut());
        let Some(known) = find_mut(list, id) else {
            return false;
        };
        let entry = &mut known.item;
        entry.last_used_at = Some(used.at.get().into());
        if !entry.is_generated() {
            entry.last_used_command = Some(used.command.to_owned());
        }
        if let Some(path) = used.resolved_path {
            entry.last_resolved_path = Some(path.to_owned());
        }
        true
    }

    /// Copies the ledger's count of a grant's uses into the document, for people. False when that says nothing new.
    pub fn record_grant_uses(&mut self, owner: &str, id: &EntryId, uses: u64) -> bool {
        let list = self.agent_mut(owner).and_then(|part| part.grants.as_mut());
        let Some(known) = find_mut(list, id) else {
            return false;
        };
        let uses = Some(Number::from(uses));
        let is_new = known.item.uses != uses;
        known.item.uses = uses;
        is_new
    }

    /// The token of the approvals socket; `None` where the document has none.
    pub fn socket_token(&self) -> Option<&Secret> {
        self.socket.as_ref()?.token.as_ref()
    }

    /// Path and token of the socket as another document has them.
    pub fn take_socket_of(&mut self, other: &Self) {
        let theirs = other.socket.as_ref();
        let path = theirs.and_then(|socket| socket.path.clone());
        let token = theirs.and_then(|socket| socket.token.clone());
        if self.socket.is_some() || path.is_some() || token.is_some() {
            let socket = self.socket.get_or_insert_with(Socket::default);
            (socket.path, socket.token) = (path, token);
        }
    }

    /// Sets the socket's token.
    pub fn set_socket_token(&mut self, token: Secret) {
        self.socket.get_or_insert_with(Socket::default).token = Some(token);
    }

    fn agent_mut(&mut self, id: &str) -> Option<&mut Agent> {
        let agents = self.agents.as_mut()?;
        agents
            .iter_mut()
            .find(|(name, _agent)| name == id)
            .map(|(_name, agent)| agent)
    }

    fn agent_or_insert(&mut self, id: &str) -> &mut Agent {
        let agents = self.agents.get_or_insert_default();
        let at = agents
            .iter()
            .position(|(name, _agent)| name == id)
            .unwrap_or_else(|| {
                agents.push((id.to_owned(), Agent::default()));
                agents.len() - 1
            });
        let (_name, agent) = agents.get_mut(at).expect("it was found or just pushed");
        agent
    }

    fn remove_if_empty(&mut self, id: &str) {
        if let Some(agents) = &mut self.agents {
            agents.retain(|(name, agent)| name != id || !agent.is_empty());
        }
    }

    fn has_pattern(&self, agent: &str, id: &EntryId) -> bool {
        self.agent(agent).is_some_and(|part| {
            find(part.allowlist.as_ref(), id).is_some() || find(part.grants.as_ref(), id).is_some()
        })
    }
}

impl Added {
    fn known(id: &EntryId) -> Self {
        Self {
            id: id.clone(),
            created: false,
        }
    }
}

fn same_rule(known: &impl Rule, new: &impl Rule) -> bool {
    trim(known.pattern()) == trim(new.pattern())
        && known.arg_pattern().unwrap_or_default() == new.arg_pattern().unwrap_or_default()
        && known.typing() == new.typing()
        && known.confine() == new.confine()
}

fn as_grant(entry: &Entry) -> Grant {
    Grant {
        pattern: entry.pattern.clone(),
        arg_pattern: entry.arg_pattern.clone(),
        note: entry.note.clone(),
        input: entry.input,
        unguarded: entry.unguarded,
        confine: entry.confine.clone(),
        extra: entry.extra.clone(),
        ..Grant::default()
    }
}

fn push<T>(list: &mut Vec<Keyed<T>>, id: EntryId, item: T) -> Added {
    let added = Added {
        id: id.clone(),
        created: true,
    };
    list.push(Keyed { id, item });
    added
}

fn find<'a, T>(list: Option<&'a Vec<Keyed<T>>>, id: &EntryId) -> Option<&'a Keyed<T>> {
    list?.iter().find(|known| known.id == *id)
}

fn find_mut<'a, T>(list: Option<&'a mut Vec<Keyed<T>>>, id: &EntryId) -> Option<&'a mut Keyed<T>> {
    list?.iter_mut().find(|known| known.id == *id)
}

fn replace<T>(list: Option<&mut Vec<Keyed<T>>>, id: &EntryId, item: T) {
    if let Some(known) = find_mut(list, id) {
        known.item = item;
    }
}

/// Takes an item out, and the list with its last one.
fn take<T>(list: &mut Option<Vec<Keyed<T>>>, id: &EntryId) -> Option<T> {
    let items = list.as_mut()?;
    let at = items.iter().position(|known| known.id == *id)?;
    let taken = items.remove(at).item;
    if items.is_empty() {
        *list = None;
    }
    Some(taken)
}
