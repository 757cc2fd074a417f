//! Kinds of values: what a key accepts, written once for files, variables and flags.
//!
//! A kind turns a JSON value (TOML and JSON5 both become one) into a typed value, or says what it expected.

use std::{collections::BTreeMap, fmt, marker::PhantomData, path::PathBuf, str::FromStr, time::Duration};

use serde_json::Value;

use countersign_domain::{InvalidName, Isolation, Secret};

use super::{home::expand_home, key_path::quote_part, values::Places};

/// A value is not of its key's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Where below the key: empty, `[0]`, `.name`.
    pub(super) below: String,
    /// What is wrong there.
    pub(super) fault: Fault,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Something else was expected.
    Expected(String),
    /// An object has a member too many; these would be known.
    UnknownMember(&'static [&'static str]),
    /// `null` inside a value.
    Null,
}

impl Mismatch {
    pub(super) fn expected(what: impl fmt::Display) -> Self {
        Self {
            below: String::new(),
            fault: Fault::Expected(what.to_string()),
        }
    }

    /// The same, seen from the list that holds the value.
    pub(super) fn in_element(self, index: usize) -> Self {
        Self {
            below: format!("[{index}]{}", self.below),
            ..self
        }
    }

    /// The same, seen from the object that holds the value.
    pub(super) fn in_member(self, name: &str) -> Self {
        Self {
            below: format!(".{}{}", quote_part(name), self.below),
            ..self
        }
    }
}

/// How the value of a key is read.
pub(super) trait Kind {
    type Value;

    /// Whether it must never be shown.
    const SECRET: bool = false;

    /// Reads a value. `null` arrives here only as the default of a key that is unset.
    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch>;

    /// The value that the text of a variable stands for; `None` when the key cannot be set by one.
    fn from_text(text: &str) -> Option<Value> {
        Some(Value::from(text))
    }
}

pub(super) struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn read(value: &Value, _places: &Places) -> Result<bool, Mismatch> {
        value.as_bool().ok_or_else(|| Mismatch::expected("true or false"))
    }

    fn from_text(text: &str) -> Option<Value> {
        Some(
            text.parse::<bool>()
                .map_or_else(|_other| Value::from(text), Value::from),
        )
    }
}

/// A whole number of a range.
pub(super) struct Whole<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Whole<MIN, MAX> {
    type Value = u64;

    fn read(value: &Value, _places: &Places) -> Result<u64, Mismatch> {
        whole(value)
            .filter(|number| (MIN..=MAX).contains(number))
            .ok_or_else(|| Mismatch::expected(format_args!("a whole number from {MIN} to {MAX}")))
    }

    fn from_text(text: &str) -> Option<Value> {
        Some(
            text.parse::<u64>()
                .map_or_else(|_other| Value::from(text), Value::from),
        )
    }
}

fn whole(value: &Value) -> Option<u64> {
    // JSON5 has one type of number: 1e3 and 1000.0 are whole too.
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        // 2^53: every whole float below is exact.
        let is_whole = float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole, positive and exact"
        )]
        is_whole.then_some(float as u64)
    })
}

/// A whole number of things in memory.
pub(super) struct Count<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Count<MIN, MAX> {
    type Value = usize;

    fn read(value: &Value, places: &Places) -> Result<usize, Mismatch> {
        let number = Whole::<MIN, MAX>::read(value, places)?;
        usize::try_from(number).map_err(|_narrow| Mismatch::expected("a smaller number on this machine"))
    }

    fn from_text(text: &str) -> Option<Value> {
        Whole::<MIN, MAX>::from_text(text)
    }
}

/// A number of units of time; a unit is given in milliseconds.
pub(super) struct Span<const UNIT_MS: u64, const MIN: u64, const MAX: u64>;

impl<const UNIT_MS: u64, const MIN: u64, const MAX: u64> Kind for Span<UNIT_MS, MIN, MAX> {
    type Value = Duration;

    fn read(value: &Value, places: &Places) -> Result<Duration, Mismatch> {
        let units = Whole::<MIN, MAX>::read(value, places)?;
        Ok(Duration::from_millis(units.saturating_mul(UNIT_MS)))
    }

