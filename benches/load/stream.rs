//! A stream of server-sent events, read with as little work as possible: a thousand of them share one thread.

use serde_json::Value;
use tokio::{io::AsyncReadExt, net::TcpStream};

use super::connection::Caller;

/// Bytes that a read has room for, at least: some forty events.
const ROOM: usize = 16 * 1024;

/// A stream that was opened.
#[derive(Debug)]
pub(crate) struct EventStream {
    stream: TcpStream,
    /// As it comes: chunks with their sizes.
    raw: Vec<u8>,
    /// Bytes of the current chunk that are still to come, its end included; 0 before the next size.
    left: usize,
    /// Text that is no whole event yet.
    text: Vec<u8>,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) id: u64,
    pub(crate) data: &'a [u8],
}

impl Event<'_> {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.data).expect("an event is JSON")
    }
}

impl EventStream {
    /// Opens the event stream of a server.
    pub(crate) async fn open(caller: &Caller, query: &str) -> Self {
        let request = caller.request("GET", &format!("/v1/events{query}"), None);
        let (stream, raw) = caller.connect().await.open(&request).await;
        Self {
            stream,
            raw,
            left: 0,
            text: Vec::new(),
        }
    }

    /// Waits for an event that has a number and hands all there are to `seen`; false when the stream ended.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read and not handed over is kept.
    pub(crate) async fn read(&mut self, mut seen: impl FnMut(&Event<'_>)) -> bool {
        loop {
            self.unchunk();
            if self.hand_over(&mut seen) {
                return true;
            }
            self.raw.reserve(ROOM);
            if self.stream.read_buf(&mut self.raw).await.expect("reading") == 0 {
                return false;
            }
        }
    }

    /// Whether there was one.
    fn hand_over(&mut self, mut seen: impl FnMut(&Event<'_>)) -> bool {
        let mut from = 0;
        let mut found = false;
        while let Some((_, rest)) = self.text.split_at_checked(from)
            && let Some(end) = rest.windows(2).position(|two| two == b"\n\n")
        {
            let (block, _) = rest.split_at(end);
            if let Some(event) = event(block) {
                seen(&event);
                found = true;
            }
            from += end + 2;
        }
        self.text.drain(..from);
        found
    }

    fn unchunk(&mut self) {
        let mut at = 0;
        while let Some((_, rest)) = self.raw.split_at_checked(at).filter(|(_, rest)| !rest.is_empty()) {
            if self.left == 0 {
                let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
                    break;
                };
                let (size, _) = rest.split_at(end);
                let size = std::str::from_utf8(size).expect("the size of a chunk");
                self.left = usize::from_str_radix(size, 16).expect("the size of a chunk") + 2;
                at += end + 2;
                continue;
            }
            let taken = rest.len().min(self.left);
            // The last two bytes of a chunk only end it.
            let text = taken.min(self.left.saturating_sub(2));
            self.text.extend(rest.iter().take(text));
            self.left -= taken;
            at += taken;
        }
        self.raw.drain(..at);
    }
}

/// Comments and what has no number are no events here.
fn event(block: &[u8]) -> Option<Event<'_>> {
    let mut id = None;
    let mut data = None;
    for line in block.split(|byte| *byte == b'\n') {
        if let Some(number) = line.strip_prefix(b"id: ") {
            id = std::str::from_utf8(number).ok()?.parse().ok();
        } else if let Some(text) = line.strip_prefix(b"data: ") {
            data = Some(text);
        }
    }
    Some(Event { id: id?, data: data? })
}
