//! What holds for any command: more text covers nothing more, a stricter policy allows nothing more, and the work grows
//! no faster than the text.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, AnalysisVerdict, DenyRule, Entries, Entry, Keeps,
        Protected, Typing, analyze,
    },
    command::{
        self, DirectoryTrust, Inspected, PathLookup,
        rendering::{PlanPart, StepKind},
    },
    pattern::{PathCase, PatternCache},
};
use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, FileIdentity, UnixMillis};
use proptest::prelude::*;

const PROGRAMS: &[&str] = &[
    "rg", "git", "sh", "env", "timeout", "nice", "head", "rm", "sudo", "python3", "tool", "cat",
];

/// A machine that counts what it is asked.
#[derive(Debug, Default)]
struct Machine(AtomicUsize);

impl Machine {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        self.count();
        PROGRAMS.contains(&name).then(|| format!("/usr/bin/{name}"))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        self.count();
        let name = path.rsplit('/').next()?;
        PROGRAMS.contains(&name).then(|| Inspected {
            real: path.to_owned(),
            identity: FileIdentity {
                path: path.to_owned(),
                dev: 1,
                ino: path.len() as u64,
                size: 1,
                mtime_ns: 0,
                ctime_ns: 0,
            },
        })
    }

    /// Directories called `a` are there, wherever.
    fn real(&self, path: &str) -> Option<String> {
        self.count();
        let exists = path
            .split('/')
            .all(|part| matches!(part, "" | "." | ".." | "a" | "srv"));
        exists.then(|| path.to_owned())
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        self.count();
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

/// A policy by its parts, each of which makes it looser or stricter.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part of a policy of its own"
)]
struct Strictness {
    /// Which of [`ENTRIES`] are left.
    entries: Vec<bool>,
    safe_bins: bool,
    trusted_dir: bool,
    strict_inline_eval: bool,
    strict_delegation: bool,
    deny_rule: bool,
    protected: bool,
    sensitive: bool,
}

const ENTRIES: &[(&str, Option<&str>)] = &[
    ("/usr/bin/rg", None),
    ("git", None),
    ("/usr/bin/python3", None),
    ("/usr/bin/sh", Some("^-c rg")),
    ("/usr/bin/sudo", Some("^rg")),
    ("/opt/**", None),
    ("*", None),
];

impl Strictness {
    fn loosest() -> Self {
        Self {
            entries: vec![true; ENTRIES.len()],
            safe_bins: true,
            trusted_dir: true,
            strict_inline_eval: false,
            strict_delegation: false,
            deny_rule: false,
            protected: false,
            sensitive: false,
        }
    }

    /// Two entries and a safe bin.
    fn usual() -> Self {
        Self {
            entries: vec![true, true, false, false, false, false, false],
            strict_delegation: true,
            protected: true,
            sensitive: true,
            ..Self::loosest()
        }
    }

    /// The stricter of two in every part.
    fn and(&self, other: &Self) -> Self {
        Self {
            entries: self
                .entries
                .iter()
                .zip(&other.entries)
                .map(|(one, other)| *one && *other)
                .collect(),
            safe_bins: self.safe_bins && other.safe_bins,
            trusted_dir: self.trusted_dir && other.trusted_dir,
            strict_inline_eval: self.strict_inline_eval || other.strict_inline_eval,
            strict_delegation: self.strict_delegation || other.strict_delegation,
            deny_rule: self.deny_rule || other.deny_rule,
            protected: self.protected || other.protected,
            sensitive: self.sensitive || other.sensitive,
        }
    }
}

fn any_strictness() -> impl Strategy<Value = Strictness> {
    let parts = (
        prop::collection::vec(any::<bool>(), ENTRIES.len()),
        any::<[bool; 7]>(),
    );
    parts.prop_map(|(entries, flags)| {
        let [
            safe_bins,
            trusted_dir,
            strict_inline_eval,
            strict_delegation,
            deny_rule,
            protected,
            sensitive,
        ] = flags;
        Strictness {
            entries,
            safe_bins,
            trusted_dir,
            strict_inline_eval,
            strict_delegation,
            deny_rule,
            protected,
            sensitive,
        }
    })
}

