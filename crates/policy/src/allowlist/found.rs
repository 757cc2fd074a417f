//! Commands that `find` runs for what it finds (G16): each is judged as a segment of its own.

use super::{
    evaluation::Evaluation,
    work::{EvaluatedSegment, SegmentContext, Work},
};
use crate::command::{
    Executable, Rule,
    delegation::{self, Delegation},
    found_files::FoundFiles,
    paths,
    syntax::{Segment, Word, WordClass},
};

/// The programs whose expression is read.
const FIND: &[&str] = &["find", "gfind"];

impl Evaluation<'_> {
    /// Judges what `find -exec` runs, where that is a program that only reads the files that it is told. `None` where it is not
    /// certain what runs, or it is not covered; then nothing was credited.
    pub(super) fn found_command(&mut self, work: &mut Work<'_>) -> Option<EvaluatedSegment> {
        let is_read = self.policy.grammar.found_files
            && work.context.depth == 0
            && !self.is_aside
            && !self.request.input.is_open();
        if !is_read || !work.names().iter().all(|name| FIND.contains(name)) {
            return None;
        }
        if !self.coverage().is_trusted(work.executable()?) || !work.has_literal_arguments() {
            return None;
        }
        let (words, program, at) = {
            let arguments = work.arguments();
            let found = FoundFiles::read(&arguments)?;
            let words = work.argument_words().get(found.action + 1..found.end)?;
            let program = Executable::resolve_under(
                self.rules,
                words.first()?,
                work.context.directory.known(),
                self.lookup,
            )
            .ok()?;
            let own: Vec<&str> = arguments
                .iter()
                .enumerate()
                .filter(|(at, _)| !(found.action..=found.end).contains(at))
                .map(|(_, word)| *word)
                .collect();
            let reading = delegation::read(&work.names(), &own);
            let is_plain = reading.delegation == Delegation::None
                && reading.is_plain
                && !self.writes_deciding(work, &reading.outputs);
            let told = arguments.get(found.action + 2..found.end - 1)?;
            let suits = found.suits(&program.names(), told)
                && self.coverage().is_trusted(&program)
                && !self.reaches_protected(&found, work);
            if !self.rules.holds(Rule::G16, is_plain && suits) {
                return None;
            }
            (words, program, found.action + 1)
        };
        let inner = Segment {
            span: words.first()?.span.to(words.last()?.span),
            assignments: Vec::new(),
            words: words.iter().map(as_found).collect(),
            redirections: Vec::new(),
            is_setting: false,
        };
        let before = self.usage();
        let explicit = self.explicit.len();
        let context = SegmentContext {
            operator: None,
            alone: true,
            ..work.context
        };
        let evaluated = self.evaluate_segment(&inner, context);
        // What an entry keeps of its program is kept of a program of the plan alone.
        let is_covered = evaluated.findings.is_empty()
            && evaluated.report.wrappers.is_empty()
            && self.explicit.len() == explicit;
        if !is_covered {
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
        work.replaced = Some((work.at + 1 + at, path));
        Some(evaluated)
    }

    /// Whether something of the server's own lies where `find` looks, or may.
    fn reaches_protected(&self, found: &FoundFiles<'_>, work: &Work<'_>) -> bool {
        let context = work.context;
        let Some(directories) = context.directory.candidates() else {
            return true;
        };
        let starts = if found.starts.is_empty() {
            &["."][..]
        } else {
            found.starts.as_slice()
        };
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
