//! `countersign policy set` and `policy preset`: changes of policy, shown before they are made.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::Serialize;
use serde_json::{Map, Value, json};

use countersign_domain::{AgentId, Ask, Security};
use countersign_policy::{
    layers::Layer,
    preset::{Preset, PresetValues},
};
use countersign_wire::{
    entry::EntryWarningBody,
    policy::{AgentBody, AppliedBody, EffectiveBody, OwnKeysBody, ValueBody},
};

use super::{
    allowlist::Owner,
    candidates,
    client::{Client, Query},
    console::Format,
    context::Context,
    failure::Failure,
    table::Table,
    value,
};

/// How often a change is sent while other parts of the document change.
const TRIES: usize = 8;

/// New values of the approvals document.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy set --agent build --security allowlist --ask always
  countersign policy set --agent '*' --ask-fallback deny
  countersign policy set --agent build --ask inherit

Changes what the approvals document says for one agent, or with '*' for all of them; `inherit`
takes a value away. The stricter of document and configuration counts: `countersign config set
tools.exec.security …` changes the latter, and `countersign policy show` says what is in effect and
why.")]
pub(crate) struct SetArgs {
    #[command(flatten)]
    owner: Owner,
    /// deny, allowlist, full, or inherit
    #[arg(long)]
    security: Option<Setting<Security>>,
    /// off, on-miss, always, or inherit
    #[arg(long)]
    ask: Option<Setting<Ask>>,
    /// The verdict when nobody answers: deny, allowlist, full, or inherit
    #[arg(long)]
    ask_fallback: Option<Setting<Security>>,
    /// Whether the programs of skills are allowed by themselves: true, false, or inherit
    #[arg(long)]
    auto_allow_skills: Option<Setting<bool>>,
}

/// A preset and whom it is for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy preset cautious --dry-run
  countersign policy preset cautious
  countersign policy preset deny-all --agent build
  countersign policy preset deny-all --every-agent

Changes openclaw.json and the approvals document together, or neither: deny-all (nothing runs),
cautious (the allowlist runs, a person is asked about everything else), yolo (everything runs).
An agent with keys of its own keeps them, and is listed with its effective policy; --every-agent
removes them. `countersign stop` stops everything at once, no matter what any key says.")]
pub(crate) struct PresetArgs {
    /// deny-all, cautious or yolo
    #[arg(add = candidates::presets())]
    name: Preset,
    /// Only for this agent
    #[arg(long, value_name = "ID", conflicts_with = "every_agent", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Remove the keys that agents have of their own, too
    #[arg(long)]
    every_agent: bool,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

/// A value, or its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting<T> {
    Inherit,
    To(T),
}

impl<T: FromStr> FromStr for Setting<T>
where
    T::Err: fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "inherit" {
            return Ok(Self::Inherit);
        }
        text.parse()
            .map(Self::To)
            .map_err(|error: T::Err| format!("{error}, or inherit"))
    }
}

/// One value that changes.
#[derive(Debug, Clone, PartialEq)]
struct ValueChange {
    file: &'static str,
    key: String,
    is: Option<Value>,
    becomes: Option<Value>,
}

const DOCUMENT: &str = "exec-approvals.json";
const CONFIG: &str = "openclaw.json";

