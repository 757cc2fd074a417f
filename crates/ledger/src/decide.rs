//! A person's decision: one compare-and-swap that one of them wins (`docs/spec/approvals-store.md#resolve`).

use std::collections::BTreeSet;

use serde_json::json;

use countersign_domain::{
    Actor, Answering, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, DecidedBy,
    GrantChoice, GrantScope, Host, NoGrant, Pattern, Persist, Reason, RunDecision, RunVerdict,
    TerminalReason, Token, UnixMillis, Vote,
};

use crate::events::{CountedVote, EventKind, EventType};

use super::{
    approval_end::{tell, tell_resolved},
    approvals::{self, StoredApproval},
    audit::{AuditAction, AuditOutcome, Entry, facts},
    config::{Durability, Tuning},
    elsewhere,
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    run_end, run_rows,
    sql::{exactly_one, json as text},
    token_rows,
    tx::Tx,
    withdraw,
};

/// A decision on its way into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decide {
    /// The approval that is answered.
    pub approval: ApprovalId,
    /// The answer; refused unless the approval's card offers it.
    pub decision: ApprovalDecision,
    /// Who answers; the asker is refused.
    pub by: Actor,
    /// Why, in their words.
    pub reason: Option<String>,
    /// What `allow-always` is to remember; `None` for the patterns offered by default.
    pub patterns: Option<Vec<ChosenPattern>>,
    /// Instead of patterns: one of the proposals, with what limits it.
    pub grant: Option<GrantChoice>,
    /// The digest of the binding that was shown to them; refused unless it is the one of the approval. `None` for whatever
    /// the approval covers.
    pub shown_digest: Option<String>,
}

/// A pattern as a person picks it from the proposed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenPattern {
    /// Must equal the `pattern` of a proposed one.
    pub pattern: String,
    /// Must equal its `arg_pattern`; `None` names a proposed one without.
    pub arg_pattern: Option<String>,
}

/// What became of a decision; the rows of the table in `docs/spec/http-api.md#approval-object`.
#[derive(Debug, Clone, PartialEq)]
pub enum DecideOutcome {
    /// The decision counts: `applied` now, or the same one was recorded before. The approval still waits when it takes
    /// the answers of more people.
    Decided {
        /// Whether this call won.
        applied: bool,
        /// The approval with this answer, or as it was when `applied` is false.
        approval: Box<Approval>,
    },
    /// An earlier decision says otherwise.
    Conflict(Box<Approval>),
    /// Its deadline passed before.
    Expired(Box<Approval>),
    /// Its deadline passed and nobody has settled that yet: settle it with the fallback
    /// ([`super::Ledger::expire`]), then answer as for `Expired`. Nothing was written.
    Due(Box<Approval>),
    /// The request was withdrawn before.
    Cancelled(Box<Approval>),
    /// This answer is not open.
    NotAllowedDecision(NotAllowed),
    /// The asker cannot answer.
    OwnRequest,
    /// It is for approvers of other groups to allow it.
    NotEntitled(Box<Approval>),
    /// No approval has this id.
    NotFound,
}

/// Why an answer is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAllowed {
    /// The approval does not offer this decision.
    Decision,
    /// A pattern is not among the proposed ones, or none is named.
    Patterns,
    /// The answer is for another binding than the approval covers.
    Binding,
    /// It is none of the proposals, or does not narrow one.
    Grant(NoGrant),
}

impl Ledger {
    /// Decides an approval; of any number of decisions one counts.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn decide(&self, decide: Decide) -> Result<DecideOutcome, LedgerError> {
        self.queue.submit(decide).await
    }

    /// The entries of an `allow-always` are in the approvals document. `false` when that was settled before.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn persist_done(&self, approval: ApprovalId) -> Result<bool, LedgerError> {
        self.queue
            .submit(SettlePersist {
                approval,
                to: Persist::Done,
                warning: None,
            })
            .await
    }

    /// The entries of an `allow-always` are given up, which its run and the audit tell by the code of a warning. `false`
    /// when that was settled before.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn persist_dropped(&self, approval: ApprovalId, warning: String) -> Result<bool, LedgerError> {
        self.queue
            .submit(SettlePersist {
                approval,
                to: Persist::Dropped,
                warning: Some(warning),
            })
            .await
    }
}

