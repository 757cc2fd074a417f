//! What the machine has: room on the disk, files that may be open, and a clock.

use std::time::Duration;

use crate::doctor::{Finding, Room, Severity};

/// Under this much room a server may not start.
const LEAST_DISK: u64 = 100 * MEBIBYTE;
/// Under this much it will soon be so.
pub(super) const LITTLE_DISK: u64 = 1024 * MEBIBYTE;
const MEBIBYTE: u64 = 1 << 20;

pub(super) fn room(room: Room, state_dir: &std::path::Path) -> Vec<Finding> {
    let Room {
        disk_bytes,
        open_files,
        wanted_files,
    } = room;
    let mut found = Vec::new();
    if disk_bytes < LITTLE_DISK {
        found.push(Finding {
            id: "disk-nearly-full",
            severity: if disk_bytes < LEAST_DISK {
                Severity::Error
            } else {
                Severity::Warning
            },
            key: state_dir.display().to_string(),
            explanation: format!(
                "{} MiB are left where the state directory lies: without room for its record no command runs",
                disk_bytes / MEBIBYTE
            ),
            fix: "make room, or lower [output] quota_bytes and [output] keep_days in countersign.toml"
                .to_owned(),
            repair: None,
        });
    }
    if open_files < wanted_files {
        found.push(Finding {
            id: "few-open-files",
            severity: Severity::Warning,
            key: "limits.max_connections".to_owned(),
            explanation: format!(
                "a server may have {open_files} files open and would have {wanted_files} with as many connections and \
                 commands as the settings let in: it would refuse some before that"
            ),
            fix: "LimitNOFILE= of its unit (or ulimit -Hn), or lower [limits] max_connections and max_running".to_owned(),
            repair: None,
        });
    }
    found
}

/// A clock that is a little ahead elsewhere is no trouble.
pub(super) const CLOCK_TOLERANCE: Duration = Duration::from_mins(2);

pub(super) fn clock(ahead: Duration) -> Option<Finding> {
    (ahead > CLOCK_TOLERANCE).then(|| Finding {
        id: "clock-set-back",
        severity: Severity::Warning,
        key: "clock".to_owned(),
        explanation: format!(
            "files of the server were written {} minutes from now: the clock was set back. The time of the server \
             goes on from the later time, so that nothing lives longer, and is ahead of the clock",
            ahead.as_secs() / 60
        ),
        fix: "set the clock right (timedatectl set-ntp true)".to_owned(),
        repair: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::doctor::{Snapshot, findings::tests::check};

    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told() {
        let disk = |bytes: u64| move |s: &mut Snapshot| s.room.disk_bytes = bytes;
        check(
            disk(LITTLE_DISK - 1),
            &[("disk-nearly-full", Severity::Warning, "/state")],
        );
        check(
            disk(LEAST_DISK - 1),
            &[("disk-nearly-full", Severity::Error, "/state")],
        );
        check(
            |s| s.room.open_files = 999,
            &[("few-open-files", Severity::Warning, "limits.max_connections")],
        );
        check(
            |s| s.ahead = Some(CLOCK_TOLERANCE + Duration::from_millis(1)),
            &[("clock-set-back", Severity::Warning, "clock")],
        );
    }
}
