//! One connection, from its first byte to its last.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{MissedTickBehavior, interval_at, timeout},
};

use countersign_domain::Secret;
use countersign_protocol::bridge::{
    Challenge, Close, Event, Frame, HelloAuth, HelloOk, MAX_FRAME_BEFORE_HELLO, OUR_CAPABILITY, POLICY,
    Protocol, RESTART, Refusal, Request, Role, SHUTDOWN_EVENT, TICK_EVENT, TICK_TIMEOUT,
};

use super::{
    handshake::{self, Node, Welcome},
    node_session::NodeSession,
    operator::{Grant, OperatorSession},
    outbox::{Next, Outbox},
    registry::{NewLive, NotEntered},
    server::{Bridge, Caller},
    socket::{Received, Receiver, Sender, Unproven},
};

/// Longest frame of an operator, where the settings allow more: documents are the largest that one sends, and at
/// every other entry point they are smaller still.
const MAX_FRAME_OF_OPERATOR: usize = 4 * 1024 * 1024;
/// How long a peer gets to take what is left and to close, too.
const CLOSING: Duration = Duration::from_secs(2);
/// A peer that shows no sign of life for so many ticks is gone. It answers a ping at every one.
const DEAD_AFTER_TICKS: u32 = 3;
/// And never sooner than this, so that a machine out of breath loses nobody.
const DEAD_AFTER_LEAST: Duration = Duration::from_secs(15);

enum Session {
    Node(NodeSession),
    Operator(Arc<OperatorSession>),
}

/// Why a peer never got in.
enum NotIn {
    Gone,
    Closed(Close),
    Refused(String, Refusal),
}

impl Bridge {
    /// Serves one connection, until it ends. The stream is a WebSocket whose upgrade was answered.
    pub async fn serve<S>(self: Arc<Self>, stream: S, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        run(&self, stream, caller).await;
    }
}

/// Serves a connection to its end.
async fn run<S>(bridge: &Arc<Bridge>, stream: S, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let settings = bridge.hub.settings.current();
    let limits = &settings.server.bridge;
    let mut socket = Unproven::begin(stream).await;
    let outbox = Outbox::new(limits.max_buffer_bytes);
    let greeted = {
        let greeting = timeout(limits.handshake_timeout, greet(bridge, &mut socket, &caller));
        tokio::select! {
            biased;
            () = bridge.stopping.cancelled() => Err(NotIn::Closed(Close::new(RESTART, "service restart"))),
            greeted = greeting => {
                greeted.unwrap_or_else(|_elapsed| Err(NotIn::Closed(Close::new(POLICY, "handshake timeout"))))
            }
        }
    };
    // Outside of the time limit: a peer that has entered is attended to, and leaves again.
    let entered = match greeted {
        Ok((request, welcome)) => enter(bridge, &request, welcome, &outbox).await,
        Err(not_in) => Err(not_in),
    };
    match entered {
        Ok(session) => {
            let (sender, receiver) = socket
                .proven(longest_frame(limits.max_frame_bytes, session.role()))
                .await;
            attend(bridge, session, sender, receiver, &outbox).await;
        }
        Err(NotIn::Gone) => {}
        Err(NotIn::Closed(close)) => turn_away(socket, None, close).await,
        Err(NotIn::Refused(id, refusal)) => {
            bridge.hub.stats.refused(&refusal);
            tracing::info!(reason = refusal.label(), "a connection to the Bridge was refused");
            let error = Request::new(id, "connect", serde_json::Value::Null).fail(refusal.error());
            turn_away(socket, Some(Frame::from(error).to_text()), refusal.close()).await;
        }
    }
    outbox.end();
    drop(caller);
}

async fn turn_away<S>(mut socket: Unproven<S>, last: Option<String>, close: Close)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ending = async {
        if let Some(last) = last
            && !socket.send(last).await
        {
            return;
        }
        socket.close(close).await;
    };
    // A peer that does not take it is left.
    drop(timeout(CLOSING, ending).await);
}

