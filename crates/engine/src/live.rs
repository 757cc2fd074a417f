//! The runs that this server holds a line to: their output so far, and how to wait for or end them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use tokio::sync::{Notify, watch};

use countersign_config::{approvals::broker::Broker, settings::SettingsStore};
use countersign_domain::{AgentId, Host, KillCause, OutputStream, Run, RunId, TerminalSize, UnixMillis};
use countersign_hosts::gateway::{InputClosed, RunControl};
use countersign_protocol::terminal::CursorKeys;
use countersign_runner::{
    INLINE_BYTES, InlineFrames,
    output::{Capture, Captured},
};
use countersign_sys::clock::Clock;

use crate::{
    capture,
    launch::{Holder, Supervision},
    node::NodeControl,
    stop_switch::StopSwitch,
};

/// A run with a supervisor that this server talks to.
#[derive(Debug)]
pub(super) struct LiveRun {
    pub(super) run_id: RunId,
    pub(super) agent: AgentId,
    pub(super) host: Host,
    control: Control,
    capture: Mutex<Capture>,
    /// Where its exact output is so far.
    recent: Mutex<Recent>,
    /// Bytes of both streams that came so far, those that are only in the spool included.
    seen: watch::Sender<u64>,
    state: watch::Sender<LiveState>,
    /// Whether it goes on when its caller, or this server, is gone.
    outlives_caller: AtomicBool,
    /// The process session, once nobody waits for it.
    session_id: Mutex<Option<String>>,
    terminal: Mutex<Option<TerminalSize>>,
    /// When it last wrote something or was written to.
    active_at: AtomicI64,
    /// Whether what it leaves running is to be killed.
    leftovers_killed: AtomicBool,
    /// It was told to end.
    told_to_end: Notify,
}

/// Who can be told something about a live run.
#[derive(Debug)]
pub(super) enum Control {
    Supervisor(RunControl),
    /// The task that speaks with its node, which takes neither input nor sizes.
    Node(NodeControl),
}

impl Control {
    pub(super) fn kill(&self, cause: KillCause) {
        match self {
            Self::Supervisor(control) => control.kill(cause),
            Self::Node(control) => control.kill(cause),
        }
    }

    fn background(&self) {
        match self {
            Self::Supervisor(control) => control.background(),
            // Nothing of it depends on this server.
            Self::Node(_) => {}
        }
    }

    pub(super) fn stored(&self) {
        match self {
            Self::Supervisor(control) => control.stored(),
            Self::Node(_) => {}
        }
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// [`InputClosed`] when it takes none.
    pub(super) async fn write_input(&self, bytes: &[u8]) -> Result<(), InputClosed> {
        match self {
            Self::Supervisor(control) => control.write_input(bytes).await,
            Self::Node(_) => Err(InputClosed),
        }
    }

    /// Whether its terminal shows what is typed at this moment; `None` where that is not known.
    pub(super) async fn echoes(&self) -> Option<bool> {
        match self {
            Self::Supervisor(control) => control.echoes().await,
            Self::Node(_) => None,
        }
    }

    pub(super) fn close_input(&self) {
        match self {
            Self::Supervisor(control) => control.close_input(),
            Self::Node(_) => {}
        }
    }

    fn resize(&self, size: TerminalSize) {
        match self {
            Self::Supervisor(control) => control.resize(size),
            Self::Node(_) => {}
        }
    }

    pub(super) fn cursor_keys(&self) -> CursorKeys {
        match self {
            Self::Supervisor(control) => control.cursor_keys(),
            Self::Node(_) => CursorKeys::Normal,
        }
    }

    /// The node that has it, where one has.
    pub(super) fn node_id(&self) -> Option<&str> {
        match self {
            Self::Supervisor(_) => None,
            Self::Node(control) => Some(control.node_id()),
        }
    }
}

/// Where the exact bytes of a live run's output are: here while they are few, for its supervisor makes a spool only when
/// they grow.
#[derive(Debug)]
pub(super) enum Recent {
    /// Here, at most so many.
    Memory(InlineFrames, u64),
    Spool,
}

impl Recent {
    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let Self::Memory(frames, limit) = self else { return };
        let room = usize::try_from(limit.saturating_sub(frames.payload())).unwrap_or(usize::MAX);
        frames.push(stream, bytes.get(..room).unwrap_or(bytes));
        // More than that is in a spool by the time that it is reported.
        if usize::try_from(frames.payload()).unwrap_or(usize::MAX) > INLINE_BYTES {
            *self = Self::Spool;
        }
    }
}

