//! A server's dashboard, open in a browser.

use hivemind_testkit::browser::Browser;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// All views, by their names in the URL, and their headings.
pub(crate) const VIEWS: [(&str, &str); 8] = [
    ("overview", "Overview"),
    ("keys", "Keys"),
    ("decisions", "Decisions"),
    ("mesh", "Mesh"),
    ("rules", "Rules"),
    ("explain", "Explain"),
    ("what-if", "What if"),
    ("configuration", "Configuration"),
];

/// The maximum number of Tab stops on a page.
const MOST_STOPS: usize = 150;

pub(crate) struct Dashboard {
    pub(crate) browser: Browser,
    origin: String,
}

impl Dashboard {
    /// Opens it without waiting for data.
    pub(crate) async fn at(admin: SocketAddr) -> Self {
        Self::with(&admin.to_string(), "").await
    }

    /// Opens it by a host name, with a script that runs before the page's own.
    pub(crate) async fn with(host: &str, more: &str) -> Self {
        let mut browser = Browser::start().await;
        let script = "window.violations = []; addEventListener('securitypolicyviolation', event => \
                      window.violations.push(event.violatedDirective + ' ' + event.blockedURI));";
        let script = format!("{script}\n{more}");
        browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})).await;
        let origin = format!("http://{host}");
        let url = format!("{origin}/");
        let mut page = Self { browser, origin };
        page.set_size(1280, 900).await;
        page.browser.go(&url).await;
        page
    }

    /// Opens it and waits until the event stream is connected.
    pub(crate) async fn live(admin: SocketAddr) -> Self {
        let mut page = Self::at(admin).await;
        page.until("document.body.dataset.link === 'live'").await;
        page
    }

    pub(crate) async fn until(&mut self, expression: &str) {
        self.browser.until(expression).await;
    }

    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        self.browser.value(expression).await
    }

    /// Opens a view by its name in the URL.
    pub(crate) async fn view(&mut self, name: &str) {
        let (_, heading) = VIEWS.iter().find(|(view, _)| *view == name).expect("a view");
        self.value(&format!("location.hash = '#/{name}'")).await;
        self.until(&format!("document.querySelector('h1').textContent === '{heading}'")).await;
    }

    /// The text of the main area.
    pub(crate) async fn text(&mut self) -> String {
        self.value("document.querySelector('main').innerText").await.as_str().unwrap().to_owned()
    }

    /// Waits for a text in the main area.
    pub(crate) async fn wait_for(&mut self, text: &str) {
        self.until(&format!("document.querySelector('main').innerText.includes({})", json!(text))).await;
    }

    /// Clicks the first matching element with this text.
    pub(crate) async fn click(&mut self, selector: &str, text: &str) {
        let found = format!(
            "[...document.querySelectorAll({})].find(one => one.textContent.includes({}))",
            json!(selector),
            json!(text)
        );
        self.until(&format!("Boolean({found})")).await;
        self.value(&format!("{found}.click()")).await;
    }

    /// Fills a field, by the text of its label.
    pub(crate) async fn fill(&mut self, label: &str, nth: usize, text: &str) {
        let field = format!(
            "document.getElementById([...document.querySelectorAll('label')].filter(one => one.textContent === {})[{nth}].htmlFor)",
            json!(label)
        );
        let filled = format!(
            "(() => {{ const field = {field}; field.value = {}; \
             for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{bubbles: true}})); }})()",
            json!(text)
        );
        self.value(&filled).await;
    }

    /// Presses a key.
    pub(crate) async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            " " => (32, " "),
            "Escape" => (27, ""),
            other => panic!("the key {other} is not supported here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.browser.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types a text into the focused element.
    pub(crate) async fn write(&mut self, text: &str) {
        self.browser.call("Input.insertText", json!({"text": text})).await;
    }

    /// Presses Tab until the expression is true for the focused element `at`; the focus must be visible at
    /// every stop.
    pub(crate) async fn tab_to(&mut self, expression: &str) {
        for _ in 0..MOST_STOPS {
            self.press("Tab").await;
            let stop = format!(
                "(at => ({{found: Boolean({expression}), isVisible: at === document.body || getComputedStyle(at).outlineStyle !== 'none', \
                 at: at.outerHTML.slice(0, 200)}}))(document.activeElement)"
            );
            let stop = self.value(&stop).await;
            assert_eq!(stop["isVisible"], true, "the focus is not visible at {}", stop["at"]);
            if stop["found"] == true {
                return;
            }
        }
        panic!("Tab does not reach {expression}");
    }

    /// Sets the size of the window.
    pub(crate) async fn set_size(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.browser.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Emulates a system color scheme.
    pub(crate) async fn set_color_scheme(&mut self, scheme: &str) {
        self.set_media_feature("color-scheme", scheme).await;
    }

    /// Emulates one media feature and resets all others.
    pub(crate) async fn set_media_feature(&mut self, what: &str, how: &str) {
        let features = json!([{"name": format!("prefers-{what}"), "value": how}]);
        self.browser.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// The URLs that were requested.
    pub(crate) fn requested_urls(&self) -> impl Iterator<Item = &str> {
        self.browser.happened("Network.requestWillBeSent").filter_map(|sent| sent["request"]["url"].as_str())
    }

    /// Asserts that no foreign code ran, nothing failed, and no other origin was contacted.
    pub(crate) async fn assert_clean(&mut self) {
        assert_eq!(self.value("window.violations").await, json!([]), "the policy was violated");
        assert_eq!(self.browser.happened("Page.javascriptDialogOpening").count(), 0, "a dialog was opened");
        let thrown: Vec<&Value> = self.browser.happened("Runtime.exceptionThrown").collect();
        assert!(thrown.is_empty(), "{thrown:?}");
        let logged = self.browser.happened("Log.entryAdded").map(|event| &event["entry"]);
        let logged: Vec<&Value> = logged.filter(|entry| entry["source"] == "security").collect();
        assert!(logged.is_empty(), "{logged:?}");
        for sent in self.browser.happened("Network.requestWillBeSent") {
            let url = sent["request"]["url"].as_str().unwrap();
            assert!(url.starts_with(&self.origin) || url == "about:blank", "{url} was requested");
        }
    }
}
