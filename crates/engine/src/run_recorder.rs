//! The record of what runs: how a run is said to have started, what it wrote, and how it ended, for the ledger and for
//! those who watch.
//!
//! A start or an end is recorded as often as it takes: the run file has the end too, so nothing is lost if the server dies
//! meanwhile. Nothing here starts, signals or judges anything.

use std::{
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use countersign_config::approvals::broker::Broker;
use tokio::sync::Notify;

use countersign_domain::{
    Actor, AgentId, Backend, Exit, Host, Observed, OutputStream, Reason, Run, RunEnd, RunId, RunStatus,
};
use countersign_hosts::sandbox::SandboxHost;
use countersign_ledger::{
    EndOutcome, Finish, Finished, Ledger, LedgerError, RunOutput, Started,
    events::{Event, EventKind, OutputChunk, Subject, system_text},
};
use countersign_runner::output::{self, Utf8Decoder};
use countersign_sys::{
    clock::Clock,
    hooks,
    process::{Pid, monotonic},
};

use crate::{
    EngineStats,
    accepted_policy::AcceptedPolicy,
    launch::{Holder, Supervision},
    lifecycle::Lifecycle,
    live::{Ended, LiveRun, LiveState},
    outcome::{self, OutputSummary},
    process::ProcessState,
    reply::StorageTrouble,
    system_event,
    unrecorded::{LONGER, LONGER_WITHIN_ITS_TIME, PATIENCE, Unrecorded},
    watch::tell,
};

/// What those who watch output as it comes need, kept between two pieces of it.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    subject: Option<Subject>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
}

/// Pause between attempts to record an end while the ledger cannot be written.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// What the record of a run says whose task panicked.
pub(crate) const BUG: &str =
    "a bug of this server ended the task that supervised it; the server's log says where";

/// What is left of a run besides its end.
pub(crate) struct Remains {
    pub(crate) output: RunOutput,
    pub(crate) warnings: Vec<String>,
    /// The process session that holds what it left running.
    pub(crate) leftovers: Option<String>,
    /// What was seen of the programs that it started.
    pub(crate) observed: Option<Observed>,
}

impl Remains {
    pub(crate) const fn of(output: RunOutput) -> Self {
        Self {
            output,
            warnings: Vec::new(),
            leftovers: None,
            observed: None,
        }
    }
}

/// Records starts and ends, and tells those who watch.
#[derive(Debug)]
pub(crate) struct RunRecorder {
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) accepted_policy: Arc<AcceptedPolicy>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) sandbox: SandboxHost,
    pub(crate) sessions: Arc<ProcessState>,
    pub(crate) stats: EngineStats,
    pub(crate) unrecorded: Unrecorded,
}

impl RunRecorder {
    /// Wakes those who wait for a change of a run.
    pub(crate) fn touch(&self, run_id: &RunId) {
        self.broker.touch(run_id);
    }

    /// A process session has this name already.
    pub(crate) fn keep_session_id(&self, session_id: String) {
        self.sessions.take(session_id);
    }

    /// A short name for a process session.
    pub(crate) fn new_session_id(&self) -> String {
        self.sessions.new_name()
    }

    /// Records that a run has started: with its first process, where this machine has it, and when it was permitted, where
    /// this server did that.
    pub(crate) fn started(&self, live: &LiveRun, pid: Option<Pid>, permitted_at: Option<Duration>) {
        if let Some(permitted_at) = permitted_at {
            let took = monotonic().saturating_sub(permitted_at);
            self.stats.start_seconds.observe(took.as_secs_f64());
        }
        self.ledger.started(Started {
            run_id: live.run_id.clone(),
            pid,
            session_id: live.session_id(),
            at: self.clock.now(),
        });
        // Then: who was told that it runs finds its start in the ledger.
        live.set(LiveState::Running);
    }

    /// Tells once that a run which a person allowed still runs.
    pub(crate) async fn notice_running(&self, live: &Arc<LiveRun>, after: Option<Duration>) {
        let Some(after) = after else {
            return std::future::pending().await;
        };
        // The time counts from its start, not from the order to start it.
        live.started().await;
        tokio::time::sleep(after).await;
        if let Some(subject) = self.subject_of(live).await {
            let place = system_event::RunHost {
                host: live.host,
                node_id: subject.node_id.as_deref(),
            };
            let text = system_text::exec_running(place, &live.run_id, after);
            let elapsed_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let kind = EventKind::ExecRunning {
                elapsed_ms,
                session_id: live.session_id(),
            };
            let told = Event {
                subject: subject.clone(),
                kind: EventKind::SystemEvent { text },
            };
            tell(&self.ledger, Event { subject, kind }, Actor::system()).await;
            tell(&self.ledger, told, Actor::system()).await;
        }
        // Once; the caller does not poll it again.
    }

