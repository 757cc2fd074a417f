//! Which program is read by which grammar, and what a call of it comes to.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock},
};

use super::{
    archives, builders, clients, compilers, containers, environments, git_words,
    grammar::{Call, Grammar, Known},
    packages, program, scripts, system_packages, tools,
};

/// What the grammars say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Understood {
    /// The program has no grammar.
    Unlisted,
    /// Something in it is not known to be harmless.
    Unknown,
    /// Everything is known, and these are the files that it names to be written.
    Plain(Vec<String>),
}

/// All grammars but those that are functions.
const GRAMMARS: &[&Grammar] = &[
    &git_words::GIT,
    &builders::CARGO,
    &builders::NPM,
    &builders::GO,
    &builders::MAKE,
    &builders::PIP,
    &containers::DOCKER,
    &containers::PODMAN,
    &containers::COMPOSE,
    &containers::KUBECTL,
    &containers::HELM,
    &clients::GH,
    &clients::PSQL,
    &clients::MYSQL,
    &clients::SQLITE,
    &clients::GPG,
    &archives::FIND,
    &archives::TAR,
    &archives::BSDTAR,
    &tools::MAN,
    &tools::ROFF,
    &tools::VI,
    &tools::EMACS,
    &tools::EMACSCLIENT,
    &tools::SYSTEMCTL,
    &tools::RUSTUP,
    &tools::RUSTC,
    &tools::JAVAC,
    &tools::SSH_KEYGEN,
    &tools::SSH_ADD,
    &tools::XCRUN,
    &packages::PIXI,
    &packages::NIX,
    &packages::NIX_BUILD,
    &packages::GRADLE,
    &packages::CMAKE,
    &packages::PNPM,
    &packages::YARN,
    &packages::BUNDLE,
    &packages::POETRY,
    &packages::UV,
    &environments::PIPENV,
    &environments::CONDA,
    &environments::MISE,
    &system_packages::DPKG,
    &system_packages::APT,
    &system_packages::APTITUDE,
    &compilers::LOOKERS,
    &compilers::WRITERS,
    &compilers::ASSEMBLER,
    &compilers::LINKER,
];

/// What reads the words of a program: the files that it writes, if everything is known.
type Read = fn(&[&str]) -> Option<Vec<String>>;

/// Programs whose words no grammar can say, or that need something before it.
const READ_APART: &[(&[&str], Read)] = &[
    (&["sed", "gsed"], scripts::sed),
    (&["awk", "gawk", "mawk", "nawk", "original-awk"], |words| {
        scripts::is_plain_awk(words).then(Vec::new)
    }),
    (&["aws"], |words| owned(clients::reads_as_plain_aws(words))),
    (&["openssl"], |words| {
        owned(clients::reads_as_plain_openssl(words))
    }),
    (&["ar", "gcc-ar", "llvm-ar"], |words| {
        owned(compilers::reads_as_plain_ar(words))
    }),
    (compilers::COMPILERS, |words| {
        owned(compilers::reads_as_plain_compiler(words))
    }),
    (compilers::PREPROCESSORS, |words| {
        owned(compilers::reads_as_plain_preprocessor(words))
    }),
    (&["mvn", "mvnw", "mvnd"], |words| {
        packages::is_plain_mvn(words).then(Vec::new)
    }),
    (&["socat"], |words| tools::is_plain_socat(words).then(Vec::new)),
];

fn owned(outputs: Option<Vec<&str>>) -> Option<Vec<String>> {
    outputs.map(|outputs| outputs.into_iter().map(str::to_owned).collect())
}

/// A grammar, read when the first command calls one of its programs: to read them all holds up the first command of a
/// server for as long as a program takes to start.
struct ReadOnce {
    grammar: &'static Grammar,
    known: OnceLock<Known>,
}

impl ReadOnce {
    const fn of(grammar: &'static Grammar) -> Self {
        Self {
            grammar,
            known: OnceLock::new(),
        }
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| Known::of(self.grammar))
    }
}

enum Reader {
    Grammar(Arc<ReadOnce>),
    Apart(Read),
}

/// Every segment is looked up, so this is one look by name.
static BY_PROGRAM: LazyLock<HashMap<&str, Reader>> = LazyLock::new(|| {
    let grammars = GRAMMARS.iter().flat_map(|grammar| {
        let read = Arc::new(ReadOnce::of(grammar));
        let programs = grammar.programs.iter();
        programs.map(move |name| (*name, Reader::Grammar(Arc::clone(&read))))
    });
    let apart = READ_APART
        .iter()
        .flat_map(|(programs, read)| programs.iter().map(|name| (*name, Reader::Apart(*read))));
    grammars.chain(apart).collect()
});

/// Whether there is a grammar for a program of that name.
pub(super) fn is_listed(name: &str) -> bool {
    BY_PROGRAM.contains_key(name)
}

