//! `countersign allowlist`: which programs may run without asking.

use std::{collections::BTreeSet, fs::File, io::Read as _, path::Path};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use countersign_domain::{AgentId, SessionKey, UnixMillis};
use countersign_policy::{pattern::has_wildcard, starter::StarterSet};
use countersign_wire::{analysis::AnalysisBody, entry::EntryBody, explain::ExplanationBody};

use super::{
    candidates,
    client::{Answer, Client, read},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    ids,
    layout::{Layout, Listing},
    moment::{self, End, parse_end},
    state,
    table::Table,
    value,
};

const LIST: &str = "allowlist";

/// See and change which programs may run without asking
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign allowlist add /usr/bin/git
  countersign allowlist add '/opt/tools/*' --agent build --note 'ours'
  countersign allowlist add --set git-read,files-read,search
  countersign allowlist add /usr/bin/make --arg-pattern '^test$' --expires 2h --max-uses 3
  countersign allowlist add ~/bin/deploy --pin-digest
  countersign allowlist list --agent '*'")]
pub(crate) enum AllowlistCommand {
    /// List entries and grants, those used last first
    #[command(after_help = "Examples:
  countersign allowlist list
  countersign allowlist list --agent '*' --json")]
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        listing: Listing,
    },
    /// Add an entry; with a limit it becomes a grant
    #[command(after_help = "Examples:
  countersign allowlist add /usr/bin/git
  countersign allowlist add /usr/bin/make --arg-pattern '^test$' --expires 2h --max-uses 3
  countersign allowlist add /usr/bin/git --starts judged,ssh --writes workspace
  countersign allowlist add /usr/bin/npm --arg-pattern '^run dev$' --input
  countersign allowlist add --set git-read,rust --dry-run")]
    Add(Box<AddArgs>),
    /// Remove an entry or grant
    #[command(after_help = "Examples:
  countersign allowlist remove ENTRY")]
    #[command(alias = "rm")]
    Remove {
        /// Its pattern where no other entry has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::entries())]
        id: String,
        #[command(flatten)]
        owner: Owner,
    },
    /// Show one entry or grant
    #[command(after_help = "Examples:
  countersign allowlist show ENTRY")]
    Show {
        /// Its pattern where no other entry has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::entries())]
        id: String,
        #[command(flatten)]
        owner: Owner,
    },
}

/// Whose list.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Owner {
    /// Whose list; `*` is the one for all agents
    #[arg(long, default_value = "main", value_name = "ID", value_parser = parse_owner, add = candidates::agents())]
    agent: String,
}

/// A new entry.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct AddArgs {
    /// Path pattern of the program, e.g. /usr/bin/git or ~/bin/**
    #[arg(required_unless_present = "sets")]
    pattern: Option<String>,
    /// Instead of a pattern, the entries of these sets, separated by commas: git-read, git-commit, github-read, files-read, files-write, search, rust, node, python, go, make, run-code, docker-read
    #[arg(
        long = "set",
        value_name = "SETS",
        value_delimiter = ',',
        conflicts_with_all = [
            "pattern", "arg_pattern", "expires", "max_uses", "session", "directory", "pin_digest", "input", "starts", "writes",
            "connects", "note",
        ],
    )]
    sets: Vec<StarterSet>,
    /// Show the entries of the sets and add none
    #[arg(long, requires = "sets", conflicts_with = "pattern")]
    dry_run: bool,
    #[command(flatten)]
    owner: Owner,
    /// Regular expression that the arguments must match
    #[arg(long, value_name = "REGEX")]
    arg_pattern: Option<String>,
    /// Only for so long (2h, 7d), or until this date or time (2026-11-23, 2026-11-23T09:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse_end)]
    expires: Option<End>,
    /// Only this many times
    #[arg(long, value_name = "N")]
    max_uses: Option<u32>,
    /// Only for calls of this session
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Only for programs that start in this directory or below it: an absolute path without links
    #[arg(long, value_name = "DIR")]
    directory: Option<String>,
    /// Only while the file at this path has the content that it has now
    #[arg(long)]
    pin_digest: bool,
    /// Also for commands that more can be typed into once they run (--pty, --background)
    #[arg(long)]
    input: bool,
    /// Let their terminals keep pagers and editors, into which any command can be typed
    #[arg(long, requires = "input")]
    unguarded: bool,
    /// Programs that it may start: names, paths, DIRECTORY/**, `judged` for what it is known to start, or `any`; '' for none
    #[arg(long, value_name = "PROGRAMS", value_delimiter = ',')]
    starts: Option<Vec<String>>,
    /// Where it may write: `workspace`, `tmp`, paths, or `any`; '' for nowhere
    #[arg(long, value_name = "PLACES", value_delimiter = ',')]
    writes: Option<Vec<String>>,
    /// TCP ports that it may connect to, or `any`; '' for none
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    connects: Option<Vec<String>>,
    /// Why it is there
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

