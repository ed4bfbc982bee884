//! See `hivemind_mesh_sim::hostile_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hivemind_mesh_sim::hostile_frames(bytes);
});
