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
    code: &'static str,
    /// Letters without a value.
    flags: &'static str,
    /// Letters whose value, which is not code, is the rest of the word or the next one.
    values: &'static str,
    /// Letters that take the rest of the word and never the next one.
    attached: &'static str,
    /// Letters whose value names what is run, so that the rest are arguments of that.
    scripts: &'static str,
    /// Long options that are code; abbreviations count.
    long: &'static [&'static str],
    /// Long options whose value is the next word.
    long_values: &'static [&'static str],
    /// Words with one dash that are code.
    words: &'static [&'static str],
    /// Subcommands that are code.
    subcommands: &'static [&'static str],
    /// Subcommands before the script.
    runs: &'static [&'static str],
    /// What it reads when no operand is given.
    operand: Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// The script; without it, standard input.
    Script,
    /// The program text, unless an option of this letter or `--file` names a file.
    Program(char),
    /// Nothing that is code.
    Other,
}

const NONE: Interpreter = Interpreter {
    names: &[],
    code: "",
    flags: "",
    values: "",
    attached: "",
    scripts: "",
    long: &[],
    long_values: &[],
    words: &[],
    subcommands: &[],
    runs: &[],
    operand: Operand::Script,
};

/// Forms of a family of interpreters that each has some of. Whichever is meant, it is asked about.
const EVAL_WORDS: &[&str] = &["-e", "-E", "-c", "-s", "-eval", "-run"];
const EVAL_LONG: &[&str] = &["eval", "print", "rpc-eval"];

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "pypy"],
        code: "c",
        flags: "BEIOPRSbdiqsuvxhV?",
        values: "WXQ",
        scripts: "m",
        long_values: &["check-hash-based-pycs"],
        ..NONE
    },
    Interpreter {
        names: &["node", "nodejs"],
        code: "epr",
        flags: "ichv",
        values: "C",
        long: &[
            "eval",
            "print",
            "require",
            "import",
            "loader",
            "experimental-loader",
        ],
        long_values: &[
            "conditions",
            "diagnostic-dir",
            "disable-warning",
            "dns-result-order",
            "env-file",
            "icu-data-dir",
            "input-type",
            "inspect-port",
            "max-http-header-size",
            "openssl-config",
            "redirect-warnings",
            "stack-trace-limit",
            "test-name-pattern",
            "test-reporter",
            "title",
            "trace-event-categories",
            "unhandled-rejections",
            "watch-path",
        ],
        ..NONE
    },
    Interpreter {
        names: &["deno"],
        code: "e",
        flags: "ArqLhV",
        long: &["eval"],
        subcommands: &["eval", "repl"],
        runs: &["run"],
        ..NONE
    },
    Interpreter {
        names: &["bun"],
        code: "ep",
        long: &["eval", "print"],
        runs: &["run"],
        ..NONE
    },
    Interpreter {
        names: &["ruby", "jruby", "irb"],
        code: "erI",
        flags: "acdKlnpsSTvwWyhU0123456789",
        values: "CEX",
        attached: "Fix",
        long_values: &[
            "encoding",
            "external-encoding",
            "internal-encoding",
            "enable",
            "disable",
        ],
        ..NONE
    },
    Interpreter {
        names: &["perl"],
        code: "eEMmI",
        flags: "aCcDdfglnpsStTuUvwWXh0123456789",
        attached: "FiVx",
        ..NONE
    },
    Interpreter {
        names: &["php"],
        code: "rBRE",
        flags: "aCeHhilmnqsvw",
        values: "cdStTz",
        scripts: "fF",
        long: &["run", "process-begin", "process-code", "process-end"],
        ..NONE
    },
    Interpreter {
        names: &["lua", "luajit"],
        code: "e",
        flags: "ivEW",
        values: "l",
        attached: "jO",
        ..NONE
    },
    Interpreter {
        names: &["groovy"],
        words: &["-e"],
        ..NONE
    },
    Interpreter {
        names: &["ghc", "runghc", "scala", "R", "Rscript", "erl"],
        words: EVAL_WORDS,
        long: EVAL_LONG,
        ..NONE
    },
    Interpreter {
        names: &["raku"],
        code: "e",
        flags: "cnp",
        values: "IM",
        ..NONE
    },
    Interpreter {
        names: &["julia"],
        code: "eE",
        flags: "iqhv",
        values: "pCtJHLm",
        attached: "Og",
        words: EVAL_WORDS,
        long: EVAL_LONG,
        ..NONE
    },
    Interpreter {
        names: &["elixir", "iex", "clojure", "clj"],
        code: "e",
        words: EVAL_WORDS,
        long: EVAL_LONG,
        ..NONE
    },
    Interpreter {
        names: &["guile"],
        code: "ce",
        flags: "q",
        values: "Llx",
        words: EVAL_WORDS,
        long: EVAL_LONG,
        ..NONE
    },
    Interpreter {
        names: &["osascript"],
        code: "e",
        flags: "i",
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
        code: "e",
        flags: "bcChnNOPrstSVkM",
        values: "vFilEW",
        attached: "dDopL",
        long: &["source"],
        long_values: &["assign", "field-separator", "include", "load"],
        operand: Operand::Program('f'),
        ..NONE
    },
    Interpreter {
        names: &["sed", "gsed"],
        code: "e",
        flags: "nErsuz",
        values: "l",
        attached: "i",
        long: &["expression"],
        long_values: &["line-length"],
        operand: Operand::Program('f'),
        ..NONE
    },
    Interpreter {
        names: &["make", "gmake"],
        code: "fE",
        flags: "bmBdehikLnpqrRsStvw",
        values: "CIoW",
        attached: "jlO",
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
    let spellings: Vec<[&str; 3]> = names.iter().map(|name| spellings_of(name)).collect();
    INTERPRETERS.iter().find(|interpreter| {
        let mut candidates = spellings.iter().flatten();
        candidates.any(|candidate| interpreter.names.contains(candidate))
    })
}

