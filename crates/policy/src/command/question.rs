//! What a person is shown of a question, beyond its command: the environment that the command would get.
//!
//! Of the overrides the names are kept: values may be secrets, are stored nowhere in clear, and are bound by their hash
//! (`docs/spec/approvals-store.md#11-approval-records`). While the question waits, those who may answer are shown the
//! values that could decide what runs. A UI that has only a text shows the names in front of the command, as a shell
//! would be told them.

use std::collections::BTreeMap;

use countersign_domain::quoting;

use countersign_domain::{ApprovalCard, ApprovalDecision, Command, CommandInput, EnvOverrides, ShownEnv};

use super::{display, env_policy, prompt::Prompt, redaction};

/// Most overrides whose names are shown.
const MAX_NAMES: usize = 128;
/// Up to this many characters of names are shown, as many as of a command (V3).
const MAX_CHARS: usize = super::prompt::WHOLE_CHARS;
/// Up to this many characters of one value are shown.
const MAX_VALUE_CHARS: usize = 1024;
/// What stands for a value.
const VALUE: &str = "⟨not shown⟩";

/// Prepares the overrides of a command: their names, with nothing in them hidden.
pub fn environment(env: &EnvOverrides) -> ShownEnv {
    let mut left = MAX_CHARS;
    let mut names = Vec::new();
    let mut omitted = 0;
    for (name, _value) in env.iter() {
        let shown = display::visible(name);
        match left.checked_sub(shown.chars().count()) {
            Some(rest) if names.len() < MAX_NAMES => {
                left = rest;
                names.push(shown);
            }
            Some(_) | None => omitted += 1,
        }
    }
    ShownEnv { names, omitted }
}

/// Prepares the values that could decide what runs, under the names of [`environment`]: all but those of variables that are
/// known to be harmless. Nothing in them is hidden, what looks like a secret is masked, and a long one says how much of it
/// is left out.
pub fn values(env: &EnvOverrides) -> BTreeMap<String, String> {
    let mut left = MAX_CHARS;
    let mut shown = BTreeMap::new();
    for (name, value) in env.iter().take(MAX_NAMES) {
        if env_policy::is_harmless(name, value) {
            continue;
        }
        let text = cut(&masked(name, value), left.min(MAX_VALUE_CHARS));
        left = left.saturating_sub(text.chars().count());
        shown.insert(display::visible(name), text);
    }
    shown
}

/// A value as the assignment shows it, so that the name counts too where a secret is looked for.
fn masked(name: &str, value: &str) -> String {
    let assignment = Prompt::of(&format!("{name}={value}")).text;
    let name = format!("{}=", Prompt::of(name).text);
    match assignment.strip_prefix(&name) {
        Some(value) => value.to_owned(),
        None => assignment,
    }
}

fn cut(text: &str, most: usize) -> String {
    let more = text.chars().count().saturating_sub(most);
    if more == 0 {
        return text.to_owned();
    }
    let head: String = text.chars().take(most).collect();
    format!("{head}⟨{more} characters more⟩")
}

/// Prepares the command of a card. Secrets are masked only where it was understood.
///
/// A person sees the text that would run, and beside it the arguments as they were analysed.
/// (`docs/spec/command-analysis.md#v1`)
pub fn command(card: &ApprovalCard) -> Prompt {
    let text = quoting::line(&card.binding.command);
    if card.is_understood {
        Prompt::of(&text)
    } else {
        Prompt::unmasked(&text)
    }
}

/// A command on one line, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The beginning of [`command`], a line break as its spelling alone.
    pub text: Box<str>,
    /// Whether something of the command is left out.
    pub is_cut: bool,
}

impl Line {
    /// Most characters of a line.
    pub const MAX_CHARS: usize = 200;

    /// Prepares the command of a card. It is cut after its secrets are masked, so that no part of one is left.
    pub fn of(card: &ApprovalCard) -> Self {
        let prompt = command(card);
        let mut characters = prompt.text.chars().filter(|character| *character != '\n');
        let text: String = characters.by_ref().take(Self::MAX_CHARS).collect();
        Self {
            is_cut: characters.next().is_some() || prompt.is_truncated(),
            text: text.into(),
        }
    }
}

/// The analysed parts of a card whose [`command`] has masks, with the same secrets masked.
pub fn parts(card: &ApprovalCard) -> serde_json::Value {
    let text = quoting::line(&card.binding.command);
    let secrets = redaction::secrets(&text);
    let secrets: Vec<&str> = secrets
        .into_iter()
        .filter_map(|secret| text.get(secret))
        .collect();
    let mut parts = card.segments.clone();
    mask_all(&mut parts, &secrets);
    parts
}

