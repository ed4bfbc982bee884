//! `GET /api/v1/rules`: the active rules with file and line, in the order of declaration.

use super::guard::Caller;
use super::page_query::{ListPosition, PageQuery};
use super::query::Query;
use super::reply::{no_question, ok};
use super::{Admin, limit};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use hivemind_core::rules::Budget;
use hivemind_core::{Matcher, Rule};
use hivemind_engine::ruleset::{Extras, Ruleset};
use hivemind_engine::storage::OnError;
use hivemind_telemetry::redact;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/rules", get(list))
}

impl Admin {
    pub(super) fn visibility_for(&self, caller: &Caller) -> RuleVisibility<'_> {
        let hides = !caller.sees_clients;
        RuleVisibility { root: self.about.rules.as_deref().filter(|_| hides), hides }
    }
}

/// The parts of a rule that a caller may see.
#[derive(Clone, Copy)]
pub(super) struct RuleVisibility<'a> {
    /// File names are relative to this folder; `None` shows full paths, to callers who may see them.
    pub(super) root: Option<&'a Path>,
    /// Whether credentials in rules are shown as hashes: a rule may contain the credential of one client.
    pub(super) hides: bool,
}

impl RuleVisibility<'_> {
    /// The value of a matcher, hashed if necessary.
    pub(super) fn value<'m>(&self, matcher: &'m Matcher) -> Option<Cow<'m, str>> {
        let value = matcher.value()?;
        Some(if self.hides { redact(matcher.key(), value).0 } else { value.into() })
    }

    pub(super) fn path(&self, path: &[Matcher]) -> Vec<Value> {
        path.iter().map(|matcher| json!({"key": matcher.key(), "value": self.value(matcher)})).collect()
    }
}

async fn list(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Response {
    let visibility = admin.visibility_for(&caller);
    let asked =
        Query::read(query.as_deref(), &["domain", "id", "q", PageQuery::NAMES[0], PageQuery::NAMES[1]]);
    let page = asked.and_then(|query| {
        let page = PageQuery::of(&query)?;
        let number =
            |text: &str| text.parse::<usize>().map_err(|_| "`id` must be the number of a rule.".to_owned());
        let only = query.get("id").map(number).transpose()?;
        admin.service.0.with_ruleset(|ruleset, hits| {
            let (domain, sought) = (query.get("domain"), query.get("q"));
            let found = SelectedRules { ruleset, hits, visibility, domain, only, sought };
            let list = found.list();
            let first = page.first_of(list)?;
            Ok(page.of_items(found.from(first).map(|(number, rule)| (ListPosition { list, number }, rule))))
        })
    });
    page.map_or_else(|detail| no_question(&detail), |page| ok(&page))
}

/// The rules that a request selects.
struct SelectedRules<'a> {
    ruleset: &'a Ruleset,
    hits: &'a dyn Fn(usize) -> (u64, u64),
    visibility: RuleVisibility<'a>,
    domain: Option<&'a str>,
    /// The number of the only rule.
    only: Option<usize>,
    sought: Option<&'a str>,
}

impl SelectedRules<'_> {
    /// Identifies a list: changes if an index means another rule.
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
        let asked_for = declared.filter(move |(number, (domain, path, rule))| {
            self.only.is_none_or(|only| only == *number)
                && self.domain.is_none_or(|only| only == *domain)
                && self.has(&sought, domain, path, *rule)
        });
        asked_for.map(|(number, _)| (number, shown((self.ruleset, self.visibility), self.hits, number)))
    }

    /// Whether a text occurs in the visible parts of a rule, ignoring case. Hidden values are matched as hashes, so
    /// that a search cannot recover them letter by letter.
    fn has(&self, sought: &str, domain: &str, path: &[Matcher], rule: Option<&Rule>) -> bool {
        let of_path =
            path.iter().flat_map(|matcher| [Some(matcher.key().into()), self.visibility.value(matcher)]);
        let name = rule.and_then(|rule| rule.name.as_deref()).map(Cow::from);
        let mut texts = [Some(domain.into()), name].into_iter().chain(of_path).flatten();
        sought.is_empty() || texts.any(|text: Cow<'_, str>| text.to_lowercase().contains(sought))
    }
}

/// A rule by its number.
pub(super) fn shown(
    (ruleset, visibility): (&Ruleset, RuleVisibility<'_>),
    hits: &dyn Fn(usize) -> (u64, u64),
    number: usize,
) -> Value {
    let Some((domain, path, rule)) = ruleset.rules.declaration(number) else { return Value::Null };
    let limits: Vec<Value> =
        rule.and_then(Rule::limits).unwrap_or_default().iter().map(limit::shown).collect();
    let nothing = Extras::default();
    let extras = ruleset.extras.get(number).unwrap_or(&nothing);
    let file =
        visibility.root.map_or_else(|| extras.place.file.to_string(), |root| extras.place.file_below(root));
    // A rule without a limit is not counted.
    let (ok, over_limit) = if rule.is_some() { hits(number) } else { (0, 0) };
    json!({
        "id": number,
        "domain": domain,
        "path": visibility.path(path),
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
