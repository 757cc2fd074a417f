//! The kernel's keyrings, of which a process inherits one with its session.
#![expect(unsafe_code, reason = "keyctl has no safe wrapper in rustix")]

use std::io;

/// Leaves the keyring of the session that this process was started in, with all that a login put into it, for a new
/// one.
///
/// # Errors
/// What the kernel answers. One that has no keyrings, or lets nobody use them, is no error: then there is nothing to leave.
pub fn leave_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    let without_a_name = std::ptr::null::<libc::c_char>();
    // SAFETY: with this command the kernel reads a name, of which there is none.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, without_a_name) };
    if result >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => Ok(()),
        _ => Err(error),
    }
}
