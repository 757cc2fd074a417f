//! Connections that are there now.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

/// Which listener a connection came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// TCP, inside TLS or not.
    Tcp,
    Socket,
    /// The one for metrics.
    Metrics,
}

/// The count of connections; cheap to clone, always the same count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections {
    pub(super) open: Family<[(&'static str, &'static str); 1], Gauge>,
    pub(super) failed_handshakes: Counter,
}

/// Counts a connection for as long as it lives.
#[derive(Debug)]
pub(crate) struct Here(Gauge);

impl Connections {
    /// Counts a connection that took its place.
    pub(crate) fn enter(&self, listener: Listener) -> Here {
        let name = match listener {
            Listener::Tcp => "tcp",
            Listener::Socket => "unix",
            Listener::Metrics => "metrics",
        };
        let gauge = self.open.get_or_create_owned(&[("listener", name)]);
        gauge.inc();
        Here(gauge)
    }

    /// Counts a connection that never became one.
    pub(crate) fn handshake_failed(&self) {
        self.failed_handshakes.inc();
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.dec();
    }
}
