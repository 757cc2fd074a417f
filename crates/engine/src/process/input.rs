//! Input for a session: text, keys, a paste.

use std::time::Duration;

use countersign_domain::{CommandInput, Host, MAX_INPUT_BYTES, Principal, ProcessKind, TerminalSize};
use countersign_ledger::ProcessSession;
use countersign_protocol::terminal::{CursorKeys, keys};

use super::{ProcessError, ProcessReply, Processes, recording::Written};

use crate::{
    reply::{StorageTrouble, Warning},
    unrecorded::PATIENCE,
};

/// How long a command may take to make room for input.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is handed to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Text as it is.
    Text {
        /// Written byte for byte, without a newline of ours; at most [`MAX_INPUT_BYTES`].
        data: String,
        /// Whether nothing follows: the standard input is closed.
        ends: bool,
    },
    /// What a person would type.
    Keys {
        /// Text, first.
        literal: Option<String>,
        /// Bytes in hexadecimal, then.
        hex: Vec<String>,
        /// Keys by name, last.
        keys: Vec<String>,
    },
    /// The key Enter: one carriage return.
    Submit,
    /// A text as a terminal pastes it.
    Paste {
        /// What is pasted; the engine adds the marks of a bracketed paste.
        text: String,
        /// Whether programs that ask for it can tell it from typing.
        bracketed: bool,
    },
}

/// Input on its way.
struct Typed {
    bytes: Vec<u8>,
    ends: bool,
    warnings: Vec<Warning>,
}

impl Processes {
    /// Hands input to a session: all of it, or nothing when the command does not make room for it in time.
    ///
    /// # Cancel safety
    /// Cancelled, it has written all or nothing.
    pub(super) async fn hand_input(
        &self,
        caller: &Principal,
        session: ProcessSession,
        input: Input,
    ) -> Result<ProcessReply, ProcessError> {
        let Some(live) = self.going(&session) else {
            return Err(self.ended(session));
        };
        if session.run.input == CommandInput::Withheld {
            return Err(ProcessError::InputClosed(Box::new(self.session_view(session))));
        }
        if session.kind != ProcessKind::Run || !session.run.input.is_open() || session.stdin_closed {
            return Err(ProcessError::Invalid {
                path: "sessionId",
                message: if session.run.host == Host::Node {
                    "a command on a node has no standard input".to_owned()
                } else if session.stdin_closed {
                    "the standard input of the session was closed".to_owned()
                } else {
                    "the session has no open standard input; start it with background or pty".to_owned()
                },
            });
        }
        let typed = typed(input, live.control().cursor_keys(), session.run.pty)?;
        if typed.bytes.len() > MAX_INPUT_BYTES {
            return Err(ProcessError::Invalid {
                path: "data",
                message: format!("more than {MAX_INPUT_BYTES} bytes; write them in several calls"),
            });
        }
        self.switch.expect_going().map_err(ProcessError::Stopped)?;
        let written = Written {
            by: &caller.actor,
            session: &session,
            bytes: &typed.bytes,
            ends: typed.ends,
        };
        // Nothing is written that the record does not have.
        self.record_input(&written, live.control()).await?;
        if typed.ends {
            // First: a server that dies now must not take more for a command that got its end.
            self.ledger
                .close_session_input(session.id.clone())
                .await
                .map_err(StorageTrouble::from)?;
        }
        let handed = async {
            let taken = tokio::time::timeout(TIMEOUT, live.control().write_input(&typed.bytes)).await;
            if typed.ends && matches!(taken, Ok(Ok(()))) {
                live.control().close_input();
            }
            taken
        };
        match self.switch.while_going(handed).await {
            Ok(Ok(Ok(()))) => {}
            Err(stop) => {
                self.record_refused_input(&written).await;
                return Err(ProcessError::Stopped(stop));
            }
            Ok(Ok(Err(_closed))) => {
                self.record_refused_input(&written).await;
                drop(tokio::time::timeout(PATIENCE, live.ended()).await);
                return Err(self.ended(session));
            }
            Ok(Err(_elapsed)) => {
                self.record_refused_input(&written).await;
                return Err(ProcessError::NotTaken);
            }
        }
        live.touch(self.clock.now());
        Ok(ProcessReply::Taken {
            session: Box::new(self.session_again(session).await?),
            warnings: typed.warnings,
        })
    }

