//! The cell would notice: what the rules refuse leaves its marker there, and what they cover does not.

use super::cell::{Cells, is_here};

/// Calls that start something, or write a file that decides what starts, where nobody judges them.
const HOSTILE: &[&str] = &[
    "tar -cf a.tar --checkpoint=1 --checkpoint-action=exec=./run file",
    "bsdtar -W use-compress-program=./run -cf a.tar file",
    "bsdtar -xf archive.tar -s /file/.npmrc/",
    "sort -S 1k --compress-program=./run big",
    "make -B x.o TARGET_ARCH=@options",
    "make -B x LDLIBS=@options",
    "rustc +/tmp/w/toolchain x.rs",
    "dpkg --admindir=/tmp/w/db --force-not-root --force-all --configure evil",
    "git -c alias.x='!touch marker' x",
    "sed '1e touch marker' file",
    "awk 'BEGIN { system(\"touch marker\") }'",
    "gcc -fuse-ld=lld x.c evil.ld",
    "ld.lld x.o evil.ld",
    "find . -maxdepth 0 -exec ./run ';'",
    "split --filter=./run file",
];
const HARMLESS: &[&str] = &[
    "tar -cf a.tar file",
    "bsdtar -cf a.tar file",
    "sort file",
    "make x.o",
    "git status",
    "sed -n p file",
    "gcc x.c -o x",
    "ld.lld -o x x.o evil.ld",
];

#[test]
fn calls_that_the_rules_refuse_leave_a_marker_where_they_run() {
    let Some(cells) = Cells::new("control") else {
        return;
    };
    // The linker is a program of its own.
    let here = |text: &&&str| {
        text.split(' ').next().is_some_and(is_here) && (!text.contains("=lld") || is_here("ld.lld"))
    };
    let idle: Vec<_> = HOSTILE
        .iter()
        .filter(here)
        .map(|text| (text, cells.run(text)))
        .filter(|(_, left)| left.marker.is_none())
        .collect();
    assert!(idle.is_empty(), "these do nothing: {idle:#?}");
    let marked: Vec<_> = HARMLESS
        .iter()
        .filter(here)
        .map(|text| (text, cells.run(text)))
        .filter(|(_, left)| left.marker.is_some())
        .collect();
    assert!(marked.is_empty(), "{marked:#?}");
}
