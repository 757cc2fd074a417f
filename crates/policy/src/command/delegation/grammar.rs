//! What a program may be told without choosing what it starts, loads or is configured by, as a positive grammar (D1):
//! what is not in it is not known to be harmless.
//!
//! Names are compared whole. Most of these programs accept the beginning of a long name too, and which one that is
//! depends on names that are not in here, so a beginning is unknown.

use std::collections::HashMap;

/// How a program reads its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// Options of the program stand before its subcommand, others behind, and `--no-` may stand before a name.
    Git,
    /// Options of the program stand anywhere before `--`, and a flag may be given a value: `--flag=true`.
    Anywhere,
    /// Whole names behind one dash or two.
    Names,
    /// The expression of `find`: whole names behind one dash, and `--` ends nothing.
    Predicates,
}

/// The options and subcommands of a program that are known to be harmless.
///
/// Options are words of a text: `-v`, `-n:` with a value, `-U?` with one that is glued to it if there is any, and the same
/// of long names. A value behind a colon is a word that begins with no dash; with `:t` it is text that may; with `:o` it
/// is a file that the program writes; with `:d` it is the directory that the program enters first, from which it writes;
/// with words behind the colon (`-s:ours,subtree`) it is one of these. `-#` is a number with a dash, `+` ends the options
/// at the first operand, `=a,b` names the words that the first operand may be, `.` allows no operand, and `>` says that
/// operands may be written to.
#[derive(Debug)]
pub(super) struct Grammar {
    pub(super) programs: &'static [&'static str],
    pub(super) reader: Reader,
    pub(super) options: &'static [&'static str],
    /// By the names that the subcommand may have, one of two words among them. Without any, operands come at once.
    pub(super) commands: &'static [(&'static str, &'static [&'static str])],
    /// What is to be seen of the whole call besides.
    pub(super) check: fn(&Call<'_>) -> bool,
}

/// A check for programs that need none.
pub(super) const fn any_call(_call: &Call<'_>) -> bool {
    true
}

/// A call taken apart.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    /// The subcommand as the grammar names it.
    pub(super) command: &'static str,
    /// Options without their dashes, with their values.
    pub(super) options: Vec<(&'a str, Option<&'a str>)>,
    pub(super) operands: Vec<&'a str>,
    /// How many of the operands stand before `--`; all of them without it.
    pub(super) before_dashes: Option<usize>,
    /// Files that it names to be written.
    outputs: Vec<&'a str>,
    /// Directories that it enters one after another before it writes.
    directories: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// The values of an option under any of its names.
    pub(super) fn values(&self, names: &[&str]) -> impl Iterator<Item = &'a str> {
        self.options
            .iter()
            .filter(|(name, _)| names.contains(name))
            .filter_map(|(_, value)| *value)
    }

    /// The files that it names to be written, from where it starts. A directory that it enters is one of them: what it
    /// writes may have its name from somewhere else.
    pub(super) fn written(&self) -> Vec<String> {
        let entered = self
            .directories
            .iter()
            .fold(String::new(), |base, next| below(&base, next));
        let files = self.outputs.iter().map(|file| below(&entered, file));
        files
            .chain((!entered.is_empty()).then(|| entered.clone()))
            .collect()
    }

    /// The same call, whose first operand is written too.
    pub(super) fn with_first_written(mut self) -> Self {
        self.outputs.extend(self.operands.first());
        self
    }

    /// The operands behind `--`.
    pub(super) fn behind_dashes(&self) -> &[&'a str] {
        self.before_dashes
            .and_then(|at| self.operands.get(at..))
            .unwrap_or_default()
    }
}

/// A path as it is from a directory.
fn below(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{directory}/{path}")
    }
}

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// What is glued to it, if anything.
    Glued,
    Value,
    Text,
    Output,
    Directory,
    /// One of these words, with commas between them.
    OneOf(&'static str),
}

#[derive(Debug, Default)]
struct Options {
    letters: Vec<(char, Takes)>,
    names: HashMap<&'static str, Takes>,
    takes_numbers: bool,
    ends_at_operand: bool,
    writes_operands: bool,
    takes_operands: Operands,
}

#[derive(Debug, Default)]
enum Operands {
    #[default]
    Any,
    None,
    FirstOf(Vec<&'static str>),
}

/// A grammar in a form to look things up in.
#[derive(Debug)]
pub(super) struct Known {
    reader: Reader,
    options: Options,
    commands: HashMap<&'static str, (&'static str, Options)>,
    /// First words of subcommands of two words.
    groups: Vec<&'static str>,
    check: fn(&Call<'_>) -> bool,
}

impl Known {
    pub(super) fn of(grammar: &Grammar) -> Self {
        let mut commands = HashMap::new();
        let mut groups = Vec::new();
        for (names, options) in grammar.commands {
            for name in names.split(',') {
                groups.extend(name.split_once(' ').map(|(group, _)| group));
                commands.insert(name, (name, Options::of(options, grammar.reader)));
            }
        }
        Self {
            reader: grammar.reader,
            options: Options::of(grammar.options, grammar.reader),
            commands,
            groups,
            check: grammar.check,
        }
    }

