//! Programs that only note that they ran, and what a plan says that would be noted.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use countersign_policy::command::{
    parse,
    syntax::{Join, List, Part, Segment},
};
use serde::Deserialize;

use super::commands::{ENDING_WELL, FAILING, LOCAL};
use crate::support::{Invocation, Scratch, program, run_program, write_file};

/// Variables that a stand-in notes.
pub(super) const NOTED: &[&str] = &["TZ", "CI", "NO_COLOR", "CLICOLOR", "NODE_ENV", "RUST_LOG"];

/// Notes its arguments, directory and some variables as a line of JSON in the file that its own place names, and
/// fails if its name says so.
const STAND_IN: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char line[262144];
static size_t used;
static void put(const char *text) {
    size_t length = strlen(text);
    if (used + length >= sizeof line) exit(99);
    memcpy(line + used, text, length);
    used += length;
}
static void quote(const char *text) {
    put("\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        char out[8] = {(char)byte, 0};
        if (byte < 0x20 || byte == '"' || byte == '\\') snprintf(out, sizeof out, "\\u%04x", byte);
        put(out);
    }
    put("\"");
}
int main(int argc, char **argv) {
    static const char *noted[] = {NOTED};
    char self[4096], place[4096], log[4200];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0 || !getcwd(place, sizeof place)) return 98;
    self[length] = 0;
    put("{\"program\":"); quote(self);
    put(",\"name\":"); quote(argv[0]);
    put(",\"arguments\":[");
    for (int i = 1; i < argc; i++) { if (i > 1) put(","); quote(argv[i]); }
    put("],\"directory\":"); quote(place);
    put(",\"env\":{");
    int any = 0;
    for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
        const char *value = getenv(noted[i]);
        if (!value) continue;
        if (any++) put(",");
        quote(noted[i]); put(":"); quote(value);
    }
    put("},\"mark\":"); quote(getenv("NODE_MARK") ? getenv("NODE_MARK") : "");
    put("}\n");
    snprintf(log, sizeof log, "%s.log", ROOT);
    int file = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || write(file, line, used) != (ssize_t)used) return 97;
    const char *base = strrchr(self, '/');
    return base && strncmp(base + 1, "fail", 4) == 0 ? 3 : 0;
}
"#;

/// One program that ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Ran {
    pub(super) program: String,
    /// `argv[0]`.
    #[serde(default)]
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) directory: String,
    pub(super) env: BTreeMap<String, String>,
    /// Which command of a batch it belongs to.
    #[serde(default)]
    pub(super) mark: String,
}

impl Ran {
    /// Without what depends on who starts it.
    pub(super) fn plain(&self) -> Self {
        Self {
            name: String::new(),
            mark: String::new(),
            ..self.clone()
        }
    }
}

/// Programs that run one after the other, and groups that run beside each other.
pub(super) type Course = Vec<Vec<Ran>>;

/// The stand-ins and the directories around them.
#[derive(Debug)]
pub(super) struct Stage {
    scratch: Scratch,
    pub(super) home: PathBuf,
}

impl Stage {
    /// `None` where there is no C compiler.
    pub(super) fn set(home: &Path) -> Option<Self> {
        let compiler = program("cc")?;
        let scratch = Scratch::new();
        let source = scratch.join("stand-in.c");
        write_file(&source, STAND_IN);
        let noted: Vec<String> = NOTED.iter().map(|name| format!("{name:?}")).collect();
        let stand_in = scratch.join("stand-in");
        let compile = Invocation::new(compiler)
            .args(&["-O1", "-o"])
            .arg(&stand_in)
            .arg(format!("-DNOTED={}", noted.join(",")))
            .arg(format!("-DROOT=\"{}\"", scratch.join("ran").display()))
            .arg(&source);
        let compiled = run_program(&compile);
        assert_eq!(compiled.code, Some(0), "{compiled:?}");
        let places = [
            ENDING_WELL
                .iter()
                .map(|name| scratch.join("bin").join(name))
                .collect(),
            FAILING
                .iter()
                .map(|name| scratch.join("bin").join(name))
                .collect(),
            LOCAL.iter().map(|name| scratch.join("work").join(name)).collect(),
            vec![home.join("bin/own")],
        ];
        for place in places.concat() {
            fs::create_dir_all(place.parent().expect("a place in a directory")).expect("its directory");
            fs::copy(&stand_in, &place).expect("a stand-in");
        }
        // `..` goes by its text (P2), and for shells the way before it has to be there.
        for way in ["sub/sub", "sub/deep/sub", "other dir/sub"] {
            fs::create_dir_all(scratch.join("work").join(way)).expect("a directory");
        }
        Some(Self {
            scratch,
            home: home.to_owned(),
        })
    }

