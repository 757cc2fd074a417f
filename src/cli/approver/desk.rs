//! Where the person sits: lines that follow each other, or the full screen. Both take the same news and give the same deeds.

use countersign_domain::UnixMillis;
use countersign_sys::hooks;
use countersign_wire::event::ApprovalEvent;

use super::{
    board::Board,
    picture,
    screen::AltScreen,
    show_card, show_page,
    state::{ApproverState, Asked, Deed, Screen},
    terminal::Terminal,
};
use crate::cli::{console::Console, context::Context, failure::Failure};

/// What shows questions and takes keys.
pub(super) trait Desk: Send + Sync {
    /// Puts the list of what is pending in the place of what was known.
    fn reload(&mut self, pending: Vec<Asked>, now: UnixMillis) -> Vec<Deed>;
    fn asked(&mut self, asked: Asked, now: UnixMillis) -> Vec<Deed>;
    /// A question that was looked at again.
    fn looked_at(&mut self, asked: Asked);
    fn voted(&mut self, event: &ApprovalEvent, asked: Option<Asked>) -> Vec<Deed>;
    fn resolved(&mut self, event: &ApprovalEvent, now: UnixMillis) -> Vec<Deed>;
    fn answered(&mut self, id: &str, what: String, is_over: bool, now: UnixMillis) -> Vec<Deed>;
    fn tick(&mut self, now: UnixMillis) -> Vec<Deed>;
    fn keys(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed>;
    fn resized(&mut self, screen: Screen) -> Result<Vec<Deed>, Failure>;
    /// Whether only people of some groups may answer a question.
    fn is_for_groups(&self, id: &str) -> bool;
    fn say(&mut self, text: &str) -> Result<(), Failure>;
    /// Says how a run went, with what was said of the answer that let it start.
    fn ended(&mut self, answer: &str, ended: &str) -> Result<(), Failure>;
    /// What only the desk can do.
    fn perform(&mut self, deed: Deed, context: &Context, terminal: &Terminal) -> Result<(), Failure>;
    /// Shows the present state.
    fn show(&mut self, is_offline: bool, terminal: &Terminal, now: UnixMillis) -> Result<(), Failure>;
    /// The person leaves.
    fn leave(&mut self);
}

/// Lines that follow each other, the last of which says what waits.
pub(super) struct Lines {
    pub(super) state: ApproverState,
    pub(super) console: Console,
}

impl Desk for Lines {
    fn reload(&mut self, pending: Vec<Asked>, now: UnixMillis) -> Vec<Deed> {
        self.state.reload(pending, now)
    }

    fn asked(&mut self, asked: Asked, now: UnixMillis) -> Vec<Deed> {
        self.state.asked(asked, now)
    }

    fn looked_at(&mut self, _asked: Asked) {}

    fn voted(&mut self, event: &ApprovalEvent, asked: Option<Asked>) -> Vec<Deed> {
        self.state.voted(event, asked)
    }

    fn resolved(&mut self, event: &ApprovalEvent, now: UnixMillis) -> Vec<Deed> {
        self.state.resolved(event, now)
    }

    fn answered(&mut self, id: &str, what: String, is_over: bool, now: UnixMillis) -> Vec<Deed> {
        self.state.answered(id, what, is_over, now)
    }

    fn tick(&mut self, now: UnixMillis) -> Vec<Deed> {
        self.state.tick(now)
    }

