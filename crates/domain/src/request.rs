//! What a caller asks the server to run.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{AgentId, AgentNote, Ask, HostChoice, Security, SessionKey};

/// The largest single argument that Linux passes to a program: `MAX_ARG_STRLEN` less its NUL.
pub const MAX_ARGUMENT_BYTES: usize = 131_071;

/// Most words of an argument vector, the program among them: as many as a node takes.
pub const MAX_WORDS: usize = 4_096;

/// Most bytes of an argument vector, one counted for the end of each word, as the kernel counts them.
pub const MAX_ARGV_BYTES: usize = 256 * 1024;

/// Most environment overrides of a call.
pub const MAX_ENV_VARIABLES: usize = 1_024;

/// Most bytes of the environment overrides of a call, two counted for each: the kernel passes a variable as `NAME=value` with
/// a NUL at its end.
pub const MAX_ENV_BYTES: usize = 256 * 1024;

/// Longest text of a patch. A person may have to read it, and records keep it.
pub const MAX_PATCH_BYTES: usize = 1024 * 1024;

/// What to run: text for a shell, a program with its arguments, or a patch. Exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Shell text, as sent.
    Shell(String),
    /// A program and its arguments, run without any shell. Never empty, the first not blank.
    Argv(Vec<String>),
    /// A patch of files below the working directory (`docs/spec/exec-tool.md#9-apply_patch`).
    Patch(String),
}

/// A request cannot be meant as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// The command is empty or only white space.
    #[error("the command is blank")]
    BlankCommand,
    /// A text holds a NUL byte, which no process can be given.
    #[error("must not contain NUL")]
    Nul,
    /// Longer than a program can be given.
    #[error("longer than {MAX_ARGUMENT_BYTES} bytes cannot be started")]
    TooLong,
    /// More words than a command may have.
    #[error("a command has at most {MAX_WORDS} arguments; put the rest into a file that the program reads")]
    TooManyWords,
    /// Each word could be passed, but not all of them.
    #[error(
        "the arguments of a command have at most {MAX_ARGV_BYTES} bytes together; put them into a file that the program reads"
    )]
    TooManyBytes,
    /// Longer than a patch may be.
    #[error("a patch has at most {MAX_PATCH_BYTES} bytes")]
    PatchTooLong,
}

impl Command {
    /// Shell text that is not blank, holds no NUL and fits into one argument.
    ///
    /// # Errors
    /// [`InvalidRequest`] says which of these fails.
    pub fn shell(text: String) -> Result<Self, InvalidRequest> {
        let command = Self::Shell(text);
        command.check()?;
        Ok(command)
    }

    /// An argument vector whose first word is not blank.
    ///
    /// # Errors
    /// [`InvalidRequest`] for a missing or blank program, a NUL, an argument that is too long, or too much of them.
    pub fn argv(argv: Vec<String>) -> Result<Self, InvalidRequest> {
        let command = Self::Argv(argv);
        command.check()?;
        Ok(command)
    }

    /// What a peer of the product means by its words: gateways send shell text as `["/bin/sh", "-lc", text]`
    /// (`docs/spec/bridge.md#91-systemrun`), so that is text, judged and run like any other.
    ///
    /// # Errors
    /// [`InvalidRequest`], as for text and for arguments.
    pub fn of_peer(argv: Vec<String>) -> Result<Self, InvalidRequest> {
        match <[String; 3]>::try_from(argv) {
            Ok([shell, flags, text]) if shell == "/bin/sh" && flags == "-lc" => Self::shell(text),
            Ok(words) => Self::argv(words.into()),
            Err(argv) => Self::argv(argv),
        }
    }

    /// A patch that is not blank, holds no NUL and is not too long.
    ///
    /// # Errors
    /// [`InvalidRequest`] says which of these fails.
    pub fn patch(text: String) -> Result<Self, InvalidRequest> {
        let command = Self::Patch(text);
        command.check()?;
        Ok(command)
    }

