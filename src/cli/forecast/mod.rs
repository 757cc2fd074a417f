//! `countersign policy forecast`: how often a person would have been asked, by the transcripts of one's own agents.
//!
//! The transcripts are read here, as the user who calls, and judged here, by the analysis and the policy of this machine.
//! Nothing is recorded, sent or run, and no server is asked. Secrets are masked before anything looks at a command. Read on:
//! `transcripts.rs` finds and reads the files, `forms.rs` the commands in them, `entries.rs` chooses what would save most.

mod entries;
mod forms;
mod transcripts;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use countersign_config::approvals::{
    document::{Document, NewPattern},
    store::Snapshot,
};
use countersign_domain::{AgentId, Command, CommandInput, EntryId, Pattern, UnixMillis};
use countersign_engine::candidate::{Candidate, Foreseen, NotEvaluated, Opinion, RecordedCommand};
use countersign_policy::{
    command::{paths, redaction},
    starter::StarterSet,
};
use countersign_sys::{
    clock::{Ids as _, SystemIds},
    fs,
};
use countersign_wire::forecast::{ForecastBody, ForecastEntry, ForecastReason, ForecastSet};

use super::{
    candidates,
    console::Format,
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    init::InitPreset,
    moment::{self, Moment, parse_moment},
    policy_replay, value,
};

use entries::Question;
use forms::{Issued, Reader};
use transcripts::{Budget, Skipped, Source};

/// Different commands that are judged; more are counted.
const MAX_DISTINCT: usize = 50_000;
/// Bytes of the different commands that are judged; what is beyond is counted.
const MAX_DISTINCT_BYTES: usize = 128 * 1024 * 1024;
/// Calls of one message that are remembered, since some agents write a message several times.
const MAX_IDS: usize = 1_000_000;
/// Bytes of the longest id of a call that is remembered.
const MAX_ID_BYTES: usize = 128;
/// Reasons that are told.
const MAX_REASONS: usize = 8;
/// How often the progress line changes.
const PROGRESS_EVERY: usize = 50;

/// Different commands of one's own that `init` judges: it asks a person, who waits for it.
const MAX_OFFERED: usize = 2000;
/// How far back `init` reads them.
const OFFERED_SINCE: Duration = Duration::from_hours(7 * 24);

/// Say how often a person would have been asked, by the transcripts of your own agents
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy forecast
  countersign policy forecast --from claude-code --since 30d
  countersign policy forecast --from codex --preset cautious --json
  countersign policy forecast --save

Reads the commands that your agents issued and judges each with the analysis and the policy of this
machine: that of the state directory, or, before there is one, what `countersign init` would set up.
Nothing runs, nothing is recorded, nothing leaves this machine, and no server is asked. What looks
like a secret is masked before anything looks at it. With --save the counts and the proposed entries
are left in the state directory, where the page (Policy) shows them; no command is among them.

A FILE has one JSON object a line, of any of these agents or with a member `command`.")]
pub(crate) struct ForecastArgs {
    /// claude-code, codex, gemini, openclaw or a file; all four agents unless given; may be repeated
    #[arg(long, value_name = "AGENT|FILE")]
    from: Vec<Source>,
    /// Only commands from then on: so long ago (2h, 7d), a date, or a time (2026-11-23T09:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_moment)]
    since: Moment,
    /// Under the policy of this preset of `init`, whatever the state directory has
    #[arg(long, value_enum)]
    preset: Option<InitPreset>,
    /// As the commands of this agent
    #[arg(long, value_name = "ID", default_value = "main", add = candidates::agents())]
    agent: AgentId,
    /// Propose at most this many entries
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=50))]
    entries: u8,
    /// Leave counts and proposed entries in the state directory, for the page
    #[arg(long)]
    save: bool,
}

/// A command without what does not matter, and how often it was issued.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    command: Vec<String>,
    is_text: bool,
    cwd: PathBuf,
}

