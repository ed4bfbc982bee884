//! Which endpoint a request is for, by method and path. The most specific pattern
//! wins, as in axum's router; of two for one path, the one that names the method.
//!
//! A path is matched as its server will read it: percent-encoded letters are the
//! letters, or `/%6Cogin` would be a way around the limit of `/login`.

use crate::bucket::Bucket;
use crate::limits_error::LimitsError;
use http::Method;
use std::borrow::Cow;
use std::sync::Arc;

type Router = matchit::Router<Arc<Bucket>>;

/// The endpoints of one service that have limits of their own.
#[derive(Default)]
pub(crate) struct Endpoints {
    by_method: Vec<(Method, Router)>,
    any_method: Option<Router>,
}

/// One endpoint as it is written: `/users/{id}` or `POST /login`.
pub(crate) struct Pattern<'a> {
    text: &'a str,
    method: Option<Method>,
    path: &'a str,
}

impl<'a> Pattern<'a> {
    pub(crate) fn parse(service: &str, text: &'a str) -> Result<Self, LimitsError> {
        let wrong = |reason: &str| LimitsError::Pattern {
            service: service.to_owned(),
            pattern: text.chars().take(256).collect(),
            reason: reason.to_owned(),
        };
        let (method, path) = match text.split_once(' ') {
            None => (None, text),
            Some((method, path)) if !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()) => {
                let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong("no such method"))?;
                (Some(method), path)
            }
            Some(_) => return Err(wrong("before the space stands a method in capitals")),
        };
        let is_plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
        if !path.starts_with('/') {
            return Err(wrong("a path begins with `/`"));
        }
        if !path.bytes().all(is_plain) {
            return Err(wrong("a path has neither spaces nor quotes, and only ASCII"));
        }
        Ok(Self { text, method, path })
    }
}

impl Endpoints {
    pub(crate) fn new(service: &str, endpoints: &[(Pattern<'_>, Arc<Bucket>)]) -> Result<Self, LimitsError> {
        let mut methods: Vec<&Method> = Vec::new();
        for method in endpoints.iter().filter_map(|(pattern, _)| pattern.method.as_ref()) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        let of = |method| Self::router(service, endpoints, method);
        let by_method = methods.iter().map(|&method| Ok((method.clone(), of(Some(method))?)));
        let any_method = endpoints.iter().any(|(pattern, _)| pattern.method.is_none());
        Ok(Self {
            by_method: by_method.collect::<Result<_, LimitsError>>()?,
            any_method: any_method.then(|| of(None)).transpose()?,
        })
    }

    /// The endpoints of one method, and those of any that it has none of its own for.
    fn router(
        service: &str,
        endpoints: &[(Pattern<'_>, Arc<Bucket>)],
        method: Option<&Method>,
    ) -> Result<Router, LimitsError> {
        let is_own = |pattern: &Pattern<'_>| pattern.method.as_ref() == method;
        let own = endpoints.iter().filter(|(pattern, _)| is_own(pattern));
        let others = endpoints.iter().filter(|(pattern, _)| {
            let is_taken = |(own, _): &(Pattern<'_>, _)| is_own(own) && own.path == pattern.path;
            method.is_some() && pattern.method.is_none() && !endpoints.iter().any(is_taken)
        });
        let mut router = Router::new();
        for (pattern, bucket) in own.chain(others) {
            router.insert(pattern.path, Arc::clone(bucket)).map_err(|error| LimitsError::Pattern {
                service: service.to_owned(),
                pattern: pattern.text.to_owned(),
                reason: error.to_string(),
            })?;
        }
        Ok(router)
    }

    /// The limit of the endpoint that a request is for, if it has one of its own.
    #[inline]
    pub(crate) fn find(&self, method: &Method, path: &str) -> Option<&Arc<Bucket>> {
        let of_method = self.by_method.iter().find(|(of, _)| of == method).map(|(_, router)| router);
        let router = of_method.or(self.any_method.as_ref())?;
        let path = decoded(path);
        router.at(&path).ok().map(|found| found.value)
    }
}

/// The path with every percent-encoded octet decoded, where that leaves text.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut bytes = path.bytes();
    let mut text = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let mut after = bytes.clone();
        let octet = match (byte, after.next().and_then(digit), after.next().and_then(digit)) {
            (b'%', Some(high), Some(low)) => {
                bytes = after;
                high << 4 | low
            }
            _ => byte,
        };
        text.push(octet);
    }
    String::from_utf8(text).map_or(Cow::Borrowed(path), Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_path_is_read_as_its_server_reads_it() {
        for (path, read) in [
            ("/login", "/login"),
            ("/%6Cogin", "/login"),
            ("/%6cog%69n", "/login"),
            ("/a%20b%", "/a b%"),
            ("/%zz%4", "/%zz%4"),
            ("/%C3%A4", "/ä"),
            ("/%FF", "/%FF"),
        ] {
            assert_eq!(decoded(path), read, "{path}");
        }
    }
}
