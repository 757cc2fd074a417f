//! How wide an answer is: what an allow remembers, and for how long a deny lasts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use countersign_protocol::ByName;
use countersign_wire::approval::{ApprovalBody, GrantChoiceBody, MuteBody, PatternBody, ProposalBody};

use super::{candidates, context::Context, duration::parse_duration, failure::Failure, table::Table, value};

/// The proposal that an answer with a limit and without a name narrows.
const EXACT: &str = "exact";

/// What an allow remembers. With any of these it is `allow-always`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WidthArgs {
    /// Remember it as this proposal of the question: exact, arguments or program
    #[arg(long = "as", value_name = "PROPOSAL", add = candidates::proposals())]
    proposal: Option<String>,
    /// Remember it for this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lasting: Option<Duration>,
    /// Remember it for this many runs, this one among them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    uses: Option<u64>,
    /// Remember it for the session that asked
    #[arg(long)]
    this_session: bool,
    /// Remember it for commands in this directory and below it
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl WidthArgs {
    /// Whether the answer is to be remembered by any of them.
    pub(super) const fn is_given(&self) -> bool {
        self.proposal.is_some()
            || self.lasting.is_some()
            || self.uses.is_some()
            || self.this_session
            || self.directory.is_some()
    }

    /// The same for the session that asked.
    pub(super) fn in_this_session(mut self, wanted: bool) -> Self {
        self.this_session |= wanted;
        self
    }

    /// The grant of the answer to this question; nothing where none is wanted.
    pub(super) fn grant(
        self,
        context: &Context,
        question: &ApprovalBody,
    ) -> Result<Option<ByName<GrantChoiceBody>>, Failure> {
        if !self.is_given() {
            return Ok(None);
        }
        let Self {
            proposal,
            lasting,
            uses,
            this_session,
            directory,
        } = self;
        Ok(Some(ByName(GrantChoiceBody {
            proposal: proposal.unwrap_or_else(|| EXACT.to_owned()),
            expires_at_ms: lasting.map(|lasting| context.clock.now() + lasting),
            max_uses: uses,
            session_key: this_session.then(|| question.session_key.clone()),
            directory: directory.as_deref().map(real_path).transpose()?,
        })))
    }
}

/// For how long nobody is asked about the same command again, or about anything of its agent.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RefusalArgs {
    /// Deny the same command without a question for this time, at most 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    mute: Option<Duration>,
    /// Deny everything that its agent would have to be asked about for this time, at most 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "mute")]
    mute_agent: Option<Duration>,
    /// Deny the same command without a question for good
    #[arg(long, conflicts_with_all = ["mute", "mute_agent"])]
    never: bool,
}

impl RefusalArgs {
    /// Whether the deny is about more than one question.
    pub(super) const fn is_given(&self) -> bool {
        self.mute.is_some() || self.mute_agent.is_some() || self.never
    }

    /// The members of the decision.
    pub(super) fn members(&self, context: &Context) -> (Option<ByName<MuteBody>>, bool) {
        let until = |lasting, agent| {
            ByName(MuteBody {
                until_ms: context.clock.now() + lasting,
                agent,
            })
        };
        let command = self.mute.map(|lasting| until(lasting, false));
        let agent = self.mute_agent.map(|lasting| until(lasting, true));
        (command.or(agent), self.never)
    }
}

/// The path that the server compares with: no link in it.
fn real_path(directory: &Path) -> Result<String, Failure> {
    let refused = |why: &str| Failure::usage(format!("--directory {}: {why}", directory.display()));
    // The server may be on another machine, where the path means something else.
    let path = match fs::canonicalize(directory) {
        Ok(real) => real,
        Err(_) if directory.is_absolute() => directory.to_owned(),
        Err(error) => return Err(refused(&error.to_string())),
    };
    path.into_os_string()
        .into_string()
        .map_err(|_not_text| refused("its name is no text"))
}

/// The ways to remember a question, and what they would have saved.
pub(super) fn proposed(table: &mut Table, proposals: &[ProposalBody]) {
    for ProposalBody {
        id,
        words,
        stores: _,
        would_have_covered,
    } in proposals
    {
        let saved = would_have_covered
            .filter(|saved| saved.of > 0)
            .map(|saved| {
                let (covered, of) = (saved.covered, saved.of);
                format!("; would have covered {covered} of the last {of} questions")
            })
            .unwrap_or_default();
        table.fact(
            &format!("--as {id}"),
            &format!("{}{saved}", value::visible(words)),
        );
    }
}

/// What `allow-always` could store.
pub(super) fn proposed_patterns(table: &mut Table, patterns: &[PatternBody]) {
    for pattern in patterns {
        let name = if pattern.default {
            "always stores"
        } else {
            "could store"
        };
        table.fact(name, &rule_in_words(pattern));
        table.each("note", &pattern.note);
    }
}

/// A proposed pattern with its arguments.
pub(super) fn rule_in_words(pattern: &PatternBody) -> String {
    if let Some(shape) = &pattern.shape {
        let limits = pattern.limits.as_ref();
        let directory = limits.and_then(|limits| limits.directory.as_ref());
        let place = directory.map_or_else(String::new, |directory| format!(", in {directory} and below"));
        return format!("{shape}{place}");
    }
    let arguments = pattern.arg_pattern.as_deref().unwrap_or_default();
    format!("{} {arguments}", pattern.pattern).trim_end().to_owned()
}

/// Of which groups an approver must be; nothing for any.
pub(super) fn groups(groups: Option<&BTreeSet<String>>) -> String {
    match groups {
        Some(groups) if groups.is_empty() => "nobody is of the groups of all its parts".to_owned(),
        Some(groups) => value::joined(groups),
        None => String::new(),
    }
}
