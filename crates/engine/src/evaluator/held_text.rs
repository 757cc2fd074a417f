//! Misses that run held instead of being asked about (`tools.exec.onMiss = "held"`, `docs/held-texts.md`): a text that
//! nobody could take apart, or in which listed programs would start others, where only listed programs can be executed.
//!
//! Only the allowlist is left out of the decision, for what the kernel keeps in its place. In any doubt a person is asked.

use std::path::{Path, PathBuf};

use countersign_config::settings::Settings;
use countersign_domain::{Bound, Command, Confinement, FileIdentity, Host, Isolation, OnMiss, Security};
use countersign_hosts::{
    held::{self, Kind, kind_of},
    path_lookup::{SystemLookup, has_rights},
};
use countersign_policy::{
    allowlist::Analysis,
    command::{PathLookup as _, direct::ShellKind, env_policy, pinning::Pinned},
    gate::Verdict,
    held as texts,
};

use super::{
    Evaluation, Evaluator, Mode, PlaceRule, analyse, call::Call, judgement::Judgement, policy_now::PolicyView,
};

/// What becomes of a miss that may run held.
#[derive(Debug)]
pub(crate) enum Holding {
    /// Nobody said that it may, or it is a miss of another kind.
    Unwanted,
    /// It may, and is not; why, in words.
    Impossible(String),
    /// It runs, bound to this.
    Into(Box<Bound>),
}

impl Evaluator {
    /// Holds a text of the gateway host, if it is a miss only for its grammar and what listed programs would start.
    pub(crate) async fn hold(&self, evaluation: &Evaluation, mode: &Mode<'_>) -> Holding {
        let Evaluation {
            call, policy, judged, ..
        } = evaluation;
        let may = |settings: &Settings| settings.policy.exec(&call.agent).on_miss.value == OnMiss::Held;
        let (Ok(judged), Command::Shell(text)) = (judged, &call.command) else {
            return Holding::Unwanted;
        };
        let is_miss = judged.is_miss() && judged.input.security == Security::Allowlist;
        let is_other =
            mode.place != PlaceRule::Resolved || call.host() != Host::Gateway || call.asked.is_elevated();
        let names_programs =
            |view: &PolicyView| !view.settings.policy.exec(&call.agent).held_programs.is_empty();
        let are_named = policy.views().any(names_programs);
        let is_concerned = judged
            .analysis
            .as_ref()
            .is_some_and(|analysis| !analysis.ok || texts::is_holdable_miss(analysis, are_named));
        if !is_miss || is_other || !is_concerned || !policy.views().all(|view| may(&view.settings)) {
            return Holding::Unwanted;
        }
        if let Err(why) = self.expect_plain(call, judged) {
            return Holding::Impossible(why.to_owned());
        }
        match tokio::task::spawn_blocking(held::probe).await {
            Ok(Ok(())) => {}
            Ok(Err(unusable)) => return Holding::Impossible(unusable.to_string()),
            Err(_ended) => return Holding::Impossible("it could not be tried".to_owned()),
        }
        let mut bound: Option<Bound> = None;
        for view in policy.views() {
            if self.places.isolation_of(&call.agent, &view.settings) != Isolation::Confined {
                return Holding::Impossible(
                    "commands of this agent do not run at the level confined".to_owned(),
                );
            }
            match self.held_under(call, text, view) {
                Err(why) => return Holding::Impossible(why),
                // Under each the kernel would keep another set.
                Ok(found) if bound.as_ref().is_some_and(|bound| *bound != found) => {
                    return Holding::Impossible(
                        "an edit of the policy that is held would let it start other programs".to_owned(),
                    );
                }
                Ok(found) => bound = Some(found),
            }
        }
        bound.map_or(Holding::Unwanted, |bound| Holding::Into(Box::new(bound)))
    }

