//! Looks, and changes nothing: no file is made, no mode is set, no server is asked.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use rustix::process::{Resource, getrlimit};

use countersign_config::{
    approvals::{
        document::Document,
        store::{self, DocumentStatus, DocumentStore},
    },
    settings::{
        Environment, IpcRole, IsolationChoice, PolicyConfig, SandboxMode, Server, Settings, SettingsFinding,
        SettingsProblem, SettingsStore, StartOptions, StateDir, is_open_address,
    },
    tls::TlsFiles,
};
use countersign_domain::{AgentId, Backend, HostChoice, Isolation, OnMiss, Token, UnixMillis};
use countersign_engine::{
    accepted_policy::{edits_since_accepted, lost_rules},
    lint::{self, DocumentRemarks, GrantUses, Levels, LintContext},
    tokens,
};
use countersign_hosts::{
    confined::{Unconfined, masked_paths},
    path_lookup::SystemLookup,
    peer_fs::Files,
    run_path,
    sandbox::{SandboxOptions, Unusable, builtin},
};
use countersign_ledger::audit;
use countersign_policy::{
    combine::{Effective, PolicyLayers, Wanted, combine},
    layers::Spoken,
    lint::RemarkCode,
};
use countersign_sys::{
    clock::{Clock, Ids},
    namespace::has_scopes,
};

use super::{
    AgentRules, AgentSandbox, DirectoryState, DocumentState, DoubtfulToken, IsolationState, PrivateFile,
    Remark, Room, Scopes, ServerAccount, ServerState, SettingsState, Snapshot, SocketState, TlsState,
    TokenDoubt,
};

/// Tries whether commands of a server with these settings could be confined; `Confined::check` in earnest.
pub type TryConfining<'a> =
    dyn Fn(&StateDir, &Server, &Path, &dyn Environment) -> Result<(), NotConfined> + 'a;

/// Why commands cannot be confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConfined {
    /// In words.
    pub why: String,
    /// What would change it, where that is known.
    pub remedy: Option<&'static str>,
}

impl From<Unconfined> for NotConfined {
    fn from(error: Unconfined) -> Self {
        Self {
            why: error.to_string(),
            remedy: error.remedy(),
        }
    }
}

/// Looks which backend a server with these settings would have for sandboxes of an image.
pub type TrySandbox<'a> = dyn Fn(&SandboxOptions, &str) -> Result<Backend, Unusable> + 'a;

/// Looks whether the approvals socket that a document names, or the one beside it, can be hosted or used; where, and why
/// not, in words.
pub type TrySocket<'a> = dyn Fn(Option<&str>, &Path, Option<&Path>) -> Result<(), (PathBuf, String)> + 'a;

/// What is tried on this machine as a server would do it in earnest.
#[expect(missing_debug_implementations, reason = "functions")]
pub struct Trials<'a> {
    /// Whether commands could be confined.
    pub confining: &'a TryConfining<'a>,
    /// Whether there is a sandbox.
    pub sandbox: &'a TrySandbox<'a>,
    /// Whether there is a place for the approvals socket.
    pub socket: &'a TrySocket<'a>,
}

