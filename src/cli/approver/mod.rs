//! `countersign approver`: a person answers at a terminal, key by key.
//!
//! It shows questions as the page does, with everything hidden spelled out, and takes one key for an answer.
//! It must never allow a command that was not all on the screen. The event stream tells of new and ended questions;
//! after a break the list is read again, so nothing is missed. Entry point: [`run`]. Read on: `board.rs` knows what each
//! key does on the full screen, `state.rs` in a terminal that has none, and `socket.rs` answers at the approvals socket
//! without a server.

mod board;
mod choices;
mod desk;
mod layout;
mod pane;
mod panel;
mod picture;
mod screen;
mod socket;
mod state;
pub(super) mod terminal;

use std::{collections::BTreeMap, io, io::IsTerminal as _, path::PathBuf, time::Duration};

use eventsource_stream::Event;
use serde_json::Value;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use self::{
    board::Board,
    desk::{Desk, FullScreen, Lines},
    screen::AltScreen,
    state::{Answer, ApproverState, Asked, Deed, slug},
    terminal::Terminal,
};
use countersign_domain::ApprovalStatus;
use countersign_protocol::ByName;
use countersign_wire::{
    approval::{ApprovalBody, DecidedBody, DecisionBody},
    event::{ApprovalEvent, EventBody},
    sentence,
};

use super::{
    approvals,
    client::{Client, Query},
    console::Tone,
    context::Context,
    discover::Role,
    duration::clock_face,
    exit::ExitStatus,
    failure::Failure,
    question,
    sse::EventStream,
    table::Table,
    value,
};

/// How often the time left is shown, and a server that went away is looked for.
const TICK: Duration = Duration::from_millis(500);
/// Questions that are read at once.
const MOST: usize = 500;

/// Answer questions at this terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign approver
  countersign approver --no-bell
  countersign approver --url http://127.0.0.1:18790
  countersign approver --socket ~/.openclaw/exec-approvals.sock   # without a server

Keys: j k move, space reads on, a allow once, A see what \"always\" would store and then allow always,
d deny (with a reason), x X choose several, Enter all facts, / filter, b bell, ? keys, q quit.
With --plain, and where TERM is dumb: a, A, d, v the full text page by page, n the next one, q.
Nothing is allowed whose command was not all on the screen.")]
pub(crate) struct ApproverArgs {
    /// Host the approvals socket here and answer what is asked there, without a server; runs nothing itself
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one question after the other instead of using the full screen
    #[arg(long)]
    plain: bool,
    /// Do not ring at a new question
    #[arg(long, conflicts_with = "plain")]
    no_bell: bool,
}

/// How the person sits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    Lines,
    Full {
        /// Whether a new question rings.
        rings: bool,
    },
}

impl Seat {
    /// The full screen, unless the terminal has none or is too small for it.
    fn of(context: &Context, terminal: &Terminal, plain: bool, rings: bool) -> Self {
        let has_screens = context
            .environment
            .get("TERM")
            .is_some_and(|name| !name.is_empty() && name != "dumb");
        if !plain && has_screens && terminal.screen().is_large_enough() {
            Self::Full { rings }
        } else {
            Self::Lines
        }
    }
}

fn lines(context: &Context, terminal: &Terminal) -> Lines {
    Lines {
        state: ApproverState::new(context.clock.now(), terminal.screen()),
        console: context.console,
    }
}

fn full_screen(context: &Context, terminal: &Terminal, rings: bool) -> Result<FullScreen, Failure> {
    Ok(FullScreen {
        board: Board::new(context.clock.now(), terminal.screen(), rings),
        screen: AltScreen::enter(context.console)?,
    })
}

/// The signals that end it.
struct Ends([Signal; 4]);

