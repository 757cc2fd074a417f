//! How messages reach the server: over HTTP, or by standard input and output.

use std::{convert::Infallible, fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{Full, combinators::BoxBody};
use hyper::{Request, Response};
use rmcp::{
    ServiceExt as _,
    service::ServerInitializeError,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};

use super::Server;

/// A server behind streamable HTTP, without sessions of its own.
pub struct HttpEndpoint(StreamableHttpService<Server, NeverSessionManager>);

/// Why standard input and output are not served any more.
#[derive(Debug)]
pub enum StdioError {
    /// What the client sent first is no beginning.
    Begin(String),
    /// The server failed.
    Serve(String),
}

impl HttpEndpoint {
    /// Answers with `server`. Hosts are not checked: the caller has done that, against names that can change.
    pub fn new(server: &Server, most_body_bytes: usize) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(most_body_bytes)
            .disable_allowed_hosts();
        let server = server.clone();
        Self(StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        ))
    }

    /// Answers one request.
    ///
    /// # Cancel safety
    /// Dropping the future takes the message back.
    pub fn handle(
        &self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>> {
        Box::pin(self.0.handle(request))
    }
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEndpoint").finish_non_exhaustive()
    }
}

impl Server {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// [`StdioError`] says what went wrong, in words of the protocol library.
    pub fn serve_stdio(self) -> BoxFuture<'static, Result<(), StdioError>> {
        Box::pin(async move {
            let running = match self.serve(rmcp::transport::stdio()).await {
                Ok(running) => running,
                // A client that leaves before it said anything wanted nothing.
                Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(error) => return Err(StdioError::Begin(error.to_string())),
            };
            match running.waiting().await {
                Ok(_reason) => Ok(()),
                Err(error) => Err(StdioError::Serve(error.to_string())),
            }
        })
    }
}
