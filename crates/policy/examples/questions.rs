//! How often a person would be asked about commands that agents issued: `dev/questions DIR`.
//!
//! Reads the `command` of each line of `DIR/*.jsonl`, each distinct text once, and judges it under several allowlists with
//! the analysis and the gate of the server, in a world where every program lies in `/usr/bin` and every file is there, but none
//! below `/tmp`.
//! The workspace of a command is its `cwd`, where the line has that. Otherwise it is the directory to which the command changes
//! first, where it does, since that is how agents call theirs. Nothing runs, and no file besides those in `DIR` is read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    error::Error,
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use countersign_domain::{
    AgentId, Ask, Command, CommandInput, EnvOverrides, FileIdentity, Pattern, PatternWidth, PinnedDirectory,
    Security, UnixMillis,
};
use countersign_policy::{
    allowlist::{
        Analysis, AnalysisPolicy, AnalysisRequest, Entries, Entry, EntryIndex, Grant, Keeps, Protected,
        Typing, analyze,
    },
    command::{
        DirectoryTrust, Finding, Inspected, Listing, PathLookup, direct::ShellKind, paths, syntax::Grammar,
    },
    confine::ConfineRule,
    gate::{Coverage, GateInput, Verdict, gate},
    held,
    pattern::{PathCase, PatternCache},
    starter::{StarterEntry, StarterSet},
};

const HOME: &str = "/home/agent";
const WORKSPACE: &str = "/home/agent/work";
/// `tools.exec.safeBins` unless it is set (`docs/spec/settings.md#3-openclawjson-the-keys-we-read`).
const SAFE_BINS: [&str; 6] = ["cut", "uniq", "head", "tail", "tr", "wc"];
/// The allowlist of which the rules are shown.
const BARE: &str = "bare entries for the 80 commonest programs";
/// How many of the most frequent programs have a bare entry.
const COMMONEST: usize = 80;
/// How many programs are shown that lack an entry.
const PROGRAMS_SHOWN: usize = 12;
/// After so many answers the rest is counted.
const ANSWERS: [usize; 3] = [0, 50, 500];

/// How wide a person answers *always*, and what the row says of it.
const ANSWERED: [(Answered, &str); 3] = [
    (Answered::Exactly, "the exact command"),
    (Answered::ByShape, "a shape, where one is offered"),
    (
        Answered::ByProgram,
        "any arguments of the program, where that is offered",
    ),
];

/// What a person takes of the entries that a question proposes for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// The exact command, which is selected in advance.
    Exactly,
    /// The form of its arguments, else the exact command.
    ByShape,
    /// The program with any arguments, else the form, else the exact command.
    ByProgram,
}

impl Answered {
    /// Whether a proposal of that width is taken.
    const fn takes(self, width: PatternWidth) -> bool {
        match width {
            PatternWidth::Exact => true,
            PatternWidth::Arguments => !matches!(self, Self::Exactly),
            PatternWidth::Program => matches!(self, Self::ByProgram),
        }
    }

    /// Of each program without an entry the widest proposal that is taken.
    fn choose(self, proposed: &[Pattern]) -> Vec<Stored> {
        let mut chosen: BTreeMap<(usize, &str), &Pattern> = BTreeMap::new();
        for pattern in proposed.iter().filter(|pattern| self.takes(pattern.width)) {
            let program = (pattern.segment, pattern.pattern.as_str());
            let known = chosen.entry(program).or_insert(pattern);
            if rank(pattern.width) >= rank(known.width) {
                *known = pattern;
            }
        }
        chosen.into_values().map(Stored::of).collect()
    }
}

/// A wider one is higher.
const fn rank(width: PatternWidth) -> u8 {
    match width {
        PatternWidth::Exact => 0,
        PatternWidth::Arguments => 1,
        PatternWidth::Program => 2,
    }
}

