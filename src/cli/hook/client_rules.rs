//! What Claude Code's own settings forbid, found where Claude Code finds it.
//!
//! A hook hears of a session neither the flags nor the plugins, so that their rules are not among these. A file that
//! cannot be read, or not be understood, denies: it may be the one that does.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use countersign_config::settings::Environment;

use super::{
    format::Denial,
    question::{AskedCommand, CommandLine},
    rules::{Forms, Rule},
};

use crate::cli::value;

/// Where an organisation's settings are.
const MANAGED: &str = "/etc/claude-code";
/// Far above any such file.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Where settings are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    managed: PathBuf,
    user: PathBuf,
    /// Of the project and the directories around the command.
    projects: Vec<PathBuf>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Deny,
    Ask,
}

/// A settings file that says something else than rules.
#[derive(Debug, thiserror::Error)]
enum BadSettings {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it is no file")]
    NoFile,
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("it is not JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{0} is not what it should be")]
    Shape(&'static str),
    #[error("the rule {0} cannot be read")]
    Rule(String),
}

/// Why the client's own settings keep a command from running here; `None` when they do not.
pub(super) fn denial(
    asked: &AskedCommand,
    tool: &str,
    environment: &dyn Environment,
) -> Result<Option<Denial>, Denial> {
    let places = Places::of(environment, asked.workdir.as_deref())?;
    places.denial(asked, tool)
}

impl Places {
    fn of(environment: &dyn Environment, cwd: Option<&str>) -> Result<Self, Denial> {
        let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let user = match (variable("CLAUDE_CONFIG_DIR"), variable("HOME")) {
            (Some(directory), _) => PathBuf::from(directory),
            (None, Some(home)) => Path::new(&home).join(".claude"),
            (None, None) => {
                return Err(Denial {
                    code: "client-settings".to_owned(),
                    detail: "neither HOME nor CLAUDE_CONFIG_DIR says where the settings of Claude Code are"
                        .to_owned(),
                    hint: None,
                });
            }
        };
        let project = variable("CLAUDE_PROJECT_DIR");
        let present = std::env::current_dir().ok();
        let begins = [
            project.as_deref().map(Path::new),
            cwd.map(Path::new),
            present.as_deref(),
        ];
        Ok(Self {
            managed: PathBuf::from(MANAGED),
            user,
            projects: begins.into_iter().flatten().flat_map(around).collect(),
        })
    }

    /// Every file that may have rules, each once.
    fn files(&self) -> Result<Vec<PathBuf>, Denial> {
        let mut files = vec![self.managed.join("managed-settings.json")];
        files.extend(drop_ins(&self.managed.join("managed-settings.d"))?);
        files.push(self.user.join("settings.json"));
        for project in &self.projects {
            let directory = project.join(".claude");
            files.extend(["settings.json", "settings.local.json"].map(|name| directory.join(name)));
        }
        let mut once: Vec<PathBuf> = Vec::new();
        for file in files {
            if !once.contains(&file) {
                once.push(file);
            }
        }
        Ok(once)
    }

    fn denial(&self, asked: &AskedCommand, tool: &str) -> Result<Option<Denial>, Denial> {
        let forms = match &asked.command {
            CommandLine::Text(text) => Forms::of(text),
            CommandLine::Argv(argv) => Forms::of(&argv.join(" ")),
        };
        let mut found: Option<(Effect, Denial)> = None;
        for file in self.files()? {
            for (effect, text, rule) in rules_in(&file, tool).map_err(|error| bad(&file, &error))? {
                let counts = match &found {
                    None => true,
                    // A rule that denies comes before any rule that asks.
                    Some((before, _)) => *before == Effect::Ask && effect == Effect::Deny,
                };
                if counts && rule.matches(&forms, |name| asked.input(name)) {
                    found = Some((effect, effect.denial(&text, &file)));
                }
            }
        }
        Ok(found.map(|(_effect, denial)| denial))
    }
}

