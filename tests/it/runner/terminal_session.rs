//! Somebody who sits at the terminal of a run: sees its screen and types.

use std::time::Duration;

use countersign_hosts::gateway::{RunControl, RunEvents, Supervised, SupervisorEvent};
use countersign_protocol::terminal::{CursorKeys, keys};

use crate::support::within;

use super::harness::Report;

pub(super) struct TerminalSession {
    events: RunEvents,
    pub(super) control: RunControl,
    pid: Option<i32>,
    seen: Vec<u8>,
    screen: vt100::Parser,
}

impl TerminalSession {
    pub(super) fn of(supervised: Supervised) -> Self {
        let Supervised { events, control } = supervised;
        let (rows, columns) = (30.try_into().unwrap(), 120.try_into().unwrap());
        Self {
            events,
            control,
            pid: None,
            seen: Vec::new(),
            screen: vt100::Parser::new(rows, columns, 0),
        }
    }

    /// The first process, once something was shown.
    pub(super) fn pid(&self) -> i32 {
        self.pid.expect("it runs")
    }

    /// Waits until the screen shows a text.
    pub(super) async fn until_text(&mut self, text: &str) {
        while !self.shows(text) {
            let event = within("the screen shows more", self.events.recv()).await;
            self.take(event);
        }
    }

    fn shows(&self, text: &str) -> bool {
        let contents = self.screen.screen().contents();
        // Blanks at the end of a line are not part of it.
        contents.contains(text) || contents.contains(text.trim_end())
    }

    /// Waits until the program wants the other codes of the arrows.
    pub(super) async fn until_application_keys(&mut self) {
        let wait = async {
            while self.control.cursor_keys() != CursorKeys::Application {
                // It comes with the reports and is none itself.
                tokio::select! {
                    event = self.events.recv() => self.take(event),
                    () = tokio::time::sleep(Duration::from_millis(2)) => {}
                }
            }
        };
        within("the program asks for them", wait).await;
    }

    fn take(&mut self, event: Option<SupervisorEvent>) {
        match event {
            Some(SupervisorEvent::Started { pid }) => self.pid = Some(pid),
            Some(SupervisorEvent::Output { bytes, .. }) => {
                self.screen.process(&bytes);
                self.seen.extend(bytes);
            }
            other => panic!(
                "{other:?} with this on the screen:\n{}",
                self.screen.screen().contents()
            ),
        }
    }

    pub(super) async fn type_text(&self, text: &str) {
        self.control.write_input(text.as_bytes()).await.unwrap();
    }

    /// Presses keys by their names, as the terminal wants them now.
    pub(super) async fn press(&self, names: &[&str]) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let typed = keys::encode(None, &[], &names, self.control.cursor_keys()).unwrap();
        assert_eq!(typed.warnings, Vec::<String>::new());
        self.control.write_input(&typed.bytes).await.unwrap();
    }

    /// Stays to the end; the report has everything that was seen.
    pub(super) async fn end(self) -> Report {
        let Self {
            events,
            control,
            pid,
            mut seen,
            screen: _,
        } = self;
        let mut report = Report::of(Supervised { events, control }).await;
        seen.append(&mut report.stdout);
        report.stdout = seen;
        report.pid = pid.or(report.pid);
        report
    }
}
