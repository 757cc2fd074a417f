//! The approvals socket: lines, proofs, replay, replies (`ipc.md`).
