//! A command as a prompt shows it (V2, V3, V5): nothing hidden, nothing that moves, no secret in the clear, and every
//! place of it known in the text as sent.

use std::{fmt::Write as _, ops::Range};

use super::{characters::is_escaped_in_display, display, redaction, scripts};

/// Up to this many characters are shown whole (V3).
///
/// No tail is hidden: who saw only a part cannot allow. (`docs/spec/command-analysis.md#v3`)
pub(crate) const WHOLE_CHARS: usize = 16_384;
/// This many blanks in a row could push the rest out of sight.
const COLLAPSED_BLANKS: usize = 8;

/// A command for the eyes of a person.
///
/// A command is shown as text, never as markup and never as terminal output. (`docs/spec/command-analysis.md#v4`)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text. A newline is `\u{A}` and a real line break. A literal `\u{` or `⟨` is spelled out, so that anything
    /// that looks like a spelling, a number of blanks or a mask is one.
    pub text: String,
    /// What a person should know about it.
    pub notices: Vec<Notice>,
    pieces: Vec<Piece>,
}

/// Something about the text that a person should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Characters that could hide or move text are spelled out.
    HiddenCharacters,
    /// A word mixes scripts.
    MixedScripts,
    /// Long runs of blanks are shown as their number.
    BlanksCollapsed,
    /// So many secrets are masked.
    SecretsMasked(usize),
    /// So many characters in the middle are not shown.
    Omitted(usize),
}

/// Some of the source, shown together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    source: Range<usize>,
    /// Place in the text shown; `None` when it is left out.
    shown: Option<Range<usize>>,
}

impl Prompt {
    /// Prepares a command, with everything masked that looks like a secret.
    pub fn of(source: &str) -> Self {
        Self::masking(source, redaction::secrets(source))
    }

    /// Prepares a command that was not understood, with every word in the clear: one that looks like a secret may be what
    /// runs (`set -- --token poweroff; shift; "$@"`).
    pub fn unmasked(source: &str) -> Self {
        Self::masking(source, Vec::new())
    }

    /// Prepares a text with these secrets in it, as ranges in order and apart from each other.
    pub(super) fn masking(source: &str, secrets: Vec<Range<usize>>) -> Self {
        let mut drawing = Drawing::new(source, secrets);
        drawing.draw();
        let Drawing {
            drawn,
            secrets,
            has_collapsed,
            ..
        } = drawing;
        let mut notices = Vec::new();
        if source.chars().any(|c| c != '\n' && is_escaped_in_display(c)) {
            notices.push(Notice::HiddenCharacters);
        }
        if scripts::mixes_scripts(source) {
            notices.push(Notice::MixedScripts);
        }
        if has_collapsed {
            notices.push(Notice::BlanksCollapsed);
        }
        if !secrets.is_empty() {
            notices.push(Notice::SecretsMasked(secrets.len()));
        }
        let omitted = omitted_middle(source, &drawn);
        let mut text = String::with_capacity(source.len());
        let mut pieces = Vec::with_capacity(drawn.len());
        for (index, (source, shown)) in drawn.into_iter().enumerate() {
            if let Some((middle, chars)) = &omitted
                && middle.contains(&index)
            {
                if index == middle.start {
                    write!(text, "\n⟨… {chars} characters are not shown …⟩\n")
                        .expect("writing to a String cannot fail");
                }
                pieces.push(Piece { source, shown: None });
                continue;
            }
            let start = text.len();
            text.push_str(&shown);
            pieces.push(Piece {
                source,
                shown: Some(start..text.len()),
            });
        }
        if let Some((_, chars)) = omitted {
            notices.push(Notice::Omitted(chars));
        }
        Self {
            text,
            notices,
            pieces,
        }
    }

    /// Whether the middle is left out; then the whole text must have been opened before an answer.
    pub fn is_truncated(&self) -> bool {
        self.notices
            .iter()
            .any(|notice| matches!(notice, Notice::Omitted(_)))
    }

    /// Where a byte range of the source is in the text shown; `None` when it is no range of it, or an end of it is
    /// left out.
    pub fn shown(&self, source: Range<usize>) -> Option<Range<usize>> {
        let last = source.end.checked_sub(1).filter(|last| *last >= source.start)?;
        let start = self.piece_at(source.start)?.shown.as_ref()?.start;
        let end = self.piece_at(last)?.shown.as_ref()?.end;
        Some(start..end)
    }

