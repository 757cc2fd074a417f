//! The beginning of a TLS connection, bounded in time.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use countersign_config::tls::LiveTls;

/// The first byte of every TLS connection: a record of the type "handshake".
const HANDSHAKE_RECORD: u8 = 22;

/// To a client that speaks plain HTTP. Says nothing that a scan of the port would not show.
const WRONG_SCHEME: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 44\r\nConnection: close\r\n\r\nThis port speaks HTTPS: use an https:// URL\n";

/// What is read of a plain request before the connection is closed, so that the answer is not lost with it.
const WRONG_SCHEME_ROOM: u64 = 64 * 1024;

/// Performs the handshake; `None` when there is none within `timeout`.
pub(crate) async fn perform(
    stream: TcpStream,
    tls: Arc<LiveTls>,
    timeout: Duration,
) -> Option<TlsStream<TcpStream>> {
    let deadline = Instant::now() + timeout;
    match timeout_at(deadline, shake_hands(stream, &tls)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // What a client did wrong only matters when one looks for it.
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_elapsed) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

async fn shake_hands(stream: TcpStream, tls: &LiveTls) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first != [HANDSHAKE_RECORD] {
        refuse_plain(stream).await?;
        return Ok(None);
    }
    // Looks at the certificate now that the client wants it, and not while the client was thinking.
    TlsAcceptor::from(tls.current()).accept(stream).await.map(Some)
}

async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(WRONG_SCHEME).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(WRONG_SCHEME_ROOM);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}
