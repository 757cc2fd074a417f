//! `countersign policy`: the effective policy of an agent, which layer sets it, and changes of it.

use serde_json::Value;

use countersign_domain::{AgentId, Host, SessionKey};

use super::{
    client::{Client, Query},
    console::{Format, Tone},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    explain,
    failure::Failure,
    policy_change::{self, PresetArgs, SetArgs},
    policy_pending::{self, AcceptArgs, HistoryArgs},
    policy_replay::{self, BacktestArgs, ShadowArgs},
    policy_suggest::{self, SuggestArgs},
    policy_test::{self, TestArgs},
    table::Table,
    value,
};

/// See and change what policy holds
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign policy show
  countersign policy show --agent build --host gateway --json
  countersign policy set --agent build --ask always
  countersign policy preset cautious --dry-run
  countersign policy explain -- git push origin main
  countersign policy test cases.jsonl
  countersign policy backtest --document candidate.json
  countersign policy suggest
  countersign policy diff
  countersign policy accept
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
  countersign policy explain -- git push origin main
  countersign policy explain --agent build -c 'cargo test | tail -5'")]
    Explain(ExplainArgs),
    Test(TestArgs),
    /// Judge the runs of the record anew, under a policy that is not in force
    Backtest(BacktestArgs),
    /// Follow new runs, and tell of each about which another policy decides otherwise
    Shadow(ShadowArgs),
    /// Suggest entries for what people allowed again and again
    Suggest(SuggestArgs),
    /// Show what a change, held until it is accepted, would newly allow
    #[command(after_help = "Examples:
  countersign policy diff
  countersign policy diff --json")]
    Diff,
    /// Accept a change that is held
    Accept(AcceptArgs),
    /// List changes of policy and who made them
    History(HistoryArgs),
}

/// For whom.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// For this agent
    #[arg(long, value_name = "ID")]
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
    /// The program and its arguments; one word with blanks is read as shell text
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "command")]
    program: Vec<String>,
    /// For this agent
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// In this session
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// In this directory, absolute or below ~/ (default: the agent's workspace)
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
}

/// The members that are `{value, source, layers}`.
const RULES: [&str; 9] = [
    "host",
    "node",
    "security",
    "ask",
    "askFallback",
    "autoAllowSkills",
    "strictInlineEval",
    "strictDelegation",
    "onMiss",
];

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
        PolicyCommand::Test(args) => policy_test::run(context, &args).await,
        PolicyCommand::Backtest(args) => policy_replay::backtest(context, &client()?, args).await,
        PolicyCommand::Shadow(args) => policy_replay::shadow(context, &client()?, args).await,
        PolicyCommand::Suggest(args) => policy_suggest::run(context, &client()?, args).await,
        PolicyCommand::Diff => policy_pending::diff(context, &client()?).await,
        PolicyCommand::Accept(args) => policy_pending::accept(context, &client()?, args).await,
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

async fn show(context: &Context, client: &Client, args: ShowArgs) -> Result<ExitStatus, Failure> {
    let mut query: Query = Vec::new();
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.host.map(|host| ("host", host.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    let policy = client.get(&["v1", "policy", "effective"], &query).await?;
    if context.console.format() == Format::Json {
        context.console.document(&policy)?;
        return Ok(ExitStatus::SUCCESS);
    }
    context.console.table(&table(&policy), "")?;
    let null = Value::Null;
    let document = policy.get("document").unwrap_or(&null);
    if value::string(document, "status") == "refused" {
        let (reason, pointer) = (value::text(document, "reason"), value::text(document, "pointer"));
        let text = format!("the approvals document is refused ({reason} at {pointer}): everything is denied");
        context.console.note(&context.console.paint(Tone::Bad, &text));
        context
            .console
            .hint("repair exec-approvals.json; the next call reads it again");
    }
    if document.get("held").is_some() {
        let text = "a change of the approvals document is held; what it newly allows does not count yet";
        context.console.note(&context.console.paint(Tone::Caution, text));
        context
            .console
            .hint("to see and accept it: countersign policy diff");
    }
    if let Some(error) = policy.get("configError") {
        let text = format!("the last settings that were good hold: {}", value::spelled(error));
        context.console.note(&context.console.paint(Tone::Caution, &text));
    }
    Ok(ExitStatus::SUCCESS)
}

fn table(policy: &Value) -> Table {
    let mut table = Table::new(&["RULE", "VALUE", "SET BY", "LAYERS"]);
    table.row(["agentId", &value::text(policy, "agentId")]);
    table.row(["sessionKey", &value::text(policy, "sessionKey")]);
    for name in RULES {
        if let Some(rule) = policy.get(name) {
            table.row([
                name,
                &value::text(rule, "value"),
                &value::text(rule, "source"),
                &layers(rule),
            ]);
        }
    }
    table.row(["approvalsApply", &value::text(policy, "approvalsApply")]);
    if let Some(document) = policy.get("document") {
        table.row([
            "document",
            &value::text(document, "status"),
            &value::text(document, "hash"),
        ]);
    }
    table
}

/// All layers that spoke, strongest last: `default=deny global=allowlist`.
fn layers(rule: &Value) -> String {
    let spoken = rule.get("layers").and_then(Value::as_array).into_iter().flatten();
    spoken
        .map(|layer| format!("{}={}", value::text(layer, "layer"), value::text(layer, "value")))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_rule_shows_value_source_and_layers() {
        let policy = json!({"agentId": "main", "sessionKey": "agent:main:main", "approvalsApply": true,
            "security": {"value": "allowlist", "source": "tools.exec.security",
                "layers": [{"layer": "default", "value": "deny"}, {"layer": "global", "value": "allowlist"}]},
            "document": {"status": "ok", "hash": "ab"}});
        assert_eq!(
            table(&policy).lines(),
            [
                "RULE            VALUE            SET BY               LAYERS",
                "agentId         main",
                "sessionKey      agent:main:main",
                "security        allowlist        tools.exec.security  default=deny global=allowlist",
                "approvalsApply  true",
                "document        ok               ab",
            ]
        );
    }
}
