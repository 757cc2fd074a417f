//! The settings of the running server: loaded once, looked at again before every decision.
//!
//! Each file keeps its own last good content. A file that stops reading changes nothing; the other one still counts,
//! so that policy can be tightened while `countersign.toml` is broken.

use std::{
    collections::BTreeMap,
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use arc_swap::ArcSwap;
use serde_json::Value;

use super::{
    Effect, EffectiveValue, Environment, PolicyConfig, Problem, Server, SettingsFinding, SettingsProblem,
    Source, StartOptions, StateDir, WaitingValue, WaitsFor, Widening, config_file,
    guards::Guards,
    home::expand_home,
    policy_config::{self, ParsedPolicy},
    server::{KEYS, ServerKey},
    server_sources::{self, Given, ServerValues},
    source_file::{self, SourceFile, Stamp},
    start_check,
    values::Places,
};

/// Settings at one moment. The code that makes a decision takes one and uses it to the end.
#[derive(Debug)]
pub struct Settings {
    /// `countersign.toml`, with variables and flags on top of it.
    pub server: Server,
    /// The policy shared with the product.
    pub policy: PolicyConfig,
    /// Counts the changes since the start.
    pub generation: u64,
    /// Every value with its source, of `countersign.toml` and then of `openclaw.json`.
    pub values: Vec<EffectiveValue>,
    /// What works but should be known.
    pub findings: Vec<SettingsFinding>,
    /// Values of the file that are not in force.
    pub waiting: Vec<WaitingValue>,
    /// The hash of `countersign.toml` as it was last read.
    pub server_hash: String,
}

impl Settings {
    /// These settings with another policy.
    #[must_use]
    pub fn with_policy(&self, policy: PolicyConfig) -> Self {
        Self {
            server: self.server.clone(),
            policy,
            generation: self.generation,
            values: self.values.clone(),
            findings: self.findings.clone(),
            waiting: self.waiting.clone(),
            server_hash: self.server_hash.clone(),
        }
    }
}

/// A text of `openclaw.json` with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// What it says; `None` without a file.
    pub text: Option<String>,
    /// Lower-case hex SHA-256 of the text; `missing:` and the hash of nothing without a file.
    pub hash: String,
}

/// A file that does not count as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedFile {
    /// Its name, without the directory.
    pub name: String,
    /// What is wrong with it, in one line.
    pub problem: String,
}

/// What came of looking at the files again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Refresh {
    /// Nothing changed, or a rejected file is still the same.
    Unchanged,
    /// A change counts now.
    Reloaded {
        /// Keys that changed in the file but keep their value until a restart.
        restart_needed: Vec<String>,
    },
    /// A change does not read; the last good settings of that file stay.
    Rejected(Vec<SettingsProblem>),
}

/// The two files, their last good content and the settings that follow from it.
#[derive(Debug)]
pub struct SettingsStore {
    state_dir: StateDir,
    places: Places,
    environment: Arc<dyn Environment>,
    variables: Given,
    flags: Given,
    server_file: NamedFile,
    policy_file: NamedFile,
    current: ArcSwap<Settings>,
    watched: Mutex<Watched>,
    /// Says whether there are two owners, once that can be told.
    owners: OnceLock<TwoOwners>,
}

/// Whether two owners have a token with `admin`.
struct TwoOwners(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for TwoOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TwoOwners").finish()
    }
}

#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    /// Whether the operator named it: then it must be there.
    named: bool,
}

#[derive(Debug)]
struct Watched {
    server: WatchedFile,
    policy: WatchedFile,
    server_values: ServerValues,
    /// What the sources say, whether it is in force or waits.
    wanted: ServerValues,
    /// What was accepted of the guards, while it takes two people to loosen them.
    guards: Option<Guards>,
    waiting: Vec<WaitingValue>,
    policy_values: Vec<EffectiveValue>,
    policy_findings: Vec<SettingsFinding>,
}

/// One file as it was last looked at.
#[derive(Debug)]
struct WatchedFile {
    stamp: Stamp,
    stable: bool,
    content: Result<SourceFile, Problem>,
    hash: String,
    problems: Vec<SettingsProblem>,
    group_may_write: bool,
}

