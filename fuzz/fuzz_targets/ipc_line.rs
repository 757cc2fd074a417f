#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::run("ipc_line", data));
