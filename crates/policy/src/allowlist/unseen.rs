//! What a segment hands to others: words that they run as programs, and text that they give to a shell. Deny rules and
//! strict inline eval look into it, and what neither can see needs a person
//! (`docs/spec/exec-tool.md#3-whether-it-runs`).

use std::ops::Range;

use super::{
    DenyHit,
    denial::{MAX_SCANNED_WORDS, Scan, is_shell_text, texts_of},
    evaluation::Evaluation,
    unwrapping::is_guide,
    work::{SegmentContext, Work},
};
use crate::command::{
    Code, Rule,
    delegation::{self, Handed},
    env_policy,
    names::{NameClass, without_version},
    parser, paths, shell,
    syntax::Word,
};

/// Options of programs that run others whose value may be glued to them (`env -Srm`, `su -crm`).
const CARRIER_LETTERS: &str = "Sce";

/// Texts of one command that are read; more count as not understood.
const MAX_TEXTS: usize = 64;

/// Texts inside texts deeper than this are not followed (G10).
const MAX_DEPTH: u8 = 3;

/// Programs that run what they read from standard input, no matter what their words are.
const FED: &[&str] = &["at", "batch", "expect", "gdb", "lldb", "parallel", "sem"];

/// Programs that start a shell, which reads standard input, where their words name nothing to run.
const SHELL_STARTERS: &[&str] = &[
    "aa-exec",
    "capsh",
    "chroot",
    "doas",
    "fakechroot",
    "fakeroot",
    "firejail",
    "i386",
    "linux32",
    "linux64",
    "newgrp",
    "nsenter",
    "pkexec",
    "proot",
    "run0",
    "runuser",
    "screen",
    "script",
    "setarch",
    "sg",
    "su",
    "sudo",
    "systemd-nspawn",
    "systemd-run",
    "tmux",
    "torsocks",
    "unshare",
    "x86_64",
    "xterm",
];

/// Options of `xargs` that take the next word where nothing is glued to them.
const XARGS_LETTERS: &str = "aEILnPsdJRS";
const XARGS_LONG: &[&str] = &[
    "--arg-file",
    "--delimiter",
    "--max-args",
    "--max-chars",
    "--max-procs",
    "--process-slot-var",
];

/// What was found in a text.
#[derive(Default)]
struct ScanResult {
    denied: Option<DenyHit>,
    is_opaque: bool,
    inline_eval: bool,
}

