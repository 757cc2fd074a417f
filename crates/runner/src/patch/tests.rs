//! Patches of real directories: the cases that the HTTP API is tested with too, and what only shows from inside.

#[path = "../../../../tests/it/apply_patch/tree.rs"]
mod tree;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::PathBuf,
};

use tree::{cases, files, look, make};

use countersign_protocol::patch::{Failure, MAX_FILE_BYTES, Patch, TEMPORARY_PREFIX};
use countersign_sys::{
    beneath::{LookupScope, Renames, Root},
    fs::create_passing_file,
    process,
};

use super::{apply_in, commit, plan::Tree};

use crate::wire::PatchOrder;

/// A workspace beside a file that is outside of it.
struct PatchFixture {
    around: tempfile::TempDir,
}

impl PatchFixture {
    fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        create_passing_file(&around.path().join("outside"), b"outside\n").unwrap();
        fs::create_dir(around.path().join("work")).unwrap();
        Self { around }
    }

    fn work(&self) -> PathBuf {
        self.around.path().join("work")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::remove_file(&path).unwrap_or(());
        create_passing_file(&path, content.as_bytes()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn apply(&self, text: &str) -> Result<Patch, Failure> {
        apply_in(&self.work(), &order(text))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.work())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn order(text: &str) -> PatchOrder {
    PatchOrder {
        text: text.to_owned(),
        workspace_only: true,
        called: vec![],
        off_limits: vec![],
        spared: vec![],
    }
}

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

#[test]
fn every_case_comes_out_as_it_says() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let fixture = PatchFixture::new();
        make(&fixture.work(), &case["before"]);
        let before = look(&fixture.work());
        let result = fixture.apply(case["patch"].as_str().unwrap());
        let outside = fs::read_to_string(fixture.around.path().join("outside")).unwrap();
        assert_eq!(outside, "outside\n", "{name}");
        let Some(error) = case.get("error") else {
            assert!(result.is_ok(), "{name}: {result:?}");
            let expected = PatchFixture::new();
            make(&expected.work(), &case["after"]);
            assert_eq!(files(&fixture.work()), files(&expected.work()), "{name}");
            continue;
        };
        assert_eq!(look(&fixture.work()), before, "{name}: nothing may have changed");
        let failure = result.expect_err(name);
        tree::assert_says(name, error, &failure.detail);
        assert_eq!(failure.path.as_deref(), error["path"].as_str(), "{name}");
        assert_eq!(
            failure.hunk.map(|hunk| hunk as u64),
            error["hunk"].as_u64(),
            "{name}"
        );
        assert!(failure.not_restored.is_empty(), "{name}");
    }
}

#[test]
fn paths_may_be_absolute_where_the_workspace_is_called_so() {
    let fixture = PatchFixture::new();
    fixture.write("a", "1\n");
    let mut order = order(&envelope(
        "*** Update File: /workspace/a\n-1\n+2\n*** Add File: /workspace/sub/b\n+x\n",
    ));
    order.called = vec![b"/workspace".to_vec()];
    apply_in(&fixture.work(), &order).unwrap();
    assert_eq!(
        (fixture.read("a"), fixture.read("sub/b")),
        ("2\n".to_owned(), "x\n".to_owned())
    );
    for outside in ["/workspace", "/workspaces/a", "/workspace2/a", "/etc/passwd"] {
        order.text = envelope(&format!("*** Add File: {outside}\n+x\n"));
        let failure = apply_in(&fixture.work(), &order).unwrap_err();
        assert!(failure.detail.contains("outside"), "{failure:?}");
    }
}

