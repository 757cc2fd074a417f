//! Inside a crate files depend on each other one way: none reaches itself through others.
//!
//! An arrow leads from a file to the file that declares a name it uses; names that a face hands on (`pub use`) lead to
//! where they are declared. A module and its own parts are one structure: what it uses of them is no arrow, what they use of
//! it is one. Unit tests do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module by its path inside its crate.
type Module = Vec<String>;

/// What a file says about modules.
#[derive(Debug, Default)]
struct Source {
    /// The modules that it declares.
    parts: BTreeSet<String>,
    /// Names that it hands on, with the paths that they stand for.
    handed_on: BTreeMap<String, Vec<String>>,
    /// Every path that it uses.
    used: Vec<Vec<String>>,
}

/// The files of a crate by their modules.
type Sources = BTreeMap<Module, Source>;

#[test]
fn no_file_reaches_itself_through_others_of_its_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).expect("the crates");
    let mut folders: Vec<PathBuf> = crates
        .map(|entry| entry.expect("a crate").path().join("src"))
        .collect();
    folders.push(root.join("src"));
    let mut found = Vec::new();
    for folder in &folders {
        let sources = read_crate(folder);
        assert!(!sources.is_empty(), "{}", folder.display());
        let place = folder.strip_prefix(root).expect("below the checkout");
        found.extend(
            cycles(&arrows(&sources))
                .into_iter()
                .map(|cycle| format!("{}: {cycle}", place.display())),
        );
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn cycles_are_found_through_faces_groups_and_single_paths() {
    let crate_of = |files: &[(&str, &str)]| -> Sources {
        let one = |(module, text): &(&str, &str)| {
            let module = module.split("::").filter(|part| !part.is_empty());
            (module.map(str::to_owned).collect(), read_source(text))
        };
        files.iter().map(one).collect()
    };
    let face = "mod a; mod b; pub use b::Thing;";
    // Through the face, by a group, by a single path, by a module that was imported.
    for a in [
        "use crate::Thing; pub fn up() {}",
        "use super::{b::Thing}; pub fn up() {}",
        "pub fn up() -> crate::b::Thing {}",
        "use crate::b; pub fn up() { b::make() }",
    ] {
        let sources = crate_of(&[
            ("", face),
            ("a", a),
            ("b", "pub struct Thing; fn f() { crate::a::up() }"),
        ]);
        assert_eq!(cycles(&arrows(&sources)), ["a → b → a"], "{a}");
    }
    // One way; a face that uses its parts; a test.
    for b in [
        "pub struct Thing;",
        "pub struct Thing; #[cfg(test)] mod tests { use crate::a::up; }",
        "pub struct Thing; // crate::a::up\nconst TEXT: &str = \"crate::a::up\";",
    ] {
        let face = "mod a; mod b; pub use b::Thing; fn start() { a::up() }";
        let sources = crate_of(&[("", face), ("a", "use crate::Thing;"), ("b", b)]);
        assert_eq!(cycles(&arrows(&sources)), [""; 0], "{b}");
    }
}

fn read_crate(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let relative = path
            .strip_prefix(folder)
            .expect("below the folder")
            .with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let is_rust = path.extension().is_some_and(|kind| kind == "rs");
        let is_test = |part: &String| part == "tests" || part.ends_with("_tests");
        if !is_rust || module.iter().any(is_test) || module == ["main"] {
            continue;
        }
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        sources.insert(
            module,
            read_source(&fs::read_to_string(&path).expect("a source file")),
        );
    }
    sources
}

fn read_source(text: &str) -> Source {
    let stream: TokenStream = text.parse().expect("Rust");
    let mut words = Vec::new();
    flatten(stream, &mut words);
    let words = without_tests(&words);
    let mut source = Source::default();
    let mut imported: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut at = 0;
    while at < words.len() {
        let (before, rest) = words.split_at(at);
        match rest {
            ["mod", name, ";", ..] => {
                source.parts.insert((*name).to_owned());
                at += 3;
            }
            ["use", tree @ ..] => {
                let end = tree.iter().position(|word| *word == ";").unwrap_or(tree.len());
                let is_handed_on = matches!(before, [.., "pub"]) || matches!(before, [.., ")"]);
                let mut paths = Vec::new();
                paths_of(&tree[..end], &[], &mut paths);
                for (path, name) in paths {
                    if is_handed_on {
                        source.handed_on.insert(name.clone(), path.clone());
                    }
                    imported.insert(name, path.clone());
                    source.used.push(path);
                }
                at += end + 2;
            }
            [_first, "::", ..] if !matches!(before, [.., "::" | "."]) => {
                let mut path = vec![rest[0].to_owned()];
                at += 1;
                while let ["::", name, ..] = &words[at..]
                    && is_name(name)
                {
                    path.push((*name).to_owned());
                    at += 2;
                }
                source.used.push(path);
                at = at.max(before.len() + 1);
            }
            _ => at += 1,
        }
    }
    // A path that begins with an import means what was imported.
    for path in &mut source.used {
        if let Some(meant) = path.first().and_then(|first| imported.get(first))
            && meant != path
        {
            path.splice(..1, meant.iter().cloned());
        }
    }
    source
}

