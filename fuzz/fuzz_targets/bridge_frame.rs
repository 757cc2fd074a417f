#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::run("bridge_frame", data));
