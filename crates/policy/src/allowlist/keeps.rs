//! What can be kept of a command, and what is noted on the way for it.

use countersign_domain::{Confine, ProgramLimits, Starts};

use crate::command::Span;

/// What the kernel and the place of a call can keep of what an entry says, and what becomes of an entry that says more.
/// The default keeps nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is found out apart")]
pub struct Keeps {
    /// Which programs are started.
    pub starts: bool,
    /// The kernel of the place where the command runs cannot keep that, and a person should know where it would have by
    /// default.
    pub lacks_starts: bool,
    /// Where is written.
    pub writes: bool,
    /// To which TCP ports is connected.
    pub connects: bool,
    /// The isolation level lets programs that are set-uid, set-gid or have capabilities use them. Of a command with such a
    /// program nothing is kept.
    pub lets_gain: bool,
    /// An entry of which not all can be kept covers all the same (`tools.exec.confineFallback`).
    pub falls_back: bool,
    /// No command can read the files of the server, whatever its words are: the isolation level hides them (rule G23).
    pub own_files: bool,
}

impl Keeps {
    pub(super) fn can_keep(self, confine: &Confine) -> bool {
        let Confine {
            starts,
            writes,
            connects,
        } = confine;
        (self.starts || !lists_programs(starts.as_ref()))
            && (self.writes || writes.is_none())
            && (self.connects || connects.is_none())
    }
}

/// Whether programs are limited to a list.
pub(super) const fn lists_programs(starts: Option<&Starts>) -> bool {
    matches!(starts, Some(Starts::These { .. }))
}

/// Whether it says anything that has to be kept.
pub(super) fn limits_anything(confine: &Confine) -> bool {
    lists_programs(confine.starts.as_ref()) || confine.writes.is_some() || confine.connects.is_some()
}

/// What the limits of a program of the plan are made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum LimitsFrom {
    /// Nothing limits it.
    #[default]
    Nothing,
    /// What covers it, and what that says.
    Cover(Option<Confine>),
    /// A person is asked, and all that is missing is an entry.
    Question,
    /// What its payload starts.
    Payload(Vec<Limits>),
}

/// What is to be kept of a program of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) program: ProgramLimits,
    /// Whether an entry says so, and it is no default.
    pub(super) is_said: bool,
}

/// A segment whose entry says what is to be kept of it.
#[derive(Debug, Clone)]
pub(super) struct Explicit {
    pub(super) span: Span,
    pub(super) confine: Confine,
    /// It is covered with these arguments because of that alone (D1).
    pub(super) is_needed: bool,
}
