//! The memory of this process: how the C library's allocator holds it, and when it gives it back.
//!
//! The allocator has an area (arena) for each of many threads, and keeps what was freed in it. A server that once
//! answered a large list from several threads would keep several times its size for ever.

use std::thread::available_parallelism;

/// Most areas: threads that allocate much at once wait for each other then.
const MOST_ARENAS: usize = 8;

/// Has the allocator use one area for each processor, up to [`MOST_ARENAS`]. Call it before there are threads.
pub fn use_few_arenas() {
    let arenas = available_parallelism()
        .map_or(2, usize::from)
        .clamp(2, MOST_ARENAS);
    set_arenas(arenas);
}

#[cfg(target_env = "gnu")]
fn set_arenas(arenas: usize) {
    let arenas = libc::c_int::try_from(arenas).unwrap_or(libc::c_int::MAX);
    // SAFETY: `mallopt` takes two numbers and only sets a parameter of the allocator, under its lock.
    #[expect(unsafe_code, reason = "the C library's allocator has no other interface")]
    let is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    if is_set == 0 {
        tracing::debug!("the allocator uses as many areas as it likes");
    }
}

#[cfg(not(target_env = "gnu"))]
fn set_arenas(_arenas: usize) {}

/// Gives whole pages that hold nothing any more back to the system. It takes milliseconds, in which threads that allocate
/// from an area wait.
pub fn give_back() {
    // SAFETY: `malloc_trim` takes a number and releases free pages only, under the locks of the allocator.
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's allocator has no other interface")]
    let _is_released = unsafe { libc::malloc_trim(0) };
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;
    use crate::usage::Usage;

    #[test]
    fn what_was_freed_between_what_is_held_is_given_back() {
        let resident = || Usage::of_this_process().unwrap().resident_bytes;
        let mut pieces: Vec<Box<[u8]>> = (0..20_000).map(|_| vec![1; 4096].into()).collect();
        // One of sixteen stays, so that the end of the area is in use.
        let mut index = 0;
        pieces.retain(|_| {
            index += 1;
            index % 16 == 0
        });
        let before = resident();
        give_back();
        let after = resident();
        assert!(after + 30_000_000 < before, "{before} {after} {}", pieces.len());
    }
}
