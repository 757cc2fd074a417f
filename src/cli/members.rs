//! The members that a command can print, so that a misspelt one of `--json=MEMBERS` is refused before anything is asked of a server.
//!
//! What a command prints is mostly what the API answers, so the names come from the contract that is built in.

use std::collections::BTreeSet;

use clap::ArgMatches;
use serde_json::{Map, Value};

use countersign_domain::intended;

use super::{corrected, failure::Failure, value};

/// What a command prints as JSON: the members of these schemas of the contract, and those of its own.
struct Printed {
    /// The words of the command, perhaps with an option by which it prints something else.
    command: &'static str,
    schemas: &'static [&'static str],
    own: &'static [&'static str],
}

const fn row(
    command: &'static str,
    schemas: &'static [&'static str],
    own: &'static [&'static str],
) -> Printed {
    Printed {
        command,
        schemas,
        own,
    }
}

/// Options by which a command prints something else.
const SWITCHES: [&str; 2] = ["explain", "ready"];

/// What this program adds to an entry or a rule.
const OF_AGENT: &[&str] = &["agentId"];
const DOCTOR: &[&str] = &["findings", "repaired", "repairs", "from"];

/// Every command. One without members prints no JSON, or prints it as it is.
const PRINTED: &[Printed] = &[
    row("init", &[], &["preset", "written", "files", "next"]),
    row(
        "serve",
        &[],
        &[
            "status",
            "url",
            "socket",
            "isolation",
            "insecureBind",
            "metrics",
            "mock",
            "token",
            "stateDir",
            "rules",
        ],
    ),
    row("runner", &[], &[]),
    row("demo", &[], &["steps"]),
    row("exec", &["ExecFinished", "ExecStarted", "RunWithOutput"], &[]),
    row("exec --explain", &["Explanation"], &[]),
    row("process list", &["ProcessSession"], &[]),
    row("process poll", &["ProcessPoll"], &["event", "data"]),
    row("process log", &["ProcessLog"], &["event", "data"]),
    row("process write", &["ProcessInput"], &[]),
    row("process send-keys", &["ProcessInput"], &[]),
    row("process submit", &["ProcessInput"], &[]),
    row("process paste", &["ProcessInput"], &[]),
    row("process resize", &["ProcessInput"], &[]),
    row("process kill", &["ProcessEnd"], &[]),
    row("process clear", &["ProcessEnd"], &[]),
    row("process remove", &["ProcessEnd"], &[]),
    row("apply-patch", &["PatchApplied", "ExecStarted"], &[]),
    row("mcp", &[], &[]),
    row("hook", &[], &[]),
    row("check-gateway", &[], &["gateway", "passed", "cases"]),
    row("stop", &["StopAnswer"], &[]),
    row("resume", &["ResumeAnswer"], &[]),
    row("approvals list", &["Approval"], &[]),
    row("approvals show", &["Approval"], &[]),
    row("approvals resolve", &["DecisionResult", "DecisionsResult"], &[]),
    row("approvals allow", &["DecisionResult", "DecisionsResult"], &[]),
    row("approvals deny", &["DecisionResult", "DecisionsResult"], &[]),
    row("approvals take-back", &["DecisionResult"], &[]),
    row("approvals watch", &["Approval", "Event"], &[]),
    row("approve", &["DecisionResult", "DecisionsResult"], &[]),
    row("deny", &["DecisionResult", "DecisionsResult"], &[]),
    row("approver", &[], &[]),
    row("allowlist list", &["AllowlistEntry"], OF_AGENT),
    row(
        "allowlist add",
        &["AllowlistEntry"],
        &["agentId", "sets", "applied", "items"],
    ),
    row("allowlist remove", &[], &["removed"]),
    row("allowlist show", &["AllowlistEntry"], OF_AGENT),
    row("denylist list", &["DenyRule"], OF_AGENT),
    row("denylist add", &["DenyRule"], OF_AGENT),
    row("denylist remove", &[], &["removed", "held"]),
    row("denylist show", &["DenyRule"], OF_AGENT),
    row("agents list", &["Agent"], &[]),
    row("agents mute", &["AgentMute"], &[]),
    row("agents mutes", &["AgentMute"], &[]),
    row("agents unmute", &[], &["unmuted", "held"]),
    row("policy show", &["EffectivePolicy"], &[]),
    row("policy set", &["AgentPolicy"], &[]),
    row(
        "policy preset",
        &[],
        &["name", "applied", "changes", "ownKeys", "effect"],
    ),
    row("policy explain", &["Explanation"], &[]),
    row("policy why", &["Explanation"], &[]),
    row("policy test", &["TestedPolicy"], &[]),
    row("policy backtest", &["Backtest"], &[]),
    row("policy shadow", &["ComparedCommand"], &["runId", "ts", "summary"]),
    row("policy suggest", &[], &["suggestions", "leftOut"]),
    row(
        "policy forecast",
        &[],
        &[
            "agentId",
            "policy",
            "sinceMs",
            "sources",
            "commands",
            "distinct",
            "run",
            "ask",
            "deny",
            "notJudged",
            "elsewhere",
            "skipped",
            "reasons",
            "entries",
            "askWithEntries",
            "starterSets",
        ],
    ),
    row(
        "policy diff",
        &[],
        &["exec-approvals.json", "openclaw.json", "countersign.toml"],
    ),
    row("policy accept", &[], &["accepted", "document"]),
    row("policy reject", &[], &["rejected", "document"]),
    row("policy history", &["AuditRecord"], &[]),
    row("config list", &["ConfigItem"], &["from"]),
    row("config get", &["ConfigItem"], &["from"]),
    row("config set", &[], &["path", "changed", "effect"]),
    row("config unset", &[], &["path", "changed", "effect"]),
    row("node run", &[], &[]),
    row("node install", &[], &["path", "text", "changed", "next"]),
    row("node uninstall", &[], &["path", "changed", "next"]),
    row(
        "node status",
        &[],
        &[
            "installed",
            "service",
            "running",
            "connected",
            "paired",
            "state",
            "nodeId",
            "displayName",
            "gateway",
            "requestId",
            "detail",
        ],
    ),
    row("session show", &["SessionOverrides"], &[]),
    row("session set", &["SessionOverrides"], &[]),
    row("session clear", &[], &["cleared"]),
    row("session command", &["SessionCommandAnswer"], &[]),
    row("runs list", &["Run"], &[]),
    row("runs show", &["RunWithOutput"], &[]),
    row("runs output", &[], &[]),
    row("runs replay", &[], &[]),
    row("runs cancel", &["Run"], &[]),
    row("nodes list", &["Node"], &[]),
    row("nodes show", &["Node"], &[]),
    row("nodes pairings", &["Pairing"], &[]),
    row("nodes approve", &["PairingResult"], &[]),
    row("nodes reject", &["PairingResult"], &[]),
    row("nodes rename", &["Node"], &[]),
    row("nodes remove", &[], &["removed"]),
    row("events", &["Event"], &[]),
    row("audit list", &["AuditRecord"], &[]),
    row("audit verify", &["AuditVerification"], &["witness"]),
    row("audit reset", &[], &["problem", "kept", "records", "firstSeq"]),
    row("audit export", &["AuditRecord"], &[]),
    row("token create", &["NewToken"], &["taken"]),
    row("token list", &["Token"], &[]),
    row("token accept", &["Token"], &[]),
    row("token rotate", &["RotatedToken"], &[]),
    row("token recover", &[], &["file", "taken"]),
    row("token revoke", &[], &["revoked"]),
    row("login-link", &["LoginLink"], &[]),
    row("browsers list", &["SignedInBrowser"], &[]),
    row("browsers revoke", &[], &["revoked"]),
    row(
        "status",
        &[],
        &[
            "mock",
            "ready",
            "degraded",
            "stopped",
            "restartNeeded",
            "version",
            "url",
            "startedAtMs",
            "isolation",
            "waiting",
            "running",
            "lastDenial",
            "heldChanges",
            "findings",
        ],
    ),
    row(
        "doctor",
        &[],
        &["findings", "repaired", "repairs", "from", "kernel", "settings"],
    ),
    row("doctor --ready", &["Readiness"], &[]),
    row("security audit", &[], DOCTOR),
    row("openapi", &[], &[]),
    row("completions", &[], &[]),
    row("man", &[], &["pages"]),
    row("version", &[], &["name", "version"]),
    row("help", &[], &[]),
];

