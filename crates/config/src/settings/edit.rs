//! Editing the text of `openclaw.json`: sets and unsets keys, keeps unknown keys and the order, loses comments.
//!
//! Pure: text in, text out. A result that would not load is never returned.

use serde_json::{Map, Value};

use countersign_domain::{AgentId, nearest};
use countersign_policy::preset::{Preset, PresetReach};

use super::{
    InvalidKeyPath, KeyPath, PolicyConfig, Problem, SettingsProblem, Source, StateDir, Step, policy_config,
    policy_keys::{AGENT_ID, KEYS, LEFT_ALONE, PolicyKey, Scope, canonical},
    policy_tree,
    values::Places,
};

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEdit {
    /// Gives a key a value; objects and list elements on the way are made.
    Set {
        /// The key, from the root of the file.
        path: KeyPath,
        /// The new value, in place of all that is there.
        value: Value,
    },
    /// Takes a key away; one that is not there is none.
    Unset {
        /// The key or group, from the root of the file.
        path: KeyPath,
    },
}

impl KeyEdit {
    /// The key that it changes.
    pub const fn path(&self) -> &KeyPath {
        match self {
            Self::Set { path, .. } | Self::Unset { path } => path,
        }
    }
}

/// A text cannot be edited so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The present text does not parse, so nothing can be kept of it.
    #[error("{0}")]
    Unreadable(SettingsProblem),
    /// No key that we read.
    #[error("{path}: unknown key, the nearest known one is {nearest}")]
    UnknownKey {
        /// The key as it was to be changed.
        path: String,
        /// The known key that looks most like it.
        nearest: String,
    },
    /// Something else than an object or list is where the path goes through, or the list is too short.
    #[error("{path}: leads through something else than an object or list")]
    NoSuchPlace {
        /// The path as it was to be changed.
        path: String,
    },
    /// A name that JavaScript readers of the file would take for something else.
    #[error("{path}: __proto__ cannot be a name here")]
    ReservedName {
        /// The path as it was to be changed.
        path: String,
    },
    /// Removing it would remove what belongs to the product alone.
    #[error("{path}: holds {foreign}, which is not ours to remove")]
    NotOurs {
        /// The path that was to be removed.
        path: String,
        /// A key in it that we do not read.
        foreign: String,
    },
    /// The text would not load afterwards.
    #[error("the change would break the file")]
    Rejected(Vec<SettingsProblem>),
    /// An agent's id does not fit into a path.
    #[error(transparent)]
    Path(#[from] InvalidKeyPath),
}

/// A text after its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The new text; the old one, comments included, when nothing changed.
    pub text: String,
    /// The policy that the new text sets.
    pub policy: PolicyConfig,
    /// Whether any value differs; if not, there is nothing to write.
    pub changed: bool,
}

/// Applies changes to the text of `openclaw.json` (`None`: there is no file) and checks that the result loads.
///
/// # Errors
/// [`EditError`] says why not; then nothing may be written.
pub fn config_edit(text: Option<&str>, edits: &[KeyEdit], state_dir: &StateDir) -> Result<Edited, EditError> {
    let source = Source::File(state_dir.config());
    let before = parse(text, &source)?;
    let mut tree = before.clone();
    for edit in edits {
        match edit {
            KeyEdit::Set { path, value } => {
                check_names(path, value)?;
                check_known(path)?;
                set(&mut tree, path, value.clone())?;
            }
            KeyEdit::Unset { path } => {
                check_removable(&tree, path)?;
                unset(&mut tree, path.steps());
            }
        }
    }
    let parsed =
        policy_config::parse_tree(&tree, &source, &places(state_dir)).map_err(EditError::Rejected)?;
    let changed = tree != before;
    let text = match text {
        Some(text) if !changed => text.to_owned(),
        _ => format!("{tree:#}\n"),
    };
    Ok(Edited {
        text,
        policy: parsed.config,
        changed,
    })
}

/// What paths in values are relative to.
pub(super) fn places(state_dir: &StateDir) -> Places {
    Places {
        home: state_dir.home().map(Into::into),
        state: state_dir.root().into(),
    }
}

