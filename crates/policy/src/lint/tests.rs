//! Each remark has a rule that earns it and one beside it that does not.

use std::collections::BTreeMap;

use countersign_domain::{FileIdentity, UnixMillis};

use super::*;

use crate::{
    allowlist::{DenyRule, Entry, Grant, Typing},
    command::{DirectoryTrust, Inspected, PathLookup},
    pattern::{PathCase, PatternCache, cwd_argv_pattern},
};

/// A machine with a few directories, links and files.
#[derive(Debug)]
struct Machine;

const THERE: &[&str] = &[
    "/",
    "/usr/bin",
    "/usr/bin/git",
    "/usr/bin/rg",
    "/usr/bin/python3.12",
    "/usr/bin/bash",
    "/usr/bin/env",
    "/usr/bin/sudo",
    "/usr/bin/busybox",
    "/usr/bin/hg",
    "/opt/tools",
    "/opt/tools/build",
    "/srv/shared",
    "/srv/shared/x",
    "/opt",
    "/home/agent",
    "/home/agent/bin",
];

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        let path = format!("/usr/bin/{name}");
        self.real(&path).map(|_| path)
    }

    fn inspect(&self, _path: &str) -> Option<Inspected> {
        None
    }

    fn real(&self, path: &str) -> Option<String> {
        let path = path
            .strip_prefix("/bin")
            .map_or_else(|| path.to_owned(), |rest| format!("/usr/bin{rest}"));
        let path = match path.as_str() {
            "/usr/bin/python3" => "/usr/bin/python3.12",
            "/usr/bin/ls-of-box" => "/usr/bin/busybox",
            other => other,
        };
        THERE.contains(&path).then(|| path.to_owned())
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/home/agent"
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        if directory == "/srv/shared" {
            DirectoryTrust::Foreign
        } else {
            DirectoryTrust::Ours
        }
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}

fn entry<'a>(id: &'a str, pattern: &'a str, arg_pattern: Option<&'a str>) -> Entry<'a> {
    Entry {
        owner: "main",
        id,
        pattern,
        arg_pattern,
        source: None,
        command_sha256: None,
        typing: Typing::Nothing,
        confine: None,
    }
}

fn rule<'a>(id: &'a str, pattern: &'a str, arg_pattern: Option<&'a str>) -> DenyRule<'a> {
    DenyRule {
        owner: "main",
        id,
        pattern,
        arg_pattern,
        reason: None,
        children: false,
        is_of_text: false,
    }
}

fn grant(pattern: &str) -> Grant<'_> {
    Grant {
        owner: "main",
        id: "g",
        pattern,
        arg_pattern: None,
        expires_at: None,
        max_uses: Some(2),
        uses: 0,
        sha256: None,
        directory: None,
        is_of_other_session: false,
        typing: Typing::Nothing,
        confine: None,
    }
}

fn codes(lists: Lists<'_>, path_case: PathCase) -> Vec<(Item, RemarkCode)> {
    let cache = PatternCache::default();
    let surroundings = Surroundings {
        lookup: &Machine,
        cache: &cache,
        path_case,
        now: UnixMillis::new(1_000),
    };
    Linter::new(surroundings, lists)
        .remarks()
        .map(|(item, remark)| {
            assert!(!remark.message.is_empty());
            (item, remark.code)
        })
        .collect()
}

#[track_caller]
fn check(patterns: &[(&str, Option<&str>)], expect: &[(usize, RemarkCode)]) {
    let ids: Vec<String> = (0..patterns.len()).map(|at| format!("id-{at}")).collect();
    let entries: Vec<Entry<'_>> = patterns
        .iter()
        .zip(&ids)
        .map(|((pattern, arguments), id)| entry(id, pattern, *arguments))
        .collect();
    let lists = Lists {
        entries: &entries,
        ..Lists::default()
    };
    let expect: Vec<_> = expect
        .iter()
        .map(|(at, code)| (Item::Entry(*at), *code))
        .collect();
    assert_eq!(codes(lists, PathCase::Sensitive), expect, "{patterns:?}");
}

