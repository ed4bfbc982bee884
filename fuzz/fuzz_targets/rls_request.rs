//! See `hivemind::fuzzing::rls_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hivemind::fuzzing::rls_request(bytes);
});
