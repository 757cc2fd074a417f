//! `countersign config`: the settings in force, and changes of `openclaw.json`, with or without a server.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use countersign_config::settings::{
    ConfigFile, ConfigFileError, ConfigPart, ConfigValue, EditError, EffectiveValue, InvalidKeyPath, KeyEdit,
    KeyPath, SettingsProblem, SettingsStore, Source, StartOptions, StateDir, config_edit, config_part,
    config_text, config_values, is_server_setting,
};
use countersign_domain::intended;
use countersign_wire::setting::SettingBody;

use super::{
    candidates,
    console::Format,
    context::Context,
    discover::{self, Role},
    exit::ExitStatus,
    failure::Failure,
    in_force::{self, SettingsSource},
    runtime::with_runtime_for,
    table::Table,
    value,
};

/// A server that does not answer so long changes nothing.
const IN_TIME: Duration = Duration::from_secs(10);

/// See the settings in force, and change openclaw.json
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign config list
  countersign config get tools.exec.ask
  countersign config set tools.exec.ask always
  countersign config set tools.exec.safeBins \"['cut', 'jq']\"
  countersign config set 'agents.entries.build.tools.exec.security' allowlist
  countersign config unset tools.exec.ask

A value is JSON5, or a word that stands for itself. The text before a change is kept as
openclaw.json.bak. `set` and `unset` say whether the running server has the change in force, or
holds it because it would allow more: `countersign policy accept` lets that take effect.")]
pub(crate) enum ConfigCommand {
    /// List every setting in force with its origin, of both files
    #[command(after_help = "Examples:
  countersign config list
  countersign config list --json

A running server says what is in force, and what waits for a restart or for an admin who accepts it.
Without one the files are read, and `from files` says so; with --json the member `from` does.")]
    #[command(alias = "ls")]
    List,
    /// Show a value that is in force, or all of a group; without a path, as `list`
    #[command(after_help = "Examples:
  countersign config get tools.exec.ask --json
  countersign config get tools.exec
  countersign config get http.listen")]
    Get {
        /// Path of the key, e.g. `http.listen`, `tools.exec.ask` or `agents.list[0].tools.exec.node`, or of a group of keys
        #[arg(add = candidates::config_keys())]
        path: Option<String>,
    },
    /// Give a key a value
    #[command(after_help = "Examples:
  countersign config set tools.exec.timeoutSec 600
  countersign config set 'commands.allowFrom.\"*\"' '[\"ann\"]'")]
    Set {
        /// Path of the key, e.g. `tools.exec.ask` or `agents.list[0].tools.exec.node`
        #[arg(add = candidates::config_keys())]
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
        #[arg(add = candidates::config_keys())]
        path: String,
    },
}

