//! What a client is told, in its environment: command lines can be read by other accounts, environments cannot.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use countersign_domain::Leftovers;

/// The beginning of the names of the variables that hold the instructions, piece by piece.
const PIECE: &str = "COUNTERSIGN_DOCKER_";

/// The variable that holds the terms.
const TERMS: &str = "COUNTERSIGN_DOCKER_TERMS";

/// Most bytes in one variable: the kernel takes 131,071 with the name.
const PIECE_BYTES: usize = 100 * 1024;

/// One command in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Instructions {
    pub(super) socket: PathBuf,
    pub(super) container: String,
    pub(super) run: String,
    /// With the program, or with `sh` and what it needs.
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) env: Vec<String>,
    pub(super) terminal: Option<(u16, u16)>,
}

impl Instructions {
    /// The variables of a client. Text that cannot be an environment variable is escaped by the format.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut rest = serde_json::to_string(self).unwrap_or_default();
        let mut variables = Vec::new();
        while !rest.is_empty() {
            let cut = rest.floor_char_boundary(PIECE_BYTES.min(rest.len()));
            let after = rest.split_off(cut);
            variables.push((OsString::from(format!("{PIECE}{}", variables.len())), rest.into()));
            rest = after;
        }
        variables
    }

    /// Reads them again, with a look-up of variables.
    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let pieces = (0_usize..).map_while(|index| variable(&format!("{PIECE}{index}")));
        let mut text = String::new();
        for piece in pieces {
            text.push_str(piece.to_str()?);
        }
        serde_json::from_str(&text).ok()
    }
}

/// How a run is ended. Only the host that starts the run knows this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// From `SIGTERM` to `SIGKILL` inside; zero kills straight away.
    pub(crate) grace: Duration,
    pub(crate) leftovers: Leftovers,
}

impl Terms {
    pub(crate) fn variable(self) -> (OsString, OsString) {
        let word = match self.leftovers {
            Leftovers::Kill => "kill",
            Leftovers::Keep => "keep",
        };
        (TERMS.into(), format!("{} {word}", self.grace.as_millis()).into())
    }

    pub(super) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let text = variable(TERMS)?;
        let (grace, word) = text.to_str()?.split_once(' ')?;
        let leftovers = match word {
            "kill" => Leftovers::Kill,
            "keep" => Leftovers::Keep,
            _ => return None,
        };
        Some(Self {
            grace: Duration::from_millis(grace.parse().ok()?),
            leftovers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_any_size_and_content_are_read_as_they_were_written() {
        for length in [0, 1, PIECE_BYTES, 3 * PIECE_BYTES + 7] {
            let instructions = Instructions {
                socket: "/run/docker.sock".into(),
                container: "countersign-sbx-main".to_owned(),
                run: "0190".to_owned(),
                argv: vec!["sh".to_owned(), "'\"$(touch /x)\n\u{0}ü".repeat(length / 10)],
                cwd: "/workspace".to_owned(),
                env: vec!["A=b=c\n".to_owned()],
                terminal: Some((30, 120)),
            };
            let variables = instructions.variables();
            assert!(variables.iter().all(|(_, piece)| piece.len() <= PIECE_BYTES));
            let look_up = |name: &str| {
                let found = variables.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone())
            };
            assert_eq!(Instructions::read(look_up), Some(instructions));
            // A piece that is missing is noticed.
            assert_eq!(
                Instructions::read(|name| look_up(name).filter(|_| name != "COUNTERSIGN_DOCKER_0")),
                None
            );
        }
    }

    #[test]
    fn terms_are_read_as_they_were_written() {
        for leftovers in [Leftovers::Kill, Leftovers::Keep] {
            let terms = Terms {
                grace: Duration::from_millis(1500),
                leftovers,
            };
            let (name, value) = terms.variable();
            assert_eq!(
                Terms::read(|asked| (name == asked).then(|| value.clone())),
                Some(terms)
            );
        }
        assert_eq!(Terms::read(|_| Some("x kill".into())), None);
        assert_eq!(Terms::read(|_| None), None);
    }
}
