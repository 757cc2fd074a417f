//! `countersign config`: the keys of `openclaw.json`, with or without a server.

use serde_json::{Value, json};

use super::{console::Format, context::Context, exit::ExitStatus, failure::Failure, table::Table, value};
use crate::settings::{
    ConfigFile, ConfigFileError, ConfigPart, ConfigValue, EditError, EffectiveValue, InvalidKeyPath, KeyEdit,
    KeyPath, SettingsProblem, Source, StateDir, config_edit, config_part, config_text, config_values,
};

/// See and change openclaw.json
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign config get
  countersign config get tools.exec.ask
  countersign config set tools.exec.ask always
  countersign config set tools.exec.safeBins \"['cut', 'jq']\"
  countersign config set 'agents.entries.build.tools.exec.security' allowlist
  countersign config unset tools.exec.ask

A value is JSON5, or a word that stands for itself. The text before a change is kept as
openclaw.json.bak. A running server reads the change before its next decision.")]
pub(crate) enum ConfigCommand {
    /// Show a value with its origin, or all of a group; without a path, all of them
    #[command(after_help = "Examples:
  countersign config get tools.exec.ask --json
  countersign config get tools.exec")]
    Get {
        /// Path of the key, e.g. `tools.exec.ask` or `agents.list[0].tools.exec.node`, or of a group of keys
        path: Option<String>,
    },
    /// Give a key a value
    #[command(after_help = "Examples:
  countersign config set tools.exec.timeoutSec 600
  countersign config set 'commands.allowFrom.\"*\"' '[\"somebody\"]'")]
    Set {
        /// Path of the key, e.g. `tools.exec.ask` or `agents.list[0].tools.exec.node`
        path: String,
        /// Its value: JSON5, or a word that stands for itself
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Take a key away, so that what is inherited or built in holds
    #[command(after_help = "Examples:
  countersign config unset tools.exec.ask")]
    Unset {
        /// Path of the key, e.g. `tools.exec.ask` or `agents.list[0].tools.exec.node`
        path: String,
    },
}

/// Runs the command.
pub(crate) fn run(context: &Context, command: ConfigCommand) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    match command {
        ConfigCommand::Get { path } => get(context, &state_dir, path.as_deref())?,
        ConfigCommand::Set { path, value } => {
            let path = parse_path(&path)?;
            let ConfigValue(read) = ConfigValue::from_word(&value);
            let as_text = !read.is_string() && !read.is_null();
            let set = |value| KeyEdit::Set {
                path: path.clone(),
                value,
            };
            match change(context, &state_dir, set(read)) {
                // What reads as a number or a list may be meant as a text, such as a node that is called 7.
                Err(Unchanged::Edit(EditError::Rejected(first))) if as_text => {
                    change(context, &state_dir, set(Value::from(value)))
                        .map_err(|_as_text| Unchanged::Edit(EditError::Rejected(first)))?;
                }
                other => other?,
            }
        }
        ConfigCommand::Unset { path } => {
            let path = parse_path(&path)?;
            change(context, &state_dir, KeyEdit::Unset { path })?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

fn parse_path(text: &str) -> Result<KeyPath, Failure> {
    KeyPath::parse(text).map_err(|InvalidKeyPath| Failure::usage(format!("{text}: {InvalidKeyPath}")))
}

fn get(context: &Context, state_dir: &StateDir, path: Option<&str>) -> Result<(), Failure> {
    let text = config_text(state_dir)
        .map_err(|problem| Failure::new("config", format!("openclaw.json: {problem}")))?;
    let values = config_values(text.as_deref(), state_dir).map_err(|problems| not_valid(&problems))?;
    let Some(path) = path else {
        return list(context, &values);
    };
    let found = match config_part(&values, &parse_path(path)?).map_err(Unchanged::Edit)? {
        ConfigPart::Key(found) => found,
        ConfigPart::Group(values) => return list(context, &values),
    };
    if context.console.format() == Format::Json {
        return context.console.document(&to_json(&found));
    }
    if found.value.is_null() {
        context.console.note("not set");
        return Ok(());
    }
    let line = shown(&found.value);
    context.console.line(&value::visible(&line))
}

fn list(context: &Context, values: &[EffectiveValue]) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        let items: Vec<Value> = values.iter().map(to_json).collect();
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&["KEY", "VALUE", "SOURCE"]);
    for value in values {
        table.row([value.key.as_str(), &shown(&value.value), source(&value.source)]);
    }
    context.console.table(&table, "")
}

/// Text as it is, anything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn to_json(value: &EffectiveValue) -> Value {
    json!({"path": value.key, "value": value.value, "source": source(&value.source), "default": value.default})
}

