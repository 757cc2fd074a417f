//! What was bound earlier, looked at again: where it would run now, under which policy, and whether it is still the same.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_config::approvals::binding::{self, BoundScripts};
use countersign_domain::{
    Actor, Approval, ApprovalCard, Binding, Command, CommandInput, EntryId, Host, Security,
};
use countersign_hosts::{
    node::InvokeFailure,
    peer_fs::Blind,
    sandbox::Placement,
    workdir::{Workdir, WorkdirError},
};
use countersign_ledger::{GrantUse, UnfinishedRun};
use countersign_policy::{
    combine::{Effective, Wanted},
    gate::Verdict,
};

use super::{
    Evaluator, Purpose, analyse, bind,
    call::Call,
    judgement,
    policy_now::{PolicyNow, PolicyView},
    script_hold,
};
use crate::{
    node::{OWN_DIRECTORY, OnNode},
    reply::ExecError,
};

/// What lets a command through that nobody answered about.
#[derive(Debug, Default)]
pub(crate) struct StillCovering {
    pub(crate) grants: Vec<GrantUse>,
    pub(crate) needs_person: bool,
    /// What it includes of the input.
    pub(crate) input: Option<CommandInput>,
}

impl Evaluator {
    /// The call behind something that was bound earlier, where it was bound.
    pub(crate) fn call_of_binding(&self, binding: &Binding, now: &PolicyNow) -> Result<Call, WorkdirError> {
        let workdir = match binding.host {
            Host::Node => Workdir::inside(PathBuf::from(&binding.cwd)),
            Host::Gateway | Host::Sandbox => Workdir::at(Path::new(&binding.cwd), self.places.files())?,
        };
        let mut call = Call::of_binding(binding, workdir);
        call.workdir_named = binding.cwd != OWN_DIRECTORY;
        call.node.clone_from(&now.node);
        Ok(call)
    }

    /// The policy of this moment for something that was bound earlier; on a node, with what the node says now to the
    /// caller who asked for it then.
    ///
    /// # Errors
    /// [`ExecError::NodeUnavailable`] while the node is away.
    pub(crate) async fn policy_for(&self, binding: &Binding, asker: &Actor) -> Result<PolicyNow, ExecError> {
        let mut now = self.policy.now();
        if binding.host != Host::Node {
            return Ok(now);
        }
        let id = binding.node_id.as_deref().unwrap_or_default();
        let found = self.nodes.nodes().into_iter().find(|node| node.node_id == id);
        let node = found.ok_or_else(|| ExecError::NodeUnavailable {
            failure: InvokeFailure::NotConnected,
            detail: format!("node {id} is not paired any more"),
        })?;
        now.node = Some(Arc::new(OnNode::new(node, asker.clone())));
        let call = self.call_of_binding(binding, &now)?;
        let (now, _call, _judged) = self.evaluate_on_node(call, now, &[], Purpose::Again).await?;
        Ok(now)
    }

    /// What a run of an earlier server would be now: as it was approved, or as the policy judges it at this moment; with its sandbox, if it
    /// runs in one.
    pub(crate) async fn binding_after_restart(
        &self,
        unfinished: &UnfinishedRun,
    ) -> Option<(Binding, Option<Arc<Placement>>)> {
        let now = self.policy.now();
        if let Some(approval) = &unfinished.approval {
            return Some((
                self.rebind(&approval.card.binding, approval.card.security, &now)
                    .ok()?,
                None,
            ));
        }
        let run = &unfinished.run;
        let call = match run.host {
            Host::Sandbox => self.places.call_of_inside_run(run, &now).await?,
            Host::Gateway => Call::of_run(run, self.places.files())?,
            // Its fence is on the node: nobody here starts it again.
            Host::Node => return None,
        };
        let judged = self.judge(&call, &now, &[]).ok()?;
        (judged.verdict == Verdict::Run).then_some((judged.binding, call.sandbox))
    }

    /// The effective policy at this moment for what was asked about.
    pub(crate) fn effective_for(&self, approval: &Approval, now: &PolicyNow) -> Effective {
        let card = &approval.card;
        let Binding { agent, session, .. } = &card.binding;
        let asked = self
            .sessions
            .asked_again(agent, session, card.elevated, &approval.requested_by, now);
        now.effective(agent, asked.wishes(Wanted::default()))
    }

