//! The table of the attack: what its author knows of each program, as data.

use std::{collections::BTreeSet, fs};

/// What makes some programs start others, in one context.
#[derive(Debug, Default, Clone)]
pub(super) struct Section {
    /// Names of the programs.
    pub(super) programs: Vec<String>,
    /// Words of a harmless call; an option is put at `@`, or at both ends.
    pub(super) bases: Vec<String>,
    /// Letters of short options without a value.
    pub(super) flags: String,
    /// Options whose value names a program, code, a configuration or a plug-in.
    pub(super) starting: Vec<String>,
    /// Options whose value is a file to be written.
    pub(super) writing: Vec<String>,
    /// Options of which the attack knows nothing.
    pub(super) others: Vec<String>,
    /// Values for the options that start something.
    pub(super) values: Vec<String>,
    /// Calls in full that must not be covered; words behind the program's name.
    pub(super) lines: Vec<String>,
    /// Calls in full that must be.
    pub(super) twins: Vec<String>,
    /// What makes the program list its options.
    pub(super) help: Vec<String>,
    /// The program that the file really is.
    pub(super) real: Option<String>,
}

/// Reads the table.
pub(super) fn sections() -> Vec<Section> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/attack/programs.txt"
    );
    let mut sections: Vec<Section> = Vec::new();
    let text = fs::read_to_string(path).expect("the table of the attack");
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(names) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            sections.push(Section {
                programs: words(names),
                ..Section::default()
            });
            continue;
        }
        let section = sections.last_mut().expect("[PROGRAMS] first");
        let (member, value) = line.split_once(':').expect("MEMBER: VALUE");
        let value = value.strip_prefix(' ').unwrap_or(value).replace('⏎', "\n");
        let value = value.as_str();
        match member {
            "base" => section.bases.push(value.to_owned()),
            "flags" => value.clone_into(&mut section.flags),
            "starting" => section.starting.extend(words(value)),
            "writing" => section.writing.extend(words(value)),
            "others" => section.others.extend(words(value)),
            "value" => section.values.push(value.to_owned()),
            "line" => section.lines.push(value.to_owned()),
            "twin" => section.twins.push(value.to_owned()),
            "help" => section.help.push(value.to_owned()),
            "real" => section.real = Some(value.to_owned()),
            _ => panic!("{line}"),
        }
    }
    sections
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Names of the programs in the source of the rule.
pub(super) fn programs_of_the_rule() -> BTreeSet<String> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/command/delegation");
    let mut names = BTreeSet::new();
    for file in fs::read_dir(directory).expect("the rule") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
        let apart = text.split_once("READ_APART").map_or("", |(_, apart)| apart);
        let lists = text
            .split("programs: &[")
            .skip(1)
            .chain(apart.split("(&[").skip(1))
            .chain(text.split("pub(super) const COMPILERS: &[&str] = &[").skip(1))
            .chain(text.split("pub(super) const PREPROCESSORS: &[&str] = &[").skip(1));
        for list in lists {
            let (list, _) = list.split_once(']').expect("the end of a list");
            names.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    assert!(names.len() > 150, "{}", names.len());
    names
}
