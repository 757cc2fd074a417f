//! Deny rules: matched against everything that might run, and always without case
//! (`docs/spec/exec-tool.md#3-whether-it-runs`).

use std::borrow::Cow;

use super::{AnalysisPolicy, DenyHit, DenyRule, directory::Directory, effort::Effort};
use crate::{
    command::{
        Executable, PathLookup, Span, multi_call,
        names::NameClass,
        paths,
        syntax::{List, Word},
    },
    pattern::{ArgumentMatch, ExecutablePattern, PathCase, PatternCache, has_wildcard},
};

/// Words of an opaque segment that are looked up as programs; more make the segment count as not understood.
pub(super) const MAX_SCANNED_WORDS: usize = 64;

/// Parts of one word that are looked at.
const MAX_PARTS: usize = 8;

/// What a rule's argument pattern is tried on. Made of the words only where a rule names the program: most candidates
/// are named by none, and each has nearly all words of the command behind it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arguments<'a> {
    /// What the program gets, if the words are literal.
    Given {
        values: &'a [&'a str],
        /// Whether these are what the program gets.
        is_known: bool,
    },
    /// The words behind a candidate.
    Behind {
        words: &'a [Word],
        /// Whether more come from elsewhere.
        is_fed: bool,
    },
}

/// The outcome of looking at a program, or through what runs something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scan {
    /// A rule matches something in it.
    Hit(DenyHit),
    /// No rule matches, and every word was understood.
    Clear,
    /// No rule matches what was understood, but not everything was.
    Opaque,
}

/// A command word with every name and file that it may stand for.
#[derive(Debug)]
pub(super) struct Program<'a> {
    base_names: Vec<String>,
    files: Vec<String>,
    /// The real paths of those that are there.
    reals: Vec<String>,
    /// Whether these are all.
    pub(super) is_certain: bool,
    lookup: &'a dyn PathLookup,
}

/// The deny rules of a request with what matching needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Denial<'a> {
    pub(super) policy: &'a AnalysisPolicy<'a>,
    pub(super) lookup: &'a dyn PathLookup,
    /// What was spent on words that may be programs.
    pub(super) effort: &'a Effort,
}

