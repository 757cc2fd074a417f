//! Programs that run another one in the environment of a project, where an entry for the project's interpreter lets the agent do
//! as much anyway (D2).

use std::path::Path;

use super::{
    MatchKind,
    coverage::{Candidate, Need},
    evaluation::Evaluation,
    keeps::{LimitsFrom, limits_anything},
    work::Work,
};
use crate::command::{Executable, Rule, paths, syntax::Word};

/// Why an entry for the runner needs no arguments.
pub(super) const NOTE: &str = "the agent may run any code of the interpreter by an entry for it, so that the entry for this program covers it too";

/// A program that runs others for a project.
struct Runner {
    program: &'static str,
    /// The word behind its name that makes it do so.
    subcommand: Option<&'static str>,
    /// Options that may stand before the program: they choose among the project's own groups, or forbid work.
    flags: &'static [&'static str],
    /// The same with a value in the next word.
    options: &'static [&'static str],
    /// The interpreters of which one has to be free.
    interpreters: &'static [&'static str],
    /// Where the program has to lie, below the directory of the call or one above it: it comes before all others there. Another one is
    /// none of the project.
    place: &'static str,
    /// The ending of a name that is a script for the interpreter instead.
    script: Option<&'static str>,
}

const PYTHON: &[&str] = &["python3", "python"];
const VENV: &str = ".venv/bin";
/// So many directories from that of the call upwards may be the project's.
const PROJECT_DIRECTORIES: usize = 8;

const RUNNERS: [Runner; 4] = [
    Runner {
        program: "uv",
        subcommand: Some("run"),
        flags: &[
            "-q",
            "--quiet",
            "--frozen",
            "--locked",
            "--no-sync",
            "--offline",
            "--dev",
            "--no-dev",
            "--all-extras",
            "--all-groups",
        ],
        options: &["--extra", "--group", "--package"],
        interpreters: PYTHON,
        place: VENV,
        script: Some(".py"),
    },
    Runner {
        program: "poetry",
        subcommand: Some("run"),
        flags: &[],
        options: &[],
        interpreters: PYTHON,
        place: VENV,
        script: None,
    },
    Runner {
        program: "pipenv",
        subcommand: Some("run"),
        flags: &[],
        options: &[],
        interpreters: PYTHON,
        place: VENV,
        script: None,
    },
    Runner {
        program: "npx",
        subcommand: None,
        flags: &["--no", "--no-install"],
        options: &[],
        interpreters: &["node"],
        place: "node_modules/.bin",
        script: None,
    },
];

impl Runner {
    /// The program that it is told to run.
    fn told<'w>(&self, arguments: &[&'w str]) -> Option<&'w str> {
        let mut words = arguments.iter();
        if let Some(subcommand) = self.subcommand
            && words.next() != Some(&subcommand)
        {
            return None;
        }
        loop {
            let word = *words.next()?;
            if self.options.contains(&word) {
                words.next()?;
            } else if !self.flags.contains(&word) {
                return Some(word).filter(|name| is_name(name));
            }
        }
    }
}

/// Whether a word is the name of a program: no path, no option, no address, nothing with a version.
fn is_name(word: &str) -> bool {
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    word.starts_with(|first: char| first.is_ascii_alphanumeric()) && word.chars().all(is_of_name)
}

impl Evaluation<'_> {
    /// Whether the call has a runner run a program of the project, and an entry lets the agent run any code of the interpreter.
    /// Whatever the runner fetches, builds and starts, such code could.
    pub(super) fn runs_for_project(&mut self, work: &mut Work<'_>) -> bool {
        if !self.policy.grammar.project_runners || !self.rules.holds(Rule::D2, self.is_for_project(work)) {
            return false;
        }
        // Deny rules do not see what the project makes of the name.
        self.opaque = true;
        work.notes.push(NOTE);
        true
    }

    fn is_for_project(&self, work: &Work<'_>) -> bool {
        let Some(executable) = work.executable() else {
            return false;
        };
        let name = paths::base_name(&executable.resolved);
        let mut runners = RUNNERS.iter().filter(|runner| runner.program == name);
        let arguments = work.arguments();
        // What such a program reads there may be code.
        let takes_input = work.context.reads_pipe
            || self.request.input.is_open()
            || work
                .segment
                .redirections
                .iter()
                .any(|redirection| redirection.descriptor() == 0);
        !takes_input
            && work.has_literal_arguments()
            && runners.any(|runner| {
                let told = runner.told(&arguments);
                told.is_some_and(|told| {
                    (runner.script.is_some_and(|ending| told.ends_with(ending))
                        || self.is_installed(work, runner.place, told))
                        && runner.interpreters.iter().any(|name| self.is_free(name, work))
                })
            })
    }

    fn is_installed(&self, work: &Work<'_>, place: &str, name: &str) -> bool {
        let directory = self.real_directory(work.context.directory);
        directory.is_some_and(|directory| {
            Path::new(&directory)
                .ancestors()
                .take(PROJECT_DIRECTORIES)
                .map(|project| project.join(place).join(name))
                .any(|file| {
                    file.to_str()
                        .is_some_and(|file| self.lookup.inspect(file).is_some())
                })
        })
    }

    /// Whether an entry covers this program with any arguments, and keeps it from nothing.
    fn is_free(&self, name: &str, work: &Work<'_>) -> bool {
        let word = Word::literal(name, work.span());
        let Ok(executable) = Executable::resolve_under(self.rules, &word, None, self.lookup) else {
            return false;
        };
        let found = self.coverage().find(&Candidate {
            typed: name,
            executable: Some(&executable),
            arguments: &[],
            is_whole: true,
            // No entry counts that names arguments.
            literal: false,
            is_direct: true,
            directory: None,
            need: Need::Program,
        });
        found.is_ok_and(|cover| {
            cover.matched.kind == MatchKind::Allowlist
                && match &cover.limits {
                    LimitsFrom::Cover(said) => !said.as_ref().is_some_and(limits_anything),
                    LimitsFrom::Nothing => true,
                    LimitsFrom::Question | LimitsFrom::Payload(_) => false,
                }
        })
    }
}
