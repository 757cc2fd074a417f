//! `countersign nodes`: the machines that run commands for this server, and those that want to.

use std::ops::Deref;

use serde_json::json;

use countersign_domain::PairingKind;
use countersign_policy::node_select::MIN_PART;
use countersign_wire::node::{DecisionBody, NodeBody, PairingBody, PairingDecision};

use super::{
    candidates,
    client::{Answer, Client},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    ids,
    layout::Listing,
    moment, state,
    table::Table,
    value,
};

/// A part of the id of a request that is shorter than this names none: they are few, and live shortly.
const SHORTEST_REQUEST_PART: usize = 4;
/// A node id has as many characters.
const WHOLE_ID: usize = 64;

/// See the nodes, and decide which machines become one
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign nodes list
  countersign nodes pairings
  countersign nodes approve 4f1c9a52
  countersign nodes rename build-box 'Build box'
  countersign nodes remove build-box

A NODE is its id, a unique beginning or end of it (6 characters or more), its name or its address.
Approving a request lets the device connect, and be sent the commands that the request lists. A
node that offers more of them later asks again.")]
pub(crate) enum NodesCommand {
    /// List the paired nodes, those seen last first
    #[command(after_help = "Examples:
  countersign nodes list
  countersign nodes list --json")]
    #[command(alias = "ls")]
    List(Listing),
    /// Show one node in full
    #[command(after_help = "Examples:
  countersign nodes show build-box")]
    Show {
        /// The node
        #[arg(add = candidates::nodes())]
        node: String,
    },
    /// List what waits for a decision: devices that want to connect, commands that nodes want to offer
    #[command(after_help = "Examples:
  countersign nodes pairings")]
    Pairings(Listing),
    /// Let a device connect and be sent the commands that it offers
    #[command(after_help = "Examples:
  countersign nodes pairings
  countersign nodes approve 4f1c9a52")]
    Approve {
        /// The request's id, or a unique beginning or end of it
        request: String,
    },
    /// Turn a pairing request down
    #[command(after_help = "Examples:
  countersign nodes reject 4f1c9a52")]
    Reject {
        /// The request's id, or a unique beginning or end of it
        request: String,
    },
    /// Give a node another name
    #[command(after_help = "Examples:
  countersign nodes rename build-box 'Build box, second floor'")]
    Rename {
        /// The node
        #[arg(add = candidates::nodes())]
        node: String,
        /// Its new name
        name: String,
    },
    /// Unpair a node: it is disconnected at once and must be let in again
    #[command(after_help = "Examples:
  countersign nodes remove build-box")]
    #[command(alias = "rm")]
    Remove {
        /// The node
        #[arg(add = candidates::nodes())]
        node: String,
    },
}

pub(crate) async fn run(context: &Context, command: NodesCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        NodesCommand::List(listing) => list(context, &client, listing).await?,
        NodesCommand::Show { node } => show(context, &find_node(&client, &node).await?)?,
        NodesCommand::Pairings(listing) => pairings(context, &client, listing).await?,
        NodesCommand::Approve { request } => {
            decide(context, &client, &request, PairingDecision::Approve).await?;
        }
        NodesCommand::Reject { request } => {
            decide(context, &client, &request, PairingDecision::Reject).await?;
        }
        NodesCommand::Rename { node, name } => rename(context, &client, &node, &name).await?,
        NodesCommand::Remove { node } => remove(context, &client, &node).await?,
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(
    context: &Context,
    client: &Client,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let items = period.newest(context.clock.now(), nodes(client).await?, |node| {
        node.last_seen_at_ms
    });
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&[
        "ID",
        "NAME",
        "STATE",
        "PLATFORM",
        "VERSION",
        "ADDRESS",
        "LAST SEEN",
    ])
    .with_states("STATE", state::tone);
    for node in &items {
        table.row([
            &layout.id(&node.node_id),
            text(node.display_name.as_ref()),
            state_of(node),
            text(node.platform.as_ref()),
            text(node.version.as_ref()),
            &value::shown(node.remote_ip),
            &layout.maybe_time(context, node.last_seen_at_ms),
        ]);
    }
    let ids = items.iter().map(|node| &node.node_id);
    layout.print(context, ids, &table, "no nodes are paired")?;
    if items.is_empty() {
        context.console.hint("countersign nodes pairings");
    }
    Ok(())
}

