//! A stream of server-sent events, as the server answers it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::{Stream, StreamExt as _};

use super::failure::Failure;

/// So many bytes without a whole event are far above what the server sends: a broken peer cannot fill the memory.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Events as they come.
pub(crate) struct EventStream {
    events: Pin<Box<dyn Stream<Item = Result<Event, EventStreamError<Unusable>>> + Send + Sync>>,
    /// Bytes that came since the last event.
    pending: Arc<AtomicUsize>,
}

/// Why no more is read.
enum Unusable {
    Broken,
    EventTooLarge,
}

impl EventStream {
    /// The events in the body of an answer.
    pub(super) fn of<B, E>(body: impl Stream<Item = Result<B, E>> + Send + Sync + 'static) -> Self
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
        E: Send + Sync + 'static,
    {
        let pending = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pending);
        let bounded = body.map(move |piece| {
            let piece = piece.map_err(|_lost| Unusable::Broken)?;
            let length = piece.as_ref().len();
            if counted.fetch_add(length, Ordering::Relaxed) + length > MAX_EVENT_BYTES {
                return Err(Unusable::EventTooLarge);
            }
            Ok(piece)
        });
        Self {
            events: Box::pin(bounded.eventsource()),
            pending,
        }
    }

    /// The next event; `None` when the stream has ended or broken, which a follower treats alike.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read stays in the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        match self.events.next().await {
            Some(Ok(event)) => {
                self.pending.store(0, Ordering::Relaxed);
                Ok(Some(event))
            }
            Some(Err(EventStreamError::Transport(Unusable::EventTooLarge))) => Err(Failure::new(
                "unexpected-answer",
                format!("an event of the stream is larger than {MAX_EVENT_BYTES} bytes"),
            )),
            Some(Err(_)) | None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn pieces_of_any_size_give_the_same_events() {
        let text = ":hello\nid: 7\nevent: exec.started\ndata: {\"a\":1}\n\n: keep-alive\r\n\r\ndata:x\r\ndata: ü\r\rid: 9\n\ndata: y\n\ndata: half\n";
        for size in 1..=text.len() {
            let pieces: Vec<_> = text.as_bytes().chunks(size).map(Ok::<_, Infallible>).collect();
            let mut stream = EventStream::of(stream::iter(pieces));
            let mut events = Vec::new();
            while let Ok(Some(Event { id, event, data, .. })) = stream.next().await {
                events.push((id, event, data));
            }
            let expected = [
                ("7", "exec.started", "{\"a\":1}"),
                ("7", "message", "x\nü"),
                ("9", "message", "y"),
            ]
            .map(|(id, event, data)| (id.to_owned(), event.to_owned(), data.to_owned()));
            assert_eq!(events, expected, "pieces of {size}");
        }
    }

    #[tokio::test]
    async fn an_endless_event_is_refused() {
        // Lines in pieces as a connection gives them: the parser copies what is left of one at each line.
        let line = format!("data: {}\n", "x".repeat(1 << 10));
        for endless in ["x".repeat(4 << 20), line.repeat(16)] {
            let pieces = stream::repeat_with(move || Ok::<_, Infallible>(endless.clone()));
            assert!(EventStream::of(pieces).next().await.is_err());
        }
    }
}
