//! One segment on its way through the rules.

use std::ops::Range;

use countersign_domain::{FileIdentity, Redirection};

use super::{
    DenyHit, SegmentReport, WrapperReport,
    directory::Directory,
    keeps::{Limits, LimitsFrom},
    proposal::Proposal,
};
use crate::command::{
    Code, Executable, Finding, PlanStep, Span, delegation, inline_eval,
    lookup::Unresolved,
    moving::{self, Moves},
    names::NameClass,
    operands, paths,
    rendering::StepKind,
    syntax::{Segment, Word},
};

/// What surrounds a segment.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is found out apart")]
pub(super) struct SegmentContext<'a> {
    pub(super) operator: Option<&'static str>,
    pub(super) directory: &'a Directory,
    /// Whether it is a pipeline of its own, as `cd` has to be.
    pub(super) alone: bool,
    /// How many shells are around it.
    pub(super) depth: u8,
    /// Whether nothing before it makes or removes files.
    pub(super) files_are_seen: bool,
    /// Whether nothing beside it in its pipeline makes links or moves files.
    pub(super) links_are_seen: bool,
    /// Whether `find` prints for it the names that it reads, with a NUL behind each (G16).
    pub(super) is_fed: bool,
    /// Whether a copy of the leader starts it: it stands in a word of another one (G19), or in a compound command that is a process
    /// of its own (G21).
    pub(super) is_apart: bool,
    /// Whether its input is a pipe, which another command fills.
    pub(super) reads_pipe: bool,
}

impl SegmentContext<'_> {
    /// Whether a command before it or beside it may make what is not there when it is judged.
    pub(super) const fn may_be_made(self) -> bool {
        self.operator.is_some() || !self.links_are_seen
    }
}

/// What became of a segment.
#[derive(Debug)]
pub(super) struct EvaluatedSegment {
    pub(super) report: SegmentReport,
    /// Empty if and only if the segment is covered.
    pub(super) findings: Vec<Finding>,
    /// `None` when it can only run as text.
    pub(super) step: Option<PlanStep>,
    pub(super) proposals: Vec<Proposal>,
    /// The literal target of an accepted `cd`.
    pub(super) changes_to: Option<String>,
    /// What is to be kept of its program; `None` for a builtin.
    pub(super) limits: Option<Limits>,
    /// The files of its programs, those of its payload among them.
    pub(super) judged: Vec<FileIdentity>,
}

/// What is behind the wrappers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing, or a wrapper in a form that is not accepted.
    Refused,
    /// A program of that class.
    Program(NameClass),
}

/// A segment with everything found out about it so far.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is found out apart")]
pub(super) struct Work<'a> {
    pub(super) segment: &'a Segment,
    pub(super) context: SegmentContext<'a>,
    /// Values of all words, with the home directory put in.
    pub(super) values: Vec<String>,
    /// Index of the command word behind the wrappers taken so far.
    pub(super) at: usize,
    /// The file that word names.
    pub(super) executable: Result<Executable, Unresolved>,
    pub(super) wrappers: Vec<WrapperReport>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<&'static str>,
    /// The deny rule that matched this segment.
    pub(super) denied: Option<DenyHit>,
    /// A deny rule about its program that its arguments do not match.
    pub(super) near_deny_rule: Option<String>,
    pub(super) inline_eval: bool,
    /// Whether it is a shell that runs text which is not looked into.
    pub(super) unread_text: bool,
    /// Whether the words can be started as they stand.
    pub(super) plannable: bool,
    /// Whether the link that the current word may be is part of what is judged, so that the program may know of it.
    pub(super) keeps_link: bool,
    /// The files of the programs in it: wrappers, what they start, and what a payload starts.
    pub(super) judged: Vec<FileIdentity>,
    /// Where its input, output and errors go.
    pub(super) redirections: Vec<Redirection>,
    /// What the limits of its program are made of.
    pub(super) limits_from: LimitsFrom,
    /// A word by its place, and what the plan has instead: the path of a program that another one starts.
    pub(super) replaced: Option<(usize, String)>,
    /// Arguments that were judged as a segment of their own, by their places.
    pub(super) apart: Option<Range<usize>>,
    /// Words of the plan so far.
    planned: Vec<String>,
    /// `argv[0]` of the plan's first program.
    first_name: Option<String>,
    /// The file that it was.
    first_identity: Option<FileIdentity>,
}

impl<'a> Work<'a> {
    pub(super) fn new(segment: &'a Segment, context: SegmentContext<'a>, home: &str) -> Self {
        let value = |word: &Word| {
            if word.class.is_below_home() {
                paths::expand_home(&word.value, home)
            } else {
                word.value.clone()
            }
        };
        Self {
            segment,
            context,
            values: segment.words.iter().map(value).collect(),
            at: 0,
            executable: Err(Unresolved::NotFound),
            wrappers: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            denied: None,
            near_deny_rule: None,
            inline_eval: false,
            unread_text: false,
            plannable: true,
            keeps_link: true,
            judged: Vec::new(),
            redirections: Vec::new(),
            limits_from: LimitsFrom::Nothing,
            replaced: None,
            apart: None,
            planned: Vec::new(),
            first_name: None,
            first_identity: None,
        }
    }

