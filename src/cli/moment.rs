//! Times: as filters take them (so long ago, a date, RFC 3339), and as people read them. In tables they are how far from now they
//! are; everywhere else RFC 3339 with the zone of the machine.

use std::{cmp::Reverse, time::Duration};

use jiff::{Timestamp, Zoned, civil::Date, tz::TimeZone};

use countersign_domain::UnixMillis;

use super::{
    client::Query,
    context::Context,
    duration::{parse_duration, rough},
};

/// A time that a filter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long before now.
    Ago(Duration),
    At(UnixMillis),
}

/// Text that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected how long ago (30s, 10m, 2h, 7d), a date such as 2026-11-23, or a time such as 2026-11-23T00:00:00Z"
)]
pub(crate) struct InvalidMoment;

/// Parses a duration, a time of RFC 3339, or a date, which is when that day begins on this machine.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, InvalidMoment> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(Moment::Ago(ago));
    }
    let time = UnixMillis::of_rfc3339(text).or_else(|| beginning_of(text, TimeZone::system()));
    time.map(Moment::At).ok_or(InvalidMoment)
}

/// When a day that is written `2026-11-23` begins.
fn beginning_of(text: &str, zone: TimeZone) -> Option<UnixMillis> {
    // No other form of a date is taken.
    let is_date = text.len() == "2026-11-23".len();
    let date: Date = text.parse().ok().filter(|_| is_date)?;
    let begins = date.to_zoned(zone).ok()?;
    Some(UnixMillis::new(begins.timestamp().as_millisecond()))
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

/// When something ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// So long after now.
    In(Duration),
    At(UnixMillis),
}

/// Text that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected how long from now (10m, 2h, 7d), a date such as 2026-11-23, or a time such as 2026-11-23T00:00:00Z"
)]
pub(crate) struct InvalidEnd;

/// Parses a duration, a time of RFC 3339, or a date, which is when that day begins on this machine.
pub(crate) fn parse_end(text: &str) -> Result<End, InvalidEnd> {
    match parse_moment(text) {
        Ok(Moment::Ago(from_now)) => Ok(End::In(from_now)),
        Ok(Moment::At(time)) => Ok(End::At(time)),
        Err(InvalidMoment) => Err(InvalidEnd),
    }
}

impl End {
    /// When that is.
    pub(crate) fn at(self, now: UnixMillis) -> UnixMillis {
        match self {
            Self::In(from_now) => now + from_now,
            Self::At(time) => time,
        }
    }
}

/// From when to when.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Period {
    /// Only from then on: so long ago (2h, 7d), a date (2026-11-23), or a time (2026-11-23T09:00:00Z)
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

    /// The items of a list that has all of them: those of this period, the newest first. What has no time is as old as can be.
    pub(crate) fn newest<T>(
        self,
        now: UnixMillis,
        items: Vec<T>,
        time: impl Fn(&T) -> Option<UnixMillis>,
    ) -> Vec<T> {
        let mut items = self.within(now, items, &time);
        items.sort_by_key(|item| Reverse(time(item)));
        items
    }

    /// Those of this period, in their order. What has no time is of none.
    pub(crate) fn within<T>(
        self,
        now: UnixMillis,
        mut items: Vec<T>,
        time: impl Fn(&T) -> Option<UnixMillis>,
    ) -> Vec<T> {
        let (since, until) = (self.since.map(|at| at.at(now)), self.until.map(|at| at.at(now)));
        if since.is_some() || until.is_some() {
            items.retain(|item| {
                time(item).is_some_and(|time| {
                    since.is_none_or(|since| time >= since) && until.is_none_or(|until| time < until)
                })
            });
        }
        items
    }

    /// Whether it says until when.
    pub(crate) const fn ends(self) -> bool {
        self.until.is_some()
    }
}

/// How far from now a time is, in its largest unit: `5 min ago`, `in 2 h`.
pub(crate) fn from_now(now: UnixMillis, time: UnixMillis) -> String {
    let largest = |duration: Duration| {
        let words = rough(duration);
        let mut words = words.split(' ');
        let (number, unit) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        format!("{number} {unit}")
    };
    if time > now {
        format!("in {}", largest(time.since(now)))
    } else {
        format!("{} ago", largest(now.since(time)))
    }
}

