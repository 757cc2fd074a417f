//! One task per live run: it hears its supervisor to the end and puts the end into the ledger.

use std::{io, sync::Arc, time::Duration};

use countersign_config::settings::SettingsStore;
use countersign_domain::{Exit, KillCause, Reason, Run, RunEnd, RunId};
use countersign_hosts::{
    Host as _,
    gateway::{
        self, GatewayHost, RecoverError, Recovered, RunEvents, StartError, Supervised, SupervisorEvent,
    },
    sandbox::SandboxHost,
};
use countersign_ledger::RunOutput;
use countersign_runner::{NotStarted, Obstacle, run_file::Voided};
use countersign_sys::{clock::Clock, hooks};

use crate::{
    base::Base,
    capture, inside,
    launch::{Launch, Supervision},
    lifecycle::{Lifecycle, unless_it_panics},
    live::{Control, LiveRun, LiveRuns},
    outcome::{self, OutputSummary},
    process::SessionRetention,
    run_recorder::{BUG, Listeners, Remains, RunRecorder},
    run_terms::TermsOfRuns,
    warnings::{self, EndWarnings},
};

/// How long a killed run is heard whose supervision panicked, before its record says that its outcome is not known.
const KILLED_WITHIN: Duration = Duration::from_secs(3);

/// The least time in which a supervisor can take a run: a machine that is busy is not one without processes.
const TAKEN_WITHIN: Duration = Duration::from_secs(3);

/// How long a supervisor may take to say that it started nothing of what was called off.
const CALLED_OFF_WITHIN: Duration = Duration::from_secs(1);

/// The runs on this machine, in a sandbox or not: their supervisors are started and heard to the end.
#[derive(Debug)]
pub(super) struct LocalRuns {
    gateway: GatewayHost,
    sandbox: SandboxHost,
    terms: TermsOfRuns,
    warnings: EndWarnings,
    live: Arc<LiveRuns>,
    recorder: Arc<RunRecorder>,
    retention: Arc<SessionRetention>,
    settings: Arc<SettingsStore>,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
}

/// The hosts of runs on this machine, and what is said to them and of them.
pub(super) struct LocalHosts {
    pub(super) gateway: GatewayHost,
    pub(super) sandbox: SandboxHost,
    pub(super) terms: TermsOfRuns,
    pub(super) warnings: EndWarnings,
}

