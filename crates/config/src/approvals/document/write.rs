//! From a document to the bytes that every program leaves alone (`docs/spec/approvals-store.md#10-writing`).

use super::{
    json::{Json, Number},
    model::{Agent, Defaults, DenyRule, Document, Entry, Grant, Keyed, Members, PolicyFields, Socket},
};

/// Whether the socket's secrets are part of a rendering.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Kept,
    Removed,
}

impl Document {
    /// The text of the file: two spaces, line feeds, one at the end, known members first and in their order.
    pub fn print(&self) -> String {
        let mut text = self.to_json(Secrets::Kept).print();
        text.push('\n');
        text
    }

    /// The same document without any blank, for [`Self::parse_kept`].
    pub fn print_compact(&self) -> String {
        self.to_json(Secrets::Kept).print_compact()
    }

    /// The document for an answer: `socket` is reduced to its path, the token never leaves.
    pub fn redacted(&self) -> serde_json::Value {
        self.to_json(Secrets::Removed).to_value()
    }

    fn to_json(&self, secrets: Secrets) -> Json {
        let Self {
            socket,
            defaults,
            agents,
            extra,
        } = self;
        let mut members = vec![("version".to_owned(), Json::Number(Number::from(1_u64)))];
        let socket = socket.as_ref().and_then(|socket| match secrets {
            Secrets::Kept => Some(socket_json(socket)),
            Secrets::Removed => redacted_socket(socket),
        });
        push(&mut members, "socket", socket);
        let defaults = defaults.as_ref().map(|Defaults { policy, extra }| {
            let mut members = Members::new();
            push_policy(&mut members, *policy);
            members.extend(extra.iter().cloned());
            Json::Object(members)
        });
        push(&mut members, "defaults", defaults);
        let agents = agents.as_ref().map(|agents| {
            let agents = agents
                .iter()
                .map(|(name, agent)| (name.clone(), agent_json(agent)));
            Json::Object(agents.collect())
        });
        push(&mut members, "agents", agents);
        members.extend(extra.iter().cloned());
        Json::Object(members)
    }
}

fn socket_json(Socket { path, token, extra }: &Socket) -> Json {
    let mut members = Members::new();
    push_text(&mut members, "path", path.as_ref());
    let token = token
        .as_ref()
        .map(|token| Json::String(token.expose().to_owned()));
    push(&mut members, "token", token);
    members.extend(extra.iter().cloned());
    Json::Object(members)
}

/// Unknown members go too: nobody can say that they are no secrets.
fn redacted_socket(socket: &Socket) -> Option<Json> {
    let path = socket.path.clone()?;
    Some(Json::Object(vec![("path".to_owned(), Json::String(path))]))
}

fn push_policy(members: &mut Members, policy: PolicyFields) {
    let PolicyFields {
        security,
        ask,
        ask_fallback,
        auto_allow_skills,
    } = policy;
    let word = |word: &'static str| Json::String(word.to_owned());
    push(members, "security", security.map(|value| word(value.as_str())));
    push(members, "ask", ask.map(|value| word(value.as_str())));
    push(
        members,
        "askFallback",
        ask_fallback.map(|value| word(value.as_str())),
    );
    push(members, "autoAllowSkills", auto_allow_skills.map(Json::Bool));
}

fn agent_json(agent: &Agent) -> Json {
    let Agent {
        policy,
        allowlist,
        grants,
        denylist,
        extra,
    } = agent;
    let mut members = Members::new();
    push_policy(&mut members, *policy);
    push(
        &mut members,
        "allowlist",
        allowlist.as_ref().map(|list| list_json(list, push_entry)),
    );
    push(
        &mut members,
        "grants",
        grants.as_ref().map(|list| list_json(list, push_grant)),
    );
    push(
        &mut members,
        "denylist",
        denylist.as_ref().map(|list| list_json(list, push_deny_rule)),
    );
    members.extend(extra.iter().cloned());
    Json::Object(members)
}

fn list_json<T>(list: &[Keyed<T>], push_item: impl Fn(&mut Members, &T)) -> Json {
    let items = list.iter().map(|Keyed { id, item }| {
        let mut members = vec![("id".to_owned(), Json::String(id.as_str().to_owned()))];
        push_item(&mut members, item);
        Json::Object(members)
    });
    Json::Array(items.collect())
}

fn push_entry(members: &mut Members, entry: &Entry) {
    let Entry {
        pattern,
        arg_pattern,
        source,
        command_sha256,
        last_used_at,
        last_used_command,
        last_resolved_path,
        note,
        input,
        unguarded,
        confine,
        extra,
    } = entry;
    push_text(members, "pattern", Some(pattern));
    push_text(members, "argPattern", arg_pattern.as_ref());
    push_text(members, "source", source.as_ref());
    push(members, "lastUsedAt", last_used_at.clone().map(Json::Number));
    push_text(members, "lastUsedCommand", last_used_command.as_ref());
    push_text(members, "lastResolvedPath", last_resolved_path.as_ref());
    push_text(members, "commandSha256", command_sha256.as_ref());
    push_text(members, "note", note.as_ref());
    push(members, "input", input.map(Json::Bool));
    push(members, "unguarded", unguarded.map(Json::Bool));
    push(
        members,
        "confine",
        confine.as_ref().map(|confine| confine.json().clone()),
    );
    members.extend(extra.iter().cloned());
}

fn push_grant(members: &mut Members, grant: &Grant) {
    let Grant {
        pattern,
        arg_pattern,
        note,
        created_at_ms,
        expires_at_ms,
        max_uses,
        uses,
        sha256,
        session_key,
        directory,
        input,
        unguarded,
        confine,
        extra,
    } = grant;
    push_text(members, "pattern", Some(pattern));
    push_text(members, "argPattern", arg_pattern.as_ref());
    push_text(members, "note", note.as_ref());
    push(members, "createdAtMs", created_at_ms.clone().map(Json::Number));
    push(members, "expiresAtMs", expires_at_ms.clone().map(Json::Number));
    push(
        members,
        "maxUses",
        max_uses.map(|count| Json::Number(count.into())),
    );
    push(members, "uses", uses.clone().map(Json::Number));
    push_text(members, "sha256", sha256.as_ref());
    let session_key = session_key.as_ref().map(|key| key.as_str().to_owned());
    push_text(members, "sessionKey", session_key.as_ref());
    push_text(members, "directory", directory.as_ref());
    push(members, "input", input.map(Json::Bool));
    push(members, "unguarded", unguarded.map(Json::Bool));
    push(
        members,
        "confine",
        confine.as_ref().map(|confine| confine.json().clone()),
    );
    members.extend(extra.iter().cloned());
}

fn push_deny_rule(members: &mut Members, rule: &DenyRule) {
    let DenyRule {
        pattern,
        arg_pattern,
        reason,
        children,
        command_sha256,
        questions,
        expires_at_ms,
        extra,
    } = rule;
    push_text(members, "pattern", Some(pattern));
    push_text(members, "argPattern", arg_pattern.as_ref());
    push_text(members, "reason", reason.as_ref());
    push(members, "children", children.map(Json::Bool));
    push_text(members, "commandSha256", command_sha256.as_ref());
    push(members, "questions", questions.map(Json::Bool));
    push(members, "expiresAtMs", expires_at_ms.clone().map(Json::Number));
    members.extend(extra.iter().cloned());
}

fn push(members: &mut Members, name: &str, value: Option<Json>) {
    members.extend(value.map(|value| (name.to_owned(), value)));
}

fn push_text(members: &mut Members, name: &str, text: Option<&String>) {
    push(members, name, text.cloned().map(Json::String));
}