/// What was read.
#[derive(Debug, Default)]
struct Harvest {
    counts: HashMap<Key, u64>,
    /// The order in which they came, so that the same files give the same answer.
    order: Vec<Key>,
    /// Of all in `order`.
    bytes: usize,
    ids: HashSet<String>,
    commands: u64,
    /// Beyond what is judged at all.
    beyond: u64,
    /// Commands whose directory is not there any more, or was not told.
    moved: u64,
    first: Option<UnixMillis>,
    last: Option<UnixMillis>,
}

/// What of one source was read.
struct Read {
    name: String,
    transcripts: usize,
    commands: u64,
}

/// How many commands end how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    run: u64,
    ask: u64,
    deny: u64,
    not_judged: u64,
}

/// What a policy says to all of it.
#[derive(Debug, Default)]
struct Forecast {
    counts: Counts,
    /// Why, of what is asked or denied.
    reasons: BTreeMap<String, u64>,
    /// What is asked.
    asked: Vec<(Key, u64, Vec<Pattern>)>,
}

pub(crate) fn run(context: &Context, args: ForecastArgs) -> Result<ExitStatus, Failure> {
    if context.names_a_server() {
        return Err(Failure::usage(
            "a forecast reads files of this machine and judges them by its state directory, so it asks no server: leave \
             --url and COUNTERSIGN_URL out",
        ));
    }
    let ForecastArgs {
        from,
        since,
        preset,
        agent,
        entries,
        save,
    } = args;
    let place = save.then(|| place_to_save(context)).transpose()?;
    let (mut candidate, preset) = policy_replay::forecast_policy(context, preset)?;
    let start = since.at(context.clock.now()).max(UnixMillis::new(0));
    let sources = if from.is_empty() { Source::all() } else { from };
    let workspace = candidate
        .gateway_workspace(&agent)
        .unwrap_or_else(|| PathBuf::from("/"));
    let (harvest, read, skipped) = gather(context, &sources, start, &workspace)?;
    let now = judge(context, &candidate, &agent, &harvest);
    let questions: Vec<Question> = now
        .asked
        .iter()
        .map(|(_key, count, proposed)| Question::of(*count, proposed))
        .collect();
    let chosen = entries::most_saving(&questions, usize::from(entries));
    let document = candidate.document().document().cloned().unwrap_or_default();
    let with_entries = after(
        &mut candidate,
        &agent,
        &document,
        &now,
        chosen.iter().map(|(path, _)| NewPattern {
            pattern: path.clone(),
            ..NewPattern::default()
        }),
    );
    let sets = starter_sets(context, &mut candidate, &agent, &document, &now);
    context.console.end_progress();
    let report = Report {
        preset,
        start,
        read,
        skipped,
        harvest,
        now,
        chosen,
        with_entries,
        sets,
        agent,
    };
    report.tell(context)?;
    if let Some(place) = place {
        report.save(&place, context.clock.now())?;
        context.console.note("saved: the page shows it under Policy");
    }
    Ok(ExitStatus::SUCCESS)
}

/// What starter sets would have saved of the questions of the last week.
#[derive(Debug, Default)]
pub(super) struct Savings {
    pub(super) questions: u64,
    sets: Vec<(StarterSet, u64)>,
}

impl Savings {
    /// By what `init --preset cautious` sets up, for the agent `main`.
    pub(super) fn of_last_week(context: &Context) -> Result<Self, Failure> {
        let agent = AgentId::main();
        let (mut candidate, _) = policy_replay::forecast_policy(context, Some(InitPreset::Cautious))?;
        let workspace = candidate.gateway_workspace(&agent);
        let workspace = workspace.unwrap_or_else(|| PathBuf::from("/"));
        let start = Moment::Ago(OFFERED_SINCE).at(context.clock.now());
        let (mut harvest, _, _) = gather(context, &Source::all(), start, &workspace)?;
        harvest.order.truncate(MAX_OFFERED);
        let now = judge(context, &candidate, &agent, &harvest);
        let document = candidate.document().document().cloned().unwrap_or_default();
        let sets = starter_sets(context, &mut candidate, &agent, &document, &now);
        context.console.end_progress();
        Ok(Self {
            questions: now.counts.ask,
            sets,
        })
    }

