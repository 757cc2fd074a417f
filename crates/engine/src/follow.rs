//! Following a run for a caller who waits for it: until it ends, goes to the background, or the caller leaves.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use countersign_config::approvals::broker::{Broker, Subscription};
use countersign_domain::{Actor, ExecRequest, KillCause, Reason, Run, RunId, RunStatus};
use countersign_ledger::{CancelOutcome, Leaving, Ledger};
use countersign_runner::output::{self, Captured};

use crate::{
    accepted_policy::AcceptedPolicy,
    base::Base,
    caller_lease::Leases,
    cancel::Cancels,
    draft::{OnDisconnect, RunWait, WaitPolicy},
    lifecycle::Lifecycle,
    live::{Ended, LiveRun, LiveRuns},
    records::Records,
    reply::{Denial, EndedRun, ExecError, ExecReply, PendingRun, RunningRun, StorageTrouble},
    run_recorder::RunRecorder,
    warnings,
};

/// How much of the output so far an answer about a running command carries
/// (`docs/spec/exec-tool.md#4-what-the-caller-gets`).
const RUNNING_TAIL_CHARS: usize = 2_000;

/// How long an answer about a run in the background waits for its process.
const STARTED_WITHIN: Duration = Duration::from_secs(2);

/// Follows runs for callers.
#[derive(Debug)]
pub(crate) struct Following {
    ledger: Ledger,
    accepted_policy: Arc<AcceptedPolicy>,
    live: Arc<LiveRuns>,
    broker: Arc<Broker>,
    records: Arc<Records>,
    recorder: Arc<RunRecorder>,
    leases: Arc<Leases>,
    cancels: Arc<Cancels>,
    lifecycle: Arc<Lifecycle>,
}