/// What a preset changes in this file (`docs/spec/exec-tool.md#11-presets`).
///
/// # Errors
/// [`EditError::Unreadable`] when the present text does not parse.
pub fn preset_edits(
    text: Option<&str>,
    preset: Preset,
    reach: &PresetReach,
) -> Result<Vec<KeyEdit>, EditError> {
    let tree = parse(text, &Source::Default)?;
    let mut edits = Vec::new();
    let agent = match reach {
        PresetReach::Agent(agent) => Some(agent_path(&tree, agent, &mut edits)?),
        PresetReach::Defaults => None,
        PresetReach::EveryAgent => {
            remove_own_keys(&tree, preset, &mut edits)?;
            None
        }
    };
    for change in preset.config_edits() {
        let key = KeyPath::parse(change.key)?;
        let path = match &agent {
            None => key,
            Some(agent) => agent.below(&key),
        };
        edits.push(match change.value {
            Some(value) => KeyEdit::Set { path, value },
            None => KeyEdit::Unset { path },
        });
    }
    Ok(edits)
}

/// Takes the keys of a preset away from each agent that has them of its own.
fn remove_own_keys(tree: &Value, preset: Preset, edits: &mut Vec<KeyEdit>) -> Result<(), EditError> {
    let key = |name: &str| Step::Key(name.to_owned());
    let list = tree.pointer("/agents/list").and_then(Value::as_array);
    let listed = list.into_iter().flatten().enumerate();
    let listed = listed.map(|(index, agent)| (vec![key("agents"), key("list"), Step::Index(index)], agent));
    let entries = tree.pointer("/agents/entries").and_then(Value::as_object);
    let entries = entries.into_iter().flatten();
    let entries = entries.map(|(name, agent)| (vec![key("agents"), key("entries"), key(name)], agent));
    for (path, agent) in listed.chain(entries) {
        let path = KeyPath::new(path)?;
        for change in preset.config_edits() {
            let pointer = format!("/{}", change.key.replace('.', "/"));
            if agent.pointer(&pointer).is_some() {
                let path = path.below(&KeyPath::parse(change.key)?);
                edits.push(KeyEdit::Unset { path });
            }
        }
    }
    Ok(())
}

/// Where an agent's object is, or comes to be, in the spelling that the file uses.
fn agent_path(tree: &Value, agent: &AgentId, edits: &mut Vec<KeyEdit>) -> Result<KeyPath, EditError> {
    let key = |name: &str| Step::Key(name.to_owned());
    let list = tree.pointer("/agents/list").and_then(Value::as_array);
    let Some(list) = list else {
        return Ok(KeyPath::new(vec![
            key("agents"),
            key("entries"),
            key(agent.as_str()),
        ])?);
    };
    let has_entry = tree
        .pointer("/agents/entries")
        .is_some_and(|entries| entries.get(agent.as_str()).is_some());
    if has_entry {
        return Ok(KeyPath::new(vec![
            key("agents"),
            key("entries"),
            key(agent.as_str()),
        ])?);
    }
    let is_agent = |entry: &Value| entry.get("id").and_then(Value::as_str) == Some(agent.as_str());
    let index = list.iter().position(is_agent);
    let path = KeyPath::new(vec![
        key("agents"),
        key("list"),
        Step::Index(index.unwrap_or(list.len())),
    ])?;
    if index.is_none() {
        edits.push(KeyEdit::Set {
            path: path.below(&KeyPath::parse("id")?),
            value: Value::from(agent.as_str()),
        });
    }
    Ok(path)
}

fn parse(text: Option<&str>, source: &Source) -> Result<Value, EditError> {
    let Some(text) = text else {
        return Ok(Value::Object(Map::new()));
    };
    policy_tree::parse(text)
        .map_err(|problem: Problem| EditError::Unreadable(SettingsProblem::whole(source.clone(), problem)))
}

/// A key of the table that a path names, or names a part of. Of two spellings it is the one that is listed.
#[derive(Debug)]
pub(super) struct NamedKey<'a> {
    at: &'a [Step],
    within: &'static str,
    below: &'a [Step],
    global: &'static str,
}

impl<'a> NamedKey<'a> {
    /// Its path for everybody.
    pub(super) const fn global(&self) -> &'static str {
        self.global
    }

    /// Its own path, with what is below it.
    pub(super) fn path(&self) -> KeyPath {
        let within = self.within.split('.').map(|part| Step::Key(part.to_owned()));
        let steps = self
            .at
            .iter()
            .cloned()
            .chain(within)
            .chain(self.below.iter().cloned());
        KeyPath::new(steps.collect()).expect("both spellings of a key have as many steps")
    }

    /// The steps below it.
    pub(super) const fn below(&self) -> &'a [Step] {
        self.below
    }

    /// Whether a path is that of the whole key.
    pub(super) fn is(&self, path: &KeyPath) -> bool {
        let (at, rest) = path.steps().split_at(self.at.len().min(path.steps().len()));
        at == self.at && plain_path(rest) == self.within
    }
}

