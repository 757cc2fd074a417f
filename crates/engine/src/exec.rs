//! The flow of one exec call, from request to answer.

use std::{sync::Arc, task::Poll};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use countersign_config::approvals::broker::Subscription;
use countersign_domain::{Actor, EntryId, ExecRequest, Principal, RunId};
use countersign_ledger::{DirectLaunch, KeyState, Ledger, StoredOutcome, launch::LaunchOutcome};
use countersign_policy::gate::Verdict;
use countersign_sys::hooks;

use crate::{
    base::{Base, NewIds},
    caller_lease::{CallerLease, EndsWithCaller, Leases},
    delivery_terms::{self, Delivery},
    draft::{
        Admitted, Attempt, CallKey, Draft, IdempotencyKey, OnDisconnect, WaitPolicy, admitted, kept_run,
    },
    evaluator::{Evaluation, Evaluator, Mode, held_text, sandboxed},
    follow::Following,
    launch::Launch,
    lifecycle::Lifecycle,
    live::LiveRun,
    questions::Questions,
    remembered::Remembered,
    reply::{Denial, ExecError, ExecReply, StorageTrouble},
    runs::Runs,
    slots::Slot,
    stop_switch::StopSwitch,
};

/// How often a call is judged again because the policy changed between the judgement and the launch.
const ATTEMPTS: usize = 8;

/// Takes calls: each is evaluated, and then runs, is asked about, or is refused.
#[derive(Debug)]
pub struct Calls {
    ledger: Ledger,
    new_ids: NewIds,
    evaluator: Arc<Evaluator>,
    questions: Arc<Questions>,
    runs: Arc<Runs>,
    following: Arc<Following>,
    leases: Arc<Leases>,
    remembered: Arc<Remembered>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

/// What follows from an evaluation.
pub(crate) struct Outcomes {
    pub(crate) questions: Arc<Questions>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) following: Arc<Following>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) remembered: Arc<Remembered>,
}

impl Calls {
    pub(crate) fn new(base: &Base, outcomes: Outcomes) -> Self {
        let Outcomes {
            questions,
            runs,
            following,
            leases,
            remembered,
        } = outcomes;
        Self {
            ledger: base.ledger.clone(),
            new_ids: base.new_ids.clone(),
            evaluator: Arc::clone(&base.evaluator),
            questions,
            runs,
            following,
            leases,
            remembered,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Runs a command, asks for it, or refuses it (`docs/spec/http-api.md#post-v1exec-answers`).
    ///
    /// # Errors
    /// [`ExecError`] says why nothing was run.
    ///
    /// # Cancel safety
    /// Dropping the future of a run that started without an idempotency key and was not moved to the
    /// background kills the run. A pending approval stays pending.
    #[crate::compiled_once]
    pub async fn exec<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
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
    #[crate::compiled_once]
    pub async fn exec_held<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
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

    /// Runs a command for a peer of the socket, as [`Self::exec`] does. `asked` hears of the run when a person is asked
    /// about it.
    ///
    /// # Errors
    /// [`ExecError`] says why nothing was run.
    ///
    /// # Cancel safety
    /// Dropping the future kills what it started. A pending approval that `asked` heard of stays pending: cancel the run.
    /// One that was just being asked is withdrawn.
    pub fn exec_for_peer<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        request: ExecRequest,
        asked: Box<dyn FnMut(&RunId) + Send + 'a>,
    ) -> BoxFuture<'a, Result<ExecReply, ExecError>> {
        Box::pin(self.exec_telling(caller, request, None, asked))
    }

    /// Whether calls joined a run, and not all of its callers went away.
    pub fn is_shared(&self, run_id: &RunId) -> bool {
        self.ledger.is_shared(run_id)
    }

    /// [`Self::exec`], telling of the run that is followed instead of being started at once.
    async fn exec_telling(
        self: &Arc<Self>,
        caller: &Principal,
        request: ExecRequest,
        key: Option<IdempotencyKey>,
        followed: impl FnMut(&RunId) + Send,
    ) -> Result<ExecReply, ExecError> {
        let key = key.map(|key| CallKey::of(caller, key)).transpose()?;
        let key = key.as_ref();
        if let Some(run_id) = self.known_or_open(key).await? {
            self.leases.come_back(&run_id);
            self.ledger.come_back_to(&run_id);
            let on_disconnect = key.map_or(OnDisconnect::Detach, |key| key.on_disconnect);
            let wait_policy = self.following.wait_of_repeat(&request, on_disconnect);
            return self.follow_kept(&run_id, wait_policy, key, None).await;
        }
        let begun = self.begin_call(caller, request, key, None).await?;
        self.follow_begun(begun, key, followed).await
    }

