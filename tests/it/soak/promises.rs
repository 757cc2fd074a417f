//! What must be true of everything that was asked for, whenever and however often a server died meanwhile.

use std::collections::BTreeMap;

use serde_json::Value;

/// What an agent asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command that the allowlist covers.
    Covered,
    /// The same with an `Idempotency-Key`, sent again until it is answered.
    Keyed,
    /// A command that a person is asked about.
    Asked,
    /// A patch that a person is asked about.
    Patch,
}

/// One call, and what its caller was told.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// What it leaves behind when it runs.
    pub(super) mark: String,
    pub(super) kind: Kind,
    /// Everything that the server had started was killed while it may have run.
    pub(super) may_be_lost: bool,
    /// A stop had been answered before it was sent, and no resume since.
    pub(super) while_stopped: bool,
    /// The run that an answer named.
    pub(super) run: Option<String>,
    /// An answer said that it completed.
    pub(super) completed: bool,
    /// The answer of a person that was taken.
    pub(super) decided: Option<&'static str>,
}

/// Everything that is known in the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) calls: Vec<Call>,
    /// How often each call ran.
    pub(super) marks: BTreeMap<String, usize>,
    /// The runs on record, by the call that they are of.
    pub(super) runs: BTreeMap<String, Vec<Value>>,
    /// The approvals on record, by their ids.
    pub(super) approvals: BTreeMap<String, Value>,
    /// Patterns of allowlist entries whose writing was answered, and those in the document.
    pub(super) entries_told: Vec<String>,
    pub(super) entries: Vec<String>,
    /// Whether the audit verifies.
    pub(super) audit_verifies: bool,
}

/// Everything that is not as promised.
pub(super) fn broken(seen: &Seen) -> Vec<String> {
    let mut broken: Vec<String> = seen
        .calls
        .iter()
        .flat_map(|call| {
            broken_for(call, seen)
                .into_iter()
                .map(move |what| format!("{}: {what}", call.mark))
        })
        .collect();
    for mark in seen.marks.keys() {
        if !seen.calls.iter().any(|call| call.mark == *mark) {
            broken.push(format!("{mark}: nobody asked for it"));
        }
    }
    for pattern in &seen.entries_told {
        if !seen.entries.contains(pattern) {
            broken.push(format!("the entry {pattern} is gone"));
        }
    }
    if !seen.audit_verifies {
        broken.push("the audit does not verify".to_owned());
    }
    broken
}

fn broken_for(call: &Call, seen: &Seen) -> Vec<String> {
    let ran = seen.marks.get(&call.mark).copied().unwrap_or(0);
    let runs = seen.runs.get(&call.mark).map_or(&[][..], Vec::as_slice);
    let mut broken = Vec::new();
    let mut expect = |is_so: bool, what: &str| {
        if !is_so {
            broken.push(what.to_owned());
        }
    };
    expect(ran <= 1, "it ran more than once");
    expect(runs.len() <= 1, "it has more than one run");
    expect(ran == 0 || !runs.is_empty(), "it ran without a record");
    expect(
        call.run.is_none() || !runs.is_empty(),
        "its run was told and is not on record",
    );
    expect(!call.completed || ran == 1, "it completed and did not run");
    expect(call.decided != Some("deny") || ran == 0, "it was denied and ran");
    // One with a key is sent again later.
    expect(
        !call.while_stopped || call.kind == Kind::Keyed || ran == 0,
        "it ran during a stop",
    );
    let Some(run) = runs.first() else { return broken };
    let status = run["status"].as_str().unwrap_or_default();
    expect(
        call.run.is_none() || run["runId"].as_str() == call.run.as_deref(),
        "another run is on record than was told",
    );
    expect(
        !call.completed || status == "completed",
        "it was told as completed and is recorded otherwise",
    );
    match status {
        "completed" => expect(ran == 1, "it is recorded as completed and did not run"),
        "denied" | "failed" => expect(ran == 0, "it is recorded as not run and ran"),
        "lost" => expect(call.may_be_lost, "it was lost while its supervisor lived"),
        "cancelled" => {}
        _ => expect(false, "its run has no end"),
    }
    let approval = run["approvalId"].as_str().and_then(|id| seen.approvals.get(id));
    let is_asked = matches!(call.kind, Kind::Asked | Kind::Patch);
    expect(
        !is_asked || ran == 0 || approval.is_some_and(|approval| approval["consumedAtMs"].is_i64()),
        "it ran without using an approval up",
    );
    if let (Some(approval), Some(decided)) = (approval, call.decided) {
        expect(
            approval["decision"] == decided,
            "the answer that was taken is not on record",
        );
        // A stop denies what was allowed and has not begun.
        expect(
            decided == "deny" || status != "denied" || run["reason"] == "stopped",
            "it was allowed and then denied",
        );
    }
    broken
}