pub(crate) async fn set(context: &Context, client: &Client, args: SetArgs) -> Result<(), Failure> {
    let SetArgs {
        owner,
        security,
        ask,
        ask_fallback,
        auto_allow_skills,
    } = args;
    let wanted = [
        ("security", security.map(to_value)),
        ("ask", ask.map(to_value)),
        ("askFallback", ask_fallback.map(to_value)),
        ("autoAllowSkills", auto_allow_skills.map(to_value)),
    ];
    if wanted.iter().all(|(_member, setting)| setting.is_none()) {
        return Err(Failure::usage("nothing to set").hint("countersign policy set --help"));
    }
    let path = ["v1", "agents", owner.agent(), "policy"];
    let (before, mut tag) = client.get_tagged::<Value>(&path).await?;
    let mut after = before.as_object().cloned().unwrap_or_default();
    let mut changes = Vec::new();
    for (member, setting) in wanted {
        let Some(setting) = setting else { continue };
        changes.push(ValueChange {
            file: DOCUMENT,
            key: format!("agents.{}.{member}", owner.agent()),
            is: before.get(member).cloned(),
            becomes: setting.clone(),
        });
        match setting {
            Some(value) => after.insert(member.to_owned(), value),
            None => after.shift_remove(member),
        };
    }
    changes.retain(|change| change.is != change.becomes);
    let held_before = Held::now(client).await;
    let after = Value::Object(after);
    let mut tries = TRIES;
    let policy = loop {
        match client.put::<Value>(&path, &after, tag.as_deref()).await {
            // The tag is that of the document, in which each run notes when its entry was used.
            Err(failure) if failure.code == "base-hash-mismatch" && tries > 1 => {
                let (now, its_tag) = client.get_tagged::<Value>(&path).await?;
                if now != before {
                    return Err(failure);
                }
                tag = its_tag;
                tries -= 1;
            }
            done => break done?,
        }
    };
    if context.console.format() == Format::Json {
        return context.console.document(&policy);
    }
    show(context, &changes)?;
    if changes.is_empty() {
        return Ok(());
    }
    show_effect(context, Held::now(client).await.is_wider_than(&held_before))
}

/// What waits for an admin, as far as it would newly allow something.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held(BTreeSet<String>);

impl Held {
    /// What waits now; nothing where this token may not know.
    pub(super) async fn now(client: &Client) -> Self {
        let effective = client.get(&["v1", "policy", "effective"], &Vec::new()).await;
        effective.map_or_else(|_unknown| Self::default(), Self::of)
    }

    fn of(effective: EffectiveBody) -> Self {
        let edits = [effective.document.held, effective.config_held];
        Self(edits.into_iter().flatten().flat_map(|held| held.allows).collect())
    }

    /// Whether something is held that was not before.
    pub(super) fn is_wider_than(&self, before: &Self) -> bool {
        !self.0.is_subset(&before.0)
    }
}

/// Says whether a change counts, and what makes one count that does not.
fn show_effect(context: &Context, is_held: bool) -> Result<(), Failure> {
    if !is_held {
        return context.console.line("changed, in force");
    }
    context
        .console
        .line("changed, held: what it would newly allow waits for an admin; what it forbids is in force")?;
    for hint in [
        "countersign policy diff   (shows it)",
        "countersign policy accept   (lets it take effect)",
        "countersign policy reject   (undoes it)",
    ] {
        context.console.hint(hint);
    }
    Ok(())
}

fn to_value<T: Serialize>(setting: Setting<T>) -> Option<Value> {
    match setting {
        Setting::Inherit => None,
        Setting::To(value) => Some(json!(value)),
    }
}

