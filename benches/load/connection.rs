//! The least client that can be: a kept connection, one request at a time, hardly any work per answer.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// No single answer may take longer; a run that hangs must end.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Who asks a server, and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) address: String,
    pub(crate) token: Option<String>,
}

impl Caller {
    /// A request as bytes, to be sent as often as wanted.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        self.request_with("", method, path, body)
    }

    /// A call of a command that has an idempotency key.
    pub(crate) fn keyed(&self, key: usize, call: &Value) -> Vec<u8> {
        let header = format!("idempotency-key: key-{key}\r\n");
        self.request_with(&header, "POST", "/v1/exec", Some(call))
    }

    fn request_with(&self, header: &str, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{header}", self.address);
        if let Some(token) = &self.token {
            request.push_str("authorization: Bearer ");
            request.push_str(token);
            request.push_str("\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            request.push_str("content-type: application/json\r\ncontent-length: ");
            request.push_str(&body.len().to_string());
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        request.push_str(&body);
        request.into_bytes()
    }

    pub(crate) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option of a socket");
        Connection {
            stream,
            buffer: Vec::with_capacity(16 * 1024),
        }
    }
}

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// One answer with a `content-length`.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Connection {
    /// Sends a request and reads the answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Answer<'_> {
        let answer = timeout(TIMEOUT, async {
            self.stream.write_all(request).await.expect("sending");
            self.buffer.clear();
            let (status, body_at, length) = self.read_head().await;
            while self.buffer.len() < body_at + length.expect("an answer says how long it is") {
                self.read_more().await;
            }
            (status, body_at)
        });
        let (status, body_at) = answer.await.expect("an answer in time");
        let (_, body) = self.buffer.split_at(body_at);
        Answer { status, body }
    }

    /// Sends a request whose answer has no end; returns the connection and what was read of the body already.
    pub(crate) async fn open(mut self, request: &[u8]) -> (TcpStream, Vec<u8>) {
        let opened = timeout(TIMEOUT, async {
            self.stream.write_all(request).await.expect("sending");
            self.read_head().await
        });
        let (status, body_at, length) = opened.await.expect("an answer in time");
        assert_eq!((status, length), (200, None), "not a stream");
        (self.stream, self.buffer.split_off(body_at))
    }

    /// Status, where the body begins, and how long it says it is.
    async fn read_head(&mut self) -> (u16, usize, Option<usize>) {
        let body_at = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await;
        };
        let (head, _) = self.buffer.split_at(body_at);
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let status = head
            .strip_prefix("http/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map(|length| length.trim().parse().expect("a length"));
        (
            status.unwrap_or_else(|| panic!("no answer: {head}")),
            body_at,
            length,
        )
    }

    async fn read_more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.expect("reading");
        assert_ne!(
            read,
            0,
            "the server hung up: {}",
            String::from_utf8_lossy(&self.buffer)
        );
    }
}

impl Answer<'_> {
    /// The body of an answer that must have this status.
    pub(crate) fn expect(&self, status: u16) -> &[u8] {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(self.body));
        self.body
    }

    pub(crate) fn json(&self, status: u16) -> Value {
        serde_json::from_slice(self.expect(status)).expect("JSON")
    }

    /// Asserts that the answer is that of a command that completed.
    pub(crate) fn expect_completed(&self) {
        let completed = b"\"completed\"";
        let is_completed = self
            .expect(200)
            .windows(completed.len())
            .any(|part| part == completed);
        assert!(is_completed, "{}", String::from_utf8_lossy(self.body));
    }
}