/// How far a live run has come.
#[derive(Debug, Clone)]
pub(super) enum LiveState {
    /// Permission given, first process not yet there.
    Starting,
    /// Its first process runs.
    Running,
    /// It ended, and the ledger has the end.
    Ended(Arc<Ended>),
}

/// The end of a live run, as those who waited get it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) run: Run,
    pub(super) output: Captured,
}

impl LiveRun {
    fn new(
        supervision: &Supervision,
        control: Control,
        capture: Capture,
        recent: Recent,
        now: UnixMillis,
    ) -> Arc<Self> {
        let (state, _) = watch::channel(LiveState::Starting);
        let (seen, _) = watch::channel(0);
        Arc::new(Self {
            run_id: supervision.run_id.clone(),
            agent: supervision.agent.clone(),
            host: supervision.host,
            control,
            capture: Mutex::new(capture),
            recent: Mutex::new(recent),
            seen,
            state,
            outlives_caller: AtomicBool::new(supervision.holder.outlives_caller()),
            session_id: Mutex::new(match &supervision.holder {
                Holder::Caller | Holder::CallerWithKey => None,
                Holder::Session(id) => Some(id.clone()),
            }),
            terminal: Mutex::new(supervision.terminal),
            active_at: AtomicI64::new(now.get()),
            leftovers_killed: AtomicBool::new(false),
            told_to_end: Notify::new(),
        })
    }

