//! What the black-box tests drive the program with. An API change should touch this folder and the test of
//! the change, nothing else.

mod browser;
mod certificates;
mod client;
mod disk;
mod files;
#[macro_use]
mod json;
pub(crate) mod node;
pub(crate) mod operator;
mod our_node;
mod pause;
mod ports;
mod process;
mod server;
#[macro_use]
mod skip;
mod sse;
mod terminal;
mod tools;
mod wait;
mod way;
#[expect(dead_code, reason = "the tests of the policy use more of it")]
#[path = "../../../crates/policy/tests/wide/world.rs"]
mod world;

pub(crate) use browser::{Browser, Screen};
pub(crate) use certificates::{Authority, Pair};
pub(crate) use client::{Answer, Api};
pub(crate) use disk::SmallDisk;
pub(crate) use files::{
    Scratch, joined_lines, lines, replace_file_mode, sha256, write_file, write_file_mode,
};
pub(crate) use json::{Members, assert_members, assert_says, only, without};
pub(crate) use operator::{OperatorClient, OperatorLink};
pub(crate) use our_node::{OurNode, let_in, until_connected, until_gone};
pub(crate) use pause::Pause;
pub(crate) use ports::free_port;
pub(crate) use process::{
    Finished, Invocation, countersign, inherited_path, is_alive, kill_hard, own_variable, released,
    run_long_program, run_program,
};
pub(crate) use process::{ProcessHandle, pid_of, processes_of, signal, terminate};
pub(crate) use server::{ServerBuilder, TestServer};
pub(crate) use skip::{NOBODY, is_root, needed, skip};
pub(crate) use sse::{Event, EventStream};
pub(crate) use terminal::Terminal;
pub(crate) use tools::{installed, node_compile_cache, node_runtime, program, python_tool};
pub(crate) use wait::{eventually, none_is_wrong, soon, within};
pub(crate) use way::{OnTheWay, way, way_of_pieces};
pub(crate) use world::World;
