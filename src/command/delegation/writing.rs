//! Programs without a grammar that write to files which their words name.

use super::without_version;

/// Any word of these may be a file that is written, or the value of an option that is.
const WRITING: &[&str] = &[
    "7z",
    "chmod",
    "cp",
    "csplit",
    "curl",
    "dd",
    "esbuild",
    "ffmpeg",
    "gcp",
    "ginstall",
    "gln",
    "gmv",
    "gsort",
    "gtee",
    "gzip",
    "iconv",
    "install",
    "javac",
    "ln",
    "mv",
    "pandoc",
    "patch",
    "rsync",
    "rustc",
    "scp",
    "sftp",
    "shuf",
    "sort",
    "split",
    "ssh",
    "ssh-keygen",
    "tee",
    "touch",
    "truncate",
    "uniq",
    "unzip",
    "wget",
    "xxd",
    "yq",
    "zip",
];

/// The words of a call that may be files that it writes, as they stand and without the options before them.
pub(super) fn may_write<'a>(names: &[&str], arguments: &[&'a str]) -> Vec<&'a str> {
    let writes = names
        .iter()
        .any(|name| WRITING.contains(name) || WRITING.contains(&without_version(name)));
    if !writes {
        return Vec::new();
    }
    arguments.iter().flat_map(|word| files_in(word)).collect()
}

/// A word, what stands behind its `=`, and what is glued to an option's letter.
fn files_in(word: &str) -> impl Iterator<Item = &str> {
    let value = word.split_once('=').map(|(_, value)| value);
    let glued = word
        .get(2..)
        .filter(|_| word.starts_with('-') && !word.starts_with("--"));
    let whole = (!word.starts_with('-')).then_some(word);
    whole
        .into_iter()
        .chain(value)
        .chain(glued)
        .filter(|file| !file.is_empty())
}
