//! See `hivemind::fuzzing::websocket_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hivemind::fuzzing::websocket_frames(bytes));
