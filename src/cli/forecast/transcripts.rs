//! The transcripts of agents on this machine: where they lie, and the values in them.
//!
//! They are files of the user who calls, and hostile all the same: an agent writes them. So no link is followed, only regular
//! files are opened, and everything is bounded. What cannot be read is counted, never guessed. Entry point: [`Source::files`].

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use countersign_config::settings::Environment;
use countersign_domain::UnixMillis;
use countersign_sys::fs::open_regular;

use crate::cli::{context::Context, failure::Failure};

use super::forms::Form;

/// Transcripts that are read at most, the newest first.
pub(super) const MAX_FILES: usize = 5_000;
/// Entries of directories that are looked at.
const MAX_ENTRIES: usize = 200_000;
/// Directories below the one of an agent that are gone into.
const MAX_DEPTH: usize = 6;
/// Bytes of one transcript that are read.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of all transcripts that are read.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Bytes of one value. A longer line holds an output or a picture, and no command that a person would read.
const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;

/// Whose transcripts are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    ClaudeCode,
    Codex,
    Gemini,
    OpenClaw,
    File(PathBuf),
}

/// A transcript that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    /// When it was written last: the time of what says no time itself.
    pub(super) written: UnixMillis,
}

/// What was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Skipped {
    /// Files that are links, no regular files, or cannot be opened.
    pub(super) files: u64,
    /// Lines that are too long, or no JSON.
    pub(super) lines: u64,
    /// Files and parts of files beyond what is read at all.
    pub(super) beyond: u64,
}

/// Counts what is read of all transcripts.
#[derive(Debug, Default)]
pub(super) struct Budget {
    read: u64,
}

impl std::str::FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "claude-code" => Self::ClaudeCode,
            "codex" => Self::Codex,
            "gemini" => Self::Gemini,
            "openclaw" => Self::OpenClaw,
            path => Self::File(PathBuf::from(path)),
        })
    }
}

impl Source {
    /// The agents whose transcripts are looked for where none is named.
    pub(super) fn all() -> Vec<Self> {
        vec![Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenClaw]
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::ClaudeCode => "claude-code".to_owned(),
            Self::Codex => "codex".to_owned(),
            Self::Gemini => "gemini".to_owned(),
            Self::OpenClaw => "openclaw".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    const fn form(&self) -> Form {
        match self {
            Self::ClaudeCode => Form::ClaudeCode,
            Self::Codex => Form::Codex,
            Self::Gemini => Form::Gemini,
            Self::OpenClaw => Form::OpenClaw,
            Self::File(_) => Form::Any,
        }
    }

    /// The directory where the agent keeps them; `None` for a file, and without a home directory.
    fn directory(&self, context: &Context) -> Result<Option<PathBuf>, Failure> {
        let environment = context.environment.as_ref();
        let home = || directory_of(environment, "HOME");
        let of_agent = |variable: &str, name: &str| {
            directory_of(environment, variable).or_else(|| Some(home()?.join(name)))
        };
        Ok(match self {
            Self::ClaudeCode => of_agent("CLAUDE_CONFIG_DIR", ".claude").map(|root| root.join("projects")),
            Self::Codex => of_agent("CODEX_HOME", ".codex").map(|root| root.join("sessions")),
            Self::Gemini => home().map(|home| home.join(".gemini/tmp")),
            Self::OpenClaw => Some(context.state_dir()?.root().join("agents")),
            Self::File(_) => None,
        })
    }

    /// The transcripts that were written since, the newest first, and what was passed over. A file that was named must be
    /// there.
    pub(super) fn files(
        &self,
        context: &Context,
        since: UnixMillis,
        skipped: &mut Skipped,
    ) -> Result<Vec<Transcript>, Failure> {
        if let Self::File(path) = self {
            let unusable = |error: io::Error| {
                Failure::usage(format!(
                    "{} cannot be read as a transcript: {error}",
                    path.display()
                ))
                .hint("countersign policy forecast --help")
            };
            let file = open_regular(path).map_err(unusable)?;
            let written = written(&file.metadata().map_err(unusable)?);
            return Ok(vec![self.transcript(path.clone(), written)]);
        }
        let mut found = Vec::new();
        if let Some(directory) = self.directory(context)? {
            let mut walk = Walk {
                entries: 0,
                skipped,
                found: &mut found,
            };
            walk.directory(self, &directory, MAX_DEPTH);
        }
        found.retain(|transcript| transcript.written >= since);
        found.sort_by(|one, other| (other.written, &other.path).cmp(&(one.written, &one.path)));
        if found.len() > MAX_FILES {
            skipped.beyond += u64::try_from(found.len() - MAX_FILES).unwrap_or(u64::MAX);
            found.truncate(MAX_FILES);
        }
        Ok(found)
    }

    fn transcript(&self, path: PathBuf, written: UnixMillis) -> Transcript {
        Transcript {
            path,
            form: self.form(),
            written,
        }
    }

    /// Whether a file of the agent's directory is one of its transcripts.
    fn is_transcript(&self, path: &Path) -> bool {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_in = |name: &str| path.components().any(|part| part.as_os_str() == name);
        match self {
            Self::ClaudeCode | Self::Codex => extension == Some("jsonl"),
            Self::Gemini => is_in("chats") && matches!(extension, Some("json" | "jsonl")),
            Self::OpenClaw => is_in("sessions") && extension == Some("jsonl"),
            Self::File(_) => true,
        }
    }
}

fn directory_of(environment: &dyn Environment, variable: &str) -> Option<PathBuf> {
    let path = environment.get(variable).map(PathBuf::from);
    path.filter(|path| path.is_absolute())
}

fn written(metadata: &fs::Metadata) -> UnixMillis {
    let since = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let since = since.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    UnixMillis::new(0) + since
}

struct Walk<'a> {
    entries: usize,
    skipped: &'a mut Skipped,
    found: &'a mut Vec<Transcript>,
}

