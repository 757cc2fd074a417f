//! One run: what was decided about it, how it ended, and its record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Actor, AgentId, AgentNote, ApprovalId, Ask, Backend, Command, CommandInput, Confinement, Host, Isolation,
    Observed, Pinning, Reason, RunId, RunStatus, ScriptHold, Security, SessionKey, UnixMillis, vocabulary,
};

vocabulary! {
    /// What the gate said about a run.
    pub enum RunVerdict("run, ask or deny") {
        /// Start it.
        Run = "run",
        /// Ask a person.
        Ask = "ask",
        /// Refuse it.
        Deny = "deny",
    }
}

vocabulary! {
    /// Who settled whether a run may start.
    pub enum DecidedBy("policy, person or fallback") {
        /// The gate alone.
        Policy = "policy",
        /// A person who was asked.
        Person = "person",
        /// `askFallback`, since nobody answered.
        Fallback = "fallback",
    }
}

/// The decision on a run: what, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunDecision {
    /// What was decided.
    pub verdict: RunVerdict,
    /// Who decided.
    pub by: DecidedBy,
}

vocabulary! {
    /// How a text that the host shell would read is started.
    pub enum TextStart("direct or shell") {
        /// Its one program, without the shell, which would only find it.
        Direct = "direct",
        /// By the host shell.
        Shell = "shell",
    }
}

vocabulary! {
    /// One of the two output streams of a command.
    pub enum OutputStream("stdout or stderr") {
        /// Standard output (and everything of a pseudo-terminal).
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

vocabulary! {
    /// Why a supervisor killed what it ran.
    pub enum KillCause("a kill cause") {
        /// The time limit passed.
        Timeout = "timeout",
        /// A caller cancelled it, or the waiting client left.
        Cancelled = "cancelled",
        /// The server stopped or died.
        Shutdown = "shutdown",
        /// By the emergency stop, which killed running commands too.
        Stopped = "stopped",
    }
}

/// How a started command ended, as its supervisor saw it. Also the content of the run file's `exit` line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub signal: Option<i32>,
    /// `errno` of a program that could not be started; then nothing ran.
    pub spawn_errno: Option<i32>,
    /// Why the supervisor killed it, if it did.
    pub killed: Option<KillCause>,
    /// Whether processes were left behind and killed.
    pub leftovers_killed: bool,
    /// Whether the shell was started because the program that was to be started without one could not be.
    pub by_shell: bool,
    /// Bytes of both streams seen, kept or not.
    pub output_bytes: u64,
    /// Bytes of both streams kept in the spool or the inline output.
    pub kept_bytes: u64,
    /// What the limits of the run did.
    pub limits: LimitReport,
}

/// What the limits of a run (`[limits] run_*`) did to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LimitReport {
    /// The kernel killed a process of it for the memory that it used.
    pub out_of_memory: bool,
    /// The kernel refused it a process.
    pub out_of_processes: bool,
    /// A limit was set that this machine could not enforce.
    pub not_enforced: bool,
}

impl LimitReport {
    /// As bits, for records and frames.
    pub const fn to_bits(self) -> u8 {
        let Self {
            out_of_memory,
            out_of_processes,
            not_enforced,
        } = self;
        out_of_memory as u8 | (out_of_processes as u8) << 1 | (not_enforced as u8) << 2
    }

    /// What [`LimitReport::to_bits`] gave. Bits of a later version say nothing.
    pub const fn of_bits(bits: u8) -> Self {
        Self {
            out_of_memory: bits & 1 != 0,
            out_of_processes: bits & 2 != 0,
            not_enforced: bits & 4 != 0,
        }
    }
}

