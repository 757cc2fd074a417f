//! What can be wrong with `openclaw.json`: its agents, values, conflicts and unknown keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use countersign_domain::{AgentId, nearest};

use super::{
    Problem, SettingsFinding, SettingsProblem, Source,
    key_path::quote_part,
    policy_keys::{KEYS, LEFT_ALONE, LevelTree, Scope},
    policy_tree,
    problem::MAX_PROBLEMS,
    server_sources::problem,
};

pub(super) fn check_level(
    level: &LevelTree<'_>,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
    findings: &mut Vec<SettingsFinding>,
) {
    if problems.len() >= MAX_PROBLEMS {
        return;
    }
    check_values(level, source, problems);
    check_conflicts(level, source, problems);
    check_unknown(level, source, problems, findings);
}

/// An agent of the file.
pub(super) struct FoundAgent<'a> {
    pub(super) id: AgentId,
    /// The path of its object.
    pub(super) at: String,
    pub(super) object: &'a Value,
}

/// Every agent costs memory and time at each change of the file.
const MAX_AGENTS: usize = 10_000;

/// Agents in both spellings; a wrong or repeated id is a problem.
pub(super) fn find_agents<'a>(
    tree: &'a Value,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<FoundAgent<'a>> {
    let mut found: Vec<FoundAgent<'a>> = Vec::new();
    let mut first_at = BTreeMap::new();
    for (id, id_at, at, object) in agents_in_list(tree, source, problems)
        .into_iter()
        .chain(agents_in_entries(tree, source, problems))
    {
        let problem = match AgentId::parse(id) {
            Err(invalid) => {
                let expected = invalid.expected.trim_start_matches("expected ");
                Problem::Expected(expected.to_owned())
            }
            Ok(id) => {
                if let Some(first) = first_at.insert(id.clone(), at.clone()) {
                    Problem::DuplicateAgent {
                        agent: id.to_string(),
                        first,
                    }
                } else {
                    found.push(FoundAgent { id, at, object });
                    continue;
                }
            }
        };
        problems.push(SettingsProblem::at(source.clone(), id_at, problem));
    }
    if found.len() > MAX_AGENTS {
        let problem = Problem::Expected(format!("at most {MAX_AGENTS} agents"));
        problems.push(SettingsProblem::at(source.clone(), "agents", problem));
        found.clear();
    }
    found
}

/// An id, the path of the id, the path of the object, the object.
type Candidate<'a> = (&'a str, String, String, &'a Value);

fn agents_in_list<'a>(
    tree: &'a Value,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<Candidate<'a>> {
    let Some(list) = find_or_report(tree, "agents.list", source, problems) else {
        return Vec::new();
    };
    let mut report = |at: String, problem| problems.push(SettingsProblem::at(source.clone(), at, problem));
    let Some(elements) = list.as_array() else {
        report("agents.list".to_owned(), wrong_type(list, "a list"));
        return Vec::new();
    };
    let mut candidates = Vec::new();
    for (index, object) in elements.iter().enumerate() {
        let at = format!("agents.list[{index}]");
        match (object.is_object(), object.get("id").map(Value::as_str)) {
            (false, _) => report(at, wrong_type(object, "an object")),
            (true, Some(Some(id))) => candidates.push((id, format!("{at}.id"), at, object)),
            (true, None | Some(None)) => {
                report(format!("{at}.id"), Problem::Expected("the agent's id".to_owned()));
            }
        }
    }
    candidates
}

fn agents_in_entries<'a>(
    tree: &'a Value,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<Candidate<'a>> {
    let Some(entries) = find_or_report(tree, "agents.entries", source, problems) else {
        return Vec::new();
    };
    let mut report = |at: String, problem| problems.push(SettingsProblem::at(source.clone(), at, problem));
    let Some(members) = entries.as_object() else {
        report("agents.entries".to_owned(), wrong_type(entries, "an object"));
        return Vec::new();
    };
    let mut candidates = Vec::new();
    for (id, object) in members {
        let at = format!("agents.entries.{}", quote_part(id));
        if object.is_object() {
            candidates.push((id.as_str(), at.clone(), at, object));
        } else {
            report(at, wrong_type(object, "an object"));
        }
    }
    candidates
}

fn find_or_report<'a>(
    tree: &'a Value,
    path: &str,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
) -> Option<&'a Value> {
    policy_tree::find(tree, path).unwrap_or_else(|(at, problem)| {
        problems.push(SettingsProblem::at(source.clone(), at, problem));
        None
    })
}

