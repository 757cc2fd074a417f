//! What every HTML answer says to the browser about itself: no script and no style but ours, no framing, no
//! referrer, nothing shared with other origins. [`crate::service`] puts it on each of them.
//!
//! Not `tower_http::set_header`: one look at the media type decides about all of them, where layers would each look.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Scripts, styles, images and calls of this origin only; nothing inline, no plug-ins, no frames around it, no
/// forms (the page sends what it sends by fetch), and no text that becomes markup or script.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Powerful features that no page here needs.
const PERMISSIONS_POLICY: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), \
    magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), screen-wake-lock=(), \
    serial=(), usb=(), xr-spatial-tracking=()";

/// Puts the security headers of a page on an answer.
pub(crate) fn protect_page(headers: &mut HeaderMap) {
    let text = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS_POLICY),
    ];
    for (name, value) in text {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_runs_nothing_inline_and_nothing_of_others() {
        let mut headers = HeaderMap::new();
        protect_page(&mut headers);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        for forbidden in ["unsafe", "*", "data:", "blob:", "http"] {
            assert!(!policy.contains(forbidden), "{forbidden} in {policy}");
        }
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
        assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
    }
}
