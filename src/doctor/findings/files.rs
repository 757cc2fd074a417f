//! The state directory, and the files in it that are nobody else's business.

use crate::doctor::{DirectoryState, Finding, PrivateFile, Repair, Severity, Snapshot};

pub(super) fn directory(snapshot: &Snapshot) -> Option<Finding> {
    let key = snapshot.state_dir.display().to_string();
    match &snapshot.directory {
        DirectoryState::Usable => None,
        DirectoryState::Missing => Some(Finding {
            id: "state-dir-missing",
            severity: Severity::Warning,
            key,
            explanation: "the state directory is not there yet".to_owned(),
            fix: "countersign init".to_owned(),
            repair: None,
        }),
        DirectoryState::Refused(why) => Some(Finding {
            id: "state-dir-refused",
            severity: Severity::Error,
            explanation: format!("the state directory must not be used: {why}"),
            fix: format!("make it yours alone: chown and chmod 0700 {key}, or name another with --state-dir"),
            key,
            repair: None,
        }),
    }
}

pub(super) fn private(file: &PrivateFile, us: u32) -> Option<Finding> {
    let path = file.path.display();
    if file.owner != us {
        return Some(Finding {
            id: "foreign-file",
            severity: Severity::Error,
            key: path.to_string(),
            explanation: format!("it belongs to user {}, who can read or change it", file.owner),
            fix: format!("chown {us} {path}, then exchange what it held: it may be known"),
            repair: None,
        });
    }
    (file.mode & 0o077 != 0).then(|| Finding {
        id: "file-not-private",
        severity: if file.mode & 0o022 != 0 {
            Severity::Error
        } else {
            Severity::Warning
        },
        key: path.to_string(),
        explanation: format!("its mode is {:04o}: others than you can get at it", file.mode),
        fix: format!("chmod {:04o} {path}", file.wanted),
        repair: Some(Repair::SetMode {
            path: file.path.clone(),
            mode: file.wanted,
        }),
    })
}

/// The node host's identity has the shape of the product's first generation, which the present one wants to migrate
/// before it starts (`docs/spec/bridge.md#53-device-pairing-record-and-files`).
pub(super) fn node_host(snapshot: &Snapshot) -> Option<Finding> {
    let identity = snapshot.state_dir.join("identity/device.json");
    let file = snapshot.private.iter().find(|file| file.path == identity)?;
    Some(Finding {
        id: "node-identity-beside",
        severity: Severity::Info,
        key: file.path.display().to_string(),
        explanation: "the key of a node host lies here: an OpenClaw of protocol 4 that shares this state directory does \
                      not start beside it"
            .to_owned(),
        fix: "give that OpenClaw, or the node (countersign --state-dir DIR node run), a state directory of its own"
            .to_owned(),
        repair: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::doctor::findings::{
        findings,
        tests::{check, sound},
    };

    use super::*;

    #[test]
    fn the_identity_of_a_node_host_is_told_of() {
        let mut snapshot = sound();
        snapshot.private.push(PrivateFile {
            path: snapshot.state_dir.join("identity/device.json"),
            mode: 0o600,
            owner: 1000,
            wanted: 0o600,
        });
        let found: Vec<_> = findings(&snapshot)
            .iter()
            .map(|finding| (finding.id, finding.severity))
            .collect();
        assert_eq!(found, [("node-identity-beside", Severity::Info)]);
    }

    #[test]
    fn files_that_others_can_reach_are_found_and_can_be_repaired() {
        let mode = |mode: u32| move |s: &mut Snapshot| s.private.iter_mut().for_each(|file| file.mode = mode);
        let path = "/state/countersign/operator.token";
        check(mode(0o640), &[("file-not-private", Severity::Warning, path)]);
        check(mode(0o620), &[("file-not-private", Severity::Error, path)]);
        check(|s| s.us = 0, &[("foreign-file", Severity::Error, path)]);
        let mut snapshot = sound();
        mode(0o666)(&mut snapshot);
        assert_eq!(
            findings(&snapshot)[0].repair,
            Some(Repair::SetMode {
                path: path.into(),
                mode: 0o600
            })
        );
    }
}
