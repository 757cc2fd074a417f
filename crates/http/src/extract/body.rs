//! Request bodies: JSON only, bounded in size and time, every unknown or wrong member named.
//!
//! Not `tower_http::limit`: it refuses a large body before credentials and media type are looked at.
//! Not `tower_http::timeout`: it bounds the complete answer, or each frame of a body and not the sum of them.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::{FromRef, FromRequest, Request},
    http::{HeaderMap, HeaderValue, header},
};
use bytes::BytesMut;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_path_to_error::Segment;
use tokio::{runtime::Handle, sync::Semaphore, time::Instant};

use countersign_config::approvals::document;
use countersign_domain::Actor;
use countersign_engine::{Turn, Turns};
use countersign_protocol::ByName;

use super::words;

use crate::{
    admission::{Credentials, RequestSource},
    problem::{Code, Problem},
};

/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_mins(1);

/// Largest body where there is little to say, or where the server does not know the caller yet: strangers must not
/// make the server hold more.
const SHORT: usize = 16 * 1024;

/// Limits that no setting raises.
const FIXED: [usize; 2] = [SHORT, document::MAX_BYTES];

/// Bodies above this size are read one at a time of each caller.
const LARGE: usize = 64 * 1024;

/// Messages above this size are taken apart one at a time of each caller: the protocol library builds all of what it reads.
const LARGE_MESSAGE: usize = 4 * 1024;

/// What the large bodies of one caller may bring in a second, once they are more than one.
const LARGE_BYTES_PER_SECOND: f64 = 33_554_432.0;

/// How large a body may be, and whose turn it is to send a large one.
#[derive(Debug, Clone)]
pub(crate) struct BodyLimit {
    bytes: usize,
    turns: Arc<Turns>,
}

impl BodyLimit {
    /// Bodies of at most so many bytes (`[limits] body_bytes`).
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            // A caller whose body comes slowly keeps nobody else from sending one.
            turns: Arc::new(Turns::among(Semaphore::MAX_PERMITS)),
        }
    }

    /// The largest body.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The turn of a caller to have a message of so many bytes taken apart, from the same share as their large bodies; a
    /// small one needs none.
    pub(crate) async fn turn_for(&self, caller: &Actor, bytes: usize) -> Result<Option<Turn>, Problem> {
        if bytes <= LARGE_MESSAGE {
            return Ok(None);
        }
        let turn = self.turns.wait(caller, ARRIVAL).await;
        turn.map(Some).map_err(|_full| no_turn())
    }
}

fn no_turn() -> Problem {
    Problem::new(
        Code::RateLimited,
        "too many large bodies of this caller are read or wait for it",
    )
    .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A short JSON body, of a caller who may be anybody.
#[derive(Debug)]
pub(crate) struct ShortJson<T>(pub(crate) T);

/// A JSON body together with its exact bytes.
#[derive(Debug)]
pub(crate) struct RawJson<T> {
    pub(crate) value: T,
    /// As it was sent.
    pub(crate) bytes: Bytes,
}

/// A short JSON body, or none.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub(crate) T);

/// The bytes of a body that is said to be JSON, for a reader of its own.
#[derive(Debug)]
pub(crate) struct JsonBytes(pub(crate) Bytes);

/// The bytes of an approvals document, for a reader of its own. It may be as large as one that is read from its file, or
/// as any other body.
#[derive(Debug)]
pub(crate) struct DocumentBytes(pub(crate) Bytes);

/// No body, or `{}`: for operations that take nothing.
#[derive(Debug)]
pub(crate) struct EmptyBody;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl<T, State> FromRequest<State> for JsonBody<T>
where
    T: DeserializeOwned,
    State: Send + Sync,
    BodyLimit: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        let RawJson { value, bytes: _ } = RawJson::from_request(request, state).await?;
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned, State: Send + Sync> FromRequest<State> for ShortJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &State) -> Result<Self, Problem> {
        check_content_type(request.headers())?;
        let bytes = read(request.into_body(), SHORT, None).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default, State: Send + Sync> FromRequest<State> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &State) -> Result<Self, Problem> {
        let is_json = check_content_type(request.headers());
        let bytes = read(request.into_body(), SHORT, None).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        is_json?;
        parse(&bytes).map(Self)
    }
}

impl<T, State> FromRequest<State> for RawJson<T>
where
    T: DeserializeOwned,
    State: Send + Sync,
    BodyLimit: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        let bytes = read_json(request, BodyLimit::from_ref(state)).await?;
        let value = parse(&bytes)?;
        Ok(Self { value, bytes })
    }
}

impl<State> FromRequest<State> for JsonBytes
where
    State: Send + Sync,
    BodyLimit: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        read_json(request, BodyLimit::from_ref(state)).await.map(Self)
    }
}

