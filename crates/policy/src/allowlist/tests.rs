//! The rules together, on a machine that exists only here.

use std::collections::BTreeMap;

use proptest::prelude::*;

use countersign_domain::{
    AgentId, Bound, Command, CommandInput, EnvOverrides, FileIdentity, PatternWidth, UnixMillis,
};

use super::*;

use crate::{
    command::{
        Code, DirectoryTrust, Inspected, PathLookup, paths,
        rendering::{PlanPart, PlanStep, StepKind},
        safe_bin::SafeBinProfile,
    },
    pattern::{PathCase, PatternCache, command_digest, command_marker, cwd_argv_pattern},
};

const BIN: &[&str] = &[
    "rg",
    "git",
    "cat",
    "rm",
    "head",
    "find",
    "sudo",
    "python3",
    "sh",
    "bash",
    "zsh",
    "timeout",
    "nice",
    "env",
    "true",
    "xargs",
    "busybox",
    "echo",
    "make",
    "time",
    "npm",
    "kill",
    "tar",
    "rsync",
    "ssh",
    "script",
    "flock",
    "setsid",
    "setarch",
    "x86_64",
    "cp",
    "curl",
    "sqlite3",
    "gcc",
    "docker",
    "awk",
    "debconf",
    "perl",
    "nix-shell",
];

/// A machine: everything of [`BIN`] in `/usr/bin`, and links and files besides.
#[derive(Debug, Default)]
struct Machine {
    files: Vec<&'static str>,
    links: BTreeMap<&'static str, &'static str>,
    foreign: Vec<&'static str>,
    search: BTreeMap<&'static str, &'static str>,
}

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        let elsewhere = self.search.get(name).map(|path| (*path).to_owned());
        elsewhere.or_else(|| BIN.contains(&name).then(|| format!("/usr/bin/{name}")))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let in_bin = path
            .strip_prefix("/usr/bin/")
            .is_some_and(|name| BIN.contains(&name));
        let exists = in_bin
            || self.files.contains(&path)
            || self.links.contains_key(path)
            || self.search.values().any(|file| *file == path);
        let real = exists.then(|| self.real(path)).flatten()?;
        let identity = FileIdentity {
            path: real.clone(),
            dev: 1,
            ino: real.len() as u64,
            size: 1,
            mtime_ns: 0,
            ctime_ns: 0,
        };
        Some(Inspected { real, identity })
    }

    fn real(&self, path: &str) -> Option<String> {
        Some(
            self.links
                .get(path)
                .map_or_else(|| path.to_owned(), |target| (*target).to_owned()),
        )
    }

    fn depends_on_process(&self, path: &str) -> bool {
        path.starts_with("/proc/self/cwd")
    }

    fn home(&self) -> &'static str {
        "/home/agent"
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        if self.foreign.contains(&directory) {
            DirectoryTrust::Foreign
        } else {
            DirectoryTrust::Ours
        }
    }

    fn content_sha256(&self, file: &FileIdentity) -> Option<String> {
        (file.path == "/usr/bin/rg").then(|| "aa".repeat(32))
    }
}

/// Everything an analysis is given, with defaults that cover nothing.
struct World {
    machine: Machine,
    entries: Vec<Entry<'static>>,
    grants: Vec<Grant<'static>>,
    deny_rules: Vec<DenyRule<'static>>,
    safe_bins: Vec<String>,
    skills: Vec<SkillBin>,
    strict_inline_eval: bool,
    strict_delegation: bool,
    exact_text_grants: bool,
    path_case: PathCase,
    protected: Protected,
    env: BTreeMap<String, String>,
    input: CommandInput,
}

fn world() -> World {
    World {
        machine: Machine::default(),
        entries: Vec::new(),
        grants: Vec::new(),
        deny_rules: Vec::new(),
        safe_bins: vec!["head".to_owned()],
        skills: Vec::new(),
        strict_inline_eval: false,
        strict_delegation: true,
        exact_text_grants: false,
        path_case: PathCase::Sensitive,
        protected: Protected::default(),
        env: BTreeMap::new(),
        input: CommandInput::Closed,
    }
}

fn leak(text: impl Into<String>) -> &'static str {
    Box::leak(text.into().into_boxed_str())
}

fn entry(pattern: &str) -> Entry<'static> {
    Entry::plain("main", leak(format!("id of {pattern}")), leak(pattern))
}

