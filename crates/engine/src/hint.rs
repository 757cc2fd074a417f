//! What a hint is: a command of this program that changes what was met, or shows more of it.

use countersign_domain::quoting::quoted;

/// Ends the emergency stop.
pub const HOW_TO_RESUME: [&str; 3] = ["resume", "--reason", "TEXT"];

/// Lets a person answer.
pub const HOW_TO_BE_THERE: [&str; 1] = ["approver"];

/// The command with these words, as a person pastes it into a shell. Words in capitals stand for what only the person knows.
pub fn hint(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| quoted(word));
    std::iter::once("countersign".to_owned())
        .chain(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_command_whose_words_no_shell_takes_apart() {
        assert_eq!(hint(&["nodes", "list"]), "countersign nodes list");
        assert_eq!(
            hint(&["allowlist", "add", "/opt/a b;c"]),
            "countersign allowlist add '/opt/a b;c'"
        );
    }
}
