//! What the approver draws: the rows of the screen, of the state as it is. Pure.

use countersign_domain::{ApprovalDecision, UnixMillis};

use super::{
    board::{Board, Mode},
    layout::PINNED_ROWS,
    pane::Pane,
    state::{Asked, Screen, slug},
};
use crate::cli::{console::Tone, duration::clock_face, value};

/// How a row looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    /// The first and the last row.
    Bar,
    Toned(Tone),
    /// The question in focus.
    Focus,
}

/// One row of the screen; its text has nothing in it that a terminal obeys, and is no wider than the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) look: Look,
}

/// All rows of the screen, from the top.
pub(super) fn draw(board: &Board, is_offline: bool, now: UnixMillis) -> Vec<Row> {
    if !board.screen.is_large_enough() {
        let text = fitted("too small: enlarge the terminal, or q", board.screen);
        return vec![row(text, Look::Plain)];
    }
    let layout = board.layout();
    let mut rows = vec![row(title(board, is_offline), Look::Bar)];
    match &board.mode {
        Mode::Details(pane) => overlay(&mut rows, "all that is known", pane, layout.overlay),
        Mode::Help(pane) => overlay(&mut rows, "keys", pane, layout.overlay),
        Mode::Always(panel) => {
            let pinned = board.pane.window(PINNED_ROWS.min(board.pane.len()));
            rows.extend(pinned.map(|text| row(text.clone(), Look::Plain)));
            overlay(&mut rows, "allow always", &panel.pane, layout.overlay);
        }
        Mode::Reading | Mode::Filtering | Mode::Typing { .. } | Mode::TypingOn | Mode::Sending { .. } => {
            list(&mut rows, board, layout.list, now);
            card(&mut rows, board, layout.pane, now);
        }
    }
    rows.resize(
        board.screen.rows.saturating_sub(2).max(1),
        row(String::new(), Look::Plain),
    );
    rows.push(row(board.message.clone(), Look::Plain));
    rows.push(row(keys(board), Look::Bar));
    for row in &mut rows {
        row.text = fitted(&row.text, board.screen);
    }
    rows
}

fn row(text: String, look: Look) -> Row {
    Row { text, look }
}

fn title(board: &Board, is_offline: bool) -> String {
    let mut title = match board.waiting.len() {
        0 => "nothing waits for a person".to_owned(),
        1 => "1 question waits".to_owned(),
        many => format!("{many} questions wait"),
    };
    if is_offline {
        title = format!("offline, trying again … · {title}");
    }
    if !board.filter.is_empty() {
        let filter = value::visible(&board.filter);
        title = format!("{title} · {} match “{filter}”", board.listed().len());
    }
    if !board.chosen.is_empty() {
        title = format!("{title} · {} chosen", board.chosen.len());
    }
    if !board.rings {
        title.push_str(" · bell off");
    }
    title
}

/// The questions that wait, those around the one in focus.
fn list(rows: &mut Vec<Row>, board: &Board, height: usize, now: UnixMillis) {
    let listed = board.listed();
    let focus = board.focused().map(|asked| &asked.id);
    let at = listed.iter().position(|asked| Some(&asked.id) == focus);
    let first = at
        .unwrap_or_default()
        .saturating_sub(height / 2)
        .min(listed.len().saturating_sub(height));
    let agents = listed.iter().map(|asked| width_of(&value::visible(&asked.agent)));
    let agents = agents.max().unwrap_or_default().min(12);
    for asked in listed.iter().skip(first).take(height) {
        let is_focused = Some(&asked.id) == focus;
        let mark = if is_focused { '>' } else { ' ' };
        let chosen = if board.chosen.contains(&asked.id) {
            '*'
        } else {
            ' '
        };
        let agent = value::shortened(&value::visible(&asked.agent), agents);
        let pad = " ".repeat(agents.saturating_sub(width_of(&agent)));
        let left = clock_face(asked.expires_at.since(now));
        let line = value::visible(&asked.display.text);
        let text = format!("{mark}{chosen}{} {agent}{pad} {left:>6}  {line}", slug(&asked.id));
        rows.push(row(text, if is_focused { Look::Focus } else { Look::Plain }));
    }
    if listed.is_empty() {
        let what = if board.waiting.is_empty() {
            "What needs approval shows up here."
        } else {
            "No question matches the filter; Esc clears it."
        };
        rows.push(row(what.to_owned(), Look::Toned(Tone::Dim)));
    }
}

/// What the question in focus would run.
fn card(rows: &mut Vec<Row>, board: &Board, height: usize, now: UnixMillis) {
    let Some(asked) = board.focused() else {
        return;
    };
    let left = clock_face(asked.expires_at.since(now));
    let Asked {
        agent, host, status, ..
    } = asked;
    let heading = format!(
        "── {} asks on {} · {} · {left} left ──",
        value::visible(agent),
        value::visible(host),
        value::visible(status)
    );
    rows.push(row(heading, Look::Toned(Tone::Caution)));
    framed(rows, &board.pane, height, !board.is_read(&asked.id));
}