fn analysis(text: &str, strictness: &Strictness, machine: &Machine) -> Analysis {
    let entries: Vec<Entry<'_>> = ENTRIES
        .iter()
        .zip(&strictness.entries)
        .filter(|(_, kept)| **kept)
        .map(|((pattern, arg_pattern), _)| Entry {
            owner: "main",
            id: pattern,
            pattern,
            arg_pattern: *arg_pattern,
            source: None,
            command_sha256: None,
            typing: Typing::Nothing,
            confine: None,
        })
        .collect();
    let deny = [DenyRule {
        owner: "*",
        id: "git",
        pattern: "GIT",
        arg_pattern: None,
        reason: None,
        children: false,
        is_of_text: false,
    }];
    let protected = Protected {
        roots: vec!["/home/agent/.state".to_owned()],
        ..Protected::default()
    };
    let nothing = Protected::default();
    let safe_bins = ["head".to_owned()];
    let trusted = ["/opt".to_owned()];
    let (env, agent) = (EnvOverrides::default(), AgentId::main());
    let request = AnalysisRequest {
        cwd: "/srv/a",
        cwd_real: "/srv/a",
        env: &env,
        agent: &agent,
        input: CommandInput::Closed,
        workspace: None,
        temporary: None,
        shell: None,
    };
    let policy = AnalysisPolicy {
        grammar: command::syntax::Grammar::default(),
        entries: Entries::Listed(&entries),
        grants: &[],
        deny_rules: if strictness.deny_rule { &deny } else { &[] },
        safe_bins: if strictness.safe_bins { &safe_bins } else { &[] },
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: if strictness.trusted_dir { &trusted } else { &[] },
        skills: &[],
        strict_inline_eval: strictness.strict_inline_eval,
        strict_delegation: strictness.strict_delegation,
        exact_text_grants: false,
        path_case: if strictness.sensitive {
            PathCase::Sensitive
        } else {
            PathCase::Insensitive
        },
        keeps: Keeps::default(),
        now: UnixMillis::new(0),
        protected: if strictness.protected {
            &protected
        } else {
            &nothing
        },
        cache: &PatternCache::default(),
    };
    analyze(&Command::Shell(text.to_owned()), &request, &policy, machine)
}

fn allows(text: &str, strictness: &Strictness) -> bool {
    analysis(text, strictness, &Machine::default()).verdict == AnalysisVerdict::Allow
}

/// Commands and pieces of them, in any order.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "rg",
        "rg x",
        "git status",
        "git -c a.b=c log",
        "rm x",
        "sudo rg",
        "head",
        "head -n 5",
        "head f",
        "env ",
        "timeout 5 ",
        "nice -n 5 ",
        "sh -c 'rg x'",
        "sh -c 'rm x'",
        "sh -c \"git log; rg y\"",
        "sh x",
        "python3 -c 1",
        "python3 a.py",
        "LANG=C ",
        "FOO=1 ",
        "cd a",
        "cd ~",
        "./tool",
        "/opt/tool x",
        "~/.state/x",
        "x=~/a",
        "true",
        "pwd",
        " ",
        " ",
        " && ",
        " || ",
        "; ",
        " | ",
        "\n",
        " # ",
        "'",
        "\"",
        "\\",
        "$x",
        "*",
        " > f",
        "&",
        "(",
        ")",
        "{",
        "}",
        "/USR/BIN/RG x",
    ]);
    prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