impl Ends {
    fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn next(&mut self) {
        let Self([interrupt, terminate, hangup, quit]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

pub(crate) async fn run(context: &Context, args: ApproverArgs) -> Result<ExitStatus, Failure> {
    let ApproverArgs {
        socket,
        plain,
        no_bell,
    } = args;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage("the approver needs a terminal")
            .hint("countersign approvals watch   (shows what comes; countersign approve ID answers)"));
    }
    if let Some(path) = socket {
        return socket::run(context, path, plain, !no_bell).await;
    }
    let client = context.client(Role::Operator)?;
    // What can be refused is refused before the terminal is taken over.
    let stream = open_stream(&client, None).await?;
    let pending = pending(&client).await?;
    let terminal = Terminal::open()
        .map_err(|error| Failure::new("terminal", format!("the terminal cannot be used: {error}")))?;
    match Seat::of(context, &terminal, plain, !no_bell) {
        Seat::Lines => {
            let desk = lines(context, &terminal);
            Approver::new(context, client, desk, terminal, stream)
                .serve(pending)
                .await
        }
        Seat::Full { rings } => {
            let desk = full_screen(context, &terminal, rings)?;
            Approver::new(context, client, desk, terminal, stream)
                .serve(pending)
                .await
        }
    }
}

async fn open_stream(client: &Client, after: Option<&str>) -> Result<EventStream, Failure> {
    let query: Query = vec![
        (
            "types",
            "exec.approval,exec.finished,exec.denied,events.gap".to_owned(),
        ),
        ("approver", "true".to_owned()),
    ];
    client.events(&query, after).await
}

/// What waits, oldest first.
async fn pending(client: &Client) -> Result<Vec<Asked>, Failure> {
    let query: Query = vec![("status", "pending".to_owned())];
    let pending = client.list(&["v1", "approvals"], &query, MOST).await?;
    Ok(pending.into_iter().rev().filter_map(waiting).collect())
}

/// An approval as the terminal shows it, unless it is over.
fn waiting(approval: ApprovalBody) -> Option<Asked> {
    (approval.status == ApprovalStatus::Pending).then(|| Asked {
        facts: approvals::facts(&approval),
        status: approvals::status(&approval),
        beside: beside(&approval),
        alike: panel::alike(&approval),
        choices: choices::choices(&approval),
        takes_several: approval.approvals_required > 1,
        agent: approval.agent_id.to_string(),
        host: approval.host.to_string(),
        cwd: approval.cwd,
        session: Some(approval.session_key),
        id: approval.id.to_string(),
        command: approval.command,
        display: approval.display,
        allowed_decisions: approval.allowed_decisions,
        proposed_patterns: approval.proposed_patterns,
        expires_at: approval.expires_at_ms,
        is_for_groups: approval.groups.is_some(),
    })
}

/// What a person answers for together with the command.
fn beside(approval: &ApprovalBody) -> Vec<String> {
    let mut table = Table::without_header();
    table.fact("in", &approval.cwd);
    table.each("node", &approval.node_id);
    table.append(&question::variables(approval));
    table.each("input", &approval.input);
    for warning in &approval.display.warnings {
        table.fact("warning", &warning.message);
    }
    table.fact("why", &approval.why.detail);
    table.append(&question::said(approval));
    table.lines()
}

struct Approver<'a, D> {
    context: &'a Context,
    client: Client,
    // Before the terminal: its screen goes first.
    desk: D,
    terminal: Terminal,
    /// `None` while the server cannot be reached.
    stream: Option<EventStream>,
    last_event: Option<String>,
    /// The runs that this person let start, and what was said of the answer.
    allowed: BTreeMap<String, String>,
    is_over: bool,
}

/// So many runs are waited for at once; of more nothing is said.
const MOST_ALLOWED: usize = 1000;

impl<'a, D: Desk> Approver<'a, D> {
    fn new(context: &'a Context, client: Client, desk: D, terminal: Terminal, stream: EventStream) -> Self {
        Self {
            context,
            client,
            desk,
            terminal,
            stream: Some(stream),
            last_event: None,
            allowed: BTreeMap::new(),
            is_over: false,
        }
    }

