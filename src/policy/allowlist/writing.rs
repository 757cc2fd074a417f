//! Files that a segment may write, and what they decide (D1).

use super::{evaluation::Evaluation, work::Work};
use crate::{command::paths, domain::deciding};

/// Files of one segment that are looked up; of more, one may be among them.
const MAX_OUTPUTS: usize = 256;

impl Evaluation<'_> {
    /// Whether one of the files that a segment may write decides what programs start, as it reads or as links lead.
    pub(super) fn writes_deciding(&self, work: &Work<'_>, outputs: &[String]) -> bool {
        outputs.len() > MAX_OUTPUTS || outputs.iter().any(|output| self.is_deciding(output, work))
    }

    fn is_deciding(&self, output: &str, work: &Work<'_>) -> bool {
        let path = paths::expand_home(output, self.lookup.home());
        if deciding(&path).is_some() {
            return true;
        }
        let is_decided = |base: &str| {
            let whole = paths::join_normalised(base, &path);
            deciding(&whole).is_some() || self.leads_to_deciding(&whole)
        };
        if path.starts_with('/') {
            return is_decided("/");
        }
        let bases = work.place.directory.candidates();
        bases.is_none_or(|bases| bases.iter().any(|base| is_decided(base)))
    }

    /// Whether links on the way lead there. What is not there yet lies where the part of it is that is.
    fn leads_to_deciding(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut prefixes = ends
            .filter_map(|end| path.get(..end))
            .filter(|prefix| !prefix.is_empty());
        prefixes.any(|prefix| {
            self.lookup
                .real(prefix)
                .is_some_and(|real| deciding(&real).is_some())
        })
    }
}
