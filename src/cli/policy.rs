//! `countersign policy`: the effective policy of an agent, which layer sets it, and changes of it.

use std::fmt::Display;

use serde::Deserialize;
use serde_json::Value;

use countersign_domain::{AgentId, Host, RunId, SessionKey};
use countersign_wire::{
    policy::{EffectiveBody, LayerBody, ValueBody},
    run::RunDetail,
};

use super::{
    candidates,
    client::{Client, Query, read},
    console::{Format, Tone},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    explain,
    failure::Failure,
    forecast::{self, ForecastArgs},
    ids,
    policy_change::{self, PresetArgs, SetArgs},
    policy_pending::{self, AcceptArgs, HistoryArgs, RejectArgs},
    policy_replay::{self, BacktestArgs, ShadowArgs},
    policy_suggest::{self, SuggestArgs},
    policy_test::{self, TestArgs},
    table::Table,
    value,
};

/// View and change policy
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign policy show
  countersign policy show --agent build --host gateway --json
  countersign policy set --agent build --ask always
  countersign policy preset cautious --dry-run
  countersign policy explain git push origin main
  countersign policy why RUN
  countersign policy test cases.jsonl
  countersign policy backtest --document candidate.json
  countersign policy suggest
  countersign policy forecast --from claude-code
  countersign policy diff
  countersign policy accept
  countersign policy reject
  countersign policy history --limit 20")]
pub(crate) enum PolicyCommand {
    /// Show every value with the layer that set it
    #[command(after_help = "Examples:
  countersign policy show --agent build")]
    Show(ShowArgs),
    /// Set what the approvals document says for an agent
    Set(SetArgs),
    /// Apply a preset to configuration and approvals document, both or neither
    Preset(PresetArgs),
    /// Say what would become of a command, and which rule says so
    #[command(after_help = "Examples:
  countersign policy explain git push origin main
  countersign policy explain --agent build -c 'cargo test | tail -5'")]
    Explain(ExplainArgs),
    /// Say what became of a run, and what would become of the same call now
    #[command(after_help = "Examples:
  countersign policy why RUN")]
    Why {
        /// The id of the run or of its question, or a unique part of 8 characters or more
        #[arg(value_parser = ids::parse_run, add = candidates::runs())]
        run: RunId,
    },
    Test(TestArgs),
    /// Judge the runs of the record anew, under a policy that is not in force
    Backtest(BacktestArgs),
    /// Follow new runs, and tell of each about which another policy decides otherwise
    Shadow(ShadowArgs),
    /// Suggest entries for what people allowed again and again
    Suggest(SuggestArgs),
    Forecast(ForecastArgs),
    /// Show what a change, held until it is accepted, would newly allow
    #[command(after_help = "Examples:
  countersign policy diff
  countersign policy diff --json")]
    Diff,
    /// Accept a change that is held
    Accept(AcceptArgs),
    /// Reject a change that is held: its file says again what was accepted
    Reject(RejectArgs),
    /// List changes of policy and who made them
    History(HistoryArgs),
}

/// For whom.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// For this agent
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// On this host
    #[arg(long)]
    host: Option<Host>,
    /// In this session
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
}

/// Which command, and for whom.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Shell text instead of a program with arguments
    #[arg(
        short = 'c',
        long = "command",
        value_name = "TEXT",
        conflicts_with = "program"
    )]
    command: Option<String>,
    /// The program and its arguments, options after it included; one word with blanks is read as shell text
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        required_unless_present = "command"
    )]
    program: Vec<String>,
    /// For this agent
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// In this session
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// In this directory, absolute or below ~/ (default: the agent's workspace)
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
}

