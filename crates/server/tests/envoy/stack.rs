//! The three together: a client asks Envoy, Envoy asks Hivemind, and then the upstream.

use crate::service::Service;
use hivemind_testkit::envoy::bootstrap::{self, Bootstrap};
use hivemind_testkit::envoy::http::{Connection, Response};
use hivemind_testkit::envoy::proxy::{self, Envoy};
use hivemind_testkit::envoy::upstream::Upstream;
use serde_json::{Value, json};

/// What a test wants to be different.
pub(crate) struct Setup {
    rules: String,
    settings: Value,
    bootstrap: Bootstrap,
    over_unix_socket: bool,
}

impl Setup {
    /// The rules of the domain `test`.
    pub(crate) fn new(descriptors: &str) -> Self {
        let rules = format!("domain: test\ndescriptors:\n{descriptors}");
        Self { rules, settings: json!({}), bootstrap: Bootstrap::default(), over_unix_socket: false }
    }

    /// The settings of the service below `rate_limiting`.
    pub(crate) fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    /// One rate limit of the route for each of these lists of actions.
    pub(crate) fn actions(mut self, actions: &[Value]) -> Self {
        let limits = actions.iter().map(|actions| json!({"actions": actions}));
        self.bootstrap.route.push(json!({"route": {"rate_limits": limits.collect::<Vec<_>>()}}));
        self
    }

    /// The rate limits of the route by `RateLimitPerRoute`, the only place where Envoy heeds `hits_addend`.
    pub(crate) fn rate_limits(mut self, rate_limits: &Value) -> Self {
        let kind = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
        let config = json!({"envoy.filters.http.ratelimit": {"@type": kind, "rate_limits": rate_limits}});
        self.bootstrap.route.push(json!({"typed_per_filter_config": config}));
        self
    }

    /// Further fields of the route.
    pub(crate) fn route(mut self, fields: Value) -> Self {
        self.bootstrap.route.push(fields);
        self
    }

    /// A route that is taken instead where it matches.
    pub(crate) fn better_route(mut self, route: Value) -> Self {
        self.bootstrap.better_routes.push(route);
        self
    }

    /// Further fields of the rate limit filter.
    pub(crate) fn filter(mut self, fields: Value) -> Self {
        self.bootstrap.filter.push(fields);
        self
    }

    /// A filter that sees a request before the rate limit filter does.
    pub(crate) fn before(mut self, name: &str, config: &Value) -> Self {
        self.bootstrap.before.push(json!({"name": name, "typed_config": config}));
        self
    }

    /// A filter that sees a request after the rate limit filter let it pass.
    pub(crate) fn after(mut self, name: &str, config: &Value) -> Self {
        self.bootstrap.after.push(json!({"name": name, "typed_config": config}));
        self
    }

    /// Envoy reaches the service by its Unix socket, which stays the same when it is started again.
    pub(crate) fn over_unix_socket(mut self) -> Self {
        self.over_unix_socket = true;
        self
    }

    /// Starts all three; none where Envoy is missing and may be.
    pub(crate) fn start(self) -> Option<Stack> {
        let program = proxy::program()?;
        let folder = tempfile::tempdir().unwrap();
        let service = Service::start(folder.path(), &self.rules, &self.settings);
        let upstreams = ["upstream", "spare"].map(|name| (name, Upstream::start(name).address));
        let limiter = if self.over_unix_socket {
            json!({"pipe": {"path": Service::socket(folder.path())}})
        } else {
            bootstrap::address(service.grpc)
        };
        let bootstrap = self.bootstrap.into_json(&Envoy::admin_socket(folder.path()), &limiter, &upstreams);
        let envoy = Envoy::start(&program, folder.path(), &bootstrap);
        Some(Stack { envoy, service: Some(service), folder })
    }
}

/// Running; stopped in the order of the fields when dropped.
pub(crate) struct Stack {
    pub(crate) envoy: Envoy,
    service: Option<Service>,
    folder: tempfile::TempDir,
}

impl Stack {
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        Connection::tcp(self.envoy.address).unwrap().get(path, headers).unwrap()
    }

    /// The status alone, for the many tests that need no more.
    pub(crate) fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.get(path, headers).status
    }

    pub(crate) fn service(&self) -> &Service {
        self.service.as_ref().unwrap()
    }

    pub(crate) fn stop_service(&mut self) {
        self.service.take().unwrap().stop();
    }

    pub(crate) fn start_service_again(&mut self) {
        self.service = Some(Service::start_again(self.folder.path()));
    }
}
