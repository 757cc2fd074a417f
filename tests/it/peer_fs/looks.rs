//! What is seen, and what is not.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use countersign_config::approvals::binding::{Candidate, bind_scripts};
use countersign_hosts::{
    path_lookup::SystemLookup,
    peer_fs::{FileAccessError, Files},
    workdir::{Workdir, WorkdirError, default_workspace},
};
use countersign_policy::command::{DirectoryTrust, PathLookup};
use rustix::fs::{CWD, FileType, Mode};

use super::Account;
use crate::support::program;

#[test]
fn a_closed_home_is_seen_and_what_is_closed_to_it_is_not() {
    let account = or_skip!(Account::new());
    let bin = account.directory("home/bin", account.uid, 0o755);
    let closed = account.directory("closed", 0, 0o700);
    account.file("home/bin/tool", account.uid, 0o700, "#!/bin/sh\n");
    account.file("closed/tool", 0, 0o755, "#!/bin/sh\n");
    let broker = account.broker();
    let lookup = broker.lookup(&[closed.clone(), bin.clone()]);
    // What root would find first is not there for the account.
    let direct = SystemLookup::new([closed, bin], "/".to_owned(), &Files::Direct);
    assert_eq!(direct.search("tool"), Some(account.text("closed/tool")));
    assert_eq!(lookup.search("tool"), Some(account.text("home/bin/tool")));
    assert_eq!(lookup.real(&account.text("closed/tool")), None);
    assert_eq!(lookup.inspect(&account.text("closed/tool")), None);
    for path in ["home/bin/tool", "home/../home/bin//tool"] {
        let seen = lookup.inspect(&account.text(path)).unwrap();
        assert_eq!(Some(seen), direct.inspect(&account.text(path)), "{path}");
    }
    assert_eq!(lookup.check(), Ok(()));
}

#[test]
fn links_lead_where_they_lead_for_the_account() {
    let account = or_skip!(Account::new());
    account.directory("home/bin", account.uid, 0o755);
    account.directory("open", 0, 0o755);
    account.file("open/tool", 0, 0o755, "");
    symlink(account.path("open/tool"), account.path("home/bin/link")).unwrap();
    symlink("/proc/self/cwd", account.path("home/here")).unwrap();
    let broker = account.broker();
    let lookup = broker.lookup(&[]);
    let link = account.text("home/bin/link");
    assert_eq!(lookup.real(&link), Some(account.text("open/tool")));
    assert_eq!(
        lookup.inspect(&link).unwrap().identity.path,
        account.text("open/tool")
    );
    // What would be started is what is at the end.
    assert_eq!(
        lookup.identity(&link),
        lookup.identity(&account.text("open/tool"))
    );
    assert!(lookup.depends_on_process(&account.text("home/here/x")));
    assert!(!lookup.depends_on_process(&link));
}

#[test]
fn directories_are_trusted_by_owner_and_mode() {
    let account = or_skip!(Account::new());
    let broker = account.broker();
    for (name, owner, mode, expected) in [
        ("roots", 0, 0o755, DirectoryTrust::Ours),
        ("own", account.uid, 0o755, DirectoryTrust::Ours),
        ("third", account.uid + 1, 0o755, DirectoryTrust::Foreign),
        ("group", account.uid, 0o775, DirectoryTrust::Foreign),
        ("others", 0, 0o757, DirectoryTrust::Foreign),
    ] {
        let directory = account.directory(name, owner, mode);
        account.file(&format!("{name}/tool"), owner, 0o755, "");
        let path = account.text(name);
        assert_eq!(broker.lookup(&[]).directory_trust(&path), expected, "{name}");
        // The same when it came along with a program.
        let lookup = broker.lookup(&[directory]);
        assert!(lookup.search("tool").is_some());
        assert_eq!(lookup.directory_trust(&path), expected, "{name}");
    }
    let lookup = broker.lookup(&[]);
    assert_eq!(
        lookup.directory_trust(&account.text("none")),
        DirectoryTrust::Foreign
    );
    assert_eq!(lookup.directory_trust("/bin/sh"), DirectoryTrust::Foreign);
}

