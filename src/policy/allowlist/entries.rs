//! Whether entries cover a program, and what strict inline eval says against it (M, I).

use super::{
    Match, MatchKind,
    coverage::{Candidate, Cover, Need},
    directory::Directory,
    evaluation::Evaluation,
    proposal::{Proposal, Remembered},
    work::{Judged, Work},
};
use crate::command::{Code, Rule, inline_eval, paths};

/// Words of a program that runs others which are looked at as interpreters; more count as code.
const MAX_INNER_WORDS: usize = 64;

/// Why only an entry with an argument pattern can cover a program.
pub(super) type Reason = (Code, &'static str, &'static str);

impl Evaluation<'_> {
    /// Looks for something that covers the segment; with a `reason`, only entries that name the arguments count.
    pub(super) fn judge_entries(&mut self, mut work: Work<'_>, reason: Option<Reason>) -> Judged {
        self.check_inline_eval(&mut work, reason);
        let need = if reason.is_some() {
            Need::Arguments
        } else {
            Need::Any
        };
        let cover = self.cover(&work, need);
        match cover {
            Ok(cover) if work.findings.is_empty() => self.covered(work, cover),
            Ok(_) => self.miss(work),
            Err(code) => {
                let proposal = self.remember(&work, reason);
                match reason {
                    Some((code, rule, detail)) => work.fail(code, rule, detail),
                    None if work.inline_eval => {}
                    None => {
                        let (rule, detail) = miss_text(code);
                        work.fail(code, rule, detail);
                    }
                }
                self.finish(work, Match::plain(MatchKind::None), vec![proposal])
            }
        }
    }

    /// The end of a segment that an entry covers.
    pub(super) fn covered(&mut self, work: Work<'_>, cover: Cover) -> Judged {
        self.credit(cover.credit);
        self.note_durable(cover.durable);
        self.finish(work, cover.matched, vec![Proposal::Covered])
    }

    /// What covers the program with its arguments.
    ///
    /// # Errors
    /// The code that says best why nothing does.
    pub(super) fn cover(&self, work: &Work<'_>, need: Need) -> Result<Cover, Code> {
        self.coverage().find(&Candidate {
            typed: work.typed(),
            executable: work.executable(),
            arguments: &work.arguments(),
            literal: work.has_literal_arguments(),
            directory: self.real_directory(work.place.directory).as_deref(),
            need,
        })
    }

    fn check_inline_eval(&mut self, work: &mut Work<'_>, reason: Option<Reason>) {
        if !self.policy.strict_inline_eval {
            return;
        }
        let arguments = work.arguments();
        let own = inline_eval::inline_eval(&work.names(), &arguments);
        // A program that runs another may run an interpreter.
        let inner = || {
            (0..arguments.len().min(MAX_INNER_WORDS)).find_map(|at| {
                let name = paths::base_name(arguments.get(at)?);
                match inline_eval::inline_eval(&[name], arguments.get(at + 1..)?)? {
                    found @ inline_eval::InlineEval::Argument(_) => Some(found),
                    inline_eval::InlineEval::StandardInput => None,
                }
            })
        };
        let found = own.or_else(|| reason.and_then(|_| inner()));
        let is_unseen = reason.is_some() && arguments.len() > MAX_INNER_WORDS;
        let is_code = is_unseen || matches!(found, Some(inline_eval::InlineEval::Argument(_)));
        let is_input = found == Some(inline_eval::InlineEval::StandardInput);
        if self.rules.holds(Rule::I1, is_code) {
            work.fail(Code::InlineEval, "I1", "code in an argument");
        } else if self.rules.holds(Rule::I2, is_input) {
            work.fail(Code::StdinEval, "I2", "code from standard input");
        } else {
            return;
        }
        work.inline_eval = true;
        self.inline_eval = true;
    }

    /// What a person's `allow-always` could store for an uncovered segment (A2).
    fn remember(&self, work: &Work<'_>, reason: Option<Reason>) -> Proposal {
        let Some(executable) = work.executable() else {
            return Proposal::Never;
        };
        let is_refused =
            reason.is_some() || !work.findings.is_empty() || !work.segment.assignments.is_empty();
        if self.rules.holds(Rule::A2, is_refused) || !self.rules.on(Rule::A1) {
            return Proposal::Never;
        }
        Remembered {
            real: &executable.real,
            names: &work.names(),
            arguments: &work.arguments(),
            has_literal_arguments: work.has_literal_arguments(),
            directory: self.real_directory(work.place.directory).as_deref(),
            strict_inline_eval: self.policy.strict_inline_eval,
        }
        .propose()
    }

    /// The real path of the directory a segment starts in, if it is certain.
    fn real_directory(&self, directory: &Directory) -> Option<String> {
        let known = directory.known()?;
        Some(self.lookup.real(known).unwrap_or_else(|| known.to_owned()))
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only a text depends on it, and the rest is the general miss"
)]
fn miss_text(code: Code) -> (&'static str, &'static str) {
    match code {
        Code::NotFound => ("P1", "no such executable is found"),
        Code::ArgPatternMiss => ("M4", "an entry names the program, but not with these arguments"),
        Code::GeneratedEntryInert => (
            "M5",
            "the only entry is a generated one without its directory and arguments",
        ),
        Code::SafeBinFlag => ("SB2", "a flag outside the safe bin's profile"),
        Code::SafeBinOperand => ("SB4", "an operand outside the safe bin's profile"),
        Code::SafeBinUntrusted => ("SB5", "the safe bin does not lie in a trusted directory"),
        _ => ("M1", "no entry covers this"),
    }
}
