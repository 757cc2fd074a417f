//! `countersign node`: the node host against gateways of the tests' own, of both generations and worse ones, and against
//! our own server.

mod gateway;
mod scene;
mod stage;

mod attacks;
mod fence;
mod handshake;
mod own_policy;
mod policy;
mod run;
mod server;
mod service;