impl Denial<'_> {
    pub(super) fn has_rules(&self) -> bool {
        !self.policy.deny_rules.is_empty()
    }

    /// Whether a rule's pattern can never match, so that only a person knows what it was meant to stop.
    pub(super) fn has_unreadable_rules(&self) -> bool {
        self.policy
            .deny_rules
            .iter()
            .any(|rule| ExecutablePattern::parse(rule.pattern, self.lookup.home()).is_err())
    }

    /// The first rule against one program with its arguments.
    pub(super) fn find(&self, program: &Program<'_>, arguments: Arguments<'_>, span: Span) -> Scan {
        let rules = self.policy.deny_rules.iter();
        let mut about_it = rules.filter(|rule| self.names(rule, program)).peekable();
        let is_open = about_it.peek().is_some() && !arguments.is_known();
        match about_it.find(|rule| self.has_arguments(rule, arguments)) {
            Some(rule) => Scan::Hit(DenyHit {
                owner: rule.owner.to_owned(),
                id: rule.id.to_owned(),
                pattern: rule.pattern.to_owned(),
                reason: rule.reason.map(str::to_owned),
                span,
            }),
            None if is_open || !program.is_certain => Scan::Opaque,
            None => Scan::Clear,
        }
    }

    /// A rule about this program that demands other arguments, for the person who is asked.
    pub(super) fn near(&self, program: &Program<'_>) -> Option<String> {
        let mut rules = self.policy.deny_rules.iter();
        rules.find_map(|rule| {
            let arguments = rule.arg_pattern?;
            self.names(rule, program)
                .then(|| format!("{} {arguments}", rule.pattern))
        })
    }

    /// A command word with every file that it may name. After a `cd` that may not have happened these are several.
    pub(super) fn program(
        &self,
        typed: &str,
        known: Option<&Executable>,
        directory: &Directory,
    ) -> Program<'_> {
        let typed = paths::expand_home(typed, self.lookup.home());
        let mut program = Program {
            base_names: vec![paths::base_name(&typed).to_owned()],
            files: Vec::new(),
            reals: Vec::new(),
            is_certain: true,
            lookup: self.lookup,
        };
        if let Some(executable) = known {
            program.add(&executable.resolved, Some(&executable.real));
        }
        let goes_back = typed.split('/').any(|component| component == "..");
        if typed.starts_with('/') {
            program.look_up(&paths::normalise(&typed));
            program.look_behind_links(goes_back.then_some(typed.as_str()));
        } else if typed.contains('/') && (known.is_none() || goes_back) {
            match directory.candidates() {
                Some(bases) => {
                    for base in bases {
                        program.look_up(&paths::join_normalised(base, &typed));
                        program.look_behind_links(goes_back.then_some(&format!("{base}/{typed}")));
                    }
                }
                None => program.is_certain = false,
            }
        }
        program
    }

    /// Every word of a text for a shell as if it were a program.
    pub(super) fn scan_list(&self, list: &List, directory: &Directory, is_fed: bool) -> Scan {
        let mut scan = Scan::Clear;
        for segment in list.segments() {
            if segment.words.len() > MAX_SCANNED_WORDS {
                scan = Scan::Opaque;
            }
            for (at, word) in segment.words.iter().take(MAX_SCANNED_WORDS).enumerate() {
                let rest = segment.words.get(at + 1..).unwrap_or_default();
                match self.candidate(word, rest, directory, "", is_fed) {
                    Scan::Hit(hit) => return Scan::Hit(hit),
                    Scan::Opaque => scan = Scan::Opaque,
                    Scan::Clear => {}
                }
            }
        }
        scan
    }

    /// One word as a program with the words behind it as its arguments. `letters` are options that a program may be
    /// glued to; `is_fed` is whether more arguments may come from elsewhere.
    pub(super) fn candidate(
        &self,
        word: &Word,
        rest: &[Word],
        directory: &Directory,
        letters: &str,
        is_fed: bool,
    ) -> Scan {
        if !self.has_rules() {
            return Scan::Clear;
        }
        let given = Arguments::Behind { words: rest, is_fed };
        // Where `find -exec` ends.
        let end = rest
            .iter()
            .position(|word| matches!(word.value.as_str(), ";" | "+"));
        let up_to_end = end
            .and_then(|end| rest.get(..end))
            .map(|words| Arguments::Behind { words, is_fed });
        let mut scan = Scan::Clear;
        for text in texts_of(&word.value, letters) {
            if !self.effort.spend_steps(1 + self.policy.deny_rules.len()) {
                return Scan::Opaque;
            }
            let executable =
                Executable::resolve(&Word::literal(text, word.span), directory.known(), self.lookup).ok();
            let program = self.program(text, executable.as_ref(), directory);
            for arguments in std::iter::once(given).chain(up_to_end) {
                match self.find(&program, arguments, word.span) {
                    // An address or a path to something else often ends in the name of a program.
                    Scan::Hit(_) if text.contains('/') && program.is_nowhere() => scan = Scan::Opaque,
                    Scan::Hit(hit) => return Scan::Hit(hit),
                    Scan::Opaque => scan = Scan::Opaque,
                    Scan::Clear => {}
                }
            }
        }
        scan
    }

    fn names(&self, rule: &DenyRule<'_>, program: &Program<'_>) -> bool {
        let cache = self.policy.cache;
        let Ok(pattern) = ExecutablePattern::parse(rule.pattern, self.lookup.home()) else {
            // What it was meant to stop is not known: see `has_unreadable_rules`.
            return false;
        };
        // Of a file that is several programs the pattern names one.
        let is_same = |path: &str, real: &str| {
            paths::base_name(path) == paths::base_name(real) || !is_several(paths::base_name(real))
        };
        let real = |path: &str| self.lookup.real(path).filter(|real| is_same(path, real));
        if let ExecutablePattern::Name(name) = &pattern
            && program.is_meant_by(name)
        {
            return true;
        }
        // A pattern that cannot be compiled denies rather than allows.
        program.base_names.iter().any(|name| {
            pattern
                .matches_name(name, PathCase::Insensitive, cache)
                .unwrap_or(true)
        }) || program.files.iter().any(|file| {
            pattern
                .matches_path(file, PathCase::Insensitive, cache, real)
                .unwrap_or(true)
        })
    }

    fn has_arguments(&self, rule: &DenyRule<'_>, arguments: Arguments<'_>) -> bool {
        let Some(pattern) = rule.arg_pattern else {
            return true;
        };
        let values = arguments.values(self.lookup.home());
        let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
        match self.policy.cache.arguments(pattern).as_ref() {
            Ok(pattern) => pattern.matches(&values) != ArgumentMatch::No,
            Err(_) => true,
        }
    }
}

impl<'a> Arguments<'a> {
    fn is_known(self) -> bool {
        let is_other = |word: &Word| word.class.is_dynamic() || word.value.contains("{}");
        match self {
            Self::Given { values: _, is_known } => is_known,
            Self::Behind { words, is_fed } => !is_fed && !words.iter().any(is_other),
        }
    }

