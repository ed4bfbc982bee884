//! Certificates and CAs that are replaced while calls are answered.

use crate::RULES;
use hivemind_testkit::authority::{Authority, put};
use hivemind_testkit::client::{ask, caller, curl};
use hivemind_testkit::{Setup, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// Seen failing on: a CA that is read at the start alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_cas_are_replaced_under_load_without_a_failed_call() {
    let (ours, next) = (Authority::new(), Authority::new());
    let (issued, bundle) = (ours.issue("server"), ours.file().with_file_name("callers.pem"));
    put(&bundle, ours.pem());
    let mut server = Setup::rules(RULES)
        .with("security.grpc_tls.cert", issued.cert.to_str().unwrap())
        .with("security.grpc_tls.key", issued.key.to_str().unwrap())
        .with("security.grpc_tls.client_ca", bundle.to_str().unwrap())
        .start()
        .await;
    let config = ours.client(Some(&ours.issue("client")));
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut callers = tokio::task::JoinSet::new();
    for is_kept in [true, true, false] {
        let (config, at, stop, done) =
            (Arc::clone(&config), server.grpc, Arc::clone(&stop), Arc::clone(&done));
        callers.spawn(async move {
            let mut client = caller(at, Arc::clone(&config)).await.unwrap();
            while !stop.load(Ordering::Relaxed) {
                if !is_kept {
                    client = caller(at, Arc::clone(&config)).await.unwrap();
                }
                ask(&mut client, "d", None).await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for _ in 0..4 {
        ours.issue("server");
        server.log.next("new certificates are active").await;
    }
    // A CA is replaced as a key is: both are good for a while.
    let shown = next.issue("client");
    // It trusts our server, and comes from the next CA.
    let config_of_next = ours.client(Some(&shown));
    let is_let_in =
        async |config: &Arc<rustls::ClientConfig>| match caller(server.grpc, Arc::clone(config)).await {
            Ok(mut client) => ask(&mut client, "d", None).await.is_ok(),
            Err(_) => false,
        };
    assert!(!is_let_in(&config_of_next).await);
    put(&bundle, &format!("{}{}", ours.pem(), next.pem()));
    within("the next CA", async { while !is_let_in(&config_of_next).await {} }).await;
    assert!(is_let_in(&config).await);
    // What cannot be used changes nothing.
    put(&bundle, "no certificate");
    server.log.next("callers.pem: has no certificate").await;
    assert!(is_let_in(&config).await && is_let_in(&config_of_next).await);
    let before = done.load(Ordering::Relaxed);
    let more = async {
        while done.load(Ordering::Relaxed) < before + 50 {
            tokio::task::yield_now().await;
        }
    };
    within("more calls", more).await;
    stop.store(true, Ordering::Relaxed);
    within("the callers", callers.join_all()).await;
    // The old one is not trusted any more, and who resumes a session is asked as well.
    put(&bundle, next.pem());
    within("the end of the old CA", async { while is_let_in(&config).await {} }).await;
    assert!(is_let_in(&config_of_next).await);
}

// Seen failing on: certificates that are read at the start alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_the_pages_are_replaced_without_a_failed_request() {
    let ours = Authority::new();
    let issued = ours.issue("server");
    let (cert, key) = (issued.cert.to_str().unwrap(), issued.key.to_str().unwrap());
    let mut server = ["security.admin.tls", "security.metrics_tls"]
        .iter()
        .fold(Setup::rules(RULES), |setup, section| {
            setup.with(&format!("{section}.cert"), cert).with(&format!("{section}.key"), key)
        })
        .start()
        .await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut visitors = tokio::task::JoinSet::new();
    let pages = [(server.admin, "readyz"), (server.metrics, "metrics")];
    for (at, path) in pages {
        let (ca, stop) = (ours.file().to_str().unwrap().to_owned(), Arc::clone(&stop));
        visitors.spawn(async move {
            let (url, mut asked) = (format!("https://{at}/{path}"), 0);
            while !stop.load(Ordering::Relaxed) || asked < 5 {
                let said = curl(&["--cacert", &ca, &url]).await;
                assert!(said.exit == Some(0) && said.code() == 200, "{said:?}");
                asked += 1;
            }
            asked
        });
    }
    for _ in 0..3 {
        ours.issue("server");
        server.log.next("new certificates are active").await;
    }
    stop.store(true, Ordering::Relaxed);
    let asked = within("the visitors", visitors.join_all()).await;
    assert!(asked.iter().all(|asked| *asked >= 5), "{asked:?}");
}