/// Looks at a state directory. Whether a server runs on it, and what is in force there, is for the caller to find out:
/// what the server says outranks its file.
///
/// Also returns the settings, when they read, for showing every value with its origin.
pub fn gather(
    state_dir: &StateDir,
    options: &StartOptions,
    environment: Arc<dyn Environment>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    server: ServerState,
    trials: &Trials<'_>,
) -> (Snapshot, Option<Arc<Settings>>) {
    let us = rustix::process::geteuid().as_raw();
    let now = clock.now();
    let loaded = SettingsStore::load(state_dir.clone(), options, environment);
    // Before the server's own values take their place: the next one starts with those of the file.
    let one_owner = loaded
        .as_ref()
        .ok()
        .and_then(|store| one_owner(state_dir, store, now));
    if let (
        Ok(store),
        ServerState::Running {
            in_force: Some(in_force),
        },
    ) = (&loaded, &server)
    {
        store.adopt(&in_force.values);
    }
    let settings = loaded.as_ref().ok().map(SettingsStore::current);
    let document_path = settings.as_ref().map_or_else(
        || state_dir.root().join("exec-approvals.json"),
        |settings| state_dir.document(&settings.server),
    );
    let home = state_dir.home().unwrap_or_else(|| Path::new("/")).to_path_buf();
    let documents = DocumentStore::open(document_path.clone(), home.clone(), clock, ids);
    let document = documents.snapshot();
    // Without its directory there is no lock either, and a lock that cannot be read is no news about its holder.
    let document_lock = documents.left_lock().ok().flatten();
    let edits = loaded.as_ref().map_or_else(
        |_broken| Vec::new(),
        |settings| edits_since_accepted(state_dir, settings, &document, &document_path, now),
    );
    let lost = lost_rules(state_dir, &document);
    let agents = settings
        .as_ref()
        .map_or_else(Vec::new, |settings| rules(&settings.policy, &document));
    // First: it is tried by a process that has one thread, and looking for a sandbox makes more.
    let isolation = isolation(state_dir, loaded.as_ref().ok(), trials.confining);
    let odd_rules = match (&loaded, document.document()) {
        (Ok(store), Some(document)) => remarks(store, document, &home, now, isolation.level()),
        (Err(_), _) | (_, None) => DocumentRemarks::default(),
    };
    let replaceable_program = replaceable_program(state_dir, loaded.as_ref().ok(), &isolation, us);
    let agents = with_sandboxes(agents, state_dir, loaded.as_ref().ok(), trials.sandbox);
    let safe_bins = settings
        .as_ref()
        .map_or_else(Vec::new, |settings| safe_bins(&settings.policy, &agents));
    let snapshot = Snapshot {
        state_dir: state_dir.root().to_path_buf(),
        directory: directory(state_dir.root(), us),
        settings: settings_state(&loaded),
        tls: tls_state(state_dir, settings.as_deref()),
        document: document_state(&document),
        document_path,
        document_lock,
        edits,
        lost,
        rules: odd_rules,
        safe_bins,
        agents,
        private: private_files(state_dir, settings.as_deref()),
        record: settings.as_deref().and_then(|settings| {
            let ledger = state_dir.ledger(&settings.server);
            // One that cannot be read is told of with the tokens.
            let found = audit::glance(&ledger, &state_dir.audit_key(), &state_dir.audit_head());
            found.ok().flatten().map(|problem| problem.kind)
        }),
        doubtful_tokens: doubtful_tokens(state_dir, settings.as_deref(), now),
        stopped: settings
            .as_deref()
            .and_then(|settings| countersign_ledger::stop_on_record(&state_dir.ledger(&settings.server)))
            .map(|stop| stop.words()),
        one_owner,
        us,
        isolation,
        replaceable_program,
        socket: settings.as_deref().map_or(SocketState::Fine, |settings| {
            socket_state(settings, &document, state_dir, trials.socket)
        }),
        server,
        room: room(state_dir, settings.as_deref()),
        ahead: ahead(state_dir, settings.as_deref(), now),
    };
    (snapshot, settings)
}

/// Descriptors of a connection or a waiting exec, and of a run: control, spool, input and what is opened to start it.
const FILES_PER_RUN: u64 = 6;

/// What the server itself has open: database, listeners, runner.
const FILES_OF_A_SERVER: u64 = 256;

fn room(state_dir: &StateDir, settings: Option<&Settings>) -> Room {
    // Where it will be, while it is not there yet.
    let place = state_dir.root().ancestors().find(|place| place.exists());
    let disk = place.and_then(|place| rustix::fs::statvfs(place).ok());
    let wanted_files = settings.map_or(0, |settings| {
        let limits = &settings.server.limits;
        let count = |limit: usize| u64::try_from(limit).unwrap_or(u64::MAX);
        count(limits.max_connections)
            .saturating_add(count(limits.max_running).saturating_mul(FILES_PER_RUN))
            .saturating_add(FILES_OF_A_SERVER)
    });
    Room {
        disk_bytes: disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        // A server takes all it may have.
        open_files: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        wanted_files,
    }
}

/// Files that a server writes with every command are never older than its clock.
fn ahead(state_dir: &StateDir, settings: Option<&Settings>, now: UnixMillis) -> Option<Duration> {
    let mut written = vec![state_dir.server_json(), state_dir.audit_head()];
    written.extend(settings.map(|settings| state_dir.ledger(&settings.server)));
    let newest = written
        .iter()
        .filter_map(|path| fs::metadata(path).ok()?.modified().ok())
        .filter_map(|time| time.duration_since(UNIX_EPOCH).ok())
        .filter_map(|since| i64::try_from(since.as_millis()).ok())
        .max()?;
    let newest = UnixMillis::new(newest);
    (newest > now).then(|| newest.since(now))
}

