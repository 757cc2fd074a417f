//! `countersign nodes`: the machines that run commands for this server, and those that want to.

use serde_json::{Value, json};

use super::{
    client::Client, console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure,
    table::Table, value,
};

/// A beginning of a node id that is shorter than this names nobody.
const SHORTEST_PREFIX: usize = 6;
/// The same for requests, whose ids are shorter-lived and shown whole.
const SHORTEST_REQUEST_PREFIX: usize = 4;
/// How much of a node id the list shows: enough for a prefix, and nobody compares 64 characters.
const SHOWN_ID: usize = 12;

/// See the nodes, and decide which machines become one
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign nodes list
  countersign nodes pairings
  countersign nodes approve 4f1c9a52
  countersign nodes rename build-box 'Build box'
  countersign nodes remove build-box

A NODE is its id, a unique beginning of it (6 characters or more), its name or its address.
Approving a request lets the device connect, and be sent the commands that the request lists. A
node that offers more of them later asks again.")]
pub(crate) enum NodesCommand {
    /// List the paired nodes
    #[command(after_help = "Examples:
  countersign nodes list
  countersign nodes list --json")]
    List,
    /// Show one node whole
    #[command(after_help = "Examples:
  countersign nodes show build-box")]
    Show {
        /// The node
        node: String,
    },
    /// List what waits for a decision: devices that want to connect, commands that nodes want to offer
    #[command(after_help = "Examples:
  countersign nodes pairings")]
    Pairings,
    /// Let a device connect and be sent the commands that it offers
    #[command(after_help = "Examples:
  countersign nodes pairings
  countersign nodes approve 4f1c9a52")]
    Approve {
        /// The request's id, or a unique beginning of it
        request: String,
    },
    /// Turn a pairing request down
    #[command(after_help = "Examples:
  countersign nodes reject 4f1c9a52")]
    Reject {
        /// The request's id, or a unique beginning of it
        request: String,
    },
    /// Give a node another name
    #[command(after_help = "Examples:
  countersign nodes rename build-box 'Build box, second floor'")]
    Rename {
        /// The node
        node: String,
        /// Its new name
        name: String,
    },
    /// Unpair a node: it is disconnected at once and must be let in again
    #[command(after_help = "Examples:
  countersign nodes remove build-box")]
    Remove {
        /// The node
        node: String,
    },
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
enum Decision {
    Approve,
    Reject,
}

pub(crate) async fn run(context: &Context, command: NodesCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        NodesCommand::List => list(context, &client).await?,
        NodesCommand::Show { node } => show(context, &find_node(&client, &node).await?)?,
        NodesCommand::Pairings => pairings(context, &client).await?,
        NodesCommand::Approve { request } => {
            decide(context, &client, &request, Decision::Approve).await?;
        }
        NodesCommand::Reject { request } => {
            decide(context, &client, &request, Decision::Reject).await?;
        }
        NodesCommand::Rename { node, name } => rename(context, &client, &node, &name).await?,
        NodesCommand::Remove { node } => remove(context, &client, &node).await?,
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(context: &Context, client: &Client) -> Result<(), Failure> {
    let items = nodes(client).await?;
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
    ]);
    for node in &items {
        table.row([
            short(value::string(node, "nodeId")).to_owned(),
            value::text(node, "displayName"),
            state(node).to_owned(),
            value::text(node, "platform"),
            value::text(node, "version"),
            value::text(node, "remoteIp"),
            value::time(node, "lastSeenAtMs"),
        ]);
    }
    context.console.table(&table, "no nodes are paired")?;
    if items.is_empty() {
        context
            .console
            .hint("countersign nodes pairings   (what wants to be one)");
    }
    Ok(())
}

fn show(context: &Context, node: &Value) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        return context.console.document(node);
    }
    let mut table = Table::without_header();
    table.fact("id", value::string(node, "nodeId"));
    table.fact("name", value::string(node, "displayName"));
    table.fact("state", state(node));
    for (member, name) in [
        ("platform", "platform"),
        ("version", "version"),
        ("remoteIp", "address"),
        ("protocol", "protocol"),
        ("commands", "commands"),
        ("caps", "caps"),
    ] {
        table.fact(name, &value::text(node, member));
    }
    for (member, name) in [
        ("connectedAtMs", "connected since"),
        ("lastSeenAtMs", "last seen"),
    ] {
        table.fact(name, &value::time(node, member));
    }
    context.console.table(&table, "")
}

