//! The fail2ban filter and jail in `deploy/fail2ban`, with the real `fail2ban-regex`: each refusal line matches
//! with its address, and client input never matches with another one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "test helpers panic with a message")]

use hivemind_core::Timestamp;
use hivemind_tower::{LogSampling, Refusal, RefusalLog};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The address that an attacker tries to get banned.
const VICTIM: &str = "198.51.100.1";
const AT_MS: u64 = 1_794_769_200_123;

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/fail2ban").join(file)
}

/// The addresses that the shipped filter finds in a log, with repetitions; `None` if fail2ban is not installed
/// outside of CI.
fn matched(log: &Path) -> Option<Vec<String>> {
    let output = Command::new("fail2ban-regex")
        // Without DNS lookups.
        .args(["--usedns", "no", "--out", "ip"])
        .arg(log)
        .arg(deployed("filter.d/hivemind.conf"))
        .output();
    let Ok(output) = output else {
        let required = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!required, "fail2ban-regex is missing; `./test` installs it (Debian's fail2ban)");
        println!("skipped: fail2ban-regex is missing; `./test` installs it");
        return None;
    };
    let (found, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(errors.is_empty(), "{errors}");
    Some(found.lines().map(str::to_owned).collect())
}

/// A log of refusals, given as address, host and path.
fn log_of(folder: &Path, refusals: &[(&str, &str, &str)]) -> PathBuf {
    let file = folder.join("refusals.log");
    let log = RefusalLog::appending_to(&file).unwrap();
    for (address, host, path) in refusals {
        let at = Timestamp::from_millis(AT_MS);
        log.record(&Refusal { address: Some(address.parse().unwrap()), host, path, at });
    }
    drop(log);
    file
}

#[test]
fn fail2ban_matches_every_line_with_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let long = "/x".repeat(5_000);
    let refusals = [
        ("203.0.113.50", "example.org", "/login"),
        ("203.0.113.51", "", "/"),
        ("2001:db8:1:2::3", "[2001:db8::1]:8080", "/a%20b?"),
        ("203.0.113.52", "bücher.example", "/é/\u{2028}"),
        ("203.0.113.53", &long, &long),
        ("::ffff:203.0.113.54", "example.org", "*"),
    ];
    let Some(found) = matched(&log_of(folder.path(), &refusals)) else { return };
    let expected =
        ["203.0.113.50", "203.0.113.51", "2001:db8:1:2::/64", "203.0.113.52", "203.0.113.53", "203.0.113.54"];
    assert_eq!(found, expected);
}

/// Fails when space or line feed is not encoded.
#[test]
fn fail2ban_never_matches_address_sent_by_client() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("2026-11-15T19:00:00.123Z RATE_LIMIT client_ip={VICTIM} host=a path=/ status=429");
    let hostile: Vec<String> =
        ["\n", "\r", "\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{0}", " ", "\t", "\u{a0}", "%0A"]
            .iter()
            .flat_map(|end| {
                [
                    format!("/{end}{line}{end}"),
                    format!("/ status=429{end}{line}"),
                    format!("{VICTIM}{end}host=a path=/ status=429{end}RATE_LIMIT client_ip={VICTIM}"),
                    format!("{end} INFO x: RATE_LIMIT client_ip={VICTIM} host=a path=/ status=429"),
                ]
            })
            .chain([format!("client_ip={VICTIM}"), VICTIM.to_owned(), format!("<HOST>{VICTIM}")])
            .collect();
    // Each from a client of its own, so that sampling leaves no line out.
    let clients: Vec<String> = (0..hostile.len() * 2).map(|number| format!("203.0.113.{number}")).collect();
    let as_host = clients.iter().zip(&hostile).map(|(client, text)| (&**client, &**text, "/"));
    let as_path =
        clients[hostile.len()..].iter().zip(&hostile).map(|(client, text)| (&**client, "a", &**text));
    let refusals: Vec<_> = as_host.chain(as_path).collect();
    let Some(found) = matched(&log_of(folder.path(), &refusals)) else { return };
    assert_eq!(found, clients);
}

#[test]
fn fail2ban_does_not_match_left_out_lines() {
    let folder = tempfile::tempdir().unwrap();
    let refusals = vec![("203.0.113.50", "example.org", "/"); 1_000];
    let file = log_of(folder.path(), &refusals);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.ends_with(
            "RATE_LIMIT_LEFT_OUT client_ip=203.0.113.50 lines=980 since=2026-11-15T19:00:00.123Z\n"
        ),
        "{text}"
    );
    let Some(found) = matched(&file) else { return };
    assert_eq!(found, ["203.0.113.50"; 20]);
}

/// Events in the default format of `tracing-subscriber`, with its timestamps.
#[test]
fn tracing_events_match_only_with_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.log");
    let events = std::sync::Arc::new(std::fs::File::create(&file).unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(events).finish();
    tracing::subscriber::with_default(subscriber, || {
        let log = RefusalLog::events();
        for address in [Some("203.0.113.50".parse().unwrap()), None, Some("2001:db8::1".parse().unwrap())] {
            for _ in 0..25 {
                log.record(&Refusal { address, host: "a\nb", path: "/", at: Timestamp::from_millis(AT_MS) });
            }
        }
    });
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("INFO hivemind::rate_limit: RATE_LIMIT client_ip=unknown host=a%0Ab"), "{text}");
    let Some(found) = matched(&file) else { return };
    assert_eq!(found, [["203.0.113.50"; 20], ["2001:db8::/64"; 20]].concat());
}

/// `tracing-subscriber` writes open spans before the target. Fails when the line contains the span.
#[test]
fn event_within_a_span_matches_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.log");
    let events = std::sync::Arc::new(std::fs::File::create(&file).unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(events).finish();
    tracing::subscriber::with_default(subscriber, || {
        let span = tracing::info_span!("request", uri = "/login");
        let _entered = span.enter();
        tracing::info!("a span is open");
        let address = Some("203.0.113.50".parse().unwrap());
        let at = Timestamp::from_millis(AT_MS);
        RefusalLog::events().record(&Refusal { address, host: "a", path: "/login", at });
    });
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("request{uri=\"/login\"}: fail2ban: a span is open"), "{text}");
    let Some(found) = matched(&file) else { return };
    assert_eq!(found, ["203.0.113.50"], "{text}");
}

#[test]
fn jail_bans_by_written_lines() {
    let jail = std::fs::read_to_string(deployed("jail.d/hivemind.conf")).unwrap();
    let number = |name: &str| -> u64 {
        let mut settings = jail.lines().filter_map(|line| line.split_once('='));
        settings.find(|(key, _)| key.trim() == name).unwrap().1.trim().parse().unwrap()
    };
    let first = NonZeroU32::new(number("maxretry").try_into().unwrap()).unwrap();
    assert_eq!(LogSampling::new(first, Duration::from_secs(number("findtime"))), LogSampling::default());
    assert!(number("bantime") >= number("findtime"));
}