impl<State> FromRequest<State> for DocumentBytes
where
    State: Send + Sync,
    BodyLimit: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        let limit = BodyLimit::from_ref(state);
        let limit = BodyLimit {
            bytes: limit.bytes.max(document::MAX_BYTES),
            ..limit
        };
        read_json(request, limit).await.map(Self)
    }
}

impl<State: Send + Sync> FromRequest<State> for EmptyBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &State) -> Result<Self, Problem> {
        let is_json = check_content_type(request.headers());
        let bytes = read(request.into_body(), SHORT, None).await?;
        if !bytes.is_empty() {
            is_json?;
            parse::<Nothing>(&bytes)?;
        }
        Ok(Self)
    }
}

/// For a member that may be left out but not be null: what narrows a right must not be lost in a script that had no
/// value for it.
pub(crate) fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let mut values = headers.get_all(header::CONTENT_TYPE).into_iter();
    let content_type = values.next().and_then(|value| value.to_str().ok());
    match content_type {
        Some(text) if is_json(text) && values.next().is_none() => Ok(()),
        Some(_) | None => Err(Problem::new(
            Code::UnsupportedMediaType,
            "send the body as content-type: application/json",
        )),
    }
}

/// JSON is UTF-8 (RFC 8259, 8.1); bytes that are said to be something else are not guessed at.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let is_utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        Some(_) | None => true,
    };
    essence.eq_ignore_ascii_case("application/json") && parts.all(is_utf8)
}

/// Reads a body that is said to be JSON and may be large.
#[crate::compiled_once]
async fn read_json(request: Request, limit: BodyLimit) -> Result<Bytes, Problem> {
    check_content_type(request.headers())?;
    let caller = match request
        .extensions()
        .get::<RequestSource>()
        .map(|origin| &origin.credentials)
    {
        Some(Credentials::Valid(key)) => Some(key.principal().actor.clone()),
        // Such a caller is only refused, no matter what it sends.
        Some(_) | None => None,
    };
    let turns = caller.map(|caller| (&limit.turns, caller));
    read(request.into_body(), limit.bytes, turns).await
}

async fn read(body: Body, limit: usize, turns: Option<(&Arc<Turns>, Actor)>) -> Result<Bytes, Problem> {
    let announced = body.size_hint().exact();
    let arrival = tokio::time::timeout(ARRIVAL, collect(Limited::new(body, limit), turns));
    match arrival.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Unread::Broken(error))) if error.is::<LengthLimitError>() => Err(too_large(limit, announced)),
        Ok(Err(Unread::Broken(_error))) => {
            Err(Problem::new(Code::InvalidRequest, "the body could not be read"))
        }
        Ok(Err(Unread::NoTurn)) => Err(no_turn()),
        Err(_elapsed) => Err(Problem::new(
            Code::InvalidRequest,
            "the body did not arrive in time",
        )),
    }
}

/// Refuses a body of so many bytes; one that comes in pieces does not say how many.
fn too_large(limit: usize, announced: Option<u64>) -> Problem {
    let size = announced.map_or_else(|| format!("more than {limit}"), |bytes| bytes.to_string());
    let key = if FIXED.contains(&limit) {
        ""
    } else {
        " ([limits] body_bytes)"
    };
    let detail = format!("the body has {size} bytes, and at most {limit} are taken{key}");
    Problem::new(Code::BodyTooLarge, detail).with(|body| {
        body.limit_bytes = u64::try_from(limit).ok();
        body.sent_bytes = announced;
    })
}

/// Why a body was not read.
enum Unread {
    /// It is too large, or ended early.
    Broken(Box<dyn std::error::Error + Send + Sync>),
    NoTurn,
}

/// Collects a body; what goes beyond [`LARGE`] when it is the caller's turn.
async fn collect(body: Limited<Body>, turns: Option<(&Arc<Turns>, Actor)>) -> Result<Bytes, Unread> {
    let mut body = pin!(body);
    let mut turns = turns;
    let mut pace = None;
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else {
            continue;
        };
        bytes.extend_from_slice(&data);
        if bytes.len() > LARGE
            && let Some((turns, caller)) = turns.take()
        {
            let turn = turns.wait(&caller, ARRIVAL).await;
            pace = Some(Pace::new(turn.map_err(|_full| Unread::NoTurn)?));
        }
        if let Some(pace) = &mut pace {
            pace.bytes = bytes.len();
        }
    }
    Ok(bytes.freeze())
}

/// A caller's turn to send a large body. The turn goes on for as long as the bytes of the body may take, no matter what
/// becomes of the body: so nobody keeps the machine busy with nothing but taking in bodies.
struct Pace {
    turn: Option<Turn>,
    begun: Instant,
    bytes: usize,
}

