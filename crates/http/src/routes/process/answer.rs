//! What the engine has of a session, as its object.

use countersign_domain::TerminalSize;
use countersign_engine::process::{LogPage, ProcessReply, Session};
use countersign_wire::process::{
    ProcessAnswer, ProcessEnd, ProcessInput, ProcessList, ProcessLog, ProcessPoll, SessionBody,
};

use crate::routes::exec;

pub(in crate::routes) fn session_body(session: Session) -> SessionBody {
    SessionBody {
        session_id: session.id,
        run_id: session.run_id,
        agent_id: session.agent,
        session_key: session.session,
        host: session.host.into(),
        status: session.status.into(),
        name: session.name,
        command: session.command,
        cwd: session.cwd,
        pid: session.pid,
        pty: session.pty,
        rows: session.terminal.map(TerminalSize::rows),
        cols: session.terminal.map(TerminalSize::cols),
        started_at_ms: session.started_at,
        ended_at_ms: session.ended_at,
        duration_ms: u64::try_from(session.duration.as_millis()).unwrap_or(u64::MAX),
        exit_code: session.exit_code,
        exit_signal: session.exit_signal,
        timed_out: session.timed_out,
        truncated: session.truncated,
        output_bytes: session.output_bytes,
        tail: session.tail,
        stdin_open: session.stdin_open,
        waiting_for_input: session.waiting_for_input,
    }
}

pub(in crate::routes) fn process_answer(reply: ProcessReply) -> ProcessAnswer {
    match reply {
        ProcessReply::List(sessions) => ProcessAnswer::List(ProcessList {
            items: sessions.into_iter().map(session_body).collect(),
        }),
        ProcessReply::Polled {
            session,
            stdout,
            stderr,
        } => ProcessAnswer::Poll(ProcessPoll {
            session: session_body(*session),
            stdout,
            stderr,
        }),
        ProcessReply::Logged { session, page } => {
            let LogPage {
                text,
                offset,
                lines,
                total_lines,
                total_chars,
                hint,
            } = page;
            ProcessAnswer::Log(ProcessLog {
                session: session_body(*session),
                text,
                offset,
                lines,
                total_lines,
                total_chars,
                hint,
            })
        }
        ProcessReply::Taken { session, warnings } => ProcessAnswer::Input(ProcessInput {
            session: session_body(*session),
            warnings: warnings.into_iter().map(exec::warning).collect(),
        }),
        ProcessReply::Session(session) => ProcessAnswer::Session(ProcessEnd {
            session: session_body(*session),
        }),
    }
}
