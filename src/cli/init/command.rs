//! The conversation of the first run.

use std::{
    io::{self, BufRead as _},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use countersign_config::settings::StateDir;
use countersign_policy::starter::StarterSet;
use countersign_sys::{
    clock::{Ids as _, SystemIds},
    fs::read_bounded,
};

use super::{
    commit::{self, NewFile},
    plan::{Action, Difference, Found, PlannedFile, plan},
    preset::InitPreset,
};

use crate::cli::{
    console::{Console, Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    forecast::Savings,
    value::{quoted, visible},
};

/// Larger than any of the three files is when people write it.
const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// First run: choose how careful to be, write the settings
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign init
  countersign init --preset cautious
  countersign init --preset cautious --set git-read,files-read,search
  countersign --state-dir /srv/agent init --preset deny-all

Writes openclaw.json, exec-approvals.json and countersign/countersign.toml together or none of
them, and never over a file that says something else.")]
pub(crate) struct InitArgs {
    /// How careful to be; asked for when it is not given
    #[arg(long, value_enum)]
    preset: Option<InitPreset>,
    /// With cautious: the entries of these starter sets for the agent main, so that fewer commands are asked about
    #[arg(long = "set", value_name = "SETS", value_delimiter = ',')]
    sets: Vec<StarterSet>,
}

pub(crate) fn run(context: &Context, args: &InitArgs) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    let files = look_at_all(&state_dir);
    if context.console.format() == Format::People {
        let root = state_dir.root().display();
        context.console.note(&format!("state directory {root}"));
    }
    let preset = match args.preset {
        Some(preset) => preset,
        None => ask(context.console)?,
    };
    let [(_, document), ..] = &files;
    let is_new = matches!(document, Found::Missing);
    let asks = args.preset.is_none() && is_new && preset == InitPreset::Cautious;
    let sets = if asks && args.sets.is_empty() {
        offer_sets(context)?
    } else {
        args.sets.clone()
    };
    if !args.sets.is_empty() && preset != InitPreset::Cautious {
        return Err(Failure::usage(format!(
            "--set goes with the preset cautious: with {} no entry decides",
            preset.as_str()
        )));
    }
    let (planned, blocked) = set_up(&state_dir, preset, &sets, files)?;
    report(context, preset, &planned, blocked)?;
    if !blocked && !asks && preset == InitPreset::Cautious && sets.is_empty() {
        context
            .console
            .hint("countersign policy forecast   (says which starter sets would save you questions)");
    }
    if blocked {
        return Err(Failure::new(
            "already-configured",
            "nothing was written: a file that is there says something else",
        )
        .advice("make the changes listed above by hand, or choose another directory with --state-dir"));
    }
    Ok(ExitStatus::SUCCESS)
}

/// Writes what is missing, unless a file that is there is in the way of the preset.
fn set_up(
    state_dir: &StateDir,
    preset: InitPreset,
    sets: &[StarterSet],
    files: [(PathBuf, Found); 3],
) -> Result<(Vec<PlannedFile>, bool), Failure> {
    let planned = plan(preset, sets, files);
    let blocked = planned
        .iter()
        .any(|file| matches!(file.action, Action::Differs(_) | Action::Unreadable(_)));
    if !blocked {
        write(state_dir, &planned)?;
    }
    Ok((planned, blocked))
}

fn look_at_all(state_dir: &StateDir) -> [(PathBuf, Found); 3] {
    paths(state_dir).map(|path| {
        let found = look(&path);
        (path, found)
    })
}

/// In the order of [`plan`].
fn paths(state_dir: &StateDir) -> [PathBuf; 3] {
    [
        state_dir.root().join("exec-approvals.json"),
        state_dir.server_config(),
        state_dir.config(),
    ]
}

fn look(path: &Path) -> Found {
    match read_bounded(path, MAX_FILE_BYTES) {
        Ok(bytes) => String::from_utf8(bytes).map_or_else(
            |_not_text| Found::Unreadable("it is not UTF-8 text".to_owned()),
            Found::Text,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Missing,
        Err(error) => Found::Unreadable(error.to_string()),
    }
}

fn ask(console: Console) -> Result<InitPreset, Failure> {
    if !console.can_ask() {
        return Err(
            Failure::usage(
                "without a terminal there is nobody to ask how careful to be: cautious, deny-all, sandbox-only or yolo",
            )
            .hint("countersign init --preset cautious"),
        );
    }
    console.note("\nHow careful should it be?");
    for (number, preset) in (1..).zip(InitPreset::ALL) {
        console.note(&format!(
            "  {number}  {:13} {}",
            preset.as_str(),
            preset.meaning()
        ));
    }
    loop {
        console.progress("number or name [1]: ");
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Err(Failure::usage("no answer"));
        }
        match answer(line.trim()) {
            Some(preset) => return Ok(preset),
            None => console.note("please give a number from 1 to 4"),
        }
    }
}

/// Asks which starter sets the agent `main` gets, each with what it would have saved in the last week.
fn offer_sets(context: &Context) -> Result<Vec<StarterSet>, Failure> {
    let console = context.console;
    let savings = Savings::of_last_week(context).unwrap_or_else(|failure| {
        console.note(&format!("no forecast of your own commands: {}", failure.message));
        Savings::default()
    });
    console
        .note("\nWhich sets of commands may the agent main run without a question? (docs/starter-sets.md)");
    if savings.questions > 0 {
        let questions = savings.questions;
        console.note(&format!(
            "Last week your agents' commands would have asked you {questions} times. \"saves\" counts what a set answers."
        ));
    }
    for (number, set) in (1..).zip(StarterSet::ALL) {
        let saves = match savings.of(*set) {
            0 => String::new(),
            saves => format!("  saves {saves}"),
        };
        let (name, meaning) = (set.as_str(), set.meaning());
        console.note(format!("  {number:>2}  {name:12} {meaning:46}{saves}").trim_end());
    }
    loop {
        console.progress("numbers or names, separated by blanks [none]: ");
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Err(Failure::usage("no answer"));
        }
        match chosen_sets(&line) {
            Ok(sets) => return Ok(sets),
            Err(unknown) => console.note(&format!("there is no set {}", visible(&unknown))),
        }
    }
}