fn grant(pattern: &'static str) -> Grant<'static> {
    Grant {
        owner: "main",
        id: "grant",
        pattern,
        arg_pattern: None,
        expires_at: None,
        max_uses: None,
        uses: 0,
        sha256: None,
        directory: None,
        is_of_other_session: false,
        typing: Typing::Nothing,
        confine: None,
    }
}

fn deny(pattern: &'static str) -> DenyRule<'static> {
    DenyRule {
        owner: "*",
        id: "rule",
        pattern,
        arg_pattern: None,
        reason: None,
        children: false,
        is_of_text: false,
    }
}

impl World {
    fn allowing(patterns: &[&str]) -> Self {
        let mut world = world();
        world.entries = patterns.iter().map(|pattern| entry(pattern)).collect();
        world
    }

    fn with_entry(mut self, pattern: &str, arg_pattern: Option<&str>, source: Option<&'static str>) -> Self {
        self.entries.push(Entry {
            arg_pattern: arg_pattern.map(leak),
            source,
            ..entry(pattern)
        });
        self
    }

    fn denying(mut self, patterns: &[&'static str]) -> Self {
        self.deny_rules
            .extend(patterns.iter().map(|pattern| deny(pattern)));
        self
    }

    fn analyze(&self, command: &Command) -> Analysis {
        let env = EnvOverrides::accepted(self.env.clone());
        let agent = AgentId::main();
        let request = AnalysisRequest {
            cwd: "/srv/proj",
            cwd_real: "/srv/proj",
            env: &env,
            agent: &agent,
            input: self.input,
            workspace: None,
            temporary: None,
            shell: None,
        };
        let profiles: BTreeMap<String, SafeBinProfile> = BTreeMap::new();
        let cache = PatternCache::default();
        let policy = AnalysisPolicy {
            grammar: crate::command::syntax::Grammar::default(),
            entries: Entries::Listed(&self.entries),
            grants: &self.grants,
            deny_rules: &self.deny_rules,
            safe_bins: &self.safe_bins,
            safe_bin_profiles: &profiles,
            trusted_dirs: &[],
            skills: &self.skills,
            strict_inline_eval: self.strict_inline_eval,
            strict_delegation: self.strict_delegation,
            exact_text_grants: self.exact_text_grants,
            path_case: self.path_case,
            keeps: Keeps::default(),
            now: UnixMillis::new(1_000),
            protected: &self.protected,
            cache: &cache,
        };
        let listed = analyze(command, &request, &policy, &self.machine);
        let real = |path: &str| self.machine.real(path);
        let index = EntryIndex::new(
            self.entries.iter().copied(),
            self.path_case,
            self.machine.home(),
            real,
        );
        let policy = AnalysisPolicy {
            grammar: crate::command::syntax::Grammar::default(),
            entries: Entries::Indexed(&index),
            ..policy
        };
        let indexed = analyze(command, &request, &policy, &self.machine);
        assert_eq!(listed, indexed, "an index changes nothing");
        listed
    }

    fn text(&self, text: &str) -> Analysis {
        self.analyze(&Command::Shell(text.to_owned()))
    }

    fn argv(&self, words: &[&str]) -> Analysis {
        self.analyze(&Command::Argv(
            words.iter().map(|word| (*word).to_owned()).collect(),
        ))
    }

    #[track_caller]
    fn allows(&self, text: &str) -> Analysis {
        let analysis = self.text(text);
        assert_eq!(analysis.verdict, AnalysisVerdict::Allow, "{text}");
        assert!(analysis.satisfied && analysis.proposed_patterns.is_empty());
        analysis
    }

    #[track_caller]
    fn asks(&self, text: &str, code: Code) -> Analysis {
        let analysis = self.text(text);
        match &analysis.verdict {
            AnalysisVerdict::Ask(finding) => assert_eq!(finding.code, code, "{text}: {finding:?}"),
            other @ (AnalysisVerdict::Allow | AnalysisVerdict::Reject(_)) => panic!("{text}: {other:?}"),
        }
        assert!(!analysis.satisfied && !analysis.durable && analysis.credited.is_empty());
        analysis
    }

    #[track_caller]
    fn denies(&self, text: &str) {
        let analysis = self.text(text);
        assert!(analysis.denylisted.is_some(), "{text}: {:?}", analysis.findings);
        assert!(!analysis.satisfied, "{text}");
    }

    #[track_caller]
    fn wants_a_person(&self, text: &str) {
        let analysis = self.text(text);
        assert!(
            analysis.needs_person && analysis.denylisted.is_none(),
            "{text}: {analysis:?}"
        );
    }
}

#[test]
fn deny_rules_reach_into_everything_that_runs_something() {
    let world = World::allowing(&["*"]).denying(&["rm"]);
    for text in [
        "rm x",
        "RM x",
        "/usr/bin/rm x",
        "./rm x",
        "rg x && rm y",
        "rg x | rm",
        "timeout 5 rm x",
        "nice timeout 5 rm x",
        "env -i rm x",
        "env A=1 rm x",
        "env -S 'rm x'",
        "sudo rm x",
        "sudo -u root -- rm x",
        "find . -exec rm {} +",
        "xargs rm",
        "bash -c 'rm x'",
        "bash -c 'bash -c \"rm x\"'",
        "bash -lc 'rm x'",
        "bash -c 'rm x' y",
        "zsh -c 'rg x; rm y'",
        "busybox rm x",
        "eval rm x",
        "eval 'rm x'",
        "exec rm x",
        "CI=1 rm x",
        "FOO=1 rm x",
        "command rm x",
        "'rm' x",
        "sudo sh -c 'rm x'",
        "xargs sh -c 'rm \"x\"'",
        "no-such/rm x",
    ] {
        world.denies(text);
    }
    assert!(world.text("rg rm").denylisted.is_none());
    assert!(world.text("git rm x").denylisted.is_none());
}

#[test]
fn a_directory_that_is_not_certain_hides_nothing_from_deny_rules() {
    let mut world = World::allowing(&["*"]).denying(&["/usr/bin/rm"]);
    world.machine.links.insert("/opt/tidy", "/usr/bin/rm");
    for text in [
        "cd /usr/bin && ./rm x",
        "cd /usr/bin; ./rm x",
        "cd /usr/bin || cd /opt; ./rm x",
        "cd /usr; bin/rm x",
        "cd /opt; ./tidy x",
        "cd /opt; sudo ./tidy x",
        "cd /opt; bash -c './tidy x'",
        "cd /srv; ../usr/bin/rm x",
    ] {
        world.denies(text);
    }
    assert!(world.text("cd /opt; ./rg x").denylisted.is_none());
    // Too many places to follow are a person's business.
    let many = "cd d; cd e; ".repeat(20);
    world.wants_a_person(&format!("{many}./x"));
    world.wants_a_person(&format!("{many}sudo ./x"));
    assert!(!world.text(&format!("{many}rg x")).needs_person);
}

#[test]
fn deny_rules_look_behind_options_and_settings() {
    for strict in [true, false] {
        let mut world = World::allowing(&["*"]).denying(&["rm"]);
        world.strict_delegation = strict;
        for text in [
            "find . -exec rm {} +",
            "find . -exec sh -c 'rm x' \\;",
            "tar --to-command=rm -xf a",
            "tar --use-compress-program='rm -f' -xf a",
            "rg --pre=rm x",
            "rg --pre /usr/bin/rm x",
            "git -c alias.x='!rm y' x",
            "git -c core.pager='|rm' log",
            "env -Srm",
            "tar -cf o.tar -xIrm a",
            "git grep -iOrm x",
            "man -aPrm ls",
            "vim '+!rm x' f",
            "vim -c ':!rm x' f",
            "less '+!rm x' f",
            "chronic rm x",
            "start-stop-daemon -S -x/usr/bin/rm -- y",
            "bash-static -c 'rm x'",
            "env --split-string='rm x'",
            "ssh -o ProxyCommand='rm x' host",
            "sudo --user=me -- RM x",
        ] {
            world.denies(text);
        }
        assert!(world.text("find . -name '*.rm' -print").denylisted.is_none());
        assert!(!world.text("find . -name '*.c' -exec cat {} +").needs_person);
        world.wants_a_person("find . -exec sh -c '$x' {} +");
        assert!(world.text("rg --pretty rm").denylisted.is_none());
        // Letters of other options, an address and a file that only has the name are no program.
        for text in [
            "tar -xrm -I cat -f a",
            "sudo grep -irm 1 x f",
            "sudo cat src/rm",
            "git -c core.pager=cat log origin/rm",
        ] {
            assert!(world.text(text).denylisted.is_none(), "{text}");
        }
    }
}

/// A text that is handed on is a command of its own, at any depth.
#[test]
fn deny_rules_follow_text_into_text() {
    let mut world = World::allowing(&["*"]).denying(&["rm"]);
    world.strict_delegation = false;
    for text in [
        "bash -lc 'sh -c \"rm x\"'",
        "bash -lc 'eval \"rm x\"'",
        "bash -lc 'git -c alias.x=\"!rm x\" x'",
        "bash -lc 'trap \"rm x\" EXIT'",
        "bash -lc 'env -S \"rm x\"'",
        "bash -c 'sh -c \"rm x\"' x",
        "zsh -c 'sh -c \"rm x\"'",
        "setsid -w sh -c 'sh -c \"rm x\"'",
        "busybox sh -c 'sh -c \"rm x\"'",
        "flock f -c 'sh -c \"rm x\"'",
        "script -qc 'sh -c \"rm x\"' /dev/null",
        "jobs -x sh -c 'sh -c \"rm x\"'",
        "env -S 'sh -c \"rm x\"'",
        "git -c 'alias.x=!sh -c \"rm x\"' x",
        "git -c 'alias.x=!cd /usr && bin/rm y' x",
        "rsync -e 'sh -c \"rm x\"' a:b c",
        "find . -maxdepth 1 -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a \
         -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a \
         -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a -not -name a -exec rm {} +",
    ] {
        world.denies(text);
    }
    for text in [
        "bash -lc '. ./s.sh'",
        "git -c 'alias.x=!rm x 2>/dev/null' x",
        "git -c 'alias.x=!f() { rm x; }; f' x",
        "tar --checkpoint=1 '--checkpoint-action=exec=rm x 2>&1' -cf /dev/null f",
        "ssh -o 'ProxyCommand=rm x >/dev/null' h",
        "find /usr/bin -name 'r[m]' -execdir ./rm x \\;",
        "env -S 'rm\\_x'",
        "env --split-string='rm\\_x'",
        "sudo sh -c \"sh -c 'sh -c \\\"sh -c x\\\"'\"",
        &format!("script -qc '{} x rm' /dev/null", "rg ".repeat(70)),
        &format!("sudo rg {}", "'a b' ".repeat(70)),
        "PAGER=cat git log",
    ] {
        world.wants_a_person(text);
    }
    for text in [
        "find . -name '*.c' -exec rg x {} \\;",
        "git -c core.pager=cat log --format='%h (%an)'",
        "git -c core.editor=cat commit -m 'mend (a bit): more'",
        "rsync -av -e ssh --exclude '*.o' a b",
        "tar -I cat --exclude='*.o' -cf a b",
        "sudo -u me rg 'a b' f",
        "xargs -I% rg 'x: %'",
        "LC_ALL=C git log",
    ] {
        assert!(!world.text(text).needs_person, "{text}");
        assert!(world.text(text).denylisted.is_none(), "{text}");
    }
}

#[test]
fn deny_rules_need_a_person_where_commands_come_from_standard_input() {
    let world = World::allowing(&["*"]).denying(&["rm"]);
    for text in [
        "echo x | setsid -w sh",
        "echo x | busybox sh",
        "echo x | env -i sh",
        "echo x | jobs -x sh",
        "echo x | bash +e",
        "echo x | bash -o pipefail",
        "echo x | sh -s x",
        "echo x | sh /dev/stdin",
        "echo x | xargs -I% sh -c %",
        "echo x | xargs nice",
        "echo x | xargs -n2 timeout 5",
        "echo x | xargs -I% setsid -w r% x",
        "echo x | xargs -I% r% x",
        "echo x | xargs git",
        "xargs -a f nice",
        "xargs env",
        "echo x | parallel",
        "echo x | at now",
        "echo x | script -q /dev/null",
        "echo x | sudo -s",
        "echo x | setarch x86_64",
        "find . -maxdepth 0 -exec sh \\;",
    ] {
        world.wants_a_person(text);
    }
    for text in [
        "echo x | xargs rg y",
        "rg -l x | xargs -0 -n 1 rg y",
        "sudo rg x",
        "script -qc 'rg x' /dev/null",
    ] {
        assert!(!world.text(text).needs_person, "{text}");
    }
}

#[test]
fn deny_rules_need_a_person_where_arguments_or_variables_are_open() {
    let mut world = World::allowing(&["*"]);
    world.strict_delegation = false;
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("(^| )push( |$)|/home/agent/secret|=/"),
        ..deny("git")
    }];
    for text in [
        "echo push | xargs git x",
        "find . -name push -exec git x {} \\;",
        "git x of=~/secret",
    ] {
        world.wants_a_person(text);
    }
    world.denies("setsid -w git ~/secret");
    world.denies("find . -exec git ~/secret \\;");
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("^push$"),
        ..deny("git")
    }];
    world.denies("find . -exec git push \\;");
    assert!(!world.text("git status").needs_person);
    assert!(!world.text("setsid -w git status").needs_person);

    let mut world = World::allowing(&["*"]).denying(&["rm"]);
    for text in [
        "GIT_SSH=rm git ls-remote ssh://x/y",
        "GIT_EXTERNAL_DIFF='rm x #' git diff",
        "TAR_OPTIONS=--checkpoint=1 rg x",
        "env GIT_SSH=/x git x",
        "export LD_PRELOAD=/x.so",
    ] {
        world.wants_a_person(text);
    }
    assert!(!world.text("CI=1 rg x").needs_person);
    // The kernel follows a link before it goes up.
    world.machine.links.insert("/srv/proj/link/../x", "/usr/bin/rm");
    world.denies("link/../x y");
    world.denies("setsid -w link/../x y");
}

#[test]
fn a_denial_says_whose_rule_it_is_and_where_it_matched() {
    let mut world = World::allowing(&["*"]);
    world.deny_rules = vec![DenyRule {
        owner: "*",
        reason: Some("it deletes"),
        ..deny("rm")
    }];
    let text = "rg x | timeout 5 rm y";
    let analysis = world.asks(text, Code::Denylisted);
    let finding = &analysis.findings[0];
    assert_eq!(
        finding.detail,
        "the deny rule rm (of every agent) matches: it deletes"
    );
    let place = text.get(finding.span.start as usize..finding.span.end as usize);
    assert_eq!(place, Some("rm"));
    assert_eq!(analysis.segments[1].matched.kind, MatchKind::Denylist);
}