/// Programs whose work stays in the workspace, so that they may be named for held texts (`tools.exec.heldPrograms`).
const HELD: [&str; 16] = [
    "awk", "chmod", "cp", "find", "gofmt", "jq", "ln", "mkdir", "mv", "node", "python", "python3", "rg",
    "rm", "sed", "touch",
];

/// A command that an agent issued.
struct Issued {
    text: String,
    /// Where, if that is known.
    cwd: Option<String>,
}

impl Issued {
    /// The directory in which it was issued, the one to which it changes first, or [`WORKSPACE`].
    fn workspace(&self) -> &str {
        self.cwd
            .as_deref()
            .unwrap_or_else(|| first_directory(&self.text).unwrap_or(WORKSPACE))
    }
}

/// A setting of `tools.exec.reads`, and what sets it.
type Step = (&'static str, fn(&mut Grammar));

/// Each row has what the rows before it have.
const STEPS: [Step; 15] = [
    ("nullRedirections", |grammar| grammar.null_redirections = true),
    ("hereDocuments", |grammar| grammar.here_documents = true),
    ("fileRedirections", |grammar| grammar.file_redirections = true),
    ("filePatterns", |grammar| grammar.file_patterns = true),
    ("temporaryFiles", |grammar| grammar.temporary_files = true),
    ("foundFiles", |grammar| grammar.found_files = true),
    ("documentOperands", |grammar| grammar.document_operands = true),
    ("variables", |grammar| grammar.variables = true),
    ("substitutions", |grammar| grammar.substitutions = true),
    ("braces", |grammar| grammar.braces = true),
    ("compoundCommands", |grammar| grammar.compound_commands = true),
    ("loops", |grammar| grammar.loops = true),
    ("laterValues", |grammar| grammar.later_values = true),
    ("backgroundCommands", |grammar| grammar.background_commands = true),
    ("projectRunners", |grammar| grammar.project_runners = true),
];

/// Programs that mostly read, and git.
const READING: [&str; 39] = [
    "awk", "basename", "cat", "cmp", "comm", "column", "cut", "date", "df", "diff", "dirname", "du", "echo",
    "env", "fd", "file", "find", "git", "grep", "head", "jq", "ls", "nl", "od", "printenv", "printf", "ps",
    "pwd", "readlink", "realpath", "rg", "sed", "sort", "stat", "tail", "tree", "uniq", "wc", "which",
];

/// Endings of names of files that are not executed themselves.
const DATA: [&str; 28] = [
    "c", "cfg", "cpp", "css", "csv", "diff", "err", "go", "h", "html", "ini", "java", "js", "json", "log",
    "md", "out", "patch", "py", "rs", "rst", "tex", "toml", "ts", "txt", "xml", "yaml", "yml",
];

/// Words of the shell, behind which the program comes or none.
const SHELL_WORDS: [&str; 40] = [
    "!", "alias", "break", "case", "cd", "command", "continue", "do", "done", "elif", "else", "esac", "eval",
    "exec", "exit", "export", "fi", "for", "function", "if", "in", "local", "popd", "pushd", "read",
    "return", "set", "shift", "shopt", "source", "test", "then", "time", "trap", "type", "ulimit", "unset",
    "until", "wait", "while",
];

fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a standard error nobody reads it.
            writeln!(io::stderr(), "dev/questions: {error}").unwrap_or(());
            ExitCode::FAILURE
        }
    }
}

