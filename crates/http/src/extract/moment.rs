//! A time in a query.

use std::{borrow::Cow, str::FromStr};

use serde_json::json;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type,
        schema::{AnyOfBuilder, SchemaType},
    },
};

use countersign_domain::UnixMillis;

/// A time: Unix milliseconds, or RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(UnixMillis);

/// It is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected Unix milliseconds or a time such as 2026-11-23T00:00:00Z")]
pub(crate) struct NoMoment;

impl FromStr for Moment {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Self, NoMoment> {
        let millis = text.parse().ok().map(UnixMillis::new);
        // A `+` of a query that was not escaped is a blank.
        let time = millis.or_else(|| UnixMillis::of_rfc3339(&text.replace(' ', "+")));
        time.map(Self).ok_or(NoMoment)
    }
}

impl From<Moment> for UnixMillis {
    fn from(moment: Moment) -> Self {
        moment.0
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let of = |kind: Type, format: KnownFormat| {
            ObjectBuilder::new()
                .schema_type(SchemaType::Type(kind))
                .format(Some(SchemaFormat::KnownFormat(format)))
        };
        let time = of(Type::String, KnownFormat::DateTime).examples([json!("2026-11-23T00:00:00Z")]);
        let either = AnyOfBuilder::new()
            .description(Some("Unix milliseconds, or a time of RFC 3339."))
            .item(of(Type::Integer, KnownFormat::Int64))
            .item(time);
        RefOr::T(Schema::AnyOf(either.build()))
    }
}

impl ToSchema for Moment {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Moment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_both_ways() {
        let at = |millis| Ok(Moment(UnixMillis::new(millis)));
        assert_eq!("1000".parse(), at(1000));
        assert_eq!("-1".parse(), at(-1));
        assert_eq!("1970-01-01T00:00:01Z".parse(), at(1000));
        assert_eq!("1970-01-01T01:00:01.5+01:00".parse(), at(1500));
        assert_eq!("1970-01-01T01:00:01 01:00".parse(), at(1000));
        for text in ["", "yesterday", "1970-01-01", "1970-01-01T00:00:01", "1e3"] {
            assert_eq!(text.parse::<Moment>(), Err(NoMoment), "{text}");
        }
    }
}
