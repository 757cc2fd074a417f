//! The vocabulary of countersign: values every other layer speaks in.
//!
//! Nothing here reads a clock, a file, a socket or the environment, and nothing here is `async`.
//! A value of one of these types is valid by construction: text from outside becomes one of them
//! once, at the edge, or is refused there. Read on: [`ExecRequest`] is what an agent asks for, [`Run`] and [`Approval`]
//! are what becomes of it, and `steps.rs` has the decisions of the launch protocol.

#![forbid(unsafe_code)]

pub mod quoting;

mod actor;
mod approval;
mod approval_state;
mod approval_votes;
mod authority;
mod binding;
mod confinement;
mod confinement_words;
mod deciding;
mod file_identity;
mod grant;
mod grant_limits;
mod id_part;
mod ids;
mod input;
mod kernel;
mod name;
mod nearest;
mod note;
mod observed;
mod pairing;
mod pattern;
mod policy;
mod precondition;
mod process;
mod reason;
mod request;
mod ruling;
mod run;
mod run_status;
#[cfg(feature = "schema")]
pub mod schema;
mod secret;
mod sign_in;
mod steps;
mod stop;
mod terminal;
mod time;
mod token;
mod workspace_file;

pub use actor::{Actor, ActorKind};
pub use approval::{Approval, ApprovalCard, CallWishes, ShownEnv, Why};
pub use approval_state::{ApprovalDecision, ApprovalState, ApprovalStatus, Persist, TerminalReason};
pub use approval_votes::{Quorum, Vote};
pub use authority::{Access, Authority, Belongs};
pub use binding::{
    Binding, Bound, BoundAction, BoundCondition, BoundFill, BoundFilling, BoundInterpreter, BoundScript,
    BoundStep, Pinning, Redirection, ScriptHold, StepJoin, hex,
};
pub use confinement::{Confine, Confinement, NotKept, ProgramLimits, Startable, Starts, WritePlace};
pub use deciding::{Deciding, deciding, deciding_names, may_hold_deciding};
pub use file_identity::FileIdentity;
pub use grant::{
    GrantChoice, GrantScope, NoGrant, Proposal, deny_rule_id, entry_id, mute_rule_id, proposals,
    stored_words, would_cover,
};
pub use grant_limits::{GrantLimits, is_plain_directory, is_within};
pub use id_part::{IdPart, short_end};
pub use ids::{
    AgentId, ApprovalId, EntryId, InvalidId, LaunchId, Owner, RunId, SessionKey, SignInId, TokenId,
};
pub use input::CommandInput;
pub use kernel::{KeptPart, Kernel, KernelPart};
pub use name::InvalidName;
pub use nearest::{intended, nearest};
pub use note::{
    AgentNote, ContextUrl, InvalidNote, Justification, MAX_CONTEXT_URL_BYTES, MAX_JUSTIFICATION_CHARS,
};
pub use observed::Observed;
pub use pairing::{
    Approved, InvalidNodeName, NodeProfile, PAIRING_LASTS, PairedNode, PairingDecision, PairingKind,
    PairingNeed, PairingRequest, PairingStatus, node_name,
};
pub use pattern::{Pattern, PatternWidth};
pub use policy::{
    Ask, Backend, ConfineFallback, DirectStarts, ElevatedLevel, Host, HostChoice, Isolation, Leftovers,
    OnMiss, Security,
};
pub use precondition::Precondition;
pub use process::{MAX_INPUT_BYTES, ProcessKind, ProcessStatus};
pub use reason::{Reason, ReasonClass};
pub use request::{
    Command, EnvOverrides, EnvSize, EnvTooLarge, ExecRequest, InvalidRequest, Joining, MAX_ARGUMENT_BYTES,
    MAX_ARGV_BYTES, MAX_ENV_BYTES, MAX_ENV_VARIABLES, MAX_PATCH_BYTES, MAX_WORDS,
};
pub use ruling::Ruling;
pub use run::{
    DecidedBy, Exit, KillCause, LimitReport, OutputStream, Run, RunDecision, RunEnd, RunVerdict, TextStart,
};
pub use run_status::{RunStatus, StatusChangeError};
pub use secret::Secret;
pub use sign_in::SignIn;
pub use steps::{
    Aftermath, Answering, ApprovalStanding, Ballot, Expiring, LaunchStanding, Launching, Recovery,
    RelaunchStanding, RunLocality, TakingBack, Traces, after_launch, recover, relaunch,
};
pub use stop::{MAX_STOP_REASON_CHARS, Stop, is_stop_reason};
pub use terminal::TerminalSize;
pub use time::UnixMillis;
pub use token::{Principal, Scope, Token};
pub use workspace_file::{FileRedirection, FileUse, NotBelow, PathBelow, PinnedDirectory};