    fn piece_at(&self, at: usize) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.source.start <= at);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        piece.source.contains(&at).then_some(piece)
    }
}

/// The pieces to leave out, and how many characters of the source they hold.
fn omitted_middle(source: &str, drawn: &[(Range<usize>, String)]) -> Option<(Range<usize>, usize)> {
    let total = source.chars().count();
    if total <= WHOLE_CHARS {
        return None;
    }
    let chars =
        |piece: &(Range<usize>, String)| source.get(piece.0.clone()).map_or(0, |text| text.chars().count());
    let fitting = |pieces: &mut dyn Iterator<Item = &(Range<usize>, String)>| {
        let (mut count, mut kept) = (0, 0);
        for piece in pieces {
            let with_it = kept + chars(piece);
            if with_it > WHOLE_CHARS / 2 {
                break;
            }
            kept = with_it;
            count += 1;
        }
        (count, kept)
    };
    let (head, head_chars) = fitting(&mut drawn.iter());
    let (tail, tail_chars) = fitting(&mut drawn.iter().rev());
    Some((head..drawn.len() - tail, total - head_chars - tail_chars))
}

/// A text on its way into pieces.
struct Drawing<'a> {
    source: &'a str,
    secrets: Vec<Range<usize>>,
    drawn: Vec<(Range<usize>, String)>,
    has_collapsed: bool,
}

impl<'a> Drawing<'a> {
    fn new(source: &'a str, secrets: Vec<Range<usize>>) -> Self {
        Self {
            source,
            secrets,
            drawn: Vec::with_capacity(source.len()),
            has_collapsed: false,
        }
    }

    fn draw(&mut self) {
        let mut at = 0;
        let secrets = self.secrets.clone();
        for secret in secrets {
            self.draw_plain(at..secret.start);
            let chars = self
                .source
                .get(secret.clone())
                .map_or(0, |text| text.chars().count());
            at = secret.end;
            self.drawn.push((secret, redaction::mask(chars)));
        }
        self.draw_plain(at..self.source.len());
    }

    fn draw_plain(&mut self, range: Range<usize>) {
        let text = self.source.get(range.clone()).unwrap_or_default();
        let mut rest = text.char_indices().peekable();
        while let Some((at, character)) = rest.next() {
            let from = range.start + at;
            let after = text.get(at..).unwrap_or_default();
            let run = after.len() - after.trim_start_matches(is_blank).len();
            if run >= COLLAPSED_BLANKS {
                let blanks = after.get(..run).unwrap_or_default();
                let line_break = if blanks.contains('\n') { "\n" } else { "" };
                self.drawn
                    .push((from..from + run, format!("⟨{run} blanks⟩{line_break}")));
                self.has_collapsed = true;
                while rest.next_if(|(next, _)| *next < at + run).is_some() {}
                continue;
            }
            let mut shown = String::new();
            display::push_exact(&mut shown, after);
            self.drawn.push((from..from + character.len_utf8(), shown));
        }
    }
}

