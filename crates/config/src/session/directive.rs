//! Directives in chat text: `/exec …`, `/elevated …` (or `/elev`) and `/approve …`
//! (`docs/spec/exec-tool.md#5-sessions-exec-elevated`).
//!
//! A directive is a word of its own and takes what it needs from the rest of its line. Quoted lines (`> …`) and code
//! blocks are another author's words and hold no directive. A directive that cannot be meant says so and changes
//! nothing. It is never taken for ordinary text, because a typing error must not make a rule laxer.

use std::{fmt, ops::Range, str::FromStr};

use countersign_domain::{ApprovalDecision, ApprovalId, Ask, HostChoice, InvalidName, Security};
use countersign_policy::command::characters::is_escaped_in_display;

use super::overrides::ExecOverrides;

use crate::settings::ElevatedLevel;

/// So many directives of one text are looked at; the rest is text.
pub const MAX_DIRECTIVES: usize = 8;

/// The longest name of a node.
const MAX_NODE_CHARS: usize = 256;

/// So much of a wrong word is repeated.
const SHOWN_CHARS: usize = 40;

/// The shortest beginning of an approval's id that names it.
const SLUG_CHARS: usize = 8;

/// A chat text, taken apart into its directives and what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The directives in the order in which they stand.
    pub directives: Vec<Directive>,
    /// The text without them; the text itself when there are none.
    pub cleaned: String,
}

/// One directive, either understood or with what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// `/exec` alone: shows what is in effect.
    ShowExec,
    /// `/exec` with options; never none of them.
    SetExec(ExecOverrides),
    /// `/exec` with something that cannot be meant.
    BadExec(BadOption),
    /// `/elevated` alone: the level.
    ShowElevated,
    /// `/elevated` with a level.
    SetElevated(ElevatedLevel),
    /// `/elevated` with another word.
    BadElevated(Typed),
    /// `/approve` with an approval and a decision.
    Approve {
        /// The id of the approval, or 8 or more of its first characters.
        approval: String,
        /// The answer as typed; `always` stands for `allow-always`.
        decision: ApprovalDecision,
    },
    /// `/approve` without an approval or a decision, or with one that cannot be meant.
    BadApprove,
}

impl Directive {
    /// Whether it answers for a person, so that the token that brings it must be one that may.
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Approve { .. } | Self::BadApprove => true,
            Self::ShowExec
            | Self::SetExec(_)
            | Self::BadExec(_)
            | Self::ShowElevated
            | Self::SetElevated(_)
            | Self::BadElevated(_) => false,
        }
    }
}

/// Why an `/exec` cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadOption {
    /// A value that the key does not have.
    Value {
        /// The option that got the wrong value.
        key: ExecKey,
        /// What was typed in its place.
        typed: Typed,
    },
    /// A key twice: it would be unclear which was meant.
    Twice(ExecKey),
    /// A key that there is not.
    Unknown(Typed),
}

/// A wrong word as it may be shown: short, and without anything unseen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed(String);

impl Typed {
    fn of(word: &str) -> Self {
        let visible = |character: &char| !is_escaped_in_display(*character);
        Self(word.chars().filter(visible).take(SHOWN_CHARS).collect())
    }
}

impl fmt::Display for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What `/exec` can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecKey {
    /// `host=`: where the session's commands run.
    Host,
    /// `security=`: the enforcement level that the session wants.
    Security,
    /// `ask=`: when the session wants a person to be asked.
    Ask,
    /// `node=`: which node runs the session's commands.
    Node,
}

impl ExecKey {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Host, Self::Security, Self::Ask, Self::Node];

    /// How it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Security => "security",
            Self::Ask => "ask",
            Self::Node => "node",
        }
    }

    /// What it can be, for people.
    pub const fn allowed(self) -> &'static str {
        match self {
            Self::Host => "auto, sandbox, gateway or node",
            Self::Security => "deny, allowlist or full",
            Self::Ask => "off, on-miss or always",
            Self::Node => "the id, name or address of a node, without spaces",
        }
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|key| key.as_str().eq_ignore_ascii_case(word))
    }
}

