//! What is understood, and what an entry covers.

use countersign_policy::{allowlist::SkillBin, command::safe_bin::Limits, pattern::PathCase};

use crate::world::World;

const PROGRAMS: &[&str] = &[
    "rg", "cat", "ls", "git", "echo", "id", "head", "tail", "wc", "tr", "sort", "grep", "cut", "find", "sed",
    "awk", "jq", "env", "nice", "nohup", "timeout", "time", "flock", "sh", "bash", "dash", "zsh", "pwsh",
    "python3", "ruby", "busybox", "toybox", "npm", "npx", "pnpm", "xargs",
];

/// A few readers are covered, `id` among others is not.
fn readers() -> World {
    World::new().programs(PROGRAMS).allow(&[
        "/usr/bin/rg",
        "/usr/bin/cat",
        "/usr/bin/ls",
        "/usr/bin/git",
        "/usr/bin/echo",
    ])
}

/// Everything is covered, so that a refusal is for how a command is written and not for what it runs.
fn everything() -> World {
    World::new().programs(PROGRAMS).allow(&["/usr/bin/*", "*"])
}

fn with_safe_bins(names: &[&str]) -> World {
    let mut world = readers();
    world.safe_bins = names.iter().map(|name| (*name).to_owned()).collect();
    world
}

fn strict_inline_eval() -> World {
    let mut world = everything();
    world.strict_inline_eval = true;
    world
}

#[test]
fn cve_2026_28391() {
    everything().defeats(
        &["rg x & id", "rg x&id", "rg x &", "cmd /c 'rg & id'"],
        &["rg 'x & id'", "rg x\\&id", "rg %PATH%"],
    );
}

#[test]
fn cve_2026_28470() {
    everything().defeats(
        &[
            "rg \"$(id)\"",
            "rg \"x`id`\"",
            "rg \"${x:-$(id)}\"",
            "sh -c \"rg \\$(id)\"",
        ],
        &["rg '$(id)'", "rg \"\\$(id)\"", "rg \"\\`id\\`\""],
    );
}

#[test]
fn cve_2026_28463() {
    let world = with_safe_bins(&["head", "wc", "tr"]);
    world.defeats(
        &[
            "head *",
            "wc -l $HOME/../x",
            "head ~/.ssh/id_rsa",
            "tr a {b,c}",
            "wc -c ~/x=~/y",
            "tr x=~/a b",
        ],
        &["head -n 3", "wc -l", "tr 'a*' '$HOME'"],
    );
}

#[test]
fn cve_2026_31996() {
    with_safe_bins(&["sort", "grep"]).defeats(
        &[
            "sort -o /etc/x",
            "sort -no x",
            "sort --output=x",
            "grep -r x",
            "grep -e x -R",
            "grep -re x",
            "grep -f x",
            "grep --file=x -e y",
            "grep -e x /etc/passwd",
            "sort /etc/passwd",
            "sort -T /tmp",
        ],
        &["sort -n", "sort -k 2", "grep -e x", "grep -in -e '-r'"],
    );
}

#[test]
fn openclaw_2026_2_22_planted_binary() {
    let planted = with_safe_bins(&["head"]).found("head", "/opt/planted/head");
    planted.defeats(&["head -n 1", "/opt/planted/head -n 1"], &["/usr/bin/head -n 1"]);
    let named = World::new().allow(&["tool"]);
    for directory in ["/tmp/bin", "/var/tmp/x", "/dev/shm", "/srv/project/bin"] {
        named
            .clone()
            .found("tool", &format!("{directory}/tool"))
            .defeats(&["tool"], &[]);
    }
    let foreign = named
        .clone()
        .found("tool", "/opt/tools/tool")
        .foreign("/opt/tools");
    foreign.defeats(&["tool"], &[]);
    named.found("tool", "/opt/tools/tool").defeats(&[], &["tool"]);
}

#[test]
fn cve_2026_27566() {
    let world = readers().allow(&["/usr/bin/env", "/usr/bin/bash"]);
    world.defeats(
        &[
            "env bash -c id",
            "env env bash -c id",
            "env bash script.sh",
            "env -i bash -c id",
            "env FOO=1 id",
            "env id",
        ],
        &["env rg x", "env bash -c 'rg x'", "env -- env rg x"],
    );
}

