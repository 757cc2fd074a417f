//! Ids as people are shown them: as short as tells them apart.

use countersign_domain::short_end;

use super::value;

/// So many characters of an id are shown.
const SHOWN: usize = 8;
/// The digit of a UUID that says how it is made, and the one that says that it begins with its time.
const VERSION_AT: usize = 14;
const BY_TIME: u8 = b'7';
/// Ids are as long as this.
const WHOLE: usize = 36;

/// Something that a name could mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its id in full.
    pub(crate) id: String,
    /// As much of it as tells it apart, and what it is.
    pub(crate) shown: String,
}

/// What people are shown of an id: the end of one that begins with its time, since that beginning is the same for all of an hour;
/// the beginning of any other.
pub(crate) fn short(id: &str) -> &str {
    let is_by_time = id.len() == WHOLE && id.as_bytes().get(VERSION_AT) == Some(&BY_TIME);
    if is_by_time {
        short_end(id)
    } else {
        id.get(..SHOWN).unwrap_or(id)
    }
}

/// The same of what may be no id: a name, an agent or the address of a setting stays as it is.
pub(crate) fn short_of_target(target: &str) -> &str {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_device = target.len() == 64 && target.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_id = target.len() == WHOLE && target.bytes().all(is_digit);
    if is_device || is_id { short(target) } else { target }
}

/// Ids with what they are, as a person is shown them: each as short as tells it apart.
pub(crate) fn candidates(named: Vec<(String, String)>) -> Vec<Candidate> {
    let telling: Vec<String> = named.iter().map(|(id, _)| telling(id, &named)).collect();
    let widest = telling.iter().map(String::len).max().unwrap_or_default();
    let named = named.into_iter().zip(telling);
    named
        .map(|((id, what), telling)| {
            let what = value::shortened(&value::visible(&what), MOST_WORDS);
            let shown = format!("{telling:widest$}  {what}").trim_end().to_owned();
            Candidate { id, shown }
        })
        .collect()
}

fn telling(id: &str, all: &[(String, String)]) -> String {
    let short = short_of_target(id);
    let is_alone = all
        .iter()
        .filter(|(other, _)| short_of_target(other) == short)
        .count()
        == 1;
    if is_alone { short } else { id }.to_owned()
}

/// So much is said of each.
const MOST_WORDS: usize = 60;
