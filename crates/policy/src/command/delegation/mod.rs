//! Arguments that make a known program start another one (D1).
//!
//! Over-matching costs a question, under-matching a bypass: long options are compared by prefix because most of these
//! programs accept abbreviations, and short ones anywhere in a cluster. For programs that are known to configure or load
//! code the rule is turned around: a grammar says what they may be told without it (`grammar`, `table`). A word that the
//! grammar does not know must never pass as harmless. A bare entry for them still covers ordinary work, although that
//! runs the workspace's own code. Files that decide what starts (`domain::deciding`) are written by neither.
//! Entry points: [`read`], [`delegates`] and [`handed`].

mod git;
mod rules;
mod typed;

mod grammar;
mod table;

mod archives;
mod builders;
mod clients;
mod compilers;
mod containers;
mod environments;
mod git_words;
mod packages;
mod scripts;
mod system_packages;
mod tools;

mod writing;

use std::ops::Range;

pub(crate) use self::typed::reads_commands;
pub use self::typed::{runs_its_input, runs_what_is_typed};

use self::{
    rules::{RULES, UNREAD, rules_of},
    table::Understood,
};
use super::names::without_version;

/// What the arguments of a program make of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Whether they make it start another.
    pub delegation: Delegation,
    /// Whether a grammar knows every word, so that nothing in them is code either.
    pub is_plain: bool,
    /// Files that the call may write because its words name them.
    pub outputs: Vec<String>,
    /// Whether these are all of them.
    pub knows_outputs: bool,
}

/// Whether arguments make a program start, load or be configured by something that the call chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation {
    /// Nothing in them does.
    None,
    /// A form does that is known, and whose words can be looked at.
    Known,
    /// The program is known for it, and something in them is not known to be harmless.
    Unknown,
}

/// Reads the arguments of a program. `names` are all that it may be called by.
pub fn read(names: &[&str], arguments: &[&str]) -> Reading {
    let (delegation, is_plain, mut outputs) = match table::understand(names, arguments) {
        Understood::Unknown => (Delegation::Unknown, false, Vec::new()),
        Understood::Unlisted => (Delegation::None, false, Vec::new()),
        Understood::Plain(outputs) => (Delegation::None, true, outputs),
    };
    let written = writing::may_write(names, arguments);
    let delegation = match &written {
        _ if is_known_form(names, arguments) => Delegation::Known,
        None => Delegation::Unknown,
        Some(_) => delegation,
    };
    let knows_outputs = written.is_some();
    outputs.extend(written.unwrap_or_default());
    Reading {
        delegation,
        is_plain,
        outputs,
        knows_outputs,
    }
}

/// Whether the arguments of a program make it start another, or may. `names` are all that it may be called by.
pub(crate) fn delegates(names: &[&str], arguments: &[&str]) -> bool {
    is_known_form(names, arguments) || table::understand(names, arguments) == Understood::Unknown
}

fn is_known_form(names: &[&str], arguments: &[&str]) -> bool {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    // A link may have the name of another program of these, so that all of its names are asked.
    let is = |programs: &[&str]| names.iter().any(|name| programs.contains(name));
    let kept;
    let own = if is(&["ssh", "scp", "sftp"]) {
        kept = without_plain_settings(arguments);
        kept.as_slice()
    } else {
        arguments
    };
    // `git-remote-ext` is `git remote-ext`.
    let mut git_subcommands = names.iter().filter_map(|name| name.strip_prefix("git-"));
    (is(&["git"]) && git::starts_another(arguments))
        || git_subcommands.any(|subcommand| git::subcommand_starts_another(subcommand, arguments))
        || (is(&["zip"])
            && arguments
                .iter()
                .any(|word| is_short(word) && word.contains("TT")))
        || (is(&["tar", "gtar", "bsdtar"]) && arguments.first().is_some_and(|bundle| is_old_bundle(bundle)))
        // These read their commands from standard input, or run what they are told.
        || is(&["ex", "nix-shell", "osascript"])
        || (is(&["crontab"]) && !matches!(arguments, ["-l"]))
        || (is(&["curl"]) && curl_is_told(arguments))
        || (is(&["wget"]) && arguments.iter().any(|word| names_library(word)))
        || (is(&["npm"]) && (npm_init_runs(arguments) || npm_sets_program(arguments)))
        || (is(&["socat"]) && arguments.iter().any(|word| is_socat_program(word)))
        || names.iter().flat_map(|name| rules_of(name)).any(|rule| rule.applies(own))
}

/// The letters of short options behind which a program's name may be glued (`tar -xIrm`).
pub(crate) fn handing_letters(names: &[&str]) -> String {
    let names: Vec<&str> = names.iter().map(|name| program(name)).collect();
    let is_git = names
        .iter()
        .any(|name| *name == "git" || name.starts_with("git-"));
    let own = names.iter().flat_map(|name| rules_of(name));
    own.chain(git::RULES.iter().filter(|_| is_git))
        .map(|rule| rule.short)
        .collect()
}

/// Whether a program of that name may be told by its arguments to start another.
pub(crate) fn may_delegate(name: &str) -> bool {
    let name = program(name);
    name == "git" || name.starts_with("git-") || rules_of(name).next().is_some() || table::is_listed(name)
}

