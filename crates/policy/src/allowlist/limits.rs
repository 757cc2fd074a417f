//! What the kernel is to keep of each program of a plan (C1, D1): a value, which others enforce.

use std::collections::{BTreeSet, HashSet};

use countersign_domain::{
    Confine, Confinement, FileIdentity, NotKept, ProgramLimits, Startable, Starts, WritePlace,
};

use super::{
    coverage::Coverage,
    evaluation::Evaluation,
    keeps::{Explicit, Limits, LimitsFrom, limits_anything, lists_programs},
    work::Work,
};
use crate::{
    command::{Code, Executable, Finding, Rule, Span, helpers, paths},
    confine::ConfineRule,
};

/// Files and directories that one program may start; what is beyond cannot be started.
const MAX_STARTABLE: usize = 256;
const BELOW: &str = "/**";

impl Coverage<'_> {
    /// Whether what an entry says about its program can be kept, or need not be.
    pub(super) fn keeps(&self, said: Option<&ConfineRule>, executable: Option<&Executable>) -> bool {
        let is_kept = match said {
            None => true,
            Some(ConfineRule::NotUnderstood(_)) => false,
            Some(ConfineRule::Understood(confine)) => {
                !limits_anything(confine)
                    || self.policy.keeps.falls_back
                    || executable.is_some_and(|executable| self.keeps_of(confine, &executable.identity))
            }
        };
        self.rules.holds(Rule::C1, is_kept)
    }

    /// Whether an entry stands for the arguments of its program, too: what they could make it start is kept (D1).
    pub(super) fn keeps_starts(&self, said: Option<&ConfineRule>, executable: Option<&Executable>) -> bool {
        let confine = said.and_then(ConfineRule::understood);
        // An argument that loads native code or names settings does more than to start another.
        let is_all = |executable: &&Executable| executable.names().into_iter().all(helpers::starts_are_all);
        let executable = executable.filter(is_all);
        confine
            .filter(|confine| lists_programs(confine.starts.as_ref()))
            .zip(executable)
            .is_some_and(|(confine, executable)| self.keeps_of(confine, &executable.identity))
    }

    fn keeps_of(&self, confine: &Confine, file: &FileIdentity) -> bool {
        let keeps = self.policy.keeps;
        keeps.can_keep(confine) && !(keeps.lets_gain && self.lookup.gains_privileges(file))
    }
}

