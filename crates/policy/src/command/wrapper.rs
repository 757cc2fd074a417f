//! Transparent wrappers: exactly the accepted forms, and how many words belong to the wrapper (W1).

/// A wrapper that needs no entry of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapper {
    /// `env`, without options and assignments.
    Env,
    /// `command`, with `--` at most.
    Command,
    /// `nohup`, with `--` at most.
    Nohup,
    /// `time`, with `-p` at most.
    Time,
    /// `nice` with its adjustment.
    Nice,
    /// `stdbuf` with one buffer mode or more.
    Stdbuf,
    /// `timeout` with its options and duration.
    Timeout,
}

impl Wrapper {
    /// The wrapper of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "env" => Some(Self::Env),
            "command" => Some(Self::Command),
            "nohup" => Some(Self::Nohup),
            "time" => Some(Self::Time),
            "nice" => Some(Self::Nice),
            "stdbuf" => Some(Self::Stdbuf),
            "timeout" => Some(Self::Timeout),
            _ => None,
        }
    }

    /// Whether the shell has it as a word of its own, so that no file is needed for the bare name (W4).
    pub(crate) const fn is_shell_word(self) -> bool {
        matches!(self, Self::Command | Self::Time)
    }

    /// How many of the words behind the wrapper's name are its own, if the form is accepted. At least one word
    /// is left for the inner command.
    pub(crate) fn own_words(self, arguments: &[&str]) -> Option<usize> {
        let mut reader = Reader { arguments, taken: 0 };
        let accepted = match self {
            Self::Env | Self::Command | Self::Nohup => reader.dashes(),
            Self::Time => {
                reader.flag(&["-p"]);
                reader.dashes()
            }
            Self::Nice => reader.nice() && reader.dashes(),
            Self::Stdbuf => reader.stdbuf(),
            Self::Timeout => reader.timeout(),
        };
        (accepted && reader.inner_follows() && !(self == Self::Env && reader.peek_contains('=')))
            .then_some(reader.taken)
    }
}

struct Reader<'a> {
    arguments: &'a [&'a str],
    taken: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.arguments.get(self.taken).copied()
    }

    fn peek_contains(&self, character: char) -> bool {
        self.peek().is_some_and(|word| word.contains(character))
    }

    /// Takes the `--` that ends the options of a wrapper, if it is there.
    fn dashes(&mut self) -> bool {
        self.flag(&["--"]);
        true
    }

    /// Whether a word that cannot be an option of the wrapper stands here, or follows a `--`.
    fn inner_follows(&self) -> bool {
        let behind_dashes = self.taken > 0 && self.arguments.get(self.taken - 1) == Some(&"--");
        self.peek()
            .is_some_and(|word| !word.is_empty() && (behind_dashes || !word.starts_with('-')))
    }

    fn flag(&mut self, flags: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| flags.contains(&word));
        self.taken += usize::from(found);
        found
    }

    /// Takes an option with its value, attached, behind `=`, or in the next word; `None` when it is not here.
    fn value(&mut self, short: &str, long: &str) -> Option<&'a str> {
        if self.peek() == Some(long) {
            return self.next_value();
        }
        self.value_in_word(short, long)
    }

    /// The same without a long option that takes the next word.
    fn value_in_word(&mut self, short: &str, long: &str) -> Option<&'a str> {
        let word = self.peek()?;
        if word == short {
            return self.next_value();
        }
        let attached = word
            .strip_prefix(long)
            .and_then(|rest| rest.strip_prefix('='))
            .or_else(|| word.strip_prefix(short).filter(|_| !word.starts_with("--")))?;
        self.taken += 1;
        Some(attached)
    }

    fn next_value(&mut self) -> Option<&'a str> {
        let value = self.arguments.get(self.taken + 1).copied()?;
        self.taken += 2;
        Some(value)
    }

    fn nice(&mut self) -> bool {
        let Some(word) = self.peek() else { return false };
        if let Some(value) = self.value("-n", "--adjustment") {
            return is_adjustment(value);
        }
        if word.starts_with('-') && word != "--" {
            self.taken += 1;
            return word.strip_prefix('-').is_some_and(is_adjustment);
        }
        true
    }

    fn stdbuf(&mut self) -> bool {
        let mut modes = 0;
        while let Some(mode) = self
            .value_in_word("-i", "--input")
            .or_else(|| self.value_in_word("-o", "--output"))
            .or_else(|| self.value_in_word("-e", "--error"))
        {
            if !is_buffer_mode(mode) {
                return false;
            }
            modes += 1;
        }
        modes > 0
    }

    fn timeout(&mut self) -> bool {
        loop {
            if self.flag(&["--foreground", "--preserve-status", "-v", "--verbose"]) {
                continue;
            }
            if let Some(duration) = self.value("-k", "--kill-after") {
                if !is_duration(duration) {
                    return false;
                }
                continue;
            }
            match self.value("-s", "--signal") {
                Some(signal) if is_signal(signal) => {}
                Some(_) => return false,
                None => break,
            }
        }
        let duration = self.peek();
        self.taken += 1;
        duration.is_some_and(is_duration)
    }
}