/// Whether a program may be told to start others, and no rule says by what.
pub fn is_unread(names: &[&str]) -> bool {
    names.iter().any(|name| UNREAD.contains(&program(name)))
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

/// Whether curl is told to load a library for a key, or to write what its `-w` says to a file.
fn curl_is_told(arguments: &[&str]) -> bool {
    arguments.iter().enumerate().any(|(at, word)| {
        let is_format = word.starts_with("--w") || (is_short(word) && word.contains('w'));
        let has_file = |word: &str| word.contains('@');
        let next = arguments.get(at + 1).filter(|word| word.starts_with('@'));
        names_library(word)
            || word.eq_ignore_ascii_case("eng")
            || word.to_ascii_lowercase().contains("%output{")
            || (is_format && (has_file(word) || next.is_some()))
    })
}

/// A key that is an address of PKCS #11 may name the library that has it.
fn names_library(word: &str) -> bool {
    word.to_ascii_lowercase().contains("pkcs11:")
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

/// Settings of ssh, in lower case, that name no program, file or other machine.
const SSH_SETTINGS: &[&str] = &[
    "addressfamily",
    "batchmode",
    "compression",
    "connectionattempts",
    "connecttimeout",
    "identitiesonly",
    "loglevel",
    "passwordauthentication",
    "preferredauthentications",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "tcpkeepalive",
];

/// The words of ssh without `-o NAME=VALUE` of such a setting.
fn without_plain_settings<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let is_plain = |setting: &str| {
        let is_value = |value: &str| {
            value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-,".contains(&byte))
        };
        setting.split_once('=').is_some_and(|(name, value)| {
            SSH_SETTINGS.contains(&name.to_ascii_lowercase().as_str()) && is_value(value)
        })
    };
    let mut kept = Vec::new();
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        if word == "-o" && words.next_if(|setting| is_plain(setting)).is_some() {
            continue;
        }
        if !word.strip_prefix("-o").is_some_and(is_plain) {
            kept.push(word);
        }
    }
    kept
}

