//! The world of a case: files that exist only there, and default settings for everything else.

use std::collections::{BTreeMap, BTreeSet};

use countersign_domain::{AgentId, Command, FileIdentity, PinnedDirectory, UnixMillis};
use countersign_policy::{
    allowlist::{
        self, AnalysisPolicy, AnalysisRequest, AnalysisVerdict, Entries, Entry, Keeps, Protected, Typing,
    },
    command::{DirectoryTrust, Inspected, Listing, PathLookup, direct::ShellKind, env_policy, paths},
    pattern::{PathCase, PatternCache},
};

use super::{
    case::{Case, Expect, OwnWorld},
    result::CaseResult,
};

const HOME: &str = "/home/agent";

/// `tools.exec.safeBins` unless it is set (`docs/spec/settings.md#3-openclawjson-the-keys-we-read`).
const SAFE_BINS: [&str; 6] = ["cut", "uniq", "head", "tail", "tr", "wc"];

/// What the allowlist of the world says about a command.
pub fn judge_in_own_world(case: &Case, world: &OwnWorld) -> CaseResult {
    let env = match env_policy::check_overrides(&world.env) {
        Ok(env) => env,
        Err(blocked) => {
            return CaseResult {
                actual: Expect::Reject,
                why: format!("these variables can never be set: {}", blocked.names.join(", ")),
            };
        }
    };
    let agent = AgentId::main();
    let ids: Vec<String> = (0..world.allowlist.len())
        .map(|index| index.to_string())
        .collect();
    let entries: Vec<Entry<'_>> = world
        .allowlist
        .iter()
        .zip(&ids)
        .map(|(entry, id)| Entry {
            owner: agent.as_str(),
            id,
            pattern: &entry.pattern,
            arg_pattern: entry.arg_pattern.as_deref(),
            source: entry.source.as_deref(),
            command_sha256: None,
            typing: Typing::of(entry.input, entry.unguarded),
            confine: entry.confine.as_ref(),
        })
        .collect();
    let by_default = || SAFE_BINS.map(str::to_owned).to_vec();
    let safe_bins = world.safe_bins.clone().unwrap_or_else(by_default);
    let cwd = world.cwd.as_deref().unwrap_or(HOME);
    // No file of it is opened.
    let workspace = PinnedDirectory {
        path: cwd.to_owned(),
        dev: 0,
        ino: 0,
    };
    let temporary = PinnedDirectory {
        path: "/tmp".to_owned(),
        dev: 0,
        ino: 0,
    };
    let request = AnalysisRequest {
        cwd,
        cwd_real: cwd,
        env: &env,
        agent: &agent,
        input: case.input(),
        workspace: Some(&workspace),
        temporary: Some(&temporary),
        shell: Some(ShellKind::Bash),
    };
    let policy = AnalysisPolicy {
        grammar: world.grammar,
        entries: Entries::Listed(&entries),
        grants: &[],
        deny_rules: &[],
        safe_bins: &safe_bins,
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: &world.trusted_dirs,
        skills: &[],
        strict_inline_eval: world.strict_inline_eval,
        strict_delegation: true,
        exact_text_grants: false,
        path_case: PathCase::Sensitive,
        keeps: Keeps {
            starts: true,
            writes: true,
            connects: true,
            own_files: true,
            ..Keeps::default()
        },
        now: UnixMillis::new(0),
        protected: &Protected::default(),
        cache: &PatternCache::default(),
    };
    let command = Command::Shell(case.command.clone());
    let analysis = allowlist::analyze(&command, &request, &policy, &MockFiles::of(world));
    let actual = match &analysis.verdict {
        AnalysisVerdict::Allow => Expect::Allow,
        AnalysisVerdict::Ask(_) => Expect::Ask,
        AnalysisVerdict::Reject(_) => Expect::Reject,
    };
    let why = analysis.verdict.finding().map_or_else(
        || "the allowlist covers it".to_owned(),
        |finding| format!("{}: {}", finding.rule, finding.detail),
    );
    CaseResult { actual, why }
}

/// The files of a world. Every one can be executed, and every directory belongs to root.
#[derive(Debug)]
struct MockFiles<'a> {
    path_dirs: &'a BTreeMap<String, String>,
    existing: BTreeSet<&'a str>,
    realpaths: &'a BTreeMap<String, String>,
}

impl<'a> MockFiles<'a> {
    fn of(world: &'a OwnWorld) -> Self {
        let existing = world
            .path_dirs
            .values()
            .chain(&world.files)
            .chain(world.realpaths.keys());
        Self {
            path_dirs: &world.path_dirs,
            existing: existing.map(String::as_str).collect(),
            realpaths: &world.realpaths,
        }
    }
}

impl PathLookup for MockFiles<'_> {
    /// A relative value stands for a hit in a relative entry of PATH, which counts for nothing.
    fn search(&self, name: &str) -> Option<String> {
        let found = self.path_dirs.get(name).filter(|path| path.starts_with('/'));
        found.cloned()
    }

    fn list(&self, directory: &str) -> Listing {
        let directory = paths::normalise(directory);
        let Some(real) = self.real(&directory) else {
            return Listing::NotThere;
        };
        let directory = directory.trim_end_matches('/');
        let below = self
            .existing
            .iter()
            .filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/')?.split('/').next());
        let names: BTreeSet<&str> = below.collect();
        Listing::Names {
            real,
            names: names.into_iter().map(str::to_owned).collect(),
        }
    }

    fn is_set(&self, _variable: &str) -> bool {
        false
    }

    fn home_variable(&self) -> Option<&str> {
        Some(HOME)
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let real = self.existing.contains(path).then(|| self.real(path)).flatten()?;
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

    /// Every file is there, but those of the temporary directory only where the case says so.
    fn real(&self, path: &str) -> Option<String> {
        if path.starts_with("/tmp/") && !self.existing.contains(path) {
            return None;
        }
        let target = self.realpaths.get(path).map_or(path, String::as_str);
        Some(target.to_owned())
    }

    fn home(&self) -> &'static str {
        HOME
    }

    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        DirectoryTrust::Ours
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }

    fn is_machine_program(&self, _file: &FileIdentity) -> bool {
        true
    }
}