#[test]
fn cve_2026_28460() {
    everything().defeats(
        &[
            "rg $\\\n(id)",
            "rg \"$\\\n(id)\"",
            "rg \"a\\\nb\"",
            "r\\\ng x",
            "rg x\\\ny",
            "rg `\\\nid`",
            "rg <\\\n(id)",
        ],
        &["rg x \\\n y", "rg x \\\n  | \\\n wc"],
    );
}

#[test]
fn cve_2026_31993() {
    readers().defeats(
        &[
            "rg x && id",
            "rg x; id",
            "rg x || id",
            "rg x | id",
            "rg x\nid",
            "id; rg x",
            "rg x && cat y && id",
        ],
        &["rg x && cat y", "rg x | cat; ls || echo"],
    );
}

#[test]
fn cve_2026_32016() {
    let world = World::new()
        .programs(&["rg"])
        .file("/srv/project/rg")
        .file("/tmp/rg")
        .allow(&["rg"]);
    world.defeats(
        &["./rg x", "/tmp/rg x", "/srv/project/rg x", "/usr/bin/rg x"],
        &["rg x"],
    );
    world.found("rg", "/srv/project/rg").defeats(&["rg x"], &[]);
}

#[test]
fn cve_2026_22175() {
    for name in ["busybox", "toybox"] {
        let world = readers()
            .allow(&["/usr/bin/busybox", "/usr/bin/toybox", "busybox", "toybox"])
            .allow_with("/usr/bin/*box", ".*")
            .link("/usr/bin/quiet", "/usr/bin/busybox");
        world.defeats(
            &[
                &format!("{name} sh -c id"),
                &format!("{name} ash -c id"),
                &format!("env {name} sh -c id"),
                name,
                "/usr/bin/quiet sh -c id",
            ],
            &["rg x"],
        );
    }
}

#[test]
fn cve_2026_28363() {
    let mut world = with_safe_bins(&["sort", "wc"]);
    let attacks = [
        "sort --compress-prog=id",
        "sort --compress-p id",
        "sort --out=x",
        "sort --rev",
        "wc --li",
        "wc --files0=x",
    ];
    world.defeats(&attacks, &["sort --reverse", "wc --lines"]);
    // An entry for sort trusts its arguments, but not with another program.
    world = world.allow(&["/usr/bin/sort"]);
    world.defeats(
        &[
            "sort --compress-prog=id x",
            "sort --com id x",
            "rg --pr id x",
            "git grep --open x",
        ],
        &["sort x", "rg --context 3 x"],
    );
}

#[test]
fn cve_2026_31992() {
    everything().defeats(
        &[
            "env -S 'rg x'",
            "env -S'sh -c id'",
            "env --split-string='rg x'",
            "env -vS 'rg x'",
            "env -S 'rg \\c'",
            "env --split='rg'",
        ],
        &["env rg '-S'", "env rg x"],
    );
}

#[test]
fn ghsa_796m_2973_wc5q() {
    let world = with_safe_bins(&["head", "wc"]);
    world.defeats(
        &[
            "env -iS 'rg x'",
            "env -u X rg x",
            "env -C / rg x",
            "head -qZ",
            "wc -lx",
            "head -c",
            "wc -lw --x",
        ],
        &["env rg x", "head -qv -n 1", "wc -lw"],
    );
}

#[test]
fn ghsa_7ff8_xjh3_mgh6() {
    let mut world = readers()
        .found("pdftool", "/opt/skills/pdftool")
        .file("/srv/project/pdftool");
    world.skills = vec![SkillBin {
        name: "pdftool".to_owned(),
        path: "/opt/skills/pdftool".to_owned(),
    }];
    world.defeats(
        &["./pdftool x", "/srv/project/pdftool x", "/opt/skills/pdftool x"],
        &["pdftool x"],
    );
    world
        .found("pdftool", "/srv/project/pdftool")
        .defeats(&["pdftool x"], &[]);
}

#[test]
fn cve_2026_32052() {
    let world = readers().allow(&["/usr/bin/sh", "/usr/bin/bash"]);
    world.defeats(
        &[
            "sh -c 'rg \"$0\"' id",
            "sh -c 'rg x' sh id",
            "bash -c 'rg x' --",
            "sh -c 'rg x' ''",
            "env sh -c 'rg x' id",
        ],
        &["sh -c 'rg x'", "env bash -c 'rg x'"],
    );
}

