//! The tokens in the ledger.

use countersign_policy::pending_change::quoted;

use crate::doctor::{DoubtfulToken, Finding, Severity, TokenDoubt};

/// Tokens whose agents do not fit their scopes.
pub(super) fn doubtful_tokens(tokens: &Result<Vec<DoubtfulToken>, String>) -> Vec<Finding> {
    let tokens = match tokens {
        Ok(tokens) => tokens,
        Err(why) => {
            return vec![Finding {
                id: "ledger-unread",
                severity: Severity::Warning,
                key: "database.url".to_owned(),
                explanation: format!("the tokens in the ledger were not looked at: {why}"),
                fix: "run doctor as the account of the server; a server that starts says what is wrong with the ledger"
                    .to_owned(),
                repair: None,
            }];
        }
    };
    tokens.iter().map(finding).collect()
}

fn finding(DoubtfulToken { id, name, doubt }: &DoubtfulToken) -> Finding {
    let name = quoted(name);
    let (finding, explanation, fix) = match doubt {
        TokenDoubt::UnboundExec => (
            "unbound-exec-token",
            format!(
                "the token {name} may ask for commands and is bound to no agent: its holder asks in the name of any, \
                 and by that agent's rules"
            ),
            format!(
                "countersign token create NAME --scope exec --agent ID, hand that out, then countersign token revoke {id}"
            ),
        ),
        TokenDoubt::BoundAdmin => (
            "bound-admin-token",
            format!(
                "the token {name} is an admin's and bound to agents: it changes the entries and the policy of these agents, \
                 and is refused everything that belongs to no agent. No new token is made like this"
            ),
            format!(
                "make one token with --scope admin and no --agent, and another one with --agent and the other scopes, then \
                 countersign token revoke {id}"
            ),
        ),
        TokenDoubt::PresumedApprover => (
            "approver-not-declared",
            format!(
                "a client follows GET /v1/events with the token {name}, which may answer questions, and does not say whether a \
                 person answers there. It still counts as a reachable approver, so that questions wait for it; from the next \
                 release on it does not"
            ),
            "open the stream with approver=true where a person answers and with approver=false where nobody does; or give the \
             client a token without the scope approve: countersign token create NAME --scope read"
                .to_owned(),
        ),
    };
    Finding {
        id: finding,
        severity: Severity::Warning,
        key: id.clone(),
        explanation,
        fix,
        repair: None,
    }
}