impl Change for Decide {
    type Answer = DecideOutcome;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<DecideOutcome, Fault> {
        if self.decision != ApprovalDecision::Deny {
            tx.expect_going()?;
        }
        let Some(stored) = approvals::fetch_stored(tx.connection, &self.approval)? else {
            return Ok(DecideOutcome::NotFound);
        };
        if let Some(approval) = withdraw::of_gone_asker(tx, &stored)? {
            return Ok(DecideOutcome::Cancelled(approval));
        }
        let StoredApproval {
            approval,
            binding_digest,
            ..
        } = stored;
        let mut approval = Box::new(approval);
        if approval.requested_by.is_same_party(&self.by) {
            return Ok(DecideOutcome::OwnRequest);
        }
        if approval.state.status() == ApprovalStatus::Pending {
            settle_voters(tx, &mut approval.votes)?;
        }
        let chosen = self.chosen(tx.now(), &approval, &binding_digest);
        let token = token_of(tx, &self.by)?;
        let vote = Vote {
            by: self.by.owned(token.as_ref()),
            decision: self.decision,
            at: tx.now(),
            reason: self.reason.clone(),
            patterns: chosen.clone().unwrap_or_default(),
        };
        let is_revoked = token.as_ref().is_some_and(|token| token.revoked_at.is_some());
        let groups = token.map(|token| token.groups).unwrap_or_default();
        let mut ballot = approval.ballot(&vote, &groups);
        // An earlier answer that is brought along is no better than a vote of that token.
        ballot.is_entitled &= !is_revoked;
        let answering = approval.standing(tx.now()).answer(self.decision, ballot);
        match (answering, chosen) {
            (Answering::Settles | Answering::Counts, Err(why))
            // What was said before was said of something else.
            | (Answering::Repeats, Err(why @ NotAllowed::Binding)) => {
                Ok(DecideOutcome::NotAllowedDecision(why))
            }
            (Answering::Settles, Ok(_)) => self.settle(tx, approval, vote),
            (Answering::Counts, Ok(_)) => self.count(tx, approval, vote, &groups),
            (Answering::NotEntitled, _) => Ok(DecideOutcome::NotEntitled(approval)),
            (Answering::Repeats, _) => Ok(DecideOutcome::Decided {
                applied: false,
                approval,
            }),
            (Answering::Conflicts, _) => Ok(DecideOutcome::Conflict(approval)),
            (Answering::Due, _) => Ok(DecideOutcome::Due(approval)),
            (Answering::Expired, _) => Ok(DecideOutcome::Expired(approval)),
            (Answering::Cancelled, _) => Ok(DecideOutcome::Cancelled(approval)),
        }
    }
}

