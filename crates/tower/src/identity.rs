//! Identify: from a request to a [`Client`], by a chain of steps; the first that finds
//! something names the client, and its address does where none does.
//!
//! What a step reads is unverified: this runs before authentication. So a name other
//! than the address is charged beside the address's guard, and no more than one bucket
//! per hash is ever kept of it. Where a request says two different things about
//! itself, the step passes: the chain then ends at the address, which cannot be chosen.

use crate::client::{Client, LONGEST_LAYER, is_plain};
use crate::client_address::ClientAddress;
use hivemind_core::ClientIp;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName};
use http::request::Parts;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The longest credential that is hashed. A longer one names nobody: no server reads
/// such a header, and hashing it would cost more than the request.
const LONGEST_CREDENTIAL: usize = 8_192;

/// How requests are told apart: the steps in their order, and how an address is found.
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
    steps: Box<[IdentitySource]>,
    address: ClientAddress,
}

/// One way to know a client by something else than its address.
///
/// ```
/// use hivemind_tower::{ClientAddress, Identity, IdentitySource};
///
/// let identity = Identity::new([IdentitySource::session_in("sid", "X-Sid")?, IdentitySource::api_key_id()], ClientAddress::peer())?;
/// let request = http::Request::get("/").header("x-api-key-id", "k1");
/// let (request, ()) = request.body(())?.into_parts();
/// assert_eq!(identity.identify(&request, None).name(), "apikey:k1"); // It has no session.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IdentitySource(Kind);

#[derive(Clone)]
enum Kind {
    Session { cookie: Box<str>, header: HeaderName },
    Bearer,
    ApiKeyId { header: HeaderName },
    Custom { prefix: Box<str>, extract: Arc<Extract> },
}

type Extract = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// What cannot be a chain of steps.
///
/// ```
/// use hivemind_tower::IdentitySource;
///
/// let error = IdentitySource::api_key_id_in("X API Key").unwrap_err();
/// assert_eq!(error.to_string(), "`X API Key` cannot be a header's name; write it like X-Session-ID");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A cookie that no browser would send.
    #[error("`{name}` cannot be a cookie's name; take letters, digits, `-` and `_`")]
    Cookie {
        /// The name given.
        name: String,
    },
    /// A header that cannot be sent.
    #[error("`{name}` cannot be a header's name; write it like X-Session-ID")]
    Header {
        /// The name given.
        name: String,
    },
    /// A layer whose name is empty, long or odd.
    #[error("`{name}` cannot name a layer; take 1 to {LONGEST_LAYER} letters, digits, `-`, `.`, `_` or `~`")]
    Layer {
        /// The name given.
        name: String,
    },
    /// Two custom steps of one name, whose clients would meet.
    #[error(
        "two steps are named `{name}` and their clients would share buckets; give each a name of its own"
    )]
    Twice {
        /// The prefix that both have.
        name: String,
    },
}

impl IdentitySource {
    /// By the cookie `hivemind_session`, else by the header `X-Session-ID`.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::session()), "Session(hivemind_session, x-session-id)");
    /// ```
    #[must_use]
    pub fn session() -> Self {
        let header = HeaderName::from_static("x-session-id");
        Self(Kind::Session { cookie: "hivemind_session".into(), header })
    }

    /// By a session in this cookie, else in this header.
    ///
    /// ```
    /// # use hivemind_tower::{IdentitySource, error::IdentityError};
    /// assert!(IdentitySource::session_in("PHPSESSID", "X-Session-ID").is_ok());
    /// assert!(matches!(IdentitySource::session_in("a b", "X-Session-ID"), Err(IdentityError::Cookie { .. })));
    /// ```
    ///
    /// # Errors
    ///
    /// If one of them cannot be such a name.
    pub fn session_in(cookie: &str, header: &str) -> Result<Self, IdentityError> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if cookie.is_empty() || !cookie.bytes().all(is_token) {
            return Err(IdentityError::Cookie { name: shown(cookie) });
        }
        Ok(Self(Kind::Session { cookie: cookie.into(), header: header_name(header)? }))
    }

    /// By the token of `Authorization: Bearer`.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::bearer()), "Bearer");
    /// ```
    #[must_use]
    pub const fn bearer() -> Self {
        Self(Kind::Bearer)
    }

    /// By the header `X-API-Key-ID`: the id of a key, never the key itself.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert_eq!(format!("{:?}", IdentitySource::api_key_id()), "ApiKeyId(x-api-key-id)");
    /// ```
    #[must_use]
    pub fn api_key_id() -> Self {
        Self(Kind::ApiKeyId { header: HeaderName::from_static("x-api-key-id") })
    }

    /// By the id of an API key in this header.
    ///
    /// ```
    /// # use hivemind_tower::IdentitySource;
    /// assert!(IdentitySource::api_key_id_in("X-Key").is_ok() && IdentitySource::api_key_id_in("X Key").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If there cannot be such a header.
    pub fn api_key_id_in(header: &str) -> Result<Self, IdentityError> {
        Ok(Self(Kind::ApiKeyId { header: header_name(header)? }))
    }

    /// By whatever this closure finds; its clients are named `custom:<layer>:<id>`.
    ///
    /// What it returns is shown in keys and views: for a secret, return a hash of it.
    /// An empty text is no identity, and an over-long or odd one is hashed.
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
    /// If the layer's name is not 1 to 16 letters, digits, `-`, `.`, `_` or `~`.
    pub fn custom(
        layer: &str,
        extract: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, IdentityError> {
        if !(1..=LONGEST_LAYER).contains(&layer.len()) || !layer.bytes().all(is_plain) {
            return Err(IdentityError::Layer { name: shown(layer) });
        }
        Ok(Self(Kind::Custom { prefix: format!("custom:{layer}:").into(), extract: Arc::new(extract) }))
    }

    fn client(&self, request: &Parts, address: Option<ClientIp>) -> Option<Client> {
        let headers = &request.headers;
        match &self.0 {
            Kind::Session { cookie, header } => {
                let session = cookie_value(headers, cookie).or_else(|| only_value(headers, header))?;
                Some(Client::by_secret("session:", credential(session)?, address))
            }
            Kind::Bearer => {
                let token = bearer_token(only_value(headers, &AUTHORIZATION)?)?;
                Some(Client::by_secret("bearer:", credential(token)?, address))
            }
            Kind::ApiKeyId { header } => {
                let id = credential(only_value(headers, header)?)?;
                Some(Client::by_id("apikey:", id, address))
            }
            Kind::Custom { prefix, extract } => {
                let id = extract(request).filter(|id| !id.is_empty())?;
                Some(Client::by_id(prefix, id.as_bytes(), address))
            }
        }
    }
}