impl Evaluation<'_> {
    /// Notes what an entry that covers a segment says of it.
    pub(super) fn note_explicit(&mut self, span: Span, confine: Option<&Confine>, is_needed: bool) {
        let Some(confine) = confine.filter(|confine| limits_anything(confine)) else {
            return;
        };
        if !self.policy.keeps.can_keep(confine) {
            self.not_kept = Some(NotKept::Unsupported);
        }
        self.explicit.push(Explicit {
            span,
            confine: confine.clone(),
            is_needed,
        });
    }

    /// Notes that the kernel cannot keep what it would keep of a segment by default: the text alone decides then.
    pub(super) fn note_default(&mut self, work: &Work<'_>) {
        let is_default = match &work.limits_from {
            LimitsFrom::Cover(said) => said.as_ref().is_none_or(|said| said.starts.is_none()),
            LimitsFrom::Nothing | LimitsFrom::Question | LimitsFrom::Payload(_) => false,
        };
        if is_default
            && self.policy.keeps.lacks_starts
            && !self.is_aside
            && self.policy.strict_delegation
            && profile_of(work).is_some()
            && self.is_what_its_name_says(work)
        {
            self.not_kept = Some(NotKept::Unsupported);
        }
    }

    /// The limits of the program that a segment starts.
    pub(super) fn limits_of(&self, work: &Work<'_>) -> Limits {
        let is_said = match &work.limits_from {
            LimitsFrom::Nothing | LimitsFrom::Question => false,
            LimitsFrom::Cover(said) => said.as_ref().is_some_and(limits_anything),
            LimitsFrom::Payload(inner) => inner.iter().any(|one| one.is_said),
        };
        Limits {
            program: self.program_limits(work),
            is_said,
        }
    }

    fn program_limits(&self, work: &Work<'_>) -> ProgramLimits {
        let open = ProgramLimits {
            program: work.label().to_owned(),
            ..ProgramLimits::default()
        };
        // What is only looked into is not started.
        if self.is_aside {
            return open;
        }
        let keeps = self.policy.keeps;
        let kept_by_default =
            keeps.starts && self.policy.strict_delegation && self.is_what_its_name_says(work);
        let judged = || work.judged.iter().cloned().map(Startable::File);
        match &work.limits_from {
            LimitsFrom::Nothing => open,
            LimitsFrom::Question => {
                let is_inert = kept_by_default && profile_of(work).is_some_and(<[_]>::is_empty);
                ProgramLimits {
                    starts: is_inert.then(|| startable(work, judged())),
                    ..open
                }
            }
            LimitsFrom::Payload(inner) => {
                let inner: Vec<&ProgramLimits> = inner.iter().map(|one| &one.program).collect();
                let all = |is: fn(&&ProgramLimits) -> bool| inner.iter().all(is);
                let has_any = !inner.is_empty();
                let starts = keeps.starts && (has_any || kept_by_default) && all(|one| one.starts.is_some());
                ProgramLimits {
                    starts: starts.then(|| {
                        let of_inner = inner.iter().flat_map(|one| one.starts.iter().flatten()).cloned();
                        startable(work, judged().chain(of_inner))
                    }),
                    writes: (has_any && all(|one| one.writes.is_some())).then(|| {
                        inner
                            .iter()
                            .flat_map(|one| one.writes.iter().flatten())
                            .cloned()
                            .collect()
                    }),
                    connects: (has_any && all(|one| one.connects.is_some())).then(|| {
                        inner
                            .iter()
                            .flat_map(|one| one.connects.iter().flatten())
                            .copied()
                            .collect()
                    }),
                    ..open
                }
            }
            LimitsFrom::Cover(said) => {
                let said = said.clone().unwrap_or_default();
                let starts = match said.starts {
                    Some(Starts::Any) => None,
                    Some(Starts::These {
                        judged: with_profile,
                        programs,
                    }) => keeps.starts.then(|| {
                        let profile = profile_of(work).filter(|_| with_profile).unwrap_or_default();
                        let named = programs.iter().map(String::as_str).chain(profile.iter().copied());
                        startable(work, judged().chain(self.resolved(named)))
                    }),
                    None => profile_of(work).filter(|_| kept_by_default).map(|profile| {
                        startable(work, judged().chain(self.resolved(profile.iter().copied())))
                    }),
                };
                ProgramLimits {
                    starts,
                    writes: said
                        .writes
                        .filter(|_| keeps.writes)
                        .map(|places| self.places(places)),
                    connects: said
                        .connects
                        .filter(|_| keeps.connects)
                        .map(|ports| ports.into_iter().collect()),
                    ..open
                }
            }
        }
    }

    /// Whether the program can be believed to be the one that its name says: a profile is about that one. A script of the
    /// same name in a directory of the account may start anything.
    fn is_what_its_name_says(&self, work: &Work<'_>) -> bool {
        work.executable().is_some_and(|executable| {
            self.coverage()
                .is_believable_file(&executable.resolved, &executable.real)
        })
    }

    /// Whether a payload's limits are wider than an entry for a part of it says, which the shell around it would let out.
    pub(super) fn lets_out(&self, limits: &ProgramLimits, since: usize) -> bool {
        let inner = self.explicit.get(since..).unwrap_or_default();
        let keeps = self.policy.keeps;
        inner.iter().any(|one| {
            (keeps.starts && limits.starts.is_none() && lists_programs(one.confine.starts.as_ref()))
                || (keeps.writes && limits.writes.is_none() && one.confine.writes.is_some())
                || (keeps.connects && limits.connects.is_none() && one.confine.connects.is_some())
        })
    }

    /// The files and directories behind the words of a list. What is not there is passed over.
    fn resolved<'w>(&self, words: impl Iterator<Item = &'w str>) -> impl Iterator<Item = Startable> {
        let found: Vec<Startable> = words.filter_map(|word| self.resolve(word)).collect();
        found.into_iter()
    }

    fn resolve(&self, word: &str) -> Option<Startable> {
        let expanded = |path: &str| paths::normalise(&paths::expand_home(path, self.lookup.home()));
        if let Some(directory) = word.strip_suffix(BELOW) {
            let real = self.lookup.real(&expanded(directory))?;
            // A link to the root is no narrower place.
            return (real != "/").then_some(Startable::Below(real));
        }
        if word.contains('/') {
            return self
                .lookup
                .inspect(&expanded(word))
                .map(|found| Startable::File(found.identity));
        }
        let (path, found) = self.lookup.find(word)?;
        self.coverage()
            .is_believable_file(&paths::normalise(&path), &found.real)
            .then_some(Startable::File(found.identity))
    }

    fn places(&self, places: Vec<WritePlace>) -> BTreeSet<WritePlace> {
        places
            .into_iter()
            .map(|place| match place {
                WritePlace::Path(path) => {
                    WritePlace::Path(paths::normalise(&paths::expand_home(&path, self.lookup.home())))
                }
                WritePlace::Workspace | WritePlace::Tmp => place,
            })
            .collect()
    }

    /// What is kept of the whole command, of which `programs` are the limits and `is_planned` says whether it is started
    /// without a shell; or what stands against it, since an entry wants more to be kept.
    pub(super) fn confinement(
        &self,
        programs: Vec<ProgramLimits>,
        is_planned: bool,
    ) -> (Confinement, Option<Finding>) {
        let confinement = Confinement {
            programs,
            not_kept: self.not_kept,
        };
        let wants = !self.explicit.is_empty() || !confinement.is_open();
        if !wants {
            return (Confinement::default(), None);
        }
        let keeps = self.policy.keeps;
        let gains = keeps.lets_gain
            && self
                .executables
                .iter()
                .any(|file| self.lookup.gains_privileges(file));
        if is_planned && !gains {
            return (confinement, None);
        }
        let is_wanted = |one: &&Explicit| one.is_needed || !keeps.falls_back;
        let unkept = self.explicit.iter().find(is_wanted);
        let finding = unkept
            .filter(|_| self.rules.on(Rule::C1))
            .map(|one| unavailable(one.span, gains));
        let not_kept = if gains {
            Some(NotKept::GainsPrivileges)
        } else {
            self.not_kept
        };
        let programs = confinement
            .programs
            .into_iter()
            .map(|limits| ProgramLimits {
                program: limits.program,
                ..ProgramLimits::default()
            })
            .collect();
        (Confinement { programs, not_kept }, finding)
    }
}

