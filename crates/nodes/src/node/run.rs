//! `system.run`: what is looked at before the engine is asked (`docs/spec/bridge.md#91-systemrun`,
//! `docs/spec/bridge.md#94-systemrunprepare-p4-only`, `docs/spec/bridge.md#95-local-policy-on-the-node`). Pure.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use countersign_domain::{
    AgentId, AgentNote, ApprovalDecision, BoundScript, Command, EnvSize, ExecRequest, InvalidRequest,
    Joining, MAX_WORDS, Security, SessionKey, UnixMillis,
};
use countersign_engine::{Planned, Preview, PreviewRule};
use countersign_protocol::bridge::{ApprovalSource, OWN_RULE, RunApproval, RunParams, RunPlan, format_argv};

use super::answer::{Answer, Denied, Dialect, Make};

/// The session of a call that names none.
const DEFAULT_SESSION: &str = "node";
/// Programs that take a script behind `-c`.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"];
/// How that flag is spelled.
const SCRIPT_FLAGS: &[&str] = &["-c", "-lc", "-ic", "-cl", "-ci", "-lic"];

/// A call of `system.run` that can be meant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunCall {
    pub(super) command: Command,
    pub(super) argv: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) agent: AgentId,
    pub(super) session: SessionKey,
    /// The session for events.
    pub(super) session_text: String,
    /// The agent as it was sent.
    sent_agent: Option<String>,
    /// The session as it was sent.
    sent_session: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) screen: bool,
    pub(super) approval: Carried,
    /// The plan that was approved, if one is given.
    pub(super) plan: Option<RunPlan>,
    pub(super) not_after: Option<UnixMillis>,
    pub(super) suppress_notify: Option<bool>,
}

/// What a gateway says about approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    Nothing,
    /// A person there allowed it.
    Allowed(ApprovalDecision),
    Fallback,
}