#[test]
fn deny_rules_see_real_files_and_arguments() {
    let mut world = World::allowing(&["*"]).denying(&["/USR/bin/rm"]);
    world.machine.links.insert("/opt/tidy", "/usr/bin/rm");
    world.denies("/opt/tidy x");
    world.denies("rm x");

    let mut world = World::allowing(&["*"]).denying(&["rm"]);
    world.machine.links.insert("/opt/tidy", "/usr/bin/rm");
    world.denies("/opt/tidy x");

    // Who denies a link means what it leads to, but not every program of a file that is several.
    let mut world = World::allowing(&["*"]).denying(&["rg"]);
    world.machine.files.push("/usr/bin/rg-14");
    world.machine.links.insert("/usr/bin/rg", "/usr/bin/rg-14");
    world.denies("/usr/bin/rg-14 x");
    let mut world = World::allowing(&["*"]).denying(&["rg"]);
    world.machine.links.insert("/usr/bin/rg", "/usr/bin/coreutils");
    world.machine.links.insert("/usr/bin/cat", "/usr/bin/coreutils");
    world.denies("rg x");
    world.allows("cat x");
    let mut world = World::allowing(&["*"]).denying(&["/usr/bin/rg"]);
    world.machine.links.insert("/usr/bin/rg", "/usr/bin/coreutils");
    world.machine.links.insert("/usr/bin/cat", "/usr/bin/coreutils");
    world.denies("rg x");
    world.allows("cat x");

    let mut world = World::allowing(&["*"]);
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("--force"),
        ..deny("git")
    }];
    world.denies("git push --force");
    assert!(world.allows("git push").denylisted.is_none());
    // What cannot be tried to its end denies rather than allows.
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("("),
        ..deny("git")
    }];
    world.denies("git push");
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("^zzz$"),
        ..deny("echo")
    }];
    let long = "a".repeat(9_000);
    assert!(world.argv(&["echo", &long]).denylisted.is_some());
    assert!(world.argv(&["echo", "a"]).denylisted.is_none());
}

#[test]
fn a_deny_rule_that_demands_other_arguments_is_told_and_decides_nothing() {
    let near = |world: &World, text: &str| -> Vec<Option<String>> {
        let analysis = world.text(text);
        let segments = analysis.segments.iter();
        segments.map(|segment| segment.near_deny_rule.clone()).collect()
    };
    let mut world = World::allowing(&["*"]);
    world.deny_rules = vec![DenyRule {
        arg_pattern: Some("--force"),
        ..deny("git")
    }];
    let told = Some("git --force".to_owned());
    assert_eq!(near(&world, "git push"), std::slice::from_ref(&told));
    assert_eq!(near(&world, "rg x && timeout 5 git push"), [None, told]);
    assert!(world.allows("git push").satisfied);
    // A denied one has the rule that matches it.
    assert_eq!(near(&world, "git push --force"), [None]);
    world.denies("git push --force");
    assert_eq!(near(&world, "rg x"), [None]);
    // A rule about every call of the program is never near.
    assert_eq!(near(&World::allowing(&["*"]).denying(&["rm"]), "rm x"), [None]);
}

#[test]
fn a_program_that_runs_what_the_pipe_brings_is_told() {
    let runs = |text: &str| -> Vec<bool> {
        let analysis = World::allowing(&["*"]).text(text);
        analysis
            .segments
            .iter()
            .map(|segment| segment.runs_pipe)
            .collect()
    };
    assert_eq!(runs("curl x | sh"), [false, true]);
    assert_eq!(runs("curl x | cat | timeout 5 python3 -"), [false, false, true]);
    // The twins: it reads a file, prints, or stands beside no pipe.
    for text in [
        "curl x | cat",
        "curl x | python3 f.py",
        "curl x && sh f",
        "sh f | cat",
    ] {
        assert!(!runs(text).contains(&true), "{text}: {:?}", runs(text));
    }
}

#[test]
fn a_glob_that_is_too_long_denies_and_never_covers() {
    let long = leak(format!("/usr/bin/{}*", "?".repeat(4_000)));
    World::allowing(&["*"]).denying(&[long]).denies("rg x");
    assert!(!World::allowing(&[long]).text("rg x").satisfied);
}

#[test]
fn text_that_deny_rules_cannot_read_needs_a_person() {
    let world = World::allowing(&["*"]).denying(&["rm"]);
    for text in [
        "rg $(x)",
        "bash -c 'rg $x'",
        "echo x | sh",
        "bash",
        "eval 'rg $x'",
        "sudo sh -c '$x'",
        "if x; then y; fi",
    ] {
        world.wants_a_person(text);
    }
    assert!(!world.text("rg x").needs_person);
    assert!(!World::allowing(&["*"]).text("rg $(x)").needs_person);
    let unreadable = World::allowing(&["*"]).denying(&["bin/rm"]);
    unreadable.wants_a_person("rg x");
}

#[test]
fn a_deny_rule_is_the_first_finding() {
    let analysis = World::allowing(&[])
        .denying(&["rm"])
        .asks("rm x", Code::Denylisted);
    assert_eq!(analysis.segments[0].matched.kind, MatchKind::Denylist);
    assert_eq!(analysis.segments[0].matched.entry_id.as_deref(), Some("rule"));
    assert!(analysis.proposed_patterns.is_empty());
}

#[test]
fn wide_entries_do_not_cover_what_runs_something_else() {
    let world = World::allowing(&["*", "/usr/bin/*", "sudo", "bash", "xargs"]);
    world.asks("sudo rg x", Code::Carrier);
    world.asks("xargs rg", Code::Carrier);
    world.asks("bash run.sh", Code::Shell);
    world.asks("zsh -c 'rg x'", Code::ShellStartup);
    world.asks("busybox sh", Code::Multiplexer);
    world.asks("eval rg", Code::ReservedWord);
    world.asks("find . -exec rg {} +", Code::Delegation);
    world.asks("env -i rg", Code::WrapperForm);
    world.asks("time if x", Code::ReservedWord);
    world.asks("command cd x", Code::ReservedWord);
    world.allows("timeout 5 rg x");
    world.allows("bash -c 'rg x'");
    world.allows("nice no-such-tool");
}

#[test]
fn argument_patterns_cover_carriers_and_shells() {
    let world = world()
        .with_entry("/usr/bin/sudo", Some("^rg x$"), None)
        .with_entry("/usr/bin/bash", Some(r"^run\.sh$|^-c rg \$x$"), None)
        .with_entry("/usr/bin/find", Some(r"-exec rg \{\} \+$"), None)
        .with_entry("/usr/bin/busybox", Some("."), None)
        .with_entry("/usr/bin/env", Some("."), None);
    world.allows("sudo rg x");
    world.asks("sudo rg y", Code::Carrier);
    world.allows("bash run.sh");
    world.allows("bash -c 'rg $x'");
    world.allows("find . -exec rg {} +");
    world.asks("busybox ls", Code::Multiplexer);
    world.asks("env -i rg x", Code::WrapperForm);
    let any = self::world().with_entry("*", Some("."), None);
    any.asks("sudo rg x", Code::Carrier);
    any.allows("rg x");
}

#[test]
fn a_link_hides_neither_shell_nor_wrapper() {
    let mut world = World::allowing(&["*", "/opt/*"]);
    world.machine.links = BTreeMap::from([
        ("/opt/mysh", "/usr/bin/bash"),
        ("/opt/e", "/usr/bin/env"),
        ("/opt/nice", "/usr/bin/env"),
        ("/opt/rg", "/usr/bin/busybox"),
    ]);
    world.asks("/opt/mysh -c 'rg x'", Code::ShellStartup);
    world.asks("/opt/e rg x", Code::WrapperForm);
    world.asks("/opt/nice -n 5 rg x", Code::WrapperForm);
    world.asks("/opt/rg x", Code::Multiplexer);
}

#[test]
fn generated_entries_are_bound_to_directory_and_arguments() {
    let digest = cwd_argv_pattern("/srv/proj", ["status"].into_iter()).unwrap();
    let world = world().with_entry("/usr/bin/git", Some(&digest), Some("allow-always"));
    let analysis = world.allows("git status");
    assert!(analysis.durable);
    assert_eq!(analysis.credited[0].resolved.as_deref(), Some("/usr/bin/git"));
    assert!(world.allows("timeout 5 git status && true").durable);
    world.asks("git push", Code::ArgPatternMiss);
    world.asks("cd sub && git status", Code::ArgPatternMiss);
    world.asks("cd /srv/proj; git status", Code::ArgPatternMiss);
    self::world()
        .with_entry("/usr/bin/git", None, Some("allow-always"))
        .asks("git status", Code::GeneratedEntryInert);
    self::world()
        .with_entry("/usr/bin/git", Some("^status$"), Some("allow-always"))
        .asks("git status", Code::GeneratedEntryInert);
}

