//! What is kept of commands, and what does not count because it cannot be.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use countersign_domain::{
    AgentId, Command, CommandInput, Confinement, EnvOverrides, FileIdentity, NotKept, PinnedDirectory,
    ProgramLimits, Startable, UnixMillis, WritePlace,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Analysis, AnalysisPolicy, AnalysisRequest, Entries, Entry, Grant, Keeps, Protected, Typing, analyze,
};
use crate::{
    command::{Code, DirectoryTrust, Inspected, PathLookup},
    confine::ConfineRule,
    pattern::{PathCase, PatternCache},
};

const BIN: &[&str] = &[
    "cat", "cp", "find", "git", "grep", "mkdir", "mv", "npm", "ping", "ssh", "timeout", "touch", "wc", "bash",
];
pub(super) const ALL: Keeps = Keeps {
    starts: true,
    lacks_starts: false,
    writes: true,
    connects: true,
    lets_gain: false,
    falls_back: false,
    own_files: false,
};

/// A machine with some programs, one of which is set-uid, and a directory that others may write to.
#[derive(Debug)]
struct Machine;

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        match name {
            "theirs" => Some("/opt/foreign/theirs".to_owned()),
            "copy" => Some("/usr/bin/copy".to_owned()),
            name => BIN.contains(&name).then(|| format!("/usr/bin/{name}")),
        }
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        // A link to a program of another name.
        if path == "/usr/bin/copy" {
            return self.inspect("/usr/bin/cp");
        }
        let is_there = path
            .strip_prefix("/usr/bin/")
            .is_some_and(|name| BIN.contains(&name))
            || ["/opt/foreign/theirs", "/home/agent/bin/tool", "/opt/x/cat"].contains(&path);
        is_there.then(|| Inspected {
            real: path.to_owned(),
            identity: FileIdentity {
                path: path.to_owned(),
                dev: 1,
                ino: path.bytes().map(u64::from).sum(),
                size: 1,
                mtime_ns: 0,
                ctime_ns: 0,
            },
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        match path {
            "/usr/lib/git-core" | "/srv/proj" | "/srv/proj/sub" | "/srv/tools" => Some(path.to_owned()),
            "/srv/all" => Some("/".to_owned()),
            path => self.inspect(path).map(|found| found.real),
        }
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/home/agent"
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        if directory == "/opt/foreign" {
            DirectoryTrust::Foreign
        } else {
            DirectoryTrust::Ours
        }
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }

    fn gains_privileges(&self, file: &FileIdentity) -> bool {
        file.path == "/usr/bin/ping"
    }
}

fn judge_in(keeps: Keeps, strict: bool, entries: &[(&str, Option<Value>)], text: &str) -> Analysis {
    judge_as(Held::Entries, keeps, strict, entries, text)
}

/// What says that programs may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Entries,
    Grants,
}

pub(super) fn judge_as(
    held: Held,
    keeps: Keeps,
    strict: bool,
    entries: &[(&str, Option<Value>)],
    text: &str,
) -> Analysis {
    let rules: Vec<Option<ConfineRule>> = entries
        .iter()
        .map(|(_, confine)| confine.as_ref().map(ConfineRule::read))
        .collect();
    let entries: Vec<Entry<'_>> = iter::zip(entries, &rules)
        .map(|((pattern, _), confine)| Entry {
            owner: "main",
            id: pattern,
            pattern,
            arg_pattern: None,
            source: None,
            command_sha256: None,
            typing: Typing::Nothing,
            confine: confine.as_ref(),
        })
        .collect();
    let grants: Vec<Grant<'_>> = entries
        .iter()
        .map(|entry| Grant {
            owner: entry.owner,
            id: entry.id,
            pattern: entry.pattern,
            arg_pattern: None,
            expires_at: None,
            max_uses: None,
            uses: 0,
            sha256: None,
            directory: None,
            is_of_other_session: false,
            typing: entry.typing,
            confine: entry.confine,
        })
        .collect();
    let (entries, grants) = match held {
        Held::Entries => (entries, Vec::new()),
        Held::Grants => (Vec::new(), grants),
    };
    let (env, agent) = (EnvOverrides::default(), AgentId::main());
    let workspace = PinnedDirectory {
        path: "/srv/proj".to_owned(),
        dev: 1,
        ino: 1,
    };
    let request = AnalysisRequest {
        cwd: "/srv/proj",
        cwd_real: "/srv/proj",
        env: &env,
        agent: &agent,
        input: CommandInput::Closed,
        workspace: Some(&workspace),
        temporary: None,
        shell: None,
    };
    let policy = AnalysisPolicy {
        grammar: crate::command::syntax::Grammar::WIDEST,
        entries: Entries::Listed(&entries),
        grants: &grants,
        deny_rules: &[],
        safe_bins: &[],
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: &[],
        skills: &[],
        strict_inline_eval: false,
        strict_delegation: strict,
        exact_text_grants: true,
        path_case: PathCase::Sensitive,
        keeps,
        now: UnixMillis::new(0),
        protected: &Protected::default(),
        cache: &PatternCache::default(),
    };
    analyze(&Command::Shell(text.to_owned()), &request, &policy, &Machine)
}

