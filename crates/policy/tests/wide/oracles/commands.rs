//! Commands by chance: everything of the accepted grammar in every quoting, and on demand what lies beyond it.

use super::Chance;

/// Programs that end well.
pub(super) const ENDING_WELL: &[&str] = &["alpha", "beta-2", "gamma.x", "größe"];
/// Programs that fail.
pub(super) const FAILING: &[&str] = &["fail", "fail_7"];
/// Files of the working directory that are programs, by their paths from there.
pub(super) const LOCAL: &[&str] = &["tool", "sub/tool", "sub/deep/tool", "other dir/tool"];

const SAFE: &str = "abcxyzABC0189._-+,:/@%^=]";
const UNICODE: &str = "äß漢☕é";
const SPECIAL: &str = " \t\n$`\"\\;&|<>(){}[]*?~#!=%^'ab";
const WRAPPERS: &[&str] = &[
    "env",
    "env --",
    "command",
    "command --",
    "nohup",
    "nice",
    "nice -n 3",
    "nice -5",
    "nice --adjustment=2",
    "stdbuf -oL",
    "stdbuf -i 0 --error=4K",
    "timeout 60",
    "timeout -k 5 -s TERM 1m",
    "timeout --foreground --signal=INT 60s",
];
const SHELLS: &[&str] = &[
    "sh -c",
    "bash -c",
    "dash -c",
    "sh -ec",
    "bash -euc",
    "bash --norc --noprofile -c",
    "bash -o pipefail -c",
    "bash -e -o nounset -c",
    "sh -f -c",
];
const ASSIGNMENTS: &[&str] = &["TZ", "CI", "NO_COLOR", "CLICOLOR", "NODE_ENV", "RUST_LOG"];
const DIRECTORIES: &[&str] = &[
    "sub",
    "sub/deep",
    "..",
    ".",
    "'other dir'",
    "nowhere",
    "./sub/../sub",
    "~",
];

/// Makes commands.
#[derive(Debug)]
pub(super) struct Commands<'a> {
    pub(super) chance: &'a mut Chance,
    /// Once in so many places something that the grammar refuses; never when 0.
    pub(super) wild: usize,
}