/// A directory, those around it up to the root of its repository, and the main checkout of a worktree: newer versions
/// keep a user's own settings there, older ones where the session began.
fn around(begin: &Path) -> Vec<PathBuf> {
    let root = begin
        .ancestors()
        .find(|directory| directory.join(".git").exists());
    let Some(root) = root else {
        return vec![begin.to_owned()];
    };
    let inside = begin
        .ancestors()
        .take_while(|directory| directory.starts_with(root));
    inside.map(Path::to_owned).chain(main_checkout(root)).collect()
}

/// The checkout that a worktree belongs to: its `.git` is a file that names `MAIN/.git/worktrees/NAME`.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(root.join(".git")).ok()?;
    let directory = Path::new(text.strip_prefix("gitdir:")?.trim());
    let directory = root.join(directory);
    let worktrees = directory.parent()?;
    let git = worktrees.parent()?;
    (worktrees.ends_with("worktrees") && git.ends_with(".git"))
        .then(|| git.parent())
        .flatten()
        .map(Path::to_owned)
}

/// The JSON files of a directory, by name.
fn drop_ins(directory: &Path) -> Result<Vec<PathBuf>, Denial> {
    let listed = fs::read_dir(directory).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut files = match listed {
        Ok(files) => files,
        Err(error) if is_absent(&error) => Vec::new(),
        Err(error) => return Err(bad(directory, &error.into())),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn rules_in(file: &Path, tool: &str) -> Result<Vec<(Effect, String, Rule)>, BadSettings> {
    let Some(text) = read(file)? else {
        return Ok(Vec::new());
    };
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let Value::Object(settings) = serde_json::from_str(text)? else {
        return Err(BadSettings::Shape("the file"));
    };
    let permissions = match settings.get("permissions") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(permissions)) => permissions,
        Some(_) => return Err(BadSettings::Shape("permissions")),
    };
    let mut rules = Vec::new();
    for (effect, name) in [
        (Effect::Deny, "permissions.deny"),
        (Effect::Ask, "permissions.ask"),
    ] {
        let member = name.rsplit('.').next().unwrap_or(name);
        let texts = match permissions.get(member) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(texts)) => texts,
            Some(_) => return Err(BadSettings::Shape(name)),
        };
        for text in texts {
            let text = text.as_str().ok_or(BadSettings::Shape(name))?;
            let rule = Rule::parse(text, tool).map_err(|_unclosed| BadSettings::Rule(text.to_owned()))?;
            rules.extend(rule.map(|rule| (effect, text.to_owned(), rule)));
        }
    }
    Ok(rules)
}

/// The text of a file; `None` when there is none.
fn read(file: &Path) -> Result<Option<String>, BadSettings> {
    let found = match fs::metadata(file) {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !found.is_file() {
        return Err(BadSettings::NoFile);
    }
    if found.len() > MAX_BYTES {
        return Err(BadSettings::TooLarge);
    }
    Ok(Some(fs::read_to_string(file)?))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn bad(file: &Path, error: &BadSettings) -> Denial {
    let error = value::visible(&error.to_string());
    Denial {
        code: "client-settings".to_owned(),
        detail: format!(
            "the settings of Claude Code in {} may forbid this: {error}",
            shown(file)
        ),
        hint: None,
    }
}

impl Effect {
    fn denial(self, rule: &str, file: &Path) -> Denial {
        let (rule, file) = (value::visible(rule), shown(file));
        let (detail, hint) = match self {
            Self::Deny => (
                format!("the rule {rule} of Claude Code denies it, in {file}"),
                None,
            ),
            // Approved there would be another command than the one that the rule is about.
            Self::Ask => (
                format!(
                    "the rule {rule} of Claude Code wants its user asked, in {file}; a hook cannot have that done"
                ),
                Some("remove that rule, and let the policy of countersign ask a person".to_owned()),
            ),
        };
        Denial {
            code: "client-rule".to_owned(),
            detail,
            hint,
        }
    }
}

fn shown(file: &Path) -> String {
    value::visible(&file.display().to_string())
}