impl Evaluation<'_> {
    /// Looks into a segment that runs what its words say, no matter what they are.
    pub(super) fn scan(&mut self, work: &mut Work<'_>) {
        let handed = Handed::all(work.argument_words().len());
        self.look_through(work, &handed, CARRIER_LETTERS, is_fed(&work.names()));
        let words: Vec<&str> = work.values.iter().skip(work.at).map(String::as_str).collect();
        self.opaque = self.opaque
            || changes_place(&work.arguments())
            || reads_commands(&words, |word| self.runs(word, work.context))
            || splits_text(&words);
    }

    /// Looks into the arguments that make an ordinary program start another.
    pub(super) fn scan_delegation(&mut self, work: &mut Work<'_>) {
        let letters = delegation::handing_letters(&work.names());
        let handed = delegation::handed(&work.names(), &work.arguments());
        let is_clear = self.look_through(work, &handed, &letters, false);
        let arguments = work.arguments();
        let behind = arguments.get(handed.programs.start..).unwrap_or_default();
        self.opaque = self.opaque
            || (!is_clear && names_a_runner(&arguments))
            || runs_what_is_found(&arguments)
            || reads_commands(behind, |word| self.runs(word, work.context));
    }

    /// Looks at every word as if it were a program, and into words that are text for a shell; what is not understood
    /// counts where something is handed on. `letters` are options that a program may be glued to, and `is_fed` is whether
    /// more arguments come from elsewhere. Whether all of it was understood.
    fn look_through(&mut self, work: &mut Work<'_>, handed: &Handed, letters: &str, is_fed: bool) -> bool {
        let denial = self.denial();
        if !denial.has_rules() && !self.policy.strict_inline_eval {
            return true;
        }
        let words = work.argument_words();
        let start = handed.programs.start;
        let end = words.len().min(handed.programs.end);
        let mut seen = ScanResult {
            is_opaque: end.saturating_sub(start) > MAX_SCANNED_WORDS,
            ..ScanResult::default()
        };
        let mut is_clear = !seen.is_opaque;
        let beginning = 0..words.len().min(MAX_SCANNED_WORDS);
        let behind = start.max(beginning.end)..end.min(start.saturating_add(MAX_SCANNED_WORDS));
        for at in beginning.chain(behind) {
            let (Some(word), Some(rest)) = (words.get(at), words.get(at + 1..)) else {
                break;
            };
            match denial.candidate(word, rest, work.context.directory, letters, is_fed) {
                Scan::Hit(hit) => seen.denied = Some(hit),
                Scan::Opaque => {
                    is_clear = false;
                    seen.is_opaque |= handed.programs.contains(&at);
                }
                Scan::Clear => {}
            }
            for text in texts_of(&word.value, letters).filter(|text| is_shell_text(text)) {
                let inside = self.look_into(text, word, work.context, is_fed);
                is_clear &= !inside.is_opaque;
                seen.is_opaque |= inside.is_opaque && handed.texts.contains(&at);
                seen.inline_eval |= inside.inline_eval;
                seen.denied = seen.denied.or(inside.denied);
            }
            if seen.denied.is_some() {
                break;
            }
        }
        self.opaque |= seen.is_opaque;
        if let Some(hit) = seen.denied {
            work.deny(hit);
        }
        if self.rules.holds(Rule::I1, seen.inline_eval) {
            work.fail(Code::InlineEval, "I1", "code in text that is handed to a shell");
            work.inline_eval = true;
            self.inline_eval = true;
        }
        is_clear
    }

    /// Evaluates a text for a shell as if it were a command, for what is in it alone: it covers nothing.
    fn look_into(
        &mut self,
        text: &str,
        word: &Word,
        context: SegmentContext<'_>,
        is_fed: bool,
    ) -> ScanResult {
        self.texts += 1;
        let opaque = ScanResult {
            is_opaque: true,
            ..ScanResult::default()
        };
        if self.texts > MAX_TEXTS || context.depth >= MAX_DEPTH {
            return opaque;
        }
        // Only of the whole word the places are known.
        let is_whole = text == word.value;
        let list = if is_whole {
            parser::parse_mapped(text, &word.map)
        } else {
            parser::parse(text)
        };
        let Ok(list) = list else { return opaque };
        let mut seen = self.aside(|inner| {
            inner.evaluate_list(
                &list,
                SegmentContext {
                    operator: None,
                    alone: true,
                    depth: context.depth + 1,
                    ..context
                },
            );
            ScanResult {
                denied: inner.denylisted.take(),
                is_opaque: inner.opaque || !inner.parsed,
                inline_eval: inner.inline_eval,
            }
        });
        match self.denial().scan_list(&list, context.directory, is_fed) {
            Scan::Hit(hit) => seen.denied = Some(hit),
            Scan::Opaque => seen.is_opaque = true,
            Scan::Clear => {}
        }
        let in_source = |hit| {
            if is_whole {
                hit
            } else {
                DenyHit {
                    span: word.span,
                    ..hit
                }
            }
        };
        ScanResult {
            denied: seen.denied.map(in_source),
            ..seen
        }
    }

    /// Whether a word is a program or text that holds one.
    fn runs(&self, word: &str, context: SegmentContext<'_>) -> bool {
        is_shell_text(word)
            || (!word.starts_with('-')
                && if word.contains('/') {
                    let mut bases = context.directory.candidates().into_iter().flatten();
                    bases.any(|base| self.lookup.inspect(&paths::join_normalised(base, word)).is_some())
                } else {
                    self.lookup.search(word).is_some()
                })
    }
}

