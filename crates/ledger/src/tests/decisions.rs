//! Decisions, deadlines and cancellations: one of any number wins.

use std::{collections::BTreeSet, time::Duration};

use countersign_domain::{
    ApprovalState, ApprovalStatus, DecidedBy, Owner, Persist, Reason, RunDecision, RunVerdict, Scope,
    TerminalReason,
};

use super::*;
use crate::NotAllowed;

use crate::{
    CancelOutcome, ChosenPattern, Expire, ExpireOutcome, Fallback, NewToken, Page, Revise, ReviseOutcome,
    TakeBack, TakeBackOutcome, Undecided,
    audit::{AuditFilter, AuditOutcome},
};

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_decisions_at_once_one_wins() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let calls: Vec<_> = (0..100)
        .map(|index| {
            let ledger = opened.ledger.clone();
            let wanted = if index % 2 == 0 {
                ApprovalDecision::AllowOnce
            } else {
                ApprovalDecision::Deny
            };
            let decide = decision_of(&asked.id, wanted);
            tokio::spawn(async move { (wanted, ledger.decide(decide).await.unwrap()) })
        })
        .collect();
    let mut applied = 0;
    for call in calls {
        let (wanted, outcome) = call.await.unwrap();
        match outcome {
            DecideOutcome::Decided { applied: true, .. } => applied += 1,
            DecideOutcome::Decided {
                applied: false,
                approval,
            } => {
                assert_eq!(approval.state.decision(), Some(wanted));
            }
            DecideOutcome::Conflict(approval) => assert_ne!(approval.state.decision(), Some(wanted)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(applied, 1);
    let resolved = opened.event_types().await;
    assert_eq!(
        resolved
            .iter()
            .filter(|kind| *kind == "exec.approval.resolved")
            .count(),
        1
    );
    assert_eq!(opened.pending_approvals().await, 0);
}

#[tokio::test]
async fn an_allowed_run_is_queued_and_a_denied_one_is_over_when_the_decision_is_answered() {
    let opened = Opened::new();
    let allowed = opened.allowed().await;
    let run = opened.ledger.run(&allowed.run_id).await.unwrap().unwrap();
    assert_eq!(run.status.api_name(), "queued");
    assert_eq!(
        run.decision,
        Some(RunDecision {
            verdict: RunVerdict::Run,
            by: DecidedBy::Person
        })
    );

    let asked = opened.ask().await;
    let mut decide = decision_of(&asked.id, ApprovalDecision::Deny);
    decide.reason = Some("not today".to_owned());
    let denied = match opened.ledger.decide(decide).await.unwrap() {
        DecideOutcome::Decided {
            applied: true,
            approval,
        } => *approval,
        other => panic!("{other:?}"),
    };
    assert_eq!(opened.ledger.approval(&asked.id).await.unwrap(), Some(denied));
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::UserDenied))
    );
    assert_eq!(run.detail.as_deref(), Some("not today"));
}

#[tokio::test]
async fn whoever_asked_cannot_answer() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let mut decide = decision_of(&asked.id, ApprovalDecision::AllowOnce);
    decide.by = asker();
    assert_eq!(
        opened.ledger.decide(decide).await.unwrap(),
        DecideOutcome::OwnRequest
    );
    assert_eq!(opened.status(&asked.run_id).await, RunStatus::Asking);
}

#[tokio::test]
async fn the_asker_cannot_change_the_question_by_any_edge() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let mut browser = asker();
    browser.kind = ActorKind::Session;
    browser.id = countersign_domain::SignInId::of(&asker().token().unwrap(), 7).to_string();
    for by in [asker(), browser] {
        let changed = Revise {
            revises: asked.id.clone(),
            run: opened.run(),
            approval: opened.approval(),
            by: by.clone(),
        };
        let outcome = opened.ledger.revise(changed).await.unwrap();
        assert_eq!(outcome, ReviseOutcome::OwnRequest, "{by:?}");
    }
    assert_eq!(opened.status(&asked.run_id).await, RunStatus::Asking);
}

