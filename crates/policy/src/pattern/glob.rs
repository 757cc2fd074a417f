//! One glob over a path or a name, compiled by globset (M1, M2). Nothing else knows globset.
//!
//! Only `*`, `?` and `**` are special. `*` and `?` stay inside a component, `/**/` spans zero or more directories, and
//! `/**` at the end matches anything below. `**` with other characters in its component is a `*`.
//!
//! globset reads bytes, so its own `?` takes one byte: `/opt/?` would miss `/opt/☕`. Ours takes one character. For that,
//! globset sees glob and path with a [`MARK`] before each character but `/`, and reads `?` as a mark and the bytes up to
//! the next one. What follows a `?` begins with a mark or a `/`, or is a `*` or the end, so `?` takes neither a part of
//! a character nor two.

use globset::{GlobBuilder, GlobMatcher};

/// Begins a character. No path and no argument of a process contains it.
const MARK: char = '\0';

/// Any character: its mark, then the one to four bytes that UTF-8 has for it.
const ANY_CHARACTER: &str = "\0[!\0/]{,[!\0/]{,[!\0/]{,[!\0/]}}}";

/// Bound of the text that globset sees. Its compiled form takes up to about 90 bytes for each of them, and globset panics
/// where that form needs more than 10 MiB. Paths end at 4096 bytes.
const MAX_BYTES: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Glob(GlobMatcher);

impl Glob {
    /// Compiles `glob` behind the literal `directory`. `None` when they are too long.
    pub(super) fn new(directory: &str, glob: &str) -> Option<Self> {
        let marked = marked_glob(directory, glob);
        if marked.len() > MAX_BYTES {
            return None;
        }
        let glob = GlobBuilder::new(&marked)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .ok()?;
        Some(Self(glob.compile_matcher()))
    }

    /// Whether it matches all of `path`.
    pub(super) fn is_match(&self, path: &str) -> bool {
        let mut marked = String::with_capacity(2 * path.len());
        for character in path.chars() {
            push_mark(&mut marked, character);
            marked.push(character);
        }
        self.0.is_match(marked)
    }
}

fn marked_glob(directory: &str, glob: &str) -> String {
    let mut marked = String::with_capacity(2 * (directory.len() + glob.len()));
    for character in directory.chars() {
        push_literal(&mut marked, character);
    }
    for (index, component) in glob.split('/').enumerate() {
        if index > 0 {
            marked.push('/');
        }
        if index > 0 && component == "**" {
            marked.push_str(component);
        } else {
            push_component(&mut marked, component);
        }
    }
    marked
}

fn push_component(marked: &mut String, component: &str) {
    let mut characters = component.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '*' => {
                // A bare name `**` would cross directories in globset, and a long row of stars would only take memory.
                while characters.next_if_eq(&'*').is_some() {}
                marked.push('*');
            }
            '?' => marked.push_str(ANY_CHARACTER),
            literal => push_literal(marked, literal),
        }
    }
}

fn push_literal(marked: &mut String, character: char) {
    push_mark(marked, character);
    if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
        marked.push('\\');
    }
    marked.push(character);
}

