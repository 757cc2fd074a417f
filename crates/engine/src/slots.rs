//! How many processes run at once, in all and per agent, and who waits for a place
//! (`docs/spec/settings.md#2-countersigntoml`).
//!
//! The call that comes first is served first: a place that is freed goes to the head of the queue, and no later call
//! takes it away. The queue passes over only a call that its own agent's share holds up, since that share does not
//! concern the others.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use countersign_config::settings::Limits;
use countersign_domain::AgentId;

/// The limits in force; 0 switches one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotLimits {
    pub(super) running: usize,
    /// Processes at once of one agent.
    pub(super) per_agent: usize,
    /// Calls that wait for a place.
    pub(super) queued: usize,
    /// How long they wait.
    pub(super) queue_timeout: Duration,
}

/// No place is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSlot {
    /// The agent has used its share.
    #[error("the agent has {share} runs, which are all that it may have at once")]
    AgentShare {
        /// How many it may have.
        share: usize,
    },
    /// All places are taken and so is the queue.
    #[error(
        "all {running} places to run are taken, and {waiting} calls wait for one already, the most that may"
    )]
    QueueFull {
        /// Places in all (`[limits]`), every one taken.
        running: usize,
        /// Calls in the queue, the most that it takes.
        waiting: usize,
    },
    /// It waited as long as a call may.
    #[error(
        "no place to run came free within {waited_ms} ms; the call was number {position} of {waiting} that wait"
    )]
    TooLong {
        /// Where in the queue it was, from 1 on.
        position: usize,
        /// How many waited, itself included.
        waiting: usize,
        /// How long it waited.
        waited_ms: u128,
    },
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    state: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    running: usize,
    per_agent: HashMap<AgentId, usize>,
    /// In the order in which they came.
    queue: VecDeque<QueuedRun>,
    next_ticket: u64,
}

#[derive(Debug)]
struct QueuedRun {
    ticket: u64,
    agent: AgentId,
    limits: SlotLimits,
    kind: Kind,
    answer: oneshot::Sender<Result<Slot, NoSlot>>,
}

/// What it is that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call, whose caller is told when its agent has no share left.
    Call,
    /// A run that was allowed, which has a start-by of its own.
    Allowed,
}

/// Whether there is room for one more run of an agent.
enum Room {
    Free,
    ShareUsed,
    AllTaken,
}

/// One place; dropping it gives it back.
#[derive(Debug)]
#[must_use]
pub(super) struct Slot {
    slots: Arc<Slots>,
    agent: AgentId,
    waited: bool,
}

impl Slot {
    /// Whether it was not free at once, so that what was judged before may have changed meanwhile.
    pub(super) const fn was_waited_for(&self) -> bool {
        self.waited
    }

    fn waited_for(mut self) -> Self {
        self.waited = true;
        self
    }
}

impl From<&Limits> for SlotLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            running: limits.max_running,
            per_agent: limits.max_running_per_agent,
            queued: limits.max_queued,
            queue_timeout: limits.queue_timeout,
        }
    }
}

