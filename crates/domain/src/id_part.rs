//! The beginning or the end of an id, as people type it.

/// The shortest part that stands for an id.
const SHORTEST: usize = 8;

/// Ids of ours are UUIDs; what is as long is no part.
const WHOLE: usize = 36;

/// A text that may be the beginning or the end of an id: of those who have it, it has to fit exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPart(String);

impl IdPart {
    /// The part that an id is, as far as its form says; `None` for an id in full and for too few characters.
    pub fn of(id: &str) -> Option<Self> {
        let is_part = (SHORTEST..WHOLE).contains(&id.len());
        let is_plain = id
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        (is_part && is_plain).then(|| Self(id.to_owned()))
    }

    /// Whether an id begins or ends with it.
    pub fn is_of(&self, id: &str) -> bool {
        id.starts_with(&self.0) || id.ends_with(&self.0)
    }

    /// The text of the part.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What people are shown of an id that begins with its time, such as that of a run: its end, which is an [`IdPart`] of it.
pub fn short_end(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORTEST)..).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_are_shown_stands_for_the_id() {
        let id = "01a20aae-0000-7000-8000-00005afb5d74";
        assert_eq!(short_end(id), "5afb5d74");
        assert!(IdPart::of(short_end(id)).unwrap().is_of(id));
        assert_eq!(short_end("short"), "short");
    }

    #[test]
    fn a_part_is_of_the_ids_that_begin_or_end_with_it() {
        let part = IdPart::of("1a2b3c4d").unwrap();
        assert!(part.is_of("1a2b3c4d-5e6f") && part.is_of("5e6f-1a2b3c4d"));
        assert!(!part.is_of("5e6f-1a2b3c4d-5e6f"));
    }

    #[test]
    fn a_part_is_shorter_than_an_id_and_says_enough() {
        for part in ["1a2b3c4d", "1a2b-3c4d-5e6f", &"a".repeat(35)] {
            assert_eq!(IdPart::of(part).unwrap().as_str(), part);
        }
        for other in [
            "",
            "1a2b3c4",
            &"a".repeat(36),
            "1A2B3C4D",
            "1a2b3c4%",
            "1a2b3c4*",
            "1a2b3c4?",
        ] {
            assert_eq!(IdPart::of(other), None, "{other}");
        }
    }
}
