//! What to look for in the arguments of which program, as data.

use std::{collections::HashMap, sync::LazyLock};

use super::{is_short, long_name, subcommand_candidates};

/// What to look for in the arguments of some programs.
pub(super) struct Rule {
    pub(super) programs: &'static [&'static str],
    /// Only behind this subcommand; empty means always.
    pub(super) subcommands: &'static [&'static str],
    /// Letters of short options, in clusters too.
    pub(super) short: &'static str,
    /// Letters behind which the rest of a cluster is a value.
    pub(super) values: &'static str,
    /// Long options without their dashes; abbreviations count.
    pub(super) long: &'static [&'static str],
    pub(super) words: &'static [&'static str],
    pub(super) beginnings: &'static [&'static str],
}

impl Rule {
    /// Whether the arguments have one of the forms that it names.
    pub(super) fn applies(&self, arguments: &[&str]) -> bool {
        if self.subcommands.is_empty() {
            return self.is_in(arguments);
        }
        subcommand_candidates(arguments)
            .iter()
            .any(|(_, word)| self.subcommands.contains(word))
    }

    /// Whether one of the words is one that it names, wherever a subcommand stands.
    pub(super) fn is_in(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.names(word))
    }

    /// The first word that it names.
    pub(super) fn first(&self, words: &[&str]) -> Option<usize> {
        words.iter().position(|word| self.names(word))
    }

    /// The last one.
    pub(super) fn last(&self, words: &[&str]) -> Option<usize> {
        words.iter().rposition(|word| self.names(word))
    }

    fn names(&self, word: &str) -> bool {
        self.words.contains(&word)
            || (!is_line(word)
                && self
                    .beginnings
                    .iter()
                    .any(|beginning| word.starts_with(beginning)))
            || (is_short(word) && self.is_in_cluster(word))
            || long_name(word).is_some_and(|name| self.long.iter().any(|long| long.starts_with(name)))
    }

    fn is_in_cluster(&self, word: &str) -> bool {
        let mut letters = word
            .chars()
            .skip(1)
            .take_while(|letter| !self.values.contains(*letter));
        letters.any(|letter| self.short.contains(letter))
    }
}

/// `+10`: where an editor begins.
fn is_line(word: &str) -> bool {
    word.strip_prefix('+')
        .is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
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

pub(super) const NONE: Rule = Rule {
    programs: &[],
    subcommands: &[],
    short: "",
    values: "",
    long: &[],
    words: &[],
    beginnings: &[],
};

static BY_PROGRAM: LazyLock<HashMap<&str, Vec<&Rule>>> = LazyLock::new(|| {
    let mut by_program: HashMap<&str, Vec<&Rule>> = HashMap::new();
    for rule in RULES {
        for name in rule.programs {
            by_program.entry(name).or_default().push(rule);
        }
    }
    by_program
});

/// The rules of one program.
pub(super) fn rules_of(name: &str) -> impl Iterator<Item = &'static Rule> {
    BY_PROGRAM.get(name).into_iter().flatten().copied()
}

/// Programs that options or files of the call make start others, and of which no rule says which. An entry for one of them
/// without arguments covers all of that.
pub(super) const UNREAD: &[&str] = &[
    "ansible",
    "ansible-playbook",
    "ant",
    "bazel",
    "eslint",
    "hg",
    "jest",
    "just",
    "latexmk",
    "lualatex",
    "ninja",
    "nox",
    "pdflatex",
    "pre-commit",
    "prettier",
    "pylint",
    "rake",
    "svn",
    "terraform",
    "tofu",
    "tox",
    "webpack",
    "xelatex",
];

