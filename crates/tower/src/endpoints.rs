//! Which endpoint a request is for, by method and path. The most specific pattern
//! wins, as in axum's router; of two for one path, the one that names the method. HEAD
//! is answered by what answers GET, and so is charged as GET where it has no endpoint of its own.

use crate::bucket::Bucket;
use crate::limits_error::LimitsError;
use crate::path::decoded;
use http::Method;
use std::sync::Arc;

type Router = matchit::Router<Arc<Bucket>>;

/// The endpoints of one service that have limits of their own.
#[derive(Default)]
pub(crate) struct Endpoints {
    /// As they were written.
    all: Vec<Arc<Bucket>>,
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

    /// The endpoints of one method, and those of the wider ones that it has none of its own for.
    fn router(
        service: &str,
        endpoints: &[(Pattern<'_>, Arc<Bucket>)],
        method: Option<&Method>,
    ) -> Result<Router, LimitsError> {
        let rank = |pattern: &Pattern<'_>| match &pattern.method {
            own if own.as_ref() == method => Some(0),
            Some(get) if get == Method::GET && method == Some(&Method::HEAD) => Some(1),
            None => Some(2),
            Some(_) => None,
        };
        // Two of one rank that are for the same paths are both taken, for the router to refuse.
        let is_taken = |pattern: &Pattern<'_>| {
            let is_nearer = |other: &Pattern<'_>| rank(other).is_some_and(|of| Some(of) < rank(pattern));
            endpoints.iter().any(|(other, _)| is_nearer(other) && shape(other.path) == shape(pattern.path))
        };
        let taken = endpoints.iter().filter(|(pattern, _)| rank(pattern).is_some() && !is_taken(pattern));
        let mut router = Router::new();
        for (pattern, bucket) in taken {
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
        router.at(path).ok().map(|found| found.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The limit of the endpoint that is written so.
    pub(crate) fn named(&self, pattern: &str) -> Option<&Arc<Bucket>> {
        self.all.iter().find(|bucket| &*bucket.endpoint == pattern)
    }
}

/// A pattern's path without the names of its parameters: those of one shape are for the same paths.
fn shape(path: &str) -> String {
    let mut shape = String::with_capacity(path.len());
    let mut rest = path.chars().peekable();
    while let Some(letter) = rest.next() {
        shape.push(letter);
        // Two braces are one that is meant as it is.
        if letter == '{' && rest.next_if_eq(&'{').is_none() {
            shape.extend(rest.next_if_eq(&'*'));
            shape.extend(rest.find(|letter| *letter == '}'));
        } else if letter == '{' {
            shape.push('{');
        }
    }
    shape
}

/// Where a service's WebSocket connections are opened.
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
            let pattern = Pattern::parse(service, text)?;
            if pattern.method.is_some() {
                return Err(wrong("the path of a WebSocket is written without a method".to_owned()));
            }
            router.insert(pattern.path, ()).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Self { anywhere, router })
    }

    /// Whether they are no path in particular.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.anywhere
    }

    /// Whether this is one of them however it is read: else it may be some other handler's.
    pub(crate) fn has(&self, path: &str) -> bool {
        let has = |path: &str| self.router.at(path).is_ok();
        self.anywhere || (has(path) && decoded(path).is_none_or(|decoded| has(&decoded)))
    }
}
