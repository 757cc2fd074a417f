//! Questions about commands that another program starts, and questions that nobody is there to answer.

use std::time::Duration;

use countersign_domain::{ApprovalState, Reason, TerminalReason};

use super::*;

use crate::{AnswerTo, Expire, ExpireOutcome, Fallback, NoRoute, NoRouteOutcome, Undecided, UseAnswer};

const START_BY: Duration = Duration::from_mins(10);

fn question(opened: &Opened) -> Asking {
    let mut asking = opened.asking();
    asking.approval.card.binding.bound = Bound::Elsewhere { asked_by: None };
    asking
}

async fn use_up(opened: &Opened, to: AnswerTo) -> Option<ApprovalId> {
    let used = opened.ledger.use_answer(UseAnswer {
        to,
        start_by: START_BY,
        longest: START_BY,
    });
    used.await.unwrap().map(|approval| approval.id)
}

#[tokio::test]
async fn an_allowed_one_ends_at_once_and_nothing_can_start_it() {
    let opened = Opened::new();
    let asked = opened.ask_with(question(&opened)).await;
    let decided = opened.decide(&asked.id, ApprovalDecision::AllowAlways).await;
    assert!(matches!(decided, DecideOutcome::Decided { applied: true, .. }));
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Lost, Some(Reason::RunElsewhere))
    );
    assert_eq!(opened.ledger.unfinished_runs().await.unwrap(), []);
    let launch = ApprovedLaunch {
        approval: asked.id.clone(),
        binding: asked.card.binding.clone(),
        stamp: PolicyStamp::default(),
        start_by: START_BY,
        node: None,
        outlives_caller: false,
    };
    assert!(matches!(
        opened.ledger.launch(launch).await.unwrap(),
        ApprovedOutcome::RunEnded(RunStatus::Lost)
    ));
}

#[tokio::test]
async fn its_answer_is_used_once_and_in_time() {
    let opened = Opened::new();
    let asked = opened.ask_with(question(&opened)).await;
    let digest = AnswerTo::Digest(asked.card.binding.digest());
    assert_eq!(use_up(&opened, digest.clone()).await, None, "it is pending");
    opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    assert_eq!(
        use_up(&opened, AnswerTo::Digest("another".to_owned())).await,
        None
    );
    assert_eq!(use_up(&opened, digest.clone()).await, Some(asked.id.clone()));
    assert_eq!(use_up(&opened, digest.clone()).await, None, "it was used");
    assert_eq!(
        use_up(&opened, AnswerTo::Approval(asked.id)).await,
        None,
        "it was used"
    );

    let late = opened.ask_with(question(&opened)).await;
    opened.decide(&late.id, ApprovalDecision::AllowOnce).await;
    opened.clock.advance(START_BY + Duration::from_millis(1));
    assert_eq!(use_up(&opened, digest).await, None, "it is too old");
    assert_eq!(
        use_up(&opened, AnswerTo::Approval(late.id)).await,
        None,
        "it is too old"
    );
}

#[tokio::test]
async fn an_id_that_somebody_chose_is_taken_once() {
    let opened = Opened::new();
    let asked = opened.ask_with(question(&opened)).await;
    let before = opened.events().await.len();
    let mut again = question(&opened);
    again.approval.id = asked.id.clone();
    let unrouted = NoRoute {
        run: opened.run(),
        approval: again.approval.clone(),
        key: None,
        fallback: Fallback::deny(Reason::NoApprover),
        hint: None,
    };
    let taken = opened.ledger.admit_asking(again).await.unwrap();
    assert!(matches!(taken, Admission::New(AskOutcome::IdTaken)));
    let taken = opened.ledger.admit_no_route(unrouted).await.unwrap();
    assert!(matches!(taken, Admission::New(NoRouteOutcome::IdTaken)));
    assert_eq!(opened.events().await.len(), before);
}

#[tokio::test]
async fn no_other_answer_is_used_like_this() {
    let opened = Opened::new();
    let ours = opened.allowed().await;
    assert_eq!(use_up(&opened, AnswerTo::Approval(ours.id.clone())).await, None);
    assert_eq!(
        use_up(&opened, AnswerTo::Digest(ours.card.binding.digest())).await,
        None
    );
    let denied = opened.ask_with(question(&opened)).await;
    opened.decide(&denied.id, ApprovalDecision::Deny).await;
    assert_eq!(use_up(&opened, AnswerTo::Approval(denied.id)).await, None);
}

#[tokio::test]
async fn a_question_that_nobody_is_there_for_ends_before_its_deadline() {
    let opened = Opened::new();
    let asked = opened.ask().await;
    let expire = |why| Expire {
        approval: asked.id.clone(),
        fallback: Fallback::deny(Reason::NoApprover),
        why,
    };
    assert!(matches!(
        opened.ledger.expire(expire(Undecided::Timeout)).await.unwrap(),
        ExpireOutcome::NotDue(_)
    ));
    match opened.ledger.expire(expire(Undecided::NoRoute)).await.unwrap() {
        ExpireOutcome::Denied(approval) => assert_eq!(
            approval.state,
            ApprovalState::Expired {
                at: UnixMillis::new(START),
                why: TerminalReason::NoRoute
            }
        ),
        other => panic!("{other:?}"),
    }
    let run = opened.ledger.run(&asked.run_id).await.unwrap().unwrap();
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Denied, Some(Reason::NoApprover))
    );
    assert!(matches!(
        opened.decide(&asked.id, ApprovalDecision::AllowOnce).await,
        DecideOutcome::Expired(_)
    ));
}

#[tokio::test]
async fn an_answer_whose_own_time_is_over_does_not_hide_a_later_one() {
    let opened = Opened::new();
    let mut hasty = question(&opened);
    hasty.approval.card.quorum.start_by_ms = Some(1000);
    let hasty = opened.ask_with(hasty).await;
    let other = opened.ask_with(question(&opened)).await;
    for asked in [&hasty, &other] {
        opened.decide(&asked.id, ApprovalDecision::AllowOnce).await;
    }
    opened.clock.advance(Duration::from_secs(2));
    assert_eq!(use_up(&opened, AnswerTo::Approval(hasty.id.clone())).await, None);
    let digest = AnswerTo::Digest(other.card.binding.digest());
    assert_eq!(use_up(&opened, digest.clone()).await, Some(other.id));
    assert_eq!(use_up(&opened, digest).await, None);
}