fn judge(keeps: Keeps, entries: &[(&str, Option<Value>)], text: &str) -> Analysis {
    judge_in(keeps, true, entries, text)
}

fn line(analysis: &Analysis) -> String {
    analysis.confinement.to_line()
}

fn code(analysis: &Analysis) -> Option<Code> {
    analysis.verdict.finding().map(|finding| finding.code)
}

fn git() -> (&'static str, Option<Value>) {
    ("/usr/bin/git", None)
}

fn confined(pattern: &'static str, confine: Value) -> (&'static str, Option<Value>) {
    (pattern, Some(confine))
}

#[test]
fn what_is_known_of_a_program_is_its_default() {
    let line_of = |entries: &[(&str, Option<Value>)], text| line(&judge(ALL, entries, text));
    assert_eq!(
        line_of(&[git()], "git log"),
        "git may start: git, ssh, below /usr/lib/git-core"
    );
    assert_eq!(
        line_of(&[("/usr/bin/npm", None)], "npm run x"),
        "may start anything"
    );
    assert_eq!(
        line_of(&[("/usr/bin/cat", None)], "cat x"),
        "cat may start: nothing else"
    );
    assert_eq!(
        line_of(&[git(), ("/usr/bin/npm", None)], "git log && npm run x"),
        "git may start: git, ssh, below /usr/lib/git-core | npm may start anything"
    );
    // Builtins are no programs.
    let moved = judge(ALL, &[git()], "cd /srv/tools && git log");
    assert_eq!(moved.confinement.programs.len(), 1);
    // Another name of the file that is not known may mean another program.
    assert_eq!(
        line_of(&[("/opt/x/cat", None)], "/opt/x/cat y"),
        "cat may start: nothing else"
    );
    // Where delegation is not strict, and where nothing can be kept, nothing is.
    assert_eq!(
        line(&judge_in(ALL, false, &[git()], "git log")),
        "may start anything"
    );
    let none = judge(Keeps::default(), &[git()], "git log");
    assert_eq!(none.confinement, Confinement::default());
    assert!(none.satisfied);
}

#[test]
fn an_entry_says_what_its_program_may_do() {
    let line_of = |confine, text| line(&judge(ALL, &[confined("/usr/bin/git", confine)], text));
    assert_eq!(
        line_of(
            json!({ "starts": ["ssh"], "writes": ["workspace", "~/x/"], "connects": [22] }),
            "git log"
        ),
        "git may start: ssh; may write: workspace, /home/agent/x; may connect to: 22"
    );
    assert_eq!(
        line_of(json!({ "starts": [] }), "git log"),
        "git may start: nothing else"
    );
    assert_eq!(
        line_of(
            json!({ "starts": ["judged", "~/bin/tool", "/srv/tools/**"] }),
            "git log"
        ),
        "git may start: tool, git, ssh, below /srv/tools, below /usr/lib/git-core"
    );
    assert_eq!(
        line_of(json!({ "starts": "any" }), "git log"),
        "may start anything"
    );
    // What is not there, lies where others write, or leads to everything is passed over.
    assert_eq!(
        line_of(
            json!({ "starts": ["absent", "theirs", "/nowhere/x", "/nowhere/**", "/srv/all/**"] }),
            "git log"
        ),
        "git may start: nothing else"
    );
    // `/opt/foreign/theirs` is named.
    assert_eq!(
        line_of(json!({ "starts": ["/opt/foreign/theirs"] }), "git log"),
        "git may start: theirs"
    );
}

