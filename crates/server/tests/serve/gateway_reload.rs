//! Reloads of the gateway's configuration: services and limits change at once; settings that need a restart are
//! named.

mod statistics;

use hivemind_testkit::{Log, Page, get, post, within};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// A process with a configuration of its own.
struct Gateway {
    folder: tempfile::TempDir,
    _child: Child,
    front: SocketAddr,
    admin: SocketAddr,
    log: Log,
    /// Read continuously, because a full pipe would block the process.
    _screen: Log,
}

/// An app that responds with its name, for as long as the test runs.
async fn app(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 4096];
                while matches!(stream.read(&mut head).await, Ok(read) if read > 0) {
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    address
}

fn configuration(upstream: SocketAddr, requests: u32) -> String {
    format!(
        "server: {{grpc_port: off, admin_port: 0, metrics_port: 0}}
gateway:
  listen: 127.0.0.1:0
  services:
    - {{id: app, upstream: 'http://{upstream}', limits: {{algorithm: fixed_window, requests: {requests}, window: 365d}}}}
"
    )
}

impl Gateway {
    async fn start(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hivemind.yaml");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        command.args(["serve", "--config"]).arg(&path).env_clear();
        Self::spawn(command, folder).await
    }

    async fn spawn(mut command: Command, folder: tempfile::TempDir) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let address =
            |line: &str| line.split_once("://").unwrap().1.split(['/', ' ']).next().unwrap().parse().unwrap();
        let front = address(&screen.next("gateway ").await);
        let admin = address(&screen.next("admin ").await);
        Self { folder, _child: child, front, admin, log, _screen: screen }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("hivemind.yaml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }

    async fn ask(&self) -> Page {
        get(self.front, "/").await
    }

    async fn reload(&self) -> Page {
        post(self.admin, "/api/v1/reload", "").await
    }
}

// Seen failing on: limits that stay unchanged while the routes change.
#[tokio::test]
async fn services_and_limits_are_reloaded_and_counters_kept() {
    let (one, other) = (app("one").await, app("other").await);
    let mut gateway = Gateway::start(&configuration(one, 2)).await;
    for (status, body) in [(200, "one"), (200, "one")] {
        let page = gateway.ask().await;
        assert_eq!((page.code, page.body.as_str()), (status, body));
    }
    assert_eq!(gateway.ask().await.code, 429);
    gateway.write(&configuration(other, 5));
    gateway.log.next("configuration loaded").await;
    for (status, body) in [(200, "other"), (200, "other")] {
        let page = gateway.ask().await;
        assert_eq!((page.code, page.body.as_str()), (status, body));
    }
    assert_eq!(gateway.ask().await.code, 429, "three of five were sent before, one of them refused");
}

#[tokio::test]
async fn admin_reload_returns_the_result_per_file() {
    let one = app("one").await;
    let gateway = Gateway::start(&configuration(one, 2)).await;
    let page = gateway.reload().await;
    let report: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    let nothing_changed = "changed: 0 certificates, 0 CA files";
    assert_eq!(page.code, 200);
    assert_eq!(
        report,
        serde_json::json!({
            "certificates": {"loaded": true, "notes": [nothing_changed]},
            "configuration": {"loaded": true, "notes": []},
        })
    );
    gateway.write("gateway: {services: 5}");
    let page = gateway.reload().await;
    assert_eq!(page.code, 422, "{}", page.body);
    assert!(page.body.contains("`gateway.services` is a list"), "{}", page.body);
    let ready = get(gateway.admin, "/readyz").await;
    assert!(
        ready.code == 200 && ready.body.contains("the configuration on disk is invalid"),
        "{}",
        ready.body
    );
    assert_eq!(gateway.ask().await.body, "one", "the previous configuration stays active");
}

// Seen failing on: keys that need a restart and are not reported.
#[tokio::test]
async fn changed_static_key_is_named_and_keeps_its_value() {
    let one = app("one").await;
    let mut gateway = Gateway::start(&configuration(one, 5)).await;
    let changed = configuration(one, 5).replace("admin_port: 0", "admin_port: 1, shutdown_grace: 1s");
    gateway.write(&changed.replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:0\n  max_headers: 50"));
    let warning = gateway.log.next("need a restart to take effect").await;
    gateway.log.next("configuration loaded").await;
    for key in ["gateway.max_headers", "server.admin_port", "server.shutdown_grace"] {
        assert!(warning.contains(key), "{key} is not in {warning}");
    }
    assert!(!warning.contains("gateway.services"), "{warning}");
    let ready = get(gateway.admin, "/readyz").await;
    assert!(ready.body.contains("needs a restart to take effect: gateway.max_headers"), "{}", ready.body);
    gateway.write(&configuration(one, 5));
    gateway.log.next("configuration loaded").await;
    assert_eq!(get(gateway.admin, "/readyz").await.body, "ready\n");
}

#[tokio::test]
async fn gateway_command_opens_only_its_own_ports() {
    let one = app("one").await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
    let upstream = format!("http://{one}");
    let line =
        ["gateway", "--upstream", &upstream, "--limit", "10/h", "--burst", "3", "--listen", "127.0.0.1:0"];
    command.args(line).args(["--admin", "127.0.0.1:0"]).env_clear();
    let gateway = Gateway::spawn(command, folder).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(gateway.ask().await.code);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(get(gateway.admin, "/healthz").await.code, 200);
}

#[tokio::test]
async fn gateway_without_upstream_names_the_missing_setting() {
    for (line, expected) in [
        (&["gateway"][..], "as in --upstream http://"),
        (&["gateway", "--upstream", "foo"], "write it as http://"),
        (&["gateway", "--upstream", "http://h", "--limit", "10"], "write it as 10/s, 600/m, 5/h or 100/d"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        let output = within("its end", command.args(line).env_clear().output()).await.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(expected), "{line:?}: {text}");
    }
}

#[tokio::test]
async fn imported_nginx_configuration_passes_check() {
    let folder = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nginx.conf");
    let output = folder.path().join("hivemind.yaml");
    let run = async |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        within("its end", command.args(args).env_clear().output()).await.unwrap()
    };
    let imported =
        run(&["import".as_ref(), "nginx".as_ref(), sample.as_ref(), "--output".as_ref(), output.as_ref()])
            .await;
    let warnings = String::from_utf8(imported.stderr).unwrap();
    // One of its limits cannot be imported, which is neither success nor failure.
    assert_eq!(imported.status.code(), Some(2), "{warnings}");
    assert!(warnings.contains("nginx.conf:14: limit_req_zone $server_name"), "{warnings}");
    let checked = run(&["check".as_ref(), output.as_ref()]).await;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
