//! `countersign approvals`: what waits for a person, and the answer.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use countersign_domain::{AgentId, ApprovalDecision, ApprovalStatus, IdPart, SessionKey, UnixMillis};
use countersign_protocol::ByName;
use countersign_wire::{
    analysis::SegmentBody,
    approval::{
        ApprovalBody, ApprovalBriefBody, ApprovalView, ChosenPattern, DecidedBody, DecisionBody, PatternBody,
        TakeBackBody, VoteBody, WhyBody,
    },
    decisions::PlainDecision,
    event::ApprovalEvent,
    run::RunBody,
    sentence, words,
};

use super::{
    answers::{self, Answers},
    candidates,
    client::{Client, Query, read},
    console::{Console, Format, Tone},
    context::Context,
    discover::Role,
    duration::clock_face,
    exit::ExitStatus,
    explain,
    failure::Failure,
    follow, ids,
    layout::{self, Layout},
    moment::Period,
    question, state,
    table::Table,
    value,
    width::{self, RefusalArgs, WidthArgs},
};

/// So many questions are listed, or found by filters, unless the call says how many.
const MOST_LISTED: usize = 500;
/// How long an answer waits for its run. What takes longer is found by its id.
const FOLLOWED_MS: u64 = 5_000;
/// How much of the command stands before how it went.
const LABEL: usize = 60;
const RESOLVE_HELP: &str = "countersign approvals resolve --help";

/// See and answer what waits for a person
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign approvals list
  countersign approvals show 1a2b3c4d
  countersign approvals resolve 1a2b3c4d allow-once --reason 'reviewed the script'
  countersign approvals watch")]
pub(crate) enum ApprovalsCommand {
    /// List approvals, newest first
    #[command(after_help = "Examples:
  countersign approvals list
  countersign approvals list --status all --json")]
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show one approval in full
    #[command(after_help = "Examples:
  countersign approvals show 1a2b3c4d")]
    Show {
        /// Its id, or a unique part of 8 characters or more
        #[arg(add = candidates::approvals())]
        id: String,
    },
    /// Answer one, or several by their ids or by filters
    #[command(
        override_usage = "countersign approvals resolve [OPTIONS] [ID]... <DECISION>",
        after_help = "Examples:
  countersign approvals resolve 1a2b3c4d deny --reason 'not on a Friday'
  countersign approvals resolve 1a2b3c4d allow-always --as program --for 1h
  countersign approvals resolve 1a2b3c4d 5e6f7a8b allow-once
  countersign approvals resolve --agent main allow-once --yes
  countersign approvals resolve --status pending deny

Filters find the questions that wait now and show them; what is asked later is not touched. An
allow by filters has to be confirmed. Several answers are not one: each counts or not by itself,
and the exit code is 0 only if all of them count. allow-always takes one id."
    )]
    Resolve(ResolveArgs),
    /// Approve what waits for a person
    #[command(hide = true, aliases = ["approve", "accept"])]
    Allow(ApproveArgs),
    /// Deny what waits for a person
    #[command(hide = true, aliases = ["reject", "refuse"])]
    Deny(DenyArgs),
    /// Take back what was allowed, before it starts
    #[command(after_help = "Examples:
  countersign approvals take-back 7d8e9f0a
  countersign approvals take-back 7d8e9f0a --reason 'wrong directory'

A rule with start_delay_ms gives you time for it (docs/approval-rules.md). What has started can
only be cancelled: countersign runs cancel RUN.")]
    TakeBack {
        /// Its id, or a unique prefix of 8 characters or more
        #[arg(add = candidates::approvals())]
        id: String,
        /// Why; kept with the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Show approvals as they come and are answered
    #[command(after_help = "Examples:
  countersign approvals watch")]
    Watch,
}

/// Filters of the list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// pending, allowed, denied, expired, cancelled or all
    #[arg(long, default_value = "pending", add = candidates::approval_statuses())]
    status: String,
    /// Only this agent's
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    layout: Layout,
    /// At most this many
    #[arg(long, default_value_t = MOST_LISTED, value_parser = layout::parse_limit)]
    limit: usize,
}

