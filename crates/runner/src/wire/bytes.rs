//! Numbers, texts and lists as bytes: what every frame and message is made of.

use std::ffi::CString;

use countersign_domain::TerminalSize;

/// Bytes that are being written.
pub(crate) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn number32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn number64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.0
            .extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    pub(crate) fn long(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    pub(super) fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Bytes that are being read; what is missing is `None`.
pub(crate) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn terminal_size(&mut self) -> Option<TerminalSize> {
        let (rows, cols) = (self.u16()?, self.u16()?);
        TerminalSize::new(rows, cols)
    }

    pub(super) fn short_text(&mut self) -> Option<&'a str> {
        let length = self.byte()?;
        std::str::from_utf8(self.bytes(length.into())?).ok()
    }

    pub(crate) fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    pub(super) fn i128(&mut self) -> Option<i128> {
        self.array().map(i128::from_le_bytes)
    }

    pub(crate) fn path(&mut self) -> Option<CString> {
        CString::new(self.long_bytes()?).ok()
    }

    /// `None` for what is no option at all.
    #[expect(
        clippy::option_option,
        reason = "everything that is read here may be unreadable"
    )]
    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(read(self)?)),
            _ => None,
        }
    }

    pub(crate) fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Not trusted for its memory: it grows with what is really there.
        (0..self.u32()?).map(|_| read(self)).collect()
    }
}

pub(super) fn size_bytes(size: TerminalSize) -> [u8; 4] {
    let ([a, b], [c, d]) = (size.rows().to_le_bytes(), size.cols().to_le_bytes());
    [a, b, c, d]
}
