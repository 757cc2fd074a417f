//! The body of an exec call (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`) and its way into a request.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use utoipa::ToSchema;

use countersign_domain::{
    AgentId, AgentNote, Ask, Command, ContextUrl, EnvSize, ExecRequest, HostChoice, InvalidRequest, Joining,
    Justification, MAX_ARGUMENT_BYTES, MAX_ARGV_BYTES, MAX_WORDS, Security, SessionKey,
};

use crate::{
    deprecation::Deprecated,
    extract::MAX_APPROVAL_WAIT_MS,
    problem::{Code, Problem},
    schema::EnvOverrides,
};

const YIELD_MS: std::ops::RangeInclusive<u64> = 10..=120_000;
/// Longer than any command; keeps times far from overflowing.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;
const MAX_TIMEOUT_MS: u64 = 31_536_000_000;

/// A command to run. Exactly one of `command` and `argv`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ExecRequest)]
pub(crate) struct ExecBody {
    /// Shell text.
    command: Option<String>,
    /// A program and its arguments, run without any shell. At most 256 KiB in all, one byte counted for the end of each.
    #[serde(default, deserialize_with = "bounded_argv")]
    #[schema(max_items = 4096)]
    argv: Option<Vec<String>>,
    /// Working directory, absolute or beginning with `~/`; the agent's workspace unless given.
    #[schema(pattern = r"^(/|~/)[^\x00]*$")]
    workdir: Option<String>,
    /// Environment overrides. At most 256 KiB in all, two bytes counted for each beside its name and its value.
    #[schema(value_type = Option<EnvOverrides>)]
    env: Option<Overrides>,
    /// How long to wait in milliseconds before the run moves to the background; clamped to 10..120000.
    yield_ms: Option<u64>,
    /// Background at once.
    background: Option<bool>,
    /// Time limit in milliseconds; 0 switches it off.
    #[schema(maximum = 31_536_000_000_u64)]
    timeout_ms: Option<u64>,
    /// Time limit in seconds; `timeoutMs` is its successor. Only one of the three can be given.
    #[schema(minimum = 0, maximum = 31_536_000, deprecated)]
    timeout: Option<f64>,
    /// The same as `timeout`.
    #[schema(minimum = 0, maximum = 31_536_000, deprecated)]
    timeout_seconds: Option<f64>,
    /// Wants a pseudo-terminal.
    pty: Option<bool>,
    /// `auto`, `sandbox`, `gateway` or `node`; never the name of a machine.
    #[schema(value_type = Option<HostChoice>)]
    host: Option<String>,
    /// May only tighten what is configured.
    security: Option<Security>,
    /// May only tighten what is configured.
    ask: Option<Ask>,
    /// Node id, display name, remote IP, or an id prefix of 6 or more characters.
    #[schema(
        max_length = 256,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    node: Option<String>,
    /// Asks to leave the sandbox.
    elevated: Option<bool>,
    /// Who asks; `main` unless given or told by `sessionKey`.
    agent_id: Option<AgentId>,
    /// In which session; `agent:<agentId>:main` unless given.
    session_key: Option<SessionKey>,
    /// Why the agent wants it, for the person who answers.
    justification: Option<Justification>,
    /// Where that person can read more.
    context_url: Option<ContextUrl>,
    /// How long to wait in milliseconds for a person's decision.
    #[schema(maximum = 600_000)]
    approval_wait_ms: Option<u64>,
    /// False asks anew also where the same question waits; else the call waits with it for one answer.
    join: Option<bool>,
}

impl ExecBody {
    /// What of it has a successor.
    pub(crate) fn deprecated(&self) -> Option<Deprecated> {
        (self.timeout.is_some() || self.timeout_seconds.is_some()).then_some(Deprecated::TimeoutInSeconds)
    }

    /// Checks what can be checked without knowing settings or files.
    pub(crate) fn into_request(self) -> Result<ExecRequest, Problem> {
        let request = self.into_explainable()?;
        check(&request.command)?;
        Ok(request)
    }

    /// The same for a request that is explained and not run: its command may be one that is rejected.
    pub(in crate::routes) fn into_explainable(self) -> Result<ExecRequest, Problem> {
        let (agent, session) = identity(self.agent_id, self.session_key)?;
        Ok(ExecRequest {
            command: explainable_command(self.command, self.argv)?,
            workdir: workdir(self.workdir)?,
            env: environment(self.env)?,
            yield_after: self
                .yield_ms
                .map(|millis| Duration::from_millis(millis.clamp(*YIELD_MS.start(), *YIELD_MS.end()))),
            background: self.background.unwrap_or_default(),
            timeout: timeout(self.timeout_ms, self.timeout, self.timeout_seconds)?,
            pty: self.pty.unwrap_or_default(),
            host: self.host.as_deref().map(host).transpose()?,
            security: self.security,
            ask: self.ask,
            node: self.node.map(node).transpose()?,
            elevated: self.elevated.unwrap_or_default(),
            agent,
            session,
            note: AgentNote {
                justification: self.justification,
                context_url: self.context_url,
            },
            approval_wait: approval_wait(self.approval_wait_ms)?,
            joining: match self.join {
                Some(false) => Joining::Anew,
                Some(true) | None => Joining::Joins,
            },
        })
    }
}

