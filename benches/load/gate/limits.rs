//! The limits of the guard, and what a figure means beside its limit.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::interval::Interval;

/// `benches/limits.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// The share by which a figure may pass its limit before it is worse.
    margin: f64,
    rows: BTreeMap<String, Limit>,
}

/// What a row was when its limit was set.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// More is worse: times, counts, sizes.
    AtMost(f64),
    /// Less is worse: answers a second.
    AtLeast(f64),
}

/// A figure beside its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Within,
    /// Better by more than the margin: the limit can be set to the new figure.
    Better,
    /// Worse by more than the margin, even at the better end of its interval.
    Worse,
}

impl Limits {
    /// Reads the file's text.
    ///
    /// # Errors
    /// What TOML or the members of the file do not allow, with the line.
    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The limit of a row, by its name.
    pub(crate) fn of(&self, row: &str) -> Option<Limit> {
        self.rows.get(row).copied()
    }

    /// The names of all rows, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// What a figure means beside a limit.
    pub(crate) fn judge(&self, limit: Limit, measured: Interval) -> Verdict {
        let (over, under) = (1.0 + self.margin, 1.0 - self.margin);
        let (is_worse, is_better) = match limit {
            Limit::AtMost(limit) => (measured.low > limit * over, measured.high < limit * under),
            Limit::AtLeast(limit) => (measured.high < limit * under, measured.low > limit * over),
        };
        if is_worse {
            Verdict::Worse
        } else if is_better {
            Verdict::Better
        } else {
            Verdict::Within
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}
