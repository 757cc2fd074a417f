//! One task per live run: it hears its supervisor to the end and puts the end into the ledger.

use std::{path::Path, sync::Arc, time::Duration};

use countersign_config::settings::Limits;
use countersign_domain::{
    Actor, AgentId, Backend, Exit, Host, Isolation, KillCause, OutputStream, Reason, Run, RunEnd, RunId,
    RunStatus, TerminalSize,
};
use countersign_hosts::{
    Attempt, Host as _, RunTerms,
    gateway::{self, Recovered, RunEvents, StartError, Supervised, SupervisorEvent},
    sandbox::Placement,
};
use countersign_ledger::{
    EndOutcome, Finish, Finished, LedgerError, RunOutput, Started,
    events::{Event, EventKind, OutputChunk, Subject, system_text},
    launch::Permit,
};
use countersign_runner::{
    NotStarted, Obstacle, RunLimits,
    output::{self, Capture, CaptureLimits, Utf8Decoder, spool},
    run_file::Voided,
};
use countersign_sys::{hooks, process::monotonic};

use crate::{
    Engine,
    environment::Guard,
    inside,
    live::{Control, Ended, Holder, LiveRun, LiveState, NewLiveRun, Recent},
    outcome::{self, OutputSummary},
    slots::Slot,
    system_event, warnings,
};

/// What those who watch output as it comes need, kept between two pieces of it.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    subject: Option<Subject>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
}

/// From `SIGTERM` to `SIGKILL` when a run is killed.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Pause between attempts to record an end while the ledger cannot be written.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// A run that comes under this server's supervision.
#[derive(Debug)]
pub(super) struct RunContext {
    pub(super) run_id: RunId,
    pub(super) agent: AgentId,
    pub(super) host: Host,
    pub(super) timeout: Option<Duration>,
    /// Where the exact bytes of its output are.
    pub(super) recent: Recent,
    /// When it was permitted, by the monotonic clock; known of one that this server starts.
    pub(super) permitted_at: Option<Duration>,
}

/// What a run under this server's supervision has besides its supervisor.
#[derive(Debug)]
pub(super) struct Supervision {
    /// The place it takes.
    pub(super) slot: Slot,
    /// Who it goes on for.
    pub(super) holder: Holder,
    /// Whether its standard input stays open.
    pub(super) stdin_open: bool,
    /// The pseudo-terminal that it has instead of pipes.
    pub(super) terminal: Option<TerminalSize>,
    /// After how long its being alive is reported, once (`tools.exec.approvalRunningNoticeMs`); only for runs
    /// that a person allowed.
    pub(super) notice_after: Option<Duration>,
}

impl Supervision {
    /// Of what a permit allows, as it is bound.
    pub(super) fn of(permit: &Permit, slot: Slot, holder: Holder) -> Self {
        Self {
            slot,
            holder,
            stdin_open: permit.binding().input.is_open(),
            terminal: permit.binding().pty.then_some(TerminalSize::DEFAULT),
            notice_after: None,
        }
    }
}

impl Engine {
    /// Starts what a permit allows; call it from a task of its own. `None` when it could not be started: its
    /// record says why.
    pub(super) async fn start(
        self: &Arc<Self>,
        permit: Permit,
        supervision: Supervision,
    ) -> Option<Arc<LiveRun>> {
        self.start_attempt(permit, supervision, Attempt::First, None)
            .await
    }

    /// As [`Self::start`], also for a launch that an earlier server may have begun, and for one into a sandbox, which
    /// must be the one that the permit is bound to.
    pub(super) async fn start_attempt(
        self: &Arc<Self>,
        permit: Permit,
        supervision: Supervision,
        attempt: Attempt,
        sandbox: Option<&Placement>,
    ) -> Option<Arc<LiveRun>> {
        if permit.binding().host == Host::Node {
            return self.start_on_node(permit, supervision).await;
        }
        let run_id = permit.run_id().clone();
        let (agent, host) = (permit.binding().agent.clone(), permit.binding().host);
        let timeout = millis(permit.binding().timeout_ms);
        let terms = self.run_terms(&permit, &supervision, attempt);
        let recent = Recent::new(terms.max_run_bytes);
        let permitted_at = monotonic();
        hooks::reach("engine.before-start");
        let started = match sandbox {
            None => self.gateway.run(permit, terms).await,
            Some(place) => {
                let inside = inside::inside_of(&permit);
                self.sandbox.run(permit, terms, place, inside.as_ref()).await
            }
        };
        let supervised = match started {
            Ok(supervised) => supervised,
            Err(error) => {
                self.end_unstarted(&run_id, &error).await;
                self.release_holder(&supervision);
                return None;
            }
        };
        hooks::reach("engine.frame-sent");
        let context = RunContext {
            run_id,
            agent,
            host,
            timeout,
            recent,
            permitted_at: Some(permitted_at),
        };
        Some(self.adopt(context, supervised, supervision))
    }

