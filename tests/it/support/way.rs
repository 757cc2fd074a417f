//! A way to a server on which answers change: what a later version would say, or what takes an unlucky moment.

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::TestServer;

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnTheWay {
    /// The server answers it.
    Passes,
    /// The server answers it, and its JSON is changed.
    Changes(fn(&mut Value)),
    /// It is answered with this stream of events.
    Streams(&'static str),
}

/// The address of a way to a server; `at` says what becomes of a request of a path.
pub(crate) async fn way(server: &TestServer, at: fn(&str) -> OnTheWay) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let way = format!("http://{}", listener.local_addr().expect("its address"));
    let (far, http) = (
        Arc::new(format!("http://{}", server.address())),
        reqwest::Client::new(),
    );
    let router = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let (far, http) = (Arc::clone(&far), http.clone());
        async move {
            let change = match at(uri.path()) {
                OnTheWay::Passes => None,
                OnTheWay::Changes(change) => Some(change),
                OnTheWay::Streams(text) => {
                    return ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response();
                }
            };
            let mut request = http.request(method, format!("{far}{uri}")).body(body);
            for name in [header::AUTHORIZATION, header::ACCEPT, header::CONTENT_TYPE] {
                request = request.headers(headers.get(&name).map_or_else(HeaderMap::new, |value| {
                    HeaderMap::from_iter([(name.clone(), value.clone())])
                }));
            }
            let answer = request.send().await.expect("an answer of the server");
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut body = answer.bytes().await.expect("the body of the answer").to_vec();
            if let (Some(change), Ok(mut value)) = (change, serde_json::from_slice(&body)) {
                change(&mut value);
                body = value.to_string().into_bytes();
            }
            let mut response: Response = (status, body).into_response();
            let content_type = headers.get(header::CONTENT_TYPE).cloned();
            response
                .headers_mut()
                .extend(content_type.map(|value| (header::CONTENT_TYPE, value)));
            response
        }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    way
}

/// The address of a way to the server. Before a piece of what is sent goes on, `passes` says whether it does; where it does not, the
/// connection ends.
pub(crate) async fn way_of_pieces<P: Future<Output = bool> + Send>(
    server: &TestServer,
    passes: impl Fn(Vec<u8>) -> P + Clone + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let way = format!("http://{}", listener.local_addr().expect("an address"));
    let server = server.address();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let passes = passes.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.expect("the server");
                let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.split(), far.split());
                let asking = async {
                    let mut buffer = vec![0; 16 * 1024];
                    while let Ok(read @ 1..) = near_in.read(&mut buffer).await {
                        let piece = buffer.get(..read).unwrap_or_default();
                        if !passes(piece.to_vec()).await || far_out.write_all(piece).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = asking => {}
                    _ = tokio::io::copy(&mut far_in, &mut near_out) => {}
                }
            });
        }
    });
    way
}
