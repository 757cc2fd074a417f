//! One run and its question, from the request to the end: ledger, server, supervisors, run file
//! (`docs/decisions/0009-exactly-once.md`).
//!
//! The server and its supervisors can be killed between any two steps, and the machine can lose its power, which undoes
//! every commit that was not synced and any part of the run file.

use countersign_domain::{
    Aftermath, Answering, ApprovalDecision, ApprovalStanding, ApprovalStatus, Ask, Ballot, DecidedBy, Exit,
    Expiring, LaunchId, LaunchStanding, Launching, Reason, Recovery, RelaunchStanding, RunLocality,
    RunStatus, Security, TakingBack,
};
use countersign_policy::gate::{
    self, AfterTimeout, Coverage, FallbackVerdict, GateInput, Unanswered, Verdict,
};
use countersign_runner::run_file::{self, Claim, Line, RunFileState, Voiding};
use countersign_sys::process::Process;
use stateright::{Model, Property};

/// When the question's time runs out.
const DEADLINE: u8 = 1;
/// How long after a yes, or after a launch, the start may take.
const START_BY: u8 = 1;
/// The last moment.
const END_OF_TIME: u8 = 3;

/// One thing that the model decides wrongly, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An answer counts after the deadline.
    LateAnswer,
    /// A decision is answered before it is safe from a loss of power.
    UnsyncedAnswer,
    /// A fallback lets a run start before the end of its question is safe from a loss of power.
    UnsyncedFallback,
    /// A launch does not look whether the approval was used up, nor whether the run has its launch.
    SecondUse,
    /// A yes is taken back after its launch.
    LateTakeBack,
    /// A launch does not ask for a yes.
    NoYes,
    /// A person who says yes again counts as another one.
    CountsTwice,
    /// A question found expired by the next server falls back like any other.
    LateFallback,
    /// A supervisor does not look at what the run file says.
    NoFence,
    /// A supervisor does not care who holds the run file.
    NoLock,
    /// After a change of boot, a missing fence counts as proof that nothing started.
    TrustsAbsence,
    /// Recovery says that a run did not start without having made it impossible.
    NoVoid,
    /// A supervisor that lost the fence is believed that nothing started.
    TrustsLoser,
}

/// What may happen in one story.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How often the server is killed.
    pub kills: u8,
    /// How often a supervisor is killed.
    pub deaths: u8,
    /// How often the power fails.
    pub outages: u8,
    /// How often the policy is edited.
    pub edits: u8,
    /// How often the program on disk is exchanged.
    pub swaps: u8,
    /// How often the asker cancels.
    pub cancels: u8,
    /// How often an approver takes a yes back.
    pub take_backs: u8,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// What may happen.
    pub bounds: Bounds,
    /// What is decided wrongly.
    pub fault: Option<Fault>,
    /// Whether the run outlives its caller.
    pub outlives_caller: bool,
    /// How many people have to say yes.
    pub required: u8,
}

/// What the gate said, and what happens if nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct GateVerdict {
    verdict: Word,
    in_time: Word,
    found_expired: Word,
    unreachable: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Word {
    Run,
    Ask,
    Deny,
}

/// The rows of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Rows {
    run: RunStatus,
    reason: Option<Reason>,
    by: Option<DecidedBy>,
    launch: Option<Launch>,
    approval: Option<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Launch {
    epoch: u8,
    boot: u8,
    not_after: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    status: ApprovalStatus,
    decision: Option<ApprovalDecision>,
    decided_at: u8,
    is_consumed: bool,
    /// Who said yes while others were still missing, a bit for each.
    votes: u8,
}

/// What a server has in its memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Server {
    epoch: u8,
    tasks: Vec<Task>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Task {
    /// Launch what was allowed, as judged under this generation of the policy.
    Launch { read: Option<u8> },
    /// End the question, as judged under this generation.
    Expire { read: Option<u8>, is_found: bool },
    /// Order a supervisor: the permit.
    Order,
    /// Hear this supervisor to the end.
    Follow { post: u8 },
    /// Make a run impossible that a supervisor did not start, or find out who did.
    RuleOut,
    /// Look what became of a run of an earlier server.
    Inspect,
    /// It did not start: see to it that it never does.
    Void,
}

/// A supervisor with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Post {
    number: u8,
    epoch: u8,
    stage: Stage,
    is_called_off: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// The order lies in its socket.
    Ordered,
    /// It saw that it is still wanted.
    Willing,
    /// It holds the file.
    Locked,
    /// It wrote the fence.
    Fenced,
    /// The command runs.
    Running,
    /// It wrote the end.
    Exited,
    /// It reported that it started nothing.
    Declined,
    /// It was killed.
    Dead,
}

impl Stage {
    const fn holds_file(self) -> bool {
        matches!(self, Self::Locked | Self::Fenced | Self::Running)
    }

    const fn is_over(self) -> bool {
        matches!(self, Self::Exited | Self::Declined | Self::Dead)
    }
}

/// A line of the run file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mark {
    Fence,
    Exit { killed: bool },
    Void,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct RunFile {
    exists: bool,
    marks: Vec<Mark>,
    /// The last line is not whole.
    is_torn: bool,
}

