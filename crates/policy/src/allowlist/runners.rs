//! Programs that run another one in the environment of a project, where an entry for the project's interpreter lets the agent do
//! as much anyway (D2).

use super::{
    MatchKind,
    coverage::{Candidate, Need},
    evaluation::Evaluation,
    keeps::{LimitsFrom, limits_anything},
    work::Work,
};
use crate::command::{
    DirectoryTrust, Executable, Rule, delegation, inline_eval, names::without_version, paths, syntax::Word,
};

/// Why an entry for the runner needs no arguments.
const NOTE: &str = "the agent may run any code of the interpreter by an entry for it, so that the entry for this program covers it too";

/// A program that runs others for a project.
struct Runner {
    program: &'static str,
    /// What else its file may be called.
    file: &'static str,
    /// The word behind its name that makes it do so.
    subcommand: Option<&'static str>,
    /// Options that may stand before the program: they choose among the project's own groups, or forbid work.
    flags: &'static [&'static str],
    /// The same with a value in the next word.
    options: &'static [&'static str],
    /// The interpreters of which one has to be free.
    interpreters: &'static [&'static str],
    /// What makes the directory of the call the project's, and where its programs lie. Another program is none of the project.
    project: &'static [&'static str],
    place: &'static str,
    /// The ending of a file in the directory of the call that is a script for the interpreter instead.
    script: Option<&'static str>,
    /// Whether it fetches a program that is gone when it looks.
    fetches: bool,
}

const PYTHON: &[&str] = &["python3", "python"];
const VENV: &str = ".venv/bin";
/// Variables that lead a runner to another project, or to another environment of it.
const LEADING: &[&str] = &[
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
    "UV_NO_PROJECT",
    "POETRY_VIRTUALENVS_IN_PROJECT",
    "POETRY_PROJECT",
    "PIPENV_PIPFILE",
    "PIPENV_VENV_IN_PROJECT",
    "NPM_CONFIG_PREFIX",
    "npm_config_prefix",
];

const RUNNERS: [Runner; 4] = [
    Runner {
        program: "uv",
        file: "uv",
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
        project: &["pyproject.toml", ".venv/pyvenv.cfg"],
        place: VENV,
        script: Some(".py"),
        fetches: false,
    },
    Runner {
        program: "poetry",
        file: "poetry",
        subcommand: Some("run"),
        flags: &[],
        options: &[],
        interpreters: PYTHON,
        project: &["pyproject.toml", ".venv/pyvenv.cfg"],
        place: VENV,
        script: None,
        fetches: false,
    },
    Runner {
        program: "pipenv",
        file: "pipenv",
        subcommand: Some("run"),
        flags: &[],
        options: &[],
        interpreters: PYTHON,
        project: &["Pipfile", ".venv/pyvenv.cfg"],
        place: VENV,
        script: None,
        fetches: false,
    },
    Runner {
        program: "npx",
        file: "npx-cli.js",
        subcommand: None,
        flags: &["--no", "--no-install"],
        options: &[],
        interpreters: &["node"],
        project: &["package.json"],
        place: "node_modules/.bin",
        script: None,
        fetches: true,
    },
];

impl Runner {
    /// The program that it is told to run, and the words behind it.
    fn told<'s, 'w>(&self, arguments: &'s [&'w str]) -> Option<(&'w str, &'s [&'w str])> {
        let mut rest = match self.subcommand {
            Some(subcommand) => match arguments {
                [first, rest @ ..] if *first == subcommand => rest,
                _ => return None,
            },
            None => arguments,
        };
        loop {
            rest = match rest {
                [option, _, behind @ ..] if self.options.contains(option) => behind,
                [flag, behind @ ..] if self.flags.contains(flag) => behind,
                [name, behind @ ..] => return is_name(name).then_some((*name, behind)),
                [] => return None,
            };
        }
    }
}

/// Whether a word is the name of a program: no path, no option, no address, nothing with a version.
fn is_name(word: &str) -> bool {
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    word.starts_with(|first: char| first.is_ascii_alphanumeric()) && word.chars().all(is_of_name)
}

