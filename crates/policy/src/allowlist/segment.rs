//! One segment: builtin, program, carrier or shell (`docs/spec/command-analysis.md#1-order-of-evaluation`).

use countersign_domain::Redirection;
use percent_encoding::percent_decode_str;

use super::{
    FilledPart, Match, MatchKind, SegmentReport,
    coverage::Need,
    denial::{Arguments, Scan},
    evaluation::Evaluation,
    expansion::NotExpanded,
    found::NOT_CONFINED,
    keeps::Limits,
    proposal::Proposal,
    work::{EvaluatedSegment, SegmentContext, Target, Work},
    writing::WRITES_DECIDING,
};
use crate::command::{
    Code, Finding, Rule, data_input,
    delegation::{self, Delegation},
    env_policy, inline_eval,
    lookup::Unresolved,
    names::{self, NameClass},
    parser, paths,
    syntax::{ReadRedirection, Segment, Word, WordClass},
    text_words,
};

/// Directories above the server's state that the words of one segment are tried with.
const MAX_BASES: usize = 8;

impl Evaluation<'_> {
    /// Evaluates one segment of a list.
    pub(super) fn evaluate_segment(
        &mut self,
        segment: &Segment,
        context: SegmentContext<'_>,
    ) -> EvaluatedSegment {
        let expanded = self.expand(segment, context);
        let is_refused = self.rules.holds(Rule::G14, expanded.is_err());
        match (expanded, is_refused) {
            (Ok(Some(expanded)), false) => self.evaluate_literal(&expanded, context, None),
            (Ok(None), _) | (Err(_), false) => self.evaluate_literal(segment, context, None),
            (Ok(Some(_)), true) => self.evaluate_literal(segment, context, Some(NotExpanded::of(segment))),
            (Err(not_expanded), true) => self.evaluate_literal(segment, context, Some(not_expanded)),
        }
    }

    /// The same with what speaks against its words.
    fn evaluate_literal(
        &mut self,
        segment: &Segment,
        context: SegmentContext<'_>,
        not_expanded: Option<NotExpanded>,
    ) -> EvaluatedSegment {
        let mut work = Work::new(segment, context, self.lookup.home());
        self.check_assignments(&mut work);
        self.check_protected(&mut work);
        if self
            .rules
            .holds(Rule::B1, not_expanded.is_none() && is_builtin(&work))
        {
            let is_quiet_cd = work.typed() == "cd"
                && matches!(
                    segment.redirections.as_slice(),
                    [ReadRedirection::Known(Redirection::ErrorsToNull)]
                );
            if is_quiet_cd {
                work.redirections = vec![Redirection::ErrorsToNull];
            } else if self.rules.holds(Rule::G7, !segment.redirections.is_empty()) {
                let detail = "a redirection of what the shell does itself";
                work.fail(Code::Redirection, "G7", detail);
                work.plannable = false;
            }
            return self.evaluate_builtin(work);
        }
        let target = self.unwrap(&mut work);
        let refused = match not_expanded {
            Some(NotExpanded { span, detail }) => Some(Finding::new(Code::Glob, "G14", span, detail)),
            None => self
                .refused_redirection(&mut work, target)
                .or_else(|| self.refused_substitution(&work, target)),
        };
        if let Some(refused) = refused {
            // As if nobody had taken it apart.
            self.parsed = false;
            self.opaque = true;
            work.plannable = false;
            work.findings.push(refused);
            self.scan(&mut work);
            self.check_inline_eval(&mut work, true);
            return self.miss(work);
        }
        match target {
            Target::Refused => {
                self.scan(&mut work);
                self.check_inline_eval(&mut work, true);
                work.plannable &= work.executable.is_ok();
                self.miss(work)
            }
            Target::Program(class) => self.evaluate_program(work, class),
        }
    }

    /// Why the redirections of a segment are no part of its step.
    fn refused_redirection(&mut self, work: &mut Work<'_>, target: Target) -> Option<Finding> {
        let span = work.span();
        let finding = |code, rule, detail: &str| Some(Finding::new(code, rule, span, detail));
        let refused = self.redirect(work).err();
        let refused_by = |rule| refused.filter(|refused| refused.rule == rule);
        for rule in [Rule::G13, Rule::G15] {
            let unopened = refused_by(rule);
            if self.rules.holds(rule, unopened.is_some()) {
                let detail = unopened.map_or("a redirection from or to a file", |unopened| unopened.detail);
                return finding(Code::Redirection, rule.as_str(), detail);
            }
        }
        let mut redirections = work.redirections.iter();
        let reads_text = redirections.any(|redirection| matches!(redirection, Redirection::InputFromText(_)));
        if reads_text && self.rules.holds(Rule::G12, !self.reads_data(work, target)) {
            // What the text is to the program, or makes it do, is not known.
            let detail = "what this program does with the text that it is given is not known";
            return finding(Code::Heredoc, "G12", detail);
        }
        None
    }

    /// Why what is put into the words of a segment when it begins is more than text to it (G19). It is not seen by deny rules in
    /// any case.
    fn refused_substitution(&mut self, work: &Work<'_>, target: Target) -> Option<Finding> {
        let mut words = work.segment.words.iter();
        let first = words.find(|word| !word.substitutions.is_empty())?;
        self.opaque = true;
        let is_known = |at: usize| {
            let word = work.argument_words().get(at);
            word.is_some_and(|word| word.substitutions.is_empty())
        };
        let is_text = matches!(target, Target::Program(NameClass::Program))
            && work.context.depth == 0
            && !self.is_aside
            && work.wrappers.is_empty()
            && work
                .executable()
                .is_some_and(|executable| self.coverage().is_trusted(executable))
            && (text_words::takes_text(&work.names(), &work.arguments(), is_known)
                || self.rules.holds(
                    Rule::G23,
                    self.policy.grammar.later_values
                        && self.policy.keeps.own_files
                        && text_words::only_reads(&work.names()),
                ))
            && work
                .executable()
                .is_some_and(|executable| self.lookup.is_machine_program(&executable.identity));
        let detail = "what this program does with a word that is known only when it begins is not known";
        (!self.rules.holds(Rule::G19, is_text))
            .then(|| Finding::new(Code::CommandSubstitution, "G19", first.span, detail))
    }

    /// Whether standard input is data to the program behind the wrappers, and not commands, code or names of files (G12).
    fn reads_data(&self, work: &Work<'_>, target: Target) -> bool {
        matches!(target, Target::Program(NameClass::Program))
            && work
                .executable()
                .is_some_and(|executable| self.coverage().is_trusted(executable))
            && data_input::is_data(&work.names(), &work.arguments())
    }

    /// A word that is, or holds behind a separator or an option's letter, a path of the server's own state; or any
    /// command in there, which may look around without naming a path (P6).
    fn check_protected(&self, work: &mut Work<'_>) {
        // Of a text that is only looked into, the word that holds it was looked at.
        if self.policy.protected.roots.is_empty() || self.is_aside {
            return;
        }
        let directory = work.context.directory;
        let is_inside = directory
            .candidates()
            .is_some_and(|candidates| candidates.iter().any(|path| self.holds(path)));
        let bases = self.bases(work);
        let code = code_words(work);
        let mut words = work.values.iter().zip(&work.segment.words).enumerate();
        let hit = words.find_map(|(at, (value, word))| {
            let is_hit = readings_of(value, code.contains(&at))
                .any(|(text, reading)| self.is_protected(text, work.context, &bases, reading))
                || self.holds_root(value)
                || self.is_protected_address(value, work.context, &bases);
            is_hit.then_some(word)
        });
        let span = match hit {
            Some(word) => word.span,
            None if is_inside => work.segment.span,
            None => return,
        };
        if !self.rules.on(Rule::P6) {
            return;
        }
        let detail = if self.effort.is_spent() {
            "too many words that might be paths of the server itself"
        } else {
            "this belongs to the server itself"
        };
        work.findings
            .push(Finding::new(Code::Protected, "P6", span, detail));
    }

    /// Wherever else a path may begin in a word: `s/x/y/w /path`.
    fn holds_root(&self, value: &str) -> bool {
        let mut roots = self.policy.protected.roots.iter();
        roots.any(|root| {
            value.match_indices(root.as_str()).any(|(at, _)| {
                let path = value.get(at..).unwrap_or_default();
                !self.effort.spend(path) || self.holds(&paths::normalise(path))
            })
        })
    }

    fn names_root(&self, path: &str) -> bool {
        let roots = &self.policy.protected.roots;
        let mut components = path.split('/').filter(|component| !component.is_empty());
        components.any(|component| roots.iter().any(|root| paths::base_name(root) == component))
    }

    fn holds(&self, path: &str) -> bool {
        self.policy.protected.holds(path, self.policy.path_case)
    }

    /// Directories above the server's state that words name: a program may take its other words from there
    /// (`tar -C ~ -cf - .openclaw`).
    fn bases(&self, work: &Work<'_>) -> Vec<String> {
        let mut bases = Vec::new();
        let code = code_words(work);
        let words = work.values.iter().enumerate();
        for (text, reading) in words.flat_map(|(at, value)| readings_of(value, code.contains(&at))) {
            let starts = work.context.directory.candidates().unwrap_or_default();
            for start in starts {
                if !self.effort.spend(text) {
                    return bases;
                }
                let path = paths::expand_home(text, self.lookup.home());
                let read = Some(paths::join_normalised(start, &path)).filter(|_| reading == Reading::Path);
                let real = match &read {
                    Some(read) => self.lookup.real(read),
                    None if path.starts_with('/') => self.lookup.real(&path),
                    None => self.lookup.real(&format!("{start}/{path}")),
                };
                for base in [read, real].into_iter().flatten() {
                    let is_above = self.policy.protected.lies_below(&base, self.policy.path_case);
                    if is_above && bases.len() < MAX_BASES && !bases.contains(&base) {
                        bases.push(base);
                    }
                }
            }
        }
        bases
    }

    /// An address of a file, in which a path may be written in other ways: `file:///st%61te`, and curl's `{a,b}` and
    /// `[a-z]`, which are not tried.
    fn is_protected_address(&self, value: &str, context: SegmentContext<'_>, bases: &[String]) -> bool {
        let is_file = value.to_ascii_lowercase().contains("file:");
        let decoded = percent_decode_str(value).decode_utf8_lossy();
        let mut texts = parts_of(&decoded);
        (is_file && value.contains(['{', '[']))
            || (decoded != value && texts.any(|text| self.is_protected(text, context, bases, Reading::Path)))
    }

    pub(super) fn is_protected(
        &self,
        text: &str,
        context: SegmentContext<'_>,
        bases: &[String],
        reading: Reading,
    ) -> bool {
        if text.is_empty() {
            return false;
        }
        if !self.effort.spend(text) {
            return true;
        }
        let path = paths::expand_home(text, self.lookup.home());
        if path.starts_with('/') {
            return self.leads_to_protected("/", &path, context, reading);
        }
        context.directory.candidates().is_none_or(|candidates| {
            let mut bases = candidates.iter().chain(bases);
            bases.any(|base| self.leads_to_protected(base, &path, context, reading))
        })
    }

    /// Whether a path is protected as it reads, or as the links on its way lead. Of a path that is not there the
    /// part that is counts, and where a command before or beside it may make the rest, a link among it, the name of the server's
    /// directory in it. Also when there was too much to look at.
    fn leads_to_protected(
        &self,
        base: &str,
        path: &str,
        context: SegmentContext<'_>,
        reading: Reading,
    ) -> bool {
        if reading == Reading::Path && self.holds(&paths::join_normalised(base, path)) {
            return true;
        }
        let path = path.trim_end_matches('/');
        let (whole, given) = if path.starts_with('/') {
            (path.to_owned(), 0)
        } else {
            (format!("{base}/{path}"), base.len() + 1)
        };
        // It may be there for the command and not for us.
        if !self.effort.spend(&whole) || self.lookup.depends_on_process(&whole) {
            return true;
        }
        if let Some(real) = self.lookup.real(&whole) {
            return self.holds(&real);
        }
        if context.may_be_made() && self.names_root(path) {
            return true;
        }
        let mut reached = None;
        for prefix in whole
            .match_indices('/')
            .filter(|(at, _)| *at > given)
            .filter_map(|(at, _)| whole.get(..at))
        {
            if !self.effort.spend(prefix) {
                return true;
            }
            match self.lookup.real(prefix) {
                Some(real) => reached = Some(real),
                None => break,
            }
        }
        reached.is_some_and(|real| self.holds(&real))
    }

    fn check_assignments(&self, work: &mut Work<'_>) {
        for assignment in &work.segment.assignments {
            let is_literal = assignment.class == WordClass::Literal;
            work.plannable &= is_literal;
            let is_harmless = env_policy::is_harmless_under(self.rules, &assignment.name, &assignment.value);
            if self.rules.holds(Rule::G8, !(is_literal && is_harmless)) {
                let detail = format!("{} with this value is not known to be harmless", assignment.name);
                work.findings
                    .push(Finding::new(Code::Assignment, "G8", assignment.span, detail));
            }
        }
    }

    /// `cd` and the safe builtins (B1).
    fn evaluate_builtin(&mut self, mut work: Work<'_>) -> EvaluatedSegment {
        self.deny(&mut work);
        let changes_to = if work.typed() == "cd" {
            let target = cd_target(&mut work);
            // It may lead anywhere.
            self.opaque |= target.is_none();
            target
        } else {
            None
        };
        let step = match &changes_to {
            Some(target) => Some(vec!["cd".to_owned(), "--".to_owned(), cd_operand(target)]),
            None if work.typed() == "cd" => None,
            None => Some(work.values.clone()),
        };
        let covered = work.findings.is_empty();
        let kind = if covered {
            MatchKind::Builtin
        } else {
            MatchKind::None
        };
        let proposal = if covered {
            Proposal::Covered
        } else {
            Proposal::Never
        };
        EvaluatedSegment {
            step: step
                .filter(|_| work.plannable)
                .map(|words| work.builtin_step(words)),
            changes_to,
            limits: None,
            ..self.report(work, Match::plain(kind), vec![proposal])
        }
    }

    fn evaluate_program(&mut self, mut work: Work<'_>, class: NameClass) -> EvaluatedSegment {
        let is_of_the_shell = work.at > 0 && (parser::is_keyword(work.typed()) || work.typed() == "cd");
        if self.rules.holds(Rule::G9, is_of_the_shell) {
            work.fail(Code::ReservedWord, "G9", "a word of the shell behind a wrapper");
            work.plannable = false;
        }
        match work.executable {
            Ok(_) => {}
            Err(Unresolved::NotFound) => work.plannable = false,
            Err(Unresolved::Dynamic) => {
                work.plannable = false;
                work.fail(Code::DynamicExecutable, "G6", "the command word is not literal");
            }
            Err(Unresolved::DirectoryUnknown) => {
                work.plannable = false;
                work.fail(
                    Code::CwdUnknown,
                    "B1",
                    "the directory is not certain after this cd",
                );
            }
        }
        let has_tilde = |word: &Word| matches!(word.class, WordClass::InnerTilde | WordClass::BothTildes);
        if work.argument_words().iter().any(has_tilde) {
            work.notes.push("a tilde inside a word is passed on as written");
        }
        match class {
            NameClass::RefusedBuiltin if self.rules.on(Rule::W2) => {
                work.plannable = false;
                work.fail(
                    Code::ReservedWord,
                    "W2",
                    "a builtin of the shell that is never run",
                );
                self.scan(&mut work);
                self.check_inline_eval(&mut work, true);
                self.miss(work)
            }
            NameClass::Multiplexer if self.rules.on(Rule::S3) => {
                work.fail(Code::Multiplexer, "S3", "many programs in one, shells among them");
                self.scan(&mut work);
                self.check_inline_eval(&mut work, true);
                self.miss(work)
            }
            NameClass::Carrier if self.rules.on(Rule::W2) => {
                if work.context.is_fed
                    && let Some(inner) = self.fed_command(&mut work)
                {
                    return self.with_command(work, inner);
                }
                self.scan(&mut work);
                let need = self.needed(&mut work, Need::Arguments);
                let reason = (Code::Carrier, "W2", "a program that runs another");
                self.evaluate_entries_for(work, Some(reason), need)
            }
            NameClass::PayloadShell | NameClass::OtherShell => self.evaluate_shell(work, class),
            NameClass::Program
            | NameClass::Wrapper
            | NameClass::Carrier
            | NameClass::RefusedBuiltin
            | NameClass::Multiplexer => self.evaluate_ordinary(work),
        }
    }

    /// A program that starts one which is covered and does nothing else.
    fn with_command(&mut self, work: Work<'_>, inner: SegmentReport) -> EvaluatedSegment {
        let mut evaluated = if work.findings.is_empty() {
            self.finish(work, Match::plain(MatchKind::Payload), vec![Proposal::Covered])
        } else {
            self.miss(work)
        };
        evaluated.report.segments.push(inner);
        evaluated
    }

    fn evaluate_ordinary(&mut self, mut work: Work<'_>) -> EvaluatedSegment {
        let reads_commands = work.context.reads_pipe && delegation::reads_commands(&work.names());
        let reading = delegation::read(&work.names(), &work.arguments());
        let writes_deciding = self.writes_deciding(&work, &reading.outputs);
        let delegates = reads_commands || reading.delegation != Delegation::None;
        if delegates {
            // What it runs may be denied, whether or not its entry has to name the arguments.
            self.scan_delegation(&mut work);
        }
        // Deny rules see words, and no files, options that are not known, or code in another language.
        self.opaque |= writes_deciding
            || reading.delegation == Delegation::Unknown
            || (!reading.is_plain && self.denial().has_rules() && is_inline_code(&work));
        if !self.rules.holds(
            Rule::D1,
            (delegates || writes_deciding) && self.policy.strict_delegation,
        ) {
            return self.evaluate_entries(work, None);
        }
        let explicit = self.explicit_count();
        if let Some(found) = self.found_command(&mut work) {
            let span = work.span();
            let mut evaluated = self.evaluate_entries(work, None);
            evaluated.report.segments.push(found.report);
            let lets_out = |limits: &Limits| self.lets_out(&limits.program, explicit);
            if evaluated.findings.is_empty()
                && self
                    .rules
                    .holds(Rule::C1, evaluated.limits.as_ref().is_some_and(lets_out))
            {
                let finding = Finding::new(Code::ConfineUnavailable, "C1", span, NOT_CONFINED);
                evaluated.findings.push(finding);
            }
            if !evaluated.findings.is_empty() {
                // It would cover what the other program does as well.
                evaluated.proposals = vec![Proposal::Never];
            }
            return evaluated;
        }
        let detail = match reading.delegation {
            _ if writes_deciding => WRITES_DECIDING,
            Delegation::Unknown => {
                "an argument is not known to leave alone what this program starts or loads"
            }
            Delegation::None | Delegation::Known => "an argument makes this program run another",
        };
        let reason = (Code::Delegation, "D1", detail);
        // Of a program inside of a shell's text it is not kept by itself.
        let may_be_kept = !writes_deciding
            && reading.delegation != Delegation::Unknown
            && reading.knows_outputs
            && work.context.depth == 0;
        let need = match (writes_deciding, may_be_kept) {
            (true, _) => Need::Arguments,
            (false, true) => self.needed(&mut work, Need::ArgumentsOrStarts),
            (false, false) => self.needed(&mut work, Need::Arguments),
        };
        self.evaluate_entries_for(work, Some(reason), need)
    }

    /// Matches deny rules against the word that runs next.
    pub(super) fn deny(&mut self, work: &mut Work<'_>) {
        if !self.denial().has_rules() {
            return;
        }
        let denial = self.denial();
        let program = denial.program(work.typed(), work.executable(), work.context.directory);
        let values = work.arguments();
        let arguments = Arguments::Given {
            values: &values,
            is_known: work.has_literal_arguments(),
        };
        match denial.find(&program, arguments, work.span()) {
            Scan::Hit(hit) => return work.deny(hit),
            Scan::Opaque => self.opaque = true,
            Scan::Clear => {}
        }
        let near = denial.near(&program);
        work.near_deny_rule = work.near_deny_rule.take().or(near);
    }

    /// The end of a segment that nothing covers and that is never remembered.
    pub(super) fn miss(&mut self, work: Work<'_>) -> EvaluatedSegment {
        self.finish(work, Match::plain(MatchKind::None), vec![Proposal::Never])
    }

    /// The end of a segment. It is covered if nothing was found against it.
    pub(super) fn finish(
        &mut self,
        mut work: Work<'_>,
        matched: Match,
        proposals: Vec<Proposal>,
    ) -> EvaluatedSegment {
        let is_covered_word = work.executable == Err(Unresolved::NotFound) && work.findings.is_empty();
        let step = (work.plannable || is_covered_word).then(|| work.step());
        EvaluatedSegment {
            step,
            ..self.report(work, matched, proposals)
        }
    }

    fn report(&mut self, mut work: Work<'_>, matched: Match, proposals: Vec<Proposal>) -> EvaluatedSegment {
        // A deny rule's match shows as such, no matter what else was found.
        let matched = work.denied.as_ref().map_or(matched, |hit| Match {
            kind: MatchKind::Denylist,
            entry_id: Some(hit.id.clone()),
            pattern: Some(hit.pattern.clone()),
        });
        let input = self.request.input;
        let runs_what_is_typed = input.is_open()
            && delegation::runs_what_is_typed(&work.names(), &work.arguments(), input.is_terminal());
        self.opaque |= runs_what_is_typed;
        let runs_unseen = work.runs_unseen() || runs_what_is_typed;
        self.note_default(&work);
        let limits = self.limits_of(&work);
        let report = SegmentReport {
            span: work.segment.span,
            operator: work.context.operator,
            executable: work.typed().to_owned(),
            resolved_path: work.executable().map(|executable| executable.resolved.clone()),
            matched,
            inline_eval: work.inline_eval,
            runs_pipe: work.context.reads_pipe
                && delegation::runs_its_input(&work.names(), &work.arguments()),
            near_deny_rule: work.near_deny_rule.take().filter(|_| work.denied.is_none()),
            runs_unseen,
            code_operands: work.code_operands(runs_unseen),
            moves: work.moves(),
            notes: work.notes.iter().map(|note| (*note).to_owned()).collect(),
            segments: Vec::new(),
            filled: filled_parts(work.segment),
            argv: work.values,
            wrappers: work.wrappers,
        };
        if let Some(hit) = work.denied {
            self.denylisted.get_or_insert(hit);
        }
        EvaluatedSegment {
            report,
            findings: work.findings,
            step: None,
            proposals,
            changes_to: None,
            limits: Some(limits),
            judged: work.judged,
        }
    }
}

