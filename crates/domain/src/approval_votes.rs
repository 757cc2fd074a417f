//! How many people an approval takes and of which groups, and what their answers come to
//! (`docs/spec/settings.md#2-countersigntoml`, `[[approvals.rules]]`).

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Actor, ApprovalDecision, Ballot, Pattern, UnixMillis};

/// What it takes to allow a command. Fixed when it is asked about, so that no later edit asks for less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// How many different people have to allow it.
    pub required: u64,
    /// They must be in one of these groups; `None` for anybody, none at all for nobody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub groups: Option<BTreeSet<String>>,
    /// In which time the run must start once it is allowed, in milliseconds; `None` for `[approvals] start_by_ms`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_by_ms: Option<u64>,
    /// How long the run is held back once it is allowed, in milliseconds, so that the answer can be taken back; `None` for
    /// not at all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_delay_ms: Option<u64>,
}

impl Default for Quorum {
    fn default() -> Self {
        Self {
            required: 1,
            groups: None,
            start_by_ms: None,
            start_delay_ms: None,
        }
    }
}

impl Quorum {
    /// Whether any one approver is enough and nothing else is special.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it takes more than any one approver.
    pub const fn is_for_more(&self) -> bool {
        self.required > 1 || self.groups.is_some()
    }

    /// In which time the run must start once it is allowed and no longer held back.
    pub fn start_by(&self, otherwise: Duration) -> Duration {
        self.start_by_ms.map_or(otherwise, Duration::from_millis)
    }

    /// How long the run is held back once it is allowed.
    pub fn start_delay(&self) -> Duration {
        self.start_delay_ms.map_or(Duration::ZERO, Duration::from_millis)
    }

    /// Whether an approver of these groups may allow it. Every approver may deny it, no matter what their groups are.
    pub(crate) fn entitles(&self, groups: &BTreeSet<String>) -> bool {
        self.groups
            .as_ref()
            .is_none_or(|wanted| !wanted.is_disjoint(groups))
    }

    /// By which of their groups an approver may allow it; none where anybody may.
    pub fn entitling(&self, groups: &BTreeSet<String>) -> BTreeSet<String> {
        self.groups
            .as_ref()
            .map_or_else(BTreeSet::new, |wanted| wanted & groups)
    }

    /// Who may allow it, in words, for an approver who may not.
    pub fn who_may_allow(&self) -> String {
        match &self.groups {
            // Then only a revoked token keeps an approver from it.
            None => "every approver may allow this, but not with a token that was revoked".to_owned(),
            Some(groups) if groups.is_empty() => {
                "the parts of this command are for approvers of different groups, so nobody may allow all of it; \
                 deny it, and have the parts asked about one by one"
                    .to_owned()
            }
            Some(groups) => {
                let names: Vec<&str> = groups.iter().map(String::as_str).collect();
                format!(
                    "only approvers of these groups may allow this: {}; every approver may deny it",
                    names.join(", ")
                )
            }
        }
    }
}

/// One person's answer to a question that takes several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The approver; each person has one vote.
    pub by: Actor,
    /// What this person chose. The votes together may allow less.
    pub decision: ApprovalDecision,
    /// When they gave the answer.
    pub at: UnixMillis,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What they would remember, with `allow-always`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub patterns: Vec<Pattern>,
}

impl Vote {
    /// Whether it is a yes.
    pub fn allows(&self) -> bool {
        self.decision != ApprovalDecision::Deny
    }

    /// Whether both say the same, no matter who said it and why.
    fn agrees_with(&self, other: &Self) -> bool {
        let holds_all = |all: &[Pattern], some: &[Pattern]| some.iter().all(|pattern| all.contains(pattern));
        self.decision == other.decision
            && holds_all(&self.patterns, &other.patterns)
            && holds_all(&other.patterns, &self.patterns)
    }
}

impl Quorum {
    /// What a vote is beside those that are there; `groups` are those of the approver who casts it.
    pub(super) fn ballot(&self, votes: &[Vote], vote: &Vote, groups: &BTreeSet<String>) -> Ballot {
        let is_own = |other: &&Vote| other.by.is_same_person(&vote.by);
        let others = votes
            .iter()
            .filter(|other| other.allows() && !is_own(other))
            .count();
        Ballot {
            is_entitled: self.entitles(groups),
            is_repeated: votes.iter().filter(is_own).any(|own| own.agrees_with(vote)),
            others: u64::try_from(others).unwrap_or(u64::MAX),
            required: self.required,
        }
    }
}

