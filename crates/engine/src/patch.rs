//! Patches (`docs/spec/exec-tool.md#9-apply_patch`): judged, asked about, run and recorded like commands.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::Tool;
use countersign_domain::{
    AgentId, AgentNote, Command, ExecRequest, HostChoice, Joining, Principal, Reason, Run, RunStatus,
    SessionKey,
};
use countersign_protocol::patch::{Failure, Patch};
use countersign_runner::output::Captured;

use crate::{
    draft::IdempotencyKey,
    exec::Calls,
    hint::hint,
    reply::{AppliedPatch, ExecError, ExecReply, PatchFailure, PatchReply},
    watch::PolicySource,
};

/// How long the sender of a patch waits for its end, once it may be applied.
const TIMEOUT: Duration = Duration::from_mins(2);

/// One patch on its way to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchRequest {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`.
    pub input: String,
    /// Working directory as sent: absolute or beginning with `~/`.
    pub workdir: Option<String>,
    /// The host that the call names; `None` leaves it to session and policy.
    pub host: Option<HostChoice>,
    /// The agent in whose name it comes; the caller must have authority over it.
    pub agent: AgentId,
    /// The session whose overrides apply and that the record names.
    pub session: SessionKey,
    /// The model that wrote it.
    pub model: Option<String>,
    /// What it says about it.
    pub note: AgentNote,
    /// How long the caller waits inline for a person's answer.
    pub approval_wait: Duration,
}

/// Applies patches.
#[derive(Debug)]
pub struct Patches {
    policy: Arc<PolicySource>,
    calls: Arc<Calls>,
}

impl Patches {
    /// Joins it: the policy that has to let patches through, and what runs them.
    pub(crate) const fn new(policy: Arc<PolicySource>, calls: Arc<Calls>) -> Self {
        Self { policy, calls }
    }

    /// Applies a patch, asks for it, or refuses it.
    ///
    /// # Errors
    /// [`ExecError`] says why nothing was changed; in [`ExecError::PatchFailed`] a cut-off patch says what is known.
    #[crate::compiled_once]
    pub async fn apply(
        &self,
        caller: &Principal,
        request: PatchRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<PatchReply, ExecError> {
        let PatchRequest {
            input,
            workdir,
            host,
            agent,
            session,
            model,
            note,
            approval_wait,
        } = request;
        let invalid = |message: String| ExecError::InvalidRequest {
            path: "input",
            message,
        };
        if !caller.may_act_for(&agent) {
            return Err(ExecError::AgentNotAllowed);
        }
        self.expect_open(&agent, model.as_deref())?;
        let patch = Patch::parse(&input).map_err(|error| invalid(error.to_string()))?;
        let command = Command::patch(input).map_err(|error| invalid(error.to_string()))?;
        let request = ExecRequest {
            command,
            workdir,
            env: std::collections::BTreeMap::new(),
            yield_after: Some(TIMEOUT),
            background: false,
            timeout: None,
            pty: false,
            host,
            security: None,
            ask: None,
            node: None,
            elevated: false,
            agent,
            session,
            note,
            approval_wait,
            joining: Joining::Never,
        };
        match self.calls.exec(caller, request, key).await? {
            ExecReply::Pending(pending) => Ok(PatchReply::Pending(pending)),
            ExecReply::Running(running) => Ok(PatchReply::Running(Box::new(running))),
            ExecReply::Ended(ended) => match failure_of(&ended.run, &ended.output) {
                None => Ok(PatchReply::Applied(Box::new(AppliedPatch {
                    run: ended.run,
                    patch,
                }))),
                Some(failure) => Err(ExecError::PatchFailed(Box::new(failure))),
            },
        }
    }

    /// Whether the agent has the tool at all, under every policy that has to let it through.
    fn expect_open(&self, agent: &AgentId, model: Option<&str>) -> Result<(), ExecError> {
        for view in self.policy.now().views() {
            let policy = &view.settings.policy;
            if let Some(key) = policy.tool_policy(agent).denied_by(Tool::ApplyPatch) {
                return Err(ExecError::ToolDenied {
                    detail: format!("{key} takes apply_patch from the agent"),
                    hint: hint(&["config", "get", key]),
                });
            }
            let patches = &policy.exec(agent).apply_patch;
            if !patches.enabled {
                let key = "tools.exec.applyPatch.enabled";
                return Err(ExecError::ToolDenied {
                    detail: format!("patches are switched off ({key})"),
                    hint: hint(&["config", "set", key, "true"]),
                });
            }
            if !is_model_allowed(&patches.allow_models, model) {
                return Err(ExecError::PatchNotAllowed {
                    detail: match model {
                        Some(_) => "this model may not send patches (tools.exec.applyPatch.allowModels)".to_owned(),
                        None => "only some models may send patches (tools.exec.applyPatch.allowModels), and the call names none in model".to_owned(),
                    },
                    hint: hint(&["config", "get", "tools.exec.applyPatch.allowModels"]),
                });
            }
        }
        Ok(())
    }
}

/// An entry is a model's name, or that of any provider's model of this name.
fn is_model_allowed(allowed: &[String], model: Option<&str>) -> bool {
    let plain = |name: &str| name.trim().to_lowercase();
    allowed.is_empty()
        || model.map(plain).is_some_and(|model| {
            let short = model.rsplit_once('/').map(|(_provider, name)| name);
            allowed
                .iter()
                .map(|entry| plain(entry))
                .any(|entry| entry == model || short == Some(entry.as_str()))
        })
}

/// Why a patch whose run has ended was not applied; `None` when it was.
fn failure_of(run: &Run, output: &Captured) -> Option<PatchFailure> {
    if run.status == RunStatus::Completed {
        return None;
    }
    let said = Failure::of_line(&output.stdout).filter(|_said| run.exit_code.is_some());
    // Nothing is said by what was killed.
    let reason = said.is_none().then(|| run.reason.unwrap_or(Reason::RunnerLost));
    let Failure {
        path,
        hunk,
        detail,
        not_restored,
    } = said.unwrap_or_else(|| Failure {
        path: None,
        hunk: None,
        detail: cut_off(run, reason.unwrap_or(Reason::RunnerLost)),
        not_restored: Vec::new(),
    });
    Some(PatchFailure {
        run_id: run.id.clone(),
        path,
        hunk,
        detail,
        reason,
        not_restored,
    })
}

fn cut_off(run: &Run, reason: Reason) -> String {
    if matches!(reason, Reason::SpawnFailed | Reason::NotStarted) {
        let why = run.detail.as_deref().unwrap_or(reason.as_str());
        return format!("the patch was not begun: {why}");
    }
    format!("the patch was cut off ({reason}); each file has its old content or its new one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_matched_by_name_with_or_without_provider() {
        let allowed = |entries: &[&str], model: Option<&str>| {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            is_model_allowed(&entries, model)
        };
        assert!(allowed(&[], None));
        assert!(allowed(&["gpt-5"], Some("gpt-5")));
        assert!(allowed(&["GPT-5 "], Some("openai/gpt-5")));
        assert!(allowed(&["openai/gpt-5"], Some("openai/gpt-5")));
        for (entry, model) in [
            ("openai/gpt-5", Some("gpt-5")),
            ("openai/gpt-5", Some("evil/gpt-5")),
            ("gpt-5", Some("gpt-5-mini")),
            ("gpt-5", Some("")),
            ("gpt-5", None),
        ] {
            assert!(!allowed(&[entry], model), "{entry} {model:?}");
        }
    }
}
