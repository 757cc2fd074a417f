//! The command line as clap reads it. Each subcommand's arguments live in that subcommand's file.

use clap::CommandFactory as _;

use super::{
    agents::AgentsCommand,
    allowlist::AllowlistCommand,
    apply_patch::ApplyPatchArgs,
    approvals::{ApprovalsCommand, ApproveArgs, DenyArgs},
    approver::ApproverArgs,
    audit::AuditCommand,
    browsers::BrowsersCommand,
    candidates,
    check_gateway::CheckGatewayArgs,
    completions::CompletionsArgs,
    config::ConfigCommand,
    console::ColorChoice,
    context::{GLOBAL_OPTIONS, ServerFlags},
    demo::DemoArgs,
    denylist::DenylistCommand,
    doctor::{DoctorArgs, SecurityCommand},
    events::EventsArgs,
    exec::ExecArgs,
    help::HelpArgs,
    hook::HookArgs,
    init::InitArgs,
    login_link::LoginLinkArgs,
    man::ManArgs,
    mcp::McpArgs,
    node::NodeCommand,
    nodes::NodesCommand,
    policy::PolicyCommand,
    process::ProcessArgs,
    runner::RunnerArgs,
    runs::RunsCommand,
    serve::ServeArgs,
    session::SessionCommand,
    status::StatusArgs,
    stop::{ResumeArgs, StopArgs},
    token::TokenCommand,
};

/// The commands in the order in which the help lists them. A command that is in no group is not shown.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Ask", &["exec", "apply-patch", "process", "runs"]),
    (
        "Answer",
        &[
            "approvals",
            "approve",
            "deny",
            "approver",
            "login-link",
            "browsers",
        ],
    ),
    (
        "Policy",
        &["allowlist", "denylist", "agents", "policy", "config", "session"],
    ),
    ("Look", &["status", "events", "audit", "doctor", "security"]),
    (
        "Operate",
        &[
            "init", "serve", "stop", "resume", "token", "nodes", "node", "runner",
        ],
    ),
    (
        "Agents and tools",
        &[
            "mcp",
            "hook",
            "check-gateway",
            "demo",
            "openapi",
            "completions",
            "man",
            "version",
        ],
    ),
];

/// The command line with its commands in groups.
pub(crate) fn command_line() -> clap::Command {
    let command = Arguments::command();
    let widest = command
        .get_subcommands()
        .map(|known| known.get_name().len())
        .max()
        .unwrap_or_default();
    let groups: Vec<String> = GROUPS
        .iter()
        .map(|(title, names)| {
            let line = |name: &&str| {
                let about = command.find_subcommand(name).and_then(clap::Command::get_about);
                let about = about.map(ToString::to_string).unwrap_or_default();
                format!("  {name:widest$}  {about}\n")
            };
            let lines: String = names.iter().map(line).collect();
            format!("{title}:\n{lines}")
        })
        .collect();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\n{GLOBAL_OPTIONS}:\n{{options}}{{after-help}}",
        groups.join("\n")
    );
    rewrapped(command.help_template(template))
}

/// The same with each paragraph below the options on one line, so that it is broken once, where the terminal ends.
fn rewrapped(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(one_line_a_paragraph(&text));
    }
    command.mut_subcommands(rewrapped)
}

/// A line goes on in the next unless one of them is empty, indented or a heading.
fn one_line_a_paragraph(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let goes_on = |last: &String| {
            !last.is_empty()
                && !last.starts_with(' ')
                && !last.ends_with(':')
                && !line.is_empty()
                && !line.starts_with(' ')
        };
        match lines.last_mut().filter(|last| goes_on(last)) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// The control plane between AI agents and the machines they run commands on
#[derive(Debug, clap::Parser)]
#[command(
    name = "countersign",
    version,
    disable_help_subcommand = true,
    after_help = "Examples:
  countersign demo                        # the main job on a throw-away state directory
  countersign init && countersign serve   # a real one
  countersign exec -- git status          # ask for a command

Environment: COUNTERSIGN_URL and COUNTERSIGN_TOKEN name a server, OPENCLAW_STATE_DIR a state
directory, NO_COLOR turns colours off. COUNTERSIGN_PAGER or PAGER names the pager of long lists at
a terminal (less -FRX unless set)."
)]
pub(crate) struct Arguments {
    /// Print data as JSON, or no more than these members of it: --json=runId,status
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "MEMBERS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        add = candidates::members(),
    )]
    pub(crate) json: Option<Vec<String>>,

    /// Use colours: at a terminal, always or never
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: ColorChoice,

    /// Print long lists at a terminal without a pager
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) no_pager: bool,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// First run: choose how careful to be, write the settings
    Init(InitArgs),
    /// Run the server
    Serve(ServeArgs),
    /// Start commands as this account, for a server of another account
    Runner(RunnerArgs),
    /// Show the main job on a throw-away state directory
    Demo(DemoArgs),
    /// Run a command on a host, if policy and people allow it
    Exec(ExecArgs),
    /// Look after what runs in the background
    Process(ProcessArgs),
    /// Change files by a patch, if policy and people allow it
    ApplyPatch(ApplyPatchArgs),
    /// Serve the Model Context Protocol on standard input and output
    Mcp(McpArgs),
    /// Judge the shell commands of another agent: JSON in, decision out
    Hook(HookArgs),
    /// Play the cases that every gateway meets, and report how a gateway takes them
    CheckGateway(CheckGatewayArgs),
    /// Stop everything at once: nothing starts any more
    Stop(StopArgs),
    /// Let everything go on after a stop
    Resume(ResumeArgs),
    /// See and answer what waits for a person
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Approve what waits for a person
    Approve(ApproveArgs),
    /// Deny what waits for a person
    Deny(DenyArgs),
    /// Answer questions at this terminal
    Approver(ApproverArgs),
    /// See and change which programs may run without asking
    #[command(subcommand)]
    Allowlist(AllowlistCommand),
    /// See and change what never runs
    #[command(subcommand)]
    Denylist(DenylistCommand),
    /// See agents, and mute one for a while
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// View and change policy
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// See and change openclaw.json
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Be a node: run commands for a gateway, if this machine's own policy allows them
    #[command(subcommand)]
    Node(NodeCommand),
    /// See and change what a session overrides
    #[command(subcommand)]
    Session(SessionCommand),
    /// Look at what ran
    #[command(subcommand)]
    Runs(RunsCommand),
    /// See the nodes, and decide which machines become one
    #[command(subcommand)]
    Nodes(NodesCommand),
    /// Show the retained events, or follow new ones
    Events(EventsArgs),
    /// Read and check the audit record
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Make and revoke API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a one-time link that signs a browser in
    LoginLink(LoginLinkArgs),
    /// See which browsers are signed in, and sign them out
    #[command(subcommand)]
    Browsers(BrowsersCommand),
    /// Show how the server stands
    Status(StatusArgs),
    /// Check the setup and suggest fixes
    Doctor(DoctorArgs),
    /// Audit the security settings
    #[command(subcommand)]
    Security(SecurityCommand),
    /// Print the contract of the HTTP API
    #[command(after_help = "Examples:
  countersign openapi > openapi.json")]
    Openapi,
    /// Print a script that completes commands in a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Print the version of this program
    #[command(after_help = "Examples:
  countersign version
  countersign version --json")]
    Version,
    /// Show the help of a command
    #[command(hide = true)]
    Help(HelpArgs),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|known| !known.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.len(), shown.len(), "one stands in two groups, or in none");
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), shown);
    }
}
