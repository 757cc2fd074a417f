//! What a program needs to be started, from its own head.

use std::{fs::File, os::unix::fs::FileExt as _};

/// Bytes of the head of a 64-bit file.
const HEAD_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// More than any program has.
const MAX_SEGMENTS: usize = 128;
const LOADER: u32 = 3;
/// Longest path of a loader.
const MAX_PATH_BYTES: u64 = 4096;
const PROGRAM: u16 = 2;
const SHARED: u16 = 3;

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A program or a library of the machine, and the loader that it names.
    Program(Option<String>),
    /// Anything else.
    Other,
}

/// Reads the head of a file. What cannot be read is something else.
pub fn kind_of(file: &File) -> Kind {
    read(file).unwrap_or(Kind::Other)
}

fn read(file: &File) -> Option<Kind> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, 0).ok()?;
    let is_known = head.starts_with(b"\x7fELF\x02\x01");
    if !is_known || !matches!(number16(&head, 16)?, PROGRAM | SHARED) {
        return None;
    }
    let (at, size, count) = (number64(&head, 32)?, number16(&head, 54)?, number16(&head, 56)?);
    if usize::from(size) != SEGMENT_BYTES || usize::from(count) > MAX_SEGMENTS {
        return None;
    }
    for index in 0..u64::from(count) {
        let mut segment = [0; SEGMENT_BYTES];
        let place = at.checked_add(index.checked_mul(u64::from(size))?)?;
        file.read_exact_at(&mut segment, place).ok()?;
        if number32(&segment, 0)? == LOADER {
            let (from, length) = (number64(&segment, 8)?, number64(&segment, 32)?);
            if length > MAX_PATH_BYTES {
                return None;
            }
            let mut path = vec![0; usize::try_from(length).ok()?];
            file.read_exact_at(&mut path, from).ok()?;
            while path.last() == Some(&0) {
                path.pop();
            }
            return Some(Kind::Program(Some(String::from_utf8(path).ok()?)));
        }
    }
    Some(Kind::Program(None))
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::{Kind, kind_of};

    #[test]
    fn a_program_names_its_loader_and_a_text_is_none() {
        let own = File::open("/proc/self/exe").unwrap();
        assert!(matches!(kind_of(&own), Kind::Program(Some(loader)) if loader.starts_with('/')));
        let mut text = tempfile::tempfile().unwrap();
        text.write_all(b"#!/bin/sh\n").unwrap();
        assert_eq!(kind_of(&text), Kind::Other);
        for cut in [4, 20, 63, 64, 100] {
            let mut head = vec![0; cut];
            std::os::unix::fs::FileExt::read_exact_at(&own, &mut head, 0).unwrap();
            let mut short = tempfile::tempfile().unwrap();
            short.write_all(&head).unwrap();
            assert_eq!(kind_of(&short), Kind::Other, "{cut}");
        }
    }
}
