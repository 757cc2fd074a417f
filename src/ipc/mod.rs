//! The approvals socket, as the side that asks people and as the side that is asked (`ipc.md`).
