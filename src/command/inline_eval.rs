//! Code in arguments or on standard input of an interpreter (I1, I2), as data.

use super::names::without_version;

/// Why an interpreter's arguments are code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InlineEval {
    /// An argument is code, or loads code; its index.
    Argument(usize),
    /// Code comes from standard input.
    StandardInput,
}

struct Interpreter {
    names: &'static [&'static str],
    /// Letters of short options that are code, in clusters too.
    short: &'static str,
    /// Letters of short options that take a value which is not code.
    values: &'static str,
    /// Long options that are code.
    long: &'static [&'static str],
    /// Words with one dash that are code.
    words: &'static [&'static str],
    /// Subcommands that are code.
    subcommands: &'static [&'static str],
    /// What it reads when no operand is given.
    operand: Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// The script; without it, standard input.
    Script,
    /// The program text, unless an option of these letters names a file.
    Program(&'static str),
    /// Nothing that is code.
    Other,
}

const NONE: Interpreter = Interpreter {
    names: &[],
    short: "",
    values: "",
    long: &[],
    words: &[],
    subcommands: &[],
    operand: Operand::Script,
};

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "pypy"],
        short: "c",
        values: "WX",
        ..NONE
    },
    Interpreter {
        names: &["node", "nodejs"],
        short: "epr",
        long: &[
            "eval",
            "print",
            "require",
            "import",
            "loader",
            "experimental-loader",
        ],
        values: "C",
        ..NONE
    },
    Interpreter {
        names: &["deno"],
        short: "e",
        long: &["eval"],
        subcommands: &["eval", "repl"],
        ..NONE
    },
    Interpreter {
        names: &["bun"],
        short: "ep",
        long: &["eval", "print"],
        ..NONE
    },
    Interpreter {
        names: &["ruby", "jruby", "irb"],
        short: "erI",
        values: "CEFK",
        ..NONE
    },
    Interpreter {
        names: &["perl"],
        short: "eEMmI",
        ..NONE
    },
    Interpreter {
        names: &["php"],
        short: "rBRE",
        values: "cdz",
        ..NONE
    },
    Interpreter {
        names: &["lua", "luajit", "groovy", "raku"],
        short: "e",
        ..NONE
    },
    Interpreter {
        names: &[
            "R", "Rscript", "julia", "elixir", "iex", "clojure", "guile", "ghc", "scala", "erl", "runghc",
        ],
        short: "eEcs",
        long: &["eval", "print", "expr"],
        words: &["-eval", "-run", "-s"],
        ..NONE
    },
    Interpreter {
        names: &["osascript"],
        short: "e",
        values: "ls",
        ..NONE
    },
    Interpreter {
        names: &[
            "awk",
            "gawk",
            "mawk",
            "nawk",
            "original-awk",
            "busybox-awk",
            "goawk",
        ],
        short: "e",
        long: &["source"],
        operand: Operand::Program("f"),
        ..NONE
    },
    Interpreter {
        names: &["sed", "gsed"],
        short: "e",
        long: &["expression"],
        operand: Operand::Program("f"),
        ..NONE
    },
    Interpreter {
        names: &["make", "gmake"],
        short: "fE",
        long: &["file", "makefile", "eval"],
        operand: Operand::Other,
        ..NONE
    },
];

/// Whether a program with any of these names reads code, so that an entry for it trusts any code.
pub fn is_interpreter(names: &[&str]) -> bool {
    of(names).is_some()
}

/// How a program with these names would take code from its arguments or from standard input.
pub fn inline_eval(names: &[&str], arguments: &[&str]) -> Option<InlineEval> {
    of(names)?.inline_eval(arguments)
}

fn of(names: &[&str]) -> Option<&'static Interpreter> {
    INTERPRETERS
        .iter()
        .find(|interpreter| names.iter().any(|name| interpreter.is_named(name)))
}

impl Interpreter {
    /// Versions and flavours behind a name do not hide it: `python3.12-dbg` is python.
    fn is_named(&self, name: &str) -> bool {
        let letters = name.len()
            - name
                .trim_start_matches(|character: char| character.is_ascii_alphabetic())
                .len();
        let stem = name.get(..letters).unwrap_or(name);
        [name, without_version(name), stem]
            .iter()
            .any(|candidate| self.names.contains(candidate))
    }

    fn inline_eval(&self, arguments: &[&str]) -> Option<InlineEval> {
        let mut words = arguments.iter().enumerate();
        let mut program_file = false;
        while let Some((at, word)) = words.next() {
            if matches!(*word, "--version" | "--help") && arguments.len() == 1 {
                return None;
            }
            if *word == "--" {
                return self.operand(words.next().map(|(at, word)| (at, *word)), program_file);
            }
            if *word == "-" || !word.starts_with('-') {
                if self.operand == Operand::Other {
                    // make: targets and options mix in any order.
                    continue;
                }
                if self.operand == Operand::Script && !self.subcommands.is_empty() {
                    return self.subcommand(at, word).or_else(|| read_from_input(arguments));
                }
                return self
                    .operand(Some((at, word)), program_file)
                    .or_else(|| self.later(arguments, at));
            }
            if self.is_code(word) {
                return Some(InlineEval::Argument(at));
            }
            program_file |= self.names_program_file(word);
            if self.takes_next(word) {
                words.next();
            }
            // python -m MODULE runs a file; the module is the operand.
            if self.names.contains(&"python") && is_short(word) && word.contains('m') {
                return None;
            }
        }
        self.operand(None, program_file)
    }

