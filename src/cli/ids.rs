//! Ids as people see and type them: eight characters of one stand for it.

use countersign_domain::{IdPart, RunId, TokenId, short_end};

use super::{failure::Failure, value};

/// Fewer characters of an id could mean too many.
const SHORTEST_PART: usize = 8;
/// The digit of a UUID that says how it is made, and the one that says that it begins with its time.
const VERSION_AT: usize = 14;
const BY_TIME: u8 = b'7';
/// Ids are as long as this.
const WHOLE: usize = 36;

/// What people are shown of an id: the end of one that begins with its time, since that beginning is the same for all of an hour;
/// the beginning of any other.
pub(crate) fn short(id: &str) -> &str {
    let is_by_time = id.len() == WHOLE && id.as_bytes().get(VERSION_AT) == Some(&BY_TIME);
    if is_by_time {
        short_end(id)
    } else {
        id.get(..SHORTEST_PART).unwrap_or(id)
    }
}

/// The same of what may be no id: a name, an agent or the address of a setting stays as it is.
pub(crate) fn short_of_target(target: &str) -> &str {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_device = target.len() == 64 && target.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_id = target.len() == WHOLE && target.bytes().all(is_digit);
    if is_device || is_id { short(target) } else { target }
}

/// The id, or the part of one, that a person typed: in lower case, as ids are written. `list` shows those that there are.
pub(crate) fn typed(id: &str, list: &str) -> Result<String, Failure> {
    if id.len() < SHORTEST_PART {
        let text = format!(
            "{} is too short: give 8 characters of the id or more",
            value::visible(id)
        );
        return Err(Failure::usage(text).hint(list));
    }
    Ok(lower(id))
}

/// What names a run on the command line. That it is long enough is for [`run`] to say, with what helps.
pub(crate) fn parse_run(text: &str) -> Result<RunId, String> {
    RunId::parse(lower(text)).map_err(|error| error.to_string())
}

/// What names a token on the command line.
pub(crate) fn parse_token(text: &str) -> Result<TokenId, String> {
    TokenId::parse(lower(text)).map_err(|error| error.to_string())
}

/// The run that was typed, in full or in part.
pub(crate) fn run(run: &RunId) -> Result<String, Failure> {
    typed(run.as_str(), "countersign runs list")
}

/// Ids of ours are hexadecimal; one of another program stays as it is.
fn lower(id: &str) -> String {
    let is_ours = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_ours {
        id.to_ascii_lowercase()
    } else {
        id.to_owned()
    }
}

/// The place of the item with this id, or with this unique beginning or end of it. `what` is what is looked for, `list` shows all.
pub(crate) fn find<'a>(
    ids: impl Iterator<Item = &'a str>,
    id: &str,
    (what, list): (&str, &str),
) -> Result<usize, Failure> {
    let ids: Vec<&str> = ids.collect();
    // Ids of other programs may be shorter than a part, and in upper case.
    if let Some(exact) = ids.iter().position(|known| *known == id) {
        return Ok(exact);
    }
    let typed = typed(id, list)?;
    let part = IdPart::of(&typed);
    let fits = |known: &str| known == typed || part.as_ref().is_some_and(|part| part.is_of(known));
    let fitting = ids.iter().enumerate().filter(|(_, known)| fits(known));
    let fitting: Vec<(usize, &str)> = fitting.map(|(at, known)| (at, *known)).collect();
    match fitting.as_slice() {
        [(only, _)] => Ok(*only),
        [] => Err(Failure::new("not-found", format!("there is no {what} {}", value::visible(id))).hint(list)),
        several => {
            let shown = several
                .iter()
                .take(MOST_NAMED)
                .map(|(_, known)| value::visible(known));
            let text = format!(
                "{typed} begins or ends several ids; give more of it; {}",
                shown.collect::<Vec<_>>().join("; ")
            );
            Err(Failure::new("id-ambiguous", text).hint(format!("{list} --wide")))
        }
    }
}

/// So many candidates are named; more help nobody.
const MOST_NAMED: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "01a20aae-0000-7000-8000-00005afb5d74";
    const OTHER: &str = "01a20aae-0000-7000-8000-00005afb5d75";
    const THIRD: &str = "6f1c2d3e-0000-4000-8000-0000aaaa5d75";

    fn found(id: &str) -> Result<usize, String> {
        let ids = [ONE, OTHER, THIRD, "short"];
        find(ids.into_iter(), id, ("entry", "countersign allowlist list"))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_part_that_tells_ids_apart_is_shown() {
        assert_eq!(short(ONE), "5afb5d74");
        assert_eq!(short(THIRD), "6f1c2d3e");
        assert_eq!(short("short"), "short");
        assert_eq!(short_of_target(ONE), "5afb5d74");
        assert_eq!(
            short_of_target("tools.exec.security in openclaw.json"),
            "tools.exec.security in openclaw.json"
        );
    }

    #[test]
    fn any_unique_part_finds_it() {
        assert_eq!(found("5afb5d75"), Ok(1));
        assert_eq!(found("5AFB5D74"), Ok(0));
        assert_eq!(found("6f1c2d3e"), Ok(2));
        assert_eq!(found("6f1c2d3e-0000-4"), Ok(2));
        assert_eq!(found(ONE), Ok(0));
        // An id in full is never a part, however short it is.
        assert_eq!(found("short"), Ok(3));
    }

    #[test]
    fn what_says_too_little_is_refused_with_what_helps() {
        let several = found("01a20aae").unwrap_err();
        assert!(
            several.contains("id-ambiguous") && several.contains(ONE) && several.contains(OTHER),
            "{several}"
        );
        assert!(!several.contains(THIRD), "{several}");
        let few = found("5afb5d7").unwrap_err();
        assert!(
            few.contains("8 characters") && few.contains("hint: countersign allowlist list"),
            "{few}"
        );
        let none = found("ffffffff").unwrap_err();
        assert!(none.contains("there is no entry ffffffff"), "{none}");
        // The middle of an id is no part of it.
        assert!(found("0000-7000").is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_finds_it(id in "[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}") {
            let ids = [id.as_str(), "zzzzzzzz-0000-4000-8000-zzzzzzzzzzzz"];
            prop_assert_eq!(find(ids.into_iter(), short(&id), ("run", "countersign runs list")).ok(), Some(0));
            prop_assert_eq!(find(ids.into_iter(), &short(&id).to_uppercase(), ("run", "")).ok(), Some(0));
        }

        #[test]
        fn no_input_panics(id in ".{0,50}") {
            prop_assert!(id.starts_with(short(&id)) || id.ends_with(short(&id)));
            drop(find(["a", "b"].into_iter(), &id, ("run", "list")));
        }
    }
}
