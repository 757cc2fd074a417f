//! The kernel keeps what a command's programs start, write and connect to. Each way past it is tried beside a harmless
//! twin, and without the limits.

mod fixture;

mod delegation;
mod everyday;
mod limits;
mod over_http;
mod programs;
mod table;
