//! One question to a person: its states, the only ways between them, and what the answer is bound to.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Actor, AgentId, ApprovalId, ApprovalStanding, Ask, Command, CommandInput, EnvOverrides, Host, HostChoice,
    Quorum, RunId, Security, SessionKey, UnixMillis, Vote, vocabulary,
};

vocabulary! {
    /// What a person may answer.
    pub enum ApprovalDecision("allow-once, allow-always or deny") {
        /// This run only.
        AllowOnce = "allow-once",
        /// This run, and remember what can be remembered safely.
        AllowAlways = "allow-always",
        /// No.
        Deny = "deny",
    }
}

vocabulary! {
    /// The name of an approval's state.
    pub enum ApprovalStatus("pending, allowed, denied, expired or cancelled") {
        /// Waiting for a person.
        Pending = "pending",
        /// A person allowed it.
        Allowed = "allowed",
        /// A person denied it.
        Denied = "denied",
        /// Its deadline passed, or nobody could be reached.
        Expired = "expired",
        /// The request was withdrawn.
        Cancelled = "cancelled",
    }
}

vocabulary! {
    /// Why an approval left `pending` (`docs/spec/approvals-store.md#11-approval-records`).
    pub enum TerminalReason("a terminal reason") {
        /// A person decided.
        User = "user",
        /// The deadline passed.
        Timeout = "timeout",
        /// Nobody could be reached.
        NoRoute = "no-route",
        /// The run was cancelled.
        RunAborted = "run-aborted",
        /// By the emergency stop.
        Stopped = "stopped",
        /// A change of the policy allowed or forbade what was asked about.
        Rule = "rule",
    }
}

vocabulary! {
    /// How far the entries of an `allow-always` got into the approvals document.
    pub enum Persist("none, todo, done or dropped") {
        /// Nothing is to be stored.
        None = "none",
        /// Still to be written.
        Todo = "todo",
        /// Written.
        Done = "done",
        /// Given up, because the document changed in between.
        Dropped = "dropped",
    }
}

/// An approval's state with the data only that state has. Nothing leaves a terminal state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalState {
    /// Waiting until the approval's deadline.
    Pending,
    /// A person allowed it, or the policy by now; used up at `consumed_at`.
    Allowed {
        /// `allow-once` or `allow-always`.
        decision: ApprovalDecision,
        /// Who.
        by: Actor,
        /// When.
        at: UnixMillis,
        /// Why, in their words.
        reason: Option<String>,
        why: TerminalReason,
        /// When a launch used it up.
        consumed_at: Option<UnixMillis>,
        persist: Persist,
    },
    /// A person denied it, or stopped everything; or the policy denies it by now.
    Denied {
        by: Actor,
        at: UnixMillis,
        /// Why, in their words.
        reason: Option<String>,
        /// `user`, `stopped` or `rule`.
        why: TerminalReason,
    },
    Expired {
        /// When that was settled.
        at: UnixMillis,
        why: TerminalReason,
    },
    Cancelled {
        by: Actor,
        at: UnixMillis,
    },
}

impl ApprovalState {
    pub const fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Allowed { .. } => ApprovalStatus::Allowed,
            Self::Denied { .. } => ApprovalStatus::Denied,
            Self::Expired { .. } => ApprovalStatus::Expired,
            Self::Cancelled { .. } => ApprovalStatus::Cancelled,
        }
    }

    /// The decision that counts: the person's, and deny for every other end.
    pub const fn decision(&self) -> Option<ApprovalDecision> {
        match self {
            Self::Pending => None,
            Self::Allowed { decision, .. } => Some(*decision),
            Self::Denied { .. } | Self::Expired { .. } | Self::Cancelled { .. } => {
                Some(ApprovalDecision::Deny)
            }
        }
    }
}

/// Why a person is asked: which layer and rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// Where the rule stands (`tools.exec.ask`, `exec-approvals.json#/agents/main/ask`, `default`, …).
    pub layer: String,
    /// The rule: `ask-always`, `allowlist-miss`, `needs-person` or a rule id of the analysis.
    pub rule: String,
    pub detail: String,
    /// Byte offsets of the command it points at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<(u32, u32)>,
}

