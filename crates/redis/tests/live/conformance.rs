//! The store under the suite that holds every store to the pure algorithms.

use crate::server::Server;
use crate::stores::{runtime, store};
use hivemind_core::testing::conforms;
use hivemind_redis::{Options, Time};

fn options(server: &Server) -> Options {
    let mut options = Options::new(server.url());
    options.clock = Time::Ours;
    options.timeout = std::time::Duration::from_secs(10);
    options
}

#[test]
fn it_decides_like_the_model() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server), &runtime);
    conforms(|| store.clone());
}
