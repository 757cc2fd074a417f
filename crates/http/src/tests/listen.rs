//! Connections: who may come in, what happens when they leave, and how everything stops.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, routing::get};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

use super::TestService;
use crate::{ListenError, ListenOptions, Purpose, bind};

/// Nothing here waits longer, unless something is broken.
const LONG: Duration = Duration::from_secs(20);

fn options(unix_socket: Option<PathBuf>) -> ListenOptions {
    ListenOptions {
        purpose: Purpose::Api,
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        unix_socket,
        max_connections: 8,
        header_timeout: LONG,
        tls: None,
    }
}

/// Routes that show when a handler begins, and how it ends.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    dropped: Arc<Notify>,
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Slow {
    fn routes<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let slow = self.clone();
        let handler = move || {
            let slow = slow.clone();
            async move {
                let _dropped = OnDrop(Arc::clone(&slow.dropped));
                slow.begun.notify_one();
                slow.go_on.notified().await;
                "done"
            }
        };
        Router::new().route("/slow", get(handler))
    }
}

struct Serving {
    address: SocketAddr,
    stop: CancellationToken,
    abort: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn serve(server: &TestService, unix_socket: Option<PathBuf>) -> Serving {
    let bound = bind(&options(unix_socket), None).await.unwrap();
    let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
    Serving {
        address: bound.endpoint().address,
        task: tokio::spawn(bound.serve(server.service.clone(), stop.clone(), abort.clone())),
        stop,
        abort,
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn both_listeners_answer_and_the_socket_is_private() {
    let server = TestService::new();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let serving = serve(&server, Some(socket.clone())).await;

    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let over_tcp = ask(TcpStream::connect(serving.address).await.unwrap(), "/open").await;
    let over_unix = ask(UnixStream::connect(&socket).await.unwrap(), "/open").await;
    for answer in [over_tcp, over_unix] {
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\"open\""),
            "{answer}"
        );
    }

    serving.stop.cancel();
    tokio::time::timeout(LONG, serving.task).await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_handler() {
    let slow = Slow::default();
    let server = TestService::with(|_| slow.routes());
    let serving = serve(&server, None).await;
    let mut stream = TcpStream::connect(serving.address).await.unwrap();
    stream
        .write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    tokio::time::timeout(LONG, slow.begun.notified()).await.unwrap();
    drop(stream);
    tokio::time::timeout(LONG, slow.dropped.notified()).await.unwrap();
    serving.stop.cancel();
    tokio::time::timeout(LONG, serving.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_lets_requests_finish_and_closes_idle_connections() {
    let slow = Slow::default();
    let server = TestService::with(|_| slow.routes());
    let serving = serve(&server, None).await;
    let mut idle = TcpStream::connect(serving.address).await.unwrap();
    let busy = TcpStream::connect(serving.address).await.unwrap();
    let answer = tokio::spawn(ask(busy, "/slow"));
    tokio::time::timeout(LONG, slow.begun.notified()).await.unwrap();

    serving.stop.cancel();
    let read = tokio::time::timeout(LONG, idle.read(&mut [0; 1])).await.unwrap();
    assert_eq!(read.unwrap(), 0);
    assert!(!serving.task.is_finished());

    slow.go_on.notify_one();
    assert!(answer.await.unwrap().ends_with("done"));
    tokio::time::timeout(LONG, serving.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn aborting_ends_what_does_not_finish() {
    let slow = Slow::default();
    let server = TestService::with(|_| slow.routes());
    let serving = serve(&server, None).await;
    let _busy = tokio::spawn(ask(TcpStream::connect(serving.address).await.unwrap(), "/slow"));
    tokio::time::timeout(LONG, slow.begun.notified()).await.unwrap();
    serving.stop.cancel();
    serving.abort.cancel();
    tokio::time::timeout(LONG, serving.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_leftover_socket_is_replaced_and_anything_else_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    drop(bind(&options(Some(socket)), None).await.unwrap());

    let file = directory.path().join("file");
    drop(fs::File::create(&file).unwrap());
    let refused = bind(&options(Some(file.clone())), None).await.unwrap_err();
    assert!(matches!(refused, ListenError::Unix { .. }), "{refused}");
    assert!(Path::new(&file).is_file());
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = bind(&options(None), None).await.unwrap();
    let second = ListenOptions {
        address: first.endpoint().address,
        ..options(None)
    };
    let refused = bind(&second, None).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains(&first.endpoint().address.to_string()),
        "{refused}"
    );
}
