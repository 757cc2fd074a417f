//! The words that make this program a runner, and the account that a hidden mode becomes.

use std::ffi::OsString;

use countersign_sys::{account::Identity, process::InheritedLimits};

use super::{
    cgroup::{HOME_WORDS, Home},
    limits::SPARE_SUPERVISORS,
};

/// The word that makes this program a runner. Not for people: it refuses to work without a server's descriptors.
pub(super) const MODE: &str = "__runner";

/// The word before the account that a hidden mode becomes.
pub(super) const ACCOUNT: &str = "--account";

/// Takes the account off the end of the command line and becomes it. False when it cannot: then nothing may go on.
pub(super) fn become_account(arguments: &mut Vec<OsString>) -> bool {
    let Some(at) = arguments.len().checked_sub(2) else {
        return true;
    };
    let Some([word, account]) = arguments.get(at..) else {
        return true;
    };
    if word != ACCOUNT {
        return true;
    }
    let identity = account
        .to_str()
        .and_then(|account| account.parse::<Identity>().ok());
    let is_done = identity.is_some_and(|identity| identity.assume().is_ok());
    arguments.truncate(at);
    is_done
}

/// The home among the words that make this program a runner.
pub(super) fn home_of(words: &[String]) -> Option<Home> {
    Settings::parse(words.get(2..)?)?.home
}

/// The command line that makes this program a runner.
pub(super) fn arguments(
    limits: InheritedLimits,
    max_running: usize,
    place: RunnerPlace,
    home: Option<&Home>,
) -> Vec<String> {
    let InheritedLimits {
        open_files,
        umask,
        nice,
    } = limits;
    let open_files = open_files.map_or_else(|| "-".to_owned(), |files| files.to_string());
    let mut words = vec![
        "countersign-runner".to_owned(),
        MODE.to_owned(),
        open_files,
        umask.to_string(),
        nice.to_string(),
        max_running.saturating_add(SPARE_SUPERVISORS).to_string(),
        place.to_word(),
    ];
    words.extend(Home::to_words(home));
    words
}

/// Where a runner stands, and what it finds open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunnerPlace {
    /// Beside the server, under the same account: run files and spools.
    Beside,
    /// The same, with namespaces for confined commands.
    Confining,
    /// Under another account than the server, whose number this is: the directory where supervisors wait for it.
    SeparateUser { server: u32 },
}

const BESIDE: &str = "-";
const CONFINING: &str = "confines";

impl RunnerPlace {
    fn to_word(self) -> String {
        match self {
            Self::Beside => BESIDE.to_owned(),
            Self::Confining => CONFINING.to_owned(),
            Self::SeparateUser { server } => server.to_string(),
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            BESIDE => Self::Beside,
            CONFINING => Self::Confining,
            server => Self::SeparateUser {
                server: server.parse().ok()?,
            },
        })
    }
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) limits: InheritedLimits,
    pub(super) max_supervisors: usize,
    pub(super) place: RunnerPlace,
    pub(super) home: Option<Home>,
}

impl Settings {
    pub(super) fn parse(arguments: &[String]) -> Option<Self> {
        let [open_files, umask, nice, max_supervisors, place, home @ ..] = arguments else {
            return None;
        };
        let open_files = if open_files == "-" {
            None
        } else {
            Some(open_files.parse().ok()?)
        };
        let limits = InheritedLimits {
            open_files,
            umask: umask.parse().ok()?,
            nice: nice.parse().ok()?,
        };
        let home: &[String; HOME_WORDS] = home.try_into().ok()?;
        Some(Self {
            limits,
            max_supervisors: max_supervisors.parse().ok()?,
            place: RunnerPlace::of_word(place)?,
            home: Home::of_words(home),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read_back() {
        let home = ["/sys/fs/cgroup/x", "-", "/sys/fs/cgroup/pids/x", "="].map(str::to_owned);
        let home = Home::of_words(&home).unwrap();
        for (open_files, place, home) in [
            (None, RunnerPlace::Beside, None),
            (Some(1024), RunnerPlace::Confining, Some(&home)),
            (Some(7), RunnerPlace::SeparateUser { server: 998 }, None),
        ] {
            let limits = InheritedLimits {
                open_files,
                umask: 0o22,
                nice: -5,
            };
            let arguments = arguments(limits, 1024, place, home);
            assert_eq!(arguments[1], MODE);
            let settings = Settings::parse(&arguments[2..]).unwrap();
            assert_eq!(
                (settings.limits, settings.max_supervisors, settings.place),
                (limits, 1024 + SPARE_SUPERVISORS, place)
            );
            assert_eq!(settings.home.as_ref(), home);
        }
        assert!(Settings::parse(&[]).is_none());
        assert_eq!(RunnerPlace::of_word("nobody"), None);
    }

    #[test]
    fn an_account_that_does_not_read_or_cannot_be_taken_on_ends_the_mode() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for plain in [
            &["__runner"][..],
            &["__runner", "--account"],
            &["__runner", "x", "y"],
        ] {
            let mut arguments = words(plain);
            assert!(become_account(&mut arguments));
            assert_eq!(arguments, words(plain));
        }
        let mut arguments = words(&["__runner", "--account", "somebody"]);
        assert!(!become_account(&mut arguments));
        assert_eq!(arguments, words(&["__runner"]));
    }
}
