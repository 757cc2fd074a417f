//! What tells a file from another one that takes its place.

use serde::{Deserialize, Serialize};

/// What identifies a file at the moment it was checked.
///
/// Programs, directory and scripts are compared again right before the start. (`docs/spec/command-analysis.md#t2`)
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Real path, with all links resolved.
    pub path: String,
    /// Device number. It and all numbers here are 0 for a file of a node.
    pub dev: u64,
    /// Inode number on that device.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since the Unix epoch.
    #[serde(with = "wide")]
    pub mtime_ns: i128,
    /// Last change of content or metadata, in nanoseconds since the Unix epoch.
    #[serde(with = "wide")]
    pub ctime_ns: i128,
}

/// Numbers that most often fit into 64 bits: then as such, else as text. Inside of a tagged enum serde reads no wider ones.
mod wide {
    use std::fmt;

    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*number) {
            Ok(number) => serializer.serialize_i64(number),
            Err(_too_wide) => serializer.collect_str(number),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        deserializer.deserialize_any(Wide)
    }

    struct Wide;

    impl de::Visitor<'_> for Wide {
        type Value = i128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_i64<E>(self, number: i64) -> Result<i128, E> {
            Ok(number.into())
        }

        fn visit_u64<E>(self, number: u64) -> Result<i128, E> {
            Ok(number.into())
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<i128, E> {
            text.parse().map_err(de::Error::custom)
        }
    }
}
