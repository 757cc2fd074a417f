//! Shells with a payload that can be analysed (S1).

use super::inline_eval::is_input;

/// The words of an accepted call of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PayloadCall {
    /// Index of the payload among the arguments; it is the last.
    pub payload: usize,
}

/// Why a shell's arguments are not an accepted payload call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusedCall {
    /// No `-c`: a script, or standard input.
    NoPayload,
    /// Options that read start-up files, trace, or are not known.
    Options,
    /// Words behind the payload.
    Positional,
}

/// Reads the arguments of `sh`, `bash` or `dash`.
///
/// # Errors
/// [`RefusedCall`] when they are anything but accepted options and one payload.
pub(crate) fn payload_call(arguments: &[&str]) -> Result<PayloadCall, RefusedCall> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        match *word {
            "--norc" | "--noprofile" | "--posix" => at += 1,
            "-o" => match arguments.get(at + 1) {
                Some(&("pipefail" | "errexit" | "nounset")) => at += 2,
                _ => return Err(RefusedCall::Options),
            },
            word => {
                let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                    return Err(refusal_without_payload(word));
                };
                if !letters
                    .bytes()
                    .all(|letter| matches!(letter, b'e' | b'u' | b'f' | b'c'))
                {
                    return Err(RefusedCall::Options);
                }
                at += 1;
                if letters.contains('c') {
                    return match arguments.len() - at {
                        0 => Err(RefusedCall::NoPayload),
                        1 if arguments
                            .get(at)
                            .is_some_and(|payload| payload.starts_with(['-', '+'])) =>
                        {
                            Err(RefusedCall::Options)
                        }
                        1 => Ok(PayloadCall { payload: at }),
                        _ => Err(RefusedCall::Positional),
                    };
                }
            }
        }
    }
    Err(RefusedCall::NoPayload)
}

/// Whether a shell may take its commands from standard input: no operand is certainly a script, and no option has the
/// text. `is_understood` is whether the options are those of `sh`, `bash` and `dash`; of others few are known.
pub(crate) fn reads_input(arguments: &[&str], is_understood: bool) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if matches!(*word, "-" | "--") {
            return words.next().is_none_or(|script| is_input(script));
        }
        let Some(letters) = word.strip_prefix(['-', '+']) else {
            return is_input(word);
        };
        let holds_text = word.starts_with('-')
            && (letters.starts_with("-comm") || (!letters.starts_with('-') && letters.contains('c')));
        if holds_text {
            return false;
        }
        if is_understood && !letters.starts_with('-') {
            if letters.contains('s') {
                return true;
            }
            for _ in letters.matches(['o', 'O']) {
                words.next();
            }
        } else if is_understood {
            if matches!(letters, "-rcfile" | "-init-file") {
                words.next();
            }
        } else if letters.contains(|letter| !"efilnuvx".contains(letter)) {
            return true;
        }
    }
    true
}

fn refusal_without_payload(word: &str) -> RefusedCall {
    if word.starts_with('+') {
        RefusedCall::Options
    } else {
        RefusedCall::NoPayload
    }
}

/// Whether a shell may take the next word as text to run.
pub(crate) fn is_text_option(word: &str) -> bool {
    let is_cluster = word.starts_with('-') && !word.starts_with("--") && word.contains(['c', 'C']);
    is_cluster || word.eq_ignore_ascii_case("/c") || word.starts_with("--comm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[&str], expected: Result<usize, RefusedCall>) {
        assert_eq!(payload_call(line).map(|call| call.payload), expected, "{line:?}");
    }

    #[test]
    fn only_plain_payload_calls_are_accepted() {
        check(&["-c", "x"], Ok(1));
        check(&["-ec", "x"], Ok(1));
        check(&["--norc", "-e", "-o", "pipefail", "-c", "x"], Ok(5));
        check(&[], Err(RefusedCall::NoPayload));
        check(&["script"], Err(RefusedCall::NoPayload));
        check(&["-"], Err(RefusedCall::NoPayload));
        check(&["-c"], Err(RefusedCall::NoPayload));
        check(&["-lc", "x"], Err(RefusedCall::Options));
        check(&["-crg"], Err(RefusedCall::Options));
        check(&["-c", "--", "x"], Err(RefusedCall::Positional));
        check(&["-c", "-x"], Err(RefusedCall::Options));
        check(&["-c", "x", "y"], Err(RefusedCall::Positional));
        check(&["-o", "xtrace", "-c", "x"], Err(RefusedCall::Options));
        check(&["--rcfile", "y", "-c", "x"], Err(RefusedCall::Options));
        check(&["+e", "-c", "x"], Err(RefusedCall::Options));
    }

    #[test]
    fn commands_from_standard_input_are_told() {
        for line in [
            "",
            "-",
            "--",
            "-s x",
            "+e",
            "-o pipefail",
            "-O extglob",
            "-eo pipefail",
            "--rcfile x",
            "--norc",
            "/dev/stdin",
            "/proc/self/fd/0",
            "-e -- -",
            "+o errexit -i",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(reads_input(&words, true), "{line}");
            assert!(reads_input(&words, false), "{line}");
        }
        for line in [
            "x",
            "-e x",
            "-o pipefail x",
            "-lc x",
            "-- x",
            "-eo pipefail x y",
            "--rcfile y x",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(!reads_input(&words, true), "{line}");
        }
        assert!(reads_input(&["-d", "3"], false));
        assert!(!reads_input(&["-x", "script"], false));
        assert!(!reads_input(&["--command", "x"], false));
    }
}
