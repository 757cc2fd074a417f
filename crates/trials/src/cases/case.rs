//! A case, and the world that it may bring along.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer};

use countersign_domain::{AgentId, CommandInput};
use countersign_policy::{command::syntax::Grammar, confine::ConfineRule};

/// What policy is expected to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It runs without a question.
    Allow,
    /// A person is asked.
    Ask,
    /// It is refused.
    Reject,
}

/// One command and what is expected of it.
#[derive(Debug)]
pub struct Case {
    /// Its own id, else the number of its line.
    pub id: String,
    /// Shell text.
    pub command: String,
    /// What policy should say.
    pub expect: Expect,
    /// Called with a terminal.
    pub pty: bool,
    /// Called in the background.
    pub background: bool,
    /// Where it is judged.
    pub world: World,
}

impl Case {
    /// What can be written to its command.
    pub const fn input(&self) -> CommandInput {
        CommandInput::wanted(self.background, self.pty)
    }
}

/// Where a case is judged.
#[derive(Debug)]
pub enum World {
    /// By the policy of the server, for this agent.
    Server {
        /// `main` unless the case names one.
        agent: Option<AgentId>,
    },
    /// In a world that exists only in the case.
    Own(OwnWorld),
}

/// A world that exists only in a case; what it does not say is as by default.
#[derive(Debug, Default)]
pub struct OwnWorld {
    /// Where the command starts; an absolute path.
    pub cwd: Option<String>,
    /// Programs by name, with their files.
    pub path_dirs: BTreeMap<String, String>,
    /// Other files that are there.
    pub files: Vec<String>,
    /// Links, with the files that they lead to.
    pub realpaths: BTreeMap<String, String>,
    /// Directories in which safe bins may lie.
    pub trusted_dirs: Vec<String>,
    /// What is allowed.
    pub allowlist: Vec<OwnEntry>,
    /// `tools.exec.safeBins`.
    pub safe_bins: Option<Vec<String>>,
    /// `tools.exec.strictInlineEval`.
    pub strict_inline_eval: bool,
    /// What of shell texts is read.
    pub grammar: Grammar,
    /// Environment overrides.
    pub env: BTreeMap<String, String>,
}

/// An allowlist entry of such a world.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnEntry {
    /// As in the approvals document.
    pub pattern: String,
    /// As in the approvals document.
    pub arg_pattern: Option<String>,
    /// `allow-always` for one that an answer made.
    pub source: Option<String>,
    /// Whether it includes an open input.
    #[serde(default)]
    pub input: bool,
    /// Whether that may be an unguarded terminal.
    #[serde(default)]
    pub unguarded: bool,
    /// What its program may do.
    #[serde(default, deserialize_with = "confine")]
    pub confine: Option<ConfineRule>,
}

/// One that is not understood covers nothing, as in the document.
fn confine<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ConfineRule>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(|value| Some(ConfineRule::read(&value)))
}

/// As it is written. `platform`, `why` and `ref` are for people.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseText<Id> {
    id: Option<Id>,
    command: String,
    agent: Option<AgentId>,
    expect: Expect,
    #[serde(default)]
    pty: bool,
    #[serde(default)]
    background: bool,
    #[serde(rename = "platform")]
    _platform: Option<serde::de::IgnoredAny>,
    #[serde(rename = "why")]
    _why: Option<serde::de::IgnoredAny>,
    #[serde(rename = "ref")]
    _reference: Option<serde::de::IgnoredAny>,
    cwd: Option<String>,
    path_dirs: Option<BTreeMap<String, String>>,
    files: Option<Vec<String>>,
    realpaths: Option<BTreeMap<String, String>>,
    trusted_dirs: Option<Vec<String>>,
    allowlist: Option<Vec<OwnEntry>>,
    safe_bins: Option<Vec<String>>,
    strict_inline_eval: Option<bool>,
    null_redirections: Option<bool>,
    here_documents: Option<bool>,
    file_redirections: Option<bool>,
    file_patterns: Option<bool>,
    temporary_files: Option<bool>,
    found_files: Option<bool>,
    document_operands: Option<bool>,
    variables: Option<bool>,
    substitutions: Option<bool>,
    braces: Option<bool>,
    compound_commands: Option<bool>,
    loops: Option<bool>,
    later_values: Option<bool>,
    background_commands: Option<bool>,
    project_runners: Option<bool>,
    env: Option<BTreeMap<String, String>>,
}

