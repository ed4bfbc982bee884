//! Hostile headers that try to change the client, over a socket, through hyper's parser and the layer. The
//! remaining budget shows which bucket a request was charged to.

use crate::support::{Server, api, bucket, builder, clock};
use hivemind_tower::{ClientAddress, ForwardingHeader, Identity, IdentitySource};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The trusted proxy.
const PROXY: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// A client that bypasses the proxy.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BURST: u64 = 1_000;

type Headers<'a> = &'a [(&'a str, &'a str)];

/// A server and the expected charges of each bucket.
struct BucketProbe {
    server: Server,
    spent: HashMap<String, u64>,
}

impl BucketProbe {
    async fn start(address: ClientAddress) -> Self {
        let limits = api(bucket(1, 1_000)).without_ip_guard();
        let steps = [IdentitySource::session(), IdentitySource::bearer(), IdentitySource::api_key_id()];
        let limiter = builder(limits, &clock()).identity(Identity::new(steps, address).unwrap());
        Self { server: Server::start(&limiter.build().unwrap()).await, spent: HashMap::new() }
    }

    async fn behind_proxy(header: ForwardingHeader) -> Self {
        Self::start(ClientAddress::behind_proxies(["127.0.0.1/32", "10.0.0.0/8"], header).unwrap()).await
    }

    /// Sends a request and checks that it is charged to the bucket of `client`.
    async fn check_charge(&mut self, from: Ipv4Addr, headers: Headers<'_>, client: &str) {
        let answer = self.server.ask_from(from, "GET /", headers).await;
        let spent = self.spent.entry(client.to_owned()).or_default();
        *spent += 1;
        assert_eq!((answer.status, answer.remaining()), (200, BURST - *spent), "{client}: {headers:?}");
    }
}

