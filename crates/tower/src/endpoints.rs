//! Endpoint lookup by method and path.
//!
//! The most specific pattern wins, as in axum's router; of two patterns for one path, the one with a method.
//! HEAD is charged as GET unless it has an endpoint of its own, since servers answer it like GET.

use crate::bucket::Bucket;
use crate::limits_error::LimitsError;
use crate::path::decode_segments;
use http::Method;
use std::sync::Arc;

type Router = matchit::Router<Arc<Bucket>>;

/// The endpoints of one service.
#[derive(Default)]
pub(crate) struct Endpoints {
    /// In the order of the configuration.
    all: Vec<Arc<Bucket>>,
    by_method: Vec<(Method, Router)>,
    any_method: Option<Router>,
}

/// An endpoint pattern: `/users/{id}` or `POST /login`.
pub(crate) struct EndpointPattern<'a> {
    text: &'a str,
    method: Option<Method>,
    path: &'a str,
}

impl<'a> EndpointPattern<'a> {
    pub(crate) fn parse(service: &str, text: &'a str) -> Result<Self, LimitsError> {
        let wrong = |reason: &str| LimitsError::Pattern {
            service: service.to_owned(),
            pattern: text.chars().take(256).collect(),
            reason: reason.to_owned(),
        };
        let (method, path) = match text.split_once(' ') {
            None => (None, text),
            Some((method, path)) if !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()) => {
                let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong("unknown method"))?;
                (Some(method), path)
            }
            Some(_) => return Err(wrong("only a method in capitals can precede the space")),
        };
        let is_plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
        if !path.starts_with('/') {
            return Err(wrong("a path has to begin with `/`"));
        }
        if !path.bytes().all(is_plain) {
            return Err(wrong("a path has to be ASCII without spaces and quotes"));
        }
        Ok(Self { text, method, path })
    }
}

impl Endpoints {
    pub(crate) fn new(
        service: &str,
        endpoints: &[(EndpointPattern<'_>, Arc<Bucket>)],
    ) -> Result<Self, LimitsError> {
        let mut methods: Vec<&Method> = Vec::new();
        for method in endpoints.iter().filter_map(|(pattern, _)| pattern.method.as_ref()) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        if methods.contains(&&Method::GET) && !methods.contains(&&Method::HEAD) {
            methods.push(&Method::HEAD);
        }
        let of = |method| Self::router(service, endpoints, method);
        let by_method = methods.iter().map(|&method| Ok((method.clone(), of(Some(method))?)));
        let any_method = endpoints.iter().any(|(pattern, _)| pattern.method.is_none());
        Ok(Self {
            all: endpoints.iter().map(|(_, bucket)| Arc::clone(bucket)).collect(),
            by_method: by_method.collect::<Result<_, LimitsError>>()?,
            any_method: any_method.then(|| of(None)).transpose()?,
        })
    }

    /// The router of one method: its own endpoints, and wider ones for paths where it has none.
    fn router(
        service: &str,
        endpoints: &[(EndpointPattern<'_>, Arc<Bucket>)],
        method: Option<&Method>,
    ) -> Result<Router, LimitsError> {
        let rank = |pattern: &EndpointPattern<'_>| match &pattern.method {
            own if own.as_ref() == method => Some(0),
            Some(get) if get == Method::GET && method == Some(&Method::HEAD) => Some(1),
            None => Some(2),
            Some(_) => None,
        };
        // Two patterns of equal rank and shape are both inserted, so that the router reports the conflict.
        let is_shadowed = |pattern: &EndpointPattern<'_>| {
            let is_closer =
                |other: &EndpointPattern<'_>| rank(other).is_some_and(|of| Some(of) < rank(pattern));
            endpoints.iter().any(|(other, _)| is_closer(other) && shape(other.path) == shape(pattern.path))
        };
        let inserted =
            endpoints.iter().filter(|(pattern, _)| rank(pattern).is_some() && !is_shadowed(pattern));
        let mut router = Router::new();
        for (pattern, bucket) in inserted {
            router.insert(pattern.path, Arc::clone(bucket)).map_err(|error| LimitsError::Pattern {
                service: service.to_owned(),
                pattern: pattern.text.to_owned(),
                reason: error.to_string(),
            })?;
        }
        Ok(router)
    }

    /// The limit of the endpoint that matches a request.
    #[inline]
    pub(crate) fn find(&self, method: &Method, path: &str) -> Option<&Arc<Bucket>> {
        let of_method = self.by_method.iter().find(|(of, _)| of == method).map(|(_, router)| router);
        let router = of_method.or(self.any_method.as_ref())?;
        router.at(path).ok().map(|found| found.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The limit of the endpoint with this name or pattern.
    pub(crate) fn find_by_name(&self, name: &str) -> Option<&Arc<Bucket>> {
        self.all.iter().find(|bucket| &*bucket.endpoint == name)
    }
}

/// A pattern's path without the names of its parameters. Patterns of one shape match the same paths.
fn shape(path: &str) -> String {
    let mut shape = String::with_capacity(path.len());
    let mut rest = path.chars().peekable();
    while let Some(letter) = rest.next() {
        shape.push(letter);
        // A doubled brace is a literal one.
        if letter == '{' && rest.next_if_eq(&'{').is_none() {
            shape.extend(rest.next_if_eq(&'*'));
            shape.extend(rest.find(|letter| *letter == '}'));
        } else if letter == '{' {
            shape.push('{');
        }
    }
    shape
}

/// The paths where a service opens WebSockets.
#[derive(Default)]
pub(crate) struct WebSocketPaths {
    anywhere: bool,
    router: matchit::Router<()>,
}

impl WebSocketPaths {
    pub(crate) fn new(service: &str, paths: &[String], anywhere: bool) -> Result<Self, LimitsError> {
        let mut router = matchit::Router::new();
        for text in paths {
            let wrong = |reason: String| LimitsError::Pattern {
                service: service.to_owned(),
                pattern: text.chars().take(256).collect(),
                reason,
            };
            let pattern = EndpointPattern::parse(service, text)?;
            if pattern.method.is_some() {
                return Err(wrong("the path of a WebSocket has to be without a method".to_owned()));
            }
            router.insert(pattern.path, ()).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Self { anywhere, router })
    }

    /// Whether every path matches.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.anywhere
    }

    /// Whether a path matches in every reading. Otherwise it may belong to another handler.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let has = |path: &str| self.router.at(path).is_ok();
        self.anywhere || (has(path) && decode_segments(path).is_none_or(|decoded| has(&decoded)))
    }
}
