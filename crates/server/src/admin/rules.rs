//! `GET /api/v1/rules`: the rules in force with their places, in the order of declaration.

use super::Admin;
use super::page::Page;
use super::query::{Query, no_question};
use super::reply::ok;
use super::time::period_ms;
use crate::ruleset::{Extras, Ruleset};
use crate::storage::OnError;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use hivemind_core::rules::Budget;
use hivemind_core::store::Mode;
use hivemind_core::{Limit, Matcher, Rule};
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/rules", get(list))
}

async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let asked = Query::read(query.as_deref(), &["domain", "q", Page::NAMES[0], Page::NAMES[1]]);
    let page = asked.and_then(|query| {
        let page = Page::of(&query)?;
        let first = page.after::<usize>()?.map_or(0, |last| last.saturating_add(1));
        let shown = admin.service.0.with_ruleset(|ruleset, hits| {
            let found = Rules { ruleset, hits, domain: query.get("domain"), sought: query.get("q") };
            page.of_items(found.from(first))
        });
        Ok(shown)
    });
    page.map_or_else(|detail| no_question(&detail), |page| ok(&page))
}

/// Those that are asked for.
struct Rules<'a> {
    ruleset: &'a Ruleset,
    hits: &'a dyn Fn(usize) -> (u64, u64),
    domain: Option<&'a str>,
    sought: Option<&'a str>,
}

impl Rules<'_> {
    fn from(&self, first: usize) -> impl Iterator<Item = (usize, Value)> {
        let sought = self.sought.unwrap_or_default().to_lowercase();
        let declared = self.ruleset.rules.declarations().enumerate().skip(first);
        let asked_for = declared.filter(move |(_, (domain, path, rule))| {
            self.domain.is_none_or(|only| only == *domain) && has(&sought, domain, path, *rule)
        });
        asked_for.map(|(number, _)| (number, shown(self.ruleset, self.hits, number)))
    }
}

/// Whether a rule has this text anywhere, in whichever case.
fn has(sought: &str, domain: &str, path: &[Matcher], rule: Option<&Rule>) -> bool {
    let of_path = path.iter().flat_map(|matcher| [Some(matcher.key()), matcher.value()]);
    let name = rule.and_then(|rule| rule.name.as_deref());
    let mut texts = [Some(domain), name].into_iter().chain(of_path).flatten();
    sought.is_empty() || texts.any(|text| text.to_lowercase().contains(sought))
}

/// A rule, by its number.
pub(super) fn shown(ruleset: &Ruleset, hits: &dyn Fn(usize) -> (u64, u64), number: usize) -> Value {
    let Some((domain, path, rule)) = ruleset.rules.declaration(number) else { return Value::Null };
    let path: Vec<Value> =
        path.iter().map(|matcher| json!({"key": matcher.key(), "value": matcher.value()})).collect();
    let limits: Vec<Value> = rule.and_then(Rule::limits).unwrap_or_default().iter().map(limit).collect();
    let nothing = Extras::default();
    let extras = ruleset.extras.get(number).unwrap_or(&nothing);
    // What only lets pass is counted by nobody.
    let (ok, over_limit) = if rule.is_some() { hits(number) } else { (0, 0) };
    json!({
        "id": number,
        "domain": domain,
        "path": path,
        "limits": limits,
        "unlimited": rule.is_some_and(|rule| rule.budget == Budget::Unlimited),
        "mode": mode(rule.map(|rule| rule.mode).unwrap_or_default()),
        "name": rule.and_then(|rule| rule.name.as_ref()),
        "file": &*extras.place.file,
        "line": extras.place.line,
        "on_error": extras.on_error.and_then(word),
        "ok": ok,
        "over_limit": over_limit,
    })
}

/// A limit, as every page of the API shows it.
pub(super) fn limit(limit: &Limit) -> Value {
    json!({
        "algorithm": algorithm(limit),
        "requests": limit.requests(),
        "period_ms": period_ms(limit.period()),
        "burst": limit.burst(),
    })
}

fn algorithm(limit: &Limit) -> &'static str {
    match limit {
        Limit::FixedWindow(_) => "fixed_window",
        Limit::SlidingWindow(_) => "sliding_window",
        // The other ones are a bucket's.
        _ => "token_bucket",
    }
}

fn word(on_error: OnError) -> Option<&'static str> {
    OnError::CHOICES.iter().find(|(_, known)| *known == on_error).map(|(word, _)| *word)
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Quota => "quota",
    }
}
