//! Where a command runs and how strictly it is judged (`docs/spec/exec-tool.md#2-where-it-runs` and
//! `docs/spec/exec-tool.md#3-whether-it-runs`).

use super::vocabulary;

vocabulary! {
    /// A host that runs commands. `auto` is a wish ([`HostChoice`]), never a place.
    pub enum Host("sandbox, gateway or node") {
        /// A confined place without approvals.
        Sandbox = "sandbox",
        /// The machine the server runs on.
        Gateway = "gateway",
        /// A paired remote machine.
        Node = "node",
    }
}

vocabulary! {
    /// What a call or a setting may say about the host.
    pub enum HostChoice("auto, sandbox, gateway or node") {
        /// The sandbox if one is active for the session, else the gateway.
        Auto = "auto",
        /// [`Host::Sandbox`].
        Sandbox = "sandbox",
        /// [`Host::Gateway`].
        Gateway = "gateway",
        /// [`Host::Node`].
        Node = "node",
    }
}

vocabulary! {
    /// The level of an elevated call (`agents.defaults.elevatedDefault`).
    pub enum ElevatedLevel("off, on, ask or full") {
        /// Not at all.
        Off = "off",
        /// Out of the sandbox.
        On = "on",
        /// The same as `on`.
        Ask = "ask",
        /// And without asking.
        Full = "full",
    }
}

impl From<Host> for HostChoice {
    fn from(host: Host) -> Self {
        match host {
            Host::Sandbox => Self::Sandbox,
            Host::Gateway => Self::Gateway,
            Host::Node => Self::Node,
        }
    }
}

vocabulary! {
    /// Enforcement for gateway and node, ordered from strictest to loosest: combining layers is `min`.
    pub enum Security("deny, allowlist or full") {
        /// Nothing runs.
        Deny = "deny",
        /// Only what the allowlist covers, or what a person allows.
        Allowlist = "allowlist",
        /// Everything runs.
        Full = "full",
    }
}

vocabulary! {
    /// When a person is asked, ordered from least to most insistent: combining layers is `max`.
    pub enum Ask("off, on-miss or always") {
        /// Never.
        Off = "off",
        /// When the allowlist does not cover the command.
        OnMiss = "on-miss",
        /// Every time.
        Always = "always",
    }
}

vocabulary! {
    /// What happens to an allowlist miss that would be asked (`tools.exec.onMiss`).
    pub enum OnMiss("ask, sandbox or held") {
        /// A person is asked.
        Ask = "ask",
        /// The command runs confined instead.
        Sandbox = "sandbox",
        /// A text that cannot be taken apart runs where only listed programs can be executed; any other miss is asked.
        Held = "held",
    }
}

vocabulary! {
    /// What makes a sandbox.
    pub enum Backend("docker or builtin") {
        /// A Docker engine.
        Docker = "docker",
        /// Namespaces of our own.
        Builtin = "builtin",
    }
}

vocabulary! {
    /// What becomes of processes that a foreground command leaves behind (`tools.exec.leftovers`).
    pub enum Leftovers("kill or keep") {
        /// They are killed 500 ms after the command ended.
        Kill = "kill",
        /// They stay.
        Keep = "keep",
    }
}

vocabulary! {
    /// What becomes of an entry whose `confine` cannot be kept (`tools.exec.confineFallback`).
    pub enum ConfineFallback("refuse or text") {
        /// It covers nothing.
        Refuse = "refuse",
        /// It covers, and the rules about the text count alone.
        Text = "text",
    }
}

vocabulary! {
    /// Whether a program that needs no shell is started without one (`[exec] direct`).
    pub enum DirectStarts("auto or off") {
        /// Where that is known to be the same.
        Auto = "auto",
        /// The shell starts every text.
        Off = "off",
    }
}

vocabulary! {
    /// As whom and how confined a command runs (`docs/decisions/0010-who-may-answer.md`), from weakest to strongest.
    pub enum Isolation("separate-user, confined or same-user") {
        /// With the server's own rights.
        SameUser = "same-user",
        /// With the server's uid inside prepared namespaces.
        Confined = "confined",
        /// Under another account.
        SeparateUser = "separate-user",
        /// In a sandbox.
        Sandbox = "sandbox",
        /// On a node, which has its own level.
        Node = "node",
    }
}
