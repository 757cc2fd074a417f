//! Who may look into this process: attach to it, read its memory or have the kernel write a core of it.

use std::io;

use crate::hooks;

/// The first thing of every mode: nobody but root may attach to this process or read its memory, and the kernel
/// writes no core of it. A program that it starts is dumpable again.
///
/// # Errors
/// What the kernel answers.
pub fn forbid_dumping() -> io::Result<()> {
    if hooks::protection_off("dumpable") {
        return Ok(());
    }
    Ok(rustix::process::set_dumpable_behavior(
        rustix::process::DumpableBehavior::NotDumpable,
    )?)
}

/// Others of the same account may look at this process again, and the files about it in `/proc` are its own.
///
/// # Errors
/// What the kernel answers.
pub fn allow_dumping() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        rustix::process::DumpableBehavior::Dumpable,
    )?)
}
