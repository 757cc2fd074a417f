//! One judgement of one call: the layers combined, the command analysed, the gate asked.
//!
//! `exec`, the launch of an approved run and the fallback of an unanswered one all come through here, so
//! they cannot disagree.

use countersign_domain::{Ask, Command, EntryId, Reason, Security};
use countersign_hosts::peer_fs::Blind;
use countersign_ledger::{Health, PolicyStamp};
use countersign_policy::{
    allowlist::Analysis,
    combine::Effective,
    command::env_policy,
    gate::{self, Coverage, GateInput, Verdict},
};
use countersign_sys::descriptors::{SPARE_DESCRIPTORS, has_spare_descriptors};

use super::{
    Evaluator, Mode, analyse,
    bind::{Fastened, Look},
    call::Call,
    elsewhere,
    judgement::{Judgement, input_by},
    policy_now::{PolicyNow, PolicyView},
    preflight, sandboxed,
    script_scope::Scope,
};
use crate::{
    node::Prepared,
    reply::{ExecError, MachineFault, StorageTrouble},
    turns::{self, Turn},
};

impl Evaluator {
    /// [`Self::judge`] when it is the caller's turn. Where a caller can choose the command, this is the way.
    pub(crate) async fn judge_in_turn(
        &self,
        call: &Call,
        now: &PolicyNow,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        let _turn = self.turn(call, now).await?;
        self.judge(call, now, spent)
    }

    /// Judges a call where it would run: on a node by what that says, too.
    pub(crate) async fn judge_where_it_runs(
        &self,
        call: Call,
        now: PolicyNow,
        mode: &Mode<'_>,
    ) -> Result<(PolicyNow, Call, Judgement), ExecError> {
        if call.node.is_some() {
            return Box::pin(self.evaluate_on_node(call, now, mode.spent, mode.purpose)).await;
        }
        let judged = if mode.counts_grants {
            self.judge_without_spent_grants(&call, &now).await?
        } else {
            self.judge_in_turn(&call, &now, mode.spent).await?
        };
        Ok((now, call, judged))
    }

    /// The judgement that an exec call comes to: a grant that is used up is no help, as it finds out when it launches.
    async fn judge_without_spent_grants(&self, call: &Call, now: &PolicyNow) -> Result<Judgement, ExecError> {
        let mut spent: Vec<EntryId> = Vec::new();
        loop {
            let judged = self.judge_in_turn(call, now, &spent).await?;
            let before = spent.len();
            for grant in &judged.grants {
                let uses = self.ledger.grant_uses(&grant.owner, &grant.entry_id).await?;
                if uses >= grant.max_uses {
                    spent.push(grant.entry_id.clone());
                }
            }
            // Each round leaves out one of the document's grants or is the last.
            if spent.len() == before {
                return Ok(judged);
            }
        }
    }

    /// The turn of a call's caller to have a big command looked through; a small one needs none.
    pub(crate) async fn turn(&self, call: &Call, now: &PolicyNow) -> Result<Option<Turn>, ExecError> {
        if call.asker.is_some() || !turns::is_big(&call.command) {
            return Ok(None);
        }
        let timeout = now.settings().server.limits.queue_timeout;
        let turn = self.turns.wait(&call.requested_by, timeout).await;
        turn.map(Some).map_err(ExecError::NoTurn)
    }

    /// Judges a call under `now`. `spent` are grants found to have no use left.
    pub(crate) fn judge(
        &self,
        call: &Call,
        now: &PolicyNow,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        if let Some(asker) = &call.asker {
            return Ok(elsewhere::judge_elsewhere(call, asker, now));
        }
        // Looking at it takes more, but what it lacks only ever makes the verdict stricter.
        self.expect_means(1)?;
        let judged = turns::run_analysis(&call.command, || self.judge_at_once(call, now, spent));
        if !matches!(&judged, Ok(judged) if judged.verdict == Verdict::Run) {
            // What could not be opened is not known.
            self.expect_means(SPARE_DESCRIPTORS)?;
            now.expect_readable()?;
        }
        judged
    }

    /// Whether the machine gives what judging takes. Without it the call gets no verdict: settings that were deleted
    /// with their directory, or a program that could not be opened, say nothing about the command.
    pub(crate) fn expect_means(&self, descriptors: usize) -> Result<(), ExecError> {
        if self.ledger.health() == Health::Gone {
            return Err(StorageTrouble::Gone.into());
        }
        if has_spare_descriptors(descriptors) {
            Ok(())
        } else {
            Err(MachineFault::OpenFiles.into())
        }
    }

    fn judge_at_once(&self, call: &Call, now: &PolicyNow, spent: &[EntryId]) -> Result<Judgement, ExecError> {
        if let Some(place) = &call.sandbox {
            return Ok(sandboxed::judge_inside(call, place, now));
        }
        let counted = self.judge_under(call, &now.counted, now.stamp(), spent)?;
        let mut judged = match &now.edited {
            None => counted,
            Some(edited) => counted.strictest(self.judge_under(call, edited, now.stamp(), spent)?),
        };
        judged.start = self.binder.start_of(call, &judged, now.settings());
        Ok(judged)
    }

