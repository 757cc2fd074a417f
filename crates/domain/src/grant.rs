//! Answers of the right width: what an `allow-always` can leave behind, and what limits it
//! (`docs/spec/http-api.md#answers-of-the-right-width`). Pure. Entry points: [`proposals`], [`GrantChoice::stores`].

use sha2::{Digest as _, Sha256};

use super::{
    ApprovalId, EntryId, GrantLimits, Pattern, PatternWidth, SessionKey, UnixMillis,
    grant_limits::{is_plain_directory, is_within},
};

/// The beginning of a pattern that stands for one exact text.
const TEXT_MARKER: &str = "=command:";

/// One way to remember a command: the entries that would be stored together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The widest of its entries, by which an answer names it.
    pub id: PatternWidth,
    /// The entries.
    pub stores: Vec<Pattern>,
}

/// Which proposal a person chose, and how they narrowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantChoice {
    /// The id of one of the proposals of the question.
    pub proposal: PatternWidth,
    /// What limits it further.
    pub limits: GrantLimits,
}

/// What a question says of itself, for a choice to be compared with.
#[derive(Debug, Clone, Copy)]
pub struct GrantScope<'a> {
    /// What is proposed.
    pub patterns: &'a [Pattern],
    /// The session that asked.
    pub session: &'a SessionKey,
    /// The real path of the directory.
    pub directory: &'a str,
    /// Whether entries can be limited at all: a node stores them in its own document, which knows no limits of ours.
    pub keeps_limits: bool,
    /// The present time.
    pub now: UnixMillis,
}

/// Why a choice is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// It names nothing that was proposed.
    #[error("grant.proposal: it is the id of none of the proposals of this question")]
    NotProposed,
    /// It would be for another session.
    #[error("grant.sessionKey: it is not the session that asked")]
    OtherSession,
    /// It would be for another directory.
    #[error("grant.directory: the directory of this question, or of a part of its command, is not in it")]
    OtherDirectory,
    /// It would end before it begins.
    #[error("grant.expiresAtMs: it has passed")]
    Over,
    /// What stores it would not keep the limits.
    #[error(
        "grant: a node stores entries in its own document, where nothing limits them; answer without limits"
    )]
    NotKept,
    /// An exact text cannot be limited.
    #[error("grant: an entry for an exact text cannot be limited; answer without limits, or allow-once")]
    ExactText,
}

impl NoGrant {
    /// Whether the answer would allow more than was proposed.
    pub const fn is_wider(self) -> bool {
        match self {
            Self::NotProposed | Self::OtherSession | Self::OtherDirectory => true,
            Self::Over | Self::NotKept | Self::ExactText => false,
        }
    }
}

/// The ways to remember a command, from the narrowest to the widest; none where it cannot be remembered. Each stores for
/// every part of the command its entry of that width, or its exact one where it has no other.
pub fn proposals(patterns: &[Pattern]) -> Vec<Proposal> {
    let of_width = |width: PatternWidth| {
        let mut stores: Vec<Pattern> = Vec::new();
        for (exact, own) in parts(patterns) {
            let stored = variant(patterns, (exact, own), width).unwrap_or(exact);
            if !stores.contains(stored) {
                stores.push(stored.clone());
            }
        }
        let is_of_it = stores.iter().any(|stored| stored.width == width);
        is_of_it.then_some(Proposal { id: width, stores })
    };
    PatternWidth::ALL.iter().copied().filter_map(of_width).collect()
}

/// The parts of a command: the exact pattern of each, with the wider ones that were made of it and follow it.
fn parts(patterns: &[Pattern]) -> impl Iterator<Item = (&Pattern, &[Pattern])> {
    let exact = patterns.iter().enumerate().filter(|(_, pattern)| pattern.default);
    exact.map(|(at, exact)| {
        let behind = patterns.get(at + 1..).unwrap_or_default();
        let own = behind.iter().take_while(|pattern| !pattern.default).count();
        (exact, behind.get(..own).unwrap_or_default())
    })
}

/// The pattern of this width that covers what an exact one covers.
fn variant<'a>(
    patterns: &'a [Pattern],
    (exact, own): (&Pattern, &'a [Pattern]),
    width: PatternWidth,
) -> Option<&'a Pattern> {
    let is_of_it = |pattern: &&Pattern| pattern.width == width && pattern.pattern == exact.pattern;
    match width {
        PatternWidth::Exact => None,
        PatternWidth::Arguments => own.iter().find(is_of_it),
        // The same program twice is proposed once.
        PatternWidth::Program => patterns.iter().find(is_of_it),
    }
}

