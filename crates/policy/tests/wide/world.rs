//! A world of files and rules that exists only in memory, for the analysis alone. The fuzz targets use it too.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use countersign_domain::{AgentId, Command, CommandInput, FileIdentity, UnixMillis};
use countersign_policy::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, DenyRule, Entries, Entry, Keeps, Protected, SkillBin,
        Typing, analyze,
    },
    command::{
        DirectoryTrust, Inspected, PathLookup, direct::ShellKind, env_policy, safe_bin::SafeBinProfile,
        syntax::Grammar,
    },
    pattern::{PathCase, PatternCache},
};

/// Where names are searched and what covers what is found there.
#[derive(Debug, Clone)]
pub(crate) struct World {
    path: BTreeMap<String, String>,
    files: BTreeSet<String>,
    links: BTreeMap<String, String>,
    foreign: BTreeSet<String>,
    missing: BTreeSet<String>,
    entries: Vec<OwnEntry>,
    denied: Vec<String>,
    env: BTreeMap<String, String>,
    protected: Protected,
    cache: Arc<PatternCache>,
    /// The working directory, absolute.
    pub(crate) cwd: String,
    /// Names of safe bins.
    pub(crate) safe_bins: Vec<String>,
    /// Profiles of safe bins that are not built in.
    pub(crate) profiles: BTreeMap<String, SafeBinProfile>,
    /// Directories trusted besides the built-in ones.
    pub(crate) trusted_dirs: Vec<String>,
    /// Programs of skills.
    pub(crate) skills: Vec<SkillBin>,
    /// `tools.exec.strictInlineEval`.
    pub(crate) strict_inline_eval: bool,
    /// `tools.exec.strictDelegation`.
    pub(crate) strict_delegation: bool,
    /// How paths and names compare.
    pub(crate) path_case: PathCase,
    /// `tools.exec.reads`.
    pub(crate) grammar: Grammar,
    /// Whether no command can read the server's own files, whatever its words are (G23).
    pub(crate) hides_own_files: bool,
    /// The shell of the host.
    pub(crate) shell: Option<ShellKind>,
}

#[derive(Debug, Clone)]
struct OwnEntry {
    pattern: String,
    arg_pattern: Option<String>,
    source: Option<String>,
}

impl World {
    /// A directory of root's and nothing else.
    pub(crate) fn new() -> Self {
        Self {
            path: BTreeMap::new(),
            files: BTreeSet::new(),
            links: BTreeMap::new(),
            foreign: BTreeSet::new(),
            missing: BTreeSet::new(),
            entries: Vec::new(),
            denied: Vec::new(),
            env: BTreeMap::new(),
            protected: Protected::default(),
            cache: Arc::default(),
            cwd: "/srv/project".to_owned(),
            safe_bins: Vec::new(),
            profiles: BTreeMap::new(),
            trusted_dirs: Vec::new(),
            skills: Vec::new(),
            strict_inline_eval: false,
            strict_delegation: true,
            path_case: PathCase::Sensitive,
            grammar: Grammar::default(),
            hides_own_files: false,
            shell: None,
        }
    }

    /// Programs in `/usr/bin` that a search for their names finds.
    pub(crate) fn programs(mut self, names: &[&str]) -> Self {
        for name in names {
            self.path.insert((*name).to_owned(), format!("/usr/bin/{name}"));
            self.files.insert(format!("/usr/bin/{name}"));
        }
        self
    }

    /// A program that a search finds at that path.
    pub(crate) fn found(mut self, name: &str, path: &str) -> Self {
        self.path.insert(name.to_owned(), path.to_owned());
        self.files.insert(path.to_owned());
        self
    }

    /// An executable file that is not searched for.
    pub(crate) fn file(mut self, path: &str) -> Self {
        self.files.insert(path.to_owned());
        self
    }

    /// A symbolic link to an executable file.
    pub(crate) fn link(mut self, path: &str, real: &str) -> Self {
        self.files.insert(path.to_owned());
        self.links.insert(path.to_owned(), real.to_owned());
        self
    }

    /// A place where nothing is.
    pub(crate) fn missing(mut self, path: &str) -> Self {
        self.missing.insert(path.to_owned());
        self
    }

    /// A directory that somebody else may write to.
    pub(crate) fn foreign(mut self, directory: &str) -> Self {
        self.foreign.insert(directory.to_owned());
        self
    }

    /// Entries without argument patterns.
    pub(crate) fn allow(mut self, patterns: &[&str]) -> Self {
        self.entries.extend(patterns.iter().map(|pattern| OwnEntry {
            pattern: (*pattern).to_owned(),
            arg_pattern: None,
            source: None,
        }));
        self
    }

    /// An entry for some arguments.
    pub(crate) fn allow_with(mut self, pattern: &str, arg_pattern: &str) -> Self {
        self.entries.push(OwnEntry {
            pattern: pattern.to_owned(),
            arg_pattern: Some(arg_pattern.to_owned()),
            source: None,
        });
        self
    }

