//! Text as a person may see it: nothing invisible, nothing that moves (V2, V3).

use std::fmt::Write as _;

use super::characters::is_escaped_in_display;

/// A text in which nothing is hidden from a person.
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
        push_spelled(&mut shown, character);
        if character == '\n' {
            shown.push('\n');
        } else {
            escaped = true;
        }
    }
    Displayed { text: shown, escaped }
}

/// Escapes so that the text can be read back from what is shown: besides what [`escape`] spells out, anything that
/// would be taken for a spelling of ours. Only for a text that is as it was sent; doing it twice spells out what the
/// first time wrote.
pub fn exact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, _) in text.char_indices() {
        push_exact(&mut shown, text.get(at..).unwrap_or_default());
    }
    shown
}

/// Appends the first character of what is left of a text, as [`exact`] shows it.
pub(super) fn push_exact(shown: &mut String, rest: &str) {
    let Some(character) = rest.chars().next() else {
        return;
    };
    if character == '⟨' || rest.starts_with("\\u{") {
        push_spelled(shown, character);
    } else {
        shown.push_str(&escape(character.encode_utf8(&mut [0; 4])).text);
    }
}

fn push_spelled(shown: &mut String, character: char) {
    write!(shown, "\\u{{{:X}}}", u32::from(character)).expect("writing to a String cannot fail");
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

    #[test]
    fn what_looks_like_a_spelling_of_ours_is_spelled_out() {
        assert_eq!(exact("a\\u{A}b"), "a\\u{5C}u{A}b");
        assert_eq!(exact("⟨8 blanks⟩"), "\\u{27E8}8 blanks⟩");
        assert_eq!(exact("a\nb \\u0041 \\n"), "a\\u{A}\nb \\u0041 \\n");
    }

    /// Reads a text back from left to right, as a person could.
    fn read(mut shown: &str) -> String {
        let mut text = String::new();
        while let Some(character) = shown.chars().next() {
            let spelled = shown.strip_prefix("\\u{").and_then(|rest| rest.split_once('}'));
            if let Some((code, rest)) = spelled {
                let character = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
                text.extend(character);
                shown = if character == Some('\n') {
                    rest.strip_prefix('\n').unwrap()
                } else {
                    rest
                };
            } else {
                text.push(character);
                shown = shown.split_at(character.len_utf8()).1;
            }
        }
        text
    }

    proptest! {
        #[test]
        fn two_texts_never_look_the_same(
            text in r"(\\|\\u\{A\}|\\u\{|u\{5C\}|\}|⟨8 blanks⟩|\n|\x1b|[a\u{202e}]){0,12}",
        ) {
            prop_assert_eq!(read(&exact(&text)), text);
        }

        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            let shown = escape(&text).text;
            prop_assert!(shown.chars().all(|c| c == '\n' || !is_escaped_in_display(c)));
        }
    }
}
