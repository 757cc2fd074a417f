//! Which policy a machine has that becomes a node: asked for once, kept where a preset keeps it.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Peer},
    handshake::files_of,
    scene::TestNode,
};
use crate::support::{Terminal, write_file_mode};

const QUESTION: &str = "Which policy has this machine?";
const PROMPT: &str = "number or name [1]: ";

fn document(node: &TestNode) -> Value {
    let text = fs::read_to_string(node.state().join("exec-approvals.json")).expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

fn config(node: &TestNode) -> Value {
    let text = fs::read_to_string(node.state().join("openclaw.json")).expect("a configuration");
    serde_json::from_str(&text).expect("JSON")
}

/// `node run` at a terminal.
fn sit(node: &TestNode, gateway: &Gateway) -> Terminal {
    let port = gateway.port.to_string();
    Terminal::start(node.invocation(&["node", "run", "--host", "127.0.0.1", "--port", &port]))
}

/// The first contact, after which the machine is a node.
async fn first_contact(gateway: &Gateway) {
    drop(gateway.welcome().await);
}

/// Control-C, and the end.
async fn interrupted(mut terminal: Terminal) {
    terminal.press("\u{3}");
    terminal.ended().await;
    assert!(terminal.text().contains(" stopped"), "{}", terminal.text());
}

async fn ran(peer: &mut Peer, node: &TestNode, params: &Value) -> (bool, String) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = format!("call-{}", CALLS.fetch_add(1, Ordering::Relaxed));
    peer.invoke(&node.id(), &call, "system.run", params).await;
    let outcome = peer.result(&call).await;
    (outcome.ok, outcome.error.1)
}

#[tokio::test]
async fn a_person_at_a_terminal_is_asked_once_and_after_the_first_contact() {
    let gateway = Gateway::new().await;
    let node = TestNode::bare();
    let before = files_of(node.state());
    let mut terminal = sit(&node, &gateway);
    // A gateway that answers nothing is no contact: nobody is asked, and nothing is written.
    drop(gateway.accept_raw().await);
    terminal.sees("not connected to").await;
    assert!(!terminal.text().contains(QUESTION), "{}", terminal.text());
    first_contact(&gateway).await;
    let shown = terminal.sees(PROMPT).await;
    for preset in ["deny-all", "cautious", "yolo"] {
        assert!(shown.contains(preset), "{shown}");
    }
    assert_eq!(
        files_of(node.state()),
        before,
        "nothing is written before the answer"
    );
    terminal.press("7\n");
    terminal.sees("please give a number from 1 to 3").await;
    terminal.press("cautious\n");
    let mut peer = gateway.welcome().await;
    terminal.sees("policy of this machine: cautious").await;
    terminal.sees("connected to").await;
    assert_eq!(
        document(&node)["defaults"],
        json!({"security": "allowlist", "ask": "on-miss", "askFallback": "deny"})
    );
    assert_eq!(
        config(&node)["tools"]["exec"],
        json!({"host": "gateway", "security": "allowlist", "ask": "on-miss"})
    );
    let refused = ran(&mut peer, &node, &json!({"command": ["id"]})).await;
    assert_eq!(
        refused,
        (false, "SYSTEM_RUN_DENIED: approval required".to_owned())
    );
    interrupted(terminal).await;

    // The next start asks nothing, also where the answer of a person was taken away.
    for is_taken_away in [false, true] {
        if is_taken_away {
            fs::remove_file(node.state().join("exec-approvals.json")).unwrap();
            fs::remove_file(node.state().join("openclaw.json")).unwrap();
        }
        let gateway = Gateway::new().await;
        let terminal = sit(&node, &gateway);
        let peer = gateway.welcome().await;
        terminal.sees("countersign node connected to").await;
        if is_taken_away {
            terminal.sees("policy of this machine: none").await;
        }
        let shown = terminal.text();
        assert!(!shown.contains(QUESTION), "{shown}");
        assert!(
            is_taken_away || !shown.contains("policy of this machine: none"),
            "{shown}"
        );
        drop(peer);
        interrupted(terminal).await;
    }
}

#[tokio::test]
async fn enter_means_that_nothing_runs_and_the_end_of_the_terminal_means_nothing() {
    let gateway = Gateway::new().await;
    let node = TestNode::bare();
    let mut terminal = sit(&node, &gateway);
    first_contact(&gateway).await;
    terminal.sees(PROMPT).await;
    // Control-D on an empty line.
    terminal.press("\u{4}");
    assert_eq!(terminal.ended().await, Some(64));
    assert!(!node.state().join("node.json").exists(), "nothing is kept");
    assert!(!node.state().join("exec-approvals.json").exists());

    let mut terminal = sit(&node, &gateway);
    first_contact(&gateway).await;
    terminal.sees(PROMPT).await;
    terminal.press("\n");
    let mut peer = gateway.welcome().await;
    terminal.sees("policy of this machine: deny-all").await;
    assert_eq!(document(&node)["defaults"]["security"], "deny");
    let refused = ran(&mut peer, &node, &json!({"command": ["id"], "approved": true})).await;
    assert_eq!(refused, (false, "SYSTEM_RUN_DISABLED: security=deny".to_owned()));
}

