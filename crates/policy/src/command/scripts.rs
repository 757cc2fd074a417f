//! Words that mix scripts, as look-alikes do (V2): a Cyrillic `а` in `cаt`.

use std::collections::BTreeSet;

/// Blocks of one script, by their bounds. What natural writing mixes (kana, hangul and ideographs) counts as one.
const BLOCKS: &[(u32, u32, u8)] = &[
    (0x0041, 0x005a, LATIN),
    (0x0061, 0x007a, LATIN),
    (0x00aa, 0x02af, LATIN),
    (0x0370, 0x03ff, 2),
    (0x0400, 0x052f, CYRILLIC),
    (0x1c80, 0x1c8f, CYRILLIC),
    (0x1d00, 0x1dbf, LATIN),
    (0x1e00, 0x1eff, LATIN),
    (0x1f00, 0x1fff, 2),
    (0x2c60, 0x2c7f, LATIN),
    (0x2de0, 0x2dff, CYRILLIC),
    (0x2e80, 0x2fdf, EAST_ASIAN),
    (0x3040, 0x31ff, EAST_ASIAN),
    (0x3400, 0x9fff, EAST_ASIAN),
    (0xa640, 0xa69f, CYRILLIC),
    (0xa720, 0xa7ff, LATIN),
    (0xa960, 0xa97f, EAST_ASIAN),
    (0xab30, 0xab6f, LATIN),
    (0xac00, 0xd7ff, EAST_ASIAN),
    (0xf900, 0xfaff, EAST_ASIAN),
    (0xff66, 0xffdc, EAST_ASIAN),
    (0x20000, 0x3ffff, EAST_ASIAN),
];
const LATIN: u8 = 1;
const CYRILLIC: u8 = 3;
const EAST_ASIAN: u8 = 4;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Script {
    Known(u8),
    /// Any other, by its place: blocks of 128 hold one script.
    Block(u32),
}

/// Whether a word of the text has letters of more than one script.
pub(crate) fn mixes_scripts(text: &str) -> bool {
    !text.is_ascii()
        && text
            .split(|character: char| !character.is_alphanumeric())
            .any(|word| word.chars().filter_map(script).collect::<BTreeSet<_>>().len() > 1)
}

fn script(character: char) -> Option<Script> {
    if !character.is_alphabetic() {
        return None;
    }
    let code = u32::from(character);
    let known = BLOCKS
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&code));
    Some(known.map_or(Script::Block(code >> 7), |(_, _, script)| Script::Known(*script)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_noticed_and_foreign_words_are_not() {
        for mixed in [
            "c\u{430}t",
            "ls \u{3bf}k",
            "a\u{ff42}",
            "\u{13aa}pple",
            "x\u{1d41a}",
        ] {
            assert!(mixes_scripts(mixed), "{mixed}");
        }
        for plain in [
            "cat",
            "Grüße straße",
            "привет мир",
            "日本語テキスト",
            "αβγ abc",
            "v1.2 файл2",
            "☕ x",
        ] {
            assert!(!mixes_scripts(plain), "{plain}");
        }
    }
}
