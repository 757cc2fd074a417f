//! The admission middleware: what every request passes before a route is looked up, the `Host` header first, then its rate.
//!
//! It recognises credentials, since the rate depends on them, and must never decide what they allow: that is
//! [`crate::caller::Caller`]. A browser sends its cookie for any page that asks it to, so a cookie is accepted only together
//! with the second secret that our own page keeps, and never on behalf of a foreign page. [`super::service`] calls it.

use std::{fmt, net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, header},
};

use countersign_engine::tokens::Tokens;
use countersign_ledger::auth::{Key, Limited, RateStatus, Throttle, ThrottleRates};
use countersign_sys::clock::{Clock, Ids};

use crate::{
    bearer,
    cookie::{self, Presented},
    cors::{self, Sharing},
    host_header::{self, ForeignHost, HostNames},
    peer::{Peer, Transport},
    problem::{Code, Problem},
    rate_headers,
    trace::Trace,
    web_origin::{Site, WebOrigins},
};

/// Probes are asked often, with a token or without.
const EXEMPT_FROM_RATE: [&str; 2] = ["/healthz", "/readyz"];

/// The second secret of a browser. Another port of this host sees its cookie, never this.
pub(crate) const SECOND_SECRET: HeaderName = HeaderName::from_static("x-csrf-token");

/// The part of the settings that the admission goes by.
pub(crate) struct AdmissionRules {
    /// The settings they follow from.
    pub(crate) generation: u64,
    /// Names this server answers to.
    pub(crate) hosts: HostNames,
    /// Web pages that may call it.
    pub(crate) web: WebOrigins,
    /// Whether browsers reach it over TLS even where this process speaks plain HTTP (`[http] public_url`).
    pub(crate) transport: Transport,
    pub(crate) rates: ThrottleRates,
    /// Whether an address is a proxy whose `X-Forwarded-For` is believed.
    pub(crate) is_trusted_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

/// Who sent a request, as far as the admission knows.
#[derive(Debug, Clone)]
pub(crate) struct RequestSource {
    /// What its credentials open.
    pub(crate) credentials: Credentials,
    /// The client's address, for limits and the record.
    pub(crate) address: IpAddr,
    /// The web page that it comes from.
    pub(crate) site: Site,
    /// How its bytes travel between the client and us or our proxy.
    pub(crate) transport: Transport,
}

/// What a request's credentials open.
#[derive(Debug, Clone)]
pub(crate) enum Credentials {
    Absent,
    /// A token that opens nothing.
    Wrong,
    /// What this key opens: a token's, or a browser's that proved itself by both secrets.
    Valid(Arc<Key>),
    /// A cookie that opens nothing, or no more.
    Ended,
    /// The cookie of this browser without its second secret: enough to be shown a page, not to use the API.
    CookieAlone(Arc<Key>),
    /// A cookie that was sent on behalf of a foreign web page.
    ForeignPage,
}

impl RequestSource {
    /// Counts one more thing that this request asks for as if it were a request of its own.
    ///
    /// # Errors
    /// [`Limited`] when its sender is over their rate.
    pub(crate) fn count_one_more(&self, throttle: &Throttle) -> Result<Option<RateStatus>, Limited> {
        count(throttle, &self.credentials, self.address)
    }

    /// Waits until its credentials open nothing any more; returns at once when they never did.
    ///
    /// # Cancel safety
    /// Cancel safe: credentials that ended stay so.
    pub(crate) async fn ended(&self, clock: &dyn Clock) {
        let Credentials::Valid(key) = &self.credentials else {
            return;
        };
        let expired = async {
            match key.expires_at() {
                Some(end) => tokio::time::sleep(end.since(clock.now())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = key.removed() => {}
            () = expired => {}
        }
    }

    /// The browser that sent this, by its cookie; its second secret may be missing. Only for deciding which page
    /// to show.
    pub(crate) fn browser(&self) -> Option<&Arc<Key>> {
        match &self.credentials {
            Credentials::Valid(key) | Credentials::CookieAlone(key) => key.sign_in().map(|_browser| key),
            Credentials::Absent | Credentials::Wrong | Credentials::Ended | Credentials::ForeignPage => None,
        }
    }
}

/// Counts a request against the rate of whoever sent it: of the token, or of the address without one.
fn count(
    throttle: &Throttle,
    credentials: &Credentials,
    address: IpAddr,
) -> Result<Option<RateStatus>, Limited> {
    match credentials {
        Credentials::Valid(key) | Credentials::CookieAlone(key) => throttle.count_token(key.number()),
        Credentials::Absent | Credentials::Wrong | Credentials::Ended | Credentials::ForeignPage => {
            throttle.count_anonymous(address)
        }
    }
}

/// How a request that was let in goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Route,
    /// Nowhere: a listed web page asks what it may send.
    Preflight,
}

/// What the admission puts on the answer to a request, also on a refusal.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    rate_status: Option<RateStatus>,
    sharing: Option<Sharing>,
    is_inside_tls: bool,
}

impl Notes {
    /// Writes them on an answer.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        let Self {
            rate_status,
            sharing,
            is_inside_tls,
        } = self;
        if let Some(rate_status) = rate_status {
            rate_headers::write(rate_status, headers);
        }
        if let Some(sharing) = sharing {
            sharing.write(headers);
        }
        if is_inside_tls {
            headers.insert(
                header::STRICT_TRANSPORT_SECURITY,
                HeaderValue::from_static("max-age=31536000"),
            );
        }
    }
}