/// Whether entries would cover another command, of which this was proposed.
pub fn would_cover(stored: &[Pattern], proposed: &[Pattern]) -> bool {
    let mut parts = parts(proposed).peekable();
    let covers = |wanted: &Pattern| {
        stored.iter().any(|entry| {
            let directory = wanted.limits.directory.as_deref();
            let is_below = entry
                .limits
                .directory
                .as_deref()
                .is_none_or(|limit| directory.is_some_and(|directory| is_within(directory, limit)));
            entry.pattern == wanted.pattern && entry.arg_pattern == wanted.arg_pattern && is_below
        })
    };
    parts.peek().is_some()
        && parts.all(|part| {
            covers(part.0)
                || [PatternWidth::Arguments, PatternWidth::Program]
                    .into_iter()
                    .filter_map(|width| variant(proposed, part, width))
                    .any(covers)
        })
}

impl Proposal {
    /// What it stores, in one line.
    pub fn words(&self) -> String {
        stored_words(&self.stores)
    }
}

impl GrantChoice {
    /// The entries that are stored, each with what limits it.
    ///
    /// # Errors
    /// [`NoGrant`] where it is not one of the proposals, or would not narrow it.
    pub fn stores(&self, scope: &GrantScope<'_>) -> Result<Vec<Pattern>, NoGrant> {
        let Self { proposal, limits } = self;
        let proposed = proposals(scope.patterns)
            .into_iter()
            .find(|proposed| proposed.id == *proposal)
            .ok_or(NoGrant::NotProposed)?;
        if limits
            .session
            .as_ref()
            .is_some_and(|session| session != scope.session)
        {
            return Err(NoGrant::OtherSession);
        }
        if limits
            .directory
            .as_deref()
            .is_some_and(|directory| !is_plain_directory(directory) || !is_within(scope.directory, directory))
        {
            return Err(NoGrant::OtherDirectory);
        }
        if limits.expires_at.is_some_and(|at| at <= scope.now) {
            return Err(NoGrant::Over);
        }
        let limited = |pattern: Pattern| {
            let limits = pattern.limits.and(limits).ok_or(NoGrant::OtherDirectory)?;
            Ok(Pattern { limits, ..pattern })
        };
        let stores: Vec<Pattern> = proposed
            .stores
            .into_iter()
            .map(limited)
            .collect::<Result<_, _>>()?;
        let mut limited = stores.iter().filter(|stored| !stored.limits.is_none()).peekable();
        if limited.peek().is_some() && !scope.keeps_limits {
            return Err(NoGrant::NotKept);
        }
        if limited.any(|stored| stored.pattern.starts_with(TEXT_MARKER)) {
            return Err(NoGrant::ExactText);
        }
        Ok(stores)
    }
}