    fn from_text(text: &str) -> Option<Value> {
        Whole::<MIN, MAX>::from_text(text)
    }
}

/// A year: no wait or limit is longer.
const YEAR_MS: u64 = 31_536_000_000;

/// Milliseconds.
pub(super) type Millis<const MIN: u64, const MAX: u64 = YEAR_MS> = Span<1, MIN, MAX>;
/// Hours, up to a year.
pub(super) type Hours<const MIN: u64> = Span<3_600_000, MIN, 8_760>;
/// Days, up to a century.
pub(super) type Days<const MIN: u64> = Span<86_400_000, MIN, 36_500>;
/// Seconds, up to a year.
pub(super) type Seconds = Span<1000, 0, 31_536_000>;

/// A span of which 0 means none: no limit, or for ever.
pub(super) struct ZeroIsNone<K>(PhantomData<K>);

impl<K: Kind<Value = Duration>> Kind for ZeroIsNone<K> {
    type Value = Option<Duration>;

    fn read(value: &Value, places: &Places) -> Result<Option<Duration>, Mismatch> {
        K::read(value, places).map(|span| (!span.is_zero()).then_some(span))
    }

    fn from_text(text: &str) -> Option<Value> {
        K::from_text(text)
    }
}

/// A word of a closed vocabulary.
pub(super) struct Word<T>(PhantomData<T>);

impl<T: FromStr<Err = InvalidName>> Kind for Word<T> {
    type Value = T;

    fn read(value: &Value, _places: &Places) -> Result<T, Mismatch> {
        let word = value.as_str().unwrap_or_default();
        word.parse()
            .map_err(|InvalidName { expected }| Mismatch::expected(expected))
    }
}

/// The one level of isolation that an agent may choose.
pub(super) struct SameUser;

impl Kind for SameUser {
    type Value = Isolation;

    fn read(value: &Value, _places: &Places) -> Result<Isolation, Mismatch> {
        match value.as_str() {
            Some("same-user") => Ok(Isolation::SameUser),
            _ => Err(Mismatch::expected("same-user")),
        }
    }
}

/// Text that is not blank and holds no control characters.
pub(super) struct Text;

impl Kind for Text {
    type Value = String;

    fn read(value: &Value, _places: &Places) -> Result<String, Mismatch> {
        plain_text(value)
            .map(str::to_owned)
            .ok_or_else(|| Mismatch::expected("text that is not blank"))
    }
}

fn plain_text(value: &Value) -> Option<&str> {
    value
        .as_str()
        .filter(|text| !text.trim().is_empty() && !text.chars().any(char::is_control))
}

/// Text of several lines, for scripts.
pub(super) struct Script;

impl Kind for Script {
    type Value = String;

    fn read(value: &Value, _places: &Places) -> Result<String, Mismatch> {
        let is_script = |text: &&str| !text.trim().is_empty() && !text.contains('\0');
        value
            .as_str()
            .filter(is_script)
            .map(str::to_owned)
            .ok_or_else(|| Mismatch::expected("a command"))
    }
}

/// Text that must not be shown.
pub(super) struct SecretText;

impl Kind for SecretText {
    type Value = Secret;
    const SECRET: bool = true;

    fn read(value: &Value, places: &Places) -> Result<Secret, Mismatch> {
        Text::read(value, places).map(Secret::new)
    }
}

/// A key that may be unset.
pub(super) struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Value = Option<K::Value>;
    const SECRET: bool = K::SECRET;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        if value.is_null() {
            Ok(None)
        } else {
            K::read(value, places).map(Some)
        }
    }

    fn from_text(text: &str) -> Option<Value> {
        K::from_text(text)
    }
}

/// `auto`, or a value.
pub(super) struct AutoOr<K>(PhantomData<K>);

