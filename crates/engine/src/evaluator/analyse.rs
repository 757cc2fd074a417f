//! The analysis of a command under the policy of one moment: the settings' and the document's rules as the
//! analysis wants them.

use std::{
    collections::{BTreeMap, HashMap},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use countersign_config::{
    approvals::document::{self, Confined, Listed},
    settings::{self, ExecSettings, Settings, StateDir},
};
use countersign_domain::{
    AgentId, Command, EntryId, EnvOverrides, Isolation, PinnedDirectory, Security, UnixMillis,
};
use countersign_hosts::{
    found_programs::FoundPrograms,
    node::UNKNOWN_DIRECTORY,
    path_lookup::{InheritedVariables, SystemLookup},
    peer_fs::{self, Blind},
    run_path,
    workdir::{Workdir, WorkdirError},
};
use countersign_ledger::GrantUse;
use countersign_policy::{
    allowlist::{
        self, Analysis, AnalysisPolicy, AnalysisRequest, CreditKind, DenyHit, DenyRule, Entries, Entry,
        EntryIndex, Grant, Keeps, Protected, SkillBin,
    },
    command::{
        PathLookup, Span,
        direct::{self, ChosenStart, Circumstances, ShellKind},
        safe_bin,
    },
    pattern::{PathCase, PatternCache},
};
use countersign_sys::clock::Clock;

use super::{
    Evaluator,
    call::Call,
    entry_indexes::{EntryIndexes, MIN_INDEXED},
    keeping, place,
    policy_now::PolicyView,
};
use crate::{environment::HostEnvironment, turns};

/// The directory of temporary files by the name that commands call it.
const TEMPORARY: &str = "/tmp";

/// The directories trusted for safe bins, with where their real files lie
/// (`docs/spec/command-analysis.md#3-executables`). Looked up once for each configured list, not on every call.
#[derive(Debug, Default)]
pub(crate) struct TrustedDirs(Mutex<KnownDirs>);

#[derive(Debug, Default)]
struct KnownDirs {
    generation: u64,
    by_list: HashMap<ConfiguredDirs, Arc<Vec<String>>>,
}

/// The safe bins and the trusted directories of some agents, as configured.
type ConfiguredDirs = (Vec<String>, Vec<PathBuf>);

impl TrustedDirs {
    fn of(
        &self,
        exec: &ExecSettings,
        generation: u64,
        lookup: &SystemLookup,
    ) -> Result<Arc<Vec<String>>, Blind> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation != generation {
            *known = KnownDirs {
                generation,
                by_list: HashMap::new(),
            };
        }
        let list = (exec.safe_bins.clone(), exec.safe_bin_trusted_dirs.clone());
        if let Some(dirs) = known.by_list.get(&list) {
            return Ok(Arc::clone(dirs));
        }
        let mut dirs: Vec<String> = exec
            .safe_bin_trusted_dirs
            .iter()
            .map(|dir| dir.to_string_lossy().into_owned())
            .collect();
        dirs.extend(lookup.safe_bin_directories(&exec.safe_bins, &dirs));
        // What could not be seen must not be missing for good.
        lookup.check()?;
        let dirs = Arc::new(dirs);
        known.by_list.insert(list, Arc::clone(&dirs));
        Ok(dirs)
    }
}

/// What looks through commands: the machine as commands see it, and what is remembered of it.
#[derive(Debug)]
pub(crate) struct Analyst {
    clock: Arc<dyn Clock>,
    home: PathBuf,
    /// What commands inherit on this machine; its `PATH` finds programs.
    environment: Arc<HostEnvironment>,
    files: peer_fs::Files,
    /// The best level of isolation that commands reach.
    isolation: Isolation,
    /// Whether all files of the server lie where isolation hides them: in the state directory.
    is_all_hidden: bool,
    /// The host shell, where it is one whose ways are known.
    shell: Option<ShellKind>,
    /// What is known of the variables that commands inherit.
    variables: Arc<InheritedVariables>,
    protected: Protected,
    patterns: PatternCache,
    trusted_dirs: TrustedDirs,
    indexes: EntryIndexes,
    /// Programs that commands start by themselves, by their names.
    found: Arc<FoundPrograms>,
}