    pub(super) fn of(&self, set: StarterSet) -> u64 {
        let found = self.sets.iter().find(|(other, _)| *other == set);
        found.map_or(0, |(_, saves)| *saves)
    }
}

/// The file that a forecast is saved in.
fn place_to_save(context: &Context) -> Result<PathBuf, Failure> {
    let state_dir = context.state_dir()?;
    if !state_dir.countersign().is_dir() {
        return Err(Failure::usage(
            "there is no state directory to save it in yet: `countersign init` makes it",
        ));
    }
    Ok(state_dir.forecast())
}

/// Reads the transcripts.
fn gather(
    context: &Context,
    sources: &[Source],
    start: UnixMillis,
    workspace: &Path,
) -> Result<(Harvest, Vec<Read>, Skipped), Failure> {
    let mut harvest = Harvest::default();
    let (mut skipped, mut budget) = (Skipped::default(), Budget::default());
    let mut read = Vec::new();
    for source in sources {
        let files = source.files(context, start, &mut skipped)?;
        let before = harvest.commands;
        for (at, transcript) in files.iter().enumerate() {
            if at % PROGRESS_EVERY == 0 {
                let (name, all) = (source.name(), files.len());
                context
                    .console
                    .progress(&format!("{name}: {at} of {all} transcripts …"));
            }
            let mut reader = Reader::new(transcript.form);
            transcript.each_value(&mut budget, &mut skipped, |value| {
                for issued in reader.read(value) {
                    let at = issued.at.unwrap_or(transcript.written);
                    // A file that was named is read from its beginning.
                    if at >= start || matches!(source, Source::File(_)) {
                        harvest.take(issued, at, workspace);
                    }
                }
            });
        }
        read.push(Read {
            name: source.name(),
            transcripts: files.len(),
            commands: harvest.commands - before,
        });
    }
    Ok((harvest, read, skipped))
}

impl Harvest {
    fn take(&mut self, issued: Issued, at: UnixMillis, workspace: &Path) {
        let Issued {
            id,
            command,
            cwd,
            at: _,
        } = issued;
        if let Some(id) = id
            && id.len() <= MAX_ID_BYTES
            && self.ids.len() < MAX_IDS
            && !self.ids.insert(id)
        {
            return;
        }
        self.commands += 1;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
        let told = cwd
            .map(PathBuf::from)
            .filter(|cwd| cwd.is_absolute() && cwd.is_dir());
        if told.is_none() {
            self.moved += 1;
        }
        let cwd = told.unwrap_or_else(|| workspace.to_owned());
        let (command, is_text) = match command {
            Command::Shell(text) | Command::Patch(text) => (vec![without_secrets(&text)], true),
            Command::Argv(words) => (words.iter().map(|word| without_secrets(word)).collect(), false),
        };
        let key = Key {
            command,
            is_text,
            cwd,
        };
        let bytes = self.bytes + key.command.iter().map(String::len).sum::<usize>();
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
        } else if self.order.len() < MAX_DISTINCT && bytes <= MAX_DISTINCT_BYTES {
            self.bytes = bytes;
            self.order.push(key.clone());
            self.counts.insert(key, 1);
        } else {
            self.beyond += 1;
        }
    }
}

/// The text with letters in the place of what looks like a secret, so that it reads as the same kind of words.
fn without_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = 0;
    for secret in redaction::secrets(text) {
        clean.push_str(text.get(rest..secret.start).unwrap_or_default());
        let hidden = text.get(secret.clone()).unwrap_or_default();
        clean.extend(hidden.chars().map(|_| 'x'));
        rest = secret.end;
    }
    clean.push_str(text.get(rest..).unwrap_or_default());
    clean
}

impl Key {
    fn recorded(&self, agent: &AgentId) -> RecordedCommand {
        let command = match self.command.as_slice() {
            [text] if self.is_text => Command::Shell(text.clone()),
            words => Command::Argv(words.to_vec()),
        };
        RecordedCommand {
            agent: agent.clone(),
            command,
            cwd: self.cwd.clone(),
            env_names: Vec::new(),
            input: CommandInput::Closed,
        }
    }
}