    /// Judges a call and does what the verdict says, again as long as the policy changes in between. `delivery` says how
    /// it came, where that was not over this machine's own API.
    pub(super) async fn begin_call(
        self: &Arc<Self>,
        caller: &Principal,
        request: ExecRequest,
        key: Option<&CallKey>,
        delivery: Option<&Delivery>,
    ) -> Result<Begun, ExecError> {
        let mut spent: Vec<EntryId> = Vec::new();
        let mut stale = 0;
        while stale < ATTEMPTS {
            self.switch.expect_going().map_err(ExecError::Stopped)?;
            let mode = delivery.map_or_else(
                || Mode::execute(&spent),
                |delivery| Mode::deliver(delivery, &spent),
            );
            let (evaluation, slot) = self.evaluate_with_slot(caller, &request, &mode).await?;
            delivery_terms::expect_in_time(delivery, self.new_ids.now())?;
            let not_diverted = evaluation.not_diverted.clone();
            let not_held = evaluation.not_held.clone();
            let mut draft = Draft::of(evaluation, key)?;
            if delivery.is_some() {
                self.questions.note_rule(&mut draft);
            }
            let wait_policy = draft.wait_policy;
            let way = match self.attempt_detached(draft, slot).await? {
                Attempt::Started(live) => Way::Started(live),
                Attempt::Asked(run_id, awaited) => Way::Follow(run_id, Some(awaited)),
                Attempt::Joined(run_id) => Way::Joined(run_id),
                Attempt::Follow(run_id) => Way::Follow(run_id, None),
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
                not_held,
            });
        }
        Err(ExecError::Overloaded)
    }

    /// Evaluates a call. One that runs comes with a place to run in.
    async fn evaluate_with_slot(
        &self,
        caller: &Principal,
        request: &ExecRequest,
        mode: &Mode<'_>,
    ) -> Result<(Evaluation, Option<Slot>), ExecError> {
        let evaluate = || Box::pin(self.evaluator.evaluate(caller, request.clone(), mode));
        let mut evaluation = evaluate().await?;
        if !evaluation.runs() {
            return Ok((evaluation, None));
        }
        // Waited for here and not in the task: a caller that leaves the queue leaves nothing behind.
        let slot = self
            .runs
            .take_slot(&evaluation.call.agent, evaluation.policy.settings())
            .await?;
        if slot.was_waited_for() {
            // Links and files are not what they were when it was judged, and grants may have expired.
            evaluation = evaluate().await?;
        }
        let slot = evaluation.runs().then_some(slot);
        Ok((evaluation, slot))
    }

    /// Waits for what a call began, and adds what is to be said about it.
    async fn follow_begun(
        &self,
        begun: Begun,
        key: Option<&CallKey>,
        mut followed: impl FnMut(&RunId) + Send,
    ) -> Result<ExecReply, ExecError> {
        let Begun {
            way,
            wait_policy,
            not_diverted,
            not_held,
        } = begun;
        let reply = match way {
            Way::Started(live) => self.following.follow_live(&live, wait_policy).await?,
            Way::Follow(run_id, awaited) => {
                followed(&run_id);
                let reply = self.follow_kept(&run_id, wait_policy, key, awaited).await?;
                #[cfg(feature = "test-hooks")]
                drop(tokio::task::spawn_blocking(|| hooks::pause("engine.left")).await);
                reply
            }
            Way::Joined(run_id) => {
                followed(&run_id);
                let reply = self.following.follow(&run_id, wait_policy, None).await?;
                reply.joined()
            }
        };
        let warnings = not_diverted
            .map(|why| sandboxed::not_diverted(&why))
            .into_iter()
            .chain(not_held.map(|why| held_text::not_held(&why)));
        Ok(warnings.fold(reply, ExecReply::with_warning))
    }

    /// Does what the verdict says, in a task of its own as soon as it has to wait for anything: a caller that
    /// leaves while the ledger works must not take a permit with it. What was started for a caller that has left
    /// is killed. A draft that is to run comes with a place to run in.
    async fn attempt_detached(
        self: &Arc<Self>,
        draft: Draft,
        slot: Option<Slot>,
    ) -> Result<Attempt, ExecError> {
        let calls = Arc::clone(self);
        let mut attempt = Box::pin(self.lifecycle.track_launch(async move {
            let on_disconnect = draft.wait_policy.on_disconnect;
            let peer = draft.call.is_of_peer().then(|| draft.call.requested_by.clone());
            let attempt = Box::pin(calls.attempt(draft, slot)).await;
            let untaken = Untaken::of(&calls.following, &attempt, on_disconnect, peer);
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
    async fn attempt(&self, draft: Draft, slot: Option<Slot>) -> Result<Attempt, ExecError> {
        // A server that stops waits for this before it looks what runs.
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        match (draft.judged.verdict, slot) {
            (Verdict::Run, Some(slot)) => self.launch(draft, slot).await,
            (Verdict::Run, None) => Err(ExecError::Overloaded),
            (Verdict::Deny(reason), _) => self.questions.deny(draft, reason).await,
            (Verdict::Ask(spec), _) => self.questions.ask(draft, spec).await,
        }
    }

    /// The run that the key stands for: what is known is told again. Nothing begins while the server or everything is
    /// stopped, no matter what it is and where it would run.
    async fn known_or_open(&self, key: Option<&CallKey>) -> Result<Option<RunId>, ExecError> {
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        match (self.switch.expect_going(), self.known_run(key).await) {
            (Err(stop), Ok(None) | Err(_)) => Err(ExecError::Stopped(stop)),
            (_, known) => known,
        }
    }

    async fn known_run(&self, key: Option<&CallKey>) -> Result<Option<RunId>, ExecError> {
        let Some(key) = key else { return Ok(None) };
        match self.ledger.key_state(&key.kept).await? {
            KeyState::New => Ok(None),
            KeyState::Known(kept) => kept_run(kept).map(Some),
            KeyState::Mismatch => Err(ExecError::IdempotencyMismatch),
        }
    }

    /// Follows a run. A refusal that is told again has what the record of its run does not have.
    async fn follow_kept(
        &self,
        run_id: &RunId,
        wait_policy: WaitPolicy,
        key: Option<&CallKey>,
        awaited: Option<Subscription>,
    ) -> Result<ExecReply, ExecError> {
        let reply = self.following.follow(run_id, wait_policy, awaited).await;
        let (Err(ExecError::Denied(denial)), Some(key)) = (&reply, key) else {
            return reply;
        };
        let KeyState::Known(StoredOutcome::Run { run, hint }) = self.ledger.key_state(&key.kept).await?
        else {
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

    async fn launch(&self, draft: Draft, slot: Slot) -> Result<Attempt, ExecError> {
        let run_id = self.new_ids.run();
        hooks::reach("engine.before-launch");
        hooks::pause("engine.judged");
        let launch = DirectLaunch {
            run: self.runs.run_of(&draft, run_id),
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
                self.remembered.note_uses(&draft.call, &draft.judged);
                let run_id = permit.run_id().clone();
                let launch =
                    Launch::first(permit, slot, self.runs.holder_of(&draft)).inside(draft.call.sandbox);
                let live = self.runs.start(launch).await;
                Ok(live.map_or(Attempt::Follow(run_id), Attempt::Started))
            }
            LaunchOutcome::Stale => Ok(Attempt::Stale),
            LaunchOutcome::UsedUp(entry) => Ok(Attempt::UsedUp(entry)),
            LaunchOutcome::AskerGone(run_id) => Ok(Attempt::Follow(run_id)),
        }
    }
}

/// A call that was judged, and what the verdict came to.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) way: Way,
    wait_policy: WaitPolicy,
    not_diverted: Option<String>,
    /// Why its text is asked about although it might have run held.
    not_held: Option<String>,
}

/// Where the run of a call is to be found.
#[derive(Debug)]
pub(super) enum Way {
    Started(Arc<LiveRun>),
    /// Its record says how it stands. Where a person is asked about it, it is waited for from before that.
    Follow(RunId, Option<Subscription>),
    /// The same question waited, and this run for its answer.
    Joined(RunId),
}

/// What was begun for a caller who may have left before it could be told. With this becomes of it what becomes of a run
/// whose caller leaves.
struct Untaken {
    following: Arc<Following>,
    /// There until it is taken.
    run_id: Option<RunId>,
    on_disconnect: OnDisconnect,
    /// Who asked, if that is a peer of the approvals socket: they were to hear of the question and withdraw it.
    peer: Option<Actor>,
}

impl Untaken {
    fn of(
        following: &Arc<Following>,
        attempt: &Result<Attempt, ExecError>,
        on_disconnect: OnDisconnect,
        peer: Option<Actor>,
    ) -> Self {
        Self {
            following: Arc::clone(following),
            run_id: match (attempt, on_disconnect) {
                (Ok(Attempt::Started(live)), _) => Some(live.run_id.clone()),
                (Ok(Attempt::Asked(run_id, _) | Attempt::Joined(run_id)), _)
                | (Ok(Attempt::Follow(run_id)), OnDisconnect::Lapse(_)) => Some(run_id.clone()),
                // What it follows was begun for another call.
                (Ok(Attempt::Follow(_)), OnDisconnect::Kill | OnDisconnect::Detach)
                | (Ok(Attempt::Stale | Attempt::UsedUp(_)) | Err(_), _) => None,
            },
            on_disconnect,
            peer,
        }
    }

    fn disarm(mut self) {
        self.run_id = None;
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        let Some(run_id) = self.run_id.take() else { return };
        match self.peer.take() {
            Some(peer) => self.following.withdraw(run_id, peer),
            None => self.following.left(&run_id, self.on_disconnect),
        }
    }
}
