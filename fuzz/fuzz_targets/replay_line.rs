//! See `hivemind::fuzzing::replay_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hivemind::fuzzing::replay_line(bytes));
