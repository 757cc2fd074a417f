//! What `confine` of an entry may say (`docs/spec/approvals-store.md#32-confine`), and which of two says more.

use std::collections::BTreeSet;

use countersign_domain::{Confine, Starts, WritePlace};
use serde_json::Value;

/// Programs, places and ports that one `confine` may name, each.
pub const MAX_ITEMS: usize = 64;
/// Bytes of one of them.
pub const MAX_BYTES: usize = 4096;
/// What stands for everything below a directory.
const BELOW: &str = "/**";
const ANY: &str = "any";
const JUDGED: &str = "judged";

/// What an entry says about what its program may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfineRule {
    /// This.
    Understood(Confine),
    /// Something that this version does not understand, and why: the entry covers nothing.
    NotUnderstood(String),
}

impl ConfineRule {
    /// Reads the member `confine` of an entry.
    pub fn read(value: &Value) -> Self {
        match read(value) {
            Ok(confine) => Self::Understood(confine),
            Err(why) => Self::NotUnderstood(why),
        }
    }

    /// What it says, where that is understood.
    pub const fn understood(&self) -> Option<&Confine> {
        match self {
            Self::Understood(confine) => Some(confine),
            Self::NotUnderstood(_) => None,
        }
    }

    /// Why it is not understood.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Understood(_) => None,
            Self::NotUnderstood(why) => Some(why),
        }
    }
}

/// Whether an entry that says `narrow` covers nothing and lets nothing be done that the same entry with `wide` does not.
/// `None` is an entry without `confine`. Where that cannot be seen, it is false.
pub fn is_within(narrow: Option<&ConfineRule>, wide: Option<&ConfineRule>) -> bool {
    let silent = Confine::default();
    let said = |rule: Option<&ConfineRule>| match rule {
        None => Some(silent.clone()),
        Some(rule) => rule.understood().cloned(),
    };
    match (said(narrow), said(wide)) {
        // It covers nothing.
        (None, _) => true,
        (Some(_), None) => false,
        (Some(narrow), Some(wide)) => {
            starts_within(narrow.starts.as_ref(), wide.starts.as_ref())
                && set_within(narrow.writes.as_deref(), wide.writes.as_deref())
                && set_within(narrow.connects.as_deref(), wide.connects.as_deref())
        }
    }
}

fn starts_within(narrow: Option<&Starts>, wide: Option<&Starts>) -> bool {
    match (narrow, wide) {
        (None | Some(Starts::Any), Some(Starts::Any)) | (None, None) => true,
        (
            Some(Starts::These { judged, programs }),
            Some(Starts::These {
                judged: others_judged,
                programs: others,
            }),
        ) => (!judged || *others_judged) && programs.iter().all(|program| others.contains(program)),
        // A list also lets arguments pass that the default asks about (D1), and the default of a program may be more or
        // less than a list.
        (Some(_), None)
        | (Some(Starts::These { .. }), Some(Starts::Any))
        | (None | Some(Starts::Any), Some(Starts::These { .. })) => false,
    }
}

fn set_within<T: Ord>(narrow: Option<&[T]>, wide: Option<&[T]>) -> bool {
    match (narrow, wide) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(narrow), Some(wide)) => {
            let wide: BTreeSet<&T> = wide.iter().collect();
            narrow.iter().all(|one| wide.contains(one))
        }
    }
}

fn read(value: &Value) -> Result<Confine, String> {
    let members = value.as_object().ok_or("confine is not an object")?;
    let mut confine = Confine::default();
    for (name, value) in members {
        match name.as_str() {
            "starts" => confine.starts = Some(read_starts(value)?),
            "writes" => confine.writes = read_list(value, "writes", read_place)?,
            "connects" => confine.connects = read_list(value, "connects", read_port)?,
            name => return Err(format!("confine says {name:?}, which this version does not know")),
        }
    }
    Ok(confine)
}

fn read_starts(value: &Value) -> Result<Starts, String> {
    match value.as_str() {
        Some(ANY) => return Ok(Starts::Any),
        Some(JUDGED) => {
            return Ok(Starts::These {
                judged: true,
                programs: Vec::new(),
            });
        }
        Some(_) | None => {}
    }
    let words = read_list(value, "starts", |value| {
        let word = value.as_str().ok_or("starts is a list of texts")?;
        check_program(word).map(|()| word.to_owned())
    })?;
    // `any` was taken above, so there is a list.
    let (judged, programs): (Vec<_>, Vec<_>) = words
        .unwrap_or_default()
        .into_iter()
        .partition(|word| word == JUDGED);
    Ok(Starts::These {
        judged: !judged.is_empty(),
        programs,
    })
}

