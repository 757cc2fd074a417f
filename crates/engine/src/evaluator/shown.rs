//! What is shown of a call that is not judged, or was without an analysis: why it is refused, and what its words say.

use countersign_domain::{
    Command, FileIdentity, InvalidRequest, MAX_ARGUMENT_BYTES, Principal, Scope, Security,
};
use countersign_hosts::{path_lookup::SystemLookup, peer_fs::Blind};
use countersign_policy::{
    allowlist::Analysis,
    command::{Code, DirectoryTrust, Finding, Inspected, PathLookup, Span, env_policy, parser, paths},
    pattern::PatternCache,
};

use super::{
    Evaluator, Mode, Shown, analyse::Files, call::Call, entry_indexes::EntryIndexes, judgement::Judgement,
    policy_now::PolicyNow,
};
use crate::{reply::ExecError, turns};

/// Why a request is no call, no matter what the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// Why its command cannot be one.
    pub(crate) bad_command: Option<Finding>,
    /// The names of overrides that are never accepted.
    pub(crate) blocked_env: Vec<String>,
}

impl From<Rejection> for ExecError {
    fn from(rejection: Rejection) -> Self {
        match rejection.bad_command {
            Some(finding) => Self::InvalidRequest {
                path: "command",
                message: finding.detail,
            },
            None => Self::BlockedEnv {
                names: rejection.blocked_env,
            },
        }
    }
}

impl Rejection {
    pub(crate) fn of(command: &Command, blocked_env: Vec<String>) -> Option<Self> {
        let bad_command = bad_command(command);
        (bad_command.is_some() || !blocked_env.is_empty()).then_some(Self {
            bad_command,
            blocked_env,
        })
    }
}

impl Evaluator {
    /// The analysis of a call that was judged, where it is shown.
    pub(crate) async fn shown(
        &self,
        caller: &Principal,
        call: &Call,
        now: &PolicyNow,
        judged: &Judgement,
        mode: &Mode<'_>,
    ) -> Result<Option<Analysis>, ExecError> {
        Ok(match mode.shown {
            Shown::Nothing => None,
            Shown::ToCaller | Shown::Everything if call.sandbox.is_some() => {
                Some(Analysis::of_parts(&call.command))
            }
            Shown::ToCaller | Shown::Everything if judged.analysis.is_some() => judged.analysis.clone(),
            Shown::ToCaller => Some(self.seen_by(caller, call, now).await?),
            Shown::Everything => {
                let _turn = self.turn(call, now).await?;
                Some(self.analyse(call, &now.counted, &[])?)
            }
        })
    }

    /// The analysis of a request that is no call.
    pub(crate) async fn shown_rejected(
        &self,
        caller: &Principal,
        call: &Call,
        now: &PolicyNow,
        rejection: &Rejection,
    ) -> Result<Analysis, ExecError> {
        if let Some(finding) = &rejection.bad_command {
            return Ok(Analysis::rejected(finding.clone()));
        }
        let analysis = match &call.sandbox {
            Some(_) => Analysis::of_parts(&call.command),
            None => self.seen_by(caller, call, now).await?,
        };
        Ok(analysis.reject(blocked_finding(&rejection.blocked_env)))
    }

    /// What a caller may see of a command that nothing was analysed for.
    ///
    /// Where security is deny a call tells its caller nothing about files, so this must not either: a caller who may
    /// not read sees no more than what a name finds on the run PATH.
    async fn seen_by(&self, caller: &Principal, call: &Call, now: &PolicyNow) -> Result<Analysis, ExecError> {
        let security = now.effective(&call.agent, call.wishes()).security.value;
        let _turn = self.turn(call, now).await?;
        let seen: Result<Analysis, Blind> = turns::run_analysis(&call.command, || {
            if caller.has(Scope::Read) || security != Security::Deny {
                return self.analyse(call, &now.counted, &[]);
            }
            let lookup = RunPathOnly(self.analyst.path_lookup(&call.agent, now.settings()));
            let files = Files {
                lookup: &lookup,
                patterns: &PatternCache::default(),
                indexes: &EntryIndexes::default(),
            };
            let analysis = self.analyst.analyse_with(call, &now.counted, &[], files)?;
            lookup.0.check()?;
            Ok(analysis)
        });
        Ok(seen?)
    }
}

/// Why the command can never be started, no matter what policy says.
fn bad_command(command: &Command) -> Option<Finding> {
    let invalid = command.check().err()?;
    let of_text = match command {
        Command::Shell(text) => parser::rejection(text),
        Command::Argv(_) | Command::Patch(_) => None,
    };
    Some(of_text.unwrap_or_else(|| {
        let code = match invalid {
            InvalidRequest::Nul => Code::Nul,
            InvalidRequest::TooLong
            | InvalidRequest::TooManyWords
            | InvalidRequest::TooManyBytes
            | InvalidRequest::PatchTooLong => Code::TooLong,
            InvalidRequest::BlankCommand => Code::EmptySegment,
        };
        let span = Span::new(0, command.to_text().len());
        Finding::new(
            code,
            "G10",
            span,
            format!("{invalid}; keep every argument below {MAX_ARGUMENT_BYTES} bytes"),
        )
    }))
}

fn blocked_finding(names: &[String]) -> Finding {
    let code = if names.iter().any(|name| env_policy::is_well_formed(name)) {
        Code::EnvBlocked
    } else {
        Code::EnvInvalid
    };
    Finding::new(code, "E1", Span::default(), env_policy::refusal(names))
}

/// Files as far as a name finds them on the run PATH; nothing else seems to be there.
#[derive(Debug)]
struct RunPathOnly(SystemLookup);

impl RunPathOnly {
    fn is_on_path(&self, file: &str) -> bool {
        let directory = paths::directory(file);
        self.0
            .directories()
            .iter()
            .any(|known| known.to_str() == Some(directory))
    }
}

impl PathLookup for RunPathOnly {
    fn search(&self, name: &str) -> Option<String> {
        self.0.search(name)
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        self.is_on_path(path).then(|| self.0.inspect(path)).flatten()
    }

    fn real(&self, path: &str) -> Option<String> {
        self.is_on_path(path).then(|| self.0.real(path)).flatten()
    }

    fn depends_on_process(&self, path: &str) -> bool {
        self.0.depends_on_process(path)
    }

    fn home(&self) -> &str {
        self.0.home()
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        self.0.directory_trust(directory)
    }

    fn content_sha256(&self, _file: &FileIdentity) -> Option<String> {
        None
    }

    fn gains_privileges(&self, file: &FileIdentity) -> bool {
        self.0.gains_privileges(file)
    }

    fn is_machine_program(&self, file: &FileIdentity) -> bool {
        self.0.is_machine_program(file)
    }
}