impl RunCall {
    /// Reads the parameters.
    ///
    /// # Errors
    /// The answer that says what is wrong with them.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(super) fn parse(params: Value) -> Result<Self, Answer> {
        let has_command = params
            .get("command")
            .and_then(Value::as_array)
            .is_some_and(|words| !words.is_empty());
        if !has_command {
            return Err(Answer::invalid("command required"));
        }
        // The message of the parser would repeat what was sent.
        let params: RunParams = serde_json::from_value(params)
            .map_err(|_unnamed| Answer::invalid("INVALID_REQUEST: invalid params"))?;
        let RunParams {
            command: argv,
            raw_command,
            cwd,
            env,
            timeout_ms,
            needs_screen_recording,
            agent_id,
            session_key,
            approved,
            approval_decision,
            approval_source,
            run_id,
            system_run_plan,
            suppress_notify_on_exit,
            not_after_ms,
        } = params;
        let env = env.unwrap_or_default();
        if argv.len() > MAX_WORDS {
            return Err(Answer::invalid("INVALID_REQUEST: too many arguments"));
        }
        EnvSize::check(&env).map_err(|large| Answer::invalid(format!("INVALID_REQUEST: env: {large}")))?;
        if raw_command.as_deref().is_some_and(|raw| !agrees(raw, &argv)) {
            return Err(Answer::invalid(
                "INVALID_REQUEST: rawCommand does not match command",
            ));
        }
        let command = Command::of_peer(argv.clone()).map_err(|error| match error {
            InvalidRequest::BlankCommand => Answer::invalid("command required"),
            error => Answer::invalid(format!("INVALID_REQUEST: {error}")),
        })?;
        let session_text = session_key
            .clone()
            .filter(|key| !key.is_empty())
            .unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        let session = SessionKey::parse(session_text.clone())
            .map_err(|error| Answer::invalid(format!("INVALID_REQUEST: sessionKey: {error}")))?;
        let agent = agent_id
            .clone()
            .map(AgentId::parse)
            .transpose()
            .map_err(|error| Answer::invalid(format!("INVALID_REQUEST: agentId: {error}")))?;
        let told = session.agent();
        if let (Some(agent), Some(told)) = (&agent, &told)
            && agent != told
        {
            return Err(Answer::invalid(
                "INVALID_REQUEST: sessionKey: belongs to another agent",
            ));
        }
        let agent = agent.or(told).unwrap_or_else(AgentId::main);
        let approval = match (approved, approval_decision, approval_source) {
            (_, Some(RunApproval::AllowAlways), _) => Carried::Allowed(ApprovalDecision::AllowAlways),
            (_, Some(RunApproval::AllowOnce), _) | (Some(true), None, _) => {
                Carried::Allowed(ApprovalDecision::AllowOnce)
            }
            (_, None, Some(ApprovalSource::AskFallback)) => Carried::Fallback,
            // A program's review is no person's answer here.
            (_, None, Some(ApprovalSource::AutoReview) | None) => Carried::Nothing,
        };
        let plan = system_run_plan.filter(|plan| !plan.is_null()).map(|plan| {
            serde_json::from_value(plan).map_err(|_unnamed| {
                Answer::invalid("INVALID_REQUEST: explicit approval requires matching systemRunPlan")
            })
        });
        let timeout = timeout_ms.and_then(|limit| u64::try_from(limit).ok());
        Ok(Self {
            command,
            argv,
            cwd: cwd.filter(|cwd| !cwd.is_empty()),
            env,
            // None, and none that is positive, is no limit: that is what zero means to the engine.
            timeout: Duration::from_millis(timeout.unwrap_or(0)),
            agent,
            session,
            session_text,
            run_id: run_id.filter(|id| !id.is_empty() && id.len() <= 256),
            screen: needs_screen_recording.unwrap_or(false),
            approval,
            plan: plan.transpose()?,
            not_after: not_after_ms.map(UnixMillis::new),
            suppress_notify: suppress_notify_on_exit,
            sent_agent: agent_id,
            sent_session: session_key,
        })
    }

    /// The text for people and events.
    pub(super) fn text(&self) -> String {
        format_argv(&self.argv)
    }

    /// Whether what was approved is what was sent.
    pub(super) fn matches_plan(&self, plan: &RunPlan) -> bool {
        let RunPlan {
            argv,
            cwd,
            command_text,
            agent_id,
            session_key,
            mutable_file_operand: _,
            policy_snapshot: _,
        } = plan;
        *argv == self.argv
            && *cwd == self.cwd
            && *command_text == self.text()
            && *agent_id == self.sent_agent
            && *session_key == self.sent_session
    }

    /// The request to the engine. Only the fallback tightens anything: it stands for the answer that nobody gave.
    pub(super) fn to_request(&self, fallback: Option<Security>) -> ExecRequest {
        ExecRequest {
            command: self.command.clone(),
            workdir: self.cwd.clone(),
            env: self.env.clone(),
            yield_after: None,
            background: false,
            timeout: Some(self.timeout),
            pty: false,
            host: None,
            security: fallback,
            ask: None,
            node: None,
            elevated: false,
            agent: self.agent.clone(),
            session: self.session.clone(),
            approval_wait: Duration::ZERO,
            note: AgentNote::default(),
            joining: Joining::Never,
        }
    }
}

/// Whether a text is what a command was made of: its arguments, or the script of a shell
/// (`docs/spec/bridge.md#91-systemrun`).
pub(super) fn agrees(raw: &str, argv: &[String]) -> bool {
    let raw = raw.trim();
    raw == format_argv(argv).trim() || script_of(argv).is_some_and(|script| raw == script.trim())
}

