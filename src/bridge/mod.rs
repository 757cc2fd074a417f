//! The Bridge server: nodes and operators that are connected, and who may be what (`bridge.md`, section 13).
