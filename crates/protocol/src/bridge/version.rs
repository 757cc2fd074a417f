//! Which protocol both sides speak (`docs/spec/bridge.md#3-handshake`).

/// The lowest protocol here: the first generation's.
pub(crate) const LOWEST: i64 = 3;
/// The highest protocol here: the present generation's.
pub(crate) const HIGHEST: i64 = 4;

/// A protocol that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The first generation's.
    Three,
    /// The present generation's.
    Four,
}

impl Protocol {
    /// The highest that lies in a client's range. A client of 3..3 is answered 3: one that is told 4 would come back
    /// with 4, signed otherwise.
    pub const fn negotiate(min: i64, max: i64) -> Option<Self> {
        if min <= HIGHEST && max >= HIGHEST {
            Some(Self::Four)
        } else if min <= LOWEST && max >= LOWEST {
            Some(Self::Three)
        } else {
            None
        }
    }

    /// Its number on the wire: 3 or 4.
    pub const fn number(self) -> i64 {
        match self {
            Self::Three => LOWEST,
            Self::Four => HIGHEST,
        }
    }

    /// The protocol of a number.
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            LOWEST => Some(Self::Three),
            HIGHEST => Some(Self::Four),
            _other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_protocol_is_spoken() {
        let cases = [
            ((3, 3), Some(Protocol::Three)),
            ((4, 4), Some(Protocol::Four)),
            ((3, 4), Some(Protocol::Four)),
            ((1, 3), Some(Protocol::Three)),
            ((1, 9), Some(Protocol::Four)),
            ((4, 9), Some(Protocol::Four)),
            ((1, 2), None),
            ((5, 9), None),
            ((4, 3), None),
        ];
        for ((min, max), expect) in cases {
            assert_eq!(Protocol::negotiate(min, max), expect, "{min}..{max}");
        }
    }
}