pub(crate) fn run(context: &Context, command: ConfigCommand) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    match command {
        ConfigCommand::List => get(context, &state_dir, None)?,
        ConfigCommand::Get { path } => get(context, &state_dir, path.as_deref())?,
        ConfigCommand::Set { path, value } => {
            let path = parse_path(&path)?;
            let ConfigValue(read) = ConfigValue::from_word(&value);
            let as_text = !read.is_string() && !read.is_null();
            let set = |value| KeyEdit::Set {
                path: path.clone(),
                value,
            };
            let done = match change(context, &state_dir, set(read)) {
                // What reads as a number or a list may be meant as a text, such as a node that is called 7.
                Err(Unchanged::Edit(EditError::Rejected(first))) if as_text => {
                    change(context, &state_dir, set(Value::from(value.clone())))
                        .map_err(|_as_text| Unchanged::Edit(EditError::Rejected(first)))
                }
                other => other,
            };
            let changed = done.map_err(|unchanged| unchanged.of_edit(&path, Some(&value)))?;
            report(context, &state_dir, &path, changed)?;
        }
        ConfigCommand::Unset { path } => {
            let path = parse_path(&path)?;
            let edit = KeyEdit::Unset { path: path.clone() };
            let done = change(context, &state_dir, edit);
            let changed = done.map_err(|unchanged| unchanged.of_edit(&path, None))?;
            report(context, &state_dir, &path, changed)?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

fn parse_path(text: &str) -> Result<KeyPath, Failure> {
    KeyPath::parse(text).map_err(|InvalidKeyPath| Failure::usage(format!("{text}: {InvalidKeyPath}")))
}

fn get(context: &Context, state_dir: &StateDir, path: Option<&str>) -> Result<(), Failure> {
    let path = path.map(parse_path).transpose()?;
    let (all, from) = match in_force::of_the_server(context)? {
        Ok(shown) => (shown, SettingsSource::Server),
        Err(from) => (of_files(context, state_dir, path.as_ref())?, from),
    };
    match path {
        None => list(context, &all, &from),
        Some(path) => match part(&all, &path)? {
            Part::Key(found) => one(context, &found, &from),
            Part::Group(found) => list(context, &found, &from),
        },
    }
}

/// What the files say, as far as the path asks for it: a `countersign.toml` that does not read hides no key of
/// `openclaw.json`.
fn of_files(
    context: &Context,
    state_dir: &StateDir,
    path: Option<&KeyPath>,
) -> Result<Vec<SettingBody>, Failure> {
    let values = if path.is_none_or(is_of_server) {
        let environment = Arc::clone(&context.environment);
        SettingsStore::load(state_dir.clone(), &StartOptions::default(), environment)
            .map(|store| store.current().values.clone())
    } else {
        let text = config_text(state_dir).map_err(|problem| {
            Failure::new("config", format!("openclaw.json: {problem}")).exit(ExitStatus::CONFIG)
        })?;
        config_values(text.as_deref(), state_dir)
    }
    .map_err(|problems| not_valid(&problems))?;
    let shown = |value: EffectiveValue| {
        let source = value.source.short();
        in_force::of_files(value, source)
    };
    Ok(values.into_iter().map(shown).collect())
}

/// What is at a path.
enum Part {
    Key(Box<SettingBody>),
    Group(Vec<SettingBody>),
}

/// Whether a path leads into `countersign.toml`.
fn is_of_server(path: &KeyPath) -> bool {
    is_server_setting(&path.to_string())
}

fn part(all: &[SettingBody], path: &KeyPath) -> Result<Part, Failure> {
    if !is_of_server(path) {
        return part_of_policy(all, path);
    }
    let path = path.to_string();
    if let Some(found) = all.iter().find(|shown| shown.path == path) {
        return Ok(Part::Key(Box::new(found.clone())));
    }
    let is_below = |shown: &&SettingBody| {
        shown
            .path
            .strip_prefix(&path)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    Ok(Part::Group(all.iter().filter(is_below).cloned().collect()))
}

/// Keys of `openclaw.json` have parts, and agents inherit those of everybody: the value in force and the one that waits
/// are looked up alike.
fn part_of_policy(all: &[SettingBody], path: &KeyPath) -> Result<Part, Failure> {
    let look = |value: fn(&SettingBody) -> Value| {
        let of_policy = all.iter().filter(|shown| !is_server_setting(&shown.path));
        let values: Vec<EffectiveValue> = of_policy
            .map(|shown| EffectiveValue {
                key: shown.path.clone(),
                value: value(shown),
                source: source_of(&shown.source),
                default: shown.default.clone(),
                effective_now: shown.effective,
            })
            .collect();
        config_part(&values, path).map_err(|error| Failure::from(Unchanged::Edit(error)))
    };
    let later = |shown: &SettingBody| shown.waiting.as_ref().unwrap_or(&shown.value).clone();
    let shown = |now: EffectiveValue, later: Option<EffectiveValue>| {
        let later = later.map(|later| later.value).filter(|later| *later != now.value);
        let source = now.source.short();
        SettingBody {
            waits_for: later.is_some().then_some("acceptance".into()),
            waiting: later,
            ..in_force::of_files(now, source)
        }
    };
    let now = look(|shown| shown.value.clone())?;
    let mut later = match look(later)? {
        ConfigPart::Key(later) => vec![later],
        ConfigPart::Group(later) => later,
    }
    .into_iter();
    Ok(match now {
        ConfigPart::Key(now) => Part::Key(Box::new(shown(now, later.next()))),
        ConfigPart::Group(now) => {
            let shown = now.into_iter().map(|now| shown(now, later.next()));
            Part::Group(shown.collect())
        }
    })
}

/// Nothing but a file sets keys of the policy.
fn source_of(text: &str) -> Source {
    match text {
        "default" => Source::Default,
        file => Source::File(file.into()),
    }
}

fn one(context: &Context, found: &SettingBody, from: &SettingsSource) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        let mut document = to_json(found);
        if let Some(members) = document.as_object_mut() {
            members.insert("from".to_owned(), json!(from.as_str()));
        }
        return context.console.document(&document);
    }
    from.note(context.console);
    if found.waiting.is_some() {
        context.console.note(&in_force::remark(found));
    }
    if found.value.is_null() {
        context.console.note("not set");
        return Ok(());
    }
    let line = shown(&found.value);
    context.console.line(&value::visible(&line))
}

fn list(context: &Context, found: &[SettingBody], from: &SettingsSource) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        let items: Vec<Value> = found.iter().map(to_json).collect();
        return context
            .console
            .document(&json!({ "from": from.as_str(), "items": items }));
    }
    from.note(context.console);
    let mut table = Table::new(&["KEY", "VALUE", "SOURCE"]);
    for item in found {
        table.row([
            item.path.as_str(),
            &shown(&item.value),
            &match in_force::remark(item) {
                remark if remark.is_empty() => item.source.clone(),
                remark => format!("{}; {remark}", item.source),
            },
        ]);
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

fn to_json(item: &SettingBody) -> Value {
    let mut document = json!(item);
    if let Some(members) = document.as_object_mut() {
        members.shift_remove("effective");
    }
    document
}

/// Why nothing was changed.
enum Unchanged {
    Edit(EditError),
    File(ConfigFileError),
    Refused(Failure),
}

/// Changes the file, and says whether it was another before. A guard rail as for the operator's token: see `discover`.
fn change(context: &Context, state_dir: &StateDir, edit: KeyEdit) -> Result<bool, Unchanged> {
    if context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec") {
        return Err(Unchanged::Refused(
            Failure::new(
                "operator-refused",
                "the configuration is not changed from inside a command that an agent runs (OPENCLAW_SHELL=exec)",
            )
            .exit(ExitStatus::DENIED)
            .advice("run this in a terminal of your own"),
        ));
    }
    state_dir.prepare().map_err(|error| {
        Unchanged::Refused(Failure::new("state-dir", error.to_string()).exit(ExitStatus::CONFIG))
    })?;
    let held = ConfigFile::hold(state_dir).map_err(Unchanged::File)?;
    let edited = config_edit(held.text(), std::slice::from_ref(&edit), state_dir).map_err(Unchanged::Edit)?;
    if !edited.changed {
        return Ok(false);
    }
    // The server takes the same lock.
    let hash = held.hash().to_owned();
    drop(held);
    if change_at_the_server(context, &edit, &hash) {
        return Ok(true);
    }
    let held = ConfigFile::hold(state_dir).map_err(Unchanged::File)?;
    let edited = config_edit(held.text(), &[edit], state_dir).map_err(Unchanged::Edit)?;
    if edited.changed {
        let staged = held.stage(&edited.text).map_err(Unchanged::File)?;
        staged.commit().map_err(Unchanged::File)?;
    }
    Ok(edited.changed)
}

