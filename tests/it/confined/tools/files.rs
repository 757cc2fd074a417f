//! Files: owners, modes, times, links, locks, attributes, sizes.

use crate::confined::{FREE, builder, possible, run};

use super::{in_fresh_directory, possible_with, works};
use crate::support::Members;

#[tokio::test]
async fn files_have_the_owners_modes_and_times_that_they_are_given() {
    or_skip!(possible());
    let server = builder().start().await;
    for (programs, script) in [
        (
            vec!["stat"],
            "umask 027 && touch f && mkdir g && test $(stat -c %a:%u:%g f) = 640:$(id -u):$(id -g) && test $(stat -c %a g) = 750 && \
             chmod 4711 f && test $(stat -c %a f) = 4711 && chmod 3775 g && test $(stat -c %a g) = 3775 && \
             chown $(id -u):$(id -g) f && chgrp $(id -g) f",
        ),
        (
            vec!["touch"],
            "touch -d 2001-02-03T04:05:06Z f && test $(stat -c %Y f) = 981173106 && cp -p f g && test ! g -nt f && touch -h -r f g",
        ),
        (
            vec!["install"],
            "install -m 640 -o $(id -u) -g $(id -g) /etc/hostname f && cp -a /etc/hostname g && cmp f g && cp --preserve=all f h",
        ),
        (
            vec!["ln"],
            "ln -s /etc/hostname s && test \"$(readlink s)\" = /etc/hostname && cmp s /etc/hostname && echo x > f && ln f h && \
             test $(stat -c %h f) = 2 && ln -s loop loop; cat loop 2> e; grep -q 'Too many' e",
        ),
        (
            vec!["truncate", "dd"],
            "truncate -s 5G sparse && test $(stat -c %s sparse) = 5368709120 && dd if=/dev/zero of=full bs=1M count=64 status=none && \
             fallocate -l 8M reserved && echo end | dd of=sparse bs=1 seek=5368709120 conv=notrunc status=none && tail -c 4 sparse | grep end && \
             cp --sparse=always sparse other && test $(du -m other | cut -f1) -lt 64",
        ),
        (
            vec!["python3"],
            "python3 -c 'import os; open(\"f\", \"w\"); os.setxattr(\"f\", \"user.k\", b\"v\"); assert os.getxattr(\"f\", \"user.k\") == b\"v\"'",
        ),
        (
            vec!["flock"],
            "exec 9> l && flock 9 && ! flock -n l true && flock -u 9 && flock -n l true",
        ),
        (
            vec!["sqlite3"],
            "sqlite3 t.db 'pragma journal_mode=wal; create table t(n); insert into t values (7)' && test $(sqlite3 t.db 'select n from t') = 7 && \
             sqlite3 t.db 'begin exclusive; insert into t values (8); commit' && test $(sqlite3 t.db 'select count(*) from t') = 2",
        ),
        (
            vec!["mktemp"],
            "t=$(mktemp) && u=$(mktemp -d) && test -w $t && test $(stat -c %a $u) = 700 && rm $t && rmdir $u && \
             mkdir x && mv x y && touch y/f && rm -r y",
        ),
        (
            vec!["df"],
            "df -P . | grep -q / && df -P /tmp | tail -n 1 | awk '{ exit $4 == 0 }' && du -s . && mount | grep -q ' / ' && findmnt -n / | grep -q /",
        ),
        (
            vec!["id", "getent"],
            "test $(id -un) = $(getent passwd $(id -u) | cut -d: -f1) && getent group $(id -g) && getent hosts localhost && \
             test $(stat -c %U .) = $(id -un) && ls -ld . | grep -q $(id -un)",
        ),
        (
            vec!["date"],
            "test $(date -d @0 -u +%Y) = 1970 && TZ=Asia/Tokyo date +%Z && hostname && uname -r && nproc && uptime && free",
        ),
        (
            vec!["git"],
            "git init -q r && cd r && git config user.name T && git config user.email t@example.test && git commit -q --allow-empty -m x && \
             git worktree add -q ../w && git -C ../w status --porcelain && git config --list --show-origin | grep -q user.name && git fsck",
        ),
        (
            vec!["python3"],
            "python3 -c '\nimport ctypes, os\nc = ctypes.CDLL(None)\nf = c.inotify_init1(0)\nassert c.inotify_add_watch(f, b\".\", 0x100) > 0\nopen(\"new\", \"w\")\nassert b\"new\" in os.read(f, 4096)'",
        ),
        (
            vec!["fakeroot"],
            "mkdir s && touch s/f && fakeroot sh -c 'chown 0:0 s/f && tar cf t.tar s' && tar tvf t.tar --numeric-owner | grep -q '0/0.*s/f'",
        ),
    ] {
        works(&server, &programs, script).await;
    }
}

/// What is told to `tar` about owners: what works as everywhere, what fails as everywhere, and the one thing that
/// differs, which is whom files of root seem to belong to.
#[tokio::test]
async fn archives_keep_owners_as_far_as_an_ordinary_account_can() {
    or_skip!(possible_with(&["tar"]));
    let server = builder().start().await;
    let own = "mkdir s && echo x > s/f && chmod 750 s && touch -d 2001-02-03 s/f";
    for script in [
        format!(
            "{own} && tar cf t s && mkdir o && tar xpf t --same-owner -C o && test $(stat -c %a:%u o/s) = 750:$(id -u) && test ! o/s/f -nt s/f"
        ),
        format!(
            "{own} && tar cf t --owner=0 --group=0 --numeric-owner s && tar tvf t --numeric-owner | grep -q ' 0/0 .*s/f' && mkdir o && tar xpf t -C o && test $(stat -c %u o/s/f) = $(id -u)"
        ),
        format!(
            "{own} && tar cf t --owner=0 --group=0 s && mkdir o && tar xf t --no-same-owner -C o && cmp s/f o/s/f"
        ),
        "tar cf t -C /etc hostname passwd && mkdir o && tar xpf t -C o && cmp o/passwd /etc/passwd"
            .to_owned(),
        format!(
            "{own} && tar cf t --xattrs --acls s && mkdir o && tar xf t --xattrs --acls -C o && tar df t"
        ),
    ] {
        works(&server, &["tar"], &script).await;
    }
    // An ordinary account cannot give files away, at any level, and tar says so.
    let given = format!("{own} && tar cf t --owner=0 --group=0 s && mkdir o && tar xf t --same-owner -C o");
    for agent in [FREE, "main"] {
        let refused = run(&server, agent, &in_fresh_directory(&server, &given)).await;
        assert_eq!(refused["exitCode"], 2, "{refused:#}");
        let said = refused.text("stderr");
        assert!(said.contains("Cannot change ownership to uid 0"), "{said}");
    }
    let listed = in_fresh_directory(
        &server,
        "tar cf t -C /etc hostname && tar tvf t --numeric-owner | awk '{ print $2 }'",
    );
    for (agent, owner) in [(FREE, "0/0\n"), ("main", "65534/65534\n")] {
        assert_eq!(run(&server, agent, &listed).await["stdout"], owner, "{agent}");
    }
}