#[tokio::test]
async fn without_a_terminal_it_says_in_one_line_how_to_set_one() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::bare();
    node.start_as_it_is("127.0.0.1", gateway.port);
    first_contact(&gateway).await;
    let mut peer = gateway.welcome().await;
    assert_eq!(
        node.line("policy").await,
        json!({"status": "policy", "policy": "missing", "preset": null})
    );
    assert!(!node.state().join("exec-approvals.json").exists());
    let refused = ran(&mut peer, &node, &json!({"command": ["id"], "approved": true})).await;
    assert_eq!(refused, (false, "SYSTEM_RUN_DISABLED: security=deny".to_owned()));
    assert_eq!(node.stop().await, Some(0));

    // For people: the line has the command, and the command does it, also where the machine is a node already.
    let installed = node.command(&["node", "install"]);
    let root = node.state().to_str().expect("text").to_owned();
    let line = format!(
        "policy of this machine: none, so nothing runs; to set one: countersign --state-dir {root} node run --policy cautious"
    );
    assert!(installed.stderr.lines().any(|said| said == line), "{installed:?}");
    let mut node = node.argument("--policy").argument("cautious");
    let mut peer = node.connected(&gateway).await;
    assert_eq!(document(&node)["defaults"]["security"], "allowlist");
    assert!(
        ran(&mut peer, &node, &json!({"command": ["id"], "approved": true}))
            .await
            .0
    );
}

#[tokio::test]
async fn the_flag_sets_it_where_there_is_none_and_nowhere_else() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::bare().argument("--policy").argument("yolo");
    node.start_as_it_is("127.0.0.1", gateway.port);
    drop(gateway.accept_raw().await);
    node.line("disconnected").await;
    assert!(
        !node.state().join("node.json").exists(),
        "nothing before the first contact"
    );
    first_contact(&gateway).await;
    let mut peer = gateway.welcome().await;
    assert_eq!(
        node.line("policy").await,
        json!({"status": "policy", "policy": "set", "preset": "yolo"})
    );
    assert_eq!(document(&node)["defaults"]["security"], "full");
    assert!(ran(&mut peer, &node, &json!({"command": ["id"]})).await.0);
    let kept = fs::read_to_string(node.state().join("node.json")).unwrap();
    assert!(!kept.contains("policy"), "{kept}");
    assert_eq!(node.stop().await, Some(0));

    for (exec, own) in [
        (json!({"security": "deny"}), None),
        (
            json!({}),
            Some(json!({"version": 1, "defaults": {"security": "deny"}})),
        ),
    ] {
        let gateway = Gateway::new().await;
        let mut node = TestNode::new(&exec, own.as_ref())
            .argument("--policy")
            .argument("yolo");
        let mut peer = node.connected(&gateway).await;
        let refused = ran(&mut peer, &node, &json!({"command": ["id"], "approved": true})).await;
        assert_eq!(refused, (false, "SYSTEM_RUN_DISABLED: security=deny".to_owned()));
        assert_eq!(config(&node)["tools"]["exec"], exec);
        let document = node.state().join("exec-approvals.json");
        assert_eq!(document.exists(), own.is_some());
        assert_eq!(node.stop().await, Some(0));
    }
    let unknown = TestNode::bare().argument("--policy").argument("sandbox-only");
    assert_eq!(unknown.does_not_start(1).code, Some(64));
}

#[tokio::test]
async fn install_asks_once_and_the_first_start_sets_it() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::bare();
    let port = gateway.port.to_string();
    let install = ["node", "install", "--host", "127.0.0.1", "--port", &port];
    let mut terminal = Terminal::start(node.invocation(&install));
    terminal.sees(PROMPT).await;
    terminal.press("3\n");
    assert_eq!(terminal.ended().await, Some(0));
    terminal
        .sees("policy of this machine: yolo, when the node first starts")
        .await;
    assert!(!node.state().join("exec-approvals.json").exists());
    let mut again = Terminal::start(node.invocation(&install));
    assert_eq!(again.ended().await, Some(0));
    assert!(!again.text().contains(QUESTION), "{}", again.text());
    // What a service runs.
    node.start_as_it_is("127.0.0.1", gateway.port);
    let _peer = gateway.welcome().await;
    assert_eq!(node.line("policy").await["preset"], "yolo");
    assert_eq!(document(&node)["defaults"]["security"], "full");
    assert_eq!(node.stop().await, Some(0));

    // A choice has no effect once the operator has set a policy by hand.
    let mut node = TestNode::bare();
    let installed = node.command(&["node", "install", "--policy", "yolo"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let own = json!({"version": 1, "defaults": {"security": "deny"}});
    write_file_mode(&node.state().join("exec-approvals.json"), own.to_string(), 0o600);
    node.start(&gateway);
    let _peer = gateway.welcome().await;
    assert_eq!(
        node.line("policy").await,
        json!({"status": "policy", "policy": "kept", "preset": "yolo"})
    );
    assert_eq!(document(&node), own);

    // A unit of the machine is for the state directory of another account, and says it itself.
    let node = TestNode::bare();
    let system = ["node", "install", "--system", "--account", "daemon", "--print"];
    let mut terminal = Terminal::start(node.invocation(&system));
    terminal.sees(PROMPT).await;
    terminal.press("2\n");
    assert_eq!(terminal.ended().await, Some(0));
    terminal.sees(r#""--policy" "cautious""#).await;

    // What is only printed says it itself.
    let printed = TestNode::bare().command(&["node", "install", "--print", "--policy", "cautious"]);
    assert!(printed.stdout.contains(r#""--policy" "cautious""#), "{printed:?}");
}
