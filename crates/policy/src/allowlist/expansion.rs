//! Words that stand for others (G14): they are replaced by what they stand for, and that is judged, bound and started.

use super::{evaluation::Evaluation, work::SegmentContext};
use crate::command::{
    Span,
    characters::is_forbidden,
    direct::ShellKind,
    file_names::{Directories, FilePattern, NamesInside, Unexpanded},
    paths,
    syntax::{Segment, Word},
};

/// Bytes of all words that the patterns of one segment become.
const MAX_EXPANDED_BYTES: usize = 64 * 1024;

/// A word that is not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotExpanded {
    pub(super) span: Span,
    pub(super) detail: &'static str,
}

impl Evaluation<'_> {
    /// The segment with the files that its patterns mean; `None` where it has no patterns.
    pub(super) fn expand(
        &self,
        segment: &Segment,
        context: SegmentContext<'_>,
    ) -> Result<Option<Segment>, NotExpanded> {
        if segment.words.iter().all(|word| word.patterns.is_empty()) {
            return Ok(None);
        }
        let mut words = Vec::with_capacity(segment.words.len());
        let mut size = 0;
        for word in &segment.words {
            if word.patterns.is_empty() {
                words.push(word.clone());
                continue;
            }
            let not_expanded = |detail| NotExpanded {
                span: word.span,
                detail,
            };
            let found = self.files_of(word, context).map_err(not_expanded)?;
            size += found.iter().map(String::len).sum::<usize>();
            if size > MAX_EXPANDED_BYTES {
                return Err(not_expanded(Unexpanded::TooMany.detail()));
            }
            words.extend(found.into_iter().map(|file| Word::literal(file, word.span)));
        }
        Ok(Some(Segment {
            words,
            ..segment.clone()
        }))
    }

    /// The files that a pattern means. As in bash and dash it stays as it is where it means none.
    fn files_of(&self, word: &Word, context: SegmentContext<'_>) -> Result<Vec<String>, &'static str> {
        if word.class.is_dynamic() {
            return Err(Unexpanded::Form.detail());
        }
        if !context.files_are_seen {
            return Err("a program before it may make or remove files that this pattern means");
        }
        let value = if word.class.is_below_home() {
            paths::expand_home(&word.value, self.lookup.home())
        } else {
            word.value.clone()
        };
        let moved = value.len() - word.value.len();
        let places: Vec<usize> = word.patterns.iter().map(|place| place + moved).collect();
        let pattern = FilePattern::read(&value, &places, word.is_bare()).map_err(Unexpanded::detail)?;
        let directory = context.directory.known();
        let directory = directory
            .or_else(|| value.starts_with('/').then_some("/"))
            .ok_or("the directory is not certain after this cd")?;
        self.workspace()?;
        let found = pattern.expand(directory, self).map_err(Unexpanded::detail)?;
        if found.is_empty() {
            let stays = matches!(self.request.shell, Some(ShellKind::Bash | ShellKind::Dash));
            return if stays {
                Ok(vec![value])
            } else {
                Err("no file has a name that this pattern means")
            };
        }
        let is_plain = |file: &String| {
            !file.starts_with('-')
                && !file
                    .chars()
                    .any(|character| matches!(character, '\n' | '\t') || is_forbidden(character))
        };
        if found.iter().all(is_plain) {
            Ok(found)
        } else {
            Err(Unexpanded::Name.detail())
        }
    }

    /// Whether a directory lies in the workspace, and is none of the server's own. Elsewhere there may be names that the command itself
    /// cannot see.
    fn is_in_workspace(&self, real: &str) -> bool {
        let policy = self.policy;
        let workspace = self.request.workspace;
        workspace.is_some_and(|workspace| paths::is_within(real, &workspace.path))
            && !policy.protected.holds(real, policy.path_case)
    }
}

impl Directories for Evaluation<'_> {
    fn names(&self, directory: &str) -> NamesInside {
        // Below it lie other views of the machine, whose paths mean something else.
        let is_in_proc = paths::is_within(&paths::normalise(directory), "/proc");
        if is_in_proc || self.lookup.depends_on_process(directory) {
            return Err(Unexpanded::Unknown);
        }
        self.listings
            .names(directory, self.lookup, |real| self.is_in_workspace(real))
    }

    fn may_compare(&self, bytes: usize, parts: usize) -> bool {
        self.listings.may_compare(bytes, parts)
    }
}

impl NotExpanded {
    /// That of the first pattern of a segment.
    pub(super) fn of(segment: &Segment) -> Self {
        let mut words = segment.words.iter();
        let span = words
            .find(|word| !word.patterns.is_empty())
            .map_or(segment.span, |word| word.span);
        Self {
            span,
            detail: "a pattern of file names",
        }
    }
}
