//! Code in arguments or on standard input of an interpreter (I1, I2), as data.

use super::{names::without_version, paths};

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
    /// Letters behind which it reads code from a person or from standard input, no matter what else it runs.
    interactive: &'static str,
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
    /// Modules behind `-m` that take code from their arguments or from standard input.
    modules: &'static [&'static str],
    /// Whether a `data:` address is a module whose text is code.
    loads_addresses: bool,
    /// Whether options may follow the first operand.
    mixes: bool,
    /// What it reads when no operand is given.
    operand: Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// The script; without it, standard input.
    Script,
    /// The program text, unless an option of this letter or `--file` names a file.
    Program(char),
    /// Targets and variables of make.
    Target,
}

const NONE: Interpreter = Interpreter {
    names: &[],
    code: "",
    flags: "",
    values: "",
    attached: "",
    interactive: "",
    scripts: "",
    long: &[],
    long_values: &[],
    words: &[],
    subcommands: &[],
    runs: &[],
    modules: &[],
    loads_addresses: false,
    mixes: false,
    operand: Operand::Script,
};

/// Modules of Python that run another one, or code.
const MODULE_RUNNERS: &[&str] = &[
    "cProfile",
    "coverage",
    "debugpy",
    "doctest",
    "pickle",
    "profile",
    "trace",
    "viztracer",
];

/// Variables of make whose value it runs, or reads as its own options.
const MAKE_CODE: &[&str] = &[
    "SHELL",
    ".SHELLFLAGS",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "MFLAGS",
];

/// Forms of a family of interpreters that each has some of. Each of them is asked about.
const EVAL_WORDS: &[&str] = &["-e", "-E", "-c", "-s", "-eval", "-run"];
const EVAL_LONG: &[&str] = &["eval", "print", "rpc-eval"];

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &[
            "python",
            "pypy",
            "micropython",
            "graalpy",
            "jython",
            "ipython",
            "bpython",
            "ptpython",
        ],
        code: "c",
        flags: "BEIOPRSbdqsuvxhV?",
        values: "WXQ",
        interactive: "i",
        scripts: "m",
        long_values: &["check-hash-based-pycs"],
        modules: &[
            "IPython",
            "_pyrepl",
            "asyncio",
            "bpython",
            "code",
            "codeop",
            "idlelib",
            "ipykernel",
            "jupyter_console",
            "pdb",
            "ptpython",
            "pyrepl",
            "runpy",
            "timeit",
        ],
        ..NONE
    },
    Interpreter {
        names: &["node", "nodejs", "tsx", "ts-node", "ts-node-esm", "jiti"],
        code: "epr",
        flags: "chv",
        values: "C",
        interactive: "i",
        loads_addresses: true,
        subcommands: &["inspect", "debug"],
        long: &[
            "eval",
            "print",
            "require",
            "import",
            "loader",
            "experimental-loader",
            "interactive",
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
        loads_addresses: true,
        ..NONE
    },
    Interpreter {
        names: &["bun"],
        code: "ep",
        long: &["eval", "print"],
        subcommands: &["exec", "repl"],
        runs: &["run"],
        loads_addresses: true,
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
        code: "deEFMmI",
        flags: "aCcDfglnpsStTuUvwWXh0123456789",
        attached: "iVx",
        ..NONE
    },
    Interpreter {
        names: &["php"],
        code: "rBRE",
        flags: "CeHhilmnqsvw",
        values: "cdStTz",
        interactive: "a",
        scripts: "fF",
        loads_addresses: true,
        long: &["run", "process-begin", "process-code", "process-end"],
        ..NONE
    },
    Interpreter {
        names: &["lua", "luajit"],
        code: "e",
        flags: "vEW",
        values: "l",
        attached: "jO",
        interactive: "i",
        ..NONE
    },
    Interpreter {
        names: &["groovy"],
        words: &["-e"],
        ..NONE
    },
    Interpreter {
        names: &["ghc", "R", "erl"],
        words: EVAL_WORDS,
        long: EVAL_LONG,
        mixes: true,
        ..NONE
    },
    Interpreter {
        names: &["runghc", "scala", "Rscript"],
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
        flags: "qhv",
        values: "pCtJHLm",
        interactive: "i",
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
        names: &["make", "gmake", "bmake", "pmake", "remake"],
        code: "fE",
        flags: "bmBdehikLnpqrRsStvw",
        values: "CIoW",
        attached: "jlO",
        long: &["file", "makefile", "eval"],
        operand: Operand::Target,
        ..NONE
    },
];

