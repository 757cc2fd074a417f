//! What an edit of a policy file changes, setting by setting and entry by entry, as it is shown to who accepts it.
//!
//! It says nothing about which way a change goes: that is [`crate::pending_change`]. Pure, and bounded for an edit of any
//! size. Entry point: [`Changes`].

/// One setting or entry, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which one, and whose: `every agent: security`.
    pub what: String,
    /// What it was, in words; `None` where it was not there.
    pub before: Option<String>,
    /// What it becomes, in words; `None` where it is not there any more.
    pub after: Option<String>,
}

/// The differences of two contents, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The first of them.
    pub listed: Vec<Change>,
    /// How many more there are.
    pub omitted: u64,
}

/// So many are listed; the others are counted.
pub const MAX_LISTED: usize = 100;
/// So much of a value is shown. A longer one ends with an ellipsis.
pub const MAX_SHOWN_CHARS: usize = 400;

impl Changes {
    /// Notes a setting or entry, unless it is the same.
    pub fn note(&mut self, what: impl Into<String>, before: Option<String>, after: Option<String>) {
        if before == after {
            return;
        }
        if self.listed.len() >= MAX_LISTED {
            self.omitted += 1;
            return;
        }
        let (before, after) = cut_pair(before, after);
        self.listed.push(Change {
            what: cut(what.into()),
            before,
            after,
        });
    }

    /// Whether nothing differs.
    pub const fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

/// Cuts both. Where they begin alike for longer than what is shown, it says that they differ behind it.
fn cut_pair(before: Option<String>, after: Option<String>) -> (Option<String>, Option<String>) {
    let (before, after) = (before.map(cut), after.map(cut));
    let are_alike = before.is_some() && before == after;
    let after = after.map(|text| {
        if are_alike {
            format!("{text} (differs further on)")
        } else {
            text
        }
    });
    (before, after)
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text,
        Some((end, _char)) => {
            let mut shown = text;
            shown.truncate(end);
            shown.push('…');
            shown
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noted(changes: &mut Changes, what: &str, before: Option<&str>, after: Option<&str>) {
        changes.note(what, before.map(str::to_owned), after.map(str::to_owned));
    }

    #[test]
    fn what_is_the_same_is_no_change_and_the_rest_keeps_its_order() {
        let mut changes = Changes::default();
        noted(&mut changes, "a", Some("1"), Some("1"));
        noted(&mut changes, "b", None, None);
        assert!(changes.is_empty());
        noted(&mut changes, "c", Some("1"), None);
        noted(&mut changes, "d", None, Some("2"));
        let told: Vec<_> = changes
            .listed
            .iter()
            .map(|change| {
                (
                    change.what.as_str(),
                    change.before.as_deref(),
                    change.after.as_deref(),
                )
            })
            .collect();
        assert_eq!(told, [("c", Some("1"), None), ("d", None, Some("2"))]);
        assert_eq!(changes.omitted, 0);
    }

    #[test]
    fn values_that_differ_behind_what_is_shown_are_not_shown_as_the_same() {
        let begin = "ä".repeat(MAX_SHOWN_CHARS);
        let mut changes = Changes::default();
        changes.note("x", Some(format!("{begin}1")), Some(format!("{begin}2")));
        let change = &changes.listed[0];
        assert_ne!(change.before, change.after);
        assert!(change.after.as_deref().unwrap().ends_with("(differs further on)"));
    }

    proptest! {
        /// However much changes, the answer stays small and counts all of it.
        #[test]
        fn every_change_is_listed_or_counted(texts in prop::collection::vec((".{0,600}", ".{0,600}"), 0..300)) {
            let mut changes = Changes::default();
            let mut differ = 0;
            for (before, after) in texts {
                differ += u64::from(before != after);
                changes.note("x", Some(before), Some(after));
            }
            prop_assert_eq!(changes.listed.len() as u64 + changes.omitted, differ);
            prop_assert!(changes.listed.len() <= MAX_LISTED);
            for Change { before, after, .. } in &changes.listed {
                prop_assert_ne!(before, after);
                let longest = MAX_SHOWN_CHARS + "… (differs further on)".chars().count();
                prop_assert!(before.iter().chain(after).all(|text| text.chars().count() <= longest));
            }
        }
    }
}
