//! A session as everybody sees it (`docs/spec/http-api.md#process-session-object`).

use std::{path::Path, sync::Arc, time::Duration};

use countersign_domain::{
    AgentId, Command, Host, ProcessKind, ProcessStatus, RunId, SessionKey, TerminalSize, UnixMillis,
};
use countersign_ledger::ProcessSession;
use countersign_policy::command::{self, redaction, syntax::Segment};
use countersign_runner::output;

use super::Processes;

use crate::live::LiveRun;

/// How much of the output a session shows.
const TAIL_CHARS: usize = 2_000;
/// How long nothing must have been read or written before a session seems to wait for input.
const IDLE: Duration = Duration::from_secs(15);

/// A background run, or leftovers of a run (`docs/spec/http-api.md#process-session-object`).
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the members of the API's session object"
)]
pub struct Session {
    /// Two words and a number, such as `brisk-otter-7`; unique among the sessions that are kept.
    pub id: String,
    /// The run behind it; for leftovers the run that left them.
    pub run_id: RunId,
    /// The agent of the run; calls of the process tool for another agent do not find it.
    pub agent: AgentId,
    /// In which session of the agent it was asked for.
    pub session: SessionKey,
    /// Where the command runs, after host resolution.
    pub host: Host,
    /// How the session stands; for leftovers theirs, not that of their run.
    pub status: ProcessStatus,
    /// What it is, in a word or two.
    pub name: String,
    /// The command as text.
    pub command: String,
    /// The working directory, as the command's host names it.
    pub cwd: String,
    /// First process.
    pub pid: Option<i32>,
    /// Whether it has a pseudo-terminal.
    pub pty: bool,
    /// The size of that, where it is known.
    pub terminal: Option<TerminalSize>,
    /// The start of the run, or when it was asked for before it starts; for leftovers the end of the run.
    pub started_at: UnixMillis,
    /// When it ended; `None` while it runs.
    pub ended_at: Option<UnixMillis>,
    /// From its start to its end, or until now.
    pub duration: Duration,
    /// `None` while it runs, after a signal or a loss, and for leftovers.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended the command, such as `SIGKILL`; `None` while it runs, and for leftovers.
    pub exit_signal: Option<String>,
    /// Whether the time limit killed it.
    pub timed_out: bool,
    /// Whether output was cut.
    pub truncated: bool,
    /// Bytes of both streams seen.
    pub output_bytes: u64,
    /// The last characters of the output.
    pub tail: String,
    /// Whether its standard input can be written to.
    pub stdin_open: bool,
    /// Whether it seems to wait for input.
    pub waiting_for_input: bool,
}

impl Processes {
    /// The run of a session, while it goes on. The record of its end comes a moment before the run is told of it, and the
    /// record decides: a session that is shown as ended takes no more input.
    pub(super) fn going(&self, session: &ProcessSession) -> Option<Arc<LiveRun>> {
        let goes_on = session.status() == ProcessStatus::Running;
        goes_on.then(|| self.live.unfinished(&session.run.id)).flatten()
    }

    /// A session as it stands now.
    pub(super) fn session_view(&self, record: ProcessSession) -> Session {
        let (status, ended_at) = (record.status(), record.ended_at());
        let live = self.going(&record);
        let ProcessSession {
            id,
            kind,
            stdin_closed,
            leftovers_end: _,
            run,
        } = record;
        let now = self.clock.now();
        let (tail, output_bytes, truncated) = match &live {
            Some(live) => {
                let (tail, truncated) =
                    live.with_capture(|capture| (capture.tail(TAIL_CHARS), capture.truncated()));
                (tail, live.seen(), truncated)
            }
            None => (
                output::tail(&run.tail, TAIL_CHARS),
                run.output_bytes,
                run.truncated,
            ),
        };
        let is_run = kind == ProcessKind::Run;
        let stdin_open = is_run && live.is_some() && run.input.is_open() && !stdin_closed;
        let idle = live.as_ref().map(|live| now.since(live.active_at()));
        // Leftovers go on from where their run ended.
        let began = if is_run { run.started_at } else { run.ended_at };
        let started_at = began.unwrap_or(run.created_at);
        Session {
            id,
            run_id: run.id,
            agent: run.agent,
            session: run.session,
            host: run.host,
            status,
            name: name_of(&run.command),
            command: run.command.to_text(),
            cwd: run.cwd,
            pid: run.pid.filter(|_| is_run),
            pty: run.pty,
            terminal: live.and_then(|live| live.terminal()),
            started_at,
            ended_at,
            duration: ended_at.unwrap_or(now).since(started_at),
            exit_code: run.exit_code.filter(|_| is_run),
            exit_signal: run.exit_signal.filter(|_| is_run),
            timed_out: run.timed_out && is_run,
            truncated,
            output_bytes,
            tail,
            stdin_open,
            waiting_for_input: stdin_open && idle.is_some_and(seems_to_wait),
        }
    }
}

