//! The cookie of a signed-in browser.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};

use countersign_ledger::auth::SignInSecret;

use crate::peer::Transport;

const NAME: &str = "countersign_session";

/// What a request says by the sign-in cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presented<'a> {
    /// There is no such cookie.
    Nothing,
    One(&'a str),
    /// There are several of this name: a server on another port of this host can add one. None counts then.
    Several,
}

/// Finds the sign-in cookie.
pub(crate) fn presented(headers: &HeaderMap) -> Presented<'_> {
    let pairs = headers
        .get_all(header::COOKIE)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut ours = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == NAME).then(|| value.trim())
    });
    match (ours.next(), ours.next()) {
        (None, _) => Presented::Nothing,
        (Some(value), None) => Presented::One(value),
        (Some(_), Some(_)) => Presented::Several,
    }
}

/// Hands the cookie to the browser.
pub(crate) fn set(secret: &SignInSecret, lasts: Duration, transport: Transport) -> Option<HeaderValue> {
    let text = format!(
        "{NAME}={}; {}; Max-Age={}",
        secret.expose(),
        attributes(transport),
        lasts.as_secs()
    );
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Takes the cookie from the browser.
pub(crate) fn clear(transport: Transport) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{NAME}=; {}; Max-Age=0", attributes(transport))).ok()
}

const fn attributes(transport: Transport) -> &'static str {
    match transport {
        Transport::Plain => "Path=/; HttpOnly; SameSite=Strict",
        // A browser that got it inside TLS never sends it outside.
        Transport::Tls => "Path=/; HttpOnly; SameSite=Strict; Secure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_ledger::auth::SignInSecretKind;
    use countersign_sys::clock::SystemIds;

    fn check(values: &[&str], expected: Presented<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::COOKIE, value.parse().unwrap());
        }
        assert_eq!(presented(&headers), expected, "{values:?}");
    }

    #[test]
    fn a_single_cookie_of_ours_is_found_among_others() {
        let found = Presented::One("css_x");
        check(&["countersign_session=css_x"], found);
        check(&["a=1; countersign_session=css_x ;b=2"], found);
        check(&["a=1", "countersign_session=css_x"], found);
        check(&[], Presented::Nothing);
        check(&["a=1; xcountersign_session=css_x"], Presented::Nothing);
        check(&["countersign_session"], Presented::Nothing);
        check(&["Countersign_Session=css_x"], Presented::Nothing);
    }

    #[test]
    fn of_several_none_counts() {
        check(
            &["countersign_session=css_x; countersign_session=css_y"],
            Presented::Several,
        );
        check(
            &["countersign_session=css_x", "countersign_session=css_x"],
            Presented::Several,
        );
    }

    #[test]
    fn scripts_other_sites_and_plain_connections_do_not_get_it() {
        let secret = SignInSecret::generate(SignInSecretKind::Cookie, &SystemIds);
        let hour = Duration::from_hours(1);
        let plain = set(&secret, hour, Transport::Plain).unwrap();
        assert_eq!(
            plain.to_str().unwrap(),
            format!(
                "countersign_session={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=3600",
                secret.expose()
            )
        );
        assert!(plain.is_sensitive());
        let secure = set(&secret, hour, Transport::Tls).unwrap();
        assert!(secure.to_str().unwrap().contains("; Secure"));
        assert_eq!(
            clear(Transport::Plain).unwrap(),
            "countersign_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        );
    }
}
