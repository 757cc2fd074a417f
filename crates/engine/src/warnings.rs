//! What the caller of a run should know besides its end: stable codes in the record, words in answers.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use countersign_domain::{Command, Exit, Isolation, LimitReport, Pinning, Run, RunId};
use countersign_hosts::{confined::OutOfReach, gateway::GatewayHost};
use countersign_ledger::Ledger;
use countersign_policy::{
    allowlist::SegmentReport,
    command::{PathLookup, paths},
};

use crate::{
    base::Base,
    evaluator::{Evaluator, analyse::Analyst, call::Call},
    hint::hint,
    reply::Warning,
    watch::PolicySource,
};

/// A run whose leftovers were killed (`docs/spec/exec-tool.md#4-what-the-caller-gets`).
const LEFTOVERS_KILLED: &str = "leftovers-killed";
/// A process of the run was killed for the memory that it used.
const MEMORY_LIMIT: &str = "memory-limit";
/// The run was refused processes.
const PROCESS_LIMIT: &str = "process-limit";
/// This machine cannot hold runs to the limits that are set.
const LIMITS_NOT_ENFORCED: &str = "limits-not-enforced";
/// A confined run failed, and a program of it has rights of its own that it did not get.
const CONFINED_SETUID: &str = "confined-setuid";
/// A confined run failed, and a program of it speaks to a service that is covered.
const CONFINED_SERVICE: &str = "confined-service";

/// A held text wanted to start a program that is not among those that can be executed. Read from what it wrote.
const HELD_REFUSED: &str = "held-refused";

/// A run failed, and a program of it seems to have been refused to start another. Read from what it wrote.
const CHILD_REFUSED: &str = "child-refused";

/// A person allowed the command for good, and that could not be stored.
pub(super) const NOT_REMEMBERED: &str = "not-remembered";

/// A miss was asked about although the settings let it run in the sandbox. Told to the caller only.
pub(super) const NOT_DIVERTED: &str = "not-diverted";
/// A text was asked about although the settings let it run held. Told to the caller only.
pub(super) const NOT_HELD: &str = "not-held";

/// The warnings of a run, in words.
pub(super) fn of(run: &Run) -> Vec<Warning> {
    let recorded = run.warnings.iter().filter_map(|code| worded(code));
    recorded.chain(refused(run)).chain(refused_child(run)).collect()
}

/// What seems to have been refused, by the messages of shells and other programs: `bash: line 1: /usr/bin/touch: Permission
/// denied`. A command can write such a line itself; it decides nothing.
fn refused_name(run: &Run) -> Option<&str> {
    const MESSAGE: &str = ": Permission denied";
    let line = run.tail.lines().find(|line| line.trim_end().ends_with(MESSAGE))?;
    let before = line.trim_end().strip_suffix(MESSAGE)?;
    Some(before.rsplit(": ").next().unwrap_or(before))
}

/// What a program with limits seems to have been refused to start, and the entry that would let it.
fn refused_child(run: &Run) -> Option<Warning> {
    let mut limited = run.confinement.programs.iter().filter(|one| one.starts.is_some());
    let program = &limited.next()?.program;
    if run.exit_code.is_none_or(|code| code == 0) {
        return None;
    }
    let name = refused_name(run)?;
    // `cannot exec '.git/hooks/pre-commit'`, `'touch'`
    let name = name.rsplit(' ').next().unwrap_or(name).trim_matches('\'');
    let is_operand = is_operand(&run.command, name);
    let is_relative = name.contains('/') && !name.starts_with('/');
    let name = if is_relative {
        format!("{}/{name}", run.cwd)
    } else {
        name.to_owned()
    };
    let name = name.as_str();
    let is_word = |word: &str| {
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || "/._+-".contains(character);
        (1..=256).contains(&word.len()) && word.chars().all(is_of_name) && !word.starts_with('-')
    };
    let (what, how) = if is_word(name) && is_word(program) && !is_operand {
        let agent = run.agent.as_str();
        let starts = format!("judged,{name}");
        let words = ["allowlist", "add", program, "--starts", &starts, "--agent", agent];
        (name, format!("to let it: {}", hint(&words)))
    } else {
        ("a program", "add an entry that says what it may start".to_owned())
    };
    Some(Warning {
        code: CHILD_REFUSED,
        message: format!(
            "{program} may start only what its entry says, and by what it wrote {what} was refused; {how} (docs/confine.md)"
        ),
    })
}

