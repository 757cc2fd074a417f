//! Several answers at once: the questions are read first and answered by their ids, so what is asked later is not touched.

use std::{
    io::{self, BufRead as _},
    time::Duration,
};

use serde::Deserialize as _;
use serde_json::{Value, json};

use countersign_domain::{ApprovalStatus, TerminalReason, UnixMillis};
use countersign_protocol::ByName;
use countersign_wire::{
    approval::{ApprovalBody, DecidedBody},
    decisions::{DecidedOnBody, DecisionOnBody, DecisionsBody, MAX_DECISIONS, PlainDecision},
    problem::ProblemBody,
};

use super::{
    client::Client,
    console::{Console, Format},
    context::Context,
    duration::clock_face,
    exit::ExitStatus,
    failure::Failure,
    moment, question,
    table::Table,
    value,
};

/// The same answer to several questions.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) decision: PlainDecision,
    pub(super) reason: Option<String>,
    /// Whether the person named filters instead of ids, and so has not seen what they answer.
    pub(super) are_found: bool,
    /// `--yes`.
    pub(super) is_confirmed: bool,
}

/// Answers these questions and tells what became of each. It fails unless every answer counts.
pub(super) async fn give(
    context: &Context,
    client: &Client,
    questions: Vec<ApprovalBody>,
    answers: Answers,
) -> Result<ExitStatus, Failure> {
    let console = context.console;
    if answers.are_found && !questions.is_empty() {
        show(console, &questions);
        if answers.decision == PlainDecision::AllowOnce && !answers.is_confirmed {
            confirm(console, questions.len())?;
        }
    }
    let mut results = Vec::new();
    let mut outcome = Ok(());
    for some in questions.chunks(MAX_DECISIONS) {
        match send(client, some, &answers).await {
            Ok(more) => results.extend(more),
            Err(failure) if results.is_empty() => return Err(failure),
            // What was answered before it is told all the same.
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    let read: Vec<DecidedOnBody> = results
        .iter()
        .map(DecidedOnBody::deserialize)
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new("unexpected-answer", error.to_string()))?;
    match console.format() {
        Format::Json => console.document(&json!({ "results": results }))?,
        Format::People if questions.is_empty() => console.note("nothing waits for a person"),
        Format::People => {
            for result in &read {
                console.line(&line_of(result))?;
            }
        }
    }
    outcome?;
    let is_applied = |result: &DecidedOnBody| result.decided.as_ref().is_some_and(|decided| decided.applied);
    if read.iter().all(is_applied) {
        Ok(ExitStatus::SUCCESS)
    } else {
        Ok(ExitStatus::FAILURE)
    }
}

async fn send(client: &Client, questions: &[ApprovalBody], answers: &Answers) -> Result<Vec<Value>, Failure> {
    let decision = |asked: &ApprovalBody| {
        ByName(DecisionOnBody {
            id: asked.id.clone(),
            decision: answers.decision,
            binding_digest: Some(asked.bound_to.digest.clone()),
            reason: answers.reason.clone(),
            grant: None,
        })
    };
    let body = DecisionsBody {
        decisions: questions.iter().map(decision).collect(),
    };
    let path = ["v1", "approvals", "decisions"];
    let answer: Value = client.post_patiently(&path, &json!(body)).await?;
    let results = answer.get("results").and_then(Value::as_array);
    let results = results.filter(|results| results.len() == questions.len());
    results.cloned().ok_or_else(|| {
        Failure::new(
            "unexpected-answer",
            "the server did not say what became of each answer",
        )
    })
}

/// Questions as a person has to see them before they answer: what goes with each, and its whole command. On standard
/// error, since they are no results. No line of a command begins like one of ours.
fn show(console: Console, questions: &[ApprovalBody]) {
    for (number, asked) in (1..).zip(questions) {
        let mut table = Table::without_header();
        table.fact("id", asked.id.as_str());
        table.fact("agentId", asked.agent_id.as_str());
        table.fact("sessionKey", asked.session_key.as_str());
        table.each("host", [&asked.host]);
        table.each("nodeId", &asked.node_id);
        table.fact("cwd", &asked.cwd);
        table.each("input", &asked.input);
        table.append(&question::said(asked));
        table.append(&question::variables(asked));
        for warning in &asked.display.warnings {
            table.fact("warning", &warning.message);
        }
        console.note(&format!("{number} of {}", questions.len()));
        for line in table.lines() {
            console.note(&line);
        }
        let rest = question::rest_of(asked).unwrap_or_default();
        let command = format!("{}\n{rest}", question::shown_whole(&asked.display));
        for line in command.trim_end().lines() {
            console.note(&format!("  | {line}"));
        }
    }
}

/// Asks whether all of them may run.
fn confirm(console: Console, count: usize) -> Result<(), Failure> {
    let refuse = |why: &str| {
        let message = format!("{why}; nothing was answered");
        Failure::new("not-confirmed", message)
    };
    if !console.can_ask() {
        return Err(
            refuse("an allow by filters has to be confirmed, and here is no terminal")
                .exit(ExitStatus::USAGE)
                .advice("--yes confirms it"),
        );
    }
    console.progress(&format!("Allow these {count} once? [y/N] "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(refuse("it was not confirmed")),
    }
}

/// What became of one answer, for people.
fn line_of(result: &DecidedOnBody) -> String {
    match (&result.decided, &result.problem) {
        (Some(decided), _) => decided_line(decided),
        (None, Some(problem)) => refused_line(result, problem),
        (None, None) => format!("{} has status {}", result.id.slug(), result.status),
    }
}

fn refused_line(result: &DecidedOnBody, problem: &ProblemBody) -> String {
    let Failure { code, message, .. } = Failure::of_problem(result.status, problem.clone());
    format!(
        "{} is not answered: {message} ({})",
        result.id.slug(),
        value::visible(&code)
    )
}

/// What became of an answer that the server took.
pub(super) fn decided_line(decided: &DecidedBody) -> String {
    let DecidedBody {
        applied,
        approval,
        rule,
        no_rule,
    } = decided;
    let line = answered_line(*applied, approval);
    let remembered = approval.grant.as_ref().map(|grant| value::visible(&grant.words));
    let remembered = remembered.filter(|_| approval.status != ApprovalStatus::Pending);
    match (remembered, rule, no_rule) {
        (_, Some(rule), _) => {
            let until = match rule.expires_at_ms {
                Some(until) => format!("until {}", moment::with_zone(UnixMillis::new(until))),
                None => "any more".to_owned(),
            };
            let what = if rule.questions {
                "anything"
            } else {
                "this command"
            };
            format!(
                "{line}. Nobody is asked about {what} of {} {until}",
                approval.agent_id
            )
        }
        (_, None, Some(why)) => format!("{line}. It left no deny rule: {}", value::visible(why)),
        (Some(remembered), None, None) => format!("{line}. It remembers: {remembered}"),
        (None, None, None) => line,
    }
}

fn answered_line(applied: bool, approval: &ApprovalBody) -> String {
    let slug = value::visible(&approval.slug);
    let what = approval
        .decision
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let progress = question::progress(approval).filter(|_| approval.status == ApprovalStatus::Pending);
    match (progress, applied) {
        (Some(progress), _) => {
            let again = if applied {
                ""
            } else {
                ", your answer was there already"
            };
            format!("{slug} is allowed by {progress}{again}: it waits for an approver of another owner")
        }
        (None, true) if approval.terminal_reason == Some(TerminalReason::TakenBack.into()) => {
            format!("{slug} is taken back: it does not run")
        }
        (None, true) => match approval
            .start_delay_ms
            .filter(|_| approval.starts_at_ms.is_some())
        {
            Some(delay) => format!(
                "{slug} is answered: {what}. It is held back for {}; until then you can take it back: \
                 countersign approvals take-back {slug}",
                clock_face(Duration::from_millis(delay))
            ),
            None => format!("{slug} is answered: {what}"),
        },
        (None, false) => format!("{slug} was already answered the same: {what}"),
    }
}
