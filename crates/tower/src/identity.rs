//! Client identification: a chain of identity sources. The first source that finds a value names the client;
//! without one, the address does.
//!
//! The values are unverified, because this runs before authentication. So a client named by anything but its
//! address is charged to the guard of its address as well, and at most one bucket per hash is kept. If a request
//! contradicts itself, the source is skipped: the chain then ends at the address, which a client cannot choose.

use crate::client::{Client, MAX_LAYER_LEN, is_unreserved};
use crate::client_address::ClientAddress;
use hivemind_core::ClientIp;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName};
use http::request::Parts;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The longest credential that is hashed. Longer ones are ignored: servers do not accept such headers, and
/// hashing them would cost more than the request.
const MAX_CREDENTIAL_LEN: usize = 8_192;

/// How clients are identified: identity sources in order, and the way to determine the address.
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader, Identity, IdentitySource};
///
/// let proxies = ClientAddress::behind_proxies(["10.0.0.0/8"], ForwardingHeader::XForwardedFor)?;
/// let tenant = IdentitySource::custom("tenant", |request| {
///     request.uri.path().split('/').nth(1).map(str::to_owned)
/// })?;
/// let identity = Identity::new([tenant, IdentitySource::bearer()], proxies)?;
///
/// let (request, ()) = http::Request::get("/acme/orders").body(()).unwrap().into_parts();
/// let client = identity.identify(&request, Some([203, 0, 113, 9].into()));
/// assert_eq!(client.name(), "custom:tenant:acme");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Identity {
    sources: Box<[IdentitySource]>,
    address: ClientAddress,
}

/// One way to identify a client by something else than its address.
///
/// ```
/// use hivemind_tower::{ClientAddress, Identity, IdentitySource};
///
/// let identity = Identity::new([IdentitySource::session_in("sid", "X-Sid")?, IdentitySource::api_key_id()], ClientAddress::peer())?;
/// let request = http::Request::get("/").header("x-api-key-id", "k1");
/// let (request, ()) = request.body(())?.into_parts();
/// assert_eq!(identity.identify(&request, None).name(), "apikey:k1"); // The request has no session.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IdentitySource(SourceKind);

#[derive(Clone)]
enum SourceKind {
    Session { cookie: Box<str>, header: HeaderName },
    Bearer,
    ApiKeyId { header: HeaderName },
    Custom { prefix: Box<str>, extract: Arc<Extract> },
}

type Extract = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// An invalid identity source, or two that conflict.
///
/// ```
/// use hivemind_tower::IdentitySource;
///
/// let error = IdentitySource::api_key_id_in("X API Key").unwrap_err();
/// assert_eq!(error.to_string(), "`X API Key` is not a valid header name; write it like X-Session-ID");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// An invalid cookie name.
    #[error("`{name}` is not a valid cookie name; use letters, digits, `-` and `_`")]
    Cookie {
        /// The name given.
        name: String,
    },
    /// An invalid header name.
    #[error("`{name}` is not a valid header name; write it like X-Session-ID")]
    Header {
        /// The name given.
        name: String,
    },
    /// An invalid layer name.
    #[error(
        "`{name}` is not a valid layer name; use 1 to {MAX_LAYER_LEN} letters, digits, `-`, `.`, `_` or `~`"
    )]
    Layer {
        /// The name given.
        name: String,
    },
    /// Two custom sources with the same name, whose clients would share buckets.
    #[error(
        "two identity sources are named `{name}` and their clients would share buckets; give each its own name"
    )]
    Duplicate {
        /// The prefix of both.
        name: String,
    },
}

impl IdentitySource {
    /// The session in the cookie `hivemind_session`, or else in the header `X-Session-ID`.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::session()), "Session(hivemind_session, x-session-id)");
    /// ```
    #[must_use]
    pub fn session() -> Self {
        let header = HeaderName::from_static("x-session-id");
        Self(SourceKind::Session { cookie: "hivemind_session".into(), header })
    }

