//! Schemas of words, ids and times for `OpenAPI`. Compiled for the HTTP API alone, by the feature `schema`.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{SchemaType, Type},
    },
};

use crate::{
    ActorKind, AgentId, ApprovalDecision, ApprovalId, ApprovalStatus, Ask, ContextUrl, DecidedBy,
    ElevatedLevel, EntryId, Host, HostChoice, Isolation, Justification, KernelPart, MAX_CONTEXT_URL_BYTES,
    MAX_JUSTIFICATION_CHARS, OnMiss, OutputStream, Owner, PatternWidth, Pinning, ProcessStatus, Reason,
    RunId, RunVerdict, Scope, ScriptHold, Security, SessionKey, TerminalReason, TextStart, TokenId,
    UnixMillis,
};

/// A schema that begins as that of a text.
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

/// Schemas of closed vocabularies: a text, one of their words. For types that [`crate::vocabulary!`] declared.
#[macro_export]
macro_rules! word_schemas {
    ($($name:ident),+ $(,)?) => {$(
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let words = Self::ALL.iter().map(|word| word.as_str());
                utoipa::openapi::RefOr::T($crate::schema::text().enum_values(Some(words)).build().into())
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

/// Schemas of texts of a form: their pattern, if one says it, and a description.
#[macro_export]
macro_rules! text_schemas {
    ($($name:ident: $pattern:expr, $description:literal;)+) => {$(
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let pattern: Option<&str> = $pattern;
                let text = $crate::schema::text().pattern(pattern).description(Some($description));
                utoipa::openapi::RefOr::T(text.build().into())
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

impl PartialSchema for Justification {
    fn schema() -> RefOr<Schema> {
        const OTHER_CONTROLS: &str = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f";
        let pattern = format!(r"^[^{OTHER_CONTROLS}]*[^\s\x00-\x1f\x7f-\x9f][^{OTHER_CONTROLS}]*$");
        let text = text().pattern(Some(pattern)).min_length(Some(1));
        let text = text.max_length(Some(MAX_JUSTIFICATION_CHARS));
        let description =
            "A reason in the agent's words; each run of blanks and line breaks becomes one space.";
        RefOr::T(text.description(Some(description)).build().into())
    }
}

impl ToSchema for Justification {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Justification")
    }
}

impl PartialSchema for ContextUrl {
    fn schema() -> RefOr<Schema> {
        let text = text().pattern(Some(r"^https?://[!-~]+$"));
        let text = text.max_length(Some(MAX_CONTEXT_URL_BYTES));
        RefOr::T(text.description(Some("The address of a page.")).build().into())
    }
}

impl ToSchema for ContextUrl {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ContextUrl")
    }
}

word_schemas!(
    ActorKind,
    ApprovalDecision,
    ApprovalStatus,
    Ask,
    DecidedBy,
    ElevatedLevel,
    Host,
    HostChoice,
    Isolation,
    KernelPart,
    OnMiss,
    OutputStream,
    PatternWidth,
    Pinning,
    ProcessStatus,
    Reason,
    RunVerdict,
    Scope,
    ScriptHold,
    Security,
    TerminalReason,
    TextStart,
);

text_schemas! {
    RunId: Some("^[a-z0-9-]{1,64}$"), "Id of a run.";
    ApprovalId: Some("^[a-z0-9-]{1,64}$"), "Id of an approval, a UUID.";
    TokenId: Some("^[a-z0-9-]{1,64}$"), "Id of a token; not its secret.";
    EntryId: None, "Id of an entry, grant or deny rule; a UUID when countersign made it.";
    AgentId: Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), "Id of an agent, compared exactly.";
    Owner: Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), "A person who owns tokens, compared exactly.";
    SessionKey: Some(r"^[^\x00-\x1f\x7f-\x9f]{1,256}$"), "Key of a session: 1 to 256 characters, none of them a control character.";
}

impl PartialSchema for UnixMillis {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .description(Some("Unix time in milliseconds."));
        RefOr::T(number.build().into())
    }
}

impl ToSchema for UnixMillis {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("UnixMillis")
    }
}
