//! Programs that cannot do their work when confined, told by their file or by their name.
//!
//! This module decides nothing. It tells anyone who wonders why a command failed what is known about its programs.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

/// What a program needs and does not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutOfReach {
    /// Rights that its file would give it: set-uid, set-gid or capabilities, all void under `no_new_privs`.
    FileRights,
    /// A service of the machine or of the account, whose socket is covered.
    Service,
}

/// Clients of services whose sockets are covered, and what starts containers by way of set-uid helpers.
const CLIENTS: &[&str] = &[
    "busctl",
    "crictl",
    "ctr",
    "dbus-send",
    "docker",
    "docker-compose",
    "flatpak",
    "gdbus",
    "hostnamectl",
    "incus",
    "localectl",
    "loginctl",
    "lxc",
    "machinectl",
    "nerdctl",
    "networkctl",
    "nmcli",
    "notify-send",
    "podman",
    "resolvectl",
    "screen",
    "secret-tool",
    "snap",
    "ssh-add",
    "systemctl",
    "systemd-run",
    "timedatectl",
    "tmux",
    "virsh",
    "wl-copy",
    "wl-paste",
    "xclip",
    "xdg-open",
    "xsel",
];

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;

impl OutOfReach {
    /// What a program, by its real path and the name it goes by, would miss.
    pub fn of(program: &Path) -> Option<Self> {
        if has_rights(program) {
            return Some(Self::FileRights);
        }
        let name = program.file_name()?.to_str()?;
        CLIENTS.binary_search(&name).is_ok().then_some(Self::Service)
    }
}

fn has_rights(program: &Path) -> bool {
    let Ok(meta) = fs::metadata(program) else {
        return false;
    };
    if !meta.is_file() {
        return false;
    }
    let mode = meta.mode();
    let user = mode & SET_UID != 0 && meta.uid() != rustix::process::geteuid().as_raw();
    // Without the right of the group to execute, the bit means something else.
    let group = mode & SET_GID != 0
        && mode & GROUP_EXECUTES != 0
        && meta.gid() != rustix::process::getegid().as_raw();
    user || group || has_capabilities(program)
}

fn has_capabilities(program: &Path) -> bool {
    // More than any version of them takes.
    let mut value = [0; 64];
    rustix::fs::getxattr(program, "security.capability", &mut value).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_list_of_clients_can_be_searched() {
        assert!(CLIENTS.is_sorted());
        for (program, expect) in [
            ("/opt/none/docker", Some(OutOfReach::Service)),
            ("/opt/none/dockerd", None),
            ("/opt/none/cargo", None),
            ("/", None),
        ] {
            assert_eq!(OutOfReach::of(Path::new(program)), expect, "{program}");
        }
    }

    #[test]
    fn rights_of_a_file_are_seen_only_where_they_would_change_something() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::File::create(&program).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        for (owner, mode, expect) in [
            (None, 0o755, None),
            // Set-uid to the account itself.
            (None, 0o4755, None),
            (Some(2), 0o4755, Some(OutOfReach::FileRights)),
            (Some(2), 0o2755, Some(OutOfReach::FileRights)),
            (Some(2), 0o2745, None),
            (Some(2), 0o755, None),
        ] {
            if owner.is_some() && !is_root {
                continue;
            }
            std::os::unix::fs::chown(&program, owner, owner).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(OutOfReach::of(&program), expect, "{mode:o}");
        }
    }
}