/// What an analysis sees of the file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) lookup: &'a dyn PathLookup,
    /// What is remembered of patterns depends on what `lookup` says, so these go together.
    pub(crate) patterns: &'a PatternCache,
    pub(crate) indexes: &'a EntryIndexes,
}

/// What is this program's own, and no command may be allowed to touch.
#[derive(Clone, Copy)]
pub(crate) struct OwnFiles<'a> {
    pub(crate) state_dir: &'a StateDir,
    /// The approvals document.
    pub(crate) document: &'a Path,
    /// This program.
    pub(crate) binary: Option<&'a Path>,
}

impl Analyst {
    /// One of this machine.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        environment: Arc<HostEnvironment>,
        files: peer_fs::Files,
        isolation: Isolation,
        shell: Option<ShellKind>,
        own: OwnFiles<'_>,
    ) -> Self {
        let OwnFiles {
            state_dir,
            document,
            binary,
        } = own;
        let workspaces = [state_dir.workspace(), state_dir.countersign().join("sandboxes")];
        Self {
            clock,
            home: state_dir.home().unwrap_or_else(|| Path::new("/")).to_path_buf(),
            variables: Arc::new(environment.known()),
            environment,
            files,
            isolation,
            is_all_hidden: is_within(document, state_dir.root()),
            shell,
            protected: protected(state_dir.root(), document, &workspaces, binary),
            patterns: PatternCache::default(),
            trusted_dirs: TrustedDirs::default(),
            indexes: EntryIndexes::default(),
            found: Arc::default(),
        }
    }

    /// The account's home directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// What no command may be allowed to touch.
    pub(crate) const fn protected(&self) -> &Protected {
        &self.protected
    }

    /// The time by which files are stamped.
    pub(crate) fn wall(&self) -> UnixMillis {
        self.clock.wall()
    }

    /// The run PATH of an agent, as look-up sees it.
    pub(crate) fn path_lookup(&self, agent: &AgentId, settings: &Settings) -> SystemLookup {
        let path = self
            .environment
            .run_path(&settings.policy.exec(agent).path_prepend);
        SystemLookup::over(path, self.home.to_string_lossy().into_owned(), &self.files)
            .with_variables(Arc::clone(&self.variables))
            .remembering(Arc::clone(&self.found), self.wall())
    }

    /// How a text of a call on this machine is started, with the overrides that reach it.
    pub(crate) fn start_of(
        &self,
        text: &str,
        circumstances: Circumstances,
        call: &Call,
        env: &EnvOverrides,
        settings: &Settings,
    ) -> ChosenStart {
        let prepend = &settings.policy.exec(&call.agent).path_prepend;
        let path = run_path::join(&self.environment.run_path(prepend));
        direct::start_of(text, &circumstances, self.environment.variables(&path, env))
    }

    /// Analyses the command of a call on this machine. `spent` are grants found to have no use left.
    ///
    /// # Errors
    /// [`Blind`] when not everything could be looked at: a rule may have been missed for that, so nothing may be
    /// concluded.
    pub(crate) fn analyse(
        &self,
        call: &Call,
        now: &PolicyView,
        spent: &[EntryId],
    ) -> Result<Analysis, Blind> {
        turns::run_analysis(&call.command, || {
            let lookup = self.path_lookup(&call.agent, &now.settings);
            let files = Files {
                lookup: &lookup,
                patterns: &self.patterns,
                indexes: &self.indexes,
            };
            let analysis = self.analyse_with(call, now, spent, files)?;
            lookup.check()?;
            Ok(analysis)
        })
    }

    /// The same, seeing no more files than `files` shows.
    ///
    /// # Errors
    /// As [`Self::analyse`], for what is looked at once for all commands.
    pub(crate) fn analyse_with(
        &self,
        call: &Call,
        now: &PolicyView,
        spent: &[EntryId],
        files: Files<'_>,
    ) -> Result<Analysis, Blind> {
        let Files {
            lookup,
            patterns,
            indexes,
        } = files;
        let agent = call.agent.as_str();
        let document = &now.document;
        let case = path_case(now.settings.server.policy.path_case);
        let few;
        let many;
        let entries = if document.entry_count(agent) < MIN_INDEXED {
            let listed = document.entries(agent);
            few = listed.iter().map(entry_of).collect::<Vec<_>>();
            Entries::Listed(&few)
        } else {
            many = indexes.of(&document.hash, &call.agent, case, &*self.clock, || {
                let listed = document.entries(agent);
                EntryIndex::new(listed.iter().map(entry_of), case, lookup.home(), |path| {
                    lookup.real(path)
                })
            });
            Entries::Indexed(&many)
        };
        let on_node = call.node.is_some();
        let grants = if on_node {
            // Uses of grants of a node are counted there.
            Vec::new()
        } else {
            document.grants(agent)
        };
        let grants: Vec<Grant<'_>> = grants
            .iter()
            .map(|listed| {
                // The ledger counts, in the transaction that would spend one more, and says which have none left.
                let uses = if spent.contains(listed.id) { u64::MAX } else { 0 };
                let session = listed.item.session_key.as_ref();
                Grant {
                    is_of_other_session: session.is_some_and(|session| *session != call.session),
                    ..grant_of(listed, uses)
                }
            })
            .collect();
        let rules = now.deny_rules(&call.agent);
        let deny_rules: Vec<DenyRule<'_>> = rules.iter().map(deny_rule_of).collect();
        let exec = now.settings.policy.exec(&call.agent);
        let path_policy = &now.settings.server.policy;
        let profiles = safe_bin_profiles(&exec.safe_bin_profiles);
        // Directories and skills of this machine say nothing about another one.
        let (trusted_dirs, skills) = if on_node {
            (Arc::default(), Vec::new())
        } else {
            let system = self.path_lookup(&call.agent, &now.settings);
            let trusted_dirs = self.trusted_dirs.of(exec, now.settings.generation, &system)?;
            (trusted_dirs, skills(call, now))
        };
        let keeps = if on_node {
            // What a node keeps it judges by itself.
            Keeps::default()
        } else {
            let keeps = keeping::keeps(exec, self.isolation);
            Keeps {
                own_files: keeps.own_files && self.is_all_hidden,
                ..keeps
            }
        };
        let cwd = match &call.node {
            Some(_) => call.node_cwd().unwrap_or(UNKNOWN_DIRECTORY).into(),
            None => call.workdir.path.to_string_lossy(),
        };
        let workspace = self.workspace_of(call, now)?;
        let temporary = self.temporary_of(call, now)?;
        let mut analysis = allowlist::analyze(
            &call.command,
            &AnalysisRequest {
                cwd: &cwd,
                cwd_real: &cwd,
                env: &call.env,
                agent: &call.agent,
                input: call.input(),
                workspace: workspace.as_ref(),
                temporary: temporary.as_ref(),
                shell: self.shell.filter(|_| !on_node),
            },
            &AnalysisPolicy {
                entries,
                grammar: if on_node {
                    exec.grammar.elsewhere()
                } else {
                    exec.grammar
                },
                grants: &grants,
                deny_rules: &deny_rules,
                safe_bins: &exec.safe_bins,
                safe_bin_profiles: &profiles,
                trusted_dirs: &trusted_dirs,
                skills: &skills,
                strict_inline_eval: exec.strict_inline_eval.value,
                strict_delegation: exec.strict_delegation.value && path_policy.delegation_table,
                exact_text_grants: path_policy.exact_text_grants,
                path_case: case,
                keeps,
                now: self.clock.now(),
                protected: &self.protected,
                cache: patterns,
            },
            lookup,
        );
        if let Some(rule) = now.denied_text(&call.agent, &call.command, self.clock.now()) {
            analysis.deny(DenyHit {
                owner: rule.owner.to_owned(),
                id: rule.id.to_string(),
                pattern: rule.item.pattern.clone(),
                reason: rule.item.reason.clone(),
                span: Span::new(0, call.command.to_text().len()),
            });
        }
        Ok(analysis)
    }
}