impl Commands<'_> {
    /// A whole command.
    pub(super) fn command(&mut self) -> String {
        let mut text = String::new();
        if self.chance.one_in(12) {
            text.push_str(
                self.chance
                    .pick(&["\n", "  ", "# a comment 'with a quote\n", "\t\n \n"]),
            );
        }
        self.list(&mut text, 0);
        if self.chance.one_in(10) {
            text.push_str(
                self.chance
                    .pick(&[";", " ;", "\n", "\n\n", " # the end $(", " ; # x\n"]),
            );
        }
        text
    }

    fn list(&mut self, text: &mut String, depth: usize) {
        let pipelines = [1, 1, 2, 2, 3, 4][self.chance.below(6)];
        for index in 0..pipelines {
            if index > 0 {
                text.push_str(self.chance.pick(&[
                    " && ",
                    " || ",
                    "; ",
                    "\n",
                    "&&",
                    "||",
                    ";",
                    " &&\n",
                    " || # why\n",
                    " ; # so\n",
                    "\n\n",
                    " && \\\n ",
                ]));
            }
            self.pipeline(text, depth);
        }
    }

    fn pipeline(&mut self, text: &mut String, depth: usize) {
        if self.chance.one_in(7) {
            text.push_str("cd ");
            text.push_str(self.chance.pick(DIRECTORIES));
            return;
        }
        let segments = [1, 1, 1, 1, 2, 3][self.chance.below(6)];
        for index in 0..segments {
            if index > 0 {
                text.push_str(self.chance.pick(&[" | ", "|", " |\n", " | # more\n "]));
            }
            self.segment(text, depth);
        }
    }

    fn segment(&mut self, text: &mut String, depth: usize) {
        if self.chance.one_in(12) {
            text.push_str(
                self.chance
                    .pick(&["true", "false", ":", "pwd", "pwd -P", "pwd -L -P"]),
            );
            return;
        }
        for _ in 0..[0, 0, 0, 1, 2][self.chance.below(5)] {
            self.assignment(text);
        }
        for _ in 0..[0, 0, 0, 0, 1, 1, 2][self.chance.below(7)] {
            text.push_str(self.chance.pick(WRAPPERS));
            self.blank(text);
        }
        if depth < 2 && self.chance.one_in(6) {
            self.payload(text, depth);
            return;
        }
        self.program(text);
        for _ in 0..self.chance.below(5) {
            self.blank(text);
            self.word(text);
        }
    }

    fn assignment(&mut self, text: &mut String) {
        text.push_str(self.chance.pick(ASSIGNMENTS));
        text.push('=');
        text.push_str(
            self.chance
                .pick(&["", "1", "'x'", "\"a,b\"", "Z\\ulu", "a''b", "x-y.z"]),
        );
        self.blank(text);
    }

    fn blank(&mut self, text: &mut String) {
        text.push_str(
            self.chance
                .pick(&[" ", " ", " ", " ", "  ", "\t", " \\\n ", " \\\n\\\n"]),
        );
        if self.wild > 0 && self.chance.one_in(self.wild * 4) {
            text.push_str(self.chance.pick(&["\r", "\u{a0}", "\u{200b}", "\u{b}", "\\\r\n"]));
        }
    }

    fn payload(&mut self, text: &mut String, depth: usize) {
        let mut inner = String::new();
        self.list(&mut inner, depth + 1);
        text.push_str(self.chance.pick(SHELLS));
        text.push(' ');
        self.quote(text, &inner);
        if self.wild > 0 && self.chance.one_in(self.wild) {
            text.push_str(" sh 'x y'");
        }
    }

    fn program(&mut self, text: &mut String) {
        match self.chance.below(10) {
            0 => {
                let local = self.chance.pick(LOCAL);
                text.push_str(self.chance.pick(&["./", "sub/../", ".//"]));
                self.quote_some(text, local);
            }
            1 => text.push_str(self.chance.pick(&["~/bin/own", "~/bin/../bin/own"])),
            2 => text.push_str(self.chance.pick(FAILING)),
            3 => {
                let name = self.chance.pick(ENDING_WELL);
                self.quote_some(text, name);
            }
            _ => text.push_str(self.chance.pick(ENDING_WELL)),
        }
    }

    /// A word, from parts in any quoting.
    fn word(&mut self, text: &mut String) {
        if self.chance.one_in(15) {
            text.push_str(self.chance.pick(&[
                "''",
                "\"\"",
                "~",
                "~/x",
                "~/'a b'",
                "stash@{0}",
                "HEAD^{tree}",
                "{}",
                "}",
                "if",
                "done",
                "!",
                "a#b",
                "a~b",
                "--",
                "-",
                "$",
                "\"$\"",
                "a=b",
                "--x=y",
                "in",
                "x]",
                "=x",
                "%1",
                "^",
                "a:b",
                "-n",
                "@",
            ]));
            return;
        }
        if self.wild > 0 && self.chance.one_in(self.wild) {
            text.push_str(self.chance.pick(&[
                "$HOME",
                "$(id)",
                "`id`",
                "*",
                "a?",
                "[a-z]",
                "{a,b}",
                "{1..3}",
                "~root",
                "a=~/x",
                "> out",
                "2>&1",
                "<in",
                "<<E",
                "&",
                "$'x'",
                "${x}",
                "(x)",
                "\"$x\"",
                "|& cat",
                ";;",
                "$((1))",
                "\"a\\\nb\"",
                "a\\\nb",
                "'open",
                "\"open",
                "$IFS",
                "<(id)",
            ]));
            return;
        }
        // A tilde or an equals sign at the beginning of a part means other things to some shells.
        for index in 0..=self.chance.below(3) {
            match self.chance.below(6) {
                0 | 1 if index > 0 || self.chance.one_in(2) => self.bare(text),
                2 => {
                    let inside = self.inside();
                    text.push('\'');
                    text.push_str(&inside.replace('\'', "\""));
                    text.push('\'');
                }
                3 => {
                    let inside = self.inside();
                    self.double_quote(text, &inside);
                }
                4 => {
                    text.push('\\');
                    text.push(self.chance.character(" \t$`\"\\;&|<>(){}[]*?~#!='abz☕"));
                }
                _ => text.push(self.chance.character("abcxyz0189._-+/@%ß☕")),
            }
        }
    }

    fn bare(&mut self, text: &mut String) {
        for _ in 0..=self.chance.below(5) {
            let choices = if self.chance.one_in(8) { UNICODE } else { SAFE };
            text.push(self.chance.character(choices));
        }
    }

    fn inside(&mut self) -> String {
        (0..self.chance.below(6))
            .map(|_| {
                let choices = if self.chance.one_in(2) { SPECIAL } else { SAFE };
                self.chance.character(choices)
            })
            .collect()
    }

    /// Text in quotes of either kind.
    fn quote(&mut self, text: &mut String, inside: &str) {
        if self.chance.one_in(2) {
            self.double_quote(text, inside);
        } else {
            text.push('\'');
            text.push_str(&inside.replace('\'', "'\\''"));
            text.push('\'');
        }
    }

    fn double_quote(&mut self, text: &mut String, inside: &str) {
        text.push('"');
        let mut rest = inside.chars().peekable();
        while let Some(character) = rest.next() {
            let is_special = matches!(character, '$' | '`' | '"' | '\\');
            // A dollar before a blank needs no escape, nor does a backslash before most characters.
            let may_stand = match character {
                '$' => matches!(rest.peek(), None | Some(' ' | '\t' | '\n')),
                '\\' => rest
                    .peek()
                    .is_some_and(|next| !matches!(next, '$' | '`' | '"' | '\\' | '\n')),
                _ => false,
            };
            if is_special && !(may_stand && self.chance.one_in(2)) {
                text.push('\\');
            }
            text.push(character);
        }
        text.push('"');
    }

    /// A name with some of it quoted.
    fn quote_some(&mut self, text: &mut String, name: &str) {
        let middle = name
            .char_indices()
            .nth(self.chance.below(name.chars().count()))
            .map_or(0, |(at, _)| at);
        let (first, second) = name.split_at(middle);
        let has_blank = first.contains(' ');
        if has_blank || self.chance.one_in(3) {
            self.quote(text, first);
        } else {
            text.push_str(first);
        }
        self.quote(text, second);
    }
}