fn show(context: &Context, node: &Answer<NodeBody>) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        return context.console.document(&node.raw);
    }
    let mut table = Table::without_header();
    table.fact("id", &node.node_id);
    table.fact("name", text(node.display_name.as_ref()));
    table.fact("state", state_of(node));
    table.fact("platform", text(node.platform.as_ref()));
    table.fact("version", text(node.version.as_ref()));
    table.each("address", node.remote_ip);
    table.each("protocol", node.protocol);
    table.each("commands", &node.commands);
    table.each("caps", &node.caps);
    table.fact(
        "connected since",
        &moment::maybe_in_full(context, node.connected_at_ms),
    );
    table.fact("last seen", &moment::maybe_in_full(context, node.last_seen_at_ms));
    context.console.table(&table, "")
}

async fn pairings(
    context: &Context,
    client: &Client,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let items = period.newest(context.clock.now(), requests(client).await?, |request| {
        Some(request.requested_at_ms)
    });
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    // What a request is for and who sends it decide; the rest is for `--wide`.
    let mut table = if layout.is_wide() {
        Table::new(&[
            "REQUEST", "WANTS", "NODE", "NAME", "PLATFORM", "ADDRESS", "SINCE", "COMMANDS",
        ])
    } else {
        Table::new(&["REQUEST", "WANTS", "NODE", "ADDRESS", "SINCE", "COMMANDS"]).keeping("WANTS")
    };
    for request in &items {
        let id = layout.id(&request.request_id);
        let address = value::shown(request.remote_ip);
        let since = layout.time(context, request.requested_at_ms);
        let commands = value::joined(&request.commands);
        let name = text(request.display_name.as_ref());
        if layout.is_wide() {
            let platform = text(request.platform.as_ref());
            table.row([
                &id,
                wish(request),
                &request.node_id,
                name,
                platform,
                &address,
                &since,
                &commands,
            ]);
        } else {
            let node = if name.is_empty() {
                ids::short_of_target(&request.node_id)
            } else {
                name
            };
            table.row([&id, wish(request), node, &address, &since, &commands]);
        }
    }
    if let Some(first) = items.first().filter(|_first| !layout.is_names()) {
        let id = value::visible(&layout.id(&first.request_id));
        context.console.hint(&format!(
            "countersign nodes approve {}   (or reject)",
            value::quoted(&id)
        ));
    }
    let ids = items.iter().map(|request| &request.request_id);
    layout.print(context, ids, &table, "nothing waits for a decision")
}

async fn decide(
    context: &Context,
    client: &Client,
    wanted: &str,
    decision: PairingDecision,
) -> Result<(), Failure> {
    let request = pick_request(requests(client).await?, wanted)?;
    let path = ["v1", "nodes", "pairings", &request.request_id, "decision"];
    let answer = client.post(&path, &DecisionBody { decision }).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&answer);
    }
    let done = match decision {
        PairingDecision::Approve => "approved",
        PairingDecision::Reject => "rejected",
    };
    let whose = named(&request.node_id, request.display_name.as_ref());
    let what = if request.kind == PairingKind::Commands {
        format!("more commands of {whose}")
    } else {
        format!("the device {whose}")
    };
    context
        .console
        .line(&format!("{done} {}", value::visible(&what)))?;
    if matches!(decision, PairingDecision::Approve) {
        let commands = value::visible(&value::joined(&request.commands));
        context.console.note(&format!("it may be sent: {commands}"));
    }
    Ok(())
}

async fn rename(context: &Context, client: &Client, wanted: &str, name: &str) -> Result<(), Failure> {
    let node = find_node(client, wanted).await?;
    let renamed: Answer<NodeBody> = client
        .patch(&["v1", "nodes", &node.node_id], &json!({ "displayName": name }))
        .await?;
    match context.console.format() {
        Format::Json => context.console.document(&renamed.raw),
        Format::People => context.console.line(&format!(
            "{} is now called {}",
            value::visible(ids::short_of_target(&node.node_id)),
            value::visible(text(renamed.display_name.as_ref()))
        )),
    }
}

async fn remove(context: &Context, client: &Client, wanted: &str) -> Result<(), Failure> {
    let node = find_node(client, wanted).await?;
    client.delete(&["v1", "nodes", &node.node_id]).await?;
    match context.console.format() {
        Format::Json => context.console.document(&json!({ "removed": node })),
        Format::People => {
            let name = named(&node.node_id, node.display_name.as_ref());
            context
                .console
                .line(&format!("removed {}", value::visible(&name)))
        }
    }
}

