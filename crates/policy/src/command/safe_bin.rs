//! Safe bins: filters of standard input that need no entry while their arguments stay inside a profile (SB1 to SB6).
//!
//! Only argument vectors are looked at, never files, so an answer says nothing about what exists.

use std::collections::BTreeMap;

use super::{
    Rule, RuleSet, inline_eval,
    names::{self, NameClass},
};

/// Names that are never safe bins, no matter what the configuration says (SB6).
const NEVER: &[&str] = &["jq", "find", "xargs", "env"];

/// A profile from the configuration (`tools.exec.safeBinProfiles`). What is `None` is not said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeBinProfile {
    /// Fewest operands; without it as built in, or 0 for a name without a built-in profile.
    pub min_positional: Option<usize>,
    /// Most operands.
    pub max_positional: Option<usize>,
    /// Flags with a value, dashes included.
    pub allowed_value_flags: Option<Vec<String>>,
    /// Flags without a value, dashes included.
    pub allowed_boolean_flags: Option<Vec<String>>,
    /// Flags that always fail, dashes included.
    pub denied_flags: Option<Vec<String>>,
}

/// Why arguments fall outside a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeBinMiss {
    /// A denied, unknown or abbreviated flag, or a missing value; the argument's index.
    Flag(usize),
    /// Too many or too few operands.
    Operands,
}

struct BuiltIn {
    name: &'static str,
    operands: (usize, usize),
    value_flags: &'static [&'static str],
    boolean_flags: &'static [&'static str],
    denied: &'static [&'static str],
    /// `-20` means `-n 20`.
    numeric: bool,
    /// One of these must be given.
    required: &'static [&'static str],
}

const HEAD_VALUES: &[&str] = &["-n", "-c", "--lines", "--bytes"];
const HEAD_BOOLEANS: &[&str] = &[
    "-q",
    "-v",
    "-z",
    "--quiet",
    "--silent",
    "--verbose",
    "--zero-terminated",
];

const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "cut",
        operands: (0, 0),
        value_flags: &[
            "-b",
            "-c",
            "-d",
            "-f",
            "--bytes",
            "--characters",
            "--delimiter",
            "--fields",
            "--output-delimiter",
        ],
        boolean_flags: &[
            "-n",
            "-s",
            "-z",
            "--complement",
            "--only-delimited",
            "--zero-terminated",
        ],
        denied: &[],
        numeric: false,
        required: &[],
    },
    BuiltIn {
        name: "uniq",
        operands: (0, 0),
        value_flags: &["-f", "-s", "-w", "--skip-fields", "--skip-chars", "--check-chars"],
        boolean_flags: &[
            "-c",
            "-d",
            "-i",
            "-u",
            "-z",
            "--count",
            "--repeated",
            "--ignore-case",
            "--unique",
            "--zero-terminated",
        ],
        denied: &[],
        numeric: false,
        required: &[],
    },
    BuiltIn {
        name: "head",
        operands: (0, 0),
        value_flags: HEAD_VALUES,
        boolean_flags: HEAD_BOOLEANS,
        denied: &[],
        numeric: true,
        required: &[],
    },
    BuiltIn {
        name: "tail",
        operands: (0, 0),
        value_flags: HEAD_VALUES,
        boolean_flags: HEAD_BOOLEANS,
        denied: &[
            "-f",
            "-F",
            "--follow",
            "--retry",
            "--pid",
            "--sleep-interval",
            "--max-unchanged-stats",
        ],
        numeric: true,
        required: &[],
    },
    BuiltIn {
        name: "tr",
        operands: (1, 2),
        value_flags: &[],
        boolean_flags: &[
            "-c",
            "-C",
            "-d",
            "-s",
            "-t",
            "--complement",
            "--delete",
            "--squeeze-repeats",
            "--truncate-set1",
        ],
        denied: &[],
        numeric: false,
        required: &[],
    },
    BuiltIn {
        name: "wc",
        operands: (0, 0),
        value_flags: &[],
        boolean_flags: &[
            "-c",
            "-l",
            "-L",
            "-m",
            "-w",
            "--bytes",
            "--chars",
            "--lines",
            "--max-line-length",
            "--words",
        ],
        denied: &["--files0-from"],
        numeric: false,
        required: &[],
    },
    BuiltIn {
        name: "grep",
        operands: (0, 0),
        value_flags: &[
            "-e",
            "-m",
            "-A",
            "-B",
            "-C",
            "--regexp",
            "--max-count",
            "--after-context",
            "--before-context",
            "--context",
            "--label",
        ],
        boolean_flags: &[
            "-i",
            "-v",
            "-w",
            "-x",
            "-c",
            "-o",
            "-n",
            "-h",
            "-H",
            "-q",
            "-s",
            "-E",
            "-F",
            "-G",
            "-P",
            "-a",
            "-z",
            "-b",
            "--ignore-case",
            "--invert-match",
            "--word-regexp",
            "--line-regexp",
            "--count",
            "--only-matching",
            "--line-number",
            "--no-filename",
            "--with-filename",
            "--quiet",
            "--silent",
            "--no-messages",
            "--extended-regexp",
            "--fixed-strings",
            "--basic-regexp",
            "--perl-regexp",
            "--text",
            "--null-data",
            "--byte-offset",
        ],
        denied: &[
            "-f",
            "-d",
            "-D",
            "-r",
            "-R",
            "--file",
            "--exclude-from",
            "--directories",
            "--devices",
            "--recursive",
            "--dereference-recursive",
        ],
        numeric: false,
        required: &["-e", "--regexp"],
    },
    BuiltIn {
        name: "sort",
        operands: (0, 0),
        value_flags: &[
            "-k",
            "-t",
            "-S",
            "--key",
            "--field-separator",
            "--buffer-size",
            "--parallel",
            "--batch-size",
        ],
        boolean_flags: &[
            "-b",
            "-d",
            "-f",
            "-g",
            "-h",
            "-i",
            "-M",
            "-n",
            "-r",
            "-V",
            "-u",
            "-s",
            "-z",
            "-c",
            "-C",
            "--ignore-leading-blanks",
            "--dictionary-order",
            "--ignore-case",
            "--general-numeric-sort",
            "--human-numeric-sort",
            "--ignore-nonprinting",
            "--month-sort",
            "--numeric-sort",
            "--reverse",
            "--version-sort",
            "--unique",
            "--stable",
            "--zero-terminated",
            "--check",
        ],
        denied: &[
            "-o",
            "-T",
            "--output",
            "--compress-program",
            "--files0-from",
            "--random-source",
            "--temporary-directory",
        ],
        numeric: false,
        required: &[],
    },
];