/// Finds the sandbox of each agent that may need one. An image is looked for once.
fn with_sandboxes(
    mut agents: Vec<AgentRules>,
    state_dir: &StateDir,
    loaded: Option<&SettingsStore>,
    try_sandbox: &TrySandbox<'_>,
) -> Vec<AgentRules> {
    let Some(store) = loaded else { return agents };
    let settings = store.current();
    let options = SandboxOptions::new(
        state_dir,
        &settings.server,
        store.server_file(),
        store.environment(),
    );
    let mut tried: BTreeMap<String, AgentSandbox> = BTreeMap::new();
    for rules in &mut agents {
        let on_miss = settings.policy.exec(&rules.agent).on_miss.value;
        if rules.host.0 != HostChoice::Sandbox && rules.host.0 != HostChoice::Auto && on_miss == OnMiss::Ask {
            continue;
        }
        let sandbox = settings.policy.sandbox(&rules.agent);
        if sandbox.mode == Some(SandboxMode::Off) {
            rules.sandbox = AgentSandbox::Missing("agents.*.sandbox.mode is off".to_owned());
            continue;
        }
        let image = &sandbox.docker.image;
        rules.sandbox_remarks = builtin::remarks(&sandbox.docker);
        rules.sandbox = tried
            .entry(image.clone())
            .or_insert_with(|| match try_sandbox(&options, image) {
                Ok(backend) => AgentSandbox::Usable(backend),
                Err(unusable) => AgentSandbox::Missing(unusable.to_string()),
            })
            .clone();
    }
    agents
}

/// What is odd about the rules of the document, with the files of this machine as a server would see them. The login
/// shell is not asked for its PATH, so a name that is not found here may be found by a server.
fn remarks(
    store: &SettingsStore,
    document: &Document,
    home: &Path,
    now: UnixMillis,
    reached: Isolation,
) -> DocumentRemarks {
    let settings = store.current();
    let own = store.environment().get("PATH");
    let path = run_path::compose(
        &settings.policy.exec(&AgentId::main()).path_prepend,
        None,
        own.as_deref(),
    );
    let mut remarks = lint::document_remarks(
        document,
        LintContext {
            lookup: &SystemLookup::new(path, home.to_string_lossy().into_owned(), &Files::Direct),
            path_case: lint::path_case(&settings),
            now,
            uses: &GrantUses::new(),
            levels: Levels {
                policy: &settings.policy,
                reached,
            },
        },
    );
    remarks
        .remarks
        .retain(|told| told.remark.code != RemarkCode::MissingFile || told.pattern.contains('/'));
    remarks
}

fn safe_bins(
    policy: &PolicyConfig,
    agents: &[AgentRules],
) -> Vec<(String, countersign_policy::lint::Remark)> {
    let mut found: Vec<(String, countersign_policy::lint::Remark)> = Vec::new();
    for AgentRules { agent, .. } in agents {
        for remark in lint::safe_bin_remarks(policy.exec(agent)) {
            if !found.contains(&remark) {
                found.push(remark);
            }
        }
    }
    found
}

fn directory(path: &Path, us: u32) -> DirectoryState {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return DirectoryState::Missing,
        Err(error) => return DirectoryState::Refused(error.to_string()),
    };
    if !metadata.is_dir() {
        return DirectoryState::Refused("it is not a directory".to_owned());
    }
    if metadata.uid() != us && metadata.uid() != 0 {
        return DirectoryState::Refused(format!("it belongs to user {}", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return DirectoryState::Refused("group or others may write it".to_owned());
    }
    DirectoryState::Usable
}

/// The program that looks here is the one that serves, or lies where it does. Whether root's commands could replace it is
/// no question.
fn replaceable_program(
    state_dir: &StateDir,
    loaded: Option<&SettingsStore>,
    isolation: &IsolationState,
    us: u32,
) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    match isolation {
        IsolationState::SeparateUser { .. } => {
            let noted = fs::read_to_string(state_dir.commands_account()).ok()?;
            let uid = noted.split(' ').next()?.parse().ok()?;
            masked_paths::program_replaceable_by(&program, uid)
        }
        IsolationState::Confined { .. } | IsolationState::SameUser { .. } if us == 0 => None,
        IsolationState::Confined { .. } | IsolationState::SameUser { .. } => {
            masked_paths::replaceable_program(&program, us).or_else(|| {
                // People start it by name, which may be a link.
                let path = loaded?.environment().get("PATH")?;
                let mut named = path
                    .split(':')
                    .map(|directory| Path::new(directory).join("countersign"));
                let named = named.find(|named| named.exists())?;
                masked_paths::replaceable_link(&named, us)
            })
        }
    }
}

