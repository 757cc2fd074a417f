//! From the arguments of the process to its exit code.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::{
    FromArgMatches as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use clap_complete::CompleteEnv;

use countersign_config::settings::{Environment, ProcessEnvironment};
use countersign_domain::intended;

use super::{
    agents, allowlist, apply_patch, approvals, approver,
    arguments::{Arguments, Command, command_line},
    audit, browsers, check_gateway, completions, config,
    console::{ColorChoice, Console, Format},
    context::Context,
    corrected, demo, denylist, doctor, events, exec,
    exit::ExitStatus,
    failure::Failure,
    help, hook, init, login_link, man, mcp, members, node, nodes, openapi, policy, process, runner, runs,
    runtime::with_runtime,
    serve, session, status, stop, token, version,
};

/// Runs the command line of this process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let environment: Arc<dyn Environment> = Arc::new(ProcessEnvironment);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // A script of a shell asks for the words that fit.
    match CompleteEnv::with_factory(command_line)
        .var(completions::VARIABLE)
        .try_complete(arguments.iter().cloned(), None)
    {
        Ok(false) => {}
        Ok(true) => return ExitStatus::SUCCESS.into(),
        Err(error) => {
            drop(error.print());
            return ExitStatus::USAGE.into();
        }
    }
    let is_hook = arguments.iter().any(|argument| argument == "hook");
    let wants_json = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| {
            let bytes = argument.as_encoded_bytes();
            bytes == b"--json" || bytes.starts_with(b"--json=")
        });
    let typed: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let (command, arguments) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            let format = if wants_json && !is_hook {
                Format::Json
            } else {
                Format::People
            };
            let console = Console::new(format, ColorChoice::Auto, environment.as_ref());
            return of_wrong_usage(wrong_usage(&error, &typed, console), is_hook).into();
        }
    };
    let format = if arguments.json.is_some() {
        Format::Json
    } else {
        Format::People
    };
    let members = arguments.json.unwrap_or_default();
    let console = Console::new(format, arguments.color, environment.as_ref());
    // Before anything is asked of a server: what has happened cannot be asked for again.
    if let Err(failure) = members::check(&command, &members, &typed) {
        console.failure(&failure);
        return of_wrong_usage(failure.exit, is_hook).into();
    }
    let console = console.selecting(members);
    let context = Context::new(console, environment, arguments.server).without_pager(arguments.no_pager);
    match run(&context, arguments.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if failure.exit != ExitStatus::BROKEN_PIPE {
                console.failure(&failure);
            }
            failure.exit.into()
        }
    }
}

/// The arguments, and the words of the command that they call.
fn parse(arguments: Vec<OsString>) -> Result<(String, Arguments), clap::Error> {
    let mut command = command_line();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((members::command_of(&matches), arguments))
}

/// A hook that is configured wrongly must stop the command, and agents take one code only for that.
fn of_wrong_usage(exit: ExitStatus, is_hook: bool) -> ExitStatus {
    if is_hook && exit == ExitStatus::USAGE {
        ExitStatus::BLOCKS
    } else {
        exit
    }
}

fn run(context: &Context, command: Command) -> Result<ExitStatus, Failure> {
    match command {
        Command::Init(args) => init::run(context, &args),
        // The server starts its runner before any other thread exists, so it makes its own runtime.
        Command::Serve(args) => serve::run(context, args),
        // Neither does it have any other thread.
        Command::Runner(args) => runner::run(context, args),
        // Nor does the node host.
        Command::Node(command) => node::run(context, command),
        Command::Demo(args) => with_runtime(demo::run(context, args)),
        Command::Exec(args) => with_runtime(exec::run(context, args)),
        Command::ApplyPatch(args) => with_runtime(apply_patch::run(context, args)),
        Command::Mcp(args) => with_runtime(mcp::run(context, args)),
        Command::Hook(args) => with_runtime(hook::run(context, args)),
        Command::CheckGateway(args) => with_runtime(check_gateway::run(context, args)),
        Command::Stop(args) => with_runtime(stop::stop(context, args)),
        Command::Resume(args) => with_runtime(stop::resume(context, args)),
        Command::Approvals(command) => with_runtime(approvals::run(context, command)),
        Command::Approve(args) => with_runtime(approvals::approve(context, args)),
        Command::Deny(args) => with_runtime(approvals::deny(context, args)),
        Command::Approver(args) => with_runtime(approver::run(context, args)),
        Command::Allowlist(command) => with_runtime(allowlist::run(context, command)),
        Command::Denylist(command) => with_runtime(denylist::run(context, command)),
        Command::Agents(command) => with_runtime(agents::run(context, command)),
        Command::Config(command) => config::run(context, command),
        Command::Policy(command) => with_runtime(policy::run(context, command)),
        Command::Process(args) => with_runtime(process::run(context, args)),
        Command::Session(command) => with_runtime(session::run(context, command)),
        Command::Runs(command) => with_runtime(runs::run(context, command)),
        Command::Nodes(command) => with_runtime(nodes::run(context, command)),
        Command::Events(args) => with_runtime(events::run(context, args)),
        Command::Audit(command) => with_runtime(audit::run(context, command)),
        Command::Token(command) => with_runtime(token::run(context, command)),
        Command::LoginLink(args) => with_runtime(login_link::run(context, args)),
        Command::Browsers(command) => with_runtime(browsers::run(context, command)),
        Command::Status(args) => status::run(context, &args),
        Command::Version => version::run(context),
        Command::Doctor(args) if args.ready => with_runtime(doctor::ready(context)),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Security(command) => doctor::security(context, &command),
        Command::Openapi => openapi::run(context.console),
        Command::Completions(args) => completions::run(context.console, &args),
        Command::Man(args) => man::run(context.console, &args, command_line()),
        Command::Help(args) => help::run(&args, &command_line()),
    }
}

