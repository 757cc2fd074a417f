//! What a policy that is not in force would say to commands: the files of a candidate, judged without a server.
//!
//! Goes through the functions that judge calls, up to the gate, with the files of this machine as this process sees
//! them. Nothing is started, stored, counted or created, and no script is looked into. Entry point:
//! [`Candidate::evaluate`].

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_config::{
    approvals::store::Snapshot,
    settings::{Settings, StateDir},
};
use countersign_domain::{
    AgentId, Command, CommandInput, EnvOverrides, HostChoice, Isolation, Pattern, Reason, Security,
};
use countersign_hosts::{
    peer_fs::{self, Blind},
    workdir::{Workdir, WorkdirError},
};
use countersign_policy::{
    allowlist::Analysis,
    combine::Effective,
    command::direct::ShellKind,
    gate::{self, FallbackVerdict, GateInput, Unanswered, Verdict},
};
use countersign_sys::clock::Clock;

use crate::{
    environment::HostEnvironment,
    evaluator::{
        analyse::{Analyst, OwnFiles},
        call::Call,
        judge::Weighed,
        policy_now::PolicyView,
    },
};

/// What a candidate is joined from.
#[derive(Debug)]
pub struct CandidateParts {
    /// Time, by which grants expire.
    pub clock: Arc<dyn Clock>,
    /// The state directory of the server whose commands are judged: what lies in it stays protected.
    pub state_dir: StateDir,
    /// The settings, with the policy of the candidate.
    pub settings: Arc<Settings>,
    /// The approvals document of the candidate.
    pub document: Snapshot,
    /// What commands inherit on this machine; its `PATH` finds programs.
    pub environment: Arc<HostEnvironment>,
    /// The `countersign` program, which stays protected like the state directory; `None` leaves it out.
    pub own_binary: Option<PathBuf>,
}

/// How commands run on a machine, as far as that decides.
#[derive(Debug)]
pub(crate) struct Machine {
    /// What sees its files as commands do.
    pub(crate) files: peer_fs::Files,
    /// The best level of isolation that commands reach.
    pub(crate) isolation: Isolation,
    /// The shell for text.
    pub(crate) shell: Option<ShellKind>,
}

/// A policy that commands are tried under.
#[derive(Debug)]
pub struct Candidate {
    view: PolicyView,
    files: peer_fs::Files,
    analyst: Analyst,
}

/// A command of the gateway host as the record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommand {
    /// The agent whose policy applies.
    pub agent: AgentId,
    /// Shell text or arguments; callers leave patches out.
    pub command: Command,
    /// Where it started: an absolute path of this machine.
    pub cwd: PathBuf,
    /// The names of its environment overrides. Their values are not known; each counts as empty.
    pub env_names: Vec<String>,
    /// What it wanted to be written to it.
    pub input: CommandInput,
}

/// What a policy says to a command, no matter who could be asked at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Foreseen {
    /// It runs without a question.
    Run,
    /// A person is asked.
    Ask,
    /// It is refused, and no person is asked.
    Deny,
}

/// The same, with why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The verdict of the candidate.
    pub foreseen: Foreseen,
    /// The reason in words, for people, with the finding, rule or source behind it where there is one.
    pub why: String,
    /// The fallback that lets it run when it is asked about and nobody can be reached; `None` where it would not run.
    pub unanswered: Option<Security>,
}

