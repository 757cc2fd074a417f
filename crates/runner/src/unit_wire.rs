//! What a server and the runner's unit say to each other besides the two questions of the launcher protocol
//! ([`super::launcher_protocol`]).
//!
//! ```text
//! unit   ── welcome: its version, or that another server is served ──▶ server
//! server ── serve: the supervisors' end, the directory where they wait, how many ──▶ unit
//! server ── runner, file broker, or a question for the login shell ──▶ unit, which answers each
//! ```

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, time::Duration};

/// The version of this program. Another one may speak differently to the runners that it starts.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest frame, questions for the login shell and their answers included.
pub(super) const MAX_BYTES: usize = 96 * 1024;

/// Most of what a login shell writes that is handed on, from its end.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

/// First byte of the frame that tells the version.
const WELCOME: u8 = b'w';

/// First byte of the frame that tells that there is another server.
const BUSY: u8 = b'b';

/// First byte of the request to serve.
const SERVE: u8 = b's';

/// First byte of a question for the login shell.
const LOGIN: u8 = b'l';

/// First byte of what the login shell wrote.
const TEXT: u8 = b't';

/// The answer to [`Request::Serve`].
pub(super) const DONE: &[u8] = b"d";

/// Asks a unit of another version to end, so that its service manager starts the one that is installed now.
pub(super) const OUTDATED: &[u8] = b"outdated";

/// What a unit says to a client that came, before anything else.
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
#[derive(Debug, PartialEq, Eq)]
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
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) timeout: Duration,
    /// The first is its path.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Serve { max_running } => [&[SERVE], max_running.to_string().as_bytes()].concat(),
            Self::Login(Login {
                timeout,
                words,
                environment,
            }) => {
                let mut frame = vec![LOGIN];
                frame.extend(timeout.as_millis().to_string().into_bytes());
                frame.push(0);
                frame.extend(words.len().to_string().into_bytes());
                let variables = environment.iter().flat_map(|(name, value)| [name, value]);
                for text in words.iter().chain(variables) {
                    frame.push(0);
                    frame.extend(text.as_encoded_bytes());
                }
                frame
            }
        }
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        match frame.split_first()? {
            (&SERVE, number) => Some(Self::Serve {
                max_running: decimal(number)?,
            }),
            (&LOGIN, rest) => {
                let mut texts = rest.split(|byte| *byte == 0);
                let timeout: u64 = decimal(texts.next()?)?;
                let count: usize = decimal(texts.next()?)?;
                let mut texts = texts.map(|text| OsString::from_vec(text.to_vec()));
                let words: Vec<_> = texts.by_ref().take(count).collect();
                let variables: Vec<_> = texts.collect();
                let (pairs, rest) = variables.as_chunks::<2>();
                if words.is_empty() || words.len() < count || !rest.is_empty() {
                    return None;
                }
                Some(Self::Login(Login {
                    timeout: Duration::from_millis(timeout),
                    words,
                    environment: pairs
                        .iter()
                        .map(|[name, value]| (name.clone(), value.clone()))
                        .collect(),
                }))
            }
            _ => None,
        }
    }
}

fn decimal<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The answer with what a shell wrote, cut at its beginning.
pub(super) fn text(text: &str) -> Vec<u8> {
    let from = text.len().saturating_sub(MAX_TEXT_BYTES);
    let kept = text.as_bytes().get(from..).unwrap_or_default();
    [&[TEXT], kept].concat()
}

/// What a shell wrote; a character that was cut in two is replaced.
pub(super) fn text_of(frame: &[u8]) -> Option<String> {
    match frame.split_first()? {
        (&TEXT, text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for foreign in [
            &b""[..],
            b"s",
            b"s-1",
            b"sx",
            b"l",
            b"l5",
            b"l5\0",
            b"l5\x000",
            b"l5\x001",
            b"l5\x002\0/bin/sh",
            b"l5\x001\0/bin/sh\0HOME",
            b"x1",
        ] {
            assert_eq!(Request::decode(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn what_a_shell_wrote_is_bounded_and_its_end_is_kept() {
        let long = format!("{}end", "é".repeat(MAX_TEXT_BYTES));
        let frame = text(&long);
        assert!(frame.len() <= MAX_TEXT_BYTES + 1);
        assert!(text_of(&frame).is_some_and(|text| text.ends_with("éend")));
        assert_eq!(text_of(b"f"), None);
    }
}