/// As the API spells it.
fn source(source: &Source) -> &'static str {
    match source {
        Source::File(_) => "openclaw.json",
        Source::Default | Source::Variable(_) | Source::Flag(_) => "default",
    }
}

/// Why nothing was changed.
enum Unchanged {
    Edit(EditError),
    File(ConfigFileError),
    Refused(Failure),
}

/// A guard rail as for the operator's token: see `discover`.
fn change(context: &Context, state_dir: &StateDir, edit: KeyEdit) -> Result<(), Unchanged> {
    if context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec") {
        return Err(Unchanged::Refused(
            Failure::new(
                "operator-refused",
                "the configuration is not changed from inside a command that an agent runs (OPENCLAW_SHELL=exec)",
            )
            .exit(ExitStatus::DENIED)
            .hint("run this in a terminal of your own"),
        ));
    }
    state_dir.prepare().map_err(|error| {
        Unchanged::Refused(Failure::new("state-dir", error.to_string()).exit(ExitStatus::CONFIG))
    })?;
    let held = ConfigFile::hold(state_dir).map_err(Unchanged::File)?;
    let path = edit.path().to_string();
    let edited = config_edit(held.text(), &[edit], state_dir).map_err(Unchanged::Edit)?;
    if edited.changed {
        let staged = held.stage(&edited.text).map_err(Unchanged::File)?;
        staged.commit().map_err(Unchanged::File)?;
    }
    report(context, &path, edited.changed).map_err(Unchanged::Refused)?;
    if edited.changed && state_dir.countersign().join("server.json").exists() {
        context.console.note(
            "where it allows more, the server holds that until an admin accepts it: countersign policy diff",
        );
    }
    Ok(())
}

fn report(context: &Context, path: &str, changed: bool) -> Result<(), Failure> {
    match context.console.format() {
        Format::Json => context
            .console
            .document(&json!({"path": path, "changed": changed})),
        Format::People => {
            let what = if changed { "changed" } else { "already so" };
            context.console.line(&format!("{}: {what}", value::visible(path)))
        }
    }
}

impl From<Unchanged> for Failure {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Refused(failure) => failure,
            Unchanged::File(error) => {
                let mut text = error.to_string();
                if let Some(source) = std::error::Error::source(&error) {
                    text = format!("{text}: {source}");
                }
                Self::new("config", text)
            }
            Unchanged::Edit(EditError::UnknownKey { path, nearest }) => {
                Self::usage(format!("{path}: no such key")).hint(format!("did you mean {nearest}?"))
            }
            Unchanged::Edit(EditError::Rejected(problems)) => not_valid(&problems),
            Unchanged::Edit(
                error @ (EditError::Unreadable(_)
                | EditError::NoSuchPlace { .. }
                | EditError::ReservedName { .. }
                | EditError::NotOurs { .. }
                | EditError::Path(_)),
            ) => Self::new("config", error.to_string()),
        }
    }
}

fn not_valid(problems: &[SettingsProblem]) -> Failure {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| match &problem.key {
            Some(key) => format!("{key}: {}", problem.problem),
            None => problem.problem.to_string(),
        })
        .collect();
    Failure::new("config", lines.join("; "))
}
