//! Where a request wants to go: its host and its path, each of which must be readable in one way only.

use super::failure::Failure;
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::{Method, Version};

/// Where a request wants to go, as far as routes ask.
pub(super) struct Target {
    /// As the client wrote it, with its port; none only in HTTP/1.0.
    pub(super) host: Option<HeaderValue>,
}

impl Target {
    pub(super) fn of(parts: &Parts) -> Result<Self, Failure> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let (named, again) = (hosts.next(), hosts.next());
        if again.is_some() {
            return Err(Failure::BadTarget);
        }
        // The target goes before `Host` (RFC 9112, 3.2.2), as `:authority` does (RFC 9113, 8.3.1).
        let host = match parts.uri.authority() {
            Some(authority) => {
                // A name and a password in front of it would be told on as a part of the host.
                if authority.as_str().contains('@') {
                    return Err(Failure::BadTarget);
                }
                HeaderValue::from_str(authority.as_str()).ok()
            }
            None => named.cloned(),
        };
        if host.is_none() && parts.version != Version::HTTP_10 {
            return Err(Failure::BadTarget);
        }
        if host.as_ref().is_some_and(|host| !is_host(host.as_bytes())) {
            return Err(Failure::BadTarget);
        }
        let path = parts.uri.path();
        let is_whole_server = parts.method == Method::OPTIONS && path == "*";
        if !path.starts_with('/') && !is_whole_server {
            return Err(Failure::BadTarget);
        }
        Ok(Self { host })
    }

    /// The host without its port, for routes.
    pub(super) fn name(&self) -> &str {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
        without_port(host)
    }
}

/// What a host may be made of. Empty is allowed (RFC 9110, 7.2), and is no service's name.
fn is_host(host: &[u8]) -> bool {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']' | b'%')
    };
    host.len() <= 261 && host.iter().all(is_plain)
}

fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    let name = host.split(':').next().unwrap_or(host);
    // The root that every name ends in may be written.
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(request: http::request::Builder) -> Result<Option<String>, Failure> {
        let target = Target::of(&request.body(()).unwrap().into_parts().0)?;
        Ok(target.host.as_ref().map(|_| target.name().to_owned()))
    }

    #[test]
    fn a_host_is_the_targets_then_the_headers_and_there_is_one() {
        let host = |host: &str| of(Request::get("/").header("host", host));
        assert_eq!(host("a.example:8080"), Ok(Some("a.example".into())));
        assert_eq!(host("[2001:db8::1]:80"), Ok(Some("[2001:db8::1]".into())));
        assert_eq!(host("a.example."), Ok(Some("a.example".into())));
        assert_eq!(host(""), Ok(Some(String::new())));
        for wrong in ["a b", "a/b", "a,b", "user@a", "a\"b", "a\u{e9}"] {
            assert_eq!(host(wrong), Err(Failure::BadTarget), "{wrong}");
        }
        let absolute = Request::get("http://b.example/x").header("host", "a.example");
        assert_eq!(of(absolute), Ok(Some("b.example".into())));
        let user = Request::get("http://me@b.example/x");
        assert_eq!(of(user), Err(Failure::BadTarget));
        let twice = Request::get("/").header("host", "a").header("host", "a");
        assert_eq!(of(twice), Err(Failure::BadTarget));
        assert_eq!(of(Request::get("/")), Err(Failure::BadTarget));
        assert_eq!(of(Request::get("/").version(Version::HTTP_10)), Ok(None));
        assert_eq!(of(Request::get("*").header("host", "a")), Err(Failure::BadTarget));
        assert_eq!(of(Request::options("*").header("host", "a")), Ok(Some("a".into())));
    }
}
