//! The flow of one exec call, from request to answer.

use std::{sync::Arc, task::Poll, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use countersign_config::{approvals::broker::Subscription, settings::Settings};
use countersign_domain::{
    Command, EntryId, ExecRequest, KillCause, Principal, Reason, Run, RunId, RunStatus,
};
use countersign_ledger::{Admission, DirectLaunch, KeyState, NewRun, StoredOutcome, launch::LaunchOutcome};
use countersign_policy::gate::Verdict;
use countersign_runner::output::{self, Captured};
use countersign_sys::hooks;

use crate::{
    Engine,
    caller_lease::{CallerLease, EndsWithCaller},
    delivery_terms::{self, Delivery},
    evaluator::{Evaluation, Mode, call::Call, judgement::Judgement, sandboxed},
    live::{Holder, LiveRun},
    reply::{Denial, EndedRun, ExecError, ExecReply, PendingRun, RunningRun, StorageTrouble},
    slots::Slot,
    supervise::Launch,
    warnings,
};

/// How often a call is judged again because the policy changed between the judgement and the launch.
const ATTEMPTS: usize = 8;
/// How much of the output so far an answer about a running command carries
/// (`docs/spec/exec-tool.md#4-what-the-caller-gets`).
const RUNNING_TAIL_CHARS: usize = 2_000;

/// A key under which the same call is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 printable ASCII characters.
    pub key: String,
    /// SHA-256 of the body as it came.
    pub body_sha256: [u8; 32],
    /// What becomes of a foreground run whose caller leaves.
    pub on_disconnect: OnDisconnect,
}

/// How long a caller who follows a run waits.
#[derive(Debug, Clone, Copy)]
struct WaitPolicy {
    /// For a person's answer.
    approval: Duration,
    run: RunWait,
    /// Whether the run ends when its follower leaves.
    on_disconnect: OnDisconnect,
}

/// How long a caller who follows a run waits for its end, once it started.
#[derive(Debug, Clone, Copy)]
enum RunWait {
    /// As long as it takes.
    ToTheEnd,
    /// So long; then it goes to the background.
    For(Duration),
    /// Not at all: it begins in the background, and the answer says so however soon it ends. A caller whose answer
    /// depended on who is faster would have to expect both.
    Background,
}

impl RunWait {
    fn of(call: &Call) -> Self {
        if call.background {
            return Self::Background;
        }
        call.yield_after.map_or(Self::ToTheEnd, Self::For)
    }

    const fn limit(self) -> Option<Duration> {
        match self {
            Self::ToTheEnd => None,
            Self::For(wait) => Some(wait),
            Self::Background => Some(Duration::ZERO),
        }
    }
}

/// What becomes of a run in the foreground when its caller goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is killed: the caller's absence is its wish.
    Kill,
    /// It goes on: the caller can come back for it.
    Detach,
    /// The caller has to come back for it, soon and again and again, or it ends.
    Lapse(EndsWithCaller),
}

impl OnDisconnect {
    /// What ends when nobody comes back.
    pub(super) const fn held(self) -> Option<EndsWithCaller> {
        match self {
            Self::Lapse(held) => Some(held),
            Self::Kill | Self::Detach => None,
        }
    }
}