    fn keys(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed> {
        self.state.keys(keys, now)
    }

    fn resized(&mut self, screen: Screen) -> Result<Vec<Deed>, Failure> {
        Ok(self.state.resized(screen))
    }

    fn is_for_groups(&self, id: &str) -> bool {
        let front = self.state.front().filter(|front| front.id == id);
        front.is_some_and(|front| front.is_for_groups)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.console.end_progress();
        self.console.line(text)
    }

    fn ended(&mut self, answer: &str, ended: &str) -> Result<(), Failure> {
        self.say(&format!("{answer}, {ended}"))
    }

    fn perform(&mut self, deed: Deed, context: &Context, terminal: &Terminal) -> Result<(), Failure> {
        match deed {
            Deed::Card => {
                terminal.forget_typed();
                show_card(context, &self.state)
            }
            Deed::Page { number, of, text } => show_page(context, number, of, &text),
            Deed::Say(text) => self.say(&text),
            Deed::Forget | Deed::Bell | Deed::LookAt(_) | Deed::Send(_) | Deed::Quit => Ok(()),
        }
    }

    fn show(&mut self, is_offline: bool, terminal: &Terminal, now: UnixMillis) -> Result<(), Failure> {
        let mut status = self.state.status(now);
        if is_offline {
            status = format!("offline, trying again … · {status}");
        }
        // A line that wraps could not be replaced.
        let line: String = status
            .chars()
            .take(terminal.screen().columns.saturating_sub(1))
            .collect();
        self.console.progress(&line);
        Ok(())
    }

    fn leave(&mut self) {
        self.console.end_progress();
    }
}

/// The full screen.
pub(super) struct FullScreen {
    pub(super) board: Board,
    pub(super) screen: AltScreen,
}

impl Desk for FullScreen {
    fn reload(&mut self, pending: Vec<Asked>, now: UnixMillis) -> Vec<Deed> {
        self.board.reload(pending, now)
    }

    fn asked(&mut self, asked: Asked, now: UnixMillis) -> Vec<Deed> {
        self.board.asked(asked, now)
    }

    fn looked_at(&mut self, asked: Asked) {
        self.board.looked_at(asked);
    }

    fn voted(&mut self, event: &ApprovalEvent, asked: Option<Asked>) -> Vec<Deed> {
        self.board.voted(event, asked);
        Vec::new()
    }

    fn resolved(&mut self, event: &ApprovalEvent, now: UnixMillis) -> Vec<Deed> {
        self.board.resolved(event, now)
    }

    fn answered(&mut self, id: &str, what: String, is_over: bool, now: UnixMillis) -> Vec<Deed> {
        self.board.answered(id, what, is_over, now)
    }

    fn tick(&mut self, now: UnixMillis) -> Vec<Deed> {
        self.board.tick(now)
    }

    fn keys(&mut self, keys: &str, now: UnixMillis) -> Vec<Deed> {
        self.board.keys(keys, now)
    }

    fn resized(&mut self, screen: Screen) -> Result<Vec<Deed>, Failure> {
        self.board.resized(screen);
        self.screen.forget();
        Ok(Vec::new())
    }

    fn is_for_groups(&self, id: &str) -> bool {
        self.board.find(id).is_some_and(|asked| asked.is_for_groups)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.board.say(text);
        Ok(())
    }

    fn ended(&mut self, answer: &str, ended: &str) -> Result<(), Failure> {
        self.board.ended(answer, ended);
        Ok(())
    }

    fn perform(&mut self, deed: Deed, _context: &Context, terminal: &Terminal) -> Result<(), Failure> {
        match deed {
            Deed::Forget => {
                terminal.forget_typed();
                Ok(())
            }
            Deed::Bell => self.screen.ring(),
            Deed::Say(text) => self.say(&text),
            Deed::Card | Deed::Page { .. } | Deed::LookAt(_) | Deed::Send(_) | Deed::Quit => Ok(()),
        }
    }

    fn show(&mut self, is_offline: bool, _terminal: &Terminal, now: UnixMillis) -> Result<(), Failure> {
        self.screen.show(picture::draw(&self.board, is_offline, now))?;
        self.board.painted();
        hooks::panic_at("approver.shown");
        // What it says below of reading and answering follows from what is on the screen now.
        self.screen.show(picture::draw(&self.board, is_offline, now))
    }

    fn leave(&mut self) {}
}
