//! Which node a call means (`exec-tool.md` 2, "Node matching").
//!
//! Among paired nodes the first rule that any of them satisfies decides: the id, the name or the beginning of the id, the address.
//! Whoever is called so and whose id begins so are meant equally: neither a name nor an id can be made to stand for another node.
//! That a node is not connected never lets the next rule look for another one: a call must not reach a machine that nobody
//! meant because the right one is away.

use std::net::IpAddr;

/// The shortest beginning of an id that names a node.
pub const MIN_PREFIX: usize = 6;

/// A paired node, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selectable<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name: the one given here, or approved here. Never what it calls itself.
    pub display_name: Option<&'a str>,
    /// The address it connected from last.
    pub remote_ip: Option<IpAddr>,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether it offers to run commands.
    pub runs_commands: bool,
}

/// Why no node is meant. Nodes are named by their place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSelected {
    /// No paired node is called so.
    NotFound,
    /// Several are meant equally.
    Ambiguous(Vec<usize>),
    /// None was named, and none that runs commands is connected.
    NoneConnected,
}

/// The place of the node that a call means. A node that was named may be away, or run no commands; one that was not named is
/// connected and runs them.
///
/// # Errors
/// [`NotSelected`] says why there is none.
pub fn select(nodes: &[Selectable<'_>], named: Option<&str>) -> Result<usize, NotSelected> {
    let Some(name) = named else {
        let able = |node: &Selectable<'_>| node.connected && node.runs_commands;
        return one_of(matching(nodes, able)).unwrap_or(Err(NotSelected::NoneConnected));
    };
    let address: Option<IpAddr> = name.parse().ok();
    let slug = slug(name);
    let by_id = |node: &Selectable<'_>| node.id == name;
    let by_name = |node: &Selectable<'_>| {
        let own = node.display_name.map(self::slug);
        own.is_some_and(|own| !own.is_empty() && own == slug)
    };
    let by_address = |node: &Selectable<'_>| {
        let own = node.remote_ip.map(|own| own.to_canonical());
        own.is_some() && own == address.map(|address| address.to_canonical())
    };
    let by_prefix = |node: &Selectable<'_>| name.len() >= MIN_PREFIX && node.id.starts_with(name);
    one_of(matching(nodes, by_id))
        .or_else(|| one_of(matching(nodes, |node| by_name(node) || by_prefix(node))))
        .or_else(|| one_of(matching(nodes, by_address)))
        .unwrap_or(Err(NotSelected::NotFound))
}

/// A name as it is compared: lower case, runs of anything but letters and digits as one `-`, none at the ends.
pub fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|character: char| !character.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

fn matching(nodes: &[Selectable<'_>], is_meant: impl Fn(&Selectable<'_>) -> bool) -> Vec<usize> {
    let places = nodes.iter().enumerate();
    places
        .filter_map(|(place, node)| is_meant(node).then_some(place))
        .collect()
}