pub(crate) async fn preset(context: &Context, client: &Client, args: PresetArgs) -> Result<(), Failure> {
    let PresetArgs {
        name,
        agent,
        every_agent,
        dry_run,
    } = args;
    let mut query: Query = Vec::new();
    query.extend(agent.iter().map(|agent| ("agentId", agent.to_string())));
    let effective: EffectiveBody = client.get(&["v1", "policy", "effective"], &query).await?;
    let changes = preset_changes(&effective, name, agent.as_ref());
    let held_before = Held::of(effective);
    let agent_id = agent.clone();
    let own_keys;
    let mut is_held = false;
    if dry_run {
        own_keys = own_keys_now(client, agent.as_ref()).await?;
    } else {
        let mut body = Map::from_iter([("name".to_owned(), json!(name))]);
        body.extend(agent.map(|agent| ("agentId".to_owned(), json!(agent))));
        if every_agent {
            body.insert("everyAgent".to_owned(), json!(true));
        }
        let applied: AppliedBody = client
            .post(&["v1", "policy", "preset"], &Value::Object(body))
            .await?;
        for EntryWarningBody { message, .. } in &applied.warnings {
            context.console.note(&format!("warning: {message}"));
        }
        own_keys = applied.own_keys;
        let held = Held::now(client).await;
        // The same once more changes nothing of what waits.
        is_held = held.is_wider_than(&held_before) || (!applied.changed && !held.0.is_empty());
    }
    if context.console.format() == Format::Json {
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| json!({"file": change.file, "key": change.key, "is": change.is, "becomes": change.becomes}))
            .collect();
        let mut document =
            json!({"name": name, "applied": !dry_run, "changes": changes, "ownKeys": own_keys});
        if let Some(members) = document.as_object_mut().filter(|_| !dry_run) {
            let effect = if is_held { "held" } else { "in-force" };
            members.insert("effect".to_owned(), json!(effect));
        }
        return context.console.document(&document);
    }
    show(context, &changes)?;
    let becomes = if dry_run && every_agent {
        "would lose"
    } else {
        "keep"
    };
    show_own_keys(context, &own_keys, becomes)?;
    if dry_run && !changes.is_empty() {
        context.console.note("nothing was changed");
    }
    if !dry_run && !changes.is_empty() {
        show_effect(context, is_held)?;
    }
    if !dry_run && !changes.is_empty() && !is_held {
        match undo(&changes, agent_id.as_ref()) {
            Some(undo) => context.console.hint(&undo),
            None => context
                .console
                .note("to undo it, put back what stands in the column IS"),
        }
    }
    if !dry_run && name == Preset::DenyAll {
        context.console.note(
            "nothing new runs; what runs already goes on, unless you end it: countersign stop --reason TEXT",
        );
    }
    Ok(())
}

/// The command that puts back what a preset changed: another preset, where it is one. A preset that takes keys of agents away is
/// undone by nothing so short.
fn undo(changes: &[ValueChange], agent: Option<&AgentId>) -> Option<String> {
    let was = |file: &str, key: &str| {
        let change = changes
            .iter()
            .find(|change| change.file == file && change.key.ends_with(key));
        change.map(|change| change.is.clone().unwrap_or(Value::Null))
    };
    let is = |preset: &Preset| {
        let values = preset.values();
        [
            (CONFIG, "tools.exec.host", json!(values.host)),
            (CONFIG, "tools.exec.security", json!(values.security)),
            (CONFIG, "tools.exec.ask", json!(values.ask)),
            (DOCUMENT, ".security", json!(values.security)),
            (DOCUMENT, ".ask", json!(values.ask)),
            (DOCUMENT, ".askFallback", json!(values.ask_fallback)),
        ]
        .into_iter()
        // What the preset left as it was says nothing of what was there.
        .all(|(file, key, value)| was(file, key).is_none_or(|was| was == value))
    };
    let presets = [Preset::DenyAll, Preset::Cautious, Preset::Yolo];
    let preset = presets.iter().find(|preset| is(preset));
    // Where no preset says what was there, the table does.
    let name = json!(preset?);
    let name = name.as_str().unwrap_or_default();
    let whose = agent.map(|agent| format!(" --agent {agent}")).unwrap_or_default();
    Some(format!("countersign policy preset {name}{whose}   (undoes it)"))
}

/// The agents for which the preset is not the last word.
fn show_own_keys(context: &Context, own_keys: &[OwnKeysBody], becomes: &str) -> Result<(), Failure> {
    if own_keys.is_empty() {
        return Ok(());
    }
    context
        .console
        .line(&format!("these agents {becomes} keys of their own:"))?;
    let mut table = Table::new(&["AGENT", "SECURITY", "ASK", "KEYS"]);
    for own in own_keys {
        table.row([
            own.agent_id.as_str(),
            &own.security.to_string(),
            &own.ask.to_string(),
            &value::joined(&own.keys),
        ]);
    }
    context.console.table(&table, "")?;
    if becomes == "keep" {
        context
            .console
            .hint("countersign policy preset NAME --every-agent   (removes those keys)");
    }
    Ok(())
}

