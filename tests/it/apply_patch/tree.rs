//! Trees of files as the cases of `tests/data/patches` write them. The unit tests of the runner use this file too.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::Value;

/// All cases.
pub(crate) fn cases() -> Vec<Value> {
    // Of the checkout, wherever in it the package lies that is tested.
    let places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = places
        .map(|place| place.join("tests/data/patches"))
        .find(|folder| folder.is_dir())
        .expect("the cases");
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).expect("the cases") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("cases");
        let list: Vec<Value> = serde_json::from_str(&text).expect("a list of cases");
        cases.extend(list);
    }
    assert!(cases.len() >= 60, "{}", cases.len());
    cases
}

/// Makes what a case says is there: text, or an object with `text` and `mode`, `hex`, `link`, `dir` or `fifo`.
pub(crate) fn make(root: &Path, tree: &Value) {
    for (name, what) in tree.as_object().expect("a tree") {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        if what["dir"] == true {
            fs::create_dir(path).expect("a directory");
        } else if what["fifo"] == true {
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        } else if let Some(target) = what["link"].as_str() {
            symlink(target, path).expect("a link");
        } else {
            let mode = what["mode"].as_str().unwrap_or("0644");
            let mode = u32::from_str_radix(mode, 8).expect("a mode");
            let mut file = File::create(path).expect("a file");
            file.write_all(&content(what)).expect("its content");
            file.set_permissions(Permissions::from_mode(mode))
                .expect("its mode");
        }
    }
}

fn content(what: &Value) -> Vec<u8> {
    match (
        what.as_str().or_else(|| what["text"].as_str()),
        what["hex"].as_str(),
    ) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(hex)) => (0..hex.len())
            .step_by(2)
            .map(|at| hex.get(at..at + 2).expect("two digits"))
            .map(|digits| u8::from_str_radix(digits, 16).expect("hexadecimal"))
            .collect(),
        (None, None) => panic!("no file: {what}"),
    }
}

/// Everything below a directory, by its name.
pub(crate) fn look(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").display().to_string();
            let kind = fs::symlink_metadata(&path).expect("a file");
            let what = if kind.is_symlink() {
                format!("link {}", fs::read_link(&path).expect("a link").display())
            } else if kind.is_dir() {
                open.push(path);
                "directory".to_owned()
            } else if kind.is_file() {
                let mode = kind.permissions().mode() & 0o777;
                format!("{mode:o} {:?}", fs::read(&path).expect("its content"))
            } else {
                "special".to_owned()
            };
            found.insert(name, what);
        }
    }
    found
}

/// The same without directories: one that is empty at the end stays, and the cases do not list it.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    look(root)
        .into_iter()
        .filter(|(_name, what)| what != "directory")
        .collect()
}

/// Asserts that a refusal is the one of a case.
pub(crate) fn assert_says(name: &str, error: &Value, detail: &str) {
    let words = error["detail"].as_str().or_else(|| error["refused"].as_str());
    let words = words.expect("the words of the refusal");
    assert!(
        words.split('|').any(|words| detail.contains(words)),
        "{name}: wanted {words:?} in {detail:?}"
    );
}