/// Fails when the header of an untrusted peer is read.
#[tokio::test]
async fn direct_client_cannot_choose_its_bucket_by_headers() {
    for address in [
        ClientAddress::peer(),
        ClientAddress::behind_proxies(["127.0.0.1/32"], ForwardingHeader::XForwardedFor).unwrap(),
        ClientAddress::behind_proxies(["127.0.0.1/32"], ForwardingHeader::Forwarded).unwrap(),
    ] {
        let mut probe = BucketProbe::start(address).await;
        probe.check_charge(PROXY, &[], "127.0.0.1").await;
        for headers in [
            &[("X-Forwarded-For", "127.0.0.1")] as Headers<'_>,
            &[("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "127.0.0.1")],
            &[("Forwarded", "for=127.0.0.1"), ("X-Forwarded-For", "127.0.0.1")],
            &[("Forwarded", "for=\"[::ffff:127.0.0.1]:80\"")],
            &[("X-Real-IP", "127.0.0.1"), ("True-Client-IP", "127.0.0.1"), ("CF-Connecting-IP", "127.0.0.1")],
            &[("X-Session-ID", ""), ("Authorization", "Bearer "), ("X-API-Key-ID", "")],
        ] {
            probe.check_charge(STRANGER, headers, "127.0.0.2").await;
        }
    }
}

#[tokio::test]
async fn client_behind_proxy_is_the_address_the_proxy_saw() {
    let mut probe = BucketProbe::behind_proxy(ForwardingHeader::XForwardedFor).await;
    let hops = |count: usize| vec!["198.51.100.1"; count].join(", ");
    // Each line ends with the hop that the proxy appended.
    for (line, client) in [
        ("203.0.113.9", "203.0.113.9"),
        ("127.0.0.1, 203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[::ffff:203.0.113.9]:4711", "203.0.113.9"),
        ("\"198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("\"198.51.100.1, 198.51.100.2\", 203.0.113.9", "203.0.113.9"),
        (&format!("{}, 203.0.113.9", hops(31)), "203.0.113.9"),
        (&format!("{}, 203.0.113.9", hops(500)), "203.0.113.9"),
        (&format!("{}, 203.0.113.9", "x".repeat(20_000)), "203.0.113.9"),
        ("2001:db8:1:2::a", "2001:db8:1:2"),
        ("[2001:db8:1:2:ffff::b]:443", "2001:db8:1:2"),
        ("2001:db8:1:2::a%eth0", "2001:db8:1:2"),
        ("[2001:db8:1:2::c%25eth0]:443", "2001:db8:1:2"),
        ("2001:db8:1:3::a", "2001:db8:1:3"),
        ("198.51.100.1, unknown", "the proxy"),
        ("198.51.100.1, _hidden", "the proxy"),
        ("198.51.100.1, \"203.0.113.9\"", "the proxy"),
        ("198.51.100.1, unknown, 10.1.2.3", "10.1.2.3"),
        ("198.51.100.1, garbage, 10.1.2.3", "10.1.2.3"),
    ] {
        probe.check_charge(PROXY, &[("X-Forwarded-For", line)], client).await;
    }
    let lines = [
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("x-forwarded-for", "10.1.2.3"),
    ];
    probe.check_charge(PROXY, &lines, "203.0.113.9").await;
    probe.check_charge(PROXY, &[("Forwarded", "for=203.0.113.9")], "the proxy").await;
}

#[tokio::test]
async fn open_quote_in_forwarded_does_not_hide_proxy_hops() {
    let mut probe = BucketProbe::behind_proxy(ForwardingHeader::Forwarded).await;
    for (line, client) in [
        ("for=203.0.113.9", "203.0.113.9"),
        ("FOR=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"),
        ("for=\"203.0.113.9:4711\"", "203.0.113.9"),
        ("for=\"198.51.100.1, for=198.51.100.2\", for=203.0.113.9", "203.0.113.9"),
        ("host=\"a, for=198.51.100.2\";for=203.0.113.9", "203.0.113.9"),
        ("for=203.0.113.9;host=\"a, for=198.51.100.2\"", "203.0.113.9"),
        ("for=\"198.51.100.1, for=203.0.113.9", "203.0.113.9"),
        ("for=\"[2001:db8:1:2::a]:443\"", "2001:db8:1:2"),
        ("for=\"[2001:db8:1:2::b%25eth0]:443\"", "2001:db8:1:2"),
        ("for=198.51.100.1, for=_SEVKISEK", "the proxy"),
        ("for=198.51.100.1, for=unknown", "the proxy"),
        ("for=198.51.100.1, for=\"_gazonk:80\", for=10.1.2.3", "10.1.2.3"),
    ] {
        probe.check_charge(PROXY, &[("Forwarded", line)], client).await;
    }
    probe
        .check_charge(
            PROXY,
            &[("Forwarded", "for=\"198.51.100.1"), ("Forwarded", "for=203.0.113.9")],
            "203.0.113.9",
        )
        .await;
    probe.check_charge(PROXY, &[("X-Forwarded-For", "203.0.113.9")], "the proxy").await;
}

#[tokio::test]
async fn repeated_or_overlong_credential_identifies_no_client() {
    let mut probe = BucketProbe::start(ClientAddress::peer()).await;
    let long = "x".repeat(9_000);
    let bearer = format!("Bearer {long}");
    for (headers, client) in [
        (&[("X-API-Key-ID", "team-7")] as Headers<'_>, "team-7"),
        (&[("X-API-Key-ID", "team-7"), ("X-API-Key-ID", "team-7")], "team-7"),
        (&[("X-API-Key-ID", "team-7"), ("X-API-Key-ID", "team-8")], "127.0.0.2"),
        (&[("X-API-Key-ID", "ip:127.0.0.2")], "an odd id"),
        (&[("X-API-Key-ID", "apikey:team-7")], "another odd id"),
        (&[("X-API-Key-ID", "team-7\u{e9}")], "one more"),
        (&[("X-API-Key-ID", &long)], "127.0.0.2"),
        (&[("Authorization", "Bearer a")], "bearer a"),
        (&[("authorization", "bearer a")], "bearer a"),
        (&[("Authorization", "Bearer a"), ("Authorization", "Bearer b")], "127.0.0.2"),
        (&[("Authorization", &bearer)], "127.0.0.2"),
        (&[("X-Session-ID", "a")], "session a"),
        (&[("Cookie", "x=1; hivemind_session=a")], "session a"),
        (&[("Cookie", "hivemind_session=a; hivemind_session=b")], "session a"),
        (&[("X-Session-ID", "team-7"), ("X-API-Key-ID", "team-7")], "session team-7"),
    ] {
        probe.check_charge(STRANGER, headers, client).await;
    }
}
