//! Names of sessions: short, easy to read out, and not alike.

use uuid::Uuid;

const FIRST: [&str; 64] = [
    "amber", "ample", "azure", "basic", "bold", "brave", "brisk", "broad", "calm", "clear", "clever",
    "coral", "crisp", "daily", "deep", "dusty", "eager", "early", "easy", "fair", "fast", "firm", "fresh",
    "gentle", "giant", "glad", "grand", "green", "handy", "happy", "humble", "ivory", "jolly", "keen",
    "kind", "large", "lively", "lucky", "mellow", "merry", "mild", "misty", "noble", "olive", "plain",
    "proud", "quick", "quiet", "rapid", "rosy", "royal", "sandy", "sharp", "silver", "smooth", "solid",
    "steady", "sunny", "swift", "tidy", "vivid", "warm", "wide", "witty",
];

const SECOND: [&str; 64] = [
    "acorn", "anchor", "apple", "arrow", "badger", "basin", "beacon", "birch", "bridge", "canyon", "cedar",
    "cliff", "cloud", "comet", "copper", "creek", "delta", "eagle", "ember", "falcon", "fern", "field",
    "forest", "garden", "glacier", "grove", "harbor", "hazel", "heron", "hill", "island", "juniper", "lake",
    "lantern", "maple", "marsh", "meadow", "meteor", "otter", "pebble", "pepper", "pine", "planet", "pond",
    "prairie", "quarry", "raven", "reef", "ridge", "river", "robin", "sail", "sparrow", "spruce", "stone",
    "summit", "thistle", "tiger", "timber", "tulip", "valley", "walnut", "willow", "zebra",
];

/// A name made of something random. After many attempts in vain it is a longer one.
pub(super) fn name(random: Uuid, attempt: u32) -> String {
    let (high, low) = random.as_u64_pair();
    let word = |words: &[&'static str; 64], bits: u64| {
        let index = usize::try_from(bits % 64).unwrap_or(0);
        words.get(index).copied().unwrap_or("session")
    };
    // Bits that say the version of a UUID are the same in all; these are not among them.
    let (first, second) = (word(&FIRST, high >> 58), word(&SECOND, high >> 52));
    let number = (low >> 8) % if attempt < 16 { 1000 } else { 1_000_000_000 };
    format!("{first}-{second}-{number}")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use countersign_sys::clock::SystemIds;

    use super::*;
    use crate::process::ProcessState;

    #[test]
    fn every_word_is_there_once_and_plain() {
        let words: BTreeSet<&str> = FIRST.into_iter().chain(SECOND).collect();
        assert_eq!(words.len(), 128);
        assert!(
            words
                .iter()
                .all(|word| word.bytes().all(|b| b.is_ascii_lowercase()))
        );
    }

    #[test]
    fn names_are_ids_and_no_two_sessions_share_one() {
        let state = ProcessState::new(Arc::new(SystemIds));
        let names: BTreeSet<String> = (0..5000).map(|_| state.new_name()).collect();
        assert_eq!(names.len(), 5000);
        for name in &names {
            assert_eq!(name.split('-').count(), 3, "{name}");
            assert!(name.len() <= 24, "{name}");
        }
    }

    #[test]
    fn a_taken_name_is_given_again_only_when_its_session_is_gone() {
        let random = Uuid::from_u128(7 << 64);
        let first = name(random, 0);
        let state = ProcessState::new(Arc::new(SystemIds));
        state.take(first.clone());
        assert!(state.names.lock().unwrap().contains(&first));
        state.release(&first);
        assert!(!state.names.lock().unwrap().contains(&first));
    }
}
