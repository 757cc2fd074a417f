//! A WebSocket to the gateway, over TCP or TLS.

use std::{fmt, io, sync::Arc, time::Duration};

use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, protocol::WebSocketConfig},
};

use countersign_config::tls::client_config;

use super::address::{GatewayAddress, Trust};

/// How long a connection, TLS and the upgrade may take together.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest message that is taken, as the products have it.
pub(super) const MAX_MESSAGE: usize = 25 * 1024 * 1024;
/// Most bytes that wait to be written.
const MAX_WRITE_BUFFER: usize = 4 * 1024 * 1024;

/// What a WebSocket runs over.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Wire for T {}

/// A connection that was upgraded.
pub(super) type Socket = WebSocketStream<Box<dyn Wire>>;

/// No connection came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// Nobody listens there, or the way is cut.
    #[error("no connection")]
    Tcp(#[source] io::Error),
    /// The certificate is not trusted, or this is no TLS.
    #[error("no TLS connection")]
    Tls(#[source] io::Error),
    /// The machine has no authorities that can be read.
    #[error("the certificate authorities of this machine cannot be read")]
    Authorities(#[source] rustls::Error),
    /// What listens there is no gateway.
    #[error("no WebSocket")]
    Upgrade(#[source] Box<tungstenite::Error>),
    /// It took too long.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    TimedOut,
}

pub(super) async fn open(address: &GatewayAddress) -> Result<Socket, OpenError> {
    timeout(TIMEOUT, open_patiently(address))
        .await
        .map_err(|_elapsed| OpenError::TimedOut)?
}

async fn open_patiently(address: &GatewayAddress) -> Result<Socket, OpenError> {
    let stream = TcpStream::connect((address.host(), address.port()))
        .await
        .map_err(OpenError::Tcp)?;
    stream.set_nodelay(true).map_err(OpenError::Tcp)?;
    let wire: Box<dyn Wire> = match address.tls() {
        None => Box::new(stream),
        Some(trust) => {
            let pinned = match trust {
                Trust::Pinned(fingerprint) => Some(fingerprint),
                Trust::Authorities => None,
            };
            let config = client_config(pinned).map_err(OpenError::Authorities)?;
            let name = ServerName::try_from(address.host().to_owned())
                .map_err(|error| OpenError::Tls(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
            let connector = TlsConnector::from(Arc::clone(&config));
            Box::new(connector.connect(name, stream).await.map_err(OpenError::Tls)?)
        }
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .max_write_buffer_size(MAX_WRITE_BUFFER);
    let (socket, _response) = client_async_with_config(format!("{address}/"), wire, Some(config))
        .await
        .map_err(|error| OpenError::Upgrade(Box::new(error)))?;
    Ok(socket)
}