/// The words of a text: names and signs, groups with their brackets; no comments. `::` is one word, a literal is empty.
fn flatten(stream: TokenStream, words: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.to_owned());
                flatten(group.stream(), words);
                words.push(close.to_owned());
            }
            TokenTree::Punct(sign)
                if sign.as_char() == ':' && words.last().is_some_and(|last| last == ":") =>
            {
                words.pop();
                words.push("::".to_owned());
            }
            TokenTree::Literal(_) => words.push(String::new()),
            other @ (TokenTree::Ident(_) | TokenTree::Punct(_)) => words.push(other.to_string()),
        }
    }
}

/// The words without the items behind `#[cfg(test)]`.
fn without_tests(words: &[String]) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut rest: Vec<&str> = words.iter().map(String::as_str).collect();
    rest.reverse();
    while let Some(word) = rest.pop() {
        let is_test = word == "#" && matches!(&rest[..], [.., "]", ")", "test", "(", "cfg", "["]);
        if !is_test {
            kept.push(word);
            continue;
        }
        rest.truncate(rest.len() - 6);
        let mut depth = 0;
        while let Some(word) = rest.pop() {
            match word {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 && (word == ";" || word == "}") {
                break;
            }
        }
    }
    kept
}

/// The paths of a use tree behind a prefix, each with the name that it goes by.
fn paths_of(tree: &[&str], prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut depth = 0;
    let is_between = |word: &&str| {
        match *word {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && *word == ","
    };
    for item in tree.split(is_between) {
        let names = item.iter().take_while(|word| !matches!(**word, "{" | "as"));
        let names = names.filter(|word| **word != "::").map(|word| (*word).to_owned());
        let mut path: Vec<String> = prefix.iter().cloned().chain(names).collect();
        let group = item.iter().position(|word| *word == "{");
        if let Some(open) = group {
            paths_of(&item[open + 1..item.len() - 1], &path, found);
            continue;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match item {
            [.., "as", alias] => Some((*alias).to_owned()),
            _ => path.last().cloned(),
        };
        found.extend(name.map(|name| (path, name)));
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The module that declares what a path names, and whether the path names more than a module.
fn declared_in(sources: &Sources, from: &Module, path: &[String], depth: usize) -> Option<(Module, bool)> {
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => (from.clone(), path),
        first if sources.get(from)?.parts.contains(first) => (from.clone(), path),
        _ => return None,
    };
    while let [first, later @ ..] = rest {
        if first == "super" {
            at.pop();
        } else {
            let mut part = at.clone();
            part.push(first.clone());
            if !sources.contains_key(&part) {
                let handed_on = sources.get(&at)?.handed_on.get(first).filter(|_| depth < 8);
                return match handed_on {
                    Some(meant) => {
                        let meant: Vec<String> = meant.iter().chain(later).cloned().collect();
                        declared_in(sources, &at, &meant, depth + 1)
                    }
                    None => Some((at, true)),
                };
            }
            at = part;
        }
        rest = later;
    }
    Some((at, false))
}

fn arrows(sources: &Sources) -> BTreeMap<&Module, BTreeSet<Module>> {
    let mut arrows: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for (from, source) in sources {
        let targets = source
            .used
            .iter()
            .filter_map(|path| declared_in(sources, from, path, 0))
            .filter(|(to, names_more)| *names_more && !to.starts_with(from) && sources.contains_key(to))
            .map(|(to, _)| to);
        arrows.insert(from, targets.collect());
    }
    arrows
}

/// One cycle of each group of files that reach each other, the shortest from its first file.
fn cycles(arrows: &BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
    let mut told: BTreeSet<Module> = BTreeSet::new();
    let mut found = Vec::new();
    for start in arrows.keys() {
        if told.contains(*start) {
            continue;
        }
        // By breadth, so that the first way back is a shortest one.
        let mut ways: Vec<Vec<Module>> = vec![vec![(*start).clone()]];
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while let Some(way) = ways.get(at).cloned() {
            at += 1;
            for next in way.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
                if next == *start {
                    let names: Vec<String> =
                        way.iter().chain([next]).map(|module| module.join("::")).collect();
                    found.push(names.join(" → "));
                    told.extend(way.iter().cloned());
                    ways.clear();
                    break;
                }
                if seen.insert(next.clone()) {
                    ways.push([way.as_slice(), std::slice::from_ref(next)].concat());
                }
            }
        }
    }
    found
}
