//! The node host as a service of this machine: a unit for systemd, or an agent for launchd.
//!
//! Pure functions make the text that is written. Nothing here ever touches a file that it did not write, and nothing
//! here starts or stops a service: you get the commands for that. Entry points: [`text()`], [`install`] and
//! [`uninstall`]; [`Manager`] says where the file lies and which commands to run.

mod launchd;
mod systemd;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_sys::fs::{read_bounded, replace_file};

/// What every file of ours says, so that nobody else's is taken for one.
const MARK: &str = "Written by countersign node install";
/// Units and property lists are small.
const MAX_BYTES: usize = 64 * 1024;
/// Anybody may read how a service is started.
const MODE: u32 = 0o644;

/// Who starts the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// systemd of the user.
    SystemdUser,
    /// systemd of the machine.
    SystemdSystem,
    /// launchd of the user.
    Launchd,
}

/// What is started, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Selects the format of the file: a unit or a property list.
    pub manager: Manager,
    /// Path of the program: UTF-8 without control characters.
    pub program: PathBuf,
    /// The words after the program, each without control characters.
    pub arguments: Vec<String>,
    /// The account, for [`Manager::SystemdSystem`].
    pub account: Option<String>,
    /// Where what it says goes, for [`Manager::Launchd`].
    pub log: Option<PathBuf>,
}

/// A service was not installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A path or argument that no unit can hold.
    #[error("{what} cannot be written into a service: it holds a line break or another control character")]
    Unwritable {
        /// The part that cannot be written, in words, such as `an argument`.
        what: &'static str,
    },
    /// Another program or a person wrote the file.
    #[error("{} was not written by countersign and stays as it is", path.display())]
    Foreign {
        /// The file that lies where the service's should.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("{} cannot be written or read", path.display())]
    Io {
        /// The service's file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
}

/// What became of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is there now, or gone now.
    Yes,
    /// Nothing was done: the same text was there already, or no file was.
    No,
}

impl Manager {
    /// The manager of this machine for a user.
    pub const fn of_user() -> Self {
        if cfg!(target_os = "macos") {
            Self::Launchd
        } else {
            Self::SystemdUser
        }
    }

    /// Where its file lies. `config_home` is `XDG_CONFIG_HOME`.
    pub fn path(self, home: &Path, config_home: Option<&Path>) -> PathBuf {
        match self {
            Self::SystemdSystem => PathBuf::from("/etc/systemd/system/countersign-node.service"),
            Self::SystemdUser => config_home
                .filter(|path| path.is_absolute())
                .map_or_else(|| home.join(".config"), Path::to_path_buf)
                .join("systemd/user/countersign-node.service"),
            Self::Launchd => home.join(format!("Library/LaunchAgents/{}.plist", launchd::LABEL)),
        }
    }

    /// What to run so that it starts now and whenever the account or the machine does.
    pub fn start_commands(self, path: &Path) -> Vec<String> {
        match self {
            Self::SystemdUser => vec![
                "systemctl --user daemon-reload".to_owned(),
                "systemctl --user enable --now countersign-node".to_owned(),
            ],
            Self::SystemdSystem => vec![
                "systemctl daemon-reload".to_owned(),
                "systemctl enable --now countersign-node".to_owned(),
            ],
            Self::Launchd => vec![format!("launchctl bootstrap gui/$UID {}", path.display())],
        }
    }

    /// What to run so that one that is installed and stopped starts now.
    pub fn start_command(self, path: &Path) -> String {
        match self {
            Self::SystemdUser => "systemctl --user start countersign-node".to_owned(),
            Self::SystemdSystem => "systemctl start countersign-node".to_owned(),
            Self::Launchd => format!("launchctl bootstrap gui/$UID {}", path.display()),
        }
    }

    /// What to run before its file is removed, so that it does not go on.
    pub fn stop_commands(self) -> Vec<String> {
        match self {
            Self::SystemdUser => vec!["systemctl --user disable --now countersign-node".to_owned()],
            Self::SystemdSystem => vec!["systemctl disable --now countersign-node".to_owned()],
            Self::Launchd => vec![format!("launchctl bootout gui/$UID/{}", launchd::LABEL)],
        }
    }
}

