//! The command line at a pseudo-terminal: what it shows, and keys that are pressed there.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{Invocation, eventually, pid_of, within};

/// For so long a question that has come up by itself takes no answer, and a little longer.
const ANSWER_GUARD: Duration = Duration::from_millis(450);

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) text: String,
    /// Whether it is the other screen, which full-screen programs use.
    pub(crate) is_other: bool,
}

/// What was shown up to the picture that is being drawn, if one is.
fn whole_frames(shown: &[u8]) -> &[u8] {
    let last = |mark: &[u8]| shown.windows(mark.len()).rposition(|seen| seen == mark);
    match last(b"\x1b[?2026h") {
        Some(begins) if last(b"\x1b[?2026l").is_none_or(|ends| ends < begins) => &shown[..begins],
        _ => shown,
    }
}

/// A program at a terminal of its own. Dropping it ends both.
pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn start(invocation: Invocation) -> Self {
        let mut child = invocation.at_a_terminal().start_interactive();
        let keys = child.stdin.take();
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut piece) {
                into.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        });
        Self { child, keys, shown }
    }

    /// The process that made the terminal; the program is its child.
    pub(crate) fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    /// All that was shown so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// What stands on a screen of this size now.
    pub(crate) fn screen(&self, rows: u16, columns: u16) -> Screen {
        let size = |number: u16| std::num::NonZeroU16::new(number).expect("a size");
        let mut parser = vt100::Parser::new(size(rows), size(columns), 0);
        let shown = self.shown.lock().unwrap().clone();
        parser.process(whole_frames(&shown));
        Screen {
            text: parser.screen().contents(),
            is_other: parser.screen().alternate_screen(),
        }
    }

    /// Waits until a screen of 24 rows and 80 columns shows a text; returns all that stands there.
    #[track_caller]
    pub(crate) fn shows(&self, what: &str) -> impl Future<Output = String> {
        let look = move || std::future::ready(self.screen(24, 80).text);
        eventually(what, look, move |shown| shown.contains(what))
    }

    /// Waits until something stands on the screen, after what was there at `since`.
    #[track_caller]
    pub(crate) fn sees_after(&self, since: usize, what: &str) -> impl Future<Output = String> {
        let look = move || std::future::ready(self.text()[since..].to_owned());
        eventually(what, look, move |shown| shown.contains(what))
    }

    #[track_caller]
    pub(crate) fn sees(&self, what: &str) -> impl Future<Output = String> {
        self.sees_after(0, what)
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let keyboard = self.keys.as_mut().expect("a keyboard");
        keyboard
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
        keyboard.flush().expect("the terminal takes keys");
    }

    /// The same where the program may end just now.
    pub(crate) fn press_if_open(&mut self, keys: &str) {
        if let Some(keyboard) = &mut self.keys {
            drop(keyboard.write_all(keys.as_bytes()));
        }
    }

    /// Presses a key once, as soon as what is on the screen takes an answer, and waits until it shows.
    pub(crate) async fn answer(&mut self, key: &str, what: &str) {
        let since = self.text().len();
        // What comes up takes no answer at first. It came up before it was on the screen.
        tokio::time::sleep(ANSWER_GUARD).await;
        self.press(key);
        self.sees_after(since, what).await;
    }

    /// Presses a key again until it shows: a question that has just come up takes none yet, and a program may end of the
    /// last one before it has shown.
    pub(crate) async fn press_until(&mut self, key: &str, what: &str) {
        let since = self.text().len();
        within(what, async {
            let mut pause = tokio::time::interval(Duration::from_millis(250));
            while !self.text()[since..].contains(what) {
                pause.tick().await;
                self.press_if_open(key);
            }
        })
        .await;
    }

    /// The exit code, once it has ended.
    #[expect(clippy::option_option, reason = "whether it ended, and how")]
    pub(crate) fn try_end(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().expect("its state")?;
        Some(status.code())
    }

    /// Waits for its end; returns the exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let text = Arc::clone(&self.shown);
        let mut end = None;
        eventually(
            "the end of the program",
            || {
                end = self.try_end();
                let shown = String::from_utf8_lossy(&text.lock().unwrap()).into_owned();
                std::future::ready((end, shown))
            },
            |(end, _)| end.is_some(),
        )
        .await
        .0
        .flatten()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
