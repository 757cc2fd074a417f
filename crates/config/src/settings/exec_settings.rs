//! `tools.exec.*` of one agent, resolved: the agent's word, else the global one, else the default.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use countersign_domain::{ConfineFallback, Isolation, Leftovers, OnMiss};
use countersign_policy::{
    command::syntax::Grammar,
    layers::{Layer, Resolved, Spoken},
};

use super::{
    SafeBinProfile,
    policy_keys::{Level, Said},
};

/// How one agent's commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    /// Time limit of a run; `None` is none.
    pub timeout: Option<Duration>,
    /// When a run moves to the background unless the call says otherwise.
    pub background_after: Duration,
    /// How long a finished session is kept.
    pub cleanup: Duration,
    /// Whether the end of a background run is reported.
    pub notify_on_exit: bool,
    /// Whether that goes for a success without output too.
    pub notify_on_exit_empty_success: bool,
    /// After how long an approved run is reported as running; `None` is never.
    pub approval_running_notice: Option<Duration>,
    /// Whether inline evaluation always needs a person.
    pub strict_inline_eval: Resolved<bool>,
    /// Whether delegation is judged strictly (rule D1).
    pub strict_delegation: Resolved<bool>,
    /// What the analysis reads besides the plain grammar.
    pub grammar: Grammar,
    /// What becomes of an entry whose `confine` cannot be kept.
    pub confine_fallback: ConfineFallback,
    /// Whether runs tell which programs those with limits on their starts start, or try to.
    pub observe: bool,
    /// What becomes of processes that a foreground command leaves behind.
    pub leftovers: Leftovers,
    /// The level of isolation the agent was put on, if it was.
    pub isolation: Option<Isolation>,
    /// What happens to an allowlist miss.
    pub on_miss: Resolved<OnMiss>,
    /// Programs that held texts may start without an entry: names or paths.
    pub held_programs: Vec<String>,
    /// Directories before the PATH, absolute.
    pub path_prepend: Vec<PathBuf>,
    /// Programs that are safe on standard input.
    pub safe_bins: Vec<String>,
    /// Where they must lie: `/bin`, `/usr/bin` and what was added globally and for the agent.
    pub safe_bin_trusted_dirs: Vec<PathBuf>,
    /// Their profiles, by name.
    pub safe_bin_profiles: BTreeMap<String, SafeBinProfile>,
    /// The patch tool of this agent.
    pub apply_patch: ApplyPatchSettings,
}

/// `tools.exec.applyPatch.*` of one agent, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyPatchSettings {
    /// Whether there is a patch tool.
    pub enabled: bool,
    /// Whether it stays within the workspace.
    pub workspace_only: bool,
    /// Models that may use it; empty for all.
    pub allow_models: Vec<String>,
}

/// Where safe bins lie on every system.
const BUILT_IN_TRUSTED_DIRS: [&str; 2] = ["/bin", "/usr/bin"];

/// The three levels of an agent, weakest first.
pub(super) struct Levels<'a> {
    pub(super) default: &'a Level,
    /// The file's global keys.
    pub(super) global: &'a Level,
    /// The agent's own, when it has an object.
    pub(super) agent: Option<&'a Level>,
}

impl Levels<'_> {
    /// The strongest word on a key, with its source.
    pub(super) fn said<T: Clone>(&self, of: impl Fn(&Level) -> &Option<Said<T>>) -> Option<Said<T>> {
        let agent = self.agent.and_then(|level| of(level).clone());
        agent
            .or_else(|| of(self.global).clone())
            .or_else(|| of(self.default).clone())
    }

    /// Whether anybody said anything on a key beside its default.
    pub(super) fn is_named<T>(&self, of: impl Fn(&Level) -> &Option<Said<T>>) -> bool {
        self.agent
            .into_iter()
            .chain([self.global])
            .any(|level| of(level).is_some())
    }

    /// The strongest word on a key that has a default.
    pub(super) fn value<T: Clone>(&self, of: impl Fn(&Level) -> &Option<Said<T>>) -> T {
        self.said(of)
            .expect("the key has a default, which a test reads")
            .value
    }

    /// Everything that was said on a key, weakest first.
    pub(super) fn spoken<T>(&self, of: impl Fn(&Level) -> Option<Said<T>>) -> Vec<Spoken<T>> {
        let said = [
            (Layer::Default, of(self.default)),
            (Layer::Global, of(self.global)),
            (Layer::Agent, self.agent.and_then(of)),
        ];
        let spoken = |(layer, said): (Layer, Option<Said<T>>)| {
            said.map(|said| Spoken::new(layer, said.source, said.value))
        };
        said.into_iter().filter_map(spoken).collect()
    }

    /// Every word on a key whose values add up, weakest first.
    pub(super) fn all<T: Clone>(&self, of: impl Fn(&Level) -> &Option<Said<T>>) -> Vec<T> {
        self.spoken(|level| of(level).clone())
            .into_iter()
            .map(|spoken| spoken.value)
            .collect()
    }
}

