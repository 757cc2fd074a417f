//! Editing the text of `openclaw.json`: sets and unsets keys, keeps unknown keys and the order, loses comments.
//!
//! Pure: text in, text out. A result that would not load is never returned.

use serde_json::{Map, Value};

use crate::{domain::AgentId, policy::preset::Preset};

use super::{
    InvalidKeyPath, KeyPath, PolicyConfig, Problem, SettingsProblem, Source, StateDir, Step,
    nearest::nearest,
    policy_config,
    policy_keys::{KEYS, Scope},
    policy_tree,
    values::Places,
};

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEdit {
    /// Gives a key a value; objects and list elements on the way are made.
    Set {
        /// The key.
        path: KeyPath,
        /// Its value.
        value: Value,
    },
    /// Takes a key away; one that is not there is none.
    Unset {
        /// The key.
        path: KeyPath,
    },
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
        /// The path.
        path: String,
        /// The known key that looks most like it.
        nearest: String,
    },
    /// Something else than an object or list is where the path goes through, or the list is too short.
    #[error("{path}: leads through something else than an object or list")]
    NoSuchPlace {
        /// The path.
        path: String,
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
    /// What it means.
    pub policy: PolicyConfig,
    /// Whether anything changed.
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
                check_known(path)?;
                set(&mut tree, path, value.clone())?;
            }
            KeyEdit::Unset { path } => unset(&mut tree, path.steps()),
        }
    }
    let places = Places {
        home: state_dir.home().map(Into::into),
        state: state_dir.root().into(),
    };
    let parsed = policy_config::parse_tree(&tree, &source, &places).map_err(EditError::Rejected)?;
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

/// What a preset changes in this file, for everybody or for one agent (`exec-tool.md` 11).
///
/// # Errors
/// [`EditError::Unreadable`] when the present text does not parse.
pub fn preset_edits(
    text: Option<&str>,
    preset: Preset,
    agent: Option<&AgentId>,
) -> Result<Vec<KeyEdit>, EditError> {
    let tree = parse(text, &Source::Default)?;
    let mut edits = Vec::new();
    let agent = agent
        .map(|agent| agent_path(&tree, agent, &mut edits))
        .transpose()?;
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

/// Outside the strict parts an unknown key would be kept and do nothing; nobody means to set one.
fn check_known(path: &KeyPath) -> Result<(), EditError> {
    let (scope, rest) = split_scope(path.steps());
    let rest = plain_path(rest);
    let known = || KEYS.iter().filter_map(|key| key.path(&scope));
    let is_below = |known: &str| {
        rest.strip_prefix(known)
            .is_some_and(|below| below.is_empty() || below.starts_with('.'))
    };
    let is_id = matches!(scope, Scope::Agent(_)) && rest == "id";
    if is_id || known().any(is_below) {
        return Ok(());
    }
    Err(EditError::UnknownKey {
        path: path.to_string(),
        nearest: scope.name(nearest(&rest, known())),
    })
}

fn split_scope(steps: &[Step]) -> (Scope, &[Step]) {
    match steps {
        [Step::Key(agents), Step::Key(spelling), agent, rest @ ..]
            if agents == "agents"
                && matches!(
                    (spelling.as_str(), agent),
                    ("list", Step::Index(_)) | ("entries", Step::Key(_))
                ) =>
        {
            let at = steps.get(..3).and_then(|at| KeyPath::new(at.to_vec()).ok());
            (
                Scope::Agent(at.map_or_else(String::new, |at| at.to_string())),
                rest,
            )
        }
        _ => (Scope::Global, steps),
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
