//! The profiles (`docs/starts.md`).

use super::Profile;

pub(super) const PROFILES: &[Profile] = &[
    Profile {
        programs: &["cat", "cut", "grep", "head", "ls", "tail", "wc"],
        starts: &[],
    },
    Profile {
        programs: &["git"],
        starts: &["git", "ssh", "/usr/lib/git-core/**", "/usr/libexec/git-core/**"],
    },
];
