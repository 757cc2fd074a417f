//! What `find -exec` runs for the files that it finds (G16), in the part in which that is certain from the words.

/// To these a file is data whatever its name is, and none of their options writes one.
const READERS: &[&str] = &[
    "b2sum",
    "cat",
    "cksum",
    "cut",
    "egrep",
    "fgrep",
    "grep",
    "head",
    "md5sum",
    "nl",
    "od",
    "rev",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "sum",
    "tac",
    "tail",
    "wc",
];

/// These say something of a file and do not look into it.
const NAMERS: &[&str] = &[
    "basename", "dirname", "du", "echo", "ls", "readlink", "realpath", "stat",
];

/// The command that a call of `find` runs, by the places of its words among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFiles<'a> {
    /// `-exec`.
    pub(crate) action: usize,
    /// `;`, or `+`.
    pub(crate) end: usize,
    /// Where it begins to look; empty for the directory in which it runs.
    pub(crate) starts: Vec<&'a str>,
    /// Whether it finds regular files alone, and follows no link.
    pub(crate) are_regular: bool,
}

impl<'a> FoundFiles<'a> {
    /// Reads the arguments of `find`. `None` without a command, and where it is not certain what that gets: `{}` stands once, as
    /// its last word.
    pub(crate) fn read(arguments: &[&'a str]) -> Option<Self> {
        let mut actions = arguments.iter().enumerate().filter(|(_, word)| **word == "-exec");
        let (action, _) = actions.next().filter(|_| actions.clone().next().is_none())?;
        let end = (action + 1..arguments.len()).find(|at| match arguments.get(*at) {
            Some(&";") => true,
            Some(&"+") => arguments.get(*at - 1) == Some(&"{}"),
            _ => false,
        })?;
        let (last, own) = arguments.get(action + 1..end)?.split_last()?;
        let is_certain = *last == "{}"
            && own.first().is_some_and(|program| !program.starts_with('-'))
            && !own.iter().any(|word| word.contains("{}"));
        if !is_certain {
            return None;
        }
        let options = arguments.iter().take_while(|word| **word == "-P").count();
        let begins_expression = |word: &str| word.starts_with('-') || matches!(word, "(" | ")" | "!" | ",");
        let starts: Vec<&str> = arguments
            .iter()
            .skip(options)
            .copied()
            .take_while(|word| !begins_expression(word))
            .collect();
        let expression = arguments.get(options + starts.len()..action)?;
        let behind = arguments.get(end..).unwrap_or_default();
        let follows = |words: &[&str]| words.iter().any(|word| matches!(*word, "-L" | "-H" | "-follow"));
        let are_regular = !follows(expression) && !follows(behind) && demands_regular(expression);
        Some(Self {
            action,
            end,
            starts,
            are_regular,
        })
    }

    /// Whether the command may be told the name of any file that is found. `names` are all that its program goes by.
    pub(crate) fn suits(&self, names: &[&str]) -> bool {
        let is_one = |list: &[&str]| names.iter().all(|name| list.contains(name));
        !names.is_empty() && (is_one(NAMERS) || (self.are_regular && is_one(READERS)))
    }
}

/// Whether what stands before an action lets only regular files through: `-type f` outside of parentheses, behind the last
/// alternative there.
fn demands_regular(expression: &[&str]) -> bool {
    let is_operator = |word: &str| matches!(word, "!" | "-not" | "-a" | "-and" | "-o" | "-or" | "(");
    let mut depth = 0_u32;
    let mut is_demanded = false;
    for (at, word) in expression.iter().enumerate() {
        let before = at
            .checked_sub(1)
            .and_then(|before| expression.get(before))
            .copied();
        // It may be the value of a test.
        let may_be_value = before.is_some_and(|before| before.starts_with('-') && !is_operator(before));
        match *word {
            "(" | ")" if may_be_value => return false,
            "(" => depth += 1,
            ")" => match depth.checked_sub(1) {
                Some(left) => depth = left,
                None => return false,
            },
            // The action is a part of what follows.
            "-o" | "-or" | "," if depth == 0 => is_demanded = false,
            "-type" if depth == 0 && !matches!(before, Some("!" | "-not")) => {
                is_demanded |= expression.get(at + 1) == Some(&"f");
            }
            _ => {}
        }
    }
    is_demanded && depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Vec<&str>, bool)> {
        let words: Vec<&str> = text.split(' ').collect();
        let found = FoundFiles::read(&words)?;
        let own = words.get(found.action + 1..found.end)?.join(" ");
        Some((own, found.starts, found.are_regular))
    }