/// Has the server of the state directory make the change, so that its record says who did it. Where none runs, or this command line
/// opens nothing there, the file is edited, as with any editor.
fn change_at_the_server(context: &Context, edit: &KeyEdit, hash: &str) -> bool {
    let (path, value) = match edit {
        KeyEdit::Set { path, value } => (path, Some(value)),
        KeyEdit::Unset { path } => (path, None),
    };
    let path = path.to_string();
    let body = match value {
        Some(value) => json!({ "set": Map::from_iter([(path, value.clone())]) }),
        None => json!({ "unset": [path] }),
    };
    let Ok(client) = discover::own_client(context, Role::Operator) else {
        return false;
    };
    let tag = format!("\"{hash}\"");
    let changed = with_runtime_for(IN_TIME, client.patch_tagged(&["v1", "config"], &body, &tag));
    matches!(changed, Ok(Some(())))
}

/// What a running server makes of a key as the file has it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Every call is decided by it.
    InForce,
    /// It would allow more, so a person accepts it first.
    Held,
    /// It is read, and does nothing in this version.
    Nothing,
    /// No server says it.
    Unknown,
}

impl Effect {
    const fn as_str(self) -> &'static str {
        match self {
            Self::InForce => "in-force",
            Self::Held => "held",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }

    const fn in_words(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Held => "held, since it would allow more",
            Self::Nothing => "it does nothing in this version",
            Self::Unknown => "no server runs",
        }
    }

    /// By what the server has at a path.
    fn of(found: &Part) -> Self {
        let all = match found {
            Part::Key(one) => std::slice::from_ref(&**one),
            Part::Group(several) => several.as_slice(),
        };
        if all.iter().any(|setting| setting.waiting.is_some()) {
            Self::Held
        } else if !all.is_empty() && all.iter().all(|setting| !setting.effective) {
            Self::Nothing
        } else {
            Self::InForce
        }
    }
}

