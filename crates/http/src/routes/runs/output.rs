//! The exact bytes of a run's output, whole or in part.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek},
    ops::Range,
    str::FromStr,
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use countersign_domain::{OutputStream, RunId};
use countersign_engine::OutputBytes;
use countersign_runner::output::spool::{self, Selection, SpoolReader};

use super::follow;

use crate::{
    admission::RequestSource,
    caller::{AgentCaller, ReadOrAskedOrOwn},
    extract::{AtPath, Parameters, QueryForm, QueryOf},
    problem::{Code, Problem},
    routes::process::stream::last_event_id,
    short_id,
    state::AppState,
};

/// Read from a spool and sent at once.
const PIECE: usize = 64 * 1024;

/// Pieces on their way to a client that reads slowly.
const AHEAD: usize = 4;

/// Which of the output is wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// `stdout` or `stderr` for one of them; both in order of arrival unless given.
    stream: Option<OutputStream>,
    /// `1` or `true` for the output as it comes, as text or as server-sent events, until the run ends.
    #[param(value_type = Option<String>, pattern = "^(0|1|false|true)$")]
    follow: Option<Follow>,
}

/// Whether output is sent as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follow {
    Yes,
    No,
}

/// It says neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 or true, 0 or false")]
struct UnknownFollow;

impl FromStr for Follow {
    type Err = UnknownFollow;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "true" => Ok(Self::Yes),
            "0" | "false" => Ok(Self::No),
            _ => Err(UnknownFollow),
        }
    }
}

impl OutputQuery {
    /// The only stream that is wanted; `None` for both.
    pub(crate) const fn stream(&self) -> Option<OutputStream> {
        self.stream
    }

    /// Whether the output is wanted as it comes.
    pub(crate) fn is_followed(&self) -> bool {
        self.follow == Some(Follow::Yes)
    }
}

impl QueryForm for OutputQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            stream: parameters.value("stream")?,
            follow: parameters.value("follow")?,
        })
    }
}

/// The exact bytes of a run's output in order of arrival.
///
/// With `follow=1` the output as it comes, until the run ends, of a run that has not started too: as text, or with
/// `Accept: text/event-stream` as events `output` with `offset`, `stream` and `text`, and last `end` with the run. The `id:`
/// of an `output` is the number of bytes up to its end; sent back as `Last-Event-ID` the stream goes on there. What is
/// followed has no ranges, and counts as an event stream of its token.
#[utoipa::path(
    get, path = "/v1/runs/{runId}/output", tag = "runs", operation_id = "get_run_output",
    params(
        ("runId" = RunId, Path), OutputQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes, such as `bytes=0-1023` or `bytes=-512`."),
        ("If-Range" = Option<String>, Header, description = "The range counts only while this is the `ETag`."),
        ("Last-Event-ID" = Option<u64>, Header, description = "With `follow`: after how many bytes of the output to begin."),
    ),
    responses(
        (status = OK, description = "All of it; followed as text or as a stream.", content(
            (Vec<u8> = "application/octet-stream"),
            (String = "text/plain"),
            (String = "text/event-stream"),
        )),
        (status = PARTIAL_CONTENT, description = "A range of it.", content_type = "application/octet-stream", body = Vec<u8>),
        (status = RANGE_NOT_SATISFIABLE, description = "range-not-satisfiable; `Content-Range` has the length."),
        (status = SERVICE_UNAVAILABLE, description = "overloaded: too many streams; storage-unavailable"),
    ),
    security(("token" = ["read"]), ("token" = ["exec"]), ("token" = ["approve"])),
)]
pub(super) async fn bytes(
    caller: AgentCaller<ReadOrAskedOrOwn>,
    AtPath(id): AtPath<RunId>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = last_event_id(&headers)?;
    let id = short_id::run(&state, &caller, id).await?;
    if query.is_followed() {
        let from = (after, query.stream);
        return follow::output(&state, (&caller, origin), &id, from, &headers).await;
    }
    let is_visible = state.engine().records().run(&caller, &id).await?.is_some();
    let stored = if is_visible {
        state.engine().records().output_bytes(&id).await?
    } else {
        None
    };
    let selection = query.stream.map_or(Selection::Both, Selection::Only);
    let wanted = Wanted::of(&id, selection, &headers);
    let part = match stored.ok_or_else(Problem::unknown_run)? {
        OutputBytes::Frames(frames) => part_of(Cursor::new(frames), &wanted).map(in_memory),
        OutputBytes::Spool(path) => {
            let opened = tokio::task::spawn_blocking(move || {
                part_of(countersign_sys::fs::open_regular(&path)?, &wanted)
            });
            opened
                .await
                .unwrap_or_else(|_panic| Err(io::ErrorKind::Other.into()))
                .map(from_file)
        }
    };
    part.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return Problem::not_found("output: it was removed to make room");
        }
        tracing::error!(run.id = %id, %error, "output cannot be read");
        Problem::internal()
    })
}

