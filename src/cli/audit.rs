//! `countersign audit`: the record, and the proof that nobody changed it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    client::{Client, Query},
    console::{Format, Tone},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    value,
};
use crate::{
    ledger::audit,
    settings::{SettingsStore, StartOptions},
};

/// Read and check the audit record
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign audit list --action token.created
  countersign audit verify
  countersign audit verify --offline      # without a server, on the ledger file
  countersign audit export > audit.jsonl")]
pub(crate) enum AuditCommand {
    /// List records
    #[command(after_help = "Examples:
  countersign audit list --action token.created
  countersign audit list --after-seq 10 --json")]
    List(ListArgs),
    /// Check that no record was edited, removed, reordered or forged; exit 1 if one was
    #[command(after_help = "Examples:
  countersign audit verify
  countersign audit verify --offline")]
    Verify {
        /// Read the ledger file of the state directory instead of asking the server
        #[arg(long)]
        offline: bool,
    },
    /// Print all records as JSON lines
    #[command(after_help = "Examples:
  countersign audit export > audit.jsonl")]
    Export,
}

/// Filters of the list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only records after this sequence number
    #[arg(long, value_name = "SEQ")]
    after_seq: Option<u64>,
    /// Only by this actor
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    /// Only of this action
    #[arg(long)]
    action: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 500)]
    limit: usize,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: AuditCommand) -> Result<ExitStatus, Failure> {
    match command {
        AuditCommand::List(args) => list(context, &context.client(Role::Operator)?, args).await,
        AuditCommand::Verify { offline: false } => {
            let client = context.client(Role::Operator)?;
            let report = client.get(&["v1", "audit", "verify"], &Vec::new()).await?;
            show_report(context, &report)
        }
        AuditCommand::Verify { offline: true } => show_report(context, &verify_file(context)?),
        AuditCommand::Export => export(context, &context.client(Role::Operator)?).await,
    }
}

async fn list(context: &Context, client: &Client, args: ListArgs) -> Result<ExitStatus, Failure> {
    let mut query: Query = Vec::new();
    query.extend(args.after_seq.map(|seq| ("afterSeq", seq.to_string())));
    query.extend(args.actor.map(|actor| ("actor", actor)));
    query.extend(args.action.map(|action| ("action", action)));
    let items = client.list(&["v1", "audit"], &query, args.limit).await?;
    if context.console.format() == Format::Json {
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::new(&["SEQ", "TIME", "ACTOR", "ACTION", "TARGET", "OUTCOME"]);
    for record in &items {
        let part = |object: &str, member: &str| {
            record
                .get(object)
                .map(|inner| value::text(inner, member))
                .unwrap_or_default()
        };
        table.row([
            value::text(record, "seq"),
            value::time(record, "ts"),
            part("actor", "name"),
            value::text(record, "action"),
            format!("{} {}", part("target", "kind"), part("target", "id")),
            value::text(record, "outcome"),
        ]);
    }
    context.console.table(&table, "no records")?;
    Ok(ExitStatus::SUCCESS)
}

fn show_report(context: &Context, report: &Value) -> Result<ExitStatus, Failure> {
    let ok = report.get("ok") == Some(&Value::Bool(true));
    let exit = if ok {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    };
    if context.console.format() == Format::Json {
        context.console.document(report)?;
        return Ok(exit);
    }
    if ok {
        let text = format!(
            "{} {} records, {} to {}, nothing was changed",
            context.console.paint(Tone::Good, "ok:"),
            value::text(report, "records"),
            value::text(report, "firstSeq"),
            value::text(report, "lastSeq")
        );
        context.console.line(&text)?;
        return Ok(exit);
    }
    let problem = report.get("problem").unwrap_or(&Value::Null);
    let (kind, seq) = (value::string(problem, "kind"), value::text(problem, "seq"));
    Err(Failure::new(
        "audit-broken",
        format!("the audit record was tampered with: {kind} at record {seq}"),
    )
    .hint("keep a copy of the ledger and of countersign/audit.head before anything else writes to them"))
}

/// Verifies the ledger file, whether a server uses it or not. Broken settings do not matter here.
fn verify_file(context: &Context) -> Result<Value, Failure> {
    let state_dir = context.state_dir()?;
    let environment = Arc::clone(&context.environment);
    let ledger = SettingsStore::load(state_dir.clone(), &StartOptions::default(), environment).map_or_else(
        |_broken| state_dir.countersign().join("countersign.db"),
        |settings| state_dir.ledger(&settings.current().server),
    );
    let verified = audit::verify(&ledger, &state_dir.audit_key(), &state_dir.audit_head());
    let audit::Verification {
        records,
        first_seq,
        last_seq,
        head,
        problem,
    } = verified.map_err(|error| {
        let cause = std::error::Error::source(&error)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        Failure::new(
            "audit-unreadable",
            format!("{error}{cause} ({})", ledger.display()),
        )
        .hint("has a server run on this state directory? --state-dir names another")
    })?;
    let mut report = Map::new();
    report.insert("ok".to_owned(), json!(problem.is_none()));
    report.insert("records".to_owned(), json!(records));
    let mut member = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            report.insert(name.to_owned(), value);
        }
    };
    member("firstSeq", first_seq.map(Value::from));
    member("lastSeq", last_seq.map(Value::from));
    member(
        "head",
        head.map(|head| json!({"seq": head.seq, "hash": head.hash, "sealedAtMs": head.sealed_at})),
    );
    member(
        "problem",
        problem.map(|problem| json!({"seq": problem.seq, "kind": problem.kind})),
    );
    Ok(Value::Object(report))
}

async fn export(context: &Context, client: &Client) -> Result<ExitStatus, Failure> {
    let mut after = 0;
    loop {
        // By sequence number, not by cursor: a page is printed before the next one is asked for.
        let query = vec![("afterSeq", after.to_string())];
        let page = client.list(&["v1", "audit"], &query, 500).await?;
        for record in &page {
            context.console.json_line(record)?;
        }
        match page
            .last()
            .and_then(|record| record.get("seq"))
            .and_then(Value::as_u64)
        {
            Some(last) if last > after => after = last,
            _ => return Ok(ExitStatus::SUCCESS),
        }
    }
}