    async fn serve(mut self, pending: Vec<Asked>) -> Result<ExitStatus, Failure> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut ends = Ends::listen()?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let deeds = self.desk.reload(pending, self.context.clock.now());
        self.carry_out(deeds).await?;
        while !self.is_over {
            self.show()?;
            tokio::select! {
                keys = self.terminal.keys() => match keys? {
                    Some(keys) => {
                        let deeds = self.desk.keys(&keys, self.context.clock.now());
                        self.carry_out(deeds).await?;
                    }
                    None => self.is_over = true,
                },
                event = next_event(&mut self.stream) => self.take_event(event?).await?,
                _ = ticks.tick() => {
                    let deeds = self.desk.tick(self.context.clock.now());
                    self.carry_out(deeds).await?;
                    if self.stream.is_none() {
                        self.reconnect().await?;
                    }
                }
                _ = resized.recv() => {
                    let deeds = self.desk.resized(self.terminal.screen())?;
                    self.carry_out(deeds).await?;
                }
                () = ends.next() => self.is_over = true,
            }
        }
        self.desk.leave();
        Ok(ExitStatus::SUCCESS)
    }

    fn show(&mut self) -> Result<(), Failure> {
        let now = self.context.clock.now();
        self.desk.show(self.stream.is_none(), &self.terminal, now)
    }

    async fn take_event(&mut self, event: Option<Event>) -> Result<(), Failure> {
        let Some(event) = event else {
            self.stream = None;
            return self.desk.say("the connection broke");
        };
        if !event.id.is_empty() {
            self.last_event = Some(event.id);
        }
        if matches!(event.event.as_str(), "exec.finished" | "exec.denied") {
            return self.take_end(&event.data);
        }
        let data: ApprovalEvent = countersign_wire::parse(event.data.as_bytes()).unwrap_or_default();
        match self.take_news(&event.event, &data).await {
            Ok(deeds) => self.carry_out(deeds).await,
            // The event does not come again: what it tells of is in the list that is read with the next connection.
            Err(failure) if failure.is_no_connection() => {
                self.stream = None;
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Says how a run went that this person let start.
    fn take_end(&mut self, event: &str) -> Result<(), Failure> {
        let event: EventBody = countersign_wire::parse(event.as_bytes()).unwrap_or_default();
        let run = event.members.get("runId").and_then(Value::as_str);
        let Some(answer) = run.and_then(|run| self.allowed.remove(run)) else {
            return Ok(());
        };
        // As the list of events says it: `exit 0 in 12 ms`.
        let ended = sentence::of(&event).map(|sentence| sentence.text);
        match ended {
            Some(ended) => self.desk.ended(&answer, &ended),
            None => Ok(()),
        }
    }

    async fn take_news(&mut self, event: &str, data: &ApprovalEvent) -> Result<Vec<Deed>, Failure> {
        // Read once the server has answered: a key is for what was on the screen before.
        let now = || self.context.clock.now();
        Ok(match event {
            "exec.approval.requested" => {
                let asked = self.look_at(&data.approval_id).await?;
                asked.map_or_else(Vec::new, |asked| self.desk.asked(asked, now()))
            }
            "exec.approval.voted" => {
                let asked = match self.look_at(&data.approval_id).await {
                    // Should it not be there, its end is told of next.
                    Err(failure) if !failure.is_no_connection() => None,
                    asked => asked?,
                };
                self.desk.voted(data, asked)
            }
            "exec.approval.resolved" => self.desk.resolved(data, now()),
            "events.gap" => {
                let pending = pending(&self.client).await?;
                self.desk.reload(pending, now())
            }
            _ => Vec::new(),
        })
    }

    /// A question that an event told of, if it still waits: it may have ended and been removed meanwhile.
    async fn look_at(&self, id: &str) -> Result<Option<Asked>, Failure> {
        match self.client.get(&["v1", "approvals", id], &Vec::new()).await {
            Ok(approval) => Ok(waiting(approval)),
            Err(failure) if failure.code == "approval-not-found" => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn reconnect(&mut self) -> Result<(), Failure> {
        let reached = async {
            let stream = open_stream(&self.client, self.last_event.as_deref()).await?;
            Ok((stream, pending(&self.client).await?))
        };
        match reached.await {
            Ok((stream, pending)) => {
                self.stream = Some(stream);
                self.desk.say("connected again")?;
                let deeds = self.desk.reload(pending, self.context.clock.now());
                self.carry_out(deeds).await
            }
            Err(failure) if Failure::is_no_connection(&failure) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn carry_out(&mut self, deeds: Vec<Deed>) -> Result<(), Failure> {
        for deed in deeds {
            match deed {
                Deed::Quit => self.is_over = true,
                Deed::Send(answer) => {
                    self.show()?;
                    let id = answer.id.clone();
                    let Sent {
                        what,
                        is_over,
                        starts,
                    } = self.send(answer).await?;
                    if let Some(run) = starts.filter(|_| self.allowed.len() < MOST_ALLOWED) {
                        self.allowed.insert(run, what.clone());
                    }
                    let now = self.context.clock.now();
                    let next = self.desk.answered(&id, what, is_over, now);
                    Box::pin(self.carry_out(next)).await?;
                }
                Deed::LookAt(id) => {
                    self.show()?;
                    match self.look_at(&id).await {
                        Ok(Some(asked)) => self.desk.looked_at(asked),
                        // The event of its end, or the next connection, tells of it.
                        Ok(None) => {}
                        Err(failure) if failure.is_no_connection() => {}
                        Err(failure) => return Err(failure),
                    }
                }
                deed @ (Deed::Card | Deed::Page { .. } | Deed::Say(_) | Deed::Forget | Deed::Bell) => {
                    self.desk.perform(deed, self.context, &self.terminal)?;
                }
            }
        }
        Ok(())
    }

    /// What became of the answer.
    async fn send(&self, answer: Answer) -> Result<Sent, Failure> {
        let Answer {
            id,
            decision,
            reason,
            rule,
            grant,
        } = answer;
        let id = id.as_str();
        let body = DecisionBody {
            decision,
            reason,
            patterns: rule.map(|rule| vec![ByName(rule)]),
            grant: grant.map(ByName),
            mute: None,
            never: false,
        };
        let slug = slug(id);
        match self
            .client
            .post(&["v1", "approvals", id, "decision"], &body)
            .await
        {
            Ok(DecidedBody {
                applied: true,
                approval,
                ..
            }) => {
                let starts = Some(approval.run_id.to_string())
                    .filter(|_run| approval.status == ApprovalStatus::Allowed);
                let waits = Some(approval)
                    .filter(|approval| approval.status == ApprovalStatus::Pending)
                    .and_then(|approval| question::progress(&approval));
                let more = waits.map_or_else(String::new, |progress| {
                    format!(", allowed by {progress}; it waits for another approver")
                });
                Ok(Sent {
                    what: format!("{slug}: {decision}{more}"),
                    is_over: true,
                    starts,
                })
            }
            Ok(_) => Ok(Sent {
                what: format!("{slug} was already answered the same"),
                is_over: true,
                starts: None,
            }),
            Err(failure) => {
                let is_over = matches!(
                    failure.code.as_str(),
                    "approval-already-resolved"
                        | "approval-expired"
                        | "approval-cancelled"
                        | "approval-not-found"
                );
                // A question for others leaves those that are for this person.
                let is_for_others = self.desk.is_for_groups(id);
                let is_refusal =
                    failure.code == "unauthorized" || (failure.code == "forbidden" && !is_for_others);
                if is_refusal {
                    return Err(failure);
                }
                Ok(Sent {
                    what: format!("{slug}: {}", value::visible(&failure.message)),
                    is_over,
                    starts: None,
                })
            }
        }
    }
}

/// What became of an answer.
struct Sent {
    /// In words.
    what: String,
    /// Whether the question is over.
    is_over: bool,
    /// The run that starts by it.
    starts: Option<String>,
}

fn show_card(context: &Context, state: &ApproverState) -> Result<(), Failure> {
    let console = context.console;
    console.end_progress();
    let Some(front) = state.front() else {
        return Ok(());
    };
    let title = format!("── {} · 1 of {} ──", slug(&front.id), state.count());
    console.line(&console.paint(Tone::Caution, &title))?;
    let mut facts = Table::without_header();
    facts.fact("id", &front.id);
    facts.fact("status", &front.status);
    facts.fact(
        "time left",
        &clock_face(front.expires_at.since(context.clock.now())),
    );
    facts.append(&front.facts);
    console.table(&facts, "")?;
    // Last, so that it stands above the status line however many facts there are.
    console.line(&console.paint(Tone::Dim, "── command ──"))?;
    console.line(&question::shown_whole(&front.display))
}

fn show_page(context: &Context, number: usize, of: usize, text: &str) -> Result<(), Failure> {
    let console = context.console;
    console.end_progress();
    let goes_on = if number < of { ", v goes on" } else { "" };
    let title = format!("── the full text, page {number} of {of}{goes_on} ──");
    console.line(&console.paint(Tone::Dim, &title))?;
    console.line(text)
}

async fn next_event(stream: &mut Option<EventStream>) -> Result<Option<Event>, Failure> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
