//! The ledger: the SQL history of runs, approvals, events, tokens and the audit chain, and the one place
//! that decides who won.
//!
//! There is one writing connection. Everybody holds a [`Ledger`], a cheap handle that hands in typed jobs and
//! reads over connections of its own. A job that finds nobody writing and needs no sync is committed by its
//! caller; all others go to one thread ([`LedgerThread`]), where those that arrive together share one
//! transaction and one sync. Each is atomic by itself: it checks first and writes last.
//! Nothing outside this crate knows SQL, and nothing here knows what a command means. Only [`launch`] makes a
//! [`launch::Permit`], and only after the commit that consumed what the launch consumes.
//!
//! Begin with [`Ledger::open`]. [`events`] and [`auth`] lie here because a commit decides what they say.

#![forbid(unsafe_code)]

pub mod auth;
pub mod events;

mod committer;
mod config;
mod connection;
mod error;
mod handle;
mod health;
mod job;
mod keys;
mod ledger_file;
mod log_damage;
mod notes;
mod open;
mod queue;
mod rows;
mod run_rows;
mod schema;
mod session_notice;
mod session_rows;
mod sql;
mod stats;
mod stop_switch;
mod token_rows;
mod trim;
mod tx;
mod writer;

mod admit;
mod approval_end;
mod ask;
mod by_rule;
mod decide;
mod decide_and_launch;
mod elsewhere;
mod expire;
mod finish;
mod forgotten;
mod grants;
mod idempotency;
pub mod launch;
mod moments;
mod new_run;
mod nodes;
mod progress;
mod questions;
mod record;
mod revise;
mod run_end;
mod run_order;
mod shrink;
mod sign_ins;
mod stop;
mod take_back;
mod tokens;
mod waiting;
mod withdraw;

mod agents;
mod approvals;
pub mod audit;
mod event_log;
mod node_runs;
pub mod overview;
mod readers;
mod recovery;
mod retention;
mod runs;
mod sessions;

#[cfg(test)]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the outcome it wants and shows any other"
)]
mod tests;

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;

pub use admit::{Denial, DirectLaunch};
pub use agents::AgentActivity;
pub use approvals::{ApprovalFilter, ApprovalRow, PendingDeadline};
pub use ask::{AskOutcome, Asking, NewApproval, NoRoute, NoRouteOutcome};
pub use by_rule::{Ruling, SettleByRule, SettleOutcome};
pub use config::{Durability, LedgerConfig, PolicyStamp, PolicyWatch, Retention, Tuning};
pub use decide::{ChosenPattern, Decide, DecideOutcome, NotAllowed};
pub use decide_and_launch::DecideAndLaunch;
pub use elsewhere::{AnswerTo, UseAnswer};
pub use error::{Inconsistency, LedgerError, OpenError, StorageFault};
pub use event_log::{EventOrder, EventWindow};
pub use expire::{Expire, ExpireOutcome, Fallback, Undecided};
pub use finish::{CancelOutcome, Finish, Finished, RunOutput};
pub use forgotten::{ForgottenRun, FoundRun, UnknownRuns};
pub use grants::GrantUse;
pub use handle::{Ledger, LedgerThread};
pub use health::Health;
pub use idempotency::{Admission, IdempotencyKey, KeyState, StoredOutcome};
pub use new_run::NewRun;
pub use node_runs::{NodeLaunch, NodeRun};
pub use nodes::{ConnectNode, DecidedPairing, NodeAdmission, NodeCredential, NodeToken};
pub use notes::Started;
pub use readers::{Cursor, Listing, Page};
pub use recovery::{LaunchRecord, UnfinishedRun};
pub use retention::Pruned;
pub use revise::{Revise, ReviseOutcome};
pub use run_end::EndOutcome;
pub use runs::{RunFilter, StoredOutput};
pub use sessions::{EndedSession, LeftoversEnd, ProcessSession, SessionFilter};
pub use shrink::Shrunk;
pub use sign_ins::{Begun, LinkFor, NewLoginLink, NewSignIn, SignInBy, StoredSignIn};
pub use stats::LedgerStats;
pub use stop::{Resume, ResumeOutcome, Takes, stop_on_record};
pub use stop_switch::{Pressed, StopStanding};
pub use take_back::{TakeBack, TakeBackOutcome};
pub use tokens::{
    NewToken, RevokedToken, Successor, TokenAcceptance, TokenRotation, admin_owners, doubtful_tokens,
    presumed_approvers,
};
pub use waiting::{Leaving, QuestionLimit, QuestionLimits, TooManyQuestions};