/// Challenges a peer, and hears what it wants to be.
async fn greet<'b, S>(
    bridge: &'b Arc<Bridge>,
    socket: &mut Unproven<S>,
    caller: &Caller,
) -> Result<(Request, Welcome<'b>), NotIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let challenge = Challenge {
        nonce: bridge.ids.random().to_string(),
        ts: Some(bridge.hub.clock.now().get()),
    };
    if !socket.send(Frame::from(challenge.to_event()).to_text()).await {
        return Err(NotIn::Gone);
    }
    let request = first_request(socket).await?;
    match handshake::verify(bridge, &request, &challenge, caller).await {
        Ok(welcome) => Ok((request, welcome)),
        Err(refusal) => Err(NotIn::Refused(request.id, refusal)),
    }
}

/// Takes a peer in. Its `hello-ok` waits in the outbox, before anything else that it is told.
async fn enter(
    bridge: &Arc<Bridge>,
    request: &Request,
    welcome: Welcome<'_>,
    outbox: &Outbox,
) -> Result<Session, NotIn> {
    match welcome {
        Welcome::Operator(protocol, grant) => {
            let scopes = grant.scopes();
            let hello = hello(bridge, protocol, Role::Operator, scopes, None);
            outbox.send(request.succeed(hello.to_value()).into());
            let session = OperatorSession::begin(bridge, grant, outbox.clone());
            Ok(Session::Operator(session))
        }
        Welcome::Node(node) => {
            let Node {
                paired,
                protocol,
                generation,
                token,
                changes,
            } = *node;
            let hello = hello(bridge, protocol, Role::Node, Vec::new(), token);
            outbox.send(request.succeed(hello.to_value()).into());
            let connection = bridge.hub.next_connection();
            let node_id = paired.node_id.clone();
            let live = NewLive {
                connection,
                generation,
                connected_at: bridge.hub.clock.now(),
                outbox: outbox.clone(),
            };
            let entered = bridge.hub.enter(paired, live).await;
            drop(changes);
            // What waits in the outbox has not left: nobody sends it yet.
            entered.map_err(|not| {
                let refusal = match not {
                    NotEntered::NotPaired => Refusal::Token,
                    NotEntered::Full => Refusal::Full { what: "nodes" },
                };
                NotIn::Refused(request.id.clone(), refusal)
            })?;
            Ok(Session::Node(NodeSession {
                hub: Arc::clone(&bridge.hub),
                node_id,
                connection,
            }))
        }
    }
}

async fn first_request<S>(socket: &mut Unproven<S>) -> Result<Request, NotIn>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match socket.receive().await {
            Received::Sign => {}
            Received::Gone => return Err(NotIn::Gone),
            Received::Refused(close) => return Err(NotIn::Closed(close)),
            Received::Text(text) => {
                return match Frame::parse(&text, MAX_FRAME_BEFORE_HELLO) {
                    Ok(Frame::Request(request)) => Ok(request),
                    // There is nothing to answer to.
                    Ok(Frame::Response(_) | Frame::Event(_)) | Err(_) => {
                        Err(NotIn::Closed(Refusal::NotConnect.close()))
                    }
                };
            }
        }
    }
}

