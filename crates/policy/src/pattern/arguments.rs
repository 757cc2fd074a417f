//! Patterns over arguments: regular expressions and generated digests (M4, M5).

use super::{
    dialect::{self, UnsupportedSyntax},
    generated,
};

/// Longest expression that is compiled.
const MAX_PATTERN_BYTES: usize = 4_096;
/// Longest text an expression is tried on (M4).
const MAX_INPUT_BYTES: usize = 8_192;
/// Steps after which a backtracking match is given up (M4).
const BACKTRACK_LIMIT: usize = 100_000;
/// Bound of a compiled expression's memory.
const COMPILED_SIZE_LIMIT: usize = 1 << 20;

/// An expression that cannot be used; at creation a 400, in a document never a match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArgumentPattern {
    /// Longer than 4,096 bytes.
    #[error("the argument pattern is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    /// Not in the common part of the dialects.
    #[error("the argument pattern uses unsupported syntax")]
    Unsupported(#[source] UnsupportedSyntax),
    /// Neither engine takes it, or it would be too large.
    #[error("the argument pattern is not a valid regular expression")]
    Malformed,
}

/// Whether an expression matches the arguments of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentMatch {
    /// It matches a part of the joined arguments.
    Yes,
    /// It matches no part of them.
    No,
    /// A limit was reached first. No match for an entry, a match for a deny rule.
    Undecided,
}

