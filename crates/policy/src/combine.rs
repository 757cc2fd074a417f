//! Combining what the configuration, the session, the call and the approvals document say
//! (`docs/spec/exec-tool.md#3-whether-it-runs`, `docs/spec/approvals-store.md#6-resolving-a-policy`).
//!
//! Among configured layers the last that spoke counts. A call may only tighten what they give, and between them
//! and the document the stricter counts.

use countersign_domain::{Ask, Security};

use super::layers::{Layer, Resolved, Spoken};

/// What the approvals document of the executing host says for one agent: per value the layers that spoke, the
/// last of which counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPolicy {
    /// Its `security`, weakest layer first; empty where it says none.
    pub security: Vec<Spoken<Security>>,
    /// Its `ask`, weakest layer first; empty where it says none.
    pub ask: Vec<Spoken<Ask>>,
    /// Its `askFallback`, weakest layer first; empty where it says none, which is `deny`.
    pub ask_fallback: Vec<Spoken<Security>>,
    /// Its `autoAllowSkills`, weakest layer first; empty where it says none, which is `false`.
    pub auto_allow_skills: Vec<Spoken<bool>>,
    /// Whether the values stand in for a document that is refused.
    pub refused: bool,
}

impl DocumentPolicy {
    /// How sources name the document, wherever it lies.
    pub const FILE: &'static str = "exec-approvals.json";

    /// A document that says nothing, or none at all.
    pub const fn silent() -> Self {
        Self {
            security: Vec::new(),
            ask: Vec::new(),
            ask_fallback: Vec::new(),
            auto_allow_skills: Vec::new(),
            refused: false,
        }
    }

    /// A document that cannot be trusted: nothing runs.
    pub fn refused() -> Self {
        fn all<T>(value: T) -> Vec<Spoken<T>> {
            vec![Spoken::new(Layer::DocumentDefaults, DocumentPolicy::FILE, value)]
        }
        Self {
            security: all(Security::Deny),
            ask: all(Ask::Off),
            ask_fallback: all(Security::Deny),
            auto_allow_skills: all(false),
            refused: true,
        }
    }
}

/// Everybody who may speak about whether a command runs.
#[derive(Debug, Clone, Copy)]
pub struct PolicyLayers<'a> {
    /// Configured security: default, global, agent.
    pub security: &'a [Spoken<Security>],
    /// Configured ask: default, global, agent.
    pub ask: &'a [Spoken<Ask>],
    /// The session override; it replaces what is configured.
    pub session: Wanted,
    /// What a call gets that is granted elevation; on top of the session.
    pub elevated: Wanted,
    /// The call's parameters; they only tighten.
    pub call: Wanted,
    /// The approvals document of the executing host.
    pub document: &'a DocumentPolicy,
}

/// What is wanted besides the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    /// By the session override, which replaces what is configured.
    pub session: Wanted,
    /// By a call that is granted elevation.
    pub elevated: Wanted,
    /// By the call, which only tightens.
    pub call: Wanted,
}

impl From<Wanted> for Wishes {
    /// Those of a call alone.
    fn from(call: Wanted) -> Self {
        Self {
            call,
            ..Self::default()
        }
    }
}

/// What a session or a call wants, where it says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The security that it wants; `None` if it wants none.
    pub security: Option<Security>,
    /// The ask that it wants; `None` if it wants none.
    pub ask: Option<Ask>,
}

/// The policy that counts for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The stricter of configuration and document.
    pub security: Resolved<Security>,
    /// The more insistent of both.
    pub ask: Resolved<Ask>,
    /// The document's, never looser than `security`.
    pub ask_fallback: Resolved<Security>,
    /// The document's; `false` where it says nothing.
    pub auto_allow_skills: Resolved<bool>,
    /// Whether security is `deny` for no other reason than a refused document.
    pub document_refused: bool,
}

impl Effective {
    /// The effective policy in a sandbox, where no approvals apply.
    pub fn without_approvals() -> Self {
        fn all<T: Copy>(value: T) -> Resolved<T> {
            Resolved::last_of(&[], Spoken::new(Layer::Default, "sandbox", value))
        }
        Self {
            security: all(Security::Full),
            ask: all(Ask::Off),
            ask_fallback: all(Security::Full),
            auto_allow_skills: all(false),
            document_refused: false,
        }
    }