#[test]
fn cve_2026_32065() {
    let world = readers().file("/usr/bin/rg ");
    world.defeats(
        &["'rg ' x", "rg\\  x", "'/usr/bin/rg ' x", "\" rg\" x", "'rg\t' x"],
        &["rg x", "r''g x"],
    );
    for words in [["rg ", "x"], ["/usr/bin/rg ", "x"]] {
        assert!(!world.argv(&words).satisfied, "{words:?}");
    }
    assert!(world.argv(&["rg", "x "]).satisfied);
}

#[test]
fn cve_2026_27183() {
    let world = readers();
    world.defeats(
        &[
            "env nice nohup env env rg x",
            "env env env env env env env env rg x",
            "sh -c 'env env env env env rg x'",
            "sh -c 'sh -c \"sh -c \\\"sh -c rg\\\"\"'",
        ],
        &[
            "env nice nohup env rg x",
            "env env env env rg x",
            "sh -c 'env env env env rg x'",
        ],
    );
}

#[test]
fn cve_2026_32973() {
    let world = World::new()
        .file("/opt/tools/rg")
        .file("/opt/tools/sub/rg")
        .file("/opt/TOOLS/rg")
        .file("/opt/tools/r/g")
        .allow(&["/opt/tools/r?", "/opt/?ools/r?"]);
    world.defeats(
        &[
            "/opt/tools/sub/rg",
            "/opt/TOOLS/rg",
            "/opt/tools/r/g",
            "/opt/tools/r/../rg/.",
        ],
        &["/opt/tools/rg"],
    );
    let mut insensitive = world;
    insensitive.path_case = PathCase::Insensitive;
    insensitive.defeats(&["/opt/tools/sub/rg"], &["/opt/TOOLS/rg"]);
}

#[test]
fn cve_2026_32979() {
    let mut world = World::new().programs(PROGRAMS);
    world.strict_inline_eval = true;
    let offers = |words: &[&str]| !world.argv(words).proposed_patterns.is_empty();
    assert!(
        offers(&["python3", "tool.py"]),
        "one script that can be bound is offered"
    );
    for words in [
        &["python3", "-c", "x"][..],
        &["python3"],
        &["python3", "-"],
        &["python3", "-ic", "x"],
        &["ruby", "-e", "x", "tool.rb"],
        &["ruby", "-r./x", "tool.rb"],
    ] {
        assert!(!offers(words), "{words:?} cannot be bound to one file");
    }
    world.strict_inline_eval = false;
    assert!(
        world.argv(&["python3", "tool.py"]).proposed_patterns.is_empty(),
        "without the strict mode no interpreter is remembered"
    );
}

#[test]
fn ghsa_9r3v_37xh_2cf6() {
    everything().defeats(
        &[
            "r\u{200b}g x",
            "rg \u{200d}x",
            "rg 'a\u{2060}b'",
            "rg \u{e0041}",
            "rg x\u{a0}y",
            "rg '\u{ad}'",
        ],
        &["rg 'ｆｕｌｌ'", "rg ☕"],
    );
    // Full-width letters are letters: another name, and not that of a program that is covered.
    readers().defeats(&["ｒｇ x", "ｅnv rg x"], &["rg x"]);
}

#[test]
fn ghsa_57jw_9722_6rf2() {
    let world = readers()
        .allow(&[
            "/usr/bin/npm",
            "/usr/bin/pnpm",
            "/usr/bin/npx",
            "/usr/bin/bash",
            "/usr/bin/sh",
        ])
        .programs(&["yarn", "bunx", "bun", "uv"])
        .allow(&["/usr/bin/yarn", "/usr/bin/bunx", "/usr/bin/bun", "/usr/bin/uv"]);
    world.defeats(
        &[
            "npx tool",
            "npm exec tool",
            "npm x tool",
            "npm --silent exec tool",
            "pnpm dlx tool",
            "pnpm exec tool",
            "yarn dlx tool",
            "bunx tool",
            "bun x tool",
            "uv run tool",
            "bash --rcfile f -c 'rg x'",
            "bash --init-file f -c 'rg x'",
            "bash script.sh",
            "sh -o errexit script.sh",
            "bash -O extglob -c 'rg x'",
            "sh script.sh",
        ],
        &["npm test", "pnpm install", "bash --norc -c 'rg x'"],
    );
    let mut strict = everything().programs(&["node"]);
    strict.strict_inline_eval = true;
    strict.defeats(
        &[
            "node --import ./x.mjs a.js",
            "node -r ./x a.js",
            "node --loader ./x a.js",
            "node --require=./x a.js",
        ],
        &["node a.js"],
    );
}

