//! Patterns over executables: path globs, bare names, `*` (M1 to M3, M6, P5).

use super::{
    PatternCache, generated,
    path_case::{PathCase, fold},
};
use crate::command::{Rule, RuleSet, paths};

/// Why a pattern never matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InertPattern {
    /// Nothing but white space.
    #[error("the pattern is blank")]
    Blank,
    /// A path that is neither absolute nor below `~/`.
    #[error("a path pattern must be absolute or begin with ~/")]
    Relative,
    /// A `.` or `..` component; what is matched never has one.
    #[error("a path pattern must not contain . or .. components")]
    DotComponent,
    /// A `~` that is not the beginning of `~/`.
    #[error("~ is only understood at the beginning, as ~/")]
    Tilde,
    /// A name with blanks in it: a command line, most likely.
    #[error(
        "a program's name has no blanks: give the name alone as the pattern, and the arguments as its argument \
         pattern (argPattern, --arg-pattern)"
    )]
    Blanks,
    /// A marker, which stands for a command text.
    #[error("a marker stands for a command text, not for an executable")]
    Marker,
}

/// A pattern by kind. Paths are absolute and normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutablePattern {
    /// `*`: any executable, found or not.
    Any,
    /// A glob over the typed name.
    Name(String),
    /// A path without wildcards.
    File(String),
    /// A path with wildcards: the directory before the first one, and what follows it.
    Glob {
        /// Without a slash at the end; empty for the root.
        directory: String,
        /// Begins with a slash.
        rest: String,
    },
}

impl ExecutablePattern {
    /// Reads a pattern as written in a document.
    ///
    /// # Errors
    /// [`InertPattern`] when it can never match.
    pub fn parse(text: &str, home: &str) -> Result<Self, InertPattern> {
        Self::parse_under(RuleSet::ALL, text, home)
    }

    pub(crate) fn parse_under(rules: RuleSet, text: &str, home: &str) -> Result<Self, InertPattern> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InertPattern::Blank);
        }
        if generated::is_marker(text) {
            return Err(InertPattern::Marker);
        }
        if text == "*" {
            return Ok(Self::Any);
        }
        if !text.contains('/') && !text.starts_with('~') {
            return if text.contains('~') {
                Err(InertPattern::Tilde)
            } else if text.contains(char::is_whitespace) {
                Err(InertPattern::Blanks)
            } else {
                Ok(Self::Name(text.to_owned()))
            };
        }
        // `**/name` is that name in any directory.
        let path = if text.starts_with("**/") {
            format!("/{text}")
        } else {
            paths::expand_home(text, home)
        };
        // Wildcards of the home directory's own name must not become wildcards of the pattern.
        if path.starts_with('~') || (text.starts_with('~') && has_wildcard(home)) {
            return Err(InertPattern::Tilde);
        }
        if !path.starts_with('/') {
            return Err(InertPattern::Relative);
        }
        let has_dots = path.split('/').any(|component| matches!(component, "." | ".."));
        if rules.holds(Rule::P5, has_dots) {
            return Err(InertPattern::DotComponent);
        }
        let path = paths::normalise(&path);
        let Some(wildcard) = path.find(['*', '?']) else {
            return Ok(Self::File(path));
        };
        let slash = path
            .get(..wildcard)
            .and_then(|before| before.rfind('/'))
            .unwrap_or(0);
        Ok(Self::Glob {
            directory: path.get(..slash).unwrap_or_default().to_owned(),
            rest: path.get(slash..).unwrap_or_default().to_owned(),
        })
    }

    /// Whether a name pattern matches a base name. `None` when the pattern cannot be compiled.
    pub(crate) fn matches_name(&self, name: &str, case: PathCase, cache: &PatternCache) -> Option<bool> {
        match self {
            Self::Any => Some(true),
            Self::Name(pattern) if !has_wildcard(pattern) => Some(equal(pattern, name, case)),
            Self::Name(pattern) => cache.glob_matches("", pattern, name, case),
            Self::File(_) | Self::Glob { .. } => Some(false),
        }
    }

    /// Whether a path pattern matches a path, after the pattern's own links were followed by `real` (M1).
    /// `None` when the pattern cannot be compiled.
    pub fn matches_path(
        &self,
        path: &str,
        case: PathCase,
        cache: &PatternCache,
        real: impl Fn(&str) -> Option<String>,
    ) -> Option<bool> {
        match self {
            Self::Any => Some(true),
            Self::Name(_) => Some(false),
            Self::File(file) => {
                let same = equal(file, path, case) || real(file).is_some_and(|file| equal(&file, path, case));
                Some(same)
            }
            // Cheap questions first: of thousands of entries few come as far as the file system or a compiled glob.
            Self::Glob { rest, .. } if !ends_with(path, literal_end(rest), case) => Some(false),
            Self::Glob { directory, rest } if directory.is_empty() => {
                cache.glob_matches("", rest, path, case)
            }
            Self::Glob { directory, rest } => {
                let canonical = real(directory);
                let directory = canonical.as_deref().unwrap_or(directory).trim_end_matches('/');
                if lies_below(path, directory, case) {
                    cache.glob_matches(directory, rest, path, case)
                } else {
                    Some(false)
                }
            }
        }
    }
}

/// Whether a pattern has anything but literal characters in it.
pub fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn equal(pattern: &str, target: &str, case: PathCase) -> bool {
    match case {
        PathCase::Sensitive => pattern == target,
        PathCase::Insensitive => pattern == target || fold(pattern) == fold(target),
    }
}

/// What follows the last wildcard; anything that a glob matches ends with it.
fn literal_end(glob: &str) -> &str {
    glob.rsplit(['*', '?']).next().unwrap_or_default()
}

