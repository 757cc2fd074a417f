//! From bytes to a document, or to the reason why not (`docs/spec/approvals-store.md#4-reading`).

use countersign_domain::{InvalidName, SessionKey, is_plain_directory};
use countersign_policy::pattern::{has_wildcard, marker_of_digest};

use super::{
    confined::Confined,
    json::{self, Json, Number, pointer_step},
    model::{Defaults, DenyRule, Document, Entry, Grant, Members, PolicyFields, QUESTIONS, Socket},
    normalise::{self, Draft, DraftAgent, DraftDocument},
    problem::{MAX_BYTES, Refusal, RefusalReason, Warning},
    text::{is_lower_hex, trim},
};

/// A document that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The document, normalised: every item has an id, and `default` is merged into `main`.
    pub document: Document,
    /// What was odd about it.
    pub warnings: Vec<Warning>,
}

impl Document {
    /// Reads a document. Ids that are missing or stand twice are made from the content around them, so that
    /// reading the same bytes again gives the same ids.
    ///
    /// # Errors
    /// [`Refusal`] with the first reason found.
    pub fn parse(bytes: &[u8]) -> Result<Loaded, Refusal> {
        if bytes.len() > MAX_BYTES {
            return Err(Refusal::too_large(bytes.len() as u64));
        }
        Self::parse_kept(bytes)
    }

    /// Reads what was printed of a document that had been read before. With ids, and laid out in lines, that can be longer
    /// than a document may be.
    ///
    /// # Errors
    /// [`Refusal`] with the first reason found.
    pub fn parse_kept(bytes: &[u8]) -> Result<Loaded, Refusal> {
        if bytes.iter().copied().all(json::is_blank) {
            return Err(Refusal::whole(RefusalReason::Empty));
        }
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            return Err(Refusal::whole(RefusalReason::Bom));
        }
        let text = str::from_utf8(bytes).map_err(|_invalid| Refusal::whole(RefusalReason::NotUtf8))?;
        let parsed = json::parse(text).map_err(|_not_json| Refusal::whole(RefusalReason::Json))?;
        if let Some(pointer) = parsed.duplicate {
            return Err(refuse(RefusalReason::DuplicateKey, &pointer));
        }
        if let Some(pointer) = parsed.overflow {
            return Err(refuse(RefusalReason::NumberRange, &pointer));
        }
        let Json::Object(members) = parsed.value else {
            return Err(Refusal::whole(RefusalReason::NotObject));
        };
        let mut warnings = parsed
            .lone_surrogates
            .into_iter()
            .map(|pointer| Warning::LoneSurrogate { pointer })
            .collect();
        let document = normalise::normalise(root(members)?, &mut warnings);
        Ok(Loaded { document, warnings })
    }
}

fn refuse(reason: RefusalReason, pointer: &str) -> Refusal {
    Refusal {
        pointer: pointer.to_owned(),
        ..Refusal::whole(reason)
    }
}

fn root(members: Members) -> Result<DraftDocument, Refusal> {
    let mut object = Object::new(members, String::new());
    match object.take("version") {
        Some(Json::Number(number)) if number.as_f64().to_bits() == 1.0_f64.to_bits() => {}
        _ => return Err(refuse(RefusalReason::Version, "/version")),
    }
    let socket = object.object("socket")?.map(socket).transpose()?;
    let defaults = object
        .object("defaults")?
        .map(|mut object| {
            Ok(Defaults {
                policy: policy(&mut object)?,
                extra: object.rest(),
            })
        })
        .transpose()?;
    let agents = object.object("agents")?.map(agents).transpose()?;
    Ok(DraftDocument {
        socket,
        defaults,
        agents,
        extra: object.rest(),
    })
}

fn socket(mut object: Object) -> Result<Socket, Refusal> {
    Ok(Socket {
        path: not_blank(object.string("path")?),
        token: not_blank(object.string("token")?).map(countersign_domain::Secret::new),
        extra: object.rest(),
    })
}

fn not_blank(text: Option<String>) -> Option<String> {
    text.map(|text| trim(&text).to_owned())
        .filter(|text| !text.is_empty())
}

fn agents(object: Object) -> Result<Vec<(String, DraftAgent)>, Refusal> {
    let Object { members, pointer } = object;
    members
        .into_iter()
        .map(|(name, value)| {
            let pointer = format!("{pointer}/{}", pointer_step(&name));
            // JavaScript readers would set the prototype instead of a member.
            if name == "__proto__" {
                return Err(refuse(RefusalReason::Value, &pointer));
            }
            let Json::Object(members) = value else {
                return Err(refuse(RefusalReason::Type, &pointer));
            };
            Ok((name, agent(Object::new(members, pointer))?))
        })
        .collect()
}