/// Adds a vote. A person has one: a new one takes the place of theirs.
pub(super) fn cast(votes: &mut Vec<Vote>, vote: Vote) {
    votes.retain(|other| !other.by.is_same_person(&vote.by));
    votes.push(vote);
}

/// What votes come to together: what everybody said, or the least that all of them allow. Where they would not remember
/// the same, nothing is remembered.
pub(super) fn together(votes: &[Vote]) -> (ApprovalDecision, Vec<Pattern>) {
    match votes.split_first() {
        Some((first, others)) if others.iter().all(|other| other.agrees_with(first)) => {
            (first.decision, first.patterns.clone())
        }
        Some(_) if votes.iter().all(Vote::allows) => (ApprovalDecision::AllowOnce, Vec::new()),
        Some(_) | None => (ApprovalDecision::Deny, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ActorKind, Answering, ApprovalStanding, ApprovalStatus, GrantLimits, Owner, PatternWidth};

    const PENDING: ApprovalStanding = ApprovalStanding {
        status: ApprovalStatus::Pending,
        decision: None,
        is_consumed: false,
        is_remembered: false,
        is_due: false,
    };

    /// A voter: each of these tokens has an owner of its own.
    fn actor(kind: ActorKind, id: &str) -> Actor {
        let actor = Actor {
            kind,
            id: id.to_owned(),
            name: id.to_owned(),
            owner: None,
        };
        let owner = actor.token().and_then(|token| Owner::parse(token.as_str()).ok());
        Actor { owner, ..actor }
    }

    fn vote(by: Actor, decision: ApprovalDecision, patterns: &[&str]) -> Vote {
        let pattern = |pattern: &&str| Pattern {
            segment: 0,
            pattern: (*pattern).to_owned(),
            arg_pattern: None,
            source: None,
            width: PatternWidth::Exact,
            default: true,
            shape: None,
            limits: GrantLimits::default(),
        };
        Vote {
            by,
            decision,
            at: UnixMillis::new(1),
            reason: None,
            patterns: patterns.iter().map(pattern).collect(),
        }
    }

    fn quorum(required: u64, groups: Option<&[&str]>) -> Quorum {
        Quorum {
            required,
            groups: groups.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect()),
            start_by_ms: None,
            start_delay_ms: None,
        }
    }

    /// What becomes of one vote; it is added where it counts or settles.
    fn say(quorum: &Quorum, votes: &mut Vec<Vote>, vote: Vote, groups: &BTreeSet<String>) -> Answering {
        let answering = PENDING.answer(vote.decision, quorum.ballot(votes, &vote, groups));
        if matches!(answering, Answering::Counts | Answering::Settles) {
            cast(votes, vote);
        }
        answering
    }

    #[test]
    fn a_token_and_its_browser_are_one_person() {
        use ApprovalDecision::AllowOnce;
        let (two, none) = (quorum(2, None), BTreeSet::new());
        let mut votes = Vec::new();
        let mut says = |by| say(&two, &mut votes, vote(by, AllowOnce, &[]), &none);
        assert_eq!(says(actor(ActorKind::Token, "t-1")), Answering::Counts);
        assert_eq!(
            says(actor(ActorKind::Session, "t-1-00000000000000aa")),
            Answering::Repeats
        );
        assert_eq!(says(actor(ActorKind::Ipc, "socket-ui")), Answering::Settles);
    }

    #[test]
    fn two_tokens_of_one_owner_are_one_vote() {
        use ApprovalDecision::AllowOnce;
        let (two, none) = (quorum(2, None), BTreeSet::new());
        let owned = |id: &str, owner: &str| Actor {
            owner: Some(Owner::parse(owner).unwrap()),
            ..actor(ActorKind::Token, id)
        };
        let mut votes = Vec::new();
        let mut says = |by| say(&two, &mut votes, vote(by, AllowOnce, &[]), &none);
        assert_eq!(says(owned("t-1", "ann")), Answering::Counts);
        assert_eq!(says(owned("t-2", "ann")), Answering::Repeats);
        assert_eq!(says(owned("t-3", "bob")), Answering::Settles);
    }

    #[test]
    fn whoever_is_of_no_group_that_counts_denies_and_no_more() {
        type Case = (Option<&'static [&'static str]>, BTreeSet<String>, Answering);
        use ApprovalDecision::{AllowAlways, AllowOnce, Deny};

        let members = BTreeSet::from(["ops".to_owned()]);
        let cases: [Case; 5] = [
            (None, BTreeSet::new(), Answering::Settles),
            (Some(&["ops", "dba"]), members.clone(), Answering::Settles),
            (Some(&["dba"]), members.clone(), Answering::NotEntitled),
            (Some(&["ops"]), BTreeSet::new(), Answering::NotEntitled),
            (Some(&[]), members, Answering::NotEntitled),
        ];
        for (groups, of, expected) in cases {
            let one = quorum(1, groups);
            let by = actor(ActorKind::Token, "t-1");
            for decision in [AllowOnce, AllowAlways] {
                let answering = say(&one, &mut Vec::new(), vote(by.clone(), decision, &[]), &of);
                assert_eq!(answering, expected, "{groups:?} {of:?}");
            }
            let denied = say(&one, &mut Vec::new(), vote(by, Deny, &[]), &of);
            assert_eq!(denied, Answering::Settles);
        }
    }

    #[test]
    fn the_least_that_all_allow_is_what_they_allow_together() {
        use ApprovalDecision::{AllowAlways, AllowOnce, Deny};
        let check = |said: &[(ApprovalDecision, &[&str])], expected: ApprovalDecision, kept: usize| {
            let votes: Vec<Vote> = said
                .iter()
                .enumerate()
                .map(|(index, (decision, patterns))| {
                    vote(
                        actor(ActorKind::Token, &format!("t-{index}")),
                        *decision,
                        patterns,
                    )
                })
                .collect();
            let (decision, patterns) = together(&votes);
            assert_eq!((decision, patterns.len()), (expected, kept), "{said:?}");
        };
        check(&[], Deny, 0);
        check(&[(AllowAlways, &["a", "b"])], AllowAlways, 2);
        check(
            &[(AllowAlways, &["a", "b"]), (AllowAlways, &["b", "a"])],
            AllowAlways,
            2,
        );
        check(&[(AllowAlways, &["a", "b"]), (AllowAlways, &["a"])], AllowOnce, 0);
        check(&[(AllowAlways, &["a"]), (AllowOnce, &[])], AllowOnce, 0);
        check(&[(AllowOnce, &[]), (AllowOnce, &[])], AllowOnce, 0);
        check(&[(AllowAlways, &["a"]), (Deny, &[])], Deny, 0);
        check(&[(Deny, &[])], Deny, 0);
    }

    #[test]
    fn cards_of_before_take_any_one_approver() {
        let read: Quorum = serde_json::from_str(r#"{"required":1}"#).unwrap();
        assert!(read.is_default());
        let two = quorum(2, Some(&["ops"]));
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(serde_json::from_str::<Quorum>(&text).unwrap(), two);
    }

    proptest! {
        #[test]
        fn nothing_is_allowed_by_fewer_people_than_it_takes_and_one_no_ends_it(
            required in 1_u64..5,
            needs_group in any::<bool>(),
            said in proptest::collection::vec((0_usize..5, 0_usize..3, any::<bool>()), 0..30),
        ) {
            let quorum = quorum(required, needs_group.then_some(&["ops"] as &[&str]));
            let mut votes = Vec::new();
            for (person, decision, is_member) in said {
                let decision = ApprovalDecision::ALL[decision];
                // The first two people are always members.
                let is_member = is_member || person < 2;
                let groups: BTreeSet<String> = is_member.then(|| "ops".to_owned()).into_iter().collect();
                let kind = if is_member { ActorKind::Token } else { ActorKind::Session };
                let id = if is_member { format!("t-{person}") } else { format!("t-{person}-00000000000000aa") };
                let answering = say(&quorum, &mut votes, vote(actor(kind, &id), decision, &[]), &groups);
                let people: BTreeSet<_> = votes.iter().filter_map(|vote| vote.by.token()).collect();
                prop_assert_eq!(people.len(), votes.len(), "one vote for each");
                match answering {
                    Answering::Settles if decision == ApprovalDecision::Deny => {
                        prop_assert_eq!(together(&votes).0, ApprovalDecision::Deny);
                        break;
                    }
                    Answering::Settles => {
                        prop_assert!(u64::try_from(people.len()).unwrap() >= required);
                        prop_assert_ne!(together(&votes).0, ApprovalDecision::Deny);
                        break;
                    }
                    Answering::Counts => prop_assert!(u64::try_from(people.len()).unwrap() < required),
                    Answering::NotEntitled => prop_assert!(needs_group && !is_member),
                    Answering::Repeats => {}
                    Answering::Conflicts | Answering::Due | Answering::Expired | Answering::Cancelled => {
                        prop_assert!(false, "it is pending");
                    }
                }
                prop_assert_ne!(decision, ApprovalDecision::Deny, "a no ends it");
            }
        }
    }
}
