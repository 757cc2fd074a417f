//! How arguments are written as text, and how much of an output travels (`docs/spec/bridge.md#91-systemrun` and
//! `docs/spec/bridge.md#92-caps`). Both ends use the same functions.

/// Most bytes of both streams together in a result.
pub const MAX_RESULT_BYTES: usize = 200_000;
/// Most characters of the output in an event.
pub(crate) const MAX_EVENT_CHARS: usize = 20_000;

const RESULT_CUT: &str = "\n... (truncated)";
const EVENT_CUT: &str = "... (truncated) ";

/// Arguments as one text: joined by blanks; quoted where empty, or with white space or a double quote.
pub fn format_argv<S: AsRef<str>>(argv: &[S]) -> String {
    let words: Vec<String> = argv.iter().map(|word| format_argument(word.as_ref())).collect();
    words.join(" ")
}

fn format_argument(argument: &str) -> String {
    let is_plain = !argument.is_empty()
        && !argument
            .chars()
            .any(|character| character == '"' || is_script_blank(character));
    if is_plain {
        argument.to_owned()
    } else {
        format!("\"{}\"", argument.replace('"', "\\\""))
    }
}

/// White space as the products' language has it.
const fn is_script_blank(character: char) -> bool {
    character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}')
}

/// Both streams of a result, cut to what travels. The first bytes are kept; a cut is told on stderr when that has
/// visible text, else on stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CappedStreams {
    /// What was written to stdout.
    pub stdout: String,
    /// What was written to stderr.
    pub stderr: String,
    /// Whether something is missing.
    pub truncated: bool,
}

impl CappedStreams {
    /// What two streams become that were collected in the order of arrival up to [`MAX_RESULT_BYTES`] together;
    /// `truncated` says whether there was more.
    pub fn of_collected(stdout: String, stderr: String, truncated: Truncated) -> Self {
        let mut streams = Self {
            stdout,
            stderr,
            truncated: truncated == Truncated::Yes,
        };
        if streams.truncated {
            let place = if streams.stderr.trim().is_empty() {
                &mut streams.stdout
            } else {
                &mut streams.stderr
            };
            place.push_str(RESULT_CUT);
        }
        streams
    }

    /// The same for two whole streams whose order is not known: stdout counts first.
    pub fn of_whole(stdout: &str, stderr: &str) -> Self {
        let (kept_stdout, kept_stderr) = first_of_both(stdout, stderr);
        let is_cut = kept_stdout.len() < stdout.len() || kept_stderr.len() < stderr.len();
        let truncated = if is_cut { Truncated::Yes } else { Truncated::No };
        Self::of_collected(kept_stdout.to_owned(), kept_stderr.to_owned(), truncated)
    }

    /// What a node sent, as it goes on to the asker: as it is, and cut again only where it is longer than a result may
    /// be. `truncated` says whether something was left out since it came.
    pub fn of_sent(stdout: &str, stderr: &str, truncated: Truncated) -> Self {
        let is_marked = stdout.ends_with(RESULT_CUT) || stderr.ends_with(RESULT_CUT);
        let mark = if is_marked { RESULT_CUT.len() } else { 0 };
        if stdout.len() + stderr.len() > MAX_RESULT_BYTES + mark {
            let (stdout, stderr) = first_of_both(stdout, stderr);
            return Self::of_collected(stdout.to_owned(), stderr.to_owned(), Truncated::Yes);
        }
        if is_marked {
            return Self {
                stdout: stdout.to_owned(),
                stderr: stderr.to_owned(),
                truncated: true,
            };
        }
        Self::of_collected(stdout.to_owned(), stderr.to_owned(), truncated)
    }
}

/// The first of both streams that a result takes, stdout before stderr.
fn first_of_both<'a>(stdout: &'a str, stderr: &'a str) -> (&'a str, &'a str) {
    let stdout = cut(stdout, MAX_RESULT_BYTES);
    (stdout, cut(stderr, MAX_RESULT_BYTES - stdout.len()))
}

/// Whether something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncated {
    /// All of it is there.
    No,
    /// Something is missing.
    Yes,
}

