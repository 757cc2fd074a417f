//! People with a browser: one-time links, sessions, second secrets, and who may not act for them.

mod attacks;
mod browser;
mod command_line;
mod cors;
mod links;
mod sessions;
