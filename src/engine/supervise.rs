//! One task per live run: it hears its supervisor to the end and puts the end into the ledger.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    domain::{Actor, Isolation, OutputStream, Reason, Run, RunEnd, RunId, RunStatus},
    engine::{
        Engine,
        live::{Ended, LiveRun, LiveState},
        outcome::{self, OutputSummary},
        slots::Slot,
        warnings,
    },
    events::{Event, EventKind, OutputChunk, Subject},
    hosts::{
        Attempt, Host as _, RunTerms,
        gateway::{self, RunEvents, StartError, Supervised, SupervisorEvent},
    },
    ledger::{EndOutcome, Finish, Finished, LedgerError, RunOutput, Started, launch::Permit},
    output::{self, Capture, CaptureLimits, Utf8Decoder, spool},
    sys::{hooks, process::monotonic},
};

/// What those who watch output as it comes need, kept between two pieces of it.
#[derive(Debug, Default)]
struct Listeners {
    subject: Option<Subject>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
}

/// From `SIGTERM` to `SIGKILL` when a run is killed.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Pause between attempts to record an end while the ledger cannot be written.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// What a run under this server's care has besides its supervisor.
#[derive(Debug)]
pub(super) struct Custody {
    /// The place it takes.
    pub(super) slot: Slot,
    /// Whether it goes on when its caller, or this server, is gone.
    pub(super) outlives_caller: bool,
    /// After how long its being alive is reported, once (`tools.exec.approvalRunningNoticeMs`); only for runs
    /// that a person allowed.
    pub(super) notice_after: Option<Duration>,
}

impl Engine {
    /// Starts what a permit allows; call it from a task of its own. `None` when it could not be started: its
    /// record says why.
    pub(super) async fn start(self: &Arc<Self>, permit: Permit, custody: Custody) -> Option<Arc<LiveRun>> {
        self.start_attempt(permit, custody, Attempt::First).await
    }

    /// As [`Self::start`], also for a launch that an earlier server may have begun.
    pub(super) async fn start_attempt(
        self: &Arc<Self>,
        permit: Permit,
        custody: Custody,
        attempt: Attempt,
    ) -> Option<Arc<LiveRun>> {
        let run_id = permit.run_id().clone();
        let timeout = millis(permit.binding().timeout_ms);
        let terms = self.run_terms(&permit, custody.outlives_caller, attempt);
        let permitted_at = monotonic();
        hooks::reach("engine.before-start");
        let supervised = match self.gateway.run(permit, terms).await {
            Ok(supervised) => supervised,
            Err(error) => {
                self.end_unstarted(&run_id, &error).await;
                return None;
            }
        };
        hooks::reach("engine.frame-sent");
        Some(self.adopt(run_id, timeout, supervised, custody, Some(permitted_at)))
    }

    /// Takes a run with a supervisor under this server's care. `permitted_at`, by the monotonic clock, is known of
    /// one that this server starts.
    pub(super) fn adopt(
        self: &Arc<Self>,
        run_id: RunId,
        timeout: Option<Duration>,
        supervised: Supervised,
        custody: Custody,
        permitted_at: Option<Duration>,
    ) -> Arc<LiveRun> {
        let Supervised { events, control } = supervised;
        let session_id = custody.outlives_caller.then(|| self.new_session_id());
        let live = LiveRun::new(run_id, control, Capture::new(self.capture_limits()), session_id);
        self.live.insert(&live);
        self.broker.touch(&live.run_id);
        let (engine, held) = (Arc::clone(self), Arc::clone(&live));
        self.tasks.spawn(async move {
            engine
                .supervise(&held, events, timeout, custody, permitted_at)
                .await;
        });
        live
    }

    fn run_terms(&self, permit: &Permit, outlives_caller: bool, attempt: Attempt) -> RunTerms {
        let settings = Arc::clone(&self.policy_hold.look().settings);
        let exec = settings.policy.exec(&permit.binding().agent);
        let path = self.environment.run_path(&exec.path_prepend);
        let hidden = match permit.isolation() {
            Isolation::Confined => self.gateway.hidden(),
            Isolation::SameUser | Isolation::SeparateUser | Isolation::Sandbox | Isolation::Node => None,
        };
        RunTerms {
            attempt,
            least_isolation: self.isolation_of(&permit.binding().agent, &settings),
            env: self.environment.of_command(&path, permit.env(), hidden),
            kill_grace: KILL_GRACE,
            // A kept leftover becomes a session of its own only with the process tool.
            leftovers: exec.leftovers,
            keep_when_orphaned: outlives_caller,
            stdin_open: false,
            max_run_bytes: settings.server.output.max_run_bytes,
        }
    }

