//! Where a request came from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::HeaderMap;

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
    /// As they are.
    Plain,
    /// Inside TLS.
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
    pub fn local_url(&self) -> String {
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

    /// Whether other machines can reach it and whoever is on the way can read along.
    pub fn is_open(&self) -> bool {
        self.transport == Transport::Plain && !self.address.ip().to_canonical().is_loopback()
    }
}

impl Peer {
    /// Whether nobody on the way can read along: what a cookie marked `Secure` and strict transport security
    /// depend on. The API socket leaves the machine for nobody, but no browser is there.
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The address that limits count by. Everybody on the socket is one caller.
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip(),
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
        let hops = forwarded
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.rsplit(','));
        for hop in hops {
            let Ok(address) = hop.trim().parse() else { break };
            client = address;
            if !is_trusted(client) {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trusted_proxy_may_name_the_client() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "192.0.2.1, 203.0.113.9".parse().unwrap());
        headers.append("x-forwarded-for", "10.0.0.2".parse().unwrap());
        let proxy = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10);
        let client = |peer: Peer| peer.client(&headers, proxy).to_string();
        assert_eq!(client(Peer::Tcp("10.0.0.1:5".parse().unwrap())), "203.0.113.9");
        assert_eq!(
            client(Peer::Tcp("198.51.100.4:5".parse().unwrap())),
            "198.51.100.4"
        );
        assert_eq!(client(Peer::Unix), "0.0.0.0");
    }
}
