//! The token bucket compared with a real nginx: `limit_req rate=R burst=B nodelay` is a
//! bucket of capacity `B + 1`. Each test starts its own nginx on a Unix socket and sends
//! the same requests to nginx and to the engine.
//!
//! The time of nginx's decision is between sending a request and receiving its response.
//! So either no moment in between changes the verdict, or the engine decides twice: at the
//! most generous moment and at the strictest one; nginx's verdict has to be in between.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test helpers panic and print")]

use hivemind_core::{Clock, Limit};

use hivemind_core::store::{Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Op};
use hivemind_core::store::{Parts, StoreOptions, Verdicts};
use hivemind_core::{Rate, SystemClock, Timestamp};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// nginx keeps its time in whole milliseconds, read before it handles a request: the
/// error of a difference of two such times is below this.
const NGINX_TICK: Duration = Duration::from_millis(2);
/// The deadline of every step. A machine that needs longer fails the test.
const DEADLINE: Duration = Duration::from_secs(20);
/// The number of runs that may be invalid because the machine stalled.
const ATTEMPTS: u32 = 10;

#[test]
fn nginx_admits_burst_plus_one_on_a_fresh_key() {
    let Some(nginx) = Nginx::start("rate=1r/s", "burst=20 nodelay") else { return };
    let limit = bucket(1, 21);
    retry_stalled("burst", |attempt| {
        let engine = Engine::new();
        let mut connection = nginx.connect();
        let key = format!("fresh-{attempt}");
        let answers: Vec<_> = (0..30).map(|_| connection.send(&key, "")).collect();
        let from = answers[0].sent;
        if answers[29].answered.since(from) + NGINX_TICK >= Duration::from_secs(1) {
            return None; // A token was earned meanwhile.
        }
        for (index, answer) in answers.iter().enumerate() {
            let admitted = engine.decide(&[(&key, &limit)], Op::Spend, from).committed;
            assert_eq!(answer.passed, admitted, "request {index}");
            assert_eq!(answer.passed, index < 21, "request {index}");
        }
        Some(())
    });
}

#[test]
fn drained_client_passes_after_retry_after() {
    let Some(nginx) = Nginx::start("rate=10r/s", "burst=4 nodelay") else { return };
    let limit = bucket(10, 5);
    retry_stalled("refill", |attempt| {
        let mut connection = nginx.connect();
        let key = format!("drained-{attempt}");
        let drain: Vec<_> = (0..5).map(|_| connection.send(&key, "")).collect();
        // Tokens are earned from the first request on, whenever in its round trip it was decided.
        let first = &drain[0];
        let uncertainty = drain[4].answered.since(first.sent) + NGINX_TICK;
        if uncertainty > Duration::from_millis(50) {
            return None;
        }
        assert!(drain.iter().all(|answer| answer.passed), "{drain:?}");
        let (generous, strict) = (Engine::new(), Engine::new());
        for _ in 0..5 {
            generous.decide(&[(&key, &limit)], Op::Debit, first.sent);
            strict.decide(&[(&key, &limit)], Op::Debit, first.answered.saturating_add(NGINX_TICK));
        }
        let mut passed = 0;
        while passed < 3 {
            // No sleep: the requests themselves take time, and each of them is compared.
            let answer = connection.send(&key, "");
            let latest = answer.answered.saturating_add(NGINX_TICK);
            let could = generous.decide(&[(&key, &limit)], Op::Peek, latest).committed;
            let must = strict.decide(&[(&key, &limit)], Op::Peek, answer.sent).committed;
            assert!(could || !answer.passed, "request {passed} passed too early: {first:?} {answer:?}");
            assert!(!must || answer.passed, "request {passed} refused too long: {first:?} {answer:?}");
            if answer.passed {
                generous.decide(&[(&key, &limit)], Op::Debit, latest);
                strict.decide(&[(&key, &limit)], Op::Debit, answer.sent);
                passed += 1;
            }
            assert!(answer.answered.since(first.sent) < DEADLINE, "nginx did not refill");
        }
        Some(())
    });
}

#[test]
fn nginx_request_refused_by_one_limit_spends_nothing() {
    let Some(nginx) = Nginx::start("rate=1r/s", "burst=9 nodelay") else { return };
    let (wide, narrow) = (bucket(1, 10), bucket(1, 3));
    retry_stalled("two limits", |attempt| {
        let engine = Engine::new();
        let mut connection = nginx.connect();
        let client = format!("both-{attempt}");
        // Three pass, five are refused by the narrow limit alone; then a fresh narrow limit each time.
        let narrow_keys =
            (0..20).map(|n| if n < 8 { format!("n-{attempt}") } else { format!("n-{attempt}-{n}") });
        let answers: Vec<_> = narrow_keys.map(|key| (connection.send(&client, &key), key)).collect();
        let from = answers[0].0.sent;
        if answers[19].0.answered.since(from) + NGINX_TICK >= Duration::from_secs(1) {
            return None;
        }
        for (index, (answer, key)) in answers.iter().enumerate() {
            let admitted = engine.decide(&[(&client, &wide), (key, &narrow)], Op::Spend, from).committed;
            assert_eq!(answer.passed, admitted, "request {index}");
        }
        assert_eq!(answers.iter().filter(|(answer, _)| answer.passed).count(), 10);
        Some(())
    });
}

