//! Commands that `find` and `xargs` run for what is found (G16): each is judged as a segment of its own.

use countersign_domain::Redirection;

use super::{
    SegmentReport,
    evaluation::Evaluation,
    keeps::LimitsFrom,
    work::{EvaluatedSegment, SegmentContext, Work},
};
use crate::command::{
    Code, Executable, Rule,
    delegation::{self, Delegation},
    found_files::{FoundFiles, FoundKind, PrintedEnd, PrintedNames, words_of_xargs},
    paths,
    syntax::{ReadRedirection, Segment, Word, WordClass},
};

/// Why a command in the words of another is not covered.
pub(super) const NOT_CONFINED: &str = "an entry confines what it starts, and it is not confined itself";

/// The programs whose expression is read.
const FIND: &[&str] = &["find", "gfind"];

impl Evaluation<'_> {
    /// Judges what `find -exec` runs, where that is a program that only reads the files that it is told. `None` where it is not
    /// certain what runs, or it is not covered; then nothing was credited.
    pub(super) fn found_command(&mut self, work: &mut Work<'_>) -> Option<EvaluatedSegment> {
        if !self.reads_found_files(work.context) || !self.is_find(work) || !work.has_literal_arguments() {
            return None;
        }
        let (words, found) = {
            let arguments = work.arguments();
            let found = FoundFiles::read(&arguments)?;
            let words = work.argument_words().get(found.action + 1..found.end)?;
            let own: Vec<&str> = arguments
                .iter()
                .enumerate()
                .filter(|(at, _)| !(found.action..=found.end).contains(at))
                .map(|(_, word)| *word)
                .collect();
            let (_, told) = words.split_last()?;
            let is_plain = self.is_plain(work, &own)
                && self.may_be_told(work, found.kind, told)
                && !self.reaches_protected(&found.starts, work.context);
            if !self.rules.holds(Rule::G16, is_plain) {
                return None;
            }
            (words, found.action..found.end + 1)
        };
        let inner: Vec<Word> = words.iter().map(as_found).collect();
        let at = work.at + 2 + found.start;
        let evaluated = self.command_of(work, inner, at)?;
        work.apart = Some(found);
        Some(evaluated)
    }

    /// Two segments of a pipeline in the form in which names cannot be taken for others: `find` prints them with a NUL behind each, and
    /// `xargs` takes them apart there. `None` where they are not `find` and `xargs` with a program that only reads the files that it is told,
    /// and where other segments beside them may make links.
    pub(super) fn with_nul(
        &self,
        find: &Segment,
        xargs: &Segment,
        context: SegmentContext<'_>,
    ) -> Option<(Segment, Segment)> {
        let is_plain = |segment: &Segment| {
            segment.assignments.is_empty()
                && segment
                    .words
                    .iter()
                    .all(|word| word.patterns.is_empty() && !word.class.is_dynamic())
        };
        let starts = |segment: &Segment, name: &str| {
            let word = segment.words.first();
            word.is_some_and(|word| paths::base_name(&word.value) == name)
        };
        if !self.reads_found_files(context) || !starts(xargs, "xargs") || !is_plain(find) || !is_plain(xargs)
        {
            return None;
        }
        // Names are all that goes to the other one, and it reads nothing else.
        let hides_errors =
            |redirection: &ReadRedirection| *redirection == ReadRedirection::Known(Redirection::ErrorsToNull);
        let is_fed = find.redirections.iter().all(hides_errors)
            && xargs
                .redirections
                .iter()
                .all(|redirection| redirection.descriptor() != 0);
        if !self.rules.holds(Rule::G16, is_fed) {
            return None;
        }
        let finding = self.resolved_work(find, context);
        let arguments = finding.arguments();
        if !self.is_find(&finding) || !self.is_plain(&finding, &arguments) {
            return None;
        }
        let printed = PrintedNames::read(&arguments)?;
        let building = self.resolved_work(xargs, context);
        let is_xargs = building.names().iter().all(|name| *name == "xargs")
            && building
                .executable()
                .is_some_and(|file| self.coverage().is_trusted(file));
        let (own, is_nul) = words_of_xargs(&building.arguments())?;
        let told = building.argument_words().get(own..)?;
        let is_known = is_xargs
            && is_nul == (printed.end == PrintedEnd::Nul)
            && self.may_be_told(&building, printed.kind, told)
            && !self.reaches_protected(&printed.starts, context);
        if !self.rules.holds(Rule::G16, is_known) {
            return None;
        }
        let (mut find, mut xargs) = (find.clone(), xargs.clone());
        if !is_nul {
            if printed.end == PrintedEnd::Lines {
                find.words.pop();
            }
            find.words.push(Word::literal("-print0", find.span));
            xargs
                .words
                .insert(1, Word::literal("-0", xargs.words.first()?.span));
        }
        Some((find, xargs))
    }

    /// Judges what `xargs` runs for names that `find` prints for it. `None` where it is not covered; then nothing was credited.
    pub(super) fn fed_command(&mut self, work: &mut Work<'_>) -> Option<SegmentReport> {
        let (own, _) = words_of_xargs(&work.arguments()).filter(|_| work.findings.is_empty())?;
        let names = Word {
            class: WordClass::Found,
            ..Word::literal("{}", work.segment.span)
        };
        let told = work.argument_words().get(own..)?;
        let inner: Vec<Word> = told.iter().cloned().chain([names]).collect();
        let explicit = self.explicit_count();
        let at = work.at + 1 + own;
        let evaluated = self.command_of(work, inner, at)?;
        work.limits_from = LimitsFrom::Payload(evaluated.limits.into_iter().collect());
        let lets_out = self.lets_out(&self.limits_of(work).program, explicit);
        if self.rules.holds(Rule::C1, lets_out) {
            work.fail(Code::ConfineUnavailable, "C1", NOT_CONFINED);
        }
        Some(evaluated.report)
    }

    /// Judges a command that another program starts, whose word stands at this place of its segment.
    fn command_of(&mut self, work: &mut Work<'_>, words: Vec<Word>, at: usize) -> Option<EvaluatedSegment> {
        let directory = work.context.directory.known();
        let program = Executable::resolve_under(self.rules, words.first()?, directory, self.lookup).ok()?;
        let inner = Segment {
            span: words.first()?.span.to(words.last()?.span),
            assignments: Vec::new(),
            words,
            redirections: Vec::new(),
            is_setting: false,
            sets: None,
        };
        let before = self.usage();
        let context = SegmentContext {
            operator: None,
            alone: true,
            is_fed: false,
            reads_pipe: false,
            ..work.context
        };
        let evaluated = self.evaluate_segment(&inner, context);
        if !evaluated.findings.is_empty() || !evaluated.report.wrappers.is_empty() {
            self.restore_usage(before);
            return None;
        }
        // Deny rules cannot see the names of the files.
        self.opaque = true;
        for file in &evaluated.judged {
            if !work.judged.contains(file) {
                work.judged.push(file.clone());
            }
        }
        let is_fixed = self.coverage().is_fixed(&program);
        let (path, _) = program.start(&program.typed, is_fixed);
        work.replaced = Some((at, path));
        Some(evaluated)
    }

    /// Whether commands that are told what is found are read here.
    fn reads_found_files(&self, context: SegmentContext<'_>) -> bool {
        self.policy.grammar.found_files
            && context.depth == 0
            && !self.is_aside
            && !self.request.input.is_open()
    }

    fn is_find(&self, work: &Work<'_>) -> bool {
        work.names().iter().all(|name| FIND.contains(name))
            && work
                .executable()
                .is_some_and(|executable| self.coverage().is_trusted(executable))
    }

    /// Whether words of `find` start nothing and write nothing.
    fn is_plain(&self, work: &Work<'_>, own: &[&str]) -> bool {
        let reading = delegation::read(&work.names(), own);
        reading.delegation == Delegation::None
            && reading.is_plain
            && !self.writes_deciding(work, &reading.outputs)
    }

    /// Whether a command may be told names of files of that kind.
    fn may_be_told(&self, work: &Work<'_>, kind: FoundKind, command: &[Word]) -> bool {
        let Some((program, own)) = command.split_first() else {
            return false;
        };
        let directory = work.context.directory.known();
        let Ok(program) = Executable::resolve_under(self.rules, program, directory, self.lookup) else {
            return false;
        };
        let own: Vec<&str> = own.iter().map(|word| word.value.as_str()).collect();
        // All that a link could lead to against the entries are the server's own files.
        let kind = if self.policy.keeps.own_files {
            FoundKind::Regular
        } else {
            kind
        };
        kind.suits(&program.names(), &own) && self.coverage().is_trusted(&program)
    }

    /// A segment whose program was looked up, and nothing more.
    fn resolved_work<'w>(&self, segment: &'w Segment, context: SegmentContext<'w>) -> Work<'w> {
        let mut work = Work::new(segment, context, self.lookup.home());
        if let Some(word) = work.word() {
            work.executable =
                Executable::resolve_under(self.rules, word, context.directory.known(), self.lookup);
        }
        work
    }

    /// Whether something of the server's own lies where `find` looks, or may.
    fn reaches_protected(&self, starts: &[&str], context: SegmentContext<'_>) -> bool {
        let Some(directories) = context.directory.candidates() else {
            return true;
        };
        let starts = if starts.is_empty() { &["."][..] } else { starts };
        // What runs before it or beside it may put a link to elsewhere in the place of any directory but that of the call.
        let is_here = !context.directory.is_changed() && starts.iter().all(|start| *start == ".");
        let stays = is_here || (context.files_are_seen && context.links_are_seen);
        if !stays || starts.iter().any(|start| goes_back(start)) {
            return true;
        }
        let mut places = directories
            .iter()
            .flat_map(|directory| starts.iter().map(move |start| (directory, start)));
        places.any(|(directory, start)| {
            let read = paths::join_normalised(directory, start);
            let way = if start.starts_with('/') {
                (*start).to_owned()
            } else {
                format!("{directory}/{start}")
            };
            let real = self.lookup.real(&way);
            let may_hold = |path: &str| {
                let protected = self.policy.protected;
                let case = self.policy.path_case;
                protected.lies_below(path, case)
                    || protected.holds(path, case)
                    || self.lookup.depends_on_process(path)
            };
            may_hold(&read) || real.is_some_and(|real| may_hold(&real))
        })
    }
}

/// Whether `..` stands behind another part of a path: behind a link it is not what it reads.
fn goes_back(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let is_absolute = path.starts_with('/');
    let first = parts.find(|part| is_absolute || *part != "..");
    first == Some("..") || parts.any(|part| part == "..")
}

/// A word of the command; `{}` is what is not known before it runs.
fn as_found(word: &Word) -> Word {
    if word.value != "{}" {
        return word.clone();
    }
    Word {
        class: WordClass::Found,
        ..word.clone()
    }
}
