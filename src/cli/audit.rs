//! `countersign audit`: the record, and the proof that nobody changed it.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use countersign_config::settings::{SettingsStore, StartOptions, StateDir};
use countersign_domain::Actor;
use countersign_http::verification_body;
use countersign_ledger::audit::{self, ProblemKind};
use countersign_sys::clock::SystemIds;
use countersign_wire::audit::{AuditBody, HeadBody, ProblemBody, TargetBody, VerificationBody};

use super::{
    client::{Answer, Client, Query},
    console::{Format, Tone},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    layout::{self, Layout},
    moment::Period,
    state,
    table::Table,
    value,
};

/// Read and check the audit record
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign audit list --action token.created
  countersign audit verify
  countersign audit verify --offline      # without a server, on the ledger file
  countersign audit export > audit.jsonl")]
pub(crate) enum AuditCommand {
    /// List records, the newest first
    #[command(after_help = "Examples:
  countersign audit list --action token.created
  countersign audit list --since 1d --until 2h
  countersign audit list --oldest-first --after-seq 10 --json")]
    #[command(alias = "ls")]
    List(ListArgs),
    /// Check that no record was edited, removed, reordered or forged; exit 1 if one was
    #[command(after_help = "Examples:
  countersign audit verify
  countersign audit verify --offline

The newest head of the record is published to the system log while the server runs. --witness
/var/log/auth.log compares the ledger file with the heads in such a log, or in lines `seq hash`:
a history that was rewritten with the key lacks them.")]
    Verify {
        /// Read the ledger file of the state directory instead of asking the server
        #[arg(long)]
        offline: bool,
        /// Compare the ledger file with heads that a system log has seen
        #[arg(long, value_name = "FILE")]
        witness: Option<PathBuf>,
    },
    /// Put a broken record away and begin a new one; the server must be stopped
    #[command(after_help = "Examples:
  countersign audit reset --reason 'restored from the backup of Monday'

What is left of the broken record goes to countersign/audit-broken-TIME.jsonl in the state directory.
The new one begins behind a sealed anchor, with a record of who began it and why.")]
    Reset {
        /// Why, for those who read the record
        #[arg(long, value_name = "TEXT")]
        reason: String,
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
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    layout: Layout,
    /// The oldest first
    #[arg(long)]
    oldest_first: bool,
    /// At most this many
    #[arg(long, default_value_t = 500, value_parser = layout::parse_limit)]
    limit: usize,
}

pub(crate) async fn run(context: &Context, command: AuditCommand) -> Result<ExitStatus, Failure> {
    match command {
        AuditCommand::List(args) => list(context, &context.client(Role::Operator)?, args).await,
        AuditCommand::Verify {
            witness: Some(witness),
            ..
        } => verify_file(context, Some(&witness)),
        AuditCommand::Verify { offline: false, .. } => {
            let client = context.client(Role::Operator)?;
            let report: Answer<VerificationBody> =
                client.get(&["v1", "audit", "verify"], &Vec::new()).await?;
            show_report(context, &report.raw, &report, None)
        }
        AuditCommand::Verify { offline: true, .. } => verify_file(context, None),
        AuditCommand::Reset { reason } => reset(context, &reason),
        AuditCommand::Export => export(context, &context.client(Role::Operator)?).await,
    }
}

async fn list(context: &Context, client: &Client, args: ListArgs) -> Result<ExitStatus, Failure> {
    let layout = args.layout;
    let mut query: Query = Vec::new();
    query.extend(args.after_seq.map(|seq| ("afterSeq", seq.to_string())));
    query.extend(args.actor.map(|actor| ("actor", actor)));
    query.extend(args.action.map(|action| ("action", action)));
    query.extend(args.period.query(context.clock.now()));
    if !args.oldest_first {
        query.push(("order", "newest".to_owned()));
    }
    let items: Vec<Answer<AuditBody>> = client.list(&["v1", "audit"], &query, args.limit).await?;
    if context.console.format() == Format::Json {
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::new(&["SEQ", "TIME", "ACTOR", "ACTION", "OUTCOME", "TARGET"])
        .plainly("OUTCOME", "ok")
        .with_states("OUTCOME", state::tone);
    for record in &items {
        table.row([
            &record.seq.to_string(),
            &layout.time(context, record.ts),
            &record.actor.name,
            &record.action,
            &*record.outcome,
            &format!("{} {}", record.target.kind, layout.target(&record.target.id)),
        ]);
    }
    let ids = items.iter().map(|record| record.seq.to_string());
    layout.print(context, ids, &table, "no records")?;
    Ok(ExitStatus::SUCCESS)
}

/// What comparing with a witness found.
#[derive(serde::Serialize)]
struct WitnessReport {
    confirmed: u64,
    pruned: u64,
    /// What the witness says is told of a chain that is whole in itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

fn show_report(
    context: &Context,
    document: &Value,
    report: &VerificationBody,
    witness: Option<&WitnessReport>,
) -> Result<ExitStatus, Failure> {
    let exit = if report.ok {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    };
    if context.console.format() == Format::Json {
        context.console.document(document)?;
        return Ok(exit);
    }
    let Some(ProblemBody { seq, kind, target }) = &report.problem else {
        let text = format!(
            "{} {} records, {} to {}, in order and unchanged",
            context.console.paint(Tone::Good, "ok:"),
            report.records,
            report.first_seq,
            report.last_seq
        );
        context.console.line(&text)?;
        if let Some(HeadBody { seq, hash, .. }) = &report.head {
            let rest = report.last_seq.saturating_sub(*seq);
            let rest = match rest {
                0 => String::new(),
                rest => format!(
                    "; {} after it will be sealed soon",
                    value::counted(usize::try_from(rest).unwrap_or_default(), "record")
                ),
            };
            context
                .console
                .line(&format!("sealed up to {seq}: {hash}{rest}"))?;
        }
        if let Some(WitnessReport {
            confirmed, pruned, ..
        }) = witness
        {
            let text = format!("witness: {confirmed} heads confirmed, {pruned} of pruned records");
            context.console.line(&text)?;
        }
        return Ok(exit);
    };
    if witness.is_some_and(|witness| witness.problem.is_some()) {
        return Err(Failure::new(
            "audit-rewritten",
            format!("the audit record is not the one that the witness saw: {kind} at record {seq}"),
        )
        .advice("the history was rewritten by a program that has the key; keep the witness and a copy of the ledger"));
    }
    if *kind == ProblemKind::Forgotten.as_str() {
        let which = target.as_ref().map_or("", |target| target.id.as_str());
        return Err(Failure::new(
            "audit-forgotten",
            format!(
                "the ledger lost the records of runs that were started; the first is {} (record {seq})",
                value::visible(which)
            ),
        )
        .hint(
            "countersign runs list --status lost   (shows them: power was lost, or a file of the ledger; countersign audit \
             reset --reason TEXT begins a new record)",
        ));
    }
    let at = match target {
        None => format!("{kind} at record {seq}"),
        Some(TargetBody { kind: what, id }) => {
            format!("{kind}, {what} {id} is not what its records say (record {seq})")
        }
    };
    Err(Failure::new(
        "audit-broken",
        format!("the audit record was tampered with: {}", value::visible(&at)),
    )
    .advice("keep a copy of the ledger and of countersign/audit.head before anything else writes to them"))
}

/// Where the ledger is. Broken settings do not matter here.
fn ledger_file(context: &Context, state_dir: &StateDir) -> PathBuf {
    let environment = Arc::clone(&context.environment);
    SettingsStore::load(state_dir.clone(), &StartOptions::default(), environment).map_or_else(
        |_broken| state_dir.countersign().join("countersign.db"),
        |settings| state_dir.ledger(&settings.current().server),
    )
}

/// Puts a broken record away and begins a new one.
fn reset(context: &Context, reason: &str) -> Result<ExitStatus, Failure> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(Failure::usage("say why with --reason"));
    }
    let state_dir = context.state_dir()?;
    let ledger = ledger_file(context, &state_dir);
    let paths = audit::LedgerPaths {
        ledger: &ledger,
        key: &state_dir.audit_key(),
        head: &state_dir.audit_head(),
    };
    let by = Actor::state_directory();
    let done = audit::reset(paths, &*context.clock, &SystemIds, &by, reason).map_err(|error| {
        let cause = std::error::Error::source(&error)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        let failure = Failure::new(
            "audit-not-reset",
            format!("{error}{cause} ({})", ledger.display()),
        );
        let advice = match &error {
            audit::ResetError::IsWhole => return failure.hint("countersign audit verify --offline"),
            audit::ResetError::Open(_)
            | audit::ResetError::Verify(_)
            | audit::ResetError::Keep { .. }
            | audit::ResetError::Ledger(_) => "stop the server first; nothing was changed",
            audit::ResetError::Seal(_) => {
                "make room or repair the file, then reset again: the new chain may have begun"
            }
        };
        failure.advice(advice)
    })?;
    let audit::Reset {
        problem,
        kept,
        records,
        first_seq,
    } = done;
    match context.console.format() {
        Format::Json => context.console.document(&json!({
            "problem": {"seq": problem.seq, "kind": problem.kind},
            "kept": kept,
            "records": records,
            "firstSeq": first_seq,
        }))?,
        Format::People => context.console.line(&format!(
            "a new audit record begins at {first_seq}; the {records} records of the old one are in {}",
            value::visible(&kept.display().to_string())
        ))?,
    }
    Ok(ExitStatus::SUCCESS)
}

/// Verifies the ledger file, whether a server uses it or not.
fn verify_file(context: &Context, witness: Option<&Path>) -> Result<ExitStatus, Failure> {
    let heads = witness.map(read_witness).transpose()?;
    let state_dir = context.state_dir()?;
    let ledger = ledger_file(context, &state_dir);
    let (key, head) = (state_dir.audit_key(), state_dir.audit_head());
    let verified = match &heads {
        None => audit::verify(&ledger, &key, &head).map(|verification| (verification, None)),
        Some(heads) => audit::verify_with_witness(&ledger, &key, &head, heads)
            .map(|(verification, witnessed)| (verification, Some(witnessed))),
    };
    let (mut verification, witnessed) = verified.map_err(|error| {
        let cause = std::error::Error::source(&error)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        Failure::new(
            "audit-unreadable",
            format!("{error}{cause} ({})", ledger.display()),
        )
        .advice("has a server run on this state directory? --state-dir names another")
    })?;
    let is_whole = verification.is_ok();
    let rewritten = witnessed.as_ref().and_then(|witnessed| witnessed.problem.clone());
    verification.problem = verification.problem.or(rewritten);
    let report = verification_body(verification);
    let witness = witnessed.map(|witnessed| WitnessReport {
        confirmed: witnessed.confirmed,
        pruned: witnessed.pruned,
        problem: report.problem.clone().filter(|_| is_whole),
    });
    let mut document = json!(report);
    if let (Some(witness), Some(members)) = (&witness, document.as_object_mut()) {
        members.insert("witness".to_owned(), json!(witness));
    }
    show_report(context, &document, &report, witness.as_ref())
}

fn read_witness(path: &Path) -> Result<Vec<audit::WitnessedHead>, Failure> {
    let heads = File::open(path).and_then(|file| audit::read_witness(BufReader::new(file)));
    let heads = heads.map_err(|error| {
        Failure::new(
            "witness-unreadable",
            format!("{} cannot be read: {error}", path.display()),
        )
    })?;
    // Nothing to compare with must not look like a record that was compared.
    if heads.is_empty() {
        return Err(Failure::new(
            "witness-empty",
            format!("{} has no published heads", path.display()),
        )
        .advice("heads are lines with: audit head SEQ HASH; or SEQ HASH alone"));
    }
    Ok(heads)
}

async fn export(context: &Context, client: &Client) -> Result<ExitStatus, Failure> {
    let mut after = 0;
    loop {
        // By sequence number, not by cursor: a page is printed before the next one is asked for.
        let query = vec![("afterSeq", after.to_string())];
        let page: Vec<Answer<AuditBody>> = client.list(&["v1", "audit"], &query, 500).await?;
        for record in &page {
            context.console.json_line(&record.raw)?;
        }
        match page.last() {
            Some(last) if last.seq > after => after = last.seq,
            _ => return Ok(ExitStatus::SUCCESS),
        }
    }
}