/// An answer.
#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    /// Ids of questions, or unique parts of 8 characters or more; then the answer: allow-once, allow-always or deny
    #[arg(required = true, value_name = "ID", add = candidates::approvals_and_decisions())]
    words: Vec<String>,
    #[command(flatten)]
    filters: ResolveFilters,
    /// Why; kept with the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With allow-always: store this proposed pattern instead of the default ones; may be repeated
    #[arg(long = "pattern", value_name = "PATTERN", conflicts_with_all = ["proposal", "lasting", "uses", "this_session", "directory"])]
    patterns: Vec<String>,
    #[command(flatten)]
    width: WidthArgs,
    #[command(flatten)]
    refusal: RefusalArgs,
    /// Confirm an allow by filters
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    following: Following,
}

/// Whether an answer tells how its run went.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
struct Following {
    /// Do not wait, at most 5 seconds, to say how the run went
    #[arg(long)]
    no_wait: bool,
}

/// Approve what waits for a person
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign approve 1a2b3c4d
  countersign approve 1a2b3c4d --always --reason 'reviewed the script'
  countersign approve 1a2b3c4d --for 1h
  countersign approve 1a2b3c4d --as program --uses 5 --session
  countersign approve 1a2b3c4d 5e6f7a8b

Each of --as, --for, --uses, --session and --directory remembers the answer, and several narrow it
together. Without --as it is the exact command. countersign approvals show ID lists the proposals.")]
pub(crate) struct ApproveArgs {
    /// Ids of questions, or unique parts of 8 characters or more
    #[arg(required = true, value_name = "ID", add = candidates::approvals())]
    ids: Vec<String>,
    /// Do not ask again: store the exact command
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    width: WidthArgs,
    /// The same as --this-session
    #[arg(long)]
    session: bool,
    /// Why; kept with the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    following: Following,
}

/// Deny what waits for a person
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign deny 1a2b3c4d
  countersign deny 1a2b3c4d --reason 'use the staging server'
  countersign deny 1a2b3c4d --mute 30m

The agent sees the reason. --mute and --never leave a deny rule about exactly this command of this
agent; countersign denylist list --agent ID shows it.")]
pub(crate) struct DenyArgs {
    /// Ids of questions, or unique parts of 8 characters or more
    #[arg(required = true, value_name = "ID", add = candidates::approvals())]
    ids: Vec<String>,
    /// Why; the agent sees it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    refusal: RefusalArgs,
}

/// Allows questions by their ids.
pub(crate) async fn approve(context: &Context, args: ApproveArgs) -> Result<ExitStatus, Failure> {
    let ApproveArgs {
        ids,
        always,
        width,
        session,
        reason,
        following,
    } = args;
    let width = width.in_this_session(session);
    let decision = if always || width.is_given() {
        ApprovalDecision::AllowAlways
    } else {
        ApprovalDecision::AllowOnce
    };
    let client = context.client(Role::Operator)?;
    let resolution = Resolution {
        width,
        following,
        ..Resolution::plain(decision, reason)
    };
    resolve_ids(context, &client, &ids, resolution).await
}

/// Denies questions by their ids.
pub(crate) async fn deny(
    context: &Context,
    DenyArgs { ids, reason, refusal }: DenyArgs,
) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    let resolution = Resolution {
        refusal,
        ..Resolution::plain(ApprovalDecision::Deny, reason)
    };
    resolve_ids(context, &client, &ids, resolution).await
}

/// Which questions are answered, instead of ids. The same names as those of the list.
#[derive(Debug, clap::Args)]
struct ResolveFilters {
    /// Instead of ids: pending, every question that waits
    #[arg(long, add = candidates::waiting())]
    status: Option<String>,
    /// Instead of ids: this agent's
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Instead of ids: this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// With a filter: at most this many, the newest (500 unless given)
    #[arg(long, value_parser = layout::parse_limit)]
    limit: Option<usize>,
}