/// The sets of an answer, or what of it is none.
fn chosen_sets(text: &str) -> Result<Vec<StarterSet>, String> {
    let words = text.split([' ', ',', '\t', '\n']);
    words
        .filter(|word| !word.is_empty() && *word != "none")
        .map(|word| {
            let number = word.parse::<usize>().ok();
            let by_number = number.and_then(|number| StarterSet::ALL.get(number.checked_sub(1)?));
            let named = StarterSet::ALL.iter().find(|set| set.as_str() == word);
            by_number.or(named).copied().ok_or_else(|| word.to_owned())
        })
        .collect()
}

fn answer(text: &str) -> Option<InitPreset> {
    if text.is_empty() {
        return Some(InitPreset::Cautious);
    }
    if let Ok(number) = text.parse::<usize>() {
        return InitPreset::ALL.get(number.checked_sub(1)?).copied();
    }
    InitPreset::ALL.into_iter().find(|preset| preset.as_str() == text)
}

fn write(state_dir: &StateDir, planned: &[PlannedFile]) -> Result<(), Failure> {
    state_dir
        .prepare()
        .map_err(|error| Failure::new("state-dir", error.to_string()).exit(ExitStatus::CONFIG))?;
    let written: Vec<NewFile<'_>> = planned
        .iter()
        .filter_map(|file| {
            let (text, replaces) = match &file.action {
                Action::Create(text) => (text, None),
                Action::Complete { text, replaces } => (text, Some(replaces.as_str())),
                Action::Keep | Action::Differs(_) | Action::Unreadable(_) => return None,
            };
            Some(NewFile {
                path: &file.path,
                text,
                replaces,
            })
        })
        .collect();
    let suffix = format!("init-{}", SystemIds.random().simple());
    commit::commit(&written, &suffix)
        .map_err(|error| Failure::new("not-written", format!("{error}; no file was written")))
}

fn report(
    context: &Context,
    preset: InitPreset,
    planned: &[PlannedFile],
    blocked: bool,
) -> Result<(), Failure> {
    let next = next_commands(context);
    if context.console.format() == Format::Json {
        let files: Vec<Value> = planned.iter().map(|file| file_json(file, blocked)).collect();
        return context.console.document(&json!({
            "preset": preset.as_str(),
            "written": !blocked,
            "files": files,
            "next": if blocked { Vec::new() } else { next },
        }));
    }
    for file in planned {
        let path = file.path.display();
        match &file.action {
            Action::Create(_) if blocked => context.console.note(&format!("{path}: would be created")),
            Action::Create(_) => context.console.note(&format!("{path}: created")),
            Action::Complete { .. } if blocked => {
                context.console.note(&format!("{path}: would be completed"));
            }
            Action::Complete { .. } => context.console.note(&format!(
                "{path}: completed, it only kept the token of the approvals socket"
            )),
            Action::Keep => context
                .console
                .note(&format!("{path}: already says so, left as it is")),
            Action::Unreadable(why) => context.console.note(&format!("{path}: cannot be read: {why}")),
            Action::Differs(differences) => {
                context.console.note(&format!("{path}: would have to change"));
                for difference in differences {
                    context
                        .console
                        .note(&format!("  {}", difference_line(difference)));
                }
            }
        }
    }
    if !blocked {
        let changes = planned.iter().any(|file| !matches!(file.action, Action::Keep));
        let lead = if changes { "ready:" } else { "nothing to change:" };
        context.console.line(&format!(
            "{} {}",
            context.console.paint(Tone::Good, lead),
            preset.meaning()
        ))?;
        context
            .console
            .line("next, in one terminal and then in another:")?;
        for command in next {
            context.console.line(&format!("  {command}"))?;
        }
    }
    Ok(())
}

