//! Who proposed what of a change that is held, where it takes two people to widen the policy
//! (`docs/spec/settings.md#2-countersigntoml`, `[approvals] widening`). Pure. Entry point: [`Proposals::note`].

use serde::{Deserialize, Serialize};

use countersign_domain::Actor;

use super::pending_change::MAX_LINES;

/// How many people are remembered. When there are that many nobody can accept before one of them takes their part
/// back.
const MAX_PEOPLE: usize = 100;

/// The parts of what is held, by who proposed them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proposals(Vec<Proposal>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Proposal {
    by: Actor,
    /// What it newly allows, in words; of a list that is cut not everything is known, and its owner stays.
    allows: Vec<String>,
}

impl Proposals {
    /// Takes note of a change of what is held. `before` and `now` say in words what it allowed and allows beyond what
    /// counts; `by` is who made it allow more than before, if anybody known did. Says whether anything of this is new.
    pub fn note(&mut self, by: Option<Actor>, before: &[String], now: &[String]) -> bool {
        let was = self.clone();
        let mut new: Vec<String> = now
            .iter()
            .filter(|line| !before.contains(line))
            .cloned()
            .collect();
        match by {
            Some(by) => {
                if new.is_empty() {
                    // It allows more in words that were told already: which of them cannot be said.
                    new = now.to_vec();
                }
                let has_room = self.0.len() < MAX_PEOPLE;
                match self.0.iter_mut().find(|known| known.by.is_same_person(&by)) {
                    Some(known) => known.take(&new),
                    None if has_room => self.0.push(Proposal { by, allows: new }),
                    None => {}
                }
            }
            // Less of something may have other words, and whose they were cannot be said.
            None => self.0.iter_mut().for_each(|known| known.take(&new)),
        }
        if !is_cut(now) {
            self.0
                .retain(|known| is_cut(&known.allows) || known.allows.iter().any(|line| now.contains(line)));
        }
        *self != was
    }

    /// Whether a caller proposed a part of it, with any token of the same owner, so that it takes another person.
    pub fn are_of(&self, person: &Actor) -> bool {
        self.0.len() >= MAX_PEOPLE || self.0.iter().any(|known| known.by.is_same_person(person))
    }

    /// Everybody who has a part in it.
    pub fn people(&self) -> Vec<Actor> {
        self.0.iter().map(|known| known.by.clone()).collect()
    }

    /// Whether nobody has a part in it.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Proposal {
    fn take(&mut self, lines: &[String]) {
        let more = lines.iter().filter(|line| !self.allows.contains(line));
        let more: Vec<String> = more.cloned().collect();
        self.allows.extend(more);
        self.allows.truncate(MAX_LINES + 1);
    }
}

const fn is_cut(lines: &[String]) -> bool {
    lines.len() > MAX_LINES
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::{ActorKind, Owner};

    fn person(id: &str) -> Actor {
        Actor {
            kind: ActorKind::Token,
            id: id.to_owned(),
            name: id.to_owned(),
            owner: Owner::parse(id).ok(),
        }
    }

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Who has a part after changes, each by a known person who widens, or by nobody.
    fn after(changes: &[(Option<&str>, &str)]) -> Vec<String> {
        let mut proposals = Proposals::default();
        let mut before = Vec::new();
        for (by, now) in changes {
            let now = lines(now);
            proposals.note(by.map(person), &before, &now);
            before = now;
        }
        proposals.people().into_iter().map(|actor| actor.id).collect()
    }

    #[test]
    fn whoever_has_a_part_left_is_remembered() {
        assert_eq!(after(&[(Some("a"), "x")]), ["a"]);
        assert_eq!(after(&[(Some("a"), "x"), (Some("b"), "x y")]), ["a", "b"]);
        assert_eq!(after(&[(Some("a"), "x"), (Some("b"), "x y"), (None, "x")]), ["a"]);
        assert_eq!(after(&[(Some("a"), "x"), (Some("b"), "x y"), (None, "y")]), ["b"]);
        assert_eq!(after(&[(Some("a"), "x"), (None, "")]), Vec::<String>::new());
    }

    #[test]
    fn a_second_token_of_a_proposer_is_no_second_person() {
        let mut proposals = Proposals::default();
        proposals.note(Some(person("ann")), &[], &lines("x"));
        let second = Actor {
            id: "t-2".to_owned(),
            ..person("ann")
        };
        assert!(proposals.are_of(&second) && !proposals.are_of(&person("bob")));
        assert!(!proposals.are_of(&Actor::state_directory()));
        proposals.note(Some(Actor::state_directory()), &lines("x"), &lines("x y"));
        assert!(proposals.are_of(&person("operator")));
    }

    #[test]
    fn nobody_is_forgotten_by_asking_for_less_in_other_words() {
        assert_eq!(after(&[(Some("a"), "full"), (None, "allowlist")]), ["a"]);
        assert_eq!(
            after(&[(Some("a"), "full"), (Some("b"), "full y"), (None, "allowlist y")]),
            ["a", "b"]
        );
        // A person who asks for the rest anew has the first one as a second person.
        assert_eq!(after(&[(Some("a"), "full"), (Some("b"), "allowlist y")]), ["b"]);
    }

    #[test]
    fn more_in_the_same_words_is_a_part_of_all_of_them() {
        assert_eq!(
            after(&[(Some("a"), "senders"), (Some("b"), "senders")]),
            ["a", "b"]
        );
    }

    #[test]
    fn lists_that_are_cut_forget_nobody_and_too_many_people_bar_everybody() {
        let many: Vec<String> = (0..=MAX_LINES).map(|line| line.to_string()).collect();
        let mut proposals = Proposals::default();
        proposals.note(Some(person("a")), &[], &many);
        proposals.note(None, &many, &lines("other"));
        assert_eq!(proposals.people().len(), 1);
        for id in 0..=MAX_PEOPLE {
            proposals.note(Some(person(&format!("t-{id}"))), &[], &many);
        }
        assert_eq!(proposals.people().len(), MAX_PEOPLE);
        assert!(proposals.are_of(&person("nobody")));
    }
}