    pub(super) fn word(&self) -> Option<&'a Word> {
        self.segment.words.get(self.at)
    }

    pub(super) fn typed(&self) -> &str {
        self.values.get(self.at).map_or("", String::as_str)
    }

    pub(super) fn span(&self) -> Span {
        self.word().map_or(self.segment.span, |word| word.span)
    }

    /// The values behind the command word.
    pub(super) fn arguments(&self) -> Vec<&str> {
        self.values.iter().skip(self.at + 1).map(String::as_str).collect()
    }

    /// The same without those that were judged apart, which entries do not see.
    pub(super) fn own_arguments(&self) -> Vec<&str> {
        let mut arguments = self.arguments();
        if let Some(apart) = self.apart.clone() {
            arguments.drain(apart);
        }
        arguments
    }

    /// The words behind the command word.
    pub(super) fn argument_words(&self) -> &'a [Word] {
        self.segment.words.get(self.at + 1..).unwrap_or_default()
    }

    /// Whether every argument is what a shell would pass on.
    pub(super) fn has_literal_arguments(&self) -> bool {
        self.argument_words().iter().all(|word| !word.class.is_dynamic())
    }

    pub(super) fn executable(&self) -> Option<&Executable> {
        self.executable.as_ref().ok()
    }

    /// Whether a redirection of it writes a file of the workspace.
    pub(super) fn writes_to_files(&self) -> bool {
        let mut files = self.redirections.iter().filter_map(Redirection::file);
        files.any(|file| file.used_as.writes())
    }

    /// The file that is started first, once it was planned.
    pub(super) const fn started(&self) -> Option<&FileIdentity> {
        self.first_identity.as_ref()
    }

    /// What people call the program that is started first.
    pub(super) fn label(&self) -> &str {
        let first = self.first_name.as_deref().unwrap_or_else(|| self.typed());
        paths::base_name(first)
    }

    /// Every base name the program goes by.
    pub(super) fn names(&self) -> Vec<&str> {
        match &self.executable {
            Ok(executable) => executable.names(),
            Err(_) => vec![paths::base_name(self.typed())],
        }
    }

    /// Whether its arguments or its standard input may make it run more than its file.
    pub(super) fn runs_unseen(&self) -> bool {
        let (names, arguments) = (self.names(), self.arguments());
        self.unread_text
            || matches!(
                NameClass::of_all(names.iter().copied()),
                // A wrapper that is still here was refused.
                NameClass::Carrier | NameClass::RefusedBuiltin | NameClass::Multiplexer | NameClass::Wrapper
            )
            || delegation::delegates(&names, &arguments)
            || (self.context.reads_pipe && delegation::reads_commands(&names))
            || inline_eval::inline_eval(&names, &arguments).is_some()
    }

    /// Words that may be files with code for the program; `runs_unseen` is [`Self::runs_unseen`].
    pub(super) fn code_operands(&self, runs_unseen: bool) -> Vec<String> {
        let behind = self.values.get(self.at + 1..).unwrap_or_default();
        let found = operands::code_operands(&self.names(), behind, runs_unseen);
        found.into_iter().map(str::to_owned).collect()
    }

    /// How the words behind the program lose their meaning.
    pub(super) fn moves(&self) -> Option<Moves> {
        let behind = self.values.get(self.at + 1..).unwrap_or_default();
        moving::moves(&self.names(), behind)
    }

    pub(super) fn fail(&mut self, code: Code, rule: &'static str, detail: impl Into<String>) {
        self.findings.push(Finding::new(code, rule, self.span(), detail));
    }

    /// Notes a match of a deny rule, which comes before everything else.
    pub(super) fn deny(&mut self, hit: DenyHit) {
        let whose = match hit.owner.as_str() {
            "*" => "of every agent".to_owned(),
            owner => format!("of {owner}"),
        };
        let why = hit.reason.as_deref().map(|reason| format!(": {reason}"));
        let detail = format!(
            "the deny rule {} ({whose}) matches{}",
            hit.pattern,
            why.unwrap_or_default()
        );
        self.findings
            .insert(0, Finding::new(Code::Denylisted, "deny", hit.span, detail));
        self.denied.get_or_insert(hit);
    }

    /// Puts the program at the current word into the plan, with `own` words behind it.
    pub(super) fn plan_program(&mut self, own: usize) {
        let (path, name) = match &self.executable {
            Ok(executable) => executable.start(self.typed(), self.keeps_link),
            Err(_) => (self.typed().to_owned(), self.typed().to_owned()),
        };
        if self.first_name.is_none() {
            self.first_name = Some(name);
            self.first_identity = self.executable().map(|executable| executable.identity.clone());
        }
        self.planned.push(path);
        let options = self.values.iter().enumerate().skip(self.at + 1).take(own);
        let planned = options.map(|(at, value)| match &self.replaced {
            Some((replaced, path)) if *replaced == at => path.clone(),
            Some(_) | None => value.clone(),
        });
        self.planned.extend(planned);
    }

    /// The plan's step: wrappers, the program, and all of its arguments.
    pub(super) fn step(&mut self) -> PlanStep {
        let arguments = self.values.len().saturating_sub(self.at + 1);
        // Only a `*` entry gets here without a file: the name is left to fail when it runs.
        let kind = if self.executable.is_err() && self.planned.is_empty() {
            StepKind::Word
        } else {
            StepKind::Program
        };
        self.plan_program(arguments);
        PlanStep {
            assignments: self.assignments(),
            kind,
            name: self.first_name.clone().unwrap_or_default(),
            words: self.planned.clone(),
            identity: self.first_identity.clone(),
            redirections: self.redirections.clone(),
            fills: Vec::new(),
        }
    }

    /// A step of the shell's own.
    pub(super) fn builtin_step(&self, words: Vec<String>) -> PlanStep {
        PlanStep {
            assignments: self.assignments(),
            kind: StepKind::Word,
            name: self.typed().to_owned(),
            words,
            identity: None,
            redirections: self.redirections.clone(),
            fills: Vec::new(),
        }
    }

    fn assignments(&self) -> Vec<(String, String)> {
        self.segment
            .assignments
            .iter()
            .map(|assignment| (assignment.name.clone(), assignment.value.clone()))
            .collect()
    }
}
