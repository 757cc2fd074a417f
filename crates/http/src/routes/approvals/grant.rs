//! What an answer leaves behind: a grant of the right width, or a deny rule.

use countersign_domain::{ApprovalDecision, GrantChoice, GrantLimits, PatternWidth};
use countersign_engine::{Covered, reply::Refusal};
use countersign_wire::approval::{ApprovalBody, CoveredBody, GrantChoiceBody, MuteBody};

use crate::problem::{Code, Problem};

/// Programs that read the document as JavaScript keep no larger integer exactly.
const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_991;

/// The grant that an answer names. What it may be the ledger says, in the transaction that takes the answer.
pub(super) fn chosen(decision: ApprovalDecision, grant: GrantChoiceBody) -> Result<GrantChoice, Problem> {
    let GrantChoiceBody {
        proposal,
        expires_at_ms,
        max_uses,
        session_key,
        directory,
    } = grant;
    if decision != ApprovalDecision::AllowAlways {
        return Err(Problem::new(
            Code::DecisionNotAllowed,
            "grant: only with decision allow-always",
        ));
    }
    if max_uses.is_some_and(|uses| !(2..=MAX_SAFE_INTEGER).contains(&uses)) {
        return Err(Problem::field(
            "grant.maxUses",
            "expected 2 to 9007199254740991: the run that is asked about is the first; allow-once lets it run alone",
        ));
    }
    let proposal: PatternWidth = proposal.parse().map_err(|_unknown| {
        Problem::new(
            Code::GrantTooWide,
            "grant.proposal: it is the id of none of the proposals of this question",
        )
    })?;
    Ok(GrantChoice {
        proposal,
        limits: GrantLimits {
            expires_at: expires_at_ms,
            max_uses,
            session: session_key,
            directory,
        },
    })
}

/// The deny rule that a deny is to leave.
pub(super) fn refusal(
    decision: ApprovalDecision,
    mute: Option<MuteBody>,
    never: bool,
) -> Result<Option<Refusal>, Problem> {
    let refusal = match (mute, never) {
        (None, false) => return Ok(None),
        (None, true) => Refusal::Never,
        (
            Some(MuteBody {
                until_ms,
                agent: true,
            }),
            false,
        ) => Refusal::Agent(until_ms),
        (
            Some(MuteBody {
                until_ms,
                agent: false,
            }),
            false,
        ) => Refusal::Until(until_ms),
        (Some(_), true) => return Err(Problem::field("never", "expected mute or never, not both")),
    };
    if decision != ApprovalDecision::Deny {
        return Err(Problem::new(
            Code::DecisionNotAllowed,
            "mute, never: only with decision deny",
        ));
    }
    Ok(Some(refusal))
}

/// The approval with what its proposals would have covered.
pub(super) fn with_covered(mut approval: ApprovalBody, covered: &[(PatternWidth, Covered)]) -> ApprovalBody {
    for proposal in &mut approval.proposals {
        let of_it = covered.iter().find(|(id, _)| proposal.id.known() == Some(*id));
        proposal.would_have_covered = of_it.map(|(_, Covered { covered, of })| CoveredBody {
            covered: *covered,
            of: *of,
        });
    }
    approval
}
