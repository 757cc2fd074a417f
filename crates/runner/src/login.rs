//! Asking an account's login shell something, as that account.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    time::Duration,
};

use countersign_sys::{
    account::Identity,
    process::{self, TextError, run_for_text},
};

use super::{command_line, unit_link::RunnerUnit};

/// The word that makes this program a shell of another account. Not for people.
pub(super) const MODE: &str = "__login";

/// A shell that is asked, and the account that it runs under.
#[derive(Debug, Clone, Copy)]
pub struct LoginShell<'a> {
    /// Path of the shell, which must take `-l` and `-c`.
    pub path: &'a Path,
    /// As whom it runs.
    pub login_as: LoginAs<'a>,
}

/// As whom a login shell runs.
#[derive(Debug, Clone, Copy)]
pub enum LoginAs<'a> {
    /// As this process's own account.
    Own,
    /// As another one. Root only.
    Account(&'a Identity),
    /// As that of a runner's unit, which starts it.
    Unit(&'a RunnerUnit),
}

impl LoginShell<'_> {
    /// Runs a script and returns what it wrote. Blocks for up to `timeout`.
    ///
    /// # Errors
    /// [`TextError`].
    pub fn run(
        &self,
        script: &str,
        environment: &[(&OsStr, &OsStr)],
        timeout: Duration,
    ) -> Result<String, TextError> {
        let Self { path, login_as } = *self;
        let shell = [
            path.as_os_str(),
            OsStr::new("-l"),
            OsStr::new("-c"),
            OsStr::new(script),
        ];
        match login_as {
            LoginAs::Own => run_for_text(path, &shell, environment, timeout),
            LoginAs::Unit(unit) => unit.login(&shell, environment, timeout),
            LoginAs::Account(account) => {
                let account = account.to_string();
                let words = [OsStr::new("countersign-login"), OsStr::new(MODE)]
                    .into_iter()
                    .chain(shell)
                    .chain([OsStr::new(command_line::ACCOUNT), OsStr::new(&account)]);
                let words: Vec<_> = words.collect();
                run_for_text(Path::new("/proc/self/exe"), &words, environment, timeout)
            }
        }
    }
}

/// Becomes the program that the words name: the first is its path and name.
pub(super) fn main(words: &[OsString]) -> ! {
    // Where this program was started may be closed to the account; a shell complains of that.
    rustix::process::chdir("/").unwrap_or(());
    // Only the error comes back, and nobody is there to read more than that it failed.
    drop(process::execute(words));
    process::exit_now(127)
}
