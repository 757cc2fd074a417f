//! What a process hands down to what it starts, besides environment and descriptors.

use std::io;

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit},
};

/// The soft limit of open files, the file mode mask and the nice value that the server was started with.
///
/// The server raises its own limit; commands get back what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InheritedLimits {
    /// Soft limit of open files; `None` for unlimited.
    pub open_files: Option<u64>,
    /// File mode mask, as `umask` takes it.
    pub umask: u32,
    /// Nice value, from -20 to 19.
    pub nice: i32,
}

impl InheritedLimits {
    /// Reads those of this process. To be called before anything changes them and before any thread exists:
    /// the mask can only be read by setting it.
    pub fn of_this_process() -> Self {
        let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        Self {
            open_files: rustix::process::getrlimit(Resource::Nofile).current,
            umask: mask.as_raw_mode(),
            nice: rustix::process::getpriority_process(None).unwrap_or(0),
        }
    }

    /// Gives them to this process, as far as it may.
    ///
    /// # Errors
    /// When the limit of open files cannot be set. A nice value that may not be lowered again is no error.
    pub fn apply(self) -> io::Result<()> {
        rustix::process::umask(Mode::from_raw_mode(self.umask));
        let now = rustix::process::getrlimit(Resource::Nofile);
        if now.current != self.open_files {
            rustix::process::setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: self.open_files,
                    maximum: now.maximum,
                },
            )?;
        }
        if rustix::process::getpriority_process(None).is_ok_and(|nice| nice != self.nice) {
            // Not permitted without privileges when the server was made nicer meanwhile: then so are commands.
            rustix::process::setpriority_process(None, self.nice).unwrap_or(());
        }
        Ok(())
    }
}
