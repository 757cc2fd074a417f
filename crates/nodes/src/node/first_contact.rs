//! The first contact of a machine that was never a node: nothing is written before a gateway takes it, or asks a person
//! about it. A mistyped host or token leaves no trace.

use tokio::time::sleep;

use countersign_config::settings::StateDir;
use countersign_domain::Secret;
use countersign_protocol::bridge::{HelloOk, Protocol};
use countersign_sys::clock::{Clock, Ids};

use super::{
    approach::{Credential, Refused},
    backoff::Backoff,
    connection::{self, Ended, Greeting},
    daemon::{NodeOptions, in_words, introduction},
    identity::{DeviceIdentity, DeviceTokens, IdentityError, NodeFile},
    socket,
    status_file::NodeEvent,
};

/// As whom a gateway knows this machine from now on.
#[derive(Debug)]
pub struct Acquaintance {
    identity: DeviceIdentity,
    /// What it said, where it took the machine at once.
    hello: Option<HelloOk>,
}

impl Acquaintance {
    /// Keeps the identity, and the token that came with it.
    ///
    /// # Errors
    /// [`IdentityError`] when it cannot be written.
    pub fn keep(&self, state_dir: &StateDir, clock: &dyn Clock) -> Result<(), IdentityError> {
        self.identity.save(state_dir, clock)?;
        let Some(hello) = &self.hello else { return Ok(()) };
        let Some(token) = &hello.auth.device_token else {
            return Ok(());
        };
        let tokens = DeviceTokens::of(state_dir, self.identity.id());
        tokens.store(&Secret::new(token.clone()), &hello.auth.scopes, clock)
    }
}

/// Whether a state directory knows nothing of any gateway yet.
///
/// # Errors
/// [`IdentityError`] when there is something that must not be used.
pub fn is_unknown(state_dir: &StateDir) -> Result<bool, IdentityError> {
    Ok(NodeFile::load(state_dir)?.is_none() && !state_dir.device_identity().exists())
}

/// Connects as a machine that nobody knows, again and again, until a gateway takes it or asks a person about it. Writes
/// nothing. `tell` hears of everything that people may want to know.
pub async fn meet(
    options: &NodeOptions,
    clock: &dyn Clock,
    ids: &dyn Ids,
    tell: impl Fn(&NodeEvent),
) -> Acquaintance {
    let identity = DeviceIdentity::new(ids);
    let mut backoff = Backoff::default();
    let mut protocol = Protocol::Four;
    let mut told = None;
    loop {
        let event = match greet(options, &identity, protocol, clock, ids).await {
            Met::Taken(hello) => {
                let hello = Some(*hello);
                return Acquaintance { identity, hello };
            }
            Met::Asked => {
                return Acquaintance {
                    identity,
                    hello: None,
                };
            }
            Met::Speaks(other) if protocol == Protocol::Four => {
                protocol = other;
                continue;
            }
            Met::Speaks(_) => NodeEvent::Refused {
                message: "it speaks no protocol of a node".to_owned(),
            },
            Met::Not(event) => event,
        };
        if told.as_ref() != Some(&event) {
            tell(&event);
            told = Some(event);
        }
        // The gateway may be another one the next time.
        protocol = Protocol::Four;
        let mut chance = [0];
        ids.secret_bytes(&mut chance);
        let [chance] = chance;
        sleep(backoff.next(chance)).await;
    }
}

enum Met {
    Taken(Box<HelloOk>),
    Asked,
    Speaks(Protocol),
    Not(NodeEvent),
}

async fn greet(
    options: &NodeOptions,
    identity: &DeviceIdentity,
    protocol: Protocol,
    clock: &dyn Clock,
    ids: &dyn Ids,
) -> Met {
    let disconnected = |message| Met::Not(NodeEvent::Disconnected { message });
    let socket = match socket::open(&options.address).await {
        Ok(socket) => socket,
        Err(error) => return disconnected(in_words(&error)),
    };
    let introduction = introduction(identity, options);
    let credential = Credential::choose(None, options.shared_token.as_ref());
    let greeting = Greeting {
        introduction: &introduction,
        credential: &credential,
        protocol,
        clock,
        ids,
    };
    let error = match connection::shake_hands(socket, &greeting).await {
        Ok(shaken) => return Met::Taken(Box::new(shaken.hello)),
        Err(Ended::Refused(error)) => error,
        Err(ended) => return disconnected(ended.to_string()),
    };
    match Refused::of(&error, protocol) {
        Refused::Pairing { .. } => Met::Asked,
        Refused::OtherProtocol(other) => Met::Speaks(other),
        Refused::Credential => Met::Not(NodeEvent::Unauthorized { of_device: false }),
        Refused::Later(_) | Refused::Clock | Refused::Other => Met::Not(NodeEvent::Refused {
            message: connection::harmless(&error.message),
        }),
    }
}
