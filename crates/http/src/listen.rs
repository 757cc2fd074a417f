//! The listeners: TCP, inside TLS when there is a certificate, and the API's Unix socket, which is plain always.
//!
//! Every connection is a tracked task with a place of its own, its TLS handshake included; when all places are
//! taken, new connections wait in the kernel's queue. Each listener has its own places: clients that fill those of the
//! port leave those of the socket to the operator of this machine. Stopping is soft first (streams end, requests
//! finish), then hard.

use std::{
    convert::Infallible,
    fs,
    future::{Ready, ready},
    io,
    net::{SocketAddr, TcpListener as StdTcpListener},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use countersign_config::tls::LiveTls;

use crate::{
    handshake,
    metrics::{Here, Listener},
    peer::{Endpoint, Peer, Transport},
    service::HttpService,
};

/// Room for the request line and all headers of a request.
const HEADER_ROOM: usize = 64 * 1024;

/// How long a client may leave unread what was sent to it before the kernel hangs up: long enough for a person who
/// reads output page by page, and bounded, since a client that never reads would hold its place for nothing.
const STALLED_MILLIS: u32 = 5 * 60 * 1000;

/// How long to wait after the system has no descriptor left for a new connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The API and the page.
    Api,
    /// Only `GET /metrics`, on an address of its own.
    Metrics,
}

/// Where and how to listen.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Which routes it serves.
    pub purpose: Purpose,
    /// `[http] listen`, or `[telemetry] metrics_listen`.
    pub address: SocketAddr,
    /// Where the API socket is made, with mode 0600; `None` for none.
    pub unix_socket: Option<PathBuf>,
    /// `[limits] max_connections`, for each of the two.
    pub max_connections: usize,
    /// How long a client may take to send the headers of a request (`[limits] header_timeout_ms`).
    pub header_timeout: Duration,
    /// What the TCP listener serves inside of; `None` is plain HTTP.
    pub tls: Option<Arc<LiveTls>>,
}

/// Why a listener was not opened; the server must not start then.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is taken, not ours, or not permitted.
    #[error("cannot listen on {address} ({})", purpose.key())]
    Tcp {
        /// What it was for.
        purpose: Purpose,
        /// The address that the settings name.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A socket that was passed to the server listens somewhere else.
    #[error("the socket that was passed listens on {passed}, and [http] listen is {address}")]
    Elsewhere {
        /// `[http] listen`.
        address: SocketAddr,
        /// Where the passed socket listens.
        passed: SocketAddr,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {} ([http] unix_socket)", path.display())]
    Unix {
        /// The path that the settings name.
        path: PathBuf,
        /// What the system said; [`io::ErrorKind::AlreadyExists`] when another kind of file is there.
        #[source]
        source: io::Error,
    },
}

impl Purpose {
    const fn key(self) -> &'static str {
        match self {
            Self::Api => "[http] listen",
            Self::Metrics => "[telemetry] metrics_listen",
        }
    }

    const fn listener(self) -> Listener {
        match self {
            Self::Api => Listener::Tcp,
            Self::Metrics => Listener::Metrics,
        }
    }
}

/// Listeners that accept nothing yet.
#[derive(Debug)]
pub struct Bound {
    purpose: Purpose,
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<LiveTls>>,
    unix: Option<(UnixListener, PathBuf)>,
    max_connections: usize,
    header_timeout: Duration,
}