pub(crate) struct AdmissionMiddleware {
    tokens: Arc<Tokens>,
    throttle: Arc<Throttle>,
    ids: Arc<dyn Ids>,
    /// The rules in force now; cheap, asked on every request.
    rules: Box<dyn Fn() -> Arc<AdmissionRules> + Send + Sync>,
}

impl fmt::Debug for AdmissionMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionMiddleware")
            .field("throttle", &self.throttle)
            .finish_non_exhaustive()
    }
}

impl AdmissionMiddleware {
    pub(crate) fn new(
        tokens: Arc<Tokens>,
        throttle: Arc<Throttle>,
        ids: Arc<dyn Ids>,
        rules: impl Fn() -> Arc<AdmissionRules> + Send + Sync + 'static,
    ) -> Self {
        Self {
            tokens,
            throttle,
            ids,
            rules: Box::new(rules),
        }
    }

    /// Lets a request in and notes its [`RequestSource`] on it, and on `notes` what its answer is to say.
    pub(crate) async fn admit(
        &self,
        peer: Peer,
        request: &mut Request<Body>,
        notes: &mut Notes,
    ) -> Result<Pass, Problem> {
        let rules = (self.rules)();
        let headers = request.headers();
        let checked = match peer {
            Peer::Tcp(_) | Peer::Tls(_) => rules.hosts.check(request.uri(), headers),
            Peer::Unix => host_header::check_form(headers),
        };
        checked.map_err(refuse_host)?;
        notes.is_inside_tls = peer.is_tls();
        let connection = if peer.is_tls() {
            Transport::Tls
        } else {
            Transport::Plain
        };
        let site = rules.web.site(headers, connection);
        if rules.web.are_listed() {
            notes.sharing = Some(Sharing::with(site, headers));
        }

        let credentials = self.recognise(headers, site).await?;
        let address = peer.client(headers, &rules.is_trusted_proxy);
        self.throttle.set_rates(rules.rates);
        let rate = if EXEMPT_FROM_RATE.contains(&request.uri().path()) {
            Ok(None)
        } else {
            count(&self.throttle, &credentials, address)
        };
        notes.rate_status = rate.map_err(Problem::limited)?;
        if site == Site::Foreign && is_websocket(headers) {
            return Err(Problem::new(
                Code::Forbidden,
                "this web page may not open a connection here",
            ));
        }
        let pass = if site == Site::Listed && cors::is_preflight(request) {
            Pass::Preflight
        } else {
            Pass::Route
        };
        let transport = if peer.is_tls() {
            Transport::Tls
        } else {
            rules.transport
        };
        request.extensions_mut().insert(RequestSource {
            credentials,
            address,
            site,
            transport,
        });
        Ok(pass)
    }

    /// The trace that a request is part of, if it says so.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<Trace> {
        Trace::continued(headers, &*self.ids)
    }

    /// Where the ids of requests come from.
    pub(crate) const fn ids(&self) -> &Arc<dyn Ids> {
        &self.ids
    }

    /// A token counts before a cookie: a caller who shows a token has no need of the browser's cookie.
    async fn recognise(&self, headers: &HeaderMap, site: Site) -> Result<Credentials, Problem> {
        if let Some(token) = bearer::presented(headers) {
            let key = self.tokens.authenticate(token).await?;
            return Ok(key.map_or(Credentials::Wrong, Credentials::Valid));
        }
        if !headers.contains_key(header::COOKIE) {
            return Ok(Credentials::Absent);
        }
        match cookie::presented(headers) {
            Presented::Nothing => Ok(Credentials::Absent),
            Presented::Several => Ok(Credentials::Ended),
            Presented::One(_) if site == Site::Foreign => Ok(Credentials::ForeignPage),
            Presented::One(cookie) => Ok(match self.tokens.browser_of(cookie).await? {
                None => Credentials::Ended,
                Some(key) if proves_itself(&key, headers) => Credentials::Valid(key),
                Some(key) => Credentials::CookieAlone(key),
            }),
        }
    }
}

/// Whether the one second secret of a request is that of the browser.
fn proves_itself(key: &Key, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(SECOND_SECRET).into_iter();
    let (value, more) = (values.next(), values.next());
    value
        .filter(|_| more.is_none())
        .and_then(|value| value.to_str().ok())
        .is_some_and(|presented| key.is_second_secret(presented))
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::UPGRADE)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

fn refuse_host(foreign: ForeignHost) -> Problem {
    match foreign {
        ForeignHost::Malformed => Problem::field("Host", "expected exactly one valid Host header"),
        ForeignHost::Unknown => Problem::new(
            Code::MisdirectedRequest,
            "this server does not go by that name; [http] allowed_hosts lists the names that are added to its own",
        ),
    }
}
