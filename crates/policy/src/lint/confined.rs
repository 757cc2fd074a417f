//! What is odd about `confine` of an entry.

use countersign_domain::{Starts, WritePlace, deciding};

use super::{Remark, RemarkCode};
use crate::{
    command::{
        PathLookup, helpers, inline_eval,
        names::{self, NameClass},
        paths,
    },
    confine::ConfineRule,
};

/// What is odd about what an entry says of the program that it names; `names` are those that this goes by, none where it can
/// be several. With `may_look` false no file is looked up.
pub(super) fn remarks(
    rule: Option<&ConfineRule>,
    names: &[&str],
    lookup: &dyn PathLookup,
    may_look: impl Fn() -> bool,
) -> Vec<Remark> {
    let confine = match rule {
        None => return Vec::new(),
        Some(ConfineRule::NotUnderstood(why)) => {
            let message = format!("it covers nothing: {why}");
            return vec![Remark::new(RemarkCode::ConfineNotUnderstood, message)];
        }
        Some(ConfineRule::Understood(confine)) => confine,
    };
    let mut remarks = Vec::new();
    if let Some(Starts::These { judged, programs }) = &confine.starts {
        if let Some(program) = programs.iter().find(|program| runs_anything(program)) {
            let message = format!("its starts has {program}, which can start or do anything");
            remarks.push(Remark::new(RemarkCode::ConfineTooWide, message));
        }
        let is_unknown = |name: &&&str| helpers::starts_of(name).is_none();
        if let Some(name) = names.iter().find(is_unknown).filter(|_| *judged) {
            let message = format!("what {name} starts is not known, so `judged` adds nothing to its starts");
            remarks.push(Remark::new(RemarkCode::ConfineIdle, message));
        }
        if let Some(program) = programs
            .iter()
            .find(|program| may_look() && is_absent(program, lookup))
        {
            let message = format!("there is no {program} here, so its starts has nothing of it");
            remarks.push(Remark::new(RemarkCode::ConfineIdle, message));
        }
    }
    let decides = |place: &WritePlace| match place {
        WritePlace::Workspace | WritePlace::Tmp => None,
        WritePlace::Path(path) => {
            let path = paths::normalise(&paths::expand_home(path, lookup.home()));
            deciding(&path).is_some().then_some(path)
        }
    };
    if let Some(path) = confine.writes.iter().flatten().find_map(decides) {
        let message = format!("its writes has {path}, which decides what programs start");
        remarks.push(Remark::new(RemarkCode::ConfineTooWide, message));
    }
    remarks
}

/// Whether a program of a list, or one below a directory of it, runs what it is told.
fn runs_anything(program: &str) -> bool {
    if let Some(directory) = program.strip_suffix("/**") {
        return [
            "/bin",
            "/usr/bin",
            "/sbin",
            "/usr/sbin",
            "/usr",
            "/usr/local",
            "/usr/local/bin",
        ]
        .contains(&directory);
    }
    let name = paths::base_name(program);
    matches!(
        NameClass::of(name),
        NameClass::PayloadShell
            | NameClass::OtherShell
            | NameClass::Carrier
            | NameClass::Multiplexer
            | NameClass::Wrapper
    ) || inline_eval::is_interpreter(&[name])
        || names::runs_scripts(name)
}

fn is_absent(program: &str, lookup: &dyn PathLookup) -> bool {
    let expanded = |path: &str| paths::normalise(&paths::expand_home(path, lookup.home()));
    match program.strip_suffix("/**") {
        Some(directory) => lookup.real(&expanded(directory)).is_none(),
        None if program.contains('/') => lookup.inspect(&expanded(program)).is_none(),
        None => lookup.search(program).is_none(),
    }
}