/// Whether a program among the words takes commands from standard input. `runs` says whether a word is something to run.
///
/// Each word is looked up once at most, and words are read as often as there are shells among them, of which too many
/// count as one that does.
fn reads_commands(words: &[&str], runs: impl Fn(&str) -> bool) -> bool {
    let is_end = |word: &&str| matches!(*word, ";" | "+");
    let mut end = 0;
    let mut runners = 0;
    let mut next_program = NextProgram::default();
    words.iter().enumerate().any(|(at, word)| {
        if at >= end {
            let behind = words.get(at + 1..).unwrap_or_default();
            end = at + 1 + behind.iter().position(is_end).unwrap_or(behind.len());
        }
        let name = paths::base_name(word);
        let class = NameClass::of(name);
        if matches!(
            class,
            NameClass::PayloadShell | NameClass::OtherShell | NameClass::Carrier
        ) {
            runners += 1;
        }
        let behind = words.get(at + 1..end).unwrap_or_default();
        match class {
            _ if runners > MAX_SCANNED_WORDS => true,
            NameClass::PayloadShell => shell::reads_input(behind, true),
            NameClass::OtherShell => shell::reads_input(behind, false),
            NameClass::Carrier if is_named(name, "xargs") => is_fed_by_xargs(behind),
            NameClass::Carrier => {
                is_one_of(name, FED)
                    || (is_one_of(name, SHELL_STARTERS) && !next_program.is_within(at + 1..end, words, &runs))
            }
            NameClass::Program | NameClass::Wrapper | NameClass::RefusedBuiltin | NameClass::Multiplexer => {
                false
            }
        }
    })
}

/// The first word from some place on that is something to run, looked for from left to right once.
#[derive(Default)]
struct NextProgram {
    /// Every word before was looked at.
    seen: usize,
    /// The last one that was found.
    found: Option<usize>,
}

impl NextProgram {
    /// Whether one of these words is. The ranges that are asked for begin ever later.
    fn is_within(&mut self, wanted: Range<usize>, words: &[&str], runs: impl Fn(&str) -> bool) -> bool {
        if self.found.is_some_and(|found| wanted.contains(&found)) {
            return true;
        }
        let from = self.seen.max(wanted.start);
        let ahead = words.get(from..wanted.end).unwrap_or_default();
        let found = ahead.iter().position(|word| runs(word)).map(|at| from + at);
        self.seen = found.map_or_else(|| wanted.end.max(from), |found| found + 1);
        self.found = found;
        found.is_some()
    }
}

/// Whether what `xargs` reads may become more than an argument of the program that it starts.
fn is_fed_by_xargs(arguments: &[&str]) -> bool {
    let mut words = arguments.iter();
    let mut replaced = None;
    let program = loop {
        let Some(word) = words.next() else { return false };
        if *word == "--" {
            match words.next() {
                Some(program) => break program,
                None => return false,
            }
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            if "replace".starts_with(name) {
                replaced = Some(value.unwrap_or("{}"));
            } else if value.is_none() && XARGS_LONG.contains(word) {
                words.next();
            }
            continue;
        }
        let Some(letters) = word.strip_prefix('-') else {
            break word;
        };
        for (at, letter) in letters.char_indices() {
            let glued = letters
                .get(at + letter.len_utf8()..)
                .filter(|rest| !rest.is_empty());
            let value = match letter {
                'i' => Some(glued.unwrap_or("{}")),
                'l' | 'e' => glued,
                letter if XARGS_LETTERS.contains(letter) => glued.or_else(|| words.next().copied()),
                _ => continue,
            };
            if matches!(letter, 'i' | 'I' | 'J') {
                replaced = value;
            }
            break;
        }
    };
    let rest = words.as_slice();
    replaced.is_some_and(|mark| program.contains(mark))
        || is_runner(program)
        || names_a_runner(rest)
        || delegation::delegates(&[paths::base_name(program)], rest)
        || (rest.is_empty() && delegation::may_delegate(paths::base_name(program)))
}

/// Whether a program is one that runs what its own arguments say.
fn is_runner(word: &str) -> bool {
    !matches!(
        NameClass::of(paths::base_name(word)),
        NameClass::Program | NameClass::RefusedBuiltin
    )
}

fn names_a_runner(words: &[&str]) -> bool {
    words.iter().any(|word| is_runner(word))
}