    /// Nothing comes with the text that nobody could judge either.
    fn expect_plain(&self, call: &Call, judged: &Judgement) -> Result<(), &'static str> {
        let is_kept = env_policy::harmless_only(&call.env).names().len() == call.env.names().len();
        if call.pty || call.input().is_open() || judged.binding.input.is_open() {
            Err("its input stays open, or it has a terminal")
        } else if !is_kept {
            Err("the call sets variables that are not known to be harmless")
        } else if !matches!(
            self.binder.shell().kind(),
            Some(ShellKind::Bash | ShellKind::Dash)
        ) {
            Err("the host's shell is neither bash nor dash")
        } else {
            Ok(())
        }
    }

    /// What it is bound to under one view of the policy.
    fn held_under(&self, call: &Call, text: &str, view: &PolicyView) -> Result<Bound, String> {
        if !view.deny_rules(&call.agent).is_empty() {
            return Err("there are deny rules, and none of them sees what it would start".to_owned());
        }
        if !view.settings.server.approvals.rules.is_empty() {
            return Err("there are approval rules, and none of them sees what it would start".to_owned());
        }
        let analysis = self.analyse(call, view, &[]).map_err(|blind| blind.to_string())?;
        let lookup = self.analyst.path_lookup(&call.agent, &view.settings);
        let workspace = self.held_workspace(call, &view.settings)?;
        let shell = self.binder.shell().path().to_string_lossy().into_owned();
        let found = lookup
            .inspect(&shell)
            .filter(|found| texts::is_of_system(&found.real));
        let shell_file = found
            .ok_or("the host's shell is no program of the system")?
            .identity;
        let programs = self.held_programs(call, text, &analysis, view, &workspace, &lookup)?;
        let mut loaders: Vec<FileIdentity> = Vec::new();
        for program in std::iter::once(&shell_file).chain(&programs) {
            let loader = loader_of(program, &lookup)?;
            loaders.extend(loader.filter(|loader| !loaders.contains(loader)));
        }
        lookup.check().map_err(|blind| blind.to_string())?;
        Ok(Bound::Held {
            shell,
            shell_file,
            text: text.to_owned(),
            workspace: workspace.to_string_lossy().into_owned(),
            programs,
            loaders,
        })
    }

    /// The set, if the text starts nothing that is plainly not in it.
    fn held_programs(
        &self,
        call: &Call,
        text: &str,
        analysis: &Analysis,
        view: &PolicyView,
        workspace: &Path,
        lookup: &SystemLookup,
    ) -> Result<Vec<FileIdentity>, String> {
        let protected = self.analyst.protected();
        let entries = view.document.entries(call.agent.as_str());
        let exec = view.settings.policy.exec(&call.agent);
        let terms = texts::Terms {
            named: &exec.held_programs,
            strict_inline_eval: exec.strict_inline_eval.value,
            workspace: &workspace.to_string_lossy(),
            directory: &call.workdir.path.to_string_lossy(),
        };
        let set = texts::programs(entries.iter().map(analyse::entry_of), &terms, protected, lookup)
            .map_err(|why| why.to_string())?;
        let set: Vec<FileIdentity> = set
            .into_iter()
            .filter(|program| is_plain_program(program, lookup))
            .collect();
        texts::expect_holdable(text, analysis, &set, &terms, protected, lookup)
            .map_err(|why| why.to_string())?;
        Ok(set)
    }

    /// The agent's workspace, in which the call must stand: where it stands, its agent chose.
    fn held_workspace(&self, call: &Call, settings: &Settings) -> Result<PathBuf, String> {
        let configured = self.places.workspace(&call.agent, settings);
        let real = std::fs::canonicalize(&configured)
            .map_err(|error| format!("the workspace {}: {error}", configured.display()))?;
        if !call.workdir.path.starts_with(&real) {
            return Err(format!(
                "it would run outside of the workspace {} of its agent",
                real.display()
            ));
        }
        self.places
            .gateway
            .check_held_workspace(&real, &self.places.home)
            .map_err(|unusable| unusable.to_string())?;
        Ok(real)
    }
}

/// A program of the machine, without rights of its own.
fn is_plain_program(program: &FileIdentity, lookup: &SystemLookup) -> bool {
    lookup
        .open_regular(Path::new(&program.path))
        .is_ok_and(|file| matches!(kind_of(&file), Kind::Program(_)) && !has_rights(&file))
}

/// The file that loads the libraries of a program, if it needs one.
fn loader_of(program: &FileIdentity, lookup: &SystemLookup) -> Result<Option<FileIdentity>, String> {
    let file = lookup
        .open_regular(Path::new(&program.path))
        .map_err(|error| format!("{}: {error}", program.path))?;
    match kind_of(&file) {
        Kind::Program(None) => Ok(None),
        Kind::Program(Some(path)) => {
            let found = lookup
                .inspect(&path)
                .filter(|found| texts::is_of_system(&found.real));
            let found = found.ok_or_else(|| format!("the loader {path} of {} is not there", program.path))?;
            Ok(Some(found.identity))
        }
        Kind::Other => Err(format!("{} is no program of the machine", program.path)),
    }
}

impl Judgement {
    /// The same of a text that runs held.
    pub(crate) fn held(self, bound: Bound) -> Self {
        let mut binding = self.binding;
        binding.bound = bound;
        // The walls keep it in place of what would have been kept of its programs.
        binding.confinement = Confinement::default();
        // The set is what is compared.
        binding.executables = Vec::new();
        binding.executable_sha256 = None;
        binding.script = None;
        binding.scripts = Vec::new();
        binding.held = None;
        Self {
            verdict: Verdict::Run,
            pinned: Pinned::of(&binding),
            binding,
            start: None,
            grants: Vec::new(),
            ..self
        }
    }
}

/// The programs of a text that runs held, by their real paths.
pub(crate) fn programs_of(bound: &Bound) -> Option<Vec<String>> {
    match bound {
        Bound::Held { programs, .. } => Some(programs.iter().map(|program| program.path.clone()).collect()),
        Bound::Exec { .. }
        | Bound::Plan { .. }
        | Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Inside { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => None,
    }
}

/// What a caller is told whose text was asked about although it might have run held.
pub(crate) fn not_held(why: &str) -> crate::reply::Warning {
    crate::reply::Warning {
        code: crate::warnings::NOT_HELD,
        message: format!("tools.exec.onMiss is held, but the text could not run so: {why}"),
    }
}
