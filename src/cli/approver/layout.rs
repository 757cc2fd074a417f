//! How the rows of the screen are shared out. Pure.

/// Rows of the list at most, of all rows.
const LIST_SHARE: usize = 3;
/// Rows that are neither list nor text: the title, two lines around the text, the message and the keys.
const FRAME_ROWS: usize = 5;
/// The command stays in sight above a panel, with so many rows.
pub(super) const PINNED_ROWS: usize = 2;

/// How many rows each part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) list: usize,
    /// What would run.
    pub(super) pane: usize,
    /// What stands in the place of both, but for the pinned command.
    pub(super) overlay: usize,
}

impl Layout {
    /// For so many rows of the screen, questions in the list and rows of a command that stay above a panel.
    pub(super) fn of(rows: usize, listed: usize, pinned: usize) -> Self {
        let room = rows.saturating_sub(FRAME_ROWS);
        let list = listed.clamp(1, (room / LIST_SHARE).max(1));
        Self {
            list,
            pane: room.saturating_sub(list).max(1),
            overlay: room.saturating_sub(pinned).max(1),
        }
    }
}
