//! Arguments that make a known program start another one (D1), as data.
//!
//! Over-matching costs a question, under-matching a bypass: long options are compared by prefix because most of
//! these programs accept abbreviations, and short ones anywhere in a cluster.

use super::names::without_version;

/// What to look for in the arguments of some programs.
struct Rule {
    programs: &'static [&'static str],
    /// Only behind this subcommand; empty means always.
    subcommands: &'static [&'static str],
    /// Letters of short options, in clusters too.
    short: &'static str,
    /// Letters behind which the rest of a cluster is a value.
    values: &'static str,
    /// Long options without their dashes; abbreviations count.
    long: &'static [&'static str],
    /// Whole words.
    words: &'static [&'static str],
    /// Beginnings of words.
    beginnings: &'static [&'static str],
}

/// Lisp in arguments of Emacs, or a file of it.
const EMACS_CODE: &[&str] = &[
    "eval",
    "execute",
    "funcall",
    "load",
    "directory",
    "script",
    "batch",
    "insert",
];

const NONE: Rule = Rule {
    programs: &[],
    subcommands: &[],
    short: "",
    values: "",
    long: &[],
    words: &[],
    beginnings: &[],
};

const RULES: &[Rule] = &[
    Rule {
        programs: &["find", "gfind"],
        words: &["-exec", "-execdir", "-ok", "-okdir"],
        ..NONE
    },
    Rule {
        programs: &["rg"],
        long: &["pre", "hostname-bin"],
        ..NONE
    },
    Rule {
        programs: &["fd", "fdfind"],
        short: "xX",
        long: &["exec", "exec-batch"],
        ..NONE
    },
    Rule {
        programs: &["tar", "gtar", "bsdtar"],
        short: "IF",
        long: &[
            "checkpoint-action",
            "to-command",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
            "rmt-command",
        ],
        ..NONE
    },
    Rule {
        programs: &["rsync"],
        short: "e",
        long: &["rsh", "rsync-path"],
        ..NONE
    },
    Rule {
        programs: &["ssh"],
        short: "oFSIJ",
        ..NONE
    },
    Rule {
        programs: &["scp", "sftp"],
        short: "oFSDJ",
        ..NONE
    },
    Rule {
        programs: &["sort", "gsort"],
        long: &["compress-program"],
        ..NONE
    },
    Rule {
        programs: &["split", "gsplit"],
        long: &["filter"],
        ..NONE
    },
    // `ip netns exec` and `ip vrf exec`; words may be shortened, and one with many commands can be read from a file.
    Rule {
        programs: &["ip"],
        words: &["exec", "exe", "ex", "e", "-batch", "-batc", "-bat", "-ba", "-b"],
        long: &["batch"],
        ..NONE
    },
    Rule {
        programs: &["man"],
        short: "CPH",
        long: &["config-file", "pager", "html"],
        ..NONE
    },
    Rule {
        programs: &[
            "vi", "vim", "nvim", "view", "vimdiff", "gvim", "gview", "rvim", "rview", "evim",
        ],
        short: "cSsueE",
        long: &["cmd"],
        beginnings: &["+"],
        ..NONE
    },
    Rule {
        programs: &[
            "emacs",
            "emacs-gtk",
            "emacs-lucid",
            "emacs-nox",
            "emacs-pgtk",
            "emacsclient",
        ],
        short: "eflL",
        long: EMACS_CODE,
        words: &[
            "-eval",
            "-execute",
            "-funcall",
            "-load",
            "-directory",
            "-script",
            "-batch",
        ],
        ..NONE
    },
    Rule {
        programs: &["less", "more"],
        short: "k",
        long: &["lesskey-content", "lesskey-file", "lesskey-src"],
        beginnings: &["+"],
        ..NONE
    },
    Rule {
        programs: &["zip"],
        long: &["unzip-command"],
        ..NONE
    },
    Rule {
        programs: &["openssl"],
        words: &[
            "-engine",
            "-provider",
            "-config",
            "--engine",
            "--provider",
            "--config",
        ],
        beginnings: &[
            "-engine=",
            "-provider=",
            "-config=",
            "--engine=",
            "--provider=",
            "--config=",
        ],
        ..NONE
    },
    Rule {
        programs: &["install", "ginstall"],
        long: &["strip-program"],
        ..NONE
    },
    Rule {
        programs: &["nvim"],
        short: "l",
        ..NONE
    },
    Rule {
        programs: &["openssl"],
        subcommands: &["engine"],
        ..NONE
    },
    Rule {
        programs: &["coreutils", "gnu-coreutils"],
        beginnings: &["--coreutils-prog"],
        ..NONE
    },
    Rule {
        programs: &["cmake"],
        words: &["-E", "-P"],
        ..NONE
    },
    Rule {
        programs: &["nc", "ncat", "netcat"],
        short: "ce",
        long: &["exec", "lua-exec", "sh-exec"],
        ..NONE
    },
    Rule {
        programs: &["tcpdump"],
        short: "z",
        ..NONE
    },
    Rule {
        programs: &["curl"],
        short: "K",
        long: &["config", "engine"],
        ..NONE
    },
    Rule {
        programs: &["wget"],
        short: "e",
        values: "AaBDIilOoPQRTtUwX",
        long: &["use-askpass", "execute", "config"],
        ..NONE
    },
    Rule {
        programs: &["nmap"],
        long: &["script"],
        beginnings: &["--script", "-script"],
        ..NONE
    },
    Rule {
        programs: &["npm"],
        // It takes any beginning of a subcommand that is no other's.
        subcommands: &[
            "exec", "exe", "x", "explore", "explor", "explo", "create", "creat", "crea", "cre", "innit",
        ],
        ..NONE
    },
    Rule {
        programs: &["yarn"],
        words: &["foreach"],
        ..NONE
    },
    Rule {
        programs: &["pnpm", "yarn"],
        subcommands: &["exec", "dlx", "create"],
        ..NONE
    },
    Rule {
        programs: &["bun"],
        subcommands: &["x", "create"],
        ..NONE
    },
    Rule {
        programs: &["uv"],
        subcommands: &["run", "tool"],
        ..NONE
    },
    Rule {
        programs: &["poetry", "pipenv", "conda"],
        subcommands: &["run"],
        ..NONE
    },
    Rule {
        programs: &["mise"],
        subcommands: &["exec", "x"],
        ..NONE
    },
    Rule {
        programs: &["bundle"],
        subcommands: &["exec", "exe", "ex", "e"],
        ..NONE
    },
    Rule {
        programs: &["nix"],
        subcommands: &["run", "shell", "develop"],
        ..NONE
    },
];