/// Reads `argv` and stops at the first word too many: what is larger is never held, and costs no more than that.
pub(in crate::routes) fn bounded_argv<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    let words = Option::<BoundedWords>::deserialize(deserializer)?;
    Ok(words.map(|BoundedWords(words)| words))
}

struct BoundedWords(Vec<String>);

impl<'de> Deserialize<'de> for BoundedWords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Words)
    }
}

struct Words;

impl<'de> Visitor<'de> for Words {
    type Value = BoundedWords;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<BoundedWords, A::Error> {
        let mut words: Vec<String> = Vec::new();
        let mut bytes = 0;
        while let Some(word) = sequence.next_element::<String>()? {
            bytes += word.len() + 1;
            words.push(word);
            if words.len() > MAX_WORDS {
                return Err(de::Error::custom(InvalidRequest::TooManyWords));
            }
            if bytes > MAX_ARGV_BYTES {
                return Err(de::Error::custom(InvalidRequest::TooManyBytes));
            }
        }
        Ok(BoundedWords(words))
    }
}

/// The command of a body that has exactly one of the two.
pub(in crate::routes) fn command(
    text: Option<String>,
    argv: Option<Vec<String>>,
) -> Result<Command, Problem> {
    let command = explainable_command(text, argv)?;
    check(&command)?;
    Ok(command)
}

fn explainable_command(text: Option<String>, argv: Option<Vec<String>>) -> Result<Command, Problem> {
    let command = match (text, argv) {
        (Some(text), None) => Command::Shell(text),
        (None, Some(argv)) => Command::Argv(argv),
        (None, None) => return Err(Problem::field("command", "one of command and argv is needed")),
        (Some(_), Some(_)) => {
            return Err(Problem::field(
                "argv",
                "only one of command and argv can be given",
            ));
        }
    };
    match command.check() {
        // Too much to be looked at, also for nothing but an explanation.
        Err(InvalidRequest::BlankCommand | InvalidRequest::TooManyWords | InvalidRequest::TooManyBytes) => {
            check(&command)?;
        }
        Err(InvalidRequest::Nul | InvalidRequest::TooLong | InvalidRequest::PatchTooLong) | Ok(()) => {}
    }
    Ok(command)
}

pub(in crate::routes) fn check(command: &Command) -> Result<(), Problem> {
    let path = match command {
        Command::Shell(_) => "command",
        Command::Argv(_) => "argv",
        Command::Patch(_) => "input",
    };
    command.check().map_err(|invalid| match invalid {
        InvalidRequest::BlankCommand => Problem::new(Code::BlankCommand, format!("{path}: {invalid}"))
            .with_field(path, invalid.to_string()),
        InvalidRequest::Nul
        | InvalidRequest::TooLong
        | InvalidRequest::TooManyWords
        | InvalidRequest::TooManyBytes
        | InvalidRequest::PatchTooLong => Problem::field(path, invalid.to_string()),
    })
}

pub(in crate::routes) fn identity(
    agent: Option<AgentId>,
    session: Option<SessionKey>,
) -> Result<(AgentId, SessionKey), Problem> {
    let told = session.as_ref().and_then(SessionKey::agent);
    if let (Some(agent), Some(told)) = (&agent, &told)
        && agent != told
    {
        let detail = format!("sessionKey belongs to agent {told}, but agentId is {agent}");
        return Err(Problem::new(Code::ConfigConflict, detail));
    }
    let agent = agent.or(told).unwrap_or_else(AgentId::main);
    let session = session.unwrap_or_else(|| SessionKey::main_of(&agent));
    Ok((agent, session))
}

pub(in crate::routes) fn workdir(path: Option<String>) -> Result<Option<String>, Problem> {
    let Some(path) = path else { return Ok(None) };
    if path.contains('\0') {
        return Err(Problem::field("workdir", "must not contain NUL"));
    }
    if !path.starts_with('/') && !path.starts_with("~/") {
        return Err(Problem::field("workdir", "must be absolute or begin with ~/"));
    }
    Ok(Some(path))
}

