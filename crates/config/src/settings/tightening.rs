//! Which changes of a setting that needs a restart only take away, so that they are in effect at once. Pure. A change
//! that cannot be compared is none of them.

use serde_json::{Value, json};

/// `[approvals] widening`: more people have to answer than by default.
pub(super) fn demands_more(_before: &Value, later: &Value) -> bool {
    *later != json!("apply")
}

/// The times that one of `[[approvals.rules]]` may set.
const TIMES: [&str; 3] = ["decide_by_ms", "start_by_ms", "start_delay_ms"];

/// `[[approvals.rules]]`: every rule stays where it is and asks for no less, and what is new behind them sets no time.
/// The first rule that matches counts, so a rule before the others may free a command from them.
pub(super) fn adds_rules(before: &Value, later: &Value) -> bool {
    let (Some(before), Some(later)) = (before.as_array(), later.as_array()) else {
        return false;
    };
    let Some((kept, added)) = later.split_at_checked(before.len()) else {
        return false;
    };
    let sets_no_time = |rule: &Value| TIMES.iter().all(|key| rule[key].is_null());
    before
        .iter()
        .zip(kept)
        .all(|(before, later)| asks_no_less(before, later))
        && added.iter().all(sets_no_time)
}

/// Whether one rule matches the same as the other and takes at least as many people, of groups at least as narrow.
fn asks_no_less(before: &Value, later: &Value) -> bool {
    let list = |rule: &Value, key: &str| rule[key].as_array().cloned().unwrap_or_default();
    let people = |rule: &Value| rule["approvals_required"].as_u64().unwrap_or(1);
    let groups = (list(before, "groups"), list(later, "groups"));
    let same_lists = ["agents", "hosts", "patterns"]
        .iter()
        .all(|key| list(before, key) == list(later, key));
    let same_times = TIMES.iter().all(|key| before[key] == later[key]);
    same_lists
        && same_times
        && people(later) >= people(before)
        && (groups.0 == groups.1 || groups.0.is_empty())
}

/// `[[policy.skill_bins]]`: nothing is in the list that was not.
pub(super) fn takes_away(before: &Value, later: &Value) -> bool {
    let (Some(before), Some(later)) = (before.as_array(), later.as_array()) else {
        return false;
    };
    later.iter().all(|item| before.contains(item))
}

/// `[limits] max_running`: no more than before, of which 0 is no limit. The runner is told at its start how many it may
/// have.
pub(super) fn lowers(before: &Value, later: &Value) -> bool {
    let most = |value: &Value| {
        let most = value.as_u64()?;
        Some(if most == 0 { u64::MAX } else { most })
    };
    most(later)
        .zip(most(before))
        .is_some_and(|(later, before)| later <= before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_lowered_and_not_lifted() {
        for (before, later, expect) in [
            (3, 2, true),
            (3, 3, true),
            (0, 5, true),
            (3, 4, false),
            (3, 0, false),
        ] {
            assert_eq!(lowers(&json!(before), &json!(later)), expect, "{before} {later}");
        }
        assert!(!lowers(&json!("3"), &json!(2)));
    }

    #[test]
    fn rules_may_be_added_behind_and_ask_for_more() {
        let git = json!({ "patterns": ["git"], "approvals_required": 2 });
        let before = json!([git]);
        for later in [
            json!([git]),
            json!([git, { "agents": ["a"], "approvals_required": 2 }]),
            json!([{ "patterns": ["git"], "approvals_required": 3 }]),
            json!([{ "patterns": ["git"], "approvals_required": 2, "groups": ["ops"] }]),
        ] {
            assert!(adds_rules(&before, &later), "{later}");
        }
        for later in [
            json!([]),
            json!([{ "agents": ["a"] }, git]),
            json!([{ "patterns": ["git"] }]),
            json!([{ "patterns": ["git"], "approvals_required": 1 }]),
            json!([{ "patterns": ["git", "gh"], "approvals_required": 2 }]),
            json!([{ "patterns": ["git"], "approvals_required": 2, "decide_by_ms": 1000 }]),
            json!([git, { "agents": ["a"], "start_by_ms": 86_400_000 }]),
            json!([{ "patterns": ["git"], "approvals_required": 2, "start_delay_ms": 5000 }]),
            json!("git"),
        ] {
            assert!(!adds_rules(&before, &later), "{later}");
        }
        let of_ops = json!([{ "approvals_required": 1, "groups": ["ops"] }]);
        for wider in [json!(["ops", "dev"]), json!(["dev"]), json!([])] {
            let later = json!([{ "approvals_required": 1, "groups": wider }]);
            assert!(!adds_rules(&of_ops, &later), "{later}");
        }
    }

    #[test]
    fn programs_of_skills_may_go() {
        let (rg, gh) = (
            json!({ "name": "rg", "path": "/bin/rg" }),
            json!({ "name": "gh", "path": "/bin/gh" }),
        );
        assert!(takes_away(&json!([rg, gh]), &json!([gh])));
        assert!(takes_away(&json!([rg]), &json!([])));
        assert!(!takes_away(&json!([rg]), &json!([rg, gh])));
        assert!(!takes_away(
            &json!([rg]),
            &json!([{ "name": "rg", "path": "/tmp/rg" }])
        ));
    }
}
