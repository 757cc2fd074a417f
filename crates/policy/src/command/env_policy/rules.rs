//! Checks names and values against the lists.

use std::{collections::BTreeMap, ffi::OsString};

use countersign_domain::EnvOverrides;

use super::names;

use crate::command::{Rule, RuleSet};

/// Overrides that are a bad request (E1). Values are never part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment overrides that are not accepted: {}", names.join(", "))]
pub struct BlockedEnv {
    /// The refused names, upper-case and sorted.
    pub names: Vec<String>,
}

/// Accepts overrides for gateway and node hosts, in every security mode (E1).
///
/// # Errors
/// [`BlockedEnv`] with every malformed or blocked name.
pub fn check_overrides(overrides: &BTreeMap<String, String>) -> Result<EnvOverrides, BlockedEnv> {
    check_overrides_under(RuleSet::ALL, overrides)
}

/// The same under a set of rules.
///
/// # Errors
/// As [`check_overrides`].
pub fn check_overrides_under(
    rules: RuleSet,
    overrides: &BTreeMap<String, String>,
) -> Result<EnvOverrides, BlockedEnv> {
    let mut blocked: Vec<String> = Vec::new();
    let mut accepted = BTreeMap::new();
    for (name, value) in overrides {
        let upper = name.to_uppercase();
        let turned_off = turns_pager_off(&upper, value);
        let is_refused = !is_well_formed(name) || value.contains('\0') || is_blocked(name, value);
        if rules.holds(Rule::E1, is_refused) {
            blocked.push(upper);
        } else {
            let value = if turned_off { String::new() } else { value.clone() };
            accepted.insert(name.clone(), value);
        }
    }
    if blocked.is_empty() {
        return Ok(EnvOverrides::accepted(accepted));
    }
    blocked.sort();
    blocked.dedup();
    Err(BlockedEnv { names: blocked })
}

/// Accepts overrides for the sandbox host: any that can be a variable at all. What they load there is there already,
/// and nothing of the host is started with them.
///
/// # Errors
/// [`BlockedEnv`] with every malformed name, and the names of values that no process can be given.
pub fn check_inside_overrides(overrides: &BTreeMap<String, String>) -> Result<EnvOverrides, BlockedEnv> {
    let refused = |(name, value): &(&String, &String)| !is_well_formed(name) || value.contains('\0');
    let mut blocked: Vec<String> = overrides
        .iter()
        .filter(refused)
        .map(|(name, _value)| name.to_uppercase())
        .collect();
    if blocked.is_empty() {
        return Ok(EnvOverrides::accepted(overrides.clone()));
    }
    blocked.sort();
    blocked.dedup();
    Err(BlockedEnv { names: blocked })
}

/// The accepted overrides that are not known to be harmless: under allowlist they need a question (E2).
pub fn unknown_overrides(overrides: &EnvOverrides) -> Vec<String> {
    unknown_overrides_under(RuleSet::ALL, overrides)
}

