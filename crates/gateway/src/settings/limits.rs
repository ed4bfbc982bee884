//! Conversion of a routing's limits into those of `hivemind-tower`, and their validation.

use super::{EndpointSettings, IpGuard, OnLimit, Platform, Routing, ServiceSettings, WebSocketSettings};
use hivemind_config::reader::Section;
use hivemind_core::LimitError;
use hivemind_tower::error::LimitsError;
use hivemind_tower::{LimitKind, Limits, ServiceLimits};

impl Routing {
    /// The limits of all services.
    pub fn limits(&self) -> Limits {
        let platform = &self.platform;
        let services = self.services.iter().map(|service| service.limits(platform, &service.endpoints));
        services.fold(platform.limits(), Limits::service)
    }

    /// Text form of the limits for fingerprints, without the upstreams, which may differ per node. It is the debug
    /// format, so nodes of two versions may disagree until all are upgraded, as during a reload.
    pub fn limits_text(&self) -> String {
        format!("{:?}", self.limits())
    }
}

impl Platform {
    fn limits(&self) -> Limits {
        let WebSocketSettings { connections, messages, .. } = &self.websocket;
        let mut limits = Limits::new()
            .enabled(self.enabled)
            .platform(self.limit)
            .ws_connection(connections.limit)
            .ws_message(messages.limit);
        limits = connections.enabled.into_iter().fold(limits, Limits::count_ws_connections);
        limits = messages.enabled.into_iter().fold(limits, Limits::count_ws_messages);
        limits = self.max_requests.into_iter().fold(limits, Limits::max_requests);
        limits = self.max_burst.into_iter().fold(limits, Limits::max_burst);
        limits = match self.ip_guard {
            IpGuard::Usual => limits,
            IpGuard::Off => limits.without_ip_guard(),
            IpGuard::Limit(limit) => limits.ip_guard(limit),
        };
        if self.is_global { limits.global_scope() } else { limits }
    }
}

impl ServiceSettings {
    fn limits(&self, platform: &Platform, endpoints: &[EndpointSettings]) -> ServiceLimits {
        let (own, all) = (&self.websocket, &platform.websocket);
        let mut limits = ServiceLimits::new(&self.id)
            .limit(self.limit)
            .ws_connection(own.connections.limit)
            .ws_message(own.messages.limit);
        for endpoint in endpoints {
            limits = limits.named_endpoint(&endpoint.id, &endpoint.methods, &endpoint.path, endpoint.limit);
        }
        let paths = if own.paths.is_empty() { &all.paths } else { &own.paths };
        limits = paths.iter().fold(limits, ServiceLimits::websocket);
        limits = if paths.is_empty() { limits.websocket_anywhere() } else { limits };
        limits = own.connections.enabled.into_iter().fold(limits, ServiceLimits::count_ws_connections);
        limits = own.messages.enabled.into_iter().fold(limits, ServiceLimits::count_ws_messages);
        let most = own.max_open.or(all.max_open);
        limits = most.into_iter().fold(limits, |limits, most| limits.max_open_connections(most.get()));
        match own.on_limit.or(all.on_limit) {
            Some(OnLimit::Close4429) => limits.close_on_limit(),
            Some(OnLimit::Http429) | None => limits,
        }
    }
}

/// Reports problems of the platform's limits; returns whether they are valid.
pub(super) fn check_platform(section: &mut Section<'_, '_>, platform: &Platform) -> bool {
    let wrong = platform.limits().check().err();
    if let Some(error) = &wrong {
        refuse(section, "platform", error);
    }
    wrong.is_none()
}