const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_blanks_are_a_number_and_short_ones_are_not() {
        let prompt = Prompt::of("ls        rm -rf /");
        assert_eq!(prompt.text, "ls⟨8 blanks⟩rm -rf /");
        assert_eq!(prompt.notices, [Notice::BlanksCollapsed]);
        assert_eq!(Prompt::of("ls       x").text, "ls       x");
        let lines = Prompt::of(&format!("ls{}rm", "\n".repeat(100)));
        assert_eq!(lines.text, "ls⟨100 blanks⟩\nrm");
    }

    #[test]
    fn secrets_are_masked_and_what_stands_around_them_is_not() {
        let prompt = Prompt::of("curl -H 'Authorization: Bearer abcdef12345' x");
        assert_eq!(
            prompt.text,
            "curl -H 'Authorization: Bearer ⟨secret of 11 characters⟩' x"
        );
        assert_eq!(prompt.notices, [Notice::SecretsMasked(1)]);
    }

    #[test]
    fn a_text_that_was_not_understood_keeps_every_word() {
        let text = "set -- --token whoami; shift; \"$@\"";
        assert_eq!(Prompt::unmasked(text).text, text);
        assert_eq!(Prompt::unmasked(text).notices, []);
    }

    #[test]
    fn what_is_written_like_our_marks_is_told_from_them() {
        assert_eq!(Prompt::of("a\\u{A}b").text, "a\\u{5C}u{A}b");
        assert_eq!(
            Prompt::of("⟨8 blanks⟩ ⟨secret of 6 characters⟩").text,
            "\\u{27E8}8 blanks⟩ \\u{27E8}secret of 6 characters⟩"
        );
        let prompt = Prompt::of("\\u{A} && ls");
        assert_eq!(
            prompt.shown(9..11).and_then(|place| prompt.text.get(place)),
            Some("ls")
        );
    }

    #[test]
    fn look_alikes_are_flagged() {
        assert_eq!(Prompt::of("c\u{430}t x").notices, [Notice::MixedScripts]);
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_says_how_much_is_missing() {
        let whole = "x".repeat(WHOLE_CHARS);
        assert_eq!(Prompt::of(&whole).text, whole);
        let long = format!("head {} tail", "y".repeat(20_000));
        let prompt = Prompt::of(&long);
        assert!(prompt.is_truncated());
        assert!(prompt.text.starts_with("head y") && prompt.text.ends_with("y tail"));
        assert!(prompt.text.contains("… 3626 characters are not shown …"));
        let tail = prompt.shown(long.len() - 4..long.len()).unwrap();
        assert_eq!(prompt.text.get(tail), Some("tail"));
        assert_eq!(prompt.shown(0..10_000), None);
    }

    #[test]
    fn the_exact_number_counts_characters_of_the_source() {
        let prompt = Prompt::of(&"\u{202e}".repeat(WHOLE_CHARS + 1));
        assert_eq!(prompt.notices, [Notice::HiddenCharacters, Notice::Omitted(1)]);
    }

    /// Reads the text back from what is shown of each piece, as a person could who knows the five forms.
    fn read_back(source: &str) -> String {
        let prompt = Prompt::of(source);
        let secrets = redaction::secrets(source);
        let mut text = String::new();
        for Piece { source: place, shown } in &prompt.pieces {
            assert_eq!(text.len(), place.start, "nothing is left out between two pieces");
            let raw = source.get(place.clone()).unwrap();
            let Some(shown) = shown else {
                // Left out in the middle of a long text, and counted.
                text.push_str(raw);
                continue;
            };
            let shown = prompt.text.get(shown.clone()).unwrap();
            if secrets.contains(place) {
                assert_eq!(shown, format!("⟨secret of {} characters⟩", raw.chars().count()));
                assert!(
                    !raw.contains(['\n', ' ', ';', '|', '&', '$', '`', '(', '<', '>']),
                    "{raw:?}"
                );
                text.push_str(raw);
            } else if let Some(count) = shown
                .strip_prefix('⟨')
                .and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok())
            {
                assert!(raw.len() == count && raw.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n')));
                text.push_str(raw);
            } else if let Some(escaped) = shown.strip_prefix("\\u{") {
                let code = u32::from_str_radix(escaped.split('}').next().unwrap(), 16).unwrap();
                text.push(char::from_u32(code).unwrap());
            } else {
                text.push_str(shown);
            }
        }
        text
    }

    #[test]
    fn a_long_text_reads_back_from_its_ends_and_what_is_counted() {
        for text in ["echo a; ", "\u{202e}x\n", "--token=abcdef1 ", "          y"] {
            let long = text.repeat(WHOLE_CHARS / text.chars().count() + 10);
            assert_eq!(read_back(&long), long);
        }
    }

    proptest! {
        /// Every byte that a shell gets stands in what is shown, or in a place that says how many do not.
        #[test]
        fn what_is_shown_reads_back_as_the_text(
            text in "(?s)(?:.{0,12}|\\\\u\\{A\\}|⟨8 blanks⟩|\\\\|[ \t\n]{0,20}|--token=[A-Za-z0-9]{6,12}|[\u{200b}\u{202e}\u{e000}\u{301}\u{fe0f}]{1,3}){0,12}",
        ) {
            prop_assert_eq!(read_back(&text), text);
        }

        #[test]
        fn nothing_hidden_is_left_and_every_range_has_its_place(text in "(?s)[ -~\\n\\t\u{202e}\u{200b}é日]{0,60}") {
            let prompt = Prompt::of(&text);
            prop_assert!(prompt.text.chars().all(|c| c == '\n' || !is_escaped_in_display(c)));
            for (at, character) in text.char_indices() {
                let place = prompt.shown(at..at + character.len_utf8());
                prop_assert!(place.is_some_and(|place| prompt.text.get(place).is_some()));
            }
            prop_assert_eq!(prompt.shown(text.len()..text.len() + 1), None);
        }
    }
}
