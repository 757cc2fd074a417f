//! `countersign process`: what goes on in the background, its output, its input, its end.

use std::{io::Read as _, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use countersign_domain::{AgentId, MAX_INPUT_BYTES, ProcessStatus};
use countersign_wire::{
    exec::WarningBody,
    process::{ProcessInput, ProcessLog, ProcessPoll, SessionBody, StreamedOutput},
};

use super::{
    candidates,
    client::{Answer, Client, Query, read},
    console::Format,
    context::Context,
    discover::Role,
    duration::parse_duration,
    exit::ExitStatus,
    failure::Failure,
    layout::Listing,
    sse::EventStream,
    state,
    table::Table,
    value,
};

/// How long a server that went away is waited for.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Look after what runs in the background
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign process list
  countersign process poll brave-otter-417 --timeout 30s
  countersign process log brave-otter-417 --follow
  echo yes | countersign process write brave-otter-417
  countersign process kill brave-otter-417

Uses gateway.token, as exec does, and sees the sessions of one agent.")]
pub(crate) struct ProcessArgs {
    /// Whose sessions
    #[arg(long, global = true, value_name = "ID", default_value = "main", add = candidates::agents())]
    agent: AgentId,

    #[command(subcommand)]
    command: ProcessCommand,
}

/// What is done.
#[derive(Debug, clap::Subcommand)]
enum ProcessCommand {
    /// List the sessions, newest first
    #[command(after_help = "Examples:
  countersign process list
  countersign process list --agent build --json")]
    #[command(alias = "ls")]
    List(Listing),
    /// Print the output since the last poll
    #[command(after_help = "Examples:
  countersign process poll brave-otter-417
  countersign process poll brave-otter-417 --timeout 30s")]
    Poll {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// Wait so long for new output or the end; at most 30s
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        timeout: Option<Duration>,
    },
    /// Print lines of all of its output
    #[command(after_help = "Examples:
  countersign process log brave-otter-417
  countersign process log brave-otter-417 --offset 0 --limit 100
  countersign process log brave-otter-417 --follow")]
    Log {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// The first line, counted from 0
        #[arg(long, value_name = "LINE")]
        offset: Option<usize>,
        /// How many lines; without --offset the last ones
        #[arg(long, value_name = "LINES")]
        limit: Option<usize>,
        /// Print all of the output, and what comes, until the session ends
        #[arg(long, short, conflicts_with_all = ["offset", "limit"])]
        follow: bool,
    },
    /// Write to the standard input
    #[command(after_help = "Examples:
  countersign process write brave-otter-417 yes
  countersign process write brave-otter-417 --eof < answers.txt")]
    Write {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// The text; read from standard input when omitted
        data: Option<String>,
        /// Close the standard input afterwards
        #[arg(long)]
        eof: bool,
    },
    /// Send keys to a terminal
    #[command(after_help = "Examples:
  countersign process send-keys brave-otter-417 C-c
  countersign process send-keys brave-otter-417 --literal ':wq' Enter
  countersign process send-keys brave-otter-417 --hex 1b --hex 5b")]
    SendKeys {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// Keys by name: Enter, Escape, Up, F5, C-c, M-x …; sent last
        keys: Vec<String>,
        /// Text as it is; sent first
        #[arg(long, value_name = "TEXT")]
        literal: Option<String>,
        /// A byte, two hexadecimal digits; may be repeated
        #[arg(long, value_name = "BYTE")]
        hex: Vec<String>,
    },
    /// Send a carriage return
    #[command(after_help = "Examples:
  countersign process submit brave-otter-417")]
    Submit {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
    },
    /// Paste a text
    #[command(after_help = "Examples:
  countersign process paste brave-otter-417 'several words'
  countersign process paste brave-otter-417 < text.txt")]
    Paste {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// The text; read from standard input when omitted
        text: Option<String>,
        /// Send it as if it were typed
        #[arg(long)]
        unbracketed: bool,
    },
    /// Give the terminal another size
    #[command(after_help = "Examples:
  countersign process resize brave-otter-417 --rows 50 --cols 200")]
    Resize {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
        /// Rows
        #[arg(long)]
        rows: u16,
        /// Columns
        #[arg(long)]
        cols: u16,
    },
    /// End it with everything that it started
    #[command(after_help = "Examples:
  countersign process kill brave-otter-417")]
    Kill {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
    },
    /// Forget it; it must have ended
    #[command(after_help = "Examples:
  countersign process clear calm-heron-52")]
    Clear {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
    },
    /// End it if it runs, and forget it
    #[command(after_help = "Examples:
  countersign process remove brave-otter-417")]
    #[command(alias = "rm")]
    Remove {
        /// Which session
        #[arg(value_name = "SESSION", add = candidates::processes())]
        session: String,
    },
}

pub(crate) async fn run(context: &Context, args: ProcessArgs) -> Result<ExitStatus, Failure> {
    let ProcessArgs { agent, command } = args;
    let client = context.client(Role::Gateway)?;
    let sessions = ProcessSessions {
        context,
        client: &client,
        agent: &agent,
    };
    match command {
        ProcessCommand::List(listing) => sessions.list(listing).await?,
        ProcessCommand::Poll { session, timeout } => sessions.poll(&session, timeout).await?,
        ProcessCommand::Log {
            session,
            follow: true,
            ..
        } => sessions.follow(&session).await?,
        ProcessCommand::Log {
            session,
            offset,
            limit,
            follow: false,
        } => sessions.log(&session, offset, limit).await?,
        ProcessCommand::Write { session, data, eof } => sessions.write(&session, data, eof).await?,
        ProcessCommand::SendKeys {
            session,
            keys,
            literal,
            hex,
        } => {
            let members = match literal {
                Some(literal) => json!({ "literal": literal, "keys": keys, "hex": hex }),
                None => json!({ "keys": keys, "hex": hex }),
            };
            sessions.input("send-keys", &session, members).await?;
        }
        ProcessCommand::Submit { session } => sessions.input("submit", &session, json!({})).await?,
        ProcessCommand::Paste {
            session,
            text,
            unbracketed,
        } => {
            let text = text.map_or_else(standard_input, Ok)?;
            let members = json!({ "text": text, "bracketed": !unbracketed });
            sessions.input("paste", &session, members).await?;
        }
        ProcessCommand::Resize { session, rows, cols } => {
            sessions
                .input("resize", &session, json!({ "rows": rows, "cols": cols }))
                .await?;
        }
        ProcessCommand::Kill { session } => sessions.end("kill", &session).await?,
        ProcessCommand::Clear { session } => sessions.end("clear", &session).await?,
        ProcessCommand::Remove { session } => sessions.end("remove", &session).await?,
    }
    Ok(ExitStatus::SUCCESS)
}

/// What `list` answers, each session with what this program does not know of it.
#[derive(Debug, Deserialize)]
struct Started {
    items: Vec<Answer<SessionBody>>,
}

/// What `kill`, `clear` and `remove` answer.
#[derive(Debug, Deserialize)]
struct Ended {
    session: SessionBody,
}

/// One agent's sessions, as a person at a terminal works with them.
struct ProcessSessions<'a> {
    context: &'a Context,
    client: &'a Client,
    agent: &'a AgentId,
}