/// Whether a program with any of these names reads code, so that an entry for it trusts any code.
pub(crate) fn is_interpreter(names: &[&str]) -> bool {
    of(names).next().is_some()
}

/// How a program with these names would take code from its arguments or from standard input.
pub fn inline_eval(names: &[&str], arguments: &[&str]) -> Option<InlineEval> {
    of(names).find_map(|interpreter| interpreter.inline_eval(arguments))
}

/// Every interpreter that one of the names stands for: a link may have the name of another than it leads to.
fn of(names: &[&str]) -> impl Iterator<Item = &'static Interpreter> {
    let spellings: Vec<[&str; 3]> = names.iter().map(|name| spellings_of(name)).collect();
    INTERPRETERS.iter().filter(move |interpreter| {
        let mut candidates = spellings.iter().flatten();
        candidates.any(|candidate| interpreter.names.contains(candidate))
    })
}

/// Whether a file is standard input, by that or another name.
pub(super) fn is_input(file: &str) -> bool {
    if file == "-" {
        return true;
    }
    // The directory it starts in may be any.
    let file = paths::normalise(file);
    paths::base_name(&file) == "stdin" || file.contains("/fd/")
}

/// Whether a word of make's command line is more than a target or a plain value.
fn is_make_code(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else {
        return word.contains(['$', '`']);
    };
    let runs = name.ends_with('!');
    let name = name.trim_end_matches(['!', ':', '?', '+']).trim();
    runs || MAKE_CODE.contains(&name) || value.contains(['$', '`', ';', '|', '&', '<', '>', '\n'])
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
    Code,
    /// The end of a reading: what is run is named by this value, or by the next word.
    Script,
    /// The next word is its value.
    TakesNext,
    Whole,
    /// Nobody knows whether the next word belongs to it.
    Unknown,
}

struct Read<'a> {
    reading: Reading,
    /// Whether its value names a file with the program.
    program_file: bool,
    /// Whether it makes the interpreter ask for code.
    interactive: bool,
    /// Its value, as far as that stands in the same word.
    value: Option<&'a str>,
}

impl Interpreter {
    fn inline_eval(&self, arguments: &[&str]) -> Option<InlineEval> {
        let mut interactive = false;
        self.search(arguments, &mut interactive)
            .or_else(|| interactive.then_some(InlineEval::StandardInput))
    }

    fn search(&self, arguments: &[&str], interactive: &mut bool) -> Option<InlineEval> {
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
                *interactive |= read.interactive;
                unknown = read.reading == Reading::Unknown;
                let takes_next = matches!(read.reading, Reading::TakesNext | Reading::Script);
                let value = if takes_next && read.value.is_none() {
                    words.next().map(|(_, word)| *word)
                } else {
                    read.value
                };
                let is_code = value.is_some_and(|value| self.is_address(value));
                match read.reading {
                    Reading::Code => return Some(InlineEval::Argument(at)),
                    _ if is_code => return Some(InlineEval::Argument(at)),
                    Reading::Script => {
                        let mut behind = words.map(|(_, word)| *word);
                        let found = value.and_then(|script| self.script(script, at, &mut behind));
                        return found;
                    }
                    Reading::TakesNext | Reading::Whole | Reading::Unknown => {}
                }
                // `-` is standard input to few of them; its names are a file to all.
                let is_file = |value: &str| read.program_file || value != "-";
                if value.is_some_and(|value| is_file(value) && is_input(value)) {
                    return Some(InlineEval::StandardInput);
                }
                continue;
            }
            if self.subcommands.contains(word) || self.is_address(word) {
                return Some(InlineEval::Argument(at));
            }
            if self.operand == Operand::Target {
                // Options, variables and targets mix in any order.
                if is_make_code(word) {
                    return Some(InlineEval::Argument(at));
                }
                continue;
            }
            if self.runs.contains(word) {
                continue;
            }
            let is_doubtful = unknown && !is_input(word) && self.operand == Operand::Script;
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

