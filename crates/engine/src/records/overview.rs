//! Figures of a stretch of time, with what would stop the questions that come most often.

use countersign_domain::proposals;
use countersign_ledger::overview::{Overview, Stretch};

use super::Records;
use crate::reply::StorageTrouble;

impl Records {
    /// Figures of a stretch, for those who see all agents. The second part has for each rule what its latest question proposes to
    /// remember, in words, from the narrowest to the widest.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn overview(&self, stretch: Stretch) -> Result<(Overview, Vec<Vec<String>>), StorageTrouble> {
        let overview = self.ledger.overview(stretch).await?;
        let mut would_stop = Vec::with_capacity(overview.rules.len());
        for rule in &overview.rules {
            let latest = self.ledger.approval(&rule.latest).await?;
            let proposed = latest.map(|approval| proposals(&approval.card.proposed_patterns));
            let words = proposed.into_iter().flatten();
            would_stop.push(words.map(|proposal| proposal.words()).collect());
        }
        Ok((overview, would_stop))
    }
}