#[test]
fn exact_text_entries_cover_that_text_alone() {
    let text = "rg $(date) > out";
    let mut world = world();
    world.entries = vec![Entry {
        source: Some("allow-always"),
        ..entry(&command_marker(text))
    }];
    let analysis = world.allows(text);
    assert!(analysis.durable && !analysis.ok && analysis.plan.is_none() && analysis.rendered.is_none());
    assert_eq!(analysis.credited.len(), 1);
    world.allows(&format!("  {text}\n"));
    // To a shell these are parts of a word.
    for blank in ["\u{a0}", "\u{3000}", "\r", "\u{c}"] {
        assert!(!world.text(&format!("{text}{blank}")).satisfied, "{blank:?}");
    }
    world.asks("rg $(date) > out2", Code::CommandSubstitution);

    world.env.insert("FOO".to_owned(), "x".to_owned());
    world.asks(text, Code::CommandSubstitution);
    world.env.clear();
    world.strict_inline_eval = true;
    world.asks(text, Code::CommandSubstitution);
    world.strict_inline_eval = false;

    world.entries[0].command_sha256 = Some(leak(command_digest(text)));
    world.allows(text);
    world.entries[0].command_sha256 = Some("00");
    world.asks(text, Code::CommandSubstitution);
    world.entries[0].command_sha256 = None;
    world.entries[0].source = None;
    world.asks(text, Code::CommandSubstitution);
}

#[test]
fn grants_come_after_entries_and_end() {
    let mut world = world();
    world.grants = vec![grant("/usr/bin/rg")];
    world.grants[0].expires_at = Some(UnixMillis::new(1_001));
    let credited = world.allows("rg x && rg y").credited;
    assert_eq!(
        credited.iter().map(|credit| credit.kind).collect::<Vec<_>>(),
        [CreditKind::Grant]
    );
    world.grants[0].expires_at = Some(UnixMillis::new(1_000));
    world.asks("rg x", Code::NotAllowlisted);
    world.grants[0].expires_at = None;
    world.grants[0].max_uses = Some(2);
    world.grants[0].uses = 1;
    world.allows("rg x");
    world.grants[0].uses = 2;
    world.asks("rg x", Code::NotAllowlisted);
    world.grants[0].max_uses = None;
    world.grants[0].sha256 = Some(leak("AA".repeat(32)));
    world.allows("rg x");
    world.grants[0].sha256 = Some("bb");
    world.asks("rg x", Code::NotAllowlisted);

    world.grants[0] = grant("/usr/bin/rg");
    world.entries = vec![entry("rg")];
    assert_eq!(world.allows("rg x").credited[0].kind, CreditKind::Entry);
}

