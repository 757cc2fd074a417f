//! Programs that write to their operands, and where these lead by the words (C1).

/// Which words are files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// All of them.
    All,
    /// The last.
    Last,
}

/// Options that set no times, modes and owners of files that are there, and name no other place.
#[derive(Debug)]
struct Plain {
    letters: &'static str,
    long: &'static [&'static str],
}

/// A program that writes to its operands.
#[derive(Debug)]
pub(super) struct Writer {
    name: &'static str,
    written: Written,
    /// `None` for a program whose options are not known here.
    plain: Option<Plain>,
}

const WRITERS: &[Writer] = &[
    Writer {
        name: "cp",
        written: Written::Last,
        plain: Some(Plain {
            letters: "fHinLPrRTuvx",
            long: &[
                "--dereference",
                "--force",
                "--interactive",
                "--no-clobber",
                "--no-dereference",
                "--no-target-directory",
                "--one-file-system",
                "--recursive",
                "--update",
                "--verbose",
            ],
        }),
    },
    Writer {
        name: "install",
        written: Written::Last,
        plain: None,
    },
    Writer {
        name: "ln",
        written: Written::Last,
        plain: None,
    },
    Writer {
        name: "mkdir",
        written: Written::All,
        plain: Some(Plain {
            letters: "pv",
            long: &["--parents", "--verbose"],
        }),
    },
    Writer {
        name: "mv",
        written: Written::Last,
        plain: Some(Plain {
            letters: "finTuv",
            long: &[
                "--force",
                "--interactive",
                "--no-clobber",
                "--no-target-directory",
                "--update",
                "--verbose",
            ],
        }),
    },
    Writer {
        name: "rmdir",
        written: Written::All,
        plain: None,
    },
    Writer {
        name: "touch",
        written: Written::All,
        plain: Some(Plain {
            letters: "c",
            long: &["--no-create"],
        }),
    },
];

impl Writer {
    /// The one of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        WRITERS.iter().find(|writer| writer.name == name)
    }

    /// Whether the kernel keeps what its options make it write.
    pub(super) fn has_plain_options(&self, arguments: &[&str]) -> bool {
        let Some(plain) = &self.plain else {
            return true;
        };
        let mut options = arguments
            .iter()
            .take_while(|word| **word != "--")
            .filter_map(|word| word.strip_prefix('-').map(|letters| (*word, letters)));
        options.all(|(word, letters)| {
            plain.long.contains(&word) || letters.chars().all(|letter| plain.letters.contains(letter))
        })
    }

    /// The words that are files which it writes.
    pub(super) fn targets<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let ends = arguments.iter().position(|word| *word == "--");
        let is_operand = |(at, word): &(usize, &&str)| match ends {
            Some(end) if *at >= end => *at > end,
            Some(_) | None => !word.starts_with('-'),
        };
        let mut operands: Vec<&str> = arguments
            .iter()
            .enumerate()
            .filter(is_operand)
            .map(|(_, word)| *word)
            .collect();
        if self.written == Written::Last {
            operands.drain(..operands.len().saturating_sub(1));
        }
        operands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_plain(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        Writer::named(words[0]).unwrap().has_plain_options(&words[1..])
    }

    #[test]
    fn options_that_set_times_and_modes_are_not_plain() {
        for line in [
            "touch a b",
            "touch -c a",
            "touch -- -d",
            "mkdir -p a/b",
            "cp -r a b",
            "cp -Rv a b --force",
            "cp - a",
            "mv -n a b",
        ] {
            assert!(is_plain(line), "{line}");
        }
        for line in [
            "touch -d yesterday a",
            "touch -t 01010101 a",
            "touch -r /x a",
            "touch -cd x a",
            "touch -h a",
            "touch -a a",
            "touch a --date=x",
            "touch --d=x a",
            "touch --reference=x a",
            "mkdir -m 777 a",
            "mkdir -pm777 a",
            "mkdir --mode=777 a",
            "cp -a a b",
            "cp -p a b",
            "cp -rp a b",
            "cp -d a b",
            "cp -s a b",
            "cp --preserve a b",
            "cp --preserve=mode a b",
            "cp --archive a b",
            "cp --a a b",
            "cp -t /x a",
            "cp -rt /x a",
            "cp --target-directory=/x a",
            "cp --targ /x a",
            "cp --attributes-only a b",
            "mv -t /x a",
            "mv --target-directory /x a",
            "mv -b a b",
        ] {
            assert!(!is_plain(line), "{line}");
        }
    }

    #[test]
    fn operands_are_all_words_but_options() {
        let targets = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Writer::named(words[0]).unwrap().targets(&words[1..]).join(" ")
        };
        for (line, written) in [
            ("touch a -c b", "a b"),
            ("touch -c -- -c --", "-c --"),
            ("mkdir -p", ""),
            ("cp a b -v", "b"),
            ("cp -r -- a -b", "-b"),
            ("mv", ""),
        ] {
            assert_eq!(targets(line), written, "{line}");
        }
    }
}