fn isolation(
    state_dir: &StateDir,
    loaded: Option<&SettingsStore>,
    try_confining: &TryConfining<'_>,
) -> IsolationState {
    let Some(store) = loaded else {
        return IsolationState::SameUser {
            why: "the settings do not read".to_owned(),
            remedy: None,
        };
    };
    let settings = store.current();
    // Set for the next server, or noted by the one that runs, which may have been told on its command line.
    if settings.server.exec.run_as.is_some() || state_dir.commands_account().exists() {
        let is_root = fs::metadata(state_dir.root()).is_ok_and(|metadata| metadata.uid() == 0);
        let server = if is_root {
            ServerAccount::Root
        } else {
            ServerAccount::Own
        };
        return IsolationState::SeparateUser { server };
    }
    match settings.server.exec.isolation {
        IsolationChoice::SameUser => {
            return IsolationState::SameUser {
                why: "[exec] isolation = \"same-user\" says so".to_owned(),
                remedy: None,
            };
        }
        IsolationChoice::Auto | IsolationChoice::Confined | IsolationChoice::SeparateUser => {}
    }
    match try_confining(
        state_dir,
        &settings.server,
        store.server_file(),
        store.environment(),
    ) {
        Ok(()) if has_scopes() => IsolationState::Confined { scopes: Scopes::Kept },
        Ok(()) => IsolationState::Confined {
            scopes: Scopes::Missing,
        },
        Err(NotConfined { why, remedy }) => IsolationState::SameUser { why, remedy },
    }
}

fn settings_state(loaded: &Result<SettingsStore, Vec<SettingsProblem>>) -> SettingsState {
    match loaded {
        Ok(store) => {
            let settings = store.current();
            SettingsState::Loaded {
                remarks: settings.findings.iter().map(remark).collect(),
                is_open: is_open_address(settings.server.http.listen) && settings.server.tls.cert.is_none(),
                metrics_are_open: settings
                    .server
                    .telemetry
                    .metrics_listen
                    .is_some_and(is_open_address),
                always_reachable: settings.server.approvals.always_reachable,
                path: store.server_file().to_path_buf(),
            }
        }
        Err(problems) => SettingsState::Broken(problems.clone()),
    }
}

fn tls_state(state_dir: &StateDir, settings: Option<&Settings>) -> TlsState {
    let Some(files) = settings.and_then(|settings| TlsFiles::of(state_dir, &settings.server)) else {
        return TlsState::Off;
    };
    match files.check() {
        Ok(()) => {
            let is_of_group = fs::metadata(&files.key).is_ok_and(|metadata| metadata.mode() & 0o060 != 0);
            TlsState::Usable {
                key_of_group: is_of_group.then_some(files.key),
            }
        }
        Err(problem) => TlsState::Refused(problem.line()),
    }
}

fn remark(finding: &SettingsFinding) -> Remark {
    match finding {
        SettingsFinding::GroupMayWrite(path) => Remark::GroupMayWrite(path.clone()),
        SettingsFinding::NotYetEffective { .. } => Remark::NotYetEffective(finding.to_string()),
        SettingsFinding::Ignored { .. } | SettingsFinding::UnknownIgnored { .. } => {
            Remark::Ignored(finding.to_string())
        }
    }
}

fn socket_state(
    settings: &Settings,
    document: &store::Snapshot,
    state_dir: &StateDir,
    try_socket: &TrySocket<'_>,
) -> SocketState {
    let role = settings.server.ipc.role;
    if role == IpcRole::Off || matches!(document.status, DocumentStatus::Refused(_)) {
        return SocketState::Fine;
    }
    let socket = document.document().and_then(|document| document.socket.as_ref());
    if role == IpcRole::Client && socket.is_none_or(|socket| socket.token.is_none()) {
        return SocketState::NoToken;
    }
    let named = socket.and_then(|socket| socket.path.as_deref());
    match try_socket(named, &state_dir.document(&settings.server), state_dir.home()) {
        Ok(()) => SocketState::Fine,
        Err((path, why)) => SocketState::Refused { path, why },
    }
}

