//! The stream of a started exec: the engine's answer turned into a plain connection, and its frames.
//!
//! Written here since the library's reader guesses from the bytes whether there are frames, which a program on a terminal
//! can mislead, and holds a prompt back until its line ends.

use std::{io, path::Path, time::Duration};

use bollard::ClientVersion;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use countersign_domain::OutputStream;

/// Most bytes of the head of an answer.
const MAX_HEAD: usize = 16 * 1024;

/// Most bytes of the words with which the engine refuses.
const MAX_REFUSAL: usize = 2000;

/// How long they may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);

/// How long the engine may take to start a process.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of the head of a frame: the stream, three zeros, the length.
const FRAME_HEAD: usize = 8;

/// A process that the engine started, with its stream.
#[derive(Debug)]
pub struct Attached {
    /// What it writes and reads: frames ([`Frames`]), or plain bytes where it has a terminal.
    pub stream: UnixStream,
    /// What came with the answer already.
    pub first: Vec<u8>,
}

/// The engine did not start it.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It said no, in its own words.
    #[error("the engine refused: {0}")]
    Refused(String),
    /// The connection broke: whether it was started is not known.
    #[error("the connection to the engine broke")]
    Broken(#[from] io::Error),
}

/// Starts an exec that was created. The engine starts each at most once.
pub(crate) async fn start(
    socket: &Path,
    version: &ClientVersion,
    exec: &str,
    has_terminal: bool,
) -> Result<Attached, AttachError> {
    timeout(TIMEOUT, ask(socket, version, exec, has_terminal))
        .await
        .map_err(|_late| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn ask(
    socket: &Path,
    version: &ClientVersion,
    exec: &str,
    has_terminal: bool,
) -> Result<Attached, AttachError> {
    let mut stream = UnixStream::connect(socket).await?;
    let body = format!(r#"{{"Detach":false,"Tty":{has_terminal}}}"#);
    let request = format!(
        "POST /v{}.{}/exec/{exec}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        version.major_version,
        version.minor_version,
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut received = Vec::new();
    let head_ends = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if received.len() > MAX_HEAD {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    let first = received.split_off(head_ends);
    match status(&received) {
        Some(101 | 200) => Ok(Attached { stream, first }),
        Some(_) => Err(AttachError::Refused(refusal(stream, first).await)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let head = std::str::from_utf8(head).ok()?;
    let mut words = head.strip_prefix("HTTP/1.")?.split(' ');
    words.nth(1)?.parse().ok()
}

/// The words of a refusal, as far as they are there.
async fn refusal(stream: UnixStream, mut body: Vec<u8>) -> String {
    let mut rest = stream.take(MAX_REFUSAL as u64);
    // The engine keeps the connection open; what has come by then is enough.
    drop(timeout(REFUSAL_TIMEOUT, rest.read_to_end(&mut body)).await);
    body.truncate(MAX_REFUSAL);
    let text = String::from_utf8_lossy(&body).into_owned();
    let message = text
        .find('{')
        .and_then(|at| text.get(at..))
        .and_then(|json| {
            serde_json::Deserializer::from_str(json)
                .into_iter::<serde_json::Value>()
                .next()?
                .ok()
        })
        .and_then(|json| Some(json.get("message")?.as_str()?.to_owned()));
    message.unwrap_or_else(|| text.trim().to_owned())
}

/// Takes the frames of a stream apart, no matter in which pieces they arrive. It holds no more than the head of one.
#[derive(Debug, Default)]
pub struct Frames {
    head: Vec<u8>,
    /// Where the rest of the frame goes, and how much of it is to come.
    rest: Option<(OutputStream, usize)>,
}

impl Frames {
    /// Hands each piece of output on. `None` when these are no frames.
    pub fn take<'a>(&mut self, mut bytes: &'a [u8]) -> Option<Vec<(OutputStream, &'a [u8])>> {
        let mut pieces = Vec::new();
        loop {
            if let Some((stream, length)) = self.rest {
                let (piece, after) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
                if !piece.is_empty() {
                    pieces.push((stream, piece));
                }
                let left = length - piece.len();
                self.rest = (left > 0).then_some((stream, left));
                bytes = after;
                if left > 0 {
                    return Some(pieces);
                }
            }
            let wanted = FRAME_HEAD - self.head.len();
            let (head, after) = bytes.split_at_checked(wanted).unwrap_or((bytes, &[]));
            self.head.extend_from_slice(head);
            bytes = after;
            let [kind, 0, 0, 0, a, b, c, d] = *self.head.as_slice() else {
                return (self.head.len() < FRAME_HEAD).then_some(pieces);
            };
            let stream = match kind {
                1 => OutputStream::Stdout,
                2 => OutputStream::Stderr,
                _ => return None,
            };
            self.head.clear();
            self.rest = Some((stream, usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[kind, 0, 0, 0], length.as_slice(), bytes].concat()
    }

    #[test]
    fn frames_are_the_same_in_whatever_pieces_they_arrive() {
        let stream = [
            frame(1, b"one\n"),
            frame(2, b""),
            frame(2, b"\x01\0\0\0\0\0\0\x01two"),
            frame(1, &[b'x'; 300]),
        ]
        .concat();
        for size in [1, 2, 7, 8, 9, 50, stream.len()] {
            let mut frames = Frames::default();
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            for piece in stream.chunks(size) {
                for (to, bytes) in frames.take(piece).unwrap() {
                    match to {
                        OutputStream::Stdout => stdout.extend_from_slice(bytes),
                        OutputStream::Stderr => stderr.extend_from_slice(bytes),
                    }
                }
            }
            assert_eq!(stdout, [b"one\n".as_slice(), &[b'x'; 300]].concat(), "{size}");
            assert_eq!(stderr, b"\x01\0\0\0\0\0\0\x01two", "{size}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(Frames::default().take(b"plain text"), None);
        assert_eq!(Frames::default().take(&frame(3, b"x")), None);
        assert_eq!(Frames::default().take(&[1, 1, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn the_status_of_an_answer_is_read() {
        assert_eq!(status(b"HTTP/1.1 101 UPGRADED\r\n\r\n"), Some(101));
        assert_eq!(status(b"HTTP/1.1 409 Conflict\r\n\r\n"), Some(409));
        assert_eq!(status(b"nonsense"), None);
    }
}