const NEVER: &str = "never";

/// The owner of the lists that count for every agent.
pub(super) const EVERY_AGENT: &str = "*";

impl Owner {
    pub(super) fn of(agent: String) -> Self {
        Self { agent }
    }

    /// Whether its list counts for every agent.
    pub(super) fn is_every_agent(&self) -> bool {
        self.agent == EVERY_AGENT
    }

    pub(super) fn in_words(&self) -> String {
        if self.is_every_agent() {
            "every agent".to_owned()
        } else {
            format!("agent {}", self.agent)
        }
    }

    /// What the server answered about one of its rules, with the owner in it.
    pub(super) fn named_in<T>(&self, mut rule: Answer<T>) -> Answer<T> {
        if let Some(members) = rule.raw.as_object_mut() {
            members.insert("agentId".to_owned(), json!(self.agent));
        }
        rule
    }

    /// The agent, or `*`.
    pub(super) fn agent(&self) -> &str {
        &self.agent
    }
}

pub(super) fn parse_owner(text: &str) -> Result<String, String> {
    if text == EVERY_AGENT {
        return Ok(text.to_owned());
    }
    AgentId::parse(text)
        .map(String::from)
        .map_err(|error| error.to_string())
}

pub(crate) async fn run(context: &Context, command: AllowlistCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        AllowlistCommand::List { owner, listing } => list(context, &client, &owner, listing).await?,
        AllowlistCommand::Add(args) => add(context, &client, *args).await?,
        AllowlistCommand::Remove { id, owner } => {
            let entry = find(&client, &owner, LIST, &id, named).await?;
            let id = &entry.id;
            let path = ["v1", "agents", &owner.agent, LIST, id.as_str()];
            client.delete(&path).await?;
            match context.console.format() {
                Format::Json => context.console.document(&json!({"removed": entry}))?,
                Format::People => context.console.line(&format!(
                    "removed {} from the list of {}",
                    ids::short(id.as_str()),
                    owner.agent
                ))?,
            }
        }
        AllowlistCommand::Show { id, owner } => {
            let entry = find(&client, &owner, LIST, &id, named).await?;
            show(context, &owner, &entry)?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(context: &Context, client: &Client, owner: &Owner, listing: Listing) -> Result<(), Failure> {
    let Listing { period, layout } = listing;
    let items: Vec<Answer<EntryBody>> = entries(client, owner, LIST).await?;
    let items = period.newest(context.clock.now(), items, |entry| {
        entry.last_used_at_ms.map(UnixMillis::new)
    });
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&[
        "ID",
        "KIND",
        "STATE",
        "PATTERN",
        "ARGUMENTS",
        "CONFINE",
        "LAST USED",
        "LIMITS",
        "NOTE",
    ])
    .with_states("STATE", state::tone);
    for entry in &items {
        table.row([
            layout.id(entry.id.as_str()),
            entry.kind.to_string(),
            entry.state.to_string(),
            entry.pattern.clone(),
            value::shown(entry.arg_pattern.as_ref()),
            value::shown(entry.confine.as_ref().map(confine_line).as_ref()),
            entry
                .last_use()
                .map_or_else(|| NEVER.to_owned(), |at| layout.time(context, at)),
            limits(context, layout, entry),
            value::shown(entry.note.as_ref()),
        ]);
    }
    let ids = items.iter().map(|entry| entry.id.as_str());
    layout.print(context, ids, &table, "the list is empty")?;
    if items.is_empty() {
        context.console.hint("countersign allowlist add /usr/bin/git");
    }
    Ok(())
}

/// What an entry is limited to, in one line: `ends in 2 h; 2 of 3 uses left`. Empty for no limits.
fn limits(context: &Context, layout: Layout, entry: &EntryBody) -> String {
    let mut limits = Vec::new();
    limits.extend(entry.expires_at_ms.map(UnixMillis::new).map(|until| {
        let ends = if until > context.clock.now() {
            "ends"
        } else {
            "ended"
        };
        format!("{ends} {}", layout.time(context, until))
    }));
    limits.extend(entry.max_uses.map(|most| {
        let left = most.saturating_sub(entry.uses.unwrap_or_default());
        format!(
            "{left} of {} left",
            value::counted(usize::try_from(most).unwrap_or(usize::MAX), "use")
        )
    }));
    limits.extend(entry.session_key.as_ref().map(|key| format!("session {key}")));
    limits.extend(
        entry
            .directory
            .as_ref()
            .map(|directory| format!("below {directory}")),
    );
    limits.extend(entry.sha256.as_ref().map(|_| "this content".to_owned()));
    limits.join("; ")
}

async fn add(context: &Context, client: &Client, args: AddArgs) -> Result<(), Failure> {
    let Some(pattern) = args.pattern else {
        return add_sets(context, client, &args.owner, &args.sets, args.dry_run).await;
    };
    let mut body = Map::new();
    body.insert("pattern".to_owned(), json!(pattern));
    let mut member = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    member("argPattern", args.arg_pattern.map(Value::from));
    member("note", args.note.map(Value::from));
    member("input", args.input.then_some(json!(true)));
    member("unguarded", args.unguarded.then_some(json!(true)));
    member("confine", confine(args.starts, args.writes, args.connects)?);
    member(
        "expiresAtMs",
        args.expires.map(|expires| json!(expires.at(context.clock.now()))),
    );
    member("maxUses", args.max_uses.map(Value::from));
    member("sessionKey", args.session.map(|key| json!(key)));
    member("directory", args.directory.map(Value::from));
    if args.pin_digest {
        member("sha256", Some(Value::from(digest(&pattern)?)));
    }
    let entry = client
        .post(&["v1", "agents", &args.owner.agent, LIST], &Value::Object(body))
        .await?;
    show(context, &args.owner, &args.owner.named_in(entry))?;
    if let Some(note) = hidden_by(client, &args.owner, &pattern).await {
        context.console.note(&note);
    }
    Ok(())
}

/// That a command by this name alone is another file than the one of an entry: the PATH of the server comes to it first.
async fn hidden_by(client: &Client, owner: &Owner, pattern: &str) -> Option<String> {
    let name = Path::new(pattern).file_name()?.to_str()?;
    if !pattern.starts_with('/') || has_wildcard(pattern) {
        return None;
    }
    let mut call = json!({ "argv": [name] });
    if !owner.is_every_agent() {
        call.as_object_mut()?
            .insert("agentId".to_owned(), json!(owner.agent));
    }
    let explained: ExplanationBody = client.post(&["v1", "exec", "explain"], &call).await.ok()?;
    let analysis: AnalysisBody = read(explained.analysis).ok()?;
    let found = analysis.segments.first()?.resolved_path.clone()?;
    (found != pattern).then(|| {
        let (name, found) = (value::visible(name), value::visible(&found));
        format!("{name} is {found} here: this entry covers no command that says {name} without its path")
    })
}

/// Adds the entries of sets, one by one. Those that are there already stay as they are, so the same call finishes what one
/// before it began.
async fn add_sets(
    context: &Context,
    client: &Client,
    owner: &Owner,
    sets: &[StarterSet],
    is_dry: bool,
) -> Result<(), Failure> {
    let mut table = Table::new(&["SET", "PROGRAM", "WITHOUT A QUESTION", "CONFINE"]);
    let mut items = Vec::new();
    let sets: BTreeSet<&str> = sets.iter().map(|set| set.as_str()).collect();
    let sets = StarterSet::ALL.iter().filter(|set| sets.contains(set.as_str()));
    for set in sets.clone() {
        for entry in set.entries() {
            table.row([
                set.to_string(),
                entry.pattern.to_owned(),
                entry.allows.to_owned(),
                value::shown(entry.confine.as_ref().map(confine_line).as_ref()),
            ]);
            let mut body = json!({ "pattern": entry.pattern, "note": format!("{set}: {}", entry.allows) });
            let members = body.as_object_mut().expect("made as an object above");
            members.extend(
                entry
                    .arg_pattern
                    .map(|said| ("argPattern".to_owned(), json!(said))),
            );
            members.extend(entry.confine.map(|said| ("confine".to_owned(), said)));
            if !is_dry {
                let path = ["v1", "agents", &owner.agent, LIST];
                let added: Answer<EntryBody> = client.post(&path, &body).await?;
                body = owner.named_in(added).raw;
            }
            items.push(body);
        }
    }
    if context.console.format() == Format::Json {
        let sets: Vec<&str> = sets.map(|set| set.as_str()).collect();
        return context
            .console
            .document(&json!({ "sets": sets, "applied": !is_dry, "items": items }));
    }
    context.console.table(&table, "")?;
    let (count, whom) = (items.len(), owner.in_words());
    context.console.line(&if is_dry {
        format!("would add {count} entries for {whom}")
    } else {
        format!("added {count} entries for {whom}; those that were there already are as they were")
    })
}

/// The member `confine` that the options say; `None` without any.
fn confine(
    starts: Option<Vec<String>>,
    writes: Option<Vec<String>>,
    connects: Option<Vec<String>>,
) -> Result<Option<Value>, Failure> {
    fn list(said: Option<Vec<String>>) -> Option<Value> {
        let words: Vec<String> = said?.into_iter().filter(|word| !word.is_empty()).collect();
        Some(match words.as_slice() {
            [only] if only == "any" => json!("any"),
            _ => json!(words),
        })
    }
    let ports = match list(connects) {
        Some(Value::Array(words)) => {
            let port = |word: &Value| word.as_str().and_then(|word| word.parse::<u16>().ok());
            let ports: Option<Vec<u16>> = words.iter().map(port).collect();
            let ports = ports.ok_or_else(|| {
                Failure::usage("--connects takes TCP ports from 1 to 65535, or any".to_owned())
            })?;
            Some(json!(ports))
        }
        said => said,
    };
    let said = [
        ("starts", list(starts)),
        ("writes", list(writes)),
        ("connects", ports),
    ];
    let members: Map<String, Value> = said
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    Ok((!members.is_empty()).then_some(Value::Object(members)))
}

/// The member `confine` of an entry in one line: `starts judged, ssh; writes workspace`.
fn confine_line(confine: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Some(members) = confine.as_object() else {
        return word(confine);
    };
    let lines: Vec<String> = members
        .iter()
        .map(|(name, value)| match value.as_array() {
            Some(items) if items.is_empty() => format!("{name} nothing"),
            Some(items) => format!("{name} {}", items.iter().map(word).collect::<Vec<_>>().join(", ")),
            None => format!("{name} {}", word(value)),
        })
        .collect();
    lines.join("; ")
}

/// SHA-256 of the file that the pattern names, as this machine has it.
fn digest(pattern: &str) -> Result<String, Failure> {
    let refused =
        |why: String| Failure::usage(format!("--pin-digest needs the absolute path of a file: {why}"));
    let path = Path::new(pattern);
    if !path.is_absolute() {
        return Err(refused(format!("{pattern} is none")));
    }
    let file = File::open(path).map_err(|error| refused(format!("{pattern}: {error}")))?;
    let mut file = std::io::BufReader::with_capacity(64 * 1024, file);
    let mut hash = Sha256::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let read = file
            .read(&mut piece)
            .map_err(|error| refused(format!("{pattern}: {error}")))?;
        match piece.get(..read) {
            None | Some([]) => break,
            Some(bytes) => hash.update(bytes),
        }
    }
    Ok(countersign_domain::hex(&hash.finalize()))
}

