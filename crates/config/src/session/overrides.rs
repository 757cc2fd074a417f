//! What a session changes about its runs, and how elevation lies on top of it.

use countersign_domain::{Actor, Ask, HostChoice, Security, UnixMillis};
use countersign_policy::combine::Wanted;

use super::sender::Sender;

use crate::settings::ElevatedLevel;

/// The values that `/exec` or the API sets for a session; what is `None` is not overridden.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecOverrides {
    /// Where the session's commands run.
    pub host: Option<HostChoice>,
    /// The enforcement level that the session wants.
    pub security: Option<Security>,
    /// When the session wants a person to be asked.
    pub ask: Option<Ask>,
    /// Id, name or address of a node: 1 to 256 characters, not blank, none of them unseen.
    pub node: Option<String>,
}

impl ExecOverrides {
    /// Whether nothing is set.
    pub const fn is_empty(&self) -> bool {
        let Self {
            host,
            security,
            ask,
            node,
        } = self;
        host.is_none() && security.is_none() && ask.is_none() && node.is_none()
    }
}

/// Everything a session overrides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// The values set by `/exec` or the API; an elevation covers them and never changes them.
    pub exec: ExecOverrides,
    /// The level that a sender chose; `None` where none did.
    pub elevated: Option<Elevated>,
    /// Who changed it last, and when.
    pub set: Option<(SetBy, UnixMillis)>,
}

/// Who changed the overrides of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetBy {
    /// The token that did.
    pub actor: Actor,
    /// The sender that it vouched for; `None` where it acted for itself.
    pub sender: Option<Sender>,
}

/// A level of elevation, who chose it, and what of the session's settings it stands in for. The settings themselves
/// stay as they are below it, so that `off` has nothing to put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elevated {
    /// The level that was chosen; `off` refuses calls that ask to be elevated.
    pub level: ElevatedLevel,
    /// Who chose it. It holds only as long as they may be elevated.
    pub sender: Sender,
    covers: Covers,
}

/// The later directive wins: an `/exec ask=always` after `/elevated full` is no slip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Covers {
    host: bool,
    security: bool,
    ask: bool,
}

impl Elevated {
    /// A level that a sender chose just now.
    pub const fn new(level: ElevatedLevel, sender: Sender) -> Self {
        let is_up = !matches!(level, ElevatedLevel::Off);
        Self {
            level,
            sender,
            covers: Covers {
                host: is_up,
                security: is_up,
                ask: matches!(level, ElevatedLevel::Full),
            },
        }
    }
}

/// What a session puts on top of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InForce {
    /// Where its runs go.
    pub host: Option<HostChoice>,
    /// Security and ask that the session wants, with the elevation on top.
    pub wanted: Wanted,
    /// Which node runs its commands, as the session names it; no elevation changes it.
    pub node: Option<String>,
}

impl Overrides {
    /// Whether nothing is overridden.
    pub const fn is_empty(&self) -> bool {
        self.exec.is_empty() && self.elevated.is_none()
    }

    /// Sets what `/exec` names and leaves the rest.
    #[must_use]
    pub fn with_exec(mut self, set: &ExecOverrides) -> Self {
        let ExecOverrides {
            host,
            security,
            ask,
            node,
        } = set;
        if let Some(elevated) = &mut self.elevated {
            elevated.covers.host &= host.is_none();
            elevated.covers.security &= security.is_none();
            elevated.covers.ask &= ask.is_none();
        }
        let exec = &mut self.exec;
        exec.host = host.or(exec.host);
        exec.security = security.or(exec.security);
        exec.ask = ask.or(exec.ask);
        if node.is_some() {
            exec.node.clone_from(node);
        }
        self
    }

    /// Sets a level and leaves the rest.
    #[must_use]
    pub fn with_elevated(mut self, level: ElevatedLevel, sender: Sender) -> Self {
        self.elevated = Some(Elevated::new(level, sender));
        self
    }

    /// The level in words of the contract, which knows no "not said".
    pub fn level(&self) -> ElevatedLevel {
        self.elevated
            .as_ref()
            .map_or(ElevatedLevel::Off, |elevated| elevated.level)
    }

    /// What is in effect, where the configuration says `configured` about the host.
    pub fn in_force(&self, configured: HostChoice) -> InForce {
        let ExecOverrides {
            host,
            security,
            ask,
            node,
        } = &self.exec;
        let mut in_force = InForce {
            host: *host,
            wanted: Wanted {
                security: *security,
                ask: *ask,
            },
            node: node.clone(),
        };
        if let Some(Elevated { covers, .. }) = &self.elevated {
            if covers.host {
                in_force.host = Some(outside(host.unwrap_or(configured)));
            }
            if covers.security {
                in_force.wanted.security = Some(Security::Full);
            }
            if covers.ask {
                in_force.wanted.ask = Some(Ask::Off);
            }
        }
        in_force
    }