impl LocalRuns {
    pub(super) fn new(base: &Base, hosts: LocalHosts, retention: Arc<SessionRetention>) -> Self {
        let LocalHosts {
            gateway,
            sandbox,
            terms,
            warnings,
        } = hosts;
        Self {
            gateway,
            sandbox,
            terms,
            warnings,
            live: Arc::clone(&base.live),
            recorder: Arc::clone(&base.recorder),
            retention,
            settings: Arc::clone(&base.settings),
            clock: Arc::clone(&base.clock),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Starts a run here; call it from a task of its own. `None` when it could not be started: its record says why.
    pub(super) async fn start(self: &Arc<Self>, launch: Launch) -> Option<Arc<LiveRun>> {
        let terms = self.terms.of(&launch);
        let Launch {
            permit,
            supervision,
            attempt: _,
            placement,
        } = launch;
        hooks::reach("engine.before-start");
        let starting = async {
            hooks::panic_at("run.starting");
            let started = match placement {
                None => self.gateway.run(permit, terms).await,
                Some(place) => {
                    let inside = inside::inside_of(&permit);
                    self.sandbox.run(permit, terms, &place, inside.as_ref()).await
                }
            };
            hooks::panic_at("run.ordered");
            started
        };
        let Some(started) = unless_it_panics(Box::pin(starting)).await else {
            Box::pin(self.end_half_started(&supervision)).await;
            return None;
        };
        match started {
            Ok(supervised) => {
                hooks::reach("engine.frame-sent");
                Some(self.adopt(supervised, supervision))
            }
            Err(error) => {
                Box::pin(self.end_unstarted(&supervision.run_id, &error)).await;
                self.recorder.release_holder(&supervision);
                None
            }
        }
    }

    /// Ends a run whose start panicked. Its supervisor may have the order: what there is of it is killed, and nothing starts
    /// later.
    async fn end_half_started(&self, supervision: &Supervision) {
        let run_id = &supervision.run_id;
        self.rule_out(run_id).await;
        self.recorder
            .end_run_behind(&self.lifecycle, run_id, Reason::RunnerLost, Some(BUG.to_owned()))
            .await;
        self.recorder.release_holder(supervision);
    }

    /// Takes a run with a supervisor under this server's supervision.
    pub(super) fn adopt(self: &Arc<Self>, supervised: Supervised, supervision: Supervision) -> Arc<LiveRun> {
        let Supervised { events, control } = supervised;
        let live = self.live.enter(&supervision, Control::Supervisor(control));
        let (runs, held) = (Arc::clone(self), Arc::clone(&live));
        self.lifecycle
            .spawn(async move { runs.hear_out(&held, events, supervision).await });
        live
    }

    /// Supervises a run to its end. A panic ends it too.
    async fn hear_out(&self, live: &Arc<LiveRun>, mut events: RunEvents, supervision: Supervision) {
        let supervising = Box::pin(self.supervise(live, &mut events, &supervision));
        if unless_it_panics(supervising).await.is_none() {
            self.end_unsupervised(live, &mut events).await;
        }
        self.live.leave(&live.run_id);
        drop(supervision.slot);
        if live.is_session() {
            self.retention.evict(&live.agent).await;
        }
    }

    /// Ends a run whose supervision panicked. What runs of it is killed first, so that nothing goes on unsupervised.
    async fn end_unsupervised(&self, live: &Arc<LiveRun>, events: &mut RunEvents) {
        live.kill(KillCause::Cancelled);
        let killed = async { while events.recv().await.is_some() {} };
        let killed = unless_it_panics(tokio::time::timeout(KILLED_WITHIN, killed)).await;
        if !matches!(killed, Some(Ok(()))) {
            tracing::error!(run.id = %live.run_id, "what a run without supervision left was not seen to end");
        }
        if !live.has_ended() {
            self.recorder.give_up(live, Reason::RunnerLost).await;
        }
        self.recorder.record_leftovers_end(&live.run_id, true).await;
    }

    async fn supervise(&self, live: &Arc<LiveRun>, events: &mut RunEvents, supervision: &Supervision) {
        hooks::panic_at("run.supervised");
        let timeout = supervision.timeout;
        let mut skipped = false;
        let mut listeners = Listeners::default();
        let mut notice = std::pin::pin!(self.recorder.notice_running(live, supervision.notice_after));
        let mut noticed = false;
        let mut given_up = std::pin::pin!(self.give_up(live, supervision));
        // What an earlier server ordered has a supervisor.
        let mut is_taken = supervision.permitted_at.is_none();
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                () = &mut given_up, if !is_taken => {
                    is_taken = true;
                    // Ruled out first: a supervisor that was only slow has the file, and goes on with it.
                    if self.void(&live.run_id).await == Some(Voided::Done) {
                        live.kill(KillCause::Cancelled);
                        let detail = "no process could be made for it in time".to_owned();
                        let end = self.end_now(Reason::NotStarted, Some(detail), live);
                        self.recorder
                            .finish(live, end, Remains::of(RunOutput::Spooled))
                            .await;
                        return;
                    }
                    continue;
                }
                () = &mut notice, if !noticed => {
                    noticed = true;
                    continue;
                }
            };
            let Some(event) = event else { break };
            is_taken = true;
            match event {
                SupervisorEvent::Started { pid } => {
                    hooks::panic_at("run.started");
                    self.recorder.started(live, Some(pid), supervision.permitted_at);
                }
                SupervisorEvent::Output { stream, bytes } => {
                    hooks::panic_at("run.output");
                    let offset = live.push(stream, &bytes, self.clock.now());
                    self.recorder
                        .publish_output(live, &mut listeners, offset, stream, &bytes)
                        .await;
                }
                SupervisorEvent::Skipped { bytes } => {
                    skipped = true;
                    live.skip(bytes, self.clock.now());
                }
                SupervisorEvent::Exit(ended) => {
                    noticed = true;
                    hooks::reach("engine.exit-received");
                    hooks::panic_at("run.exited");
                    self.finish_exited(live, ended, skipped, timeout).await;
                }
                SupervisorEvent::NotStarted(why) => match self.rule_out(&live.run_id).await {
                    Elsewhere::Nowhere => {
                        let detail = self.detail_unstarted(&live.run_id, why).await;
                        let end = self.end_now(reason_unstarted(why), Some(detail), live);
                        self.recorder
                            .finish(live, end, Remains::of(RunOutput::Spooled))
                            .await;
                    }
                    Elsewhere::Ended(ended) => self.finish_exited(live, ended, true, timeout).await,
                    Elsewhere::Unknown => {
                        let end = self.end_now(Reason::RunnerLost, None, live);
                        self.recorder
                            .finish(live, end, Remains::of(RunOutput::Spooled))
                            .await;
                    }
                },
                SupervisorEvent::Lost => {
                    let end = self.end_now(Reason::RunnerLost, None, live);
                    self.recorder
                        .finish(live, end, Remains::of(RunOutput::Spooled))
                        .await;
                }
                SupervisorEvent::LeftoversEnded => self.end_leftovers(live).await,
            }
        }
    }

