//! Attempts: a call of a program with one option more, in a spelling and at a place.

use super::{HERE, table::Section};

/// What is known of an attempt before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// By the manual it starts something, or writes a file that decides what starts.
    Hostile,
    /// Nothing is known: it is run if it is covered.
    Open,
    /// It is harmless, and people do it.
    Harmless,
}

#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) text: String,
    pub(super) nature: Nature,
}

/// Values of options that start something.
const PROGRAMS: &[&str] = &["./run", "touch marker", "/tmp/w/run"];
/// Files that decide what starts.
pub(super) const DECIDING: &[&str] = &[".git/hooks/planted", ".npmrc", "/tmp/w/.cargo/config.toml"];
/// Values of options of which nothing is known.
const ANY: &[&str] = &["./run", "touch marker", "!touch marker", ".npmrc"];

/// The attempts of a section for one of its programs, with options that its help names.
pub(super) fn attempts(section: &Section, program: &str, harvested: &[String]) -> Vec<Attempt> {
    let mut made = Vec::new();
    let own: Vec<&str> = section.values.iter().map(String::as_str).collect();
    let starting = if own.is_empty() { PROGRAMS } else { &own };
    let known = |option: &String| section.starting.contains(option) || section.writing.contains(option);
    let others = section
        .others
        .iter()
        .chain(harvested)
        .filter(|option| !known(option));
    for (options, values, nature) in [
        (
            section.starting.iter().collect::<Vec<_>>(),
            starting,
            Nature::Hostile,
        ),
        (section.writing.iter().collect(), DECIDING, Nature::Hostile),
        (others.collect(), ANY, Nature::Open),
    ] {
        for (option, value) in options
            .iter()
            .flat_map(|option| values.iter().map(move |value| (option, value)))
        {
            for (words, nature) in spellings(option, value, &section.flags, nature) {
                made.extend(placed(section, program, &words, nature));
            }
        }
    }
    let whole = |words: &String, nature| Attempt {
        text: format!("{program} {words}").replace("HERE", HERE),
        nature,
    };
    made.extend(
        section
            .bases
            .iter()
            .map(|base| whole(&base.replace("@ ", "").replace('@', ""), Nature::Harmless)),
    );
    made.extend(section.twins.iter().map(|twin| whole(twin, Nature::Harmless)));
    made.extend(section.lines.iter().map(|line| whole(line, Nature::Hostile)));
    made
}

/// The call with these words at each place.
fn placed(section: &Section, program: &str, words: &[String], nature: Nature) -> Vec<Attempt> {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let words = words.join(" ");
    let of = |text: String, nature| Attempt {
        text: format!("{program} {text}").replace("HERE", HERE),
        nature,
    };
    section
        .bases
        .iter()
        .flat_map(|base| match base.split_once('@') {
            Some((before, behind)) => vec![of(format!("{before}{words}{behind}"), nature)],
            None => vec![
                of(format!("{words} {base}"), nature),
                of(format!("{base} {words}"), nature),
                of(format!("{base} -- {words}"), Nature::Open),
            ],
        })
        .collect()
}

/// An option with its value as programs take it: apart, behind `=`, glued, in a cluster, shortened.
fn spellings(option: &str, value: &str, flags: &str, nature: Nature) -> Vec<(Vec<String>, Nature)> {
    let apart = |option: &str| vec![option.to_owned(), value.to_owned()];
    let joined = |option: &str| vec![format!("{option}={value}")];
    // `-o=x` is the file `=x` for many.
    let joined_nature = if option.len() == 2 { Nature::Open } else { nature };
    let mut made = vec![(apart(option), nature), (joined(option), joined_nature)];
    if let Some(name) = option.strip_prefix("--").filter(|name| name.is_ascii()) {
        for length in [name.len().saturating_sub(1), name.len() * 2 / 3, 3] {
            // A beginning may be another option's name.
            if let Some(beginning) = name.get(..length).filter(|_| length > 1 && length < name.len()) {
                let beginning = format!("--{beginning}");
                made.push((apart(&beginning), Nature::Open));
                made.push((joined(&beginning), Nature::Open));
            }
        }
        made.push((joined(&format!("-{name}")), Nature::Open));
        made.push((vec![option.to_owned()], Nature::Open));
    } else if option.len() == 2 {
        made.push((vec![format!("{option}{value}")], nature));
        for flag in flags.chars() {
            let cluster = format!("-{flag}{}", option.trim_start_matches('-'));
            made.push((apart(&cluster), nature));
            made.push((vec![format!("{cluster}{value}")], nature));
        }
    } else if option.starts_with('-') {
        made.push((apart(&format!("-{option}")), Nature::Open));
        made.push((joined(&format!("-{option}")), Nature::Open));
    }
    made
}

/// A word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
