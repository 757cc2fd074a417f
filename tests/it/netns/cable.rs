//! Two network namespaces and what connects them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Invocation, run_program};

/// A pair of virtual network cards, each in a namespace of its own; both go when it is dropped.
#[derive(Debug)]
pub(super) struct Cable {
    server: String,
    node: String,
}

/// The address at the server's end; it is nobody else's, each pair being alone in its namespaces.
pub(super) const SERVER: &str = "10.77.0.1";
const NODE: &str = "10.77.0.2";

impl Cable {
    pub(super) fn lay() -> Result<Self, String> {
        static LAID: AtomicU32 = AtomicU32::new(0);
        let number = LAID.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("countersign-it-{}-{number}-{end}", std::process::id());
        let cable = Self {
            server: name("server"),
            node: name("node"),
        };
        ip(&["netns", "add", &cable.server])?;
        ip(&["netns", "add", &cable.node])?;
        ip(&[
            "-n",
            &cable.server,
            "link",
            "add",
            "cable",
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            &cable.node,
        ])?;
        for (end, address) in [(&cable.server, SERVER), (&cable.node, NODE)] {
            ip(&[
                "-n",
                end,
                "address",
                "add",
                &format!("{address}/24"),
                "dev",
                "cable",
            ])?;
            ip(&["-n", end, "link", "set", "lo", "up"])?;
            ip(&["-n", end, "link", "set", "cable", "up"])?;
        }
        Ok(cable)
    }

    /// Nothing gets through from now on, and nobody is told.
    pub(super) fn pull(&self) {
        self.set("down");
    }

    /// Everything gets through again.
    pub(super) fn plug(&self) {
        self.set("up");
    }

    fn set(&self, state: &str) {
        ip(&["-n", &self.server, "link", "set", "cable", state]).expect("a cable that obeys");
    }

    /// What starts a program at the server's end.
    pub(super) fn at_server(&self) -> [&str; 3] {
        ["netns", "exec", &self.server]
    }

    /// What starts a program at the node's end.
    pub(super) fn at_node(&self) -> [&str; 3] {
        ["netns", "exec", &self.node]
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.server, &self.node] {
            drop(ip(&["netns", "delete", end]));
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let done = run_program(&Invocation::new("ip").args(arguments));
    if done.code == Some(0) {
        Ok(())
    } else {
        Err(done.stderr)
    }
}