    /// A command out of a record. It was admitted under the limits of then, which may have been wider.
    ///
    /// # Errors
    /// [`InvalidRequest`] for what no limit has ever let through.
    pub fn recorded(command: Self) -> Result<Self, InvalidRequest> {
        match command.check() {
            Ok(()) | Err(InvalidRequest::TooManyWords | InvalidRequest::TooManyBytes) => Ok(command),
            Err(
                invalid @ (InvalidRequest::BlankCommand
                | InvalidRequest::Nul
                | InvalidRequest::TooLong
                | InvalidRequest::PatchTooLong),
            ) => Err(invalid),
        }
    }

    /// Whether it can be meant and started at all: what the constructors look at. Only something that is explained
    /// and never run may be made without.
    ///
    /// # Errors
    /// [`InvalidRequest`] says what stands against it.
    pub fn check(&self) -> Result<(), InvalidRequest> {
        match self {
            Self::Shell(text) | Self::Patch(text) if text.trim().is_empty() => {
                Err(InvalidRequest::BlankCommand)
            }
            Self::Patch(text) if text.len() > MAX_PATCH_BYTES => Err(InvalidRequest::PatchTooLong),
            Self::Patch(text) if text.contains('\0') => Err(InvalidRequest::Nul),
            Self::Patch(_) => Ok(()),
            Self::Shell(text) => check_argument(text),
            Self::Argv(argv) if argv.first().is_none_or(|program| program.trim().is_empty()) => {
                Err(InvalidRequest::BlankCommand)
            }
            Self::Argv(argv) => check_argv(argv),
        }
    }

    /// The whole command as text: as it was sent, or the arguments in the canonical form of
    /// `docs/spec/approvals-store.md#12-binding-an-approval-to-what-runs`.
    pub fn to_text(&self) -> String {
        match self {
            Self::Shell(text) | Self::Patch(text) => text.clone(),
            Self::Argv(argv) => argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        }
    }

    /// The command for events and lists: a patch is named by the files that it changes.
    pub fn to_short_text(&self) -> String {
        match self {
            Self::Shell(_) | Self::Argv(_) => self.to_text(),
            Self::Patch(text) => short_patch(text),
        }
    }
}

/// The first files that a patch names; what is not read as one is none.
fn short_patch(text: &str) -> String {
    const NAMED: usize = 5;
    const PATH_CHARS: usize = 100;
    let file = |line: &str| {
        let words = [
            ("*** Add File:", "add"),
            ("*** Delete File:", "delete"),
            ("*** Update File:", "update"),
        ];
        words.into_iter().find_map(|(mark, word)| {
            let path: String = line.strip_prefix(mark)?.trim().chars().take(PATH_CHARS).collect();
            Some(format!("{word} {path}"))
        })
    };
    let mut files = text.lines().filter_map(file);
    let named: Vec<String> = files.by_ref().take(NAMED).collect();
    let more = files.count();
    let and_more = if more == 0 {
        String::new()
    } else {
        format!(", and {more} more")
    };
    format!("apply_patch: {}{and_more}", named.join(", "))
}

/// Its size comes last, so that a record which is too large now is known to be nothing worse.
fn check_argv(argv: &[String]) -> Result<(), InvalidRequest> {
    argv.iter().try_for_each(|argument| check_argument(argument))?;
    if argv.len() > MAX_WORDS {
        return Err(InvalidRequest::TooManyWords);
    }
    let bytes: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    if bytes > MAX_ARGV_BYTES {
        return Err(InvalidRequest::TooManyBytes);
    }
    Ok(())
}

fn check_argument(text: &str) -> Result<(), InvalidRequest> {
    if text.contains('\0') {
        return Err(InvalidRequest::Nul);
    }
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(InvalidRequest::TooLong);
    }
    Ok(())
}

fn quote(word: &str) -> String {
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || c == '"') {
        format!("\"{}\"", word.replace('"', "\\\""))
    } else {
        word.to_owned()
    }
}

/// Environment overrides that passed the environment policy (`docs/spec/command-analysis.md#9-environment`), sorted by
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvOverrides(BTreeMap<String, String>);

