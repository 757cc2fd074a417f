//! `connect`: who wants to be what (`docs/spec/bridge.md#3-handshake`). Both generations' parameters in one closed
//! form.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use unicode_general_category::{GeneralCategory, get_general_category};

use countersign_domain::Secret;

use super::{
    fields::{Fields, ShapeError},
    proof::{Device, ProofInput},
};

/// The client id of a node host, the same in both generations.
pub const NODE_HOST_ID: &str = "node-host";
/// The client mode of a node host.
pub const NODE_MODE: &str = "node";
/// What our own node's `userAgent` begins with: it keeps a fence per invoke id and understands `notAfterMs`.
pub const OUR_USER_AGENT: &str = "countersign/";

/// Longest name, version, platform and the like.
const MAX_WORD: usize = 256;
/// Most commands, caps, scopes or permissions.
const MAX_ITEMS: usize = 256;
const MAX_PATH_ENV: usize = 32 * 1024;
const MAX_CREDENTIAL: usize = 4096;

/// What a peer wants to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A client that lists, asks and answers for a person; the default where no role is sent.
    Operator,
    /// A machine that runs commands.
    Node,
}

impl Role {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Node => "node",
        }
    }

    /// The role of a name; `None` for one that nobody has here.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "operator" => Some(Self::Operator),
            "node" => Some(Self::Node),
            _other => None,
        }
    }
}

/// The parameters of `connect`.
#[derive(Debug, Clone)]
pub struct ConnectParams {
    /// Lowest protocol that the client speaks.
    pub min_protocol: i64,
    /// Highest protocol that the client speaks; [`super::Protocol::negotiate`] picks from the range.
    pub max_protocol: i64,
    /// What program it is.
    pub client: Client,
    /// What kinds of things it can do.
    pub caps: Vec<String>,
    /// The commands that a node serves.
    pub commands: Vec<String>,
    /// Permissions of its platform.
    pub permissions: BTreeMap<String, bool>,
    /// The `PATH` of a node, at most 32 KiB; `None` where it sends none.
    pub path_env: Option<String>,
    /// The role as sent; `None` when it was left out.
    pub role: Option<String>,
    /// Scopes as sent, in order.
    pub scopes: Vec<String>,
    /// The device's proof; `None` when none was sent, which is refused for nodes.
    pub device: Option<Device>,
    /// The secrets that it sends; all empty when the member is missing.
    pub auth: Credentials,
    /// Language and region of the client. Nothing here depends on it.
    pub locale: Option<String>,
    /// Its own description of itself.
    pub user_agent: Option<String>,
}

/// What program a client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// `node-host`, `cli` and so on.
    pub id: String,
    /// `node`, `cli` and so on.
    pub mode: String,
    /// Version of that program, in its own form; at most 256 bytes.
    pub version: String,
    /// `linux` and so on.
    pub platform: String,
    /// Its name for people. What cannot be seen in it is replaced.
    pub display_name: Option<String>,
    /// `Linux` and so on.
    pub device_family: Option<String>,
    /// Hardware model of the machine; nodes of ours send none.
    pub model_identifier: Option<String>,
    /// A random id of the installation; not the node's id.
    pub instance_id: Option<String>,
}

/// The secrets of a `connect`. Each may be missing, and the two generations use different members.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The shared token, an API token, or (first generation) a device token.
    pub token: Option<Secret>,
    /// A device token (present generation).
    pub device_token: Option<Secret>,
    /// A setup code's token.
    pub bootstrap_token: Option<Secret>,
    /// The shared secret as a password.
    pub password: Option<Secret>,
}

