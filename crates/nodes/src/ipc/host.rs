//! The side that is asked: connections of the socket, each on its own
//! (`docs/spec/ipc.md#6-what-the-server-checks-in-order`, `docs/spec/ipc.md#7-limits`).

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use countersign_domain::{ApprovalDecision, Secret, UnixMillis, hex};
use countersign_engine::socket::SocketCounts;
use countersign_protocol::ipc::{
    self, ErrorBody, ExecOrder, Handshake, LineOutcome, LineReader, LineVerifier, NonceMemory, Opened,
    Payload, Policy, Question, Refusal, Replies,
};
use countersign_sys::{
    clock::{Clock, Ids},
    peer as sys_peer,
};

use super::{
    limits::Rate,
    peer::{self, Incoming, LINE_TIME},
    socket_file::Hosted,
};

/// How long to wait after the system has no descriptor left for a new connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections over the limit that are taken nevertheless, to be told so.
const MORE: usize = 64;
/// How long one of them may take for its line.
const MORE_TIME: Duration = Duration::from_secs(1);
/// How long lines from before this host count as replayed: as long as a nonce is remembered
/// (`docs/spec/ipc.md#8-beyond-the-product`).
const MEMORY: Duration = Duration::from_secs(20);
/// How many there may be where the settings set no limit.
const MOST: usize = 4096;
/// How long connections may take to be answered once the host stops.
const STOPPING: Duration = Duration::from_secs(3);

/// What the settings say, at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLimits {
    /// The plain form is refused.
    pub require_v2: bool,
    /// New connections per second; 0 for no limit.
    pub rate_limit: u64,
    /// How many of them at once.
    pub rate_burst: u64,
    /// Open connections; 0 for no limit.
    pub max_connections: usize,
}

/// What became of a wish to run something.
pub type Answered = Result<Payload, ErrorBody>;

/// Who answers what is genuine. `gone` is cancelled when the peer disappeared or the host stops: then what is open is
/// withdrawn, what runs is ended, and the future ends soon.
pub trait Ui: Send + Sync + 'static {
    /// The token of the document in force; `None` while there is none, and then nothing is genuine.
    fn token(&self) -> Option<Secret>;

    /// What the settings say.
    fn limits(&self) -> HostLimits;

    /// Runs something, asking a person if policy says so.
    fn exec(&self, order: ExecOrder, gone: CancellationToken) -> impl Future<Output = Answered> + Send;

    /// Asks a person. Without an answer, or once `gone` is cancelled, it gives `Deny`.
    fn ask(
        &self,
        question: Question,
        gone: CancellationToken,
    ) -> impl Future<Output = ApprovalDecision> + Send;
}

/// A host of the socket.
#[derive(Debug)]
pub struct Host<U> {
    ui: U,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    rate: Rate,
    /// When it began to host: earlier lines may have been used already.
    since: UnixMillis,
    /// The same by the clock that nobody sets.
    began: Instant,
    nonces: Mutex<NonceMemory>,
    counts: Arc<SocketCounts>,
}

impl<U: Ui> Host<U> {
    /// A host that accepts nothing yet.
    pub fn new(
        ui: U,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
        hosted: &Hosted,
        counts: Arc<SocketCounts>,
    ) -> Arc<Self> {
        Arc::new(Self {
            ui,
            clock,
            ids,
            rate: Rate::new(),
            since: hosted.since(),
            began: Instant::now(),
            nonces: Mutex::default(),
            counts,
        })
    }