async fn pairings(context: &Context, client: &Client) -> Result<(), Failure> {
    let items = requests(client).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&[
        "REQUEST", "WANTS", "NODE", "NAME", "PLATFORM", "ADDRESS", "SINCE", "COMMANDS",
    ]);
    for request in &items {
        table.row([
            value::text(request, "requestId"),
            wish(request).to_owned(),
            short(value::string(request, "nodeId")).to_owned(),
            value::text(request, "displayName"),
            value::text(request, "platform"),
            value::text(request, "remoteIp"),
            value::time(request, "requestedAtMs"),
            value::text(request, "commands"),
        ]);
    }
    context.console.table(&table, "nothing waits for a decision")?;
    if let Some(first) = items.first() {
        let id = value::visible(value::string(first, "requestId"));
        context.console.hint(&format!(
            "countersign nodes approve {}   (or reject)",
            value::quoted(&id)
        ));
    }
    Ok(())
}

async fn decide(context: &Context, client: &Client, wanted: &str, decision: Decision) -> Result<(), Failure> {
    let request = find_request(client, wanted).await?;
    let id = value::string(&request, "requestId");
    let (word, done) = match decision {
        Decision::Approve => ("approve", "approved"),
        Decision::Reject => ("reject", "rejected"),
    };
    let answer = client
        .post(
            &["v1", "nodes", "pairings", id, "decision"],
            &json!({ "decision": word }),
        )
        .await?;
    if context.console.format() == Format::Json {
        return context.console.document(&answer);
    }
    let whose = named(&request);
    let what = match value::string(&request, "kind") {
        "commands" => format!("more commands of {whose}"),
        _ => format!("the device {whose}"),
    };
    context
        .console
        .line(&format!("{done} {}", value::visible(&what)))?;
    if matches!(decision, Decision::Approve) {
        let commands = value::visible(&value::text(&request, "commands"));
        context.console.note(&format!("it may be sent: {commands}"));
    }
    Ok(())
}

async fn rename(context: &Context, client: &Client, wanted: &str, name: &str) -> Result<(), Failure> {
    let node = find_node(client, wanted).await?;
    let id = value::string(&node, "nodeId");
    let renamed = client
        .patch(&["v1", "nodes", id], &json!({ "displayName": name }))
        .await?;
    match context.console.format() {
        Format::Json => context.console.document(&renamed),
        Format::People => context.console.line(&format!(
            "{} is now called {}",
            value::visible(short(id)),
            value::visible(value::string(&renamed, "displayName"))
        )),
    }
}

async fn remove(context: &Context, client: &Client, wanted: &str) -> Result<(), Failure> {
    let node = find_node(client, wanted).await?;
    client
        .delete(&["v1", "nodes", value::string(&node, "nodeId")])
        .await?;
    match context.console.format() {
        Format::Json => context.console.document(&json!({ "removed": node })),
        Format::People => context
            .console
            .line(&format!("removed {}", value::visible(&named(&node)))),
    }
}

async fn nodes(client: &Client) -> Result<Vec<Value>, Failure> {
    client.list(&["v1", "nodes"], &Vec::new(), usize::MAX).await
}

async fn requests(client: &Client) -> Result<Vec<Value>, Failure> {
    client
        .list(&["v1", "nodes", "pairings"], &Vec::new(), usize::MAX)
        .await
}

async fn find_node(client: &Client, wanted: &str) -> Result<Value, Failure> {
    pick_node(&nodes(client).await?, wanted)
}

