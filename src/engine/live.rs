//! The runs that this server holds a line to: their output so far, and how to wait for or end them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::{
    domain::{KillCause, Run, RunId},
    hosts::gateway::RunControl,
    output::{Capture, Captured},
};

/// A run with a supervisor that this server talks to.
#[derive(Debug)]
pub(super) struct LiveRun {
    pub(super) run_id: RunId,
    control: RunControl,
    capture: Mutex<Capture>,
    state: watch::Sender<LiveState>,
    /// The process session, once it outlives its caller.
    session_id: Mutex<Option<String>>,
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
    /// A run under this server's care. `session_id` is there from the beginning for a run without a caller.
    pub(super) fn new(
        run_id: RunId,
        control: RunControl,
        capture: Capture,
        session_id: Option<String>,
    ) -> Arc<Self> {
        let (state, _) = watch::channel(LiveState::Starting);
        Arc::new(Self {
            run_id,
            control,
            capture: Mutex::new(capture),
            state,
            session_id: Mutex::new(session_id),
        })
    }

    /// The process session, once it outlives its caller.
    pub(super) fn session_id(&self) -> Option<String> {
        self.session_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn is_background(&self) -> bool {
        self.session_id().is_some()
    }

    /// From now on it outlives its caller and this server. Returns the process session.
    pub(super) fn to_background(&self, new_session_id: String) -> String {
        let mut session_id = self.session_id.lock().unwrap_or_else(PoisonError::into_inner);
        if session_id.is_none() {
            self.control.background();
        }
        session_id.get_or_insert(new_session_id).clone()
    }

    pub(super) const fn control(&self) -> &RunControl {
        &self.control
    }

    /// Ends it; the supervisor reports the exit as usual.
    pub(super) fn kill(&self, cause: KillCause) {
        self.control.kill(cause);
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

/// All live runs.
#[derive(Debug, Default)]
pub(super) struct LiveRuns(Mutex<HashMap<RunId, Arc<LiveRun>>>);

impl LiveRuns {
    pub(super) fn insert(&self, live: &Arc<LiveRun>) {
        self.lock().insert(live.run_id.clone(), Arc::clone(live));
    }

    pub(super) fn remove(&self, run_id: &RunId) {
        self.lock().remove(run_id);
    }

    pub(super) fn get(&self, run_id: &RunId) -> Option<Arc<LiveRun>> {
        self.lock().get(run_id).map(Arc::clone)
    }

    pub(super) fn all(&self) -> Vec<Arc<LiveRun>> {
        self.lock().values().map(Arc::clone).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<LiveRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