#[test]
fn a_grant_that_is_over_says_so() {
    let detail = |change: fn(&mut Grant<'static>), text: &str| {
        let mut world = world();
        world.grants = vec![grant("/usr/bin/rg")];
        change(&mut world.grants[0]);
        let analysis = world.asks(text, Code::NotAllowlisted);
        assert!(analysis.credited.is_empty());
        analysis.findings[0].detail.clone()
    };
    let expired: fn(&mut Grant<'static>) = |grant| grant.expires_at = Some(UnixMillis::new(1));
    assert_eq!(detail(expired, "rg x"), "the grant for this has expired");
    assert_eq!(detail(expired, "git log"), "no entry covers this");
    let spent = detail(
        |grant| {
            grant.max_uses = Some(1);
            grant.uses = u64::MAX;
        },
        "rg x",
    );
    assert_eq!(spent, "the grant for this is used up");
    let other = detail(|grant| grant.sha256 = Some("bb"), "rg x");
    assert_eq!(
        other,
        "the grant for this is bound to another content of the file"
    );
}

#[test]
fn bare_names_are_believed_only_where_nobody_else_writes() {
    let mut world = World::allowing(&["tool", "rg"]);
    for (path, believed) in [
        ("/opt/bin/tool", true),
        ("/srv/proj/bin/tool", false),
        ("/tmp/tool", false),
        ("/dev/shm/x/tool", false),
        ("/foreign/tool", false),
    ] {
        world.machine.search = BTreeMap::from([("tool", path)]);
        world.machine.foreign = vec!["/foreign"];
        let allowed = world.text("tool x").satisfied;
        assert_eq!(allowed, believed, "{path}");
    }
    world.machine.search = BTreeMap::from([("tool", "/opt/bin/tool")]);
    world.machine.links = BTreeMap::from([("/opt/bin/tool", "/srv/proj/tool")]);
    world.asks("tool x", Code::NotAllowlisted);
    world.asks("/usr/bin/rg x", Code::NotAllowlisted);
}

#[test]
fn case_folds_only_when_asked_to() {
    let mut world = World::allowing(&["/USR/bin/Rg"]);
    world.asks("rg x", Code::NotAllowlisted);
    world.path_case = PathCase::Insensitive;
    world.allows("rg x");
}

#[test]
fn unknown_overrides_are_a_miss() {
    let mut world = World::allowing(&["rg"]);
    world.env.insert("TERM".to_owned(), "dumb".to_owned());
    world.allows("rg x");
    world.env.insert("FOO".to_owned(), "x".to_owned());
    world.asks("rg x", Code::EnvUnknown);
}

#[test]
fn the_servers_own_state_is_never_covered() {
    let mut world = World::allowing(&["*"]);
    world.protected = Protected {
        own_binary: Some("/usr/bin/git".to_owned()),
        own_file: None,
        roots: vec!["/home/agent/.openclaw".to_owned()],
        exceptions: vec!["/home/agent/.openclaw/workspace".to_owned()],
    };
    for text in [
        "cat ~/.openclaw/openclaw.json",
        "cat /home/agent/x/../.openclaw/a",
        "rg --file=/home/agent/.openclaw/a",
        "rg -fx:~/.openclaw/y",
        "cd ~ && cat .openclaw/a",
        "cd ~; cat .openclaw/a",
        "cat ../../home/agent/.openclaw",
        "cd ~/.openclaw",
        "bash -c 'cat ~/.openclaw/a'",
        "git status",
        "cat //home//agent/./.openclaw/a",
        "rg -e 'x /home/agent/.openclaw/a'",
        "cat file:///home/agent/.openclaw/a",
        "cat user@host:~/.openclaw/a",
        "cat /proc/self/cwd/a",
        "rg -C /home/agent .openclaw/a",
        "rg -C ~ -f.openclaw/a",
        "rg --directory=/home agent/.openclaw/a",
    ] {
        world.asks(text, Code::Protected);
    }
    world.allows("rg -C /home/agent x");
    world.allows("rg -C /srv .openclaw/a");
    world.allows("cat /home/agent/.OPENCLAW/a");
    world.path_case = PathCase::Insensitive;
    world.asks("cat /home/agent/.OPENCLAW/a", Code::Protected);
    world.path_case = PathCase::Sensitive;
    world.allows("cat ~/.openclaw/workspace/a");
    world.allows("cat ~/.openclawx");
    world.allows("cd ~ && cat x");
    let mut shell = world.with_entry("/usr/bin/bash", Some("."), None);
    shell.protected.own_binary = None;
    shell.asks("bash -c 'cat ~/.openclaw/a'", Code::Protected);
}

#[test]
fn text_of_a_program_is_a_path_of_the_server_only_where_it_leads_there() {
    let mut world = World::allowing(&["*"]).with_entry("/usr/bin/python3", Some("."), None);
    world.protected.roots = vec!["/srv".to_owned()];
    world.protected.exceptions = vec!["/srv/proj".to_owned()];
    world.allows("python3 -c \"print('a/../..')\"");
    world.allows("python3 -c 'print(1/2)'");
    // The same as a word, in a text that names the place, and where a command before may have made the way.
    world.asks("python3 a/../..", Code::Protected);
    world.asks("python3 -c \"open('/srv/x')\"", Code::Protected);
    world.asks("cp x a; python3 -c \"print('a/../..')\"", Code::Protected);
    // The way is there.
    world.machine.links.insert("/srv/proj/../x", "/srv/x");
    world.asks("python3 -c \"open('../x')\"", Code::Protected);
}

#[test]
fn strict_inline_eval_outranks_entries() {
    let mut world = World::allowing(&["*"])
        .with_entry("/usr/bin/python3", Some("."), None)
        .with_entry("/usr/bin/sudo", Some("."), None)
        .with_entry("/usr/bin/bash", Some("."), None);
    world.allows("python3 -c 1");
    world.strict_inline_eval = true;
    for text in [
        "python3 -c 1",
        "timeout 5 python3 -c 1",
        "sudo python3 -c 1",
        "bash -c 'python3 -c 1'",
        "bash -lc 'python3 -c 1'",
        "sudo sh -c 'python3 -c 1'",
    ] {
        let analysis = world.asks(text, Code::InlineEval);
        assert!(
            analysis.needs_person && analysis.inline_eval && analysis.proposed_patterns.is_empty(),
            "{text}"
        );
    }
    for text in [
        "env A=1 python3 -c 1",
        "nice --adj=5 python3 -c 1",
        "env -i sh -c 'python3 -c 1'",
        "exec python3 -c 1",
        "busybox sh -c 'python3 -c 1'",
    ] {
        let analysis = world.text(text);
        assert!(
            analysis.needs_person && analysis.inline_eval && analysis.proposed_patterns.is_empty(),
            "{text}"
        );
    }
    world.asks("python3", Code::StdinEval);
    world.allows("python3 app.py");
    world.allows("bash run.sh -c");
    assert!(world.text("bash -c 'python3 $x'").verdict != AnalysisVerdict::Allow);
}

#[test]
fn strict_inline_eval_looks_into_text_that_is_handed_on() {
    let mut world = World::allowing(&["*"]);
    world.strict_inline_eval = true;
    world.strict_delegation = false;
    for text in [
        "script -qc 'python3 -c x' /dev/null",
        "flock f -c 'python3 -c x'",
        "env -S 'python3 -c x'",
        "git -c 'alias.x=!python3 -c x' x",
        "echo x | xargs python3",
        "echo x | setsid -w python3 -",
        "echo x | env -i python3 -",
        "tar --checkpoint-action='exec=python3 -c x' -cf a b",
        "xargs -a f python3",
    ] {
        let analysis = world.text(text);
        assert!(
            analysis.inline_eval && analysis.needs_person,
            "{text}: {analysis:?}"
        );
    }
    assert!(!world.text("sudo apt install python3").inline_eval);
    assert!(!world.text("script -qc 'rg x' /dev/null").inline_eval);
}

#[test]
fn skills_need_name_and_file() {
    let mut world = world();
    world.skills = vec![SkillBin {
        name: "rg".to_owned(),
        path: "/usr/bin/rg".to_owned(),
    }];
    assert_eq!(world.allows("rg x").segments[0].matched.kind, MatchKind::Skill);
    world.asks("/usr/bin/rg x", Code::NotAllowlisted);
    world.skills[0].path = "/opt/rg".to_owned();
    world.asks("rg x", Code::NotAllowlisted);
}

#[test]
fn delegation_can_be_switched_off() {
    let mut world = World::allowing(&["find"]);
    world.asks("find . -exec rg {} +", Code::Delegation);
    world.strict_delegation = false;
    world.allows("find . -exec rg {} +");
}

/// Git runs what its own files say, so what writes them counts like what names a program.
#[test]
fn files_that_decide_what_starts_are_not_written_on_a_bare_entry() {
    let mut world = World::allowing(&[
        "git", "cp", "curl", "sed", "tar", "rg", "make", "npm", "go", "wget", "zstd", "prog", "split", "gzip",
    ]);
    for (name, path) in [
        ("sed", "/usr/bin/sed"),
        ("go", "/usr/bin/go"),
        ("wget", "/usr/bin/wget"),
        ("zstd", "/usr/bin/zstd"),
        ("prog", "/usr/bin/prog"),
        ("split", "/usr/bin/split"),
        ("gzip", "/usr/bin/gzip"),
    ] {
        world.machine.search.insert(name, path);
    }
    world.machine.links.insert("/srv/proj/g", "/srv/proj/.git");
    world.machine.links.insert("/srv/proj/s/..", "/srv/proj/.git");
    for (text, twin) in [
        ("git archive -o .git/config HEAD", "git archive -o x HEAD"),
        (
            "git archive --output=/srv/proj/x/.GIT/config HEAD",
            "git archive --output=/srv/proj/x/git/config HEAD",
        ),
        ("git archive -o g/config HEAD", "git archive -o h/config HEAD"),
        (
            "git archive -o s/../config HEAD",
            "git archive -o t/../config HEAD",
        ),
        (
            "cd .git && git archive -o config HEAD",
            "cd x && git archive -o config HEAD",
        ),
        (
            "cd x; git archive -o ../.git/config HEAD",
            "cd x; git archive -o ../config HEAD",
        ),
        (
            "git -C .git archive -o config HEAD",
            "git -C x archive -o config HEAD",
        ),
        (
            "git -C sub -C ../.git archive -o config HEAD",
            "git -C sub -C .. archive -o config HEAD",
        ),
        ("git -C .git clone .. hooks", "git -C x clone .. hooks"),
        ("git -C .git mv a config", "git -C x mv a config"),
        ("git -C g init hooks", "git -C h init hooks"),
        ("git config -f .bashrc user.name x", "git config user.name x"),
        (
            "git worktree move wt ~/.config/git",
            "git worktree move wt ~/config/git",
        ),
        (
            "cd /home/agent/.config && git clone u/git",
            "cd /home/agent/.config && git clone u/x",
        ),
        (
            "git format-patch -o .git/hooks HEAD~1",
            "git format-patch -o out HEAD~1",
        ),
        (
            "go build -C .git/hooks -o pre-commit x",
            "go build -C hooks -o pre-commit x",
        ),
        (
            "npm --prefix .git pack --pack-destination hooks",
            "npm --prefix d pack --pack-destination hooks",
        ),
        ("make -C .git x", "make -C git x"),
        ("make .npmrc", "make npmrc"),
        ("make DESTDIR=.git install", "make DESTDIR=git install"),
        ("cp -vt.git/hooks pre-commit", "cp -vthooks pre-commit"),
        ("cp config.toml .cargo", "cp config.toml cargo"),
        ("cp -b -S rc x .npm", "cp -b -S .bak x .npm"),
        ("curl -so.git/config https://x", "curl -sogit/config https://x"),
        (
            "curl -O 'https://h/{.npmrc}'",
            "curl -d '{\"a\":1}' https://h/npmrc",
        ),
        (
            "curl -o '.np#1' 'https://h/np{mrc}'",
            "curl -o x 'https://h/np{mrc}'",
        ),
        ("curl -O 'https://h/.npmrc?x'", "curl https://h/.git/config"),
        ("wget https://h/%2enpmrc", "wget https://h/npmrc"),
        ("wget -qO.bashrc https://h/x", "wget -qObashrc https://h/x"),
        ("zstd x -o .npmrc", "zstd x -o npmrc"),
        ("prog -xy.git/hooks", "prog --exclude .gitignore -x x"),
        ("prog a .bashrc", "prog a bashrc"),
        ("gzip -d .bashrc.gz", "gzip -d bashrc.gz"),
        ("split -a1 -l1 abc .bashr", "split -a1 -l1 abc bashr"),
        ("cp x .git/hooks/pre-commit", "cp x hooks/pre-commit"),
        ("cp x ~/.bashrc", "cp x ~/bashrc"),
        (
            "curl -o .cargo/config.toml https://x",
            "curl -o config.toml https://x",
        ),
        ("curl -o.npmrc https://x", "curl -onpmrc https://x"),
        (
            "curl --output=.ssh/config https://x",
            "curl --output=ssh/config https://x",
        ),
        ("sed -i s/a/b/ .git/config", "sed -n p .git/config"),
        ("sed -n 'w .git/config' x", "sed -n 'w config' x"),
        ("tar -xf x.tar -C .git", "tar -xf x.tar -C out"),
    ] {
        world.asks(text, Code::Delegation);
        world.allows(twin);
    }
    world.allows("rg x .git/config");
    world.asks(&format!("prog -{}t.git/hooks", "v".repeat(80)), Code::Delegation);
    world.strict_delegation = false;
    world.allows("cp x .git/hooks/pre-commit");
}

#[test]
fn deny_rules_need_a_person_where_a_call_may_start_what_it_does_not_show() {
    let world = World::allowing(&["*"]).denying(&["rm"]);
    for text in [
        "git archive -o .git/config HEAD",
        "git log --output=x",
        "git unknown",
        "gcc -B dir -c x.c",
        "gcc -wrapper x x.c",
        "docker exec c x",
        "perl -e 'x'",
        "python3 -c x",
        "make --eval=x",
        "awk 'BEGIN{system(x)}'",
        "cp x .git/hooks/pre-commit",
    ] {
        world.wants_a_person(text);
    }
    for text in [
        "sqlite3 :memory: '.shell rm V'",
        "sqlite3 -cmd '.system rm V' :memory:",
        "nix-shell --run 'rm V'",
        "debconf rm V",
        "docker exec c rm V",
        "make --eval='x:;rm V' x",
    ] {
        world.denies(text);
    }
    for text in [
        "git archive -o x HEAD",
        "git status",
        "gcc -c x.c",
        "docker ps",
        "python3 app.py",
        "awk '{print $1}' x",
        "make all",
        "sqlite3 d.db 'select 1'",
    ] {
        let analysis = world.text(text);
        assert!(!analysis.needs_person, "{text}: {analysis:?}");
    }
}

#[test]
fn deny_rules_need_a_person_for_variables_that_are_not_known_to_be_harmless() {
    let mut world = World::allowing(&["*"]).denying(&["rm"]);
    for (name, value, wanted) in [
        ("EXT", "rm", true),
        ("CI", "true", false),
        ("GOOS", "linux", false),
    ] {
        world.env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(world.text("rg x").needs_person, wanted, "{name}");
    }
    world.env.clear();
    world.wants_a_person("EXT=x rg y");
    assert!(!world.text("CI=true rg y").needs_person);
    world.denies("EXT=x rm y");
    world.deny_rules.clear();
    world.env = BTreeMap::from([("EXT".to_owned(), "x".to_owned())]);
    assert!(!world.text("rg x").needs_person);
}

#[test]
fn argument_vectors_are_one_literal_segment() {
    let world = World::allowing(&["echo", "/usr/bin/rg"]).denying(&["rm"]);
    let analysis = world.argv(&["echo", "$(x)", "a\r\n;b", "~/x", ""]);
    assert_eq!(analysis.verdict, AnalysisVerdict::Allow);
    let bound = analysis.plan.as_ref().and_then(crate::command::Plan::to_bound);
    let Some(Bound::Exec { path, argv, identity }) = bound else {
        panic!("{bound:?}")
    };
    assert_eq!(path, "/usr/bin/echo");
    assert_eq!(argv, ["echo", "$(x)", "a\r\n;b", "~/x", ""]);
    assert_eq!(identity.as_ref(), analysis.executables.first());
    assert_eq!(analysis.segments.len(), 1);
    assert!(!world.argv(&["'rg'", "x"]).satisfied);
    assert!(world.argv(&["timeout", "5", "rg", "x"]).satisfied);
    assert!(world.argv(&["bash", "-c", "rg x"]).satisfied);
    assert!(world.argv(&["sudo", "rm"]).denylisted.is_some());
    assert!(world.argv(&["env", "A=1", "rm"]).denylisted.is_some());
    assert!(matches!(
        world.argv(&["echo", "a\0b"]).verdict,
        AnalysisVerdict::Reject(_)
    ));
}

#[test]
fn plans_start_what_was_analysed() {
    let mut world = World::allowing(&["*"]);
    world
        .machine
        .links
        .insert("/usr/bin/python3", "/usr/bin/python3.12");
    for (text, script) in [
        ("rg 'it''s' ~/x", "'/usr/bin/rg' 'its' '/home/agent/x'"),
        (
            "timeout 5 nice rg x",
            "'/usr/bin/timeout' '5' '/usr/bin/nice' '/usr/bin/rg' 'x'",
        ),
        ("command rg x", "'/usr/bin/rg' 'x'"),
        ("time -p rg", "'/usr/bin/time' '-p' '/usr/bin/rg'"),
        (
            "CI=1 rg x | head -n 1",
            "CI='1' '/usr/bin/rg' 'x' | '/usr/bin/head' '-n' '1'",
        ),
        (
            "cd sub && rg x || true",
            "'cd' '--' './sub' && '/usr/bin/rg' 'x' || 'true'",
        ),
        (
            "bash -ec 'rg x; git status'",
            "'/usr/bin/bash' '-ec' ''\\''/usr/bin/rg'\\'' '\\''x'\\''; '\\''/usr/bin/git'\\'' '\\''status'\\'''",
        ),
        ("python3 x", "'/usr/bin/python3' 'x'"),
        ("rg x\n# c\nrg y;", "'/usr/bin/rg' 'x'; '/usr/bin/rg' 'y'"),
    ] {
        assert_eq!(world.allows(text).rendered.as_deref(), Some(script), "{text}");
    }
    let analysis = world.allows("python3 x");
    assert_eq!(analysis.executables[0].path, "/usr/bin/python3.12");
    assert_eq!(last_step(&world.allows("cd x")).kind, StepKind::Word);
    // Asked for, but understood: a person's yes starts the plan too.
    assert!(self::world().text("rg x && git status").plan.is_some());
    for text in [
        "rg $x",
        "no-such x",
        "export A=1 && rg x",
        "cd - && rg x",
        "bash -c 'rg $x'",
    ] {
        assert_eq!(self::world().text(text).plan, None, "{text}");
    }
}

#[test]
fn the_directory_of_relative_programs_must_be_certain() {
    let mut world = World::allowing(&["*", "/srv/proj/sub/*"]);
    world.machine.files = vec!["/srv/proj/sub/tool", "/srv/proj/tool"];
    world.allows("cd sub && ./tool");
    world.allows("cd /srv/proj/sub && cd . && ./tool");
    world.allows("rg x || rg y && cd sub && ./tool");
    for text in [
        "cd sub; ./tool",
        "cd sub\n./tool",
        "cd sub || ./tool",
        "true || cd sub && ./tool",
        "rg x || cd sub && rg y && cd . && ./tool",
        "cd sub && true; ./tool",
        "cd sub && rg x || ./tool",
    ] {
        world.asks(text, Code::CwdUnknown);
    }
    let inner = world.allows("bash -c 'cd sub && ./tool' && ./tool");
    assert!(inner.rendered.unwrap().ends_with("'/srv/proj/tool'"));
}

#[test]
fn always_is_offered_exactly_and_only_where_it_is_safe() {
    let analysis =
        World::allowing(&["cat"]).asks("cat x | rg 'a b' && timeout 5 git status", Code::NotAllowlisted);
    let offered: Vec<_> = analysis
        .proposed_patterns
        .iter()
        .map(|pattern| {
            (
                pattern.segment,
                pattern.pattern.as_str(),
                pattern.width,
                pattern.default,
            )
        })
        .collect();
    assert_eq!(
        offered,
        [
            (1, "/usr/bin/rg", PatternWidth::Exact, true),
            (1, "/usr/bin/rg", PatternWidth::Program, false),
            (2, "/usr/bin/git", PatternWidth::Exact, true),
            (2, "/usr/bin/git", PatternWidth::Program, false),
        ]
    );
    assert_eq!(
        analysis.proposed_patterns[0].arg_pattern,
        cwd_argv_pattern("/srv/proj", ["a b"].into_iter())
    );
    for text in [
        "rg $x",
        "sudo rg x",
        "env -i rg",
        "bash run.sh",
        "CI=1 rg x",
        "FOO=1 rg x",
        "find . -exec rg {} +",
        "python3 x.py",
        "no-such",
        "eval rg",
        "busybox ls",
        "rg x && sudo ls",
        "cd x; rg y",
        "rg a=~/x",
    ] {
        assert!(world().text(text).proposed_patterns.is_empty(), "{text}");
    }
    let mut strict = world();
    strict.strict_inline_eval = true;
    let offered = strict.text("python3 x.py").proposed_patterns;
    assert_eq!(
        offered.iter().map(|pattern| pattern.width).collect::<Vec<_>>(),
        [PatternWidth::Exact]
    );
    assert!(strict.text("python3 -c 1").proposed_patterns.is_empty());
    assert_eq!(
        world().text("bash -c 'rg x'").proposed_patterns[0].pattern,
        "/usr/bin/rg"
    );
}

/// A world in which the first answer to a command was "always".
fn remembering(mut world: World, command: &Command) -> World {
    let offered = world.analyze(command).proposed_patterns;
    for pattern in offered.iter().filter(|pattern| pattern.default) {
        world.entries.push(Entry {
            arg_pattern: pattern.arg_pattern.as_deref().map(leak),
            source: pattern.source.as_deref().map(leak),
            ..entry(&pattern.pattern)
        });
    }
    world
}

#[test]
fn a_remembered_answer_covers_nothing_else() {
    let text = |text: &str| Command::shell(text.to_owned()).unwrap();
    let mut world = world();
    world.machine.links.insert("/opt/tool", "/opt/v1/tool");
    world.machine.files.extend(["/opt/v1/tool", "/opt/v2/tool"]);
    let mut world = remembering(world, &text("/opt/tool 'a b'"));
    assert_eq!(world.entries[0].pattern, "/opt/v1/tool");
    for same in [
        "/opt/tool 'a b'",
        "/opt/v1/tool a\\ b",
        "timeout 5 /opt/tool 'a b'",
        "bash -c \"/opt/tool 'a b'\"",
    ] {
        world.allows(same);
    }
    for other in [
        "/opt/tool a b",
        "/opt/tool 'a b' ''",
        "/opt/tool 'a b '",
        "/opt/tool",
        "cd sub && /opt/tool 'a b'",
        "/opt/v2/tool 'a b'",
        "/opt/tool 'a b' && rg x",
    ] {
        assert!(!world.text(other).satisfied, "{other}");
    }
    // The link leads elsewhere by now.
    world.machine.links.insert("/opt/tool", "/opt/v2/tool");
    world.asks("/opt/tool 'a b'", Code::NotAllowlisted);
}

#[test]
fn another_name_of_one_file_is_another_command() {
    let machine = || {
        let mut world = world();
        world.machine.files.push("/usr/bin/systemctl");
        world
            .machine
            .links
            .insert("/usr/sbin/poweroff", "/usr/bin/systemctl");
        world
    };
    let argv = |program: &str| Command::argv(vec![program.to_owned()]).unwrap();
    let world = remembering(machine(), &argv("/usr/bin/systemctl"));
    world
        .argv(&["/usr/bin/systemctl"])
        .satisfied
        .then_some(())
        .unwrap();
    assert!(!world.argv(&["/usr/sbin/poweroff"]).satisfied);
    let analysis = machine().analyze(&argv("/usr/sbin/poweroff"));
    assert_eq!(analysis.proposed_patterns, []);
    assert_eq!(
        analysis.segments[0].notes,
        ["its file is another program under another name, so it is not remembered"]
    );
}

#[test]
fn a_path_that_a_pattern_would_read_as_another_is_never_remembered() {
    for path in [
        "/srv/evil/rg ",
        "/srv/a*b/rg",
        "/srv/a?b/rg",
        "/srv/ü\u{a0}",
        "/srv/tab\t",
    ] {
        let mut world = world();
        world.machine.files.push(leak(path));
        let offered = world.argv(&[path, "x"]).proposed_patterns;
        assert_eq!(offered, [], "{path:?}");
    }
}

#[test]
fn an_interpreter_is_remembered_with_exactly_one_script() {
    let mut world = world();
    world.machine.search.insert("tclsh", "/usr/bin/tclsh");
    for text in ["rg x | tclsh", "tclsh x.tcl", "tclsh x.tcl y.tcl"] {
        assert_eq!(world.text(text).proposed_patterns, [], "{text}");
    }
    world.strict_inline_eval = true;
    assert_eq!(world.text("python3 -u x.py").proposed_patterns.len(), 1);
    assert_eq!(world.text("tclsh x.tcl").proposed_patterns.len(), 1);
    assert_eq!(world.text("rg x | tclsh").proposed_patterns, []);
    for text in [
        "python3 x.py data.py",
        "python3 -u -B",
        "python3 -m http.server",
        "python3 -",
    ] {
        let analysis = world.text(text);
        assert_eq!(analysis.proposed_patterns, [], "{text}");
    }
    let notes = &world.text("python3 x.py data.py").segments[0].notes;
    assert_eq!(
        *notes,
        ["which file it would run as its script cannot be told for certain"]
    );
    assert!(world.text("python3 x.py").segments[0].notes.is_empty());
    assert!(world.text("rg x y").segments[0].notes.is_empty());
}

#[test]
fn remembered_answers_cover_the_same_command() {
    for text in [
        "rg x",
        "cd sub && rg y",
        "bash -c 'git status; rg z'",
        "nice rg 'a b' ~/c",
    ] {
        let first = world().text(text);
        let mut later = world();
        for pattern in first.proposed_patterns.iter().filter(|pattern| pattern.default) {
            later.entries.push(Entry {
                arg_pattern: pattern.arg_pattern.as_deref().map(leak),
                source: pattern.source.as_deref().map(leak),
                ..entry(&pattern.pattern)
            });
        }
        assert!(later.allows(text).durable, "{text}");
    }
}

#[test]
fn the_exact_text_is_offered_only_when_enabled() {
    let mut world = world();
    world.exact_text_grants = true;
    let offered = world.text("rg $x").proposed_patterns;
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0].pattern, command_marker("rg $x"));
    assert!(world.argv(&["no-such"]).proposed_patterns.is_empty());
    world.deny_rules = vec![deny("rm")];
    assert!(world.text("rm x").proposed_patterns.is_empty());
}

