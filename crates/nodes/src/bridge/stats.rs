//! What the Bridge counts of its own work, for metrics. Labels are words of closed vocabularies.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use countersign_hosts::node::{InvokeFailure, InvokeResult};
use countersign_protocol::bridge::{Refusal, Role};

type ByOne<const N: usize> = Family<[(&'static str, &'static str); N], Counter<u64, AtomicU64>>;

/// The figures of the Bridge; cheap to clone, always of the same Bridge.
#[derive(Debug, Clone, Default)]
pub struct BridgeStats {
    /// Connections that are open, by role.
    pub connected: Family<[(&'static str, &'static str); 1], Gauge<u64, AtomicU64>>,
    /// Calls of nodes, by how they ended.
    pub invokes: ByOne<1>,
    /// Connections that were refused, by why.
    pub refused: ByOne<1>,
}

impl BridgeStats {
    pub(super) fn entered(&self, role: Role) {
        self.connected.get_or_create(&[("role", role.as_str())]).inc();
    }

    pub(super) fn left(&self, role: Role) {
        self.connected.get_or_create(&[("role", role.as_str())]).dec();
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        self.refused.get_or_create(&[("reason", refusal.label())]).inc();
    }

    pub(super) fn invoked(&self, outcome: &Result<InvokeResult, InvokeFailure>) {
        let word = match outcome {
            Ok(InvokeResult { outcome: Ok(_) }) => "ok",
            Ok(InvokeResult { outcome: Err(_) }) => "node-error",
            Err(InvokeFailure::NotConnected) => "not-connected",
            Err(InvokeFailure::NotAllowed { .. }) => "not-allowed",
            Err(InvokeFailure::Full) => "full",
            Err(InvokeFailure::TooLarge(_)) => "too-large",
            Err(InvokeFailure::Disconnected) => "disconnected",
            Err(InvokeFailure::TimedOut) => "timed-out",
        };
        self.invokes.get_or_create(&[("outcome", word)]).inc();
    }
}
