//! What doctor evaluates: plain values, as they were seen.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::Value;

use countersign_config::{
    approvals::{document::LostRules, store::LeftLock},
    settings::SettingsProblem,
};
use countersign_domain::{AgentId, Ask, Backend, HostChoice, Isolation, Security};
use countersign_engine::lint::DocumentRemarks;
use countersign_ledger::audit::ProblemKind;
use countersign_policy::lint::Remark as RuleRemark;

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Root of the state directory; it need not exist.
    pub state_dir: PathBuf,
    /// How it was found.
    pub directory: DirectoryState,
    /// What findings need of the settings, or why they do not read.
    pub settings: SettingsState,
    /// The files of `[tls]`.
    pub tls: TlsState,
    /// How the file at `document_path` was found.
    pub document: DocumentState,
    /// Where the approvals document lies.
    pub document_path: PathBuf,
    /// The lock of the approvals document, if a program left it behind.
    pub document_lock: Option<LeftLock>,
    /// Files of policy that allow more than what a server accepted of them last, and what, in words.
    pub edits: Vec<(PathBuf, Vec<String>)>,
    /// Rules that another program took out of the approvals document.
    pub lost: Vec<LostRules>,
    /// What is odd about the rules of the document.
    pub rules: DocumentRemarks,
    /// What is odd about configured safe bins: name and remark.
    pub safe_bins: Vec<(String, RuleRemark)>,
    /// The policy of every known agent, `main` first.
    pub agents: Vec<AgentRules>,
    /// Files and directories that are for us alone, as far as they exist.
    pub private: Vec<PrivateFile>,
    /// What is wrong with the end of the audit record.
    pub record: Option<ProblemKind>,
    /// Tokens whose agents do not fit their scopes. Or why the ledger cannot be read.
    pub doubtful_tokens: Result<Vec<DoubtfulToken>, String>,
    /// The stop that is on record: who, when and why, in words.
    pub stopped: Option<String>,
    /// What the settings demand of the owners, where they have it not: a server does not start like that.
    pub one_owner: Option<SettingsProblem>,
    /// Effective user id of this process; the private files should be its own.
    pub us: u32,
    /// The level that commands on the gateway host reach.
    pub isolation: IsolationState,
    /// Where the server's program lies, or a link that leads to it, if commands may put something else there.
    pub replaceable_program: Option<PathBuf>,
    /// `Fine` also when the settings do not read.
    pub socket: SocketState,
    /// Whether a server runs on the state directory.
    pub server: ServerState,
    /// What the machine has left for a server.
    pub room: Room,
    /// How far into the future the newest file of a server was written.
    pub ahead: Option<Duration>,
}

/// A token whose agents do not fit its scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtfulToken {
    /// The token's id, which `countersign token revoke` takes.
    pub id: String,
    /// The token's name as stored; quote it before you show it.
    pub name: String,
    /// What is odd about it.
    pub doubt: TokenDoubt,
}

/// What is odd about a token, or about how it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenDoubt {
    /// It asks for commands in the name of any agent.
    UnboundExec,
    /// It is an admin's and bound to agents.
    BoundAdmin,
    /// It counts as an approver although nobody said that a person answers where it is used.
    PresumedApprover,
}

/// What the machine has left for a server. What cannot be found out is as much as anybody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that we may still write where the state directory lies.
    pub disk_bytes: u64,
    /// Open files that a server may have.
    pub open_files: u64,
    /// Open files that it would have if every limit of the settings were reached.
    pub wanted_files: u64,
}

/// How the state directory was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryState {
    /// It is not there yet.
    Missing,
    /// It may be used.
    Usable,
    /// It must not be used, for this reason.
    Refused(String),
}

/// How the settings were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsState {
    /// They read.
    Loaded {
        /// What an operator should know about them: key or file, and the matter.
        remarks: Vec<Remark>,
        /// Whether the API listens for more than this machine, and not inside TLS.
        is_open: bool,
        /// Whether the metrics, which take no token, listen for more than this machine.
        metrics_are_open: bool,
        /// `[approvals] always_reachable`: an approver counts as reachable although none is connected.
        always_reachable: bool,
        /// The `countersign.toml` in force.
        path: PathBuf,
    },
    /// They do not: everything that is wrong.
    Broken(Vec<SettingsProblem>),
}

/// How the files of `[tls]` were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsState {
    /// The settings name no certificate and key, or do not read.
    Off,
    /// A server can serve with them.
    Usable {
        /// The private key, if its group may read or write it.
        key_of_group: Option<PathBuf>,
    },
    /// It cannot, for this reason.
    Refused(String),
}