/// The text of a service's file.
///
/// # Errors
/// [`ServiceError::Unwritable`] for what no such file can hold.
pub fn text(spec: &ServiceSpec) -> Result<String, ServiceError> {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    let program = spec.program.to_str().filter(|path| is_plain(path));
    if program.is_none() {
        return Err(ServiceError::Unwritable {
            what: "the path of this program",
        });
    }
    if !spec.arguments.iter().all(|argument| is_plain(argument)) {
        return Err(ServiceError::Unwritable { what: "an argument" });
    }
    if spec.account.as_deref().is_some_and(|name| !is_account(name)) {
        return Err(ServiceError::Unwritable {
            what: "the name of the account",
        });
    }
    Ok(match spec.manager {
        Manager::SystemdUser | Manager::SystemdSystem => systemd::unit(spec),
        Manager::Launchd => launchd::property_list(spec),
    })
}

fn is_account(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_letter)
}

/// Whether a file of ours is at the path; `None` when nothing is.
///
/// # Errors
/// [`ServiceError::Foreign`] when countersign did not write it, [`ServiceError::Io`] when it cannot be read.
pub fn installed(path: &Path) -> Result<Option<String>, ServiceError> {
    let foreign = || ServiceError::Foreign {
        path: path.to_owned(),
    };
    match read_bounded(path, MAX_BYTES) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_no_text| foreign())?;
            if text.contains(MARK) {
                Ok(Some(text))
            } else {
                Err(foreign())
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A link, a directory, or far too much.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
            ) || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) =>
        {
            Err(foreign())
        }
        Err(source) => Err(ServiceError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes a service's file.
///
/// # Errors
/// [`ServiceError`]; then nothing was written.
pub fn install(path: &Path, text: &str) -> Result<Changed, ServiceError> {
    if installed(path)?.as_deref() == Some(text) {
        return Ok(Changed::No);
    }
    let io = |source| ServiceError::Io {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(io)?;
    }
    replace_file(path, text.as_bytes(), MODE).map_err(io)?;
    Ok(Changed::Yes)
}

/// Removes a service's file.
///
/// # Errors
/// [`ServiceError`]; then nothing was removed.
pub fn uninstall(path: &Path) -> Result<Changed, ServiceError> {
    if installed(path)?.is_none() {
        return Ok(Changed::No);
    }
    fs::remove_file(path).map_err(|source| ServiceError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(Changed::Yes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files of the tests themselves")]
    use super::*;

    fn spec(manager: Manager) -> ServiceSpec {
        ServiceSpec {
            manager,
            program: PathBuf::from("/usr/bin/countersign"),
            arguments: vec!["node".to_owned(), "run".to_owned()],
            account: None,
            log: None,
        }
    }

    #[test]
    fn a_file_of_somebody_else_is_neither_replaced_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("systemd/user/countersign-node.service");
        let ours = text(&spec(Manager::SystemdUser)).unwrap();
        assert_eq!(uninstall(&path).unwrap(), Changed::No);
        assert_eq!(install(&path, &ours).unwrap(), Changed::Yes);
        assert_eq!(install(&path, &ours).unwrap(), Changed::No);
        assert_eq!(uninstall(&path).unwrap(), Changed::Yes);
        let foreign = folder.path().join("foreign");
        fs::write(&foreign, "[Unit]\n").unwrap();
        assert!(matches!(
            install(&foreign, &ours),
            Err(ServiceError::Foreign { .. })
        ));
        assert!(matches!(uninstall(&foreign), Err(ServiceError::Foreign { .. })));
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "[Unit]\n");
        let link = folder.path().join("link");
        let target = folder.path().join("target");
        fs::write(&target, &ours).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(install(&link, "x").is_err());
        assert!(uninstall(&link).is_err());
        assert!(target.exists());
    }

    #[test]
    fn what_would_break_out_of_a_file_is_refused() {
        let refused = |change: fn(&mut ServiceSpec)| {
            for manager in [Manager::SystemdUser, Manager::SystemdSystem, Manager::Launchd] {
                let mut spec = spec(manager);
                change(&mut spec);
                assert!(matches!(text(&spec), Err(ServiceError::Unwritable { .. })));
            }
        };
        refused(|spec| spec.arguments.push("a\nExecStartPre=/bin/rm".to_owned()));
        refused(|spec| spec.program = PathBuf::from("/x\ny"));
        refused(|spec| spec.account = Some("root\nx".to_owned()));
        refused(|spec| spec.account = Some("-x".to_owned()));
    }
}