/// The answer to a request for an output that is at hand, as a spool has it.
pub(crate) fn of_frames(
    id: &RunId,
    only: Option<OutputStream>,
    headers: &HeaderMap,
    frames: Bytes,
) -> Result<Response, Problem> {
    let selection = only.map_or(Selection::Both, Selection::Only);
    let part = part_of(Cursor::new(frames), &Wanted::of(id, selection, headers));
    part.map(in_memory).map_err(|error| {
        tracing::error!(run.id = %id, %error, "output cannot be read");
        Problem::internal()
    })
}

/// What a request wants of an output.
struct Wanted {
    selection: Selection,
    /// What identifies the bytes as far as they are there: output only grows.
    name: String,
    range: Option<String>,
    if_range: Option<String>,
}

impl Wanted {
    fn of(id: &RunId, selection: Selection, headers: &HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let stream = match selection {
            Selection::Both => "both",
            Selection::Only(stream) => stream.as_str(),
        };
        Self {
            selection,
            name: format!("{id}-{stream}"),
            range: text(header::RANGE).map(str::to_owned),
            if_range: headers
                .get(header::IF_RANGE)
                // What is no text is no tag of ours.
                .map(|value| value.to_str().unwrap_or_default().to_owned()),
        }
    }

    fn tag(&self, total: u64) -> String {
        format!("\"{}-{total}\"", self.name)
    }
}

/// A part of an output, measured but not read yet.
struct Part<R> {
    spool: R,
    tag: String,
    selection: Selection,
    total: u64,
    range: Asked,
}

/// What a `Range` header asks for of so many bytes.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Everything: there was no header, or one that may be ignored.
    All,
    /// These bytes.
    Bytes(Range<u64>),
    Beyond,
}

fn part_of<R: Read + Seek>(mut spool: R, wanted: &Wanted) -> io::Result<Part<R>> {
    let total = spool::measure(&mut spool)?.of(wanted.selection);
    let tag = wanted.tag(total);
    let is_same = wanted.if_range.as_ref().is_none_or(|known| *known == tag);
    let range = wanted.range.as_deref().filter(|_| is_same);
    Ok(Part {
        spool,
        tag,
        selection: wanted.selection,
        total,
        range: range.map_or(Asked::All, |header| asked(header, total)),
    })
}

/// Reads a `Range` header (RFC 9110, 14.2). Several ranges, and other units, are answered with everything.
fn asked(header: &str, total: u64) -> Asked {
    let Some((first, last)) = header
        .trim()
        .strip_prefix("bytes=")
        .filter(|ranges| !ranges.contains(','))
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(total),
        (Ok(first), Err(_)) if last.is_empty() => first..total,
        (Err(_), Ok(length)) if first.is_empty() => total.saturating_sub(length)..total,
        _ => return Asked::All,
    };
    if range.is_empty() {
        Asked::Beyond
    } else {
        Asked::Bytes(range)
    }
}

fn in_memory(part: Part<Cursor<Bytes>>) -> Response {
    answer(part, |mut reader| {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(Body::from(bytes))
    })
}

fn from_file(part: Part<File>) -> Response {
    answer(part, |reader| Ok(stream(reader)))
}

fn answer<R: Read + Seek>(
    part: Part<R>,
    to_body: impl FnOnce(SpoolReader<R>) -> io::Result<Body>,
) -> Response {
    let Part {
        spool,
        tag,
        selection,
        total,
        range,
    } = part;
    let (status, range) = match range {
        Asked::All => (StatusCode::OK, 0..total),
        Asked::Bytes(range) => (StatusCode::PARTIAL_CONTENT, range),
        Asked::Beyond => {
            return Problem::new(
                Code::RangeNotSatisfiable,
                format!("there are {total} bytes, and none of them lies in the range"),
            )
            .with_header(header::CONTENT_RANGE, header_text(&format!("bytes */{total}")))
            .into_response();
        }
    };
    let body = SpoolReader::open(spool, selection, range.start, range.end).and_then(to_body);
    let body = match body {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(%error, "output cannot be read");
            return Problem::internal().into_response();
        }
    };
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::ETAG, header_text(&tag));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    // Output of a command is never shown by a browser as if we had written it.
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment"),
    );
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{total}", range.start, range.end - 1);
        headers.insert(header::CONTENT_RANGE, header_text(&range));
    }
    response
}