    /// What covers a command at this moment that was covered when it was asked about; `None` when it was not, or is not
    /// any more. `spent` are grants found to have no use left.
    pub(crate) fn still_covering(
        &self,
        card: &ApprovalCard,
        now: &PolicyNow,
        spent: &[EntryId],
    ) -> Option<StillCovering> {
        let binding = &card.binding;
        let call = self
            .call_of_binding(binding, now)
            .ok()
            .filter(|_| card.satisfied)?;
        let mut cover = StillCovering::default();
        for view in now.views() {
            let analysis = self.analyse(&call, view, spent).ok()?;
            if !(analysis.ok && analysis.satisfied) {
                return None;
            }
            cover.needs_person |= analysis.needs_person;
            cover.input = Some(match cover.input {
                None => analysis.input,
                Some(before) => judgement::lesser_input(before, analysis.input),
            });
            judgement::add_uses(
                &mut cover.grants,
                analyse::grant_uses(&analysis, view, binding.agent.as_str()),
            );
        }
        Some(cover)
    }

    /// The same binding with what is there now: equal digests mean that nothing changed. Programs are looked up
    /// again, not only looked at: another file may come first in the PATH, or be there at last. `security` is that of the
    /// question: under another than `allowlist` there is no plan of which something is kept.
    ///
    /// # Errors
    /// [`Blind`] when it cannot be looked at now; it may well be what it was.
    pub(crate) fn rebind(
        &self,
        approved: &Binding,
        security: Security,
        now: &PolicyNow,
    ) -> Result<Binding, Blind> {
        if approved.host == Host::Node {
            let seen = now.node.as_ref();
            return seen.map(|node| node.rebind(approved)).ok_or(Blind);
        }
        let mut present = approved.clone();
        let directory = match Workdir::at(Path::new(&approved.cwd), self.places.files()) {
            Err(WorkdirError::Blind(blind)) => return Err(blind),
            directory => directory.ok(),
        };
        let Some(directory) = directory.filter(|now| now.path.to_str() == Some(&approved.cwd)) else {
            (present.cwd_dev, present.cwd_ino) = (0, 0);
            return Ok(present);
        };
        (present.cwd_dev, present.cwd_ino) = (directory.dev, directory.ino);
        if let Command::Patch(text) = &approved.command {
            let keeps_in = now.views().any(|view| view.keeps_patches_in(&approved.agent));
            present.bound = self.binder.bound_patch(text, keeps_in);
            return Ok(present);
        }
        let analysis = self.analyse(&Call::of_binding(approved, directory.clone()), &now.counted, &[])?;
        let lookup = self.analyst.path_lookup(&approved.agent, &now.counted.settings);
        let BoundScripts { scripts, are_whole } = self.binder.scripts_of(
            Some(&analysis),
            &approved.bound,
            &analysis.executables,
            Path::new(&approved.cwd),
            &lookup,
        );
        present.scripts = scripts;
        present.held = script_hold::Subject {
            bound: &approved.bound,
            scripts: &present.scripts,
            are_whole,
            executables: &analysis.executables,
            analysis: Some(&analysis),
            isolation: self.places.isolation_of(&approved.agent, &now.counted.settings),
        }
        .hold(&lookup);
        lookup.check()?;
        let is_planned = security == Security::Allowlist;
        let mut confinement = bind::confinement_again(approved, Some(&analysis).filter(|_| is_planned));
        if let Some(edited) = &now.edited {
            let analysis = self.analyse(&Call::of_binding(approved, directory), edited, &[])?;
            let of_edited = bind::confinement_again(approved, Some(&analysis).filter(|_| is_planned));
            confinement = confinement.strictest(&of_edited);
        }
        present.confinement = confinement;
        present.script = binding::sum_of(&present.scripts);
        present.executables = analysis.executables;
        Ok(present)
    }

    /// Whether a deny rule of this moment matches what was bound earlier. What cannot be looked at may be denied.
    pub(crate) fn is_denylisted(&self, binding: &Binding, now: &PolicyNow) -> bool {
        if matches!(binding.command, Command::Patch(_)) {
            return false;
        }
        let is_denied_by = |view: &PolicyView| {
            if !view.has_deny_rules(&binding.agent) {
                return false;
            }
            let Ok(call) = self.call_of_binding(binding, now) else {
                return true;
            };
            let analysis = self.analyse(&call, view, &[]);
            analysis.map_or(true, |analysis| analysis.denylisted.is_some())
        };
        now.views().any(is_denied_by)
    }
}
