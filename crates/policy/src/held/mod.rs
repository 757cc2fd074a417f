//! Held texts (`tools.exec.onMiss = "held"`, `docs/spec/exec-tool.md#3-whether-it-runs`): which text that cannot be taken
//! apart may run in the host's shell where nothing but listed programs can be executed, and which programs these are.
//!
//! Pure. The kernel keeps the set, so nothing here has to understand a text: what is found in one only ever makes a person be
//! asked. When in doubt a text is not held.

mod first_words;

use std::collections::BTreeMap;

use countersign_domain::{Confine, FileIdentity, WritePlace};

use crate::{
    allowlist::{Analysis, AnalysisVerdict, Entry, MatchKind, Protected, SegmentReport, WRITES_DECIDING},
    command::{
        self, Code, PathLookup, Span, helpers, inline_eval::is_interpreter, multi_call, names::NameClass,
        paths,
    },
    confine::ConfineRule,
    pattern::{ExecutablePattern, GENERATED_SOURCE, has_wildcard},
};

/// Most programs of a set: enough for any list that a person writes by hand.
pub const MAX_PROGRAMS: usize = 128;

/// Stands for [`OF_THE_WORKSPACE`] among the programs that are named.
pub const WORKSPACE_TOOLS: &str = "@workspace";

/// Programs whose work stays in the workspace, those that most texts start first: they need no network, no home directory and no other
/// files. `git` is one as far as it only reads ([`reads_repository`]).
const OF_THE_WORKSPACE: [&str; 76] = [
    "awk",
    "basename",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "diff",
    "dirname",
    "echo",
    "find",
    "git",
    "grep",
    "head",
    "jq",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "node",
    "od",
    "printf",
    "python3",
    "readlink",
    "realpath",
    "rg",
    "rm",
    "rmdir",
    "sed",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "strings",
    "tail",
    "tar",
    "tee",
    "test",
    "touch",
    "tr",
    "tree",
    "uniq",
    "wc",
    "xxd",
    "base64",
    "bc",
    "column",
    "du",
    "expr",
    "file",
    "fold",
    "gawk",
    "gofmt",
    "gunzip",
    "gzip",
    "hexdump",
    "join",
    "md5sum",
    "mktemp",
    "nl",
    "paste",
    "patch",
    "perl",
    "python",
    "rev",
    "seq",
    "sha1sum",
    "shasum",
    "split",
    "sqlite3",
    "tac",
    "truncate",
    "unzip",
    "zip",
];

/// What git does without writing to its repository or reaching another one, with any words behind it.
const READS_REPOSITORY: [&str; 22] = [
    "blame",
    "cat-file",
    "check-ignore",
    "describe",
    "diff",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "merge-tree",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "version",
    "whatchanged",
];

/// The same with this word behind it, or none.
const READS_REPOSITORY_WITH: [(&str, &[&str]); 6] = [
    (
        "branch",
        &["", "--all", "--list", "--show-current", "-a", "-r", "-v", "-vv"],
    ),
    ("config", &["--get", "--get-all", "--get-regexp", "--list", "-l"]),
    ("reflog", &["", "show"]),
    ("remote", &["", "-v", "get-url"]),
    ("stash", &["list", "show"]),
    ("tag", &["", "--list", "-l"]),
];

/// Directories of the system: what lies elsewhere is not shown to a held text.
const SYSTEM: [&str; 7] = ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"];

/// Files that are the same program under each of their names, with other defaults.
const SAME_UNDER_ANY_NAME: [&str; 6] = ["bzip2", "git", "gzip", "lz4", "xz", "zstd"];

/// Programs that start what their words say and do nothing else that the shell could not: they may be started beside any set.
const STARTERS: [&str; 6] = ["env", "nice", "nohup", "stdbuf", "timeout", "xargs"];