impl<K: Kind> Kind for AutoOr<K> {
    type Value = Option<K::Value>;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        if value.as_str() == Some("auto") {
            return Ok(None);
        }
        K::read(value, places)
            .map(Some)
            .map_err(|mismatch| match mismatch.fault {
                Fault::Expected(what) => Mismatch::expected(format_args!("auto or {what}")),
                Fault::UnknownMember(_) | Fault::Null => mismatch,
            })
    }
}

/// An empty text for none, or a value.
pub(super) struct EmptyIsOff<K>(PhantomData<K>);

impl<K: Kind> Kind for EmptyIsOff<K> {
    type Value = Option<K::Value>;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        if value.as_str() == Some("") {
            Ok(None)
        } else {
            K::read(value, places).map(Some)
        }
    }
}

/// A path as it is written; what it is relative to, its key says.
pub(super) struct AnyPath;

impl Kind for AnyPath {
    type Value = PathBuf;

    fn read(value: &Value, places: &Places) -> Result<PathBuf, Mismatch> {
        let text = plain_text(value).ok_or_else(|| Mismatch::expected("a path"))?;
        expand_home(text.as_ref(), places.home.as_deref())
            .ok_or_else(|| Mismatch::expected("a path without ~, since there is no home directory"))
    }
}

/// An absolute path, or one below the home directory.
pub(super) struct AbsolutePath;

impl Kind for AbsolutePath {
    type Value = PathBuf;

    fn read(value: &Value, places: &Places) -> Result<PathBuf, Mismatch> {
        let expected = || Mismatch::expected("an absolute path or one that begins with ~/");
        AnyPath::read(value, places)
            .ok()
            .filter(|path| path.is_absolute())
            .ok_or_else(expected)
    }
}

/// A list of values of one kind.
pub(super) struct List<K>(PhantomData<K>);

/// No list in a settings file is longer.
const MAX_LIST: usize = 10_000;

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        let elements = value.as_array().filter(|elements| elements.len() <= MAX_LIST);
        let elements = elements.ok_or_else(|| Mismatch::expected("a list"))?;
        elements
            .iter()
            .enumerate()
            .map(|(index, element)| read_present::<K>(element, places).map_err(|m| m.in_element(index)))
            .collect()
    }

    fn from_text(text: &str) -> Option<Value> {
        if text.trim().is_empty() {
            return K::from_text("").map(|_elements_are_text| Value::Array(Vec::new()));
        }
        text.split(',').map(|part| K::from_text(part.trim())).collect()
    }
}

/// An object whose members are all of one kind.
pub(super) struct Members<K>(PhantomData<K>);

impl<K: Kind> Kind for Members<K> {
    type Value = BTreeMap<String, K::Value>;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        let members = value.as_object().ok_or_else(|| Mismatch::expected("an object"))?;
        members
            .iter()
            .map(|(name, member)| match read_present::<K>(member, places) {
                Ok(value) => Ok((name.clone(), value)),
                Err(mismatch) => Err(mismatch.in_member(name)),
            })
            .collect()
    }

    fn from_text(_text: &str) -> Option<Value> {
        None
    }
}

/// A member of an object with fixed members, or `None` when it is not there.
pub(super) fn member<K: Kind>(
    object: &Value,
    name: &str,
    places: &Places,
) -> Result<Option<K::Value>, Mismatch> {
    object
        .get(name)
        .map(|value| read_present::<K>(value, places).map_err(|m| m.in_member(name)))
        .transpose()
}

/// Checks that a value is an object without unknown members.
pub(super) fn only_members(value: &Value, known: &'static [&'static str]) -> Result<(), Mismatch> {
    let members = value.as_object().ok_or_else(|| Mismatch::expected("an object"))?;
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let mismatch = Mismatch {
                below: String::new(),
                fault: Fault::UnknownMember(known),
            };
            Err(mismatch.in_member(unknown))
        }
    }
}

/// Reads a value that stands in a file: there `null` is never a value.
pub(super) fn read_present<K: Kind>(value: &Value, places: &Places) -> Result<K::Value, Mismatch> {
    if value.is_null() {
        return Err(Mismatch {
            below: String::new(),
            fault: Fault::Null,
        });
    }
    K::read(value, places)
}
