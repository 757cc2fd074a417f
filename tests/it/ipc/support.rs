//! Peers of the socket: one that asks, and a UI that is asked.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use countersign_sys::clock::{Clock as _, Ids as _, SystemClock, SystemIds};
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

use crate::support::{Members, TestServer, within};

/// Somebody who asks at the socket of a server.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) path: PathBuf,
    pub(crate) token: String,
}

impl Asker {
    /// Knows what the approvals document says.
    pub(crate) fn of(server: &TestServer) -> Self {
        let document = server.document_on_disk();
        Self {
            path: server.state().join("exec-approvals.sock"),
            token: document["socket"].text("token").to_owned(),
        }
    }

    pub(crate) async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.expect("the socket answers")
    }

    /// A genuine line of now.
    pub(crate) fn exec_line(&self, id: &str, request: &Value) -> String {
        self.exec_line_at(id, &nonce(), now_ms(), request)
    }

    pub(crate) fn exec_line_at(&self, id: &str, nonce: &str, ts: i64, request: &Value) -> String {
        let text = request.to_string();
        let hmac = mac(&self.token, &format!("{nonce}:{ts}:{text}"));
        json!({ "type": "exec", "id": id, "nonce": nonce, "ts": ts, "hmac": hmac, "requestJson": text })
            .to_string()
    }

    pub(crate) fn request_line(&self, id: &str, request: &Value) -> String {
        json!({ "type": "request", "token": self.token, "id": id, "request": request }).to_string()
    }

    /// Sends a line, half-closes, and gives every line that comes back.
    pub(crate) async fn send(&self, line: &str) -> Vec<Value> {
        self.send_bytes(format!("{line}\n").as_bytes()).await
    }

    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Vec<Value> {
        let mut stream = self.connect().await;
        // A server that has read enough answers and closes while this still writes.
        drop(stream.write_all(bytes).await);
        drop(stream.shutdown().await);
        replies(&mut stream).await
    }

    pub(crate) async fn exec(&self, request: &Value) -> Value {
        let mut lines = self.send(&self.exec_line("i-1", request)).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        let reply = lines.remove(0);
        assert_has!(reply, { "type": "exec-res", "id": "i-1" });
        reply
    }

    pub(crate) async fn ask(&self, request: &Value) -> String {
        let lines = self.send(&self.request_line("q-1", request)).await;
        let [reply] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        assert_has!(reply, { "type": "decision", "id": "q-1" });
        reply.text("decision").to_owned()
    }

    /// Whether the server still runs what it is asked to, at once.
    pub(crate) async fn expect_alive(&self) {
        let reply = self.exec(&json!({ "command": ["true"] })).await;
        assert!(reply["ok"].is_boolean(), "{reply}");
    }
}

/// Every line until the end of the stream.
pub(crate) async fn replies(stream: &mut UnixStream) -> Vec<Value> {
    let mut bytes = Vec::new();
    within("the end of the stream", stream.read_to_end(&mut bytes))
        .await
        .expect("a whole reply, no reset");
    assert!(bytes.is_ascii(), "replies are ASCII");
    let text = String::from_utf8(bytes).expect("ASCII");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

pub(super) async fn read_line(stream: &mut UnixStream) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte).await {
            Ok(1) if byte[0] == b'\n' => return Some(String::from_utf8_lossy(&line).into_owned()),
            Ok(1) => line.push(byte[0]),
            Ok(_) | Err(_) => return (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()),
        }
    }
}

#[expect(clippy::format_collect, reason = "a short text of the test")]
pub(super) fn mac(token: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("any key");
    mac.update(text.as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn nonce() -> String {
    SystemIds.random().simple().to_string()
}

pub(super) fn now_ms() -> i64 {
    SystemClock.now().get()
}

/// A UI that somebody else hosts, and what it does with a connection.
pub(super) struct FakeUi {
    task: JoinHandle<()>,
    path: PathBuf,
    /// Lines that it was sent, hello included.
    pub(super) lines: Arc<AtomicUsize>,
}

/// What it does with a line that is no opening: gets the line and the stream.
pub(super) type Deed = Arc<dyn Fn(Value, UnixStream) -> BoxFuture<'static, ()> + Send + Sync>;

impl FakeUi {
    /// One that knows the plain form only.
    pub(super) fn plain(path: &Path, deed: Deed) -> Self {
        Self::with(
            path,
            Arc::new(|_hello, stream| Box::pin(async move { drop(stream) })),
            deed,
        )
    }

    /// One that does something of its own with an opening.
    pub(super) fn with(path: &Path, opening: Deed, deed: Deed) -> Self {
        let listener = UnixListener::bind(path).expect("a place for the socket");
        let lines = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lines);
        let task = tokio::spawn(async move {
            loop {
                let Ok((mut stream, _address)) = listener.accept().await else {
                    return;
                };
                let (opening, deed, counted) =
                    (Arc::clone(&opening), Arc::clone(&deed), Arc::clone(&counted));
                tokio::spawn(async move {
                    let Some(line) = read_line(&mut stream).await else {
                        return;
                    };
                    counted.fetch_add(1, Ordering::SeqCst);
                    let line: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                    if line["type"] == "hello" {
                        opening(line, stream).await;
                    } else {
                        deed(line, stream).await;
                    }
                });
            }
        });
        Self {
            task,
            path: path.to_owned(),
            lines,
        }
    }
}

impl Drop for FakeUi {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.path));
    }
}

/// The question that somebody is asked, as soon as there is one.
pub(super) async fn asked_about(server: &TestServer) -> Value {
    let found = server.operator().waiting().await;
    found[0].clone()
}

/// Writes these lines and closes.
pub(super) async fn write_lines(mut stream: UnixStream, lines: &[String]) {
    for line in lines {
        drop(stream.write_all(format!("{line}\n").as_bytes()).await);
    }
    drop(stream.shutdown().await);
    // The other side has read them when it closes.
    drop(stream.read(&mut [0]).await);
}
