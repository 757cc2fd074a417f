//! What an analysis is given: the request's surroundings and a view of every rule.

use std::collections::BTreeMap;

use countersign_domain::{AgentId, CommandInput, EnvOverrides, FileIdentity, PinnedDirectory, UnixMillis};

use crate::{
    command::{direct::ShellKind, paths, safe_bin::SafeBinProfile, syntax::Grammar},
    pattern::{PathCase, PatternCache},
};

use super::{Entries, Grant, Keeps};

/// Where and for whom a command is analysed.
#[derive(Debug, Clone, Copy)]
pub struct AnalysisRequest<'a> {
    /// Working directory as asked for, absolute.
    pub cwd: &'a str,
    /// Its real path: what relative paths start from and what generated entries are bound to.
    pub cwd_real: &'a str,
    /// Overrides that passed `command::env_policy::check_overrides`.
    pub env: &'a EnvOverrides,
    /// The agent that asks.
    pub agent: &'a AgentId,
    /// What the call wants to be able to write to it.
    pub input: CommandInput,
    /// The agent's workspace, where the supervisor opens files of it for redirections (G13); `None` where a shell would.
    pub workspace: Option<&'a PinnedDirectory>,
    /// The directory of temporary files, where the supervisor makes files for redirections (G15); `None` where a shell would.
    pub temporary: Option<&'a PinnedDirectory>,
    /// The shell of the host, where it is one whose ways are known.
    pub shell: Option<ShellKind>,
}

/// Every rule an analysis looks at. Lists are in matching order.
#[derive(Debug, Clone, Copy)]
pub struct AnalysisPolicy<'a> {
    /// The allowlist entries of `*`, then those of the agent.
    pub entries: Entries<'a>,
    /// Limited entries, looked at after all entries.
    pub grants: &'a [Grant<'a>],
    /// Looked at for everything that might run, always without case. One that matches wins.
    pub deny_rules: &'a [DenyRule<'a>],
    /// What is read besides the plain grammar (`tools.exec.reads`).
    pub grammar: Grammar,
    /// Base names of safe bins (`tools.exec.safeBins`).
    pub safe_bins: &'a [String],
    /// Profiles from the configuration by base name; each changes the built-in one of that name.
    pub safe_bin_profiles: &'a BTreeMap<String, SafeBinProfile>,
    /// Trusted directories besides `/bin` and `/usr/bin`.
    pub trusted_dirs: &'a [String],
    /// The skill table; empty unless skills are auto-allowed for the agent (K1).
    pub skills: &'a [SkillBin],
    /// `tools.exec.strictInlineEval`: inline eval is a miss that no entry lifts.
    pub strict_inline_eval: bool,
    /// `tools.exec.strictDelegation` and `[policy] delegation_table` together.
    pub strict_delegation: bool,
    /// Whether `=command:` entries may be offered (`[policy] exact_text_grants`).
    pub exact_text_grants: bool,
    /// How path and name patterns compare, `auto` already resolved.
    pub path_case: PathCase,
    /// The time that grants expire by.
    pub now: UnixMillis,
    /// What belongs to the server itself (P6).
    pub protected: &'a Protected,
    /// What of `confine` can be kept where it runs.
    pub keeps: Keeps,
    /// Compiled patterns of earlier analyses; answers do not depend on it.
    pub cache: &'a PatternCache,
}

/// A rule that always wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenyRule<'a> {
    /// `*` or the agent whose list holds it.
    pub owner: &'a str,
    /// Its id in the approvals document, which an explanation shows.
    pub id: &'a str,
    /// `pattern` as written; a name matches base names wherever the file lies.
    pub pattern: &'a str,
    /// `argPattern` as written; without it any arguments.
    pub arg_pattern: Option<&'a str>,
    /// Why its author forbids the command; `None` if they did not say.
    pub reason: Option<&'a str>,
    /// Whether it is also to bind what a command starts, where the isolation level keeps that.
    pub children: bool,
    /// Whether it is about one exact text, and not about a program. It is of no analysis: who has the text compares it.
    pub is_of_text: bool,
}

/// A skill's program (K1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillBin {
    /// The name as typed.
    pub name: String,
    /// Its real path. A file elsewhere under this name is not the skill.
    pub path: String,
}

/// What no command may be auto-allowed to touch (P6). Paths are absolute and normalised; where a path has another
/// real path, both belong here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    /// Real path of the server's own binary.
    pub own_binary: Option<String>,
    /// Device and inode of that file, so that another name of it is it too.
    pub own_file: Option<(u64, u64)>,
    /// The state directory and the approvals document.
    pub roots: Vec<String>,
    /// The workspaces below the roots, which commands may touch.
    pub exceptions: Vec<String>,
}

impl Protected {
    /// Whether a normalised path belongs to the server.
    pub fn holds(&self, path: &str, case: PathCase) -> bool {
        self.roots.iter().any(|root| is_within(path, root, case))
            && !self
                .exceptions
                .iter()
                .any(|exception| is_within(path, exception, case))
    }

    /// Whether something of the server's lies below a normalised path.
    pub(super) fn lies_below(&self, path: &str, case: PathCase) -> bool {
        self.roots.iter().any(|root| is_within(root, path, case))
    }

    /// Whether a file is the server's own program, under any name.
    pub(crate) fn is_own_binary(&self, real: &str, file: &FileIdentity) -> bool {
        self.own_binary.as_deref() == Some(real) || self.own_file == Some((file.dev, file.ino))
    }
}

fn is_within(path: &str, directory: &str, case: PathCase) -> bool {
    match case {
        PathCase::Sensitive => paths::is_within(path, directory),
        PathCase::Insensitive => paths::is_within(&path.to_lowercase(), &directory.to_lowercase()),
    }
}
