//! The programs to which words may be given that are known only when they begin, in lists of what is known to be good. To some all words
//! are text (G19): whatever stands in a word, they start nothing, open nothing and write nothing but to their standard output. Others
//! only read (G23): an option or an operand can make them open any file to read, and do no more.

/// To these all words are.
const ALWAYS: &[&str] = &["[", "echo", "test"];

/// These start nothing, load nothing and write nothing but to their standard output, with any options and operands. `diff` (`pr`), `file`
/// (`-C`), `rg` (`--pre`), `sort` (`-o`) and `uniq` (its second operand) are none.
const READING: &[&str] = &[
    "b2sum",
    "basename",
    "cat",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "dirname",
    "du",
    "expand",
    "fold",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nl",
    "od",
    "paste",
    "readlink",
    "realpath",
    "rev",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "stat",
    "sum",
    "tail",
    "tr",
    "unexpand",
    "wc",
];

/// Whether a program only reads, whatever its words are. `names` are all that it goes by.
pub(crate) fn only_reads(names: &[&str]) -> bool {
    !names.is_empty() && names.iter().all(|name| READING.contains(name))
}

/// Whether a program takes every word as text, of which some are known only when it begins. `names` are all that it goes by,
/// `is_known` says of a word by its place among the arguments whether it is known before.
pub(crate) fn takes_text(names: &[&str], arguments: &[&str], is_known: impl Fn(usize) -> bool) -> bool {
    let is_one = |list: &[&str]| names.iter().all(|name| list.contains(name));
    if is_one(ALWAYS) {
        return true;
    }
    // Its format says how many words it takes at a time, and what becomes of them is text.
    let has_format = arguments.first().is_some_and(|format| !format.starts_with('-'));
    is_one(&["printf"]) && has_format && is_known(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_no_more_than_read_reads() {
        assert!(only_reads(&["cat"]));
        assert!(only_reads(&["grep", "grep"]));
        for names in [
            &["cat", "bat"][..],
            &["rg"],
            &["sort"],
            &["uniq"],
            &["diff"],
            &["file"],
            &["sed"],
            &["awk"],
            &["coreutils", "cat"],
            &[],
        ] {
            assert!(!only_reads(names), "{names:?}");
        }
        assert!(READING.is_sorted());
    }

    #[test]
    fn only_what_prints_or_compares_takes_text() {
        let takes = |names: &[&str], arguments: &[&str]| {
            takes_text(names, arguments, |at| arguments.get(at) != Some(&"$?"))
        };
        assert!(takes(&["echo"], &["$?"]));
        assert!(takes(&["echo", "echo"], &["-n", "$?"]));
        assert!(takes(&["["], &["$?", "-eq", "0", "]"]));
        assert!(takes(&["printf"], &["%s", "$?"]));
        for (names, arguments) in [
            (&["cat"][..], &["$?"][..]),
            (&["echo", "sh"], &["$?"]),
            (&["printf"], &["$?", "x"]),
            (&["printf"], &["-v", "$?"]),
            (&["printf"], &[]),
            (&["sed"], &["$?"]),
        ] {
            assert!(!takes(names, arguments), "{names:?} {arguments:?}");
        }
    }
}