impl SettingsStore {
    /// Reads both files, the environment and the flags.
    ///
    /// # Errors
    /// Everything that is wrong with any of them; then nothing may be served.
    pub fn load(
        state_dir: StateDir,
        options: &StartOptions,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, Vec<SettingsProblem>> {
        let places = Places {
            home: state_dir.home().map(Path::to_path_buf),
            state: state_dir.root().to_path_buf(),
        };
        let server_file = server_file(&state_dir, options, &*environment)?;
        let policy_file = NamedFile {
            path: state_dir.config(),
            named: false,
        };
        let mut problems = Vec::new();
        let variables = server_sources::parse_environment(&*environment, &places, &mut problems);
        let flags = server_sources::parse_flags(options, &places, &mut problems);

        let (mut server, mut policy) = (WatchedFile::look(&server_file), WatchedFile::look(&policy_file));
        let parsed_server = parse_server(&server_file, &server, &places, [variables.clone(), flags.clone()]);
        let parsed_policy = parse_policy(&policy_file, &policy, &places);
        let (mut server_values, mut typed_server, parsed_policy) = match (parsed_server, parsed_policy) {
            (Ok((values, typed)), Ok(parsed)) if problems.is_empty() => (values, typed, parsed),
            (parsed_server, parsed_policy) => {
                problems.splice(0..0, parsed_server.err().unwrap_or_default());
                problems.extend(parsed_policy.err().unwrap_or_default());
                return Err(problems);
            }
        };
        server.accept();
        policy.accept();
        let wanted = server_values.clone();
        let guards = accepted_guards(&state_dir)?;
        let mut waiting = Vec::new();
        if let Some(guards) = &guards {
            waiting = keep_accepted(&mut server_values, guards, &server.hash);
            if !waiting.is_empty() {
                typed_server = to_server(&server_values, &places)?;
            }
        }
        let watched = Watched {
            server,
            policy,
            server_values,
            wanted,
            guards,
            waiting,
            policy_values: parsed_policy.values,
            policy_findings: parsed_policy.findings,
        };
        let settings = watched.to_settings(&server_file, &policy_file, typed_server, parsed_policy.config, 0);
        Ok(Self {
            state_dir,
            places,
            environment,
            variables,
            flags,
            server_file,
            policy_file,
            current: ArcSwap::from_pointee(settings),
            watched: Mutex::new(watched),
            owners: OnceLock::new(),
        })
    }

    /// The settings that count.
    pub fn current(&self) -> Arc<Settings> {
        self.current.load_full()
    }

    /// The state directory that the settings were loaded for.
    pub const fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// The environment that the settings were read from.
    pub fn environment(&self) -> &dyn Environment {
        &*self.environment
    }

    /// The same, to be kept.
    pub fn shared_environment(&self) -> Arc<dyn Environment> {
        Arc::clone(&self.environment)
    }

    /// The `countersign.toml` in use.
    pub fn server_file(&self) -> &Path {
        &self.server_file.path
    }

    /// Looks at both files again: two `stat` calls when nothing changed. After it returns, [`Self::current`] is at
    /// least as new as the files were when it was called.
    pub fn refresh(&self) -> Refresh {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let new_server = watched.server.look_again(&self.server_file);
        let new_policy = watched.policy.look_again(&self.policy_file);
        if !new_server && !new_policy {
            return Refresh::Unchanged;
        }
        let current = self.current();
        let mut rejected = Vec::new();
        let mut server = None;
        if new_server {
            match self.reload_server(&mut watched) {
                Ok(typed) => server = Some(typed),
                Err(problems) => rejected.extend(problems),
            }
        }
        let mut policy = None;
        if new_policy {
            match self.reload_policy(&mut watched) {
                Ok(config) => policy = Some(config),
                Err(problems) => rejected.extend(problems),
            }
        }
        if server.is_some() || policy.is_some() {
            let server = server.unwrap_or_else(|| current.server.clone());
            let policy = policy.unwrap_or_else(|| current.policy.clone());
            let generation = current.generation + 1;
            let (server_file, policy_file) = (&self.server_file, &self.policy_file);
            self.current.store(Arc::new(watched.to_settings(
                server_file,
                policy_file,
                server,
                policy,
                generation,
            )));
        }
        if rejected.is_empty() {
            Refresh::Reloaded {
                restart_needed: watched
                    .waiting
                    .iter()
                    .map(|waiting| waiting.key.clone())
                    .collect(),
            }
        } else {
            Refresh::Rejected(rejected)
        }
    }

    /// The values of `openclaw.json` that count, and the hash of the file as it was last looked at: with a file that
    /// was rejected they are not of one content, and the values are the last good ones.
    pub fn config(&self) -> (Vec<EffectiveValue>, String) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        (watched.policy_values.clone(), watched.policy.hash.clone())
    }