/// The supervisor opens the files of redirections, and nothing keeps it to what an entry says of its program.
#[test]
fn an_entry_that_says_where_a_program_writes_covers_no_redirection_into_a_file() {
    for (confine, text, found) in [
        (
            json!({ "writes": ["workspace"] }),
            "git log > out",
            Some(Code::ConfineUnavailable),
        ),
        (
            json!({ "writes": ["tmp"] }),
            "git log 2>> out",
            Some(Code::ConfineUnavailable),
        ),
        (json!({ "writes": ["tmp"] }), "git log < in", None),
        (json!({ "writes": ["tmp"] }), "git log 2>/dev/null", None),
        (json!({ "starts": [] }), "git log > out", None),
    ] {
        let entries = [confined("/usr/bin/git", confine)];
        assert_eq!(code(&judge(ALL, &entries, text)), found, "{text}");
    }
}

#[test]
fn wrappers_and_payloads_start_what_is_inside() {
    let bash_git = judge(ALL, &[git(), ("/usr/bin/wc", None)], "bash -c 'git log | wc -l'");
    assert_eq!(
        line(&bash_git),
        "bash may start: git, wc, ssh, below /usr/lib/git-core"
    );
    let open = judge(
        ALL,
        &[git(), ("/usr/bin/npm", None)],
        "bash -c 'git log; npm run x'",
    );
    assert!(open.satisfied);
    assert_eq!(line(&open), "may start anything");
    let wrapped = judge(
        ALL,
        &[confined("/usr/bin/git", json!({ "starts": [] }))],
        "timeout 5 git log",
    );
    assert_eq!(line(&wrapped), "timeout may start: git");
}

#[test]
fn what_cannot_be_kept_does_not_cover() {
    let starts = json!({ "starts": ["ssh"] });
    let writes = json!({ "writes": ["workspace"] });
    let connects = json!({ "connects": [22] });
    let files = Keeps {
        starts: true,
        ..Keeps::default()
    };
    let truncate = Keeps {
        writes: true,
        ..files
    };
    for (keeps, confine, covers) in [
        (Keeps::default(), &starts, false),
        (files, &starts, true),
        (files, &writes, false),
        (truncate, &writes, true),
        (truncate, &connects, false),
        (ALL, &connects, true),
        (ALL, &json!({ "reads": [] }), false),
        (ALL, &json!({ "starts": ["a/b"] }), false),
        (
            Keeps::default(),
            &json!({ "starts": "any", "writes": "any" }),
            true,
        ),
    ] {
        let analysis = judge(keeps, &[confined("/usr/bin/git", confine.clone())], "git log");
        assert_eq!(analysis.satisfied, covers, "{confine} under {keeps:?}");
        if !covers {
            assert_eq!(code(&analysis), Some(Code::ConfineUnavailable), "{confine}");
            assert!(analysis.proposed_patterns.is_empty() && analysis.credited.is_empty());
        }
        let fallen = judge(
            Keeps {
                falls_back: true,
                ..keeps
            },
            &[confined("/usr/bin/git", confine.clone())],
            "git log",
        );
        let is_understood = ConfineRule::read(confine).understood().is_some();
        assert_eq!(fallen.satisfied, is_understood, "{confine}");
        let not_kept = (is_understood && !covers).then_some(NotKept::Unsupported);
        assert_eq!(fallen.confinement.not_kept, not_kept, "{confine}");
    }
    // Where it would be kept by default, the record says that it is not.
    let lacking = Keeps {
        lacks_starts: true,
        ..Keeps::default()
    };
    for (pattern, command, not_kept) in [
        ("/usr/bin/git", "git log", Some(NotKept::Unsupported)),
        ("/usr/bin/npm", "npm test", None),
    ] {
        let judged = judge(lacking, &[(pattern, None)], command);
        assert!(judged.satisfied, "{command}");
        assert_eq!(judged.confinement.not_kept, not_kept, "{command}");
        let elsewhere = judge(Keeps::default(), &[(pattern, None)], command);
        assert_eq!(elsewhere.confinement.not_kept, None, "{command}");
    }
    // Another entry may cover it.
    let two = [confined("/usr/bin/git", starts.clone()), ("/usr/bin/*", None)];
    assert!(judge(Keeps::default(), &two, "git log").satisfied);
    // A shell that looks for a name is not kept, nor is a command beside it.
    let any = [confined("*", json!({ "starts": [] }))];
    assert_eq!(
        code(&judge(ALL, &any, "nowhere x")),
        Some(Code::ConfineUnavailable)
    );
    let beside = [confined("/usr/bin/git", starts), ("*", None)];
    assert_eq!(
        code(&judge(ALL, &beside[..1], "git log && nowhere x")),
        Some(Code::NotFound)
    );
}

