//! The listener of a mock, on loopback alone, which goes away and comes back where the script says so.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use countersign_sys::clock::{Clock, Ids};

use super::{
    answer::{HangUp, marked},
    play::{Heard, MockPlay, Play},
    routes,
    script::Script,
};
use crate::{
    links::Links,
    peer::{Endpoint, Transport},
    problem::Problem,
};

/// How long a server is away that restarts.
const AWAY: Duration = Duration::from_millis(1500);
/// Pause before a listener is opened again.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_CONNECTIONS: usize = 256;
const HEADERS_WITHIN: Duration = Duration::from_secs(10);

/// Why a mock was not opened.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// Other machines could reach it, and would take it for a server.
    #[error("a mock listens on loopback only, and {0} is not")]
    NotLoopback(SocketAddr),
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A mock that accepts nothing yet.
pub struct Mock {
    listener: TcpListener,
    address: SocketAddr,
    play: Arc<Play>,
    restarts: mpsc::Receiver<()>,
}

impl std::fmt::Debug for Mock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mock")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The connection breaks, as the script says.
#[derive(Debug, thiserror::Error)]
#[error("the script breaks this connection")]
struct Broken;

impl Mock {
    /// Opens the listener. `listener` is told of each call as it comes.
    ///
    /// # Errors
    /// [`MockError`], above all where the address is not a loopback one.
    pub async fn bind(
        address: SocketAddr,
        script: Script,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
        listener: impl Fn(&Heard) + Send + Sync + 'static,
    ) -> Result<Self, MockError> {
        if !address.ip().is_loopback() {
            return Err(MockError::NotLoopback(address));
        }
        let failed = |source| MockError::Listen { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let (restart, restarts) = mpsc::channel(1);
        let links = Links::new(None, endpoint(address));
        let play = Play::new(script, (clock, ids), links, (restart, Box::new(listener)));
        Ok(Self {
            listener: socket,
            address,
            play: Arc::new(play),
            restarts,
        })
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> String {
        endpoint(self.address).url()
    }

    /// What it heard and played.
    pub fn play(&self) -> MockPlay {
        MockPlay(Arc::clone(&self.play))
    }

    /// Serves until `stop` is cancelled.
    #[crate::compiled_once]
    pub async fn serve(self, stop: CancellationToken) {
        let Self {
            listener,
            address,
            play,
            mut restarts,
        } = self;
        let router = routes::router(play);
        let mut listener = Some(listener);
        while let Some(open) = listener {
            let connections = Connections {
                router: router.clone(),
                tasks: TaskTracker::new(),
                gone: CancellationToken::new(),
            };
            let goes_on = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                _restart = restarts.recv() => true,
                never = connections.accept(&open) => match never {},
            };
            // As when a server dies: nobody is answered any more.
            drop(open);
            connections.gone.cancel();
            connections.tasks.close();
            connections.tasks.wait().await;
            if !goes_on {
                return;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = sleep(AWAY) => {}
            }
            listener = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                open = reopened(address) => Some(open),
            };
        }
    }
}

const fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint {
        address,
        transport: Transport::Plain,
    }
}

/// The listener again, as soon as the address is free.
async fn reopened(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                tracing::warn!(%address, %error, "the mock cannot come back yet");
                sleep(PAUSE).await;
            }
        }
    }
}

struct Connections {
    router: Router,
    tasks: TaskTracker,
    gone: CancellationToken,
}

impl Connections {
    #[expect(
        clippy::infinite_loop,
        reason = "it ends when the server goes away, which drops it"
    )]
    async fn accept(&self, listener: &TcpListener) -> Infallible {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            match listener.accept().await {
                Ok((stream, _peer)) => {
                    let connection = serve_connection(self.router.clone(), stream);
                    let gone = self.gone.clone();
                    self.tasks.spawn(async move {
                        tokio::select! {
                            () = connection => {}
                            () = gone.cancelled() => {}
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn serve_connection(router: Router, stream: TcpStream) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let path = request.uri().path().to_owned();
            let answered = router.oneshot(request.map(Body::new)).await;
            let mut response = answered.unwrap_or_else(|never: Infallible| match never {});
            if response.extensions().get::<HangUp>().is_some() {
                return Err(Broken);
            }
            if let Some(problem) = Problem::take(&mut response) {
                let allow = response.headers_mut().remove(header::ALLOW);
                response = problem.allowing(allow).render(&path, "");
            }
            Ok(marked(response).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}