/// What the grammars say of a program called by these names. What one of them does not know is unknown.
pub(super) fn understand(names: &[&str], arguments: &[&str]) -> Understood {
    let mut understood = Understood::Unlisted;
    if chooses_toolchain(names, arguments) {
        return Understood::Unknown;
    }
    let mut last = None;
    for name in names {
        // Mostly all names are the same.
        if last.replace(name) == Some(name) || goes_by_another(name, names) {
            continue;
        }
        match understand_as(name, arguments) {
            Understood::Unlisted => {}
            Understood::Unknown => return Understood::Unknown,
            plain @ Understood::Plain(_) => understood = plain,
        }
    }
    understood
}

/// Whether a grammar says what a program of that name may be told.
pub(super) fn knows(name: &str) -> bool {
    subcommand_of_git(program(name)).is_some() || reader_of(name).is_some()
}

fn reader_of(name: &str) -> Option<&'static Reader> {
    let plain = program(name);
    BY_PROGRAM
        .get(name)
        .or_else(|| BY_PROGRAM.get(plain))
        .or_else(|| BY_PROGRAM.get(compilers::without_target(plain)))
}

/// `git-log` is `git log`; other programs are called like that too.
fn subcommand_of_git(plain: &str) -> Option<(&'static Known, &str)> {
    let subcommand = plain.strip_prefix("git-")?;
    let Reader::Grammar(git) = BY_PROGRAM.get("git")? else {
        return None;
    };
    let git = git.known();
    git.has_command(subcommand).then_some((git, subcommand))
}

/// Whether a file is called by the name of another program that it is as well: `cargo` may be a link to `rustup`.
fn goes_by_another(name: &str, names: &[&str]) -> bool {
    const OF_SYSTEMD: &[&str] = &[
        "halt", "init", "poweroff", "reboot", "runlevel", "shutdown", "telinit",
    ];
    let is_any = |is: fn(&str) -> bool| names.iter().any(|name| is(program(name)));
    match program(name) {
        "rustup" => is_any(|name| !name.starts_with("rustup")),
        "systemctl" => is_any(|name| OF_SYSTEMD.contains(&name)),
        "nix" => is_any(|name| name.starts_with("nix-")),
        _ => false,
    }
}

fn understand_as(name: &str, arguments: &[&str]) -> Understood {
    let plain = program(name);
    if let Some((git, subcommand)) = subcommand_of_git(plain) {
        let words: Vec<&str> = std::iter::once(subcommand)
            .chain(arguments.iter().copied())
            .collect();
        return of_call(git.read(&words));
    }
    let Some(reader) = reader_of(name) else {
        return Understood::Unlisted;
    };
    let known = match reader {
        Reader::Apart(read) => return read(arguments).map_or(Understood::Unknown, Understood::Plain),
        Reader::Grammar(grammar) => grammar.known(),
    };
    match plain {
        "cargo" => match arguments.split_first() {
            Some((first, rest)) if is_toolchain(first) => of_call(known.read(rest)),
            _ => of_call(known.read(arguments)),
        },
        "tar" | "gtar" | "bsdtar" => match archives::old_letters(arguments) {
            Some(letters) if plain == "bsdtar" && !archives::are_letters_of_both(&letters) => {
                Understood::Unknown
            }
            Some(letters) => {
                let words = archives::with_dashes(arguments, &letters);
                of_call(known.read(&words))
            }
            None => of_call(known.read(arguments)),
        },
        "yarn" | "yarnpkg" => {
            let words = packages::yarn_words(arguments);
            of_call(known.read(&words))
        }
        // A file that is not there is made.
        "sqlite3" | "sqlite" => of_call(known.read(arguments).map(Call::with_first_written)),
        _ => of_call(known.read(arguments)),
    }
}

fn of_call(call: Option<Call<'_>>) -> Understood {
    call.map_or(Understood::Unknown, |call| Understood::Plain(call.written()))
}

/// What `rustup` starts by the name of a tool takes a directory of programs for a toolchain: `rustc +/tmp/x`.
fn chooses_toolchain(names: &[&str], arguments: &[&str]) -> bool {
    const PROXIES: &[&str] = &[
        "cargo",
        "cargo-clippy",
        "cargo-fmt",
        "cargo-miri",
        "clippy-driver",
        "rls",
        "rust-analyzer",
        "rust-gdb",
        "rust-lldb",
        "rustc",
        "rustdoc",
        "rustfmt",
        "rustup",
    ];
    let is_proxy = names.iter().any(|name| PROXIES.contains(&program(name)));
    is_proxy
        && arguments
            .first()
            .is_some_and(|first| first.starts_with('+') && !is_toolchain(first))
}

/// `+nightly`, and no path to one.
fn is_toolchain(word: &str) -> bool {
    word.strip_prefix('+').is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    })
}
