//! The Bridge: frames, handshake, device identity, methods (`bridge.md`).
