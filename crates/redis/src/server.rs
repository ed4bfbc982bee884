//! Redis server: connections to a single server, to the master that sentinels report, or to a cluster. The client
//! library handles TLS, login, database and slots.

use crate::options::{OptionsError, Password, RedisOptions, TlsOptions, Topology};
use crate::script::{self, ScriptCall};
use crate::{KeyName, Prefix};
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo, RedisError, RedisResult, ServerErrorKind, TlsCertificates, TlsMode, Value,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Time limit for a connection attempt: longer than a call, because no request waits for all of it.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long sent data may stay without a TCP acknowledgment.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// Number of cluster slots on which the probe decides.
const PROBED_SLOTS: u16 = 32;
/// Queue of commands for one connection's writer; far more than concurrent requests.
const QUEUE: usize = 4_096;

pub(crate) enum RedisServer {
    Single(Client),
    Sentinel(Sentinels),
    Cluster(Box<Cluster>),
}

/// A cluster client, and another one for commands that must not be repeated.
pub(crate) struct Cluster {
    usual: ClusterClient,
    no_retry: ClusterClient,
}

/// A connection whose clones share one pipeline.
#[derive(Clone)]
pub(crate) enum RedisConnection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection, Arc<NoRetryConnection>),
}

/// A cluster connection without retries, created in the background: a command that the library repeats after a
/// broken connection may have been executed already, and a repeated return of units would exceed the limit.
pub(crate) struct NoRetryConnection {
    client: ClusterClient,
    connection: OnceCell<ClusterConnection>,
}

impl NoRetryConnection {
    async fn connected(&self) -> RedisResult<ClusterConnection> {
        self.connection.get_or_try_init(|| self.client.get_async_connection()).await.cloned()
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connected().await?;
        let answer = redis::aio::ConnectionLike::req_packed_command(&mut connection, command).await;
        answer?.extract_error()
    }
}

impl RedisConnection {
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Self::Single(connection) => connection.send_packed_command(command).await,
            Self::Cluster(connection, _) => {
                redis::aio::ConnectionLike::req_packed_command(connection, command).await
            }
        };
        answer?.extract_error()
    }

    /// The same for a command that must not be executed twice. A node that redirects to another node executed nothing.
    pub(crate) async fn send_once(&mut self, command: &Cmd) -> RedisResult<Value> {
        let Self::Cluster(_, once) = self else { return self.send(command).await };
        let answer = once.send(command).await;
        let is_redirect = |error: &RedisError| {
            let moved = [ServerErrorKind::Moved, ServerErrorKind::Ask, ServerErrorKind::TryAgain];
            moved.into_iter().any(|kind| is(error, kind))
        };
        match answer {
            Err(error) if is_redirect(&error) => self.send(command).await,
            answer => answer,
        }
    }

    /// Sends a `PING`; in a cluster to any node, because the others replace a lost one.
    pub(crate) async fn ping(&mut self) -> RedisResult<()> {
        let ping = redis::cmd("PING");
        match self {
            Self::Single(_) => self.send(&ping).await.map(drop),
            Self::Cluster(connection, _) => {
                let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
                connection.route_command(ping, any).await?.extract_error().map(drop)
            }
        }
    }

    /// Loads the script on a single server. Nodes of a cluster, and servers whose user may not load scripts, get its
    /// text with the first call.
    pub(crate) async fn load(&mut self, script: &str) -> RedisResult<()> {
        match self {
            Self::Single(_) => {
                let loaded = self.send(redis::cmd("SCRIPT").arg("LOAD").arg(script)).await;
                loaded.map(drop).or_else(|error| if error.is_io_error() { Err(error) } else { Ok(()) })
            }
            Self::Cluster(..) => Ok(()),
        }
    }

    /// Decides on a probe counter, as requests do: a replica or a full server responds to `PING` but rejects writes. In
    /// a cluster it uses enough slots to reach each master.
    pub(crate) async fn probe(&mut self, prefix: &Prefix) -> RedisResult<()> {
        let slots = match self {
            Self::Single(_) => 1,
            Self::Cluster(..) => PROBED_SLOTS,
        };
        let hash = script::hash();
        for number in 0..slots {
            let call = ScriptCall::probe(KeyName::probe(prefix, number));
            let mut answer = self.send(&call.command("EVALSHA", &hash)).await;
            if matches!(&answer, Err(error) if is(error, ServerErrorKind::NoScript)) {
                answer = self.send(&call.command("EVAL", script::TEXT)).await;
            }
            answer?;
        }
        Ok(())
    }

    /// Whether this error breaks the connection. A cluster connection repairs itself while it knows a node.
    pub(crate) fn is_broken_by(&self, error: &RedisError) -> bool {
        match self {
            Self::Cluster(..) => error.kind() == ErrorKind::ClusterConnectionNotFound,
            // It broke, or its server is a replica by now.
            Self::Single(_) => {
                error.is_io_error()
                    || error.is_unrecoverable_error()
                    || is(error, ServerErrorKind::ReadOnly)
                    || is(error, ServerErrorKind::MasterDown)
            }
        }
    }
}

pub(crate) fn is(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == ErrorKind::Server(kind)
}

