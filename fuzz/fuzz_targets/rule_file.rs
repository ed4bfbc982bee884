//! See `hivemind::fuzzing::rule_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hivemind::fuzzing::rule_file(bytes));
