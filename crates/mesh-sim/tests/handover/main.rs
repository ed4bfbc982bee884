//! Counters whose owner changes: buckets, windows, and clocks that differ meanwhile.

#![cfg(test)]

mod buckets;
mod clocks;
mod windows;

use hivemind_mesh::{MeshOptions, OnUnreachable};

fn strict() -> MeshOptions {
    MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() }
}
