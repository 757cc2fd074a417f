//! `If-Match`: which content of a resource a change was made for (RFC 9110, 13.1.1).
//!
//! * The tags of all `If-Match` lines count as one list; one that fits is enough.
//! * Comparison is strong: a weak tag (`W/"…"`) fits nothing.
//! * `*` fits any content that can be read, and so never a document that is refused.
//! * A hash without quotes is taken as if it had them: that is how problem documents spell `currentHash`.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, header, request::Parts},
};

use countersign_domain::Precondition;

use crate::problem::{Code, Problem};

/// The precondition of a request; `None` without one.
#[derive(Debug)]
pub(crate) struct IfMatch(pub(crate) Option<Precondition>);

impl IfMatch {
    /// The precondition of an operation that does nothing without one; `current` is the hash of what is there.
    pub(crate) fn required(self, current: impl FnOnce() -> String) -> Result<Precondition, Problem> {
        self.0.ok_or_else(|| {
            Problem::new(
                Code::BaseHashRequired,
                "send the ETag of what you saw as If-Match",
            )
            .with(|body| body.current_hash = Some(current()))
        })
    }

    /// The precondition of an operation that does without one, too.
    pub(crate) fn optional(self) -> Precondition {
        self.0.unwrap_or(Precondition::Any)
    }
}

impl<State: Send + Sync> FromRequestParts<State> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        read(&parts.headers).map(Self).map_err(|Malformed| {
            Problem::field("If-Match", "expected *, or quoted entity tags joined by commas")
        })
    }
}

/// The `ETag` of a content with this hash.
pub(crate) fn etag(hash: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("\"{hash}\"")).ok()
}

/// A line that is no list of entity tags.
#[derive(Debug, PartialEq, Eq)]
struct Malformed;

fn read(headers: &HeaderMap) -> Result<Option<Precondition>, Malformed> {
    let lines: Vec<&HeaderValue> = headers.get_all(header::IF_MATCH).iter().collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    for line in &lines {
        let text = line.to_str().map_err(|_not_text| Malformed)?.trim();
        if text == "*" {
            // Beside tags it is not in the grammar.
            return if lines.len() == 1 {
                Ok(Some(Precondition::Any))
            } else {
                Err(Malformed)
            };
        }
        read_tags(text, &mut hashes).ok_or(Malformed)?;
    }
    Ok(Some(Precondition::OneOf(hashes)))
}

/// Adds the strong tags of one line.
fn read_tags(mut rest: &str, hashes: &mut Vec<String>) -> Option<()> {
    let mut is_any = false;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        // Empty elements of a list mean nothing.
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return is_any.then_some(());
        }
        is_any = true;
        let (is_weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let (tag, after) = match tag.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None if is_weak => return None,
            None => {
                let end = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
                let (bare, after) = rest.split_at_checked(end)?;
                let is_hash = bare
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b':');
                if !is_hash {
                    return None;
                }
                (bare, after)
            }
        };
        if !is_weak {
            hashes.push(tag.to_owned());
        }
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &Result<Option<Precondition>, Malformed>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_MATCH, line.parse().unwrap());
        }
        assert_eq!(read(&headers), *expected, "{lines:?}");
    }

    fn check_tags(lines: &[&str], hashes: &[&str]) {
        let hashes = hashes.iter().map(|hash| (*hash).to_owned()).collect();
        check(lines, &Ok(Some(Precondition::OneOf(hashes))));
    }

    #[test]
    fn tags_are_read_as_the_standard_says() {
        check(&[], &Ok(None));
        check(&["*"], &Ok(Some(Precondition::Any)));
        check_tags(&["\"ab\""], &["ab"]);
        check_tags(&["\"ab\" , \"missing:cd\",,"], &["ab", "missing:cd"]);
        check_tags(&["\"ab\"", "\"cd\""], &["ab", "cd"]);
        check_tags(&["W/\"ab\""], &[]);
        check_tags(&["W/\"ab\", \"cd\""], &["cd"]);
        check_tags(&["\"a,b\""], &["a,b"]);
        check_tags(&["ab12"], &["ab12"]);
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
        for lines in [
            &[""][..],
            &[","],
            &["\"ab"],
            &["\"ab\"cd"],
            &["\"ab\" \"cd\""],
            &["W/ab"],
            &["a\"b"],
            &["*, \"ab\""],
            &["*", "\"ab\""],
            &["\"ab\"", "*"],
            &["../x"],
        ] {
            check(lines, &Err(Malformed));
        }
    }
}