fn overlay(rows: &mut Vec<Row>, name: &str, pane: &Pane, height: usize) {
    rows.push(row(format!("── {name} ──"), Look::Toned(Tone::Caution)));
    framed(rows, pane, height, !pane.is_read());
}

/// The window of a text, and below it where that is.
fn framed(rows: &mut Vec<Row>, pane: &Pane, height: usize, is_unread: bool) {
    rows.extend(pane.window(height).map(|text| row(text.clone(), Look::Plain)));
    let (first, last) = pane.place(height);
    let of = pane.len();
    if of > height {
        let more = if is_unread {
            " · not all of it was on the screen: space reads on"
        } else {
            ""
        };
        let tone = if is_unread { Tone::Bad } else { Tone::Dim };
        rows.push(row(
            format!("── rows {first} to {last} of {of}{more} ──"),
            Look::Toned(tone),
        ));
    } else {
        rows.push(row("──".to_owned(), Look::Toned(Tone::Dim)));
    }
}

/// The last row: the keys that do something now.
fn keys(board: &Board) -> String {
    match &board.mode {
        Mode::Sending { .. } => "sending the answer …".to_owned(),
        Mode::TypingOn => "the question that you were denying is over · Enter or Esc goes on".to_owned(),
        Mode::Typing { reason, ids } => {
            let several = if ids.len() > 1 {
                format!(" {}", ids.len())
            } else {
                String::new()
            };
            typed(
                &format!("deny{several} · reason (Enter sends, Esc goes back): "),
                reason,
                board.screen,
            )
        }
        Mode::Filtering => typed(
            "filter (Enter keeps it, Esc clears it): ",
            &board.filter,
            board.screen,
        ),
        Mode::Details(_) | Mode::Help(_) => "space scrolls · Enter or Esc goes back".to_owned(),
        Mode::Always(panel) if panel.pane.is_read() => {
            "Enter stores it · j k choose · t time · u uses · s session · Esc goes back".to_owned()
        }
        Mode::Always(_) => "space reads on · j k choose · Esc goes back".to_owned(),
        Mode::Reading => reading_keys(board),
    }
}

fn reading_keys(board: &Board) -> String {
    let Some(asked) = board.focused() else {
        return "/ filter · b bell · ? keys · q quit".to_owned();
    };
    let is_read = board.is_read(&asked.id);
    let mut keys = Vec::new();
    if !is_read {
        keys.push("space reads on");
    }
    if is_read && asked.allows(ApprovalDecision::AllowOnce) {
        keys.push("a once");
    }
    if is_read && asked.allows(ApprovalDecision::AllowAlways) {
        keys.push("A always");
    }
    keys.push("d deny");
    if board.waiting.len() > 1 {
        keys.extend(["j k move", "x choose"]);
    }
    keys.extend(["Enter facts", "/ filter", "? keys", "q quit"]);
    // What `?` shows as well gives way on a narrow screen.
    for spare in ["x choose", "j k move", "/ filter", "Enter facts"] {
        if width_of(&keys.join(" · ")) > board.screen.columns {
            keys.retain(|key| *key != spare);
        }
    }
    keys.join(" · ")
}

/// What is typed, with its end in sight.
fn typed(lead: &str, text: &str, screen: Screen) -> String {
    let room = screen.columns.saturating_sub(width_of(lead) + 2);
    let mut tail: Vec<char> = value::visible(text).chars().collect();
    while tail
        .iter()
        .copied()
        .map(|c| width_of(c.encode_utf8(&mut [0; 4])))
        .sum::<usize>()
        > room
    {
        tail.remove(0);
    }
    format!("{lead}{}_", tail.into_iter().collect::<String>())
}

/// The columns of a text of ours, in which lines and dots are as wide as letters. What a person answers for is measured
/// with more care ([`Screen::rows_of`]).
fn width_of(text: &str) -> usize {
    let is_narrow = |character: char| {
        character.is_ascii()
            || matches!(
                character,
                '\u{a1}'..='\u{ff}' | '…' | '“' | '”' | '─' | '│' | '↓' | '↑'
            )
    };
    text.chars()
        .map(|character| if is_narrow(character) { 1 } else { 2 })
        .sum()
}

/// The text cut to the width of the screen.
fn fitted(text: &str, screen: Screen) -> String {
    if width_of(text) <= screen.columns {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for character in text.chars() {
        used += width_of(character.encode_utf8(&mut [0; 4]));
        if used > screen.columns {
            break;
        }
        cut.push(character);
    }
    cut.push('…');
    cut
}