/// Help and version go to standard output; a wrong call becomes one line and a hint.
fn wrong_usage(error: &clap::Error, line: &[String], console: Console) -> ExitStatus {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that left (`countersign --help | head -1`) has what it wanted.
        drop(error.print());
        return ExitStatus::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let help = error.to_string();
        // A program reads the problem document alone.
        if console.format() == Format::People {
            console.note(&help);
        }
        let mut failure = Failure::usage("a subcommand is missing");
        failure.hint = list_of(&help).or_else(|| Some(help_of(line)));
        console.failure(&failure);
        return ExitStatus::USAGE;
    }
    let mut failure = usage_failure(error, line);
    if let Some((below, typed)) = typed(error)
        && let Some(known) = named_otherwise(&below, typed)
    {
        failure.hint = Some(known.to_owned());
    }
    console.failure(&failure);
    failure.exit
}

/// The command that looks at what a command without its subcommand is about, by its help.
fn list_of(help: &str) -> Option<String> {
    let usage = help.lines().find_map(|line| line.strip_prefix("Usage: "))?;
    let (command, _) = usage.split_once(" [")?;
    let shows = |name: &str| {
        help.lines()
            .any(|line| line.trim_start().split(' ').next() == Some(name))
    };
    let first = ["list", "show"].into_iter().find(|name| shows(name))?;
    Some(format!("{command} {first}"))
}

/// The command below which a subcommand was typed that is none, empty for the first one, and what was typed.
fn typed(error: &clap::Error) -> Option<(String, &str)> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    // The program may have been called by another name.
    let below: Vec<&str> = usage
        .strip_prefix("Usage: ")?
        .split_whitespace()
        .skip(1)
        .take_while(|word| !word.starts_with(['[', '<']))
        .collect();
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) => Some((below.join(" "), typed)),
        _ => None,
    }
}

/// The command for what people call otherwise.
fn named_otherwise(below: &str, typed: &str) -> Option<&'static str> {
    match below {
        "" => first_named_otherwise(typed),
        "policy" => match typed {
            "ls" | "list" | "get" | "status" => Some("countersign policy show"),
            _ => None,
        },
        "agents" => match typed {
            "muted" => Some("countersign agents mutes"),
            _ => None,
        },
        "session" => match typed {
            "ls" | "list" => Some("countersign session show KEY"),
            _ => None,
        },
        _ => None,
    }
}

fn first_named_otherwise(typed: &str) -> Option<&'static str> {
    Some(match typed {
        "run" | "sh" => "countersign exec -- PROGRAM",
        "log" | "logs" | "tail" => "countersign events --follow",
        "login" => "countersign login-link",
        "ls" | "list" | "ps" | "history" => "countersign runs list",
        "kill" | "cancel" => "countersign runs cancel RUN",
        "rm" | "remove" => "countersign allowlist remove ENTRY",
        "allow" | "accept" => "countersign approve ID",
        "reject" | "refuse" => "countersign deny ID",
        "pending" | "queue" | "inbox" => "countersign approvals list",
        "top" | "watch" => "countersign status --watch",
        "start" | "server" | "daemon" => "countersign serve",
        "check" | "health" => "countersign doctor",
        "explain" | "why" => "countersign policy explain PROGRAM",
        "users" | "who" => "countersign browsers list",
        "sessions" => "countersign session show",
        "settings" => "countersign config list",
        "tokens" => "countersign token list",
        "mute" => "countersign agents mute AGENT --for 30m",
        "unmute" => "countersign agents unmute AGENT",
        "deny-list" | "denylists" | "blocklist" | "rules" => "countersign denylist list",
        "allow-list" | "allowlists" | "entries" => "countersign allowlist list",
        _ => return None,
    })
}

