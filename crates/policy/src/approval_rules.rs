//! Which people a command takes, and how long they and it have (`docs/spec/settings.md#2-countersigntoml`,
//! `[[approvals.rules]]`).
//!
//! The first rule that matches counts. A command can be several programs, and a program may be called so that a pattern
//! matches one of its names and not the others: then every rule that may be the first for any of them counts, and what
//! they ask for adds up. So nothing that is put beside a command, and no name that is given to it, makes it take less.

use std::{collections::BTreeSet, time::Duration};

use countersign_domain::{AgentId, Host, Quorum};

use crate::command::{Code, PathLookup, paths};

use super::{
    allowlist::{Analysis, MatchKind, SegmentReport},
    pattern::{ExecutablePattern, PathCase, PatternCache, has_wildcard},
};

/// One table of `[[approvals.rules]]`: what it is for, and what that takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRule {
    /// Agents it is for; empty for all.
    pub agents: Vec<AgentId>,
    /// Hosts it is for; empty for all.
    pub hosts: Vec<Host>,
    /// Patterns of programs it is for; empty for all.
    pub patterns: Vec<String>,
    /// How many people must approve.
    pub approvals_required: u64,
    /// The groups they must be of; empty for any.
    pub groups: Vec<String>,
    /// How long they have to decide.
    pub decide_by: Option<Duration>,
    /// How long the run has to start once it is allowed.
    pub start_by: Option<Duration>,
    /// How long the run is held back once it is allowed, so that the answer can be taken back.
    pub start_delay: Duration,
}

/// What a command takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// How many people, of which groups, and until when the run must start.
    pub quorum: Quorum,
    /// How long they have to decide; `None` for `[approvals] timeout_ms`.
    pub decide_by: Option<Duration>,
}

/// A question, as far as rules look at it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The agent that the call acts for.
    pub agent: &'a AgentId,
    /// Where it would run.
    pub host: Host,
    /// What it would run.
    pub programs: &'a Programs,
}

/// What a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// It could not be told: any rule may be meant.
    Unknown,
    /// These and no others; none for a patch.
    Known(Vec<Program>),
}

/// One program of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As it was typed; `None` where it was not.
    pub typed: Option<String>,
    /// The file that names.
    pub resolved: String,
    /// Where that file really lies.
    pub real: String,
}

/// What patterns are compared with.
#[derive(Debug, Clone, Copy)]
pub struct Matcher<'a> {
    /// The files of the machine that runs it; `None` where they cannot be seen from here.
    pub lookup: Option<&'a dyn PathLookup>,
    /// How paths and names compare.
    pub case: PathCase,
    /// Compiled patterns of earlier questions; answers do not depend on it.
    pub cache: &'a PatternCache,
}

/// How a rule and a program stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The rule is not for it.
    No,
    /// It may be what the rule is for: it has another name of that, or cannot be seen from here.
    Maybe,
    /// The rule is for it.
    Yes,
}

/// What a question takes under these rules; any one approver where none matches.
pub fn demand(rules: &[ApprovalRule], question: Question<'_>, matcher: Matcher<'_>) -> Demand {
    let rules: Vec<&ApprovalRule> = rules.iter().filter(|rule| rule.is_about(question)).collect();
    let mut demand = Demand::default();
    match question.programs {
        Programs::Unknown => demand.add_first(&rules, ApprovalRule::fit_unknown),
        Programs::Known(programs) if programs.is_empty() => {
            demand.add_first(&rules, ApprovalRule::fit_nothing);
        }
        Programs::Known(programs) => {
            for program in programs {
                demand.add_first(&rules, |rule| rule.fit(program, matcher));
            }
        }
    }
    demand
}

impl Demand {
    /// Adds the first rule that is for something, and every one before that may be.
    fn add_first(&mut self, rules: &[&ApprovalRule], fit: impl Fn(&ApprovalRule) -> Fit) {
        for rule in rules {
            match fit(rule) {
                Fit::No => {}
                Fit::Maybe => self.add(rule),
                Fit::Yes => return self.add(rule),
            }
        }
    }