fn print() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(directory) = arguments.next() else {
        return Err("name the directory with the commands".into());
    };
    let commands = read(Path::new(&directory))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} distinct commands\n", commands.len())?;
    let commonest = commonest(&commands);
    let reading = READING.map(str::to_owned);
    let bare = || World::new(&commonest);
    let steps = STEPS.iter().scan(Grammar::default(), |grammar, (setting, set)| {
        set(grammar);
        let before = if *setting == STEPS[0].0 {
            "bare entries"
        } else {
            "the same"
        };
        let world = World {
            grammar: *grammar,
            ..bare()
        };
        Some((format!("{before}, `reads.{setting}`"), world))
    });
    let holding = |world: World| World {
        grammar: Grammar::WIDEST,
        holds_texts: true,
        ..world
    };
    let naming = |world: World| World {
        held_programs: HELD.map(str::to_owned).to_vec(),
        ..holding(world)
    };
    let tools = |world: World| World {
        held_programs: vec![held::WORKSPACE_TOOLS.to_owned()],
        ..holding(world)
    };
    let before = [
        ("no entry", World::new(&[])),
        ("39 programs that mostly read, and git", World::new(&reading)),
        ("all starter sets", World::of_starters(Grammar::default())),
        (
            "all starter sets, with all of `reads`",
            World::of_starters(Grammar::WIDEST),
        ),
        (
            "the same, texts that are not read run held",
            holding(World::of_starters(Grammar::WIDEST)),
        ),
        (
            "the same, and 16 programs in `heldPrograms`",
            naming(World::of_starters(Grammar::WIDEST)),
        ),
        (
            "all starter sets, texts that are not read run held, `@workspace` in `heldPrograms`",
            tools(World::of_starters(Grammar::WIDEST)),
        ),
        (
            "all starter sets, with all of `reads`, without the set `run-code`",
            World::of(
                Grammar::WIDEST,
                StarterSet::ALL.iter().filter(|set| **set != StarterSet::RunCode),
            ),
        ),
        (BARE, bare()),
    ];
    let behind = [
        (
            "bare entries, with all of `reads`, texts that are not read run held",
            holding(bare()),
        ),
        ("the same, and 16 programs in `heldPrograms`", naming(bare())),
        (
            "bare entries, the same, `@workspace` in `heldPrograms`",
            tools(bare()),
        ),
        (
            "bare entries, `strictInlineEval`",
            World {
                strict_inline_eval: true,
                ..bare()
            },
        ),
        (
            "bare entries, without `strictDelegation`",
            World {
                strict_delegation: false,
                ..bare()
            },
        ),
    ];
    writeln!(out, "| allowlist | allowed | asked | denied |")?;
    writeln!(out, "| --- | ---: | ---: | ---: |")?;
    let mut wide = None;
    let named = |(name, world): (&str, World)| (name.to_owned(), world);
    let worlds = before
        .into_iter()
        .map(named)
        .chain(steps)
        .chain(behind.into_iter().map(named));
    for (name, world) in worlds {
        let tally = world.tally(&commands);
        let percent = |count| percent(count, commands.len());
        let (allowed, asked, denied) = (
            percent(tally.allowed),
            percent(tally.asked),
            percent(tally.denied),
        );
        writeln!(out, "| {name} | {allowed:.1} | {asked:.1} | {denied:.1} |")?;
        if name == BARE {
            wide = Some(tally);
        }
    }
    let Some(tally) = wide else { return Ok(()) };
    write_rules(&mut out, "bare entries", &tally, commands.len())?;
    let widest = World {
        grammar: Grammar::WIDEST,
        ..bare()
    };
    write_rules(
        &mut out,
        "bare entries with all of `reads`",
        &widest.tally(&commands),
        commands.len(),
    )?;
    let starters = World::of_starters(Grammar::WIDEST).tally(&commands);
    write_rules(
        &mut out,
        "all starter sets with all of `reads`",
        &starters,
        commands.len(),
    )?;
    write_programs(&mut out, &starters, commands.len())?;
    write_answers(&mut out, &commands, &commonest)
}

