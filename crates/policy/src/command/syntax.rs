//! The accepted grammar as values (G1): lists of pipelines of segments of literal words.

use std::ops::Range;

use countersign_domain::{FileUse, Redirection, StepJoin};

use super::{SourceMap, Span};

/// What stands between two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `;` or a newline.
    Sequence,
}

impl Join {
    /// The operator as it is rendered.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Sequence => ";",
        }
    }

    /// What it is between the steps of a plan.
    pub(crate) const fn as_step(self) -> StepJoin {
        match self {
            Self::And => StepJoin::And,
            Self::Or => StepJoin::Or,
            Self::Sequence => StepJoin::Sequence,
        }
    }
}

/// A whole command, or the payload of a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// All of the text that was parsed.
    pub span: Span,
    /// Its pipelines in the order of the text.
    pub items: Vec<Item>,
}

impl List {
    /// All its segments in order, those in compound commands among them.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.into_iter()
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Segment>) {
        for part in self.items.iter().flat_map(|item| &item.pipeline) {
            match part {
                Part::Segment(segment) => found.push(segment),
                Part::Compound(compound) => {
                    for list in compound.does.lists() {
                        list.collect(found);
                    }
                }
            }
        }
    }
}

/// A pipeline and what joins it to the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// `None` for the first.
    pub join: Option<Join>,
    /// Whether `!` stands before it (G21).
    pub is_negated: bool,
    /// One part, or several that are joined by `|`.
    pub pipeline: Vec<Part>,
}

/// A part of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A command with its arguments.
    Segment(Segment),
    /// Lists with words of the shell around them (G21).
    Compound(Compound),
}

impl Part {
    /// The segment that it is.
    pub const fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Segment(segment) => Some(segment),
            Self::Compound(_) => None,
        }
    }
}

/// A compound command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compound {
    /// From its first word to the last.
    pub span: Span,
    /// What it does.
    pub does: Does,
}

/// What a compound command does with its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// `{ …; }`, and what a loop over known words comes to: all of it in the order of the words.
    All(List),
    /// `( … )`: what it changes of the directory ends with it.
    Apart(List),
    /// `if …; then …; else …; fi`.
    Choice {
        /// Its exit code chooses.
        condition: List,
        /// Where that is 0.
        then: List,
        /// Where it is another. Without it the exit code is 0.
        otherwise: Option<List>,
    },
    /// `while …; do …; done` and `until …; do …; done` (G22).
    Turns {
        /// Looked at before each turn.
        condition: Condition,
        /// A turn.
        body: List,
    },
    /// What `&` follows (G24).
    Background(List),
    /// `wait` (G24).
    Wait,
}

/// What decides about each turn of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `while read`: there is another line, which a variable gets.
    Line {
        /// The variable.
        name: String,
        /// Whether it gets the line without blanks at both ends: there is no `IFS=` before it.
        trims: bool,
        /// Whether a backslash is a character like others (`-r`).
        raw: bool,
    },
    /// The exit code is 0.
    While(List),
    /// It is another.
    Until(List),
}

impl Condition {
    /// Its list.
    pub const fn list(&self) -> Option<&List> {
        match self {
            Self::Line { .. } => None,
            Self::While(list) | Self::Until(list) => Some(list),
        }
    }
}

impl Does {
    /// Its lists in the order of the text.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &List> {
        let (first, second, third) = match self {
            Self::All(list) | Self::Apart(list) | Self::Background(list) => (Some(list), None, None),
            Self::Choice {
                condition,
                then,
                otherwise,
            } => (Some(condition), Some(then), otherwise.as_ref()),
            Self::Turns { condition, body } => (condition.list(), Some(body), None),
            Self::Wait => (None, None, None),
        };
        first.into_iter().chain(second).chain(third)
    }
}