#[test]
fn openclaw_2026_3_12_ruby_loading() {
    strict_inline_eval().programs(&["perl"]).defeats(
        &[
            "ruby -r./x y.rb",
            "ruby -I. y.rb",
            "ruby -e x",
            "ruby -ne x",
            "perl -Mx y.pl",
            "perl -mx y",
            "perl -I. y",
            "perl -ne x",
        ],
        &["ruby y.rb", "perl y.pl"],
    );
}

#[test]
fn openclaw_2026_3_22_jq_env() {
    let mut world = with_safe_bins(&["jq", "awk", "sed", "wc", "env"]);
    for name in ["jq", "awk", "sed", "env"] {
        world.profiles.insert(
            name.to_owned(),
            countersign_policy::command::safe_bin::SafeBinProfile::default(),
        );
    }
    world.defeats(
        &["jq -n env", "jq -n '$ENV'", "jq .", "awk 1", "sed p", "env"],
        &["wc -l"],
    );
    assert!(
        Limits::of("jq", &world.profiles).is_none(),
        "no configuration makes jq a safe bin"
    );
}

#[test]
fn ghsa_qm9x_v7cx_7rq4() {
    let world = readers().allow(&["/usr/bin/time", "time"]);
    world.defeats(
        &[
            "time id",
            "time -p id",
            "/usr/bin/time id",
            "time -o x rg y",
            "time -f %e id",
            "time sh -c id",
            "env time id",
        ],
        &["time rg x", "time -p rg x"],
    );
}

#[test]
fn openclaw_pr_53133() {
    let world = readers().allow(&["/usr/bin/sh"]).remember("/usr/bin/sh", None);
    world.defeats(
        &[
            "sh -c '\"$0\" \"$@\"' rg x",
            "sh -c '$0 \"$@\"' id",
            "sh -c '\"$@\"' sh id",
            "sh -c 'exec \"$@\"' _ id",
            "sh -c 'eval \"$1\"' _ id",
            "sh -c 'rg x; \"$@\"'",
        ],
        &["sh -c 'rg x'"],
    );
}

#[test]
fn ghsa_2cq5_mf3v_mx44() {
    let world = with_safe_bins(&["busybox", "toybox", "wc", "tail"]);
    world.defeats(&["busybox wc", "toybox wc -l", "busybox"], &["wc -l"]);
    // An applet by its own name is the same program.
    let applets = world.link("/usr/bin/wc", "/usr/bin/busybox");
    applets.defeats(&["wc -l"], &["tail -n 1"]);
}

#[test]
fn cve_2026_44115() {
    everything().defeats(
        &[
            "cat <<E\n$(id)\nE",
            "cat <<'E'\nx\nE",
            "cat <<-E\n\tx\nE",
            "cat <<< x",
            "cat 3<<E\nE",
            "sh -c 'cat <<E\nx\nE'",
        ],
        &["rg '<<E'", "rg \\<\\<E"],
    );
}

#[test]
fn cve_2026_53861() {
    let world = readers().allow(&["/usr/bin/bash", "/usr/bin/sh"]);
    world.defeats(
        &[
            "bash -xc id",
            "bash -xc 'rg x'",
            "bash -cx 'rg x'",
            "bash -lc 'rg x'",
            "bash -ic 'rg x'",
            "bash -vec 'rg x'",
            "sh -sc 'rg x'",
            "bash -ec id",
            "bash -c'rg x'",
        ],
        &["bash -ec 'rg x'", "bash -euc 'rg x'", "bash -ce 'rg x'"],
    );
}

#[test]
fn cve_2026_53820() {
    let world = everything().link("/srv/project/ok", "/usr/bin/id").deny("id");
    let denied = [
        "id",
        "/usr/bin/id",
        "env id",
        "nice id",
        "sh -c id",
        "sh -c 'rg x; id'",
        "./ok",
        "timeout 5 env id",
        "find . -exec id \\;",
        "xargs id",
        "flock /tmp/x id",
        "rg x | id",
        "env sh -c 'env id'",
        "ID",
        "busybox id",
    ];
    for text in denied {
        let found = world.text(text);
        assert!(found.denylisted.is_some(), "{text:?}: {:?}", found.findings);
    }
    world.defeats(&denied, &["rg id", "env rg x", "find . -name id"]);
}

