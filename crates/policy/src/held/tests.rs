use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, FileIdentity, UnixMillis};

use super::{NotHeld, expect_only_unread, programs};
use crate::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, DenyRule, Entries, Entry, Keeps, Protected, Typing,
        analyze,
    },
    command::{DirectoryTrust, Inspected, PathLookup, syntax::Grammar},
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
    "/usr/bin/git",
    "/usr/bin/grep",
    "/usr/bin/pgrep",
    "/usr/bin/python3.12",
    "/usr/bin/touch",
    "/usr/bin/vim.basic",
    "/usr/bin/wc",
    "/usr/bin/xargs",
    "/usr/lib/ld-linux-x86-64.so.2",
    "/home/a/bin/rg",
];

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

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        let path = format!("/usr/bin/{name}");
        self.inspect(&path).map(|_found| path)
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let real = match path {
            "/usr/bin/python3" => "/usr/bin/python3.12",
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
    Entry {
        owner: "main",
        id: "1",
        pattern,
        arg_pattern: None,
        source: None,
        command_sha256: None,
        typing: Typing::Nothing,
        confine: None,
    }
}

fn protected() -> Protected {
    Protected {
        own_binary: None,
        own_file: None,
        roots: vec!["/home/a/.openclaw".to_owned()],
        exceptions: vec!["/home/a/.openclaw/workspace".to_owned()],
    }
}

fn set(entries: &[Entry<'_>], strict: bool) -> Vec<String> {
    let found = programs(entries.iter().copied(), strict, &protected(), &Machine).unwrap();
    found.into_iter().map(|identity| identity.path).collect()
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

fn analysis(text: &str, entries: &[Entry<'_>], deny_rules: &[DenyRule<'_>]) -> Analysis {
    analyze(
        &Command::Shell(text.to_owned()),
        &AnalysisRequest {
            cwd: "/home/a/.openclaw/workspace",
            cwd_real: "/home/a/.openclaw/workspace",
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
            strict_delegation: false,
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
    let entries = [entry("cat"), entry("grep"), entry("wc")];
    let set = programs(entries, false, &protected(), &Machine).unwrap();
    expect_only_unread(
        text,
        &analysis(text, &entries, deny_rules),
        &set,
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
