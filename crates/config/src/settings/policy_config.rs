//! The policy that `openclaw.json` sets, resolved for every agent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use countersign_domain::{AgentId, Ask, HostChoice, Security};
use countersign_policy::layers::Spoken;

use super::{
    Effect, EffectiveValue, ElevatedLevel, ExecSettings, SandboxSettings, SettingsFinding, SettingsProblem,
    Source, ToolPolicy,
    exec_settings::Levels,
    key_path::quote_part,
    policy_check,
    policy_keys::{AUTO_APPROVE_LOCAL, KEYS, Level, LevelTree, PolicyKey, Said, Scope},
    policy_tree,
    values::Places,
};

/// Lists of senders by provider.
pub(crate) type SenderLists = BTreeMap<String, Vec<String>>;

/// The policy of `openclaw.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    agents: BTreeMap<AgentId, AgentPolicy>,
    others: AgentPolicy,
    commands: CommandSettings,
    /// Where the file has each agent's object.
    paths: BTreeMap<AgentId, String>,
}

/// Everything of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentPolicy {
    pub(super) host: Vec<Spoken<HostChoice>>,
    pub(super) security: Vec<Spoken<Security>>,
    pub(super) ask: Vec<Spoken<Ask>>,
    pub(super) node: Vec<Spoken<String>>,
    pub(super) exec: ExecSettings,
    pub(super) workspace: PathBuf,
    /// Whether the file names it.
    pub(super) is_workspace_named: bool,
    pub(super) sandbox: SandboxSettings,
    pub(super) tools: ToolPolicy,
    pub(super) elevated: ElevatedSettings,
}

/// Who may use directives (`commands.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// False: any sender that a relay token names.
    pub(crate) use_access_groups: bool,
    /// Who may, by provider; `*` is every provider.
    pub(crate) allow_from: SenderLists,
}

/// Who may leave the sandbox, and how far (`tools.elevated.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElevatedSettings {
    /// The global switch `tools.elevated.enabled`; false closes elevation to every agent.
    pub enabled: bool,
    /// The agent's switch, which can only switch off, and its key.
    pub(crate) agent_enabled: bool,
    /// Who may, by provider.
    pub(crate) allow_from: SenderLists,
    /// Who may for this agent, where that is set; then both must match.
    pub(crate) agent_allow_from: Option<SenderLists>,
    /// The level of a call that only says that it is elevated.
    pub default_level: ElevatedLevel,
}

impl PolicyConfig {
    /// Who says what about the host: default, global, agent.
    pub fn host(&self, agent: &AgentId) -> Vec<Spoken<HostChoice>> {
        self.of(agent).host.clone()
    }

    /// Who says what about security; `mode` counts as what it stands for.
    pub fn security(&self, agent: &AgentId) -> Vec<Spoken<Security>> {
        self.of(agent).security.clone()
    }

    /// Who says what about asking; `mode` counts as what it stands for.
    pub fn ask(&self, agent: &AgentId) -> Vec<Spoken<Ask>> {
        self.of(agent).ask.clone()
    }

    /// Who binds the agent to which node; empty for nobody.
    pub fn node(&self, agent: &AgentId) -> Vec<Spoken<String>> {
        self.of(agent).node.clone()
    }

    /// How the agent's commands run.
    pub fn exec(&self, agent: &AgentId) -> &ExecSettings {
        &self.of(agent).exec
    }

    /// The agent's default working directory.
    pub fn workspace(&self, agent: &AgentId) -> &Path {
        &self.of(agent).workspace
    }

    /// The agent's working directory if anybody named one: otherwise it is ours to choose.
    pub fn named_workspace(&self, agent: &AgentId) -> Option<&Path> {
        let AgentPolicy {
            workspace,
            is_workspace_named,
            ..
        } = self.of(agent);
        is_workspace_named.then_some(workspace)
    }

    /// Which sessions of the agent are sandboxed, and in what.
    pub fn sandbox(&self, agent: &AgentId) -> &SandboxSettings {
        &self.of(agent).sandbox
    }

    /// Which tools the agent may use.
    pub fn tool_policy(&self, agent: &AgentId) -> &ToolPolicy {
        &self.of(agent).tools
    }