impl Following {
    pub(crate) fn new(base: &Base, leases: Arc<Leases>, cancels: Arc<Cancels>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            accepted_policy: Arc::clone(&base.accepted_policy),
            live: Arc::clone(&base.live),
            broker: Arc::clone(&base.broker),
            records: Arc::clone(&base.records),
            recorder: Arc::clone(&base.recorder),
            leases,
            cancels,
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// How long a caller waits who asks for a run again. It is answered with its end once it has one.
    pub(crate) fn wait_of_repeat(&self, request: &ExecRequest, on_disconnect: OnDisconnect) -> WaitPolicy {
        let in_effect = self.accepted_policy.in_effect();
        let default = in_effect.settings.policy.exec(&request.agent).background_after;
        let wait = if request.background {
            Duration::ZERO
        } else {
            request.yield_after.unwrap_or(default)
        };
        WaitPolicy {
            approval: request.approval_wait,
            run: RunWait::For(wait),
            on_disconnect,
        }
    }

    /// What becomes of a run, wherever it stands, whose caller leaves.
    pub(crate) fn left(&self, run_id: &RunId, on_disconnect: OnDisconnect) {
        let leaving = match on_disconnect {
            OnDisconnect::Kill => self.ledger.leave_run(run_id),
            OnDisconnect::Detach | OnDisconnect::Lapse(_) => Leaving::OfItsOwn,
        };
        let on_disconnect = match leaving {
            Leaving::OfItsOwn => on_disconnect,
            // Some wait for it, and others will look at its record.
            Leaving::OthersStay if self.broker.is_awaited(run_id) => return,
            Leaving::OthersStay => OnDisconnect::Detach,
            Leaving::Last => {
                self.withdraw_left(run_id.clone());
                on_disconnect
            }
        };
        match self.live.get(run_id) {
            Some(live) => leave(self, &live, on_disconnect),
            None => lapse(self, run_id, on_disconnect),
        }
    }

    /// Withdraws a question that calls had joined, after the last caller went away.
    fn withdraw_left(&self, run_id: RunId) {
        let (ledger, broker) = (self.ledger.clone(), Arc::clone(&self.broker));
        self.lifecycle.spawn(async move {
            let by = match ledger.run(&run_id).await {
                Ok(Some(run)) => run.requested_by,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "a question whose callers left was not withdrawn");
                    return;
                }
            };
            match ledger.withdraw_left(run_id.clone(), by).await {
                Ok(CancelOutcome::Cancelled(_)) => broker.touch(&run_id),
                Ok(CancelOutcome::NotFound | CancelOutcome::Ended(_) | CancelOutcome::Started(_)) => {}
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "a question whose callers left was not withdrawn");
                }
            }
        });
    }

    /// Withdraws what a peer began that has left.
    pub(crate) fn withdraw(&self, run_id: RunId, peer: Actor) {
        let cancels = Arc::clone(&self.cancels);
        self.lifecycle.spawn(async move {
            if let Err(error) = cancels.cancel_for(&run_id, &peer).await {
                // Mostly it has ended.
                tracing::debug!(run.id = %run_id, %error, "what a peer left was not cancelled");
            }
        });
    }

    /// Waits for a run wherever it stands, as long as its wait policy says; `awaited` where it was waited for before this.
    pub(crate) async fn follow(
        &self,
        run_id: &RunId,
        wait_policy: WaitPolicy,
        awaited: Option<Subscription>,
    ) -> Result<ExecReply, ExecError> {
        let mut follower = Follower {
            following: self,
            run_id,
            on_disconnect: wait_policy.on_disconnect,
            changes: Some(awaited.unwrap_or_else(|| self.broker.subscribe(run_id))),
        };
        let answer_by = Instant::now() + wait_policy.approval;
        let start_by = wait_policy.run.limit().map(|wait| answer_by + wait);
        loop {
            if let Some(live) = self.live.get(run_id) {
                // The follower sees to what becomes of the run when the caller leaves, once for both.
                let reply = self.wait_for(&live, wait_policy).await?;
                follower.is_answered();
                return Ok(reply);
            }
            let run = self.fetch_run(run_id).await?;
            let give_up = match run.status {
                RunStatus::Asking => Some(answer_by),
                RunStatus::Requested | RunStatus::Launching | RunStatus::Running => start_by,
                RunStatus::Completed
                | RunStatus::Failed
                | RunStatus::Denied
                | RunStatus::Cancelled
                | RunStatus::Lost => return self.ended_reply(run, wait_policy.run).await,
            };
            let seen = tokio::select! {
                biased;
                seen = follower.sees_change_before(give_up) => seen,
                trouble = self.recorder.is_unrecorded(run_id) => return Err(unrecorded(run_id, trouble)),
            };
            if !seen {
                follower.is_answered();
                return self.waiting_reply(run).await;
            }
        }
    }

    /// Waits for a run that this server holds a line to.
    pub(crate) async fn follow_live(
        &self,
        live: &Arc<LiveRun>,
        wait_policy: WaitPolicy,
    ) -> Result<ExecReply, ExecError> {
        let waiting = RunWaiter {
            following: self,
            live: Some(live),
            on_disconnect: wait_policy.on_disconnect,
        };
        let reply = self.wait_for(live, wait_policy).await;
        waiting.end();
        reply
    }

    async fn wait_for(&self, live: &Arc<LiveRun>, wait_policy: WaitPolicy) -> Result<ExecReply, ExecError> {
        let ended = match wait_policy.run {
            RunWait::ToTheEnd => Some(self.end_of(live).await),
            RunWait::For(wait) => tokio::time::timeout(wait, self.end_of(live)).await.ok(),
            RunWait::Background => None,
        };
        if let Some(ended) = ended {
            let ended = ended?;
            return reply_to_end(&ended.run, &ended.output);
        }
        // The answer may never reach its caller.
        let _lapsing = Lapsing {
            following: self,
            live,
            on_disconnect: wait_policy.on_disconnect,
        };
        self.move_to_background(live, wait_policy.run).await
    }

    /// The end of a run, once it is on record.
    async fn end_of(&self, live: &LiveRun) -> Result<Arc<Ended>, ExecError> {
        tokio::select! {
            biased;
            ended = live.ended() => Ok(ended),
            trouble = self.recorder.is_unrecorded(&live.run_id) => Err(unrecorded(&live.run_id, trouble)),
        }
    }

    async fn move_to_background(&self, live: &Arc<LiveRun>, wait: RunWait) -> Result<ExecReply, ExecError> {
        let session_id = live.to_background(|| self.recorder.new_session_id());
        // "Running" is said of what runs: a process, its id and its start. A machine that starts no more processes keeps
        // nobody waiting: then it has none of these yet.
        tokio::select! {
            biased;
            () = live.started() => {}
            () = tokio::time::sleep(STARTED_WITHIN) => {}
            trouble = self.recorder.is_unrecorded(&live.run_id) => {
                return Err(unrecorded(&live.run_id, trouble));
            }
        }
        if !self.ledger.background(live.run_id.clone(), session_id).await? {
            // It ended in between.
            let ended = self.end_of(live).await?;
            self.recorder.release_unused(live, &ended.run);
            return reply_after_end(&ended.run, &ended.output, wait);
        }
        let run = self.fetch_run(&live.run_id).await?;
        let tail = live.with_capture(|capture| capture.tail(RUNNING_TAIL_CHARS));
        Ok(ExecReply::Running(RunningRun {
            run,
            tail,
            warnings: Vec::new(),
            joined: false,
        }))
    }

    async fn waiting_reply(&self, run: Run) -> Result<ExecReply, ExecError> {
        let pending = match (run.status, &run.approval_id) {
            (RunStatus::Asking, Some(id)) => self.ledger.approval(id).await?,
            _ => None,
        };
        Ok(match pending {
            Some(approval) => ExecReply::Pending(Box::new(PendingRun {
                run,
                approval,
                warnings: Vec::new(),
                joined: false,
            })),
            None => ExecReply::Running(RunningRun {
                run,
                tail: String::new(),
                warnings: Vec::new(),
                joined: false,
            }),
        })
    }

    async fn ended_reply(&self, run: Run, wait: RunWait) -> Result<ExecReply, ExecError> {
        let output = self.records.output_text(&run).await?;
        reply_after_end(&run, &output, wait)
    }

    pub(crate) async fn fetch_run(&self, run_id: &RunId) -> Result<Run, ExecError> {
        // Nothing removes a run within the time that anybody follows it.
        self.ledger
            .run(run_id)
            .await?
            .ok_or(ExecError::Storage(StorageTrouble::Unavailable))
    }
}