/// The parts of its words that are known only when a segment begins.
fn filled_parts(segment: &Segment) -> Vec<FilledPart> {
    let words = segment.words.iter().enumerate();
    let parts = words.flat_map(|(at, word)| word.substitutions.iter().map(move |part| (at, part)));
    parts
        .map(|(word, part)| FilledPart {
            word,
            span: part.place.clone(),
        })
        .collect()
}

/// How a text is looked at that may be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As a path, whether or not all of its way is there.
    Path,
    /// As a piece of a program's text, which is a path only where its way is there: nothing ran before that could have made it,
    /// and what the text itself makes can be named in other ways, too.
    Code,
}

/// The places of the words that hold code of an interpreter, or follow the option that says so; none where a command before or
/// beside it may make a way.
fn code_words(work: &Work<'_>) -> Vec<usize> {
    if work.context.may_be_made() {
        return Vec::new();
    }
    match inline_eval::inline_eval(&work.names(), &work.arguments()) {
        Some(inline_eval::InlineEval::Argument(at)) => vec![work.at + 1 + at, work.at + 2 + at],
        Some(inline_eval::InlineEval::StandardInput) | None => Vec::new(),
    }
}

/// The texts of a word that may be paths of their own, and how each is looked at.
fn readings_of(value: &str, is_code: bool) -> impl Iterator<Item = (&str, Reading)> {
    let within = if is_code { Reading::Code } else { Reading::Path };
    let whole = paths_of(value).map(|text| (text, Reading::Path));
    whole.chain(paths_within(value).map(move |text| (text, within)))
}

