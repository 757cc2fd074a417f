//! Schemas of texts that only this API has. Those of domain words and ids lie beside their types, behind the feature
//! `schema`.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema,
        schema::{AdditionalProperties, AnyOfBuilder, SchemaType, Type},
    },
};

use countersign_domain::{
    ApprovalStatus, MAX_ENV_VARIABLES, MAX_STOP_REASON_CHARS, schema::text, text_schemas,
};

use countersign_policy::confine::{MAX_BYTES, MAX_ITEMS};

use crate::extract::{AgentScope, IfMatch, NodeName, PairingName, ProcessSessionName};

text_schemas! {
    ProcessSessionName: Some("^[a-z0-9-]{1,64}$"), "Id of a process session, such as `brave-otter-417`.";
    NodeName: Some("^[0-9a-f]{6,64}$"), "Id of a node, or 6 characters or more of its beginning or end that no other has.";
    PairingName: Some("^[a-z0-9-]{1,64}$"), "Id of a pairing request.";
}

/// Which approvals a list shows: those of one state, or `all`.
#[derive(Debug)]
pub(crate) enum ApprovalFilterName {}

impl PartialSchema for ApprovalFilterName {
    fn schema() -> RefOr<Schema> {
        let states = ApprovalStatus::ALL.iter().map(|status| status.as_str());
        let words = states.chain(["all"]);
        let words = text().enum_values(Some(words)).default(Some("pending".into()));
        RefOr::T(words.build().into())
    }
}

impl ToSchema for ApprovalFilterName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ApprovalFilter")
    }
}

/// What control characters are, within brackets of a pattern.
const CONTROL: &str = r"\x00-\x1f\x7f-\x9f";
/// The same and what takes no room or turns the text around ([`countersign_domain::node_name`]).
const UNSEEN: &str = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff";

/// A line of text that is not blank and has none of the characters between these brackets.
fn line(without: &str, max: usize, description: &str) -> RefOr<Schema> {
    let pattern = format!(r"^[^{without}]*[^\s{without}][^{without}]*$");
    let text = text()
        .pattern(Some(pattern))
        .min_length(Some(1))
        .max_length(Some(max));
    RefOr::T(text.description(Some(description)).build().into())
}

macro_rules! lines {
    ($($(#[$meta:meta])* $name:ident: $without:expr, $max:literal, $description:literal;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                line($without, $max, $description)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

/// Why everything is stopped, or goes on.
#[derive(Debug)]
pub(crate) enum StopReason {}

impl PartialSchema for StopReason {
    fn schema() -> RefOr<Schema> {
        let text = text()
            .pattern(Some(r"\S"))
            .min_length(Some(1))
            .max_length(Some(MAX_STOP_REASON_CHARS))
            .description(Some("1 to 2000 characters, not all white space."));
        RefOr::T(text.build().into())
    }
}

impl ToSchema for StopReason {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("StopReason")
    }
}

lines! {
    /// A name that people gave: of a token, of a group of approvers.
    Label: CONTROL, 100, "1 to 100 characters, not all white space, none of them a control character.";
    /// A name that people gave a node.
    NodeLabel: UNSEEN, 128, "1 to 128 characters, not all white space, none of them a control character or unseen.";
    /// What a chat says of a sender.
    SenderText: CONTROL, 256, "1 to 256 characters, not all white space, none of them a control character.";
}

/// Environment overrides of an exec call.
#[derive(Debug)]
pub(crate) enum EnvOverrides {}

impl PartialSchema for EnvOverrides {
    fn schema() -> RefOr<Schema> {
        let name = text().pattern(Some(r"^[^=\x00]+$")).build();
        let value = text().pattern(Some(r"^[^\x00]*$")).build();
        let map = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .property_names(Some(Schema::from(name)))
            .max_properties(Some(MAX_ENV_VARIABLES))
            .additional_properties(Some(Schema::from(value)));
        RefOr::T(map.build().into())
    }
}

impl ToSchema for EnvOverrides {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("EnvOverrides")
    }
}

/// What the program of an entry may do, as it is sent. A document can say more, which is shown as it stands.
#[derive(Debug)]
pub(crate) enum Confine {}

/// A part of a path that is neither `.` nor `..`, and has neither a wildcard nor a control character. In place of `{first}` stands
/// what it does not begin with besides.
fn component(first: &str) -> String {
    format!(r"(\.{{0,2}}[^.{first}/*?{CONTROL}][^/*?{CONTROL}]*|\.{{3,}}[^/*?{CONTROL}]*)")
}

/// `any` and further words, or a list of such items.
fn words_or_list(words: &[&str], item: impl Into<Schema>, description: &str) -> RefOr<Schema> {
    let words = text().enum_values(Some(words.iter().copied())).build();
    let list = ArrayBuilder::new()
        .items(RefOr::T(item.into()))
        .max_items(Some(MAX_ITEMS))
        .build();
    let either = OneOfBuilder::new()
        .item(Schema::from(words))
        .item(Schema::from(list))
        .description(Some(description));
    RefOr::T(Schema::from(either.build()))
}

impl PartialSchema for Confine {
    fn schema() -> RefOr<Schema> {
        let part = component("");
        let path = format!("(~/|/){part}(/{part})*");
        let program = format!(r"^({}|~/\*\*|{path}(/\*\*)?)$", component("~"));
        let program = text().pattern(Some(program)).max_length(Some(MAX_BYTES));
        let place = format!("^(workspace|tmp|{path})$");
        let place = text().pattern(Some(place)).max_length(Some(MAX_BYTES));
        let port = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Integer))
            .minimum(Some(1))
            .maximum(Some(u16::MAX));
        let confine = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .description(Some("What the program of an entry may do. What is not said has a default."))
            .property(
                "starts",
                words_or_list(
                    &["any", "judged"],
                    program.build(),
                    "The programs that it may start: `any`, `judged`, or a list of names, absolute paths and `DIRECTORY/**`, \
                     `judged` among them for its helper profile.",
                ),
            )
            .property(
                "writes",
                words_or_list(
                    &["any"],
                    place.build(),
                    "Where it may write: `any`, or a list of `workspace`, `tmp` and absolute paths.",
                ),
            )
            .property(
                "connects",
                words_or_list(
                    &["any"],
                    port.build(),
                    "To which TCP ports it may connect: `any`, or a list.",
                ),
            )
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        RefOr::T(confine.build().into())
    }
}