/// The rules for what stands behind git's subcommand.
const GIT_RULES: &[Rule] = &[
    Rule {
        long: &["upload-pack", "receive-pack"],
        ..NONE
    },
    Rule {
        subcommands: &[
            "push",
            "fetch",
            "pull",
            "archive",
            "ls-remote",
            "fetch-pack",
            "send-pack",
        ],
        long: &["exec"],
        ..NONE
    },
    Rule {
        subcommands: &["clone", "ls-remote"],
        short: "u",
        ..NONE
    },
    Rule {
        subcommands: &["clone"],
        short: "c",
        long: &["config", "template"],
        ..NONE
    },
    Rule {
        subcommands: &["init", "init-db"],
        long: &["template"],
        ..NONE
    },
    Rule {
        subcommands: &["bisect"],
        words: &["run", "view", "visualize"],
        ..NONE
    },
    Rule {
        subcommands: &["rebase"],
        short: "x",
        long: &["exec"],
        ..NONE
    },
    Rule {
        subcommands: &["submodule", "submodule--helper"],
        words: &["foreach"],
        ..NONE
    },
    Rule {
        subcommands: &["grep"],
        short: "O",
        long: &["open-files-in-pager"],
        ..NONE
    },
    Rule {
        subcommands: &["difftool"],
        short: "x",
        long: &["extcmd"],
        ..NONE
    },
];

/// Git subcommands that start what their arguments, their input, the repository or its configuration names.
const GIT_DELEGATING: &[&str] = &[
    "mergetool",
    "filter-branch",
    "for-each-repo",
    "hook",
    "instaweb",
    "merge-index",
    "remote-ext",
    "send-email",
    "shell",
    "web--browse",
];