#[test]
fn one_part_of_a_text_does_not_let_out_what_an_entry_keeps_of_another() {
    let entries = [
        confined("/usr/bin/git", json!({ "starts": ["ssh"] })),
        ("/usr/bin/npm", None),
        ("/usr/bin/wc", None),
    ];
    let open = judge(ALL, &entries, "bash -c 'git log; npm run x'");
    assert_eq!(code(&open), Some(Code::ConfineUnavailable));
    assert!(judge(ALL, &entries, "bash -c 'git log | wc'").satisfied);
    assert!(judge(ALL, &entries, "git log; npm run x").satisfied);
}

#[test]
fn a_program_that_gains_privileges_opens_everything() {
    let gains = Keeps {
        lets_gain: true,
        ..ALL
    };
    let plain = judge(gains, &[git(), ("/usr/bin/ping", None)], "git log && ping x");
    assert!(plain.satisfied);
    assert_eq!(line(&plain), "not held: gains privileges");
    assert!(plain.confinement.programs.iter().all(ProgramLimits::is_open));
    let entries = [
        confined("/usr/bin/git", json!({ "starts": [] })),
        ("/usr/bin/ping", None),
    ];
    assert_eq!(
        code(&judge(gains, &entries, "git log && ping x")),
        Some(Code::ConfineUnavailable)
    );
    assert!(judge(gains, &entries, "git log").satisfied);
    assert!(judge(ALL, &entries, "git log && ping x").satisfied);
    let own = [confined("/usr/bin/ping", json!({ "starts": [] }))];
    assert_eq!(
        code(&judge(gains, &own, "ping x")),
        Some(Code::ConfineUnavailable)
    );
}

#[test]
fn a_list_stands_for_arguments_that_start_another() {
    let text = "find . -exec touch m ;";
    let text = text.replace(';', "\\;");
    let of = |keeps, confine: Value| judge(keeps, &[confined("/usr/bin/find", confine)], &text);
    assert_eq!(
        code(&judge(ALL, &[("/usr/bin/find", None)], &text)),
        Some(Code::Delegation)
    );
    assert!(of(ALL, json!({ "starts": [] })).satisfied);
    assert_eq!(
        line(&of(ALL, json!({ "starts": [] }))),
        "find may start: nothing else"
    );
    // Any program, no list, and what is not kept do not.
    assert_eq!(code(&of(ALL, json!({ "starts": "any" }))), Some(Code::Delegation));
    assert_eq!(code(&of(ALL, json!({ "writes": [] }))), Some(Code::Delegation));
    let fallen = Keeps {
        falls_back: true,
        ..Keeps::default()
    };
    assert_eq!(code(&of(fallen, json!({ "starts": [] }))), Some(Code::Delegation));
    let gains = Keeps {
        lets_gain: true,
        falls_back: true,
        ..ALL
    };
    let with_ping = [
        confined("/usr/bin/find", json!({ "starts": [] })),
        ("/usr/bin/ping", None),
    ];
    assert_eq!(
        code(&judge(gains, &with_ping, &format!("{text} && ping x"))),
        Some(Code::ConfineUnavailable)
    );
    // Inside of a shell's text it is not kept by itself.
    let inside = [
        confined("/usr/bin/find", json!({ "starts": [] })),
        ("/usr/bin/npm", None),
    ];
    let payload = "bash -c 'find . -exec touch m \";\"; npm run x'";
    assert!(!judge(ALL, &inside, payload).satisfied);
    // What it may write decides what starts later, and code that it loads is started by nobody.
    assert!(
        !judge(
            ALL,
            &[confined("/usr/bin/find", json!({ "starts": [] }))],
            "find . -fprint .git/config"
        )
        .satisfied
    );
    let gcc = [confined("/usr/bin/gcc", json!({ "starts": ["judged"] }))];
    assert_eq!(
        code(&judge(ALL, &gcc, "gcc -fplugin=./x.so x.c")),
        Some(Code::Delegation)
    );
    let git = [confined("/usr/bin/git", json!({ "starts": [] }))];
    assert!(!judge(ALL, &git, "git log --output=.git/config").satisfied);
}