/// One program with its arguments between the operators of a command text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// From the first assignment or word to the end of the last word.
    pub span: Span,
    /// Plain `NAME=value` words before the command word.
    pub assignments: Vec<Assignment>,
    /// Never empty; the first is the command word.
    pub words: Vec<Word>,
    /// Behind the words or between them, in this order.
    pub redirections: Vec<ReadRedirection>,
    /// Whether it gives values to variables and does nothing else (G18): its one word is `:`, which does as much.
    pub(crate) is_setting: bool,
    /// The value that it gives, where that is known only when the command runs (G23).
    pub(crate) sets: Option<Setting>,
}

/// A variable, and a value that is known only when the command runs (G23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: Word,
}

impl Setting {
    /// The word of an assignment without its name and `=`.
    pub(crate) fn of(name: String, word: Word) -> Self {
        let begins = name.len() + "=".len();
        let substitutions = word.substitutions.into_iter().map(|Substitution { place, by }| {
            let place = place.start.saturating_sub(begins)..place.end.saturating_sub(begins);
            Substitution { place, by }
        });
        let value = Word {
            value: word.value.get(begins..).unwrap_or_default().to_owned(),
            substitutions: substitutions.collect(),
            bare_prefix: 0,
            map: SourceMap::default(),
            ..word
        };
        Self { name, value }
    }
}

impl Segment {
    /// One that gives values to variables.
    pub(crate) fn setting(span: Span) -> Self {
        Self {
            span,
            assignments: Vec::new(),
            words: vec![Word::literal(":", span)],
            redirections: Vec::new(),
            is_setting: true,
            sets: None,
        }
    }
}

/// A redirection as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRedirection {
    /// One that means the same everywhere (G11, G12).
    Known(Redirection),
    /// One from or to a file, which may be one of the workspace (G13).
    File {
        /// What the file is used for.
        used_as: FileUse,
        /// Its name.
        name: Word,
    },
}

impl ReadRedirection {
    /// The descriptor that it changes.
    pub const fn descriptor(&self) -> u8 {
        match self {
            Self::Known(redirection) => redirection.descriptor(),
            Self::File { used_as, .. } => used_as.descriptor(),
        }
    }
}

/// What is read besides the plain grammar.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grammar {
    /// Redirections from and to `/dev/null`, and between standard output and standard error (G11).
    pub null_redirections: bool,
    /// Here-documents and here-strings of literal text (G12).
    pub here_documents: bool,
    /// Redirections from and to files with literal names (G13).
    pub file_redirections: bool,
    /// Patterns of file names among operands (G14).
    pub file_patterns: bool,
    /// Redirections to new files of the temporary directory (G15).
    pub temporary_files: bool,
    /// Commands that `find` runs for what it finds (G16).
    pub found_files: bool,
    /// Here-documents in place of operands (G17).
    pub document_operands: bool,
    /// Variables whose value is known (G18).
    pub variables: bool,
    /// What a command prints, and the exit code before, in words that are text to their program (G19).
    pub substitutions: bool,
    /// Lists and ranges in braces, where the shell is bash (G20).
    pub braces: bool,
    /// Groups, subshells, choices, negations and loops over known words (G21).
    pub compound_commands: bool,
    /// `while` and `until` (G22).
    pub loops: bool,
    /// Variables whose value is known only when the command runs, and programs that only read such words (G23).
    pub later_values: bool,
    /// `&` and `wait` (G24).
    pub background_commands: bool,
    /// Programs that run another one of the project, where its interpreter may run any code anyway (D2).
    pub project_runners: bool,
}

impl Grammar {
    /// All that is read anywhere.
    pub const WIDEST: Self = Self {
        null_redirections: true,
        here_documents: true,
        file_redirections: true,
        file_patterns: true,
        temporary_files: true,
        found_files: true,
        document_operands: true,
        variables: true,
        substitutions: true,
        braces: true,
        compound_commands: true,
        loops: true,
        later_values: true,
        background_commands: true,
        project_runners: true,
    };
}