/// What one safe bin accepts: the built-in limits, narrowed or widened field by field by the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits<'a> {
    rules: RuleSet,
    operands: (usize, usize),
    value_flags: Vec<&'a str>,
    boolean_flags: Vec<&'a str>,
    denied: Vec<&'a str>,
    numeric: bool,
    required: &'static [&'static str],
}

impl<'a> Limits<'a> {
    /// The limits of a safe bin of that name, `None` when it has no profile or can never be one.
    pub fn of(name: &str, profiles: &'a BTreeMap<String, SafeBinProfile>) -> Option<Self> {
        Self::of_under(RuleSet::ALL, name, profiles)
    }

    pub(crate) fn of_under(
        rules: RuleSet,
        name: &str,
        profiles: &'a BTreeMap<String, SafeBinProfile>,
    ) -> Option<Self> {
        if !may_be_safe_under(rules, name) {
            return None;
        }
        let custom = profiles.get(name);
        let mut limits = match (BUILT_IN.iter().find(|built_in| built_in.name == name), custom) {
            (Some(built_in), _) => Self {
                rules,
                operands: built_in.operands,
                value_flags: built_in.value_flags.to_vec(),
                boolean_flags: built_in.boolean_flags.to_vec(),
                denied: built_in.denied.to_vec(),
                numeric: built_in.numeric,
                required: built_in.required,
            },
            (None, Some(_)) => Self {
                rules,
                operands: (0, 0),
                value_flags: Vec::new(),
                boolean_flags: Vec::new(),
                denied: Vec::new(),
                numeric: false,
                required: &[],
            },
            (None, None) => return None,
        };
        if let Some(custom) = custom {
            limits.apply(custom);
        }
        Some(limits)
    }

    fn apply(&mut self, custom: &'a SafeBinProfile) {
        let SafeBinProfile {
            min_positional,
            max_positional,
            allowed_value_flags,
            allowed_boolean_flags,
            denied_flags,
        } = custom;
        self.operands.0 = min_positional.unwrap_or(self.operands.0);
        self.operands.1 = max_positional.unwrap_or(self.operands.1);
        if let Some(flags) = allowed_value_flags {
            self.value_flags = flags.iter().map(String::as_str).collect();
        }
        if let Some(flags) = allowed_boolean_flags {
            self.boolean_flags = flags.iter().map(String::as_str).collect();
        }
        self.denied
            .extend(denied_flags.iter().flatten().map(String::as_str));
    }

    /// Whether arguments stay inside these limits.
    ///
    /// # Errors
    /// [`SafeBinMiss`] names the first that does not.
    pub fn check(&self, arguments: &[&str]) -> Result<(), SafeBinMiss> {
        let mut operands = 0_usize;
        let mut required = self.required.is_empty();
        let mut only_operands = false;
        let mut words = arguments.iter().enumerate();
        while let Some((at, word)) = words.next() {
            if *word == "-" {
                continue;
            }
            if only_operands || !word.starts_with('-') {
                operands += 1;
                continue;
            }
            if *word == "--" {
                only_operands = true;
                continue;
            }
            let flag = if word.starts_with("--") {
                self.long(word)
            } else {
                self.cluster(word)
            };
            let Some(flag) = flag else {
                return Err(SafeBinMiss::Flag(at));
            };
            required |= self.required.contains(&flag.name.as_str());
            let lacks_value = flag.wants_value && words.next().is_none();
            if self.rules.holds(Rule::Sb4, lacks_value) {
                return Err(SafeBinMiss::Flag(at));
            }
        }
        let outside = !required || operands < self.operands.0 || operands > self.operands.1;
        if self.rules.holds(Rule::Sb4, outside) {
            return Err(SafeBinMiss::Operands);
        }
        Ok(())
    }