    /// An entry as a person's `allow-always` makes one.
    pub(crate) fn remember(mut self, pattern: &str, arg_pattern: Option<&str>) -> Self {
        self.entries.push(OwnEntry {
            pattern: pattern.to_owned(),
            arg_pattern: arg_pattern.map(str::to_owned),
            source: Some("allow-always".to_owned()),
        });
        self
    }

    /// A deny rule.
    pub(crate) fn deny(mut self, pattern: &str) -> Self {
        self.denied.push(pattern.to_owned());
        self
    }

    /// A directory of the server itself.
    pub(crate) fn protect(mut self, root: &str) -> Self {
        self.protected.roots.push(root.to_owned());
        self
    }

    /// An environment override.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The analysis of a shell text. Overrides that are a bad request are left to [`Self::verdict`].
    pub(crate) fn text(&self, text: &str) -> Analysis {
        self.analysis(&Command::Shell(text.to_owned()))
    }

    /// The analysis of an argument vector.
    pub(crate) fn argv(&self, words: &[&str]) -> Analysis {
        self.analysis(&Command::Argv(
            words.iter().map(|word| (*word).to_owned()).collect(),
        ))
    }

    /// `allow`, `ask` or `reject` for a shell text.
    pub(crate) fn verdict(&self, text: &str) -> &'static str {
        if env_policy::check_overrides(&self.env).is_err() {
            return "reject";
        }
        self.text(text).verdict.as_str()
    }

    fn analysis(&self, command: &Command) -> Analysis {
        let ids: Vec<String> = (0..self.entries.len()).map(|at| format!("entry-{at}")).collect();
        let entries: Vec<Entry<'_>> = self
            .entries
            .iter()
            .zip(&ids)
            .map(|(entry, id)| Entry {
                owner: "main",
                id,
                pattern: &entry.pattern,
                arg_pattern: entry.arg_pattern.as_deref(),
                source: entry.source.as_deref(),
                command_sha256: None,
                typing: Typing::Nothing,
                confine: None,
            })
            .collect();
        let deny_rules: Vec<DenyRule<'_>> = self
            .denied
            .iter()
            .map(|pattern| DenyRule {
                owner: "*",
                id: "rule",
                pattern,
                arg_pattern: None,
                reason: None,
                children: false,
                is_of_text: false,
            })
            .collect();
        let agent = AgentId::main();
        let env = env_policy::check_overrides(&self.env).unwrap_or_default();
        let request = AnalysisRequest {
            cwd: &self.cwd,
            cwd_real: &self.cwd,
            env: &env,
            agent: &agent,
            input: CommandInput::Closed,
            workspace: None,
            temporary: None,
            shell: self.shell,
        };
        let policy = AnalysisPolicy {
            grammar: self.grammar,
            entries: Entries::Listed(&entries),
            grants: &[],
            deny_rules: &deny_rules,
            safe_bins: &self.safe_bins,
            safe_bin_profiles: &self.profiles,
            trusted_dirs: &self.trusted_dirs,
            skills: &self.skills,
            strict_inline_eval: self.strict_inline_eval,
            strict_delegation: self.strict_delegation,
            exact_text_grants: false,
            path_case: self.path_case,
            keeps: Keeps {
                own_files: self.hides_own_files,
                ..Keeps::default()
            },
            now: UnixMillis::new(0),
            protected: &self.protected,
            cache: &self.cache,
        };
        analyze(command, &request, &policy, self)
    }

    /// The attacks are never allowed, their harmless twins are.
    #[track_caller]
    pub(crate) fn defeats(&self, attacks: &[&str], twins: &[&str]) {
        for twin in twins {
            let found = self.text(twin);
            assert_eq!(
                self.verdict(twin),
                "allow",
                "the twin {twin:?}: {:?}",
                found.findings
            );
        }
        for attack in attacks {
            assert_ne!(self.verdict(attack), "allow", "{attack:?}");
        }
    }
}

impl PathLookup for World {
    fn search(&self, name: &str) -> Option<String> {
        self.path.get(name).cloned()
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let real = self.files.contains(path).then(|| self.real(path)).flatten()?;
        let identity = FileIdentity {
            path: real.clone(),
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns: 0,
            ctime_ns: 0,
        };
        Some(Inspected { real, identity })
    }

    fn real(&self, path: &str) -> Option<String> {
        let is_missing = |missing: &String| Path::new(path).starts_with(missing);
        if self.missing.iter().any(is_missing) {
            return None;
        }
        Some(self.links.get(path).cloned().unwrap_or_else(|| path.to_owned()))
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn is_set(&self, variable: &str) -> bool {
        matches!(variable, "HOME" | "PATH" | "PWD")
    }

    fn home_variable(&self) -> Option<&str> {
        Some(self.home())
    }

    fn home(&self) -> &'static str {
        "/home/agent"
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        if self.foreign.contains(directory) {
            DirectoryTrust::Foreign
        } else {
            DirectoryTrust::Ours
        }
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }

    fn is_machine_program(&self, file: &FileIdentity) -> bool {
        !file.path.starts_with("/bin/")
    }
}
