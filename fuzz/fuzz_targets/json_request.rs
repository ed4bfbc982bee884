//! See `hivemind::fuzzing::json_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hivemind::fuzzing::json_request(bytes));