/// Says what became of the change, as the server of the state directory has it.
fn report(context: &Context, state_dir: &StateDir, path: &KeyPath, changed: bool) -> Result<(), Failure> {
    let shown = in_force::of_the_own_server(context);
    let effect = match &shown {
        Ok(shown) => part(&shown.items, path).map_or(Effect::Unknown, |found| Effect::of(&found)),
        Err(SettingsSource::Server | SettingsSource::Files { .. }) => Effect::Unknown,
    };
    let key = path.to_string();
    if context.console.format() == Format::Json {
        return context
            .console
            .document(&json!({"path": key, "changed": changed, "effect": effect.as_str()}));
    }
    let what = if changed { "changed" } else { "already so" };
    // Where no server has ever run there is nothing to tell of one.
    let has_run = state_dir.countersign().join("server.json").exists();
    let line = match effect {
        Effect::Unknown if !has_run => what.to_owned(),
        Effect::Unknown if shown.is_ok() => {
            format!("{what}, and the server does not say whether it is in force")
        }
        Effect::InForce | Effect::Held | Effect::Nothing | Effect::Unknown => {
            format!("{what}, {}", effect.in_words())
        }
    };
    context
        .console
        .line(&format!("{}: {line}", value::visible(&key)))?;
    if effect == Effect::Held {
        context
            .console
            .hint("countersign policy diff   (shows what it would allow)");
        context
            .console
            .hint("countersign policy accept   (lets it take effect)");
    }
    Ok(())
}

impl Unchanged {
    /// Why an edit failed, for the person who typed it. `value` is what a key was to be.
    fn of_edit(self, path: &KeyPath, value: Option<&str>) -> Failure {
        match self {
            Self::Edit(EditError::UnknownKey { path, nearest }) if !is_server_setting(&path) => {
                // A key that only looks a little like it may allow more.
                let hint = match (intended(&path, [nearest.as_str()]), value) {
                    (Some(nearest), Some(value)) => {
                        let (key, value) = (value::quoted(nearest), value::quoted(value));
                        format!("countersign config set {key} {value}")
                    }
                    (Some(nearest), None) => format!("countersign config unset {}", value::quoted(nearest)),
                    (None, _) => "countersign config list".to_owned(),
                };
                Failure::usage(format!("{path}: no such key")).hint(hint)
            }
            // What the file has already is no fault of the call.
            Self::Edit(EditError::Rejected(problems)) if is_about(&problems, path) => {
                not_valid(&problems).exit(ExitStatus::USAGE)
            }
            other @ (Self::Edit(_) | Self::File(_) | Self::Refused(_)) => other.into(),
        }
    }
}

/// Whether each problem is one of the key that is at this path, or of a part of it.
fn is_about(problems: &[SettingsProblem], path: &KeyPath) -> bool {
    let path = path.to_string();
    problems.iter().all(|problem| {
        problem.key.as_deref().is_some_and(|key| {
            key.strip_prefix(&path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    })
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
                Self::new("config", text).exit(ExitStatus::CONFIG)
            }
            Unchanged::Edit(EditError::UnknownKey { path, .. }) if is_server_setting(&path) => Self::usage(
                format!("{path}: a setting of countersign.toml, not of openclaw.json"),
            )
            .hint("countersign config list   (has what waits for a restart, once that file is edited)"),
            Unchanged::Edit(EditError::UnknownKey { path, nearest }) => {
                Self::usage(format!("{path}: no such key"))
                    .hint(format!("countersign config get {}", value::quoted(&nearest)))
            }
            Unchanged::Edit(EditError::Rejected(problems)) => not_valid(&problems),
            Unchanged::Edit(error @ EditError::Unreadable(_)) => {
                Self::new("config", error.to_string()).exit(ExitStatus::CONFIG)
            }
            Unchanged::Edit(
                error @ (EditError::NoSuchPlace { .. }
                | EditError::ReservedName { .. }
                | EditError::NotOurs { .. }
                | EditError::Path(_)),
            ) => Self::new("config", error.to_string()).exit(ExitStatus::USAGE),
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
    Failure::new("config", lines.join("; ")).exit(ExitStatus::CONFIG)
}
