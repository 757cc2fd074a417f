//! Ports for programs that must be told theirs.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::TcpListener,
};

/// Below the ports that Linux gives to those who take any (`ip_local_port_range` begins at 32768): so no other server and no
/// connection takes it between here and the start of the program, which may take seconds.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port of this machine that is free, and that nobody gets by chance.
pub(crate) fn free_port() -> u16 {
    let random = RandomState::new().hash_one(std::process::id());
    let from = u16::try_from(random % u64::from(COUNT)).expect("below the count");
    (0..COUNT)
        .map(|step| FIRST + (from + step) % COUNT)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}
