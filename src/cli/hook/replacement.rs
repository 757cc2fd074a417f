//! What an agent runs in place of its command: `countersign exec` with that command and a key.

use super::question::{AskedCommand, CommandLine};
use crate::cli::value;

/// A call of `countersign exec`. No secret is in it: the call finds its token as every other does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    program: String,
    /// Flags that name the server.
    server: Vec<String>,
    exec: Vec<String>,
}

impl Replacement {
    pub(super) fn new(program: &str, server: &[String], asked: &AskedCommand, key: &str) -> Self {
        let mut exec = vec![format!("--idempotency-key={key}")];
        // A value in the same word as its flag is never taken for a flag.
        let mut flag = |name: &str, value: Option<&String>| {
            exec.extend(value.map(|value| format!("--{name}={value}")));
        };
        flag("agent", asked.agent.as_ref());
        flag("session", asked.session.as_ref());
        flag("workdir", asked.workdir.as_ref());
        flag("justification", asked.justification.as_ref());
        match &asked.command {
            CommandLine::Text(text) => exec.push(format!("--command={text}")),
            CommandLine::Argv(argv) => {
                exec.push("--".to_owned());
                exec.extend(argv.iter().cloned());
            }
        }
        Self {
            program: program.to_owned(),
            server: server.to_vec(),
            exec,
        }
    }

    /// The arguments of `exec`.
    pub(super) fn exec_arguments(&self) -> &[String] {
        &self.exec
    }

    /// The program and its arguments.
    pub(super) fn argv(&self) -> Vec<&str> {
        let words = [self.program.as_str()].into_iter();
        words
            .chain(self.server.iter().map(String::as_str))
            .chain(["exec"])
            .chain(self.exec.iter().map(String::as_str))
            .collect()
    }

    /// The same as text for any POSIX shell, which reads every word as it is.
    pub(super) fn to_shell_text(&self) -> String {
        let words: Vec<String> = self.argv().into_iter().map(value::quoted).collect();
        words.join(" ")
    }
}