#[test]
fn ordinary_entries_are_not_remarked_on() {
    check(
        &[
            ("/usr/bin/git", None),
            ("rg", None),
            ("/opt/tools/*", None),
            ("~/bin/*", None),
            ("/usr/bin/python3", Some("^x\\.py$")),
            ("/usr/bin/bash", Some("^-c 'make test'$")),
        ],
        &[],
    );
}

#[test]
fn what_can_never_match_is_said() {
    for pattern in [
        "usr/bin/rg",
        "/usr/../bin/rg",
        "/usr/./bin/rg",
        "~user/x",
        "=command:0123456789abcdef",
    ] {
        check(&[(pattern, None)], &[(0, RemarkCode::NeverMatches)]);
    }
    check(&[("/usr/bin/git", Some("("))], &[(0, RemarkCode::NeverMatches)]);
    check(
        &[("/usr/bin/git", Some("sha256:argv:00"))],
        &[(0, RemarkCode::NeverMatches)],
    );
    // What it starts needs the entry, or nothing helps.
    check(&[("/usr/bin/env", None)], &[(0, RemarkCode::NeverMatches)]);
    check(
        &[("/usr/bin/busybox", Some("^ls$"))],
        &[(0, RemarkCode::NeverMatches)],
    );
    check(&[("/usr/bin/ls-of-box", None)], &[(0, RemarkCode::NeverMatches)]);
    check(
        &[("eval", None)],
        &[(0, RemarkCode::NeverMatches), (0, RemarkCode::MissingFile)],
    );
}

#[test]
fn generated_entries_are_judged_as_what_they_are() {
    let digest = cwd_argv_pattern("/srv", ["x"].into_iter()).unwrap();
    let generated = |pattern, arg_pattern| Entry {
        source: Some("allow-always"),
        ..entry("g", pattern, arg_pattern)
    };
    let seen = |entries: &[Entry<'_>]| {
        let lists = Lists {
            entries,
            ..Lists::default()
        };
        codes(lists, PathCase::Sensitive)
    };
    assert_eq!(seen(&[generated("/usr/bin/git", Some(&digest))]), []);
    assert_eq!(seen(&[generated("/usr/bin/python3", Some(&digest))]), []);
    assert_eq!(seen(&[generated("=command:0123456789abcdef", None)]), []);
    let never = [(Item::Entry(0), RemarkCode::NeverMatches)];
    assert_eq!(seen(&[generated("/usr/bin/git", None)]), never);
    assert_eq!(seen(&[generated("/usr/bin/git", Some("^x$"))]), never);
}

