//! Rules that look at more than a case of the corpus can say: skills, other owners, the server's own state, what an
//! answer would store.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, Entries, Entry, Keeps, Protected, SkillBin, Typing,
        analyze_under,
    },
    command::{DirectoryTrust, Inspected, PathLookup, Rule, RuleSet, safe_bin::SafeBinProfile},
    confine::ConfineRule,
    pattern::{PathCase, PatternCache, command_marker},
};
use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, FileIdentity, UnixMillis};

/// Every name is a program in `/usr/bin`, and `/opt/foreign` belongs to somebody else.
#[derive(Debug)]
struct Machine;

impl PathLookup for Machine {
    fn search(&self, name: &str) -> Option<String> {
        Some(match name {
            "odd" => "relative/odd".to_owned(),
            "theirs" => "/opt/foreign/theirs".to_owned(),
            name => format!("/usr/bin/{name}"),
        })
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let identity = FileIdentity {
            path: path.to_owned(),
            dev: 1,
            ino: path.len() as u64,
            size: 1,
            mtime_ns: 0,
            ctime_ns: 0,
        };
        Some(Inspected {
            real: path.to_owned(),
            identity,
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
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

    fn is_machine_program(&self, _file: &FileIdentity) -> bool {
        true
    }
}

struct World {
    rule: Rule,
    command: String,
    entries: Vec<Entry<'static>>,
    skills: Vec<SkillBin>,
    safe_bins: Vec<String>,
    profiles: BTreeMap<String, SafeBinProfile>,
    protected: Protected,
    path_case: PathCase,
    input: CommandInput,
    /// `allow` or `ask`, and whether an answer could be remembered.
    expect: (&'static str, bool),
}

fn entry(pattern: &'static str) -> Entry<'static> {
    Entry {
        owner: "main",
        id: pattern,
        pattern,
        arg_pattern: None,
        source: None,
        command_sha256: None,
        typing: Typing::Nothing,
        confine: None,
    }
}

fn world(rule: Rule, command: &str, expect: (&'static str, bool)) -> World {
    World {
        rule,
        command: command.to_owned(),
        entries: vec![entry("/usr/bin/rg")],
        skills: Vec::new(),
        safe_bins: Vec::new(),
        profiles: BTreeMap::new(),
        protected: Protected::default(),
        path_case: PathCase::Sensitive,
        input: CommandInput::Closed,
        expect,
    }
}

fn worlds() -> Vec<World> {
    let skilled = |command, expect| World {
        skills: vec![SkillBin {
            name: "summary".to_owned(),
            path: "/usr/bin/summary".to_owned(),
        }],
        ..world(Rule::K1, command, (expect, false))
    };
    let protected = |command, expect| World {
        protected: Protected {
            own_binary: Some("/usr/bin/countersign".to_owned()),
            own_file: None,
            roots: vec!["/home/agent/.state".to_owned()],
            exceptions: vec!["/home/agent/.state/workspace".to_owned()],
        },
        entries: vec![entry("*")],
        ..world(Rule::P6, command, (expect, false))
    };
    let folded = |pattern, command, expect| World {
        path_case: PathCase::Insensitive,
        entries: vec![entry(pattern)],
        ..world(Rule::M6, command, (expect, false))
    };
    let never_safe = |name: &'static str| World {
        safe_bins: vec![name.to_owned()],
        profiles: BTreeMap::from([(name.to_owned(), SafeBinProfile::default())]),
        ..world(Rule::Sb6, name, ("ask", true))
    };
    let named = |rule, pattern, command, expect| World {
        entries: vec![entry(pattern)],
        ..world(rule, command, (expect, true))
    };
    let marked = |digest: &'static str| {
        let pattern: &'static str = Box::leak(command_marker("rg > x").into_boxed_str());
        World {
            entries: vec![Entry {
                source: Some("allow-always"),
                command_sha256: Some(digest),
                ..entry(pattern)
            }],
            ..world(Rule::M5, "rg > x", ("ask", false))
        }
    };
    let typed = |input, typing, command, expect| World {
        input,
        entries: vec![Entry {
            typing,
            ..entry("/usr/bin/rg")
        }],
        ..world(Rule::O1, command, (expect, false))
    };
    let confined = |confine: serde_json::Value, expect| World {
        entries: vec![Entry {
            confine: Some(Box::leak(Box::new(ConfineRule::read(&confine)))),
            ..entry("/usr/bin/rg")
        }],
        ..world(Rule::C1, "rg x", (expect, false))
    };
    let mut all = vec![
        // Nothing can be kept in these worlds.
        confined(serde_json::json!({ "starts": [] }), "ask"),
        confined(serde_json::json!({ "writes": ["workspace"] }), "ask"),
        confined(serde_json::json!({ "connects": [22] }), "ask"),
        confined(serde_json::json!({ "later": true }), "ask"),
        confined(serde_json::json!({ "starts": "any" }), "allow"),
        typed(CommandInput::Pipe, Typing::Guarded, "rg x", "allow"),
        typed(CommandInput::Terminal, Typing::Guarded, "rg x | rg y", "allow"),
        typed(CommandInput::Terminal, Typing::Nothing, "rg x", "ask"),
        typed(CommandInput::Terminal, Typing::Nothing, "rg x && rg y", "ask"),
        skilled("summary x", "allow"),
        skilled("rg x | summary", "allow"),
        protected("countersign token list", "ask"),
        protected("/usr/bin/countersign", "ask"),
        protected("cat /home/agent/.state/ledger.db", "ask"),
        protected("cat ~/.state/x", "ask"),
        protected("cat --file=/home/agent/.state/x", "ask"),
        protected("cp a:/home/agent/.state", "ask"),
        protected("cat /home/agent/x/../.state/y", "ask"),
        protected("cd ~/.state && cat x", "ask"),
        protected("sh -c 'cat ~/.state/x'", "ask"),
        folded("/USR/Bin/RG", "rg x", "allow"),
        folded("RG", "rg x", "allow"),
        folded("/usr/BIN/*", "rg x", "allow"),
        named(Rule::P3, "theirs", "theirs x", "ask"),
        marked("00"),
        world(Rule::A1, "git status", ("ask", true)),
        world(Rule::A1, "rg x && git status", ("ask", true)),
        world(Rule::A2, "git -c a.b=c status", ("ask", false)),
        world(Rule::A2, "CI=1 git status", ("ask", false)),
        world(Rule::A2, "FOO=1 git status", ("ask", false)),
    ];
    let unresolved = named(Rule::P1, "odd", "odd x", "ask");
    all.push(World {
        expect: ("ask", false),
        ..unresolved
    });
    all.extend(["jq", "awk", "sed", "python3", "perl", "make"].map(never_safe));
    // An interpreter is not remembered either, unless strict mode looks at its arguments.
    for world in &mut all {
        if world.rule == Rule::Sb6 && world.command != "jq" {
            world.expect.1 = false;
        }
    }
    all
}

fn analysis(world: &World, rules: RuleSet) -> Analysis {
    let env = EnvOverrides::default();
    let agent = AgentId::main();
    let request = AnalysisRequest {
        cwd: "/srv/proj",
        cwd_real: "/srv/proj",
        env: &env,
        agent: &agent,
        input: world.input,
        workspace: None,
        temporary: None,
        shell: None,
    };
    let policy = AnalysisPolicy {
        grammar: crate::command::syntax::Grammar::default(),
        entries: Entries::Listed(&world.entries),
        grants: &[],
        deny_rules: &[],
        safe_bins: &world.safe_bins,
        safe_bin_profiles: &world.profiles,
        trusted_dirs: &[],
        skills: &world.skills,
        strict_inline_eval: false,
        strict_delegation: true,
        exact_text_grants: false,
        path_case: world.path_case,
        keeps: Keeps::default(),
        now: UnixMillis::new(0),
        protected: &world.protected,
        cache: &PatternCache::default(),
    };
    analyze_under(
        rules,
        &Command::Shell(world.command.clone()),
        &request,
        &policy,
        &Machine,
    )
}

fn outcome(world: &World, rules: RuleSet) -> (&'static str, bool) {
    let analysis = analysis(world, rules);
    (analysis.verdict.as_str(), !analysis.proposed_patterns.is_empty())
}

/// The rules whose absence changes one of these worlds.
pub(super) fn alive() -> BTreeSet<Rule> {
    worlds()
        .iter()
        .filter(|world| outcome(world, RuleSet::forced(world.rule, false)) != world.expect)
        .map(|world| world.rule)
        .collect()
}

#[test]
fn these_worlds_are_judged_as_the_rules_say_and_change_with_them() {
    for world in worlds() {
        let (rule, command) = (world.rule, &world.command);
        assert_eq!(outcome(&world, RuleSet::ALL), world.expect, "{rule}: {command}");
        let changes = [false, true]
            .into_iter()
            .any(|answer| outcome(&world, RuleSet::forced(rule, answer)) != world.expect);
        assert!(changes, "{rule}: {command}");
    }
}

#[test]
fn what_is_beside_the_servers_own_is_not_refused() {
    let protected = worlds().into_iter().find(|world| world.rule == Rule::P6);
    let mut world = protected.expect("one of them");
    for command in [
        "cat ~/.state/workspace/x",
        "cat ~/.stateful",
        "rg state",
        "cd ~ && rg x",
    ] {
        command.clone_into(&mut world.command);
        assert_eq!(outcome(&world, RuleSet::ALL).0, "allow", "{command}");
    }
}