    /// Why a run did not start, in words. A directory that is not there is named as it is called inside.
    async fn detail_unstarted(&self, run_id: &RunId, why: NotStarted) -> String {
        if let NotStarted::Sandbox(Obstacle::Directory, errno) = why
            && let Some(cwd) = self.recorder.cwd_of(run_id).await
        {
            let error = io::Error::from_raw_os_error(errno);
            return format!("the working directory cannot be entered: {cwd} on host sandbox: {error}");
        }
        format!("the supervisor reported: {why}")
    }

    /// Waits as long as a run may wait for a supervisor: no longer than it may take, and than it may begin after an answer.
    /// One that is told to end waits for a moment: a supervisor that has it says itself that it started nothing.
    async fn give_up(&self, live: &LiveRun, supervision: &Supervision) {
        let start_by = self.settings.current().server.approvals.start_by;
        let limit = supervision
            .timeout
            .map_or(start_by, |timeout| timeout.min(start_by));
        tokio::select! {
            () = tokio::time::sleep(limit.max(TAKEN_WITHIN)) => {}
            () = live.told_to_end() => tokio::time::sleep(CALLED_OFF_WITHIN).await,
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
                Ok(Recovered::Exited { exit, .. }) => {
                    return Elsewhere::Ended(gateway::EndedRun {
                        exit,
                        output: gateway::KeptOutput::Spooled,
                        leftovers_run: false,
                        observed: None,
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
            observed,
        } = ended;
        if skipped {
            self.read_skipped(live).await;
        }
        let summary = live.with_capture(|capture| {
            capture.finish();
            OutputSummary {
                truncated: capture.truncated(),
                tail: capture.tail(capture::limits(&self.settings).tail_chars),
            }
        });
        let (end, warnings) = self.end_of(&live.run_id, &exit, summary, timeout).await;
        let output = match output {
            gateway::KeptOutput::Inline(frames) => RunOutput::Inline(frames),
            gateway::KeptOutput::Spooled => RunOutput::Spooled,
        };
        let remains = Remains {
            output,
            warnings,
            leftovers: leftovers_run.then(|| self.recorder.new_session_id()),
            observed,
        };
        let is_recorded = self.recorder.finish(live, end, remains).await;
        // A caller who waits for the answer goes first.
        tokio::task::yield_now().await;
        live.control().stored();
        if is_recorded && !leftovers_run {
            self.gateway.release(&live.run_id);
        }
    }

    /// Some output went only into the spool: the text in answers comes from there.
    async fn read_skipped(&self, live: &Arc<LiveRun>) {
        let (spool, limits) = (self.gateway.spool(&live.run_id), capture::limits(&self.settings));
        let read = tokio::task::spawn_blocking(move || capture::read_spool(&spool, limits)).await;
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
                tail: capture.tail(capture::limits(&self.settings).tail_chars),
            }
        });
        outcome::end_without_exit(reason, detail, summary, self.clock.now())
    }