/// The texts of a word that may be paths of their own.
fn parts_of(value: &str) -> impl Iterator<Item = &str> {
    paths_of(value).chain(paths_within(value))
}

/// The word itself, and what stands in it behind a separator or an option's letter.
fn paths_of(value: &str) -> impl Iterator<Item = &str> {
    let parts = value
        .match_indices(['=', ':', '@', ','])
        .filter_map(|(at, _)| value.get(at + 1..));
    // `-f/path`: where the letters end and the path begins is the program's secret. `-fname` is one too.
    let glued = value
        .find(['/', '~', '.'])
        .filter(|_| value.starts_with('-'))
        .and_then(|at| value.get(at..));
    std::iter::once(value).chain(parts).chain(glued)
}

/// Paths inside of a word that is text of its own (`sed 'w ../file'`): what begins behind a blank or a quote, and where
/// a path begins behind a letter (`w../file`, `w/tmp//file`). They end at the next blank or quote.
fn paths_within(value: &str) -> impl Iterator<Item = &str> {
    let is_border =
        |character: char| character.is_whitespace() || matches!(character, '\'' | '"' | '`' | ';');
    value.split(is_border).flat_map(move |token| {
        let is_whole = token.len() == value.len();
        let inner = ["/", "./", "../", "~/"]
            .iter()
            .filter_map(|beginning| token.find(beginning))
            .filter(|at| *at > 0)
            .min()
            .and_then(|at| token.get(at..));
        inner.into_iter().chain((!is_whole).then_some(token))
    })
}

