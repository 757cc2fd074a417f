//! The command line as clap reads it. Each subcommand's arguments live in that subcommand's file.

use clap::CommandFactory as _;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

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
    let command = with_telling_options(command.help_template(template));
    rewrapped(with_known_words(command, false))
}

/// The options of all commands that say nothing to some. There they are taken all the same, but not listed.
const SAY_NOTHING: &[(&str, &[&str])] = &[
    ("init", &["url", "token"]),
    ("serve", &["url", "token"]),
    ("runner", &["url", "token", "json"]),
    ("demo", &["url", "token", "state_dir"]),
    ("node", &["url", "token"]),
    ("hook", &["token", "json"]),
    ("mcp", &["json"]),
    ("check-gateway", &["url", "state_dir"]),
    ("openapi", &["url", "token", "state_dir", "json", "color"]),
    ("completions", &["url", "token", "state_dir", "json", "color"]),
    ("man", &["url", "token", "state_dir", "color"]),
    ("version", &["url", "token", "state_dir", "color"]),
];

/// The same with the options of all commands listed only where they mean something.
fn with_telling_options(mut command: clap::Command) -> clap::Command {
    let globals: Vec<clap::Arg> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .cloned()
        .collect();
    for (name, say_nothing) in SAY_NOTHING {
        let hidden = globals
            .iter()
            .filter(|argument| say_nothing.contains(&argument.get_id().as_str()))
            .map(|argument| argument.clone().hide(true));
        let hidden: Vec<clap::Arg> = hidden.collect();
        command = command.mut_subcommand(name, |below| below.args(hidden));
    }
    // Only lists go through a pager.
    let pager = globals
        .into_iter()
        .find(|argument| argument.get_id() == "no_pager");
    match pager {
        Some(pager) => command.mut_subcommands(|below| without_pager(below, &pager.clone().hide(true))),
        None => command,
    }
}

/// The same with the words that options take, for completion. What has candidates of its own keeps them.
fn with_known_words(command: clap::Command, is_policy: bool) -> clap::Command {
    let inherits = is_policy && command.get_name() == "set";
    let is_policy = command.get_name() == "policy";
    let command = command.mut_args(|argument| {
        let has_own =
            argument.get::<ArgValueCandidates>().is_some() || argument.get::<ArgValueCompleter>().is_some();
        match candidates::of_option(argument.get_id().as_str(), inherits) {
            Some(words) if !has_own && argument.get_action().takes_values() => argument.add(words),
            Some(_) | None => argument,
        }
    });
    command.mut_subcommands(|below| with_known_words(below, is_policy))
}

fn without_pager(command: clap::Command, hidden: &clap::Arg) -> clap::Command {
    if command.has_subcommands() {
        return command.mut_subcommands(|below| without_pager(below, hidden));
    }
    let is_list = command
        .get_arguments()
        .any(|argument| argument.get_id() == "wide");
    if is_list { command } else { command.arg(hidden) }
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
directory, NO_COLOR turns colours off and CLICOLOR_FORCE on. COUNTERSIGN_PAGER or PAGER names the pager of long lists at
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

    /// The options that a command lists.
    fn listed(words: &[&str]) -> Vec<String> {
        let mut command = command_line();
        command.build();
        let command = words.iter().fold(&command, |command, word| {
            command.find_subcommand(word).expect("a command")
        });
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let names = shown.filter_map(|argument| argument.get_long().map(str::to_owned));
        names.collect()
    }

    #[test]
    fn options_of_all_commands_are_listed_where_they_mean_something() {
        let all = ["json", "color", "no-pager", "url", "token", "state-dir"];
        let globals = |words: &[&str]| -> Vec<String> {
            let listed = listed(words);
            listed
                .into_iter()
                .filter(|name| all.contains(&name.as_str()))
                .collect()
        };
        for (words, expected) in [
            (&["runs", "list"][..], &all[..]),
            (&["runs", "show"], &["json", "color", "url", "token", "state-dir"]),
            (&["openapi"], &[]),
            (&["completions"], &[]),
            (&["man"], &["json"]),
            (&["version"], &["json"]),
            (&["demo"], &["json", "color"]),
            (&["init"], &["json", "color", "state-dir"]),
            (&["serve"], &["json", "color", "state-dir"]),
            (&["node", "status"], &["json", "color", "state-dir"]),
        ] {
            let (mut found, mut expected) = (globals(words), expected.to_vec());
            found.sort();
            expected.sort_unstable();
            assert_eq!(found, expected, "{words:?}");
        }
        // They are taken all the same: an environment of scripts may set them for every call.
        for line in [
            "openapi --url http://x --json",
            "version --no-pager",
            "node status --token x",
        ] {
            let words = std::iter::once("countersign").chain(line.split(' '));
            command_line().try_get_matches_from(words).expect(line);
        }
    }

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
