//! A unit for systemd.

use super::{MARK, Manager, ServiceSpec};

/// The text of the unit.
pub(super) fn unit(spec: &ServiceSpec) -> String {
    let ServiceSpec {
        manager,
        program,
        arguments,
        account,
        log: _,
    } = spec;
    let words: Vec<String> = std::iter::once(program.to_string_lossy().as_ref())
        .chain(arguments.iter().map(String::as_str))
        .map(word)
        .collect();
    let target = match manager {
        Manager::SystemdSystem => "multi-user.target",
        Manager::SystemdUser | Manager::Launchd => "default.target",
    };
    let after = match manager {
        Manager::SystemdSystem => "Wants=network-online.target\nAfter=network-online.target\n",
        Manager::SystemdUser | Manager::Launchd => "",
    };
    let account = account
        .as_ref()
        .map(|account| format!("User={account}\n"))
        .unwrap_or_default();
    format!(
        "# {MARK}.\n\
         \n\
         [Unit]\n\
         Description=countersign node: runs commands for a gateway, if the policy of this machine allows them\n\
         {after}\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         {account}\
         WatchdogSec=30\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus=64 78\n\
         \n\
         # What runs goes on when the node crashes, and the next start finds it again.\n\
         KillMode=process\n\
         Delegate=yes\n\
         OOMPolicy=continue\n\
         \n\
         [Install]\n\
         WantedBy={target}\n",
        words.join(" ")
    )
}

/// One word of a command line, as systemd reads it: nothing in it means anything.
fn word(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '%' => quoted.push_str("%%"),
            '$' => quoted.push_str("$$"),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        assert_eq!(word("plain"), "\"plain\"");
        assert_eq!(word("a \"b\" \\ 100% $HOME"), "\"a \\\"b\\\" \\\\ 100%% $$HOME\"");
    }

    #[test]
    fn a_system_unit_names_its_account() {
        let mut spec = ServiceSpec {
            manager: Manager::SystemdSystem,
            program: PathBuf::from("/usr/bin/countersign"),
            arguments: vec!["node".to_owned(), "run".to_owned()],
            account: Some("agent".to_owned()),
            log: None,
        };
        let unit_text = unit(&spec);
        assert!(unit_text.contains("\nExecStart=\"/usr/bin/countersign\" \"node\" \"run\"\n"));
        assert!(unit_text.contains("\nUser=agent\n") && unit_text.contains("WantedBy=multi-user.target"));
        spec.manager = Manager::SystemdUser;
        spec.account = None;
        let unit_text = unit(&spec);
        assert!(!unit_text.contains("User=") && unit_text.contains("WantedBy=default.target"));
    }
}
