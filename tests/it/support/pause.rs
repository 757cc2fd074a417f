//! A point at which the program stands still because a test wants it (`countersign_sys::hooks`).

use std::path::PathBuf;

use countersign_sys::hooks;
use tempfile::TempDir;

use super::{ServerBuilder, soon, write_file};

/// One point of a server.
#[derive(Debug)]
pub(crate) struct Pause {
    directory: TempDir,
    point: &'static str,
}

impl Pause {
    /// The one point of a list of [`hooks`].
    pub(crate) fn at(points: &[&'static str]) -> Self {
        let &[point] = points else {
            panic!("one point of {points:?}")
        };
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            point,
        }
    }

    /// The same server, which looks whether it should stand still.
    pub(crate) fn of(&self, server: ServerBuilder) -> ServerBuilder {
        let directory = self.directory.path().to_str().expect("text");
        server.env(hooks::PAUSE_VARIABLE, directory)
    }

    /// Has whoever comes to the point next stand still there.
    pub(crate) fn begin(&self) {
        write_file(&self.directory.path().join(self.point), "");
    }

    /// Waits until somebody stands still.
    #[track_caller]
    pub(crate) fn reached(&self) -> impl Future<Output = ()> {
        let held = self.held();
        let reached = soon(self.point, move || held.exists(), |is_there| *is_there);
        async {
            reached.await;
        }
    }

    /// Lets what stands still go on.
    pub(crate) fn end(&self) {
        std::fs::remove_file(self.held()).expect("it stands still");
    }

    fn held(&self) -> PathBuf {
        self.directory.path().join(format!("{}.reached", self.point))
    }
}