async fn nodes(client: &Client) -> Result<Vec<Answer<NodeBody>>, Failure> {
    client.list(&["v1", "nodes"], &Vec::new(), usize::MAX).await
}

async fn requests(client: &Client) -> Result<Vec<Answer<PairingBody>>, Failure> {
    client
        .list(&["v1", "nodes", "pairings"], &Vec::new(), usize::MAX)
        .await
}

/// The id of the node that a name, an id or a part of an id stands for. A node that is no longer paired is found by its full id alone.
pub(super) async fn node_id(client: &Client, wanted: String) -> Result<String, Failure> {
    if wanted.len() == WHOLE_ID {
        return Ok(wanted);
    }
    Ok(find_node(client, &wanted).await?.node_id.clone())
}

async fn find_node(client: &Client, wanted: &str) -> Result<Answer<NodeBody>, Failure> {
    pick_node(&nodes(client).await?, wanted).cloned()
}

/// The chosen node: the first rule that any node satisfies decides, and it must be satisfied by one alone.
fn pick_node<'a, N: Deref<Target = NodeBody>>(nodes: &'a [N], wanted: &str) -> Result<&'a N, Failure> {
    let plain = |text: &str| text.trim().to_lowercase();
    let rules: [&dyn Fn(&NodeBody) -> bool; 4] = [
        &|node| node.node_id == wanted,
        &|node| {
            let name = plain(text(node.display_name.as_ref()));
            !name.is_empty() && name == plain(wanted)
        },
        &|node| value::shown(node.remote_ip) == wanted && !wanted.is_empty(),
        &|node| {
            let part = wanted.to_ascii_lowercase();
            part.len() >= MIN_PART && (node.node_id.starts_with(&part) || node.node_id.ends_with(&part))
        },
    ];
    for rule in rules {
        let found: Vec<&N> = nodes.iter().filter(|node| rule(node)).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Ok(only),
            several => {
                let what = |node: &NodeBody| {
                    let platform = text(node.platform.as_ref());
                    let name = text(node.display_name.as_ref());
                    format!("{name} {platform} ({})", state_of(node))
                };
                let named = several.iter().map(|node| (node.node_id.clone(), what(node)));
                let several = format!("{} means several nodes", value::visible(wanted));
                return Err(ids::ambiguous("node-ambiguous", &several, named.collect()));
            }
        }
    }
    let is_short = wanted.len() < MIN_PART && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
    let short = if is_short {
        "; of an id give 6 characters or more"
    } else {
        ""
    };
    Err(Failure::new(
        "node-not-found",
        format!("no node matches {}{short}", value::visible(wanted)),
    )
    .hint("countersign nodes list"))
}

/// The request with this id, or this beginning or end of it. Never by a name: the node that asks chooses that.
fn pick_request<R: Deref<Target = PairingBody>>(mut requests: Vec<R>, wanted: &str) -> Result<R, Failure> {
    if let Some(exact) = requests.iter().position(|request| request.request_id == wanted) {
        return Ok(requests.swap_remove(exact));
    }
    if wanted.len() < SHORTEST_REQUEST_PART {
        let text = format!(
            "{} is too short: give {SHORTEST_REQUEST_PART} characters of the request's id or more",
            value::visible(wanted)
        );
        return Err(Failure::usage(text).hint(PAIRINGS));
    }
    let fits = |request: &R| request.request_id.starts_with(wanted) || request.request_id.ends_with(wanted);
    let mut found: Vec<R> = requests.into_iter().filter(fits).collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            found.push(last);
            let named = found.iter().map(|request| {
                let whose = named(&request.node_id, request.display_name.as_ref());
                (
                    request.request_id.clone(),
                    format!("{whose} wants {}", wish(request)),
                )
            });
            let several = format!(
                "{} begins or ends the ids of several requests; give more of it",
                value::visible(wanted)
            );
            Err(ids::ambiguous("request-ambiguous", &several, named.collect()).hint(PAIRINGS))
        }
        (None, _) => Err(Failure::new(
            "not-found",
            format!("no pairing request matches {}", value::visible(wanted)),
        )
        .hint(PAIRINGS)),
    }
}

/// Shows the requests that there are.
const PAIRINGS: &str = "countersign nodes pairings";

