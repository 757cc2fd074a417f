//! Every case of the shared command corpus, with a file system that exists only in the case.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, AnalysisVerdict, Entries, Entry, Keeps, Protected, Typing,
        analyze_under,
    },
    command::{
        DirectoryTrust, Inspected, Listing, PathLookup, RuleSet, direct::ShellKind, env_policy, paths,
        syntax::Grammar,
    },
    pattern::{PathCase, PatternCache},
};
use countersign_domain::{
    AgentId, Command, CommandInput, EnvOverrides, FileIdentity, PinnedDirectory, UnixMillis,
};
use serde::Deserialize;

/// A case of the corpus, or one of our own beside a rule.
#[derive(Clone, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of a case")]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) path_dirs: BTreeMap<String, String>,
    pub(crate) allowlist: Vec<CaseEntry>,
    pub(crate) safe_bins: Vec<String>,
    pub(crate) strict_inline_eval: bool,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) realpaths: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) trusted_dirs: Vec<String>,
    /// `tools.exec.reads.nullRedirections`.
    #[serde(default)]
    pub(crate) null_redirections: bool,
    /// `tools.exec.reads.hereDocuments`.
    #[serde(default)]
    pub(crate) here_documents: bool,
    /// `tools.exec.reads.fileRedirections`; the workspace is the working directory then.
    #[serde(default)]
    pub(crate) file_redirections: bool,
    /// `tools.exec.reads.filePatterns`.
    #[serde(default)]
    pub(crate) file_patterns: bool,
    /// `tools.exec.reads.temporaryFiles`.
    #[serde(default)]
    pub(crate) temporary_files: bool,
    /// `tools.exec.reads.foundFiles`.
    #[serde(default)]
    pub(crate) found_files: bool,
    /// `tools.exec.reads.documentOperands`.
    #[serde(default)]
    pub(crate) document_operands: bool,
    /// `tools.exec.reads.variables`.
    #[serde(default)]
    pub(crate) variables: bool,
    /// `tools.exec.reads.substitutions`.
    #[serde(default)]
    pub(crate) substitutions: bool,
    /// `tools.exec.reads.braces`.
    #[serde(default)]
    pub(crate) braces: bool,
    /// `tools.exec.reads.compoundCommands`.
    #[serde(default)]
    pub(crate) compound_commands: bool,
    /// `tools.exec.reads.loops`.
    #[serde(default)]
    pub(crate) loops: bool,
    /// `tools.exec.reads.laterValues`.
    #[serde(default)]
    pub(crate) later_values: bool,
    /// `tools.exec.reads.backgroundCommands`.
    #[serde(default)]
    pub(crate) background_commands: bool,
    /// `tools.exec.reads.projectRunners`.
    #[serde(default)]
    pub(crate) project_runners: bool,
    /// Whether it is looked at without rule D1, which asks for the same words as other rules do.
    #[serde(skip)]
    pub(crate) without_delegation: bool,
    pub(crate) expect: String,
    pub(crate) why: String,
    /// The rule behind it, with an advisory where there is one.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
}

/// An allowlist entry of a case.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CaseEntry {
    pub(crate) pattern: String,
    pub(crate) arg_pattern: Option<String>,
    pub(crate) source: Option<String>,
}

/// The files of a case.
#[derive(Debug)]
pub(crate) struct CaseLookup {
    path_dirs: BTreeMap<String, String>,
    existing: BTreeSet<String>,
    realpaths: BTreeMap<String, String>,
}

impl CaseLookup {
    pub(crate) fn of(case: &Case) -> Self {
        let existing = case
            .path_dirs
            .values()
            .chain(&case.files)
            .chain(case.realpaths.keys())
            .cloned()
            .collect();
        Self {
            path_dirs: case.path_dirs.clone(),
            existing,
            realpaths: case.realpaths.clone(),
        }
    }
}

impl PathLookup for CaseLookup {
    fn search(&self, name: &str) -> Option<String> {
        self.path_dirs
            .get(name)
            .filter(|path| path.starts_with('/'))
            .cloned()
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

    fn real(&self, path: &str) -> Option<String> {
        // A command may make files there (G15).
        if path.starts_with("/tmp/") && !self.existing.contains(path) {
            return None;
        }
        Some(
            self.realpaths
                .get(path)
                .cloned()
                .unwrap_or_else(|| path.to_owned()),
        )
    }

    fn list(&self, directory: &str) -> Listing {
        let directory = paths::normalise(directory);
        self.real(&directory)
            .map_or(Listing::NotThere, |real| Listing::Names {
                real,
                names: names_in(&directory, self.existing.iter().map(String::as_str)),
            })
    }

    fn is_set(&self, _variable: &str) -> bool {
        false
    }

    fn home_variable(&self) -> Option<&str> {
        Some("/home/agent")
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/home/agent"
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

/// The names in a directory, by paths of what lies in it.
pub(crate) fn names_in<'a>(directory: &str, paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let directory = paths::normalise(directory);
    let names: BTreeSet<&str> = paths
        .filter_map(|path| {
            path.strip_prefix(directory.trim_end_matches('/'))?
                .strip_prefix('/')
        })
        .filter_map(|below| below.split('/').next())
        .collect();
    names.into_iter().map(str::to_owned).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    read_cases(include_str!("../../../../tests/data/corpus/commands.jsonl"))
}

pub(crate) fn read_cases(lines: &str) -> Vec<Case> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect()
}

fn evaluate(case: &Case) -> &'static str {
    evaluate_under(RuleSet::ALL, case)
}