impl ConnectParams {
    /// Reads the parameters.
    ///
    /// # Errors
    /// [`ShapeError`] when they are not of the form that either generation sends, or beyond our bounds.
    pub fn parse(params: Value) -> Result<Self, ShapeError> {
        let mut fields = Fields::of(params, "")?;
        let min_protocol = protocol(&mut fields, "minProtocol")?;
        let max_protocol = protocol(&mut fields, "maxProtocol")?;
        let client = match fields.optional_object("client")? {
            None => return Err(ShapeError::at("", "must have required property 'client'")),
            Some(client) => Client::of(client)?,
        };
        let params = Self {
            min_protocol,
            max_protocol,
            client,
            caps: words(&mut fields, "caps")?,
            commands: words(&mut fields, "commands")?,
            permissions: permissions(&mut fields)?,
            path_env: plain(&mut fields, "pathEnv", MAX_PATH_ENV)?,
            role: fields.optional_text("role", MAX_WORD)?,
            scopes: words(&mut fields, "scopes")?,
            device: fields.optional_object("device")?.map(Device::of).transpose()?,
            auth: fields
                .optional_object("auth")?
                .map(Credentials::of)
                .transpose()?
                .unwrap_or_default(),
            locale: plain(&mut fields, "locale", MAX_WORD)?,
            user_agent: plain(&mut fields, "userAgent", 1024)?,
        };
        // What the present generation's other clients say of themselves; nothing here depends on it.
        for name in ["computerUse", "workerRuns"] {
            fields.take(name);
        }
        fields.finish()?;
        Ok(params)
    }

    /// The parameters as a value: the client's half of [`ConnectParams::parse`].
    pub fn to_value(&self) -> Value {
        let Self {
            min_protocol,
            max_protocol,
            client,
            caps,
            commands,
            permissions,
            path_env,
            role,
            scopes,
            device,
            auth,
            locale,
            user_agent,
        } = self;
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        put("minProtocol", (*min_protocol).into());
        put("maxProtocol", (*max_protocol).into());
        put("client", client.to_value());
        put("caps", json!(caps));
        put("commands", json!(commands));
        if !permissions.is_empty() {
            put("permissions", json!(permissions));
        }
        if let Some(path_env) = path_env {
            put("pathEnv", path_env.as_str().into());
        }
        if let Some(role) = role {
            put("role", role.as_str().into());
        }
        put("scopes", json!(scopes));
        if let Some(device) = device {
            put("device", device.to_value());
        }
        let auth = auth.to_value();
        if auth.as_object().is_some_and(|auth| !auth.is_empty()) {
            put("auth", auth);
        }
        if let Some(locale) = locale {
            put("locale", locale.as_str().into());
        }
        if let Some(user_agent) = user_agent {
            put("userAgent", user_agent.as_str().into());
        }
        Value::Object(members)
    }

    /// What its device signed; the nonce is empty, since only the connection's own counts.
    pub fn proof_input<'a>(&'a self, device: &'a Device) -> ProofInput<'a> {
        ProofInput {
            device_id: &device.id,
            client_id: &self.client.id,
            client_mode: &self.client.mode,
            role: self.role_name(),
            scopes: &self.scopes,
            signed_at_ms: device.signed_at_ms,
            token: self.auth.signed(),
            nonce: "",
            platform: &self.client.platform,
            device_family: self.client.device_family.as_deref().unwrap_or_default(),
        }
    }

    /// The role's name: operator when none was sent.
    pub fn role_name(&self) -> &str {
        self.role.as_deref().unwrap_or("operator")
    }

    /// Whether it is a node host of ours.
    pub fn is_ours(&self) -> bool {
        self.user_agent
            .as_deref()
            .is_some_and(|agent| agent.starts_with(OUR_USER_AGENT))
    }
}

impl Client {
    fn of(mut fields: Fields) -> Result<Self, ShapeError> {
        let client = Self {
            id: required_plain(&mut fields, "id", MAX_WORD)?,
            mode: required_plain(&mut fields, "mode", MAX_WORD)?,
            version: required_plain(&mut fields, "version", MAX_WORD)?,
            platform: required_plain(&mut fields, "platform", MAX_WORD)?,
            display_name: fields
                .loose_text("displayName", MAX_WORD)?
                .map(|name| short_visible(&name))
                .filter(|name| !name.is_empty()),
            device_family: plain(&mut fields, "deviceFamily", MAX_WORD)?,
            model_identifier: plain(&mut fields, "modelIdentifier", MAX_WORD)?,
            instance_id: plain(&mut fields, "instanceId", MAX_WORD)?,
        };
        fields.optional_text("buildId", 96)?;
        fields.optional_text("timeZone", 64)?;
        fields.finish()?;
        Ok(client)
    }