fn document_state(snapshot: &store::Snapshot) -> DocumentState {
    match &snapshot.status {
        DocumentStatus::Missing => DocumentState::Missing,
        DocumentStatus::Ok => DocumentState::Ok(snapshot.warnings.iter().map(ToString::to_string).collect()),
        DocumentStatus::Refused(refusal) => DocumentState::Refused(refusal.to_string()),
    }
}

/// `main` and every agent that the configuration names.
fn rules(policy: &PolicyConfig, document: &store::Snapshot) -> Vec<AgentRules> {
    let mut agents = vec![AgentId::main()];
    agents.extend(
        policy
            .agents()
            .into_iter()
            .filter(|agent| *agent != AgentId::main()),
    );
    agents
        .into_iter()
        .map(|agent| rules_of(agent, policy, document))
        .collect()
}

fn rules_of(agent: AgentId, policy: &PolicyConfig, document: &store::Snapshot) -> AgentRules {
    let Effective {
        security,
        ask,
        ask_fallback,
        auto_allow_skills: _,
        document_refused: _,
    } = combine(PolicyLayers {
        security: &policy.security(&agent),
        ask: &policy.ask(&agent),
        session: Wanted::default(),
        elevated: Wanted::default(),
        call: Wanted::default(),
        document: &document.policy(agent.as_str()),
    });
    let host = policy.host(&agent).pop();
    let host = host.map_or_else(
        || (HostChoice::Sandbox, "default".to_owned()),
        |Spoken {
             layer: _,
             source,
             value,
         }| (value, source),
    );
    let spoken = |source: &str| source != "default";
    let wanted_security = policy
        .security(&agent)
        .pop()
        .map(|said| (said.value, said.source));
    let wanted_ask = policy.ask(&agent).pop().map(|said| (said.value, said.source));
    AgentRules {
        wanted_security: wanted_security.filter(|(_value, source)| spoken(source)),
        wanted_ask: wanted_ask.filter(|(_value, source)| spoken(source)),
        isolation: policy.exec(&agent).isolation,
        sandbox: AgentSandbox::Unneeded,
        sandbox_remarks: Vec::new(),
        agent,
        host,
        security: (security.value, security.source),
        ask: (ask.value, ask.source),
        ask_fallback: (ask_fallback.value, ask_fallback.source),
    }
}

/// Whether the settings take two owners and there is one. A ledger that cannot be read is told of with its tokens.
fn one_owner(state_dir: &StateDir, store: &SettingsStore, now: UnixMillis) -> Option<SettingsProblem> {
    let ledger = state_dir.ledger(&store.current().server);
    let has_two =
        move || countersign_ledger::admin_owners(&ledger, now).map_or(true, |owners| owners.len() > 1);
    store.look_for_owners(has_two).err()?.into_iter().next()
}

fn doubtful_tokens(
    state_dir: &StateDir,
    settings: Option<&Settings>,
    now: UnixMillis,
) -> Result<Vec<DoubtfulToken>, String> {
    let Some(settings) = settings else {
        return Ok(Vec::new());
    };
    let tokens = tokens::doubtful(
        &state_dir.ledger(&settings.server),
        &state_dir.gateway_token(),
        now,
    );
    let tokens = tokens.map_err(|error| error.to_string())?;
    let presumed = countersign_ledger::presumed_approvers(&state_dir.ledger(&settings.server), now);
    let presumed = presumed.map_err(|error| error.to_string())?;
    let doubtful = |token: Token, doubt| DoubtfulToken {
        id: token.id.as_str().to_owned(),
        name: token.name,
        doubt,
    };
    let tokens = tokens.into_iter().map(|token| {
        let doubt = if token.agents.is_some() {
            TokenDoubt::BoundAdmin
        } else {
            TokenDoubt::UnboundExec
        };
        doubtful(token, doubt)
    });
    let presumed = presumed
        .into_iter()
        .map(|token| doubtful(token, TokenDoubt::PresumedApprover));
    Ok(tokens.chain(presumed).collect())
}