    pub(super) fn has_command(&self, name: &str) -> bool {
        self.commands.contains_key(name) || self.groups.contains(&name)
    }

    /// The call, if every word of it is known.
    pub(super) fn read<'a>(&self, words: &[&'a str]) -> Option<Call<'a>> {
        let mut call = Call::default();
        let mut at = 0;
        if self.commands.is_empty() {
            self.read_words(words, &[&self.options], &mut call)?;
        } else if self.read_own_options(words, &mut at, &mut call)? {
            let (command, options, behind) = self.command(words.get(at..)?)?;
            call.command = command;
            let sets: &[&Options] = match self.reader {
                Reader::Git => &[options],
                Reader::Anywhere | Reader::Names | Reader::Predicates => &[options, &self.options],
            };
            self.read_words(behind, sets, &mut call)?;
        }
        (self.check)(&call).then_some(call)
    }

    /// Options before the subcommand; whether there is one.
    fn read_own_options<'a>(&self, words: &[&'a str], at: &mut usize, call: &mut Call<'a>) -> Option<bool> {
        while let Some(word) = words.get(*at) {
            if !is_option(word) {
                return Some(true);
            }
            if *word == "--" {
                return None;
            }
            *at += 1;
            self.read_option(word, words, at, &[&self.options], call)?;
        }
        Some(false)
    }

    fn command<'s, 'a, 'w>(
        &'s self,
        words: &'w [&'a str],
    ) -> Option<(&'static str, &'s Options, &'w [&'a str])> {
        let (first, behind) = words.split_first()?;
        if self.groups.contains(first)
            && let Some((second, behind)) = behind.split_first()
            && let Some((name, options)) = self.commands.get(format!("{first} {second}").as_str())
        {
            return Some((name, options, behind));
        }
        let (name, options) = self.commands.get(*first)?;
        Some((name, options, behind))
    }

    fn read_words<'a>(&self, words: &[&'a str], sets: &[&Options], call: &mut Call<'a>) -> Option<()> {
        let own = sets.first()?;
        let mut at = 0;
        let mut are_operands = false;
        while let Some(word) = words.get(at) {
            at += 1;
            if are_operands || !is_option(word) {
                call.operands.push(word);
                are_operands |= own.ends_at_operand;
            } else if *word == "--" && self.reader != Reader::Predicates {
                are_operands = true;
                call.before_dashes = Some(call.operands.len());
            } else {
                self.read_option(word, words, &mut at, sets, call)?;
            }
        }
        if own.writes_operands {
            // `DESTDIR=x` of make.
            let values = call.operands.iter().filter_map(|word| word.split_once('='));
            call.outputs.extend(values.map(|(_, value)| value));
            call.outputs.extend(&call.operands);
        }
        let is_taken = match (&own.takes_operands, call.operands.first()) {
            (Operands::Any, _) | (_, None) => true,
            (Operands::None, Some(_)) => false,
            (Operands::FirstOf(known), Some(first)) => known.contains(first),
        };
        is_taken.then_some(())
    }

    /// Reads an option whose value may be the word at `at`.
    fn read_option<'a>(
        &self,
        word: &'a str,
        words: &[&'a str],
        at: &mut usize,
        sets: &[&Options],
        call: &mut Call<'a>,
    ) -> Option<()> {
        match (self.reader, word.strip_prefix("--")) {
            (Reader::Predicates, _) => self.read_name(word.strip_prefix('-')?, words, at, sets, call),
            (Reader::Names, long) => {
                self.read_name(long.or_else(|| word.strip_prefix('-'))?, words, at, sets, call)
            }
            (Reader::Git | Reader::Anywhere, Some(long)) => self.read_name(long, words, at, sets, call),
            (Reader::Git | Reader::Anywhere, None) => read_cluster(word, words, at, sets, call),
        }
    }

    fn read_name<'a>(
        &self,
        text: &'a str,
        words: &[&'a str],
        at: &mut usize,
        sets: &[&Options],
        call: &mut Call<'a>,
    ) -> Option<()> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if self.reader != Reader::Predicates => (name, Some(value)),
            _ => (text, None),
        };
        let find = |name: &str| sets.iter().find_map(|set| set.names.get(name).copied());
        let takes = match find(name) {
            Some(takes) => takes,
            None if name.strip_prefix("no-").is_some_and(|name| find(name).is_some()) => Takes::Nothing,
            None => return None,
        };
        match (takes, value) {
            (Takes::Nothing, None) => call.options.push((name, None)),
            (Takes::Nothing, Some("true" | "false")) if self.reader != Reader::Git => {
                call.options.push((name, value));
            }
            (Takes::Nothing, Some(_)) => return None,
            (Takes::Glued, value) => call.options.push((name, value)),
            (takes, Some(value)) => call.take(name, takes, value)?,
            (takes, None) => call.take_next(name, takes, words, at)?,
        }
        Some(())
    }
}

