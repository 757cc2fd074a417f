//! The runs of the record, judged anew.

use std::collections::HashMap;

use countersign_domain::{Ask, Security};
use countersign_engine::candidate::{Candidate, Opinion, RecordedCommand};
use countersign_wire::{run::RunBody, trial::BacktestBody};

use super::{
    past::{self, Fingerprint, LeftOut},
    tally::{ChangedCommand, ChangedCommands, Compared, Counts},
};

/// Runs of the record, judged anew one after the other, the newest first.
#[derive(Debug, Default)]
pub struct Backtest {
    opinions: HashMap<Fingerprint, Option<Opinion>>,
    /// Commands that could be evaluated.
    evaluated: u64,
    counts: Counts,
    changes: ChangedCommands,
}

impl Backtest {
    /// Evaluates a run. A command is evaluated once, however often it ran. What comes of it is not counted before
    /// [`Self::add`].
    ///
    /// # Errors
    /// [`LeftOut`] when it is not known what it was, or what would become of it.
    pub fn compare(&mut self, candidate: &Candidate, run: RunBody) -> Result<Compared, LeftOut> {
        Compared::of(run, |recorded| self.evaluate(candidate, recorded))
    }

    /// Counts a run, and keeps it where it would be decided otherwise.
    pub fn add(&mut self, compared: Result<Compared, LeftOut>) {
        self.counts.add(&compared);
        if let Ok(compared) = compared {
            self.changes.add(compared);
        }
    }

    /// How many runs were counted how.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The commands that would be decided otherwise.
    pub const fn changes(&self) -> &ChangedCommands {
        &self.changes
    }

    /// What is told of it, with at most so many commands.
    pub fn body(&self, most: usize) -> BacktestBody {
        let Self {
            opinions: _,
            evaluated,
            counts,
            changes,
        } = self;
        let (listed, unlisted) = changes.kept().split_at(most.min(changes.kept().len()));
        let unlisted: u64 = unlisted.iter().map(|change| change.count).sum();
        BacktestBody {
            total: counts.total(),
            distinct: *evaluated,
            same: counts.same(),
            now_run: counts.now_run(),
            now_ask: counts.now_ask(),
            now_denied: counts.now_denied(),
            wider_fallback: counts.wider_fallback(),
            skipped: counts.skipped(),
            skipped_by: counts.skipped_by(),
            changed: listed.iter().map(ChangedCommand::body).collect(),
            omitted: changes.omitted() + unlisted,
        }
    }

    fn evaluate(&mut self, candidate: &Candidate, recorded: &RecordedCommand) -> Option<Opinion> {
        let key = past::fingerprint(recorded);
        if let Some(opinion) = self.opinions.get(&key) {
            return opinion.clone();
        }
        let opinion = candidate.evaluate(recorded.clone()).ok();
        self.evaluated += u64::from(opinion.is_some());
        self.opinions.insert(key, opinion.clone());
        opinion
    }
}

/// How much the policy in effect lets run without an answer. Where everything runs unasked, no fallback lets more run.
pub fn fallback_in_force(security: Security, ask: Ask, fallback: Security) -> Security {
    if security == Security::Full && ask != Ask::Always {
        Security::Full
    } else {
        fallback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_the_fallback_unless_nobody_is_asked() {
        use Security::{Allowlist, Deny, Full};
        for (security, ask, fallback, in_force) in [
            (Allowlist, Ask::OnMiss, Deny, Deny),
            (Allowlist, Ask::OnMiss, Allowlist, Allowlist),
            (Full, Ask::Always, Deny, Deny),
            (Full, Ask::Always, Full, Full),
            (Full, Ask::Off, Deny, Full),
            (Full, Ask::OnMiss, Deny, Full),
        ] {
            let told = fallback_in_force(security, ask, fallback);
            assert_eq!(told, in_force, "{security} {ask} {fallback}");
        }
    }
}