    /// The settings with the text of `openclaw.json` that their policy was read from; no text while the file as it is
    /// was rejected.
    pub fn with_policy_text(&self) -> (Arc<Settings>, Option<PolicyText>) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let is_read = watched.policy.problems.is_empty();
        let text = watched.policy.text().ok().filter(|_| is_read);
        let read = text.map(|text| PolicyText {
            text: text.map(str::to_owned),
            hash: watched.policy.hash.clone(),
        });
        (self.current(), read)
    }

    /// Reads a text as `openclaw.json` would be read.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn policy_of(&self, text: Option<&str>) -> Result<PolicyConfig, Vec<SettingsProblem>> {
        policy_config::parse(text, &self.policy_file.path, &self.places).map(|parsed| parsed.config)
    }

    /// The hash of `openclaw.json` as it was last looked at.
    pub fn config_hash(&self) -> String {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.policy.hash.clone()
    }

    /// The files on disk that something is wrong with, while older settings count.
    pub fn rejected_files(&self) -> Vec<RejectedFile> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let files = [
            (&self.server_file, &watched.server),
            (&self.policy_file, &watched.policy),
        ];
        let rejected = |(file, WatchedFile { problems, .. }): (&NamedFile, &WatchedFile)| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let name = file.path.file_name().unwrap_or_default();
            (!lines.is_empty()).then(|| RejectedFile {
                name: name.to_string_lossy().into_owned(),
                problem: lines.join("; "),
            })
        };
        files.into_iter().filter_map(rejected).collect()
    }

    /// Evaluates by what a running server says is in force, in place of what its files say by now. Without effect when this
    /// version does not read it.
    pub fn adopt(&self, in_force: &BTreeMap<String, Value>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values = watched.server_values.clone();
        values.adopt(in_force);
        let Ok(server) = values.to_server(&self.places) else {
            return;
        };
        watched.server_values = values;
        let current = self.current();
        self.current.store(Arc::new(watched.to_settings(
            &self.server_file,
            &self.policy_file,
            server,
            current.policy.clone(),
            current.generation,
        )));
    }

    /// Says how to find out whether there are two owners. Asked when `[approvals] widening` becomes `ask`.
    ///
    /// # Errors
    /// What is wrong with the settings that are in force: they demand two owners, and there is one.
    pub fn look_for_owners(
        &self,
        has_two: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Vec<SettingsProblem>> {
        self.owners.get_or_init(|| TwoOwners(Box::new(has_two)));
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let server = &self.current().server;
        self.expect_two_owners(server, &watched.server_values)?;
        self.follow_guards(&mut watched, server);
        Ok(())
    }

    /// Refuses what takes two people where there is one.
    fn expect_two_owners(&self, server: &Server, values: &ServerValues) -> Result<(), Vec<SettingsProblem>> {
        const KEY: &str = "approvals.widening";
        let has_two = || self.owners.get().is_none_or(|TwoOwners(has_two)| has_two());
        match server.approvals.widening {
            Widening::Ask if !has_two() => Err(vec![SettingsProblem::at(
                values.source(KEY),
                KEY,
                Problem::OneOwner,
            )]),
            Widening::Ask | Widening::Apply => Ok(()),
        }
    }

    /// Accepts the guards as `countersign.toml` has them, if that is the content with this hash and some wait for it. They are
    /// in force after a restart. Returns whether they were accepted.
    ///
    /// # Errors
    /// What the system answers when this cannot be kept; then nothing was accepted.
    pub fn accept_guards(&self, hash: &str) -> io::Result<bool> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |waiting: &WaitingValue| waiting.waits_for == WaitsFor::Acceptance;
        if watched.server.hash != hash || !watched.waiting.iter().any(waits) {
            return Ok(false);
        }
        let guards = Guards::of(&watched.wanted);
        guards.write(&self.state_dir.accepted_guards())?;
        watched.guards = Some(guards);
        for waiting in &mut watched.waiting {
            waiting.waits_for = WaitsFor::Restart;
        }
        self.tell_waiting(&watched);
        Ok(true)
    }

    /// Rejects the looser guards of `countersign.toml`, if that is the content with this hash and some wait to be accepted. They are
    /// never in force, and cannot be accepted any more; another content of the file waits again. Returns whether they were
    /// rejected.
    ///
    /// # Errors
    /// What the system answers when this cannot be kept; then nothing was rejected.
    pub fn reject_guards(&self, hash: &str) -> io::Result<bool> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |waiting: &WaitingValue| waiting.waits_for == WaitsFor::Acceptance;
        if watched.server.hash != hash || !watched.waiting.iter().any(waits) {
            return Ok(false);
        }
        let Some(mut guards) = watched.guards.clone() else {
            return Ok(false);
        };
        guards.reject(hash);
        guards.write(&self.state_dir.accepted_guards())?;
        watched.guards = Some(guards);
        for waiting in watched.waiting.iter_mut().filter(|waiting| waits(waiting)) {
            waiting.waits_for = WaitsFor::Change;
        }
        self.tell_waiting(&watched);
        Ok(true)
    }

    /// The settings as they are, with what waits by now.
    fn tell_waiting(&self, watched: &Watched) {
        let current = self.current();
        self.current.store(Arc::new(watched.to_settings(
            &self.server_file,
            &self.policy_file,
            current.server.clone(),
            current.policy.clone(),
            current.generation + 1,
        )));
    }

    /// Takes note of what is accepted of the guards, and says which values wait for two people. What cannot be written
    /// leaves the guards of before, which the next server keeps to.
    fn follow_guards(&self, watched: &mut Watched, server: &Server) {
        let path = self.state_dir.accepted_guards();
        // A program that only looks at the settings keeps nothing.
        let serves = self.owners.get().is_some();
        let kept = match server.approvals.widening {
            Widening::Apply => {
                watched.guards = None;
                if serves { remove_file(&path) } else { Ok(()) }
            }
            Widening::Ask => {
                let mut guards = watched
                    .guards
                    .clone()
                    .unwrap_or_else(|| Guards::of(&watched.server_values));
                guards.tighten(&watched.wanted);
                guards.follow_content(&watched.server.hash);
                let waits_for = looser(&guards, &watched.server.hash);
                for waiting in &mut watched.waiting {
                    if guards.tighter_than(&waiting.key, &waiting.value).is_some() {
                        waiting.waits_for = waits_for;
                    }
                }
                let is_new = watched.guards.as_ref() != Some(&guards);
                let kept = if is_new && serves {
                    guards.write(&path)
                } else {
                    Ok(())
                };
                watched.guards = Some(guards);
                kept
            }
        };
        if let Err(error) = kept {
            tracing::error!(
                file.path = %path.display(),
                error = &error as &dyn std::error::Error,
                "the accepted settings cannot be kept; after a restart edits may have to be accepted again"
            );
        }
    }

    fn reload_server(&self, watched: &mut Watched) -> Result<Server, Vec<SettingsProblem>> {
        let others = [self.variables.clone(), self.flags.clone()];
        let running = watched.server_values.clone();
        let reloaded = parse_server(&self.server_file, &watched.server, &self.places, others).and_then(
            |(mut values, _typed)| {
                let wanted = values.clone();
                let waiting = values.keep_until_restart(&running);
                let typed = to_server(&values, &self.places)?;
                // What is in force stays so, even if an owner left since.
                if self.current().server.approvals.widening == Widening::Apply {
                    self.expect_two_owners(&typed, &values)?;
                }
                Ok((values, typed, wanted, waiting))
            },
        );
        match reloaded {
            Ok((values, typed, wanted, waiting)) => {
                watched.server.accept();
                watched.server_values = values;
                watched.wanted = wanted;
                watched.waiting = waiting;
                self.follow_guards(watched, &typed);
                Ok(typed)
            }
            Err(problems) => {
                watched.server.problems.clone_from(&problems);
                Err(problems)
            }
        }
    }

    fn reload_policy(&self, watched: &mut Watched) -> Result<PolicyConfig, Vec<SettingsProblem>> {
        match parse_policy(&self.policy_file, &watched.policy, &self.places) {
            Ok(parsed) => {
                watched.policy.accept();
                watched.policy_values = parsed.values;
                watched.policy_findings = parsed.findings;
                Ok(parsed.config)
            }
            Err(problems) => {
                watched.policy.problems.clone_from(&problems);
                Err(problems)
            }
        }
    }
}

