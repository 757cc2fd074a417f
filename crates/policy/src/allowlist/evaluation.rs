//! The walk over a whole command, and the one entry point.

use std::cell::Cell;

use countersign_domain::{Command, CommandInput, Confinement, FileIdentity, NotKept, Pattern};

use super::{
    Analysis, AnalysisPolicy, AnalysisRequest, AnalysisVerdict, CreditKind, CreditedEntry, DenyHit, Match,
    MatchKind, SegmentReport, Typing,
    coverage::Coverage,
    denial::Denial,
    directory::Directory,
    effort::Effort,
    keeps::{Explicit, Limits},
    listings::Listings,
    looking::{makes_no_links, only_looks_at_files},
    proposal::{self, Proposal},
    work::SegmentContext,
};

use crate::{
    command::{
        Code, Finding, PathLookup, Plan, PlanStep, Rule, RuleSet, SourceMap, Span,
        direct::ShellKind,
        env_policy, parser,
        rendering::{PlanCondition, PlanFill, PlanFilling, PlanItem, PlanPart},
        syntax::{
            Compound, Condition, Does, Grammar, Item, Join, List, Part, Segment, Setting, SubstitutedBy,
            Substitution, Word,
        },
        variables::Surroundings,
    },
    pattern::{ArgumentRule, GENERATED_SOURCE, command_digest, command_marker},
};

/// Analyses a command against every rule. Never fails: what is not understood is a finding and a miss.
pub fn analyze(
    command: &Command,
    request: &AnalysisRequest<'_>,
    policy: &AnalysisPolicy<'_>,
    lookup: &dyn PathLookup,
) -> Analysis {
    analyze_under(RuleSet::ALL, command, request, policy, lookup)
}

/// The same under a set of rules.
pub fn analyze_under(
    rules: RuleSet,
    command: &Command,
    request: &AnalysisRequest<'_>,
    policy: &AnalysisPolicy<'_>,
    lookup: &dyn PathLookup,
) -> Analysis {
    let (analysis, lacks_input) = evaluate(rules, command, request, policy, lookup);
    if analysis.satisfied || !lacks_input || request.input != CommandInput::Pipe {
        return analysis;
    }
    // Nothing needs to be written to a pipe for the command to run: it may do so at the end of its input.
    let closed = AnalysisRequest {
        input: CommandInput::Closed,
        ..*request
    };
    let (mut without_input, _) = evaluate(rules, command, &closed, policy, lookup);
    if !without_input.satisfied {
        return analysis;
    }
    // A person may allow it with its input, and `full` does: what is not seen of it then stays unseen.
    note_unseen(&mut without_input.segments, analysis.segments);
    Analysis {
        input: CommandInput::Withheld,
        needs_person: without_input.needs_person || analysis.needs_person,
        ..without_input
    }
}

/// Notes in segments what may run unseen in the same segments with an open input.
fn note_unseen(closed: &mut [SegmentReport], open: Vec<SegmentReport>) {
    for (segment, typed) in closed.iter_mut().zip(open) {
        segment.runs_unseen |= typed.runs_unseen;
        if segment.runs_unseen {
            segment.code_operands = typed.code_operands;
        }
        note_unseen(&mut segment.segments, typed.segments);
    }
}

/// The analysis, and whether more would be covered if the input were closed.
fn evaluate(
    rules: RuleSet,
    command: &Command,
    request: &AnalysisRequest<'_>,
    policy: &AnalysisPolicy<'_>,
    lookup: &dyn PathLookup,
) -> (Analysis, bool) {
    let scanning = Effort::default();
    let mut evaluation = Evaluation::new(rules, request, policy, lookup, &scanning);
    let directory = (request.cwd == request.cwd_real).then_some(request.cwd);
    let is_set = |name: &str| evaluation.is_set(name);
    let surroundings = evaluation.surroundings(directory, &is_set);
    let grammar = Grammar {
        // Others leave them as they are, or take more apart.
        braces: policy.grammar.braces && request.shell == Some(ShellKind::Bash),
        ..policy.grammar
    };
    let evaluated = match read(rules, grammar, surroundings, command) {
        Err(Unread::Rejected(finding)) => return (rejected(finding), false),
        Ok(list) => {
            let directory = Directory::new(request.cwd_real);
            // What runs in the background runs beside everything.
            let is_alone = !has_background(&list);
            let context = SegmentContext {
                operator: None,
                directory: &directory,
                alone: true,
                depth: 0,
                files_are_seen: is_alone,
                links_are_seen: is_alone,
                is_fed: false,
                is_apart: false,
                reads_pipe: false,
            };
            evaluation.evaluate_list(&list, context)
        }
        Err(Unread::Outside(finding)) => {
            evaluation.parsed = false;
            EvaluatedList {
                findings: vec![finding],
                ..EvaluatedList::default()
            }
        }
    };
    let analysis = evaluation.conclude(command, evaluated);
    (analysis, evaluation.lacks_input.get())
}

