//! How much one analysis may spend on looking for the server's own paths in the words of a command (P6), and on trying
//! them as programs of deny rules.
//!
//! A word of separators alone has as many possible paths as bytes, each nearly as long as the word, so without a bound
//! the work would grow with the square of the text, and every step might ask the file system. An analysis that runs
//! out fails closed: what it did not look at counts as the server's.

use std::cell::Cell;

/// Components looked up, and every 64 bytes of text read; rules that a word is tried on. Commands that people write need
/// some hundreds.
const LIMIT: usize = 65_536;
const BYTES_OF_A_STEP: usize = 64;

/// What was spent so far.
#[derive(Debug, Default)]
pub(super) struct Effort(Cell<usize>);

impl Effort {
    /// Spends what looking at a path costs; `false` when that is too much.
    pub(super) fn spend(&self, path: &str) -> bool {
        let components = path.bytes().filter(|byte| *byte == b'/').count();
        self.spend_steps(1 + components + path.len() / BYTES_OF_A_STEP)
    }

    /// Spends so many steps; `false` when that is too much.
    pub(super) fn spend_steps(&self, cost: usize) -> bool {
        self.0.set(self.0.get().saturating_add(cost));
        !self.is_spent()
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() > LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_deep_paths_cost_more() {
        let effort = Effort::default();
        assert!(effort.spend("/a"));
        assert!(!effort.spend(&"/".repeat(LIMIT)));
        assert!(effort.is_spent() && !effort.spend("a"));
        assert!(!Effort::default().spend(&"a".repeat(LIMIT * BYTES_OF_A_STEP)));
    }
}