    /// The process session, once nobody waits for it.
    pub(super) fn session_id(&self) -> Option<String> {
        self.session_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn is_session(&self) -> bool {
        self.session_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Whether it goes on when its caller, or this server, is gone.
    pub(super) fn outlives_caller(&self) -> bool {
        self.outlives_caller.load(Ordering::SeqCst)
    }

    /// From now on it outlives its caller and this server. Returns the process session.
    pub(super) fn to_background(&self, new_session_id: impl FnOnce() -> String) -> String {
        let mut session_id = self.session_id.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.outlives_caller.swap(true, Ordering::SeqCst) {
            self.control.background();
        }
        session_id.get_or_insert_with(new_session_id).clone()
    }

    /// It goes on when this server is gone.
    pub(super) fn outlive_caller(&self) {
        self.outlives_caller.store(true, Ordering::SeqCst);
    }

    pub(super) const fn control(&self) -> &Control {
        &self.control
    }

    /// Ends it; the supervisor reports the exit as usual. Ends what it left running when it has ended itself.
    pub(super) fn kill(&self, cause: KillCause) {
        if self.has_ended() {
            self.leftovers_killed.store(true, Ordering::SeqCst);
        }
        self.control.kill(cause);
        self.told_to_end.notify_one();
    }

    /// Waits until it is told to end. For the one task that supervises it.
    pub(super) async fn told_to_end(&self) {
        self.told_to_end.notified().await;
    }

    /// Whether a kill ended what it left running.
    pub(super) fn were_leftovers_killed(&self) -> bool {
        self.leftovers_killed.load(Ordering::SeqCst)
    }

    /// Takes the next output. Returns how many bytes came before it.
    pub(super) fn push(&self, stream: OutputStream, bytes: &[u8], now: UnixMillis) -> u64 {
        self.with_capture(|capture| capture.push(stream, bytes));
        self.recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(stream, bytes);
        self.touch(now);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Last: a task that this wakes finds the bytes.
        let before = *self.seen.borrow();
        self.seen.send_modify(|seen| *seen = seen.saturating_add(length));
        before
    }

    /// Output came that is only in the spool.
    pub(super) fn skip(&self, bytes: u64, now: UnixMillis) {
        *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = Recent::Spool;
        self.touch(now);
        self.seen.send_modify(|seen| *seen = seen.saturating_add(bytes));
    }

    /// Bytes of both streams that came so far.
    pub(super) fn seen(&self) -> u64 {
        *self.seen.borrow()
    }

    /// Follows [`Self::seen`].
    pub(super) fn watch_seen(&self) -> watch::Receiver<u64> {
        self.seen.subscribe()
    }

    /// All of the output in the spool's frames; `None` when it is in the spool.
    pub(super) fn frames(&self) -> Option<Vec<u8>> {
        match &*self.recent.lock().unwrap_or_else(PoisonError::into_inner) {
            Recent::Memory(frames, _) => Some(frames.as_bytes().to_vec()),
            Recent::Spool => None,
        }
    }

    /// It wrote something or was written to.
    pub(super) fn touch(&self, now: UnixMillis) {
        self.active_at.store(now.get(), Ordering::Relaxed);
    }

    /// When it last wrote something or was written to.
    pub(super) fn active_at(&self) -> UnixMillis {
        UnixMillis::new(self.active_at.load(Ordering::Relaxed))
    }

    /// The size of its pseudo-terminal, where it has one and that is known.
    pub(super) fn terminal(&self) -> Option<TerminalSize> {
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives its pseudo-terminal another size.
    pub(super) fn resize(&self, size: TerminalSize) {
        self.control.resize(size);
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
    }

    /// Reads or adds to the output so far.
    pub(super) fn with_capture<T>(&self, use_it: impl FnOnce(&mut Capture) -> T) -> T {
        use_it(&mut self.capture.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, state: LiveState) {
        self.state.send_replace(state);
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.state.borrow(), LiveState::Ended(_))
    }

    /// Waits until its first process runs, or it ended without one.
    pub(super) async fn started(&self) {
        let mut state = self.state.subscribe();
        // `self` holds the sender, so it cannot close.
        if state
            .wait_for(|state| !matches!(state, LiveState::Starting))
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it ended.
    pub(super) async fn ended(&self) -> Arc<Ended> {
        let mut state = self.state.subscribe();
        loop {
            if let LiveState::Ended(ended) = &*state.borrow_and_update() {
                return Arc::clone(ended);
            }
            // `self` holds the sender, so it cannot close.
            if state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// All runs that this server holds a line to.
#[derive(Debug)]
pub(super) struct LiveRuns {
    settings: Arc<SettingsStore>,
    clock: Arc<dyn Clock>,
    broker: Arc<Broker>,
    switch: Arc<StopSwitch>,
    runs: Mutex<HashMap<RunId, Arc<LiveRun>>>,
    /// Changes when one is gone.
    gone: watch::Sender<u64>,
}

impl LiveRuns {
    /// No run yet. Those who wait for one hear of it through `broker`.
    pub(super) fn new(
        settings: Arc<SettingsStore>,
        clock: Arc<dyn Clock>,
        broker: Arc<Broker>,
        switch: Arc<StopSwitch>,
    ) -> Self {
        Self {
            settings,
            clock,
            broker,
            switch,
            runs: Mutex::default(),
            gone: watch::Sender::default(),
        }
    }

    /// Takes a run up. Those who wait for it hear of it; a stop that kills ends it at once.
    pub(super) fn enter(&self, supervision: &Supervision, control: Control) -> Arc<LiveRun> {
        let settings = self.settings.current();
        let capture = Capture::new(capture::limits(&self.settings));
        // Everything that a run of an earlier server wrote is in its spool; what one on a node wrote comes with its end.
        let is_spooled = supervision.permitted_at.is_none() && supervision.host != Host::Node;
        let recent = if is_spooled {
            Recent::Spool
        } else {
            Recent::Memory(InlineFrames::default(), settings.server.output.max_run_bytes)
        };
        let live = LiveRun::new(supervision, control, capture, recent, self.clock.now());
        self.lock().insert(live.run_id.clone(), Arc::clone(&live));
        if self.switch.kills() {
            live.kill(KillCause::Stopped);
        }
        self.broker.touch(&live.run_id);
        live
    }

    /// Forgets a run that this server has no line to any more.
    pub(super) fn leave(&self, run_id: &RunId) {
        self.lock().remove(run_id);
        self.gone.send_modify(|count| *count = count.wrapping_add(1));
        self.broker.touch(run_id);
    }

    pub(super) fn get(&self, run_id: &RunId) -> Option<Arc<LiveRun>> {
        self.lock().get(run_id).map(Arc::clone)
    }

    /// A run that this server holds a line to and that has not ended: the ledger knows all of one that has.
    pub(super) fn unfinished(&self, run_id: &RunId) -> Option<Arc<LiveRun>> {
        self.get(run_id).filter(|live| !live.has_ended())
    }

    pub(super) fn all(&self) -> Vec<Arc<LiveRun>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// Waits until nothing of a run is left that this server holds a line to, leftovers that were kept included.
    pub(super) async fn is_gone(&self, run_id: &RunId) {
        let mut gone = self.gone.subscribe();
        while self.lock().contains_key(run_id) {
            // `self` holds the sender, so it cannot close.
            if gone.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<LiveRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