fn show(context: &Context, owner: &Owner, entry: &Answer<EntryBody>) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        return context.console.document(&entry.raw);
    }
    let mut table = Table::without_header();
    table.fact("for", &owner.in_words());
    table.fact("id", entry.id.as_str());
    table.each("kind", [&entry.kind]);
    table.each("state", [&entry.state]);
    table.fact("pattern", &entry.pattern);
    table.each("argPattern", &entry.arg_pattern);
    table.each("source", &entry.source);
    table.each("note", &entry.note);
    table.each("input", entry.input.then_some(true));
    table.each("unguarded", entry.unguarded.then_some(true));
    table.each("confine", entry.confine.as_ref().map(confine_line));
    table.each("maxUses", entry.max_uses);
    table.each("uses", entry.uses);
    table.each("sha256", &entry.sha256);
    table.each("sessionKey", &entry.session_key);
    table.each("directory", &entry.directory);
    table.each("lastUsedCommand", &entry.last_used_command);
    table.each("lastResolvedPath", &entry.last_resolved_path);
    let last_use = moment::maybe_in_full(context, entry.last_use());
    table.fact("last used", if last_use.is_empty() { NEVER } else { &last_use });
    table.fact(
        "expires",
        &moment::maybe_in_full(context, entry.expires_at_ms.map(UnixMillis::new)),
    );
    for warning in &entry.warnings {
        table.fact("warning", &warning.message);
    }
    context.console.table(&table, "")
}