    /// Answers until `stop`; then what is open is withdrawn and told so.
    ///
    /// # Errors
    /// When the listener cannot be used.
    #[crate::compiled_once]
    pub async fn serve(self: Arc<Self>, listener: OwnedFd, stop: CancellationToken) -> io::Result<()> {
        let listener = UnixListener::from_std(listener.into())?;
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.accept(&listener) => accepted,
            };
            match accepted {
                Ok(stream) => {
                    let permit = ConnectionPermit::take(&self.counts);
                    let (host, stop) = (Arc::clone(&self), stop.clone());
                    tasks.spawn(async move { host.attend(stream, permit, stop).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of the approvals socket could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        tasks.close();
        if timeout(STOPPING, tasks.wait()).await.is_err() {
            tracing::warn!("some peers of the approvals socket were not answered in time");
        }
        Ok(())
    }

    /// The next connection. Beyond what can be told that there are too many, they wait in the kernel.
    async fn accept(&self, listener: &UnixListener) -> io::Result<UnixStream> {
        loop {
            let most = match self.ui.limits().max_connections {
                0 => MOST,
                most => most.saturating_add(MORE),
            };
            if self.counts.open.load(Ordering::Acquire) < most {
                let (stream, _address) = listener.accept().await?;
                return Ok(stream);
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    async fn attend(&self, mut stream: UnixStream, permit: ConnectionPermit, stop: CancellationToken) {
        self.counts.connections.inc();
        // Before a byte is read.
        if !sys_peer::is_of(&stream, rustix::process::geteuid().as_raw()) {
            self.counts.foreign.inc();
            tracing::warn!("a peer of another account was refused at the approvals socket");
            let refusal = ipc::peer_refusal(&self.ids.random().to_string());
            return self.finish(stream, &refusal.to_bytes()).await;
        }
        let limits = self.ui.limits();
        let is_over = (limits.max_connections > 0 && permit.number > limits.max_connections)
            || !self.rate.admit(limits.rate_limit, limits.rate_burst);
        let mut reader = LineReader::default();
        // Those that say nothing make room for the next that can be told.
        let within = if is_over { MORE_TIME } else { LINE_TIME };
        let reading = peer::read_line(&mut stream, &mut reader, within);
        let incoming = tokio::select! {
            incoming = reading => incoming,
            () = stop.cancelled() => Incoming::Unfinished,
        };
        let line = match incoming {
            Incoming::Line(line) => line,
            Incoming::Silence | Incoming::Closed => return,
            Incoming::TooLong => return self.refuse(stream, &Replies::too_long()).await,
            Incoming::Unfinished => return self.refuse(stream, &ipc::pair("json")).await,
        };
        if is_over {
            self.counts.limited.inc();
            return self
                .finish(
                    stream,
                    &Replies::to_everything(&line, Refusal::RateLimit).to_bytes(),
                )
                .await;
        }
        let Some(token) = self.ui.token() else {
            // The document was refused meanwhile: nothing can be genuine.
            return self
                .refuse(stream, &Replies::to_everything(&line, Refusal::SecurityDeny))
                .await;
        };
        let outcome = {
            let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
            let mut verifier = LineVerifier {
                token: token.expose(),
                now: self.clock.wall(),
                not_before: self.not_before(),
                nonces: &mut nonces,
                policy: Policy {
                    require_v2: limits.require_v2,
                },
            };
            verifier.verify(&line)
        };
        match outcome {
            LineOutcome::Open(hello) => {
                let (handshake, challenge) =
                    Handshake::open(hello, self.nonce(), token.expose(), self.clock.wall());
                if peer::write(&mut stream, format!("{challenge}\n").as_bytes())
                    .await
                    .is_err()
                {
                    return;
                }
                let ttl = Duration::from_millis(ipc::TTL_MS);
                match peer::read_line(&mut stream, &mut reader, ttl).await {
                    Incoming::Line(second) => {
                        let opened = handshake.verify(&second, token.expose(), self.clock.wall());
                        self.answer_sealed(stream, opened, &token, &stop).await;
                    }
                    Incoming::Silence | Incoming::Closed => {}
                    Incoming::TooLong => self.refuse(stream, &Replies::too_long()).await,
                    Incoming::Unfinished => self.refuse(stream, &ipc::pair("json")).await,
                }
            }
            outcome @ (LineOutcome::Exec { .. } | LineOutcome::Ask { .. } | LineOutcome::Refused(_)) => {
                if let Some(lines) = self.act(&stream, outcome, &stop).await {
                    self.finish(stream, &lines.to_bytes()).await;
                }
            }
        }
    }

    async fn answer_sealed(
        &self,
        stream: UnixStream,
        opened: Opened,
        token: &Secret,
        stop: &CancellationToken,
    ) {
        let (outcome, seal) = opened.into_parts();
        if let Some(lines) = self.act(&stream, outcome, stop).await {
            let sealed: Vec<u8> = lines
                .lines()
                .iter()
                .flat_map(|line| format!("{}\n", seal.seal(line, token.expose())).into_bytes())
                .collect();
            self.finish(stream, &sealed).await;
        }
    }

    /// Does what a line wants and gives the reply; `None` when nobody is there for it any more.
    async fn act(
        &self,
        stream: &UnixStream,
        outcome: LineOutcome,
        stop: &CancellationToken,
    ) -> Option<Replies> {
        let gone = CancellationToken::new();
        let acting = async {
            match outcome {
                LineOutcome::Exec { id, order } => {
                    self.counts.execs.inc();
                    let answered = self.ui.exec(*order, gone.clone()).await;
                    Replies::one(ipc::exec_line(&id, answered.as_ref()))
                }
                LineOutcome::Ask { id, question } => {
                    self.counts.questions.inc();
                    let decision = self.ui.ask(*question, gone.clone()).await;
                    Replies::one(ipc::decision_line(&id, decision))
                }
                LineOutcome::Refused(replies) => {
                    self.counts.refused.inc();
                    replies
                }
                // A connection is opened once.
                LineOutcome::Open(_) => ipc::pair("json"),
            }
        };
        let mut acting = std::pin::pin!(acting);
        tokio::select! {
            replies = acting.as_mut() => return Some(replies),
            () = peer::gone(stream) => {}
            () = stop.cancelled() => {
                gone.cancel();
                return Some(acting.await);
            }
        }
        gone.cancel();
        acting.await;
        tracing::info!("nobody got the answer of the approvals socket: the peer left");
        None
    }

    async fn refuse(&self, stream: UnixStream, replies: &Replies) {
        self.counts.refused.inc();
        self.finish(stream, &replies.to_bytes()).await;
    }

    async fn finish(&self, mut stream: UnixStream, bytes: &[u8]) {
        match peer::write(&mut stream, bytes).await {
            Ok(()) => peer::close(stream).await,
            Err(error) => tracing::info!(%error, "nobody got the answer of the approvals socket"),
        }
    }

    /// A clock that is set back later must not make everything look replayed.
    fn not_before(&self) -> UnixMillis {
        if self.began.elapsed() < MEMORY {
            self.since
        } else {
            UnixMillis::new(i64::MIN)
        }
    }

    fn nonce(&self) -> String {
        let mut bytes = [0; 16];
        self.ids.secret_bytes(&mut bytes);
        hex(&bytes)
    }
}

/// Held while a connection is open.
#[derive(Debug)]
struct ConnectionPermit {
    counts: Arc<SocketCounts>,
    /// How many there are with it.
    number: usize,
}

impl ConnectionPermit {
    fn take(counts: &Arc<SocketCounts>) -> Self {
        Self {
            number: counts.open.fetch_add(1, Ordering::AcqRel) + 1,
            counts: Arc::clone(counts),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::AcqRel);
    }
}
