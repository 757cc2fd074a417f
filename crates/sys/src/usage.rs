//! What this process takes of its machine.

use std::{fs, io, time::Duration};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

/// What this process takes now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Memory in RAM, in bytes.
    pub resident_bytes: u64,
    /// Open descriptors, with the one that counts them.
    pub open_files: u64,
    /// How many it may open; `None` without a limit.
    pub max_open_files: Option<u64>,
    /// Time on processors since its start.
    pub processor_time: Duration,
}

impl Usage {
    /// Of this process, without its runner and the commands.
    ///
    /// # Errors
    /// When `/proc` is not there or says something else than it should.
    pub fn of_this_process() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let kibibytes = kibibytes.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            resident_bytes: kibibytes.saturating_mul(1024),
            open_files: u64::try_from(fs::read_dir("/proc/self/fd")?.count()).unwrap_or(u64::MAX),
            max_open_files: getrlimit(Resource::Nofile).current,
            processor_time: processor_time(),
        })
    }
}

/// Time on processors that this process took since its start, without its runner and the commands.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_itself() {
        let before = Usage::of_this_process().unwrap();
        assert!(before.resident_bytes > 100_000, "{before:?}");
        assert!(before.processor_time > Duration::ZERO, "{before:?}");
        let opened: Vec<_> = (0..5).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let after = Usage::of_this_process().unwrap();
        assert!(after.open_files >= 5, "{after:?} {opened:?}");
        assert!(
            after.max_open_files.is_none_or(|most| most >= after.open_files),
            "{after:?}"
        );
    }
}
