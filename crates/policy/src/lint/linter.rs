//! The lists of one agent, looked at rule by rule.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use countersign_domain::UnixMillis;

use super::{
    Item, Remark, RemarkCode, confined,
    index::{Index, Target},
};

use crate::{
    allowlist::{DenyRule, Entry, Grant, Typing},
    command::{DirectoryTrust, PathLookup, delegation, inline_eval, names::NameClass, paths},
    confine::ConfineRule,
    pattern::{
        ArgumentMatch, ArgumentRule, ExecutablePattern, GENERATED_SOURCE, PathCase, PatternCache,
        has_wildcard, is_marker,
    },
};

/// Files and directories that one linter looks up; what comes after them is judged by its text alone.
const MAX_LOOKUPS: usize = 10_000;
/// Globs that are tried on the usual interpreters.
const MAX_GLOBS_TRIED: usize = 2_000;
/// Directories that everybody may write to, no matter what their mode says here (P3).
const SHARED_DIRECTORIES: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];
/// Where interpreters are usually found; a pattern that covers one of them covers any code.
const USUAL_INTERPRETERS: &[&str] = &[
    "/usr/bin/python3",
    "/usr/bin/perl",
    "/usr/bin/node",
    "/bin/python3",
    "/bin/perl",
    "/usr/local/bin/python3",
    "/usr/local/bin/node",
    "/opt/homebrew/bin/python3",
];
/// Arguments that nothing but an expression for any arguments matches all of.
const UNLIKELY_ARGUMENTS: &[&[&str]] = &[&[], &["-c", "id"], &["--zq=9", "~", "Ünlikely/%"]];

/// The rules that are looked at, each list in matching order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lists<'a> {
    /// Allowlist entries of one list owner.
    pub entries: &'a [Entry<'a>],
    /// Limited entries; [`Grant::uses`] as the ledger counts them.
    pub grants: &'a [Grant<'a>],
    /// Deny rules of the same list owner.
    pub deny_rules: &'a [DenyRule<'a>],
    /// Why a deny rule with `children` does not bind what commands of the owner start; `None` where it does.
    pub children_not_kept: Option<&'a str>,
}

/// What the rules are judged against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The files of the machine.
    pub lookup: &'a dyn PathLookup,
    /// Compiled patterns of earlier looks; remarks do not depend on it.
    pub cache: &'a PatternCache,
    /// How patterns of entries and grants compare.
    pub path_case: PathCase,
    /// The time that grants expire by.
    pub now: UnixMillis,
}

/// Looks at the rules of one list owner, with those of the wildcard before them.
#[derive(Debug)]
pub struct Linter<'a> {
    surroundings: Surroundings<'a>,
    lists: Lists<'a>,
    /// The wildcard's, which come first for every agent.
    everybody: Option<&'a Self>,
    entries: Index,
    deny_rules: Index,
    /// Entries by pattern and argument pattern as written.
    alike: HashMap<Written<'a>, usize>,
    alike_denied: HashMap<Written<'a>, usize>,
    lookups: Cell<usize>,
    globs_tried: Cell<usize>,
    trust: RefCell<HashMap<String, DirectoryTrust>>,
}

/// Pattern and argument pattern.
type Written<'a> = (&'a str, Option<&'a str>);

/// A rule that can match something.
struct Subject<'a> {
    pattern: ExecutablePattern,
    /// Real path of a file, or of a glob's directory; `None` also when too many were looked up.
    real: Option<String>,
    is_looked_up: bool,
    rule: ArgumentRule<'a>,
}

impl<'a> Linter<'a> {
    /// Prepares for the wildcard's lists, or for those of an agent on its own.
    pub fn new(surroundings: Surroundings<'a>, lists: Lists<'a>) -> Self {
        Self::prepared(surroundings, lists, None)
    }

    /// Prepares for an agent's lists, behind those of `everybody`.
    pub fn below(everybody: &'a Self, lists: Lists<'a>) -> Self {
        Self::prepared(everybody.surroundings, lists, Some(everybody))
    }