impl ResolveFilters {
    /// What to ask the server for; nothing without a filter.
    fn query(&self) -> Result<Option<Query>, Failure> {
        if self.status.as_ref().is_some_and(|status| status != "pending") {
            return Err(Failure::usage(
                "only what waits can be answered: --status pending",
            ));
        }
        if self.status.is_none() && self.agent.is_none() && self.session.is_none() {
            return match self.limit {
                None => Ok(None),
                Some(_) => Err(Failure::usage("--limit goes with --status, --agent or --session")),
            };
        }
        let mut query: Query = vec![("status", "pending".to_owned())];
        query.extend(self.agent.iter().map(|agent| ("agentId", agent.to_string())));
        query.extend(
            self.session
                .iter()
                .map(|session| ("sessionKey", session.to_string())),
        );
        Ok(Some(query))
    }
}

pub(crate) async fn run(context: &Context, command: ApprovalsCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        ApprovalsCommand::List(args) => list(context, &client, args).await,
        ApprovalsCommand::Show { id } => show(context, &client, &id).await,
        ApprovalsCommand::Resolve(args) => resolve(context, &client, args).await,
        ApprovalsCommand::Allow(args) => approve(context, args).await,
        ApprovalsCommand::Deny(args) => deny(context, args).await,
        ApprovalsCommand::TakeBack { id, reason } => take_back(context, &client, &id, reason).await,
        ApprovalsCommand::Watch => watch(context, &client).await,
    }
}

