//! Reads a stream of server-sent events: bytes in, events out, no matter how the bytes are cut into pieces.
//!
//! Follows the WHATWG event stream format: lines end in LF, CR or CRLF, `data` lines of one event are joined
//! with LF, a line that begins with a colon is a comment. An event without data is not one.

/// The largest event that is read: far above what the server sends, so that a broken peer cannot fill the memory.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StreamEvent {
    /// The last id seen, this event's own included.
    pub(crate) id: Option<String>,
    /// The type; `message` when the stream names none.
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// An event is larger than anything the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub(crate) struct EventTooLarge;

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamParser {
    line: Vec<u8>,
    after_cr: bool,
    last_id: Option<String>,
    kind: String,
    data: Option<String>,
}

impl StreamParser {
    /// Takes the next bytes and gives the events that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`]; the stream is of no use afterwards.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, EventTooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if follows_cr => {}
                b'\n' => events.extend(self.end_line()),
                b'\r' => {
                    self.after_cr = true;
                    events.extend(self.end_line());
                }
                _ => {
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) >= MAX_EVENT_BYTES {
                        return Err(EventTooLarge);
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<StreamEvent> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.last_id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.kind),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments (an empty field name), `retry` and unknown fields.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<StreamEvent> {
        let kind = std::mem::take(&mut self.kind);
        Some(StreamEvent {
            data: self.data.take()?,
            id: self.last_id.clone(),
            kind: if kind.is_empty() {
                "message".to_owned()
            } else {
                kind
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, kind: &str, data: &str) -> StreamEvent {
        StreamEvent {
            id: id.map(str::to_owned),
            kind: kind.to_owned(),
            data: data.to_owned(),
        }
    }

    const STREAM: &[u8] =
        ":hello\nid: 7\nevent: exec.started\ndata: {\"a\":1}\n\n: keep-alive\r\n\r\ndata:x\r\ndata: ü\r\rid: 9\n\nretry: 5\ndata\n\n"
            .as_bytes();

    fn expected() -> Vec<StreamEvent> {
        vec![
            event(Some("7"), "exec.started", "{\"a\":1}"),
            event(Some("7"), "message", "x\nü"),
            event(Some("9"), "message", ""),
        ]
    }

    #[test]
    fn a_whole_stream_is_read() {
        assert_eq!(StreamParser::default().push(STREAM), Ok(expected()));
    }

    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        for size in 1..STREAM.len() {
            let mut parser = StreamParser::default();
            let events: Vec<_> = STREAM
                .chunks(size)
                .flat_map(|piece| parser.push(piece).unwrap())
                .collect();
            assert_eq!(events, expected(), "pieces of {size}");
        }
    }

    #[test]
    fn an_unfinished_event_is_not_given() {
        assert_eq!(StreamParser::default().push(b"data: half\n"), Ok(Vec::new()));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = StreamParser::default();
        let piece = vec![b'x'; 1024 * 1024];
        let refused = (0..9).any(|_| parser.push(&piece) == Err(EventTooLarge));
        assert!(refused);
    }
}
