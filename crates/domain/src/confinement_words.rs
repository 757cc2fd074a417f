//! A confinement in one line, for people.

use super::{
    Binding, Bound,
    confinement::{Confinement, NotKept, ProgramLimits, Startable, WritePlace},
};

/// Programs, and items of each list, that a line names; it says how many more there are.
const MAX_NAMED: usize = 12;
const ANYTHING: &str = "may start anything";

impl Confinement {
    /// The same as [`Self::to_line`], where there is more to say than that anything may start.
    pub fn to_noteworthy_line(&self) -> Option<String> {
        (!self.is_open()).then(|| self.to_line())
    }

    /// What the kernel keeps, in one line: `git may start: git, ssh, below /usr/lib/git-core; may write: workspace`.
    pub fn to_line(&self) -> String {
        let not_kept = self.not_kept.map(|why| match why {
            NotKept::GainsPrivileges => "not held: gains privileges",
            NotKept::Unsupported => "not held: the kernel cannot",
        });
        let limits: Vec<String> = if self.programs.iter().all(ProgramLimits::is_open) {
            let text = if not_kept.is_some() { None } else { Some(ANYTHING) };
            text.into_iter().map(str::to_owned).collect()
        } else {
            let mut lines: Vec<String> = Vec::new();
            for line in self.programs.iter().map(ProgramLimits::to_line) {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            named(lines, " | ").into_iter().collect()
        };
        limits
            .into_iter()
            .chain(not_kept.map(str::to_owned))
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl ProgramLimits {
    fn to_line(&self) -> String {
        let list = |items: Vec<String>, none: &str| named(items, ", ").unwrap_or_else(|| none.to_owned());
        let starts = match &self.starts {
            None => ANYTHING.to_owned(),
            Some(starts) => {
                // Files come first: a directory says less.
                let (files, directories): (Vec<_>, Vec<_>) =
                    starts.iter().partition(|one| matches!(one, Startable::File(_)));
                let starts = files.into_iter().chain(directories).map(Startable::to_word);
                let starts = starts.collect();
                format!("may start: {}", list(starts, "nothing else"))
            }
        };
        let writes = self.writes.as_ref().map(|places| {
            let places = places.iter().map(WritePlace::to_word).collect();
            format!("; may write: {}", list(places, "nothing"))
        });
        let connects = self.connects.as_ref().map(|ports| {
            let ports = ports.iter().map(u16::to_string).collect();
            format!("; may connect to: {}", list(ports, "nothing"))
        });
        format!(
            "{} {starts}{}{}",
            plain(&self.program),
            writes.unwrap_or_default(),
            connects.unwrap_or_default()
        )
    }
}

impl Startable {
    fn to_word(&self) -> String {
        match self {
            Self::File(file) => plain(file.path.rsplit('/').next().unwrap_or_default()),
            Self::Below(directory) => format!("below {}", plain(directory)),
        }
    }
}

impl WritePlace {
    fn to_word(&self) -> String {
        match self {
            Self::Workspace => "workspace".to_owned(),
            Self::Tmp => "tmp".to_owned(),
            Self::Path(path) => plain(path),
        }
    }
}

impl Binding {
    /// What the kernel keeps of it, in one line; `None` where no program of this machine starts by its plan.
    pub fn confined(&self) -> Option<String> {
        match &self.bound {
            Bound::Exec { .. } | Bound::Plan { .. } | Bound::Rendered { .. } | Bound::Text { .. } => {
                Some(self.confinement.to_line())
            }
            Bound::Held { programs, .. } => {
                let names = programs.iter().map(|program| plain(&program.path)).collect();
                let starts = named(names, ", ").unwrap_or_else(|| "nothing".to_owned());
                Some(format!(
                    "held: may start: {starts}; may write: workspace; no network"
                ))
            }
            Bound::Inside { .. } | Bound::OnNode { .. } | Bound::Patch { .. } | Bound::Elsewhere { .. } => {
                None
            }
        }
    }
}

/// Items in a row; `None` for none of them.
fn named(mut items: Vec<String>, between: &str) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let more = items.len().saturating_sub(MAX_NAMED);
    items.truncate(MAX_NAMED);
    let row = items.join(between);
    Some(if more > 0 {
        format!("{row}{between}and {more} more")
    } else {
        row
    })
}

/// A name as it can stand in a line: one that could be taken for other words of it, or hides some, is quoted.
fn plain(name: &str) -> String {
    let is_plain = !name.is_empty()
        && name
            .chars()
            .all(|character| character.is_alphanumeric() || "/._-+@~".contains(character));
    if is_plain {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::FileIdentity;

    fn file(path: &str) -> Startable {
        Startable::File(FileIdentity {
            path: path.to_owned(),
            dev: 1,
            ino: 2,
            size: 3,
            mtime_ns: 4,
            ctime_ns: 5,
        })
    }

    fn limits(program: &str, starts: Option<Vec<Startable>>) -> ProgramLimits {
        ProgramLimits {
            program: program.to_owned(),
            starts,
            ..ProgramLimits::default()
        }
    }

    #[test]
    fn a_line_says_what_each_program_may() {
        let line = |programs, not_kept| Confinement { programs, not_kept }.to_line();
        assert_eq!(line(Vec::new(), None), "may start anything");
        assert_eq!(line(vec![limits("npm", None)], None), "may start anything");
        assert_eq!(
            line(vec![limits("cat", Some(vec![]))], None),
            "cat may start: nothing else"
        );
        let git = ProgramLimits {
            writes: Some(BTreeSet::from([
                WritePlace::Workspace,
                WritePlace::Path("/srv".to_owned()),
            ])),
            connects: Some(BTreeSet::from([443, 22])),
            ..limits(
                "git",
                Some(vec![
                    file("/usr/bin/git"),
                    file("/usr/bin/ssh"),
                    Startable::Below("/usr/lib/git-core".to_owned()),
                ]),
            )
        };
        assert_eq!(
            line(vec![git], None),
            "git may start: git, ssh, below /usr/lib/git-core; may write: workspace, /srv; may connect to: 22, 443"
        );
        assert_eq!(
            line(vec![limits("cat", Some(vec![])), limits("npm", None)], None),
            "cat may start: nothing else | npm may start anything"
        );
        assert_eq!(
            line(vec![limits("ping", None)], Some(NotKept::GainsPrivileges)),
            "not held: gains privileges"
        );
        assert_eq!(
            line(vec![limits("git", None)], Some(NotKept::Unsupported)),
            "not held: the kernel cannot"
        );
    }

    #[test]
    fn names_cannot_say_more_and_long_lists_are_cut() {
        let starts = vec![file("/x/a; may start anything"), file("/x/a\nb")];
        let line = Confinement {
            programs: vec![limits("x", Some(starts))],
            not_kept: None,
        }
        .to_line();
        assert_eq!(line, "x may start: \"a; may start anything\", \"a\\nb\"");
        let many = (0..20).map(|at| file(&format!("/x/{at}"))).collect();
        let line = Confinement {
            programs: vec![limits("x", Some(many))],
            not_kept: None,
        }
        .to_line();
        assert!(line.ends_with("11, and 8 more"), "{line}");
    }
}