fn agent(mut object: Object) -> Result<DraftAgent, Refusal> {
    Ok(DraftAgent {
        policy: policy(&mut object)?,
        allowlist: object.list("allowlist", entry)?,
        grants: object.list("grants", |item, pointer| grant(Object::of(item, pointer)?))?,
        denylist: object.list("denylist", |item, pointer| deny_rule(Object::of(item, pointer)?))?,
        extra: object.rest(),
    })
}

fn policy(object: &mut Object) -> Result<PolicyFields, Refusal> {
    Ok(PolicyFields {
        security: object.word("security")?,
        ask: object.word("ask")?,
        ask_fallback: object.word("askFallback")?,
        auto_allow_skills: object.boolean("autoAllowSkills")?,
    })
}

fn entry(item: Json, pointer: String) -> Result<Draft<Entry>, Refusal> {
    if let Json::String(pattern) = item {
        let pattern = trim(&pattern).to_owned();
        if pattern.is_empty() {
            return Err(refuse(RefusalReason::BlankPattern, &pointer));
        }
        let item = Entry {
            pattern,
            ..Entry::default()
        };
        return Ok(Draft { id: None, item });
    }
    let mut object = Object::of(item, pointer)?;
    let id = object.string("id")?;
    // A later release kept the text beside its digest; every later reader drops it.
    object.string("commandText")?;
    Ok(Draft {
        id,
        item: Entry {
            pattern: object.pattern()?,
            arg_pattern: object.string("argPattern")?,
            source: object.string("source")?,
            command_sha256: object.string("commandSha256")?,
            last_used_at: object.number("lastUsedAt")?,
            last_used_command: object.string("lastUsedCommand")?,
            last_resolved_path: object.string("lastResolvedPath")?,
            note: object.string("note")?,
            input: object.boolean("input")?,
            unguarded: object.boolean("unguarded")?,
            confine: object.take("confine").map(Confined::read),
            extra: object.rest(),
        },
    })
}

fn grant(mut object: Object) -> Result<Draft<Grant>, Refusal> {
    let id = object.string("id")?;
    let item = Grant {
        pattern: object.pattern()?,
        arg_pattern: object.string("argPattern")?,
        note: object.string("note")?,
        created_at_ms: object.number("createdAtMs")?,
        expires_at_ms: object.number("expiresAtMs")?,
        max_uses: object.max_uses()?,
        uses: object.number("uses")?,
        sha256: object.sha256()?,
        session_key: object.session_key()?,
        directory: object.directory()?,
        input: object.boolean("input")?,
        unguarded: object.boolean("unguarded")?,
        confine: object.take("confine").map(Confined::read),
        extra: Members::new(),
    };
    // Without a limit it would be an entry that lasts for ever, which a typo must not make.
    if !item.is_limited() {
        return Err(refuse(RefusalReason::Value, &object.pointer));
    }
    let item = Grant {
        extra: object.rest(),
        ..item
    };
    Ok(Draft { id, item })
}

fn deny_rule(mut object: Object) -> Result<Draft<DenyRule>, Refusal> {
    let (id, pattern) = (object.string("id")?, object.pattern()?);
    let arg_pattern = object.string("argPattern")?;
    let children = object.boolean("children")?;
    // A program is masked for all arguments or for none.
    let is_whole = arg_pattern.as_deref().is_none_or(|text| trim(text).is_empty());
    if children == Some(true) && !(is_whole && may_have_children(&pattern)) {
        return Err(object.wrong(RefusalReason::Value, "children"));
    }
    let command_sha256 = object.digest("commandSha256")?;
    let questions = object.boolean("questions")?;
    let expires_at_ms = object.number("expiresAtMs")?;
    // A rule about a program does not end, and one about a text or about questions says nothing else.
    if questions == Some(true) {
        let is_alone = trim(&pattern) == QUESTIONS && is_whole && children != Some(true);
        // Muting for good is a setting: `ask` is `off`.
        if !is_alone || command_sha256.is_some() || expires_at_ms.is_none() {
            return Err(object.wrong(RefusalReason::Value, "questions"));
        }
    } else if let Some(digest) = &command_sha256 {
        let marker = marker_of_digest(digest);
        if trim(&pattern) != marker || !is_whole || children == Some(true) {
            return Err(object.wrong(RefusalReason::Value, "commandSha256"));
        }
    } else if expires_at_ms.is_some() {
        return Err(object.wrong(RefusalReason::Value, "expiresAtMs"));
    }
    Ok(Draft {
        id,
        item: DenyRule {
            pattern,
            arg_pattern,
            reason: object.string("reason")?,
            children,
            command_sha256,
            questions,
            expires_at_ms,
            extra: object.rest(),
        },
    })
}

