//! Patterns of file names as POSIX shells have them (G14), in the part in which shells agree.

use std::rc::Rc;

/// Names of one directory that are looked through.
pub const MAX_NAMES: usize = 10_000;
/// Words that a pattern may become.
const MAX_MATCHES: usize = 512;

/// The names in a directory, or why a pattern has no use of them.
pub(crate) type NamesInside = Result<Rc<[String]>, Unexpanded>;

/// What a pattern may look at, and how much.
pub(crate) trait Directories {
    /// The names in a directory; what is no directory has none.
    ///
    /// # Errors
    /// [`Unexpanded`] where they cannot be known.
    fn names(&self, directory: &str) -> NamesInside;
    /// Whether so many bytes of names may be compared with so many parts of a pattern.
    fn may_compare(&self, bytes: usize, parts: usize) -> bool;
}

/// Why a pattern is not expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unexpanded {
    /// Shells read it in different ways.
    Form,
    /// The files cannot be looked at here.
    Unknown,
    /// There are too many files.
    TooMany,
    /// A name would be taken for an option, or hides something.
    Name,
}

impl Unexpanded {
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::Form => "shells read this pattern of file names in different ways",
            Self::Unknown => "the files that this pattern means cannot be looked at",
            Self::TooMany => "this pattern means too many files",
            Self::Name => "this pattern means a file whose name begins with a dash, or hides something",
        }
    }
}

/// A character of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Itself(char),
    /// `?`
    One,
    /// `*`
    Any,
    /// `[…]`: one within these bounds, or with `[!…]` one that is not.
    Within(Vec<(char, char)>, bool),
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Component {
    text: String,
    /// Empty for a plain name.
    parts: Vec<Part>,
}

/// A word with characters that stand for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePattern {
    is_absolute: bool,
    components: Vec<Component>,
}

impl FilePattern {
    /// Reads a word. `active` are the places of `*`, `?` and `[` that were not quoted; `is_bare` says that nothing was.
    pub(crate) fn read(value: &str, active: &[usize], is_bare: bool) -> Result<Self, Unexpanded> {
        let (is_absolute, relative) = match value.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let mut at = value.len() - relative.len();
        let mut components: Vec<Component> = Vec::new();
        for text in relative.split('/') {
            let own: Vec<usize> = active
                .iter()
                .filter(|place| (at..at + text.len()).contains(place))
                .map(|place| place - at)
                .collect();
            let parts = if own.is_empty() {
                Vec::new()
            } else {
                parts(text, &own, is_bare)?
            };
            let is_behind = components.iter().any(|before| !before.parts.is_empty());
            if is_behind && matches!(text, "" | "." | "..") {
                return Err(Unexpanded::Form);
            }
            // Some shells find the directory itself and the one above it.
            if !parts.is_empty() && (matches(&parts, ".") || matches(&parts, "..")) && text.starts_with('.') {
                return Err(Unexpanded::Form);
            }
            components.push(Component {
                text: text.to_owned(),
                parts,
            });
            at += text.len() + 1;
        }
        Ok(Self {
            is_absolute,
            components,
        })
    }

    /// The files that it means from a directory on, in the order of their bytes, as the word would name them.
    pub(crate) fn expand(
        &self,
        directory: &str,
        directories: &dyn Directories,
    ) -> Result<Vec<String>, Unexpanded> {
        let base = if self.is_absolute {
            ""
        } else {
            directory.trim_end_matches('/')
        };
        let mut found = vec![if self.is_absolute {
            "/".to_owned()
        } else {
            String::new()
        }];
        let mut is_behind = false;
        for (at, component) in self.components.iter().enumerate() {
            let is_last = at + 1 == self.components.len();
            let mut next = Vec::new();
            for before in found {
                if component.parts.is_empty() && !(is_behind && is_last) {
                    next.push(before + &component.text);
                    continue;
                }
                let place = if self.is_absolute {
                    before.clone()
                } else {
                    format!("{base}/{before}")
                };
                let all = directories.names(&place)?;
                let bytes = all.iter().map(String::len).sum();
                if !directories.may_compare(bytes, component.parts.len().max(1)) {
                    return Err(Unexpanded::TooMany);
                }
                if component.parts.is_empty() {
                    if all.contains(&component.text) {
                        next.push(before + &component.text);
                    }
                    continue;
                }
                for name in all.iter() {
                    if component.matches(name)? {
                        next.push(format!("{before}{name}"));
                    }
                }
                if next.len() > MAX_MATCHES {
                    return Err(Unexpanded::TooMany);
                }
            }
            is_behind |= !component.parts.is_empty();
            if !is_last {
                for path in &mut next {
                    path.push('/');
                }
            }
            found = next;
        }
        found.sort_unstable();
        Ok(found)
    }
}