impl ProcessSessions<'_> {
    async fn call(&self, action: &str, session: Option<&str>, members: Value) -> Result<Value, Failure> {
        let mut body = Map::new();
        body.insert("action".to_owned(), action.into());
        body.insert("agentId".to_owned(), json!(self.agent));
        if let Some(session) = session {
            body.insert("sessionId".to_owned(), session.into());
        }
        if let Value::Object(members) = members {
            body.extend(members);
        }
        self.client
            .post_patiently(&["v1", "process"], &Value::Object(body))
            .await
    }

    async fn list(&self, Listing { period, layout }: Listing) -> Result<(), Failure> {
        let mut answer = self.call("list", None, json!({})).await?;
        let Started { items } = read(answer.clone())?;
        let items = period.newest(self.context.clock.now(), items, |session| {
            Some(session.started_at_ms)
        });
        if self.context.console.format() == Format::Json {
            if let Some(members) = answer.as_object_mut() {
                members.insert("items".to_owned(), json!(items));
            }
            return self.context.console.document(&answer);
        }
        let mut table = Table::new(&["SESSION", "STATUS", "CODE", "STARTED", "RUNTIME", "NAME"])
            .with_states("STATUS", state::tone);
        for session in &items {
            let code = session.exit_code.map(|code| code.to_string());
            let status = if session.waiting_for_input && session.status == ProcessStatus::Running {
                "waits for input".to_owned()
            } else {
                session.status.to_string()
            };
            table.row([
                session.session_id.clone(),
                status,
                code.or_else(|| session.exit_signal.clone()).unwrap_or_default(),
                layout.time(self.context, session.started_at_ms),
                runtime(session.duration_ms),
                session.name.clone(),
            ]);
        }
        let ids = items.iter().map(|session| &session.session_id);
        layout.print(self.context, ids, &table, "no sessions")
    }

    async fn poll(&self, session: &str, timeout: Option<Duration>) -> Result<(), Failure> {
        let millis = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let members = millis.map_or_else(|| json!({}), |millis| json!({ "timeoutMs": millis }));
        let answer = self.call("poll", Some(session), members).await?;
        let console = self.context.console;
        if console.format() == Format::Json {
            return console.document(&answer);
        }
        let ProcessPoll {
            session,
            stdout,
            stderr,
        } = read(answer)?;
        console.raw_out(stdout.as_bytes())?;
        console.raw_err(stderr.as_bytes())?;
        self.note_state(&session);
        Ok(())
    }

    async fn log(&self, session: &str, offset: Option<usize>, limit: Option<usize>) -> Result<(), Failure> {
        let mut members = Map::new();
        members.extend(offset.map(|offset| ("offset".to_owned(), offset.into())));
        members.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
        let answer = self.call("log", Some(session), Value::Object(members)).await?;
        let console = self.context.console;
        if console.format() == Format::Json {
            return console.document(&answer);
        }
        let log: ProcessLog = read(answer)?;
        console.raw_out(log.text.as_bytes())?;
        if let Some(hint) = log.hint {
            console.note(&hint);
        }
        Ok(())
    }

    /// Standard input comes in pieces of what one call takes, so that it may be of any length.
    async fn write(&self, session: &str, data: Option<String>, eof: bool) -> Result<(), Failure> {
        let data = data.map_or_else(standard_input, Ok)?;
        let pieces = pieces(&data, MAX_INPUT_BYTES);
        let last = pieces.len().saturating_sub(1);
        let mut answer = Value::Null;
        for (index, piece) in pieces.into_iter().enumerate() {
            let members = json!({ "data": piece, "eof": eof && index == last });
            answer = self.call("write", Some(session), members).await?;
        }
        self.show_input(answer)
    }

    async fn input(&self, action: &str, session: &str, members: Value) -> Result<(), Failure> {
        let answer = self.call(action, Some(session), members).await?;
        self.show_input(answer)
    }

    fn show_input(&self, answer: Value) -> Result<(), Failure> {
        let console = self.context.console;
        if console.format() == Format::Json {
            return console.document(&answer);
        }
        let ProcessInput { session: _, warnings } = read(answer)?;
        for WarningBody { code, message } in warnings {
            console.note(&format!("warning[{code}]: {}", value::visible(&message)));
        }
        Ok(())
    }

    async fn end(&self, action: &str, session: &str) -> Result<(), Failure> {
        let answer = self.call(action, Some(session), json!({})).await?;
        let console = self.context.console;
        if console.format() == Format::Json {
            return console.document(&answer);
        }
        let Ended { session: ended } = read(answer)?;
        let status = ended.status;
        let forgotten = if action == "kill" { "" } else { ", and forgotten" };
        console.line(&format!("{session} is {status}{forgotten}"))
    }

    /// All of the output, across dropped connections, without loss or repetition.
    async fn follow(&self, session: &str) -> Result<(), Failure> {
        let console = self.context.console;
        let mut last_id: Option<String> = None;
        let mut stream = self.open(session, None).await?;
        // Of all the time: one that comes together with an event is seen after it.
        let mut interrupted = signal(SignalKind::interrupt())?;
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                _interrupted = interrupted.recv() => return Ok(()),
            };
            let Some(event) = event else {
                console.note("the connection broke; connecting again …");
                stream = tokio::select! {
                    stream = self.reopen(session, last_id.as_deref()) => stream?,
                    _interrupted = interrupted.recv() => return Ok(()),
                };
                continue;
            };
            if !event.id.is_empty() {
                last_id = Some(event.id);
            }
            let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
            match (console.format(), event.event.as_str()) {
                (Format::Json, kind) => console.json_line(&json!({ "event": kind, "data": data }))?,
                (Format::People, "output") => {
                    let StreamedOutput { text, .. } = read(data.clone())?;
                    console.raw_out(text.unwrap_or_default().as_bytes())?;
                }
                (Format::People, _) => {}
            }
            if event.event == "end" {
                if console.format() == Format::People {
                    self.note_state(&read(data)?);
                }
                return Ok(());
            }
        }
    }

    async fn open(&self, session: &str, after: Option<&str>) -> Result<EventStream, Failure> {
        let query: Query = vec![("agentId", self.agent.to_string())];
        self.client
            .stream(&["v1", "process", session, "stream"], &query, after)
            .await
    }

    async fn reopen(&self, session: &str, after: Option<&str>) -> Result<EventStream, Failure> {
        let mut tries = 1;
        loop {
            match self.open(session, after).await {
                Err(failure) if failure.is_no_connection() && tries < TRIES => {
                    tries += 1;
                    sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    fn note_state(&self, session: &SessionBody) {
        let mut line = format!("{} is {}", session.session_id, session.status);
        line.extend(session.exit_code.map(|code| format!(", exit code {code}")));
        line.extend(
            session
                .exit_signal
                .as_ref()
                .map(|signal| format!(", killed by {signal}")),
        );
        if session.waiting_for_input {
            line.push_str(", and seems to wait for input");
        }
        self.context.console.note(&line);
    }
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("standard input cannot be read as UTF-8: {error}")))?;
    Ok(text)
}

/// A text in pieces of at most so many bytes, at least one, none of which cuts a character.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(most));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn runtime(millis: u64) -> String {
    let seconds = millis / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_cut_between_characters() {
        assert_eq!(pieces("", 4), [""]);
        assert_eq!(pieces("abcd", 4), ["abcd"]);
        assert_eq!(pieces("abc漢d", 4), ["abc", "漢d"]);
        let text = "ä漢x".repeat(1000);
        let parts = pieces(&text, 7);
        assert!(parts.iter().all(|part| part.len() <= 7 && !part.is_empty()));
        assert_eq!(parts.concat(), text);
    }

    #[test]
    fn runtimes_are_short() {
        assert_eq!(
            [900, 61_000, 3_725_000].map(runtime),
            ["0s", "1m01s", "1h02m"].map(str::to_owned)
        );
    }
}
