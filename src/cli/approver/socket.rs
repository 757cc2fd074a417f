//! `countersign approver --socket`: the UI at the approvals socket, at this terminal and without a server.
//!
//! It asks the person in front of it and runs nothing: a program that wants a command run here is told that this UI only
//! answers questions. The record of such answers is the asker's to keep.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use countersign_config::{
    approvals::{document::Document, store::DocumentStore},
    settings::{Server, Settings, SettingsStore, StartOptions},
};
use countersign_domain::{ApprovalDecision, Ask, Secret, SessionKey, UnixMillis};
use countersign_engine::socket::SocketCounts;
use countersign_nodes::ipc::{Answered, Host, HostLimits, Hosted, SocketFileError, Ui};
use countersign_policy::command::prompt::Prompt;
use countersign_protocol::ipc::{ExecOrder, Question, Refusal};
use countersign_sys::clock::{Clock, Ids as _, SystemIds};
use countersign_wire::{event::ApprovalEvent, shown::Shown};

use super::{
    Ends, Seat, TICK,
    desk::Desk,
    full_screen, lines,
    state::{Asked, Deed, slug},
    terminal::Terminal,
};

use crate::cli::{context::Context, exit::ExitStatus, failure::Failure, table::Table, value};

/// Questions that wait for the terminal to take them up.
const QUEUE: usize = 64;

/// Hosts the socket until the person leaves.
pub(super) async fn run(
    context: &Context,
    path: PathBuf,
    plain: bool,
    rings: bool,
) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    state_dir
        .prepare()
        .map_err(|error| Failure::new("state-dir", error.to_string()).exit(ExitStatus::CONFIG))?;
    let settings = SettingsStore::load(
        state_dir.clone(),
        &StartOptions::default(),
        Arc::clone(&context.environment),
    )
    .map_err(|problems| {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        Failure::new("config", first)
            .exit(ExitStatus::CONFIG)
            .hint("countersign doctor")
    })?;
    let settings = settings.current();
    let ids = Arc::new(SystemIds);
    let documents = Arc::new(DocumentStore::open(
        state_dir.document(&settings.server),
        state_dir.home().unwrap_or_else(|| Path::new("/")).to_owned(),
        Arc::clone(&context.clock),
        Arc::<SystemIds>::clone(&ids),
    ));
    let path = std::path::absolute(path)?;
    let (hosted, listener) = Hosted::bind(&path, &*context.clock).map_err(|error| not_hosted(&error))?;
    documents
        .socket_token()
        .map_err(|error| Failure::new("approvals-document", error.to_string()).hint("countersign doctor"))?;
    let (sender, news) = mpsc::channel(QUEUE);
    let ui = TerminalUi {
        news: sender,
        documents,
        settings: Arc::clone(&settings),
        clock: Arc::clone(&context.clock),
    };
    let clock = Arc::clone(&context.clock);
    let host = Host::new(ui, (clock, ids), &hosted, Arc::new(SocketCounts::default()));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(host.serve(listener, stop.clone()));
    let terminal = Terminal::open()
        .map_err(|error| Failure::new("terminal", format!("the terminal cannot be used: {error}")))?;
    let place = value::visible(&hosted.path().display().to_string());
    let said = format!("answering at {place}; q leaves");
    let left = match Seat::of(context, &terminal, plain, rings) {
        Seat::Lines => {
            let mut desk = lines(context, &terminal);
            desk.say(&said)?;
            Answering::new(context, desk, terminal).serve(news).await
        }
        Seat::Full { rings } => {
            let mut desk = full_screen(context, &terminal, rings)?;
            desk.say(&said)?;
            Answering::new(context, desk, terminal).serve(news).await
        }
    };
    // Who still waits is told no before the socket goes.
    stop.cancel();
    drop(serving.await);
    drop(hosted);
    left
}

fn not_hosted(error: &SocketFileError) -> Failure {
    let failure = Failure::new("approvals-socket", error.to_string());
    let advice = match error {
        SocketFileError::Hosted => {
            return failure.hint(
                "countersign approver   (a server hosts the socket of its state directory, unless countersign.toml says \
                 [ipc] role = \"client\")",
            );
        }
        SocketFileError::TooLong(_) | SocketFileError::Relative => "name a short absolute path",
        SocketFileError::Directory(_)
        | SocketFileError::Exposed(_)
        | SocketFileError::Ancestor(_)
        | SocketFileError::InTheWay(_)
        | SocketFileError::ForeignLock(_)
        | SocketFileError::Missing
        | SocketFileError::Io { .. } => "name a path in a directory of yours with mode 0700",
    };
    failure.advice(advice)
}

