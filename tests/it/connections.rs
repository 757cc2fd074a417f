//! Places for connections: how many there are, and who cannot keep one.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use reqwest::Method;

use crate::support::{Api, Authority, ServerBuilder, TestServer, eventually, within, write_file_mode};

/// The operator on the API socket, whose places are its own.
fn by_socket(server: &TestServer) -> Api {
    let socket = server.state().join("countersign/api.sock");
    countersign_config::tls::install_provider();
    let client = reqwest::Client::builder().unix_socket(socket).tls_certs_only([]);
    Api::new("http://localhost", Some(server.operator_token())).by_way_of(client.build().unwrap())
}

/// Connections over TCP that have a place now.
pub(crate) async fn places_taken(api: &Api) -> u64 {
    let answer = api.send(api.request(Method::GET, "/metrics")).await;
    let text = answer.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("countersign_http_connections{listener=\"tcp\"} "));
    line.map_or(0, |number| number.parse().unwrap())
}

/// The port without its scheme.
fn address(server: &TestServer) -> String {
    let base = server.operator().base().to_owned();
    base.split_once("://").unwrap().1.to_owned()
}

fn connect(address: &str, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(first).unwrap();
    stream
}

/// Waits until the server hangs up on a client, which may first be told why.
async fn hung_up(stream: TcpStream) {
    let read = tokio::task::spawn_blocking(move || {
        let mut stream = stream;
        stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    match within("the end of a connection", read).await.unwrap() {
        Ok(_told) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}

async fn tls_server(builder: ServerBuilder) -> (TestServer, Api) {
    let authority = Authority::new("servers");
    let mut server = builder
        .toml("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n")
        .prepare();
    let pair = authority.server(&["localhost", "127.0.0.1"]);
    let folder = server.state().join("countersign");
    write_file_mode(&folder.join("cert.pem"), &pair.cert, 0o644);
    write_file_mode(&folder.join("key.pem"), &pair.key, 0o600);
    server.start().await;
    let api = server.operator().by_way_of(authority.trusting().build().unwrap());
    (server, api)
}

#[tokio::test]
async fn no_more_are_let_in_than_there_are_places() {
    let server = TestServer::full()
        .toml("[limits]\nmax_connections = 2\nheader_timeout_ms = 600000\n")
        .start()
        .await;
    let (address, watcher) = (address(&server), by_socket(&server));
    let mut silent: Vec<TcpStream> = (0..2).map(|_| connect(&address, b"")).collect();
    eventually("both taken", || places_taken(&watcher), |taken| *taken == 2).await;
    let api = server.operator();
    let third = tokio::spawn(async move { api.get("/v1/runs").await.status });
    let waiting = connect(&address, b"");
    for _ in 0..20 {
        assert_eq!(places_taken(&watcher).await, 2);
        assert!(!third.is_finished());
    }
    silent.clear();
    assert_eq!(within("its turn", third).await.unwrap(), 200);
    waiting.shutdown(Shutdown::Both).unwrap();
}

#[tokio::test]
async fn handshakes_that_do_not_go_on_give_their_place_back() {
    // The time is for our own handshake, too.
    let limits = "[limits]\nmax_connections = 4\nheader_timeout_ms = 1000\n";
    let (server, api) = tls_server(TestServer::full().toml(limits)).await;
    let (address, watcher) = (address(&server), by_socket(&server));
    // Nothing at all; the head of a record and no more; a record that claims to be longer than it is; plain HTTP.
    let beginnings: [&[u8]; 4] = [
        b"",
        &[22, 3, 1],
        &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc],
        b"GET / HTTP/1.1\r\n",
    ];
    let mut bad = Vec::new();
    for _ in 0..5 {
        bad.extend(beginnings.map(|beginning| connect(&address, beginning)));
    }
    assert!(places_taken(&watcher).await <= 4);
    api.read("/v1/runs").await;
    assert!(places_taken(&watcher).await <= 4);
    for stream in bad {
        hung_up(stream).await;
    }
    api.read("/v1/runs").await;
    eventually("only ours", || places_taken(&watcher), |taken| *taken <= 1).await;
}

#[tokio::test]
async fn headers_that_come_drop_by_drop_give_their_place_back() {
    let server = TestServer::full()
        .toml("[limits]\nmax_connections = 4\nheader_timeout_ms = 300\n")
        .start()
        .await;
    let (address, watcher) = (address(&server), by_socket(&server));
    let begun = b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    let slow: Vec<TcpStream> = (0..4).map(|_| connect(&address, begun)).collect();
    let api = server.operator();
    let legitimate = tokio::spawn(async move { api.get("/v1/runs").await.status });
    // Each drop keeps a connection busy, and none keeps it open.
    eventually(
        "answered",
        async || {
            for mut stream in &slow {
                // One that was hung up on refuses it.
                drop(stream.write_all(b"x"));
            }
            assert!(places_taken(&watcher).await <= 4);
            legitimate.is_finished()
        },
        |finished| *finished,
    )
    .await;
    assert_eq!(legitimate.await.unwrap(), 200);
    for stream in slow {
        hung_up(stream).await;
    }
}
