//! Keeping the events to their count.

use super::{config::Retention, error::Fault, tx::Tx};

/// Rows of events and audit records removed in one step.
pub(super) const ROWS: i64 = 2000;

/// Events above `keep_count` that may pile up before a batch removes them.
const SLACK: u64 = 512;

/// Removes the events above the count, a few at a time, with any batch that comes by.
pub(super) fn trim_events(tx: &mut Tx<'_>, retention: &Retention) -> Result<(), Fault> {
    let slack = SLACK.min(retention.events_count / 8);
    let keep = retention.events_count.max(1);
    if tx.state.events_kept <= keep + slack {
        return Ok(());
    }
    let surplus = i64::try_from(tx.state.events_kept - keep)
        .unwrap_or(ROWS)
        .min(ROWS);
    let removed = tx.execute(
        "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?1)",
        (surplus,),
    )?;
    tx.state.events_kept = tx.state.events_kept.saturating_sub(as_count(removed));
    Ok(())
}

/// A number of rows, as it is counted.
pub(super) fn as_count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
