//! The status file of a node: what the node does now, for the terminal, for logs and for `node status`.
//!
//! The running node writes it after each [`NodeEvent`]; other programs only read it and must never take it for a lock: the
//! process that it names may be gone ([`NodeStatusFile::is_running`]). `node/daemon.rs` writes it, `cli/node/service.rs`
//! shows it.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use countersign_config::settings::StateDir;
use countersign_policy::preset::Preset;
use countersign_sys::fs::{PRIVATE_FILE, read_bounded, replace_file};

/// The file is a few hundred bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Something that the operator of a node wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// It runs and is about to connect.
    Started,
    /// The gateway took it.
    Connected {
        /// The gateway's version, harmless.
        version: String,
        /// The protocol that both sides chose: 3 or 4.
        protocol: i64,
    },
    /// A person has to approve it.
    Pairing {
        /// What they approve, where the gateway says it.
        request_id: Option<String>,
    },
    /// The gateway does not know its token.
    Unauthorized {
        /// Whether it was the token that the gateway gave this device.
        of_device: bool,
    },
    /// The gateway refused it for another reason.
    Refused {
        /// The gateway's words, harmless.
        message: String,
    },
    /// The clocks of gateway and node differ by more than 2 minutes; told once per start.
    ClockSkew {
        /// How far the gateway's clock is ahead, in milliseconds.
        ahead_ms: i64,
    },
    /// There is no connection, or none any more.
    Disconnected {
        /// Why, in one line that is safe to print.
        message: String,
    },
    /// How it stands about this machine's own policy, where that is worth a word.
    Policy(PolicyNews),
    /// The node has stopped; the last event.
    Stopping,
}

/// What a node that starts says about this machine's own policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyNews {
    /// It is now the one that was chosen.
    Set(Preset),
    /// One was chosen, but there is one already.
    Kept(Preset),
    /// There is none, so nothing runs.
    Missing,
}

/// What a node does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It tries to connect.
    Connecting,
    /// The gateway took it, and the connection stands.
    Connected,
    /// It waits for an approval.
    Pairing,
    /// The gateway does not take it.
    Refused,
    /// It stopped in order.
    Stopped,
}

/// The content of the status file, `countersign/node/status.json`; replaced after each [`NodeEvent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatusFile {
    pub(crate) pid: u32,
    /// When that process started, as the kernel counts, so that another one of the same number is not it.
    pub(crate) started_ticks: Option<u64>,
    /// The device id of the node that wrote the file.
    pub node_id: String,
    pub(crate) gateway: String,
    /// The state after the last event; [`NodeStatusFile::is_running`] says whether the process still exists.
    pub state: NodeState,
    /// Since when, in Unix milliseconds.
    pub since_ms: i64,
    /// Whether a gateway gave this device a token.
    pub paired: bool,
    /// What a person has to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Why it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl NodeStatusFile {
    /// Reads what a node of a state directory wrote last; `None` when none ever ran.
    ///
    /// # Errors
    /// What the file system answers, and `InvalidData` for what no node wrote.
    pub fn load(state_dir: &StateDir) -> io::Result<Option<Self>> {
        match read_bounded(&state_dir.node_status(), MAX_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the process that wrote it is still there.
    pub fn is_running(&self) -> bool {
        self.state != NodeState::Stopped
            && started_ticks(self.pid)
                .is_some_and(|started| self.started_ticks.is_none_or(|known| known == started))
    }

    pub(super) fn save(&self, path: &Path) {
        let written = serde_json::to_vec(self)
            .map_err(io::Error::from)
            .and_then(|text| replace_file(path, &text, PRIVATE_FILE));
        if let Err(error) = written {
            tracing::warn!(%error, "the status of the node cannot be written");
        }
    }

    /// Takes in what happened.
    pub(super) fn apply(&mut self, event: &NodeEvent, now_ms: i64) {
        let (state, detail, request_id) = match event {
            NodeEvent::Started => (NodeState::Connecting, None, None),
            NodeEvent::Connected { .. } => (NodeState::Connected, None, None),
            NodeEvent::Pairing { request_id } => (NodeState::Pairing, None, request_id.clone()),
            NodeEvent::Unauthorized { .. } => (
                NodeState::Refused,
                Some("the gateway does not know the token".to_owned()),
                None,
            ),
            NodeEvent::Refused { message } => (NodeState::Refused, Some(message.clone()), None),
            NodeEvent::Disconnected { message } => (NodeState::Connecting, Some(message.clone()), None),
            NodeEvent::Stopping => (NodeState::Stopped, None, None),
            NodeEvent::ClockSkew { .. } | NodeEvent::Policy(_) => return,
        };
        if self.state != state {
            self.since_ms = now_ms;
        }
        self.state = state;
        self.detail = detail;
        self.request_id = request_id;
    }
}

/// When a process started, as the kernel counts; `None` when there is none.
pub(super) fn started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything but ends with the last parenthesis.
    let (_name, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> NodeStatusFile {
        let pid = std::process::id();
        NodeStatusFile {
            pid,
            started_ticks: started_ticks(pid),
            node_id: "n".to_owned(),
            gateway: "ws://localhost:1".to_owned(),
            state: NodeState::Connecting,
            since_ms: 1,
            paired: false,
            request_id: None,
            detail: None,
        }
    }

    #[test]
    fn what_happened_is_told_until_something_else_does() {
        let mut status = status();
        status.apply(
            &NodeEvent::Pairing {
                request_id: Some("r".to_owned()),
            },
            5,
        );
        assert_eq!(
            (status.state, status.since_ms, status.request_id.as_deref()),
            (NodeState::Pairing, 5, Some("r"))
        );
        status.apply(&NodeEvent::ClockSkew { ahead_ms: 1 }, 6);
        assert_eq!(status.state, NodeState::Pairing);
        status.apply(
            &NodeEvent::Connected {
                version: "1".to_owned(),
                protocol: 4,
            },
            7,
        );
        assert_eq!(
            (status.state, status.since_ms, status.request_id.as_deref()),
            (NodeState::Connected, 7, None)
        );
    }

    #[test]
    fn a_process_of_the_same_number_is_not_the_node() {
        let mut status = status();
        assert!(status.is_running());
        status.started_ticks = status.started_ticks.map(|ticks| ticks + 1);
        assert!(!status.is_running());
        status.started_ticks = None;
        status.state = NodeState::Stopped;
        assert!(!status.is_running());
        status.state = NodeState::Connected;
        status.pid = u32::MAX;
        assert!(!status.is_running());
    }
}