/// `allow`, `ask` or `reject`.
pub(crate) fn evaluate_under(rules: RuleSet, case: &Case) -> &'static str {
    let Ok(env) = env_policy::check_overrides_under(rules, &case.env) else {
        return "reject";
    };
    // Blank text is refused by the API before it is analysed; the corpus judges the analysis.
    analyze_text_under(rules, case, &case.command, &env)
        .verdict
        .as_str()
}

fn analysis(case: &Case) -> Analysis {
    let env = env_policy::check_overrides(&case.env).unwrap_or_default();
    analyze_text(case, &case.command, &env)
}

fn analyze_text(case: &Case, text: &str, env: &EnvOverrides) -> Analysis {
    analyze_text_under(RuleSet::ALL, case, text, env)
}

fn analyze_text_under(rules: RuleSet, case: &Case, text: &str, env: &EnvOverrides) -> Analysis {
    let lookup = CaseLookup::of(case);
    let ids: Vec<String> = (0..case.allowlist.len())
        .map(|index| format!("entry-{index}"))
        .collect();
    let entries: Vec<Entry<'_>> = case
        .allowlist
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
    let agent = AgentId::main();
    let workspace = PinnedDirectory {
        path: case.cwd.clone(),
        dev: 1,
        ino: 1,
    };
    let temporary = PinnedDirectory {
        path: "/tmp".to_owned(),
        dev: 0,
        ino: 0,
    };
    let request = AnalysisRequest {
        cwd: &case.cwd,
        cwd_real: &case.cwd,
        env,
        agent: &agent,
        input: CommandInput::Closed,
        workspace: Some(&workspace),
        temporary: Some(&temporary),
        shell: Some(ShellKind::Bash),
    };
    let policy = AnalysisPolicy {
        grammar: Grammar {
            null_redirections: case.null_redirections,
            here_documents: case.here_documents,
            file_redirections: case.file_redirections,
            file_patterns: case.file_patterns,
            temporary_files: case.temporary_files,
            found_files: case.found_files,
            document_operands: case.document_operands,
            variables: case.variables,
            substitutions: case.substitutions,
            braces: case.braces,
            compound_commands: case.compound_commands,
            loops: case.loops,
            later_values: case.later_values,
            background_commands: case.background_commands,
            project_runners: case.project_runners,
        },
        entries: Entries::Listed(&entries),
        grants: &[],
        deny_rules: &[],
        safe_bins: &case.safe_bins,
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: &case.trusted_dirs,
        skills: &[],
        strict_inline_eval: case.strict_inline_eval,
        strict_delegation: !case.without_delegation,
        exact_text_grants: false,
        path_case: PathCase::Sensitive,
        keeps: Keeps {
            own_files: true,
            ..Keeps::default()
        },
        now: UnixMillis::new(0),
        protected: &Protected::default(),
        cache: &PatternCache::default(),
    };
    analyze_under(
        rules,
        &Command::Shell(text.to_owned()),
        &request,
        &policy,
        &lookup,
    )
}

#[test]
fn nothing_of_the_corpus_is_wrongly_allowed() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter(|case| case.expect != "allow" && evaluate(case) == "allow")
        .map(|case| format!("{}: {:?} ({})", case.id, case.command, case.why))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn bad_requests_are_told_from_misses() {
    for case in cases() {
        assert_eq!(
            case.expect == "reject",
            evaluate(&case) == "reject",
            "{}",
            case.id
        );
    }
}

#[test]
fn nothing_of_the_corpus_is_asked_without_need() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter(|case| case.expect == "allow" && evaluate(case) != "allow")
        .map(|case| format!("{}: {:?} {:?}", case.id, case.command, analysis(case).findings))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_corpus_is_complete() {
    let count = |expect: &str| cases().iter().filter(|case| case.expect == expect).count();
    assert_eq!((count("allow"), count("ask"), count("reject")), (182, 415, 51));
}

/// What is started is itself allowed, and means the same: analysing the rendering gives the same rendering.
#[test]
fn renderings_of_allowed_commands_are_allowed_and_stable() {
    for case in cases().iter().filter(|case| case.expect == "allow") {
        let first = analysis(case);
        let script = first.rendered.expect("an allowed command has a rendering");
        // A bare name is rendered as a path, which name entries rightly do not cover, and `cd --` is our own form.
        let renders_names = case
            .allowlist
            .iter()
            .any(|entry| !entry.pattern.contains('/') && entry.pattern != "*");
        if renders_names || script.contains("'cd'") {
            continue;
        }
        let mut again = analyze_text(case, &script, &EnvOverrides::default());
        assert_eq!(again.rendered.take(), Some(script), "{}", case.id);
        assert_eq!(again.verdict, AnalysisVerdict::Allow, "{}", case.id);
    }
}

#[test]
fn every_finding_points_into_the_source() {
    for case in cases() {
        for finding in analysis(&case).findings {
            let (start, end) = (finding.span.start as usize, finding.span.end as usize);
            assert!(
                start <= end && end <= case.command.len() && case.command.get(start..end).is_some(),
                "{}: {finding:?}",
                case.id
            );
        }
    }
}

#[test]
fn paths_in_the_corpus_are_what_the_lookup_expects() {
    for case in cases() {
        for path in case.files.iter().chain(case.realpaths.keys()) {
            assert_eq!(&paths::normalise(path), path, "{}", case.id);
        }
    }
}
