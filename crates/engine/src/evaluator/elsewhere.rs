//! Commands that their asker starts: nothing of this machine is looked at, and the verdict is always to ask.

use std::sync::Arc;

use countersign_domain::{Ask, Binding, Bound, Security};
use countersign_policy::{
    gate::{AskSpec, AskWhy, Coverage, GateInput, Verdict},
    layers::Resolved,
};

use super::{call::Call, judgement::Judgement, policy_now::PolicyNow};
use crate::question_terms::{ASKER, AskRequest};

impl Call {
    /// What an answer about it is bound to, where `asker` starts it.
    pub(crate) fn bind_elsewhere(&self, asker: &AskRequest) -> Binding {
        let actor = &asker.asked_by.actor;
        // The answer is the asker's alone: the same question of another asker has another digest.
        let asked_by = Some(format!("{}:{}", actor.kind.as_str(), actor.id));
        self.bind(Bound::Elsewhere { asked_by }, &self.env)
    }
}

/// Judges a call that its asker starts, by what they apply to it and by the policy of this server where they say nothing.
/// Silence never allows.
pub(super) fn judge_elsewhere(call: &Call, asker: &Arc<AskRequest>, now: &PolicyNow) -> Judgement {
    let mut effective = now.effective(&call.agent, call.wishes());
    said(&mut effective.security, asker.security);
    said(&mut effective.ask, asker.ask);
    let input = GateInput {
        security: effective.security.value,
        ask: effective.ask.value,
        ask_fallback: Security::Deny,
        coverage: Coverage {
            satisfied: false,
            analysis_ok: false,
            durable: false,
        },
        denylisted: false,
        needs_person: true,
        document_refused: false,
        tool_denied: false,
    };
    let binding = call.bind_elsewhere(asker);
    Judgement {
        verdict: Verdict::Ask(AskSpec {
            why: AskWhy::Asked,
            allow_always_offered: input.ask != Ask::Always,
        }),
        asker: Some(Arc::clone(asker)),
        ..Judgement::without_analysis(effective, input, binding, now.stamp(), call.env.clone())
    }
}

fn said<T>(ours: &mut Resolved<T>, theirs: Option<T>) {
    if let Some(value) = theirs {
        ours.value = value;
        ASKER.clone_into(&mut ours.source);
    }
}
