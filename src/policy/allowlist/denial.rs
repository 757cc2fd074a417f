//! Deny rules: matched against everything that might run, and always without case (`exec-tool.md` 3).

use super::{AnalysisPolicy, DenyHit, DenyRule};
use crate::{
    command::{
        Executable, PathLookup, Span, parser, paths,
        syntax::{List, Word},
    },
    policy::pattern::{ArgumentMatch, ExecutablePattern, PathCase},
};

/// Words of an opaque segment that are looked up as programs; more make the segment count as not understood.
const MAX_SCANNED_WORDS: usize = 64;

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
    pub(super) fn find(
        &self,
        typed: &str,
        executable: Option<&Executable>,
        arguments: &[&str],
        span: Span,
    ) -> Option<DenyHit> {
        self.policy
            .deny_rules
            .iter()
            .find(|rule| self.names(rule, typed, executable) && self.has_arguments(rule, arguments))
            .map(|rule| DenyHit {
                owner: rule.owner.to_owned(),
                id: rule.id.to_owned(),
                pattern: rule.pattern.to_owned(),
                reason: rule.reason.map(str::to_owned),
                span,
            })
    }

    /// Looks at every word as if it were a program, and into words that are text for a shell.
    pub(super) fn scan(&self, words: &[Word], directory: Option<&str>) -> Scan {
        if !self.has_rules() {
            return Scan::Clear;
        }
        let mut opaque = words.len() > MAX_SCANNED_WORDS;
        for (at, word) in words.iter().take(MAX_SCANNED_WORDS).enumerate() {
            let rest = words.get(at + 1..).unwrap_or_default();
            if let Some(hit) = self.candidate(word, rest, directory) {
                return Scan::Hit(hit);
            }
            if !is_shell_text(&word.value) {
                continue;
            }
            match parser::parse_mapped(&word.value, &word.map) {
                Ok(list) => {
                    if let Some(hit) = self.scan_text(&list, directory) {
                        return Scan::Hit(hit);
                    }
                }
                Err(_) => opaque = true,
            }
        }
        if opaque { Scan::Opaque } else { Scan::Clear }
    }

    fn scan_text(&self, list: &List, directory: Option<&str>) -> Option<DenyHit> {
        list.segments().find_map(|segment| {
            let words = segment.words.iter().take(MAX_SCANNED_WORDS).enumerate();
            words.into_iter().find_map(|(at, word)| {
                let rest = segment.words.get(at + 1..).unwrap_or_default();
                self.candidate(word, rest, directory)
            })
        })
    }

    fn candidate(&self, word: &Word, rest: &[Word], directory: Option<&str>) -> Option<DenyHit> {
        let executable = Executable::resolve(word, directory, self.lookup).ok();
        let arguments: Vec<&str> = rest.iter().map(|word| word.value.as_str()).collect();
        self.find(&word.value, executable.as_ref(), &arguments, word.span)
    }

    fn names(&self, rule: &DenyRule<'_>, typed: &str, executable: Option<&Executable>) -> bool {
        let cache = self.policy.cache;
        let Ok(pattern) = ExecutablePattern::parse(rule.pattern, self.lookup.home()) else {
            // What it was meant to stop is not known: see `has_unreadable_rules`.
            return false;
        };
        let mut base_names = vec![paths::base_name(typed)];
        let expanded = paths::expand_home(typed, self.lookup.home());
        let mut files = Vec::new();
        if expanded.starts_with('/') {
            files.push(paths::normalise(&expanded));
        }
        if let Some(executable) = executable {
            base_names.extend(executable.names());
            files.extend([executable.resolved.clone(), executable.real.clone()]);
        }
        let real = |path: &str| self.lookup.real(path);
        // A pattern that cannot be compiled denies rather than allows.
        base_names.iter().any(|name| {
            pattern
                .matches_name(name, PathCase::Insensitive, cache)
                .unwrap_or(true)
        }) || files.iter().any(|file| {
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