#[tokio::test]
async fn a_browser_that_stands_for_the_asking_token_cannot_answer_either() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let mut decide = decision_of(&asked.id, ApprovalDecision::AllowOnce);
    let browser = countersign_domain::SignInId::of(&asker().token().unwrap(), 7);
    decide.by = Actor {
        kind: ActorKind::Session,
        id: browser.to_string(),
        name: "somebody".to_owned(),
        owner: None,
    };
    assert_eq!(
        opened.ledger.decide(decide.clone()).await.unwrap(),
        DecideOutcome::OwnRequest
    );
    // A browser of another token can.
    decide.by.id = "t-other-0000000000000007".to_owned();
    let outcome = opened.ledger.decide(decide).await.unwrap();
    assert!(
        matches!(outcome, DecideOutcome::Decided { applied: true, .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn only_open_answers_and_proposed_patterns_count() {
    let opened = Opened::new();
    let mut asking = opened.asking();
    asking.approval.card.allowed_decisions = vec![ApprovalDecision::AllowOnce, ApprovalDecision::Deny];
    let asked = opened.ask_with(asking).await;
    let outcome = opened.decide(&asked.id, ApprovalDecision::AllowAlways).await;
    assert_eq!(outcome, DecideOutcome::NotAllowedDecision(NotAllowed::Decision));

    let asked = opened.ask().await;
    let choose = async |patterns: &[&str], decision| {
        let chosen = |pattern: &&str| ChosenPattern {
            pattern: (*pattern).to_owned(),
            arg_pattern: None,
        };
        let mut decide = decision_of(&asked.id, decision);
        decide.patterns = Some(patterns.iter().map(chosen).collect());
        opened.ledger.decide(decide).await.unwrap()
    };
    for refused in [
        choose(&[], ApprovalDecision::AllowAlways).await,
        choose(&["/bin/other"], ApprovalDecision::AllowAlways).await,
        choose(&["/bin/echo", "/bin/other"], ApprovalDecision::AllowAlways).await,
        choose(&["/bin/echo"], ApprovalDecision::AllowOnce).await,
    ] {
        assert_eq!(refused, DecideOutcome::NotAllowedDecision(NotAllowed::Patterns));
    }
    let chosen = choose(&["/bin/echo"], ApprovalDecision::AllowAlways).await;
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = chosen
    else {
        panic!("{chosen:?}")
    };
    let patterns: Vec<_> = approval
        .chosen_patterns
        .iter()
        .map(|chosen| chosen.pattern.as_str())
        .collect();
    assert_eq!(patterns, ["/bin/echo"]);
}

#[tokio::test]
async fn a_bare_allow_always_remembers_the_default_patterns_until_they_are_settled() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    opened.decide(&asked.id, ApprovalDecision::AllowAlways).await;
    let todo = opened.ledger.approvals_to_persist().await.unwrap();
    let [approval] = todo.as_slice() else {
        panic!("{todo:?}")
    };
    let patterns: Vec<_> = approval
        .chosen_patterns
        .iter()
        .map(|chosen| chosen.pattern.as_str())
        .collect();
    assert_eq!(patterns, ["/bin/echo-exact"]);
    assert!(opened.ledger.persist_done(asked.id.clone()).await.unwrap());
    assert!(
        !opened
            .ledger
            .persist_dropped(asked.id.clone(), "too-late".to_owned())
            .await
            .unwrap(),
        "settled once"
    );
    assert!(opened.ledger.approvals_to_persist().await.unwrap().is_empty());
    let settled = opened.ledger.approval(&asked.id).await.unwrap().unwrap();
    assert!(matches!(
        settled.state,
        ApprovalState::Allowed {
            why: TerminalReason::User,
            persist: Persist::Done,
            ..
        }
    ));
}

#[tokio::test]
async fn an_allowance_is_taken_back_until_it_is_used_or_remembered_and_not_by_its_asker() {
    let opened = Opened::new();
    let take_back = async |asked: &Approval, by: Actor| {
        let taken = TakeBack {
            approval: asked.id.clone(),
            by,
            reason: None,
        };
        opened.ledger.take_back(taken).await.unwrap()
    };
    let asked = opened.ask().await;
    opened.decide(&asked.id, ApprovalDecision::AllowAlways).await;
    assert_eq!(take_back(&asked, asker()).await, TakeBackOutcome::OwnRequest);
    let taken = take_back(&asked, approver()).await;
    assert!(matches!(taken, TakeBackOutcome::TakenBack(_)), "{taken:?}");
    assert_eq!(opened.status(&asked.run_id).await, RunStatus::Denied);
    assert!(opened.ledger.approvals_to_persist().await.unwrap().is_empty());
    let launched = opened.ledger.launch(launch_of(&asked.id)).await.unwrap();
    assert!(
        matches!(launched, ApprovedOutcome::NotAllowed(ApprovalStatus::Denied)),
        "{launched:?}"
    );

    let remembered = opened.ask().await;
    opened.decide(&remembered.id, ApprovalDecision::AllowAlways).await;
    opened.ledger.persist_done(remembered.id.clone()).await.unwrap();
    let late = take_back(&remembered, approver()).await;
    assert!(matches!(late, TakeBackOutcome::TooLate(_)), "{late:?}");
    assert!(opened.is_chain_whole().await);
}

#[tokio::test]
async fn patterns_that_are_given_up_are_told_with_the_run_and_in_the_audit() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    opened.decide(&asked.id, ApprovalDecision::AllowAlways).await;
    for _again in 0..2 {
        let warning = "not-remembered".to_owned();
        opened
            .ledger
            .persist_dropped(asked.id.clone(), warning)
            .await
            .unwrap();
    }
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(run.warnings, ["not-remembered"]);
    let filter = AuditFilter {
        action: Some("allowlist.changed".to_owned()),
        ..AuditFilter::default()
    };
    let listed = opened.ledger.audit(filter, Page::first(10)).await.unwrap().items;
    let [record] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(
        (record.outcome, record.target.id.as_str()),
        (AuditOutcome::Failed, asked.id.as_str())
    );
    assert!(opened.ledger.approvals_to_persist().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unknown_approval_is_not_found() {
    let opened = Opened::new();
    let unknown = ApprovalId::parse("nobody").unwrap();
    assert_eq!(
        opened.decide(&unknown, ApprovalDecision::Deny).await,
        DecideOutcome::NotFound
    );
}

#[tokio::test]
async fn the_deadline_is_exact() {
    let opened = Opened::new();
    let (early, late) = (opened.ask().await, opened.ask().await);
    opened.clock.set(UnixMillis::new(START + 59_999));
    let expire = |approval: &Approval| Expire {
        approval: approval.id.clone(),
        fallback: Fallback::deny(Reason::ApprovalTimeout),
        why: Undecided::Timeout,
    };
    assert!(matches!(
        opened.ledger.expire(expire(&early)).await.unwrap(),
        ExpireOutcome::NotDue(_)
    ));
    let decided = opened.decide(&early.id, ApprovalDecision::AllowOnce).await;
    assert!(matches!(decided, DecideOutcome::Decided { applied: true, .. }));

    opened.clock.set(UnixMillis::new(START + 60_000));
    assert!(matches!(
        opened.decide(&late.id, ApprovalDecision::AllowOnce).await,
        DecideOutcome::Due(_)
    ));
    let expired = match opened.ledger.expire(expire(&late)).await.unwrap() {
        ExpireOutcome::Denied(approval) => approval,
        other => panic!("{other:?}"),
    };
    let at = UnixMillis::new(START + 60_000);
    assert_eq!(
        expired.state,
        ApprovalState::Expired {
            at,
            why: TerminalReason::Timeout
        }
    );
    assert!(matches!(
        opened.decide(&late.id, ApprovalDecision::Deny).await,
        DecideOutcome::Expired(_)
    ));
    let run = opened.ledger.run(&late.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::ApprovalTimeout))
    );
    assert!(matches!(
        opened.ledger.expire(expire(&late)).await.unwrap(),
        ExpireOutcome::Ended(_)
    ));
}

#[tokio::test]
async fn a_clock_that_runs_backwards_does_not_reopen_a_deadline() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    opened.clock.set(UnixMillis::new(START + 60_000));
    opened.launch_one().await;
    opened.clock.set(UnixMillis::new(START));
    assert!(matches!(
        opened.decide(&asked.id, ApprovalDecision::AllowOnce).await,
        DecideOutcome::Due(_)
    ));
    let reopened = opened.reopen();
    assert!(
        matches!(
            reopened.decide(&asked.id, ApprovalDecision::AllowOnce).await,
            DecideOutcome::Due(_)
        ),
        "not even after a restart"
    );
}