    /// Hands output on to those who watch it as it comes. Nobody there: nothing to do.
    pub(crate) async fn publish_output(
        &self,
        live: &Arc<LiveRun>,
        listeners: &mut Listeners,
        offset: u64,
        stream: OutputStream,
        bytes: &[u8],
    ) {
        if self.ledger.feed().output_subscribers() == 0 {
            return;
        }
        if listeners.subject.is_none() {
            listeners.subject = self.subject_of(live).await;
        }
        let decoder = match stream {
            OutputStream::Stdout => &mut listeners.stdout,
            OutputStream::Stderr => &mut listeners.stderr,
        };
        let mut text = String::new();
        decoder.push(bytes, |piece| text.push_str(&output::sanitize(piece)));
        if let Some(subject) = listeners.subject.clone().filter(|_subject| !text.is_empty()) {
            self.ledger.publish_output(&OutputChunk {
                subject,
                ts: self.clock.now(),
                offset,
                stream,
                text,
            });
        }
    }

    pub(crate) async fn subject_of(&self, live: &Arc<LiveRun>) -> Option<Subject> {
        let run = self.ledger.run(&live.run_id).await.ok().flatten()?;
        Some(Subject {
            run_id: Some(run.id),
            approval_id: run.approval_id,
            agent: Some(run.agent),
            session: Some(run.session),
            host: Some(run.host),
            node_id: run.node_id,
            owner: run.requested_by.token(),
        })
    }

    /// Where a run was to start, if its record can be read now.
    pub(crate) async fn cwd_of(&self, run_id: &RunId) -> Option<String> {
        let run = self.ledger.run(run_id).await.ok().flatten()?;
        Some(run.cwd)
    }

    /// What the end of a run by a signal means when its first process was the client of a container engine, which no
    /// command inside can end in that way.
    pub(crate) async fn end_of_client(
        &self,
        run_id: &RunId,
        exit: &Exit,
        summary: &OutputSummary,
    ) -> Option<RunEnd> {
        if exit.signal.is_none() || exit.killed.is_some() {
            return None;
        }
        let run = self.ledger.run(run_id).await.ok().flatten()?;
        let is_client = run.sandbox == Some(Backend::Docker);
        is_client
            .then(|| outcome::end_of_client(exit, summary, self.clock.now()))
            .flatten()
    }

    /// Records the end, as often as it takes, and tells all who wait. Whether an end is on record now: it is not where the
    /// server stops before the ledger takes it.
    pub(crate) async fn finish(&self, live: &Arc<LiveRun>, end: RunEnd, remains: Remains) -> bool {
        let run_id = &live.run_id;
        let Remains {
            output,
            warnings,
            leftovers,
            observed,
        } = remains;
        let has_leftovers = leftovers.is_some();
        let notice = self.exit_notice(&live.agent, live.host, live.control().node_id(), run_id, &end);
        let recorded = self
            .record_end(Finish {
                run_id: run_id.clone(),
                end,
                output,
                warnings,
                leftovers,
                observed,
                notice,
            })
            .await;
        hooks::reach("engine.finished");
        #[cfg(feature = "test-hooks")]
        drop(tokio::task::spawn_blocking(|| hooks::pause("engine.end-recorded")).await);
        hooks::panic_at("run.recorded");
        let run = match recorded {
            Some(run) => *run,
            // Another end was recorded before.
            None => match self
                .until_done(run_id, "a run cannot be read", || self.ledger.run(run_id))
                .await
            {
                Some(Some(run)) => run,
                Some(None) | None => return false,
            },
        };
        let is_recorded = run.status.is_final();
        self.sweep_after(&run).await;
        let output = live.with_capture(|capture| capture.captured());
        // It may have ended before it became the session that it was about to be.
        self.release_unused(live, &run);
        if has_leftovers {
            // They belong to nobody who waits.
            live.outlive_caller();
        }
        live.set(LiveState::Ended(Arc::new(Ended { run, output })));
        is_recorded
    }

