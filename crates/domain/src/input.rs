//! What a command can still be told after it was judged.

use super::vocabulary;

vocabulary! {
    /// The standard input of a command, as it was decided about.
    pub enum CommandInput("closed, withheld, pipe, guarded-terminal or terminal") {
        /// It reads end of file, as the call wanted.
        Closed = "closed",
        /// It reads end of file although the call wanted it open: what covers the command does not include that.
        Withheld = "withheld",
        /// A caller who may write to its session writes into a pipe.
        Pipe = "pipe",
        /// As [`Self::Terminal`], but what it starts to page and to edit is replaced by programs that take no commands.
        GuardedTerminal = "guarded-terminal",
        /// A caller who may write to its session types at its terminal.
        Terminal = "terminal",
    }
}

impl CommandInput {
    /// What a call wants: `pty` is a terminal, and what begins in the background a pipe.
    pub const fn wanted(background: bool, pty: bool) -> Self {
        match (background, pty) {
            (_, true) => Self::Terminal,
            (true, false) => Self::Pipe,
            (false, false) => Self::Closed,
        }
    }

    /// Whether something can be written to the command.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Pipe | Self::GuardedTerminal | Self::Terminal => true,
            Self::Closed | Self::Withheld => false,
        }
    }

    /// Whether it is a terminal.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::GuardedTerminal | Self::Terminal => true,
            Self::Closed | Self::Withheld | Self::Pipe => false,
        }
    }

    /// The same where it says more than that the command reads end of file, as it was asked to.
    pub const fn noteworthy(self) -> Option<Self> {
        match self {
            Self::Closed => None,
            Self::Withheld | Self::Pipe | Self::GuardedTerminal | Self::Terminal => Some(self),
        }
    }

    /// Whether it is [`Self::Closed`].
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "the macro that makes the enum marks no variant"
)]
impl Default for CommandInput {
    fn default() -> Self {
        Self::Closed
    }
}
