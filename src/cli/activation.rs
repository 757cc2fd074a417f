//! Sockets that systemd opened and passed to this process (`sd_listen_fds(3)`).

use countersign_sys::process;

use super::context::Context;

/// The descriptor of the first.
pub(super) const FIRST: i32 = 3;

/// How many were passed to this process, as it was written; `None` for none, also where they were passed to another one
/// from which this one has its environment.
pub(super) fn passed_sockets(context: &Context) -> Option<String> {
    let own = process::own_id().to_string();
    let is_ours = context
        .environment
        .get("LISTEN_PID")
        .is_some_and(|pid| pid == own);
    context.environment.get("LISTEN_FDS").filter(|_| is_ours)
}
