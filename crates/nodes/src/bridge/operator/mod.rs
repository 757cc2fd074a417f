//! The operator role: people's programs and scripts about nodes and approvals, on the product's own wire.
//!
//! An operator presents an API token, and gets of what it asks for only what that token holds; the shared secret of the
//! Bridge opens nothing here (`docs/spec/bridge.md#13-ours`). Its invariants: an operator is the same party as their
//! token at every other entry point, so nobody answers here what they asked there; and running a program by way of a
//! node is an exec that passes the gate. Entry points: [`authenticate`], [`OperatorSession::begin`],
//! [`OperatorSession::handle`].

mod method;
mod scope;

mod quota;
mod refusal;
mod shape;

mod session;

mod approvals;
mod asking;
mod dispatch;
mod documents;
mod invoke;
mod news;
mod nodes;
mod output;
mod pairing;

pub(super) use asking::Askers;
pub(super) use quota::OperatorQuota;
pub(super) use session::{Grant, OperatorSession};

use scope::OperatorScope;

use countersign_protocol::bridge::{ConnectParams, Protocol, Refusal};

use crate::bridge::Bridge;

/// Caps of a client in which people answer.
const ANSWERING_CAPS: [&str; 2] = ["approvals", "exec-approvals"];

/// Who a client is that wants to be an operator. Its device, when it sent one, was checked before.
///
/// # Errors
/// [`Refusal`] when what it presents is no live API token, or too many are connected.
pub(super) async fn authenticate(
    bridge: &Bridge,
    connect: &ConnectParams,
    protocol: Protocol,
) -> Result<Grant, Refusal> {
    let Some(presented) = &connect.auth.token else {
        return Err(if connect.auth.is_empty() {
            Refusal::TokenMissing
        } else {
            Refusal::Token
        });
    };
    let key = bridge
        .tokens()
        .authenticate(presented.expose())
        .await
        .map_err(|_trouble| Refusal::Unavailable {
            why: "storage does not answer",
        })?;
    let key = key.ok_or(Refusal::Token)?;
    let permit = bridge.operators.take(key.token_id())?;
    // A client of the first generation that names no scopes means all of them.
    let everything = [OperatorScope::Admin.as_str().to_owned()];
    let asked = match protocol {
        Protocol::Three if connect.scopes.is_empty() => everything.as_slice(),
        Protocol::Three | Protocol::Four => connect.scopes.as_slice(),
    };
    let scopes = scope::granted(key.principal(), asked);
    let shows_questions = match protocol {
        Protocol::Three => true,
        Protocol::Four => connect
            .caps
            .iter()
            .any(|cap| ANSWERING_CAPS.contains(&cap.as_str())),
    };
    Ok(Grant {
        answers: shows_questions && scopes.contains(&OperatorScope::Approvals),
        key,
        scopes,
        protocol,
        permit,
    })
}