#[test]
fn openclaw_pr_80999() {
    with_safe_bins(&["head", "cut", "tr"]).defeats(
        &[
            "head -c $N",
            "head -n \"$N\"",
            "cut -d \"$X\" -f 1",
            "cut -f `id`",
            "tr \"$A\" b",
            "head -c x=~/y",
            "cut -d$'x' -f 1",
            "head -n 1{0,1}",
        ],
        &["head -c 10", "cut -d '$' -f 1", "tr '`' b"],
    );
}

#[test]
fn cve_2026_62229() {
    let world = readers()
        .file("/srv/tools/x")
        .link("/srv/tools/link", "/usr/bin/id")
        .allow(&["/srv/tools/**", "/opt/../usr/bin/*"]);
    world.defeats(
        &[
            "/srv/tools/../../usr/bin/id",
            "/srv/tools/./../../usr/bin/id",
            "/srv/tools//../..//usr/bin/id",
            "/srv/tools/link",
            "/usr/bin/id",
        ],
        &["/srv/tools/x", "/srv/tools/../tools/x", "/srv/./tools//x"],
    );
}

#[test]
fn openclaw_pr_93362() {
    let world = readers()
        .allow(&["/usr/bin/flock", "flock"])
        .allow_with("/usr/bin/flock", "^/tmp/lock rg [a-z]+$");
    world.defeats(
        &[
            "flock /tmp/x id",
            "flock /tmp/x -c id",
            "flock -n /tmp/x rg y",
            "env flock /tmp/x id",
            "flock /tmp/lock id",
        ],
        &["flock /tmp/lock rg x"],
    );
    let remembered = readers().remember("/usr/bin/flock", None);
    remembered.defeats(&["flock /tmp/x id", "flock /tmp/x rg y"], &["rg y"]);
}

#[test]
fn openclaw_issue_128470() {
    readers().defeats(
        &[
            "rg x | id",
            "rg x | cat | id",
            "rg x | cat | sh",
            "id | rg x",
            "rg x |\nid",
            "rg x | env id",
        ],
        &["rg x | cat | cat", "rg x |\ncat"],
    );
}

#[test]
fn goclaw_1205() {
    readers().defeats(
        &[
            "echo hi; id",
            "echo hi && id",
            "echo $(id)",
            "echo hi > /etc/x",
            "echo hi | sh",
            "echo `id`",
            "echo hi\nid",
        ],
        &["echo hi", "echo 'hi; id'"],
    );
}

#[test]
fn goclaw_1200() {
    readers().allow(&["/usr/bin/env", "env"]).file("/bin/sh").defeats(
        &[
            "env /bin/sh -c id",
            "env sh -c id",
            "env sh",
            "env -i /bin/sh -c id",
            "env python3 -c x",
        ],
        &["env rg x", "env sh -c 'rg x'"],
    );
}

#[test]
fn goclaw_1213() {
    let world = World::new()
        .programs(&["echo", "env"])
        .file("/srv/project/echo")
        .allow(&["echo"]);
    world.defeats(
        &[
            "./echo hi",
            "/srv/project/echo hi",
            "../project/echo",
            "env ./echo",
        ],
        &["echo hi", "env echo hi"],
    );
}

#[test]
fn goclaw_1212() {
    let world = readers()
        .remember("/usr/bin/busybox", None)
        .remember("/usr/bin/busybox", Some("sha256:argv:00"))
        .remember("/usr/bin/sh", None);
    world.defeats(
        &[
            "busybox sh -c id",
            "busybox sh -c 'rg x'",
            "busybox id",
            "sh -c id",
        ],
        &["sh -c 'rg x'"],
    );
    assert!(
        world
            .argv(&["busybox", "sh", "-c", "rg x"])
            .proposed_patterns
            .is_empty(),
        "nothing of it is ever remembered"
    );
}

#[test]
fn cve_2025_54795() {
    readers().defeats(
        &[
            "echo \"\\\\\"; id; \"\\\\\"",
            "echo '\\'; id; '\\'",
            "echo \"\"; id; echo \"\"",
            "echo 'x'\\\\''; id",
            "echo \\\"; id; \\\"",
        ],
        &[
            "echo \"\\\"; id; \\\"\"",
            "echo '\"; id; \"'",
            "echo 'x'\\''; id'",
        ],
    );
}

