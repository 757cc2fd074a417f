//! Which characters of a command's output may be shown.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Whether a character may stand in text that is shown: everything but control characters other than tab,
/// line feed and carriage return, and Unicode format characters, which reorder or hide what is around them.
pub fn is_plain(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | ' '..='~' => true,
        _ => !character.is_control() && !matches!(get_general_category(character), GeneralCategory::Format),
    }
}

/// Bytes that are looked at together.
const CHUNK: usize = 32;

/// The text without the characters that [`is_plain`] refuses. Borrows when there is nothing to remove.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if is_plain_ascii(text) || text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    if !text.is_ascii() {
        return Cow::Owned(text.chars().filter(|&character| is_plain(character)).collect());
    }
    // Of ASCII what stays and what goes comes in runs: colours are a few bytes among many, and binary data is long.
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (run, after) = rest.split_at(leading(rest, is_plain_byte));
        kept.push_str(run);
        rest = after.split_at(leading(after, |byte| !is_plain_byte(byte))).1;
    }
    Cow::Owned(kept)
}

/// Whether every byte is printable ASCII or one of the three kept controls: then characters are bytes.
pub(super) fn is_plain_ascii(text: &str) -> bool {
    leading(text, is_plain_byte) == text.len()
}

/// How many bytes at the beginning are all of a kind.
fn leading(text: &str, is: impl Fn(u8) -> bool) -> usize {
    // Nothing leaves a chunk early, so that the processor looks at many bytes at once: all output passes here.
    let all_are = |chunk: &&[u8; CHUNK]| chunk.iter().fold(true, |all, byte| all & is(*byte));
    let whole = text.as_bytes().as_chunks().0.iter().take_while(all_are).count() * CHUNK;
    let rest = text.as_bytes().get(whole..).unwrap_or_default();
    let more = rest.iter().position(|byte| !is(*byte));
    whole + more.unwrap_or(rest.len())
}

/// Printable ASCII or one of the three kept controls.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches and tables the processor looks at many bytes at once"
)]
const fn is_plain_byte(byte: u8) -> bool {
    (byte >= b' ') & (byte <= b'~') | (byte == b'\t') | (byte == b'\n') | (byte == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        assert_eq!(sanitize(input), expect, "{input:?}");
    }

    #[test]
    fn control_and_format_characters_are_removed() {
        check("", "");
        check("a\tb\nc\rd", "a\tb\nc\rd");
        for place in [0, 63, 64, 65, 127, 199] {
            let mut text = "x".repeat(200);
            text.insert(place, '\u{7}');
            check(&text, &"x".repeat(200));
        }
        check("\u{1b}[31mred\u{1b}[0m", "[31mred[0m");
        check("a\u{0}b\u{7}c\u{8}d\u{7f}e\u{9b}f", "abcdef");
        check(&"\0".repeat(200), "");
        check(&format!("{}é", "\0".repeat(63)), "é");
        check(
            &format!("{}é\u{9b}", "a\0".repeat(63)),
            &format!("{}é", "a".repeat(63)),
        );
        check("evil\u{202e}txt.exe", "eviltxt.exe");
        check(
            "a\u{200b}b\u{200d}c\u{feff}d\u{ad}e\u{2066}f\u{e0041}g",
            "abcdefg",
        );
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_may_be_shown(text in "[a-z\n\u{0}\u{1b}\u{9b}\u{202e}é漢🦀]{0,300}") {
            let kept: String = text.chars().filter(|&character| is_plain(character)).collect();
            prop_assert_eq!(sanitize(&text), kept);
        }
    }

    #[test]
    fn letters_of_every_script_stay() {
        check(
            "grüße 漢字 🦀 e\u{301} \u{fffd}",
            "grüße 漢字 🦀 e\u{301} \u{fffd}",
        );
        check("\u{2028}\u{a0}", "\u{2028}\u{a0}");
    }

    #[test]
    fn harmless_text_is_borrowed() {
        assert!(matches!(sanitize("ünïcode"), Cow::Borrowed(_)));
        assert!(matches!(sanitize("\u{7}"), Cow::Owned(_)));
    }
}