/// The script of `sh -c SCRIPT` and its kin.
fn script_of(argv: &[String]) -> Option<&str> {
    let [program, flag, script] = argv else {
        return None;
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    (SHELLS.contains(&name) && SCRIPT_FLAGS.contains(&flag.as_str())).then_some(script)
}

/// What of a plan must still hold when its call begins; `None` when its snapshot of the policy was not made by us.
pub(super) fn planned(plan: &RunPlan) -> Option<Planned> {
    let policy = plan.policy();
    if policy.is_none() && plan.policy_snapshot.is_some() {
        return None;
    }
    let operand = plan.mutable_file_operand.as_ref();
    Some(Planned {
        script: operand.map(|operand| (operand.path.clone(), operand.sha256.clone())),
        policy,
    })
}

/// The same for a call that goes on because nobody answered: the fallback alone tightens it besides.
pub(super) fn under_fallback(planned: Planned, fallback: Option<Security>) -> Planned {
    Planned {
        policy: planned
            .policy
            .map(|(security, ask)| (fallback.map_or(security, |fallback| security.min(fallback)), ask)),
        ..planned
    }
}

/// Whether the script that a plan was made for is the one that would be run.
pub(super) fn is_script_of_plan(plan: &RunPlan, scripts: &[BoundScript]) -> bool {
    match &plan.mutable_file_operand {
        None => true,
        Some(operand) => scripts
            .iter()
            .any(|script| script.path == operand.path && script.sha256 == operand.sha256),
    }
}

/// The same of a look at it before anybody is asked.
pub(super) fn is_script_of_plan_now(plan: &RunPlan, script: Option<&(String, String)>) -> bool {
    match &plan.mutable_file_operand {
        None => true,
        Some(operand) => {
            script.is_some_and(|(path, sha256)| *path == operand.path && *sha256 == operand.sha256)
        }
    }
}

/// The answer to `system.run.prepare`.
pub(super) fn prepared(call: &RunCall, preview: &Preview, make: Make) -> Value {
    let Preview {
        security,
        ask,
        ask_fallback,
        auto_allow_skills,
        rules,
        cwd,
        program,
        program_real,
        script,
        asks: _,
        covered,
        remembered,
        refused,
        approval: _,
        fallback: _,
    } = preview;
    let mut argv = call.argv.clone();
    if let (Some(first), Some(path)) = (
        argv.first_mut(),
        program_path(program.as_deref(), program_real.as_deref()),
    ) {
        path.clone_into(first);
    }
    let text = format_argv(&argv);
    let preview = script_of(&argv).map(str::to_owned);
    let operand = script.as_ref().and_then(|(path, sha256)| {
        let index = argv
            .iter()
            .position(|word| word == path || path.ends_with(&format!("/{word}")))?;
        Some(serde_json::json!({"argvIndex": index, "path": path, "sha256": sha256}))
    });
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let mut plan = serde_json::json!({
        "argv": argv,
        "cwd": cwd,
        "commandText": text,
        "commandPreview": preview,
        "agentId": call.sent_agent,
        "sessionKey": call.sent_session,
        "policySnapshot": {
            "security": security,
            "ask": ask,
            "askFallback": ask_fallback,
            "autoAllowSkills": auto_allow_skills,
            "allowlistRules": rules,
        },
    });
    if let (Some(members), Some(operand)) = (plan.as_object_mut(), operand) {
        members.insert("mutableFileOperand".to_owned(), operand);
    }
    let patterns: Vec<Value> = remembered
        .iter()
        .map(|(pattern, arg_pattern)| {
            rule(&PreviewRule {
                pattern: pattern.clone(),
                arg_pattern: arg_pattern.clone(),
                source: None,
            })
        })
        .collect();
    let mut answer = serde_json::json!({
        "plan": plan,
        "execPolicy": {"security": security, "ask": ask},
        "allowAlwaysCoverage": {"complete": *covered || !patterns.is_empty(), "patterns": patterns},
    });
    if let (Make::Ours, Some(rule), Some(members)) = (make, refused, answer.as_object_mut()) {
        members.insert(OWN_RULE.to_owned(), rule.to_value());
    }
    answer
}

/// The path that takes the place of the first word: the real file, unless that has another name. A program that does
/// what its name says (`busybox`, say) would be another one then.
fn program_path<'a>(found: Option<&'a str>, real: Option<&'a str>) -> Option<&'a str> {
    let found = found?;
    let name = |path: &'a str| path.rsplit('/').next();
    Some(real.filter(|real| name(real) == name(found)).unwrap_or(found))
}

fn rule(rule: &PreviewRule) -> Value {
    let PreviewRule {
        pattern,
        arg_pattern,
        source,
    } = rule;
    let mut value = serde_json::json!({"pattern": pattern});
    if let Some(members) = value.as_object_mut() {
        for (name, text) in [("argPattern", arg_pattern), ("source", source)] {
            if let Some(text) = text {
                members.insert(name.to_owned(), text.as_str().into());
            }
        }
    }
    value
}

/// What is refused before any policy is looked at.
pub(super) fn refused_at_once(call: &RunCall, now: UnixMillis, dialect: Dialect) -> Option<Answer> {
    if call.not_after.is_some_and(|limit| now >= limit) {
        return Some(Answer::void("its time had passed when it came"));
    }
    if call.screen {
        return Some(Answer::denied(Denied::ScreenRecording, dialect));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_domain::{Ask, Reason};
    use countersign_protocol::bridge::OwnRule;

    #[test]
    fn only_gateways_of_ours_are_told_which_rule_refuses() {
        let call = call(json!({"command": ["echo", "hi"]}));
        assert_eq!(
            prepared(&call, &preview(), Make::Ours)[OWN_RULE],
            json!({"reason": "denylist"})
        );
        assert_eq!(prepared(&call, &preview(), Make::Other).get(OWN_RULE), None);
    }

    fn call(params: Value) -> RunCall {
        RunCall::parse(params).unwrap()
    }

    #[track_caller]
    fn refused(params: Value, message: &str) {
        let answer = RunCall::parse(params).unwrap_err();
        let error = answer.outcome(Make::Other).unwrap_err();
        assert_eq!(
            (error.code.as_deref(), error.message.as_deref()),
            (Some("INVALID_REQUEST"), Some(message))
        );
    }

    #[test]
    fn what_is_no_command_is_refused_in_the_products_words() {
        for params in [
            json!(null),
            json!({}),
            json!({"command": []}),
            json!({"command": "ls"}),
            json!({"command": [" "]}),
        ] {
            refused(params, "command required");
        }
        refused(json!({"command": ["ls", 1]}), "INVALID_REQUEST: invalid params");
        refused(
            json!({"command": ["a\u{0}"]}),
            "INVALID_REQUEST: must not contain NUL",
        );
        refused(
            json!({"command": vec!["x"; MAX_WORDS + 1]}),
            "INVALID_REQUEST: too many arguments",
        );
        let env: BTreeMap<String, String> = (0..1_025).map(|n| (format!("V{n}"), String::new())).collect();
        refused(
            json!({"command": ["ls"], "env": env}),
            "INVALID_REQUEST: env: a call has at most 1024 environment variables; put the rest into a file that the program reads",
        );
    }

    #[test]
    fn raw_text_must_be_what_is_run() {
        let ok = |raw: &str, argv: &[&str]| call(json!({"command": argv, "rawCommand": raw}));
        ok("echo hi", &["echo", "hi"]);
        ok("echo \"a b\" \"\"", &["echo", "a b", ""]);
        ok("ls -la; pwd", &["/bin/sh", "-lc", "ls -la; pwd"]);
        ok("ls", &["bash", "-c", "ls"]);
        for (raw, argv) in [
            ("echo hi", vec!["rm", "-rf", "/"]),
            ("echo", vec!["/bin/sh", "-c", "echo", "x"]),
            ("ls", vec!["python3", "-c", "ls"]),
            ("ls", vec!["/bin/sh", "-x", "ls"]),
        ] {
            refused(
                json!({"command": argv, "rawCommand": raw}),
                "INVALID_REQUEST: rawCommand does not match command",
            );
        }
    }

    #[test]
    fn who_asks_and_how_long_it_may_take() {
        let found = call(json!({"command": ["ls"]}));
        assert_eq!(
            (found.agent.as_str(), found.session.as_str(), found.timeout),
            ("main", "node", Duration::ZERO)
        );
        let found = call(json!({"command": ["ls"], "sessionKey": "agent:a:main", "timeoutMs": 400}));
        assert_eq!(
            (found.agent.as_str(), found.timeout),
            ("a", Duration::from_millis(400))
        );
        let found = call(json!({"command": ["ls"], "agentId": "b", "sessionKey": "here", "timeoutMs": -1}));
        assert_eq!((found.agent.as_str(), found.timeout), ("b", Duration::ZERO));
        refused(
            json!({"command": ["ls"], "agentId": "b", "sessionKey": "agent:a:main"}),
            "INVALID_REQUEST: sessionKey: belongs to another agent",
        );
        assert!(RunCall::parse(json!({"command": ["ls"], "agentId": "../x"})).is_err());
        assert!(RunCall::parse(json!({"command": ["ls"], "sessionKey": "a\n"})).is_err());
    }

    #[test]
    fn only_a_persons_word_is_an_approval() {
        let approval = |members: Value| {
            let mut params = json!({"command": ["ls"]});
            params
                .as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            call(params).approval
        };
        let once = Carried::Allowed(ApprovalDecision::AllowOnce);
        assert_eq!(approval(json!({})), Carried::Nothing);
        assert_eq!(approval(json!({"approved": true})), once);
        assert_eq!(approval(json!({"approved": false})), Carried::Nothing);
        assert_eq!(approval(json!({"approvalDecision": "allow-once"})), once);
        assert_eq!(
            approval(json!({"approvalDecision": "allow-always"})),
            Carried::Allowed(ApprovalDecision::AllowAlways)
        );
        assert_eq!(approval(json!({"approvalDecision": "yes"})), Carried::Nothing);
        assert_eq!(
            approval(json!({"approvalSource": "ask-fallback"})),
            Carried::Fallback
        );
        assert_eq!(
            approval(json!({"approvalSource": "auto-review"})),
            Carried::Nothing
        );
        assert_eq!(
            approval(json!({"approved": true, "approvalSource": "ask-fallback"})),
            once
        );
    }

    #[test]
    fn a_plan_is_matched_member_by_member() {
        let plan = json!({"argv": ["/usr/bin/echo", "hi"], "cwd": "/tmp", "commandText": "/usr/bin/echo hi",
            "commandPreview": null, "agentId": "main", "sessionKey": "agent:main:main"});
        let params = json!({"command": ["/usr/bin/echo", "hi"], "cwd": "/tmp", "agentId": "main",
            "sessionKey": "agent:main:main", "approved": true});
        let matches = |params: &Value, plan: &Value| {
            let mut params = params.clone();
            params["systemRunPlan"] = plan.clone();
            let found = call(params);
            found.matches_plan(found.plan.as_ref().unwrap())
        };
        assert!(matches(&params, &plan));
        for (member, other) in [
            ("argv", json!(["/usr/bin/echo", "ho"])),
            ("cwd", json!("/")),
            ("cwd", json!(null)),
            ("commandText", json!("echo hi")),
            ("agentId", json!("other")),
            ("sessionKey", json!("agent:main:other")),
            ("sessionKey", json!(null)),
        ] {
            let mut changed = plan.clone();
            changed[member] = other;
            assert!(!matches(&params, &changed), "{member}");
        }
        for (member, other) in [
            ("command", json!(["/usr/bin/echo", "hi", "there"])),
            ("cwd", json!("/root")),
            ("agentId", json!(null)),
            ("sessionKey", json!("agent:main:other")),
        ] {
            let mut changed = params.clone();
            changed[member] = other;
            assert!(!matches(&changed, &plan), "{member}");
        }
    }

    fn preview() -> Preview {
        Preview {
            security: Security::Allowlist,
            ask: Ask::OnMiss,
            ask_fallback: Security::Deny,
            auto_allow_skills: false,
            rules: Vec::new(),
            cwd: "/tmp".to_owned(),
            program: Some("/bin/sh".to_owned()),
            program_real: Some("/usr/bin/dash".to_owned()),
            script: None,
            asks: true,
            covered: false,
            remembered: Vec::new(),
            refused: Some(OwnRule::of_reason(Reason::Denylist)),
            approval: OwnRule::of_reason(Reason::ApprovalRequired),
            fallback: OwnRule::of_reason(Reason::SecurityDeny),
        }
    }

    #[test]
    fn a_plan_that_was_prepared_is_matched_by_the_call_that_brings_it_back() {
        let params =
            json!({"command": ["sh", "-c", "echo hi"], "agentId": "main", "sessionKey": "agent:main:main"});
        let answer = prepared(&call(params.clone()), &preview(), Make::Other);
        let plan = answer.get("plan").unwrap();
        // The name that says what the program does stays.
        assert_eq!(plan.pointer("/argv/0"), Some(&json!("/bin/sh")));
        assert_eq!(plan.get("commandPreview"), Some(&json!("echo hi")));
        let mut back = params;
        for (to, from) in [("command", "argv"), ("cwd", "cwd"), ("systemRunPlan", "")] {
            back[to] = if from.is_empty() {
                plan.clone()
            } else {
                plan[from].clone()
            };
        }
        back["approved"] = json!(true);
        back["rawCommand"] = json!("echo hi");
        let back = call(back);
        let given = back.plan.as_ref().unwrap();
        assert!(back.matches_plan(given));
        assert_eq!(
            planned(given).unwrap().policy,
            Some((preview().security, preview().ask))
        );
    }

    #[test]
    fn what_a_plan_was_made_under_is_read_from_its_snapshot() {
        let of = |snapshot: Value| {
            let plan = json!({"argv": ["sh", "/x"], "cwd": null, "commandText": "sh /x", "policySnapshot": snapshot,
                "mutableFileOperand": {"argvIndex": 1, "path": "/x", "sha256": "aa"}});
            planned(&serde_json::from_value(plan).unwrap())
        };
        let made = of(json!({"security": "allowlist", "ask": "on-miss"})).unwrap();
        assert_eq!(made.script, Some(("/x".to_owned(), "aa".to_owned())));
        assert_eq!(made.policy, Some((Security::Allowlist, Ask::OnMiss)));
        assert_eq!(
            under_fallback(made.clone(), Some(Security::Deny)).policy,
            Some((Security::Deny, Ask::OnMiss))
        );
        assert_eq!(under_fallback(made.clone(), Some(Security::Full)), made);
        assert_eq!(under_fallback(made.clone(), None), made);
        assert_eq!(of(json!(null)).unwrap().policy, None);
        for strange in [
            json!({}),
            json!({"security": "full"}),
            json!({"security": "all", "ask": "off"}),
        ] {
            assert_eq!(of(strange.clone()), None, "{strange}");
        }
    }

    #[test]
    fn a_script_must_be_the_one_that_was_approved() {
        let plan = |operand: Value| -> RunPlan {
            serde_json::from_value(json!({"argv": ["sh", "/x"], "cwd": null, "commandText": "sh /x",
                "mutableFileOperand": operand}))
            .unwrap()
        };
        let script = |path: &str, sha256: &str| BoundScript {
            path: path.to_owned(),
            sha256: sha256.to_owned(),
            interpreter: None,
        };
        let bound = [script("/x", "aa")];
        assert!(is_script_of_plan(
            &plan(json!({"argvIndex": 1, "path": "/x", "sha256": "aa"})),
            &bound
        ));
        assert!(!is_script_of_plan(
            &plan(json!({"argvIndex": 1, "path": "/x", "sha256": "bb"})),
            &bound
        ));
        assert!(!is_script_of_plan(
            &plan(json!({"argvIndex": 1, "path": "/y", "sha256": "aa"})),
            &bound
        ));
        assert!(!is_script_of_plan(
            &plan(json!({"argvIndex": 1, "path": "/x", "sha256": "aa"})),
            &[]
        ));
    }

    #[test]
    fn what_comes_too_late_is_void() {
        let late = call(json!({"command": ["ls"], "notAfterMs": 1000}));
        let at = |now| refused_at_once(&late, UnixMillis::new(now), Dialect::Present);
        assert_eq!(at(999), None);
        assert!(at(1000).unwrap().is_void());
        let screen = call(json!({"command": ["ls"], "needsScreenRecording": true}));
        let answer = refused_at_once(&screen, UnixMillis::new(0), Dialect::First).unwrap();
        assert_eq!(
            answer.outcome(Make::Other).unwrap_err().message.as_deref(),
            Some("PERMISSION_MISSING: screenRecording")
        );
    }
}
