//! Single rules of the approvals document, and safe bins.

use std::collections::BTreeMap;

use countersign_domain::quoting;
use countersign_engine::lint::RuleRemark;
use countersign_ledger::events::AllowlistList;
use countersign_policy::{
    lint::{self, RemarkCode, Weight},
    pending_change::quoted,
};

use crate::doctor::{Finding, Repair, Severity, Snapshot};

/// One finding for each kind of odd rule, with the first few of them.
pub(super) fn rules(snapshot: &Snapshot) -> Vec<Finding> {
    const NAMED: usize = 5;
    let mut kinds: BTreeMap<RemarkCode, Vec<&RuleRemark>> = BTreeMap::new();
    for remark in &snapshot.rules.remarks {
        kinds.entry(remark.remark.code).or_default().push(remark);
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (code, remarks) in kinds {
        findings.extend(
            remarks
                .iter()
                .take(NAMED)
                .map(|remark| rule(code, remark, snapshot)),
        );
        if remarks.len() > NAMED {
            findings.push(many(code, remarks.len() - NAMED, snapshot));
        }
    }
    if snapshot.rules.left_off > 0 {
        findings.push(Finding {
            id: "rules-more",
            severity: Severity::Info,
            key: snapshot.document_path.display().to_string(),
            explanation: format!("there are {} more remarks on rules", snapshot.rules.left_off),
            fix: "fix those that are named and run it again".to_owned(),
            repair: None,
        });
    }
    findings
}

pub(super) fn safe_bin((name, remark): &(String, lint::Remark)) -> Finding {
    let repair =
        (remark.code == RemarkCode::SafeBinWithoutProfile).then(|| Repair::Scaffold { name: name.clone() });
    Finding {
        id: finding_id(remark.code),
        severity: severity_of(remark.code),
        key: "tools.exec.safeBins".to_owned(),
        explanation: format!("the safe bin {}: {}", quoted(name), remark.message),
        fix: "take it out of tools.exec.safeBins, or give it a profile in tools.exec.safeBinProfiles"
            .to_owned(),
        repair,
    }
}

fn rule(code: RemarkCode, remark: &RuleRemark, snapshot: &Snapshot) -> Finding {
    let RuleRemark {
        owner,
        list,
        id,
        pattern,
        remark,
    } = remark;
    let (kind, command) = match list {
        AllowlistList::Allowlist => ("entry", "allowlist"),
        AllowlistList::Grants => ("grant", "allowlist"),
        AllowlistList::Denylist => ("deny rule", "denylist"),
    };
    Finding {
        id: finding_id(code),
        severity: severity_of(code),
        key: format!("{}#/agents/{owner}/{list}/{id}", snapshot.document_path.display()),
        explanation: format!(
            "the {kind} {} of agent {}: {}",
            quoted(pattern),
            quoted(owner),
            remark.message
        ),
        fix: if code == RemarkCode::ChildrenNotKept {
            // Without the rule more would be let through.
            "let commands of the agent run on the gateway host at the level confined (docs/confined.md)"
                .to_owned()
        } else {
            // Ids and owners are as the document has them, and the line is pasted into a shell.
            format!(
                "countersign {command} remove {} --agent {}",
                quoting::quoted(id.as_str()),
                quoting::quoted(owner)
            )
        },
        repair: None,
    }
}

fn many(code: RemarkCode, more: usize, snapshot: &Snapshot) -> Finding {
    Finding {
        id: finding_id(code),
        severity: severity_of(code),
        key: snapshot.document_path.display().to_string(),
        explanation: format!("and {more} more rules like these ({code})"),
        fix: "fix those that are named and run it again".to_owned(),
        repair: None,
    }
}

const fn severity_of(code: RemarkCode) -> Severity {
    match code.weight() {
        Weight::Risky => Severity::Warning,
        Weight::Idle => Severity::Info,
    }
}

const fn finding_id(code: RemarkCode) -> &'static str {
    match code {
        RemarkCode::NeverMatches => "rule-never-matches",
        RemarkCode::Shadowed => "rule-shadowed",
        RemarkCode::Denied => "rule-denied",
        RemarkCode::TooBroad => "rule-too-broad",
        RemarkCode::Interpreter => "rule-interpreter",
        RemarkCode::NeedsArguments => "rule-needs-arguments",
        RemarkCode::ConfineNotUnderstood => "rule-confine-not-understood",
        RemarkCode::ConfineTooWide => "rule-confine-too-wide",
        RemarkCode::ConfineIdle => "rule-confine-idle",
        RemarkCode::ChildrenNotKept => "children-not-kept",
        RemarkCode::WritableDirectory => "rule-writable-directory",
        RemarkCode::MissingFile => "rule-missing-file",
        RemarkCode::Expired => "grant-expired",
        RemarkCode::UsedUp => "grant-used-up",
        RemarkCode::SafeBinWithoutProfile => "safe-bin-without-profile",
        RemarkCode::SafeBinRefused => "safe-bin-refused",
    }
}

#[cfg(test)]
mod tests {
    use countersign_domain::EntryId;

    use crate::doctor::findings::{findings, tests::sound};

    use super::*;

    #[test]
    fn odd_rules_are_named_up_to_a_number() {
        let remark = |number: usize, code| RuleRemark {
            owner: "main".to_owned(),
            list: AllowlistList::Allowlist,
            id: EntryId::parse(format!("id-{number}")).unwrap(),
            pattern: "*".to_owned(),
            remark: lint::Remark {
                code,
                message: "it is odd".to_owned(),
            },
        };
        let mut snapshot = sound();
        snapshot.rules.remarks = (0..8)
            .map(|number| remark(number, RemarkCode::TooBroad))
            .collect();
        snapshot.rules.remarks.push(remark(9, RemarkCode::Expired));
        snapshot.rules.left_off = 3;
        let seen: Vec<_> = findings(&snapshot)
            .iter()
            .map(|finding| (finding.id, finding.severity))
            .collect();
        let broad = ("rule-too-broad", Severity::Warning);
        let infos = [("grant-expired", Severity::Info), ("rules-more", Severity::Info)];
        assert_eq!(seen, [vec![broad; 6], infos.to_vec()].concat());
        let first = &findings(&snapshot)[0];
        assert_eq!(
            first.key,
            "/state/exec-approvals.json#/agents/main/allowlist/id-0"
        );
        assert_eq!(first.fix, "countersign allowlist remove id-0 --agent main");
    }

    #[test]
    fn a_safe_bin_that_says_nothing_about_arguments_can_be_given_none() {
        let mut snapshot = sound();
        let bin = |code| {
            let message = "it is odd".to_owned();
            vec![("column".to_owned(), lint::Remark { code, message })]
        };
        snapshot.safe_bins = bin(RemarkCode::SafeBinWithoutProfile);
        let name = "column".to_owned();
        assert_eq!(findings(&snapshot)[0].repair, Some(Repair::Scaffold { name }));
        snapshot.safe_bins = bin(RemarkCode::SafeBinRefused);
        assert_eq!(findings(&snapshot)[0].repair, None);
    }
}
