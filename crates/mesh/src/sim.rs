//! A mesh of many nodes in one process: the real state machine and the real codec, a network
//! that loses, delays, repeats and reorders, clocks that are off, and a count of everything admitted.

mod random;

pub use random::Random;