#[test]
fn an_entry_behind_a_wider_one_is_shadowed() {
    use RemarkCode::{Shadowed, TooBroad};
    for wider in ["/usr/bin/git", "/usr/bin/gi?", "/opt/../x"] {
        let shadowed = wider != "/opt/../x";
        let never = [(0, RemarkCode::NeverMatches)];
        let expect: &[(usize, RemarkCode)] = if shadowed { &[(1, Shadowed)] } else { &never };
        check(&[(wider, None), ("/usr/bin/git", None)], expect);
    }
    check(
        &[("/opt/tools/*", None), ("/opt/tools/build", None)],
        &[(1, Shadowed)],
    );
    check(
        &[("/opt/tools/**", None), ("/opt/tools/*", None)],
        &[(1, Shadowed)],
    );
    check(&[("g*", None), ("git", None)], &[(1, Shadowed)]);
    check(&[("git", None), ("git", None)], &[(1, Shadowed)]);
    check(&[("git", Some("^x$")), ("git", Some("^x$"))], &[(1, Shadowed)]);
    check(&[("*", None), ("git", None)], &[(0, TooBroad), (1, Shadowed)]);
    // Links of directories are followed on both sides, and what a pattern's own link leads to counts.
    check(&[("/bin/gi*", None), ("/usr/bin/git", None)], &[]);
    check(&[("/bin/git", None), ("/usr/bin/git", None)], &[]);
    // Not before it, not all of it, or not for all arguments.
    check(&[("/opt/tools/build", None), ("/opt/tools/*", None)], &[]);
    check(&[("/opt/tools/*", None), ("/opt/tools/**", None)], &[]);
    check(&[("git", Some("^x$")), ("git", None)], &[]);
    check(&[("git", Some("^x$")), ("git", Some("^y$"))], &[]);
    check(&[("GIT", None), ("git", None)], &[(0, RemarkCode::MissingFile)]);
    check(&[("git", None), ("git", Some("^x$"))], &[(1, Shadowed)]);
    // A shell is covered only by the entry that names its arguments.
    check(
        &[("bash", None), ("bash", Some("^-c 'x'$"))],
        &[(0, RemarkCode::NeedsArguments)],
    );
    let folded = [
        entry("a", "/opt/tools/BUILD", None),
        entry("b", "/opt/tools/build", None),
    ];
    let lists = Lists {
        entries: &folded,
        ..Lists::default()
    };
    assert!(codes(lists, PathCase::Insensitive).contains(&(Item::Entry(1), Shadowed)));
}

#[test]
fn the_wildcards_entries_shadow_those_of_an_agent() {
    let cache = PatternCache::default();
    let surroundings = Surroundings {
        lookup: &Machine,
        cache: &cache,
        path_case: PathCase::Sensitive,
        now: UnixMillis::new(0),
    };
    let (entries, own) = (
        [entry("w", "/usr/bin/gi?", None)],
        [entry("o", "/usr/bin/git", None)],
    );
    let (rules, own_rules) = ([rule("d", "RG", None)], [rule("e", "rg", None)]);
    let lists = |entries, deny_rules| Lists {
        entries,
        deny_rules,
        ..Lists::default()
    };
    let everybody = Linter::new(surroundings, lists(&entries, &rules));
    let agent = Linter::below(&everybody, lists(&own, &own_rules));
    let seen: Vec<_> = agent.remarks().collect();
    assert_eq!(
        seen,
        [
            (
                Item::Entry(0),
                Remark::new(
                    RemarkCode::Shadowed,
                    "the entry w before it covers all that it does"
                )
            ),
            (
                Item::DenyRule(0),
                Remark::new(RemarkCode::Shadowed, "the deny rule d denies all that it does")
            ),
        ]
    );
}

#[test]
fn too_broad_patterns_are_said() {
    use RemarkCode::{Interpreter, NeedsArguments, TooBroad, WritableDirectory};
    for pattern in ["*", "**", "/**", "/*", "/*/git", "/usr/**", "/opt/**/git", "~/**"] {
        let entries = [entry("a", pattern, None)];
        let lists = Lists {
            entries: &entries,
            ..Lists::default()
        };
        let seen = codes(lists, PathCase::Sensitive);
        assert!(seen.contains(&(Item::Entry(0), TooBroad)), "{pattern}: {seen:?}");
    }
    for pattern in ["/tmp/**", "/tmp/build/*", "/dev/shm/*"] {
        check(&[(pattern, None)], &[(0, TooBroad), (0, RemarkCode::MissingFile)]);
    }
    check(&[("/bin/*", None)], &[(0, Interpreter)]);
    check(&[("/usr/bin/p*", None)], &[(0, Interpreter)]);
    check(&[("/usr/bin/g*", None)], &[]);
    check(&[("/usr/bin/python3", None)], &[(0, Interpreter)]);
    check(&[("python3", Some(".*"))], &[(0, Interpreter)]);
    check(&[("python3", Some(""))], &[(0, Interpreter)]);
    check(&[("/usr/bin/hg", None)], &[(0, Interpreter)]);
    check(&[("hg", Some("^status$"))], &[]);
    check(&[("/usr/bin/sudo", None)], &[(0, NeedsArguments)]);
    check(&[("/usr/bin/bash", Some("^.*$"))], &[(0, TooBroad)]);
    check(&[("/srv/shared/x", None)], &[(0, WritableDirectory)]);
    check(&[("/srv/shared/*", None)], &[(0, WritableDirectory)]);
    check(&[("/opt/tools/gone", None)], &[(0, RemarkCode::MissingFile)]);
    check(&[("no-such", None)], &[(0, RemarkCode::MissingFile)]);
}

