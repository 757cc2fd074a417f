//! The rules of `docs/spec/command-analysis.md` by their ids, and the switch that the tests of this crate have for each.
//!
//! Every decision of a rule goes through a [`RuleSet`], which hands back what it is given. The tests of this crate can
//! force one rule's answer, so that they can tell a rule that decides from one that is dead. Nothing else has a way to make
//! a set in which a rule is off: the type has one value and no size.

use countersign_domain::vocabulary;

vocabulary! {
    /// A rule (`docs/spec/command-analysis.md`), by its sentence there.
    pub enum Rule("a rule id") {
        /// Every operator has a command on each side, and a command has at least one word.
        ///
        /// `docs/spec/command-analysis.md#g1`
        G1 = "G1",
        /// Commands are joined by `&&`, `||`, `;`, newlines and `|`, and by no other operator.
        ///
        /// `docs/spec/command-analysis.md#g2`
        G2 = "G2",
        /// Quotes and backslashes are read as a POSIX shell reads them, and every quote has its end.
        ///
        /// `docs/spec/command-analysis.md#g3`
        G3 = "G3",
        /// A comment ends at its newline, and a continued line is accepted only where no word is open.
        ///
        /// `docs/spec/command-analysis.md#g4`
        G4 = "G4",
        /// A `$` that begins an expansion and a backtick are misses, in double quotes too.
        ///
        /// `docs/spec/command-analysis.md#g5`
        G5 = "G5",
        /// Unquoted globs, brace lists and tildes of accounts are misses; `~` and `~/…` are the home directory.
        ///
        /// `docs/spec/command-analysis.md#g6`
        G6 = "G6",
        /// Every redirection is a miss.
        ///
        /// `docs/spec/command-analysis.md#g7`
        G7 = "G7",
        /// Only `NAME=value` with a harmless name and a literal value may stand before a command.
        ///
        /// `docs/spec/command-analysis.md#g8`
        G8 = "G8",
        /// Words of the shell's grammar in the place of a command, and unquoted parentheses, are misses.
        ///
        /// `docs/spec/command-analysis.md#g9`
        G9 = "G9",
        /// A text over a limit, or with a character that can hide something, is a miss.
        ///
        /// `docs/spec/command-analysis.md#g10`
        G10 = "G10",
        /// Where `tools.exec.reads.nullRedirections` says so, redirections from and to `/dev/null`, and between standard output
        /// and standard error, are a part of the step.
        ///
        /// `docs/spec/command-analysis.md#g11`
        G11 = "G11",
        /// Where `tools.exec.reads.hereDocuments` says so, a here-document or a here-string of literal text is standard
        /// input of a program to which that is data.
        ///
        /// `docs/spec/command-analysis.md#g12`
        G12 = "G12",
        /// Where `tools.exec.reads.fileRedirections` says so, a redirection from or to a file of the workspace is a part of
        /// the step.
        ///
        /// `docs/spec/command-analysis.md#g13`
        G13 = "G13",
        /// Where `tools.exec.reads.filePatterns` says so, a pattern of file names among the operands stands for the files
        /// that have such names.
        ///
        /// `docs/spec/command-analysis.md#g14`
        G14 = "G14",
        /// Where `tools.exec.reads.temporaryFiles` says so, a redirection to a new file of the temporary directory is a part
        /// of the step.
        ///
        /// `docs/spec/command-analysis.md#g15`
        G15 = "G15",
        /// Where `tools.exec.reads.foundFiles` says so, a program that only reads files may be what `find -exec` runs, or what `xargs` runs for names that `find` prints.
        ///
        /// `docs/spec/command-analysis.md#g16`
        G16 = "G16",
        /// Where `tools.exec.reads.documentOperands` says so, `"$(cat <<'EOF' … EOF)"` stands for the text of its
        /// here-document.
        ///
        /// `docs/spec/command-analysis.md#g17`
        G17 = "G17",
        /// Where `tools.exec.reads.variables` says so, a variable whose value is known stands for it.
        ///
        /// `docs/spec/command-analysis.md#g18`
        G18 = "G18",
        /// Where `tools.exec.reads.substitutions` says so, `$?` and `"$(…)"` stand for an exit code and for what covered commands
        /// print, in the words of a program to which every word is text.
        ///
        /// `docs/spec/command-analysis.md#g19`
        G19 = "G19",
        /// Where `tools.exec.reads.braces` says so and the host shell is bash, a list or a range in braces among the operands
        /// stands for its words.
        ///
        /// `docs/spec/command-analysis.md#g20`
        G20 = "G20",
        /// Where `tools.exec.reads.compoundCommands` says so, groups, subshells, `if`, `!` and `for` over known words are read, and
        /// each command in them is a segment.
        ///
        /// `docs/spec/command-analysis.md#g21`
        G21 = "G21",
        /// Where `tools.exec.reads.loops` says so, `while` and `until` are read, and each command in them is a segment.
        ///
        /// `docs/spec/command-analysis.md#g22`
        G22 = "G22",
        /// Where `tools.exec.reads.laterValues` says so, a variable has what commands print, and words that are known only when their command
        /// begins are operands of programs that only read.
        ///
        /// `docs/spec/command-analysis.md#g23`
        G23 = "G23",
        /// Where `tools.exec.reads.backgroundCommands` says so, `&` begins a list that ends with the run, and `wait` waits for it.
        ///
        /// `docs/spec/command-analysis.md#g24`
        G24 = "G24",
        /// With `tools.exec.reads.projectRunners` an entry for a runner covers what it runs for a project, where an entry for
        /// the project's interpreter lets the agent run any code of it.
        ///
        /// `docs/spec/command-analysis.md#d2`
        D2 = "D2",
        /// `true`, `false`, `:`, `pwd` and `cd` to one literal directory need no entry.
        ///
        /// `docs/spec/command-analysis.md#b1`
        B1 = "B1",
        /// A command word without `/` is the first executable regular file of that name on the run PATH.
        ///
        /// `docs/spec/command-analysis.md#p1`
        P1 = "P1",
        /// A command word with `/` is a path, and has to name an executable regular file.
        ///
        /// `docs/spec/command-analysis.md#p2`
        P2 = "P2",
        /// An entry that is a bare name covers no file in a place where others can put one.
        ///
        /// `docs/spec/command-analysis.md#p3`
        P3 = "P3",
        /// A program is its real file, and each of its names is looked up in every table.
        ///
        /// `docs/spec/command-analysis.md#p4`
        P4 = "P4",
        /// A pattern with a `.` or `..` component matches nothing.
        ///
        /// `docs/spec/command-analysis.md#p5`
        P5 = "P5",
        /// A segment that names the server's own program or its state is never covered.
        ///
        /// `docs/spec/command-analysis.md#p6`
        P6 = "P6",
        /// A pattern with `/` is a glob over the real path.
        ///
        /// `docs/spec/command-analysis.md#m1`
        M1 = "M1",
        /// A pattern without `/` is a glob over the name as typed, where P3 lets a name count.
        ///
        /// `docs/spec/command-analysis.md#m2`
        M2 = "M2",
        /// A bare `*` covers every segment that parses, found or not.
        ///
        /// `docs/spec/command-analysis.md#m3`
        M3 = "M3",
        /// An `argPattern` is a regular expression that has to be found in the arguments joined by one space.
        ///
        /// `docs/spec/command-analysis.md#m4`
        M4 = "M4",
        /// An entry that an answer made counts only for the directory and the arguments, or the text, it was made
        /// for.
        ///
        /// `docs/spec/command-analysis.md#m5`
        M5 = "M5",
        /// Paths and names compare with case unless the setting says otherwise.
        ///
        /// `docs/spec/command-analysis.md#m6`
        M6 = "M6",
        /// A skill's program needs no entry where the agent allows skills.
        ///
        /// `docs/spec/command-analysis.md#k1`
        K1 = "K1",
        /// Only an entry with `input` covers a call whose standard input stays open.
        ///
        /// `docs/spec/command-analysis.md#o1`
        O1 = "O1",
        /// An entry whose `confine` cannot be kept, or is not understood, covers nothing.
        ///
        /// `docs/spec/command-analysis.md#c1`
        C1 = "C1",
        /// A wrapper in an accepted form needs no entry; the command behind it has to be covered.
        ///
        /// `docs/spec/command-analysis.md#w1`
        W1 = "W1",
        /// A program whose purpose is to run another is covered only by an entry with an `argPattern`, and a builtin
        /// that reaches around the shell by none.
        ///
        /// `docs/spec/command-analysis.md#w2`
        W2 = "W2",
        /// At most four wrappers stand before a command.
        ///
        /// `docs/spec/command-analysis.md#w3`
        W3 = "W3",
        /// A wrapper or a shell counts only where it is what its name says.
        ///
        /// `docs/spec/command-analysis.md#w4`
        W4 = "W4",
        /// An entry for a wrapper says nothing about the command behind it.
        ///
        /// `docs/spec/command-analysis.md#w5`
        W5 = "W5",
        /// Where arguments make a program start, load or be configured by something that the call chooses, only an
        /// entry with an `argPattern` covers it.
        ///
        /// `docs/spec/command-analysis.md#d1`
        D1 = "D1",
        /// The payload of `sh -c`, `bash -c` or `dash -c` in a plain form is judged as a list of its own.
        ///
        /// `docs/spec/command-analysis.md#s1`
        S1 = "S1",
        /// A path-only entry never covers a shell, by any of its names.
        ///
        /// `docs/spec/command-analysis.md#s2`
        S2 = "S2",
        /// busybox and toybox are never covered, with any applet.
        ///
        /// `docs/spec/command-analysis.md#s3`
        S3 = "S3",
        /// A shell that takes its commands from a pipe is always a miss.
        ///
        /// `docs/spec/command-analysis.md#s4`
        S4 = "S4",
        /// With `strictInlineEval`, code in an argument of an interpreter is a miss that no entry lifts.
        ///
        /// `docs/spec/command-analysis.md#i1`
        I1 = "I1",
        /// With `strictInlineEval`, an interpreter that reads code from its standard input is a miss.
        ///
        /// `docs/spec/command-analysis.md#i2`
        I2 = "I2",
        /// A configured safe bin is covered while its arguments stay inside of its profile.
        ///
        /// `docs/spec/command-analysis.md#sb1`
        Sb1 = "SB1",
        /// A denied flag of a safe bin is a miss, in a cluster too.
        ///
        /// `docs/spec/command-analysis.md#sb2`
        Sb2 = "SB2",
        /// Flags of a safe bin have to be known and written out.
        ///
        /// `docs/spec/command-analysis.md#sb3`
        Sb3 = "SB3",
        /// The number of operands of a safe bin is that of its profile, and no value is missing.
        ///
        /// `docs/spec/command-analysis.md#sb4`
        Sb4 = "SB4",
        /// A safe bin has to be what its name says.
        ///
        /// `docs/spec/command-analysis.md#sb5`
        Sb5 = "SB5",
        /// What runs code is never a safe bin, also where the configuration names it.
        ///
        /// `docs/spec/command-analysis.md#sb6`
        Sb6 = "SB6",
        /// A malformed override, or one that loads code or leads to other files, is refused.
        ///
        /// `docs/spec/command-analysis.md#e1`
        E1 = "E1",
        /// An override that is not known to be harmless is a miss.
        ///
        /// `docs/spec/command-analysis.md#e2`
        E2 = "E2",
        /// A harmless override with a plain value changes nothing.
        ///
        /// `docs/spec/command-analysis.md#e3`
        E3 = "E3",
        /// "Always" stores one entry for each segment that the person covered: its real path, directory and
        /// arguments.
        ///
        /// `docs/spec/command-analysis.md#a1`
        A1 = "A1",
        /// Where an entry would cover more than was shown, nothing is stored and "always" is not offered.
        ///
        /// `docs/spec/command-analysis.md#a2`
        A2 = "A2",
        /// Every segment has to be covered, also where an answer was remembered for one.
        ///
        /// `docs/spec/command-analysis.md#a3`
        A3 = "A3",
    }
}