    async fn end_leftovers(&self, live: &LiveRun) {
        self.recorder
            .record_leftovers_end(&live.run_id, live.were_leftovers_killed())
            .await;
        self.retention.evict(&live.agent).await;
    }

    /// Makes a run that did not start impossible to start; `None` when its file cannot be written.
    pub(super) async fn void(&self, run_id: &RunId) -> Option<Voided> {
        match self.gateway.void(run_id) {
            Ok(voided) => Some(voided),
            Err(error) => {
                tracing::error!(run.id = %run_id, error = %error, "a run that did not start cannot be made impossible");
                None
            }
        }
    }

    /// What became of a run that an earlier server ordered.
    ///
    /// # Errors
    /// When its traces cannot be read.
    pub(super) async fn recover(&self, run_id: &RunId) -> Result<Recovered, RecoverError> {
        self.gateway.recover(run_id).await
    }

    /// What a run left running and its supervisor kept.
    pub(super) async fn attach_leftovers(&self, run_id: &RunId) -> Option<Supervised> {
        self.gateway.attach_leftovers(run_id).await
    }

    /// The end of a run that ended while no server was there, and what is to be said about it.
    pub(super) async fn end_found(&self, run: &Run, exit: &Exit) -> (RunEnd, Vec<String>) {
        let (path, limits) = (self.gateway.spool(&run.id), capture::limits(&self.settings));
        let read = tokio::task::spawn_blocking(move || capture::read_spool(&path, limits)).await;
        let summary = match read {
            Ok(Ok(capture)) => OutputSummary {
                truncated: capture.truncated(),
                tail: capture.tail(limits.tail_chars),
            },
            Ok(Err(_)) | Err(_) => OutputSummary {
                truncated: true,
                tail: String::new(),
            },
        };
        self.end_of(&run.id, exit, summary, run.timeout).await
    }

    /// The end that an exit means, and what is to be said about it.
    async fn end_of(
        &self,
        run_id: &RunId,
        exit: &Exit,
        summary: OutputSummary,
        timeout: Option<Duration>,
    ) -> (RunEnd, Vec<String>) {
        let of_client = self.recorder.end_of_client(run_id, exit, &summary).await;
        let mut end = of_client.unwrap_or_else(|| outcome::end_of(exit, timeout, summary, self.clock.now()));
        let warnings = self.warnings.after(run_id, exit).await;
        end.detail = warnings::explain(end.detail, &warnings);
        (end, warnings)
    }

    /// Ends a launched run that its host did not start.
    async fn end_unstarted(&self, run_id: &RunId, error: &StartError) {
        let reason = match error {
            _ if error.is_lack_of_machine() => Reason::NotStarted,
            StartError::BindingMismatch { .. } => Reason::BindingMismatch,
            // The file of a run is the server's own.
            StartError::Machine { .. }
            | StartError::RunFile { .. }
            | StartError::Isolation { .. }
            | StartError::Unkept { .. }
            | StartError::Blind(_)
            | StartError::Sandbox(_)
            | StartError::Runner(_) => Reason::NotStarted,
            StartError::WorkingDirectory { .. }
            | StartError::HiddenDirectory(_)
            | StartError::ReplacedDirectory(_)
            | StartError::DeniedPrograms(_)
            | StartError::NotPassable
            | StartError::NoProgram(_)
            | StartError::AttemptedBefore(_) => Reason::SpawnFailed,
        };
        tracing::warn!(run.id = %run_id, error = error as &dyn std::error::Error, "a run could not be started");
        self.recorder
            .end_run_behind(&self.lifecycle, run_id, reason, Some(error.to_string()))
            .await;
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