    async fn supervise(
        self: Arc<Self>,
        live: &Arc<LiveRun>,
        mut events: RunEvents,
        timeout: Option<Duration>,
        custody: Custody,
        permitted_at: Option<Duration>,
    ) {
        let mut skipped = false;
        let mut listeners = Listeners::default();
        let mut notice = std::pin::pin!(self.notice_running(live, custody.notice_after));
        let mut noticed = false;
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                () = &mut notice, if !noticed => {
                    noticed = true;
                    continue;
                }
            };
            let Some(event) = event else { break };
            match event {
                SupervisorEvent::Started { pid } => {
                    live.set(LiveState::Running);
                    if let Some(permitted_at) = permitted_at {
                        let took = monotonic().saturating_sub(permitted_at);
                        self.stats.start_seconds.observe(took.as_secs_f64());
                    }
                    self.ledger.started(Started {
                        run_id: live.run_id.clone(),
                        pid: Some(pid),
                        session_id: live.session_id(),
                        at: self.clock.now(),
                    });
                }
                SupervisorEvent::Output { stream, bytes } => {
                    let offset = live.with_capture(|capture| {
                        let offset = capture.bytes();
                        capture.push(stream, &bytes);
                        offset
                    });
                    self.publish_output(live, &mut listeners, offset, stream, &bytes)
                        .await;
                }
                SupervisorEvent::Skipped { .. } => skipped = true,
                SupervisorEvent::Exit(ended) => {
                    noticed = true;
                    hooks::reach("engine.exit-received");
                    self.finish_exited(live, ended, skipped, timeout).await;
                }
                SupervisorEvent::NotStarted(why) => {
                    // Said once that it did not start, it must not start later either.
                    self.void(&live.run_id).await;
                    let detail = Some(format!("the supervisor reported: {why:?}"));
                    let end = self.end_now(Reason::NotStarted, detail, live);
                    self.finish(live, end, RunOutput::Spooled, Vec::new()).await;
                }
                SupervisorEvent::Lost => {
                    let end = self.end_now(Reason::RunnerLost, None, live);
                    self.finish(live, end, RunOutput::Spooled, Vec::new()).await;
                }
                SupervisorEvent::LeftoversEnded => {}
            }
        }
        self.live.remove(&live.run_id);
        self.broker.touch(&live.run_id);
        drop(custody.slot);
    }

    /// Tells once that a run which a person allowed still runs.
    async fn notice_running(&self, live: &Arc<LiveRun>, after: Option<Duration>) {
        let Some(after) = after else {
            return std::future::pending().await;
        };
        tokio::time::sleep(after).await;
        if let Some(subject) = self.subject_of(live).await {
            let elapsed_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let kind = EventKind::ExecRunning {
                elapsed_ms,
                session_id: live.session_id(),
            };
            self.tell(Event { subject, kind }, Actor::system()).await;
        }
        // Once; the caller does not poll it again.
    }

    /// Hands output on to those who watch it as it comes. Nobody there: nothing to do.
    async fn publish_output(
        &self,
        live: &Arc<LiveRun>,
        listeners: &mut Listeners,
        offset: u64,
        stream: OutputStream,
        bytes: &[u8],
    ) {
        if self.ledger.feed().subscribers() == 0 {
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

    async fn subject_of(&self, live: &Arc<LiveRun>) -> Option<Subject> {
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

    async fn finish_exited(
        &self,
        live: &Arc<LiveRun>,
        ended: gateway::EndedRun,
        skipped: bool,
        timeout: Option<Duration>,
    ) {
        let gateway::EndedRun {
            exit,
            output,
            leftovers_run: _,
        } = ended;
        if skipped {
            self.read_skipped(live).await;
        }
        let summary = live.with_capture(|capture| {
            capture.finish();
            OutputSummary {
                truncated: capture.truncated(),
                tail: capture.tail(self.capture_limits().tail_chars),
            }
        });
        let mut end = outcome::end_of(&exit, timeout, summary, self.clock.now());
        let warnings = self.warnings_after(&live.run_id, &exit).await;
        end.detail = warnings::explain(end.detail, &warnings);
        let output = match output {
            gateway::KeptOutput::Inline(frames) => RunOutput::Inline(frames),
            gateway::KeptOutput::Spooled => RunOutput::Spooled,
        };
        self.finish(live, end, output, warnings).await;
        // Whoever waits for the answer goes first.
        tokio::task::yield_now().await;
        live.control().stored();
    }

    /// Some output went only into the spool: the text in answers comes from there.
    async fn read_skipped(&self, live: &Arc<LiveRun>) {
        let (spool, limits) = (self.gateway.spool(&live.run_id), self.capture_limits());
        let read = tokio::task::spawn_blocking(move || read_spool(&spool, limits)).await;
        match read {
            Ok(Ok(capture)) => live.with_capture(|held| *held = capture),
            Ok(Err(error)) => {
                tracing::error!(run.id = %live.run_id, error = %error, "a spool cannot be read");
            }
            Err(_panicked) => {}
        }
    }

    fn end_now(&self, reason: Reason, detail: Option<String>, live: &Arc<LiveRun>) -> RunEnd {
        let summary = live.with_capture(|capture| {
            capture.finish();
            OutputSummary {
                truncated: capture.truncated(),
                tail: capture.tail(self.capture_limits().tail_chars),
            }
        });
        outcome::end_without_exit(reason, detail, summary, self.clock.now())
    }

    /// Records the end, as often as it takes, and tells whoever waits.
    async fn finish(&self, live: &Arc<LiveRun>, end: RunEnd, output: RunOutput, warnings: Vec<String>) {
        let run_id = &live.run_id;
        let mut recorded = self
            .record_end(Finish {
                run_id: run_id.clone(),
                end,
                output,
                warnings,
            })
            .await;
        hooks::reach("engine.finished");
        let run = loop {
            if let Some(run) = recorded.take() {
                break *run;
            }
            // Another end was recorded before.
            match self.ledger.run(run_id).await {
                Ok(Some(run)) => break run,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = %error, "a run cannot be read");
                    tokio::time::sleep(RECORD_AGAIN).await;
                }
            }
        };
        let output = live.with_capture(|capture| capture.captured());
        live.set(LiveState::Ended(Arc::new(Ended { run, output })));
    }

    /// Puts an end into the ledger. While that cannot be written it tries again: the run file has the end
    /// too, so nothing is lost if the server dies meanwhile. Returns the run as it ended, unless this end was
    /// not the one that counts.
    pub(super) async fn record_end(&self, finish: Finish) -> Option<Box<Run>> {
        // A denial is no end of a run that started, and is told otherwise.
        if let (RunStatus::Denied, Some(reason)) = (finish.end.status, finish.end.reason) {
            self.record_denial(&finish.run_id, reason, finish.end.detail)
                .await;
            return self.ledger.run(&finish.run_id).await.ok().flatten().map(Box::new);
        }
        loop {
            match self.ledger.finish(finish.clone()).await {
                Ok(Finished { outcome, run }) => {
                    if let EndOutcome::Refused(status) = outcome {
                        tracing::warn!(run.id = %finish.run_id, run.status = %status, "an end came too late");
                    }
                    return run;
                }
                Err(LedgerError::Closed) => return None,
                Err(error) => {
                    tracing::error!(run.id = %finish.run_id, error = %error, "an end cannot be recorded yet");
                    tokio::time::sleep(RECORD_AGAIN).await;
                }
            }
        }
    }

    /// Ends a launched run that its host did not start.
    async fn end_unstarted(&self, run_id: &RunId, error: &StartError) {
        let reason = match error {
            StartError::BindingMismatch { .. } => Reason::BindingMismatch,
            StartError::Isolation { .. } | StartError::Blind(_) => Reason::NotStarted,
            StartError::WorkingDirectory { .. }
            | StartError::HiddenDirectory(_)
            | StartError::ReplacedDirectory(_)
            | StartError::NotPassable
            | StartError::NoProgram(_)
            | StartError::AttemptedBefore(_)
            | StartError::RunFile { .. }
            | StartError::Runner(_) => Reason::SpawnFailed,
        };
        tracing::warn!(run.id = %run_id, error = error as &dyn std::error::Error, "a run could not be started");
        self.end_run(run_id, reason, Some(error.to_string())).await;
    }

    /// Ends a run that is not live.
    pub(super) async fn end_run(&self, run_id: &RunId, reason: Reason, detail: Option<String>) {
        if reason.run_status() == RunStatus::Denied {
            self.record_denial(run_id, reason, detail).await;
        } else {
            let end = outcome::end_without_exit(reason, detail, OutputSummary::default(), self.clock.now());
            let output = RunOutput::Inline(Vec::new());
            self.record_end(Finish {
                run_id: run_id.clone(),
                end,
                output,
                warnings: Vec::new(),
            })
            .await;
        }
        self.broker.touch(run_id);
    }

    async fn record_denial(&self, run_id: &RunId, reason: Reason, detail: Option<String>) {
        loop {
            match self.ledger.deny(run_id.clone(), reason, detail.clone()).await {
                Ok(_) | Err(LedgerError::Closed) => return,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "a denial cannot be recorded yet");
                    tokio::time::sleep(RECORD_AGAIN).await;
                }
            }
        }
    }

    pub(super) fn capture_limits(&self) -> CaptureLimits {
        let output = &self.settings.current().server.output;
        CaptureLimits {
            max_chars: output.max_chars,
            tail_chars: output.tail_chars,
        }
    }
}

fn millis(millis: u64) -> Option<Duration> {
    (millis != 0).then(|| Duration::from_millis(millis))
}

/// The text of a whole spool.
pub(super) fn read_spool(path: &Path, limits: CaptureLimits) -> std::io::Result<Capture> {
    let mut capture = Capture::new(limits);
    match std::fs::File::open(path) {
        Ok(file) => spool::replay(std::io::BufReader::new(file), |stream, bytes| {
            capture.push(stream, bytes);
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    capture.finish();
    Ok(capture)
}
