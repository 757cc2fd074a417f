//! What the kernel of this machine keeps of commands, found out for people.
//!
//! Nothing here decides about a command: each decision asks the same sources by itself. Entry point: [`look`].

use countersign_domain::{Isolation, KeptPart, Kernel, KernelPart};
use countersign_hosts::held;
use countersign_sys::{interception, landlock};

use crate::evaluator::keeping;

/// Looks at this machine, where commands of the gateway host reach the level `reached`. The first call tries whether
/// texts can be held, and blocks for as long.
pub fn look(reached: Isolation) -> Kernel {
    let landlock = landlock::version();
    let parts = KernelPart::ALL.iter().map(|part| KeptPart {
        part: *part,
        missing: missing(*part, landlock, reached),
    });
    Kernel {
        landlock,
        parts: parts.collect(),
    }
}

fn missing(part: KernelPart, version: u32, reached: Isolation) -> Option<String> {
    let landlock::Keeps {
        starts,
        writes,
        connects,
    } = landlock::Keeps::of_version(version);
    let old = || match version {
        0 => "this kernel has no Landlock, or it is switched off".to_owned(),
        _ => format!("this kernel has version {version} of Landlock"),
    };
    let is_kept_at_level = part.levels().contains(&reached);
    let level = || format!("commands of this machine run at the level {reached}");
    match part {
        KernelPart::Starts => (!starts).then(old),
        KernelPart::Writes => (!writes).then(old),
        KernelPart::Connects => (!connects).then(old),
        KernelPart::Signals if version < landlock::SCOPES_SINCE => Some(old()),
        KernelPart::Scripts => (!interception::is_available())
            .then(|| "this kernel does not let the server answer in its place".to_owned()),
        KernelPart::HeldTexts if is_kept_at_level => held::probe().err().map(|why| why.to_string()),
        KernelPart::Children => (!keeping::keeps_children(reached)).then(level),
        KernelPart::Signals | KernelPart::HeldTexts => (!is_kept_at_level).then(level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_and_level_lacks_what_it_does_not_keep() {
        // Whether texts can be held at the level that does it is the machine's; so are scripts.
        let lacking = |version, reached| {
            let parts = KernelPart::ALL.iter().copied();
            let parts = parts.filter(|part| *part != KernelPart::Scripts);
            let parts = parts.filter(|part| *part != KernelPart::HeldTexts || reached != Isolation::Confined);
            let parts = parts.filter(|part| missing(*part, version, reached).is_some());
            parts.map(KernelPart::as_str).collect::<Vec<_>>().join(" ")
        };
        for (version, reached, expected) in [
            (0, Isolation::Confined, "starts writes connects signals"),
            (1, Isolation::Confined, "writes connects signals"),
            (3, Isolation::Confined, "connects signals"),
            (4, Isolation::Confined, "signals"),
            (6, Isolation::Confined, ""),
            (6, Isolation::SameUser, "signals held-texts children"),
            (3, Isolation::SeparateUser, "connects signals held-texts children"),
        ] {
            assert_eq!(lacking(version, reached), expected, "{version} {reached}");
        }
    }
}
