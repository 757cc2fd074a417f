//! The environment of gateway commands (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`).

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::Arc,
};

use countersign_config::settings::Environment;
use countersign_domain::{CommandInput, EnvOverrides};
use countersign_hosts::{confined::Hidden, path_lookup::InheritedVariables, run_path};
use countersign_policy::command::env_policy;

/// What describes a terminal. That of the server's own is not the one of its commands.
const TERMINAL_VARIABLES: &[&str] = &["TERM", "TERMCAP", "COLUMNS", "LINES"];

/// What the pseudo-terminals of commands understand and send.
pub(super) const TERMINAL_KIND: &str = "xterm-256color";

/// What commands inherit, determined once when the server starts.
#[derive(Debug, Clone)]
pub struct HostEnvironment {
    inherited: Vec<(OsString, OsString)>,
    login_path: Option<String>,
    own_path: Option<String>,
    /// The run PATH where nothing is put before it.
    path: Arc<[PathBuf]>,
}

impl HostEnvironment {
    /// The server's environment, sanitised, and the PATH that the login shell told.
    pub fn new(environment: &dyn Environment, login_path: Option<String>) -> Self {
        let mut inherited = env_policy::sanitise_inherited(environment.inherited());
        // The directories are those of the server itself.
        let own = ["PATH", "OPENCLAW_SHELL", "PWD", "OLDPWD"];
        inherited.retain(|(name, _value)| !own.iter().any(|own| name == own));
        Self::of(inherited, login_path, environment.get("PATH"))
    }

    /// What the table of accounts says of the account that commands run under: nothing of it came from outside, so
    /// nothing is taken out, and nothing of the server's own environment is in it.
    pub fn of_account(variables: Vec<(OsString, OsString)>, login_path: Option<String>) -> Self {
        Self::of(variables, login_path, None)
    }

    fn of(
        inherited: Vec<(OsString, OsString)>,
        login_path: Option<String>,
        own_path: Option<String>,
    ) -> Self {
        let path = run_path::compose(&[], login_path.as_deref(), own_path.as_deref());
        Self {
            inherited,
            login_path,
            own_path,
            path: path.into(),
        }
    }

    /// The run PATH: the one that look-up and execution both use.
    pub fn run_path(&self, prepend: &[PathBuf]) -> Arc<[PathBuf]> {
        if prepend.is_empty() {
            return Arc::clone(&self.path);
        }
        run_path::compose(prepend, self.login_path.as_deref(), self.own_path.as_deref()).into()
    }

    /// The whole environment of one command. Overrides win over what is inherited; PATH and our own mark
    /// win over everything. A confined command inherits nothing that leads to what is hidden from it.
    pub(super) fn of_command(
        &self,
        path: &[PathBuf],
        overrides: &EnvOverrides,
        hidden: Option<&Hidden>,
    ) -> Vec<(OsString, OsString)> {
        let overridden = |name: &OsString| overrides.iter().any(|(other, _value)| name == other);
        let inside = hidden.into_iter().flat_map(Hidden::variables);
        let inherited = self
            .inherited
            .iter()
            .cloned()
            .chain(inside)
            .filter(|(name, _value)| !overridden(name));
        let mut all: Vec<_> = match hidden {
            Some(hidden) => hidden.without_leading_out(inherited),
            None => inherited.collect(),
        };
        all.extend(
            overrides
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        all.push((OsString::from("PATH"), run_path::join(path)));
        all.push((OsString::from("OPENCLAW_SHELL"), OsString::from("exec")));
        all
    }

    /// What is known of the variables that every command has, and of those that one may have besides its overrides.
    pub(super) fn known(&self) -> InheritedVariables {
        let inherited = self.inherited.iter().map(|(name, _value)| name.to_string_lossy());
        let own = ["PATH", "OPENCLAW_SHELL", "PWD", "OLDPWD"].into_iter();
        let guards = GUARDS.iter().map(|(name, _value)| *name);
        let home = self.inherited.iter().find(|(name, _value)| name == "HOME");
        InheritedVariables {
            names: inherited
                .map(Cow::into_owned)
                .chain(own.chain(guards).map(str::to_owned))
                .collect(),
            home: home.and_then(|(_name, value)| value.to_str().map(str::to_owned)),
        }
    }

    /// What of that a shell could act on.
    pub(super) fn variables<'a>(
        &'a self,
        path: &'a OsStr,
        overrides: &'a EnvOverrides,
    ) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> + Clone {
        let overrides = || {
            overrides
                .iter()
                .map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
        };
        self.inherited
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .filter(move |(name, _value)| !overrides().any(|(other, _value)| *name == other))
            .chain(overrides())
            .chain([(OsStr::new("PATH"), path)])
    }

