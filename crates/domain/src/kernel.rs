//! What the kernel of a machine keeps of the commands there, and what happens where it does not.

use super::{Isolation, vocabulary};

vocabulary! {
    /// Something that the kernel can keep.
    pub enum KernelPart("starts, writes, connects, signals, scripts, held-texts or children") {
        /// Which programs a program starts (`confine.starts`).
        Starts = "starts",
        /// Where it writes (`confine.writes`).
        Writes = "writes",
        /// To which TCP ports it connects (`confine.connects`).
        Connects = "connects",
        /// Signals and abstract sockets stay inside.
        Signals = "signals",
        /// An interpreter reads the script that was judged.
        Scripts = "scripts",
        /// Texts that cannot be taken apart run with listed programs alone (`tools.exec.onMiss`).
        HeldTexts = "held-texts",
        /// Deny rules with `children` bind what a command starts.
        Children = "children",
    }
}

impl KernelPart {
    /// What a kernel needs for it.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Starts => "Landlock 1 (Linux 5.13)",
            Self::Writes => "Landlock 3 (Linux 6.2)",
            Self::Connects => "Landlock 4 (Linux 6.7)",
            Self::Signals => "Landlock 6 (Linux 6.12)",
            Self::Scripts => "seccomp user notification (Linux 5.14)",
            Self::HeldTexts => "Landlock 6 (Linux 6.12) and user namespaces",
            Self::Children => "user namespaces",
        }
    }

    /// The isolation levels of the gateway host at which it is kept.
    pub const fn levels(self) -> &'static [Isolation] {
        match self {
            Self::Starts | Self::Writes | Self::Connects | Self::Scripts => {
                &[Isolation::SameUser, Isolation::Confined, Isolation::SeparateUser]
            }
            Self::Signals | Self::HeldTexts | Self::Children => &[Isolation::Confined],
        }
    }

    /// What happens where it is not kept.
    pub const fn otherwise(self) -> &'static str {
        match self {
            Self::Starts => {
                "an entry with confine.starts covers nothing (confine-unavailable); without it the rules about the text decide"
            }
            Self::Writes => "an entry with confine.writes covers nothing (confine-unavailable)",
            Self::Connects => "an entry with confine.connects covers nothing (confine-unavailable)",
            Self::Signals => {
                "a command of the server's account can signal the server and reach its abstract sockets"
            }
            Self::Scripts => "a script is compared before it starts, and the record says not held",
            Self::HeldTexts => "a text that cannot be taken apart needs approval",
            Self::Children => {
                "a deny rule with children stops only the commands that name the program (children-not-kept)"
            }
        }
    }
}

/// What the kernel of a machine keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The version (ABI) of Landlock; 0 where there is none or it is switched off.
    pub landlock: u32,
    /// Each part once, in the order of [`KernelPart`].
    pub parts: Vec<KeptPart>,
}

/// Whether one part is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPart {
    /// Which.
    pub part: KernelPart,
    /// Why not, in words; `None` where it is kept at its [levels](KernelPart::levels).
    pub missing: Option<String>,
}