    /// Gives the terminal of a session another size.
    pub(super) async fn resize(
        &self,
        session: ProcessSession,
        size: TerminalSize,
    ) -> Result<ProcessReply, ProcessError> {
        let Some(live) = self.going(&session) else {
            return Err(self.ended(session));
        };
        if session.kind != ProcessKind::Run || !session.run.pty {
            return Err(ProcessError::Invalid {
                path: "sessionId",
                message: "the session has no terminal; start it with pty".to_owned(),
            });
        }
        self.switch
            .while_going(async { live.resize(size) })
            .await
            .map_err(ProcessError::Stopped)?;
        Ok(ProcessReply::Taken {
            session: Box::new(self.session_again(session).await?),
            warnings: Vec::new(),
        })
    }
}

fn typed(input: Input, mode: CursorKeys, is_terminal: bool) -> Result<Typed, ProcessError> {
    let (bytes, ends, said) = match input {
        Input::Text { data, ends } => {
            return Ok(Typed {
                bytes: data.into_bytes(),
                ends,
                warnings: Vec::new(),
            });
        }
        Input::Keys { literal, hex, keys } => {
            let typed = keys::encode(literal.as_deref(), &hex, &keys, mode).map_err(|invalid| {
                let path = match invalid {
                    keys::InvalidKeys::Hex(_) => "hex",
                    keys::InvalidKeys::Nothing
                    | keys::InvalidKeys::EmptyKey(_)
                    | keys::InvalidKeys::TooLong => "keys",
                };
                ProcessError::Invalid {
                    path,
                    message: invalid.to_string(),
                }
            })?;
            (typed.bytes, false, typed.warnings)
        }
        Input::Submit => (b"\r".to_vec(), false, Vec::new()),
        Input::Paste { text, bracketed } => (keys::paste(&text, bracketed), false, Vec::new()),
    };
    let of_keys = said.into_iter().map(|message| Warning {
        code: "unknown-key",
        message,
    });
    let no_terminal = (!is_terminal).then(|| Warning {
        code: "no-terminal",
        message: "the session has no terminal: its command reads these bytes as they are".to_owned(),
    });
    Ok(Typed {
        bytes,
        ends,
        warnings: of_keys.chain(no_terminal).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(input: Input, is_terminal: bool) -> (Vec<u8>, Vec<&'static str>) {
        let typed = typed(input, CursorKeys::Normal, is_terminal).unwrap();
        let codes = typed.warnings.iter().map(|warning| warning.code).collect();
        (typed.bytes, codes)
    }

    #[test]
    fn input_becomes_bytes_and_keys_without_a_terminal_are_warned_about() {
        let text = Input::Text {
            data: "a\r\n".to_owned(),
            ends: false,
        };
        assert_eq!(bytes(text, false), (b"a\r\n".to_vec(), vec![]));
        assert_eq!(bytes(Input::Submit, true), (b"\r".to_vec(), vec![]));
        assert_eq!(bytes(Input::Submit, false), (b"\r".to_vec(), vec!["no-terminal"]));
        let paste = Input::Paste {
            text: "x".to_owned(),
            bracketed: true,
        };
        assert_eq!(bytes(paste, true), (b"\x1b[200~x\x1b[201~".to_vec(), vec![]));
        let keys = Input::Keys {
            literal: Some("l".to_owned()),
            hex: vec!["41".to_owned()],
            keys: vec!["C-c".to_owned()],
        };
        assert_eq!(bytes(keys, true), (b"lA\x03".to_vec(), vec![]));
        let nothing = Input::Keys {
            literal: None,
            hex: vec![],
            keys: vec![],
        };
        assert!(typed(nothing, CursorKeys::Normal, true).is_err());
    }
}
