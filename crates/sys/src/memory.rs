//! The memory of this process: how the C library's allocator holds it, and how it goes back to the system.
//!
//! The allocator has an area (arena) for each of many threads, and keeps what was freed in it. A server that once
//! answered a large list from several threads would keep several times its size for ever.
//!
//! The program's own code stays in memory too once it ran, and most of what a start runs never runs again.

use std::{ops::Range, ptr, slice, thread::available_parallelism};

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

/// Lets go of the program's code and constants. What runs next is mapped again a few pages at a time, from the system's
/// cache of the file, for about a microsecond each.
///
/// Only what no one ever writes is let go: the parts of the program that were mapped without the right to write. What the
/// loader filled in (relocations) lies in others, though it cannot be written later. A debugger loses the breakpoints that
/// it has set.
pub fn let_go_of_code() {
    let page = rustix::param::page_size();
    for part in unwritten_parts() {
        // Whole pages of this part alone.
        let start = part.start.next_multiple_of(page);
        let Some(length) = (part.end - part.end % page).checked_sub(start) else {
            continue;
        };
        // SAFETY: these pages belong to a private mapping of the program's file that was never writable, and the loader
        // changes nothing there (the code is independent of its position), so none has a content of its own: the next
        // access reads the same bytes of the file.
        #[expect(unsafe_code, reason = "advice about memory is given by address")]
        let let_go = unsafe {
            rustix::mm::madvise(
                ptr::with_exposed_provenance_mut(start),
                length,
                rustix::mm::Advice::LinuxDontNeed,
            )
        };
        if let Err(error) = let_go {
            tracing::debug!(%error, "code of the program stays in memory");
        }
    }
}

/// Where the parts of the program lie that are mapped without the right to write.
fn unwritten_parts() -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    // SAFETY: the function is called on this thread before this returns, and `parts` lives longer.
    #[expect(unsafe_code, reason = "only the loader knows where it put the program")]
    unsafe {
        libc::dl_iterate_phdr(Some(note_parts), ptr::from_mut(&mut parts).cast());
    }
    parts
}

/// Notes the parts of the first object that the loader lists, which is the program, in the `Vec<Range<usize>>` at `parts`.
#[expect(unsafe_code, reason = "the loader calls it")]
unsafe extern "C" fn note_parts(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    parts: *mut libc::c_void,
) -> libc::c_int {
    const STOP: libc::c_int = 1;
    // SAFETY: the loader hands over an object that is valid for this call.
    let object = unsafe { &*object };
    // SAFETY: `unwritten_parts` hands over its vector, which nothing else refers to in this call.
    let parts = unsafe { &mut *parts.cast::<Vec<Range<usize>>>() };
    // SAFETY: the loader tells the address and the number of the headers of an object that is loaded.
    let headers = unsafe { slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = usize::try_from(object.dlpi_addr + header.p_vaddr);
        let length = usize::try_from(header.p_memsz);
        if let (Ok(start), Ok(length)) = (start, length) {
            parts.push(start..start + length);
        }
    }
    STOP
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

    /// A large constant, each page of which this test reads.
    static CONSTANT: [u8; 1 << 22] = [7; 1 << 22];

    /// How many kilobytes are resident of the mapping that has `address`.
    fn resident_at(address: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the mappings");
        let mut is_here = false;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if let Some((start, end)) = first.split_once('-') {
                let [start, end] =
                    [start, end].map(|part| usize::from_str_radix(part, 16).expect("an address"));
                is_here = (start..end).contains(&address);
            } else if is_here && first == "Rss:" {
                let kilobytes = words.next().expect("a number");
                return kilobytes.parse().expect("a number");
            }
        }
        panic!("nothing is mapped at {address:x}: {maps}");
    }

    #[test]
    fn code_that_was_let_go_of_is_there_when_it_is_needed() {
        let sum = || -> usize {
            CONSTANT
                .iter()
                .map(|byte| usize::from(std::hint::black_box(*byte)))
                .sum()
        };
        let address = CONSTANT.as_ptr().expose_provenance();
        assert!(unwritten_parts().iter().any(|part| part.contains(&address)));
        assert_eq!(sum(), 7 << 22);
        let before = resident_at(address);
        assert!(before >= 4096, "{before}");
        let_go_of_code();
        let after = resident_at(address);
        // Other tests may need what lies around it.
        assert!(after + 3000 < before, "{before} {after}");
        assert_eq!(sum(), 7 << 22);
        // What the loader filled in is not read from the file again.
        let names: &[&str] = &["a", "b"];
        assert_eq!(std::hint::black_box(names).concat(), "ab");
    }
}
