//! `GET /api/v1/rules`: the rules in force with their places, in the order of declaration.

use super::guard::Visitor;
use super::page::{Numbered, Page};
use super::query::Query;
use super::reply::{no_question, ok};
use super::{Admin, limit};
use crate::ruleset::{Extras, Ruleset};
use crate::storage::OnError;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use hivemind_core::rules::Budget;
use hivemind_core::{Matcher, Rule};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/rules", get(list))
}

impl Admin {
    /// Below what files are named to somebody; none: to those whole who may know what this machine's folders are called.
    pub(super) fn root_for(&self, visitor: &Visitor) -> Option<&Path> {
        self.about.rules.as_deref().filter(|_| !visitor.sees_clients)
    }
}

async fn list(
    State(admin): State<Admin>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(query): RawQuery,
) -> Response {
    let root = admin.root_for(&visitor);
    let asked = Query::read(query.as_deref(), &["domain", "q", Page::NAMES[0], Page::NAMES[1]]);
    let page = asked.and_then(|query| {
        let page = Page::of(&query)?;
        admin.service.0.with_ruleset(|ruleset, hits| {
            let (domain, sought) = (query.get("domain"), query.get("q"));
            let found = Rules { ruleset, hits, root, domain, sought };
            let list = found.list();
            let first = page.first_of(list)?;
            Ok(page.of_items(found.from(first).map(|(number, rule)| (Numbered { list, number }, rule))))
        })
    });
    page.map_or_else(|detail| no_question(&detail), |page| ok(&page))
}

/// Those that are asked for.
struct Rules<'a> {
    ruleset: &'a Ruleset,
    hits: &'a dyn Fn(usize) -> (u64, u64),
    root: Option<&'a Path>,
    domain: Option<&'a str>,
    sought: Option<&'a str>,
}

impl Rules<'_> {
    /// Another number for rules whose numbers are others'.
    fn list(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (domain, path, _) in self.ruleset.rules.declarations() {
            domain.hash(&mut hasher);
            for matcher in path {
                (matcher.key(), matcher.value()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn from(&self, first: usize) -> impl Iterator<Item = (usize, Value)> {
        let sought = self.sought.unwrap_or_default().to_lowercase();
        let declared = self.ruleset.rules.declarations().enumerate().skip(first);
        let asked_for = declared.filter(move |(_, (domain, path, rule))| {
            self.domain.is_none_or(|only| only == *domain) && has(&sought, domain, path, *rule)
        });
        asked_for.map(|(number, _)| (number, shown((self.ruleset, self.root), self.hits, number)))
    }
}

/// Whether a rule has this text anywhere, in whichever case.
fn has(sought: &str, domain: &str, path: &[Matcher], rule: Option<&Rule>) -> bool {
    let of_path = path.iter().flat_map(|matcher| [Some(matcher.key()), matcher.value()]);
    let name = rule.and_then(|rule| rule.name.as_deref());
    let mut texts = [Some(domain), name].into_iter().chain(of_path).flatten();
    sought.is_empty() || texts.any(|text| text.to_lowercase().contains(sought))
}

/// A rule, by its number, with its file named below `root`.
pub(super) fn shown(
    (ruleset, root): (&Ruleset, Option<&Path>),
    hits: &dyn Fn(usize) -> (u64, u64),
    number: usize,
) -> Value {
    let Some((domain, path, rule)) = ruleset.rules.declaration(number) else { return Value::Null };
    let path: Vec<Value> =
        path.iter().map(|matcher| json!({"key": matcher.key(), "value": matcher.value()})).collect();
    let limits: Vec<Value> =
        rule.and_then(Rule::limits).unwrap_or_default().iter().map(limit::shown).collect();
    let nothing = Extras::default();
    let extras = ruleset.extras.get(number).unwrap_or(&nothing);
    let file = root.map_or_else(|| extras.place.file.to_string(), |root| extras.place.file_below(root));
    // What only lets pass is counted by nobody.
    let (ok, over_limit) = if rule.is_some() { hits(number) } else { (0, 0) };
    json!({
        "id": number,
        "domain": domain,
        "path": path,
        "limits": limits,
        "unlimited": rule.is_some_and(|rule| rule.budget == Budget::Unlimited),
        "mode": limit::mode(rule.map(|rule| rule.mode).unwrap_or_default()),
        "name": rule.and_then(|rule| rule.name.as_ref()),
        "file": file,
        "line": extras.place.line,
        "on_error": extras.on_error.and_then(word),
        "ok": ok,
        "over_limit": over_limit,
    })
}

fn word(on_error: OnError) -> Option<&'static str> {
    OnError::CHOICES.iter().find(|(_, known)| *known == on_error).map(|(word, _)| *word)
}