impl Analyst {
    /// The present time.
    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    /// The workspace in which the supervisor would open files for the redirections of a call (G13), and in which files are
    /// looked for (G14).
    fn workspace_of(&self, call: &Call, now: &PolicyView) -> Result<Option<PinnedDirectory>, Blind> {
        let settings = &now.settings;
        let grammar = settings.policy.exec(&call.agent).grammar;
        let needs_files = |text: &str| {
            (grammar.file_redirections && text.contains(['<', '>']))
                || (grammar.file_patterns && text.contains(['*', '?', '[']))
        };
        self.directory_of(call, now, needs_files, || {
            place::workspace(&call.agent, settings, &self.files)
        })
    }

    /// The directory of temporary files, in which the supervisor would make files for redirections (G15).
    fn temporary_of(&self, call: &Call, now: &PolicyView) -> Result<Option<PinnedDirectory>, Blind> {
        let grammar = now.settings.policy.exec(&call.agent).grammar;
        let needs_files = |text: &str| grammar.temporary_files && text.contains(['<', '>']);
        let found = self.directory_of(call, now, needs_files, || PathBuf::from(TEMPORARY))?;
        // Where it is a link its name is not where its files are.
        Ok(found.filter(|directory| directory.path == TEMPORARY))
    }

    /// A directory in which the supervisor would open files for a call, where its text needs that. Where a shell would run the
    /// text, under `full` and on a node, that shell does so.
    fn directory_of(
        &self,
        call: &Call,
        now: &PolicyView,
        is_needed: impl Fn(&str) -> bool,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<Option<PinnedDirectory>, Blind> {
        let is_needed = matches!(&call.command, Command::Shell(text) if is_needed(text));
        if !is_needed
            || call.node.is_some()
            || now.effective(&call.agent, call.wishes()).security.value != Security::Allowlist
        {
            return Ok(None);
        }
        match Workdir::at(&path(), &self.files) {
            Ok(Workdir { path, dev, ino }) => Ok(Some(PinnedDirectory {
                path: path.to_string_lossy().into_owned(),
                dev,
                ino,
            })),
            Err(WorkdirError::Blind(blind)) => Err(blind),
            Err(_unusable) => Ok(None),
        }
    }
}

impl Evaluator {
    /// Analyses a call's command where it would run. `spent` are grants found to have no use left.
    ///
    /// # Errors
    /// As [`Analyst::analyse`].
    pub(crate) fn analyse(
        &self,
        call: &Call,
        now: &PolicyView,
        spent: &[EntryId],
    ) -> Result<Analysis, Blind> {
        match &call.node {
            Some(node) => self.analyse_on_node(node, call, now, spent),
            None => self.analyst.analyse(call, now, spent),
        }
    }
}

/// The grants that let a command through and count their uses.
pub(crate) fn grant_uses(analysis: &Analysis, now: &PolicyView, agent: &str) -> Vec<GrantUse> {
    let grants = now.document.grants(agent);
    let limited = |owner: &str, id: &str| {
        grants
            .iter()
            .find(|listed| listed.owner == owner && listed.id.as_str() == id)
            .and_then(|listed| {
                Some(GrantUse {
                    owner: owner.to_owned(),
                    entry_id: listed.id.clone(),
                    max_uses: listed.item.max_uses?,
                })
            })
    };
    let credited = analysis
        .credited
        .iter()
        .filter(|credit| credit.kind == CreditKind::Grant);
    credited
        .filter_map(|credit| limited(&credit.owner, &credit.id))
        .collect()
}

fn skills(call: &Call, now: &PolicyView) -> Vec<SkillBin> {
    let allowed = now.effective(&call.agent, call.wishes()).auto_allow_skills.value;
    let table = now.settings.server.policy.skill_bins.iter().filter(|_| allowed);
    table
        .map(|bin| SkillBin {
            name: bin.name.clone(),
            path: bin.path.to_string_lossy().into_owned(),
        })
        .collect()
}

pub(crate) const fn path_case(setting: settings::PathCase) -> PathCase {
    match setting {
        settings::PathCase::Insensitive => PathCase::Insensitive,
        // `auto` on Linux; other platforms decide in their platform module once they are supported.
        settings::PathCase::Auto | settings::PathCase::Sensitive => PathCase::Sensitive,
    }
}

pub(crate) fn safe_bin_profiles(
    configured: &BTreeMap<String, settings::SafeBinProfile>,
) -> BTreeMap<String, safe_bin::SafeBinProfile> {
    let convert = |profile: &settings::SafeBinProfile| safe_bin::SafeBinProfile {
        min_positional: profile.min_positional,
        max_positional: profile.max_positional,
        allowed_value_flags: profile.allowed_value_flags.clone(),
        allowed_boolean_flags: profile.allowed_boolean_flags.clone(),
        denied_flags: Some(profile.denied_flags.clone()),
    };
    configured
        .iter()
        .map(|(name, profile)| (name.clone(), convert(profile)))
        .collect()
}

/// An entry of the document, as commands are matched with it.
pub(crate) fn entry_of<'a>(listed: &Listed<'a, document::Entry>) -> Entry<'a> {
    Entry {
        owner: listed.owner,
        id: listed.id.as_str(),
        pattern: &listed.item.pattern,
        arg_pattern: listed.item.arg_pattern.as_deref(),
        source: listed.item.source.as_deref(),
        command_sha256: listed.item.command_sha256.as_deref(),
        typing: listed.item.typing(),
        confine: listed.item.confine.as_ref().map(Confined::rule),
    }
}

