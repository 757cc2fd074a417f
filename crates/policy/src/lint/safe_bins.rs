//! Configured safe bins that are none (SB1, SB6).

use std::collections::BTreeMap;

use super::{Remark, RemarkCode};
use crate::command::safe_bin::{Limits, SafeBinProfile, may_be_safe};

/// What is odd about each configured safe bin, by its name.
pub fn safe_bins<'a>(
    names: &'a [String],
    profiles: &BTreeMap<String, SafeBinProfile>,
) -> Vec<(&'a str, Remark)> {
    let remark = |name: &str| {
        if !may_be_safe(name) {
            let why =
                "it can run other programs, write files or execute code, so it never counts as a safe bin";
            Some(Remark::new(RemarkCode::SafeBinRefused, why))
        } else if Limits::of(name, profiles).is_none() {
            let why =
                "it has no profile that says which arguments are harmless, so it never counts as a safe bin";
            Some(Remark::new(RemarkCode::SafeBinWithoutProfile, why))
        } else {
            None
        }
    };
    names
        .iter()
        .filter_map(|name| Some((name.as_str(), remark(name)?)))
        .collect()
}
