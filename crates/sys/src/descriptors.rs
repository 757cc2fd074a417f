//! How many files this process may still open.

use std::{io, os::fd::AsFd as _};

use rustix::io::Errno;

/// So many descriptors are free where a command is looked at: its directories, program and scripts, the two policy
/// files, and the few that starting it takes.
pub const SPARE_DESCRIPTORS: usize = 16;

/// Whether so many more can be opened now. Tries it: a limit and a count would race with each other, and counting takes
/// time for each that is open.
pub fn has_spare_descriptors(count: usize) -> bool {
    let stderr = io::stderr();
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        match stderr.as_fd().try_clone_to_owned() {
            Ok(descriptor) => held.push(descriptor),
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                // Any other error is about this one, and says nothing of others.
                return !matches!(errno, Some(Errno::MFILE | Errno::NFILE));
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_free_and_all_are_given_back() {
        for _ in 0..10_000 {
            assert!(has_spare_descriptors(SPARE_DESCRIPTORS));
        }
    }
}
