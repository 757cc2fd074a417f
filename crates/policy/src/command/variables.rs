//! Variables whose value is known without asking a shell (G18): those to which the same text gave a literal value before.
//!
//! What a shell would do with a name is not tried here: a name that means something to a shell is not known, and neither is one
//! that the environment of the command has already, since a shell would tell its programs of the new value.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    env_policy,
    syntax::{Grammar, Join},
};

/// Bytes of all values that the words of one text get, of the words that braces make, and of the turns of loops.
const MAX_EXPANDED_BYTES: usize = 64 * 1024;

/// What is known of the surroundings of a text before it is read.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// `HOME`: the home directory of the account, where it is one that may be put into words.
    pub(crate) home: Option<&'a str>,
    /// `PWD`: the directory where the text begins, where that is certain.
    pub(crate) directory: Option<&'a str>,
    /// Whether the environment of the command has a variable.
    pub(crate) is_set: &'a dyn Fn(&str) -> bool,
}

impl Surroundings<'_> {
    /// Nothing is known.
    pub(crate) const NONE: Self = Surroundings {
        home: None,
        directory: None,
        is_set: &|_| true,
    };

    /// Those of a text of our own, in which only variables are given a value that may be given one.
    pub(crate) const OWN: Self = Surroundings {
        home: None,
        directory: None,
        is_set: &|_| false,
    };
}

/// A value, and how long it is certain.
#[derive(Debug, Clone)]
struct Known {
    /// `None` for one that the command gives when it runs (G22, G23).
    value: Option<String>,
    /// Only behind `&&`, up to the next `;` or `||`.
    in_chain: bool,
    /// Whether it was given before the list that is read.
    is_from_before: bool,
}

/// The variables at one place of a text.
#[derive(Clone)]
pub(crate) struct Variables<'a> {
    surroundings: Surroundings<'a>,
    known: BTreeMap<String, Known>,
    /// Those that this part of the text may have given a value, or taken one from.
    changed: BTreeSet<String>,
    /// Those whose value from before this part of the text stands in it.
    taken: BTreeSet<String>,
    /// The operator before the pipeline, and whether one before it since the last `;` was `||`.
    before: Option<Join>,
    is_behind_or: bool,
    left: usize,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(grammar: Grammar, surroundings: Surroundings<'a>) -> Self {
        let given = [("HOME", surroundings.home), ("PWD", surroundings.directory)];
        let known = given
            .into_iter()
            .filter(|_| grammar.variables)
            .filter_map(|(name, value)| {
                let value = value.filter(|value| value.starts_with('/'))?.to_owned();
                let known = Known {
                    value: Some(value),
                    in_chain: false,
                    is_from_before: false,
                };
                Some((name.to_owned(), known))
            });
        Self {
            surroundings,
            known: known.collect(),
            changed: BTreeSet::new(),
            taken: BTreeSet::new(),
            before: None,
            is_behind_or: false,
            left: MAX_EXPANDED_BYTES,
        }
    }

    /// Those of a command substitution or a compound command that begins here: what is known here is known in all of it.
    pub(crate) fn inside(&self) -> Self {
        let mut inside = self.clone();
        for known in inside.known.values_mut() {
            known.in_chain = false;
            known.is_from_before = true;
        }
        inside.changed = BTreeSet::new();
        inside.taken = BTreeSet::new();
        inside.before = None;
        inside.is_behind_or = false;
        inside
    }

    /// Forgets what a compound command may have given to variables, or one of several lists in it.
    pub(crate) fn forget_changes_of(&mut self, inside: &Self) {
        for name in &inside.changed {
            self.known.remove(name);
        }
        self.changed.extend(inside.changed.iter().cloned());
    }

    /// Notes how many bytes the words of a list inside of this one got, and whose values stand in it.
    pub(crate) fn spend_as(&mut self, inside: &Self) {
        self.left = inside.left;
        for name in &inside.taken {
            self.note_taken(name);
        }
    }

    fn note_taken(&mut self, name: &str) {
        if self.known.get(name).is_none_or(|known| known.is_from_before) {
            self.taken.insert(name.to_owned());
        }
    }

    /// Whether the list gives a value to a variable whose value from before it stands in it: then it is another one the next time.
    pub(crate) fn changes_what_it_takes(&self) -> bool {
        !self.changed.is_disjoint(&self.taken)
    }

    /// Takes the value of a variable for a word, where it is known and the words have not become too long.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let value = self.known.get(name)?.value.clone()?;
        self.note_taken(name);
        self.spend(value.len()).then_some(value)
    }

    /// Whether a variable certainly has a value when the command runs, which is not known before.
    pub(crate) fn take_later(&mut self, name: &str) -> bool {
        let is_later = self.known.get(name).is_some_and(|known| known.value.is_none());
        if is_later {
            self.note_taken(name);
        }
        is_later
    }

    /// Takes that many bytes for words. `false` where they become too long.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// The home directory, which stands for a tilde in a value.
    pub(crate) fn home(&self) -> Option<&str> {
        self.known.get("HOME")?.value.as_deref()
    }

    /// Whether a text may give a variable of that name a value.
    pub(crate) fn may_set(&self, name: &str) -> bool {
        !is_of_shells(name) && !env_policy::is_blocked(name, "x") && !(self.surroundings.is_set)(name)
    }

    /// Gives a variable a value; before that, [`Self::may_set`] was asked.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.give(name, Some(value.to_owned()));
    }

    /// Gives a variable a value that is known only when the command runs; before that, [`Self::may_set`] was asked.
    pub(crate) fn set_later(&mut self, name: &str) {
        self.give(name, None);
    }

    fn give(&mut self, name: &str, value: Option<String>) {
        self.changed.insert(name.to_owned());
        let in_chain = match self.before {
            None | Some(Join::Sequence) => false,
            Some(Join::And) if !self.is_behind_or => true,
            // It may have happened or not.
            Some(Join::And | Join::Or) => {
                self.known.remove(name);
                return;
            }
        };
        let known = Known {
            value,
            in_chain,
            is_from_before: false,
        };
        self.known.insert(name.to_owned(), known);
    }

    /// Passes an operator between two pipelines.
    pub(crate) fn join(&mut self, join: Join) {
        self.before = Some(join);
        self.is_behind_or = match join {
            Join::And => self.is_behind_or,
            Join::Or => true,
            Join::Sequence => false,
        };
        if join != Join::And {
            self.known.retain(|_, known| !known.in_chain);
        }
    }

    /// Passes a command that may change the directory.
    pub(crate) fn leave_directory(&mut self) {
        self.known.remove("PWD");
        self.changed.insert("PWD".to_owned());
    }
}