/// Keys that `git config` may write besides: habits of a person that name no program.
const GIT_HARMLESS_WRITES: &[&str] = &[
    "branch.autosetuprebase",
    "commit.verbose",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "diff.algorithm",
    "diff.renames",
    "fetch.prune",
    "init.defaultbranch",
    "merge.conflictstyle",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
];

/// Options of `git config` that take the next word as their value.
const GIT_CONFIG_VALUE_OPTIONS: &[&str] = &[
    "-f",
    "--file",
    "--blob",
    "--type",
    "--default",
    "--comment",
    "--url",
    "--value",
];

/// Options of `git config` that only read.
const GIT_CONFIG_READS: &[&str] = &[
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--list",
    "-l",
];

/// Keys of `git -c` that only change how things look or who is named.
const GIT_HARMLESS_KEYS: &[&str] = &["user.name", "user.email", "core.quotepath", "core.abbrev"];
const GIT_HARMLESS_SECTIONS: &[&str] = &["color.", "advice.", "log."];
const GIT_HARMLESS_SETTINGS: &[&str] = &["commit.gpgsign=false", "tag.gpgsign=false"];

/// Options of git itself that take the next word as their value.
const GIT_VALUE_OPTIONS: &[&str] = &[
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--attr-source",
    "--super-prefix",
    "--shallow-file",
];

/// The argument that makes one of these programs start another, if any.
pub fn delegating_argument(names: &[&str], arguments: &[&str]) -> Option<usize> {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    let is = |programs: &[&str]| names.iter().any(|name| programs.contains(name));
    // A link may have the name of another program of these, so that all of its names are asked.
    if is(&["git"])
        && let Some(at) = git(arguments)
    {
        return Some(at);
    }
    // `git-remote-ext` is `git remote-ext`.
    if let Some(at) = names
        .iter()
        .filter_map(|name| name.strip_prefix("git-"))
        .find_map(|subcommand| git_subcommand(subcommand, arguments))
    {
        return Some(at);
    }
    if is(&["zip"])
        && let Some(at) = arguments
            .iter()
            .position(|word| is_short(word) && word.contains("TT"))
    {
        return Some(at);
    }
    if is(&["tar", "gtar", "bsdtar"]) && arguments.first().is_some_and(|bundle| is_old_bundle(bundle)) {
        return Some(0);
    }
    // It reads its commands from standard input.
    if is(&["ex"]) {
        return Some(0);
    }
    if is(&["npm"])
        && let Some(at) = npm_init(arguments).or_else(|| npm_setting(arguments))
    {
        return Some(at);
    }
    if is(&["socat"])
        && let Some(at) = arguments.iter().position(|word| is_socat_program(word))
    {
        return Some(at);
    }
    RULES
        .iter()
        .filter(|rule| is(rule.programs))
        .find_map(|rule| rule.find(arguments))
}

/// The letters of short options behind which a program's name may be glued (`tar -xIrm`).
pub fn handing_letters(names: &[&str]) -> String {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    let is_git = names
        .iter()
        .any(|name| *name == "git" || name.starts_with("git-"));
    let own = RULES
        .iter()
        .filter(|rule| names.iter().any(|name| rule.programs.contains(name)));
    own.chain(GIT_RULES.iter().filter(|_| is_git))
        .map(|rule| rule.short)
        .collect()
}

/// `npm init NAME` runs the package `create-NAME`.
fn npm_init(arguments: &[&str]) -> Option<usize> {
    let at = subcommand_candidates(arguments)
        .into_iter()
        .find(|at| arguments.get(*at) == Some(&"init"))?;
    let rest = arguments.get(at + 1..).unwrap_or_default();
    rest.iter()
        .position(|word| !word.starts_with('-'))
        .map(|found| at + 1 + found)
}

/// Settings of npm that name a program, as options or where it writes them (`npm config set script-shell`). Behind `--`
/// are the words of a script.
const NPM_PROGRAMS: &[&str] = &[
    "browser",
    "editor",
    "git",
    "node-options",
    "script-shell",
    "shell",
    "viewer",
];

