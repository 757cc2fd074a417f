//! Python: `$` is nothing outside of strings and comments, so any there is from somewhere else.

use super::{Leftover, LeftoverKind, Lines, shown, variable_name};

/// What surrounds a place, innermost last; code without anything around it is the empty stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    Text(Quoted),
    /// A replacement field of an f-string, with so many brackets open.
    Field {
        depth: usize,
    },
    /// What follows the colon of a field: text but for further fields.
    Format,
}

/// How a string is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quoted {
    quote: u8,
    is_triple: bool,
    is_formatted: bool,
}

/// The first variable of a shell.
pub(super) fn check(text: &[u8]) -> Option<Leftover> {
    let mut around: Vec<Around> = Vec::new();
    let mut lines = Lines::new(text);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match around.last().copied() {
            Some(Around::Text(quoted)) => in_text(rest, quoted, &mut around),
            Some(Around::Format) => in_format(rest, &mut around),
            Some(Around::Field { depth }) => in_field(rest, depth, text, at, &mut around),
            None => {
                if let Some(name) = rest.strip_prefix(b"$").and_then(braced_or_plain) {
                    return Some(Leftover {
                        line: lines.of(at),
                        kind: LeftoverKind::Variable(shown(name)),
                    });
                }
                in_code(rest, text, at, &mut around)
            }
        };
    }
    None
}

fn braced_or_plain(text: &[u8]) -> Option<&[u8]> {
    variable_name(text.strip_prefix(b"{").unwrap_or(text))
}

/// Each of these returns how many bytes it took.
fn in_code(rest: &[u8], text: &[u8], at: usize, around: &mut Vec<Around>) -> usize {
    match rest.first() {
        Some(b'#') => to_line_end(rest),
        Some(b'\'' | b'"') => open_text(rest, text, at, around),
        _ => 1,
    }
}

fn in_field(rest: &[u8], depth: usize, text: &[u8], at: usize, around: &mut Vec<Around>) -> usize {
    let replace = |around: &mut Vec<Around>, by: Around| {
        around.pop();
        around.push(by);
    };
    match rest.first() {
        Some(b'\'' | b'"') => return open_text(rest, text, at, around),
        Some(b'(' | b'[' | b'{') => replace(around, Around::Field { depth: depth + 1 }),
        Some(b'}') if depth == 0 => {
            around.pop();
        }
        Some(b')' | b']' | b'}') => replace(
            around,
            Around::Field {
                depth: depth.saturating_sub(1),
            },
        ),
        Some(b':') if depth == 0 => replace(around, Around::Format),
        _ => {}
    }
    1
}

fn in_format(rest: &[u8], around: &mut Vec<Around>) -> usize {
    match rest.first() {
        Some(b'{') => around.push(Around::Field { depth: 0 }),
        Some(b'}') => {
            around.pop();
        }
        // The string ends without its field: it is no Python, and what follows is code again.
        Some(b'\n') => leave_line(around),
        _ => {}
    }
    1
}

fn in_text(rest: &[u8], quoted: Quoted, around: &mut Vec<Around>) -> usize {
    let Quoted {
        quote,
        is_triple,
        is_formatted,
    } = quoted;
    match rest {
        // In a raw string too it keeps a quote from ending it.
        [b'\\', _, ..] => 2,
        [b'{', b'{', ..] if is_formatted => 2,
        [b'{', ..] if is_formatted => {
            around.push(Around::Field { depth: 0 });
            1
        }
        [a, b, c, ..] if is_triple && [a, b, c].iter().all(|byte| **byte == quote) => {
            around.pop();
            3
        }
        [byte, ..] if !is_triple && (*byte == quote || *byte == b'\n') => {
            around.pop();
            1
        }
        _ => 1,
    }
}

/// Leaves every string that cannot go on in the next line.
fn leave_line(around: &mut Vec<Around>) {
    while let Some(last) = around.last() {
        if matches!(last, Around::Text(Quoted { is_triple: true, .. })) {
            return;
        }
        around.pop();
    }
}

fn open_text(rest: &[u8], text: &[u8], at: usize, around: &mut Vec<Around>) -> usize {
    let quote = rest.first().copied().unwrap_or(b'"');
    let is_triple = rest
        .get(..3)
        .is_some_and(|three| three.iter().all(|byte| *byte == quote));
    // At most two letters say what kind of a string it is.
    let letters = text.get(at.saturating_sub(2)..at).unwrap_or_default();
    let prefix = letters.iter().rev().take_while(|byte| byte.is_ascii_alphabetic());
    let is_formatted = prefix
        .clone()
        .any(|byte| matches!(byte, b'f' | b'F' | b't' | b'T'));
    around.push(Around::Text(Quoted {
        quote,
        is_triple,
        is_formatted,
    }));
    if is_triple { 3 } else { 1 }
}

fn to_line_end(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(text: &str, expected: Option<(usize, &str)>) {
        let found = check(text.as_bytes());
        let found = found.as_ref().map(|found| match &found.kind {
            LeftoverKind::Variable(name) => (found.line, name.as_str()),
            LeftoverKind::Command(_) => panic!("{found:?}"),
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_variable_where_code_is_expected_is_found() {
        finds("import os\npath = $HOME\n", Some((2, "HOME")));
        finds("print(${API_KEY})", Some((1, "API_KEY")));
        finds("x = 'a' + $DM_JSON", Some((1, "DM_JSON")));
        finds("x = '''\n$A1\n'''\ny = $B2", Some((4, "B2")));
        finds("x = f'{a}' + $TOKEN", Some((1, "TOKEN")));
        finds("f'{x:>{w}}'; $TOKEN", Some((1, "TOKEN")));
        finds("'open\n$TOKEN", Some((2, "TOKEN")));
    }

    #[test]
    fn strings_and_comments_hide_it() {
        for text in [
            "# $HOME\n",
            "x = '$HOME'",
            "x = \"a\\\"$HOME\"",
            "x = r'\\\\'; y = '$HOME'",
            "x = \"\"\"\n\"$HOME\" ''\n\"\"\"",
            "x = f'{y}$HOME'",
            "x = f\"{d[\"$HOME\"]}\"",
            "x = f\"{x:'>10}\"; y = '$HOME'",
            "x = f'{{$HOME}}'",
            "x = f'''{\n a['$HOME'] }'''",
            "x = rb'$HOME'",
            "x = 'a\\\n$HOME'",
        ] {
            finds(text, None);
        }
    }

    #[test]
    fn what_is_no_name_of_a_shell_variable_is_nothing() {
        for text in [
            "x = $home",
            "x = $H",
            "x = $HOMEdir",
            "x = $1A",
            "cost = 5 $",
            "x = $__",
        ] {
            finds(text, None);
        }
    }
}
