//! What the ledger has of runs, as their objects.

use countersign_domain::{Command, Ruling, Run, RunStatus};
use countersign_runner::output::Captured;
use countersign_wire::{
    approval::ApprovalView,
    ruling::{self, RulingBody},
    run::{RunBody, RunBriefBody, RunDetail},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;

pub(crate) fn with_output(run: Run, output: Captured, ruling: Ruling) -> RunDetail {
    let has_ended = run.status.is_final();
    RunDetail {
        agent_message: has_ended.then(|| ruling::agent_message(&run, &ruling)),
        user_reason: ruling.reason.clone(),
        decided_by: RulingBody::of(ruling),
        run: run.into(),
        aggregated: output.aggregated,
        stdout: output.stdout,
        stderr: output.stderr,
    }
}

/// A run among others: a patch is named by its files.
fn listed(mut run: Run) -> RunBody {
    let short = matches!(run.command, Command::Patch(_)).then(|| run.command.to_short_text());
    if let Some(short) = short {
        run.command = Command::Patch(short);
    }
    run.into()
}

/// A run on a list: all of it but its output, or what a list shows of it (`view`).
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ListedRun {
    Full(Box<RunBody>),
    Brief(Box<RunBriefBody>),
}

/// A run as a list has it.
pub(crate) fn in_list(run: Run, view: ApprovalView) -> ListedRun {
    match view {
        ApprovalView::Full => ListedRun::Full(Box::new(listed(run))),
        ApprovalView::Brief => ListedRun::Brief(Box::new(listed(run).into())),
    }
}

/// The ledger's states behind a status word of the API.
pub(crate) fn statuses_named(name: &str) -> Result<Vec<RunStatus>, Problem> {
    let statuses: Vec<_> = RunStatus::ALL
        .iter()
        .copied()
        .filter(|status| status.api_name() == name)
        .collect();
    if statuses.is_empty() {
        return Err(Problem::field(
            "status",
            "expected queued, approval-pending, running, completed, failed, denied, cancelled or lost",
        ));
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_asked_for_by_its_word() {
        for status in RunStatus::ALL {
            assert!(
                statuses_named(status.api_name()).unwrap().contains(status),
                "{status}"
            );
        }
        assert_eq!(
            statuses_named("queued").unwrap(),
            vec![RunStatus::Requested, RunStatus::Launching]
        );
        assert!(statuses_named("launching").is_err());
    }
}