fn npm_setting(arguments: &[&str]) -> Option<usize> {
    let own = arguments.iter().take_while(|word| **word != "--");
    let sets = arguments.contains(&"set");
    let mut own = own.enumerate();
    own.find(|(_, word)| {
        let written = word.split_once('=').map_or(**word, |(name, _)| name);
        long_name(word).is_some_and(|name| NPM_PROGRAMS.iter().any(|long| long.starts_with(name)))
            || (sets && NPM_PROGRAMS.contains(&written))
    })
    .map(|(at, _)| at)
}

/// An address of socat that is a program. Keywords have any case.
fn is_socat_program(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["exec:", "system:", "shell:"]
        .iter()
        .any(|keyword| word.contains(keyword))
}

impl Rule {
    fn find(&self, arguments: &[&str]) -> Option<usize> {
        if !self.subcommands.is_empty() {
            return subcommand_candidates(arguments).into_iter().find(|at| {
                arguments
                    .get(*at)
                    .is_some_and(|word| self.subcommands.contains(word))
            });
        }
        arguments.iter().position(|word| self.is_in(word))
    }

    fn is_in_cluster(&self, word: &str) -> bool {
        let mut letters = word
            .chars()
            .skip(1)
            .take_while(|letter| !self.values.contains(*letter));
        letters.any(|letter| self.short.contains(letter))
    }

    fn is_in(&self, word: &str) -> bool {
        self.words.contains(&word)
            || self
                .beginnings
                .iter()
                .any(|beginning| word.starts_with(beginning))
            || (is_short(word) && self.is_in_cluster(word))
            || long_name(word).is_some_and(|name| self.long.iter().any(|long| long.starts_with(name)))
    }
}

/// Programs that take commands from standard input while they have no terminal.
const COMMAND_READERS: &[&str] = &[
    "ed", "evim", "ex", "gview", "gvim", "nvim", "red", "rview", "rvim", "vi", "view", "vim", "vimdiff",
];

/// Whether what comes to a program through a pipe are commands that may start others.
pub fn reads_commands(names: &[&str]) -> bool {
    names.iter().any(|name| COMMAND_READERS.contains(&program(name)))
}

/// The name a program is known by: without version, and `vim.basic` is `vim`.
fn program(name: &str) -> &str {
    let name = without_version(name);
    name.split_once('.')
        .map_or(name, |(first, _)| if first.is_empty() { name } else { first })
}

fn is_short(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

/// The name of a long option, without dashes and value.
fn long_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--")?;
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    (!name.is_empty()).then_some(name)
}