#[tokio::test]
async fn a_fallback_that_allows_launches_in_the_same_step() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    opened.clock.advance(MINUTE);
    let expire = || Expire {
        approval: asked.id.clone(),
        fallback: Fallback::Run(terms()),
        why: Undecided::Timeout,
    };
    opened.policy.set_generation(1);
    assert!(matches!(
        opened.ledger.expire(expire()).await.unwrap(),
        ExpireOutcome::Stale
    ));
    opened.policy.set_generation(0);
    match opened.ledger.expire(expire()).await.unwrap() {
        ExpireOutcome::Launched { permit, approval } => {
            assert_eq!((permit.run_id(), &approval.id), (&asked.run_id, &asked.id));
        }
        other => panic!("{other:?}"),
    }
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Launching);
    assert_eq!(
        run.decision,
        Some(RunDecision {
            verdict: RunVerdict::Run,
            by: DecidedBy::Fallback
        })
    );
}

#[tokio::test]
async fn a_fallback_for_something_else_than_was_shown_is_denied() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    opened.clock.advance(MINUTE);
    let mut other = terms();
    other.binding.cwd_ino = 99;
    let expire = Expire {
        approval: asked.id.clone(),
        fallback: Fallback::Run(other),
        why: Undecided::Timeout,
    };
    assert!(matches!(
        opened.ledger.expire(expire).await.unwrap(),
        ExpireOutcome::Denied(_)
    ));
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(run.reason, Some(Reason::BindingMismatch));
}

