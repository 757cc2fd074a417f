//! The allowlist entries of an agent, with an index that leaves few of many to be looked at.
//!
//! The index only says which entries *may* name a program; each of those is then matched as if there were no
//! index. So it can make nothing match. It holds the real paths of patterns as they were when it was made: the next
//! index sees a link that changes later, and until then an entry may be missing, never extra.

use std::collections::{BTreeSet, HashMap};

use super::{Entry, Typing};
use crate::confine::ConfineRule;
use crate::{
    command::Executable,
    pattern::{COMMAND_MARKER, ExecutablePattern, PathCase, fold},
};

/// Allowlist entries in matching order, those of `*` first.
#[derive(Debug, Clone, Copy)]
pub enum Entries<'a> {
    /// All are looked at.
    Listed(&'a [Entry<'a>]),
    /// Those are looked at that may match.
    Indexed(&'a EntryIndex),
}

impl<'a> Entries<'a> {
    /// The entries that may name a program, in matching order.
    pub(super) fn naming(self, executable: Option<&Executable>) -> Box<dyn Iterator<Item = Entry<'a>> + 'a> {
        match self {
            Self::Listed(entries) => Box::new(entries.iter().copied()),
            Self::Indexed(index) => Box::new(
                index
                    .naming(executable)
                    .into_iter()
                    .filter_map(|at| index.get(at)),
            ),
        }
    }

    /// The entries whose pattern is a marker of any command, in matching order.
    pub(super) fn all_marked(self) -> Vec<Entry<'a>> {
        let is_marked = |entry: &Entry<'_>| entry.pattern.trim().starts_with(COMMAND_MARKER);
        match self {
            Self::Listed(entries) => entries.iter().copied().filter(is_marked).collect(),
            Self::Indexed(index) => {
                let all = (0..index.len()).filter_map(|at| index.get(at));
                all.filter(is_marked).collect()
            }
        }
    }

    /// The entries whose pattern is exactly this marker, in matching order.
    pub(super) fn marked(self, marker: &str) -> Vec<Entry<'a>> {
        match self {
            Self::Listed(entries) => entries
                .iter()
                .filter(|entry| entry.pattern.trim() == marker)
                .copied()
                .collect(),
            Self::Indexed(index) => {
                let places = index.markers.get(marker).map_or(&[][..], Vec::as_slice);
                places.iter().filter_map(|&at| index.get(at)).collect()
            }
        }
    }
}

/// Many entries, owned, by what they may match.
#[derive(Debug)]
pub struct EntryIndex {
    entries: Vec<OwnedEntry>,
    case: PathCase,
    /// Entries for every program.
    any: Vec<usize>,
    names: HashMap<String, Vec<usize>>,
    name_globs: Globs,
    /// By the path as written and by the real path.
    files: HashMap<String, Vec<usize>>,
    path_globs: Globs,
    markers: HashMap<String, Vec<usize>>,
}

#[derive(Debug)]
struct OwnedEntry {
    owner: String,
    id: String,
    pattern: String,
    arg_pattern: Option<String>,
    source: Option<String>,
    command_sha256: Option<String>,
    typing: Typing,
    confine: Option<ConfineRule>,
}

