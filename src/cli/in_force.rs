//! The settings as `config` and `doctor` show them: those in force in the running server where there is one, else those
//! of the files.

use std::{collections::BTreeMap, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::Value;

use countersign_config::settings::EffectiveValue;
use countersign_wire::{
    setting::{SettingBody, SettingsBody},
    stop::StandingBody,
};

use super::{
    client::Client,
    console::{Console, Format},
    context::Context,
    discover::{self, Role},
    failure::Failure,
    moment,
    runtime::with_runtime,
    value,
};

/// A server that does not answer so long does not say what is in force.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SettingsSource {
    Server,
    /// The files, as a server that started now would read them.
    Files {
        /// Why no server said it.
        why: String,
    },
}

impl SettingsSource {
    /// Where no server has ever run, what is missing for asking one says nothing to anybody.
    fn files(context: &Context, failure: Failure) -> Self {
        let has_run = context
            .state_dir()
            .is_ok_and(|state_dir| state_dir.countersign().join("server.json").exists());
        let why = if has_run {
            failure.message
        } else {
            "no server runs on this state directory".to_owned()
        };
        Self::Files { why }
    }

    /// The member of a document.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Files { .. } => "files",
        }
    }

    /// In words for people.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Server => "in force, from the server".to_owned(),
            Self::Files { why } => format!("from files: {}", value::visible(why)),
        }
    }

    /// Says on standard error that these are not from a server.
    pub(super) fn note(&self, console: Console) {
        if console.format() == Format::People && *self != Self::Server {
            console.note(&self.line());
        }
    }
}

/// What the server says is in force; or why it does not say it.
///
/// # Errors
/// When flags or environment name a server: the files here are not about that one.
pub(super) fn of_the_server(context: &Context) -> Result<Result<Vec<SettingBody>, SettingsSource>, Failure> {
    match asked(|| context.client(Role::Operator)) {
        Ok(shown) => Ok(Ok(shown.items)),
        Err(failure) if context.names_a_server() => Err(failure),
        Err(failure) => Ok(Err(SettingsSource::files(context, failure))),
    }
}

/// The same of the server of the state directory, whichever is named.
pub(super) fn of_the_own_server(context: &Context) -> Result<SettingsBody, SettingsSource> {
    asked(|| discover::own_client(context, Role::Operator))
        .map_err(|failure| SettingsSource::files(context, failure))
}

/// The stop of that server which is in effect and not on record yet, in words.
pub(super) fn unrecorded_stop(context: &Context) -> Option<String> {
    let client = discover::own_client(context, Role::Operator).ok()?;
    let standing: StandingBody = ask(&client, &["v1", "stop"]).ok()?;
    let stop = standing.stop.filter(|stop| !stop.durable)?;
    let (since, by) = (moment::with_zone(stop.at_ms), stop.by.name);
    Some(format!(
        "everything is stopped since {since}, by {by}: {}",
        stop.reason
    ))
}

fn asked(client: impl FnOnce() -> Result<Client, Failure>) -> Result<SettingsBody, Failure> {
    ask(&client()?, &["v1", "settings"])
}

fn ask<T: DeserializeOwned>(client: &Client, path: &[&str]) -> Result<T, Failure> {
    with_runtime(async {
        let answer = tokio::time::timeout(TIMEOUT, client.get(path, &Vec::new())).await;
        answer.unwrap_or_else(|_elapsed| Err(Failure::unavailable("the server does not answer")))
    })
}

/// What a running server has of these, by key.
pub(super) fn values(shown: &[SettingBody]) -> BTreeMap<String, Value> {
    let value = |shown: &SettingBody| (shown.path.clone(), shown.value.clone());
    shown.iter().map(value).collect()
}

/// A value for people, nothing included.
pub(super) fn spelled(value: &Value) -> String {
    if value.is_null() {
        "unset".to_owned()
    } else {
        value::spelled(value)
    }
}

/// A value of the files.
pub(super) fn of_files(value: EffectiveValue, source: String) -> SettingBody {
    SettingBody {
        path: value.key,
        value: value.value,
        source,
        default: value.default,
        effective: value.effective_now,
        waiting: None,
        waits_for: None,
    }
}

/// What waits, in words.
pub(super) fn remark(setting: &SettingBody) -> String {
    match &setting.waiting {
        Some(waiting) => {
            // A secret: the value is not said, and `true` stands for it.
            let is_hidden = *waiting == Value::Bool(true) && !setting.value.is_boolean();
            let what = if is_hidden {
                "a change".to_owned()
            } else {
                spelled(waiting)
            };
            let when = match setting.waits_for.as_deref() {
                Some("acceptance") => "once an admin accepts it",
                Some("change") => "rejected by an admin, never in force",
                _ => "after a restart",
            };
            format!("{when}: {}", value::visible(&what))
        }
        None if setting.effective => String::new(),
        None => "not yet effective".to_owned(),
    }
}
