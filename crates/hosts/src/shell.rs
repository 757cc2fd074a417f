//! Which shell runs text as it was written (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`).
//!
//! Chosen once, when the server starts, from the server's own environment or its settings; never from a
//! request. A shell that others can write is no shell at all: the start fails.

use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use countersign_policy::command::direct::ShellKind;

/// The shell that runs approved or unrestricted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShell {
    path: PathBuf,
    kind: Option<ShellKind>,
}

/// No shell can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoShell {
    /// What the order gives cannot be used.
    #[error(
        "{named_by}: the shell {path} is not an executable file of root or of this account that only its owner may write; \
         exec.shell in countersign.toml names another"
    )]
    Unusable {
        /// The setting or the variable.
        named_by: &'static str,
        /// The shell that it names, or that was found for it.
        path: PathBuf,
    },
    /// Neither a setting nor `SHELL` names a shell, and the run PATH has no `sh`.
    #[error("exec.shell: no sh found in the run PATH")]
    NotFound,
}

impl HostShell {
    /// The shell by the order of `docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`: the setting; `SHELL`
    /// unless it is fish; for fish the first `bash`, else `sh`, of `path`, else fish itself; `sh` when `SHELL` is
    /// unset.
    ///
    /// # Errors
    /// [`NoShell`] when what this order gives is not an executable that neither group nor others may write.
    pub fn choose(
        setting: Option<&Path>,
        shell_variable: Option<&str>,
        path: &[PathBuf],
    ) -> Result<Self, NoShell> {
        let wanted = shell_variable
            .filter(|value| !value.trim().is_empty())
            .map(Path::new);
        let chosen = match (setting, wanted) {
            (Some(setting), _) => setting.to_owned(),
            (None, Some(shell)) if is_fish(shell) => find(path, "bash")
                .or_else(|| find(path, "sh"))
                .unwrap_or_else(|| shell.to_owned()),
            (None, Some(shell)) => shell.to_owned(),
            (None, None) => find(path, "sh").ok_or(NoShell::NotFound)?,
        };
        if is_safe_executable(&chosen) {
            Ok(Self {
                kind: kind_of(&chosen),
                path: chosen,
            })
        } else {
            Err(NoShell::Unusable {
                named_by: setting.map_or("SHELL", |_setting| "exec.shell"),
                path: chosen,
            })
        }
    }

    /// Whether it reads no file of its own before a text, so that it knows no names but its builtins and those of its PATH.
    pub fn is_plain(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        matches!(name, Some("sh" | "dash" | "bash" | "ash"))
    }

    /// The shell's path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which shell it is, if it is one whose start is known.
    pub const fn kind(&self) -> Option<ShellKind> {
        self.kind
    }
}

/// Which shell a file is, by its real name and by the name that it is started by: `rbash` is bash, and restricts it. What
/// is no program of the machine may be a script that starts the shell in another way.
fn kind_of(path: &Path) -> Option<ShellKind> {
    const PROGRAM: [u8; 4] = *b"\x7fELF";
    let real = path.canonicalize().ok()?;
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let kind = match (name(path)?.as_str(), name(&real)?.as_str()) {
        ("bash" | "sh", "bash") => ShellKind::Bash,
        ("dash" | "sh", "dash") => ShellKind::Dash,
        _ => return None,
    };
    let mut first = [0; PROGRAM.len()];
    File::open(&real).ok()?.read_exact(&mut first).ok()?;
    (first == PROGRAM).then_some(kind)
}

fn is_fish(shell: &Path) -> bool {
    shell.file_name().is_some_and(|name| name == "fish")
}

fn find(path: &[PathBuf], name: &str) -> Option<PathBuf> {
    path.iter()
        .map(|dir| dir.join(name))
        .find(|candidate| is_safe_executable(candidate))
}

fn is_safe_executable(path: &Path) -> bool {
    path.is_absolute()
        && std::fs::metadata(path).is_ok_and(|meta| {
            let mode = meta.permissions().mode();
            let ours = meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw();
            meta.is_file() && ours && mode & 0o111 != 0 && mode & 0o022 == 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::fs::create_private_file;

    fn choose(setting: Option<&str>, variable: Option<&str>) -> Result<PathBuf, NoShell> {
        let path = [PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        HostShell::choose(setting.map(Path::new), variable, &path).map(|shell| shell.path().to_owned())
    }

    #[test]
    fn the_setting_wins_then_the_variable_then_sh() {
        assert_eq!(choose(Some("/bin/sh"), Some("/bin/bash")), Ok("/bin/sh".into()));
        assert_eq!(choose(None, Some("/bin/bash")), Ok("/bin/bash".into()));
        assert_eq!(choose(None, None), Ok("/usr/bin/sh".into()));
    }

    #[test]
    fn fish_gives_way_to_bash() {
        assert_eq!(choose(None, Some("/nowhere/fish")), Ok("/usr/bin/bash".into()));
    }

    #[test]
    fn a_shell_is_known_by_what_it_is_and_by_what_it_is_called() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("as")).unwrap();
        for (name, target) in [
            ("as/sh", "/bin/bash"),
            ("rbash", "/bin/bash"),
            ("bash", "/bin/dash"),
            ("dash", "/bin/dash"),
            ("sh", "/bin/bash"),
            ("-sh", "/bin/bash"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        std::fs::create_dir(at("script")).unwrap();
        create_private_file(&at("script/bash"), b"#!/bin/sh\nexec /bin/bash -l \"$@\"\n").unwrap();
        let kind = |path: &Path| kind_of(path);
        assert_eq!(kind(Path::new("/bin/bash")), Some(ShellKind::Bash));
        assert_eq!(kind(Path::new("/bin/dash")), Some(ShellKind::Dash));
        assert_eq!(kind(&at("as/sh")), Some(ShellKind::Bash));
        assert_eq!(kind(&at("dash")), Some(ShellKind::Dash));
        for unknown in ["rbash", "bash", "-sh", "script/bash", "none"] {
            assert_eq!(kind(&at(unknown)), None, "{unknown}");
        }
        assert_eq!(kind(Path::new("/bin/cat")), None);
    }

    #[test]
    fn a_shell_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let shell = dir.path().join("sh");
        std::fs::copy("/bin/sh", &shell).unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o775)).unwrap();
        for (setting, variable, named_by) in [
            (shell.to_str(), None, "exec.shell: "),
            (Some("sh"), None, "exec.shell: the shell sh "),
            (None, shell.to_str(), "SHELL: the shell /"),
        ] {
            let refused = choose(setting, variable).unwrap_err().to_string();
            assert!(refused.starts_with(named_by), "{refused}");
        }
    }
}