    /// What this and a rule ask for together.
    fn add(&mut self, rule: &ApprovalRule) {
        let Quorum {
            required,
            groups,
            start_by_ms,
            start_delay_ms,
        } = &mut self.quorum;
        *required = (*required).max(rule.approvals_required);
        if !rule.groups.is_empty() {
            let others: BTreeSet<String> = rule.groups.iter().cloned().collect();
            *groups = Some(match groups.take() {
                None => others,
                Some(before) => before.intersection(&others).cloned().collect(),
            });
        }
        *start_by_ms = shortest(*start_by_ms, rule.start_by.map(millis));
        let start_delay = Some(rule.start_delay).filter(|delay| !delay.is_zero());
        *start_delay_ms = (*start_delay_ms).max(start_delay.map(millis));
        self.decide_by = shortest(self.decide_by, rule.decide_by);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn shortest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl ApprovalRule {
    fn is_about(&self, question: Question<'_>) -> bool {
        (self.agents.is_empty() || self.agents.contains(question.agent))
            && (self.hosts.is_empty() || self.hosts.contains(&question.host))
    }

    /// Whether it is for every command, no matter what that runs.
    fn is_for_all(&self) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.trim() == "*")
    }

    /// How it stands to a command that could not be analysed.
    fn fit_unknown(&self) -> Fit {
        if self.is_for_all() { Fit::Yes } else { Fit::Maybe }
    }

    /// How it stands to what starts no program.
    fn fit_nothing(&self) -> Fit {
        if self.is_for_all() { Fit::Yes } else { Fit::No }
    }

    fn fit(&self, program: &Program, matcher: Matcher<'_>) -> Fit {
        if self.is_for_all() {
            return Fit::Yes;
        }
        let fits = self.patterns.iter().map(|pattern| program.fit(pattern, matcher));
        // What stands behind a path of another machine is not known.
        let least = if matcher.lookup.is_none() {
            Fit::Maybe
        } else {
            Fit::No
        };
        fits.fold(least, Fit::max)
    }
}

impl Program {
    /// How a pattern stands to it. It is for the real file, or for the name that was typed if that is the file's own; what
    /// else it is called makes the pattern count besides.
    fn fit(&self, pattern: &str, matcher: Matcher<'_>) -> Fit {
        let Matcher { lookup, case, cache } = matcher;
        let home = match lookup {
            Some(lookup) => lookup.home(),
            None if pattern.trim_start().starts_with('~') => return Fit::Maybe,
            None => "/",
        };
        let Ok(pattern) = ExecutablePattern::parse(pattern, home) else {
            // What it was meant for is not known.
            return Fit::Maybe;
        };
        let real = |path: &str| lookup.and_then(|lookup| lookup.real(path));
        let by_path = |path: &str| pattern.matches_path(path, case, cache, real);
        let by_name = |name: &str| pattern.matches_name(name, case, cache);
        let bare = self.typed.as_deref().filter(|typed| !typed.contains('/'));
        // A link in the run PATH may be called like another program.
        let is_called_so = bare.is_some_and(|name| by_name(name) == Some(true))
            && by_name(paths::base_name(&self.real)) == Some(true);
        if is_called_so || by_path(&self.real) == Some(true) {
            return Fit::Yes;
        }
        // One that cannot be compiled may be meant.
        let may_be_file = [&self.resolved, &self.real]
            .into_iter()
            .any(|path| by_path(path) != Some(false));
        let mut names = self.typed.iter().chain([&self.resolved, &self.real]);
        if may_be_file
            || names.any(|name| by_name(paths::base_name(name)) != Some(false))
            || lookup.is_some_and(|lookup| self.is_file_of(&pattern, lookup))
        {
            Fit::Maybe
        } else {
            Fit::No
        }
    }

