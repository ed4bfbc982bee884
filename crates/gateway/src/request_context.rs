//! Context of an admitted request, and the conversion of the request for an upstream.

use super::context::ClientConnection;
use super::failure::Failure;
use super::hop_by_hop;
use super::request_body::RequestBody;
use super::routing::{HostRewrite, RoutedService};
use super::upstream::Upstream;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tower::AdmittedRequest;
use http::header::{COOKIE, EXPECT, HOST, HeaderMap, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri, Version};
use std::sync::Arc;

/// The context of an admitted request.
pub(super) struct RequestContext<'a> {
    pub(super) connection: &'a ClientConnection,
    pub(super) service: &'a Arc<RoutedService>,
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) pass: &'a AdmittedRequest,
    /// Set if the request is traced.
    pub(super) span: Option<&'a DecisionSpan>,
}

impl RequestContext<'_> {
    /// Converts a client's request for any upstream of the service.
    pub(super) fn prepare(&self, parts: &mut Parts) {
        let headers = &mut parts.headers;
        hop_by_hop::remove(headers);
        // The client receives 100 Continue when its body is first read, after all checks that may refuse it.
        headers.remove(EXPECT);
        let trusted_header = self.connection.worker.gateway.clients.header();
        self.connection.origin.write_headers(headers, self.host, self.service.forwarded, trusted_header);
        if parts.version == Version::HTTP_2 {
            join_cookies(headers);
        }
        if let Some(span) = self.span {
            span.inject(headers);
        }
        parts.extensions.clear();
    }

    /// Sets target and host for an upstream.
    pub(super) fn address(
        &self,
        request: &mut Request<RequestBody>,
        upstream: &Upstream,
        is_http2: bool,
    ) -> Result<(), Failure> {
        let host = match (&self.service.host, self.host) {
            (HostRewrite::Set(host), _) => host,
            (HostRewrite::Keep, Some(host)) if !host.is_empty() => host,
            (HostRewrite::Keep | HostRewrite::Upstream, _) => &upstream.authority,
        };
        let target = request.uri().path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let target = self.without_prefix(target);
        if is_http2 {
            let scheme = if upstream.address.upstream.is_tls { Scheme::HTTPS } else { Scheme::HTTP };
            let authority = Authority::from_maybe_shared(bytes::Bytes::copy_from_slice(host.as_bytes()));
            let mut parts = http::uri::Parts::default();
            parts.scheme = Some(scheme);
            parts.authority = Some(authority.map_err(|_| Failure::BadTarget)?);
            parts.path_and_query = Some(target);
            *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Failure::BadTarget)?;
            *request.version_mut() = Version::HTTP_2;
            request.headers_mut().remove(HOST);
        } else {
            *request.uri_mut() = Uri::from(target);
            *request.version_mut() = Version::HTTP_11;
            // Usually it is set already.
            if request.headers().get(HOST) != Some(host) {
                let host = host.clone();
                request.headers_mut().insert(HOST, host);
            }
        }
        Ok(())
    }

    fn without_prefix(&self, target: PathAndQuery) -> PathAndQuery {
        if !self.service.strips_prefix {
            return target;
        }
        let rest = self.service.stripped(target.as_str());
        let path = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        PathAndQuery::try_from(path).unwrap_or(target)
    }
}

/// HTTP/2 may split cookies into several lines, which are one in HTTP/1.1 (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}