/// Whether a value is one word outside of quotes, too. A shell takes apart what has blanks, and looks for files that patterns mean.
pub(crate) fn is_one_word(value: &str) -> bool {
    !value.is_empty() && !value.contains([' ', '\t', '\n', '*', '?', '[', '\\'])
}

/// Whether a name means something to bash, dash or zsh, or begins as such names do.
fn is_of_shells(name: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "BASH",
        "COMP_",
        "HIST",
        "LC_",
        "PROMPT",
        "READLINE_",
        "TRAP",
        "ZLE_",
        "ZSH",
        "dis_",
        "zsh_",
    ];
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) || OF_SHELLS.contains(&name)
}

/// Names that shells set, read or tie to something.
const OF_SHELLS: &[&str] = &[
    "ARGC",
    "ARGV0",
    "ATTY",
    "BAUD",
    "CDPATH",
    "CHILD_MAX",
    "COLUMNS",
    "COMPREPLY",
    "COPROC",
    "CORRECT_IGNORE",
    "CORRECT_IGNORE_FILE",
    "CPUTYPE",
    "DIRSTACK",
    "DIRSTACKSIZE",
    "EGID",
    "EMACS",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "ERRNO",
    "EUID",
    "EXECIGNORE",
    "FCEDIT",
    "FIGNORE",
    "FPATH",
    "FUNCNAME",
    "FUNCNEST",
    "GID",
    "GLOBIGNORE",
    "GROUPS",
    "HOME",
    "HOST",
    "HOSTFILE",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "INPUTRC",
    "INSIDE_EMACS",
    "KEYBOARD_HACK",
    "KEYTIMEOUT",
    "LANG",
    "LANGUAGE",
    "LINENO",
    "LINES",
    "LISTMAX",
    "LOGCHECK",
    "LOGNAME",
    "MACHTYPE",
    "MAIL",
    "MAILCHECK",
    "MAILPATH",
    "MANPATH",
    "MAPFILE",
    "MATCH",
    "MBEGIN",
    "MEND",
    "MODULE_PATH",
    "NULLCMD",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PATH",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "POSTEDIT",
    "PPID",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PSVAR",
    "PWD",
    "RANDOM",
    "READNULLCMD",
    "REPLY",
    "REPORTMEMORY",
    "REPORTTIME",
    "RPROMPT",
    "RPROMPT2",
    "RPS1",
    "RPS2",
    "SAVEHIST",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SPROMPT",
    "SRANDOM",
    "STTY",
    "TERM",
    "TERMCAP",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TIMEFMT",
    "TIMEFORMAT",
    "TMOUT",
    "TMPDIR",
    "TMPPREFIX",
    "TMPSUFFIX",
    "TRY_BLOCK_ERROR",
    "TRY_BLOCK_INTERRUPT",
    "TTY",
    "TTYIDLE",
    "TZ",
    "UID",
    "USER",
    "USERNAME",
    "VENDOR",
    "WATCH",
    "WATCHFMT",
    "WORDCHARS",
    "ZBEEP",
    "ZDOTDIR",
    "ZLS_COLORS",
    "_",
    "aliases",
    "argv",
    "auto_resume",
    "bold_color",
    "builtins",
    "cdpath",
    "colors",
    "commands",
    "dirstack",
    "epochtime",
    "errnos",
    "fignore",
    "fg",
    "bg",
    "fpath",
    "funcfiletrace",
    "funcsourcetrace",
    "funcstack",
    "functions",
    "functions_source",
    "functrace",
    "galiases",
    "histchars",
    "history",
    "historywords",
    "jobdirs",
    "jobstates",
    "jobtexts",
    "keymaps",
    "langinfo",
    "mailpath",
    "manpath",
    "mapfile",
    "match",
    "mbegin",
    "mend",
    "module_path",
    "modules",
    "nameddirs",
    "options",
    "parameters",
    "patchars",
    "path",
    "pipestatus",
    "prompt",
    "psvar",
    "reply",
    "reswords",
    "saliases",
    "signals",
    "status",
    "sysparams",
    "termcap",
    "terminfo",
    "userdirs",
    "usergroups",
    "watch",
    "watchfmt",
    "widgets",
    "wordchars",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables<'static> {
        let surroundings = Surroundings {
            home: Some("/home/a"),
            directory: Some("/srv"),
            is_set: &|name| name == "SET",
        };
        Variables::new(Grammar::WIDEST, surroundings)
    }

    #[test]
    fn a_value_is_known_where_it_was_certainly_given() {
        let mut variables = variables();
        variables.set("A", "1");
        variables.join(Join::And);
        variables.set("B", "2");
        assert_eq!(variables.take("B").as_deref(), Some("2"));
        variables.join(Join::And);
        assert_eq!(variables.take("B").as_deref(), Some("2"));
        variables.join(Join::Sequence);
        assert_eq!(variables.take("A").as_deref(), Some("1"));
        assert_eq!(variables.take("B"), None);
        variables.join(Join::Or);
        variables.set("A", "3");
        assert_eq!(variables.take("A"), None);
        variables.join(Join::And);
        variables.set("C", "4");
        assert_eq!(variables.take("C"), None);
        assert_eq!(variables.take("HOME").as_deref(), Some("/home/a"));
        variables.leave_directory();
        assert_eq!(variables.take("PWD"), None);
    }

    #[test]
    fn what_a_shell_would_take_apart_is_no_word() {
        for value in ["a b", "", "*", "a\\", "a\nb", "[a]", "?", "\t"] {
            assert!(!is_one_word(value), "{value:?}");
        }
        for value in ["a", "-x", "~/a", "{a,b}", "$a", "'"] {
            assert!(is_one_word(value), "{value:?}");
        }
    }

    #[test]
    fn names_that_mean_something_are_not_given_values() {
        let variables = variables();
        for name in [
            "PATH",
            "IFS",
            "SET",
            "BASH_ENV",
            "path",
            "LD_PRELOAD",
            "RANDOM",
            "LC_ALL",
            "GIT_DIR",
            "HOME",
            "_",
        ] {
            assert!(!variables.may_set(name), "{name}");
        }
        for name in ["A", "file", "OUT_DIR", "x1", "f", "_x"] {
            assert!(variables.may_set(name), "{name}");
        }
    }

    #[test]
    fn values_that_double_come_to_an_end() {
        let mut variables = variables();
        variables.set("A", "0123456789abcdef");
        let mut doublings = 0;
        while let (Some(one), Some(other)) = (variables.take("A"), variables.take("A")) {
            variables.set("A", &(one + &other));
            doublings += 1;
        }
        assert!(doublings < 16);
    }
}
