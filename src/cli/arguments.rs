//! The command line as clap reads it. Each subcommand's arguments live in that subcommand's file.

use super::{
    allowlist::AllowlistCommand,
    apply_patch::ApplyPatchArgs,
    approvals::ApprovalsCommand,
    approver::ApproverArgs,
    audit::AuditCommand,
    completions::CompletionsArgs,
    config::ConfigCommand,
    context::ServerFlags,
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
    stop::{ResumeArgs, StopArgs},
    token::TokenCommand,
};

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
directory, NO_COLOR turns colours off."
)]
pub(crate) struct Arguments {
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

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
    /// Stop everything at once: nothing starts any more
    Stop(StopArgs),
    /// Let everything go on after a stop
    Resume(ResumeArgs),
    /// See and answer what waits for a person
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Answer questions at this terminal
    Approver(ApproverArgs),
    /// See and change which programs may run without asking
    #[command(subcommand)]
    Allowlist(AllowlistCommand),
    /// See and change what never runs
    #[command(subcommand)]
    Denylist(DenylistCommand),
    /// See and change what policy holds
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
    /// Say what is wrong or risky, and how to fix it
    Doctor(DoctorArgs),
    /// Look for what lets more happen than it should
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
    /// Show the help of a command
    #[command(hide = true)]
    Help(HelpArgs),
}
