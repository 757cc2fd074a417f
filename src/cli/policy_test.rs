//! `countersign policy test`: a file of commands, each with what policy is expected to say.
//!
//! It must never run a command of the file. The server explains each one; without a server, this module judges it under
//! the files of the state directory. A case with a world of its own sees only the files of that world. Entry point:
//! [`run`]. Read on: [`countersign_trials::cases`] reads the cases and makes their worlds.

use std::{fs, io::Read as _, path::PathBuf};

use serde_json::{Value, json};

use countersign_domain::{AgentId, Command};
use countersign_engine::candidate::{Candidate, Foreseen, RecordedCommand};
use countersign_trials::cases::{self, Case, CaseResult, Expect, Notation, World};
use countersign_wire::trial::{FailedCaseBody, TestedBody};

use super::{
    console::{Format, Tone},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    policy_replay,
    table::Table,
};

/// A file of cases is written by people or a small program; this is far above any.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Check a file of commands against what policy is expected to say
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy test cases.yaml
  countersign policy test cases.jsonl --json

A case is {\"command\": \"git push\", \"expect\": \"ask\"}, with expect allow, ask or reject,
and agent and id as you like; without an id it has the number of the line where it begins. With
\"pty\": true or \"background\": true it is judged as a call that more can be typed into. The
file is YAML (a list of cases, or a document each), a JSON array of cases, or JSON values one
after the other, a line each. What is called .yaml or .yml is YAML, and so is what is no JSON.

The running server says what would become of each command at this moment, whether or not anybody could be
asked. Where none runs, the files of the state directory are judged as they stand, for
commands of the gateway host. A case that brings its own world is judged in that, with default
settings: cwd, path_dirs, files, realpaths, trusted_dirs, allowlist, safe_bins,
strict_inline_eval, null_redirections, here_documents, file_redirections,
file_patterns, temporary_files, found_files, document_operands, variables, substitutions, braces, compound_commands,
loops, later_values, background_commands, project_runners, env.

Exits 1 when a case fails.")]
pub(crate) struct TestArgs {
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) async fn run(context: &Context, args: &TestArgs) -> Result<ExitStatus, Failure> {
    let text = read(args)?;
    let cases = cases::parse(&text, Notation::of(&args.file))
        .map_err(|invalid| Failure::usage(format!("{}: {invalid}", args.file.display())))?;
    let mut failed = Vec::new();
    let mut files = None;
    for case in &cases {
        let result = evaluate(context, case, &mut files).await?;
        failed.extend(result.failure(case));
    }
    report(context, cases.len(), failed)
}

fn read(args: &TestArgs) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if args.file.as_os_str() == "-" {
        std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text)
    } else {
        fs::File::open(&args.file).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
    };
    match read {
        Ok(_bytes) => Ok(text),
        Err(error) => Err(Failure::usage(format!(
            "{} cannot be read: {error}",
            args.file.display()
        ))),
    }
}

/// `files` are those of the state directory, once it is known that no server runs.
async fn evaluate(
    context: &Context,
    case: &Case,
    files: &mut Option<Candidate>,
) -> Result<CaseResult, Failure> {
    let world = match &case.world {
        World::Own(world) => return Ok(cases::judge_in_own_world(case, world)),
        World::Server { agent } => agent,
    };
    let mut call = json!({ "command": case.command });
    if let Some(members) = call.as_object_mut() {
        let mut put = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("agentId", world.as_ref().map(|agent| json!(agent)));
        put("pty", case.pty.then_some(json!(true)));
        put("background", case.background.then_some(json!(true)));
    }
    if let Some(files) = files {
        return by_files(files, case, world.as_ref());
    }
    let asked = match context.client(Role::Operator) {
        Ok(client) => client.post(&["v1", "exec", "explain"], &call).await,
        Err(failure) => Err(failure),
    };
    match asked {
        Ok(explained) => Ok(CaseResult::of_explanation(&explained)),
        Err(failure) if failure.exit == ExitStatus::UNAVAILABLE && !context.names_a_server() => {
            let files = files.insert(policy_replay::present_policy(context)?);
            by_files(files, case, world.as_ref())
        }
        // The rules are not even asked, and nothing runs.
        Err(failure) if failure.code == "blank-command" => Ok(CaseResult::refused(failure.message)),
        Err(failure) => Err(failure),
    }
}

fn by_files(files: &Candidate, case: &Case, agent: Option<&AgentId>) -> Result<CaseResult, Failure> {
    if case.command.trim().is_empty() {
        return Ok(CaseResult::refused("the command is blank".to_owned()));
    }
    let agent = agent.cloned().unwrap_or_else(AgentId::main);
    let not_here = |why: String| {
        Failure::unavailable(format!(
            "case {} cannot be judged without a server: {why}",
            case.id
        ))
        .hint("countersign serve")
    };
    let cwd = files.gateway_workspace(&agent).ok_or_else(|| {
        not_here(format!(
            "commands of the agent {agent} do not run on the gateway host"
        ))
    })?;
    let recorded = RecordedCommand {
        agent,
        command: Command::Shell(case.command.clone()),
        cwd,
        env_names: Vec::new(),
        input: case.input(),
    };
    let opinion = files
        .evaluate(recorded)
        .map_err(|error| not_here(error.to_string()))?;
    Ok(CaseResult {
        actual: match opinion.foreseen {
            Foreseen::Run => Expect::Allow,
            Foreseen::Ask => Expect::Ask,
            Foreseen::Deny => Expect::Reject,
        },
        why: opinion.why,
    })
}

fn report(context: &Context, total: usize, failed: Vec<FailedCaseBody>) -> Result<ExitStatus, Failure> {
    let console = context.console;
    let (total, failures) = (total as u64, failed.len() as u64);
    let tested = TestedBody {
        total,
        passed: total - failures,
        failed,
    };
    match console.format() {
        Format::Json => console.document(&json!(tested))?,
        Format::People => {
            let mut table = Table::new(&["CASE", "EXPECTED", "ACTUAL", "COMMAND", "WHY"]);
            for case in &tested.failed {
                table.row([
                    case.id.as_str(),
                    case.expected.as_ref(),
                    case.actual.as_ref(),
                    case.command.as_str(),
                    case.why.as_str(),
                ]);
            }
            if failures > 0 {
                console.table(&table, "")?;
            }
            let tone = if failures == 0 { Tone::Good } else { Tone::Bad };
            console.line(&console.paint(tone, &format!("{} of {total} as expected", tested.passed)))?;
        }
    }
    Ok(if failures == 0 {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    })
}
