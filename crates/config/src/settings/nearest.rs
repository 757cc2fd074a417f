//! The known name that looks most like an unknown one.

/// The candidate with the fewest edits from `name`; the first of several.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> &'a str {
    // A name from outside may be long; beyond this it resembles nothing.
    let name: Vec<char> = name.chars().take(120).collect();
    candidates
        .into_iter()
        .min_by_key(|candidate| distance(&name, candidate))
        .unwrap_or_default()
}

fn distance(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (line, wanted) in to.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        let mut next = vec![left];
        for (&have, &above) in from.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(have != wanted))
                .min(left + 1)
                .min(above + 1);
            diagonal = above;
            next.push(left);
        }
        row = next;
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
        check("ask", "aks", 2);
        check("säcurity", "security", 1);
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("listn", ["url", "listen", "path"]), "listen");
        assert_eq!(nearest("anything", []), "");
    }
}