    /// Gives up the session of a run that was not started.
    pub(super) fn release_holder(&self, supervision: &Supervision) {
        if let Holder::Session(session_id) = &supervision.holder {
            self.process.release(session_id);
        }
    }

    /// Takes a run with a supervisor under this server's supervision.
    pub(super) fn adopt(
        self: &Arc<Self>,
        context: RunContext,
        supervised: Supervised,
        supervision: Supervision,
    ) -> Arc<LiveRun> {
        let Supervised { events, control } = supervised;
        let RunContext {
            run_id,
            agent,
            host,
            timeout,
            recent,
            permitted_at,
        } = context;
        let live = LiveRun::new(NewLiveRun {
            run_id,
            agent,
            host,
            control: Control::Supervisor(control),
            capture: Capture::new(self.capture_limits()),
            holder: supervision.holder.clone(),
            recent,
            terminal: supervision.terminal,
            now: self.clock.now(),
        });
        self.live.insert(&live);
        self.kill_if_stopped(&live);
        self.broker.touch(&live.run_id);
        let (engine, held) = (Arc::clone(self), Arc::clone(&live));
        self.tasks.spawn(async move {
            engine
                .supervise(&held, events, timeout, supervision, permitted_at)
                .await;
        });
        live
    }

    fn run_terms(&self, permit: &Permit, supervision: &Supervision, attempt: Attempt) -> RunTerms {
        let settings = Arc::clone(&self.accepted_policy.in_effect().settings);
        let exec = settings.policy.exec(&permit.binding().agent);
        let (least_isolation, env) = match permit.binding().host {
            // Nothing of this machine's environment is inherited there.
            Host::Sandbox => (Isolation::Sandbox, Vec::new()),
            Host::Gateway | Host::Node => {
                let path = self.environment.run_path(&exec.path_prepend);
                let hidden = match permit.isolation() {
                    Isolation::Confined => self.gateway.hidden(),
                    Isolation::SameUser | Isolation::SeparateUser | Isolation::Sandbox | Isolation::Node => {
                        None
                    }
                };
                let env = if supervision.terminal.is_none() {
                    self.environment.of_command(&path, permit.env(), hidden)
                } else {
                    let guard = Guard::of(permit.binding().input);
                    self.environment
                        .of_command_on_terminal(&path, permit.env(), hidden, guard)
                };
                (self.places.isolation_of(&permit.binding().agent, &settings), env)
            }
        };
        RunTerms {
            attempt,
            least_isolation,
            env,
            kill_grace: KILL_GRACE,
            leftovers: exec.leftovers,
            keep_when_orphaned: supervision.holder.outlives_caller(),
            stdin_open: supervision.stdin_open,
            terminal: supervision.terminal,
            max_run_bytes: settings.server.output.max_run_bytes,
            limits: run_limits(&settings.server.limits),
        }
    }