/// The answer about a run that ended, while its end cannot be recorded.
fn unrecorded(run_id: &RunId, trouble: StorageTrouble) -> ExecError {
    ExecError::Unrecorded {
        run_id: run_id.clone(),
        trouble,
    }
}

/// The answer about a run that ended before it was given. One that began in the background is the session that it was
/// asked to be; one that never began is no session.
fn reply_after_end(run: &Run, output: &Captured, wait: RunWait) -> Result<ExecReply, ExecError> {
    match wait {
        RunWait::Background if run.session_id.is_some() => Ok(ExecReply::Running(RunningRun {
            run: run.clone(),
            tail: output::tail(&output.tail, RUNNING_TAIL_CHARS),
            warnings: Vec::new(),
            joined: false,
        })),
        RunWait::Background | RunWait::For(_) | RunWait::ToTheEnd => reply_to_end(run, output),
    }
}

/// The answer about a run that has ended: what it did, or why it never ran.
fn reply_to_end(run: &Run, output: &Captured) -> Result<ExecReply, ExecError> {
    match (run.status, run.reason) {
        (RunStatus::Denied, reason) => Err(ExecError::Denied(Box::new(Denial {
            run_id: run.id.clone(),
            reason: reason.unwrap_or(Reason::SecurityDeny),
            detail: run.detail.clone(),
            hint: None,
            rule: None,
        }))),
        _ => Ok(ExecReply::Ended(EndedRun {
            run: run.clone(),
            output: output.clone(),
            warnings: warnings::of(run),
            joined: false,
        })),
    }
}

/// A caller who waits for a run wherever it stands. When they leave, a run that was started for them meanwhile
/// ends with them, or goes on alone: nobody else knows of it.
struct Follower<'a> {
    following: &'a Following,
    run_id: &'a RunId,
    on_disconnect: OnDisconnect,
    /// There until it is dropped.
    changes: Option<Subscription>,
}

impl Follower<'_> {
    /// The caller has an answer and so did not go away; what they hold may still lapse.
    fn is_answered(&mut self) {
        self.on_disconnect = match self.on_disconnect {
            OnDisconnect::Kill | OnDisconnect::Detach => OnDisconnect::Detach,
            lapses @ OnDisconnect::Lapse(_) => lapses,
        };
    }

    /// Waits for a change; false when none came in time.
    async fn sees_change_before(&mut self, give_up: Option<Instant>) -> bool {
        match (&mut self.changes, give_up) {
            (Some(changes), Some(give_up)) => {
                tokio::time::timeout_at(give_up, changes.changed()).await.is_ok()
            }
            (Some(changes), None) => {
                changes.changed().await;
                true
            }
            (None, _) => false,
        }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        // First, so that a start that goes on just now either shows up below or sees that nobody waits: nothing else may
        // say that this caller does.
        drop(self.changes.take());
        self.following.left(self.run_id, self.on_disconnect);
    }
}

/// A caller who waits for a run under this server's supervision.
struct RunWaiter<'a> {
    following: &'a Following,
    /// There until the wait is over.
    live: Option<&'a Arc<LiveRun>>,
    on_disconnect: OnDisconnect,
}

impl RunWaiter<'_> {
    /// They have got what they waited for, or no longer want to wait.
    fn end(mut self) {
        self.live = None;
    }
}

impl Drop for RunWaiter<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live {
            leave(self.following, live, self.on_disconnect);
        }
    }
}

/// What becomes of a run whose caller leaves: it ends with them, or goes on as a process session.
fn leave(following: &Following, live: &Arc<LiveRun>, on_disconnect: OnDisconnect) {
    if live.has_ended() {
        return;
    }
    lapse(following, &live.run_id, on_disconnect);
    if live.is_session() {
        return;
    }
    if on_disconnect == OnDisconnect::Kill && !live.outlives_caller() {
        live.kill(KillCause::Cancelled);
        return;
    }
    let (recorder, live) = (Arc::clone(&following.recorder), Arc::clone(live));
    following
        .lifecycle
        .spawn(async move { recorder.let_go(&live).await });
}

/// An answer about a run that goes on. Its caller has to come back, if they hold it, whether or not it reaches them.
struct Lapsing<'a> {
    following: &'a Following,
    live: &'a LiveRun,
    on_disconnect: OnDisconnect,
}

impl Drop for Lapsing<'_> {
    fn drop(&mut self) {
        if !self.live.has_ended() {
            lapse(self.following, &self.live.run_id, self.on_disconnect);
        }
    }
}

/// Begins the time within which a caller who holds a run has to come back for it.
fn lapse(following: &Following, run_id: &RunId, on_disconnect: OnDisconnect) {
    if let Some(held) = on_disconnect.held() {
        following.leases.lapse(run_id, held);
    }
}
