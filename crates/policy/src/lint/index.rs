//! Patterns by what they match, so that the question for a wider one needs no walk over all of them.

use std::{cell::Cell, collections::HashMap};

use crate::{
    command::paths,
    pattern::{ExecutablePattern, PathCase, PatternCache, has_wildcard},
};

/// Patterns of any other form than the common ones are compared one by one; more than this are left out.
const MAX_GLOBS: usize = 64;
/// So many of these comparisons are made in all, so that a long list of such patterns takes no long time.
const MAX_COMPARISONS: usize = 20_000;

/// Patterns that match any arguments, with their places in their list.
#[derive(Debug)]
pub(super) struct Index {
    case: PathCase,
    any: Option<usize>,
    names: HashMap<String, usize>,
    files: HashMap<String, usize>,
    directories: HashMap<String, usize>,
    trees: HashMap<String, usize>,
    /// Name and path patterns with wildcards elsewhere.
    globs: Vec<(usize, ExecutablePattern)>,
    compared: Cell<usize>,
}

/// What a pattern matches, as far as that can be said in a few words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) pattern: &'a ExecutablePattern,
    /// Real path of a file, or of a glob's directory.
    pub(super) real: Option<&'a str>,
}

impl Index {
    pub(super) fn new(case: PathCase) -> Self {
        Self {
            case,
            any: None,
            names: HashMap::new(),
            files: HashMap::new(),
            directories: HashMap::new(),
            trees: HashMap::new(),
            globs: Vec::new(),
            compared: Cell::new(0),
        }
    }

    /// Adds the pattern at a place; of two that are alike the first stays. `real` is the directory of a glob without
    /// its links.
    pub(super) fn insert(&mut self, at: usize, pattern: &ExecutablePattern, real: impl Fn(&str) -> String) {
        let case = self.case;
        let keep = |map: &mut HashMap<String, usize>, key: &str| {
            map.entry(case.key(key)).or_insert(at);
        };
        match pattern {
            ExecutablePattern::Any => {
                self.any.get_or_insert(at);
            }
            ExecutablePattern::Name(name) if !has_wildcard(name) => keep(&mut self.names, name),
            ExecutablePattern::File(path) => keep(&mut self.files, path),
            ExecutablePattern::Glob { directory, rest } if rest == "/*" => {
                keep(&mut self.directories, &real(directory));
            }
            ExecutablePattern::Glob { directory, rest } if rest == "/**" => {
                keep(&mut self.trees, &real(directory));
            }
            ExecutablePattern::Name(_) | ExecutablePattern::Glob { .. } => {
                if self.globs.len() < MAX_GLOBS {
                    self.globs.push((at, pattern.clone()));
                }
            }
        }
    }

    /// A pattern before this place that matches all that the target does.
    pub(super) fn wider(&self, target: Target<'_>, before: usize, cache: &PatternCache) -> Option<usize> {
        let earlier = |at: Option<&usize>| at.copied().filter(|at| *at < before);
        if let Some(at) = earlier(self.any.as_ref()) {
            return Some(at);
        }
        match target.pattern {
            ExecutablePattern::Any => None,
            ExecutablePattern::Name(name) if !has_wildcard(name) => {
                earlier(self.names.get(&self.case.key(name)))
                    .or_else(|| self.glob(before, |glob| glob.matches_name(name, self.case, cache)))
            }
            ExecutablePattern::File(file) => {
                let real = target.real.unwrap_or(file);
                earlier(self.files.get(&self.case.key(file)))
                    .or_else(|| self.above(paths::directory(real), before))
                    .or_else(|| {
                        self.glob(before, |glob| {
                            glob.matches_path(real, self.case, cache, |path| Some(path.to_owned()))
                        })
                    })
            }
            ExecutablePattern::Glob { directory, rest } if matches!(rest.as_str(), "/*" | "/**") => {
                let real = target.real.unwrap_or(directory);
                let same = (rest == "/*").then(|| earlier(self.directories.get(&self.case.key(real))));
                same.flatten().or_else(|| self.tree(real, before))
            }
            ExecutablePattern::Name(_) | ExecutablePattern::Glob { .. } => {
                self.glob(before, |glob| Some(glob == target.pattern))
            }
        }
    }

    /// A name pattern for this base name.
    pub(super) fn name(&self, name: &str, cache: &PatternCache) -> Option<usize> {
        let found = self.names.get(&self.case.key(name)).copied();
        found.or_else(|| self.glob(usize::MAX, |glob| glob.matches_name(name, self.case, cache)))
    }

    /// A pattern for everything in this directory.
    fn above(&self, directory: &str, before: usize) -> Option<usize> {
        let here = self
            .directories
            .get(&self.case.key(directory.trim_end_matches('/')));
        here.copied()
            .filter(|at| *at < before)
            .or_else(|| self.tree(directory, before))
    }

    /// A pattern for everything below this directory or one above it.
    fn tree(&self, directory: &str, before: usize) -> Option<usize> {
        let key = self.case.key(directory.trim_end_matches('/'));
        let mut rest = Some(key.as_str());
        while let Some(at) = rest {
            if let Some(found) = self.trees.get(at).copied().filter(|found| *found < before) {
                return Some(found);
            }
            rest = at.rsplit_once('/').map(|(above, _name)| above);
        }
        None
    }

    fn glob(&self, before: usize, matches: impl Fn(&ExecutablePattern) -> Option<bool>) -> Option<usize> {
        let left = MAX_COMPARISONS.saturating_sub(self.compared.get());
        let earlier = self
            .globs
            .iter()
            .take_while(|(at, _glob)| *at < before)
            .take(left);
        earlier
            .inspect(|_| self.compared.set(self.compared.get() + 1))
            .find(|(_at, glob)| matches(glob) == Some(true))
            .map(|(at, _glob)| *at)
    }
}