impl Slots {
    /// Takes a place, waiting for one as the limits allow.
    ///
    /// # Errors
    /// [`NoSlot`] when the agent's share is used, the queue is full, or the wait took too long.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        agent: &AgentId,
        limits: SlotLimits,
    ) -> Result<Slot, NoSlot> {
        let mut queued = match self.enter(agent, limits, Kind::Call)? {
            Entered::Taken(slot) => return Ok(slot),
            Entered::Queued(queued) => queued,
        };
        let answered = tokio::time::timeout(limits.queue_timeout, &mut queued.answer).await;
        match answered {
            Ok(answer) => answer.unwrap_or_else(|_closed| Err(queued.too_late(limits))),
            Err(_elapsed) => Err(queued.too_late(limits)),
        }
    }

    /// Waits for a place for as long as it takes: for what was allowed and has a start-by of its own.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the wait.
    pub(super) async fn wait(self: &Arc<Self>, agent: &AgentId, limits: SlotLimits) -> Slot {
        loop {
            match self.enter(agent, limits, Kind::Allowed) {
                Ok(Entered::Taken(slot)) => return slot,
                Ok(Entered::Queued(mut queued)) => {
                    if let Ok(Ok(slot)) = (&mut queued.answer).await {
                        return slot;
                    }
                }
                // Not said to what is allowed; it waits for its share.
                Err(_) => {}
            }
        }
    }

    /// Takes a place for what was allowed, if one is free now.
    pub(super) fn take_free(self: &Arc<Self>, agent: &AgentId, limits: SlotLimits) -> Option<Slot> {
        match self.enter(agent, limits, Kind::Allowed) {
            Ok(Entered::Taken(slot)) => Some(slot),
            Ok(Entered::Queued(_)) | Err(_) => None,
        }
    }

    /// How many run now, and how many wait for a place.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.queue.len())
    }

    /// Takes a place for something that runs already, no matter what the limits say (a run found at start).
    pub(super) fn take(self: &Arc<Self>, agent: &AgentId) -> Slot {
        self.occupy(&mut self.lock(), agent)
    }

    fn enter(self: &Arc<Self>, agent: &AgentId, limits: SlotLimits, kind: Kind) -> Result<Entered, NoSlot> {
        let mut state = self.lock();
        let mut undelivered = Vec::new();
        if !state.queue.is_empty() {
            // The settings may have changed since the others came.
            for waiting in &mut state.queue {
                waiting.limits = limits;
            }
            undelivered = self.serve(&mut state);
        }
        let entered = match (state.room(agent, limits), kind) {
            (Room::Free, _) => Ok(Entered::Taken(self.occupy(&mut state, agent))),
            (Room::ShareUsed, Kind::Call) => Err(NoSlot::AgentShare {
                share: limits.per_agent,
            }),
            (Room::AllTaken, Kind::Call) if state.calls() >= limits.queued => Err(NoSlot::QueueFull {
                running: state.running,
                waiting: state.calls(),
            }),
            (Room::ShareUsed | Room::AllTaken, _) => {
                Ok(Entered::Queued(state.enqueue(self, agent, limits, kind)))
            }
        };
        drop(state);
        drop(undelivered);
        entered
    }

    /// Gives free places to those who wait, in their order. Returns the places of those who left meanwhile, which must
    /// be dropped once the lock is free.
    fn serve(self: &Arc<Self>, state: &mut SlotTable) -> Vec<Result<Slot, NoSlot>> {
        let mut undelivered = Vec::new();
        let mut at = 0;
        while let Some(waiting) = state.queue.get(at) {
            let answer = match (state.room(&waiting.agent, waiting.limits), waiting.kind) {
                (Room::AllTaken, _) => break,
                (Room::ShareUsed, Kind::Allowed) => {
                    at += 1;
                    continue;
                }
                (Room::ShareUsed, Kind::Call) => Err(NoSlot::AgentShare {
                    share: waiting.limits.per_agent,
                }),
                (Room::Free, _) => Ok(()),
            };
            let Some(waiting) = state.queue.remove(at) else {
                break;
            };
            let answer = answer.map(|()| self.occupy(state, &waiting.agent).waited_for());
            undelivered.extend(waiting.answer.send(answer).err());
        }
        undelivered
    }

    fn occupy(self: &Arc<Self>, state: &mut SlotTable, agent: &AgentId) -> Slot {
        state.running += 1;
        *state.per_agent.entry(agent.clone()).or_default() += 1;
        Slot {
            slots: Arc::clone(self),
            agent: agent.clone(),
            waited: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    fn room(&self, agent: &AgentId, limits: SlotLimits) -> Room {
        let share = self.per_agent.get(agent).copied().unwrap_or(0);
        if limits.per_agent != 0 && share >= limits.per_agent {
            Room::ShareUsed
        } else if limits.running != 0 && self.running >= limits.running {
            Room::AllTaken
        } else {
            Room::Free
        }
    }

    fn calls(&self) -> usize {
        self.queue
            .iter()
            .filter(|waiting| waiting.kind == Kind::Call)
            .count()
    }

    fn enqueue(&mut self, slots: &Arc<Slots>, agent: &AgentId, limits: SlotLimits, kind: Kind) -> Queued {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (sender, answer) = oneshot::channel();
        self.queue.push_back(QueuedRun {
            ticket,
            agent: agent.clone(),
            limits,
            kind,
            answer: sender,
        });
        Queued {
            slots: Arc::clone(slots),
            ticket,
            answer,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.running -= 1;
        if let Some(share) = state.per_agent.get_mut(&self.agent) {
            *share -= 1;
            if *share == 0 {
                state.per_agent.remove(&self.agent);
            }
        }
        let undelivered = self.slots.serve(&mut state);
        drop(state);
        drop(undelivered);
    }
}

/// What came of asking for a place.
enum Entered {
    Taken(Slot),
    Queued(Queued),
}

/// A place in the queue; dropping it gives it up, and with it the place to run that may have come meanwhile.
struct Queued {
    slots: Arc<Slots>,
    ticket: u64,
    answer: oneshot::Receiver<Result<Slot, NoSlot>>,
}

impl Queued {
    /// Where it was when its time was over.
    fn too_late(&self, limits: SlotLimits) -> NoSlot {
        let state = self.slots.lock();
        let mut calls = state.queue.iter().filter(|waiting| waiting.kind == Kind::Call);
        let before = calls.position(|waiting| waiting.ticket == self.ticket);
        NoSlot::TooLong {
            position: before.map_or(1, |before| before + 1),
            waiting: state.calls().max(1),
            waited_ms: limits.queue_timeout.as_millis(),
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        let place = state
            .queue
            .iter()
            .position(|waiting| waiting.ticket == self.ticket);
        let left = place.and_then(|place| state.queue.remove(place));
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(running: usize, per_agent: usize, queued: usize) -> SlotLimits {
        SlotLimits {
            running,
            per_agent,
            queued,
            queue_timeout: Duration::from_secs(30),
        }
    }

    fn agent(name: &str) -> AgentId {
        AgentId::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_gets_the_place_that_is_freed() {
        let slots = Arc::new(Slots::default());
        let first = slots.acquire(&agent("a"), limits(1, 0, 1)).await.unwrap();
        let second = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(&agent("b"), limits(1, 0, 1)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(second.await.unwrap(), Ok(()));
        assert_eq!(slots.state.lock().unwrap().running, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_a_long_wait_and_an_agents_share_are_refused() {
        let slots = Arc::new(Slots::default());
        let _held = slots.acquire(&agent("a"), limits(1, 1, 1)).await.unwrap();
        assert_eq!(
            slots.acquire(&agent("a"), limits(1, 1, 1)).await.err(),
            Some(NoSlot::AgentShare { share: 1 })
        );
        assert_eq!(
            slots.acquire(&agent("b"), limits(1, 1, 1)).await.err(),
            Some(NoSlot::TooLong {
                position: 1,
                waiting: 1,
                waited_ms: 30_000
            })
        );
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(&agent("b"), limits(1, 1, 1)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(
            slots.acquire(&agent("c"), limits(1, 1, 1)).await.err(),
            Some(NoSlot::QueueFull {
                running: 1,
                waiting: 1
            })
        );
        assert!(matches!(waiting.await.unwrap(), Err(NoSlot::TooLong { .. })));
        assert_eq!(slots.counts(), (1, 0));
    }

    /// A call that waits, and what it got, told in the order in which they got it.
    fn waiter(
        slots: &Arc<Slots>,
        name: &str,
        limits: SlotLimits,
        served: &Arc<Mutex<Vec<String>>>,
    ) -> tokio::task::JoinHandle<Slot> {
        let (slots, served, name) = (Arc::clone(slots), Arc::clone(served), name.to_owned());
        tokio::spawn(async move {
            let slot = slots.acquire(&agent(&name), limits).await.unwrap();
            served.lock().unwrap().push(name);
            slot
        })
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_first_is_served_first_and_nobody_passes() {
        let (slots, served) = (Arc::new(Slots::default()), Arc::default());
        let two = limits(2, 0, 9);
        let held = [
            slots.acquire(&agent("x"), two).await.unwrap(),
            slots.acquire(&agent("y"), two).await.unwrap(),
        ];
        let mut waiting = Vec::new();
        for name in ["a", "b", "c"] {
            waiting.push(waiter(&slots, name, two, &served));
            tokio::task::yield_now().await;
        }
        assert_eq!(slots.counts(), (2, 3));
        drop(held);
        // Two were freed and given away in the same moment: who comes now is behind the third.
        waiting.push(waiter(&slots, "d", two, &served));
        let mut waiting = waiting.into_iter();
        for _ in 0..4 {
            drop(waiting.next().unwrap().await.unwrap());
        }
        assert_eq!(*served.lock().unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(slots.counts(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_its_own_share_holds_nobody_up() {
        let slots = Arc::new(Slots::default());
        let of_a = slots.acquire(&agent("a"), limits(2, 1, 9)).await.unwrap();
        let allowed = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.wait(&agent("a"), limits(2, 1, 9)).await }
        });
        tokio::task::yield_now().await;
        drop(slots.acquire(&agent("b"), limits(2, 1, 9)).await.unwrap());
        assert!(!allowed.is_finished());
        drop(of_a);
        drop(allowed.await.unwrap());
        assert_eq!(slots.counts(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_the_queue_leaves_its_place_to_the_next() {
        let (slots, served) = (Arc::new(Slots::default()), Arc::default());
        let one = limits(1, 0, 9);
        let held = slots.acquire(&agent("x"), one).await.unwrap();
        let first = waiter(&slots, "a", one, &served);
        let second = waiter(&slots, "b", one, &served);
        tokio::task::yield_now().await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(slots.counts(), (1, 1));
        drop(held);
        drop(second.await.unwrap());
        assert_eq!(*served.lock().unwrap(), ["b"]);
        assert_eq!(slots.counts(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn raised_limits_count_for_those_who_wait() {
        let (slots, served) = (Arc::new(Slots::default()), Arc::default());
        let _held = slots.acquire(&agent("x"), limits(1, 0, 9)).await.unwrap();
        let first = waiter(&slots, "a", limits(1, 0, 9), &served);
        tokio::task::yield_now().await;
        let second = slots.acquire(&agent("b"), limits(3, 0, 9)).await.unwrap();
        drop((first.await.unwrap(), second));
        assert_eq!(slots.counts(), (1, 0));
    }
}