/// The check itself: each promise, broken alone, is noticed.
mod tests {
    use serde_json::json;

    use super::*;

    type Break = fn(&mut Seen);

    /// One call that was asked about and ran.
    fn kept() -> Seen {
        let call = Call {
            mark: "m".to_owned(),
            kind: Kind::Asked,
            may_be_lost: false,
            while_stopped: false,
            run: Some("r".to_owned()),
            completed: true,
            decided: Some("allow-once"),
        };
        let run = json!({ "runId": "r", "status": "completed", "approvalId": "a" });
        let approval = json!({ "decision": "allow-once", "consumedAtMs": 1 });
        Seen {
            calls: vec![call],
            marks: BTreeMap::from([("m".to_owned(), 1)]),
            runs: BTreeMap::from([("m".to_owned(), vec![run])]),
            approvals: BTreeMap::from([("a".to_owned(), approval)]),
            entries_told: vec!["/e".to_owned()],
            entries: vec!["/e".to_owned()],
            audit_verifies: true,
        }
    }

    fn run_of(seen: &mut Seen) -> &mut Value {
        &mut seen.runs.get_mut("m").expect("a call")[0]
    }

    #[test]
    fn what_is_as_promised_is_not_complained_about() {
        assert_eq!(broken(&kept()), Vec::<String>::new());
        let mut never_answered = kept();
        never_answered.calls[0].run = None;
        never_answered.calls[0].completed = false;
        never_answered.calls[0].decided = None;
        never_answered.marks.clear();
        never_answered.runs.clear();
        assert_eq!(broken(&never_answered), Vec::<String>::new());
    }

    #[test]
    fn each_broken_promise_is_noticed() {
        let cases: [(&str, Break); 15] = [
            ("it ran more than once", |seen| {
                _ = seen.marks.insert("m".to_owned(), 2);
            }),
            ("it ran without a record", |seen| seen.runs.clear()),
            ("is not on record", |seen| seen.runs.clear()),
            ("more than one run", |seen| {
                let run = run_of(seen).clone();
                seen.runs.get_mut("m").expect("a call").push(run);
            }),
            ("another run", |seen| run_of(seen)["runId"] = json!("other")),
            ("completed and did not run", |seen| seen.marks.clear()),
            ("ran during a stop", |seen| seen.calls[0].while_stopped = true),
            ("was denied and ran", |seen| seen.calls[0].decided = Some("deny")),
            ("recorded otherwise", |seen| {
                run_of(seen)["status"] = json!("lost");
            }),
            ("recorded as not run and ran", |seen| {
                run_of(seen)["status"] = json!("failed");
            }),
            ("has no end", |seen| run_of(seen)["status"] = json!("running")),
            ("its supervisor lived", |seen| {
                run_of(seen)["status"] = json!("lost");
            }),
            ("without using an approval up", |seen| {
                seen.approvals
                    .insert("a".to_owned(), json!({ "decision": "allow-once" }));
            }),
            ("nobody asked for it", |seen| {
                _ = seen.marks.insert("other".to_owned(), 1);
            }),
            ("/e is gone", |seen| seen.entries.clear()),
        ];
        for (expected, break_it) in cases {
            let mut seen = kept();
            break_it(&mut seen);
            let found = broken(&seen);
            assert!(
                found.iter().any(|what| what.contains(expected)),
                "{expected}: {found:?}"
            );
        }
        let mut unverified = kept();
        unverified.audit_verifies = false;
        assert_eq!(broken(&unverified), ["the audit does not verify"]);
    }
}
