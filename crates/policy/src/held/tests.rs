use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, FileIdentity, UnixMillis};
use serde_json::json;

use super::{
    MAX_PROGRAMS, NotHeld, OF_THE_WORKSPACE, READS_REPOSITORY, Terms, WORKSPACE_TOOLS, expect_holdable,
    is_holdable_miss, programs,
};
use crate::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, DenyRule, Entries, Entry, Keeps, Protected, analyze,
    },
    command::{DirectoryTrust, Inspected, PathLookup, syntax::Grammar},
    confine::ConfineRule,
    pattern::{PathCase, PatternCache},
};

#[derive(Debug)]
struct Machine;

const FILES: &[&str] = &[
    "/usr/bin/awk",
    "/usr/bin/bash",
    "/usr/bin/busybox",
    "/usr/bin/cat",
    "/usr/bin/env",
    "/usr/bin/find",
    "/usr/bin/git",
    "/usr/bin/grep",
    "/usr/bin/nice",
    "/usr/bin/pgrep",
    "/usr/bin/python3.12",
    "/usr/bin/touch",
    "/usr/bin/vim.basic",
    "/usr/bin/wc",
    "/usr/bin/xargs",
    "/usr/lib/ld-linux-x86-64.so.2",
    "/home/a/bin/rg",
];

/// The workspace of the agent.
const WORKSPACE: &str = "/home/a/.openclaw/workspace";

const fn terms(strict_inline_eval: bool) -> Terms<'static> {
    Terms {
        named: &[],
        strict_inline_eval,
        workspace: WORKSPACE,
        directory: WORKSPACE,
    }
}

fn identity(path: &str) -> FileIdentity {
    FileIdentity {
        path: path.to_owned(),
        dev: 1,
        ino: u64::try_from(FILES.iter().position(|file| *file == path).unwrap()).unwrap(),
        size: 1,
        mtime_ns: 0,
        ctime_ns: 0,
    }
}

/// A machine on which every name is a program.
#[derive(Debug)]
struct Many;

