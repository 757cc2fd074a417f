//! The other screen of the terminal, until it is dropped: however this ends, the terminal has back what it showed before.

use std::{
    fmt::Write as _,
    panic::{self, PanicHookInfo},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::picture::{Look, Row};
use crate::cli::{console::Console, failure::Failure};

/// The other screen, no cursor, and no row that goes on in the next: a character may be wider than it was counted.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l";

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The screen and what stands on it.
pub(super) struct AltScreen {
    console: Console,
    is_on: Arc<AtomicBool>,
    /// What a panic did before.
    hook: Arc<Hook>,
    rows: Vec<Row>,
    /// Whether the next picture stands on an empty screen.
    clears: bool,
}

impl AltScreen {
    /// Takes it. What a panic says stands on the screen that a person sees afterwards.
    pub(super) fn enter(console: Console) -> Result<Self, Failure> {
        let is_on = Arc::new(AtomicBool::new(true));
        let hook: Arc<Hook> = Arc::from(panic::take_hook());
        let (before, shown, own) = (Arc::clone(&hook), Arc::clone(&is_on), thread::current().id());
        panic::set_hook(Box::new(move |info| {
            // What ends another thread does not end this one.
            if thread::current().id() == own {
                leave(console, &shown);
            }
            before(info);
        }));
        let screen = Self {
            console,
            is_on,
            hook,
            rows: Vec::new(),
            clears: false,
        };
        screen.console.raw_out(ENTER)?;
        Ok(screen)
    }

    /// Shows these rows, and writes those that are not there yet.
    pub(super) fn show(&mut self, rows: Vec<Row>) -> Result<(), Failure> {
        let mut out = String::new();
        if std::mem::take(&mut self.clears) {
            out.push_str("\x1b[m\x1b[2J");
        }
        for (at, row) in rows.iter().enumerate() {
            if self.rows.get(at) != Some(row) {
                let Row { text, look } = row;
                let text = match look {
                    Look::Plain => text.clone(),
                    Look::Bar => format!("\x1b[7m{text}\x1b[m"),
                    Look::Focus => format!("\x1b[1m{text}\x1b[m"),
                    Look::Toned(tone) => self.console.paint(*tone, text),
                };
                write!(out, "\x1b[{};1H\x1b[m\x1b[2K{text}", at + 1)
                    .expect("writing to a String cannot fail");
            }
        }
        if self.rows.len() > rows.len() {
            write!(out, "\x1b[{};1H\x1b[J", rows.len() + 1).expect("writing to a String cannot fail");
        }
        self.rows = rows;
        if out.is_empty() {
            Ok(())
        } else {
            self.console.frame(&out)
        }
    }

    /// Shows all anew with the next picture: the terminal has another size, and did with the old picture what it does.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
        self.clears = true;
    }

    pub(super) fn ring(&self) -> Result<(), Failure> {
        self.console.raw_out(b"\x07")
    }
}

fn leave(console: Console, is_on: &AtomicBool) {
    if is_on.swap(false, Ordering::SeqCst) {
        drop(console.raw_out(LEAVE));
    }
}

impl Drop for AltScreen {
    fn drop(&mut self) {
        leave(self.console, &self.is_on);
        // Not during a panic, which needs it; the program ends then.
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}
