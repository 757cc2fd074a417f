//! How firmly a run is what was judged: one word for people, never more than is true.

use countersign_domain::{
    Binding, Bound, BoundAction, BoundScript, BoundStep, FileIdentity, Pinning, ScriptHold,
};

use super::{delegation, inline_eval, names, names::NameClass, paths};

/// The word, and why it is not a better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// The word that runs show as `binding`.
    pub pinning: Pinning,
    /// What it means here, for people.
    pub detail: &'static str,
}

impl Pinned {
    /// Of a program that begins with `#!` and is bound as a file, not by its content.
    pub const fn of_script() -> Self {
        Self {
            pinning: Pinning::Path,
            detail: SCRIPT,
        }
    }

    /// What a binding pins.
    pub fn of(binding: &Binding) -> Self {
        let loose = match &binding.bound {
            Bound::Text { .. } => {
                return Self {
                    pinning: Pinning::Text,
                    detail: "the text and the shell that reads it, not the programs that it finds",
                };
            }
            Bound::Held { .. } => {
                return Self {
                    pinning: Pinning::Held,
                    detail: "the text, the shell that reads it, and the only programs that can be executed",
                };
            }
            Bound::Inside { .. } => {
                return Self {
                    pinning: Pinning::Text,
                    detail: "the text or the arguments, and what the sandbox is, which finds the programs itself",
                };
            }
            Bound::OnNode { plan: Some(_), .. } => {
                return Self {
                    pinning: Pinning::Path,
                    detail: "the arguments, and the plan that the node made of them, with which it compares what it starts",
                };
            }
            Bound::OnNode { plan: None, .. } => {
                return Self {
                    pinning: Pinning::Text,
                    detail: "the text or the arguments, and the node, which finds the programs itself",
                };
            }
            Bound::Patch { .. } => {
                return Self {
                    pinning: Pinning::Exact,
                    detail: "the patch and the directory that it is applied to; its hunks find their lines by their text",
                };
            }
            Bound::Elsewhere { .. } => {
                return Self {
                    pinning: Pinning::Text,
                    detail: "the text that was shown; the asker starts it and answers for what it runs",
                };
            }
            Bound::Rendered { .. } => Some("a shell finds the programs by their paths once more"),
            Bound::Exec { path, argv, identity } => {
                loose_program(path, argv, identity.as_ref(), Scripts::of(binding))
            }
            Bound::Plan { steps } => BoundStep::all(steps)
                .into_iter()
                .find_map(|step| loose_action(&step.action, Scripts::of(binding))),
        };
        if let (Some(ScriptHold::ChangesDirectory | ScriptHold::SeesOtherFiles), Some(detail)) =
            (binding.held, Scripts::of(binding).loose())
        {
            return Self {
                pinning: Pinning::Text,
                detail,
            };
        }
        match loose.or_else(|| Scripts::of(binding).loose()) {
            Some(detail) => Self {
                pinning: Pinning::Path,
                detail,
            },
            None if !binding.scripts.is_empty() => Self {
                pinning: Pinning::Exact,
                detail: "the arguments, every program, and what each script holds: its interpreter reads what was judged",
            },
            None => Self {
                pinning: Pinning::Exact,
                detail: "the arguments, and every program: it is started from the file that was judged",
            },
        }
    }
}

const SCRIPT: &str =
    "a script is compared right before the start, and then opened once more by its interpreter";

/// The scripts of a binding, and whether they are held.
#[derive(Clone, Copy)]
struct Scripts<'a> {
    all: &'a [BoundScript],
    held: Option<ScriptHold>,
}

impl<'a> Scripts<'a> {
    fn of(binding: &'a Binding) -> Self {
        Self {
            all: &binding.scripts,
            held: binding.held,
        }
    }

    /// Why what a script holds is not pinned.
    fn loose(self) -> Option<&'static str> {
        match self.held {
            Some(ScriptHold::Held) => None,
            _ if self.all.is_empty() => None,
            None => Some(SCRIPT),
            Some(ScriptHold::GainsPrivileges) => Some(
                "a script is not held: a program gains privileges; it is compared right before the start, and then opened once more",
            ),
            Some(ScriptHold::StartedByAnother) => Some(
                "a script is not held: another program starts it; it is compared right before the start, and then found by its path",
            ),
            Some(ScriptHold::NoInterpreter) => Some(
                "a script is not held: its first line names no program; it is compared right before the start, and then opened once more",
            ),
            Some(ScriptHold::ChangesDirectory) => Some(
                "a script is not held: the command changes directory, so that another file may be what its interpreter reads",
            ),
            Some(ScriptHold::SeesOtherFiles) => Some(
                "a script is not held: the command sees other files, so that another one may be what its interpreter reads",
            ),
            Some(ScriptHold::MakeChooses) => {
                Some("a script is not held: make chooses its file when it starts, and may make it anew")
            }
            Some(ScriptHold::NotUnderstood) => Some(
                "a script is not held: the text could not be taken apart; it is compared right before the start, and then opened once more",
            ),
            Some(ScriptHold::TooLarge) => Some(
                "a script is not held: too large; it is compared right before the start, and then opened once more by its interpreter",
            ),
            Some(ScriptHold::Unsupported) => Some(
                "a script is not held: the kernel cannot; it is compared right before the start, and then opened once more by its interpreter",
            ),
        }
    }
}