async fn list(context: &Context, client: &Client, args: ListArgs) -> Result<ExitStatus, Failure> {
    let layout = args.layout;
    let mut query: Query = vec![("status", args.status)];
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    query.extend(args.period.query(context.clock.now()));
    if context.console.format() == Format::Json {
        let items: Vec<Value> = client.list(&["v1", "approvals"], &query, args.limit).await?;
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    query.push(("view", ApprovalView::Brief.to_string()));
    let items: Vec<ApprovalBriefBody> = client.list(&["v1", "approvals"], &query, args.limit).await?;
    let mut table = Table::new(&[
        "ID",
        "STATUS",
        layout.title("LEFT", "UNTIL"),
        "AGENT",
        "HOST",
        "COMMAND",
    ])
    .plainly("HOST", "gateway")
    .with_states("STATUS", state::tone);
    for item in &items {
        let more = if item.truncated { "…" } else { "" };
        table.row([
            layout.either(item.id.as_str(), item.id.slug()),
            standing(
                &item.status,
                question::progress_of(item.votes, item.approvals_required),
            ),
            layout.time_or(item.expires_at_ms, || {
                time_left(context, &item.status, item.expires_at_ms)
            }),
            item.agent_id.to_string(),
            item.host.to_string(),
            format!("{}{more}", item.line),
        ]);
    }
    let ids = items.iter().map(|item| item.id.as_str());
    layout.print(context, ids, &table, "nothing waits for a person")?;
    Ok(ExitStatus::SUCCESS)
}

async fn show(context: &Context, client: &Client, id: &str) -> Result<ExitStatus, Failure> {
    let approval: Value = find(client, id).await?;
    if context.console.format() == Format::Json {
        context.console.document(&approval)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let approval: ApprovalBody = read(approval)?;
    // The command stands alone and whole: it is what the person answers for.
    context.console.line(&question::shown_whole(&approval.display))?;
    if let Some(whole) = question::rest_of(&approval) {
        context.console.line(&whole)?;
    }
    let mut table = Table::without_header();
    table.fact("id", approval.id.as_str());
    table.fact("status", &status(&approval));
    table.fact(
        "time left",
        &time_left(context, &approval.status, approval.expires_at_ms),
    );
    table.append(&facts(&approval));
    context.console.table(&table, "")?;
    if approval.status == ApprovalStatus::Pending {
        for verb in ["approve", "deny"] {
            context
                .console
                .hint(&format!("countersign {verb} {}", approval.slug));
        }
    }
    if approval.status == ApprovalStatus::Denied || approval.status == ApprovalStatus::Expired {
        tell_ways_out(context, client, approval.run_id.as_str()).await;
    }
    Ok(ExitStatus::SUCCESS)
}

/// What a person should know about an approval beside the command itself, its state and the time left.
pub(super) fn facts(approval: &ApprovalBody) -> Table {
    let mut table = Table::without_header();
    table.each("allowed by", question::progress(approval));
    table.fact("groups", &width::groups(approval.groups.as_ref()));
    for VoteBody {
        by,
        decision,
        at_ms: _,
        reason,
    } in &approval.votes
    {
        let reason = reason.as_deref().unwrap_or_default();
        table.fact("vote", format!("{}: {decision} {reason}", by.name).trim_end());
    }
    table.fact("agentId", approval.agent_id.as_str());
    table.fact("sessionKey", approval.session_key.as_str());
    table.each("host", [&approval.host]);
    table.each("nodeId", &approval.node_id);
    table.fact("cwd", &approval.cwd);
    table.each("resolvedPath", &approval.resolved_path);
    table.each("input", &approval.input);
    table.each("binding", [&approval.binding]);
    table.fact("bindingDetail", &approval.binding_detail);
    table.each("scripts", &approval.scripts);
    table.each("confined", &approval.confined);
    table.append(&question::said(approval));
    table.each("security", [&approval.security]);
    table.each("ask", [&approval.ask]);
    table.each("askFallback", [&approval.ask_fallback]);
    table.append(&question::variables(approval));
    let segments: Vec<SegmentBody> = countersign_wire::read(&approval.segments).unwrap_or_default();
    parts(&mut table, &segments, "part ");
    let WhyBody {
        layer,
        rule,
        detail,
        span: _,
    } = &approval.why;
    table.fact("asked by", &approval.requested_by.name);
    table.fact("why", detail);
    table.fact("rule", &format!("{rule} ({layer})"));
    table.each("in place of", &approval.revises);
    table.each("replaced by", &approval.revised_by);
    table.each("decided by", approval.resolved_by.as_ref().map(|by| &by.name));
    let delay = approval.start_delay_ms.map(Duration::from_millis);
    table.each("held back for", delay.map(clock_face));
    table.each("decision", &approval.decision);
    table.each("reason", &approval.reason);
    table.each("answers", &approval.allowed_decisions);
    width::proposed_patterns(&mut table, &approval.proposed_patterns);
    width::proposed(&mut table, &approval.proposals);
    table.each("remembers", approval.grant.as_ref().map(|grant| &grant.words));
    for warning in &approval.display.warnings {
        table.fact("warning", &warning.message);
    }
    table
}

/// The parts of a command, and below each those of the text that it hands to a shell.
fn parts(table: &mut Table, segments: &[SegmentBody], name: &str) {
    for (index, segment) in segments.iter().enumerate() {
        let name = format!("{name}{}", index + 1);
        let file = segment.resolved_path.as_deref().unwrap_or("no such file");
        let (words, covered) = (value::call_words(segment), &segment.matched.kind);
        table.fact(&name, &format!("{words}  [{file}, {covered}]"));
        for note in &segment.notes {
            table.fact("", note);
        }
        let inner = segment.segments.as_deref().unwrap_or_default();
        parts(table, inner, &format!("{name}."));
    }
}

async fn resolve(context: &Context, client: &Client, args: ResolveArgs) -> Result<ExitStatus, Failure> {
    let ResolveArgs {
        mut words,
        filters,
        reason,
        patterns,
        width,
        refusal,
        yes,
        following,
    } = args;
    let word = words.pop().unwrap_or_default();
    let resolution = Resolution {
        decision: decision_of(&word)?,
        reason,
        patterns,
        width,
        refusal,
        following,
    };
    resolution.check()?;
    match filters.query()? {
        None => resolve_ids(context, client, &words, resolution).await,
        Some(_) if !words.is_empty() => {
            Err(Failure::usage("name ids of questions or filters, not both").hint(RESOLVE_HELP))
        }
        Some(query) => {
            let (decision, reason) = resolution.of_several()?;
            let limit = filters.limit.unwrap_or(MOST_LISTED);
            let questions = found(context, client, &query, limit).await?;
            let answers = Answers {
                decision,
                reason,
                are_found: true,
                is_confirmed: yes,
            };
            answers::give(context, client, questions, answers).await
        }
    }
}

/// Ids of approvals are as long as this.
const WHOLE_ID: usize = 36;

/// What a person types for an answer.
fn decision_of(word: &str) -> Result<ApprovalDecision, Failure> {
    match word {
        "allow" | "approve" | "yes" => Ok(ApprovalDecision::AllowOnce),
        "always" => Ok(ApprovalDecision::AllowAlways),
        "no" => Ok(ApprovalDecision::Deny),
        other => other.parse().map_err(|expected| {
            let names_question = IdPart::of(&other.to_ascii_lowercase()).is_some() || other.len() == WHOLE_ID;
            if names_question {
                Failure::usage("an answer is missing: allow-once, allow-always or deny")
                    .hint(format!("countersign approvals resolve {other} allow-once"))
            } else {
                Failure::usage(format!("{other} is no answer: {expected}")).hint(RESOLVE_HELP)
            }
        }),
    }
}

/// An answer to whatever it is given to.
struct Resolution {
    decision: ApprovalDecision,
    reason: Option<String>,
    patterns: Vec<String>,
    width: WidthArgs,
    refusal: RefusalArgs,
    following: Following,
}

impl Resolution {
    /// One that stores what is proposed, if it stores anything.
    fn plain(decision: ApprovalDecision, reason: Option<String>) -> Self {
        Self {
            decision,
            reason,
            patterns: Vec::new(),
            width: WidthArgs::default(),
            refusal: RefusalArgs::default(),
            following: Following::default(),
        }
    }

    /// Whether what goes with an answer goes with this one.
    fn check(&self) -> Result<(), Failure> {
        if self.width.is_given() && self.decision != ApprovalDecision::AllowAlways {
            return Err(Failure::usage(
                "--as, --for, --uses, --this-session and --directory go with allow-always",
            ));
        }
        if self.refusal.is_given() && self.decision != ApprovalDecision::Deny {
            return Err(Failure::usage("--mute, --mute-agent and --never go with deny"));
        }
        Ok(())
    }

    /// The same for several questions at once.
    fn of_several(self) -> Result<(PlainDecision, Option<String>), Failure> {
        if !self.patterns.is_empty() {
            return Err(Failure::usage("--pattern goes with allow-always and one id"));
        }
        if self.refusal.is_given() {
            return Err(Failure::usage("--mute, --mute-agent and --never go with one id"));
        }
        let decision = match self.decision {
            ApprovalDecision::AllowOnce => PlainDecision::AllowOnce,
            ApprovalDecision::Deny => PlainDecision::Deny,
            ApprovalDecision::AllowAlways => {
                return Err(Failure::usage(
                    "allow-always answers one question, named by its id: what it stores is different for each",
                ));
            }
        };
        Ok((decision, self.reason))
    }
}

async fn resolve_ids(
    context: &Context,
    client: &Client,
    ids: &[String],
    resolution: Resolution,
) -> Result<ExitStatus, Failure> {
    match ids {
        [] => Err(Failure::usage("name ids of questions, or a filter").hint(RESOLVE_HELP)),
        [id] => resolve_one(context, client, id, resolution).await,
        ids => {
            let (decision, reason) = resolution.of_several()?;
            let answers = Answers {
                decision,
                reason,
                are_found: false,
                is_confirmed: false,
            };
            answers::give(context, client, named(client, ids).await?, answers).await
        }
    }
}

/// The questions with these ids, each once.
async fn named(client: &Client, ids: &[String]) -> Result<Vec<ApprovalBody>, Failure> {
    let mut questions: Vec<ApprovalBody> = Vec::with_capacity(ids.len());
    for id in ids {
        let question: ApprovalBody = find(client, id).await?;
        if !questions.iter().any(|named| named.id == question.id) {
            questions.push(question);
        }
    }
    Ok(questions)
}

/// The questions that the filters find now.
async fn found(
    context: &Context,
    client: &Client,
    query: &Query,
    limit: usize,
) -> Result<Vec<ApprovalBody>, Failure> {
    let path = ["v1", "approvals"];
    let mut questions: Vec<ApprovalBody> = client.list(&path, query, limit.saturating_add(1)).await?;
    if questions.len() > limit {
        questions.truncate(limit);
        context.console.note(&format!(
            "more than {limit} wait; these are the newest of them (--limit)"
        ));
    }
    Ok(questions)
}

async fn resolve_one(
    context: &Context,
    client: &Client,
    id: &str,
    resolution: Resolution,
) -> Result<ExitStatus, Failure> {
    let Resolution {
        decision,
        reason,
        patterns,
        width,
        refusal,
        following,
    } = resolution;
    let approval: ApprovalBody = find(client, id).await?;
    let patterns = chosen(&approval.proposed_patterns, &patterns)?;
    // A mute or a rule is the answer to the next one already.
    let is_lasting = refusal.is_given();
    let (mute, never) = refusal.members(context);
    let body = DecisionBody {
        decision,
        reason,
        patterns: (!patterns.is_empty()).then_some(patterns),
        grant: width.grant(context, &approval)?,
        mute,
        never,
    };
    let path = ["v1", "approvals", approval.id.as_str(), "decision"];
    let answer = client.post(&path, &body).await?;
    match say_decided(context, answer)? {
        Some(decided) if decided.approval.status == ApprovalStatus::Denied && !is_lasting => {
            tell_ways_out(context, client, decided.approval.run_id.as_str()).await;
        }
        Some(decided) if !following.no_wait => tell_run(context, client, &decided).await?,
        Some(_) | None => {}
    }
    Ok(ExitStatus::SUCCESS)
}

/// What would change that a run is denied. Silent where this token may not ask.
async fn tell_ways_out(context: &Context, client: &Client, run: &str) {
    for line in explain::ways_out_of_run(client, run).await {
        context.console.note(&line);
    }
}

/// Says how the run went that an answer let start. Silent where this token may not read it.
async fn tell_run(context: &Context, client: &Client, decided: &DecidedBody) -> Result<(), Failure> {
    let approval = &decided.approval;
    if approval.status != ApprovalStatus::Allowed || approval.starts_at_ms.is_some() {
        return Ok(());
    }
    let path = ["v1", "runs", approval.run_id.as_str()];
    let wait = vec![("waitMs", FOLLOWED_MS.to_string())];
    let Ok(run) = client.get::<Map<String, Value>>(&path, &wait).await else {
        return Ok(());
    };
    let brief: RunBody = read(Value::Object(run.clone()))?;
    let label = value::visible(&value::shortened(&brief.display_text, LABEL));
    if brief.ended_at_ms.is_some() {
        let ended = value::visible(&sentence::ended(&run));
        context.console.line(&format!("{label}: {ended}"))?;
        if brief.status == "denied" {
            tell_ways_out(context, client, brief.run_id.as_str()).await;
        }
        return Ok(());
    }
    context.console.line(&format!("{label}: {}", brief.status))?;
    let short = ids::short(brief.run_id.as_str());
    context.console.hint(&format!("countersign runs show {short}"));
    Ok(())
}

async fn take_back(
    context: &Context,
    client: &Client,
    id: &str,
    reason: Option<String>,
) -> Result<ExitStatus, Failure> {
    let approval: ApprovalBody = find(client, id).await?;
    let path = ["v1", "approvals", approval.id.as_str(), "take-back"];
    let answer = client.post(&path, &TakeBackBody { reason }).await?;
    say_decided(context, answer)?;
    Ok(ExitStatus::SUCCESS)
}

/// What became of an answer, where people read it.
fn say_decided(context: &Context, answer: Value) -> Result<Option<DecidedBody>, Failure> {
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(None);
    }
    let decided: DecidedBody = read(answer)?;
    context.console.line(&answers::decided_line(&decided))?;
    Ok(Some(decided))
}

/// The proposed patterns that were named, in the form that the decision takes.
fn chosen(proposed: &[PatternBody], names: &[String]) -> Result<Vec<ByName<ChosenPattern>>, Failure> {
    let named = |name: &String| {
        let pattern = proposed.iter().find(|pattern| pattern.pattern == *name);
        let pattern =
            pattern.ok_or_else(|| Failure::usage(format!("{name} is not among the proposed patterns")))?;
        Ok(ByName(pattern.chosen()))
    };
    names.iter().map(named).collect()
}

/// Finds an approval by its id, or by a unique beginning or end of it.
async fn find<T: DeserializeOwned>(client: &Client, id: &str) -> Result<T, Failure> {
    let id = ids::typed(id, "countersign approvals list")?;
    client.get(&["v1", "approvals", &id], &Vec::new()).await
}

/// What is pending, then what changes. Being connected makes this terminal an approver that can be reached, unless its
/// token may only read.
async fn watch(context: &Context, client: &Client) -> Result<ExitStatus, Failure> {
    let query = |approver: bool| {
        let types = ("types", "exec.approval,server.shutdown".to_owned());
        vec![types, ("approver", approver.to_string())]
    };
    // The stream is opened before the list is read: what comes between appears twice rather than never.
    let (query, stream) = match client.events(&query(true), None).await {
        Err(failure) if failure.code == "forbidden" => {
            let stream = client.events(&query(false), None).await?;
            context
                .console
                .note("this token cannot answer, so nobody counts as reachable because of this terminal");
            (query(false), stream)
        }
        stream => (query(true), stream?),
    };
    show_pending(context, client).await?;
    context.console.note("watching for approvals; Ctrl-C ends");
    follow::follow(context, client, &query, stream, async |event| {
        show_news(context.console, event)?;
        if event.get("type").is_some_and(|kind| kind == "events.gap") {
            context
                .console
                .note("events were missed; looking again at what waits");
            show_pending(context, client).await?;
        }
        Ok(())
    })
    .await
}

/// A line for each question that waits.
async fn show_pending(context: &Context, client: &Client) -> Result<(), Failure> {
    let pending: Vec<Value> = client
        .list(&["v1", "approvals"], &vec![("status", "pending".to_owned())], 500)
        .await?;
    for approval in pending {
        match context.console.format() {
            Format::Json => context.console.json_line(&approval)?,
            Format::People => {
                let approval: ApprovalBody = read(approval)?;
                let (slug, agent) = (&approval.slug, approval.agent_id.as_str());
                let what = [agent, &approval.host.to_string(), &approval.display.text];
                context.console.line(&asked_line(context.console, slug, what))?;
            }
        }
    }
    Ok(())
}

/// A line for an event. What is none of a question, such as the end of the server, is said on standard error.
fn show_news(console: Console, event: &Value) -> Result<(), Failure> {
    match console.format() {
        Format::Json => console.json_line(event),
        Format::People => match countersign_wire::read::<ApprovalEvent>(event) {
            Ok(event) if event.r#type.starts_with("exec.approval.") => {
                console.line(&event_line(console, &event))
            }
            Ok(_) | Err(_) => Ok(()),
        },
    }
}

