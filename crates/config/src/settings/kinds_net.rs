//! Kinds of values that name places on a network: addresses, URLs, host names, address ranges, databases.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use serde_json::Value;

use super::{
    kinds::{Kind, Mismatch},
    values::Places,
};

/// A text is not what it should be; the message says what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(&'static str);

/// Anything that reads from text.
fn from_text<T: FromStr<Err = InvalidText>>(value: &Value) -> Result<T, Mismatch> {
    value
        .as_str()
        .unwrap_or_default()
        .parse()
        .map_err(|InvalidText(expected)| Mismatch::expected(expected))
}

/// An address to listen on; `localhost` is 127.0.0.1.
pub(super) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn read(value: &Value, _places: &Places) -> Result<SocketAddr, Mismatch> {
        let text = value.as_str().unwrap_or_default();
        let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        local
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .or_else(|| text.parse().ok())
            .ok_or_else(|| Mismatch::expected("an address such as 127.0.0.1:18790 or [::1]:18790"))
    }
}

/// An `http` or `https` URL with a host and without user, query or fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    host: String,
    path_at: usize,
}

impl WebUrl {
    /// The URL without a slash at its end.
    pub fn as_str(&self) -> &str {
        self.text.trim_end_matches('/')
    }

    /// Its host in lower case; an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn has_path(&self) -> bool {
        self.text.len() > self.path_at
    }
}

impl FromStr for WebUrl {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let unexpected = InvalidText("a URL such as https://approvals.example.org");
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
            .ok_or(unexpected)?;
        let is_foreign = |c: char| {
            c.is_whitespace() || c.is_control() || matches!(c, '\\' | '?' | '#' | '@' | '"' | '<' | '>')
        };
        if rest.contains(is_foreign) {
            return Err(unexpected);
        }
        let authority = rest.split_once('/').map_or(rest, |(authority, _path)| authority);
        let host = host_of(authority).ok_or(unexpected)?;
        let path_at = text.len() - rest.len() + authority.len();
        Ok(Self {
            text: text.to_owned(),
            host,
            path_at,
        })
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn host_of(authority: &str) -> Option<String> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        (format!("[{}]", address.parse::<Ipv6Addr>().ok()?), port)
    } else {
        let host = authority.split(':').next()?;
        (host_name(host)?, authority.strip_prefix(host)?)
    };
    let is_port = |port: &str| {
        port.strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok())
    };
    (port.is_empty() || is_port(port)).then_some(host)
}

fn host_name(text: &str) -> Option<String> {
    let is_name = !text.is_empty()
        && text.len() <= 253
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    is_name.then(|| text.to_ascii_lowercase())
}

pub(super) struct Url;

impl Kind for Url {
    type Value = WebUrl;

    fn read(value: &Value, _places: &Places) -> Result<WebUrl, Mismatch> {
        from_text(value)
    }
}

/// An origin: a URL that is only scheme, host and port. Wildcards are none.
pub(super) struct Origin;

impl Kind for Origin {
    type Value = String;

    fn read(value: &Value, _places: &Places) -> Result<String, Mismatch> {
        let url: Option<WebUrl> = from_text(value).ok();
        url.filter(|url| !url.has_path())
            .map(|url| url.as_str().to_owned())
            .ok_or_else(|| Mismatch::expected("an origin such as https://example.org"))
    }
}

/// A host name or address without port. A wildcard would let any page of the web in, so there is none.
pub(super) struct HostName;

impl Kind for HostName {
    type Value = String;

    fn read(value: &Value, _places: &Places) -> Result<String, Mismatch> {
        let text = value.as_str().unwrap_or_default();
        let host = if text.starts_with('[') {
            host_of(text)
        } else {
            host_name(text)
        };
        host.filter(|_host| !text.ends_with(':'))
            .ok_or_else(|| Mismatch::expected("a host name without port, such as approvals.example.org"))
    }
}

/// A range of addresses, `10.0.0.0/8`; an address alone is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    address: IpAddr,
    prefix: u8,
}

impl IpRange {
    /// Whether it holds an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, ours, theirs) = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (32, u128::from(ours.to_bits()), u128::from(theirs.to_bits()))
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (128, ours.to_bits(), theirs.to_bits()),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        // A shift by all bits is none in Rust, so an empty prefix stands apart.
        let host_bits = bits - u32::from(self.prefix);
        (ours ^ theirs).checked_shr(host_bits).unwrap_or(0) == 0
    }
}

impl FromStr for IpRange {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let unexpected = InvalidText("an address range such as 10.0.0.0/8");
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_invalid| unexpected)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= bits)
                .ok_or(unexpected)?,
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

pub(super) struct Range;

impl Kind for Range {
    type Value = IpRange;

    fn read(value: &Value, _places: &Places) -> Result<IpRange, Mismatch> {
        from_text(value)
    }
}

/// Which database keeps the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A file, relative to `countersign/`.
    Sqlite(PathBuf),
    /// A `PostgreSQL` server. Its URL may hold a password and is not kept while nothing can use it.
    Postgres,
}

impl FromStr for DatabaseUrl {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let unexpected = InvalidText("sqlite:FILE or postgres://HOST/NAME");
        if text.contains(char::is_control) {
            return Err(unexpected);
        }
        if let Some(path) = text.strip_prefix("sqlite:") {
            // A ledger in memory would forget what was approved and started.
            let is_file = !path.trim().is_empty() && !path.contains('?') && path != ":memory:";
            return is_file
                .then(|| Self::Sqlite(PathBuf::from(path)))
                .ok_or(unexpected);
        }
        let server = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"));
        match server.map(|server| server.split('/').next().unwrap_or_default()) {
            Some(authority) if !authority.is_empty() && !authority.ends_with('@') => Ok(Self::Postgres),
            _ => Err(unexpected),
        }
    }
}

pub(super) struct DatabaseAddress;

impl Kind for DatabaseAddress {
    type Value = DatabaseUrl;

    fn read(value: &Value, _places: &Places) -> Result<DatabaseUrl, Mismatch> {
        from_text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_nothing_that_misleads() {
        let host = |text: &str| text.parse::<WebUrl>().ok().map(|url| url.host().to_owned());
        assert_eq!(host("https://A.example:8443/x/"), Some("a.example".to_owned()));
        assert_eq!(host("http://[::1]:80"), Some("[::1]".to_owned()));
        for bad in [
            "",
            "ftp://a",
            "https://",
            "https://u@a",
            "https://a:99999",
            "https://a?x",
            "https://a b",
            "a.example",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }

    #[test]
    fn ranges_hold_their_addresses_only() {
        let holds = |range: &str, address: &str| {
            range
                .parse::<IpRange>()
                .unwrap()
                .contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.1.2"));
        assert!(!holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
        assert!("10.0.0.0/33".parse::<IpRange>().is_err());
    }

    #[test]
    fn only_a_file_is_a_sqlite_database() {
        assert_eq!("sqlite:a.db".parse(), Ok(DatabaseUrl::Sqlite("a.db".into())));
        assert_eq!("postgres://u:p@db/x".parse(), Ok(DatabaseUrl::Postgres));
        for bad in [
            "",
            "a.db",
            "sqlite:",
            "sqlite::memory:",
            "sqlite:a?mode=ro",
            "postgres://",
            "mysql://a",
        ] {
            assert!(bad.parse::<DatabaseUrl>().is_err(), "{bad}");
        }
    }
}