fn wrong_type(value: &Value, expected: &str) -> Problem {
    if value.is_null() {
        Problem::Null
    } else {
        Problem::Expected(expected.to_owned())
    }
}

fn check_values(level: &LevelTree<'_>, source: &Source, problems: &mut Vec<SettingsProblem>) {
    for key in KEYS {
        match level.find(key) {
            Ok(None) => {}
            Ok(Some(value)) => {
                if let Err(mismatch) = (key.check)(value, level.places) {
                    let name = level.scope.name(key.path(&level.scope).unwrap_or_default());
                    problems.push(problem(source.clone(), &name, mismatch));
                }
            }
            Err((at, problem)) => problems.push(SettingsProblem::at(source.clone(), at, problem)),
        }
    }
}

/// Keys that say the same thing may not both stand at one level.
const CONFLICTS: &[(&str, &str)] = &[
    ("tools.exec.mode", "tools.exec.security"),
    ("tools.exec.mode", "tools.exec.ask"),
    ("tools.exec.timeoutSeconds", "tools.exec.timeoutSec"),
    (
        "agents.defaults.sandbox.perSession",
        "agents.defaults.sandbox.scope",
    ),
];

fn check_conflicts(level: &LevelTree<'_>, source: &Source, problems: &mut Vec<SettingsProblem>) {
    let name_if_set = |global: &str| {
        let key = KEYS.iter().find(|key| key.global == global)?;
        let _value = level.find(key).ok().flatten()?;
        Some(level.scope.name(key.path(&level.scope)?))
    };
    for (one, other) in CONFLICTS {
        if let (Some(one), Some(with)) = (name_if_set(one), name_if_set(other)) {
            problems.push(SettingsProblem::at(
                source.clone(),
                one,
                Problem::Conflict { with },
            ));
        }
    }
}

/// Whether unknown keys of a part are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Error,
    Finding,
}

const GLOBAL_PARTS: &[(&str, Strictness)] = &[
    ("tools.exec", Strictness::Error),
    ("tools.elevated", Strictness::Error),
    ("agents.defaults.sandbox", Strictness::Error),
];
const AGENT_PARTS: &[(&str, Strictness)] = &[
    ("tools.exec", Strictness::Error),
    ("tools.elevated", Strictness::Finding),
    ("sandbox", Strictness::Finding),
];

fn check_unknown(
    level: &LevelTree<'_>,
    source: &Source,
    problems: &mut Vec<SettingsProblem>,
    findings: &mut Vec<SettingsFinding>,
) {
    let parts = match level.scope {
        Scope::Global => GLOBAL_PARTS,
        Scope::Agent(_) => AGENT_PARTS,
    };
    for (part, strictness) in parts {
        let mut unknown = Vec::new();
        if let Ok(Some(Value::Object(members))) = policy_tree::find(level.object, part) {
            collect_unknown(members, part, &level.scope, &mut unknown);
        }
        for path in unknown.into_iter().take(MAX_PROBLEMS) {
            let known = KEYS
                .iter()
                .filter_map(|key| key.path(&level.scope))
                .filter(|known| known.starts_with(part));
            let nearest = level.scope.name(nearest(&path, known));
            let key = level.scope.name(&path);
            match strictness {
                Strictness::Error => {
                    problems.push(SettingsProblem::at(
                        source.clone(),
                        key,
                        Problem::UnknownKey { nearest },
                    ));
                }
                Strictness::Finding => findings.push(SettingsFinding::UnknownIgnored { key, nearest }),
            }
        }
    }
}

fn collect_unknown(members: &Map<String, Value>, at: &str, scope: &Scope, unknown: &mut Vec<String>) {
    for (name, value) in members {
        let path = format!("{at}.{}", quote_part(name));
        let is_key = KEYS.iter().any(|key| key.path(scope) == Some(path.as_str()));
        if is_key || LEFT_ALONE.contains(&path.as_str()) {
            continue;
        }
        let below = format!("{path}.");
        let is_group = KEYS
            .iter()
            .any(|key| key.path(scope).is_some_and(|known| known.starts_with(&below)));
        if !is_group {
            unknown.push(path);
        } else if let Value::Object(inner) = value {
            // A group that is no object was reported with the keys that should be in it.
            collect_unknown(inner, &path, scope, unknown);
        }
    }
}

/// A wrong group is reported once, not once for each key in it.
pub(super) fn remove_repeated(problems: &mut Vec<SettingsProblem>) {
    let mut seen = BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.to_string()));
}
