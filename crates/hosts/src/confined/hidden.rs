//! What a path means for a confined command.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use countersign_runner::confine::{ConfinementPlan, Mask};

/// What is covered, and what below it is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    masks: Vec<Mask>,
    /// Directories that were put back, and which they were.
    kept: Vec<(PathBuf, Identity)>,
    /// Directories that were covered where they are, and which they were.
    covered: Vec<(PathBuf, Identity)>,
}

/// Device, inode and, since numbers of inodes are used again, when it was made, where the file system knows.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(path: &Path) -> Option<Identity> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.created().ok()))
}

/// Variables that lead to a program outside by more than a path.
const LEADING_OUT: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
];

/// Variables that tell programs how it is inside.
///
/// fakeroot tries to give files away for real, and goes on when it may not. Inside the kernel answers that there is no
/// such account, at which it gives up.
const INSIDE: &[(&str, &str)] = &[("FAKEROOTDONTTRYCHOWN", "1")];

impl Hidden {
    /// What a plan covers.
    pub fn by(plan: &ConfinementPlan) -> Self {
        let identified = |path: &PathBuf| Some((path.clone(), identity(path)?));
        let kept = plan.masks.iter().flat_map(|mask| &mask.keep);
        let mut hidden = Self {
            masks: plan.masks.clone(),
            kept: kept.filter_map(identified).collect(),
            covered: Vec::new(),
        };
        // What lies below another cover is not there inside, no matter what becomes of it outside.
        let places = plan.masks.iter().map(|mask| &mask.at);
        let exposed = places.filter(|at| at.parent().is_some_and(|above| !hidden.hides(above)));
        hidden.covered = exposed.filter_map(identified).collect();
        hidden
    }

    /// A directory that is no longer the one that it was: it was removed and made again outside. One on the way to a
    /// path that was put back: commands would still be in the old one. Any that was covered: the new one is not.
    pub fn replaced(&self, path: &Path) -> Option<&Path> {
        let on_the_way = self.kept.iter().filter(|(kept, _was)| path.starts_with(kept));
        let exchanged = self.covered.iter().filter(|(at, _was)| at.exists());
        on_the_way
            .chain(exchanged)
            .find(|(place, was)| identity(place) != Some(*was))
            .map(|(place, _was)| place.as_path())
    }

    /// Whether a path, which has no links in it, is covered: something else, or nothing, is there inside.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        // The deepest word about the path counts; of two about the same path, the cover, which came later.
        let words = self.masks.iter().flat_map(|mask| {
            let kept = mask.keep.iter().chain(&mask.copies);
            kept.map(|kept| (kept.as_path(), false))
                .chain([(mask.at.as_path(), true)])
        });
        words
            .filter(|(place, _is_covered)| path.starts_with(place))
            .max_by_key(|(place, is_covered)| (place.components().count(), *is_covered))
            .is_some_and(|(_place, is_covered)| is_covered)
    }

    /// Variables for every command inside.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> + use<> {
        INSIDE
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
    }

    /// The inherited environment without what leads to covered places.
    pub fn without_leading_out(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        environment
            .into_iter()
            .filter(|(name, value)| {
                let leads_out = LEADING_OUT.iter().any(|known| name == known);
                !leads_out && !self.leads_to_hidden(value)
            })
            .collect()
    }

    fn leads_to_hidden(&self, value: &OsStr) -> bool {
        address_path(value).is_some_and(|path| {
            // One may write there: it is as good inside as outside (`XDG_RUNTIME_DIR`).
            let is_place_of_its_own = self.masks.iter().any(|mask| mask.writable && mask.at == path);
            self.hides(path) && !is_place_of_its_own
        })
    }
}

/// The path in a variable that is a path, or an address with one: `/x`, `unix:///x`, `unix:path=/x,guid=…`, `/x,1,2`.
pub(super) fn address_path(value: &OsStr) -> Option<&Path> {
    let bytes = value.as_bytes();
    let path = [b"unix:path=".as_slice(), b"unix://", b"unix:"]
        .iter()
        .find_map(|scheme| bytes.strip_prefix(*scheme))
        .unwrap_or(bytes);
    let path = path.split(|byte| *byte == b',').next().unwrap_or_default();
    let path = Path::new(OsStr::from_bytes(path));
    path.is_absolute().then_some(path)
}

