#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::run("parse_and_render", data));