vocabulary! {
    /// How much a remembered pattern would allow later.
    pub enum PatternWidth("exact, arguments or program") {
        /// The same program with the same arguments in the same directory.
        Exact = "exact",
        /// The program with arguments of a form.
        Arguments = "arguments",
        /// The program with any arguments.
        Program = "program",
    }
}

/// An entry that `allow-always` could store (`docs/spec/http-api.md#pattern-object`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pattern {
    /// Index of the top-level segment it comes from.
    pub segment: usize,
    /// The entry's pattern.
    pub pattern: String,
    /// The entry's argument pattern.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arg_pattern: Option<String>,
    /// The entry's source mark.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// How wide it is.
    pub width: PatternWidth,
    /// Whether a bare `allow-always` stores it; only `exact` ones.
    pub default: bool,
}

/// What identifies a file at the moment it was checked.
///
/// Programs, directory and scripts are compared again right before the start. (`docs/spec/command-analysis.md#t2`)
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    pub path: String,
    pub dev: u64,
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    #[serde(with = "wide")]
    pub mtime_ns: i128,
    #[serde(with = "wide")]
    pub ctime_ns: i128,
}

/// Numbers that most often fit into 64 bits: then as such, else as text. Inside of a tagged enum serde reads no wider ones.
mod wide {
    use std::fmt;

    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*number) {
            Ok(number) => serializer.serialize_i64(number),
            Err(_too_wide) => serializer.collect_str(number),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        deserializer.deserialize_any(Wide)
    }

    struct Wide;

    impl de::Visitor<'_> for Wide {
        type Value = i128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_i64<E>(self, number: i64) -> Result<i128, E> {
            Ok(number.into())
        }

        fn visit_u64<E>(self, number: u64) -> Result<i128, E> {
            Ok(number.into())
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<i128, E> {
            text.parse().map_err(de::Error::custom)
        }
    }
}

vocabulary! {
    /// What an approval pins, and how a run starts because of it. From the most to the least of the programs.
    pub enum Pinning("exact, path or text") {
        /// The arguments, and every program by its identity: each is started from the descriptor that was checked, and its
    /// stamp is compared with what was judged by the last system call before its execution.
        Exact = "exact",
        /// An analysed command of which something is found by its path once more after it was checked: a script by
        /// its interpreter, a program by its wrapper or a shell.
        Path = "path",
        /// A text and the shell that reads it, not the programs that it finds.
        Text = "text",
    }
}

vocabulary! {
    /// Whether the scripts of a run are read as they were judged, and if not, why.
    pub enum ScriptHold("held, or not held: and why") {
        /// Interpreters that open one of them to read get the content that was judged.
        Held = "held",
        /// A program of the command is set-uid, set-gid or has capabilities, and the level lets it use them: it must not be
        /// stopped in its calls.
        GainsPrivileges = "not held: gains privileges",
        /// A script is started as a program by another program: the kernel reads its first line at its path.
        StartedByAnother = "not held: started by another program",
        /// Its first line names no program that could be started in its place.
        NoInterpreter = "not held: its first line names no program",
        /// The text was not understood, so that its interpreters are not known.
        NotUnderstood = "not held: the text could not be taken apart",
        /// The command changes to a directory that is found while it runs.
        ChangesDirectory = "not held: changes directory",
        /// A program of the command starts others where other files are: in a mount namespace, a root, a container.
        SeesOtherFiles = "not held: sees other files",
        /// `make` chooses its file when it starts, and may make it anew.
        MakeChooses = "not held: make may read another file",
        /// The files are too large to be read before the start.
        TooLarge = "not held: too large",
        /// The kernel cannot answer an open with another file, or does not let us.
        Unsupported = "not held: the kernel cannot",
    }
}