impl Decide {
    /// The answer that settles it: a no, or the last yes that was missing.
    fn settle(
        &self,
        tx: &mut Tx<'_>,
        mut approval: Box<Approval>,
        vote: Vote,
    ) -> Result<DecideOutcome, Fault> {
        let at = tx.now();
        approval.cast(vote);
        let (decision, chosen) = approval.together();
        if approval.card.quorum.required <= 1 {
            // The state says it all.
            approval.votes.clear();
        }
        let persist = if chosen.is_empty() {
            Persist::None
        } else {
            Persist::Todo
        };
        let (by, reason) = (self.by.clone(), self.reason.clone());
        approval.state = match decision {
            ApprovalDecision::Deny => ApprovalState::Denied {
                by,
                at,
                reason,
                why: TerminalReason::User,
            },
            decision @ (ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways) => {
                ApprovalState::Allowed {
                    decision,
                    by,
                    at,
                    reason,
                    why: TerminalReason::User,
                    consumed_at: None,
                    persist,
                }
            }
        };
        approval.chosen_patterns = chosen;
        let changed = tx.execute(
            "UPDATE approvals SET status = ?2, decision = ?3, reason = ?4, resolved_ms = ?5, resolved_kind = ?6, \
             resolved_id = ?7, resolved_name = ?8, terminal_reason = 'user', persist = ?9, chosen_json = ?10, \
             votes_json = ?11, \
             env_sealed = CASE WHEN ?2 = 'denied' THEN NULL ELSE env_sealed END \
             WHERE id = ?1 AND status = 'pending' AND expires_ms > ?5",
            (
                self.approval.as_str(),
                approval.state.status().as_str(),
                decision.as_str(),
                &self.reason,
                at.get(),
                self.by.kind.as_str(),
                &self.by.id,
                &self.by.name,
                persist.as_str(),
                text(&approval.chosen_patterns),
                text(&approval.votes),
            ),
        )?;
        exactly_one(changed)?;
        tx.note_end_of_question(&approval);
        tell_resolved(
            tx,
            &approval,
            Some(&self.by),
            self.reason.clone(),
            TerminalReason::User,
        )?;
        let by_person = |verdict| RunDecision {
            verdict,
            by: DecidedBy::Person,
        };
        match decision {
            ApprovalDecision::Deny => {
                let (detail, decision) = (self.reason.clone(), Some(by_person(RunVerdict::Deny)));
                run_end::deny_run(
                    tx,
                    &approval.run_id,
                    Reason::UserDenied,
                    detail,
                    decision,
                    &self.by,
                )?;
            }
            ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways if approval.is_run_elsewhere() => {
                elsewhere::hand_over(tx, &approval, &self.by)?;
            }
            ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways => {
                let verdict = by_person(RunVerdict::Run);
                tx.execute(
                    "UPDATE runs SET status = 'requested', verdict = ?2, verdict_by = ?3 \
                     WHERE run_id = ?1 AND status = 'asking'",
                    (
                        approval.run_id.as_str(),
                        verdict.verdict.as_str(),
                        verdict.by.as_str(),
                    ),
                )?;
            }
        }
        Ok(DecideOutcome::Decided {
            applied: true,
            approval,
        })
    }

    /// One of several answers that it takes. It still waits, and nothing of its run changes.
    fn count(
        &self,
        tx: &mut Tx<'_>,
        mut approval: Box<Approval>,
        vote: Vote,
        groups: &BTreeSet<String>,
    ) -> Result<DecideOutcome, Fault> {
        approval.cast(vote);
        let now = tx.now();
        let changed = tx.execute(
            "UPDATE approvals SET votes_json = ?2 WHERE id = ?1 AND status = 'pending' AND expires_ms > ?3",
            (self.approval.as_str(), text(&approval.votes), now.get()),
        )?;
        exactly_one(changed)?;
        let sealed = facts::of_approval(tx.connection, self.approval.as_str())?;
        let detail = json!({
            (facts::MEMBER): sealed,
            "decision": self.decision,
            "votes": approval.votes_to_allow(),
            "required": approval.card.quorum.required,
            "reason": self.reason,
        });
        let action = AuditAction::ApprovalVoted;
        tx.audit(&Entry::done(
            action,
            "approval",
            self.approval.as_str(),
            &self.by,
            detail,
        ))?;
        let vote = CountedVote {
            by: self.by.clone(),
            decision: self.decision,
            votes: u64::try_from(approval.votes_to_allow()).unwrap_or(u64::MAX),
            required: approval.card.quorum.required,
            groups: approval.card.quorum.entitling(groups),
        };
        tell(tx, &approval, EventKind::ApprovalVoted(vote), &self.by)?;
        Ok(DecideOutcome::Decided {
            applied: true,
            approval,
        })
    }