impl EntryIndex {
    /// Indexes entries as they are matched under `case`. `home` and `real` are what matching uses.
    pub fn new<'a>(
        entries: impl IntoIterator<Item = Entry<'a>>,
        case: PathCase,
        home: &str,
        real: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut index = Self {
            entries: Vec::new(),
            case,
            any: Vec::new(),
            names: HashMap::new(),
            name_globs: Globs::default(),
            files: HashMap::new(),
            path_globs: Globs::default(),
            markers: HashMap::new(),
        };
        for (at, entry) in entries.into_iter().enumerate() {
            index.place(at, entry.pattern, home, &real);
            index.entries.push(OwnedEntry {
                owner: entry.owner.to_owned(),
                id: entry.id.to_owned(),
                pattern: entry.pattern.to_owned(),
                arg_pattern: entry.arg_pattern.map(str::to_owned),
                source: entry.source.map(str::to_owned),
                command_sha256: entry.command_sha256.map(str::to_owned),
                typing: entry.typing,
                confine: entry.confine.cloned(),
            });
        }
        index
    }

    fn place(&mut self, at: usize, text: &str, home: &str, real: impl Fn(&str) -> Option<String>) {
        let case = self.case;
        let text = text.trim();
        if text.starts_with(COMMAND_MARKER) {
            self.markers.entry(text.to_owned()).or_default().push(at);
        }
        let Ok(pattern) = ExecutablePattern::parse(text, home) else {
            return;
        };
        match pattern {
            ExecutablePattern::Any => self.any.push(at),
            ExecutablePattern::Name(name) if name.contains(['*', '?']) => {
                self.name_globs.insert(at, &folded(&name, case));
            }
            ExecutablePattern::Name(name) => self.names.entry(folded(&name, case)).or_default().push(at),
            ExecutablePattern::File(file) => {
                let canonical = real(&file).map(|canonical| folded(&canonical, case));
                let file = folded(&file, case);
                if let Some(canonical) = canonical.filter(|canonical| *canonical != file) {
                    self.files.entry(canonical).or_default().push(at);
                }
                self.files.entry(file).or_default().push(at);
            }
            ExecutablePattern::Glob { directory, rest } => {
                let canonical = if directory.is_empty() {
                    None
                } else {
                    real(&directory)
                };
                let directory = canonical.as_deref().unwrap_or(&directory).trim_end_matches('/');
                // A wildcard in the name of a directory is none of the pattern.
                self.path_globs
                    .insert_behind(at, &folded(directory, case), &folded(&rest, case));
            }
        }
    }

    /// How many entries there are, those with an unusable pattern included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How patterns compare in it.
    pub const fn case(&self) -> PathCase {
        self.case
    }

    fn get(&self, at: usize) -> Option<Entry<'_>> {
        let OwnedEntry {
            owner,
            id,
            pattern,
            arg_pattern,
            source,
            command_sha256,
            typing,
            confine,
        } = self.entries.get(at)?;
        Some(Entry {
            owner,
            id,
            pattern,
            arg_pattern: arg_pattern.as_deref(),
            source: source.as_deref(),
            command_sha256: command_sha256.as_deref(),
            typing: *typing,
            confine: confine.as_ref(),
        })
    }

    fn naming(&self, executable: Option<&Executable>) -> Vec<usize> {
        let mut places = self.any.clone();
        if let Some(executable) = executable {
            let typed = folded(&executable.typed, self.case);
            let resolved = folded(&executable.resolved, self.case);
            let real = folded(&executable.real, self.case);
            for (map, key) in [
                (&self.names, &typed),
                (&self.files, &resolved),
                (&self.files, &real),
            ] {
                places.extend(map.get(key.as_str()).into_iter().flatten());
            }
            self.name_globs.collect(&typed, &mut places);
            self.path_globs.collect(&real, &mut places);
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

fn folded(text: &str, case: PathCase) -> String {
    match case {
        PathCase::Sensitive => text.to_owned(),
        PathCase::Insensitive => fold(text),
    }
}

/// Globs by the literal text that they begin with, and then by the one that they end with.
#[derive(Debug, Default)]
struct Globs(Affixes<Affixes<Vec<usize>>>);

impl Globs {
    fn insert(&mut self, at: usize, glob: &str) {
        self.insert_behind(at, "", glob);
    }

    fn insert_behind(&mut self, at: usize, literal: &str, glob: &str) {
        let start = glob.find(['*', '?']).unwrap_or(glob.len());
        let end = glob.rfind(['*', '?']).map_or(0, |last| last + 1);
        let start = format!("{literal}{}", glob.get(..start).unwrap_or_default());
        let end = glob.get(end..).unwrap_or_default();
        self.0.slot(&start).slot(end).push(at);
    }

    /// Adds the globs that may match `target`.
    fn collect(&self, target: &str, places: &mut Vec<usize>) {
        for ends in self.0.matching(target, |length| target.get(..length)) {
            let suffix = |length: usize| target.get(target.len().checked_sub(length)?..);
            for found in ends.matching(target, suffix) {
                places.extend(found);
            }
        }
    }
}

/// Values by a text of some length.
#[derive(Debug)]
struct Affixes<T> {
    lengths: BTreeSet<usize>,
    values: HashMap<String, T>,
}

impl<T> Default for Affixes<T> {
    fn default() -> Self {
        Self {
            lengths: BTreeSet::new(),
            values: HashMap::new(),
        }
    }
}

impl<T: Default> Affixes<T> {
    fn slot(&mut self, text: &str) -> &mut T {
        self.lengths.insert(text.len());
        self.values.entry(text.to_owned()).or_default()
    }

    fn matching<'a>(
        &'a self,
        target: &str,
        part: impl Fn(usize) -> Option<&'a str> + 'a,
    ) -> impl Iterator<Item = &'a T> + 'a {
        let lengths = self.lengths.range(..=target.len());
        lengths.filter_map(move |&length| self.values.get(part(length)?))
    }
}
