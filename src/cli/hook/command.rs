//! The subcommand.

use std::{io::Read as _, time::Duration};

use countersign_domain::AgentId;
use countersign_sys::clock::{Ids as _, SystemIds};

use super::{
    client_rules, evaluate,
    format::{Decision, Denial, Format, Reply},
    question::{AskedCommand, Question},
    replacement::Replacement,
};

use crate::cli::{
    candidates, context::Context, discover::Role, duration::parse_duration, exit::ExitStatus,
    failure::Failure,
};

/// Far above any command that could be started.
const MAX_INPUT: u64 = 4 * 1024 * 1024;

/// Judge the shell commands of another agent: JSON in, decision out
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  echo '{\"argv\":[\"git\",\"status\"]}' | countersign hook json
  countersign hook claude-code --timeout 9m        # as a PreToolUse hook, see docs/agents.md
  countersign hook codex --mode redirect
  countersign hook gemini --timeout 9m             # as a BeforeTool hook

A command that is allowed is replaced by `countersign exec` with the same command, so that it runs
once, as judged, with a record. A command that needs a person waits for them.
Exit codes: 0 with a decision on standard output; 2 stops the agent's command.")]
pub(crate) struct HookArgs {
    /// Format of input and output
    #[arg(value_enum)]
    format: Format,
    /// What becomes of a command [default: rewrite; codex: redirect]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// How long to wait for a person; then the question is withdrawn and the answer is no
    #[arg(long, value_name = "DURATION", default_value = "9m", value_parser = parse_duration)]
    timeout: Duration,
    /// What to answer when no server can be asked
    #[arg(long, value_enum, default_value = "deny")]
    if_unavailable: IfUnavailable,
    /// Agent that asks
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Replace it by countersign exec
    Rewrite,
    /// Deny it and point to the MCP tool
    Redirect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IfUnavailable {
    /// No
    Deny,
    /// Let the agent ask its own user, where it can
    Ask,
    /// Say nothing: the agent goes its own way
    Pass,
}

/// Reads a question and writes a decision. Every failure stops the agent's command.
pub(crate) async fn run(context: &Context, args: HookArgs) -> Result<ExitStatus, Failure> {
    match answer(context, &args).await {
        Ok(Reply { output, exit }) => {
            let written = match output {
                Some(output) => context.console.json_line(&output),
                None => Ok(()),
            };
            written.map(|()| exit).map_err(blocking)
        }
        Err(failure) => Err(blocking(failure)),
    }
}

fn blocking(failure: Failure) -> Failure {
    failure.exit(ExitStatus::BLOCKS)
}

async fn answer(context: &Context, args: &HookArgs) -> Result<Reply, Failure> {
    if context.server.token.is_some() {
        return Err(
            Failure::usage("--token would be visible in the replaced command and is not taken here")
                .advice("set COUNTERSIGN_TOKEN for the agent, or leave it to the state directory"),
        );
    }
    let mut asked = match args.format.question(&read_input()?)? {
        Question::Other => return Ok(args.format.reply(None, Decision::Nothing)),
        Question::Unknown { tool } => {
            return Ok(args
                .format
                .reply(None, Decision::Deny(unknown(&tool, args.format))));
        }
        Question::Command(asked) => asked,
    };
    if let Some(agent) = &args.agent {
        asked.agent = Some(agent.to_string());
    }
    if let Some(denial) = forbidden(context, args.format, &asked) {
        return Ok(args.format.reply(Some(&asked), Decision::Deny(denial)));
    }
    let decision = match args.mode.unwrap_or_else(|| args.default_mode()) {
        Mode::Redirect => Decision::Deny(redirected()),
        Mode::Rewrite => decide(context, args, &asked).await?,
    };
    Ok(args.format.reply(Some(&asked), decision))
}

/// Why the client would not run the command that its agent wrote. It looks at the replacement only, which is another.
fn forbidden(context: &Context, format: Format, asked: &AskedCommand) -> Option<Denial> {
    match format {
        Format::ClaudeCode => {
            client_rules::denial(asked, format.shell(), context.environment.as_ref()).unwrap_or_else(Some)
        }
        Format::Codex | Format::Gemini | Format::Json => None,
    }
}

async fn decide(context: &Context, args: &HookArgs, asked: &AskedCommand) -> Result<Decision, Failure> {
    let key = SystemIds.random().to_string();
    let replacement = Replacement::new(&own_program()?, &server_flags(context)?, asked, &key);
    let client = match context.client(Role::Gateway) {
        Ok(client) => client,
        // No server has ever run here, or it is gone.
        Err(failure) => return Ok(args.if_unavailable.decision(failure)),
    };
    let decision = evaluate::evaluate(&client, replacement, &key, args.timeout).await;
    Ok(match decision {
        Ok(decision) => decision,
        Err(failure) if failure.is_no_connection() => args.if_unavailable.decision(failure),
        Err(failure) if failure.code == "interrupted" => return Err(failure),
        Err(failure) => Decision::Deny(failure.into()),
    })
}

impl HookArgs {
    /// Not every version of Codex takes a replacement, and those that do not let the command through.
    fn default_mode(&self) -> Mode {
        match self.format {
            Format::Codex => Mode::Redirect,
            Format::ClaudeCode | Format::Gemini | Format::Json => Mode::Rewrite,
        }
    }
}

impl IfUnavailable {
    fn decision(self, failure: Failure) -> Decision {
        match self {
            Self::Deny => Decision::Deny(failure.into()),
            Self::Ask => Decision::AskThere(failure.into()),
            Self::Pass => Decision::Nothing,
        }
    }
}

fn read_input() -> Result<Vec<u8>, Failure> {
    let mut input = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_INPUT + 1)
        .read_to_end(&mut input)?;
    if u64::try_from(input.len()).unwrap_or(u64::MAX) > MAX_INPUT {
        return Err(Failure::usage(format!(
            "standard input is larger than {MAX_INPUT} bytes"
        )));
    }
    Ok(input)
}

/// This program, as a shell elsewhere finds it.
fn own_program() -> Result<String, Failure> {
    let program = std::env::current_exe()?;
    let text = program.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new("program", "the path of this program is not valid UTF-8"))
}

/// The flags that name the same server; what comes from the environment is there for the replacement too.
fn server_flags(context: &Context) -> Result<Vec<String>, Failure> {
    let server = &context.server;
    let mut flags: Vec<String> = server.url.iter().map(|url| format!("--url={url}")).collect();
    if let Some(directory) = &server.state_dir {
        let directory = std::path::absolute(directory)?;
        let text = directory
            .to_str()
            .ok_or_else(|| Failure::usage("--state-dir is not valid UTF-8"))?;
        flags.push(format!("--state-dir={text}"));
    }
    Ok(flags)
}

fn unknown(tool: &str, format: Format) -> Denial {
    let shell = format.shell();
    Denial {
        code: "unknown-tool".to_owned(),
        detail: format!("commands of the tool {tool} cannot be handed to countersign; use {shell}"),
        hint: None,
    }
}

fn redirected() -> Denial {
    Denial {
        code: "use-mcp".to_owned(),
        detail: "commands run through countersign here: call the tool `exec` of the MCP server `countersign` with the \
                 same command"
            .to_owned(),
        hint: None,
    }
}