impl Engine {
    /// Runs a command, asks for it, or refuses it (`docs/spec/http-api.md#post-v1exec-answers`).
    ///
    /// # Errors
    /// [`ExecError`] says why nothing was run.
    ///
    /// # Cancel safety
    /// Dropping the future of a run that started without an idempotency key and was not moved to the
    /// background kills the run. A pending approval stays pending.
    pub async fn exec(
        self: &Arc<Self>,
        caller: &Principal,
        request: ExecRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<ExecReply, ExecError> {
        self.exec_telling(caller, request, key, |_run_id| {}).await
    }

    /// [`Self::exec`] for a caller who holds what it started: it waits so long for a person and for the end, and a
    /// caller who goes away, or does not call again under the same key soon after an answer, ends it. What was asked
    /// for in the background stays.
    ///
    /// # Errors
    /// As [`Self::exec`].
    ///
    /// # Cancel safety
    /// Dropping the future ends what `held` names, unless a call under the same key follows.
    pub async fn exec_held(
        self: &Arc<Self>,
        caller: &Principal,
        mut request: ExecRequest,
        mut key: IdempotencyKey,
        CallerLease { held, wait }: CallerLease,
    ) -> Result<ExecReply, ExecError> {
        if request.background {
            return self.exec(caller, request, Some(key)).await;
        }
        key.on_disconnect = OnDisconnect::Lapse(held);
        request.approval_wait = request.approval_wait.max(wait);
        if held == EndsWithCaller::Run && !wait.is_zero() {
            request.yield_after = Some(request.yield_after.unwrap_or_default().max(wait));
        }
        self.exec(caller, request, Some(key)).await
    }

    /// [`Self::exec`], telling of the run that is followed instead of being started at once.
    pub(super) async fn exec_telling(
        self: &Arc<Self>,
        caller: &Principal,
        request: ExecRequest,
        key: Option<IdempotencyKey>,
        mut followed: impl FnMut(&RunId) + Send,
    ) -> Result<ExecReply, ExecError> {
        let keyed = key.as_ref().map(|key| key.on_disconnect);
        let key = key.map(|key| ledger_key(caller, key)).transpose()?;
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        let known = match (self.switch.stopped(), self.known_run(key.as_ref()).await) {
            // What is known is told again. Nothing begins, no matter what it is and where it would run.
            (Some(standing), Ok(None) | Err(_)) => {
                return Err(ExecError::Stopped(Arc::clone(&standing.stop)));
            }
            (_, known) => known?,
        };
        if let Some(run_id) = known {
            self.leases.come_back(&run_id);
            let in_effect = self.accepted_policy.in_effect();
            let default = in_effect.settings.policy.exec(&request.agent).background_after;
            let wait = if request.background {
                Duration::ZERO
            } else {
                request.yield_after.unwrap_or(default)
            };
            let wait_policy = WaitPolicy {
                approval: request.approval_wait,
                // What is asked for again is answered with its end once it has one.
                run: RunWait::For(wait),
                on_disconnect: keyed.unwrap_or(OnDisconnect::Detach),
            };
            return self
                .as_kept(self.follow(&run_id, wait_policy).await, key.as_ref())
                .await;
        }
        let kept = key.clone();
        let Begun {
            way,
            wait_policy,
            not_diverted,
        } = self.begin_call(caller, request, key.zip(keyed), None).await?;
        let reply = match way {
            Way::Started(live) => self.follow_live(&live, wait_policy).await,
            Way::Follow(run_id) => {
                // From before anybody is told: who answers at once must find that the run is waited for.
                let _awaited = self.broker.subscribe(&run_id);
                followed(&run_id);
                self.as_kept(self.follow(&run_id, wait_policy).await, kept.as_ref())
                    .await
            }
        };
        reply.map(|reply| match not_diverted {
            Some(why) => reply.with_warning(sandboxed::not_diverted(&why)),
            None => reply,
        })
    }

    /// Judges a call and does what the verdict says, again as long as the policy changes in between. `delivery` says how
    /// it came, where that was not over this machine's own API.
    pub(super) async fn begin_call(
        self: &Arc<Self>,
        caller: &Principal,
        request: ExecRequest,
        key: Option<(countersign_ledger::IdempotencyKey, OnDisconnect)>,
        delivery: Option<&Delivery>,
    ) -> Result<Begun, ExecError> {
        let (key, keyed) = key.unzip();
        let mut spent: Vec<EntryId> = Vec::new();
        let mut stale = 0;
        while stale < ATTEMPTS {
            self.switch.expect_going().map_err(ExecError::Stopped)?;
            let mode = delivery.map_or_else(
                || Mode::execute(&spent),
                |delivery| Mode::deliver(delivery, &spent),
            );
            let mut evaluation = Box::pin(self.evaluator.evaluate(caller, request.clone(), &mode)).await?;
            let mut slot = None;
            if evaluation.runs() {
                self.places.make_ready(&evaluation.call).await?;
                // Waited for here and not in the task: a caller that leaves the queue leaves nothing behind.
                let taken = self
                    .runs
                    .take_slot(&evaluation.call.agent, evaluation.policy.settings())
                    .await?;
                if taken.was_waited_for() {
                    // Links and files are not what they were when it was judged, and grants may have expired.
                    evaluation = Box::pin(self.evaluator.evaluate(caller, request.clone(), &mode)).await?;
                    self.places.make_ready(&evaluation.call).await?;
                }
                slot = evaluation.runs().then_some(taken);
            }
            delivery_terms::expect_in_time(delivery, self.clock.now())?;
            let Evaluation {
                policy,
                call,
                judged,
                not_diverted,
                ..
            } = evaluation;
            let wait_policy = WaitPolicy {
                approval: call.approval_wait,
                run: RunWait::of(&call),
                // Half of a patch is worse than all of it, and it is soon done.
                on_disconnect: if call.background || matches!(call.command, Command::Patch(_)) {
                    OnDisconnect::Detach
                } else {
                    keyed.unwrap_or(OnDisconnect::Kill)
                },
            };
            let draft = Draft {
                call,
                judged: judged?,
                settings: Arc::clone(policy.settings()),
                key: key.clone(),
                on_disconnect: wait_policy.on_disconnect,
            };
            let way = match self.attempt_detached(draft, slot).await? {
                Attempt::Started(live) => Way::Started(live),
                Attempt::Follow(run_id) => Way::Follow(run_id),
                Attempt::Stale => {
                    stale += 1;
                    continue;
                }
                // There are only so many grants, and each is left out from now on.
                Attempt::UsedUp(entry) => {
                    spent.push(entry);
                    continue;
                }
            };
            return Ok(Begun {
                way,
                wait_policy,
                not_diverted,
            });
        }
        Err(ExecError::Overloaded)
    }

    /// Does what the verdict says, in a task of its own as soon as it has to wait for anything: a caller that
    /// leaves while the ledger works must not take a permit with it. What was started for a caller that has left
    /// is killed. A draft that is to run comes with a place to run in.
    async fn attempt_detached(
        self: &Arc<Self>,
        draft: Draft,
        slot: Option<Slot>,
    ) -> Result<Attempt, ExecError> {
        let engine = Arc::clone(self);
        let mut attempt = Box::pin(self.lifecycle.track_launch(async move {
            let on_disconnect = draft.on_disconnect;
            let attempt = engine.attempt(draft, slot).await;
            let untaken = Untaken::of(&engine, &attempt, on_disconnect);
            (attempt, untaken)
        }));
        // Mostly nothing has to be waited for, and then a task would only cost the waking of another thread. The
        // caller cannot leave in the middle of a poll.
        let first = std::future::poll_fn(|context| Poll::Ready(attempt.as_mut().poll(context))).await;
        let (attempt, guard) = match first {
            Poll::Ready(done) => done,
            Poll::Pending => {
                let (answer, answered) = oneshot::channel();
                // An answer that nobody takes is dropped, now or later, and the run with it.
                self.lifecycle
                    .spawn_launch(async move { drop(answer.send(attempt.await)) });
                // The sender is dropped unused only by a panic, which is logged where it happens.
                let Ok(done) = answered.await else {
                    return Err(ExecError::Storage(StorageTrouble::Unavailable));
                };
                done
            }
        };
        guard.disarm();
        attempt
    }

    /// Does what the verdict says.
    async fn attempt(self: &Arc<Self>, draft: Draft, slot: Option<Slot>) -> Result<Attempt, ExecError> {
        // A server that stops waits for this before it looks what runs.
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        match (draft.judged.verdict, slot) {
            (Verdict::Run, Some(slot)) => self.launch(draft, slot).await,
            (Verdict::Run, None) => Err(ExecError::Overloaded),
            (Verdict::Deny(reason), _) => self.deny(draft, reason).await,
            (Verdict::Ask(spec), _) => self.ask(draft, spec).await,
        }
    }

    async fn known_run(
        &self,
        key: Option<&countersign_ledger::IdempotencyKey>,
    ) -> Result<Option<RunId>, ExecError> {
        let Some(key) = key else { return Ok(None) };
        match self.ledger.key_state(key).await? {
            KeyState::New => Ok(None),
            KeyState::Known(kept) => kept_run(kept).map(Some),
            KeyState::Mismatch => Err(ExecError::IdempotencyMismatch),
        }
    }

    /// A refusal that is told again, with what the record of its run does not have.
    async fn as_kept(
        &self,
        reply: Result<ExecReply, ExecError>,
        key: Option<&countersign_ledger::IdempotencyKey>,
    ) -> Result<ExecReply, ExecError> {
        let (Err(ExecError::Denied(denial)), Some(key)) = (&reply, key) else {
            return reply;
        };
        let KeyState::Known(StoredOutcome::Run { run, hint }) = self.ledger.key_state(key).await? else {
            return reply;
        };
        if run != denial.run_id {
            return reply;
        }
        Err(ExecError::Denied(Box::new(Denial {
            hint,
            ..(**denial).clone()
        })))
    }

    pub(super) async fn deny(&self, draft: Draft, reason: Reason) -> Result<Attempt, ExecError> {
        let run_id = self.ids.run_id(self.clock.now());
        let (detail, hint) = draft.judged.explain_denial(&draft.call.agent, reason);
        let denial = countersign_ledger::Denial {
            run: self.run_of(&draft, run_id.clone()),
            // An answer with 400 is not kept: the script may be another one next time.
            key: draft.key.filter(|_| reason != Reason::Preflight),
            reason,
            detail: detail.clone(),
            hint: hint.clone(),
        };
        match admitted(self.ledger.admit_denied(denial).await?)? {
            Admitted::New(()) => Err(ExecError::Denied(Box::new(Denial {
                run_id,
                reason,
                detail,
                hint,
                rule: Some(Box::new(self.policy_admin.own_rule(&draft.judged, reason))),
            }))),
            Admitted::Known(run_id) => Ok(Attempt::Follow(run_id)),
        }
    }

    /// The run that a draft becomes.
    pub(super) fn run_of(&self, draft: &Draft, id: RunId) -> NewRun {
        let isolation = self.places.isolation_of_call(&draft.call, &draft.settings);
        draft.call.to_new_run(id, &draft.judged, isolation)
    }

    async fn launch(self: &Arc<Self>, draft: Draft, slot: Slot) -> Result<Attempt, ExecError> {
        let run_id = self.ids.run_id(self.clock.now());
        hooks::reach("engine.before-launch");
        hooks::pause("engine.judged");
        let launch = DirectLaunch {
            run: self.run_of(&draft, run_id),
            key: draft.key.clone(),
            terms: draft.judged.terms(&draft.settings),
        };
        let outcome = match admitted(self.ledger.admit_and_launch(launch).await?)? {
            Admitted::New(outcome) => outcome,
            Admitted::Known(run_id) => return Ok(Attempt::Follow(run_id)),
        };
        match outcome {
            LaunchOutcome::Launched(permit) => {
                hooks::reach("engine.launched");
                self.note_uses(&draft.call, &draft.judged);
                let run_id = permit.run_id().clone();
                let launch = Launch::first(permit, slot, self.holder_of(&draft)).inside(draft.call.sandbox);
                let live = self.runs.start(launch).await;
                Ok(live.map_or(Attempt::Follow(run_id), Attempt::Started))
            }
            LaunchOutcome::Stale => Ok(Attempt::Stale),
            LaunchOutcome::UsedUp(entry) => Ok(Attempt::UsedUp(entry)),
        }
    }

    /// Who a run goes on for that starts at once.
    pub(super) fn holder_of(&self, draft: &Draft) -> Holder {
        if draft.call.background {
            return Holder::Session(self.recorder.new_session_id());
        }
        match draft.on_disconnect {
            OnDisconnect::Kill => Holder::Caller,
            OnDisconnect::Detach | OnDisconnect::Lapse(_) => Holder::CallerWithKey,
        }
    }

    /// Waits for a run wherever it stands, as long as its wait policy says.
    async fn follow(
        self: &Arc<Self>,
        run_id: &RunId,
        wait_policy: WaitPolicy,
    ) -> Result<ExecReply, ExecError> {
        let mut follower = Follower {
            engine: self,
            run_id,
            on_disconnect: wait_policy.on_disconnect,
            changes: Some(self.broker.subscribe(run_id)),
        };
        let answer_by = Instant::now() + wait_policy.approval;
        let start_by = wait_policy.run.limit().map(|wait| answer_by + wait);
        loop {
            if let Some(live) = self.live.get(run_id) {
                return self.follow_live(&live, wait_policy).await;
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
            if !follower.sees_change_before(give_up).await {
                follower.on_disconnect = match follower.on_disconnect {
                    OnDisconnect::Kill | OnDisconnect::Detach => OnDisconnect::Detach,
                    lapses @ OnDisconnect::Lapse(_) => lapses,
                };
                return self.waiting_reply(run).await;
            }
        }
    }

    /// Waits for a run that this server holds a line to.
    async fn follow_live(
        self: &Arc<Self>,
        live: &Arc<LiveRun>,
        wait_policy: WaitPolicy,
    ) -> Result<ExecReply, ExecError> {
        let waiting = RunWaiter {
            engine: self,
            live: Some(live),
            on_disconnect: wait_policy.on_disconnect,
        };
        let ended = match wait_policy.run {
            RunWait::ToTheEnd => Some(live.ended().await),
            RunWait::For(wait) => tokio::time::timeout(wait, live.ended()).await.ok(),
            RunWait::Background => None,
        };
        waiting.end();
        if let Some(ended) = ended {
            return reply_to_end(&ended.run, &ended.output);
        }
        // The answer may never reach its caller.
        let _lapsing = Lapsing {
            engine: self,
            live,
            on_disconnect: wait_policy.on_disconnect,
        };
        self.move_to_background(live, wait_policy.run).await
    }

    async fn move_to_background(&self, live: &Arc<LiveRun>, wait: RunWait) -> Result<ExecReply, ExecError> {
        let session_id = live.to_background(|| self.recorder.new_session_id());
        // "Running" is said of what runs: a process, its id and its start.
        live.started().await;
        if !self.ledger.background(live.run_id.clone(), session_id).await? {
            // It ended in between.
            let ended = live.ended().await;
            self.recorder.release_unused(live, &ended.run);
            return reply_after_end(&ended.run, &ended.output, wait);
        }
        let run = self.fetch_run(&live.run_id).await?;
        let tail = live.with_capture(|capture| capture.tail(RUNNING_TAIL_CHARS));
        Ok(ExecReply::Running(RunningRun {
            run,
            tail,
            warnings: Vec::new(),
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
            })),
            None => ExecReply::Running(RunningRun {
                run,
                tail: String::new(),
                warnings: Vec::new(),
            }),
        })
    }