/// The chosen node: the first rule that any node satisfies decides, and it must be satisfied by one alone.
fn pick_node(nodes: &[Value], wanted: &str) -> Result<Value, Failure> {
    let plain = |text: &str| text.trim().to_lowercase();
    let rules: [&dyn Fn(&Value) -> bool; 4] = [
        &|node| value::string(node, "nodeId") == wanted,
        &|node| {
            let name = plain(value::string(node, "displayName"));
            !name.is_empty() && name == plain(wanted)
        },
        &|node| value::string(node, "remoteIp") == wanted,
        &|node| wanted.len() >= SHORTEST_PREFIX && value::string(node, "nodeId").starts_with(wanted),
    ];
    for rule in rules {
        let found: Vec<&Value> = nodes.iter().filter(|node| rule(node)).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Ok(Value::clone(only)),
            several => {
                let ids: Vec<&str> = several
                    .iter()
                    .map(|node| short(value::string(node, "nodeId")))
                    .collect();
                return Err(Failure::new(
                    "node-ambiguous",
                    format!("several nodes are meant by {}", value::visible(wanted)),
                )
                .hint(format!("name one by its id: {}", ids.join(", "))));
            }
        }
    }
    Err(Failure::new(
        "node-not-found",
        format!("no node matches {}", value::visible(wanted)),
    )
    .hint("countersign nodes list"))
}

async fn find_request(client: &Client, wanted: &str) -> Result<Value, Failure> {
    pick_request(requests(client).await?, wanted)
}

/// The request with this id, or this beginning of it. Never by a name: the node that asks chooses that.
fn pick_request(requests: Vec<Value>, wanted: &str) -> Result<Value, Failure> {
    let id = |request: &Value| value::string(request, "requestId").to_owned();
    if let Some(exact) = requests.iter().find(|request| id(request) == wanted) {
        return Ok(exact.clone());
    }
    let long_enough = wanted.len() >= SHORTEST_REQUEST_PREFIX;
    let mut found = requests
        .into_iter()
        .filter(|request| long_enough && id(request).starts_with(wanted));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Failure::new(
            "request-ambiguous",
            format!("several requests begin with {}", value::visible(wanted)),
        )
        .hint("give more characters of the id")),
        (None, _) => Err(Failure::new(
            "not-found",
            format!("no pairing request matches {}", value::visible(wanted)),
        )
        .hint("countersign nodes pairings")),
    }
}

fn state(node: &Value) -> &'static str {
    let is = |member: &str| node.get(member) == Some(&Value::Bool(true));
    match (is("connected"), is("paired")) {
        (true, _) => "connected",
        (false, true) => "offline",
        (false, false) => "not paired",
    }
}

/// What a request is for, in a word or two.
fn wish(request: &Value) -> &'static str {
    match (value::string(request, "kind"), request.get("isRepair")) {
        ("commands", _) => "more commands",
        (_, Some(Value::Bool(true))) => "to connect again",
        _ => "to connect",
    }
}

/// A node or request by its name and the beginning of its id.
fn named(object: &Value) -> String {
    let id = short(value::string(object, "nodeId"));
    match value::string(object, "displayName") {
        "" => id.to_owned(),
        name => format!("{name} ({id})"),
    }
}

fn short(id: &str) -> &str {
    id.get(..SHOWN_ID).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: char, name: &str, ip: &str) -> Value {
        json!({ "nodeId": id.to_string().repeat(64), "displayName": name, "remoteIp": ip })
    }

    fn code(result: Result<Value, Failure>) -> Result<String, String> {
        result
            .map(|found| short(value::string(&found, "nodeId")).to_owned())
            .map_err(|failure| failure.code)
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
                .map(|id| id.to_string().repeat(SHOWN_ID))
                .map_err(str::to_owned);
            assert_eq!(code(pick_node(&all(), wanted)), expected, "{wanted}");
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
    }

    #[test]
    fn a_request_is_never_named_by_what_its_sender_chose() {
        let request = |id: &str| json!({ "requestId": id, "displayName": "build-box", "kind": "device" });
        let all = || vec![request("4f1c-1"), request("4f1c-2"), request("9a00-3")];
        let check = |wanted: &str, expected: Result<&str, &str>| {
            let picked = pick_request(all(), wanted);
            let picked = picked
                .as_ref()
                .map(|found| value::string(found, "requestId"))
                .map_err(|failure| failure.code.as_str());
            assert_eq!(picked, expected, "{wanted}");
        };
        check("4f1c-1", Ok("4f1c-1"));
        check("9a00", Ok("9a00-3"));
        check("9a0", Err("not-found"));
        check("4f1c", Err("request-ambiguous"));
        check("build-box", Err("not-found"));
    }
}