/// Why a command cannot be taken apart.
enum Unread {
    /// It is a bad request.
    Rejected(Finding),
    /// It is outside of the accepted grammar.
    Outside(Finding),
}

fn read(
    rules: RuleSet,
    grammar: Grammar,
    surroundings: Surroundings<'_>,
    command: &Command,
) -> Result<List, Unread> {
    match command {
        Command::Shell(text) => match parser::rejection_under(rules, text) {
            Some(finding) => Err(Unread::Rejected(finding)),
            None => parser::parse_under(rules, grammar, surroundings, text, &SourceMap::identity())
                .map_err(Unread::Outside),
        },
        Command::Argv(words) => match words.iter().find_map(|word| nul_finding(word)) {
            Some(finding) => Err(Unread::Rejected(finding)),
            None => Ok(argv_list(words)),
        },
        // What it changes is no program: no entry covers it and no rule matches.
        Command::Patch(_) => {
            let detail = "a patch is not a command that could be analysed".to_owned();
            let finding = Finding::new(Code::EmptySegment, "G10", Span::default(), detail);
            Err(Unread::Rejected(finding))
        }
    }
}

/// Whether something in a list runs in the background (G24).
fn has_background(list: &List) -> bool {
    let of_word = |word: &Word| {
        let mut lists = word.substitutions.iter().filter_map(Substitution::output);
        lists.any(has_background)
    };
    let mut parts = list.items.iter().flat_map(|item| &item.pipeline);
    parts.any(|part| match part {
        Part::Segment(segment) => {
            let set = segment.sets.as_ref().map(|setting| &setting.value);
            segment.words.iter().chain(set).any(of_word)
        }
        Part::Compound(compound) => {
            matches!(compound.does, Does::Background(_)) || compound.does.lists().any(has_background)
        }
    })
}

/// The operator before a segment of a pipeline.
fn operator_before(index: usize, join: Option<Join>) -> Option<&'static str> {
    if index > 0 {
        Some("|")
    } else {
        join.map(Join::as_str)
    }
}

/// The state of one analysis.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each with its own reader"
)]
pub(super) struct Evaluation<'a> {
    pub(super) rules: RuleSet,
    pub(super) request: &'a AnalysisRequest<'a>,
    pub(super) policy: &'a AnalysisPolicy<'a>,
    pub(super) lookup: &'a dyn PathLookup,
    /// What was spent on paths that may be the server's (P6).
    pub(super) effort: Effort,
    /// What was looked at for patterns of file names (G14).
    pub(super) listings: Listings,
    /// What was spent on words that deny rules are tried on.
    scanning: &'a Effort,
    segments: usize,
    /// Texts that were looked into.
    pub(super) texts: usize,
    /// Whether what is judged is only looked into.
    pub(super) is_aside: bool,
    /// Whether all text was understood, payloads included.
    pub(super) parsed: bool,
    /// Whether something may run that deny rules could not look at.
    pub(super) opaque: bool,
    pub(super) inline_eval: bool,
    pub(super) shell_payload: bool,
    pub(super) denylisted: Option<DenyHit>,
    pub(super) executables: Vec<FileIdentity>,
    credited: Vec<CreditedEntry>,
    /// `Some(true)` while everything so far was covered by remembered answers.
    durable: Option<bool>,
    /// Whether something would be covered if the input were closed.
    pub(super) lacks_input: Cell<bool>,
    /// What everything that was covered so far includes of an open input.
    pub(super) typing: Typing,
    /// What entries that cover something say of it.
    pub(super) explicit: Vec<Explicit>,
    /// Why not all of that is kept.
    pub(super) not_kept: Option<NotKept>,
    /// Files of the temporary directory that redirections of the command make (G15).
    pub(super) made: Vec<String>,
}

/// A state of the credits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    credited: usize,
    durable: Option<bool>,
    explicit: usize,
    not_kept: Option<NotKept>,
}

/// What became of a list.
#[derive(Debug, Default)]
pub(super) struct EvaluatedList {
    pub(super) reports: Vec<SegmentReport>,
    pub(super) findings: Vec<Finding>,
    pub(super) plan: Option<Plan>,
    /// With the index of the segment in this list.
    pub(super) proposals: Vec<(usize, Proposal)>,
    /// What is to be kept of each of its programs; builtins have none.
    pub(super) limits: Vec<Limits>,
    /// The files of its programs.
    pub(super) judged: Vec<FileIdentity>,
    /// Whether something in it may make or remove files.
    pub(super) changes_files: bool,
    /// Whether it may go to another directory.
    pub(super) changes_directory: bool,
    /// Where it ends, as far as that is certain.
    pub(super) directory: Option<Directory>,
}

