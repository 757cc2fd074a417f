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

    /// When the row of this name has been measured enough.
    pub(crate) fn enough(&self, row: &str) -> Enough {
        Enough {
            margin: self.margin,
            limit: self.of(row),
        }
    }

    /// What a figure means beside a limit.
    pub(crate) fn evaluate(&self, limit: Limit, measured: Interval) -> Verdict {
        let (over, under) = (1.0 + self.margin, 1.0 - self.margin);
        let is_worse = limit.is_passed(self.margin, measured);
        let is_better = match limit {
            Limit::AtMost(limit) => measured.high < limit * under,
            Limit::AtLeast(limit) => measured.low > limit * over,
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

impl Limit {
    /// Whether all of an interval is worse than the limit by more than the margin.
    fn is_passed(self, margin: f64, measured: Interval) -> bool {
        match self {
            Self::AtMost(limit) => measured.low > limit * (1.0 + margin),
            Self::AtLeast(limit) => measured.high < limit * (1.0 - margin),
        }
    }

    /// Whether all of an interval is no worse than the limit by more than the margin.
    fn is_kept(self, margin: f64, measured: Interval) -> bool {
        match self {
            Self::AtMost(limit) => measured.high <= limit * (1.0 + margin),
            Self::AtLeast(limit) => measured.low >= limit * (1.0 - margin),
        }
    }
}

/// When a row has been measured enough: its interval is narrow, or all of it lies on one side of the limit, so that more
/// rounds would not change what the guard says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enough {
    margin: f64,
    limit: Option<Limit>,
}

impl Enough {
    /// Whether this interval is enough.
    pub(crate) fn is_met(self, measured: Interval) -> bool {
        let is_sure =
            |limit: Limit| limit.is_kept(self.margin, measured) || limit.is_passed(self.margin, measured);
        measured.is_narrow() || self.limit.is_some_and(is_sure)
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
