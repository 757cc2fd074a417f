//! The changes of who asked what waits, in the transaction that records a question or its end
//! ([`super::waiting::Waiting`]).

use serde_json::json;

use countersign_domain::{Actor, AgentId, Approval, RunId};
use countersign_sys::process::monotonic;

use super::{
    ask::NewApproval,
    audit::{AuditAction, AuditOutcome, Entry},
    error::Fault,
    new_run::NewRun,
    sql,
    stats::Tally,
    tx::Tx,
    waiting::{
        Callers, HowRun, Open, Party, QuestionLimits, TELL_EVERY, Told, TooManyQuestions, Undo, Undone,
        sameness,
    },
};

fn how_run(run: &NewRun) -> HowRun {
    HowRun {
        background: run.background,
        pty: run.pty,
        timeout_ms: run.timeout.map(sql::millis),
    }
}

impl Tx<'_> {
    /// Checks whether `by` may ask one more question for this agent, and counts it against the rate: the caller makes it in
    /// this transaction. A refusal is counted, and put on record once a minute.
    pub(super) fn admit_question(
        &mut self,
        by: &Actor,
        agent: &AgentId,
        limits: &QuestionLimits,
    ) -> Result<Result<(), TooManyQuestions>, Fault> {
        let (party, now) = (Party::of(by), monotonic());
        let paid = {
            let mut askers = self.context.waiting.lock();
            let asker = askers.of(party.clone());
            let before = asker.paid_at;
            limits
                .check_waiting(self.state.pending, asker, agent)
                .and_then(|()| limits.pay(before, now))
                .map(|paid_at| {
                    asker.paid_at = paid_at;
                    before
                })
        };
        match paid {
            Ok(before) => {
                let what = Undone::Paid(before);
                self.undo.push(Undo { party, what });
                Ok(Ok(()))
            }
            Err(refusal) => {
                self.refuse_question(by, agent, party, refusal)?;
                Ok(Err(refusal))
            }
        }
    }

    fn refuse_question(
        &mut self,
        by: &Actor,
        agent: &AgentId,
        party: Party,
        refusal: TooManyQuestions,
    ) -> Result<(), Fault> {
        let TooManyQuestions { limit, most, .. } = refusal;
        self.tallies.push(Tally::of_refused_question(limit));
        let now = monotonic();
        let (before, after) = {
            let mut askers = self.context.waiting.lock();
            let told = &mut askers.of(party.clone()).told;
            let before = told.get(&limit).copied();
            let after = match before {
                Some(told) if told.at + TELL_EVERY > now => Told {
                    since: told.since + 1,
                    ..told
                },
                Some(_) | None => Told { at: now, since: 0 },
            };
            told.insert(limit, after);
            (before, after)
        };
        let what = Undone::Told(limit, before);
        self.undo.push(Undo { party, what });
        if after.since > 0 {
            return Ok(());
        }
        let refused = before.map_or(0, |told| told.since) + 1;
        tracing::warn!(
            asker = %by.id, %agent, %limit, most, refused,
            "questions are refused: too many"
        );
        let detail = json!({
            "agentId": agent.as_str(), "limit": limit.as_str(), "most": most, "refused": refused,
        });
        let token = by.token();
        let (kind, id) = token
            .as_ref()
            .map_or(("server", "countersign"), |token| ("token", token.as_str()));
        let entry = Entry {
            outcome: AuditOutcome::Denied,
            ..Entry::done(AuditAction::QuestionsRefused, kind, id, by, detail)
        };
        self.audit(&entry)
    }

    /// A question waits from now on.
    pub(super) fn note_question(&mut self, run: &NewRun) {
        self.state.pending += 1;
        let party = Party::of(&run.requested_by);
        self.context.waiting.lock().add(&party, &run.agent, 1);
        let what = Undone::Waits(run.agent.clone(), run.id.clone());
        self.undo.push(Undo { party, what });
    }

    /// Calls may join a question, which was noted before.
    pub(super) fn open_question(&mut self, run: &NewRun, approval: &NewApproval) {
        let open = Open {
            sameness: sameness(&approval.card, &how_run(run)),
            approval: approval.id.clone(),
            expires: self.now() + approval.timeout,
            callers: Callers::ONE,
        };
        let party = Party::of(&run.requested_by);
        self.context
            .waiting
            .lock()
            .of(party)
            .open
            .insert(run.id.clone(), open);
    }

    /// A question waits no longer.
    pub(super) fn note_end_of_question(&mut self, asked: &Approval) {
        self.state.pending = self.state.pending.saturating_sub(1);
        let (party, agent) = (Party::of(&asked.requested_by), &asked.card.binding.agent);
        let open = {
            let mut askers = self.context.waiting.lock();
            let open = askers.take(&party, agent, &asked.run_id);
            if let Some(open) = &open {
                askers.share(&asked.run_id, open.callers);
            }
            open
        };
        let what = Undone::Ended(agent.clone(), asked.run_id.clone(), open);
        self.undo.push(Undo { party, what });
    }

    /// Joins the same question if one waits: the run that waits for it. It counts as one that is asked.
    pub(super) fn join_question(
        &mut self,
        run: &NewRun,
        approval: &NewApproval,
        limits: &QuestionLimits,
    ) -> Result<Option<Result<RunId, TooManyQuestions>>, Fault> {
        let (wall, now) = (self.now(), monotonic());
        let party = Party::of(&run.requested_by);
        let same = sameness(&approval.card, &how_run(run));
        let joined = {
            let mut askers = self.context.waiting.lock();
            let asker = askers.of(party.clone());
            let found = asker
                .open
                .iter_mut()
                .rev()
                .find(|(_run, open)| open.sameness == same && wall < open.expires);
            let Some((run_id, open)) = found else {
                return Ok(None);
            };
            let before = (asker.paid_at, open.callers);
            limits.pay(asker.paid_at, now).map(|paid_at| {
                asker.paid_at = paid_at;
                open.callers = Callers {
                    here: open.callers.here + 1,
                    are_several: true,
                };
                (run_id.clone(), open.approval.clone(), before)
            })
        };
        let (run_id, approval, (paid_at, callers)) = match joined {
            Ok(joined) => joined,
            Err(refusal) => {
                self.refuse_question(&run.requested_by, &run.agent, party, refusal)?;
                return Ok(Some(Err(refusal)));
            }
        };
        for what in [
            Undone::Paid(paid_at),
            Undone::Joined(run_id.clone(), callers.are_several),
        ] {
            let party = party.clone();
            self.undo.push(Undo { party, what });
        }
        let detail = json!({ "runId": run_id.as_str(), "callers": callers.here + 1 });
        self.audit(&Entry::done(
            AuditAction::QuestionJoined,
            "approval",
            approval.as_str(),
            &run.requested_by,
            detail,
        ))?;
        Ok(Some(Ok(run_id)))
    }
}