/// The same of a grant that was used so often.
pub(crate) fn grant_of<'a>(listed: &Listed<'a, document::Grant>, uses: u64) -> Grant<'a> {
    let expires_at = listed.item.expires_at_ms.as_ref();
    Grant {
        owner: listed.owner,
        id: listed.id.as_str(),
        pattern: &listed.item.pattern,
        arg_pattern: listed.item.arg_pattern.as_deref(),
        expires_at: expires_at.map(|at| UnixMillis::new(at.floor())),
        max_uses: listed.item.max_uses,
        uses,
        sha256: listed.item.sha256.as_deref(),
        directory: listed.item.directory.as_deref(),
        is_of_other_session: false,
        typing: listed.item.typing(),
        confine: listed.item.confine.as_ref().map(Confined::rule),
    }
}

/// The same of a deny rule.
pub(crate) fn deny_rule_of<'a>(listed: &Listed<'a, document::DenyRule>) -> DenyRule<'a> {
    DenyRule {
        owner: listed.owner,
        id: listed.id.as_str(),
        pattern: &listed.item.pattern,
        arg_pattern: listed.item.arg_pattern.as_deref(),
        reason: listed.item.reason.as_deref(),
        children: listed.item.keeps_children(),
        is_of_text: listed.item.is_of_text() || listed.item.is_of_questions(),
    }
}

