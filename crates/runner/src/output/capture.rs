//! Bounded, harmless text of a command's two streams.

use countersign_domain::OutputStream;

use super::{TailBuffer, Utf8Decoder, sanitize, sanitize::is_plain_ascii};

/// What follows text that was cut at its end (`docs/spec/exec-tool.md#4-what-the-caller-gets`).
const CUT_MARK: &str = "\n… (truncated)";

/// How much text a [`Capture`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Characters of both streams together that are kept from the beginning (`[output] max_chars`).
    pub max_chars: usize,
    /// Characters that are kept from the end (`[output] tail_chars`).
    pub tail_chars: usize,
}

/// Collects what a command writes. The limits bound its memory, no matter what the command does.
#[derive(Debug, Clone)]
pub struct Capture {
    limits: CaptureLimits,
    aggregated: String,
    stdout: Stream,
    stderr: Stream,
    kept_chars: usize,
    tail: TailBuffer,
    bytes: u64,
}

/// The text of a command's output as answers carry it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// Both streams as they came.
    pub aggregated: String,
    /// Standard output on its own.
    pub stdout: String,
    /// Standard error on its own.
    pub stderr: String,
    /// Whether text was cut.
    pub truncated: bool,
    /// The last characters of both streams, marked when that is not all of them.
    pub tail: String,
    /// Bytes of both streams that came.
    pub bytes: u64,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    decoder: Utf8Decoder,
    text: String,
    cut: bool,
}

impl Capture {
    /// One that has seen nothing yet and keeps text within these limits.
    pub fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            aggregated: String::new(),
            stdout: Stream::default(),
            stderr: Stream::default(),
            kept_chars: 0,
            tail: TailBuffer::new(limits.tail_chars),
            bytes: 0,
        }
    }

    /// Takes the next bytes of a stream. Where they are cut makes no difference.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.decode(stream, |decoder, text| decoder.push(bytes, text));
    }

    /// Ends both streams: a character that never became whole counts as one that cannot be shown.
    pub fn finish(&mut self) {
        self.decode(OutputStream::Stdout, |decoder, text| decoder.finish(text));
        self.decode(OutputStream::Stderr, |decoder, text| decoder.finish(text));
    }

    /// Bytes of both streams that came so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether text was cut so far.
    pub const fn truncated(&self) -> bool {
        self.stdout.cut || self.stderr.cut
    }

    /// The last characters so far: at most `max_chars`, and at most `tail_chars` of the limits.
    pub fn tail(&self, max_chars: usize) -> String {
        self.tail.last(max_chars)
    }

    /// The text so far.
    pub fn captured(&self) -> Captured {
        let Self {
            limits,
            aggregated,
            stdout,
            stderr,
            kept_chars: _,
            tail,
            bytes,
        } = self;
        let truncated = self.truncated();
        Captured {
            aggregated: marked(aggregated, truncated),
            stdout: marked(&stdout.text, stdout.cut),
            stderr: marked(&stderr.text, stderr.cut),
            truncated,
            tail: tail.last(limits.tail_chars),
            bytes: *bytes,
        }
    }

    fn decode(&mut self, stream: OutputStream, run: impl FnOnce(&mut Utf8Decoder, &mut dyn FnMut(&str))) {
        let Self {
            limits,
            aggregated,
            stdout,
            stderr,
            kept_chars,
            tail,
            bytes: _,
        } = self;
        let Stream {
            decoder,
            text: own,
            cut,
        } = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        run(decoder, &mut |decoded| {
            let shown = sanitize(decoded);
            if shown.is_empty() {
                return;
            }
            tail.push(&shown);
            let room = limits.max_chars.saturating_sub(*kept_chars);
            let kept = first_chars(&shown, room);
            *cut |= kept.len() < shown.len();
            *kept_chars += kept.chars().count();
            aggregated.push_str(kept);
            own.push_str(kept);
        });
    }
}

fn marked(text: &str, cut: bool) -> String {
    if cut {
        format!("{text}{CUT_MARK}")
    } else {
        text.to_owned()
    }
}

