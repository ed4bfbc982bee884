//! The whole stack: a client, Envoy, Hivemind and an upstream.

use crate::service::Service;
use hivemind_testkit::envoy::bootstrap::{self, Bootstrap};
use hivemind_testkit::envoy::http::{Connection, Response};
use hivemind_testkit::envoy::proxy::{self, Envoy};
use hivemind_testkit::envoy::upstream::Upstream;
use serde_json::{Value, json};

/// The settings of one test.
pub(crate) struct Setup {
    rules: String,
    settings: Value,
    bootstrap: Bootstrap,
    over_unix_socket: bool,
}

impl Setup {
    /// With rules of the domain `test`.
    pub(crate) fn new(descriptors: &str) -> Self {
        let rules = format!("domain: test\ndescriptors:\n{descriptors}");
        Self { rules, settings: json!({}), bootstrap: Bootstrap::default(), over_unix_socket: false }
    }

    /// With settings of the service's `rate_limiting` section.
    pub(crate) fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    /// With one rate limit of the route per list of actions.
    pub(crate) fn actions(mut self, actions: &[Value]) -> Self {
        let limits = actions.iter().map(|actions| json!({"actions": actions}));
        self.bootstrap.route.push(json!({"route": {"rate_limits": limits.collect::<Vec<_>>()}}));
        self
    }

    /// With rate limits in `RateLimitPerRoute`, the only place where Envoy supports `hits_addend`.
    pub(crate) fn rate_limits(mut self, rate_limits: &Value) -> Self {
        let kind = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
        let config = json!({"envoy.filters.http.ratelimit": {"@type": kind, "rate_limits": rate_limits}});
        self.bootstrap.route.push(json!({"typed_per_filter_config": config}));
        self
    }

    /// With further fields of the route.
    pub(crate) fn route(mut self, fields: Value) -> Self {
        self.bootstrap.route.push(fields);
        self
    }

    /// With a route that takes precedence if it matches.
    pub(crate) fn better_route(mut self, route: Value) -> Self {
        self.bootstrap.better_routes.push(route);
        self
    }

    /// With further fields of the rate limit filter.
    pub(crate) fn filter(mut self, fields: Value) -> Self {
        self.bootstrap.filter.push(fields);
        self
    }

    /// With a filter before the rate limit filter.
    pub(crate) fn before(mut self, name: &str, config: &Value) -> Self {
        self.bootstrap.before.push(json!({"name": name, "typed_config": config}));
        self
    }

    /// With a filter after the rate limit filter.
    pub(crate) fn after(mut self, name: &str, config: &Value) -> Self {
        self.bootstrap.after.push(json!({"name": name, "typed_config": config}));
        self
    }

    /// With a Unix socket for the service, which stays the same after a restart.
    pub(crate) fn over_unix_socket(mut self) -> Self {
        self.over_unix_socket = true;
        self
    }

    /// Starts everything; none if Envoy is missing and may be.
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

/// The running stack; stopped in the order of the fields when dropped.
pub(crate) struct Stack {
    pub(crate) envoy: Envoy,
    service: Option<Service>,
    folder: tempfile::TempDir,
}

impl Stack {
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        Connection::tcp(self.envoy.address).unwrap().get(path, headers).unwrap()
    }

    /// The status of a request.
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
