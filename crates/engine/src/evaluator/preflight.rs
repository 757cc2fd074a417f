//! The look at a script before its run (`docs/spec/exec-tool.md#7-script-preflight`): which files, and that what was
//! looked at is what runs.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use countersign_domain::{Ask, Bound, BoundScript, Command, Security, hex};
use countersign_hosts::{path_lookup::SystemLookup, sandbox::Enclosure};
use countersign_policy::{
    allowlist::{Analysis, SegmentReport},
    combine::Effective,
    command::preflight::{self, Language, MAX_SCRIPT_BYTES},
};
use countersign_sys::{
    beneath::{LookupScope, Root},
    fs::path_of,
};

use super::script_scope::Scope;

/// Scripts of one command that are looked at.
const MAX_SCRIPTS: usize = 64;
/// Directories that a command may be in by then, as far as its `cd`s are followed.
const MAX_DIRECTORIES: usize = 8;

/// A script that a command runs.
struct Wanted {
    language: Language,
    path: PathBuf,
    /// As the command names it.
    name: String,
}

/// Whether scripts are looked at under a policy: not where everything runs unasked.
pub(crate) const fn applies(effective: &Effective) -> bool {
    !matches!(
        (effective.security.value, effective.ask.value),
        (Security::Full, Ask::Off) | (Security::Deny, _)
    )
}

/// Whether a command may run a script that is looked at; false only if it cannot.
pub(crate) fn may_concern(command: &Command) -> bool {
    match command {
        Command::Shell(text) => preflight::may_concern(text),
        Command::Argv(words) => words.iter().any(|word| preflight::may_concern(word)),
        Command::Patch(_) => false,
    }
}

/// Looks at the script of a command in a sandbox, where a shell takes the text as it is. A file of the workspace is the
/// same file out here; it is looked for from the working directory on, without leaving it by a link.
pub(crate) fn preflight_inside(command: &Command, cwd: &Path, enclosure: &Enclosure) -> Option<String> {
    let (language, name) = match command {
        Command::Shell(text) => preflight::script_of_text(text)?,
        Command::Argv(words) => {
            let (program, arguments) = words.split_first()?;
            preflight::script_of(program, arguments.iter().map(String::as_str))?
        }
        Command::Patch(_) => return None,
    };
    let (workspace, below) = enclosure.shown_at(cwd)?;
    let within = Path::new(name);
    let within = if within.is_absolute() {
        within.strip_prefix(cwd).ok()?
    } else {
        within
    };
    let root = Root::open(workspace, LookupScope::Beneath).ok()?;
    let directory = root.below(&below).ok()?;
    let content = read_small(directory.open_regular(within).ok()?)?;
    Some(preflight::check(language, &content)?.describe(name))
}

/// Where a look at scripts leaves what it saw, and how wide it is.
pub(crate) struct Look<'a> {
    pub(crate) scripts: &'a mut Vec<BoundScript>,
    pub(crate) scope: Scope,
}

/// Looks at the scripts of a command that lie in its working directory; the first piece of a shell in one, in
/// words. What was looked at goes into `scripts` as it was: a file that is exchanged afterwards is not what the
/// run is bound to, and is not run. Where the scope is no wider than this look, that is all of them.
pub(crate) fn preflight(
    analysis: Option<&Analysis>,
    bound: &Bound,
    cwd: &Path,
    look: Look<'_>,
    lookup: &SystemLookup,
) -> Option<String> {
    let Look { scripts, scope } = look;
    let mut wanted = Vec::new();
    if let Some(analysis) = analysis {
        collect(&analysis.segments, &mut vec![cwd.to_owned()], &mut wanted);
    }
    if let Some((language, name)) = unparsed_script(analysis, bound) {
        wanted.push(Wanted {
            language,
            path: cwd.join(name),
            name: name.to_owned(),
        });
    }
    wanted.iter().find_map(|script| {
        let content = read_inside(&script.path, cwd, lookup)?;
        let path = script.path.to_string_lossy();
        let sha256 = hex(&Sha256::digest(&content));
        match scripts.iter_mut().find(|known| known.path == path) {
            Some(known) => known.sha256 = sha256,
            None if scope == Scope::LookedAt => scripts.push(BoundScript {
                path: path.into_owned(),
                sha256,
                interpreter: None,
            }),
            // Not bound, it could be anything by the time it runs: then this look is worth nothing.
            None => return None,
        }
        let leftover = preflight::check(script.language, &content)?;
        Some(leftover.describe(&script.name))
    })
}

/// The script of a text that goes to a shell as it is, since nobody could take it apart.
fn unparsed_script<'a>(analysis: Option<&Analysis>, bound: &'a Bound) -> Option<(Language, &'a str)> {
    let Bound::Text { text, .. } = bound else {
        return None;
    };
    analysis
        .filter(|analysis| analysis.segments.is_empty())
        .and_then(|_| preflight::script_of_text(text))
}

/// The content of a file inside a directory, if it is small enough to be looked at. It is opened first, and the handle
/// says where it is: a link that leads out, or a directory that is exchanged meanwhile, leads to a file that is not
/// read.
fn read_inside(path: &Path, directory: &Path, lookup: &SystemLookup) -> Option<Vec<u8>> {
    let file = lookup.open_regular(path).ok()?;
    if !path_of(&file).ok()?.starts_with(directory) {
        return None;
    }
    read_small(file)
}

fn read_small(file: impl io::Read) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let room = MAX_SCRIPT_BYTES + 1;
    file.take(room).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_SCRIPT_BYTES).then_some(content)
}

/// The scripts of segments, wherever a `cd` before them may have led.
fn collect(segments: &[SegmentReport], directories: &mut Vec<PathBuf>, wanted: &mut Vec<Wanted>) {
    for segment in segments {
        let words = segment.argv.iter().map(String::as_str);
        if segment.executable == "cd" {
            let reached: Vec<PathBuf> = words
                .skip(1)
                .flat_map(|word| directories.iter().map(move |from| from.join(word)))
                .take(MAX_DIRECTORIES.saturating_sub(directories.len()))
                .collect();
            directories.extend(reached);
            continue;
        }
        // Behind its wrappers; the command word is there, as it was typed.
        let arguments = words.skip_while(|word| *word != segment.executable).skip(1);
        if let Some((language, name)) = preflight::script_of(&segment.executable, arguments) {
            let room = MAX_SCRIPTS.saturating_sub(wanted.len());
            wanted.extend(directories.iter().take(room).map(|from| Wanted {
                language,
                path: from.join(name),
                name: name.to_owned(),
            }));
        }
        collect(&segment.segments, directories, wanted);
    }
}
