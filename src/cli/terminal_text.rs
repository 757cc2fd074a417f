//! What a terminal may get of text that an agent or its command wrote: nothing that it would obey, nothing hidden.

use std::fmt::Write as _;

use countersign_policy::command::{characters::is_escaped_in_display, display};

/// The same JSON, with every character that must not reach a terminal as an escape of JSON.
///
/// Such characters stand in strings only: the rest of JSON is printable, but for the line breaks between its members.
pub(super) fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !is_escaped_in_display(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(shown, "\\u{unit:04x}").expect("writing to a String cannot fail");
        }
    }
    shown
}

/// Output of a command, piece by piece, for a terminal: lines and tabs stay, everything else that it would obey is
/// spelled out.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The beginning of a character whose rest has not come yet; at most three bytes.
    begun: Vec<u8>,
}

impl Output {
    /// What to show for the next bytes.
    pub(super) fn piece(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let whole = all.len() - unfinished(&all);
        self.begun = all.split_off(whole);
        spelled(&all)
    }

    /// What to show for what was left unfinished at the end.
    pub(super) fn end(self) -> String {
        spelled(&self.begun)
    }
}

/// How many bytes at the end begin a character without ending it.
fn unfinished(bytes: &[u8]) -> usize {
    bytes
        .utf8_chunks()
        .last()
        .map(|chunk| chunk.invalid())
        .filter(|invalid| std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none()))
        .map_or(0, <[u8]>::len)
}

fn spelled(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for part in chunk.valid().split_inclusive(['\n', '\t']) {
            let text = part.trim_end_matches(['\n', '\t']);
            shown.push_str(&display::visible(text));
            shown.push_str(part.get(text.len()..).unwrap_or_default());
        }
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_is_spelled_out_and_keeps_its_lines() {
        let mut output = Output::default();
        assert_eq!(output.piece(b"a\tb\n\x1b]0;x\x07"), "a\tb\n\\u{1B}]0;x\\u{7}");
        assert_eq!(output.piece("\u{202e}".as_bytes()), "\\u{202E}");
        assert_eq!(output.piece(b"\xc3"), "");
        assert_eq!(output.piece(b"\xbc\xff."), "\u{fc}\\xFF.");
        assert_eq!(output.piece(b"\xe2\x82"), "");
        assert_eq!(output.end(), "\\xE2\\x82");
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(text in any::<String>(), bytes in any::<Vec<u8>>(), cut in any::<prop::sample::Index>()) {
            let all = [text.as_bytes(), &bytes].concat();
            let (first, second) = all.split_at(cut.index(all.len() + 1));
            let mut output = Output::default();
            let shown = [output.piece(first), output.piece(second), output.end()].concat();
            prop_assert_eq!(shown, spelled(&all));
        }

        #[test]
        fn escaped_json_says_the_same(text in any::<String>()) {
            let value = serde_json::json!({ "text": text });
            let shown = json(&serde_json::to_string_pretty(&value).unwrap());
            prop_assert!(shown.chars().all(|character| character == '\n' || !is_escaped_in_display(character)));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