impl EnvOverrides {
    /// Wraps overrides that the caller has already put through the environment policy.
    pub fn accepted(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The names alone, sorted; values may be secret.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How much of an environment was read so far. A reader that adds each variable as it comes holds no more than a call
/// may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnvSize {
    variables: usize,
    bytes: usize,
}

impl EnvSize {
    /// Counts one variable more.
    ///
    /// # Errors
    /// [`EnvTooLarge`] when it is one too many, or too large with the others.
    pub const fn add(&mut self, name: &str, value: &str) -> Result<(), EnvTooLarge> {
        self.variables += 1;
        self.bytes += name.len() + value.len() + 2;
        if self.variables > MAX_ENV_VARIABLES {
            return Err(EnvTooLarge::Variables);
        }
        if self.bytes > MAX_ENV_BYTES {
            return Err(EnvTooLarge::Bytes);
        }
        Ok(())
    }

    /// Looks at an environment that was read in full.
    ///
    /// # Errors
    /// [`EnvTooLarge`]
    pub fn check(env: &BTreeMap<String, String>) -> Result<(), EnvTooLarge> {
        let mut size = Self::default();
        env.iter().try_for_each(|(name, value)| size.add(name, value))
    }
}

/// A call has more environment overrides than one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvTooLarge {
    /// Too many of them.
    #[error(
        "a call has at most {MAX_ENV_VARIABLES} environment variables; put the rest into a file that the program reads"
    )]
    Variables,
    /// Too many bytes in all.
    #[error(
        "the environment variables of a call have at most {MAX_ENV_BYTES} bytes together; put them into a file that the program reads"
    )]
    Bytes,
}

/// Whether a call may wait for the answer to a question that was asked before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// It has a question of its own, which no other call joins.
    Never,
    /// It has a question of its own, which others may join.
    Anew,
    /// It joins the same question if that waits.
    Joins,
}

