//! Text as a person may see it: nothing invisible, nothing that moves (V2, V3).

use std::fmt::Write as _;

use super::characters::is_escaped_in_display;

/// Text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displayed {
    /// The text with every hidden character as `\u{HEX}`. A newline is `\u{A}` and a real line break.
    pub text: String,
    /// Whether anything was escaped besides line breaks.
    pub escaped: bool,
}

/// Escapes what a person could not see, or what would change how the rest is shown.
pub fn escape(text: &str) -> Displayed {
    let mut shown = String::with_capacity(text.len());
    let mut escaped = false;
    for character in text.chars() {
        if !is_escaped_in_display(character) {
            shown.push(character);
            continue;
        }
        write!(shown, "\\u{{{:X}}}", u32::from(character)).expect("writing to a String cannot fail");
        if character == '\n' {
            shown.push('\n');
        } else {
            escaped = true;
        }
    }
    Displayed { text: shown, escaped }
}

/// A name or path without anything that hides or moves what is shown beside it.
pub fn visible(text: &str) -> String {
    escape(text).text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(escape("rg ß日 x").text, "rg ß日 x");
        assert_eq!(escape("a\u{202e}b\u{200b}").text, "a\\u{202E}b\\u{200B}");
        assert_eq!(escape("a\nb").text, "a\\u{A}\nb");
        assert!(!escape("a\nb").escaped);
        assert!(escape("a\u{1b}[2K").escaped);
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            let shown = escape(&text).text;
            prop_assert!(shown.chars().all(|c| c == '\n' || !is_escaped_in_display(c)));
        }
    }
}
