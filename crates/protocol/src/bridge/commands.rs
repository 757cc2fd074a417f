//! Which of the commands that a node declares may be called (`docs/spec/bridge.md#81-declared-commands`).

use std::collections::BTreeSet;

use super::exec::{APPROVALS_GET, APPROVALS_SET, RUN_STATUS, SYSTEM_RUN, SYSTEM_RUN_PREPARE, SYSTEM_WHICH};

/// Commands that every platform we know may serve.
const SYSTEM: &[&str] = &[
    APPROVALS_GET,
    APPROVALS_SET,
    RUN_STATUS,
    SYSTEM_RUN,
    SYSTEM_RUN_PREPARE,
    SYSTEM_WHICH,
];
/// What they may serve besides: the browser and the files.
const DESKTOP: &[&str] = &[
    "browser.proxy",
    "browser.proxy.upload.v1",
    "dir.fetch",
    "dir.list",
    "file.create",
    "file.fetch",
    "file.stat",
    "file.write",
    "fs.listDir",
];

/// The settings about commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandRules {
    /// Added to the platform's list.
    pub allow: Vec<String>,
    /// Taken from it; wins.
    pub deny: Vec<String>,
}

/// Why a command may not be called, in the product's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandRefusal {
    /// It declared none, or none of what it declared was approved.
    NoneDeclared,
    /// It is not among the commands that the node declared and a person approved.
    NotDeclared,
    /// The platform's list and the settings do not have it.
    NotAllowlisted,
}

impl CommandRefusal {
    /// The reason in the error's details.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoneDeclared => "node did not declare commands",
            Self::NotDeclared => "command not declared by node",
            Self::NotAllowlisted => "command not allowlisted",
        }
    }
}

impl CommandRules {
    /// Whether the rules let a node of that platform serve a command.
    pub fn allows(&self, platform: Option<&str>, family: Option<&str>, command: &str) -> bool {
        let names = |list: &[String]| list.iter().any(|name| name == command);
        if names(&self.deny) {
            return false;
        }
        let by_platform =
            is_known_platform(platform, family) && (SYSTEM.contains(&command) || DESKTOP.contains(&command));
        by_platform || names(&self.allow)
    }

    /// Checks a call of a command, given those that were declared and approved.
    ///
    /// # Errors
    /// The product's reason for refusing it.
    pub fn check(
        &self,
        platform: Option<&str>,
        family: Option<&str>,
        declared: &BTreeSet<String>,
        command: &str,
    ) -> Result<(), CommandRefusal> {
        if declared.is_empty() {
            Err(CommandRefusal::NoneDeclared)
        } else if !declared.contains(command) {
            Err(CommandRefusal::NotDeclared)
        } else if !self.allows(platform, family, command) {
            Err(CommandRefusal::NotAllowlisted)
        } else {
            Ok(())
        }
    }
}

/// Platform and family must go together. The first generation sends no family.
fn is_known_platform(platform: Option<&str>, family: Option<&str>) -> bool {
    let platform = platform.unwrap_or_default().trim().to_ascii_lowercase();
    let expect: &[&str] = match platform.as_str() {
        "linux" => &["linux"],
        "macos" | "darwin" => &["mac", "macos"],
        "windows" | "win32" => &["windows"],
        _unknown => return false,
    };
    family.is_none_or(|family| expect.contains(&family.trim().to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> CommandRules {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        CommandRules {
            allow: owned(allow),
            deny: owned(deny),
        }
    }

    #[test]
    fn platform_and_family_must_match() {
        let none = rules(&[], &[]);
        for (platform, family, expect) in [
            (Some("linux"), None, true),
            (Some("Linux"), Some("LINUX"), true),
            (Some("linux"), Some("Mac"), false),
            (Some("macos"), Some("Mac"), true),
            (Some("windows"), Some("Windows"), true),
            (Some("plan9"), None, false),
            (None, None, false),
        ] {
            assert_eq!(
                none.allows(platform, family, SYSTEM_RUN),
                expect,
                "{platform:?} {family:?}"
            );
        }
    }

    #[test]
    fn deny_wins_over_allow() {
        let linux = Some("linux");
        assert!(rules(&["ollama.chat"], &[]).allows(linux, None, "ollama.chat"));
        assert!(!rules(&[], &[]).allows(linux, None, "ollama.chat"));
        assert!(!rules(&["system.run"], &["system.run"]).allows(linux, None, "system.run"));
        assert!(rules(&["system.run"], &[]).allows(Some("plan9"), None, "system.run"));
    }

    #[test]
    fn the_reason_is_the_first_that_holds() {
        let declared = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let check = |names: &[&str], command: &str| {
            rules(&[], &[])
                .check(Some("linux"), None, &declared(names), command)
                .map_err(CommandRefusal::reason)
        };
        assert_eq!(check(&["system.run"], "system.run"), Ok(()));
        assert_eq!(check(&[], "system.run"), Err("node did not declare commands"));
        assert_eq!(
            check(&["system.run"], "system.which"),
            Err("command not declared by node")
        );
        assert_eq!(check(&["x.y"], "x.y"), Err("command not allowlisted"));
    }
}