#[test]
fn deny_rules_win_over_entries_and_are_judged_themselves() {
    use RemarkCode::{Denied, MissingFile, NeverMatches, Shadowed, TooBroad};
    let entries = [
        entry("a", "/usr/bin/git", None),
        entry("b", "rg", None),
        entry("c", "/opt/tools/build", None),
    ];
    let rules = [
        rule("x", "GIT", None),
        rule("y", "rg", Some("--pre")),
        rule("z", "/opt/**", None),
        rule("u", "bin/rm", None),
        rule("v", "rm", Some("(")),
        rule("w", "/opt/tools/rm", None),
        rule("t", "*", None),
        rule("s", "git", None),
    ];
    let lists = Lists {
        entries: &entries,
        deny_rules: &rules,
        ..Lists::default()
    };
    let seen = codes(lists, PathCase::Sensitive);
    assert_eq!(
        seen,
        [
            (Item::Entry(0), Denied),
            (Item::Entry(1), Denied),
            (Item::Entry(2), Denied),
            (Item::DenyRule(3), NeverMatches),
            (Item::DenyRule(4), TooBroad),
            (Item::DenyRule(5), Shadowed),
            (Item::DenyRule(5), MissingFile),
            (Item::DenyRule(6), TooBroad),
            (Item::DenyRule(7), Shadowed),
        ]
    );
    let lists = Lists {
        entries: &entries,
        deny_rules: rules.get(1..2).unwrap(),
        ..Lists::default()
    };
    assert_eq!(codes(lists, PathCase::Sensitive), []);
}

#[test]
fn a_deny_rule_whose_children_are_not_kept_says_so() {
    let seen = |children, children_not_kept| {
        let rules = [DenyRule {
            children,
            ..rule("d", "rm", None)
        }];
        let lists = Lists {
            deny_rules: &rules,
            children_not_kept,
            ..Lists::default()
        };
        codes(lists, PathCase::Sensitive)
    };
    let why = Some("commands run of main at the level same-user");
    assert_eq!(
        seen(true, why),
        [(Item::DenyRule(0), RemarkCode::ChildrenNotKept)]
    );
    assert_eq!(seen(false, why), []);
    assert_eq!(seen(true, None), []);
}

#[test]
fn grants_that_are_over_or_pointless_are_said() {
    let seen = |grants: &[Grant<'_>], entries: &[Entry<'_>]| {
        let lists = Lists {
            entries,
            grants,
            ..Lists::default()
        };
        codes(lists, PathCase::Sensitive)
    };
    let git = grant("/usr/bin/git");
    let of = |code| [(Item::Grant(0), code)];
    assert_eq!(seen(&[git], &[]), []);
    let expired = Grant {
        expires_at: Some(UnixMillis::new(1_000)),
        ..git
    };
    assert_eq!(seen(&[expired], &[]), of(RemarkCode::Expired));
    assert_eq!(seen(&[Grant { uses: 2, ..git }], &[]), of(RemarkCode::UsedUp));
    assert_eq!(
        seen(&[git], &[entry("e", "/usr/bin/gi?", None)]),
        of(RemarkCode::Shadowed)
    );
    assert_eq!(seen(&[grant("./git")], &[]), of(RemarkCode::NeverMatches));
}