/// Opens the listeners; `passed` is one that another process opened at the address already. The caller holds the
/// ledger's lock, so a socket file that is in the way is a leftover.
///
/// # Errors
/// [`ListenError`] names the listener that failed; nothing stays open then.
#[crate::compiled_once]
pub async fn bind(options: &ListenOptions, passed: Option<StdTcpListener>) -> Result<Bound, ListenError> {
    let tcp_failed = |source| ListenError::Tcp {
        purpose: options.purpose,
        address: options.address,
        source,
    };
    let tcp = match passed {
        None => TcpListener::bind(options.address).await,
        Some(passed) => take_over(passed),
    }
    .map_err(tcp_failed)?;
    let address = tcp.local_addr().map_err(tcp_failed)?;
    if !is_meant(options.address, address) {
        return Err(ListenError::Elsewhere {
            address: options.address,
            passed: address,
        });
    }
    let unix = match &options.unix_socket {
        None => None,
        Some(path) => {
            let listener = bind_unix(path).map_err(|source| ListenError::Unix {
                path: path.clone(),
                source,
            })?;
            Some((listener, path.clone()))
        }
    };
    Ok(Bound {
        purpose: options.purpose,
        tcp,
        address,
        tls: options.tls.clone(),
        unix,
        max_connections: options.max_connections,
        header_timeout: options.header_timeout,
    })
}

fn take_over(passed: StdTcpListener) -> io::Result<TcpListener> {
    passed.set_nonblocking(true)?;
    TcpListener::from_std(passed)
}

/// Whether an address is the one of the settings, where port 0 is any.
fn is_meant(wanted: SocketAddr, address: SocketAddr) -> bool {
    wanted.ip() == address.ip() && (wanted.port() == 0 || wanted.port() == address.port())
}

/// The directory around it is 0700, so the moment before the mode is set opens it to nobody.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_something_else) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Bound {
    /// Where the TCP listener is, with the port that was picked.
    pub const fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.address,
            transport: match self.tls {
                Some(_) => Transport::Tls,
                None => Transport::Plain,
            },
        }
    }

    /// Path of the API socket; `None` where it listens on TCP only.
    pub fn unix_socket(&self) -> Option<&Path> {
        self.unix.as_ref().map(|(_, path)| path.as_path())
    }

    /// Answers requests until `stop`, then lets those that are under way finish until `abort`. Removes the
    /// socket file at the end.
    #[crate::compiled_once]
    pub async fn serve(self, service: HttpService, stop: CancellationToken, abort: CancellationToken) {
        let Self {
            purpose,
            tcp,
            address: _,
            tls,
            unix,
            max_connections,
            header_timeout,
        } = self;
        let connections = Connections {
            service,
            builder: builder(header_timeout),
            tasks: TaskTracker::new(),
            stop,
            abort,
        };
        let tcp = async {
            match tls {
                None => {
                    connections
                        .accept(max_connections, &tcp, purpose.listener())
                        .await;
                }
                Some(tls) => {
                    let secured = Secured {
                        listener: tcp,
                        tls,
                        timeout: header_timeout,
                    };
                    connections
                        .accept(max_connections, &secured, purpose.listener())
                        .await;
                }
            }
        };
        let on_socket = async {
            if let Some((listener, _path)) = &unix {
                connections
                    .accept(max_connections, listener, Listener::Socket)
                    .await;
            }
        };
        tokio::join!(tcp, on_socket);
        connections.tasks.close();
        connections.tasks.wait().await;
        if let Some((_, path)) = &unix
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(%error, "the API socket could not be removed");
        }
    }
}

/// A source of connections.
trait Accept: Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What is left to do before requests can be read; `None` when that fails. It runs in the connection's task.
    type Opening: Future<Output = Option<Self::Stream>> + Send + 'static;

    /// The next connection; `None` for one that was turned away.
    fn next(&self) -> impl Future<Output = io::Result<Option<(Self::Opening, Peer)>>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;
    type Opening = Ready<Option<TcpStream>>;

    async fn next(&self) -> io::Result<Option<(Self::Opening, Peer)>> {
        let (stream, address) = self.accept().await?;
        prepare(&stream)?;
        Ok(Some((ready(Some(stream)), Peer::Tcp(address))))
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;
    type Opening = Ready<Option<UnixStream>>;

    async fn next(&self) -> io::Result<Option<(Self::Opening, Peer)>> {
        let (stream, _address) = self.accept().await?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        Ok((peer.uid == rustix::process::geteuid()).then_some((ready(Some(stream)), Peer::Unix)))
    }
}

