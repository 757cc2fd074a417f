//! Whether entries cover a program, and what strict inline eval says against it (M, I).

use countersign_domain::{Confine, Starts};

use super::{
    Match, MatchKind, Typing,
    coverage::{Candidate, Cover, Coverage, Need},
    directory::Directory,
    evaluation::Evaluation,
    keeps::LimitsFrom,
    proposal::{Proposal, Remembered},
    unseen::is_fed,
    work::{EvaluatedSegment, Work},
};
use crate::command::{
    Code, Executable, Rule, inline_eval,
    names::{self, NameClass},
    paths, shell,
};

/// Words of a program that runs others which are looked at as interpreters; more count as code.
const MAX_INNER_WORDS: usize = 64;

/// Why only an entry with an argument pattern can cover a program.
pub(super) type Reason = (Code, &'static str, &'static str);

impl Evaluation<'_> {
    /// Looks for something that covers the segment; with a `reason`, only entries that name the arguments count.
    pub(super) fn evaluate_entries(&mut self, work: Work<'_>, reason: Option<Reason>) -> EvaluatedSegment {
        let need = if reason.is_some() {
            Need::Arguments
        } else {
            Need::Any
        };
        self.evaluate_entries_for(work, reason, need)
    }

    /// The same for what is needed of entries.
    pub(super) fn evaluate_entries_for(
        &mut self,
        mut work: Work<'_>,
        reason: Option<Reason>,
        need: Need,
    ) -> EvaluatedSegment {
        self.check_inline_eval(&mut work, reason.is_some());
        let cover = self.cover(&work, need);
        match cover {
            Ok(cover) if work.findings.is_empty() => self.covered(work, cover),
            Ok(_) => self.miss(work),
            Err(code) => {
                let proposal = if code == Code::ConfineUnavailable {
                    // It would cover more than the entry that is there.
                    Proposal::Never
                } else {
                    self.remember(&work, reason)
                };
                let spent = self.spent_grant(&work, need);
                if !self.has_one_script(&work) {
                    work.notes
                        .push("which file it would run as its script cannot be told for certain");
                }
                if !work.executable().is_none_or(Executable::is_identified_by_path) {
                    work.notes
                        .push("its file is another program under another name, so it is not remembered");
                }
                match (reason, spent) {
                    (_, None) if matches!(code, Code::OpenInput | Code::ConfineUnavailable) => {
                        let (rule, detail) = miss_text(code);
                        work.fail(code, rule, detail);
                    }
                    (Some((code, rule, detail)), spent) => work.fail(code, rule, spent.unwrap_or(detail)),
                    (None, _) if work.inline_eval => {}
                    (None, spent) => {
                        let (rule, detail) = miss_text(code);
                        work.fail(code, rule, spent.unwrap_or(detail));
                    }
                }
                let lacks_only_entry =
                    matches!(work.findings.as_slice(), [only] if only.code == Code::NotAllowlisted);
                if lacks_only_entry {
                    work.limits_from = LimitsFrom::Question;
                }
                self.finish(work, Match::plain(MatchKind::None), vec![proposal])
            }
        }
    }

    /// The end of a segment that an entry covers.
    pub(super) fn covered(&mut self, mut work: Work<'_>, cover: Cover) -> EvaluatedSegment {
        let says_where = |confine: &Confine| confine.writes.is_some();
        if matches!(&cover.limits, LimitsFrom::Cover(Some(confine)) if says_where(confine))
            && self.rules.on(Rule::C1)
            && work.writes_to_files()
        {
            let detail = "an entry says where it writes, and a redirection opens a file before that is kept";
            work.fail(Code::ConfineUnavailable, "C1", detail);
            return self.miss(work);
        }
        work.keeps_link = cover.keeps_link;
        if let LimitsFrom::Cover(confine) = &cover.limits {
            self.note_explicit(work.span(), confine.as_ref(), cover.is_by_starts);
        }
        work.limits_from = cover.limits;
        // Who lets anything be typed into pagers and editors lets them start anything, unless the entry says otherwise.
        if cover.typing == Typing::Anything
            && self.request.input.is_open()
            && let LimitsFrom::Cover(said) = &mut work.limits_from
        {
            said.get_or_insert_default().starts.get_or_insert(Starts::Any);
        }
        self.typing = self.typing.min(cover.typing);
        self.credit(cover.credit);
        self.note_durable(cover.durable);
        self.finish(work, cover.matched, vec![Proposal::Covered])
    }

    /// What covers the program with its arguments.
    ///
    /// # Errors
    /// The code that says best why nothing does.
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method's own lifetimes are not general enough"
    )]
    pub(super) fn cover(&self, work: &Work<'_>, need: Need) -> Result<Cover, Code> {
        let found = self.with_candidate(work, need, |coverage, candidate| coverage.find(candidate));
        if found == Err(Code::OpenInput) {
            self.lacks_input.set(true);
        }
        found
    }

    /// Why a grant for the segment does not cover it.
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method's own lifetimes are not general enough"
    )]
    fn spent_grant(&self, work: &Work<'_>, need: Need) -> Option<&'static str> {
        self.with_candidate(work, need, |coverage, candidate| coverage.spent_grant(candidate))
    }

    /// Asks about the segment as entries see it.
    fn with_candidate<T>(
        &self,
        work: &Work<'_>,
        need: Need,
        ask: impl FnOnce(&Coverage<'_>, &Candidate<'_>) -> T,
    ) -> T {
        let arguments = work.own_arguments();
        let directory = self.real_directory(work.context.directory);
        let candidate = Candidate {
            typed: work.typed(),
            executable: work.executable(),
            arguments: &arguments,
            is_whole: work.apart.is_none(),
            literal: work.has_literal_arguments(),
            is_direct: work.wrappers.is_empty() && work.context.depth == 0,
            directory: directory.as_deref(),
            need,
        };
        ask(&self.coverage(), &candidate)
    }

    /// Looks for code in the arguments; where the program runs others, also for that of an interpreter or a shell among
    /// them.
    pub(super) fn check_inline_eval(&mut self, work: &mut Work<'_>, runs_others: bool) {
        if !self.policy.strict_inline_eval {
            return;
        }
        let arguments = work.arguments();
        let own = inline_eval::inline_eval(&work.names(), &arguments);
        let is_fed = work.context.reads_pipe || is_fed(&work.names());
        let inner = || {
            (0..arguments.len().min(MAX_INNER_WORDS)).find_map(|at| {
                let (name, behind) = (paths::base_name(arguments.get(at)?), arguments.get(at + 1..)?);
                let is_shell = matches!(
                    NameClass::of(name),
                    NameClass::PayloadShell | NameClass::OtherShell
                );
                if is_shell && behind.iter().any(|word| shell::is_text_option(word)) {
                    return Some(inline_eval::InlineEval::Argument(at));
                }
                // An interpreter's name without anything behind it is often no more than a word, unless something is
                // handed to it.
                inline_eval::inline_eval(&[name], behind)
                    .filter(|found| is_fed || matches!(found, inline_eval::InlineEval::Argument(_)))
            })
        };
        let found = own.or_else(|| inner().filter(|_| runs_others));
        let is_unseen = runs_others && arguments.len() > MAX_INNER_WORDS;
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
            directory: self.real_directory(work.context.directory).as_deref(),
            strict_inline_eval: self.policy.strict_inline_eval,
            is_identified_by_path: executable.is_identified_by_path(),
            has_one_script: self.has_one_script(work),
        }
        .propose()
    }

    /// Whether exactly one operand of an interpreter is a file, which is then its script (T2). Other programs have none.
    fn has_one_script(&self, work: &Work<'_>) -> bool {
        let Some(executable) = work.executable() else {
            return true;
        };
        let arguments = work.arguments();
        let runs_scripts = NameClass::of_all(work.names()) == NameClass::Program
            && executable.names().into_iter().any(names::runs_scripts);
        if !runs_scripts || matches!(arguments.as_slice(), ["--version" | "--help" | "-V" | "-v"]) {
            return true;
        }
        if arguments.iter().any(|word| word.starts_with("-m")) {
            // A module is found by rules of the interpreter's own.
            return false;
        }
        let files = arguments
            .iter()
            .filter(|word| !word.starts_with('-'))
            .filter(|word| {
                let directory = work.context.directory.known();
                let path = directory.map(|directory| paths::join_normalised(directory, word));
                path.is_some_and(|path| self.lookup.real(&path).is_some())
            });
        files.take(2).count() == 1
    }

    /// The real path of the directory a segment starts in, if it is certain. A link behind which a `cd` goes may lead
    /// elsewhere by then, and so may one that is not there yet.
    pub(super) fn real_directory(&self, directory: &Directory) -> Option<String> {
        let known = directory.known()?;
        let real = self.lookup.real(known);
        if directory.is_changed() {
            return real.filter(|real| real == known);
        }
        Some(real.unwrap_or_else(|| known.to_owned()))
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
        Code::OpenInput => (
            "O1",
            "its input stays open, and what covers it does not include that",
        ),
        Code::ConfineUnavailable => (
            "C1",
            "the entry for this confines its program in a way that cannot be kept here",
        ),
        Code::SafeBinFlag => ("SB2", "a flag outside the safe bin's profile"),
        Code::SafeBinOperand => ("SB4", "an operand outside the safe bin's profile"),
        Code::SafeBinUntrusted => ("SB5", "the safe bin does not lie in a trusted directory"),
        _ => ("M1", "no entry covers this"),
    }
}