impl fmt::Debug for IdentitySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Session { cookie, header } => write!(f, "Session({cookie}, {header})"),
            Kind::Bearer => f.write_str("Bearer"),
            Kind::ApiKeyId { header } => write!(f, "ApiKeyId({header})"),
            Kind::Custom { prefix, .. } => write!(f, "Custom({prefix})"),
        }
    }
}

impl Identity {
    /// A chain of these steps, in their order. Behind them all stands the address.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity, IdentitySource, error::IdentityError};
    /// let step = IdentitySource::custom("tenant", |_| None)?;
    /// let twice = Identity::new([step.clone(), step], ClientAddress::peer());
    /// assert!(matches!(twice, Err(IdentityError::Twice { .. })));
    /// # Ok::<(), IdentityError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If two custom steps have one name.
    pub fn new(
        steps: impl IntoIterator<Item = IdentitySource>,
        address: ClientAddress,
    ) -> Result<Self, IdentityError> {
        let steps: Box<[IdentitySource]> = steps.into_iter().collect();
        let mut prefixes: Vec<&str> = steps.iter().filter_map(IdentitySource::custom_prefix).collect();
        prefixes.sort_unstable();
        let twice = prefixes.windows(2).find(|pair| pair.first() == pair.last());
        match twice.and_then(<[&str]>::first) {
            Some(prefix) => Err(IdentityError::Twice { name: (*prefix).to_owned() }),
            None => Ok(Self { steps, address }),
        }
    }

    /// By address alone.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity};
    /// let (request, ()) = http::Request::get("/").header("x-api-key-id", "k1").body(())?.into_parts();
    /// let client = Identity::by_address(ClientAddress::peer()).identify(&request, Some([192, 0, 2, 1].into()));
    /// assert_eq!(client.name(), "ip:192.0.2.1"); // Whatever it calls itself.
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn by_address(address: ClientAddress) -> Self {
        Self { steps: Box::default(), address }
    }

    /// The usual chain: session, bearer token, API key id, address.
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
            steps: [IdentitySource::session(), IdentitySource::bearer(), IdentitySource::api_key_id()].into(),
            address,
        }
    }

    /// How addresses are found, and who is believed about them.
    ///
    /// ```
    /// # use hivemind_tower::Identity;
    /// assert!(!Identity::default().address().trusts(Some([10, 0, 0, 1].into())));
    /// ```
    #[must_use]
    pub const fn address(&self) -> &ClientAddress {
        &self.address
    }

    /// Who this request comes from, given the address at the other end of its
    /// connection; none for one without, like a Unix socket's.
    #[must_use]
    pub fn identify(&self, request: &Parts, peer: Option<IpAddr>) -> Client {
        let address = self.address.resolve(&request.headers, peer);
        let named = self.steps.iter().find_map(|step| step.client(request, address));
        named.unwrap_or_else(|| Client::by_address(address))
    }
}

/// The usual chain, trusting no header about the address.
impl Default for Identity {
    fn default() -> Self {
        Self::usual(ClientAddress::peer())
    }
}

impl IdentitySource {
    fn custom_prefix(&self) -> Option<&str> {
        match &self.0 {
            Kind::Custom { prefix, .. } => Some(prefix),
            _ => None,
        }
    }
}

fn header_name(name: &str) -> Result<HeaderName, IdentityError> {
    name.parse().map_err(|_| IdentityError::Header { name: shown(name) })
}

fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

/// The value of a header that is there once, or always with the same value. Two
/// different ones name nobody: which of them the application reads is unknown.
fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The first cookie of this name that is not empty. Unlike a header it may come twice
/// by right: browsers send one for each path, the nearest first (RFC 6265, 5.4).
fn cookie_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    // HTTP/2 may send them in several lines (RFC 9113, 8.2.3).
    let lines = headers.get_all(COOKIE).into_iter().map(http::HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';'));
    pairs
        .filter_map(|pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .find(|value| !value.is_empty())
}

/// What follows the scheme, whose case does not matter (RFC 9110, 11.1).
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer") && token.starts_with(b" ");
    is_bearer.then(|| token.trim_ascii())
}

fn credential(value: &[u8]) -> Option<&[u8]> {
    (1..=LONGEST_CREDENTIAL).contains(&value.len()).then_some(value)
}