impl Evaluation<'_> {
    /// What is needed of entries for a call that only entries with arguments cover, `need` of them: less where a runner runs a program
    /// of the project, and an entry lets the agent run any code of the interpreter. Whatever the runner fetches, builds and
    /// starts, such code could.
    pub(super) fn needed(&mut self, work: &mut Work<'_>, need: Need) -> Need {
        let is_lifted = self.policy.grammar.project_runners
            && self.cover(work, need).is_err()
            && self.cover(work, Need::Program).is_ok()
            && self.rules.holds(Rule::D2, self.is_for_project(work));
        if !is_lifted {
            return need;
        }
        // Deny rules do not see what the project makes of the name.
        self.opaque = true;
        work.notes.push(NOTE);
        Need::Program
    }

    fn is_for_project(&self, work: &Work<'_>) -> bool {
        let Some(executable) = work.executable() else {
            return false;
        };
        // A link of that name may lead to any program.
        let names = executable.names();
        let is_it = |runner: &&Runner| {
            paths::base_name(&executable.resolved) == runner.program
                && names
                    .iter()
                    .all(|name| *name == runner.program || *name == runner.file)
        };
        let Some(runner) = RUNNERS.iter().find(is_it) else {
            return false;
        };
        // What such a program reads there may be code.
        let takes_input = work.context.reads_pipe
            || self.request.input.is_open()
            || work
                .segment
                .redirections
                .iter()
                .any(|redirection| redirection.descriptor() == 0);
        let arguments = work.arguments();
        let Some((told, behind)) = runner.told(&arguments) else {
            return false;
        };
        let is_code = self.policy.strict_inline_eval && inline_eval::inline_eval(&[told], behind).is_some();
        let is_led_elsewhere = LEADING.iter().any(|variable| self.lookup.is_set(variable));
        let may_be_gone = runner.fetches && !work.context.files_are_seen;
        if takes_input || is_code || is_led_elsewhere || may_be_gone || !work.has_literal_arguments() {
            return false;
        }
        !self.writes_deciding(work, &delegation::read(&[told], behind).outputs)
            && self.is_of_project(work, runner, told)
            && runner.interpreters.iter().any(|name| self.is_free(name, work))
    }

    /// Whether the directory of the call is the project's, and the program one of its own, which nobody else can have put there.
    fn is_of_project(&self, work: &Work<'_>, runner: &Runner, told: &str) -> bool {
        let Some(directory) = self.real_directory(work.context.directory) else {
            return false;
        };
        let is_there = |path: &str| {
            self.lookup
                .real(&paths::join_normalised(&directory, path))
                .is_some()
        };
        let place = paths::join_normalised(&directory, runner.place);
        let is_script = runner.script.is_some_and(|ending| told.ends_with(ending)) && is_there(told);
        runner.project.iter().all(|file| is_there(file))
            && self.lookup.directory_trust(&directory) == DirectoryTrust::Ours
            && self.lookup.directory_trust(&place) == DirectoryTrust::Ours
            && (is_script || self.lookup.inspect(&format!("{place}/{told}")).is_some())
    }

    /// Whether an entry covers this interpreter with any arguments, and keeps it from nothing.
    fn is_free(&self, name: &str, work: &Work<'_>) -> bool {
        let word = Word::literal(name, work.span());
        let Ok(executable) = Executable::resolve_under(self.rules, &word, None, self.lookup) else {
            return false;
        };
        let is_interpreter = |name: &&str| matches!(without_version(name), "python" | "node" | "nodejs");
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
        executable.names().iter().all(is_interpreter)
            && found.is_ok_and(|cover| {
                cover.matched.kind == MatchKind::Allowlist
                    && match &cover.limits {
                        LimitsFrom::Cover(said) => !said.as_ref().is_some_and(limits_anything),
                        LimitsFrom::Nothing => true,
                        LimitsFrom::Question | LimitsFrom::Payload(_) => false,
                    }
            })
    }
}