impl EvaluatedList {
    /// Takes over what was found in a list inside of this one, behind what was found before; its plan.
    fn absorb(&mut self, inside: Self) -> Option<Plan> {
        let from = self.reports.len();
        self.reports.extend(inside.reports);
        self.findings.extend(inside.findings);
        self.limits.extend(inside.limits);
        self.judged.extend(inside.judged);
        let proposals = inside.proposals.into_iter();
        self.proposals
            .extend(proposals.map(|(at, proposal)| (from + at, proposal)));
        inside.plan
    }

    fn note_changes(&mut self, inside: &Self) {
        self.changes_files |= inside.changes_files;
        self.changes_directory |= inside.changes_directory;
        match &mut self.directory {
            None => self.directory.clone_from(&inside.directory),
            Some(directory) => directory.lose(inside.directory.as_ref()),
        }
    }
}

impl<'a> Evaluation<'a> {
    fn new(
        rules: RuleSet,
        request: &'a AnalysisRequest<'a>,
        policy: &'a AnalysisPolicy<'a>,
        lookup: &'a dyn PathLookup,
        scanning: &'a Effort,
    ) -> Self {
        Self {
            rules,
            request,
            policy,
            lookup,
            effort: Effort::default(),
            listings: Listings::default(),
            scanning,
            segments: 0,
            texts: 0,
            is_aside: false,
            parsed: true,
            opaque: false,
            inline_eval: false,
            shell_payload: false,
            denylisted: None,
            executables: Vec::new(),
            credited: Vec::new(),
            durable: None,
            lacks_input: Cell::new(false),
            typing: Typing::Anything,
            explicit: Vec::new(),
            not_kept: None,
            made: Vec::new(),
        }
    }

