//! What the fuzz targets reach of the inside, for builds with `test-hooks` alone: readers of bytes that other
//! processes wrote. Each function takes any bytes and returns what was read as text, so that nothing of the inside
//! becomes part of the crate's interface.

use serde_json::Value;

use countersign_domain::UnixMillis;
use countersign_protocol::bridge::{ConnectParams, Frame, InvokeAnswer, InvokeCall, NodeNews, verify_proof};
use countersign_runner::{run_file, wire};

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

/// Whether a frame of the Bridge, and what its parameters are read as, is the same once written again; `None` for what
/// is no frame.
pub fn bridge_frame(bytes: &[u8]) -> Option<bool> {
    const LONGEST: usize = 65_536;
    let text = std::str::from_utf8(bytes).ok()?;
    let frame = Frame::parse(text, LONGEST).ok()?;
    let is_same = Frame::parse(&frame.to_text(), 2 * LONGEST).is_ok_and(|again| again == frame);
    let params = match &frame {
        Frame::Request(request) => request.params.clone(),
        Frame::Event(event) => event.payload.clone(),
        Frame::Response(_) => None,
    };
    let params = params.unwrap_or(Value::Null);
    // A fraction may change in its last digit each time that it is read.
    Some(has_fraction(&frame.to_value()) || (is_same && are_same_params(params)))
}

fn are_same_params(params: Value) -> bool {
    let is_same_connect = ConnectParams::parse(params.clone()).map_or(true, |connect| {
        if let Some(device) = &connect.device {
            // Nobody signed this; it must not be taken, nor stop the program.
            drop(verify_proof(
                device,
                connect.proof_input(device),
                "another nonce",
                UnixMillis::new(device.signed_at_ms),
            ));
        }
        let written = connect.to_value();
        ConnectParams::parse(written.clone()).is_ok_and(|again| again.to_value() == written)
    });
    let is_same_answer = InvokeAnswer::parse(params.clone())
        .map_or(true, |answer| InvokeAnswer::parse(answer.to_params()).is_ok());
    let is_same_call = InvokeCall::parse(params.clone()).map_or(true, |call| {
        call.to_event()
            .payload
            .is_some_and(|payload| InvokeCall::parse(payload).is_ok_and(|again| again == call))
    });
    let is_same_news = NodeNews::parse(params).map_or(true, |news| NodeNews::parse(news.to_params()).is_ok());
    is_same_connect && is_same_answer && is_same_call && is_same_news
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        // Texts may hold JSON of their own.
        Value::String(text) => {
            serde_json::from_str::<Value>(text).is_ok_and(|inner| !inner.is_string() && has_fraction(&inner))
        }
        Value::Array(values) => values.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        Value::Null | Value::Bool(_) => false,
    }
}