/// Whether a word of the command is that name, and no value of an option: git names the repository that it was told to fetch
/// from when a program for it was refused.
fn is_operand(command: &Command, name: &str) -> bool {
    let is_one = |words: &[&str]| {
        let mut before = None;
        words.iter().any(|word| {
            let is_value = before
                .replace(*word)
                .is_some_and(|before: &str| before.starts_with('-'));
            *word == name && !is_value
        })
    };
    match command {
        Command::Shell(text) => {
            let words: Vec<&str> = text
                .split_whitespace()
                .map(|word| word.trim_matches(['\'', '"']))
                .collect();
            is_one(words.get(1..).unwrap_or_default())
        }
        Command::Argv(words) => {
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            is_one(&words)
        }
        Command::Patch(_) => false,
    }
}

/// The same of a held text.
fn refused(run: &Run) -> Option<Warning> {
    /// Longer ones are no names.
    const MOST: usize = 256;
    if run.binding != Some(Pinning::Held) {
        return None;
    }
    let name = refused_name(run)?;
    let is_plain = name.len() <= MOST && !name.chars().any(char::is_control);
    let what = if is_plain { name } else { "something" };
    Some(Warning {
        code: HELD_REFUSED,
        message: format!(
            "the text ran held, and by what it wrote {what} was refused; add an entry that allows any arguments of a program \
             that is missing (countersign allowlist add), or send the text as it is with ask: always"
        ),
    })
}

fn worded(code: &str) -> Option<Warning> {
    let (code, message) = match code {
        LEFTOVERS_KILLED => (
            LEFTOVERS_KILLED,
            "processes that the command left running were killed; start a server with background, or set \
             tools.exec.leftovers to keep",
        ),
        CONFINED_SETUID => (
            CONFINED_SETUID,
            "a program of this command has rights of its own (set-uid, set-gid or capabilities), which confined \
             commands do not get: it cannot work here; tools.exec.isolation = \"same-user\" takes an agent out of \
             the confinement",
        ),
        CONFINED_SERVICE => (
            CONFINED_SERVICE,
            "a program of this command speaks to a service of the machine or of the account, which confined \
             commands do not reach; tools.exec.isolation = \"same-user\" takes an agent out of the confinement",
        ),
        MEMORY_LIMIT => (
            MEMORY_LIMIT,
            "the kernel killed a process of the run because it used more memory than [limits] run_memory_bytes \
             allows",
        ),
        PROCESS_LIMIT => (
            PROCESS_LIMIT,
            "the run was refused processes because it has as many as [limits] run_pids allows",
        ),
        LIMITS_NOT_ENFORCED => (
            LIMITS_NOT_ENFORCED,
            "a limit of [limits] run_memory_bytes, run_cpu_percent or run_pids is set that cannot be enforced on \
             this machine: the server was given no control group for it (docs/limits.md)",
        ),
        NOT_REMEMBERED => (
            NOT_REMEMBERED,
            "the command was allowed for good, but the approvals document could not be changed or changed in between: \
             the answer counted once (countersign doctor says what is wrong with the document)",
        ),
        // Written by a later version.
        _ => return None,
    };
    Some(Warning {
        code,
        message: message.to_owned(),
    })
}