/// What the policy says to each command.
fn judge(context: &Context, candidate: &Candidate, agent: &AgentId, harvest: &Harvest) -> Forecast {
    let mut forecast = Forecast::default();
    for (at, key) in harvest.order.iter().enumerate() {
        if at % PROGRESS_EVERY == 0 {
            let all = harvest.order.len();
            context
                .console
                .progress(&format!("{at} of {all} different commands …"));
        }
        let count = harvest.counts.get(key).copied().unwrap_or_default();
        let judged: Result<(Opinion, Vec<Pattern>), NotEvaluated> = candidate.judge(key.recorded(agent));
        let Ok((opinion, proposed)) = judged else {
            forecast.counts.not_judged += count;
            continue;
        };
        forecast.counts.add(opinion.foreseen, count);
        if opinion.foreseen != Foreseen::Run {
            *forecast.reasons.entry(opinion.why).or_default() += count;
        }
        if opinion.foreseen == Foreseen::Ask {
            forecast.asked.push((key.clone(), count, proposed));
        }
    }
    forecast
}

impl Counts {
    fn add(&mut self, foreseen: Foreseen, count: u64) {
        match foreseen {
            Foreseen::Run => self.run += count,
            Foreseen::Ask => self.ask += count,
            Foreseen::Deny => self.deny += count,
        }
    }
}

/// How many of the questions are left with more entries. The candidate keeps them.
fn after(
    candidate: &mut Candidate,
    agent: &AgentId,
    document: &Document,
    now: &Forecast,
    entries: impl Iterator<Item = NewPattern>,
) -> u64 {
    let mut document = document.clone();
    for entry in entries {
        document.add_pattern(agent.as_str(), new_id(), entry, UnixMillis::new(0));
    }
    candidate.set_document(Snapshot::of_edited(&document));
    let is_left = |key: &Key| {
        let judged = candidate.evaluate(key.recorded(agent));
        !judged.is_ok_and(|opinion| opinion.foreseen == Foreseen::Run)
    };
    now.asked
        .iter()
        .filter(|(key, _count, _proposed)| is_left(key))
        .map(|(_key, count, _proposed)| count)
        .sum()
}

/// Whether a starter set has an entry for any arguments of the program.
fn is_trusted(path: &str) -> bool {
    StarterSet::trusts_any_arguments(paths::base_name(path))
}

fn new_id() -> EntryId {
    SystemIds.entry_id()
}

/// What each starter set would save, the most first. Their `confine` is left out: whether the kernel keeps it is known to a
/// server alone.
fn starter_sets(
    context: &Context,
    candidate: &mut Candidate,
    agent: &AgentId,
    document: &Document,
    now: &Forecast,
) -> Vec<(StarterSet, u64)> {
    let mut saves = Vec::new();
    for set in StarterSet::ALL.iter().copied() {
        context.console.progress(&format!("starter set {set} …"));
        let entries = set.entries().into_iter().map(|entry| NewPattern {
            pattern: entry.pattern.to_owned(),
            arg_pattern: entry.arg_pattern,
            ..NewPattern::default()
        });
        let left = after(candidate, agent, document, now, entries);
        saves.push((set, now.counts.ask.saturating_sub(left)));
    }
    saves.retain(|(_set, saved)| *saved > 0);
    saves.sort_by_key(|(set, saved)| (std::cmp::Reverse(*saved), set.as_str()));
    saves
}

/// All that is told.
struct Report {
    preset: Option<InitPreset>,
    start: UnixMillis,
    read: Vec<Read>,
    skipped: Skipped,
    harvest: Harvest,
    now: Forecast,
    chosen: Vec<(String, u64)>,
    with_entries: u64,
    sets: Vec<(StarterSet, u64)>,
    agent: AgentId,
}

