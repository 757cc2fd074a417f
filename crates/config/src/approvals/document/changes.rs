//! What an edit changes in the document, in words for the person who accepts it: each value and entry before and after.
//!
//! It must never show the token of the socket. Notes of use and notes for people change nothing, and are left out.

use std::collections::{BTreeMap, HashMap, HashSet};

use countersign_domain::UnixMillis;
use countersign_policy::{allowlist::Typing, changes::Changes, pending_change::quoted};

use super::{
    confined::Confined,
    json::Number,
    model::{Agent, DenyRule, Document, Entry, Grant, Keyed, PolicyFields, Socket, WILDCARD},
};

impl Document {
    /// What differs between this document and a later one, as a reader would say it. A list whose order changed is the
    /// same.
    pub fn changes(&self, later: &Self) -> Changes {
        let mut found = Changes::default();
        note_socket(self.socket.as_ref(), later.socket.as_ref(), &mut found);
        let defaults = |document: &Self| document.defaults.as_ref().map(|defaults| defaults.policy);
        note_policy(
            "every agent, by default",
            defaults(self).unwrap_or_default(),
            defaults(later).unwrap_or_default(),
            &mut found,
        );
        let (before, after) = (by_name(self), by_name(later));
        let silent = Agent::default();
        let mut names: Vec<&str> = before.keys().chain(after.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let who = match name {
                WILDCARD => "every agent".to_owned(),
                name => format!("agent {}", quoted(name)),
            };
            let was = before.get(name).copied().unwrap_or(&silent);
            let is = after.get(name).copied().unwrap_or(&silent);
            note_policy(&who, was.policy, is.policy, &mut found);
            let list = |title: &str| format!("{who}: {title}");
            note_list(
                &list("allowed"),
                was.allowlist.as_deref(),
                is.allowlist.as_deref(),
                entry,
                &mut found,
            );
            note_list(
                &list("allowed within limits"),
                was.grants.as_deref(),
                is.grants.as_deref(),
                grant,
                &mut found,
            );
            let of = |agent: &Agent, mutes: bool| -> Vec<Keyed<DenyRule>> {
                let rules = agent.denylist.iter().flatten();
                rules
                    .filter(|rule| rule.item.is_of_questions() == mutes)
                    .cloned()
                    .collect()
            };
            for (title, mutes) in [("denied", false), ("muted", true)] {
                let (was, is) = (of(was, mutes), of(is, mutes));
                note_list(&list(title), Some(&was), Some(&is), deny_rule, &mut found);
            }
        }
        found
    }
}

fn by_name(document: &Document) -> BTreeMap<&str, &Agent> {
    let agents = document.agents.iter().flatten();
    agents.map(|(name, agent)| (name.as_str(), agent)).collect()
}

