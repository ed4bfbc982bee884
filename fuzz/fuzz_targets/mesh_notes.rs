//! See `hivemind_mesh_sim::hostile_map_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hivemind_mesh_sim::hostile_map_messages(bytes);
});