/// `None` when the rule meets nobody, so that the next one is asked.
fn one_of(places: Vec<usize>) -> Option<Result<usize, NotSelected>> {
    match places.as_slice() {
        [] => None,
        [place] => Some(Ok(*place)),
        _several => Some(Err(NotSelected::Ambiguous(places))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILL: Selectable<'static> = Selectable {
        id: "aaaaaabbbb01",
        display_name: Some("Build Mill"),
        remote_ip: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7))),
        connected: true,
        runs_commands: true,
    };
    const ATTIC: Selectable<'static> = Selectable {
        id: "aaaaaabbbb02",
        display_name: Some("attic"),
        remote_ip: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 8))),
        connected: false,
        runs_commands: true,
    };
    const PHONE: Selectable<'static> = Selectable {
        id: "cccccccccc03",
        display_name: None,
        remote_ip: None,
        connected: true,
        runs_commands: false,
    };

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better so")]
    #[track_caller]
    fn check(nodes: &[Selectable<'_>], named: Option<&str>, expect: Result<usize, NotSelected>) {
        assert_eq!(select(nodes, named), expect, "{named:?}");
    }

    #[test]
    fn a_node_is_meant_by_its_id_its_name_its_address_or_the_beginning_of_its_id() {
        let nodes = [MILL, ATTIC, PHONE];
        check(&nodes, Some("aaaaaabbbb02"), Ok(1));
        check(&nodes, Some("build-mill"), Ok(0));
        check(&nodes, Some("  BUILD   mill!"), Ok(0));
        check(&nodes, Some("10.0.0.8"), Ok(1));
        check(&nodes, Some("::ffff:10.0.0.8"), Ok(1));
        check(&nodes, Some("cccccc"), Ok(2));
        check(&nodes, Some("ccccc"), Err(NotSelected::NotFound));
        check(
            &nodes,
            Some("aaaaaabbbb"),
            Err(NotSelected::Ambiguous(vec![0, 1])),
        );
        for nobody in ["", "!!!", "10.0.0.9", "AAAAAABBBB01X", "*"] {
            check(&nodes, Some(nobody), Err(NotSelected::NotFound));
        }
    }

    #[test]
    fn the_first_rule_that_meets_anybody_decides_even_if_that_one_is_away() {
        let called_like_an_id = Selectable {
            display_name: Some("aaaaaabbbb02"),
            ..PHONE
        };
        check(&[ATTIC, called_like_an_id], Some("aaaaaabbbb02"), Ok(0));
        // Nobody gets the calls of another node by being called like the beginning of its id, nor by having such an id.
        let called_like_a_beginning = Selectable {
            display_name: Some("aaaaaabb"),
            ..PHONE
        };
        check(
            &[ATTIC, called_like_a_beginning],
            Some("aaaaaabb"),
            Err(NotSelected::Ambiguous(vec![0, 1])),
        );
        let its_own_name = Selectable {
            display_name: Some("aaaaaabb"),
            ..ATTIC
        };
        check(&[PHONE, its_own_name], Some("aaaaaabb"), Ok(1));
        let called_like_an_address = Selectable {
            display_name: Some("10.0.0.7"),
            ..ATTIC
        };
        check(&[MILL, called_like_an_address], Some("10-0-0-7"), Ok(1));
        check(&[MILL, called_like_an_address], Some("10.0.0.7"), Ok(1));
        let twin = Selectable {
            id: "dddddddddd04",
            connected: false,
            ..MILL
        };
        check(
            &[MILL, twin],
            Some("Build Mill"),
            Err(NotSelected::Ambiguous(vec![0, 1])),
        );
    }

    #[test]
    fn without_a_name_the_only_one_that_can_run_commands_is_meant() {
        check(&[MILL, ATTIC, PHONE], None, Ok(0));
        check(&[ATTIC, PHONE], None, Err(NotSelected::NoneConnected));
        check(&[], None, Err(NotSelected::NoneConnected));
        let other = Selectable {
            id: "eeeeeeeeee05",
            ..MILL
        };
        check(
            &[MILL, other, PHONE],
            None,
            Err(NotSelected::Ambiguous(vec![0, 1])),
        );
    }

    fn node() -> impl Strategy<Value = (String, Option<String>, Option<IpAddr>, bool, bool)> {
        (
            "[ab]{6,8}",
            proptest::option::of("[aA b.-]{0,6}"),
            proptest::option::of((0u8..3).prop_map(|last| IpAddr::from([10, 0, 0, last]))),
            any::<bool>(),
            any::<bool>(),
        )
    }

    proptest! {
        #[test]
        fn whoever_is_away_never_changes_who_is_meant(
            nodes in proptest::collection::vec(node(), 0..6),
            name in "[abA .0-9-]{0,9}",
        ) {
            let list: Vec<Selectable<'_>> = nodes
                .iter()
                .map(|(id, name, ip, connected, runs)| Selectable {
                    id,
                    display_name: name.as_deref(),
                    remote_ip: *ip,
                    connected: *connected,
                    runs_commands: *runs,
                })
                .collect();
            let all_there: Vec<Selectable<'_>> = list
                .iter()
                .map(|node| Selectable { connected: true, runs_commands: true, ..*node })
                .collect();
            prop_assert_eq!(select(&list, Some(&name)), select(&all_there, Some(&name)));
            // Without a name only the able count, and exactly one of them must be there.
            let able: Vec<usize> = matching(&list, |node| node.connected && node.runs_commands);
            match select(&list, None) {
                Ok(place) => prop_assert_eq!(able, vec![place]),
                Err(NotSelected::Ambiguous(places)) => {
                    prop_assert!(places.len() > 1);
                    prop_assert_eq!(able, places);
                }
                Err(NotSelected::NoneConnected) => prop_assert!(able.is_empty()),
                Err(NotSelected::NotFound) => prop_assert!(false, "nobody was named"),
            }
        }

        #[test]
        fn an_id_always_means_its_node(nodes in proptest::collection::hash_set("[a-f0-9]{12}", 1..6)) {
            let ids: Vec<String> = nodes.into_iter().collect();
            let list: Vec<Selectable<'_>> = ids
                .iter()
                .map(|id| Selectable { id, display_name: ids.first().map(String::as_str), ..PHONE })
                .collect();
            for (place, id) in ids.iter().enumerate() {
                prop_assert_eq!(select(&list, Some(id)), Ok(place));
            }
        }
    }
}