fn zoned(time: UnixMillis) -> Option<Zoned> {
    let instant = Timestamp::from_millisecond(time.get()).ok()?;
    Some(instant.to_zoned(TimeZone::system()))
}

/// A time as RFC 3339 has it, with the zone of this machine.
pub(crate) fn with_zone(time: UnixMillis) -> String {
    zoned(time).map_or_else(String::new, |zoned| {
        zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    })
}

/// The time of day before a line of a story, with the date and the zone where it is not today.
pub(crate) fn of_day(time: UnixMillis, now: UnixMillis) -> String {
    match (zoned(time), zoned(now)) {
        (Some(at), Some(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
        (Some(_) | None, _) => with_zone(time),
    }
}

/// A time where there is room: how far from now it is, and as the clock shows it.
pub(crate) fn in_full(now: UnixMillis, time: UnixMillis) -> String {
    format!("{} ({})", from_now(now, time), with_zone(time))
}

/// The same of a time that may be missing.
pub(crate) fn maybe_in_full(context: &Context, time: Option<UnixMillis>) -> String {
    time.map(|time| in_full(context.clock.now(), time))
        .unwrap_or_default()
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
        let day = |text: &str| beginning_of(text, TimeZone::UTC).map(UnixMillis::get);
        assert_eq!(day("1970-01-02"), Some(86_400_000));
        assert!(matches!(parse_moment("2026-11-29"), Ok(Moment::At(_))));
        for text in [
            "2026-11-31",
            "2026-1-2",
            "20261129",
            "2026-11-29T09:00",
            "+002026-11-29",
        ] {
            assert_eq!(day(text), None, "{text}");
        }
        for text in ["", "yesterday", "2", "2026-11-31", "-1h"] {
            assert_eq!(parse_moment(text), Err(InvalidMoment), "{text}");
        }
    }

    #[test]
    fn an_end_is_ahead() {
        let now = UnixMillis::new(10_000_000);
        let at = |text: &str| parse_end(text).map(|end| end.at(now).get());
        assert_eq!(at("2s"), Ok(10_002_000));
        assert_eq!(at("1970-01-01T00:00:01Z"), Ok(1000));
        assert!(matches!(parse_end("2026-11-29"), Ok(End::At(_))));
        assert_eq!(at("tomorrow"), Err(InvalidEnd));
    }

    #[test]
    fn a_distance_has_one_unit() {
        let at = |seconds: i64| UnixMillis::new(seconds * 1000);
        let now = at(1_000_000);
        for (time, expect) in [
            (1_000_000, "0 s ago"),
            (999_941, "59 s ago"),
            (999_700, "5 min ago"),
            (988_480, "3 h ago"),
            (812_800, "2 d ago"),
            (1_000_001, "in 1 s"),
            (1_007_260, "in 2 h"),
        ] {
            assert_eq!(from_now(now, at(time)), expect);
        }
        assert!(
            in_full(now, now).starts_with("0 s ago (1970-01-1"),
            "{}",
            in_full(now, now)
        );
    }

    #[test]
    fn a_time_is_rfc_3339_in_the_zone_of_the_machine() {
        let time = UnixMillis::new(1_795_946_388_000);
        let shown = with_zone(time);
        assert_eq!(UnixMillis::of_rfc3339(&shown), Some(time), "{shown}");
        assert_eq!(of_day(time, time).len(), "09:59:48".len());
        assert_eq!(of_day(time, UnixMillis::new(0)), shown);
    }

    #[test]
    fn items_of_a_period_come_newest_first() {
        let now = UnixMillis::new(10_000);
        let items = || vec![(1, Some(1000)), (2, None), (3, Some(3000)), (4, Some(2000))];
        let chosen = |since: Option<i64>, until: Option<i64>| {
            let moment = |at: Option<i64>| at.map(|at| Moment::At(UnixMillis::new(at)));
            let period = Period {
                since: moment(since),
                until: moment(until),
            };
            let newest = period.newest(now, items(), |(_, at)| at.map(UnixMillis::new));
            newest.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert_eq!(chosen(None, None), [3, 4, 1, 2]);
        assert_eq!(chosen(Some(2000), None), [3, 4]);
        assert_eq!(chosen(None, Some(2000)), [1]);
        assert_eq!(chosen(Some(1001), Some(3000)), [4]);
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
