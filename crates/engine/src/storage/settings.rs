//! `storage`: where counters are stored, and what happens while the store is unavailable.

mod redis_url;

pub use redis_url::RedisUrl;

use super::OnError;
use crate::mesh::MeshSection;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{AMOUNT, FLAG, MILLIS, PATH, WORD};
use hivemind_redis::Prefix;
use redis_url::REDIS_URL;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Where counters are stored, and what happens while the store is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSection {
    /// None: counters are in this process.
    pub redis: Option<RedisSection>,
    pub on_error: OnError,
}

/// A Redis or Valkey shared by several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSection {
    /// At least one.
    pub urls: Vec<RedisUrl>,
    pub topology: RedisTopology,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    pub tls: RedisTls,
    pub timeout: Duration,
    pub prefix: Prefix,
    /// Whether the clock of the Redis server is used, not that of this machine.
    pub server_clock: bool,
    pub over_cache: bool,
    pub lease: Option<LeaseSection>,
}

/// Topology of the Redis servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisTopology {
    Single,
    Cluster,
    Sentinel { master_name: String, username: Option<String>, password_file: Option<PathBuf> },
}

/// TLS files. Without a CA, the system's CAs are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// How much of a budget a node leases at once, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSection {
    pub slice: NonZeroU32,
    pub longest: Duration,
}

const SLICE: NonZeroU32 = NonZeroU32::new(10).unwrap();

#[derive(Clone, Copy, PartialEq, Eq)]
enum StorageKind {
    Memory,
    Mesh,
    Redis,
}