/// A command cannot be evaluated, and nothing is guessed.
#[derive(Debug, thiserror::Error)]
pub enum NotEvaluated {
    /// Its directory is not there any more, or cannot be entered.
    #[error("its working directory cannot be used")]
    Workdir(#[from] WorkdirError),
    /// The files behind its programs cannot be looked at.
    #[error(transparent)]
    Blind(#[from] Blind),
}

impl Candidate {
    /// Joins a candidate for a program that does not serve. Nothing is looked at yet.
    pub fn new(parts: CandidateParts) -> Self {
        let machine = Machine {
            files: peer_fs::Files::Direct,
            // Which level a server would reach is not known: nothing counts as kept that the least would not.
            isolation: Isolation::SameUser,
            // Nor which shell it would have.
            shell: None,
        };
        Self::on(machine, parts)
    }

    /// The same on a machine whose ways are known.
    pub(crate) fn on(machine: Machine, parts: CandidateParts) -> Self {
        let Machine {
            files,
            isolation,
            shell,
        } = machine;
        let CandidateParts {
            clock,
            state_dir,
            settings,
            document,
            environment,
            own_binary,
        } = parts;
        let document_path = state_dir.document(&settings.server);
        Self {
            analyst: Analyst::new(
                clock,
                environment,
                files.clone(),
                isolation,
                shell,
                OwnFiles {
                    state_dir: &state_dir,
                    document: &document_path,
                    binary: own_binary.as_deref(),
                },
            ),
            view: PolicyView {
                settings,
                document: Arc::new(document),
                local: None,
            },
            files,
        }
    }

    /// Where commands of an agent start that name no directory, or `/` while that is not there; `None` where they do not
    /// run on the gateway host.
    pub fn gateway_workspace(&self, agent: &AgentId) -> Option<PathBuf> {
        let policy = &self.view.settings.policy;
        let host = policy.host(agent).last().map(|host| host.value);
        let workspace = policy.workspace(agent);
        let is_there = Workdir::at(workspace, &self.files).is_ok();
        let start = if is_there { workspace } else { Path::new("/") };
        (host == Some(HostChoice::Gateway)).then(|| start.to_owned())
    }

    /// What the candidate says to a command of the gateway host.
    ///
    /// What a call, a session or being elevated put on top of the policy is not part of it. Grants count as if they were
    /// never used.
    ///
    /// # Errors
    /// [`NotEvaluated`] when the command's directory or the files of this machine cannot be looked at.
    pub fn evaluate(&self, recorded: RecordedCommand) -> Result<Opinion, NotEvaluated> {
        self.judge(recorded).map(|(opinion, _proposed)| opinion)
    }

    /// The approvals document of the candidate.
    pub fn document(&self) -> &Snapshot {
        &self.view.document
    }

    /// The same candidate with another approvals document.
    pub fn set_document(&mut self, document: Snapshot) {
        self.view.document = Arc::new(document);
    }

    /// As [`Self::evaluate`], with what an `allow-always` could store.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn judge(&self, recorded: RecordedCommand) -> Result<(Opinion, Vec<Pattern>), NotEvaluated> {
        let RecordedCommand {
            agent,
            command,
            cwd,
            env_names,
            input: wanted,
        } = recorded;
        let workdir = Workdir::at(&cwd, &self.files)?;
        let env = EnvOverrides::accepted(env_names.into_iter().map(|name| (name, String::new())).collect());
        let call = Call::of_command(agent, command, workdir, env, wanted);
        let Weighed {
            effective,
            analysis,
            input,
            verdict,
        } = Weighed::of(&call, &self.view, || self.analyst.analyse(&call, &self.view, &[]))?;
        if let Some(why) = analysis.as_ref().and_then(Analysis::rejection) {
            let opinion = Opinion {
                foreseen: Foreseen::Deny,
                why,
                unanswered: None,
            };
            return Ok((opinion, Vec::new()));
        }
        let opinion = opinion(&input, verdict, &effective, analysis.as_ref());
        let proposed = analysis.map(|analysis| analysis.proposed_patterns);
        Ok((opinion, proposed.unwrap_or_default()))
    }
}

fn opinion(
    input: &GateInput,
    verdict: Verdict,
    effective: &Effective,
    analysis: Option<&Analysis>,
) -> Opinion {
    let finding = analysis
        .and_then(|analysis| analysis.verdict.finding())
        .map(|finding| finding.detail.as_str());
    let set_by = || Some(format!("set by {}", effective.security.source));
    let found = || finding.map(str::to_owned);
    let (foreseen, reason, detail) = match verdict {
        Verdict::Run if effective.security.value == Security::Full => {
            (Foreseen::Run, "security is full", set_by())
        }
        Verdict::Run => (Foreseen::Run, "the allowlist covers it", None),
        Verdict::Ask(spec) => (Foreseen::Ask, spec.why.as_str(), found()),
        Verdict::Deny(reason) => {
            let detail = if reason == Reason::Denylist {
                rule_in_words(analysis)
            } else if reason == Reason::SecurityDeny {
                set_by()
            } else {
                found()
            };
            (Foreseen::Deny, reason.as_str(), detail)
        }
    };
    Opinion {
        foreseen,
        why: detail.map_or_else(|| reason.to_owned(), |detail| format!("{reason}: {detail}")),
        unanswered: match verdict {
            Verdict::Ask(_) => runs_unanswered(input),
            Verdict::Run | Verdict::Deny(_) => None,
        },
    }
}

/// The fallback that lets a command run that nobody can be asked about.
fn runs_unanswered(input: &GateInput) -> Option<Security> {
    match gate::fallback(input, Unanswered::NoRoute) {
        FallbackVerdict::Run => Some(input.ask_fallback.min(input.security)),
        FallbackVerdict::Deny(_) => None,
    }
}

/// The deny rule that matched.
fn rule_in_words(analysis: Option<&Analysis>) -> Option<String> {
    let hit = analysis?.denylisted.as_ref()?;
    Some(match &hit.reason {
        Some(reason) => format!("{} ({reason})", hit.pattern),
        None => hit.pattern.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use countersign_config::settings::{Environment, MapEnvironment, SettingsStore, StartOptions};
    use countersign_sys::clock::SystemClock;

    /// A state directory without files, and what a candidate in it says to a command in its parent directory.
    fn say(config: &Value, document: &Value, command: &Command, env_names: &[&str]) -> Foreseen {
        opinion_of(config, document, command, env_names).foreseen
    }

    fn opinion_of(config: &Value, document: &Value, command: &Command, env_names: &[&str]) -> Opinion {
        let folder = tempfile::tempdir().unwrap();
        let candidate = candidate(folder.path(), config, document);
        let recorded = RecordedCommand {
            agent: AgentId::main(),
            command: command.clone(),
            cwd: folder.path().to_path_buf(),
            env_names: env_names.iter().map(|name| (*name).to_owned()).collect(),
            input: CommandInput::Closed,
        };
        candidate.evaluate(recorded).unwrap()
    }

    fn candidate(folder: &Path, config: &Value, document: &Value) -> Candidate {
        let environment =
            MapEnvironment::new([("HOME", folder.to_str().unwrap()), ("PATH", "/usr/bin:/bin")]);
        let shared: Arc<dyn Environment> = Arc::new(environment.clone());
        let state_dir = StateDir::resolve(Some(&folder.join("state")), &environment).unwrap();
        std::fs::create_dir(state_dir.root()).unwrap();
        let store = SettingsStore::load(state_dir.clone(), &StartOptions::default(), shared).unwrap();
        let policy = store.policy_of(Some(&config.to_string())).unwrap();
        Candidate::new(CandidateParts {
            clock: Arc::new(SystemClock),
            state_dir,
            settings: Arc::new(store.current().with_policy(policy)),
            document: Snapshot::of_accepted(Some(document.to_string().as_bytes()), "candidate".to_owned()),
            environment: Arc::new(HostEnvironment::new(&environment, None)),
            own_binary: None,
        })
    }

    fn exec(security: &str, ask: &str) -> Value {
        json!({ "tools": { "exec": { "host": "gateway", "security": security, "ask": ask } } })
    }

    fn argv(words: &[&str]) -> Command {
        Command::Argv(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn the_files_of_the_candidate_decide() {
        #[track_caller]
        fn check(config: &Value, document: &Value, foreseen: Foreseen) {
            let said = say(config, document, &argv(&["/bin/echo", "x"]), &[]);
            assert_eq!(said, foreseen, "{config} {document}");
        }
        let echo =
            json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/echo" }] } } });
        let never = json!({ "version": 1, "agents": { "main": { "denylist": [{ "pattern": "echo" }] } } });
        let nothing = json!({ "version": 1 });
        let asks = exec("allowlist", "on-miss");
        check(&asks, &echo, Foreseen::Run);
        check(&asks, &nothing, Foreseen::Ask);
        check(&exec("allowlist", "off"), &nothing, Foreseen::Deny);
        check(&exec("deny", "off"), &echo, Foreseen::Deny);
        check(&exec("full", "off"), &nothing, Foreseen::Run);
        check(&exec("full", "off"), &never, Foreseen::Deny);
        check(&exec("full", "off"), &json!({ "version": 2 }), Foreseen::Deny);
    }

    #[test]
    fn an_override_that_is_not_known_to_be_harmless_is_asked_about() {
        let echo =
            json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/echo" }] } } });
        let with = |names: &[&str]| say(&exec("allowlist", "on-miss"), &echo, &argv(&["/bin/echo"]), names);
        assert_eq!(with(&["LANG"]), Foreseen::Run);
        assert_eq!(with(&["SOME_SWITCH"]), Foreseen::Ask);
    }

    #[test]
    fn a_fallback_counts_where_it_lets_a_question_without_an_answer_run() {
        #[track_caller]
        fn check(config: &Value, fallback: &str, pattern: &str, unanswered: Option<Security>) {
            let document = json!({ "version": 1, "defaults": { "askFallback": fallback },
                "agents": { "main": { "allowlist": [{ "pattern": pattern }] } } });
            let opinion = opinion_of(config, &document, &argv(&["/bin/echo", "x"]), &[]);
            assert_eq!(opinion.unanswered, unanswered, "{config} {document}");
        }
        let (none, this) = ("/bin/none", "/bin/echo");
        check(&exec("full", "always"), "full", none, Some(Security::Full));
        check(&exec("full", "always"), "allowlist", none, None);
        check(
            &exec("full", "always"),
            "allowlist",
            this,
            Some(Security::Allowlist),
        );
        check(&exec("full", "always"), "deny", this, None);
        // It is never looser than security, and does not matter where nobody is asked.
        check(
            &exec("allowlist", "always"),
            "full",
            this,
            Some(Security::Allowlist),
        );
        check(&exec("allowlist", "on-miss"), "full", none, None);
        check(&exec("full", "off"), "full", none, None);
        check(&exec("deny", "always"), "full", this, None);
    }

    #[test]
    fn a_directory_that_is_gone_is_not_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let candidate = candidate(folder.path(), &exec("full", "off"), &json!({ "version": 1 }));
        let judged = candidate.evaluate(RecordedCommand {
            agent: AgentId::main(),
            command: argv(&["/bin/echo"]),
            cwd: folder.path().join("gone"),
            env_names: Vec::new(),
            input: CommandInput::Closed,
        });
        assert!(matches!(judged, Err(NotEvaluated::Workdir(_))), "{judged:?}");
    }
}
