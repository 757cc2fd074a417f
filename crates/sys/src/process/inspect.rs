//! What `/proc` says about processes.

use std::{fs, io};

use super::Pid;

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id in the namespace of this process.
    pub pid: Pid,
    /// Its present parent: after the death of the first one, its reaper.
    pub parent: Pid,
    /// Id of its session, which is that of the session's leader.
    pub session: Pid,
    /// When it started, in clock ticks since boot. With the pid it names a process for one boot.
    pub start_time: u64,
    /// Whether it ended and only waits to be reaped.
    pub is_zombie: bool,
    /// Whether it is on its way to that, and does nothing of its own any more.
    pub is_exiting: bool,
}

/// `PF_EXITING` of the kernel.
const EXITING: u32 = 4;

/// Looks at one process; `None` when there is none of that id.
pub fn inspect(pid: Pid) -> Option<Process> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Looks at the calling process. Allocates nothing, so that a child between `clone` and `exec` may use it.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn current() -> io::Result<Process> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(
        c"/proc/self/stat",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut text = [0; 1024];
    let read = rustix::io::read(&file, &mut text)?;
    text.get(..read)
        .and_then(parse_stat)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The ids of all processes that can be seen.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn list() -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// The children of a process at this moment. More may appear while it is read.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn children(pid: Pid) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => threads,
        // It ended: what it had belongs to its reaper now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for thread in threads {
        let Ok(thread) = thread else { continue };
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<Pid>().ok()),
            ),
            // A kernel without CONFIG_PROC_CHILDREN has no such file, but a thread that just ended has none either.
            Err(_) => return children_by_parent(pid),
        }
    }
    Ok(found)
}

fn children_by_parent(parent: Pid) -> io::Result<Vec<Pid>> {
    let of_parent = |pid: &Pid| inspect(*pid).is_some_and(|process| process.parent == parent);
    Ok(list()?.into_iter().filter(of_parent).collect())
}

/// The id of this boot of the machine, a UUID. Pids and start times mean something only within one.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim_end()
        .to_owned())
}

/// The name in field 2 may hold anything, spaces and brackets too, so fields are counted from the last bracket.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = number(stat.split(|byte| *byte == b' ').next()?)?;
    let mut fields = stat.get(end_of_name + 2..)?.split(|byte| *byte == b' ');
    let state = fields.next()?;
    let parent = number(fields.next()?)?;
    let session = number(fields.nth(1)?)?;
    let flags: u32 = number(fields.nth(2)?)?;
    let start_time = number(fields.nth(12)?)?;
    Some(Process {
        pid,
        parent,
        session,
        start_time,
        is_zombie: matches!(state, b"Z" | b"X"),
        is_exiting: flags & EXITING != 0,
    })
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_does_not_shift_the_fields() {
        let stat = b"4711 (a) R (b c) S 4700 4711 4698 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let expect = Process {
            pid: 4711,
            parent: 4700,
            session: 4698,
            start_time: 987_654,
            is_zombie: false,
            is_exiting: false,
        };
        assert_eq!(parse_stat(stat), Some(expect));
        assert_eq!(parse_stat(b"1 (x"), None);
    }

    #[test]
    fn this_process_is_found_both_ways() {
        let pid = Pid::try_from(std::process::id()).unwrap();
        assert_eq!(inspect(pid), Some(current().unwrap()));
        assert!(list().unwrap().contains(&pid));
    }
}
