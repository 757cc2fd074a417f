//! The check of the `Host` header: a browser that was lured here by a foreign name (DNS rebinding) says so.

use axum::http::{HeaderMap, Uri, header, uri::Authority};

/// The names this server answers to; ports are not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostNames(Vec<String>);

/// The request names no host, or another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignHost {
    /// No `Host` header, several, or one that is none.
    Malformed,
    /// A name that is not ours.
    Unknown,
}

impl HostNames {
    /// Loopback names, and those given: bare names or addresses, IPv6 with or without brackets.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = ["localhost", "127.0.0.1", "[::1]"].into_iter().chain(names);
        Self(known.filter_map(normalise).collect())
    }

    /// Checks a request that came over TCP.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ForeignHost> {
        let host = host_header(headers)?;
        // A request in absolute form names the host twice; both must be ours.
        let target = uri.authority().map(Authority::as_str);
        for name in std::iter::once(host).chain(target) {
            let name = name_of(name).ok_or(ForeignHost::Malformed)?;
            if !self.0.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(ForeignHost::Unknown);
            }
        }
        Ok(())
    }
}

/// Checks a request on the API socket, which no browser can reach: any host, but exactly one.
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), ForeignHost> {
    let host = host_header(headers)?;
    name_of(host).map(|_name| ()).ok_or(ForeignHost::Malformed)
}

fn host_header(headers: &HeaderMap) -> Result<&str, ForeignHost> {
    let mut values = headers.get_all(header::HOST).into_iter();
    match (values.next(), values.next()) {
        (Some(host), None) => host.to_str().map_err(|_not_ascii| ForeignHost::Malformed),
        _ => Err(ForeignHost::Malformed),
    }
}

/// The name of `name`, `name:port`, `[v6]` or `[v6]:port`.
fn name_of(authority: &str) -> Option<&str> {
    let (name, port) = if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        authority.split_at_checked(end)?
    } else {
        match authority.find(':') {
            Some(colon) => authority.split_at_checked(colon)?,
            None => (authority, ""),
        }
    };
    let port_is_fine = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    (port_is_fine && !name.is_empty()).then_some(name)
}

fn normalise(name: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    match name.parse::<std::net::Ipv6Addr>() {
        Ok(v6) => Some(format!("[{v6}]")),
        Err(_not_v6) => (!name.is_empty()).then_some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &[&str], uri: &str) -> Result<(), ForeignHost> {
        let names = HostNames::new(["gate.example", "2001:db8::1", "192.0.2.4"]);
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        names.check(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn loopback_and_configured_names_pass_with_any_port() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:18790",
            "[::1]",
            "[::1]:9",
            "gate.example:443",
            "[2001:db8::1]:80",
            "192.0.2.4",
        ] {
            assert_eq!(check(&[host], "/v1/exec"), Ok(()), "{host}");
        }
    }

    #[test]
    fn foreign_and_malformed_hosts_do_not() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost.",
            "192.0.2.5",
        ] {
            assert_eq!(check(&[host], "/"), Err(ForeignHost::Unknown), "{host}");
        }
        for host in [
            "",
            ":80",
            "localhost:",
            "localhost:x",
            "localhost:80:80",
            "[::1",
            "[::1]x",
        ] {
            let expected = if host == "localhost:" {
                Ok(())
            } else {
                Err(ForeignHost::Malformed)
            };
            assert_eq!(check(&[host], "/"), expected, "{host:?}");
        }
        assert_eq!(check(&[], "/"), Err(ForeignHost::Malformed));
        assert_eq!(
            check(&["localhost", "localhost"], "/"),
            Err(ForeignHost::Malformed)
        );
    }

    #[test]
    fn an_absolute_request_target_must_name_us_too() {
        assert_eq!(check(&["localhost"], "http://localhost:1/v1/exec"), Ok(()));
        assert_eq!(
            check(&["localhost"], "http://evil.example/v1/exec"),
            Err(ForeignHost::Unknown)
        );
    }
}
