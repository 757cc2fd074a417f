//! What covers one resolved segment: entries, grants, safe bins, skills (M, SB, K).

use countersign_domain::WritePlace;

use super::{
    AnalysisPolicy, AnalysisRequest, CreditKind, CreditedEntry, Entry, Grant, Match, MatchKind, Typing,
    keeps::LimitsFrom, writers::Writer,
};
use crate::{
    command::{
        Code, DirectoryTrust, Executable, PathLookup, Rule, RuleSet,
        lookup::ExecutableForm,
        multi_call, paths,
        safe_bin::{Limits, SafeBinMiss, may_be_safe_under},
    },
    confine::ConfineRule,
    pattern::{ArgumentMatch, ArgumentRule, ExecutablePattern, GENERATED_SOURCE, PathCase, cwd_argv_pattern},
};

/// Directories anybody may write to (P3).
const SHARED_DIRECTORIES: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];
/// Directories whose programs are what their name says (section 3).
const TRUSTED_DIRECTORIES: &[&str] = &["/bin", "/usr/bin"];

/// Which entries may cover a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Any,
    /// Only one that names the program (D2).
    Program,
    /// Only one that names the program and its arguments (W2, S2, D1).
    Arguments,
    /// The same, or one by which the kernel keeps what the arguments could start (D1).
    ArgumentsOrStarts,
}

/// A segment as entries see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) typed: &'a str,
    /// `None` when nothing was found.
    pub(super) executable: Option<&'a Executable>,
    pub(super) arguments: &'a [&'a str],
    /// Whether these are all arguments, and none was judged apart (G16).
    pub(super) is_whole: bool,
    /// Whether every argument is what a shell would pass on.
    pub(super) literal: bool,
    /// Whether it is started by this server, and not by a program before it.
    pub(super) is_direct: bool,
    /// The real path of the directory it starts in, if that is certain.
    pub(super) directory: Option<&'a str>,
    pub(super) need: Need,
}

/// What covers a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) matched: Match,
    pub(super) credit: Option<CreditedEntry>,
    /// Whether it is an answer that was remembered for good.
    pub(super) durable: bool,
    /// Whether it covers the link by which the program is called, and not its file alone.
    pub(super) keeps_link: bool,
    /// What it includes of an open input.
    pub(super) typing: Typing,
    /// What it says about what its program may do.
    pub(super) limits: LimitsFrom,
    /// It names the arguments by what the kernel keeps of them (D1).
    pub(super) is_by_starts: bool,
}

/// The rules of a request with what matching needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coverage<'a> {
    pub(super) rules: RuleSet,
    pub(super) request: &'a AnalysisRequest<'a>,
    pub(super) policy: &'a AnalysisPolicy<'a>,
    pub(super) lookup: &'a dyn PathLookup,
}

