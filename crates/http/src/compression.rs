//! Long lists go out compressed where the client takes that (`docs/spec/http-api.md#resources`).
//!
//! Each item is compressed by itself: the encoder forgets everything between two of them. So no length says whether a text in
//! one item, which an agent chose, also stands in another, which that agent may not see. A layer that compresses an answer as
//! one text would tell. Nothing else is compressed: streams, output, and answers with a secret or a tag.

use axum::{
    body::{Body, HttpBody as _},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use crate::problem::Problem;

/// What is shorter is sent as quickly as it is.
const LEAST: u64 = 16 * 1024;
/// No list is longer; what is, is not held twice.
const MOST: u64 = 64 * 1024 * 1024;

/// How a list begins.
const BEGINNING: &[u8] = b"{\"items\":[";

/// The header of a gzip file without a name and a time, made for speed, on any system (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// The answer to a GET, compressed if it is a long list and the client takes that.
pub(crate) async fn of_list(response: Response, takes_gzip: bool) -> Response {
    if !may_be_list(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let most = usize::try_from(MOST).unwrap_or(usize::MAX);
    let Ok(bytes) = axum::body::to_bytes(body, most).await else {
        // It is at hand, and no longer than this.
        return Problem::internal().into_response();
    };
    if !bytes.starts_with(BEGINNING) {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts
        .headers
        .append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !takes_gzip {
        return Response::from_parts(parts, Body::from(bytes));
    }
    let list = bytes.clone();
    match tokio::task::spawn_blocking(move || packed(&list)).await {
        Ok(Some(packed)) if packed.len() < bytes.len() => {
            let headers = &mut parts.headers;
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(packed))
        }
        Ok(_) | Err(_) => Response::from_parts(parts, Body::from(bytes)),
    }
}

/// Whether it may be a long list, as far as its headers and its length say.
fn may_be_list(response: &Response) -> bool {
    let headers = response.headers();
    let is_json = (headers.get(header::CONTENT_TYPE)).is_some_and(|kind| kind == "application/json");
    let is_plain = !headers.contains_key(header::ETAG) && !headers.contains_key(header::CONTENT_ENCODING);
    let length = response.body().size_hint().exact();
    response.status() == StatusCode::OK
        && is_json
        && is_plain
        && length.is_some_and(|length| (LEAST..=MOST).contains(&length))
}

/// A list as one gzip file in which no item refers to another; `None` where that cannot be made.
fn packed(list: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = Compress::new(Compression::fast(), false);
    let mut crc = Crc::new();
    let mut file = Vec::with_capacity(list.len() / 2 + 64);
    file.extend_from_slice(&HEADER);
    let pieces = pieces(list);
    let last = pieces.len().checked_sub(1)?;
    for (index, piece) in pieces.into_iter().enumerate() {
        crc.update(piece);
        let flush = if index == last {
            FlushCompress::Finish
        } else {
            FlushCompress::Full
        };
        append(&mut encoder, piece, flush, &mut file)?;
    }
    file.extend_from_slice(&crc.sum().to_le_bytes());
    file.extend_from_slice(&crc.amount().to_le_bytes());
    Some(file)
}

fn append(encoder: &mut Compress, mut piece: &[u8], flush: FlushCompress, file: &mut Vec<u8>) -> Option<()> {
    loop {
        // There is always room, so that a flush is over once it leaves some.
        file.reserve(piece.len() / 2 + 256);
        let (before, room) = (encoder.total_in(), file.capacity() - file.len());
        let written = encoder.total_out();
        let status = encoder.compress_vec(piece, file, flush).ok()?;
        let read = usize::try_from(encoder.total_in() - before).ok()?;
        piece = piece.get(read..)?;
        let written = usize::try_from(encoder.total_out() - written).ok()?;
        match status {
            Status::StreamEnd => return Some(()),
            Status::Ok | Status::BufError => {
                if piece.is_empty() && written < room && flush != FlushCompress::Finish {
                    return Some(());
                }
            }
        }
    }
}

/// The list in pieces that are compressed by themselves: its beginning, each item, its end.
fn pieces(list: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let (mut depth, mut in_text, mut escaped) = (0_u32, false, false);
    for (index, byte) in list.iter().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        // Where a piece ends: behind the bracket, behind the comma after an item, before the bracket.
        let end = match byte {
            b'"' => {
                in_text = true;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == 2 && start == 0 {
                    index + 1
                } else {
                    continue;
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 1 && *byte == b']' {
                    index
                } else {
                    continue;
                }
            }
            b',' if depth == 2 => index + 1,
            _ => continue,
        };
        if let Some(piece) = list.get(start..end).filter(|piece| !piece.is_empty()) {
            pieces.push(piece);
            start = end;
        }
    }
    pieces.extend(list.get(start..).filter(|rest| !rest.is_empty()));
    pieces
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn list(items: &[Value]) -> Vec<u8> {
        let page = json!({"items": items, "nextCursor": "abc,]}"});
        serde_json::to_vec(&page).unwrap()
    }

    fn unpacked(file: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn a_list_is_taken_apart_at_its_items() {
        let items = [json!({"a": "},{\"[", "b": [1, [2]]}), json!(7), json!({"c": {}})];
        let text = list(&items);
        let pieces = pieces(&text);
        assert_eq!(pieces.concat(), text);
        assert_eq!(pieces.len(), 5, "{pieces:?}");
        assert_eq!(pieces[0], BEGINNING);
        assert!(pieces[4].starts_with(b"],\"nextCursor\""));
        assert_eq!(super::pieces(&list(&[])).concat(), list(&[]));
    }

    #[test]
    fn what_one_item_says_has_no_part_in_the_length_of_another() {
        let secret = "export TOKEN_FOR_DEPLOYMENT=correct-horse-battery-staple --region eu-central-1";
        let length = |items: &[Value]| i64::try_from(packed(&list(items)).unwrap().len()).unwrap();
        let own = |text: &str| json!({"agentId": "attacker", "command": text});
        let other = |text: &str| json!({"agentId": "build", "command": text});
        // How much longer the list is for the guess than for none.
        let cost = |beside: &str, guess: &str| {
            length(&[other(beside), own(guess)]) - length(&[other(beside), own("")])
        };
        let wrong = "something else entirely, of about the same length as the secret";
        for guess in [secret, secret.get(..40).unwrap(), wrong] {
            assert_eq!(cost(secret, guess), cost("", guess), "{guess}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_again(texts in prop::collection::vec(".{0,300}", 0..40)) {
            let items: Vec<Value> = texts.iter().map(|text| json!({"command": text, "list": [text]})).collect();
            let text = list(&items);
            let file = packed(&text).unwrap();
            prop_assert_eq!(unpacked(&file), text);
        }

        #[test]
        fn items_do_not_refer_to_each_other(first in ".{0,200}", second in ".{0,200}", third in ".{0,200}") {
            let length = |items: &[Value]| i64::try_from(packed(&list(items)).unwrap().len()).unwrap();
            let of = |text: &str| json!({"text": text});
            let added = |before: &str| length(&[of(before), of(&third)]) - length(&[of(before), of("")]);
            prop_assert_eq!(added(&first), added(&second));
        }
    }
}