/// What happened, as only somebody knows who sees everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Truth {
    starts: u8,
    uses: u8,
    /// What the person was told that counts.
    answered: Option<ApprovalDecision>,
    /// Who was told that their yes counts, a bit for each.
    voters: u8,
    /// A fallback let it start.
    fell_back: bool,
    /// A question whose time had run out was found by a later server.
    found_expired: bool,
    /// How often an end was written over another one.
    overwritten: u8,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    boot: u8,
    epoch: u8,
    policy: u8,
    is_swapped: bool,
    judged: GateVerdict,
    rows: Rows,
    /// What is left of the rows when the power fails.
    synced: Rows,
    server: Option<Server>,
    posts: Vec<Post>,
    file: RunFile,
    kills: u8,
    deaths: u8,
    outages: u8,
    edits: u8,
    swaps: u8,
    cancels: u8,
    take_backs: u8,
    truth: Truth,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A moment passes.
    Tick,
    /// The server does a step of its task of this number.
    Do(usize),
    /// The person of this number answers.
    Answer(ApprovalDecision, u8),
    /// The person of this number says yes, and everything that the launch takes was looked at before: both are one
    /// transaction. A look that is out of date by then leaves the launch to be done by itself, as with `Answer`.
    AnswerAtOnce(u8),
    /// The server notices that the question's time ran out.
    NoticeDeadline,
    /// The asker withdraws.
    Cancel,
    /// A person takes a yes back.
    TakeBack,
    /// A supervisor does its next step.
    Supervise(usize),
    /// A supervisor is killed.
    KillSupervisor(usize),
    /// The server is killed.
    Kill,
    /// A server starts.
    Start,
    /// The power fails; this much of the run file is left: lines, and whether a torn one follows.
    Outage(usize, bool),
    /// The policy is edited.
    Edit,
    /// The program is exchanged.
    Swap,
}

impl Protocol {
    fn standing(&self, state: &State) -> Option<ApprovalStanding> {
        state.rows.approval.map(|row| ApprovalStanding {
            status: row.status,
            decision: row.decision,
            is_consumed: row.is_consumed,
            is_remembered: false,
            is_due: state.now >= DEADLINE && self.fault != Some(Fault::LateAnswer),
        })
    }

    fn start(&self, state: &mut State) {
        state.epoch += 1;
        let mut tasks = Vec::new();
        if !state.rows.run.is_final() {
            match countersign_domain::recover(
                state.rows.run,
                state.rows.launch.is_some(),
                self.standing(state),
            ) {
                Recovery::Wait => {}
                Recovery::Expire => {
                    state.truth.found_expired = true;
                    tasks.push(Task::Expire {
                        read: None,
                        is_found: true,
                    });
                }
                Recovery::Launch => tasks.push(Task::Launch { read: None }),
                Recovery::End(reason) => self.end(state, reason),
                Recovery::Inspect => tasks.push(Task::Inspect),
            }
        }
        state.server = Some(Server {
            epoch: state.epoch,
            tasks,
        });
    }

    fn answer(&self, state: &mut State, decision: ApprovalDecision, person: u8) {
        let (Some(standing), Some(row)) = (self.standing(state), state.rows.approval) else {
            return;
        };
        let own = 1_u8 << person;
        let others = if self.fault == Some(Fault::CountsTwice) {
            row.votes
        } else {
            row.votes & !own
        };
        let ballot = Ballot {
            is_entitled: true,
            is_repeated: row.votes & own != 0,
            others: others.count_ones().into(),
            required: self.required.into(),
        };
        match standing.answer(decision, ballot) {
            Answering::Settles => {}
            Answering::Counts => {
                state.rows.approval = Some(Row {
                    votes: row.votes | own,
                    ..row
                });
                if self.fault != Some(Fault::UnsyncedAnswer) {
                    state.synced = state.rows;
                }
                state.truth.voters |= own;
                return;
            }
            Answering::Repeats
            | Answering::NotEntitled
            | Answering::Conflicts
            | Answering::Due
            | Answering::Expired
            | Answering::Cancelled => return,
        }
        let allows = decision != ApprovalDecision::Deny;
        state.rows.approval = Some(Row {
            status: if allows {
                ApprovalStatus::Allowed
            } else {
                ApprovalStatus::Denied
            },
            decision: Some(decision),
            decided_at: state.now,
            is_consumed: false,
            votes: row.votes,
        });
        if allows {
            state.truth.voters |= own;
            advance(&mut state.rows, RunStatus::Requested);
            state.rows.by = Some(DecidedBy::Person);
            add(state, Task::Launch { read: None });
        } else {
            self.end(state, Reason::UserDenied);
        }
        if self.fault != Some(Fault::UnsyncedAnswer) {
            state.synced = state.rows;
        }
        state.truth.answered = Some(decision);
    }