impl Grammar {
    /// What of it is read where another machine runs the text: nothing that depends on its files or variables.
    #[must_use]
    pub const fn elsewhere(self) -> Self {
        Self {
            temporary_files: false,
            found_files: false,
            document_operands: false,
            variables: false,
            substitutions: false,
            braces: false,
            compound_commands: false,
            loops: false,
            later_values: false,
            background_commands: false,
            project_runners: false,
            ..self
        }
    }

    /// What of it is read inside of a command substitution: nothing whose text follows elsewhere.
    pub(crate) const fn inside_substitution(self) -> Self {
        Self {
            here_documents: false,
            document_operands: false,
            ..self
        }
    }
}

/// `NAME=value` before a command word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name and value, quotes included.
    pub span: Span,
    /// The variable, without the `=`.
    pub name: String,
    /// The value after quote removal.
    pub value: String,
    /// Whether the value is literal; a tilde in it is not.
    pub class: WordClass,
}

/// Whether a shell would take the word as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordClass {
    /// Every shell takes it as it stands.
    Literal,
    /// `~` or `~/…`, which stands for the home directory.
    HomeTilde,
    /// `=~/` or `:~/` inside, which some shells expand in some places.
    InnerTilde,
    /// `~/…` with another `:~/` or `=~/` inside.
    BothTildes,
    /// `{}` of a command that `find` runs: a file that is found by then.
    Found,
    /// Something in it is known only when its command begins (G19).
    Substituted,
}

impl WordClass {
    /// Whether some shell might pass on another value than the one that was read.
    pub(crate) const fn is_dynamic(self) -> bool {
        matches!(
            self,
            Self::InnerTilde | Self::BothTildes | Self::Found | Self::Substituted
        )
    }

    /// Whether the word begins with a tilde that stands for the home directory.
    pub const fn is_below_home(self) -> bool {
        matches!(self, Self::HomeTilde | Self::BothTildes)
    }
}

/// A part of a word that is known only when its command begins (G19). The value has it as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Substitution {
    /// Where it stands in the value.
    pub(crate) place: Range<usize>,
    pub(crate) by: SubstitutedBy,
}

impl Substitution {
    /// The commands whose output is put in.
    pub(crate) const fn output(&self) -> Option<&List> {
        match &self.by {
            SubstitutedBy::Status | SubstitutedBy::Background | SubstitutedBy::Variable(_) => None,
            SubstitutedBy::Output(list) => Some(list),
        }
    }
}

/// What a part of a word is replaced by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubstitutedBy {
    /// `$?`: the exit code of the pipeline before.
    Status,
    /// `$!`: the process ID of the list that `&` began last (G24).
    Background,
    /// `$(…)`: what these commands print, without the newlines at its end.
    Output(List),
    /// `$NAME`, to which the command gives a value when it runs (G22, G23).
    Variable(String),
}

/// One word after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its place, quotes included.
    pub span: Span,
    /// Its value after quote removal, tildes as written.
    pub value: String,
    /// How a shell would read it.
    pub class: WordClass,
    /// Bytes at the start of the value that were neither quoted nor escaped.
    pub(crate) bare_prefix: usize,
    /// Where characters stand in the value by which it is a pattern of file names (G14).
    pub(crate) patterns: Vec<usize>,
    /// Whether something in it was put in for what a shell would expand (G17, G18).
    pub(crate) is_expanded: bool,
    /// What is put in when its command begins, in the order of the value (G19).
    pub(crate) substitutions: Vec<Substitution>,
    /// Where each byte of the value comes from.
    pub map: SourceMap,
}

impl Word {
    /// A word as it stands, for argument vectors.
    pub fn literal(value: impl Into<String>, span: Span) -> Self {
        Self {
            span,
            value: value.into(),
            class: WordClass::Literal,
            bare_prefix: 0,
            patterns: Vec::new(),
            is_expanded: false,
            substitutions: Vec::new(),
            map: SourceMap::default(),
        }
    }

    /// Whether nothing in it was quoted or escaped: only then is it a keyword.
    pub fn is_bare(&self) -> bool {
        self.bare_prefix == self.value.len()
    }
}
