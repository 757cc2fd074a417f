//! How many processes run at once, in all and per agent, and who waits for a place (`settings.md` 2, limits).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{domain::AgentId, settings::Limits};

/// The limits in force; 0 switches one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotLimits {
    /// Processes at once.
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
pub(super) enum NoSlot {
    /// The agent has used its share.
    #[error("the agent has too many runs")]
    AgentShare,
    /// All places are taken and the queue is full or the wait was too long.
    #[error("too many runs")]
    Full,
}

/// The places.
#[derive(Debug, Default)]
pub(super) struct Slots {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    queued: usize,
    per_agent: HashMap<AgentId, usize>,
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
        if let Some(slot) = self.try_acquire(agent, limits)? {
            return Ok(slot);
        }
        let _queued = Queued::enter(self, limits)?;
        let wait = async {
            loop {
                let freed = self.freed.notified();
                if let Some(slot) = self.try_acquire(agent, limits)? {
                    return Ok(slot.waited_for());
                }
                freed.await;
            }
        };
        tokio::time::timeout(limits.queue_timeout, wait)
            .await
            .unwrap_or(Err(NoSlot::Full))
    }

    /// Waits for a place for as long as it takes: for what was allowed and has a start-by of its own.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the wait.
    pub(super) async fn wait(self: &Arc<Self>, agent: &AgentId, limits: SlotLimits) -> Slot {
        loop {
            let freed = self.freed.notified();
            if let Ok(Some(slot)) = self.try_acquire(agent, limits) {
                return slot.waited_for();
            }
            freed.await;
        }
    }

    /// How many run now, and how many calls wait for a place.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.running, state.queued)
    }

    /// Takes a place for something that runs already, whatever the limits say (a run found at start).
    pub(super) fn take(self: &Arc<Self>, agent: &AgentId) -> Slot {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.occupy(&mut state, agent)
    }

    fn try_acquire(self: &Arc<Self>, agent: &AgentId, limits: SlotLimits) -> Result<Option<Slot>, NoSlot> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let share = state.per_agent.get(agent).copied().unwrap_or(0);
        if limits.per_agent != 0 && share >= limits.per_agent {
            return Err(NoSlot::AgentShare);
        }
        if limits.running != 0 && state.running >= limits.running {
            return Ok(None);
        }
        Ok(Some(self.occupy(&mut state, agent)))
    }

    fn occupy(self: &Arc<Self>, state: &mut State, agent: &AgentId) -> Slot {
        state.running += 1;
        *state.per_agent.entry(agent.clone()).or_default() += 1;
        Slot {
            slots: Arc::clone(self),
            agent: agent.clone(),
            waited: false,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running -= 1;
        if let Some(share) = state.per_agent.get_mut(&self.agent) {
            *share -= 1;
            if *share == 0 {
                state.per_agent.remove(&self.agent);
            }
        }
        drop(state);
        self.slots.freed.notify_waiters();
    }
}

struct Queued<'a>(&'a Slots);

impl<'a> Queued<'a> {
    fn enter(slots: &'a Slots, limits: SlotLimits) -> Result<Self, NoSlot> {
        let mut state = slots.state.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.queued != 0 && state.queued >= limits.queued {
            return Err(NoSlot::Full);
        }
        state.queued += 1;
        Ok(Self(slots))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).queued -= 1;
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
            Some(NoSlot::AgentShare)
        );
        assert_eq!(
            slots.acquire(&agent("b"), limits(1, 1, 1)).await.err(),
            Some(NoSlot::Full)
        );
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire(&agent("b"), limits(1, 1, 1)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(
            slots.acquire(&agent("c"), limits(1, 1, 1)).await.err(),
            Some(NoSlot::Full)
        );
        assert_eq!(waiting.await.unwrap(), Err(NoSlot::Full));
    }
}
