//! Process supervision inside a container: the command lines that run `supervision.sh` there.
//!
//! The script starts the command of a run, and ends what the command leaves, or everything of a run. Text of a caller must
//! never become part of the script: it goes in as an argument or in a variable. The client that starts these lines is
//! [`super::process`].

use std::path::Path;

use countersign_domain::{Leftovers, RunId};

use crate::sandbox::{Inside, InsideCommand};

const SCRIPT: &str = include_str!("supervision.sh");

/// Every image must have it.
const SHELL: &str = "/bin/sh";

/// When a run began, in ticks of the kernel's clock, if that is not known: it is after everything.
pub(super) const UNKNOWN: u64 = 999_999_999_999_999;

/// Marks the processes of a run.
const MARK: &str = "COUNTERSIGN_RUN";

/// What a program's `PATH` is preceded by.
const PATH: &str = "COUNTERSIGN_PATH";

/// The same for a text, after the login profile.
const LOGIN_PATH: &str = "COUNTERSIGN_LOGIN_PATH";

/// Puts a variable before the `PATH` of the login profile and runs the text that is its first argument.
const WITH_PATH: &str =
    "PATH=\"$COUNTERSIGN_LOGIN_PATH:$PATH\"; export PATH; unset COUNTERSIGN_LOGIN_PATH; eval \"shift\n$1\"";

/// The environment of a command, above that of its container.
pub(super) fn environment(inside: &Inside, run_id: &RunId) -> Vec<String> {
    let own = [MARK, PATH, LOGIN_PATH, "OPENCLAW_SHELL"];
    let asked = inside
        .env
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()));
    let mut environment: Vec<String> = asked.map(|(name, value)| format!("{name}={value}")).collect();
    environment.push("OPENCLAW_SHELL=exec".to_owned());
    environment.push(format!("{MARK}={run_id};"));
    if let Some(prepend) = &inside.path_prepend {
        let name = match &inside.command {
            InsideCommand::Argv(_) => PATH,
            InsideCommand::Shell(_) => LOGIN_PATH,
        };
        environment.push(format!("{name}={prepend}"));
    }
    environment
}

/// What runs a command.
pub(super) fn words(inside: &Inside) -> Vec<String> {
    let words = match &inside.command {
        InsideCommand::Argv(argv) => return argv.clone(),
        InsideCommand::Shell(text) if inside.path_prepend.is_none() => vec![SHELL, "-lc", text],
        InsideCommand::Shell(text) => vec![SHELL, "-lc", WITH_PATH, "sh", text],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// The whole command line of a run. `None` for a program whose name the shell would read as something else.
pub(super) fn run(run: &str, argv: &[String], leftovers: Leftovers) -> Option<Vec<String>> {
    let program = argv
        .first()
        .filter(|program| !program.is_empty() && !program.starts_with('-'))?;
    let leftovers = match leftovers {
        Leftovers::Kill => "kill",
        Leftovers::Keep => "keep",
    };
    let mut line = script(&["run", run, leftovers, program]);
    line.extend(argv.iter().skip(1).cloned());
    Some(line)
}

/// How hard a run is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blow {
    Ask,
    /// `SIGKILL`, until nothing is left.
    Kill,
}

/// The command line that ends a run which began at `since`.
pub(super) fn sweep(run: &str, since: u64, blow: Blow) -> Vec<String> {
    let signal = match blow {
        Blow::Ask => "TERM",
        Blow::Kill => "KILL",
    };
    script(&["sweep", run, &since.to_string(), signal])
}

/// The first process of a container: it does nothing and keeps the container alive.
pub(super) fn idle_process() -> Vec<String> {
    let text = "trap 'exit 0' TERM INT; sleep 2147483647 & wait $!";
    vec![SHELL.to_owned(), "-c".to_owned(), text.to_owned()]
}

/// What sets a new container up.
pub(super) fn setup(text: &str) -> Vec<String> {
    [SHELL, "-lc", text].map(str::to_owned).to_vec()
}

/// A directory as the engine takes it.
pub(super) fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn script(words: &[&str]) -> Vec<String> {
    let line = [SHELL, "-c", SCRIPT, "countersign"].iter().chain(words);
    line.map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(command: InsideCommand, path_prepend: Option<&str>) -> Inside {
        Inside {
            command,
            cwd: "/workspace".into(),
            env: vec![
                ("A".to_owned(), "$(touch /x)".to_owned()),
                (MARK.to_owned(), "another;".to_owned()),
                ("OPENCLAW_SHELL".to_owned(), "no".to_owned()),
            ],
            path_prepend: path_prepend.map(str::to_owned),
        }
    }

    #[test]
    fn a_path_is_in_a_variable_and_in_no_text() {
        let run_id = RunId::parse("0190").unwrap();
        let hostile = "/a:$(touch /x)'\"";
        for command in [
            InsideCommand::Shell("echo".to_owned()),
            InsideCommand::Argv(vec!["echo".to_owned()]),
        ] {
            let inside = inside(command, Some(hostile));
            let line = run("0190", &words(&inside), Leftovers::Kill).unwrap();
            assert!(!line.iter().any(|word| word.contains(hostile)));
            let environment = environment(&inside, &run_id);
            assert_eq!(
                environment
                    .iter()
                    .filter(|variable| variable.contains(hostile))
                    .count(),
                1
            );
        }
    }

    #[test]
    fn the_mark_cannot_be_given_by_a_call() {
        let run_id = RunId::parse("0190").unwrap();
        let inside = inside(InsideCommand::Shell(String::new()), None);
        let expected = ["A=$(touch /x)", "OPENCLAW_SHELL=exec", "COUNTERSIGN_RUN=0190;"];
        assert_eq!(environment(&inside, &run_id), expected);
    }

    #[test]
    fn a_name_that_would_be_an_option_is_refused() {
        for name in ["-a", ""] {
            assert_eq!(
                run("0190", &[name.to_owned(), "x".to_owned()], Leftovers::Kill),
                None
            );
        }
    }
}
