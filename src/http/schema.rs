//! Schemas of domain words and ids, which know nothing of `OpenAPI` themselves.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{SchemaType, Type},
    },
};

use crate::domain::{
    ActorKind, AgentId, ApprovalDecision, ApprovalId, ApprovalStatus, Ask, DecidedBy, EntryId, Host,
    HostChoice, Isolation, OnMiss, PatternWidth, Reason, RunId, RunVerdict, Scope, Security, SessionKey,
    TerminalReason, TokenId, UnixMillis,
};

macro_rules! words {
    ($($name:ident),+ $(,)?) => {$(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words = Self::ALL.iter().map(|word| word.as_str());
                RefOr::T(text().enum_values(Some(words)).build().into())
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

words!(
    ActorKind,
    ApprovalDecision,
    ApprovalStatus,
    Ask,
    DecidedBy,
    Host,
    HostChoice,
    Isolation,
    OnMiss,
    PatternWidth,
    Reason,
    RunVerdict,
    Scope,
    Security,
    TerminalReason,
);

macro_rules! texts {
    ($($name:ident: $pattern:expr, $description:literal;)+) => {$(
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let pattern: Option<&str> = $pattern;
                RefOr::T(text().pattern(pattern).description(Some($description)).build().into())
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

texts! {
    RunId: Some("^[a-z0-9-]{1,64}$"), "Id of a run.";
    ApprovalId: Some("^[a-z0-9-]{1,64}$"), "Id of an approval, a UUID.";
    TokenId: Some("^[a-z0-9-]{1,64}$"), "Id of a token; not its secret.";
    EntryId: None, "Id of an entry, grant or deny rule; a UUID when countersign made it.";
    AgentId: Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), "Id of an agent, compared exactly.";
    SessionKey: None, "Key of a session: 1 to 256 characters, none of them a control character.";
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

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}
