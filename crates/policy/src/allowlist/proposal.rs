//! What `allow-always` could store (A1, A2).

use countersign_domain::{GrantLimits, Pattern, PatternWidth};

use super::shapes;
use crate::{
    command::{
        inline_eval,
        names::{self, NameClass},
    },
    pattern::{ExecutablePattern, GENERATED_SOURCE, command_marker, cwd_argv_pattern},
};

/// What a segment contributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proposal {
    /// It is covered already.
    Covered,
    /// It could be remembered as these.
    Entries(Vec<Proposed>),
    /// It must never be remembered, and so nothing of the command is.
    Never,
}

/// One entry without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposed {
    pattern: String,
    arg_pattern: Option<String>,
    width: PatternWidth,
    /// The form of the arguments in words.
    shape: Option<String>,
    /// It covers nothing that starts elsewhere.
    directory: Option<String>,
}

/// A segment that a person might cover.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each with its own reader"
)]
pub(super) struct Remembered<'a> {
    pub(super) real: &'a str,
    pub(super) names: &'a [&'a str],
    pub(super) arguments: &'a [&'a str],
    pub(super) has_literal_arguments: bool,
    /// Real path of the directory it starts in.
    pub(super) directory: Option<&'a str>,
    pub(super) strict_inline_eval: bool,
    /// Whether another name of the file could not be another program.
    pub(super) is_identified_by_path: bool,
    /// Whether it is known what an interpreter would run (T2).
    pub(super) has_one_script: bool,
}

impl Remembered<'_> {
    /// The exact entry, and the wider one where any arguments are a risk a person may take.
    pub(super) fn propose(&self) -> Proposal {
        let Some(directory) = self.directory else {
            return Proposal::Never;
        };
        let Some(arg_pattern) = cwd_argv_pattern(directory, self.arguments.iter().copied()) else {
            return Proposal::Never;
        };
        let is_interpreter = inline_eval::is_interpreter(self.names)
            || self.names.iter().any(|name| names::runs_scripts(name));
        // An entry is a pattern, and not every path reads back as the pattern for itself alone.
        let reads_back = ExecutablePattern::parse(self.real, "/")
            .is_ok_and(|pattern| pattern == ExecutablePattern::File(self.real.to_owned()));
        if !self.has_literal_arguments
            || !reads_back
            || !self.is_identified_by_path
            || NameClass::of_all(self.names.iter().copied()) != NameClass::Program
            || !self.has_one_script
            || (is_interpreter && !self.strict_inline_eval)
        {
            return Proposal::Never;
        }
        let entry = |width| Proposed {
            pattern: self.real.to_owned(),
            arg_pattern: None,
            width,
            shape: None,
            directory: None,
        };
        let mut entries = vec![Proposed {
            arg_pattern: Some(arg_pattern),
            ..entry(PatternWidth::Exact)
        }];
        if !is_interpreter {
            entries.extend(
                shapes::shape_of(self.names, self.arguments).map(|shape| Proposed {
                    arg_pattern: Some(shape.arg_pattern),
                    shape: Some(shape.words),
                    // What the program reads of a workspace, hooks and settings say, was never looked at elsewhere.
                    directory: Some(directory.to_owned()),
                    ..entry(PatternWidth::Arguments)
                }),
            );
            entries.push(entry(PatternWidth::Program));
        }
        Proposal::Entries(entries)
    }
}

/// The pattern objects of a whole command from those of its segments, with the top-level segment of each.
pub(super) fn collect(proposals: &[(usize, Proposal)]) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for (segment, proposal) in proposals {
        match proposal {
            Proposal::Covered => {}
            Proposal::Never => return Vec::new(),
            Proposal::Entries(entries) => {
                for proposed in entries {
                    let pattern = proposed.at(*segment);
                    let known = patterns.iter().any(|known| {
                        known.pattern == pattern.pattern
                            && known.arg_pattern == pattern.arg_pattern
                            && known.limits == pattern.limits
                    });
                    if !known {
                        patterns.push(pattern);
                    }
                }
            }
        }
    }
    patterns
}

/// The exact text as the only thing that can be remembered.
pub(super) fn exact_text(text: &str) -> Pattern {
    Pattern {
        segment: 0,
        pattern: command_marker(text),
        arg_pattern: None,
        source: Some(GENERATED_SOURCE.to_owned()),
        width: PatternWidth::Exact,
        default: true,
        shape: None,
        limits: GrantLimits::default(),
    }
}

impl Proposed {
    fn at(&self, segment: usize) -> Pattern {
        let is_exact = self.width == PatternWidth::Exact;
        Pattern {
            segment,
            pattern: self.pattern.clone(),
            arg_pattern: self.arg_pattern.clone(),
            source: is_exact.then(|| GENERATED_SOURCE.to_owned()),
            width: self.width,
            default: is_exact,
            shape: self.shape.clone(),
            limits: GrantLimits {
                directory: self.directory.clone(),
                ..GrantLimits::default()
            },
        }
    }
}
