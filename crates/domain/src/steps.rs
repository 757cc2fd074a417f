//! The decisions of the launch protocol (`docs/decisions/0009-exactly-once.md`), each as a function of what is known
//! when it is made.
//!
//! The ledger asks them inside of its transactions and recovery asks them before it acts; neither decides by itself. The
//! model in `crates/model/` runs the same functions through every order of events that it can make up.

use super::{ApprovalDecision, ApprovalState, ApprovalStatus, Persist, Reason, RunStatus};

/// The state of an approval that an answer, a launch or another step depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApprovalStanding {
    /// The stored state: `pending` also after the deadline, until that is settled.
    pub status: ApprovalStatus,
    /// What a person decided; deny for every other end.
    pub decision: Option<ApprovalDecision>,
    /// Whether a launch used it up.
    pub is_consumed: bool,
    /// Whether entries of the approvals document come from it.
    pub is_remembered: bool,
    /// Whether its deadline has come.
    pub is_due: bool,
}

impl ApprovalStanding {
    /// Of an approval in this state.
    pub const fn of(state: &ApprovalState, is_due: bool) -> Self {
        Self {
            status: state.status(),
            decision: state.decision(),
            is_consumed: matches!(
                state,
                ApprovalState::Allowed {
                    consumed_at: Some(_),
                    ..
                }
            ),
            is_remembered: matches!(
                state,
                ApprovalState::Allowed {
                    persist: Persist::Done,
                    ..
                }
            ),
            is_due,
        }
    }

    /// What a person's answer does to it. One no is enough; the yes that makes it enough of them settles it.
    pub fn answer(self, decision: ApprovalDecision, ballot: Ballot) -> Answering {
        match self.status {
            ApprovalStatus::Pending if self.is_due => Answering::Due,
            ApprovalStatus::Pending if decision == ApprovalDecision::Deny => Answering::Settles,
            ApprovalStatus::Pending if !ballot.is_entitled => Answering::NotEntitled,
            ApprovalStatus::Pending if ballot.others.saturating_add(1) >= ballot.required => {
                Answering::Settles
            }
            ApprovalStatus::Pending if ballot.is_repeated => Answering::Repeats,
            ApprovalStatus::Pending => Answering::Counts,
            ApprovalStatus::Allowed | ApprovalStatus::Denied if self.decision == Some(decision) => {
                Answering::Repeats
            }
            // One of the answers that came to less together.
            ApprovalStatus::Allowed if ballot.is_repeated => Answering::Repeats,
            ApprovalStatus::Allowed | ApprovalStatus::Denied => Answering::Conflicts,
            ApprovalStatus::Expired => Answering::Expired,
            ApprovalStatus::Cancelled => Answering::Cancelled,
        }
    }

    /// What becomes of an allowance that a person takes back. A launch that used it up came first, and so did the end of a run
    /// that was handed to its asker.
    pub const fn take_back(self, run: RunStatus) -> TakingBack {
        match self.status {
            ApprovalStatus::Allowed if self.is_consumed || self.is_remembered => TakingBack::TooLate,
            ApprovalStatus::Allowed if run.advance(RunStatus::Launching).is_err() => TakingBack::TooLate,
            ApprovalStatus::Allowed => TakingBack::TakesBack,
            ApprovalStatus::Pending => TakingBack::NotAnswered,
            ApprovalStatus::Denied => TakingBack::Repeats,
            ApprovalStatus::Expired => TakingBack::Expired,
            ApprovalStatus::Cancelled => TakingBack::Cancelled,
        }
    }

    /// Whether it ends because nobody answered.
    pub const fn expire(self) -> Expiring {
        match self.status {
            ApprovalStatus::Pending if self.is_due => Expiring::Expires,
            ApprovalStatus::Pending => Expiring::NotDue,
            ApprovalStatus::Allowed
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::Cancelled => Expiring::Ended,
        }
    }

    /// Whether a launch may use it up: step 4, for a run that a person allowed.
    pub const fn launch(self, terms: LaunchStanding) -> Launching {
        let LaunchStanding {
            run,
            start_by_passed,
            is_current,
            is_same,
        } = terms;
        match self.status {
            ApprovalStatus::Allowed if self.is_consumed => Launching::AlreadyConsumed,
            ApprovalStatus::Allowed if run.advance(RunStatus::Launching).is_err() => Launching::RunEnded,
            ApprovalStatus::Allowed if start_by_passed => Launching::StartByPassed,
            // Judged under a policy that is not the present one: the engine looks again and comes back.
            ApprovalStatus::Allowed if !is_current => Launching::Stale,
            ApprovalStatus::Allowed if !is_same => Launching::BindingMismatch,
            ApprovalStatus::Allowed => Launching::Consumes,
            ApprovalStatus::Pending
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::Cancelled => Launching::NotAllowed,
        }
    }
}

/// What an answer is beside those of other people to the same question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// Whether the person who answers is one of those who may allow it.
    pub is_entitled: bool,
    /// Whether they have said the same before.
    pub is_repeated: bool,
    /// How many other people have allowed it.
    pub others: u64,
    /// How many have to, all together.
    pub required: u64,
}