#[test]
fn cve_2025_58764() {
    readers().defeats(
        &[
            "rg --pre=./x y",
            "rg --pre ./x y",
            "rg --pr=./x y",
            "rg y --hostname-bin=./x",
            "rg --hostname ./x y",
            "env rg --pre ./x y",
            "rg --pr''e x y",
        ],
        &["rg -n x", "rg --pretty x", "rg -- x"],
    );
}

#[test]
fn cve_2025_64755() {
    strict_inline_eval().defeats(
        &[
            "sed 'w out'",
            "sed -n 's/a/b/w out' x",
            "sed -e 1e",
            "sed --expression=p x",
            "sed -i '1e id' x",
            "sed 's/x/id/e'",
        ],
        &["sed -n -f script.sed x"],
    );
    with_safe_bins(&["sed", "wc"]).defeats(&["sed p", "sed -n p"], &["wc -l"]);
}

#[test]
fn cve_2025_66032() {
    readers().allow(&["/usr/bin/sort"]).defeats(
        &[
            "rg$IFS--pre=x",
            "rg${IFS}x",
            "rg x$IFS-o",
            "sort --compress-pr=id x",
            "git grep --open-files-in-p x",
            "git grep -Oid x",
            "git ls-remote -uid x",
            "git push --rec=id",
        ],
        &["git grep x", "sort -c x", "git ls-remote origin"],
    );
}

#[test]
fn cve_2026_24887() {
    let world = readers().allow(&["/usr/bin/find"]);
    world.defeats(
        &[
            "find . -exec id \\;",
            "find . -execdir id +",
            "find . -ok id \\;",
            "find . -okdir id \\;",
            "find . -name x '-exec' id ';'",
            "env find . -exec id +",
        ],
        &["find . -name '-exec*'", "find . -type f"],
    );
    // Who wants it says with which arguments.
    let exact = readers().allow_with("/usr/bin/find", r"^\. -exec cat \{\} \+$");
    exact.defeats(&["find . -exec id {} +"], &["find . -exec cat {} +"]);
}

#[test]
fn claude_code_2_1_177_awk() {
    strict_inline_eval().defeats(
        &[
            "awk 'BEGIN{system(\"id\")}'",
            "awk '{print > \"out\"}' x",
            "awk -e 1",
            "awk --source=1 x",
            "awk -v a=b 1 x",
        ],
        &["awk -f script.awk x"],
    );
    with_safe_bins(&["awk", "wc"]).defeats(&["awk 1"], &["wc -l"]);
}

#[test]
fn cve_2026_25722() {
    let world = readers()
        .file("/srv/project/sub/run.sh")
        .file("/srv/project/run.sh")
        .allow(&["/srv/project/sub/*"]);
    world.defeats(
        &[
            "cd /tmp; ./run.sh",
            "cd sub; ./run.sh",
            "cd sub || ./run.sh",
            "cd sub && cat x > y",
            "cd sub\n./run.sh",
            "cd .. && ./run.sh",
            "cd - && rg x",
            "cd sub extra && ./run.sh",
            "cd && ./run.sh",
            "cd sub | ./run.sh",
            "./run.sh",
        ],
        &[
            "cd sub && ./run.sh",
            "cd ./sub/../sub && ./run.sh",
            "cd sub; rg x",
        ],
    );
}

#[test]
fn cve_2026_25724() {
    let world = everything()
        .deny("id")
        .deny("/opt/secret/*")
        .file("/opt/secret/tool")
        .link("/srv/project/harmless", "/usr/bin/id")
        .link("/srv/project/other", "/opt/secret/tool")
        .link("/srv/project/plain", "/usr/bin/rg");
    for text in [
        "./harmless",
        "/srv/project/harmless",
        "./other",
        "env ./other",
        "sh -c ./harmless",
    ] {
        assert!(world.text(text).denylisted.is_some(), "{text}");
    }
    world.defeats(&["./harmless", "./other"], &["./plain x"]);
}

#[test]
fn cve_2026_39861() {
    let world = readers()
        .file("/srv/tools/own")
        .link("/srv/tools/out", "/usr/bin/id")
        .link("/srv/tools/shell", "/usr/bin/bash")
        .link("/srv/tools/wrapped", "/usr/bin/env")
        .allow(&["/srv/tools/*"])
        .protect("/home/agent/.openclaw");
    let linked = world.link("/srv/project/state", "/home/agent/.openclaw");
    linked.defeats(
        &[
            "/srv/tools/out",
            "/srv/tools/shell -c id",
            "/srv/tools/wrapped id",
            "cat state",
            "cat ~/.openclaw/x",
        ],
        &["/srv/tools/own", "cat other"],
    );
}