/// The rules of all programs but git, which has files of its own.
pub(super) const RULES: &[Rule] = &[
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
        programs: &["sftp"],
        short: "b",
        ..NONE
    },
    // Without its digit `diff3` is read as `diff`, which has no such option.
    Rule {
        programs: &["sdiff", "diff", "diff3"],
        long: &["diff-program"],
        ..NONE
    },
    Rule {
        programs: &["dpkg", "dpkg-deb", "dpkg-query"],
        long: &["pre-invoke", "post-invoke", "status-logger"],
        ..NONE
    },
    Rule {
        programs: &["apt", "apt-get", "apt-cache", "apt-config", "aptitude"],
        short: "oc",
        long: &["option", "config-file"],
        ..NONE
    },
    Rule {
        programs: &["pixi"],
        words: &["run", "exec", "shell", "shell-hook", "global"],
        ..NONE
    },
    Rule {
        programs: &["xcrun"],
        words: &["--run", "-run", "-r"],
        ..NONE
    },
    Rule {
        programs: &["mvn", "mvnw", "mvnd"],
        words: &["-f", "-s", "-gs", "-t", "-gt"],
        long: &[
            "file",
            "settings",
            "global-settings",
            "toolchains",
            "global-toolchains",
        ],
        beginnings: &[
            "exec:",
            "antrun:",
            "groovy:",
            "-Dexec.",
            "-Dmaven.ext.class.path",
            "org.codehaus.mojo:exec-maven-plugin",
            "org.apache.maven.plugins:maven-antrun-plugin",
        ],
        ..NONE
    },
    Rule {
        programs: &["gradle", "gradlew"],
        words: &["-b", "-c"],
        long: &["init-script", "build-file", "settings-file", "include-build"],
        beginnings: &["-I", "-Dorg.gradle.j"],
        ..NONE
    },
    Rule {
        programs: &["mysql", "mariadb"],
        long: &[
            "pager",
            "defaults-file",
            "defaults-extra-file",
            "defaults-group-suffix",
            "plugin-dir",
            "init-command",
            "tee",
        ],
        ..NONE
    },
    Rule {
        programs: &["systemctl"],
        subcommands: &[
            "link",
            "edit",
            "set-environment",
            "import-environment",
            "set-property",
            "revert",
        ],
        ..NONE
    },
    Rule {
        programs: &["make", "gmake"],
        short: "E",
        values: "CfIoWjl",
        beginnings: &["--ev"],
        ..NONE
    },
    Rule {
        programs: &["rsync"],
        long: &["daemon", "config", "dparam"],
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
        // What `-J` writes is named by the other side.
        short: "KJ",
        values: "AbcCdDeEFHmoPQrtTuUwxXyYzZ",
        long: &["config", "engine", "remote-header-name"],
        ..NONE
    },
    Rule {
        programs: &["curl"],
        // What these put together nobody has read.
        beginnings: &["--expand-", "--var"],
        ..NONE
    },
    Rule {
        programs: &["wget"],
        // What the others write is named by the other side, or in a file.
        short: "eimprx",
        values: "AaBDIlOoPQRTtUwX",
        long: &[
            "use-askpass",
            "execute",
            "config",
            "content-disposition",
            "force-directories",
            "input-file",
            "input-metalink",
            "metalink-index",
            "metalink-over-http",
            "mirror",
            "page-requisites",
            "recursive",
            "trust-server-names",
        ],
        ..NONE
    },
    Rule {
        programs: &["nmap"],
        long: &["script", "datadir", "resume"],
        // It takes its long options behind one dash as well.
        beginnings: &["--script", "-script", "-datad", "-res"],
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
    // `yarn workspace NAME exec`, `pnpm recursive exec`
    Rule {
        programs: &["pnpm", "yarn"],
        words: &["exec", "dlx"],
        ..NONE
    },
    Rule {
        programs: &["pnpm", "yarn"],
        subcommands: &["create"],
        ..NONE
    },
    Rule {
        programs: &["bun"],
        subcommands: &["x", "create", "exec"],
        ..NONE
    },
    Rule {
        programs: &["bun"],
        short: "rc",
        long: &["preload", "require", "import", "config", "env-file"],
        ..NONE
    },
    Rule {
        programs: &["uv"],
        subcommands: &["run", "tool"],
        ..NONE
    },
    Rule {
        programs: &["poetry", "pipenv", "conda", "mamba", "micromamba"],
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
