//! Whether the log beside the ledger (`countersign.db-wal`) is as a server left it.
//!
//! `SQLite` takes what is whole at the beginning of a log and passes over the rest without a word. If that rest was folded
//! into the ledger before, old pages lie over newer ones: the ledger contradicts itself, and may take one thing for another.
//! So a log that is not as it was left is a reason to look at the whole ledger once, before anything reads it.
//!
//! What is read here is the format of `SQLite` (`fileformat2.html#the_write_ahead_log` and `walformat.html`): a log has a
//! header and frames, each with a page and the salts of the header, and its index, which a killed server leaves behind, says
//! how many frames there were.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read as _},
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use countersign_sys::fs::create_private_file;

use super::error::OpenError;

/// The ending of the file that says that a ledger has to be looked at.
const MARK: &str = "-doubtful";

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The first copy of what the index says of the log.
const INDEX_BYTES: usize = 48;
/// The last bit says in which order checksums read bytes.
const MAGIC: u32 = 0x377f_0682;
/// The largest page.
const MOST_PAGE_BYTES: u32 = 65_536;

/// Looks at all of a ledger whose log is less, or something else, than what was left, and says what contradicts itself.
/// `open` opens the ledger. That makes the index anew, so a mark keeps the doubt until the ledger is found to be sound.
///
/// # Errors
/// What opening says, or the mark.
pub(super) fn open_sound(
    ledger: &Path,
    open: impl FnOnce() -> Result<Connection, OpenError>,
) -> Result<Connection, OpenError> {
    let mark = beside(ledger, MARK);
    if !is_doubtful(ledger) && !mark.exists() {
        return open();
    }
    let failed = |source| OpenError::File {
        path: mark.clone(),
        source,
    };
    match create_private_file(&mark, b"") {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    tracing::error!("the log of the ledger is not as a server left it; all of the ledger is looked at");
    let opened = open()?;
    if let Some(what) = contradiction(&opened) {
        let path = ledger.to_owned();
        return Err(OpenError::Damaged { path, what });
    }
    fs::remove_file(&mark).map_err(failed)?;
    Ok(opened)
}

/// Whether a log is less, or something else, than what was left. A log that cannot be read is for the opening to
/// complain about.
fn is_doubtful(ledger: &Path) -> bool {
    let index = read_index(&beside(ledger, "-shm")).ok().flatten();
    match read_log(&beside(ledger, "-wal")) {
        Ok(log) => log.is_doubtful(index),
        Err(_) => false,
    }
}

/// What contradicts itself in a ledger; `None` where nothing does. Reads all of it.
fn contradiction(connection: &Connection) -> Option<String> {
    let found = connection.query_row("PRAGMA integrity_check(1)", (), |row| row.get::<_, String>(0));
    match found {
        Ok(found) if found == "ok" => None,
        Ok(found) => Some(found),
        Err(error) => Some(error.to_string()),
    }
}

fn beside(ledger: &Path, ending: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// What the index of a log says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Index {
    frames: u32,
    salts: [u8; 8],
}

/// What is left of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// There is none, or nothing in it.
    None,
    /// It does not begin as a log.
    Garbled,
    /// It has so many whole frames.
    Frames {
        whole: u32,
        salts: [u8; 8],
        /// A frame of the same log lies behind one that is not whole.
        has_hole: bool,
    },
}

impl Log {
    fn is_doubtful(self, index: Option<Index>) -> bool {
        match (self, index) {
            (Self::Garbled, _) => true,
            (Self::None, index) => index.is_some_and(|index| index.frames > 0),
            (Self::Frames { has_hole, .. }, None) => has_hole,
            (
                Self::Frames {
                    whole,
                    salts,
                    has_hole,
                },
                Some(index),
            ) => has_hole || (salts == index.salts && whole < index.frames),
        }
    }
}

