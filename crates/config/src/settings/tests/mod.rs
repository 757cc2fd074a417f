//! Tests over both tables, of layering, reloading and editing.
//!
//! A test must never read the environment of the process that it runs in: variables come from a [`MapEnvironment`],
//! and files lie in a temporary directory of its own. Each file has one subject. Start with [`Scene`], a state
//! directory with its two files.

mod editing;
mod openclaw_json;
mod random;
mod reload;
mod server_keys;

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::*;

/// A state directory of its own with its two files.
struct Scene {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
    options: StartOptions,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment = vec![("HOME".to_owned(), "/home/somebody".to_owned())];
        let scene = Self {
            directory,
            environment,
            options: StartOptions::default(),
        };
        scene.state_dir().prepare().unwrap();
        scene
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn options(mut self, options: StartOptions) -> Self {
        self.options = options;
        self
    }

    fn server(self, text: &str) -> Self {
        write(&self.state_dir().server_config(), text);
        self
    }

    fn policy(self, text: &str) -> Self {
        write(&self.state_dir().config(), text);
        self
    }

    fn state_dir(&self) -> StateDir {
        StateDir::resolve(Some(&self.root()), &self.environment()).unwrap()
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn environment(&self) -> MapEnvironment {
        MapEnvironment::new(self.environment.clone())
    }

    fn load(&self) -> Result<SettingsStore, Vec<SettingsProblem>> {
        SettingsStore::load(self.state_dir(), &self.options, Arc::new(self.environment()))
    }

    /// The problems of a start as lines, with the state directory's path taken out.
    #[track_caller]
    fn problems(&self) -> Vec<String> {
        let problems = self.load().expect_err("the settings should be refused");
        self.lines(&problems)
    }

    fn lines(&self, problems: &[SettingsProblem]) -> Vec<String> {
        let root = format!("{}/", self.root().display());
        problems
            .iter()
            .map(|problem| problem.to_string().replace(&root, ""))
            .collect()
    }
}

/// Writes in place, as a careless editor does.
#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn value_of(settings: &Settings, key: &str) -> EffectiveValue {
    settings
        .values
        .iter()
        .find(|value| value.key == key)
        .cloned()
        .unwrap_or_else(|| panic!("no value of {key}"))
}