    /// The same for a command with a pseudo-terminal of its own, which overrides alone describe otherwise. What guards
    /// it wins over everything.
    pub(super) fn of_command_on_terminal(
        &self,
        path: &[PathBuf],
        overrides: &EnvOverrides,
        hidden: Option<&Hidden>,
        guard: Guard,
    ) -> Vec<(OsString, OsString)> {
        let overridden = |wanted: &OsStr| overrides.iter().any(|(name, _value)| wanted == name);
        let of_server = |name: &OsStr| TERMINAL_VARIABLES.iter().any(|other| name == *other);
        let mut all = self.of_command(path, overrides, hidden);
        all.retain(|(name, _value)| overridden(name) || !of_server(name));
        if !overridden(OsStr::new("TERM")) {
            all.push((OsString::from("TERM"), OsString::from(TERMINAL_KIND)));
        }
        let guards = guard.variables();
        all.retain(|(name, _value)| !guards.iter().any(|(guarded, _)| name == guarded));
        all.extend(
            guards
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        all
    }
}

/// Whether a terminal is kept from pagers and editors, into which any command can be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    None,
    /// What pages writes everything at once, what would be edited is refused, and `less` starts nothing.
    Pagers,
}

/// What programs ask for the pager and the editor, and what `less` asks before it starts anything.
const GUARDS: &[(&str, &str)] = &[
    ("LESSSECURE", "1"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("PSQL_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("SYSTEMD_EDITOR", "false"),
    ("SUDO_EDITOR", "false"),
];

impl Guard {
    /// What the terminal of a command with this input needs.
    pub(super) const fn of(input: CommandInput) -> Self {
        match input {
            CommandInput::GuardedTerminal => Self::Pagers,
            CommandInput::Closed | CommandInput::Withheld | CommandInput::Pipe | CommandInput::Terminal => {
                Self::None
            }
        }
    }

    const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::None => &[],
            Self::Pagers => GUARDS,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use countersign_config::settings::MapEnvironment;

    #[test]
    fn commands_of_another_account_get_what_is_its_own() {
        let own = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let variables = vec![own("HOME", "/home/alice"), own("SHELL", "/bin/zsh")];
        let host = HostEnvironment::of_account(variables, None);
        let of_command = host.of_command(&host.run_path(&[]), &EnvOverrides::default(), None);
        let expected = [
            ("HOME", "/home/alice"),
            ("SHELL", "/bin/zsh"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("OPENCLAW_SHELL", "exec"),
        ];
        assert_eq!(of_command, expected.map(|(name, value)| own(name, value)));
    }

    #[test]
    fn a_terminal_is_described_as_what_it_is_unless_the_call_says_otherwise() {
        let inherited = [
            ("TERM", "linux"),
            ("COLUMNS", "80"),
            ("LINES", "24"),
            ("LANG", "C"),
        ];
        let host = HostEnvironment::new(&MapEnvironment::new(inherited), None);
        let described = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            let overrides = EnvOverrides::accepted(given.collect());
            let mut all = host.of_command_on_terminal(&[], &overrides, None, Guard::None);
            all.retain(|(name, _value)| TERMINAL_VARIABLES.iter().any(|other| name == other));
            all.sort();
            let text =
                |(name, value): (OsString, OsString)| format!("{}={}", name.display(), value.display());
            all.into_iter().map(text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(described(&[]), "TERM=xterm-256color");
        assert_eq!(
            described(&[("TERM", "dumb"), ("LINES", "5")]),
            "LINES=5 TERM=dumb"
        );
    }

    #[test]
    fn commands_get_overrides_path_and_mark_but_nothing_of_ours() {
        let environment = MapEnvironment::new([
            ("PATH", "/own:rel"),
            ("LANG", "C"),
            ("LD_PRELOAD", "/evil.so"),
            ("COUNTERSIGN_TOKEN", "cst_secret"),
            ("OPENCLAW_STATE_DIR", "/state"),
            ("PWD", "/where/the/server/started"),
            ("OLDPWD", "/where/it/was/before"),
        ]);
        let host = HostEnvironment::new(&environment, Some("/login".to_owned()));
        let overrides = EnvOverrides::accepted(BTreeMap::from([("LANG".to_owned(), "de".to_owned())]));
        let path = host.run_path(&[]);
        let mut of_command = host.of_command(&path, &overrides, None);
        of_command.sort();
        let expected = [
            ("LANG", "de"),
            ("OPENCLAW_SHELL", "exec"),
            ("PATH", "/login:/own:/usr/local/bin:/usr/bin:/bin"),
        ];
        let expected: Vec<_> = expected
            .map(|(n, v)| (OsString::from(n), OsString::from(v)))
            .into();
        assert_eq!(of_command, expected);
    }
}
