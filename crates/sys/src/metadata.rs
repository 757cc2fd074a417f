//! What is at a path, in the form in which the kernel writes it into the memory of a caller.

use rustix::fs::Statx;

/// The structure that a call fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `struct stat` of this architecture.
    Stat,
    /// `struct statx`, as `statx` fills it.
    Statx,
}

/// Times of `Statx`: seconds and nanoseconds.
type Time = (i64, u32);

impl Form {
    /// The bytes of the structure.
    pub fn bytes(self, found: &Statx) -> Vec<u8> {
        match self {
            Self::Stat => stat(found),
            Self::Statx => statx(found),
        }
    }
}

fn times(found: &Statx) -> [Time; 4] {
    [found.stx_atime, found.stx_btime, found.stx_ctime, found.stx_mtime]
        .map(|time| (time.tv_sec, time.tv_nsec))
}

fn stat(found: &Statx) -> Vec<u8> {
    let [accessed, _born, changed, modified] = times(found);
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    let special = rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor);
    let mut bytes = Bytes(Vec::with_capacity(144));
    bytes.u64(device);
    bytes.u64(found.stx_ino);
    if cfg!(target_arch = "x86_64") {
        bytes.u64(found.stx_nlink.into());
        bytes.u32(found.stx_mode.into());
    } else {
        bytes.u32(found.stx_mode.into());
        bytes.u32(found.stx_nlink);
    }
    bytes.u32(found.stx_uid);
    bytes.u32(found.stx_gid);
    if cfg!(target_arch = "x86_64") {
        bytes.u32(0);
        bytes.u64(special);
        bytes.u64(found.stx_size);
        bytes.u64(found.stx_blksize.into());
    } else {
        bytes.u64(special);
        bytes.u64(0);
        bytes.u64(found.stx_size);
        bytes.u32(found.stx_blksize);
        bytes.u32(0);
    }
    bytes.u64(found.stx_blocks);
    for (seconds, nanoseconds) in [accessed, modified, changed] {
        bytes.0.extend(seconds.to_le_bytes());
        bytes.u64(nanoseconds.into());
    }
    let end = if cfg!(target_arch = "x86_64") { 144 } else { 128 };
    bytes.0.resize(end, 0);
    bytes.0
}

fn statx(found: &Statx) -> Vec<u8> {
    let mut bytes = Bytes(Vec::with_capacity(256));
    bytes.u32(found.stx_mask);
    bytes.u32(found.stx_blksize);
    bytes.u64(found.stx_attributes.bits());
    bytes.u32(found.stx_nlink);
    bytes.u32(found.stx_uid);
    bytes.u32(found.stx_gid);
    bytes.u32(found.stx_mode.into());
    bytes.u64(found.stx_ino);
    bytes.u64(found.stx_size);
    bytes.u64(found.stx_blocks);
    bytes.u64(found.stx_attributes_mask.bits());
    for (seconds, nanoseconds) in times(found) {
        bytes.0.extend(seconds.to_le_bytes());
        bytes.u64(nanoseconds.into());
    }
    bytes.u32(found.stx_rdev_major);
    bytes.u32(found.stx_rdev_minor);
    bytes.u32(found.stx_dev_major);
    bytes.u32(found.stx_dev_minor);
    bytes.u64(found.stx_mnt_id);
    bytes.0.resize(256, 0);
    bytes.0
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "what the kernel itself writes has no safe form")]
mod tests {
    use rustix::fs::{AtFlags, CWD, StatxFlags};

    use super::*;

    #[test]
    fn the_kernel_writes_the_same() {
        let path = c"/proc/self/exe";
        let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::ALL).unwrap();
        let mut by_kernel = [0_u8; 256];
        // SAFETY: the structure is larger than what the kernel writes.
        let result = unsafe {
            libc::syscall(
                libc::SYS_newfstatat,
                libc::AT_FDCWD,
                path.as_ptr(),
                by_kernel.as_mut_ptr(),
                0,
            )
        };
        assert_eq!(result, 0);
        let ours = Form::Stat.bytes(&found);
        assert_eq!(ours[..], by_kernel[..ours.len()]);
        assert_eq!(ours.len(), size_of::<libc::stat>());
        // SAFETY: as above.
        let result = unsafe {
            libc::syscall(
                libc::SYS_statx,
                libc::AT_FDCWD,
                path.as_ptr(),
                0,
                StatxFlags::ALL.bits(),
                by_kernel.as_mut_ptr(),
            )
        };
        assert_eq!(result, 0);
        // Behind it stands what only newer kernels write.
        assert_eq!(Form::Statx.bytes(&found)[..144], by_kernel[..144]);
    }
}
