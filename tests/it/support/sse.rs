//! A reader of server-sent events.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::Value;

use super::within;

/// One event as the stream carried it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// An open event stream.
pub(crate) struct EventStream {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    buffer: Vec<u8>,
}

impl EventStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self {
            bytes: Box::pin(response.bytes_stream()),
            buffer: Vec::new(),
        }
    }

    /// The next event; `None` when the server ended the stream. Comments, which come all the time, are no reason
    /// to be patient for longer.
    #[track_caller]
    pub(crate) fn next_or_end(&mut self) -> impl Future<Output = Option<Event>> {
        within("an event", self.read_event())
    }

    async fn read_event(&mut self) -> Option<Event> {
        loop {
            while let Some(block) = self.take_block() {
                if let Some(event) = parse(&block) {
                    return Some(event);
                }
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Event {
        self.next_or_end().await.expect("the event stream goes on")
    }

    /// The next event of this type, dropping others.
    #[track_caller]
    pub(crate) fn next_of(&mut self, kind: &str) -> impl Future<Output = Event> {
        let wanted = async move {
            loop {
                let event = self.read_event().await.expect("the event stream goes on");
                if event.kind == kind {
                    return event;
                }
            }
        };
        within("an event of that type", wanted)
    }

    fn take_block(&mut self) -> Option<String> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
        Some(String::from_utf8(block).expect("an event stream is UTF-8"))
    }
}

/// Comments alone are no event.
fn parse(block: &str) -> Option<Event> {
    let mut event = Event {
        id: None,
        kind: "message".to_owned(),
        data: Value::Null,
    };
    let mut data = Vec::new();
    for line in block.lines() {
        match line
            .split_once(':')
            .map(|(field, value)| (field, value.strip_prefix(' ').unwrap_or(value)))
        {
            Some(("id", id)) => event.id = Some(id.parse().expect("an event id is a number")),
            Some(("event", kind)) => kind.clone_into(&mut event.kind),
            Some(("data", text)) => data.push(text),
            _ => {}
        }
    }
    if data.is_empty() {
        return None;
    }
    event.data = serde_json::from_str(&data.join("\n")).expect("event data is JSON");
    Some(event)
}
