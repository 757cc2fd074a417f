//! The programs to which standard input is data (G12), in a list of what is known to be good.

/// To these it is data whatever their arguments are: text that is shown, searched, counted, compared or copied.
const ALWAYS: &[&str] = &[
    "base64", "cat", "cmp", "column", "comm", "cut", "diff", "egrep", "expand", "fgrep", "fmt", "fold",
    "grep", "head", "join", "nl", "od", "paste", "rev", "tac", "tail", "tee", "tr", "unexpand", "uniq",
];

/// What else `git commit` may be told beside the file of its message.
const COMMIT_OPTIONS: &[&str] = &[
    "-a",
    "--all",
    "--allow-empty",
    "--amend",
    "-n",
    "--no-verify",
    "-q",
    "--quiet",
    "-s",
    "--signoff",
];

/// Whether standard input is data to a program with these arguments. `names` are all that it goes by.
pub(crate) fn is_data(names: &[&str], arguments: &[&str]) -> bool {
    let is_one = |list: &[&str]| names.iter().all(|name| list.contains(name));
    if is_one(ALWAYS) {
        true
    } else if is_one(&["sort", "wc"]) {
        // `--files0-from=-`, which may be shortened, takes the names of files.
        !arguments.iter().any(|argument| argument.starts_with("--f"))
    } else if is_one(&["jq"]) {
        // Its program may name files, and `-f` reads that from anywhere.
        !arguments
            .iter()
            .any(|argument| argument.starts_with('-') && argument.contains('f'))
    } else if is_one(&["git"]) {
        takes_message(arguments)
    } else if is_one(&["gh"]) {
        takes_body(arguments)
    } else {
        false
    }
}

/// `git commit -F -`, without anything else that would read from there.
fn takes_message(arguments: &[&str]) -> bool {
    let mut rest = arguments.iter().copied();
    let mut word = rest.next();
    while word == Some("-C") {
        rest.next();
        word = rest.next();
    }
    if word != Some("commit") {
        return false;
    }
    let mut reads_message = false;
    while let Some(argument) = rest.next() {
        match argument {
            "-F" | "--file" if rest.next() == Some("-") => reads_message = true,
            "-F-" | "--file=-" => reads_message = true,
            option if COMMIT_OPTIONS.contains(&option) => {}
            _ => return false,
        }
    }
    reads_message
}

/// `gh pr create --body-file -` and its like.
fn takes_body(arguments: &[&str]) -> bool {
    let [
        "pr" | "issue",
        "comment" | "create" | "edit" | "review",
        rest @ ..,
    ] = arguments
    else {
        return false;
    };
    rest.contains(&"--body-file=-")
        || rest
            .windows(2)
            .any(|pair| matches!(pair, ["-F" | "--body-file", "-"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: bool) {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, arguments) = words.split_first().unwrap();
        assert_eq!(is_data(&[name], arguments), expected, "{line}");
    }

    #[test]
    fn only_what_is_known_takes_data() {
        for line in [
            "cat",
            "grep -f - x",
            "sort -u",
            "wc -l",
            "jq .a",
            "tee out",
            "git commit -F -",
            "git -C sub commit -a --file=-",
            "git commit -q -F-",
            "gh pr create --title x --body-file -",
            "gh issue comment 1 -F -",
        ] {
            check(line, true);
        }
        for line in [
            "python3 -",
            "bash",
            "sh -s",
            "psql",
            "sqlite3 x.db",
            "xargs rm",
            "sed -f - x",
            "awk -f -",
            "patch -p1",
            "sort --files0-from=-",
            "wc --fi=-",
            "jq -f /dev/stdin",
            "jq -rf link",
            "git apply",
            "git commit -m x",
            "git commit -qF-",
            "git commit -p -F -",
            "git -c core.editor=x commit -F -",
            "git update-index --index-info",
            "git fast-import",
            "gh api --input -",
            "gh pr checkout -F -",
            "unknown",
        ] {
            check(line, false);
        }
    }

    #[test]
    fn every_name_has_to_be_known() {
        assert!(is_data(&["cat", "tac"], &[]));
        assert!(!is_data(&["cat", "bash"], &[]));
    }
}
