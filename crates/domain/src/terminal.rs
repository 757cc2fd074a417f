//! The size of a pseudo-terminal.

use serde::{Deserialize, Serialize};

/// Rows and columns of a pseudo-terminal; neither is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u16, u16)", into = "(u16, u16)")]
pub struct TerminalSize {
    rows: u16,
    cols: u16,
}

impl TerminalSize {
    /// What every terminal begins with (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`).
    pub const DEFAULT: Self = Self { rows: 30, cols: 120 };

    /// The most rows and columns: what a screen keeps in memory grows with their product.
    pub const MAX: u16 = 1000;

    /// A size from 1 by 1 to [`Self::MAX`] by [`Self::MAX`].
    pub fn new(rows: u16, cols: u16) -> Option<Self> {
        let is_size = |number| (1..=Self::MAX).contains(&number);
        (is_size(rows) && is_size(cols)).then_some(Self { rows, cols })
    }

    /// Lines of text, from 1 to [`Self::MAX`].
    pub const fn rows(self) -> u16 {
        self.rows
    }

    /// Characters in a line, from 1 to [`Self::MAX`].
    pub const fn cols(self) -> u16 {
        self.cols
    }
}

impl TryFrom<(u16, u16)> for TerminalSize {
    type Error = &'static str;

    fn try_from((rows, cols): (u16, u16)) -> Result<Self, Self::Error> {
        Self::new(rows, cols).ok_or("no terminal has this size")
    }
}

impl From<TerminalSize> for (u16, u16) {
    fn from(TerminalSize { rows, cols }: TerminalSize) -> Self {
        (rows, cols)
    }
}