    /// What an option's value runs: a file that is standard input, or a module that takes code.
    fn script<'a>(
        &self,
        script: &str,
        at: usize,
        behind: &mut impl Iterator<Item = &'a str>,
    ) -> Option<InlineEval> {
        if is_input(script) {
            return Some(InlineEval::StandardInput);
        }
        let takes_code = |module: &str| {
            let package = module.split_once('.').map_or(module, |(package, _)| package);
            self.modules.contains(&package)
        };
        let mut runs_code = takes_code(script);
        if MODULE_RUNNERS.contains(&script) {
            // `python -m cProfile -m timeit CODE`
            while let Some(word) = behind.next() {
                if is_input(word) {
                    return Some(InlineEval::StandardInput);
                }
                let is_option = word == "--module" || (word.starts_with('-') && word.ends_with('m'));
                runs_code |= match word.strip_prefix("-m").or_else(|| word.strip_prefix("--module=")) {
                    _ if is_option => behind.next().is_some_and(takes_code),
                    Some(module) => takes_code(module),
                    None => word.starts_with("-c"),
                };
            }
        }
        runs_code.then_some(InlineEval::Argument(at))
    }

    /// Whether a word is an address that holds the text of a module.
    fn is_address(&self, word: &str) -> bool {
        self.loads_addresses && (word.contains("data:") || word.contains("php://"))
    }

    /// Programs whose options may follow the operand are searched to the end.
    fn later(&self, arguments: &[&str], from: usize) -> Option<InlineEval> {
        if !self.mixes && !matches!(self.operand, Operand::Program(_)) {
            return None;
        }
        for (at, word) in arguments.iter().enumerate().skip(from + 1) {
            if word.len() < 2 || !word.starts_with('-') {
                continue;
            }
            let read = self.read(word);
            if read.reading == Reading::Code {
                return Some(InlineEval::Argument(at));
            }
            // The next word may be its value, and an option all the same where options end at the operand.
            let next = || arguments.get(at + 1).copied();
            if read.program_file && read.value.or_else(next).is_some_and(is_input) {
                return Some(InlineEval::StandardInput);
            }
        }
        None
    }

    fn operand(&self, operand: Option<(usize, &str)>, program_file: bool) -> Option<InlineEval> {
        match (self.operand, operand) {
            (Operand::Script, None) => Some(InlineEval::StandardInput),
            (Operand::Script, Some((_, script))) if is_input(script) => Some(InlineEval::StandardInput),
            (Operand::Program(_), Some((at, _))) if !program_file => Some(InlineEval::Argument(at)),
            (Operand::Program(_), None) if !program_file => Some(InlineEval::StandardInput),
            (Operand::Script | Operand::Program(_) | Operand::Target, _) => None,
        }
    }

    fn read<'a>(&self, word: &'a str) -> Read<'a> {
        if self.words.contains(&word) {
            return Read::of(Reading::Code);
        }
        match word.strip_prefix("--") {
            Some(long) => self.read_long(long),
            None => self.read_cluster(word),
        }
    }

    fn read_long<'a>(&self, long: &'a str) -> Read<'a> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        // Node takes one for the other.
        let name = name.replace('_', "-");
        if self.long.iter().any(|code| code.starts_with(&name)) {
            return Read::of(Reading::Code);
        }
        let names_file = matches!(self.operand, Operand::Program(_)) && name == "file";
        Read {
            reading: match value {
                Some(_) => Reading::Whole,
                None if names_file || self.long_values.contains(&name.as_str()) => Reading::TakesNext,
                None => Reading::Unknown,
            },
            program_file: names_file,
            value,
            interactive: false,
        }
    }

    fn read_cluster<'a>(&self, word: &'a str) -> Read<'a> {
        let mut read = Read::of(Reading::Whole);
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            if self.code.contains(letter) {
                return Read::of(Reading::Code);
            }
            let is_script = self.scripts.contains(letter);
            let names_file = self.operand == Operand::Program(letter);
            if is_script || names_file || self.values.contains(letter) {
                let value = Some(letters.as_str()).filter(|rest| !rest.is_empty());
                return Read {
                    reading: match value {
                        _ if is_script => Reading::Script,
                        None => Reading::TakesNext,
                        Some(_) => Reading::Whole,
                    },
                    program_file: names_file,
                    value,
                    ..read
                };
            }
            if self.attached.contains(letter) {
                return Read {
                    reading: Reading::Whole,
                    ..read
                };
            }
            let is_interactive = self.interactive.contains(letter);
            read.interactive |= is_interactive;
            if !is_interactive && !self.flags.contains(letter) {
                read.reading = Reading::Unknown;
            }
        }
        read
    }
}