/// Whether a file lies below a directory by its real path, and so does the way that leads there.
fn is_within(file: &Path, directory: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_not_there| path.to_path_buf());
    file.starts_with(directory) && real(file).starts_with(real(directory))
}

/// What no command may be auto-allowed to touch (rule P6): the state directory but its workspaces, and this
/// program itself.
///
/// The approvals document may lie elsewhere and is protected there too.
fn protected(
    state_dir: &Path,
    document: &Path,
    workspaces: &[PathBuf],
    own_binary: Option<&Path>,
) -> Protected {
    let both = |path: &Path| {
        let mut names = vec![path.to_string_lossy().into_owned()];
        if let Ok(real) = std::fs::canonicalize(path)
            && real != path
        {
            names.push(real.to_string_lossy().into_owned());
        }
        names
    };
    Protected {
        own_binary: own_binary.map(|path| path.to_string_lossy().into_owned()),
        own_file: own_binary
            .and_then(|path| std::fs::metadata(path).ok())
            .map(|metadata| (metadata.dev(), metadata.ino())),
        roots: [state_dir, document].into_iter().flat_map(both).collect(),
        exceptions: workspaces.iter().flat_map(|path| both(path)).collect(),
    }
}

/// The path of a program as an argv request names it, for a start that nothing was analysed for.
pub(crate) fn program_path(name: &str, cwd: &Path, lookup: &SystemLookup) -> String {
    if name.contains('/') {
        return cwd.join(name).to_string_lossy().into_owned();
    }
    // Not found: the host refuses to start what is no path.
    lookup.search(name).unwrap_or_else(|| name.to_owned())
}
