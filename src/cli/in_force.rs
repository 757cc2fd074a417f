//! The settings as `config` and `doctor` show them: those in force in the running server where there is one, else those
//! of the files.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use countersign_config::settings::EffectiveValue;

use super::{
    console::{Console, Format},
    context::Context,
    discover::{self, Role},
    failure::Failure,
    runtime::with_runtime,
    value,
};

/// A server that does not answer so long does not say what is in force.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) path: String,
    /// What is in force.
    pub(super) value: Value,
    pub(super) source: String,
    /// What would be in force otherwise.
    pub(super) default: Value,
    /// Whether it does something in this version.
    pub(super) effective: bool,
    /// What the file says and is not in force, and what that waits for.
    pub(super) waiting: Option<(Value, String)>,
}

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
pub(super) fn of_the_server(context: &Context) -> Result<Result<Vec<Shown>, SettingsSource>, Failure> {
    match asked(|| context.client(Role::Operator)) {
        Ok(shown) => Ok(Ok(shown)),
        Err(failure) if context.names_a_server() => Err(failure),
        Err(failure) => Ok(Err(SettingsSource::files(context, failure))),
    }
}

/// The same of the server of the state directory, whichever is named.
pub(super) fn of_the_own_server(context: &Context) -> Result<Vec<Shown>, SettingsSource> {
    asked(|| discover::own_client(context, Role::Operator))
        .map_err(|failure| SettingsSource::files(context, failure))
}

fn asked(client: impl FnOnce() -> Result<super::client::Client, Failure>) -> Result<Vec<Shown>, Failure> {
    let client = client()?;
    let body: Value = with_runtime(async {
        let answer = tokio::time::timeout(TIMEOUT, client.get(&["v1", "settings"], &Vec::new())).await;
        answer.unwrap_or_else(|_elapsed| Err(Failure::unavailable("the server does not answer")))
    })?;
    let items = body.get("items").and_then(Value::as_array);
    Ok(items.into_iter().flatten().map(Shown::of_answer).collect())
}

/// What a running server has of these, by key.
pub(super) fn values(shown: &[Shown]) -> BTreeMap<String, Value> {
    let value = |shown: &Shown| (shown.path.clone(), shown.value.clone());
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

impl Shown {
    fn of_answer(item: &Value) -> Self {
        let member = |name: &str| item.get(name).cloned().unwrap_or_default();
        let waits_for = value::string(item, "waitsFor").to_owned();
        Self {
            path: value::string(item, "path").to_owned(),
            value: member("value"),
            source: value::string(item, "source").to_owned(),
            default: member("default"),
            effective: item.get("effective") != Some(&Value::Bool(false)),
            waiting: item.get("waiting").map(|waiting| (waiting.clone(), waits_for)),
        }
    }

    /// A value of the files.
    pub(super) fn of_files(value: EffectiveValue, source: String) -> Self {
        let EffectiveValue {
            key,
            value,
            source: _,
            default,
            effective_now,
        } = value;
        Self {
            path: key,
            value,
            source,
            default,
            effective: effective_now,
            waiting: None,
        }
    }

    /// What waits, in words.
    pub(super) fn remark(&self) -> String {
        match &self.waiting {
            Some((waiting, waits_for)) => {
                // A secret: the value is not said, and `true` stands for it.
                let is_hidden = *waiting == Value::Bool(true) && !self.value.is_boolean();
                let what = if is_hidden {
                    "a change".to_owned()
                } else {
                    spelled(waiting)
                };
                let when = if waits_for == "acceptance" {
                    "once an admin accepts it"
                } else {
                    "after a restart"
                };
                format!("{when}: {}", value::visible(&what))
            }
            None if self.effective => String::new(),
            None => "not yet effective".to_owned(),
        }
    }

    /// Adds what waits to a document about the setting.
    pub(super) fn with_waiting(&self, mut document: Value) -> Value {
        if let (Some((waiting, waits_for)), Some(members)) = (&self.waiting, document.as_object_mut()) {
            members.insert("waiting".to_owned(), waiting.clone());
            members.insert("waitsFor".to_owned(), json!(waits_for));
        }
        document
    }
}