    #[test]
    fn a_command_that_gets_one_file_or_many_is_read() {
        for (text, own, starts, are_regular) in [
            (". -type f -exec grep x {} ;", "grep x {}", &["."][..], true),
            ("a b -name x -exec wc -l {} +", "wc -l {}", &["a", "b"], false),
            ("-P -type f -exec cat {} +", "cat {}", &[], true),
            (
                ". -type f ( -name a -o -name b ) -exec cat {} +",
                "cat {}",
                &["."],
                true,
            ),
            (". ! -name x -type f -exec cat {} +", "cat {}", &["."], true),
            (
                ". -path ./x -prune -o -type f -exec cat {} +",
                "cat {}",
                &["."],
                true,
            ),
            (". -exec ls {} ; -print", "ls {}", &["."], false),
            (". -type f -exec grep + {} +", "grep + {}", &["."], true),
        ] {
            let expected = Some((own.to_owned(), starts.to_vec(), are_regular));
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_certain_is_not_read() {
        for text in [
            ". -name x",
            ". -exec cat {}",
            ". -exec {} ;",
            ". -exec ;",
            ". -exec cat x ;",
            ". -exec cat {} x ;",
            ". -exec cat x{} ;",
            ". -exec cat x{} {} ;",
            ". -exec cat {} {} ;",
            ". -exec -x {} ;",
            ". -exec cat {} ; -exec cat {} ;",
            ". -execdir cat {} ;",
            ". -ok cat {} ;",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_may_be_a_link_is_no_regular_file() {
        for text in [
            ". -exec cat {} ;",
            ". -type l -exec cat {} ;",
            ". ! -type f -exec cat {} ;",
            ". -not -type f -exec cat {} ;",
            ". -type f -o -name x -exec cat {} ;",
            ". -type f , -name x -exec cat {} ;",
            ". ( -type f -o -name x ) -exec cat {} ;",
            ". -type f -name ( -o -name ) -exec cat {} ;",
            ". -follow -type f -exec cat {} ;",
            ". -type f -exec cat {} ; -follow",
            ". -exec cat {} ; -type f",
            ". -type f,l -exec cat {} ;",
            ". -xtype f -exec cat {} ;",
        ] {
            assert_eq!(
                read(text).map(|(_, _, are_regular)| are_regular),
                Some(false),
                "{text}"
            );
        }
        // They stand before the place to look at, which nothing here reads.
        assert_eq!(
            read("-L . -type f -exec cat {} ;").map(|found| found.2),
            Some(false)
        );
    }

    #[test]
    fn only_readers_are_told_any_name() {
        let words = ["-type", "f", "-exec", "x", "{}", ";"];
        let regular = FoundFiles::read(&words).unwrap();
        assert!(regular.suits(&["grep"]) && regular.suits(&["ls"]));
        for names in [
            &["rm"][..],
            &["sh"],
            &["sed"],
            &["grep", "rm"],
            &["sort"],
            &["tee"],
            &[],
        ] {
            assert!(!regular.suits(names), "{names:?}");
        }
        let any = FoundFiles {
            are_regular: false,
            ..regular
        };
        assert!(any.suits(&["ls"]) && !any.suits(&["cat"]));
    }
}
