//! What `init` would do, given what is there. Pure: texts in, plan out.

use std::path::PathBuf;

use serde_json::{Map, Value};

use countersign_policy::starter::StarterSet;

use super::preset::InitPreset;

/// One of the three files.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    /// What is to become of it.
    pub(super) action: Action,
}

/// What is to become of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// It is missing and gets this text.
    Create(String),
    /// It is there and holds nothing but what the server wrote at its start: the socket and its token. It gets `text`.
    Complete {
        /// What it will say.
        text: String,
        /// What it says now.
        replaces: String,
    },
    /// It is there and already says what the preset needs.
    Keep,
    /// It is there and says something else. It is left alone.
    Differs(Vec<Difference>),
    /// It is there and cannot be read. It is left alone.
    Unreadable(String),
}

/// A key that would have to change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub(super) key: String,
    /// What it is; `None` when it is not set.
    pub(super) is: Option<Value>,
    /// What it would have to be; `None` to take it away.
    pub(super) wanted: Option<Value>,
}

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    Text(String),
    /// There, but not readable as text.
    Unreadable(String),
}

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Json5,
    Json,
    Toml,
}

/// Plans the approvals document, `countersign.toml` and `openclaw.json`, in the order in which they are put in
/// place: anything that a crash leaves is at least as strict as the whole.
pub(super) fn plan(
    preset: InitPreset,
    sets: &[StarterSet],
    files: [(PathBuf, Found); 3],
) -> Vec<PlannedFile> {
    let wanted = [
        (preset.document_with(sets), Syntax::Json),
        (preset.server(), Syntax::Toml),
        (preset.config(), Syntax::Json5),
    ];
    files
        .into_iter()
        .zip(wanted)
        .map(|((path, found), (wanted, syntax))| PlannedFile {
            path,
            action: action(found, &wanted, syntax),
        })
        .collect()
}

fn action(found: Found, wanted: &Value, syntax: Syntax) -> Action {
    let text = match found {
        Found::Missing => return Action::Create(rendered(wanted, syntax)),
        Found::Unreadable(why) => return Action::Unreadable(why),
        Found::Text(text) => text,
    };
    match parsed(&text, syntax) {
        Ok(present) => {
            let mut differences = Vec::new();
            compare("", wanted, Some(&present), &mut differences);
            if syntax == Syntax::Json5 {
                differences.extend(mode(&present));
            }
            if differences.is_empty() {
                Action::Keep
            } else if syntax == Syntax::Json && says_nothing_yet(&present) {
                Action::Complete {
                    text: rendered(&completed(wanted, present), syntax),
                    replaces: text,
                }
            } else {
                Action::Differs(differences)
            }
        }
        Err(why) => Action::Unreadable(why),
    }
}

/// No policy and no agent: a document that a server made to keep the token of its socket in.
fn says_nothing_yet(document: &Value) -> bool {
    let members = document.as_object();
    members.is_some_and(|members| {
        members.iter().all(|(name, value)| match name.as_str() {
            "version" | "socket" => true,
            "defaults" | "agents" => value.as_object().is_some_and(Map::is_empty),
            _ => false,
        })
    })
}

/// What is wanted, and the members of `present` that it does not speak of.
fn completed(wanted: &Value, mut present: Value) -> Value {
    if let (Some(present), Some(wanted)) = (present.as_object_mut(), wanted.as_object()) {
        present.extend(wanted.clone());
    }
    present
}

/// `tools.exec.mode` beside `security` or `ask` is an error, so it would have to go.
fn mode(config: &Value) -> Option<Difference> {
    let mode = config.pointer("/tools/exec/mode")?;
    Some(Difference {
        key: "tools.exec.mode".to_owned(),
        is: Some(mode.clone()),
        wanted: None,
    })
}

/// Every leaf of `wanted` that `present` does not have. What else is present is nobody's business here.
fn compare(key: &str, wanted: &Value, present: Option<&Value>, differences: &mut Vec<Difference>) {
    match wanted {
        Value::Object(members) => {
            for (name, wanted) in members {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                compare(
                    &key,
                    wanted,
                    present.and_then(|present| present.get(name)),
                    differences,
                );
            }
        }
        leaf if present == Some(leaf) => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => differences
            .push(Difference {
                key: key.to_owned(),
                is: present.cloned(),
                wanted: Some(wanted.clone()),
            }),
    }
}

fn parsed(text: &str, syntax: Syntax) -> Result<Value, String> {
    let value = match syntax {
        Syntax::Json5 => json5::from_str(text).map_err(|error| error.to_string()),
        Syntax::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
        Syntax::Toml => toml::from_str(text).map_err(|error| error.message().to_owned()),
    }?;
    if matches!(value, Value::Object(_)) {
        Ok(value)
    } else {
        Err("it is not an object".to_owned())
    }
}