/// Letters behind one dash: flags, and at most one with a value, which is the rest or the next word.
fn read_cluster<'a>(
    word: &'a str,
    words: &[&'a str],
    at: &mut usize,
    sets: &[&Options],
    call: &mut Call<'a>,
) -> Option<()> {
    let letters = word.strip_prefix('-')?;
    if letters.bytes().all(|byte| byte.is_ascii_digit()) && sets.iter().any(|set| set.takes_numbers) {
        return Some(());
    }
    for (index, letter) in letters.char_indices() {
        let takes = sets.iter().find_map(|set| set.letter(letter))?;
        let end = index + letter.len_utf8();
        let (name, rest) = (letters.get(index..end)?, letters.get(end..)?);
        match takes {
            Takes::Nothing => call.options.push((name, None)),
            Takes::Glued => {
                call.options.push((name, Some(rest)));
                return Some(());
            }
            Takes::Value | Takes::Text | Takes::Output | Takes::Directory | Takes::OneOf(_) => {
                return if rest.is_empty() {
                    call.take_next(name, takes, words, at)
                } else {
                    call.take(name, takes, rest.strip_prefix('=').unwrap_or(rest))
                };
            }
        }
    }
    Some(())
}

impl<'a> Call<'a> {
    fn take(&mut self, name: &'a str, takes: Takes, value: &'a str) -> Option<()> {
        match takes {
            Takes::Output => self.outputs.push(value),
            Takes::Directory => self.directories.push(value),
            Takes::OneOf(known) if !known.split(',').any(|word| word == value) => return None,
            Takes::OneOf(_) | Takes::Nothing | Takes::Glued | Takes::Value | Takes::Text => {}
        }
        self.options.push((name, Some(value)));
        Some(())
    }

    /// A value of its own word. One that looks like an option may be one, unless it is text.
    fn take_next(&mut self, name: &'a str, takes: Takes, words: &[&'a str], at: &mut usize) -> Option<()> {
        let value = words.get(*at)?;
        if takes != Takes::Text && is_option(value) {
            return None;
        }
        *at += 1;
        self.take(name, takes, value)
    }
}

impl Options {
    fn of(texts: &[&'static str], reader: Reader) -> Self {
        let mut options = Self::default();
        for token in texts.iter().flat_map(|text| text.split_whitespace()) {
            match token {
                "-#" => options.takes_numbers = true,
                "+" => options.ends_at_operand = true,
                ">" => options.writes_operands = true,
                "." => options.takes_operands = Operands::None,
                _ => {
                    if let Some(words) = token.strip_prefix('=') {
                        options.takes_operands = Operands::FirstOf(words.split(',').collect());
                    } else {
                        options.add(token, reader);
                    }
                }
            }
        }
        options
    }

    fn letter(&self, letter: char) -> Option<Takes> {
        let mut letters = self.letters.iter();
        letters
            .find(|(known, _)| *known == letter)
            .map(|(_, takes)| *takes)
    }

    fn add(&mut self, token: &'static str, reader: Reader) {
        let (option, takes) = match (token.split_once(':'), token.strip_suffix('?')) {
            (Some((option, "")), _) => (option, Takes::Value),
            (Some((option, "t")), _) => (option, Takes::Text),
            (Some((option, "o")), _) => (option, Takes::Output),
            (Some((option, "d")), _) => (option, Takes::Directory),
            // `-proc:none` of javac is a name.
            (Some((_, word)), _) if reader == Reader::Names && !word.contains(',') => (token, Takes::Nothing),
            (Some((option, words)), _) => (option, Takes::OneOf(words)),
            (None, Some(option)) => (option, Takes::Glued),
            (None, None) => (token, Takes::Nothing),
        };
        let is_whole = matches!(reader, Reader::Names | Reader::Predicates);
        let name = option.trim_start_matches('-');
        if option.starts_with("--") || is_whole {
            self.names.insert(name, takes);
        } else {
            // `-abc` are three flags.
            let letters = name.chars().map(|letter| (letter, takes));
            self.letters.extend(letters);
        }
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}
