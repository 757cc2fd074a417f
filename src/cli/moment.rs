//! Times as filters take them: so long ago (`2h`), or RFC 3339.

use std::time::Duration;

use countersign_domain::UnixMillis;

use super::{client::Query, duration::parse_duration};

/// A time that a filter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long before now.
    Ago(Duration),
    At(UnixMillis),
}

/// Text that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected how long ago (30s, 10m, 2h, 7d) or a time such as 2026-11-23T00:00:00Z")]
pub(crate) struct InvalidMoment;

/// Parses a duration or a time of RFC 3339.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, InvalidMoment> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(Moment::Ago(ago));
    }
    UnixMillis::of_rfc3339(text).map(Moment::At).ok_or(InvalidMoment)
}

impl Moment {
    /// When that is.
    pub(crate) fn at(self, now: UnixMillis) -> UnixMillis {
        match self {
            Self::At(time) => time,
            Self::Ago(ago) => {
                let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
                UnixMillis::new(now.get().saturating_sub(ago))
            }
        }
    }
}

/// From when to when.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Period {
    /// Only from then on: so long ago (2h, 7d), or a time such as 2026-11-23T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<Moment>,
    /// Only before then, in the same forms
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<Moment>,
}

impl Period {
    /// The parameters of a list that knows `since` and `until`.
    pub(crate) fn query(self, now: UnixMillis) -> Query {
        let parameter = |name, moment: Option<Moment>| Some((name, moment?.at(now).get().to_string()));
        [parameter("since", self.since), parameter("until", self.until)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether it says until when.
    pub(crate) const fn ends(self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_both_forms() {
        let now = UnixMillis::new(10_000_000);
        let at = |text: &str| parse_moment(text).expect(text).at(now).get();
        assert_eq!(at("2s"), 9_998_000);
        assert_eq!(at("365d"), 10_000_000 - 365 * 86_400_000);
        assert_eq!(at("1970-01-01T00:00:01Z"), 1000);
        for text in ["", "yesterday", "2", "2026-11-23", "-1h"] {
            assert_eq!(parse_moment(text), Err(InvalidMoment), "{text}");
        }
    }

    #[test]
    fn a_period_is_two_parameters() {
        let now = UnixMillis::new(10_000);
        let period = Period {
            since: Some(Moment::At(UnixMillis::new(1000))),
            until: Some(Moment::Ago(Duration::from_secs(5))),
        };
        assert_eq!(
            period.query(now),
            [("since", "1000".to_owned()), ("until", "5000".to_owned())]
        );
    }
}