    /// Whether its file is the very one that a name or a path stands for: what the name is a link to in the run PATH, or
    /// a hard link.
    fn is_file_of(&self, pattern: &ExecutablePattern, lookup: &dyn PathLookup) -> bool {
        let meant = match pattern {
            ExecutablePattern::Name(name) if !has_wildcard(name) => lookup.search(name),
            ExecutablePattern::File(path) => Some(path.clone()),
            ExecutablePattern::Any | ExecutablePattern::Name(_) | ExecutablePattern::Glob { .. } => None,
        };
        let file = |path: &str| {
            let identity = lookup.inspect(path)?.identity;
            Some((identity.dev, identity.ino))
        };
        let meant = meant.and_then(|path| file(&path));
        meant.is_some() && meant == file(&self.real)
    }
}

impl Programs {
    /// Those of a command as it was analysed. `lookup` has the files of the machine that runs it, where they can be seen.
    pub fn of(analysis: Option<&Analysis>, lookup: Option<&dyn PathLookup>) -> Self {
        let understood = analysis.filter(|analysis| {
            analysis.ok
                && analysis
                    .findings
                    .iter()
                    .all(|finding| is_a_mere_miss(finding.code))
        });
        let Some(analysis) = understood else {
            return Self::Unknown;
        };
        let mut programs = Vec::new();
        if !collect(&analysis.segments, lookup, &mut programs) {
            return Self::Unknown;
        }
        for identity in &analysis.executables {
            let path = &identity.path;
            if !programs.iter().any(|known| known.real == *path) {
                programs.push(Program {
                    typed: None,
                    resolved: path.clone(),
                    real: path.clone(),
                });
            }
        }
        Self::Known(programs)
    }
}

/// Whether a finding only says that nothing covers the command, not that something of it is not known.
const fn is_a_mere_miss(code: Code) -> bool {
    matches!(
        code,
        Code::NotAllowlisted
            | Code::ArgPatternMiss
            | Code::OpenInput
            | Code::GeneratedEntryInert
            | Code::SafeBinFlag
            | Code::SafeBinOperand
            | Code::SafeBinUntrusted
    )
}