    /// The same without the elevation, for when its sender may not be elevated (any more).
    #[must_use]
    pub fn without_elevation(mut self) -> Self {
        self.elevated = None;
        self
    }
}

/// Where elevation leads to.
const fn outside(host: HostChoice) -> HostChoice {
    match host {
        HostChoice::Node => HostChoice::Node,
        HostChoice::Auto | HostChoice::Sandbox | HostChoice::Gateway => HostChoice::Gateway,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ann() -> Sender {
        Sender::of_token("ann")
    }

    fn exec(host: Option<HostChoice>, security: Option<Security>, ask: Option<Ask>) -> ExecOverrides {
        ExecOverrides {
            host,
            security,
            ask,
            node: None,
        }
    }

    #[test]
    fn each_level_does_what_the_specification_says() {
        let before =
            Overrides::default().with_exec(&exec(None, Some(Security::Allowlist), Some(Ask::Always)));
        let at = |level, configured| before.clone().with_elevated(level, ann()).in_force(configured);
        for level in [ElevatedLevel::On, ElevatedLevel::Ask] {
            let on = at(level, HostChoice::Sandbox);
            assert_eq!(on.host, Some(HostChoice::Gateway));
            assert_eq!(on.wanted.security, Some(Security::Full));
            assert_eq!(on.wanted.ask, Some(Ask::Always));
        }
        let full = at(ElevatedLevel::Full, HostChoice::Node);
        assert_eq!(full.host, Some(HostChoice::Node));
        assert_eq!(full.wanted.security, Some(Security::Full));
        assert_eq!(full.wanted.ask, Some(Ask::Off));
        let off = at(ElevatedLevel::Off, HostChoice::Sandbox);
        assert_eq!(off, before.in_force(HostChoice::Sandbox));
    }

    #[test]
    fn what_is_said_after_the_elevation_counts_and_stays() {
        let elevated = Overrides::default().with_elevated(ElevatedLevel::Full, ann());
        let tightened = elevated.with_exec(&exec(None, None, Some(Ask::Always)));
        let in_force = tightened.in_force(HostChoice::Sandbox);
        assert_eq!(in_force.wanted.ask, Some(Ask::Always));
        assert_eq!(in_force.wanted.security, Some(Security::Full));
        let off = tightened.with_elevated(ElevatedLevel::Off, ann());
        assert_eq!(off.exec, exec(None, None, Some(Ask::Always)));
        assert_eq!(off.in_force(HostChoice::Sandbox).wanted.security, None);
    }

    #[test]
    fn the_sessions_own_host_decides_where_elevation_leads() {
        let on_node = Overrides::default().with_exec(&exec(Some(HostChoice::Node), None, None));
        let elevated = on_node.with_elevated(ElevatedLevel::On, ann());
        assert_eq!(
            elevated.in_force(HostChoice::Sandbox).host,
            Some(HostChoice::Node)
        );
    }

    fn level() -> impl Strategy<Value = ElevatedLevel> {
        proptest::sample::select(ElevatedLevel::ALL)
    }

    fn some_exec() -> impl Strategy<Value = ExecOverrides> {
        let host = proptest::option::of(proptest::sample::select(HostChoice::ALL));
        let security = proptest::option::of(proptest::sample::select(Security::ALL));
        let ask = proptest::option::of(proptest::sample::select(Ask::ALL));
        (host, security, ask).prop_map(|(host, security, ask)| exec(host, security, ask))
    }

    proptest! {
        #[test]
        fn off_restores_exactly(
            set in some_exec(), levels in proptest::collection::vec(level(), 1..5),
            configured in proptest::sample::select(HostChoice::ALL)
        ) {
            let before = Overrides::default().with_exec(&set);
            let mut after = before.clone();
            for level in levels {
                after = after.with_elevated(level, ann());
            }
            after = after.with_elevated(ElevatedLevel::Off, ann());
            prop_assert_eq!(&after.exec, &before.exec);
            prop_assert_eq!(after.in_force(configured), before.in_force(configured));
            prop_assert_eq!(after.without_elevation(), before);
        }

        #[test]
        fn the_later_word_counts(
            first in some_exec(), level in level(), later in some_exec(),
            configured in proptest::sample::select(HostChoice::ALL)
        ) {
            let in_force = Overrides::default()
                .with_exec(&first)
                .with_elevated(level, ann())
                .with_exec(&later)
                .in_force(configured);
            prop_assert!(later.host.is_none() || in_force.host == later.host);
            prop_assert!(later.security.is_none() || in_force.wanted.security == later.security);
            prop_assert!(later.ask.is_none() || in_force.wanted.ask == later.ask);
        }
    }
}
