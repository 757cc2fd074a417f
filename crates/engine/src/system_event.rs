//! The texts that a session is told about its runs (`docs/spec/exec-tool.md#10-system-events`). Pure.

use countersign_domain::{RunEnd, RunId, RunStatus};
pub(super) use countersign_ledger::events::system_text::{RunHost, exec_denied, exec_started};
use countersign_runner::output;

/// How much of a command's output such a text carries.
const TAIL_CHARS: usize = 400;

/// What a session is told when one of its runs in the background, or on a node, has ended.
pub(super) fn exec_finished(run_host: RunHost<'_>, run_id: &RunId, end: &RunEnd) -> String {
    let outcome = if end.timed_out {
        "code=timeout".to_owned()
    } else if let Some(code) = end.exit_code {
        format!("code={code}")
    } else if let Some(signal) = &end.exit_signal {
        format!("signal={signal}")
    } else {
        let reason = end
            .reason
            .map_or_else(|| end.status.api_name(), |reason| reason.as_str());
        format!("code={reason}")
    };
    let line = format!("Exec finished ({run_host}, id={run_id}, {outcome})");
    let tail = output::tail(end.tail.trim_end(), TAIL_CHARS);
    if tail.trim().is_empty() {
        line
    } else {
        format!("{line}\n{tail}")
    }
}

/// Whether a run ended well and wrote nothing, which is worth telling only to those who asked for it.
pub(super) fn is_silent_success(end: &RunEnd) -> bool {
    end.status == RunStatus::Completed && end.tail.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::{Host, Reason, UnixMillis};

    const GATEWAY: RunHost<'static> = RunHost {
        host: Host::Gateway,
        node_id: None,
    };

    fn end(status: RunStatus) -> RunEnd {
        RunEnd {
            status,
            reason: None,
            detail: None,
            exit_code: None,
            exit_signal: None,
            timed_out: false,
            truncated: false,
            output_bytes: 0,
            tail: String::new(),
            by_shell: false,
            ended_at: UnixMillis::new(1),
        }
    }

    #[track_caller]
    fn check(run_host: RunHost<'_>, end: &RunEnd, expect: &str) {
        let run_id = RunId::parse("r-1").unwrap();
        assert_eq!(exec_finished(run_host, &run_id, end), expect);
    }

    #[test]
    fn the_text_says_where_which_and_how() {
        let completed = RunEnd {
            exit_code: Some(0),
            ..end(RunStatus::Completed)
        };
        check(GATEWAY, &completed, "Exec finished (gateway, id=r-1, code=0)");
        let sandbox = RunHost {
            host: Host::Sandbox,
            node_id: None,
        };
        check(sandbox, &completed, "Exec finished (sandbox, id=r-1, code=0)");
        let node = RunHost {
            host: Host::Node,
            node_id: Some("n7"),
        };
        check(node, &completed, "Exec finished (node=n7, id=r-1, code=0)");
        let killed = RunEnd {
            exit_signal: Some("SIGKILL".to_owned()),
            ..end(RunStatus::Cancelled)
        };
        check(
            GATEWAY,
            &killed,
            "Exec finished (gateway, id=r-1, signal=SIGKILL)",
        );
        let late = RunEnd {
            timed_out: true,
            ..killed
        };
        check(GATEWAY, &late, "Exec finished (gateway, id=r-1, code=timeout)");
        let lost = RunEnd {
            reason: Some(Reason::RunnerLost),
            ..end(RunStatus::Lost)
        };
        check(
            GATEWAY,
            &lost,
            "Exec finished (gateway, id=r-1, code=runner-lost)",
        );
    }

    #[test]
    fn starts_and_refusals_of_nodes_have_the_texts_of_the_contract() {
        let node = RunHost {
            host: Host::Node,
            node_id: Some("n7"),
        };
        let run_id = RunId::parse("r-1").unwrap();
        assert_eq!(exec_started(node, &run_id), "Exec started (node=n7, id=r-1)");
        assert_eq!(
            exec_denied(node, &run_id, Reason::AllowlistMiss),
            "Exec denied (node=n7, id=r-1, allowlist-miss)"
        );
    }

    #[test]
    fn the_end_of_the_output_follows_where_there_is_one() {
        let mut failed = RunEnd {
            exit_code: Some(3),
            tail: "no such file\n".to_owned(),
            ..end(RunStatus::Failed)
        };
        check(
            GATEWAY,
            &failed,
            "Exec finished (gateway, id=r-1, code=3)\nno such file",
        );
        failed.tail = "x".repeat(500);
        let cut = format!(
            "Exec finished (gateway, id=r-1, code=3)\n… (truncated) {}",
            "x".repeat(400)
        );
        check(GATEWAY, &failed, &cut);
    }

    #[test]
    fn only_a_success_without_output_is_silent() {
        let completed = end(RunStatus::Completed);
        assert!(is_silent_success(&completed));
        assert!(!is_silent_success(&end(RunStatus::Failed)));
        let loud = RunEnd {
            tail: "done\n".to_owned(),
            ..completed
        };
        assert!(!is_silent_success(&loud));
    }
}