    pub(super) fn coverage(&self) -> Coverage<'a> {
        Coverage {
            rules: self.rules,
            request: self.request,
            policy: self.policy,
            lookup: self.lookup,
        }
    }

    /// What is known where a text begins, in a directory that is certain or not (G18).
    pub(super) fn surroundings<'s>(
        &'s self,
        directory: Option<&'s str>,
        is_set: &'s dyn Fn(&str) -> bool,
    ) -> Surroundings<'s> {
        Surroundings {
            home: self.lookup.home_variable(),
            directory,
            is_set,
        }
    }

    /// Whether a command has a variable in its environment.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.request.env.iter().any(|(other, _)| other == name) || self.lookup.is_set(name)
    }

    pub(super) fn denial(&self) -> Denial<'a> {
        Denial {
            policy: self.policy,
            lookup: self.lookup,
            effort: self.scanning,
        }
    }

    /// Evaluates all segments of a list, starting in the directory of `context`.
    pub(super) fn evaluate_list(&mut self, list: &List, context: SegmentContext<'_>) -> EvaluatedList {
        let mut directory = context.directory.clone();
        let mut evaluated = EvaluatedList::default();
        let mut items = Vec::new();
        let mut plannable = true;
        let mut files_are_seen = context.files_are_seen;
        for Item {
            join,
            is_negated,
            pipeline,
        } in &list.items
        {
            if let Some(join) = join {
                directory.join(*join);
            }
            let mut parts = Vec::new();
            let mut only_looks = true;
            let mut moves_here = false;
            let mut fed: Option<Segment> = None;
            let may_link = |part: &Part| part.segment().is_none_or(|segment| !makes_no_links(segment));
            let linking = pipeline.iter().filter(|part| may_link(part)).count();
            for (index, part) in pipeline.iter().enumerate() {
                let own = usize::from(may_link(part));
                let inner = SegmentContext {
                    // Where something comes before the list, its first segment is not the first.
                    operator: operator_before(index, *join).or(context.operator),
                    directory: &directory,
                    alone: pipeline.len() == 1,
                    depth: context.depth,
                    files_are_seen: files_are_seen && only_looks,
                    links_are_seen: context.links_are_seen && linking == own,
                    is_fed: false,
                    is_apart: context.is_apart,
                    reads_pipe: context.reads_pipe || index > 0,
                };
                let segment = match part {
                    Part::Segment(segment) => segment,
                    Part::Compound(compound) => {
                        let inside = SegmentContext {
                            alone: true,
                            is_apart: inner.is_apart || pipeline.len() > 1,
                            ..inner
                        };
                        let (part, one) = self.evaluate_compound(compound, inside);
                        only_looks &= !one.changes_files;
                        // What runs beside it does not follow it.
                        let moves = one.changes_directory && pipeline.len() == 1;
                        evaluated.changes_directory |= moves;
                        let led_to = one.directory.clone();
                        let _plan = evaluated.absorb(one);
                        match part {
                            Some(part) => parts.push(part),
                            None => plannable = false,
                        }
                        if moves {
                            directory.lose(led_to.as_ref());
                        }
                        continue;
                    }
                };
                self.segments += 1;
                if self.rules.holds(Rule::G10, self.segments > parser::MAX_SEGMENTS) {
                    self.parsed = false;
                    evaluated.findings.push(Finding::new(
                        Code::TooManySegments,
                        "G10",
                        segment.span,
                        "more than 64 segments, those of shells counted",
                    ));
                    evaluated
                        .proposals
                        .push((evaluated.reports.len(), Proposal::Never));
                    return evaluated;
                }
                let inner = SegmentContext {
                    is_fed: fed.is_some(),
                    ..inner
                };
                let (fills, inner) = self.evaluate_substitutions(segment, inner, &mut evaluated);
                only_looks &= inner.files_are_seen || !files_are_seen;
                let behind_it = pipeline
                    .get(index + 1)
                    .filter(|_| !inner.is_fed)
                    .and_then(|next| Some((next.segment()?, usize::from(may_link(next)))));
                let pair = behind_it.and_then(|(next, links)| {
                    let links_are_seen = context.links_are_seen && linking == own + links;
                    let inner = SegmentContext {
                        links_are_seen,
                        ..inner
                    };
                    self.with_nul(segment, next, inner)
                });
                // The other one of the pair is known to make none.
                let inner = SegmentContext {
                    links_are_seen: inner.links_are_seen || pair.is_some(),
                    ..inner
                };
                let (changed, next) = pair.unzip();
                let taken = std::mem::replace(&mut fed, next);
                let one =
                    self.evaluate_segment(changed.as_ref().or(taken.as_ref()).unwrap_or(segment), inner);
                only_looks &= only_looks_at_files(segment, &one.report);
                let at = evaluated.reports.len();
                evaluated.reports.push(one.report);
                evaluated.findings.extend(one.findings);
                evaluated.limits.extend(one.limits);
                evaluated.judged.extend(one.judged);
                evaluated
                    .proposals
                    .extend(one.proposals.into_iter().map(|proposal| (at, proposal)));
                match (one.step.zip(fills), &segment.sets) {
                    (Some((_, fills)), Some(Setting { name, value })) => parts.push(PlanPart::Set {
                        variable: name.clone(),
                        value: value.value.clone(),
                        fills,
                    }),
                    (Some((step, fills)), None) => parts.push(PlanPart::Step(PlanStep { fills, ..step })),
                    (None, _) => plannable = false,
                }
                if let Some(target) = one.changes_to {
                    directory.change(&target);
                    moves_here = true;
                    evaluated.changes_directory = true;
                }
            }
            if *is_negated && moves_here {
                // What follows `&&` is there only where it failed.
                let moved = directory.clone();
                directory.lose(Some(&moved));
            }
            files_are_seen &= only_looks;
            evaluated.changes_files |= !only_looks;
            items.push(PlanItem {
                join: *join,
                is_negated: *is_negated,
                parts,
            });
        }
        evaluated.plan = plannable.then_some(Plan { items });
        evaluated.directory = Some(directory);
        evaluated
    }

    /// Judges the commands whose output stands in the words of a segment (G19), each like a list of its own behind those before it.
    /// What their plans put into the words, `None` where one of them has no plan; and the context behind all of them.
    fn evaluate_substitutions<'c>(
        &mut self,
        segment: &Segment,
        mut context: SegmentContext<'c>,
        evaluated: &mut EvaluatedList,
    ) -> (Option<Vec<PlanFill>>, SegmentContext<'c>) {
        let mut fills = Some(Vec::new());
        let words = match &segment.sets {
            Some(setting) => std::slice::from_ref(&setting.value),
            None => segment.words.as_slice(),
        };
        for (argument, word) in words.iter().enumerate() {
            for Substitution { place, by } in &word.substitutions {
                let with = match by {
                    SubstitutedBy::Status => Some(PlanFilling::Status),
                    SubstitutedBy::Background => Some(PlanFilling::Background),
                    SubstitutedBy::Variable(name) => Some(PlanFilling::Variable(name.clone())),
                    SubstitutedBy::Output(list) => {
                        let inner = SegmentContext {
                            alone: true,
                            is_fed: false,
                            is_apart: true,
                            ..context
                        };
                        let inside = self.evaluate_list(list, inner);
                        context.operator = context.operator.or(Some(Join::Sequence.as_str()));
                        context.files_are_seen &= !inside.changes_files;
                        evaluated.absorb(inside).map(PlanFilling::Output)
                    }
                };
                let place = place.clone();
                fills = fills.zip(with).map(|(mut fills, with)| {
                    fills.push(PlanFill {
                        argument,
                        place,
                        with,
                    });
                    fills
                });
            }
        }
        (fills, context)
    }

    /// Judges the lists of a compound command (G21), each behind what may run before it. `None` where there is no plan for it.
    fn evaluate_compound(
        &mut self,
        compound: &Compound,
        context: SegmentContext<'_>,
    ) -> (Option<PlanPart>, EvaluatedList) {
        let mut evaluated = EvaluatedList::default();
        match &compound.does {
            Does::All(list) => {
                let inside = self.evaluate_list(list, context);
                evaluated.note_changes(&inside);
                let plan = evaluated.absorb(inside);
                (plan.map(PlanPart::All), evaluated)
            }
            Does::Apart(list) => {
                let inside = self.evaluate_list(
                    list,
                    SegmentContext {
                        is_apart: true,
                        ..context
                    },
                );
                evaluated.changes_files = inside.changes_files;
                let plan = evaluated.absorb(inside);
                (plan.map(PlanPart::Apart), evaluated)
            }
            Does::Choice {
                condition,
                then,
                otherwise,
            } => {
                let inside = self.evaluate_list(condition, context);
                evaluated.note_changes(&inside);
                let mut directory = context.directory.clone();
                if inside.changes_directory {
                    directory.lose(inside.directory.as_ref());
                }
                let behind = SegmentContext {
                    operator: context.operator.or(Some(Join::Sequence.as_str())),
                    directory: &directory,
                    files_are_seen: context.files_are_seen && !inside.changes_files,
                    ..context
                };
                let condition = evaluated.absorb(inside);
                let inside = self.evaluate_list(then, behind);
                evaluated.note_changes(&inside);
                let then = evaluated.absorb(inside);
                let mut is_complete = true;
                let otherwise = otherwise.as_ref().and_then(|list| {
                    let inside = self.evaluate_list(list, behind);
                    evaluated.note_changes(&inside);
                    let plan = evaluated.absorb(inside);
                    is_complete = plan.is_some();
                    plan
                });
                let plans = condition.zip(then).filter(|_| is_complete);
                let part = plans.map(|(condition, then)| PlanPart::Choice {
                    condition,
                    then,
                    otherwise,
                });
                (part, evaluated)
            }
            Does::Turns { condition, body } => self.evaluate_turns(condition, body, compound.span, context),
            Does::Background(list) => {
                let inside = self.evaluate_list(
                    list,
                    SegmentContext {
                        is_apart: true,
                        // It reads nothing, whatever stands around it.
                        reads_pipe: false,
                        ..context
                    },
                );
                evaluated.changes_files = inside.changes_files;
                let plan = evaluated.absorb(inside);
                (plan.map(PlanPart::Background), evaluated)
            }
            Does::Wait => (Some(PlanPart::Wait), evaluated),
        }
    }

    /// Judges a loop (G22), each command once: behind all that another turn may have done.
    fn evaluate_turns(
        &mut self,
        condition: &Condition,
        body: &List,
        span: Span,
        context: SegmentContext<'_>,
    ) -> (Option<PlanPart>, EvaluatedList) {
        let mut evaluated = EvaluatedList::default();
        let context = SegmentContext {
            operator: context.operator.or(Some(Join::Sequence.as_str())),
            files_are_seen: false,
            ..context
        };
        let mut plans = Vec::new();
        for list in condition.list().into_iter().chain([body]) {
            let inside = self.evaluate_list(list, context);
            evaluated.note_changes(&inside);
            plans.push(evaluated.absorb(inside));
        }
        if !self.rules.holds(Rule::G22, !evaluated.changes_directory) {
            let detail = "the directory of the next turn of this loop is not certain";
            evaluated
                .findings
                .push(Finding::new(Code::ReservedWord, "G22", span, detail));
        }
        let turn = plans.pop().flatten();
        let condition = match condition {
            Condition::Line { name, trims, raw } => Some(PlanCondition::Line {
                variable: name.clone(),
                trims: *trims,
                raw: *raw,
            }),
            Condition::While(_) => plans.pop().flatten().map(PlanCondition::While),
            Condition::Until(_) => plans.pop().flatten().map(PlanCondition::Until),
        };
        let part = condition.zip(turn);
        let part = part.map(|(condition, body)| PlanPart::Turns { condition, body });
        (part, evaluated)
    }

    pub(super) fn credit(&mut self, credit: Option<CreditedEntry>) {
        let Some(credit) = credit else { return };
        let known = self
            .credited
            .iter()
            .any(|known| known.kind == credit.kind && known.owner == credit.owner && known.id == credit.id);
        if !known {
            self.credited.push(credit);
        }
    }

    /// Evaluates something whose outcome counts for nothing but what is returned.
    pub(super) fn aside<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        let usage = self.usage();
        let executables = self.executables.len();
        let before = (
            self.segments,
            self.is_aside,
            self.parsed,
            self.opaque,
            self.inline_eval,
            self.shell_payload,
        );
        let denylisted = self.denylisted.take();
        (
            self.segments,
            self.is_aside,
            self.parsed,
            self.opaque,
            self.inline_eval,
        ) = (0, true, true, false, false);
        let outcome = evaluate(self);
        (
            self.segments,
            self.is_aside,
            self.parsed,
            self.opaque,
            self.inline_eval,
            self.shell_payload,
        ) = before;
        self.denylisted = denylisted;
        self.executables.truncate(executables);
        self.restore_usage(usage);
        outcome
    }

    /// How many entries that cover something say what is kept of it.
    pub(super) fn explicit_count(&self) -> usize {
        self.explicit.len()
    }

    /// What has been credited so far.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            credited: self.credited.len(),
            durable: self.durable,
            explicit: self.explicit.len(),
            not_kept: self.not_kept,
        }
    }

    /// Forgets what was credited since.
    pub(super) fn restore_usage(&mut self, usage: Usage) {
        self.credited.truncate(usage.credited);
        self.durable = usage.durable;
        self.explicit.truncate(usage.explicit);
        self.not_kept = usage.not_kept;
    }

    pub(super) fn note_durable(&mut self, durable: bool) {
        self.durable = Some(durable && self.durable.unwrap_or(true));
    }

    fn conclude(&mut self, command: &Command, evaluated: EvaluatedList) -> Analysis {
        let mut findings = evaluated.findings;
        let unknown = env_policy::unknown_overrides_under(self.rules, self.request.env);
        if !unknown.is_empty() {
            let detail = format!(
                "environment overrides that are not known to be harmless: {}",
                unknown.join(", ")
            );
            findings.push(Finding::new(Code::EnvUnknown, "E2", Span::default(), detail));
        }
        let (plan, rendered) = match evaluated.plan.map(|plan| (plan.checked_script(), plan)) {
            // A shell would open the files in its own way.
            Some((Ok(_), plan))
                if self
                    .rules
                    .holds(Rule::G13, plan.opens_files() && plan.to_bound().is_none()) =>
            {
                (None, None)
            }
            Some((Ok(script), plan)) => (Some(plan), Some(script)),
            Some((Err(_), _)) | None => (None, None),
        };
        if plan.is_none() && findings.is_empty() {
            // Covered, but there is nothing to start: not covered.
            findings.push(Finding::new(
                Code::NotFound,
                "X1",
                Span::default(),
                "no plan could be made of the command",
            ));
        }
        let is_planned = plan.as_ref().is_some_and(|plan| plan.to_bound().is_some());
        let confined_by_entries = evaluated.limits.iter().map(|one| one.is_said).collect();
        let limits = evaluated.limits.into_iter().map(|one| one.program).collect();
        let (confinement, unkept) = self.confinement(limits, is_planned);
        findings.extend(unkept.filter(|_| findings.is_empty()));
        let marker = self.exact_text(command, &findings, &unknown);
        let input = self.covered_input(
            marker
                .as_ref()
                .filter(|_| !findings.is_empty())
                .map(|(_, typing)| *typing),
        );
        let marker = marker.map(|(entry, _)| entry);
        let is_marked = marker.is_some();
        let every_segment = self.rules.holds(Rule::A3, findings.is_empty());
        let satisfied = self.denylisted.is_none() && (every_segment || is_marked);
        let all_durable = findings.is_empty() && self.durable == Some(true);
        if !satisfied {
            // Nothing is used up by a command that was not allowed by it.
            self.credited.clear();
        } else if let Some(marker) = marker.filter(|_| !findings.is_empty()) {
            self.credited = vec![marker];
        }
        let denial = self.denial();
        let needs_person = self.inline_eval
            // A variable may start what no rule can see, like an option may.
            || (denial.has_rules()
                && (!self.parsed || self.opaque || !unknown.is_empty() || denial.has_unreadable_rules()));
        let lacks_limits = findings
            .iter()
            .any(|finding| finding.code == Code::ConfineUnavailable);
        let is_limited = !unknown.is_empty() || lacks_limits || self.request.input.is_open();
        let proposed_patterns = if satisfied || is_limited {
            Vec::new()
        } else {
            self.propose(command, &evaluated.proposals)
        };
        let verdict = match findings.first() {
            Some(finding) if !satisfied => AnalysisVerdict::Ask(finding.clone()),
            _ => AnalysisVerdict::Allow,
        };
        Analysis {
            verdict,
            satisfied,
            ok: self.parsed,
            durable: satisfied && (is_marked || all_durable),
            needs_person,
            inline_eval: self.inline_eval,
            input,
            shell_payload: self.shell_payload,
            denylisted: self.denylisted.take(),
            credited: std::mem::take(&mut self.credited),
            segments: evaluated.reports,
            // What an exact text covers runs as that text (X2), unless its segments are covered anyway.
            confinement: if !satisfied || findings.is_empty() {
                confinement
            } else {
                Confinement {
                    programs: Vec::new(),
                    not_kept: confinement.not_kept,
                }
            },
            confined_by_entries,
            plan: plan.filter(|_| !satisfied || findings.is_empty()),
            rendered: rendered.filter(|_| !satisfied || findings.is_empty()),
            findings,
            executables: std::mem::take(&mut self.executables),
            proposed_patterns,
        }
    }

    /// What of a wanted input is covered where the command is; `marked` is what the entry for its exact text includes.
    fn covered_input(&self, marked: Option<Typing>) -> CommandInput {
        match (self.request.input, marked.unwrap_or(self.typing)) {
            (CommandInput::Terminal, Typing::Guarded) => CommandInput::GuardedTerminal,
            (wanted, _) => wanted,
        }
    }

    fn propose(&self, command: &Command, proposals: &[(usize, Proposal)]) -> Vec<Pattern> {
        if self.denylisted.is_some() || self.inline_eval {
            return Vec::new();
        }
        let patterns = if self.parsed {
            proposal::collect(proposals)
        } else {
            Vec::new()
        };
        match command {
            Command::Shell(text)
                if patterns.is_empty() && self.policy.exact_text_grants && is_exact(text) =>
            {
                vec![proposal::exact_text(text)]
            }
            Command::Shell(_) | Command::Argv(_) | Command::Patch(_) => patterns,
        }
    }

    /// The entry that stands for exactly this text, where nothing outranks it (M5, E2, I1, P6).
    fn exact_text(
        &self,
        command: &Command,
        findings: &[Finding],
        unknown: &[String],
    ) -> Option<(CreditedEntry, Typing)> {
        let Command::Shell(text) = command else {
            return None;
        };
        if !is_exact(text) {
            return None;
        }
        let digest = command_digest(text);
        let marked = if self.rules.is_forced(Rule::M5) {
            self.policy.entries.all_marked()
        } else {
            self.policy.entries.marked(&command_marker(text))
        };
        let entry = marked.into_iter().find(|entry| {
            let is_whole = |whole: &str| whole.eq_ignore_ascii_case(&digest);
            let is_this = entry.source == Some(GENERATED_SOURCE) && entry.command_sha256.is_none_or(is_whole);
            self.rules.holds(Rule::M5, is_this)
        })?;
        let outranked = !unknown.is_empty()
            || self.inline_eval
            || self.denylisted.is_some()
            || findings.iter().any(|finding| finding.code == Code::Protected)
            // Text that is not understood may be inline eval, or reach into the server's own state.
            || (!self.parsed && (self.policy.strict_inline_eval || self.names_protected(text)));
        if outranked || ArgumentRule::of(entry.arg_pattern, None) != ArgumentRule::Any {
            return None;
        }
        if !self.coverage().includes_input(entry.typing) {
            self.lacks_input.set(true);
            return None;
        }
        // A shell reads it, of which nothing is kept.
        if !self.coverage().keeps(entry.confine, None) {
            return None;
        }
        let credited = CreditedEntry {
            owner: entry.owner.to_owned(),
            id: entry.id.to_owned(),
            kind: CreditKind::Entry,
            pattern: entry.pattern.to_owned(),
            arg_pattern: None,
            resolved: None,
        };
        Some((credited, entry.typing))
    }

    fn names_protected(&self, text: &str) -> bool {
        self.policy
            .protected
            .roots
            .iter()
            .any(|root| text.contains(root.as_str()))
    }
}