fn loose_action(action: &BoundAction, scripts: Scripts<'_>) -> Option<&'static str> {
    match action {
        BoundAction::Program {
            path,
            argv,
            assignments: _,
            identity,
            redirections: _,
            fills,
        } => loose_program(path, argv, Some(identity), scripts).or_else(|| {
            let detail = "a word of a program is known only when it begins";
            (!fills.is_empty()).then_some(detail)
        }),
        BoundAction::ChangeDirectory { pinned: None, .. } => {
            Some("a directory is looked for while the command runs")
        }
        BoundAction::ChangeDirectory { pinned: Some(_), .. }
        | BoundAction::PrintDirectory { .. }
        | BoundAction::Settle { .. }
        | BoundAction::All { .. }
        | BoundAction::Not { .. }
        | BoundAction::Choice { .. }
        | BoundAction::Turns { .. }
        | BoundAction::Set { .. }
        | BoundAction::Background { .. }
        | BoundAction::Wait => None,
    }
}

/// What of a program is found by a path after it was judged.
fn loose_program(
    path: &str,
    argv: &[String],
    identity: Option<&FileIdentity>,
    scripts: Scripts<'_>,
) -> Option<&'static str> {
    let Some(identity) = identity else {
        return Some("the program was not looked at");
    };
    if let Some(script) = scripts.all.iter().find(|script| script.path == path) {
        return scripts.loose().or_else(|| loose_interpreter(script));
    }
    let typed = argv.first().map_or("", String::as_str);
    let names = [typed, path, &identity.path].map(paths::base_name);
    match NameClass::of_all(names) {
        NameClass::Program => {}
        NameClass::Wrapper => return Some("a wrapper finds the program that it starts by its path"),
        NameClass::PayloadShell | NameClass::OtherShell => {
            return Some("a shell finds what it starts by its path");
        }
        NameClass::Carrier | NameClass::RefusedBuiltin | NameClass::Multiplexer => {
            return Some("a program whose purpose is to start another finds that by its path");
        }
    }
    if names.iter().any(|name| names::runs_scripts(name)) || inline_eval::is_interpreter(&names) {
        return Some("an interpreter finds what it reads by its path");
    }
    let arguments: Vec<&str> = argv.iter().skip(1).map(String::as_str).collect();
    delegation::delegates(&names, &arguments)
        .then_some("an argument makes the program start another, which it finds by its path")
}

