//! Lines: where one ends, and what kind of thing it is.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{MAX_LINE_BYTES, unique};

/// Collects the one line of a connection. Nothing after it is looked at.
#[derive(Debug)]
pub struct LineReader {
    bytes: Vec<u8>,
    limit: usize,
}

/// What has been read of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Not yet a whole line.
    More,
    /// The line, without its newline.
    Line(Vec<u8>),
    /// Longer than a line may be.
    TooLong,
}

impl Default for LineReader {
    fn default() -> Self {
        Self::limited(MAX_LINE_BYTES)
    }
}

impl LineReader {
    /// Reads lines of at most so many bytes before the newline.
    pub const fn limited(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }

    /// Takes bytes as they come. What follows the newline stays for the next line.
    pub fn push(&mut self, bytes: &[u8]) -> Read {
        let looked_at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.take(looked_at)
    }

    /// Takes bytes and gives every line that they complete, however long.
    pub fn lines(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let known = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.bytes.split_off(known + last + 1);
        let mut whole = std::mem::replace(&mut self.bytes, rest);
        whole.pop();
        whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// The next line of what is there already.
    pub fn next_line(&mut self) -> Read {
        self.take(0)
    }

    fn take(&mut self, looked_at: usize) -> Read {
        let rest = self.bytes.get(looked_at..).unwrap_or_default();
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(position) if looked_at + position <= self.limit => {
                let rest = self.bytes.split_off(looked_at + position + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                Read::Line(line)
            }
            None if self.bytes.len() <= self.limit => Read::More,
            Some(_) | None => Read::TooLong,
        }
    }

    /// What is there when the stream ends: a last line needs no newline.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// The types of lines that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exec,
    Request,
    /// Opens version 2.
    Hello,
    /// Version 2 of [`Kind::Exec`].
    Exec2,
    /// Version 2 of [`Kind::Request`].
    Request2,
}

impl Kind {
    /// The word of the wire.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Request => "request",
            Self::Hello => "hello",
            Self::Exec2 => "exec2",
            Self::Request2 => "request2",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [
            Self::Exec,
            Self::Request,
            Self::Hello,
            Self::Exec2,
            Self::Request2,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == word)
    }
}

/// A line whose kind is known. Whether it is whole and genuine is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) kind: Kind,
    /// Its id, where there is one.
    pub(super) id: Option<String>,
    pub(super) text: &'a str,
    /// Whether no member is named twice in it.
    pub(super) is_unambiguous: bool,
}

impl<'a> Line<'a> {
    /// Finds out what a line is; `None` when it is nothing that can be answered by its kind.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > MAX_LINE_BYTES {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?.trim();
        let head: Head = serde_json::from_str(text).ok()?;
        let Head { kind, id } = head;
        Some(Self {
            kind: Kind::of(&kind?)?,
            id,
            text,
            is_unambiguous: unique::is_unambiguous(text),
        })
    }

    /// Reads the members that a kind of line has.
    pub(super) fn members<T: Deserialize<'a>>(&self) -> Option<T> {
        self.is_unambiguous
            .then(|| serde_json::from_str(self.text).ok())
            .flatten()
    }
}

/// Type and id, no matter what else a line holds. A second type makes the kind unknown; of ids the first is echoed.
struct Head {
    kind: Option<String>,
    id: Option<String>,
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Head, A::Error> {
        let mut head = Head { kind: None, id: None };
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "type" if head.kind.is_some() => return Err(de::Error::custom("two types")),
                "type" => head.kind = Some(members.next_value()?),
                "id" if head.id.is_none() => {
                    head.id = match members.next_value()? {
                        Value::String(id) => Some(id),
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Array(_)
                        | Value::Object(_) => None,
                    };
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_its_newline_however_it_comes() {
        let mut reader = LineReader::limited(4);
        assert_eq!(reader.push(b"ab"), Read::More);
        assert_eq!(reader.push(b"cd"), Read::More);
        assert_eq!(reader.push(b"\nrest"), Read::Line(b"abcd".to_vec()));
        assert_eq!(reader.next_line(), Read::More);
        assert_eq!(reader.finish(), b"rest");
        assert_eq!(LineReader::limited(4).push(b"abcde"), Read::TooLong);
        assert_eq!(LineReader::limited(4).push(b"abcde\n"), Read::TooLong);
        assert_eq!(LineReader::limited(4).push(b"\n\n"), Read::Line(Vec::new()));
    }

    #[test]
    fn lines_are_given_as_they_are_completed() {
        let mut reader = LineReader::default();
        assert_eq!(reader.lines(b"a"), Vec::<Vec<u8>>::new());
        assert_eq!(reader.lines(b"b\n\nc"), [b"ab".to_vec(), Vec::new()]);
        assert_eq!(reader.lines(b"\n"), [b"c".to_vec()]);
        assert_eq!(reader.finish(), b"");
    }

    #[test]
    fn the_kind_is_known_only_where_one_type_is_named() {
        let kind = |text: &str| Line::parse(text.as_bytes()).map(|line| line.kind);
        assert_eq!(kind(" {\"type\":\"exec\"}\r"), Some(Kind::Exec));
        assert_eq!(
            kind(r#"{"id":{"type":"exec"},"type":"request"}"#),
            Some(Kind::Request)
        );
        for nothing in [
            r#"{"type":"exec","type":"exec"}"#,
            r#"{"type":"exec","\u0074ype":"request"}"#,
            r#"{"type":1}"#,
            r#"{"type":null}"#,
            r#""exec""#,
            "",
            r#"{"type":"exec"} {}"#,
        ] {
            assert_eq!(kind(nothing), None, "{nothing}");
        }
    }
}