/// An address of socat that is a program. Keywords have any case.
fn is_socat_program(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    [
        "exec:", "system:", "shell:", "open:", "file:", "create:", "creat:",
    ]
    .iter()
    .any(|keyword| word.contains(keyword))
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

    fn is_delegation(words: &[String]) -> bool {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        delegates(&[words[0]], &words[1..])
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
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
            assert!(is_delegation(&words(line)), "{line}");
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
            assert!(!is_delegation(&words(line)), "{line}");
        }
    }

    /// Beside each form that chooses what starts stands a harmless twin.
    #[test]
    fn what_a_grammar_does_not_know_counts_and_its_twin_does_not() {
        for (line, twin) in [
            ("git daemon --inetd --access-hook=x d", "git fetch origin"),
            ("git log -1 --output=x", "git archive --output=x HEAD"),
            ("git config --commen -l alias.x !y", "git config -l"),
            ("git config --comme --list core.fsmonitor x", "git config --list"),
            ("git svn clone u", "git clone u"),
            ("git maintenance start", "git gc --auto"),
            ("git st", "git status"),
            ("git --git-dir x status", "git -C x status"),
            ("git log --max-c 3", "git log --max-count 3"),
            ("git stash show -m --ext-diff", "git stash show -p stash@{0}"),
            ("git difftool", "git diff"),
            ("git archive --remote=x HEAD", "git archive -o x.tar HEAD"),
            ("git apply --unsafe-paths x", "git apply x"),
            ("git bundle unbundle x", "git bundle create x HEAD"),
            ("sqlite3 :memory: .shell~x", "sqlite3 :memory: .tables"),
            (
                "sqlite3 -cmd .system~x :memory: select",
                "sqlite3 -csv d.db select~1;",
            ),
            (
                "sqlite3 d.db select~load_extension('x')",
                "sqlite3 d.db select~count(*)~from~editors",
            ),
            (
                "sqlite3 d.db select~1;\n.shell~x",
                "sqlite3 d.db select~1;\nselect~2",
            ),
            ("sqlite3 d.db .once~|x", "sqlite3 d.db .schema~t"),
            ("sqlite3 -init f d.db", "sqlite3 -readonly d.db"),
            ("sdiff --diff-program=./x a b", "sdiff -s a b"),
            ("diff3 --diff-prog ./x a b c", "diff3 -m a b c"),
            ("gpg --agent-program ./x --list-keys", "gpg --list-keys"),
            ("gpg --homedir d --list-keys", "gpg --verify a.sig a"),
            ("gcc -wrapper x,y a.c", "gcc -O2 -Wall -o a a.c"),
            ("gcc -B d/ -c x.c", "gcc -c x.c"),
            ("gcc -Bd x.c", "gcc -Idir -Ldir x.c -lm -o x"),
            ("gcc -fplugin=./x.so a.c", "gcc -fPIC -fsanitize=address a.c"),
            ("gcc -specs=x a.c", "gcc -std=c11 a.c"),
            ("gcc -Wl,-plugin,./x.so a.c", "gcc -Wl,-rpath,/x,-z,now a.c"),
            ("gcc -fuse-ld=/x a.c", "gcc -fuse-ld=lld a.c"),
            ("gcc -fmodule-mapper=|x a.cc", "gcc -fmax-errors=3 a.cc"),
            ("gcc @args", "gcc a.c"),
            ("x86_64-linux-gnu-gcc-12 -B x a.c", "x86_64-linux-gnu-gcc-12 a.c"),
            ("g++ -Xlinker x a.cc", "g++ -x c++ a.cc"),
            ("nm --plugin ./x.so a", "nm -C a"),
            ("nm --plug ./x.so a", "nm -D a"),
            ("nm @x", "nm x"),
            ("nm -j @x", "nm -g x"),
            ("ld -plugin ./x.so a", "ld -r -o b a"),
            ("ld --plugin ./x.so a", "ld -shared a -o x"),
            ("ld -T x a", "ld -o b a"),
            ("ar --plugin x rcs l.a o", "ar rcs l.a o"),
            ("ar -M", "ar t l.a"),
            ("objdump --plugin x a", "objdump -d -M intel a"),
            ("strip --plugin x a", "strip -g a"),
            ("ranlib --plugin x a", "ranlib a"),
            ("tar -cf 127.0.0.1:/x a", "tar -cf ./127.0.0.1:/x a"),
            ("tar cf host:/x a", "tar cf x a"),
            ("tar -c -f host:x a", "tar -c -f x a"),
            ("tar --file=host:x -c a", "tar --file=x -c a"),
            ("tar -T list -cf x", "tar -X list -cf x a"),
            ("npm pkg set scripts.q=x", "npm pkg get scripts"),
            ("npm --script-she x run q", "npm run q"),
            ("npm config set git x", "npm config set loglevel error"),
            ("npm config set fund=false shell=x", "npm config set fund=false"),
            ("npm install --node-options x", "npm install --save-dev x"),
            ("npm edit x", "npm ls x"),
            ("dpkg --pre-invoke=x -i y", "dpkg -l y"),
            (
                "apt-get -o APT::Update::Pre-Invoke::=x update",
                "apt-get install -y x",
            ),
            ("psql -c \\!~x", "psql -c \\dt"),
            ("psql -c select~1 -f x", "psql -At -c select~1"),
            ("psql -c copy~t~to~program~'x'", "psql -h h -U u -d d -c select~1"),
            ("psql service=x?sslkey=engine:y", "psql postgres://u@h/d"),
            ("sftp -b f h", "sftp h"),
            ("cargo --config build.rustc=x check", "cargo check"),
            ("cargo check --config x", "cargo check --workspace --all-targets"),
            ("cargo -Z x build", "cargo +nightly build"),
            ("cargo +/x build", "cargo +1.80 build"),
            (
                "cargo build --target x.json",
                "cargo build --target x86_64-unknown-linux-gnu",
            ),
            (
                "cargo clippy -- -Clinker=x",
                "cargo clippy --all-targets -- -D warnings",
            ),
            ("cargo rustc -- -C linker=x", "cargo build --release"),
            ("cargo watch -x test", "cargo test -- --nocapture --config"),
            ("cargo xtask", "cargo run -- --config x"),
            ("cargo install --git u", "cargo install x"),
            ("cargo fmt -- --config-path x", "cargo fmt --all -- --check"),
            ("docker --config ./d x", "docker ps -a"),
            ("docker --config ./d ps", "docker images --format {{.ID}}"),
            ("docker exec c x", "docker logs -f --tail 5 c"),
            ("docker run -v /:/h i x", "docker build -t i ."),
            ("docker run i", "docker compose up -d"),
            ("docker compose -f x up", "docker compose logs -f s"),
            ("docker compose exec s x", "docker compose down -v"),
            ("docker volume create -o device=/ v", "docker volume create v"),
            ("docker -H x ps", "docker -D ps"),
            ("docker plugin install x", "docker pull x"),
            ("docker-compose run s x", "docker-compose up -d --build"),
            ("kubectl exec p -- x", "kubectl get pods -A -o wide"),
            ("kubectl --kubeconfig f get pods", "kubectl -n n get pods"),
            (
                "kubectl config set-credentials u --exec-command x",
                "kubectl config current-context",
            ),
            ("kubectl run x --image y", "kubectl apply -f d/"),
            ("kubectl x", "kubectl logs -f p"),
            (
                "helm install --post-renderer x r c",
                "helm upgrade --install r c -f v.yaml",
            ),
            ("helm plugin install x", "helm list -A"),
            ("gh alias set x !y", "gh pr view 1 --json title"),
            ("gh alias set --shell x y", "gh pr create --title t --body -x"),
            ("gh extension exec x", "gh run view 1 --log-failed"),
            ("gh config set editor x", "gh config get editor"),
            ("gh x", "gh api repos/x/y --jq .id"),
            ("gh repo clone a/b -- -c x=y", "gh repo clone a/b"),
            ("aws configure set credential_process x", "aws s3 ls s3://b"),
            ("aws x", "aws --region r ec2 describe-instances --filters Name=x"),
            ("aws eks update-kubeconfig --name c", "aws eks list-clusters"),
            ("go test -exec x ./...", "go test -run X -v ./..."),
            ("go test ./... --exec=x", "go test ./... -count=1"),
            ("go build -toolexec x", "go build -o x ./cmd/x"),
            ("go build -overlay x", "go build -ldflags -s~-w~-X~main.v=1 ."),
            ("go build -ldflags=-extld=x", "go build -ldflags=-s"),
            (
                "go build -gcflags=-o=/w/.npmrc ./p",
                "go build -gcflags=all=-N~-l ./p",
            ),
            ("go test -gcflags -asmhdr=x .", "go test -gcflags=-m=2 ."),
            ("go vet -gcflags=all=-N~-cpuprofile=x", "go vet -gcflags=-e"),
            ("go env -w CC=x", "go env GOPATH"),
            ("go vet -vettool=x ./...", "go vet ./..."),
            ("go run x.org/y@latest", "go run ./cmd/x -exec y"),
            ("go tool x", "go tool cover -func=c.out"),
            (
                "git cherry-pick --strategy=x/e o",
                "git cherry-pick --strategy=ours o",
            ),
            ("git rebase -s x/e m", "git rebase -s ort m"),
            ("git pull --rebase -s x/e . m", "git pull --rebase . m"),
            (
                "git-revert --strategy x/e HEAD",
                "git-revert --strategy recursive HEAD",
            ),
            ("git checkout-index --prefix=x/ y", "git checkout-index -a"),
            ("git init --bare x", "git init x"),
            ("git --bare init x", "git -C x init"),
            ("git clone --mirror u x", "git clone u x"),
            ("git format-patch -1 --suffix=/x", "git format-patch -1 -o x"),
            ("make CC=./x y", "make CC=clang -j4 test"),
            ("make PYTHON=x y", "make V=1 PREFIX=/usr install DESTDIR=x"),
            ("make LINK.c=x y", "make -C d VERSION=1.2 build/x.o"),
            ("make SHELL=x y", "make -k -s -j 4 all"),
            ("make CFLAGS=-Bx y", "make -n --no-print-directory y"),
            ("make MAKEFLAGS=--eval=x y", "make TEST=tests/a.py test"),
            ("make X=./e y", "make X=e y"),
            ("make X=$(shell~x) y", "make docker:build"),
            ("make -f x", "make x"),
            ("make -I x y", "make --jobs=4"),
            ("pip --python ./x list", "pip list --outdated"),
            ("pip config --editor x edit", "pip config list"),
            ("pip config set global.index-url u", "pip show x"),
            ("pip install --target .vim x", "pip install -U x[y]>=1,<2"),
            ("pip install git+file:///x", "pip install -r requirements.txt"),
            ("pip install ./x", "pip install -e .[dev]"),
            ("pip3 install x.whl", "pip3 install x==1.0"),
            ("pip install --log x y", "pip freeze"),
            ("pip install -r http://h/r", "pip check"),
            ("cargo nextest --x", "cargo test --no-fail-fast"),
            ("cargo hack x", "cargo hack check --feature-powerset"),
            ("npm pkg set bin=x", "npm pkg set version=1"),
            ("go tool x", "go tool"),
            ("gpg --batch --yes x.asc", "gpg --decrypt x.asc"),
            ("gpg --no-batch x.asc", "gpg --no-batch --verify x.asc"),
            ("curl -OJ http://h/x", "curl -fsSLO http://h/x"),
            ("wget -x http://h/x", "wget -qO x http://h/x"),
            ("wget -i f", "wget -nv -P d http://h/x"),
            ("wget --content-disposition u", "wget --no-check-certificate u"),
            ("nix-shell --run x", "nix-build x"),
            ("pixi run x", "pixi list"),
            ("xcrun -r x", "xcrun --show-sdk-path"),
            ("mvn exec:exec -Dx=y", "mvn -q -DskipTests package"),
            ("mvn -Dexec.executable=x test", "mvn -fae verify"),
            ("gradle -I x build", "gradle build --info"),
            ("osascript -e x", "osacompile x"),
            ("crontab -", "crontab -l"),
            ("crontab f", "crontab -l"),
            ("systemctl link /x", "systemctl status x"),
            ("mysql --pager=x d", "mysql -e select~1 d"),
            ("sed s/a/b/e f", "sed s/a/b/g f"),
            ("sed 1e~x f", "sed -n 1,5p f"),
            ("sed -n -e e f", "sed -n -e /a/,/b/p f"),
            ("sed -f - f", "sed -f x f"),
            ("sed -i s|a|b|e f", "sed -i s|a|b| f"),
            ("sed s/[/]x/y/e f", "sed -E s/(.{4})/\\1-/;s/x/y/2 f"),
            ("sed s/a/b/;e f", "sed $!N;P;D f"),
            ("sed a~x\\\\\ne~y f", "sed 3a~x f"),
            ("awk BEGIN{system(\"x\")}", "awk {print~$1}"),
            ("awk {print|\"x\"}", "awk /a|b/{print~$1\"|\"$2}"),
            ("awk {\"x\"|getline}", "awk $3>5{print~$1}"),
            ("awk {print>\"f\"}", "awk {if~($1>2)~print~NR/2}"),
            ("awk x++/system(\"x\")/1", "awk NF>2||NR==1"),
            ("awk {print~1,\n2>\"f\"}", "awk -F: {print~$1}"),
            ("awk -f /dev/stdin f", "awk -f x f"),
            ("awk -l x {print} f", "awk -v a=1 {s+=$1}END{print~s} f"),
            (
                "openssl pkey -in org.openssl.engine:/x:k",
                "openssl pkey -in k.pem -pubout",
            ),
            (
                "openssl storeutl org.openssl.engine:/x:k",
                "openssl x509 -in c.pem -noout -text",
            ),
            (
                "openssl pkey -inform ENGINE -in x",
                "openssl pkey -inform PEM -in x",
            ),
            (
                "openssl req -extfile x",
                "openssl req -new -newkey rsa:2048 -nodes -subj /CN=x",
            ),
            (
                "openssl ca -in x",
                "openssl s_client -connect h:443 -servername h",
            ),
            (
                "find . -fprintf x y",
                "find . -type f -name *.rs -not -path */target/*",
            ),
            ("find . -fls x", "find . -ls"),
            ("find . -- -exec x ;", "find . -mtime -1 -size +1M"),
            (
                "find . -name x -executable -ok x ;",
                "find . ( -name a -o -name b ) -print0",
            ),
        ] {
            assert!(is_delegation(&spaced(line)), "{line}");
            assert!(!is_delegation(&spaced(twin)), "{twin}");
        }
    }

    /// The same of texts, databases, archives, compilers, clusters, editors and manuals.
    #[test]
    fn what_tools_of_daily_use_are_told_counts_and_its_twin_does_not() {
        for (line, twin) in [
            ("sed -e :x -e t~x~e~touch f", "sed -e :x -e tx f"),
            ("sed b~x~e~touch f", "sed :a;N;$!ba;s/\\n/~/g f"),
            ("sed :a\te~touch f", "sed /x/{:a;n;ba} f"),
            ("sed :a#b;e~touch f", "sed T~x;p;:x f"),
            ("sed -i.git/hooks/* p pre-commit", "sed -i.bak p f"),
            ("sed --in-place=.git/* p f", "sed --in-place=.bak p f"),
            ("sed -Ei.git/hooks/* p f", "sed -Ei p f"),
            ("sed -f //dev/stdin f", "sed -f ./x.sed f"),
            ("sed -f ../../../../dev/stdin f", "sed -f ../x.sed f"),
            ("sed -nf x/../../proc/self/fd/0 f", "sed -nf x/y.sed f"),
            ("sed -f 0 f", "sed -b p f"),
            ("awk -f //dev/stdin", "awk -f x.awk f"),
            ("sed s/[^/]*$//e f", "sed s/[^/]*$// f"),
            ("sed s/[]/]*/x/e f", "sed s/.*\\/\\([^/]*\\)$/\\1/ f"),
            ("sed /[[:alpha:]/]/e f", "sed /[/]/d f"),
            (
                "awk {print~1?\"a\":\n\"b\"~>~\"f\"}",
                "awk {print~1?\"a\":\n\"b\"}",
            ),
            (
                "awk {print~>~\"/dev/stderr\"~\"x\"~>\"y\"}",
                "awk {print~>~\"/dev/stderr\"}",
            ),
            ("awk {return/system(\"x\")/1}", "awk {s+=$1}~END~{print~s/NR}"),
            ("awk {if(x)/system(\"x\")/1}", "awk {print~($1+$2)/2}"),
            ("awk {t=/x/;system(\"y\")}", "awk {t=/x/~?~1~:~0}"),
            (
                "sqlite3 z.db pragma~writable_schema=1;update~sqlite_schema~set~sql='x'",
                "sqlite3 z.db update~t~set~sql='x'",
            ),
            (
                "sqlite3 z.db attach~'.vimrc'~as~a",
                "sqlite3 z.db create~table~t(a)",
            ),
            ("sqlite3 z.db vacuum~into~'.profile'", "sqlite3 z.db vacuum"),
            (
                "sqlite3 z.db update~sqlite_dbpage~set~data=x'00'",
                "sqlite3 z.db pragma~table_info(t)",
            ),
            ("sqlite3 file:.npmrc?mode=rwc select~1", "sqlite3 x.db select~1"),
            (
                "sqlite3 z.db select~t\n.mode;attach~'x'~as~a",
                "sqlite3 -cmd .timeout~100 z.db select~1",
            ),
            (
                "sqlite3 z.db .mode~csv\n.shell~x",
                "sqlite3 z.db .mode~csv\n.tables",
            ),
            ("tar -cM -L 10 -f x.tar big", "tar -c -f x.tar big"),
            ("tar cMf x.tar big", "tar cvf x.tar big"),
            ("tar --volno-file=x -cf y z", "tar --one-top-level -xf y"),
            (
                "tar xf a.tar --transform=s,p,.exrc,",
                "tar xf a.tar --strip-components=1",
            ),
            ("tar xf a.tar --xform=s,^,.git/hooks/,", "tar xf a.tar -v"),
            (
                "tar xf a.tar --backup=simple --suffix=rc",
                "tar xf a.tar --backup=simple",
            ),
            (
                "objcopy --dump-section .data=.git/config o.o",
                "objcopy --only-section .data a.o b.o",
            ),
            ("cpp a b c", "cpp -P a b"),
            (
                "clang -target x86_64-pc-linux-gnu/e a.c",
                "clang -target x86_64-pc-linux-gnu a.c",
            ),
            ("clang -arch x/e a.c", "clang -arch arm64 a.c"),
            ("clang -gcc-toolchain d a.c", "clang -gdwarf-4 -g3 a.c"),
            ("gcc -x ../c a.c", "gcc -x c --coverage a.c"),
            (
                "kubectl get -k file:///w/r?ref=--upload-pack=/w/e",
                "kubectl get -k overlays/prod",
            ),
            (
                "kubectl apply -k github.com/x/y",
                "kubectl apply -k ./overlays/prod",
            ),
            ("kubectl diff --kustomize=git::x", "kubectl diff --kustomize=."),
            ("kubectl kustomize https://h/x", "kubectl kustomize d -o x.yaml"),
            (
                "kubectl create x",
                "kubectl create secret generic s --from-literal=a=b",
            ),
            ("helm pull http://h/.bashrc", "helm pull oci://h/chart"),
            ("helm pull http://h/%2ebashrc", "helm pull http://h/x.tgz"),
            ("podman build -v /:/h .", "podman build -t i ."),
            ("man -Tps/../../w/evil -l l.1", "man -Tutf8 ls"),
            ("man --troff-device=../evil ls", "man -k socket"),
            ("man --troff-dev=x ls", "man 3 printf"),
            ("groff -U f", "groff -man -Tutf8 f"),
            ("psroff -T../x f", "nroff -Tascii -ms f"),
            ("vim sftp://-oProxyCommand=x/x", "vim x.rs"),
            ("nvim term://x", "nvim -d a b"),
            ("nvim --server s --remote-expr x", "nvim --clean f"),
            ("nvim --listen s f", "vim +10 f"),
            ("gvim -U f x", "gvim -R f"),
            ("vim -w .npmrc f", "vim -n f"),
            ("vim -V9.npmrc f", "vim -O2 a b"),
            ("vim -pw .npmrc f", "vim -p a b"),
            ("vim -oU f x", "vim -o2 a b"),
            ("emacs /ssh:h:/x", "emacs -nw -Q f"),
            ("emacs --init-directory=./evil", "emacs -q f"),
            ("emacs -u x f", "emacs +10 f"),
            ("emacsclient -a ./e f", "emacsclient -n f"),
            ("emacsclient --alt=./e f", "emacsclient -c f"),
            ("rustup run stable sh -c x", "rustup show"),
            ("rustup toolchain link x ./d", "rustup toolchain install 1.80"),
            ("rustup default ./d", "rustup default nightly"),
            ("rustc -C linker=./e a.rs", "rustc -C opt-level=3 -o x a.rs"),
            ("rustc -Clink-arg=x a.rs", "rustc -Ctarget-cpu=native a.rs"),
            ("rustc --extern x=e.so a.rs", "rustc --edition 2021 a.rs"),
            (
                "rustc --target x.json a.rs",
                "rustc --target x86_64-unknown-linux-gnu a.rs",
            ),
            ("rustc --emit=link=.npmrc a.rs", "rustc --emit=metadata a.rs"),
            ("rustc @args", "rustc --version --verbose"),
            ("ssh-keygen -D ./x.so", "ssh-keygen -q -t ed25519 -N x -f k"),
            ("ssh-keygen -w ./x.so -t ed25519-sk", "ssh-keygen -lf k.pub"),
            ("ssh-add -s ./x.so", "ssh-add -l"),
            ("ssh-add -S ./x.so", "ssh-add k"),
            (
                "javac -processorpath d -processor P A.java",
                "javac -d out A.java",
            ),
            ("javac -cp d A.java", "javac -proc:none -cp d A.java"),
            ("javac -J-javaagent:x A.java", "javac --release 17 A.java"),
            ("javac @args", "javac -version"),
            ("ssh -o ProxyCommand=x h", "ssh -o BatchMode=yes h"),
            ("scp -oProxyCommand=x a h:", "scp -oConnectTimeout=5 a h:"),
            (
                "ssh -o BatchMode=yes -o LocalCommand=x h",
                "ssh -o batchmode=yes -o ConnectTimeout=5 h",
            ),
        ] {
            assert!(is_delegation(&spaced(line)), "{line}");
            assert!(!is_delegation(&spaced(twin)), "{twin}");
        }
    }

    /// The same of managers of packages, builders and clients.
    #[test]
    fn what_builders_and_clients_are_told_counts_and_its_twin_does_not() {
        for (line, twin) in [
            ("pixi x c", "pixi install"),
            ("pixi r c", "pixi add numpy"),
            ("pixi s", "pixi info"),
            ("pixi g install x", "pixi tree"),
            ("pixi --color never x y", "pixi --color never list"),
            ("xcrun sh -c x", "xcrun --find clang"),
            (
                "xcrun --sdk macosx python3 -c x",
                "xcrun --sdk macosx --show-sdk-version",
            ),
            ("nix build --option plugin-files ./x.so", "nix build"),
            ("nix build --post-build-hook ./e", "nix build -L .#x"),
            ("nix fmt", "nix flake check"),
            ("nix eval --write-to .git x", "nix eval --raw x"),
            ("nix env shell", "nix path-info"),
            ("nix-build -E x", "nix-build -A hello"),
            ("nix-build --builders x", "nix-build --no-out-link"),
            ("mvn -f./x/pom.xml package", "mvn -pl core -am package"),
            ("mvn -f=x package", "mvn -T4 clean install"),
            ("mvn -sx package", "mvn -B -ntp verify"),
            ("mvn -D exec.executable=x test", "mvn -Dtest=Foo#bar test"),
            ("mvn --define x=y test", "mvn -Pprod package"),
            ("mvn -Djvm=./e test", "mvn -Dmaven.test.skip=true package"),
            ("mvn -Dtest=${x} test", "mvn dependency:tree"),
            (
                "mvn org.codehaus.gmaven:groovy-maven-plugin:execute -Dsource=x",
                "mvn spotless:apply",
            ),
            ("mvn -l .git/x test", "mvn -o test"),
            ("gradle -g d build", "gradle :app:test"),
            ("gradle --gradle-user-home d build", "gradle test --tests x.Foo"),
            ("gradle -p d build", "gradle -x test build"),
            ("gradle -bx", "gradle tasks"),
            ("gradle -D org.gradle.jvmargs=x build", "gradle -PmyFlag=1 build"),
            ("gradle --system-prop=x=y build", "gradle --no-daemon build"),
            (
                "gradle wrapper --gradle-distribution-url=file:x",
                "gradle wrapper",
            ),
            ("mysql -e \\!~x", "mysql -e show~tables\\G d"),
            ("mysql -e system~x", "mysql -u u -psecret -e select~1;select~2 d"),
            ("mysql -e select~1;source~f", "mysql -h h -D d"),
            ("mysql -e use~d\nsystem~x", "mysql -e use~d;select~1"),
            ("mysql -e tee~.npmrc", "mysql -N -B -e select~count(*)~from~t d"),
            ("mysql -e pager~x", "mysql -e create~table~t(a~int) d"),
            ("mysql --plugin_dir=x d", "mysql --protocol=tcp d"),
            ("mysql --loose-pager=x d", "mysql --table d"),
            (
                "mysql -e create~function~f~returns~int~soname~'x.so'",
                "mysql -e drop~table~t d",
            ),
            (
                "mysql -e select~1~into~outfile~'x'",
                "mysql -e insert~into~t~values~(1) d",
            ),
            (
                "systemctl --user enable --now /w/evil.service",
                "systemctl --user enable --now x.service",
            ),
            ("systemctl --root x enable y", "systemctl restart x"),
            ("systemctl -H h status", "systemctl status"),
            ("systemctl switch-root x", "systemctl daemon-reload"),
            (
                "systemctl bind x y",
                "systemctl list-units --type=service --no-pager",
            ),
            ("cmake -Pe.cmake", "cmake -S . -B build"),
            (
                "cmake -C e.cmake -B b",
                "cmake -B build -DCMAKE_BUILD_TYPE=Release",
            ),
            ("cmake -DCMAKE_C_COMPILER=./e .", "cmake -DBUILD_TESTING=ON ."),
            (
                "cmake -DCMAKE_PROJECT_INCLUDE=ON .",
                "cmake -DENABLE_X:BOOL=OFF ..",
            ),
            ("cmake -DFoo_DIR=ON .", "cmake -G Ninja -Bbuild"),
            ("cmake --toolchain x -B b", "cmake --build b --target t -j4"),
            ("cmake --build b -- SHELL=./e", "cmake --build b -- -j4"),
            (
                "cmake --build b --target SHELL=./e",
                "cmake --build b --target all",
            ),
            ("cmake --build b -t x SHELL=./e", "cmake --build b -t x y"),
            ("cmake --graphviz=.npmrc .", "cmake --install b --prefix p"),
            (
                "pnpm --pnpmfile=./e.cjs install",
                "pnpm install --frozen-lockfile",
            ),
            ("pnpm --config.script-shell=./e run q", "pnpm run q --watch"),
            ("pnpm config set script-shell x", "pnpm -r build"),
            ("pnpm sh -c x", "pnpm --filter p test"),
            ("yarn config set yarnPath ./e", "yarn config get yarnPath"),
            ("yarn --use-yarnrc x install", "yarn"),
            ("yarn plugin import ./e.js", "yarn add -D x"),
            ("yarn set version ./e.js", "yarn workspaces list"),
            ("yarn workspace p node -e x", "yarn workspace p build"),
            ("yarn --cwd d install", "yarn test --coverage"),
            ("bun test --preload ./e", "bun test --watch"),
            ("bundle install --gemfile=./evil", "bundle install --jobs 4"),
            ("bundle binstubs x --path=.git/hooks", "bundle update x"),
            ("bundle plugin install x --path d", "bundle list"),
            ("poetry env use ./evil", "poetry env info"),
            ("poetry config x y", "poetry install --with dev"),
            ("poetry -C d install", "poetry add -G dev pytest"),
            ("uv sync --python ./evil", "uv sync --frozen"),
            ("uv venv --python ./evil", "uv venv --python 3.12"),
            ("uv python find ./evil", "uv python find 3.12"),
            ("uv pip install -p ./evil x", "uv pip install -r requirements.txt"),
            ("uv pip install git+file:///x", "uv pip install -e ."),
            ("nmap -sC --datadir ./e h", "nmap -sV -p 22 h"),
            ("socat - OPEN:.git/config,creat", "socat - TCP:h:1"),
            ("socat - CREATE:.npmrc", "socat - UNIX-CONNECT:s"),
            (
                "socat - READLINE,history=.npmrc",
                "socat TCP-LISTEN:80,fork,reuseaddr STDIO",
            ),
            ("socat -lf .npmrc - -", "socat -d -t5 - UDP:h:1"),
            ("psql -c select~1~\\g~|x", "psql -c select~1"),
            ("bun --config=./x run y", "bun run y"),
            ("psql -c do~$$begin~end$$", "psql -c select~program~from~t"),
            ("psql -c load~'/x.so'", "psql -c select~like~'%\\_x'"),
            (
                "psql -c create~function~f()~returns~int~language~c~as~'x'",
                "psql -c create~table~t(a~int)",
            ),
            (
                "psql -c select~1;alter~system~set~archive_command='x'",
                "psql -c alter~table~t~add~a~int",
            ),
            ("psql -c copy~t~to~'/h/.npmrc'", "psql -c copy~t~to~stdout"),
            (
                "psql -c select~lo_export(1,'x')",
                "psql -P pager=off -v x=1 -c \\x",
            ),
            ("psql -v PROMPT1=`x`", "psql host=localhost~dbname=x"),
            (
                "psql postgresql://h/d?service=x",
                "psql postgresql://h/d?sslmode=require",
            ),
            ("aws s3 ls --prof x", "aws s3 ls --human-readable"),
            (
                "aws s3 ls --endp x",
                "aws elbv2 create-target-group --protocol HTTP",
            ),
            ("aws configure x", "aws configure list"),
            ("ar -r -c -M", "ar -r -c l.a"),
            ("gpg --batch --gen-key f", "gpg --batch --list-keys"),
            ("docker buildx create x", "docker buildx ls"),
            ("gh extension install x", "gh extension list"),
            (
                "openssl genpkey -provider-path x",
                "openssl genpkey -algorithm ed25519",
            ),
        ] {
            assert!(is_delegation(&spaced(line)), "{line}");
            assert!(!is_delegation(&spaced(twin)), "{twin}");
        }
    }

    /// A tilde stands for a blank inside a word.
    fn spaced(line: &str) -> Vec<String> {
        line.split(' ').map(|word| word.replace('~', " ")).collect()
    }

    #[test]
    fn pipes_into_programs_that_take_commands_count() {
        for name in ["dc", "m4", "ftp", "gnuplot", "tclsh", "sdiff", "vim", "sqlite3"] {
            assert!(reads_commands(&[name]), "{name}");
        }
        for name in ["cat", "grep", "jq", "sort"] {
            assert!(!reads_commands(&[name]), "{name}");
        }
    }

    /// `cargo` is a link to `rustup` on many machines, and `reboot` one to `systemctl`.
    #[test]
    fn files_of_many_names_are_read_by_the_one_that_counts() {
        assert!(!delegates(&["cargo", "rustup"], &["build"]));
        assert!(!delegates(&["rustc", "rustup"], &["--version"]));
        assert!(!delegates(&["shutdown", "systemctl"], &["-h", "now"]));
        assert!(delegates(&["x", "systemctl"], &["enable", "/x.service"]));
        assert!(delegates(&["rustup", "rustup-init"], &["run", "stable", "x"]));
    }

    #[test]
    fn files_to_be_written_are_named() {
        for (line, expected) in [
            ("git archive --output=a b", &["a"][..]),
            ("git format-patch -o a", &["a"]),
            ("git -C a -C b archive -o c HEAD", &["a/b/c", "a/b"]),
            ("git -C a -C /b clone u c", &["/b/u", "/b/c", "/b"]),
            ("git -C a status", &["a"]),
            ("git worktree move a b", &["a", "b"]),
            ("go build -C a -o b", &["a/b", "a"]),
            ("make -C a O=b x", &["a/b", "a/O=b", "a/x", "a"]),
            ("go build -o a .", &["a"]),
            ("tar -xf a -C b", &["a", "b"]),
            ("tar xfC a b", &["a", "b"]),
            ("sed -i s/a/b/ x", &["x"]),
            ("sed -n s/a/b/w~x f", &["x"]),
            ("sed s/a/b/ x", &[]),
            ("curl -o a u", &["a", "u"]),
            ("cp a b", &["a", "b"]),
            ("cat a", &[]),
            ("cat -n.git a", &[]),
            ("tree -I .git", &[]),
            ("zstd -o a b", &["a", "b"]),
            ("rsync --exclude=.git a b", &["a", "b"]),
            ("cp -vta b", &["ta", "a", "b"]),
            ("prog --out=a", &["a"]),
            ("curl -O http://h/x/%2enpmrc?q#f", &["%2enpmrc", ".npmrc"]),
            ("gzip -d .bashrc.gz", &[".bashrc.gz", ".bashrc"]),
            ("split -l1 x .bashr", &["1", "x", ".bashr", ".bashrc"]),
            ("sqlite3 .npmrc select~1", &[".npmrc"]),
            ("poetry export -o .npmrc", &[".npmrc"]),
            ("sed -irc p .npm", &[".npm", ".npmrc"]),
            ("cpp -P cfg .git/config", &[".git/config"]),
            (
                "aws cloudformation package --output-template-file=.npmrc",
                &["package", ".npmrc"],
            ),
            ("openssl smime -verify -signer .npmrc", &[".npmrc"]),
            ("gcc -oa b.c", &["a"]),
        ] {
            let words = spaced(line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(read(&[words[0]], &words[1..]).outputs, expected, "{line}");
        }
    }
}
