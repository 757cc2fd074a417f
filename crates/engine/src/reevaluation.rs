//! What the policy of this moment says of a question that waits: as of a fresh call, or of a changed command in its place.

use std::{sync::Arc, time::Duration};

use countersign_config::approvals::binding;
use countersign_domain::{
    Actor, ActorKind, Approval, Binding, CallWishes, Command, CommandInput, EntryId, EnvOverrides, Host,
    Reason, Security,
};
use countersign_ledger::{PolicyStamp, launch::LaunchTerms};
use countersign_policy::{combine::Wanted, command::display, gate::Verdict};
#[cfg(feature = "test-hooks")]
use countersign_sys::hooks;

use crate::{
    approvers::Approvers,
    evaluator::{
        Evaluator, Purpose,
        bind::confinement_again,
        call::Call,
        judgement::Judgement,
        place::{self, Destination, Places},
        policy_now::PolicyNow,
    },
    node::NodePeers,
    reply::ExecError,
    session::SessionState,
};

/// Longest text about a rule in a record: patterns may be long.
const MAX_RULE_CHARS: usize = 300;

/// What a look at a question came to.
pub(crate) enum Found {
    /// It is for people, as before.
    Waits,
    /// The policy lets it run.
    Runs(Box<Covered>),
    /// The policy forbids it.
    Denied(Forbidden),
}

/// What the policy lets run.
pub(crate) struct Covered {
    pub(crate) call: Call,
    pub(crate) judged: Judgement,
    pub(crate) terms: LaunchTerms,
    pub(crate) notice_after: Option<Duration>,
    pub(crate) rule: String,
}

pub(crate) struct Forbidden {
    pub(crate) stamp: PolicyStamp,
    pub(crate) reason: Reason,
    pub(crate) rule: String,
}

/// Evaluates questions that wait.
#[derive(Debug)]
pub(crate) struct Reevaluation {
    pub(crate) evaluator: Arc<Evaluator>,
    pub(crate) places: Arc<Places>,
    pub(crate) nodes: Arc<NodePeers>,
    pub(crate) sessions: Arc<SessionState>,
    pub(crate) approvers: Arc<Approvers>,
}

impl Reevaluation {
    /// What the policy of this moment says of a question that waits, as of a fresh call. `spent` are grants found to have
    /// no use left.
    ///
    /// # Errors
    /// Where it cannot be said: the question is for people.
    pub(crate) async fn again(&self, approval: &Approval, spent: &[EntryId]) -> Result<Found, ExecError> {
        // Read before the question is judged: a change that comes later and mutes the agent may cover the question, too.
        let policy = self.evaluator.policy.now();
        let found = Box::pin(self.judged(approval, spent)).await;
        if matches!(found, Ok(Found::Runs(_) | Found::Denied(_))) {
            return found;
        }
        #[cfg(feature = "test-hooks")]
        drop(tokio::task::spawn_blocking(|| hooks::pause("engine.left-to-people")).await);
        // Of an agent that is muted nobody is asked about anything, no matter who asked and who would start it.
        let agent = &approval.card.binding.agent;
        match policy.mute(agent, self.evaluator.analyst.now()) {
            Some(mute) => Ok(Found::Denied(Forbidden {
                stamp: policy.stamp(),
                reason: Reason::AgentMuted,
                rule: brief(&mute.words()),
            })),
            None => found,
        }
    }