/// Actions of `find` that start the word behind them.
const FIND_STARTS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

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
    /// It was understood, and something stands against it that the walls do not keep.
    #[error("it is a miss for more than its grammar and what listed programs start: {0}")]
    Understood(String),
    /// A program that it names first in a command is not in the set.
    #[error("it starts {0}, for which no entry allows any arguments")]
    Unlisted(String),
    /// It names a file that decides what programs start, where programs that write are in the set without an entry.
    #[error("it names {0}, which decides what programs start")]
    Deciding(String),
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

/// What decides about the set beside the entries.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Programs that it has without an entry (`tools.exec.heldPrograms`): names or paths.
    pub named: &'a [String],
    /// Whether inline code needs a person.
    pub strict_inline_eval: bool,
    /// Real path of the agent's workspace, which a held text may write.
    pub workspace: &'a str,
    /// Real path of the directory of the call, in the workspace or below it.
    pub directory: &'a str,
}

/// The programs that a held text may start: those for which an entry allows **any** arguments and those that are named, by their
/// real paths, and beside them [`STARTERS`].
///
/// An entry counts if it names one program, by its name or its path, and nothing else: no `argPattern`, no remembered answer,
/// no text, and no `confine` that says less than the walls keep. Shells, wrappers, carriers, loaders, multiplexers and files that are several
/// programs are not in the set, nor what lies outside of the system's directories. Interpreters are in it unless inline code needs a
/// person. What a file holds (a script, rights of its own) is for the caller to look at.
///
/// # Errors
/// [`NotHeld::TooMany`].
pub fn programs<'a>(
    entries: impl IntoIterator<Item = Entry<'a>>,
    terms: &Terms<'_>,
    protected: &Protected,
    lookup: &dyn PathLookup,
) -> Result<Vec<FileIdentity>, NotHeld> {
    let mut found = BTreeMap::new();
    let by_entries = entries
        .into_iter()
        .filter_map(|entry| program_of(&entry, terms, protected, lookup));
    for identity in by_entries.chain(named(terms, protected, lookup)) {
        found.insert(identity.path.clone(), identity);
        if found.len() > MAX_PROGRAMS {
            return Err(NotHeld::TooMany);
        }
    }
    for identity in of_the_workspace(terms, protected, lookup) {
        if found.len() < MAX_PROGRAMS {
            found.insert(identity.path.clone(), identity);
        }
    }
    if !found.is_empty() {
        let starters = STARTERS.iter().filter_map(|name| starter(name, lookup));
        for identity in starters.take(MAX_PROGRAMS - found.len()) {
            found.insert(identity.path.clone(), identity);
        }
    }
    Ok(found.into_values().collect())
}

/// The programs that are named. What is said of entries is said of them.
fn named<'a>(
    terms: &'a Terms<'_>,
    protected: &'a Protected,
    lookup: &'a dyn PathLookup,
) -> impl Iterator<Item = FileIdentity> + 'a {
    let entry = |pattern: &'a String| Entry::plain("", "", pattern);
    terms
        .named
        .iter()
        .filter(|name| *name != WORKSPACE_TOOLS)
        .filter_map(move |name| program_of(&entry(name), terms, protected, lookup))
}

/// The programs that [`WORKSPACE_TOOLS`] stands for, where it is named. What is said of entries is said of them.
fn of_the_workspace<'a>(
    terms: &'a Terms<'_>,
    protected: &'a Protected,
    lookup: &'a dyn PathLookup,
) -> impl Iterator<Item = FileIdentity> + 'a {
    let tools = OF_THE_WORKSPACE.iter().filter(|_| terms.names_workspace_tools());
    tools.filter_map(move |name| program_of(&Entry::plain("", "", name), terms, protected, lookup))
}

impl Terms<'_> {
    fn names_workspace_tools(&self) -> bool {
        self.named.iter().any(|name| name == WORKSPACE_TOOLS)
    }
}

/// Whether git only reads its repository, by its command and the word behind that. Where a text hides them the walls let it do no more.
fn reads_repository(command: &str, behind: &str) -> bool {
    READS_REPOSITORY.contains(&command)
        || READS_REPOSITORY_WITH
            .iter()
            .any(|(other, words)| *other == command && words.contains(&behind))
}

