//! What a server and the runner's unit say to each other besides the two questions of the launcher protocol
//! ([`super::launcher_protocol`]).
//!
//! ```text
//! unit   ── welcome: its version, or that another server is served ──▶ server
//! server ── serve: the supervisors' end, the directory where they wait, how many ──▶ unit
//! server ── runner, file broker, or a question for the login shell ──▶ unit, which answers each
//! ```

use std::{ffi::OsString, io, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{launcher_protocol::Answer, wire::bytes};

/// The version of this program. Another one may speak differently to the runners that it starts.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest frame, questions for the login shell and their answers included.
pub(super) const MAX_BYTES: usize = 96 * 1024;

/// Most of what a login shell writes that is handed on, from its end.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The answer to [`Request::Serve`].
pub(super) const DONE: &[u8] = b"d";

/// Asks a unit of another version to end, so that its service manager starts the one that is installed now.
pub(super) const OUTDATED: &[u8] = b"outdated";

/// First byte of the frame that tells the version.
const WELCOME: u8 = b'w';

/// First byte of the frame that tells that there is another server.
const BUSY: u8 = b'b';

/// What a unit says to a client that came, before anything else. A unit of another version says it, too, so these bytes
/// are written here and stay as they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Welcome {
    /// It serves; this is its version.
    Version(String),
    /// It serves another server.
    Busy,
}

impl Welcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Version(version) => [&[WELCOME], version.as_bytes()].concat(),
            Self::Busy => vec![BUSY],
        }
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        match frame.split_first()? {
            (&WELCOME, version) => Some(Self::Version(std::str::from_utf8(version).ok()?.to_owned())),
            (&BUSY, []) => Some(Self::Busy),
            _ => None,
        }
    }
}

/// What a server asks for that has a parameter.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// From now on runners are for the descriptors that come with it.
    Serve {
        /// Most commands at a time.
        max_running: usize,
    },
    /// Run a shell of the account.
    Login(Login),
}

/// A shell to run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) timeout: Duration,
    /// The first is its path.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        bytes::append(Vec::new(), self)
    }

    /// `None` for what has no parameter.
    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        bytes::read(frame)
    }
}

/// The answer with what a shell wrote, cut at its beginning.
pub(super) fn text(text: &str) -> Vec<u8> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_TEXT_BYTES));
    let kept = text.get(from..).unwrap_or_default();
    bytes::append(Vec::new(), &Answer::Ok(kept))
}

/// What a shell wrote.
///
/// # Errors
/// The one of [`super::launcher_protocol::failed`], or that it is no answer.
pub(super) fn text_of(frame: &[u8]) -> io::Result<String> {
    match bytes::read::<Answer<String>>(frame) {
        Some(Ok(text)) => Ok(text),
        Some(Err(number)) => Err(io::Error::from_raw_os_error(number)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::launcher_protocol::{FILE_BROKER, RUNNER, failed};

    #[test]
    fn frames_are_read_back_whole_or_not_at_all() {
        for welcome in [Welcome::Version("1.2.3".to_owned()), Welcome::Busy] {
            assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
        }
        let login = |variables: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| (name.into(), value.into());
            Request::Login(Login {
                timeout: Duration::from_secs(5),
                words: ["/bin/sh", "-l", "-c", "echo \"$PATH\"\n"]
                    .map(OsString::from)
                    .to_vec(),
                environment: variables.iter().map(pair).collect(),
            })
        };
        for request in [
            Request::Serve { max_running: 7 },
            login(&[]),
            login(&[("HOME", "/"), ("EMPTY", "")]),
        ] {
            let frame = request.encode();
            assert_eq!(Request::decode(&frame), Some(request));
            assert_eq!(Request::decode(&frame[..frame.len() - 1]), None);
            assert_eq!(Request::decode(&[&frame, &b"x"[..]].concat()), None);
        }
        for foreign in [b"", RUNNER, FILE_BROKER, OUTDATED] {
            assert_eq!(Request::decode(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn what_a_shell_wrote_is_bounded_and_its_end_is_kept() {
        let long = format!("{}end", "é".repeat(MAX_TEXT_BYTES));
        let frame = text(&long);
        assert!(frame.len() <= MAX_TEXT_BYTES + 4);
        assert!(text_of(&frame).is_ok_and(|text| text.ends_with("éend")));
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(text_of(&failed(&missing)).unwrap_err().kind(), missing.kind());
        assert_eq!(text_of(b"t").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