/// Whether all programs that a pattern matches can be listed, so that a deny rule with it can have `children`: it is a name, a
/// path, or has its wildcards in the last component, behind `**/` or a directory.
pub fn may_have_children(pattern: &str) -> bool {
    let pattern = trim(pattern);
    let directories = pattern
        .strip_prefix("**/")
        .unwrap_or(pattern)
        .rsplit_once('/')
        .map_or("", |(directories, _name)| directories);
    pattern != "*" && !pattern.ends_with('/') && !pattern.ends_with("**") && !has_wildcard(directories)
}

/// The members of one object that have not been taken out yet.
struct Object {
    members: Members,
    pointer: String,
}

impl Object {
    const fn new(members: Members, pointer: String) -> Self {
        Self { members, pointer }
    }

    fn of(value: Json, pointer: String) -> Result<Self, Refusal> {
        if let Json::Object(members) = value {
            Ok(Self::new(members, pointer))
        } else {
            Err(refuse(RefusalReason::Type, &pointer))
        }
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        let at = self.members.iter().position(|(member, _value)| member == name)?;
        Some(self.members.remove(at).1)
    }

    fn rest(self) -> Members {
        self.members
    }

    fn wrong(&self, reason: RefusalReason, name: &str) -> Refusal {
        refuse(reason, &format!("{}/{name}", self.pointer))
    }

    fn object(&mut self, name: &str) -> Result<Option<Self>, Refusal> {
        self.take(name)
            .map(|value| Self::of(value, format!("{}/{name}", self.pointer)))
            .transpose()
    }

    fn list<T>(
        &mut self,
        name: &str,
        read: impl Fn(Json, String) -> Result<T, Refusal>,
    ) -> Result<Option<Vec<T>>, Refusal> {
        let pointer = format!("{}/{name}", self.pointer);
        match self.take(name) {
            None => Ok(None),
            Some(Json::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| read(item, format!("{pointer}/{index}")))
                .collect::<Result<_, _>>()
                .map(Some),
            Some(_) => Err(refuse(RefusalReason::Type, &pointer)),
        }
    }

    fn string(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(RefusalReason::Type, name)),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<Number>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Number(number)) => Ok(Some(number)),
            Some(_) => Err(self.wrong(RefusalReason::Type, name)),
        }
    }

    fn boolean(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(RefusalReason::Type, name)),
        }
    }

    fn word<T: std::str::FromStr<Err = InvalidName>>(&mut self, name: &str) -> Result<Option<T>, Refusal> {
        self.string(name)?
            .map(|word| {
                word.parse()
                    .map_err(|_unknown| self.wrong(RefusalReason::Value, name))
            })
            .transpose()
    }

    fn pattern(&mut self) -> Result<String, Refusal> {
        let pattern = self
            .string("pattern")?
            .ok_or_else(|| refuse(RefusalReason::MissingPattern, &self.pointer))?;
        if trim(&pattern).is_empty() {
            return Err(self.wrong(RefusalReason::BlankPattern, "pattern"));
        }
        Ok(pattern)
    }

    fn max_uses(&mut self) -> Result<Option<u64>, Refusal> {
        self.number("maxUses")?
            .map(|number| {
                let count = number.as_count().filter(|count| *count >= 1);
                count.ok_or_else(|| self.wrong(RefusalReason::Value, "maxUses"))
            })
            .transpose()
    }

    fn session_key(&mut self) -> Result<Option<SessionKey>, Refusal> {
        self.string("sessionKey")?
            .map(|key| {
                SessionKey::parse(key).map_err(|_invalid| self.wrong(RefusalReason::Value, "sessionKey"))
            })
            .transpose()
    }

    fn directory(&mut self) -> Result<Option<String>, Refusal> {
        let directory = self.string("directory")?;
        match directory {
            // One that reads in two ways would cover what nobody meant.
            Some(path) if !is_plain_directory(&path) => Err(self.wrong(RefusalReason::Value, "directory")),
            directory => Ok(directory),
        }
    }

    fn sha256(&mut self) -> Result<Option<String>, Refusal> {
        self.digest("sha256")
    }

    fn digest(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        self.string(name)?
            .map(|digest| {
                let lower = digest.to_ascii_lowercase();
                if is_lower_hex(&lower, 64) {
                    Ok(lower)
                } else {
                    Err(self.wrong(RefusalReason::Value, name))
                }
            })
            .transpose()
    }
}