    fn take_back(&self, state: &mut State) {
        let (Some(standing), Some(row)) = (self.standing(state), state.rows.approval) else {
            return;
        };
        let (standing, run) = if self.fault == Some(Fault::LateTakeBack) {
            let unused = ApprovalStanding {
                is_consumed: false,
                ..standing
            };
            (unused, RunStatus::Requested)
        } else {
            (standing, state.rows.run)
        };
        match standing.take_back(run) {
            TakingBack::TakesBack => {}
            TakingBack::TooLate
            | TakingBack::NotAnswered
            | TakingBack::Repeats
            | TakingBack::Expired
            | TakingBack::Cancelled => return,
        }
        state.rows.approval = Some(Row {
            status: ApprovalStatus::Denied,
            decision: Some(ApprovalDecision::Deny),
            ..row
        });
        self.end(state, Reason::UserDenied);
        if self.fault != Some(Fault::UnsyncedAnswer) {
            state.synced = state.rows;
        }
        state.truth.answered = Some(ApprovalDecision::Deny);
    }

    fn launch(&self, state: &mut State, read: Option<u8>) {
        let Some(read) = read else {
            let policy = state.policy;
            return add(state, Task::Launch { read: Some(policy) });
        };
        let (Some(standing), Some(row)) = (self.standing(state), state.rows.approval) else {
            return;
        };
        let (mut standing, mut run) = (standing, state.rows.run);
        match self.fault {
            Some(Fault::SecondUse) => {
                standing.is_consumed = false;
                run = RunStatus::Requested;
            }
            Some(Fault::NoYes) => standing.status = ApprovalStatus::Allowed,
            _ => {}
        }
        let terms = LaunchStanding {
            run,
            start_by_passed: state.now > row.decided_at + START_BY,
            is_current: read == state.policy,
            is_same: !state.is_swapped,
        };
        match standing.launch(terms) {
            Launching::Consumes => {
                let not_after = row.decided_at + START_BY;
                if let Some(row) = &mut state.rows.approval {
                    row.is_consumed = true;
                }
                state.truth.uses += 1;
                self.permit(state, not_after, DecidedBy::Person);
                state.synced = state.rows;
            }
            Launching::Stale => add(state, Task::Launch { read: None }),
            Launching::StartByPassed => self.end(state, Reason::NotStarted),
            Launching::BindingMismatch => self.end(state, Reason::BindingMismatch),
            Launching::AlreadyConsumed | Launching::NotAllowed | Launching::RunEnded => {}
        }
    }

    fn permit(&self, state: &mut State, not_after: u8, by: DecidedBy) {
        if self.fault == Some(Fault::SecondUse) {
            state.rows.run = RunStatus::Launching;
        } else {
            advance(&mut state.rows, RunStatus::Launching);
        }
        state.rows.by = Some(by);
        state.rows.launch = Some(Launch {
            epoch: state.epoch,
            boot: state.boot,
            not_after,
        });
        add(state, Task::Order);
    }

    fn expire(&self, state: &mut State, read: Option<u8>, is_found: bool) {
        let Some(read) = read else {
            let read = Some(state.policy);
            return add(state, Task::Expire { read, is_found });
        };
        let Some(standing) = self.standing(state) else {
            return;
        };
        match standing.expire() {
            Expiring::Expires => {}
            Expiring::NotDue | Expiring::Ended => return,
        }
        let falls_back = if is_found && self.fault != Some(Fault::LateFallback) {
            state.judged.found_expired == Word::Run
        } else {
            state.judged.in_time == Word::Run
        };
        if falls_back && read != state.policy {
            let read = None;
            return add(state, Task::Expire { read, is_found });
        }
        if let Some(row) = &mut state.rows.approval {
            row.status = ApprovalStatus::Expired;
            row.decision = Some(ApprovalDecision::Deny);
        }
        if falls_back && state.is_swapped {
            self.end(state, Reason::BindingMismatch);
        } else if falls_back {
            state.truth.fell_back = true;
            let not_after = state.now + START_BY;
            self.permit(state, not_after, DecidedBy::Fallback);
            if self.fault != Some(Fault::UnsyncedFallback) {
                state.synced = state.rows;
            }
        } else {
            self.end(state, Reason::ApprovalTimeout);
        }
    }

    fn inspect(&self, state: &mut State) {
        let Some(launch) = state.rows.launch else { return };
        let said = said(&state.file);
        let traces = match (&said, said.traces()) {
            (RunFileState::Exited(exit, _), _) => return self.finish(state, exit.killed.is_some()),
            (_, Some(traces)) => traces,
            (_, None) => return,
        };
        let same_boot = launch.boot == state.boot || self.fault == Some(Fault::TrustsAbsence);
        match countersign_domain::after_launch(traces, same_boot) {
            Aftermath::StartAgain if self.relaunch(state, launch) => {
                state.rows.launch = Some(Launch {
                    epoch: state.epoch,
                    boot: state.boot,
                    ..launch
                });
                add(state, Task::Order);
            }
            Aftermath::StartAgain | Aftermath::Void => add(state, Task::Void),
            Aftermath::Lost => self.end(state, Reason::ServerRestart),
        }
    }

    fn relaunch(&self, state: &State, launch: Launch) -> bool {
        self.outlives_caller
            && countersign_domain::relaunch(RelaunchStanding {
                is_of_earlier_server: launch.epoch < state.epoch,
                had_env: false,
                start_by_passed: state.now > launch.not_after,
                is_same: !state.is_swapped,
            })
    }