/// Text of our own making.
fn header_text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits, ids and punctuation are a header value")
}

/// Reads a file on a thread that may block, no faster than the client takes it.
fn stream(mut reader: SpoolReader<File>) -> Body {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match reader.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(Bytes::copy_from_slice(buffer.get(..read).unwrap_or_default())),
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            // A client that left makes the channel close.
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn frames() -> Bytes {
        let mut frames = Vec::new();
        spool::append(&mut frames, OutputStream::Stdout, b"abc").unwrap();
        spool::append(&mut frames, OutputStream::Stderr, b"DE").unwrap();
        spool::append(&mut frames, OutputStream::Stdout, b"fgh").unwrap();
        frames.into()
    }

    async fn get(selection: Selection, range: Option<&str>) -> (u16, String, Option<String>) {
        get_if(selection, range, None).await
    }

    fn wanted(selection: Selection, range: Option<&str>, if_range: Option<&str>) -> Wanted {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::RANGE, range), (header::IF_RANGE, if_range)] {
            headers.extend(value.map(|value| (name, value.parse().unwrap())));
        }
        Wanted::of(&RunId::parse("r1").unwrap(), selection, &headers)
    }

    async fn get_if(
        selection: Selection,
        range: Option<&str>,
        if_range: Option<&str>,
    ) -> (u16, String, Option<String>) {
        let part = part_of(Cursor::new(frames()), &wanted(selection, range, if_range)).unwrap();
        let mut response = in_memory(part);
        if let Some(problem) = Problem::take(&mut response) {
            response = problem.render("/", "q");
        }
        let status = response.status().as_u16();
        let range = response
            .headers()
            .get(header::CONTENT_RANGE)
            .map(|value| value.to_str().unwrap().to_owned());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap(), range)
    }

    #[tokio::test]
    async fn ranges_are_those_of_the_selected_bytes() {
        let only = Selection::Only(OutputStream::Stdout);
        assert_eq!(
            get(Selection::Both, None).await,
            (200, "abcDEfgh".to_owned(), None)
        );
        assert_eq!(get(only, None).await, (200, "abcfgh".to_owned(), None));
        let part = |text: &str, range: &str| (206, text.to_owned(), Some(range.to_owned()));
        assert_eq!(
            get(Selection::Both, Some("bytes=2-5")).await,
            part("cDEf", "bytes 2-5/8")
        );
        assert_eq!(get(only, Some("bytes=2-")).await, part("cfgh", "bytes 2-5/6"));
        assert_eq!(get(only, Some("bytes=-2")).await, part("gh", "bytes 4-5/6"));
        assert_eq!(get(only, Some("bytes=4-99")).await, part("gh", "bytes 4-5/6"));
        for beyond in ["bytes=6-", "bytes=-0"] {
            let (status, body, range) = get(only, Some(beyond)).await;
            assert_eq!((status, range.as_deref()), (416, Some("bytes */6")), "{beyond}");
            assert!(body.contains(r#""code":"range-not-satisfiable""#), "{body}");
        }
    }

    #[tokio::test]
    async fn a_range_of_other_bytes_is_answered_with_everything() {
        let range = Some("bytes=0-0");
        let both = |tag| get_if(Selection::Both, range, Some(tag));
        assert_eq!(both("\"r1-both-8\"").await.0, 206);
        for other in ["\"r1-both-7\"", "\"r1-stdout-8\"", "W/\"r1-both-8\"", "x"] {
            assert_eq!(both(other).await.0, 200, "{other}");
        }
    }

    #[tokio::test]
    async fn what_is_no_single_range_of_bytes_is_answered_with_everything() {
        for range in [
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=5-2",
            "bytes=x",
            "bytes=-",
            "bytes=--1",
        ] {
            assert_eq!(get(Selection::Both, Some(range)).await.0, 200, "{range}");
        }
    }

    #[tokio::test]
    async fn a_file_is_streamed_whole() {
        let mut file = tempfile::tempfile().unwrap();
        let long = vec![b'x'; 3 * PIECE];
        spool::append(&mut file, OutputStream::Stdout, &long).unwrap();
        let response = from_file(part_of(file, &wanted(Selection::Both, None, None)).unwrap());
        assert_eq!(response.headers()[header::CONTENT_LENGTH], long.len().to_string());
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), long);
    }
}
