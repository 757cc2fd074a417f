//! Nodes and how they become known: who may connect, and what they may be sent
//! (`docs/spec/bridge.md#5-authentication-and-pairing` and `docs/spec/bridge.md#13-ours`).
//!
//! A device proves its own key; whether that key belongs to a machine of ours is a person's to say, and so is every
//! command that it offers. Nothing here is ever approved by itself. Pure: the ledger stores these values, the Bridge asks
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use super::{UnixMillis, vocabulary};

/// How long a device's request waits for a person; afterwards the device asks anew.
pub const PAIRING_LASTS: Duration = Duration::from_mins(5);

/// How long a question of a device stands before the device may ask another one instead.
const REPLACED_AFTER: Duration = Duration::from_mins(1);

/// Longest name of a node, in characters.
const MAX_NAME: usize = 128;

vocabulary! {
    /// What is asked for.
    pub enum PairingKind("device or commands") {
        /// To connect as a node, with the commands that it declares.
        Device = "device",
        /// To be sent more commands than were approved.
        Commands = "commands",
    }
}

vocabulary! {
    /// What a person says.
    pub enum PairingDecision("approve or reject") {
        /// Yes.
        Approve = "approve",
        /// No.
        Reject = "reject",
    }
}

/// What a device says of itself when it connects. Nothing of it is proved.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeProfile {
    /// Its name for people.
    pub display_name: Option<String>,
    /// `linux` and so on.
    pub platform: String,
    /// `Linux` and so on; the first generation says nothing.
    pub device_family: Option<String>,
    /// `node-host`.
    pub client_id: String,
    /// `node`.
    pub client_mode: String,
    /// Its version.
    pub version: String,
    /// Its `PATH` variable, which operators are shown; nothing is looked up in it.
    pub path_env: Option<String>,
    /// Permissions of its platform.
    pub permissions: BTreeMap<String, bool>,
    /// What kinds of things it can do.
    pub caps: BTreeSet<String>,
    /// The commands that it serves.
    pub commands: BTreeSet<String>,
    /// Where it connects from.
    pub remote_ip: Option<IpAddr>,
}

/// What a person approved of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approved {
    /// Its name then: it is called so here, no matter what it calls itself later.
    pub display_name: Option<String>,
    /// Its platform then, compared without case: a device of another one must ask again.
    pub platform: String,
    /// Its family then. It is only compared where the device names one now.
    pub device_family: Option<String>,
    /// The kinds of things.
    pub caps: BTreeSet<String>,
    /// The commands that it may be sent. What it declares beyond them waits for a person.
    pub commands: BTreeSet<String>,
}

/// A device that a person let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedNode {
    /// SHA-256 of its raw public key, lower-case hex.
    pub node_id: String,
    /// Its public key, base64url.
    pub public_key: String,
    /// The name that an admin here gave it.
    pub label: Option<String>,
    /// What it said when it connected last.
    pub profile: NodeProfile,
    /// What a person approved last; what it declares at each connection is compared with it.
    pub approved: Approved,
    /// The request that a person approved last.
    pub request_id: String,
    /// What it speaks; `None` while it never connected.
    pub protocol: Option<i64>,
    /// When it was let in first.
    pub created_at: UnixMillis,
    /// When it was let in last.
    pub approved_at: UnixMillis,
    /// When its token was taken away, if it was: until a person lets it in again, nothing else does.
    pub revoked_at: Option<UnixMillis>,
    /// When it connected or disconnected last.
    pub last_seen_at: Option<UnixMillis>,
}

/// A question to a person about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingRequest {
    /// The id by which a person decides it.
    pub request_id: String,
    /// What is asked for.
    pub kind: PairingKind,
    /// SHA-256 of the device's raw public key, lower-case hex.
    pub node_id: String,
    /// Its public key, base64url.
    pub public_key: String,
    /// What it says of itself, and what is approved with it.
    pub profile: NodeProfile,
    /// Whether this device was let in before.
    pub is_repair: bool,
    /// When it was asked; a question about a device is open for [`PAIRING_LASTS`] from then.
    pub requested_at: UnixMillis,
}

