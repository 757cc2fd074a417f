//! The three places that set keys of the server: the file, the environment, the command line.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Number, Value};

use countersign_domain::nearest;

use super::{
    Effect, EffectiveValue, Environment, Problem, Server, SettingsProblem, Source, StartOptions,
    WaitingValue, WaitsFor,
    kinds::{Fault, Mismatch},
    problem::MAX_PROBLEMS,
    server::{KEYS, ReloadMode, ServerKey},
    values::Places,
};

/// The values that sources gave, by key.
pub(super) type Given = BTreeMap<&'static str, (Value, Source)>;

/// Reads the text of `countersign.toml`. Problems are added to the list; what is wrong is left out.
pub(super) fn parse_file(
    text: &str,
    file: &Path,
    places: &Places,
    problems: &mut Vec<SettingsProblem>,
) -> Given {
    let source = Source::File(file.to_path_buf());
    let mut given = Given::new();
    let table = match toml::from_str::<toml::Table>(text) {
        Ok(table) => table,
        Err(error) => {
            problems.push(SettingsProblem::whole(source, syntax_problem(text, &error)));
            return given;
        }
    };
    for (section, members) in table {
        if problems.len() >= MAX_PROBLEMS {
            return given;
        }
        if !is_section(&section) {
            problems.push(unknown(&source, &section, sections()));
            continue;
        }
        let toml::Value::Table(members) = members else {
            let problem = Problem::Expected(format!("a table, written as [{section}]"));
            problems.push(SettingsProblem::at(source.clone(), section, problem));
            continue;
        };
        for (key, value) in members {
            if problems.len() >= MAX_PROBLEMS {
                return given;
            }
            let name = format!("{section}.{key}");
            match ServerKey::find(&name) {
                None => problems.push(unknown(&source, &name, names())),
                Some(key) => accept(key, &json_value(value), &source, places, &mut given, problems),
            }
        }
    }
    given
}

/// Reads `COUNTERSIGN_*`. Any other variable that begins so is a mistake and no silent one.
pub(super) fn parse_environment(
    environment: &dyn Environment,
    places: &Places,
    problems: &mut Vec<SettingsProblem>,
) -> Given {
    let mut given = Given::new();
    for (variable, text) in environment.all() {
        if !variable.starts_with("COUNTERSIGN_") || is_of_others(&variable) {
            continue;
        }
        let source = Source::Variable(variable.clone());
        let Some(key) = KEYS.iter().find(|key| key.variable() == variable) else {
            let variables: Vec<String> = KEYS.iter().map(ServerKey::variable).collect();
            let nearest = nearest(&variable, variables.iter().map(String::as_str)).to_owned();
            problems.push(SettingsProblem::whole(
                source,
                Problem::UnknownVariable { nearest },
            ));
            continue;
        };
        match (key.from_text)(&text) {
            None => problems.push(SettingsProblem::at(source, key.name, Problem::NotAVariable)),
            Some(value) => accept(key, &value, &source, places, &mut given, problems),
        }
    }
    given
}

/// Takes what the command line said.
pub(super) fn parse_flags(
    options: &StartOptions,
    places: &Places,
    problems: &mut Vec<SettingsProblem>,
) -> Given {
    let mut given = Given::new();
    let mut take = |name, flag, value: Option<Value>| {
        if let (Some(value), Some(key)) = (value, ServerKey::find(name)) {
            accept(key, &value, &Source::Flag(flag), places, &mut given, problems);
        }
    };
    take("http.listen", "--listen", options.listen.clone().map(Value::from));
    take(
        "http.insecure_bind",
        "--insecure-bind",
        options.insecure_bind.then_some(Value::Bool(true)),
    );
    take("exec.run_as", "--run-as", options.run_as.clone().map(Value::from));
    given
}