    async fn ended_reply(&self, run: Run, wait: RunWait) -> Result<ExecReply, ExecError> {
        let output = self.records.output_text(&run).await?;
        reply_after_end(&run, &output, wait)
    }

    pub(super) async fn fetch_run(&self, run_id: &RunId) -> Result<Run, ExecError> {
        // Nothing removes a run within the time that anybody follows it.
        self.ledger
            .run(run_id)
            .await?
            .ok_or(ExecError::Storage(StorageTrouble::Unavailable))
    }
}

/// A call that was judged, and what the verdict came to.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) way: Way,
    wait_policy: WaitPolicy,
    not_diverted: Option<String>,
}

/// A call that was evaluated, on its way to a run, a question or a denial.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) call: Call,
    pub(super) judged: Judgement,
    pub(super) settings: Arc<Settings>,
    pub(super) key: Option<countersign_ledger::IdempotencyKey>,
    /// What becomes of its run when its caller leaves.
    pub(super) on_disconnect: OnDisconnect,
}

/// Where the run of a call is to be found.
#[derive(Debug)]
pub(super) enum Way {
    Started(Arc<LiveRun>),
    /// Its record says how it stands.
    Follow(RunId),
}

/// What one attempt at a call came to.
#[derive(Debug)]
pub(super) enum Attempt {
    Started(Arc<LiveRun>),
    /// Its record says how it stands.
    Follow(RunId),
    /// The policy changed; judge again.
    Stale,
    /// A grant has no use left; judge again without it.
    UsedUp(EntryId),
}

