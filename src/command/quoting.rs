//! Words as a shell needs them, for people who read them or copy them.

/// One argument as a shell would need it, whether that is `sh`, `bash`, `zsh` or `fish`.
pub fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    // `=name` is a path for zsh.
    if !argument.is_empty() && !argument.starts_with('=') && argument.chars().all(plain) {
        return argument.to_owned();
    }
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
