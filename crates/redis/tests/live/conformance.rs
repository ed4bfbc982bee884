//! The store under the suite that holds every store to the pure algorithms.

use crate::server::{Server, valkey};
use crate::stores::{runtime, store};
use hivemind_core::testing::conforms;
use hivemind_redis::{ClockSource, RedisOptions};

fn options(server: &Server) -> RedisOptions {
    let mut options = RedisOptions::new(server.url());
    options.clock = ClockSource::Caller;
    options.timeout = std::time::Duration::from_secs(10);
    options
}

// Fails when a guessed quotient that is not corrected; one unit more than there is fits; what is owed to a
// window that is over moves its counter.
#[test]
fn redis_decides_like_the_model() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server), &runtime);
    conforms(|| store.clone());
}

#[test]
fn valkey_decides_like_the_model() {
    let Some(program) = valkey() else { return };
    let (server, runtime) = (Server::of(&program, &[]), runtime());
    let store = store(options(&server), &runtime);
    conforms(|| store.clone());
}

#[test]
fn redis_without_over_cache_decides_like_the_model() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let mut options = options(&server);
    options.over_cache = false;
    let store = store(options, &runtime);
    conforms(|| store.clone());
}