impl Walk<'_> {
    fn directory(&mut self, source: &Source, directory: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                self.skipped.beyond += 1;
                return;
            }
            // Of the entry itself: a link is neither.
            let (Ok(kind), path) = (entry.file_type(), entry.path()) else {
                self.skipped.files += 1;
                continue;
            };
            if kind.is_dir() && depth > 0 {
                self.directory(source, &path, depth - 1);
            } else if source.is_transcript(&path) {
                match entry.metadata() {
                    Ok(metadata) if kind.is_file() => {
                        self.found.push(source.transcript(path, written(&metadata)));
                    }
                    Ok(_) | Err(_) => self.skipped.files += 1,
                }
            }
        }
    }
}

impl Transcript {
    /// Hands over each value: one a line, or the only one of a file that is a single value.
    pub(super) fn each_value(
        &self,
        budget: &mut Budget,
        skipped: &mut Skipped,
        mut take: impl FnMut(&Value),
    ) {
        // It may have become something else since it was found.
        let Ok(file) = open_regular(&self.path) else {
            skipped.files += 1;
            return;
        };
        let left = MAX_BYTES.saturating_sub(budget.read);
        let most = MAX_FILE_BYTES.min(left);
        if file.metadata().is_ok_and(|metadata| metadata.len() > most) {
            skipped.beyond += 1;
        }
        let mut input = BufReader::with_capacity(64 * 1024, file.take(most));
        if self.path.extension().is_some_and(|extension| extension == "json") {
            let mut text = Vec::new();
            let limit = u64::try_from(MAX_VALUE_BYTES).unwrap_or(u64::MAX);
            match input.take(limit * 8).read_to_end(&mut text) {
                Ok(read) => budget.read += u64::try_from(read).unwrap_or(u64::MAX),
                Err(_unreadable) => skipped.files += 1,
            }
            match serde_json::from_slice(&text) {
                Ok(value) => take(&value),
                Err(_no_json) => skipped.lines += 1,
            }
            return;
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = u64::try_from(MAX_VALUE_BYTES + 1).unwrap_or(u64::MAX);
            let Ok(read) = input.by_ref().take(limit).read_until(b'\n', &mut line) else {
                skipped.files += 1;
                return;
            };
            budget.read += u64::try_from(read).unwrap_or(u64::MAX);
            if read == 0 {
                return;
            }
            if line.len() > MAX_VALUE_BYTES && line.last() != Some(&b'\n') {
                skipped.lines += 1;
                match pass_over_line(&mut input) {
                    Ok(passed) => budget.read += passed,
                    Err(_unreadable) => return,
                }
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(value) => take(&value),
                Err(_no_json) => skipped.lines += 1,
            }
        }
    }
}

/// Passes over the rest of a line without keeping it.
fn pass_over_line(input: &mut impl io::BufRead) -> io::Result<u64> {
    let mut passed = 0;
    loop {
        let piece = input.fill_buf()?;
        if piece.is_empty() {
            return Ok(passed);
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(piece.len(), |end| end + 1);
        input.consume(used);
        passed += u64::try_from(used).unwrap_or(u64::MAX);
        if end.is_some() {
            return Ok(passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(path: &Path) -> (Vec<Value>, Skipped) {
        let transcript = Source::File(path.to_owned()).transcript(path.to_owned(), UnixMillis::new(0));
        let (mut found, mut skipped) = (Vec::new(), Skipped::default());
        transcript.each_value(&mut Budget::default(), &mut skipped, |value| {
            found.push(value.clone());
        });
        (found, skipped)
    }

    #[test]
    fn lines_that_are_no_json_or_far_too_long_are_counted_and_the_others_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let long = format!("{{\"x\": \"{}\"}}", "y".repeat(MAX_VALUE_BYTES + 10));
        countersign_sys::fs::replace_file(
            &path,
            format!("{{\"a\": 1}}\n\nno json\n{long}\n[2]").as_bytes(),
            0o600,
        )
        .unwrap();
        let (found, skipped) = values(&path);
        assert_eq!(found, [serde_json::json!({ "a": 1 }), serde_json::json!([2])]);
        assert_eq!(
            skipped,
            Skipped {
                lines: 2,
                ..Skipped::default()
            }
        );
    }

    #[test]
    fn links_directories_and_pipes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        countersign_sys::fs::replace_file(&at("real.jsonl"), b"{}\n", 0o600).unwrap();
        std::os::unix::fs::symlink(at("real.jsonl"), at("link.jsonl")).unwrap();
        std::os::unix::fs::symlink(folder.path(), at("loop")).unwrap();
        fs::create_dir(at("directory.jsonl")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe.jsonl"), rustix::fs::Mode::RUSR).unwrap();
        for name in ["link.jsonl", "directory.jsonl", "pipe.jsonl", "nothing.jsonl"] {
            let (found, skipped) = values(&at(name));
            assert!(found.is_empty() && skipped.files == 1, "{name}: {skipped:?}");
        }
        let (mut found, mut skipped) = (Vec::new(), Skipped::default());
        let mut walk = Walk {
            entries: 0,
            skipped: &mut skipped,
            found: &mut found,
        };
        walk.directory(&Source::ClaudeCode, folder.path(), MAX_DEPTH);
        assert_eq!(found.len(), 1, "{found:?}");
        // The link to the directory is no transcript by its name; the other two are.
        assert_eq!(skipped.files, 2);
    }
}
