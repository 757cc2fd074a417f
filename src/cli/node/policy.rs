//! Which policy this machine has, asked once of the person who makes it a node.

use std::io::{self, BufRead as _};

use serde_json::{Value, json};

use countersign_config::settings::{Source, StateDir, config_text, config_values};
use countersign_engine::hint::hint;
use countersign_nodes::node::{NodeFile, PolicyNews};
use countersign_policy::preset::Preset;

use crate::cli::{
    console::{Console, Format},
    failure::Failure,
    serve::with_causes,
};

/// In the order of the question. A machine without a policy behaves as with the first.
const ALL: [Preset; 3] = [Preset::DenyAll, Preset::Cautious, Preset::Yolo];

/// What it means on a node.
const fn meaning(preset: Preset) -> &'static str {
    match preset {
        Preset::DenyAll => "nothing runs until you allow it on this machine",
        Preset::Cautious => {
            "what the list of this machine covers runs; a person is asked about each other command, here or at the gateway"
        }
        Preset::Yolo => "everything runs that the gateway lets through",
    }
}

/// The policy that was chosen: with the call, or by the person at the terminal, where this machine has none and nobody chose
/// one before.
pub(super) fn choose(
    console: Console,
    state_dir: &StateDir,
    file: &NodeFile,
    given: Option<Preset>,
) -> Result<Option<Preset>, Failure> {
    let is_open = given.is_none() && file.policy.is_none() && !has_policy(state_dir)?;
    if is_open && console.format() == Format::People && console.can_ask() {
        return ask(console).map(Some);
    }
    Ok(given.or(file.policy))
}

/// The policy that the text of an installed service says.
pub(super) fn said_by(service: &str) -> Option<Preset> {
    let says = |preset: &Preset| service.contains(&format!("\"--policy\" \"{preset}\""));
    ALL.into_iter().find(says)
}

/// Whether anything says what may run here. The engine looks again before it sets a policy.
pub(super) fn has_policy(state_dir: &StateDir) -> Result<bool, Failure> {
    if state_dir.root().join("exec-approvals.json").exists() {
        return Ok(true);
    }
    let text = config_text(state_dir).map_err(|problem| Failure::new("config", with_causes(&problem)))?;
    // A text that says nothing usable is for the start of the node, which says what is wrong with it.
    let values = config_values(text.as_deref(), state_dir).unwrap_or_default();
    Ok(values.iter().any(|value| {
        matches!(
            value.key.rsplit_once("tools.exec."),
            Some((_, "security" | "ask" | "mode"))
        ) && value.source != Source::Default
    }))
}

/// What a node that starts says about it, for people.
pub(super) fn in_words(news: PolicyNews, root: &str) -> String {
    match news {
        PolicyNews::Set(preset) => format!("policy of this machine: {preset}, {}", meaning(preset)),
        PolicyNews::Kept(preset) => {
            format!("policy of this machine: as it was; {preset} is only for a machine that has none")
        }
        PolicyNews::Missing => format!(
            "policy of this machine: none, so nothing runs; to set one: {}",
            how_to_set(root)
        ),
    }
}

/// The same for programs.
pub(super) fn as_json(news: PolicyNews) -> Value {
    let (state, preset) = match news {
        PolicyNews::Set(preset) => ("set", Some(preset)),
        PolicyNews::Kept(preset) => ("kept", Some(preset)),
        PolicyNews::Missing => ("missing", None),
    };
    json!({"status": "policy", "policy": state, "preset": preset})
}

/// Says what becomes of the policy once the node starts.
pub(super) fn tell_installed(
    console: Console,
    state_dir: &StateDir,
    chosen: Option<Preset>,
) -> Result<(), Failure> {
    if let Some(preset) = chosen {
        console.note(&format!(
            "policy of this machine: {preset}, when the node first starts"
        ));
    } else if !has_policy(state_dir)? {
        let root = state_dir.root().to_string_lossy();
        console.note(&in_words(PolicyNews::Missing, &root));
    }
    Ok(())
}

fn how_to_set(root: &str) -> String {
    hint(&["--state-dir", root, "node", "run", "--policy", "cautious"])
}

fn ask(console: Console) -> Result<Preset, Failure> {
    console
        .note("\nWhich policy has this machine? It applies no matter what the gateway says, and you are asked once.");
    for (number, preset) in (1..).zip(ALL) {
        console.note(&format!("  {number}  {:9} {}", preset.as_str(), meaning(preset)));
    }
    loop {
        console.progress("number or name [1]: ");
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Err(Failure::usage("no answer")
                .hint("countersign node run --policy deny-all   (or cautious, yolo)"));
        }
        match answer(line.trim()) {
            Some(preset) => return Ok(preset),
            None => console.note("please give a number from 1 to 3"),
        }
    }
}

fn answer(text: &str) -> Option<Preset> {
    if text.is_empty() {
        return ALL.first().copied();
    }
    if let Ok(number) = text.parse::<usize>() {
        return ALL.get(number.checked_sub(1)?).copied();
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_service_says_its_policy() {
        let unit = |words: &str| format!("ExecStart=\"/usr/bin/countersign\" \"node\" \"run\"{words}\n");
        for preset in ALL {
            assert_eq!(
                said_by(&unit(&format!(" \"--policy\" \"{preset}\""))),
                Some(preset)
            );
        }
        assert_eq!(said_by(&unit("")), None);
    }

    #[test]
    fn an_answer_is_a_number_or_a_name_and_nothing_else() {
        for (text, expect) in [
            ("", Some(Preset::DenyAll)),
            ("1", Some(Preset::DenyAll)),
            ("2", Some(Preset::Cautious)),
            ("3", Some(Preset::Yolo)),
            ("cautious", Some(Preset::Cautious)),
            ("0", None),
            ("4", None),
            ("-1", None),
            ("y", None),
            ("sandbox-only", None),
        ] {
            assert_eq!(answer(text), expect, "{text}");
        }
    }
}
