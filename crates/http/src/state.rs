//! What handlers share.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc};

use arc_swap::ArcSwap;
use axum::extract::FromRef;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use countersign_config::settings::{Server, Settings, WebUrl};
use countersign_domain::{Actor, Principal, Scope, Secret, UnixMillis};
use countersign_engine::{
    Engine, EntryLists, PolicyAdmin,
    sign_in::{LoginLink, LoginLinkError},
    tokens::Tokens,
};
use countersign_ledger::auth::{Rate, Throttle, ThrottleRates};
use countersign_nodes::bridge::Bridge;
use countersign_wire::health::FindingBody;

use crate::{
    admission::{AdmissionMiddleware, AdmissionRules},
    event_frames::Frames,
    extract::BodyLimit,
    film::PausedFilms,
    host_header::HostNames,
    links::Links,
    listed::ListedApprovals,
    metrics::{Format, Metrics},
    peer::{Endpoint, Transport},
    problem::{Code, Problem},
    routes::McpMount,
    web_origin::WebOrigins,
};

/// What handlers share; cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    bridge: Arc<Bridge>,
    tokens: Arc<Tokens>,
    throttle: Arc<Throttle>,
    endpoint: Endpoint,
    body_limit: BodyLimit,
    links: Links,
    frames: Arc<Frames>,
    stream_places: Arc<Semaphore>,
    /// How many of them those may take who ask for runs: approvers that find no place cannot be asked, and where
    /// nobody can be asked the fallback counts.
    asker_places: Arc<Semaphore>,
    most_streams: usize,
    metrics: Metrics,
    mcp: McpMount,
    doctor: Arc<dyn Doctor>,
    /// One look at a time: it reads every file of the server.
    doctor_turn: Turn,
    /// One recording is drawn at a time.
    drawing_turn: Turn,
    /// Recordings that were drawn in part.
    drawn: Arc<PausedFilms>,
    /// What lists showed of approvals.
    listed_approvals: ListedApprovals,
    /// One policy is tried at a time.
    trial_turn: Turn,
    stopping: CancellationToken,
}

/// Work that is done once at a time.
type Turn = Arc<Mutex<()>>;

/// Says what is wrong or risky about the server and its files. It may take a while, and nothing may be started for it.
pub trait Doctor: std::fmt::Debug + Send + Sync {
    /// The worst come first.
    fn findings(&self) -> Vec<FindingBody>;
}

/// A place among the event streams.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    _among_askers: Option<OwnedSemaphorePermit>,
    _among_all: OwnedSemaphorePermit,
}

impl AppState {
    /// Joins what the API needs. `endpoint` is what was bound; `stopping` ends event streams.
    pub fn new(
        bridge: Arc<Bridge>,
        endpoint: Endpoint,
        doctor: Arc<dyn Doctor>,
        stopping: CancellationToken,
    ) -> Self {
        let (engine, tokens) = (Arc::clone(bridge.engine()), Arc::clone(bridge.tokens()));
        let settings = engine.settings().current();
        let server = &settings.server;
        let links = Links::new(server.http.public_url.as_ref().map(WebUrl::as_str), endpoint);
        let body_limit = BodyLimit::new(server.limits.body_bytes);
        Self(Arc::new(Shared {
            mcp: McpMount::new(&engine, links.clone(), body_limit.clone()),
            throttle: Arc::new(Throttle::new(rates(server))),
            endpoint,
            body_limit,
            frames: Arc::new(Frames::new(links.clone())),
            links,
            stream_places: Arc::new(Semaphore::new(server.limits.max_sse_clients)),
            asker_places: Arc::new(Semaphore::new(server.limits.max_sse_clients.div_ceil(2))),
            most_streams: server.limits.max_sse_clients,
            metrics: Metrics::of(&engine, &bridge),
            doctor,
            doctor_turn: Turn::default(),
            drawing_turn: Turn::default(),
            drawn: Arc::default(),
            listed_approvals: ListedApprovals::default(),
            trial_turn: Turn::default(),
            stopping,
            engine,
            bridge,
            tokens,
        }))
    }

    /// Drops what is only kept so that the next request takes less time.
    pub fn forget(&self) {
        self.0.listed_approvals.forget();
    }

    pub(crate) fn lists(&self) -> &EntryLists {
        self.0.engine.lists()
    }

    pub(crate) fn policy_admin(&self) -> &Arc<PolicyAdmin> {
        self.0.engine.policy_admin()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub(crate) fn bridge(&self) -> &Arc<Bridge> {
        &self.0.bridge
    }

    pub(crate) fn mcp(&self) -> &McpMount {
        &self.0.mcp
    }

    pub(crate) fn tokens(&self) -> &Arc<Tokens> {
        &self.0.tokens
    }

    /// The limits of the admission.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.0.throttle
    }

    /// Makes a one-time link that signs a browser in. Its code is behind `#`, so that no server and no log sees
    /// it before a person presses the button on the sign-in page. Returns its URL and when it ends.
    ///
    /// # Errors
    /// [`LoginLinkError`]; there is no link then.
    #[crate::compiled_once]
    pub async fn make_login_link(&self, by: &Actor) -> Result<(Secret, UnixMillis), LoginLinkError> {
        let lasts = self.0.engine.settings().current().server.auth.login_link_ttl;
        let link = self.0.tokens.make_login_link(by, lasts).await?;
        Ok((self.url_of(&link), link.expires_at))
    }