impl ExecSettings {
    /// Resolves one agent's settings.
    pub(super) fn resolve(levels: &Levels<'_>) -> Self {
        Self {
            timeout: timeout(levels),
            background_after: levels.value(|level| &level.background_after),
            cleanup: levels.value(|level| &level.cleanup),
            notify_on_exit: levels.value(|level| &level.notify_on_exit),
            notify_on_exit_empty_success: levels.value(|level| &level.notify_on_exit_empty_success),
            approval_running_notice: levels.value(|level| &level.approval_running_notice),
            strict_inline_eval: resolved(levels.spoken(|level| level.strict_inline_eval.clone())),
            strict_delegation: resolved(levels.spoken(|level| level.strict_delegation.clone())),
            grammar: Grammar {
                null_redirections: levels.value(|level| &level.null_redirections),
                here_documents: levels.value(|level| &level.here_documents),
                file_redirections: levels.value(|level| &level.file_redirections),
                file_patterns: levels.value(|level| &level.file_patterns),
                temporary_files: levels.value(|level| &level.temporary_files),
                found_files: levels.value(|level| &level.found_files),
                document_operands: levels.value(|level| &level.document_operands),
                variables: levels.value(|level| &level.variables),
                substitutions: levels.value(|level| &level.substitutions),
                braces: levels.value(|level| &level.braces),
                compound_commands: levels.value(|level| &level.compound_commands),
                loops: levels.value(|level| &level.loops),
                later_values: levels.value(|level| &level.later_values),
                background_commands: levels.value(|level| &level.background_commands),
                project_runners: levels.value(|level| &level.project_runners),
            },
            confine_fallback: levels.value(|level| &level.confine_fallback),
            observe: levels.value(|level| &level.observe),
            leftovers: levels.value(|level| &level.leftovers),
            isolation: levels.said(|level| &level.isolation).map(|said| said.value),
            on_miss: resolved(levels.spoken(|level| level.on_miss.clone())),
            held_programs: levels.value(|level| &level.held_programs),
            path_prepend: levels.value(|level| &level.path_prepend),
            safe_bins: levels.value(|level| &level.safe_bins),
            safe_bin_trusted_dirs: trusted_dirs(levels),
            safe_bin_profiles: levels
                .all(|level| &level.safe_bin_profiles)
                .into_iter()
                .flatten()
                .collect(),
            apply_patch: ApplyPatchSettings {
                enabled: levels.value(|level| &level.apply_patch_enabled),
                workspace_only: levels.value(|level| &level.apply_patch_workspace_only),
                allow_models: levels.value(|level| &level.apply_patch_allow_models),
            },
        }
    }
}

fn timeout(levels: &Levels<'_>) -> Option<Duration> {
    let either = |level: &Level| level.timeout.clone().or_else(|| level.timeout_alias.clone());
    levels.spoken(either).pop().and_then(|spoken| spoken.value)
}

fn resolved<T: Clone>(layers: Vec<Spoken<T>>) -> Resolved<T> {
    let Spoken { source, value, .. } = layers
        .last()
        .expect("the key has a default, which a test reads")
        .clone();
    Resolved {
        value,
        source,
        layers,
    }
}

fn trusted_dirs(levels: &Levels<'_>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = BUILT_IN_TRUSTED_DIRS.iter().map(PathBuf::from).collect();
    for dir in levels
        .all(|level| &level.safe_bin_trusted_dirs)
        .into_iter()
        .flatten()
    {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}