    /// The session in this cookie, or else in this header.
    ///
    /// ```
    /// # use hivemind_tower::{IdentitySource, error::IdentityError};
    /// assert!(IdentitySource::session_in("PHPSESSID", "X-Session-ID").is_ok());
    /// assert!(matches!(IdentitySource::session_in("a b", "X-Session-ID"), Err(IdentityError::Cookie { .. })));
    /// ```
    ///
    /// # Errors
    ///
    /// If one of the names is invalid.
    pub fn session_in(cookie: &str, header: &str) -> Result<Self, IdentityError> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if cookie.is_empty() || !cookie.bytes().all(is_token) {
            return Err(IdentityError::Cookie { name: excerpt(cookie) });
        }
        Ok(Self(SourceKind::Session { cookie: cookie.into(), header: header_name(header)? }))
    }

    /// The token of `Authorization: Bearer`.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::bearer()), "Bearer");
    /// ```
    #[must_use]
    pub const fn bearer() -> Self {
        Self(SourceKind::Bearer)
    }

    /// The header `X-API-Key-ID`: the id of a key, never the key itself.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::api_key_id()), "ApiKeyId(x-api-key-id)");
    /// ```
    #[must_use]
    pub fn api_key_id() -> Self {
        Self(SourceKind::ApiKeyId { header: HeaderName::from_static("x-api-key-id") })
    }

    /// The id of an API key in this header.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert!(IdentitySource::api_key_id_in("X-Key").is_ok() && IdentitySource::api_key_id_in("X Key").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid.
    pub fn api_key_id_in(header: &str) -> Result<Self, IdentityError> {
        Ok(Self(SourceKind::ApiKeyId { header: header_name(header)? }))
    }

    /// The value that this closure returns; its clients are named `custom:<layer>:<id>`.
    ///
    /// The value appears in keys and views: for a secret, return a hash of it. An empty value is ignored; a long
    /// or unusual one is hashed.
    ///
    /// ```
    /// # use hivemind_tower::{IdentitySource, error::IdentityError};
    /// let tenant = IdentitySource::custom("tenant", |request| request.uri.host().map(str::to_owned))?;
    /// assert_eq!(format!("{tenant:?}"), "Custom(custom:tenant:)");
    /// # Ok::<(), IdentityError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the layer name is not 1 to 16 letters, digits, `-`, `.`, `_` or `~`.
    pub fn custom(
        layer: &str,
        extract: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, IdentityError> {
        if !(1..=MAX_LAYER_LEN).contains(&layer.len()) || !layer.bytes().all(is_unreserved) {
            return Err(IdentityError::Layer { name: excerpt(layer) });
        }
        Ok(Self(SourceKind::Custom { prefix: format!("custom:{layer}:").into(), extract: Arc::new(extract) }))
    }

    fn client(&self, request: &Parts, address: Option<ClientIp>) -> Option<Client> {
        let headers = &request.headers;
        match &self.0 {
            SourceKind::Session { cookie, header } => {
                let session = cookie_value(headers, cookie).or_else(|| only_value(headers, header))?;
                Some(Client::by_secret("session:", credential(session)?, address))
            }
            SourceKind::Bearer => {
                let token = bearer_token(only_value(headers, &AUTHORIZATION)?)?;
                Some(Client::by_secret("bearer:", credential(token)?, address))
            }
            SourceKind::ApiKeyId { header } => {
                let id = credential(only_value(headers, header)?)?;
                Some(Client::by_id("apikey:", id, address))
            }
            SourceKind::Custom { prefix, extract } => {
                let id = extract(request).filter(|id| !id.is_empty())?;
                Some(Client::by_id(prefix, id.as_bytes(), address))
            }
        }
    }
}

impl fmt::Debug for IdentitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SourceKind::Session { cookie, header } => write!(f, "Session({cookie}, {header})"),
            SourceKind::Bearer => f.write_str("Bearer"),
            SourceKind::ApiKeyId { header } => write!(f, "ApiKeyId({header})"),
            SourceKind::Custom { prefix, .. } => write!(f, "Custom({prefix})"),
        }
    }
}