    /// Reads `--name`, or `--name=value` of a flag with a value.
    fn long(&self, word: &str) -> Option<Flag> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let takes_value = self.takes_value(name)?;
        (takes_value || value.is_none()).then(|| Flag {
            name: name.to_owned(),
            wants_value: takes_value && value.is_none(),
        })
    }

    /// Reads `-abcVALUE`: boolean letters, then at most one letter with a value. The last letter is the flag's name.
    fn cluster(&self, word: &str) -> Option<Flag> {
        let letters = word.strip_prefix('-')?;
        if self.numeric && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Flag {
                name: word.to_owned(),
                wants_value: false,
            });
        }
        let mut name = String::new();
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            name = format!("-{letter}");
            if self.takes_value(&name)? {
                let wants_value = rest.as_str().is_empty();
                return Some(Flag { name, wants_value });
            }
        }
        Some(Flag {
            name,
            wants_value: false,
        })
    }

    /// Whether a flag takes a value; `None` when it fails, as every denied (SB2) or unknown (SB3) one does.
    fn takes_value(&self, name: &str) -> Option<bool> {
        let is_denied = self.denied.contains(&name);
        if self.rules.holds(Rule::Sb2, is_denied) {
            return None;
        }
        let is_one_of = |flags: &[&str]| {
            // Abbreviations are other flags.
            let mut alike = flags.iter().filter(|flag| flag.starts_with(name));
            alike.any(|flag| !self.rules.holds(Rule::Sb3, *flag != name))
        };
        if is_one_of(&self.value_flags) {
            Some(true)
        } else if is_one_of(&self.boolean_flags) || is_denied || !self.rules.on(Rule::Sb3) {
            Some(false)
        } else {
            None
        }
    }
}

struct Flag {
    name: String,
    wants_value: bool,
}

/// Whether a program of that name may be a safe bin at all (SB6).
pub(crate) fn may_be_safe(name: &str) -> bool {
    may_be_safe_under(RuleSet::ALL, name)
}

pub(crate) fn may_be_safe_under(rules: RuleSet, name: &str) -> bool {
    let runs_code = NameClass::of(name) != NameClass::Program
        || NEVER.contains(&name)
        || names::runs_scripts(name)
        || inline_eval::is_interpreter(&[name]);
    !rules.holds(Rule::Sb6, runs_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<(), SafeBinMiss> {
        let words: Vec<&str> = line.split(' ').collect();
        Limits::of(words[0], &BTreeMap::new()).unwrap().check(&words[1..])
    }

    #[test]
    fn profiles_accept_filters_and_nothing_else() {
        for line in [
            "head",
            "head -20",
            "head -n 5",
            "head -qn5",
            "tail -n +2",
            "tr a-z A-Z",
            "tr -d x",
            "cut -d, -f1",
            "cut -d / -f 2",
            "uniq --count",
            "wc -",
            "wc -lw",
            "grep -in -e x",
            "grep --regexp=x",
            "grep -ef",
            "sort -rn -t. -k2",
            "sort -",
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
        for line in [
            "head f",
            "head --lin=3",
            "head -x",
            "head -n",
            "tail -f",
            "tail -20f",
            "tail +5",
            "tr",
            "tr a b c",
            "cut -f1 f",
            "cut -- f",
            "uniq a b",
            "wc --files0-from=x",
            "wc -lX",
            "grep x",
            "grep -n",
            "grep -rex",
            "grep -e x f",
            "sort -o f",
            "sort -uof",
            "sort --co x",
            "sort --reverse=x",
            "sort -T /tmp",
        ] {
            assert!(check(line).is_err(), "{line}");
        }
    }

    #[test]
    fn configuration_cannot_make_everything_safe() {
        let mut profiles: BTreeMap<String, SafeBinProfile> = BTreeMap::new();
        for name in [
            "jq", "python3", "bash", "env", "sed", "busybox", "sudo", "tsx", "head", "column",
        ] {
            profiles.insert(name.to_owned(), SafeBinProfile::default());
        }
        for name in [
            "jq", "python3", "bash", "env", "sed", "busybox", "sudo", "tsx", "unknown",
        ] {
            assert_eq!(Limits::of(name, &profiles), None, "{name}");
        }
        let head = Limits::of("head", &profiles).unwrap();
        assert_eq!(head.check(&["-n", "5"]), Ok(()));
        assert_eq!(head.check(&["f"]), Err(SafeBinMiss::Operands));
        let column = Limits::of("column", &profiles).unwrap();
        assert_eq!(column.check(&[]), Ok(()));
        assert_eq!(column.check(&["-t"]), Err(SafeBinMiss::Flag(0)));
    }
}