fn rendered(wanted: &Value, syntax: Syntax) -> String {
    match syntax {
        Syntax::Json | Syntax::Json5 => format!("{wanted:#}\n"),
        Syntax::Toml => {
            let empty = Map::new();
            let mut text = "# The countersign server. Missing keys have their defaults: `countersign doctor` lists them.\n".to_owned();
            for (table, keys) in wanted.as_object().unwrap_or(&empty) {
                text.push_str("\n[");
                text.push_str(table);
                text.push_str("]\n");
                for (key, value) in keys.as_object().unwrap_or(&empty) {
                    // Booleans, numbers and plain strings are written alike in TOML and JSON.
                    text.push_str(key);
                    text.push_str(" = ");
                    text.push_str(&value.to_string());
                    text.push('\n');
                }
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actions(preset: InitPreset, document: Found, server: Found, config: Found) -> Vec<Action> {
        let files = [("d".into(), document), ("s".into(), server), ("c".into(), config)];
        plan(preset, &[], files)
            .into_iter()
            .map(|file| file.action)
            .collect()
    }

    fn text(text: &str) -> Found {
        Found::Text(text.to_owned())
    }

    #[test]
    fn a_fresh_directory_gets_all_three() {
        let [document, server, config] = actions(
            InitPreset::Cautious,
            Found::Missing,
            Found::Missing,
            Found::Missing,
        )
        .try_into()
        .unwrap();
        let created = |action| match action {
            Action::Create(text) => text,
            other @ (Action::Complete { .. } | Action::Keep | Action::Differs(_) | Action::Unreadable(_)) => {
                panic!("{other:?}")
            }
        };
        insta::assert_snapshot!(created(document), @r#"
        {
          "version": 1,
          "defaults": {
            "security": "allowlist",
            "ask": "on-miss",
            "askFallback": "deny"
          },
          "agents": {}
        }
        "#);
        insta::assert_snapshot!(created(server), @r"
        # The countersign server. Missing keys have their defaults: `countersign doctor` lists them.

        [approvals]
        always_reachable = true
        ");
        insta::assert_snapshot!(created(config), @r#"
        {
          "tools": {
            "exec": {
              "host": "gateway",
              "security": "allowlist",
              "ask": "on-miss",
              "reads": {
                "nullRedirections": true,
                "hereDocuments": true,
                "fileRedirections": true,
                "filePatterns": true,
                "temporaryFiles": true,
                "foundFiles": true,
                "documentOperands": true,
                "variables": true,
                "substitutions": true,
                "braces": true,
                "compoundCommands": true,
                "loops": true,
                "laterValues": true,
                "backgroundCommands": true,
                "projectRunners": true
              }
            }
          }
        }
        "#);
    }

    #[test]
    fn what_it_wrote_it_keeps() {
        for preset in InitPreset::ALL {
            let [document, server, config] = actions(preset, Found::Missing, Found::Missing, Found::Missing)
                .try_into()
                .unwrap();
            let again = |action| match action {
                Action::Create(text) => Found::Text(text),
                other @ (Action::Complete { .. }
                | Action::Keep
                | Action::Differs(_)
                | Action::Unreadable(_)) => {
                    panic!("{other:?}")
                }
            };
            let kept = actions(preset, again(document), again(server), again(config));
            assert_eq!(kept, [Action::Keep, Action::Keep, Action::Keep], "{preset:?}");
        }
    }

    #[test]
    fn other_keys_and_comments_are_nobodys_business() {
        let config = text(
            "{ // ours\n tools: {exec: {host: 'gateway', security: 'allowlist', ask: 'on-miss', \
             reads: {nullRedirections: true, hereDocuments: true, fileRedirections: true, filePatterns: true, \
             temporaryFiles: true, foundFiles: true, documentOperands: true, variables: true, substitutions: true, braces: true, compoundCommands: true, \
             loops: true, laterValues: true, backgroundCommands: true, projectRunners: true, more: 1}}}, ui: 1, }",
        );
        let server = text("[http]\nlisten = \"127.0.0.1:1\"\n[approvals]\nalways_reachable = true\n");
        let document = text(
            r#"{"version":1,"defaults":{"security":"allowlist","ask":"on-miss","askFallback":"deny"},"agents":{"a":{}}}"#,
        );
        let actions = actions(InitPreset::Cautious, document, server, config);
        // The document's `agents` is not compared member by member: only its leaves are wanted, and it has none.
        assert_eq!(actions, [Action::Keep, Action::Keep, Action::Keep]);
    }

    #[test]
    fn a_document_that_only_keeps_the_token_of_the_socket_is_completed() {
        let action_for = |document: &str| {
            let mut actions = actions(
                InitPreset::DenyAll,
                text(document),
                Found::Missing,
                Found::Missing,
            );
            actions.swap_remove(0)
        };
        let made = r#"{"version":1,"socket":{"path":"/s","token":"t"},"defaults":{},"agents":{}}"#;
        let Action::Complete { text, replaces } = action_for(made) else {
            panic!("{:?}", action_for(made));
        };
        assert_eq!(replaces, made);
        let completed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(completed["socket"], json!({"path": "/s", "token": "t"}));
        assert_eq!(completed["defaults"]["security"], "deny");
        for chosen in [
            r#"{"version":1,"socket":{},"defaults":{"ask":"always"},"agents":{}}"#,
            r#"{"version":1,"defaults":{},"agents":{"a":{}}}"#,
            r#"{"version":1,"defaults":{},"agents":{},"more":1}"#,
        ] {
            assert!(matches!(action_for(chosen), Action::Differs(_)), "{chosen}");
        }
    }

    #[test]
    fn what_would_change_is_named() {
        let config = text("{tools: {exec: {mode: 'full', host: 'gateway'}}}");
        let actions = actions(InitPreset::DenyAll, Found::Missing, text("x ="), config);
        let difference = |key: &str, is: Option<Value>, wanted: Option<Value>| Difference {
            key: key.to_owned(),
            is,
            wanted,
        };
        assert!(matches!(actions[0], Action::Create(_)));
        assert!(matches!(actions[1], Action::Unreadable(_)));
        assert_eq!(
            actions[2],
            Action::Differs(vec![
                difference("tools.exec.security", None, Some(json!("deny"))),
                difference("tools.exec.ask", None, Some(json!("off"))),
                difference("tools.exec.mode", Some(json!("full")), None),
            ])
        );
    }
}
