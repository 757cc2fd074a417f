//! Kinds of values that only `openclaw.json` has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    kinds::{Count, Kind, List, Members, Mismatch, Text, member, only_members},
    values::Places,
};

/// An entry of an `allowFrom` list: text, or a bare number such as a chat id.
pub(super) struct Sender;

impl Kind for Sender {
    type Value = String;

    fn read(value: &Value, places: &Places) -> Result<String, Mismatch> {
        if value.is_u64() || value.is_i64() {
            return Ok(value.to_string());
        }
        Text::read(value, places).map_err(|_other| Mismatch::expected("a sender, as text or a whole number"))
    }
}

/// Lists of senders by provider.
pub(super) type Providers = Members<List<Sender>>;

/// What a safe bin may be given (`tools.exec.safeBinProfiles`). What is `None` was not said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeBinProfile {
    /// Fewest positional arguments; at most 1000.
    pub min_positional: Option<usize>,
    /// Most positional arguments.
    pub max_positional: Option<usize>,
    /// Flags that take a value.
    pub allowed_value_flags: Option<Vec<String>>,
    /// Flags that take none.
    pub allowed_boolean_flags: Option<Vec<String>>,
    /// Flags that are refused.
    pub denied_flags: Vec<String>,
}

/// The profile of a safe bin.
pub(super) struct Profile;

impl Kind for Profile {
    type Value = SafeBinProfile;

    fn read(value: &Value, places: &Places) -> Result<SafeBinProfile, Mismatch> {
        const MEMBERS: &[&str] = &[
            "minPositional",
            "maxPositional",
            "allowedValueFlags",
            "allowedBooleanFlags",
            "deniedFlags",
        ];
        only_members(value, MEMBERS)?;
        let number = |name| member::<Count<0, 1000>>(value, name, places);
        let flags = |name| member::<List<Text>>(value, name, places);
        Ok(SafeBinProfile {
            min_positional: number("minPositional")?,
            max_positional: number("maxPositional")?,
            allowed_value_flags: flags("allowedValueFlags")?,
            allowed_boolean_flags: flags("allowedBooleanFlags")?,
            denied_flags: flags("deniedFlags")?.unwrap_or_default(),
        })
    }
}

/// Names and texts, for environments.
pub(super) struct Variables;

impl Kind for Variables {
    type Value = BTreeMap<String, String>;

    fn read(value: &Value, places: &Places) -> Result<Self::Value, Mismatch> {
        Members::<AnyText>::read(value, places)
    }
}

struct AnyText;

impl Kind for AnyText {
    type Value = String;

    fn read(value: &Value, _places: &Places) -> Result<String, Mismatch> {
        let text = value.as_str().filter(|text| !text.contains('\0'));
        text.map(str::to_owned).ok_or_else(|| Mismatch::expected("text"))
    }
}

/// An object that is shown but not followed here.
pub(super) struct AnyObject;

impl Kind for AnyObject {
    type Value = Map<String, Value>;

    fn read(value: &Value, _places: &Places) -> Result<Self::Value, Mismatch> {
        value
            .as_object()
            .cloned()
            .ok_or_else(|| Mismatch::expected("an object"))
    }
}
