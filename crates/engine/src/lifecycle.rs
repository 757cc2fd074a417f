//! The life of this server: whether it still takes something new, and the tasks that it waits for before it goes.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFuture},
    task::{TaskTracker, task_tracker::TrackedFuture},
};

/// Whether the server takes something new, and what goes on in it.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Nothing new is taken.
    draining: AtomicBool,
    stopping: CancellationToken,
    tasks: TaskTracker,
    /// Tasks that may start a run. A server that stops waits for them before it looks what runs.
    launches: TaskTracker,
}

impl Lifecycle {
    /// Whether nothing new is taken any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// From now on nothing new is taken; what goes on is not told yet.
    pub(crate) fn take_nothing_new(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Tells everything that goes on that the server stops.
    pub(crate) fn begin_to_stop(&self) {
        self.take_nothing_new();
        self.stopping.cancel();
    }

    /// Cancelled when the server begins to stop.
    pub(crate) const fn token(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Waits until the server begins to stop.
    pub(crate) fn stopping(&self) -> WaitForCancellationFuture<'_> {
        self.stopping.cancelled()
    }

    /// Whether the server has begun to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Does something beside the requests.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        // Behind a pointer: what the runtime does with a task is compiled for each result, and not for each task.
        self.tasks.spawn(task.boxed())
    }

    /// The tasks of [`Lifecycle::spawn`], for what begins some without knowing this server.
    pub(crate) const fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Does something that may start a run, beside the requests.
    pub(crate) fn spawn_launch<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.launches.spawn(task.boxed())
    }

    /// Has something waited for that may start a run.
    pub(crate) fn track_launch<F: Future>(&self, launch: F) -> TrackedFuture<F> {
        self.launches.track_future(launch)
    }

    /// Waits until nothing is being started any more; what begins to start from now on sees that the server stops.
    pub(crate) async fn await_launches(&self) {
        self.launches.close();
        self.launches.wait().await;
    }

    /// Takes no task any more that is waited for.
    pub(crate) fn close(&self) {
        self.tasks.close();
    }

    /// Waits for the end of all tasks.
    pub(crate) async fn finish(&self) {
        self.tasks.wait().await;
    }
}

/// What some work came to; `None` when it panicked, which is logged where it happens. What it shares with others lies
/// behind locks that do not mind that.
pub(crate) async fn unless_it_panics<T>(work: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}