/// What a peer does.
enum News {
    Asked {
        asked: Box<Asked>,
        answer: oneshot::Sender<ApprovalDecision>,
    },
    /// It does not wait any more.
    Gone(String),
}

/// Hands questions to the terminal.
struct TerminalUi {
    news: mpsc::Sender<News>,
    documents: Arc<DocumentStore>,
    settings: Arc<Settings>,
    clock: Arc<dyn Clock>,
}

impl Ui for TerminalUi {
    fn token(&self) -> Option<Secret> {
        self.documents
            .snapshot()
            .document()
            .and_then(Document::socket_token)
            .cloned()
    }

    fn limits(&self) -> HostLimits {
        let Server { ipc, .. } = &self.settings.server;
        HostLimits {
            require_v2: ipc.require_v2,
            rate_limit: ipc.rate_limit,
            rate_burst: ipc.rate_burst,
            max_connections: ipc.max_connections,
        }
    }

    async fn exec(&self, _order: ExecOrder, _gone: CancellationToken) -> Answered {
        Err(
            Refusal::Unavailable("this UI answers questions and runs nothing; countersign serve does both")
                .to_body(),
        )
    }

    async fn ask(&self, question: Question, gone: CancellationToken) -> ApprovalDecision {
        let id = SystemIds.random().to_string();
        let patience = self.settings.server.approvals.timeout;
        let expires_at = self.clock.now() + patience;
        let (answer, answered) = oneshot::channel();
        let asked = shown_question(&id, question, expires_at);
        if self
            .news
            .send(News::Asked {
                asked: Box::new(asked),
                answer,
            })
            .await
            .is_err()
        {
            return ApprovalDecision::Deny;
        }
        let decision = tokio::select! {
            // A terminal that is left denies.
            decision = answered => decision.unwrap_or(ApprovalDecision::Deny),
            () = tokio::time::sleep(patience) => ApprovalDecision::Deny,
            () = gone.cancelled() => ApprovalDecision::Deny,
        };
        // Of one that was answered the terminal knows nothing any more.
        drop(self.news.send(News::Gone(id)).await);
        decision
    }
}

/// A question as one of a server would be shown.
fn shown_question(id: &str, question: Question, expires_at: UnixMillis) -> Asked {
    let Question {
        command,
        cwd,
        host,
        security,
        ask,
        agent_id,
        resolved_path,
        session_key,
        allowed_decisions,
    } = question;
    // Nothing here has read it, so nothing is masked.
    let prompt = Prompt::unmasked(&command);
    let is_open = |decision: &ApprovalDecision| match (decision, &allowed_decisions) {
        (ApprovalDecision::Deny, _) | (ApprovalDecision::AllowOnce, None) => true,
        (ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways, Some(allowed)) => {
            allowed.contains(decision)
        }
        (ApprovalDecision::AllowAlways, None) => ask != Some(Ask::Always),
    };
    let open = ApprovalDecision::ALL.iter().filter(|decision| is_open(decision));
    let open: Vec<ApprovalDecision> = open.copied().collect();
    let mut beside = Table::without_header();
    beside.each("in", &cwd);
    beside.each("file", &resolved_path);
    beside.fact(
        "why",
        "a program asks over the approvals socket; it runs the command itself if it is allowed",
    );
    let agent = agent_id
        .as_ref()
        .map_or_else(|| "a program".to_owned(), ToString::to_string);
    let place = host
        .as_ref()
        .map_or_else(|| "its host".to_owned(), ToString::to_string);
    let directory = cwd.as_ref().map_or_else(String::new, ToString::to_string);
    let session = session_key
        .as_ref()
        .and_then(|session| SessionKey::parse(session).ok());
    let mut facts = Table::without_header();
    facts.each("agentId", agent_id);
    facts.each("sessionKey", session_key);
    facts.each("host", host);
    facts.each("cwd", cwd);
    facts.each("resolvedPath", resolved_path);
    facts.each("security", security);
    facts.each("ask", ask);
    facts.fact("asked by", "approvals socket");
    facts.fact(
        "why",
        "a program asks over the approvals socket; it runs the command itself if it is allowed",
    );
    facts.fact("rule", "asked (asker)");
    facts.each("answers", &open);
    Asked {
        id: id.to_owned(),
        status: "pending".to_owned(),
        command,
        display: Shown {
            truncated: prompt.is_truncated(),
            text: prompt.text,
            spans: Vec::new(),
            warnings: Vec::new(),
        },
        allowed_decisions: open.into_iter().map(Into::into).collect(),
        proposed_patterns: Vec::new(),
        expires_at,
        is_for_groups: false,
        agent,
        host: place,
        cwd: directory,
        session,
        beside: beside.lines(),
        takes_several: false,
        alike: id.to_owned(),
        choices: Vec::new(),
        facts,
    }
}