/// Each file and directory once, without the program itself, which can be executed anyway.
fn startable(work: &Work<'_>, found: impl Iterator<Item = Startable>) -> Vec<Startable> {
    let own = work.started().map(|file| (file.dev, file.ino));
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for (at, one) in found.enumerate() {
        let is_new = match &one {
            // Those that were judged come first; a profile that names the program says so for people.
            Startable::File(file) if at < work.judged.len() && Some((file.dev, file.ino)) == own => false,
            Startable::File(file) => seen.insert((file.dev, file.ino, file.path.clone())),
            Startable::Below(directory) => seen.insert((0, 0, directory.clone())),
        };
        if is_new && all.len() < MAX_STARTABLE {
            all.push(one);
        }
    }
    all
}

/// What stands against a segment whose entry says more than is kept of the whole command.
fn unavailable(span: Span, gains: bool) -> Finding {
    let detail = if gains {
        "an entry confines it, and a program of the command gains privileges"
    } else {
        "an entry confines it, and a shell would start the command"
    };
    Finding::new(Code::ConfineUnavailable, "C1", span, detail)
}

/// The helper profile of the program that a segment starts: of its file, where every name of it has one.
fn profile_of(work: &Work<'_>) -> Option<&'static [&'static str]> {
    let executable = work.executable()?;
    let has_all = executable
        .names()
        .into_iter()
        .all(|name| helpers::starts_of(name).is_some());
    helpers::starts_of(paths::base_name(&executable.real)).filter(|_| has_all)
}
