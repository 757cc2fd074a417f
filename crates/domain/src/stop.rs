//! The emergency stop: who stopped everything, when and why.

use super::{Actor, UnixMillis};

/// Longest reason for a stop or a resume, in characters: that of an answer to a question.
pub const MAX_STOP_REASON_CHARS: usize = 2000;

/// While there is one, nothing starts and nothing is written to what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Who stopped everything; a refusal names them.
    pub by: Actor,
    /// When they did; a refusal says it.
    pub at: UnixMillis,
    /// Why, in their words.
    pub reason: String,
}

impl Stop {
    /// Why something is refused now, for the one who is refused.
    pub fn words(&self) -> String {
        let at = jiff::Timestamp::from_millisecond(self.at.get())
            .map_or_else(|_out_of_range| self.at.get().to_string(), |at| at.to_string());
        format!(
            "everything is stopped since {at}, by {}: {}",
            self.by.name, self.reason
        )
    }
}

/// Whether a text can be the reason for a stop or a resume: it says something, and is no longer than a note.
pub fn is_stop_reason(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= MAX_STOP_REASON_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_who_when_and_why() {
        let stop = Stop {
            by: Actor::system(),
            at: UnixMillis::new(0),
            reason: "keys leaked".to_owned(),
        };
        assert_eq!(
            stop.words(),
            "everything is stopped since 1970-01-01T00:00:00Z, by countersign: keys leaked"
        );
    }

    #[test]
    fn a_reason_says_something_and_ends() {
        assert!(is_stop_reason("x") && is_stop_reason(&"x".repeat(MAX_STOP_REASON_CHARS)));
        assert!(!is_stop_reason(" \n") && !is_stop_reason(&"x".repeat(MAX_STOP_REASON_CHARS + 1)));
    }
}