/// Reports problems of a service's limits, and of each endpoint's limits separately.
/// The rest of the service must be valid.
pub(super) fn check_service(item: &mut Section<'_, '_>, service: &ServiceSettings, platform: &Platform) {
    let check = |endpoints: &[EndpointSettings]| {
        platform.limits().service(service.limits(platform, endpoints)).check()
    };
    if let Err(error) = check(&[]) {
        let of_websocket = [LimitKind::WsConnection, LimitKind::WsMessage, LimitKind::WsOpen];
        let in_websocket = matches!(&error, LimitsError::Pattern { .. })
            || error.kind().is_some_and(|kind| of_websocket.contains(&kind));
        let key = if in_websocket { "websocket" } else { "limits" };
        return refuse(item, if item.has(key) { key } else { "id" }, &error);
    }
    if platform.is_global && !service.endpoints.is_empty() {
        return check(&service.endpoints).err().iter().for_each(|error| refuse(item, "endpoints", error));
    }
    let mut endpoints = service.endpoints.iter();
    let mut is_sound = true;
    item.again("endpoints", |item| {
        let Some(endpoint) = endpoints.next() else { return };
        if let Err(error) = check(std::slice::from_ref(endpoint)) {
            let key = if matches!(error, LimitsError::Pattern { .. }) { "path" } else { "limits" };
            refuse(item, if item.has(key) { key } else { "id" }, &error);
            is_sound = false;
        }
    });
    let Some(LimitsError::Pattern { pattern, reason, .. }) =
        check(&service.endpoints).err().filter(|_| is_sound)
    else {
        return;
    };
    // Each is valid, but two match the same requests: reported at the later one.
    let is_it = |endpoint: &EndpointSettings| pattern.rsplit(' ').next() == Some(endpoint.path.as_str());
    let last = service.endpoints.iter().rposition(is_it);
    let mut index = 0;
    item.again("endpoints", |item| {
        if Some(index) == last {
            let cause = format!("`{pattern}` matches the same requests as an earlier endpoint: {reason}");
            item.refuse("path", cause, "remove one of the two, or give them different methods");
        }
        index += 1;
    });
}

fn refuse(section: &mut Section<'_, '_>, key: &str, error: &LimitsError) {
    let (cause, remedy) = cause_and_remedy(error);
    section.refuse(key, cause, remedy);
}

/// The error's cause and its remedy.
fn cause_and_remedy(error: &LimitsError) -> (String, &'static str) {
    match error {
        LimitsError::Limit { place, error, .. } => {
            let (cause, remedy) = explain_number(*error);
            (format!("the limit of {place}: {cause}"), remedy)
        }
        LimitsError::DelayedWindow { place, .. } => (
            format!("the limit of {place}: only a token bucket can delay"),
            "remove `delay` or the algorithm",
        ),
        LimitsError::Undelayable { place, .. } => {
            (format!("the limit of {place} can only refuse: it cannot delay"), "remove `delay`")
        }
        LimitsError::ServiceName { name } => (
            format!("`{name}` cannot name a service"),
            "use 1 to 64 ASCII letters, digits, `-`, `_` and `.`: it is sent in headers",
        ),
        LimitsError::EndpointName { service, name, reason } => {
            (format!("`{name}` cannot name an endpoint of `{service}`"), reason)
        }
        LimitsError::Pattern { service, pattern, reason } => (
            format!("the endpoint `{pattern}` of `{service}`: {reason}"),
            "write it like `/users/{id}` or `POST /login`",
        ),
        LimitsError::GlobalScope { service } => (
            format!(
                "`{service}` has its own limits, but the scope is global: each client has one bucket for all services"
            ),
            "remove one of the two",
        ),
        // hivemind-tower's enum is non-exhaustive.
        other => (other.to_string(), "choose different numbers"),
    }
}

fn explain_number(error: LimitError) -> (String, &'static str) {
    let cause = match error {
        LimitError::ZeroRate => "a rate must be at least 1 request",
        LimitError::ZeroBurst => "`burst` must be at least 1",
        LimitError::ZeroPeriod => {
            return ("a period must be longer than 0".to_owned(), "give it as `1s`, `5m` or `1h`");
        }
        LimitError::PeriodTooLong => {
            return ("a period must be at most 100 years".to_owned(), "split the limit or leave it out");
        }
        other => return (other.to_string(), "choose different numbers"),
    };
    (cause.to_owned(), "to block, use a window limit of 0 requests")
}
