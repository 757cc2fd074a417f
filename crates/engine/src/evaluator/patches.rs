//! Patches as they are judged: where they stay, and what they are bound to.

use countersign_domain::{AgentId, Command, Host};
use countersign_hosts::workdir::Workdir;

use super::{
    call::Call,
    place::{Places, named_directory},
    policy_now::PolicyView,
};
use crate::reply::ExecError;

impl Places {
    /// A patch that stays in the workspace begins in it as well: a caller who names the directory must not choose
    /// another one.
    pub(crate) fn expect_in_workspace(&self, call: &Call, now: &PolicyView) -> Result<(), ExecError> {
        if !matches!(call.command, Command::Patch(_)) || !now.keeps_patches_in(&call.agent) {
            return Ok(());
        }
        let workspace = self.workspace(&call.agent, &now.settings);
        let workspace = Workdir::at(&workspace, self.files())
            .map_err(|error| named_directory(error, &workspace.to_string_lossy(), Host::Gateway))?;
        if call.workdir.path.starts_with(&workspace.path) {
            return Ok(());
        }
        Err(ExecError::WorkdirUnavailable {
            detail: "patches stay in the agent's workspace (tools.exec.applyPatch.workspaceOnly), and this directory is \
                     outside; leave workdir out, name a directory in the workspace, or set agents.*.workspace"
                .to_owned(),
        })
    }
}

impl PolicyView {
    /// Whether patches of an agent stay in its workspace.
    pub(crate) fn keeps_patches_in(&self, agent: &AgentId) -> bool {
        self.settings.policy.exec(agent).apply_patch.workspace_only
    }
}
