//! What was seen of the programs that a run started. It is told, and decides nothing.

use serde::{Deserialize, Serialize};

/// The programs that those of a run started, or tried to start, as far as their starts were limited and observed
/// (`tools.exec.observe`). Real paths, each once, in the order of the first time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// What the kernel lets the program start that tried to.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub started: Vec<String>,
    /// What it does not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused: Vec<String>,
    /// Whether there were more than are named.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub more: bool,
}

impl Observed {
    /// One line for people; `None` where nothing was seen.
    pub fn to_line(&self) -> Option<String> {
        let Self {
            started,
            refused,
            more,
        } = self;
        let part = |word: &str, paths: &[String]| {
            (!paths.is_empty()).then(|| format!("{word}: {}", paths.join(", ")))
        };
        let parts = [part("started", started), part("refused", refused)];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        if *more {
            parts.push("and more".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_seen() {
        assert_eq!(Observed::default().to_line(), None);
        let observed = Observed {
            started: vec!["/usr/bin/ssh".to_owned()],
            refused: vec!["/usr/bin/touch".to_owned(), "/usr/bin/sh".to_owned()],
            more: true,
        };
        assert_eq!(
            observed.to_line().as_deref(),
            Some("started: /usr/bin/ssh; refused: /usr/bin/touch, /usr/bin/sh; and more")
        );
    }
}
