//! Public asynchronous functions of the crates are compiled in their own crate alone (docs/decisions/0013-crates.md).

use std::{fs, path::Path};

#[test]
fn public_asynchronous_functions_are_compiled_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting = vec![root.join("crates")];
    let mut found = Vec::new();
    let mut marked = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            marked += text.matches("#[crate::compiled_once]").count();
            let place = path.strip_prefix(root).expect("below the checkout").display();
            found.extend(unmarked(&text).map(|line| format!("{place}: {line}")));
        }
    }
    assert_eq!(found, Vec::<String>::new());
    assert!(marked > 100, "{marked}");
}

#[test]
fn an_unmarked_function_is_found_and_a_generic_one_is_not() {
    for is_found in [
        "    pub async fn up(&self) {",
        "    #[must_use]\n    pub async fn up<'a>(\n        a: &'a str,\n    ) -> &'a str {",
    ] {
        assert_eq!(unmarked(is_found).count(), 1, "{is_found}");
    }
    for is_fine in [
        "    #[crate::compiled_once]\n    pub async fn up(&self) {",
        "    async fn up(&self) {",
        "    pub(crate) async fn up(&self) {",
        "    pub async fn up<T: Send>(&self, with: T) {",
        "    pub async fn up(\n        &self,\n        with: impl Fn() + Send,\n    ) {",
    ] {
        assert_eq!(unmarked(is_fine).count(), 0, "{is_fine}");
    }
}

/// The first lines of public asynchronous functions without the mark. A generic one is compiled where it is used in any case.
fn unmarked(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(move |at| {
        let line = lines[at];
        let name = line.trim_start().strip_prefix("pub async fn ")?;
        let is_marked = at > 0 && lines[at - 1].trim() == "#[crate::compiled_once]";
        let takes_types = name
            .split_once(['<', '('])
            .is_some_and(|(before, rest)| name[before.len()..].starts_with('<') && !rest.starts_with('\''));
        let end = lines[at..].iter().position(|line| line.ends_with('{'))?;
        let takes_some_type = lines[at..=at + end].iter().any(|line| line.contains(": impl "));
        (!is_marked && !takes_types && !takes_some_type).then_some(line)
    })
}
