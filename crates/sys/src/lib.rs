//! The operating system behind safe signatures. Unsafe code lives here and nowhere else. Linux only.
//!
//! It must never decide about a command or a policy: callers say what to do and in which order.
//!
//! Read on in [`process`] (starting and ending processes), [`fs`] (private files), [`clock`] (time and ids, which
//! everybody takes from there), and [`namespace`], [`mounts`] and [`enclosure`] (the kernel's side of sandboxes).
//! [`hooks`] are the kill points of tests and [`faults`] are calls that fail; without the feature `test-hooks` they are
//! empty.

pub mod clock;
pub mod spool;

pub mod account;
pub mod beneath;
pub mod descriptors;
pub mod enclosure;
pub mod faults;
pub mod fs;
pub mod hooks;
pub mod interception;
pub mod landlock;
pub mod memory;
pub mod metadata;
pub mod mounts;
pub mod namespace;
pub mod peer;
pub mod process;
pub mod readiness;
pub mod socket;
#[cfg(feature = "test-hooks")]
pub mod sqlite_faults;
#[cfg(feature = "sqlite")]
pub mod sqlite_log;
pub mod stamp;
pub mod system_calls;
pub mod usage;
pub mod wait;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "countersign builds on Linux only: supervisors need pidfds, subreapers, flock and SEQPACKET sockets"
);