    fn values(self, home: &str) -> Vec<Cow<'a, str>> {
        let value = |word: &'a Word| {
            if word.class.is_below_home() {
                Cow::Owned(paths::expand_home(&word.value, home))
            } else {
                Cow::Borrowed(word.value.as_str())
            }
        };
        match self {
            Self::Given { values, is_known: _ } => values.iter().copied().map(Cow::Borrowed).collect(),
            Self::Behind { words, is_fed: _ } => words.iter().map(value).collect(),
        }
    }
}

impl Program<'_> {
    /// Whether a plain name leads to the same file: who denies `python3` means what it is a link to. Not of a file that
    /// is several programs, of which the pattern names one.
    fn is_meant_by(&self, name: &str) -> bool {
        if self.reals.is_empty() || has_wildcard(name) {
            return false;
        }
        let Some(file) = self
            .lookup
            .search(name)
            .and_then(|path| self.lookup.inspect(&path))
        else {
            return false;
        };
        self.reals.contains(&file.real) && !is_several(paths::base_name(&file.real))
    }

    /// Whether there is certainly no such file.
    fn is_nowhere(&self) -> bool {
        self.is_certain && self.reals.is_empty()
    }

    /// For the kernel `..` leads out of where a link leads to, not of where it stands.
    fn look_behind_links(&mut self, path: Option<&str>) {
        if let Some(real) = path.and_then(|path| self.lookup.real(path)) {
            self.look_up(&real);
        }
    }

    fn look_up(&mut self, path: &str) {
        let inspected = self.lookup.inspect(path);
        self.add(path, inspected.as_ref().map(|file| file.real.as_str()));
    }

    fn add(&mut self, path: &str, real: Option<&str>) {
        self.reals.extend(real.map(str::to_owned));
        for file in [Some(path), real].into_iter().flatten() {
            self.base_names.push(paths::base_name(file).to_owned());
            self.files.push(file.to_owned());
        }
    }
}

/// What of a word may be a program or text for a shell: the word, and what options, settings and commands of an editor
/// hold behind their names and marks (`--to-command=rm`, `-xIrm`, `alias.x=!rm`, `+:!rm`).
pub(super) fn texts_of<'a>(value: &'a str, letters: &str) -> impl Iterator<Item = &'a str> {
    let behind = value.match_indices('=').map(|(at, _)| at + 1).take(MAX_PARTS);
    let is_cluster = value.starts_with('-') && !value.starts_with("--");
    let cluster = if is_cluster { value } else { "" };
    let glued = cluster
        .char_indices()
        .skip(1)
        .filter(|(_, letter)| letters.contains(*letter))
        .map(|(at, letter)| at + letter.len_utf8())
        .take(MAX_PARTS);
    // A path says itself where it begins (`-x/usr/bin/rm`).
    let path = cluster.find(['/', '~', '.']);
    std::iter::once(0)
        .chain(behind)
        .chain(glued)
        .chain(path)
        .filter_map(|at| value.get(at..))
        .flat_map(|text| {
            let bare = text.trim_start_matches(['!', '|', '+', ':']);
            std::iter::once(text).chain((bare.len() < text.len()).then_some(bare))
        })
        .filter(|text| !text.is_empty())
}

/// Whether the pattern of a deny rule means a file, by the path where it was found or by its real path. Of a file that is
/// several programs it means one, so that its other names stay. `follow` says where a path in the pattern leads.
pub fn means_file(
    pattern: &ExecutablePattern,
    (path, real): (&str, &str),
    cache: &PatternCache,
    follow: impl Fn(&str) -> Option<String>,
) -> bool {
    let (name, real_name) = (paths::base_name(path), paths::base_name(real));
    if name != real_name && is_several(real_name) {
        return false;
    }
    // A pattern that cannot be compiled denies rather than allows.
    let is_named = |name| {
        let matched = pattern.matches_name(name, PathCase::Insensitive, cache);
        matched.unwrap_or(true)
    };
    let is_at = |path| {
        let matched = pattern.matches_path(path, PathCase::Insensitive, cache, &follow);
        matched.unwrap_or(true)
    };
    is_named(name) || is_named(real_name) || is_at(path) || is_at(real)
}

/// Whether a file of this name is several programs.
fn is_several(name: &str) -> bool {
    multi_call::tells_by_name(name) || NameClass::of(name) == NameClass::Multiplexer
}

/// Whether a word would mean something else to a shell than one word.
pub(super) fn is_shell_text(value: &str) -> bool {
    value.contains(|character: char| {
        character.is_whitespace()
            || matches!(
                character,
                ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '\'' | '"' | '*' | '?' | '['
            )
    })
}
