//! Durations as flags take them: `500ms`, `30s`, `10m`, `2h`, `7d`.

use std::time::Duration;

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number with a unit: 500ms, 30s, 10m, 2h or 7d")]
pub(crate) struct InvalidDuration;

/// Parses one number with one unit. A bare number is refused: seconds and milliseconds are too easily mixed up.
///
/// # Errors
/// [`InvalidDuration`] for anything else, also when the result would not fit.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let unit_start = text.find(|c: char| !c.is_ascii_digit()).ok_or(InvalidDuration)?;
    let (number, unit) = text.split_at_checked(unit_start).ok_or(InvalidDuration)?;
    let number: u64 = number.parse().map_err(|_overflow_or_empty| InvalidDuration)?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(InvalidDuration),
    };
    let millis = number.checked_mul(unit_ms).ok_or(InvalidDuration)?;
    // Deadlines are signed milliseconds on the wire.
    i64::try_from(millis).map_err(|_too_large| InvalidDuration)?;
    Ok(Duration::from_millis(millis))
}

/// The time left as people read it: `29:41`, `1:02:03`.
pub(crate) fn clock_face(left: Duration) -> String {
    let seconds = left.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A duration in its two largest units: `12 s`, `4 min`, `3 h 12 min`, `2 d 4 h`.
pub(crate) fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read() {
        #[track_caller]
        fn check(text: &str, millis: u64) {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        check("500ms", 500);
        check("0s", 0);
        check("30s", 30_000);
        check("10m", 600_000);
        check("2h", 7_200_000);
        check("7d", 604_800_000);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            " 5s",
            "-5s",
            "+5s",
            "1.5h",
            "5S",
            "5sec",
            "1h30m",
            "５s",
            "99999999999999999999s",
            "9999999999999999d",
            "5µs",
        ] {
            assert_eq!(parse_duration(text), Err(InvalidDuration), "{text:?}");
        }
    }

    #[test]
    fn time_left_is_short() {
        assert_eq!(clock_face(Duration::from_secs(0)), "0:00");
        assert_eq!(clock_face(Duration::from_millis(59_999)), "0:59");
        assert_eq!(clock_face(Duration::from_mins(30)), "30:00");
        assert_eq!(clock_face(Duration::from_secs(3723)), "1:02:03");
    }

    #[test]
    fn a_rough_duration_has_two_units_at_most() {
        for (seconds, expect) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (11_520, "3 h 12 min"),
            (187_200, "2 d 4 h"),
        ] {
            assert_eq!(rough(Duration::from_secs(seconds)), expect);
        }
    }
}
