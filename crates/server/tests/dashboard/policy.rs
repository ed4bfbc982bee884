//! The content security policy, as the browser enforces it: comparing the header with its own text would not
//! show what a foreign script, style or page can do.

use crate::page::Dashboard;
use crate::scene::RULES;
use hivemind_testkit::{Setup, get};

/// Attempts of an attacker whose text got into the page. Some throw, and some have no effect.
const ATTEMPTS: &str = r"(() => {
    const added = (name, set) => { const one = document.createElement(name); set(one); document.body.append(one); return one; };
    const ways = [
        () => added('script', one => { one.textContent = 'window.ran = 1'; }),
        () => added('script', one => { one.src = 'http://foreign.invalid/x.js'; }),
        () => added('p', one => { one.setAttribute('onclick', 'window.ran = 1'); }).click(),
        () => { document.createElement('p').innerHTML = '<img src=x onerror=window.ran=1>'; },
        () => setTimeout('window.ran = 1'),
        () => added('style', one => { one.textContent = 'body { --foreign: 1 }'; }),
        () => added('link', one => { one.rel = 'stylesheet'; one.href = '/assets/icon.svg'; }),
        () => added('p', one => { one.setAttribute('style', '--foreign: 1'); }),
        () => added('img', one => { one.src = 'http://foreign.invalid/x.png'; }),
        () => added('iframe', one => { one.src = '/'; }),
        () => added('base', one => { one.href = 'http://foreign.invalid/'; }),
        () => added('form', one => { one.action = '/json'; one.method = 'post'; }).submit(),
        () => fetch('http://foreign.invalid/').catch(() => {}),
    ];
    for (const way of ways) try { way(); } catch {}
})()";

/// The violations that the browser reports, by directive.
const REFUSED: [&str; 9] = [
    "require-trusted-types-for",
    "style-src-elem inline",
    "style-src-elem http",
    "style-src-attr inline",
    "img-src http://foreign.invalid/",
    "frame-src ",
    "base-uri http://foreign.invalid/",
    "form-action ",
    "connect-src http://foreign.invalid/",
];

// Seen failing on: a policy without trusted types, without `base-uri`, and with inline styles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_policy_blocks_foreign_code_and_requests() {
    let server = Setup::rules(RULES).start().await;
    let mut page = Dashboard::live(server.admin).await;
    page.assert_clean().await;
    page.value(ATTEMPTS).await;
    for refused in REFUSED {
        page.until(&format!("window.violations.some(one => one.startsWith('{refused}'))")).await;
    }
    assert!(page.value("window.ran === undefined").await == true, "a foreign script ran");
    let foreign = "getComputedStyle(document.body).getPropertyValue('--foreign')";
    assert_eq!(page.value(foreign).await, "", "a foreign style applies");
    assert_eq!(page.value("document.baseURI").await, format!("http://{}/", server.admin));
    // Every response of the port carries the headers.
    for path in ["/", "/assets/app.js", "/assets/icon.svg"] {
        let answer = get(server.admin, path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
    }
}
