//! Inputs of the fuzz targets `mesh_frame` and `mesh_notes`: committed ones, and those that the fuzzer found.

#![expect(clippy::unwrap_used, reason = "an input that cannot be read must fail the test")]

use hivemind_mesh_sim::{hostile_frames, hostile_map_messages};
use std::path::Path;

/// The committed inputs of a target; it may have none.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let folders = [seeds.join(target), seeds.join("found").join(target)];
    let entries = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn committed_fuzz_inputs_pass_again() {
    let frames = inputs("mesh_frame");
    assert!(!frames.is_empty(), "fuzz/seeds/mesh_frame is missing");
    for bytes in frames {
        hostile_frames(&bytes);
    }
    for bytes in inputs("mesh_notes") {
        hostile_map_messages(&bytes);
    }
}
