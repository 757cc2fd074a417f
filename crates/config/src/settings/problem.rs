//! What can be wrong with settings, one line each.

use std::{fmt, path::PathBuf};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nothing set it; the built-in value applies.
    Default,
    /// The settings file with this path.
    File(PathBuf),
    /// The environment variable of this name.
    Variable(String),
    /// A command line flag.
    Flag(&'static str),
}

impl Source {
    /// As [`fmt::Display`] says it, a file by its name alone: where it lies is not for everybody.
    pub fn short(&self) -> String {
        match self {
            Self::File(path) => one_line(&path.file_name().unwrap_or_default().to_string_lossy()),
            Self::Default | Self::Variable(_) | Self::Flag(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(&one_line(&path.to_string_lossy())),
            Self::Variable(name) => f.write_str(&one_line(name)),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One thing that is wrong with the settings. Its `Display` is one line: source, key and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The file, variable or flag.
    pub source: Source,
    /// The key (`http.listen`, `agents.list[0].tools.exec.ask`), when it is about one.
    pub key: Option<String>,
    /// What is wrong, without the value.
    pub problem: Problem,
}

impl SettingsProblem {
    /// What is wrong and with which key, in one line, for a text that lies in no file.
    pub fn without_source(&self) -> String {
        let problem = one_line(&self.problem.to_string());
        match &self.key {
            Some(key) => format!("{}: {problem}", one_line(key)),
            None => problem,
        }
    }

    /// A problem with a whole file, variable or flag.
    pub(super) const fn whole(source: Source, problem: Problem) -> Self {
        Self {
            source,
            key: None,
            problem,
        }
    }

    /// A problem with one key.
    pub(super) fn at(source: Source, key: impl Into<String>, problem: Problem) -> Self {
        Self {
            source,
            key: Some(key.into()),
            problem,
        }
    }
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.without_source())
    }
}

impl std::error::Error for SettingsProblem {}

/// What is wrong with a file, a key or a value. Never repeats the value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It takes two people, and there is one.
    #[error(
        "ask takes two owners with a token of scope admin, and there is one: make the other first, with countersign token \
         create NAME --scope admin --owner OWNER"
    )]
    OneOwner,
    /// A key that we do not know, where unknown keys are refused.
    #[error("unknown key, the nearest known one is {nearest}")]
    UnknownKey {
        /// The known key that looks most like it.
        nearest: String,
    },
    /// A variable that begins with `COUNTERSIGN_` and stands for no key.
    #[error("unknown variable, the nearest known one is {nearest}")]
    UnknownVariable {
        /// The known variable that looks most like it.
        nearest: String,
    },
    /// A wrong type or value.
    #[error("expected {0}")]
    Expected(String),
    /// `null`, which means nothing here.
    #[error("null is not a value, remove the key instead")]
    Null,
    /// Said twice at one level.
    #[error("conflicts with {with} at the same level, keep one of them")]
    Conflict {
        /// The other key that is set.
        with: String,
    },
    /// An agent in two places.
    #[error("agent {agent} is already defined at {first}")]
    DuplicateAgent {
        /// The id that stands twice.
        agent: String,
        /// Where it was first.
        first: String,
    },
    /// The text does not parse.
    #[error("{message} at line {line}, column {column}")]
    Syntax {
        /// What the parser says.
        message: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// Only tables or lists of tables in a file can say this.
    #[error("cannot be set by a variable, only in the file")]
    NotAVariable,
    /// A part of the product that this version does not have; ignoring the key would be less safe than stopping.
    #[error("not yet: {0}")]
    NotYet(&'static str),
    /// Plain HTTP for everybody.
    #[error(
        "not a loopback address, which needs TLS ([tls] cert and key), or plain HTTP allowed for everybody who can \
         reach it ([http] insecure_bind = true or --insecure-bind)"
    )]
    OpenWithoutTls,
    /// `[telemetry] metrics_listen` is not a loopback address, and nothing allows that.
    #[error(
        "not a loopback address: metrics are served without a token, so that needs [http] insecure_bind = true or \
         --insecure-bind"
    )]
    OpenMetrics,
    /// Two keys that go together.
    #[error("does nothing without {other}, set both or neither")]
    Needs {
        /// The key that is missing.
        other: &'static str,
    },
    /// The file that was named is not there.
    #[error("no such file")]
    Missing,
    /// A directory, FIFO or device is in the place of the file.
    #[error("not a regular file")]
    NotAFile,
    /// The file of another user.
    #[error("belongs to user {owner}, neither to us nor to root")]
    ForeignOwner {
        /// The user id of the file's owner.
        owner: u32,
    },
    /// Everybody may write it.
    #[error("others may write it, take that right away with chmod o-w")]
    OthersMayWrite,
    /// Longer than settings ever are.
    #[error("longer than {limit} bytes")]
    TooLarge {
        /// What is read at most.
        limit: usize,
    },
    /// The file holds bytes that are not UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// The file cannot be opened or read, for this reason.
    #[error("cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
}

/// Something about the settings that works but that an operator should know; doctor shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFinding {
    /// A file's group may write it.
    #[error("{}: the group may write it", .0.display())]
    GroupMayWrite(PathBuf),
    /// A key was set that does nothing yet.
    #[error("{key}: not yet effective (set by {from})")]
    NotYetEffective {
        /// The key that was set.
        key: String,
        /// Who set it.
        from: Source,
    },
    /// A key is known and deliberately not followed.
    #[error("{key}: known and ignored")]
    Ignored {
        /// The key that was set.
        key: String,
    },
    /// A key below one of our objects that we do not know; outside the strict parts it is left alone.
    #[error("{key}: unknown, ignored; the nearest known one is {nearest}")]
    UnknownIgnored {
        /// The unknown key as it stands in the file.
        key: String,
        /// The known key that looks most like it.
        nearest: String,
    },
}

/// So many problems of one kind are looked for; a person fixes the first ones and runs it again. Naming the nearest key
/// costs time for each.
pub(super) const MAX_PROBLEMS: usize = 100;

/// Keys and parser messages come from a file: a line break or an escape sequence in one must not forge a second line.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}