/// Whether what an exact entry leaves out at both ends is nothing to a shell either. Other blanks than these are parts of
/// words there, and the text is another command.
fn is_exact(text: &str) -> bool {
    text.trim() == text.trim_matches([' ', '\t', '\n'])
}

impl Analysis {
    /// Why the command is a bad request, if it is one.
    pub fn rejection(&self) -> Option<String> {
        match &self.verdict {
            AnalysisVerdict::Reject(finding) => Some(finding.detail.clone()),
            AnalysisVerdict::Allow | AnalysisVerdict::Ask(_) => None,
        }
    }

    /// The file of the first segment that nothing covers.
    pub fn first_uncovered_path(&self) -> Option<&str> {
        self.segments
            .iter()
            .find(|segment| segment.matched.kind == MatchKind::None)
            .and_then(|segment| segment.resolved_path.as_deref())
    }

    /// Whether all that is missing is that an entry includes an open input.
    pub fn lacks_only_input(&self) -> bool {
        self.verdict
            .finding()
            .is_some_and(|finding| finding.code == Code::OpenInput)
    }

    /// The analysis of a command that is a bad request and was not looked at any further.
    pub fn rejected(finding: Finding) -> Self {
        rejected(finding)
    }

    /// What stands for the analysis of a command that is not judged, since what it may do depends on its place alone:
    /// its parts, of which none is looked up. Where it cannot be taken apart a finding says why, and allows it all the
    /// same.
    pub fn of_parts(command: &Command) -> Self {
        let (segments, finding) = match read(RuleSet::ALL, Grammar::default(), Surroundings::NONE, command) {
            Ok(list) => (parts(&list), None),
            Err(Unread::Rejected(finding) | Unread::Outside(finding)) => (Vec::new(), Some(finding)),
        };
        Self {
            verdict: AnalysisVerdict::Allow,
            satisfied: true,
            ok: finding.is_none(),
            durable: false,
            needs_person: false,
            inline_eval: false,
            input: CommandInput::default(),
            shell_payload: false,
            denylisted: None,
            credited: Vec::new(),
            segments,
            findings: finding.into_iter().collect(),
            plan: None,
            rendered: None,
            executables: Vec::new(),
            confinement: Confinement::default(),
            confined_by_entries: Vec::new(),
            proposed_patterns: Vec::new(),
        }
    }

