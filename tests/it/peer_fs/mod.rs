//! Files as another account sees them: a real process under another uid, started from root.

mod looks;
mod process;
mod trouble;

pub(crate) use process::{Account, FileBroker};
