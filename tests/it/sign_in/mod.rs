//! People with a browser: one-time links, sessions, second secrets, and who may not act for them.

mod browser;
mod links;