impl Pace {
    fn new(turn: Turn) -> Self {
        Self {
            turn: Some(turn),
            begun: Instant::now(),
            bytes: 0,
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        let until = self.begun + Duration::from_secs_f64(f64::from(bytes) / LARGE_BYTES_PER_SECOND);
        // Outside of a runtime there is no next one.
        if let (Some(turn), Ok(runtime)) = (self.turn.take(), Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep_until(until).await;
                drop(turn);
            });
        }
    }
}

/// Reads a JSON text, an object with the members of `T`; a refusal names the member that is wrong. Parses without tracking
/// the path first: it costs time that only refusals need to spend.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let read = serde_json::from_slice(bytes).map(|ByName(value)| value);
    read.map_err(|error| refusal(bytes, &error, located::<T>, reading_error::<T>))
}

/// Where a text is no `T`, and why; `None` where it is one, with other text behind it.
type Located = Option<serde_path_to_error::Error<serde_json::Error>>;

fn located<T: DeserializeOwned>(bytes: &[u8]) -> Located {
    let deserializer = &mut serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize::<_, ByName<T>>(deserializer).err()
}

fn reading_error<T: DeserializeOwned>(bytes: &[u8]) -> Option<serde_json::Error> {
    serde_json::from_slice::<ByName<T>>(bytes).err()
}

/// What is answered to a text that could not be read.
fn refusal(
    bytes: &[u8],
    error: &serde_json::Error,
    locate: fn(&[u8]) -> Located,
    reading_error: fn(&[u8]) -> Option<serde_json::Error>,
) -> Problem {
    // Of null or a number where a word belongs, serde_json says that the text is no JSON.
    let reads = || serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
    if !error.is_data() && !reads() {
        return Problem::new(Code::InvalidRequest, words::of_syntax(&error.to_string()));
    }
    let Some(located) = locate(bytes) else {
        // Trailing text is an error of the first reading only.
        return Problem::new(Code::InvalidRequest, words::of_syntax(&error.to_string()));
    };
    let path = located.path().to_string();
    let message = match known_words(bytes, located.path(), reading_error) {
        Some(message) if !located.inner().is_data() => message,
        Some(_) | None => located.inner().to_string(),
    };
    explain(if path == "." { "" } else { &path }, &message)
}