#[test]
fn a_patch_that_is_not_kept_in_may_go_anywhere_but_to_the_server() {
    let fixture = PatchFixture::new();
    let outside = fixture.around.path().canonicalize().unwrap();
    let mut order = order("");
    order.workspace_only = false;
    order.off_limits = vec![outside.join("state").to_str().unwrap().as_bytes().to_vec()];
    order.spared = vec![
        outside
            .join("state/workspace")
            .to_str()
            .unwrap()
            .as_bytes()
            .to_vec(),
    ];
    fs::create_dir_all(outside.join("state/workspace")).unwrap();
    symlink(outside.join("state"), fixture.at("way")).unwrap();
    let mut apply = |path: &str| {
        order.text = envelope(&format!("*** Add File: {path}\n+x\n"));
        apply_in(&fixture.work(), &order).map(|_patch| ())
    };
    assert_eq!(apply(outside.join("new").to_str().unwrap()), Ok(()));
    assert_eq!(
        apply(outside.join("state/workspace/new").to_str().unwrap()),
        Ok(())
    );
    for path in [
        outside.join("state/token").to_str().unwrap(),
        outside.join("state/new/deep").to_str().unwrap(),
        "way/token",
        "way/workspace-not/token",
    ] {
        let failure = apply(path).unwrap_err();
        assert!(
            failure.detail.contains("belongs to the server"),
            "{path}: {failure:?}"
        );
    }
    assert_eq!(apply("way/workspace/more"), Ok(()));
    let failure = apply("/proc/self/cwd/x").unwrap_err();
    assert!(failure.detail.contains("cannot be followed"), "{failure:?}");
}

#[test]
fn large_files_are_moved_but_not_changed() {
    let fixture = PatchFixture::new();
    let file = fs::File::create(fixture.at("large")).unwrap();
    file.set_len(u64::try_from(MAX_FILE_BYTES).unwrap() + 1).unwrap();
    let failure = fixture
        .apply(&envelope("*** Update File: large\n+x\n"))
        .unwrap_err();
    assert!(failure.detail.contains("larger than"), "{failure:?}");
    fixture
        .apply(&envelope("*** Update File: large\n*** Move to: moved\n"))
        .unwrap();
    assert_eq!(fixture.names(), ["moved"]);
}

#[test]
fn another_name_of_a_file_keeps_what_it_had() {
    let fixture = PatchFixture::new();
    fixture.write("a", "1\n");
    fs::hard_link(fixture.at("a"), fixture.around.path().join("other")).unwrap();
    fixture.apply(&envelope("*** Update File: a\n-1\n+2\n")).unwrap();
    assert_eq!(fixture.read("a"), "2\n");
    assert_eq!(
        fs::read_to_string(fixture.around.path().join("other")).unwrap(),
        "1\n"
    );
}