impl Report {
    fn tell(&self, context: &Context) -> Result<(), Failure> {
        match context.console.format() {
            Format::Json => context.console.document(&self.to_json()),
            Format::People => self.tell_people(context),
        }
    }

    fn reasons(&self) -> Vec<(&str, u64)> {
        let mut reasons: Vec<(&str, u64)> = self
            .now
            .reasons
            .iter()
            .map(|(why, count)| (why.as_str(), *count))
            .collect();
        reasons.sort_by_key(|(why, count)| (std::cmp::Reverse(*count), *why));
        reasons.truncate(MAX_REASONS);
        reasons
    }

    /// The command line that adds an entry.
    fn to_add(&self, path: &str) -> Vec<String> {
        let words = ["countersign", "allowlist", "add", path];
        let agent = format!("--agent={}", self.agent);
        words.into_iter().map(str::to_owned).chain([agent]).collect()
    }

    /// Leaves counts and proposals, and no command, for the server to show.
    fn save(&self, place: &Path, now: UnixMillis) -> Result<(), Failure> {
        let Counts {
            run,
            ask,
            deny,
            not_judged,
        } = self.now.counts;
        // What follows a code can name a word of the command.
        let mut by_code: BTreeMap<&str, u64> = BTreeMap::new();
        for (why, count) in &self.now.reasons {
            let code = why.split_once(": ").map_or(why.as_str(), |(code, _)| code);
            *by_code.entry(code).or_default() += count;
        }
        let mut reasons: Vec<ForecastReason> = by_code
            .into_iter()
            .map(|(why, count)| ForecastReason {
                why: why.to_owned(),
                count,
            })
            .collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        let entries = self.chosen.iter().map(|(path, saves)| ForecastEntry {
            pattern: path.clone(),
            saves: *saves,
        });
        let starter_sets = self.sets.iter().map(|(set, saves)| ForecastSet {
            set: set.as_str().to_owned(),
            saves: *saves,
        });
        let saved = ForecastBody {
            saved_at_ms: now.get(),
            since_ms: self.start.get(),
            agent_id: self.agent.to_string(),
            policy: self.policy().to_owned(),
            commands: self.harvest.commands,
            run,
            ask,
            deny,
            not_judged: not_judged + self.harvest.beyond,
            reasons,
            entries: entries.collect(),
            ask_with_entries: self.with_entries,
            starter_sets: starter_sets.collect(),
        };
        serde_json::to_vec(&saved)
            .map_err(std::io::Error::from)
            .and_then(|text| fs::replace_file(place, &text, fs::PRIVATE_FILE))
            .map_err(|error| {
                let place = place.display();
                Failure::new(
                    "state-dir",
                    format!("cannot save the forecast in {place}: {error}"),
                )
            })
    }

