//! Takes transparent wrappers off a segment (W1 to W5).

use super::{
    WrapperReport,
    evaluation::Evaluation,
    work::{Target, Work},
};
use crate::command::{Code, Executable, Rule, names::NameClass, paths, syntax::WordClass, wrapper::Wrapper};

/// More wrappers around one command are not followed (W3).
const MAX_WRAPPERS: usize = 4;

impl Evaluation<'_> {
    /// Resolves the command word, and the one behind it as long as it is a wrapper in an accepted form.
    pub(super) fn unwrap(&mut self, work: &mut Work<'_>) -> Target {
        while let Some(word) = work.word() {
            let directory = work.place.directory.known();
            work.executable = Executable::resolve_under(self.rules, word, directory, self.lookup);
            if let Ok(executable) = &work.executable {
                if !self.executables.contains(&executable.identity) {
                    self.executables.push(executable.identity.clone());
                }
                let is_own = self
                    .policy
                    .protected
                    .is_own_binary(&executable.real, &executable.identity);
                if self.rules.holds(Rule::P6, is_own) {
                    work.fail(Code::Protected, "P6", "this is the server's own program");
                }
            }
            self.deny(work);
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
        let trusted = work
            .executable()
            .filter(|executable| self.coverage().is_trusted(executable))
            .map(|executable| executable.resolved.clone());
        let is_shell_word = is_word_of_the_shell(work, wrapper);
        if !self.rules.holds(Rule::W4, trusted.is_some() || is_shell_word) {
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
        if let Some(resolved) = trusted.filter(|_| wrapper != Wrapper::Command) {
            work.plan_program(resolved, own);
        }
        work.at += own + 1;
        Ok(())
    }
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