pub(crate) async fn run(context: &Context, command: PolicyCommand) -> Result<ExitStatus, Failure> {
    let client = || context.client(Role::Operator);
    match command {
        PolicyCommand::Show(args) => show(context, &client()?, args).await,
        PolicyCommand::Set(args) => {
            policy_change::set(context, &client()?, args).await?;
            Ok(ExitStatus::SUCCESS)
        }
        PolicyCommand::Preset(args) => {
            policy_change::preset(context, &client()?, args).await?;
            Ok(ExitStatus::SUCCESS)
        }
        PolicyCommand::Explain(args) => explain_command(context, &client()?, args).await,
        PolicyCommand::Why { run } => why(context, &client()?, &ids::run(&run)?).await,
        PolicyCommand::Test(args) => policy_test::run(context, &args).await,
        PolicyCommand::Backtest(args) => policy_replay::backtest(context, &client()?, args).await,
        PolicyCommand::Shadow(args) => policy_replay::shadow(context, &client()?, args).await,
        PolicyCommand::Suggest(args) => policy_suggest::run(context, &client()?, args).await,
        PolicyCommand::Forecast(args) => forecast::run(context, args),
        PolicyCommand::Diff => policy_pending::diff(context, &client()?).await,
        PolicyCommand::Accept(args) => policy_pending::accept(context, &client()?, args).await,
        PolicyCommand::Reject(args) => policy_pending::reject(context, &client()?, args).await,
        PolicyCommand::History(args) => policy_pending::history(context, &client()?, args).await,
    }
}

async fn explain_command(
    context: &Context,
    client: &Client,
    args: ExplainArgs,
) -> Result<ExitStatus, Failure> {
    let ExplainArgs {
        command,
        program,
        agent,
        session,
        workdir,
    } = args;
    let mut call = explain::call(command.as_deref(), &program);
    if let Value::Object(members) = &mut call {
        let optional = [
            ("agentId", agent.map(|agent| agent.to_string())),
            ("sessionKey", session.map(|session| session.to_string())),
            ("workdir", workdir),
        ];
        for (name, value) in optional {
            members.extend(value.map(|value| (name.to_owned(), Value::String(value))));
        }
    }
    explain::run(context, client, &call).await
}

/// What was decided about a run, and what its call would come to now.
async fn why(context: &Context, client: &Client, id: &str) -> Result<ExitStatus, Failure> {
    let run: RunDetail = run_or_asked(client, id).await?;
    let RunDetail {
        run,
        decided_by,
        user_reason,
        ..
    } = run;
    let call = explain::call_of(&run);
    let console = context.console;
    if console.format() == Format::People {
        let mut table = Table::without_header();
        table.fact("run", &format!("{}, {}", run.run_id, run.status));
        let by = decided_by.map(|by| match by.name {
            Some(name) => format!("{name} ({})", by.kind),
            None => by.kind.to_string(),
        });
        table.each("decided by", by);
        table.each("reason", &run.reason);
        table.each("detail", &run.detail);
        table.each("in their words", &user_reason);
        // What the call itself asked for is in these, and is not known to the explanation below.
        table.fact("security", &format!("{} when it was judged", run.security));
        table.fact("ask", &format!("{} when it was judged", run.ask));
        console.table(&table, "")?;
    }
    match call {
        Some(call) => {
            if console.format() == Format::People {
                console.line("\nNow, without what the call itself asked for:")?;
            }
            explain::run(context, client, &call).await
        }
        None if console.format() == Format::People => {
            console.line("\nA patch has no command to explain. To see its files:")?;
            console.line(&format!("countersign runs show {}", run.run_id))?;
            Ok(ExitStatus::SUCCESS)
        }
        None => Err(Failure::usage(
            "the run is a patch, which has no command to explain: countersign runs show says what was decided",
        )),
    }
}

/// The run with this id, or the one that the question with this id is about.
async fn run_or_asked(client: &Client, id: &str) -> Result<RunDetail, Failure> {
    /// What is needed of a question.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked {
        run_id: RunId,
    }
    let run = async |id: &str| client.get(&["v1", "runs", id], &Vec::new()).await;
    match run(id).await {
        Err(unknown) if unknown.code == "not-found" => {
            match client.get::<Asked>(&["v1", "approvals", id], &Vec::new()).await {
                Ok(asked) => run(asked.run_id.as_str()).await,
                Err(failure) if failure.code == "approval-not-found" => Err(unknown),
                Err(failure) => Err(failure),
            }
        }
        answer => answer,
    }
}