/// The `output` of an event: stdout, stderr and error joined by line ends, trimmed, and the last
/// [`MAX_EVENT_CHARS`] characters of it when it is longer. Characters are counted as the products do, by UTF-16 unit.
pub fn event_output(stdout: &str, stderr: &str, error: Option<&str>) -> String {
    let parts: Vec<&str> = [stdout, stderr, error.unwrap_or_default()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let joined = parts.join("\n");
    let joined = joined.trim();
    let units: usize = joined.chars().map(char::len_utf16).sum();
    if units <= MAX_EVENT_CHARS {
        return joined.to_owned();
    }
    let mut left = MAX_EVENT_CHARS;
    let tail_bytes: usize = joined
        .chars()
        .rev()
        .map_while(|character| {
            left = left.checked_sub(character.len_utf16())?;
            Some(character.len_utf8())
        })
        .sum();
    let tail = joined.get(joined.len() - tail_bytes..).unwrap_or_default();
    format!("{EVENT_CUT}{tail}")
}

/// The longest beginning of at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_written_as_both_products_do() {
        let cases: &[(&[&str], &str)] = &[
            (&["echo", "hi"], "echo hi"),
            (&["echo", ""], "echo \"\""),
            (
                &["/bin/sh", "-lc", "echo \"a b\""],
                r#"/bin/sh -lc "echo \"a b\"""#,
            ),
            (&["a\tb", "c\"d"], "\"a\tb\" \"c\\\"d\""),
            (&["a'b", "$x", "é"], "a'b $x é"),
            (&["a\u{a0}b"], "\"a\u{a0}b\""),
            (&[], ""),
        ];
        for (argv, expect) in cases {
            assert_eq!(format_argv(argv), *expect);
        }
    }

    #[test]
    fn a_result_keeps_the_first_bytes_and_says_that_it_was_cut() {
        let long = "a".repeat(MAX_RESULT_BYTES + 1);
        let capped = CappedStreams::of_whole(&long, "");
        assert_eq!(capped.stdout.len(), 200_016);
        assert!(capped.stdout.ends_with("a\n... (truncated)"));
        assert!(capped.truncated && capped.stderr.is_empty());

        let half = "a".repeat(150_000);
        let capped = CappedStreams::of_whole(&half, &"b".repeat(60_000));
        assert_eq!(capped.stdout.len(), 150_000);
        assert_eq!(capped.stderr.len(), 50_016);
        assert!(capped.stderr.ends_with("b\n... (truncated)"));

        let exact = CappedStreams::of_whole(&"a".repeat(MAX_RESULT_BYTES), "");
        assert_eq!((exact.stdout.len(), exact.truncated), (MAX_RESULT_BYTES, false));
    }

    #[test]
    fn what_a_node_cut_goes_on_as_it_is() {
        let sent = |stdout: &str, stderr: &str, truncated| {
            let streams = CappedStreams::of_sent(stdout, stderr, truncated);
            (streams.stdout, streams.stderr, streams.truncated)
        };
        let is = |stdout: &str, stderr: &str, truncated| (stdout.to_owned(), stderr.to_owned(), truncated);
        let many = "a".repeat(MAX_RESULT_BYTES);
        let marked = format!("{many}{RESULT_CUT}");
        for truncated in [Truncated::No, Truncated::Yes] {
            assert_eq!(sent(&marked, "", truncated), is(&marked, "", true));
            let half = "a".repeat(150_000);
            let cut = format!("{}{RESULT_CUT}", "b".repeat(50_000));
            assert_eq!(sent(&half, &cut, truncated), is(&half, &cut, true));
        }
        assert_eq!(
            sent("\u{1b}[1mx", "y", Truncated::No),
            is("\u{1b}[1mx", "y", false)
        );
        // What was left out here is told, and so is what no node should send.
        assert_eq!(
            sent("x", "", Truncated::Yes),
            is(&format!("x{RESULT_CUT}"), "", true)
        );
        let more = format!("{many}aa");
        assert_eq!(sent(&more, "", Truncated::No), is(&marked, "", true));
        let again = format!("{more}{RESULT_CUT}");
        assert_eq!(sent(&again, "", Truncated::No), is(&marked, "", true));
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let capped = CappedStreams::of_whole(&format!("a{}", "é".repeat(100_000)), "");
        assert_eq!(capped.stdout.len(), 199_999 + RESULT_CUT.len());
    }

    #[test]
    fn an_event_has_the_last_of_the_output() {
        assert_eq!(event_output("out\n", "err\n", None), "out\n\nerr");
        assert_eq!(event_output("", "", Some("spawn x ENOENT")), "spawn x ENOENT");
        let long = format!("x{}", "a".repeat(MAX_EVENT_CHARS));
        let cut = event_output(&long, "", None);
        assert_eq!(cut, format!("... (truncated) {}", "a".repeat(MAX_EVENT_CHARS)));
        let wide = event_output(&"😀".repeat(10_001), "", None);
        assert_eq!(wide, format!("... (truncated) {}", "😀".repeat(10_000)));
    }
}