/// Adds the programs of segments and of those inside of them; false when one of them names no file, or may run more
/// than its file.
fn collect(segments: &[SegmentReport], lookup: Option<&dyn PathLookup>, programs: &mut Vec<Program>) -> bool {
    segments.iter().all(|segment| {
        let is_known = match &segment.resolved_path {
            Some(resolved) => {
                programs.push(Program {
                    typed: Some(segment.executable.clone()),
                    resolved: resolved.clone(),
                    real: lookup
                        .and_then(|lookup| lookup.real(resolved))
                        .unwrap_or_else(|| resolved.clone()),
                });
                true
            }
            // Builtins of the plan start no program.
            None => segment.matched.kind == MatchKind::Builtin,
        };
        is_known && !segment.runs_unseen && collect(&segment.segments, lookup, programs)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use countersign_domain::FileIdentity;

    use crate::command::{DirectoryTrust, Inspected};

    /// `/bin` is a link, `perl` has two names, and `py` is a link in the run PATH.
    #[derive(Debug)]
    struct Machine {
        home: &'static str,
    }

    const AGENT: Machine = Machine { home: "/home/agent" };

    impl PathLookup for Machine {
        fn search(&self, name: &str) -> Option<String> {
            (name == "py").then(|| "/usr/bin/py".to_owned())
        }

        fn inspect(&self, path: &str) -> Option<Inspected> {
            let real = self.real(path)?;
            let file = real.strip_suffix("5.38").unwrap_or(&real);
            let ino = file.bytes().fold(7_u64, |number, byte| {
                number.wrapping_mul(31).wrapping_add(byte.into())
            });
            let identity = FileIdentity {
                path: real.clone(),
                dev: 1,
                ino,
                size: 1,
                mtime_ns: 0,
                ctime_ns: 0,
            };
            Some(Inspected { real, identity })
        }

        fn real(&self, path: &str) -> Option<String> {
            let path = path
                .strip_prefix("/bin")
                .map_or_else(|| path.to_owned(), |rest| format!("/usr/bin{rest}"));
            Some(if path == "/usr/bin/py" {
                "/opt/python/python3.12".to_owned()
            } else {
                path
            })
        }

        fn depends_on_process(&self, _path: &str) -> bool {
            false
        }

        fn home(&self) -> &str {
            self.home
        }

        fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
            DirectoryTrust::Ours
        }

        fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
            None
        }
    }

    fn rule(patterns: &[&str], approvals_required: u64, groups: &[&str]) -> ApprovalRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ApprovalRule {
            agents: Vec::new(),
            hosts: Vec::new(),
            patterns: owned(patterns),
            approvals_required,
            groups: owned(groups),
            decide_by: None,
            start_by: None,
            start_delay: Duration::ZERO,
        }
    }

    fn program(typed: &str, real: &str) -> Program {
        let resolved = if typed.contains('/') { typed } else { real };
        Program {
            typed: Some(typed.to_owned()),
            resolved: resolved.to_owned(),
            real: real.to_owned(),
        }
    }

    fn asked(rules: &[ApprovalRule], programs: &Programs) -> Demand {
        asked_of(rules, programs, "main", Host::Gateway, Some(&AGENT))
    }

    fn asked_of(
        rules: &[ApprovalRule],
        programs: &Programs,
        agent: &str,
        host: Host,
        lookup: Option<&dyn PathLookup>,
    ) -> Demand {
        let agent = AgentId::parse(agent).unwrap();
        let question = Question {
            agent: &agent,
            host,
            programs,
        };
        let matcher = Matcher {
            lookup,
            case: PathCase::Sensitive,
            cache: &PatternCache::default(),
        };
        demand(rules, question, matcher)
    }

    #[track_caller]
    fn check(rules: &[ApprovalRule], programs: &[(&str, &str)], required: u64, groups: Option<&[&str]>) {
        let programs = programs
            .iter()
            .map(|(typed, real)| program(typed, real))
            .collect();
        let Quorum {
            required: found,
            groups: of,
            start_by_ms: _,
            start_delay_ms: _,
        } = asked(rules, &Programs::Known(programs)).quorum;
        let groups = groups.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect());
        assert_eq!((found, of), (required, groups));
    }

    #[test]
    fn without_a_rule_that_matches_any_one_approver_is_enough() {
        assert_eq!(asked(&[], &Programs::Unknown), Demand::default());
        let elsewhere = ApprovalRule {
            hosts: vec![Host::Node],
            ..rule(&[], 3, &["x"])
        };
        let of_another = ApprovalRule {
            agents: vec![AgentId::parse("other").unwrap()],
            ..rule(&[], 4, &[])
        };
        let rules = [elsewhere, of_another];
        assert_eq!(asked(&rules, &Programs::Unknown), Demand::default());
        for (agent, host, required) in [
            ("main", Host::Node, 3),
            ("other", Host::Gateway, 4),
            ("other", Host::Node, 3),
        ] {
            let demand = asked_of(&rules, &Programs::Unknown, agent, host, None);
            assert_eq!(demand.quorum.required, required, "{agent} {host}");
        }
    }

    #[test]
    fn the_first_rule_that_is_for_a_program_counts() {
        let rules = [
            rule(&["/bin/date"], 1, &["clock"]),
            rule(&["kubectl"], 2, &[]),
            rule(&[], 3, &[]),
        ];
        let clock: Option<&[&str]> = Some(&["clock"]);
        check(&rules, &[("date", "/usr/bin/date")], 1, clock);
        check(&rules, &[("/bin/date", "/usr/bin/date")], 1, clock);
        check(&rules, &[("kubectl", "/opt/kubectl")], 2, None);
        check(&rules, &[("id", "/usr/bin/id")], 3, None);
        // A patch starts no program.
        check(&rules, &[], 3, None);
        check(&rules[..2], &[], 1, None);
    }

    #[test]
    fn what_stands_beside_a_program_and_what_it_is_called_take_nothing_away() {
        let rules = [
            rule(&["/usr/bin/date", "ls"], 1, &["easy"]),
            rule(&["kubectl"], 2, &["ops"]),
            rule(&[], 1, &[]),
        ];
        let none: Option<&[&str]> = Some(&[]);
        check(
            &rules,
            &[("kubectl", "/opt/kubectl"), ("id", "/usr/bin/id")],
            2,
            Some(&["ops"]),
        );
        check(
            &rules,
            &[("date", "/usr/bin/date"), ("kubectl", "/opt/kubectl")],
            2,
            none,
        );
        // By its path it still is kubectl, and a link called ls is no ls.
        check(&rules, &[("/opt/kubectl", "/opt/kubectl")], 2, Some(&["ops"]));
        check(&rules, &[("./harmless", "/opt/kubectl")], 2, Some(&["ops"]));
        check(&rules, &[("./ls", "/opt/kubectl")], 2, none);
        check(&rules, &[("ls", "/opt/kubectl")], 2, none);
        check(&rules, &[("ls", "/usr/bin/ls")], 1, Some(&["easy"]));
        check(&rules, &[("/tmp/kubectl", "/usr/bin/id")], 2, Some(&["ops"]));
    }

    #[test]
    fn what_could_not_be_analysed_may_be_anything_up_to_the_rule_for_all() {
        let rules = [
            rule(&["a"], 1, &[]),
            rule(&["b"], 3, &["ops"]),
            rule(&["*"], 2, &[]),
            rule(&[], 9, &["never"]),
        ];
        let Quorum { required, groups, .. } = asked(&rules, &Programs::Unknown).quorum;
        assert_eq!((required, groups), (3, Some(["ops".to_owned()].into())));
    }

    #[test]
    fn the_shortest_of_the_clocks_counts() {
        let timed = |pattern: &str, decide_by: Option<u64>, start_by: Option<u64>| ApprovalRule {
            decide_by: decide_by.map(Duration::from_secs),
            start_by: start_by.map(Duration::from_secs),
            ..rule(&[pattern], 1, &[])
        };
        let rules = [
            timed("a", Some(60), None),
            timed("b", Some(30), Some(5)),
            timed("c", None, Some(9)),
        ];
        let found = asked(&rules, &Programs::Unknown);
        assert_eq!(found.decide_by, Some(Duration::from_secs(30)));
        assert_eq!(found.quorum.start_by_ms, Some(5000));
        let global = Duration::from_mins(10);
        assert_eq!(found.quorum.start_by(global), Duration::from_secs(5));
        assert_eq!(Quorum::default().start_by(global), global);
    }

    #[test]
    fn the_longest_delay_counts() {
        let held = |pattern: &str, delay: u64| ApprovalRule {
            start_delay: Duration::from_secs(delay),
            ..rule(&[pattern], 1, &[])
        };
        let rules = [held("a", 3), held("b", 0), held("c", 9)];
        let quorum = asked(&rules, &Programs::Unknown).quorum;
        assert_eq!(quorum.start_delay(), Duration::from_secs(9));
        assert_eq!(Quorum::default().start_delay(), Duration::ZERO);
        let of_b = asked(&rules, &Programs::Known(vec![program("b", "/usr/bin/b")])).quorum;
        assert_eq!(of_b.start_delay_ms, None, "a delay of nothing is none");
    }

    #[test]
    fn a_home_that_is_not_known_may_be_any() {
        let rules = [rule(&["~/bin/deploy"], 2, &[])];
        let programs = Programs::Known(vec![program("/Users/ann/bin/deploy", "/Users/ann/bin/deploy")]);
        let of = |lookup: Option<&dyn PathLookup>| {
            asked_of(&rules, &programs, "main", Host::Gateway, lookup)
                .quorum
                .required
        };
        let ann = Machine { home: "/Users/ann" };
        assert_eq!((of(Some(&ann)), of(Some(&AGENT)), of(None)), (2, 1, 2));
    }

    #[test]
    fn what_stands_behind_a_path_of_another_machine_may_be_anything() {
        let rules = [
            rule(&["/usr/bin/date"], 1, &["clock"]),
            rule(&["kubectl"], 2, &["clock", "ops"]),
            rule(&[], 1, &[]),
        ];
        let of = |typed: &str, real: &str, lookup: Option<&dyn PathLookup>| {
            let programs = Programs::Known(vec![program(typed, real)]);
            let Quorum { required, groups, .. } =
                asked_of(&rules, &programs, "main", Host::Node, lookup).quorum;
            (
                required,
                groups.map(|groups| groups.into_iter().collect::<Vec<_>>()),
            )
        };
        let clock = Some(vec!["clock".to_owned()]);
        assert_eq!(of("/tmp/link", "/tmp/link", Some(&AGENT)), (1, None));
        assert_eq!(of("/tmp/link", "/tmp/link", None), (2, clock.clone()));
        assert_eq!(of("kubectl", "/opt/kubectl", None), (2, clock.clone()));
        // One that fits ends the search.
        assert_eq!(of("date", "/usr/bin/date", None), (1, clock));
    }

    #[test]
    fn the_file_that_a_pattern_means_is_meant_by_every_name() {
        let rules = [
            rule(&["py", "/bin/perl"], 2, &[]),
            rule(&["p?", "/bin/per*"], 3, &[]),
            rule(&[], 1, &[]),
        ];
        let python = "/opt/python/python3.12";
        for (typed, real, required) in [
            ("py", python, 3),
            (python, python, 2),
            ("perl5.38", "/usr/bin/perl5.38", 3),
            ("/tmp/x5.38", "/tmp/x5.38", 1),
            ("/opt/python/python3.11", "/opt/python/python3.11", 1),
        ] {
            check(&rules, &[(typed, real)], required, None);
        }
    }

    proptest! {
        #[test]
        fn more_programs_never_take_fewer_people(
            rules in proptest::collection::vec(
                (proptest::collection::vec("[a-c]|/x/[a-c]|\\*", 0..3), 1_u64..5, proptest::collection::vec("[g-h]", 0..3)),
                0..5,
            ),
            some in proptest::collection::vec("[a-d]|/x/[a-d]", 1..4),
            more in proptest::collection::vec("[a-d]|/x/[a-d]", 0..4),
        ) {
            let rules: Vec<ApprovalRule> = rules
                .iter()
                .map(|(patterns, required, groups)| {
                    let [patterns, groups] = [patterns, groups].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
                    rule(&patterns, *required, &groups)
                })
                .collect();
            let programs = |names: &[String]| {
                let real = |name: &str| format!("/x/{}", paths::base_name(name));
                Programs::Known(names.iter().map(|name| program(name, &real(name))).collect())
            };
            let (fewer, all) = (asked(&rules, &programs(&some)), asked(&rules, &programs(&[some, more].concat())));
            let unknown = asked(&rules, &Programs::Unknown);
            for (weaker, stricter) in [(&fewer, &all), (&all, &unknown)] {
                prop_assert!(stricter.quorum.required >= weaker.quorum.required);
                match (&weaker.quorum.groups, &stricter.quorum.groups) {
                    (Some(weaker), Some(stricter)) => prop_assert!(stricter.is_subset(weaker)),
                    (Some(_), None) => prop_assert!(false, "a group was forgotten"),
                    (None, _) => {}
                }
            }
        }
    }
}