vocabulary! {
    /// What stands between a step of a plan and the one before.
    pub enum StepJoin("|, &&, || or ;") {
        /// It reads what the one before writes.
        Pipe = "|",
        /// It starts if what is before succeeded.
        And = "&&",
        /// It starts if what is before failed.
        Or = "||",
        /// It starts in any case.
        Sequence = ";",
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundStep {
    /// `None` for the first.
    pub join: Option<StepJoin>,
    /// What it does.
    pub action: BoundAction,
}

/// What a step of a plan does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "does")]
pub enum BoundAction {
    Program {
        /// Absolute path of the executable.
        path: String,
        /// All arguments, `argv[0]` included.
        argv: Vec<String>,
        /// Variables that it alone gets.
        assignments: Vec<(String, String)>,
        /// The file that was judged.
        identity: FileIdentity,
    },
    /// Changes the directory of all later steps.
    ChangeDirectory {
        /// Absolute, or relative to the directory before, without a look at `CDPATH`.
        operand: String,
        /// Device and inode, where it was there when it was judged and nothing of the run can have made it anew.
        pinned: Option<(u64, u64)>,
    },
    /// Prints the directory (`pwd`).
    PrintDirectory {
        /// Without the links that led to it (`-P`).
        physical: bool,
    },
    /// Does nothing well (`true`, `:`) or badly (`false`).
    Settle { succeeds: bool },
}

/// A file that an interpreter reads, by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundScript {
    /// Its path, as the interpreter gets it.
    pub path: String,
    /// SHA-256 of its content as lower-case hex; of one that is too large to read, of what tells it from others.
    pub sha256: String,
    /// What its first line names, where it is started as a program itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interpreter: Option<BoundInterpreter>,
}

/// The program that a `#!` line names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundInterpreter {
    /// Absolute path as it stands there.
    pub path: String,
    /// The one argument that may follow it.
    pub argument: Option<String>,
    /// The file that was judged.
    pub identity: FileIdentity,
}

/// What is started, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Bound {
    /// The program at `path` with `argv`, no shell.
    Exec {
        /// Absolute path of the executable.
        path: String,
        /// All arguments, `argv[0]` included.
        argv: Vec<String>,
        /// The file that was judged; records of before do not have it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        identity: Option<FileIdentity>,
    },
    /// An analysed command, whose steps are started without a shell.
    ///
    /// A covered command starts from its plan: each program from the file that was judged, without a shell.
    /// (`docs/spec/command-analysis.md#x1`)
    Plan { steps: Vec<BoundStep> },
    /// A canonical rendering of an analysed command, run by a fixed `/bin/sh -c` (`docs/spec/command-analysis.md#x1`).
    Rendered { script: String },
    /// Text exactly as it was sent, run by the host shell.
    ///
    /// A text that was not understood, and one that runs under `full`, runs as it was sent, by the host shell.
    /// (`docs/spec/command-analysis.md#x2`)
    Text {
        /// Absolute path of the shell.
        shell: String,
        text: String,
    },
    /// The command as sent, in a sandbox, which finds the programs itself.
    Inside {
        /// Lower-case hex SHA-256 of what the sandbox is: who shares it, what it sees and may use, what makes it.
        sandbox: String,
        /// What comes before the `PATH` of the sandbox.
        path_prepend: Option<String>,
    },
    /// The command on a node, which finds the programs itself.
    OnNode {
        /// What the node is to start, as it is asked.
        argv: Vec<String>,
        /// What the node made of that, as JSON text exactly as it came; `None` for a node that says nothing beforehand.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        plan: Option<String>,
    },
    /// A patch of files below the working directory. The leader of the run applies it.
    Patch {
        /// Exactly as it was sent.
        text: String,
        /// It stays in the workspace.
        workspace_only: bool,
        /// The server's own files, which it does not change.
        off_limits: Vec<String>,
        /// What lies in there and may be changed nevertheless.
        spared: Vec<String>,
    },
    /// Nothing here: the asker starts it, and only the answer was wanted. No host of this server starts one.
    Elsewhere {
        /// Whose answer it is: the entry point, a colon, and who came through it. Records of before do not have it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        asked_by: Option<String>,
    },
}

