//! The short texts that a session is told about its runs (`docs/spec/exec-tool.md#10-system-events`). What a run wrote
//! is added elsewhere.

use std::{fmt, time::Duration};

use countersign_domain::{Host, Reason, RunId};

/// Where a run was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHost<'a> {
    /// Shown as `gateway` or `sandbox`; a node is shown by its id.
    pub host: Host,
    /// The node, where the host is one.
    pub node_id: Option<&'a str>,
}

impl fmt::Display for RunHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Node => write!(f, "node={}", self.node_id.unwrap_or("unknown")),
            Host::Gateway | Host::Sandbox => f.write_str(self.host.as_str()),
        }
    }
}

/// A run that a person was asked about has started.
pub fn exec_started(run_host: RunHost<'_>, run_id: &RunId) -> String {
    format!("Exec started ({run_host}, id={run_id})")
}

/// A run that a person was asked about will never start.
pub fn exec_denied(run_host: RunHost<'_>, run_id: &RunId, reason: Reason) -> String {
    format!("Exec denied ({run_host}, id={run_id}, {reason})")
}

/// A run still goes on after the time at which that is told.
pub fn exec_running(run_host: RunHost<'_>, run_id: &RunId, after: Duration) -> String {
    format!("Exec running ({run_host}, id={run_id}, >{}s)", after.as_secs())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_text_is_as_its_file_has_it() {
        let run_host = |host, node_id| RunHost { host, node_id };
        let run_id = RunId::parse("r-1").unwrap();
        let gateway = run_host(Host::Gateway, None);
        let node = run_host(Host::Node, Some("n7"));
        let sandbox = run_host(Host::Sandbox, None);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/session/system-events");
        for (name, text) in [
            ("exec-started-gateway", exec_started(gateway, &run_id)),
            ("exec-started-node", exec_started(node, &run_id)),
            (
                "exec-denied-sandbox",
                exec_denied(sandbox, &run_id, Reason::ToolDenied),
            ),
            ("exec-denied-node", exec_denied(node, &run_id, Reason::UserDenied)),
            (
                "exec-running-gateway",
                exec_running(gateway, &run_id, Duration::from_millis(10_900)),
            ),
        ] {
            let kept = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
            assert_eq!(kept, format!("{text}\n"), "{name}");
        }
    }
}