/// A name without what may be behind it: versions and flavours do not hide an interpreter, `python3.12-dbg` is python.
fn spellings_of(name: &str) -> [&str; 3] {
    let letters = name.len()
        - name
            .trim_start_matches(|character: char| character.is_ascii_alphabetic())
            .len();
    let (stem, rest) = name.split_at_checked(letters).unwrap_or((name, ""));
    let is_version = rest
        .trim_start_matches('-')
        .starts_with(|first: char| first.is_ascii_digit());
    let stem = if is_version { stem } else { name };
    [name, without_version(name), stem]
}

/// How one option is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Code.
    Code,
    /// The end of a reading: what is run is named here.
    Script,
    /// The next word is its value.
    TakesNext,
    /// It is whole.
    Whole,
    /// Nobody knows whether the next word belongs to it.
    Unknown,
}

/// A read option, and whether it named a file with the program.
struct Read {
    reading: Reading,
    program_file: bool,
}

impl Interpreter {
    fn inline_eval(&self, arguments: &[&str]) -> Option<InlineEval> {
        let mut words = arguments.iter().enumerate();
        let mut program_file = false;
        // The last option may take the word behind it, or not.
        let mut unknown = false;
        // A word that is the operand unless that option took it.
        let mut doubtful = None;
        while let Some((at, word)) = words.next() {
            if *word == "--" {
                let next = words.next().map(|(at, word)| (at, *word));
                return self.operand(next.or(doubtful), program_file);
            }
            if *word != "-" && word.starts_with('-') {
                let read = self.read(word);
                program_file |= read.program_file;
                unknown = read.reading == Reading::Unknown;
                match read.reading {
                    Reading::Code => return Some(InlineEval::Argument(at)),
                    Reading::Script => return None,
                    Reading::TakesNext => drop(words.next()),
                    Reading::Whole | Reading::Unknown => {}
                }
                continue;
            }
            if self.subcommands.contains(word) {
                return Some(InlineEval::Argument(at));
            }
            if self.runs.contains(word) || self.operand == Operand::Other {
                // Options and targets of make mix in any order.
                continue;
            }
            let is_doubtful = unknown && *word != "-" && self.operand == Operand::Script;
            unknown = false;
            if is_doubtful {
                doubtful = Some((at, *word));
                continue;
            }
            return self
                .operand(Some((at, word)), program_file)
                .or_else(|| self.later(arguments, at));
        }
        self.operand(doubtful, program_file)
    }

