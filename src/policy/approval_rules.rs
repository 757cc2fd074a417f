//! Which people a command takes, and how long they and it have (`settings.md`, `[[approvals.rules]]`).
//!
//! The first rule that matches counts. A command can be several programs, and a program may be called so that a pattern
//! matches one of its names and not the others: then every rule that may be the first for any of them counts, and what
//! they ask for adds up. So nothing that is put beside a command, and no name that is given to it, makes it take less.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    command::{Code, paths},
    domain::{AgentId, Host, Quorum},
};

use super::{
    allowlist::{Analysis, MatchKind, SegmentReport},
    pattern::{ExecutablePattern, PathCase, PatternCache},
};

/// One of `[[approvals.rules]]`.
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
    /// For which agent.
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
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Matcher<'a> {
    /// What `~` means in a pattern; `None` where that is not known.
    pub home: Option<&'a str>,
    /// How paths and names compare.
    pub case: PathCase,
    /// Compiled patterns.
    pub cache: &'a PatternCache,
    /// Follows the links of a pattern's own path.
    pub real: &'a dyn Fn(&str) -> Option<String>,
}

/// How a rule and a program stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The rule is not for it.
    No,
    /// It has a name that the rule is for, but not the one that entries of the allowlist would go by.
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
        } = &mut self.quorum;
        *required = (*required).max(rule.approvals_required);
        if !rule.groups.is_empty() {
            let others: BTreeSet<String> = rule.groups.iter().cloned().collect();
            *groups = Some(match groups.take() {
                None => others,
                Some(before) => before.intersection(&others).cloned().collect(),
            });
        }
        let start_by = rule
            .start_by
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        *start_by_ms = shortest(*start_by_ms, start_by);
        self.decide_by = shortest(self.decide_by, rule.decide_by);
    }
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

    /// Whether it is for every command, whatever that runs.
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
        fits.max().unwrap_or(Fit::No)
    }
}

impl Program {
    /// How a pattern stands to it. It is for the real file, or for the name that was typed if that is the file's own; what
    /// else it is called makes the pattern count besides.
    fn fit(&self, pattern: &str, matcher: Matcher<'_>) -> Fit {
        let Matcher {
            home,
            case,
            cache,
            real,
        } = matcher;
        let is_of_home = pattern.trim_start().starts_with('~');
        let Ok(pattern) = ExecutablePattern::parse(pattern, home.unwrap_or("/")) else {
            // What it was meant for is not known.
            return Fit::Maybe;
        };
        if is_of_home && home.is_none() {
            return Fit::Maybe;
        }
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
        if may_be_file || names.any(|name| by_name(paths::base_name(name)) != Some(false)) {
            Fit::Maybe
        } else {
            Fit::No
        }
    }
}

impl Programs {
    /// Those of a command as it was analysed. `real` follows links.
    pub fn of(analysis: Option<&Analysis>, real: &dyn Fn(&str) -> Option<String>) -> Self {
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
        if !collect(&analysis.segments, real, &mut programs) {
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
            | Code::GeneratedEntryInert
            | Code::SafeBinFlag
            | Code::SafeBinOperand
            | Code::SafeBinUntrusted
    )
}

/// Adds the programs of segments and of those inside of them; false when one of them names no file.
fn collect(
    segments: &[SegmentReport],
    real: &dyn Fn(&str) -> Option<String>,
    programs: &mut Vec<Program>,
) -> bool {
    segments.iter().all(|segment| {
        let is_known = match &segment.resolved_path {
            Some(resolved) => {
                programs.push(Program {
                    typed: Some(segment.executable.clone()),
                    resolved: resolved.clone(),
                    real: real(resolved).unwrap_or_else(|| resolved.clone()),
                });
                true
            }
            // Builtins of the plan start no program.
            None => segment.matched.kind == MatchKind::Builtin,
        };
        is_known && collect(&segment.segments, real, programs)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        asked_of(rules, programs, "main", Host::Gateway, Some("/home/agent"))
    }

    fn asked_of(
        rules: &[ApprovalRule],
        programs: &Programs,
        agent: &str,
        host: Host,
        home: Option<&str>,
    ) -> Demand {
        let agent = AgentId::parse(agent).unwrap();
        let question = Question {
            agent: &agent,
            host,
            programs,
        };
        let matcher = Matcher {
            home,
            case: PathCase::Sensitive,
            cache: &PatternCache::default(),
            real: &|path| {
                let path = path
                    .strip_prefix("/bin")
                    .map_or_else(|| path.to_owned(), |rest| format!("/usr/bin{rest}"));
                Some(path)
            },
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
    fn a_home_that_is_not_known_may_be_any() {
        let rules = [rule(&["~/bin/deploy"], 2, &[])];
        let programs = Programs::Known(vec![program("/Users/ann/bin/deploy", "/Users/ann/bin/deploy")]);
        let of = |home| {
            asked_of(&rules, &programs, "main", Host::Node, home)
                .quorum
                .required
        };
        assert_eq!(
            (of(Some("/Users/ann")), of(Some("/home/agent")), of(None)),
            (2, 1, 2)
        );
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