fn is_inline_code(work: &Work<'_>) -> bool {
    let found = inline_eval::inline_eval(&work.names(), &work.arguments());
    matches!(found, Some(inline_eval::InlineEval::Argument(_)))
}

fn is_builtin(work: &Work<'_>) -> bool {
    if work.typed() == "cd" {
        return true;
    }
    let words: Vec<&str> = work.values.iter().map(String::as_str).collect();
    work.segment.assignments.is_empty() && names::is_safe_builtin(&words)
}

fn cd_target(work: &mut Work<'_>) -> Option<String> {
    if let ([operand], [word]) = (work.arguments().as_slice(), work.argument_words())
        && work.context.alone
        && work.segment.assignments.is_empty()
        && !word.class.is_dynamic()
        && !operand.is_empty()
        && !operand.starts_with('-')
    {
        return Some((*operand).to_owned());
    }
    let detail = "only cd with one literal directory, alone in its pipeline, is understood";
    work.fail(Code::CdForm, "B1", detail);
    None
}

/// A directory as `cd --` takes it without looking at `CDPATH`.
fn cd_operand(target: &str) -> String {
    let is_plain = matches!(target, "." | "..")
        || ["/", "./", "../"]
            .iter()
            .any(|beginning| target.starts_with(beginning));
    if is_plain {
        target.to_owned()
    } else {
        format!("./{target}")
    }
}
