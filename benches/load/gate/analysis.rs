//! What it costs to judge a command, without a server: to read it, to look at its files and to match it with entries.

use std::{collections::BTreeMap, hint::black_box, path::PathBuf, time::Duration};

use countersign_domain::{AgentId, Command, CommandInput, EnvOverrides, PinnedDirectory, UnixMillis};
use countersign_hosts::{path_lookup::SystemLookup, peer_fs::Files};
use countersign_policy::{
    allowlist::{AnalysisPolicy, AnalysisRequest, Entries, Entry, EntryIndex, Keeps, Protected, analyze},
    command::{direct::ShellKind, syntax::Grammar},
    confine::ConfineRule,
    pattern::{PathCase, PatternCache},
    starter::StarterSet,
};

use tokio::time::Instant;

use super::{super::samples::Samples, Report, interval::Interval};

/// Commands as agents write them, of each form that is read.
const TEXTS: [&str; 30] = [
    "git status",
    "git diff --stat HEAD~3 -- crates/policy",
    "ls -la",
    "cat Cargo.toml | head -n 40",
    "cd crates/policy && cargo test --lib 2>&1 | tail -30",
    "grep -rn 'fn main' --include=*.rs src benches 2>/dev/null | head -20",
    "rg -n 'TODO|FIXME' crates/*/src/lib.rs",
    "wc -l src/*.rs benches/load/*.rs | sort -n | tail -5",
    "find crates -name '*.rs' -type f | xargs grep -l PathLookup",
    "find . -maxdepth 2 -type f -name '*.toml' -exec grep -n edition {} \\;",
    "echo '=== status ===' && git status --short && echo && echo '=== log ===' && git log --oneline -5",
    "python3 -m pytest tests/test_reader.py -q -k 'empty or long' 2>&1 | tail -n 20",
    "python3 scripts/report.py --since 2024-05-01 --format json > target/report.json",
    "npm run build 2>&1 | tail -5; echo \"exit: $?\"",
    "mkdir -p target/notes && touch target/notes/a.md",
    "cat > target/notes/b.md <<'EOF'\n# Notes\n\n- one line\n- another line\nEOF",
    "git add -A && git commit -m \"$(cat <<'EOF'\nRead the file once\n\nIt was read for each line.\nEOF\n)\"",
    "for f in README.md ARCHITECTURE.md CHANGELOG.md; do echo \"== $f\"; head -n 3 \"$f\"; done",
    "if test -f Cargo.lock; then echo locked; else echo open; fi",
    "while read -r line; do echo \"$line\"; done < Cargo.toml",
    "DIR=crates/policy; ls \"$DIR/src\" && wc -l \"$DIR/Cargo.toml\"",
    "count=$(grep -c version Cargo.toml); echo \"lines: $count\"",
    "diff README.md ARCHITECTURE.md || true",
    "sed -n '10,40p' src/main.rs",
    "jq -r '.version' package.json",
    "(cd crates && ls) && { pwd; date; }",
    "cargo clippy --all-targets -- -D warnings",
    "make -j4 check lint 2>/dev/null",
    "tar cf out.tar src && curl -fsS https://example.org/upload",
    "docker ps -a --format '{{.Names}}'",
];

const ROUNDS: usize = 15;
const PER_ROUND: usize = 8;

/// The median over all texts, where every setting of `tools.exec.reads` is on and the entries are those of all starter sets.
pub(super) fn measure(report: &mut Report<'_>) {
    let starters: Vec<_> = StarterSet::ALL.iter().flat_map(|set| set.entries()).collect();
    let limits: Vec<_> = starters
        .iter()
        .map(|entry| entry.confine.as_ref().map(ConfineRule::read))
        .collect();
    let entries = starters.iter().zip(&limits).map(|(starter, confine)| Entry {
        arg_pattern: starter.arg_pattern.as_deref(),
        confine: confine.as_ref(),
        ..Entry::plain("main", starter.allows, starter.pattern)
    });
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let lookup = SystemLookup::new(directories, "/home/agent".to_owned(), &Files::Direct);
    let index = EntryIndex::new(entries, PathCase::Sensitive, "/home/agent", |path| {
        Some(path.to_owned())
    });
    let cache = PatternCache::default();
    let mut all = Samples::default();
    let medians: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut round = Samples::default();
            for text in TEXTS.iter().cycle().take(TEXTS.len() * PER_ROUND) {
                round.add(judge(text, &index, &cache, &lookup));
            }
            let median = round.p50().as_secs_f64() * 1e6;
            all.0.append(&mut round.0);
            median
        })
        .collect();
    report.add(
        "analysis/p50/us",
        Interval::of_median(&medians).expect("there are rounds"),
        format!("p99 {} us", all.p99().as_micros()),
    );
}

fn judge(text: &str, index: &EntryIndex, cache: &PatternCache, lookup: &SystemLookup) -> Duration {
    let (env, agent) = (EnvOverrides::default(), AgentId::main());
    let workspace = PinnedDirectory {
        path: env!("CARGO_MANIFEST_DIR").to_owned(),
        dev: 1,
        ino: 1,
    };
    let request = AnalysisRequest {
        cwd: &workspace.path,
        cwd_real: &workspace.path,
        env: &env,
        agent: &agent,
        input: CommandInput::default(),
        workspace: Some(&workspace),
        temporary: None,
        shell: Some(ShellKind::Bash),
    };
    let policy = AnalysisPolicy {
        keeps: Keeps {
            starts: true,
            writes: true,
            own_files: true,
            ..Keeps::default()
        },
        grammar: Grammar::WIDEST,
        entries: Entries::Indexed(index),
        grants: &[],
        deny_rules: &[],
        safe_bins: &[],
        safe_bin_profiles: &BTreeMap::new(),
        trusted_dirs: &[],
        skills: &[],
        strict_inline_eval: false,
        strict_delegation: true,
        exact_text_grants: true,
        path_case: PathCase::Sensitive,
        now: UnixMillis::new(0),
        protected: &Protected::default(),
        cache,
    };
    let command = Command::Shell(text.to_owned());
    let begun = Instant::now();
    black_box(analyze(black_box(&command), &request, &policy, lookup));
    begun.elapsed()
}