#[tokio::test]
async fn cancelling_withdraws_the_question() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let cancel = async |run: &RunId| {
        opened
            .ledger
            .cancel(run.clone(), Reason::Cancelled, asker())
            .await
            .unwrap()
    };
    assert!(matches!(
        cancel(&asked.run_id).await,
        CancelOutcome::Cancelled(Some(_))
    ));
    assert_eq!(
        cancel(&asked.run_id).await,
        CancelOutcome::Ended(RunStatus::Cancelled)
    );
    let decided = opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    assert!(matches!(decided, DecideOutcome::Cancelled(_)));

    let permit = opened.launched().await;
    assert_eq!(
        cancel(permit.run_id()).await,
        CancelOutcome::Started(RunStatus::Launching)
    );
    assert_eq!(
        cancel(&RunId::parse("nobody").unwrap()).await,
        CancelOutcome::NotFound
    );
    let types = opened.event_types().await;
    assert_eq!(types[2..4], ["exec.approval.resolved", "exec.finished"]);
}

#[tokio::test]
async fn a_cancelled_run_cannot_be_launched_by_its_approval() {
    let opened = Opened::new();
    let allowed = opened.allowed().await;
    let cancelled = opened
        .ledger
        .cancel(allowed.run_id.clone(), Reason::Cancelled, asker())
        .await
        .unwrap();
    assert_eq!(cancelled, CancelOutcome::Cancelled(None));
    let launched = opened.launch(&allowed.id).await;
    assert!(
        matches!(launched, ApprovedOutcome::RunEnded(RunStatus::Cancelled)),
        "{launched:?}"
    );
}

