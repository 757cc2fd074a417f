//! Held texts (`tools.exec.onMiss = "held"`, `docs/spec/exec-tool.md#3-whether-it-runs`): which text that cannot be taken
//! apart may run in the host's shell where nothing but listed programs can be executed, and which programs these are.
//!
//! Pure. The kernel keeps the set, so nothing here has to understand a text: what is found in one only ever makes a person be
//! asked. When in doubt a text is not held.

mod first_words;

use std::collections::BTreeMap;

use countersign_domain::FileIdentity;

use crate::{
    allowlist::{Analysis, AnalysisVerdict, Entry, Protected},
    command::{self, Code, PathLookup, inline_eval::is_interpreter, multi_call, names::NameClass, paths},
    pattern::{ExecutablePattern, GENERATED_SOURCE, has_wildcard},
};

/// Most programs of a set: enough for any list that a person writes by hand.
pub const MAX_PROGRAMS: usize = 128;

/// Directories of the system: what lies elsewhere is not shown to a held text.
const SYSTEM: [&str; 7] = ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"];

/// Files that are the same program under each of their names, with other defaults.
const SAME_UNDER_ANY_NAME: [&str; 6] = ["bzip2", "git", "gzip", "lz4", "xz", "zstd"];

/// Words of the shell's grammar and its builtins: no file is started for them.
const OF_THE_SHELL: &[&str] = &[
    "!",
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "continue",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
    "{",
    "}",
];

/// Why a text that is a miss is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// It was understood, and something else stands against it.
    #[error("it is no miss only because it cannot be taken apart: {0}")]
    Understood(String),
    /// A program that it names first in a command is not in the set.
    #[error("it starts {0}, for which no entry allows any arguments")]
    Unlisted(String),
    /// It names files of the server.
    #[error("it names files of the server itself")]
    Protected,
    /// No entry allows any arguments of a program that could be in the set.
    #[error("no entry of the allowlist allows any arguments of a program of the system")]
    NothingListed,
    /// More than [`MAX_PROGRAMS`].
    #[error("more than {MAX_PROGRAMS} programs are listed")]
    TooMany,
}

/// The programs that a held text may start: those for which an entry allows **any** arguments, by their real paths.
///
/// An entry counts if it names one program, by its name or its path, and nothing else: no `argPattern`, no `confine`, no remembered answer,
/// no text. Shells, wrappers, carriers, loaders, multiplexers and files that are several programs are not in the set, nor what lies outside
/// of the system's directories. Interpreters are in it unless inline code needs a person. What a file holds (a script,
/// rights of its own) is for the caller to look at.
///
/// # Errors
/// [`NotHeld::TooMany`].
pub fn programs<'a>(
    entries: impl IntoIterator<Item = Entry<'a>>,
    strict_inline_eval: bool,
    protected: &Protected,
    lookup: &dyn PathLookup,
) -> Result<Vec<FileIdentity>, NotHeld> {
    let mut found = BTreeMap::new();
    for entry in entries {
        let Some(identity) = program_of(&entry, strict_inline_eval, protected, lookup) else {
            continue;
        };
        found.insert(identity.path.clone(), identity);
        if found.len() > MAX_PROGRAMS {
            return Err(NotHeld::TooMany);
        }
    }
    Ok(found.into_values().collect())
}

fn program_of(
    entry: &Entry<'_>,
    strict_inline_eval: bool,
    protected: &Protected,
    lookup: &dyn PathLookup,
) -> Option<FileIdentity> {
    let Entry {
        owner: _,
        id: _,
        pattern,
        arg_pattern,
        source,
        command_sha256,
        typing: _,
        confine,
    } = entry;
    if confine.is_some()
        || arg_pattern.is_some()
        || command_sha256.is_some()
        || *source == Some(GENERATED_SOURCE)
    {
        return None;
    }
    let path = match ExecutablePattern::parse(pattern, lookup.home()).ok()? {
        ExecutablePattern::File(path) => path,
        ExecutablePattern::Name(name) if !has_wildcard(&name) => lookup.search(&name)?,
        ExecutablePattern::Any | ExecutablePattern::Name(_) | ExecutablePattern::Glob { .. } => return None,
    };
    let found = lookup.inspect(&path)?;
    let names = [paths::base_name(&path), paths::base_name(&found.real)];
    let is_of_system = is_of_system(&found.real);
    let own = paths::base_name(&found.real);
    let is_several = multi_call::tells_by_name(own) && !SAME_UNDER_ANY_NAME.contains(&own);
    let is_code = || is_interpreter(&names) || command::names::runs_scripts(&found.real);
    let is_fit = is_of_system
        && NameClass::of_all(names) == NameClass::Program
        && !is_several
        && !(strict_inline_eval && is_code())
        && !protected.is_own_binary(&found.real, &found.identity);
    is_fit.then_some(found.identity)
}

