//! Arguments that make a known program start another one (D1).
//!
//! Over-matching costs a question, under-matching a bypass: long options are compared by prefix because most of
//! these programs accept abbreviations, and short ones anywhere in a cluster.

mod git;
mod rules;

use std::ops::Range;

use self::rules::RULES;
use super::names::without_version;

/// Whether the arguments of a program make it start another. `names` are all that it may be called by.
pub fn delegates(names: &[&str], arguments: &[&str]) -> bool {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    // A link may have the name of another program of these, so that all of its names are asked.
    let is = |programs: &[&str]| names.iter().any(|name| programs.contains(name));
    // `git-remote-ext` is `git remote-ext`.
    let mut git_subcommands = names.iter().filter_map(|name| name.strip_prefix("git-"));
    (is(&["git"]) && git::starts_another(arguments))
        || git_subcommands.any(|subcommand| git::subcommand_starts_another(subcommand, arguments))
        || (is(&["zip"])
            && arguments
                .iter()
                .any(|word| is_short(word) && word.contains("TT")))
        || (is(&["tar", "gtar", "bsdtar"]) && arguments.first().is_some_and(|bundle| is_old_bundle(bundle)))
        // It reads its commands from standard input.
        || is(&["ex"])
        || (is(&["npm"]) && (npm_init_runs(arguments) || npm_sets_program(arguments)))
        || (is(&["socat"]) && arguments.iter().any(|word| is_socat_program(word)))
        || RULES
            .iter()
            .any(|rule| is(rule.programs) && rule.applies(arguments))
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
    own.chain(git::RULES.iter().filter(|_| is_git))
        .map(|rule| rule.short)
        .collect()
}

/// Whether a program of that name may be told by its arguments to start another.
pub fn may_delegate(name: &str) -> bool {
    let name = program(name);
    name == "git" || name.starts_with("git-") || RULES.iter().any(|rule| rule.programs.contains(&name))
}

/// Where among the arguments of a program that is told to start another the words stand that are handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// What may be a program.
    pub programs: Range<usize>,
    /// What may be text for a shell.
    pub texts: Range<usize>,
}

impl Handed {
    /// Any of so many arguments may be either.
    pub const fn all(arguments: usize) -> Self {
        Self::both(0..arguments)
    }

    const fn both(words: Range<usize>) -> Self {
        let Range { start, end } = words;
        Self {
            programs: start..end,
            texts: start..end,
        }
    }
}

/// What a program that [`delegates`] hands on. Where that is not known, all of its arguments.
pub fn handed(names: &[&str], arguments: &[&str]) -> Handed {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    let is = |programs: &[&str]| names.iter().any(|name| programs.contains(name));
    if is(&["git"]) {
        return Handed::both(git::handed(arguments));
    }
    let mut rules = RULES
        .iter()
        .filter(|rule| is(rule.programs) && rule.applies(arguments));
    let (Some(rule), None) = (rules.next(), rules.next()) else {
        return Handed::all(arguments.len());
    };
    match (rule.first(arguments), rule.last(arguments)) {
        // What these start gets its words as they are.
        (Some(first), _) if is(&["find", "gfind", "fd", "fdfind"]) => Handed {
            programs: first..arguments.len(),
            texts: 0..0,
        },
        (Some(first), Some(last)) if rule.subcommands.is_empty() => Handed::both(first..last + 2),
        _ => Handed::all(arguments.len()),
    }
}

/// `npm init NAME` runs the package `create-NAME`.
fn npm_init_runs(arguments: &[&str]) -> bool {
    let init = subcommand_candidates(arguments)
        .into_iter()
        .find(|(_, word)| *word == "init");
    init.is_some_and(|(at, _)| arguments.iter().skip(at + 1).any(|word| !word.starts_with('-')))
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

fn npm_sets_program(arguments: &[&str]) -> bool {
    let mut own = arguments.iter().take_while(|word| **word != "--");
    let sets = arguments.contains(&"set");
    own.any(|word| {
        let written = word.split_once('=').map_or(*word, |(name, _)| name);
        long_name(word).is_some_and(|name| NPM_PROGRAMS.iter().any(|long| long.starts_with(name)))
            || (sets && NPM_PROGRAMS.contains(&written))
    })
}

/// An address of socat that is a program. Keywords have any case.
fn is_socat_program(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["exec:", "system:", "shell:"]
        .iter()
        .any(|keyword| word.contains(keyword))
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

/// The words that may be the subcommand, and where they stand: the first operand, and any that could still be it because
/// the ones before might be values of options.
fn subcommand_candidates<'a>(arguments: &[&'a str]) -> Vec<(usize, &'a str)> {
    let mut candidates = Vec::new();
    let mut possible_values = 0;
    for (at, word) in arguments.iter().enumerate() {
        if word.starts_with('-') && *word != "-" {
            possible_values = if word.contains('=') { 0 } else { MAX_OPTION_VALUES };
            continue;
        }
        candidates.push((at, *word));
        if possible_values == 0 {
            break;
        }
        possible_values -= 1;
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_delegation(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        delegates(&[words[0]], &words[1..])
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
            "yarn workspace p exec rm",
            "yarn workspace p dlx rm",
            "pnpm recursive exec rm",
            "pnpm m exec rm",
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
            assert!(is_delegation(line), "{line}");
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
            assert!(!is_delegation(line), "{line}");
        }
    }
}
