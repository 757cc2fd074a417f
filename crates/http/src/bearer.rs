//! The bearer token that a request shows. It must never be taken from anywhere but the one `Authorization` header.

use axum::http::{HeaderMap, header};

/// The bearer token of a request; `None` without an `Authorization` header. Anything that is no single bearer
/// token counts as a wrong one.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let (value, more) = (values.next()?, values.next());
    let token = value.to_str().ok().filter(|_| more.is_none()).and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim_start())
    });
    Some(token.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented_in(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        presented(&headers).map(str::to_owned)
    }

    #[test]
    fn only_one_bearer_token_is_taken_and_anything_else_is_wrong() {
        assert_eq!(presented_in(&[]), None);
        assert_eq!(presented_in(&["Bearer cst_x"]), Some("cst_x".to_owned()));
        assert_eq!(presented_in(&["bearer  cst_x"]), Some("cst_x".to_owned()));
        for wrong in [&["Basic cst_x"][..], &["cst_x"], &["Bearer a", "Bearer b"], &[""]] {
            assert_eq!(presented_in(wrong), Some(String::new()), "{wrong:?}");
        }
    }
}