/// One exec call, parsed (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`). What is `None` was not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// What to run, as sent; never blank.
    pub command: Command,
    /// Working directory as sent: absolute or beginning with `~/`.
    pub workdir: Option<String>,
    /// Environment overrides as sent, not yet judged.
    pub env: BTreeMap<String, String>,
    /// How long to wait before the run moves to the background; already clamped to 10 ms..120 s.
    pub yield_after: Option<Duration>,
    /// Wants the background at once. Without the process tool it stays in the foreground.
    pub background: bool,
    /// Time limit; `Some(Duration::ZERO)` switches it off for this call.
    pub timeout: Option<Duration>,
    /// Wants a pseudo-terminal; refused on a node.
    pub pty: bool,
    /// The host that the call names; `None` for what the session or the configuration says.
    pub host: Option<HostChoice>,
    /// Wanted security; may only tighten.
    pub security: Option<Security>,
    /// Wanted ask; may only tighten.
    pub ask: Option<Ask>,
    /// Node id, name, address, or a beginning of an id. Only for the host `node`.
    pub node: Option<String>,
    /// Wants to leave the sandbox.
    pub elevated: bool,
    /// Who asks; `main` where neither the call nor its session key names an agent.
    pub agent: AgentId,
    /// The conversation it belongs to; the agent's main session where the call names none.
    pub session: SessionKey,
    /// What it says about the call.
    pub note: AgentNote,
    /// How long the caller waits inline for a person's answer.
    pub approval_wait: Duration,
    /// Whether it may wait for the answer to the same question, where one waits.
    pub joining: Joining,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_of_argv_quotes_what_needs_it() {
        let argv = |words: &[&str]| Command::argv(words.iter().map(|w| (*w).to_owned()).collect()).unwrap();
        assert_eq!(argv(&["ls", "-la"]).to_text(), "ls -la");
        assert_eq!(
            argv(&["a", "", "b c", "d\"e"]).to_text(),
            "a \"\" \"b c\" \"d\\\"e\""
        );
    }

    #[test]
    fn a_text_in_the_form_of_gateways_is_text_and_nothing_else_is() {
        let of = |words: &[&str]| Command::of_peer(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(
            of(&["/bin/sh", "-lc", "ls; id"]),
            Ok(Command::Shell("ls; id".to_owned()))
        );
        assert_eq!(of(&["/bin/sh", "-lc", " "]), Err(InvalidRequest::BlankCommand));
        for words in [
            &["/bin/sh", "-c", "ls"][..],
            &["/tmp/sh", "-lc", "ls"],
            &["sh", "-lc", "ls"],
            &["/bin/sh", "-lc", "ls", "x"],
            &["/bin/sh", "-lc"],
            &["ls"],
        ] {
            assert!(matches!(of(words), Ok(Command::Argv(_))), "{words:?}");
        }
        assert_eq!(of(&[]), Err(InvalidRequest::BlankCommand));
    }

    #[test]
    fn a_patch_is_named_by_its_files() {
        let short = |text: &str| Command::patch(text.to_owned()).unwrap().to_short_text();
        assert_eq!(
            short(
                "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b c \n-*** Delete File: d\n*** End Patch"
            ),
            "apply_patch: add a, update b c"
        );
        assert_eq!(
            short(&"*** Delete File: a\n".repeat(7)),
            "apply_patch: delete a, delete a, delete a, delete a, delete a, and 2 more"
        );
        assert!(short(&format!("*** Add File: {}", "x".repeat(10_000))).len() < 200);
        assert_eq!(
            Command::patch("x".repeat(MAX_PATCH_BYTES + 1)),
            Err(InvalidRequest::PatchTooLong)
        );
    }

    #[test]
    fn the_environment_is_bounded_in_number_and_bytes() {
        let env = |count: usize, bytes: usize| {
            let pairs = (0..count).map(|number| (format!("V{number:05}"), "x".repeat(bytes)));
            EnvSize::check(&pairs.collect())
        };
        assert_eq!(env(0, 0), Ok(()));
        assert_eq!(env(MAX_ENV_VARIABLES, 0), Ok(()));
        assert_eq!(env(MAX_ENV_VARIABLES + 1, 0), Err(EnvTooLarge::Variables));
        let largest = MAX_ENV_BYTES / 2 - "V00000".len() - 2;
        assert_eq!(env(2, largest), Ok(()));
        assert_eq!(env(2, largest + 1), Err(EnvTooLarge::Bytes));
    }

    #[test]
    fn blank_nul_and_oversized_commands_are_refused() {
        assert_eq!(
            Command::shell(" \n".to_owned()),
            Err(InvalidRequest::BlankCommand)
        );
        assert_eq!(Command::argv(vec![]), Err(InvalidRequest::BlankCommand));
        assert_eq!(Command::shell("a\0b".to_owned()), Err(InvalidRequest::Nul));
        assert_eq!(Command::shell("x".repeat(131_072)), Err(InvalidRequest::TooLong));
        assert!(Command::shell("x".repeat(131_071)).is_ok());
    }

    #[test]
    fn arguments_are_bounded_in_number_and_bytes_and_records_are_not() {
        let words = |count: usize, bytes: usize| vec!["x".repeat(bytes); count];
        for (argv, expect) in [
            (words(MAX_WORDS, 1), Ok(())),
            (words(MAX_WORDS + 1, 0), Err(InvalidRequest::BlankCommand)),
            (words(MAX_WORDS + 1, 1), Err(InvalidRequest::TooManyWords)),
            (words(2, MAX_ARGUMENT_BYTES), Ok(())),
            (words(3, MAX_ARGUMENT_BYTES), Err(InvalidRequest::TooManyBytes)),
            (words(4_096, 64), Err(InvalidRequest::TooManyBytes)),
            (words(4_096, 63), Ok(())),
        ] {
            assert_eq!(Command::argv(argv.clone()).map(|_command| ()), expect);
            let is_known = !matches!(expect, Err(InvalidRequest::BlankCommand));
            assert_eq!(Command::recorded(Command::Argv(argv)).is_ok(), is_known);
        }
        let long = Command::Argv(words(1, MAX_ARGUMENT_BYTES + 1));
        assert_eq!(Command::recorded(long), Err(InvalidRequest::TooLong));
    }
}