/// Everything an approval covers. Two requests with equal digests would do the same thing.
///
/// An approval binds what was shown, and anything that differs at the start is refused.
/// (`docs/spec/command-analysis.md#t1`)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub host: Host,
    /// Node, for `host` node.
    pub node_id: Option<String>,
    pub agent: AgentId,
    pub session: SessionKey,
    /// The command as sent.
    pub command: Command,
    pub bound: Bound,
    /// Canonical path of the working directory.
    pub cwd: String,
    /// Its device and inode, so that another directory of the same name is noticed.
    pub cwd_dev: u64,
    pub cwd_ino: u64,
    /// SHA-256 of the accepted environment overrides
    /// (`docs/spec/approvals-store.md#12-binding-an-approval-to-what-runs`), `None` without any.
    pub env_hash: Option<String>,
    /// Every executable that the plan names, by identity.
    pub executables: Vec<FileIdentity>,
    /// SHA-256 of the first executable's content, when it was taken.
    pub executable_sha256: Option<String>,
    /// The first script: its path and the SHA-256 of its content, or over all of them where there are several.
    pub script: Option<(String, String)>,
    /// Every script by itself: programs that begin with `#!`, and operands of shells and interpreters.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scripts: Vec<BoundScript>,
    /// Whether they are read as they were judged. `None` without any, and in older records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<ScriptHold>,
    /// Whether it has a pseudo-terminal.
    pub pty: bool,
    /// Whether more can be written to it once it runs. Records of before do not have it: nobody was told of it then.
    #[serde(skip_serializing_if = "CommandInput::is_closed", default)]
    pub input: CommandInput,
    /// Time limit in milliseconds, 0 for none.
    pub timeout_ms: u64,
}

impl Binding {
    /// SHA-256 over the canonical record, lower-case hex. Fields are framed by JSON, so no two
    /// different bindings share a text.
    ///
    /// # Panics
    /// Never: the record has only strings, numbers and lists.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a binding is plain data");
        hex(&Sha256::digest(&text))
    }
}

pub fn hex(bytes: &[u8]) -> String {
    // Formatting byte by byte costs more than hashing a short text.
    let digit = |value: u8| {
        char::from(if value < 10 {
            b'0' + value
        } else {
            b'a' - 10 + value
        })
    };
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The unchanging part of an approval: what the person is shown and what the answer is bound to.
///
/// What is stored and compared is the command as sent; what is shown is a second member.
/// (`docs/spec/command-analysis.md#v6`)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the members of a record")]
pub struct ApprovalCard {
    pub binding: Binding,
    /// Effective security when it was asked.
    pub security: Security,
    /// Effective ask when it was asked.
    pub ask: Ask,
    /// What happens if nobody answers, already clamped to `security`.
    pub ask_fallback: Security,
    /// Whether the allowlist covers the command (what an `allowlist` fallback needs).
    pub satisfied: bool,
    /// Whether only a person may answer; then a fallback never allows.
    pub needs_person: bool,
    /// Why it is asked.
    pub why: Why,
    /// Which answers are open.
    pub allowed_decisions: Vec<ApprovalDecision>,
    /// What `allow-always` would store.
    pub proposed_patterns: Vec<Pattern>,
    /// Path of the first executable, if it resolved.
    pub resolved_path: Option<String>,
    /// The analysed segments as the API shows them.
    pub segments: serde_json::Value,
    /// Whether all of the command was read, and nothing in it may run more than is seen. Of records of before nobody knows.
    #[serde(skip_serializing_if = "is_false", default)]
    pub is_understood: bool,
    /// The environment overrides as a person is shown them. Records of before do not have it.
    #[serde(skip_serializing_if = "ShownEnv::is_empty", default)]
    pub env: ShownEnv,
    /// Hash of the approvals document it was judged under.
    pub document_hash: String,
    /// Whether the call was elevated; whether it still may be is looked at again before it starts.
    #[serde(skip_serializing_if = "is_false", default)]
    pub elevated: bool,
    /// How many people it takes to allow it, and whose.
    #[serde(skip_serializing_if = "Quorum::is_default", default)]
    pub quorum: Quorum,
    /// What the call said itself, so that it can be judged again. Records of before do not have it. Neither has a
    /// question about a command that another program starts. Without it only people allow the command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wishes: Option<CallWishes>,
}

impl ApprovalCard {
    /// Whether only people may allow it, no matter what the policy says later.
    pub fn is_for_people(&self) -> bool {
        self.needs_person || self.quorum.is_for_more() || self.wishes.is_none()
    }
}

/// What a call said itself about how and where it is to run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallWishes {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub security: Option<Security>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Ask>,
    /// The host that it named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<HostChoice>,
    /// The node that it named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
}