#[test]
fn explanations_show_the_whole_tree() {
    let mut world = World::allowing(&["rg"]);
    world.machine.links.insert("/usr/bin/sh", "/usr/bin/bash");
    let analysis = world.text("timeout 5 sh -c 'rg \"x\" | head' && git log");
    insta::assert_json_snapshot!(analysis);
}

#[test]
fn spans_of_payloads_point_into_the_source() {
    let text = "bash -c \"rg x; \\\"git\\\" y\"";
    let analysis = World::allowing(&["rg"]).text(text);
    let span = analysis.findings[0].span;
    assert_eq!(
        text.get(span.start as usize..span.end as usize),
        Some("\"git\\\"")
    );
}

#[test]
fn limits_are_misses() {
    let world = World::allowing(&["*"]);
    let many = |count: usize| vec!["rg x"; count].join(" && ");
    world.allows(&many(64));
    world.asks(&many(65), Code::TooManySegments);
    world.asks(
        &format!("bash -c '{}' && {}", many(40), many(24)),
        Code::TooManySegments,
    );
    world.asks(&format!("rg {}", "x".repeat(8_192)), Code::TooLong);
    assert!(matches!(
        world.text(&"x".repeat(262_145)).verdict,
        AnalysisVerdict::Reject(_)
    ));
    assert!(matches!(world.text("rg\0").verdict, AnalysisVerdict::Reject(_)));
    world.allows("nice nice nice nice rg x");
    world.asks("nice nice nice nice nice rg x", Code::WrapperDepth);
}