    /// Who may leave the sandbox for the agent.
    pub fn elevated(&self, agent: &AgentId) -> &ElevatedSettings {
        &self.of(agent).elevated
    }

    /// Who may use directives.
    pub const fn commands(&self) -> &CommandSettings {
        &self.commands
    }

    /// The path of a key in an agent's object; where the file does not name the agent, of one that could be set.
    pub fn agent_key(&self, agent: &AgentId, key: &str) -> String {
        format!("{}.{key}", self.agent_path(agent))
    }

    /// The path of an agent's object; where the file does not name the agent, of one that could be set.
    pub fn agent_path(&self, agent: &AgentId) -> String {
        let named = self.paths.get(agent).cloned();
        named.unwrap_or_else(|| format!("agents.entries.{}", quote_part(agent.as_str())))
    }

    /// The agents that the file names, sorted.
    pub fn agents(&self) -> Vec<AgentId> {
        self.agents.keys().cloned().collect()
    }

    /// Everything of an agent, named or not.
    pub(super) fn of(&self, agent: &AgentId) -> &AgentPolicy {
        self.agents.get(agent).unwrap_or(&self.others)
    }

    /// Everything of the agents that the file does not name.
    pub(super) const fn everybody_else(&self) -> &AgentPolicy {
        &self.others
    }

    /// The agents that the file names.
    pub(super) fn named(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.keys()
    }
}

/// What a text of `openclaw.json` comes to.
#[derive(Debug)]
pub(super) struct ParsedPolicy {
    pub(super) config: PolicyConfig,
    /// Every value, for doctor and the API.
    pub(super) values: Vec<EffectiveValue>,
    /// What works but should be known.
    pub(super) findings: Vec<SettingsFinding>,
}

/// Parses the file's text, or takes the defaults without one.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn parse(
    text: Option<&str>,
    file: &Path,
    places: &Places,
) -> Result<ParsedPolicy, Vec<SettingsProblem>> {
    let source = Source::File(file.to_path_buf());
    let tree = match text.map(policy_tree::parse) {
        None => Value::Object(Map::new()),
        Some(Ok(tree)) => tree,
        Some(Err(problem)) => return Err(vec![SettingsProblem::whole(source, problem)]),
    };
    parse_tree(&tree, &source, places)
}

/// A policy for tests of other modules.
#[cfg(test)]
pub(crate) fn policy_of(text: &str) -> PolicyConfig {
    let places = Places {
        home: None,
        state: "/state".into(),
    };
    parse(Some(text), Path::new("openclaw.json"), &places)
        .expect("a configuration")
        .config
}

/// The same from a tree.
pub(super) fn parse_tree(
    tree: &Value,
    source: &Source,
    places: &Places,
) -> Result<ParsedPolicy, Vec<SettingsProblem>> {
    let mut problems = Vec::new();
    let mut findings = Vec::new();
    let global = LevelTree {
        scope: Scope::Global,
        object: tree,
        places,
    };
    let agents = policy_check::find_agents(tree, source, &mut problems);
    let levels: Vec<(AgentId, LevelTree<'_>)> = agents
        .into_iter()
        .map(|found| {
            (
                found.id,
                LevelTree {
                    scope: Scope::Agent(found.at),
                    object: found.object,
                    places,
                },
            )
        })
        .collect();
    for level in std::iter::once(&global).chain(levels.iter().map(|(_agent, level)| level)) {
        policy_check::check_level(level, source, &mut problems, &mut findings);
    }
    if !problems.is_empty() {
        policy_check::remove_repeated(&mut problems);
        return Err(problems);
    }
    let values = list_values(&global, levels.iter().map(|(_agent, level)| level), source);
    findings.extend(findings_of(&values));
    Ok(ParsedPolicy {
        config: resolve(&global, &levels),
        values,
        findings,
    })
}

fn list_values<'a>(
    global: &LevelTree<'a>,
    agents: impl Iterator<Item = &'a LevelTree<'a>>,
    source: &Source,
) -> Vec<EffectiveValue> {
    let entry = |key: &PolicyKey, name: String, value: Option<Value>, default: Value| EffectiveValue {
        key: name,
        source: if value.is_some() {
            source.clone()
        } else {
            Source::Default
        },
        value: value.unwrap_or_else(|| default.clone()),
        default,
        effective_now: key.effect == Effect::Now,
    };
    let mut values = Vec::new();
    let keys = || KEYS.iter().filter(|key| !key.is_alias());
    for key in keys() {
        let (value, default) = (global.given(key), key.default(global.places));
        values.push(entry(key, key.global.to_owned(), value, default));
    }
    for level in agents {
        values.extend(level.id().map(|(name, id)| EffectiveValue {
            key: name,
            value: id.clone(),
            source: source.clone(),
            default: Value::Null,
            effective_now: true,
        }));
        for key in keys() {
            let (Some(value), Some(path)) = (level.given(key), key.path(&level.scope)) else {
                continue;
            };
            let inherited = global.given(key).unwrap_or_else(|| key.default(level.places));
            values.push(entry(key, level.scope.name(path), Some(value), inherited));
        }
    }
    values
}