/// The agents with keys of their own about what a preset sets, as the answer to a preset has them, but for the one that it
/// is for. Security and ask are those of now.
async fn own_keys_now(client: &Client, except: Option<&AgentId>) -> Result<Vec<OwnKeysBody>, Failure> {
    fn own<T>(rule: &ValueBody<T, impl Sized>) -> impl Iterator<Item = String> {
        let layers = [Layer::Agent, Layer::DocumentWildcard, Layer::DocumentAgent];
        let spoken = rule.layers.iter();
        let own = spoken.filter(move |spoken| layers.iter().any(|layer| spoken.layer == *layer));
        own.map(|spoken| spoken.source.clone().unwrap_or_default())
    }
    let agents: Vec<AgentBody> = client.list(&["v1", "agents"], &Vec::new(), usize::MAX).await?;
    let mut own_keys = Vec::new();
    for AgentBody { agent_id, .. } in agents {
        if except == Some(&agent_id) {
            continue;
        }
        let query: Query = vec![("agentId", agent_id.to_string())];
        let effective: EffectiveBody = client.get(&["v1", "policy", "effective"], &query).await?;
        let keys: BTreeSet<String> = own(&effective.host)
            .chain(own(&effective.security))
            .chain(own(&effective.ask))
            .chain(own(&effective.ask_fallback))
            .collect();
        if !keys.is_empty() {
            own_keys.push(OwnKeysBody {
                agent_id,
                keys: keys.into_iter().collect(),
                security: effective.security.value,
                ask: effective.ask.value,
            });
        }
    }
    Ok(own_keys)
}

fn show(context: &Context, changes: &[ValueChange]) -> Result<(), Failure> {
    let mut table = Table::new(&["FILE", "KEY", "IS", "BECOMES"]);
    for change in changes {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), value::spelled);
        let row = [
            change.file,
            &change.key,
            &shown(&change.is),
            &shown(&change.becomes),
        ];
        table.row(row);
    }
    context.console.table(&table, "it is so already")
}

/// What a preset changes, given the effective policy of its agent: only the layers that it writes count.
fn preset_changes(effective: &EffectiveBody, preset: Preset, agent: Option<&AgentId>) -> Vec<ValueChange> {
    let PresetValues {
        host,
        security,
        ask,
        ask_fallback,
    } = preset.values();
    let (config, document, below, place) = match agent {
        None => (
            Layer::Global,
            Layer::DocumentDefaults,
            String::new(),
            "defaults".to_owned(),
        ),
        Some(agent) => (
            Layer::Agent,
            Layer::DocumentAgent,
            format!("{agent}: "),
            format!("agents.{agent}"),
        ),
    };
    let mut changes = Vec::new();
    let mut mode = false;
    for (rule, said, wanted) in [
        ("host", said(&effective.host, config), json!(host)),
        ("security", said(&effective.security, config), json!(security)),
        ("ask", said(&effective.ask, config), json!(ask)),
    ] {
        // `mode` says both security and ask, and goes.
        let source = said.as_ref().map(|(source, _value)| source.as_str());
        let by_mode = source.is_some_and(|source| source.ends_with("tools.exec.mode"));
        mode |= by_mode;
        changes.push(ValueChange {
            file: CONFIG,
            key: format!("{below}tools.exec.{rule}"),
            is: said.filter(|_said| !by_mode).map(|(_source, value)| value),
            becomes: Some(wanted),
        });
    }
    if mode {
        changes.push(ValueChange {
            file: CONFIG,
            key: format!("{below}tools.exec.mode"),
            is: Some(json!("set")),
            becomes: None,
        });
    }
    for (rule, said, wanted) in [
        ("security", said(&effective.security, document), json!(security)),
        ("ask", said(&effective.ask, document), json!(ask)),
        (
            "askFallback",
            said(&effective.ask_fallback, document),
            json!(ask_fallback),
        ),
    ] {
        changes.push(ValueChange {
            file: DOCUMENT,
            key: format!("{place}.{rule}"),
            is: said.map(|(_source, value)| value),
            becomes: Some(wanted),
        });
    }
    changes.retain(|change| change.is != change.becomes);
    changes
}

