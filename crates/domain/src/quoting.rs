//! Words as a shell needs them, for people who read them or copy them.

use crate::Command;

/// A command as one text that a person reads: as it was sent, or the arguments as a shell would need them. The canonical text
/// ([`Command::to_text`]) is for records and machines; it does not tell `$(id)` in an argument from one that a shell runs.
pub fn line(command: &Command) -> String {
    match command {
        Command::Shell(text) | Command::Patch(text) => text.clone(),
        Command::Argv(argv) => {
            let word = |(index, word): (usize, &String)| match index {
                // A shell would set a variable.
                0 if word.contains('=') => in_quotes(word),
                _ => quoted(word),
            };
            argv.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
        }
    }
}

/// One argument as a shell would need it, whether that is `sh`, `bash`, `zsh` or `fish`.
pub fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    // `=name` is a path for zsh.
    if !argument.is_empty() && !argument.starts_with('=') && argument.chars().all(plain) {
        return argument.to_owned();
    }
    in_quotes(argument)
}

fn in_quotes(argument: &str) -> String {
    let mut shown = String::from("'");
    let mut rest = argument.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' => shown.push_str(r"'\''"),
            // For fish a backslash before one of these means something in quotes too.
            '\\' if matches!(rest.peek(), None | Some('\\' | '\'')) => shown.push_str(r"'\\'"),
            other => shown.push(other),
        }
    }
    shown.push('\'');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_arguments_is_what_a_shell_would_need() {
        let shown = |words: &[&str]| {
            let argv = words.iter().map(|word| (*word).to_owned()).collect();
            line(&Command::argv(argv).unwrap())
        };
        assert_eq!(shown(&["rm", "-rf", "#", "x y"]), "rm -rf '#' 'x y'");
        assert_eq!(shown(&["echo", "$(id)", ";", ""]), "echo '$(id)' ';' ''");
        assert_eq!(shown(&["A=1", "B=2"]), "'A=1' B=2");
        let text = Command::shell("echo $(id) # x".to_owned()).unwrap();
        assert_eq!(line(&text), "echo $(id) # x");
    }

    #[test]
    fn arguments_are_quoted_for_every_shell() {
        for (argument, shown) in [
            ("", "''"),
            ("#", "'#'"),
            ("x y", "'x y'"),
            ("$(id)", "'$(id)'"),
            ("it's", r"'it'\''s'"),
            ("=ls", "'=ls'"),
            ("a=b", "a=b"),
            (r"^a\.b$", r"'^a\.b$'"),
            (r"a\", r"'a'\\''"),
            (r"\\x", r"''\\'\x'"),
            (r"\'", r"''\\''\'''"),
        ] {
            assert_eq!(quoted(argument), shown);
        }
    }
}
