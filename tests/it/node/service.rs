//! The node as a service, and what its command line says of it.

use std::path::PathBuf;

use countersign_nodes::node::service::{self, Manager, ServiceSpec};
use serde_json::{Value, json};

use super::{gateway::Gateway, scene::TestNode};
use crate::support::{Invocation, Scratch, program, run_program, skip, write_file};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What systemd makes of a unit.
fn verify(manager: &str, text: &str) {
    let Some(systemd_analyze) = program("systemd-analyze") else {
        skip("systemd-analyze is not installed");
        return;
    };
    let scratch = Scratch::new();
    let path = scratch.join("countersign-node.service");
    write_file(&path, text);
    let verify = Invocation::new(systemd_analyze)
        .args(&["verify", "--man=no", manager])
        .arg(&path)
        .env("XDG_RUNTIME_DIR", scratch.path());
    let verified = run_program(&verify);
    assert_eq!((verified.code, verified.stderr.as_str()), (Some(0), ""), "{text}");
}

#[test]
fn install_and_uninstall_a_user_unit() {
    let node = TestNode::open();
    let unit = node.scratch.join(".config/systemd/user/countersign-node.service");
    let install = [
        "--json",
        "node",
        "install",
        "--host",
        "gateway.local",
        "--display-name",
        "my \"box\" 100% $HOME",
    ];
    let installed = node.command(&install);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let said = parsed(&installed.stdout);
    assert_has!(said, { "path": unit, "changed": true });
    assert_eq!(said["next"][1], "systemctl --user enable --now countersign-node");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(
        !text.contains(super::gateway::SHARED),
        "no secret belongs into a unit"
    );
    verify("--user", &text);
    assert_eq!(parsed(&node.command(&install).stdout)["changed"], false);
    let file = std::fs::read_to_string(node.state().join("node.json")).unwrap();
    assert_eq!(parsed(&file)["gateway"]["host"], "gateway.local");
    let status = node.command(&["--json", "node", "status"]);
    assert_eq!(status.code, Some(1));
    let said = parsed(&status.stdout);
    assert_has!(said, {
        "installed": true, "running": false, "connected": false, "paired": false,
        "gateway": "ws://gateway.local:18790",
    });
    let removed = parsed(&node.command(&["--json", "node", "uninstall"]).stdout);
    assert_eq!(removed["changed"], true);
    assert!(!unit.exists());
    assert_has!(parsed(&node.command(&["--json", "node", "uninstall"]).stdout), { "changed": false });
}

#[test]
fn the_status_names_a_gateway_by_its_address() {
    let node = TestNode::open();
    let install = ["node", "install", "--host", "fd00::7", "--tls"];
    let installed = node.command(&install);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let status = node.command(&["node", "status"]);
    status.says("wss://[fd00::7]:18790");
    status.complains("systemctl --user start countersign-node");
}

#[test]
fn a_unit_of_somebody_else_stays() {
    let node = TestNode::open();
    let unit = node.scratch.join(".config/systemd/user/countersign-node.service");
    write_file(&unit, "[Unit]\nDescription=mine\n");
    for words in [["node", "install"], ["node", "uninstall"]] {
        let refused = node.command(&words);
        assert_eq!(refused.code, Some(78), "{}", refused.stdout);
        refused.complains("was not written by countersign");
    }
    assert_eq!(
        std::fs::read_to_string(&unit).unwrap(),
        "[Unit]\nDescription=mine\n"
    );
    let status = parsed(&node.command(&["--json", "node", "status"]).stdout);
    assert_eq!(status["installed"], false);
}

#[test]
fn a_system_unit_names_its_account_and_is_understood() {
    let node = TestNode::open();
    let refused = node.command(&["node", "install", "--system", "--print"]);
    assert_eq!(refused.code, Some(64));
    let printed = node.command(&[
        "node",
        "install",
        "--system",
        "--account",
        "daemon",
        "--print",
        "--tls",
    ]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.contains("\nUser=daemon\n"), "{}", printed.stdout);
    verify("--system", &printed.stdout);
}

#[test]
fn a_launchd_agent_is_a_property_list() {
    let Some(python) = program("python3") else {
        skip("python3 is not installed");
        return;
    };
    let scratch = Scratch::new();
    let arguments = ["node", "run", "--display-name", "<&\"' \u{fc} %", "--host", "gw"];
    let text = service::text(&ServiceSpec {
        manager: Manager::Launchd,
        program: PathBuf::from("/Applications/a & b/countersign"),
        arguments: arguments.map(str::to_owned).into(),
        account: None,
        log: Some(PathBuf::from("/tmp/a<b>.log")),
    })
    .unwrap();
    let path = scratch.join("agent.plist");
    write_file(&path, &text);
    let script = "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
    let read = run_program(&Invocation::new(python).args(&["-c", script]).arg(&path));
    let mut words = vec!["/Applications/a & b/countersign"];
    words.extend(arguments);
    assert_eq!(
        parsed(&read.stdout),
        json!({"Label": "dev.countersign.node", "ProgramArguments": words, "RunAtLoad": true,
            "KeepAlive": {"SuccessfulExit": false}, "ThrottleInterval": 5,
            "StandardOutPath": "/tmp/a<b>.log", "StandardErrorPath": "/tmp/a<b>.log"}),
        "{}",
        read.stderr
    );
}

#[tokio::test]
async fn the_status_follows_the_node() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let peer = node.connected(&gateway).await;
    let status = node.command(&["--json", "node", "status"]);
    assert_eq!(status.code, Some(0), "{}", status.stdout);
    let said = parsed(&status.stdout);
    assert_has!(said, {
        "running": true, "connected": true, "paired": true, "state": "connected", "nodeId": node.id(),
    });
    drop(peer);
    node.line("disconnected").await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let error =
        json!({"code": "NOT_PAIRED", "message": "pairing required", "details": {"requestId": "req-1"}});
    peer.refuse(&connect, &error, 1008).await;
    node.line("pairing").await;
    let said = parsed(&node.command(&["--json", "node", "status"]).stdout);
    assert_has!(said, { "state": "pairing", "requestId": "req-1" });
    let words = node.command(&["node", "status"]);
    words.complains("countersign nodes approve req-1");
    node.kill().await;
    let said = parsed(&node.command(&["--json", "node", "status"]).stdout);
    assert_has!(said, { "running": false, "connected": false });
}