/// Old-style tar: the first word is a cluster without a dash.
fn is_old_bundle(word: &str) -> bool {
    !word.starts_with('-')
        && word.contains(['I', 'F'])
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// An option takes at most so many of the words behind it (`nix --option NAME VALUE`).
const MAX_OPTION_VALUES: usize = 2;

/// Where the subcommand may stand: the first operand, and any that could still be it because the ones before
/// might be values of options.
fn subcommand_candidates(arguments: &[&str]) -> Vec<usize> {
    let mut candidates = Vec::new();
    let mut possible_values = 0;
    for (at, word) in arguments.iter().enumerate() {
        if word.starts_with('-') && *word != "-" {
            possible_values = if word.contains('=') { 0 } else { MAX_OPTION_VALUES };
            continue;
        }
        candidates.push(at);
        if possible_values == 0 {
            break;
        }
        possible_values -= 1;
    }
    candidates
}

fn git(arguments: &[&str]) -> Option<usize> {
    if let Some(at) = arguments.iter().position(|word| word.contains("ext::")) {
        return Some(at);
    }
    let mut at = 0;
    while let Some(option) = arguments.get(at).filter(|word| word.starts_with('-')) {
        let hands_over = match *option {
            "-c" => !arguments
                .get(at + 1)
                .is_some_and(|setting| is_harmless_setting(setting)),
            option => {
                option.starts_with("-c")
                    || option.starts_with("--config-env")
                    || option.starts_with("--exec-path=")
            }
        };
        if hands_over {
            return Some(at);
        }
        at += if *option == "-c" || GIT_VALUE_OPTIONS.contains(option) {
            2
        } else {
            1
        };
    }
    let subcommand = arguments.get(at)?;
    if GIT_DELEGATING.contains(subcommand) {
        return Some(at);
    }
    let rest = arguments.get(at + 1..).unwrap_or_default();
    git_subcommand(subcommand, rest).map(|found| at + 1 + found)
}

/// What one subcommand is told to start, by the arguments behind it.
fn git_subcommand(subcommand: &str, rest: &[&str]) -> Option<usize> {
    if GIT_DELEGATING.contains(&subcommand) {
        return Some(0);
    }
    if subcommand == "config" {
        return git_config(rest);
    }
    GIT_RULES
        .iter()
        .filter(|rule| rule.subcommands.is_empty() || rule.subcommands.contains(&subcommand))
        .find_map(|rule| rest.iter().position(|word| rule.is_in(word)))
}

/// What is written to git's configuration has the power of `-c`, moving a section too, and an editor is a program.
fn git_config(arguments: &[&str]) -> Option<usize> {
    let edits = |word: &&str| {
        *word == "-e"
            || long_name(word)
                .is_some_and(|name| "edit".starts_with(name) || "rename-section".starts_with(name))
    };
    if let Some(at) = arguments.iter().position(edits) {
        return Some(at);
    }
    // Behind the first operand an option is none.
    let mut first = 0;
    while let Some(option) = arguments.get(first).filter(|word| word.starts_with('-')) {
        if GIT_CONFIG_READS.contains(option) {
            return None;
        }
        first += if GIT_CONFIG_VALUE_OPTIONS.contains(option) {
            2
        } else {
            1
        };
    }
    let operands: Vec<(usize, &str)> = arguments
        .iter()
        .enumerate()
        .skip(first)
        .filter(|(_, word)| !word.starts_with('-'))
        .map(|(at, word)| (at, *word))
        .collect();
    let written = match operands.as_slice() {
        [(at, "edit" | "rename-section"), ..] => return Some(*at),
        [(_, "get" | "list" | "unset" | "remove-section"), ..] => return None,
        [(_, "set"), written @ ..] | written => written,
    };
    // One operand is a question. Of more the last is a value, and any of the others may be the key.
    let (_, keys) = written.split_last()?;
    keys.iter()
        .find(|(_, key)| {
            !is_harmless_setting(key) && !GIT_HARMLESS_WRITES.contains(&key.to_ascii_lowercase().as_str())
        })
        .map(|(at, _)| *at)
}

/// Git compares sections and keys without case.
fn is_harmless_setting(setting: &str) -> bool {
    let key = setting.split_once('=').map_or(setting, |(key, _)| key);
    let key = key.to_ascii_lowercase();
    GIT_HARMLESS_KEYS.contains(&key.as_str())
        || GIT_HARMLESS_SECTIONS
            .iter()
            .any(|section| key.starts_with(section))
        || GIT_HARMLESS_SETTINGS.contains(&setting.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delegates(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        delegating_argument(&[words[0]], &words[1..]).is_some()
    }

    #[test]
    fn every_form_of_the_table_is_found() {
        for line in [
            "find . -execdir x",
            "rg --pre=x y",
            "rg --pre x",
            "fd -x rm",
            "fd -HX rm",
            "fd --exec-b rm",
            "git -c core.pager=x log",
            "git -ccore.pager=x log",
            "git --config-env=a=b log",
            "git --exec-path=/x status",
            "git --no-pager -C d -c alias.x=y x",
            "git clone -c a=b u",
            "git clone -u x y",
            "git clone --templ x",
            "git ls-remote --upload-p=x .",
            "git push --exec=x",
            "git bisect run x",
            "git rebase -ix y",
            "git submodule --quiet foreach x",
            "git grep -Oid x",
            "git difftool --extcmd=x",
            "git mergetool",
            "git --shallow-file f mergetool",
            "git filter-branch",
            "git remote-ext x y",
            "git-remote-ext x y",
            "git-grep -Ox y",
            "git merge-index x -a",
            "git config alias.x !y",
            "git config --global core.pager y",
            "git config --add core.sshCommand y",
            "git config set alias.x !y",
            "git config alias.x !y -l",
            "git config color.ui alias.x -e",
            "git config --edit",
            "git config --rename-section color alias",
            "git config rename-section color alias",
            "git config --comment --list alias.x !y",
            "git config --comment get alias.x !y",
            "git config -f get alias.x !y",
            "git config --file f alias.x !y",
            "git init-db --template=x",
            "git submodule--helper foreach x",
            "git bisect visualize x",
            "openssl req -config=f",
            "install --strip-program=x -s a b",
            "nvim -l x",
            "pnpm create x",
            "yarn workspaces foreach -A exec x",
            "npm config set script-shell x",
            "npm set script-shell=x",
            "git fetch ext::x",
            "tar -I x",
            "tar xfI a b",
            "tar --to-comm=x",
            "gtar -xIf x",
            "rsync -avze ssh a b",
            "ssh -oX h",
            "scp -S x a b",
            "sort --compress-prog x",
            "split --filter=x f",
            "gsplit -l 1 --filt x f",
            "ip netns exec n x",
            "ip net e n x",
            "ip -br vrf ex v x",
            "ip -force -b f",
            "man -Hx ls",
            "man -C f ls",
            "vim -e f",
            "ex f",
            "emacs --batch --eval x",
            "emacs-nox -l f",
            "openssl engine ./x.so",
            "openssl req -config f",
            "coreutils --coreutils-prog=rm x",
            "cmake -E env x",
            "ncat -e x h 1",
            "socat - EXEC:x",
            "socat - system:x",
            "npm exe x",
            "npm explore q -- x",
            "npm --script-shell=x run r",
            "npm --script-sh x run r",
            "npm init x",
            "npm init -y x",
            "bundle e x",
            "wget --config=f u",
            "vim.basic +q",
            "vim --cmd x",
            "nvim -c x",
            "less +!x f",
            "more +x",
            "zip -TT x",
            "openssl x -engine y",
            "tcpdump -Gz x",
            "curl -sK x",
            "wget --exec x",
            "nmap --script-args x",
            "npm exec x",
            "npm --prefix d x y",
            "pnpm dlx y",
            "yarn exec y",
            "bun x y",
            "uv run y",
            "uv --directory d tool",
            "poetry run y",
            "mise x y",
            "bundle exec y",
            "nix develop",
            "nix --option sandbox false run x",
            "rg -e -- --pre=x",
            "git archive --exec=x",
        ] {
            assert!(delegates(line), "{line}");
        }
    }

    #[test]
    fn ordinary_use_is_not_delegation() {
        for line in [
            "find . -name x",
            "rg --pre-glob x y",
            "git -c user.name=x commit",
            "git -c color.ui=never log",
            "git -c color.ui log",
            "git -c commit.gpgsign=false commit",
            "git commit -c HEAD",
            "git push -u origin main",
            "git --exec-path",
            "git log --oneline",
            "git config user.name x",
            "git config --global user.email x",
            "git config core.editor",
            "git config --get core.editor",
            "git config -l",
            "git config list",
            "git config get core.pager",
            "git config set user.name x",
            "git config unset alias.x",
            "git config --global pull.rebase false",
            "git config init.defaultBranch main",
            "npm test -- --browser=chrome",
            "npm config set fund false",
            "wget -Orelease.zip u",
            "wget -qOe u",
            "git remote add x u",
            "npm init -y",
            "npm install x",
            "npm explain x",
            "emacs f",
            "cmake --build b",
            "openssl dgst -sha256 f",
            "nc h 1",
            "socat - TCP:h:1",
            "wget -q u",
            "git switch -c x",
            "tar -czf a b",
            "tar xf a",
            "npm run build",
            "npm test -- --watch=false",
            "curl -sS u",
            "bun run x",
            "sort -rn",
            "split -b 1m f",
            "ip -br addr show dev eth0",
            "ip netns list",
            "zip a b",
            "less f",
        ] {
            assert!(!delegates(line), "{line}");
        }
    }
}
