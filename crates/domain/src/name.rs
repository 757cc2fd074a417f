//! The macro behind closed vocabularies, so that a word has one spelling in JSON, SQL, the command
//! line and messages.

/// A text was not one of the words of a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct InvalidName {
    /// The words that would have been accepted, for people.
    pub expected: &'static str,
}

/// Declares an enum whose variants each have one spelling, with `as_str`, `FromStr`, `Display` and serde.
#[macro_export]
macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($expected:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// Every word of this vocabulary, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The one spelling of this word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::InvalidName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::InvalidName { expected: $expected }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