fn first_chars(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    let end = if is_plain_ascii(text) {
        max_chars
    } else {
        text.char_indices()
            .nth(max_chars)
            .map_or(text.len(), |(at, _)| at)
    };
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAMS: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

    fn capture(max_chars: usize, tail_chars: usize, pieces: &[(OutputStream, &[u8])]) -> Captured {
        let mut capture = Capture::new(CaptureLimits {
            max_chars,
            tail_chars,
        });
        for (stream, bytes) in pieces {
            capture.push(*stream, bytes);
        }
        capture.finish();
        capture.captured()
    }

    #[test]
    fn streams_are_kept_together_and_apart() {
        let out = OutputStream::Stdout;
        let err = OutputStream::Stderr;
        assert_eq!(
            capture(100, 100, &[(out, b"one\n"), (err, b"two\n"), (out, b"three\n")]),
            Captured {
                aggregated: "one\ntwo\nthree\n".to_owned(),
                stdout: "one\nthree\n".to_owned(),
                stderr: "two\n".to_owned(),
                truncated: false,
                tail: "one\ntwo\nthree\n".to_owned(),
                bytes: 14,
            }
        );
    }

    #[test]
    fn streams_share_the_cap_in_order_of_arrival() {
        let out = OutputStream::Stdout;
        let err = OutputStream::Stderr;
        assert_eq!(
            capture(6, 3, &[(out, "äbc".as_bytes()), (err, b"12345"), (out, b"d")]),
            Captured {
                aggregated: "äbc123\n… (truncated)".to_owned(),
                stdout: "äbc\n… (truncated)".to_owned(),
                stderr: "123\n… (truncated)".to_owned(),
                truncated: true,
                tail: "… (truncated) 45d".to_owned(),
                bytes: 10,
            }
        );
    }

    #[test]
    fn output_of_exactly_the_cap_is_whole() {
        let whole = capture(
            3,
            3,
            &[(OutputStream::Stdout, b"abc"), (OutputStream::Stderr, b"\x07")],
        );
        assert_eq!((whole.aggregated.as_str(), whole.truncated), ("abc", false));
        assert_eq!(whole.tail, "abc");
    }

    #[test]
    fn a_character_cut_by_the_other_stream_is_whole() {
        let whole = capture(
            10,
            10,
            &[
                (OutputStream::Stdout, b"\xe6\xbc"),
                (OutputStream::Stderr, b"!"),
                (OutputStream::Stdout, b"\xa2"),
            ],
        );
        assert_eq!(whole.aggregated, "!漢");
        assert_eq!((whole.stdout.as_str(), whole.stderr.as_str()), ("漢", "!"));
    }

    #[test]
    fn nothing_dangerous_gets_through() {
        let text = capture(
            50,
            50,
            &[(OutputStream::Stdout, b"\x1b]0;x\x07a\x00b\xe2\x80\xaec\xff\r\n\t")],
        );
        assert_eq!(text.aggregated, "]0;xabc\u{fffd}\r\n\t");
    }

    fn pieces() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
        let text = "[a-z\n\u{1b}\u{202e}é漢🦀]{0,10}".prop_map(String::into_bytes);
        let bytes = prop::collection::vec(any::<u8>(), 0..10);
        prop::collection::vec((any::<bool>(), prop_oneof![text, bytes]), 0..30)
    }

    proptest! {
        #[test]
        fn chunking_never_changes_the_result(
            pieces in pieces(), size in 1_usize..4, max_chars in 0_usize..80, tail_chars in 0_usize..40,
        ) {
            let stream = |second: bool| STREAMS[usize::from(second)];
            let whole: Vec<_> = pieces.iter().map(|(s, bytes)| (stream(*s), bytes.as_slice())).collect();
            let chopped: Vec<_> =
                whole.iter().flat_map(|(s, bytes)| bytes.chunks(size).map(move |chunk| (*s, chunk))).collect();
            prop_assert_eq!(
                capture(max_chars, tail_chars, &whole),
                capture(max_chars, tail_chars, &chopped)
            );
        }

        #[test]
        fn limits_hold_and_the_parts_agree(
            pieces in pieces(), max_chars in 0_usize..80, tail_chars in 0_usize..40,
        ) {
            let all: Vec<_> =
                pieces.iter().map(|(s, bytes)| (STREAMS[usize::from(*s)], bytes.as_slice())).collect();
            let full = capture(usize::MAX, usize::MAX, &all);
            let cut = capture(max_chars, tail_chars, &all);
            let kept: String = full.aggregated.chars().take(max_chars).collect();
            prop_assert_eq!(cut.truncated, full.aggregated.chars().count() > max_chars);
            prop_assert_eq!(&cut.aggregated, &marked(&kept, cut.truncated));
            prop_assert_eq!(&cut.tail, &super::super::tail(&full.aggregated, tail_chars));
            let own = |text: &str| text.strip_suffix(CUT_MARK).unwrap_or(text).chars().count();
            prop_assert_eq!(own(&cut.stdout) + own(&cut.stderr), kept.chars().count());
            prop_assert!(full.stdout.starts_with(cut.stdout.strip_suffix(CUT_MARK).unwrap_or(&cut.stdout)));
            prop_assert!(full.aggregated.chars().all(super::super::is_plain));
            prop_assert_eq!(cut.bytes, all.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
        }
    }
}