/// The end of a run as the ledger stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// A final state other than `denied`.
    pub status: RunStatus,
    /// Why, unless it completed or simply exited with another code.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub detail: Option<String>,
    /// `None` after a signal, and where no exit code is known.
    pub exit_code: Option<i32>,
    /// Signal name, e.g. `SIGKILL`.
    pub exit_signal: Option<String>,
    /// Whether the time limit killed it.
    pub timed_out: bool,
    /// Whether text of the output was cut in answers, or bytes were not kept.
    pub truncated: bool,
    /// Bytes of both streams seen.
    pub output_bytes: u64,
    /// The last characters of the output, at most `[output] tail_chars`.
    pub tail: String,
    /// Whether the shell was started because the program that was to be started without one could not be.
    pub by_shell: bool,
    /// When the server recorded the end.
    pub ended_at: UnixMillis,
}

/// The record of one run (`docs/spec/http-api.md#run-object`).
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the members of the API's run object"
)]
pub struct Run {
    /// Given at the admission; unique in the ledger.
    pub id: RunId,
    /// Where it stands. Of the final states only `lost` may still change, on a node.
    pub status: RunStatus,
    /// The host that was chosen for it.
    pub host: Host,
    /// The node, when `host` is one.
    pub node_id: Option<String>,
    /// The agent that the call acted for.
    pub agent: AgentId,
    /// The session of the call; system events about the run go there.
    pub session: SessionKey,
    /// The command in full, secrets included; mask it before you show it.
    pub command: Command,
    /// The working directory, absolute.
    pub cwd: String,
    /// Names of the accepted environment overrides.
    pub env_names: Vec<String>,
    /// The asker, who can never answer its approval.
    pub requested_by: Actor,
    /// Effective security when it was judged; `full` in the sandbox.
    pub security: Security,
    /// Effective ask when it was judged; `off` in the sandbox.
    pub ask: Ask,
    /// What was decided, once it was.
    pub decision: Option<RunDecision>,
    /// Why it ended as it did.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub detail: Option<String>,
    /// The approval that was asked for it.
    pub approval_id: Option<ApprovalId>,
    /// The process session once it went to the background.
    pub session_id: Option<String>,
    /// First process.
    pub pid: Option<i32>,
    /// Whether it has a pseudo-terminal.
    pub pty: bool,
    /// Whether it outlives its caller.
    pub background: bool,
    /// What could be written to it when it began.
    pub input: CommandInput,
    /// Whether a miss was run in the sandbox instead of being asked.
    pub diverted: bool,
    /// As whom and how confined it runs.
    pub isolation: Isolation,
    /// What makes its sandbox, where it runs in one.
    pub sandbox: Option<Backend>,
    /// How firmly it is what was judged; `None` for what was denied at once, and in records of before.
    pub binding: Option<Pinning>,
    /// Whether its scripts are read as they were judged; `None` without any, and in records of before.
    pub scripts: Option<ScriptHold>,
    /// What the kernel keeps of its programs; open in records of before.
    pub confinement: Confinement,
    /// What was seen of the programs that those with limits started; `None` where that was not observed.
    pub observed: Option<Observed>,
    /// What the agent said about it; nothing in records of before.
    pub note: AgentNote,
    /// How its text is started; `None` where no host shell of this machine would read one, for what was denied at once, and
    /// in records of before. Until it ends it is what was decided.
    pub start: Option<TextStart>,
    /// Its time limit; `None` for none.
    pub timeout: Option<Duration>,
    /// When it was admitted.
    pub created_at: UnixMillis,
    /// When its first process started; `None` if none did.
    pub started_at: Option<UnixMillis>,
    /// When the server recorded the end or the denial; `None` until then.
    pub ended_at: Option<UnixMillis>,
    /// `None` before the end, after a signal, and where no exit code is known.
    pub exit_code: Option<i32>,
    /// Signal name, e.g. `SIGKILL`.
    pub exit_signal: Option<String>,
    /// Whether the time limit killed it.
    pub timed_out: bool,
    /// Whether output was cut.
    pub truncated: bool,
    /// Bytes of both streams seen.
    pub output_bytes: u64,
    /// The last characters of the output.
    pub tail: String,
    /// Codes of warnings that belong to the run (`leftovers-killed`).
    pub warnings: Vec<String>,
}
