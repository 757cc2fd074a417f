//! `cargo bench --bench analysis`: what reading a command and matching it costs, without a server.
//!
//! Entries and commands are made up. `reading` is the parser alone; `deciding` is parser and matching, with files that
//! are in memory; `deciding_on_disk` the same with the files of the machine, whose every look is a system call.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, FileIdentity, UnixMillis};
use countersign_hosts::{path_lookup::SystemLookup, peer_fs::Files};
use countersign_policy::{
    allowlist::{Analysis, AnalysisPolicy, AnalysisRequest, Entries, Entry, EntryIndex, Protected, analyze},
    command::{DirectoryTrust, Inspected, PathLookup, parser},
    pattern::{PathCase, PatternCache},
};
use divan::{Bencher, counter::BytesCount};

fn main() {
    divan::main();
}

/// The limit of G10.
const MAX_BYTES: usize = 8_192;

/// An everyday command.
const TYPICAL: &str = "git log --oneline -n 20 'src/my file.rs' | head -n 5 && ls -la";

fn long(bytes: usize) -> String {
    let mut text = "ls".to_owned();
    while text.len() + 24 < bytes {
        text.push_str(" 'some file.txt' --flag=x");
    }
    text
}

const PATHOLOGICAL: [&str; 6] = [
    "quotes",
    "backslashes",
    "braces",
    "tildes",
    "words",
    "assignments",
];

/// Texts that make a careless parser look twice at everything, for each size up to the limit.
fn pathological(kind: &str, bytes: usize) -> String {
    let text = match kind {
        "quotes" => "'a'\"b\"".repeat(bytes / 6),
        "backslashes" => r"\a".repeat(bytes / 2),
        "braces" => "{".repeat(bytes),
        "tildes" => "=~/:".repeat(bytes / 4),
        "words" => "a ".repeat(bytes / 2),
        _ => "a=b ".repeat(bytes / 4),
    };
    format!("ls {text}")
}

#[divan::bench(args = ["typical", "long", "too long"])]
fn reading(bencher: Bencher<'_, '_>, kind: &str) {
    let text = match kind {
        "typical" => TYPICAL.to_owned(),
        "long" => long(MAX_BYTES),
        _ => long(10_240),
    };
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| divan::black_box(parser::parse(divan::black_box(&text))).is_ok());
}

/// Twice the bytes should be twice the time.
#[divan::bench(args = PATHOLOGICAL.iter().flat_map(|kind| [1_024, 2_048, 4_096, 8_128].map(|bytes| (*kind, bytes))))]
fn pathological_reading(bencher: Bencher<'_, '_>, (kind, bytes): (&str, usize)) {
    let text = pathological(kind, bytes);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| divan::black_box(parser::parse(divan::black_box(&text))).is_ok());
}

#[derive(Debug, Clone, Copy)]
enum Question {
    /// The last entry covers it.
    Hit,
    /// No entry does.
    Miss,
}

static ON_DISK: LazyLock<SystemLookup> = LazyLock::new(|| {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    SystemLookup::new(directories, "/root".to_owned(), &Files::Direct)
});

/// A machine that has every program in `/usr/bin`, without links.
#[derive(Debug)]
struct InMemory;

impl PathLookup for InMemory {
    fn search(&self, name: &str) -> Option<String> {
        Some(format!("/usr/bin/{name}"))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        path.starts_with("/usr/bin/").then(|| Inspected {
            real: path.to_owned(),
            identity: FileIdentity {
                path: path.to_owned(),
                dev: 1,
                ino: 2,
                size: 3,
                mtime_ns: 4,
                ctime_ns: 5,
            },
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        matches!(path, "/usr" | "/usr/bin" | "/srv").then(|| path.to_owned())
    }

    fn depends_on_process(&self, _path: &str) -> bool {
        false
    }

    fn home(&self) -> &'static str {
        "/root"
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

/// Entries of all kinds that cover nothing, and one for each program of [`TYPICAL`].
fn entries(count: usize) -> Vec<Entry<'static>> {
    let filler = (0..count.saturating_sub(3)).map(|number| match number % 4 {
        0 => format!("/opt/tools/{number}/bin/tool"),
        1 => format!("/srv/**/tool-{number}"),
        2 => format!("~/bin/tool-{number}-*"),
        _ => format!("tool-{number}"),
    });
    let patterns = filler.chain(["/usr/**/git", "head", "/usr/**/l?"].map(str::to_owned));
    patterns
        .map(|pattern| Entry::plain("main", "00000000-0000-4000-8000-000000000000", pattern.leak()))
        .collect()
}

fn decide(text: &str, entries: Entries<'_>, cache: &PatternCache, lookup: &dyn PathLookup) -> Analysis {
    let env = EnvOverrides::default();
    let agent = AgentId::main();
    let request = AnalysisRequest {
        cwd: "/usr",
        cwd_real: "/usr",
        env: &env,
        agent: &agent,
        input: CommandInput::Closed,
        workspace: None,
        temporary: None,
        shell: None,
    };
    let policy = AnalysisPolicy {
        grammar: countersign_policy::command::syntax::Grammar::default(),
        entries,
        grants: &[],
        deny_rules: &[],
        safe_bins: &[],
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: &[],
        skills: &[],
        strict_inline_eval: false,
        strict_delegation: true,
        exact_text_grants: false,
        path_case: PathCase::Sensitive,
        keeps: countersign_policy::allowlist::Keeps::default(),
        now: UnixMillis::new(0),
        protected: &Protected::default(),
        cache,
    };
    analyze(&Command::Shell(text.to_owned()), &request, &policy, lookup)
}

#[divan::bench(args = [10, 1_000, 100_000], consts = [0, 1])]
fn deciding<const MISS: usize>(bencher: Bencher<'_, '_>, count: usize) {
    decide_among(bencher, count, MISS, &InMemory);
}

#[divan::bench(args = [10, 1_000, 100_000], consts = [0, 1])]
fn deciding_on_disk<const MISS: usize>(bencher: Bencher<'_, '_>, count: usize) {
    decide_among(bencher, count, MISS, &*ON_DISK);
}

fn decide_among(bencher: Bencher<'_, '_>, count: usize, miss: usize, lookup: &dyn PathLookup) {
    let question = if miss == 0 { Question::Hit } else { Question::Miss };
    let text = match question {
        Question::Hit => TYPICAL,
        Question::Miss => "tar cf out.tar src | wc -c && id -u",
    };
    let entries = entries(count);
    // As the server does: few are looked through, many are indexed.
    let index = EntryIndex::new(
        entries.iter().copied(),
        PathCase::Sensitive,
        lookup.home(),
        |path| lookup.real(path),
    );
    let entries = if count < 64 {
        Entries::Listed(&entries)
    } else {
        Entries::Indexed(&index)
    };
    let cache = PatternCache::default();
    assert_eq!(decide(text, entries, &cache, lookup).satisfied, miss == 0);
    bencher.bench(|| decide(divan::black_box(text), entries, &cache, lookup).satisfied);
}

/// What each long list costs once per change of the document.
#[divan::bench(args = [1_000, 100_000], sample_count = 5, sample_size = 1)]
fn indexing(bencher: Bencher<'_, '_>, count: usize) {
    let entries = entries(count);
    bencher.bench(|| {
        EntryIndex::new(
            entries.iter().copied(),
            PathCase::Sensitive,
            ON_DISK.home(),
            |path| ON_DISK.real(path),
        )
        .len()
    });
}
