//! The calls of a Docker engine that sandboxes need, and the streams of what runs inside.
//!
//! [`Engine`] is a connection. It does what it is told and decides nothing: which containers are ours, what they may do and
//! when they go is `countersign_hosts::sandbox::docker`. The types of the library for the engine's API are large, and
//! its calls are compiled where they are awaited: here, once. Read on: [`Engine::connect`], [`Engine::start`].

#![forbid(unsafe_code)]

mod attach;
mod engine;

pub use attach::{AttachError, Attached, Frames};
pub use bollard::{
    errors::Error,
    models::{
        ContainerCreateBody, ExecConfig, HostConfig, Mount, MountBindOptions,
        MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
    },
};
pub use engine::{Container, Engine, Finished, Listed, Unreachable, as_json, is_conflict, is_missing, words};

/// For each public asynchronous function. The future of an `async fn` is compiled again in every crate that awaits it, with
/// all that it awaits in turn; a future behind a pointer is compiled here alone.
pub(crate) use async_recursion::async_recursion as compiled_once;
