//! Characters that must not pass unseen (G10, V2).

use unicode_general_category::{GeneralCategory, get_general_category};

/// Whether a character may not stand anywhere in an analysed command, quoted or not (G10).
///
/// NUL is judged before and apart, because it rejects the request.
pub fn is_forbidden(character: char) -> bool {
    if matches!(character, '\t' | '\n' | ' '..='~') {
        return false;
    }
    is_control(character) || is_invisible(character)
}

/// Whether a character is shown as `\u{HEX}` (V2). Newlines and tabs count.
///
/// What is invisible, or would move the rest, is spelled out. (`docs/spec/command-analysis.md#v2`)
pub fn is_escaped_in_display(character: char) -> bool {
    if matches!(character, ' '..='~') {
        return false;
    }
    is_control(character) || is_invisible(character) || is_selector(character)
}

/// Marks that choose the form of the character before them and are nothing by themselves. They may stand in a command
/// (many emoji have one), but two commands that differ in one must not look the same.
fn is_selector(character: char) -> bool {
    matches!(
        character,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

fn is_control(character: char) -> bool {
    get_general_category(character) == GeneralCategory::Control
}

fn is_invisible(character: char) -> bool {
    let by_category = matches!(
        get_general_category(character),
        GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
    );
    by_category
        || matches!(
            character,
            '\u{a0}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{180e}' | '\u{2000}'
                ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{ffa0}'
                // A letter and a note that have no form of their own.
                | '\u{16fe4}' | '\u{1d159}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_emoji_pass_and_the_unseen_does_not() {
        for character in ['a', 'ß', '日', '☕', '\t', '\n', ' ', 'ａ'] {
            assert!(!is_forbidden(character), "{character:?}");
        }
        for character in [
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{200b}',
            '\u{202e}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e000}',
            '\u{a0}',
            '\u{2800}',
            '\u{3164}',
            '\u{ad}',
            '\u{378}',
            '\u{180e}',
            '\u{16fe4}',
            '\u{1d159}',
        ] {
            assert!(is_forbidden(character), "{character:?}");
            assert!(is_escaped_in_display(character), "{character:?}");
        }
        assert!(is_escaped_in_display('\n'));
    }

    #[test]
    fn selectors_of_variants_are_shown_since_nobody_sees_them() {
        for character in [
            '\u{fe00}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{180b}',
            '\u{180f}',
            '\u{17b4}',
        ] {
            assert!(is_escaped_in_display(character), "{character:?}");
        }
        for character in ['\u{301}', '\u{338}', 'é'] {
            assert!(!is_escaped_in_display(character), "{character:?}");
        }
    }
}