    /// The name of the policy that judged.
    fn policy(&self) -> &'static str {
        self.preset.map_or("present", InitPreset::as_str)
    }

    fn to_json(&self) -> Value {
        let Counts {
            run,
            ask,
            deny,
            not_judged,
        } = self.now.counts;
        let Skipped { files, lines, beyond } = self.skipped;
        let sources: Vec<Value> = self
            .read
            .iter()
            .map(|read| json!({ "from": read.name, "transcripts": read.transcripts, "commands": read.commands }))
            .collect();
        let entries: Vec<Value> = self
            .chosen
            .iter()
            .map(|(path, saves)| {
                json!({ "pattern": path, "saves": saves, "add": self.to_add(path), "trusted": is_trusted(path) })
            })
            .collect();
        let sets: Vec<Value> = self
            .sets
            .iter()
            .map(|(set, saves)| json!({ "set": set.as_str(), "saves": saves }))
            .collect();
        let reasons: Vec<Value> = self
            .reasons()
            .into_iter()
            .map(|(why, count)| json!({ "why": why, "count": count }))
            .collect();
        json!({
            "agentId": self.agent,
            "policy": self.policy(),
            "sinceMs": self.start,
            "sources": sources,
            "commands": self.harvest.commands,
            "distinct": self.harvest.order.len(),
            "run": run,
            "ask": ask,
            "deny": deny,
            "notJudged": not_judged + self.harvest.beyond,
            "elsewhere": self.harvest.moved,
            "skipped": { "files": files, "lines": lines, "beyond": beyond },
            "reasons": reasons,
            "entries": entries,
            "askWithEntries": self.with_entries,
            "starterSets": sets,
        })
    }

    fn tell_people(&self, context: &Context) -> Result<(), Failure> {
        let console = context.console;
        for Read {
            name,
            transcripts,
            commands,
        } in &self.read
        {
            let name = value::visible(name);
            console.note(&format!(
                "{name}: {commands} commands in {transcripts} transcripts"
            ));
        }
        let Harvest {
            commands,
            order,
            beyond,
            moved,
            first,
            last,
            ..
        } = &self.harvest;
        let Counts {
            run,
            ask,
            deny,
            not_judged,
        } = self.now.counts;
        let (Some(first), Some(last)) = (first, last) else {
            console.line("no command of an agent was found in this time")?;
            console.hint(
                "countersign policy forecast --since 90d   (looks further back; --from FILE reads a file)",
            );
            return Ok(());
        };
        let policy = match self.preset {
            None => "the policy of the state directory".to_owned(),
            Some(preset) => format!("what `countersign init --preset {}` sets up", preset.as_str()),
        };
        console.line(&format!(
            "{commands} commands ({} different), {} to {}, under {policy}:",
            order.len(),
            moment::with_zone(*first),
            moment::with_zone(*last)
        ))?;
        console.line(&format!(
            "you would have been asked {ask} times; {run} would have run without a question, {deny} would have been denied"
        ))?;
        for (why, count) in self.reasons() {
            console.line(&format!("  {count:>6}  {}", value::visible(why)))?;
        }
        if !self.chosen.is_empty() {
            console.line(&format!(
                "\nthese {} entries would make it {}:",
                self.chosen.len(),
                self.with_entries
            ))?;
            for (path, saves) in &self.chosen {
                let words: Vec<String> = self.to_add(path).iter().map(|word| value::quoted(word)).collect();
                let mark = if is_trusted(path) { "" } else { "   (1)" };
                console.line(&format!("  {saves:>6}  {}{mark}", words.join(" ")))?;
            }
            if !self.chosen.iter().all(|(path, _)| is_trusted(path)) {
                console.line(
                    "  (1) no starter set trusts this program with any arguments: the entry allows more than what was \
                     asked here.\n      A starter set, or `always` with the arguments of one question, allows less.",
                )?;
            }
        }
        if !self.sets.is_empty() {
            console.line("\nstarter sets, and what each would save alone:")?;
            for (set, saves) in &self.sets {
                console.line(&format!(
                    "  {saves:>6}  countersign allowlist add --set {set} --agent={}",
                    self.agent
                ))?;
            }
        }
        let Skipped {
            files,
            lines,
            beyond: beyond_files,
        } = self.skipped;
        let left_out = [
            (not_judged + beyond, "commands could not be judged"),
            (
                *moved,
                "commands were judged in the workspace, since their directory is not there or was not told",
            ),
            (files, "files could not be read"),
            (lines, "lines were too long or no JSON"),
            (beyond_files, "files were more or larger than is read"),
        ];
        for (count, what) in left_out.iter().filter(|(count, _)| *count > 0) {
            console.note(&format!("{count} {what}"));
        }
        console.note(
            "nothing is changed; an entry for a program trusts its arguments as far as rule D1 knows them",
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_becomes_letters_and_the_words_stay_words() {
        let text = "curl -H 'Authorization: Bearer abcdefghijklmnop0123456789' https://example.test";
        let clean = without_secrets(text);
        assert!(!clean.contains("abcdefghijklmnop0123456789"), "{clean}");
        assert_eq!(clean.len(), text.len());
        let words = |text: &str| {
            let list = countersign_policy::command::parse(text).expect("a text of words");
            list.segments()
                .map(|segment| segment.words.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&clean), words(text));
    }
}