#[test]
fn claude_code_fifty_subcommands() {
    let chain = |count: usize| vec!["rg x"; count].join("; ");
    let world = readers();
    world.defeats(
        &[
            &chain(65),
            &format!("{}; id", chain(64)),
            &format!("sh -c '{}' && {}", chain(40), chain(40)),
            &format!("{}; id", chain(51)),
        ],
        &[&chain(64), &chain(51)],
    );
}

#[test]
fn claude_code_2_1_214() {
    let long = |length: usize| format!("echo {}", "x".repeat(length));
    everything().defeats(
        &[
            "rg x 2>&1",
            "rg x 3<y",
            "rg x 3>&-",
            "rg x {fd}>y",
            "rg x &>y",
            "rg x >|y",
            "[[ a[$(id)] ]]",
            "[[ -n x ]]",
            &long(10_001),
            &format!("{}; id", long(10_001)),
            &long(8_192),
        ],
        &["rg '2>&1'", &long(8_000)],
    );
}

#[test]
fn claude_code_source_comments() {
    readers().defeats(
        &[
            "=id",
            "=id x",
            "rg =(id)",
            "rg x\rid",
            "rg\rx",
            "rg '\r'",
            "echo x; =rg",
            "true && id",
            "pwd; id",
            ": $(id)",
            "true x",
        ],
        &["rg =id", "true && rg x", "pwd; rg x"],
    );
}

#[test]
fn cve_2025_62354() {
    readers().defeats(
        &[
            "ls;id", "ls&&id", "ls||id", "ls|id", "ls&id", "ls$(id)", "ls`id`", "ls\nid", "ls<(id)", "ls>x",
            "(id)", "{ id; }", "! id", "ls;;id",
        ],
        &["ls ';id'", "ls \\;id"],
    );
}

#[test]
fn cve_2026_22708() {
    everything().defeats(
        &[
            "export PAGER=id",
            "typeset -i x='a[$(id)]'",
            "declare -x PAGER=id; git log",
            "PAGER=id git log",
            "local x=1",
            "readonly x=1",
            "set -x",
            "unset PATH",
            "alias rg=id; rg",
            "hash -p /usr/bin/id rg; rg",
            "export PAGER=id && git log",
            "PATH=/tmp rg",
            "x=1",
            "GIT_SSH_COMMAND=id git fetch",
            "eval id",
            ". ./x",
            "source x",
            "builtin eval id",
            "command eval id",
            "enable -f x y",
        ],
        &["TZ=UTC git log", "NO_COLOR=1 rg x"],
    );
    // Nor by way of the call's own overrides.
    everything()
        .env("GIT_SSH_COMMAND", "id")
        .defeats(&["git fetch"], &[]);
    everything()
        .env("SOMETHING_NEW", "id")
        .defeats(&["git fetch"], &[]);
    everything().env("TZ", "UTC").defeats(&[], &["git fetch"]);
}

#[test]
fn cve_2026_26268() {
    readers().defeats(
        &[
            "git -c core.hooksPath=x commit",
            "git -ccore.hooksPath=x commit",
            "git --config-env=core.hooksPath=X commit",
            "git --exec-path=. status",
            "git clone -c core.hooksPath=x y",
            "git clone --template=x y",
            "git init --template=x",
            "git submodule foreach id",
            "git rebase -x id",
            "git bisect run id",
            "git fetch ext::id",
            "git filter-branch",
        ],
        &[
            "git -c color.ui=false status",
            "git -c user.name=x commit -m y",
            "git status",
        ],
    );
}

#[test]
fn cve_2026_50548() {
    let mut world = World::new()
        .found("tool", "/opt/x/bin/tool")
        .file("/opt/x/bin/own")
        .allow(&["tool"]);
    world.defeats(&["./own"], &["tool"]);
    for cwd in ["/opt/x/bin", "/opt/x", "/opt"] {
        world.cwd = cwd.to_owned();
        world.defeats(&["tool", "./tool", "./bin/tool", "env tool"], &[]);
    }
    // What the system's own directories hold is what its name says, wherever a call starts.
    let mut system = World::new().programs(&["rg"]).allow(&["rg"]);
    for cwd in ["/", "/usr", "/usr/bin"] {
        system.cwd = cwd.to_owned();
        system.defeats(&["./rg"], &["rg"]);
    }
}

