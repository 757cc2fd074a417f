//! Key paths: `tools.exec.ask`, `agents.list[0].id`, `commands.allowFrom."*"`.

use std::fmt;

use serde_json::Value;

/// A text is no key path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a path such as tools.exec.ask, agents.list[0].id or commands.allowFrom.\"*\"")]
pub struct InvalidKeyPath;

/// One step of a key path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A member of an object.
    Key(String),
    /// An element of an array.
    Index(usize),
}

/// A key path, at most 32 steps long and never empty. Indices order by their number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<Step>);

const MAX_STEPS: usize = 32;

impl KeyPath {
    /// A path of plain keys, which may hold any characters.
    ///
    /// # Errors
    /// [`InvalidKeyPath`] for no step, or too many.
    pub fn new(steps: Vec<Step>) -> Result<Self, InvalidKeyPath> {
        if steps.is_empty() || steps.len() > MAX_STEPS || matches!(steps.first(), Some(Step::Index(_))) {
            return Err(InvalidKeyPath);
        }
        Ok(Self(steps))
    }

    /// Parses a path. Steps are joined by `.`, indices are `[n]`, a part in double quotes may hold anything
    /// (JSON's escapes apply).
    ///
    /// # Errors
    /// [`InvalidKeyPath`] when it does not read so.
    pub fn parse(text: &str) -> Result<Self, InvalidKeyPath> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let (key, after) = key_part(rest)?;
            steps.push(Step::Key(key));
            rest = after;
            while let Some(indexed) = rest.strip_prefix('[') {
                let (index, after) = indexed.split_once(']').ok_or(InvalidKeyPath)?;
                steps.push(Step::Index(parse_index(index)?));
                rest = after;
            }
            if steps.len() > MAX_STEPS {
                return Err(InvalidKeyPath);
            }
            if rest.is_empty() {
                return Self::new(steps);
            }
            rest = rest.strip_prefix('.').ok_or(InvalidKeyPath)?;
        }
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// This path with another one at its end.
    #[must_use]
    pub fn below(&self, path: &Self) -> Self {
        Self(self.0.iter().chain(&path.0).cloned().collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    let dot = if position == 0 { "" } else { "." };
                    write!(f, "{dot}{}", quote_part(key))?;
                }
            }
        }
        Ok(())
    }
}

/// A key as a part of a path: bare where that is unambiguous, else as a JSON string.
pub(super) fn quote_part(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(is_bare_character);
    if is_bare {
        key.to_owned()
    } else {
        Value::String(key.to_owned()).to_string()
    }
}

fn is_bare_character(character: char) -> bool {
    !character.is_control() && !character.is_whitespace() && !matches!(character, '.' | '[' | ']' | '"' | '*')
}

fn key_part(text: &str) -> Result<(String, &str), InvalidKeyPath> {
    if text.starts_with('"') {
        let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let key = strings.next().and_then(Result::ok).ok_or(InvalidKeyPath)?;
        let rest = text.get(strings.byte_offset()..).ok_or(InvalidKeyPath)?;
        return Ok((key, rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (key, rest) = text.split_at_checked(end).ok_or(InvalidKeyPath)?;
    let is_plain = |c: char| is_bare_character(c) || c == '*';
    if key.is_empty() || !key.chars().all(is_plain) {
        return Err(InvalidKeyPath);
    }
    Ok((key.to_owned(), rest))
}

fn parse_index(text: &str) -> Result<usize, InvalidKeyPath> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(InvalidKeyPath);
    }
    text.parse().map_err(|_too_large| InvalidKeyPath)
}