fn environment(overrides: Option<Overrides>) -> Result<BTreeMap<String, String>, Problem> {
    let Overrides(overrides) = overrides.unwrap_or_default();
    for (name, value) in &overrides {
        // Values may be secret and are never repeated.
        let problem = match () {
            () if name.is_empty() => "a name must not be empty",
            () if name.contains(['=', '\0']) => "a name must not contain = or NUL",
            () if value.contains('\0') => "must not contain NUL",
            () if name.len() + value.len() >= MAX_ARGUMENT_BYTES => "too long for an environment variable",
            () => continue,
        };
        return Err(Problem::field(format!("env.{}", name.escape_default()), problem));
    }
    Ok(overrides)
}

/// The time limit, by the one member of the three that says it.
fn timeout(
    millis: Option<u64>,
    seconds: Option<f64>,
    alias: Option<f64>,
) -> Result<Option<Duration>, Problem> {
    let (path, seconds) = match (millis, seconds, alias) {
        (None, None, None) => return Ok(None),
        (Some(millis), None, None) => {
            let allowed = millis <= MAX_TIMEOUT_MS;
            return allowed
                .then(|| Some(Duration::from_millis(millis)))
                .ok_or_else(|| {
                    Problem::field(
                        "timeoutMs",
                        "expected a whole number of milliseconds, 0 (off) to 31536000000",
                    )
                });
        }
        (None, Some(seconds), None) => ("timeout", seconds),
        (None, None, Some(seconds)) => ("timeoutSeconds", seconds),
        (None, Some(_), Some(_)) => {
            return Err(Problem::field(
                "timeoutSeconds",
                "the same as timeout; give one of them",
            ));
        }
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            return Err(Problem::field(
                "timeoutMs",
                "the same as timeout and timeoutSeconds; give one of them",
            ));
        }
    };
    if !(0.0..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        return Err(Problem::field(path, "expected seconds from 0 (off) to 31536000"));
    }
    // A limit below a millisecond must not become 0, which switches the limit off.
    let limit = Duration::from_secs_f64(seconds);
    Ok(Some(if limit.is_zero() {
        limit
    } else {
        limit.max(Duration::from_millis(1))
    }))
}

pub(in crate::routes) fn host(name: &str) -> Result<HostChoice, Problem> {
    HostChoice::from_str(name).map_err(|invalid| {
        Problem::field(
            "host",
            format!("{invalid}; a machine is never named here, but by node together with host node"),
        )
    })
}

fn node(name: String) -> Result<String, Problem> {
    if name.trim().is_empty() || name.len() > 256 || name.contains(char::is_control) {
        return Err(Problem::field(
            "node",
            "expected 1 to 256 characters without control characters",
        ));
    }
    Ok(name)
}

pub(in crate::routes) fn approval_wait(millis: Option<u64>) -> Result<Duration, Problem> {
    let millis = millis.unwrap_or(0);
    if millis > MAX_APPROVAL_WAIT_MS {
        return Err(Problem::field(
            "approvalWaitMs",
            "expected a whole number of milliseconds, 0 to 600000",
        ));
    }
    Ok(Duration::from_millis(millis))
}