/// Reads a text. It takes time in proportion to its length.
pub fn parse(text: &str) -> Parsed {
    let mut directives = Vec::new();
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in text.split('\n') {
        let start = line.trim_start();
        if start.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !start.starts_with('>') {
            let taken = take_from(line, &mut directives);
            if !taken.is_empty() {
                lines.extend(without(line, &taken));
                continue;
            }
        }
        lines.push(line.to_owned());
    }
    let cleaned = if directives.is_empty() {
        text.to_owned()
    } else {
        lines.join("\n").trim().to_owned()
    };
    Parsed { directives, cleaned }
}

/// The directives of a line, and where they stand.
fn take_from(line: &str, directives: &mut Vec<Directive>) -> Vec<Range<usize>> {
    let mut words = Words::of(line);
    let mut taken = Vec::new();
    while let Some(word) = words.next() {
        if directives.len() == MAX_DIRECTIVES {
            break;
        }
        let Some((name, start)) = Name::of(word.text) else {
            continue;
        };
        words.push_back(start.map(|text| Word { text, end: word.end }));
        let begin = word.end.saturating_sub(word.text.len());
        let (directive, end) = match name {
            Name::Exec => exec(&mut words),
            Name::Elevated => elevated(&mut words),
            Name::Approve => approve(&mut words),
        };
        directives.push(directive);
        taken.push(begin..end.unwrap_or(word.end));
    }
    taken
}

/// A line without these parts of it; `None` when nothing else is there.
fn without(line: &str, taken: &[Range<usize>]) -> Option<String> {
    let mut kept = Vec::new();
    let mut from = 0;
    for (position, part) in taken.iter().enumerate() {
        let piece = line.get(from..part.start).unwrap_or_default();
        kept.push(if position == 0 {
            piece.trim_end()
        } else {
            piece.trim()
        });
        from = part.end;
    }
    kept.push(line.get(from..).unwrap_or_default().trim_start());
    kept.retain(|piece| !piece.trim().is_empty());
    (!kept.is_empty()).then(|| kept.join(" "))
}

/// Which directive a word is.
#[derive(Debug, Clone, Copy)]
enum Name {
    Exec,
    Elevated,
    Approve,
}

impl Name {
    /// The directive, and what follows its name behind a colon in the same word.
    fn of(word: &str) -> Option<(Self, Option<&str>)> {
        let (name, rest) = match word.split_once(':') {
            Some((name, rest)) => (name, Some(rest).filter(|rest| !rest.is_empty())),
            None => (word, None),
        };
        let names = [
            ("/exec", Self::Exec),
            ("/elevated", Self::Elevated),
            ("/elev", Self::Elevated),
            ("/approve", Self::Approve),
        ];
        let found = names
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some((found.1, rest))
    }
}

/// Where a directive ends; `None` for with its name.
type End = Option<usize>;

fn exec(words: &mut Words<'_>) -> (Directive, End) {
    let mut set = ExecOverrides::default();
    let mut bad = None;
    let mut end = None;
    while let Some(word) = words.peek() {
        let Some(read) = read_option(word.text) else { break };
        words.next();
        end = Some(word.end);
        let result = read.and_then(|(key, value)| put(&mut set, key, value));
        bad = bad.or_else(|| result.err());
    }
    let directive = match bad {
        Some(bad) => Directive::BadExec(bad),
        None if end.is_none() => Directive::ShowExec,
        None => Directive::SetExec(set),
    };
    (directive, end)
}

/// A word as an option of `/exec`; `None` when it is text that follows.
fn read_option(word: &str) -> Option<Result<(ExecKey, &str), BadOption>> {
    let at = word.find(['=', ':'])?;
    let (key, rest) = word.split_at_checked(at)?;
    let is_equals = rest.starts_with('=');
    let value = rest.get(1..).unwrap_or_default();
    if let Some(key) = ExecKey::named(key) {
        return Some(Ok((key, value)));
    }
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    // `note: later` and `https://…` are text.
    let looks_meant = is_equals || (!value.is_empty() && !value.starts_with('/'));
    (is_key && looks_meant).then(|| Err(BadOption::Unknown(Typed::of(key))))
}

