//! Values as bytes (postcard): what every frame and message is made of.

use serde::{Deserialize, Serialize};

/// Appends a value.
///
/// # Panics
/// Never for the types of this project: each of their lists knows its length.
pub fn append(to: Vec<u8>, value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, to).expect("every list knows its length, and a vector takes every byte")
}

/// Reads one value of which nothing is missing and which nothing follows. A length is compared with the bytes that are
/// there before they are taken, so memory grows with what really came.
pub fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        Ok(_) | Err(_) => None,
    }
}
