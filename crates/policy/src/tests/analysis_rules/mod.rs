//! The rules of the command analysis one by one: cases of our own beside each, and a switch for each that shows that
//! the rule decides and that no case is idle.

mod cases;
mod properties;
mod switches;
mod worlds;
