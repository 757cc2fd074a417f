//! What colours mean.

/// A colour with a meaning; left out where standard output is no terminal or `NO_COLOR` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Caution,
    /// It was refused, or is wrong.
    Bad,
    Dim,
}

impl Tone {
    /// The sequence that a terminal obeys.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Caution => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Dim => "\u{1b}[2m",
        }
    }
}