fn private_files(state_dir: &StateDir, settings: Option<&Settings>) -> Vec<PrivateFile> {
    const FILE: u32 = 0o600;
    const DIRECTORY: u32 = 0o700;
    let mut wanted: Vec<(PathBuf, u32)> = vec![
        (state_dir.countersign(), DIRECTORY),
        (state_dir.runs(), DIRECTORY),
        (state_dir.output(), DIRECTORY),
        (state_dir.operator_token(), FILE),
        (state_dir.gateway_token(), FILE),
        (state_dir.bridge_token(), FILE),
        (state_dir.audit_key(), FILE),
        (state_dir.audit_head(), FILE),
        (state_dir.server_json(), FILE),
        (state_dir.device_identity(), FILE),
        (state_dir.device_tokens(), FILE),
        (state_dir.node_json(), FILE),
    ];
    if let Some(settings) = settings {
        wanted.push((state_dir.ledger(&settings.server), FILE));
        wanted.extend(state_dir.api_socket(&settings.server).map(|path| (path, FILE)));
    }
    wanted
        .into_iter()
        .filter_map(|(path, wanted)| private_file(path, wanted))
        .collect()
}

fn private_file(path: PathBuf, wanted: u32) -> Option<PrivateFile> {
    let metadata = fs::symlink_metadata(&path).ok()?;
    Some(PrivateFile {
        path,
        mode: metadata.mode() & 0o7777,
        owner: metadata.uid(),
        wanted,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use countersign_config::settings::MapEnvironment;
    use countersign_sys::{
        clock::{SeededIds, SystemClock},
        fs::create_private_file,
    };

    use crate::doctor::findings;

    fn look(root: &Path) -> Snapshot {
        let environment = Arc::new(MapEnvironment::new([("HOME", "/nonexistent")]));
        let state_dir = StateDir::resolve(Some(root), environment.as_ref()).unwrap();
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SeededIds::default()));
        gather(
            &state_dir,
            &StartOptions::default(),
            environment,
            clock,
            ids,
            ServerState::NotRunning,
            &Trials {
                confining: &|_state_dir, _server, _file, _environment| Ok(()),
                sandbox: &|_options, _image| Ok(Backend::Builtin),
                socket: &|_named, _document, _home| Ok(()),
            },
        )
        .0
    }

    fn ids(snapshot: &Snapshot) -> Vec<&'static str> {
        findings(snapshot).iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn looking_at_nothing_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let snapshot = look(&root);
        assert_eq!(snapshot.directory, DirectoryState::Missing);
        assert_eq!(snapshot.document, DocumentState::Missing);
        assert!(!root.exists());
    }

    #[test]
    fn what_is_there_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("countersign")).unwrap();
        fs::set_permissions(root.join("countersign"), fs::Permissions::from_mode(0o700)).unwrap();
        let config = br#"{tools: {exec: {host: "gateway", security: "full", ask: "off"}}}"#;
        create_private_file(&root.join("openclaw.json"), config).unwrap();
        create_private_file(&root.join("exec-approvals.json"), b"{").unwrap();
        create_private_file(&root.join("countersign/operator.token"), b"t").unwrap();
        fs::set_permissions(
            root.join("countersign/operator.token"),
            fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        let snapshot = look(root);
        assert!(
            matches!(snapshot.document, DocumentState::Refused(_)),
            "{:?}",
            snapshot.document
        );
        let ids = ids(&snapshot);
        assert!(ids.contains(&"document-refused"), "{ids:?}");
        assert!(ids.contains(&"file-not-private"), "{ids:?}");
        // A refused document denies all that the configuration allows.
        assert!(!ids.contains(&"everything-runs"), "{ids:?}");
    }

    #[test]
    fn broken_settings_are_listed_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        create_private_file(
            &folder.path().join("openclaw.json"),
            b"{tools: {exec: {ask: 'maybe', hots: 1}}}",
        )
        .unwrap();
        let SettingsState::Broken(problems) = look(folder.path()).settings else {
            panic!("they read")
        };
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_deref()).collect();
        assert_eq!(keys, [Some("tools.exec.ask"), Some("tools.exec.hots")]);
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert!(matches!(
            look(folder.path()).directory,
            DirectoryState::Refused(_)
        ));
    }
}