    /// The same of an agent that is not muted.
    async fn judged(&self, approval: &Approval, spent: &[EntryId]) -> Result<Found, ExecError> {
        let (card, asker) = (&approval.card, &approval.requested_by);
        let shown = &card.binding;
        let is_whole = shown.env_hash == binding::env_hash(&approval.waiting_env);
        if approval.is_run_elsewhere() || !is_judged_here(asker, shown.host) || !is_whole {
            return Ok(Found::Waits);
        }
        let now = Box::pin(self.evaluator.policy_for(shown, asker)).await?;
        let place = self.evaluator.call_of_binding(shown, &now)?;
        // Where a record of an earlier version says nothing, the strictest value counts: the command may only be
        // forbidden.
        let wishes = card.wishes.clone().unwrap_or_else(|| CallWishes {
            security: Some(card.security),
            ask: Some(card.ask),
            ..CallWishes::default()
        });
        let asked = self
            .sessions
            .asked_again(&shown.agent, &shown.session, card.elevated, asker, &now);
        let call = Call {
            requested_by: asker.clone(),
            env: approval.waiting_env.clone(),
            asked,
            wanted: Wanted {
                security: wishes.security,
                ask: wishes.ask,
            },
            named: Some(wishes),
            // What people were shown is bound to all of them.
            pins_scripts: true,
            ..place
        };
        let (now, call, judged) =
            Box::pin(self.evaluator.evaluate_on_node(call, now, spent, Purpose::Call)).await?;
        match judged.verdict {
            Verdict::Deny(reason) if is_forbidden(reason) => {
                let (detail, _hint) = judged.explain_denial(&call.agent, reason);
                Ok(Found::Denied(Forbidden {
                    stamp: judged.stamp.clone(),
                    reason,
                    rule: brief(&detail.unwrap_or_else(|| reason.as_str().to_owned())),
                }))
            }
            Verdict::Deny(_) | Verdict::Ask(_) => Ok(Found::Waits),
            Verdict::Run => self.covered(approval, now, call, judged).await,
        }
    }

    /// Whether what the policy lets run may start in the place of a question about it.
    async fn covered(
        &self,
        approval: &Approval,
        now: PolicyNow,
        call: Call,
        judged: Judgement,
    ) -> Result<Found, ExecError> {
        let card = &approval.card;
        let settings = now.settings();
        let takes_more = self
            .approvers
            .demand_of_call(&judged, settings)
            .quorum
            .is_for_more();
        if card.is_for_people() || card.elevated || takes_more {
            return Ok(Found::Waits);
        }
        // Its own policy would refuse what no person allowed, and end a question that one could still answer.
        let security = judged.effective.security.value;
        if call
            .node
            .as_ref()
            .is_some_and(|node| node.wants_a_person(security))
        {
            return Ok(Found::Waits);
        }
        if !self.leads_to_same_place(&call, &now).await? {
            return Ok(Found::Waits);
        }
        let Some(binding) = self.shown_binding(approval, &judged, &now)? else {
            return Ok(Found::Waits);
        };
        let rule = rule_of(&judged);
        let start_by = card.quorum.start_by(settings.server.approvals.start_by);
        let notice_after = settings.policy.exec(&call.agent).approval_running_notice;
        let terms = LaunchTerms {
            binding,
            input: if card.binding.input.is_open() {
                judged.binding.input
            } else {
                CommandInput::Closed
            },
            stamp: judged.stamp.clone(),
            grants: judged.grants.clone(),
            start_by,
            node: judged.node.clone(),
        };
        Ok(Found::Runs(Box::new(Covered {
            call,
            judged,
            terms,
            notice_after,
            rule,
        })))
    }

    /// Whether a fresh call with the same words would come to where the question is about: an agent that belongs into a
    /// sandbox by now, or to another node, is not let out of it.
    async fn leads_to_same_place(&self, call: &Call, now: &PolicyNow) -> Result<bool, ExecError> {
        let Call {
            agent,
            session,
            asked,
            named,
            ..
        } = call;
        let Some(named) = named else { return Ok(false) };
        let availability = self.places.evaluate_sandbox(agent, asked, now).await;
        let destination = Destination {
            agent,
            session,
            asked,
            host: named.host,
            node: named.node.as_deref(),
        };
        for view in now.views() {
            let host = destination.resolve(&view.settings, &availability)?;
            if host.value != call.host() {
                return Ok(false);
            }
            if host.value == Host::Gateway {
                place::refuse_less_than_demanded(agent, &view.settings)?;
            }
        }
        match &call.node {
            Some(node) => {
                let chosen = self
                    .nodes
                    .choose_node(agent, asked.node(), named.node.as_deref(), now)?;
                Ok(chosen.node_id == node.info.node_id)
            }
            None => Ok(true),
        }
    }