/// The person at the terminal.
struct Answering<'a, D> {
    context: &'a Context,
    // Before the terminal: its screen goes first.
    desk: D,
    terminal: Terminal,
    answers: HashMap<String, oneshot::Sender<ApprovalDecision>>,
    is_over: bool,
}

impl<'a, D: Desk> Answering<'a, D> {
    fn new(context: &'a Context, desk: D, terminal: Terminal) -> Self {
        Self {
            context,
            desk,
            terminal,
            answers: HashMap::new(),
            is_over: false,
        }
    }

    async fn serve(mut self, mut news: mpsc::Receiver<News>) -> Result<ExitStatus, Failure> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut ends = Ends::listen()?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !self.is_over {
            let now = self.context.clock.now();
            self.desk.show(false, &self.terminal, now)?;
            tokio::select! {
                keys = self.terminal.keys() => match keys? {
                    Some(keys) => {
                        let deeds = self.desk.keys(&keys, self.context.clock.now());
                        self.carry_out(deeds)?;
                    }
                    None => self.is_over = true,
                },
                Some(asked) = news.recv() => self.take(asked)?,
                _ = ticks.tick() => {
                    let deeds = self.desk.tick(self.context.clock.now());
                    self.carry_out(deeds)?;
                }
                _ = resized.recv() => {
                    let deeds = self.desk.resized(self.terminal.screen())?;
                    self.carry_out(deeds)?;
                }
                () = ends.next() => self.is_over = true,
            }
        }
        self.desk.leave();
        Ok(ExitStatus::SUCCESS)
    }

    fn take(&mut self, news: News) -> Result<(), Failure> {
        let now = self.context.clock.now();
        let deeds = match news {
            News::Asked { asked, answer } => {
                self.answers.insert(asked.id.clone(), answer);
                self.desk.asked(*asked, now)
            }
            News::Gone(id) => {
                if self.answers.remove(&id).is_none() {
                    return Ok(());
                }
                let event = ApprovalEvent {
                    approval_id: id,
                    status: "cancelled".to_owned(),
                    ..ApprovalEvent::default()
                };
                self.desk.resolved(&event, now)
            }
        };
        self.carry_out(deeds)
    }

    fn carry_out(&mut self, deeds: Vec<Deed>) -> Result<(), Failure> {
        for deed in deeds {
            match deed {
                Deed::Quit => self.is_over = true,
                Deed::Send(answer) => {
                    let id = answer.id;
                    let decision = answer.decision;
                    let is_taken = self
                        .answers
                        .remove(&id)
                        .is_some_and(|answer| answer.send(decision).is_ok());
                    let what = if is_taken {
                        format!("{}: {decision}", slug(&id))
                    } else {
                        format!("{}: the asker does not wait any more", slug(&id))
                    };
                    let next = self.desk.answered(&id, what, true, self.context.clock.now());
                    self.carry_out(next)?;
                }
                // All that is known of it is here.
                Deed::LookAt(_) => {}
                deed @ (Deed::Card | Deed::Page { .. } | Deed::Say(_) | Deed::Forget | Deed::Bell) => {
                    self.desk.perform(deed, self.context, &self.terminal)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            command: "ls \u{202e}x".to_owned(),
            cwd: None,
            host: None,
            security: None,
            ask: None,
            agent_id: None,
            resolved_path: None,
            session_key: None,
            allowed_decisions: None,
        }
    }

    #[test]
    fn what_is_shown_hides_nothing() {
        let shown = |question| shown_question("0123456789", question, UnixMillis::new(5));
        let all = shown(question());
        assert_eq!(
            (all.display.text.as_str(), all.display.truncated),
            ("ls \\u{202E}x", false)
        );
        assert_eq!(all.allowed_decisions, ApprovalDecision::ALL);
        let blanks = shown(Question {
            command: format!("ls --token abcdefgh{}; rm -rf /", " ".repeat(4_000)),
            ..question()
        });
        assert_eq!(blanks.display.text, "ls --token abcdefgh⟨4000 blanks⟩; rm -rf /");
        let long = shown(Question {
            command: "x".repeat(20_000),
            ask: Some(Ask::Always),
            ..question()
        });
        assert!(long.display.truncated);
        assert_eq!(
            long.allowed_decisions,
            [ApprovalDecision::AllowOnce, ApprovalDecision::Deny]
        );
    }
}
