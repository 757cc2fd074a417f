//! The API on its Unix socket.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{Invocation, NOBODY, TestServer, is_root, own_variable, run_program, write_file_mode};

const SOCKET: &str = "COUNTERSIGN_TEST_SOCKET";
const TOKEN: &str = "COUNTERSIGN_TEST_TOKEN";

fn socket(server: &TestServer) -> PathBuf {
    server.state().join("countersign/api.sock")
}

/// Asks the server on a socket for its runs; `None` when it hangs up without an answer.
fn ask(socket: &Path, token: &str) -> Option<u16> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    let request = format!(
        "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut answer = Vec::new();
    let read = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_end(&mut answer));
    if let Err(error) = read {
        let hung_up = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(hung_up.contains(&error.kind()), "{error}");
    }
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).map(|status| status.parse().unwrap())
}

/// Started again by the test below under another account; alone it asks a server of its own.
#[tokio::test]
async fn a_client_of_another_account_is_hung_up_on() {
    if let (Some(socket), Some(token)) = (own_variable(SOCKET), own_variable(TOKEN)) {
        assert_eq!(ask(Path::new(&socket), &token), None, "whatever its token");
        return;
    }
    let server = TestServer::full().start().await;
    assert_eq!(ask(&socket(&server), &server.gateway_token()), Some(200));
}

#[tokio::test]
async fn the_socket_answers_us_and_no_other_account() {
    let server = TestServer::full().start().await;
    let mode = fs::metadata(socket(&server)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    or_skip!(is_root(), "another account needs root");
    let client = Invocation::new(std::env::current_exe().unwrap());
    let lists = client.clone().args(&["--list"]).run_as(NOBODY);
    or_skip!(
        run_program(&lists).code == Some(0),
        "the tests lie where another account cannot run them"
    );
    // As if the modes of all directories were gone: the account of the peer is still looked at.
    let inner = server.state().join("countersign");
    for directory in [&server.scratch().path(), server.state(), &inner] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(socket(&server), fs::Permissions::from_mode(0o666)).unwrap();
    let client = client
        .args(&["--exact", "api_socket::a_client_of_another_account_is_hung_up_on"])
        .env(SOCKET, socket(&server))
        .env(TOKEN, server.gateway_token());
    let foreign = TestServer::finish(client.clone().run_as(NOBODY)).await;
    assert_eq!(foreign.code, Some(0), "{foreign:?}");
    assert!(foreign.stdout.contains("1 passed"), "{foreign:?}");
    let ours = TestServer::finish(client).await;
    assert_ne!(ours.code, Some(0), "our own account is answered: {ours:?}");
}

#[tokio::test]
async fn the_command_line_prefers_the_socket() {
    let server = TestServer::full().start().await;
    let address = server.state().join("countersign/server.json");
    let mut told: Value = serde_json::from_slice(&fs::read(&address).unwrap()).unwrap();
    assert_eq!(told["socket"], json!(socket(&server)));
    // Nobody listens on this port; the socket is all that is left.
    told["url"] = json!("http://127.0.0.1:1");
    write_file_mode(&address, told.to_string(), 0o600);
    let done = server
        .cli(&["exec", "--", "/bin/echo", "through the socket"])
        .await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "through the socket\n"),
        "{done:?}"
    );
}

#[tokio::test]
async fn the_socket_can_be_switched_off() {
    let server = TestServer::full()
        .toml("[http]\nunix_socket = \"\"\n")
        .start()
        .await;
    assert!(!socket(&server).exists());
    let address = fs::read(server.state().join("countersign/server.json")).unwrap();
    let told: Value = serde_json::from_slice(&address).unwrap();
    assert_has!(told, { "socket": null, "url": server.operator().base() });
    let done = run_program(&server.invocation(&["exec", "--", "/bin/echo", "through the port"]));
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "through the port\n"),
        "{done:?}"
    );
}