fn state_of(node: &NodeBody) -> &'static str {
    match (node.connected, node.paired) {
        (true, _) => "connected",
        (false, true) => "offline",
        (false, false) => "not paired",
    }
}

/// What a request is for, in a word or two.
fn wish(request: &PairingBody) -> &'static str {
    if request.kind == PairingKind::Commands {
        "more commands"
    } else if request.is_repair {
        "to connect again"
    } else {
        "to connect"
    }
}

/// A node or request by its name and the beginning of its id.
fn named(node_id: &str, display_name: Option<&String>) -> String {
    match text(display_name) {
        "" => ids::short_of_target(node_id).to_owned(),
        name => format!("{name} ({})", ids::short_of_target(node_id)),
    }
}

fn text(text: Option<&String>) -> &str {
    text.map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: char, name: &str, ip: &str) -> Answer<NodeBody> {
        let node = json!({ "nodeId": id.to_string().repeat(64), "displayName": name, "remoteIp": ip, "commands": [],
            "caps": [], "paired": true, "connected": false });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_node_is_named_by_id_name_address_or_prefix_and_must_be_one() {
        let all = || {
            vec![
                node('a', "Build Box", "192.0.2.1"),
                node('b', "laptop", "192.0.2.2"),
                node('c', "laptop", "192.0.2.2"),
                // Calls itself by the beginning of another's id.
                node('d', "aaaaaa", "192.0.2.3"),
            ]
        };
        let check = |wanted: &str, expected: Result<char, &str>| {
            let expected = expected
                .map(|id| id.to_string().repeat(WHOLE_ID))
                .map_err(str::to_owned);
            let all = all();
            let picked = pick_node(&all, wanted).map(|found| found.node_id.clone());
            assert_eq!(picked.map_err(|failure| failure.code), expected, "{wanted}");
        };
        check(&"a".repeat(64), Ok('a'));
        check(" build box", Ok('a'));
        check("192.0.2.3", Ok('d'));
        check("bbbbbb", Ok('b'));
        check("bbbbb", Err("node-not-found"));
        check("laptop", Err("node-ambiguous"));
        check("192.0.2.2", Err("node-ambiguous"));
        check("", Err("node-not-found"));
        check("aaaaaa", Ok('d'));
        check("AAAAAAA", Ok('a'));
    }

    #[test]
    fn an_ambiguous_name_lists_the_nodes_and_a_short_one_says_so() {
        let mut nodes = [node('b', "laptop", "192.0.2.2"), node('c', "laptop", "192.0.2.2")];
        nodes[1].body.node_id.replace_range(58.., "abcdef");
        assert_eq!(pick_node(&nodes, "abcdef").unwrap().node_id, nodes[1].node_id);
        let several = pick_node(&nodes, "laptop").unwrap_err().to_string();
        assert_eq!(
            several,
            "error[node-ambiguous]: laptop means several nodes\n\
             \x20 bbbbbbbb  laptop  (offline)\n\
             \x20 cccccccc  laptop  (offline)"
        );
        let short = pick_node(&nodes, "bbbbb").unwrap_err().to_string();
        assert!(short.contains("of an id give 6 characters or more"), "{short}");
        let unknown = pick_node(&nodes, "moon").unwrap_err().to_string();
        assert!(!unknown.contains("6 characters"), "{unknown}");
    }

    #[test]
    fn a_request_is_never_named_by_what_its_sender_chose() {
        let request = |id: &str| -> Answer<PairingBody> {
            let request = json!({ "requestId": id, "nodeId": "a", "displayName": "build-box", "kind": "device",
                "commands": [], "isRepair": false, "requestedAtMs": 0 });
            serde_json::from_value(request).unwrap()
        };
        let all = || vec![request("4f1c-1"), request("4f1c-2"), request("9a00-3")];
        let check = |wanted: &str, expected: Result<&str, &str>| {
            let picked = pick_request(all(), wanted);
            let picked = picked
                .as_ref()
                .map(|found| found.request_id.as_str())
                .map_err(|failure| failure.code.as_str());
            assert_eq!(picked, expected, "{wanted}");
        };
        check("4f1c-1", Ok("4f1c-1"));
        check("9a00", Ok("9a00-3"));
        check("9a0", Err("usage"));
        check("00-3", Ok("9a00-3"));
        check("4f1c", Err("request-ambiguous"));
        check("build-box", Err("not-found"));
    }
}
