//! Options of the store: addresses, credentials and behavior. Invalid values are rejected at the start with a fix.
//! Redis itself may start later, so its availability is not checked then.

use crate::{Prefix, PrefixError};
use redis::IntoConnectionInfo;
use std::fmt;
use std::time::Duration;

/// Options of a [`RedisStore`](crate::RedisStore).
///
/// ```
/// use hivemind_redis::{RedisOptions, Password, Prefix, ClockSource};
/// use std::time::Duration;
///
/// let mut options = RedisOptions::new("redis://:secret@redis.example.org:6379/0");
/// options.timeout = Duration::from_millis(20);
/// options.prefix = Prefix::new("shop")?;
/// assert_eq!(options.clock, ClockSource::Server); // Its nodes need not agree on the time.
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), hivemind_redis::PrefixError>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisOptions {
    /// URLs: `redis://host:6379/0`, `rediss://host:6380`, `redis+unix:///run/redis.sock`.
    /// One for a single server; the nodes of a cluster, or its sentinels, of which some may be down.
    pub nodes: Vec<String>,
    /// What these URLs address.
    pub topology: Topology,
    /// Who logs in, where the URL does not say it. None is Redis' user `default`.
    pub username: Option<String>,
    /// With which password, where the URL does not say it.
    pub password: Option<Password>,
    /// Certificates, for `rediss` URLs; none trusts what the system trusts.
    pub tls: Option<TlsOptions>,
    /// What every name begins with.
    pub prefix: Prefix,
    /// The longest that a call takes. At least a millisecond.
    pub timeout: Duration,
    /// The clock that decides.
    pub clock: ClockSource,
    /// Whether counters known to be over are refused without asking Redis.
    pub over_cache: bool,
    /// Whether a node may take a slice of a busy counter's budget, and spend it without asking.
    pub lease: Option<LeaseOptions>,
}

impl RedisOptions {
    /// The usual for a single server at `url`.
    ///
    /// ```
    /// # use hivemind_redis::{RedisOptions, Topology};
    /// assert_eq!(RedisOptions::new("redis://redis.example.org").topology, Topology::Single);
    /// ```
    pub fn new(url: impl Into<String>) -> Self {
        Self { nodes: vec![url.into()], ..Self::default() }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may have a password in it, before its `@` or in its query: what is shown is what was read of it.
        let hosts = self.nodes.iter().map(|url| match url.as_str().into_connection_info() {
            Ok(node) => node.addr().to_string(),
            Err(_) => "(cannot be read)".to_owned(),
        });
        f.debug_struct("Options")
            .field("hosts", &hosts.collect::<Vec<_>>())
            .field("topology", &self.topology)
            .field("tls", &self.tls)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("clock", &self.clock)
            .field("over_cache", &self.over_cache)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            topology: Topology::Single,
            username: None,
            password: None,
            tls: None,
            prefix: Prefix::default(),
            timeout: Duration::from_millis(50),
            clock: ClockSource::Server,
            over_cache: true,
            lease: None,
        }
    }
}

/// What the URLs address.
///
/// ```
/// use hivemind_redis::{RedisOptions, Topology};
///
/// let mut options = RedisOptions::new("redis://sentinel-1.example.org:26379");
/// options.nodes.push("redis://sentinel-2.example.org:26379".into());
/// let (username, password) = (None, None);
/// options.topology = Topology::Sentinel { master_name: "mymaster".into(), username, password };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Topology {
    /// One server, or an address that always leads to the current master.
    #[default]
    Single,
    /// The nodes of a cluster.
    Cluster,
    /// Sentinels, which report the master's address.
    Sentinel {
        /// The master's name at the sentinels.
        master_name: String,
        /// User name for the sentinels, if they require one; the URLs may contain it instead.
        username: Option<String>,
        /// Password of that user.
        password: Option<Password>,
    },
}

/// The clock that decides.
///
/// ```
/// use hivemind_redis::{RedisOptions, ClockSource};
///
/// let mut options = RedisOptions::new("redis://redis.example.org");
/// options.clock = ClockSource::Caller; // Requests of a log, each at its own time.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClockSource {
    /// The clock of Redis: all nodes agree, even if their own clocks differ.
    #[default]
    Server,
    /// The time of the request. A node whose clock is behind moves no counter back, and one
    /// whose clock is ahead moves it forward; past [`hivemind_core::algorithm::STEP_BACK`] of
    /// difference, windows restart. For replayed requests, and for exactness to the nanosecond.
    Caller,
}