#[test]
fn scripts_are_read_as_the_account_reads_them() {
    let account = or_skip!(Account::new());
    account.file("home/own.sh", account.uid, 0o700, "echo own\n");
    account.file("roots.sh", 0, 0o600, "echo secret\n");
    let broker = account.broker();
    let lookup = broker.lookup(&[]);
    let refused = lookup.open_regular(&account.path("roots.sh")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    let bind = |files: &Files| {
        let scripts = [account.path("roots.sh"), account.path("home/own.sh")].map(Candidate::operand);
        bind_scripts(scripts, |path| files.open_regular(path)).scripts
    };
    let own = bind(&broker.files());
    assert_eq!((own.len(), &own[0].path), (1, &account.text("home/own.sh")));
    // Root reads both, so both would be bound.
    assert_ne!(bind(&Files::Direct), own);
    let identity = lookup.inspect(&account.text("home/own.sh")).unwrap().identity;
    let seen_by_root = SystemLookup::new([], "/".to_owned(), &Files::Direct).content_sha256(&identity);
    assert!(seen_by_root.is_some());
    assert_eq!(lookup.content_sha256(&identity), seen_by_root);
}

#[test]
fn only_regular_files_are_ever_opened_for_reading() {
    let account = or_skip!(Account::new());
    rustix::fs::mknodat(
        CWD,
        account.path("home/fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o777),
        0,
    )
    .unwrap();
    let broker = account.broker();
    let lookup = broker.lookup(&[account.path("home")]);
    for path in [
        account.path("home/fifo"),
        "/dev/zero".into(),
        "/dev/tty".into(),
        "/proc".into(),
    ] {
        let error = lookup.open_regular(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
    }
    // Looked at, a FIFO is something, but no program and no script.
    let fifo = account.text("home/fifo");
    assert_eq!(lookup.real(&fifo), Some(fifo.clone()));
    assert_eq!((lookup.inspect(&fifo), lookup.search("fifo")), (None, None));
    assert_eq!(
        bind_scripts([Candidate::operand(account.path("home/fifo"))], |path| lookup
            .open_regular(path))
        .scripts,
        []
    );
    assert_eq!(lookup.check(), Ok(()));
}

#[test]
fn a_huge_file_is_bound_by_what_it_is_and_not_read() {
    let account = or_skip!(Account::new());
    let path = account.file("home/huge", account.uid, 0o700, "");
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let broker = account.broker();
    let lookup = broker.lookup(&[]);
    let huge = lookup.inspect(&account.text("home/huge")).unwrap().identity;
    assert_eq!(lookup.content_sha256(&huge), None);
    let bind = || {
        bind_scripts([Candidate::operand(path.clone())], |path| {
            lookup.open_regular(path)
        })
    };
    let before = bind();
    assert_eq!(bind(), before);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len((1 << 40) + 1)
        .unwrap();
    assert_ne!(bind(), before);
}

#[test]
fn links_in_a_circle_lead_nowhere() {
    let account = or_skip!(Account::new());
    symlink(account.path("home/b"), account.path("home/a")).unwrap();
    symlink(account.path("home/a"), account.path("home/b")).unwrap();
    let broker = account.broker();
    let lookup = broker.lookup(&[account.path("home")]);
    let path = account.text("home/a");
    assert_eq!(
        (lookup.real(&path), lookup.inspect(&path), lookup.search("a")),
        (None, None, None)
    );
    assert!(!lookup.depends_on_process(&path));
    assert!(lookup.open_regular(Path::new(&path)).is_err());
    assert!(matches!(
        Workdir::at(Path::new(&path), &broker.files()),
        Err(WorkdirError::Missing(_))
    ));
    assert_eq!(lookup.check(), Ok(()));
}

#[test]
fn whoever_renames_while_we_look_mixes_nothing() {
    let account = or_skip!(Account::new());
    for name in ["one", "two"] {
        account.directory(&format!("home/{name}"), account.uid, 0o755);
        account.file(&format!("home/{name}/tool"), account.uid, 0o755, name);
    }
    let expected = ["one", "two"].map(|name| {
        let file = format!("home/{name}/tool");
        (account.text(&file), account.inode(&file))
    });
    let broker = account.broker();
    let done = std::sync::atomic::AtomicBool::new(false);
    let link = account.text("home/link");
    symlink(account.path("home/one"), &link).unwrap();
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for name in ["one", "two"] {
                    symlink(account.path(&format!("home/{name}")), account.path("home/next")).unwrap();
                    fs::rename(account.path("home/next"), &link).unwrap();
                }
            }
        });
        let mut seen = Vec::new();
        // Both have to be seen, however seldom a busy machine lets the two threads run side by side.
        let mut missing = expected.to_vec();
        for looks in 0..100_000 {
            if looks >= 2000 && missing.is_empty() {
                break;
            }
            // A new lookup each time: one alone would look once.
            let found = broker
                .lookup(&[])
                .inspect(&format!("{link}/tool"))
                .map(|found| found.identity);
            seen.extend(found.map(|identity| (identity.path, identity.ino)));
            missing.retain(|identity| seen.last() != Some(identity));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        seen
    });
    for identity in &seen {
        assert!(
            expected.contains(identity),
            "{identity:?} is in neither of {expected:?}"
        );
    }
    for identity in &expected {
        assert!(
            seen.contains(identity),
            "the race was none: {identity:?} was never seen"
        );
    }
}