impl PathLookup for Many {
    fn search(&self, name: &str) -> Option<String> {
        Some(format!("/usr/bin/{name}"))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        Some(Inspected {
            real: path.to_owned(),
            identity: FileIdentity {
                path: path.to_owned(),
                dev: 1,
                ino: 1,
                size: 1,
                mtime_ns: 0,
                ctime_ns: 0,
            },
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/home/a"
    }

    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        DirectoryTrust::Ours
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        let path = format!("/usr/bin/{name}");
        self.inspect(&path).map(|_found| path)
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let real = match path {
            "/usr/bin/python3" => "/usr/bin/python3.12",
            "/home/a/bin/cat" => "/usr/bin/cat",
            "/usr/bin/vi" => "/usr/bin/vim.basic",
            "/usr/bin/readelf2" => "/usr/bin/busybox",
            path => path,
        };
        FILES.contains(&real).then(|| Inspected {
            real: real.to_owned(),
            identity: identity(real),
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        self.inspect(path).map(|found| found.real)
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/home/a"
    }

    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        DirectoryTrust::Ours
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}

const fn entry(pattern: &str) -> Entry<'_> {
    Entry::plain("main", "1", pattern)
}

fn protected() -> Protected {
    Protected {
        own_binary: None,
        own_file: None,
        roots: vec!["/home/a/.openclaw".to_owned()],
        exceptions: vec!["/home/a/.openclaw/workspace".to_owned()],
    }
}

fn set_under(entries: &[Entry<'_>], terms: &Terms<'_>) -> Vec<String> {
    let found = programs(entries.iter().copied(), terms, &protected(), &Machine).unwrap();
    found.into_iter().map(|identity| identity.path).collect()
}

/// The set without the programs that any set has.
fn set(entries: &[Entry<'_>], strict: bool) -> Vec<String> {
    let mut found = set_under(entries, &terms(strict));
    found.retain(|path| !["env", "nice", "xargs"].iter().any(|name| path.ends_with(name)));
    found
}

#[test]
fn entries_for_any_arguments_of_one_program_of_the_system_count() {
    for (pattern, expected) in [
        ("/usr/bin/cat", Some("/usr/bin/cat")),
        ("grep", Some("/usr/bin/grep")),
        ("git", Some("/usr/bin/git")),
        ("awk", Some("/usr/bin/awk")),
        ("/usr/bin/python3", Some("/usr/bin/python3.12")),
        ("*", None),
        ("/usr/bin/*", None),
        ("gre*", None),
        ("bash", None),
        ("/usr/bin/busybox", None),
        ("/usr/bin/readelf2", None),
        ("env", None),
        ("xargs", None),
        ("pgrep", None),
        ("vi", None),
        ("/usr/lib/ld-linux-x86-64.so.2", None),
        ("/home/a/bin/rg", None),
        ("~/bin/rg", None),
        ("/usr/bin/nothing", None),
        ("=command:abc", None),
    ] {
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(set(&[entry(pattern)], false), expected, "{pattern}");
    }
    let narrow = [
        Entry {
            arg_pattern: Some("^x$"),
            ..entry("cat")
        },
        Entry {
            source: Some("allow-always"),
            ..entry("cat")
        },
        Entry {
            command_sha256: Some("00"),
            ..entry("cat")
        },
    ];
    assert!(set(&narrow, false).is_empty());
    assert_eq!(
        set(&[narrow[0], entry("cat"), entry("/usr/bin/cat")], false),
        ["/usr/bin/cat"]
    );
}

#[test]
fn interpreters_are_in_it_unless_inline_code_needs_a_person() {
    let entries = [entry("python3"), entry("awk"), entry("wc")];
    assert_eq!(
        set(&entries, false),
        ["/usr/bin/awk", "/usr/bin/python3.12", "/usr/bin/wc"]
    );
    assert_eq!(set(&entries, true), ["/usr/bin/wc"]);
}

#[test]
fn what_starts_its_words_is_in_every_set_but_an_empty_one() {
    let with = |entries: &[Entry<'_>]| set_under(entries, &terms(false));
    assert_eq!(
        with(&[entry("cat")]),
        ["/usr/bin/cat", "/usr/bin/env", "/usr/bin/nice", "/usr/bin/xargs"]
    );
    assert!(with(&[]).is_empty());
    assert!(with(&[entry("xargs"), entry("env")]).is_empty());
}

#[test]
fn an_entry_that_confines_counts_where_the_walls_keep_no_less() {
    let counts = |confine: serde_json::Value, terms: &Terms<'_>| {
        let confine = ConfineRule::read(&confine);
        let entry = Entry {
            confine: Some(&confine),
            ..entry("cat")
        };
        !set_under(&[entry], terms).is_empty()
    };
    let here = terms(false);
    let below = Terms {
        directory: "/home/a/.openclaw/workspace/sub",
        ..here
    };
    for confine in [
        json!({ "starts": [] }),
        json!({ "starts": ["xz"] }),
        json!({ "starts": "judged" }),
        json!({ "starts": "any" }),
        json!({ "connects": [] }),
        json!({ "connects": [443] }),
        json!({ "writes": ["tmp", "~/.openclaw/"] }),
        json!({ "writes": [WORKSPACE] }),
    ] {
        assert!(counts(confine.clone(), &here), "{confine}");
        assert!(counts(confine.clone(), &below), "{confine}");
    }
    // Below the directory of the call: the text writes all of the workspace.
    assert!(counts(json!({ "writes": ["workspace"], "starts": [] }), &here));
    assert!(!counts(json!({ "writes": ["workspace"], "starts": [] }), &below));
    for confine in [
        json!({ "writes": [] }),
        json!({ "writes": ["tmp"] }),
        json!({ "writes": ["/home/a/.openclaw/workspace/sub"] }),
        json!({ "writes": ["/home/a/.openclaw/work"] }),
        json!({ "more": true }),
        json!("none"),
    ] {
        assert!(!counts(confine.clone(), &here), "{confine}");
    }
    // One that says nothing counts beside it.
    let narrow = ConfineRule::read(&json!({ "writes": [] }));
    let narrow = Entry {
        confine: Some(&narrow),
        ..entry("cat")
    };
    assert_eq!(set(&[narrow, entry("cat")], false), ["/usr/bin/cat"]);
    // And no argument pattern counts for its confinement.
    let starts_none = ConfineRule::read(&json!({ "starts": [] }));
    let some = Entry {
        arg_pattern: Some("^x$"),
        confine: Some(&starts_none),
        ..entry("cat")
    };
    assert!(set_under(&[some], &here).is_empty());
}

#[test]
fn a_set_has_a_limit() {
    let names: Vec<String> = (0..=MAX_PROGRAMS).map(|at| format!("/usr/bin/p{at}")).collect();
    let entries = names.iter().map(|name| entry(name));
    let found = programs(entries.clone().skip(1), &terms(false), &protected(), &Many);
    assert_eq!(found.map(|found| found.len()), Ok(MAX_PROGRAMS));
    let found = programs(entries.clone().skip(3), &terms(false), &protected(), &Many);
    assert_eq!(found.map(|found| found.len()), Ok(MAX_PROGRAMS));
    let found = programs(entries, &terms(false), &protected(), &Many);
    assert_eq!(found, Err(NotHeld::TooMany));
}

fn analysis(text: &str, entries: &[Entry<'_>], deny_rules: &[DenyRule<'_>]) -> Analysis {
    analyze(
        &Command::Shell(text.to_owned()),
        &AnalysisRequest {
            cwd: WORKSPACE,
            cwd_real: WORKSPACE,
            env: &EnvOverrides::default(),
            agent: &AgentId::parse("main").unwrap(),
            input: CommandInput::Closed,
            workspace: None,
            temporary: None,
            shell: None,
        },
        &AnalysisPolicy {
            grammar: Grammar::default(),
            keeps: Keeps::default(),
            entries: Entries::Listed(entries),
            grants: &[],
            deny_rules,
            safe_bins: &[],
            safe_bin_profiles: &std::collections::BTreeMap::new(),
            trusted_dirs: &[],
            skills: &[],
            strict_inline_eval: false,
            strict_delegation: true,
            exact_text_grants: false,
            path_case: PathCase::Sensitive,
            now: UnixMillis::new(0),
            protected: &protected(),
            cache: &PatternCache::default(),
        },
        &Machine,
    )
}

fn judged(text: &str, deny_rules: &[DenyRule<'_>]) -> Result<(), NotHeld> {
    judged_under(text, deny_rules, &terms(false))
}

fn judged_under(text: &str, deny_rules: &[DenyRule<'_>], terms: &Terms<'_>) -> Result<(), NotHeld> {
    let entries = [
        entry("cat"),
        entry("find"),
        entry("git"),
        entry("grep"),
        entry("wc"),
    ];
    let set = programs(entries, terms, &protected(), &Machine).unwrap();
    expect_holdable(
        text,
        &analysis(text, &entries, deny_rules),
        &set,
        terms,
        &protected(),
        &Machine,
    )
}

#[test]
fn only_what_cannot_be_taken_apart_and_starts_nothing_else_is_held() {
    for text in [
        "for f in *.txt; do wc -l \"$f\"; done",
        "cat $(grep -l x *) | wc -c",
        "cat <<EOF > out\ntouch m\nEOF",
        "grep x /home/a/.openclaw/workspace/* && cat ~/.openclaw/workspace/$f",
        "f() { wc \"$@\"; }; f *",
        "/usr/bin/cat *",
        "env A=1 nice -n 5 cat * | xargs -n 1 grep x",
    ] {
        assert_eq!(judged(text, &[]), Ok(()), "{text}");
    }
    let unlisted = |word: &str| Err(NotHeld::Unlisted(word.to_owned()));
    for (text, expected) in [
        ("for f in *; do touch \"$f\"; done", unlisted("touch")),
        ("cat $(id)", unlisted("id")),
        ("./run.sh $x", unlisted("./run.sh")),
        ("bash -c \"$x\"", unlisted("bash")),
        ("cat ~/.openclaw/openclaw.json $x", Err(NotHeld::Protected)),
        ("cat \"$HOME/.openclaw/\"*", Err(NotHeld::Protected)),
        ("cat /home/a/.openclaw/workspace/../countersign/$x", Ok(())),
    ] {
        assert_eq!(judged(text, &[]), expected, "{text}");
    }
    for text in ["touch m", "cat a | touch m", "cat f", "cat 'a"] {
        assert!(matches!(judged(text, &[]), Err(NotHeld::Understood(_))), "{text}");
        assert!(
            !is_holdable_miss(&analysis(text, &[entry("cat")], &[]), false),
            "{text}"
        );
    }
    // While there are deny rules, a person looks at what is not understood.
    let rule = DenyRule {
        owner: "main",
        id: "1",
        pattern: "rm",
        arg_pattern: None,
        reason: None,
        children: false,
        is_of_text: false,
    };
    assert!(matches!(judged("cat $x", &[rule]), Err(NotHeld::Understood(_))));
    assert_eq!(judged("cat $x", &[]), Ok(()));
}

#[test]
fn what_listed_programs_would_start_is_kept_as_well() {
    for text in [
        "find . -exec grep -l x {} +",
        "find . -execdir cat {} ; && cat f",
        "cat list | xargs grep x",
        "cat list | xargs -I {} wc -l {} | nice grep x",
        "X=1 cat f",
        "env -u X cat f",
        "env -S 'touch m'",
        "xargs",
    ] {
        let text = text.replace(" ;", " \\;");
        assert_eq!(judged(&text, &[]), Ok(()), "{text}");
    }
    let unlisted = |word: &str| Err(NotHeld::Unlisted(word.to_owned()));
    for (text, expected) in [
        ("find . -exec touch m ;", unlisted("touch")),
        ("find . -name x -ok ./run {} ;", unlisted("./run")),
        ("cat list | xargs touch", unlisted("touch")),
        ("cat list | xargs -n 1 bash -c x", unlisted("bash")),
    ] {
        let text = text.replace(" ;", " \\;");
        assert_eq!(judged(&text, &[]), expected, "{text}");
    }
    for text in [
        // More than to start others, or a program for which there is no entry.
        "git -c core.pager=x log",
        "find . -exec grep x {} + | sudo wc",
        "touch m | xargs cat",
        "cat f | xargs cat; touch m",
        "sh -c 'find . -exec grep x {} +'",
        "parallel cat",
        "find . -exec cat ~/.openclaw/openclaw.json {} +",
        "find /home/a/.openclaw -exec cat {} +",
    ] {
        assert!(matches!(judged(text, &[]), Err(NotHeld::Understood(_))), "{text}");
    }
}

#[test]
fn programs_that_are_named_are_in_the_set_and_run_held_where_they_have_no_entry() {
    let named = [
        "awk",
        "/usr/bin/python3",
        "bash",
        "gre*",
        "*",
        "/home/a/bin/rg",
        "sudo",
        "cat",
    ];
    let named = named.map(str::to_owned);
    let with = |strict_inline_eval| Terms {
        named: &named,
        ..terms(strict_inline_eval)
    };
    let starters = ["/usr/bin/env", "/usr/bin/nice", "/usr/bin/xargs"];
    let found = set_under(&[], &with(false));
    assert_eq!(
        found,
        [
            "/usr/bin/awk",
            "/usr/bin/cat",
            starters[0],
            starters[1],
            "/usr/bin/python3.12",
            starters[2]
        ]
    );
    assert_eq!(
        set_under(&[], &with(true)),
        ["/usr/bin/cat", starters[0], starters[1], starters[2]]
    );
    let judged = |text: &str| judged_under(text, &[], &with(false));
    for text in [
        "awk '{ print $1 }' f",
        "cat f | python3 -c 'print(1)' | wc -l",
        "for f in *; do awk 1 \"$f\"; done",
        "nice awk 1 f && find . -exec awk 1 {} +",
    ] {
        assert_eq!(judged(text), Ok(()), "{text}");
        assert!(judged_under(text, &[], &terms(false)).is_err(), "{text}");
    }
    let unlisted = |word: &str| Err(NotHeld::Unlisted(word.to_owned()));
    assert_eq!(judged("for f in *; do touch \"$f\"; done"), unlisted("touch"));
    assert_eq!(judged("awk 1 f | xargs touch"), unlisted("touch"));
    for text in [
        "touch m",
        "awk 1 f; touch m",
        "awk 1 ~/.openclaw/openclaw.json",
        "git -c core.pager=x log | awk 1",
        "bash -c 'awk 1 f'",
    ] {
        assert!(matches!(judged(text), Err(NotHeld::Understood(_))), "{text}");
    }
    let text = "awk 1 f";
    assert!(is_holdable_miss(&analysis(text, &[], &[]), true));
    assert!(!is_holdable_miss(&analysis(text, &[], &[]), false));
}

#[test]
fn a_link_elsewhere_does_not_choose_what_is_in_the_set() {
    assert_eq!(set(&[entry("/home/a/bin/cat")], false), [""; 0]);
    assert!(set(&[entry("/usr/bin/cat")], false).contains(&"/usr/bin/cat".to_owned()));
}

#[test]
fn what_may_write_a_file_that_decides_what_starts_is_asked_about() {
    let named = ["touch".to_owned()];
    let terms = Terms {
        named: &named,
        ..terms(false)
    };
    let entries = [entry("touch")];
    let set = programs(entries, &terms, &protected(), &Machine).unwrap();
    for (text, is_held) in [
        ("touch $x m", true),
        ("touch .npmrc", false),
        ("touch .envrc", false),
    ] {
        let analysis = analysis(text, &entries, &[]);
        let judged = expect_holdable(text, &analysis, &set, &terms, &protected(), &Machine);
        assert_eq!(judged.is_ok(), is_held, "{text}: {judged:?}");
    }
}

#[test]
fn tools_of_the_workspace_are_named_together() {
    let named = [WORKSPACE_TOOLS.to_owned()];
    let terms = Terms {
        named: &named,
        ..terms(false)
    };
    let set = programs([], &terms, &Protected::default(), &Machine).unwrap();
    let has = |name: &str| set.iter().any(|program| program.path.ends_with(name));
    for name in ["/cat", "/awk", "/git", "/python3.12", "/touch", "/xargs"] {
        assert!(has(name), "{name}: {set:?}");
    }
    for name in ["/bash", "/busybox", "/vim.basic", "/pgrep"] {
        assert!(!has(name), "{name}: {set:?}");
    }
    let strict = Terms {
        strict_inline_eval: true,
        ..terms
    };
    let set = programs([], &strict, &Protected::default(), &Machine).unwrap();
    assert!(
        !set.iter().any(|program| program.path.contains("python")),
        "{set:?}"
    );
    let judged = |text: &str| {
        let analysis = analysis(text, &[], &[]);
        expect_holdable(
            text,
            &analysis,
            &set_of(&terms),
            &terms,
            &Protected::default(),
            &Machine,
        )
    };
    for text in [
        "git log $x",
        "cat f && touch x",
        "git branch; for f in *; do git show \"$f\"; done",
        "python3 -c 1",
    ] {
        assert_eq!(judged(text), Ok(()), "{text}");
    }
    for text in [
        "git push $x",
        "git branch -D $x",
        "git log; git commit -m $x",
        "timeout 5 git fetch $x",
        "git $x",
    ] {
        assert!(
            matches!(judged(text), Err(NotHeld::Unlisted(_))),
            "{text}: {:?}",
            judged(text)
        );
    }
    for text in [
        "cat f $x && touch .envrc",
        "cat f $x > a/.bashrc",
        "touch \"a/.git/config\" $x",
        "for f in *; do cat < .npmrc; done",
    ] {
        assert!(
            matches!(judged(text), Err(NotHeld::Deciding(_))),
            "{text}: {:?}",
            judged(text)
        );
    }
    assert_eq!(judged("cat f $x && touch a.envrc"), Ok(()));
    assert!(judged("pgrep x; cat f").is_err());
}

fn set_of(terms: &Terms<'_>) -> Vec<FileIdentity> {
    programs([], terms, &Protected::default(), &Machine).unwrap()
}

/// The page for people has the same names.
#[test]
fn the_page_lists_the_tools_of_the_workspace() {
    let page = include_str!("../../../../docs/held-texts.md");
    let block = page
        .split("```text\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let mut listed: Vec<&str> = block.expect("a list").split_whitespace().collect();
    let mut known = OF_THE_WORKSPACE.to_vec();
    known.sort_unstable();
    assert!(listed.is_sorted());
    listed.sort_unstable();
    assert_eq!(listed, known);
    for command in READS_REPOSITORY {
        assert!(page.contains(command), "{command}");
    }
}

/// What a loop or a value makes a miss is left to the walls.
#[test]
fn what_is_not_read_of_a_loop_runs_held() {
    let entries = ["cat", "grep", "touch"].map(|name| Entry::plain("main", name, name));
    let set = programs(entries, &terms(false), &Protected::default(), &Machine).unwrap();
    let judged = |text: &str| {
        let analysis = analysis(text, &entries, &[]);
        expect_holdable(
            text,
            &analysis,
            &set,
            &terms(false),
            &Protected::default(),
            &Machine,
        )
    };
    for text in [
        "while read -r l; do cd \"$l\"; done",
        "while cat f; do cd sub; done",
        "v=a; while cat $v; do v=b; done",
        "l=$(cat f); touch \"$l\"",
        "l=$(cat f) grep x f",
        "cat f | while read -r a b; do grep \"$a\" \"$b\"; done",
        "cat *.md & grep x f; wait $!",
    ] {
        assert_eq!(judged(text), Ok(()), "{text}");
    }
    assert!(judged("while read -r l; do pgrep \"$l\"; done").is_err());
}
