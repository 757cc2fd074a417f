//! The files of the approvals page, embedded in the program (`web/dist`, built from `web/`).
//!
//! Their addresses are fixed and their `ETag` is the hash of their content, so a browser asks each time and is
//! answered 304 until the program changes. They go out compressed where the browser takes that. Entry points: [`asset`]
//! and [`Html`].

use std::{
    borrow::Cow,
    collections::HashMap,
    io::Write as _,
    sync::{LazyLock, Mutex, PoisonError},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use flate2::{Compression, write::GzEncoder};
use rust_embed::{EmbeddedFile, RustEmbed};

use countersign_domain::hex;

use crate::{page_headers::protect_page, problem::Problem};

#[derive(RustEmbed)]
#[folder = "../../web/dist/"]
struct Web;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Html {
    Approvals,
    Login,
    /// There is no page at this address.
    Unknown,
}

impl Html {
    /// The page as an answer. It holds nothing about anybody: everything on it is fetched with credentials.
    pub(crate) fn answer(self) -> Response {
        let name = match self {
            Self::Approvals => "index.html",
            Self::Login => "login.html",
            Self::Unknown => "unknown.html",
        };
        let Some(file) = Web::get(name) else {
            tracing::error!(name, "a page is missing in the program");
            return axum::response::IntoResponse::into_response(Problem::internal());
        };
        let mut response = Response::new(body(file));
        *response.status_mut() = match self {
            Self::Approvals | Self::Login => StatusCode::OK,
            Self::Unknown => StatusCode::NOT_FOUND,
        };
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        protect_page(headers);
        response
    }
}

/// The file at `/assets/` and this path.
pub(crate) fn asset(path: &str, request: &HeaderMap) -> Result<Response, Problem> {
    let name = format!("assets/{path}");
    let found = Web::get(&name).zip(media_type(path));
    let (file, media_type) = found.ok_or_else(|| Problem::not_found("resource"))?;
    let packed = takes_gzip(request).then(|| packed(&file)).flatten();
    let tag = entity_tag(&file, packed.is_some());
    let mut response = if is_known(request, &tag) {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        let mut whole = match packed {
            Some(packed) => {
                let mut compressed = Response::new(Body::from(packed));
                compressed
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                compressed
            }
            None => Response::new(body(file)),
        };
        whole
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        whole
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::ETAG,
        HeaderValue::try_from(tag).map_err(|_not_ascii| Problem::internal())?,
    );
    protect_page(headers);
    Ok(response)
}

fn body(file: EmbeddedFile) -> Body {
    Body::from(match file.data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    })
}

fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// The tag of a file; a compressed one is another representation and has another tag (RFC 9110, 8.8.3).
fn entity_tag(file: &EmbeddedFile, is_packed: bool) -> String {
    let suffix = if is_packed { "-gzip" } else { "" };
    format!("\"{}{suffix}\"", hex(&file.metadata.sha256_hash()))
}

/// A file as gzip, made once; nothing where that would not be smaller.
fn packed(file: &EmbeddedFile) -> Option<Bytes> {
    /// By the hash of the content: as many as there are files.
    static PACKED: LazyLock<Mutex<HashMap<[u8; 32], Option<Bytes>>>> = LazyLock::new(Mutex::default);
    let mut known = PACKED.lock().unwrap_or_else(PoisonError::into_inner);
    let packed = known.entry(file.metadata.sha256_hash()).or_insert_with(|| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&file.data).ok()?;
        let packed = encoder.finish().ok()?;
        (packed.len() < file.data.len()).then(|| Bytes::from(packed))
    });
    packed.clone()
}

/// Whether the browser takes gzip (RFC 9110, `Accept-Encoding`). A quality of zero refuses it.
pub(crate) fn takes_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get_all(header::ACCEPT_ENCODING).into_iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let is_refused = parts
                .filter_map(|part| part.strip_prefix(['q', 'Q'])?.strip_prefix('='))
                .any(|quality| quality.trim_matches(['0', '.']).is_empty());
            is_gzip && !is_refused
        })
}