fn put(set: &mut ExecOverrides, key: ExecKey, value: &str) -> Result<(), BadOption> {
    let bad = || BadOption::Value {
        key,
        typed: Typed::of(value),
    };
    let word = value.to_ascii_lowercase();
    let is_new = match key {
        ExecKey::Host => set.host.replace(one_of::<HostChoice>(&word, bad)?).is_none(),
        ExecKey::Security => set.security.replace(one_of::<Security>(&word, bad)?).is_none(),
        ExecKey::Ask => set.ask.replace(one_of::<Ask>(&word, bad)?).is_none(),
        ExecKey::Node => {
            let node = node_name(value).ok_or_else(bad)?;
            set.node.replace(node).is_none()
        }
    };
    if is_new {
        Ok(())
    } else {
        Err(BadOption::Twice(key))
    }
}

fn one_of<T: FromStr<Err = InvalidName>>(word: &str, bad: impl Fn() -> BadOption) -> Result<T, BadOption> {
    T::from_str(word).map_err(|_unknown| bad())
}

/// A node as it may be named: nothing unseen in it, and not without end.
pub fn node_name(text: &str) -> Option<String> {
    let is_short = text.chars().count() <= MAX_NODE_CHARS;
    let is_seen = !text.trim().is_empty() && !text.chars().any(is_escaped_in_display);
    (is_short && is_seen).then(|| text.to_owned())
}

fn elevated(words: &mut Words<'_>) -> (Directive, End) {
    let Some(word) = words.next_argument() else {
        return (Directive::ShowElevated, None);
    };
    let directive = match ElevatedLevel::from_str(&word.text.to_ascii_lowercase()) {
        Ok(level) => Directive::SetElevated(level),
        Err(_unknown) => Directive::BadElevated(Typed::of(word.text)),
    };
    (directive, Some(word.end))
}

fn approve(words: &mut Words<'_>) -> (Directive, End) {
    let Some(id) = words.next_argument() else {
        return (Directive::BadApprove, None);
    };
    let Some(decision) = words.next_argument() else {
        return (Directive::BadApprove, Some(id.end));
    };
    let approval = id.text.to_ascii_lowercase();
    let is_name = approval.len() >= SLUG_CHARS && ApprovalId::parse(approval.as_str()).is_ok();
    let directive = match decision_of(decision.text).filter(|_| is_name) {
        Some(decision) => Directive::Approve { approval, decision },
        None => Directive::BadApprove,
    };
    (directive, Some(decision.end))
}

fn decision_of(word: &str) -> Option<ApprovalDecision> {
    match word.to_ascii_lowercase().as_str() {
        "always" => Some(ApprovalDecision::AllowAlways),
        word => ApprovalDecision::from_str(word).ok(),
    }
}

/// A word and where it ends in its line.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    end: usize,
}

/// The words of a line, one of which may be put back.
struct Words<'a> {
    line: &'a str,
    at: usize,
    back: Option<Word<'a>>,
}

impl<'a> Words<'a> {
    const fn of(line: &'a str) -> Self {
        Self {
            line,
            at: 0,
            back: None,
        }
    }

    fn push_back(&mut self, word: Option<Word<'a>>) {
        self.back = word;
    }

