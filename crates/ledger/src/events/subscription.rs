//! One subscriber: the log first, then the ring, and back to the log whenever it fell behind.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use super::{EventFilter, EventLog, EventLogError, Publication};

/// Events read from the log at once.
const PAGE: usize = 256;

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the next event.
    Now,
    /// With the first event after this number.
    After(i64),
}

/// What a subscriber gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamItem {
    /// An event (or live output, whose `seq` is `None`).
    Event(Arc<Publication>),
    /// Events between the asked position and this one are no longer kept (`events.gap`).
    Gap {
        /// Number of the oldest event still kept.
        oldest: i64,
    },
}

/// A position in the stream of events. Every event of the filter is delivered once, in order.
#[derive(Debug)]
pub struct Subscription {
    log: Arc<dyn EventLog>,
    filter: EventFilter,
    ring: broadcast::Receiver<Arc<Publication>>,
    output: Option<broadcast::Receiver<Arc<Publication>>>,
    /// Everything up to here was delivered or filtered out.
    position: i64,
    /// Number of the last event when the ring was joined.
    joined_at: i64,
    source: Source,
    ready: VecDeque<StreamItem>,
    catch_ups: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Log,
    Ring,
}

impl Subscription {
    pub(super) fn new(
        log: Arc<dyn EventLog>,
        filter: EventFilter,
        ring: broadcast::Receiver<Arc<Publication>>,
        output: Option<broadcast::Receiver<Arc<Publication>>>,
        start: Start,
        head: i64,
    ) -> Self {
        let (position, source) = match start {
            Start::Now => (head, Source::Ring),
            Start::After(seq) => (seq.max(0), Source::Log),
        };
        Self {
            log,
            filter,
            ring,
            output,
            position,
            joined_at: head,
            source,
            ready: VecDeque::new(),
            catch_ups: Arc::default(),
        }
    }

    /// Counts there how often it falls behind.
    pub(super) fn counting(mut self, catch_ups: Arc<AtomicU64>) -> Self {
        self.catch_ups = catch_ups;
        self
    }

    /// The next event, or `None` when the feed is gone and everything was delivered.
    ///
    /// # Errors
    /// [`EventLogError`] when the log cannot be read; calling again tries again.
    ///
    /// # Cancel safety
    /// Cancel safe: the position moves only together with what is put aside for delivery.
    #[crate::compiled_once]
    pub async fn next(&mut self) -> Result<Option<StreamItem>, EventLogError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            match self.source {
                Source::Log => self.read_log().await?,
                Source::Ring => match self.follow().await {
                    Followed::Put => {}
                    Followed::Ended => return Ok(None),
                },
            }
        }
    }

    /// The number up to which everything was delivered or filtered out; a resume point.
    pub const fn position(&self) -> i64 {
        self.position
    }

    async fn read_log(&mut self) -> Result<(), EventLogError> {
        let page = self.log.read_after(self.position, PAGE).await?;
        let newest = page.newest.unwrap_or(0);
        if self.position > newest {
            // A number from the future (another ledger's, say) would silence the stream.
            self.position = self.joined_at.min(newest);
            return Ok(());
        }
        if let Some(oldest) = page.oldest
            && self.position.saturating_add(1) < oldest
            && page.events.first().and_then(|event| event.seq) == Some(oldest)
        {
            self.ready.push_back(StreamItem::Gap { oldest });
        }
        if page.events.len() < PAGE {
            self.source = Source::Ring;
        }
        for publication in page.events {
            self.put(publication);
        }
        Ok(())
    }

    async fn follow(&mut self) -> Followed {
        let received = match &mut self.output {
            None => self.ring.recv().await,
            Some(output) => tokio::select! {
                biased;
                received = self.ring.recv() => {
                    self.put_output_before();
                    received
                }
                received = output.recv() => match received {
                    Ok(publication) => Ok(publication),
                    // Live output that was missed is gone; the offsets show it.
                    Err(RecvError::Lagged(_)) => return Followed::Put,
                    Err(RecvError::Closed) => Err(RecvError::Closed),
                },
            },
        };
        match received {
            Ok(publication) => self.put(publication),
            Err(RecvError::Lagged(_)) => {
                self.catch_ups.fetch_add(1, Ordering::Relaxed);
                self.source = Source::Log;
            }
            Err(RecvError::Closed) => return Followed::Ended,
        }
        Followed::Put
    }

    /// Puts aside the live output that is at hand: what a command wrote was published before its end, so it is to
    /// be delivered before. Never more than a page, so that a loud command does not hold up what others wait for.
    fn put_output_before(&mut self) {
        for _ in 0..PAGE {
            match self.output.as_mut().map(broadcast::Receiver::try_recv) {
                Some(Ok(publication)) => self.put(publication),
                Some(Err(TryRecvError::Lagged(_))) => {}
                Some(Err(TryRecvError::Empty | TryRecvError::Closed)) | None => return,
            }
        }
    }

    fn put(&mut self, publication: Arc<Publication>) {
        if let Some(seq) = publication.seq {
            if seq <= self.position {
                return;
            }
            self.position = seq;
        }
        if self.filter.matches(publication.event_type, &publication.subject) {
            self.ready.push_back(StreamItem::Event(publication));
        }
    }
}

enum Followed {
    Put,
    Ended,
}
