//! Files that a segment may write, and what they decide (D1).

use countersign_domain::{deciding, may_hold_deciding};

use super::{evaluation::Evaluation, work::Work};

use crate::command::paths;

/// Files of one segment that are looked up; of more, one may be among them.
const MAX_OUTPUTS: usize = 1024;

/// What a miss says where a segment may write such a file. The kernel keeps only those that are there.
pub(crate) const WRITES_DECIDING: &str = "it may write a file that decides what programs start";

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
        if path.starts_with('/') && self.is_decided("/", &path) {
            return true;
        }
        let is_here = |base: &String| {
            // A copy or a clone may have the name of what it is made of.
            let named = paths::join_normalised(base, last_name(&path));
            deciding(&named).is_some() || (!path.starts_with('/') && self.is_decided(base, &path))
        };
        let bases = work.context.directory.candidates();
        match bases {
            Some(bases) => bases.iter().any(is_here),
            None => !path.starts_with('/'),
        }
    }

    fn is_decided(&self, base: &str, path: &str) -> bool {
        let whole = paths::join_normalised(base, path);
        deciding(&whole).is_some()
            || may_hold_deciding(&whole)
            || self.leads_to_deciding(base, &whole)
            // Behind a link, `..` is not what it reads.
            || (path.contains("..") && self.leads_to_deciding(base, &format!("{base}/{path}")))
    }

    /// Whether links on the way from `base` lead there. What is not there yet lies where the part of it is that is.
    fn leads_to_deciding(&self, base: &str, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut prefixes = ends
            .filter_map(|end| path.get(..end))
            .filter(|prefix| !prefix.is_empty() && (*prefix == base || !paths::is_within(base, prefix)));
        prefixes.any(|prefix| {
            self.lookup.real(prefix).is_some_and(|real| {
                deciding(&real).is_some() || (prefix.len() == path.len() && may_hold_deciding(&real))
            })
        })
    }
}

/// What a copy of a file or repository is called: `host:a/b.git` becomes `b`.
fn last_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let name = path.rsplit(['/', ':']).next().unwrap_or_default();
    name.strip_suffix(".git").unwrap_or(name)
}
