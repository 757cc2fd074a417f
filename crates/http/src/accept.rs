//! `Accept` (RFC 9110, 12.5.1): whether a form of answer is wanted at all.

use axum::http::{HeaderMap, header};

/// What a request accepts. Without the header, or when nothing of it can be read, everything.
#[derive(Debug)]
pub(crate) struct Accepted(Vec<MediaRange>);

#[derive(Debug)]
struct MediaRange {
    /// Lower case, without parameters.
    name: String,
    /// `q=0`: not this.
    is_refused: bool,
}

impl Accepted {
    /// Reads all lines of the header as one list.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let ranges = headers
            .get_all(header::ACCEPT)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(MediaRange::read);
        Self(ranges.collect())
    }

    /// Whether nothing was said.
    pub(crate) const fn is_silent(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this very range stands there and is not refused.
    pub(crate) fn names(&self, range: &str) -> bool {
        self.0
            .iter()
            .any(|accepted| !accepted.is_refused && accepted.name == range)
    }

    /// Whether an answer of this media type is wanted. The most specific range that fits it decides.
    pub(crate) fn takes(&self, media_type: &str) -> bool {
        let kind = media_type.split('/').next().unwrap_or_default();
        let fitting = [media_type, &format!("{kind}/*"), "*/*"]
            .into_iter()
            .find_map(|range| self.0.iter().find(|accepted| accepted.name == range));
        self.is_silent() || fitting.is_some_and(|range| !range.is_refused)
    }
}

impl MediaRange {
    /// What is no media range says nothing.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
        let name = parts.next().filter(|name| name.contains('/'))?;
        let is_refused = parts
            .filter_map(|parameter| parameter.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()))
            .any(|q| q <= 0.0);
        Some(Self { name, is_refused })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_json(accept: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in accept {
            headers.append(header::ACCEPT, line.parse().unwrap());
        }
        Accepted::of(&headers).takes("application/json")
    }

    #[test]
    fn the_most_specific_range_decides() {
        for accept in [
            &[][..],
            &[""],
            &["junk"],
            &["application/json"],
            &["Application/JSON; charset=utf-8; q=0.1"],
            &["application/*"],
            &["text/html, */*;q=0.1"],
            &["text/html", "application/json"],
            &["*/*;q=0, application/json"],
        ] {
            assert!(takes_json(accept), "{accept:?}");
        }
        for accept in [
            &["text/html"][..],
            &["application/problem+json"],
            &["application/json;q=0"],
            &["application/json; Q=0.000, */*"],
            &["application/*;q=0, */*"],
            &["*/*;q=0"],
        ] {
            assert!(!takes_json(accept), "{accept:?}");
        }
    }
}