fn asked_line(console: Console, slug: &str, what: [&str; 3]) -> String {
    let mut line = Table::without_header();
    line.row(what);
    format!(
        "{} {slug}  {}",
        console.paint(Tone::Caution, "asked   "),
        line.lines().concat()
    )
}

fn event_line(console: Console, event: &ApprovalEvent) -> String {
    let slug = event.approval_id.get(..8).unwrap_or_default();
    match event.r#type.as_str() {
        "exec.approval.requested" => {
            return asked_line(console, slug, [&event.agent_id, &event.host, &event.command]);
        }
        "exec.approval.voted" => {
            let voted = console.paint(Tone::Caution, "voted   ");
            return format!("{voted} {slug}  {}", vote_in_words(event));
        }
        _ => {}
    }
    let tone = match event.status.as_str() {
        "allowed" => Tone::Good,
        "denied" => Tone::Bad,
        _ => Tone::Dim,
    };
    let by = event.resolved_by.as_ref().map_or("", |by| &by.name);
    let mut line = Table::without_header();
    line.row([&event.decision, by]);
    format!(
        "{} {slug}  {}",
        console.paint(tone, &format!("{:8}", event.status)),
        line.lines().concat()
    )
}

/// Who allowed what takes several people, and how many have: of the event `exec.approval.voted`.
pub(super) fn vote_in_words(event: &ApprovalEvent) -> String {
    let by = event
        .by
        .as_ref()
        .map(|by| value::visible(&by.name))
        .unwrap_or_default();
    format!("{by} allowed it, {} of {}", event.votes, event.approvals_required)
}