    /// Ends a run whose task panicked: records that its outcome is not known, unless its end is on record, and tells all who
    /// wait. It does as little as it can, since the same bug may be reached again.
    pub(crate) async fn give_up(&self, live: &Arc<LiveRun>, reason: Reason) {
        let end = outcome::end_without_exit(
            reason,
            Some(BUG.to_owned()),
            OutputSummary::default(),
            self.clock.now(),
        );
        let run_id = &live.run_id;
        let finish = Finish {
            run_id: run_id.clone(),
            end,
            output: RunOutput::Spooled,
            warnings: Vec::new(),
            leftovers: None,
            observed: None,
            notice: None,
        };
        let trouble = "an end cannot be recorded yet";
        let finished = self
            .until_done(run_id, trouble, || self.ledger.finish(finish.clone()))
            .await;
        let run = match finished.and_then(|finished| finished.run) {
            Some(run) => *run,
            None => match self
                .until_done(run_id, "a run cannot be read", || self.ledger.run(run_id))
                .await
            {
                Some(Some(run)) => run,
                Some(None) | None => return,
            },
        };
        self.release_unused(live, &run);
        let output = panic::catch_unwind(AssertUnwindSafe(|| {
            live.with_capture(|capture| {
                capture.finish();
                capture.captured()
            })
        }));
        let output = output.unwrap_or_default();
        live.set(LiveState::Ended(Arc::new(Ended {
            run: run.clone(),
            output,
        })));
        self.sweep_after(&run).await;
    }

    /// Ends what a run may have left inside of its sandbox. One that was killed, or whose supervisor is gone, may not have
    /// got round to it.
    pub(crate) async fn sweep_after(&self, run: &Run) {
        let ended_by_itself = run.exit_code.is_some() && !run.timed_out;
        if run.host == Host::Sandbox && !ended_by_itself {
            self.sandbox.sweep(&run.id).await;
        }
    }

    /// Gives up the name of a session that its run never became.
    pub(crate) fn release_unused(&self, live: &LiveRun, ended: &Run) {
        if let Some(unused) = live
            .session_id()
            .filter(|id| ended.session_id.as_ref() != Some(id))
        {
            self.sessions.release(&unused);
        }
    }

    /// Gives up the session of a run that was not started.
    pub(crate) fn release_holder(&self, supervision: &Supervision) {
        if let Holder::Session(session_id) = &supervision.holder {
            self.sessions.release(session_id);
        }
    }

    /// Records that nothing of what a run left goes on, as often as it takes.
    pub(crate) async fn record_leftovers_end(&self, run_id: &RunId, killed: bool) {
        let trouble = "the end of what a run left running cannot be recorded yet";
        self.until_done(run_id, trouble, || {
            self.ledger.end_leftovers(run_id.clone(), killed)
        })
        .await;
    }

    /// What a session is told when its run has ended like this, if its agent is to be told.
    pub(crate) fn exit_notice(
        &self,
        agent: &AgentId,
        host: Host,
        node_id: Option<&str>,
        run_id: &RunId,
        end: &RunEnd,
    ) -> Option<String> {
        let settings = Arc::clone(&self.accepted_policy.last_seen().settings);
        let exec = settings.policy.exec(agent);
        let is_wanted = exec.notify_on_exit
            && (exec.notify_on_exit_empty_success || !system_event::is_silent_success(end));
        let place = system_event::RunHost { host, node_id };
        is_wanted.then(|| system_event::exec_finished(place, run_id, end))
    }

    /// Puts an end into the ledger. While that cannot be written it tries again: the run file has the end
    /// too, so nothing is lost if the server dies meanwhile. Returns the run as it ended, unless this end was
    /// not the one that counts.
    pub(crate) async fn record_end(&self, finish: Finish) -> Option<Box<Run>> {
        // A denial is no end of a run that started, and is told otherwise.
        if let (RunStatus::Denied, Some(reason)) = (finish.end.status, finish.end.reason) {
            self.record_denial(&finish.run_id, reason, finish.end.detail)
                .await;
            return self.ledger.run(&finish.run_id).await.ok().flatten().map(Box::new);
        }
        let longer = if finish.end.exit_code.is_some() {
            LONGER_WITHIN_ITS_TIME
        } else {
            LONGER
        };
        let Finished { outcome, run } = self
            .until_done_in(longer, &finish.run_id, "an end cannot be recorded yet", || {
                self.ledger.finish(finish.clone())
            })
            .await?;
        if let EndOutcome::Refused(status) = outcome {
            tracing::warn!(run.id = %finish.run_id, run.status = %status, "an end came too late");
        }
        run
    }

    /// Ends a run that is not live.
    pub(crate) async fn end_run(&self, run_id: &RunId, reason: Reason, detail: Option<String>) {
        if reason.run_status() == RunStatus::Denied {
            self.record_denial(run_id, reason, detail).await;
        } else {
            let end = outcome::end_without_exit(reason, detail, OutputSummary::default(), self.clock.now());
            let run = self.ledger.run(run_id).await.ok().flatten();
            let notice = run
                .and_then(|run| self.exit_notice(&run.agent, run.host, run.node_id.as_deref(), run_id, &end));
            self.record_end(Finish {
                run_id: run_id.clone(),
                end,
                output: RunOutput::Inline(Vec::new()),
                warnings: Vec::new(),
                leftovers: None,
                observed: None,
                notice,
            })
            .await;
        }
        self.broker.touch(run_id);
    }