/// What an entry's `argPattern` and `source` make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentRule<'a> {
    Any,
    /// These arguments in this directory: the whole pattern text.
    Generated(&'a str),
    Expression(&'a str),
    /// Never matches (M5).
    Inert,
}

impl<'a> ArgumentRule<'a> {
    /// Reads the two members.
    pub(crate) fn of(arg_pattern: Option<&'a str>, source: Option<&'a str>) -> Self {
        let is_generated = source == Some(generated::GENERATED_SOURCE);
        match arg_pattern {
            Some(pattern) if pattern.starts_with(generated::CWD_ARGV_PREFIX) => Self::Generated(pattern),
            Some(pattern) if pattern.starts_with(generated::LEGACY_ARGV_PREFIX) => Self::Inert,
            _ if is_generated => Self::Inert,
            Some(pattern) => Self::Expression(pattern),
            None => Self::Any,
        }
    }
}

/// A compiled `argPattern` that is an expression (M4).
#[derive(Debug)]
pub struct ArgumentPattern {
    engine: Engine,
    /// The expression holds a NUL, so arguments are joined by NUL.
    nul_joined: bool,
}

#[derive(Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

impl ArgumentPattern {
    /// Compiles an ECMAScript expression: with the linear engine, or, when it looks around or back, with a
    /// backtracking one that has a step limit.
    ///
    /// # Errors
    /// [`InvalidArgumentPattern`].
    pub fn parse(pattern: &str) -> Result<Self, InvalidArgumentPattern> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(InvalidArgumentPattern::TooLong);
        }
        let translated = dialect::translate(pattern).map_err(InvalidArgumentPattern::Unsupported)?;
        let engine = if translated.backtracking {
            let built = fancy_regex::RegexBuilder::new(&translated.text)
                .backtrack_limit(BACKTRACK_LIMIT)
                .delegate_size_limit(COMPILED_SIZE_LIMIT)
                .build();
            Engine::Backtracking(Box::new(built.ok().ok_or(InvalidArgumentPattern::Malformed)?))
        } else {
            let built = regex::RegexBuilder::new(&translated.text)
                .size_limit(COMPILED_SIZE_LIMIT)
                .build();
            Engine::Linear(built.ok().ok_or(InvalidArgumentPattern::Malformed)?)
        };
        Ok(Self {
            engine,
            nul_joined: pattern.contains('\0'),
        })
    }

    /// Tries the arguments, without the executable.
    pub fn matches(&self, arguments: &[&str]) -> ArgumentMatch {
        let text = self.join(arguments);
        if text.len() > MAX_INPUT_BYTES {
            return ArgumentMatch::Undecided;
        }
        let text = dialect::code_units(&text);
        let found = match &self.engine {
            Engine::Linear(expression) => Ok(expression.is_match(text.as_ref())),
            Engine::Backtracking(expression) => expression.is_match(text.as_ref()),
        };
        match found {
            Ok(true) => ArgumentMatch::Yes,
            Ok(false) => ArgumentMatch::No,
            Err(_) => ArgumentMatch::Undecided,
        }
    }

    fn join(&self, arguments: &[&str]) -> String {
        match (self.nul_joined, arguments) {
            (false, arguments) => arguments.join(" "),
            (true, []) => "\0\0".to_owned(),
            (true, arguments) => arguments.join("\0") + "\0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, arguments: &[&str], expected: ArgumentMatch) {
        let found = ArgumentPattern::parse(pattern).unwrap().matches(arguments);
        assert_eq!(found, expected, "{pattern} {arguments:?}");
    }

    #[test]
    fn expressions_search_the_joined_arguments() {
        use ArgumentMatch::{No, Yes};
        check("^push( origin)?$", &["push", "origin"], Yes);
        check("^push( origin)?$", &["push", "--force"], No);
        check("status", &["-C", "x", "status"], Yes);
        check("^$", &[], Yes);
        check("^\0\0$", &[], Yes);
        check("^a\0b c\0$", &["a", "b c"], Yes);
        check("^a\0b\0c\0$", &["a", "b c"], No);
        check(r"^\d+$", &["١"], No);
        check(r"^\w+$", &["é"], No);
        check(r"^a.b$", &["a\u{2028}b"], No);
        check(r"^a\sb$", &["a\u{feff}b"], Yes);
        check(r"^(?!push)\w+$", &["pull"], Yes);
        check(r"^(?!push)\w+$", &["push"], No);
        check(r"^(a|b)\1$", &["aa"], Yes);
        check(r"^(a|b)\1$", &["ab"], No);
        check(r"^[[&&a]$", &["&"], Yes);
        check(r"^a{,3}$", &["a{,3}"], Yes);
        check(r"^[\d-a-z]$", &["b"], No);
        for end in ["7", "-", "a", "z"] {
            check(r"^[\d-a-z]$", &[end], Yes);
        }
        check(r"^[%-\d-z]$", &["y"], No);
        check(r"^\u0041\x42$", &["AB"], Yes);
        check(r"\bé", &["é"], No);
        check(r"(?=\bx)x$", &["éx"], Yes);
        check(r"(?<=\bab{2}(?=c+))c", &["abbc"], Yes);
        check(r"(?<=^a+|b.*)c", &["aac"], Yes);
        check(r"(?<=a+)c\b|d", &["d"], Yes);
        check(r"^(?!x).{1,4000}(a)\1{2}$", &["bbaaa"], Yes);
    }

    #[test]
    fn limits_are_undecided() {
        check("x", &[&"x".repeat(MAX_INPUT_BYTES + 1)], ArgumentMatch::Undecided);
        let hostile = format!("{}b", "a".repeat(40));
        check("^(?:(a+)(?!c))+$", &[&hostile], ArgumentMatch::Undecided);
    }

    #[test]
    fn unusable_expressions_are_errors() {
        for pattern in [
            ")",
            "(",
            "[^]",
            "[]",
            r"\cA",
            r"\Z",
            "(?i)a",
            "(?P<n>a)",
            "a**",
            "*",
            r"\p{L}",
            "(?#x)",
            "[b-a]",
            r"a()\1{4012563001}",
            r"(?:(?:()\1{100}){100}){100}",
            r"(?:(?:x\B){99999999999999999999}){2}",
            r"\Ba{9000000000000000000,}b{9000000000000000000}c{9000000000000000000,}",
            r"[\d---a--]",
            r"(?<=\x17|\B.*\B.*?)\b",
            r"(?<=a+\b)c",
            r"(?<!(?:x(?:a|bc)(?=d)))c",
            "a{2,1}",
            r"(a)\1{2,1}",
            r"(?<n>a)(?<n>b)\k<n>",
        ] {
            assert!(ArgumentPattern::parse(pattern).is_err(), "{pattern}");
        }
        assert!(ArgumentPattern::parse(&"a".repeat(5_000)).is_err());
    }

    #[test]
    fn generated_entries_need_their_digest() {
        let digest = format!("{}00", generated::CWD_ARGV_PREFIX);
        for (arg_pattern, source, expected) in [
            (None, None, ArgumentRule::Any),
            (None, Some("allow-always"), ArgumentRule::Inert),
            (Some("^x$"), None, ArgumentRule::Expression("^x$")),
            (Some("^x$"), Some("allow-always"), ArgumentRule::Inert),
            (Some("sha256:argv:00"), Some("allow-always"), ArgumentRule::Inert),
            (Some("sha256:argv:00"), None, ArgumentRule::Inert),
            (
                Some(digest.as_str()),
                Some("allow-always"),
                ArgumentRule::Generated(&digest),
            ),
        ] {
            assert_eq!(ArgumentRule::of(arg_pattern, source), expected);
        }
    }
}
