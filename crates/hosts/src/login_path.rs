//! The PATH that a login would give (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`): asked of the shell
//! once, when the server starts.

use std::{
    ffi::{OsStr, OsString},
    time::Duration,
};

use countersign_policy::command::env_policy;
use countersign_runner::LoginShell;
use countersign_sys::process::TextError;

/// Before the answer, since profiles may print anything.
const MARK: &str = "countersign-login-path=";

/// The shell did not tell.
#[derive(Debug, thiserror::Error)]
pub enum NoLoginPath {
    /// It could not be run, or not in time.
    #[error("the shell did not answer")]
    Shell(#[from] TextError),
    /// It answered something else.
    #[error("the shell's answer has no PATH in it")]
    NoAnswer,
}

/// Asks the shell, as a login shell, for its PATH. Blocks for up to `timeout`.
///
/// # Errors
/// [`NoLoginPath`]; runs then do without it.
pub fn ask(
    shell: LoginShell<'_>,
    inherited: &[(OsString, OsString)],
    own_path: Option<&str>,
    timeout: Duration,
) -> Result<String, NoLoginPath> {
    // A profile is a command like any other: it gets nothing of ours.
    let mut environment = env_policy::sanitise_inherited(inherited.iter().cloned());
    environment.retain(|(name, _value)| name != "PATH");
    environment.extend(own_path.map(|path| (OsString::from("PATH"), OsString::from(path))));
    let environment: Vec<(&OsStr, &OsStr)> = environment
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
        .collect();
    let script = format!("printf '\\n{MARK}%s\\n' \"$PATH\"");
    let text = shell.run(&script, &environment, timeout)?;
    answer(&text).ok_or(NoLoginPath::NoAnswer)
}

fn answer(text: &str) -> Option<String> {
    let path = text.lines().rev().find_map(|line| line.strip_prefix(MARK))?;
    (!path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use countersign_runner::LoginAs;

    fn shell() -> LoginShell<'static> {
        LoginShell {
            path: Path::new("/bin/sh"),
            login_as: LoginAs::Own,
        }
    }

    #[test]
    fn the_answer_is_found_between_what_profiles_print() {
        assert_eq!(
            answer("hello\n\ncountersign-login-path=/a:/b\nbye\n").as_deref(),
            Some("/a:/b")
        );
        assert_eq!(answer("countersign-login-path=\n"), None);
        assert_eq!(answer("hello\n"), None);
    }

    #[test]
    fn a_real_shell_tells_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join(".profile");
        countersign_sys::fs::replace_file(&profile, b"echo noise; PATH=/from/profile:$PATH\n", 0o600)
            .unwrap();
        let home = [(OsString::from("HOME"), folder.path().as_os_str().to_owned())];
        let path = ask(shell(), &home, Some("/usr/bin"), Duration::from_secs(20)).unwrap();
        assert!(path.starts_with("/from/profile:"), "{path}");
    }

    #[test]
    fn a_profile_that_hangs_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        countersign_sys::fs::replace_file(&folder.path().join(".profile"), b"while :; do :; done\n", 0o600)
            .unwrap();
        let home = [(OsString::from("HOME"), folder.path().as_os_str().to_owned())];
        let error = ask(shell(), &home, Some("/usr/bin"), Duration::from_millis(100)).unwrap_err();
        assert!(
            matches!(error, NoLoginPath::Shell(TextError::TimedOut)),
            "{error:?}"
        );
    }
}
