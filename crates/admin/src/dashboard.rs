//! Dashboard files at `/`, compiled into the binary. They contain no data and need no token: the page gets its data
//! from the API, which authenticates.
//!
//! The content security policy allows only these scripts and styles, and requests only to this host. Style and first
//! script are inline, because the page would be blank while a browser loads them. The policy names them by their
//! digests, so nothing else inline is executed.

use super::{Admin, etag};
use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Sent with each file.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // Revalidated on each request, so that an upgrade is visible immediately.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const DRAWING: &str = "image/svg+xml";

/// A file of the dashboard: path, content type and content.
type File = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($kind:ident: $($name:literal)*;)*) => {
        &[$($((concat!("/assets/", $name), $kind, include_str!(concat!("../dashboard/", $name))),)*)*]
    };
}

/// The styles of the first paint.
const STYLE: &str = concat!(include_str!("../dashboard/style.css"), include_str!("../dashboard/parts.css"));
/// The script that must run before the first paint.
const FIRST_SCRIPT: &str = include_str!("../dashboard/first.js");
const ICON: &str = include_str!("../dashboard/icon.svg");
/// The comments in the page that mark their places.
const PLACE: &str =
    "<!-- style.css, parts.css and first.js: inline, so that the first response can be painted. -->";
const ICON_PLACE: &str = "<!-- icon.svg -->";
const BARE_PAGE: &str = include_str!("../dashboard/index.html");
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page =
        BARE_PAGE.replacen(PLACE, &format!("<style>{STYLE}</style>\n<script>{FIRST_SCRIPT}</script>"), 1);
    page.replacen(ICON_PLACE, ICON.trim_end(), 1)
});

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src 'self' {}; style-src {}; connect-src 'self'; img-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        digest(FIRST_SCRIPT),
        digest(STYLE)
    );
    // A page without its policy would be unsafe; this fallback blocks everything.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

const ASSETS: &[File] = assets! {
    DRAWING: "icon.svg";
    SCRIPT: "api.js" "app.js" "chart.js" "config.js" "confirm.js" "credential.js" "decisions.js" "descriptor.js" "dom.js" "explain.js"
        "format.js" "history.js" "key.js" "keys.js" "limits.js" "live.js" "map.js" "mesh.js" "outlook.js" "problems.js" "refusals.js" "rules.js"
        "sha256.js" "table.js" "token.js" "traffic.js" "whatif.js" "yaml.js";
};

pub(super) fn routes() -> Router<Admin> {
    files().fold(Router::new(), |router, (path, kind, text)| {
        let tag = etag::tag(text.as_bytes());
        router.route(path, get(async move |headers: HeaderMap| answer(&headers, &tag, kind, text)))
    })
}

/// The page and its assets.
fn files() -> impl Iterator<Item = File> {
    std::iter::once(("/", HTML, PAGE.as_str())).chain(ASSETS.iter().copied())
}

/// The digest of an inline text, as the policy names it.
fn digest(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn answer(asked: &HeaderMap, tag: &HeaderValue, kind: &'static str, text: &'static str) -> Response {
    let mut response = if etag::is_known(asked, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    };
    response.headers_mut().extend(HEADERS);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    response.headers_mut().insert(header::ETAG, tag.clone());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when an imported module is missing from the list.
    #[test]
    fn dashboard_imports_and_links_are_served() {
        let served: Vec<&str> = ASSETS.iter().map(|(path, ..)| *path).collect();
        for (path, _, text) in files() {
            let imported = text
                .split("from \"./")
                .skip(1)
                .map(|rest| format!("/assets/{}", rest.split('"').next().unwrap()));
            let linked = text
                .split("=\"/assets/")
                .skip(1)
                .map(|rest| format!("/assets/{}", rest.split('"').next().unwrap()));
            for wanted in imported.chain(linked) {
                assert!(served.contains(&wanted.as_str()), "{path} needs {wanted}");
            }
        }
        // The page preloads each module, so that the browser loads them in parallel.
        for script in served.iter().filter(|path| path.rsplit('.').next() == Some("js")) {
            assert!(PAGE.contains(&format!("\"{script}\"")), "{script}");
        }
    }

    // Fails on a `style` attribute in index.html, or on `innerHTML` in dom.js.
    #[test]
    fn dashboard_complies_with_its_content_policy() {
        let has_handler = BARE_PAGE.match_indices(" on").any(|(at, _)| {
            let name = BARE_PAGE[at + 3..].trim_start_matches(|c: char| c.is_ascii_lowercase());
            name.starts_with('=')
        });
        assert!(!BARE_PAGE.contains(" style=") && !has_handler, "inline");
        assert_eq!(PAGE.matches("<style>").count(), 1, "one style, whose digest is in the policy");
        assert_eq!(PAGE.matches("<script>").count(), 1, "one script, whose digest is in the policy");
        for (path, kind, text) in files() {
            let forbidden =
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
            assert!(kind != SCRIPT || forbidden.iter().all(|word| !text.contains(word)), "{path}");
            // The XML namespace is not a host.
            let hosts = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !hosts.contains("http://") && !hosts.contains("https://") && !hosts.contains("@import"),
                "{path}"
            );
            assert!(kind == HTML || text.lines().count() <= 300, "{path}");
        }
    }

    // Fails when a tag is compared without its quotes, or when `*` does not match.
    #[test]
    fn dashboard_file_with_known_etag_returns_304() {
        let (kind, text) = (HTML, PAGE.as_str());
        let own = etag::tag(text.as_bytes());
        let whole = answer(&HeaderMap::new(), &own, kind, text);
        assert_eq!((whole.status(), &whole.headers()[header::ETAG]), (StatusCode::OK, &own));
        for (known, status) in [("\"other\"", 200), ("*", 304), (own.to_str().unwrap(), 304)] {
            let asked =
                HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap())]);
            let answered = answer(&asked, &own, kind, text);
            assert_eq!(answered.status().as_u16(), status, "{known}");
            assert_eq!(answered.headers()[header::CONTENT_SECURITY_POLICY], *POLICY);
        }
    }
}
