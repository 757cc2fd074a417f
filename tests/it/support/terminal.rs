//! The command line at a pseudo-terminal: what it shows, and keys that are pressed there.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{Invocation, eventually, pid_of, within};

/// A program at a terminal of its own. Dropping it ends both.
pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn start(invocation: Invocation) -> Self {
        let mut child = invocation.at_a_terminal().start_interactive();
        let keys = child.stdin.take();
        let mut stdout = child.stdout.take().expect("stdout is piped");
        let shown = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            let mut bytes = Vec::new();
            while let Ok(read @ 1..) = stdout.read(&mut piece) {
                bytes.extend_from_slice(&piece[..read]);
                *into.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
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
        self.shown.lock().unwrap().clone()
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
                std::future::ready((end, text.lock().unwrap().clone()))
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
