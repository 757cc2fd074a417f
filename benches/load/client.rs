//! The least client that can be: a kept connection, one request at a time, hardly any work per answer.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{Plan, servers::Server};

/// No single answer may take longer; a run that hangs must end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was seen in one window, or in several.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
}

impl Window {
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.elapsed += other.elapsed;
    }

    /// Answers a second.
    pub(crate) fn throughput(&self) -> f64 {
        f64::from(u32::try_from(self.latencies.len()).unwrap_or(u32::MAX)) / self.elapsed.as_secs_f64()
    }

    /// The latency that a share of the answers, in thousandths, did not exceed.
    pub(crate) fn quantile(&self, thousandths: usize) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len().saturating_sub(1)) * thousandths / 1000;
        sorted.get(at).copied().unwrap_or_default()
    }
}

/// Sends requests from `clients` connections for one window.
pub(crate) async fn window(server: &Server, plan: &Plan, clients: usize) -> Window {
    let request = request(server, plan);
    let begun = Instant::now();
    let until = begun + plan.window;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (address, request) = (server.address().to_owned(), request.clone());
        tasks.spawn(async move { one_client(&address, &request, until).await });
    }
    let latencies = tasks.join_all().await.concat();
    Window {
        latencies,
        elapsed: begun.elapsed(),
    }
}

async fn one_client(address: &str, request: &[u8], until: Instant) -> Vec<Duration> {
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    connection.set_nodelay(true).expect("an option of a socket");
    let mut latencies = Vec::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    while Instant::now() < until {
        let begun = Instant::now();
        connection.write_all(request).await.expect("sending");
        let answer = timeout(PATIENCE, read_answer(&mut connection, &mut buffer)).await;
        answer.expect("an answer in time");
        latencies.push(begun.elapsed());
    }
    latencies
}

fn request(server: &Server, plan: &Plan) -> Vec<u8> {
    let body = json!({ "argv": [plan.program] }).to_string();
    let authorization = server
        .token()
        .map(|token| format!("authorization: Bearer {token}\r\n"))
        .unwrap_or_default();
    format!(
        "POST /v1/exec HTTP/1.1\r\nhost: {}\r\n{authorization}content-type: application/json\r\ncontent-length: {}\
         \r\n\r\n{body}",
        server.address(),
        body.len()
    )
    .into_bytes()
}

/// Reads one answer with a `content-length`, which must be a completed run.
async fn read_answer(connection: &mut TcpStream, buffer: &mut Vec<u8>) {
    buffer.clear();
    let body_at = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        assert_ne!(
            connection.read_buf(buffer).await.expect("reading"),
            0,
            "the server hung up"
        );
    };
    let (head, _) = buffer.split_at(body_at);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|length| length.trim().parse().ok())
        .expect("an answer says how long it is");
    while buffer.len() < body_at + length {
        assert_ne!(
            connection.read_buf(buffer).await.expect("reading"),
            0,
            "the server hung up"
        );
    }
    let completed = b"\"completed\"";
    let (_, body) = buffer.split_at(body_at);
    assert!(
        body.windows(completed.len()).any(|part| part == completed),
        "{}",
        String::from_utf8_lossy(body)
    );
}