/// The state, with how many people have allowed it where it takes several.
pub(super) fn status(approval: &ApprovalBody) -> String {
    standing(&approval.status, question::progress(approval))
}

fn standing(status: &words::ApprovalStatus, progress: Option<String>) -> String {
    match progress.filter(|_| *status == ApprovalStatus::Pending) {
        Some(progress) => format!("{status}, {progress}"),
        None => status.to_string(),
    }
}

fn time_left(context: &Context, status: &words::ApprovalStatus, expires_at: UnixMillis) -> String {
    if *status == ApprovalStatus::Pending {
        clock_face(expires_at.since(context.clock.now()))
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(pattern: &str, arguments: Option<&str>) -> PatternBody {
        let members = json!({ "segment": 0, "pattern": pattern, "argPattern": arguments, "width": "exact", "default": false });
        read(members).unwrap()
    }

    fn approval(members: Value) -> ApprovalBody {
        let mut approval = json!({
            "id": "a-1", "slug": "a-1", "runId": "r-1", "status": "pending", "command": "ls", "cwd": "/", "host": "gateway",
            "display": { "text": "ls", "spans": [], "warnings": [], "truncated": false }, "agentId": "main",
            "sessionKey": "main", "requestedBy": { "kind": "token", "id": "t", "name": "gateway" }, "segments": [],
            "envNames": [], "security": "allowlist", "ask": "on-miss", "askFallback": "deny",
            "why": { "layer": "global", "rule": "ask", "detail": "not covered" }, "approvalsRequired": 1,
            "allowedDecisions": ["allow-once", "deny"], "proposedPatterns": [], "createdAtMs": 1, "expiresAtMs": 2,
            "boundTo": { "cwd": "/", "envHash": "", "digest": "" }, "binding": "exact", "bindingDetail": "" });
        if let (Some(all), Value::Object(members)) = (approval.as_object_mut(), members) {
            all.extend(members);
        }
        read(approval).unwrap()
    }

    #[test]
    fn chosen_patterns_keep_their_arguments() {
        let proposed = [
            pattern("/usr/bin/git", Some("^status$")),
            pattern("/usr/bin/ls", None),
        ];
        let chosen = chosen(&proposed, &["/usr/bin/git".to_owned(), "/usr/bin/ls".to_owned()]).unwrap();
        assert_eq!(
            json!(chosen),
            json!([{"pattern": "/usr/bin/git", "argPattern": "^status$"}, {"pattern": "/usr/bin/ls"}])
        );
    }

    #[test]
    fn progress_is_said_only_where_it_takes_several() {
        assert_eq!(question::progress(&approval(json!({}))), None);
        let vote = |decision: &str| {
            let by = json!({ "kind": "token", "id": "t", "name": "ann" });
            json!([{ "by": by, "decision": decision, "atMs": 1 }])
        };
        let two = approval(json!({ "approvalsRequired": 2, "votes": vote("allow-once") }));
        assert_eq!(question::progress(&two).as_deref(), Some("1 of 2"));
        assert_eq!(status(&two), "pending, 1 of 2");
        let denied = approval(json!({ "approvalsRequired": 2, "status": "denied", "votes": vote("deny") }));
        assert_eq!(
            (question::progress(&denied).as_deref(), status(&denied).as_str()),
            (Some("0 of 2"), "denied")
        );
    }

    #[test]
    fn what_a_newer_server_says_is_shown() {
        let newer = approval(json!({ "status": "postponed", "host": "moon", "colour": "red", "votes": [] }));
        assert_eq!(
            (status(&newer).as_str(), newer.host.to_string().as_str()),
            ("postponed", "moon")
        );
    }

    #[test]
    fn a_pattern_that_was_not_proposed_is_refused() {
        assert_eq!(
            chosen(&[], &["/bin/*".to_owned()]).unwrap_err().exit,
            ExitStatus::USAGE
        );
    }
}