/// Size and duration of the slices of a busy counter that a node takes in advance.
///
/// ```
/// use hivemind_redis::{LeaseOptions, RedisOptions};
/// use std::time::Duration;
///
/// let mut options = RedisOptions::new("redis://redis.example.org");
/// options.lease = Some(LeaseOptions::new(10, Duration::from_millis(100))); // Nine of ten need no call.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseOptions {
    /// Units that are taken at once. Each node may hold one unspent slice, which other nodes then
    /// refuse.
    pub slice: u32,
    /// Time after which unspent units are returned.
    pub longest: Duration,
}

impl LeaseOptions {
    /// Slices of `slice` units, for at most `longest`.
    #[must_use]
    pub const fn new(slice: u32, longest: Duration) -> Self {
        Self { slice, longest }
    }
}

/// A password, which is sent only to Redis and never printed.
///
/// ```
/// use hivemind_redis::Password;
///
/// let password = Password::new("secret\n"); // As a file has it.
/// assert_eq!(password, Password::new("secret"));
/// assert_eq!(format!("{password:?}"), "Password(..)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<str>);

impl Password {
    /// A password; a newline at its end, as in files, is removed.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into().trim_end_matches(['\r', '\n']).into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Certificates in PEM.
///
/// ```
/// use hivemind_redis::{RedisOptions, TlsOptions};
///
/// let (ca, certificate, key) = ("-----BEGIN ...", "-----BEGIN ...", "-----BEGIN ..."); // Of files.
/// let mut options = RedisOptions::new("rediss://redis.example.org:6380");
/// options.tls = Some(TlsOptions::with_ca(ca).with_client_certificate(certificate, key));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// The CA of the server's certificate; `None`: the CAs of the system.
    pub ca: Option<Vec<u8>>,
    /// The client certificate and its key, if the server requires one.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsOptions {
    /// Trusts servers whose certificate this CA signed.
    pub fn with_ca(ca: impl Into<Vec<u8>>) -> Self {
        Self { ca: Some(ca.into()), client: None }
    }

    /// Adds a client certificate with its key.
    #[must_use]
    pub fn with_client_certificate(self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self { client: Some((certificate.into(), key.into())), ..self }
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ca, client) = (self.ca.is_some(), self.client.is_some());
        f.debug_struct("Tls").field("ca", &ca).field("client", &client).finish()
    }
}

/// Why a store cannot be started, with a fix. No text contains a password.
///
/// ```
/// use hivemind_redis::{RedisOptions, OptionsError, RedisStore};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let error = RedisStore::start(RedisOptions::default(), runtime.handle()).unwrap_err();
/// assert_eq!(error, OptionsError::NoNodes);
/// assert_eq!(error.to_string(), "no URL of Redis is given; write one as `redis://host:6379`");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Nowhere to connect to.
    #[error("no URL of Redis is given; write one as `redis://host:6379`")]
    NoNodes,
    /// A single server has one address.
    #[error("{count} URLs are given for a single server; give one, or say `cluster` or `sentinel`")]
    SeveralServers {
        /// How many there are.
        count: usize,
    },
    /// A URL that cannot be read.
    #[error(
        "the URL of Redis number {number} cannot be read; write it as `redis://host:6379/0`, \
         `rediss://host:6380` for TLS, or `redis+unix:///path/to.sock`"
    )]
    Url {
        /// Which of them, from 1.
        number: usize,
    },
    /// A time-out of nothing.
    #[error("the time-out for Redis is below a millisecond; the usual is 50ms")]
    Timeout,
    /// A lease that can hold nothing.
    #[error("a lease of {slice} for {longest:?} holds nothing; the usual is a slice of 10 for 100ms")]
    Lease {
        /// Its slice.
        slice: u32,
        /// Its longest time.
        longest: Duration,
    },
    /// What the client library says, of certificates and of addresses that do not fit together.
    #[error("the settings of Redis do not fit together: {reason}")]
    Unfit {
        /// What it says.
        reason: String,
    },
    /// See [`PrefixError`].
    #[error(transparent)]
    Prefix(#[from] PrefixError),
}

impl RedisOptions {
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if self.nodes.is_empty() {
            return Err(OptionsError::NoNodes);
        }
        if self.topology == Topology::Single && self.nodes.len() > 1 {
            return Err(OptionsError::SeveralServers { count: self.nodes.len() });
        }
        if self.timeout < Duration::from_millis(1) {
            return Err(OptionsError::Timeout);
        }
        match self.lease {
            Some(LeaseOptions { slice, longest }) if slice == 0 || longest.is_zero() => {
                Err(OptionsError::Lease { slice, longest })
            }
            _ => Ok(()),
        }
    }
}