/// Repeats a run that is invalid because the machine stalled.
fn retry_stalled(name: &str, run: impl Fn(u32) -> Option<()>) {
    let done = (0..ATTEMPTS).any(|attempt| run(attempt).is_some());
    assert!(done, "{name}: the machine stalled in each of {ATTEMPTS} runs, so no run was compared");
}

fn bucket(per_second: u32, burst: u32) -> Limit {
    Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap()
}

/// The engine, with the same keys as nginx.
struct Engine(MemoryStore);

impl Engine {
    fn new() -> Self {
        Self(MemoryStore::new(StoreOptions::default()))
    }

    fn decide(&self, limits: &[(&str, &Limit)], op: Op, now: Timestamp) -> Verdicts {
        let seed = KeySeed::from_cluster_id("live nginx");
        let entries: Vec<_> = limits.iter().map(|(name, _)| [("key", *name)]).collect();
        let charges: Vec<_> = limits
            .iter()
            .zip(&entries)
            .map(|((_, limit), entries)| {
                let parts = Parts { domain: "nginx", entries };
                let key = Key::new(&seed, parts, limit, 0);
                Charge { op, ..Charge::spend(key, parts, limit) }
            })
            .collect();
        self.0.decide_now(&charges, Context::at(now))
    }
}

#[derive(Debug)]
struct Response {
    sent: Timestamp,
    answered: Timestamp,
    passed: bool,
}

/// An nginx process of one test, stopped on drop.
struct Nginx {
    process: Child,
    folder: PathBuf,
}

impl Nginx {
    /// Starts an nginx that limits `client` by these options, and `narrow` to 3 at once; none
    /// where nginx is missing outside CI.
    fn start(rate: &str, burst: &str) -> Option<Self> {
        let Some(program) = program() else {
            let required = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!required, "nginx is missing; `./test` installs it (Debian's nginx-light)");
            println!("skipped: nginx is missing; `./test` installs it");
            return None;
        };
        let folder = fresh_folder();
        std::fs::write(folder.join("page"), "passed").unwrap();
        std::fs::write(folder.join("nginx.conf"), configuration(&folder, rate, burst)).unwrap();
        let process = Command::new(program)
            .args(["-e", "stderr", "-p"])
            .arg(&folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut nginx = Self { process, folder };
        nginx.wait_until_it_listens();
        Some(nginx)
    }

    fn wait_until_it_listens(&mut self) {
        let started = SystemClock.now();
        while UnixStream::connect(self.socket()).is_err() {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("nginx exited with {status}; the reason is above");
            }
            assert!(SystemClock.now().since(started) < DEADLINE, "nginx is not listening");
            std::thread::yield_now();
        }
    }

    fn connect(&self) -> Connection {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Connection(BufReader::new(stream))
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // nginx runs without a master, so this is its only process.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A persistent connection with one request at a time.
struct Connection(BufReader<UnixStream>);

impl Connection {
    fn send(&mut self, client: &str, narrow: &str) -> Response {
        let request = format!("GET /page?client={client}&narrow={narrow} HTTP/1.1\r\nHost: test\r\n\r\n");
        let sent = SystemClock.now();
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let status = self.line();
        let answered = SystemClock.now();
        let mut length = 0;
        loop {
            let header = self.line();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.0.read_exact(&mut vec![0; length]).unwrap();
        let passed = match status.split(' ').nth(1) {
            Some("200") => true,
            Some("429") => false,
            _ => panic!("nginx answers {status:?}"),
        };
        Response { sent, answered, passed }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        assert!(read > 0, "nginx closed the connection");
        line.trim_end().to_owned()
    }
}

/// Searches the PATH and Debian's directory, which is only in root's PATH.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
}

fn fresh_folder() -> PathBuf {
    // A Unix socket's path has to be short, and the target folder's may be long.
    let base = std::env::temp_dir();
    (0..1_000)
        .map(|n| base.join(format!("hivemind-nginx-{}-{n}", std::process::id())))
        .find(|folder| std::fs::create_dir(folder).is_ok())
        .unwrap()
}

fn configuration(folder: &Path, rate: &str, burst: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
         master_process off;
         pid '{folder}/pid';
         error_log stderr error;
         events {{ worker_connections 64; }}
         http {{
             access_log off;
             client_body_temp_path '{folder}/body';
             proxy_temp_path '{folder}/proxy';
             fastcgi_temp_path '{folder}/fastcgi';
             uwsgi_temp_path '{folder}/uwsgi';
             scgi_temp_path '{folder}/scgi';
             limit_req_zone $arg_client zone=client:1m {rate};
             limit_req_zone $arg_narrow zone=narrow:1m rate=1r/s;
             limit_req_status 429;
             limit_req_log_level info;
             keepalive_requests 1000000;
             server {{
                 listen 'unix:{folder}/socket';
                 root '{folder}';
                 limit_req zone=client {burst};
                 limit_req zone=narrow burst=2 nodelay;
             }}
         }}"
    )
}
