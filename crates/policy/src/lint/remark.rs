//! One thing that is odd, and about what.

use countersign_domain::vocabulary;

/// What a remark is about: the place of an item in the list that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// An allowlist entry.
    Entry(usize),
    /// A grant.
    Grant(usize),
    /// A deny rule.
    DenyRule(usize),
}

vocabulary! {
    /// What is odd.
    pub enum RemarkCode("what is odd about a rule") {
        /// It never matches anything.
        NeverMatches = "never-matches",
        /// One before it matches everything that it does.
        Shadowed = "shadowed",
        /// A deny rule matches everything that it does.
        Denied = "denied",
        /// It covers far more than a program or a directory of programs.
        TooBroad = "too-broad",
        /// It lets an interpreter run any code.
        Interpreter = "interpreter",
        /// The program runs what its arguments say, so a pattern without arguments does not cover it.
        NeedsArguments = "needs-arguments",
        /// Others may put a program where it looks.
        WritableDirectory = "writable-directory",
        /// There is no such program.
        MissingFile = "missing-file",
        /// Its `confine` is not understood, so it covers nothing.
        ConfineNotUnderstood = "confine-not-understood",
        /// Its `confine` lets its program do nearly anything.
        ConfineTooWide = "confine-too-wide",
        /// A part of its `confine` says nothing.
        ConfineIdle = "confine-idle",
        /// A deny rule with `children` where the isolation level does not keep them.
        ChildrenNotKept = "children-not-kept",
        /// A grant whose time is over.
        Expired = "expired",
        /// A grant without a use left.
        UsedUp = "used-up",
        /// A safe bin that has no profile.
        SafeBinWithoutProfile = "safe-bin-without-profile",
        /// A safe bin that never counts as one.
        SafeBinRefused = "safe-bin-refused",
    }
}

/// How much a remark matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The rule does nothing, and nothing is lost by it.
    Idle,
    /// The rule allows more, or forbids less, than it seems to.
    Risky,
}

impl RemarkCode {
    /// How much it matters.
    pub const fn weight(self) -> Weight {
        match self {
            Self::TooBroad
            | Self::Interpreter
            | Self::WritableDirectory
            | Self::NeverMatches
            | Self::ConfineNotUnderstood
            | Self::ConfineTooWide
            | Self::ChildrenNotKept => Weight::Risky,
            Self::Shadowed
            | Self::Denied
            | Self::NeedsArguments
            | Self::MissingFile
            | Self::ConfineIdle
            | Self::Expired
            | Self::UsedUp
            | Self::SafeBinWithoutProfile
            | Self::SafeBinRefused => Weight::Idle,
        }
    }
}

/// One thing that is odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What is odd; [`RemarkCode::weight`] says how much that matters.
    pub code: RemarkCode,
    /// In words, without the pattern itself.
    pub message: String,
}

impl Remark {
    pub(super) fn new(code: RemarkCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}
