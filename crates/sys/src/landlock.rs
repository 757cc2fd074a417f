//! Landlock: which files a process and its descendants can execute and write, and where they can connect.
//!
//! The kernel compares what it opened, not a path, so there is no moment at which another file could take its place. What
//! is allowed is decided elsewhere.
#![expect(unsafe_code, reason = "Landlock has no safe wrapper in rustix")]

use std::sync::OnceLock;

use super::hooks;

/// The first version that knows which files can be executed and written; 0 is a kernel without Landlock.
pub const FILES_SINCE: u32 = 1;
/// The first version that refuses to cut a file (`truncate`), without which a place is not kept from being written.
pub const TRUNCATE_SINCE: u32 = 3;
/// The first version that knows TCP ports.
pub const PORTS_SINCE: u32 = 4;
/// The first version that keeps signals and abstract sockets inside.
pub const SCOPES_SINCE: u32 = 6;

/// The versions that a test build can pretend to have, by the protection that is left away for it.
const PRETENDED: [(&str, u32); 5] = [
    ("landlock-0", 0),
    ("landlock-1", 1),
    ("landlock-3", 3),
    ("landlock-4", 4),
    ("landlock-6", 6),
];

/// The version of Landlock of this kernel; 0 where there is none or it is switched off.
pub fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        const ASK_FOR_VERSION: u32 = 1;
        let no_ruleset = std::ptr::null::<u8>();
        // SAFETY: with this flag the kernel reads nothing and answers with a number.
        let answer =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_ruleset, 0, ASK_FOR_VERSION) };
        let found = u32::try_from(answer).unwrap_or(0);
        let pretended = PRETENDED
            .into_iter()
            .find(|(name, _)| hooks::protection_off(name));
        pretended.map_or(found, |(_, version)| found.min(version))
    })
}
