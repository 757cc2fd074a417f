//! Which program is read by which grammar, and what a call of it comes to.

use std::{collections::HashMap, sync::LazyLock};

use super::{
    archives, builders, clients, compilers, containers, git_words,
    grammar::{Grammar, Known},
    program, scripts,
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
    &containers::DOCKER,
    &containers::COMPOSE,
    &containers::KUBECTL,
    &containers::HELM,
    &clients::GH,
    &clients::PSQL,
    &clients::SQLITE,
    &clients::GPG,
    &archives::FIND,
    &archives::TAR,
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
];

fn owned(outputs: Option<Vec<&str>>) -> Option<Vec<String>> {
    outputs.map(|outputs| outputs.into_iter().map(str::to_owned).collect())
}

enum Reader {
    Known(Known),
    Apart(Read),
}

/// Every segment is looked up, so this is one look by name.
static BY_PROGRAM: LazyLock<HashMap<&str, Reader>> = LazyLock::new(|| {
    let known = GRAMMARS.iter().flat_map(|grammar| {
        let programs = grammar.programs.iter();
        programs.map(|name| (*name, Reader::Known(Known::of(grammar))))
    });
    let apart = READ_APART
        .iter()
        .flat_map(|(programs, read)| programs.iter().map(|name| (*name, Reader::Apart(*read))));
    known.chain(apart).collect()
});

/// Whether there is a grammar for a program of that name.
pub(super) fn is_listed(name: &str) -> bool {
    BY_PROGRAM.contains_key(name)
}

/// What the grammars say of a program called by these names. What one of them does not know is unknown.
pub(super) fn understand(names: &[&str], arguments: &[&str]) -> Understood {
    let mut understood = Understood::Unlisted;
    let mut last = None;
    for name in names {
        // Mostly all names are the same.
        if last.replace(name) == Some(name) {
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

fn understand_as(name: &str, arguments: &[&str]) -> Understood {
    let plain = program(name);
    // `git-log` is `git log`; other programs are called like that too.
    if let Some(subcommand) = plain.strip_prefix("git-")
        && let Some(Reader::Known(git)) = BY_PROGRAM.get("git")
        && git.has_command(subcommand)
    {
        let words: Vec<&str> = std::iter::once(subcommand)
            .chain(arguments.iter().copied())
            .collect();
        return of_outputs(git.read(&words).map(|call| call.outputs));
    }
    let tool = || compilers::without_target(plain);
    let Some(reader) = BY_PROGRAM
        .get(name)
        .or_else(|| BY_PROGRAM.get(plain))
        .or_else(|| BY_PROGRAM.get(tool()))
    else {
        return Understood::Unlisted;
    };
    match reader {
        Reader::Apart(read) => read(arguments).map_or(Understood::Unknown, Understood::Plain),
        Reader::Known(known) => match plain {
            "cargo" => match arguments.split_first() {
                Some((first, rest)) if is_toolchain(first) => {
                    of_outputs(known.read(rest).map(|call| call.outputs))
                }
                _ => of_outputs(known.read(arguments).map(|call| call.outputs)),
            },
            "tar" | "gtar" | "bsdtar" => match archives::old_letters(arguments) {
                Some(letters) => {
                    let words = archives::with_dashes(arguments, &letters);
                    of_outputs(known.read(&words).map(|call| call.outputs))
                }
                None => of_outputs(known.read(arguments).map(|call| call.outputs)),
            },
            _ => of_outputs(known.read(arguments).map(|call| call.outputs)),
        },
    }
}

fn of_outputs(outputs: Option<Vec<&str>>) -> Understood {
    owned(outputs).map_or(Understood::Unknown, Understood::Plain)
}

/// `+nightly`, and no path to one.
fn is_toolchain(word: &str) -> bool {
    word.strip_prefix('+').is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    })
}
