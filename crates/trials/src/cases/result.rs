//! What policy says about a case.

use countersign_wire::{analysis::AnalysisBody, explain::ExplanationBody, trial::FailedCaseBody};

use super::case::{Case, Expect};

/// What policy says about a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// The verdict.
    pub actual: Expect,
    /// Why, for people.
    pub why: String,
}

impl CaseResult {
    /// A call that is refused before any rule is asked, and why.
    pub const fn refused(why: String) -> Self {
        Self {
            actual: Expect::Reject,
            why,
        }
    }

    /// The verdict of a server. A question that nobody could be asked now is a question all the same, no matter what its
    /// fallback is.
    pub fn of_explanation(explained: &ExplanationBody) -> Self {
        let actual = match explained.outcome.as_ref() {
            _ if explained.approvals_required.is_some() => Expect::Ask,
            "run" => Expect::Allow,
            _ => Expect::Reject,
        };
        let analysis: Option<AnalysisBody> = countersign_wire::read(&explained.analysis).ok();
        let finding = analysis.as_ref().and_then(|analysis| analysis.findings.first());
        let why = [
            explained.reason.as_deref(),
            finding.map(|finding| finding.detail.as_str()),
        ];
        let why: Vec<&str> = why.into_iter().flatten().collect();
        Self {
            actual,
            why: if why.is_empty() {
                "policy lets it run".to_owned()
            } else {
                why.join(": ")
            },
        }
    }

    /// The failure of a case; `None` where policy says what is expected.
    pub fn failure(self, case: &Case) -> Option<FailedCaseBody> {
        (self.actual != case.expect).then(|| FailedCaseBody {
            id: case.id.clone(),
            command: case.command.clone(),
            expected: case.expect.as_str().into(),
            actual: self.actual.as_str().into(),
            why: self.why,
        })
    }
}