/// Whether a real path lies in the directories of the system, which held texts see.
pub fn is_of_system(real: &str) -> bool {
    SYSTEM.iter().any(|system| paths::is_within(real, system))
}

/// Whether a text is a miss only because it could not be taken apart, and starts nothing that is plainly not in the set.
///
/// # Errors
/// Why it is not.
pub fn expect_only_unread(
    text: &str,
    analysis: &Analysis,
    set: &[FileIdentity],
    protected: &Protected,
    lookup: &dyn PathLookup,
) -> Result<(), NotHeld> {
    let is_asked = matches!(analysis.verdict, AnalysisVerdict::Ask(_));
    let stands_against_it = analysis
        .findings
        .iter()
        .chain(analysis.verdict.finding())
        .find(|finding| !is_of_grammar(finding.code));
    if analysis.ok
        || !is_asked
        || analysis.needs_person
        || analysis.denylisted.is_some()
        || stands_against_it.is_some()
    {
        let detail = stands_against_it.or_else(|| analysis.verdict.finding());
        return Err(NotHeld::Understood(detail.map_or_else(
            || "it was understood".to_owned(),
            |finding| finding.detail.clone(),
        )));
    }
    if set.is_empty() {
        return Err(NotHeld::NothingListed);
    }
    if names_protected(text, protected, lookup.home()) {
        return Err(NotHeld::Protected);
    }
    let is_listed = |word: &str| {
        let path = if word.contains('/') {
            Some(paths::expand_home(word, lookup.home()))
        } else {
            lookup.search(word)
        };
        path.and_then(|path| lookup.inspect(&path))
            .is_some_and(|found| set.contains(&found.identity))
    };
    first_words::of(text)
        .into_iter()
        .find(|word| !OF_THE_SHELL.contains(&word.as_str()) && !is_listed(word))
        .map_or(Ok(()), |word| Err(NotHeld::Unlisted(word)))
}

/// Whether a finding says no more than that a text is outside of the accepted grammar, or that its words are not known.
const fn is_of_grammar(code: Code) -> bool {
    match code {
        Code::LineContinuation
        | Code::EmptySegment
        | Code::Background
        | Code::StderrPipe
        | Code::Negation
        | Code::Redirection
        | Code::Heredoc
        | Code::HereString
        | Code::ProcessSubstitution
        | Code::CommandSubstitution
        | Code::Expansion
        | Code::AnsiCQuote
        | Code::Glob
        | Code::BraceExpansion
        | Code::TildeUser
        | Code::Subshell
        | Code::Group
        | Code::Function
        | Code::ReservedWord
        | Code::Assignment
        | Code::AssignmentOnly
        | Code::DynamicExecutable
        | Code::TooManySegments => true,
        Code::Nul
        | Code::TooLong
        | Code::ForbiddenCharacter
        | Code::UnterminatedQuote
        | Code::TrailingBackslash
        | Code::DanglingOperator
        | Code::EmptyExecutable
        | Code::WrapperForm
        | Code::WrapperDepth
        | Code::WrapperUntrusted
        | Code::Carrier
        | Code::Delegation
        | Code::Shell
        | Code::ShellStartup
        | Code::ShellPositional
        | Code::ShellDepth
        | Code::Multiplexer
        | Code::InlineEval
        | Code::StdinEval
        | Code::NotFound
        | Code::NotAllowlisted
        | Code::ConfineUnavailable
        | Code::ArgPatternMiss
        | Code::OpenInput
        | Code::GeneratedEntryInert
        | Code::SafeBinFlag
        | Code::SafeBinOperand
        | Code::SafeBinUntrusted
        | Code::CdForm
        | Code::CwdUnknown
        | Code::Denylisted
        | Code::Protected
        | Code::EnvBlocked
        | Code::EnvInvalid
        | Code::EnvUnknown => false,
    }
}

/// Whether a text has a path of the server in it, as it is written or from the home directory on.
fn names_protected(text: &str, protected: &Protected, home: &str) -> bool {
    let text = text.to_lowercase();
    let spelled = |root: &str| {
        let root = root.to_lowercase();
        let home = home.to_lowercase();
        let below_home = root.strip_prefix(&format!("{home}/")).map(str::to_owned);
        std::iter::once(root).chain(below_home)
    };
    protected.roots.iter().flat_map(|root| spelled(root)).any(|root| {
        text.match_indices(&root).any(|(at, _)| {
            let rest = text.get(at..).unwrap_or_default();
            let is_spared = protected
                .exceptions
                .iter()
                .flat_map(|exception| spelled(exception))
                .any(|exception| rest.starts_with(&exception) && paths_end(rest, exception.len()));
            !is_spared && paths_end(rest, root.len())
        })
    })
}

/// Whether a name ends there.
fn paths_end(text: &str, at: usize) -> bool {
    let next = text.get(at..).and_then(|rest| rest.chars().next());
    next.is_none_or(|next| !next.is_alphanumeric() && !matches!(next, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests;