    /// The URL of a one-time link.
    pub(crate) fn url_of(&self, link: &LoginLink) -> Secret {
        let path = format!("/login#code={}", link.code.expose());
        Secret::new(self.links().absolute(&path))
    }

    /// What is wrong or risky now, the worst first.
    pub(crate) async fn findings(&self) -> Result<Vec<FindingBody>, Problem> {
        let turn = Arc::clone(&self.0.doctor_turn).lock_owned().await;
        let doctor = Arc::clone(&self.0.doctor);
        let look = move || {
            // Who asked may be gone before the look ends; nobody else looks until then.
            let _turn = turn;
            doctor.findings()
        };
        let looked = tokio::task::spawn_blocking(look).await;
        looked.map_err(|_panicked| Problem::internal())
    }

    /// The turn to draw a recording. It is for who draws to keep, since who asked may be gone before.
    pub(crate) async fn drawing_turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0.drawing_turn).lock_owned().await
    }

    /// Recordings that were drawn in part, for who asks for the rest.
    pub(crate) fn drawn(&self) -> &Arc<PausedFilms> {
        &self.0.drawn
    }

    /// What lists showed of approvals.
    pub(crate) fn listed_approvals(&self) -> &ListedApprovals {
        &self.0.listed_approvals
    }

    /// The turn to try a policy. It is for who tries to keep, since who asked may be gone before.
    pub(crate) async fn trial_turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0.trial_turn).lock_owned().await
    }

    /// Cancelled when the server stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.0.stopping.clone()
    }

    /// Where the API is found over TCP: what links begin with when no `[http] public_url` is set.
    pub fn endpoint(&self) -> Endpoint {
        self.0.endpoint
    }

    /// Events as streams send them.
    pub(crate) fn frames(&self) -> &Arc<Frames> {
        &self.0.frames
    }

    /// Where others find things of this server.
    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    /// What the admission counts.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// All metrics as text.
    pub(crate) async fn render_metrics(&self, format: Format) -> Result<String, std::fmt::Error> {
        let shared = &self.0;
        let streams = shared
            .most_streams
            .saturating_sub(shared.stream_places.available_permits());
        shared.metrics.render(&shared.engine, streams, format).await
    }

    /// A place among the event streams for `caller`, held as long as the stream.
    pub(crate) fn take_stream_place(&self, caller: &Principal) -> Result<StreamPlace, Problem> {
        let take = |places: &Arc<Semaphore>| {
            Arc::clone(places).try_acquire_owned().map_err(|_none_free| {
                Problem::new(
                    Code::Overloaded,
                    "too many event streams ([limits] max_sse_clients)",
                )
            })
        };
        Ok(StreamPlace {
            _among_askers: caller
                .has(Scope::Exec)
                .then(|| take(&self.0.asker_places))
                .transpose()?,
            _among_all: take(&self.0.stream_places)?,
        })
    }

    /// The admission that goes by the settings in force.
    pub(crate) fn admission(&self) -> AdmissionMiddleware {
        let shared = Arc::clone(&self.0);
        let settings = shared.engine.settings().current();
        let latest = ArcSwap::from_pointee(admission_rules(&settings, &shared));
        let rules = move || {
            let settings = shared.engine.settings().current();
            if latest.load().generation != settings.generation {
                latest.store(Arc::new(admission_rules(&settings, &shared)));
            }
            latest.load_full()
        };
        let ids = Arc::clone(self.0.engine.ids());
        AdmissionMiddleware::new(
            Arc::clone(&self.0.tokens),
            Arc::clone(&self.0.throttle),
            ids,
            rules,
        )
    }
}

impl FromRef<AppState> for Arc<Throttle> {
    fn from_ref(state: &AppState) -> Self {
        Self::clone(&state.0.throttle)
    }
}

impl FromRef<AppState> for BodyLimit {
    fn from_ref(state: &AppState) -> Self {
        state.0.body_limit.clone()
    }
}

fn admission_rules(settings: &Settings, shared: &Shared) -> AdmissionRules {
    let http = &settings.server.http;
    let address = shared.endpoint.address.ip().to_string();
    let metrics = settings.server.telemetry.metrics_listen;
    let metrics = metrics.map(|address| address.ip().to_string());
    let public = http.public_url.as_ref().map(WebUrl::host);
    let allowed = http.allowed_hosts.iter().map(String::as_str);
    let proxies = http.trusted_proxies.clone();
    AdmissionRules {
        generation: settings.generation,
        hosts: HostNames::new(
            allowed
                .chain(public)
                .chain(metrics.as_deref())
                .chain([address.as_str()]),
        ),
        web: WebOrigins::new(http.public_url.as_ref().map(WebUrl::as_str), &http.cors_origins),
        transport: match &http.public_url {
            Some(url) if url.as_str().starts_with("https://") => Transport::Tls,
            Some(_) | None => Transport::Plain,
        },
        rates: rates(&settings.server),
        is_trusted_proxy: Box::new(move |address: IpAddr| {
            proxies.iter().any(|range| range.contains(address))
        }),
    }
}

fn rates(server: &Server) -> ThrottleRates {
    let bounded = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let limits = &server.limits;
    ThrottleRates {
        failures_per_minute: NonZeroU32::new(bounded(server.auth.failures_per_minute)),
        token: Rate::new(bounded(limits.requests_per_second), bounded(limits.request_burst)),
        anonymous: Rate::new(
            bounded(limits.anonymous_per_second),
            bounded(limits.anonymous_burst),
        ),
    }
}
