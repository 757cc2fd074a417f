//! The runs of a mock, and how they come about.
//!
//! The state is behind one lock that is never held over a wait. Who waits looks again whenever something changed.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use countersign_domain::{ExecRequest, IdPart, Ruling, RunId, RunStatus};
use countersign_engine::reply::{EndedRun, RunningRun};
use countersign_runner::output::Captured;
use countersign_sys::clock::{Clock, Ids};

use super::{
    events::{Happened, PlayedEvent, Wanted, beginning, event},
    run::{PlayedRun, text_of},
    script::{Answer, Fault, Rule, Script},
};
use crate::{
    links::Links,
    problem::{Code, Problem},
    short_id,
};

/// What a mock keeps: enough for any test, and bounded.
const MAX_RUNS: usize = 1_000;
const MAX_HEARD: usize = 1_000;
const MAX_FAULTS: usize = 1_000;
/// How long a connection lives on that is to break, or whose server is to go away.
const BREAKS_AFTER: Duration = Duration::from_millis(200);
/// How long a call waits for its run, unless it says so.
const YIELD: Duration = Duration::from_secs(10);

/// A call that a mock got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeardCall {
    /// Its idempotency key.
    pub key: Option<String>,
    /// The run that it made or joined; `None` where it was refused.
    pub run: Option<RunId>,
    /// What went wrong with it, as the script says.
    pub fault: Option<Fault>,
    /// What became of it, in a few words.
    pub outcome: String,
}

/// Something that a mock heard or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Since the mock began.
    pub at: Duration,
    /// The command that it is about.
    pub command: String,
    /// The call; `None` for a stream or a wait that broke, as the script says.
    pub call: Option<HeardCall>,
}

/// One line for people, without a line end.
impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match &self.call {
            Some(call) => call.outcome.as_str(),
            None => "what waited for it was broken",
        };
        write!(f, "{:.1} s  {}  {outcome}", self.at.as_secs_f64(), self.command)
    }
}

/// Who is told of each thing at once.
pub(super) type Listener = Box<dyn Fn(&Heard) + Send + Sync>;

/// A mock's runs; cheap to share.
#[derive(Clone)]
pub struct MockPlay(pub(super) Arc<Play>);

impl fmt::Debug for MockPlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockPlay").finish_non_exhaustive()
    }
}

impl MockPlay {
    /// What it heard of a command, in order.
    pub fn heard(&self, command: &str) -> Vec<Heard> {
        let state = self.0.state();
        let of_it = state.heard.iter().filter(|heard| heard.command == command);
        of_it.cloned().collect()
    }

    /// How many runs a command had.
    pub fn runs(&self, command: &str) -> usize {
        let state = self.0.state();
        let of_it = |played: &&PlayedRun| text_of(&played.run.command) == command;
        state.runs.iter().filter(of_it).count()
    }
}

pub(super) struct Play {
    script: Script,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    links: Links,
    begun: Instant,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    /// Tells the server to go away for a while.
    restart: mpsc::Sender<()>,
    listener: Listener,
}

#[derive(Default)]
struct State {
    runs: Vec<PlayedRun>,
    by_key: HashMap<String, Keyed>,
    events: Vec<PlayedEvent>,
    heard: VecDeque<Heard>,
    /// How often a command met the fault of its rule.
    faults: HashMap<(usize, String), u32>,
}

struct Keyed {
    body: [u8; 32],
    index: usize,
}

/// A call of the API.
pub(super) struct Call {
    pub(super) request: ExecRequest,
    /// The idempotency key, with the digest of the body.
    pub(super) key: Option<(String, [u8; 32])>,
    /// How long the caller waits for a person.
    pub(super) question_wait: Duration,
    /// How long it waits for the end where it does not want the usual.
    pub(super) run_wait: Option<Duration>,
}

/// What a call is answered.
pub(super) enum Played {
    Ended(Box<EndedRun>, Ruling),
    Running(Box<RunningRun>),
    Pending {
        played: Box<PlayedRun>,
        joined: bool,
    },
    /// Nothing: the connection breaks.
    HangUp,
}

/// A run that a call made or joined.
struct Admitted {
    index: usize,
    joined: bool,
    fault: Option<Fault>,
}

impl Play {
    pub(super) fn new(
        script: Script,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
        links: Links,
        (restart, listener): (mpsc::Sender<()>, Listener),
    ) -> Self {
        Self {
            script,
            clock,
            ids,
            links,
            begun: Instant::now(),
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            restart,
            listener,
        }
    }