    fn prepared(surroundings: Surroundings<'a>, lists: Lists<'a>, everybody: Option<&'a Self>) -> Self {
        let mut linter = Self {
            surroundings,
            lists,
            everybody,
            entries: Index::new(surroundings.path_case),
            deny_rules: Index::new(PathCase::Insensitive),
            alike: HashMap::new(),
            alike_denied: HashMap::new(),
            lookups: Cell::new(0),
            globs_tried: Cell::new(0),
            trust: RefCell::default(),
        };
        let mut entries = Index::new(surroundings.path_case);
        for (at, entry) in lists.entries.iter().enumerate() {
            linter
                .alike
                .entry((entry.pattern.trim(), entry.arg_pattern))
                .or_insert(at);
            if ArgumentRule::of(entry.arg_pattern, entry.source) == ArgumentRule::Any
                && let Some(pattern) = linter.parse(entry.pattern)
            {
                entries.insert(at, &pattern, |path| linter.real_or_same(path));
            }
        }
        let mut deny_rules = Index::new(PathCase::Insensitive);
        for (at, rule) in lists.deny_rules.iter().enumerate() {
            linter
                .alike_denied
                .entry((rule.pattern.trim(), rule.arg_pattern))
                .or_insert(at);
            if rule.arg_pattern.is_none()
                && let Some(pattern) = linter.parse(rule.pattern)
            {
                deny_rules.insert(at, &pattern, |path| linter.real_or_same(path));
            }
        }
        (linter.entries, linter.deny_rules) = (entries, deny_rules);
        linter
    }

