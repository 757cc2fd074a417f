//! UTF-8 that arrives in pieces.

use std::str;

/// Decodes one stream lossily: every maximal invalid part becomes U+FFFD, exactly as
/// [`String::from_utf8_lossy`] does for the whole, wherever the pieces are cut.
#[derive(Debug, Clone, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character whose rest has not come yet: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Decodes the next piece, handing on text as far as it is certain.
    pub fn push(&mut self, bytes: &[u8], mut text: impl FnMut(&str)) {
        let mut rest = self.complete_pending(bytes, &mut text);
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => {
                    if !valid.is_empty() {
                        text(valid);
                    }
                    return;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
                    if let Ok(valid) = str::from_utf8(valid)
                        && !valid.is_empty()
                    {
                        text(valid);
                    }
                    let Some(invalid) = error.error_len() else {
                        self.pending.extend_from_slice(after);
                        return;
                    };
                    text("\u{fffd}");
                    rest = after.get(invalid..).unwrap_or_default();
                }
            }
        }
    }

    /// Takes up a stream in its middle: `before` are the bytes right before it, three of them or as many as there are.
    pub fn take_up(&mut self, before: &[u8]) {
        // A character that began earlier is over by now, whole or not.
        if before.len() >= 3 {
            self.pending.clear();
        }
        self.push(before, |_shown_before| {});
    }

    /// Ends the stream: a character that never became whole is one U+FFFD.
    pub fn finish(&mut self, mut text: impl FnMut(&str)) {
        if !self.pending.is_empty() {
            self.pending.clear();
            text("\u{fffd}");
        }
    }

    /// Adds bytes to the pending character until it is complete; returns what is left of the piece.
    fn complete_pending<'b>(&mut self, bytes: &'b [u8], text: &mut impl FnMut(&str)) -> &'b [u8] {
        let mut rest = bytes;
        while !self.pending.is_empty() {
            let Some((&byte, after)) = rest.split_first() else {
                return rest;
            };
            self.pending.push(byte);
            match str::from_utf8(&self.pending) {
                Ok(character) => {
                    text(character);
                    self.pending.clear();
                    rest = after;
                }
                // The byte does not belong to the character: it is judged again on its own.
                Err(error) if error.error_len().is_some() => {
                    text("\u{fffd}");
                    self.pending.clear();
                }
                Err(_still_incomplete) => rest = after,
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut out = String::new();
        let mut decoder = Utf8Decoder::default();
        for piece in pieces {
            decoder.push(piece, |text| out.push_str(text));
        }
        decoder.finish(|text| out.push_str(text));
        out
    }

    #[test]
    fn characters_survive_every_cut() {
        let text = "aé漢🦀z".as_bytes();
        for cut in 0..=text.len() {
            let (left, right) = text.split_at(cut);
            assert_eq!(decode(&[left, right]), "aé漢🦀z", "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(decode(&bytes), "aé漢🦀z");
    }

    #[test]
    fn an_unfinished_character_is_one_replacement() {
        assert_eq!(decode(&[b"a\xe6\xbc"]), "a\u{fffd}");
        assert_eq!(decode(&[b"\xe6", b"\xbc", b"a"]), "\u{fffd}a");
        assert_eq!(decode(&[b"\xf0\x9f", b"\xc3\xa9"]), "\u{fffd}é");
        assert_eq!(decode(&[b"\xff", b"\xfe"]), "\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn a_stream_that_is_taken_up_anywhere_goes_on_as_if_it_had_been_read_from_its_beginning(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(0xe6), Just(0xbc), Just(0xf0), Just(0x9f), Just(0xa6), Just(b'a')],
                0..60,
            ),
            at in 0_usize..60,
            cut in 0_usize..60,
        ) {
            let at = at.min(bytes.len());
            let cut = cut.min(at);
            let (before, after) = bytes.split_at(at);
            let mut whole = Utf8Decoder::default();
            whole.push(before, |_| {});
            let mut taken_up = Utf8Decoder::default();
            for piece in [&before[..cut], &before[cut..]] {
                taken_up.take_up(&piece[piece.len().saturating_sub(3)..]);
            }
            let mut texts = [String::new(), String::new()];
            whole.push(after, |text| texts[0].push_str(text));
            taken_up.push(after, |text| texts[1].push_str(text));
            prop_assert_eq!(&texts[0], &texts[1]);
        }

        #[test]
        fn pieces_decode_as_the_whole(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(0xe6), Just(0xbc), Just(0xf0), Just(0x9f), Just(0xed), Just(0xa0), Just(b'a')],
                0..200,
            ),
            cuts in prop::collection::vec(1_usize..8, 0..60),
        ) {
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