/// Environment overrides as a person is shown them. Values are never here: what the command gets is sealed apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShownEnv {
    /// Their names, sorted, with nothing in them hidden.
    pub names: Vec<String>,
    /// So many more are not shown at all.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub omitted: usize,
}

impl ShownEnv {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.omitted == 0
    }

    /// Whether every override is named; else nobody can say yes to it.
    pub const fn is_whole(&self) -> bool {
        self.omitted == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The record of one approval (`docs/spec/http-api.md#approval-object`).
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub id: ApprovalId,
    /// The run that waits for it.
    pub run_id: RunId,
    /// What is shown and bound.
    pub card: ApprovalCard,
    /// The values of the environment overrides, where they were asked for and the question waits; empty otherwise. They are
    /// part of no record.
    pub waiting_env: EnvOverrides,
    /// Who asked; never the one who may answer.
    pub requested_by: Actor,
    pub state: ApprovalState,
    /// The patterns a person chose with `allow-always`.
    pub chosen_patterns: Vec<Pattern>,
    /// Who said what, where it takes several people; in the order of their answers.
    pub votes: Vec<Vote>,
    /// When it was asked.
    pub created_at: UnixMillis,
    /// The deadline; at that instant it is expired.
    pub expires_at: UnixMillis,
    /// The approval whose place it took, with a command that an approver changed.
    pub revises: Option<ApprovalId>,
    /// The approval that took its place.
    pub revised_by: Option<ApprovalId>,
}

impl Approval {
    /// Whether only the answer was wanted: the asker starts the command, this server never does.
    pub const fn is_run_elsewhere(&self) -> bool {
        matches!(self.card.binding.bound, Bound::Elsewhere { .. })
    }

    /// Whether the deadline has come.
    pub fn is_due(&self, now: UnixMillis) -> bool {
        now >= self.expires_at
    }

    /// What of it is in effect at this moment.
    pub fn standing(&self, now: UnixMillis) -> ApprovalStanding {
        ApprovalStanding::of(&self.state, self.is_due(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_is_read_back_and_so_are_older_records() {
        for mtime_ns in [
            0,
            -5,
            1_700_000_000_123_456_789,
            i128::from(i64::MAX) * 1_000_000_000,
        ] {
            let identity = FileIdentity {
                path: "/usr/bin/x".to_owned(),
                dev: u64::MAX,
                ino: 2,
                size: 3,
                mtime_ns,
                ctime_ns: 1,
            };
            let program = BoundAction::Program {
                path: "/usr/bin/x".to_owned(),
                argv: vec!["x".to_owned()],
                assignments: vec![("TZ".to_owned(), "UTC".to_owned())],
                identity: identity.clone(),
            };
            for bound in [
                Bound::Exec {
                    path: "/usr/bin/x".to_owned(),
                    argv: vec!["x".to_owned()],
                    identity: Some(identity.clone()),
                },
                Bound::Plan {
                    steps: vec![BoundStep {
                        join: None,
                        action: program,
                    }],
                },
            ] {
                let text = serde_json::to_string(&bound).unwrap();
                assert_eq!(serde_json::from_str::<Bound>(&text).unwrap(), bound, "{text}");
            }
        }
        let old = r#"{"kind":"exec","path":"/bin/x","argv":["x"]}"#;
        assert!(matches!(
            serde_json::from_str(old).unwrap(),
            Bound::Exec { identity: None, .. }
        ));
        assert_eq!(
            serde_json::to_string(&serde_json::from_str::<Bound>(old).unwrap()).unwrap(),
            old
        );
        let old =
            r#"{"path":"/bin/x","dev":1,"ino":2,"size":3,"mtime_ns":1700000000123456789,"ctime_ns":-1}"#;
        let read: FileIdentity = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