/// What an answer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answering {
    /// It is the decision, or completes it.
    Settles,
    /// It is one of several that it takes; others are still missing.
    Counts,
    /// Nothing: the person who gave it may deny, not allow.
    NotEntitled,
    /// Nothing: the same was decided before, or said by the same person.
    Repeats,
    /// Another was decided before.
    Conflicts,
    /// Nothing: the deadline has come, and nobody has settled that yet.
    Due,
    /// Nothing: nobody answered in time.
    Expired,
    /// Nothing: the request was withdrawn.
    Cancelled,
}

/// What taking an allowance back does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TakingBack {
    /// The approval is denied by it, and nothing starts.
    TakesBack,
    /// Nothing: a launch used it up, the run ended, or more than the run depends on it by now.
    TooLate,
    /// Nothing: nobody has answered yet.
    NotAnswered,
    /// Nothing: it was denied before, by an answer or in this way.
    Repeats,
    /// Nothing: nobody answered in time.
    Expired,
    /// Nothing: the request was withdrawn.
    Cancelled,
}

/// Whether an approval ends for want of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiring {
    /// It does, and its fallback counts.
    Expires,
    /// Its deadline has not come.
    NotDue,
    /// It ended before: by an answer, by its deadline or because it was withdrawn.
    Ended,
}

/// What the launch of a run compares besides the approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchStanding {
    /// The state of the run.
    pub run: RunStatus,
    /// Whether it is too late to start it.
    pub start_by_passed: bool,
    /// Whether the policy is still the one that it was last judged under.
    pub is_current: bool,
    /// Whether what would start is what was approved.
    pub is_same: bool,
}

/// What becomes of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Launching {
    /// It uses the approval up, and the run may start.
    Consumes,
    /// The approval was used up before.
    AlreadyConsumed,
    /// The approval waits, or ended without an allowance.
    NotAllowed,
    /// The run ended, or has its launch.
    RunEnded,
    /// Too late: the run ends without having started.
    StartByPassed,
    /// The policy changed: nothing happens.
    Stale,
    /// Something else would start: the run is denied.
    BindingMismatch,
}

/// What a second start of a run under its launch compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a finding of its own")]
pub struct RelaunchStanding {
    /// Whether a server before this one launched it.
    pub is_of_earlier_server: bool,
    /// Whether it had values of environment variables, which are gone.
    pub had_env: bool,
    /// Whether it is too late to start it.
    pub start_by_passed: bool,
    /// Whether what would start is what was launched.
    pub is_same: bool,
}

/// Whether a run that never started may be started once more under the launch that it has.
pub const fn relaunch(terms: RelaunchStanding) -> bool {
    let RelaunchStanding {
        is_of_earlier_server,
        had_env,
        start_by_passed,
        is_same,
    } = terms;
    is_of_earlier_server && !had_env && !start_by_passed && is_same
}

/// Where a run is carried out, as far as its end is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunLocality {
    /// Under a supervisor of this machine.
    Here,
    /// On a node, which may report late.
    Node,
}

impl RunStatus {
    /// Whether a run in this state may end like that. `lost` may end once more, but only on a node: nothing else reports
    /// late. A denial is no end of this kind: it is told differently.
    pub fn may_end(self, end: Self, locality: RunLocality) -> bool {
        end.is_final()
            && end != Self::Denied
            && self.advance(end).is_ok()
            && (self != Self::Lost || locality == RunLocality::Node)
    }
}

/// What a server that starts does about a run that another left unfinished (step 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Nothing: a person is still asked.
    Wait,
    /// The question's time ran out; nothing may start because of that.
    Expire,
    /// It was allowed: on to its launch.
    Launch,
    /// It ends for this reason.
    End(Reason),
    /// What its run file says counts.
    Inspect,
}

/// What is done about an unfinished run.
pub fn recover(run: RunStatus, has_launch: bool, approval: Option<ApprovalStanding>) -> Recovery {
    match (run, approval) {
        (RunStatus::Launching | RunStatus::Running, _) if has_launch => Recovery::Inspect,
        (RunStatus::Asking | RunStatus::Requested, Some(approval)) => match approval.status {
            ApprovalStatus::Allowed => Recovery::Launch,
            ApprovalStatus::Pending if run == RunStatus::Asking && approval.is_due => Recovery::Expire,
            ApprovalStatus::Pending if run == RunStatus::Asking => Recovery::Wait,
            ApprovalStatus::Pending
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::Cancelled => Recovery::End(Reason::ApprovalCancelled),
        },
        (
            RunStatus::Requested
            | RunStatus::Asking
            | RunStatus::Launching
            | RunStatus::Running
            | RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Denied
            | RunStatus::Cancelled
            | RunStatus::Lost,
            _,
        ) => Recovery::End(Reason::ServerRestart),
    }
}

/// What the run file of an unfinished run says that nobody supervises and that has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traces {
    /// There is no sign that it started.
    None,
    /// It was made impossible.
    Void,
    /// It may have started.
    Started,
}

/// What is done about a launched run whose supervisor is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aftermath {
    /// It did not start: it is started again, or else made impossible.
    StartAgain,
    /// It did not start: it is made impossible.
    Void,
    /// Nobody knows: it is `lost`.
    Lost,
}

/// What is done about a launched run, by its traces and by whether it was launched in this boot of the machine.
pub const fn after_launch(traces: Traces, same_boot: bool) -> Aftermath {
    match traces {
        Traces::Void => Aftermath::Void,
        Traces::None if same_boot => Aftermath::StartAgain,
        // The fence is not synced: after a loss of power its absence says nothing.
        Traces::Started | Traces::None => Aftermath::Lost,
    }
}