fn is_adjustment(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_buffer_mode(text: &str) -> bool {
    let digits = text.strip_suffix(['K', 'M', 'G']).unwrap_or(text);
    text == "L" || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (number, "0"),
    };
    [whole, fraction]
        .iter()
        .all(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_signal(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'-')
        && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<usize>) {
        let words: Vec<&str> = line.split(' ').collect();
        let wrapper = Wrapper::named(words[0]).unwrap();
        assert_eq!(wrapper.own_words(&words[1..]), expected, "{line}");
    }

    #[test]
    fn accepted_forms_leave_the_inner_command() {
        check("env rg x", Some(0));
        check("env -- rg", Some(1));
        check("command rg", Some(0));
        check("nohup -- rg", Some(1));
        check("time -p rg", Some(1));
        check("time -p -- rg", Some(2));
        check("nice rg", Some(0));
        check("nice -5 rg", Some(1));
        check("nice --5 rg", Some(1));
        check("nice -n 10 rg", Some(2));
        check("nice -n10 rg", Some(1));
        check("nice --adjustment 3 rg", Some(2));
        check("nice --adjustment=-3 -- rg", Some(2));
        check("stdbuf -oL -e 0 --input=1K rg", Some(4));
        check("timeout 5 rg", Some(1));
        check("timeout --foreground -v -k5 -s KILL 1.5h rg", Some(6));
        check("timeout --kill-after=1 --signal TERM 2m rg", Some(4));
    }

    #[test]
    fn everything_else_is_refused() {
        for line in [
            "env",
            "env -i rg",
            "env -S x",
            "env A=1 rg",
            "env -- A=1 rg",
            "env -",
            "command -p rg",
            "command -v rg",
            "nohup",
            "nohup --help",
            "time -v rg",
            "time -o out rg",
            "time",
            "nice --adj=5 rg",
            "nice -z rg",
            "nice -n rg",
            "nice -n 5",
            "stdbuf rg",
            "stdbuf -o L2 rg",
            "stdbuf -oX rg",
            "stdbuf -oL -z rg",
            "stdbuf --output L rg",
            "stdbuf --out=L rg",
            "stdbuf -oL -- rg",
            "stdbuf -oLeL rg",
            "nice -n=5 rg",
            "nice -n 5 -n 6 rg",
            "nice -n -- rg",
            "time -p -p rg",
            "timeout -v5 rg",
            "timeout --kill=1 5 rg",
            "timeout rg x",
            "timeout 5",
            "timeout --bogus 5 rg",
            "timeout 5 -- rg",
            "timeout -k x 5 rg",
            "timeout 5x rg",
            "timeout . rg",
            "timeout -s -x 5 rg",
            "timeout 5 -k rg",
        ] {
            check(line, None);
        }
    }
}
