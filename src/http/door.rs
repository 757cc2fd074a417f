//! What every request must pass before a route is looked up: the `Host` header, then its rate. Credentials
//! are recognised here, since the rate depends on them, and judged by [`crate::http::caller::Caller`].

use std::{fmt, net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Request},
};

use crate::{
    auth::{Key, Throttle, ThrottleRates},
    clock::Ids,
    engine::tokens::Tokens,
    http::{
        caller,
        host_header::{self, ForeignHost, HostNames},
        peer::Peer,
        problem::{Code, Problem},
    },
};

/// Probes are asked by machines that have no token, often.
const EXEMPT_FROM_RATE: [&str; 2] = ["/healthz", "/readyz"];

/// Longest `X-Request-Id` that is echoed.
const MAX_REQUEST_ID: usize = 128;

/// The part of the settings that the door goes by.
pub(in crate::http) struct DoorRules {
    /// The settings they follow from.
    pub(in crate::http) generation: u64,
    /// Names this server answers to.
    pub(in crate::http) hosts: HostNames,
    /// Limits.
    pub(in crate::http) rates: ThrottleRates,
    /// Whether an address is a proxy whose `X-Forwarded-For` is believed.
    pub(in crate::http) is_trusted_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

/// Who sent a request, as far as the door knows.
#[derive(Debug, Clone)]
pub(in crate::http) struct Origin {
    /// What its credentials open.
    pub(in crate::http) credentials: Credentials,
    /// The client's address, for limits and the record.
    pub(in crate::http) address: IpAddr,
}

/// What a request's credentials open.
#[derive(Debug, Clone)]
pub(in crate::http) enum Credentials {
    /// None were sent.
    Absent,
    /// Nothing.
    Wrong,
    /// What this key opens.
    Valid(Arc<Key>),
}

/// The door.
pub(in crate::http) struct Door {
    tokens: Arc<Tokens>,
    throttle: Arc<Throttle>,
    ids: Arc<dyn Ids>,
    /// The rules in force now; cheap, asked on every request.
    rules: Box<dyn Fn() -> Arc<DoorRules> + Send + Sync>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("throttle", &self.throttle)
            .finish_non_exhaustive()
    }
}

impl Door {
    pub(in crate::http) fn new(
        tokens: Arc<Tokens>,
        throttle: Arc<Throttle>,
        ids: Arc<dyn Ids>,
        rules: impl Fn() -> Arc<DoorRules> + Send + Sync + 'static,
    ) -> Self {
        Self {
            tokens,
            throttle,
            ids,
            rules: Box::new(rules),
        }
    }

    /// Lets a request in and notes its [`Origin`] on it.
    pub(in crate::http) async fn admit(
        &self,
        peer: Peer,
        request: &mut Request<Body>,
    ) -> Result<(), Problem> {
        let rules = (self.rules)();
        let checked = match peer {
            Peer::Tcp(_) => rules.hosts.check(request.uri(), request.headers()),
            Peer::Unix => host_header::check_form(request.headers()),
        };
        checked.map_err(refuse_host)?;

        let credentials = self.recognise(request.headers()).await?;
        let address = peer.client(request.headers(), &rules.is_trusted_proxy);
        self.throttle.set_rates(rules.rates);
        let rate = match &credentials {
            Credentials::Valid(key) => self.throttle.count_token(key.number()),
            Credentials::Absent | Credentials::Wrong if EXEMPT_FROM_RATE.contains(&request.uri().path()) => {
                Ok(())
            }
            Credentials::Absent | Credentials::Wrong => self.throttle.count_anonymous(address),
        };
        rate.map_err(Problem::limited)?;
        request.extensions_mut().insert(Origin { credentials, address });
        Ok(())
    }

    /// The request's own id when it brought a harmless one, else a new one.
    pub(in crate::http) fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let brought = headers.get("x-request-id").filter(|id| {
            let id = id.as_bytes();
            (1..=MAX_REQUEST_ID).contains(&id.len())
                && id
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte))
        });
        brought.cloned().unwrap_or_else(|| {
            HeaderValue::from_str(&self.ids.random().to_string()).expect("a UUID is printable ASCII")
        })
    }

    async fn recognise(&self, headers: &HeaderMap) -> Result<Credentials, Problem> {
        let Some(token) = caller::presented(headers) else {
            return Ok(Credentials::Absent);
        };
        let key = self.tokens.authenticate(token).await?;
        Ok(key.map_or(Credentials::Wrong, Credentials::Valid))
    }
}

fn refuse_host(foreign: ForeignHost) -> Problem {
    match foreign {
        ForeignHost::Malformed => Problem::field("Host", "expected exactly one valid Host header"),
        ForeignHost::Unknown => {
            Problem::new(Code::MisdirectedRequest, "this server does not go by that name").with_hint(Some(
                "add the name to [http] allowed_hosts in countersign.toml".to_owned(),
            ))
        }
    }
}
