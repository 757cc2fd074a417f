//! The server and our node, each on a host of its own.

use std::path::PathBuf;

use serde_json::json;

use super::cable::{Cable, SERVER};
use crate::support::{self, Api, OurNode, TestServer, let_in};

/// Both hosts, with a node that is paired and connected.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) node: OurNode,
    pub(super) server: TestServer,
    // Last, so that it is there for as long as anybody uses it.
    pub(super) cable: Cable,
}

/// A place of its own at the server's end; the program listens on nothing else of the network.
const PORT: u16 = 18_790;

impl Hosts {
    pub(super) async fn start(cable: Cable) -> Self {
        let server = TestServer::full()
            .exec(&json!({ "host": "node", "security": "full", "ask": "off" }))
            .toml(&format!(
                "[http]\nlisten = \"{SERVER}:{PORT}\"\ninsecure_bind = true\n[bridge]\ntick_ms = 1000\n"
            ))
            .without_listen()
            .behind("ip", &cable.at_server())
            .start()
            .await;
        let mut node = OurNode::new((SERVER, PORT), &server.bridge_token(), "full", "off")
            .behind("ip", &cable.at_node());
        node.start();
        let hosts = Self { node, server, cable };
        let_in(&hosts.operator()).await;
        hosts.until_connected().await;
        hosts
    }

    /// The agent, by way of the socket: this host has no cable to the server.
    pub(super) fn agent(&self) -> Api {
        self.by_socket(self.server.gateway_token())
    }

    fn operator(&self) -> Api {
        self.by_socket(self.server.operator_token())
    }

    fn by_socket(&self, token: String) -> Api {
        let socket = self.server.state().join("countersign/api.sock");
        let client = reqwest::Client::builder().unix_socket(socket).tls_certs_only([]);
        Api::new("http://localhost", Some(token)).by_way_of(client.build().expect("a client"))
    }

    /// A file of the node's host.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.node.file(name)
    }

    /// Waits until the server has the node, and may call it.
    pub(super) async fn until_connected(&self) {
        support::until_connected(&self.operator()).await;
    }

    /// Waits until the server has noticed that the node is gone.
    pub(super) async fn until_gone(&self) {
        support::until_gone(&self.operator()).await;
    }
}
