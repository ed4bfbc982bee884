//! Pebble, the test CA of Let's Encrypt, with a DNS server that resolves every name to 127.0.0.1.

use crate::process::{Folder, free_port};
use hivemind_testkit::{Log, within};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::process::Stdio;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A CA that validates challenges at one port.
pub(crate) struct Pebble {
    ca: Child,
    _dns: Child,
    port: u16,
    management: u16,
    words: [String; 2],
    logs: Vec<Log>,
}

fn start(program: &str, words: &[String], folder: &Folder) -> (Child, Log) {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder.path()).stdin(Stdio::null()).kill_on_drop(true);
    // By default it delays validations and rejects some nonces, to test clients.
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}; `./test` installs it"));
    let log = Log::of(child.stdout.take().unwrap());
    (child, log)
}

async fn listens(port: u16) {
    let there = async { while TcpStream::connect(("127.0.0.1", port)).await.is_err() {} };
    within("a port of pebble", there).await;
}

impl Pebble {
    /// Starts it, with the CA of its own certificate in `pebble.ca`. Its certificates are valid for `validity_seconds`
    /// seconds.
    pub(crate) async fn start(folder: &Folder, challenge_port: u16, validity_seconds: u64) -> Self {
        Self::start_without(folder, challenge_port, validity_seconds, &[]).await
    }

    /// The same, but it refuses these names.
    pub(crate) async fn start_without(
        folder: &Folder,
        challenge_port: u16,
        validity_seconds: u64,
        names: &[&str],
    ) -> Self {
        let (port, management, dns, mock) = (free_port(), free_port(), free_port(), free_port());
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        folder.write("pebble.ca", &params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let own =
            CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        folder.write("pebble.crt", &own.pem());
        folder.write("pebble.key", &key.serialize_pem());
        let configuration = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"), "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": "pebble.crt", "privateKey": "pebble.key", "httpPort": 1, "tlsPort": challenge_port,
            "ocspResponderURL": "", "externalAccountBindingRequired": false, "certificateValidityPeriod": validity_seconds, "domainBlocklist": names,
        }});
        folder.write("pebble.json", &configuration.to_string());
        let words = [
            format!("-dns01=127.0.0.1:{dns}"),
            format!("-management=127.0.0.1:{mock}"),
            "-defaultIPv6=".to_owned(),
            "-http01=".to_owned(),
            "-https01=".to_owned(),
            "-tlsalpn01=".to_owned(),
        ];
        let (mock_dns, its_log) = start("pebble-challtestsrv", &words, folder);
        listens(mock).await;
        let words = ["-config=pebble.json".to_owned(), format!("-dnsserver=127.0.0.1:{dns}")];
        let (ca, log) = start("pebble", &words, folder);
        listens(port).await;
        listens(management).await;
        Self { ca, _dns: mock_dns, port, management, words, logs: vec![log, its_log] }
    }

    pub(crate) fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// The root that clients must trust, in a file.
    pub(crate) async fn root(&self, folder: &Folder) {
        let url = format!("https://127.0.0.1:{}/{}", self.management, ["roots", "0"].join("/"));
        let got =
            Command::new("curl").args(["-sfk", &url, "-o", "root.pem"]).current_dir(folder.path()).status();
        assert!(within("the CA's root", got).await.unwrap().success());
    }

    /// Stops it.
    pub(crate) async fn stop(&mut self) {
        self.ca.kill().await.unwrap();
    }

    /// Starts it again at the same address. It keeps neither accounts nor its root.
    pub(crate) async fn restart(&mut self, folder: &Folder) {
        let (ca, log) = start("pebble", &self.words, folder);
        self.ca = ca;
        self.logs.push(log);
        listens(self.port).await;
        listens(self.management).await;
        self.root(folder).await;
    }
}
