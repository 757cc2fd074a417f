//! Whether this machine lets a supervisor make sandboxes.

use std::{ffi::OsStr, path::Path, sync::OnceLock, time::Duration};

use countersign_runner::enclose;
use countersign_sys::process::run_for_text;

use crate::{confined, sandbox::Unusable};

/// How long it may take, on a machine with much else to do.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Whether this machine lets a supervisor make sandboxes. The first call makes one, which runs nothing but a shell, and
/// blocks for as long; the others know.
///
/// # Errors
/// [`Unusable`] says exactly what is missing.
pub fn probe() -> Result<(), Unusable> {
    static PROBED: OnceLock<Result<(), Unusable>> = OnceLock::new();
    PROBED.get_or_init(evaluate).clone()
}

fn evaluate() -> Result<(), Unusable> {
    let arguments = ["countersign-probe", enclose::PROBE_MODE].map(OsStr::new);
    let said = run_for_text(Path::new("/proc/self/exe"), &arguments, &[], TIMEOUT)
        .map_err(|error| Unusable(format!("the built-in sandbox cannot be tried: {error}")))?;
    match said.trim() {
        "" => Ok(()),
        why => {
            let remedy = confined::remedy_of_this_machine();
            Err(Unusable(match remedy {
                Some(remedy) => format!("the built-in sandbox cannot be made here: {why}; {remedy}"),
                None => format!("the built-in sandbox cannot be made here: {why}"),
            }))
        }
    }
}
