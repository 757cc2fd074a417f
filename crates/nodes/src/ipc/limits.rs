//! How many may come, and how often.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

/// New connections per second of one account, with a burst.
#[derive(Debug)]
pub(super) struct Rate {
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Room left, in thousandths of a connection; `None` before the first.
    left: Option<u64>,
    at: Instant,
}

const ONE: u64 = 1000;

impl Rate {
    pub(super) fn new() -> Self {
        Self {
            bucket: Mutex::new(Bucket {
                left: None,
                at: Instant::now(),
            }),
        }
    }

    /// Whether one more may come now. No limit where `per_second` is 0.
    pub(super) fn admit(&self, per_second: u64, burst: u64) -> bool {
        if per_second == 0 {
            return true;
        }
        let full = burst.max(1).saturating_mul(ONE);
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = u64::try_from(now.saturating_duration_since(bucket.at).as_millis()).unwrap_or(u64::MAX);
        let left = bucket
            .left
            .unwrap_or(full)
            .saturating_add(passed.saturating_mul(per_second))
            .min(full);
        bucket.at = now;
        let admitted = left >= ONE;
        bucket.left = Some(if admitted { left - ONE } else { left });
        admitted
    }
}

/// Prompts that are open, by session.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    open: Mutex<HashMap<String, usize>>,
}

/// Held while a prompt is open.
#[derive(Debug)]
pub(super) struct OpenPrompt {
    prompts: Arc<Prompts>,
    session: String,
}

impl Prompts {
    /// Counts one more of a session, unless it has `most` of them. No limit where that is 0.
    pub(super) fn open(self: &Arc<Self>, session: &str, most: usize) -> Option<OpenPrompt> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(session.to_owned()).or_default();
        if most > 0 && *count >= most {
            return None;
        }
        *count += 1;
        Some(OpenPrompt {
            prompts: Arc::clone(self),
            session: session.to_owned(),
        })
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        let mut open = self.prompts.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_so_many_a_second() {
        let rate = Rate::new();
        let admitted = |count: usize| (0..count).filter(|_| rate.admit(50, 200)).count();
        assert_eq!(admitted(300), 200);
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(admitted(300), 5);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(admitted(300), 200);
        assert!((0..1000).all(|_| rate.admit(0, 1)));
    }

    #[test]
    fn each_session_has_its_own_prompts() {
        let prompts = Arc::new(Prompts::default());
        let first = prompts.open("a", 2).unwrap();
        let _second = prompts.open("a", 2).unwrap();
        assert!(prompts.open("a", 2).is_none());
        assert!(prompts.open("b", 2).is_some());
        drop(first);
        assert!(prompts.open("a", 2).is_some());
        assert!(prompts.open("a", 0).is_some());
    }
}
