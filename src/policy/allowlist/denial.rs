//! Deny rules: matched against everything that might run, and always without case (`exec-tool.md` 3).

use super::{AnalysisPolicy, DenyHit, DenyRule, directory::Directory};
use crate::{
    command::{
        Executable, PathLookup, Span, multi_call,
        names::NameClass,
        parser, paths,
        syntax::{List, Word},
    },
    policy::pattern::{ArgumentMatch, ExecutablePattern, PathCase, has_wildcard},
};

/// Words of an opaque segment that are looked up as programs; more make the segment count as not understood.
const MAX_SCANNED_WORDS: usize = 64;

/// Parts of one word that are looked at.
const MAX_PARTS: usize = 8;

/// The outcome of looking through a segment that runs something else.
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
    pub(super) fn find(&self, program: &Program<'_>, arguments: &[&str], span: Span) -> Option<DenyHit> {
        self.policy
            .deny_rules
            .iter()
            .find(|rule| self.names(rule, program) && self.has_arguments(rule, arguments))
            .map(|rule| DenyHit {
                owner: rule.owner.to_owned(),
                id: rule.id.to_owned(),
                pattern: rule.pattern.to_owned(),
                reason: rule.reason.map(str::to_owned),
                span,
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
        if typed.starts_with('/') {
            program.look_up(&paths::normalise(&typed));
        } else if typed.contains('/') && known.is_none() {
            match directory.candidates() {
                Some(bases) => bases
                    .iter()
                    .for_each(|base| program.look_up(&paths::join_normalised(base, &typed))),
                None => program.is_certain = false,
            }
        }
        program
    }

    /// Looks at every word as if it were a program, and into words that are text for a shell. `letters` are options that
    /// a program may be glued to.
    pub(super) fn scan(&self, words: &[Word], directory: &Directory, letters: &str) -> Scan {
        if !self.has_rules() {
            return Scan::Clear;
        }
        let mut opaque = words.len() > MAX_SCANNED_WORDS;
        for (at, word) in words.iter().take(MAX_SCANNED_WORDS).enumerate() {
            let rest = words.get(at + 1..).unwrap_or_default();
            match self.candidate(word, rest, directory, letters) {
                Scan::Hit(hit) => return Scan::Hit(hit),
                Scan::Opaque => opaque = true,
                Scan::Clear => {}
            }
            for text in texts_of(&word.value, letters).filter(|text| is_shell_text(text)) {
                // Only of the whole word the places are known.
                let list = if text == word.value {
                    parser::parse_mapped(text, &word.map)
                } else {
                    parser::parse(text)
                };
                match list.map(|list| self.scan_text(&list, directory)) {
                    Ok(Scan::Hit(hit)) if text == word.value => return Scan::Hit(hit),
                    Ok(Scan::Hit(hit)) => {
                        return Scan::Hit(DenyHit {
                            span: word.span,
                            ..hit
                        });
                    }
                    Ok(Scan::Opaque) | Err(_) => opaque = true,
                    Ok(Scan::Clear) => {}
                }
            }
        }
        if opaque { Scan::Opaque } else { Scan::Clear }
    }

    fn scan_text(&self, list: &List, directory: &Directory) -> Scan {
        let mut scan = Scan::Clear;
        for segment in list.segments() {
            for (at, word) in segment.words.iter().take(MAX_SCANNED_WORDS).enumerate() {
                let rest = segment.words.get(at + 1..).unwrap_or_default();
                match self.candidate(word, rest, directory, "") {
                    Scan::Hit(hit) => return Scan::Hit(hit),
                    Scan::Opaque => scan = Scan::Opaque,
                    Scan::Clear => {}
                }
            }
        }
        scan
    }

    /// One word as a program with the words behind it as its arguments.
    fn candidate(&self, word: &Word, rest: &[Word], directory: &Directory, letters: &str) -> Scan {
        let arguments: Vec<&str> = rest.iter().map(|word| word.value.as_str()).collect();
        let mut scan = Scan::Clear;
        for text in texts_of(&word.value, letters) {
            let executable =
                Executable::resolve(&Word::literal(text, word.span), directory.known(), self.lookup).ok();
            let program = self.program(text, executable.as_ref(), directory);
            match self.find(&program, &arguments, word.span) {
                // An address or a path to something else often ends in the name of a program.
                Some(_) if text.contains('/') && program.is_nowhere() => scan = Scan::Opaque,
                Some(hit) => return Scan::Hit(hit),
                None => {}
            }
            if !program.is_certain {
                scan = Scan::Opaque;
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
        // Of a file that is several programs the one is meant that the pattern names.
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

    fn has_arguments(&self, rule: &DenyRule<'_>, arguments: &[&str]) -> bool {
        let Some(pattern) = rule.arg_pattern else {
            return true;
        };
        match self.policy.cache.arguments(pattern).as_ref() {
            Ok(pattern) => pattern.matches(arguments) != ArgumentMatch::No,
            Err(_) => true,
        }
    }
}

impl Program<'_> {
    /// Whether a plain name leads to the same file: who denies `python3` means what it is a link to. Not of a file that
    /// is several programs, of which one is meant.
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
fn texts_of<'a>(value: &'a str, letters: &str) -> impl Iterator<Item = &'a str> {
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
        .flat_map(|text| [text, text.trim_start_matches(['!', '|', '+', ':'])])
        .filter(|text| !text.is_empty())
}

/// Whether a file of this name is several programs.
fn is_several(name: &str) -> bool {
    multi_call::tells_by_name(name) || NameClass::of(name) == NameClass::Multiplexer
}

/// Whether a word would mean something else to a shell than one word.
fn is_shell_text(value: &str) -> bool {
    value.contains(|character: char| {
        character.is_whitespace()
            || matches!(
                character,
                ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '\'' | '"' | '*' | '?' | '['
            )
    })
}