/// A shorter name is taken for no other one.
const SHORTEST_SLIP: usize = 3;

/// The command that was called, as [`PRINTED`] has it.
pub(crate) fn command_of(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut leaf = matches;
    while let Some((name, below)) = leaf.subcommand() {
        words.push(name.to_owned());
        leaf = below;
    }
    let is_on = |switch: &&&str| matches!(leaf.try_get_one::<bool>(switch), Ok(Some(true)));
    words.extend(SWITCHES.iter().find(is_on).map(|switch| format!("--{switch}")));
    words.join(" ")
}

/// Whether the command can print each of these.
///
/// # Errors
/// The first one that it cannot, with those that there are. `line` is what was typed.
pub(crate) fn check(command: &str, members: &[String], line: &[String]) -> Result<(), Failure> {
    if members.is_empty() {
        return Ok(());
    }
    let known = of(command);
    let Some(unknown) = members.iter().find(|name| !known.contains(name.as_str())) else {
        return Ok(());
    };
    if known.is_empty() {
        let text = format!("countersign {command} has no members to choose from");
        return Err(Failure::usage(text).advice("leave out =MEMBERS behind --json"));
    }
    let all: Vec<&str> = known.iter().map(String::as_str).collect();
    // Two letters are a slip for anything.
    let meant = intended(unknown, all.iter().copied()).filter(|_| unknown.len() >= SHORTEST_SLIP);
    let did = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    let text = format!(
        "countersign {command} prints no member {}{did} It has: {}",
        value::visible(unknown),
        all.join(", ")
    );
    let text = if meant.is_none() {
        text.replacen(" It has: ", "; it has: ", 1)
    } else {
        text
    };
    let failure = Failure::usage(text);
    let corrected = meant.and_then(|meant| corrected::with_word(line, unknown, meant));
    Err(match corrected {
        Some(line) => failure.hint(line),
        None => failure.advice("--json=MEMBER,MEMBER prints these members; --json prints all"),
    })
}