/// Which rules are in force: all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSet {
    /// The one rule whose every answer is this.
    #[cfg(test)]
    forced: Option<(Rule, bool)>,
}

impl RuleSet {
    /// Every rule in force, as always outside of tests.
    pub const ALL: Self = Self {
        #[cfg(test)]
        forced: None,
    };

    /// Every rule, but one of them answers always the same: `false` takes it out, `true` overdoes it.
    #[cfg(test)]
    pub const fn forced(rule: Rule, answer: bool) -> Self {
        Self {
            forced: Some((rule, answer)),
        }
    }

    /// What a rule says: the condition it is given.
    #[inline]
    pub(crate) fn holds(self, rule: Rule, condition: bool) -> bool {
        self.answer_of(rule).unwrap_or(condition)
    }

    /// Whether a rule answers always the same.
    #[inline]
    pub(crate) fn is_forced(self, rule: Rule) -> bool {
        self.answer_of(rule).is_some()
    }

    /// Whether a rule is in force.
    #[inline]
    pub(crate) fn on(self, rule: Rule) -> bool {
        self.answer_of(rule) != Some(false)
    }

    #[cfg(test)]
    fn answer_of(self, rule: Rule) -> Option<bool> {
        self.forced
            .and_then(|(forced, answer)| (forced == rule).then_some(answer))
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        reason = "the same call as in the tests of this crate, where a rule may be forced"
    )]
    const fn answer_of(self, _rule: Rule) -> Option<bool> {
        None
    }
}
