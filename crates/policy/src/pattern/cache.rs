//! Compiled patterns, kept by their text so that a decision does not compile them again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    ArgumentPattern, InvalidArgumentPattern,
    glob::Glob,
    path_case::{PathCase, fold},
};

/// At most this many compiled patterns of each kind; then the cache starts afresh.
const MAX_COMPILED: usize = 4_096;

type Compiled<T> = Mutex<HashMap<String, Arc<T>>>;

/// Compiled patterns by text. Cheap to make, made once per server.
#[derive(Debug, Default)]
pub struct PatternCache {
    globs: Compiled<Option<Glob>>,
    arguments: Compiled<Result<ArgumentPattern, InvalidArgumentPattern>>,
}

impl PatternCache {
    /// Whether `glob` behind the literal `directory` matches; `None` when it cannot be compiled.
    pub(super) fn glob_matches(
        &self,
        directory: &str,
        glob: &str,
        target: &str,
        case: PathCase,
    ) -> Option<bool> {
        match case {
            PathCase::Sensitive => self
                .glob(directory, glob)
                .as_ref()
                .as_ref()
                .map(|glob| glob.is_match(target)),
            PathCase::Insensitive => self
                .glob(&fold(directory), &fold(glob))
                .as_ref()
                .as_ref()
                .map(|glob| glob.is_match(&fold(target))),
        }
    }

    fn glob(&self, directory: &str, glob: &str) -> Arc<Option<Glob>> {
        // NUL is in no path, so no two pairs share a key.
        recall(&self.globs, format!("{directory}\0{glob}"), || {
            Glob::new(directory, glob)
        })
    }

    /// The compiled form of a regular expression over arguments.
    pub fn arguments(&self, pattern: &str) -> Arc<Result<ArgumentPattern, InvalidArgumentPattern>> {
        recall(&self.arguments, pattern.to_owned(), || {
            ArgumentPattern::parse(pattern)
        })
    }
}

fn recall<T>(compiled: &Compiled<T>, key: String, make: impl FnOnce() -> T) -> Arc<T> {
    let mut compiled = compiled.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = compiled.get(&key) {
        return Arc::clone(found);
    }
    if compiled.len() >= MAX_COMPILED {
        compiled.clear();
    }
    let made = Arc::new(make());
    compiled.insert(key, Arc::clone(&made));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_bounded() {
        let cache = PatternCache::default();
        for index in 0..=MAX_COMPILED {
            cache.arguments(&format!("{index}"));
        }
        assert!(cache.arguments.lock().unwrap().len() <= MAX_COMPILED);
    }
}