fn note_socket(before: Option<&Socket>, later: Option<&Socket>, found: &mut Changes) {
    let path = |socket: Option<&Socket>| socket.and_then(|socket| socket.path.as_deref().map(quoted));
    found.note("socket for approvals", path(before), path(later));
    let token = |socket: Option<&Socket>| socket.and_then(|socket| socket.token.clone());
    let (was, is) = (token(before), token(later));
    // Only to notice changes; nobody's guess is compared here, so time does not matter.
    let same = match (&was, &is) {
        (Some(was), Some(is)) => was.expose() == is.expose(),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if !same {
        let told = |token: Option<_>, words: &str| token.map(|_secret| words.to_owned());
        found.note(
            "token of the socket for approvals",
            told(was, "one token"),
            told(is, "another token"),
        );
    }
}

fn note_policy(who: &str, before: PolicyFields, after: PolicyFields, found: &mut Changes) {
    let PolicyFields {
        security,
        ask,
        ask_fallback,
        auto_allow_skills,
    } = before;
    let mut note = |name: &str, was: Option<String>, is: Option<String>| {
        found.note(format!("{who}: {name}"), was, is);
    };
    note("security", words(security), words(after.security));
    note("ask", words(ask), words(after.ask));
    note("askFallback", words(ask_fallback), words(after.ask_fallback));
    note(
        "autoAllowSkills",
        words(auto_allow_skills),
        words(after.auto_allow_skills),
    );
}

fn words<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Notes what became of each item: one of the same id that says something else has changed. What only got another id is the
/// same.
fn note_list<T>(
    what: &str,
    before: Option<&[Keyed<T>]>,
    after: Option<&[Keyed<T>]>,
    words: impl Fn(&T) -> String,
    found: &mut Changes,
) {
    let said = |list: Option<&[Keyed<T>]>| -> Vec<(String, String)> {
        let items = list.unwrap_or_default().iter();
        items
            .map(|keyed| (keyed.id.as_str().to_owned(), words(&keyed.item)))
            .collect()
    };
    let (mut was, mut is) = (said(before), said(after));
    // What both say, however often each says it.
    let mut common: HashMap<String, (usize, usize)> = HashMap::new();
    for (_id, text) in &was {
        common.entry(text.clone()).or_default().0 += 1;
    }
    for (_id, text) in &is {
        common.entry(text.clone()).or_default().1 += 1;
    }
    let drop_common = |list: &mut Vec<(String, String)>| {
        let mut left: HashMap<&str, usize> = common
            .iter()
            .map(|(text, (one, other))| (text.as_str(), *one.min(other)))
            .collect();
        let mut kept = Vec::new();
        for item in std::mem::take(list) {
            match left.get_mut(item.1.as_str()) {
                Some(count) if *count > 0 => *count -= 1,
                Some(_) | None => kept.push(item),
            }
        }
        *list = kept;
    };
    drop_common(&mut was);
    drop_common(&mut is);
    let mut later: HashMap<String, String> = is.iter().cloned().collect();
    let mut changed: HashSet<String> = HashSet::new();
    for (id, text) in was {
        let now = later.remove(&id);
        if now.is_some() {
            changed.insert(id);
        }
        found.note(what, Some(text), now);
    }
    for (id, text) in is {
        if !changed.contains(&id) {
            found.note(what, None, Some(text));
        }
    }
}

fn entry(entry: &Entry) -> String {
    let is_answer = entry.source.as_deref() == Some("allow-always");
    joined([
        Some(pattern(
            &entry.pattern,
            entry.arg_pattern.as_deref(),
            entry.command_sha256.as_deref(),
        )),
        input(entry.typing()),
        confine(entry.confine.as_ref()),
        is_answer.then(|| "from an answer".to_owned()),
    ])
}

fn grant(grant: &Grant) -> String {
    let Grant {
        pattern: program,
        arg_pattern,
        note: _,
        created_at_ms: _,
        expires_at_ms,
        max_uses,
        uses: _,
        sha256,
        session_key,
        directory,
        input: _,
        unguarded: _,
        confine: confined,
        extra: _,
    } = grant;
    joined([
        Some(pattern(program, arg_pattern.as_deref(), None)),
        input(grant.typing()),
        confine(confined.as_ref()),
        expires_at_ms.as_ref().map(until),
        max_uses.map(|uses| format!("at most {uses} times")),
        session_key
            .as_ref()
            .map(|session| format!("in the session {}", quoted(session.as_str()))),
        directory
            .as_ref()
            .map(|directory| format!("below {}", quoted(directory))),
        sha256
            .as_ref()
            .map(|digest| format!("the file with the SHA-256 {}", quoted(digest))),
    ])
}

fn deny_rule(rule: &DenyRule) -> String {
    let what = if rule.is_of_questions() {
        "what it would have to ask".to_owned()
    } else {
        pattern(
            &rule.pattern,
            rule.arg_pattern.as_deref(),
            rule.command_sha256.as_deref(),
        )
    };
    joined([
        Some(what),
        rule.expires_at_ms.as_ref().map(until),
        rule.keeps_children()
            .then(|| "to the programs of a run too".to_owned()),
        rule.reason
            .as_deref()
            .map(|reason| format!("reason {}", quoted(reason))),
    ])
}

fn joined<const PARTS: usize>(parts: [Option<String>; PARTS]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn until(end: &Number) -> String {
    format!("until {}", UnixMillis::new(end.floor()))
}

fn pattern(program: &str, arguments: Option<&str>, digest: Option<&str>) -> String {
    let mut words = vec![quoted(program)];
    words.extend(arguments.map(|arguments| format!("with arguments {}", quoted(arguments))));
    words.extend(digest.map(|digest| format!("(SHA-256 {})", quoted(digest))));
    words.join(" ")
}

fn input(typing: Typing) -> Option<String> {
    match typing {
        Typing::Nothing => None,
        Typing::Guarded => Some("with open input".to_owned()),
        Typing::Anything => Some("with open input and an unguarded terminal".to_owned()),
    }
}

fn confine(said: Option<&Confined>) -> Option<String> {
    said.map(|confined| format!("confined to {}", confined.to_value()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn document(value: &Value) -> Document {
        Document::parse(value.to_string().as_bytes())
            .expect("a document")
            .document
    }

    fn told(before: &Value, later: &Value) -> Vec<(String, Option<String>, Option<String>)> {
        let changes = document(before).changes(&document(later));
        let listed = changes.listed.into_iter();
        listed
            .map(|change| (change.what, change.before, change.after))
            .collect()
    }

    #[track_caller]
    fn check(before: &Value, later: &Value, expected: &[(&str, Option<&str>, Option<&str>)]) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let expected: Vec<_> = expected
            .iter()
            .map(|(what, was, is)| ((*what).to_owned(), owned(*was), owned(*is)))
            .collect();
        assert_eq!(told(before, later), expected);
        let back: Vec<_> = expected
            .into_iter()
            .map(|(what, was, is)| (what, is, was))
            .collect();
        assert_eq!(told(later, before), back);
    }

    #[test]
    fn values_and_entries_are_told_before_and_after() {
        check(
            &json!({ "version": 1 }),
            &json!({ "version": 1, "defaults": { "security": "full" } }),
            &[("every agent, by default: security", None, Some("full"))],
        );
        check(
            &json!({ "version": 1, "agents": { "*": { "ask": "always" }, "build": { "askFallback": "deny" } } }),
            &json!({ "version": 1, "agents": { "*": { "ask": "off" }, "build": { "askFallback": "full", "autoAllowSkills": true } } }),
            &[
                ("every agent: ask", Some("always"), Some("off")),
                ("agent \"build\": askFallback", Some("deny"), Some("full")),
                ("agent \"build\": autoAllowSkills", None, Some("true")),
            ],
        );
        let one = json!({ "id": "1", "pattern": "/bin/a", "lastUsedAt": 5 });
        let other = json!({ "id": "2", "pattern": "/bin/b" });
        let narrow = json!({ "id": "1", "pattern": "/bin/a", "argPattern": "^x$" });
        let list =
            |entries: &[&Value]| json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
        check(
            &list(&[&narrow]),
            &list(&[&one, &other]),
            &[
                (
                    "agent \"main\": allowed",
                    Some("\"/bin/a\" with arguments \"^x$\""),
                    Some("\"/bin/a\""),
                ),
                ("agent \"main\": allowed", None, Some("\"/bin/b\"")),
            ],
        );
        // Another order, another id and another use are no change.
        let renamed = json!({ "id": "9", "pattern": "/bin/a", "lastUsedAt": 7, "note": "x" });
        check(&list(&[&one, &other]), &list(&[&other, &renamed]), &[]);
    }

    #[test]
    fn rules_mutes_and_grants_are_told_apart() {
        let rules = |list: &Value| json!({ "version": 1, "agents": { "main": { "denylist": list } } });
        check(
            &rules(&json!([
                { "id": "1", "pattern": "mkfs*", "reason": "no" },
                { "id": "2", "pattern": "=questions", "questions": true, "expiresAtMs": 86_400_000 }
            ])),
            &rules(&json!([])),
            &[
                ("agent \"main\": denied", Some("\"mkfs*\", reason \"no\""), None),
                (
                    "agent \"main\": muted",
                    Some("what it would have to ask, until 1970-01-02T00:00:00Z"),
                    None,
                ),
            ],
        );
        let grants = |list: &Value| json!({ "version": 1, "agents": { "main": { "grants": list } } });
        check(
            &grants(&json!([{ "id": "1", "pattern": "/bin/a", "maxUses": 2, "directory": "/srv" }])),
            &grants(&json!([{ "id": "1", "pattern": "/bin/a", "maxUses": 3, "directory": "/srv" }])),
            &[(
                "agent \"main\": allowed within limits",
                Some("\"/bin/a\", at most 2 times, below \"/srv\""),
                Some("\"/bin/a\", at most 3 times, below \"/srv\""),
            )],
        );
    }

    #[test]
    fn the_token_of_the_socket_is_not_shown_and_hidden_characters_are_spelled_out() {
        let with = |token: &str| json!({ "version": 1, "socket": { "path": "/a", "token": token } });
        let changes = told(&with("secret-one"), &with("secret-two"));
        assert_eq!(changes.len(), 1);
        assert!(!format!("{changes:?}").contains("secret"), "{changes:?}");
        let list = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "id": "1", "pattern": "/a\u{202e}b" }] } } });
        let changes = told(&json!({ "version": 1 }), &list);
        assert_eq!(changes[0].2.as_deref(), Some("\"/a\\u{202e}b\""));
    }

    proptest! {
        /// What is the same is no change, and what is not is one both ways.
        #[test]
        fn a_change_is_seen_from_both_sides(before in entries(), later in entries()) {
            let list = |entries: &[(u8, u8)]| {
                let mut seen = Vec::new();
                let entries: Vec<Value> = entries
                    .iter()
                    .filter(|(id, _)| !seen.contains(id) && { seen.push(*id); true })
                    .map(|(id, program)| json!({ "id": id.to_string(), "pattern": format!("/bin/{program}") }))
                    .collect();
                document(&json!({ "version": 1, "agents": { "main": { "allowlist": entries } } }))
            };
            let (before, later) = (list(&before), list(&later));
            prop_assert!(before.changes(&before).is_empty());
            let patterns = |document: &Document| {
                let agent = document.agent("main");
                let mut patterns: Vec<String> = agent
                    .into_iter()
                    .flat_map(|agent| agent.allowlist.iter().flatten())
                    .map(|keyed| keyed.item.pattern.clone())
                    .collect();
                patterns.sort_unstable();
                patterns
            };
            let differs = patterns(&before) != patterns(&later);
            prop_assert_eq!(before.changes(&later).is_empty(), !differs);
            prop_assert_eq!(later.changes(&before).is_empty(), !differs);
        }
    }

    fn entries() -> impl Strategy<Value = Vec<(u8, u8)>> {
        prop::collection::vec((0_u8..6, 0_u8..4), 0..6)
    }
}
