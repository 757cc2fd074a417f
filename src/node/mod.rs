//! The node host: this machine as a node of a gateway (`bridge.md`).