/// A new admission, or the run that the key stands for.
pub(super) enum Admitted<T> {
    New(T),
    Known(RunId),
}

pub(super) fn admitted<T>(admission: Admission<T>) -> Result<Admitted<T>, ExecError> {
    match admission {
        Admission::New(value) => Ok(Admitted::New(value)),
        Admission::Known(kept) => kept_run(kept).map(Admitted::Known),
        Admission::Mismatch => Err(ExecError::IdempotencyMismatch),
    }
}

fn kept_run(kept: StoredOutcome) -> Result<RunId, ExecError> {
    match kept {
        StoredOutcome::Run { run, hint: _ } => Ok(run),
        // Exec calls keep runs only.
        StoredOutcome::Answer { .. } => Err(ExecError::IdempotencyMismatch),
    }
}

fn ledger_key(
    caller: &Principal,
    key: IdempotencyKey,
) -> Result<countersign_ledger::IdempotencyKey, ExecError> {
    let not_a_token = || ExecError::InvalidRequest {
        path: "Idempotency-Key",
        message: "only callers with a token can use one".to_owned(),
    };
    Ok(countersign_ledger::IdempotencyKey {
        token: caller.actor.token().ok_or_else(not_a_token)?,
        key: key.key,
        body_sha256: countersign_domain::hex(&key.body_sha256),
    })
}

