//! A patch as a step of a run, for every host that has its workspace on this machine.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use countersign_domain::Bound;
use countersign_runner::wire::{Action, PatchOrder, Step};

/// The only step of a run that applies a patch to its working directory; `None` for anything but a patch. `called` is
/// the absolute path by which the author of the patch knows that directory: its own path, or inside of a sandbox the
/// workdir there.
pub(super) fn patching(bound: &Bound, called: &Path) -> Option<Step> {
    let Bound::Patch {
        text,
        workspace_only,
        off_limits,
        spared,
    } = bound
    else {
        return None;
    };
    let bytes = |paths: &[String]| paths.iter().map(|path| path.clone().into_bytes()).collect();
    Some(Step {
        join: None,
        action: Action::ApplyPatch(PatchOrder {
            text: text.clone(),
            workspace_only: *workspace_only,
            called: vec![called.as_os_str().as_bytes().to_vec()],
            off_limits: bytes(off_limits),
            spared: bytes(spared),
        }),
    })
}
