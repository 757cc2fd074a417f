//! What a program needs to be started, from its own head.

use std::{fs::File, os::unix::fs::FileExt as _};

use crate::loader::Needs;

/// The first bytes of a program of this machine's width and order.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";
/// With the kind of the file, which comes behind the magic.
const HEAD_BYTES: usize = 18;
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
    let [.., low, high] = head;
    let kind = u16::from_le_bytes([low, high]);
    if !head.starts_with(MAGIC) || !matches!(kind, PROGRAM | SHARED) {
        return None;
    }
    Some(Kind::Program(match Needs::of(file).ok()? {
        Needs::File(loader) => Some(loader),
        Needs::Nothing => None,
    }))
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
