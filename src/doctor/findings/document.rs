//! The approvals document as a whole, and edits of policy files from outside.

use std::path::PathBuf;

use countersign_config::approvals::{document::LostRules, store::LeftLock};
use countersign_policy::pending_change::quoted;

use crate::doctor::{DocumentState, Finding, Repair, Severity, Snapshot};

pub(super) fn document(snapshot: &Snapshot) -> Vec<Finding> {
    let key = snapshot.document_path.display().to_string();
    match &snapshot.document {
        DocumentState::Missing => vec![Finding {
            id: "document-missing",
            severity: Severity::Info,
            key,
            explanation:
                "there is no approvals document: no program is on any allowlist, and nobody answers means no"
                    .to_owned(),
            fix: "countersign init, or countersign allowlist add /usr/bin/git".to_owned(),
            repair: None,
        }],
        DocumentState::Refused(why) => vec![Finding {
            id: "document-refused",
            severity: Severity::Error,
            explanation: format!("the approvals document is refused, so everything is denied: {why}"),
            fix: format!("repair {key}; the next call reads it again"),
            key,
            repair: None,
        }],
        DocumentState::Ok(warnings) => warnings
            .iter()
            .map(|warning| Finding {
                id: "document-warning",
                severity: Severity::Warning,
                key: key.clone(),
                explanation: warning.clone(),
                fix: format!("correct {key}"),
                repair: None,
            })
            .collect(),
    }
}

pub(super) fn lock(snapshot: &Snapshot) -> Option<Finding> {
    let LeftLock {
        path,
        pid,
        is_of_this_boot,
    } = snapshot.document_lock.as_ref()?;
    let key = path.display().to_string();
    let holder = pid.map_or_else(
        || "a program that did not write its name".to_owned(),
        |pid| format!("process {pid}, which is gone,"),
    );
    Some(Finding {
        id: "document-lock-stale",
        severity: Severity::Error,
        explanation: format!(
            "{holder} left the lock of the approvals document behind: nobody can change the document, and what is \
             allowed for good counts once"
        ),
        fix: if *is_of_this_boot {
            format!("countersign doctor --fix, or remove {key}")
        } else {
            format!("make sure that no program is writing the approvals document, then remove {key}")
        },
        key,
        repair: is_of_this_boot.then(|| Repair::Unlock {
            document: snapshot.document_path.clone(),
        }),
    })
}

pub(super) fn edit((path, allows): &(PathBuf, Vec<String>)) -> Finding {
    Finding {
        id: "policy-edit-held",
        severity: Severity::Warning,
        key: path.display().to_string(),
        explanation: format!(
            "this file was changed and allows more than what the server accepted: {}. After a command ran, and where a \
             second person has to agree ([approvals] widening), that does not count until an admin accepts it",
            allows.join("; ")
        ),
        fix: "countersign policy accept, if the change is right; otherwise put the file right".to_owned(),
        repair: None,
    }
}

/// Rules that a writer dropped which does not know them. Deny rules that are gone deny nothing, and nobody asked for that.
pub(super) fn lost_rules(lost: &LostRules, snapshot: &Snapshot) -> Finding {
    const QUOTED: usize = 10;
    let LostRules {
        agent,
        deny_rules,
        grants,
        unbound,
    } = lost;
    let unbound = match unbound.as_slice() {
        [] => String::new(),
        [(_id, first), rest @ ..] => format!(
            ". The arguments of the entry {}{} are gone: it covers any arguments now",
            quoted(first),
            if rest.is_empty() {
                String::new()
            } else {
                format!(" and of {} more", rest.len())
            }
        ),
    };
    let mut gone: Vec<String> = deny_rules
        .iter()
        .take(QUOTED)
        .map(|(pattern, _arguments)| quoted(pattern))
        .collect();
    if deny_rules.len() > QUOTED {
        gone.push(format!("{} more", deny_rules.len() - QUOTED));
    }
    let rules = if gone.is_empty() {
        "no deny rules".to_owned()
    } else {
        format!("the deny rules {}", gone.join(", "))
    };
    Finding {
        id: "document-lost-rules",
        severity: Severity::Error,
        key: snapshot.document_path.display().to_string(),
        explanation: format!(
            "another program rewrote this file and dropped what it does not know: of agent {}, {rules} and {grants} \
             grants. What was denied is not denied any more{unbound}",
            quoted(agent)
        ),
        fix: "put them back with countersign denylist add and countersign allowlist add, or, if nothing is missed, say \
              so with countersign policy accept and the hash of the document"
            .to_owned(),
        repair: None,
    }
}
