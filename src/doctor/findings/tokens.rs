//! The tokens in the ledger.

use crate::{
    doctor::{Finding, Severity},
    policy::hold::quoted,
};

/// Tokens with which whoever holds one can ask as any agent, and so by the rules of the most trusted one.
pub(super) fn unbound_tokens(tokens: &Result<Vec<(String, String)>, String>) -> Vec<Finding> {
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
    tokens
        .iter()
        .map(|(id, name)| Finding {
            id: "unbound-exec-token",
            severity: Severity::Warning,
            key: id.clone(),
            explanation: format!(
                "the token {} may ask for commands and is bound to no agent: whoever holds it asks in the name of any, \
                 and by that agent's rules",
                quoted(name)
            ),
            fix: format!(
                "countersign token create NAME --scope exec --agent ID, hand that out, then countersign token revoke {id}"
            ),
            repair: None,
        })
        .collect()
}
