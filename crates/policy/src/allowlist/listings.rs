//! The directories that one analysis looks into for patterns of file names (G14), each once, and how much of that it may do.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use crate::command::{
    Listing, PathLookup,
    file_names::{NamesInside, Unexpanded},
};

/// Directories of one analysis.
const MAX_DIRECTORIES: usize = 256;
/// Names in all of them. As many are read in some 20 ms.
const MAX_NAMES: usize = 40_000;
/// Bytes of names, each times the parts of the pattern with which they are compared: some 50 ms.
const MAX_COMPARED: usize = 32 * 1024 * 1024;

/// What was looked at so far.
#[derive(Debug, Default)]
pub(super) struct Listings {
    known: RefCell<BTreeMap<String, NamesInside>>,
    names: Cell<usize>,
    compared: Cell<usize>,
}

impl Listings {
    /// The names in a directory, if its real path is one that may be looked into.
    pub(super) fn names(
        &self,
        directory: &str,
        lookup: &dyn PathLookup,
        may_look: impl Fn(&str) -> bool,
    ) -> NamesInside {
        let mut known = self.known.borrow_mut();
        if let Some(names) = known.get(directory) {
            return names.clone();
        }
        if known.len() == MAX_DIRECTORIES || self.names.get() > MAX_NAMES {
            return Err(Unexpanded::TooMany);
        }
        let names: NamesInside = match lookup.list(directory) {
            Listing::NotThere => Ok(Rc::default()),
            Listing::Names { real, names } if may_look(&real) => Ok(names.into()),
            Listing::Names { .. } | Listing::Unknown => Err(Unexpanded::Unknown),
        };
        let count = names.as_ref().map_or(0, |names| names.len());
        self.names.set(self.names.get() + count);
        known.insert(directory.to_owned(), names.clone());
        names
    }

    /// Spends what it costs to compare names of so many bytes with so many parts of a pattern; `false` when that is too much.
    pub(super) fn may_compare(&self, bytes: usize, parts: usize) -> bool {
        let compared = self.compared.get().saturating_add(bytes.saturating_mul(parts));
        self.compared.set(compared);
        compared <= MAX_COMPARED
    }
}

#[cfg(test)]
mod tests {
    use countersign_domain::FileIdentity;

    use super::*;
    use crate::command::{DirectoryTrust, Inspected};

    /// Directories of so many names each.
    #[derive(Debug)]
    struct Full(usize);

    impl PathLookup for Full {
        fn search(&self, _name: &str) -> Option<String> {
            None
        }
        fn inspect(&self, _path: &str) -> Option<Inspected> {
            None
        }
        fn real(&self, path: &str) -> Option<String> {
            Some(path.to_owned())
        }
        fn list(&self, directory: &str) -> Listing {
            Listing::Names {
                real: directory.to_owned(),
                names: (0..self.0).map(|name| name.to_string()).collect(),
            }
        }
        fn depends_on_process(&self, _path: &str) -> bool {
            false
        }
        fn home(&self) -> &'static str {
            "/home"
        }
        fn directory_trust(&self, _directory: &str) -> DirectoryTrust {
            DirectoryTrust::Foreign
        }
        fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
            None
        }
    }

    /// How many directories are looked into before it is too many.
    fn looked_into(names_of_each: usize) -> usize {
        let (listings, lookup) = (Listings::default(), Full(names_of_each));
        let looked = |number: &usize| {
            let names = listings.names(&format!("/{number}"), &lookup, |_real| true);
            // What is known costs nothing.
            assert!(listings.names("/0", &lookup, |_real| true).is_ok());
            names.is_ok()
        };
        (0..2 * MAX_DIRECTORIES).take_while(looked).count()
    }

    #[test]
    fn directories_and_names_have_a_limit() {
        assert_eq!(looked_into(1), MAX_DIRECTORIES);
        assert_eq!(looked_into(MAX_NAMES / 4), 5, "the fifth goes beyond");
        assert_eq!(looked_into(MAX_NAMES + 1), 1, "one is read to its end");
        let listings = Listings::default();
        assert!(listings.may_compare(MAX_COMPARED / 2, 2));
        assert!(!listings.may_compare(1, 1));
    }
}