fn ends_with(path: &str, end: &str, case: PathCase) -> bool {
    match case {
        PathCase::Sensitive => path.ends_with(end),
        PathCase::Insensitive => fold(path).ends_with(&fold(end)),
    }
}

/// Whether a path lies below a directory, which has no slash at its end.
fn lies_below(path: &str, directory: &str, case: PathCase) -> bool {
    let below = |path: &str, directory: &str| {
        path.strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    match case {
        PathCase::Sensitive => below(path, directory),
        PathCase::Insensitive => below(&fold(path), &fold(directory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, target: &str, case: PathCase, expected: bool) {
        let cache = PatternCache::default();
        let parsed = ExecutablePattern::parse(pattern, "/home/agent").unwrap();
        let matched = if target.contains('/') {
            let real = |path: &str| {
                let path = path
                    .strip_prefix("/bin")
                    .map_or_else(|| path.to_owned(), |rest| format!("/usr/bin{rest}"));
                Some(path)
            };
            parsed.matches_path(target, case, &cache, real)
        } else {
            parsed.matches_name(target, case, &cache)
        };
        assert_eq!(matched, Some(expected), "{pattern} {target}");
    }

    #[test]
    fn wildcards_stay_inside_their_components() {
        for (pattern, target, expected) in [
            ("*", "/any", true),
            ("/usr/bin/rg", "/usr/bin/rg", true),
            ("/usr/bin/r", "/usr/bin/rg", false),
            ("/bin/rg", "/usr/bin/rg", true),
            ("/bin/*", "/usr/bin/rg", true),
            ("/usr/*/rg", "/usr/bin/rg", true),
            ("/opt/*/rg", "/opt/a/b/rg", false),
            ("/usr?bin/rg", "/usr/bin/rg", false),
            ("/usr/**/rg", "/usr/rg", true),
            ("/usr/**/rg", "/usr/a/b/rg", true),
            ("/opt/**", "/opt/a/b/rg", true),
            ("/opt/**", "/optx/rg", false),
            ("/**", "/opt/rg", true),
            ("**/rg", "/opt/a/rg", true),
            ("**/rg", "/rg", true),
            ("**/rg", "/opt/evil-rg", false),
            ("**/bin/r*", "/usr/local/bin/rg", true),
            ("**/bin/r*", "/usr/sbin/rg", false),
            ("/usr/bin/{rg,ls}", "/usr/bin/rg", false),
            ("/usr/bin/[r]g*", "/usr/bin/rg", false),
            ("/usr/bin/[r]g*", "/usr/bin/[r]g", true),
            ("/usr/bin/a\\*", "/usr/bin/a\\b", true),
            ("~/.local/bin/*", "/home/agent/.local/bin/ruff", true),
            ("r?", "rg", true),
            ("/opt/?", "/opt/☕", true),
            ("/opt/?", "/opt/a\u{308}", false),
            ("/opt/a?b", "/opt/a/b", false),
            ("/opt/a**b", "/opt/axxb", true),
            ("/opt/a**b", "/opt/a/b", false),
            ("/opt/a.b+c(d", "/opt/a.b+c(d", true),
            ("/opt/a.*", "/opt/axc", false),
            ("/opt/a\nb*", "/opt/a\nbc", true),
            ("/**/a/**/b", "/x/a/y/z/b", true),
            ("/**/a/**/b", "/a/b", true),
            ("/**/a/**/b", "/xa/b", false),
            ("rg", "rg", true),
            ("rg", "evil-rg", false),
            ("/USR/BIN/RG", "/usr/bin/rg", false),
        ] {
            check(pattern, target, PathCase::Sensitive, expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_cheap_questions_change_no_answer(
            directory in "(/[ab]{1,2}){0,2}",
            rest in "/[abAB*?/]{0,6}[*?][abAB*?/]{0,3}",
            path in "(/[abAB]{1,2}){1,4}",
            insensitive in proptest::bool::ANY,
        ) {
            let case = if insensitive { PathCase::Insensitive } else { PathCase::Sensitive };
            let cache = PatternCache::default();
            let pattern = ExecutablePattern::Glob { directory: directory.clone(), rest: rest.clone() };
            proptest::prop_assert_eq!(
                pattern.matches_path(&path, case, &cache, |path| Some(path.to_owned())),
                cache.glob_matches(&directory, &rest, &path, case)
            );
        }
    }

    #[test]
    fn insensitive_folds_both_sides() {
        check("/USR/BIN/RG", "/usr/bin/rg", PathCase::Insensitive, true);
        check("/opt/GRÜßE/*", "/opt/grüße/RG", PathCase::Insensitive, true);
        check("R?", "rG", PathCase::Insensitive, true);
        assert_eq!(fold("ΣςσKıİẞ"), "σσσkıİß");
    }

    #[test]
    fn patterns_that_cannot_match_say_why() {
        for (pattern, expected) in [
            ("", InertPattern::Blank),
            ("  ", InertPattern::Blank),
            ("usr/bin/rg", InertPattern::Relative),
            ("curl *", InertPattern::Blanks),
            ("rm -rf", InertPattern::Blanks),
            ("a\tb", InertPattern::Blanks),
            ("~user/x", InertPattern::Tilde),
            ("a~b", InertPattern::Tilde),
            ("/usr/../bin/rg", InertPattern::DotComponent),
            ("/usr/./rg", InertPattern::DotComponent),
            ("=command:0123456789abcdef", InertPattern::Marker),
            ("=node-command:0123456789abcdef", InertPattern::Marker),
        ] {
            assert_eq!(
                ExecutablePattern::parse(pattern, "/home/agent"),
                Err(expected),
                "{pattern:?}"
            );
        }
    }
}