impl WatchedFile {
    fn look(file: &NamedFile) -> Self {
        // The stamp comes first: a change while we read differs from it and is seen the next time.
        let stamp = Stamp::of(&file.path);
        let stable = stamp.is_stable();
        let content = read(file);
        let hash = match &content {
            Ok(source) => config_file::content_hash(source.text.as_deref()),
            Err(_) => "unreadable:".to_owned(),
        };
        Self {
            stamp,
            stable,
            content,
            hash,
            problems: Vec::new(),
            group_may_write: false,
        }
    }

    /// Whether the file says something else than when it was last looked at.
    fn look_again(&mut self, file: &NamedFile) -> bool {
        if self.stable && Stamp::of(&file.path) == self.stamp {
            return false;
        }
        let seen = Self::look(file);
        self.stamp = seen.stamp;
        self.stable = seen.stable;
        let changed = seen.content != self.content;
        self.content = seen.content;
        self.hash = seen.hash;
        changed
    }

    /// What was last read counts.
    fn accept(&mut self) {
        self.problems.clear();
        self.group_may_write = self.content.as_ref().is_ok_and(|content| content.group_may_write);
    }

    fn text(&self) -> Result<Option<&str>, Problem> {
        self.content
            .as_ref()
            .map(|content| content.text.as_deref())
            .map_err(Clone::clone)
    }
}