    /// What people were shown, if that is what would start now. What an entry covers was looked at in one look with what is
    /// bound, so that no file can be one for the rule and another for the start.
    fn shown_binding(
        &self,
        approval: &Approval,
        judged: &Judgement,
        now: &PolicyNow,
    ) -> Result<Option<Binding>, ExecError> {
        let shown = &approval.card.binding;
        if shown.host == Host::Node {
            // The node is told by which rule it runs, and that is taken from the record of the question.
            let is_same_rule = judged.effective.security.value == approval.card.security;
            let present = self.evaluator.rebind(shown, approval.card.security, now)?;
            return Ok((is_same_rule && present == *shown).then_some(present));
        }
        let mut present = judged.binding.clone();
        present.input = shown.input;
        // While an edit is held back, what is kept is what both policies say.
        if judged.effective.security.value == Security::Allowlist && now.edited.is_none() {
            present.confinement = confinement_again(shown, judged.analysis.as_ref());
        }
        if present == *shown {
            return Ok(Some(present));
        }
        if judged.effective.security.value != Security::Full {
            return Ok(None);
        }
        // Everything runs that no rule forbids, and the rules looked at the files that are bound. It may have been shown as
        // a plan.
        let analysis = judged.analysis.as_ref();
        if analysis.is_some_and(|analysis| analysis.executables != shown.executables) {
            return Ok(None);
        }
        let present = self.evaluator.rebind(shown, approval.card.security, now)?;
        Ok((present == *shown).then_some(present))
    }

    /// Judges a changed command as a call of the old one's asker. `env` is absent when the old approval holds its
    /// overrides no more, since it ended.
    ///
    /// # Errors
    /// What a call with this command is refused for.
    pub(crate) async fn revised(
        &self,
        old: &Approval,
        command: Command,
        env: Option<EnvOverrides>,
    ) -> Result<(PolicyNow, Call, Judgement), ExecError> {
        place::refuse_chat_commands(&command)?;
        let binding = &old.card.binding;
        if matches!(binding.command, Command::Patch(_)) {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message: "a patch cannot be changed; deny it and say what should be different".to_owned(),
            });
        }
        if old.is_run_elsewhere() {
            return Err(ExecError::InvalidRequest {
                path: "command",
                message:
                    "the asker runs this command, as it stands; deny it and say what should be different"
                        .to_owned(),
            });
        }
        let now = Box::pin(self.evaluator.policy_for(binding, &old.requested_by)).await?;
        let place = self.evaluator.call_of_binding(binding, &now)?;
        let asked = self.sessions.asked_again(
            &binding.agent,
            &binding.session,
            old.card.elevated,
            &old.requested_by,
            &now,
        );
        let call = Call {
            requested_by: old.requested_by.clone(),
            command,
            env: env.unwrap_or_default(),
            asked,
            // All that the first call tightened stays tight.
            wanted: Wanted {
                security: Some(old.card.security),
                ask: Some(old.card.ask),
            },
            // Its node makes another plan of another command.
            node: place.node.as_ref().map(|node| node.for_another_command().into()),
            // It is asked about no matter what the policy says.
            pins_scripts: true,
            ..place
        };
        let (now, call, judged) =
            Box::pin(self.evaluator.evaluate_on_node(call, now, &[], Purpose::Call)).await?;
        let mute = now.mute(&call.agent, self.evaluator.analyst.now());
        Ok((now, call, judged.muted(mute)))
    }
}

/// Whether a fresh call of this asker to this host would be judged here. Who comes through another entry point has a person of
/// its own or runs it itself, and about what runs in a sandbox nobody is asked.
const fn is_judged_here(asker: &Actor, host: Host) -> bool {
    let by_token = matches!(asker.kind, ActorKind::Token | ActorKind::Session);
    by_token && matches!(host, Host::Gateway | Host::Node)
}

/// Whether a reason is a rule that a person made, and neither a passing trouble nor that nobody is to be asked.
fn is_forbidden(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Denylist | Reason::ToolDenied | Reason::SecurityDeny
    )
}

/// What lets a command run, in words.
fn rule_of(judged: &Judgement) -> String {
    let credited = judged.analysis.iter().flat_map(|analysis| &analysis.credited);
    let patterns: Vec<&str> = credited.map(|credit| credit.pattern.as_str()).collect();
    brief(&if judged.effective.security.value == Security::Full {
        format!("security full ({})", judged.effective.security.source)
    } else if patterns.is_empty() {
        "the allowlist".to_owned()
    } else {
        patterns.join(", ")
    })
}

fn brief(text: &str) -> String {
    let text = display::visible(text);
    if text.chars().count() <= MAX_RULE_CHARS {
        return text;
    }
    let kept: String = text.chars().take(MAX_RULE_CHARS).collect();
    format!("{kept}…")
}