    /// Makes the run impossible. Whether it is.
    fn void(&self, state: &mut State) -> bool {
        if self.fault == Some(Fault::NoVoid) {
            return true;
        }
        if state.is_locked() {
            return false;
        }
        match said(&state.file).voiding() {
            Voiding::Append => {
                state.file.exists = true;
                state.file.marks.push(Mark::Void);
                true
            }
            Voiding::Nothing => true,
            Voiding::TooLate => false,
        }
    }

    fn rule_out(&self, state: &mut State) {
        if self.void(state) || self.fault == Some(Fault::TrustsLoser) {
            self.end(state, Reason::NotStarted);
            return;
        }
        if state.is_locked() {
            if let Some(post) = state.posts.iter_mut().find(|post| post.stage.holds_file()) {
                // Attached to, and ended.
                post.is_called_off = true;
            }
            return self.end(state, Reason::RunnerLost);
        }
        match said(&state.file) {
            RunFileState::Exited(exit, _) => self.finish(state, exit.killed.is_some()),
            RunFileState::Missing
            | RunFileState::Empty
            | RunFileState::Void
            | RunFileState::Started(_)
            | RunFileState::Torn => self.end(state, Reason::RunnerLost),
        }
    }

    fn follow(&self, state: &mut State, number: u8) {
        let Some(post) = state.posts.iter().find(|post| post.number == number).copied() else {
            // Its stream is closed, and nobody has it any more.
            return add(state, Task::RuleOut);
        };
        match post.stage {
            Stage::Running => {
                advance(&mut state.rows, RunStatus::Running);
                add(state, Task::Follow { post: number });
            }
            Stage::Exited => self.finish(state, post.is_called_off),
            Stage::Declined => add(state, Task::RuleOut),
            Stage::Dead => match said(&state.file) {
                RunFileState::Exited(exit, _) => self.finish(state, exit.killed.is_some()),
                RunFileState::Missing | RunFileState::Empty | RunFileState::Void => add(state, Task::RuleOut),
                RunFileState::Started(_) | RunFileState::Torn => self.end(state, Reason::RunnerLost),
            },
            Stage::Ordered | Stage::Willing | Stage::Locked | Stage::Fenced => {
                add(state, Task::Follow { post: number });
            }
        }
    }

    fn finish(&self, state: &mut State, killed: bool) {
        let end = if killed {
            RunStatus::Cancelled
        } else {
            RunStatus::Completed
        };
        write_end(state, end, None);
    }

    fn end(&self, state: &mut State, reason: Reason) {
        write_end(state, reason.run_status(), Some(reason));
    }

    fn supervise(&self, state: &mut State, at: usize) {
        let Some(post) = state.posts.get(at).copied() else {
            return;
        };
        let is_wanted = !post.is_called_off
            && state
                .server
                .as_ref()
                .is_some_and(|server| server.epoch == post.epoch);
        let held = state
            .posts
            .iter()
            .any(|other| other.number != post.number && other.stage.holds_file());
        let stage = match post.stage {
            Stage::Ordered if is_wanted => Stage::Willing,
            Stage::Ordered => Stage::Declined,
            Stage::Willing => {
                let got_lock = !held || self.fault == Some(Fault::NoLock);
                let is_empty =
                    state.file.marks.is_empty() && !state.file.is_torn || self.fault == Some(Fault::NoFence);
                match Claim::of(got_lock, is_empty) {
                    Claim::Free => Stage::Locked,
                    Claim::Held | Claim::Lost => Stage::Declined,
                }
            }
            Stage::Locked => {
                state.file.marks.push(Mark::Fence);
                Stage::Fenced
            }
            Stage::Fenced => {
                state.truth.starts += 1;
                Stage::Running
            }
            Stage::Running => {
                // A foreground run is killed when its server is gone.
                let killed = post.is_called_off || !is_wanted && !self.outlives_caller;
                state.file.marks.push(Mark::Exit { killed });
                if let Some(post) = state.posts.get_mut(at) {
                    post.is_called_off = killed;
                }
                Stage::Exited
            }
            Stage::Exited | Stage::Declined | Stage::Dead => return,
        };
        if let Some(post) = state.posts.get_mut(at) {
            post.stage = stage;
        }
    }

    fn work(&self, state: &mut State, at: usize) {
        let Some(server) = &mut state.server else { return };
        match server.tasks.remove(at) {
            Task::Launch { read } => self.launch(state, read),
            Task::Expire { read, is_found } => self.expire(state, read, is_found),
            Task::Order => {
                let number = state.posts.iter().map(|post| post.number + 1).max().unwrap_or(0);
                state.file.exists = true;
                state.posts.push(Post {
                    number,
                    epoch: state.epoch,
                    stage: Stage::Ordered,
                    is_called_off: false,
                });
                add(state, Task::Follow { post: number });
            }
            Task::Follow { post } => self.follow(state, post),
            Task::RuleOut => self.rule_out(state),
            Task::Inspect => self.inspect(state),
            Task::Void if self.void(state) => self.end(state, Reason::NotStarted),
            Task::Void => add(state, Task::Inspect),
        }
    }
}

impl State {
    fn is_locked(&self) -> bool {
        self.posts.iter().any(|post| post.stage.holds_file())
    }