const KINDS: &[(&str, StorageKind)] =
    &[("memory", StorageKind::Memory), ("mesh", StorageKind::Mesh), ("redis", StorageKind::Redis)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum TopologyKind {
    Single,
    Cluster,
    Sentinel,
}

const SHAPES: &[(&str, TopologyKind)] = &[
    ("single", TopologyKind::Single),
    ("cluster", TopologyKind::Cluster),
    ("sentinel", TopologyKind::Sentinel),
];
/// Maximum delay of a mesh tick on a busy machine.
const SLOW_TICK: Duration = Duration::from_secs(1);
/// The prefix is part of each key and of each command.
const LONGEST_PREFIX: usize = 128;
/// Other nodes are discovered through these.
const MOST_URLS: usize = 64;

impl StorageSection {
    /// The time after which the HTTP layer stops waiting for the shared store; none if counters are in this process.
    /// It is longer than the store's own timeout, otherwise the layer would give up before the fallback decides.
    pub fn patience(&self, mesh: Option<&MeshSection>) -> Option<Duration> {
        match (&self.redis, mesh) {
            (Some(redis), _) => Some(redis.timeout * 2),
            (None, Some(mesh)) => Some(mesh.ask_timeout * 10 + SLOW_TICK),
            (None, None) => None,
        }
    }
}

/// Also returns whether limits are shared by a mesh, which has its own section.
pub fn read(mut section: Section<'_, '_>) -> (StorageSection, bool) {
    let kind = section.choice("kind", KINDS).unwrap_or(StorageKind::Memory);
    let on_error = section.choice("on_error", OnError::CHOICES).unwrap_or_default();
    let redis = redis(section.section("redis"));
    if kind != StorageKind::Redis && section.has("redis") {
        let kind = if kind == StorageKind::Mesh { "mesh" } else { "memory" };
        let cause = format!("`storage.redis` has no effect while `storage.kind` is `{kind}`");
        section.warn("redis", cause, "set `kind: redis`, or remove `storage.redis`");
    }
    if kind == StorageKind::Mesh && section.has("on_error") {
        let cause = "`storage.on_error` has no effect with a mesh, which has no external store".to_owned();
        section.warn("on_error", cause, "remove it; `mesh.on_unreachable` is the corresponding setting");
    }
    if kind == StorageKind::Redis && redis.urls.is_empty() && !section.section("redis").has("url") {
        let cause = "`storage.kind: redis` needs the URL of a Redis server".to_owned();
        section.refuse("kind", cause, "add `redis: {url: redis://127.0.0.1:6379}`");
    }
    (
        StorageSection { redis: (kind == StorageKind::Redis).then_some(redis), on_error },
        kind == StorageKind::Mesh,
    )
}

fn redis(mut section: Section<'_, '_>) -> RedisSection {
    let urls = section.one_or_list("url", &REDIS_URL);
    let shape = section.choice("topology", SHAPES).unwrap_or(TopologyKind::Single);
    let master_name = section.read("master_name", &WORD);
    let of_sentinels =
        (section.read("sentinel_username", &WORD), section.read("sentinel_password_file", &PATH));
    let username = section.read("username", &WORD);
    let password_file = section.read("password_file", &PATH);
    check_urls(&mut section, &urls, shape, password_file.is_some());
    let topology = match (shape, master_name) {
        (TopologyKind::Single, None) => RedisTopology::Single,
        (TopologyKind::Cluster, None) => RedisTopology::Cluster,
        (TopologyKind::Sentinel, Some(master_name)) => {
            let (username, password_file) = of_sentinels;
            RedisTopology::Sentinel { master_name, username, password_file }
        }
        (TopologyKind::Sentinel, None) => {
            let cause = "`topology: sentinel` needs the name of the master".to_owned();
            section.refuse("topology", cause, "add `master_name: mymaster`, as the sentinels call it");
            RedisTopology::Single
        }
        (TopologyKind::Single | TopologyKind::Cluster, Some(_)) => {
            let cause = "`storage.redis.master_name` is for `topology: sentinel`".to_owned();
            section.refuse("master_name", cause, "leave it out, or add `topology: sentinel`");
            RedisTopology::Single
        }
    };
    let tls = tls(&mut section, &urls);
    let timeout = section.read("timeout_ms", &MILLIS).unwrap_or(Duration::from_millis(50));
    let prefix = prefix(&mut section);
    let clock = section.choice("clock", &[("server", true), ("local", false)]);
    let over_cache = section.read("over_cache", &FLAG).unwrap_or(true);
    let lease = lease(section.section("lease"));
    let server_clock = clock.unwrap_or(true);
    RedisSection {
        urls,
        topology,
        username,
        password_file,
        tls,
        timeout,
        prefix,
        server_clock,
        over_cache,
        lease,
    }
}

fn check_urls(
    section: &mut Section<'_, '_>,
    urls: &[RedisUrl],
    shape: TopologyKind,
    has_password_file: bool,
) {
    if shape == TopologyKind::Single && urls.len() > 1 {
        let cause = "several `storage.redis.url` are for `topology: cluster` or `sentinel`".to_owned();
        section.refuse_hidden("url", cause, "name one server, or add the topology");
    }
    if urls.len() > MOST_URLS {
        let cause = format!("`storage.redis.url` has more than {MOST_URLS} servers");
        section.refuse_hidden("url", cause, "a few are enough: they know the others");
    }
    if shape != TopologyKind::Single && urls.iter().any(RedisUrl::is_unix_socket) {
        let cause = "a cluster or a sentinel cannot be reached by a Unix socket".to_owned();
        section.refuse_hidden("url", cause, "write `redis://host:port`, or `topology: single`");
    }
    if urls.iter().any(RedisUrl::is_tls) && !urls.iter().all(RedisUrl::is_tls) {
        let cause = "`storage.redis.url` mixes URLs with and without TLS".to_owned();
        section.refuse_hidden("url", cause, "write `rediss` for all of them, or `redis`");
    }
    if urls.iter().any(RedisUrl::has_password) {
        let remedy =
            "put it into a file that only this service can read, and set `password_file` to its path";
        if has_password_file {
            let cause = "both `storage.redis.url` and `password_file` have a password".to_owned();
            section.refuse_hidden("url", cause, "remove the one in the URL");
        } else {
            let cause = "there is a password in `storage.redis.url`, where other users may see it".to_owned();
            section.warn_hidden("url", cause, remedy);
        }
    }
}

fn tls(section: &mut Section<'_, '_>, urls: &[RedisUrl]) -> RedisTls {
    let mut files = section.section("tls");
    let mut file = |key: &str| files.read(key, &PATH);
    let tls = RedisTls { ca: file("ca"), cert: file("cert"), key: file("key") };
    for (has, other) in [("cert", "key"), ("key", "cert")] {
        if files.has(has) && !files.has(other) {
            let cause = format!("`storage.redis.tls.{has}` needs `{other}`");
            files.refuse(has, cause, "a certificate and its key belong together: set both or neither");
        }
    }
    if section.has("tls") && !urls.is_empty() && !urls.iter().any(RedisUrl::is_tls) {
        let cause = "`storage.redis.tls` is set, but the URL does not use TLS".to_owned();
        section.refuse("tls", cause, "write `rediss://` for `redis://`, or leave `tls` out");
    }
    tls
}

fn prefix(section: &mut Section<'_, '_>) -> Prefix {
    let Some(text) = section.read("prefix", &WORD) else { return Prefix::default() };
    if text.len() > LONGEST_PREFIX {
        let cause = format!("`storage.redis.prefix` has more than {LONGEST_PREFIX} characters");
        section.refuse("prefix", cause, "shorten it: it is in every key, as in `shop:ratelimit`");
        return Prefix::default();
    }
    Prefix::new(&text).unwrap_or_else(|error| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "write it as in `shop:ratelimit`"));
        section.refuse("prefix", format!("`storage.redis.prefix`: {cause}"), remedy);
        Prefix::default()
    })
}

fn lease(mut section: Section<'_, '_>) -> Option<LeaseSection> {
    let enabled = section.read("enabled", &FLAG).unwrap_or(false);
    let slice = section.read("slice", &AMOUNT).unwrap_or(SLICE);
    let longest = section.read("longest_ms", &MILLIS).unwrap_or(Duration::from_millis(100));
    enabled.then_some(LeaseSection { slice, longest })
}
