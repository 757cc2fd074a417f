//! Which words of a command may be files with code in them, so that an answer covers what they hold (T2).

use super::{
    delegation,
    names::{self, NameClass, without_version},
    paths,
};

/// Programs that take files of code behind options: their names, the letters and the long names.
const CODE_OPTIONS: &[(&[&str], &str, &[&str])] = &[
    (
        &["awk", "gawk", "mawk", "nawk", "original-awk"],
        "fEi",
        &["file", "exec", "include"],
    ),
    (&["sed", "gsed"], "f", &["file"]),
    (MAKES, "f", &["file", "makefile"]),
    (
        &["vi", "vim", "nvim", "view", "gvim", "vimdiff", "ex"],
        "Ssu",
        &[],
    ),
    (&["emacs", "emacs-nox", "emacs-gtk"], "lq", &["load", "script"]),
    (&["gdb", "lldb"], "xs", &["command", "source"]),
    (&["psql"], "f", &["file"]),
    (&["sqlite", "sqlite3"], "", &["init"]),
    (&["jq", "dc"], "f", &["from-file", "file"]),
];
pub(super) const MAKES: &[&str] = &["make", "gmake", "bmake", "pmake", "remake"];
/// What `make` reads where no file is named.
const MAKEFILES: &[&str] = &["GNUmakefile", "makefile", "Makefile"];
/// Endings of files that are read as code, wherever they stand in a text that nobody took apart.
const CODE_ENDINGS: &[&str] = &[
    ".sh", ".bash", ".zsh", ".ksh", ".fish", ".py", ".pl", ".rb", ".js", ".mjs", ".cjs", ".ts", ".php",
    ".lua", ".tcl", ".awk", ".sed", ".mk", ".r", ".R", ".jl",
];

/// The words behind a program that may be code for it. A file that is called like the value of an option must not stand
/// in for the script, so of an interpreter, and of what runs other programs, every word counts. `names` are all that the
/// program may be called by, `runs_unseen` is whether it may run more than its file.
pub fn code_operands<'a>(names: &[&str], words: &'a [String], runs_unseen: bool) -> Vec<&'a str> {
    let is = |programs: &[&str]| {
        names
            .iter()
            .any(|name| programs.contains(name) || programs.contains(&without_version(name)))
    };
    let runs_others = || {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        matches!(
            NameClass::of_all(names.iter().copied()),
            NameClass::Carrier | NameClass::Wrapper | NameClass::Multiplexer
        ) || delegation::delegates(names, &arguments)
    };
    let mut found: Vec<&str> = Vec::new();
    if names.iter().any(|name| names::runs_scripts(name)) || (runs_unseen && runs_others()) {
        found.extend(words.iter().flat_map(|word| readings(word)));
    }
    for (programs, letters, long) in CODE_OPTIONS {
        if is(programs) {
            found.extend(values_of(words, letters, long));
        }
    }
    if is(MAKES) {
        found.extend(MAKEFILES);
    }
    found
}

/// A word itself, or what is glued to an option: `--require=./hook.js`, `-r./hook.js`.
pub fn readings(word: &str) -> impl Iterator<Item = &str> {
    let is_option = word.starts_with('-');
    let value = word.split_once('=').map(|(_name, value)| value);
    let glued = word.get(2..).filter(|_| is_option && !word.starts_with("--"));
    (!is_option)
        .then_some(word)
        .into_iter()
        .chain(value.filter(|_| is_option))
        .chain(glued)
        .filter(|text| !text.is_empty())
}

fn values_of<'a>(words: &'a [String], letters: &str, long: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(String::as_str);
        let Some(option) = word.strip_prefix('-') else {
            continue;
        };
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| (name, Some(value)));
        let name = name.trim_start_matches('-');
        if !name.is_empty() && long.iter().any(|long| long.starts_with(name)) {
            found.extend(value.or(next));
        }
        if option.starts_with('-') {
            continue;
        }
        if let Some((before, glued)) = option.split_once(|letter| letters.contains(letter)) {
            let is_cluster = before.chars().all(|letter| letter.is_ascii_alphanumeric());
            found.extend(if glued.is_empty() { next } else { Some(glued) }.filter(|_| is_cluster));
        }
    }
    found
}

