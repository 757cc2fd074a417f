//! Files that a program without a grammar may write: any that its words name, unless it is known to write none.
//!
//! What such a program does with a word is unknown, so that a word counts in every way in which programs come from words
//! to names of files.

use countersign_domain::deciding_names;

use super::{is_short, program, table};

/// Programs that write nothing into a file that a word of theirs names, no matter what the word is.
const READING: &[&str] = &[
    "[",
    "ack",
    "ag",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "bat",
    "batcat",
    "bc",
    "bzcat",
    "cal",
    "cat",
    "cd",
    "cksum",
    "cloc",
    "cmp",
    "colordiff",
    "column",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "diff3",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "expr",
    "fd",
    "fdfind",
    "fgrep",
    "file",
    "fmt",
    "fold",
    "getfacl",
    "getfattr",
    "grep",
    "gtac",
    "head",
    "hexdump",
    "hexyl",
    "id",
    "join",
    "jq",
    "kill",
    "ls",
    "lsattr",
    "lsof",
    "md5sum",
    "mkdir",
    "more",
    "nl",
    "numfmt",
    "od",
    "paste",
    "pgrep",
    "pr",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shasum",
    "shellcheck",
    "sleep",
    "stat",
    "sum",
    "tac",
    "tail",
    "test",
    "tokei",
    "tr",
    "type",
    "unexpand",
    "unlink",
    "wc",
    "which",
    "xzcat",
    "zcat",
    "zgrep",
    "zstdcat",
];

/// Programs that unpack a file beside itself, under its name without an ending.
const UNPACKING: &[&str] = &[
    "brotli",
    "bunzip2",
    "bzip2",
    "gunzip",
    "gzip",
    "lz4",
    "lzip",
    "lzma",
    "lzop",
    "pigz",
    "uncompress",
    "unlz4",
    "unlzma",
    "unpigz",
    "unxz",
    "unzstd",
    "xz",
    "zstd",
];

/// Programs that put something of their own behind a name.
const CONTINUING: &[&str] = &["csplit", "gcsplit", "gsplit", "split"];

/// Programs that keep what they replace under its name with an ending.
const KEEPING: &[&str] = &[
    "cp", "gcp", "ginstall", "gln", "gmv", "install", "ln", "mv", "rsync",
];

/// More letters in one word are not taken apart.
const MAX_LETTERS: usize = 64;

/// The files that the words of a call may name to be written. `None` where it cannot be said which.
pub(super) fn may_write(names: &[&str], arguments: &[&str]) -> Option<Vec<String>> {
    let is_harmless = |name: &str| table::knows(name) || only_reads(name, arguments);
    // A file for many programs shows its own name as well.
    let is_known = names.iter().all(|&name| name == "coreutils" || is_harmless(name));
    if is_known && names.iter().any(|&name| is_harmless(name)) {
        return Some(Vec::new());
    }
    let is = |programs: &[&str]| names.iter().any(|name| programs.contains(&program(name)));
    if (is(&["curl"]) && curl_composes(arguments))
        || (is(&["wget"]) && arguments.iter().any(|word| is_glob(word)))
    {
        return None;
    }
    let separators: &[char] = if is(&["socat"]) { &['=', ':', ','] } else { &['='] };
    let mut files = Vec::new();
    for word in arguments {
        for file in files_in(word, separators)? {
            files.extend(spellings_of(file));
        }
    }
    let has_ending = arguments
        .iter()
        .any(|word| word.starts_with("--s") || (is_short(word) && word.contains('S')));
    let mut more = Vec::new();
    for file in &files {
        if is(UNPACKING) {
            more.extend(completed(file, |name, known| name.starts_with(known)));
        }
        if is(CONTINUING) {
            more.extend(completed(file, |name, known| known.starts_with(name)));
        }
        if has_ending && (is(KEEPING) || is(UNPACKING)) {
            more.extend(completed(file, |ending, known| known.ends_with(ending)));
        }
    }
    files.extend(more);
    Some(files)
}

