//! The memory of nonces: the same line counts once (`docs/spec/ipc.md#8-beyond-the-product`).

use std::collections::{HashSet, VecDeque};

use sha2::{Digest as _, Sha256};

use countersign_domain::UnixMillis;

use super::NONCE_MEMORY_MS;

/// The most nonces that are remembered at once.
const MAX_NONCES: usize = 65_536;

/// Nonces of lines whose proof was right. Only those are remembered, so that junk neither fills it nor burns the nonce
/// of a genuine line. Digests are kept: a nonce may be as long as a line.
#[derive(Debug, Default)]
pub struct NonceMemory {
    seen: HashSet<[u8; 32]>,
    order: VecDeque<(UnixMillis, [u8; 32])>,
}

/// Why a nonce does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonceRefused {
    Replayed,
    /// Nothing is forgotten before its time, so nothing more is taken.
    Full,
}

impl NonceMemory {
    /// Remembers a nonce that was not used within its time.
    pub(super) fn remember(&mut self, nonce: &str, now: UnixMillis) -> Result<(), NonceRefused> {
        self.forget_before(now);
        let digest: [u8; 32] = Sha256::digest(nonce.as_bytes()).into();
        if self.seen.contains(&digest) {
            return Err(NonceRefused::Replayed);
        }
        if self.seen.len() >= MAX_NONCES {
            return Err(NonceRefused::Full);
        }
        self.seen.insert(digest);
        self.order.push_back((now, digest));
        Ok(())
    }

    fn forget_before(&mut self, now: UnixMillis) {
        while let Some((at, digest)) = self.order.front() {
            // A clock that was set back makes them live longer, never shorter.
            let age = i128::from(now.get()) - i128::from(at.get());
            if age <= i128::from(NONCE_MEMORY_MS) {
                return;
            }
            self.seen.remove(digest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_counts_once_within_its_time() {
        let mut memory = NonceMemory::default();
        let at = UnixMillis::new;
        assert_eq!(memory.remember("a", at(0)), Ok(()));
        assert_eq!(memory.remember("a", at(20_000)), Err(NonceRefused::Replayed));
        assert_eq!(memory.remember("b", at(20_000)), Ok(()));
        assert_eq!(memory.remember("a", at(20_001)), Ok(()));
        assert_eq!(memory.remember("b", at(-5)), Err(NonceRefused::Replayed));
        assert_eq!(memory.remember("b", at(i64::MAX)), Ok(()));
        assert_eq!(memory.remember("b", at(i64::MIN)), Err(NonceRefused::Replayed));
    }

    #[test]
    fn a_full_memory_refuses_instead_of_forgetting() {
        let mut memory = NonceMemory::default();
        let now = UnixMillis::new(1);
        for number in 0..MAX_NONCES {
            assert_eq!(memory.remember(&number.to_string(), now), Ok(()));
        }
        assert_eq!(memory.remember("one more", now), Err(NonceRefused::Full));
        assert_eq!(memory.remember("0", now), Err(NonceRefused::Replayed));
        assert_eq!(memory.remember("one more", UnixMillis::new(20_002)), Ok(()));
        assert!(memory.seen.len() == 1 && memory.order.len() == 1);
    }
}