/// Small answers leave at once, and who takes nothing off us does not keep its place for ever.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_tcp_user_timeout(stream, STALLED_MILLIS)?;
    Ok(())
}

struct Secured {
    listener: TcpListener,
    tls: Arc<LiveTls>,
    timeout: Duration,
}

impl Accept for Secured {
    type Stream = TlsStream<TcpStream>;
    type Opening = Pin<Box<dyn Future<Output = Option<Self::Stream>> + Send>>;

    async fn next(&self) -> io::Result<Option<(Self::Opening, Peer)>> {
        let (stream, address) = self.listener.accept().await?;
        prepare(&stream)?;
        let handshake = handshake::perform(stream, Arc::clone(&self.tls), self.timeout);
        Ok(Some((Box::pin(handshake), Peer::Tls(address))))
    }
}

/// The place of a connection among those that may be open; it is free again once all of these are gone.
#[derive(Debug, Clone)]
pub(crate) struct KeptPlace {
    _held: Arc<(OwnedSemaphorePermit, Here)>,
}

struct Connections {
    service: HttpService,
    builder: Arc<http1::Builder>,
    tasks: TaskTracker,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Connections {
    async fn accept(&self, places: usize, source: &impl Accept, listener: Listener) {
        let places = Arc::new(Semaphore::new(places));
        loop {
            let accepted = async {
                // The place comes first, so that no more connections are accepted than there are places.
                let place = Arc::clone(&places).acquire_owned().await.ok()?;
                Some((place, source.next().await))
            };
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = accepted => accepted,
            };
            match accepted {
                None => return,
                Some((place, Ok(Some((opening, peer))))) => {
                    let here = self.service.connections().enter(listener);
                    self.spawn(opening, peer, (place, here));
                }
                Some((_place, Ok(None))) => tracing::warn!("a peer of another user was turned away"),
                Some((_place, Err(error))) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn spawn<S, O>(&self, opening: O, peer: Peer, held: (OwnedSemaphorePermit, Here))
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        O: Future<Output = Option<S>> + Send + 'static,
    {
        let service = self.service.clone();
        let builder = Arc::clone(&self.builder);
        let (stop, abort) = (self.stop.clone(), self.abort.clone());
        // A connection that becomes a WebSocket keeps its place for as long as that lasts.
        let place = KeptPlace {
            _held: Arc::new(held),
        };
        self.tasks.spawn(async move {
            let stream = tokio::select! {
                biased;
                stream = opening => stream,
                // Nobody is answered yet, so nobody is owed anything.
                () = stop.cancelled() => return,
                () = abort.cancelled() => return,
            };
            let Some(stream) = stream else {
                service.connections().handshake_failed();
                return;
            };
            let service = service_fn(|request: hyper::Request<Incoming>| {
                let (service, place) = (service.clone(), place.clone());
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(place);
                async move { Ok::<_, Infallible>(service.answer(peer, request).await) }
            });
            let connection = builder
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let mut connection = std::pin::pin!(connection);
            let finish = async {
                tokio::select! {
                    result = connection.as_mut() => result,
                    () = stop.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        connection.as_mut().await
                    }
                }
            };
            tokio::select! {
                result = finish => if let Err(error) = result {
                    // A client that leaves is no fault; what it did wrong only matters when one looks for it.
                    tracing::debug!(%error, "a connection ended early");
                },
                () = abort.cancelled() => {}
            }
        });
    }
}

fn builder(header_timeout: Duration) -> Arc<http1::Builder> {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(HEADER_ROOM);
    Arc::new(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_whose_client_reads_nothing_ends_some_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _address) = listener.accept().await.unwrap();
        prepare(&stream).unwrap();
        assert_eq!(
            rustix::net::sockopt::tcp_user_timeout(&stream),
            Ok(STALLED_MILLIS)
        );
        assert!(stream.nodelay().unwrap());
    }
}