#[tokio::test]
async fn deadlines_are_told_soonest_first_after_a_restart() {
    let opened = Opened::new();
    let mut slow = opened.asking();
    slow.approval.timeout = Duration::from_mins(10);
    let slow = opened.ask_with(slow).await;
    let fast = opened.ask().await;
    let reopened = opened.reopen();
    let deadlines = reopened.ledger.pending_deadlines(10).await.unwrap();
    let ids: Vec<_> = deadlines.iter().map(|deadline| &deadline.approval).collect();
    assert_eq!(ids, [&fast.id, &slow.id]);
    assert_eq!(reopened.ledger.approval(&fast.id).await.unwrap(), Some(fast));
}

/// A question that takes so many people, of these groups.
async fn ask_several(opened: &Opened, required: u64, groups: Option<&[&str]>) -> Approval {
    let mut asking = opened.asking();
    asking.approval.card.quorum = Quorum {
        required,
        groups: groups.map(|groups| groups.iter().map(|group| (*group).to_owned()).collect()),
        start_by_ms: None,
        start_delay_ms: None,
    };
    opened.ask_with(asking).await
}

/// What becomes of an approver's answer.
async fn say(opened: &Opened, asked: &Approval, token: &str, decision: ApprovalDecision) -> DecideOutcome {
    let mut decide = decision_of(&asked.id, decision);
    decide.by.id = token.to_owned();
    decide.by.owner = Owner::parse(token).ok();
    opened.ledger.decide(decide).await.unwrap()
}

async fn has_token(opened: &Opened, id: &str, groups: &[&str]) {
    let token = NewToken {
        id: id.parse().unwrap(),
        name: id.to_owned(),
        owner: Owner::parse(id).unwrap(),
        proposed_by: None,
        sha256: format!("{id}-sha256"),
        scopes: [Scope::Approve].into(),
        agents: None,
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        expires_at: None,
        replaces: None,
    };
    opened.ledger.insert_token(token, approver()).await.unwrap();
}

#[tokio::test]
async fn one_of_two_answers_launches_nothing_and_is_kept() {
    let opened = Opened::new();
    let asked = ask_several(&opened, 2, None).await;
    let first = say(&opened, &asked, "t-1", ApprovalDecision::AllowOnce).await;
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = first
    else {
        panic!("{first:?}")
    };
    assert_eq!(
        (&approval.state, approval.votes_to_allow()),
        (&ApprovalState::Pending, 1)
    );
    assert_eq!(opened.status(&asked.run_id).await, RunStatus::Asking);
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::NotAllowed(_)
    ));
    assert_eq!(opened.pending_approvals().await, 1);
    assert!(opened.is_chain_whole().await);

    let opened = opened.reopen();
    assert_eq!(opened.ledger.approval(&asked.id).await.unwrap(), Some(*approval));
    let again = say(&opened, &asked, "t-1", ApprovalDecision::AllowOnce).await;
    assert!(
        matches!(again, DecideOutcome::Decided { applied: false, .. }),
        "{again:?}"
    );
    say(&opened, &asked, "t-2", ApprovalDecision::AllowOnce).await;
    assert!(matches!(
        opened.launch(&asked.id).await,
        ApprovedOutcome::Launched(_)
    ));
}

#[tokio::test]
async fn an_answer_that_is_not_open_is_no_vote_either() {
    let opened = Opened::new();
    let asked = ask_several(&opened, 2, None).await;
    let mut decide = decision_of(&asked.id, ApprovalDecision::AllowAlways);
    decide.patterns = Some(vec![ChosenPattern {
        pattern: "/bin/other".to_owned(),
        arg_pattern: None,
    }]);
    assert_eq!(
        opened.ledger.decide(decide).await.unwrap(),
        DecideOutcome::NotAllowedDecision(NotAllowed::Patterns)
    );
    let stored = opened.ledger.approval(&asked.id).await.unwrap().unwrap();
    assert_eq!(stored.votes, []);
    opened.clock.advance(MINUTE);
    let late = say(&opened, &asked, "t-1", ApprovalDecision::AllowOnce).await;
    assert!(matches!(late, DecideOutcome::Due(_)), "{late:?}");
}