    /// Whether a task has something to do at this moment.
    fn is_ready(&self, task: Task) -> bool {
        match task {
            Task::Launch { .. } | Task::Expire { .. } | Task::Order | Task::Void => true,
            // A foreground run is waited for until it is killed; one that goes on is attached to when it runs.
            Task::Inspect => !self.is_locked(),
            Task::RuleOut => !self.is_locked() || self.posts.iter().any(|post| post.stage == Stage::Running),
            Task::Follow { post } => {
                let post = self.posts.iter().find(|known| known.number == post);
                post.is_none_or(|post| {
                    post.stage.is_over()
                        || post.stage == Stage::Running && self.rows.run == RunStatus::Launching
                })
            }
        }
    }
}

fn add(state: &mut State, task: Task) {
    if let Some(server) = &mut state.server {
        server.tasks.push(task);
        server.tasks.sort_unstable();
    }
}

/// Takes a task that is to be done, if there is such a one.
fn take(state: &mut State, task: Task) -> bool {
    let Some(server) = &mut state.server else {
        return false;
    };
    let at = server.tasks.iter().position(|known| *known == task);
    at.map(|at| server.tasks.remove(at)).is_some()
}

fn advance(rows: &mut Rows, to: RunStatus) {
    if let Ok(status) = rows.run.advance(to) {
        rows.run = status;
    }
}

fn write_end(state: &mut State, end: RunStatus, reason: Option<Reason>) {
    let may = if end == RunStatus::Denied {
        state.rows.run.advance(end).is_ok()
    } else {
        state.rows.run.may_end(end, RunLocality::Here)
    };
    if may {
        if state.rows.run.is_final() {
            state.truth.overwritten += 1;
        }
        state.rows.run = end;
        state.rows.reason = reason;
    }
}

/// What the program reads in the run file, byte for byte as it writes it.
fn said(file: &RunFile) -> RunFileState {
    if !file.exists {
        return RunFileState::Missing;
    }
    let process = Process {
        pid: 4711,
        parent: 1,
        session: 4711,
        start_time: 99,
        is_zombie: false,
        is_exiting: false,
    };
    let launch = LaunchId::parse("launch-1").unwrap_or_else(|_| unreachable!("a well-formed id"));
    let mut bytes = Vec::new();
    let mut last = 0;
    for mark in &file.marks {
        last = bytes.len();
        bytes.extend_from_slice(
            match mark {
                Mark::Fence => Line::fence(&process, "boot", &launch),
                Mark::Exit { killed } => Line::exit(&Exit {
                    code: (!killed).then_some(0),
                    killed: killed.then_some(countersign_domain::KillCause::Shutdown),
                    ..Exit::default()
                }),
                Mark::Void => Line::void(),
            }
            .as_bytes(),
        );
    }
    if file.is_torn {
        bytes.truncate(last + (bytes.len() - last) / 2);
    }
    run_file::parse(&bytes)
}

