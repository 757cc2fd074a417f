//! Why something was not understood or not covered.

use serde::Serialize;

use countersign_domain::vocabulary;

use super::Span;

vocabulary! {
    /// The closed set of reasons (`docs/spec/command-analysis.md#14-findings`).
    pub enum Code("a finding code") {
        /// The text holds a NUL byte.
        Nul = "nul",
        /// The text is over a limit of G10.
        TooLong = "too-long",
        /// A character that G10 refuses.
        ForbiddenCharacter = "forbidden-character",
        /// A quote without its end.
        UnterminatedQuote = "unterminated-quote",
        /// A backslash with nothing after it.
        TrailingBackslash = "trailing-backslash",
        /// A continuation inside a word.
        LineContinuation = "line-continuation",
        /// Nothing between two operators, or nothing at all.
        EmptySegment = "empty-segment",
        /// An operator with nothing after it.
        DanglingOperator = "dangling-operator",
        /// `&`.
        Background = "background",
        /// `|&`.
        StderrPipe = "stderr-pipe",
        /// `!`.
        Negation = "negation",
        /// `<` or `>`.
        Redirection = "redirection",
        /// `<<`.
        Heredoc = "heredoc",
        /// `<<<`.
        HereString = "here-string",
        /// `<(` or `>(`.
        ProcessSubstitution = "process-substitution",
        /// `$(` or a backtick.
        CommandSubstitution = "command-substitution",
        /// `$` before anything that a shell would replace by a value.
        Expansion = "expansion",
        /// `$'` or `$"`, which shells read differently.
        AnsiCQuote = "ansi-c-quote",
        /// An unquoted glob character.
        Glob = "glob",
        /// Braces that a shell would expand.
        BraceExpansion = "brace-expansion",
        /// A tilde that names an account or a directory.
        TildeUser = "tilde-user",
        /// `(` or `)`: a subshell or arithmetic.
        Subshell = "subshell",
        /// `{` as a command.
        Group = "group",
        /// The word `function`, or `(` after a command word.
        Function = "function",
        /// A word of the shell's grammar, or a builtin that is never run.
        ReservedWord = "reserved-word",
        /// An assignment that is not harmless.
        Assignment = "assignment",
        /// Assignments and no command.
        AssignmentOnly = "assignment-only",
        /// An empty command word.
        EmptyExecutable = "empty-executable",
        /// A command word that a shell might expand.
        DynamicExecutable = "dynamic-executable",
        /// More than 64 segments.
        TooManySegments = "too-many-segments",
        /// A wrapper used in a form that is not accepted.
        WrapperForm = "wrapper-form",
        /// More than four wrappers.
        WrapperDepth = "wrapper-depth",
        /// A wrapper outside the trusted directories.
        WrapperUntrusted = "wrapper-untrusted",
        /// A program whose only purpose is to run another.
        Carrier = "carrier",
        /// An argument makes the program start another.
        Delegation = "delegation",
        /// A shell that a pipe feeds, or without a payload that can be read.
        Shell = "shell",
        /// A shell that reads start-up files.
        ShellStartup = "shell-startup",
        /// Words after a shell's payload.
        ShellPositional = "shell-positional",
        /// Shells in shells, too deep.
        ShellDepth = "shell-depth",
        /// A program that is many programs, shells among them.
        Multiplexer = "multiplexer",
        /// Code in an argument, under strict inline eval.
        InlineEval = "inline-eval",
        /// Code from standard input, under strict inline eval.
        StdinEval = "stdin-eval",
        /// The executable was not found.
        NotFound = "not-found",
        /// No entry covers the segment.
        NotAllowlisted = "not-allowlisted",
        /// Entries match the executable but not the arguments.
        ArgPatternMiss = "arg-pattern-miss",
        /// What covers the segment does not include an input that stays open.
        OpenInput = "open-input",
        /// The entry for the segment says what its program may do, and that cannot be kept.
        ConfineUnavailable = "confine-unavailable",
        /// Only an inert generated entry names the executable.
        GeneratedEntryInert = "generated-entry-inert",
        /// A flag that the safe bin's profile does not accept.
        SafeBinFlag = "safe-bin-flag",
        /// An operand that the safe bin's profile does not accept.
        SafeBinOperand = "safe-bin-operand",
        /// A safe bin outside the trusted directories.
        SafeBinUntrusted = "safe-bin-untrusted",
        /// `cd` in a form that is not accepted.
        CdForm = "cd-form",
        /// A relative executable after a `cd` that may have failed.
        CwdUnknown = "cwd-unknown",
        /// A deny rule matches.
        Denylisted = "denylisted",
        /// A path of the server's own state, or its own binary.
        Protected = "protected",
        /// A blocked environment override.
        EnvBlocked = "env-blocked",
        /// A malformed environment override.
        EnvInvalid = "env-invalid",
        /// An override that is not known to be harmless.
        EnvUnknown = "env-unknown",
    }
}

/// One reason with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which of the closed set; clients get it as its word.
    pub code: Code,
    /// The rule of `docs/spec/command-analysis.md` behind it.
    pub rule: &'static str,
    /// The bytes of the text as sent that it is about; 0 to 0 for none.
    pub span: Span,
    /// In words, for people.
    pub detail: String,
}

impl Finding {
    /// A finding of a rule such as `G5`, with its reason in words for people.
    pub fn new(code: Code, rule: &'static str, span: Span, detail: impl Into<String>) -> Self {
        Self {
            code,
            rule,
            span,
            detail: detail.into(),
        }
    }
}
