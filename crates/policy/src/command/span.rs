//! Where in the source something stands, through any number of unquoted shell payloads.

use serde::{Serialize, Serializer};

/// Byte offsets into the outermost source, end exclusive. Serialises as `[start, end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span from byte offsets. Offsets beyond `u32` saturate; such a source is rejected by its size anyway.
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The smallest span around both.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.start, self.end).serialize(serializer)
    }
}

/// Maps offsets of a text to offsets of the source it was unquoted from: runs of `(text, source)` starts,
/// each valid up to the next. Ordered by text offset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceMap(Vec<(u32, u32)>);

impl SourceMap {
    /// The map of a text that is the source itself.
    pub fn identity() -> Self {
        Self(vec![(0, 0)])
    }

    /// Notes that the text at `text` comes from `source`, unless the run so far already says so.
    pub(crate) fn note(&mut self, text: usize, source: u32) {
        let text = u32::try_from(text).unwrap_or(u32::MAX);
        let continues = self.0.last().is_some_and(|(run_text, run_source)| {
            source.checked_sub(*run_source) == text.checked_sub(*run_text)
        });
        if !continues {
            self.0.push((text, source));
        }
    }

    /// The source offset of a text offset.
    pub fn source(&self, text: usize) -> u32 {
        let text = u32::try_from(text).unwrap_or(u32::MAX);
        let index = self.0.partition_point(|(run_text, _)| *run_text <= text);
        index
            .checked_sub(1)
            .and_then(|index| self.0.get(index))
            .map_or(text, |(run_text, run_source)| {
                run_source.saturating_add(text.saturating_sub(*run_text))
            })
    }

    /// The source span of a text span.
    pub fn span(&self, start: usize, end: usize) -> Span {
        let first = self.source(start);
        let last = if end > start {
            self.source(end - 1).saturating_add(1)
        } else {
            first
        };
        Span {
            start: first,
            end: last.max(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_runs() {
        let mut map = SourceMap::default();
        for (text, source) in [(0, 10), (1, 11), (2, 14), (3, 15), (4, 20)] {
            map.note(text, source);
        }
        let sources: Vec<u32> = (0..5).map(|text| map.source(text)).collect();
        assert_eq!(sources, [10, 11, 14, 15, 20]);
        assert_eq!(map.span(1, 4), Span { start: 11, end: 16 });
        assert_eq!(map.span(2, 2), Span { start: 14, end: 14 });
    }
}
