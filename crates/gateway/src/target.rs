//! Request target: host and path, each of which must be unambiguous.

use super::failure::Failure;
use hivemind_tls::authority;
use hivemind_tower::path::has_dot_segments;
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::{Method, Version};

/// The host of a request, for routing.
pub(super) struct Target {
    /// As the client sent it, with port; `None` only with HTTP/1.0.
    pub(super) host: Option<HeaderValue>,
    /// The length of the name within it.
    name: usize,
}

impl Target {
    pub(super) fn of(parts: &Parts) -> Result<Self, Failure> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let (named, again) = (hosts.next(), hosts.next());
        if again.is_some() {
            return Err(Failure::BadTarget);
        }
        // The target takes precedence over `Host` (RFC 9112, 3.2.2), as `:authority` does (RFC 9113, 8.3.1).
        let host = match parts.uri.authority() {
            Some(authority) => {
                // User information would be forwarded as a part of the host.
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
        let name = host.as_ref().map_or(Some(0), name).ok_or(Failure::BadTarget)?;
        let path = parts.uri.path();
        let is_whole_server = parts.method == Method::OPTIONS && path == "*";
        if !path.starts_with('/') && !is_whole_server {
            return Err(Failure::BadTarget);
        }
        // Readers disagree about dot segments, so a path could be counted under another limit.
        if has_dot_segments(path) || has_encoded_control(path) {
            return Err(Failure::BadTarget);
        }
        Ok(Self { host, name })
    }

    /// The host without its port.
    pub(super) fn name(&self) -> &str {
        let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = host.get(..self.name).unwrap_or_default();
        // The root of a name may be written as a trailing dot.
        name.strip_suffix('.').unwrap_or(name)
    }
}

/// Whether a path has a percent-encoded control character. Servers disagree about them: one reads a path only up to
/// `%00`, another drops `%0a` at its end.
fn has_encoded_control(path: &str) -> bool {
    let is_control = |octet: &[u8]| {
        matches!(octet, [b'%', b'0' | b'1', low] if low.is_ascii_hexdigit())
            || octet.eq_ignore_ascii_case(b"%7f")
    };
    path.as_bytes().windows(3).any(is_control)
}

/// The length of the name in a host; `None` if it is ambiguous. Empty is allowed (RFC 9110, 7.2), and matches no
/// named host.
fn name(host: &HeaderValue) -> Option<usize> {
    if host.is_empty() {
        return Some(0);
    }
    authority::host(host.to_str().ok()?).map(str::len)
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
    fn host_is_from_the_target_or_a_single_header() {
        let host = |host: &str| of(Request::get("/").header("host", host));
        assert_eq!(host("a.example:8080"), Ok(Some("a.example".into())));
        assert_eq!(host("[2001:db8::1]:80"), Ok(Some("[2001:db8::1]".into())));
        assert_eq!(host("a.example."), Ok(Some("a.example".into())));
        assert_eq!(host(""), Ok(Some(String::new())));
        for wrong in ["a b", "a/b", "a,b", "user@a", "a\"b", "a\u{e9}", "a:1:2", "[::1", "a:x", ":80"] {
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

    #[test]
    fn paths_with_encoded_control_characters_are_rejected() {
        let path = |path: &str| of(Request::get(path).header("host", "a")).is_ok();
        for sound in ["/login%20", "/login.", "/%2500", "/a%7e", "/%C3%A4", "/a?b=%00%0a"] {
            assert!(path(sound), "{sound}");
        }
        for wrong in ["/login%0a", "/login%0D%0A", "/login%00", "/%00/login", "/a%09b", "/a%1Fb", "/a%7F"] {
            assert!(!path(wrong), "{wrong}");
        }
    }

    #[test]
    fn paths_with_dot_segments_are_rejected() {
        let path = |path: &str| of(Request::get(path).header("host", "a")).is_ok();
        for sound in ["/", "/a.b/..c/.well-known", "/a%20b;c=..", "/...", "/a?b=/../c", "/%ff"] {
            assert!(path(sound), "{sound}");
        }
        for wrong in [
            "/pub/../admin/..;/pub/x",
            "/.",
            "/a/./b",
            "/a/..",
            "/a/%2e%2E/b",
            "/a%2f..%5cb",
            "/a/..;x=1/b",
            "/a/.%3bx/b",
            "/%ff/%2e./b",
            "/a/..%20/b",
        ] {
            assert!(!path(wrong), "{wrong}");
        }
    }
}