/// What is no file of cases, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidCases {
    line: u64,
    problem: String,
}

impl InvalidCases {
    /// What is wrong, at a line.
    pub(super) fn at(line: u64, problem: &dyn fmt::Display) -> Self {
        Self {
            line,
            problem: problem.to_string(),
        }
    }
}

impl Expect {
    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Reject => "reject",
        }
    }
}

impl<Id: Into<String>> CaseText<Id> {
    /// The case that this is. It begins at this line.
    pub(super) fn into_case(self, line: u64) -> Result<Case, InvalidCases> {
        let is_of_its_own = self.cwd.is_some()
            || self.path_dirs.is_some()
            || self.files.is_some()
            || self.realpaths.is_some()
            || self.trusted_dirs.is_some()
            || self.allowlist.is_some()
            || self.safe_bins.is_some()
            || self.strict_inline_eval.is_some()
            || self.null_redirections.is_some()
            || self.here_documents.is_some()
            || self.file_redirections.is_some()
            || self.file_patterns.is_some()
            || self.temporary_files.is_some()
            || self.found_files.is_some()
            || self.document_operands.is_some()
            || self.variables.is_some()
            || self.substitutions.is_some()
            || self.braces.is_some()
            || self.compound_commands.is_some()
            || self.loops.is_some()
            || self.later_values.is_some()
            || self.background_commands.is_some()
            || self.project_runners.is_some()
            || self.env.is_some();
        if self.cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return Err(InvalidCases::at(line, &"cwd: expected an absolute path"));
        }
        let world = if is_of_its_own {
            World::Own(OwnWorld {
                cwd: self.cwd,
                path_dirs: self.path_dirs.unwrap_or_default(),
                files: self.files.unwrap_or_default(),
                realpaths: self.realpaths.unwrap_or_default(),
                trusted_dirs: self.trusted_dirs.unwrap_or_default(),
                allowlist: self.allowlist.unwrap_or_default(),
                safe_bins: self.safe_bins,
                strict_inline_eval: self.strict_inline_eval.unwrap_or_default(),
                grammar: Grammar {
                    null_redirections: self.null_redirections.unwrap_or_default(),
                    here_documents: self.here_documents.unwrap_or_default(),
                    file_redirections: self.file_redirections.unwrap_or_default(),
                    file_patterns: self.file_patterns.unwrap_or_default(),
                    temporary_files: self.temporary_files.unwrap_or_default(),
                    found_files: self.found_files.unwrap_or_default(),
                    document_operands: self.document_operands.unwrap_or_default(),
                    variables: self.variables.unwrap_or_default(),
                    substitutions: self.substitutions.unwrap_or_default(),
                    braces: self.braces.unwrap_or_default(),
                    compound_commands: self.compound_commands.unwrap_or_default(),
                    loops: self.loops.unwrap_or_default(),
                    later_values: self.later_values.unwrap_or_default(),
                    background_commands: self.background_commands.unwrap_or_default(),
                    project_runners: self.project_runners.unwrap_or_default(),
                },
                env: self.env.unwrap_or_default(),
            })
        } else {
            World::Server { agent: self.agent }
        };
        Ok(Case {
            id: self.id.map_or_else(|| line.to_string(), Into::into),
            command: self.command,
            expect: self.expect,
            pty: self.pty,
            background: self.background,
            world,
        })
    }
}
