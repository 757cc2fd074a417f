//! The closed vocabularies of settings.

use countersign_domain::{Ask, Security, vocabulary};

vocabulary! {
    /// How durable a launch is (`[database] durability`).
    pub enum Durability("normal or full") {
        /// Only launches that consume something are synced.
        Normal = "normal",
        /// Every launch is synced to disk.
        Full = "full",
    }
}

vocabulary! {
    /// Who hosts the approvals socket (`[ipc] role`).
    pub enum IpcRole("auto, host, client or off") {
        /// The process that is there first.
        Auto = "auto",
        /// We do.
        Host = "host",
        /// Another process does.
        Client = "client",
        /// Nobody.
        Off = "off",
    }
}

vocabulary! {
    /// What a policy change that widens needs (`[approvals] widening`).
    pub enum Widening("apply or ask") {
        /// Nothing.
        Apply = "apply",
        /// A second person.
        Ask = "ask",
    }
}

vocabulary! {
    /// How path and name patterns compare (`[policy] path_case`).
    pub enum PathCase("auto, sensitive or insensitive") {
        /// As the file system does.
        Auto = "auto",
        /// Upper and lower case differ.
        Sensitive = "sensitive",
        /// They do not.
        Insensitive = "insensitive",
    }
}

vocabulary! {
    /// The least isolation that is accepted (`[exec] isolation`).
    pub enum IsolationChoice("auto, separate-user, confined or same-user") {
        /// The best there is.
        Auto = "auto",
        /// Another account.
        SeparateUser = "separate-user",
        /// Prepared namespaces.
        Confined = "confined",
        /// The server's own rights.
        SameUser = "same-user",
    }
}

vocabulary! {
    /// What makes sandboxes (`[sandbox] backend`).
    pub enum SandboxBackend("auto, docker, builtin or off") {
        /// Docker where it answers, else the built-in one.
        Auto = "auto",
        /// Docker.
        Docker = "docker",
        /// Namespaces of our own.
        Builtin = "builtin",
        /// Nothing.
        Off = "off",
    }
}

vocabulary! {
    /// What becomes of background runs when the server stops (`[shutdown] background_runs`).
    pub enum BackgroundRuns("keep or kill") {
        /// They go on and are found again at the next start.
        Keep = "keep",
        /// They are killed.
        Kill = "kill",
    }
}

vocabulary! {
    /// The form of log lines (`[telemetry] log_format`).
    pub enum LogFormat("text or json") {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

vocabulary! {
    /// `tools.exec.mode`: security and ask in one word (`docs/spec/exec-tool.md#3-whether-it-runs`).
    pub enum ExecMode("deny, allowlist, ask, auto or full") {
        /// deny, off.
        Deny = "deny",
        /// allowlist, off.
        Allowlist = "allowlist",
        /// allowlist, on-miss.
        Ask = "ask",
        /// allowlist, on-miss.
        Auto = "auto",
        /// full, off.
        Full = "full",
    }
}

impl ExecMode {
    /// The security and ask it stands for.
    pub(crate) const fn pair(self) -> (Security, Ask) {
        match self {
            Self::Deny => (Security::Deny, Ask::Off),
            Self::Allowlist => (Security::Allowlist, Ask::Off),
            Self::Ask | Self::Auto => (Security::Allowlist, Ask::OnMiss),
            Self::Full => (Security::Full, Ask::Off),
        }
    }
}

vocabulary! {
    /// Which sessions are sandboxed (`agents.*.sandbox.mode`).
    pub enum SandboxMode("off, non-main or all") {
        /// None.
        Off = "off",
        /// All but the agent's main one.
        NonMain = "non-main",
        /// All.
        All = "all",
    }
}

vocabulary! {
    /// Who shares one sandbox (`agents.*.sandbox.scope`).
    pub enum SandboxScope("session, agent or shared") {
        /// Nobody.
        Session = "session",
        /// The sessions of an agent.
        Agent = "agent",
        /// Everybody.
        Shared = "shared",
    }
}

impl SandboxScope {
    /// What the old key `perSession` stands for.
    pub(super) const fn of_per_session(per_session: bool) -> Self {
        if per_session { Self::Session } else { Self::Shared }
    }
}

vocabulary! {
    /// What a sandbox sees of the workspace (`agents.*.sandbox.workspaceAccess`).
    pub enum WorkspaceAccess("none, ro or rw") {
        /// Nothing.
        None = "none",
        /// It can read it.
        Ro = "ro",
        /// It can write it.
        Rw = "rw",
    }
}