/// The members that the command can print.
fn of(command: &str) -> BTreeSet<String> {
    let Some(printed) = PRINTED.iter().find(|printed| printed.command == command) else {
        return BTreeSet::new();
    };
    let contract: Value = serde_json::from_str(countersign_http::document()).unwrap_or_default();
    let mut names: BTreeSet<String> = printed.own.iter().map(|name| (*name).to_owned()).collect();
    if let Some(schemas) = contract.pointer("/components/schemas").and_then(Value::as_object) {
        let named = printed.schemas.iter().filter_map(|name| schemas.get(*name));
        named.for_each(|schema| add(&mut names, schemas, schema, 0));
    }
    names
}

/// Deeper than this no schema of ours is put together.
const DEEPEST: usize = 8;

/// Adds the members that objects of the schema can have.
fn add(names: &mut BTreeSet<String>, schemas: &Map<String, Value>, schema: &Value, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    let own = schema.get("properties").and_then(Value::as_object);
    names.extend(own.into_iter().flat_map(Map::keys).cloned());
    let parts = ["allOf", "oneOf", "anyOf"].iter();
    let parts = parts.filter_map(|of| schema.get(*of)?.as_array()).flatten();
    let named = schema.get("$ref").and_then(Value::as_str);
    let named = named.and_then(|path| schemas.get(path.rsplit('/').next()?));
    parts
        .chain(named)
        .for_each(|part| add(names, schemas, part, depth + 1));
}

/// What the command with these words can print; nothing where it prints no JSON.
#[cfg(feature = "test-hooks")]
pub(crate) fn known(command: &str) -> Vec<String> {
    of(command).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{super::arguments::command_line, *};

    fn leaves(command: &clap::Command, before: &str, found: &mut BTreeSet<String>) {
        for below in command.get_subcommands() {
            let words = format!("{before} {}", below.get_name());
            let words = words.trim_start().to_owned();
            if below.has_subcommands() {
                leaves(below, &words, found);
            } else {
                found.insert(words);
            }
        }
    }

    #[test]
    fn every_command_says_what_it_prints() {
        let mut commands = BTreeSet::new();
        leaves(&command_line(), "", &mut commands);
        let listed: BTreeSet<String> = PRINTED
            .iter()
            .map(|printed| printed.command.to_owned())
            .filter(|command| !command.contains(" --"))
            .collect();
        assert_eq!(listed, commands);
    }

    #[test]
    fn every_schema_is_in_the_contract_and_has_members() {
        let contract: Value = serde_json::from_str(countersign_http::document()).unwrap();
        let schemas = contract["components"]["schemas"].as_object().unwrap();
        for name in PRINTED.iter().flat_map(|printed| printed.schemas) {
            let mut names = BTreeSet::new();
            add(&mut names, schemas, &schemas[*name], 0);
            assert!(!names.is_empty(), "{name}");
        }
    }

    #[track_caller]
    fn refused(command: &str, member: &str, line: &[&str]) -> String {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        let refused = check(command, &[member.to_owned()], &line).unwrap_err();
        assert_eq!(refused.exit, super::super::exit::ExitStatus::USAGE);
        refused.to_string()
    }

    #[test]
    fn a_misspelt_member_is_refused_with_the_line_that_was_meant() {
        let said = refused("runs list", "stauts", &["runs", "list", "--json=stauts"]);
        assert!(
            said.contains("prints no member stauts; did you mean status?"),
            "{said}"
        );
        assert!(
            said.ends_with("\nhint: countersign runs list --json=status"),
            "{said}"
        );
        let said = refused("events", "id", &["events", "--json=id"]);
        assert!(said.contains("; it has: ") && said.contains("seq"), "{said}");
        let said = refused("openapi", "id", &["openapi", "--json=id"]);
        assert!(said.contains("no members to choose from"), "{said}");
    }

    #[test]
    fn what_an_object_may_have_is_known() {
        for (command, members) in [
            ("exec", "stdout,approvalUrl,exitCode,reason"),
            ("exec --explain", "outcome,toAllow"),
            ("token create", "id,secret"),
            ("runs show", "runId,decidedBy,exitCode,reason"),
            ("process list", "sessionId"),
            ("doctor --ready", "checks"),
            ("policy diff", "openclaw.json"),
        ] {
            let members: Vec<String> = members.split(',').map(str::to_owned).collect();
            assert_eq!(check(command, &members, &[]), Ok(()), "{command}");
        }
        assert_eq!(check("runs list", &[], &[]), Ok(()));
    }
}