    /// Programs whose options may follow the operand are searched to the end.
    fn later(&self, arguments: &[&str], from: usize) -> Option<InlineEval> {
        let Operand::Program(_) = self.operand else {
            return None;
        };
        let rest = arguments.get(from + 1..)?;
        rest.iter()
            .position(|word| {
                word.len() > 1 && word.starts_with('-') && self.read(word).reading == Reading::Code
            })
            .map(|at| InlineEval::Argument(from + 1 + at))
    }

    fn operand(&self, operand: Option<(usize, &str)>, program_file: bool) -> Option<InlineEval> {
        match (self.operand, operand) {
            (Operand::Script, None | Some((_, "-"))) => Some(InlineEval::StandardInput),
            (Operand::Program(_), Some((at, _))) if !program_file => Some(InlineEval::Argument(at)),
            (Operand::Program(_), None) if !program_file => Some(InlineEval::StandardInput),
            (Operand::Script | Operand::Program(_) | Operand::Other, _) => None,
        }
    }

    fn read(&self, word: &str) -> Read {
        if self.words.contains(&word) {
            return Read::of(Reading::Code);
        }
        match word.strip_prefix("--") {
            Some(long) => self.read_long(long),
            None => self.read_cluster(word),
        }
    }

    fn read_long(&self, long: &str) -> Read {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        if self.long.iter().any(|code| code.starts_with(name)) {
            return Read::of(Reading::Code);
        }
        let names_file = matches!(self.operand, Operand::Program(_)) && name == "file";
        Read {
            reading: match value {
                Some(_) => Reading::Whole,
                None if names_file || self.long_values.contains(&name) => Reading::TakesNext,
                None => Reading::Unknown,
            },
            program_file: names_file,
        }
    }

    fn read_cluster(&self, word: &str) -> Read {
        let mut known = true;
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let names_file = self.operand == Operand::Program(letter);
            if self.code.contains(letter) {
                return Read::of(Reading::Code);
            }
            if self.scripts.contains(letter) {
                return Read::of(Reading::Script);
            }
            if names_file || self.values.contains(letter) {
                let reading = if letters.as_str().is_empty() {
                    Reading::TakesNext
                } else {
                    Reading::Whole
                };
                return Read {
                    reading,
                    program_file: names_file,
                };
            }
            if self.attached.contains(letter) {
                return Read::of(Reading::Whole);
            }
            known &= self.flags.contains(letter);
        }
        Read::of(if known { Reading::Whole } else { Reading::Unknown })
    }
}

impl Read {
    const fn of(reading: Reading) -> Self {
        Self {
            reading,
            program_file: false,
        }
    }
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
            "python --check-hash-based-pycs default -c x",
            "node --input-type module -e x",
            "node --some-new-option value -e x",
            "lua -l m -e x",
            "groovy -cp . -e x",
            "elixir -pa ebin -e x",
            "php --run x",
            "sed -i.foo s/a/b/e file",
            "awk -vfoo=1 BEGIN{} data",
            "awk -Ff p",
            "make -j -f x",
            "erl -noshell -run x",
            "guile -c x",
            "perl -de 1",
            "python3.12-dbg -c x",
            "perl5.36-x86_64-linux-gnu -e x",
            "perl -l012ne x",
            "ghc -e x",
            "julia --pr x",
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
            "bun run -",
            "python3 --version",
            "node --input-type module",
            "php -S localhost:8000",
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
            "make -Cfoo all",
            "python3 -mcProfile app.py",
            "python3 -u app.py -c x",
            "node --enable-source-maps app.js",
            "awk -v f=1 -f prog data",
            "node_exporter --port 1",
            "lua-language-server",
            "sed -nf prog data",
            "sed --file prog data",
            "php -f x.php",
            "erl -noshell -pa ebin",
            "ruby --yjit bin/rails server -e production",
            "git status",
            "deno run x.ts",
        ] {
            assert_eq!(eval(line), None, "{line}");
        }
    }
}