async fn show(context: &Context, client: &Client, args: ShowArgs) -> Result<ExitStatus, Failure> {
    let mut query: Query = Vec::new();
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.host.map(|host| ("host", host.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    let policy: Value = client.get(&["v1", "policy", "effective"], &query).await?;
    if context.console.format() == Format::Json {
        context.console.document(&policy)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let policy: EffectiveBody = read(policy)?;
    let (table, weaker) = tables(&policy);
    context.console.table(&table, "")?;
    if !weaker.is_empty() {
        context.console.line("\nWhat other layers say:")?;
        context.console.table(&weaker, "")?;
    }
    let document = &policy.document;
    if document.status == "refused" {
        let (reason, pointer) = (document.reason.as_deref(), document.pointer.as_deref());
        let (reason, pointer) = (reason.unwrap_or_default(), pointer.unwrap_or_default());
        let text = format!("the approvals document is refused ({reason} at {pointer}): everything is denied");
        context.console.note(&context.console.paint(Tone::Bad, &text));
        context.console.hint(
            "countersign doctor   (says how to repair exec-approvals.json; the next call reads it again)",
        );
    }
    if document.held.is_some() {
        let text = "a change of the approvals document is held; what it newly allows does not count yet";
        context.console.note(&context.console.paint(Tone::Caution, text));
        context
            .console
            .hint("countersign policy diff   (shows it; countersign policy accept lets it take effect)");
    }
    if let Some(error) = &policy.config_error {
        let text = format!("the last settings that were good hold: {error}");
        context.console.note(&context.console.paint(Tone::Caution, &text));
    }
    Ok(ExitStatus::SUCCESS)
}

/// So much of a hash tells documents apart.
const SHOWN_HASH: usize = 16;

/// What is in effect, and what weaker layers say.
fn tables(policy: &EffectiveBody) -> (Table, Table) {
    let mut table = Table::new(&["RULE", "VALUE", "SET BY"]).keeping("VALUE");
    let mut weaker = Table::new(&["RULE", "LAYER", "VALUE", "SET BY"])
        .keeping("LAYER")
        .keeping("VALUE");
    table.row(["agentId", policy.agent_id.as_str()]);
    table.row(["sessionKey", policy.session_key.as_str()]);
    rule((&mut table, &mut weaker), "host", &policy.host);
    if let Some(node) = &policy.node {
        rule((&mut table, &mut weaker), "node", node);
    }
    rule((&mut table, &mut weaker), "security", &policy.security);
    rule((&mut table, &mut weaker), "ask", &policy.ask);
    rule((&mut table, &mut weaker), "askFallback", &policy.ask_fallback);
    for (name, switch) in [
        ("autoAllowSkills", &policy.auto_allow_skills),
        ("strictInlineEval", &policy.strict_inline_eval),
        ("strictDelegation", &policy.strict_delegation),
    ] {
        rule((&mut table, &mut weaker), name, switch);
    }
    rule((&mut table, &mut weaker), "onMiss", &policy.on_miss);
    table.row(["approvalsApply", &policy.approvals_apply.to_string()]);
    // All of the hash is in `--json`.
    let hash = value::shortened(&policy.document.hash, SHOWN_HASH);
    table.row(["document", &policy.document.status, &hash]);
    (table, weaker)
}

/// A value and where it comes from; below, the layers that spoke and did not decide, each on a row.
fn rule<T: Display, L: Display>(
    (table, weaker): (&mut Table, &mut Table),
    name: &str,
    rule: &ValueBody<T, L>,
) {
    table.row([name, &rule.value.to_string(), &rule.source]);
    let last = rule.layers.len().saturating_sub(1);
    for LayerBody { layer, value, source } in rule.layers.iter().take(last) {
        let source = source.as_deref().unwrap_or_default();
        weaker.row([name, &layer.to_string(), &value.to_string(), source]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use countersign_wire::words::Security;

    use super::*;

    #[test]
    fn each_rule_shows_value_and_source_and_what_weaker_layers_say() {
        let security: ValueBody<Security> =
            read(json!({"value": "allowlist", "source": "tools.exec.security",
            "layers": [{"layer": "default", "value": "deny"}, {"layer": "global", "value": "allowlist"}]}))
            .unwrap();
        let (mut table, mut weaker) = (Table::without_header(), Table::without_header());
        rule((&mut table, &mut weaker), "security", &security);
        assert_eq!(table.lines(), ["security  allowlist  tools.exec.security"]);
        assert_eq!(weaker.lines(), ["security  default  deny"]);
    }
}