fn push_mark(marked: &mut String, character: char) {
    if character != '/' {
        marked.push(MARK);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(directory: &str, glob: &str, path: &str, expected: bool) {
        let compiled = Glob::new(directory, glob).unwrap();
        assert_eq!(
            compiled.is_match(path),
            expected,
            "{directory:?} {glob:?} {path:?}"
        );
    }

    #[test]
    fn a_question_mark_is_one_character_of_any_length() {
        for character in [
            "a",
            "\u{7f}",
            "\u{80}",
            "°",
            "é",
            "\u{7ff}",
            "\u{800}",
            "☕",
            "\u{ffff}",
            "😀",
            "\u{10ffff}",
        ] {
            check("", "/opt/?", &format!("/opt/{character}"), true);
            check("", "/opt/??", &format!("/opt/{character}"), false);
            check("", "/opt/?", &format!("/opt/{character}{character}"), false);
            check("", "*??", character, false);
            check("", "??*", character, false);
            check("", "*?*", character, true);
            check("", "?x", &format!("{character}x"), true);
            check(
                "",
                &format!("?{character}"),
                &format!("{character}{character}"),
                true,
            );
        }
        check("", "/a?b", "/a/b", false);
        check("", "?", "", false);
    }

    #[test]
    fn every_other_character_stands_for_itself() {
        for literal in [
            "[a]", "[!a]", "[^a]", "[a-c]", "{a,b}", "{", "}", "[", "]", r"\", r"\\", r"\a", "!", "^", ",",
            "-", "~", "\n", "(a|b)+.$",
        ] {
            check("", &format!("/{literal}*"), &format!("/{literal}"), true);
            check("", &format!("*{literal}"), literal, true);
            check("", &format!("/{literal}*"), "/a", false);
        }
        check("", "*", "\n", true);
        check("", ".*", ".hidden", true);
        check("", "*", ".hidden", true);
    }

    #[test]
    fn nothing_in_the_directory_is_special() {
        for directory in ["/a*", "/a?", "/**", "/[ab]", "/{a,b}", r"/a\", "/a.b", "/☕?"] {
            check(directory, "/*", &format!("{directory}/x"), true);
            check(directory, "/**", &format!("{directory}/x/y"), true);
            check(directory, "/*", "/ab/x", false);
        }
        check("/**", "/x", "/a/b/x", false);
        check("/a", "/**/x", "/ab/x", false);
    }

    #[test]
    fn stars_span_directories_as_a_component_of_their_own_alone() {
        for (glob, path, expected) in [
            ("/**/x", "/x", true),
            ("/**/x", "/a/b/x", true),
            ("/**/x", "/ax", false),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", false),
            ("/a/**/**/b", "/a/b", true),
            ("/a/**/**", "/a/b", true),
            ("/a**/b", "/axx/b", true),
            ("/a**/b", "/a/x/b", false),
            ("/**a/b", "/x/a/b", false),
            ("/***/b", "/x/b", true),
            ("/***/b", "/x/y/b", false),
            ("**", "name", true),
            ("**", "a/b", false),
            ("**b", "a/b", false),
        ] {
            check("", glob, path, expected);
        }
    }

    /// The longest that compile, of the kinds that need most memory for their length.
    #[test]
    fn a_glob_compiles_up_to_a_length() {
        for kind in ["?", "*/", "/**/a", "?*", "*a", "☕", "[", "a"] {
            let glob = |repeats: usize| format!("/{}", kind.repeat(repeats));
            let length = |repeats: usize| marked_glob("", &glob(repeats)).len();
            let longest = 1 + (MAX_BYTES - length(1)) / (length(2) - length(1));
            assert!(Glob::new("", &glob(longest)).is_some(), "{kind}");
            assert!(Glob::new("", &glob(longest + 1)).is_none(), "{kind}");
        }
    }

    /// Texts of which many match: pieces of a glob, each with a piece of a path.
    fn glob_and_path() -> impl Strategy<Value = (String, String)> {
        let piece = prop_oneof![
            4 => "[abAB.☕é°!,\\-^\n~\\[\\]{}\\\\]".prop_map(|same| (same.clone(), same)),
            2 => (Just("*".to_owned()), "[ab☕é°*]{0,3}"),
            2 => (Just("?".to_owned()), "[ab☕é°?]"),
            2 => Just(("/".to_owned(), "/".to_owned())),
            1 => (Just("/**/".to_owned()), "(/[ab☕]{1,2}){0,2}/"),
            1 => (Just("/**".to_owned()), "(/[ab☕]{1,2}){1,2}"),
            1 => ("[ab☕é*?/]", "[ab☕é*?/]"),
        ];
        prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.into_iter().unzip())
    }

    proptest! {
        #[test]
        fn a_glob_matches_what_its_characters_say(
            directory in "(/[ab*?☕\\[\\]{}\\\\.]{1,3}){0,2}",
            (glob, path) in glob_and_path(),
            is_name in any::<bool>(),
        ) {
            let (directory, slash) = if is_name { ("", "") } else { (directory.as_str(), "/") };
            let glob = format!("{slash}{glob}");
            let path = format!("{directory}{slash}{path}");
            let expected = path.strip_prefix(directory).is_some_and(|rest| reference::matches(&glob, rest));
            prop_assert_eq!(Glob::new(directory, &glob).unwrap().is_match(&path), expected);
        }
    }

    /// The same meaning, tried character by character.
    mod reference {
        pub(super) fn matches(glob: &str, path: &str) -> bool {
            let components: Vec<&str> = glob.split('/').collect();
            let (name, below) = components.split_first().unwrap();
            let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
            is_named(name, first) && lies_below(below, rest)
        }

        fn lies_below(components: &[&str], path: &str) -> bool {
            match components {
                [] => path.is_empty(),
                ["**"] => path.starts_with('/'),
                ["**", rest @ ..] => path
                    .match_indices('/')
                    .any(|(at, _)| lies_below(rest, path.split_at(at).1)),
                [name, rest @ ..] => path.strip_prefix('/').is_some_and(|path| {
                    let (first, others) = path.split_at(path.find('/').unwrap_or(path.len()));
                    is_named(name, first) && lies_below(rest, others)
                }),
            }
        }

        fn is_named(glob: &str, name: &str) -> bool {
            let (mut globs, mut names) = (glob.chars(), name.chars());
            match (globs.next(), names.next()) {
                (None, found) => found.is_none(),
                (Some('*'), found) => {
                    is_named(globs.as_str(), name) || (found.is_some() && is_named(glob, names.as_str()))
                }
                (Some(_), None) => false,
                (Some(wanted), Some(found)) => {
                    (wanted == '?' || wanted == found) && is_named(globs.as_str(), names.as_str())
                }
            }
        }
    }
}
