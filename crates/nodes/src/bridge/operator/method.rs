//! The methods of an operator and the scopes that open each.

use std::collections::BTreeSet;

use super::scope::OperatorScope::{self, Admin, Approvals, Pairing, Read, Write};

/// Which of the caller's scopes open a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opens {
    /// Anybody who got in.
    Anybody,
    AnyOf(&'static [OperatorScope]),
    AllOf(&'static [OperatorScope]),
}

impl Opens {
    /// The scope that a caller with these lacks; `None` when it is open to them.
    pub(super) fn missing(self, has: &BTreeSet<OperatorScope>) -> Option<OperatorScope> {
        match self {
            Self::Anybody => None,
            Self::AnyOf(scopes) if scopes.iter().any(|scope| has.contains(scope)) => None,
            Self::AnyOf(scopes) => scopes.first().copied(),
            Self::AllOf(scopes) => scopes.iter().find(|scope| !has.contains(scope)).copied(),
        }
    }

    /// The scopes that would open it.
    pub(super) const fn scopes(self) -> &'static [OperatorScope] {
        match self {
            Self::Anybody => &[],
            Self::AnyOf(scopes) | Self::AllOf(scopes) => scopes,
        }
    }
}

/// What a method touches. A new method says it, or does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Only that this server is there.
    Anybody,
    /// Things of agents, which the method looks at for the caller.
    Agents,
    /// What belongs to no agent: a token that is bound to agents is refused.
    NoAgent,
}

macro_rules! methods {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, $opens:expr, $about:ident; )+) => {
        /// A method that an operator may call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Method {
            $( $(#[$meta])* $variant, )+
        }

        impl Method {
            /// Every method, in the order in which it is advertised.
            pub(super) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name on the wire.
            pub(super) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Who may call it.
            pub(super) const fn opens(self) -> Opens {
                match self { $(Self::$variant => $opens,)+ }
            }

            pub(super) const fn about(self) -> About {
                match self { $(Self::$variant => About::$about,)+ }
            }

            /// The method of this name.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

// Asking is open to those who run things and to those who answer, since gateways of the product ask with the scope that
// answers; that nobody answers their own is not a matter of scopes.
const ASKING: Opens = Opens::AnyOf(&[Write, Approvals]);
const READING: Opens = Opens::AnyOf(&[Read]);
const PAIRING: Opens = Opens::AnyOf(&[Pairing]);
const ADMIN: Opens = Opens::AnyOf(&[Admin]);

methods! {
    Health = "health", Opens::Anybody, Anybody;
    Status = "status", READING, NoAgent;
    NodeList = "node.list", READING, NoAgent;
    NodeDescribe = "node.describe", READING, NoAgent;
    NodeRename = "node.rename", PAIRING, NoAgent;
    /// What it may do depends on the command, see [`invoke_opens`].
    NodeInvoke = "node.invoke", Opens::AnyOf(&[Write, Admin]), Agents;
    NodePairList = "node.pair.list", PAIRING, NoAgent;
    /// A command surface is as powerful as the commands in it, so an admin decides.
    NodePairApprove = "node.pair.approve", Opens::AllOf(&[Pairing, Admin]), NoAgent;
    NodePairReject = "node.pair.reject", PAIRING, NoAgent;
    DevicePairList = "device.pair.list", PAIRING, NoAgent;
    DevicePairApprove = "device.pair.approve", PAIRING, NoAgent;
    DevicePairReject = "device.pair.reject", PAIRING, NoAgent;
    DevicePairRemove = "device.pair.remove", PAIRING, NoAgent;
    DevicePairRename = "device.pair.rename", PAIRING, NoAgent;
    DeviceTokenRotate = "device.token.rotate", PAIRING, NoAgent;
    DeviceTokenRevoke = "device.token.revoke", PAIRING, NoAgent;
    ApprovalsGet = "exec.approvals.get", ADMIN, NoAgent;
    ApprovalsSet = "exec.approvals.set", ADMIN, NoAgent;
    ApprovalsNodeGet = "exec.approvals.node.get", ADMIN, NoAgent;
    ApprovalsNodeSet = "exec.approvals.node.set", ADMIN, NoAgent;
    ApprovalRequest = "exec.approval.request", ASKING, Agents;
    ApprovalWaitDecision = "exec.approval.waitDecision", ASKING, Agents;
    ApprovalResolve = "exec.approval.resolve", Opens::AnyOf(&[Approvals]), Agents;
    ApprovalGet = "exec.approval.get", ASKING, Agents;
    ApprovalList = "exec.approval.list", ASKING, Agents;
}

/// The events that are pushed to operators.
pub(super) const EVENTS: &[&str] = &[
    "connect.challenge",
    "tick",
    "shutdown",
    "exec.approval.requested",
    "exec.approval.resolved",
    "device.pair.requested",
    "device.pair.resolved",
    "node.pair.requested",
    "node.pair.resolved",
];

/// Methods of nodes: an operator has the wrong role for them, which is said in other words than that there is no such
/// method.
pub(super) fn is_of_nodes(name: &str) -> bool {
    matches!(
        name,
        "node.invoke.result"
            | "node.invoke.progress"
            | "node.event"
            | "node.runnerInventory.update"
            | "node.skills.update"
            | "node.pluginTools.update"
            | "skills.bins"
    )
}

/// Which scopes let a command be sent to a node. A command that runs programs is an exec and nothing else. Looking
/// what a program is called, or what a node would make of a command, is part of asking for one, and open as far as the
/// same policy lets one get there. No gate looks at anything else that a node offers (its files, its policy, its
/// browser), so only an admin has it done.
pub(super) fn invoke_opens(command: &str) -> Opens {
    match command {
        "system.run" => Opens::AnyOf(&[Write]),
        "system.which" | "system.run.prepare" => Opens::AnyOf(&[Write, Admin]),
        _ => ADMIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_are_nobody_elses() {
        for method in Method::ALL {
            assert_eq!(Method::named(method.as_str()), Some(*method));
            assert!(!is_of_nodes(method.as_str()), "{method:?}");
        }
        assert_eq!(Method::named("bogus.method"), None);
        assert_eq!(Method::named("node.invoke.result"), None);
    }

    #[test]
    fn whoever_may_only_run_things_can_neither_answer_nor_change_anything() {
        let exec = BTreeSet::from([Write, Read]);
        let open: Vec<&str> = Method::ALL
            .iter()
            .filter(|method| method.opens().missing(&exec).is_none())
            .map(|method| method.as_str())
            .collect();
        assert_eq!(
            open,
            [
                "health",
                "status",
                "node.list",
                "node.describe",
                "node.invoke",
                "exec.approval.request",
                "exec.approval.waitDecision",
                "exec.approval.get",
                "exec.approval.list",
            ]
        );
        for command in ["system.run", "system.which", "system.run.prepare"] {
            assert_eq!(invoke_opens(command).missing(&exec), None, "{command}");
        }
        for command in [
            "system.execApprovals.set",
            "system.execApprovals.get",
            "file.write",
            "x",
            "",
        ] {
            assert_eq!(invoke_opens(command).missing(&exec), Some(Admin), "{command}");
        }
    }

    #[test]
    fn an_admin_runs_nothing() {
        let admin = BTreeSet::from([Admin, Pairing, Approvals, Read]);
        assert_eq!(invoke_opens("system.run").missing(&admin), Some(Write));
    }
}