/// Environment overrides, each name once: of two values for one name it would be unclear which was meant. Reading stops at
/// the first that is too many.
#[derive(Debug, Default)]
struct Overrides(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Overrides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Overrides;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Overrides, A::Error> {
                let mut overrides = BTreeMap::new();
                let mut size = EnvSize::default();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    size.add(&name, &value).map_err(de::Error::custom)?;
                    if overrides.insert(name, value).is_some() {
                        return Err(de::Error::custom("a name is given twice"));
                    }
                }
                Ok(Overrides(overrides))
            }
        }

        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(body: Value) -> Result<ExecRequest, String> {
        let body: ExecBody = serde_json::from_value(body).map_err(|error| error.to_string())?;
        body.into_request().map_err(|problem| {
            let document = problem.to_json("/", "q");
            format!(
                "{}: {}",
                document["code"].as_str().unwrap(),
                document["detail"].as_str().unwrap()
            )
        })
    }

    #[track_caller]
    fn refused(body: Value, expected: &str) {
        assert_eq!(request(body).unwrap_err(), expected);
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let request = request(json!({"command": "ls"})).unwrap();
        assert_eq!(
            request,
            ExecRequest {
                command: Command::Shell("ls".to_owned()),
                workdir: None,
                env: BTreeMap::new(),
                yield_after: None,
                background: false,
                timeout: None,
                pty: false,
                host: None,
                security: None,
                ask: None,
                node: None,
                elevated: false,
                agent: AgentId::main(),
                session: SessionKey::parse("agent:main:main").unwrap(),
                approval_wait: Duration::ZERO,
                note: AgentNote::default(),
                joining: Joining::Joins,
            }
        );
    }

    #[test]
    fn exactly_one_command_that_is_not_blank() {
        refused(
            json!({}),
            "invalid-request: command: one of command and argv is needed",
        );
        refused(
            json!({"command": "ls", "argv": ["ls"]}),
            "invalid-request: argv: only one of command and argv can be given",
        );
        refused(
            json!({"command": " \n"}),
            "blank-command: command: the command is blank",
        );
        refused(json!({"argv": []}), "blank-command: argv: the command is blank");
        refused(
            json!({"argv": ["", "x"]}),
            "blank-command: argv: the command is blank",
        );
        refused(
            json!({"command": "a\0b"}),
            "invalid-request: command: must not contain NUL",
        );
        refused(
            json!({"argv": ["echo", "x".repeat(131_072)]}),
            "invalid-request: argv: longer than 131071 bytes cannot be started",
        );
    }

    #[test]
    fn times_are_clamped_or_refused() {
        let yielded = |millis: u64| {
            let request = request(json!({"command": "ls", "yieldMs": millis})).unwrap();
            request.yield_after.unwrap().as_millis()
        };
        assert_eq!([yielded(0), yielded(500), yielded(999_999)], [10, 500, 120_000]);
        let limit = |member: &str, seconds: Value| {
            request(json!({"command": "ls", member: seconds}))
                .map(|request| request.timeout.unwrap().as_millis())
        };
        assert_eq!(limit("timeout", json!(1.5)), Ok(1500));
        assert_eq!(limit("timeoutSeconds", json!(0)), Ok(0));
        assert_eq!(limit("timeoutMs", json!(1500)), Ok(1500));
        assert!(limit("timeoutMs", json!(31_536_000_001_u64)).is_err());
        assert_eq!(limit("timeout", json!(1e-9)), Ok(1));
        for bad in [json!(-1), json!(1e12)] {
            assert!(limit("timeout", bad).is_err());
        }
        refused(
            json!({"command": "ls", "timeout": 1, "timeoutSeconds": 1}),
            "invalid-request: timeoutSeconds: the same as timeout; give one of them",
        );
        refused(
            json!({"command": "ls", "timeoutMs": 1, "timeout": 1}),
            "invalid-request: timeoutMs: the same as timeout and timeoutSeconds; give one of them",
        );
        refused(
            json!({"command": "ls", "approvalWaitMs": 600_001}),
            "invalid-request: approvalWaitMs: expected a whole number of milliseconds, 0 to 600000",
        );
    }

    #[test]
    fn a_machine_is_not_a_host() {
        refused(
            json!({"command": "ls", "host": "build-01"}),
            "invalid-request: host: expected auto, sandbox, gateway or node; a machine is never named here, but by node together with host node",
        );
    }

    #[test]
    fn agent_and_session_must_agree() {
        let who = |body: Value| request(body).map(|request| format!("{} {}", request.agent, request.session));
        assert_eq!(
            who(json!({"command": "ls", "agentId": "a"})).unwrap(),
            "a agent:a:main"
        );
        assert_eq!(
            who(json!({"command": "ls", "sessionKey": "agent:b:x"})).unwrap(),
            "b agent:b:x"
        );
        assert_eq!(
            who(json!({"command": "ls", "sessionKey": "chat:7"})).unwrap(),
            "main chat:7"
        );
        refused(
            json!({"command": "ls", "agentId": "a", "sessionKey": "agent:b:x"}),
            "config-conflict: sessionKey belongs to agent b, but agentId is a",
        );
        assert!(request(json!({"command": "ls", "agentId": "*"})).is_err());
    }

    #[test]
    fn directories_and_overrides_are_checked() {
        for good in ["/", "/tmp/x y", "~/p"] {
            assert!(
                request(json!({"command": "ls", "workdir": good})).is_ok(),
                "{good}"
            );
        }
        for bad in ["", "x", "./x", "../x", "~", "~bob/x", "/a\0"] {
            assert!(
                request(json!({"command": "ls", "workdir": bad})).is_err(),
                "{bad:?}"
            );
        }
        assert!(request(json!({"command": "ls", "env": {"A": "b=c"}})).is_ok());
        refused(
            json!({"command": "ls", "env": {"A": "secret\0"}}),
            "invalid-request: env.A: must not contain NUL",
        );
        refused(
            json!({"command": "ls", "env": {"A=B": "x"}}),
            "invalid-request: env.A=B: a name must not contain = or NUL",
        );
        let twice = serde_json::from_str::<ExecBody>(r#"{"command":"ls","env":{"A":"1","A":"2"}}"#);
        assert!(
            twice
                .unwrap_err()
                .to_string()
                .starts_with("a name is given twice")
        );
    }
}