impl Watched {
    fn to_settings(
        &self,
        server_file: &NamedFile,
        policy_file: &NamedFile,
        server: Server,
        policy: PolicyConfig,
        generation: u64,
    ) -> Settings {
        let server_values = self.server_values.to_list();
        let mut findings = Vec::new();
        for (file, watched) in [(server_file, &self.server), (policy_file, &self.policy)] {
            if watched.group_may_write {
                findings.push(SettingsFinding::GroupMayWrite(file.path.clone()));
            }
        }
        findings.extend(server_values.iter().filter_map(not_yet_effective));
        findings.extend(self.policy_findings.iter().cloned());
        let values = server_values
            .into_iter()
            .chain(self.policy_values.iter().cloned())
            .collect();
        Settings {
            server,
            policy,
            generation,
            values,
            findings,
            waiting: self.waiting.clone(),
            server_hash: self.server.hash.clone(),
        }
    }
}

/// What an earlier server accepted of the guards, where it takes two people to loosen them.
fn accepted_guards(state_dir: &StateDir) -> Result<Option<Guards>, Vec<SettingsProblem>> {
    let path = state_dir.accepted_guards();
    match Guards::read(&path) {
        Ok(guards) => Ok(guards.filter(Guards::take_two)),
        Err(error) => {
            let problem = Problem::Unreadable(error.kind());
            Err(vec![SettingsProblem::whole(Source::File(path), problem)])
        }
    }
}

/// What a looser guard in the content with this hash waits for.
fn looser(guards: &Guards, hash: &str) -> WaitsFor {
    if guards.has_rejected(hash) {
        WaitsFor::Change
    } else {
        WaitsFor::Acceptance
    }
}