/// Why a person must be asked before a device may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingNeed {
    /// Nobody let it in, or its token was taken away.
    NotPaired,
    /// It is not the kind of machine that was let in.
    MetadataChanged,
}

/// How a paired device stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingStatus {
    /// It may connect, and be sent what was approved.
    Admitted,
    /// The same; and it declares more than that.
    Wider,
    /// It may not connect.
    MustAsk(PairingNeed),
}

impl PairedNode {
    /// How it stands with what it says now.
    pub fn pairing_status(&self, now: &NodeProfile) -> PairingStatus {
        if self.revoked_at.is_some() {
            return PairingStatus::MustAsk(PairingNeed::NotPaired);
        }
        if self.approved.differs(now) {
            return PairingStatus::MustAsk(PairingNeed::MetadataChanged);
        }
        let Approved { caps, commands, .. } = &self.approved;
        if now.commands.is_subset(commands) && now.caps.is_subset(caps) {
            PairingStatus::Admitted
        } else {
            PairingStatus::Wider
        }
    }

    /// The same node once a person has approved a request of its.
    #[must_use]
    pub fn approve(self, request: &PairingRequest, now: UnixMillis) -> Self {
        let approved = Approved::of(&request.profile);
        match request.kind {
            PairingKind::Device => Self {
                profile: request.profile.clone(),
                approved,
                request_id: request.request_id.clone(),
                approved_at: now,
                revoked_at: None,
                ..self
            },
            PairingKind::Commands => Self {
                approved: Approved {
                    // More commands are asked for, not another name.
                    display_name: self.approved.display_name,
                    platform: self.approved.platform,
                    device_family: self.approved.device_family,
                    ..approved
                },
                request_id: request.request_id.clone(),
                approved_at: now,
                ..self
            },
        }
    }

    /// A node that was not known before; `None` for a request that only a known one makes.
    pub fn first(request: &PairingRequest, now: UnixMillis) -> Option<Self> {
        match request.kind {
            PairingKind::Commands => None,
            PairingKind::Device => Some(Self {
                node_id: request.node_id.clone(),
                public_key: request.public_key.clone(),
                label: None,
                profile: request.profile.clone(),
                approved: Approved::of(&request.profile),
                request_id: request.request_id.clone(),
                protocol: None,
                created_at: now,
                approved_at: now,
                revoked_at: None,
                last_seen_at: None,
            }),
        }
    }

    /// The commands that it declared last and that were approved.
    pub fn commands(&self) -> BTreeSet<String> {
        self.approved
            .commands
            .intersection(&self.profile.commands)
            .cloned()
            .collect()
    }

    /// Its name: the one given here, else the one that was approved. What it calls itself now names nobody: calls are sent by
    /// name, and it could take that of another node.
    pub fn display_name(&self) -> Option<&str> {
        self.label.as_deref().or(self.approved.display_name.as_deref())
    }

    /// What kind of machine it is, as it was approved: its family counts even when it leaves that out now.
    pub fn family(&self) -> Option<&str> {
        self.profile
            .device_family
            .as_deref()
            .or(self.approved.device_family.as_deref())
    }
}

impl Approved {
    fn of(profile: &NodeProfile) -> Self {
        Self {
            display_name: profile.display_name.clone(),
            platform: profile.platform.clone(),
            device_family: profile.device_family.clone(),
            caps: profile.caps.clone(),
            commands: profile.commands.clone(),
        }
    }

    /// Whether a device says that it is another kind of machine. The present generation leaves its family out when it
    /// speaks the older protocol.
    fn differs(&self, now: &NodeProfile) -> bool {
        let same = |a: &str, b: &str| a.trim().eq_ignore_ascii_case(b.trim());
        let family_differs = match (&self.device_family, &now.device_family) {
            (Some(approved), Some(now)) => !same(approved, now),
            (None, _) | (_, None) => false,
        };
        family_differs || !same(&self.platform, &now.platform)
    }
}

impl PairingRequest {
    /// Whether it can still be decided. A connected node's question about commands stays.
    pub fn is_open(&self, now: UnixMillis) -> bool {
        match self.kind {
            PairingKind::Device => self.requested_at + PAIRING_LASTS > now,
            PairingKind::Commands => true,
        }
    }