    fn to_value(&self) -> Value {
        let mut members = Map::new();
        let named = [
            ("id", Some(&self.id)),
            ("displayName", self.display_name.as_ref()),
            ("version", Some(&self.version)),
            ("platform", Some(&self.platform)),
            ("deviceFamily", self.device_family.as_ref()),
            ("modelIdentifier", self.model_identifier.as_ref()),
            ("mode", Some(&self.mode)),
            ("instanceId", self.instance_id.as_ref()),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                members.insert(name.to_owned(), value.as_str().into());
            }
        }
        Value::Object(members)
    }
}

impl Credentials {
    /// What enters the signature.
    pub fn signed(&self) -> &str {
        [&self.token, &self.device_token, &self.bootstrap_token]
            .into_iter()
            .flatten()
            .next()
            .map_or("", Secret::expose)
    }

    /// The candidates for the shared secret: either field may hold it.
    pub fn shared(&self) -> impl Iterator<Item = &str> {
        [&self.token, &self.password]
            .into_iter()
            .flatten()
            .map(Secret::expose)
    }

    /// The candidates for a device token: the two generations use different fields.
    pub fn device(&self) -> impl Iterator<Item = &str> {
        [&self.device_token, &self.token]
            .into_iter()
            .flatten()
            .map(Secret::expose)
    }

    /// Whether anything was sent that could be right or wrong.
    pub fn is_empty(&self) -> bool {
        self.token.is_none()
            && self.device_token.is_none()
            && self.bootstrap_token.is_none()
            && self.password.is_none()
    }

    fn of(mut fields: Fields) -> Result<Self, ShapeError> {
        let mut secret = |name| {
            fields
                .loose_text(name, MAX_CREDENTIAL)
                .map(|text| text.map(Secret::new))
        };
        let credentials = Self {
            token: secret("token")?,
            device_token: secret("deviceToken")?,
            bootstrap_token: secret("bootstrapToken")?,
            password: secret("password")?,
        };
        for unused in ["approvalRuntimeToken", "agentRuntimeIdentityToken"] {
            secret(unused)?;
        }
        fields.finish()?;
        Ok(credentials)
    }

    fn to_value(&self) -> Value {
        let mut members = Map::new();
        let named = [
            ("token", &self.token),
            ("deviceToken", &self.device_token),
            ("bootstrapToken", &self.bootstrap_token),
            ("password", &self.password),
        ];
        for (name, secret) in named {
            if let Some(secret) = secret {
                members.insert(name.to_owned(), secret.expose().into());
            }
        }
        Value::Object(members)
    }
}