/// The programs that a plan starts, wrappers left out; payloads are read again.
fn started(analysis: &Analysis) -> Vec<String> {
    const WRAPPERS: [&str; 3] = ["/usr/bin/env", "/usr/bin/timeout", "/usr/bin/nice"];
    let plan = analysis.plan.as_ref().expect("an allowed command has a plan");
    let parts = plan.items.iter().flat_map(|item| &item.parts);
    let steps = parts.map(|part| match part {
        PlanPart::Step(step) => step,
        other @ (PlanPart::All(_)
        | PlanPart::Apart(_)
        | PlanPart::Choice { .. }
        | PlanPart::Turns { .. }
        | PlanPart::Set { .. }
        | PlanPart::Background(_)
        | PlanPart::Wait) => panic!("{other:?}"),
    });
    let mut vectors: Vec<Vec<String>> = steps
        .filter(|step| step.kind == StepKind::Program)
        .map(|step| step.words.clone())
        .collect();
    let mut programs = Vec::new();
    while let Some(words) = vectors.pop() {
        let mut inner = words.as_slice();
        while inner
            .first()
            .is_some_and(|word| WRAPPERS.contains(&word.as_str()))
        {
            let next = inner.iter().skip(1).position(|word| word.starts_with('/'));
            inner = &inner[1 + next.expect("a program behind the wrapper")..];
        }
        let program = inner.first().expect("a program");
        if program != "/usr/bin/sh" {
            programs.push(program.clone());
            continue;
        }
        let payload = inner.last().expect("a payload");
        for segment in command::parse(payload).expect("it was read before").segments() {
            let words: Vec<String> = segment.words.iter().map(|word| word.value.clone()).collect();
            // Builtins stay as they were typed.
            if words[0].starts_with('/') {
                vectors.push(words);
            }
        }
    }
    programs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_stricter_policy_never_allows_more(
        text in any_text(),
        one in any_strictness(),
        other in any_strictness(),
    ) {
        if allows(&text, &one.and(&other)) {
            prop_assert!(allows(&text, &one), "{one:?}");
            prop_assert!(allows(&text, &other), "{other:?}");
        }
    }

    #[test]
    fn what_is_allowed_starts_only_what_entries_name(text in any_text()) {
        let analysis = analysis(&text, &Strictness::usual(), &Machine::default());
        if analysis.verdict == AnalysisVerdict::Allow {
            for program in started(&analysis) {
                let is_covered = ["/usr/bin/rg", "/usr/bin/git", "/usr/bin/head"].contains(&program.as_str());
                prop_assert!(is_covered, "{program} of {text:?}");
            }
        }
    }

    /// A miss stays one whatever stands before and behind it, as long as it is still a command there.
    #[test]
    fn more_text_never_covers_a_miss(
        miss in prop::sample::select(vec![
            "rm x", "sudo rg", "sh script.sh", "FOO=1 rg x", "rg x > f", "rg $x", "head f", "git -c a.b=c log",
            "env -i rg x", "rg *", "sh -c 'rm x'", "cat ~/.state/x", "nosuch",
        ]),
        before in prop::collection::vec(prop::sample::select(vec![
            "rg y && ", "rg y; ", "rg y | ", "true || ", "false && ", "cd a && ", "LANG=C ", "env ", "timeout 5 ",
            "nice -n 5 ", "# c\n", "\n ", " ", "git log\n", "rg 'a b' | ", "sh -c 'rg x' && ",
        ]), 0..4),
        behind in prop::collection::vec(prop::sample::select(vec![
            " && rg y", "; rg y", " | rg y", " || true", "\nrg y", " # c", " x", " 'y'", " --", "; cd a", " -- -x",
            " | head -n 5",
        ]), 0..4),
    ) {
        let text = format!("{}{miss}{}", before.concat(), behind.concat());
        prop_assert!(!allows(&text, &Strictness::usual()), "{text:?}");
    }

    #[test]
    fn any_text_is_judged_and_findings_point_into_it(text in any::<String>()) {
        let analysis = analysis(&text, &Strictness::usual(), &Machine::default());
        for finding in &analysis.findings {
            let span = finding.span.start as usize..finding.span.end as usize;
            prop_assert!(text.get(span).is_some(), "{finding:?}");
        }
    }
}

/// The usual policy covers something, so the properties above are not empty.
#[test]
fn the_usual_policy_allows_ordinary_commands() {
    for text in [
        "rg x",
        "git status | head -n 5",
        "cd a && rg x",
        "timeout 5 sh -c 'rg x; git log'",
        "rg 'a b'\nLANG=C git status",
    ] {
        assert!(allows(text, &Strictness::usual()), "{text}");
    }
    let analysis = analysis(
        "nice env rg x | sh -c 'git status && pwd'",
        &Strictness::usual(),
        &Machine::default(),
    );
    assert_eq!(started(&analysis), ["/usr/bin/git", "/usr/bin/rg"]);
}

/// What the file system is asked grows with the text and no faster, and is bounded where text could make it more.
#[test]
fn questions_to_the_file_system_grow_with_the_text() {
    let asked = |unit: &str, size: usize| {
        let machine = Machine::default();
        let text = format!("rg {}", unit.repeat(size / unit.len()));
        let verdict = analysis(&text, &Strictness::usual(), &machine).verdict;
        (machine.0.into_inner(), verdict)
    };
    for unit in [
        "x ", "a/ ", "=", "=/", "=a/", ",b/c", "/a", "/b", "..", "../", "a/../", "~/ ", ":/a/b/c",
    ] {
        let (half, _) = asked(unit, 4_000);
        let (whole, verdict) = asked(unit, 8_000);
        assert!(
            whole <= 2 * half + 64,
            "{unit:?}: {half} and {whole} for twice as much"
        );
        assert!(whole <= 70_000, "{unit:?}: {whole}");
        // What was not looked at to its end is not allowed.
        if unit == "=" {
            assert!(matches!(verdict, AnalysisVerdict::Ask(_)), "{verdict:?}");
        }
    }
}
