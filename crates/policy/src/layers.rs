//! Layers of policy: who said what, and which of it counts (`docs/spec/exec-tool.md#2-where-it-runs` and
//! `docs/spec/exec-tool.md#3-whether-it-runs`, `docs/spec/approvals-store.md#6-resolving-a-policy`).

use countersign_domain::vocabulary;

vocabulary! {
    /// Where a value came from, as `GET /v1/policy/effective` names it.
    pub enum Layer("a policy layer") {
        /// Built in.
        Default = "default",
        /// `tools.exec.*` of `openclaw.json`.
        Global = "global",
        /// An agent's own `tools.exec.*`.
        Agent = "agent",
        /// A session override.
        Session = "session",
        /// The call itself.
        Call = "call",
        /// `defaults` of the approvals document.
        DocumentDefaults = "document-defaults",
        /// Agent `*` of the approvals document.
        DocumentWildcard = "document-wildcard",
        /// The agent's own entry in the approvals document.
        DocumentAgent = "document-agent",
        /// Made stricter, because another value is.
        Clamp = "clamp",
    }
}

/// One value that one layer said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken<T> {
    /// Which layer said it.
    pub layer: Layer,
    /// The key or pointer that set it (`tools.exec.ask`, `exec-approvals.json#/agents/main/ask`, `default`).
    pub source: String,
    /// As it was said, before layers are combined.
    pub value: T,
}

impl<T> Spoken<T> {
    /// A value with its layer and source.
    pub fn new(layer: Layer, source: impl Into<String>, value: T) -> Self {
        Self {
            layer,
            source: source.into(),
            value,
        }
    }
}

/// A value after combining, with everybody who spoke, strongest last. A layer may be less definite than the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<T, S = T> {
    /// The value in effect.
    pub value: T,
    /// The source that set it.
    pub source: String,
    /// All that spoke, strongest last.
    pub layers: Vec<Spoken<S>>,
}

impl<T: Copy> Resolved<T> {
    /// The last that spoke counts; the default when nobody did.
    pub(super) fn last_of(spoken: &[Spoken<T>], default: Spoken<T>) -> Self {
        let layers = if spoken.is_empty() {
            vec![default.clone()]
        } else {
            spoken.to_vec()
        };
        let strongest = layers.last().cloned().unwrap_or(default);
        Self {
            value: strongest.value,
            source: strongest.source,
            layers,
        }
    }

    /// One more layer, which counts.
    pub(crate) fn put_on_top(&mut self, said: Spoken<T>) {
        self.value = said.value;
        self.source.clone_from(&said.source);
        self.layers.push(said);
    }

    /// Keeps the value that is in effect, and notes that another layer wanted a different one.
    pub(super) fn put_below(&mut self, said: Spoken<T>) {
        let top = self.layers.len().saturating_sub(1);
        self.layers.insert(top, said);
    }
}