/// Everything that the gate can say, each once.
fn judgements() -> Vec<GateVerdict> {
    let mut found = Vec::new();
    for security in Security::ALL {
        for ask in Ask::ALL {
            for ask_fallback in Security::ALL {
                for bits in 0_u8..16 {
                    let input = GateInput {
                        security: *security,
                        ask: *ask,
                        ask_fallback: *ask_fallback,
                        coverage: Coverage {
                            satisfied: bits & 1 != 0,
                            analysis_ok: true,
                            durable: bits & 2 != 0,
                        },
                        denylisted: bits & 8 != 0,
                        needs_person: bits & 4 != 0,
                        document_refused: false,
                        tool_denied: false,
                    };
                    let unanswered = |why| match gate::fallback(&input, why) {
                        FallbackVerdict::Run => Word::Run,
                        FallbackVerdict::Deny(_) => Word::Deny,
                    };
                    let verdict = match gate::gate(&input) {
                        Verdict::Run => Word::Run,
                        Verdict::Ask(_) => Word::Ask,
                        Verdict::Deny(_) => Word::Deny,
                    };
                    for after in [AfterTimeout::Fallback, AfterTimeout::Deny] {
                        found.push(GateVerdict {
                            verdict,
                            in_time: unanswered(Unanswered::Timeout(after)),
                            found_expired: unanswered(Unanswered::FoundExpired),
                            unreachable: unanswered(Unanswered::NoRoute),
                        });
                    }
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

impl Model for Protocol {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let mut states = Vec::new();
        for judged in judgements() {
            for is_reachable in [true, false] {
                let rows = Rows {
                    run: RunStatus::Requested,
                    reason: None,
                    by: None,
                    launch: None,
                    approval: None,
                };
                let mut state = State {
                    now: 0,
                    boot: 0,
                    epoch: 1,
                    policy: 0,
                    is_swapped: false,
                    judged,
                    rows,
                    synced: rows,
                    server: Some(Server {
                        epoch: 1,
                        tasks: Vec::new(),
                    }),
                    posts: Vec::new(),
                    file: RunFile::default(),
                    kills: 0,
                    deaths: 0,
                    outages: 0,
                    edits: 0,
                    swaps: 0,
                    cancels: 0,
                    take_backs: 0,
                    truth: Truth::default(),
                };
                match (judged.verdict, is_reachable) {
                    (Word::Run, true) => self.permit(&mut state, START_BY, DecidedBy::Policy),
                    (Word::Deny, true) => self.end(&mut state, Reason::SecurityDeny),
                    (Word::Ask, true) => {
                        advance(&mut state.rows, RunStatus::Asking);
                        state.rows.approval = Some(Row {
                            status: ApprovalStatus::Pending,
                            decision: None,
                            decided_at: 0,
                            is_consumed: false,
                            votes: 0,
                        });
                    }
                    (Word::Ask, false) => {
                        state.rows.approval = Some(Row {
                            status: ApprovalStatus::Expired,
                            decision: Some(ApprovalDecision::Deny),
                            decided_at: 0,
                            is_consumed: false,
                            votes: 0,
                        });
                        if judged.unreachable == Word::Run {
                            state.truth.fell_back = true;
                            self.permit(&mut state, START_BY, DecidedBy::Fallback);
                        } else {
                            self.end(&mut state, Reason::NoApprover);
                        }
                    }
                    (Word::Run | Word::Deny, false) => continue,
                }
                // The request itself is safe: a story that a loss of power undoes whole says nothing.
                state.synced = state.rows;
                states.push(state);
            }
        }
        states
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        let bounds = self.bounds;
        if let Some(server) = &state.server {
            for (at, task) in server.tasks.iter().enumerate() {
                if state.is_ready(*task) {
                    actions.push(Event::Do(at));
                }
            }
            if let Some(row) = state.rows.approval {
                if row.status == ApprovalStatus::Pending {
                    for person in 0..self.required {
                        actions.push(Event::Answer(ApprovalDecision::AllowOnce, person));
                    }
                    if self.required == 1 {
                        actions.push(Event::AnswerAtOnce(0));
                    }
                    actions.push(Event::Answer(ApprovalDecision::Deny, 0));
                }
                let expires = Task::Expire {
                    read: None,
                    is_found: false,
                };
                let is_at_it = server
                    .tasks
                    .iter()
                    .any(|task| matches!(task, Task::Expire { .. }));
                if row.status == ApprovalStatus::Pending && state.now >= DEADLINE && !is_at_it {
                    debug_assert!(!server.tasks.contains(&expires));
                    actions.push(Event::NoticeDeadline);
                }
                if self.fault == Some(Fault::NoYes) || self.fault == Some(Fault::SecondUse) {
                    let is_at_it = server
                        .tasks
                        .iter()
                        .any(|task| matches!(task, Task::Launch { .. }));
                    if !is_at_it && state.truth.uses < 2 {
                        actions.push(Event::Answer(ApprovalDecision::AllowAlways, 0));
                    }
                }
            }
            if state.cancels < bounds.cancels {
                actions.push(Event::Cancel);
            }
            let is_allowed = |row: Row| row.status == ApprovalStatus::Allowed;
            if state.take_backs < bounds.take_backs && state.rows.approval.is_some_and(is_allowed) {
                actions.push(Event::TakeBack);
            }
            if state.kills < bounds.kills {
                actions.push(Event::Kill);
            }
        } else {
            actions.push(Event::Start);
        }
        for (at, post) in state.posts.iter().enumerate() {
            if !post.stage.is_over() {
                actions.push(Event::Supervise(at));
                if state.deaths < bounds.deaths {
                    actions.push(Event::KillSupervisor(at));
                }
            }
        }
        if state.outages < bounds.outages {
            for lines in 0..=state.file.marks.len() {
                actions.push(Event::Outage(lines, false));
                if lines < state.file.marks.len() {
                    actions.push(Event::Outage(lines, true));
                }
            }
        }
        if state.edits < bounds.edits {
            actions.push(Event::Edit);
        }
        if state.swaps < bounds.swaps {
            actions.push(Event::Swap);
        }
        if state.now < END_OF_TIME {
            actions.push(Event::Tick);
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => state.now += 1,
            Event::Do(at) => self.work(&mut state, at),
            // Only the faults know this one: somebody starts a launch that nobody is entitled to.
            Event::Answer(ApprovalDecision::AllowAlways, _) => add(&mut state, Task::Launch { read: None }),
            Event::Answer(decision, person) => self.answer(&mut state, decision, person),
            Event::AnswerAtOnce(person) => {
                self.answer(&mut state, ApprovalDecision::AllowOnce, person);
                if take(&mut state, Task::Launch { read: None }) {
                    let read = Some(state.policy);
                    self.launch(&mut state, read);
                }
            }
            Event::NoticeDeadline => add(
                &mut state,
                Task::Expire {
                    read: None,
                    is_found: false,
                },
            ),
            Event::Cancel => {
                state.cancels += 1;
                match state.rows.run {
                    RunStatus::Requested | RunStatus::Asking => {
                        if let Some(row) = &mut state.rows.approval
                            && row.status == ApprovalStatus::Pending
                        {
                            row.status = ApprovalStatus::Cancelled;
                            row.decision = Some(ApprovalDecision::Deny);
                        }
                        write_end(&mut state, RunStatus::Cancelled, Some(Reason::Cancelled));
                        state.synced = state.rows;
                    }
                    RunStatus::Launching | RunStatus::Running => {
                        for post in &mut state.posts {
                            post.is_called_off |= post.epoch == state.epoch;
                        }
                    }
                    RunStatus::Completed
                    | RunStatus::Failed
                    | RunStatus::Denied
                    | RunStatus::Cancelled
                    | RunStatus::Lost => {}
                }
            }
            Event::TakeBack => {
                state.take_backs += 1;
                self.take_back(&mut state);
            }
            Event::Supervise(at) => self.supervise(&mut state, at),
            Event::KillSupervisor(at) => {
                state.deaths += 1;
                state.posts.get_mut(at)?.stage = Stage::Dead;
            }
            Event::Kill => {
                state.kills += 1;
                state.server = None;
            }
            Event::Start => self.start(&mut state),
            Event::Outage(lines, is_torn) => {
                state.outages += 1;
                state.boot += 1;
                state.server = None;
                state.posts.clear();
                state.rows = state.synced;
                state.file.marks.truncate(lines + usize::from(is_torn));
                state.file.is_torn = is_torn;
                state.file.exists = lines > 0 || is_torn;
                state.truth.overwritten = 0;
            }
            Event::Edit => {
                state.edits += 1;
                state.policy += 1;
            }
            Event::Swap => {
                state.swaps += 1;
                state.is_swapped = true;
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing starts twice", |_, state: &State| state.truth.starts <= 1),
            Property::always("no approval is used twice", |_, state: &State| {
                state.truth.uses <= 1
            }),
            Property::always(
                "nothing starts without a yes, a rule or a fallback",
                |_, state: &State| {
                    state.truth.starts == 0
                        || state.judged.verdict == Word::Run
                        || state.truth.fell_back
                        || state.truth.answered == Some(ApprovalDecision::AllowOnce)
                },
            ),
            Property::always(
                "nothing starts by fewer people than it takes",
                |model: &Self, state: &State| {
                    state.truth.starts == 0
                        || state.judged.verdict == Word::Run
                        || state.truth.fell_back
                        || state.truth.voters.count_ones() >= u32::from(model.required)
                },
            ),
            Property::always("no vote that was taken is lost", |_, state: &State| {
                state.rows.approval.is_none_or(|row| {
                    row.status != ApprovalStatus::Pending || row.votes == state.truth.voters
                })
            }),
            Property::always(
                "what was denied or cancelled before its launch never starts",
                |_, state: &State| {
                    let is_barred = match state.rows.reason {
                        Some(Reason::Cancelled) => state.rows.launch.is_none(),
                        Some(reason) => {
                            reason == Reason::NotStarted || reason.run_status() == RunStatus::Denied
                        }
                        None => false,
                    };
                    !is_barred || state.truth.starts == 0
                },
            ),
            Property::always("no answer that was taken is lost", |_, state: &State| {
                let row = state.rows.approval;
                state.truth.answered.is_none() || row.and_then(|row| row.decision) == state.truth.answered
            }),
            Property::always("a question found expired starts nothing", |_, state: &State| {
                !state.truth.found_expired || !state.truth.fell_back
            }),
            Property::always("no answer counts after the deadline", |_, state: &State| {
                let row = state.rows.approval;
                row.is_none_or(|row| row.decision.is_none() || row.decided_at < DEADLINE)
            }),
            Property::always("what is said to have completed ran", |_, state: &State| {
                state.rows.run != RunStatus::Completed || state.truth.starts == 1
            }),
            Property::always("an end is written once", |_, state: &State| {
                state.truth.overwritten == 0
            }),
            Property::always("everything comes to an end", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let is_at_rest = !actions.iter().any(|event| {
                    matches!(
                        event,
                        Event::Tick
                            | Event::Do(_)
                            | Event::NoticeDeadline
                            | Event::Supervise(_)
                            | Event::Start
                    )
                });
                !is_at_rest || state.rows.run.is_final()
            }),
            Property::sometimes("it completes after a yes", |_, state: &State| {
                state.rows.run == RunStatus::Completed && state.rows.by == Some(DecidedBy::Person)
            }),
            Property::sometimes("it completes by its fallback", |_, state: &State| {
                state.rows.run == RunStatus::Completed && state.rows.by == Some(DecidedBy::Fallback)
            }),
            Property::sometimes("it is lost", |_, state: &State| state.rows.run == RunStatus::Lost),
            Property::sometimes("it is refused at its launch", |_, state: &State| {
                state.rows.reason == Some(Reason::BindingMismatch)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker, HasDiscoveries};

    use super::*;

    const QUIET: Bounds = Bounds {
        kills: 0,
        deaths: 0,
        outages: 0,
        edits: 0,
        swaps: 0,
        cancels: 0,
        take_backs: 0,
    };

    fn check(bounds: Bounds, outlives_caller: bool) {
        check_people(bounds, outlives_caller, 1);
    }

    fn check_people(bounds: Bounds, outlives_caller: bool, required: u8) {
        let protocol = Protocol {
            bounds,
            fault: None,
            outlives_caller,
            required,
        };
        let checker = protocol.checker().threads(2).spawn_bfs().join();
        println!("{bounds:?}: {} states", checker.unique_state_count());
        for property in ["it completes after a yes", "it completes by its fallback"] {
            checker.assert_any_discovery(property);
        }
        for property in protocol.properties() {
            if property.expectation == stateright::Expectation::Always {
                checker.assert_no_discovery(property.name);
            }
        }
    }

    /// Whether a fault breaks a property.
    fn breaks(fault: Fault, bounds: Bounds, property: &'static str) -> bool {
        breaks_people(fault, bounds, property, 1)
    }

    /// The same where it takes so many people.
    fn breaks_people(fault: Fault, bounds: Bounds, property: &'static str, required: u8) -> bool {
        let protocol = Protocol {
            bounds,
            fault: Some(fault),
            outlives_caller: true,
            required,
        };
        assert!(protocol.properties().iter().any(|known| known.name == property));
        let checker = protocol
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AllOf([property].into()))
            .spawn_bfs()
            .join();
        checker.discovery(property).is_some()
    }

    #[test]
    fn it_holds_when_servers_and_supervisors_are_killed() {
        for outlives_caller in [false, true] {
            let bounds = Bounds {
                kills: 2,
                deaths: 1,
                cancels: 1,
                ..QUIET
            };
            check(bounds, outlives_caller);
        }
    }

    #[test]
    fn it_holds_when_the_power_fails() {
        for outlives_caller in [false, true] {
            let bounds = Bounds {
                kills: 1,
                outages: 1,
                ..QUIET
            };
            check(bounds, outlives_caller);
        }
    }

    #[test]
    fn it_holds_when_policy_and_programs_change() {
        let bounds = Bounds {
            kills: 1,
            edits: 1,
            swaps: 1,
            cancels: 1,
            ..QUIET
        };
        check(bounds, true);
    }

    #[test]
    fn it_holds_when_a_yes_is_taken_back() {
        for outlives_caller in [false, true] {
            let bounds = Bounds {
                kills: 2,
                take_backs: 2,
                ..QUIET
            };
            check(bounds, outlives_caller);
            let bounds = Bounds {
                kills: 1,
                outages: 1,
                take_backs: 1,
                ..QUIET
            };
            check(bounds, outlives_caller);
            let bounds = Bounds {
                edits: 1,
                swaps: 1,
                cancels: 1,
                take_backs: 1,
                ..QUIET
            };
            check(bounds, outlives_caller);
        }
    }

    #[test]
    fn it_holds_where_it_takes_two_people() {
        let bounds = Bounds {
            kills: 1,
            outages: 1,
            ..QUIET
        };
        check_people(bounds, true, 2);
        let bounds = Bounds {
            kills: 1,
            edits: 1,
            swaps: 1,
            ..QUIET
        };
        check_people(bounds, true, 2);
    }

    #[test]
    fn a_lost_vote_and_a_person_who_counts_twice_are_found() {
        let power = Bounds {
            kills: 1,
            outages: 1,
            ..QUIET
        };
        for (fault, bounds, expect) in [
            (
                Fault::CountsTwice,
                QUIET,
                "nothing starts by fewer people than it takes",
            ),
            (Fault::UnsyncedAnswer, power, "no vote that was taken is lost"),
        ] {
            assert!(
                breaks_people(fault, bounds, expect, 2),
                "{fault:?} goes unnoticed"
            );
        }
    }

    #[test]
    fn every_wrong_decision_is_found() {
        let kills = Bounds { kills: 2, ..QUIET };
        let power = Bounds {
            kills: 1,
            outages: 1,
            ..QUIET
        };
        let taken_back = Bounds {
            take_backs: 1,
            ..QUIET
        };
        for (fault, bounds, expect) in [
            (Fault::LateAnswer, QUIET, "no answer counts after the deadline"),
            (Fault::UnsyncedAnswer, power, "no answer that was taken is lost"),
            (
                Fault::UnsyncedFallback,
                power,
                "what was denied or cancelled before its launch never starts",
            ),
            (
                Fault::LateTakeBack,
                taken_back,
                "nothing starts without a yes, a rule or a fallback",
            ),
            (Fault::SecondUse, QUIET, "no approval is used twice"),
            (
                Fault::NoYes,
                QUIET,
                "nothing starts without a yes, a rule or a fallback",
            ),
            (
                Fault::LateFallback,
                kills,
                "a question found expired starts nothing",
            ),
            (Fault::NoFence, kills, "nothing starts twice"),
            (Fault::NoLock, kills, "nothing starts twice"),
            (
                Fault::TrustsAbsence,
                power,
                "what was denied or cancelled before its launch never starts",
            ),
            (
                Fault::NoVoid,
                kills,
                "what was denied or cancelled before its launch never starts",
            ),
            (
                Fault::TrustsLoser,
                kills,
                "what was denied or cancelled before its launch never starts",
            ),
        ] {
            assert!(breaks(fault, bounds, expect), "{fault:?} goes unnoticed");
        }
    }

    #[test]
    fn no_question_found_expired_ever_falls_back() {
        assert!(
            judgements()
                .iter()
                .all(|judged| judged.found_expired == Word::Deny)
        );
    }
}
