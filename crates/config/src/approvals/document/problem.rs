//! What can be wrong with a document: why it is refused, and what is odd about one that may be used.

use countersign_domain::vocabulary;

/// A larger document is refused: 16 MiB, room for 125,000 entries with their ids.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

vocabulary! {
    /// Why a document is refused; while it is, everything is denied.
    pub enum RefusalReason("a reason why a document is refused") {
        /// Nothing but white space.
        Empty = "empty",
        /// Starts with a byte order mark.
        Bom = "bom",
        /// Not valid UTF-8.
        NotUtf8 = "not-utf8",
        /// Not one JSON value.
        Json = "json",
        /// A member name twice in one object.
        DuplicateKey = "duplicate-key",
        /// A number that is not finite as a double.
        NumberRange = "number-range",
        /// The root is no object.
        NotObject = "not-object",
        /// The version is not the number 1.
        Version = "version",
        /// A known member has the wrong JSON type.
        Type = "type",
        /// A known member has a value outside its set.
        Value = "value",
        /// An entry without a pattern.
        MissingPattern = "missing-pattern",
        /// A pattern that is empty after trimming.
        BlankPattern = "blank-pattern",
        /// Over 16 MiB.
        TooLarge = "too-large",
        /// The path is a symlink.
        Symlink = "symlink",
        /// A parent below the home directory is a symlink.
        SymlinkParent = "symlink-parent",
        /// Neither absent nor a regular file.
        NotRegularFile = "not-regular-file",
        /// Writable by group or others.
        UnsafeMode = "unsafe-mode",
        /// Owned by another user.
        WrongOwner = "wrong-owner",
        /// Any other read error.
        Io = "io",
    }
}

impl RefusalReason {
    /// The same for people.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Empty => "it is empty",
            Self::Bom => "it begins with a byte order mark",
            Self::NotUtf8 => "it is not UTF-8 text",
            Self::Json => "it is not one JSON value",
            Self::DuplicateKey => "a member is there twice",
            Self::NumberRange => "a number is too large",
            Self::NotObject => "it is not an object",
            Self::Version => "its version is not the number 1",
            Self::Type => "a member has the wrong type",
            Self::Value => "a member has a value that is not one of its words",
            Self::MissingPattern => "an entry has no pattern",
            Self::BlankPattern => "a pattern is empty",
            Self::TooLarge => "it is too large",
            Self::Symlink => "its path is a link",
            Self::SymlinkParent => "a directory of its path is a link",
            Self::NotRegularFile => "it is not a regular file",
            Self::UnsafeMode => "group or others may write it",
            Self::WrongOwner => "it belongs to another user",
            Self::Io => "it cannot be read",
        }
    }
}

/// A document that must not be used, and must not be overwritten either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the approvals document is refused: {}{}", self.in_words(), at(.pointer))]
pub struct Refusal {
    /// The first reason found; the document may have more.
    pub reason: RefusalReason,
    /// A JSON pointer to the place; the bare member name for a duplicate, empty for the whole.
    pub pointer: String,
    /// How large a document is that is too large.
    pub size: Option<u64>,
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!(" at {pointer}")
    }
}

impl Refusal {
    /// Refuses the document as a whole.
    pub const fn whole(reason: RefusalReason) -> Self {
        Self {
            reason,
            pointer: String::new(),
            size: None,
        }
    }

    /// Refuses a document of so many bytes.
    pub fn too_large(size: u64) -> Self {
        Self {
            size: Some(size),
            ..Self::whole(RefusalReason::TooLarge)
        }
    }

    /// The reason, and what a person needs to know of it to do something about it.
    pub fn in_words(&self) -> String {
        let Self { reason, size, .. } = self;
        match size {
            Some(size) => format!("{reason}, {size} bytes of at most {MAX_BYTES}"),
            None => format!("{} ({reason})", reason.in_words()),
        }
    }
}

/// Something that does not keep a document from being used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Warning {
    /// Group or others may read the file, and the token in it.
    #[error("group or others may read the approvals document")]
    LooseMode,
    /// Half a surrogate pair was read as U+FFFD.
    #[error("half a surrogate pair was replaced at {pointer}")]
    LoneSurrogate {
        /// Where, in the document as written.
        pointer: String,
    },
    /// An id is no UUID: early macOS apps cannot read such a document and overwrite it.
    #[error("the id at {pointer} is not a UUID, which early macOS apps cannot read")]
    IdNotUuid {
        /// Where, in the document as normalised.
        pointer: String,
    },
    /// An id stood twice in a list; the later one got another id.
    #[error("the id at {pointer} occurred before and was replaced")]
    DuplicateId {
        /// Where, in the document as normalised.
        pointer: String,
    },
}

impl Warning {
    /// The stable word for it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::LooseMode => "loose-mode",
            Self::LoneSurrogate { .. } => "lone-surrogate",
            Self::IdNotUuid { .. } => "id-not-uuid",
            Self::DuplicateId { .. } => "duplicate-id",
        }
    }
}
