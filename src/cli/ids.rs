//! Ids as people see and type them: eight characters of one stand for it.

use countersign_domain::{IdPart, RunId};

pub(crate) use super::short_id::{short, short_of_target};
use super::{failure::Failure, short_id::candidates, value};

/// Fewer characters of an id could mean too many.
const SHORTEST_PART: usize = 8;
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

/// An item of a list that can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) id: &'a str,
    /// What people call it, where that names it, too.
    pub(crate) name: Option<&'a str>,
    /// What it is, for a person who has to choose.
    pub(crate) what: String,
}

/// The place of the item with this id, this name, or this unique beginning or end of its id. `what` is what is looked for, `list`
/// shows all.
pub(crate) fn find(items: &[Named<'_>], id: &str, (what, list): (&str, &str)) -> Result<usize, Failure> {
    // Ids of other programs may be shorter than a part, and in upper case.
    if let Some(exact) = items.iter().position(|known| known.id == id) {
        return Ok(exact);
    }
    let called = places(items, |known| known.name == Some(id));
    if !called.is_empty() {
        return one(
            items,
            &called,
            &format!("{} names several", value::visible(id)),
            list,
        );
    }
    let none = |more: &str| {
        let text = format!("there is no {what} {}{more}", value::visible(id));
        Failure::new("not-found", text).hint(list)
    };
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let typed = match typed(id, list) {
        // A name, more likely.
        Err(_too_short) if !is_id => return Err(none("; of an id give 8 characters or more")),
        typed => typed?,
    };
    let part = IdPart::of(&typed);
    let fits =
        |known: &Named<'_>| known.id == typed || part.as_ref().is_some_and(|part| part.is_of(known.id));
    let fitting = places(items, fits);
    if fitting.is_empty() {
        return Err(none(""));
    }
    let several = format!("{typed} begins or ends several ids; give more of it");
    one(items, &fitting, &several, list)
}

fn places(items: &[Named<'_>], fits: impl Fn(&Named<'_>) -> bool) -> Vec<usize> {
    let fitting = items.iter().enumerate().filter(|(_, known)| fits(known));
    fitting.map(|(at, _)| at).collect()
}

/// The only one of these places, which are not none.
fn one(items: &[Named<'_>], places: &[usize], several: &str, list: &str) -> Result<usize, Failure> {
    if let [only] = places {
        return Ok(*only);
    }
    let named = places.iter().filter_map(|at| items.get(*at));
    let named: Vec<(String, String)> = named
        .map(|known| (known.id.to_owned(), known.what.clone()))
        .collect();
    Err(ambiguous("id-ambiguous", several, named).hint(list))
}

/// The failure of a name that could mean several things: each on a line of its own, as far as they help.
pub(crate) fn ambiguous(code: &str, several: &str, mut named: Vec<(String, String)>) -> Failure {
    let more = named.len().saturating_sub(MOST_NAMED);
    named.truncate(MOST_NAMED);
    Failure::new(code, several).with_candidates(candidates(named), u64::try_from(more).unwrap_or(u64::MAX))
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

    fn named(ids: [&'static str; 4]) -> [Named<'static>; 4] {
        ids.map(|id| Named {
            id,
            name: None,
            what: format!("what {} is", short(id)),
        })
    }

    fn found(id: &str) -> Result<usize, String> {
        let items = named([ONE, OTHER, THIRD, "short"]);
        find(&items, id, ("entry", "countersign allowlist list")).map_err(|failure| failure.to_string())
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
        assert_eq!(
            found("01a20aae").unwrap_err(),
            "error[id-ambiguous]: 01a20aae begins or ends several ids; give more of it\n\
             \x20 5afb5d74  what 5afb5d74 is\n\
             \x20 5afb5d75  what 5afb5d75 is\n\
             hint: countersign allowlist list"
        );
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

    #[test]
    fn a_unique_name_finds_it_too() {
        let item = |id, name| Named {
            id,
            name: Some(name),
            what: String::new(),
        };
        let items = [item(ONE, "phone"), item(OTHER, "ci"), item(THIRD, "ci")];
        let found = |text: &str| {
            let found = find(&items, text, ("token", "countersign token list"));
            found.map_err(|failure| failure.to_string())
        };
        assert_eq!(found("phone"), Ok(0));
        assert_eq!(found("5afb5d75"), Ok(1));
        let several = found("ci").unwrap_err();
        assert!(
            several.contains("ci names several\n  5afb5d75\n  6f1c2d3e\n"),
            "{several}"
        );
        // What may be a name is not too short for an id.
        assert!(
            found("tablet")
                .unwrap_err()
                .contains("there is no token tablet; of an id give 8 characters")
        );
    }

    #[test]
    fn candidates_are_bounded_and_told_apart() {
        let named = |count: usize, end: &str| -> Vec<(String, String)> {
            let id = |at: usize| format!("{at:08x}-0000-7000-8000-0000{end}");
            (0..count).map(|at| (id(at), "x".repeat(99))).collect()
        };
        let text = ambiguous("id-ambiguous", "several", named(13, "aaaaaaaa")).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + MOST_NAMED + 1, "{text}");
        assert_eq!(lines[11], "  and 3 more");
        // Their ends are alike.
        assert!(
            lines[1].starts_with("  00000000-0000-7000-8000-0000aaaaaaaa  xxx"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_finds_it(id in "[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}") {
            let item = |id| Named { id, name: None, what: String::new() };
            let items = [item(id.as_str()), item("zzzzzzzz-0000-4000-8000-zzzzzzzzzzzz")];
            prop_assert_eq!(find(&items, short(&id), ("run", "countersign runs list")).ok(), Some(0));
            prop_assert_eq!(find(&items, &short(&id).to_uppercase(), ("run", "")).ok(), Some(0));
        }

        #[test]
        fn no_input_panics(id in ".{0,50}") {
            prop_assert!(id.starts_with(short(&id)) || id.ends_with(short(&id)));
            let item = |id| Named { id, name: None, what: String::new() };
            drop(find(&[item("a"), item("b")], &id, ("run", "list")));
        }
    }
}