/// The file of a program that starts what its words say.
fn starter(name: &str, lookup: &dyn PathLookup) -> Option<FileIdentity> {
    let path = lookup.search(name)?;
    let found = lookup.inspect(&path)?;
    let is_it = paths::base_name(&found.real) == name && is_of_system(&path) && is_of_system(&found.real);
    is_it.then_some(found.identity)
}

fn program_of(
    entry: &Entry<'_>,
    terms: &Terms<'_>,
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
    if confine.is_some_and(|said| !walls_keep(said, terms, lookup.home()))
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
    // A link elsewhere would let its owner choose which program is in the set.
    let is_of_system = is_of_system(&path) && is_of_system(&found.real);
    let own = paths::base_name(&found.real);
    let is_several = multi_call::tells_by_name(own) && !SAME_UNDER_ANY_NAME.contains(&own);
    let is_code = || is_interpreter(&names) || command::names::runs_scripts(&found.real);
    let is_fit = is_of_system
        && NameClass::of_all(names) == NameClass::Program
        && !is_several
        && !(terms.strict_inline_eval && is_code())
        && !protected.is_own_binary(&found.real, &found.identity);
    is_fit.then_some(found.identity)
}

/// Whether a real path lies in the directories of the system, which held texts see.
pub fn is_of_system(real: &str) -> bool {
    SYSTEM.iter().any(|system| paths::is_within(real, system))
}

/// Whether the walls keep all that an entry wants of its program. There is no network. What the program starts is in the set, so that
/// the text may start it as well, with any arguments. It writes the workspace, and a `/tmp` that ends with it.
fn walls_keep(said: &ConfineRule, terms: &Terms<'_>, home: &str) -> bool {
    let Some(Confine {
        starts: _,
        writes,
        connects: _,
    }) = said.understood()
    else {
        return false;
    };
    let has_workspace = |place: &WritePlace| match place {
        WritePlace::Workspace => paths::is_within(terms.workspace, terms.directory),
        WritePlace::Path(path) => {
            let place = paths::normalise(&paths::expand_home(path, home));
            paths::is_within(terms.workspace, &place)
        }
        WritePlace::Tmp => false,
    };
    writes
        .as_ref()
        .is_none_or(|places| places.iter().any(has_workspace))
}

/// Whether nothing stands against a command but what walls can keep: its grammar, what arguments make programs start and, where
/// programs are named, that these have no entry.
pub fn is_holdable_miss(analysis: &Analysis, are_named: bool) -> bool {
    let may_be_kept = |code| is_of_grammar(code) || is_of_starts(code) || (are_named && is_of_entries(code));
    let is_asked = matches!(analysis.verdict, AnalysisVerdict::Ask(_));
    is_asked && findings(analysis).all(|(code, _, _)| may_be_kept(code))
}

/// What stands against it: the code, the place and the detail.
fn findings(analysis: &Analysis) -> impl Iterator<Item = (Code, Span, &str)> {
    let all = analysis.findings.iter().chain(analysis.verdict.finding());
    all.map(|finding| (finding.code, finding.span, finding.detail.as_str()))
}

