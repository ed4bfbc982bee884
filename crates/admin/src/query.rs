//! Query strings with known parameters: a misspelled one must not mean "all items".

use super::API;
use super::reply::no_question;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// The parameters of a query, each at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string.
    ///
    /// # Errors
    /// What to send instead.
    pub(super) fn read(raw: Option<&str>, known: &[&str]) -> Result<Self, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decoded(name).zip(decoded(value));
            let (name, value) =
                decoded.ok_or("The query is not UTF-8, or a `%` is not followed by two hex digits.")?;
            if !known.contains(&name.as_str()) {
                return Err(format!("Unknown query parameter; {}.", listed(known)));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("`{name}` is given twice."));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The routes that read their own query.
const WITH_QUERY: [&str; 5] =
    ["/api/v1/blocks", "/api/v1/decisions", "/api/v1/limits", "/api/v1/rules", "/api/v1/top"];

/// Rejects queries on all other routes: a client that sends `?domain=` must not take all items for that domain's.
pub(super) async fn known(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path.starts_with(API)
        && !WITH_QUERY.contains(&path)
        && let Err(detail) = Query::read(request.uri().query(), &[])
    {
        return no_question(&detail);
    }
    next.run(request).await
}

fn listed(known: &[&str]) -> String {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return "this path has none: omit the query".to_owned();
    }
    format!("known here: {}", names.join(", "))
}

/// Decodes form encoding: plus for a space, and `%` with two hex digits.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::Query;

    // Fails when an unknown parameter is ignored.
    #[test]
    fn query_with_unknown_parameter_lists_the_known() {
        let query = Query::read(Some("q=a+b%2Bc%C3%A9&domain="), &["q", "domain", "limit"]).unwrap();
        assert_eq!(
            (query.get("q"), query.get("domain"), query.get("limit")),
            (Some("a b+cé"), Some(""), None)
        );
        assert_eq!(Query::read(None, &[]).unwrap(), Query(Vec::new()));
        let none = Query::read(Some("x=1"), &[]).unwrap_err();
        assert_eq!(none, "Unknown query parameter; this path has none: omit the query.");
        for (wrong, expected) in [
            ("dom=x", "`q`, `domain`"),
            ("q=1&q=2", "twice"),
            ("q=%2", "two hex digits"),
            ("q=%ff", "not UTF-8"),
            ("%", "`%`"),
        ] {
            let error = Query::read(Some(wrong), &["q", "domain"]).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
