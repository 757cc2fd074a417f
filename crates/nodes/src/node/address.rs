//! Where the gateway is, and whether it may be spoken to without TLS.

use std::{fmt, net::IpAddr};

use countersign_config::tls::Fingerprint;

/// The longest host name that DNS knows.
const MAX_HOST: usize = 253;

/// Where a gateway is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAddress {
    host: String,
    port: u16,
    tls: Option<Trust>,
}

/// What is trusted of a gateway that is spoken to over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// What the machine's authorities vouch for.
    Authorities,
    /// Only the certificate with this SHA-256; no authority is asked.
    Pinned(Fingerprint),
}

/// A gateway that cannot be meant, or must not be spoken to like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No host name or address.
    #[error("not a host name or an address: {host:?}")]
    Host {
        /// What was given, trimmed, and cut to 253 characters.
        host: String,
    },
    /// The port is 0.
    #[error("port 0 names no gateway")]
    Port,
    /// Anybody on the way could read the tokens and change the commands.
    #[error(
        "{host} is not on this machine or in a private network, and without TLS anybody on the way reads along"
    )]
    Plaintext {
        /// The host as [`bare_host`] gives it.
        host: String,
    },
}

/// Whether a gateway in a public network may be spoken to without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plaintext {
    /// Only on this machine and in private networks.
    PrivateOnly,
    /// Everywhere: the operator said so.
    Everywhere,
}

impl GatewayAddress {
    /// An address that may be spoken to.
    ///
    /// # Errors
    /// [`AddressError`] says what is wrong with it.
    pub fn new(
        host: &str,
        port: u16,
        tls: Option<Trust>,
        plaintext: Plaintext,
    ) -> Result<Self, AddressError> {
        let host = host.trim();
        let bare = bare_host(host);
        let is_address = bare.parse::<IpAddr>().is_ok();
        let is_name = |text: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            !text.is_empty()
                && text.len() <= MAX_HOST
                && !text.starts_with('-')
                && text.bytes().all(is_letter)
        };
        if !is_address && !is_name(host) {
            return Err(AddressError::Host {
                host: host.chars().take(MAX_HOST).collect(),
            });
        }
        if port == 0 {
            return Err(AddressError::Port);
        }
        if tls.is_none() && plaintext == Plaintext::PrivateOnly && !is_private(bare) {
            return Err(AddressError::Plaintext {
                host: bare.to_owned(),
            });
        }
        Ok(Self {
            host: bare.to_owned(),
            port,
            tls,
        })
    }

    /// The host, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port, never 0.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What is trusted, where it is spoken to over TLS.
    pub const fn tls(&self) -> Option<Trust> {
        self.tls
    }

    /// The fingerprint that is pinned.
    pub const fn fingerprint(&self) -> Option<Fingerprint> {
        match self.tls {
            Some(Trust::Pinned(fingerprint)) => Some(fingerprint),
            Some(Trust::Authorities) | None => None,
        }
    }
}

/// A host as [`GatewayAddress::host`] has it: without white space around it, an IPv6 address without brackets.
pub fn bare_host(host: &str) -> &str {
    let host = host.trim();
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}

impl fmt::Display for GatewayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// This machine, private networks, and the names that mean them (`docs/spec/bridge.md#2-transport-and-limits`).
#[expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "names of hosts, in lower case"
)]
fn is_private(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
            None => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
        },
        Err(_name) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost"
                || name.ends_with(".localhost")
                || name.ends_with(".local")
                || name.ends_with(".ts.net")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, expect: Result<&str, &str>) {
        let address = GatewayAddress::new(host, 18790, None, Plaintext::PrivateOnly);
        let found = address
            .map(|address| address.to_string())
            .map_err(|error| match error {
                AddressError::Host { .. } => "host",
                AddressError::Port => "port",
                AddressError::Plaintext { .. } => "plaintext",
            });
        assert_eq!(found.as_deref().map_err(|word| *word), expect, "{host:?}");
    }

    #[test]
    fn plaintext_stays_in_private_networks() {
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.9",
            "172.16.0.1",
            "169.254.1.1",
            "localhost",
            "pi.local",
        ] {
            check(host, Ok(&format!("ws://{host}:18790")));
        }
        check("box.tail.ts.net", Ok("ws://box.tail.ts.net:18790"));
        check("::1", Ok("ws://[::1]:18790"));
        check("[fd00::1]", Ok("ws://[fd00::1]:18790"));
        check("[::ffff:10.0.0.1]", Ok("ws://[::ffff:10.0.0.1]:18790"));
        for host in [
            "8.8.8.8",
            "172.32.0.1",
            "example.com",
            "local",
            "ts.net",
            "evil-local",
            "localhost.example.com",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "0.0.0.0",
        ] {
            check(host, Err("plaintext"));
        }
        let everywhere = GatewayAddress::new("example.com", 1, None, Plaintext::Everywhere).unwrap();
        assert_eq!(everywhere.to_string(), "ws://example.com:1");
        let tls = GatewayAddress::new("example.com", 1, Some(Trust::Authorities), Plaintext::PrivateOnly);
        assert_eq!(tls.unwrap().to_string(), "wss://example.com:1");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for host in [
            "",
            " ",
            "a b",
            "ws://localhost",
            "localhost:1",
            "localhost/x",
            "user@localhost",
            "localhost\r\nHost: x",
            "[::1",
            "-x",
            &"a".repeat(254),
        ] {
            check(host, Err("host"));
        }
        assert_eq!(
            GatewayAddress::new("localhost", 0, None, Plaintext::PrivateOnly),
            Err(AddressError::Port)
        );
    }
}