/// Something about the settings that works but should be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A file's group may write it.
    GroupMayWrite(PathBuf),
    /// A key was set that does nothing yet; in words.
    NotYetEffective(String),
    /// A key is ignored; in words.
    Ignored(String),
}

/// How the approvals document was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentState {
    /// There is no such file.
    Missing,
    /// It may be used, with these oddities in words.
    Ok(Vec<String>),
    /// It must not be used; why, in words.
    Refused(String),
}

/// The effective policy of one agent on the gateway host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRules {
    /// `main`, or an agent that the configuration names.
    pub agent: AgentId,
    /// Where its commands run, and the key that says so.
    pub host: (HostChoice, String),
    /// Effective security, and the key that set it.
    pub security: (Security, String),
    /// Effective ask, and the key that set it.
    pub ask: (Ask, String),
    /// The security that the settings ask for, where they say any.
    pub wanted_security: Option<(Security, String)>,
    /// The ask that they ask for, where they say any.
    pub wanted_ask: Option<(Ask, String)>,
    /// Effective fallback, and the key that set it.
    pub ask_fallback: (Security, String),
    /// The level that it was put on, if it was.
    pub isolation: Option<Isolation>,
    /// The sandbox that its commands may go to.
    pub sandbox: AgentSandbox,
    /// What the built-in backend would do otherwise than the settings say, in words.
    pub sandbox_remarks: Vec<String>,
}

/// Whether an agent's commands find a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSandbox {
    /// None of them goes to one.
    Unneeded,
    /// A server with these settings would use this backend.
    Usable(Backend),
    /// There is none, for this reason.
    Missing(String),
}

/// The level that commands reach, and what is to be known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IsolationState {
    /// Commands run under another account, as the settings or the last server say.
    SeparateUser {
        /// What the account of the server lacks, if anything.
        server: ServerAccount,
    },
    /// A trial showed that commands can be confined.
    Confined {
        /// Whether signals and abstract sockets stay inside, too.
        scopes: Scopes,
    },
    /// The server's own rights.
    SameUser {
        /// Why it is no better.
        why: String,
        /// What would make it better, where that is known.
        remedy: Option<&'static str>,
    },
}

impl IsolationState {
    /// The level itself.
    pub const fn level(&self) -> Isolation {
        match self {
            Self::SeparateUser { .. } => Isolation::SeparateUser,
            Self::Confined { .. } => Isolation::Confined,
            Self::SameUser { .. } => Isolation::SameUser,
        }
    }
}

/// Whose the server is when commands run under another account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAccount {
    /// One of its own.
    Own,
    /// Root's, since there is no other.
    Root,
}

/// Whether the kernel can keep signals and abstract sockets of commands inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scopes {
    /// The kernel keeps both inside.
    Kept,
    /// It is too old.
    Missing,
}

/// A file or directory that is for us alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    /// Where it lies; a link is not followed.
    pub path: PathBuf,
    /// Its permission bits as found, up to 0o7777.
    pub mode: u32,
    /// User id of its owner; compared with [`Snapshot::us`].
    pub owner: u32,
    /// The mode it should have.
    pub wanted: u32,
}

/// Whether the approvals socket can be what the settings say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketState {
    /// It can, or nothing is wanted of it.
    Fine,
    /// It cannot lie where it should, or be used there.
    Refused {
        /// Where the socket should lie.
        path: PathBuf,
        /// What stands against it, in words.
        why: String,
    },
    /// Another UI is to be asked, and the document names no token.
    NoToken,
}

/// The settings of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InForce {
    /// Values by key, secrets left out.
    pub values: BTreeMap<String, Value>,
    /// Values of its file that wait for a restart.
    pub waiting: Vec<WaitingSetting>,
    /// The stop that is in effect and not on record yet: who, when and why, in words.
    pub unrecorded_stop: Option<String>,
}

/// A changed setting that is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingSetting {
    /// Dotted key in `countersign.toml`, such as `http.listen`.
    pub key: String,
    /// What is in force and what waits, in words.
    pub explanation: String,
}

/// Whether a server runs on the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// No `server.json` can be read.
    NotRunning,
    /// Something accepts connections where `server.json` says.
    Running {
        /// What it says is in force; `None` when nobody could ask it, or when other files were to be looked at.
        in_force: Option<InForce>,
    },
    /// One did, and left this file without having stopped cleanly.
    Stale(PathBuf),
}