/// How often is asked after answers of each width.
fn write_answers(
    out: &mut impl io::Write,
    commands: &[Issued],
    commonest: &[String],
) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "\nWhere every question is answered with *always*, and in brackets the same commands without any answer:\n"
    )?;
    writeln!(
        out,
        "| allowlist | what is remembered | {} |",
        ANSWERS
            .map(|answers| format!("asked after {answers} answers"))
            .join(" | ")
    )?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: |")?;
    let widest = |world: World| World {
        grammar: Grammar::WIDEST,
        ..world
    };
    let holding = |world: World| World {
        holds_texts: true,
        ..widest(world)
    };
    let naming = |world: World| World {
        held_programs: HELD.map(str::to_owned).to_vec(),
        ..holding(world)
    };
    let tools = |world: World| World {
        held_programs: vec![held::WORKSPACE_TOOLS.to_owned()],
        ..holding(world)
    };
    for (name, world) in [
        (
            "39 programs that mostly read, and git",
            World::new(&READING.map(str::to_owned)),
        ),
        (BARE, World::new(commonest)),
        ("bare entries, with all of `reads`", widest(World::new(commonest))),
        (
            "the same, texts that are not read run held",
            holding(World::new(commonest)),
        ),
        (
            "all starter sets, with all of `reads`",
            World::of_starters(Grammar::WIDEST),
        ),
        (
            "the same, texts that are not read run held",
            holding(World::of_starters(Grammar::WIDEST)),
        ),
        (
            "the same, and 16 programs in `heldPrograms`",
            naming(World::of_starters(Grammar::WIDEST)),
        ),
        (
            "all starter sets, held texts, `@workspace` in `heldPrograms`",
            tools(World::of_starters(Grammar::WIDEST)),
        ),
    ] {
        let asked = world.asked(commands);
        for (answered, width) in ANSWERED {
            let learned = world.learn(commands, &asked, answered);
            let cells = learned.map(|rest| {
                let shown = |(learned, before)| format!("{learned:.1} ({before:.1})");
                rest.map_or_else(|| "-".to_owned(), shown)
            });
            writeln!(out, "| {name} | {width} | {} |", cells.join(" | "))?;
        }
    }
    Ok(())
}

/// What is asked under an allowlist, by the rule that is named first.
fn write_rules(out: &mut impl io::Write, name: &str, tally: &Tally, of: usize) -> io::Result<()> {
    writeln!(
        out,
        "\nUnder {name}, what is asked, by the rule that is named first, and what each rule alone would save:\n"
    )?;
    writeln!(out, "| rule | asked | asked by it alone |")?;
    writeln!(out, "| --- | ---: | ---: |")?;
    let mut rules: Vec<_> = tally.first.iter().collect();
    rules.sort_by_key(|(rule, count)| (std::cmp::Reverse(**count), **rule));
    for (rule, count) in rules {
        let alone = tally.alone.get(rule).copied().unwrap_or(0);
        let (count, alone) = (percent(*count, of), percent(alone, of));
        writeln!(out, "| {rule} | {count:.1} | {alone:.1} |")?;
    }
    Ok(())
}