fn seems_to_wait(idle: Duration) -> bool {
    idle >= IDLE
}

/// The program and its first argument that is no flag and no secret.
fn name_of(command: &Command) -> String {
    const MAX_CHARS: usize = 60;
    let words: Vec<String> = match command {
        Command::Shell(text) => words_of(text),
        Command::Argv(argv) => argv.clone(),
        Command::Patch(_) => vec!["apply_patch".to_owned()],
    };
    let shown = redaction::masked(&words.join(" "));
    let mut words = words.iter().map(String::as_str).filter(|word| !word.is_empty());
    let program = words.next().unwrap_or_default();
    let program = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(program);
    let argument = words.find(|word| !word.starts_with('-') && shown.contains(word));
    let name = match argument {
        Some(argument) => format!("{program} {argument}"),
        None => program.to_owned(),
    };
    output::sanitize(&name).chars().take(MAX_CHARS).collect()
}

/// The words of the first program of a text, as a shell hands them to it; of a text that is not understood its own words.
fn words_of(text: &str) -> Vec<String> {
    let Ok(list) = command::parse(text) else {
        let bare = text
            .split_whitespace()
            .map(|word| word.trim_matches(['\'', '"', ';']));
        return bare
            .skip_while(|word| is_assignment(word))
            .map(str::to_owned)
            .collect();
    };
    // Where it goes first says less than what it does there.
    let is_move = |segment: &&Segment| segment.words.first().is_some_and(|word| word.value == "cd");
    let segment = list
        .segments()
        .find(|segment| !is_move(segment))
        .or_else(|| list.segments().next());
    let words = segment.into_iter().flat_map(|segment| &segment.words);
    words.map(|word| word.value.clone()).collect()
}

/// `NAME=value` before a program.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_its_program_and_first_argument() {
        let shell = |text: &str| name_of(&Command::Shell(text.to_owned()));
        assert_eq!(shell("npm run dev"), "npm run");
        assert_eq!(
            shell("/usr/bin/python3 -u 'server.py' --port 1"),
            "python3 server.py"
        );
        assert_eq!(shell("A=1 B=2 make -j4"), "make");
        assert_eq!(shell("cd web && npm start; ls"), "npm start");
        assert_eq!(shell("cd web"), "cd web");
        assert_eq!(shell("'/opt/my tools/run it' 'a b'"), "run it a b");
        assert_eq!(shell("cat a|wc -l"), "cat a");
        assert_eq!(shell("while true; do date; done"), "while true");
        assert_eq!(shell("  "), "");
        assert_eq!(shell("tail -f"), "tail");
        let argv = Command::Argv(vec!["sleep".to_owned(), "60".to_owned()]);
        assert_eq!(name_of(&argv), "sleep 60");
        assert_eq!(shell(&format!("echo {}", "x".repeat(500))).chars().count(), 60);
        assert_eq!(shell("ec\u{202e}ho a\u{7}b"), "echo ab");
    }

    #[test]
    fn fifteen_idle_seconds_look_like_waiting() {
        assert!(!seems_to_wait(Duration::from_millis(14_999)));
        assert!(seems_to_wait(Duration::from_secs(15)));
    }
}