/// Whether the browser has this version (RFC 9110, `If-None-Match`: a weak comparison).
fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let known = request.get_all(header::IF_NONE_MATCH).into_iter();
    known.filter_map(|value| value.to_str().ok()).any(|value| {
        value
            .split(',')
            .map(str::trim)
            .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag_of(path: &str) -> String {
        entity_tag(&Web::get(&format!("assets/{path}")).unwrap(), false)
    }

    #[test]
    fn gzip_is_taken_only_where_it_is_named_and_not_refused() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=1.0", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("x-gzip", false),
            ("*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(takes_gzip(&headers), expected, "{value:?}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    /// What a browser loads for the first request, in bytes as they are sent: `docs/performance.md` has the figures.
    #[test]
    fn the_inbox_weighs_at_most_forty_kibibytes_and_the_page_a_hundred_and_fifty_kilobytes() {
        let sent = |name: &str| {
            packed(&Web::get(name).unwrap())
                .map_or_else(|| Web::get(name).unwrap().data.len(), |packed| packed.len())
        };
        let inbox = sent("assets/app.js") + sent("assets/early.js");
        assert!(inbox <= 40 * 1024, "{inbox}");
        let all: usize = Web::iter().map(|name| sent(&name)).sum();
        assert!(all <= 150_000, "{all}");
    }

    #[test]
    fn every_file_has_a_type_and_the_pages_name_only_files_that_exist() {
        let names: Vec<String> = Web::iter().map(Cow::into_owned).collect();
        for name in names.iter().filter(|name| name.starts_with("assets/")) {
            assert!(media_type(name).is_some(), "{name}");
        }
        for page in ["index.html", "login.html", "unknown.html"] {
            let html = Web::get(page).unwrap();
            let html = std::str::from_utf8(&html.data).unwrap().to_owned();
            let mut named = 0;
            for part in html.split("\"/assets/").skip(1) {
                let name = format!("assets/{}", part.split('"').next().unwrap());
                assert!(names.contains(&name), "{page} names {name}");
                named += 1;
            }
            assert!(named >= 3, "{page}");
            for inline in ["<style", "style=", " onclick", "<script>", "http://", "https://"] {
                assert!(!html.contains(inline), "{inline} in {page}");
            }
        }
    }

    #[test]
    fn scripts_make_no_markup_from_text_and_fetch_from_nowhere_else() {
        for name in Web::iter().filter(|name| name.ends_with(".js")) {
            let file = Web::get(&name).unwrap();
            let script = std::str::from_utf8(&file.data).unwrap();
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "https://",
                "setAttribute(\"style\"",
                "javascript:",
            ] {
                assert!(!script.contains(forbidden), "{forbidden} in {name}");
            }
            // The names of the namespaces of elements are no addresses.
            let addresses = script.replace("http://www.w3.org/", "");
            assert!(!addresses.contains("http://"), "{name}");
        }
    }

    #[test]
    fn a_known_version_is_recognised_in_every_form() {
        let tag = tag_of("app.js");
        let mut headers = HeaderMap::new();
        assert!(!is_known(&headers, &tag));
        for value in [
            tag.clone(),
            format!("W/{tag}"),
            format!("\"x\", {tag}"),
            "*".to_owned(),
        ] {
            headers.insert(header::IF_NONE_MATCH, value.parse().unwrap());
            assert!(is_known(&headers, &tag), "{value}");
        }
        headers.insert(header::IF_NONE_MATCH, tag_of("page.css").parse().unwrap());
        assert!(!is_known(&headers, &tag));
    }

    #[test]
    fn nothing_outside_the_assets_is_reached() {
        for path in [
            "../index.html",
            "..%2findex.html",
            "index.html",
            "",
            ".",
            "app.js/",
            "/app.js",
            "nothing.js",
        ] {
            assert!(asset(path, &HeaderMap::new()).is_err(), "{path:?}");
        }
        assert!(asset("app.js", &HeaderMap::new()).is_ok());
    }
}