/// What a layer says, and where.
fn said<T>(rule: &ValueBody<T, impl Serialize>, layer: Layer) -> Option<(String, Value)> {
    let spoken = rule.layers.iter().rfind(|spoken| spoken.layer == layer)?;
    Some((spoken.source.clone().unwrap_or_default(), json!(spoken.value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_changes_only_the_layers_that_it_writes() {
        let rule = |value: &str, layers: Value| json!({"value": value, "source": "", "layers": layers});
        let switch = json!({"value": false, "source": "", "layers": []});
        let effective = json!({
            "agentId": "main", "sessionKey": "agent:main:main", "approvalsApply": true, "isolation": "same-user",
            "autoAllowSkills": switch, "strictInlineEval": switch, "strictDelegation": switch,
            "onMiss": rule("ask", json!([])),
            "sandbox": {"active": false, "scope": "session", "workspaceAccess": "none"},
            "document": {"status": "ok", "hash": "", "warnings": []},
            "host": rule("gateway", json!([{"layer": "default", "value": "sandbox"},
                {"layer": "global", "source": "tools.exec.host", "value": "gateway"}])),
            "security": rule("deny", json!([{"layer": "global", "source": "tools.exec.mode", "value": "full"},
                {"layer": "document-agent", "source": "…", "value": "deny"}])),
            "ask": rule("off", json!([{"layer": "global", "source": "tools.exec.mode", "value": "off"}])),
            "askFallback": rule("deny", json!([{"layer": "document-defaults", "value": "deny"}])),
        });
        let effective = serde_json::from_value(effective).unwrap();
        let lines = |agent: Option<&AgentId>| -> Vec<String> {
            preset_changes(&effective, Preset::Cautious, agent)
                .iter()
                .map(|change| {
                    let shown =
                        |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), value::spelled);
                    format!(
                        "{} {} {} {}",
                        change.file,
                        change.key,
                        shown(&change.is),
                        shown(&change.becomes)
                    )
                })
                .collect()
        };
        assert_eq!(
            lines(None),
            [
                "openclaw.json tools.exec.security - allowlist",
                "openclaw.json tools.exec.ask - on-miss",
                "openclaw.json tools.exec.mode set -",
                "exec-approvals.json defaults.security - allowlist",
                "exec-approvals.json defaults.ask - on-miss",
            ]
        );
        let build = AgentId::parse("build").unwrap();
        assert_eq!(
            lines(Some(&build)),
            [
                "openclaw.json build: tools.exec.host - gateway",
                "openclaw.json build: tools.exec.security - allowlist",
                "openclaw.json build: tools.exec.ask - on-miss",
                "exec-approvals.json agents.build.security deny allowlist",
                "exec-approvals.json agents.build.ask - on-miss",
                "exec-approvals.json agents.build.askFallback - deny",
            ]
        );
    }

    #[test]
    fn a_setting_is_a_word_or_inherited() {
        assert_eq!("inherit".parse(), Ok(Setting::<Security>::Inherit));
        assert_eq!("full".parse(), Ok(Setting::To(Security::Full)));
        assert_eq!("true".parse(), Ok(Setting::To(true)));
        assert_eq!(
            "fulll".parse::<Setting<Security>>(),
            Err("expected deny, allowlist or full, or inherit".to_owned())
        );
    }
}