/// The key that a path is or is below. Outside the strict parts an unknown key would be kept and do nothing; nobody
/// means to set one.
pub(super) fn check_known(path: &KeyPath) -> Result<NamedKey<'_>, EditError> {
    let (scope, at, rest) = split_scope(path.steps());
    let plain = plain_path(rest);
    let known = || KEYS.iter().filter_map(|key| key.path(&scope));
    let named = KEYS.iter().find_map(|key| {
        let within = key.path(&scope)?;
        let depth = within.split('.').count();
        let is_it = rest.len() >= depth && plain_path(rest.get(..depth)?) == within;
        let of = KEYS.iter().find(|of| of.global == canonical(key.global))?;
        is_it.then_some((of.global, of.path(&scope)?, depth))
    });
    if let Some((global, within, depth)) = named {
        return Ok(NamedKey {
            at,
            within,
            below: rest.get(depth..).unwrap_or_default(),
            global,
        });
    }
    if matches!(scope, Scope::Agent(_)) && plain == AGENT_ID {
        return Ok(NamedKey {
            at,
            within: AGENT_ID,
            below: &[],
            global: AGENT_ID,
        });
    }
    Err(EditError::UnknownKey {
        path: path.to_string(),
        nearest: scope.name(nearest(&plain, known())),
    })
}

/// The paths of the keys below one that is no key itself, such as `tools.exec`; none for any other path.
pub(super) fn keys_below(path: &KeyPath) -> Vec<KeyPath> {
    let (scope, at, rest) = split_scope(path.steps());
    let group = plain_path(rest);
    let below = |key: &PolicyKey| {
        let within = key.path(&scope)?;
        let is_shown = (group.is_empty() || is_below(within, &group)) && !key.is_alias();
        let steps = within.split('.').map(|part| Step::Key(part.to_owned()));
        is_shown.then(|| KeyPath::new(at.iter().cloned().chain(steps).collect()).ok())?
    };
    KEYS.iter().filter_map(below).collect()
}

/// Readers in JavaScript would set the prototype of an object instead of a member.
const PROTOTYPE: &str = "__proto__";

fn check_names(path: &KeyPath, value: &Value) -> Result<(), EditError> {
    let in_path = path
        .steps()
        .iter()
        .any(|step| matches!(step, Step::Key(name) if name == PROTOTYPE));
    if in_path || names_prototype(value) {
        return Err(EditError::ReservedName {
            path: path.to_string(),
        });
    }
    Ok(())
}

fn names_prototype(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name == PROTOTYPE || names_prototype(value)),
        Value::Array(items) => items.iter().any(names_prototype),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Only keys that we read can be taken away, and whole groups and agents that hold nothing else. In the strict parts
/// that goes for unknown keys too: they are errors, and this removes them.
fn check_removable(tree: &Value, path: &KeyPath) -> Result<(), EditError> {
    let Err(unknown) = check_known(path) else {
        return Ok(());
    };
    let (scope, _at, rest) = split_scope(path.steps());
    let plain = plain_path(rest);
    let is_group = plain.is_empty()
        || KEYS
            .iter()
            .any(|key| key.path(&scope).is_some_and(|key| is_below(key, &plain)));
    let present = find(tree, path.steps());
    let is_mendable = present.is_some() && is_strict(&scope, &plain);
    if !is_group && !is_mendable {
        return Err(unknown);
    }
    match present.and_then(|present| foreign(present, path)) {
        Some(foreign) => Err(EditError::NotOurs {
            path: path.to_string(),
            foreign,
        }),
        None => Ok(()),
    }
}

