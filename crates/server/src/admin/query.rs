//! The query of a URL, by names that are known: what is misspelt must not be taken for "all of them".

use super::API;
use super::reply::no_question;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// The names and values of a query, each at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what stands after the `?`.
    ///
    /// # Errors
    /// What to ask instead.
    pub(super) fn read(raw: Option<&str>, known: &[&str]) -> Result<Self, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decoded(name).zip(decoded(value));
            let (name, value) =
                decoded.ok_or("The query is no UTF-8, or a `%` is not followed by two digits.")?;
            if !known.contains(&name.as_str()) {
                return Err(format!("Of a query, {}.", listed(known)));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("`{name}` is there twice."));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What reads its query itself.
const WITH_QUERY: [&str; 5] =
    ["/api/v1/blocks", "/api/v1/decisions", "/api/v1/limits", "/api/v1/rules", "/api/v1/top"];

/// Wherever there is no query, one is refused: whoever asks for `?domain=` must not take all domains for this one.
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
        return "nothing is known here: leave it out".to_owned();
    }
    format!("{} and nothing else is known here", names.join(", "))
}

/// As browsers write forms: a plus for a space, and `%` with two digits for everything else.
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

    // Seen failing on: an unknown name that was passed over.
    #[test]
    fn a_query_is_read_by_its_known_names_and_refused_with_what_is_known() {
        let query = Query::read(Some("q=a+b%2Bc%C3%A9&domain="), &["q", "domain", "limit"]).unwrap();
        assert_eq!(
            (query.get("q"), query.get("domain"), query.get("limit")),
            (Some("a b+cé"), Some(""), None)
        );
        assert_eq!(Query::read(None, &[]).unwrap(), Query(Vec::new()));
        let none = Query::read(Some("x=1"), &[]).unwrap_err();
        assert_eq!(none, "Of a query, nothing is known here: leave it out.");
        for (wrong, told) in [
            ("dom=x", "`q`, `domain`"),
            ("q=1&q=2", "twice"),
            ("q=%2", "two digits"),
            ("q=%ff", "no UTF-8"),
            ("%", "`%`"),
        ] {
            let error = Query::read(Some(wrong), &["q", "domain"]).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