#[test]
fn safe_bins_without_a_profile_or_beyond_any_are_said() {
    let names = ["cut", "jq", "awk", "bash", "column"].map(str::to_owned);
    let codes: Vec<_> = safe_bins(&names, &BTreeMap::new())
        .into_iter()
        .map(|(name, remark)| (name, remark.code))
        .collect();
    assert_eq!(
        codes,
        [
            ("jq", RemarkCode::SafeBinRefused),
            ("awk", RemarkCode::SafeBinRefused),
            ("bash", RemarkCode::SafeBinRefused),
            ("column", RemarkCode::SafeBinWithoutProfile),
        ]
    );
}

/// Counts how often the disk is asked.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicUsize);

impl PathLookup for Counting {
    fn search(&self, _name: &str) -> Option<String> {
        None
    }
    fn inspect(&self, _path: &str) -> Option<Inspected> {
        None
    }
    fn real(&self, path: &str) -> Option<String> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Some(path.to_owned())
    }
    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }
    fn home(&self) -> &'static str {
        "/home/agent"
    }
    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        DirectoryTrust::Ours
    }
    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }
}

#[test]
fn a_long_list_is_looked_at_once_entry_by_entry() {
    let patterns: Vec<String> = (0..20_000)
        .map(|at| match at % 4 {
            0 => format!("/opt/d{at}/tool"),
            1 => format!("/opt/d{at}/**"),
            2 => format!("tool{at}"),
            _ => format!("/opt/*/d{at}/x*"),
        })
        .collect();
    let entries: Vec<Entry<'_>> = patterns.iter().map(|pattern| entry("a", pattern, None)).collect();
    let cache = PatternCache::default();
    let lookup = Counting::default();
    let surroundings = Surroundings {
        lookup: &lookup,
        cache: &cache,
        path_case: PathCase::Sensitive,
        now: UnixMillis::new(0),
    };
    let lists = Lists {
        entries: &entries,
        ..Lists::default()
    };
    let linter = Linter::new(surroundings, lists);
    assert_eq!(
        linter
            .remarks()
            .filter(|(_, remark)| remark.code == RemarkCode::Shadowed)
            .count(),
        0
    );
    let asked = lookup.0.load(std::sync::atomic::Ordering::Relaxed);
    assert!(asked <= 10_000, "{asked}");
}

#[test]
fn what_is_odd_about_a_confine_is_told() {
    use serde_json::json;

    use crate::confine::ConfineRule;

    let codes_of = |pattern: &str, confine: serde_json::Value| {
        let rule = ConfineRule::read(&confine);
        let entries = [Entry {
            confine: Some(&rule),
            ..entry("a", pattern, None)
        }];
        let lists = Lists {
            entries: &entries,
            ..Lists::default()
        };
        let is_ours = |code: &RemarkCode| code.as_str().starts_with("confine-");
        codes(lists, PathCase::Sensitive)
            .into_iter()
            .map(|(_, code)| code)
            .filter(is_ours)
            .collect::<Vec<_>>()
    };
    let git = "/usr/bin/git";
    assert_eq!(
        codes_of(git, json!({ "reads": [] })),
        [RemarkCode::ConfineNotUnderstood]
    );
    for starts in ["bash", "/usr/bin/python3", "env", "sudo", "/usr/bin/**"] {
        let found = codes_of(git, json!({ "starts": [starts] }));
        assert!(found.contains(&RemarkCode::ConfineTooWide), "{starts}: {found:?}");
    }
    for writes in ["~/.bashrc", "/srv/x/.git/config"] {
        assert_eq!(
            codes_of(git, json!({ "writes": [writes] })),
            [RemarkCode::ConfineTooWide],
            "{writes}"
        );
    }
    assert_eq!(
        codes_of("/usr/bin/unknown-program", json!({ "starts": "judged" })),
        [RemarkCode::ConfineIdle]
    );
    assert_eq!(
        codes_of(git, json!({ "starts": "judged", "writes": ["workspace", "tmp"] })),
        []
    );
}
