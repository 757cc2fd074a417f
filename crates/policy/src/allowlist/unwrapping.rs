//! Takes transparent wrappers off a segment (W1 to W5).

use super::{
    WrapperReport,
    evaluation::Evaluation,
    work::{Target, Work},
};
use crate::command::{
    Code, Executable, Rule, env_policy, lookup::Unresolved, names::NameClass, paths, syntax::WordClass,
    wrapper::Wrapper,
};

/// More wrappers around one command are not followed (W3).
const MAX_WRAPPERS: usize = 4;

impl Evaluation<'_> {
    /// Resolves the command word, and the one behind it as long as it is a wrapper in an accepted form.
    pub(super) fn unwrap(&mut self, work: &mut Work<'_>) -> Target {
        while let Some(word) = work.word() {
            let directory = work.context.directory.known();
            work.executable = Executable::resolve_under(self.rules, word, directory, self.lookup);
            if let Ok(executable) = &work.executable {
                if !self.executables.contains(&executable.identity) {
                    self.executables.push(executable.identity.clone());
                }
                if !work.judged.contains(&executable.identity) {
                    work.judged.push(executable.identity.clone());
                }
                let is_own = self
                    .policy
                    .protected
                    .is_own_binary(&executable.real, &executable.identity);
                if self.rules.holds(Rule::P6, is_own) {
                    work.fail(Code::Protected, "P6", "this is the server's own program");
                }
            }
            // The word had none, or the form would not have been accepted.
            let is_assignment = work.wrappers.last().is_some_and(|wrapper| wrapper.name == "env")
                && work
                    .executable()
                    .is_some_and(|file| file.resolved.contains('=') || file.real.contains('='));
            if self.rules.holds(Rule::W1, is_assignment) {
                work.plannable = false;
                work.fail(
                    Code::WrapperForm,
                    "W1",
                    "env would take the program's path for an assignment",
                );
            }
            self.deny(work);
            self.opaque |= self.does_more_than_it_says(work);
            let class = NameClass::of_all(work.names());
            if class != NameClass::Wrapper || !self.rules.on(Rule::W1) || !self.rules.on(Rule::W5) {
                return Target::Program(class);
            }
            if let Err((code, rule, detail)) = self.take_wrapper(work) {
                work.fail(code, rule, detail);
                return Target::Refused;
            }
        }
        // An accepted form leaves an inner command, so this is a wrapper table that is wrong.
        work.fail(Code::WrapperForm, "W1", "a command is missing behind the wrapper");
        Target::Refused
    }

    /// Whether a shell that reads the segment as text may run more than its words say: it has words of its own that nobody
    /// here knows, evaluates subscripts inside of some arguments, and finds programs by variables. Deny rules cannot see that.
    fn does_more_than_it_says(&self, work: &Work<'_>) -> bool {
        let (typed, arguments) = (work.typed(), work.arguments());
        let holds_code = |word: &&str| word.contains("$(") || word.contains('`');
        let is_evaluated = arguments.iter().any(holds_code);
        let hands_over = |word: &str| {
            word.split_once('=')
                .is_some_and(|(name, value)| !env_policy::is_harmless_under(self.rules, name, value))
        };
        let exports_plainly = || {
            typed == "export"
                && arguments.iter().all(|word| {
                    let name = word.split_once('=').map_or(*word, |(name, _)| name);
                    !name.contains(['[', '-']) && !is_guide(name) && !hands_over(word)
                })
        };
        let is_of_the_shell = !typed.contains('/') && NameClass::of(typed) == NameClass::RefusedBuiltin;
        // In a text that is only looked into, words that are no programs here may be anything, data too.
        let is_nowhere = is_of_the_shell || (!self.is_aside && work.executable == Err(Unresolved::NotFound));
        let is_quiet = QUIET_WORDS.contains(&typed) && !is_evaluated;
        let is_unknown = is_nowhere && !is_quiet && !exports_plainly();
        let has_format = typed == "printf" && !arguments.first().is_some_and(|word| word.starts_with('-'));
        // What a subscript runs may stand in a variable by now, so it need not look like code.
        let is_evaluating = matches!(typed, "test" | "[" | "printf")
            && arguments
                .iter()
                .skip(usize::from(has_format))
                .any(|word| word.contains('[') || holds_code(word));
        let mut assignments = work.segment.assignments.iter();
        is_unknown
            || is_evaluating
            || assignments.any(|assignment| {
                !env_policy::is_harmless_under(self.rules, &assignment.name, &assignment.value)
            })
    }

    fn take_wrapper(&self, work: &mut Work<'_>) -> Result<(), (Code, &'static str, &'static str)> {
        let name = paths::base_name(work.typed()).to_owned();
        let wrapper = Wrapper::named(&name).filter(|wrapper| {
            // A link from one wrapper to another would be read by the wrong table; one to anything else is not trusted.
            let mut others = work.names().into_iter().filter_map(Wrapper::named);
            self.rules.holds(Rule::W4, others.all(|other| other == *wrapper))
        });
        let Some(wrapper) = wrapper else {
            return Err((
                Code::WrapperForm,
                "W4",
                "another name of a program that runs others",
            ));
        };
        let coverage = self.coverage();
        let is_trusted = work
            .executable()
            .is_some_and(|executable| coverage.is_trusted(executable));
        let is_shell_word = is_word_of_the_shell(work, wrapper);
        if !self.rules.holds(Rule::W4, is_trusted || is_shell_word) {
            return Err((
                Code::WrapperUntrusted,
                "W4",
                "the wrapper does not lie in a trusted directory",
            ));
        }
        if self.rules.holds(Rule::W3, work.wrappers.len() >= MAX_WRAPPERS) {
            return Err((Code::WrapperDepth, "W3", "more than four wrappers"));
        }
        let own = wrapper.own_words(&work.arguments()).filter(|own| {
            let words = work.argument_words().get(..*own).unwrap_or_default();
            words.iter().all(|word| word.class == WordClass::Literal)
        });
        let Some(own) = own else {
            return Err((
                Code::WrapperForm,
                "W1",
                "this form of the wrapper is not understood",
            ));
        };
        let last = work.segment.words.get(work.at + own);
        work.wrappers.push(WrapperReport {
            name,
            span: last.map_or_else(|| work.span(), |last| work.span().to(last.span)),
        });
        // `command` is the shell's, and `time` may be: the plan runs the same program without them.
        if is_trusted && wrapper != Wrapper::Command {
            work.keeps_link = work
                .executable()
                .is_none_or(|executable| coverage.is_fixed(executable));
            work.plan_program(own);
            work.keeps_link = true;
        }
        work.at += own + 1;
        Ok(())
    }
}