    fn judge_under(
        &self,
        call: &Call,
        now: &PolicyView,
        stamp: PolicyStamp,
        spent: &[EntryId],
    ) -> Result<Judgement, ExecError> {
        self.places.expect_in_workspace(call, now)?;
        let Weighed {
            effective,
            analysis,
            input,
            verdict,
        } = Weighed::of(call, now, || self.analyse(call, now, spent))?;
        if let Some(message) = analysis.as_ref().and_then(Analysis::rejection) {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message,
            });
        }
        // Nothing that a shell reads at its start may come from the request (`docs/spec/command-analysis.md#e3`).
        let env = match &analysis {
            Some(analysis) if analysis.shell_payload => env_policy::harmless_only(&call.env),
            Some(_) | None => call.env.clone(),
        };
        let is_open = matches!(verdict, Verdict::Run | Verdict::Ask(_));
        let call_input = match verdict {
            Verdict::Run => input_by(input.security, call.input(), analysis.as_ref()),
            Verdict::Ask(_) | Verdict::Deny(_) => call.input(),
        };
        let Fastened {
            binding,
            pinned,
            preflight,
        } = if let Some(node) = &call.node {
            Fastened::by_itself(call.bind(node.bound(&call.command), &env))
        } else {
            let look = Look {
                analysis: analysis.as_ref(),
                scope: Scope::of(call, &effective, verdict),
                are_looked_at: is_open && preflight::applies(&effective),
            };
            let fastened = self.binder.bind(call, now, &effective, look, &env)?;
            fastened.with_input(call_input)
        };
        let absent = match (verdict, &analysis) {
            (Verdict::Ask(_), Some(analysis)) => self.binder.absent_program(call, now, analysis)?,
            (Verdict::Ask(_) | Verdict::Run | Verdict::Deny(_), _) => None,
        };
        let (verdict, node_refusal) = match call.node.as_ref().map(|node| &node.plan) {
            Some(Prepared::Refused(reason, why))
                if is_open && !needs_no_plan(*reason, verdict, &effective) =>
            {
                (Verdict::Deny(*reason), Some(why.clone()))
            }
            Some(_) | None if preflight.is_some() => (Verdict::Deny(Reason::Preflight), None),
            Some(_) | None if absent.is_some() => (Verdict::Deny(Reason::ProgramNotFound), None),
            Some(_) | None => (verdict, None),
        };
        let far = call.node.as_ref().map(|node| {
            let hit = analysis
                .as_ref()
                .and_then(|analysis| analysis.denylisted.as_ref());
            let is_theirs = hit.is_some_and(|hit| now.has_in_document(&call.agent, hit));
            (node.far_policy(), is_theirs)
        });
        Ok(Judgement {
            grants: analysis.as_ref().map_or_else(Vec::new, |analysis| {
                analyse::grant_uses(analysis, now, call.agent.as_str())
            }),
            stamp,
            env,
            effective,
            analysis,
            input,
            verdict,
            binding,
            pinned,
            start: None,
            node: call.node.as_ref().and_then(|node| node.launch()),
            preflight,
            absent,
            refusal: now.refusal(),
            node_refusal,
            far,
            asker: None,
            mute: None,
        })
    }
}

/// What a policy says of a call, before anybody looks what exactly would start.
#[derive(Debug)]
pub(crate) struct Weighed {
    pub(crate) effective: Effective,
    /// `None` where nothing depends on the words of the command.
    pub(crate) analysis: Option<Analysis>,
    pub(crate) input: GateInput,
    pub(crate) verdict: Verdict,
}

impl Weighed {
    /// Combines the layers, has the command analysed where its words matter, and asks the gate.
    pub(crate) fn of(
        call: &Call,
        now: &PolicyView,
        analyse: impl FnOnce() -> Result<Analysis, Blind>,
    ) -> Result<Self, Blind> {
        let effective = now.effective(&call.agent, call.wishes());
        let analysis = analysis_matters(call, now, &effective)
            .then(analyse)
            .transpose()?;
        let tool_denied = now.is_tool_denied(&call.agent, &call.command);
        let input = gate_input(&effective, analysis.as_ref(), tool_denied);
        Ok(Self {
            verdict: gate::gate(&input),
            effective,
            analysis,
            input,
        })
    }
}

/// Under `full` nothing depends on the words of the command, unless deny rules or strict inline
/// evaluation look at them, a person will, a shell inside must not get an override, or it may run a script that is
/// looked at first.
fn analysis_matters(call: &Call, now: &PolicyView, effective: &Effective) -> bool {
    if matches!(call.command, Command::Patch(_)) {
        return false;
    }
    let exec = now.settings.policy.exec(&call.agent);
    match effective.security.value {
        Security::Deny => false,
        Security::Allowlist => true,
        Security::Full => {
            effective.ask.value == Ask::Always
                || exec.strict_inline_eval.value
                || !call.env.is_empty()
                || (call.node.is_none()
                    && preflight::applies(effective)
                    && preflight::may_concern(&call.command))
                || now.has_deny_rules(&call.agent)
        }
    }
}

/// All that the gate decides by. A command that was not analysed is covered by nothing, and no rule matches it.
fn gate_input(effective: &Effective, analysis: Option<&Analysis>, tool_denied: bool) -> GateInput {
    let coverage = analysis.map_or(
        Coverage {
            satisfied: false,
            analysis_ok: false,
            durable: false,
        },
        |analysis| Coverage {
            satisfied: analysis.satisfied,
            analysis_ok: analysis.ok,
            durable: analysis.durable,
        },
    );
    GateInput {
        security: effective.security.value,
        ask: effective.ask.value,
        ask_fallback: effective.ask_fallback.value,
        coverage,
        denylisted: analysis.is_some_and(|analysis| analysis.denylisted.is_some()),
        needs_person: analysis.is_some_and(|analysis| analysis.needs_person),
        document_refused: effective.document_refused,
        tool_denied,
    }
}

/// Whether a node that made no plan of a command may get it without one: nobody is asked, nothing here depends on its words,
/// and the node did not say that it denies it. Its own policy decides then
/// (`docs/spec/bridge.md#95-local-policy-on-the-node`).
fn needs_no_plan(reason: Reason, verdict: Verdict, effective: &Effective) -> bool {
    reason == Reason::NodeRefused
        && matches!(verdict, Verdict::Run)
        && effective.security.value == Security::Full
}