fn only_reads(name: &str, arguments: &[&str]) -> bool {
    READING.contains(&name)
        || READING.contains(&program(name))
        || (name == "tree" && !arguments.iter().any(|word| is_short(word) && word.contains('o')))
        || (name == "less" && !arguments.iter().any(|word| keeps_log(word)))
}

/// What comes through a pipe, `less` copies into a file.
fn keeps_log(word: &str) -> bool {
    word.to_ascii_lowercase().starts_with("--log") || (is_short(word) && word.contains(['o', 'O']))
}

/// A word, what stands behind its separators, and what may be glued to a letter in a cluster of short options. `None` for
/// too many letters.
fn files_in<'a>(word: &'a str, separators: &'a [char]) -> Option<Vec<&'a str>> {
    let values = word
        .match_indices(separators)
        .filter(|_| !is_remote(word) && !is_left_out(word))
        .filter_map(|(at, mark)| word.get(at + mark.len()..));
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let flags = letters.map_or(0, |letters| {
        letters
            .find(|letter: char| !letter.is_ascii_alphanumeric() && !"#:?@%+,".contains(letter))
            .unwrap_or(letters.len())
    });
    if flags > MAX_LETTERS {
        return None;
    }
    let glued = (1..=flags).filter_map(|at| letters?.get(at..));
    let whole = (!word.starts_with('-')).then_some(word);
    let files = whole.into_iter().chain(glued).chain(values);
    Some(files.filter(|file| !file.is_empty()).collect())
}

/// A file as it is written, or the last part of an address; without what belongs to the address alone or to socat
/// (`OPEN:x,creat`), and without `%2e`.
fn spellings_of(file: &str) -> Vec<String> {
    let end = file.find(['?', '#', ';', ',']).unwrap_or(file.len());
    let cut = file.get(..end).unwrap_or(file);
    let mut spellings = if is_remote(file) {
        let name = cut.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        vec![name.to_owned()]
    } else {
        vec![file.to_owned(), cut.to_owned()]
    };
    let encoded = spellings.iter().filter(|spelling| spelling.contains('%'));
    let plain: Vec<String> = encoded.map(|spelling| decoded(spelling)).collect();
    spellings.extend(plain);
    spellings.dedup();
    spellings
}

/// What a program is to pass over, it does not write.
fn is_left_out(word: &str) -> bool {
    ["--exclude", "--ignore"]
        .iter()
        .any(|option| word.starts_with(option))
}

fn is_remote(word: &str) -> bool {
    let scheme = word
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https" | "ftp" | "ftps"))
}

/// Text with `%2e` as the character.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let byte = behind
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = if byte.is_some() {
            behind.get(2..).unwrap_or_default()
        } else {
            behind
        };
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names of files that decide what starts and that a name is part of, where it stands.
fn completed(file: &str, is_part: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let (parent, name) = file
        .rsplit_once('/')
        .map_or(("", file), |(parent, name)| (parent, name));
    // `split` counts with digits and letters, and `csplit` as it is told (`%x`).
    let name = name.split('%').next().unwrap_or_default().to_ascii_lowercase();
    let known = deciding_names().filter(|known| !name.is_empty() && is_part(&name, known));
    known
        .map(|known| {
            if parent.is_empty() {
                known.to_owned()
            } else {
                format!("{parent}/{known}")
            }
        })
        .collect()
}

/// Whether curl puts a name together from parts of an address: `-o '#1' 'http://h/{a,b}'`.
fn curl_composes(arguments: &[&str]) -> bool {
    let has = |is: &dyn Fn(&str) -> bool| arguments.iter().any(|word| is(word));
    let is_numbered = |word: &str| {
        word.match_indices('#')
            .any(|(at, _)| word.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit))
    };
    let from_address = has(&|word| word.starts_with("--rem") || (is_short(word) && word.contains('O')));
    let by_number =
        has(&|word| word.starts_with("--o") || (is_short(word) && word.contains('o'))) && has(&is_numbered);
    has(&|word| word.contains(['{', '['])) && (from_address || by_number)
}

/// An address whose names the other side chooses.
fn is_glob(word: &str) -> bool {
    word.to_ascii_lowercase().starts_with("ftp") && word.contains(['*', '[', '?'])
}
