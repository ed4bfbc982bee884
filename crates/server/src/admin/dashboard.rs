//! The dashboard at `/`: files that are part of the binary. There is no data in them, so they need no token; what they
//! show they ask the API for, which asks who they are.
//!
//! A browser runs no script but these, takes no style but these, and asks no host but this one. What it needs to paint
//! is in the page itself: a browser that had to ask for it first would show nothing meanwhile. The policy names it by
//! its digest, so that nothing else in the page counts as style or script.

use super::{Admin, etag};
use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// With each file, whatever it is.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // It is asked for each time whether it has changed: an upgrade is seen at once.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const DRAWING: &str = "image/svg+xml";

/// A file of the page: where it is, what it is, and what is in it.
type File = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($kind:ident: $($name:literal)*;)*) => {
        &[$($((concat!("/assets/", $name), $kind, include_str!(concat!("../../dashboard/", $name))),)*)*]
    };
}

/// What is painted first.
const STYLE: &str =
    concat!(include_str!("../../dashboard/style.css"), include_str!("../../dashboard/parts.css"));
/// What has to run before it is.
const FIRST_SCRIPT: &str = include_str!("../../dashboard/first.js");
const ICON: &str = include_str!("../../dashboard/icon.svg");
/// Where they belong: the comments in the page that say so.
const PLACE: &str = "<!-- style.css, parts.css and first.js: in the page itself, so that it is painted with its first answer. -->";
const ICON_PLACE: &str = "<!-- icon.svg -->";
const BARE_PAGE: &str = include_str!("../../dashboard/index.html");
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
    // A page without its policy would be worse than none.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

const ASSETS: &[File] = assets! {
    DRAWING: "icon.svg";
    SCRIPT: "api.js" "app.js" "chart.js" "config.js" "confirm.js" "credential.js" "decisions.js" "descriptor.js" "dom.js" "explain.js"
        "format.js" "history.js" "key.js" "keys.js" "limits.js" "live.js" "map.js" "matters.js" "mesh.js" "outlook.js" "refusals.js" "rules.js"
        "sha256.js" "table.js" "token.js" "traffic.js" "whatif.js" "yaml.js";
};

pub(super) fn routes() -> Router<Admin> {
    files().fold(Router::new(), |router, (path, kind, text)| {
        let tag = etag::tag(text.as_bytes());
        router.route(path, get(async move |headers: HeaderMap| answer(&headers, &tag, kind, text)))
    })
}

/// The page, and what it asks for.
fn files() -> impl Iterator<Item = File> {
    std::iter::once(("/", HTML, PAGE.as_str())).chain(ASSETS.iter().copied())
}

/// A text in the page, as its policy names it.
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

    // Seen failing on: a module that is imported and not in the list.
    #[test]
    fn whatever_a_file_of_the_page_asks_for_is_served() {
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
                assert!(served.contains(&wanted.as_str()), "{path} asks for {wanted}");
            }
        }
        // And each module is asked for at once, not one after the other.
        for script in served.iter().filter(|path| path.rsplit('.').next() == Some("js")) {
            assert!(PAGE.contains(&format!("\"{script}\"")), "{script}");
        }
    }

    // Seen failing on: a `style` attribute in index.html, and `innerHTML` in dom.js.
    #[test]
    fn nothing_in_the_page_needs_what_its_policy_forbids() {
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
            // A drawing names what it is by an address that nobody calls.
            let hosts = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !hosts.contains("http://") && !hosts.contains("https://") && !hosts.contains("@import"),
                "{path}"
            );
            assert!(kind == HTML || text.lines().count() <= 300, "{path}");
        }
    }

    // Seen failing on: a tag that is compared with its quotes taken off; a star that is taken for another's tag.
    #[test]
    fn who_has_a_file_already_is_told_so() {
        let (kind, text) = (HTML, PAGE.as_str());
        let own = etag::tag(text.as_bytes());
        let whole = answer(&HeaderMap::new(), &own, kind, text);
        assert_eq!((whole.status(), &whole.headers()[header::ETAG]), (StatusCode::OK, &own));
        for (known, status) in [("\"other\"", 200), ("*", 304), (own.to_str().unwrap(), 304)] {
            let asked =
                HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap())]);
            let told = answer(&asked, &own, kind, text);
            assert_eq!(told.status().as_u16(), status, "{known}");
            assert_eq!(told.headers()[header::CONTENT_SECURITY_POLICY], *POLICY);
        }
    }
}
