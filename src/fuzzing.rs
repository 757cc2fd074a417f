//! What the fuzz targets reach of the inside, for builds with `test-hooks` alone: readers of bytes that other
//! processes wrote. Each function takes any bytes and returns what was read as text, so that nothing of the inside
//! becomes part of the crate's interface.

use crate::runner::{run_file, wire};

/// What a run file with this content says.
pub fn run_file(bytes: &[u8]) -> run_file::RunFileState {
    run_file::parse(bytes)
}

/// A start frame, and what it reads as once written again. Equal texts are equal frames.
pub fn start_frame(bytes: &[u8]) -> Option<(String, Option<String>)> {
    let order = wire::Order::decode(bytes)?;
    let again = wire::Order::decode(&order.encode());
    Some((format!("{order:?}"), again.map(|order| format!("{order:?}"))))
}

/// Whether the plan of a start frame is one, and is the same once written again.
pub fn start_plan(bytes: &[u8]) -> Option<bool> {
    let plan = wire::Plan::decode(bytes)?;
    Some(wire::Plan::decode(&plan.encode()).is_some_and(|again| again == plan))
}

/// The messages of both directions that a stream holds when it arrives in pieces of that length, each with its
/// encoding read again; the last is `too long` where the stream was given up.
pub fn stream(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut read = Vec::new();
    drain(
        bytes,
        piece,
        &mut read,
        wire::Inbox::next_to_supervisor,
        wire::ToSupervisor::encode,
    );
    drain(
        bytes,
        piece,
        &mut read,
        wire::Inbox::next_from_supervisor,
        wire::FromSupervisor::encode,
    );
    read
}

fn drain<M: std::fmt::Debug>(
    bytes: &[u8],
    piece: usize,
    read: &mut Vec<String>,
    next: fn(&mut wire::Inbox) -> Result<Option<M>, wire::MessageTooLong>,
    encode: fn(&M, &mut Vec<u8>),
) {
    let mut inbox = wire::Inbox::default();
    for piece in bytes.chunks(piece.max(1)) {
        inbox.push(piece);
        loop {
            match next(&mut inbox) {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let mut written = Vec::new();
                    encode(&message, &mut written);
                    let mut again = wire::Inbox::default();
                    again.push(&written);
                    read.push(format!("{message:?} {:?}", next(&mut again)));
                }
                Err(_too_long) => {
                    read.push("too long".to_owned());
                    return;
                }
            }
        }
    }
}
