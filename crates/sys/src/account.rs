//! Accounts of this machine, and becoming one of them.
//!
//! A process that changes its account here has one thread, or its other threads would keep theirs.
#![expect(
    unsafe_code,
    reason = "the tables of accounts and the session keyring have no safe wrapper in rustix"
)]

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int},
    fmt, io, mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
    str::FromStr,
};

use rustix::{
    fs::{Gid, Uid},
    thread::{CapabilitySet, CapabilitySets},
};

use super::{namespace, process};

/// Longest entry of the table of accounts that is read.
const MAX_ENTRY_BYTES: usize = 1024 * 1024;

/// Most groups of one account that the kernel takes.
const MAX_GROUPS: usize = 65_536;

/// What the kernel knows of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id of the account.
    pub uid: u32,
    /// Id of its main group.
    pub gid: u32,
    /// All groups, that one included.
    pub groups: Vec<u32>,
}

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What the kernel knows of it.
    pub identity: Identity,
    /// Its home directory; `/` for one that has none.
    pub home: PathBuf,
    /// Its login shell, if it has one that runs commands.
    pub shell: Option<PathBuf>,
}

impl Account {
    /// The account that a text names: a name, or `UID` or `UID:GID`, which need no entry in the table of accounts.
    ///
    /// # Errors
    /// When the table cannot be read; `Ok(None)` is a name that is not in it.
    pub fn named(text: &str) -> io::Result<Option<Self>> {
        if let Some(account) = look_up(&Key::Name(text))? {
            return Ok(Some(account));
        }
        let (uid, gid) = match text.split_once(':') {
            Some((uid, gid)) => (number(uid), Some(number(gid))),
            None => (number(text), None),
        };
        match (uid, gid) {
            (Some(uid), None) => Self::of_uid(uid, uid).map(Some),
            (Some(uid), Some(Some(gid))) => {
                let mut account = Self::of_uid(uid, gid)?;
                account.identity = Identity {
                    uid,
                    gid,
                    groups: vec![gid],
                };
                Ok(Some(account))
            }
            (None, _) | (_, Some(None)) => Ok(None),
        }
    }

    /// The account with this id. One that is in no table has this group and no other.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn of_uid(uid: u32, gid: u32) -> io::Result<Self> {
        Ok(look_up(&Key::Uid(uid))?.unwrap_or_else(|| Self {
            name: None,
            identity: Identity {
                uid,
                gid,
                groups: vec![gid],
            },
            home: PathBuf::from("/"),
            shell: None,
        }))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "user {}", self.identity.uid),
        }
    }
}

/// Digits only: no sign, no space, and not the number that means "leave it" to the kernel.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number)?;
    (number != u32::MAX).then_some(number)
}

enum Key<'a> {
    Name(&'a str),
    Uid(u32),
}

fn look_up(key: &Key<'_>) -> io::Result<Option<Account>> {
    let name = match key {
        Key::Name(name) => match CString::new(*name) {
            Ok(name) => Some(name),
            Err(_no_name) => return Ok(None),
        },
        Key::Uid(_) => None,
    };
    let mut buffer: Vec<c_char> = vec![0; 4096];
    loop {
        // SAFETY: plain data, which the call below fills.
        let mut entry: libc::passwd = unsafe { mem::zeroed() };
        let mut found = ptr::null_mut();
        let error = match (&name, key) {
            (Some(name), _) => {
                // SAFETY: the name ends with NUL; entry and buffer are valid for writing and outlive the use of `found`.
                unsafe {
                    libc::getpwnam_r(
                        name.as_ptr(),
                        &raw mut entry,
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut found,
                    )
                }
            }
            (None, Key::Uid(uid)) => {
                // SAFETY: as above.
                unsafe {
                    libc::getpwuid_r(
                        *uid,
                        &raw mut entry,
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut found,
                    )
                }
            }
            (None, Key::Name(_)) => return Ok(None),
        };
        match error {
            libc::ERANGE if buffer.len() < MAX_ENTRY_BYTES => buffer.resize(buffer.len() * 4, 0),
            // What the manual page lists for "not found".
            0 if found.is_null() => return Ok(None),
            libc::ENOENT | libc::ESRCH => return Ok(None),
            0 => return account_of(&entry).map(Some),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn account_of(entry: &libc::passwd) -> io::Result<Account> {
    let text = |text: *const c_char| {
        if text.is_null() {
            return Vec::new();
        }
        // SAFETY: a text of an entry that the C library has just filled ends with NUL, and its buffer lives.
        unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
    };
    let name = text(entry.pw_name);
    let (uid, gid) = (entry.pw_uid, entry.pw_gid);
    let groups = groups_of(&name, gid)?;
    let path = |bytes: Vec<u8>| PathBuf::from(OsStr::from_bytes(&bytes));
    let home = path(text(entry.pw_dir));
    let shell = path(text(entry.pw_shell));
    Ok(Account {
        name: String::from_utf8(name).ok(),
        identity: Identity { uid, gid, groups },
        home: if home.is_absolute() {
            home
        } else {
            PathBuf::from("/")
        },
        shell: Some(shell).filter(|shell| runs_commands(shell)),
    })
}

/// Shells of accounts that nobody logs in to refuse every command.
fn runs_commands(shell: &Path) -> bool {
    let refuses = |name: &OsStr| name == "nologin" || name == "false" || name == "true" || name == "sync";
    shell.is_absolute() && !shell.file_name().is_none_or(refuses)
}

fn groups_of(name: &[u8], gid: u32) -> io::Result<Vec<u32>> {
    let name = CString::new(name)?;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = c_int::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: the name ends with NUL, and `count` says how many groups there is room for.
        let result = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).map_err(io::Error::other)?;
        if result >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= MAX_GROUPS {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        groups.resize(count.max(groups.len() * 2).min(MAX_GROUPS), 0);
    }
}

impl Identity {
    /// That of this process.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn of_this_process() -> io::Result<Self> {
        let groups = rustix::process::getgroups()?;
        Ok(Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        })
    }

    /// Does something with the rights that this account has to files, and comes back. Only root can.
    ///
    /// # Errors
    /// What the kernel answers. When it does not let this process come back, `work` was done.
    pub fn act_as<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        check_single_thread()?;
        let before = Self::of_this_process()?;
        set_groups(&self.groups)?;
        rustix::thread::set_thread_res_gid(None, Gid::from_raw(self.gid), None)?;
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(self.uid), None)?;
        process::forbid_dumping()?;
        let done = work();
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(before.uid), None)?;
        rustix::thread::set_thread_res_gid(None, Gid::from_raw(before.gid), None)?;
        set_groups(&before.groups)?;
        process::forbid_dumping()?;
        Ok(done)
    }

    /// Makes this process one of that account, with no way back and no privilege left, and nothing of the session of
    /// its former account. What it starts may still gain privileges as anything of that account may.
    ///
    /// # Errors
    /// What the kernel answers; then this process must end.
    pub fn assume(&self) -> io::Result<()> {
        check_single_thread()?;
        set_groups(&self.groups)?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        drop_capabilities()?;
        new_keyring();
        // A change of account may have taken it back.
        process::forbid_dumping()?;
        // Root must not come back in any odd mode in which the process was started (`SECBIT_NO_SETUID_FIXUP` for one).
        let mut wanted = self.clone();
        let mut now = Self::of_this_process()?;
        wanted.groups.sort_unstable();
        wanted.groups.dedup();
        now.groups.sort_unstable();
        now.groups.dedup();
        let comes_back = self.uid != 0 && rustix::thread::set_thread_res_uid(None, Uid::ROOT, None).is_ok();
        if now == wanted && !comes_back {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    }

    /// The same, and neither this process nor what it starts gains any privilege ever again.
    ///
    /// # Errors
    /// As [`Identity::assume`].
    pub fn assume_without_privileges(&self) -> io::Result<()> {
        namespace::drop_bounding_set()?;
        rustix::thread::set_no_new_privs(true)?;
        self.assume()
    }
}