/// Whether a text is a miss only because it could not be taken apart, for what listed programs would start, or for programs that are
/// named, and starts nothing that is plainly not in the set.
///
/// An agent can make any text one that cannot be taken apart, so one that was understood is let no further than that.
///
/// # Errors
/// Why it is not.
pub fn expect_holdable(
    text: &str,
    analysis: &Analysis,
    set: &[FileIdentity],
    terms: &Terms<'_>,
    protected: &Protected,
    lookup: &dyn PathLookup,
) -> Result<(), NotHeld> {
    let named: Vec<FileIdentity> = named(terms, protected, lookup)
        .chain(of_the_workspace(terms, protected, lookup))
        .filter(|program| set.contains(program))
        .collect();
    let is_listed = |word: &str| {
        let path = if word.contains('/') {
            Some(paths::expand_home(word, lookup.home()))
        } else {
            lookup.search(word)
        };
        path.and_then(|path| lookup.inspect(&path))
            .is_some_and(|found| set.contains(&found.identity))
    };
    let is_kept = |code: Code, span: Span, detail: &str| {
        let is_of_starts = is_of_starts(code) && detail != WRITES_DECIDING;
        is_of_grammar(code)
            || (is_of_starts && is_of(analysis, span, lookup, &|file| starts_listed(file, set)))
            || ((is_of_starts || is_of_entries(code))
                && is_of(analysis, span, lookup, &|file| named.contains(&file.identity)))
    };
    let stands_against_it = findings(analysis).find(|(code, span, detail)| !is_kept(*code, *span, detail));
    if let Some((_, _, detail)) = stands_against_it {
        return Err(NotHeld::Understood(detail.to_owned()));
    }
    let is_asked = matches!(analysis.verdict, AnalysisVerdict::Ask(_));
    if !is_asked || analysis.needs_person || analysis.denylisted.is_some() {
        let detail = analysis.verdict.finding();
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
    let first = first_words::of(text);
    let commands = first
        .commands
        .into_iter()
        .filter(|word| !OF_THE_SHELL.contains(&word.as_str()));
    let writes = |(command, behind): &&(String, String)| !reads_repository(command, behind);
    let mut of_git = first.of_git.iter().filter(|_| terms.names_workspace_tools());
    if let Some((command, _)) = of_git.find(writes) {
        return Err(NotHeld::Unlisted(format!("git {command}")));
    }
    if terms.names_workspace_tools()
        && let Some(file) = first.deciding
    {
        return Err(NotHeld::Deciding(file));
    }
    let found = analysis.segments.iter().flat_map(started_by_find);
    commands
        .chain(first.started)
        .chain(found.map(str::to_owned))
        .find(|word| !is_listed(word))
        .map_or(Ok(()), |word| Err(NotHeld::Unlisted(word)))
}

/// Whether a finding at a place is about a segment that nothing covers, and whose program is of a kind.
fn is_of(
    analysis: &Analysis,
    at: Span,
    lookup: &dyn PathLookup,
    is_it: &dyn Fn(&Started<'_>) -> bool,
) -> bool {
    let is_there = |segment: &&SegmentReport| segment.span.start <= at.start && at.end <= segment.span.end;
    let mut segments = analysis.segments.iter().filter(is_there).peekable();
    segments.peek().is_some()
        && segments.all(|segment| {
            let file = segment.resolved_path.as_deref().and_then(|path| {
                let identity = lookup.inspect(path)?.identity;
                Some(Started { path, identity })
            });
            segment.matched.kind == MatchKind::None && file.is_some_and(|file| is_it(&file))
        })
}

/// A file that a segment starts.
struct Started<'a> {
    /// The path by which it was found.
    path: &'a str,
    identity: FileIdentity,
}

/// Whether a file is a listed program of which the kernel keeps all that its arguments are asked about: it starts what its words say,
/// or starting others is all that such arguments make it do.
fn starts_listed(file: &Started<'_>, set: &[FileIdentity]) -> bool {
    let names = [paths::base_name(file.path), paths::base_name(&file.identity.path)];
    let is_kept = |name: &&str| STARTERS.contains(name) || helpers::starts_are_all(name);
    set.contains(&file.identity) && names.iter().all(is_kept)
}

/// What `find` is told to start.
fn started_by_find(segment: &SegmentReport) -> impl Iterator<Item = &str> {
    let is_find = matches!(paths::base_name(&segment.executable), "find" | "gfind");
    let words = segment.argv.iter().zip(segment.argv.iter().skip(1));
    words
        .filter(move |(action, _)| is_find && FIND_STARTS.contains(&action.as_str()))
        .map(|(_, started)| started.as_str())
}

/// Whether a finding is about what an argument makes a program start.
const fn is_of_starts(code: Code) -> bool {
    matches!(code, Code::Delegation | Code::Carrier | Code::WrapperForm)
}

/// Whether a finding says no more than that nothing covers a program with its arguments.
const fn is_of_entries(code: Code) -> bool {
    matches!(code, Code::NotAllowlisted | Code::ArgPatternMiss)
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