/// Pieces that the grammar gives a meaning, so that random text reaches every state of it.
fn shell_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "rg", "git", "bash", "-c", "sudo", "env", "timeout", "5", "cd", "sub", "true", "x", "./t", "~/y", "find", "-exec",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            " ", "  ", "\n", ";", "&&", "||", "|", "&", "'", "\"", "\\", "\\\n", "$", "`", "#", "{", "}", ",", "..", "~", "=", ":",
            "*", "(", ")", "<", ">", "!", "[", "]",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_panics_and_findings_stay_inside(text in shell_text()) {
        let analysis = World::allowing(&["*"]).denying(&["rm"]).text(&text);
        for finding in &analysis.findings {
            prop_assert!(text.get(finding.span.start as usize..finding.span.end as usize).is_some(), "{finding:?}");
        }
    }

    #[test]
    fn what_is_allowed_reads_back_as_its_plan(text in shell_text()) {
        let world = World::allowing(&["*"]);
        let analysis = world.text(&text);
        if analysis.satisfied {
            let plan = analysis.plan.expect("an allowed command has a plan");
            prop_assert_eq!(plan.checked_script(), Ok(plan.render()));
            prop_assert!(plan.render().len() <= 64 + text.len() * 64);
        }
    }

    #[test]
    fn a_deny_rule_or_a_missing_entry_never_allows_more(text in shell_text()) {
        let wide = World::allowing(&["*"]).text(&text).satisfied;
        let narrow = World::allowing(&["rg"]).text(&text).satisfied;
        let denied = World::allowing(&["*"]).denying(&["git"]).text(&text).satisfied;
        prop_assert!(wide || (!narrow && !denied));
    }

    #[test]
    fn quoting_a_word_never_changes_what_runs(words in prop::collection::vec("[^\0\u{1}-\u{8}\u{b}-\u{1f}\u{7f}-\u{10ffff}]{0,8}", 1..5)) {
        let mut text = String::from("rg");
        for word in &words {
            text.push(' ');
            crate::command::rendering::push_quoted(&mut text, word);
        }
        let analysis = World::allowing(&["*"]).text(&text);
        prop_assert!(analysis.satisfied, "{:?}", analysis.findings);
        prop_assert_eq!(&analysis.segments[0].argv[1..], &words[..]);
    }
}

#[test]
fn paths_of_the_machine_are_normalised() {
    assert!(BIN.iter().all(|name| paths::base_name(name) == *name));
}

#[test]
fn a_segment_that_may_run_more_than_its_file_says_so_whatever_is_strict() {
    let any_arguments = |pattern: &str| Entry {
        arg_pattern: Some(".*"),
        ..entry(pattern)
    };
    let mut world = world();
    world.entries = vec![
        entry("*"),
        any_arguments("zsh"),
        any_arguments("xargs"),
        any_arguments("bash"),
    ];
    world.strict_delegation = false;
    for (text, expected) in [
        ("python3 -c 'print(1)'", true),
        ("python3", true),
        ("find . -execdir rm", true),
        ("xargs rm", true),
        ("zsh -c 'rm x'", true),
        ("bash -s", true),
        ("nice python3 -c 'print(1)'", true),
        ("env A=1 sh -c 'set -- x; \"$@\"'", true),
        ("python3 work.py", false),
        ("zsh work.zsh", false),
        ("find . -name x", false),
        ("cat -e x", false),
        ("true", false),
    ] {
        for strict in [false, true] {
            world.strict_inline_eval = strict;
            let analysis = world.text(text);
            let [segment] = analysis.segments.as_slice() else {
                panic!("{text}: {analysis:?}")
            };
            assert_eq!(segment.runs_unseen, expected, "{text}");
        }
    }
    // What a payload runs is there to see.
    let analysis = world.text("sh -c 'cat x; python3 -c y'");
    let [shell] = analysis.segments.as_slice() else {
        panic!("{analysis:?}")
    };
    let inner: Vec<bool> = shell.segments.iter().map(|segment| segment.runs_unseen).collect();
    assert_eq!((shell.runs_unseen, inner), (false, vec![false, true]));
}

/// The first step of the last pipeline.
fn last_step(analysis: &Analysis) -> &PlanStep {
    let plan = analysis.plan.as_ref().expect("a plan");
    match &plan.items.last().unwrap().parts[0] {
        PlanPart::Step(step) => step,
        other @ (PlanPart::All(_)
        | PlanPart::Apart(_)
        | PlanPart::Choice { .. }
        | PlanPart::Turns { .. }
        | PlanPart::Set { .. }
        | PlanPart::Background(_)
        | PlanPart::Wait) => panic!("{other:?}"),
    }
}

/// What of a plan a person reads: words, and what the first program is told to be called.
fn planned(analysis: &Analysis) -> (Vec<String>, String) {
    let step = last_step(analysis);
    (step.words.clone(), step.name.clone())
}

#[test]
fn a_link_of_anybody_is_not_what_an_entry_covers() {
    let mut world = World::allowing(&["/usr/bin/rg", "/opt/named"]);
    world.machine.links = BTreeMap::from([
        ("/srv/proj/rg", "/usr/bin/rg"),
        ("/srv/proj/sh", "/usr/bin/sh"),
        ("/srv/proj/timeout", "/usr/bin/timeout"),
        ("/opt/named", "/usr/bin/rg"),
    ]);
    // The link may lead elsewhere when it is looked for again, and what lies beside it is not the program's.
    let real = ("/usr/bin/rg".to_owned(), "/usr/bin/rg".to_owned());
    let (words, name) = planned(&world.allows("./rg x"));
    assert_eq!((words[0].clone(), name), real);
    let (words, name) = planned(&world.allows("./timeout 5 ./rg x"));
    assert_eq!(
        (words.join(" ").as_str(), name.as_str()),
        ("/usr/bin/timeout 5 /usr/bin/rg x", "/usr/bin/timeout")
    );
    let (words, _) = planned(&world.allows("./sh -c './rg x'"));
    assert_eq!(words[0], "/usr/bin/sh");
    assert!(words[2].contains("/usr/bin/rg"), "{words:?}");
    // Who names the link means it.
    assert_eq!(planned(&world.allows("/opt/named x")).1, "/opt/named");
    // A way that goes back through a directory may go through a link.
    assert_eq!(
        planned(&world.allows("/srv/x/../../usr/bin/rg x")).1,
        "/usr/bin/rg"
    );
    assert_eq!(planned(&world.allows("rg x")).1, "rg");
    // A person who is asked sees the link, and answers for it.
    world.entries.clear();
    assert_eq!(planned(&world.asks("./rg x", Code::NotAllowlisted)).1, "./rg");
}

#[test]
fn a_directory_is_no_assignment_of_env() {
    let mut world = World::allowing(&["/srv/proj/a=b/rg"]);
    world.machine.files = vec!["/srv/proj/a=b/rg"];
    world.allows("cd a=b && timeout 5 ./rg sh ./x.sh");
    for text in [
        "cd a=b && env ./rg sh ./x.sh",
        "cd a=b && nice env ./rg sh ./x.sh",
    ] {
        assert!(world.asks(text, Code::WrapperForm).plan.is_none(), "{text}");
    }
}

