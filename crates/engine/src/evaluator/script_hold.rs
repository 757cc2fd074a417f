//! Whether the scripts of a run are read as they were judged, decided before anybody is asked or told.
//!
//! What is called held here is held by the supervisor (`runner::answers`), or the run does not start. Everything else is
//! called by the reason why not.

use std::path::Path;

use countersign_domain::{Bound, BoundAction, BoundScript, BoundStep, FileIdentity, Isolation, ScriptHold};
use countersign_hosts::path_lookup::{SystemLookup, has_rights};
use countersign_policy::{
    allowlist::{Analysis, MatchKind, SegmentReport},
    command::{PathLookup as _, moving::Moves, operands::directory_words},
};
use countersign_sys::interception;

use crate::evaluator::{keeping::lets_gain, policy_now::PolicyView};

/// What is looked at for the decision.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) scripts: &'a [BoundScript],
    /// Whether all of them were read.
    pub(crate) are_whole: bool,
    pub(crate) executables: &'a [FileIdentity],
    pub(crate) analysis: Option<&'a Analysis>,
    pub(crate) isolation: Isolation,
}

impl Subject<'_> {
    pub(crate) fn hold(&self, lookup: &SystemLookup) -> Option<ScriptHold> {
        if self.scripts.is_empty() {
            return None;
        }
        Some(if !interception::is_available() {
            ScriptHold::Unsupported
        } else if !self.are_whole {
            ScriptHold::TooLarge
        } else if let Some(why) = self.loose_script() {
            why
        } else if !self.knows_interpreters() {
            ScriptHold::NotUnderstood
        } else if let Some(moves) = self.moves() {
            match moves {
                Moves::Directory => ScriptHold::ChangesDirectory,
                Moves::View => ScriptHold::SeesOtherFiles,
                Moves::Makefile => ScriptHold::MakeChooses,
            }
        } else if self.changes_directory() {
            ScriptHold::ChangesDirectory
        } else {
            self.of_programs(lookup)
        })
    }

    /// Why a script that is started as a program is not read as its interpreter's operand.
    fn loose_script(&self) -> Option<ScriptHold> {
        let direct = direct_paths(self.bound);
        self.scripts.iter().find_map(|script| {
            if direct.contains(&script.path.as_str()) {
                return script.interpreter.is_none().then_some(ScriptHold::NoInterpreter);
            }
            let is_program = self.executables.iter().any(|program| program.path == script.path);
            (is_program || script.interpreter.is_some()).then_some(ScriptHold::StartedByAnother)
        })
    }

    /// Whether every program is known that may read a script.
    fn knows_interpreters(&self) -> bool {
        match self.bound {
            Bound::Exec { .. } | Bound::Plan { .. } => true,
            Bound::Text { .. }
            | Bound::Held { .. }
            | Bound::Rendered { .. }
            | Bound::Inside { .. }
            | Bound::OnNode { .. }
            | Bound::Patch { .. }
            | Bound::Elsewhere { .. } => self.analysis.is_some_and(|analysis| analysis.ok),
        }
    }

    /// How a program of the command makes its words name other files than those that were bound.
    fn moves(&self) -> Option<Moves> {
        first_move(self.analysis.map_or(&[][..], |analysis| &analysis.segments))
    }

    /// Whether a directory that is not pinned lies on the way to a script.
    fn changes_directory(&self) -> bool {
        match self.bound {
            Bound::Plan { steps } => {
                let is_loose = BoundStep::all(steps)
                    .iter()
                    .any(|step| matches!(step.action, BoundAction::ChangeDirectory { pinned: None, .. }));
                let segments = self.analysis.map_or(&[][..], |analysis| &analysis.segments);
                is_loose || segments.iter().any(|segment| any_change(&segment.segments))
            }
            Bound::Text { text, .. } => !directory_words(text).is_empty() || self.any_segment_changes(),
            Bound::Rendered { .. }
            | Bound::Held { .. }
            | Bound::Exec { .. }
            | Bound::Inside { .. }
            | Bound::OnNode { .. }
            | Bound::Patch { .. }
            | Bound::Elsewhere { .. } => self.any_segment_changes(),
        }
    }

    fn any_segment_changes(&self) -> bool {
        self.analysis
            .is_some_and(|analysis| any_change(&analysis.segments))
    }

    /// Programs that become more than they were started as must not be stopped in their calls, and those that cannot be
    /// looked into cannot be answered.
    fn of_programs(&self, lookup: &SystemLookup) -> ScriptHold {
        let may_gain = lets_gain(self.isolation);
        let interpreters = self
            .scripts
            .iter()
            .filter_map(|script| script.interpreter.as_ref())
            .map(|interpreter| &interpreter.identity);
        for program in self.executables.iter().chain(interpreters) {
            match lookup.open_regular(Path::new(&program.path)) {
                Ok(file) if may_gain && has_rights(&file) => return ScriptHold::GainsPrivileges,
                Ok(_) => {}
                // Nearly always one that is set-uid, too.
                Err(_) if may_gain => return ScriptHold::GainsPrivileges,
                Err(_) => return ScriptHold::Unsupported,
            }
        }
        ScriptHold::Held
    }
}

/// Binds what a grant demands, not what lay there a moment later: a start then finds that it is something else.
pub(crate) fn bind_granted(
    scripts: &mut [BoundScript],
    analysis: &Analysis,
    now: &PolicyView,
    agent: &str,
    lookup: &SystemLookup,
) {
    let grants = now.document.grants(agent);
    for segment in &analysis.segments {
        let granted = (segment.matched.kind == MatchKind::Grant)
            .then_some(segment.matched.entry_id.as_deref())
            .flatten()
            .and_then(|id| grants.iter().find(|grant| grant.id.as_str() == id))
            .and_then(|grant| grant.item.sha256.as_deref());
        let (Some(sha256), Some(path)) = (granted, segment.resolved_path.as_deref()) else {
            continue;
        };
        let is_this =
            |script: &BoundScript| script.path == path || lookup.real(&script.path) == lookup.real(path);
        for script in scripts.iter_mut().filter(|script| is_this(script)) {
            script.sha256 = sha256.to_ascii_lowercase();
        }
    }
}

fn direct_paths(bound: &Bound) -> Vec<&str> {
    match bound {
        Bound::Exec { path, .. } => vec![path],
        Bound::Plan { steps } => BoundStep::all(steps)
            .into_iter()
            .filter_map(|step| match &step.action {
                BoundAction::Program { path, .. } => Some(path.as_str()),
                BoundAction::ChangeDirectory { .. }
                | BoundAction::PrintDirectory { .. }
                | BoundAction::Settle { .. }
                | BoundAction::All { .. }
                | BoundAction::Not { .. }
                | BoundAction::Choice { .. }
                | BoundAction::Turns { .. }
                | BoundAction::Set { .. }
                | BoundAction::Background { .. }
                | BoundAction::Wait => None,
            })
            .collect(),
        Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Held { .. }
        | Bound::Inside { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => Vec::new(),
    }
}

fn any_change(segments: &[SegmentReport]) -> bool {
    segments
        .iter()
        .any(|segment| segment.executable == "cd" || any_change(&segment.segments))
}

/// Of the programs among whose words a script may be.
fn first_move(segments: &[SegmentReport]) -> Option<Moves> {
    segments.iter().find_map(|segment| {
        let own = segment.moves.filter(|_| !segment.code_operands.is_empty());
        own.or_else(|| first_move(&segment.segments))
    })
}
