//! Kinds of values of a sandbox.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::{
    kinds::{Kind, Members, Mismatch, Text, member, only_members},
    values::Places,
};

/// A mount of a directory or file of the host inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BindMount {
    /// Its path on the host, absolute.
    pub host: PathBuf,
    /// Its path inside, absolute.
    pub inside: PathBuf,
    /// Whether it can be written inside.
    pub writable: bool,
}

/// A resource limit; -1 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Where it is felt.
    pub soft: i64,
    /// As far as it can be raised.
    pub hard: i64,
}

const EXPECTED_AMOUNT: &str = "a number or text such as 512m";

/// An amount of memory: a number of bytes, or text such as `512m`.
pub(super) struct Bytes;

impl Kind for Bytes {
    type Value = u64;

    fn read(value: &Value, _places: &Places) -> Result<u64, Mismatch> {
        let number = value
            .as_u64()
            .or_else(|| value.as_str().and_then(|text| scaled(text.trim(), 1)));
        number.ok_or_else(|| Mismatch::expected(EXPECTED_AMOUNT))
    }
}

/// The same, or -1 for as much as there is.
pub(super) struct SwapBytes;

impl Kind for SwapBytes {
    type Value = i64;

    fn read(value: &Value, places: &Places) -> Result<i64, Mismatch> {
        if value.as_i64() == Some(-1) || value.as_str() == Some("-1") {
            return Ok(-1);
        }
        let bytes = Bytes::read(value, places)?;
        i64::try_from(bytes).map_err(|_too_large| Mismatch::expected(EXPECTED_AMOUNT))
    }
}

/// A number of processors, also a fraction, in billionths.
pub(super) struct Processors;

impl Kind for Processors {
    type Value = u64;

    fn read(value: &Value, _places: &Places) -> Result<u64, Mismatch> {
        let text = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
        };
        decimal(&text, 1_000_000_000).ok_or_else(|| Mismatch::expected("a number of processors such as 1.5"))
    }
}

/// Limits by name: an amount, or an object with `soft` and `hard`.
pub(super) type Ulimits = Members<Ulimit>;

pub(super) struct Ulimit;

impl Kind for Ulimit {
    type Value = Limit;

    fn read(value: &Value, places: &Places) -> Result<Limit, Mismatch> {
        if !value.is_object() {
            let both = SwapBytes::read(value, places)?;
            return Ok(Limit {
                soft: both,
                hard: both,
            });
        }
        only_members(value, &["soft", "hard"])?;
        let soft = member::<SwapBytes>(value, "soft", places)?;
        let hard = member::<SwapBytes>(value, "hard", places)?;
        match (soft, hard) {
            (Some(soft), Some(hard)) => Ok(Limit { soft, hard }),
            (Some(both), None) | (None, Some(both)) => Ok(Limit {
                soft: both,
                hard: both,
            }),
            (None, None) => Err(Mismatch::expected("soft, hard or both")),
        }
    }
}

/// A mount: `host:container[:ro|rw]`, both paths absolute.
pub(super) struct Bind;

impl Kind for Bind {
    type Value = BindMount;

    fn read(value: &Value, places: &Places) -> Result<BindMount, Mismatch> {
        let text = Text::read(value, places).unwrap_or_default();
        let parts: Vec<&str> = text.split(':').collect();
        let mount = match parts.as_slice() {
            [host, inside] | [host, inside, "rw"] => Some((host, inside, true)),
            [host, inside, "ro"] => Some((host, inside, false)),
            _ => None,
        };
        mount
            .filter(|(host, inside, _writable)| host.starts_with('/') && inside.starts_with('/'))
            .map(|(host, inside, writable)| BindMount {
                host: PathBuf::from(host),
                inside: PathBuf::from(inside),
                writable,
            })
            .ok_or_else(|| Mismatch::expected("a mount such as /srv/data:/data:ro"))
    }
}

/// A number with a suffix: `b`, `k`, `m`, `g` or `t`, each perhaps with `b` or `ib` behind it.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let suffix = text.get(digits.len()..)?.to_ascii_lowercase();
    let suffix = suffix
        .strip_suffix("ib")
        .or_else(|| suffix.strip_suffix('b'))
        .unwrap_or(&suffix);
    let shift = match suffix {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    decimal(digits.trim_end(), unit.checked_shl(shift)?)
}

/// A number, perhaps with a fraction, in parts of a unit.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let parts: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let parts = parts * u128::from(unit) / 10_u128.pow(places);
    whole.checked_mul(unit)?.checked_add(u64::try_from(parts).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places() -> Places {
        Places {
            home: None,
            state: PathBuf::from("/state"),
        }
    }

    #[test]
    fn amounts_are_numbers_or_text_with_a_suffix() {
        let places = places();
        for (value, expected) in [
            (json!(512), Some(512)),
            (json!("512"), Some(512)),
            (json!("512m"), Some(512 << 20)),
            (json!("1.5g"), Some(3 << 29)),
            (json!("2GiB"), Some(2 << 30)),
            (json!("64kb"), Some(64 << 10)),
            (json!("m"), None),
            (json!("-1"), None),
            (json!("1x"), None),
            (json!("99999999999999999999t"), None),
            (json!(true), None),
        ] {
            assert_eq!(Bytes::read(&value, &places).ok(), expected, "{value}");
        }
        assert_eq!(SwapBytes::read(&json!(-1), &places).ok(), Some(-1));
        assert_eq!(Processors::read(&json!(1.5), &places).ok(), Some(1_500_000_000));
        assert_eq!(Processors::read(&json!("0.25"), &places).ok(), Some(250_000_000));
        assert_eq!(Processors::read(&json!("two"), &places).ok(), None);
    }

    #[test]
    fn limits_and_mounts_are_read() {
        let places = places();
        let limit = |soft, hard| Some(Limit { soft, hard });
        assert_eq!(Ulimit::read(&json!(64), &places).ok(), limit(64, 64));
        assert_eq!(
            Ulimit::read(&json!({"soft": 1, "hard": "2k"}), &places).ok(),
            limit(1, 2048)
        );
        assert!(Ulimit::read(&json!({}), &places).is_err());
        let read = |text: &str| {
            Bind::read(&json!(text), &places)
                .ok()
                .map(|bind| (bind.host, bind.writable))
        };
        assert_eq!(read("/a:/b"), Some(("/a".into(), true)));
        assert_eq!(read("/a:/b:ro"), Some(("/a".into(), false)));
        assert_eq!(read("a:/b"), None);
        assert_eq!(read("/a:/b:rx"), None);
    }
}