/// The value of every key that counts, and who set it.
#[derive(Debug, Clone)]
pub(super) struct ServerValues(BTreeMap<&'static str, (Value, Source)>);

impl ServerValues {
    /// Puts sources over the defaults, the strongest last.
    pub(super) fn layer(sources: impl IntoIterator<Item = Given>) -> Self {
        let mut values: Given = KEYS
            .iter()
            .map(|key| (key.name, ((key.default)(), Source::Default)))
            .collect();
        for source in sources {
            values.extend(source);
        }
        Self(values)
    }

    /// Keeps what `running` has for changes that need a restart; returns what waits for it.
    pub(super) fn keep_until_restart(&mut self, running: &Self) -> Vec<WaitingValue> {
        let mut changed = Vec::new();
        for key in KEYS {
            let (Some(new), Some(old)) = (self.0.get_mut(key.name), running.0.get(key.name)) else {
                continue;
            };
            let is_kept = match key.reload {
                ReloadMode::Live => false,
                ReloadMode::Tighten(tightens) => !tightens(&old.0, &new.0),
                ReloadMode::Restart => true,
            };
            if is_kept && new.0 != old.0 {
                changed.push(WaitingValue {
                    key: key.name.to_owned(),
                    value: if key.secret {
                        Value::Bool(true)
                    } else {
                        new.0.clone()
                    },
                    waits_for: WaitsFor::Restart,
                });
                new.clone_from(old);
            }
        }
        changed
    }

    /// The value of a key.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|(value, _source)| value)
    }

    /// Gives a key another value, of the same source. Returns the one before.
    pub(super) fn replace(&mut self, name: &str, value: Value) -> Option<Value> {
        let (own, _source) = self.0.get_mut(name)?;
        Some(std::mem::replace(own, value))
    }

    /// Takes what a running server says of its keys. Secrets, which it does not say, stay.
    pub(super) fn adopt(&mut self, in_force: &BTreeMap<String, Value>) {
        for key in KEYS.iter().filter(|key| !key.secret) {
            if let (Some(own), Some(value)) = (self.0.get_mut(key.name), in_force.get(key.name)) {
                own.0.clone_from(value);
            }
        }
    }

    pub(super) fn to_server(&self, places: &Places) -> Result<Server, SettingsProblem> {
        let values = self
            .0
            .iter()
            .map(|(name, (value, _source))| (*name, value.clone()))
            .collect();
        Server::from_values(&values, places)
            .map_err(|(name, mismatch)| problem(self.source(name), name, mismatch))
    }

    /// Who set a key.
    pub(super) fn source(&self, name: &str) -> Source {
        self.0
            .get(name)
            .map_or(Source::Default, |(_value, source)| source.clone())
    }

    /// The values as doctor lists them.
    pub(super) fn to_list(&self) -> Vec<EffectiveValue> {
        let shown = |key: &ServerKey, value: &Value| {
            if key.secret && !value.is_null() {
                Value::from("(secret)")
            } else {
                value.clone()
            }
        };
        KEYS.iter()
            .filter_map(|key| {
                let (value, source) = self.0.get(key.name)?;
                Some(EffectiveValue {
                    key: key.name.to_owned(),
                    value: shown(key, value),
                    source: source.clone(),
                    default: (key.default)(),
                    effective_now: key.effect == Effect::Now,
                })
            })
            .collect()
    }
}

/// Whether a path is a key of `countersign.toml`, or one of its sections.
pub fn is_server_setting(path: &str) -> bool {
    is_section(path) || ServerKey::find(path).is_some()
}

/// The problem that a mismatch at a key is.
pub(super) fn problem(source: Source, key: &str, mismatch: Mismatch) -> SettingsProblem {
    let problem = match mismatch.fault {
        Fault::Expected(expected) => Problem::Expected(expected),
        Fault::Null => Problem::Null,
        Fault::UnknownMember(known) => {
            let unknown = mismatch.below.rsplit('.').next().unwrap_or_default();
            Problem::UnknownKey {
                nearest: nearest(unknown, known.iter().copied()).to_owned(),
            }
        }
    };
    SettingsProblem::at(source, format!("{key}{}", mismatch.below), problem)
}

fn accept(
    key: &'static ServerKey,
    value: &Value,
    source: &Source,
    places: &Places,
    given: &mut Given,
    problems: &mut Vec<SettingsProblem>,
) {
    match (key.check)(value, places) {
        Ok(()) => {
            given.insert(key.name, (value.clone(), source.clone()));
        }
        Err(mismatch) => problems.push(problem(source.clone(), key.name, mismatch)),
    }
}

fn unknown(source: &Source, name: &str, known: impl Iterator<Item = &'static str>) -> SettingsProblem {
    let nearest = nearest(name, known).to_owned();
    SettingsProblem::at(source.clone(), name, Problem::UnknownKey { nearest })
}

fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

fn sections() -> impl Iterator<Item = &'static str> {
    names().filter_map(|name| name.split_once('.').map(|(section, _key)| section))
}

fn is_section(name: &str) -> bool {
    sections().any(|section| section == name)
}

/// Variables of ours that are no keys: where to find things, and the switches of crash tests.
fn is_of_others(variable: &str) -> bool {
    let is_test_switch = cfg!(feature = "test-hooks") && variable.starts_with("COUNTERSIGN_TEST_");
    is_test_switch
        || matches!(
            variable,
            "COUNTERSIGN_CONFIG" | "COUNTERSIGN_URL" | "COUNTERSIGN_TOKEN"
        )
}

fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let before = error
        .span()
        .and_then(|span| text.get(..span.start))
        .unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let line = before.matches('\n').count() + 1;
    Problem::Syntax {
        message: error.message().trim().to_owned(),
        line,
        column,
    }
}

fn json_value(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        // NaN and infinity become null, which no key takes.
        toml::Value::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        // No key is a date, and its text must not pass for one that takes text.
        toml::Value::Datetime(_) => Value::Object(Map::from_iter([("date".to_owned(), Value::Bool(true))])),
        toml::Value::Array(elements) => elements.into_iter().map(json_value).collect(),
        toml::Value::Table(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, member)| (name, json_value(member)))
                .collect(),
        ),
    }
}
