//! The way to the gateway, whichever connection it is at a moment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use countersign_protocol::bridge::{Frame, Request, Response, WireError};
use countersign_sys::clock::Ids;

use super::answer::{Dialect, Make};

/// Frames that wait to be written. A sender with one more waits.
const QUEUE: usize = 256;
/// Most questions without an answer at a time.
const MAX_PENDING: usize = 1_024;

/// One connection that stands.
#[derive(Debug)]
pub(super) struct Link {
    outgoing: mpsc::Sender<Frame>,
    pending: Mutex<Pending>,
    /// As many as may wait for an answer at a time.
    places: Semaphore,
    ids: Arc<dyn Ids>,
    /// Which words the gateway expects.
    pub(super) dialect: Dialect,
    pub(super) make: Make,
    /// Longest frame that it takes.
    pub(super) max_payload: usize,
    /// How far the gateway's clock is ahead of ours, in milliseconds.
    pub(super) clock_ahead_ms: i64,
}

/// What a connection is to the code that uses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) dialect: Dialect,
    pub(super) make: Make,
    pub(super) max_payload: usize,
    pub(super) clock_ahead_ms: i64,
}

#[derive(Debug, Default)]
struct Pending {
    is_closed: bool,
    answers: HashMap<String, oneshot::Sender<Response>>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum RequestError {
    /// The connection ended; whether it arrived is unknown.
    #[error("the connection ended")]
    Closed,
    /// No answer came in time.
    #[error("no answer came in time")]
    TimedOut,
    #[error("{}", .0.message)]
    Refused(WireError),
}

impl Link {
    /// A link, and the frames that are to be written to it.
    pub(super) fn new(ids: Arc<dyn Ids>, terms: Terms) -> (Arc<Self>, mpsc::Receiver<Frame>) {
        let (outgoing, frames) = mpsc::channel(QUEUE);
        let Terms {
            dialect,
            make,
            max_payload,
            clock_ahead_ms,
        } = terms;
        let link = Self {
            outgoing,
            pending: Mutex::default(),
            places: Semaphore::new(MAX_PENDING),
            ids,
            dialect,
            make,
            max_payload,
            clock_ahead_ms,
        };
        (Arc::new(link), frames)
    }

    /// Asks the gateway, and waits for its answer.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<Value, RequestError> {
        let exchange = async {
            // Over the limit the caller waits: a kept answer must not be lost because many are kept.
            let _place = self
                .places
                .acquire()
                .await
                .map_err(|_closed| RequestError::Closed)?;
            let id = self.ids.random().to_string();
            let answer = self.expect_answer(&id)?;
            let _forget = Forget { link: self, id: &id };
            let frame = Request::new(id.clone(), method, params).into();
            self.outgoing
                .send(frame)
                .await
                .map_err(|_closed| RequestError::Closed)?;
            answer.await.map_err(|_closed| RequestError::Closed)
        };
        let response = tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|_elapsed| RequestError::TimedOut)??;
        match (response.ok, response.error) {
            (true, _) => Ok(response.payload.unwrap_or(Value::Null)),
            (false, error) => {
                Err(RequestError::Refused(error.unwrap_or_else(|| {
                    WireError::unavailable("the gateway refused without a reason")
                })))
            }
        }
    }

    fn expect_answer(&self, id: &str) -> Result<oneshot::Receiver<Response>, RequestError> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.is_closed {
            return Err(RequestError::Closed);
        }
        let (sender, answer) = oneshot::channel();
        pending.answers.insert(id.to_owned(), sender);
        Ok(answer)
    }

    /// Hands an answer of the gateway to the caller that asked. One that nobody waits for is dropped.
    pub(super) fn answered(&self, response: Response) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = pending.answers.remove(&response.id) {
            // The caller may have stopped waiting.
            drop(sender.send(response));
        }
    }

    /// Nothing will be answered any more.
    pub(super) fn close(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.is_closed = true;
        pending.answers.clear();
    }
}

struct Forget<'a> {
    link: &'a Link,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let mut pending = self.link.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.answers.remove(self.id);
    }
}

/// The connection of the moment, for every task that has something to say.
#[derive(Debug)]
pub(super) struct Uplink(watch::Sender<Option<Arc<Link>>>);

impl Uplink {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// This connection stands now.
    pub(super) fn up(&self, link: Arc<Link>) {
        self.0.send_replace(Some(link));
    }

    pub(super) fn down(&self) {
        if let Some(link) = self.0.send_replace(None) {
            link.close();
        }
    }

    /// The connection, as soon as one stands.
    pub(super) async fn link(&self) -> Arc<Link> {
        let mut links = self.0.subscribe();
        loop {
            if let Some(link) = &*links.borrow_and_update() {
                return Arc::clone(link);
            }
            // `self` holds the sender, so it cannot close.
            if links.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_sys::clock::SeededIds;

    fn link() -> (Arc<Link>, mpsc::Receiver<Frame>) {
        Link::new(
            Arc::new(SeededIds::default()),
            Terms {
                make: Make::Other,
                dialect: Dialect::Present,
                max_payload: 1_000,
                clock_ahead_ms: 0,
            },
        )
    }

    fn response(id: &str, ok: bool) -> Response {
        Response {
            id: id.to_owned(),
            ok,
            payload: Some(json!(1)),
            error: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_goes_to_whoever_asked() {
        let (link, mut frames) = link();
        let asking = link.request("m", json!({}), Duration::from_secs(5));
        let answering = async {
            let Some(Frame::Request(request)) = frames.recv().await else {
                panic!("no request")
            };
            link.answered(response("somebody else's", true));
            link.answered(response(&request.id, true));
            // Once more is of no use, and does no harm.
            link.answered(response(&request.id, false));
        };
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer, Ok(json!(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_and_no_connection_end_the_wait() {
        let (link, frames) = link();
        let unanswered = link.request("m", json!({}), Duration::from_secs(5)).await;
        assert_eq!(unanswered, Err(RequestError::TimedOut));
        assert!(link.pending.lock().unwrap().answers.is_empty());
        let asking = link.request("m", json!({}), Duration::from_secs(5));
        let closing = async {
            tokio::task::yield_now().await;
            link.close();
        };
        let (answer, ()) = tokio::join!(asking, closing);
        assert_eq!(answer, Err(RequestError::Closed));
        drop(frames);
        assert_eq!(
            link.request("m", json!({}), Duration::from_secs(5)).await,
            Err(RequestError::Closed)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_something_to_say_waits_for_a_connection() {
        let uplink = Uplink::new();
        let (first, _frames) = link();
        let waiting = uplink.link();
        let connecting = async {
            tokio::task::yield_now().await;
            uplink.up(Arc::clone(&first));
        };
        let (found, ()) = tokio::join!(waiting, connecting);
        assert!(Arc::ptr_eq(&found, &first));
        uplink.down();
        assert_eq!(
            first.request("m", json!({}), Duration::from_secs(1)).await,
            Err(RequestError::Closed)
        );
    }
}
