//! Getting in: users and passwords, TLS with certificates on both sides, a database's number.

use crate::server::{SOON, Server};
use crate::stores::{charge, now, runtime, store};
use hivemind_core::store::{Op, Parts, Store};
use hivemind_core::testing::block_on;
use hivemind_core::{Limit, Period};
use hivemind_redis::{Availability, Password, RedisOptions, RedisStore, TlsOptions, Topology};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::Path;

fn decides(mut options: RedisOptions) -> bool {
    options.timeout = SOON;
    let runtime = runtime();
    let store = store(options, &runtime);
    let (limit, entries) = (Limit::fixed_window(100, Period::HOUR), [("client", "one")]);
    let spend = charge(Parts { domain: "login", entries: &entries }, &limit, Op::Spend, 1);
    block_on(store.decide(&[spend], now())).unwrap().committed
}

/// Why a store does not get in.
fn refused(options: RedisOptions) -> String {
    let runtime = runtime();
    let store = RedisStore::start(options, runtime.handle()).unwrap();
    let mut availability = store.availability();
    let down = runtime.block_on(async {
        let down = availability.wait_for(|state| *state != Availability::Connecting);
        tokio::time::timeout(SOON, down).await.unwrap().unwrap().clone()
    });
    match down {
        Availability::Down { reason } => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn user_with_minimal_rights_connects_and_others_fail() {
    let rights = "on >hunter2 ~hivemind:ratelimit:* +@connection +eval +evalsha +get +set +pttl +del +time";
    let users = ["--user", "default", "off", "--user", "limits"].into_iter().chain(rights.split(' '));
    let server = Server::on_socket(&users.collect::<Vec<_>>());
    let mut options = RedisOptions::new(server.url());
    options.username = Some("limits".to_owned());
    options.password = Some(Password::new("hunter2"));
    assert!(decides(options.clone()), "with no right to load scripts");
    options.password = Some(Password::new("hunter3"));
    let reason = refused(options);
    assert!(!reason.contains("hunter3") && !reason.is_empty(), "{reason}");
}

/// A cluster of one node, and a master that a sentinel names, let the same user in with one right more each.
#[test]
fn cluster_and_sentinel_users_need_one_more_permission() {
    let rights = "on >hunter2 ~hivemind:ratelimit:* +@connection +eval +evalsha +get +set +pttl +del +time";
    let started = |more: &'static [&'static str], right: &'static str| {
        Server::on_port(move |port, _| {
            let port = port.to_string();
            let users = ["--user", "default", "on", "nopass", "~*", "&*", "+@all", "--user", "limits"];
            let arguments = ["--port", &port].into_iter().chain(more.iter().copied()).chain(users);
            arguments.chain(rights.split(' ')).chain([right]).map(str::to_owned).collect()
        })
    };
    let user = |mut options: RedisOptions| {
        options.username = Some("limits".to_owned());
        options.password = Some(Password::new("hunter2"));
        options
    };
    let node = started(&["--cluster-enabled", "yes"], "+cluster|slots");
    node.cli(&["cluster", "addslotsrange", "0", "16383"]);
    node.says(&["cluster", "info"], |output| output.contains("cluster_state:ok"));
    let mut options = RedisOptions::new(node.url());
    options.topology = Topology::Cluster;
    assert!(decides(user(options)));
    let master = started(&[], "+role");
    let sentinel = crate::sentinel::sentinel(master.port());
    let mut options = RedisOptions::new(sentinel.url());
    options.topology = Topology::Sentinel { master_name: "main".to_owned(), username: None, password: None };
    assert!(decides(user(options)));
}

#[test]
fn server_that_pings_but_cannot_write_is_down() {
    let rights = "on >hunter2 ~hivemind:ratelimit:* +@connection +script|load +get +set +pttl +del +time";
    let users = ["--user", "default", "on", "nopass", "~*", "+@all", "--user", "limits"];
    let server = Server::on_socket(&users.into_iter().chain(rights.split(' ')).collect::<Vec<_>>());
    let mut options = RedisOptions::new(server.url());
    options.username = Some("limits".to_owned());
    options.password = Some(Password::new("hunter2"));
    assert_eq!(refused(options), "Redis answers NOPERM");
    server.cli(&["replicaof", "127.0.0.1", "1"]);
    assert_eq!(refused(RedisOptions::new(server.url())), "Redis answers READONLY");
}

#[test]
fn database_in_url_is_used() {
    let server = Server::on_socket(&[]);
    assert!(decides(RedisOptions::new(format!("{}?db=3", server.url()))));
    assert!(server.cli(&["-n", "3", "keys", "*"]).contains("{login}"));
    assert_eq!(server.cli(&["dbsize"]), "0");
    let ttl: i64 = server
        .cli(&["-n", "3", "pttl", "hivemind:ratelimit:rls:{login}:client=one:fixed-3600s"])
        .parse()
        .unwrap();
    assert!((7_190_000..=7_201_001).contains(&ttl), "it expires by itself: {ttl}");
}

struct Certificates {
    ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        Self { ca, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn issued(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a node");
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[test]
fn tls_requires_valid_certificates_on_both_sides() {
    let certificates = Certificates::new();
    let server = Server::on_port(|port, folder: &Path| {
        let (certificate, key) = certificates.issued();
        let put = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name).to_str().unwrap().to_owned()
        };
        let (certificate, key, ca) =
            (put("c.pem", &certificate), put("k.pem", &key), put("ca.pem", &certificates.ca));
        [
            "--port",
            "0",
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
        ]
        .into_iter()
        .chain(["--tls-ca-cert-file", &ca])
        .map(str::to_owned)
        .collect()
    });
    let mut options = RedisOptions::new(format!("rediss://127.0.0.1:{}", server.port()));
    let (certificate, key) = certificates.issued();
    options.tls = Some(
        TlsOptions::with_ca(certificates.ca.clone())
            .with_client_certificate(certificate.clone(), key.clone()),
    );
    assert!(decides(options.clone()));
    options.tls = Some(TlsOptions::with_ca(certificates.ca.clone()));
    assert!(!refused(options.clone()).is_empty(), "without a certificate of ours");
    options.tls = Some(TlsOptions::with_ca(Certificates::new().ca).with_client_certificate(certificate, key));
    assert!(!refused(options).is_empty(), "signed by another");
}