/// The directories that hold the sockets of programs outside, as variables name them.
pub(super) fn named_sockets(environment: &[(OsString, OsString)]) -> Vec<PathBuf> {
    const NAMES: &[&str] = &[
        "CONTAINER_HOST",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "SSH_AUTH_SOCK",
        "TMUX",
        "WAYLAND_DISPLAY",
    ];
    environment
        .iter()
        .filter(|(name, _value)| NAMES.iter().any(|known| name == known))
        .filter_map(|(_name, value)| address_path(value))
        .map(Path::to_path_buf)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> Hidden {
        Hidden {
            kept: Vec::new(),
            covered: Vec::new(),
            masks: vec![
                Mask {
                    keep: vec!["/run/lock".into(), "/run/postgresql".into()],
                    ..Mask::over("/run".into())
                },
                Mask {
                    writable: true,
                    ..Mask::over("/run/user/7".into())
                },
                Mask {
                    keep: vec!["/home/a/.openclaw/workspace".into()],
                    ..Mask::over("/home/a/.openclaw".into())
                },
            ],
        }
    }

    #[test]
    fn the_deepest_word_about_a_path_counts() {
        for (path, expect) in [
            ("/run", true),
            ("/run/docker.sock", true),
            ("/run/lock/x", false),
            ("/run/locked", true),
            ("/run/user/7/bus", true),
            ("/runner", false),
            ("/home/a/.openclaw", true),
            ("/home/a/.openclaw/countersign/operator.token", true),
            ("/home/a/.openclaw/workspace", false),
            ("/home/a/.openclaw/workspace/src", false),
            ("/home/a/.openclaw/workspace2", true),
            ("/home/a", false),
        ] {
            assert_eq!(hidden().hides(Path::new(path)), expect, "{path}");
        }
    }

    #[test]
    fn a_directory_that_was_made_again_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let (workspace, other) = (place.path().join("workspace"), place.path().join("other"));
        for directory in [&workspace, &other] {
            std::fs::create_dir(directory).unwrap();
        }
        let hidden = Hidden::by(&ConfinementPlan {
            masks: vec![Mask {
                keep: vec![workspace.clone()],
                ..Mask::over(place.path().to_path_buf())
            }],
            ..ConfinementPlan::default()
        });
        assert_eq!(hidden.replaced(&workspace.join("src")), None);
        std::fs::rename(&workspace, place.path().join("old")).unwrap();
        std::fs::rename(&other, &workspace).unwrap();
        assert_eq!(hidden.replaced(&workspace.join("src")), Some(workspace.as_path()));
        assert_eq!(hidden.replaced(place.path()), None);
        // A cover goes away with the directory that it is on.
        std::fs::rename(&workspace, &other).unwrap();
        let covered = Hidden::by(&ConfinementPlan {
            masks: vec![Mask::over(other.clone())],
            ..ConfinementPlan::default()
        });
        assert_eq!(covered.replaced(place.path()), None);
        std::fs::rename(&other, &workspace).unwrap();
        assert_eq!(covered.replaced(place.path()), None, "nothing is there");
        std::fs::create_dir(&other).unwrap();
        assert_eq!(covered.replaced(place.path()), Some(other.as_path()));
    }

    #[test]
    fn variables_that_lead_outside_are_not_handed_on() {
        let kept = [
            ("EDITOR", "/usr/bin/vi"),
            ("EMPTY", ""),
            ("PGHOST", "/run/postgresql"),
            ("SRC", "/home/a/.openclaw/workspace/src"),
            ("DOCKER_HOST", "tcp://builder:2375"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
        ];
        let dropped = [
            ("CONTAINER_HOST", "unix:///run/user/7/podman/podman.sock"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/dbus-x"),
            ("SSH_AUTH_SOCK", "relative"),
            ("TMUX", "/tmp/tmux-7/default,1,0"),
            ("NVIM", "/run/user/7/nvim.1.0"),
            ("SOME", "unix:path=/run/user/7/bus,guid=1"),
            ("TOKENS", "/home/a/.openclaw/countersign"),
        ];
        let pair = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        let all = kept.iter().chain(&dropped).map(pair);
        assert_eq!(
            hidden().without_leading_out(all),
            kept.iter().map(pair).collect::<Vec<_>>()
        );
    }
}