pub(super) async fn entries<T: DeserializeOwned>(
    client: &Client,
    owner: &Owner,
    list: &str,
) -> Result<Vec<Answer<T>>, Failure> {
    let items = client
        .list(&["v1", "agents", &owner.agent, list], &Vec::new(), usize::MAX)
        .await?;
    Ok(items.into_iter().map(|item| owner.named_in(item)).collect())
}

/// The one item of a list with this id or pattern, or this beginning or end of the id.
pub(super) async fn find<T: DeserializeOwned>(
    client: &Client,
    owner: &Owner,
    list: &str,
    id: &str,
    named: fn(&T) -> ids::Named<'_>,
) -> Result<Answer<T>, Failure> {
    let mut items: Vec<Answer<T>> = entries(client, owner, list).await?;
    let listed = format!("countersign {list} list --agent {}", value::quoted(&owner.agent));
    let what = format!("entry in the {list} of {} with the id or pattern", owner.agent);
    let known: Vec<_> = items.iter().map(|item| named(item)).collect();
    let at = ids::find(&known, id, (&what, &listed))?;
    drop(known);
    Ok(items.swap_remove(at))
}

fn named(entry: &EntryBody) -> ids::Named<'_> {
    let arguments = entry.arg_pattern.as_deref().unwrap_or_default();
    ids::Named {
        id: entry.id.as_str(),
        name: Some(&entry.pattern),
        what: format!("{} {arguments}", entry.pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_an_agent_or_everybody() {
        assert_eq!(parse_owner("*"), Ok("*".to_owned()));
        assert_eq!(parse_owner("build"), Ok("build".to_owned()));
        assert!(parse_owner("a/b").is_err());
    }

    #[test]
    fn options_say_what_a_program_may_do() {
        let words = |text: &str| Some(text.split(',').map(str::to_owned).collect());
        assert_eq!(confine(None, None, None), Ok(None));
        assert_eq!(
            confine(words("judged,ssh"), words("workspace"), words("22,443")),
            Ok(Some(
                json!({"starts": ["judged", "ssh"], "writes": ["workspace"], "connects": [22, 443]})
            ))
        );
        assert_eq!(
            confine(words(""), words("any"), None),
            Ok(Some(json!({"starts": [], "writes": "any"})))
        );
        assert_eq!(
            confine(None, None, words("ssh")).unwrap_err().exit,
            ExitStatus::USAGE
        );
        let line = confine_line(&json!({"connects": [22], "starts": [], "writes": "any"}));
        assert_eq!(line, "connects 22; starts nothing; writes any");
    }

    #[test]
    fn a_digest_is_that_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        countersign_sys::fs::replace_file(&path, b"abc", 0o600).unwrap();
        assert_eq!(
            digest(path.to_str().unwrap()),
            Ok("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned())
        );
        assert_eq!(digest("git").unwrap_err().exit, ExitStatus::USAGE);
        assert_eq!(digest("/nowhere/at/all").unwrap_err().exit, ExitStatus::USAGE);
    }
}