/// What serde says of an unknown word at this place, which lists the known ones. `None` where no word belongs.
fn known_words(
    bytes: &[u8],
    place: &serde_path_to_error::Path,
    reading_error: fn(&[u8]) -> Option<serde_json::Error>,
) -> Option<String> {
    let mut value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let mut wrong = &mut value;
    for part in place {
        wrong = match part {
            Segment::Seq { index } => wrong.get_mut(index)?,
            Segment::Map { key } => wrong.get_mut(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    let found = wrong.to_string();
    *wrong = serde_json::Value::String(String::new());
    // From text, as the first reading was: what reads a `T` exists for that already.
    let text = serde_json::to_vec(&value).ok()?;
    let error = reading_error(&text)?.to_string();
    let known = without_position(&error).strip_prefix("unknown variant ``")?;
    Some(format!("unknown variant `{found}`{known}"))
}

/// Says "unknown member" with its name where serde says so in its own way.
fn explain(path: &str, message: &str) -> Problem {
    let message = without_position(message);
    if let Some(name) = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        let dot = if path.is_empty() { "" } else { "." };
        return Problem::field(format!("{path}{dot}{name}"), "this member is needed");
    }
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return Problem::field(path, words::with_unit(path, words::of_json(message)));
    };
    let (name, known) = rest.split_once('`').unwrap_or((rest, ""));
    let at = match path {
        "" => name.to_owned(),
        path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        path => format!("{path}.{name}"),
    };
    Problem::field(at, words::unknown("member", name, &words::names(known)))
}

fn without_position(message: &str) -> &str {
    message
        .rsplit_once(" at line ")
        .map_or(message, |(text, _position)| text)
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;
    use countersign_domain::ActorKind;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Sample {
        agent_id: Option<countersign_domain::AgentId>,
        inner: Option<Inner>,
        #[serde(default, deserialize_with = "not_null")]
        ask: Option<countersign_domain::Ask>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        number: u64,
    }

    #[derive(Clone)]
    struct Small;

    impl FromRef<Small> for BodyLimit {
        fn from_ref(_state: &Small) -> Self {
            Self::new(100)
        }
    }

    async fn refused(content_type: Option<&str>, body: impl Into<Body>) -> String {
        let mut request = Request::builder();
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(body.into()).unwrap();
        let problem = JsonBody::<Sample>::from_request(request, &Small)
            .await
            .map(|_| ())
            .unwrap_err();
        let document = problem.to_json("/", "q");
        let path = document["fields"][0]["path"].as_str().unwrap_or("-");
        let detail = document["detail"].as_str().unwrap();
        format!("{} [{path}] {detail}", document["code"].as_str().unwrap())
    }

    const JSON: Option<&str> = Some("application/json; charset=utf-8");

    #[tokio::test]
    async fn wrong_members_are_named_with_their_path() {
        for (body, expected) in [
            (
                r#"{"secuirty":1}"#,
                "[secuirty] secuirty: unknown member; known: agentId, inner, ask",
            ),
            (
                r#"{"inner":{"number":1,"x":2}}"#,
                "[inner.x] inner.x: unknown member; known: number",
            ),
            (
                r#"{"innr":{}}"#,
                "[innr] innr: unknown member; did you mean inner?",
            ),
            (
                r#"{"inner":{"number":"x"}}"#,
                "[inner.number] inner.number: expected a whole number from 0 on, not the text \"x\"",
            ),
            (
                r#"{"agentId":"../x"}"#,
                "[agentId] agentId: expected 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit",
            ),
            (
                r#"{"agentId":"a","agentId":"b"}"#,
                "[] agentId is given more than once",
            ),
            (
                r#"{"inner":{}}"#,
                "[inner.number] inner.number: this member is needed",
            ),
            (
                r#"{"ask":null}"#,
                "[ask] ask: expected off, on-miss or always, not null",
            ),
            (
                r#"{"ask":7}"#,
                "[ask] ask: expected off, on-miss or always, not 7",
            ),
            (r#"["a",null,"off"]"#, "[] expected an object, not a list"),
            ("7", "[] expected an object, not 7"),
        ] {
            assert_eq!(
                refused(JSON, body).await,
                format!("invalid-request {expected}"),
                "{body}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_no_json_is_refused() {
        for body in [
            &b""[..],
            b"{} {}",
            b"{\"agentId\":",
            b"{\"agentId\":\"\xff\"}",
            b"\xef\xbb\xbf{}",
            b"{'a':1}",
        ] {
            let refused = refused(JSON, body).await;
            assert!(
                refused.starts_with("invalid-request [-] not valid JSON: "),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn other_types_and_large_bodies_are_refused() {
        let expected = "unsupported-media-type [-] send the body as content-type: application/json";
        assert_eq!(refused(None, "{}").await, expected);
        for other in [
            "text/plain",
            "application/json-patch+json",
            "application/json; charset=latin1",
        ] {
            assert_eq!(refused(Some(other), "{}").await, expected, "{other}");
        }
        let large = refused(JSON, format!("{{}}{}", " ".repeat(99))).await;
        assert_eq!(
            large,
            "body-too-large [-] the body has 101 bytes, and at most 100 are taken ([limits] body_bytes)"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_of_one_caller_are_read_one_at_a_time() {
        let limit = BodyLimit::new(1 << 20);
        let [one, other] = ["one", "other"].map(|id| Actor {
            kind: ActorKind::Token,
            id: id.to_owned(),
            name: "n".to_owned(),
            owner: None,
        });
        let take = |caller: &Actor, body: Body| read(body, limit.bytes, Some((&limit.turns, caller.clone())));
        let spaces = |bytes: usize| vec![b' '; bytes];
        let begun = stream::iter([Ok::<_, std::io::Error>(spaces(LARGE + 1))]);
        let mut first = Box::pin(take(&one, Body::from_stream(begun.chain(stream::pending()))));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(take(&one, spaces(LARGE + 1).into()));
        assert!(second.as_mut().now_or_never().is_none());
        for (caller, bytes) in [(&one, LARGE), (&other, LARGE + 1)] {
            let read = take(caller, spaces(bytes).into()).now_or_never();
            assert_eq!(read.expect("no turn is waited for").unwrap().len(), bytes);
        }
        let ended = Instant::now();
        drop(first);
        assert_eq!(second.await.unwrap().len(), LARGE + 1);
        assert!(
            ended.elapsed() >= Duration::from_millis(1),
            "its bytes have their time"
        );
    }

    #[tokio::test]
    async fn an_empty_body_means_nothing_and_so_does_an_empty_object() {
        let take = |content_type: &'static str, body: &'static str| async move {
            let request = Request::builder()
                .header(header::CONTENT_TYPE, content_type)
                .body(body.into())
                .unwrap();
            EmptyBody::from_request(request, &Small)
                .await
                .map_err(|problem| problem.code())
        };
        assert!(take("text/plain", "").await.is_ok());
        assert!(take("application/json", "{}").await.is_ok());
        assert_eq!(
            take("text/plain", "{}").await.unwrap_err(),
            Code::UnsupportedMediaType
        );
        assert_eq!(
            take("application/json", r#"{"a":1}"#).await.unwrap_err(),
            Code::InvalidRequest
        );
    }
}
