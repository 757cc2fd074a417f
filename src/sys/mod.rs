//! The operating system behind safe signatures. Unsafe code and platform differences live here and nowhere else.

pub mod account;
pub mod beneath;
pub mod descriptors;
pub mod enclosure;
pub mod fs;
pub mod hooks;
pub mod interception;
pub mod metadata;
pub mod mounts;
pub mod namespace;
pub mod peer;
pub mod process;
pub mod readiness;
pub mod socket;
pub mod stamp;
pub mod system_calls;
pub mod usage;
pub mod wait;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "countersign builds on Linux only: supervisors need pidfds, subreapers, flock and SEQPACKET sockets"
);