/// A path below `path` that is not ours, if the value there holds one.
fn foreign(value: &Value, path: &KeyPath) -> Option<String> {
    let (scope, _at, rest) = split_scope(path.steps());
    let plain = plain_path(rest);
    if LEFT_ALONE.contains(&plain.as_str()) {
        return Some(path.to_string());
    }
    if check_known(path).is_ok() {
        return None;
    }
    let child = |step: Step, value: &Value| {
        let mut steps = path.steps().to_vec();
        steps.push(step);
        match KeyPath::new(steps) {
            Ok(path) => foreign(value, &path),
            // Deeper than any key of ours.
            Err(_too_deep) => Some(path.to_string()),
        }
    };
    match value {
        Value::Object(members) if !members.is_empty() => members
            .iter()
            .find_map(|(name, value)| child(Step::Key(name.clone()), value)),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .find_map(|(index, value)| child(Step::Index(index), value)),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)
        | Value::Array(_) => {
            let is_empty_group = plain.is_empty()
                || KEYS
                    .iter()
                    .any(|key| key.path(&scope).is_some_and(|key| is_below(key, &plain)));
            (!is_empty_group && !is_strict(&scope, &plain)).then(|| path.to_string())
        }
    }
}

/// Whether an unknown key is an error there.
fn is_strict(scope: &Scope, plain: &str) -> bool {
    let parts: &[&str] = match scope {
        Scope::Global => &["tools.exec", "tools.elevated", "agents.defaults.sandbox"],
        Scope::Agent(_) => &["tools.exec"],
    };
    parts.iter().any(|part| is_below(plain, part))
        && !LEFT_ALONE
            .iter()
            .any(|left| plain == *left || is_below(plain, left))
}

fn is_below(path: &str, group: &str) -> bool {
    path.strip_prefix(group)
        .is_some_and(|below| below.starts_with('.'))
}

/// The level that a path is of, the path of that level's object, and the rest.
fn split_scope(steps: &[Step]) -> (Scope, &[Step], &[Step]) {
    match steps {
        [Step::Key(agents), Step::Key(spelling), agent, rest @ ..]
            if agents == "agents"
                && matches!(
                    (spelling.as_str(), agent),
                    ("list", Step::Index(_)) | ("entries", Step::Key(_))
                ) =>
        {
            let at = steps.get(..3).unwrap_or_default();
            let name = KeyPath::new(at.to_vec()).map_or_else(|_never| String::new(), |at| at.to_string());
            (Scope::Agent(name), at, rest)
        }
        _ => (Scope::Global, &[], steps),
    }
}

/// Steps as keys are written in the table; what is below a list only has to begin with its key.
fn plain_path(steps: &[Step]) -> String {
    let names = steps.iter().map(|step| match step {
        Step::Key(name) => name.clone(),
        Step::Index(index) => index.to_string(),
    });
    names.collect::<Vec<_>>().join(".")
}

fn set(tree: &mut Value, path: &KeyPath, value: Value) -> Result<(), EditError> {
    let no_such_place = || EditError::NoSuchPlace {
        path: path.to_string(),
    };
    let mut place = tree;
    for step in path.steps() {
        place = enter(place, step).ok_or_else(no_such_place)?;
    }
    *place = value;
    Ok(())
}

/// Goes one step down. A place that was made on the way is `null` until this knows what it must be.
fn enter<'a>(place: &'a mut Value, step: &Step) -> Option<&'a mut Value> {
    match step {
        Step::Key(key) => {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            Some(place.as_object_mut()?.entry(key.clone()).or_insert(Value::Null))
        }
        Step::Index(index) => {
            if place.is_null() {
                *place = Value::Array(Vec::new());
            }
            let list = place.as_array_mut()?;
            if *index == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(*index)
        }
    }
}

fn find<'a>(tree: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(tree, |place, step| match step {
        Step::Key(key) => place.get(key.as_str()),
        Step::Index(index) => place.get(*index),
    })
}

fn unset(tree: &mut Value, steps: &[Step]) {
    let Some((last, way)) = steps.split_last() else {
        return;
    };
    let mut place = tree;
    for step in way {
        let next = match step {
            Step::Key(key) => place.get_mut(key.as_str()),
            Step::Index(index) => place.get_mut(*index),
        };
        let Some(next) = next else { return };
        place = next;
    }
    match (last, place) {
        (Step::Key(key), Value::Object(members)) => {
            // Not `remove`, which would put the last member in the removed one's place.
            let _removed = members.shift_remove(key);
        }
        (Step::Index(index), Value::Array(elements)) if *index < elements.len() => {
            let _removed = elements.remove(*index);
        }
        _ => {}
    }
}