fn read_index(path: &Path) -> io::Result<Option<Index>> {
    let mut bytes = [0; INDEX_BYTES];
    File::open(path)?.read_exact(&mut bytes)?;
    let is_initialised = bytes.get(12).is_some_and(|flag| *flag != 0);
    let frames = bytes.get(16..).and_then(|rest| rest.first_chunk::<4>());
    let salts = bytes.get(32..).and_then(|rest| rest.first_chunk::<8>());
    Ok(match (is_initialised, frames, salts) {
        (true, Some(frames), Some(salts)) => Some(Index {
            // It is memory of this machine.
            frames: u32::from_ne_bytes(*frames),
            salts: *salts,
        }),
        (true | false, _, _) => None,
    })
}

fn read_log(path: &Path) -> io::Result<Log> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Log::None),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER_BYTES];
    let read = read_up_to(&mut file, &mut header)?;
    if read == 0 {
        return Ok(Log::None);
    }
    let word = |at: usize| {
        let bytes = header.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    };
    let is_big_endian = word(0) & 1 == 1;
    let mut sum = Sum {
        is_big_endian,
        ..Sum::default()
    };
    sum.add(header.get(..24).unwrap_or_default());
    let page_bytes = word(8);
    let is_log = read == HEADER_BYTES
        && word(0) & !1 == MAGIC
        && page_bytes.is_power_of_two()
        && (512..=MOST_PAGE_BYTES).contains(&page_bytes)
        && sum.is(word(24), word(28));
    let salts = header.get(16..).and_then(|rest| rest.first_chunk::<8>()).copied();
    let (true, Some(salts), Ok(page_bytes)) = (is_log, salts, usize::try_from(page_bytes)) else {
        return Ok(Log::Garbled);
    };
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut whole = 0;
    let mut has_hole = false;
    let mut is_torn = false;
    while read_up_to(&mut file, &mut frame)? == frame.len() {
        let is_of_this_log = frame.get(8..16) == Some(&salts);
        if is_torn {
            has_hole = is_of_this_log;
            break;
        }
        let mut next = sum;
        next.add(frame.get(..8).unwrap_or_default());
        next.add(frame.get(FRAME_HEADER_BYTES..).unwrap_or_default());
        let sums = frame.get(16..).and_then(|rest| rest.first_chunk::<8>());
        if is_of_this_log && sums.is_some_and(|sums| next.is_bytes(*sums)) {
            (whole, sum) = (whole + 1, next);
        } else {
            // The last one may be half written, or of an earlier log.
            is_torn = true;
        }
    }
    Ok(Log::Frames {
        whole,
        salts,
        has_hole,
    })
}