#[test]
fn bits_that_hand_on_rights_go() {
    let fixture = PatchFixture::new();
    fixture.write("a", "1\n");
    fs::set_permissions(fixture.at("a"), fs::Permissions::from_mode(0o6755)).unwrap();
    fixture.apply(&envelope("*** Update File: a\n-1\n+2\n")).unwrap();
    assert_eq!(fs::metadata(fixture.at("a")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn what_a_dead_patch_left_goes_and_what_a_living_one_has_stays() {
    let fixture = PatchFixture::new();
    fixture.write("a", "1\n");
    let own = process::current().unwrap();
    let alive = format!("{TEMPORARY_PREFIX}{}-{}-99", own.pid, own.start_time);
    let dead = format!("{TEMPORARY_PREFIX}{}-{}-1", own.pid, own.start_time + 1);
    let foreign = format!("{TEMPORARY_PREFIX}notes");
    for name in [&alive, &dead, &foreign] {
        create_passing_file(&fixture.at(name), b"x").unwrap();
    }
    fixture.apply(&envelope("*** Update File: a\n-1\n+2\n")).unwrap();
    let mut expected = vec![alive, foreign, "a".to_owned()];
    expected.sort();
    assert_eq!(fixture.names(), expected);
}

/// The changes of a patch, not made yet.
fn planned(fixture: &PatchFixture, body: &str) -> super::plan::Changes {
    let root = Root::open(&fixture.work(), LookupScope::Beneath).unwrap();
    let order = order("");
    let mut tree = Tree::new(&root, &order);
    for operation in Patch::parse(&envelope(body)).unwrap().operations() {
        tree.take(operation).unwrap();
    }
    tree.into_changes().unwrap()
}

/// What another process does between the look and the change, and where the patch then fails.
type Meddling = (&'static str, fn(&PatchFixture), &'static str, &'static str);

#[test]
fn whatever_changes_in_between_everything_is_put_back() {
    const BODY: &str = "*** Add File: new/a\n+x\n*** Update File: changed\n-1\n+2\n*** Update File: from\n*** Move to: to\n\
                        *** Delete File: gone\n";
    let meddling: [Meddling; 9] = [
        (
            "content",
            |fixture| fixture.write("changed", "3\n"),
            "changed",
            "it changed",
        ),
        (
            "a link in its place",
            |fixture| {
                fs::remove_file(fixture.at("changed")).unwrap();
                symlink("../outside", fixture.at("changed")).unwrap();
            },
            "changed",
            "it changed",
        ),
        (
            "a directory in its place",
            |fixture| {
                fs::remove_file(fixture.at("changed")).unwrap();
                fs::create_dir(fixture.at("changed")).unwrap();
            },
            "changed",
            "it changed",
        ),
        (
            "away",
            |fixture| fs::remove_file(fixture.at("changed")).unwrap(),
            "changed",
            "it changed",
        ),
        (
            "a file where one is added",
            |fixture| fixture.write("new/a", "theirs"),
            "new/a",
            "already",
        ),
        (
            "a file where one goes",
            |fixture| fixture.write("to", "theirs"),
            "to",
            "already",
        ),
        (
            "another file that moves",
            |fixture| fixture.write("from", "theirs"),
            "to",
            "it changed",
        ),
        (
            "another file that is deleted",
            |fixture| fixture.write("gone", "theirs"),
            "gone",
            "it changed",
        ),
        (
            "a link where a directory is made",
            |fixture| symlink("..", fixture.at("new")).unwrap(),
            "new/a",
            "not a directory",
        ),
    ];
    for renames in [Renames::AtOnce, Renames::ByLinks] {
        for (name, meddle, path, words) in meddling {
            let fixture = PatchFixture::new();
            for (file, content) in [("changed", "1\n"), ("from", "f\n"), ("gone", "g\n")] {
                fixture.write(file, content);
            }
            let changes = planned(&fixture, BODY);
            meddle(&fixture);
            let before = look(fixture.around.path());
            let failure = commit::commit_by(&changes, renames).expect_err(name);
            assert_eq!(look(fixture.around.path()), before, "{name} {renames:?}");
            assert_eq!(failure.path.as_deref(), Some(path), "{name}: {failure:?}");
            assert!(failure.detail.contains(words), "{name}: {failure:?}");
            assert!(failure.not_restored.is_empty(), "{name}: {failure:?}");
        }
        let fixture = PatchFixture::new();
        for (file, content) in [("changed", "1\n"), ("from", "f\n"), ("gone", "g\n")] {
            fixture.write(file, content);
        }
        let changes = planned(&fixture, BODY);
        commit::commit_by(&changes, renames).unwrap();
        assert_eq!(fixture.names(), ["changed", "new", "to"], "{renames:?}");
        assert_eq!(fixture.read("changed"), "2\n");
    }
}

#[test]
fn many_files_need_few_descriptors() {
    let fixture = PatchFixture::new();
    let operations: Vec<String> = (0..countersign_protocol::patch::MAX_OPERATIONS)
        .map(|number| format!("*** Add File: d{}/f{number}\n+x\n", number % 3))
        .collect();
    let body = operations.concat();
    fixture.apply(&envelope(&body)).unwrap();
    assert_eq!(
        look(&fixture.work()).len(),
        countersign_protocol::patch::MAX_OPERATIONS + 3
    );
}