#[test]
fn ghsa_g8r9_g2v8_jv6f() {
    everything().defeats(
        &[
            "echo ${v@P}",
            "echo ${v:=x}",
            "echo ${!v}",
            "echo \"${v@P}\"",
            "echo ${v:-$(id)}",
            "echo $((a[$(id)]))",
            "echo ${v/x/$(id)}",
            "echo $(echo $(id))",
            "echo \"`echo \\`id\\``\"",
            "echo ${#v}",
        ],
        &["echo '${v@P}'", "echo \\${v@P}"],
    );
}

#[test]
fn cve_2026_45033() {
    readers().defeats(
        &[
            "git -c core.fsmonitor=./x status",
            "git -c core.fsmonitor status",
            "git --git-dir=x -c core.fsmonitor=./y status",
            "git -C x -c core.pager=id log",
            "git -c alias.x='!id' x",
            "git -c core.sshCommand=id fetch",
        ],
        &["git -c log.showSignature=false log", "git -C x status"],
    );
}

#[test]
fn gemini_cli_11510() {
    readers().defeats(
        &[
            "ls && id",
            "ls; cat x; id",
            "ls | cat | id",
            "ls\n\nid",
            "ls # x\nid",
        ],
        &["ls && cat x; ls", "ls # id"],
    );
}

#[test]
fn gemini_cli_pr_25935() {
    everything().defeats(
        &[
            "echo $[ x='a[$(id)]', x ]",
            "echo $[1+1]",
            "echo \"$[1]\"",
            "((x=1))",
            "let x=1",
            "echo 'open",
            "echo $(",
            "if",
            "case x in",
            "echo \\",
            "for x in a; do id; done",
            "echo )",
        ],
        &["echo '$[1]'", "echo \\$\\[1]"],
    );
}

#[test]
fn cve_2026_110206() {
    everything().defeats(
        &[
            "$(id) x",
            "`id`",
            "\"$(id)\"",
            "${x}",
            "$x",
            "env $(id)",
            "r$(id)g x",
            "sh -c \"$(id)\"",
        ],
        &["'rg' x", "r\"g\" x"],
    );
}

#[test]
fn cve_2026_30314() {
    everything().defeats(
        &[
            "rg --x=$(id)",
            "rg -A$(id) x",
            "rg --x=`id`",
            "rg --x=\"$(id)\"",
            "git log --format=$(id)",
            "rg --x={a,b}",
            "rg -e$X",
        ],
        &["rg --x='$(id)'", "git log '--format=$(id)'"],
    );
}

#[test]
fn cve_2026_30312() {
    readers().defeats(
        &[
            "rg x\nid",
            "rg x\n\n\nid",
            "rg x\r\nid",
            "rg x \\\n\nid",
            "rg x # y\nid",
            "rg x &&\nid",
            "rg 'x'\nid",
        ],
        &["rg x\ncat y", "rg 'x\nid'", "rg \"x\nid\""],
    );
}

#[test]
fn cve_2026_109560() {
    let world = World::new()
        .programs(&["git", "id"])
        .allow_with("/usr/bin/git", "^status");
    world.defeats(
        &[
            "git status; id",
            "git status && id",
            "git status | id",
            "git status $(id)",
            "git status > x",
            "git status & id",
            "git  log status",
        ],
        &["git status", "git status -s"],
    );
}

#[test]
fn cve_2026_85660() {
    everything().defeats(
        &[
            "ls && echo $(id)",
            "ls; echo `id`",
            "ls | cat \"$(id)\"",
            "ls || echo $(echo `id`)",
        ],
        &["ls && echo '$(id)'", "ls; echo '`id`'"],
    );
}

#[test]
fn auto_approve_hook_4() {
    everything().defeats(
        &[
            "echo x > /etc/passwd",
            "echo x >> y",
            "cat < /etc/shadow",
            "echo x 1>y",
            "echo x>y",
            "2>y echo",
            ">y",
            "echo x >&2",
            "echo >(id)",
            "cat <(id)",
        ],
        &["echo 'x > y'", "echo x\\>y"],
    );
}
