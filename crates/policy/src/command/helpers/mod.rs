//! Helper profiles: which programs a known program starts in its ordinary work, without code of the workspace.
//!
//! A profile never has a shell or an interpreter in it, nor a program that starts what its arguments say: a program that could
//! start one of those could start anything. What a profile lacks a person adds to an entry (`confine.starts`).

mod table;

use self::table::PROFILES;

/// What one program, or several that are alike, start.
#[derive(Debug)]
struct Profile {
    /// Base names of the programs.
    programs: &'static [&'static str],
    /// What they start, in the form of `starts` of an entry: names that are looked up on the PATH, absolute paths, and
    /// `DIRECTORY/**`. What is not there on a machine is passed over.
    starts: &'static [&'static str],
}

/// What a program of this base name starts; `None` where that is not known. An empty list is a program that starts none.
pub fn starts_of(name: &str) -> Option<&'static [&'static str]> {
    PROFILES
        .iter()
        .find(|profile| profile.programs.contains(&name))
        .map(|profile| profile.starts)
}