#[test]
fn the_workspace_is_made_by_the_account_in_its_home() {
    let account = or_skip!(Account::new());
    let broker = account.broker();
    let files = broker.files();
    let state = Path::new("/var/lib/countersign/workspace");
    assert_eq!(default_workspace(state, Files::Direct.account_home()), state);
    let path = default_workspace(state, files.account_home());
    assert_eq!(path, account.path("home/.countersign/workspace"));
    // Nothing is made for a question.
    assert_eq!(Workdir::future_workspace(&path, &files).unwrap().ino, 0);
    assert!(!path.exists());
    let made = Workdir::workspace(&path, &files).unwrap();
    assert_eq!(
        (made.path.clone(), made.ino),
        (path.clone(), account.inode("home/.countersign/workspace"))
    );
    for directory in [path.as_path(), path.parent().unwrap()] {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(directory).unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (account.uid, 0o700));
    }
    assert_eq!(Workdir::workspace(&path, &files).unwrap(), made);
    account.directory("roots", 0, 0o755);
    assert!(matches!(
        Workdir::workspace(&account.path("roots/workspace"), &files),
        Err(WorkdirError::Missing(error)) if error.kind() == io::ErrorKind::PermissionDenied
    ));
}

#[test]
fn working_directories_are_entered_as_the_account() {
    let account = or_skip!(Account::new());
    account.directory("home/work", account.uid, 0o700);
    account.directory("closed", 0, 0o700);
    account.directory("closed/inner", 0, 0o755);
    let broker = account.broker();
    let files = broker.files();
    let home = account.path("home");
    let found = Workdir::named("~/work", &home, &files).unwrap();
    assert_eq!(
        (found.path, found.ino),
        (account.path("home/work"), account.inode("home/work"))
    );
    assert!(matches!(
        Workdir::named(&account.text("closed/inner"), &home, &files),
        Err(WorkdirError::Missing(_))
    ));
    assert!(matches!(
        Workdir::named("/bin/sh", &home, &files),
        Err(WorkdirError::NotADirectory)
    ));
    assert!(matches!(
        files.open_directory(Path::new("/bin/sh")),
        Err(FileAccessError::Refused(_))
    ));
    files.open_directory(&account.path("home/work")).unwrap();
}

#[test]
fn a_view_from_another_mount_namespace_is_the_accounts() {
    let account = or_skip!(Account::new());
    let unshare = or_skip!(program("unshare"));
    account.directory("home/bin", account.uid, 0o755);
    account.file("home/bin/tool", account.uid, 0o755, "");
    let mut broker = account.broker();
    broker.again(account.uid, &[unshare.to_str().unwrap(), "--mount", "--"]);
    let lookup = broker.lookup(&[account.path("home/bin")]);
    let found = lookup.search("tool");
    assert_eq!(lookup.check(), Ok(()));
    assert_eq!(found, Some(account.text("home/bin/tool")));
    let seen = lookup.inspect(&account.text("home/bin/tool")).unwrap();
    assert_eq!(
        (seen.real, seen.identity.ino),
        (account.text("home/bin/tool"), account.inode("home/bin/tool"))
    );
}