impl ToSchema for Confine {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Confine")
    }
}

/// A deny rule to add: one with an argument pattern, or one that is kept from the programs of a run too.
#[derive(Debug)]
pub(crate) enum NewDenyRule {}

impl PartialSchema for NewDenyRule {
    fn schema() -> RefOr<Schema> {
        let any = format!("^[^{CONTROL}]*$");
        let rule = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .description(Some("A deny rule for any place in a command's text."))
            .property(
                "pattern",
                pattern(
                    any,
                    "A path glob, a bare command name (wherever the file lies), or `*`.",
                ),
            )
            .property(
                "argPattern",
                nullable(
                    Type::String,
                    "A regular expression over the arguments; any arguments unless given.",
                ),
            )
            .property("reason", reason())
            .property("children", children(false))
            .required("pattern")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        // Wildcards stand in the last component alone, which names something.
        let listed = format!(r"^(\*\*/)?([^*?{CONTROL}]*/)?[^/{CONTROL}]*[^/*\s{CONTROL}]\*?$");
        let kept = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Object))
            .description(Some(
                "A deny rule that holds for what the programs of a run start or read, too, at the level `confined`.",
            ))
            .property("pattern", pattern(listed, "A name, a path, or wildcards in the last component."))
            .property("argPattern", null("Not beside `children`."))
            .property("reason", reason())
            .property("children", children(true))
            .required("pattern")
            .required("children")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let either = AnyOfBuilder::new()
            .item(Schema::from(rule.build()))
            .item(Schema::from(kept.build()))
            .description(Some("A deny rule to add."));
        RefOr::T(Schema::from(either.build()))
    }
}

fn pattern(pattern: String, description: &str) -> Schema {
    let text = text()
        .pattern(Some(pattern))
        .min_length(Some(1))
        .max_length(Some(MAX_BYTES));
    text.description(Some(description)).build().into()
}

fn nullable(kind: Type, description: &str) -> Schema {
    let value = ObjectBuilder::new().schema_type(SchemaType::from_iter([kind, Type::Null]));
    value.description(Some(description)).build().into()
}

fn null(description: &str) -> Schema {
    let value = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null));
    value.description(Some(description)).build().into()
}

fn reason() -> Schema {
    let text = ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::String, Type::Null]));
    text.max_length(Some(1000))
        .description(Some("Why, for people."))
        .build()
        .into()
}

/// What `children` says where it is this.
fn children(is: bool) -> Schema {
    let (kind, values) = if is {
        (SchemaType::Type(Type::Boolean), vec![json!(true)])
    } else {
        let kind = SchemaType::from_iter([Type::Boolean, Type::Null]);
        (kind, vec![json!(false), Value::Null])
    };
    ObjectBuilder::new()
        .schema_type(kind)
        .enum_values(Some(values))
        .description(Some(
            "No program of a run at the level `confined` can start or read a match either.",
        ))
        .build()
        .into()
}

impl ToSchema for NewDenyRule {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("NewDenyRule")
    }
}

impl PartialSchema for IfMatch {
    fn schema() -> RefOr<Schema> {
        let pattern = r#"^(\*|(W/)?"[^"]*"( *, *(W/)?"[^"]*")*)$"#;
        let text = text()
            .pattern(Some(pattern))
            .description(Some("`*`, or quoted entity tags joined by commas."));
        RefOr::T(text.build().into())
    }
}

impl ToSchema for IfMatch {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("IfMatch")
    }
}

impl PartialSchema for AgentScope {
    fn schema() -> RefOr<Schema> {
        let pattern = Some(r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$");
        let text = text()
            .pattern(pattern)
            .description(Some("Id of an agent, or `*` for all agents."));
        RefOr::T(text.build().into())
    }
}

impl ToSchema for AgentScope {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("AgentScope")
    }
}