impl Component {
    fn matches(&self, name: &str) -> Result<bool, Unexpanded> {
        if name.starts_with('.') && !self.text.starts_with('.') {
            return Ok(false);
        }
        // A character has one byte or more, depending on the locale.
        let counts = |part: &Part| matches!(part, Part::One | Part::Within(..));
        if !name.is_ascii() && self.parts.iter().any(counts) {
            return Err(Unexpanded::Unknown);
        }
        Ok(matches(&self.parts, name))
    }
}

fn parts(text: &str, active: &[usize], is_bare: bool) -> Result<Vec<Part>, Unexpanded> {
    let mut parts = Vec::new();
    let mut rest = text.char_indices();
    while let Some((at, character)) = rest.next() {
        let part = match character {
            _ if !active.contains(&at) => Part::Itself(character),
            '?' => Part::One,
            // zsh looks below directories, too.
            '*' if parts.last() == Some(&Part::Any) => return Err(Unexpanded::Form),
            '*' => Part::Any,
            _ if !is_bare => return Err(Unexpanded::Form),
            _ => {
                let inner = text.get(at + 1..).unwrap_or_default();
                let (inner, _behind) = inner.split_once(']').ok_or(Unexpanded::Form)?;
                let part = within(inner)?;
                // The characters of the brackets.
                rest = text.char_indices();
                rest.by_ref()
                    .take_while(|(place, _)| *place < at + 1 + inner.len())
                    .for_each(drop);
                part
            }
        };
        parts.push(part);
    }
    Ok(parts)
}

/// The inside of brackets: letters, digits and the like, and ranges of letters of one case, or of digits.
fn within(inner: &str) -> Result<Part, Unexpanded> {
    let (inner, is_negated) = match inner.strip_prefix('!') {
        Some(inner) => (inner, true),
        None => (inner, false),
    };
    let characters: Vec<char> = inner.chars().collect();
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
    let mut bounds = Vec::new();
    let mut rest = characters.as_slice();
    while let [first, behind @ ..] = rest {
        if !is_plain(first) {
            return Err(Unexpanded::Form);
        }
        if let ['-', last, behind @ ..] = behind {
            let kinds: [fn(&char) -> bool; 3] = [
                char::is_ascii_digit,
                char::is_ascii_lowercase,
                char::is_ascii_uppercase,
            ];
            if first > last || !kinds.iter().any(|is| is(first) && is(last)) {
                return Err(Unexpanded::Form);
            }
            bounds.push((*first, *last));
            rest = behind;
        } else {
            bounds.push((*first, *first));
            rest = behind;
        }
    }
    if bounds.is_empty() {
        return Err(Unexpanded::Form);
    }
    Ok(Part::Within(bounds, is_negated))
}