/// Fills a buffer as far as there is something.
fn read_up_to(from: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The checksum of a log, over all of it so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    first: u32,
    second: u32,
    is_big_endian: bool,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, _none) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs {
            let (first, second) = ([*a, *b, *c, *d], [*e, *f, *g, *h]);
            let (first, second) = if self.is_big_endian {
                (u32::from_be_bytes(first), u32::from_be_bytes(second))
            } else {
                (u32::from_le_bytes(first), u32::from_le_bytes(second))
            };
            self.first = self.first.wrapping_add(first).wrapping_add(self.second);
            self.second = self.second.wrapping_add(second).wrapping_add(self.first);
        }
    }

    const fn is(&self, first: u32, second: u32) -> bool {
        self.first == first && self.second == second
    }

    fn is_bytes(&self, bytes: [u8; 8]) -> bool {
        let expected = [self.first.to_be_bytes(), self.second.to_be_bytes()];
        expected.as_flattened() == bytes.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn put(path: &Path, bytes: &[u8]) {
        File::create(path).unwrap().write_all(bytes).unwrap();
    }

    /// A ledger that a killed process left: some rows, and their log with its index.
    fn left(folder: &Path) -> PathBuf {
        let live = folder.join("live.db");
        let connection = Connection::open(&live).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT); CREATE INDEX i ON t (s);",
            )
            .unwrap();
        for number in 0..50 {
            let text = "x".repeat(500 + number);
            connection
                .execute("INSERT INTO t (s) VALUES (?1)", (text,))
                .unwrap();
        }
        let dead = folder.join("dead.db");
        for ending in ["", "-wal", "-shm"] {
            fs::copy(beside(&live, ending), beside(&dead, ending)).unwrap();
        }
        dead
    }

    #[test]
    fn what_a_killed_server_leaves_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = left(folder.path());
        let Log::Frames { whole, has_hole, .. } = read_log(&beside(&ledger, "-wal")).unwrap() else {
            panic!("a log");
        };
        assert!(whole > 50 && !has_hole, "{whole}");
        assert_eq!(
            read_index(&beside(&ledger, "-shm")).unwrap().unwrap().frames,
            whole
        );
        assert!(!is_doubtful(&ledger));
        fs::remove_file(beside(&ledger, "-shm")).unwrap();
        assert!(!is_doubtful(&ledger));
        assert_eq!(contradiction(&Connection::open(&ledger).unwrap()), None);
        assert!(!is_doubtful(&folder.path().join("none.db")));
    }

    #[test]
    fn a_log_that_was_cut_changed_or_deleted_is_doubtful() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 6] = [
            ("a bit of a page", |log| {
                let middle = log.len() / 2;
                log[middle] ^= 1;
            }),
            ("the salts of a frame", |log| {
                log[HEADER_BYTES + 10 * (FRAME_HEADER_BYTES + 4096) + 9] ^= 1;
            }),
            ("the header", |log| log[17] ^= 1),
            ("half of it", |log| log.truncate(log.len() / 2)),
            ("its last frame", |log| log.truncate(log.len() - 4120)),
            ("everything", Vec::clear),
        ];
        for (what, change) in changes {
            let folder = tempfile::tempdir().unwrap();
            let ledger = left(folder.path());
            let path = beside(&ledger, "-wal");
            let mut log = fs::read(&path).unwrap();
            change(&mut log);
            put(&path, &log);
            assert!(is_doubtful(&ledger), "{what}");
            fs::remove_file(&path).unwrap();
            assert!(is_doubtful(&ledger), "{what}, then deleted");
        }
    }

    /// A frame that was half written when the process was killed, and frames of an earlier log behind the last one.
    #[test]
    fn what_a_crash_may_leave_at_the_end_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = left(folder.path());
        let path = beside(&ledger, "-wal");
        let log = fs::read(&path).unwrap();
        let frame = log[log.len() - 4120..].to_vec();
        for salts in [&frame[8..16], &[7; 8][..]] {
            let mut longer = log.clone();
            let mut torn = frame.clone();
            torn[8..16].copy_from_slice(salts);
            torn[100] ^= 1;
            longer.extend(torn);
            put(&path, &longer);
            assert!(!is_doubtful(&ledger));
        }
    }

    fn open(ledger: &Path) -> Result<Connection, OpenError> {
        open_sound(ledger, || Ok(Connection::open(ledger).unwrap()))
    }

    /// Also at the next start, when the log is gone.
    #[test]
    fn a_ledger_with_old_pages_over_newer_ones_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("live.db");
        let connection = Connection::open(&ledger).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; \
                 CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT); CREATE INDEX i ON t (s);",
            )
            .unwrap();
        let insert = |first: &str| {
            let text = format!("{first}{}", "x".repeat(300));
            connection
                .execute("INSERT INTO t (s) VALUES (?1)", (text,))
                .unwrap();
        };
        let fold = |mode: &str| {
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            connection.query_row(&sql, (), |_| Ok(())).unwrap();
        };
        (0..500).for_each(|number| insert(&format!("m{number:03}")));
        fold("TRUNCATE");
        (0..50).for_each(|_| insert("a"));
        (0..50).for_each(|_| insert("z"));
        // All of the log is in the ledger, and still there.
        fold("PASSIVE");
        let dead = folder.path().join("dead.db");
        for ending in ["", "-wal", "-shm"] {
            fs::copy(beside(&ledger, ending), beside(&dead, ending)).unwrap();
        }
        let sound = fs::read(&dead).unwrap();
        let log = fs::read(beside(&dead, "-wal")).unwrap();
        put(&beside(&dead, "-wal"), &log[..log.len() / 2]);
        for _start in 0..2 {
            let refused = open(&dead).map(drop).unwrap_err();
            assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
        }
        for ending in ["-wal", "-shm"] {
            drop(fs::remove_file(beside(&dead, ending)));
        }
        put(&dead, &sound);
        drop(open(&dead).unwrap());
        assert!(!beside(&dead, MARK).exists());
    }
}
