//! The pseudo-terminal of a run, from its supervisor's side.
//!
//! The supervisor holds the master until nothing of the run is left, since closing it would end the programs, and
//! the other side until the first process ended, so that a command that closes its output for a moment is not taken
//! for one that has ended. It answers what programs ask their terminal, whether a server listens or not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    pty::OpenptFlags,
    termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Winsize},
};

use countersign_domain::TerminalSize;
use countersign_protocol::terminal::{CursorKeys, Screen};

/// Most bytes of answers that wait to be read by the programs: those of a program that asks and never reads.
pub(super) const ANSWER_BYTES: usize = 1024;

/// A pseudo-terminal and the screen behind it.
#[derive(Debug)]
pub(super) struct Terminal {
    master: OwnedFd,
    /// `None` once the first process ended.
    programs: Option<OwnedFd>,
    screen: Screen,
    /// What the server knows.
    announced: CursorKeys,
}

impl Terminal {
    /// Opens one. Nothing is found by its path, so it does not matter what is mounted where.
    pub(super) fn open(size: TerminalSize) -> Result<Self, Errno> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let programs = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        let mut modes = rustix::termios::tcgetattr(&programs)?;
        // Erasing takes whole characters away.
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&programs, OptionalActions::Now, &modes)?;
        rustix::termios::tcsetwinsize(&master, window(size))?;
        Ok(Self {
            master,
            programs: Some(programs),
            screen: Screen::new(size),
            announced: CursorKeys::Normal,
        })
    }

    /// The side of the programs.
    pub(super) fn programs(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.programs.as_ref().map(AsFd::as_fd).ok_or(Errno::IO)
    }

    /// Where output is read and input is written, which does not block.
    pub(super) fn end(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.master, 3)
    }

    /// The first process ended: once the others have, the output ends.
    pub(super) fn let_go(&mut self) {
        self.programs = None;
    }

    /// Most bytes of output to take at a time.
    pub(super) fn portion(&self) -> usize {
        self.screen.portion()
    }

    /// Takes output, and returns what the terminal answers to it in at most `room` bytes.
    pub(super) fn draw(&mut self, output: &[u8], room: usize) -> Vec<u8> {
        self.screen.push(output, room)
    }

    /// Gives it another size. The programs in the foreground are told.
    pub(super) fn resize(&mut self, size: TerminalSize) {
        // It fails when no program has the terminal any more.
        rustix::termios::tcsetwinsize(&self.master, window(size)).unwrap_or(());
        self.screen.resize(size);
    }

    /// The character that ends the input, as long as the terminal reads line by line.
    pub(super) fn end_of_input(&self) -> Option<u8> {
        let modes = rustix::termios::tcgetattr(&self.master).ok()?;
        let character = modes.special_codes[SpecialCodeIndex::VEOF];
        (modes.local_modes.contains(LocalModes::ICANON) && character != 0).then_some(character)
    }

    /// Whether so many bytes that are typed now appear on the screen: it echoes, and nothing waits before them, so that they do
    /// not come to it later, when it may echo no more.
    pub(super) fn shows(&self, bytes: usize) -> bool {
        /// Bytes that a terminal keeps for its programs.
        const ROOM: u64 = 4096;
        let waiting = self.programs.as_ref().map(rustix::io::ioctl_fionread);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.echoes() && matches!(waiting, Some(Ok(waiting)) if waiting.saturating_add(bytes) < ROOM)
    }

    /// Whether what is typed appears on the screen.
    pub(super) fn echoes(&self) -> bool {
        rustix::termios::tcgetattr(&self.master)
            .is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO))
    }

    /// What the server is to be told about the arrows, once.
    pub(super) fn news(&mut self) -> Option<CursorKeys> {
        let now = self.screen.cursor_keys();
        (std::mem::replace(&mut self.announced, now) != now).then_some(now)
    }

    /// Another server has attached, which knows nothing.
    pub(super) const fn forget_announced_keys(&mut self) {
        self.announced = CursorKeys::Normal;
    }
}

fn window(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows(),
        ws_col: size.cols(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