    /// The patterns to remember, unless the answer is not open.
    fn chosen(
        &self,
        now: UnixMillis,
        approval: &Approval,
        binding_digest: &str,
    ) -> Result<Vec<Pattern>, NotAllowed> {
        let is_shown = |shown: &String| shown == binding_digest;
        if !self.shown_digest.as_ref().is_none_or(is_shown) {
            return Err(NotAllowed::Binding);
        }
        if !approval.card.allowed_decisions.contains(&self.decision) {
            return Err(NotAllowed::Decision);
        }
        match &self.grant {
            None => self.patterns_of(approval).ok_or(NotAllowed::Patterns),
            Some(_) if self.patterns.is_some() || self.decision != ApprovalDecision::AllowAlways => {
                Err(NotAllowed::Patterns)
            }
            Some(choice) => {
                let binding = &approval.card.binding;
                let scope = GrantScope {
                    patterns: &approval.card.proposed_patterns,
                    session: &binding.session,
                    directory: &binding.cwd,
                    keeps_limits: binding.host != Host::Node,
                    now,
                };
                choice.stores(&scope).map_err(NotAllowed::Grant)
            }
        }
    }

    fn patterns_of(&self, approval: &Approval) -> Option<Vec<Pattern>> {
        let proposed = &approval.card.proposed_patterns;
        match (self.decision, &self.patterns) {
            (ApprovalDecision::AllowOnce | ApprovalDecision::Deny, None) => Some(Vec::new()),
            (ApprovalDecision::AllowOnce | ApprovalDecision::Deny, Some(_)) => None,
            (ApprovalDecision::AllowAlways, None) => Some(
                proposed
                    .iter()
                    .filter(|pattern| pattern.default)
                    .cloned()
                    .collect(),
            ),
            (ApprovalDecision::AllowAlways, Some(chosen)) => {
                let is_proposed =
                    |chosen: &ChosenPattern| proposed.iter().any(|pattern| chosen.names(pattern));
                // However often one is named, it is kept once.
                let is_chosen = |pattern: &&Pattern| chosen.iter().any(|chosen| chosen.names(pattern));
                (!chosen.is_empty() && chosen.iter().all(is_proposed))
                    .then(|| proposed.iter().filter(is_chosen).cloned().collect())
            }
        }
    }
}

impl ChosenPattern {
    fn names(&self, pattern: &Pattern) -> bool {
        self.pattern == pattern.pattern && self.arg_pattern == pattern.arg_pattern
    }
}

/// The token that an approver answers with, whose groups are theirs. An approver without a token is in none.
fn token_of(tx: &Tx<'_>, by: &Actor) -> Result<Option<Token>, Fault> {
    match by.token() {
        Some(id) => token_rows::fetch_token(tx.connection, &id),
        None => Ok(None),
    }
}

/// Leaves out what was said with a token that has been revoked since: it is no longer trusted. Says of
/// the others whose their token is: votes of an earlier version do not.
fn settle_voters(tx: &Tx<'_>, votes: &mut Vec<Vote>) -> Result<(), Fault> {
    let mut kept = Vec::with_capacity(votes.len());
    for vote in votes.drain(..) {
        let token = token_of(tx, &vote.by)?;
        if token.as_ref().is_none_or(|token| token.revoked_at.is_none()) {
            let by = vote.by.owned(token.as_ref());
            kept.push(Vote { by, ..vote });
        }
    }
    *votes = kept;
    Ok(())
}

/// Records how far the entries of an `allow-always` got.
struct SettlePersist {
    approval: ApprovalId,
    to: Persist,
    /// What the run is told when they are given up, by its code. The person who answered reads it in the audit.
    warning: Option<String>,
}

impl Change for SettlePersist {
    type Answer = bool;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let changed = tx.execute(
            "UPDATE approvals SET persist = ?2 WHERE id = ?1 AND persist = 'todo'",
            (self.approval.as_str(), self.to.as_str()),
        )?;
        if changed == 1
            && let Some(warning) = &self.warning
            && let Some(StoredApproval { approval, .. }) =
                approvals::fetch_stored(tx.connection, &self.approval)?
        {
            run_rows::warn(tx, &approval.run_id, warning)?;
            let action = AuditAction::Event(EventType::AllowlistChanged);
            let detail = json!({
                "runId": approval.run_id,
                "agentId": approval.card.binding.agent,
                "warning": warning,
            });
            let id = self.approval.as_str();
            tx.audit(&Entry {
                outcome: AuditOutcome::Failed,
                ..Entry::done(action, "approval", id, &Actor::system(), detail)
            })?;
        }
        Ok(changed == 1)
    }
}
