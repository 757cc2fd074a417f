//! The approvals socket as a protocol (`docs/spec/ipc.md`): what a line says, whether it is genuine, what is answered,
//! and what an answer is worth.
//!
//! Pure: the time, the token and random values are handed in, and the only state is [`NonceMemory`], which belongs to
//! the caller. The side that is asked calls [`LineVerifier::verify`] once for a line and gets back what to do or the
//! very lines to send. The side that asks builds its line with [`plain_exec_line`] or a [`Challenge`] and reads what
//! comes with [`Expected`]. Invariants: nothing that may have been a question is refused without an answer that denies
//! it; nothing is acted on whose proof was not compared.

mod ask;
mod check;
mod envelope;
mod expected;
mod handshake;
mod hello;
mod nonces;
mod order;
mod proof;
mod reply;
mod unique;

#[cfg(test)]
mod vectors;

pub use ask::{OutgoingOrder, OutgoingQuestion, plain_exec_line, plain_request_line};
pub use check::{LineOutcome, LineVerifier, Policy};
pub use envelope::{LineReader, Read};
pub use expected::{ExecAnswer, Expected};
pub use handshake::{Challenge, Handshake, HandshakeError, Opened, Seal};
pub use hello::Hello;
pub use nonces::NonceMemory;
pub use order::{AttachedDecision, ExecOrder, Question};
pub use reply::{ErrorBody, Payload, Refusal, Replies, decision_line, exec_line, pair, peer_refusal};

/// The longest line, in bytes before its newline (`docs/spec/ipc.md#7-limits`).
pub const MAX_LINE_BYTES: usize = 256_000;
/// How far the clocks of both sides may be apart, in milliseconds, both ways.
pub const TTL_MS: u64 = 10_000;
/// How long a nonce is remembered, in milliseconds: a line may arrive early by the one and late by the other.
pub(crate) const NONCE_MEMORY_MS: u64 = 2 * TTL_MS;
/// The most of one output stream in a reply, in bytes, its mark counted in.
pub const MAX_STREAM_BYTES: usize = 80_000;
/// The longest reply that a runner reads.
pub const MAX_REPLY_BYTES: usize = 16 << 20;