#[tokio::test]
async fn groups_are_those_of_the_token_in_the_ledger() {
    let opened = Opened::new();
    has_token(&opened, "t-ops", &["ops"]).await;
    has_token(&opened, "t-sales", &["sales"]).await;
    let asked = ask_several(&opened, 1, Some(&["ops", "dba"])).await;
    for outsider in ["t-sales", "t-nobody"] {
        let outcome = say(&opened, &asked, outsider, ApprovalDecision::AllowOnce).await;
        assert!(matches!(outcome, DecideOutcome::NotEntitled(_)), "{outcome:?}");
    }
    let mut socket = decision_of(&asked.id, ApprovalDecision::AllowOnce);
    socket.by.kind = ActorKind::Ipc;
    socket.by.id = "t-ops".to_owned();
    assert!(matches!(
        opened.ledger.decide(socket).await.unwrap(),
        DecideOutcome::NotEntitled(_)
    ));
    let outcome = say(&opened, &asked, "t-ops", ApprovalDecision::AllowOnce).await;
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    // Where one is enough, the state says it all.
    assert_eq!(approval.votes, []);
    assert_eq!(approval.state.decision(), Some(ApprovalDecision::AllowOnce));
}

#[tokio::test]
async fn a_pattern_that_is_named_often_is_kept_once() {
    let opened = Opened::new();
    let asked = ask_several(&opened, 2, None).await;
    let chosen = |pattern: &str| ChosenPattern {
        pattern: pattern.to_owned(),
        arg_pattern: None,
    };
    let mut often = decision_of(&asked.id, ApprovalDecision::AllowAlways);
    let patterns = (0..500).flat_map(|_| ["/bin/echo", "/bin/echo-exact"].map(chosen));
    often.patterns = Some(patterns.collect());
    let outcome = opened.ledger.decide(often).await.unwrap();
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(approval.votes[0].patterns, approval.card.proposed_patterns);
    // Who names each once says the same.
    let mut once = decision_of(&asked.id, ApprovalDecision::AllowAlways);
    once.by.id = "t-2".to_owned();
    once.by.owner = Owner::parse("t-2").ok();
    once.patterns = Some(vec![chosen("/bin/echo-exact"), chosen("/bin/echo")]);
    let outcome = opened.ledger.decide(once).await.unwrap();
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(approval.state.decision(), Some(ApprovalDecision::AllowAlways));
    assert_eq!(approval.chosen_patterns, approval.card.proposed_patterns);
}

#[tokio::test]
async fn a_revoked_token_denies_and_allows_nothing() {
    let opened = Opened::new();
    has_token(&opened, "t-gone", &["ops"]).await;
    let gone = "t-gone".parse().unwrap();
    opened.ledger.revoke_token(gone, approver()).await.unwrap();
    for (required, groups) in [(1, None), (2, None), (1, Some(&["ops"] as &[&str]))] {
        let asked = ask_several(&opened, required, groups).await;
        for decision in [ApprovalDecision::AllowOnce, ApprovalDecision::AllowAlways] {
            let outcome = say(&opened, &asked, "t-gone", decision).await;
            assert!(matches!(outcome, DecideOutcome::NotEntitled(_)), "{outcome:?}");
        }
        let stored = opened.ledger.approval(&asked.id).await.unwrap().unwrap();
        assert_eq!((&stored.state, stored.votes.len()), (&ApprovalState::Pending, 0));
        let denied = say(&opened, &asked, "t-gone", ApprovalDecision::Deny).await;
        assert!(
            matches!(denied, DecideOutcome::Decided { applied: true, .. }),
            "{denied:?}"
        );
    }
}

