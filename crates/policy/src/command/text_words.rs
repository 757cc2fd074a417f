//! The programs to which their words are text (G19), in a list of what is known to be good: whatever stands in a word, they start
//! nothing, open nothing and write nothing but to their standard output.

/// To these all words are.
const ALWAYS: &[&str] = &["[", "echo", "test"];

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