impl Coverage<'_> {
    /// The first entry, grant, safe bin or skill that covers the segment.
    ///
    /// # Errors
    /// The code that says best why there is none.
    pub(super) fn find(&self, candidate: &Candidate<'_>) -> Result<Cover, Code> {
        let mut miss = if candidate.executable.is_some() {
            Code::NotAllowlisted
        } else {
            Code::NotFound
        };
        if let Some(cover) = self
            .entry(candidate, &mut miss)
            .or_else(|| self.grant(candidate, &mut miss))
        {
            return Ok(cover);
        }
        let Some(executable) = candidate.executable.filter(|_| candidate.need == Need::Any) else {
            return Err(miss);
        };
        match self.safe_bin(executable, candidate) {
            Some(Ok(cover)) if self.includes_input(cover.typing) => return Ok(cover),
            Some(Ok(_)) => miss = Code::OpenInput,
            Some(Err(code)) => missed(&mut miss, code),
            None => {}
        }
        match self.skill(executable) {
            Some(cover) if self.includes_input(cover.typing) => Ok(cover),
            Some(_) => Err(Code::OpenInput),
            None => Err(miss),
        }
    }

    /// Whether what covers a command that reads end of file covers this one too.
    pub(super) fn includes_input(&self, typing: Typing) -> bool {
        let includes = !self.request.input.is_open() || typing > Typing::Nothing;
        self.rules.holds(Rule::O1, includes)
    }

    /// Whether a program is what its name says: its file lies in a trusted directory, and so does the name, unless the
    /// file has the same one. Anybody can make a link to a trusted file and call it what they like.
    pub(super) fn is_trusted(&self, executable: &Executable) -> bool {
        let is_trusted = |file: &str| self.is_trusted_directory(paths::directory(file));
        is_trusted(&executable.real)
            && (is_trusted(&executable.resolved)
                || paths::base_name(&executable.resolved) == paths::base_name(&executable.real))
    }

    /// Whether nobody who runs commands can lead the path elsewhere, or have the program find files of theirs by it: no
    /// link was followed, or one that lies in a trusted directory.
    pub(super) fn is_fixed(&self, executable: &Executable) -> bool {
        executable.resolved == executable.real
            || self.is_trusted_directory(paths::directory(&executable.resolved))
    }

    fn is_trusted_directory(&self, directory: &str) -> bool {
        TRUSTED_DIRECTORIES.contains(&directory)
            || self
                .policy
                .trusted_dirs
                .iter()
                .any(|trusted| trusted.starts_with('/') && paths::normalise(trusted) == directory)
    }

    fn entry(&self, candidate: &Candidate<'_>, miss: &mut Code) -> Option<Cover> {
        let mut path_only: Option<Entry<'_>> = None;
        for entry in self.policy.entries.naming(candidate.executable) {
            let rule = ArgumentRule::of(entry.arg_pattern, entry.source);
            // Of two that cover it the one is better that means the link by which it is called.
            let covers_link = path_only.is_some_and(|found| self.covers_link(found.pattern, candidate));
            if (rule == ArgumentRule::Any && covers_link) || !self.names(entry.pattern, rule, candidate) {
                continue;
            }
            if !self.includes_input(entry.typing) {
                if self.covers_by(rule, candidate) {
                    *miss = Code::OpenInput;
                }
                continue;
            }
            if self.writes_elsewhere(entry.confine, rule, candidate) {
                continue;
            }
            if !self.keeps(entry.confine, candidate.executable) {
                if self.covers_by(rule, candidate) {
                    missed(miss, Code::ConfineUnavailable);
                }
                continue;
            }
            match rule {
                ArgumentRule::Inert if self.rules.on(Rule::M5) => missed(miss, Code::GeneratedEntryInert),
                ArgumentRule::Any | ArgumentRule::Inert if self.is_enough(entry.confine, candidate) => {
                    if path_only.is_none() || self.covers_link(entry.pattern, candidate) {
                        path_only = Some(entry);
                    }
                }
                ArgumentRule::Any | ArgumentRule::Inert => {}
                rule if self.has_arguments(rule, candidate) => {
                    return Some(self.entry_cover(&entry, candidate));
                }
                ArgumentRule::Generated(_) | ArgumentRule::Expression(_) => {
                    missed(miss, Code::ArgPatternMiss);
                }
            }
        }
        path_only.map(|entry| self.entry_cover(&entry, candidate))
    }

    /// Whether an entry that says nothing of the arguments covers the program with them.
    fn is_enough(&self, confine: Option<&ConfineRule>, candidate: &Candidate<'_>) -> bool {
        match candidate.need {
            Need::Any | Need::Program => true,
            Need::Arguments => false,
            Need::ArgumentsOrStarts => self.keeps_starts(confine, candidate.executable),
        }
    }

    /// Whether the words of a program that writes to its operands lead to no place where its entry says that it writes (C1): there it
    /// would only fail, so a person is asked. What else it writes the kernel keeps, but times and modes. So an entry for any
    /// arguments covers no options by which such a program may set these.
    fn writes_elsewhere(
        &self,
        confine: Option<&ConfineRule>,
        rule: ArgumentRule<'_>,
        candidate: &Candidate<'_>,
    ) -> bool {
        let places = confine
            .and_then(ConfineRule::understood)
            .and_then(|confine| confine.writes.as_ref());
        let Some((places, executable)) = places.zip(candidate.executable) else {
            return false;
        };
        let is_there = |place: &WritePlace, target: &str| match place {
            WritePlace::Workspace => paths::is_within(target, self.request.cwd_real),
            WritePlace::Tmp => ["/tmp", "/var/tmp"]
                .iter()
                .any(|tmp| paths::is_within(target, tmp)),
            WritePlace::Path(path) => {
                let place = paths::normalise(&paths::expand_home(path, self.lookup.home()));
                paths::is_within(target, &place)
            }
        };
        let leads_elsewhere = |word: &&str| {
            let base = if word.starts_with('/') {
                Some("/")
            } else {
                candidate.directory
            };
            let target = base.map(|base| paths::join_normalised(base, word));
            !target.is_some_and(|target| places.iter().any(|place| is_there(place, &target)))
        };
        let names = executable.names();
        let mut writers = names.iter().filter_map(|name| Writer::named(name));
        let may = writers.any(|writer| {
            (rule == ArgumentRule::Any && !writer.has_plain_options(candidate.arguments))
                || writer.targets(candidate.arguments).iter().any(leads_elsewhere)
        });
        self.rules.holds(Rule::C1, may)
    }

    /// Whether an entry that names the program covers it with these arguments.
    fn covers_by(&self, rule: ArgumentRule<'_>, candidate: &Candidate<'_>) -> bool {
        match rule {
            ArgumentRule::Any => matches!(candidate.need, Need::Any | Need::Program),
            ArgumentRule::Inert => candidate.need == Need::Any && !self.rules.on(Rule::M5),
            ArgumentRule::Generated(_) | ArgumentRule::Expression(_) => self.has_arguments(rule, candidate),
        }
    }

    fn grant(&self, candidate: &Candidate<'_>, miss: &mut Code) -> Option<Cover> {
        let mut path_only = None;
        for grant in self
            .policy
            .grants
            .iter()
            .filter(|grant| grant.is_live(self.policy.now) && is_for(grant, candidate))
        {
            let rule = ArgumentRule::of(grant.arg_pattern, None);
            if !self.names(grant.pattern, rule, candidate) || !self.has_content(grant, candidate) {
                continue;
            }
            if !self.includes_input(grant.typing) {
                if self.covers_by(rule, candidate) {
                    *miss = Code::OpenInput;
                }
                continue;
            }
            if self.writes_elsewhere(grant.confine, rule, candidate) {
                continue;
            }
            if !self.keeps(grant.confine, candidate.executable) {
                if self.covers_by(rule, candidate) {
                    missed(miss, Code::ConfineUnavailable);
                }
                continue;
            }
            match rule {
                ArgumentRule::Any if self.is_enough(grant.confine, candidate) => {
                    path_only = path_only.or(Some(grant));
                }
                ArgumentRule::Any | ArgumentRule::Inert => {}
                rule if self.has_arguments(rule, candidate) => {
                    return Some(self.grant_cover(grant, candidate));
                }
                ArgumentRule::Generated(_) | ArgumentRule::Expression(_) => {
                    missed(miss, Code::ArgPatternMiss);
                }
            }
        }
        path_only.map(|grant| self.grant_cover(grant, candidate))
    }

    /// Why a grant that names the segment does not cover it.
    pub(super) fn spent_grant(&self, candidate: &Candidate<'_>) -> Option<&'static str> {
        self.policy.grants.iter().find_map(|grant| {
            let rule = ArgumentRule::of(grant.arg_pattern, None);
            let is_meant = (rule != ArgumentRule::Any || candidate.need == Need::Any)
                && self.names(grant.pattern, rule, candidate)
                && self.has_arguments(rule, candidate);
            if !is_meant {
                None
            } else if grant.expires_at.is_some_and(|end| self.policy.now >= end) {
                Some("the grant for this has expired")
            } else if !grant.is_live(self.policy.now) {
                Some("the grant for this is used up")
            } else if grant.is_of_other_session {
                Some("the grant for this is for another session")
            } else if !is_for(grant, candidate) {
                Some("the grant for this is for another directory")
            } else if !self.has_content(grant, candidate) {
                Some("the grant for this is bound to another content of the file")
            } else {
                None
            }
        })
    }

    /// Whether a pattern names the executable. `*` never counts where the arguments must be named too.
    fn names(&self, pattern: &str, rule: ArgumentRule<'_>, candidate: &Candidate<'_>) -> bool {
        let Ok(pattern) = ExecutablePattern::parse_under(self.rules, pattern, self.lookup.home()) else {
            return false;
        };
        let (case, cache) = (self.path_case(), self.policy.cache);
        match (&pattern, candidate.executable) {
            (ExecutablePattern::Any, _) => {
                let covers = candidate.need == Need::Any && rule != ArgumentRule::Inert;
                self.rules.holds(Rule::M3, covers)
            }
            (_, None) => self.matches_unresolved(&pattern, candidate),
            (ExecutablePattern::Name(_), Some(executable)) => {
                let matches = executable.form == ExecutableForm::Name
                    && pattern.matches_name(&executable.typed, case, cache) == Some(true)
                    && self.is_believable(executable);
                self.rules.holds(Rule::M2, matches)
            }
            (ExecutablePattern::File(_) | ExecutablePattern::Glob { .. }, Some(executable)) => {
                // A pattern that is the very link that was followed leads to the same file.
                let matches = pattern == ExecutablePattern::File(executable.resolved.clone())
                    || (pattern.matches_path(&executable.real, case, cache, |path| self.lookup.real(path))
                        == Some(true)
                        && self.means_this_name(&pattern, rule, executable)
                        // A file that is several programs cannot be told which one without its link.
                        && (executable.is_identified_by_path() || self.keeps_link(&pattern, executable)));
                self.rules.holds(Rule::M1, matches)
            }
        }
    }

    /// Whether a pattern that matches the real file means it by this name too. A file that is several programs is
    /// meant as the one that the pattern names, or as all of them by the file's own name unless arguments are named,
    /// which say nothing about the others.
    fn means_this_name(
        &self,
        pattern: &ExecutablePattern,
        rule: ArgumentRule<'_>,
        executable: &Executable,
    ) -> bool {
        if !multi_call::tells_by_name(paths::base_name(&executable.real)) {
            return true;
        }
        let name = paths::base_name(&executable.resolved);
        match pattern {
            ExecutablePattern::File(file) => {
                let meant = paths::base_name(file);
                let is_whole =
                    meant == paths::base_name(&executable.real) && !multi_call::is_named_after_one(meant);
                meant == name || (is_whole && rule == ArgumentRule::Any)
            }
            ExecutablePattern::Glob { .. } => self.names_link(pattern, executable),
            ExecutablePattern::Name(_) | ExecutablePattern::Any => true,
        }
    }

    /// Whether a glob matches the path by which a file is called, and not only where that leads.
    fn names_link(&self, pattern: &ExecutablePattern, executable: &Executable) -> bool {
        let (case, cache) = (self.path_case(), self.policy.cache);
        let real = |path: &str| self.lookup.real(path);
        let directory = paths::directory(&executable.resolved);
        let directory = real(directory).unwrap_or_else(|| directory.to_owned());
        let named = paths::join_normalised(&directory, paths::base_name(&executable.resolved));
        pattern.matches_path(&named, case, cache, real) == Some(true)
    }

    /// Whether the link that was followed, if one was, is fixed or what a pattern names.
    fn keeps_link(&self, pattern: &ExecutablePattern, executable: &Executable) -> bool {
        self.is_fixed(executable)
            || match pattern {
                ExecutablePattern::Any | ExecutablePattern::Name(_) => true,
                ExecutablePattern::File(file) => *file == executable.resolved,
                ExecutablePattern::Glob { .. } => self.names_link(pattern, executable),
            }
    }

    /// The same for a pattern of an entry that covers.
    fn covers_link(&self, pattern: &str, candidate: &Candidate<'_>) -> bool {
        candidate.executable.is_none_or(|executable| {
            self.is_fixed(executable)
                || ExecutablePattern::parse_under(self.rules, pattern, self.lookup.home())
                    .is_ok_and(|pattern| self.keeps_link(&pattern, executable))
        })
    }

    /// A text that names no file is matched by nothing (P1, P2).
    fn matches_unresolved(&self, pattern: &ExecutablePattern, candidate: &Candidate<'_>) -> bool {
        let (case, cache) = (self.path_case(), self.policy.cache);
        let rule = if candidate.typed.contains('/') {
            Rule::P2
        } else {
            Rule::P1
        };
        !self.rules.on(rule)
            && (pattern.matches_name(candidate.typed, case, cache) == Some(true)
                || pattern.matches_path(candidate.typed, case, cache, |_| None) == Some(true))
    }

    fn path_case(&self) -> PathCase {
        let is_sensitive = self.policy.path_case == PathCase::Sensitive;
        if self.rules.holds(Rule::M6, is_sensitive) {
            PathCase::Sensitive
        } else {
            PathCase::Insensitive
        }
    }

    /// Whether a bare name that was found there may be believed (P3).
    fn is_believable(&self, executable: &Executable) -> bool {
        self.is_believable_file(&executable.resolved, &executable.real)
    }

    /// The same for a name that was found at `resolved`, whose file is `real`.
    pub(super) fn is_believable_file(&self, resolved: &str, real: &str) -> bool {
        let is_believable = [resolved, real].into_iter().all(|file| {
            let directory = paths::directory(file);
            let in_cwd = [self.request.cwd, self.request.cwd_real]
                .iter()
                .any(|cwd| paths::is_within(directory, &paths::normalise(cwd)));
            (!in_cwd || self.is_trusted_directory(directory))
                && !SHARED_DIRECTORIES
                    .iter()
                    .any(|shared| paths::is_within(directory, shared))
                && self.lookup.directory_trust(directory) == DirectoryTrust::Ours
        });
        self.rules.holds(Rule::P3, is_believable)
    }

    fn has_arguments(&self, rule: ArgumentRule<'_>, candidate: &Candidate<'_>) -> bool {
        if !candidate.literal {
            return false;
        }
        match rule {
            ArgumentRule::Any => true,
            ArgumentRule::Inert => false,
            // The digest is about arguments and directory; what is run by another name is another command.
            ArgumentRule::Generated(digest) => {
                let is_same = candidate.is_whole
                    && candidate.executable.is_none_or(Executable::is_identified_by_path)
                    && candidate.directory.is_some_and(|cwd| {
                        cwd_argv_pattern(cwd, candidate.arguments.iter().copied()).as_deref() == Some(digest)
                    });
                self.rules.holds(Rule::M5, is_same)
            }
            ArgumentRule::Expression(expression) => {
                let compiled = self.policy.cache.arguments(expression);
                let matches = compiled
                    .as_ref()
                    .as_ref()
                    .is_ok_and(|compiled| compiled.matches(candidate.arguments) == ArgumentMatch::Yes);
                self.rules.holds(Rule::M4, matches)
            }
        }
    }

    fn has_content(&self, grant: &Grant<'_>, candidate: &Candidate<'_>) -> bool {
        grant.sha256.is_none_or(|wanted| {
            // What another program starts it finds by its path, and that may be another file by then.
            candidate.is_direct
                && candidate
                    .executable
                    .and_then(|executable| self.lookup.content_sha256(&executable.identity))
                    .is_some_and(|found| found.eq_ignore_ascii_case(wanted))
        })
    }

    /// `None` when it is no configured safe bin at all.
    fn safe_bin(&self, executable: &Executable, candidate: &Candidate<'_>) -> Option<Result<Cover, Code>> {
        let name = paths::base_name(&executable.resolved);
        let is_configured = self.policy.safe_bins.iter().any(|safe_bin| safe_bin == name);
        if !self.rules.holds(Rule::Sb1, is_configured) {
            return None;
        }
        let limits = Limits::of_under(self.rules, name, self.policy.safe_bin_profiles)?;
        let is_filter = executable
            .names()
            .into_iter()
            .all(|name| may_be_safe_under(self.rules, name));
        let is_trusted = self.is_trusted(executable);
        if !is_filter || !self.rules.holds(Rule::Sb5, is_trusted) {
            return Some(Err(Code::SafeBinUntrusted));
        }
        if !candidate.literal {
            return Some(Err(Code::SafeBinOperand));
        }
        Some(match limits.check(candidate.arguments) {
            Ok(()) => Ok(Cover {
                matched: Match {
                    kind: MatchKind::SafeBin,
                    entry_id: None,
                    pattern: Some(name.to_owned()),
                },
                credit: None,
                durable: false,
                keeps_link: self.is_fixed(executable),
                typing: Typing::Nothing,
                limits: LimitsFrom::Cover(None),
                is_by_starts: false,
            }),
            Err(SafeBinMiss::Flag(_)) => Err(Code::SafeBinFlag),
            Err(SafeBinMiss::Operands) => Err(Code::SafeBinOperand),
        })
    }

    fn skill(&self, executable: &Executable) -> Option<Cover> {
        let is_skill = executable.form == ExecutableForm::Name
            && self
                .policy
                .skills
                .iter()
                .any(|skill| skill.name == executable.typed && skill.path == executable.real);
        self.rules.holds(Rule::K1, is_skill).then(|| Cover {
            matched: Match::plain(MatchKind::Skill),
            credit: None,
            durable: false,
            keeps_link: self.is_fixed(executable),
            typing: Typing::Nothing,
            limits: LimitsFrom::Nothing,
            is_by_starts: false,
        })
    }

    fn entry_cover(&self, entry: &Entry<'_>, candidate: &Candidate<'_>) -> Cover {
        Cover {
            matched: Match {
                kind: MatchKind::Allowlist,
                entry_id: Some(entry.id.to_owned()),
                pattern: Some(entry.pattern.to_owned()),
            },
            credit: Some(CreditedEntry {
                owner: entry.owner.to_owned(),
                id: entry.id.to_owned(),
                kind: CreditKind::Entry,
                pattern: entry.pattern.to_owned(),
                arg_pattern: entry.arg_pattern.map(str::to_owned),
                resolved: candidate.executable.map(|executable| executable.resolved.clone()),
            }),
            durable: entry.source == Some(GENERATED_SOURCE),
            keeps_link: self.covers_link(entry.pattern, candidate),
            typing: entry.typing,
            limits: LimitsFrom::Cover(entry.confine.and_then(ConfineRule::understood).cloned()),
            is_by_starts: candidate.need == Need::ArgumentsOrStarts
                && ArgumentRule::of(entry.arg_pattern, entry.source) == ArgumentRule::Any,
        }
    }

    fn grant_cover(&self, grant: &Grant<'_>, candidate: &Candidate<'_>) -> Cover {
        Cover {
            matched: Match {
                kind: MatchKind::Grant,
                entry_id: Some(grant.id.to_owned()),
                pattern: Some(grant.pattern.to_owned()),
            },
            credit: Some(CreditedEntry {
                owner: grant.owner.to_owned(),
                id: grant.id.to_owned(),
                kind: CreditKind::Grant,
                pattern: grant.pattern.to_owned(),
                arg_pattern: grant.arg_pattern.map(str::to_owned),
                resolved: candidate.executable.map(|executable| executable.resolved.clone()),
            }),
            durable: false,
            keeps_link: self.covers_link(grant.pattern, candidate),
            typing: grant.typing,
            limits: LimitsFrom::Cover(grant.confine.and_then(ConfineRule::understood).cloned()),
            is_by_starts: candidate.need == Need::ArgumentsOrStarts
                && ArgumentRule::of(grant.arg_pattern, None) == ArgumentRule::Any,
        }
    }
}

/// Whether a grant is for the session and the directory of a segment. One that is not certain is in none.
fn is_for(grant: &Grant<'_>, candidate: &Candidate<'_>) -> bool {
    let is_there = |limit| {
        candidate
            .directory
            .is_some_and(|directory| paths::is_within(directory, limit))
    };
    !grant.is_of_other_session && grant.directory.is_none_or(is_there)
}

/// Notes why nothing covers a segment. That something would, were its input not open or more kept of it, says most.
fn missed(miss: &mut Code, code: Code) {
    if !matches!(*miss, Code::OpenInput | Code::ConfineUnavailable) {
        *miss = code;
    }
}