/// What the program of a first line finds by a path.
fn loose_interpreter(script: &BoundScript) -> Option<&'static str> {
    let Some(interpreter) = &script.interpreter else {
        return Some(SCRIPT);
    };
    let names = [&interpreter.path, &interpreter.identity.path].map(|path| paths::base_name(path));
    match NameClass::of_all(names) {
        NameClass::Program | NameClass::PayloadShell | NameClass::OtherShell => None,
        NameClass::Wrapper | NameClass::Carrier | NameClass::RefusedBuiltin | NameClass::Multiplexer => {
            Some("the program of a script's first line finds the interpreter by its path")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::{
        AgentId, BoundFill, BoundFilling, BoundInterpreter, Command, CommandInput, Confinement, Host,
        SessionKey, StepJoin,
    };

    fn identity(path: &str) -> FileIdentity {
        FileIdentity {
            path: path.to_owned(),
            dev: 1,
            ino: 2,
            size: 3,
            mtime_ns: 4,
            ctime_ns: 5,
        }
    }

    fn words(argv: &[&str]) -> Vec<String> {
        argv.iter().map(|word| (*word).to_owned()).collect()
    }

    fn exec(path: &str, argv: &[&str]) -> Bound {
        Bound::Exec {
            path: path.to_owned(),
            argv: words(argv),
            identity: Some(identity(path)),
        }
    }

    fn program(path: &str, argv: &[&str]) -> BoundAction {
        BoundAction::Program {
            path: path.to_owned(),
            argv: words(argv),
            assignments: vec![],
            identity: identity(path),
            redirections: vec![],
            fills: vec![],
        }
    }

    fn plan(actions: Vec<BoundAction>) -> Bound {
        let steps = actions.into_iter().enumerate().map(|(at, action)| BoundStep {
            join: (at > 0).then_some(StepJoin::And),
            action,
        });
        Bound::Plan {
            steps: steps.collect(),
        }
    }

    fn binding(bound: Bound, scripts: Vec<BoundScript>) -> Binding {
        Binding {
            host: Host::Gateway,
            node_id: None,
            agent: AgentId::parse("main").unwrap(),
            session: SessionKey::parse("main").unwrap(),
            command: Command::Shell("x".to_owned()),
            bound,
            cwd: "/".to_owned(),
            cwd_dev: 1,
            cwd_ino: 1,
            env_hash: None,
            executables: vec![],
            executable_sha256: None,
            script: None,
            scripts,
            held: None,
            confinement: Confinement::default(),
            denied_children: Vec::new(),
            pty: false,
            input: CommandInput::Closed,
            timeout_ms: 0,
        }
    }

    #[track_caller]
    fn check(bound: Bound, expected: Pinning) {
        let binding = binding(bound, vec![]);
        assert_eq!(Pinned::of(&binding).pinning, expected, "{:?}", binding.bound);
    }

    #[test]
    fn only_what_starts_from_what_was_judged_is_exact() {
        check(exec("/usr/bin/rg", &["rg", "x"]), Pinning::Exact);
        check(
            plan(vec![
                program("/usr/bin/rg", &["rg"]),
                program("/usr/bin/wc", &["wc", "-l"]),
            ]),
            Pinning::Exact,
        );
        let pinned = BoundAction::ChangeDirectory {
            operand: "./d".to_owned(),
            pinned: Some((1, 2)),
            quiet: false,
        };
        check(
            plan(vec![pinned, BoundAction::PrintDirectory { physical: false }]),
            Pinning::Exact,
        );
    }

    #[test]
    fn whatever_is_found_once_more_is_not() {
        for (path, argv) in [
            ("/usr/bin/timeout", ["timeout", "5", "rg"]),
            ("/usr/bin/sudo", ["sudo", "rg", "x"]),
            ("/bin/sh", ["sh", "-c", "rg"]),
            ("/bin/busybox", ["busybox", "ls", "x"]),
            ("/usr/bin/python3.12", ["python3", "-m", "x"]),
            ("/usr/bin/find", ["find", "-exec", "rm"]),
            // Whichever of its names says so.
            ("/usr/bin/tool", ["bash", "x", "y"]),
        ] {
            check(exec(path, &argv), Pinning::Path);
            check(
                plan(vec![program("/usr/bin/rg", &["rg"]), program(path, &argv)]),
                Pinning::Path,
            );
        }
        let link = Bound::Exec {
            path: "/opt/tool".to_owned(),
            argv: words(&["tool"]),
            identity: Some(identity("/usr/bin/bash")),
        };
        check(link, Pinning::Path);
        let unseen = Bound::Exec {
            path: "/opt/tool".to_owned(),
            argv: words(&["tool"]),
            identity: None,
        };
        check(unseen, Pinning::Path);
        let unpinned = BoundAction::ChangeDirectory {
            operand: "./d".to_owned(),
            pinned: None,
            quiet: false,
        };
        check(plan(vec![unpinned]), Pinning::Path);
        check(
            Bound::Rendered {
                script: "x".to_owned(),
            },
            Pinning::Path,
        );
    }

    #[test]
    fn a_word_that_is_known_only_later_is_not() {
        let mut filled = program("/usr/bin/echo", &["echo", "$?"]);
        check(plan(vec![filled.clone()]), Pinning::Exact);
        if let BoundAction::Program { fills, .. } = &mut filled {
            fills.push(BoundFill {
                argument: 1,
                from: 0,
                to: 2,
                with: BoundFilling::Status,
            });
        }
        check(plan(vec![filled]), Pinning::Path);
    }

    #[test]
    fn a_script_is_exact_only_if_it_is_held_and_a_text_is_a_text() {
        let script = BoundScript {
            path: "/opt/tool".to_owned(),
            sha256: "00".to_owned(),
            interpreter: None,
        };
        let bound = binding(exec("/opt/tool", &["tool"]), vec![script.clone()]);
        assert_eq!(Pinned::of(&bound).pinning, Pinning::Path);
        let started_by = |path: &str, held| {
            let interpreter = BoundInterpreter {
                path: path.to_owned(),
                argument: None,
                identity: identity(path),
            };
            let script = BoundScript {
                interpreter: Some(interpreter),
                ..script.clone()
            };
            let bound = Binding {
                held: Some(held),
                ..binding(exec("/opt/tool", &["tool"]), vec![script])
            };
            Pinned::of(&bound).pinning
        };
        assert_eq!(started_by("/bin/sh", ScriptHold::Held), Pinning::Exact);
        assert_eq!(started_by("/usr/bin/env", ScriptHold::Held), Pinning::Path);
        for held in ScriptHold::ALL.iter().filter(|held| **held != ScriptHold::Held) {
            let is_elsewhere = matches!(held, ScriptHold::ChangesDirectory | ScriptHold::SeesOtherFiles);
            let expected = if is_elsewhere {
                Pinning::Text
            } else {
                Pinning::Path
            };
            assert_eq!(started_by("/bin/sh", *held), expected, "{held}");
        }
        let text = Bound::Text {
            shell: "/bin/sh".to_owned(),
            text: "rg x".to_owned(),
        };
        assert_eq!(Pinned::of(&binding(text, vec![script])).pinning, Pinning::Text);
    }
}