fn read_list<T>(
    value: &Value,
    name: &str,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<Vec<T>>, String> {
    if value.as_str() == Some(ANY) {
        return Ok(None);
    }
    let items = value
        .as_array()
        .ok_or_else(|| format!("{name} is neither \"any\" nor a list"))?;
    if items.len() > MAX_ITEMS {
        return Err(format!("{name} has more than {MAX_ITEMS} items"));
    }
    items.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// A name that is looked up on the PATH, an absolute path, one below the home directory, or `DIRECTORY/**`.
fn check_program(word: &str) -> Result<(), String> {
    check_text(word)?;
    if word == ANY {
        return Err("\"any\" stands alone and not in a list".to_owned());
    }
    if !word.contains('/') {
        return if matches!(word, "." | ".." | "~") || has_wildcard(word) {
            Err(format!("{word:?} is no name of a program"))
        } else {
            Ok(())
        };
    }
    match word.strip_suffix(BELOW) {
        Some("") => Err("\"/**\" is every program: say \"any\"".to_owned()),
        Some("~") => Ok(()),
        Some(directory) => check_path(directory),
        None => check_path(word),
    }
}

fn read_place(value: &Value) -> Result<WritePlace, String> {
    let word = value.as_str().ok_or("writes is a list of texts")?;
    match word {
        "workspace" => Ok(WritePlace::Workspace),
        "tmp" => Ok(WritePlace::Tmp),
        word => {
            check_text(word)?;
            check_path(word)?;
            if word.bytes().all(|byte| byte == b'/') {
                return Err("\"/\" is every place: say \"any\"".to_owned());
            }
            Ok(WritePlace::Path(word.to_owned()))
        }
    }
}

fn read_port(value: &Value) -> Result<u16, String> {
    let port = value.as_u64().and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port > 0)
        .ok_or_else(|| format!("{value} is no TCP port from 1 to 65535"))
}

fn check_text(word: &str) -> Result<(), String> {
    if word.is_empty() || word.len() > MAX_BYTES || word.chars().any(char::is_control) {
        Err("a name or path is empty, too long, or has a control character".to_owned())
    } else {
        Ok(())
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let below_root = path.strip_prefix("~/").or_else(|| path.strip_prefix('/'));
    let Some(rest) = below_root else {
        return Err(format!("{path:?} is no absolute path, nor one below ~/"));
    };
    if has_wildcard(path) {
        return Err(format!(
            "{path:?} has a wildcard; only DIRECTORY/** in starts may"
        ));
    }
    if rest.split('/').any(|component| matches!(component, "." | "..")) {
        return Err(format!("{path:?} has a component . or .."));
    }
    Ok(())
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rule(value: &Value) -> ConfineRule {
        ConfineRule::read(value)
    }

    fn these(judged: bool, programs: &[&str]) -> Starts {
        Starts::These {
            judged,
            programs: programs.iter().map(|program| (*program).to_owned()).collect(),
        }
    }

    #[test]
    fn every_form_is_read() {
        let starts = |value: Value| {
            rule(&json!({ "starts": value }))
                .understood()
                .unwrap()
                .starts
                .clone()
        };
        assert_eq!(starts(json!("any")), Some(Starts::Any));
        assert_eq!(starts(json!("judged")), Some(these(true, &[])));
        assert_eq!(starts(json!([])), Some(these(false, &[])));
        assert_eq!(
            starts(json!([
                "judged",
                "ssh",
                "/usr/bin/gpg",
                "~/bin/x",
                "/usr/lib/git-core/**",
                "~/**"
            ])),
            Some(these(
                true,
                &["ssh", "/usr/bin/gpg", "~/bin/x", "/usr/lib/git-core/**", "~/**"]
            ))
        );
        let all = rule(&json!({ "writes": ["workspace", "tmp", "/srv/x"], "connects": [22, 443] }));
        assert_eq!(
            all.understood(),
            Some(&Confine {
                starts: None,
                writes: Some(vec![
                    WritePlace::Workspace,
                    WritePlace::Tmp,
                    WritePlace::Path("/srv/x".to_owned())
                ]),
                connects: Some(vec![22, 443]),
            })
        );
        let open = rule(&json!({ "starts": "any", "writes": "any", "connects": "any" }));
        assert_eq!(open.understood().unwrap().writes, None);
        assert_eq!(rule(&json!({})), ConfineRule::Understood(Confine::default()));
    }

    #[test]
    fn what_is_malformed_or_unknown_is_not_understood() {
        let many: Vec<u16> = (1..=65).collect();
        for value in [
            json!(null),
            json!([]),
            json!("any"),
            json!({ "reads": [] }),
            json!({ "starts": null }),
            json!({ "starts": "ssh" }),
            json!({ "starts": ["any"] }),
            json!({ "starts": [1] }),
            json!({ "starts": [""] }),
            json!({ "starts": ["/**"] }),
            json!({ "starts": ["g*"] }),
            json!({ "starts": ["bin/x"] }),
            json!({ "starts": ["/usr/**/x"] }),
            json!({ "starts": ["/usr/bin/*"] }),
            json!({ "starts": ["/usr/../bin/x"] }),
            json!({ "starts": ["~other/x"] }),
            json!({ "starts": ["a\u{0}b"] }),
            json!({ "writes": ["here"] }),
            json!({ "writes": ["/"] }),
            json!({ "writes": ["/srv/**"] }),
            json!({ "writes": "workspace" }),
            json!({ "connects": [0] }),
            json!({ "connects": [65536] }),
            json!({ "connects": [22.5] }),
            json!({ "connects": ["22"] }),
            json!({ "connects": many }),
        ] {
            assert!(rule(&value).problem().is_some(), "{value}");
        }
    }

    #[test]
    fn removing_or_widening_is_more_and_narrowing_is_not() {
        let within = |narrow: Value, wide: Value| {
            let read = |value: Value| (!value.is_null()).then(|| rule(&value));
            is_within(read(narrow).as_ref(), read(wide).as_ref())
        };
        assert!(within(json!({ "writes": [] }), json!(null)));
        assert!(within(json!({ "connects": [22] }), json!(null)));
        assert!(!within(json!(null), json!({ "writes": [] })));
        assert!(!within(json!(null), json!({ "starts": [] })));
        // A list lets arguments pass that were asked about.
        assert!(!within(json!({ "starts": [] }), json!(null)));
        assert!(within(json!({ "starts": [] }), json!({ "starts": ["ssh"] })));
        assert!(!within(
            json!({ "starts": ["ssh", "sh"] }),
            json!({ "starts": ["ssh"] })
        ));
        assert!(!within(json!({ "starts": "judged" }), json!({ "starts": [] })));
        assert!(!within(json!({ "starts": "any" }), json!({ "starts": ["ssh"] })));
        assert!(within(
            json!({ "connects": [22] }),
            json!({ "connects": [443, 22] })
        ));
        assert!(!within(
            json!({ "writes": ["tmp"] }),
            json!({ "writes": ["workspace"] })
        ));
        // What is not understood covers nothing.
        assert!(within(json!({ "reads": [] }), json!({ "starts": [] })));
        assert!(!within(json!({ "starts": [] }), json!({ "reads": [] })));
    }

    fn any_rule() -> impl Strategy<Value = Option<Value>> {
        let words = prop::sample::subsequence(vec!["judged", "ssh", "/bin/x", "/srv/**"], 0..4);
        let starts = prop_oneof![
            Just(None),
            Just(Some(json!("any"))),
            words.prop_map(|words| Some(json!(words)))
        ];
        let places = prop::sample::subsequence(vec!["workspace", "tmp", "/srv"], 0..3);
        let writes = prop::option::of(places.prop_map(|places| json!(places)));
        let some = (starts, writes).prop_map(|(starts, writes)| {
            let mut members = serde_json::Map::new();
            members.extend(starts.map(|starts| ("starts".to_owned(), starts)));
            members.extend(writes.map(|writes| ("writes".to_owned(), writes)));
            Some(Value::Object(members))
        });
        prop_oneof![Just(None), some]
    }

    proptest! {
        #[test]
        fn being_within_is_an_order(one in any_rule(), two in any_rule(), three in any_rule()) {
            let read = |value: &Option<Value>| value.as_ref().map(ConfineRule::read);
            let (one, two, three) = (read(&one), read(&two), read(&three));
            prop_assert!(is_within(one.as_ref(), one.as_ref()));
            if is_within(one.as_ref(), two.as_ref()) && is_within(two.as_ref(), three.as_ref()) {
                prop_assert!(is_within(one.as_ref(), three.as_ref()));
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,40}") {
            let value = json!({ "starts": [text], "writes": [text] });
            let rule = ConfineRule::read(&value);
            prop_assert_eq!(rule.understood().is_none(), rule.problem().is_some());
        }
    }
}
