//! What a person is shown of a question, beyond its command: the environment that the command would get.
//!
//! The overrides are shown once, when it is asked, and kept in that form: the exact values are sealed. What is not shown
//! whole cannot be allowed. A UI that has only a text shows the overrides in front of the command, as a shell would be
//! told them.

use super::{display, prompt::Prompt, quoting, redaction};
use crate::domain::{ApprovalCard, ApprovalDecision, Command, EnvOverrides, ShownEnv, ShownVariable};

/// Most overrides that are shown.
const MAX_VARIABLES: usize = 128;
/// Up to this many characters of names and values are shown, as many as of a command (V3).
const MAX_CHARS: usize = super::prompt::WHOLE_CHARS;

/// Prepares the overrides of a command: every value on one line, nothing in it hidden and secrets masked.
pub fn environment(env: &EnvOverrides, command: &Command) -> ShownEnv {
    let text = command.to_text();
    let mut left = MAX_CHARS;
    let mut variables = Vec::new();
    let mut omitted = 0;
    for (name, value) in env.iter() {
        let shown = display::visible(name);
        let Some(after_name) = left.checked_sub(shown.chars().count()) else {
            omitted += 1;
            continue;
        };
        if variables.len() == MAX_VARIABLES {
            omitted += 1;
            continue;
        }
        let secrets = redaction::secrets_in_variable(name, value, &text);
        let prompt = Prompt::masking(value, secrets);
        let chars = prompt.text.chars().count();
        let is_cut = prompt.is_truncated() || chars > after_name;
        left = if is_cut { after_name } else { after_name - chars };
        variables.push(ShownVariable {
            name: shown,
            value: if is_cut {
                format!("⟨{} characters, not shown⟩", value.chars().count())
            } else {
                prompt.text.replace('\n', "")
            },
            is_cut,
        });
    }
    ShownEnv { variables, omitted }
}

/// Prepares the command of a card. Secrets are masked only where it was understood.
pub fn command(card: &ApprovalCard) -> Prompt {
    let text = quoting::line(&card.binding.command);
    if card.is_understood {
        Prompt::of(&text)
    } else {
        Prompt::unmasked(&text)
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
            text: format!("{}{}", assignments(&card.env, scope(card)), prompt.text),
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
    /// Whatever comes.
    Everything,
}

/// The overrides as a shell would be told them.
fn assignments(env: &ShownEnv, scope: Scope) -> String {
    let ShownEnv { variables, omitted } = env;
    let mut shown: Vec<String> = variables
        .iter()
        .map(|ShownVariable { name, value, .. }| format!("{name}={}", quoting::quoted(value)))
        .collect();
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

    fn shown(values: &[(&str, &str)], command: &str) -> ShownEnv {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let env = EnvOverrides::accepted(values.iter().map(pair).collect());
        environment(&env, &Command::shell(command.to_owned()).unwrap())
    }

    fn variable(name: &str, value: &str) -> ShownVariable {
        ShownVariable {
            name: name.to_owned(),
            value: value.to_owned(),
            is_cut: false,
        }
    }

    #[test]
    fn every_override_is_there_with_its_value_and_nothing_in_it_hides() {
        let env = shown(
            &[
                ("COMPILER_PATH", "/x"),
                ("API_TOKEN", "k3y-k3y-k3y"),
                ("TEXT", "a\n\u{202e}b         c"),
                ("EMPTY", ""),
            ],
            "gcc -c hello.c",
        );
        assert_eq!(
            env.variables,
            [
                variable("API_TOKEN", "⟨secret of 11 characters⟩"),
                variable("COMPILER_PATH", "/x"),
                variable("EMPTY", ""),
                variable("TEXT", "a\\u{A}\\u{202E}b⟨9 blanks⟩c"),
            ]
        );
        assert!(env.is_whole());
        assert_eq!(shown(&[], "ls"), ShownEnv::default());
    }

    #[test]
    fn what_does_not_fit_is_counted_and_not_whole() {
        let long = "x".repeat(MAX_CHARS);
        let env = shown(&[("A", &long), ("B", "1")], "ls");
        assert!(!env.is_whole());
        assert_eq!(env.variables[0].value, "⟨16384 characters, not shown⟩");
        assert_eq!(env.variables[1], variable("B", "1"));
        let names: Vec<String> = (0..MAX_VARIABLES + 2)
            .map(|index| format!("V{index:03}"))
            .collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let env = shown(&many, "ls");
        assert_eq!((env.variables.len(), env.omitted), (MAX_VARIABLES, 2));
        assert!(!env.is_whole());
        let name = "N".repeat(MAX_CHARS + 1);
        let env = shown(&[(&name, "")], "ls");
        assert_eq!((env.variables.len(), env.omitted), (0, 1));
    }

    #[test]
    fn a_text_says_the_overrides_as_a_shell_would_be_told_them() {
        let env = shown(&[("A", "/x"), ("B", "it's; ls")], "ls");
        assert_eq!(assignments(&env, Scope::OneCommand), r"A=/x B='it'\''s; ls' ");
        // Before a list they would hold for its first command alone.
        assert_eq!(
            assignments(&env, Scope::Everything),
            r"export A=/x B='it'\''s; ls'; "
        );
        assert_eq!(assignments(&ShownEnv::default(), Scope::Everything), "");
    }

    #[test]
    fn a_record_is_read_back() {
        let mut env = shown(&[("A", "1"), ("B", &"x".repeat(MAX_CHARS))], "ls");
        env.omitted = 3;
        let text = serde_json::to_string(&env).unwrap();
        assert_eq!(serde_json::from_str::<ShownEnv>(&text).unwrap(), env);
    }
}