/// A name as people may see it: what cannot be seen, or turns the text around, is replaced.
pub fn visible(name: &str) -> String {
    name.trim()
        .chars()
        .map(|character| {
            if is_hidden(character) {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect()
}

/// The same, no longer than what a name may be: a replacement may take more bytes than its character did.
fn short_visible(name: &str) -> String {
    let shown = visible(name);
    let end = shown.floor_char_boundary(MAX_WORD);
    shown.get(..end).unwrap_or_default().trim_end().to_owned()
}

fn is_hidden(character: char) -> bool {
    matches!(
        get_general_category(character),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    )
}

fn protocol(fields: &mut Fields, name: &'static str) -> Result<i64, ShapeError> {
    let number = fields.integer(name)?;
    if number < 1 {
        return Err(fields.wrong(name, "must be >= 1"));
    }
    Ok(number)
}

/// Names of commands, caps and scopes: what a program writes, never prose.
fn words(fields: &mut Fields, name: &'static str) -> Result<Vec<String>, ShapeError> {
    let words = fields.texts(name, MAX_ITEMS, 128)?;
    if words
        .iter()
        .any(|word| !word.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err(fields.wrong(name, "must be printable ASCII without blanks"));
    }
    Ok(words)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other case, a later one too, is treated alike"
)]
fn permissions(fields: &mut Fields) -> Result<BTreeMap<String, bool>, ShapeError> {
    let Some(value) = fields.take("permissions") else {
        return Ok(BTreeMap::new());
    };
    let Value::Object(members) = value else {
        return Err(fields.wrong("permissions", "must be object"));
    };
    if members.len() > MAX_ITEMS {
        return Err(fields.wrong("permissions", "must not have more than 256 properties"));
    }
    members
        .into_iter()
        .map(|(name, value)| match value {
            Value::Bool(granted) if name.len() <= MAX_WORD && !name.chars().any(is_hidden) => {
                Ok((name, granted))
            }
            _other => Err(fields.wrong("permissions", "must be a map of short names to booleans")),
        })
        .collect()
}

fn plain(fields: &mut Fields, name: &'static str, longest: usize) -> Result<Option<String>, ShapeError> {
    let text = fields.loose_text(name, longest)?;
    match text {
        Some(text) if text.chars().any(is_hidden) => {
            Err(fields.wrong(name, "must not have control characters"))
        }
        text => Ok(text),
    }
}

fn required_plain(fields: &mut Fields, name: &'static str, longest: usize) -> Result<String, ShapeError> {
    let text = fields.text(name, longest)?;
    if text.chars().any(is_hidden) {
        return Err(fields.wrong(name, "must not have control characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn params() -> Value {
        json!({
            "minProtocol": 3,
            "maxProtocol": 4,
            "client": {"id": "node-host", "mode": "node", "version": "1", "platform": "linux"},
            "device": {"id": "d", "publicKey": "k", "signature": "s", "signedAt": 1, "nonce": "n"},
            "auth": {"token": "t"},
        })
    }

    #[test]
    fn a_name_does_not_grow_by_being_made_visible() {
        let mut named = params();
        named["client"]["displayName"] = json!(format!("{} {}", "\u{7f}".repeat(85), "x".repeat(100)));
        let read = ConnectParams::parse(named).unwrap();
        assert_eq!(read.client.display_name, Some("\u{fffd}".repeat(85)));
        let again = ConnectParams::parse(read.to_value()).unwrap();
        assert_eq!(again.client.display_name, read.client.display_name);
    }

    #[test]
    fn both_generations_have_their_optional_members() {
        let mut full = params();
        full["client"]["buildId"] = json!("b");
        full["client"]["timeZone"] = json!("UTC");
        full["client"]["displayName"] = json!(" box\u{200b} ");
        full["computerUse"] = json!({});
        full["workerRuns"] = json!([]);
        full["auth"]["deviceToken"] = json!("");
        full["permissions"] = json!({"camera": false});
        let read = ConnectParams::parse(full).unwrap();
        assert_eq!(read.client.display_name.as_deref(), Some("box\u{fffd}"));
        assert!(read.auth.device_token.is_none(), "an empty one is none");
        assert_eq!(read.permissions.get("camera"), Some(&false));
        assert_eq!(read.role_name(), "operator");
    }

    #[test]
    fn the_signed_credential_is_the_first_that_was_sent() {
        let signed = |auth: Value| {
            let mut params = params();
            params["auth"] = auth;
            ConnectParams::parse(params).unwrap().auth.signed().to_owned()
        };
        assert_eq!(
            signed(json!({"token": "t", "deviceToken": "d", "bootstrapToken": "b"})),
            "t"
        );
        assert_eq!(signed(json!({"deviceToken": "d", "bootstrapToken": "b"})), "d");
        assert_eq!(signed(json!({"bootstrapToken": "b", "password": "p"})), "b");
        assert_eq!(signed(json!({"password": "p"})), "");
    }

    proptest! {
        #[test]
        fn an_unknown_member_is_never_taken(name in "[a-zA-Z]{1,16}", place in 0..4_usize) {
            const KNOWN: [&[&str]; 4] = [
                &[
                    "minProtocol", "maxProtocol", "client", "caps", "commands", "permissions", "pathEnv", "role",
                    "scopes", "device", "auth", "locale", "userAgent", "computerUse", "workerRuns",
                ],
                &[
                    "id", "mode", "version", "platform", "displayName", "deviceFamily", "modelIdentifier",
                    "instanceId", "buildId", "timeZone",
                ],
                &["id", "publicKey", "signature", "signedAt", "nonce"],
                &[
                    "token", "deviceToken", "bootstrapToken", "password", "approvalRuntimeToken",
                    "agentRuntimeIdentityToken",
                ],
            ];
            prop_assume!(!KNOWN[place].contains(&name.as_str()));
            let mut params = params();
            let object = ["", "/client", "/device", "/auth"][place];
            params.pointer_mut(object).unwrap()[name] = json!("x");
            prop_assert!(ConnectParams::parse(params).is_err());
        }

        #[test]
        fn what_is_shown_of_a_name_hides_nothing(name in ".{0,40}") {
            prop_assert!(!visible(&name).chars().any(is_hidden));
        }
    }
}