/// clap's message has a first paragraph that says what is wrong. The hint is the line that was probably wanted, or the help of the
/// command.
fn usage_failure(error: &clap::Error, line: &[String]) -> Failure {
    let rendered = error.to_string();
    let what = rendered.split("\n\n").next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    // The words of a reader of numbers say nothing of what was expected.
    let what = what.replace("invalid digit found in string", "expected a whole number");
    let hint = corrected(error, line).unwrap_or_else(|| help_of(line));
    Failure::usage(what).hint(hint)
}

/// The help of the command that was called.
fn help_of(line: &[String]) -> String {
    let root = command_line();
    let mut command = &root;
    let mut words = vec!["countersign".to_owned()];
    for word in line {
        // Options and their values stand between the words of a command.
        if let Some(below) = command.find_subcommand(word).filter(|_| word != "help") {
            command = below;
            words.push(below.get_name().to_owned());
        }
    }
    words.push("--help".to_owned());
    words.join(" ")
}

/// The line with what is known in the place of the word that is not.
fn corrected(error: &clap::Error, line: &[String]) -> Option<String> {
    let (wrong, right) = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ]
    .into_iter()
    .find_map(|(wrong, right)| Some((error.get(wrong)?, error.get(right)?)))?;
    let ContextValue::String(wrong) = wrong else {
        return None;
    };
    let right = if let ContextValue::String(right) = right {
        right.as_str()
    } else if let ContextValue::Strings(several) = right {
        intended(wrong, several.iter().map(String::as_str))?
    } else {
        return None;
    };
    corrected::with_word(line, wrong, right)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    fn failure_of(line: &[&str]) -> String {
        let error = Arguments::try_parse_from(std::iter::once(&"countersign").chain(line)).unwrap_err();
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        usage_failure(&error, &line).to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_help_with_examples_where_it_takes_arguments() {
        for command in Arguments::command().get_subcommands() {
            assert!(
                command.get_about().is_some(),
                "{} says nothing",
                command.get_name()
            );
            let takes_arguments = command.get_arguments().next().is_some() || command.has_subcommands();
            let examples = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                !takes_arguments || examples.contains("Examples:"),
                "{} has no examples",
                command.get_name()
            );
        }
    }

    #[test]
    fn a_wrong_call_is_one_line_and_a_hint() {
        assert_eq!(
            failure_of(&["runs", "show"]),
            "error[usage]: the following required arguments were not provided: <RUN>\n\
             hint: countersign runs show --help"
        );
        for (line, hint) in [
            (&["evnts", "--follow"][..], "countersign events --follow"),
            (&["events", "--folow"], "countersign events --follow"),
            (&["runs", "list", "--limt=3"], "countersign runs list --limit=3"),
            (
                &["policy", "preset", "--agent"],
                "countersign policy preset --help",
            ),
            (
                &["events", "--types", "it's", "--folow"],
                r"countersign events --types 'it'\''s' --follow",
            ),
            (&["exec", "-c", "ls", "git"], "countersign exec --help"),
            // `stop` needs a reason.
            (&["stpo"], "countersign --help"),
            (&["runs", "list", "--limit", "0"], "countersign runs list --help"),
            (
                &["--color", "never", "runs", "ls", "--limit", "x"],
                "countersign runs list --help",
            ),
            // A secret is not repeated.
            (&["--token", "cst_x", "evnts"], "countersign --help"),
        ] {
            let said = failure_of(line);
            let said = said.lines().last().expect("a line");
            assert_eq!(said, format!("hint: {hint}"), "{line:?}");
        }
    }

    #[test]
    fn options_after_the_program_are_the_programs() {
        for (line, program) in [
            (
                &["exec", "git", "status", "--json"][..],
                &["git", "status", "--json"][..],
            ),
            (&["exec", "--", "git", "-c", "x"], &["git", "-c", "x"]),
            (&["exec", "printf", "%s", "--", "x"], &["printf", "%s", "--", "x"]),
            (&["exec", "--no-wait", "git", "--help"], &["git", "--help"]),
            (&["exec", "--", "--odd"], &["--odd"]),
        ] {
            let read = parse(
                std::iter::once(&"countersign")
                    .chain(line)
                    .map(OsString::from)
                    .collect(),
            );
            let (_, arguments) = read.unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert!(arguments.json.is_none(), "{line:?}");
            let Command::Exec(args) = arguments.command else {
                panic!("{line:?}");
            };
            assert_eq!(args.program(), program, "{line:?}");
        }
        // A misspelt option of ours is no program.
        assert!(failure_of(&["exec", "--no-wiat", "git"]).contains("unexpected argument '--no-wiat'"));
        assert!(failure_of(&["exec", "-c", "ls", "git"]).contains("cannot be used with"));
    }

    #[test]
    fn flags_that_name_the_server_may_stand_anywhere() {
        let line = [
            "countersign",
            "events",
            "--json",
            "--url",
            "http://x",
            "--state-dir",
            "/s",
        ];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.json, Some(Vec::new()));
        assert_eq!(arguments.server.url.as_deref(), Some("http://x"));
    }
}