/// The reason of an end in words, with what limits and confinement may have had to do with it: a caller who was not
/// there to get the answer reads the record.
pub(super) fn explain(detail: Option<String>, codes: &[String]) -> Option<String> {
    let explaining = [MEMORY_LIMIT, PROCESS_LIMIT, CONFINED_SETUID, CONFINED_SERVICE];
    let explanations = codes
        .iter()
        .filter(|code| explaining.contains(&code.as_str()))
        .filter_map(|code| worded(code))
        .map(|warning| warning.message);
    let said: Vec<String> = detail.into_iter().chain(explanations).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// What is to be said about runs that ended.
#[derive(Debug)]
pub(super) struct EndWarnings {
    evaluator: Arc<Evaluator>,
    analyst: Arc<Analyst>,
    policy: Arc<PolicySource>,
    gateway: GatewayHost,
    ledger: Ledger,
}

impl EndWarnings {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            evaluator: Arc::clone(&base.evaluator),
            analyst: Arc::clone(&base.analyst),
            policy: Arc::clone(&base.policy),
            gateway: base.gateway.clone(),
            ledger: base.ledger.clone(),
        }
    }

    /// The codes of what is to be said about a run that ended like this.
    pub(super) async fn after(&self, run_id: &RunId, exit: &Exit) -> Vec<String> {
        let mut codes = Vec::new();
        if exit.leftovers_killed {
            codes.push(LEFTOVERS_KILLED.to_owned());
        }
        let LimitReport {
            out_of_memory,
            out_of_processes,
            not_enforced,
        } = exit.limits;
        for (is_so, code) in [
            (out_of_memory, MEMORY_LIMIT),
            (out_of_processes, PROCESS_LIMIT),
            (not_enforced, LIMITS_NOT_ENFORCED),
        ] {
            codes.extend(is_so.then(|| code.to_owned()));
        }
        let failed = exit.code != Some(0) && exit.killed.is_none();
        if failed && self.gateway.hidden().is_some() {
            codes.extend(self.out_of_reach(run_id).await);
        }
        codes
    }

    /// Why a confined run may have failed. A person who sees `docker` or `su` fail for no reason of their own is told.
    async fn out_of_reach(&self, run_id: &RunId) -> Vec<String> {
        let run = match self.ledger.run(run_id).await {
            Ok(Some(run)) if run.isolation == Isolation::Confined => run,
            Ok(_) | Err(_) => return Vec::new(),
        };
        let Some(call) = Call::of_record(&run, self.gateway.files()) else {
            return Vec::new();
        };
        let now = self.policy.now();
        let lookup = self.analyst.path_lookup(&run.agent, now.settings());
        let mut missed = BTreeSet::new();
        if let Some(view) = now.views().next()
            && let Ok(analysis) = self.evaluator.analyse(&call, view, &[])
        {
            collect(&analysis.segments, &run.cwd, &lookup, &mut missed);
        }
        let code = |missed| match missed {
            OutOfReach::FileRights => CONFINED_SETUID.to_owned(),
            OutOfReach::Service => CONFINED_SERVICE.to_owned(),
        };
        missed.into_iter().map(code).collect()
    }
}

/// What the programs of the segments miss, wrappers such as `sudo` included.
fn collect(
    segments: &[SegmentReport],
    cwd: &str,
    lookup: &dyn PathLookup,
    missed: &mut BTreeSet<OutOfReach>,
) {
    for segment in segments {
        let first = segment.argv.first().map(String::as_str);
        let wrappers = segment.wrappers.iter().map(|wrapper| wrapper.name.as_str());
        // The name that it goes by and, where a `cd` came before, the file that this means.
        let executable = [
            Some(segment.executable.as_str()),
            segment.resolved_path.as_deref(),
        ];
        for word in first
            .into_iter()
            .chain(wrappers)
            .chain(executable.into_iter().flatten())
        {
            let path = if word.contains('/') {
                Some(paths::join_normalised(cwd, word))
            } else {
                lookup.search(word)
            };
            missed.extend(path.and_then(|path| OutOfReach::of(Path::new(&path))));
        }
        collect(&segment.segments, cwd, lookup, missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_is_told_from_what_an_option_starts() {
        let text = |text: &str| Command::Shell(text.to_owned());
        for (command, name, expected) in [
            (text("git fetch '../a'"), "../a", true),
            (text("git fetch /srv/a main"), "/srv/a", true),
            (text("find . -exec touch m \\;"), "touch", false),
            (text("rg --pre ./run TODO"), "./run", false),
            (text("git commit -m x"), ".git/hooks/pre-commit", false),
            (text("./tool ./tool"), "./tool", true),
            (text("./tool x"), "./tool", false),
        ] {
            assert_eq!(is_operand(&command, name), expected, "{command:?}: {name}");
        }
        let argv = ["git", "clone", "../a"].map(str::to_owned).to_vec();
        assert!(is_operand(&Command::Argv(argv), "../a"));
    }

    #[test]
    fn the_record_tells_the_reason_first_and_then_what_confinement_had_to_do_with_it() {
        let codes = |codes: &[&str]| codes.iter().map(ToString::to_string).collect::<Vec<_>>();
        let reason = || Some("could not be started".to_owned());
        assert_eq!(explain(None, &[]), None);
        assert_eq!(explain(reason(), &codes(&[LEFTOVERS_KILLED])), reason());
        assert_eq!(
            explain(None, &codes(&[LEFTOVERS_KILLED, "of a later version"])),
            None
        );
        let both = explain(reason(), &codes(&[CONFINED_SETUID, CONFINED_SERVICE])).unwrap();
        let parts: Vec<&str> = both.split("; a program").collect();
        assert_eq!(
            (parts.len(), parts.first()),
            (3, Some(&"could not be started")),
            "{both}"
        );
    }
}