/// The answer about a run that ended before it was given. One that began in the background is the session that it was
/// asked to be; one that never began is no session.
fn reply_after_end(run: &Run, output: &Captured, wait: RunWait) -> Result<ExecReply, ExecError> {
    match wait {
        RunWait::Background if run.session_id.is_some() => Ok(ExecReply::Running(RunningRun {
            run: run.clone(),
            tail: output::tail(&output.tail, RUNNING_TAIL_CHARS),
            warnings: Vec::new(),
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
        })),
    }
}

/// A caller who waits for a run wherever it stands. When they leave, a run that was started for them meanwhile
/// ends with them, or goes on alone: nobody else knows of it.
struct Follower<'a> {
    engine: &'a Arc<Engine>,
    run_id: &'a RunId,
    on_disconnect: OnDisconnect,
    /// There until it is dropped.
    changes: Option<Subscription>,
}

impl Follower<'_> {
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
        // First, so that a start that goes on just now either shows up below or sees that nobody waits.
        drop(self.changes.take());
        match self.engine.live.get(self.run_id) {
            Some(live) => leave(self.engine, &live, self.on_disconnect),
            None => lapse(self.engine, self.run_id, self.on_disconnect),
        }
    }
}

/// A caller who waits for a run under this server's supervision.
struct RunWaiter<'a> {
    engine: &'a Arc<Engine>,
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
            leave(self.engine, live, self.on_disconnect);
        }
    }
}