pub(crate) fn unknown_overrides_under(rules: RuleSet, overrides: &EnvOverrides) -> Vec<String> {
    overrides
        .iter()
        .filter(|(name, value)| {
            let is_known = is_harmless_under(rules, name, value) || is_turned_off(name, value);
            rules.holds(Rule::E2, !is_known)
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The harmless overrides alone: all that reaches a shell payload, no matter what the security is (E3).
pub fn harmless_only(overrides: &EnvOverrides) -> EnvOverrides {
    EnvOverrides::accepted(
        overrides
            .iter()
            .filter(|(name, value)| is_harmless(name, value) || is_turned_off(name, value))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

/// Whether a name with this value changes nothing that matters (E3). Names are compared in exact case. A pager
/// that is turned off is not among them: it is accepted as an override only.
pub fn is_harmless(name: &str, value: &str) -> bool {
    is_harmless_under(RuleSet::ALL, name, value)
}

pub(crate) fn is_harmless_under(rules: RuleSet, name: &str, value: &str) -> bool {
    rules.holds(Rule::E3, is_harmless_pair(name, value))
}

fn is_harmless_pair(name: &str, value: &str) -> bool {
    let known = names::HARMLESS.contains(&name)
        || name.strip_prefix("LC_").is_some_and(|category| {
            !category.is_empty()
                && category
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
    known
        && if name == "TZ" {
            is_zone(value)
        } else {
            is_plain_value(value)
        }
}

/// The inherited environment as a child gets it: without what loads code and without our own variables.
pub fn sanitise_inherited(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    inherited
        .into_iter()
        // A name that is not Unicode cannot be judged, so it is not passed on.
        .filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| is_inherited(&name.to_uppercase()))
        })
        .collect()
}

fn is_inherited(upper: &str) -> bool {
    !is_always_blocked(upper)
        && !names::SERVICE.contains(&upper)
        && !upper.starts_with("COUNTERSIGN_")
        && !upper.starts_with("OPENCLAW_")
}

fn is_turned_off(name: &str, value: &str) -> bool {
    matches!(name, "PAGER" | "GIT_PAGER") && value.is_empty()
}

fn turns_pager_off(upper: &str, value: &str) -> bool {
    matches!(upper, "PAGER" | "GIT_PAGER") && matches!(value, "" | "cat")
}

/// Why variables of these names are refused, in words.
pub fn refusal(names: &[String]) -> String {
    let (blocked, malformed): (Vec<&str>, Vec<&str>) = names
        .iter()
        .map(String::as_str)
        .partition(|name| is_well_formed(name));
    let sentences = [
        ("these variables can never be set", blocked),
        ("these are no names of variables", malformed),
    ];
    let told = sentences.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> = told
        .map(|(why, names)| format!("{why}: {}", names.join(", ")))
        .collect();
    told.join("; ")
}

/// Whether a variable can have this name at all.
pub fn is_well_formed(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

fn is_always_blocked(upper: &str) -> bool {
    names::ALWAYS.contains(&upper)
        || names::ALWAYS_PREFIXES
            .iter()
            .any(|prefix| upper.starts_with(prefix))
}

/// Whether an override of that name is refused (E1). A pager may be turned off.
pub(crate) fn is_blocked(name: &str, value: &str) -> bool {
    let upper = name.to_uppercase();
    is_blocked_name(&upper) && !turns_pager_off(&upper, value)
}

fn is_blocked_name(upper: &str) -> bool {
    is_always_blocked(upper)
        || names::OVERRIDES.contains(&upper)
        || (!names::ACCEPTED.contains(&upper)
            && names::OVERRIDE_PREFIXES
                .iter()
                .any(|prefix| upper.starts_with(prefix)))
}

fn is_plain_value(value: &str) -> bool {
    value.len() <= 128
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.,=:@+-".contains(&byte))
}

fn is_zone(value: &str) -> bool {
    let mut bytes = value.bytes();
    value.len() <= 64
        && !value.contains("..")
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_+/-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn inside_of_a_sandbox_only_what_is_no_variable_is_refused() {
        let accepted = check_inside_overrides(&overrides(&[
            ("LD_PRELOAD", "/x.so"),
            ("PATH", "/opt/bin"),
            ("bash_env", "y"),
        ]));
        assert_eq!(accepted.unwrap().names(), ["LD_PRELOAD", "PATH", "bash_env"]);
        let refused = check_inside_overrides(&overrides(&[
            ("A=B", "x"),
            ("", "x"),
            ("GOOD", "x"),
            ("NUL", "a\0b"),
            ("a b", "x"),
        ]));
        assert_eq!(refused.unwrap_err().names, ["", "A B", "A=B", "NUL"]);
    }

    #[test]
    fn blocked_names_are_listed_upper_case_and_sorted() {
        let given = overrides(&[
            ("path", "x"),
            ("LD_PRELOAD", "x"),
            ("FOO", "x"),
            ("A B", "x"),
            ("Z", "a\0b"),
        ]);
        let blocked = check_overrides(&given).unwrap_err();
        assert_eq!(blocked.names, ["A B", "LD_PRELOAD", "PATH", "Z"]);
    }

    #[test]
    fn shapes_and_prefixes_are_blocked() {
        for name in [
            "CARGO_TARGET_X_LINKER",
            "CARGO_TARGET_X_Y_RUNNER",
            "npm_config_x",
            "GIT_TRACE_SETUP",
            "GIT_TRACE",
            "TF_VAR_x",
            "OPENCLAW_SHELL",
            "COUNTERSIGN_X",
            "BASH_FUNC_x",
            "DYLD_X",
            "GIT_CONFIG",
            "CARGO_REGISTRIES_X_TOKEN",
            "CARGO_ALIAS_X",
            "CARGO_BUILD_RUSTFLAGS",
            "CMAKE_C_COMPILER_LAUNCHER",
            "ANSIBLE_SSH_EXECUTABLE",
            "GIT_DIFFTOOL_EXTCMD",
            "GIT_DIFF_OPTS",
            "GIT_TRACE2_EVENT",
            "GIT_REDIRECT_STDOUT",
            "GCC_EXEC_PREFIX",
            "COMPILER_PATH",
            "GOROOT",
            "PSQLRC",
            "TF_CLI_ARGS_plan",
        ] {
            assert!(check_overrides(&overrides(&[(name, "x")])).is_err(), "{name}");
        }
        for name in ["CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "CMAKE_BUILD_TYPE", "PORT"] {
            assert!(check_overrides(&overrides(&[(name, "x")])).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_pager_may_only_be_turned_off() {
        let accepted = check_overrides(&overrides(&[("GIT_PAGER", "cat"), ("PAGER", "")])).unwrap();
        assert_eq!(
            accepted.iter().collect::<Vec<_>>(),
            [("GIT_PAGER", ""), ("PAGER", "")]
        );
        assert!(unknown_overrides(&accepted).is_empty());
        assert!(check_overrides(&overrides(&[("PAGER", "less")])).is_err());
    }

    #[test]
    fn harmless_values_stay_inside_their_characters() {
        for (name, value, expected) in [
            ("TERM", "xterm-256color", true),
            ("TERM", "../x", false),
            ("TERM", "a b", false),
            ("term", "xterm", false),
            ("LC_ALL", "C.UTF-8", true),
            ("LC_", "C", false),
            ("LC_X_1", "C", true),
            ("lc_all", "C", false),
            ("TZ", "Europe/Berlin", true),
            ("TZ", "/etc/x", false),
            ("TZ", "a/../b", false),
            ("TZ", "", false),
            ("FOO", "x", false),
        ] {
            assert_eq!(is_harmless(name, value), expected, "{name}={value}");
        }
        assert!(!is_harmless("TERM", &"x".repeat(129)));
    }

    #[test]
    fn the_inherited_environment_loses_what_loads_code() {
        let inherited = [
            "PATH",
            "HOME",
            "HTTP_PROXY",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "COUNTERSIGN_X",
            "NOTIFY_SOCKET",
            "OPENCLAW_X",
        ];
        let kept: Vec<OsString> = sanitise_inherited(inherited.map(|name| (name.into(), "x".into())))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(kept, ["PATH", "HOME", "HTTP_PROXY"]);
    }

    #[test]
    fn the_lists_are_sorted_and_disjoint() {
        assert!(names::ALWAYS.is_sorted());
        assert!(names::OVERRIDES.is_sorted());
        assert!(names::ALWAYS.iter().all(|name| !names::OVERRIDES.contains(name)));
    }
}
