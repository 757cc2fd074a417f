//! Shells: a payload is judged as a list of its own, everything else needs an argument pattern (S1 to S4).

use countersign_domain::FileIdentity;

use super::{
    Match, MatchKind, SegmentReport,
    coverage::Need,
    entries::Reason,
    evaluation::Evaluation,
    keeps::{Limits, LimitsFrom},
    proposal::Proposal,
    work::{EvaluatedSegment, SegmentContext, Work},
};
use crate::command::{
    Code, Finding, PlanStep, Rule, RuleSet,
    names::NameClass,
    parser,
    shell::{self, PayloadCall, RefusedCall},
    syntax::{Grammar, List, Word, WordClass},
};

/// Shells inside shells deeper than this are not followed (G10).
const MAX_PAYLOAD_DEPTH: u8 = 3;

/// What became of a payload.
struct Payload {
    segments: Vec<SegmentReport>,
    findings: Vec<Finding>,
    script: Option<String>,
    proposals: Vec<Proposal>,
    /// What is to be kept of each of its programs.
    limits: Vec<Limits>,
    judged: Vec<FileIdentity>,
}

impl Evaluation<'_> {
    pub(super) fn evaluate_shell(&mut self, work: Work<'_>, class: NameClass) -> EvaluatedSegment {
        // A link may hide a shell of one kind behind the name of another, so all names must agree.
        let is_understood = class == NameClass::PayloadShell
            && work
                .names()
                .into_iter()
                .all(|name| NameClass::of(name) == NameClass::PayloadShell);
        let call = shell::payload_call(&work.arguments());
        match payload_word(&work, is_understood, call).filter(|_| self.rules.on(Rule::S1)) {
            Some(word) => self.evaluate_payload_call(work, word),
            None => self.evaluate_other_call(work, is_understood, call),
        }
    }

    /// A shell without a payload that can be read.
    fn evaluate_other_call(
        &mut self,
        mut work: Work<'_>,
        is_understood: bool,
        call: Result<PayloadCall, RefusedCall>,
    ) -> EvaluatedSegment {
        // Commands come from standard input, where nothing can be looked at.
        let reads_input = shell::reads_input(&work.arguments(), is_understood);
        self.opaque |= reads_input;
        if self.rules.holds(Rule::S4, work.context.reads_pipe) {
            work.fail(
                Code::Shell,
                "S4",
                "a shell at the end of a pipe runs all that comes out of it",
            );
        }
        self.scan(&mut work);
        let may_hold_text = !is_understood || call != Err(RefusedCall::NoPayload);
        let holds_text = may_hold_text && work.arguments().into_iter().any(shell::is_text_option);
        work.unread_text = reads_input || holds_text;
        if self.policy.strict_inline_eval && holds_text {
            // Code for an interpreter may stand in a payload that is not read.
            self.inline_eval = true;
            work.inline_eval = true;
            work.fail(Code::InlineEval, "I1", "a payload that cannot be looked into");
        }
        self.evaluate_entries(work, refusal(self.rules, is_understood, call))
    }

    fn evaluate_payload_call(&mut self, mut work: Work<'_>, word: &Word) -> EvaluatedSegment {
        self.shell_payload = true;
        let trusted = work
            .executable()
            .is_some_and(|executable| self.coverage().is_trusted(executable));
        if !self.rules.holds(Rule::W4, trusted) {
            work.fail(
                Code::WrapperUntrusted,
                "W4",
                "the shell does not lie in a trusted directory",
            );
        }
        if self
            .rules
            .holds(Rule::G10, work.context.depth >= MAX_PAYLOAD_DEPTH)
        {
            self.opaque = true;
            work.fail(Code::ShellDepth, "G10", "too many shells inside each other");
            return self.miss(work);
        }
        let before = self.usage();
        let explicit = self.explicit.len();
        let given = &work.segment.assignments;
        let is_set = |name: &str| given.iter().any(|one| one.name == name) || self.is_set(name);
        let surroundings = self.surroundings(work.context.directory.known(), &is_set);
        // Another shell reads it, and would put in what it finds itself.
        let grammar = Grammar {
            substitutions: false,
            braces: false,
            compound_commands: false,
            loops: false,
            later_values: false,
            background_commands: false,
            ..self.policy.grammar
        };
        let read = parser::parse_under(self.rules, grammar, surroundings, &word.value, &word.map);
        let payload = match read {
            Ok(list) => self.evaluate_payload(&list, work.context),
            Err(finding) => {
                self.parsed = false;
                Payload::unread(finding)
            }
        };
        for file in &payload.judged {
            if !work.judged.contains(file) {
                work.judged.push(file.clone());
            }
        }
        if payload.findings.is_empty() && work.findings.is_empty() {
            work.keeps_link = work
                .executable()
                .is_none_or(|executable| self.coverage().is_fixed(executable));
            work.limits_from = LimitsFrom::Payload(payload.limits.clone());
            let lets_out = self.lets_out(&self.limits_of(&work).program, explicit);
            if self.rules.on(Rule::C1) && lets_out {
                let detail = "an entry confines a part of the shell's text, and another part is not confined";
                work.fail(Code::ConfineUnavailable, "C1", detail);
                return self.uncovered(work, payload);
            }
            let evaluated = self.finish(work, Match::plain(MatchKind::Payload), vec![Proposal::Covered]);
            return payload.put_into(evaluated);
        }
        if !work.findings.is_empty() || !self.may_be_lifted(&payload) {
            return self.uncovered(work, payload);
        }
        let need = if self.rules.on(Rule::S2) {
            Need::Arguments
        } else {
            Need::Any
        };
        match self.cover(&work, need) {
            Ok(cover) => {
                self.restore_usage(before);
                let mut evaluated = self.covered(work, cover);
                evaluated.report.segments = payload.segments;
                evaluated
            }
            Err(_) => self.uncovered(work, payload),
        }
    }

    fn evaluate_payload(&mut self, list: &List, context: SegmentContext<'_>) -> Payload {
        let inner = SegmentContext {
            operator: None,
            depth: context.depth + 1,
            ..context
        };
        let evaluated = self.evaluate_list(list, inner);
        Payload {
            limits: evaluated.limits,
            judged: evaluated.judged,
            segments: evaluated.reports,
            findings: evaluated.findings,
            script: evaluated.plan.and_then(|plan| plan.checked_script().ok()),
            proposals: evaluated
                .proposals
                .into_iter()
                .map(|(_, proposal)| proposal)
                .collect(),
        }
    }

    /// Whether an entry for the shell itself may cover what its payload does not.
    fn may_be_lifted(&self, payload: &Payload) -> bool {
        let is_final = |finding: &Finding| {
            matches!(
                finding.code,
                Code::Denylisted | Code::Protected | Code::InlineEval | Code::StdinEval
            )
        };
        !payload.findings.iter().any(is_final) && (self.parsed || !self.policy.strict_inline_eval)
    }

    fn uncovered(&mut self, mut work: Work<'_>, payload: Payload) -> EvaluatedSegment {
        let proposals = if work.findings.is_empty() && work.segment.assignments.is_empty() {
            payload.proposals.clone()
        } else {
            vec![Proposal::Never]
        };
        work.findings.extend(payload.findings.iter().cloned());
        let evaluated = self.finish(work, Match::plain(MatchKind::None), proposals);
        payload.put_into(evaluated)
    }
}

