//! The file-system cases of the oracle on real directories, and what writers do to each other.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use serde_json::{Value, json};

use countersign_domain::{Precondition, Secret, Security, UnixMillis};
use countersign_policy::combine::DocumentPolicy;
use countersign_sys::{
    clock::{Clock as _, Ids as _, ManualClock, SeededIds, SystemClock, SystemIds},
    fs::{PRIVATE_FILE, create_private_file, replace_file},
};

use super::{
    document::{
        Document, Incoming, MAX_BYTES, NewPattern, PolicyFields, PolicyTarget, Refusal, RefusalReason,
    },
    store::{Base, DocumentStatus, DocumentStore, LeftLock, Snapshot, StaleLock, StoreError, UpdateError},
};

const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const GOOD: &str =
    "{\n  \"version\": 1,\n  \"defaults\": {\n    \"security\": \"full\"\n  },\n  \"agents\": {}\n}\n";
/// Larger than any process id the system gives.
const DEAD: u32 = 0x7fff_fff0;

/// A home directory with a state directory in it.
struct World {
    home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            home: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(world.state()).unwrap();
        world
    }

    fn with(text: &str) -> Self {
        let world = Self::new();
        replace_file(&world.path(), text.as_bytes(), PRIVATE_FILE).unwrap();
        world
    }

    fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    fn path(&self) -> PathBuf {
        self.state().join("exec-approvals.json")
    }

    fn lock(&self) -> PathBuf {
        self.state().join("exec-approvals.json.lock")
    }

    fn store(&self) -> DocumentStore {
        let home = self.home.path().to_owned();
        DocumentStore::open(self.path(), home, Arc::new(SystemClock), Arc::new(SystemIds))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn mode(&self) -> u32 {
        fs::symlink_metadata(self.path()).unwrap().mode() & 0o7777
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.state()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn add(store: &DocumentStore, pattern: &str) -> Result<Arc<Snapshot>, UpdateError<()>> {
    let new = NewPattern {
        pattern: pattern.to_owned(),
        ..NewPattern::default()
    };
    let added = store.update(Base::Any, |document| {
        document.add_pattern("main", SystemIds.entry_id(), new.clone(), UnixMillis::new(1));
        Ok(())
    });
    added.map(|((), snapshot)| snapshot)
}

fn force(
    store: &DocumentStore,
    base: Base<'_>,
    new: &Document,
) -> Result<Option<(Arc<Snapshot>, PathBuf)>, UpdateError<()>> {
    store.force_replace(base, new, |_pending| Ok(()))
}

fn patterns(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .entries("main")
        .iter()
        .map(|listed| listed.item.pattern.clone())
        .collect()
}

/// The file is refused for this reason, everybody is denied, and writing neither succeeds nor touches anything.
#[track_caller]
fn refused(world: &World, reason: RefusalReason) {
    let before = fs::symlink_metadata(world.path())
        .ok()
        .map(|metadata| (metadata.ino(), metadata.mtime_nsec()));
    let store = world.store();
    let snapshot = store.snapshot();
    let DocumentStatus::Refused(refusal) = &snapshot.status else {
        panic!("{snapshot:?}")
    };
    assert_eq!((refusal.reason, refusal.pointer.as_str()), (reason, ""));
    assert_eq!(snapshot.policy("main"), DocumentPolicy::refused());
    assert_eq!(snapshot.document(), None);
    let error = add(&store, "/bin/ls").unwrap_err();
    assert!(
        matches!(error, UpdateError::Store(StoreError::Refused { .. })),
        "{error:?}"
    );
    let error = store
        .replace(Base::Any, &Document::default(), Incoming::Ours)
        .unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    let after = fs::symlink_metadata(world.path())
        .ok()
        .map(|metadata| (metadata.ino(), metadata.mtime_nsec()));
    assert_eq!(before, after);
    assert!(!world.lock().exists());
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn every_file_case_of_the_oracle_has_its_test_here() {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/approvals/index.json");
    let index: Value = serde_json::from_slice(&fs::read(index).unwrap()).unwrap();
    let names: Vec<&str> = index["fileCases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "missing",
            "symlink to a good document",
            "symlink in a parent under the home directory",
            "directory in its place",
            "fifo in its place",
            "hard link",
            "mode 0644",
            "group or other writable",
            "foreign owner",
            "unreadable",
            "too large",
            "just fits",
            "stale temp file",
            "live lock",
            "stale lock",
            "changed between read and write",
            "refused file and a write request",
        ]
    );
}

#[test]
fn missing_file_is_an_empty_document_and_the_first_write_makes_it_private() {
    let world = World::new();
    fs::remove_dir(world.state()).unwrap();
    let store = world.store();
    let snapshot = store.snapshot();
    assert_eq!(snapshot.status, DocumentStatus::Missing);
    assert_eq!(snapshot.hash, format!("missing:{EMPTY_HASH}"));
    assert!(snapshot.has_hash(EMPTY_HASH) && snapshot.has_hash(&snapshot.hash));
    assert_eq!(snapshot.policy("main"), DocumentPolicy::silent());
    assert!(!world.state().exists());

    let snapshot = add(&store, "/bin/ls").unwrap();
    assert_eq!(snapshot.status, DocumentStatus::Ok);
    assert_eq!(world.mode(), 0o600);
    assert_eq!(fs::metadata(world.state()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(world.names(), ["exec-approvals.json"]);
    let token = snapshot
        .document()
        .and_then(Document::socket_token)
        .map(Secret::expose)
        .unwrap();
    assert_eq!(token.len(), 32);
    let mut value: Value = serde_json::from_str(&world.text()).unwrap();
    value["socket"]["token"] = json!("t");
    value["agents"]["main"]["allowlist"][0]["id"] = json!("i");
    assert_eq!(
        value,
        json!({"version": 1, "socket": {"token": "t"}, "defaults": {},
            "agents": {"main": {"allowlist": [{"id": "i", "pattern": "/bin/ls", "lastUsedAt": 1}]}}})
    );
}

#[test]
fn symlink_to_a_good_document_is_refused_and_neither_end_changes() {
    let world = World::new();
    let target = world.home.path().join("good.json");
    replace_file(&target, GOOD.as_bytes(), PRIVATE_FILE).unwrap();
    symlink(&target, world.path()).unwrap();
    refused(&world, RefusalReason::Symlink);
    assert_eq!(fs::read_to_string(&target).unwrap(), GOOD);
    assert!(fs::symlink_metadata(world.path()).unwrap().is_symlink());
    let error = force(&world.store(), Base::Any, &Document::default()).unwrap_err();
    assert!(
        matches!(error, UpdateError::Store(StoreError::Refused { .. })),
        "{error:?}"
    );
}

#[test]
fn symlink_in_a_parent_below_home_is_refused_but_not_above() {
    let world = World::new();
    fs::remove_dir(world.state()).unwrap();
    let elsewhere = world.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    replace_file(
        &elsewhere.join("exec-approvals.json"),
        GOOD.as_bytes(),
        PRIVATE_FILE,
    )
    .unwrap();
    symlink(&elsewhere, world.state()).unwrap();
    refused(&world, RefusalReason::SymlinkParent);
    let home_below = world.state();
    let store = DocumentStore::open(
        world.path(),
        home_below,
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    );
    assert_eq!(store.snapshot().status, DocumentStatus::Ok);
}

#[test]
fn symlink_in_a_parent_below_home_is_refused_however_the_home_is_called() {
    let world = World::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let alias = elsewhere.path().join("home");
    symlink(world.home.path(), &alias).unwrap();
    fs::remove_dir(world.state()).unwrap();
    let real = world.home.path().join("real");
    fs::create_dir(&real).unwrap();
    replace_file(&real.join("exec-approvals.json"), GOOD.as_bytes(), PRIVATE_FILE).unwrap();
    symlink(&real, world.state()).unwrap();
    let status = |home: &Path, directory: &Path| {
        let store = DocumentStore::open(
            directory.join("exec-approvals.json"),
            home.to_owned(),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
        );
        store.snapshot().status.clone()
    };
    let refused = DocumentStatus::Refused(Refusal::whole(RefusalReason::SymlinkParent));
    assert_eq!(status(&alias, &world.state()), refused);
    assert_eq!(status(world.home.path(), &alias.join("state")), refused);
    // The link above the home is nobody's business, and what lies elsewhere is not below it.
    assert_eq!(status(world.home.path(), &alias.join("real")), DocumentStatus::Ok);
    assert_eq!(status(&alias, &real), DocumentStatus::Ok);
}

#[test]
fn directory_in_its_place_is_refused() {
    let world = World::new();
    fs::create_dir(world.path()).unwrap();
    refused(&world, RefusalReason::NotRegularFile);
}

#[test]
fn fifo_in_its_place_is_refused_without_blocking() {
    let world = World::new();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, world.path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused(&world, RefusalReason::NotRegularFile);
}

#[test]
fn hard_link_is_replaced_by_name_and_keeps_its_content_elsewhere() {
    let world = World::with(GOOD);
    let other = world.home.path().join("other");
    fs::hard_link(world.path(), &other).unwrap();
    let store = world.store();
    assert_eq!(store.snapshot().status, DocumentStatus::Ok);
    add(&store, "/bin/ls").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), GOOD);
    assert_ne!(world.text(), GOOD);
}

#[test]
fn loose_mode_is_a_warning_that_the_next_write_ends() {
    for changing in [true, false] {
        let world = World::with(GOOD);
        world.set_mode(0o644);
        let store = world.store();
        let snapshot = store.snapshot();
        assert_eq!(snapshot.status, DocumentStatus::Ok);
        let codes: Vec<&str> = snapshot
            .warnings
            .iter()
            .map(super::document::Warning::code)
            .collect();
        assert_eq!(codes, ["loose-mode"]);
        let written = store.update(Base::Any, |document| {
            if changing {
                document.set_policy(PolicyTarget::Defaults, PolicyFields::default());
            }
            Ok::<_, ()>(())
        });
        let ((), snapshot) = written.unwrap();
        assert_eq!(snapshot.warnings, []);
        assert_eq!(world.mode(), 0o600);
        assert_eq!(world.text() == GOOD, !changing);
    }
}

#[test]
fn writable_by_group_or_others_is_refused() {
    for mode in [0o666, 0o620, 0o602] {
        let world = World::with(GOOD);
        world.set_mode(mode);
        refused(&world, RefusalReason::UnsafeMode);
        assert_eq!(world.mode(), mode);
    }
}

#[test]
fn foreign_owner_is_refused() {
    let world = World::with(GOOD);
    if !is_root() {
        // Only root can give files away; the container that runs the tests is root's.
        assert_eq!(world.store().snapshot().status, DocumentStatus::Ok);
        return;
    }
    std::os::unix::fs::chown(world.path(), Some(12_345), None).unwrap();
    refused(&world, RefusalReason::WrongOwner);
}

#[test]
fn unreadable_file_is_refused() {
    let world = World::with(GOOD);
    if is_root() {
        // Root reads everything; a file where a directory should be keeps root out too.
        let store = DocumentStore::open(
            world.path().join("exec-approvals.json"),
            world.home.path().to_owned(),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
        );
        assert_eq!(
            store.snapshot().status,
            DocumentStatus::Refused(Refusal::whole(RefusalReason::Io))
        );
        return;
    }
    world.set_mode(0);
    refused(&world, RefusalReason::Io);
}

#[test]
fn sixteen_mebibytes_fit_and_one_byte_more_is_refused_with_size_and_limit() {
    let padded = |size: usize| format!("{GOOD}{}", " ".repeat(size - GOOD.len()));
    let world = World::with(&padded(MAX_BYTES));
    assert_eq!(world.store().snapshot().status, DocumentStatus::Ok);
    let world = World::with(&padded(MAX_BYTES + 1));
    refused(&world, RefusalReason::TooLarge);
    let DocumentStatus::Refused(refusal) = &world.store().snapshot().status else {
        panic!()
    };
    assert_eq!(
        refusal.to_string(),
        "the approvals document is refused: too-large, 16777217 bytes of at most 16777216"
    );
    let sent = Document::parse(padded(MAX_BYTES + 2).as_bytes());
    assert_eq!(sent.unwrap_err(), Refusal::too_large(16_777_218));
}

#[test]
fn stale_temporary_file_is_left_alone() {
    let world = World::with(GOOD);
    let stale = ".exec-approvals.1.3f0e7c5a-1b2d-4c3e-8f40-000000000001.tmp";
    create_private_file(&world.state().join(stale), b"half").unwrap();
    let store = world.store();
    add(&store, "/bin/ls").unwrap();
    assert_eq!(world.names(), [stale, "exec-approvals.json"]);
}

fn lock_text(pid: u32, starttime: Option<u64>, created_at: &str) -> String {
    let mut holder = json!({"pid": pid, "createdAt": created_at, "nonce": "n"});
    if let Some(starttime) = starttime {
        holder["starttime"] = json!(starttime);
    }
    format!("{holder}\n")
}

#[test]
fn live_lock_makes_a_write_give_up_after_a_bounded_wait() {
    let world = World::with(GOOD);
    let text = lock_text(std::process::id(), None, "2026-01-01T00:00:00.000Z");
    create_private_file(&world.lock(), text.as_bytes()).unwrap();
    let store = world.store();
    assert_eq!(store.snapshot().status, DocumentStatus::Ok);
    let error = add(&store, "/bin/ls").unwrap_err();
    assert!(
        matches!(error, UpdateError::Store(StoreError::Locked)),
        "{error:?}"
    );
    assert_eq!(world.text(), GOOD);
    assert_eq!(fs::read_to_string(world.lock()).unwrap(), text);
    assert_eq!(store.left_lock().unwrap(), None);
    assert_eq!(store.remove_stale_lock().unwrap(), StaleLock::Held);
}

#[test]
fn stale_lock_is_an_error_and_never_taken_over() {
    let dead = lock_text(DEAD, None, "2026-01-01T00:00:00.000Z");
    let reused = lock_text(std::process::id(), Some(1), "2026-01-01T00:00:00.000Z");
    for (text, pid) in [(dead, DEAD), (reused, std::process::id())] {
        let world = World::with(GOOD);
        create_private_file(&world.lock(), text.as_bytes()).unwrap();
        let store = world.store();
        assert_eq!(store.snapshot().status, DocumentStatus::Ok);
        let error = add(&store, "/bin/ls").unwrap_err();
        assert!(
            matches!(error, UpdateError::Store(StoreError::LockStale { pid: Some(found) }) if found == pid),
            "{error:?}"
        );
        assert_eq!(world.text(), GOOD);
        assert_eq!(fs::read_to_string(world.lock()).unwrap(), text);
    }
}

#[test]
fn an_operator_removes_only_a_lock_of_a_process_that_died_since_the_start_of_the_machine() {
    let world = World::with(GOOD);
    let store = world.store();
    let left = |is_of_this_boot| {
        Some(LeftLock {
            path: fs::canonicalize(world.state())
                .unwrap()
                .join("exec-approvals.json.lock"),
            pid: Some(DEAD),
            is_of_this_boot,
        })
    };
    assert_eq!(store.remove_stale_lock().unwrap(), StaleLock::None);
    assert_eq!(store.left_lock().unwrap(), None);
    let old = lock_text(DEAD, None, "1999-01-01T00:00:00.000Z");
    create_private_file(&world.lock(), old.as_bytes()).unwrap();
    assert_eq!(store.left_lock().unwrap(), left(false));
    assert_eq!(store.remove_stale_lock().unwrap(), StaleLock::Unknown);
    fs::remove_file(world.lock()).unwrap();
    let now = jiff::Timestamp::from_millisecond(SystemClock.now().get()).unwrap();
    let recent = lock_text(DEAD, None, &format!("{now:.3}"));
    create_private_file(&world.lock(), recent.as_bytes()).unwrap();
    assert_eq!(store.left_lock().unwrap(), left(true));
    assert_eq!(
        store.remove_stale_lock().unwrap(),
        StaleLock::Removed { pid: DEAD }
    );
    assert!(!world.lock().exists());
    add(&store, "/bin/ls").unwrap();
}

#[test]
fn the_lock_is_in_the_form_that_the_product_reads_and_gone_afterwards() {
    let world = World::with(GOOD);
    let home = world.home.path().to_owned();
    let clock = Arc::new(ManualClock::at(UnixMillis::new(1_781_000_000_000)));
    let store = DocumentStore::open(world.path(), home, clock, Arc::new(SeededIds::default()));
    let lock = world.lock();
    let (text, _snapshot) = store
        .update(Base::Any, |_document| {
            assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o7777, 0o600);
            Ok::<_, ()>(fs::read_to_string(&lock).unwrap())
        })
        .unwrap();
    assert!(text.ends_with("}\n"), "{text}");
    let mut holder: Value = serde_json::from_str(&text).unwrap();
    assert!(holder["starttime"].as_u64().is_some_and(|ticks| ticks > 0) || cfg!(not(target_os = "linux")));
    holder.as_object_mut().unwrap().remove("starttime");
    assert_eq!(
        holder,
        json!({"pid": std::process::id(), "createdAt": "2026-06-09T10:13:20.000Z",
            "nonce": "00000000-0000-0000-0000-000000000001"})
    );
    assert!(!lock.exists());
}

#[test]
fn a_lock_that_is_no_longer_ours_is_not_released() {
    let world = World::with(GOOD);
    let store = world.store();
    let foreign = lock_text(std::process::id(), None, "2026-01-01T00:00:00.000Z");
    store
        .update(Base::Any, |_document| {
            fs::remove_file(world.lock()).unwrap();
            create_private_file(&world.lock(), foreign.as_bytes()).unwrap();
            Ok::<_, ()>(())
        })
        .unwrap();
    assert_eq!(fs::read_to_string(world.lock()).unwrap(), foreign);
}

#[test]
fn a_stale_base_keeps_what_another_writer_wrote() {
    let world = World::with(GOOD);
    let store = world.store();
    let base = store.snapshot().hash.clone();
    let other = GOOD.replace("full", "deny");
    replace_file(&world.path(), other.as_bytes(), PRIVATE_FILE).unwrap();
    let error = store
        .replace(Base::Hash(&base), &Document::default(), Incoming::Ours)
        .unwrap_err();
    let current = store.snapshot().hash.clone();
    assert!(
        matches!(&error, StoreError::BaseHashMismatch { current: found } if *found == current),
        "{error:?}"
    );
    assert_eq!(world.text(), other);
    store
        .replace(Base::Hash(&current), &Document::default(), Incoming::Ours)
        .unwrap();
    assert_eq!(world.text(), "{\n  \"version\": 1\n}\n");
}

#[test]
fn a_writer_that_ignores_the_lock_is_noticed_and_its_change_kept() {
    let world = World::with(GOOD);
    let store = world.store();
    let other = r#"{"version":1,"agents":{"main":{"allowlist":["/other"]}}}"#;
    let mut calls = 0;
    let ((), snapshot) = store
        .update(Base::Any, |document| {
            calls += 1;
            if calls == 1 {
                replace_file(&world.path(), other.as_bytes(), PRIVATE_FILE).unwrap();
            }
            let new = NewPattern {
                pattern: "/ours".to_owned(),
                ..NewPattern::default()
            };
            document.add_pattern("main", SystemIds.entry_id(), new, UnixMillis::new(1));
            Ok::<_, ()>(())
        })
        .unwrap();
    assert_eq!(calls, 2);
    assert_eq!(patterns(&snapshot), ["/other", "/ours"]);
    assert_eq!(world.names(), ["exec-approvals.json"]);
}

#[test]
fn a_base_is_needed_once_there_is_a_document() {
    let world = World::new();
    let store = world.store();
    store
        .replace(Base::Absent, &Document::default(), Incoming::Ours)
        .unwrap();
    assert_eq!(
        store.snapshot().status,
        DocumentStatus::Missing,
        "an empty document changes nothing"
    );
    let new = Document::parse(GOOD.as_bytes()).unwrap().document;
    store
        .replace(Base::Hash(EMPTY_HASH), &new, Incoming::Ours)
        .unwrap();
    let error = store.replace(Base::Absent, &new, Incoming::Ours).unwrap_err();
    assert!(matches!(error, StoreError::BaseHashRequired { .. }), "{error:?}");
}

#[test]
fn refused_samples_are_never_overwritten_but_by_force_which_keeps_a_copy() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/approvals");
    let index: Value = serde_json::from_slice(&fs::read(samples.join("index.json")).unwrap()).unwrap();
    let mut refused = 0;
    for case in index["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["action"] == "refuse")
    {
        refused += 1;
        let bytes = fs::read(samples.join(case["file"].as_str().unwrap())).unwrap();
        let world = World::new();
        replace_file(&world.path(), &bytes, PRIVATE_FILE).unwrap();
        let before = fs::metadata(world.path()).unwrap();
        let store = world.store();
        let error = add(&store, "/bin/ls").unwrap_err();
        let UpdateError::Store(StoreError::Refused { hash, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(hash, case["sha256"], "{}", case["file"]);
        let after = fs::metadata(world.path()).unwrap();
        assert_eq!(
            (before.ino(), before.modified().unwrap()),
            (after.ino(), after.modified().unwrap())
        );

        let new = Document::parse(GOOD.as_bytes()).unwrap().document;
        let error = force(&store, Base::Hash("other"), &new).unwrap_err();
        let UpdateError::Store(StoreError::BaseHashMismatch { .. }) = error else {
            panic!("{error:?}")
        };
        let any = Precondition::Any;
        let error = force(&store, Base::If(&any), &new).unwrap_err();
        assert!(
            matches!(error, UpdateError::Store(StoreError::BaseHashMismatch { .. })),
            "{error:?}"
        );
        assert_eq!(fs::read(world.path()).unwrap(), bytes);
        let (snapshot, kept) = force(&store, Base::Hash(&hash), &new).unwrap().unwrap();
        assert_eq!(snapshot.status, DocumentStatus::Ok);
        assert_eq!(
            snapshot.policy("main").security.last().map(|said| said.value),
            Some(Security::Full)
        );
        assert_eq!(fs::read(kept).unwrap(), bytes);
    }
    assert_eq!(refused, 35);
}

#[test]
fn force_also_replaces_what_others_could_write() {
    let world = World::with(GOOD);
    world.set_mode(0o666);
    let store = world.store();
    let hash = store.snapshot().hash.clone();
    let (snapshot, kept) = force(&store, Base::Hash(&hash), &Document::default())
        .unwrap()
        .unwrap();
    assert_eq!(snapshot.status, DocumentStatus::Ok);
    assert_eq!(world.mode(), 0o600);
    assert_eq!(fs::metadata(kept).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn an_outside_edit_is_seen_at_once_even_in_place_and_of_the_same_length() {
    let world = World::with(GOOD);
    let store = world.store();
    let security = |store: &DocumentStore| {
        store
            .snapshot()
            .policy("main")
            .security
            .last()
            .map(|said| said.value)
    };
    for (text, expected) in [
        (GOOD.replace("full", "deny"), Security::Deny),
        (GOOD.to_owned(), Security::Full),
        (GOOD.replace("full", "deny"), Security::Deny),
    ] {
        File::create(world.path())
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert_eq!(security(&store), Some(expected));
    }
    fs::remove_file(world.path()).unwrap();
    assert_eq!(store.snapshot().status, DocumentStatus::Missing);
    replace_file(&world.path(), b"{", PRIVATE_FILE).unwrap();
    assert_eq!(
        store.snapshot().status,
        DocumentStatus::Refused(Refusal::whole(RefusalReason::Json))
    );
    replace_file(&world.path(), GOOD.as_bytes(), PRIVATE_FILE).unwrap();
    assert_eq!(security(&store), Some(Security::Full));
    world.set_mode(0o660);
    assert_eq!(store.snapshot().document(), None);
    world.set_mode(0o600);
    assert_eq!(security(&store), Some(Security::Full));
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let world = World::with(GOOD);
    let later = UnixMillis::new(SystemClock.now().get() + 60_000);
    let store = DocumentStore::open(
        world.path(),
        world.home.path().to_owned(),
        Arc::new(ManualClock::at(later)),
        Arc::new(SystemIds),
    );
    let first = store.snapshot();
    assert!(Arc::ptr_eq(&first, &store.snapshot()));
    // A new stamp with the old content is read, and found to say nothing new.
    replace_file(&world.path(), GOOD.as_bytes(), PRIVATE_FILE).unwrap();
    assert!(Arc::ptr_eq(&first, &store.snapshot()));
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    let world = World::with("{\"version\":1, \"agents\":{\"main\":{\"allowlist\":[\"/bin/ls\"]}}}");
    let before = (fs::metadata(world.path()).unwrap().ino(), world.text());
    let store = world.store();
    add(&store, "/bin/ls").unwrap();
    assert_eq!((fs::metadata(world.path()).unwrap().ino(), world.text()), before);
}

#[test]
fn a_change_that_would_be_refused_is_not_written() {
    let world = World::with(GOOD);
    let store = world.store();
    let error = add(&store, "   ").unwrap_err();
    assert!(
        matches!(&error, UpdateError::Store(StoreError::Invalid(refusal)) if refusal.reason == RefusalReason::BlankPattern),
        "{error:?}"
    );
    let given_up = store.update(Base::Any, |document| {
        document.set_policy(PolicyTarget::Defaults, PolicyFields::default());
        Err::<(), _>("no")
    });
    assert!(matches!(given_up, Err(UpdateError::Edit("no"))));
    assert_eq!(world.text(), GOOD);
    assert_eq!(world.names(), ["exec-approvals.json"]);
}

#[test]
fn the_socket_token_is_made_once() {
    let world = World::with(GOOD);
    let store = world.store();
    assert_eq!(
        store
            .snapshot()
            .document()
            .and_then(Document::socket_token)
            .map(Secret::expose),
        None
    );
    let first = store.socket_token().unwrap();
    let second = world.store().socket_token().unwrap();
    assert_eq!(first.expose(), second.expose());
    assert_eq!(first.expose().len(), 32);
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    const STORES: usize = 2;
    const THREADS: usize = 2;
    const ENTRIES: usize = 30;
    let world = World::new();
    let stores: Vec<DocumentStore> = (0..STORES).map(|_| world.store()).collect();
    thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for entry in 0..ENTRIES {
                        add(store, &format!("/bin/{number}-{thread}-{entry}")).unwrap();
                    }
                });
            }
        }
    });
    for store in &stores {
        let mut found = patterns(&store.snapshot());
        found.sort();
        found.dedup();
        assert_eq!(found.len(), STORES * THREADS * ENTRIES);
    }
    assert_eq!(world.names(), ["exec-approvals.json"]);
}