    pub(crate) async fn record_denial(&self, run_id: &RunId, reason: Reason, detail: Option<String>) {
        self.until_done(run_id, "a denial cannot be recorded yet", || {
            self.ledger.deny(run_id.clone(), reason, detail.clone())
        })
        .await;
    }

    /// Tells the session of a run something, where its agent wants to be told of ends at all.
    pub(crate) async fn tell_of(
        &self,
        live: &Arc<LiveRun>,
        text: impl FnOnce(system_event::RunHost<'_>, &RunId) -> String,
    ) {
        let settings = Arc::clone(&self.accepted_policy.last_seen().settings);
        if !settings.policy.exec(&live.agent).notify_on_exit {
            return;
        }
        let Some(subject) = self.subject_of(live).await else {
            return;
        };
        let place = system_event::RunHost {
            host: Host::Node,
            node_id: live.control().node_id(),
        };
        let text = text(place, &live.run_id);
        let kind = EventKind::SystemEvent { text };
        tell(&self.ledger, Event { subject, kind }, Actor::system()).await;
    }

    /// Lets a run go on that nobody waits for.
    pub(crate) async fn let_go(&self, live: &Arc<LiveRun>) {
        let session_id = live.to_background(|| self.sessions.new_name());
        match self.ledger.background(live.run_id.clone(), session_id).await {
            Ok(true) => {}
            Ok(false) => {
                let ended = live.ended().await;
                self.release_unused(live, &ended.run);
            }
            Err(error) => {
                tracing::error!(run.id = %live.run_id, error = %error, "a run that goes on alone is not recorded as such");
            }
        }
    }

    /// Waits until the end of a run could not be recorded for so long that its callers are told.
    pub(crate) async fn is_unrecorded(&self, run_id: &RunId) -> StorageTrouble {
        self.unrecorded.noted(run_id).await
    }

    /// [`Self::end_run`] for a caller who waits for the run: it goes on behind them when the ledger cannot be written.
    pub(crate) async fn end_run_behind(
        self: &Arc<Self>,
        lifecycle: &Arc<Lifecycle>,
        run_id: &RunId,
        reason: Reason,
        detail: Option<String>,
    ) {
        let (recorder, life, id) = (Arc::clone(self), Arc::clone(lifecycle), run_id.clone());
        let recording = lifecycle.spawn(async move {
            let given_up = async {
                life.stopping().await;
                tokio::time::sleep(PATIENCE).await;
            };
            tokio::select! {
                () = recorder.end_run(&id, reason, detail) => {}
                // The next start finds that it did not begin.
                () = given_up => {}
            }
        });
        tokio::select! {
            _done = recording => {}
            _trouble = self.is_unrecorded(run_id) => {}
        }
    }

    /// Does something about a run at the ledger, as often as it takes. `None` when the ledger is closed. Who waits for the
    /// run is told when that takes long.
    async fn until_done<T, F>(&self, run_id: &RunId, trouble: &str, attempt: impl FnMut() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, LedgerError>>,
    {
        self.until_done_in(LONGER, run_id, trouble, attempt).await
    }

    /// The same; while nothing fails, those who wait are told so much later.
    async fn until_done_in<T, F>(
        &self,
        longer: Duration,
        run_id: &RunId,
        trouble: &str,
        mut attempt: impl FnMut() -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, LedgerError>>,
    {
        let (why, failed) = (Mutex::new(None), Notify::new());
        let seen = || *why.lock().unwrap_or_else(PoisonError::into_inner);
        let mut doing = pin!(async {
            loop {
                match attempt().await {
                    Ok(done) => return Some(done),
                    Err(LedgerError::Closed) => return None,
                    Err(error) => {
                        tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "{trouble}");
                        *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
                        failed.notify_one();
                        tokio::time::sleep(RECORD_AGAIN).await;
                    }
                }
            }
        });
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut doing).await {
            return done;
        }
        // A disk that is slow is not one that fails.
        if seen().is_none() {
            tokio::select! {
                done = &mut doing => return done,
                () = failed.notified() => {}
                () = tokio::time::sleep(longer) => {}
            }
        }
        self.unrecorded
            .note(run_id, seen().unwrap_or(StorageTrouble::Unavailable));
        let done = doing.await;
        self.unrecorded.forget(run_id);
        done
    }
}