impl Identity {
    /// A chain of these sources, in order, with the address as the last resort.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity, IdentitySource, error::IdentityError};
    /// let source = IdentitySource::custom("tenant", |_| None)?;
    /// let twice = Identity::new([source.clone(), source], ClientAddress::peer());
    /// assert!(matches!(twice, Err(IdentityError::Duplicate { .. })));
    /// # Ok::<(), IdentityError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If two custom sources have the same name.
    pub fn new(
        sources: impl IntoIterator<Item = IdentitySource>,
        address: ClientAddress,
    ) -> Result<Self, IdentityError> {
        let sources: Box<[IdentitySource]> = sources.into_iter().collect();
        let mut prefixes: Vec<&str> = sources.iter().filter_map(IdentitySource::custom_prefix).collect();
        prefixes.sort_unstable();
        let twice = prefixes.windows(2).find(|pair| pair.first() == pair.last());
        match twice.and_then(<[&str]>::first) {
            Some(prefix) => Err(IdentityError::Duplicate { name: (*prefix).to_owned() }),
            None => Ok(Self { sources, address }),
        }
    }

    /// Identifies clients by address alone.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity};
    /// let (request, ()) = http::Request::get("/").header("x-api-key-id", "k1").body(())?.into_parts();
    /// let client = Identity::by_address(ClientAddress::peer()).identify(&request, Some([192, 0, 2, 1].into()));
    /// assert_eq!(client.name(), "ip:192.0.2.1"); // Other identities are ignored.
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn by_address(address: ClientAddress) -> Self {
        Self { sources: Box::default(), address }
    }

    /// The default chain: session, bearer token, API key id, address.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity};
    /// let (request, ()) = http::Request::get("/").header("x-api-key-id", "k1").body(())?.into_parts();
    /// assert_eq!(Identity::usual(ClientAddress::peer()).identify(&request, None).name(), "apikey:k1");
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn usual(address: ClientAddress) -> Self {
        Self {
            sources: [IdentitySource::session(), IdentitySource::bearer(), IdentitySource::api_key_id()]
                .into(),
            address,
        }
    }

    /// How addresses are determined.
    ///
    /// ```
    /// # use hivemind_tower::Identity;
    /// assert!(!Identity::default().address().trusts(Some([10, 0, 0, 1].into())));
    /// ```
    #[must_use]
    pub const fn address(&self) -> &ClientAddress {
        &self.address
    }

    /// Identifies the client of a request. `peer` is the address at the other end of the connection; `None` for
    /// a connection without one, such as a Unix socket.
    #[must_use]
    pub fn identify(&self, request: &Parts, peer: Option<IpAddr>) -> Client {
        let address = self.address.resolve(&request.headers, peer);
        let named = self.sources.iter().find_map(|source| source.client(request, address));
        named.unwrap_or_else(|| Client::by_address(address))
    }
}

/// The default chain, which trusts no forwarding header.
impl Default for Identity {
    fn default() -> Self {
        Self::usual(ClientAddress::peer())
    }
}

impl IdentitySource {
    fn custom_prefix(&self) -> Option<&str> {
        match &self.0 {
            SourceKind::Custom { prefix, .. } => Some(prefix),
            _ => None,
        }
    }
}

fn header_name(name: &str) -> Result<HeaderName, IdentityError> {
    name.parse().map_err(|_| IdentityError::Header { name: excerpt(name) })
}

fn excerpt(name: &str) -> String {
    name.chars().take(64).collect()
}

/// The value of a header that occurs once, or several times with the same value. Different values are ignored,
/// because it is unknown which of them the application reads.
fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The first non-empty cookie of this name. Unlike a header it can legitimately occur twice: browsers send one
/// for each matching path, the most specific first (RFC 6265, 5.4).
fn cookie_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    // HTTP/2 may split cookies over several lines (RFC 9113, 8.2.3).
    let lines = headers.get_all(COOKIE).into_iter().map(http::HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';'));
    pairs
        .filter_map(|pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .find(|value| !value.is_empty())
}

/// The token after the scheme, which is case-insensitive (RFC 9110, 11.1).
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer") && token.starts_with(b" ");
    is_bearer.then(|| token.trim_ascii())
}

fn credential(value: &[u8]) -> Option<&[u8]> {
    (1..=MAX_CREDENTIAL_LEN).contains(&value.len()).then_some(value)
}
