//! Which other files the kernel opens to execute one: its loader, or the interpreter that its first line names.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use countersign_policy::command::hashbang::{HEAD_BYTES, Head};

/// As long as any path that the kernel takes.
const MAX_PATH_BYTES: u64 = 4096;
/// More entries than any linker writes.
const MAX_ENTRIES: u16 = 128;

/// The usual loaders of this machine's programs, for files that cannot be read and for directories, whose files nobody
/// reads beforehand.
#[cfg(target_arch = "x86_64")]
pub(crate) const USUAL: &[&str] = &["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"];
/// The usual loaders of this machine's programs, for files that cannot be read and for directories, whose files nobody
/// reads beforehand.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const USUAL: &[&str] = &["/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"];

/// What a file needs besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: a program that loads itself, and what the kernel does not execute.
    Nothing,
    /// The file at this path, as it names it.
    File(String),
}

impl Needs {
    /// Reads what a file says of it.
    ///
    /// # Errors
    /// What reading says; `InvalidData` for a program that contradicts itself.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        let length = read_at(file, &mut head, 0)?;
        let head = head.get(..length).unwrap_or_default();
        match Head::of(head) {
            Head::Script(Some(line)) => Ok(Self::File(line.interpreter)),
            Head::Script(None) | Head::Other => Ok(Self::Nothing),
            Head::Program => of_program(file, head),
        }
    }
}

/// The loader that a program names (`PT_INTERP`).
fn of_program(file: &File, head: &[u8]) -> io::Result<Needs> {
    const LOADER: u32 = 3;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let header = Header::of(head).ok_or_else(invalid)?;
    for index in 0..header.entries.min(MAX_ENTRIES) {
        let mut entry = [0; 56];
        let at = header
            .table
            .saturating_add(u64::from(index) * u64::from(header.entry_bytes));
        // A narrow entry has fewer bytes, and all of them are there.
        let length = read_at(file, &mut entry, at)?;
        if length < usize::from(header.entry_bytes).min(entry.len()) {
            return Err(invalid());
        }
        let entry = Fields {
            bytes: entry.get(..length).unwrap_or_default(),
            is_little: header.is_little,
        };
        if entry.number(0, 4) != Some(u64::from(LOADER)) {
            continue;
        }
        let (offset, size) = if header.is_wide {
            (entry.number(8, 8), entry.number(32, 8))
        } else {
            (entry.number(4, 4), entry.number(16, 4))
        };
        let (offset, size) = (offset.ok_or_else(invalid)?, size.ok_or_else(invalid)?);
        if size > MAX_PATH_BYTES {
            return Err(invalid());
        }
        let mut path = vec![0; usize::try_from(size).map_err(|_too_long| invalid())?];
        file.read_exact_at(&mut path, offset)?;
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        path.truncate(end);
        return String::from_utf8(path)
            .map(Needs::File)
            .map_err(|_not_text| invalid());
    }
    Ok(Needs::Nothing)
}

/// Where a program says what it is made of.
struct Header {
    is_wide: bool,
    is_little: bool,
    table: u64,
    entry_bytes: u16,
    entries: u16,
}

impl Header {
    fn of(head: &[u8]) -> Option<Self> {
        let is_wide = *head.get(4)? == 2;
        let is_little = *head.get(5)? == 1;
        let fields = Fields {
            bytes: head,
            is_little,
        };
        let (table, sizes) = if is_wide {
            (fields.number(32, 8)?, 54)
        } else {
            (fields.number(28, 4)?, 42)
        };
        Some(Self {
            is_wide,
            is_little,
            table,
            entry_bytes: u16::try_from(fields.number(sizes, 2)?).ok()?,
            entries: u16::try_from(fields.number(sizes + 2, 2)?).ok()?,
        })
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl Fields<'_> {
    fn number(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at + size)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_little {
            bytes.iter().rev().fold(0, join)
        } else {
            bytes.iter().fold(0, join)
        })
    }
}

/// As much as there is.
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = into.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let offset = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn of(bytes: &[u8]) -> io::Result<Needs> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Needs::of(&file)
    }

    #[test]
    fn what_a_file_needs_is_what_the_kernel_opens() {
        assert_eq!(of(b"#!/bin/sh -e\n").unwrap(), Needs::File("/bin/sh".to_owned()));
        assert_eq!(of(b"").unwrap(), Needs::Nothing);
        assert_eq!(of(b"echo\n").unwrap(), Needs::Nothing);
        let shell = Needs::of(&File::open("/bin/sh").unwrap()).unwrap();
        let Needs::File(loader) = shell else {
            panic!("a shell without a loader");
        };
        assert!(loader.starts_with("/lib"), "{loader}");
        assert_eq!(Needs::of(&File::open(loader).unwrap()).unwrap(), Needs::Nothing);
    }

    #[test]
    fn a_program_that_is_cut_is_no_reason_to_panic() {
        let whole = std::fs::read("/bin/sh").unwrap();
        for length in 4..512 {
            drop(of(&whole[..length]));
        }
        for at in 4..64 {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            drop(of(&damaged));
        }
    }
}