/// Gives up every capability, ambient ones included: what is started has none either.
///
/// # Errors
/// What the kernel answers.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

fn check_single_thread() -> io::Result<()> {
    if process::thread_count() == 1 {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    Ok(rustix::thread::set_thread_groups(&groups)?)
}

/// A process that shares a session's keyring can read what is in it, under any account.
fn new_keyring() {
    const JOIN_SESSION_KEYRING: c_int = 1;
    let no_name = ptr::null::<c_char>();
    // SAFETY: without a name the kernel reads nothing. One that has no keyrings refuses, and then there is none to share.
    unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, no_name) };
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, gid, groups } = self;
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        write!(f, "{uid}:{gid}:{}", groups.join(","))
    }
}

/// The text is not one that an [`Identity`] is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no identity")]
pub struct NoIdentity;

impl FromStr for Identity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(NoIdentity);
        let uid = number(part()?).ok_or(NoIdentity)?;
        let gid = number(part()?).ok_or(NoIdentity)?;
        let groups = match part()? {
            "" => Vec::new(),
            groups => groups
                .split(',')
                .map(|group| number(group).ok_or(NoIdentity))
                .collect::<Result<_, _>>()?,
        };
        match parts.next() {
            None => Ok(Self { uid, gid, groups }),
            Some(_) => Err(NoIdentity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let root = Account::named("root").unwrap().unwrap();
        assert_eq!((root.identity.uid, root.identity.gid), (0, 0));
        assert!(root.identity.groups.contains(&0) && root.home.is_absolute());
        assert_eq!(Account::named("0").unwrap(), Some(root));
        for nobody in [
            "no-such-account",
            "",
            "-1",
            "1:",
            ":1",
            "1:x",
            "1:2:3",
            "4294967295",
            " 1",
            "a\0b",
        ] {
            assert_eq!(Account::named(nobody).unwrap(), None, "{nobody:?}");
        }
    }

    #[test]
    fn a_number_without_an_entry_is_an_account_too() {
        let account = Account::named("3999123").unwrap().unwrap();
        let expect = Account {
            name: None,
            identity: Identity {
                uid: 3_999_123,
                gid: 3_999_123,
                groups: vec![3_999_123],
            },
            home: "/".into(),
            shell: None,
        };
        assert_eq!(account, expect);
        let with_group = Account::named("3999123:77").unwrap().unwrap();
        assert_eq!(with_group.identity.groups, [77]);
        assert_eq!(with_group.identity.gid, 77);
    }

    #[test]
    fn a_shell_that_refuses_everything_is_none() {
        for shell in ["/usr/sbin/nologin", "/bin/false", "/bin/sync", "relative/sh", ""] {
            assert!(!runs_commands(Path::new(shell)), "{shell}");
        }
        assert!(runs_commands(Path::new("/bin/sh")));
    }

    #[test]
    fn an_identity_is_read_back_whole_or_not_at_all() {
        for groups in [vec![], vec![5], vec![5, 6, 7]] {
            let identity = Identity {
                uid: 1000,
                gid: 5,
                groups,
            };
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
        for foreign in ["", "1", "1:2", "1:2:3:4", "1:2:x", "-1:2:3", "1:2:3,", "+1:2:3"] {
            assert_eq!(foreign.parse::<Identity>(), Err(NoIdentity), "{foreign}");
        }
    }
}