#[tokio::test]
async fn the_same_answer_again_repeats_what_came_to_less_together() {
    use ApprovalDecision::{AllowAlways, AllowOnce, Deny};

    let opened = Opened::new();
    let asked = ask_several(&opened, 2, None).await;
    say(&opened, &asked, "t-1", AllowOnce).await;
    let last = say(&opened, &asked, "t-2", AllowAlways).await;
    let DecideOutcome::Decided {
        applied: true,
        approval,
    } = last
    else {
        panic!("{last:?}")
    };
    assert_eq!(approval.state.decision(), Some(AllowOnce));
    let again = say(&opened, &asked, "t-2", AllowAlways).await;
    assert!(
        matches!(again, DecideOutcome::Decided { applied: false, .. }),
        "{again:?}"
    );
    for (token, decision) in [("t-1", AllowAlways), ("t-3", AllowAlways), ("t-2", Deny)] {
        let outcome = say(&opened, &asked, token, decision).await;
        assert!(
            matches!(outcome, DecideOutcome::Conflict(_)),
            "{token}: {outcome:?}"
        );
    }
    // Of one who was enough nothing is kept besides the decision.
    let asked = ask_several(&opened, 1, None).await;
    say(&opened, &asked, "t-1", AllowAlways).await;
    let other = say(&opened, &asked, "t-1", AllowOnce).await;
    assert!(matches!(other, DecideOutcome::Conflict(_)), "{other:?}");
    // A yes that a no ended is no decision.
    let asked = ask_several(&opened, 2, None).await;
    say(&opened, &asked, "t-1", AllowOnce).await;
    say(&opened, &asked, "t-2", Deny).await;
    let again = say(&opened, &asked, "t-1", AllowOnce).await;
    assert!(matches!(again, DecideOutcome::Conflict(_)), "{again:?}");
}

#[tokio::test]
async fn nothing_is_asked_or_allowed_for_a_token_that_opens_nothing() {
    let opened = Opened::new();
    let token = NewToken {
        id: asker().id.parse().unwrap(),
        name: asker().name,
        owner: Owner::operator(),
        proposed_by: None,
        sha256: "asker-sha256".to_owned(),
        scopes: [Scope::Exec].into(),
        agents: None,
        groups: BTreeSet::new(),
        expires_at: Some(UnixMillis::new(START + 30_000)),
        replaces: None,
    };
    opened.ledger.insert_token(token, approver()).await.unwrap();
    let withdrawn = async |asked: &Approval| {
        let kept = opened.ledger.approval(&asked.id).await.unwrap().unwrap();
        assert!(matches!(kept.state, ApprovalState::Cancelled { .. }), "{kept:?}");
        let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
        let denied = (RunStatus::Denied, Some(Reason::ApprovalCancelled));
        assert_eq!((run.status, run.reason), denied);
    };
    let (answered, fallen_back, allowed) = (opened.ask().await, opened.ask().await, opened.allowed().await);

    opened.clock.set(UnixMillis::new(START + 30_000));
    let late = opened.decide(&answered.id, ApprovalDecision::AllowOnce).await;
    assert!(matches!(late, DecideOutcome::Cancelled(_)), "{late:?}");
    let expire = Expire {
        approval: fallen_back.id.clone(),
        fallback: Fallback::deny(Reason::ApprovalTimeout),
        why: Undecided::NoRoute,
    };
    let ended = opened.ledger.expire(expire).await.unwrap();
    assert!(matches!(ended, ExpireOutcome::Ended(_)), "{ended:?}");
    // A call that was on its way.
    let late = opened.ask().await;
    for asked in [&answered, &fallen_back, &late] {
        withdrawn(asked).await;
    }
    // What was allowed while it lived stays so.
    let kept = opened.ledger.approval(&allowed.id).await.unwrap().unwrap();
    assert_eq!(kept.state.status(), ApprovalStatus::Allowed);
    assert_eq!(opened.pending_approvals().await, 0);
    assert!(opened.is_chain_whole().await);
}