    pub(super) const fn links(&self) -> &Links {
        &self.links
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call and plays it as far as its caller waits.
    pub(super) async fn call(self: &Arc<Self>, call: Call) -> Result<Played, Problem> {
        let Call {
            request,
            key,
            question_wait,
            run_wait,
        } = call;
        let (background, yields) = (request.background, request.yield_after);
        let Admitted { index, joined, fault } = self.admit(request, key)?;
        match fault {
            Some(Fault::BrokenCall) => {
                tokio::time::sleep(BREAKS_AFTER).await;
                return Ok(Played::HangUp);
            }
            Some(Fault::Restart) => self.go_away(),
            Some(Fault::BrokenStream | Fault::RateLimited) | None => {}
        }
        let asks = |played: &PlayedRun| played.waits();
        if asks(&self.played(index)) && !question_wait.is_zero() && self.cut(index).await {
            return Ok(Played::HangUp);
        }
        let played = self.until(index, question_wait, |played| !asks(played)).await;
        if asks(&played) {
            let played = Box::new(played);
            return Ok(Played::Pending { played, joined });
        }
        let wait = match (background, run_wait) {
            (true, _) => Duration::ZERO,
            (false, Some(wait)) => wait,
            (false, None) => yields.unwrap_or(YIELD),
        };
        if !wait.is_zero() && self.cut(index).await {
            return Ok(Played::HangUp);
        }
        let played = self
            .until(index, wait, |played| played.run.status.is_final())
            .await;
        if background && played.run.started_at.is_some() || !played.run.status.is_final() {
            return Ok(Played::Running(Box::new(RunningRun {
                run: self.to_background(index),
                tail: String::new(),
                warnings: Vec::new(),
                joined,
            })));
        }
        let ended = EndedRun {
            output: self.output_of(&played),
            run: played.run,
            warnings: Vec::new(),
            joined,
        };
        Ok(Played::Ended(Box::new(ended), played.ruling))
    }

    /// Finds the run of a call, or makes one.
    fn admit(
        self: &Arc<Self>,
        request: ExecRequest,
        key: Option<(String, [u8; 32])>,
    ) -> Result<Admitted, Problem> {
        let command = text_of(&request.command);
        let rule = self.script.rule_for(&command);
        let named = key.as_ref().map(|(key, _)| key.clone());
        let tell = |run: Option<RunId>, fault: Option<Fault>, outcome: String| {
            let call = HeardCall {
                key: named.clone(),
                run,
                fault,
                outcome,
            };
            self.hear(command.clone(), Some(call));
        };
        let Some((number, rule)) = rule else {
            tell(None, None, "refused: no rule of the script fits it".to_owned());
            return Err(
                Problem::new(Code::ExecDenied, "no rule of the mock's script fits this command")
                    .with(|body| body.reason = Some("allowlist-miss".into())),
            );
        };
        let found = self.find(&request, key.as_ref());
        let fault = match found {
            // A call that joins meets what happens to calls, not what happens to their runs.
            Ok(Some(_)) => self.meet(rule, number, &command, |fault| fault != Fault::Restart),
            Ok(None) => self.meet(rule, number, &command, |_| true),
            Err(_) => None,
        };
        if fault == Some(Fault::RateLimited) {
            tell(None, fault, "429 rate-limited, Retry-After: 1".to_owned());
            return Err(Problem::limited(countersign_ledger::auth::Limited {
                retry_after: Duration::from_secs(1),
                policy: countersign_ledger::auth::Policy {
                    name: "token",
                    quota: 1,
                    window: 1,
                },
            }));
        }
        match found {
            Err(problem) => {
                tell(None, None, "422 idempotency-mismatch".to_owned());
                Err(problem)
            }
            Ok(Some(index)) => {
                let joined = key.is_none();
                tell(Some(self.id(index)), fault, "joins its run".to_owned());
                Ok(Admitted { index, joined, fault })
            }
            Ok(None) => {
                let index = self.begin(request, key, (number, rule))?;
                tell(Some(self.id(index)), fault, format!("rule {number}: {rule}"));
                Ok(Admitted {
                    index,
                    joined: false,
                    fault,
                })
            }
        }
    }

    /// The run that a call joins.
    fn find(
        &self,
        request: &ExecRequest,
        key: Option<&(String, [u8; 32])>,
    ) -> Result<Option<usize>, Problem> {
        let state = self.state();
        let Some((key, body)) = key else {
            let asked = state.runs.iter().position(|played| played.is_asked_by(request));
            return Ok(asked.filter(|_| request.joining == countersign_domain::Joining::Joins));
        };
        match state.by_key.get(key) {
            Some(known) if known.body == *body => Ok(Some(known.index)),
            Some(_) => Err(Problem::new(
                Code::IdempotencyMismatch,
                "this key was used with another body",
            )),
            None => Ok(None),
        }
    }

    /// Whether a command meets the fault of its rule once more.
    fn meet(
        &self,
        rule: &Rule,
        number: usize,
        command: &str,
        counts: impl Fn(Fault) -> bool,
    ) -> Option<Fault> {
        let fault = rule.fault.filter(|fault| counts(*fault))?;
        if fault == Fault::BrokenStream {
            // What waits for the run meets it.
            return None;
        }
        let mut state = self.state();
        if state.faults.len() >= MAX_FAULTS {
            return None;
        }
        let met = state.faults.entry((number, command.to_owned())).or_default();
        if *met >= rule.times {
            return None;
        }
        *met += 1;
        Some(fault)
    }

    fn begin(
        self: &Arc<Self>,
        request: ExecRequest,
        key: Option<(String, [u8; 32])>,
        (number, rule): (usize, &Rule),
    ) -> Result<usize, Problem> {
        let now = self.clock.now();
        let ids = (self.ids.run_id(now), self.ids.approval_id());
        let index = {
            let mut state = self.state();
            if state.runs.len() >= MAX_RUNS {
                return Err(Problem::new(
                    Code::Overloaded,
                    "the mock keeps no more runs; start it again",
                ));
            }
            let index = state.runs.len();
            let joinable = key.is_none();
            state.runs.push(PlayedRun {
                joinable,
                cuts: if rule.fault == Some(Fault::BrokenStream) {
                    rule.times
                } else {
                    0
                },
                ..PlayedRun::new(request, (number, rule), ids, now)
            });
            if let Some((key, body)) = key {
                state.by_key.insert(key, Keyed { body, index });
            }
            for happened in beginning(rule.answer) {
                self.happened(&mut state, index, *happened);
            }
            index
        };
        self.tell_changed();
        if rule.answer != Answer::Refuse {
            let play = Arc::clone(self);
            tokio::spawn(async move { play.live(index, number).await });
        }
        Ok(index)
    }

    /// The life of a run after its beginning.
    async fn live(&self, index: usize, number: usize) {
        let Some(rule) = self.script.rule(number) else {
            return;
        };
        if rule.asks() {
            tokio::time::sleep(rule.after).await;
            let decided = self.change(index, |played, now| {
                let decided = played.decide(rule, now);
                let denied = played.run.status == RunStatus::Denied;
                match (decided, denied) {
                    (true, true) => &[Happened::Answered, Happened::Denied][..],
                    (true, false) => &[Happened::Answered],
                    (false, _) => &[],
                }
            });
            if !decided {
                return;
            }
        }
        let started = self.change(index, |played, now| {
            if played.start(now) {
                &[Happened::Started]
            } else {
                &[]
            }
        });
        if started {
            tokio::time::sleep(rule.runs_for).await;
            self.change(index, |played, now| {
                if played.end(rule, now) {
                    &[Happened::Finished]
                } else {
                    &[]
                }
            });
        }
    }

    /// Changes a run, and tells of what happened; whether anything did.
    fn change(
        &self,
        index: usize,
        change: impl FnOnce(&mut PlayedRun, countersign_domain::UnixMillis) -> &'static [Happened],
    ) -> bool {
        let now = self.clock.now();
        let happened = {
            let mut state = self.state();
            let Some(played) = state.runs.get_mut(index) else {
                return false;
            };
            let happened = change(played, now);
            for one in happened {
                self.happened(&mut state, index, *one);
            }
            happened
        };
        self.tell_changed();
        !happened.is_empty()
    }

    fn happened(&self, state: &mut State, index: usize, happened: Happened) {
        let seq = u64::try_from(state.events.len())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let about = (self.clock.now(), &self.links);
        let told = state
            .runs
            .get(index)
            .map(|played| event(seq, played, happened, about));
        state.events.extend(told);
    }

    fn tell_changed(&self) {
        self.changed
            .send_modify(|version| *version = version.wrapping_add(1));
    }

    /// Calls a run off.
    pub(super) fn cancel(&self, index: usize) -> Result<PlayedRun, Problem> {
        let cancelled = self.change(index, |played, now| {
            let asked = played.waits();
            match (played.cancel(now), asked) {
                (true, true) => &[Happened::Answered, Happened::Finished][..],
                (true, false) => &[Happened::Finished],
                (false, _) => &[],
            }
        });
        if cancelled {
            Ok(self.played(index))
        } else {
            Err(Problem::new(Code::RunEnded, "the run has ended"))
        }
    }

    /// A run that exists.
    pub(super) fn played(&self, index: usize) -> PlayedRun {
        let state = self.state();
        state.runs.get(index).cloned().expect("runs are never removed")
    }

    fn id(&self, index: usize) -> RunId {
        self.played(index).run.id
    }

    /// The output of a run as far as it has ended.
    pub(super) fn output_of(&self, played: &PlayedRun) -> Captured {
        let rule = self.rule_of(played).filter(|_| played.run.exit_code.is_some());
        rule.map(|rule| rule.output.text.clone()).unwrap_or_default()
    }

    /// The exact output of a run as a spool has it.
    pub(super) fn frames_of(&self, played: &PlayedRun) -> bytes::Bytes {
        let rule = self.rule_of(played).filter(|_| played.run.exit_code.is_some());
        rule.map(|rule| rule.output.frames.clone()).unwrap_or_default()
    }

    fn rule_of(&self, played: &PlayedRun) -> Option<&Rule> {
        self.script.rule(played.rule)
    }

    /// The run with an id, or with a unique part of one.
    pub(super) fn index_of(&self, id: &RunId) -> Result<usize, Problem> {
        let state = self.state();
        let ids = || state.runs.iter().map(|played| &played.run.id);
        let named = match IdPart::of(id.as_str()) {
            None => id.clone(),
            Some(part) => {
                let fitting = ids().filter(|known| part.is_of(known.as_str()));
                short_id::one(fitting.take(short_id::MOST_NAMED).cloned().collect(), id.clone())?
            }
        };
        let found = ids().position(|known| *known == named);
        found.ok_or_else(Problem::unknown_run)
    }

    /// All runs, the newest first.
    pub(super) fn newest_first(&self) -> Vec<PlayedRun> {
        self.state().runs.iter().rev().cloned().collect()
    }

    /// Waits until a run is as wanted, or the time is over.
    pub(super) async fn until(
        &self,
        index: usize,
        wait: Duration,
        reached: impl Fn(&PlayedRun) -> bool,
    ) -> PlayedRun {
        let mut changes = self.changed.subscribe();
        let give_up = Instant::now() + wait;
        loop {
            let played = self.played(index);
            if reached(&played) {
                return played;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(give_up) => return self.played(index),
                // It cannot be closed: the play, which has the sender, is borrowed here.
                _ = changes.changed() => {}
            }
        }
    }

    /// Whether what waits for a run is to break now, which takes a moment.
    pub(super) async fn cut(&self, index: usize) -> bool {
        if !self.takes_cut(index) {
            return false;
        }
        tokio::time::sleep(BREAKS_AFTER).await;
        true
    }

    /// The same without the moment.
    pub(super) fn takes_cut(&self, index: usize) -> bool {
        let command = {
            let mut state = self.state();
            let played = state.runs.get_mut(index).filter(|played| played.cuts > 0);
            let Some(played) = played else { return false };
            played.cuts -= 1;
            text_of(&played.run.command)
        };
        self.hear(command, None);
        true
    }

    /// The next events behind a number, and the run of each.
    pub(super) fn events_after(&self, seq: u64, wanted: &Wanted, most: usize) -> Vec<PlayedEvent> {
        let state = self.state();
        let behind = usize::try_from(seq).unwrap_or(usize::MAX);
        let events = state
            .events
            .iter()
            .skip(behind)
            .filter(|event| wanted.takes(event));
        events.take(most).cloned().collect()
    }

    /// The number of the newest event.
    pub(super) fn newest_event(&self) -> u64 {
        u64::try_from(self.state().events.len()).unwrap_or(u64::MAX)
    }

    /// Something to wait for changes with.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn to_background(&self, index: usize) -> countersign_domain::Run {
        let session = self.ids.random().simple().to_string().chars().take(8).collect();
        let mut state = self.state();
        let played = state.runs.get_mut(index).expect("runs are never removed");
        played.run.background = true;
        played.run.session_id.get_or_insert(session);
        played.run.clone()
    }

    fn go_away(self: &Arc<Self>) {
        let restart = self.restart.clone();
        tokio::spawn(async move {
            tokio::time::sleep(BREAKS_AFTER).await;
            if restart.try_send(()).is_err() {
                tracing::debug!("the mock is away already");
            }
        });
    }

    fn hear(&self, command: String, call: Option<HeardCall>) {
        let heard = Heard {
            at: self.begun.elapsed(),
            command,
            call,
        };
        (self.listener)(&heard);
        let mut state = self.state();
        if state.heard.len() >= MAX_HEARD {
            state.heard.pop_front();
        }
        state.heard.push_back(heard);
    }
}