fn findings_of(values: &[EffectiveValue]) -> Vec<SettingsFinding> {
    let finding = |value: &EffectiveValue| {
        if value.key == AUTO_APPROVE_LOCAL {
            return SettingsFinding::Ignored {
                key: value.key.clone(),
            };
        }
        SettingsFinding::NotYetEffective {
            key: value.key.clone(),
            from: value.source.clone(),
        }
    };
    let is_noted = |value: &&EffectiveValue| value.source != Source::Default && !value.effective_now;
    values.iter().filter(is_noted).map(finding).collect()
}

fn resolve(global: &LevelTree<'_>, agents: &[(AgentId, LevelTree<'_>)]) -> PolicyConfig {
    let default = Level::defaults(global.places);
    let global = Level::read(global);
    let of = |agent: Option<&Level>| {
        AgentPolicy::resolve(&Levels {
            default: &default,
            global: &global,
            agent,
        })
    };
    let everybody = Levels {
        default: &default,
        global: &global,
        agent: None,
    };
    PolicyConfig {
        agents: agents
            .iter()
            .map(|(id, tree)| (id.clone(), of(Some(&Level::read(tree)))))
            .collect(),
        others: of(None),
        paths: agents
            .iter()
            .map(|(id, tree)| (id.clone(), tree.scope.name("")))
            .collect(),
        commands: CommandSettings {
            use_access_groups: everybody.value(|level| &level.use_access_groups),
            allow_from: everybody.value(|level| &level.commands_allow_from),
        },
    }
}

impl AgentPolicy {
    fn resolve(levels: &Levels<'_>) -> Self {
        Self {
            host: levels.spoken(|level| level.host.clone()),
            security: levels.spoken(security_of),
            ask: levels.spoken(ask_of),
            node: levels.spoken(|level| level.node.clone()),
            exec: ExecSettings::resolve(levels),
            workspace: levels.value(|level| &level.workspace),
            is_workspace_named: levels.is_named(|level| &level.workspace),
            sandbox: SandboxSettings::resolve(levels),
            tools: ToolPolicy::of(std::iter::once(levels.global).chain(levels.agent)),
            elevated: ElevatedSettings {
                enabled: Levels {
                    agent: None,
                    ..*levels
                }
                .value(|level| &level.elevated_enabled),
                agent_enabled: levels
                    .agent
                    .and_then(|own| own.elevated_enabled.as_ref())
                    .is_none_or(|said| said.value),
                allow_from: Levels {
                    agent: None,
                    ..*levels
                }
                .value(|level| &level.elevated_allow_from),
                agent_allow_from: levels
                    .agent
                    .and_then(|own| own.elevated_allow_from.as_ref())
                    .map(|said| said.value.clone()),
                default_level: levels.value(|level| &level.elevated_default),
            },
        }
    }
}

fn security_of(level: &Level) -> Option<Said<Security>> {
    let by_mode = level.mode.as_ref().map(|mode| Said {
        value: mode.value.pair().0,
        source: mode.source.clone(),
    });
    by_mode.or_else(|| level.security.clone())
}

fn ask_of(level: &Level) -> Option<Said<Ask>> {
    let by_mode = level.mode.as_ref().map(|mode| Said {
        value: mode.value.pair().1,
        source: mode.source.clone(),
    });
    by_mode.or_else(|| level.ask.clone())
}