    fn next(&mut self) -> Option<Word<'a>> {
        if let Some(word) = self.back.take() {
            return Some(word);
        }
        let rest = self.line.get(self.at..)?;
        let start = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let rest = self.line.get(start..)?;
        let end = start + rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = end;
        let text = self.line.get(start..end)?;
        Some(Word { text, end })
    }

    fn peek(&mut self) -> Option<Word<'a>> {
        let word = self.next();
        self.back = word;
        word
    }

    /// The next word unless it is a directive itself.
    fn next_argument(&mut self) -> Option<Word<'a>> {
        self.peek().filter(|word| Name::of(word.text).is_none())?;
        self.next()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(host: Option<HostChoice>, security: Option<Security>, ask: Option<Ask>) -> Directive {
        Directive::SetExec(ExecOverrides {
            host,
            security,
            ask,
            node: None,
        })
    }

    #[track_caller]
    fn check(text: &str, directives: &[Directive], cleaned: &str) {
        let parsed = parse(text);
        assert_eq!(parsed.directives, directives, "{text:?}");
        assert_eq!(parsed.cleaned, cleaned, "{text:?}");
    }

    #[track_caller]
    fn is_text(text: &str) {
        check(text, &[], text);
    }

    #[test]
    fn options_come_in_any_order_and_either_spelling() {
        let both = set(Some(HostChoice::Gateway), Some(Security::Allowlist), None);
        check(
            "/exec host=gateway security=allowlist",
            std::slice::from_ref(&both),
            "",
        );
        check(
            "/exec security:allowlist host:gateway",
            std::slice::from_ref(&both),
            "",
        );
        check(
            "/EXEC Host=GATEWAY Security=AllowList",
            std::slice::from_ref(&both),
            "",
        );
        check(
            "/exec: host=gateway security=allowlist",
            std::slice::from_ref(&both),
            "",
        );
        check("/exec:host=gateway security=allowlist", &[both], "");
        check(
            "/exec ask=on-miss node=mac-1",
            &[Directive::SetExec(ExecOverrides {
                ask: Some(Ask::OnMiss),
                node: Some("mac-1".to_owned()),
                ..ExecOverrides::default()
            })],
            "",
        );
    }

    #[test]
    fn the_text_around_is_returned() {
        let off = || set(None, None, Some(Ask::Off));
        check("please /exec ask=off build it", &[off()], "please build it");
        check(
            "first line\n/exec ask=off\nlast line\n",
            &[off()],
            "first line\nlast line",
        );
        check("  indented\nnow /exec ask=off", &[off()], "indented\nnow");
        check(
            "/exec ask=off note: see https://x.y/z",
            &[off()],
            "note: see https://x.y/z",
        );
        check("/exec", &[Directive::ShowExec], "");
        check("what is /exec now?", &[Directive::ShowExec], "what is now?");
        check("/exec\nhost=gateway", &[Directive::ShowExec], "host=gateway");
    }

    #[test]
    fn a_level_and_an_answer_are_read() {
        check("/elevated on", &[Directive::SetElevated(ElevatedLevel::On)], "");
        check(
            "/elev FULL do it",
            &[Directive::SetElevated(ElevatedLevel::Full)],
            "do it",
        );
        check("/elev:ask", &[Directive::SetElevated(ElevatedLevel::Ask)], "");
        check("/elevated", &[Directive::ShowElevated], "");
        check(
            "/elevated /exec",
            &[Directive::ShowElevated, Directive::ShowExec],
            "",
        );
        let answer = |decision| Directive::Approve {
            approval: "3f2a9c14".to_owned(),
            decision,
        };
        check(
            "/approve 3F2A9C14 allow-once thanks",
            &[answer(ApprovalDecision::AllowOnce)],
            "thanks",
        );
        check(
            "/approve 3f2a9c14 ALWAYS",
            &[answer(ApprovalDecision::AllowAlways)],
            "",
        );
        check("/approve 3f2a9c14 deny", &[answer(ApprovalDecision::Deny)], "");
    }

    #[test]
    fn what_cannot_be_meant_is_no_text() {
        let bad = |key, typed: &str| {
            Directive::BadExec(BadOption::Value {
                key,
                typed: Typed::of(typed),
            })
        };
        check("/exec host=build-01", &[bad(ExecKey::Host, "build-01")], "");
        check("/exec security=", &[bad(ExecKey::Security, "")], "");
        check("/exec ask=off, host=auto", &[bad(ExecKey::Ask, "off,")], "");
        check(
            "/exec security=f\u{200b}ull",
            &[bad(ExecKey::Security, "full")],
            "",
        );
        check("/exec node=a\u{202e}b", &[bad(ExecKey::Node, "ab")], "");
        check(
            "/exec ask=off ask=always",
            &[Directive::BadExec(BadOption::Twice(ExecKey::Ask))],
            "",
        );
        for text in ["/exec secuirty=deny ask=off", "/exec ask=off secuirty:deny"] {
            check(
                text,
                &[Directive::BadExec(BadOption::Unknown(Typed::of("secuirty")))],
                "",
            );
        }
        check(
            "/elevated please",
            &[Directive::BadElevated(Typed::of("please"))],
            "",
        );
        for text in [
            "/approve",
            "/approve 3f2a9c14",
            "/approve x deny",
            "/approve 3f2a9c14 yes",
            "/approve ../../../x deny",
        ] {
            assert_eq!(parse(text).directives, [Directive::BadApprove], "{text}");
        }
    }

    #[test]
    fn look_alikes_quotes_and_code_hold_no_directive() {
        for text in [
            "/execute host=gateway",
            "x/exec host=gateway",
            "\"/exec host=gateway\"",
            "`/exec host=gateway`",
            "> /exec security=full",
            "  > he said /elevated full",
            "```\n/exec security=full\n```",
            "```\n/exec security=full",
            "> quoted\r/exec security=full",
            "\u{ff0f}exec security=full",
            "/\u{435}x\u{435}c security=full",
            "/e\u{200b}xec security=full",
            "\u{200b}/exec security=full",
            "\u{feff}/exec security=full",
            "/\u{17f}xec",
            "(/exec security=full)",
            "https://x/exec security=full",
            "",
        ] {
            is_text(text);
        }
        check(
            "```\n/exec ask=off\n```\n/exec ask=always",
            &[set(None, None, Some(Ask::Always))],
            "```\n/exec ask=off\n```",
        );
    }

    #[test]
    fn only_so_many_directives_are_taken() {
        let parsed = parse(&"/exec ".repeat(20));
        assert_eq!(parsed.directives.len(), MAX_DIRECTIVES);
        assert_eq!(parsed.cleaned, ["/exec"; 20 - MAX_DIRECTIVES].join(" "));
    }

    fn overrides() -> impl Strategy<Value = ExecOverrides> {
        let host = proptest::option::of(proptest::sample::select(HostChoice::ALL));
        let security = proptest::option::of(proptest::sample::select(Security::ALL));
        let ask = proptest::option::of(proptest::sample::select(Ask::ALL));
        let node = proptest::option::of("[a-zA-Z0-9._:=-]{1,20}");
        (host, security, ask, node).prop_map(|(host, security, ask, node)| ExecOverrides {
            host,
            security,
            ask,
            node,
        })
    }

    /// Words without any directive.
    fn plain() -> impl Strategy<Value = String> {
        "[a-z]{1,8}( [a-z]{1,8}){0,3}"
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_rest_is_left(
            set in overrides(), before in plain(), after in plain(), line_break in any::<bool>()
        ) {
            let mut words = vec!["/exec".to_owned()];
            words.extend(set.host.map(|host| format!("host={host}")));
            words.extend(set.ask.map(|ask| format!("ask:{ask}")));
            words.extend(set.node.as_ref().map(|node| format!("node={node}")));
            words.extend(set.security.map(|security| format!("security={security}")));
            let break_ = if line_break { "\n" } else { " " };
            let text = format!("{before}{break_}{} {after}", words.join(" "));
            let parsed = parse(&text);
            let expect = if set == ExecOverrides::default() { Directive::ShowExec } else { Directive::SetExec(set) };
            prop_assert_eq!(parsed.directives, [expect]);
            prop_assert_eq!(parsed.cleaned, format!("{before}{break_}{after}"));
        }

        #[test]
        fn nothing_makes_it_panic_and_text_without_a_slash_stays(text in "\\PC{0,80}|[ \n`>/execlvatdpro=:a-z\u{200b}]{0,120}") {
            let parsed = parse(&text);
            prop_assert!(parsed.directives.len() <= MAX_DIRECTIVES);
            prop_assert!(parsed.cleaned.len() <= text.len());
            if parsed.directives.is_empty() {
                prop_assert_eq!(&parsed.cleaned, &text);
            }
            if !text.contains('/') {
                prop_assert!(parsed.directives.is_empty());
            }
        }
    }
}