    /// The same analysis of a call that is a bad request for a reason outside of its command.
    #[must_use]
    pub fn reject(mut self, finding: Finding) -> Self {
        self.findings.insert(0, finding.clone());
        Self {
            verdict: AnalysisVerdict::Reject(finding),
            satisfied: false,
            durable: false,
            credited: Vec::new(),
            proposed_patterns: Vec::new(),
            ..self
        }
    }
}

/// The segments of a list as they are written.
fn parts(list: &List) -> Vec<SegmentReport> {
    let mut parts = Vec::new();
    // The plain grammar has no compound commands.
    for Item { join, pipeline, .. } in &list.items {
        let segments = pipeline.iter().filter_map(Part::segment);
        for (index, segment) in segments.enumerate() {
            let argv: Vec<String> = segment.words.iter().map(|word| word.value.clone()).collect();
            parts.push(SegmentReport {
                span: segment.span,
                operator: operator_before(index, *join),
                wrappers: Vec::new(),
                executable: argv.first().cloned().unwrap_or_default(),
                resolved_path: None,
                matched: Match::plain(MatchKind::None),
                inline_eval: false,
                runs_pipe: false,
                near_deny_rule: None,
                runs_unseen: false,
                code_operands: Vec::new(),
                moves: None,
                notes: Vec::new(),
                segments: Vec::new(),
                filled: Vec::new(),
                argv,
            });
        }
    }
    parts
}

