//! Settings: those in force, and the keys of `openclaw.json`.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::kernel::KernelBody;

/// Every setting in force, and what the kernel keeps for them.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Settings)]
pub struct SettingsBody {
    pub items: Vec<SettingBody>,
    /// What the kernel of the server's machine keeps of commands.
    pub kernel: KernelBody,
}

/// A key of `countersign.toml` or `openclaw.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Setting)]
pub struct SettingBody {
    /// Its path, such as `http.listen` or `tools.exec.ask`.
    pub path: String,
    /// What is in force in this process; null when it is unset, and `(secret)` for a secret that is set.
    pub value: Value,
    /// `default`, the name of the file, the environment variable, or the flag that set it.
    pub source: String,
    /// What would be in force if nothing set it.
    pub default: Value,
    /// False for a key that is read and checked and does nothing in this version.
    pub effective: bool,
    /// What the file says and is not in force; null when it unsets the key, and true for a secret. Absent where nothing
    /// waits.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Value, required = false)]
    pub waiting: Option<Value>,
    /// What `waiting` waits for: `restart`, `acceptance` of an edit that allows more, or `change` of a file that was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub waits_for: Option<Cow<'static, str>>,
}

/// A value that is null says something else than one that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_waits_to_be_unset_is_not_one_that_waits_for_nothing() {
        let setting = json!({"path": "a", "value": 1, "source": "default", "default": 1, "effective": true});
        let read = |setting: &Value| SettingBody::deserialize(setting).expect("a setting").waiting;
        assert_eq!(read(&setting), None);
        let mut waiting = setting;
        waiting["waiting"] = Value::Null;
        assert_eq!(read(&waiting), Some(Value::Null));
    }
}