    async fn supervise(
        self: Arc<Self>,
        live: &Arc<LiveRun>,
        mut events: RunEvents,
        timeout: Option<Duration>,
        supervision: Supervision,
        permitted_at: Option<Duration>,
    ) {
        let mut skipped = false;
        let mut listeners = Listeners::default();
        let mut notice = std::pin::pin!(self.notice_running(live, supervision.notice_after));
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
                    // Then: who was told that it runs finds its process in the ledger.
                    live.set(LiveState::Running);
                }
                SupervisorEvent::Output { stream, bytes } => {
                    let offset = live.push(stream, &bytes, self.clock.now());
                    self.publish_output(live, &mut listeners, offset, stream, &bytes)
                        .await;
                }
                SupervisorEvent::Skipped { bytes } => {
                    skipped = true;
                    live.skip(bytes, self.clock.now());
                }
                SupervisorEvent::Exit(ended) => {
                    noticed = true;
                    hooks::reach("engine.exit-received");
                    self.finish_exited(live, ended, skipped, timeout).await;
                }
                SupervisorEvent::NotStarted(why) => match self.rule_out(&live.run_id).await {
                    Elsewhere::Nowhere => {
                        let detail = Some(format!("the supervisor reported: {why}"));
                        let end = self.end_now(reason_unstarted(why), detail, live);
                        self.finish(live, end, Remains::of(RunOutput::Spooled)).await;
                    }
                    Elsewhere::Ended(ended) => self.finish_exited(live, ended, true, timeout).await,
                    Elsewhere::Unknown => {
                        let end = self.end_now(Reason::RunnerLost, None, live);
                        self.finish(live, end, Remains::of(RunOutput::Spooled)).await;
                    }
                },
                SupervisorEvent::Lost => {
                    let end = self.end_now(Reason::RunnerLost, None, live);
                    self.finish(live, end, Remains::of(RunOutput::Spooled)).await;
                }
                SupervisorEvent::LeftoversEnded => self.end_leftovers(live).await,
            }
        }
        self.live.remove(&live.run_id);
        self.broker.touch(&live.run_id);
        drop(supervision.slot);
        if live.is_session() {
            self.evict_sessions(&live.agent).await;
        }
    }

    /// Makes a run impossible that its supervisor did not start: said once that it did not start, it must not start later
    /// either. A supervisor that an earlier server had ordered may have been faster.
    async fn rule_out(&self, run_id: &RunId) -> Elsewhere {
        loop {
            match self.void(run_id).await {
                Some(Voided::Done) | None => return Elsewhere::Nowhere,
                Some(Voided::Locked | Voided::TooLate(_)) => {}
            }
            match self.gateway.recover(run_id).await {
                // The supervisor that held the file has let it go.
                Ok(Recovered::NotStarted | Recovered::Voided) => {}
                Ok(Recovered::Exited { exit, spool: _ }) => {
                    return Elsewhere::Ended(gateway::EndedRun {
                        exit,
                        output: gateway::KeptOutput::Spooled,
                        leftovers_run: false,
                    });
                }
                Ok(Recovered::Attached(supervised)) => {
                    supervised.control.kill(KillCause::Cancelled);
                    return Elsewhere::Unknown;
                }
                Ok(Recovered::StartedAndGone) => return Elsewhere::Unknown,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = &error as &dyn std::error::Error, "nobody knows what became of a run");
                    return Elsewhere::Unknown;
                }
            }
        }
    }

    /// Tells once that a run which a person allowed still runs.
    pub(super) async fn notice_running(&self, live: &Arc<LiveRun>, after: Option<Duration>) {
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
            self.tell(Event { subject, kind }, Actor::system()).await;
            self.tell(told, Actor::system()).await;
        }
        // Once; the caller does not poll it again.
    }

    /// Hands output on to those who watch it as it comes. Nobody there: nothing to do.
    pub(super) async fn publish_output(
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

    pub(super) async fn subject_of(&self, live: &Arc<LiveRun>) -> Option<Subject> {
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
            leftovers_run,
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
        let of_client = self.end_of_client(&live.run_id, &exit, &summary).await;
        let mut end = of_client.unwrap_or_else(|| outcome::end_of(&exit, timeout, summary, self.clock.now()));
        let warnings = self.warnings_after(&live.run_id, &exit).await;
        end.detail = warnings::explain(end.detail, &warnings);
        let output = match output {
            gateway::KeptOutput::Inline(frames) => RunOutput::Inline(frames),
            gateway::KeptOutput::Spooled => RunOutput::Spooled,
        };
        let remains = Remains {
            output,
            warnings,
            leftovers: leftovers_run.then(|| self.new_session_id()),
        };
        self.finish(live, end, remains).await;
        // A caller who waits for the answer goes first.
        tokio::task::yield_now().await;
        live.control().stored();
    }

    /// What the end of a run by a signal means when its first process was the client of a container engine, which no
    /// command inside can end in that way.
    pub(super) async fn end_of_client(
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

    /// Records the end, as often as it takes, and tells all who wait.
    pub(super) async fn finish(&self, live: &Arc<LiveRun>, end: RunEnd, remains: Remains) {
        let run_id = &live.run_id;
        let Remains {
            output,
            warnings,
            leftovers,
        } = remains;
        let has_leftovers = leftovers.is_some();
        let notice = self.exit_notice(&live.agent, live.host, live.control().node_id(), run_id, &end);
        let mut recorded = self
            .record_end(Finish {
                run_id: run_id.clone(),
                end,
                output,
                warnings,
                leftovers,
                notice,
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
        self.sweep_after(&run).await;
        let output = live.with_capture(|capture| capture.captured());
        // It may have ended before it became the session that it was about to be.
        self.release_unused(live, &run);
        if has_leftovers {
            // They belong to nobody who waits.
            live.outlive_caller();
        }
        live.set(LiveState::Ended(Arc::new(Ended { run, output })));
    }

    /// Ends what a run may have left inside of its sandbox. One that was killed, or whose supervisor is gone, may not have
    /// got round to it.
    pub(super) async fn sweep_after(&self, run: &Run) {
        let ended_by_itself = run.exit_code.is_some() && !run.timed_out;
        if run.host == Host::Sandbox && !ended_by_itself {
            self.sandbox.sweep(&run.id).await;
        }
    }

    /// Gives up the name of a session that its run never became.
    pub(super) fn release_unused(&self, live: &LiveRun, ended: &Run) {
        if let Some(unused) = live
            .session_id()
            .filter(|id| ended.session_id.as_ref() != Some(id))
        {
            self.process.release(&unused);
        }
    }

    async fn end_leftovers(&self, live: &LiveRun) {
        self.record_leftovers_end(&live.run_id, live.were_leftovers_killed())
            .await;
        self.evict_sessions(&live.agent).await;
    }

    /// Records that nothing of what a run left goes on, as often as it takes.
    pub(super) async fn record_leftovers_end(&self, run_id: &RunId, killed: bool) {
        loop {
            match self.ledger.end_leftovers(run_id.clone(), killed).await {
                Ok(()) | Err(LedgerError::Closed) => return,
                Err(error) => {
                    tracing::error!(run.id = %run_id, error = %error, "the end of what a run left running cannot be recorded yet");
                    tokio::time::sleep(RECORD_AGAIN).await;
                }
            }
        }
    }

    /// What a session is told when its run has ended like this, if its agent is to be told.
    pub(super) fn exit_notice(
        &self,
        agent: &AgentId,
        host: Host,
        node_id: Option<&str>,
        run_id: &RunId,
        end: &RunEnd,
    ) -> Option<String> {
        let settings = Arc::clone(&self.accepted_policy.in_effect().settings);
        let exec = settings.policy.exec(agent);
        let is_wanted = exec.notify_on_exit
            && (exec.notify_on_exit_empty_success || !system_event::is_silent_success(end));
        let place = system_event::RunHost { host, node_id };
        is_wanted.then(|| system_event::exec_finished(place, run_id, end))
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
            StartError::Isolation { .. }
            | StartError::Blind(_)
            | StartError::Sandbox(_)
            | StartError::Runner(_) => Reason::NotStarted,
            StartError::WorkingDirectory { .. }
            | StartError::HiddenDirectory(_)
            | StartError::ReplacedDirectory(_)
            | StartError::NotPassable
            | StartError::NoProgram(_)
            | StartError::AttemptedBefore(_)
            | StartError::RunFile { .. } => Reason::SpawnFailed,
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
            let run = self.ledger.run(run_id).await.ok().flatten();
            let notice = run
                .and_then(|run| self.exit_notice(&run.agent, run.host, run.node_id.as_deref(), run_id, &end));
            self.record_end(Finish {
                run_id: run_id.clone(),
                end,
                output: RunOutput::Inline(Vec::new()),
                warnings: Vec::new(),
                leftovers: None,
                notice,
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

/// Why a run failed that its supervisor did not start. Where the call says to start it is the call's own matter, in a
/// sandbox as on this machine; everything else is ours.
const fn reason_unstarted(why: NotStarted) -> Reason {
    match why {
        NotStarted::Sandbox(Obstacle::Directory, _) => Reason::SpawnFailed,
        NotStarted::Sandbox(..)
        | NotStarted::FenceLost
        | NotStarted::Held
        | NotStarted::Cancelled
        | NotStarted::System(_)
        | NotStarted::NoReport => Reason::NotStarted,
    }
}

/// What became of a run under another supervisor than the one that was asked.
enum Elsewhere {
    /// Nothing: it did not start.
    Nowhere,
    /// It ended like this.
    Ended(gateway::EndedRun),
    Unknown,
}

/// What is left of a run besides its end.
pub(super) struct Remains {
    output: RunOutput,
    warnings: Vec<String>,
    /// The process session that holds what it left running.
    leftovers: Option<String>,
}

impl Remains {
    pub(super) const fn of(output: RunOutput) -> Self {
        Self {
            output,
            warnings: Vec::new(),
            leftovers: None,
        }
    }
}

const fn run_limits(limits: &Limits) -> RunLimits {
    RunLimits {
        memory_bytes: limits.run_memory_bytes,
        cpu_percent: limits.run_cpu_percent,
        processes: limits.run_pids,
    }
}

pub(super) fn millis(millis: u64) -> Option<Duration> {
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