/// What becomes of a run whose caller leaves: it ends with them, or goes on as a process session.
fn leave(engine: &Arc<Engine>, live: &Arc<LiveRun>, on_disconnect: OnDisconnect) {
    if live.has_ended() {
        return;
    }
    lapse(engine, &live.run_id, on_disconnect);
    if live.is_session() {
        return;
    }
    if on_disconnect == OnDisconnect::Kill && !live.outlives_caller() {
        live.kill(KillCause::Cancelled);
        return;
    }
    let (own, live) = (Arc::clone(engine), Arc::clone(live));
    engine
        .lifecycle
        .spawn(async move { own.recorder.let_go(&live).await });
}

/// An answer about a run that goes on. Its caller has to come back, if they hold it, whether or not it reaches them.
struct Lapsing<'a> {
    engine: &'a Arc<Engine>,
    live: &'a LiveRun,
    on_disconnect: OnDisconnect,
}

impl Drop for Lapsing<'_> {
    fn drop(&mut self) {
        if !self.live.has_ended() {
            lapse(self.engine, &self.live.run_id, self.on_disconnect);
        }
    }
}

/// Begins the time within which a caller who holds a run has to come back for it.
fn lapse(engine: &Arc<Engine>, run_id: &RunId, on_disconnect: OnDisconnect) {
    if let Some(held) = on_disconnect.held() {
        engine.lapse(run_id, held);
    }
}

/// What was begun for a caller who may have left before it could be told; it ends, or begins to lapse, with this.
struct Untaken(Option<Orphan>);

enum Orphan {
    /// A run that is killed.
    Killed(Arc<LiveRun>),
    /// A run that its caller has to come back for.
    Lapsing(Arc<Engine>, RunId, EndsWithCaller),
}

impl Untaken {
    fn of(engine: &Arc<Engine>, attempt: &Result<Attempt, ExecError>, on_disconnect: OnDisconnect) -> Self {
        let lapsing = |run_id: &RunId, held| Some(Orphan::Lapsing(Arc::clone(engine), run_id.clone(), held));
        Self(match (attempt, on_disconnect) {
            (Ok(Attempt::Started(live)), OnDisconnect::Kill) => Some(Orphan::Killed(Arc::clone(live))),
            (Ok(Attempt::Started(live)), OnDisconnect::Lapse(held)) => lapsing(&live.run_id, held),
            (Ok(Attempt::Follow(run_id)), OnDisconnect::Lapse(held)) => lapsing(run_id, held),
            (Ok(Attempt::Started(_)), OnDisconnect::Detach)
            | (Ok(Attempt::Follow(_)), OnDisconnect::Detach | OnDisconnect::Kill)
            | (Ok(Attempt::Stale | Attempt::UsedUp(_)) | Err(_), _) => None,
        })
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        match self.0.take() {
            None => {}
            Some(Orphan::Killed(live)) => live.kill(KillCause::Cancelled),
            Some(Orphan::Lapsing(engine, run_id, held)) => engine.lapse(&run_id, held),
        }
    }
}
