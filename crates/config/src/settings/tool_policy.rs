//! Tool policy: `tools.allow` and `tools.deny` at both levels (`docs/spec/exec-tool.md#12-tool-policy`).

use super::policy_keys::{Level, Said};

/// One of our tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `exec`, also called `bash`.
    Exec,
    /// `process`, which lists and controls process sessions.
    Process,
    /// `apply_patch`, also called `apply-patch`.
    ApplyPatch,
}

/// Both levels of tool policy for one agent; each must let a tool through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    levels: Vec<ToolLevel>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolLevel {
    allow: Option<Said<Vec<String>>>,
    deny: Option<Said<Vec<String>>>,
}

impl ToolPolicy {
    /// Takes the lists of the levels that there are.
    pub(super) fn of<'a>(levels: impl IntoIterator<Item = &'a Level>) -> Self {
        let lists = |level: &Level| ToolLevel {
            allow: level.tools_allow.clone(),
            deny: level.tools_deny.clone(),
        };
        Self {
            levels: levels.into_iter().map(lists).collect(),
        }
    }

    /// The key that denies a tool (`tools.deny`, `agents.list[0].tools.allow`), if one does.
    pub fn denied_by(&self, tool: Tool) -> Option<&str> {
        self.levels.iter().find_map(|level| level.denied_by(tool))
    }
}

impl ToolLevel {
    fn denied_by(&self, tool: Tool) -> Option<&str> {
        let names_it = |list: &Said<Vec<String>>| list.value.iter().any(|name| tool.is_named_by(name));
        let denied = self.deny.as_ref().filter(|list| names_it(list));
        let not_allowed = self
            .allow
            .as_ref()
            .filter(|list| !names_it(list) && !tool.is_implied_by(&list.value));
        denied.or(not_allowed).map(|list| list.source.as_str())
    }
}

impl Tool {
    fn is_named_by(self, name: &str) -> bool {
        let name = name.trim().to_lowercase();
        let names: &[&str] = match self {
            Self::Exec => &["exec", "bash", "group:runtime"],
            Self::Process => &["process", "group:runtime"],
            Self::ApplyPatch => &["apply_patch", "apply-patch", "group:fs"],
        };
        name == "*" || names.contains(&name.as_str())
    }

    /// An agent that may write files may patch them.
    fn is_implied_by(self, allowed: &[String]) -> bool {
        match self {
            Self::Exec | Self::Process => false,
            Self::ApplyPatch => allowed.iter().any(|name| name.trim().to_lowercase() == "write"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `allow` and `deny` of one level.
    type Lists<'a> = (Option<&'a [&'a str]>, Option<&'a [&'a str]>);

    fn policy(levels: &[Lists<'_>]) -> ToolPolicy {
        let said = |list: Option<&[&str]>, source: &str| {
            list.map(|names| Said {
                value: names.iter().map(|name| (*name).to_owned()).collect(),
                source: source.to_owned(),
            })
        };
        let level = |(allow, deny): &Lists<'_>| ToolLevel {
            allow: said(*allow, "allow"),
            deny: said(*deny, "deny"),
        };
        ToolPolicy {
            levels: levels.iter().map(level).collect(),
        }
    }

    #[test]
    fn deny_wins_and_both_levels_must_allow() {
        let check = |levels: &[Lists<'_>], tool, expect: Option<&str>| {
            assert_eq!(policy(levels).denied_by(tool), expect, "{levels:?} {tool:?}");
        };
        check(&[], Tool::Exec, None);
        check(&[(None, None)], Tool::Exec, None);
        check(&[(None, Some(&["Bash"]))], Tool::Exec, Some("deny"));
        check(&[(None, Some(&["group:runtime"]))], Tool::Process, Some("deny"));
        check(&[(None, Some(&["*"]))], Tool::ApplyPatch, Some("deny"));
        check(&[(None, Some(&["browser"]))], Tool::Exec, None);
        check(&[(Some(&["exec"]), Some(&["exec"]))], Tool::Exec, Some("deny"));
        check(&[(Some(&["exec"]), None)], Tool::Process, Some("allow"));
        check(&[(Some(&[]), None)], Tool::Exec, Some("allow"));
        check(
            &[(Some(&["*"]), None), (Some(&["process"]), None)],
            Tool::Exec,
            Some("allow"),
        );
        check(&[(Some(&["write"]), None)], Tool::ApplyPatch, None);
        check(&[(None, Some(&["write"]))], Tool::ApplyPatch, None);
        check(&[(Some(&["group:fs"]), None)], Tool::ApplyPatch, None);
    }
}
