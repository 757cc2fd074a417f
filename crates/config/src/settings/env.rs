//! The environment as a dependency, so that tests fill it from a map.

use std::{collections::BTreeMap, ffi::OsString, fmt::Debug};

/// Environment variables. Only settings reads them by name; the code that starts commands takes them whole.
pub trait Environment: Debug + Send + Sync {
    /// One variable. Bytes that are not UTF-8 are replaced, so that a set variable never looks unset.
    fn get(&self, name: &str) -> Option<String>;

    /// All variables, sorted by name.
    fn all(&self) -> Vec<(String, String)>;

    /// All variables as bytes, for handing on to a command.
    fn inherited(&self) -> Vec<(OsString, OsString)>;

    /// Whether what goes to a terminal may have colours (`NO_COLOR`, `TERM`).
    fn allows_colors(&self) -> bool {
        let no_color = self.get("NO_COLOR").is_some_and(|value| !value.is_empty());
        !no_color && self.get("TERM").as_deref() != Some("dumb")
    }

    /// Whether colours go to what is no terminal, too (`CLICOLOR_FORCE`). `NO_COLOR` counts before it.
    fn forces_colors(&self) -> bool {
        let no_color = self.get("NO_COLOR").is_some_and(|value| !value.is_empty());
        let forced = self.get("CLICOLOR_FORCE");
        !no_color && forced.is_some_and(|value| !value.is_empty() && value != "0")
    }
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    fn get(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn all(&self) -> Vec<(String, String)> {
        let text = |bytes: OsString| bytes.to_string_lossy().into_owned();
        self.inherited()
            .into_iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    fn inherited(&self) -> Vec<(OsString, OsString)> {
        let mut all: Vec<_> = std::env::vars_os().collect();
        all.sort();
        all
    }
}

/// An environment made of given variables.
#[derive(Debug, Clone, Default)]
pub struct MapEnvironment(BTreeMap<String, String>);

impl MapEnvironment {
    /// Makes an environment of names and values.
    pub fn new<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl Environment for MapEnvironment {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn all(&self) -> Vec<(String, String)> {
        self.0.clone().into_iter().collect()
    }

    fn inherited(&self) -> Vec<(OsString, OsString)> {
        self.0
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}
