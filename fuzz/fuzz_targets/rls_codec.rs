//! See `hivemind::fuzzing::rls_codec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hivemind::fuzzing::rls_codec(bytes);
});