/// What entries cover, in one line; empty without any.
pub fn stored_words(stored: &[Pattern]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for pattern in stored {
        let what = match (pattern.width, &pattern.shape) {
            (PatternWidth::Exact, _) if pattern.pattern.starts_with(TEXT_MARKER) => {
                "exactly this text".to_owned()
            }
            (PatternWidth::Exact, _) => {
                format!(
                    "{} with exactly these arguments in this directory",
                    pattern.pattern
                )
            }
            (PatternWidth::Arguments, Some(shape)) => shape.clone(),
            (PatternWidth::Arguments, None) => format!("{} with arguments of this form", pattern.pattern),
            (PatternWidth::Program, _) => format!("{} with any arguments", pattern.pattern),
        };
        let part = what + &pattern.limits.words();
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join("; ")
}

/// The id of the entry that an answer leaves of a pattern. It follows from both, so that writing it twice changes nothing,
/// and a use can be counted before it is written.
pub fn entry_id(approval: &ApprovalId, pattern: &Pattern) -> EntryId {
    id_of(&serde_json::json!([
        approval,
        pattern.segment,
        pattern.pattern,
        pattern.arg_pattern
    ]))
}

/// The id of the deny rule that an answer leaves about its command.
pub fn deny_rule_id(approval: &ApprovalId) -> EntryId {
    id_of(&serde_json::json!([approval, "deny"]))
}

/// The id of the deny rule that an answer leaves about all questions of its agent. The same answer may leave one about its
/// command as well.
pub fn mute_rule_id(approval: &ApprovalId) -> EntryId {
    id_of(&serde_json::json!([approval, "mute"]))
}

fn id_of(origin: &serde_json::Value) -> EntryId {
    let text = origin.to_string();
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(digest) {
        *to = from;
    }
    let uuid = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    EntryId::parse(uuid.to_string()).expect("a UUID is an id")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(segment: usize, name: &str, width: PatternWidth, arguments: Option<&str>) -> Pattern {
        let in_srv = GrantLimits {
            directory: Some("/srv/p".to_owned()),
            ..GrantLimits::default()
        };
        let is_shape = width == PatternWidth::Arguments;
        Pattern {
            segment,
            pattern: name.to_owned(),
            arg_pattern: arguments.map(str::to_owned),
            source: None,
            width,
            default: width == PatternWidth::Exact,
            shape: is_shape.then(|| "git push origin *".to_owned()),
            limits: if is_shape { in_srv } else { GrantLimits::default() },
        }
    }

    fn git_push(digest: &str) -> Vec<Pattern> {
        vec![
            pattern(0, "/usr/bin/git", PatternWidth::Exact, Some(digest)),
            pattern(
                0,
                "/usr/bin/git",
                PatternWidth::Arguments,
                Some("^push origin x$"),
            ),
            pattern(0, "/usr/bin/git", PatternWidth::Program, None),
        ]
    }

    fn session(key: &str) -> SessionKey {
        SessionKey::parse(key.to_owned()).unwrap()
    }

    fn stores(id: PatternWidth, limits: GrantLimits, keeps_limits: bool) -> Result<Vec<Pattern>, NoGrant> {
        let choice = GrantChoice { proposal: id, limits };
        choice.stores(&GrantScope {
            patterns: &git_push("d1"),
            session: &session("agent:main:main"),
            directory: "/srv/p",
            keeps_limits,
            now: UnixMillis::new(1_000),
        })
    }

    #[test]
    fn a_proposal_has_one_entry_for_each_part() {
        let mut patterns = git_push("d1");
        patterns.push(pattern(1, "/usr/bin/make", PatternWidth::Exact, Some("d2")));
        let ids = |patterns: &[Pattern]| -> Vec<(PatternWidth, usize)> {
            let found = proposals(patterns);
            found.iter().map(|one| (one.id, one.stores.len())).collect()
        };
        assert_eq!(
            ids(&patterns),
            [
                (PatternWidth::Exact, 2),
                (PatternWidth::Arguments, 2),
                (PatternWidth::Program, 2)
            ]
        );
        // Nothing but the exact entry exists of an interpreter.
        assert_eq!(ids(&patterns[3..]), [(PatternWidth::Exact, 1)]);
        assert_eq!(ids(&[]), []);
        assert_eq!(
            proposals(&patterns)[1].words(),
            "git push origin *, in /srv/p and below; /usr/bin/make with exactly these arguments in this directory"
        );
    }

    #[test]
    fn limits_only_narrow() {
        let none = GrantLimits::default;
        let with = |change: &dyn Fn(&mut GrantLimits)| {
            let mut limits = none();
            change(&mut limits);
            limits
        };
        let program = PatternWidth::Program;
        for (limits, expected) in [
            (
                with(&|l| l.session = Some(session("agent:main:other"))),
                NoGrant::OtherSession,
            ),
            (
                with(&|l| l.directory = Some("/srv/q".to_owned())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.directory = Some("/srv/p/below".to_owned())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.directory = Some("/srv/p/../p".to_owned())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.directory = Some("/sr".to_owned())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.directory = Some("srv".to_owned())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.directory = Some(String::new())),
                NoGrant::OtherDirectory,
            ),
            (
                with(&|l| l.expires_at = Some(UnixMillis::new(1_000))),
                NoGrant::Over,
            ),
        ] {
            assert_eq!(stores(program, limits.clone(), true), Err(expected), "{limits:?}");
        }
        let limits = with(&|l| l.max_uses = Some(3));
        assert_eq!(stores(program, limits.clone(), false), Err(NoGrant::NotKept));
        assert_eq!(stores(program, limits, true).unwrap()[0].limits.max_uses, Some(3));
        // A shape stays in the directory that was asked about, even where the answer names one above it.
        let above = with(&|l| l.directory = Some("/srv".to_owned()));
        let shape = stores(PatternWidth::Arguments, above.clone(), true).unwrap();
        assert_eq!(shape[0].limits.directory.as_deref(), Some("/srv/p"));
        let any = stores(program, above, true).unwrap();
        assert_eq!(any[0].limits.directory.as_deref(), Some("/srv"));
    }

    #[test]
    fn a_part_that_starts_elsewhere_is_not_moved_to_where_the_question_is() {
        let mut patterns = git_push("d1");
        patterns[1].limits.directory = Some("/srv/other".to_owned());
        let asked = |directory: &str| {
            let choice = GrantChoice {
                proposal: PatternWidth::Arguments,
                limits: GrantLimits {
                    directory: Some(directory.to_owned()),
                    ..GrantLimits::default()
                },
            };
            let scope = GrantScope {
                patterns: &patterns,
                session: &session("agent:main:main"),
                directory: "/srv/p",
                keeps_limits: true,
                now: UnixMillis::new(0),
            };
            choice.stores(&scope)
        };
        assert_eq!(asked("/srv/p"), Err(NoGrant::OtherDirectory));
        let above = asked("/srv").unwrap();
        assert_eq!(above[0].limits.directory.as_deref(), Some("/srv/other"));
    }

    #[test]
    fn each_part_of_a_payload_has_the_shape_that_was_made_of_it() {
        // Of `sh -c 'git push origin main && git fetch origin main'`: both parts are of one segment.
        let mut patterns = git_push("d1");
        let mut fetch = git_push("d2");
        fetch[1].arg_pattern = Some("fetch".to_owned());
        fetch.truncate(2);
        patterns.extend(fetch);
        let stored = proposals(&patterns)
            .into_iter()
            .find(|one| one.id == PatternWidth::Arguments)
            .map(|one| one.stores);
        let arguments: Vec<_> = stored
            .iter()
            .flatten()
            .map(|one| one.arg_pattern.as_deref())
            .collect();
        assert_eq!(arguments, [patterns[1].arg_pattern.as_deref(), Some("fetch")]);
    }

    #[test]
    fn what_is_proposed_with_limits_is_not_stored_where_they_are_not_kept() {
        let patterns = git_push("d1");
        let choice = GrantChoice {
            proposal: PatternWidth::Arguments,
            limits: GrantLimits::default(),
        };
        let scope = GrantScope {
            patterns: &patterns,
            session: &session("agent:main:main"),
            directory: "/srv/p",
            keeps_limits: false,
            now: UnixMillis::new(0),
        };
        assert_eq!(choice.stores(&scope), Err(NoGrant::NotKept));
    }

    #[test]
    fn an_exact_text_is_remembered_for_good_or_not_at_all() {
        let patterns = [pattern(0, "=command:0123456789abcdef", PatternWidth::Exact, None)];
        let choice = |limits| GrantChoice {
            proposal: PatternWidth::Exact,
            limits,
        };
        let scope = GrantScope {
            patterns: &patterns,
            session: &session("agent:main:main"),
            directory: "/srv/p",
            keeps_limits: true,
            now: UnixMillis::new(0),
        };
        assert!(choice(GrantLimits::default()).stores(&scope).is_ok());
        let limits = GrantLimits {
            max_uses: Some(2),
            ..GrantLimits::default()
        };
        assert_eq!(choice(limits).stores(&scope), Err(NoGrant::ExactText));
    }

    #[test]
    fn a_question_is_covered_by_an_entry_that_was_proposed_of_it_too() {
        let of = |id| {
            let found = proposals(&git_push("d1")).into_iter().find(|one| one.id == id);
            found.unwrap().stores
        };
        let other = git_push("d2");
        assert!(!would_cover(&of(PatternWidth::Exact), &other));
        assert!(would_cover(&of(PatternWidth::Arguments), &other));
        assert!(would_cover(&of(PatternWidth::Program), &other));
        let mut elsewhere = other.clone();
        elsewhere[1].limits.directory = Some("/srv/other".to_owned());
        assert!(!would_cover(&of(PatternWidth::Arguments), &elsewhere));
        let mut two = other;
        two.push(pattern(1, "/usr/bin/make", PatternWidth::Exact, Some("d3")));
        assert!(!would_cover(&of(PatternWidth::Program), &two));
        // What cannot be remembered is covered by nothing.
        assert!(!would_cover(&of(PatternWidth::Program), &[]));
    }

    proptest! {
        #[test]
        fn what_is_stored_is_never_wider_than_what_was_proposed(
            uses in proptest::option::of(1_u64..5), at in proptest::option::of(1_001_i64..9_000), up in 0_usize..3,
        ) {
            let directory = ["/srv/p", "/srv", "/"][up];
            let limits = GrantLimits {
                expires_at: at.map(UnixMillis::new),
                max_uses: uses,
                session: None,
                directory: Some(directory.to_owned()),
            };
            for proposed in proposals(&git_push("d1")) {
                let stored = stores(proposed.id, limits.clone(), true).unwrap();
                prop_assert_eq!(stored.len(), proposed.stores.len());
                for (stored, proposed) in stored.iter().zip(&proposed.stores) {
                    prop_assert_eq!((&stored.pattern, &stored.arg_pattern), (&proposed.pattern, &proposed.arg_pattern));
                    let limit = stored.limits.directory.as_deref().unwrap_or("/");
                    prop_assert!(is_within(limit, proposed.limits.directory.as_deref().unwrap_or("/")));
                    prop_assert_eq!(stored.limits.max_uses, uses);
                }
            }
        }
    }
}