impl Payload {
    fn unread(finding: Finding) -> Self {
        Self {
            segments: Vec::new(),
            findings: vec![finding],
            script: None,
            proposals: vec![Proposal::Never],
            limits: Vec::new(),
            judged: Vec::new(),
        }
    }

    /// The plan runs the payload's canonical form; without one the whole command can only run as text.
    fn put_into(self, mut evaluated: EvaluatedSegment) -> EvaluatedSegment {
        evaluated.report.segments = self.segments;
        evaluated.step = evaluated
            .step
            .zip(self.script)
            .map(|(step, script)| with_last_word(step, script));
        evaluated
    }
}

/// The payload is the last word of an accepted call.
fn with_last_word(mut step: PlanStep, script: String) -> PlanStep {
    step.words.pop();
    step.words.push(script);
    step
}

fn payload_word<'a>(
    work: &Work<'a>,
    is_understood: bool,
    call: Result<PayloadCall, RefusedCall>,
) -> Option<&'a Word> {
    let call = call.ok().filter(|_| is_understood)?;
    let words = work.argument_words();
    let is_literal = words.iter().all(|word| word.class == WordClass::Literal);
    words.get(call.payload).filter(|_| is_literal)
}

/// Why only an entry that names the arguments covers this call.
fn refusal(rules: RuleSet, is_understood: bool, call: Result<PayloadCall, RefusedCall>) -> Option<Reason> {
    let reason = match call {
        _ if !is_understood => (Code::ShellStartup, "S1", "a shell that is not analysed"),
        Err(RefusedCall::Options) => (
            Code::ShellStartup,
            "S1",
            "options of the shell that are not accepted",
        ),
        Err(RefusedCall::Positional) => (Code::ShellPositional, "S1", "words behind the payload"),
        Ok(_) | Err(RefusedCall::NoPayload) => (Code::Shell, "S2", "a shell needs an argument pattern"),
    };
    let rule = if reason.1 == "S1" { Rule::S1 } else { Rule::S2 };
    rules.on(rule).then_some(reason)
}
