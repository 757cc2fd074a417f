//! Texts that the build packed (`build.rs`).

use std::io::Read as _;

use flate2::read::GzDecoder;

/// The text of a file that is packed in the program.
///
/// # Panics
///
/// When it is no such file.
pub(crate) fn unpack(file: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("the build packed it");
    text
}
