//! The values of `openclaw.json` by their paths, for the command line without a server.

use serde_json::Value;

use super::{
    EditError, EffectiveValue, KeyPath, Problem, SettingsProblem, Source, StateDir, Step,
    edit::{check_known, keys_below, places},
    policy_config, source_file,
};

/// The text of `openclaw.json` as a server would read it; `None` without a file.
///
/// # Errors
/// What keeps it from being read.
pub fn config_text(state_dir: &StateDir) -> Result<Option<String>, Problem> {
    Ok(source_file::read(&state_dir.config())?.text)
}

/// Every key of `openclaw.json` with its value and its origin: those of everybody, and those that agents have of
/// their own.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn config_values(
    text: Option<&str>,
    state_dir: &StateDir,
) -> Result<Vec<EffectiveValue>, Vec<SettingsProblem>> {
    let parsed = policy_config::parse(text, &state_dir.config(), &places(state_dir))?;
    Ok(parsed.values)
}

/// The values at a path: that of a key or of a part of one, or those of all keys below a group such as `tools.exec`.
///
/// # Errors
/// [`EditError::UnknownKey`] when it is neither.
pub fn config_part(values: &[EffectiveValue], path: &KeyPath) -> Result<ConfigPart, EditError> {
    match config_value(values, path) {
        Ok(value) => Ok(ConfigPart::Key(value)),
        Err(unknown) => match keys_below(path) {
            keys if keys.is_empty() => Err(unknown),
            keys => {
                let values = keys.iter().map(|key| config_value(values, key));
                Ok(ConfigPart::Group(values.collect::<Result<_, _>>()?))
            }
        },
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigPart {
    /// A key, or a part of one.
    Key(EffectiveValue),
    /// All keys below a group such as `tools.exec`, without aliases.
    Group(Vec<EffectiveValue>),
}

/// The value at a path: that of a key, or of a part of one. A key that an agent does not have is what everybody has.
///
/// # Errors
/// [`EditError::UnknownKey`] when it is no key that we read.
fn config_value(values: &[EffectiveValue], path: &KeyPath) -> Result<EffectiveValue, EditError> {
    let key = check_known(path)?;
    let text = key.path().to_string();
    let holds = |value: &&EffectiveValue| KeyPath::parse(&value.key).is_ok_and(|known| key.is(&known));
    let inherits = |value: &&EffectiveValue| value.key == key.global();
    let unset = EffectiveValue {
        key: text.clone(),
        value: Value::Null,
        source: Source::Default,
        default: Value::Null,
        effective_now: true,
    };
    let (found, is_own) = match values.iter().find(holds) {
        Some(found) => (found, true),
        None => match values.iter().find(inherits) {
            Some(found) => (found, false),
            None => return Ok(unset),
        },
    };
    let part = |whole: &Value| {
        let mut place = Some(whole);
        for step in key.below() {
            place = place.and_then(|place| match step {
                Step::Key(name) => place.get(name.as_str()),
                Step::Index(index) => place.get(*index),
            });
        }
        place.cloned().unwrap_or_default()
    };
    let value = part(&found.value);
    Ok(EffectiveValue {
        key: text,
        default: part(if is_own { &found.default } else { &found.value }),
        source: if value.is_null() {
            Source::Default
        } else {
            found.source.clone()
        },
        value,
        effective_now: found.effective_now,
    })
}