/// Variables by which a shell finds other programs and directories than those that were looked at, or runs more.
const GUIDES: &[&str] = &[
    "PATH",
    "CDPATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "FPATH",
    "PROMPT_COMMAND",
    "PS4",
];
/// Words of the shell that run nothing.
const QUIET_WORDS: &[&str] = &["bg", "exit", "fg", "jobs", "times", "ulimit", "umask", "wait"];

pub(super) fn is_guide(name: &str) -> bool {
    let name = name.trim_end_matches('+');
    GUIDES.iter().any(|guide| guide.eq_ignore_ascii_case(name))
}

/// Whether a shell takes the wrapper's bare name for a word of its own. Behind a program it does not: that starts a
/// file of that name, or fails; nor does it know `time` behind an assignment.
fn is_word_of_the_shell(work: &Work<'_>, wrapper: Wrapper) -> bool {
    let is_first = work.wrappers.is_empty();
    let follows_shell_words = work
        .wrappers
        .iter()
        .all(|before| Wrapper::named(&before.name).is_some_and(Wrapper::is_shell_word));
    !work.typed().contains('/')
        && match wrapper {
            Wrapper::Command => follows_shell_words,
            Wrapper::Time => is_first && work.segment.assignments.is_empty(),
            Wrapper::Env | Wrapper::Nohup | Wrapper::Nice | Wrapper::Stdbuf | Wrapper::Timeout => false,
        }
}
