//! Which node a call means (`docs/spec/exec-tool.md#2-where-it-runs`).
//!
//! Among paired nodes the first rule that any of them satisfies decides: the id, the name, the address, a part of the id.
//! A name that an operator gave a node wins over the name that another node had when it was approved: a machine that calls
//! itself like one of ours takes nothing from it. A node chooses its key and so the beginning and the end of its id; that is why
//! a part of an id comes last, and must fit one node alone.
//! That a node is not connected never lets the next rule look for another one: a call must not reach another machine
//! because the right one is away.

use std::net::IpAddr;

/// The shortest beginning or end of an id that names a node.
pub const MIN_PART: usize = 6;

/// A paired node, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selectable<'a> {
    /// The node id. A call names all of it, or a beginning or end of 6 characters or more.
    pub id: &'a str,
    /// `None` if nobody here named it and it was approved without a name.
    pub name: Option<Name<'a>>,
    /// The address it connected from last.
    pub remote_ip: Option<IpAddr>,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether it offers to run commands.
    pub runs_commands: bool,
}

/// What a node is called. What it calls itself at the moment is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// As a person here called it.
    Given(&'a str),
    /// As it called itself when it was approved; nobody here called it otherwise.
    Approved(&'a str),
}

/// Why no node is chosen. Nodes are named by their place in the list.
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
    let is_called = |own: &str| !slug.is_empty() && self::slug(own) == slug;
    let is_given = nodes
        .iter()
        .any(|node| matches!(node.name, Some(Name::Given(own)) if is_called(own)));
    let by_name = |node: &Selectable<'_>| match node.name {
        Some(Name::Given(own)) => is_called(own),
        Some(Name::Approved(own)) => !is_given && is_called(own),
        None => false,
    };
    let by_address = |node: &Selectable<'_>| {
        let own = node.remote_ip.map(|own| own.to_canonical());
        own.is_some() && own == address.map(|address| address.to_canonical())
    };
    let by_part = |node: &Selectable<'_>| {
        name.len() >= MIN_PART && (node.id.starts_with(name) || node.id.ends_with(name))
    };
    one_of(matching(nodes, by_id))
        .or_else(|| one_of(matching(nodes, by_name)))
        .or_else(|| one_of(matching(nodes, by_address)))
        .or_else(|| one_of(matching(nodes, by_part)))
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
        name: Some(Name::Approved("Build Mill")),
        remote_ip: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7))),
        connected: true,
        runs_commands: true,
    };
    const ATTIC: Selectable<'static> = Selectable {
        id: "aaaaaabbbb02",
        name: Some(Name::Approved("attic")),
        remote_ip: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 8))),
        connected: false,
        runs_commands: true,
    };
    const PHONE: Selectable<'static> = Selectable {
        id: "cccccccccc03",
        name: None,
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
    fn a_node_is_meant_by_its_id_its_name_its_address_or_a_part_of_its_id() {
        let nodes = [MILL, ATTIC, PHONE];
        check(&nodes, Some("aaaaaabbbb02"), Ok(1));
        check(&nodes, Some("build-mill"), Ok(0));
        check(&nodes, Some("  BUILD   mill!"), Ok(0));
        check(&nodes, Some("10.0.0.8"), Ok(1));
        check(&nodes, Some("::ffff:10.0.0.8"), Ok(1));
        check(&nodes, Some("cccccc"), Ok(2));
        check(&nodes, Some("ccccc"), Err(NotSelected::NotFound));
        check(&nodes, Some("bbbb02"), Ok(1));
        check(&nodes, Some("bbb02"), Err(NotSelected::NotFound));
        check(&nodes, Some("abbbb0"), Err(NotSelected::NotFound));
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
            name: Some(Name::Approved("aaaaaabbbb02")),
            ..PHONE
        };
        check(&[ATTIC, called_like_an_id], Some("aaaaaabbbb02"), Ok(0));
        // No node gets the calls of another one by making an id that begins with its name.
        let called_like_a_beginning = Selectable {
            name: Some(Name::Approved("aaaaaabb")),
            ..PHONE
        };
        check(&[ATTIC, called_like_a_beginning], Some("aaaaaabb"), Ok(1));
        check(&[ATTIC, called_like_a_beginning], Some("aaaaaabbb"), Ok(0));
        // An address that is no name comes before ids that begin so.
        let of_version_six = Selectable {
            remote_ip: Some(IpAddr::V6(std::net::Ipv6Addr::new(
                0xabcd, 0xef, 0, 0, 0, 0, 0, 0,
            ))),
            ..MILL
        };
        let begins_like_an_address = Selectable {
            id: "abcd:ef::01",
            ..PHONE
        };
        check(
            &[begins_like_an_address, of_version_six],
            Some("abcd:ef::"),
            Ok(1),
        );
        let its_own_name = Selectable {
            name: Some(Name::Approved("aaaaaabb")),
            ..ATTIC
        };
        check(&[PHONE, its_own_name], Some("aaaaaabb"), Ok(1));
        let called_like_an_address = Selectable {
            name: Some(Name::Approved("10.0.0.7")),
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

    #[test]
    fn a_name_that_was_given_here_wins_over_the_own_name_of_another_node() {
        let given = Selectable {
            name: Some(Name::Given("Build Mill")),
            ..ATTIC
        };
        // It is away, and the calls still do not go to the one that chose the same name.
        check(&[MILL, given], Some("build-mill"), Ok(1));
        check(&[given, MILL], Some("BUILD MILL"), Ok(0));
        // The other one keeps every other way to be named.
        check(&[MILL, given], Some(MILL.id), Ok(0));
        check(&[MILL, given], Some("10.0.0.7"), Ok(0));
        let given_too = Selectable {
            name: Some(Name::Given("build mill")),
            ..PHONE
        };
        check(
            &[MILL, given, given_too],
            Some("build-mill"),
            Err(NotSelected::Ambiguous(vec![1, 2])),
        );
        // An id that begins so takes nothing from a name, whichever kind of name it is.
        let called_like_a_beginning = Selectable {
            name: Some(Name::Given("aaaaaabb")),
            ..PHONE
        };
        check(&[ATTIC, called_like_a_beginning], Some("aaaaaabb"), Ok(1));
        let its_own_name = Selectable {
            name: Some(Name::Approved("aaaaaabb")),
            ..ATTIC
        };
        check(&[its_own_name, called_like_a_beginning], Some("aaaaaabb"), Ok(1));
        let called_like_an_id = Selectable {
            name: Some(Name::Given(MILL.id)),
            ..PHONE
        };
        check(&[called_like_an_id, MILL], Some(MILL.id), Ok(1));
        // A name without letters and digits names nobody, no matter who gave it.
        let blank = Selectable {
            name: Some(Name::Given("!!!")),
            ..PHONE
        };
        check(&[blank], Some("!!!"), Err(NotSelected::NotFound));
        check(&[blank, MILL], Some("build mill"), Ok(1));
    }

    type Node = (String, Option<(bool, String)>, Option<IpAddr>, bool, bool);

    fn node() -> impl Strategy<Value = Node> {
        (
            "[ab]{6,8}",
            proptest::option::of((any::<bool>(), "[aA b.-]{0,6}")),
            proptest::option::of((0u8..3).prop_map(|last| IpAddr::from([10, 0, 0, last]))),
            any::<bool>(),
            any::<bool>(),
        )
    }

    fn selectable((id, name, ip, connected, runs): &Node) -> Selectable<'_> {
        let name = name.as_ref().map(|(given, name)| {
            if *given {
                Name::Given(name)
            } else {
                Name::Approved(name)
            }
        });
        Selectable {
            id,
            name,
            remote_ip: *ip,
            connected: *connected,
            runs_commands: *runs,
        }
    }

    proptest! {
        #[test]
        fn whoever_is_away_never_changes_who_is_meant(
            nodes in proptest::collection::vec(node(), 0..6),
            name in "[abA .0-9-]{0,9}",
        ) {
            let list: Vec<Selectable<'_>> = nodes.iter().map(selectable).collect();
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
        fn no_own_name_changes_who_is_meant_by_a_name_that_was_given(
            nodes in proptest::collection::vec(node(), 0..5),
            name in "[abA.-]{0,6}",
            chosen in "[abA.-]{0,6}",
        ) {
            // A node is called so here, unless the name names nobody.
            prop_assume!(!slug(&name).is_empty());
            let labelled = Selectable { id: "cccccccccccc", name: Some(Name::Given(&name)), ..PHONE };
            let list: Vec<Selectable<'_>> = std::iter::once(labelled).chain(nodes.iter().map(selectable)).collect();
            // The others may have chosen any name, that one, too.
            let others: Vec<Selectable<'_>> = list
                .iter()
                .map(|node| match node.name {
                    Some(Name::Given(_)) => *node,
                    Some(Name::Approved(_)) | None => Selectable { name: Some(Name::Approved(&chosen)), ..*node },
                })
                .collect();
            let meant = select(&list, Some(&name));
            prop_assert_eq!(&meant, &select(&others, Some(&name)));
            // Only an id comes before it, and only another name that was given stands beside it.
            let is_alone = !list.iter().skip(1).any(|node| {
                let is_given = matches!(node.name, Some(Name::Given(own)) if slug(own) == slug(&name));
                is_given || node.id == name
            });
            if is_alone {
                prop_assert_eq!(meant, Ok(0));
            }
        }

        #[test]
        fn an_id_always_means_its_node(nodes in proptest::collection::hash_set("[a-f0-9]{12}", 1..6)) {
            let ids: Vec<String> = nodes.into_iter().collect();
            let list: Vec<Selectable<'_>> = ids
                .iter()
                .map(|id| Selectable { id, name: ids.first().map(|first| Name::Given(first)), ..PHONE })
                .collect();
            for (place, id) in ids.iter().enumerate() {
                prop_assert_eq!(select(&list, Some(id)), Ok(place));
            }
        }
    }
}