fn rejected(finding: Finding) -> Analysis {
    Analysis {
        verdict: AnalysisVerdict::Reject(finding.clone()),
        satisfied: false,
        ok: false,
        durable: false,
        needs_person: true,
        inline_eval: false,
        input: CommandInput::default(),
        shell_payload: false,
        denylisted: None,
        credited: Vec::new(),
        segments: Vec::new(),
        findings: vec![finding],
        plan: None,
        rendered: None,
        executables: Vec::new(),
        confinement: Confinement::default(),
        confined_by_entries: Vec::new(),
        proposed_patterns: Vec::new(),
    }
}

fn nul_finding(word: &str) -> Option<Finding> {
    word.contains('\0').then(|| {
        Finding::new(
            Code::Nul,
            "G10",
            Span::default(),
            "an argument cannot hold a NUL byte",
        )
    })
}

/// An argument vector as one segment of literal words; spans are those of its canonical text.
fn argv_list(words: &[String]) -> List {
    let mut at = 0;
    let words: Vec<Word> = words
        .iter()
        .map(|word| {
            let text = Command::Argv(vec![word.clone()]).to_text();
            let read = Word {
                map: canonical_map(word, &text, at),
                ..Word::literal(word.clone(), Span::new(at, at + text.len()))
            };
            at += text.len() + 1;
            read
        })
        .collect();
    let span = Span::new(0, at.saturating_sub(1));
    List {
        span,
        items: vec![Item {
            join: None,
            is_negated: false,
            pipeline: vec![Part::Segment(Segment {
                span,
                assignments: Vec::new(),
                words,
                redirections: Vec::new(),
                is_setting: false,
                sets: None,
            })],
        }],
    }
}

