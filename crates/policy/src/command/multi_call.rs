//! Files that are several programs, told apart by the name they are called by.

use super::names::{BOXES, without_version};

/// Files whose other names do other things, besides [`BOXES`]. Those that hold shells are multiplexers and never covered at all (S3).
const MULTI_CALL: &[&str] = &[
    "systemctl",
    "systemd",
    "resolvectl",
    "udevadm",
    "kmod",
    "lvm",
    "dmsetup",
    "xtables-nft-multi",
    "xtables-legacy-multi",
    "ebtables-nft",
    "btrfs",
    "e2fsck",
    "mke2fs",
    "tune2fs",
    "dosfsck",
    "mksquashfs",
    "mtools",
    "rustup",
    "rustup-init",
    "xz",
    "zstd",
    "lz4",
    "bzip2",
    "pigz",
    "gzip",
    "brotli",
    "git",
    "nix",
    "snap",
    "postfix",
    "exim",
    "exim4",
    "sendmail",
    "msmtp",
    "dropbearmulti",
    "vim",
    "vim.basic",
    "vim.tiny",
    "vim.nox",
    "vim.gtk3",
    "nvim",
    "clang",
    "lld",
    "llvm-ar",
    "llvm-objcopy",
    "ccache",
    "sccache",
    "distcc",
    "icecc",
    "pyenv",
    "rbenv",
    "asdf",
    "mise",
    "volta-shim",
    "pg_wrapper",
    "magick",
    "k3s",
    "swift-frontend",
];

/// The same, where the file has the name of one of them: `pkill` is a link to `pgrep`.
const NAMED_AFTER_ONE: &[&str] = &[
    "hostname", "killall5", "last", "nano", "pgrep", "pidof", "pidwait", "pkill", "skill", "tic", "tset",
    "unzip", "vipw", "zipinfo",
];

/// Whether what a file does depends on the name it is called by, as far as that is known. `name` is its own base name.
pub(crate) fn tells_by_name(name: &str) -> bool {
    let unversioned = without_version(name);
    is_named_after_one(name)
        || MULTI_CALL
            .iter()
            .chain(BOXES)
            .any(|known| *known == name || *known == unversioned)
}

/// Whether such a file's own name means one of its programs and not all.
pub(crate) fn is_named_after_one(name: &str) -> bool {
    NAMED_AFTER_ONE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_do_not_hide_them() {
        for name in [
            "pgrep",
            "killall5",
            "coreutils",
            "systemctl",
            "vim.basic",
            "clang-18",
            "lvm",
        ] {
            assert!(tells_by_name(name), "{name}");
        }
        for name in ["rg", "python3.12", "npm-cli.js", "lvmconfig"] {
            assert!(!tells_by_name(name), "{name}");
        }
    }
}
