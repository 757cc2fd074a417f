//! The known name that looks most like an unknown one.

/// A name from outside may be long; beyond this it resembles nothing.
const LONGEST: usize = 120;

/// The candidate with the fewest edits from `name`; the first of several.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> &'a str {
    let name: Vec<char> = name.chars().take(LONGEST).collect();
    candidates
        .into_iter()
        .min_by_key(|candidate| distance(&name, candidate))
        .unwrap_or_default()
}

/// The candidate that `name` is probably a slip for: at most a third of its letters differ.
pub fn intended<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidate = nearest(name, candidates);
    let letters: Vec<char> = name.chars().take(LONGEST).collect();
    let slips = distance(&letters, candidate);
    (!candidate.is_empty() && slips <= letters.len().div_ceil(3)).then_some(candidate)
}

/// How many letters are put in, left out, replaced, or swapped with the next one.
fn distance(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    // The row before, and the letter of `to` that it is for.
    let mut before: Option<(Vec<usize>, char)> = None;
    for (line, wanted) in to.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        let mut next = vec![left];
        let mut previous = None;
        for (column, (&have, &above)) in from.iter().zip(row.iter().skip(1)).enumerate() {
            left = (diagonal + usize::from(have != wanted))
                .min(left + 1)
                .min(above + 1);
            let swapped = before
                .as_ref()
                .filter(|(_, other)| have == *other && previous == Some(wanted))
                .and_then(|(row, _)| row.get(column.checked_sub(1)?));
            left = swapped.map_or(left, |swapped| left.min(swapped + 1));
            diagonal = above;
            previous = Some(have);
            next.push(left);
        }
        before = Some((std::mem::replace(&mut row, next), wanted));
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        let check = |from: &str, to: &str, expect| {
            assert_eq!(
                distance(&from.chars().collect::<Vec<_>>(), to),
                expect,
                "{from} {to}"
            );
        };
        check("", "", 0);
        check("", "abc", 3);
        check("abc", "", 3);
        check("kitten", "sitting", 3);
        check("ask", "aks", 1);
        check("stauts", "status", 1);
        check("ca", "abc", 3);
        check("säcurity", "security", 1);
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("listn", ["url", "listen", "path"]), "listen");
        assert_eq!(nearest("anything", []), "");
    }

    #[test]
    fn only_a_slip_is_taken_for_another_name() {
        let known = ["command", "argv", "workdir", "agentId"];
        assert_eq!(intended("comand", known), Some("command"));
        assert_eq!(intended("agentID", known), Some("agentId"));
        assert_eq!(intended("cwd", known), None);
        assert_eq!(intended("", known), None);
        assert_eq!(intended("anything", []), None);
    }
}