    /// Programs whose options may follow the operand are searched to the end.
    fn later(&self, arguments: &[&str], from: usize) -> Option<InlineEval> {
        let Operand::Program(_) = self.operand else {
            return None;
        };
        let rest = arguments.get(from + 1..)?;
        rest.iter()
            .position(|word| self.is_code(word))
            .map(|at| InlineEval::Argument(from + 1 + at))
    }

    fn subcommand(&self, at: usize, word: &str) -> Option<InlineEval> {
        (word == "-" || self.subcommands.contains(&word)).then_some(InlineEval::Argument(at))
    }

    fn operand(&self, operand: Option<(usize, &str)>, program_file: bool) -> Option<InlineEval> {
        match (self.operand, operand) {
            (Operand::Script, None | Some((_, "-"))) => Some(InlineEval::StandardInput),
            (Operand::Program(_), Some((at, _))) if !program_file => Some(InlineEval::Argument(at)),
            (Operand::Program(_), None) if !program_file => Some(InlineEval::StandardInput),
            (Operand::Script | Operand::Program(_) | Operand::Other, _) => None,
        }
    }

    fn is_code(&self, word: &str) -> bool {
        if self.words.contains(&word) {
            return true;
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            return !name.is_empty() && self.long.iter().any(|code| code.starts_with(name));
        }
        for letter in word.chars().skip(1) {
            if self.short.contains(letter) {
                return true;
            }
            if self.values.contains(letter) {
                return false;
            }
        }
        false
    }

    fn names_program_file(&self, word: &str) -> bool {
        let Operand::Program(letters) = self.operand else {
            return false;
        };
        (is_short(word) && word.chars().skip(1).any(|letter| letters.contains(letter)))
            || word
                .strip_prefix("--")
                .is_some_and(|long| long == "file" || long.starts_with("file="))
    }

    /// Whether an option's value is the next word, so that it is not taken for the script.
    fn takes_next(&self, word: &str) -> bool {
        let file_letter = matches!(self.operand, Operand::Program(letters) if word.ends_with(letters));
        is_short(word)
            && (file_letter
                || word
                    .chars()
                    .next_back()
                    .is_some_and(|last| self.values.contains(last)))
    }
}

/// Whether a lone dash among the arguments makes standard input the script.
fn read_from_input(arguments: &[&str]) -> Option<InlineEval> {
    arguments.contains(&"-").then_some(InlineEval::StandardInput)
}

fn is_short(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(line: &str) -> Option<InlineEval> {
        let words: Vec<&str> = line.split(' ').collect();
        inline_eval(&[words[0]], &words[1..])
    }

    #[test]
    fn code_in_arguments_is_found() {
        for line in [
            "python3 -c x",
            "python3.12 -Bc x",
            "python -W ignore -c x",
            "pypy3 -c x",
            "node -e 1",
            "node --eval=1",
            "node -p 1",
            "node -r ./x app.js",
            "node --import x a.js",
            "deno eval 1",
            "deno repl",
            "bun -e 1",
            "ruby -ne x",
            "ruby -rx y.rb",
            "perl -lane x",
            "perl -Mx y.pl",
            "php -r 1",
            "lua5.4 -e 1",
            "julia -e 1",
            "Rscript -e 1",
            "Rscript --eval x",
            "erl -eval x",
            "osascript -e x",
            "awk x",
            "gawk -f a -e b",
            "awk --source x",
            "sed s/a/b/",
            "sed -n -e p",
            "sed -i x f",
            "make -f x",
            "make all -f x",
            "gmake --eval=x",
            "make --makef x",
        ] {
            assert!(
                matches!(eval(line), Some(InlineEval::Argument(_))),
                "{line}: {:?}",
                eval(line)
            );
        }
    }

    #[test]
    fn code_from_standard_input_is_found() {
        for line in [
            "python3 -",
            "python3 -u",
            "node",
            "perl",
            "python3 -W ignore",
            "ruby -- -",
            "deno run -",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(
                inline_eval(&[words[0]], &words[1..]),
                Some(InlineEval::StandardInput),
                "{line}"
            );
        }
    }

    #[test]
    fn scripts_are_left_alone() {
        for line in [
            "python3 app.py -c x",
            "python3 -m http.server",
            "python3 -u app.py",
            "node server.js --port 1",
            "ruby x.rb",
            "perl x.pl -e",
            "awk -f prog data",
            "sed -f prog data",
            "make test",
            "make -j8 all",
            "python3 --version",
            "git status",
            "deno run x.ts",
        ] {
            assert_eq!(eval(line), None, "{line}");
        }
    }
}
