//! The Bridge: frames, handshake, device identity, methods (`docs/spec/bridge.md`).
//!
//! Both ends use the same values. Nothing here reads a clock, a socket or a file: the caller hands in text and the
//! time. Entry points: [`Frame::parse`] for each text frame, [`ConnectParams`] and [`verify_proof`] for the handshake,
//! [`InvokeCall`] and [`InvokeAnswer`] for a call of a node.

mod commands;
mod connect;
mod exec;
mod fields;
mod frame;
mod hello;
mod identity;
mod invoke;
mod own_rule;
mod proof;
mod refusal;
mod text;
#[cfg(test)]
mod vector_tests;
mod version;

use serde_json::Value;

use super::{Bounds, JsonError, parse_json};

pub use commands::{CommandRefusal, CommandRules};
pub use connect::{
    Client, ConnectParams, Credentials, NODE_HOST_ID, NODE_MODE, OUR_USER_AGENT, Role, visible,
};
pub use exec::{
    APPROVALS_GET, APPROVALS_SET, ApprovalSource, EXEC_DENIED, EXEC_FINISHED, EXEC_STARTED, ExecNews,
    MutableFileOperand, RUN_STATUS, RunApproval, RunOutcome, RunParams, RunPlan, SYSTEM_RUN,
    SYSTEM_RUN_PREPARE, SYSTEM_WHICH,
};
pub use fields::ShapeError;
pub use frame::{
    Event, Frame, FrameError, INVALID_REQUEST, NOT_PAIRED, Request, Response, UNAVAILABLE, WireError,
};
pub use hello::{CHALLENGE_EVENT, Challenge, HelloAuth, HelloOk, OUR_CAPABILITY, SHUTDOWN_EVENT, TICK_EVENT};
pub use identity::{DeviceId, DeviceKey, DevicePublicKey};
pub use invoke::{
    INVOKE_CANCEL, INVOKE_REQUEST, INVOKE_RESULT, InvokeAnswer, InvokeCall, InvokeCancel, InvokeError,
    NODE_EVENT, NodeNews, PAIR_RESOLVED, SKILLS_BINS, UnreadableCall,
};
pub use own_rule::{OWN_RULE, OwnRule};
pub use proof::{Device, DeviceTrouble, ProofInput, ProofVersion, verify_proof};
pub use refusal::{
    AUTH_CHANGED, Close, POLICY, PROTOCOL, PairingReason, RESTART, Refusal, TICK_TIMEOUT, TOO_BIG,
};
pub use text::{CappedStreams, MAX_RESULT_BYTES, Truncated, event_output, format_argv};
pub use version::Protocol;

/// Longest frame before a `connect` is answered.
pub const MAX_FRAME_BEFORE_HELLO: usize = 65_536;

/// JSON inside a text member of a frame. The frame's own bound holds its length.
fn payload_json(text: &str) -> Result<Value, JsonError> {
    parse_json(
        text,
        Bounds {
            bytes: usize::MAX,
            depth: 64,
            values: 100_000,
        },
    )
}
