//! Where a request came from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::HeaderMap;

use countersign_config::settings::is_open_address;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection whose bytes travel as they are.
    Tcp(SocketAddr),
    /// A TCP connection inside TLS.
    Tls(SocketAddr),
    /// The API socket; the peer runs under our own account.
    Unix,
}

/// Where the API is found over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address that was bound.
    pub address: SocketAddr,
    /// How bytes travel there.
    pub transport: Transport,
}

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP without TLS: anyone on the way can read along.
    Plain,
    /// HTTP inside TLS.
    Tls,
}

impl Endpoint {
    /// Its URL, without a slash at the end.
    pub fn url(&self) -> String {
        let scheme = match self.transport {
            Transport::Plain => "http",
            Transport::Tls => "https",
        };
        format!("{scheme}://{}", self.address)
    }

    /// A URL that opens on this machine: where every address was bound, the loopback one.
    pub(crate) fn local_url(&self) -> String {
        let ip = match self.address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        Self {
            address: SocketAddr::new(ip, self.address.port()),
            ..*self
        }
        .url()
    }

    /// Whether other machines can reach it and anyone on the way can read along.
    pub fn is_open(&self) -> bool {
        self.transport == Transport::Plain && is_open_address(self.address)
    }
}

impl Peer {
    /// Whether nobody on the way can read along: what a cookie marked `Secure` and strict transport security
    /// depend on. The API socket leaves the machine for nobody, but no browser is there.
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The address that limits count by; an IPv4 address in IPv6 clothes is an IPv4 address. Everybody on the
    /// socket is one caller.
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip().to_canonical(),
            Self::Unix => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }
    }

    /// The address of the client behind trusted proxies: the last one in `X-Forwarded-For` that is not such a
    /// proxy itself. From anybody else the header is not believed.
    pub fn client(&self, headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
        let mut client = self.address();
        if matches!(self, Self::Unix) || !is_trusted(client) {
            return client;
        }
        let forwarded = headers.get_all("x-forwarded-for").into_iter().rev();
        let hops = forwarded.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
        for hop in hops {
            // What is left of something unreadable was written by nobody knows whom.
            let Some(address) = address_of(hop) else { break };
            client = address;
            if !is_trusted(client) {
                break;
            }
        }
        client
    }
}

/// The address in one element of `X-Forwarded-For`: with or without a port, IPv6 with or without brackets.
fn address_of(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    let bare = || {
        hop.strip_prefix('[')?
            .strip_suffix(']')?
            .parse()
            .ok()
            .map(IpAddr::V6)
    };
    let address = hop
        .parse()
        .ok()
        .or_else(bare)
        .or_else(|| hop.parse().ok().map(|address: SocketAddr| address.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use countersign_config::settings::IpRange;

    /// The client that a request from `peer` counts for when `10.0.0.0/8` and `2001:db8:a::/48` are proxies.
    #[track_caller]
    fn check(peer: Peer, forwarded: &[&[u8]], expect: &str) {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(line).unwrap());
        }
        let proxies: [IpRange; 2] = ["10.0.0.0/8", "2001:db8:a::/48"].map(|range| range.parse().unwrap());
        let is_trusted = |address| proxies.iter().any(|range| range.contains(address));
        assert_eq!(
            peer.client(&headers, is_trusted).to_string(),
            expect,
            "{forwarded:?}"
        );
    }

    fn tcp(address: &str) -> Peer {
        Peer::Tcp(address.parse().unwrap())
    }

    #[test]
    fn only_a_trusted_proxy_may_name_the_client() {
        let forwarded: &[&[u8]] = &[b"192.0.2.1, 203.0.113.9", b"10.0.0.2"];
        check(tcp("10.0.0.1:5"), forwarded, "203.0.113.9");
        check(Peer::Tls("10.0.0.1:5".parse().unwrap()), forwarded, "203.0.113.9");
        check(tcp("[::ffff:10.0.0.1]:5"), forwarded, "203.0.113.9");
        check(tcp("[2001:db8:a::9]:5"), forwarded, "203.0.113.9");
        check(tcp("198.51.100.4:5"), forwarded, "198.51.100.4");
        check(tcp("[2001:db8:b::9]:5"), forwarded, "2001:db8:b::9");
        check(tcp("[::ffff:198.51.100.4]:5"), forwarded, "198.51.100.4");
        check(Peer::Unix, forwarded, "0.0.0.0");
    }

    #[test]
    fn a_client_cannot_hide_behind_what_it_wrote_itself() {
        let proxy = || tcp("10.0.0.1:5");
        check(proxy(), &[], "10.0.0.1");
        check(proxy(), &[b"10.9.9.9, 203.0.113.9"], "203.0.113.9");
        // What cannot be read ends the search: everything before it may be invented.
        check(proxy(), &[b"192.0.2.1", b"\xff, unknown"], "10.0.0.1");
        check(proxy(), &[b"192.0.2.1", b"\xff, 203.0.113.9"], "203.0.113.9");
        check(proxy(), &[b"192.0.2.1", b"\xff"], "10.0.0.1");
        check(proxy(), &[b"192.0.2.1, "], "10.0.0.1");
        check(proxy(), &[b"192.0.2.1,, 10.0.0.3"], "10.0.0.3");
        check(proxy(), &[b"192.0.2.1, 203.0.113.300"], "10.0.0.1");
    }

    #[test]
    fn addresses_are_read_in_every_form_that_proxies_write() {
        let proxy = || tcp("10.0.0.1:5");
        check(proxy(), &[b"203.0.113.9:4711"], "203.0.113.9");
        check(proxy(), &[b"2001:db8::1"], "2001:db8::1");
        check(proxy(), &[b"[2001:db8::1]"], "2001:db8::1");
        check(proxy(), &[b"[2001:db8::1]:4711"], "2001:db8::1");
        check(proxy(), &[b"::ffff:203.0.113.9"], "203.0.113.9");
        check(proxy(), &[b"192.0.2.1, ::ffff:10.0.0.7"], "192.0.2.1");
    }

    #[test]
    fn plain_http_is_open_only_beyond_this_machine() {
        let is_open = |address: &str, transport| {
            let address = address.parse().unwrap();
            Endpoint { address, transport }.is_open()
        };
        for closed in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!is_open(closed, Transport::Plain), "{closed}");
        }
        for open in [
            "0.0.0.0:1",
            "[::]:1",
            "[::ffff:0.0.0.0]:1",
            "192.0.2.1:1",
            "[::127.0.0.1]:1",
        ] {
            assert!(
                is_open(open, Transport::Plain) && !is_open(open, Transport::Tls),
                "{open}"
            );
        }
    }
}
