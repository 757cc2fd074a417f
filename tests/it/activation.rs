//! A listening socket that systemd passes to the server (`sd_listen_fds(3)`, `docs/spec/settings.md#5-environment`).

use serde_json::json;

use crate::support::{ServerBuilder, TestServer};

/// `EX_CONFIG`.
const BAD_SETTINGS: i32 = 78;

/// Listens as a service manager does, and becomes the server: descriptors to pass, and their variables.
const PASS: &str = r#"
import os, socket, sys
kind, pid, count = sys.argv[1:4]
passed = socket.create_server(("127.0.0.1", 0)) if kind == "tcp" else open("/dev/null")
os.dup2(passed.fileno(), 3)
os.set_inheritable(3, True)
os.environ["LISTEN_PID"] = str(os.getpid()) if pid == "own" else pid
os.environ["LISTEN_FDS"] = count
print(passed.getsockname()[1] if kind == "tcp" else "nothing", file=sys.stderr, flush=True)
os.execvp(sys.argv[4], sys.argv[4:])
"#;

fn passing(kind: &str, pid: &str, count: &str) -> ServerBuilder {
    TestServer::full().behind("python3", &["-c", PASS, kind, pid, count])
}

#[tokio::test]
async fn a_socket_that_is_passed_is_listened_at_and_nobody_else_has_it() {
    let server = passing("tcp", "own", "1").start().await;
    let port = server.log().lines().next().map(str::to_owned).unwrap();
    let base = server.operator().base().to_owned();
    assert!(base.ends_with(&format!(":{port}")), "{base} is not on {port}");
    let text = "[ -e /proc/$$/fd/3 ] || echo closed; env | grep LISTEN_";
    let run = server.ran(json!({ "command": text })).await;
    assert_eq!(run["stdout"], "closed\n", "{run}");
}

#[tokio::test]
async fn what_is_passed_to_another_process_is_left_alone() {
    let server = passing("null", "1", "1").start().await;
    let run = server.ran(json!({ "command": "echo fine" })).await;
    assert_eq!(run["stdout"], "fine\n", "{run}");
}

#[tokio::test]
async fn a_socket_that_is_not_meant_stops_the_start() {
    let elsewhere = |builder: ServerBuilder| {
        builder
            .without_listen()
            .argument("--listen")
            .argument("127.0.0.2:0")
    };
    for (builder, because) in [
        (
            passing("null", "own", "1"),
            "descriptor 3 is no listening TCP socket",
        ),
        (passing("tcp", "own", "2"), "2 sockets were passed"),
        (
            elsewhere(passing("tcp", "own", "1")),
            "[http] listen is 127.0.0.2:0",
        ),
    ] {
        let server = builder.prepare();
        assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{because}");
        assert!(server.log().contains(because), "{because}: {}", server.log());
    }
}
