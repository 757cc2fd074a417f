//! The two text forms of metrics: `OpenMetrics`, which the library writes, and the older one of Prometheus, which
//! is made from it. Pure.

use axum::http::{HeaderMap, header};

/// A form of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text format of Prometheus, 0.0.4: what is sent unless the other is asked for.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// What a request accepts.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let mut accepted = headers
            .get_all(header::ACCEPT)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let names_open = accepted.any(|range| {
            let essence = range.split(';').next().unwrap_or_default().trim();
            essence.eq_ignore_ascii_case("application/openmetrics-text")
        });
        if names_open {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The same metrics in this form; `text` is `OpenMetrics`.
    pub(super) fn of(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => to_prometheus(&text),
        }
    }
}

/// Differences between the forms, as far as this program's metrics have them: there the name of a counter has its
/// `_total` only in samples, and there are units and an end.
fn to_prometheus(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut words = line.splitn(4, ' ');
        let (hash, keyword, name, rest) = (words.next(), words.next(), words.next(), words.next());
        match (hash, keyword, name, rest) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                // The library writes HELP first and TYPE after it.
                let counts = lines
                    .peek()
                    .is_some_and(|next| *next == format!("# TYPE {name} counter"));
                push(&mut out, "HELP", name, if counts { "_total" } else { "" }, help);
            }
            (Some("#"), Some("TYPE"), Some(name), Some("counter")) => {
                push(&mut out, "TYPE", name, "_total", "counter");
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

fn push(out: &mut String, keyword: &str, name: &str, suffix: &str, rest: &str) {
    for part in ["# ", keyword, " ", name, suffix, " ", rest, "\n"] {
        out.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        encoding::text, metrics::counter::Counter, metrics::gauge::Gauge, registry::Registry,
    };

    use super::*;

    #[test]
    fn the_older_form_names_counters_in_full_and_has_no_end() {
        let mut registry = Registry::default();
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        counter.inc();
        registry.register("asked", "How often it was asked", counter);
        registry.register("open", "How many are open", gauge);
        let mut open_metrics = String::new();
        text::encode(&mut open_metrics, &registry).unwrap();
        assert_eq!(
            Format::Prometheus.of(open_metrics.clone()),
            "# HELP asked_total How often it was asked.\n# TYPE asked_total counter\nasked_total 1\n\
             # HELP open How many are open.\n# TYPE open gauge\nopen 0\n"
        );
        assert!(Format::OpenMetrics.of(open_metrics).ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_form_is_sent_unless_the_newer_is_named() {
        let wanted = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            Format::wanted(&headers)
        };
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Prometheus);
        assert_eq!(wanted("*/*"), Format::Prometheus);
        assert_eq!(wanted("text/plain;version=0.0.4"), Format::Prometheus);
        assert_eq!(
            wanted("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"),
            Format::OpenMetrics
        );
    }
}
