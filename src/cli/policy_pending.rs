//! `countersign policy diff`, `accept`, `reject` and `history`: pending policy changes, and who changed what when.
//!
//! Shows what the server answers and must never decide itself what a change allows: that is
//! [`countersign_policy::pending_change`].

use std::cmp::Reverse;

use serde_json::{Value, json};

use countersign_domain::{ActorKind, UnixMillis};
use countersign_wire::{
    audit::AuditBody,
    policy::{ChangeBody, EffectiveBody, HeldBody},
    sentence,
};

use super::{
    client::{Answer, Client, Query},
    console::{Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    layout::{self, Layout},
    moment::{self, Period},
    table::Table,
    value,
};

/// Which edit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy diff
  countersign policy accept

With a hash only that edit is accepted. Without one, what `countersign policy diff` shows is
accepted: of both files, if an edit of each is held.")]
pub(crate) struct AcceptArgs {
    /// The hash that `policy diff` shows
    hash: Option<String>,
}

/// Which edit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy diff
  countersign policy reject

Without a hash the one change that is held is rejected. All of it is undone, also what it took away.
An admin can reject any change, and the one who made it can take it back. countersign.toml stays as
it is: what it loosens never takes effect, and you set it back in the file.")]
pub(crate) struct RejectArgs {
    /// The hash that `policy diff` shows
    hash: Option<String>,
}

/// How far back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy history
  countersign policy history --since 2026-11-23
  countersign policy history --limit 20 --json

The record has no author of a change that was made by editing a file. --json prints the records.")]
pub(crate) struct HistoryArgs {
    /// At most this many
    #[arg(long, default_value_t = 100, value_parser = layout::parse_limit)]
    limit: usize,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    layout: Layout,
}

/// What the audit record says of changes of policy.
const ACTIONS: [&str; 8] = [
    "policy.changed",
    "allowlist.changed",
    "config.changed",
    "config.rejected",
    "config.restart-needed",
    "document.replaced",
    "document.refused",
    "document.held",
];

/// The file that a server reads and never writes.
const SERVER_FILE: &str = "countersign.toml";

/// An edit that is held, with the file that it is of.
struct HeldEdit {
    file: &'static str,
    edit: HeldBody,
    /// The edit as the server tells of it.
    raw: Value,
}

/// Shows what held edits would newly allow.
pub(crate) async fn diff(context: &Context, client: &Client) -> Result<ExitStatus, Failure> {
    let edits = held(client).await?;
    if context.console.format() == Format::Json {
        let members = edits.iter().map(|held| (held.file.to_owned(), held.raw.clone()));
        context.console.document(&members.collect())?;
        return Ok(ExitStatus::SUCCESS);
    }
    if edits.is_empty() {
        context.console.line("nothing is held")?;
    }
    for held in &edits {
        show(context, held)?;
    }
    if let Some(held) = edits.first() {
        context.console.hint(&format!(
            "countersign policy accept {}   (lets it take effect)",
            held.edit.hash
        ));
        context.console.hint(&format!(
            "countersign policy reject {}   (undoes it)",
            held.edit.hash
        ));
    }
    Ok(ExitStatus::SUCCESS)
}

pub(crate) async fn accept(
    context: &Context,
    client: &Client,
    args: AcceptArgs,
) -> Result<ExitStatus, Failure> {
    let hashes = if let Some(hash) = args.hash {
        vec![hash]
    } else {
        let edits = held(client).await?;
        for held in &edits {
            show(context, held)?;
        }
        edits.into_iter().map(|held| held.edit.hash).collect()
    };
    let mut document = Value::Null;
    for hash in &hashes {
        let path = ["v1", "policy", "document", "accept"];
        document = client.post(&path, &json!({ "hash": hash })).await?;
    }
    if context.console.format() == Format::Json {
        context
            .console
            .document(&json!({ "accepted": hashes, "document": document }))?;
    } else if hashes.is_empty() {
        context.console.line("nothing is held")?;
    } else {
        for hash in &hashes {
            context
                .console
                .line(&format!("accepted: {}", value::visible(hash)))?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

pub(crate) async fn reject(
    context: &Context,
    client: &Client,
    RejectArgs { hash }: RejectArgs,
) -> Result<ExitStatus, Failure> {
    let hash = match hash {
        Some(hash) => Some(hash),
        None => only_one(held(client).await?)?,
    };
    let mut document = Value::Null;
    if let Some(hash) = &hash {
        let path = ["v1", "policy", "document", "reject"];
        document = client.post(&path, &json!({ "hash": hash })).await?;
    }
    if context.console.format() == Format::Json {
        context
            .console
            .document(&json!({ "rejected": hash, "document": document }))?;
    } else {
        let words = hash.map_or_else(
            || "nothing is held".to_owned(),
            |hash| format!("rejected: {}", value::visible(&hash)),
        );
        context.console.line(&words)?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// The hash of the one change that can be rejected; `None` where none is held.
fn only_one(held: Vec<HeldEdit>) -> Result<Option<String>, Failure> {
    let mut all = held.into_iter();
    let first = all.next().map(|held| held.edit.hash);
    if all.next().is_some() {
        return Err(Failure::usage(
            "several changes are held: name one by its hash (countersign policy diff)",
        ));
    }
    Ok(first)
}

/// Lists changes of policy from the audit record, in sentences.
pub(crate) async fn history(
    context: &Context,
    client: &Client,
    args: HistoryArgs,
) -> Result<ExitStatus, Failure> {
    let mut records: Vec<Answer<AuditBody>> = Vec::new();
    for action in ACTIONS {
        let mut query: Query = vec![("action", action.to_owned()), ("order", "newest".to_owned())];
        query.extend(args.period.query(context.clock.now()));
        records.extend(client.list(&["v1", "audit"], &query, args.limit).await?);
    }
    records.sort_by_key(|record| Reverse(record.seq));
    records.truncate(args.limit);
    if context.console.format() == Format::Json {
        context.console.document(&json!({ "items": records }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::new(&["SEQ", "TIME", "WHO", "WHAT"]);
    // A change of keys has a record of what it was and one of the event, one after the other.
    let is_told = |record: &AuditBody| {
        let is_event =
            record.action == "policy.changed" && record.detail.get("what") == Some(&json!("config"));
        let before = records.iter().find(|other| other.seq + 1 == record.seq);
        is_event && before.is_some_and(|other| other.action == "config.changed")
    };
    for record in records.iter().filter(|record| !is_told(record)) {
        // What the server noticed by itself was done by someone else.
        let is_system = record.actor.kind == ActorKind::System;
        let by = (!is_system).then(|| json!({ "name": record.actor.name }));
        let who = by
            .as_ref()
            .map_or_else(String::new, |_by| record.actor.name.clone());
        let what = sentence::of_policy_record(&record.action, by.as_ref(), &record.detail);
        // Who did it has a column of its own.
        let what = what
            .strip_prefix(&format!("{} ", sentence::one_line(&who)))
            .unwrap_or(&what);
        table.row([
            record.seq.to_string().as_str(),
            &args.layout.time(context, record.ts),
            &who,
            what,
        ]);
    }
    let ids = records.iter().map(|record| record.seq.to_string());
    args.layout.print(context, ids, &table, "no changes")?;
    Ok(ExitStatus::SUCCESS)
}

async fn held(client: &Client) -> Result<Vec<HeldEdit>, Failure> {
    let policy: Answer<EffectiveBody> = client.get(&["v1", "policy", "effective"], &Vec::new()).await?;
    let Answer { body, raw } = policy;
    let held = [
        (
            "exec-approvals.json",
            body.document.held,
            raw.pointer("/document/held"),
        ),
        ("openclaw.json", body.config_held, raw.get("configHeld")),
        (SERVER_FILE, body.server_held, raw.get("serverHeld")),
    ];
    let held = held.into_iter();
    Ok(held
        .filter_map(|(file, edit, raw)| {
            Some(HeldEdit {
                file,
                edit: edit?,
                raw: raw?.clone(),
            })
        })
        .collect())
}

fn show(context: &Context, held: &HeldEdit) -> Result<(), Failure> {
    let HeldEdit {
        file,
        edit:
            HeldBody {
                hash,
                since_ms,
                allows,
                proposed_by,
                changes,
                more_changes,
            },
        raw: _,
    } = held;
    let console = &context.console;
    let since = moment::with_zone(UnixMillis::new(*since_ms));
    let title = if proposed_by.is_empty() {
        format!("{file} was edited from outside ({since}); it would newly allow:")
    } else {
        let names: Vec<&str> = proposed_by.iter().map(|actor| actor.name.as_str()).collect();
        let names = names.join(", ");
        format!("{file} was changed by {names} ({since}) and waits for another person; it would newly allow:")
    };
    console.line(&console.paint(Tone::Caution, &title))?;
    for line in allows {
        console.line(&format!("  + {line}"))?;
    }
    if !changes.is_empty() {
        console.line("  It changes:")?;
    }
    let words = |text: &Option<String>| {
        text.as_deref()
            .map_or_else(|| "not set".to_owned(), value::visible)
    };
    for ChangeBody { what, before, after } in changes {
        let (before, after) = (words(before), words(after));
        console.line(&format!("  {}: {before} -> {after}", value::visible(what)))?;
    }
    if *more_changes > 0 {
        console.line(&format!("  and {more_changes} more"))?;
    }
    console.line(&format!("  hash {}", value::visible(hash)))
}