/// The words of a text that may be code for what it runs: what has such an ending, stands behind an interpreter or
/// `source`, or is a path where a command begins. What the text writes to is none.
pub fn code_words(text: &str) -> Vec<&str> {
    let is_border = |character: char| character.is_whitespace() || "'\"`;|&<>(){}=$".contains(character);
    let mut found = Vec::new();
    let mut reads_next = false;
    let mut end = 0;
    for word in text.split(is_border).filter(|word| !word.is_empty()) {
        let at = word.as_ptr().addr() - text.as_ptr().addr();
        let between = text.get(end..at).unwrap_or_default();
        let begins_command = end == 0 || between.contains([';', '|', '&', '(', '{', '`', '\n', '=', '$']);
        end = at + word.len();
        if between.contains('>') {
            continue;
        }
        let is_code = CODE_ENDINGS.iter().any(|ending| word.ends_with(ending));
        let is_option = word.starts_with('-');
        if !is_option && (is_code || reads_next || (begins_command && word.contains('/'))) {
            found.push(word);
        }
        let starts_reading = matches!(word, "source" | ".") || names::runs_scripts(paths::base_name(word));
        reads_next = starts_reading || (reads_next && is_option);
    }
    found
}

/// The words of a text that stand behind a `cd`.
pub fn directory_words(text: &str) -> Vec<&str> {
    let is_border = |character: char| character.is_whitespace() || "'\"`;|&<>(){}".contains(character);
    let mut found = Vec::new();
    let mut is_next = false;
    for word in text.split(is_border).filter(|word| !word.is_empty()) {
        if is_next && !word.starts_with('-') {
            found.push(word);
        }
        is_next = matches!(word, "cd" | "pushd") || (is_next && word.starts_with('-'));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operands(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = code_operands(&[&words[0]], &words[1..], true);
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn files_of_code_are_found_where_each_program_takes_them() {
        for (line, expected) in [
            ("python3 -u a.py b", &["a.py", "b"][..]),
            (
                "node -r./h.js --import=./i.js a.js",
                &["./h.js", "./i.js", "a.js"],
            ),
            ("nodejs a.js", &["a.js"]),
            ("tclsh a.tcl", &["a.tcl"]),
            ("java A.java", &["A.java"]),
            ("setsid bash a.sh", &["bash", "a.sh"]),
            ("env A=1 bash a.sh", &["bash", "a.sh"]),
            ("env -i ./a.sh", &["./a.sh"]),
            ("busybox sh a.sh", &["a.sh"]),
            ("awk -f a.awk data", &["a.awk"]),
            ("awk -nfa.awk data", &["a.awk"]),
            ("gawk --file=a.awk data", &["a.awk"]),
            ("sed -nf a.sed data", &["a.sed"]),
            ("make -f a.mk x", &["a.mk", "GNUmakefile", "makefile", "Makefile"]),
            ("vim -es -S a.vim", &["a.vim"]),
            ("sqlite3 -init a.sql b.db", &["a.sql"]),
            ("cat a.sh", &[]),
            ("awk {print} data", &[]),
            ("find . -exec python3 a.py", &["a.py"]),
        ] {
            let found = operands(line);
            for wanted in expected {
                assert!(found.iter().any(|word| word == wanted), "{line}: {found:?}");
            }
            assert!(!expected.is_empty() || found.is_empty(), "{line}: {found:?}");
        }
    }

    #[test]
    fn directories_are_found_in_a_text() {
        let found = directory_words("cd sub && ./x > f; (cd -- ~/y; z) | cd");
        assert_eq!(found, ["sub", "~/y"]);
    }

    #[test]
    fn files_of_code_are_found_in_a_text() {
        for (text, expected) in [
            ("./x.sh 2>&1 | tail -5", &["./x.sh"][..]),
            ("bash x > f", &["x"]),
            ("source x && y", &["x"]),
            ("cd $D; python3 -u main", &["main"]),
            ("cat notes > /tmp/f; ./z /tmp/log", &["./z"]),
            ("cat > a.py; python3 a.py", &["a.py"]),
        ] {
            assert_eq!(code_words(text), expected, "{text}");
        }
    }
}