/// Keeps what was accepted of each guard that the sources loosen; returns what waits.
fn keep_accepted(values: &mut ServerValues, guards: &Guards, hash: &str) -> Vec<WaitingValue> {
    let mut waiting = Vec::new();
    let waits_for = looser(guards, hash);
    for key in KEYS {
        let later = values.get(key.name);
        let accepted = later
            .and_then(|later| guards.tighter_than(key.name, later))
            .cloned();
        if let Some(accepted) = accepted
            && let Some(value) = values.replace(key.name, accepted)
        {
            waiting.push(WaitingValue {
                key: key.name.to_owned(),
                value,
                waits_for,
            });
        }
    }
    waiting
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn not_yet_effective(value: &EffectiveValue) -> Option<SettingsFinding> {
    let is_later = ServerKey::find(&value.key).is_some_and(|key| key.effect == Effect::Later);
    (is_later && value.source != Source::Default).then(|| SettingsFinding::NotYetEffective {
        key: value.key.clone(),
        from: value.source.clone(),
    })
}

/// The account that `[exec] run_as` names, before anything else is read: root must know it to give up root. `None` for
/// what does not read, which [`SettingsStore::load`] then says.
pub fn wanted_account(
    state_dir: &StateDir,
    options: &StartOptions,
    environment: &dyn Environment,
) -> Option<String> {
    let file = server_file(state_dir, options, environment).ok()?;
    let owner = std::fs::symlink_metadata(state_dir.root()).ok()?.uid();
    let text = source_file::read_of(&file.path, owner).ok()?.text?;
    let table = toml::from_str::<toml::Table>(&text).ok()?;
    let account = table.get("exec")?.get("run_as")?.as_str()?;
    (!account.trim().is_empty()).then(|| account.to_owned())
}

/// What the flag, else the variable, says about it.
pub fn named_account(options: &StartOptions, environment: &dyn Environment) -> Option<String> {
    options
        .run_as
        .clone()
        .or_else(|| environment.get("COUNTERSIGN_EXEC__RUN_AS"))
        .filter(|account| !account.trim().is_empty())
}

fn server_file(
    state_dir: &StateDir,
    options: &StartOptions,
    environment: &dyn Environment,
) -> Result<NamedFile, Vec<SettingsProblem>> {
    let variable = || {
        environment
            .get("COUNTERSIGN_CONFIG")
            .filter(|path| !path.trim().is_empty())
    };
    let Some(named) = options
        .config
        .clone()
        .or_else(|| variable().map(|path| PathBuf::from(path.trim())))
    else {
        return Ok(NamedFile {
            path: state_dir.server_config(),
            named: false,
        });
    };
    let problem = |problem| vec![SettingsProblem::whole(Source::File(named.clone()), problem)];
    let path = expand_home(&named, state_dir.home()).ok_or_else(|| problem(Problem::Missing))?;
    let path = std::path::absolute(&path).map_err(|error| problem(Problem::Unreadable(error.kind())))?;
    Ok(NamedFile { path, named: true })
}

fn read(file: &NamedFile) -> Result<SourceFile, Problem> {
    let content = source_file::read(&file.path)?;
    if file.named && content.text.is_none() {
        Err(Problem::Missing)
    } else {
        Ok(content)
    }
}

fn parse_server(
    file: &NamedFile,
    watched: &WatchedFile,
    places: &Places,
    others: [Given; 2],
) -> Result<(ServerValues, Server), Vec<SettingsProblem>> {
    let whole = |problem| vec![SettingsProblem::whole(Source::File(file.path.clone()), problem)];
    let mut problems = Vec::new();
    let given = match watched.text().map_err(whole)? {
        Some(text) => server_sources::parse_file(text, &file.path, places, &mut problems),
        None => Given::new(),
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let values = ServerValues::layer(std::iter::once(given).chain(others));
    let server = to_server(&values, places)?;
    Ok((values, server))
}

fn to_server(values: &ServerValues, places: &Places) -> Result<Server, Vec<SettingsProblem>> {
    let server = values.to_server(places).map_err(|problem| vec![problem])?;
    let problems = start_check::check(&server, values);
    if problems.is_empty() {
        Ok(server)
    } else {
        Err(problems)
    }
}

fn parse_policy(
    file: &NamedFile,
    watched: &WatchedFile,
    places: &Places,
) -> Result<ParsedPolicy, Vec<SettingsProblem>> {
    let whole = |problem| vec![SettingsProblem::whole(Source::File(file.path.clone()), problem)];
    policy_config::parse(watched.text().map_err(whole)?, &file.path, places)
}