fn hello(
    bridge: &Bridge,
    protocol: Protocol,
    role: Role,
    scopes: Vec<String>,
    token: Option<Secret>,
) -> HelloOk {
    let settings = bridge.hub.settings.current();
    let limits = &settings.server.bridge;
    let now = bridge.hub.clock.now();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let (methods, events): (Vec<String>, Vec<String>) = match role {
        Role::Node => (owned(NodeSession::METHODS), owned(NodeSession::EVENTS)),
        Role::Operator => (owned(&Grant::methods()), owned(Grant::events())),
    };
    HelloOk {
        protocol: protocol.number(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        connection_id: bridge.ids.random().to_string(),
        methods,
        events,
        capabilities: vec![OUR_CAPABILITY.to_owned()],
        uptime_ms: millis(now.since(bridge.began)),
        auth: HelloAuth {
            issued_at_ms: token.as_ref().map(|_token| now.get()),
            device_token: token.map(|token| token.expose().to_owned()),
            role: role.as_str().to_owned(),
            scopes,
        },
        max_payload: i64::try_from(longest_frame(limits.max_frame_bytes, role)).unwrap_or(i64::MAX),
        max_buffered_bytes: i64::try_from(limits.max_buffer_bytes).unwrap_or(i64::MAX),
        tick_interval_ms: millis(limits.tick),
    }
}

/// Sends and receives until either ends, then says goodbye.
async fn attend<S>(
    bridge: &Arc<Bridge>,
    session: Session,
    mut sender: Sender<S>,
    mut receiver: Receiver<S>,
    outbox: &Outbox,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let role = session.role();
    bridge.hub.stats.entered(role);
    let tick = bridge.hub.settings.current().server.bridge.tick;
    let mut writing = pin!(write(bridge, &mut sender, outbox, tick).fuse());
    let reason = tokio::select! {
        reason = read(bridge, &session, &mut receiver, outbox, tick) => reason,
        () = writing.as_mut() => "gone",
    };
    session.end(reason).await;
    let farewell = async {
        if outbox.is_closed() {
            writing.await;
            while receiver.receive().await != Received::Gone {}
        }
    };
    drop(timeout(CLOSING, farewell).await);
    bridge.hub.stats.left(role);
}

impl Session {
    const fn role(&self) -> Role {
        match self {
            Self::Node(_) => Role::Node,
            Self::Operator(_) => Role::Operator,
        }
    }

    fn handle(&self, request: Request, bytes: usize, outbox: &Outbox) {
        match self {
            Self::Node(node) => {
                outbox.send(node.answer(request).into());
            }
            Self::Operator(operator) => operator.handle(request, bytes),
        }
    }

    async fn end(&self, reason: &str) {
        match self {
            Self::Node(node) => node.hub.leave(&node.node_id, node.connection, reason).await,
            Self::Operator(_) => {}
        }
    }
}

/// Sends what waits, ticks and pings, until the connection closes.
async fn write<S>(bridge: &Bridge, sender: &mut Sender<S>, outbox: &Outbox, tick: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ticks = interval_at(tokio::time::Instant::now() + tick, tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            next = outbox.next() => next,
            _at = ticks.tick() => {
                let ts = bridge.hub.clock.now().get();
                outbox.send(Event::new(TICK_EVENT, json!({"ts": ts})).into());
                if !sender.ping().await {
                    return;
                }
                continue;
            }
        };
        match next {
            Next::Close(close) => {
                sender.close(close).await;
                return;
            }
            Next::Text(text) => {
                let length = text.len();
                let wait_end = async {
                    outbox.closed().await;
                    tokio::time::sleep(CLOSING).await;
                };
                let is_sent = tokio::select! {
                    is_sent = sender.text(text) => is_sent,
                    () = wait_end => false,
                };
                if !is_sent {
                    return;
                }
                outbox.sent(length);
            }
        }
    }
}

/// Takes in what comes until the connection closes; says why it does.
async fn read<S>(
    bridge: &Bridge,
    session: &Session,
    receiver: &mut Receiver<S>,
    outbox: &Outbox,
    tick: Duration,
) -> &'static str
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let most = bridge.hub.settings.current().server.bridge.max_frame_bytes;
    let longest = longest_frame(most, session.role());
    let dead_after = (tick * DEAD_AFTER_TICKS).max(DEAD_AFTER_LEAST);
    loop {
        let received = tokio::select! {
            biased;
            () = outbox.closed() => return "closed",
            () = bridge.stopping.cancelled() => {
                let payload = json!({"reason": "service restart"});
                outbox.send(Event::new(SHUTDOWN_EVENT, payload).into());
                outbox.close(RESTART, "service restart");
                return "server stops";
            }
            received = timeout(dead_after, receiver.receive()) => received,
        };
        match received {
            Err(_elapsed) => {
                outbox.close(TICK_TIMEOUT, "tick timeout");
                return "no sign of life";
            }
            Ok(Received::Sign) => {}
            Ok(Received::Gone) => return "gone",
            Ok(Received::Refused(close)) => {
                outbox.close(close.code, &close.reason);
                return "broken frame";
            }
            Ok(Received::Text(text)) => match Frame::parse(&text, longest) {
                Ok(Frame::Request(request)) => session.handle(request, text.len(), outbox),
                // Nothing here asks anything, so these answer nothing; they change nothing.
                Ok(Frame::Response(_) | Frame::Event(_)) => {}
                Err(_not_a_frame) => {
                    outbox.close(POLICY, "invalid request frame");
                    return "broken frame";
                }
            },
        }
    }
}

/// The longest frame that a peer may send in this role, of what the settings allow anybody.
fn longest_frame(most: usize, role: Role) -> usize {
    match role {
        Role::Node => most,
        Role::Operator => most.min(MAX_FRAME_OF_OPERATOR),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