    pub(super) fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// Where shells and the server search.
    pub(super) fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.scratch.join("bin").display())
    }

    /// A file beside the stand-ins.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Patterns that cover every stand-in and nothing else.
    pub(super) fn patterns(&self) -> Vec<String> {
        let root = self.scratch.path();
        vec![
            format!("{}/bin/*", root.display()),
            format!("{}/work/**", root.display()),
            format!("{}/bin/own", self.home.display()),
        ]
    }

    /// What ran since the last look, in order.
    pub(super) fn take(&self) -> Vec<Ran> {
        let log = self.scratch.join("ran.log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        drop(fs::remove_file(&log));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// What a canonical script comes to: which stand-ins run, in which order, each with what. `None` where chance decides: `pwd`
    /// in a pipe ends its shell if the reader has gone by then.
    pub(super) fn foresee(&self, script: &str) -> Option<Course> {
        let list = parse(script).unwrap_or_else(|finding| panic!("{finding:?} in {script:?}"));
        let mut course = Course::new();
        let is_chance = Cell::new(false);
        let mut shell = Shell {
            stage: self,
            directory: self.work(),
            env: BTreeMap::new(),
            stops_at_failure: false,
            counts_every_failure: false,
            is_read: false,
            is_chance: &is_chance,
        };
        shell.list(&list, &mut course);
        (!is_chance.get()).then_some(course)
    }
}

/// What a shell that runs a script knows.
#[derive(Debug, Clone)]
struct Shell<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    env: BTreeMap<String, String>,
    /// `-e`.
    stops_at_failure: bool,
    /// `pipefail`.
    counts_every_failure: bool,
    /// Whether its output goes to another command.
    is_read: bool,
    /// Whether what it comes to cannot be foreseen.
    is_chance: &'a Cell<bool>,
}

impl Shell<'_> {
    /// Whether it ended well.
    fn list(&mut self, list: &List, course: &mut Course) -> bool {
        let mut is_well = true;
        for (index, item) in list.items.iter().enumerate() {
            let runs = match item.join {
                None | Some(Join::Sequence) => true,
                Some(Join::And) => is_well,
                Some(Join::Or) => !is_well,
            };
            if runs {
                let segments: Vec<&Segment> = item.pipeline.iter().filter_map(Part::segment).collect();
                is_well = self.pipeline(&segments, course);
                let next = list.items.get(index + 1).and_then(|item| item.join);
                let is_tested = matches!(next, Some(Join::And | Join::Or));
                if self.stops_at_failure && !is_well && !is_tested {
                    return false;
                }
            }
        }
        is_well
    }

    fn pipeline(&mut self, segments: &[&Segment], course: &mut Course) -> bool {
        if let [alone] = segments {
            return self.segment(alone, course);
        }
        let mut beside = Course::new();
        let last = segments.len() - 1;
        let ends: Vec<bool> = segments
            .iter()
            .enumerate()
            .map(|(at, segment)| {
                let mut inside = self.clone();
                inside.is_read |= at < last;
                inside.segment(segment, &mut beside)
            })
            .collect();
        let mut beside = beside.concat();
        beside.sort();
        course.push(beside);
        if self.counts_every_failure {
            ends.iter().all(|is_well| *is_well)
        } else {
            ends.last().copied().unwrap_or(true)
        }
    }

    fn segment(&mut self, segment: &Segment, course: &mut Course) -> bool {
        let words: Vec<&str> = segment.words.iter().map(|word| word.value.as_str()).collect();
        match words.as_slice() {
            ["pwd", ..] => {
                self.is_chance.set(self.is_chance.get() || self.is_read);
                true
            }
            ["true" | ":", ..] => true,
            ["false"] => false,
            ["cd", "--", target] => {
                let target = self.directory.join(target).canonicalize();
                let is_well = target.as_ref().is_ok_and(|target| target.is_dir());
                if is_well {
                    self.directory = target.expect("it is there");
                }
                is_well
            }
            words => {
                let mut inside = self.clone();
                for assignment in &segment.assignments {
                    inside
                        .env
                        .insert(assignment.name.clone(), assignment.value.clone());
                }
                inside.program(words, course)
            }
        }
    }

    /// A program by its path, behind wrappers or in a shell's payload.
    fn program(&self, words: &[&str], course: &mut Course) -> bool {
        let [program, arguments @ ..] = words else {
            panic!("a program is missing");
        };
        let path = Path::new(program);
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if self.stage.is_stand_in(path) {
            course.push(vec![Ran {
                program: (*program).to_owned(),
                name: String::new(),
                arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
                directory: self.directory.to_str().expect("UTF-8").to_owned(),
                env: self.env.clone(),
                mark: String::new(),
            }]);
            return !name.starts_with("fail");
        }
        if matches!(name, "sh" | "bash" | "dash") {
            let (payload, options) = arguments.split_last().expect("a payload");
            let is_set = |letter: char, word: &str| {
                options.iter().any(|option| {
                    *option == word
                        || (option.starts_with('-') && !option.starts_with("--") && option.contains(letter))
                })
            };
            let mut inside = Self {
                stops_at_failure: is_set('e', "errexit"),
                counts_every_failure: options.contains(&"pipefail"),
                ..self.clone()
            };
            let list = parse(payload).unwrap_or_else(|finding| panic!("{finding:?} in {payload:?}"));
            return inside.list(&list, course);
        }
        assert!(
            matches!(name, "env" | "nohup" | "nice" | "stdbuf" | "timeout"),
            "nothing else is part of a plan: {words:?}"
        );
        let inner = arguments
            .iter()
            .position(|word| word.starts_with('/'))
            .expect("a wrapper has something to run");
        self.program(&arguments[inner..], course)
    }
}

impl Stage {
    fn is_stand_in(&self, path: &Path) -> bool {
        path.starts_with(self.scratch.path()) || path.starts_with(&self.home)
    }
}
