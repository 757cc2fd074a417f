//! What `--fix` does, each with what it changes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use serde_json::json;
use similar::TextDiff;

use countersign_config::{
    approvals::store::{DocumentStore, StaleLock},
    settings::{ConfigFile, KeyEdit, KeyPath, StateDir, Step, config_edit},
};
use countersign_sys::clock::SystemIds;

use crate::{
    cli::{context::Context, value},
    doctor::{Finding, Repair},
};

/// What becomes of findings that can be fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixing {
    /// They are named.
    No,
    /// It is shown what would change.
    DryRun,
    /// They are fixed.
    Yes,
}

impl Fixing {
    pub(super) const fn of(fix: bool, dry_run: bool) -> Self {
        match (fix, dry_run) {
            (true, false) => Self::Yes,
            (_, true) => Self::DryRun,
            (false, false) => Self::No,
        }
    }
}

/// A finding that was fixed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repaired {
    pub(super) id: &'static str,
    pub(super) key: String,
    /// What changes, in lines that begin with `-` and `+`.
    pub(super) changes: Vec<String>,
    /// Whether it was done.
    pub(super) done: bool,
}

/// Fixes what can be fixed of these, or says what that would change. What cannot be fixed is said at once.
pub(super) fn repair(
    context: &Context,
    state_dir: &StateDir,
    findings: &[&Finding],
    fixing: Fixing,
) -> Vec<Repaired> {
    let mut repaired = Vec::new();
    for finding in findings {
        let Some(repair) = &finding.repair else { continue };
        match changed(context, state_dir, repair, fixing) {
            Ok(changes) => repaired.push(Repaired {
                id: finding.id,
                key: finding.key.clone(),
                changes,
                done: fixing == Fixing::Yes,
            }),
            Err(error) => context.console.note(&format!(
                "could not fix {}: {error}",
                value::visible(&finding.key)
            )),
        }
    }
    if repaired.is_empty() && fixing != Fixing::No {
        context.console.note(
            "nothing here can be fixed by itself: what each finding says after `fix:` is for you to do",
        );
    }
    repaired
}

fn changed(
    context: &Context,
    state_dir: &StateDir,
    repair: &Repair,
    fixing: Fixing,
) -> Result<Vec<String>, String> {
    let does = fixing == Fixing::Yes;
    match repair {
        Repair::SetMode { path, mode } => {
            let shown = path.display();
            let now = fs::metadata(path)
                .map_err(|error| error.to_string())?
                .permissions()
                .mode()
                & 0o7777;
            if does {
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))
                    .map_err(|error| error.to_string())?;
            }
            Ok(vec![
                format!("-mode {now:04o} {shown}"),
                format!("+mode {mode:04o} {shown}"),
            ])
        }
        Repair::Remove { path } => {
            if does {
                fs::remove_file(path).map_err(|error| error.to_string())?;
            }
            Ok(vec![format!("-file {}", path.display())])
        }
        Repair::Scaffold { name } => scaffold(state_dir, name, fixing),
        Repair::Unlock { document } => {
            if does {
                unlock(context, state_dir, document)?;
            }
            Ok(vec![format!("-lock of {}", document.display())])
        }
    }
}

/// Removes the lock of the document, unless a program holds it by now.
fn unlock(context: &Context, state_dir: &StateDir, document: &Path) -> Result<(), String> {
    let home = state_dir.home().unwrap_or_else(|| Path::new("/")).to_path_buf();
    let clock = Arc::clone(&context.clock);
    let documents = DocumentStore::open(document.to_path_buf(), home, clock, Arc::new(SystemIds));
    match documents.remove_stale_lock() {
        Ok(StaleLock::Removed { .. } | StaleLock::None) => Ok(()),
        Ok(StaleLock::Held) => Err("a program holds it".to_owned()),
        Ok(StaleLock::Unknown) => Err("it does not say which program holds it".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Puts an empty profile of a safe bin into `openclaw.json`, where there is none: no argument at all is taken then. The
/// difference of the file.
fn scaffold(state_dir: &StateDir, name: &str, fixing: Fixing) -> Result<Vec<String>, String> {
    let steps = ["tools", "exec", "safeBinProfiles", name].map(|key| Step::Key(key.to_owned()));
    let path = KeyPath::new(steps.to_vec()).map_err(|error| error.to_string())?;
    let held = ConfigFile::hold(state_dir).map_err(|error| error.to_string())?;
    let edit = KeyEdit::Set {
        path,
        value: json!({}),
    };
    let edited = config_edit(held.text(), &[edit], state_dir).map_err(|error| error.to_string())?;
    let file = state_dir.config().display().to_string();
    let difference = TextDiff::from_lines(held.text().unwrap_or_default(), edited.text.as_str())
        .unified_diff()
        .context_radius(1)
        .header(&file, &file)
        .to_string();
    if edited.changed && fixing == Fixing::Yes {
        let staged = held.stage(&edited.text).map_err(|error| error.to_string())?;
        staged.commit().map_err(|error| error.to_string())?;
    }
    Ok(difference.lines().map(str::to_owned).collect())
}
