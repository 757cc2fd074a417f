//! Every setting with the value that is in force in this process, and what waits to take its place.

use std::{collections::HashMap, io};

use serde_json::Value;

use countersign_config::settings::{
    EffectiveValue, Source, WaitingValue, WaitsFor, config_values, is_server_setting,
};

use countersign_domain::Kernel;
use countersign_sys::fs::read_bounded;

use crate::{kernel, policy_admin::PolicyAdmin};

/// The most that a forecast which this program saved can have.
const MAX_FORECAST_BYTES: usize = 256 * 1024;

/// A setting in force.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingInForce {
    /// Its key, value and origin.
    pub setting: EffectiveValue,
    /// What is in its file and not in force.
    pub waiting: Option<PendingSetting>,
}

/// A value that is not in force yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingSetting {
    /// The value; `null` for unset, and `true` in place of a secret.
    pub value: Value,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

impl PolicyAdmin {
    /// The settings in force: those of `countersign.toml`, then those of `openclaw.json`.
    pub fn settings_in_force(&self) -> Vec<SettingInForce> {
        self.policy.refresh();
        let settings = self.settings.current();
        let (server, file): (Vec<_>, Vec<_>) = settings
            .values
            .iter()
            .cloned()
            .partition(|setting| is_server_setting(&setting.key));
        let mut in_force = with_waiting(server, &settings.waiting);
        in_force.extend(match self.accepted_policy.accepted_config() {
            // An accepted text that does not read any more allows nothing, and no value of it is in force.
            Some(accepted) => until_accepted(
                config_values(accepted.text.as_deref(), self.settings.state_dir()).unwrap_or_default(),
                &file,
            ),
            None => with_waiting(file, &[]),
        });
        in_force
    }

    /// The bytes of the last forecast that was saved.
    ///
    /// # Errors
    /// `NotFound` where there is none, `FileTooLarge`, and what reading the file says.
    #[crate::compiled_once]
    pub async fn saved_forecast(&self) -> io::Result<Vec<u8>> {
        let path = self.settings.state_dir().forecast();
        let read = tokio::task::spawn_blocking(move || read_bounded(&path, MAX_FORECAST_BYTES));
        // Only a panic or the end of the process makes the task fail.
        read.await.map_err(io::Error::other)?
    }

    /// What the kernel of this machine keeps of commands.
    #[crate::compiled_once]
    pub async fn kernel(&self) -> Kernel {
        let reached = self.lint.reached();
        // Only a panic or the end of the process makes the task fail.
        tokio::task::spawn_blocking(move || kernel::look(reached))
            .await
            .unwrap_or_else(|_ended| Kernel {
                landlock: 0,
                parts: Vec::new(),
            })
    }
}

fn with_waiting(values: Vec<EffectiveValue>, waiting: &[WaitingValue]) -> Vec<SettingInForce> {
    let waits = |key: &str| {
        let waiting = waiting.iter().find(|waiting| waiting.key == key)?;
        Some(PendingSetting {
            value: waiting.value.clone(),
            waits_for: waiting.waits_for,
        })
    };
    let in_force = |setting: EffectiveValue| SettingInForce {
        waiting: waits(&setting.key),
        setting,
    };
    values.into_iter().map(in_force).collect()
}

/// What was accepted, with what the file says otherwise.
fn until_accepted(accepted: Vec<EffectiveValue>, file: &[EffectiveValue]) -> Vec<SettingInForce> {
    let waits = |value: Value| PendingSetting {
        value,
        waits_for: WaitsFor::Acceptance,
    };
    let mut edited: HashMap<&str, &EffectiveValue> = file
        .iter()
        .map(|setting| (setting.key.as_str(), setting))
        .collect();
    let mut in_force: Vec<SettingInForce> = Vec::new();
    for setting in accepted {
        let later = edited
            .remove(setting.key.as_str())
            .map_or(Value::Null, |later| later.value.clone());
        in_force.push(SettingInForce {
            waiting: (later != setting.value).then(|| waits(later)),
            setting,
        });
    }
    // Keys that only the edit has, in the order of the file.
    let only_there = file
        .iter()
        .filter(|setting| edited.contains_key(setting.key.as_str()));
    in_force.extend(only_there.map(|setting| SettingInForce {
        setting: EffectiveValue {
            value: Value::Null,
            source: Source::Default,
            ..setting.clone()
        },
        waiting: Some(waits(setting.value.clone())),
    }));
    in_force
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setting(key: &str, value: Value) -> EffectiveValue {
        EffectiveValue {
            key: key.to_owned(),
            value,
            source: Source::File("openclaw.json".into()),
            default: Value::Null,
            effective_now: true,
        }
    }

    fn shown(accepted: &[(&str, Value)], file: &[(&str, Value)]) -> Vec<(String, Value, Option<Value>)> {
        let values = |of: &[(&str, Value)]| {
            of.iter()
                .map(|(key, value)| setting(key, value.clone()))
                .collect::<Vec<_>>()
        };
        until_accepted(values(accepted), &values(file))
            .into_iter()
            .map(|SettingInForce { setting, waiting }| {
                (setting.key, setting.value, waiting.map(|waiting| waiting.value))
            })
            .collect()
    }

    #[test]
    fn a_held_edit_waits_key_by_key() {
        let found = shown(
            &[("same", json!(1)), ("changed", json!(1)), ("gone", json!(1))],
            &[("new", json!(2)), ("same", json!(1)), ("changed", json!(2))],
        );
        assert_eq!(
            found,
            [
                ("same".to_owned(), json!(1), None),
                ("changed".to_owned(), json!(1), Some(json!(2))),
                ("gone".to_owned(), json!(1), Some(Value::Null)),
                ("new".to_owned(), Value::Null, Some(json!(2))),
            ]
        );
    }
}
