//! The first line of a script, as the kernel reads it.

/// As much of a file as the kernel looks at.
pub const HEAD_BYTES: usize = 256;

/// What the beginning of an executable file says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A program of the machine.
    Program,
    /// `#!` with what follows, where that can be followed: an absolute path and at most one argument.
    Script(Option<Hashbang>),
    /// Nothing that the kernel starts by itself.
    Other,
}

/// The program that a `#!` line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashbang {
    /// Absolute path as the line names it; it need not exist.
    pub interpreter: String,
    /// All the rest of the line is one argument.
    pub argument: Option<String>,
}

impl Head {
    /// Reads the first [`HEAD_BYTES`] bytes of a file, or all of a shorter one.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"\x7fELF") {
            return Self::Program;
        }
        let Some(rest) = bytes.strip_prefix(b"#!") else {
            return Self::Other;
        };
        let is_whole = bytes.len() < HEAD_BYTES;
        let line = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => rest.get(..end),
            None => Some(rest).filter(|_| is_whole),
        };
        Self::Script(line.and_then(parse))
    }
}

fn parse(line: &[u8]) -> Option<Hashbang> {
    let line = std::str::from_utf8(line).ok()?;
    let blanks = [' ', '\t'];
    let line = line.trim_matches(blanks);
    if line.contains('\0') || !line.starts_with('/') {
        return None;
    }
    let (interpreter, argument) = match line.split_once(blanks) {
        Some((interpreter, argument)) => (interpreter, Some(argument.trim_start_matches(blanks))),
        None => (line, None),
    };
    Some(Hashbang {
        interpreter: interpreter.to_owned(),
        argument: argument.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read_as_the_kernel_reads_it() {
        let script = |interpreter: &str, argument: Option<&str>| {
            Head::Script(Some(Hashbang {
                interpreter: interpreter.to_owned(),
                argument: argument.map(str::to_owned),
            }))
        };
        let long = format!("#!/bin/sh {}", "x".repeat(HEAD_BYTES));
        for (bytes, expected) in [
            ("\x7fELF\x02", Head::Program),
            ("", Head::Other),
            ("echo no", Head::Other),
            ("#!/bin/sh\nexit", script("/bin/sh", None)),
            ("#!/bin/sh", script("/bin/sh", None)),
            (
                "#! \t/usr/bin/env \t-S  python3 -x \t\nno",
                script("/usr/bin/env", Some("-S  python3 -x")),
            ),
            ("#!/bin/sh\r\n", script("/bin/sh\r", None)),
            // What we do not follow is left to the kernel.
            ("#!sh\n", Head::Script(None)),
            ("#!\n", Head::Script(None)),
            ("#!/bin/sh\0x\n", Head::Script(None)),
            (&long, Head::Script(None)),
        ] {
            assert_eq!(
                Head::of(bytes.as_bytes().get(..HEAD_BYTES).unwrap_or(bytes.as_bytes())),
                expected,
                "{bytes:?}"
            );
        }
    }
}