    /// The stricter of both, value by value, with where it comes from.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let Self {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
            document_refused,
        } = other;
        Self {
            security: pick(self.security, security, |one, other| other < one),
            ask: pick(self.ask, ask, |one, other| other > one),
            ask_fallback: pick(self.ask_fallback, ask_fallback, |one, other| other < one),
            auto_allow_skills: pick(self.auto_allow_skills, auto_allow_skills, |one, other| {
                one && !other
            }),
            document_refused: self.document_refused || document_refused,
        }
    }
}

/// The first unless the other is stricter.
fn pick<T: Copy>(one: Resolved<T>, other: Resolved<T>, is_stricter: impl Fn(T, T) -> bool) -> Resolved<T> {
    if is_stricter(one.value, other.value) {
        other
    } else {
        one
    }
}

/// The effective policy of all layers: what the document says only makes it stricter.
pub fn combine(layers: PolicyLayers<'_>) -> Effective {
    let PolicyLayers {
        security,
        ask,
        session,
        elevated,
        call,
        document,
    } = layers;
    let requested = requested(
        security,
        Spoken::new(Layer::Default, "default", Security::Deny),
        [session.security, elevated.security],
        call.security,
        |new, old| new < old,
    );
    let document_refused = document.refused && requested.value != Security::Deny;
    let security = stricter(requested, &document.security, |new, old| new < old);
    let ask = stricter(
        self::requested(
            ask,
            Spoken::new(Layer::Default, "default", Ask::OnMiss),
            [session.ask, elevated.ask],
            call.ask,
            |new, old| new > old,
        ),
        &document.ask,
        |new, old| new > old,
    );
    let ask_fallback = Resolved::last_of(
        &document.ask_fallback,
        Spoken::new(Layer::Default, "default", Security::Deny),
    );
    Effective {
        ask_fallback: clamp(ask_fallback, &security),
        auto_allow_skills: Resolved::last_of(
            &document.auto_allow_skills,
            Spoken::new(Layer::Default, "default", false),
        ),
        security,
        ask,
        document_refused,
    }
}

/// What is asked for without the document: the last configured layer, the session over it, elevation over that, the
/// call only where it tightens.
fn requested<T: Copy + Ord>(
    configured: &[Spoken<T>],
    default: Spoken<T>,
    [session, elevated]: [Option<T>; 2],
    call: Option<T>,
    tightens: impl Fn(T, T) -> bool,
) -> Resolved<T> {
    let mut resolved = Resolved::last_of(configured, default);
    if let Some(value) = session {
        resolved.put_on_top(Spoken::new(Layer::Session, "session", value));
    }
    if let Some(value) = elevated {
        resolved.put_on_top(Spoken::new(Layer::Call, "elevated", value));
    }
    if let Some(value) = call {
        let said = Spoken::new(Layer::Call, "call", value);
        if tightens(value, resolved.value) {
            resolved.put_on_top(said);
        } else {
            resolved.put_below(said);
        }
    }
    resolved
}

/// The stricter of both; the configuration where they agree.
fn stricter<T: Copy>(
    requested: Resolved<T>,
    document: &[Spoken<T>],
    tightens: impl Fn(T, T) -> bool,
) -> Resolved<T> {
    let Some(strongest) = document.last() else {
        return requested;
    };
    let mut layers = requested.layers;
    if tightens(strongest.value, requested.value) {
        layers.extend_from_slice(document);
        return Resolved {
            value: strongest.value,
            source: strongest.source.clone(),
            layers,
        };
    }
    layers.splice(0..0, document.iter().cloned());
    Resolved { layers, ..requested }
}

fn clamp(mut fallback: Resolved<Security>, security: &Resolved<Security>) -> Resolved<Security> {
    if fallback.value > security.value {
        fallback.put_on_top(Spoken::new(Layer::Clamp, security.source.clone(), security.value));
    }
    fallback
}