/// What lacks nothing but an entry, by the program that lacks it first.
fn write_programs(out: &mut impl io::Write, tally: &Tally, of: usize) -> io::Result<()> {
    writeln!(
        out,
        "\nWhere nothing but an entry is missing, by the first program without one:\n"
    )?;
    writeln!(out, "| program | asked |")?;
    writeln!(out, "| --- | ---: |")?;
    let mut programs: Vec<_> = tally.without_entry.iter().collect();
    programs.sort_by_key(|(program, count)| (std::cmp::Reverse(**count), program.as_str()));
    for (program, count) in programs.into_iter().take(PROGRAMS_SHOWN) {
        let count = percent(*count, of);
        writeln!(out, "| `{program}` | {count:.1} |")?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn percent(count: usize, of: usize) -> f64 {
    100.0 * count as f64 / of.max(1) as f64
}

/// The distinct texts, in the order in which they came.
fn read(directory: &Path) -> Result<Vec<Issued>, Box<dyn Error>> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let (mut known, mut commands) = (BTreeSet::new(), Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (at, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let place = || format!("{} line {}", file.display(), at + 1);
            let value: serde_json::Value =
                serde_json::from_str(line).map_err(|error| format!("{}: {error}", place()))?;
            let command = value
                .get("command")
                .and_then(serde_json::Value::as_str)
                .ok_or_else(|| format!("{}: no command", place()))?;
            let cwd = value.get("cwd").and_then(serde_json::Value::as_str);
            if known.insert(command.to_owned()) {
                commands.push(Issued {
                    text: command.to_owned(),
                    cwd: cwd.filter(|cwd| cwd.starts_with('/')).map(str::to_owned),
                });
            }
        }
    }
    if commands.is_empty() {
        return Err(format!("{} has no *.jsonl with commands", directory.display()).into());
    }
    Ok(commands)
}

/// The programs that most commands name. Most texts cannot be taken apart, so their words are read roughly: what begins a
/// line or follows an operator, up to the first here-document.
fn commonest(commands: &[Issued]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for command in commands {
        let before_document = command.text.split("<<").next().unwrap_or_default();
        let parts = before_document.split(['\n', ';', '|', '&', '(', ')', '`', '{', '}']);
        let names: BTreeSet<&str> = parts.filter_map(first_program).collect();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    counts
        .into_iter()
        .take(COMMONEST)
        .map(|(name, _count)| name.to_owned())
        .collect()
}

/// The first word that may be a program, behind words of the shell and assignments.
fn first_program(part: &str) -> Option<&str> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._+-".contains(character);
    let mut words = part.split_ascii_whitespace();
    let word = words.find(|word| !SHELL_WORDS.contains(word) && !word.contains('='))?;
    let begins = word.starts_with(|character: char| character.is_ascii_lowercase());
    (begins && word.len() > 1 && word.chars().all(is_plain)).then_some(word)
}

/// What became of all commands.
#[derive(Default)]
struct Tally {
    allowed: usize,
    asked: usize,
    denied: usize,
    /// By the first finding.
    first: BTreeMap<&'static str, usize>,
    /// Where all findings are of one rule.
    alone: BTreeMap<&'static str, usize>,
    /// Where nothing but an entry is missing, by the first program that has none for its arguments.
    without_entry: BTreeMap<String, usize>,
}

/// An entry that was stored, or a grant where it has a directory.
struct Stored {
    pattern: String,
    arg_pattern: Option<String>,
    source: Option<String>,
    directory: Option<String>,
}

impl Stored {
    fn of(pattern: &Pattern) -> Self {
        Self {
            pattern: pattern.pattern.clone(),
            arg_pattern: pattern.arg_pattern.clone(),
            source: pattern.source.clone(),
            directory: pattern.limits.directory.clone(),
        }
    }

    /// It as an entry.
    fn entry<'a>(&'a self, agent: &'a AgentId) -> Entry<'a> {
        Entry {
            owner: agent.as_str(),
            id: &self.pattern,
            pattern: &self.pattern,
            arg_pattern: self.arg_pattern.as_deref(),
            source: self.source.as_deref(),
            command_sha256: None,
            typing: Typing::Nothing,
            confine: None,
        }
    }

    /// It as a grant.
    fn grant<'a>(&'a self, agent: &'a AgentId) -> Grant<'a> {
        Grant {
            owner: agent.as_str(),
            id: &self.pattern,
            pattern: &self.pattern,
            arg_pattern: self.arg_pattern.as_deref(),
            expires_at: None,
            max_uses: None,
            uses: 0,
            sha256: None,
            directory: self.directory.as_deref(),
            is_of_other_session: false,
            typing: Typing::Nothing,
            confine: None,
        }
    }
}

/// A machine and its policy.
struct World {
    programs: Vec<String>,
    /// Entries of starter sets, with what they say about confinement.
    starters: Vec<(StarterEntry, Option<ConfineRule>)>,
    strict_inline_eval: bool,
    strict_delegation: bool,
    grammar: Grammar,
    /// Whether texts that cannot be taken apart run held (`tools.exec.onMiss`).
    holds_texts: bool,
    /// Programs that held texts start without an entry (`tools.exec.heldPrograms`).
    held_programs: Vec<String>,
    agent: AgentId,
    safe_bins: Vec<String>,
    cache: PatternCache,
}

impl World {
    fn new(programs: &[String]) -> Self {
        Self {
            programs: programs.to_vec(),
            starters: Vec::new(),
            strict_inline_eval: false,
            strict_delegation: true,
            grammar: Grammar::default(),
            holds_texts: false,
            held_programs: Vec::new(),
            agent: AgentId::main(),
            safe_bins: SAFE_BINS.map(str::to_owned).to_vec(),
            cache: PatternCache::default(),
        }
    }

    /// One with the entries of all starter sets.
    fn of_starters(grammar: Grammar) -> Self {
        Self::of(grammar, StarterSet::ALL.iter())
    }

    /// One with the entries of some.
    fn of<'a>(grammar: Grammar, sets: impl Iterator<Item = &'a StarterSet>) -> Self {
        let entries = sets.flat_map(|set| set.entries());
        let starters = entries.map(|entry| {
            let confine = entry.confine.as_ref().map(ConfineRule::read);
            (entry, confine)
        });
        Self {
            starters: starters.collect(),
            grammar,
            ..Self::new(&[])
        }
    }

    /// The entries for the programs, and those that answers stored.
    fn entries(&self, stored: &[Stored]) -> EntryIndex {
        let patterns: Vec<String> = self
            .programs
            .iter()
            .map(|name| format!("/usr/bin/{name}"))
            .collect();
        let plain = patterns
            .iter()
            .map(|pattern| Entry::plain(self.agent.as_str(), pattern, pattern));
        let learned = entries_of(stored).map(|stored| stored.entry(&self.agent));
        let starters = self.starters.iter().map(|(starter, confine)| Entry {
            owner: self.agent.as_str(),
            id: starter.allows,
            pattern: starter.pattern,
            arg_pattern: starter.arg_pattern.as_deref(),
            source: None,
            command_sha256: None,
            typing: Typing::Nothing,
            confine: confine.as_ref(),
        });
        EntryIndex::new(
            plain.chain(learned).chain(starters),
            PathCase::Sensitive,
            HOME,
            |path| Some(path.to_owned()),
        )
    }

    fn analyse(&self, entries: &EntryIndex, stored: &[Stored], command: &Issued) -> Analysis {
        let grants: Vec<Grant<'_>> = stored
            .iter()
            .filter(|stored| stored.directory.is_some())
            .map(|stored| stored.grant(&self.agent))
            .collect();
        let env = EnvOverrides::default();
        let workspace = PinnedDirectory {
            path: command.workspace().to_owned(),
            dev: 1,
            ino: 1,
        };
        let temporary = PinnedDirectory {
            path: "/tmp".to_owned(),
            dev: 1,
            ino: 2,
        };
        let request = AnalysisRequest {
            cwd: &workspace.path,
            cwd_real: &workspace.path,
            env: &env,
            agent: &self.agent,
            input: CommandInput::default(),
            workspace: Some(&workspace),
            temporary: Some(&temporary),
            shell: Some(ShellKind::Bash),
        };
        let policy = AnalysisPolicy {
            keeps: Keeps {
                starts: true,
                writes: true,
                own_files: true,
                ..Keeps::default()
            },
            grammar: self.grammar,
            entries: Entries::Indexed(entries),
            grants: &grants,
            deny_rules: &[],
            safe_bins: &self.safe_bins,
            safe_bin_profiles: &BTreeMap::new(),
            trusted_dirs: &[],
            skills: &[],
            strict_inline_eval: self.strict_inline_eval,
            strict_delegation: self.strict_delegation,
            exact_text_grants: true,
            path_case: PathCase::Sensitive,
            now: UnixMillis::new(0),
            protected: &Protected::default(),
            cache: &self.cache,
        };
        analyze(&Command::Shell(command.text.clone()), &request, &policy, &Files)
    }

    /// The programs that a held text may start.
    fn listed(&self, stored: &[Stored]) -> Vec<FileIdentity> {
        let patterns: Vec<String> = self
            .programs
            .iter()
            .map(|name| format!("/usr/bin/{name}"))
            .collect();
        let plain = patterns.iter().map(|pattern| (pattern.as_str(), None, None));
        let starters = self
            .starters
            .iter()
            .map(|(starter, confine)| (starter.pattern, starter.arg_pattern.as_deref(), confine.as_ref()));
        let entries = plain
            .chain(starters)
            .map(|(pattern, arg_pattern, confine)| Entry {
                owner: self.agent.as_str(),
                id: pattern,
                pattern,
                arg_pattern,
                source: None,
                command_sha256: None,
                typing: Typing::Nothing,
                confine,
            });
        let learned = entries_of(stored).map(|stored| stored.entry(&self.agent));
        let all = entries.chain(learned);
        held::programs(all, &self.held_terms(WORKSPACE), &Protected::default(), &Files).unwrap_or_default()
    }

    /// What decides about held texts beside the entries.
    fn held_terms<'a>(&'a self, directory: &'a str) -> held::Terms<'a> {
        held::Terms {
            named: &self.held_programs,
            strict_inline_eval: self.strict_inline_eval,
            workspace: directory,
            directory,
        }
    }

    /// Whether a text that is a miss runs held.
    fn runs_held(&self, command: &Issued, analysis: &Analysis, listed: &[FileIdentity]) -> bool {
        self.holds_texts
            && held::expect_holdable(
                &command.text,
                analysis,
                listed,
                &self.held_terms(command.workspace()),
                &Protected::default(),
                &Files,
            )
            .is_ok()
    }

    fn tally(&self, commands: &[Issued]) -> Tally {
        let entries = self.entries(&[]);
        let listed = self.listed(&[]);
        let mut tally = Tally::default();
        for command in commands {
            let analysis = self.analyse(&entries, &[], command);
            match verdict(&analysis) {
                Verdict::Run => tally.allowed += 1,
                Verdict::Deny(_) => tally.denied += 1,
                Verdict::Ask(_) if self.runs_held(command, &analysis, &listed) => tally.allowed += 1,
                Verdict::Ask(_) => {
                    tally.asked += 1;
                    let rule = analysis.verdict.finding().map_or("-", rule_of);
                    *tally.first.entry(rule).or_default() += 1;
                    if analysis.findings.iter().all(|finding| rule_of(finding) == rule) {
                        *tally.alone.entry(rule).or_default() += 1;
                    }
                    let lacks_entry = |finding: &Finding| matches!(rule_of(finding), "M1" | "M4");
                    if analysis.findings.iter().all(lacks_entry)
                        && let Some(path) = analysis.first_uncovered_path()
                    {
                        let name = path.rsplit('/').next().unwrap_or_default();
                        *tally.without_entry.entry(name.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        tally
    }

    /// Which commands are asked about without any answer.
    fn asked(&self, commands: &[Issued]) -> Vec<bool> {
        let (entries, listed) = (self.entries(&[]), self.listed(&[]));
        let is_asked = |command: &Issued| {
            let analysis = self.analyse(&entries, &[], command);
            matches!(verdict(&analysis), Verdict::Ask(_)) && !self.runs_held(command, &analysis, &listed)
        };
        commands.iter().map(is_asked).collect()
    }

    /// How many of a hundred of those commands are asked about that come after so many answers, and how many of the same ones
    /// without the answers.
    fn learn(&self, commands: &[Issued], before: &[bool], answered: Answered) -> [Option<(f64, f64)>; 3] {
        let mut stored: Vec<Stored> = Vec::new();
        let mut entries = self.entries(&stored);
        let mut listed = self.listed(&stored);
        let mut asked_at = Vec::new();
        let mut answers = 0;
        let mut rest = [None; 3];
        for (at, command) in commands.iter().enumerate() {
            for (slot, wanted) in rest.iter_mut().zip(ANSWERS) {
                if slot.is_none() && answers == wanted {
                    *slot = Some(at);
                }
            }
            let analysis = self.analyse(&entries, &stored, command);
            if !matches!(verdict(&analysis), Verdict::Ask(_)) || self.runs_held(command, &analysis, &listed) {
                continue;
            }
            asked_at.push(at);
            answers += 1;
            if answers > ANSWERS[2] {
                // What comes after the last count is judged by what was stored before it.
                continue;
            }
            let before = stored.len();
            stored.extend(answered.choose(&analysis.proposed_patterns));
            if stored.len() > before {
                entries = self.entries(&stored);
                listed = self.listed(&stored);
            }
        }
        rest.map(|from| {
            let from = from?;
            let asked = asked_at.iter().filter(|at| **at >= from).count();
            let without = before.iter().skip(from).filter(|asked| **asked).count();
            let of = commands.len() - from;
            Some((percent(asked, of), percent(without, of)))
        })
    }
}

/// Those that are entries.
fn entries_of(stored: &[Stored]) -> impl Iterator<Item = &Stored> {
    stored.iter().filter(|stored| stored.directory.is_none())
}

fn rule_of(finding: &Finding) -> &'static str {
    finding.rule
}

/// `cautious`: security `allowlist`, ask `on-miss`.
fn verdict(analysis: &Analysis) -> Verdict {
    gate(&GateInput {
        security: Security::Allowlist,
        ask: Ask::OnMiss,
        ask_fallback: Security::Deny,
        coverage: Coverage {
            satisfied: analysis.satisfied,
            analysis_ok: analysis.ok,
            durable: analysis.durable,
        },
        denylisted: analysis.denylisted.is_some(),
        needs_person: analysis.needs_person,
        document_refused: false,
        tool_denied: false,
    })
}

/// The directory to which a command changes first.
fn first_directory(command: &str) -> Option<&str> {
    let target = command.trim_start().strip_prefix("cd ").unwrap_or_default();
    let end = target.find(|character: char| character.is_whitespace() || ";&|\"'$`*?~".contains(character));
    let target = target.get(..end.unwrap_or(target.len())).unwrap_or_default();
    let is_plain = target.starts_with('/') && !target.contains("/..");
    is_plain.then(|| target.trim_end_matches('/'))
}

/// Every program is in `/usr/bin`, every file is there but below `/tmp`, and no name is a link. A file whose name says that it is data is no
/// program.
#[derive(Debug)]
struct Files;

impl PathLookup for Files {
    fn search(&self, name: &str) -> Option<String> {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "._+-".contains(character);
        (!name.is_empty() && name.chars().all(is_plain)).then(|| format!("/usr/bin/{name}"))
    }

    /// One name, which hardly a pattern means: then the word stays as it is.
    fn list(&self, directory: &str) -> Listing {
        Listing::Names {
            real: paths::normalise(directory),
            names: vec!["name".to_owned()],
        }
    }

    fn is_set(&self, _variable: &str) -> bool {
        false
    }

    fn home_variable(&self) -> Option<&str> {
        Some(HOME)
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        if path.starts_with("/tmp/") {
            return None;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        if name
            .rsplit_once('.')
            .is_some_and(|(_, kind)| DATA.contains(&kind))
        {
            return None;
        }
        let identity = FileIdentity {
            path: path.to_owned(),
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns: 0,
            ctime_ns: 0,
        };
        Some(Inspected {
            real: path.to_owned(),
            identity,
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        if path.starts_with("/tmp/") {
            return None;
        }
        Some(path.to_owned())
    }

    fn home(&self) -> &'static str {
        HOME
    }

    fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
        DirectoryTrust::Ours
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }

    fn is_machine_program(&self, _file: &FileIdentity) -> bool {
        true
    }
}