/// Whether a name is what the parts say. The work is at most the product of both lengths.
fn matches(parts: &[Part], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut part, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let taken = match (parts.get(part), name.get(at)) {
            (None, None) => return true,
            (Some(Part::Any), _) => {
                retry = Some((part + 1, at));
                part += 1;
                continue;
            }
            (Some(Part::Itself(wanted)), Some(character)) => wanted == character,
            (Some(Part::One), Some(_)) => true,
            (Some(Part::Within(bounds, is_negated)), Some(character)) => {
                let is_in = bounds
                    .iter()
                    .any(|(first, last)| (first..=last).contains(&character));
                is_in != *is_negated
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if taken {
            part += 1;
            at += 1;
            continue;
        }
        match retry {
            Some((behind, from)) if from < name.len() => {
                retry = Some((behind, from + 1));
                part = behind;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [(&str, &[&str]); 6] = [
        (
            "/w/",
            &["a.rs", "b.rs", ".h.rs", "src", "-x.rs", "B.rs", "a b.rs"],
        ),
        ("/w/src/", &["c.rs", "deep"]),
        ("/w/src/deep/", &["d.rs"]),
        ("/w/a.rs/", &[]),
        ("/w/uni/", &["é.md"]),
        ("/etc/", &["hosts", "host.conf"]),
    ];

    fn expand(value: &str) -> Result<Vec<String>, Unexpanded> {
        let places = value.match_indices(['*', '?', '[']).map(|(at, _)| at);
        let pattern = FilePattern::read(value, &places.collect::<Vec<_>>(), true)?;
        pattern.expand("/w", &Tree)
    }

    /// In every directory there is the same, and no more than 3 MB are compared.
    struct Same(NamesInside);

    impl Directories for Same {
        fn names(&self, _directory: &str) -> NamesInside {
            self.0.clone()
        }

        fn may_compare(&self, bytes: usize, parts: usize) -> bool {
            bytes * parts < 4_000_000
        }
    }

    struct Tree;

    impl Directories for Tree {
        fn names(&self, directory: &str) -> NamesInside {
            let place = format!("{}/", crate::command::paths::normalise(directory));
            let known = TREE.iter().find(|(directory, _)| *directory == place);
            let names = known.map_or(&[][..], |(_, names)| names);
            Ok(names.iter().map(|name| (*name).to_owned()).collect())
        }

        fn may_compare(&self, _bytes: usize, _parts: usize) -> bool {
            true
        }
    }

    #[test]
    fn names_are_found_as_shells_find_them() {
        for (value, found) in [
            ("a*", &["a b.rs", "a.rs"][..]),
            ("*.rs", &["-x.rs", "B.rs", "a b.rs", "a.rs", "b.rs"]),
            ("[ab].rs", &["a.rs", "b.rs"]),
            ("[a-c].rs", &["a.rs", "b.rs"]),
            ("[!a].rs", &["B.rs", "b.rs"]),
            (".h*", &[".h.rs"]),
            ("src/*.rs", &["src/c.rs"]),
            ("./src/*.rs", &["./src/c.rs"]),
            ("*/c.rs", &["src/c.rs"]),
            ("s*/d*/*.rs", &["src/deep/d.rs"]),
            ("*/none", &[]),
            ("none/*", &[]),
            ("/etc/host*", &["/etc/host.conf", "/etc/hosts"]),
            ("src//*.rs", &["src//c.rs"]),
            ("http://x/?y", &[]),
            ("uni/*.md", &["uni/é.md"]),
            ("--x=*", &[]),
            ("a*s*", &["a b.rs", "a.rs"]),
            ("x*y", &[]),
        ] {
            let found: Vec<String> = found.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(expand(value), Ok(found), "{value}");
        }
    }

    #[test]
    fn what_shells_read_otherwise_is_not_expanded() {
        for value in [
            "**",
            "a**",
            "*//b",
            "*/",
            "*/.",
            "*/..",
            ".*",
            "..*",
            ".?",
            "[",
            "[]",
            "[]a]",
            "[^a]*",
            "[a",
            "[b-a]",
            "[A-z]",
            "[a-]",
            "[[:alpha:]]",
            "[a/b]",
            "[é]",
        ] {
            assert_eq!(expand(value), Err(Unexpanded::Form), "{value}");
        }
        assert_eq!(expand("uni/?.md"), Err(Unexpanded::Unknown));
        assert_eq!(FilePattern::read("[a]", &[0], false), Err(Unexpanded::Form));
        let many = Same(Ok((0..1_000).map(|nth| nth.to_string()).collect()));
        let pattern = FilePattern::read("*", &[0], true).unwrap();
        assert_eq!(pattern.expand("/", &many), Err(Unexpanded::TooMany));
        assert_eq!(
            pattern.expand("/", &Same(Err(Unexpanded::Unknown))),
            Err(Unexpanded::Unknown)
        );
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_both() {
        let value = "*a".repeat(2_000);
        let places: Vec<usize> = value.match_indices('*').map(|(at, _)| at).collect();
        let pattern = FilePattern::read(&value, &places, true).unwrap();
        let name = "a".repeat(255);
        let found = pattern.expand("/", &Same(Ok(vec![name; 3].into())));
        assert_eq!(found, Ok(vec![]));
        let names = Same(Ok(vec!["a".repeat(255); 4].into()));
        assert_eq!(pattern.expand("/", &names), Err(Unexpanded::TooMany));
    }
}