fn difference_line(difference: &Difference) -> String {
    let is = difference
        .is
        .as_ref()
        .map_or_else(|| "not set".to_owned(), ToString::to_string);
    match &difference.wanted {
        Some(wanted) => format!("{}: {is} -> {wanted}", difference.key),
        None => format!("{}: {is} -> take it away", difference.key),
    }
}

fn file_json(file: &PlannedFile, blocked: bool) -> Value {
    let action = match &file.action {
        Action::Create(_) if blocked => "would-create",
        Action::Create(_) => "created",
        Action::Complete { .. } if blocked => "would-complete",
        Action::Complete { .. } => "completed",
        Action::Keep => "kept",
        Action::Differs(_) => "would-change",
        Action::Unreadable(_) => "unreadable",
    };
    let changes: Vec<Value> = match &file.action {
        Action::Differs(differences) => differences
            .iter()
            .map(
                |difference| json!({"key": difference.key, "is": difference.is, "wanted": difference.wanted}),
            )
            .collect(),
        Action::Create(_) | Action::Complete { .. } | Action::Keep | Action::Unreadable(_) => Vec::new(),
    };
    json!({"path": file.path, "action": action, "changes": changes})
}

fn next_commands(context: &Context) -> Vec<String> {
    let program = match &context.server.state_dir {
        Some(directory) => format!("countersign --state-dir {}", quoted(&directory.to_string_lossy())),
        None => "countersign".to_owned(),
    };
    vec![format!("{program} serve"), format!("{program} exec -- uname -a")]
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::*;
    use countersign_config::settings::{MapEnvironment, SettingsStore, StartOptions};

    fn state_dir(root: &Path) -> StateDir {
        StateDir::resolve(Some(root), &MapEnvironment::new([("HOME", "/nonexistent")])).unwrap()
    }

    #[test]
    fn an_answer_is_a_number_a_name_or_nothing() {
        assert_eq!(answer(""), Some(InitPreset::Cautious));
        assert_eq!(answer("1"), Some(InitPreset::Cautious));
        assert_eq!(answer("4"), Some(InitPreset::Yolo));
        assert_eq!(answer("deny-all"), Some(InitPreset::DenyAll));
        assert_eq!(answer("0"), None);
        assert_eq!(answer("5"), None);
        assert_eq!(answer("no"), None);
    }

    #[test]
    fn a_server_can_start_on_what_it_wrote_and_a_second_time_changes_nothing() {
        for preset in InitPreset::ALL {
            let folder = tempfile::tempdir().unwrap();
            let state_dir = state_dir(&folder.path().join("state"));
            let (planned, blocked) = set_up(&state_dir, preset, &[], look_at_all(&state_dir)).unwrap();
            assert!(
                !blocked
                    && planned
                        .iter()
                        .all(|file| matches!(file.action, Action::Create(_))),
                "{planned:?}"
            );
            let environment = Arc::new(MapEnvironment::default());
            SettingsStore::load(state_dir.clone(), &StartOptions::default(), environment).unwrap();
            let before = paths(&state_dir).map(|path| fs::read(path).unwrap());
            let (planned, blocked) = set_up(&state_dir, preset, &[], look_at_all(&state_dir)).unwrap();
            assert!(
                !blocked && planned.iter().all(|file| file.action == Action::Keep),
                "{planned:?}"
            );
            assert_eq!(paths(&state_dir).map(|path| fs::read(path).unwrap()), before);
        }
    }

    #[test]
    fn a_file_that_says_something_else_stops_everything() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let state_dir = state_dir(&root);
        state_dir.prepare().unwrap();
        countersign_sys::fs::create_private_file(
            &root.join("openclaw.json"),
            b"{tools: {exec: {host: 'node'}}}",
        )
        .unwrap();
        let (planned, blocked) =
            set_up(&state_dir, InitPreset::Cautious, &[], look_at_all(&state_dir)).unwrap();
        assert!(blocked, "{planned:?}");
        assert!(!root.join("exec-approvals.json").exists());
        assert!(!root.join("countersign/countersign.toml").exists());
        assert_eq!(
            fs::read(root.join("openclaw.json")).unwrap(),
            b"{tools: {exec: {host: 'node'}}}"
        );
    }
}