    /// Everything that is odd about these lists, in their order. Those of everybody are not among it.
    pub fn remarks(&self) -> impl Iterator<Item = (Item, Remark)> + '_ {
        let of = |item: Item| move |remark: Remark| (item, remark);
        let entries = (0..self.lists.entries.len())
            .flat_map(move |at| self.entry(at).into_iter().map(of(Item::Entry(at))));
        let grants = (0..self.lists.grants.len())
            .flat_map(move |at| self.grant(at).into_iter().map(of(Item::Grant(at))));
        let rules = (0..self.lists.deny_rules.len())
            .flat_map(move |at| self.deny_rule(at).into_iter().map(of(Item::DenyRule(at))));
        entries.chain(grants).chain(rules)
    }

    /// What is odd about one entry.
    pub fn entry(&self, at: usize) -> Vec<Remark> {
        let Some(entry) = self.lists.entries.get(at) else {
            return Vec::new();
        };
        if is_marker(entry.pattern.trim()) && entry.source == Some(GENERATED_SOURCE) {
            return Vec::new();
        }
        let subject = match self.subject(entry.pattern, entry.arg_pattern, entry.source) {
            Ok(subject) => subject,
            Err(remark) => return vec![remark],
        };
        let mut remarks = Vec::new();
        let written = (entry.pattern.trim(), entry.arg_pattern);
        remarks.extend(self.shadow_of_entry(&subject, (written, entry.typing), at));
        remarks.extend(self.denial_of(&subject));
        self.look(&subject, &mut remarks);
        remarks.extend(self.confine_of(entry.confine, &subject));
        remarks
    }

    /// What is odd about what an entry or grant says of its program.
    fn confine_of(&self, confine: Option<&ConfineRule>, subject: &Subject<'_>) -> Vec<Remark> {
        let lookup = self.surroundings.lookup;
        confined::remarks(confine, &subject.names(), lookup, || self.may_look())
    }

    /// What is odd about one grant.
    pub fn grant(&self, at: usize) -> Vec<Remark> {
        let Some(grant) = self.lists.grants.get(at) else {
            return Vec::new();
        };
        let subject = match self.subject(grant.pattern, grant.arg_pattern, None) {
            Ok(subject) => subject,
            Err(remark) => return vec![remark],
        };
        let mut remarks = Vec::new();
        let now = self.surroundings.now;
        if grant.expires_at.is_some_and(|end| now >= end) {
            remarks.push(Remark::new(
                RemarkCode::Expired,
                "its time is over, so it covers nothing any more",
            ));
        } else if !grant.is_live(now) {
            remarks.push(Remark::new(
                RemarkCode::UsedUp,
                "it was used as often as it may, so it covers nothing any more",
            ));
        }
        // Every entry comes before any grant.
        if let Some(id) = self.wider_entry(&subject, usize::MAX, grant.typing) {
            let message =
                format!("the entry {id} covers all that it does, so none of its limits ever counts");
            remarks.push(Remark::new(RemarkCode::Shadowed, message));
        }
        remarks.extend(self.denial_of(&subject));
        self.look(&subject, &mut remarks);
        remarks.extend(self.confine_of(grant.confine, &subject));
        remarks
    }

    /// What is odd about one deny rule.
    pub fn deny_rule(&self, at: usize) -> Vec<Remark> {
        let Some(rule) = self.lists.deny_rules.get(at).filter(|rule| !rule.is_of_text) else {
            return Vec::new();
        };
        let pattern = match ExecutablePattern::parse(rule.pattern, self.surroundings.lookup.home()) {
            Ok(pattern) => pattern,
            Err(inert) => {
                let message = format!(
                    "{inert}; what it was meant to stop is not known, so every call needs a person while it stands"
                );
                return vec![Remark::new(RemarkCode::NeverMatches, message)];
            }
        };
        let mut remarks = Vec::new();
        let mut rule_of_arguments = ArgumentRule::Any;
        if let Some(expression) = rule.arg_pattern {
            match self.surroundings.cache.arguments(expression).as_ref() {
                Ok(_) => rule_of_arguments = ArgumentRule::Expression(expression),
                Err(invalid) => remarks.push(Remark::new(
                    RemarkCode::TooBroad,
                    format!("{invalid}, so it denies with any arguments"),
                )),
            }
        }
        let subject = self.looked_up(pattern, rule_of_arguments);
        if subject.pattern == ExecutablePattern::Any && rule_of_arguments == ArgumentRule::Any {
            remarks.push(Remark::new(RemarkCode::TooBroad, "it denies every command"));
        }
        let written = (rule.pattern.trim(), rule.arg_pattern);
        if let Some(id) = self.wider_rule(&subject, written, at) {
            let message = format!("the deny rule {id} denies all that it does");
            remarks.push(Remark::new(RemarkCode::Shadowed, message));
        }
        let missing = match subject.pattern {
            ExecutablePattern::File(_) => {
                Some("no file of this path is there; the name alone would deny the program wherever it lies")
            }
            ExecutablePattern::Glob { .. } => Some("no directory of this path is there"),
            // A name is denied wherever its file may turn up.
            ExecutablePattern::Any | ExecutablePattern::Name(_) => None,
        };
        if let Some(message) = missing.filter(|_| subject.is_missing()) {
            remarks.push(Remark::new(RemarkCode::MissingFile, message));
        }
        if let Some(why) = self.lists.children_not_kept.filter(|_| rule.children) {
            let message = format!("it does not bind what commands start by themselves: {why}");
            remarks.push(Remark::new(RemarkCode::ChildrenNotKept, message));
        }
        remarks
    }

    /// Reads pattern and arguments of an entry or grant.
    fn subject<'b>(
        &self,
        pattern: &'b str,
        arg_pattern: Option<&'b str>,
        source: Option<&'b str>,
    ) -> Result<Subject<'b>, Remark> {
        let never = |why: String| Remark::new(RemarkCode::NeverMatches, why);
        let pattern = ExecutablePattern::parse(pattern, self.surroundings.lookup.home())
            .map_err(|inert| never(inert.to_string()))?;
        let rule = ArgumentRule::of(arg_pattern, source);
        match rule {
            ArgumentRule::Inert => {
                let why = "a generated entry without its directory and arguments covers nothing";
                return Err(never(why.to_owned()));
            }
            ArgumentRule::Expression(expression) => {
                if let Err(invalid) = self.surroundings.cache.arguments(expression).as_ref() {
                    return Err(never(invalid.to_string()));
                }
            }
            ArgumentRule::Any | ArgumentRule::Generated(_) => {}
        }
        Ok(self.looked_up(pattern, rule))
    }

    fn looked_up<'b>(&self, pattern: ExecutablePattern, rule: ArgumentRule<'b>) -> Subject<'b> {
        let path = match &pattern {
            ExecutablePattern::File(path) => Some(path.as_str()),
            ExecutablePattern::Glob { directory, .. } if directory.is_empty() => Some("/"),
            ExecutablePattern::Glob { directory, .. } => Some(directory.as_str()),
            ExecutablePattern::Name(name) if !has_wildcard(name) => Some(name.as_str()),
            ExecutablePattern::Any | ExecutablePattern::Name(_) => None,
        };
        let is_looked_up = path.is_some() && self.may_look();
        let real = path.filter(|_| is_looked_up).and_then(|path| match &pattern {
            ExecutablePattern::Name(_) => {
                let found = self.surroundings.lookup.search(path)?;
                self.surroundings.lookup.real(&found)
            }
            ExecutablePattern::Any | ExecutablePattern::File(_) | ExecutablePattern::Glob { .. } => {
                self.surroundings.lookup.real(path)
            }
        });
        Subject {
            pattern,
            real,
            is_looked_up,
            rule,
        }
    }

    fn shadow_of_entry(
        &self,
        subject: &Subject<'_>,
        (written, typing): (Written<'_>, Typing),
        at: usize,
    ) -> Option<Remark> {
        let twin = self.alike.get(&written).filter(|first| **first < at);
        let twin = twin.and_then(|first| self.lists.entries.get(*first)).or_else(|| {
            let everybody = self.everybody?;
            everybody.lists.entries.get(*everybody.alike.get(&written)?)
        });
        if let Some(twin) = twin {
            let message = format!("the entry {} before it says the same", twin.id);
            return (twin.typing >= typing).then(|| Remark::new(RemarkCode::Shadowed, message));
        }
        let id = self.wider_entry(subject, at, typing)?;
        let message = match subject.rule {
            ArgumentRule::Any => format!("the entry {id} before it covers all that it does"),
            // Carriers and shells, and arguments that make a program run another, need the entry with arguments.
            _ if subject.class() != NameClass::Program => return None,
            ArgumentRule::Generated(_) | ArgumentRule::Expression(_) | ArgumentRule::Inert => format!(
                "the entry {id} before it covers the program with any arguments; only arguments that make it run \
                 another program need this one"
            ),
        };
        Some(Remark::new(RemarkCode::Shadowed, message))
    }

    /// An entry before this place that covers everything with any arguments, and includes as much of an open input.
    fn wider_entry(&self, subject: &Subject<'_>, before: usize, typing: Typing) -> Option<&'a str> {
        let cache = self.surroundings.cache;
        let own = self.entries.wider(subject.target(), before, cache);
        let own = own.and_then(|at| self.lists.entries.get(at));
        let found = own.or_else(|| {
            let everybody = self.everybody?;
            let at = everybody.entries.wider(subject.target(), usize::MAX, cache)?;
            everybody.lists.entries.get(at)
        });
        found.filter(|entry| entry.typing >= typing).map(|entry| entry.id)
    }

    fn wider_rule(&self, subject: &Subject<'_>, written: Written<'_>, at: usize) -> Option<&'a str> {
        let cache = self.surroundings.cache;
        let own = self
            .alike_denied
            .get(&written)
            .copied()
            .filter(|first| *first < at);
        let own = own.or_else(|| self.deny_rules.wider(subject.target(), at, cache));
        let own = own.and_then(|at| self.lists.deny_rules.get(at));
        let found = own.or_else(|| {
            let everybody = self.everybody?;
            let twin = everybody.alike_denied.get(&written).copied();
            let at = twin.or_else(|| everybody.deny_rules.wider(subject.target(), usize::MAX, cache))?;
            everybody.lists.deny_rules.get(at)
        });
        found.map(|rule| rule.id)
    }

    /// A deny rule, which wins in any order, for all that an entry or grant covers.
    fn denial_of(&self, subject: &Subject<'_>) -> Option<Remark> {
        let cache = self.surroundings.cache;
        let found_in = |linter: &Self| {
            let rules = &linter.deny_rules;
            let by_path = rules.wider(subject.target(), usize::MAX, cache);
            let at = by_path.or_else(|| {
                subject
                    .names()
                    .into_iter()
                    .find_map(|name| rules.name(name, cache))
            })?;
            linter.lists.deny_rules.get(at).map(|rule| rule.id)
        };
        let id = found_in(self).or_else(|| self.everybody.and_then(found_in))?;
        let message = format!("the deny rule {id} denies all that it would cover");
        Some(Remark::new(RemarkCode::Denied, message))
    }

    /// Breadth, the kind of program, and what lies on the disk.
    fn look(&self, subject: &Subject<'_>, remarks: &mut Vec<Remark>) {
        let is_exact = matches!(subject.rule, ArgumentRule::Generated(_));
        if !is_exact {
            remarks.extend(self.breadth(&subject.pattern));
            remarks.extend(self.kind(subject));
        }
        if subject.is_missing() {
            let message = match subject.pattern {
                ExecutablePattern::Name(_) => "no program of this name is found on the run PATH",
                ExecutablePattern::Glob { .. } => "its directory is not there",
                ExecutablePattern::File(_) | ExecutablePattern::Any => "there is no such file",
            };
            remarks.push(Remark::new(RemarkCode::MissingFile, message));
        }
        if let Some(directory) = self.open_directory(subject) {
            let message =
                format!("others than root and the server's account may put programs into {directory:?}");
            remarks.push(Remark::new(RemarkCode::WritableDirectory, message));
        }
    }

    fn breadth(&self, pattern: &ExecutablePattern) -> Option<Remark> {
        let broad = |why: &str| Some(Remark::new(RemarkCode::TooBroad, why));
        match pattern {
            ExecutablePattern::Any => broad("it covers every program there is"),
            ExecutablePattern::Name(name) if name.chars().all(|character| matches!(character, '*' | '?')) => {
                broad("it covers programs of any name")
            }
            ExecutablePattern::Name(_) | ExecutablePattern::File(_) => None,
            ExecutablePattern::Glob { directory, .. } if directory.is_empty() => {
                broad("its first wildcard stands at the root, so it covers any file in any directory")
            }
            ExecutablePattern::Glob { directory, .. }
                if SHARED_DIRECTORIES
                    .iter()
                    .any(|shared| paths::is_within(directory, shared)) =>
            {
                broad("everybody may put programs there")
            }
            ExecutablePattern::Glob { directory, rest }
                if rest.contains("**")
                    && (directory.matches('/').count() == 1
                        || directory == self.surroundings.lookup.home().trim_end_matches('/')) =>
            {
                broad("it covers a whole tree of directories, downloads and build results among them")
            }
            ExecutablePattern::Glob { directory, rest } => {
                let covers = |path: &&&str| match rest.as_str() {
                    "/*" => paths::directory(path) == directory,
                    "/**" => paths::is_within(path, directory),
                    _ => self.glob_covers(pattern, path),
                };
                let interpreter = USUAL_INTERPRETERS.iter().find(covers)?;
                let name = paths::base_name(interpreter);
                let message = format!("it covers interpreters such as {name}, and with them any code");
                Some(Remark::new(RemarkCode::Interpreter, message))
            }
        }
    }

    /// Whether a glob of another form than the common ones matches a path. Each has to be compiled, so only some are.
    fn glob_covers(&self, pattern: &ExecutablePattern, path: &str) -> bool {
        let Surroundings { cache, path_case, .. } = self.surroundings;
        let tried = self.globs_tried.get();
        self.globs_tried.set(tried.saturating_add(1));
        let same = |path: &str| Some(path.to_owned());
        tried < MAX_GLOBS_TRIED && pattern.matches_path(path, path_case, cache, same) == Some(true)
    }

    /// What the program itself means for its entry.
    fn kind(&self, subject: &Subject<'_>) -> Option<Remark> {
        let names = subject.names();
        if names.is_empty() {
            return None;
        }
        let any_arguments = match subject.rule {
            ArgumentRule::Any => true,
            ArgumentRule::Expression(expression) => self.matches_anything(expression),
            ArgumentRule::Generated(_) | ArgumentRule::Inert => false,
        };
        let is_without = subject.rule == ArgumentRule::Any;
        match subject.class() {
            NameClass::Program if inline_eval::is_interpreter(&names) && any_arguments => Some(Remark::new(
                RemarkCode::Interpreter,
                "it lets an interpreter run any code; an argument pattern would name the script",
            )),
            NameClass::Program if is_without && delegation::is_unread(&names) => Some(Remark::new(
                RemarkCode::Interpreter,
                "its options and files make it start others, and no rule says which; an argument pattern would name the calls",
            )),
            NameClass::Multiplexer => Some(Remark::new(
                RemarkCode::NeverMatches,
                "a binary that holds many programs, shells among them, is never covered",
            )),
            NameClass::RefusedBuiltin => Some(Remark::new(
                RemarkCode::NeverMatches,
                "a builtin of the shell is never covered",
            )),
            NameClass::Wrapper => Some(Remark::new(
                RemarkCode::NeverMatches,
                "this program only starts another, and that is what needs the entry",
            )),
            NameClass::PayloadShell | NameClass::OtherShell | NameClass::Carrier if is_without => {
                Some(Remark::new(
                    RemarkCode::NeedsArguments,
                    "the program runs what its arguments say: only an entry with an argument pattern covers it",
                ))
            }
            NameClass::PayloadShell | NameClass::OtherShell | NameClass::Carrier if any_arguments => {
                Some(Remark::new(
                    RemarkCode::TooBroad,
                    "the program runs what its arguments say, and the argument pattern matches anything",
                ))
            }
            NameClass::Program | NameClass::PayloadShell | NameClass::OtherShell | NameClass::Carrier => None,
        }
    }

    fn matches_anything(&self, expression: &str) -> bool {
        let compiled = self.surroundings.cache.arguments(expression);
        compiled.as_ref().as_ref().is_ok_and(|compiled| {
            UNLIKELY_ARGUMENTS
                .iter()
                .all(|arguments| compiled.matches(arguments) == ArgumentMatch::Yes)
        })
    }

    /// A directory of the pattern, or of the file behind it, where others may put programs.
    fn open_directory(&self, subject: &Subject<'_>) -> Option<String> {
        let real = subject.real.as_deref()?;
        let directories = match &subject.pattern {
            ExecutablePattern::File(file) => vec![paths::directory(file), paths::directory(real)],
            ExecutablePattern::Glob { directory, .. } if directory.is_empty() => return None,
            ExecutablePattern::Glob { .. } => vec![real],
            // A name that is found in such a place is not believed in the first place (P3).
            ExecutablePattern::Any | ExecutablePattern::Name(_) => return None,
        };
        let is_open = |directory: &&str| {
            SHARED_DIRECTORIES
                .iter()
                .any(|shared| paths::is_within(directory, shared))
                || self.trust(directory) == DirectoryTrust::Foreign
        };
        directories.into_iter().find(is_open).map(str::to_owned)
    }

    fn trust(&self, directory: &str) -> DirectoryTrust {
        if let Some(known) = self.trust.borrow().get(directory) {
            return *known;
        }
        if !self.may_look() {
            return DirectoryTrust::Ours;
        }
        let trust = self.surroundings.lookup.directory_trust(directory);
        self.trust.borrow_mut().insert(directory.to_owned(), trust);
        trust
    }

    fn parse(&self, pattern: &str) -> Option<ExecutablePattern> {
        ExecutablePattern::parse(pattern, self.surroundings.lookup.home()).ok()
    }

    fn real_or_same(&self, path: &str) -> String {
        let real = if self.may_look() {
            self.surroundings.lookup.real(path)
        } else {
            None
        };
        real.unwrap_or_else(|| path.to_owned())
            .trim_end_matches('/')
            .to_owned()
    }

    fn may_look(&self) -> bool {
        let looked = self.lookups.get();
        self.lookups.set(looked.saturating_add(1));
        looked < MAX_LOOKUPS
    }
}

impl Subject<'_> {
    fn target(&self) -> Target<'_> {
        Target {
            pattern: &self.pattern,
            real: match self.pattern {
                ExecutablePattern::Name(_) | ExecutablePattern::Any => None,
                ExecutablePattern::File(_) | ExecutablePattern::Glob { .. } => self.real.as_deref(),
            },
        }
    }

    /// The base names of the one program that it can be.
    fn names(&self) -> Vec<&str> {
        let written = match &self.pattern {
            ExecutablePattern::File(path) => paths::base_name(path),
            ExecutablePattern::Name(name) if !has_wildcard(name) => name,
            ExecutablePattern::Name(_) | ExecutablePattern::Any | ExecutablePattern::Glob { .. } => {
                return Vec::new();
            }
        };
        let real = self.real.as_deref().map(paths::base_name);
        std::iter::once(written).chain(real).collect()
    }

    fn class(&self) -> NameClass {
        NameClass::of_all(self.names())
    }

    /// Whether what it names was looked for and is not there.
    fn is_missing(&self) -> bool {
        self.is_looked_up && self.real.is_none()
    }
}