    /// Whether it asks the same as a device that comes now: then a person sees one question, not many. What an approval
    /// covers must be the same; from where and under which version it comes, say, may differ.
    pub fn asks_the_same(&self, profile: &NodeProfile) -> bool {
        Approved::of(&self.profile) == Approved::of(profile)
    }

    /// Whether a device that now asks something else may put another question in the place of this one. Each is a
    /// record for ever, and the device that asks has proved nothing yet.
    pub fn may_be_replaced(&self, now: UnixMillis) -> bool {
        !self.is_open(now) || self.requested_at + REPLACED_AFTER <= now
    }
}

/// A text is no name for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {MAX_NAME} characters, not blank, none of them a control character or unseen")]
pub struct InvalidNodeName;

/// A name that an admin here gives a node; white space around it is not part of it.
///
/// # Errors
/// [`InvalidNodeName`] when it is blank, long, or holds what cannot be seen.
pub fn node_name(text: &str) -> Result<String, InvalidNodeName> {
    let is_short = text.chars().count() <= MAX_NAME;
    let name = text.trim();
    if is_short && !name.is_empty() && !text.contains(is_unseen) {
        Ok(name.to_owned())
    } else {
        Err(InvalidNodeName)
    }
}

/// Control characters, and what takes no room or turns the text around.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(commands: &[&str]) -> NodeProfile {
        NodeProfile {
            platform: "linux".to_owned(),
            device_family: Some("Linux".to_owned()),
            commands: commands.iter().map(|name| (*name).to_owned()).collect(),
            ..NodeProfile::default()
        }
    }

    fn request(kind: PairingKind, commands: &[&str]) -> PairingRequest {
        PairingRequest {
            request_id: "r".to_owned(),
            kind,
            node_id: "n".to_owned(),
            public_key: "k".to_owned(),
            profile: profile(commands),
            is_repair: false,
            requested_at: UnixMillis::new(1000),
        }
    }

    fn paired(commands: &[&str]) -> PairedNode {
        PairedNode::first(&request(PairingKind::Device, commands), UnixMillis::new(2000)).unwrap()
    }

    #[test]
    fn what_was_shown_is_what_is_approved() {
        let node = paired(&["a", "b"]);
        assert_eq!(
            node.pairing_status(&profile(&["a", "b"])),
            PairingStatus::Admitted
        );
        assert_eq!(node.pairing_status(&profile(&["a"])), PairingStatus::Admitted);
        assert_eq!(node.pairing_status(&profile(&["a", "c"])), PairingStatus::Wider);
        let mut caps = profile(&["a"]);
        caps.caps.insert("browser".to_owned());
        assert_eq!(node.pairing_status(&caps), PairingStatus::Wider);
    }

    #[test]
    fn commands_that_were_not_approved_are_not_offered() {
        let mut node = paired(&["a", "b"]);
        node.profile = profile(&["b", "c"]);
        assert_eq!(node.commands(), BTreeSet::from(["b".to_owned()]));
        let wider = node.approve(&request(PairingKind::Commands, &["b", "c"]), UnixMillis::new(3));
        assert_eq!(wider.commands(), BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(wider.created_at, UnixMillis::new(2000));
    }

    #[test]
    fn another_kind_of_machine_must_be_let_in_again() {
        let node = paired(&["a"]);
        let ask = PairingStatus::MustAsk(PairingNeed::MetadataChanged);
        let with = |platform: &str, family: Option<&str>| NodeProfile {
            platform: platform.to_owned(),
            device_family: family.map(str::to_owned),
            ..profile(&["a"])
        };
        assert_eq!(node.pairing_status(&with("macos", Some("Linux"))), ask);
        assert_eq!(node.pairing_status(&with("linux", Some("Mac"))), ask);
        assert_eq!(
            node.pairing_status(&with("LINUX ", Some("linux"))),
            PairingStatus::Admitted
        );
        assert_eq!(node.pairing_status(&with("linux", None)), PairingStatus::Admitted);
        let approved = node.approve(
            &PairingRequest {
                profile: with("macos", Some("Mac")),
                ..request(PairingKind::Device, &["a"])
            },
            UnixMillis::new(1),
        );
        assert_eq!(
            approved.pairing_status(&with("macos", Some("Mac"))),
            PairingStatus::Admitted
        );
    }

    #[test]
    fn a_revoked_node_is_let_in_by_a_person_alone() {
        let mut node = paired(&["a"]);
        node.revoked_at = Some(UnixMillis::new(5));
        assert_eq!(
            node.pairing_status(&profile(&["a"])),
            PairingStatus::MustAsk(PairingNeed::NotPaired)
        );
        // More commands are a question of its own, which lets nobody in.
        let wider = node
            .clone()
            .approve(&request(PairingKind::Commands, &["a", "b"]), UnixMillis::new(6));
        assert!(wider.revoked_at.is_some());
        let again = node.approve(&request(PairingKind::Device, &["a"]), UnixMillis::new(6));
        assert_eq!(again.pairing_status(&profile(&["a"])), PairingStatus::Admitted);
    }

    #[test]
    fn a_request_of_a_device_ends_and_one_about_commands_does_not() {
        let device = request(PairingKind::Device, &["a"]);
        assert!(device.is_open(UnixMillis::new(300_999)));
        assert!(!device.is_open(UnixMillis::new(301_000)));
        assert!(request(PairingKind::Commands, &["a"]).is_open(UnixMillis::new(i64::MAX)));
        assert_eq!(
            PairedNode::first(&request(PairingKind::Commands, &["a"]), UnixMillis::new(1)),
            None
        );
    }

    #[test]
    fn the_same_question_is_asked_once() {
        let asked = request(PairingKind::Device, &["a"]);
        let moved = NodeProfile {
            remote_ip: Some(IpAddr::from([10, 0, 0, 1])),
            version: "2".to_owned(),
            path_env: Some("/bin".to_owned()),
            permissions: BTreeMap::from([("camera".to_owned(), true)]),
            ..profile(&["a"])
        };
        assert!(asked.asks_the_same(&moved));
        assert!(!asked.asks_the_same(&profile(&["a", "b"])));
        let called = NodeProfile {
            display_name: Some("other".to_owned()),
            ..profile(&["a"])
        };
        assert!(!asked.asks_the_same(&called));
    }

    #[test]
    fn a_question_stands_for_a_minute() {
        for kind in [PairingKind::Device, PairingKind::Commands] {
            let asked = request(kind, &["a"]);
            assert!(!asked.may_be_replaced(UnixMillis::new(60_999)));
            assert!(asked.may_be_replaced(UnixMillis::new(61_000)));
        }
    }

    #[test]
    fn a_node_is_called_as_it_was_approved_until_somebody_here_calls_it_otherwise() {
        let named = |name: &str, commands: &[&str]| NodeProfile {
            display_name: Some(name.to_owned()),
            ..profile(commands)
        };
        let asked = |kind, name: &str, commands: &[&str]| PairingRequest {
            profile: named(name, commands),
            ..request(kind, commands)
        };
        let mut node =
            PairedNode::first(&asked(PairingKind::Device, "mill", &["a"]), UnixMillis::new(1)).unwrap();
        node.profile = named("vault", &["a"]);
        assert_eq!(node.pairing_status(&node.profile), PairingStatus::Admitted);
        assert_eq!(node.display_name(), Some("mill"));
        let wider = node.clone().approve(
            &asked(PairingKind::Commands, "vault", &["a", "b"]),
            UnixMillis::new(2),
        );
        assert_eq!(wider.display_name(), Some("mill"));
        let again = node
            .clone()
            .approve(&asked(PairingKind::Device, "attic", &["a"]), UnixMillis::new(2));
        assert_eq!(again.display_name(), Some("attic"));
        node.label = Some("here".to_owned());
        assert_eq!(node.display_name(), Some("here"));
        // One that was approved without a name gets none by giving itself one.
        let mut nameless = paired(&["a"]);
        nameless.profile = named("mill", &["a"]);
        assert_eq!(nameless.display_name(), None);
    }

    #[test]
    fn names_are_seen_whole() {
        assert_eq!(node_name("  build box "), Ok("build box".to_owned()));
        for bad in ["", "  ", "a\nb", "a\u{202e}b", &"x".repeat(129)] {
            assert_eq!(node_name(bad), Err(InvalidNodeName), "{bad:?}");
        }
    }
}