/// Masks these secrets in every text of a value.
fn mask_all(value: &mut serde_json::Value, secrets: &[&str]) {
    match value {
        serde_json::Value::String(text) => {
            for secret in secrets {
                if text.contains(secret) {
                    *text = text.replace(secret, &redaction::mask(secret.chars().count()));
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| mask_all(item, secrets)),
        serde_json::Value::Object(members) => {
            members.values_mut().for_each(|member| mask_all(member, secrets));
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

/// What a person has to know of a command that more can be written to; `None` where nothing can be.
pub const fn open_input(input: CommandInput) -> Option<&'static str> {
    match input {
        CommandInput::Closed | CommandInput::Withheld => None,
        CommandInput::Pipe => {
            Some("its input stays open: the agent can write more to it while it runs, unseen by you")
        }
        CommandInput::GuardedTerminal | CommandInput::Terminal => {
            Some("it has a terminal: the agent can type into it while it runs, unseen by you")
        }
    }
}

/// The same in front of a text.
const fn mark(input: CommandInput) -> &'static str {
    match input {
        CommandInput::Closed | CommandInput::Withheld => "",
        CommandInput::Pipe => "⟨input stays open⟩ ",
        CommandInput::GuardedTerminal | CommandInput::Terminal => "⟨terminal, input stays open⟩ ",
    }
}

/// A question for a UI that shows a text and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainQuestion {
    /// The overrides and the command.
    pub text: String,
    /// Whether some of either is left out. Such a UI has no way to show the rest, so nobody may say yes there (V3).
    pub is_cut: bool,
    /// Which of the answers that are open are open there.
    pub decisions: Vec<ApprovalDecision>,
}

impl PlainQuestion {
    /// Prepares the question of a card.
    pub fn of(card: &ApprovalCard) -> Self {
        let prompt = command(card);
        let is_env_shown = card.env.is_whole() && card.env.is_empty() == card.binding.env_hash.is_none();
        let is_cut = prompt.is_truncated() || !is_env_shown;
        let is_open = |decision: &&ApprovalDecision| !is_cut || **decision == ApprovalDecision::Deny;
        let decisions = card.allowed_decisions.iter().filter(is_open);
        Self {
            is_cut,
            decisions: decisions.copied().collect(),
            text: format!(
                "{}{}{}",
                mark(card.binding.input),
                assignments(&card.env, scope(card)),
                prompt.text
            ),
        }
    }
}

/// How far the overrides of a card reach.
fn scope(card: &ApprovalCard) -> Scope {
    let is_alone = match &card.binding.command {
        Command::Argv(_) => true,
        Command::Shell(_) => card.segments.as_array().is_some_and(|all| all.len() == 1),
        Command::Patch(_) => false,
    };
    if is_alone {
        Scope::OneCommand
    } else {
        Scope::Everything
    }
}

/// How far overrides have to reach.
#[derive(Debug, Clone, Copy)]
enum Scope {
    /// One command, in front of which they may stand.
    OneCommand,
    /// Every command that comes.
    Everything,
}

/// The overrides as a shell would be told them.
fn assignments(env: &ShownEnv, scope: Scope) -> String {
    let ShownEnv { names, omitted } = env;
    let mut shown: Vec<String> = names.iter().map(|name| format!("{name}={VALUE}")).collect();
    if *omitted > 0 {
        shown.push(format!("⟨{omitted} more variables, not shown⟩"));
    }
    let shown = shown.join(" ");
    match scope {
        _ if shown.is_empty() => shown,
        Scope::OneCommand => format!("{shown} "),
        Scope::Everything => format!("export {shown}; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &[&str]) -> ShownEnv {
        let pairs = names.iter().map(|name| ((*name).to_owned(), "value".to_owned()));
        environment(&EnvOverrides::accepted(pairs.collect()))
    }

    #[test]
    fn every_override_is_named_and_no_value_is() {
        let env = shown(&["COMPILER_PATH", "A\u{202e}"]);
        assert_eq!(env.names, ["A\\u{202E}", "COMPILER_PATH"]);
        assert!(env.is_whole());
        assert_eq!(shown(&[]), ShownEnv::default());
        let text = serde_json::to_string(&env).unwrap();
        assert!(!text.contains("value"));
        assert_eq!(serde_json::from_str::<ShownEnv>(&text).unwrap(), env);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_not_whole() {
        let names: Vec<String> = (0..MAX_NAMES + 2).map(|index| format!("V{index:03}")).collect();
        let env = shown(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((env.names.len(), env.omitted), (MAX_NAMES, 2));
        assert!(!env.is_whole());
        let env = shown(&[&"N".repeat(MAX_CHARS + 1), "A"]);
        assert_eq!((env.names.len(), env.omitted), (1, 1));
    }

    #[test]
    fn values_that_could_decide_what_runs_are_shown() {
        let pairs = [
            ("COMPILER_PATH", "/tmp/\u{202e}x"),
            ("DEPLOY_TOKEN", "abcdefghijkl"),
            ("EMPTY", ""),
            ("LANG", "C.UTF-8"),
        ];
        let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let shown = values(&EnvOverrides::accepted(BTreeMap::from(owned)));
        let expected = [
            ("COMPILER_PATH", "/tmp/\\u{202E}x"),
            ("DEPLOY_TOKEN", "⟨secret of 12 characters⟩"),
            ("EMPTY", ""),
        ];
        let shown: Vec<(&str, &str)> = shown
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_value_says_how_much_is_left_out() {
        let value = "x".repeat(MAX_VALUE_CHARS + 5);
        let env = EnvOverrides::accepted(BTreeMap::from([("A".to_owned(), value)]));
        let shown = values(&env).remove("A").unwrap();
        assert!(shown.ends_with("x⟨5 characters more⟩"), "{shown}");
        let many = (0..MAX_NAMES).map(|index| (format!("V{index:03}"), "y".repeat(MAX_VALUE_CHARS)));
        let shown = values(&EnvOverrides::accepted(many.collect()));
        let chars: usize = shown.values().map(|value| value.chars().count()).sum();
        assert!(chars < MAX_CHARS + MAX_NAMES * 40, "{chars}");
        assert_eq!(shown.len(), MAX_NAMES);
    }

    #[test]
    fn a_text_says_the_overrides_as_a_shell_would_be_told_them() {
        let env = shown(&["A", "B"]);
        assert_eq!(
            assignments(&env, Scope::OneCommand),
            "A=⟨not shown⟩ B=⟨not shown⟩ "
        );
        // Before a list they would hold for its first command alone.
        assert_eq!(
            assignments(&env, Scope::Everything),
            "export A=⟨not shown⟩ B=⟨not shown⟩; "
        );
        assert_eq!(assignments(&ShownEnv::default(), Scope::Everything), "");
    }
}
