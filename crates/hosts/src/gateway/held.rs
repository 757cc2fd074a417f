//! Held texts: runs of the gateway host inside of walls that a supervisor makes (`docs/held-texts.md`).

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use countersign_domain::{Bound, Isolation};
use countersign_runner::wire::{Plan, Program};
use countersign_sys::mounts;

use super::{
    GatewayHost, Mismatch, StartError, Supervised,
    launch_spec::LaunchSpec,
    plan::{Opened, alone, c_path, list_of, push_environment, shell_words},
    rulesets::expect_nothing_to_keep,
};
use crate::{
    held::{self, Held},
    sandbox::Unusable,
};

impl GatewayHost {
    /// Whether a directory can be the workspace of a held text now. `home` is that of the account.
    ///
    /// # Errors
    /// [`Unusable`] says what stands against it.
    pub fn check_held_workspace(&self, workspace: &Path, home: &Path) -> Result<(), Unusable> {
        held::check_workspace(self.own_directory(), home, workspace)?;
        if let Some(hidden) = self.hidden()
            && (hidden.hides(workspace) || hidden.replaced(workspace).is_some())
        {
            return Err(Unusable(format!(
                "confined commands do not see the workspace {}",
                workspace.display()
            )));
        }
        held::survey(workspace).map(|_found| ())
    }

    /// Starts a held text. Its directory was opened and is the one that was judged.
    pub(super) async fn launch_held(&self, spec: &LaunchSpec) -> Result<Supervised, StartError> {
        let Bound::Held {
            shell,
            shell_file,
            text,
            workspace,
            programs,
            loaders,
        } = &spec.bound
        else {
            return Err(StartError::NotPassable);
        };
        if spec.isolation != Isolation::Confined || self.is_separate_user() {
            return Err(StartError::Isolation {
                recorded: spec.isolation,
                now: self.isolation(),
            });
        }
        expect_nothing_to_keep(&spec.confinement)?;
        // Nobody types anything into it, and it is never near a deny rule.
        if spec.terms.stdin_open || spec.terms.terminal.is_some() || !spec.denied_children.is_empty() {
            return Err(StartError::NotPassable);
        }
        held::probe()?;
        let workspace = PathBuf::from(workspace);
        held::check_place(self.own_directory(), &workspace)?;
        let opened = c_path(workspace.as_os_str())
            .and_then(|path| mounts::open_without_links(&path).map_err(|_gone| mismatch(&workspace)))?;
        let enclosed = held::describe(&Held {
            shell: shell_file,
            programs,
            loaders,
            workspace: &workspace,
            fixed: held::survey(&workspace)?,
            directory: (spec.cwd_dev, spec.cwd_ino),
        })?;
        let mut environment = held::environment(&spec.terms.env);
        environment.retain(|(name, _)| name != DIRECTORY);
        environment.push((DIRECTORY.into(), spec.cwd.clone().into_os_string()));
        let words = shell_words(shell, text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let plan = Plan {
            directory: c_path(spec.cwd.as_os_str())?,
            environment: push_environment(&environment)?,
            files: Vec::new(),
            steps: vec![alone(Program::plain(
                c_path(OsStr::new(&shell_file.path))?,
                list_of(&words)?,
            ))],
            enclosed: Some(enclosed),
            held: Vec::new(),
            direct: None,
            masked: Vec::new(),
        };
        self.dispatch(spec, &opened, &Opened::default(), plan.encode())
            .await
    }
}

/// Tells a shell where it stands.
const DIRECTORY: &str = "PWD";

fn mismatch(path: &Path) -> StartError {
    StartError::BindingMismatch {
        what: Mismatch::WorkingDirectory,
        path: path.to_owned(),
    }
}