impl RedisServer {
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, OptionsError> {
        options.check()?;
        // The library uses the provider of the process, and with two in one build there would be no default.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let nodes = options.nodes.iter().enumerate().map(|(index, url)| node(index, url, options));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let tls = options.tls.as_ref().map(certificates);
        match &options.topology {
            Topology::Single => {
                let node = nodes.into_iter().next().ok_or(OptionsError::NoNodes)?;
                let client = match tls.filter(|_| is_tls(&node)) {
                    Some(tls) => Client::build_with_tls(node, tls),
                    None => Client::open(node),
                };
                client.map(Self::Single).map_err(|error| unfit(&error))
            }
            Topology::Cluster => {
                let client = |retries| {
                    let mut builder = ClusterClientBuilder::new(nodes.clone())
                        .connection_timeout(CONNECT_WITHIN)
                        // The store has its own timeout. After this one the library would repeat the command.
                        .response_timeout(options.timeout.saturating_mul(2).max(CONNECT_WITHIN))
                        .overall_response_timeout(None)
                        .tcp_settings(sockets())
                        .retries(retries);
                    if let Some(tls) = &tls {
                        builder = builder.certs(tls.clone());
                    }
                    builder.build().map_err(|error| unfit(&error))
                };
                Ok(Self::Cluster(Box::new(Cluster { usual: client(3)?, no_retry: client(0)? })))
            }
            Topology::Sentinel { .. } => Sentinels::new(nodes, options).map(Self::Sentinel),
        }
    }

    /// The address of the master according to the sentinels; `None` without sentinels or without a response.
    pub(crate) async fn master(&self) -> Option<ConnectionAddr> {
        let Self::Sentinel(sentinels) = self else { return None };
        let mut client = sentinels.client().ok()?;
        let master = client.async_get_client().await.ok()?;
        Some(master.get_connection_info().addr().clone())
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Connects, on the runtime of the caller.
    pub(crate) async fn connect(&self) -> RedisResult<RedisConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        match self {
            Self::Single(client) => client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .map(RedisConnection::Single),
            Self::Sentinel(sentinels) => sentinels
                .client()?
                .get_async_connection_with_config(&config)
                .await
                .map(RedisConnection::Single),
            Self::Cluster(cluster) => {
                let once = Arc::new(NoRetryConnection {
                    client: cluster.no_retry.clone(),
                    connection: OnceCell::new(),
                });
                let usual = cluster.usual.get_async_connection().await?;
                // A return of units has no time to wait for this connection.
                let early = Arc::clone(&once);
                tokio::spawn(async move { early.connected().await.map(drop) });
                Ok(RedisConnection::Cluster(usual, once))
            }
        }
    }
}

/// Socket options: commands are sent immediately, and the system detects a silently lost connection in seconds, for
/// example behind a firewall that dropped it.
fn sockets() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(5))
        .with_interval(Duration::from_secs(2))
        .with_retries(2);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    settings
}

fn node(index: usize, url: &str, options: &RedisOptions) -> Result<ConnectionInfo, OptionsError> {
    let node = url.into_connection_info().map_err(|_| OptionsError::Url { number: index + 1 })?;
    let node = node.set_tcp_settings(sockets());
    if matches!(options.topology, Topology::Sentinel { .. }) {
        return Ok(node); // The separate credentials are for the master.
    }
    let mut login = node.redis_settings().clone();
    if let Some(username) = options.username.as_ref().filter(|_| login.username().is_none()) {
        login = login.set_username(username);
    }
    if let Some(password) = options.password.as_ref().filter(|_| login.password().is_none()) {
        login = login.set_password(password.reveal());
    }
    Ok(node.set_redis_settings(login))
}

fn certificates(tls: &TlsOptions) -> TlsCertificates {
    let client = tls.client.clone();
    TlsCertificates {
        client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key }),
        root_cert: tls.ca.clone(),
    }
}

/// The sentinels. Each request creates a new client, because a client keeps connections, which end with their
/// runtime.
pub(crate) struct Sentinels {
    nodes: Vec<ConnectionInfo>,
    options: RedisOptions,
}

impl Sentinels {
    fn new(nodes: Vec<ConnectionInfo>, options: &RedisOptions) -> Result<Self, OptionsError> {
        let sentinels = Self { nodes, options: options.clone() };
        sentinels.client().map_err(|error| unfit(&error)).map(|_| sentinels)
    }

    fn client(&self) -> RedisResult<SentinelClient> {
        let Topology::Sentinel { master_name, username, password } = &self.options.topology else {
            return Err((ErrorKind::EmptySentinelList, "no sentinels are configured").into());
        };
        let addresses = self.nodes.iter().map(|node| node.addr().clone());
        let mut builder = SentinelClientBuilder::new(addresses, master_name, SentinelServerType::Master)?;
        let Some(first) = self.nodes.first() else { return builder.build() };
        builder = builder
            .set_client_to_redis_tcp_settings(sockets())
            .set_client_to_sentinel_tcp_settings(sockets())
            .set_client_to_redis_db(first.redis_settings().db());
        if let Some(username) = username.as_deref().or(first.redis_settings().username()) {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = password.as_ref().map(Password::reveal).or(first.redis_settings().password())
        {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(username) = &self.options.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = &self.options.password {
            builder = builder.set_client_to_redis_password(password.reveal());
        }
        if is_tls(first) {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            if let Some(tls) = self.options.tls.as_ref().map(certificates) {
                builder = builder.set_client_to_redis_certificates(tls.clone());
                builder = builder.set_client_to_sentinel_certificates(tls);
            }
        }
        builder.build()
    }
}

fn is_tls(node: &ConnectionInfo) -> bool {
    matches!(node.addr(), ConnectionAddr::TcpTls { .. })
}

fn unfit(error: &RedisError) -> OptionsError {
    OptionsError::Unfit { reason: describe(error) }
}

/// A short description of an error. It contains no text of the server, which may repeat what it received.
pub(crate) fn describe(error: &RedisError) -> String {
    match (error.code(), error.is_io_error()) {
        (Some(code), _) => format!("Redis answers {code}"),
        (None, true) => error.to_string(),
        (None, false) => error.category().to_owned(),
    }
}
