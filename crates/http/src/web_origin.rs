//! From which web page a request comes, as the browser says in `Origin`.

use axum::http::{HeaderMap, header};

use crate::peer::Transport;

/// The origins that are ours or that the operator trusts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WebOrigins {
    public: Option<String>,
    listed: Vec<String>,
}

/// From which page a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// No browser says so: a program, or a browser that asks for the page itself.
    Unnamed,
    /// A page of this server.
    Ours,
    /// A page in `[http] cors_origins`.
    Listed,
    Foreign,
}

impl WebOrigins {
    /// The origin of `[http] public_url`, and those of `[http] cors_origins`.
    pub(crate) fn new<'a>(public_url: Option<&str>, listed: impl IntoIterator<Item = &'a String>) -> Self {
        Self {
            public: public_url.and_then(of_url),
            listed: listed.into_iter().filter_map(|origin| of_url(origin)).collect(),
        }
    }

    /// Whether any other origin is let in.
    pub(crate) const fn are_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// From which page a request comes. Ours has the scheme and the very host and port that the request went
    /// to: another port of the same host is another page. The `Host` header was checked before.
    ///
    /// A page that came without TLS can be anybody's on the way, so where browsers use TLS it is not ours, but for
    /// one of this very machine.
    pub(crate) fn site(&self, headers: &HeaderMap, connection: Transport) -> Site {
        let mut values = headers.get_all(header::ORIGIN).into_iter();
        let Some(first) = values.next() else {
            return Site::Unnamed;
        };
        let origin = match (first.to_str(), values.next()) {
            (Ok(text), None) => of_origin(text),
            (Err(_), _) | (Ok(_), Some(_)) => None,
        };
        let Some(origin) = origin else {
            return Site::Foreign;
        };
        let is_host = |host: &str| {
            let (scheme, _) = origin.split_once("://").unwrap_or_default();
            let is_safe = scheme == "https"
                || (connection == Transport::Plain && (!self.is_public_by_tls() || is_this_machine(host)));
            is_safe && normalised(scheme, host).is_some_and(|ours| ours == origin)
        };
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        if self.public.as_ref() == Some(&origin) || host.is_some_and(is_host) {
            Site::Ours
        } else if self.listed.contains(&origin) {
            Site::Listed
        } else {
            Site::Foreign
        }
    }

    fn is_public_by_tls(&self) -> bool {
        self.public
            .as_ref()
            .is_some_and(|origin| origin.starts_with("https://"))
    }
}

/// Whether a `Host` header names the machine itself, where nobody is on the way.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "[::1]")
}

/// The origin of a URL of the settings.
fn of_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    normalised(scheme, rest.split('/').next().unwrap_or_default())
}

/// An `Origin` header. `null` and anything with a path is none.
fn of_origin(text: &str) -> Option<String> {
    let (scheme, authority) = text.split_once("://")?;
    let is_bare =
        !authority.contains(|c: char| matches!(c, '/' | '?' | '#' | '@' | '\\') || c.is_whitespace());
    if is_bare {
        normalised(scheme, authority)
    } else {
        None
    }
}

/// Lower case, without the scheme's own port.
fn normalised(scheme: &str, authority: &str) -> Option<String> {
    let scheme = scheme.to_ascii_lowercase();
    let own_port = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = authority.to_ascii_lowercase();
    let authority = authority.strip_suffix(own_port).unwrap_or(&authority);
    (!authority.is_empty()).then(|| format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(host: &str, origins: &[&str]) -> Site {
        site_by(Transport::Plain, host, origins)
    }

    fn site_by(connection: Transport, host: &str, origins: &[&str]) -> Site {
        let listed = [
            "https://board.example".to_owned(),
            "http://localhost:3000".to_owned(),
        ];
        let origins_of_ours = WebOrigins::new(Some("https://gate.example:443/under/"), &listed);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        for origin in origins {
            headers.append(header::ORIGIN, origin.parse().unwrap());
        }
        origins_of_ours.site(&headers, connection)
    }

    #[test]
    fn the_page_of_the_very_host_and_port_is_ours() {
        for (host, origin) in [
            ("localhost:18790", "http://localhost:18790"),
            ("LOCALHOST:18790", "HTTP://localhost:18790"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("127.0.0.1:80", "http://127.0.0.1"),
            ("[::1]:18790", "http://[::1]:18790"),
            // A proxy in front speaks TLS.
            ("gate.example", "https://gate.example"),
            ("10.0.0.7:18790", "https://gate.example"),
        ] {
            assert_eq!(site(host, &[origin]), Site::Ours, "{host} {origin}");
        }
        assert_eq!(site("localhost:18790", &[]), Site::Unnamed);
    }

    #[test]
    fn a_page_without_tls_is_foreign_to_a_connection_with_it() {
        for host in ["gate.example", "localhost:18790", "127.0.0.1"] {
            let ours = format!("https://{host}");
            assert_eq!(site_by(Transport::Tls, host, &[&ours]), Site::Ours, "{host}");
            let plain = format!("http://{host}");
            assert_eq!(site_by(Transport::Tls, host, &[&plain]), Site::Foreign, "{host}");
        }
    }

    #[test]
    fn without_tls_anywhere_the_page_of_any_name_of_ours_is_ours() {
        let origins = WebOrigins::new(None, &[]);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "gate.example:18790".parse().unwrap());
        headers.insert(header::ORIGIN, "http://gate.example:18790".parse().unwrap());
        assert_eq!(origins.site(&headers, Transport::Plain), Site::Ours);
    }

    #[test]
    fn other_pages_are_listed_or_foreign() {
        let host = "localhost:18790";
        assert_eq!(site(host, &["https://board.example"]), Site::Listed);
        assert_eq!(site(host, &["http://localhost:3000"]), Site::Listed);
        for foreign in [
            "null",
            "",
            "http://localhost",
            "http://localhost:18791",
            "http://127.0.0.1:18790",
            "http://localhost:18790/",
            "http://localhost:18790@evil.example",
            "http://evil.example/http://localhost:18790",
            "http://board.example",
            "https://board.example.evil.example",
            "file://localhost:18790",
            "http://gate.example",
        ] {
            assert_eq!(site(host, &[foreign]), Site::Foreign, "{foreign:?}");
        }
        // Anybody on the way can be this page, and the browser sends our cookie with it.
        assert_eq!(site("gate.example", &["http://gate.example"]), Site::Foreign);
        let twice = ["http://localhost:18790", "http://localhost:18790"];
        assert_eq!(site(host, &twice), Site::Foreign);
    }
}