/// Where each byte of a word stands in its canonical form, which begins at `at`: as it is, or between double quotes
/// with a backslash before every double quote (`docs/spec/approvals-store.md#12-binding-an-approval-to-what-runs`).
fn canonical_map(word: &str, canonical: &str, at: usize) -> SourceMap {
    let mut map = SourceMap::default();
    let is_quoted = word.len() != canonical.len();
    let mut source = at + usize::from(is_quoted);
    for (offset, character) in word.char_indices() {
        source += usize::from(is_quoted && character == '"');
        map.note(offset, u32::try_from(source).unwrap_or(u32::MAX));
        source += character.len_utf8();
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payloads of argument vectors are read too, so what is found in them has its place in the text that is shown.
    #[test]
    fn words_of_a_vector_stand_in_its_canonical_text() {
        let words = ["sh", "-c", "rg \"a b\" é; rm", "", "plain", "\"", "a\tb"].map(str::to_owned);
        let text = Command::Argv(words.to_vec()).to_text();
        let list = argv_list(&words);
        for word in list.segments().flat_map(|segment| &segment.words) {
            let span = word.span.start as usize..word.span.end as usize;
            let shown = text.get(span).expect("a span inside the text");
            assert_eq!(shown, Command::Argv(vec![word.value.clone()]).to_text());
            for (offset, character) in word.value.char_indices() {
                let source = word.map.source(offset) as usize;
                assert!(
                    text.get(source..).is_some_and(|rest| rest.starts_with(character)),
                    "byte {offset} of {:?}",
                    word.value
                );
            }
        }
    }
}