#[test]
fn a_question_about_inert_programs_is_held_to_them() {
    assert_eq!(
        line(&judge(ALL, &[], "cat x | grep y")),
        "cat may start: nothing else | grep may start: nothing else"
    );
    assert_eq!(
        line(&judge(ALL, &[], "timeout 5 cat x")),
        "timeout may start: cat"
    );
    assert_eq!(line(&judge(ALL, &[], "git log")), "may start anything");
    assert_eq!(line(&judge(ALL, &[], "npm run x")), "may start anything");
}

/// `starts`, `writes` and `connects`; `None` is any.
type Strength = (
    Option<Vec<&'static str>>,
    Option<Vec<&'static str>>,
    Option<Vec<u16>>,
);

fn strength() -> impl Strategy<Value = Strength> {
    (
        prop::option::of(prop::sample::subsequence(
            vec!["judged", "ssh", "wc", "/srv/tools/**"],
            0..=4,
        )),
        prop::option::of(prop::sample::subsequence(vec!["workspace", "tmp", "/srv"], 0..=3)),
        prop::option::of(prop::sample::subsequence(vec![22, 80, 443], 0..=3)),
    )
}

fn value_of((starts, writes, connects): &Strength) -> Value {
    let mut members = serde_json::Map::new();
    members.insert(
        "starts".to_owned(),
        starts.as_ref().map_or_else(|| json!("any"), |list| json!(list)),
    );
    members.insert(
        "writes".to_owned(),
        writes.as_ref().map_or_else(|| json!("any"), |list| json!(list)),
    );
    members.insert(
        "connects".to_owned(),
        connects.as_ref().map_or_else(|| json!("any"), |list| json!(list)),
    );
    Value::Object(members)
}

fn is_no_wider(narrow: &ProgramLimits, wide: &ProgramLimits) -> bool {
    fn within<T>(narrow: Option<&T>, wide: Option<&T>, is_in: impl Fn(&T, &T) -> bool) -> bool {
        match (narrow, wide) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(narrow), Some(wide)) => is_in(narrow, wide),
        }
    }
    let starts = |narrow: &Vec<Startable>, wide: &Vec<Startable>| narrow.iter().all(|one| wide.contains(one));
    within(narrow.starts.as_ref(), wide.starts.as_ref(), starts)
        && within(
            narrow.writes.as_ref(),
            wide.writes.as_ref(),
            BTreeSet::<WritePlace>::is_subset,
        )
        && within(
            narrow.connects.as_ref(),
            wide.connects.as_ref(),
            BTreeSet::<u16>::is_subset,
        )
}

proptest! {
    #[test]
    fn a_stricter_entry_never_lets_more_be_done(
        one in strength(),
        two in strength(),
        text in prop::sample::select(vec!["git log", "timeout 5 git log", "git log | wc", "bash -c 'git log | wc'"]),
    ) {
        let (one, two) = (value_of(&one), value_of(&two));
        let within = crate::confine::is_within(Some(&ConfineRule::read(&one)), Some(&ConfineRule::read(&two)));
        let judged = |confine: &Value| {
            judge(ALL, &[confined("/usr/bin/git", confine.clone()), ("/usr/bin/wc", None)], text)
        };
        let (narrow, wide) = (judged(&one), judged(&two));
        // Equal inputs, equal value.
        prop_assert_eq!(&narrow, &judged(&one));
        if within && narrow.satisfied && wide.satisfied {
            // One without limits has no programs.
            for (narrow, wide) in iter::zip(&narrow.confinement.programs, &wide.confinement.programs) {
                prop_assert!(is_no_wider(narrow, wide), "{narrow:?} and {wide:?}");
            }
            if narrow.confinement.is_open() {
                prop_assert!(wide.confinement.is_open());
            }
        }
    }
}
