//! The product's command line as an operator of our server.

use serde_json::{Value, json};

use super::{Generation, Peers};
use crate::support::{Finished, Scratch, TestServer};

fn last_json(finished: &Finished) -> Value {
    let text = finished.stdout.trim();
    let from = text.find('{').unwrap_or(0);
    serde_json::from_str(text.get(from..).unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", finished.stdout, finished.stderr))
}

async fn sees_nodes(generation: Generation) {
    let peers = or_skip!(Peers::find(generation));
    let server = TestServer::full().start().await;
    let scratch = Scratch::new();
    let url = server.agent().base().replace("http://", "ws://");
    let token = server.operator_token();
    let ask = |arguments: &[&'static str], token: &str| {
        let more = ["--url", &url, "--token", token, "--json"];
        let all: Vec<String> = arguments
            .iter()
            .chain(&more)
            .map(|word| (*word).to_owned())
            .collect();
        let (peers, directory) = (peers.clone(), scratch.path());
        async move {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            peers.cli(&directory, &all).await
        }
    };
    for command in [["nodes", "status"], ["nodes", "list"]] {
        let done = ask(&command, &token).await;
        assert_eq!(
            done.code,
            Some(0),
            "{command:?}: {}\n{}",
            done.stdout,
            done.stderr
        );
        let said = last_json(&done);
        assert!(said.is_object(), "{said}");
    }
    // An agent's token is no operator of nodes, and the secret of the Bridge is none at all.
    let bridge =
        std::fs::read_to_string(server.state().join("countersign/bridge.token")).expect("the secret");
    let refused = ask(&["nodes", "list"], bridge.trim()).await;
    assert_ne!(refused.code, Some(0), "{}", refused.stdout);
    assert_eq!(server.operator().read("/v1/nodes").await["items"], json!([]));
}

#[tokio::test]
async fn the_command_line_of_the_present_generation_sees_our_nodes() {
    sees_nodes(Generation::Present).await;
}

#[tokio::test]
async fn the_command_line_of_the_first_generation_sees_our_nodes() {
    sees_nodes(Generation::First).await;
}