impl Read<'_> {
    const fn of(reading: Reading) -> Self {
        Self {
            reading,
            program_file: false,
            interactive: false,
            value: None,
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
            "erl +A 4 -noshell -eval x",
            "erl -pa ebin deps/ebin -eval x",
            "R x -e code",
            "ghc -package base Main.hs -e main",
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
            "make A!=x all",
            "make A:=$(shell.x)",
            "make SHELL=x all",
            "make .SHELLFLAGS=x",
            "make MAKEFLAGS=--eval=x",
            "make CC=x;y",
            "bmake -f x",
            "python3 -m timeit x",
            "python3 -mtimeit x",
            "python3 -m idlelib.idle x",
            "python3 -m cProfile -m timeit x",
            "python3 -m pdb x.py",
            "python3 -ic x",
            "python3 -i -c x",
            "node --experimental_loader x a.js",
            "node --test --test-reporter=data:text/javascript,x a.js",
            "node --test-reporter data:text/javascript,x a.js",
            "deno run data:text/javascript,x",
            "bun exec x",
            "tsx -e x",
            "ipython -c x",
            "perl -d:X;x a.pl",
            "perl -d a.pl",
            "perl -F/x/,x a.pl",
            "python3 -m trace --module timeit x",
            "python3 -m coverage run -am timeit x",
            "node inspect a.js",
            "php -d auto_prepend_file=data:x a.php",
            "php -d auto_prepend_file=php://stdin a.php",
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
            "python3 /dev/stdin",
            "python3 -u /dev/./fd/0",
            "perl /proc/self/fd/0",
            "ruby ../../../dev/stdin",
            "python3 stdin",
            "python3 /proc/self/root/dev/stdin",
            "python3 -m cProfile /dev/stdin",
            "python3 -m doctest /dev/stdin",
            "node --preserve-symlinks-main /dev/stdin x",
            "gawk -f a -i /dev/stdin",
            "julia -L /dev/stdin x",
            "python3 -i x.py",
            "node -i a.js",
            "php -a",
            "php -f -",
            "awk -f - data",
            "awk -f/dev/stdin data",
            "awk --file=- data",
            "sed -nf - data",
            "sed -f p data -f -",
            "sed -f p data --file=-",
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
    fn every_name_of_a_link_is_asked() {
        assert_eq!(
            inline_eval(&["python", "python", "perl"], &["-E", "x"]),
            Some(InlineEval::Argument(0))
        );
        assert_eq!(inline_eval(&["python", "python", "perl"], &["x"]), None);
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
            "make CFLAGS=-O2 all",
            "make PREFIX=/usr/local install",
            "python3 -m pytest -m asyncio",
            "python3 -m cProfile -o x app.py",
            "node app.js data:x",
            "python3 x.py /dev/stdin",
            "awk -f p /dev/stdin",
        ] {
            assert_eq!(eval(line), None, "{line}");
        }
    }
}
