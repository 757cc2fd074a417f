//! How long sessions that have ended are kept (`docs/spec/exec-tool.md#8-the-process-tool`); what is forgotten is a pure function.

use std::{sync::Arc, time::Duration};

use countersign_domain::{AgentId, UnixMillis};
use countersign_ledger::{EndedSession, Ledger};
use countersign_sys::clock::Clock;

use super::state::ProcessState;

use crate::{accepted_policy::AcceptedPolicy, reply::StorageTrouble};

/// What bounds the sessions of one agent that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptSessions {
    /// How long each is kept (`tools.exec.cleanupMs`).
    pub(super) age: Duration,
    /// How many are kept.
    pub(super) count: usize,
    /// Characters of output of all of them.
    pub(super) chars: u64,
    /// Characters of output that are kept of one (`[output] max_chars`).
    pub(super) chars_each: u64,
}

impl KeptSessions {
    /// How many sessions of an agent that have ended are kept.
    pub(super) const COUNT: usize = 50;
    /// How many characters of output all of them have.
    pub(super) const CHARS: u64 = 2_000_000;

    /// Whether one that ended then is too old.
    pub(super) fn is_too_old(&self, ended_at: UnixMillis, now: UnixMillis) -> bool {
        now.since(ended_at) >= self.age
    }

    /// The ids of those that are forgotten now. `ended` has the latest first, and that one goes only by its age.
    pub(super) fn forgotten(&self, ended: &[EndedSession], now: UnixMillis) -> Vec<String> {
        let mut chars: u64 = 0;
        let mut is_full = false;
        let mut forgotten = Vec::new();
        for (index, session) in ended.iter().enumerate() {
            // No character comes from less than a byte.
            chars = chars.saturating_add(session.output_bytes.min(self.chars_each));
            is_full |= index > 0 && (index >= self.count || chars > self.chars);
            if is_full || self.is_too_old(session.ended_at, now) {
                forgotten.push(session.id.clone());
            }
        }
        forgotten
    }
}

/// Forgets the process sessions that are kept no longer.
#[derive(Debug)]
pub(crate) struct SessionRetention {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    accepted_policy: Arc<AcceptedPolicy>,
    sessions: Arc<ProcessState>,
}

impl SessionRetention {
    pub(crate) const fn new(
        ledger: Ledger,
        clock: Arc<dyn Clock>,
        accepted_policy: Arc<AcceptedPolicy>,
        sessions: Arc<ProcessState>,
    ) -> Self {
        Self {
            ledger,
            clock,
            accepted_policy,
            sessions,
        }
    }

    /// Forgets the sessions of an agent that are too old, or more than are kept.
    pub(crate) async fn evict(&self, agent: &AgentId) {
        let ended = match self.ledger.ended_sessions(agent).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "old process sessions stay for now"
                );
                return;
            }
        };
        let forgotten = self.kept(agent).forgotten(&ended, self.clock.now());
        if !forgotten.is_empty()
            && let Err(error) = self.forget(forgotten).await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old process sessions stay for now"
            );
        }
    }

    pub(super) fn kept(&self, agent: &AgentId) -> KeptSessions {
        let settings = Arc::clone(&self.accepted_policy.in_effect().settings);
        KeptSessions {
            age: settings.policy.exec(agent).cleanup,
            count: KeptSessions::COUNT,
            chars: KeptSessions::CHARS,
            chars_each: u64::try_from(settings.server.output.max_chars).unwrap_or(u64::MAX),
        }
    }

    pub(super) async fn forget(&self, ids: Vec<String>) -> Result<(), StorageTrouble> {
        self.ledger.forget_sessions(ids.clone()).await?;
        for id in ids {
            self.sessions.release(&id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    /// Sessions that ended so many milliseconds ago with so many bytes.
    fn ended(sessions: &[(i64, u64)]) -> Vec<EndedSession> {
        let session = |(index, (ago, output_bytes)): (usize, &(i64, u64))| EndedSession {
            id: index.to_string(),
            ended_at: UnixMillis::new(NOW - ago),
            output_bytes: *output_bytes,
        };
        sessions.iter().enumerate().map(session).collect()
    }

    #[track_caller]
    fn check(sessions: &[(i64, u64)], forgotten: &[&str]) {
        let kept = KeptSessions {
            age: Duration::from_mins(1),
            count: 3,
            chars: 100,
            chars_each: 60,
        };
        assert_eq!(kept.forgotten(&ended(sessions), UnixMillis::new(NOW)), forgotten);
    }

    #[test]
    fn the_oldest_go_first_by_number_by_characters_and_by_age() {
        check(&[], &[]);
        check(&[(1, 0), (2, 0), (3, 0)], &[]);
        check(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)], &["3", "4"]);
        check(&[(1, 40), (2, 40), (3, 20)], &[]);
        check(&[(1, 40), (2, 40), (3, 21)], &["2"]);
        check(&[(1, 0), (59_999, 0), (60_000, 0)], &["2"]);
    }

    #[test]
    fn a_session_counts_with_what_is_kept_of_it() {
        check(&[(1, 1_000_000), (2, 40)], &[]);
        check(&[(1, 1_000_000), (2, 41)], &["1"]);
    }

    #[test]
    fn what_is_older_than_one_that_is_forgotten_for_room_is_forgotten_too() {
        check(&[(1, 60), (2, 60), (3, 1)], &["1", "2"]);
    }

    #[test]
    fn the_newest_stays_however_much_it_wrote() {
        let kept = KeptSessions {
            age: Duration::from_mins(1),
            count: 0,
            chars: 10,
            chars_each: 1000,
        };
        let sessions = ended(&[(1, 500), (2, 0)]);
        assert_eq!(kept.forgotten(&sessions, UnixMillis::new(NOW)), ["1"]);
    }
}