/// `find -exec {}`, and `find -execdir ./x`, which is in another directory each time.
fn runs_what_is_found(words: &[&str]) -> bool {
    words.windows(2).any(|pair| match pair {
        ["-exec" | "-ok", program] => program.contains("{}"),
        ["-execdir" | "-okdir", program] => {
            program.contains("{}") || (program.contains('/') && !program.starts_with('/'))
        }
        _ => false,
    })
}

/// Whether words behind a program that runs others change where programs are found, or from where, or name something
/// else to be run.
fn changes_place(words: &[&str]) -> bool {
    words.iter().any(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        is_guide(name)
            || (word.contains('=') && (env_policy::is_blocked(name, value) || may_be_variable(name, value)))
            || ["--chdir", "--working-directory", "--cwd", "--wd"].contains(&name)
            || (word.starts_with('-') && !word.starts_with("--") && word.contains(['C', 'D']))
    })
}

/// Whether a setting behind a program that runs others may be a variable for it that is not known to be harmless.
fn may_be_variable(name: &str, value: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first == b'_' || first.is_ascii_uppercase())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && !env_policy::is_harmless(name, value)
}

/// Whether `env` may split a text by rules of its own, in which a backslash may stand for a blank.
fn splits_text(words: &[&str]) -> bool {
    let env = words
        .iter()
        .position(|word| is_named(paths::base_name(word), "env"));
    let behind = env.and_then(|at| words.get(at + 1..)).unwrap_or_default();
    let splits = |word: &&str| {
        word.starts_with("--s") || (word.starts_with('-') && !word.starts_with("--") && word.contains('S'))
    };
    behind.iter().any(splits)
        && behind
            .iter()
            .any(|word| word.contains(['\\', '$', '#', '\'', '"']))
}

/// Whether a program of these names makes words of what it reads.
pub(super) fn is_fed(names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| is_named(name, "xargs") || is_one_of(name, FED))
}

fn is_named(name: &str, plain: &str) -> bool {
    name == plain || name.strip_prefix('g') == Some(plain) || without_version(name) == plain
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|plain| is_named(name, plain))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// The same said plainly, with time by the square of the words.
    fn reads_commands_plainly(words: &[&str], runs: impl Fn(&str) -> bool) -> bool {
        words.iter().enumerate().any(|(at, word)| {
            let name = paths::base_name(word);
            let behind = &words[at + 1..];
            let end = behind.iter().position(|word| matches!(*word, ";" | "+"));
            let behind = &behind[..end.unwrap_or(behind.len())];
            match NameClass::of(name) {
                NameClass::PayloadShell => shell::reads_input(behind, true),
                NameClass::OtherShell => shell::reads_input(behind, false),
                NameClass::Carrier if is_named(name, "xargs") => is_fed_by_xargs(behind),
                NameClass::Carrier => {
                    is_one_of(name, FED)
                        || (is_one_of(name, SHELL_STARTERS) && !behind.iter().any(|word| runs(word)))
                }
                NameClass::Program
                | NameClass::Wrapper
                | NameClass::RefusedBuiltin
                | NameClass::Multiplexer => false,
            }
        })
    }

    proptest! {
        #[test]
        fn reading_each_word_once_finds_the_same(
            words in proptest::collection::vec(
                prop::sample::select(vec!["sudo", "screen", "sh", "zsh", "xargs", "-I", "{}", "-c", "x", "rm", ";", "+", "at"]),
                0..40,
            ),
        ) {
            let runs = |word: &str| matches!(word, "rm" | "sudo");
            prop_assert_eq!(reads_commands(&words, runs), reads_commands_plainly(&words, runs));
        }
    }

    #[test]
    fn no_word_is_looked_up_twice() {
        let looked_up = Cell::new(0);
        let runs = |word: &str| {
            looked_up.set(looked_up.get() + 1);
            word == "rm"
        };
        let mut words = vec!["screen"; MAX_SCANNED_WORDS];
        words.extend(vec!["x"; 4_000]);
        words.push("rm");
        assert!(!reads_commands(&words, runs));
        assert!(looked_up.get() <= words.len(), "{}", looked_up.get());
        // Of too many it is not asked.
        words.insert(0, "screen");
        assert!(reads_commands(&words, runs));
    }
}