#[test]
fn an_answer_for_a_directory_does_not_follow_a_link_to_it() {
    let digest = cwd_argv_pattern("/srv/other", ["status"].into_iter()).unwrap();
    let mut world = world().with_entry("/usr/bin/git", Some(&digest), Some("allow-always"));
    world.allows("cd /srv/other && git status");
    // It may lead elsewhere by the time that the `cd` runs.
    world.machine.links.insert("/srv/proj/link", "/srv/other");
    let analysis = world.asks("cd link && git status", Code::ArgPatternMiss);
    assert!(analysis.proposed_patterns.is_empty());
}

#[test]
fn a_grant_of_a_content_needs_the_file_that_is_started() {
    let mut world = world();
    world.grants = vec![Grant {
        sha256: Some(leak("aa".repeat(32))),
        ..grant("/usr/bin/rg")
    }];
    world.allows("rg x");
    world.asks("timeout 5 rg x", Code::NotAllowlisted);
    world.asks("sh -c 'rg x'", Code::NotAllowlisted);
}

#[test]
fn deny_rules_need_a_person_where_a_shell_does_more_than_its_words_say() {
    let mut world = World::allowing(&["*"]).denying(&["/usr/bin/id", "whoami"]);
    world.machine.search = BTreeMap::from([("printf", "/usr/bin/printf"), ("test", "/usr/bin/test")]);
    for text in [
        "test -v 'a[$(whoami)]'",
        "[ -v 'a[`x`]' ]",
        "printf -v 'a[$(x)]' y",
        "cd -- /usr/bin && ./id",
        "cd -P /usr/bin && ./id",
        "command cd /usr/bin && ./id",
        "pushd /usr/bin && ./id",
        "eval cd /usr/bin && ./id",
        ". ./x && ./id",
        "env -C /usr/bin ./id",
        "env --chdir=/usr/bin ./id",
        "PATH=/srv/proj foo",
        "export PATH=/srv/proj; foo",
        "env PATH=/srv/proj foo",
        "CDPATH=/usr cd bin",
        "PS4='$(whoami)' bash -xc true",
        "=whoami",
        "noglob rg x",
        "repeat 1 rg x",
        "unset 'a[$(x)]'",
        "export x='a[$(whoami)]'; test -v 'b[x]'",
        "x='a[$(whoami)]' test -v 'b[x]'",
        "printf -v 'b[x]' y",
        "printf %d 'b[x]'",
        "export CDPATH+=/usr; cd bin && ./id",
        "export HOME=/usr/bin; ~/id",
        "setsid env -C /usr/bin ./id",
        "sudo -D /usr/bin ./id",
        "sudo PATH=/srv/proj foo",
        "export EXT=x && rg x",
        "env EXT=x rg x",
        "find /usr/bin -name 'i?' -exec {} -u ';'",
        "find /usr/bin -name 'i?' -exec env {} -u ';'",
    ] {
        let analysis = world.text(text);
        assert!(analysis.needs_person || analysis.denylisted.is_some(), "{text}");
    }
    for text in [
        "rg x",
        "export CI=1 && rg x",
        "env CI=1 rg x",
        "umask 022; rg x",
        "cd sub && rg x",
        "printf '[%s]' x",
        "test -f x",
        "find . -name x",
        "find . -exec rg {} ';'",
    ] {
        assert!(!world.text(text).needs_person, "{text}");
    }
}

#[test]
fn a_command_that_is_not_judged_has_its_parts_all_the_same() {
    let parts = |text: &str| Analysis::of_parts(&Command::Shell(text.to_owned()));
    let understood = parts("rg 'a b' | wc -l && FOO=1 ls");
    assert!(understood.ok && understood.satisfied && understood.findings.is_empty());
    let segments: Vec<(Option<&str>, &str, usize)> = understood
        .segments
        .iter()
        .map(|segment| (segment.operator, segment.executable.as_str(), segment.argv.len()))
        .collect();
    assert_eq!(
        segments,
        [(None, "rg", 2), (Some("|"), "wc", 2), (Some("&&"), "ls", 1)]
    );
    let outside = parts("echo $(id)");
    assert!(!outside.ok && outside.satisfied && outside.segments.is_empty());
    assert_eq!(outside.findings.len(), 1);
}

/// A world with an entry for `rg` and one for `git`, and a call with this input.
fn typed_into(input: CommandInput, rg: Typing, git: Typing) -> World {
    let entry_of = |pattern, typing| Entry {
        typing,
        ..entry(pattern)
    };
    World {
        entries: vec![entry_of("/usr/bin/rg", rg), entry_of("/usr/bin/git", git)],
        input,
        ..world()
    }
}

#[test]
fn an_open_input_is_covered_as_far_as_every_entry_includes_it() {
    use CommandInput::{Closed, GuardedTerminal, Pipe, Terminal, Withheld};
    use Typing::{Anything, Guarded, Nothing};
    #[track_caller]
    fn check(input: CommandInput, (rg, git): (Typing, Typing), expect: Option<CommandInput>) {
        let analysis = typed_into(input, rg, git).text("rg x | git status");
        let covered = analysis.satisfied.then_some(analysis.input);
        assert_eq!(covered, expect, "{input} {rg:?} {git:?}");
        assert!(analysis.proposed_patterns.is_empty() || input == Closed);
        if expect.is_none() {
            let finding = analysis.verdict.finding().unwrap();
            assert_eq!((finding.code, finding.rule), (Code::OpenInput, "O1"));
        }
    }
    check(Closed, (Nothing, Nothing), Some(Closed));
    check(Pipe, (Nothing, Nothing), Some(Withheld));
    check(Pipe, (Anything, Nothing), Some(Withheld));
    check(Pipe, (Guarded, Guarded), Some(Pipe));
    check(Terminal, (Nothing, Nothing), None);
    check(Terminal, (Anything, Nothing), None);
    check(Terminal, (Anything, Guarded), Some(GuardedTerminal));
    check(Terminal, (Anything, Anything), Some(Terminal));
}

#[test]
fn an_entry_that_includes_the_input_counts_behind_one_that_does_not() {
    let mut world = typed_into(CommandInput::Pipe, Typing::Nothing, Typing::Nothing);
    world.entries.push(Entry {
        typing: Typing::Guarded,
        ..entry("/usr/bin/rg")
    });
    let analysis = world.text("rg x");
    assert_eq!((analysis.satisfied, analysis.input), (true, CommandInput::Pipe));
    // A use of a grant is no price for an input that stays closed anyway.
    world.grants = vec![Grant {
        max_uses: Some(1),
        typing: Typing::Guarded,
        ..grant("/usr/bin/git")
    }];
    let analysis = world.text("rg x | git status");
    assert_eq!((analysis.input, analysis.credited.len()), (CommandInput::Pipe, 2));
    let analysis = world.text("rg x | git status | head -n 1");
    assert_eq!(analysis.input, CommandInput::Withheld);
    assert!(
        analysis
            .credited
            .iter()
            .all(|credit| credit.kind == CreditKind::Entry)
    );
}

#[test]
fn safe_bins_and_skills_never_include_an_open_input() {
    let mut world = world();
    world.skills = vec![SkillBin {
        name: "rg".to_owned(),
        path: "/usr/bin/rg".to_owned(),
    }];
    for command in ["head -n 1", "rg x"] {
        for (input, expect) in [
            (CommandInput::Closed, Some(CommandInput::Closed)),
            (CommandInput::Pipe, Some(CommandInput::Withheld)),
            (CommandInput::Terminal, None),
        ] {
            world.input = input;
            let analysis = world.text(command);
            assert_eq!(
                analysis.satisfied.then_some(analysis.input),
                expect,
                "{command} {input}"
            );
        }
    }
}

#[test]
fn what_is_missing_otherwise_is_named_where_closing_the_input_would_not_help() {
    let analysis = typed_into(CommandInput::Pipe, Typing::Nothing, Typing::Nothing).text("rg x | make");
    assert!(!analysis.satisfied);
    assert_eq!(analysis.input, CommandInput::Pipe);
    let codes: Vec<Code> = analysis.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::OpenInput, Code::NotAllowlisted]);
}

#[test]
fn deny_rules_cannot_see_what_is_typed_into_a_program_that_runs_it() {
    #[track_caller]
    fn check(input: CommandInput, command: &str, needs_person: bool) {
        let mut world = World::allowing(&["*"]).denying(&["/**/rm"]);
        world.input = input;
        let analysis = world.text(command);
        assert_eq!(analysis.needs_person, needs_person, "{input} {command}");
        assert_eq!(
            analysis.segments[0].runs_unseen, needs_person,
            "{input} {command}"
        );
    }
    check(CommandInput::Closed, "git log", false);
    check(CommandInput::Pipe, "git log", false);
    check(CommandInput::Terminal, "git log", true);
    check(CommandInput::Terminal, "git --no-pager log", false);
    check(CommandInput::Terminal, "rg x", false);
}

#[test]
fn an_entry_for_the_closed_input_hides_nothing_of_the_open_one() {
    // Under `full` the input stays open, no matter what the allowlist includes.
    let mut world = World::allowing(&["/usr/bin/python3"]).denying(&["/**/rm"]);
    world.input = CommandInput::Pipe;
    let analysis = world.text("python3");
    assert_eq!(
        (analysis.satisfied, analysis.input),
        (true, CommandInput::Withheld)
    );
    assert!(analysis.needs_person && analysis.segments[0].runs_unseen);
}
