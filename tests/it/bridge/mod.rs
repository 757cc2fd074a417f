//! The Bridge as nodes meet it: handshake, pairing, calls, limits, and everything that somebody could try.

mod calls;
mod connections;
mod handshake;
mod hostile;
mod pairing;
mod recordings;
mod wire;
